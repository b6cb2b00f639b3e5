"""FanOut: many sub-workflows side by side, counted by key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from loomnb.testing import at_rest, run_transition
from tests.helpers import until


@pytest.fixture(autouse=True)
def _children() -> None:
    @loom.workflow
    class EchoWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self, state: Mapping[str, Any], ctx: loom.RunContext[dict[str, Any]]) -> None:
            self.set_result({"said": ctx.args.get("say")})

    @loom.workflow
    class FailWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self, state: Mapping[str, Any], ctx: loom.RunContext[dict[str, Any]]) -> None:
            if not OPEN.is_set():
                raise ValueError(f"no {ctx.args.get('say', 'luck')}")
            self.set_result("mended")

    @loom.workflow
    class WaitWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="asking")
        async def go(self) -> None: ...

        @loom.transition(from_="asking", to="end", wait=True)
        async def answered(self, state: Mapping[str, Any], given: loom.TransitionInput[Any, None]) -> None:
            self.set_result(given.data)

    OPEN.clear()


OPEN = threading.Event()
"""Lets the failing child succeed."""


def started(session: loom.Loom, items: Any, **more: Any) -> loom.Run:
    return session.start(loom.FanOutWorkflow, {"items": items, **more})


def child(run: loom.Run, number: int) -> loom.Run:
    one = run.children[number]
    at_rest(one)
    return one


def entries(run: loom.Run) -> Any:
    return run.state["entries"]


@pytest.mark.case("workflows:G01")
def test_every_item_starts_a_child_with_a_callback_and_its_key(session: loom.Loom) -> None:
    run = started(session, {"a": {"workflow": "wait"}, "b": {"workflow": "wait"}})
    at_rest(run)

    callbacks = [c.record.callback for c in run.children]
    assert [c["transition"] for c in callbacks if c] == ["on_child_complete"] * 2
    assert [c["metadata"]["key"] for c in callbacks if c] == ["a", "b"]
    assert (run.place, run.waiting_for, run.state["started"], run.state["ended"]) == ("awaiting", "child", 2, 0)


@pytest.mark.case("workflows:G07")
def test_record_items_give_a_record(session: loom.Loom) -> None:
    run = started(session, {"a": {"workflow": "echo", "args": {"say": 1}}, "b": {"workflow": "fail"}}, mode="allSettled")

    assert run.wait(10) == {
        "results": {
            "a": {"status": "completed", "data": {"said": 1}},
            "b": {"status": "failed", "data": None, "error": "no luck"},
        },
        "hasErrors": True,
        "errorCount": 1,
    }
    assert run.status == "completed"


@pytest.mark.case("workflows:G08")
def test_list_items_give_a_list_in_their_order(session: loom.Loom) -> None:
    run = started(session, [{"workflow": "echo", "args": {"say": n}} for n in range(20)])

    result = run.wait(10)

    assert [(e["key"], e["data"]["said"]) for e in result["results"]] == [(str(n), n) for n in range(20)]
    assert (result["hasErrors"], result["errorCount"]) == (False, 0)


@pytest.mark.case("workflows:G09")
def test_an_item_that_never_told_its_end_is_failed_with_an_explanation() -> None:
    done = run_transition(
        loom.FanOutWorkflow,
        "finish",
        args={"items": {"a": {"workflow": "echo"}}},
        state={"entries": [], "aborting": False, "failed": [], "started": 1, "ended": 1, "stopped": False},
    )

    assert done.result["results"]["a"]["status"] == "failed"
    assert "never told" in done.result["results"]["a"]["error"]
    assert done.result["errorCount"] == 1


@pytest.mark.case("workflows:G10")
def test_keys_of_a_list_are_labels_or_indexes(session: loom.Loom) -> None:
    run = started(session, [{"workflow": "echo", "label": "L"}, {"workflow": "echo"}])

    assert [e["key"] for e in run.wait(10)["results"]] == ["L", "1"]


@pytest.mark.case("workflows:G11")
def test_two_items_of_one_key_are_refused_and_nothing_starts(session: loom.Loom) -> None:
    with pytest.raises(loom.ArgsInvalid, match="unique"):
        started(session, [{"workflow": "echo", "label": "L"}, {"workflow": "echo", "label": "L"}])

    assert session.runs().fetchall() == []


@pytest.mark.case("workflows:G12")
def test_an_unknown_name_fails_the_run_before_any_child_exists(session: loom.Loom) -> None:
    @loom.workflow
    class ParentWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="waiting")
        async def go(self) -> None:
            items = {"a": {"workflow": "echo"}, "b": {"workflow": "nowhere"}}
            loom.FanOutWorkflow().run({"items": items}, callback={"transition": "done"})

        @loom.transition(from_="waiting", to="end", wait=True)
        async def done(self, state: Mapping[str, Any], given: loom.TransitionInput[Any, None]) -> None:
            self.set_result({"failed": given.has_error, "why": given.error_message, "data": given.data})

    result = session.start(ParentWorkflow).wait(10)

    assert result["failed"] is True
    assert result["data"] is None
    assert "'nowhere'" in result["why"]
    assert session.sql("select count(*) from runs where workflow = 'echo'").fetchall() == [(0,)]


def test_args_that_do_not_fit_one_child_start_none(session: loom.Loom) -> None:
    class Args(BaseModel):
        n: int

    @loom.workflow(schema=Args)
    class CountWorkflow(loom.BaseWorkflow[Args]):
        @loom.transition(to="end")
        async def go(self) -> None: ...

    run = started(session, {"a": {"workflow": CountWorkflow, "args": {"n": 1}}, "b": {"workflow": CountWorkflow}})

    with pytest.raises(loom.RunFailed, match="item 'b'"):
        run.wait(10)
    assert run.children == []


@pytest.mark.case("workflows:G13")
def test_the_first_failure_cancels_the_siblings(session: loom.Loom) -> None:
    run = started(session, {"a": {"workflow": "wait"}, "b": {"workflow": "fail"}, "c": {"workflow": "wait"}})

    result = run.wait(10)

    assert {k: e["status"] for k, e in result["results"].items()} == {"a": "canceled", "b": "failed", "c": "canceled"}
    assert result["errorCount"] == 3
    assert run.status == "completed"
    assert [c.status for c in run.children] == ["canceled", "failed", "canceled"]
    assert list(session.pending()) == []


def test_what_was_not_started_when_one_failed_is_skipped(session: loom.Loom) -> None:
    items = [{"workflow": "fail"}, *({"workflow": "echo"} for _ in range(3))]

    result = started(session, items, concurrency=1).wait(10)

    assert [e["status"] for e in result["results"]] == ["failed", "skipped", "skipped", "skipped"]
    assert result["errorCount"] == 4
    assert "'0'" in result["results"][1]["error"]


@pytest.mark.case("workflows:G15")
def test_a_failed_child_that_is_retried_updates_its_own_entry_and_counts_once(session: loom.Loom) -> None:
    run = started(session, {"a": {"workflow": "fail"}, "b": {"workflow": "wait"}}, mode="allSettled")
    until(run, lambda: run.state.get("ended") == 1)
    OPEN.set()

    child(run, 0).retry()
    until(run, lambda: len(run.state["entries"]) == 2)

    assert (run.status, run.state["ended"]) == ("waiting", 1)
    child(run, 1).answer("answered", {"ok": True})
    assert run.wait(10) == {
        "results": {
            "a": {"status": "completed", "data": "mended"},
            "b": {"status": "completed", "data": {"ok": True}},
        },
        "hasErrors": False,
        "errorCount": 0,
    }


@pytest.mark.case("workflows:G16")
def test_a_parent_gets_the_result_of_three_named_children(session: loom.Loom) -> None:
    @loom.workflow
    class ExampleWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="waiting")
        async def go(self) -> None:
            items = {name: {"workflow": "wait", "args": {"say": name}} for name in ("one", "two", "three")}
            loom.FanOutWorkflow().run({"items": items}, callback={"transition": "done"})

        @loom.transition(from_="waiting", to="end", wait=True, schema=loom.FanOutResult)
        async def done(self, state: Mapping[str, Any], given: loom.TransitionInput[loom.FanOutResult, None]) -> None:
            assert not given.data.has_errors
            assert isinstance(given.data.results, dict)
            for name, outcome in given.data.results.items():
                self.document_store.save(loom.MessageDocument(role=name, text=str(outcome.data)))

    run = session.start(ExampleWorkflow)
    at_rest(run)
    assert (run.status, run.waiting_for) == ("waiting", "child")
    fan = child(run, 0)
    for n in range(3):
        child(fan, n).answer("answered", n)

    run.wait(10)

    messages = [d.content for d in run.documents if d.document_name == "message"]
    assert messages == [{"role": r, "text": t} for r, t in (("one", "0"), ("two", "1"), ("three", "2"))]


def test_no_items_complete_at_once(session: loom.Loom) -> None:
    assert started(session, {}).wait(10) == {"results": {}, "hasErrors": False, "errorCount": 0}
    assert started(session, []).wait(10) == {"results": [], "hasErrors": False, "errorCount": 0}


@pytest.mark.parametrize("concurrency", [1, 4, 16])
def test_children_go_on_side_by_side_but_no_more_than_allowed(session: loom.Loom, concurrency: int) -> None:
    """Every child waits until as many as allowed are inside, so it can only end if they really overlap."""
    inside, most = set[str](), 0
    full = asyncio.Event()

    @loom.workflow
    class BusyWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self, state: Mapping[str, Any], ctx: loom.RunContext[dict[str, Any]]) -> None:
            nonlocal most
            inside.add(ctx.workflow_id)
            most = max(most, len(inside))
            if len(inside) == concurrency:
                full.set()
            await asyncio.wait_for(full.wait(), 10)
            inside.discard(ctx.workflow_id)

    run = started(session, [{"workflow": "busy"} for _ in range(32)], concurrency=concurrency)

    assert run.wait(20)["errorCount"] == 0
    assert most == concurrency


def test_bodies_in_threads_overlap_too(session: loom.Loom) -> None:
    together = threading.Barrier(3)

    @loom.workflow
    class BusyWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        def go(self) -> None:
            together.wait(10)

    assert started(session, [{"workflow": "busy"} for _ in range(3)]).wait(10)["errorCount"] == 0


def test_progress_counts_the_children_that_ended(session: loom.Loom) -> None:
    run = started(session, {"a": {"workflow": "echo"}, "b": {"workflow": "wait"}})
    until(run, lambda: run.progress is not None and run.progress.done == 1)

    assert str(run.progress) == "1 of 2"
    assert str(loom.Progress(37, 1000)) == "37 of 1,000"


def test_a_thousand_children_take_a_move_each_and_a_pass_without_step_limit(session: loom.Loom) -> None:
    run = started(session, [{"workflow": "echo", "args": {"say": n}, "show": "hidden"} for n in range(1000)])

    result = run.wait(60)

    assert [e["data"]["said"] for e in result["results"]] == list(range(1000))
    assert run.record.moves == 1002
    (size,) = session.sql(
        "select max(length(body::varchar)) from journal where run_id = $r and kind = 'run.moved' and body->>'name' = "
        "'on_child_complete'",
        {"r": run.id},
    ).fetchall()[0]
    assert size < 400  # each callback stores its own entry, not all of them


def test_a_fan_out_goes_on_after_a_restart(here: Any) -> None:
    with loom.open(here / "f.duckdb") as first:
        run = started(first, {"a": {"workflow": "wait"}, "b": {"workflow": "echo"}, "c": {"workflow": "wait"}})
        until(run, lambda: run.state.get("ended") == 1)
        child(run, 0).answer("answered", 1)
        until(run, lambda: run.state["ended"] == 2)

    with loom.open(here / "f.duckdb") as second:
        again = second.run(run.id)
        assert (again.status, len(again.children)) == ("waiting", 3)
        child(again, 2).answer("answered", 3)

        assert {k: e["data"] for k, e in again.wait(10)["results"].items()} == {"a": 1, "b": {"said": None}, "c": 3}


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"items": "abc"},
        {"items": [{"args": {}}]},
        {"items": [], "mode": "some"},
        {"items": [], "concurrency": 0},
        {"items": [{"workflow": "echo", "shows": "inline"}]},
        {"items": [{"workflow": int}]},
    ],
)
def test_what_is_no_fan_out_is_refused(session: loom.Loom, args: Any) -> None:
    with pytest.raises(loom.ArgsInvalid):
        session.start(loom.FanOutWorkflow, args)


def test_args_that_json_cannot_hold_are_refused_not_stringified(session: loom.Loom) -> None:
    with pytest.raises(loom.NotJson):
        started(session, [{"workflow": "echo", "args": {"when": object()}}])
