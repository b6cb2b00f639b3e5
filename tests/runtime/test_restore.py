"""What a dead kernel left: nothing acknowledged is lost, nothing committed runs again, every question still waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import create_model

import loomnb as loom
from loomnb.runtime import REGISTRY
from tests.helpers import at_rest, status_is
from tests.runtime import flows

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def _closed_gate() -> Iterator[None]:
    flows.GO.clear()
    flows.KEYS.clear()
    yield
    flows.GO.set()


def killed(path: Path, code: str, last_line: Callable[[str], bool]) -> list[str]:
    """Run code in a process of its own, kill it -9 at the line that says so; the lines it said."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import loomnb as loom\nfrom tests.runtime import flows\nsession = loom.open({str(path)!r})\n{code}",
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout
    lines: list[str] = []
    try:
        for line in process.stdout:
            lines.append(line.strip())
            if last_line(lines[-1]):
                process.send_signal(signal.SIGKILL)
                return lines
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    raise AssertionError(f"the process ended by itself after {lines}")


HANG = "import threading\nthreading.Event().wait()"


def the_run(session: loom.Loom) -> loom.Run:
    ((run_id,),) = session.sql("select run_id from runs").fetchall()
    return session.run(run_id)


def test_a_move_in_flight_at_the_kill_is_made_again_with_the_same_key(here: Path) -> None:
    lines = killed(here / "s.duckdb", f"session.start(flows.Killed)\n{HANG}", lambda line: line.startswith("key "))
    flows.GO.set()
    with loom.open(here / "s.duckdb") as session:
        run = the_run(session)
        at_rest(run)

        assert [f"key {k}" for k in flows.KEYS] == lines[-1:]
        assert (run.status, run.place, run.state) == ("waiting", "ask", {"first": 1, "second": 2})


def test_a_committed_move_is_not_made_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed(here / "s.duckdb", f"session.start(flows.Killed)\n{HANG}", lambda line: line.startswith("key "))
    flows.GO.set()
    with loom.open(here / "s.duckdb") as session:
        at_rest(the_run(session))

        assert "first" not in capsys.readouterr().out.splitlines()
        assert [(h.number, h.name) for h in the_run(session).history] == [(0, ""), (1, "first"), (2, "second")]


def test_nothing_of_the_move_in_flight_was_kept(here: Path) -> None:
    killed(here / "s.duckdb", f"session.start(flows.Killed)\n{HANG}", lambda line: line.startswith("key "))
    with loom.open(here / "s.duckdb") as session:
        run = the_run(session)

        assert run.state == {"first": 1}
        assert [d.content["text"] for d in run.documents] == ["kept"]
        flows.GO.set()
        at_rest(run)


REST = "import asyncio\nasyncio.run(run.settled())"
QUESTION = f"flows.GO.set()\nrun = session.start(flows.Killed)\n{REST}\nprint('rests', flush=True)\n{HANG}"


def test_a_question_outlives_its_kernel(here: Path) -> None:
    killed(here / "s.duckdb", QUESTION, lambda line: line == "rests")
    flows.GO.set()
    with loom.open(here / "s.duckdb") as session:
        (ask,) = session.pending()
        ask.answer({"sure": True})
        run = ask.run

        assert at_rest(run).status == "completed"
        assert run.result == {"data": {"sure": True}}
    assert flows.KEYS == []


def test_the_question_keeps_its_id(here: Path) -> None:
    code = QUESTION.replace("print('rests'", "print('id', run.pending[0].id, flush=True)\nprint('rests'")
    lines = killed(here / "s.duckdb", code, lambda line: line == "rests")
    flows.GO.set()
    with loom.open(here / "s.duckdb") as session:
        assert [f"id {p.id}" for p in session.pending()] == lines[-2:-1]


def test_an_answer_that_was_acknowledged_is_taken_after_the_kill(here: Path) -> None:
    """Killed in the move that the answer led to: it is made again with the same answer, and nobody is asked twice."""
    code = (
        "flows.GO.set()\nrun = session.start(flows.Killed)\nimport asyncio\nasyncio.run(run.settled())\n"
        f"flows.GO.clear()\nrun.answer('approve', [1, 'two'])\n{HANG}"
    )
    killed(here / "s.duckdb", code, lambda line: line == "approving")
    flows.GO.set()
    with loom.open(here / "s.duckdb") as session:
        run = the_run(session)

        assert at_rest(run).status == "completed"
        assert run.result == {"data": [1, "two"]}
        assert session.sql("select count(*) from asks").fetchall() == [(1,)]


def test_a_question_of_a_cell_outlives_its_kernel(here: Path) -> None:
    code = f"session.confirm('Go?', key='go')\nprint('rests', flush=True)\n{HANG}"
    killed(here / "s.duckdb", code, lambda line: line == "rests")
    with loom.open(here / "s.duckdb") as session:
        again = session.confirm("Go?", key="go")
        again.answer(True)

        assert at_rest(again).status == "completed"
        assert again.wait().is_confirmed
        assert len(session.pending()) == 0


RETRYING = f"run = session.start(flows.Retried)\nwhile run.status != 'retrying': pass\nprint('backs off', flush=True)\n{HANG}"


def test_a_pending_automatic_retry_survives_a_restart(here: Path) -> None:
    killed(here / "s.duckdb", RETRYING, lambda line: line == "backs off")
    with loom.open(here / "s.duckdb") as session:
        run = the_run(session)
        status_is(run, "retrying")

        assert run.retry_count == 1
        flows.GO.set()
        run.retry()
        assert at_rest(run).status == "completed"
        assert run.result == 1


def test_a_retry_that_fell_due_while_no_kernel_ran_is_made_at_once(here: Path) -> None:
    killed(here / "s.duckdb", RETRYING, lambda line: line == "backs off")
    flows.GO.set()

    class Later(type(loom.open.__globals__["SYSTEM"])):  # type: ignore[misc]  # the system's source, two hours on
        def now(self) -> Any:
            from datetime import timedelta

            return super().now() + timedelta(hours=2)

    with loom.open(here / "s.duckdb", source=Later()) as session:
        assert at_rest(the_run(session)).status == "completed"


# -- a definition that is not known yet ---------------------------------------------------------------


def forget(name: str) -> None:
    """As in a kernel that has not run the cell yet."""
    REGISTRY._known.pop(name, None)


def define(to: str = "review", answer: str = "approve") -> Any:
    def draft(self: Any) -> None:
        flows.GO.wait(20)
        self.assign_state(drafted=True)

    def wait(self: Any, state: Any, input: Any) -> None:  # noqa: A002
        self.set_result(input.data)

    body = {
        "draft": loom.transition(to=to)(draft),
        answer: loom.transition(from_=to, to="end", wait=True)(wait),
    }
    return loom.workflow(name="notes")(type("Notes", (loom.BaseWorkflow,), body))


def start_and_close(here: Path, rested: bool) -> str:
    """A run at its question, or in the middle of its first move; then the store is closed."""
    with loom.open(here / "s.duckdb") as session:
        run = session.start(define())
        if rested:
            flows.GO.set()
            at_rest(run)
        run_id = run.id
    forget("notes")
    flows.GO.set()
    return run_id


def test_a_run_whose_class_is_unknown_is_interrupted_and_names_it(here: Path) -> None:
    run_id = start_and_close(here, rested=False)
    with loom.open(here / "s.duckdb") as session:
        run = session.run(run_id)

        assert run.status == "interrupted"
        assert "'notes'" in run.advice


def test_it_goes_on_when_its_class_is_defined_again(here: Path) -> None:
    run_id = start_and_close(here, rested=False)
    with loom.open(here / "s.duckdb") as session:
        run = session.run(run_id)
        define()

        assert at_rest(run).status == "waiting"
        assert run.state == {"drafted": True}
        assert run.advice == ""


def test_waiting_for_it_says_which_class_to_define(here: Path) -> None:
    run_id = start_and_close(here, rested=False)
    with loom.open(here / "s.duckdb") as session, pytest.raises(loom.RunFailed, match="'notes'") as caught:
        session.run(run_id).wait(5)

    assert caught.value.code == "RUN_INTERRUPTED"


def test_a_retry_without_its_class_is_refused_and_changes_nothing(here: Path) -> None:
    run_id = start_and_close(here, rested=False)
    with loom.open(here / "s.duckdb") as session:
        run = session.run(run_id)
        with pytest.raises(loom.Refused, match="'notes'"):
            run.retry()

        assert run.status == "interrupted"


def test_an_interrupted_run_may_be_canceled(here: Path) -> None:
    run_id = start_and_close(here, rested=False)
    with loom.open(here / "s.duckdb") as session:
        session.run(run_id).cancel()

        assert session.run(run_id).status == "canceled"


def test_its_open_question_is_listed_but_takes_no_answer_yet(here: Path) -> None:
    run_id = start_and_close(here, rested=True)
    with loom.open(here / "s.duckdb") as session:
        run = session.run(run_id)
        assert [p.run.id for p in session.pending()] == [run_id]
        with pytest.raises(loom.AnswerRefused, match="'notes'"):
            run.answer("approve", 1)

        assert (run.status, len(run.pending)) == ("waiting", 1)


def test_its_question_takes_the_answer_once_the_class_is_defined(here: Path) -> None:
    run_id = start_and_close(here, rested=True)
    with loom.open(here / "s.duckdb") as session:
        define()
        run = session.run(run_id)
        run.answer("approve", 1)

        assert at_rest(run).status == "completed"
        assert run.result == 1


def test_a_class_that_lost_the_runs_place_leaves_it_alone_and_says_so(here: Path) -> None:
    run_id = start_and_close(here, rested=True)
    with loom.open(here / "s.duckdb") as session:
        define(to="elsewhere")
        run = session.run(run_id)

        assert "'review'" in run.advice
        with pytest.raises(loom.AnswerRefused):
            run.answer("approve", 1)
        assert run.status == "waiting"


def test_a_question_whose_transition_is_gone_takes_no_answer(here: Path) -> None:
    run_id = start_and_close(here, rested=True)
    with loom.open(here / "s.duckdb") as session:
        define(answer="other")
        run = session.run(run_id)
        with pytest.raises(loom.AnswerRefused):
            run.answer("approve", 1)

        assert run.status == "waiting"


def test_a_different_class_of_the_same_name_from_elsewhere_is_not_the_runs_own(here: Path) -> None:
    run_id = start_and_close(here, rested=False)
    with loom.open(here / "s.duckdb") as session:
        body = {"go": loom.transition(to="end")(lambda self: None), "__module__": "another_project"}
        loom.workflow(name="notes")(type("Notes", (loom.BaseWorkflow,), body))
        run = session.run(run_id)

        assert run.status == "interrupted"
        assert "another_project" in run.advice


def test_restore_lists_every_run_that_is_not_finished(here: Path) -> None:
    run_id = start_and_close(here, rested=True)
    with loom.open(here / "s.duckdb") as session:
        done = session.confirm("Done?")
        done.answer(True)
        at_rest(done)

        assert [r.id for r in session.restore()] == [run_id]


def test_looking_at_a_finished_run_does_not_make_it_unfinished(here: Path) -> None:
    with loom.open(here / "s.duckdb") as session:
        done = session.confirm("Done?")
        done.answer(True)
        at_rest(done)
        run_id = done.id
    with loom.open(here / "s.duckdb") as session:
        run = session.run(run_id)

        assert run.status == "completed"
        assert session.restore() == []


def test_one_run_that_cannot_be_read_does_not_block_the_others(here: Path) -> None:
    run_id = start_and_close(here, rested=True)
    with loom.open(here / "s.duckdb") as session:
        bad = [("run-bad", "run.started", '{"workflow":"notes","status":"running"}')]
        session.runtime.database.commit(bad)
    with loom.open(here / "s.duckdb") as session:
        assert set(session.runtime.unrecoverable) == {"run-bad"}
        assert [p.run.id for p in session.pending()] == [run_id]


def told(run: loom.Run) -> tuple[Any, ...]:
    return (
        *(run.status, run.waiting_for, run.place, run.state, run.result, run.error, run.error_code, run.has_error, run.traceback),
        *(run.retry_count, run.labels, run.key, run.args, run.title, [a.id for a in run.pending]),
        *([(h.number, h.name, h.place, h.status) for h in run.history], run.available_transitions),
    )


@pytest.mark.parametrize("ending", ["waiting", "completed", "failed", "error place", "canceled"])
def test_a_run_reads_the_same_after_a_restart(here: Path, ending: str) -> None:
    @loom.workflow(name="same", title="The same")
    class Same(loom.BaseWorkflow):
        @loom.transition(to="ask")
        def first(self) -> None:
            self.assign_state(a=[1, {"b": None}], **{"e.g.": 1})
            self.set_result({"early": True})

        @loom.transition(from_="ask", to="end", wait=True, error_place="broken" if ending == "error place" else None)
        def go(self, state: Any) -> None:
            self.assign_state(a=[*state["a"], 2])
            if ending != "completed":
                raise ValueError("no")

        @loom.transition(from_="broken", to="ask", wait=True)
        def repair(self) -> None: ...

    with loom.open(here / "s.duckdb") as session:
        run = session.start(Same, {"x": 1}, key="k", labels=["l"])
        at_rest(run)
        if ending in ("completed", "failed", "error place"):
            run.answer("go")
            at_rest(run)
        elif ending == "canceled":
            run.cancel()
        before, run_id = told(run), run.id
    with loom.open(here / "s.duckdb") as session:
        assert told(session.run(run_id)) == before


def test_a_failed_run_may_be_retried_after_a_restart(here: Path) -> None:
    with loom.open(here / "s.duckdb") as session:

        @loom.workflow(name="late")
        class Late(loom.BaseWorkflow):
            @loom.transition(to="ask")
            def first(self) -> None: ...

            @loom.transition(from_="ask", to="end", wait=True)
            def go(self, state: Any, input: Any, ctx: Any) -> None:  # noqa: A002
                if not flows.GO.is_set():
                    raise ValueError("no")
                self.set_result([input.data, ctx.execution.retry_count])

        run = session.start(Late)
        at_rest(run)
        run.answer("go", "mine")
        at_rest(run)
        run_id = run.id
    flows.GO.set()
    with loom.open(here / "s.duckdb") as session:
        run = session.run(run_id)
        run.retry()

        assert at_rest(run).status == "completed"
        assert run.result == ["mine", 1]


def test_a_run_whose_state_does_not_fit_the_new_schema_says_which_fields_differ(session: loom.Loom) -> None:
    """Running the cell again with another state schema: the waiting run is kept, and takes no answer until it fits."""

    def define(schema: Any) -> type[loom.BaseWorkflow[Any]]:
        @loom.workflow(name="reshaped", state_schema=schema)
        class ReshapedWorkflow(loom.BaseWorkflow[Any]):
            @loom.transition(to="asked")
            def begin(self, state: object) -> None:
                self.assign_state(count=1)

            @loom.transition(from_="asked", to="end", wait=True)
            def go(self, state: object) -> None: ...

        return ReshapedWorkflow

    run = session.start(define(create_model("Old", count=(int, ...))))
    at_rest(run)
    define(create_model("New", count=(int, ...), unit=(str, ...)))
    with pytest.raises(loom.AnswerRefused, match="unit"):
        run.answer("go", None)
    define(create_model("Old", count=(int, ...)))
    run.answer("go", None)

    assert at_rest(run).status == "completed"
