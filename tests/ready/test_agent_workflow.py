"""AgentWorkflow and ChatAgentWorkflow: a model with tools, which ends, waits for a person, and never leaves a call unanswered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.ready import AgentWorkflow, ChatAgentWorkflow, LlmDelegateToolCallsTool, LlmGenerateTextTool, register_llm_provider
from loomnb.runtime import ToolRequest, TurnRequest, TurnResult
from loomnb.testing import Death, Driven, ScriptedModel, at_rest, drive, run_pass
from tests.helpers import plain_id, until
from tests.ready.llm import conversation, results, told

ARGS = {"system": "Help.", "userMessage": "hi"}


@pytest.fixture(autouse=True)
def _own_models() -> Iterator[None]:
    yield
    loom.use_models()


@pytest.fixture(autouse=True)
def _tools() -> None:
    @loom.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b


def agent(*turns: Any, answers: dict[str, Any] | None = None, **args: Any) -> tuple[Driven, ScriptedModel]:
    model = ScriptedModel(turns)
    loom.use_models(model)
    return drive(AgentWorkflow, {**ARGS, "tools": ["add", "ask_clarification"], **args}, answers=answers), model


ADD = [("add", {"a": 1, "b": 2})]
CLARIFY = [("ask_clarification", {"question": "Who?"})]


def unanswered(request: TurnRequest) -> set[str]:
    """The calls in a prompt that have no result."""
    calls = {call["id"] for one in request.messages for call in one.get("toolCalls", ())}
    return calls - {one["toolCallId"] for one in request.messages if one["role"] == "tool"}


# -- the loop -------------------------------------------------------------------------------------


@pytest.mark.case("workflows:L01")
def test_a_tool_request_costs_two_calls_of_the_model_and_one_delegation() -> None:
    run, model = agent(ADD, "It is 3.")

    assert (run.status, run.result) == ("completed", {"response": "It is 3."})
    assert len(model.requests) == 2
    assert [r["content"] for r in results(run)] == ["3"]
    assert told(model.requests[1]) == [("user", "hi"), ("assistant", ""), ("tool", "3")]


@pytest.mark.case("workflows:L01")
def test_without_a_tool_request_there_is_one_call_and_no_delegation() -> None:
    run, model = agent("Hello.")

    assert run.result == {"response": "Hello."}
    assert (len(model.requests), results(run)) == (1, [])
    assert run.path == ["start", "ready", "prompt_executed", "end"]


@pytest.mark.case("workflows:L01")
def test_a_workflow_of_ones_own_can_be_made_of_the_same_tools() -> None:
    @loom.workflow(name="own_loop")
    class OwnLoop(loom.BaseWorkflow[Any]):
        llm: LlmGenerateTextTool
        delegate: LlmDelegateToolCallsTool

        @loom.transition(to="asked")
        async def begin(self) -> None:
            said = await self.llm.call({"prompt": "What is 1 + 2?"}, config={"tools": ["add"]})
            self.assign_state(message=said.data["message"])

        @loom.transition(from_="asked", to="again", priority=1)
        @loom.guard("wants_tools")
        async def run_tools(self, state: Any) -> None:
            await self.delegate.call({"message": state["message"], "callback": {"transition": "none"}})

        @loom.transition(from_="again", to="asked")
        async def ask_again(self) -> None:
            self.assign_state(message=(await self.llm.call({})).data["message"])

        @loom.transition(from_="asked", to="end")
        async def finish(self, state: Any) -> None:
            self.set_result(state["message"]["text"])

        def wants_tools(self, state: Any) -> bool:
            return bool(state["message"].get("stopReason") == "tool_use")

    model = ScriptedModel(lambda request, turn: ADD if turn == 0 else "three")
    loom.use_models(model)

    assert drive(OwnLoop).result == "three"
    assert len(model.requests) == 2


@pytest.mark.case("workflows:L02")
def test_a_call_with_invalid_arguments_is_told_to_the_model_which_is_asked_again() -> None:
    run, model = agent([("add", {"a": "one", "b": 2})], ADD, "It is 3.")

    assert run.result == {"response": "It is 3."}
    assert [r["isError"] for r in results(run)] == [True, False]
    assert "valid integer" in results(run)[0]["content"]
    assert model.requests[1].messages[-1]["isError"] is True


@pytest.mark.parametrize("given", [float("nan"), "\ud800"], ids=["nan", "half-a-pair"])
def test_arguments_that_cannot_be_stored_are_told_to_the_model_too(given: Any) -> None:
    calls = [loom.ToolRequest(id="a", name="add", input={"a": given, "b": 2})]

    class Odd:
        def __init__(self) -> None:
            self.turns = [loom.TurnResult(tool_calls=calls), loom.TurnResult(text="Sorry.")]

        async def run_turn(self, request: TurnRequest) -> loom.TurnResult:
            return self.turns.pop(0)

    loom.use_models(Odd())
    run = drive(AgentWorkflow, {**ARGS, "tools": ["add"]})

    assert run.result == {"response": "Sorry."}
    assert [r["isError"] for r in results(run)] == [True]


@pytest.mark.case("workflows:L18")
def test_the_documents_are_context_user_assistant_tool_results_and_assistant(session: loom.Loom) -> None:
    model = ScriptedModel([ADD, "It is 3."])
    loom.use_models(model)

    run = session.start(AgentWorkflow, {**ARGS, "tools": ["add"], "context": "CTX"})

    assert run.wait(10) == {"response": "It is 3."}
    stored = [(d.document_name, d.internal, d.content["role"], d.content.get("text")) for d in run.record.shelf]
    assert stored == [
        ("llm_context", True, "user", "CTX"),
        ("llm_message", False, "user", "hi"),
        ("llm_message", False, "assistant", ""),
        ("llm_message", False, "user", None),
        ("llm_message", False, "assistant", "It is 3."),
    ]
    assert told(model.requests[0]) == [("user", "CTX"), ("user", "hi")]
    assert "CTX" not in str(run._repr_mimebundle_())


def test_the_model_is_given_the_system_and_the_named_tools() -> None:
    _, model = agent("Hello.")

    assert model.requests[0].system == "Help."
    assert [one.name for one in model.requests[0].tools] == ["add", "ask_clarification"]


def test_a_tool_that_was_not_offered_is_not_run() -> None:
    run, _ = agent([("agent_finish", {"result": 1})], "Well.")

    assert "There is no tool 'agent_finish'" in results(run)[0]["content"]
    assert run.result == {"response": "Well."}


def test_the_provider_is_the_one_that_is_configured(session: loom.Loom) -> None:
    model = ScriptedModel(["From acme."])
    register_llm_provider("acme", model)
    config = {"provider": "acme", "model": "big", "providerConfig": {"temperature": 0}}

    run = session.start(AgentWorkflow, ARGS, config=config)

    assert run.wait(10) == {"response": "From acme."}
    assert (model.requests[0].model, model.requests[0].settings) == ("big", {"temperature": 0})
    assert [(d.meta or {}).get("provider") for d in run.documents] == [None, "acme"]


def test_an_agent_can_be_a_sub_workflow() -> None:
    loom.use_models(ScriptedModel(["Done."]))

    @loom.workflow(name="boss")
    class Boss(loom.BaseWorkflow[Any]):
        agent: AgentWorkflow

        @loom.transition(to="there")
        async def begin(self) -> None:
            self.agent.run(ARGS, callback={"transition": "done"})

        @loom.transition(from_="there", to="end", wait=True)
        async def done(self, state: Any, input: loom.TransitionInput[Any, Any]) -> None:  # noqa: A002
            self.set_result(input.data)

    assert drive(Boss).result == {"response": "Done."}


# -- how it ends ----------------------------------------------------------------------------------


@pytest.mark.case("workflows:L19")
@pytest.mark.parametrize(
    ("reason", "stop"), [("length", "max_tokens"), ("stop-sequence", "stop_sequence"), ("content-filter", None)]
)
def test_a_model_that_was_cut_off_ends_the_run_with_what_there_is_and_says_so(reason: str, stop: str | None) -> None:
    run, _ = agent(TurnResult(text="Half a", finish_reason=reason))

    assert run.status == "completed"
    assert (run.result["response"], run.result["stopReason"]) == ("Half a", stop)
    assert "before it was done" in run.result["notice"]
    assert run.documents[-1].content == {"role": "system", "text": run.result["notice"]}


@pytest.mark.case("workflows:L19")
def test_a_call_that_was_cut_off_is_not_run_and_gets_a_result() -> None:
    calls = (ToolRequest(id="c1", name="add", input={"a": 1}),)

    run, _ = agent(TurnResult(text="Half a", tool_calls=calls, finish_reason="length"))

    assert run.result["stopReason"] == "max_tokens"
    assert [(r["toolCallId"], r["isError"]) for r in results(run)] == [("c1", True)]


def test_it_ends_after_eight_turns_with_the_last_text_and_says_so() -> None:
    def still(request: TurnRequest, turn: int) -> TurnResult:
        call = ToolRequest(id=f"c{turn}", name="add", input={"a": turn, "b": 1})
        return TurnResult(text=f"turn {turn + 1}", tool_calls=(call,), finish_reason="tool-calls")

    model = ScriptedModel(still)
    loom.use_models(model)

    run = drive(AgentWorkflow, {**ARGS, "tools": ["add"]})

    assert (run.status, len(model.requests)) == ("completed", 8)
    assert (run.result["response"], run.result["stopReason"]) == ("turn 8", "max_turns")
    assert "after 8 turns" in run.result["notice"]
    assert len(results(run)) == 8


def test_the_limit_of_turns_is_configured(session: loom.Loom) -> None:
    loom.use_models(ScriptedModel(lambda request, turn: ADD))

    run = session.start(AgentWorkflow, {**ARGS, "tools": ["add"]}, config={"maxTurns": 2})

    assert run.wait(10)["stopReason"] == "max_turns"
    with pytest.raises(loom.ArgsInvalid):
        session.start(AgentWorkflow, ARGS, config={"maxTurns": 0})


def test_what_the_provider_raises_fails_the_run_and_a_retry_asks_again(session: loom.Loom) -> None:
    said: list[Any] = [ValueError("overloaded"), "Hello."]
    loom.use_models(ScriptedModel(lambda request, turn: said.pop(0)))
    run = session.start(AgentWorkflow, ARGS)
    at_rest(run)
    assert (run.status, run.place, run.error) == ("failed", "ready", "overloaded")

    run.retry()

    assert run.wait(10) == {"response": "Hello."}


def test_a_run_that_is_canceled_in_a_turn_tells_its_provider(session: loom.Loom) -> None:
    asked, ended = threading.Event(), threading.Event()

    async def never(request: TurnRequest, turn: int) -> str:
        request.signal.add_listener(lambda reason: ended.set())
        asked.set()
        await asyncio.Event().wait()
        return ""

    loom.use_models(ScriptedModel(never))
    run = session.start(AgentWorkflow, ARGS)
    assert asked.wait(10)

    run.cancel()

    assert ended.wait(10)
    at_rest(run)
    assert (run.status, [d.content["role"] for d in run.documents]) == ("canceled", ["user"])


# -- people ---------------------------------------------------------------------------------------


def test_it_waits_for_a_person_and_goes_on_with_the_answer() -> None:
    run, model = agent([*CLARIFY, *ADD], "Hello Ada.", answers={"user_answered": {"answer": "Ada"}})

    assert run.result == {"response": "Hello Ada."}
    assert {r["content"] for r in results(run)} == {'"Ada"', "3"}
    assert unanswered(model.requests[1]) == set()


def test_while_it_waits_nothing_is_asked_of_the_run_itself() -> None:
    loom.use_models(ScriptedModel([CLARIFY, "Hello."]))

    run = run_pass(AgentWorkflow, {**ARGS, "tools": ["ask_clarification"]})

    assert (run.status, run.place, run.asks) == ("waiting", "awaiting_tools", [])


def test_canceling_the_pending_tools_leaves_no_call_without_a_result(session: loom.Loom) -> None:
    model = ScriptedModel([[*CLARIFY, ("ask_for_approval", {"concept": "x"}), *ADD], "Then without."])
    loom.use_models(model)
    run = session.start(AgentWorkflow, {**ARGS, "tools": ["add", "ask_clarification", "ask_for_approval"]})
    at_rest(run)

    AgentWorkflow.cancel_pending_tools(run)

    assert run.wait(10) == {"response": "Then without."}
    assert unanswered(model.requests[1]) == set()
    told_of = [one["content"] for one in model.requests[1].messages if one.get("isError")]
    assert len(told_of) == 2
    assert all("was canceled" in text for text in told_of)


# -- a chat ---------------------------------------------------------------------------------------


@pytest.mark.case("workflows:L20")
def test_a_chat_waits_for_the_person_after_each_answer(session: loom.Loom) -> None:
    model = ScriptedModel(["Hello.", "Fine."])
    loom.use_models(model)
    run = session.start(ChatAgentWorkflow, ARGS)
    at_rest(run)
    (ask,) = run.pending
    assert (run.status, run.place, run.waiting_for) == ("waiting", "waiting_for_user", "person")
    assert (ask.name, ask.widget and ask.widget.name) == ("user_message", "prompt-input")

    run.answer("user_message", "How are you?")
    until(run, lambda: len(model.requests) == 2 and run.place == "waiting_for_user")

    assert told(model.requests[1]) == [("user", "hi"), ("assistant", "Hello."), ("user", "How are you?")]
    run.cancel()


@pytest.mark.case("workflows:L20")
@pytest.mark.parametrize("result", [{"x": 1}, "a text", [1], None], ids=plain_id)
def test_in_task_mode_the_finish_tool_ends_it_with_exactly_its_result(result: Any) -> None:
    loom.use_models(ScriptedModel([[*ADD, ("agent_finish", {"result": result})]]))

    run = drive(ChatAgentWorkflow, {**ARGS, "tools": ["add"], "taskMode": True})

    assert (run.status, run.result) == ("completed", result)
    assert len(results(run)) == 2


def test_the_finish_tool_waits_for_the_other_calls_of_its_turn() -> None:
    loom.use_models(ScriptedModel([[("agent_finish", {"result": 1}), *CLARIFY]]))
    args = {**ARGS, "tools": ["ask_clarification"], "taskMode": True}

    assert run_pass(ChatAgentWorkflow, args).place == "awaiting_tools"
    run = drive(ChatAgentWorkflow, args, answers={"user_answered": {"answer": "Ada"}})

    assert (run.result, len(results(run))) == (1, 2)


def test_a_finish_without_a_result_does_not_end_it() -> None:
    loom.use_models(ScriptedModel([[("agent_finish", {})], [("agent_finish", {"result": 2})]]))

    assert drive(ChatAgentWorkflow, {**ARGS, "taskMode": True}).result == 2


def test_without_task_mode_there_is_no_finish_tool() -> None:
    model = ScriptedModel([[("agent_finish", {"result": 1})], "Well."])
    loom.use_models(model)

    run = run_pass(ChatAgentWorkflow, ARGS)

    assert (run.place, [t.name for t in model.requests[0].tools]) == ("waiting_for_user", [])


def test_a_chat_that_ran_out_of_its_turns_says_so_and_a_message_gives_it_new_ones(session: loom.Loom) -> None:
    model = ScriptedModel([ADD, ADD, "Done."])
    loom.use_models(model)
    run = session.start(ChatAgentWorkflow, {**ARGS, "tools": ["add"]}, config={"maxTurns": 2})
    at_rest(run)
    assert (run.place, len(model.requests)) == ("waiting_for_user", 2)
    assert "after 2 turns" in run.documents[-1].content["text"]

    run.answer("user_message", "Go on.")
    until(run, lambda: len(model.requests) == 3 and run.place == "waiting_for_user")

    assert run.documents[-1].content["text"] == "Done."
    assert unanswered(model.requests[2]) == set()
    run.cancel()


def test_a_chat_that_was_cut_off_in_a_call_can_go_on(session: loom.Loom) -> None:
    cut = TurnResult(tool_calls=(ToolRequest(id="c1", name="add", input={}),), finish_reason="length")
    model = ScriptedModel([cut, "Fine."])
    loom.use_models(model)
    run = session.start(ChatAgentWorkflow, {**ARGS, "tools": ["add"]})
    at_rest(run)

    run.answer("user_message", "Go on.")
    until(run, lambda: len(model.requests) == 2 and run.place == "waiting_for_user")

    assert unanswered(model.requests[1]) == set()
    run.cancel()


# -- a restart ------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(2, 7))
@pytest.mark.parametrize("acknowledged", [True, False], ids=["acknowledged", "unacknowledged"])
def test_wherever_the_kernel_dies_the_agent_comes_to_the_same_end(here: Path, after: int, acknowledged: bool) -> None:
    loom.use_models(ScriptedModel([ADD, "It is 3."]))
    death = Death(after, acknowledged=acknowledged)
    with loom.Loom(here / "s.duckdb", database=death, headless=True) as session:
        run_id = session.start(AgentWorkflow, {**ARGS, "tools": ["add"]}).id
        death.wait()

    with loom.Loom(here / "s.duckdb", headless=True) as session:
        session.restore()
        run = session.run(run_id)
        assert run.wait(10) == {"response": "It is 3."}
        messages = [d for d in run.documents if d.document_name == "llm_message"]

    assert [m.content["role"] for m in messages] == ["user", "assistant", "user", "assistant"]


def test_a_turn_that_was_not_stored_is_asked_for_again(here: Path) -> None:
    model = ScriptedModel(["Hello."])
    loom.use_models(model)
    death = Death(2)  # the run is stored, and that it is ready; the turn is not
    with loom.Loom(here / "s.duckdb", database=death, headless=True) as session:
        run_id = session.start(AgentWorkflow, ARGS).id
        death.wait()
        until(session.run(run_id), lambda: bool(model.requests))

    with loom.Loom(here / "s.duckdb", headless=True) as session:
        session.restore()
        assert session.run(run_id).wait(10) == {"response": "Hello."}

    assert len(model.requests) == 2


def test_after_a_restart_the_answer_to_a_tools_question_reaches_the_model(here: Path) -> None:
    loom.use_models(ScriptedModel([CLARIFY, "Hello Ada."]))
    with loom.Loom(here / "s.duckdb", headless=True) as session:
        run = session.start(AgentWorkflow, {**ARGS, "tools": ["ask_clarification"]})
        at_rest(run)
        at_rest(run.children[0])

    with loom.Loom(here / "s.duckdb", headless=True) as session:
        session.restore()
        again = session.run(run.id)
        again.children[0].answer({"answer": "Ada"})
        assert again.wait(10) == {"response": "Hello Ada."}


def test_the_conversation_is_drawn_with_its_notices() -> None:
    run, _ = agent(ADD, TurnResult(text="Half a", finish_reason="length"))

    assert [one["role"] for one in conversation(run)] == ["user", "assistant", "user", "assistant"]
    assert run.documents[-1].document_name == "message"
