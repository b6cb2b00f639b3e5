"""Agents as ready-made workflows: a model asks for tools until it is done. A turn is a transition, and so is a round of tools.

A round ends with a result for every call, whatever became of it: a history with a call and no result is one that models refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from loomnb.documents import LlmContextDocument, LlmMessageDocument, MessageDocument
from loomnb.jsonvalue import thaw
from loomnb.ready.agent_tools import AgentFinishTool
from loomnb.ready.llm import LlmGenerateTextTool
from loomnb.ready.llm_messages import LlmMessage, calls_of
from loomnb.ready.llm_tool_calls import LlmDelegateToolCallsTool, LlmUpdateToolResultTool, save_results, tool_result
from loomnb.runtime import FINISHED, Run, RunContext, TransitionInput, current_attempt
from loomnb.tools import spec_of
from loomnb.workflows import BaseWorkflow, transition, workflow
from loomnb.workflows import guard as guarded_by

__all__ = ["AgentArgs", "AgentConfig", "AgentWorkflow", "ChatAgentArgs", "ChatAgentWorkflow"]

_TURN_MS = 120_000
"""How long a model may take for a turn."""

FINISH = spec_of(AgentFinishTool).name


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="forbid")


class AgentArgs(_Shape):
    """What an agent is started with.

    Attributes:
        system: the instructions of the model.
        tools: the names of the tools it may ask for.
        user_message: what it is told first.
        context: told before that, and not shown to people.
    """

    system: str
    tools: list[str] = []
    user_message: str
    context: str | None = None


class ChatAgentArgs(AgentArgs):
    """The same for a chat. `task_mode`: the model ends the run, with the tool `agent_finish`."""

    task_mode: bool = False


class AgentConfig(_Shape):
    """Which model plays the agent, and how long it may go on.

    Attributes:
        provider: a name given to `loom.register_llm_provider`; default: the model of `loom.use_models(...)`.
        model: which of the provider's models; default: the provider's own.
        provider_config: settings for the provider (`temperature`, `max_tokens`, …).
        max_turns: turns of the model at the most since a person last said something.
    """

    provider: str | None = None
    model: str | None = None
    provider_config: dict[str, Any] = Field(default_factory=dict[str, Any])
    max_turns: int = Field(default=8, ge=1)


A = TypeVar("A", bound=AgentArgs)


class _Agent(BaseWorkflow[A]):
    """The loop both have: a turn, its tools, and the next turn."""

    llm: LlmGenerateTextTool
    delegate: LlmDelegateToolCallsTool
    update: LlmUpdateToolResultTool

    @transition(to="ready")
    async def begin(self, state: Mapping[str, Any], ctx: RunContext[A]) -> None:
        """Put what it is told first into the documents."""
        if ctx.args.context:
            self.document_store.save(LlmContextDocument(role="user", text=ctx.args.context))
        self._hear(ctx.args.user_message)
        self.set_state({"turns": 0, "maxTurns": ctx.config.max_turns, "provider": "", "message": {}, "delegation": {}})

    @transition(from_="ready", to="prompt_executed", timeout=_TURN_MS)
    async def prompt(self, state: Mapping[str, Any], ctx: RunContext[A]) -> None:
        """One turn of the model. Made again after a crash, it is asked again: what it said was not stored."""
        said = await self.llm.call(
            {},
            config={
                "provider": ctx.config.provider,
                "model": ctx.config.model,
                "providerConfig": dict(ctx.config.provider_config),
                "system": ctx.args.system,
                "tools": self._tools(ctx.args),
            },
        )
        self.assign_state(turns=state["turns"] + 1, message=said.data["message"], provider=said.metadata["provider"])

    @transition(from_="prompt_executed", to="awaiting_tools", priority=10)
    @guarded_by("wants_tools")
    async def call_tools(self, state: Mapping[str, Any], ctx: RunContext[A]) -> None:
        """Run the tools it asks for. Those that ask a person answer later."""
        done = await self.delegate.call(
            {"message": thaw(state["message"]), "callback": {"transition": "tool_ended"}},
            config={"tools": self._tools(ctx.args), "provider": state["provider"]},
        )
        self.assign_state(delegation=done.data)

    @transition(from_="awaiting_tools", to="awaiting_tools", wait=True)
    async def tool_ended(
        self,
        state: Mapping[str, Any],
        input: TransitionInput[Any, Any],  # noqa: A002  # the contract's word
    ) -> None:
        """The sub-workflow of a tool ended."""
        done = await self.update.call(
            {"delegateResult": thaw(state["delegation"]), "completedTool": input}, config={"provider": state["provider"]}
        )
        self.assign_state(delegation=done.data)

    @transition(from_="awaiting_tools", to="ready")
    @guarded_by("may_go_on")
    async def go_on(self) -> None:
        """Every call has its result: let the model go on."""

    def wants_tools(self, state: Mapping[str, Any]) -> bool:
        """Whether the turn ended for tools."""
        return _stop_of(state) == "tool_use"

    def has_all_results(self, state: Mapping[str, Any]) -> bool:
        """Whether every call of the turn has its result."""
        return bool(state["delegation"]["allCompleted"])

    def may_go_on(self, state: Mapping[str, Any]) -> bool:
        """Whether every call has its result, and there are turns left."""
        return self.has_all_results(state) and state["turns"] < state["maxTurns"]

    def is_out_of_turns(self, state: Mapping[str, Any]) -> bool:
        """Whether every call has its result, and there are none left."""
        return self.has_all_results(state) and state["turns"] >= state["maxTurns"]

    @staticmethod
    def cancel_pending_tools(run: Run) -> None:
        """Cancel the sub-workflows that the tool calls of an agent's run wait for.

        Each call gets a result that says so, as of any sub-workflow that is canceled, and the model goes on with those. Nothing
        happens where none is waited for. It is no button of the run: an open question would make it one that waits for a person.

        Args:
            run: the run of an agent.
        """
        for child in run.children:
            if child.status not in FINISHED:
                child.cancel()

    def _tools(self, args: AgentArgs) -> list[str]:
        return list(args.tools)

    def _hear(self, text: str) -> None:
        id = current_attempt().record.source.new_id("msg")  # noqa: A001  # the contract's word
        self.document_store.save(LlmMessageDocument(role="user", id=id, text=text))

    def _end_of_turn(self, state: Mapping[str, Any]) -> str:
        """Note why a turn that does not go on ended before it was done; empty when it was. Calls it made get a result first."""
        stop = _stop_of(state)
        if stop == "end_turn":
            return ""
        cut = "at its limit of output tokens" if stop == "max_tokens" else f"({stop or 'for a reason that is not known'})"
        left = calls_of(_message(state)) if stop != "tool_use" else []
        if left:
            save_results(self, [tool_result(c["id"], "Not run: the turn was cut off.", is_error=True) for c in left])
        return self._say(f"The model was stopped {cut} before it was done.")

    def _out_of_turns(self, state: Mapping[str, Any]) -> str:
        return self._say(f"Stopped after {state['turns']} turns of the model; it was not done.")

    def _say(self, notice: str) -> str:
        self.document_store.save(MessageDocument(role="system", text=notice))
        return notice


def _message(state: Mapping[str, Any]) -> LlmMessage:
    return LlmMessage.model_validate(thaw(state["message"]))


def _finished(state: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The calls that ended the task and were not refused."""
    refused = [one["toolCallId"] for one in state["delegation"]["errors"]]
    return (call for call in calls_of(_message(state)) if call["name"] == FINISH and call["id"] not in refused)


def _stop_of(state: Mapping[str, Any]) -> str | None:
    stop: str | None = state["message"].get("stopReason")
    return stop


@workflow(name="agent", title="Agent", schema=AgentArgs, config_schema=AgentConfig)
class AgentWorkflow(_Agent[AgentArgs]):
    """A model with tools, that ends with its answer: `{"response": text}`.

    `loom.start(loom.AgentWorkflow, {"system": "…", "tools": ["search"], "userMessage": "…"}, config={"provider": "claude"})`.
    Tools that start sub-workflows (`ask_clarification`) let it wait. It ends after `maxTurns` (8) turns, and where the model was
    cut off, with what there is: the result then has a `notice` and a `stopReason` (`max_turns`, `max_tokens`, …; None: unknown).
    """

    @transition(from_="prompt_executed", to="end")
    async def finish(self, state: Mapping[str, Any]) -> None:
        """The model asks for nothing more."""
        self._respond(state, self._end_of_turn(state), _stop_of(state))

    @transition(from_="awaiting_tools", to="end", priority=10)
    @guarded_by("is_out_of_turns")
    async def run_out(self, state: Mapping[str, Any]) -> None:
        """It had its turns."""
        self._respond(state, self._out_of_turns(state), "max_turns")

    def _respond(self, state: Mapping[str, Any], notice: str, stop: str | None) -> None:
        response = {"response": _message(state).said()}
        self.set_result(response | ({"notice": notice, "stopReason": stop} if notice else {}))


@workflow(
    name="chat_agent",
    title="Chat agent",
    schema=ChatAgentArgs,
    config_schema=AgentConfig,
    widget={"widget": "prompt-input", "options": {"transition": "user_message", "label": "Send", "placeholder": "Message"}},
)
class ChatAgentWorkflow(_Agent[ChatAgentArgs]):
    """A model with tools, that talks with a person until the run is canceled: each answer of its own waits for the next message.

    With `taskMode: true` it has the tool `agent_finish` too, and the run ends with the result it gives there. When it ran out of
    its turns, or was cut off, it says so, and the person may write what to do.
    """

    @transition(from_="prompt_executed", to="waiting_for_user")
    async def hand_over(self, state: Mapping[str, Any]) -> None:
        """It asks for no tools: the person is next."""
        self._end_of_turn(state)

    @transition(from_="awaiting_tools", to="waiting_for_user", priority=10)
    @guarded_by("is_out_of_turns")
    async def run_out(self, state: Mapping[str, Any]) -> None:
        """It had its turns: the person is next."""
        self._out_of_turns(state)

    @transition(from_="awaiting_tools", to="end", priority=20)
    @guarded_by("has_finished")
    async def end_task(self, state: Mapping[str, Any]) -> None:
        """It said that the task is done."""
        self.set_result(next(_finished(state))["args"]["result"])

    @transition(from_="waiting_for_user", to="ready", wait=True, schema=str)
    async def user_message(
        self,
        state: Mapping[str, Any],
        input: TransitionInput[str, None],  # noqa: A002  # the contract's word
    ) -> None:
        """Your message"""  # noqa: D415  # the label of its line
        self._hear(input.data)
        self.assign_state(turns=0)

    def has_finished(self, state: Mapping[str, Any]) -> bool:
        """Whether it ended its task, and every call of the turn has its result."""
        return self.has_all_results(state) and any(_finished(state))

    def _tools(self, args: AgentArgs) -> list[str]:
        is_task = isinstance(args, ChatAgentArgs) and args.task_mode
        return [*args.tools, FINISH] if is_task else list(args.tools)
