"""When a move fails: automatic retries and their delays, the retry target, the error place, and retrying by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.runtime import CURRENT
from tests.helpers import StillSource, at_rest, status_is


class Loomish(loom.LoomError):
    """One of ours that was made without our own __init__."""

    def __init__(self) -> None: ...


Attempt = Callable[[int, Any], None]
"""What the n-th try (from 0) does, given its context."""


def trying(session: loom.Loom, *, fails: int, wait: bool = False, **options: Any) -> tuple[loom.Run, list[Any]]:
    """A run start → work → end whose `work` fails so often; and what each try saw: (retry_count, key, data)."""
    seen: list[Any] = []

    def begin(self: Any) -> None: ...

    def automatic(self: Any, state: Any, ctx: Any) -> None:
        seen.append((ctx.execution.retry_count, ctx.idempotency_key, None))
        if len(seen) <= fails:
            raise ValueError(f"failure {len(seen)}")
        self.set_result("done")

    def waiting(self: Any, state: Any, input: Any, ctx: Any) -> None:  # noqa: A002
        seen.append((ctx.execution.retry_count, ctx.idempotency_key, input.data))
        if len(seen) <= fails:
            raise ValueError(f"failure {len(seen)}")
        self.set_result("done")

    body = {
        "begin": loom.transition(to="work")(begin),
        "work": loom.transition(from_="work", to="end", wait=wait, **options)(waiting if wait else automatic),
    }
    run = session.start(loom.workflow(name="trying")(type("Trying", (loom.BaseWorkflow,), body)))
    return run, seen


def delays(session: loom.Loom) -> list[float]:
    """Milliseconds from each failure to its automatic retry, as stored."""
    rows = session.sql("select ts, body->>'$.due.at' from events where kind = 'run.broke' order by seq").fetchall()
    return [(datetime.fromisoformat(at) - ts) / timedelta(milliseconds=1) for ts, at in rows if at]


HOURS = 3_600_000


@pytest.mark.case("workflows:E01")
def test_a_failed_try_backs_off_and_says_so(here: Path) -> None:
    with loom.open(here / "s.duckdb", source=StillSource()) as session:
        run, seen = trying(session, fails=2, retry_attempts=2)
        status_is(run, "retrying")
        assert (run.place, run.has_error, run.retry_count, run.error) == ("work", True, 1, "failure 1")
        run.retry()  # now, instead of after its delay
        status_is(run, "retrying")
        assert (run.retry_count, run.error) == (2, "failure 2")
        run.retry()
        at_rest(run)

        assert (run.status, run.has_error, run.error, run.retry_count, run.result) == ("completed", False, None, 0, "done")
        assert [count for count, *_ in seen] == [0, 1, 2]
        assert delays(session) == [1000, 2000]


def test_an_automatic_retry_happens_by_itself(session: loom.Loom) -> None:
    run, seen = trying(session, fails=2, retry_attempts=2, retry_delay=1)
    at_rest(run)

    assert (run.status, run.has_error, len(seen)) == ("completed", False, 3)


def test_a_retry_count_of_n_means_n_more_tries(session: loom.Loom) -> None:
    run, seen = trying(session, fails=99, retry_attempts=3, retry_delay=1)
    at_rest(run)

    assert (run.status, run.place, run.retry_count, len(seen)) == ("failed", "work", 4, 4)


def backed_off(here: Path, tries: int, **options: Any) -> list[float]:
    with loom.open(here / "s.duckdb", source=StillSource()) as session:
        run, _ = trying(session, fails=tries, retry_attempts=tries, **options)
        for n in range(1, tries + 1):
            status_is_retry(run, n)
            run.retry()
        at_rest(run)
        return delays(session)


def status_is_retry(run: loom.Run, count: int) -> None:
    from tests.helpers import until

    until(run, lambda: run.status == "retrying" and run.retry_count == count)


def test_delays_double_up_to_their_cap(here: Path) -> None:
    assert backed_off(here, 7) == [1000, 2000, 4000, 8000, 16000, 30000, 30000]


@pytest.mark.case("workflows:E03")
def test_the_cap_holds_for_fixed_delays_too(here: Path) -> None:
    assert backed_off(here, 2, retry_backoff="fixed", retry_delay=60_000, retry_max_delay=1000) == [1000, 1000]


def test_a_fixed_delay_stays_the_same(here: Path) -> None:
    assert backed_off(here, 3, retry_backoff="fixed", retry_delay=timedelta(seconds=5)) == [5000, 5000, 5000]


@pytest.mark.case("workflows:E04")
def test_without_options_a_failure_waits_for_a_retry_by_hand(session: loom.Loom) -> None:
    counts: list[int] = []

    @loom.workflow
    class Starting(loom.BaseWorkflow):
        @loom.transition(to="end")
        def begin(self, state: Any, ctx: Any) -> None:
            counts.append(ctx.execution.retry_count)
            if len(counts) == 1:
                raise ValueError("no")

    run = session.start(Starting)
    at_rest(run)
    assert (run.status, run.place, run.retry_count, run.error) == ("failed", "start", 1, "no")
    assert [t["id"] for t in run.available_transitions] == ["begin"]
    run.retry()
    at_rest(run)

    assert counts == [0, 1]
    assert (run.status, run.has_error, run.error, run.retry_count) == ("completed", False, None, 0)


@pytest.mark.case("workflows:E05")
def test_a_failure_without_automatic_retries_requests_none(session: loom.Loom) -> None:
    run, seen = trying(session, fails=1)
    at_rest(run)
    assert (run.status, run.place) == ("failed", "work")
    assert delays(session) == []
    run.retry()
    at_rest(run)

    assert (run.status, run.has_error, len(seen)) == ("completed", False, 2)


def test_a_retry_by_hand_gives_no_new_automatic_budget(session: loom.Loom) -> None:
    run, seen = trying(session, fails=99, retry_attempts=1, retry_delay=1)
    at_rest(run)
    run.retry()
    at_rest(run)

    assert (run.status, len(seen), run.retry_count) == ("failed", 3, 3)


def test_a_success_gives_a_new_budget(session: loom.Loom) -> None:
    tries: list[int] = []

    @loom.workflow
    class Loop(loom.BaseWorkflow):
        @loom.transition(to="work")
        def begin(self) -> None: ...

        @loom.transition(from_="work", to="rest", retry_attempts=1, retry_delay=1)
        def work(self, state: Any, ctx: Any) -> None:
            tries.append(ctx.execution.retry_count)
            if len(tries) % 2:
                raise ValueError("every other time")

        @loom.transition(from_="rest", to="work", wait=True)
        def again(self) -> None: ...

    run = session.start(Loop)
    at_rest(run)
    run.answer("again")
    at_rest(run)

    assert (run.status, tries) == ("waiting", [0, 1, 0, 1])


def test_every_try_of_a_move_has_the_same_idempotency_key(session: loom.Loom) -> None:
    run, seen = trying(session, fails=2, retry_attempts=1, retry_delay=1)
    at_rest(run)
    run.retry()
    at_rest(run)

    assert len(seen) == 3
    assert len({key for _, key, _ in seen}) == 1


@pytest.mark.case("workflows:E24")
def test_the_start_is_tried_again_like_any_other(here: Path) -> None:
    calls: list[int] = []

    @loom.workflow
    class Starting(loom.BaseWorkflow):
        @loom.transition(to="end", retry_attempts=1)
        def begin(self) -> None:
            calls.append(1)
            if len(calls) == 1:
                raise ValueError("no")

    with loom.open(here / "s.duckdb", source=StillSource()) as session:
        run = session.start(Starting)
        status_is(run, "retrying")
        assert (run.place, run.retry_count) == ("start", 1)
        run.retry()
        at_rest(run)

        assert (run.status, run.retry_count) == ("completed", 0)


@pytest.mark.case("workflows:E09")
def test_a_retry_target_is_gone_back_to_and_each_transition_sees_its_own_count(session: loom.Loom) -> None:
    order: list[tuple[str, int]] = []

    @loom.workflow
    class Back(loom.BaseWorkflow):
        @loom.transition(to="work")
        def begin(self) -> None: ...

        @loom.transition(from_="prepare", to="work")
        def prep(self, state: Any, ctx: Any) -> None:
            order.append(("prep", ctx.execution.retry_count))

        @loom.transition(from_="work", to="end", retry_attempts=2, retry_delay=1, retry_target="prepare")
        def b(self, state: Any, ctx: Any) -> None:
            order.append(("b", ctx.execution.retry_count))
            raise ValueError("always")

    run = session.start(Back)
    at_rest(run)

    assert order == [("b", 0), ("prep", 0), ("b", 1), ("prep", 0), ("b", 2)]
    assert (run.status, run.place, run.retry_count) == ("failed", "work", 3)


def test_a_failing_retry_target_does_not_renew_the_originators_budget(session: loom.Loom) -> None:
    order: list[str] = []

    @loom.workflow
    class Back(loom.BaseWorkflow):
        @loom.transition(to="work")
        def begin(self) -> None: ...

        @loom.transition(from_="prepare", to="work", retry_attempts=1, retry_delay=1)
        def prep(self) -> None:
            order.append("prep")
            if order.count("prep") == 1:
                raise ValueError("once")

        @loom.transition(from_="work", to="end", retry_attempts=1, retry_delay=1, retry_target="prepare")
        def b(self) -> None:
            order.append("b")
            raise ValueError("always")

    run = session.start(Back)
    at_rest(run)

    assert order == ["b", "prep", "prep", "b"]
    assert (run.status, run.place) == ("failed", "work")


@pytest.mark.case("workflows:E11")
@pytest.mark.parametrize("automatic", [True, False])
def test_a_retried_wait_transition_gets_the_same_answer_again(session: loom.Loom, automatic: bool) -> None:
    run, seen = trying(session, fails=1, wait=True, **({"retry_attempts": 1, "retry_delay": 1} if automatic else {}))
    at_rest(run)
    run.answer("work", {"a": [1]})
    at_rest(run)
    if not automatic:
        assert run.status == "failed"
        run.retry()
        at_rest(run)

    assert run.status == "completed"
    assert [data for *_, data in seen] == [{"a": [1]}, {"a": [1]}]
    assert session.sql("select count(*) from answers").fetchall() == [(1,)]


def test_a_failed_wait_transition_may_be_given_another_answer_instead(session: loom.Loom) -> None:
    run, seen = trying(session, fails=1, wait=True)
    at_rest(run)
    run.answer("work", "wrong")
    at_rest(run)
    assert (run.status, [a.name for a in run.pending]) == ("failed", ["work"])
    run.answer("work", "right")
    at_rest(run)

    assert (run.status, [data for *_, data in seen]) == ("completed", ["wrong", "right"])


@pytest.mark.case("workflows:E12")
def test_a_retry_by_hand_makes_the_automatic_one_stale(session: loom.Loom) -> None:
    run, seen = trying(session, fails=1, retry_attempts=1, retry_delay=30)
    status_is(run, "retrying")
    run.retry()
    at_rest(run)
    alarm = session.confirm("later?")  # started after the alarm was set, on the same loop
    host = run.record.host
    assert host
    from threading import Event

    rung = Event()
    host.post(lambda: host.loop.call_later(0.06, rung.set))
    rung.wait(5)

    assert (run.status, len(seen)) == ("completed", 2)
    alarm.cancel()


def test_a_canceled_run_is_not_retried_when_its_delay_is_over(session: loom.Loom) -> None:
    run, seen = trying(session, fails=1, retry_attempts=1, retry_delay=30)
    status_is(run, "retrying")
    run.cancel()
    host = run.record.host
    assert host
    from threading import Event

    rung = Event()
    host.post(lambda: host.loop.call_later(0.06, rung.set))
    rung.wait(5)

    assert (run.status, len(seen)) == ("canceled", 1)


# -- the error place ----------------------------------------------------------------------------------


def with_error_place(session: loom.Loom, *, fails: int = 1, **options: Any) -> tuple[loom.Run, list[str]]:
    order: list[str] = []

    @loom.workflow(name="error_place")
    class Flow(loom.BaseWorkflow):
        @loom.transition(to="work")
        def begin(self) -> None: ...

        @loom.transition(from_="work", to="end", error_place="broken", **options)
        def work(self) -> None:
            order.append("work")
            self.assign_state(half=True)
            if order.count("work") <= fails:
                raise ValueError("no")

        @loom.transition(from_="broken", to="work", wait=True)
        def repair(self) -> None:
            order.append("repair")

    run = session.start(Flow)
    at_rest(run)
    return run, order


def test_a_failure_leads_to_the_error_place_with_its_message(session: loom.Loom) -> None:
    run, _ = with_error_place(session)

    assert (run.status, run.place, run.has_error, run.error, run.state) == ("waiting", "broken", True, "no", {})


def test_wait_transitions_of_the_error_place_are_recovery_buttons(session: loom.Loom) -> None:
    run, order = with_error_place(session)
    assert [a.name for a in run.pending] == ["repair"]
    run.answer("repair")
    at_rest(run)

    assert (run.status, run.has_error, order) == ("completed", False, ["work", "repair", "work"])


def test_a_retry_out_of_the_error_place_makes_the_failed_transition_again(session: loom.Loom) -> None:
    run, order = with_error_place(session)
    run.retry()
    at_rest(run)

    assert (run.status, run.has_error, order) == ("completed", False, ["work", "work"])


def test_automatic_retries_go_before_the_error_place(session: loom.Loom) -> None:
    run, order = with_error_place(session, fails=99, retry_attempts=2, retry_delay=1)

    assert (run.place, order) == ("broken", ["work"] * 3)


@pytest.mark.case("workflows:E08")
def test_automatic_transitions_of_the_error_place_run_at_once(session: loom.Loom) -> None:
    @loom.workflow
    class Cleaning(loom.BaseWorkflow):
        @loom.transition(to="end", error_place="broken")
        def work(self) -> None:
            raise ValueError("no")

        @loom.transition(from_="broken", to="end")
        def clean(self) -> None:
            self.set_result("cleaned")

    run = session.start(Cleaning)
    at_rest(run)

    assert (run.status, run.place, run.result) == ("completed", "end", "cleaned")


def test_an_error_place_where_nothing_can_move_is_failed_with_the_first_error(session: loom.Loom) -> None:
    @loom.workflow
    class Dead(loom.BaseWorkflow):
        @loom.transition(to="end", error_place="broken")
        def work(self) -> None:
            raise ValueError("the first error")

        @loom.transition(from_="broken", to="end")
        @loom.guard("never")
        def out(self) -> None: ...

        def never(self) -> bool:
            return False

    run = session.start(Dead)
    at_rest(run)

    assert (run.status, run.place, run.error) == ("failed", "broken", "the first error")


def test_an_error_place_may_be_the_end(session: loom.Loom) -> None:
    @loom.workflow
    class GivingUp(loom.BaseWorkflow):
        @loom.transition(to="end", error_place="end")
        def work(self) -> None:
            raise ValueError("no")

    run = session.start(GivingUp)
    at_rest(run)

    assert (run.status, run.place, run.has_error, run.error) == ("completed", "end", True, "no")


# -- what is told of a failure ------------------------------------------------------------------------


class Mine(Exception):
    """A user's own."""


def broken(session: loom.Loom, exc: BaseException) -> loom.Run:
    @loom.workflow(name="broken")
    class Broken(loom.BaseWorkflow):
        @loom.transition(to="end")
        def work(self) -> None:
            raise exc

    run = session.start(Broken)
    at_rest(run)
    return run


def test_waiting_for_a_failed_run_raises_with_the_users_own_exception_as_cause(session: loom.Loom) -> None:
    mine = Mine("no such room")
    run = broken(session, mine)

    with pytest.raises(loom.RunFailed, match="no such room") as caught:
        run.wait(5)

    assert caught.value.__cause__ is mine
    assert (caught.value.code, caught.value.run_id, caught.value.status) == ("MOVE_FAILED", run.id, "failed")


def test_the_users_own_frames_are_told_apart_from_ours(session: loom.Loom) -> None:
    run = broken(session, Mine("no"))
    failure = run.record.view.failure
    assert failure

    assert "test_failing.py" in failure.frames
    assert "loomnb/runtime" not in failure.frames
    assert "loomnb" in failure.traceback


@pytest.mark.parametrize(
    "exc",
    [SystemExit(3), KeyboardInterrupt(), StopIteration("x"), GeneratorExit(), EOFError("input")],
    ids=lambda e: type(e).__name__,
)
def test_an_exception_that_means_something_to_python_fails_only_its_run(session: loom.Loom, exc: BaseException) -> None:
    run = broken(session, exc)

    assert (run.status, run.error_code) == ("failed", "MOVE_FAILED")
    other = session.confirm("Still there?")
    other.answer(True)
    assert at_rest(other).status == "completed"


async def _async_raise(exc: BaseException) -> None:
    raise exc


@pytest.mark.parametrize("exc", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=lambda e: type(e).__name__)
def test_an_async_body_cannot_stop_the_loop_either(session: loom.Loom, exc: BaseException) -> None:
    @loom.workflow
    class AsyncBroken(loom.BaseWorkflow):
        @loom.transition(to="end")
        async def work(self) -> None:
            await _async_raise(exc)

    run = session.start(AsyncBroken)

    assert at_rest(run).status == "failed"
    other = session.confirm("Still there?")
    other.answer(True)
    assert at_rest(other).status == "completed"


def test_an_error_of_ours_keeps_its_code_and_advice(session: loom.Loom) -> None:
    run = broken(session, loom.Conflict("taken", advice="Choose another."))

    assert run.error_code == "CONFLICT"
    with pytest.raises(loom.RunFailed, match="Choose another"):
        run.wait(5)


def test_an_exception_without_a_text_is_told_by_its_name(session: loom.Loom) -> None:
    assert broken(session, Mine()).error == "Mine"


def test_a_client_of_another_loop_is_explained(session: loom.Loom) -> None:
    run = broken(session, RuntimeError("<Future> attached to a different loop"))

    assert 'loop="kernel"' in str(run.record.view.failure)


def test_the_error_is_in_the_store_with_its_traceback(session: loom.Loom) -> None:
    broken(session, Mine("no"))
    ((error,),) = session.sql("select body->'error' from events where kind = 'run.broke'").fetchall()

    assert json.loads(error)["type"] == "Mine"
    assert "Traceback" in json.loads(error)["traceback"]


def test_retry_after_an_error_places_clean_up_goes_back_to_what_failed(session: loom.Loom) -> None:
    """The clean-up has moved on to a place that waits; the way back is still known, also after a restart."""
    fail = [True]

    @loom.workflow(name="cleaned_up")
    class CleanedUpWorkflow(loom.BaseWorkflow):
        @loom.transition(to="ready")
        def begin(self, state: object) -> None: ...

        @loom.transition(from_="ready", to="end", error_place="broken")
        def work(self, state: object) -> None:
            if fail[0]:
                raise ValueError("no")

        @loom.transition(from_="broken", to="cleaned")
        def clean(self, state: object) -> None: ...

        @loom.transition(from_="cleaned", to="end", wait=True)
        def give_up(self, state: object) -> None: ...

    run = session.start(CleanedUpWorkflow)
    at_rest(run)
    fail[0] = False
    run.retry()

    assert at_rest(run).status == "completed"
    assert [entry.name for entry in run.history] == ["", "begin", "clean", "work"]


class Unspeakable(Exception):
    """Its text cannot be had, nor anything else that a report would look at."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")


def unnoted() -> Exception:
    exc = ValueError("noted")
    exc.__notes__ = [1, Unspeakable()]  # type: ignore[list-item]
    return exc


@pytest.mark.parametrize(
    "exc", [Unspeakable(), unnoted(), ValueError("half \ud800 a pair"), Loomish()], ids=["str", "notes", "surrogate", "ours"]
)
@pytest.mark.parametrize("in_guard", [False, True])
def test_an_exception_whose_text_is_broken_is_a_failure_like_any_other(
    session: loom.Loom, exc: Exception, in_guard: bool
) -> None:
    @loom.workflow(name="unspeakable")
    class UnspeakableWorkflow(loom.BaseWorkflow):
        @loom.transition(to="work")
        def begin(self) -> None: ...

        @loom.transition(from_="work", to="end", retry_attempts=1, retry_delay=1, error_place="broken")
        @loom.guard("may")
        def work(self) -> None:
            raise exc

        @loom.transition(from_="broken", to="end", wait=True)
        def give_up(self) -> None: ...

        def may(self) -> bool:
            if in_guard:
                raise exc
            return True

    run = session.start(UnspeakableWorkflow)

    assert at_rest(run).status == "waiting"  # in its error place, after its automatic retry
    assert (run.place, run.has_error) == ("broken", True)
    assert run.error_code != "BUG"
    ((failures,),) = session.sql("select count(*) from moves where outcome = 'failed'").fetchall()
    assert failures == 2


@pytest.mark.parametrize(
    "exc", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(3)], ids=["canceled", "interrupt", "exit"]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_guard_raises_fails_its_transition(session: loom.Loom, exc: BaseException, is_async: bool) -> None:
    def sync(self: Any) -> bool:
        raise exc

    async def later(self: Any) -> bool:
        raise exc

    body = {
        "begin": loom.transition(to="work")(lambda self: None),
        "work": loom.transition(from_="work", to="end")(loom.guard("may")(lambda self: None)),
        "may": later if is_async else sync,
    }
    run = session.start(loom.workflow(name="guarding")(type("Guarding", (loom.BaseWorkflow,), body)))

    assert at_rest(run).status == "failed"
    assert run.place == "work"


def test_a_print_that_is_no_valid_text_does_not_fail_the_move(session: loom.Loom) -> None:
    @loom.workflow
    class Printing(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            current = CURRENT.get()
            assert current is not None
            current.note("a file called \udcff.txt\n")  # what the notebook's tap does with each print

    run = session.start(Printing)

    assert at_rest(run).status == "completed"
    assert run.log == "a file called \\udcff.txt\n"
    assert session.sql("select text from logs").fetchall() == [(run.log,)]
