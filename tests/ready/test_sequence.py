"""Sequence: sub-workflows one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import at_rest, run_transition
from tests.helpers import until

CAN_WORK = {"now": False}


@pytest.fixture(autouse=True)
def _children() -> None:
    CAN_WORK["now"] = False

    @loom.workflow
    class EchoWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self, state: Mapping[str, Any], ctx: loom.RunContext[dict[str, Any]]) -> None:
            self.set_result(ctx.args.get("say"))

    @loom.workflow
    class FailWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="end")
        async def go(self) -> None:
            if not CAN_WORK["now"]:
                raise ValueError("no luck")
            self.set_result("mended")

    @loom.workflow
    class WaitWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="asking")
        async def go(self) -> None: ...

        @loom.transition(from_="asking", to="end", wait=True)
        async def answered(self, state: Mapping[str, Any], given: loom.TransitionInput[Any, None]) -> None:
            self.set_result(given.data)


def started(session: loom.Loom, items: Any, **more: Any) -> loom.Run:
    return session.start(loom.SequenceWorkflow, {"items": items, **more})


def statuses(result: Any) -> list[str]:
    return [e["status"] for e in result["results"]]


@pytest.mark.case("workflows:H02")
def test_no_items_complete_at_once(session: loom.Loom) -> None:
    run = started(session, [])

    assert run.wait(10) == {"results": [], "hasErrors": False, "errorCount": 0}
    assert run.children == []


@pytest.mark.case("workflows:H03")
def test_the_next_starts_when_the_one_before_has_ended(session: loom.Loom) -> None:
    run = started(session, [{"workflow": "wait"}, {"workflow": "wait"}])
    at_rest(run)
    assert (len(run.children), run.state["index"]) == (1, 0)

    at_rest(run.children[0])
    run.children[0].answer(1)
    until(run, lambda: run.state["index"] == 1 and len(run.children) == 2)

    at_rest(run.children[1])
    run.children[1].answer(2)
    assert [e["data"] for e in run.wait(10)["results"]] == [1, 2]


@pytest.mark.case("workflows:H04")
def test_a_failure_skips_the_rest() -> None:
    items = [{"workflow": "fail"}, {"workflow": "echo"}, {"workflow": "echo"}]
    told = loom.TransitionInput(
        workflow_id="c", status="failed", has_error=True, error_message="no luck", data=None, meta={"key": "0", "index": 0}
    )

    done = run_transition(
        loom.SequenceWorkflow,
        "on_child_complete",
        args={"items": items},
        state={"index": 0, "entries": [], "aborted": False, "total": 3},
        input=told,
    )

    assert done.children == []
    assert done.state["aborted"] is True
    ended = run_transition(loom.SequenceWorkflow, "finish", args={"items": items}, state=done.state)
    assert statuses(ended.result) == ["failed", "skipped", "skipped"]
    assert "'0'" in ended.result["results"][2]["error"]


@pytest.mark.case("workflows:H06")
@pytest.mark.parametrize("keyed", [False, True])
def test_the_result_has_the_shape_of_the_items(session: loom.Loom, keyed: bool) -> None:
    items = [{"workflow": "echo", "args": {"say": 1}}, {"workflow": "fail"}, {"workflow": "echo"}]

    result = started(session, dict(zip("abc", items, strict=True)) if keyed else items).wait(10)

    found = result["results"]
    assert [e["status"] for e in (found.values() if keyed else found)] == ["completed", "failed", "skipped"]
    assert list(found) == ["a", "b", "c"] if keyed else [e["key"] for e in found] == ["0", "1", "2"]
    assert (result["hasErrors"], result["errorCount"]) == (True, 2)


@pytest.mark.case("workflows:H07")
def test_a_failing_first_child_end_to_end(session: loom.Loom) -> None:
    run = started(session, [{"workflow": "fail"}, {"workflow": "echo"}])

    result = run.wait(10)

    assert statuses(result) == ["failed", "skipped"]
    assert result["results"][0]["error"] == "no luck"
    assert (result["hasErrors"], result["errorCount"], run.status) == (True, 2, "completed")


def test_all_settled_goes_on_behind_a_failure(session: loom.Loom) -> None:
    result = started(session, [{"workflow": "fail"}, {"workflow": "echo"}], mode="allSettled").wait(10)

    assert statuses(result) == ["failed", "completed"]


@pytest.mark.case("workflows:H08")
def test_a_canceled_child_ends_it_too(session: loom.Loom) -> None:
    run = started(session, [{"workflow": "wait"}, {"workflow": "echo"}])
    at_rest(run)
    at_rest(run.children[0])

    run.children[0].cancel()

    assert statuses(run.wait(10)) == ["canceled", "skipped"]
    assert len(run.children) == 1


@pytest.mark.case("workflows:H09")
def test_a_late_success_of_an_earlier_child_updates_its_own_entry(session: loom.Loom) -> None:
    run = started(session, [{"workflow": "fail"}, {"workflow": "wait"}], mode="allSettled")
    until(run, lambda: len(run.children) == 2)
    CAN_WORK["now"] = True

    run.children[0].retry()
    until(run, lambda: len(run.state["entries"]) == 2)

    assert (run.status, run.state["index"]) == ("waiting", 1)
    at_rest(run.children[1])
    run.children[1].answer("second")
    assert [e["data"] for e in run.wait(10)["results"]] == ["mended", "second"]


def test_an_unknown_name_starts_nothing(session: loom.Loom) -> None:
    run = started(session, [{"workflow": "echo"}, {"workflow": "nowhere"}])

    with pytest.raises(loom.RunFailed, match="'nowhere'"):
        run.wait(10)
    assert run.children == []
