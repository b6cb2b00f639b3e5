"""llm_delegate_tool_calls and llm_update_tool_result: every call gets a result, and the model hears what really happened."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import pytest

import loomnb as loom
from loomnb.documents import LlmMessageDocument
from loomnb.jsonvalue import loads
from loomnb.ready import AskClarificationTool, AskForApprovalTool, LlmDelegateToolCallsTool, LlmUpdateToolResultTool
from loomnb.runtime import TransitionInput
from loomnb.testing import Driven, at_rest, drive, run_transition
from tests.helpers import plain_id, until
from tests.ready.llm import delegating, message, results


def delegated(*calls: tuple[str, Any], **config: Any) -> Driven:
    run = drive(delegating(), {"message": message(*calls), "config": config})
    assert run.status == "completed", run.error
    return run


# -- results --------------------------------------------------------------------------------------


@pytest.mark.case("workflows:L12")
def test_a_message_without_tool_calls_is_complete_and_saves_nothing() -> None:
    run = delegated()

    assert run.result == {
        "allCompleted": True,
        "toolResults": [],
        "pendingCount": 0,
        "errorCount": 0,
        "hasErrors": False,
        "errors": [],
    }
    assert run.documents == []


@pytest.mark.case("workflows:L05")
def test_a_successful_call_is_no_error_and_is_saved_as_one_users_message() -> None:
    @loom.tool
    def add(a: int, b: int) -> int:
        return a + b

    run = delegated(("add", {"a": 1, "b": 2}), meta={"why": "sum"}, provider="acme")

    (document,) = run.documents
    assert (document.document_name, document.content["role"]) == ("llm_message", "user")
    assert results(run) == [{"type": "tool_result", "toolCallId": "c1", "content": "3", "isError": False}]
    assert run.result["toolResults"] == results(run)
    assert document.meta == {"provider": "acme", "why": "sum"}


@pytest.mark.parametrize("value", [0, False, "", "text", None, [], {}, {"a": [1.5]}], ids=plain_id)
def test_whatever_a_tool_gives_reaches_the_model_as_its_json(value: Any) -> None:
    @loom.tool
    def give() -> Any:
        return value

    run = delegated(("give", {}))

    (result,) = results(run)
    assert (loads(result["content"]), result["isError"]) == (value, False)


@pytest.mark.case("workflows:L08")
def test_the_reason_of_an_envelope_with_only_an_error_reaches_the_model() -> None:
    @loom.tool
    def fail() -> loom.ToolEnvelope:
        return loom.ToolEnvelope(error="the shop is closed")

    run = delegated(("fail", {}))

    assert [(r["content"], r["isError"]) for r in results(run)] == [("the shop is closed", True)]
    assert run.result["errors"] == [{"toolName": "fail", "toolCallId": "c1", "message": "the shop is closed"}]
    assert (run.result["errorCount"], run.result["hasErrors"]) == (1, True)


def test_an_error_without_words_is_an_error_and_what_came_with_it_is_not_told() -> None:
    @loom.tool
    def fail() -> loom.ToolEnvelope:
        return loom.ToolEnvelope(error="", data={"almost": "done"})

    (result,) = results(delegated(("fail", {})))

    assert result["isError"] is True
    assert "did not say why" in result["content"]
    assert "almost" not in result["content"]


@pytest.mark.case("workflows:L02", "workflows:L04")
def test_invalid_arguments_exceptions_and_unknown_tools_have_one_shape_and_say_what_is_wrong() -> None:
    @loom.tool
    def add(a: int, b: int) -> int:
        return a + b

    @loom.tool
    async def burst() -> None:
        raise ValueError("it burst")

    @loom.tool
    def odd() -> Any:
        return {1, 2}

    run = delegated(("add", {"a": "x", "b": 2}), ("burst", {}), ("nonesuch", {}), ("odd", {}), ("add", None))

    assert [(r["toolCallId"], r["isError"], set(r)) for r in results(run)] == [
        (f"c{n}", True, {"type", "toolCallId", "content", "isError"}) for n in (1, 2, 3, 4, 5)
    ]
    told = [r["content"] for r in results(run)]
    assert "valid integer" in told[0]
    assert told[1] == "it burst"
    assert "There is no tool 'nonesuch'" in told[2]
    assert "only JSON" in told[3]
    assert "Field required" in told[4]
    assert run.result["errorCount"] == 5


def test_all_calls_run_side_by_side() -> None:
    there = asyncio.Event()

    @loom.tool
    async def first() -> str:
        await there.wait()
        return "first"

    @loom.tool
    async def second() -> str:
        there.set()
        return "second"

    run = delegated(("first", {}), ("second", {}))

    assert [loads(r["content"]) for r in results(run)] == ["first", "second"]


def test_documents_and_sub_workflows_of_tools_on_threads_are_all_there() -> None:
    loom.workflow(name="slow_child")(SlowChild)

    @loom.tool(name="busy")
    class Busy(loom.BaseTool[Any, Any, Any]):
        child: SlowChild

        def handle(self, args: Any, ctx: Any, options: loom.ToolCallOptions[Any]) -> loom.ToolEnvelope:
            for number in range(20):
                self.document_store.save(loom.PlainDocument(text=str(number)))
            return loom.ToolEnvelope(pending=self.child.run({}, callback=options.callback, show="hidden"))

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads that could get in between one another's writes do
    try:
        outcome = run_transition(delegating(), "begin", args={"message": message(*[("busy", {})] * 20)})
    finally:
        sys.setswitchinterval(usual)

    assert outcome.state["now"]["pendingCount"] == 20
    assert sorted(d.index for d in outcome.documents) == list(range(400))
    assert len(outcome.children) == 20


def test_only_what_was_offered_may_be_called() -> None:
    called = []

    @loom.tool
    def launch() -> None:
        called.append(1)

    run = delegated(("launch", {}), tools=["add"])

    assert "There is no tool 'launch'.\nThere are: add." in results(run)[0]["content"]
    assert called == []


def test_a_tool_of_the_provider_is_not_ours_to_run() -> None:
    @loom.tool(name="web_search")
    class WebSearch(loom.ServerTool[Any]):
        def to_server_tool_config(self, config: Any) -> Any:
            return {}

    assert "run by the model's provider" in results(delegated(("web_search", {})))[0]["content"]


def test_results_that_are_not_to_be_saved_are_given_all_the_same() -> None:
    @loom.tool
    def one() -> int:
        return 1

    run = delegated(("one", {}), save=False)

    assert run.documents == []
    assert [r["content"] for r in run.result["toolResults"]] == ["1"]


def test_a_delegation_needs_a_callback() -> None:
    with pytest.raises(loom.ArgsInvalid, match="callback"):
        loom.resolve(LlmDelegateToolCallsTool).call({"message": message()}).close()


def test_what_stands_in_for_a_tool_is_called_instead() -> None:
    @loom.tool
    def one() -> int:
        return 1

    with loom.overrides({one: lambda: 2}):
        run = delegated(("one", {}))

    assert results(run)[0]["content"] == "2"


# -- results that come later ----------------------------------------------------------------------


@loom.workflow(name="slow_child")
class SlowChild(loom.BaseWorkflow[Any]):
    @loom.transition(to="there")
    async def begin(self) -> None: ...

    @loom.transition(from_="there", to="end", wait=True)
    async def say(self, state: Any, input: TransitionInput[Any, None]) -> None:  # noqa: A002
        if input.data == "burst":
            raise ValueError("the child burst")
        self.set_result(input.data)


def pending_tool() -> None:
    loom.workflow(name="slow_child")(SlowChild)

    @loom.tool(name="slow")
    class Slow(loom.BaseTool[Any, Any, Any]):
        child: SlowChild

        async def handle(self, args: Any, ctx: Any, options: loom.ToolCallOptions[Any]) -> loom.ToolEnvelope:
            return loom.ToolEnvelope(pending=self.child.run({}, callback=options.callback))


def started(session: loom.Loom, *calls: tuple[str, Any]) -> loom.Run:
    run = session.start(delegating(), {"message": message(*calls)})
    at_rest(run)
    for child in run.children:
        at_rest(child)
    return run


@pytest.mark.case("workflows:L09")
def test_a_pending_call_is_completed_by_its_child_and_the_content_is_what_complete_makes_of_it(session: loom.Loom) -> None:
    pending_tool()
    run = started(session, ("slow", {}))
    assert (run.status, run.waiting_for) == ("waiting", "child")
    assert (run.state["now"]["allCompleted"], run.state["now"]["pendingCount"]) == (False, 1)
    assert [d.document_name for d in run.documents] == ["link"]

    run.children[0].answer("say", {"found": 2})
    run.wait(10)

    assert (run.result["allCompleted"], run.result["pendingCount"]) == (True, 0)
    assert [loads(r["content"]) for r in run.result["toolResults"]] == [{"found": 2}]
    assert [d.document_name for d in run.documents] == ["link", "llm_message"]


def test_nothing_is_saved_before_the_last_result_is_there(session: loom.Loom) -> None:
    pending_tool()

    @loom.tool
    def one() -> int:
        return 1

    run = started(session, ("slow", {}), ("one", {}), ("slow", {}))
    first, second = run.children
    second.answer("say", "b")
    until(run, lambda: run.state["now"]["pendingCount"] == 1)
    assert [r["toolCallId"] for r in run.state["now"]["toolResults"]] == ["c2", "c3"]
    assert [d.document_name for d in run.documents] == ["link", "link"]

    first.answer("say", "a")
    run.wait(10)

    assert sorted(r["toolCallId"] for r in run.result["toolResults"]) == ["c1", "c2", "c3"]
    assert [d.document_name for d in run.documents] == ["link", "link", "llm_message"]


def test_the_message_of_a_child_that_failed_reaches_the_model(session: loom.Loom) -> None:
    pending_tool()
    run = started(session, ("slow", {}))

    run.children[0].answer("say", "burst")
    run.wait(10)

    (result,) = run.result["toolResults"]
    assert (result["content"], result["isError"]) == ("The sub-workflow of 'slow' failed: the child burst", True)


def test_a_child_that_was_canceled_is_an_error_that_says_so(session: loom.Loom) -> None:
    pending_tool()
    run = started(session, ("slow", {}))

    run.children[0].cancel()
    run.wait(10)

    (result,) = run.result["toolResults"]
    assert result["isError"] is True
    assert "was canceled" in result["content"]


def test_a_later_success_of_a_child_that_failed_takes_the_place_of_its_error(session: loom.Loom) -> None:
    pending_tool()
    run = started(session, ("slow", {}), ("slow", {}))
    first, second = run.children
    first.answer("say", "burst")
    until(run, lambda: run.state["now"]["errorCount"] == 1)

    at_rest(first)
    first.answer("say", "well")
    until(run, lambda: run.state["now"]["errorCount"] == 0)
    second.answer("say", "too")
    run.wait(10)

    assert [loads(r["content"]) for r in run.result["toolResults"]] == ["well", "too"]
    assert run.result["errorCount"] == 0


def test_a_tool_that_keeps_its_callback_to_itself_is_an_error_and_hangs_nothing() -> None:
    loom.workflow(name="slow_child")(SlowChild)

    @loom.tool(name="deaf")
    class Deaf(loom.BaseTool[Any, Any, Any]):
        child: SlowChild

        async def handle(self, args: Any) -> loom.ToolEnvelope:
            return loom.ToolEnvelope(pending=self.child.run({}))

    outcome = run_transition(delegating(), "begin", args={"message": message(("deaf", {}))})

    (result,) = outcome.state["now"]["toolResults"]
    assert result["isError"] is True
    assert "callback=options.callback" in result["content"]


ENDED = {"workflowId": "w", "status": "completed", "hasError": False, "errorMessage": None, "data": 7}
OPEN = {"allCompleted": False, "toolResults": [], "pendingCount": 1, "errorCount": 0, "hasErrors": False, "errors": []}


def updated(delegation: Mapping[str, Any], **ended: Any) -> Any:
    tool = loom.resolve(LlmUpdateToolResultTool)
    return asyncio.run(tool.call({"delegateResult": delegation, "completedTool": {**ENDED, **ended}})).data


@pytest.mark.case("workflows:L11")
@pytest.mark.parametrize("meta", [None, {}, {"toolUseId": "c1"}, {"toolName": "slow"}], ids=plain_id)
def test_an_end_without_the_metadata_of_its_call_is_an_error(meta: Any) -> None:
    with pytest.raises(loom.Refused, match="which tool call"):
        updated(OPEN, meta=meta)


def test_an_answer_is_not_lost_when_the_cell_of_its_tool_has_not_run_again() -> None:
    done = updated(OPEN, meta={"toolUseId": "c1", "toolName": "not_here_yet"})

    assert done["toolResults"] == [{"type": "tool_result", "toolCallId": "c1", "content": "7", "isError": False}]
    assert done["allCompleted"] is True


@pytest.mark.parametrize(
    "delegation",
    [{**OPEN, "pending": [{"toolCallId": "c9", "toolName": "slow"}]}, {**OPEN, "allCompleted": True, "pendingCount": 0}],
    ids=["of-an-earlier-message", "after-all"],
)
def test_an_end_that_nothing_waits_for_changes_nothing(delegation: dict[str, Any]) -> None:
    assert updated(delegation, meta={"toolUseId": "c1", "toolName": "slow"}) == delegation


def test_a_complete_that_raises_is_an_error_the_model_is_told() -> None:
    @loom.tool(name="picky")
    class Picky(loom.BaseTool[Any, Any, Any]):
        async def handle(self) -> loom.ToolEnvelope:
            return loom.ToolEnvelope()

        async def complete(self, result: Mapping[str, Any]) -> loom.ToolEnvelope:
            raise ValueError("not like that")

    done = updated(OPEN, meta={"toolUseId": "c1", "toolName": "picky"})

    assert [(r["content"], r["isError"]) for r in done["toolResults"]] == [("not like that", True)]


# -- the tools that ask a person ------------------------------------------------------------------


@pytest.mark.case("workflows:M10")
def test_clarification_completes_with_the_answers_text_and_without_one_with_the_whole_input() -> None:
    tool = loom.resolve(AskClarificationTool)
    nothing = {**ENDED, "data": {"other": 1}}

    assert asyncio.run(tool.complete({**ENDED, "data": {"answer": "Ada"}})).data == "Ada"
    assert asyncio.run(tool.complete(nothing)).data == nothing


@pytest.mark.case("workflows:M10")
def test_a_person_who_is_asked_for_clarification_answers_in_the_child(session: loom.Loom) -> None:
    run = started(session, ("ask_clarification", {"question": "Where to?", "options": ["staging", "production"]}))
    (child,) = run.children
    assert (child.workflow, child.pending[0].label) == ("ask_user", "Where to?")

    child.answer({"answer": "staging"})
    run.wait(10)

    assert [loads(r["content"]) for r in run.result["toolResults"]] == ["staging"]


@pytest.mark.parametrize(
    ("button", "expected"), [("user_confirmed", {"concept": "Ship **v1**?"}), ("user_denied", {"denied": True})]
)
def test_approval_gives_the_concept_or_that_it_was_denied(session: loom.Loom, button: str, expected: dict[str, Any]) -> None:
    run = started(session, ("ask_for_approval", {"concept": "Ship **v1**?"}))

    run.children[0].answer(button)
    run.wait(10)

    assert [loads(r["content"]) for r in run.result["toolResults"]] == [expected]


def test_approval_by_a_child_that_failed_is_a_denial() -> None:
    tool = loom.resolve(AskForApprovalTool)

    failed = {**ENDED, "status": "failed", "hasError": True, "data": {"confirmed": True, "markdown": "x"}}

    assert asyncio.run(tool.complete(failed)).data == {"denied": True}


def test_a_document_of_a_message_can_be_delegated() -> None:
    document = LlmMessageDocument.model_validate(message(("nonesuch", {})))

    run = drive(delegating(), {"message": document.model_dump(by_alias=True)})

    assert [r["isError"] for r in results(run)] == [True]
