"""Stopping a run: at once, whatever its code does, and for good. What was committed stays."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import ScriptedModel
from tests.blueprints.recovering import DONE, Disk, Gate, asking, blueprint, code_of, commits, in_code, kernel, started, try_
from tests.helpers import PATIENCE, at_rest, until


def is_stopped(run: loom.FlowRun) -> bool:
    """Whether the view says so now, without waiting."""
    view = run.view()
    return view.status == "failed" and view.last_error is not None and view.last_error.code == "RUN_STOPPED"


def record(name: str) -> dict[str, Any]:
    return {"type": "append_record", "id": name, "payload": {"flowName": "f", "stageName": "s", "data": name}}


# -- while it waits ----------------------------------------------------------------------------------


@pytest.mark.case("blueprints:CN-01")
def test_a_waiting_run_is_stopped_when_the_call_returns(session: loom.Loom) -> None:
    run = started(session, asking([]))
    before = run.view()
    run.cancel()

    assert is_stopped(run)
    assert (run.view().pending_action, run.view().cursor) == (None, before.cursor)


@pytest.mark.case("blueprints:CN-01")
def test_its_question_is_gone(session: loom.Loom) -> None:
    run = started(session, asking([]))
    action = run.view().pending_action
    run.cancel()

    assert action is not None
    assert code_of(lambda: run.answer(action.id, True)) == "CONFLICT"
    assert len(session.pending()) == 0


@pytest.mark.case("blueprints:CN-01")
def test_stopping_it_again_changes_nothing(session: loom.Loom) -> None:
    run = started(session, asking([]))
    run.cancel()
    before = run.view()
    run.cancel()

    assert run.view() == before


@pytest.mark.case("blueprints:CN-01")
def test_the_code_that_waits_is_told_and_can_do_nothing_any_more(session: loom.Loom) -> None:
    told: dict[str, Any] = {}
    over = threading.Event()

    async def body(access: Any) -> None:
        try:
            told["answer"] = await try_(lambda: access.interaction.confirm("Go?"))
            told["signal"] = access.signal.reason.code
            told["read"] = await try_(lambda: access.state.value)
            told["clear"] = await try_(access.state.clear)
            told["commit"] = await try_(lambda: access.storage.commit([]))
            told["storage"] = await try_(lambda: access.storage.get_artifact("f", "s"))
            told["confirm"] = await try_(lambda: access.interaction.confirm("Still?"))
        finally:
            over.set()

    run = started(session, in_code([], body))
    run.cancel()
    assert over.wait(PATIENCE)

    lost = "EXECUTION_OWNERSHIP_LOST"
    assert told == {
        "answer": "RUN_STOPPED",
        "signal": "RUN_STOPPED",
        "read": lost,
        "clear": lost,
        "commit": lost,
        "storage": lost,
        "confirm": lost,
    }
    assert is_stopped(run)


@pytest.mark.case("blueprints:CN-01")
def test_a_stopped_run_stays_stopped_after_a_restart(here: Any) -> None:
    code = asking([])
    with kernel(here / "s.duckdb", blueprint(code)) as session:
        run = started(session, code)
        run.cancel()
        before = run.view()
    with kernel(here / "s.duckdb", blueprint(code)) as session:
        assert session.restore() == []
        assert session.flows()[0].view() == before


# -- while it works ----------------------------------------------------------------------------------


@pytest.mark.case("blueprints:CN-02")
def test_an_initializer_that_has_not_ended_is_left_behind_at_once(session: loom.Loom) -> None:
    gate, ran, late = Gate(), [], threading.Event()

    async def initialize(context: Any) -> Any:
        try:
            await gate()
            return {"value": "late"}
        finally:
            late.set()

    async def start(access: Any) -> loom.StepResult:
        ran.append("start")
        return DONE

    run = session.flow(blueprint(loom.code(start), initialize=initialize), "x")
    gate.reached()
    run.cancel()
    assert is_stopped(run)
    before = run.view()
    gate.open()
    assert late.wait(PATIENCE)

    assert (at_rest(run), ran, run.state) == (before, [], loom.ABSENT)


@pytest.mark.case("blueprints:CN-02")
def test_the_initializer_of_a_later_stage_too(session: loom.Loom) -> None:
    gate = Gate()

    async def initialize(context: Any) -> Any:
        if context.stage_name == "second":
            await gate()
        return {"value": 0}

    step = loom.code(lambda: DONE)
    run = session.flow(blueprint(step, second={"finish": step}, initialize=initialize), "x")
    gate.reached()
    run.cancel()
    gate.open()

    assert is_stopped(run)
    assert run.view().cursor.stage_name == "second"


@pytest.mark.case("blueprints:CN-03")
@pytest.mark.parametrize("ending", ["returns", "raises"])
def test_a_code_that_goes_on_changes_nothing(session: loom.Loom, ending: str) -> None:
    gate, told, over = Gate(), [], threading.Event()

    async def start(access: Any) -> loom.StepResult:
        try:
            await gate()
            told.append(await try_(lambda: access.state.update({"value": "late"})))
            told.append(await try_(lambda: access.storage.commit([record("late")])))
            if ending == "raises":
                raise ValueError("late")
            return DONE
        finally:
            over.set()

    run = session.flow(blueprint(loom.code(start)), "x")
    gate.reached()
    run.cancel()
    before = run.view()
    gate.open()
    assert over.wait(PATIENCE)

    assert is_stopped(run)
    assert told == ["EXECUTION_OWNERSHIP_LOST"] * 2
    assert (run.view(), run.state, commits(session)) == (before, {"value": 0}, [])


@pytest.mark.case("blueprints:CN-03")
def test_a_plain_def_is_not_waited_for_and_learns_of_it_by_its_signal(session: loom.Loom) -> None:
    gate, told, over = Gate(), [], threading.Event()

    def start(access: Any) -> loom.StepResult:
        gate.hold()
        told.append(access.signal.aborted)
        told.append(code_of(lambda: access.state.value))
        over.set()
        return DONE

    run = session.flow(blueprint(loom.code(start)), "x")
    gate.reached()
    run.cancel()
    assert is_stopped(run)
    gate.open()
    assert over.wait(PATIENCE)

    assert told == [True, "EXECUTION_OWNERSHIP_LOST"]
    assert is_stopped(run)


@pytest.mark.case("blueprints:CN-03")
def test_a_code_that_catches_everything_does_not_come_back(session: loom.Loom) -> None:
    gate, over = Gate(), threading.Event()

    async def start(access: Any) -> loom.StepResult:
        with contextlib.suppress(BaseException):
            await gate()
        over.set()
        return DONE

    run = session.flow(blueprint({"start": loom.code(start), "then": loom.code(lambda: DONE)}), "x")
    gate.reached()
    run.cancel()
    gate.open()
    assert over.wait(PATIENCE)

    assert is_stopped(run)
    assert run.view().cursor.step_name == "start"


@pytest.mark.case("blueprints:CN-03")
def test_a_code_whose_beginning_was_still_being_stored_does_not_begin(here: Any) -> None:
    """The run is stopped between `step.began` being handed to the store and its being durable."""
    ran: list[str] = []
    disk = Disk()

    async def start(access: Any) -> loom.StepResult:
        ran.append("start")
        return DONE

    with kernel(here / "s.duckdb", database=disk) as session:
        runs: list[loom.FlowRun] = []

        def stopped(rows: list[Any]) -> bool:
            if any(kind == "step.began" for _, kind, _ in rows):
                runs[0].cancel()
            return False

        gate = Gate()

        async def initialize(context: Any) -> Any:
            await gate()
            return 0

        run = session.flow(blueprint(loom.code(start), initialize=initialize), "x")
        runs.append(run)
        disk.fails = stopped
        gate.open()
        until(run, lambda: run.status == "canceled")
        at_rest(run)

        assert is_stopped(run)
    assert ran == []


@pytest.mark.case("blueprints:CN-04")
def test_stopping_all_stops_those_that_are_active_and_no_other(session: loom.Loom) -> None:
    one, two = started(session, asking([]), name="one"), started(session, asking([]), name="two")
    done = started(session, loom.code(lambda: DONE), name="done")
    before = done.view()
    session.cancel_all_runs()

    assert is_stopped(one)
    assert is_stopped(two)
    assert (done.view(), before.status) == (before, "completed")


@pytest.mark.case("blueprints:CN-04")
def test_stopping_all_again_changes_nothing(session: loom.Loom) -> None:
    run = started(session, asking([]))
    loom.cancel_all_runs()
    before = run.view()
    loom.cancel_all_runs()

    assert run.view() == before


@pytest.mark.case("blueprints:CN-04")
def test_stopping_all_of_none_does_nothing(session: loom.Loom) -> None:
    session.cancel_all_runs()

    assert session.flows() == []


@pytest.mark.case("blueprints:CN-04")
def test_there_is_nothing_to_stop_of_a_run_that_is_not_there(session: loom.Loom) -> None:
    assert code_of(lambda: session.run("RUN-none").cancel()) == "NOT_FOUND"


@pytest.mark.case("blueprints:CN-05")
def test_a_stop_wins_over_an_answer_that_was_just_accepted(session: loom.Loom) -> None:
    gate, over = Gate(), threading.Event()

    async def body(access: Any) -> None:
        try:
            await access.interaction.confirm("Go?")
            await gate()
        finally:
            over.set()

    run = started(session, in_code([], body))
    run.answer(True)
    gate.reached()
    run.cancel()

    assert is_stopped(run)
    gate.open()
    assert over.wait(PATIENCE)
    assert is_stopped(run)


@pytest.mark.case("blueprints:CN-05")
def test_an_answer_and_a_stop_at_the_same_moment_end_in_one_of_two_ways(session: loom.Loom) -> None:
    for _ in range(20):
        run = started(session, asking([]))
        barrier, told = threading.Barrier(2), []

        def answer(run: loom.FlowRun = run, barrier: threading.Barrier = barrier, told: list[str] = told) -> None:
            barrier.wait(PATIENCE)
            told.append(code_of(lambda: run.answer(True)))

        thread = threading.Thread(target=answer)
        thread.start()
        barrier.wait(PATIENCE)
        run.cancel()
        thread.join(PATIENCE)
        view = at_rest(run)

        assert (view.status, told) in [("completed", ["fine"]), ("failed", ["fine"]), ("failed", ["CONFLICT"])]


class Slow:
    """A schema that takes its time, and tells when it is asked."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.asked = 0

    async def parse(self, value: Any) -> Any:
        self.asked += 1
        if self.asked > 1:
            await self.gate()
        return value


@pytest.mark.case("blueprints:CN-06")
def test_a_write_that_was_still_being_judged_is_lost(session: loom.Loom) -> None:
    schema, told, over = Slow(), [], threading.Event()

    async def start(access: Any) -> loom.StepResult:
        told.append(await try_(lambda: access.state.update({"value": "late"})))
        over.set()
        return DONE

    run = session.flow(blueprint(loom.code(start), schema=schema), "x")
    schema.gate.reached()
    run.cancel()
    schema.gate.open()
    assert over.wait(PATIENCE)

    assert told == ["EXECUTION_OWNERSHIP_LOST"]
    assert (run.state, is_stopped(run)) == ({"value": 0}, True)


@pytest.mark.case("blueprints:CN-07")
def test_a_model_that_does_not_look_at_its_signal_and_answers_later_changes_nothing(session: loom.Loom) -> None:
    gate, over, aborted = Gate(), threading.Event(), []

    async def turn(request: Any, _: int) -> Any:
        await gate()
        aborted.append(request.signal.aborted)
        over.set()
        return {"outcome": "complete"}

    agent = loom.AgentSpec(name="writer", instructions="Write.")
    run = session.flow(blueprint(agent), "x", models=ScriptedModel(turn))
    gate.reached()
    run.cancel()
    assert is_stopped(run)
    before = run.view()
    gate.open()
    assert over.wait(PATIENCE)

    assert (aborted, run.view()) == ([True], before)


@pytest.mark.case("blueprints:DX-20")
def test_a_commit_that_was_done_when_the_run_was_stopped_stays_though_its_code_hears_that_it_is_over(here: Any) -> None:
    disk = Disk()
    told: list[str] = []
    over = threading.Event()

    async def start(access: Any) -> loom.StepResult:
        told.append(await try_(lambda: access.storage.commit([record("r")])))
        over.set()
        return DONE

    with kernel(here / "s.duckdb", database=disk) as session:
        disk.gate = Gate()
        run = session.flow(blueprint(loom.code(start)), "x")
        disk.gate.reached()
        run.cancel()
        disk.gate.open()
        assert over.wait(PATIENCE)

        assert told == ["EXECUTION_OWNERSHIP_LOST"]
        assert is_stopped(run)
        assert commits(session) == [("r", "r")]


# -- a stop that cannot be stored --------------------------------------------------------------------


@pytest.mark.case("blueprints:RC-12")
def test_a_stop_that_cannot_be_stored_says_so_and_frees_the_code_all_the_same(here: Any) -> None:
    disk, told, over = Disk(), [], threading.Event()

    async def body(access: Any) -> None:
        told.append(await try_(lambda: access.interaction.confirm("Go?")))
        told.append(access.signal.aborted)
        over.set()

    with kernel(here / "s.duckdb", database=disk) as session:
        run = started(session, in_code([], body))
        disk.fails = lambda rows: any(kind == "run.canceled" for _, kind, _ in rows)

        assert code_of(run.cancel) == "RUN_CHECKPOINT_FAILED"
        assert over.wait(PATIENCE)
        assert told == ["RUN_STOPPED", True]
        view = run.view()
        assert view.last_error is not None
        assert view.last_error.code == "RUN_CHECKPOINT_FAILED"


@pytest.mark.case("blueprints:RC-12")
def test_a_stop_that_cannot_be_stored_of_a_run_that_waits_since_a_restart_says_so_and_it_still_waits(here: Any) -> None:
    code = asking([])
    with kernel(here / "s.duckdb", blueprint(code)) as session:
        started(session, code)
    disk = Disk()
    with kernel(here / "s.duckdb", blueprint(code), database=disk) as session:
        (run,) = session.flows()
        disk.fails = lambda rows: any(kind == "run.canceled" for _, kind, _ in rows)

        assert code_of(run.cancel) == "RUN_CHECKPOINT_FAILED"
        assert run.view().status == "waiting"
        disk.fails = lambda rows: False
        run.cancel()
        assert is_stopped(run)


@pytest.mark.case("blueprints:CN-01")
def test_awaiting_a_stopped_run_raises_with_the_contracts_code(session: loom.Loom) -> None:
    run = started(session, asking([]))
    run.cancel()

    async def wait() -> Any:
        return await run

    with pytest.raises(loom.RunFailed) as caught:
        asyncio.run(wait())
    assert caught.value.code == "RUN_STOPPED"


@pytest.mark.case("blueprints:CN-03")
def test_stopping_does_not_wait_for_the_code(session: loom.Loom) -> None:
    gate = Gate()

    def start(access: Any) -> loom.StepResult:
        gate.hold()
        return DONE

    run = session.flow(blueprint(loom.code(start)), "x")
    gate.reached()
    began = time.monotonic()
    run.cancel(timeout=PATIENCE)
    took = time.monotonic() - began
    gate.open()

    assert took < PATIENCE / 2
