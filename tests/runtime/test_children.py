"""Sub-workflows: started with their parent's commit, calling back once, canceled as a tree."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import Death, at_rest
from tests.helpers import status_is, until

State = Mapping[str, Any]
Input = loom.TransitionInput[Any, Any]
Ctx = loom.RunContext[dict[str, Any]]


@pytest.fixture(autouse=True)
def _children() -> None:
    @loom.workflow
    class EchoWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self, state: State, ctx: Ctx) -> None:
            self.set_result({"said": ctx.args.get("say")})

    @loom.workflow
    class FailWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self) -> None:
            raise ValueError("no luck")

    @loom.workflow
    class WaitWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="asking")
        async def go(self) -> None: ...

        @loom.transition(from_="asking", to="end", wait=True)
        async def answered(self, state: State, given: Input) -> None:
            self.set_result(given.data)


def named(name: str) -> loom.BaseWorkflow[Any]:
    """An instance of the workflow of a name, to call `run` on."""
    from loomnb.workflows import WorkflowDefinition, definition_of

    definition = definition_of(name)
    assert isinstance(definition, WorkflowDefinition)
    return definition.cls()


def parent_of(child: str, **options: Any) -> type[loom.BaseWorkflow[Any]]:
    """A workflow that starts a child and keeps what it is told."""

    @loom.workflow
    class ParentWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="waiting")
        async def go(self, state: State, ctx: Ctx) -> None:
            named(child).run(ctx.args, **{"callback": {"transition": "told"}, **options})

        @loom.transition(from_="waiting", to="end", wait=True)
        async def told(self, state: State, given: Input) -> None:
            self.set_result(
                {
                    "id": given.workflow_id,
                    "status": given.status,
                    "failed": given.has_error,
                    "why": given.error_message,
                    "data": given.data,
                    "meta": given.meta,
                }
            )

    return ParentWorkflow


@pytest.mark.case("workflows:F01")
def test_a_callback_waits_until_its_parent_is_at_a_place_that_takes_it(session: loom.Loom) -> None:
    @loom.workflow
    class BusyWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="one")
        async def go(self) -> None:
            named("echo").run({"say": 1}, callback={"transition": "told"})

        @loom.transition(from_="one", to="two")
        async def step(self, state: State, ctx: Ctx) -> None:
            (child,) = session.run(ctx.workflow_id).children
            await asyncio.wait_for(child, 10)  # it has ended before its parent can take its callback

        @loom.transition(from_="two", to="three")
        async def another(self) -> None: ...

        @loom.transition(from_="three", to="end", wait=True)
        async def told(self, state: State, given: Input) -> None:
            self.set_result(given.data)

    run = session.start(BusyWorkflow)

    assert run.wait(10) == {"said": 1}
    assert [e.place for e in run.history] == ["start", "one", "two", "three", "end"]


@pytest.mark.case("workflows:F02")
def test_a_callback_brings_the_metadata_the_child_and_its_result(session: loom.Loom) -> None:
    parent = parent_of("echo", callback={"transition": "told", "metadata": {"tag": "T"}})
    run = session.start(parent, {"say": 7})

    told = run.wait(10)

    assert told == {
        "id": run.children[0].id,
        "status": "completed",
        "failed": False,
        "why": None,
        "data": {"said": 7},
        "meta": {"tag": "T"},
    }


@pytest.mark.case("workflows:F03")
def test_without_a_callback_the_parent_never_hears_of_its_child(session: loom.Loom) -> None:
    run = session.start(parent_of("echo", callback=None))
    at_rest(run)

    at_rest(run.children[0])

    assert (run.children[0].status, run.status, run.waiting_for) == ("completed", "waiting", "person")


@pytest.mark.case("workflows:F05")
def test_a_failed_child_leads_a_callback_with_an_error_place_there(session: loom.Loom) -> None:
    bodies = []

    @loom.workflow
    class CarefulWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="waiting")
        async def go(self) -> None:
            named("fail").run(callback={"transition": "told"})

        @loom.transition(from_="waiting", to="end", wait=True, error_place="trouble")
        async def told(self) -> None:
            bodies.append("told")

        @loom.transition(from_="trouble", to="end", wait=True)
        async def recover(self) -> None:
            self.set_result("recovered")

    run = session.start(CarefulWorkflow)
    until(run, lambda: run.place == "trouble" and run.status == "waiting")

    assert (run.has_error, run.error, bodies) == (True, "no luck", [])
    run.answer("recover")
    assert run.wait(10) == "recovered"


@pytest.mark.case("workflows:F06")
@pytest.mark.parametrize(("child", "failed", "why"), [("fail", True, "no luck"), ("echo", False, None)])
def test_without_an_error_place_the_body_sees_how_the_child_ended(
    session: loom.Loom, child: str, failed: bool, why: str | None
) -> None:
    told = session.start(parent_of(child)).wait(10)

    assert (told["failed"], told["why"]) == (failed, why)


@pytest.mark.case("workflows:F07")
def test_going_back_through_retry_target_starts_a_new_child(session: loom.Loom) -> None:
    @loom.workflow
    class StubbornWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="launching")
        async def go(self) -> None:
            self.assign_state(launches=0)

        @loom.transition(from_="launching", to="waiting")
        async def launch(self, state: State) -> None:
            named("fail" if state["launches"] == 0 else "echo").run({"say": "ok"}, callback={"transition": "told"})
            self.assign_state(launches=state["launches"] + 1)

        @loom.transition(from_="waiting", to="end", wait=True, retry_attempts=2, retry_delay=1, retry_target="launching")
        async def told(self, state: State, given: Input) -> None:
            self.set_result({"launches": state["launches"], "data": given.data})

    run = session.start(StubbornWorkflow)

    assert run.wait(10) == {"launches": 2, "data": {"said": "ok"}}
    assert [c.status for c in run.children] == ["failed", "completed"]


@pytest.mark.case("workflows:F08")
def test_a_child_answered_twice_calls_back_once(session: loom.Loom) -> None:
    run = session.start(parent_of("wait"))
    at_rest(run)
    (child,) = run.children
    at_rest(child)
    ask = child.pending[0].id

    child.answer(ask, 1)
    with pytest.raises(loom.AnswerRefused):
        child.answer(ask, 2)

    assert run.wait(10)["data"] == 1
    rows = session.sql("select count(*) from journal where run_id = $r and kind = 'run.answered'", {"r": run.id})
    assert rows.fetchall() == [(1,)]


@pytest.mark.case("workflows:F10")
def test_a_child_is_shown_inline_as_a_link_or_not_at_all(session: loom.Loom) -> None:
    @loom.workflow
    class ShowWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self) -> None:
            named("echo").run(show="inline")
            named("echo").run(show="link", label="Look here")
            named("echo").run(show="hidden")

    run = session.start(ShowWorkflow)
    run.wait(10)

    links = [d.content for d in run.documents]
    ids = [c.id for c in run.children]
    assert len(ids) == 3
    assert links == [
        {"label": "echo", "workflowId": ids[0], "embed": True, "expanded": True},
        {"label": "Look here", "workflowId": ids[1], "embed": False, "expanded": False},
    ]


@pytest.mark.case("workflows:F11")
def test_each_callback_starts_the_next_child(session: loom.Loom) -> None:
    @loom.workflow
    class ModesWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="waiting")
        async def go(self) -> None:
            self._launch("inline")

        @loom.transition(from_="waiting", to="waiting", wait=True)
        async def told(self, state: State, given: Input) -> None:
            self.document_store.save(loom.MessageDocument(role="assistant", text=f"{given.meta['mode']} done"))
            following = {"inline": "link", "link": "hidden"}.get(given.meta["mode"])
            self.assign_state(over=following is None)
            if following is not None:
                self._launch(following)

        @loom.transition(from_="waiting", to="end")
        @loom.guard("is_over")
        async def finish(self) -> None: ...

        def is_over(self, state: State) -> bool:
            return bool(state.get("over"))

        def _launch(self, mode: Any) -> None:
            named("echo").run(show=mode, callback={"transition": "told", "metadata": {"mode": mode}})

    run = session.start(ModesWorkflow)
    run.wait(10)

    texts = [d.content["text"] for d in run.documents if d.document_name == "message"]
    assert texts == ["inline done", "link done", "hidden done"]
    assert [d.content["embed"] for d in run.documents if d.document_name == "link"] == [True, False]


@pytest.mark.case("workflows:F13")
def test_labels_are_on_the_runs_own_documents_and_not_on_its_children(session: loom.Loom) -> None:
    run = session.start(parent_of("echo"), labels=["s:1"])
    run.wait(10)

    assert {d.labels for d in run.documents} == {("s:1",)}
    assert run.children[0].labels == ()


@pytest.mark.case("workflows:F15")
def test_a_workflow_may_start_itself(session: loom.Loom) -> None:
    @loom.workflow
    class DeepWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self, state: State, ctx: Ctx) -> None:
            if ctx.args["depth"] < 2:
                type(self)().run({"depth": ctx.args["depth"] + 1})

    one = session.start(DeepWorkflow, {"depth": 0})
    one.wait(10)
    (two,) = one.children
    two.wait(10)
    (three,) = two.children

    assert (one.parent_id, two.parent_id, three.parent_id) == (None, one.id, two.id)


@pytest.mark.case("workflows:F16")
def test_a_class_that_is_no_workflow_is_refused_by_name(session: loom.Loom) -> None:
    class Plain(loom.BaseWorkflow[dict[str, Any]]): ...

    @loom.workflow
    class OuterWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self) -> None:
            Plain().run()

    with pytest.raises(loom.RunFailed, match="Plain is no workflow"):
        session.start(OuterWorkflow).wait(10)


@pytest.mark.case("workflows:F17")
def test_a_detour_goes_back_to_the_start(session: loom.Loom) -> None:
    """Fetch says unauthorised; a prioritised guard leads to a child; its end leads back to fetch."""

    @loom.workflow
    class CalendarWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="fetched")
        async def fetch(self, state: State) -> None:
            self.assign_state(authorised=state.get("signed_in", False))

        @loom.transition(from_="fetched", to="signing_in", priority=10)
        @loom.guard("is_locked")
        async def sign_in(self) -> None:
            named("echo").run(callback={"transition": "signed_in"})

        @loom.transition(from_="signing_in", to="start", wait=True)
        async def signed_in(self) -> None:
            self.assign_state(signed_in=True)

        @loom.transition(from_="fetched", to="end")
        async def show(self) -> None:
            self.set_result("events")

        def is_locked(self, state: State) -> bool:
            return not state["authorised"]

    run = session.start(CalendarWorkflow)

    assert run.wait(10) == "events"
    assert [e.place for e in run.history] == ["start", "fetched", "signing_in", "start", "fetched", "end"]
    assert len(run.children) == 1


@pytest.mark.case("workflows:F18")
def test_children_start_in_call_order_and_callbacks_come_one_at_a_time(session: loom.Loom) -> None:
    inside = 0

    @loom.workflow
    class ManyWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="waiting")
        async def go(self) -> None:
            self.assign_state(told=[])
            for n in range(8):
                named("echo").run({"say": n}, callback={"transition": "told"}, show="hidden")

        @loom.transition(from_="waiting", to="waiting", wait=True)
        async def told(self, state: State, given: Input) -> None:
            nonlocal inside
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            self.assign_state(told=[*state["told"], given.data["said"]])
            inside -= 1

        @loom.transition(from_="waiting", to="end")
        @loom.guard("all_told")
        async def finish(self, state: State) -> None:
            self.set_result(state["told"])

        def all_told(self, state: State) -> bool:
            return len(state["told"]) == 8

    run = session.start(ManyWorkflow)

    assert sorted(run.wait(10)) == list(range(8))
    first = session.sql(
        "select body->>'$.args.say' from journal where kind = 'run.started' and body->>'parent_id' = $r order by seq",
        {"r": run.id},
    )
    assert [int(n) for (n,) in first.fetchall()] == list(range(8))


def test_a_child_of_a_move_that_fails_does_not_exist(session: loom.Loom) -> None:
    @loom.workflow
    class BrokenWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self) -> None:
            named("echo").run()
            raise ValueError("after all")

    run = session.start(BrokenWorkflow)
    at_rest(run)

    assert run.children == []
    assert session.sql("select count(*) from runs").fetchall() == [(1,)]


def test_a_callback_that_names_no_wait_transition_is_refused(session: loom.Loom) -> None:
    with pytest.raises(loom.RunFailed, match="no wait transition"):
        session.start(parent_of("echo", callback={"transition": "nowhere"})).wait(10)
    with pytest.raises(loom.RunFailed, match="callback='done' is no mapping"):
        session.start(parent_of("echo", callback="done")).wait(10)


def test_a_child_that_waits_for_a_person_is_named_to_whoever_waits_for_its_parent(session: loom.Loom) -> None:
    run = session.start(parent_of("wait"))

    with pytest.raises(loom.NoFrontEnd, match="answered"):
        run.wait(10)
    assert run.status == "waiting"


def test_a_child_is_answered_from_the_script_too(session: loom.Loom) -> None:
    session.answers({"wait": {"answered": "scripted"}})

    assert session.start(parent_of("wait")).wait(10)["data"] == "scripted"


# -- canceling ----------------------------------------------------------------------------------------


@pytest.mark.case("workflows:I01")
def test_canceling_the_root_cancels_a_tree_of_three_in_one_batch(session: loom.Loom) -> None:
    @loom.workflow
    class MiddleWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="middle")
        async def go(self) -> None:
            named("wait").run(callback={"transition": "told"})

        @loom.transition(from_="middle", to="end", wait=True)
        async def told(self) -> None: ...

    root = session.start(parent_of("middle"))
    at_rest(root)
    (middle,) = root.children
    at_rest(middle)
    (leaf,) = middle.children
    at_rest(leaf)

    root.cancel()

    assert [r.status for r in (root, middle, leaf)] == ["canceled"] * 3
    assert [r.place for r in (root, middle, leaf)] == ["waiting", "middle", "asking"]
    assert list(session.pending()) == []
    rows = session.sql("select run_id, seq from journal where kind = 'run.canceled' order by seq").fetchall()
    assert [r for r, _ in rows] == [root.id, middle.id, leaf.id]
    assert session.sql("select count(*) from journal where kind = 'run.answered'").fetchall() == [(0,)]


def test_a_canceled_child_tells_its_parent_so(session: loom.Loom) -> None:
    run = session.start(parent_of("wait"))
    at_rest(run)
    at_rest(run.children[0])

    run.children[0].cancel()

    told = run.wait(10)
    assert (told["status"], told["failed"]) == ("canceled", True)
    assert told["why"]


def test_a_child_that_moves_is_stopped_with_its_parent(session: loom.Loom) -> None:
    begun = threading.Event()

    @loom.workflow
    class HangWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end", timeout=0)
        async def go(self) -> None:
            begun.set()
            await asyncio.Event().wait()

    run = session.start(parent_of("hang"))
    assert begun.wait(10)

    run.cancel()

    (child,) = run.children
    status_is(child, "canceled")
    assert (run.status, child.place) == ("canceled", "start")


# -- dying and coming back ----------------------------------------------------------------------------


@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("after", range(1, 6))
def test_whenever_the_kernel_dies_the_callback_comes_exactly_once(here: Any, after: int, acknowledged: bool) -> None:
    """Start, launch with its child, the child's end, the callback taken, the last move: the same result after each."""
    parent = parent_of("echo")
    death = Death(after, acknowledged=acknowledged)
    with loom.Loom(str(here / "d.duckdb"), database=death) as first:
        if after == 1 and not acknowledged:
            threading.Thread(target=first.start, args=(parent, {"say": 1}), daemon=True).start()
        else:
            first.start(parent, {"say": 1})
        death.wait()

    with loom.open(here / "d.duckdb") as second:
        ((run_id,),) = second.sql("select run_id from runs where workflow = 'parent'").fetchall()
        run = second.run(run_id)
        assert run.wait(10)["data"] == {"said": 1}
        assert len(run.children) == 1
        assert [e.place for e in run.history] == ["start", "waiting", "end"]
