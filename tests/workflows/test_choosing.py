"""Which transition fires: priorities, guards, and what happens when none can."""

from __future__ import annotations

from typing import Any

import pytest

import loomnb as loom
from tests.helpers import at_rest


def ended(session: loom.Loom, flow: Any, args: Any = None) -> loom.Run:
    run = session.start(flow, args)
    at_rest(run)
    return run


@pytest.mark.case("workflows:C01")
@pytest.mark.parametrize(("value", "ending"), [(50, "B"), (150, "D"), (250, "C")])
def test_guards_route_by_value(session: loom.Loom, value: int, ending: str) -> None:
    @loom.workflow
    class Routing(loom.BaseWorkflow):
        @loom.transition(to="choose")
        def begin(self, state: Any, ctx: Any) -> None:
            self.assign_state(value=ctx.args["value"])

        @loom.transition(from_="choose", to="high", priority=10)
        @loom.guard("above_100")
        def go_high(self) -> None: ...

        @loom.transition(from_="choose", to="end")
        def b(self) -> None:
            self.set_result("B")

        @loom.transition(from_="high", to="end", priority=10)
        @loom.guard("above_200")
        def c(self) -> None:
            self.set_result("C")

        @loom.transition(from_="high", to="end")
        def d(self) -> None:
            self.set_result("D")

        def above_100(self, state: Any) -> bool:
            return state["value"] > 100

        def above_200(self, state: Any) -> bool:
            return state["value"] > 200

    assert ended(session, Routing, {"value": value}).result == ending


def with_priorities(*priorities: float | None) -> Any:
    """Guarded transitions m0, m1, … of these priorities, and an unguarded one with none."""
    body: dict[str, Any] = {"yes": lambda self, state: True}
    for i, priority in enumerate(priorities):
        body[f"m{i}"] = loom.transition(to="end", priority=priority)(loom.guard("yes")(_setting(i)))
    body["last"] = loom.transition(to="end")(_setting("last"))
    return loom.workflow(type("Prioritised", (loom.BaseWorkflow,), body))


def _setting(value: Any) -> Any:
    def method(self: Any) -> None:
        self.set_result(value)

    return method


@pytest.mark.case("workflows:C03")
@pytest.mark.parametrize(
    ("priorities", "first"),
    [((1, 3, 2), 1), ((2, 2), 0), ((None, 0), 1), ((None, -5), 1), ((None, None), 0), ((0, 0.5), 1), ((-2, -1), 1)],
    ids=str,
)
def test_the_highest_priority_fires_and_ties_keep_their_order(session: loom.Loom, priorities: Any, first: int) -> None:
    assert ended(session, with_priorities(*priorities)).result == first


def test_an_async_guard_is_awaited(session: loom.Loom) -> None:
    @loom.workflow
    class Patient(loom.BaseWorkflow):
        @loom.transition(to="end")
        def plain(self) -> None:
            self.set_result("plain")

        @loom.transition(to="end", priority=1)
        @loom.guard("never")
        def guarded(self) -> None:
            self.set_result("guarded")

        async def never(self, state: Any) -> bool:
            return False

    assert ended(session, Patient).result == "plain"


def test_a_guard_may_take_no_state(session: loom.Loom) -> None:
    @loom.workflow
    class Bare(loom.BaseWorkflow):
        @loom.transition(to="end")
        def plain(self) -> None: ...

        @loom.transition(to="end", priority=1)
        @loom.guard("always")
        def guarded(self) -> None:
            self.set_result("guarded")

        def always(self) -> bool:
            return True

    assert ended(session, Bare).result == "guarded"


def test_a_guard_sees_what_the_last_move_committed(session: loom.Loom) -> None:
    @loom.workflow
    class Seeing(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def go(self) -> None:
            self.assign_state(ready=True)

        @loom.transition(from_="middle", to="end", priority=1)
        @loom.guard("is_ready")
        def guarded(self) -> None:
            self.set_result("guarded")

        @loom.transition(from_="middle", to="end")
        def plain(self) -> None: ...

        def is_ready(self, state: Any) -> bool:
            return bool(state["ready"])

    assert ended(session, Seeing).result == "guarded"


@pytest.mark.case("workflows:C07", "workflows:D05")
def test_a_guard_that_raises_fails_its_transition_and_keeps_what_was_committed(session: loom.Loom) -> None:
    @loom.workflow
    class Raising(loom.BaseWorkflow):
        @loom.transition(to="a")
        def one(self) -> None:
            self.assign_state(kept=1)

        @loom.transition(from_="a", to="b")
        def two(self) -> None:
            self.assign_state(kept=2)

        @loom.transition(from_="b", to="end")
        @loom.guard("broken")
        def three(self) -> None: ...

        def broken(self, state: Any) -> bool:
            raise ValueError("no guard today")

    run = ended(session, Raising)

    assert (run.status, run.place, run.error, run.state) == ("failed", "b", "no guard today", {"kept": 2})
    assert [(h.number, h.place) for h in run.history] == [(0, "start"), (1, "a"), (2, "b")]


@pytest.mark.case("workflows:C07")
def test_a_guard_that_raises_is_tried_again_like_its_transition(session: loom.Loom) -> None:
    calls: list[int] = []

    @loom.workflow
    class Flaky(loom.BaseWorkflow):
        @loom.transition(to="a")
        def one(self) -> None: ...

        @loom.transition(from_="a", to="end", retry_attempts=1, retry_delay=0)
        @loom.guard("flaky")
        def two(self) -> None:
            self.set_result("there")

        def flaky(self, state: Any) -> bool:
            calls.append(1)
            if len(calls) == 1:
                raise ValueError("not yet")
            return True

    run = ended(session, Flaky)

    assert (run.status, run.result, run.has_error) == ("completed", "there", False)


@pytest.mark.case("workflows:C08")
def test_a_place_that_waits_tries_its_automatic_transitions_after_each_answer(session: loom.Loom) -> None:
    @loom.workflow
    class Collecting(loom.BaseWorkflow):
        @loom.transition(to="collect")
        def begin(self) -> None:
            self.assign_state(n=0)

        @loom.transition(from_="collect", to="collect", wait=True)
        def add(self, state: Any) -> None:
            self.assign_state(n=state["n"] + 1)

        @loom.transition(from_="collect", to="end")
        @loom.guard("enough")
        def finish(self) -> None: ...

        def enough(self, state: Any) -> bool:
            return state["n"] >= 3

    run = ended(session, Collecting)
    for n in range(3):
        assert (run.status, run.state["n"]) == ("waiting", n)
        run.answer("add")
        at_rest(run)

    assert (run.status, run.state["n"]) == ("completed", 3)


@pytest.mark.case("workflows:C09")
def test_available_transitions_are_those_of_the_place_whatever_the_guards_say(session: loom.Loom) -> None:
    @loom.workflow
    class Both(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def begin(self) -> None: ...

        @loom.transition(from_="middle", to="end")
        @loom.guard("never")
        def auto(self) -> None: ...

        @loom.transition(from_="middle", to="end", wait=True)
        def ask(self) -> None: ...

        def never(self) -> bool:
            return False

    assert ended(session, Both).available_transitions == [
        {"id": "auto", "from": "middle", "to": "end"},
        {"id": "ask", "from": "middle", "to": "end", "trigger": "manual"},
    ]


@pytest.mark.case("workflows:C12")
def test_a_wait_transition_may_lead_back_to_the_start(session: loom.Loom) -> None:
    @loom.workflow
    class Round(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def begin(self, state: Any) -> None:
            self.assign_state(counter=state.get("counter", 0) + 1)

        @loom.transition(from_="middle", to="start", wait=True)
        def again(self) -> None: ...

    run = ended(session, Round)
    run.answer("again")
    at_rest(run)

    assert (run.status, run.place, run.state) == ("waiting", "middle", {"counter": 2})


def test_a_run_with_nothing_to_do_and_nobody_to_ask_is_stuck_and_names_the_guards(session: loom.Loom) -> None:
    @loom.workflow
    class Stuck(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def begin(self) -> None: ...

        @loom.transition(from_="middle", to="end")
        @loom.guard("is_monday")
        def go(self) -> None: ...

        def is_monday(self) -> bool:
            return False

    run = ended(session, Stuck)

    assert (run.status, run.place, run.error_code) == ("failed", "middle", "RUN_STUCK")
    assert "is_monday" in (run.error or "")


def test_a_stuck_run_goes_on_once_its_class_was_corrected(session: loom.Loom) -> None:
    def define(open_: bool) -> Any:
        @loom.workflow(name="unstuck")
        class Unstuck(loom.BaseWorkflow):
            @loom.transition(to="middle")
            def begin(self) -> None: ...

            @loom.transition(from_="middle", to="end")
            @loom.guard("may")
            def go(self) -> None: ...

            def may(self) -> bool:
                return open_

        return Unstuck

    run = ended(session, define(False))
    define(True)
    run.retry()

    assert at_rest(run).status == "completed"


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_a_pass_ends_at_its_step_limit_and_a_retry_goes_on(session: loom.Loom, limit: int) -> None:
    @loom.workflow(step_limit=limit)
    class Endless(loom.BaseWorkflow):
        @loom.transition(to="a")
        def begin(self) -> None:
            self.assign_state(n=1)

        @loom.transition(from_="a", to="a")
        def on(self, state: Any) -> None:
            self.assign_state(n=state["n"] + 1)

    run = ended(session, Endless)
    assert (run.status, run.error_code, run.state["n"]) == ("failed", "STEP_LIMIT", limit)
    run.retry()
    at_rest(run)

    assert (run.error_code, run.state["n"]) == ("STEP_LIMIT", 2 * limit)


def test_a_step_limit_may_be_given_at_the_start(session: loom.Loom) -> None:
    @loom.workflow
    class Endless(loom.BaseWorkflow):
        @loom.transition(to="a")
        def begin(self) -> None: ...

        @loom.transition(from_="a", to="a")
        def on(self) -> None: ...

    run = session.start(Endless, step_limit=3)
    at_rest(run)

    assert (run.error_code, run.history[-1].number) == ("STEP_LIMIT", 3)


def test_a_run_that_rests_within_its_limit_is_not_stopped(session: loom.Loom) -> None:
    @loom.workflow(step_limit=2)
    class Short(loom.BaseWorkflow):
        @loom.transition(to="a")
        def one(self) -> None: ...

        @loom.transition(from_="a", to="end")
        def two(self) -> None: ...

    assert ended(session, Short).status == "completed"


def test_transitions_that_leave_the_end_never_fire(session: loom.Loom) -> None:
    @loom.workflow
    class Over(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None: ...

        @loom.transition(from_="end", to="end")
        def again(self) -> None:
            self.assign_state(again=True)

    run = ended(session, Over)

    assert (run.status, run.state) == ("completed", {})
