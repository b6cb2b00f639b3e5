"""Runs side by side, and at most one move of a run at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import loomnb as loom
from tests.helpers import at_rest

IN_FLIGHT = 16


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What each of so many threads got, or raised, having begun at the same moment."""
    ready = threading.Barrier(count)
    told: list[Any] = [None] * count

    def one(i: int) -> None:
        ready.wait(10)
        try:
            told[i] = work(i)
        except loom.LoomError as exc:
            told[i] = exc

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return told


@pytest.mark.case("workflows:I05")
@pytest.mark.parametrize("durability", ["sync", "pipelined"])
def test_sixteen_sync_bodies_are_at_work_at_once(session: loom.Loom, durability: Any) -> None:
    """Each waits for all the others: one after another they would never end."""
    meeting = threading.Barrier(IN_FLIGHT)

    @loom.workflow
    class Meeting(loom.BaseWorkflow):
        @loom.transition(to="end")
        def meet(self) -> None:
            meeting.wait(10)

    runs = [session.start(Meeting, durability=durability) for _ in range(IN_FLIGHT)]

    assert [at_rest(run).status for run in runs] == ["completed"] * IN_FLIGHT


@pytest.mark.case("workflows:I05")
def test_sixteen_async_bodies_are_at_work_at_once(session: loom.Loom) -> None:
    here: list[int] = []
    everybody: list[asyncio.Event] = []

    @loom.workflow
    class Meeting(loom.BaseWorkflow):
        @loom.transition(to="end")
        async def meet(self) -> None:
            if not everybody:
                everybody.append(asyncio.Event())
            here.append(1)
            if len(here) == IN_FLIGHT:
                everybody[0].set()
            await asyncio.wait_for(everybody[0].wait(), 10)

    runs = [session.start(Meeting) for _ in range(IN_FLIGHT)]

    assert [at_rest(run).status for run in runs] == ["completed"] * IN_FLIGHT


def test_a_body_that_hangs_does_not_hold_up_the_others(session: loom.Loom) -> None:
    release = threading.Event()

    @loom.workflow
    class Hanging(loom.BaseWorkflow):
        @loom.transition(to="end")
        def hang(self) -> None:
            release.wait(20)

    hanging = session.start(Hanging)
    other = session.confirm("Go?")
    other.answer(True)
    status = at_rest(other).status, hanging.status in ("pending", "running")
    release.set()

    assert status == ("completed", True)
    assert at_rest(hanging).status == "completed"


@pytest.mark.case("workflows:I04")
def test_moves_of_one_run_never_overlap(session: loom.Loom) -> None:
    at_work, most = [], []

    @loom.workflow(step_limit=100)
    class Busy(loom.BaseWorkflow):
        @loom.transition(to="on")
        def begin(self) -> None:
            self.assign_state(n=0)

        @loom.transition(from_="on", to="on", wait=True)
        def poke(self, state: Any) -> None:
            at_work.append(1)
            most.append(len(at_work))
            self.assign_state(n=state["n"] + 1)
            at_work.pop()

    run = session.start(Busy)
    at_rest(run)

    def poke(_: int) -> int:
        accepted = 0
        for _attempt in range(20):
            try:
                run.answer("poke")
                accepted += 1
            except loom.AnswerRefused:
                pass
        return accepted

    accepted = sum(together(8, poke))
    at_rest(run)

    assert max(most) == 1
    assert run.state["n"] == accepted > 0
    assert session.sql("select count(*) from answers").fetchall() == [(accepted,)]


@pytest.mark.parametrize("round_", range(5))
def test_of_many_answers_to_one_ask_exactly_one_is_taken(session: loom.Loom, round_: int) -> None:
    run = session.confirm("Go?")
    ask = run.pending[0].id
    told = together(8, lambda i: run.answer(ask, {"isConfirmed": True, "feedback": str(i)}))
    at_rest(run)

    refused = [t for t in told if isinstance(t, loom.AnswerRefused)]
    assert len(refused) == 7
    winner = next(i for i, t in enumerate(told) if t is None)
    assert run.result["feedback"] == str(winner)


def test_of_many_retries_exactly_one_is_made(session: loom.Loom) -> None:
    calls: list[int] = []
    release = threading.Event()

    @loom.workflow
    class Once(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            calls.append(1)
            if len(calls) == 1:
                raise ValueError("no")
            release.wait(20)

    run = session.start(Once)
    at_rest(run)
    told = together(8, lambda _: run.retry())
    release.set()
    at_rest(run)

    assert sum(t is None for t in told) == 1
    assert all(isinstance(t, loom.Conflict) for t in told if t is not None)
    assert len(calls) == 2


def test_an_answer_and_a_cancel_at_once_leave_one_winner(session: loom.Loom) -> None:
    for _ in range(10):
        run = session.confirm("Go?")
        told = together(2, lambda i, run=run: run.answer(True) if i else run.cancel())
        at_rest(run)

        if run.status == "canceled":
            assert run.result is None
        else:
            assert (run.status, told[1]) == ("completed", None)


@pytest.mark.case("workflows:I07")
def test_a_run_is_free_again_after_its_body_raised(session: loom.Loom) -> None:
    calls: list[int] = []

    @loom.workflow
    class Raising(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            calls.append(1)
            if len(calls) < 3:
                raise ValueError("no")

    run = session.start(Raising)
    at_rest(run)
    run.retry()
    at_rest(run)
    run.retry()

    assert at_rest(run).status == "completed"


def test_a_body_may_start_runs_and_answer_others(session: loom.Loom) -> None:
    other = session.confirm("Go?")

    @loom.workflow
    class Answering(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            other.answer(True)
            self.set_result(session.start(Other).id)

    @loom.workflow
    class Other(loom.BaseWorkflow):
        @loom.transition(to="ask")
        def begin(self) -> None: ...

        @loom.transition(from_="ask", to="end", wait=True)
        def go(self) -> None: ...

    run = session.start(Answering)

    assert at_rest(run).status == "completed"
    assert at_rest(other).status == "completed"
    assert at_rest(session.run(run.result)).status == "waiting"


def test_a_body_that_waits_for_its_own_run_is_told(session: loom.Loom) -> None:
    holder: list[loom.Run] = []
    ready = threading.Event()

    @loom.workflow
    class Own(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            ready.wait(10)
            holder[0].wait(5)

    run = session.start(Own)
    holder.append(run)
    ready.set()
    at_rest(run)

    assert (run.status, run.error_code) == ("failed", "WOULD_DEADLOCK")


def test_an_async_body_that_blocks_on_another_run_is_told(session: loom.Loom) -> None:
    other = session.confirm("Go?")

    @loom.workflow
    class Blocking(loom.BaseWorkflow):
        @loom.transition(to="end")
        async def go(self) -> None:
            other.wait(5)

    run = session.start(Blocking)
    at_rest(run)

    assert (run.status, run.error_code) == ("failed", "WOULD_DEADLOCK")


def test_each_run_has_the_context_it_was_started_in(session: loom.Loom) -> None:
    import contextvars

    who = contextvars.ContextVar("who", default="nobody")

    @loom.workflow
    class Who(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def sync(self) -> None:
            self.assign_state(sync=who.get())

        @loom.transition(from_="middle", to="end")
        async def later(self) -> None:
            self.assign_state(later=who.get())

    token = who.set("Ann")
    run = session.start(Who)
    who.reset(token)
    at_rest(run)

    assert run.state == {"sync": "Ann", "later": "Ann"}
