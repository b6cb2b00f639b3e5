"""An agent as a step: a model that is asked turn after turn, its tools run one after the other, until it ends with an outcome.

The model is reached through `runtime.model`, one turn at a time. Each turn, and each tool that came to its end, is on record like
a commit, so that a step that is made again neither asks (and pays) nor acts twice. A tool in which the kernel died runs again,
and what it wrote through `access` is on record. Rules: contracts/blueprints.md §1.10, §2.10; decisions.md, Agents 23.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from loomnb.asks import Shape
from loomnb.blueprints.agent_schemas import draft_7, json_of, parsed_by, shape_of
from loomnb.blueprints.agent_tools import CATCHABLE, execute_tool, is_our_end, said_by
from loomnb.blueprints.catalog import RUNTIME
from loomnb.blueprints.model import AgentSpec, AgentTool, StepResult
from loomnb.errors import InvalidRequest, StepError
from loomnb.jsonvalue import freeze, thaw
from loomnb.runtime import LiveCall, ModelTool, RunContext, ToolRequest, TurnRequest, TurnResult, model_of

__all__ = ["AgentCall", "execute_agent"]

_MOST_TURNS = 10
_CUT_OFF = ("length", "max_tokens", "max-tokens")
_BROKEN_OFF = ("content-filter", "content_filter", "refusal", "error", "tool-calls", "tool_calls", "tool_use")
"""Words of providers for a turn that did not come to its end. One that wants tools and names none is unfinished too."""


@dataclass(frozen=True, slots=True)
class AgentCall:
    """An agent step that is made."""

    agent: AgentSpec
    step: str
    context: RunContext[Any]
    live: LiveCall


async def execute_agent(call: AgentCall, access: Any) -> Any:
    """Let an agent work until it ends; what its output schema made of that.

    Raises:
        StepError: there is no model for it, it did not end in ten turns, was cut off, or ended with something that does not fit.
    """
    agent, live = call.agent, call.live
    tools = {tool.id: tool for tool in agent.tools}
    told = tuple(_told(tool) for tool in agent.tools)
    messages: list[Any] = [freeze({"role": "user", "content": call.context.args["intent"]})]
    shape = shape_of(agent.output_schema)
    for _ in range(_MOST_TURNS):
        live.check()
        # The messages are frozen: a provider that changes them in place must not change what the next turn is told.
        turn = await _turn(
            call,
            TurnRequest(
                system=_system(agent),
                messages=tuple(messages),
                tools=told,
                role=agent.llm,
                output_schema=shape,
                signal=access.signal,
            ),
        )
        if turn.finish_reason in _CUT_OFF:
            raise StepError(
                f"The model of {agent.name!r} was cut off before it was done.",
                advice="Give it a higher limit of output tokens, or less to say.",
            )
        if not turn.tool_calls:
            return await _final(agent, turn)
        messages.append(
            freeze({"role": "assistant", "content": turn.text, "toolCalls": [_call_json(c) for c in turn.tool_calls]})
        )
        for wanted in turn.tool_calls:
            answer = await _tool_message(tools, wanted, access, live)
            messages.append(freeze(answer))
    raise StepError(
        f"The agent {agent.name!r} did not end within {_MOST_TURNS} turns.",
        advice="Give it fewer or clearer tools, or say in its instructions when it is done.",
    )


def _told(tool: AgentTool[Any, Any, Any]) -> ModelTool:
    return ModelTool(
        name=tool.id,
        description=tool.description,
        input_schema=draft_7(tool.input_schema, "input"),
        output_schema=draft_7(tool.output_schema, "output"),
    )


def _system(agent: AgentSpec) -> str:
    skills = "".join(f"\n\n# Skill: {s.name}\n{s.description}\n\n{s.content}" for s in agent.skills)
    return f"{agent.instructions}{skills}"


def _call_json(call: ToolRequest) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "input": call.input}


async def _turn(call: AgentCall, request: TurnRequest) -> TurnResult:
    """One turn of the model; what is on record of it, where the step is made again."""
    told = {"system": request.system, "messages": list(request.messages), "role": request.role}
    name = call.agent.name

    async def really(number: int) -> TurnResult:
        model = model_of(request.role)
        if model is None:
            raise StepError(
                f"There is no model for the role {request.role!r} of the agent {name!r}.",
                advice="Give one: loom.flow(…, models={'default': model}), or loom.use_models(model), then run.retry().",
            )
        with _failing_as("LLM_REQUEST_FAILED", f"The request to the model of {name!r} failed"):
            turn = await model.run_turn(request)
        call.live.check()
        with _failing_as("LLM_RESPONSE_INVALID", f"The model of {name!r} answered with something unreadable"):
            record = _turn_json(turn)
        await call.live.store(number, "model.turn", told, record)
        return _turn_of(record)

    return await call.live.perform("model.turn", told, really, _turn_of)


@contextlib.contextmanager
def _failing_as(code: str, what: str) -> Generator[None]:
    """Tell whatever a provider raises by this code; an error of the runtime's own catalogue keeps its code."""
    try:
        yield
    except CATCHABLE as exc:
        if RUNTIME.recognises(exc) or is_our_end(exc):
            raise
        raise StepError(f"{what}: {said_by(exc)}", code=code, cause=exc) from exc


def _turn_json(turn: TurnResult) -> Any:
    """A turn as JSON, once it is one.

    Raises:
        TypeError: it is not.
        NotJson: something of it is no JSON.
    """
    if not isinstance(turn, TurnResult):
        raise TypeError(f"it is a {type(turn).__name__}, no TurnResult")
    out: dict[str, Any] = {"text": turn.text, "toolCalls": [_call_json(c) for c in turn.tool_calls], "finish": turn.finish_reason}
    texts = [turn.text, turn.finish_reason, *(one[name] for one in out["toolCalls"] for name in ("id", "name"))]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("its text, its reason or the id or name of a tool is no text")
    out |= {"object": turn.object} if turn.object is not None else {}
    out |= {"usage": dict(turn.usage)} if turn.usage else {}
    out |= {"model": turn.model_id} if turn.model_id else {}
    return thaw(freeze(out))


def _turn_of(record: Any) -> TurnResult:
    return TurnResult(
        text=record["text"],
        tool_calls=tuple(ToolRequest(**c) for c in record["toolCalls"]),
        finish_reason=record["finish"],
        object=record.get("object"),
        usage=record.get("usage", {}),
        model_id=record.get("model", ""),
    )


class _Outcome(Shape):
    """A StepResult, strictly: pydantic would let a dataclass pass with more keys."""

    outcome: str


async def _final(agent: AgentSpec, turn: TurnResult) -> Any:
    """What the agent ended with: parsed once by its output schema, and JSON."""
    if turn.finish_reason in _BROKEN_OFF:
        raise StepError(
            f"The model of {agent.name!r} ended its turn without an end ({turn.finish_reason}).",
            advice="Look at what it was asked for, then run.retry().",
        )
    try:
        raw = turn.object if turn.object is not None else json.loads(_unfenced(turn.text))
        schema = _Outcome if agent.output_schema is StepResult else agent.output_schema
        return thaw(json_of(await parsed_by(schema, thaw(freeze(raw)), is_json=True)))
    except CATCHABLE as exc:
        if is_our_end(exc):
            raise
        raise StepError(
            f"The agent {agent.name!r} ended with something that does not fit its output schema: {said_by(exc)}",
            code="AGENT_OUTPUT_INVALID",
            cause=exc,
        ) from exc


def _unfenced(text: str) -> str:
    """JSON out of a Markdown fence, in which many models put it."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        return text.removeprefix("```json").removeprefix("```").removesuffix("```")
    return text


async def _tool_message(
    tools: Mapping[str, AgentTool[Any, Any, Any]], wanted: ToolRequest, access: Any, live: LiveCall
) -> dict[str, Any]:
    """Run a tool for the model. Input that does not fit is told to it, and it may try again; everything else ends the step.

    What a tool that came to its end gave is on record, with the number of the call after its last.
    """
    told = _call_json(wanted)

    async def really(number: int) -> dict[str, Any]:
        answer = await _answer(tools, wanted, access, live)
        await live.store(number, "agent.tool", told, {"answer": answer, "next": live.next_number})
        return answer

    def again(recorded: Any) -> dict[str, Any]:
        live.skip_to(recorded["next"])
        return cast("dict[str, Any]", recorded["answer"])

    return await live.perform("agent.tool", told, really, again)


async def _answer(
    tools: Mapping[str, AgentTool[Any, Any, Any]], wanted: ToolRequest, access: Any, live: LiveCall
) -> dict[str, Any]:
    answer: dict[str, Any] = {"role": "tool", "toolCallId": wanted.id, "name": wanted.name}
    try:
        tool = tools.get(wanted.name)
        if tool is None:
            raise InvalidRequest(f"There is no tool {wanted.name!r}.", advice=f"There are: {', '.join(tools) or 'none'}.")
        return {**answer, "content": thaw(await execute_tool(tool, wanted.input, access, live))}
    except InvalidRequest as exc:
        return {**answer, "content": str(exc), "isError": True}
