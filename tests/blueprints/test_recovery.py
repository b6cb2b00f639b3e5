"""What a restart finds of blueprints: nothing durable is lost, made twice or asked twice, and a person is told how to go on."""

from __future__ import annotations

import contextlib
import copy
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, create_model

import loomnb as loom
from loomnb.testing import Death, ScriptedModel
from tests.blueprints.recovering import (
    DONE,
    Disk,
    Gate,
    asking,
    blueprint,
    code_of,
    commits,
    in_code,
    kernel,
    kinds,
    only,
    question,
    started,
    try_,
)
from tests.helpers import PATIENCE, at_rest


@pytest.fixture
def path(here: Path) -> Path:
    return here / "s.duckdb"


def record(name: str, data: Any = None) -> dict[str, Any]:
    return {"type": "append_record", "id": name, "payload": {"flowName": "f", "stageName": "s", "data": data}}


def error_code(run: loom.FlowRun) -> str:
    error = run.view().last_error
    return error.code if error is not None else ""


def is_interrupted(run: loom.FlowRun) -> bool:
    return (run.view().status, error_code(run)) == ("failed", "RUN_INTERRUPTED")


# -- a question that waits ---------------------------------------------------------------------------


@pytest.mark.case("blueprints:RC-01")
def test_a_waiting_run_reads_the_same_in_the_next_kernel(path: Path) -> None:
    flow = blueprint(asking([]))
    with kernel(path) as session:
        before = started(session, flow).view()
    with kernel(path, flow) as session:
        assert only(session).view() == before


@pytest.mark.case("blueprints:RC-01")
def test_it_takes_no_answer_that_does_not_fit(path: Path) -> None:
    flow = blueprint(asking([]))
    with kernel(path) as session:
        before = started(session, flow).view()
    with kernel(path, flow) as session:
        run = only(session)

        assert code_of(lambda: run.answer({"isConfirmed": "yes"})) == "INVALID_REQUEST"
        assert run.view() == before


@pytest.mark.case("blueprints:RC-01")
def test_of_two_answers_it_takes_one(path: Path) -> None:
    effects: list[Any] = []
    flow = blueprint(asking(effects))
    with kernel(path) as session:
        action = started(session, flow).view().pending_action
        assert action is not None
    with kernel(path, flow) as session:
        run = only(session)
        barrier, told = threading.Barrier(2), []

        def answer() -> None:
            barrier.wait(PATIENCE)
            told.append(code_of(lambda: run.answer(action.id, True)))

        threads = [threading.Thread(target=answer) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        at_rest(run)

        assert sorted(told) == ["CONFLICT", "fine"]
        assert len([e for e in effects if e != "ask"]) == 1


@pytest.mark.case("blueprints:RC-01")
def test_the_answer_goes_to_recover_with_the_saved_state_and_the_code_runs_no_second_time(path: Path) -> None:
    effects: list[Any] = []
    initialized: list[str] = []

    def initialize(context: Any) -> Any:
        initialized.append(context.intent)
        return {"value": 0}

    flow = blueprint(asking(effects), initialize=initialize)
    with kernel(path) as session:
        started(session, flow)
    with kernel(path, flow) as session:
        run = only(session)
        run.answer({"isConfirmed": False, "feedback": "no"})
        view = at_rest(run)

        assert effects == ["ask", ["recover", "user_ask_confirmation", {"isConfirmed": False, "feedback": "no"}, {"value": 1}]]
        assert (view.status, initialized) == ("completed", ["do it"])


@pytest.mark.case("blueprints:RC-01", "blueprints:RC-06")
def test_a_finished_run_is_listed_in_the_next_kernel_and_not_taken_up(path: Path) -> None:
    effects: list[Any] = []
    flow = blueprint(asking(effects))
    with kernel(path) as session:
        started(session, flow)
    with kernel(path, flow) as session:
        run = only(session)
        run.answer(True)
        before = at_rest(run)
    with kernel(path, flow) as session:
        assert session.restore() == []
        assert only(session).view() == before
        assert len(effects) == 2


@pytest.mark.case("blueprints:RC-01")
def test_questions_are_recovered_with_their_request_and_the_answers_as_submitted(path: Path) -> None:
    got: list[Any] = []

    @loom.code
    async def ask(access: Any) -> loom.StepResult:
        await access.interaction.ask_questions([question("a"), question("b", options=[])])
        return DONE

    @ask.recover
    async def recover(saved: Any, access: Any) -> loom.StepResult:
        got.append(copy.deepcopy([saved.action.id, saved.action.kind, saved.action.request, saved.answer, saved.answers["a"]]))
        saved.answer.clear()
        saved.action.request.clear()
        return DONE

    flow = blueprint(ask)
    with kernel(path) as session:
        action = started(session, flow).view().pending_action
    with kernel(path, flow) as session:
        run = only(session)
        run.answer([{"questionId": n, "isSkipped": False, "answer": f" {n} "} for n in "ba"])
        at_rest(run)

    assert action is not None
    request = [
        {"id": "a", "question": "Which?", "isSkippable": False},
        {"id": "b", "question": "Which?", "isSkippable": False, "options": []},
    ]
    answer = [{"questionId": n, "isSkipped": False, "answer": f" {n} "} for n in "ba"]
    assert got == [[action.id, "user_ask_questions", request, answer, " a "]]


@pytest.mark.case("blueprints:RC-01")
def test_recover_may_be_a_member_of_any_callable_and_a_plain_def(path: Path) -> None:
    got: list[Any] = []

    class Ask:
        async def __call__(self, input: None, access: Any) -> dict[str, str]:  # noqa: A002  # the contract's word
            await access.interaction.confirm("Go?")
            return {"outcome": "complete"}

        @staticmethod
        def recover(saved: Any, access: Any) -> dict[str, str]:
            got.append([saved.confirmation.is_confirmed, access.state.value])
            return {"outcome": "complete"}

    flow = blueprint(Ask())
    with kernel(path) as session:
        started(session, flow)
    with kernel(path, flow) as session:
        run = only(session)
        run.answer(True)

        assert at_rest(run).status == "completed"
        assert got == [[True, {"value": 0}]]


@pytest.mark.case("blueprints:RC-02")
def test_an_answer_that_was_stored_reaches_recover_though_nothing_had_begun_with_it(path: Path) -> None:
    effects: list[Any] = []
    flow = blueprint(asking(effects))
    with kernel(path) as session:
        started(session, flow)
    death = Death(after=1)
    with kernel(path, flow, database=death) as session:
        with contextlib.suppress(loom.LoomError):
            only(session).answer(True)
        death.wait()
    with kernel(path, flow) as session:
        run = only(session)

        assert at_rest(run).status == "completed"
        assert effects == ["ask", ["recover", "user_ask_confirmation", {"isConfirmed": True}, {"value": 1}]]
        assert [r.id for r in session.restore().resumed] == [run.id]


@pytest.mark.case("blueprints:RC-02")
def test_an_answer_of_the_kernel_that_asked_is_kept_too_when_the_kernel_dies_before_the_code_goes_on(path: Path) -> None:
    """run.started, enter, began, State, question: 5 batches; the answer is the 6th."""
    effects: list[Any] = []
    flow = blueprint(asking(effects))
    death = Death(after=6)
    with kernel(path, database=death) as session:
        run = started(session, flow)
        with contextlib.suppress(loom.LoomError):
            run.answer(True)
        death.wait()
    with kernel(path, flow) as session:
        run = only(session)

        assert kinds(session, run.id).count("run.answered") == 1
        assert at_rest(run).status == "completed"
        assert effects[1:] == [["recover", "user_ask_confirmation", {"isConfirmed": True}, {"value": 1}]]


# -- what cannot go on by itself ---------------------------------------------------------------------


@pytest.mark.case("blueprints:DX-07")
def test_a_waiting_code_without_recover_is_interrupted_and_its_question_is_gone(path: Path) -> None:
    effects: list[Any] = []
    flow = blueprint(asking(effects, recovers=False))
    with kernel(path) as session:
        action = started(session, flow).view().pending_action
    with kernel(path, flow) as session:
        run = only(session)

        assert action is not None
        assert is_interrupted(run)
        assert (run.view().pending_action, len(session.pending())) == (None, 0)
        assert code_of(lambda: run.answer(action.id, True)) == "CONFLICT"
        assert effects == ["ask"]


@pytest.mark.case("blueprints:DX-07")
def test_such_a_run_may_be_retried_and_asks_anew(path: Path) -> None:
    effects: list[Any] = []
    flow = blueprint(asking(effects, recovers=False))
    with kernel(path) as session:
        first = started(session, flow).view().pending_action
    with kernel(path, flow) as session:
        run = only(session)
        run.retry()
        second = at_rest(run).pending_action
        run.answer(True)

        assert at_rest(run).status == "completed"
        assert (first is None, second is None) == (False, False)
        assert effects == ["ask", "ask", ["went on", True]]


@pytest.mark.case("blueprints:DX-08", "blueprints:DX-07")
def test_an_interrupted_run_is_told_as_interrupted_in_every_kernel_and_its_rows_are_left_alone(path: Path) -> None:
    flow = blueprint(asking([], recovers=False))
    with kernel(path) as session:
        run_id = started(session, flow).id
    told = []
    for _ in range(3):
        with kernel(path, flow) as session:
            run = only(session)
            assert [r.id for r in session.restore().interrupted] == [run_id]
            told.append((run.view(), kinds(session, run_id)))

    assert is_interrupted_view(told[0][0])
    assert told[0] == told[1] == told[2]


def is_interrupted_view(view: Any) -> bool:
    return (view.status, view.last_error.code) == ("failed", "RUN_INTERRUPTED")


def held(gate: Gate, effects: list[Any]) -> loom.Blueprint:
    """A code that commits, and then is held."""

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        effects.append("start")
        await access.state.update({"value": 1})
        await access.storage.commit([record("r", "written")])
        await gate()
        await access.state.update({"value": 2})
        return DONE

    return blueprint(start)


@pytest.mark.case("blueprints:RC-04")
def test_a_code_in_progress_is_interrupted_and_not_made_again_by_itself(path: Path) -> None:
    gate, effects = Gate(), []
    flow = held(gate, effects)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    with kernel(path, flow) as session:
        session.restore()
        run = only(session)

        assert is_interrupted(run)
        assert at_rest(run).status == "failed"
        assert effects == ["start"]
        assert kinds(session, run.id)[-1] == "run.interrupted"


@pytest.mark.case("blueprints:RC-04")
def test_it_says_how_to_go_on(path: Path) -> None:
    gate = Gate()
    flow = held(gate, [])
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    with kernel(path, flow) as session, pytest.raises(loom.RunFailed, match="retry") as caught:
        only(session).wait(PATIENCE)

    assert caught.value.code == "RUN_INTERRUPTED"


@pytest.mark.case("blueprints:RC-04")
def test_a_retry_goes_on_behind_what_is_on_record(path: Path) -> None:
    gate, effects = Gate(), []
    flow = held(gate, effects)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        run.retry()

        assert at_rest(run).status == "completed"
        assert effects == ["start", "start"]


# -- made again: what is on record is not done twice -------------------------------------------------


@pytest.mark.case("blueprints:RC-04")
def test_what_was_committed_is_not_committed_again(path: Path) -> None:
    gate = Gate()
    flow = held(gate, [])
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
        before = commits(session)
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        run.retry()
        at_rest(run)

        assert commits(session) == before == [("r", "written")]


def reading(gate: Gate, got: list[Any]) -> loom.Blueprint:
    """Reads in every way there is, makes one effect, and is held; then tells what it read."""

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        told = [
            await access.storage.get_artifact("f", "shelf"),
            await access.storage.get_artifact_by_id("a"),
            await access.storage.get_latest_record("f", "s"),
            await access.storage.get_record_by_id("none"),
            [a.data for a in (await access.storage.list_artifacts({"flowName": "f"})).data],
            [r.id for r in (await access.storage.list_records({"limit": 1})).data],
            await access.project.read("notes.txt"),
            dict(await access.project.snapshot()),
            access.state.value,
        ]
        await access.state.update({"value": 1})
        got.append(told)
        await gate()
        return DONE

    return blueprint(start)


def shelve(data: Any, revision: int | None = None) -> dict[str, Any]:
    payload = {"flowName": "f", "stageName": "shelf", "data": data}
    if revision is None:
        return {"type": "create_artifact", "id": "a", "payload": payload}
    return {"type": "replace_artifact", "id": "a", "expectedRevision": revision, "payload": payload}


@pytest.mark.case("blueprints:RC-04")
def test_what_it_read_is_read_again_as_it_was(path: Path, here: Path) -> None:
    gate, got = Gate(), []
    flow = reading(gate, got)
    project = here / "project"
    project.mkdir()
    (project / "notes.txt").write_text("old")
    with kernel(path) as session:
        session.storage.commit([shelve("old"), record("r1")]).wait()
        session.flow(flow, "x", project=project)
        gate.reached()
        artifact = session.storage.get_artifact_by_id("a").wait()
        assert artifact is not None
        session.storage.commit([shelve("new", artifact.revision), record("r2")]).wait()
        (project / "notes.txt").write_text("new")
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        run.retry()

        assert at_rest(run).status == "completed"
        assert got[1] == got[0]
        assert got[0][0].data == "old"
        assert got[0][6] == "old"


@pytest.mark.case("blueprints:RC-04")
def test_what_it_read_after_its_last_effect_is_read_anew(path: Path) -> None:
    """No effect followed from it: what is not on record never mattered to anybody."""
    gate, got = Gate(), []

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        await access.state.update({"value": 1})
        found = await access.storage.get_record_by_id("r")
        got.append(found.data if found is not None else None)
        await gate()
        return DONE

    flow = blueprint(start)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
        session.storage.commit([record("r", "new")]).wait()
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        run.retry()
        at_rest(run)

    assert got == [None, "new"]


REFUSALS: dict[str, tuple[Any, str, type[loom.LoomError]]] = {
    "a taken id": (lambda a: a.storage.commit([record("there")]), "CONFLICT", loom.Conflict),
    "a missing id": (lambda a: a.storage.commit([{"type": "remove_record", "id": "none"}]), "NOT_FOUND", loom.NotFound),
    "a State that is there": (lambda a: a.state.create({"value": 1}), "STAGE_STATE_EXISTS", loom.StepError),
    "a State that does not fit": (lambda a: a.state.update({"value": "x"}), "STAGE_STATE_INVALID", loom.StepError),
    "a file that is not there": (lambda a: a.project.read("none.txt"), "", loom.ProjectError),
}


@pytest.mark.case("blueprints:RC-04")
@pytest.mark.parametrize(("call", "code", "kind"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_was_refused_is_refused_again_in_the_same_way(
    path: Path, here: Path, call: Any, code: str, kind: type[Exception]
) -> None:
    gate, got = Gate(), []

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        try:
            await call(access)
        except Exception as exc:  # noqa: BLE001  # which one it is, is what this test is about
            got.append((type(exc), getattr(exc, "code", ""), getattr(exc, "retryable", False), str(exc).splitlines()[0]))
        await access.state.update({"value": 7})
        await gate()
        return DONE

    flow = blueprint(start, schema=create_model("S", value=(int, ...)))
    project = here / "project"
    project.mkdir()
    with kernel(path) as session:
        session.storage.commit([record("there")]).wait()
        session.flow(flow, "x", project=project)
        gate.reached()
        # What was in the way is there no more: it would be allowed now.
        session.storage.commit([{"type": "remove_record", "id": "there"}, record("none")]).wait()
        (project / "none.txt").write_text("there now")
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        run.retry()

        assert at_rest(run).status == "completed"
        assert got[0] == got[1]
        assert got[0][:2] == (kind, code)


@pytest.mark.case("blueprints:RC-04")
def test_a_refusal_that_nobody_caught_is_no_record_so_that_a_retry_can_succeed(session: loom.Loom) -> None:
    session.storage.commit([record("there")]).wait()

    async def body(access: Any) -> None:
        await access.state.update({"value": 1})
        await access.storage.commit([record("there", "mine")])

    run = started(session, in_code([], body))
    assert error_code(run) == "STEP_EXECUTION_FAILED"
    session.storage.commit([{"type": "remove_record", "id": "there"}]).wait()
    run.retry()

    assert at_rest(run).status == "completed"
    assert commits(session) == [("there", "mine")]


def told_apart(gate: Gate, what: list[str]) -> loom.Blueprint:
    """Does something else each time: `what` says what, outside of all records."""

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        if what[0] != "less":
            data = 2 if what[0] == "other arguments" else 1
            await access.storage.commit([record("r", data)])
        if what[0] in ("less", "another call"):
            if what[0] == "another call":
                await access.state.clear()
            return DONE
        await access.state.update({"value": 1})
        await gate()
        if what[0] == "more":
            await access.storage.commit([record("more")])
        return DONE

    return blueprint(start)


@pytest.mark.case("blueprints:RC-04")
@pytest.mark.parametrize("again", ["less", "other arguments", "another call"])
def test_a_code_that_does_something_else_when_it_is_made_again_fails_and_is_told_what_to_do(path: Path, again: str) -> None:
    gate, what = Gate(), ["as it was"]
    flow = told_apart(gate, what)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    gate.open()
    what[0] = again
    with kernel(path, flow) as session:
        run = only(session)
        run.retry()
        at_rest(run)

        assert error_code(run) == "STEP_REPLAY_DIVERGED"
        assert "retry(fresh=True)" in str(run.record.view.failure)
        assert commits(session) == [("r", 1)]


@pytest.mark.case("blueprints:RC-04")
def test_a_code_that_does_more_than_is_on_record_is_fine(path: Path) -> None:
    gate, what = Gate(), ["as it was"]
    flow = told_apart(gate, what)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    gate.open()
    what[0] = "more"
    with kernel(path, flow) as session:
        run = only(session)
        run.retry()

        assert at_rest(run).status == "completed"
        assert commits(session) == [("more", None), ("r", 1)]


@pytest.mark.case("blueprints:RC-04")
def test_a_code_that_catches_the_replay_error_fails_all_the_same(path: Path) -> None:
    gate, texts = Gate(), ["a"]

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        await try_(lambda: access.state.update({"value": texts[0]}))
        await gate()
        return DONE

    flow = blueprint(start)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    gate.open()
    texts[0] = "b"
    with kernel(path, flow) as session:
        run = only(session)
        run.retry()
        at_rest(run)

        assert error_code(run) == "STEP_REPLAY_DIVERGED"


@pytest.mark.case("blueprints:RC-04")
def test_beginning_anew_forgets_the_records_and_gives_the_state_of_the_beginning(path: Path) -> None:
    gate, seen = Gate(), []

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        seen.append(access.state.value)
        await access.state.update({"value": len(seen)})
        await access.storage.commit([record(f"r{len(seen)}")])
        await gate()
        return DONE

    flow = blueprint(start)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        run.retry(fresh=True)

        assert at_rest(run).status == "completed"
        assert seen == [{"value": 0}, {"value": 0}]
        assert [name for name, _ in commits(session)] == ["r1", "r2"]


@pytest.mark.case("blueprints:RC-04")
def test_beginning_anew_gives_the_state_of_the_beginning_of_the_step_and_not_of_the_stage(path: Path) -> None:
    gate, seen = Gate(), []

    @loom.code
    async def first(access: Any) -> loom.StepResult:
        await access.state.update({"value": "of the first step"})
        return DONE

    @loom.code
    async def second(access: Any) -> loom.StepResult:
        seen.append(access.state.value)
        await access.state.clear()
        await gate()
        return DONE

    flow = blueprint({"start": first, "then": second})
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        assert run.state is loom.ABSENT
        run.retry(fresh=True)
        at_rest(run)

    assert seen == [{"value": "of the first step"}] * 2


@pytest.mark.case("blueprints:RC-04")
def test_a_retry_that_dies_may_be_retried_again(path: Path) -> None:
    effects: list[Any] = []
    first, second = Gate(), Gate()

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        effects.append("start")
        await access.storage.commit([record("r1")])
        await first()
        await access.storage.commit([record("r2")])
        await second()
        await access.storage.commit([record("r3")])
        return DONE

    flow = blueprint(start)
    with kernel(path) as session:
        session.flow(flow, "x")
        first.reached()
    first.open()
    with kernel(path, flow) as session:
        only(session).retry()
        second.reached()
    second.open()
    with kernel(path, flow) as session:
        run = only(session)
        assert is_interrupted(run)
        run.retry()

        assert at_rest(run).status == "completed"
        assert commits(session) == [("r1", None), ("r2", None), ("r3", None)]
        assert len(effects) == 3


@pytest.mark.case("blueprints:RC-01", "blueprints:RC-04")
@pytest.mark.parametrize("phase", ["waiting", "executing", "initializing"])
def test_whoever_waits_for_a_run_when_its_kernel_shuts_down_hears_that_it_was_interrupted(path: Path, phase: str) -> None:
    gate = Gate()

    async def initialize(context: Any) -> Any:
        if phase == "initializing":
            await gate()
        return {"value": 0}

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        if phase == "waiting":
            await access.interaction.confirm("Go?")
        await gate()
        return DONE

    heard: list[str] = []
    with kernel(path) as session:
        run = session.flow(blueprint(start, initialize=initialize), "x")
        if phase == "waiting":
            at_rest(run)
        else:
            gate.reached()
        rows = kinds(session, run.id)

        def wait() -> None:
            try:
                run.wait(PATIENCE)
            except loom.LoomError as exc:
                heard.append(exc.code)

        waiting = threading.Thread(target=wait)
        if phase != "waiting":  # else it says at once that nobody can answer here
            waiting.start()
    if phase != "waiting":
        waiting.join(PATIENCE)
        assert heard == ["RUN_INTERRUPTED"]
    gate.open()

    assert is_interrupted(run)
    assert run.view().pending_action is None
    assert at_rest(run) == run.view()
    with kernel(path) as session:
        assert kinds(session, run.id) == [*rows, "run.interrupted"]  # the next kernel's; the one that went wrote nothing


@pytest.mark.case("blueprints:RC-04")
def test_what_a_code_does_when_its_kernel_shuts_down_is_not_on_record(path: Path) -> None:
    """Its `finally` finds everything over, as after a kill; else a retry would meet a call that its way on never makes."""
    gate, told, over = Gate(), [], threading.Event()

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        await access.state.update({"value": 1})
        try:
            await gate()
        finally:
            if not told:
                told.append(access.signal.aborted)
                told.append(await try_(lambda: access.storage.commit([record("late")])))
                over.set()
        return DONE

    flow = blueprint(start)
    with kernel(path) as session:
        run = session.flow(flow, "x")
        gate.reached()
    assert over.wait(PATIENCE)
    assert told == [True, "EXECUTION_OWNERSHIP_LOST"]
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        assert is_interrupted(run)
        assert commits(session) == []
        run.retry()
        assert at_rest(run).status == "completed"


@pytest.mark.case("blueprints:RC-04")
def test_a_code_that_swallows_the_end_of_its_kernel_changes_nothing(path: Path) -> None:
    gate, over = Gate(), threading.Event()

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        with contextlib.suppress(BaseException):
            await gate()
        over.set()
        return DONE

    flow = blueprint(start)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    assert over.wait(PATIENCE)
    gate.open()
    with kernel(path, flow) as session:
        assert is_interrupted(only(session))


# -- an answer that was given ------------------------------------------------------------------------


def going_on(gate: Gate, effects: list[Any], *, recovers: bool) -> loom.Blueprint:
    @loom.code
    async def ask(access: Any) -> loom.StepResult:
        effects.append("ask")
        verdict = await access.interaction.confirm("Go?")
        effects.append(verdict.is_confirmed)
        await gate()
        await access.storage.commit([record("r", verdict.feedback)])
        return DONE

    if recovers:

        @ask.recover
        async def recover(saved: Any, access: Any) -> loom.StepResult:
            effects.append("recover")
            await access.state.update({"value": "recovered"})
            await gate()
            await access.storage.commit([record("r", saved.confirmation.feedback)])
            return DONE

    return blueprint(ask)


@pytest.mark.case("blueprints:RC-04")
@pytest.mark.parametrize("recovers", [True, False])
def test_a_code_that_goes_on_with_its_answer_is_interrupted_and_a_retry_asks_nobody_again(path: Path, recovers: bool) -> None:
    gate, effects = Gate(), []
    flow = going_on(gate, effects, recovers=recovers)
    with kernel(path) as session:
        started(session, flow).answer({"isConfirmed": True, "feedback": "mine"})
        gate.reached()
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        assert is_interrupted(run)
        assert effects == ["ask", True]
        run.retry()

        assert at_rest(run).status == "completed"
        assert effects == ["ask", True, "ask", True]
        assert commits(session) == [("r", "mine")]
        assert kinds(session, run.id).count("ask.opened") == 1


@pytest.mark.case("blueprints:RC-02")
def test_an_interrupted_recover_is_interrupted_and_a_retry_recovers_again_with_the_same_answer(path: Path) -> None:
    gate, effects = Gate(), []
    flow = going_on(gate, effects, recovers=True)
    with kernel(path) as session:
        started(session, flow)
    with kernel(path, flow) as session:
        only(session).answer({"isConfirmed": True, "feedback": "mine"})
        gate.reached()
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        assert is_interrupted(run)
        assert effects == ["ask", "recover"]
        run.retry()

        assert at_rest(run).status == "completed"
        assert effects == ["ask", "recover", "recover"]
        assert commits(session) == [("r", "mine")]


@pytest.mark.case("blueprints:RC-02")
def test_beginning_anew_after_an_interrupted_recover_begins_the_step_with_its_question(path: Path) -> None:
    gate, effects = Gate(), []
    flow = going_on(gate, effects, recovers=True)
    with kernel(path) as session:
        started(session, flow)
    with kernel(path, flow) as session:
        only(session).answer(True)
        gate.reached()
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        assert run.state == {"value": "recovered"}
        run.retry(fresh=True)

        assert at_rest(run).status == "waiting"
        assert run.state == {"value": 0}
        run.answer(False)
        assert at_rest(run).status == "completed"
        assert effects == ["ask", "recover", "ask", False]


# -- what cannot be stored ---------------------------------------------------------------------------


def committing() -> loom.Blueprint:
    @loom.code
    async def start(access: Any) -> loom.StepResult:
        await access.storage.commit([record("r")])
        return DONE

    return blueprint({"start": start, "then": loom.code(lambda: DONE)})


def moving_on(rows: list[Any]) -> bool:
    return any(kind == "run.moved" and '"name":"start"' in body for _, kind, body in rows)


@pytest.mark.case("blueprints:RC-03")
def test_a_step_whose_end_cannot_be_stored_fails_the_run_and_its_commit_stays(path: Path) -> None:
    disk = Disk()
    disk.fails = moving_on
    with kernel(path, database=disk) as session:
        run = started(session, committing())

        assert error_code(run) == "RUN_CHECKPOINT_FAILED"
        assert commits(session) == [("r", None)]


@pytest.mark.case("blueprints:RC-03")
@pytest.mark.parametrize("where", ["the same kernel", "the next kernel"])
def test_it_goes_on_when_it_is_retried_and_does_nothing_twice(path: Path, where: str) -> None:
    disk, flow = Disk(), committing()
    disk.fails = moving_on
    with kernel(path, database=disk) as session:
        run = started(session, flow)
        disk.fails = lambda rows: False
        if where == "the same kernel":
            run.retry()
            at_rest(run)
    with kernel(path, flow) as session:
        run = only(session)
        if where == "the next kernel":
            assert is_interrupted(run)
            run.retry()

        assert at_rest(run).status == "completed"
        assert commits(session) == [("r", None)]


@pytest.mark.case("blueprints:RC-16")
def test_a_commit_that_failed_leaves_what_was_and_later_ones_work(path: Path) -> None:
    disk = Disk()
    with kernel(path, database=disk) as session:
        other = started(session, asking([]), name="other")
        disk.fails = moving_on
        run = started(session, committing())
        disk.fails = lambda rows: False
        other.answer(True)

        assert at_rest(other).status == "completed"
        assert error_code(run) == "RUN_CHECKPOINT_FAILED"


@pytest.mark.case("blueprints:RC-16")
@pytest.mark.parametrize("kind", ["step.began", "run.rested", "step.recorded"])
def test_what_cannot_be_stored_is_not_published_and_ends_the_call(path: Path, kind: str) -> None:
    disk, told, over = Disk(), [], threading.Event()

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        try:
            told.append(await try_(lambda: access.state.update({"value": 1})))
            told.append(await try_(lambda: access.interaction.confirm("Go?")))
            told.append(await try_(lambda: access.storage.get_record_by_id("r")))
            return DONE
        finally:
            over.set()

    disk.fails = lambda rows: any(k == kind for _, k, _ in rows)
    with kernel(path, database=disk) as session:
        run = started(session, start)

        assert error_code(run) == "RUN_CHECKPOINT_FAILED"
        assert (run.view().pending_action, len(session.pending())) == (None, 0)
        if kind != "step.began":
            assert over.wait(PATIENCE)
        assert (
            told
            == {
                "step.began": [],
                "step.recorded": ["RUN_CHECKPOINT_FAILED", "EXECUTION_OWNERSHIP_LOST", "EXECUTION_OWNERSHIP_LOST"],
                "run.rested": ["fine", "RUN_CHECKPOINT_FAILED", "EXECUTION_OWNERSHIP_LOST"],
            }[kind]
        )
        disk.fails = lambda rows: False
        run.retry()
        assert at_rest(run).status == "waiting"


@pytest.mark.case("blueprints:RC-16")
def test_a_run_whose_first_row_cannot_be_stored_is_none(path: Path) -> None:
    disk = Disk()
    disk.fails = lambda rows: any(k == "run.started" for _, k, _ in rows)
    with kernel(path, database=disk) as session:
        assert code_of(lambda: session.flow(committing(), "x")) == "RUN_CHECKPOINT_FAILED"
        assert session.flows() == []


@pytest.mark.case("blueprints:RC-16")
def test_an_answer_that_cannot_be_stored_was_not_given(path: Path) -> None:
    disk, effects = Disk(), []
    with kernel(path, database=disk) as session:
        run = started(session, asking(effects))
        before = run.view()
        disk.fails = lambda rows: any(k == "run.answered" for _, k, _ in rows)
        assert code_of(lambda: run.answer(True)) == "RUN_CHECKPOINT_FAILED"
        assert run.view() == before
        disk.fails = lambda rows: False
        run.answer(True)

        assert at_rest(run).status == "completed"
        assert effects == ["ask", ["went on", True]]


# -- other runs, bad rows, files ---------------------------------------------------------------------


@pytest.mark.case("blueprints:RC-10")
def test_of_two_waiting_runs_the_one_that_was_stopped_is_listed_as_that(path: Path) -> None:
    code = asking([])
    one, two = blueprint(code, name="one"), blueprint(code, name="two")
    with kernel(path) as session:
        first, second = started(session, one), started(session, two)
        second.cancel()
        before = first.view(), second.view()
    with kernel(path, one, two) as session:
        assert [r.id for r in session.restore()] == [first.id]
        assert tuple(r.view() for r in session.flows()) == before


BAD_ROWS: dict[str, tuple[str, str]] = {
    "a step's record without its calls": ("step.recorded", "{}"),
    "a row of an unknown status": ("run.rested", '{"place": "first/start", "status": "dreaming"}'),
    "a row without its place": ("run.rested", '{"status": "waiting"}'),
    "a row that is a list": ("run.rested", "[]"),
    "a question that is none": ("ask.opened", '{"id": 1}'),
}


@pytest.mark.case("blueprints:RC-08", "blueprints:DX-10")
@pytest.mark.parametrize(("kind", "body"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
@pytest.mark.parametrize("finished", [False, True])
def test_a_run_that_cannot_be_read_is_told_and_left_alone_and_the_others_are_restored(
    path: Path, kind: str, body: str, finished: bool
) -> None:
    code = asking([])
    good, bad = blueprint(code, name="good"), blueprint(code, name="bad")
    with kernel(path) as session:
        kept, lost = started(session, good), started(session, bad)
        if finished:
            lost.cancel()
        before = kept.view()
        session.runtime.database.commit([(lost.id, kind, body)])
        rows = kinds(session, lost.id)
    with kernel(path, good, bad) as session:
        restored = session.restore()

        assert [r.id for r in session.flows()] == [kept.id]
        assert only(session).view() == before
        assert (lost.id in restored.unrecoverable) or finished
        assert set(session.restore().unrecoverable) == {lost.id}
        assert code_of(lambda: session.run(lost.id)) == "STORAGE_ERROR"
        assert kinds(session, lost.id) == rows
        only(session).answer(True)
        assert at_rest(only(session)).status == "completed"


@pytest.mark.case("blueprints:RC-08")
def test_a_damaged_file_is_refused_and_left_as_it_is(path: Path) -> None:
    path.write_bytes(b"this is no store" * 1000)
    before = path.read_bytes()

    assert code_of(lambda: loom.Loom(str(path))) == "STORAGE_ERROR"
    assert path.read_bytes() == before


@pytest.mark.case("blueprints:RC-15")
def test_a_file_that_is_replaced_by_a_link_is_not_written_through(path: Path, here: Path) -> None:
    target = here / "somebody elses"
    target.write_text("mine")
    with kernel(path) as session:
        run = started(session, asking([]))
        path.rename(here / "moved away")
        path.symlink_to(target)
        with contextlib.suppress(loom.LoomError):
            run.answer(True)
            at_rest(run)
        path.unlink()
        (here / "moved away").rename(path)

    assert target.read_text() == "mine"


@pytest.mark.case("blueprints:RC-14")
def test_a_folder_that_is_removed_is_not_made_again(here: Path) -> None:
    folder = here / "store"
    folder.mkdir()
    with kernel(folder / "s.duckdb") as session:
        run = started(session, asking([]))
        folder.rename(here / "gone")
        with contextlib.suppress(loom.LoomError):
            run.answer(True)
            at_rest(run)
        made = folder.exists()
        if not made:
            (here / "gone").rename(folder)

    assert not made


# -- State -------------------------------------------------------------------------------------------


class Plus:
    """A schema that makes a number of a text, and one more of it."""

    def parse(self, value: Any) -> int:
        return int(value) + 1


@pytest.mark.case("blueprints:RC-09")
@pytest.mark.parametrize("recovers", [True, False])
def test_a_state_is_not_transformed_again(path: Path, recovers: bool) -> None:
    seen: list[Any] = []

    @loom.code
    async def ask(access: Any) -> loom.StepResult:
        seen.append(access.state.value)
        await access.interaction.confirm("Go?")
        seen.append(access.state.value)
        return DONE

    if recovers:

        @ask.recover
        async def recover(saved: Any, access: Any) -> loom.StepResult:
            seen.append(access.state.value)
            return DONE

    flow = blueprint(ask, schema=Plus(), initialize=lambda context: "4")
    with kernel(path) as session:
        started(session, flow)
    with kernel(path, flow) as session:
        run = only(session)
        assert run.state == 5
        if not recovers:
            run.retry()
            at_rest(run)
        run.answer(True)
        at_rest(run)

    assert set(seen) == {5}


@pytest.mark.case("blueprints:RC-09")
def test_a_written_state_is_not_transformed_again_when_the_write_is_replayed(path: Path) -> None:
    gate, seen = Gate(), []

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        await access.state.update("40")
        seen.append(access.state.value)
        await gate()
        return DONE

    flow = blueprint(start, schema=Plus(), initialize=lambda context: "4")
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    gate.open()
    with kernel(path, flow) as session:
        run = only(session)
        run.retry()
        at_rest(run)

    assert seen == [41, 41]


@pytest.mark.case("blueprints:RC-09", "blueprints:DX-11")
def test_a_cleared_state_is_absent_in_the_next_kernel_and_recover_may_make_one(path: Path) -> None:
    seen: list[Any] = []

    @loom.code
    async def ask(access: Any) -> loom.StepResult:
        await access.state.clear()
        await access.interaction.confirm("Go?")
        return DONE

    @ask.recover
    async def recover(saved: Any, access: Any) -> loom.StepResult:
        seen.append(access.state.value)
        seen.append(await try_(lambda: access.state.update({"value": 1})))
        seen.append(await try_(lambda: access.state.create({"value": 1})))
        return DONE

    flow = blueprint(ask)
    with kernel(path) as session:
        started(session, flow)
    with kernel(path, flow) as session:
        run = only(session)
        assert run.state is loom.ABSENT
        run.answer(True)
        at_rest(run)

    assert seen == [loom.ABSENT, "STAGE_STATE_NOT_FOUND", "fine"]


@pytest.mark.case("blueprints:DX-05")
def test_a_kernel_that_dies_in_an_initializer_has_it_run_again_by_the_next(path: Path) -> None:
    gate, ran = Gate(), []

    async def initialize(context: Any) -> Any:
        ran.append(context.run_id)
        await gate()
        return {"value": 0}

    flow = blueprint(asking([]), initialize=initialize)
    with kernel(path) as session:
        run_id = session.flow(flow, "x").id
        gate.reached()
    gate.open()
    with kernel(path, flow) as session:
        assert at_rest(only(session)).status == "waiting"
        assert ran == [run_id, run_id]
        assert [r.id for r in session.restore().resumed] == [run_id]


@pytest.mark.case("blueprints:DX-05")
def test_a_kernel_that_dies_before_an_initializer_has_it_run_by_the_next(path: Path) -> None:
    ran: list[str] = []

    def initialize(context: Any) -> Any:
        ran.append(context.stage_name)
        return {"value": 0}

    code = loom.code(lambda: DONE)
    flow = blueprint(code, second={"finish": asking([])}, initialize=initialize)
    death = Death(after=4)  # started, entered, began, and over with its first stage
    with kernel(path, database=death) as session:
        session.flow(flow, "x")
        death.wait()
    ran.clear()
    with kernel(path, flow) as session:
        assert at_rest(only(session)).status == "waiting"
        assert only(session).view().cursor.stage_name == "second"
        assert ran == ["second"]


# -- a recover that asks again -----------------------------------------------------------------------


class Draft(BaseModel):
    env: str | None = None
    notes: list[str] = []
    ready: bool = False


def specifying(used: list[Any], recovered: list[str]) -> tuple[loom.Blueprint, ScriptedModel]:  # noqa: C901  # a whole flow
    """An agent reads State and says what is missing; a code asks for it; another has the draft confirmed, or reworked."""

    async def look(given: Any, access: Any) -> Any:
        used.append(access.state.value)
        return access.state.value

    tool = loom.define_agent_tool(id="look", description="See the draft.", input_schema=dict, output_schema=dict, execute=look)

    def turn(request: Any, number: int) -> Any:
        if number == 0:
            return [("look", {})]
        draft = request.messages[-1]["content"]
        return {"outcome": "clarify" if draft["env"] is None else "complete"}

    agent = loom.AgentSpec(name="writer", instructions="Write.", tools=[tool])

    @loom.code
    async def clarify(access: Any) -> loom.StepResult:
        return await clarified((await access.interaction.ask_questions([question("env")]))["env"], access)

    async def clarified(env: Any, access: Any) -> loom.StepResult:
        await access.state.update({**access.state.value, "env": env})
        return DONE

    @clarify.recover
    async def clarify_again(saved: Any, access: Any) -> loom.StepResult:
        recovered.append("clarify")
        return await clarified(saved.answers["env"], access)

    async def ask_for_it(access: Any) -> loom.StepResult:
        verdict = await access.interaction.confirm(f"Draft {len(access.state.value['notes'])}?")
        return await judged(verdict, access)

    async def judged(verdict: Any, access: Any) -> loom.StepResult:
        if verdict.is_confirmed and verdict.feedback:  # contradictory: it does not count
            return await ask_for_it(access)
        if verdict.is_confirmed:
            await access.state.update({**access.state.value, "ready": True})
            return DONE
        answers = await access.interaction.ask_questions([question("why", "Why not?")])
        return await reworked(answers["why"], access)

    async def reworked(why: Any, access: Any) -> loom.StepResult:
        await access.state.update({**access.state.value, "notes": [*access.state.value["notes"], why]})
        return loom.StepResult("rework")

    @loom.code
    async def confirm(access: Any) -> loom.StepResult:
        return await ask_for_it(access)

    @confirm.recover
    async def confirm_again(saved: Any, access: Any) -> loom.StepResult:
        recovered.append(saved.action.kind)
        if saved.action.kind == "user_ask_confirmation":
            return await judged(saved.confirmation, access)
        return await reworked(saved.answers["why"], access)

    @loom.code
    async def finalize(access: Any) -> loom.StepResult:
        payload = {"flowName": "spec", "stageName": "first", "data": access.state.value}
        create = {"type": "create_artifact", "id": "spec", "payload": payload}
        await access.storage.commit([create, {"type": "append_record", "id": "spec", "payload": payload}])
        await access.state.clear()
        return DONE

    step = loom.BlueprintStep
    first = loom.BlueprintStage(
        state_schema=Draft,
        initialize_state=lambda context: {},
        entry_step_name="analyze",
        steps={
            "analyze": step(execution=agent, on={"clarify": "clarify", "complete": "confirm"}),
            "clarify": step(execution=clarify, on={"complete": "analyze"}),
            "confirm": step(execution=confirm, on={"complete": "finalize", "rework": "analyze"}),
            "finalize": step(execution=finalize, on={"complete": loom.STAGE_END}),
        },
        on={"complete": loom.WORKFLOW_END},
    )
    return loom.Blueprint(flow_name="spec", entry_stage_name="first", stages={"first": first}), ScriptedModel(turn)


@pytest.mark.case("blueprints:RC-17")
def test_a_recover_that_asks_again_goes_on_over_five_restarts(path: Path) -> None:
    used, recovered = [], []
    flow, model = specifying(used, recovered)
    answers: list[tuple[str, Any]] = [
        ("user_ask_questions", {"env": "test"}),
        ("user_ask_confirmation", {"isConfirmed": False}),
        ("user_ask_questions", {"why": "too long"}),
        ("user_ask_confirmation", {"isConfirmed": True, "feedback": "but no"}),
        ("user_ask_confirmation", {"isConfirmed": True}),
    ]
    with kernel(path) as session:
        before = at_rest(session.flow(flow, "x", models=model))
    loom.use_models(model)
    try:
        for kind, answer in answers:
            with kernel(path, flow) as session:
                run = only(session)
                assert run.view() == before
                assert before.pending_action is not None
                assert before.pending_action.kind == kind
                run.answer(before.pending_action.id, answer)
                before = at_rest(run)
    finally:
        loom.use_models()

    assert before.status == "completed"
    assert len(used) == 3
    assert recovered == ["clarify", *(kind for kind, _ in answers[1:])]
    with kernel(path) as session:
        artifact = session.storage.get_artifact_by_id("spec").wait()
        assert artifact is not None
        assert artifact.data == {"env": "test", "notes": ["too long"], "ready": True}
        assert commits(session) == [("spec", artifact.data)]


# -- agents ------------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:RC-04")
def test_an_agent_that_was_interrupted_is_made_again_without_asking_its_model_again(path: Path) -> None:
    gate = Gate()
    used: list[Any] = []

    async def write(given: Any, access: Any) -> Any:
        used.append(given)
        await access.state.update({"value": "written"})
        await gate()
        return {}

    tool = loom.define_agent_tool(id="write", description="", input_schema=dict, output_schema=dict, execute=write)
    flow = blueprint(loom.AgentSpec(name="writer", instructions="Write.", tools=[tool]))
    first, second = ScriptedModel([[("write", {"a": 1})]]), ScriptedModel([None, {"outcome": "complete"}])
    with kernel(path) as session:
        session.flow(flow, "x", models=first)
        gate.reached()
    gate.open()
    loom.use_models(second)
    try:
        with kernel(path, flow) as session:
            run = only(session)
            assert is_interrupted(run)
            run.retry()
            assert at_rest(run).status == "completed"
    finally:
        loom.use_models()

    assert (len(first.requests), len(second.requests), len(used)) == (1, 1, 2)


# -- a crash after every commit ----------------------------------------------------------------------


def everything(effects: list[str], *, recovers: bool) -> loom.Blueprint:
    """Two stages, State writes, three commits of which one replaces what it read, a question, and a loop."""

    @loom.code
    async def write(access: Any) -> loom.StepResult:
        effects.append("write")
        await access.state.update({"value": access.state.value["value"] + 1})
        found = await access.storage.get_artifact("f", "count")
        payload = {"flowName": "f", "stageName": "count", "data": 1 if found is None else found.data + 1}
        if found is None:
            await access.storage.commit([{"type": "create_artifact", "id": "c", "payload": payload}])
        else:
            replace = {"type": "replace_artifact", "id": "c", "expectedRevision": found.revision, "payload": payload}
            await access.storage.commit([replace])
        await access.state.update({"value": access.state.value["value"] + 1})
        return loom.StepResult("again" if access.state.value["value"] < 4 else "complete")

    async def go_on(is_confirmed: bool, access: Any) -> loom.StepResult:
        await access.state.update({"value": [access.state.value["value"], is_confirmed]})
        await access.storage.commit([record("answered", access.state.value["value"])])
        return DONE

    @loom.code
    async def ask(access: Any) -> loom.StepResult:
        effects.append("ask")
        await access.state.update({"value": access.state.value["value"] * 10})
        return await go_on((await access.interaction.confirm("Go?")).is_confirmed, access)

    if recovers:

        @ask.recover
        async def recover(saved: Any, access: Any) -> loom.StepResult:
            effects.append("recover")
            return await go_on(saved.confirmation.is_confirmed, access)

    @loom.code
    async def finish(access: Any) -> loom.StepResult:
        effects.append("finish")
        latest = await access.storage.get_latest_record("f", "s")
        await access.storage.commit([record("the end", [latest.data, access.state.value])])
        await access.state.clear()
        return DONE

    return blueprint({"write": write, "ask": ask}, second={"finish": finish})


def to_its_end(session: loom.Loom, run: loom.FlowRun) -> None:
    """Do what a person does: answer what is asked, retry what was interrupted."""
    for _ in range(5):
        view = at_rest(run)
        if view.status == "waiting":
            run.answer(True)
        elif is_interrupted(run):
            run.retry()
        else:
            break
    assert run.view().status == "completed", run.view()


def left_behind(session: loom.Loom, run: loom.FlowRun) -> Any:
    """All that a run leaves, but ids and times."""
    revisions = session.sql("select artifact_id, revision, op, data from artifact_revisions order by change").fetchall()
    return revisions, commits(session), run.state, [(h.name, h.place) for h in run.history], run.result


def died(path: Path, flow: loom.Blueprint, death: Death) -> None:
    """A kernel that dies with its n-th commit, whatever a person is doing to the run meanwhile."""
    with contextlib.suppress(loom.StoreClosed), kernel(path, flow, database=death) as session:

        def live() -> None:
            with contextlib.suppress(Exception):  # of a kernel that is dead: whatever it meets, nobody hears of
                to_its_end(session, next(iter(session.flows()), None) or session.flow(flow, "x"))

        threading.Thread(target=live, daemon=True).start()
        death.wait()


@pytest.mark.slow
@pytest.mark.case("blueprints:RC-02", "blueprints:RC-03", "blueprints:RC-04", "blueprints:DX-05", "blueprints:DX-07")
@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("recovers", [True, False])
def test_whichever_commit_a_kernel_dies_with_the_end_is_the_same(here: Path, recovers: bool, acknowledged: bool) -> None:
    flow = everything([], recovers=recovers)
    counting = Death(after=10**6)
    with kernel(here / "whole.duckdb", database=counting) as session:
        run = session.flow(flow, "x")
        to_its_end(session, run)
        expected = left_behind(session, run)
    for n in range(1 if acknowledged else 2, counting.batches + 1):  # a start that is never heard of never returns
        path = here / f"{n}.duckdb"
        died(path, flow, Death(n, acknowledged=acknowledged))
        with kernel(path, flow) as session:
            session.restore()
            run = only(session)
            to_its_end(session, run)

            assert left_behind(session, run) == expected, f"died with commit {n}"
            assert kinds(session, run.id).count("run.answered") == 1, f"died with commit {n}"


@pytest.mark.slow
@pytest.mark.case("blueprints:RC-04")
def test_three_deaths_in_one_run_change_its_end_no_more_than_one(here: Path) -> None:
    flow = everything([], recovers=True)
    counting = Death(after=10**6)
    with kernel(here / "whole.duckdb", database=counting) as session:
        run = session.flow(flow, "x")
        to_its_end(session, run)
        expected = left_behind(session, run)
    for n in range(2, counting.batches - 3, 3):
        path = here / f"{n}.duckdb"
        died(path, flow, Death(n))
        died(path, flow, Death(2))
        died(path, flow, Death(1))
        with kernel(path, flow) as session:
            run = only(session)
            to_its_end(session, run)

            assert left_behind(session, run) == expected, f"died with commit {n}"
