"""Time-outs and cancels: a body is stopped, its access is taken away, and nothing of it is kept."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from tests.helpers import at_rest, status_is, until


class Body:
    """What a body that was stopped still tried, and how it was told."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.done = threading.Event()
        self.told: list[BaseException] = []

    def write_late(self, flow: Any) -> None:
        for write in (
            lambda: flow.assign_state(late=True),
            lambda: flow.set_result("late"),
            lambda: flow.document_store.save(loom.PlainDocument(text="late")),
        ):
            try:
                write()
            except loom.OwnershipLost as exc:
                self.told.append(exc)
        self.done.set()


def hanging(session: loom.Loom, *, sync: bool, timeout: float = 0, **options: Any) -> tuple[loom.Run, Body]:
    """A run whose second move hangs until it is stopped (async) or released (sync), then tries to write."""
    body = Body()

    @loom.workflow(name="hanging")
    class Hanging(loom.BaseWorkflow):
        @loom.transition(to="work")
        def begin(self) -> None:
            self.assign_state(begun=True)

        if sync:

            @loom.transition(from_="work", to="end", timeout=timeout, **options)
            def work(self) -> None:
                self.assign_state(half=True)
                self.document_store.save(loom.PlainDocument(text="half"))
                body.begun.set()
                body.release.wait(20)
                body.write_late(self)
        else:

            @loom.transition(from_="work", to="end", timeout=timeout, **options)
            async def work(self) -> None:
                self.assign_state(half=True)
                self.document_store.save(loom.PlainDocument(text="half"))
                body.begun.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    body.write_late(self)
                    raise

    run = session.start(Hanging)
    assert body.begun.wait(10)
    return run, body


@pytest.mark.case("workflows:E14")
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
def test_a_time_out_fails_the_move_and_revokes_its_access(session: loom.Loom, sync: bool) -> None:
    run, body = hanging(session, sync=sync, timeout=30)
    at_rest(run)
    body.release.set()
    assert body.done.wait(10)

    assert (run.status, run.place, run.error_code) == ("failed", "work", "MOVE_TIMED_OUT")
    assert len(body.told) == 3
    assert (run.state, run.result, run.documents) == ({"begun": True}, None, [])
    assert session.sql("select count(*) from documents").fetchall() == [(0,)]


def test_a_time_out_names_the_transition_and_the_milliseconds(session: loom.Loom) -> None:
    run, _ = hanging(session, sync=False, timeout=30)
    at_rest(run)

    assert "'work'" in (run.error or "")
    assert "30 ms" in (run.error or "")


def test_an_async_body_is_really_canceled(session: loom.Loom) -> None:
    run, body = hanging(session, sync=False, timeout=30)
    at_rest(run)

    assert body.done.is_set()


def test_a_time_out_is_retried_like_any_failure(session: loom.Loom) -> None:
    calls: list[int] = []

    @loom.workflow
    class Slow(loom.BaseWorkflow):
        @loom.transition(to="end", timeout=30, retry_attempts=1, retry_delay=1)
        async def work(self) -> None:
            calls.append(1)
            if len(calls) == 1:
                await asyncio.Event().wait()
            self.set_result("in time")

    run = session.start(Slow)

    assert at_rest(run).status == "completed"
    assert run.result == "in time"


def test_the_abandoned_body_of_the_first_try_cannot_write_into_the_second(session: loom.Loom) -> None:
    first, release, late = threading.Event(), threading.Event(), threading.Event()
    told: list[str] = []

    @loom.workflow
    class Twice(loom.BaseWorkflow):
        @loom.transition(to="end", timeout=30)
        def work(self) -> None:
            if not first.is_set():
                first.set()
                release.wait(20)
                try:
                    self.assign_state(by="first")
                except loom.OwnershipLost as exc:
                    told.append(exc.code)
                late.set()
            else:
                release.set()
                assert late.wait(10)
                self.assign_state(by="second")

    run = session.start(Twice)
    at_rest(run)
    run.retry()
    at_rest(run)

    assert told == ["EXECUTION_OWNERSHIP_LOST"]
    assert run.state == {"by": "second"}


def test_a_body_that_swallows_its_cancellation_is_left_behind(session: loom.Loom) -> None:
    stop = asyncio.Event

    @loom.workflow
    class Stubborn(loom.BaseWorkflow):
        @loom.transition(to="end", timeout=30)
        async def work(self) -> None:
            for _ in range(3):
                try:
                    await asyncio.wait_for(stop().wait(), 5)
                except asyncio.CancelledError:
                    continue

    run = session.start(Stubborn)

    assert at_rest(run).status == "failed"
    assert run.error_code == "MOVE_TIMED_OUT"


def test_a_task_that_a_body_left_behind_can_write_nothing(session: loom.Loom) -> None:
    told: list[str] = []
    over, tried = threading.Event(), threading.Event()
    kept: list[Any] = []

    @loom.workflow
    class Leaving(loom.BaseWorkflow):
        @loom.transition(to="end")
        async def work(self) -> None:
            async def later() -> None:
                await asyncio.to_thread(over.wait, 10)
                try:
                    self.assign_state(late=True)
                except loom.OwnershipLost as exc:
                    told.append(exc.code)
                tried.set()

            kept.append(asyncio.create_task(later()))

    run = session.start(Leaving)
    at_rest(run)
    over.set()
    assert tried.wait(10)

    assert (run.status, run.state, told) == ("completed", {}, ["EXECUTION_OWNERSHIP_LOST"])


# -- canceling ----------------------------------------------------------------------------------------


@pytest.mark.case("workflows:I03")
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
def test_a_cancel_stops_a_move_before_it_commits(session: loom.Loom, sync: bool) -> None:
    run, body = hanging(session, sync=sync)
    run.cancel()
    body.release.set()
    at_rest(run)
    assert body.done.wait(10)

    assert (run.status, run.place, run.state, run.documents) == ("canceled", "work", {"begun": True}, [])
    assert len(body.told) == 3


def test_a_canceled_run_says_so_to_whoever_waits(session: loom.Loom) -> None:
    run, _ = hanging(session, sync=False)
    run.cancel()

    with pytest.raises(loom.RunFailed) as caught:
        run.wait(5)
    assert (caught.value.status, caught.value.code) == ("canceled", "RUN_STOPPED")


def test_a_waiting_run_is_canceled_where_it_stands(session: loom.Loom) -> None:
    run = session.confirm("Go?")
    run.cancel()

    assert (run.status, run.place, run.pending, len(session.pending())) == ("canceled", "start", [], 0)


@pytest.mark.case("workflows:I02")
@pytest.mark.parametrize("ending", ["completed", "failed", "canceled"])
def test_canceling_a_finished_run_does_nothing(session: loom.Loom, ending: str) -> None:
    @loom.workflow
    class Ending(loom.BaseWorkflow):
        @loom.transition(to="ask")
        def begin(self) -> None: ...

        @loom.transition(from_="ask", to="end", wait=True)
        def go(self) -> None:
            self.set_result("mine")
            if ending == "failed":
                raise ValueError("no")

    run = session.start(Ending)
    at_rest(run)
    if ending == "canceled":
        run.cancel()
    else:
        run.answer("go")
        at_rest(run)
    before = session.sql("select count(*) from journal").fetchall(), run.status, run.result
    run.cancel()

    assert (session.sql("select count(*) from journal").fetchall(), run.status, run.result) == before
    assert run.status == ending


def test_a_run_that_backs_off_is_canceled(session: loom.Loom) -> None:
    @loom.workflow
    class Backing(loom.BaseWorkflow):
        @loom.transition(to="end", retry_attempts=1, retry_delay=3_600_000, retry_max_delay=3_600_000)
        def go(self) -> None:
            raise ValueError("no")

    run = session.start(Backing)
    status_is(run, "retrying")
    run.cancel()

    assert run.status == "canceled"


def test_a_canceled_run_cannot_be_retried(session: loom.Loom) -> None:
    run = session.confirm("Go?")
    run.cancel()

    with pytest.raises(loom.Conflict):
        run.retry()


def test_a_cancel_that_comes_while_a_run_comes_to_rest_is_not_lost(session: loom.Loom) -> None:
    """The last move is made, but the run is not at rest yet: an async guard is being asked."""
    asked, release = threading.Event(), threading.Event()

    @loom.workflow
    class Resting(loom.BaseWorkflow):
        @loom.transition(to="ask")
        def begin(self) -> None: ...

        @loom.transition(from_="ask", to="end")
        @loom.guard("slow")
        def auto(self) -> None: ...

        @loom.transition(from_="ask", to="end", wait=True)
        def go(self) -> None: ...

        async def slow(self) -> bool:
            asked.set()
            await asyncio.to_thread(release.wait, 20)
            return False

    run = session.start(Resting)
    assert asked.wait(10)
    run.cancel(timeout=0)
    release.set()
    until(run, lambda: not run.record.passing)
    at_rest(run)

    assert run.status == "canceled"
    assert run.pending == []


def test_a_move_that_cancels_its_own_run_is_not_committed(session: loom.Loom) -> None:
    holder: list[loom.Run] = []
    ready = threading.Event()

    @loom.workflow
    class Own(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            ready.wait(10)
            holder[0].cancel(timeout=0)

    run = session.start(Own)
    holder.append(run)
    ready.set()
    at_rest(run)

    assert (run.status, run.place) == ("canceled", "start")


def test_a_cancel_that_comes_while_the_last_commit_is_in_flight_is_not_lost(session: loom.Loom) -> None:
    """The move is made and its question is on its way to the file: the run is canceled once it rests."""
    held, release = threading.Event(), threading.Event()

    def hold(*_: Any) -> None:
        held.set()
        release.wait(20)

    @loom.workflow
    class Resting(loom.BaseWorkflow):
        @loom.transition(to="ask")
        def begin(self) -> None:
            session.runtime.database.put([("none", "test", "{}")], hold)
            held.wait(10)

        @loom.transition(from_="ask", to="end", wait=True)
        def go(self) -> None: ...

    run = session.start(Resting)
    assert held.wait(10)
    while run.record.attempt is not None:  # until the move is over and its batch is queued
        threading.Event().wait(0.005)
    run.cancel(timeout=0)
    release.set()
    at_rest(run)

    assert (run.status, run.pending) == ("canceled", [])


def guarded_by(session: loom.Loom, guard: Any, timeout: float) -> loom.Run:
    body = {
        "begin": loom.transition(to="work")(lambda self: None),
        "work": loom.transition(from_="work", to="end", timeout=timeout)(loom.guard("may")(lambda self: None)),
        "may": guard,
    }
    return session.start(loom.workflow(name="guarded")(type("Guarded", (loom.BaseWorkflow,), body)))


async def never(self: object) -> bool:
    await asyncio.sleep(3600)
    return True


def test_an_async_guard_has_its_transitions_time_out(session: loom.Loom) -> None:
    run = guarded_by(session, never, timeout=50)

    assert at_rest(run).status == "failed"
    assert run.error_code == "MOVE_TIMED_OUT"
    assert "guard 'may'" in str(run.error)


def test_a_cancel_stops_an_async_guard(session: loom.Loom) -> None:
    begun = threading.Event()

    async def hanging_guard(self: object) -> bool:
        begun.set()
        return await never(self)

    run = guarded_by(session, hanging_guard, timeout=0)
    assert begun.wait(10)
    run.cancel()

    assert run.status == "canceled"
    assert [entry.name for entry in run.history] == ["", "begin"]  # the move before it was whole


WAYS: dict[str, Callable[[loom.Run], Any]] = {
    "wait": lambda run: run.wait(10),
    "await": lambda run: asyncio.run(asyncio.wait_for(run._ended(), 10)),
    "settled": lambda run: asyncio.run(asyncio.wait_for(run.settled(), 10)),
}


@pytest.mark.parametrize("how", WAYS)
def test_whoever_waits_is_told_when_the_store_is_closed(here: Path, how: str) -> None:
    session = loom.open(here / "s.duckdb")
    run, body = hanging(session, sync=True)
    threading.Timer(0.05, session.close).start()

    with pytest.raises(loom.StoreClosed, match=run.id):
        WAYS[how](run)
    body.release.set()
