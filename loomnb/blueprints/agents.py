"""An agent as a step: a model that is asked turn after turn, its tools run one after the other, until it ends with an outcome.

The model is reached through `runtime.model`, one turn at a time. Each turn is on record like a commit, so that a step that is
made again does not ask (and pay) again; tools run again, and what they wrote through `access` is on record.
Rules: contracts/blueprints.md §1.10, §1.11, §2.10; decisions.md, Agents 23.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from loomnb.blueprints.access import AbortSignal, AgentExecutionAccess
from loomnb.blueprints.catalog import RUNTIME
from loomnb.blueprints.model import AgentSpec, AgentTool, Execute, Input, Output, RawOutput
from loomnb.errors import InvalidRequest, LoomError, NotJson, StepError, fields_from_pydantic
from loomnb.jsonvalue import Json, freeze, thaw
from loomnb.runtime import LiveCall, ModelTool, RunContext, ToolRequest, TurnRequest, TurnResult, model_of

__all__ = [
    "AgentCall",
    "agent_execution_context_key",
    "define_agent_tool",
    "draft_7",
    "execute_agent",
    "execute_tool",
    "get_agent_execution_access",
]

agent_execution_context_key = "intloom.execution"
"""The key under which an adapter's context holds the access of the agent step."""

_MOST_TURNS = 10
_DEEPEST_CAUSE = 8


@overload
def define_agent_tool(
    *,
    id: str,
    description: str,
    input_schema: type[Input] | TypeAdapter[Input],
    output_schema: type[Output] | TypeAdapter[Output],
    execute: Execute[Input, RawOutput],
) -> AgentTool[Input, Output, RawOutput]: ...
@overload
def define_agent_tool(
    *, id: str, description: str, input_schema: Any, output_schema: Any, execute: Execute[Any, RawOutput]
) -> AgentTool[Any, Any, RawOutput]: ...
def define_agent_tool(
    *,
    id: str,  # noqa: A002  # the contract's word
    description: str,
    input_schema: Any,
    output_schema: Any,
    execute: Execute[Any, Any],
) -> AgentTool[Any, Any, Any]:
    """A tool of an agent step. Type checkers take the types of what is parsed from the two schemas, a class or a TypeAdapter.

    Args:
        id: what the model calls it by; once per agent.
        description: what it is for.
        input_schema: judges and parses the model's input; what pydantic's TypeAdapter takes.
        output_schema: judges and parses what `execute` returns, which is the schema's input; the parsed value has to be JSON.
        execute: `(input, access)`, sync or async; `access` is an `AgentExecutionAccess`.
    """
    return AgentTool(id=id, description=description, input_schema=input_schema, output_schema=output_schema, execute=execute)


# -- JSON Schema, draft 7 ----------------------------------------------------------------------------


def draft_7(schema: Any, side: str) -> dict[str, Any]:
    """The JSON Schema (draft 7) of one side of a schema: `input` as the parser takes it, `output` as it gives it.

    An opaque transformation of an output has no shape of its own: it is told as unconstrained.

    Raises:
        StepError: an input schema that JSON Schema cannot say.
    """
    adapter = _adapter(schema)
    if side == "output" and _is_opaque(adapter.core_schema):
        return {}
    try:
        made = adapter.json_schema(
            mode="validation" if side == "input" else "serialization",
            ref_template="#/definitions/{model}",
            schema_generator=GenerateJsonSchema,
        )
    except Exception as exc:
        if side == "output":
            return {}
        raise StepError(
            f"The input schema {schema!r} cannot be told to a model: {str(exc).splitlines()[0]}",
            advice="Use plain types and pydantic models for what a model has to give.",
            cause=exc,
        ) from exc
    return cast("dict[str, Any]", _older(made))


def _older(node: Any) -> Any:
    """JSON Schema 2020-12, as pydantic writes it, in the words of draft 7."""
    if isinstance(node, list):
        return [_older(one) for one in node]
    if not isinstance(node, dict):
        return node
    out = {{"$defs": "definitions"}.get(key, key): _older(value) for key, value in node.items()}
    if "prefixItems" in out:
        rest = out.pop("items", None)
        out["items"] = out.pop("prefixItems")
        out |= {"additionalItems": rest} if rest is not None else {}
    return out


def _is_opaque(core: Mapping[str, Any]) -> bool:
    while core.get("type") in ("chain", "definitions"):
        core = core["steps"][-1] if core["type"] == "chain" else core["schema"]
    return core.get("type") in ("function-after", "function-wrap", "function-plain")


def _adapter(schema: Any) -> TypeAdapter[Any]:
    return schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)


async def _parsed(schema: Any, value: Any) -> Any:
    """What a schema makes of a value: pydantic's, or an object with `parse`, sync or async."""
    own = None if isinstance(schema, type) else getattr(schema, "parse", None)
    if callable(own):
        parsed = own(value)
        return await parsed if inspect.isawaitable(parsed) else parsed
    return _adapter(schema).validate_python(value)


def _json_of(schema: Any, parsed: Any) -> Any:
    if callable(getattr(schema, "parse", None)) and not isinstance(schema, type):
        return freeze(parsed)
    return freeze(TypeAdapter(Any).dump_python(parsed, mode="python") if not hasattr(parsed, "model_dump") else parsed)


# -- the step ----------------------------------------------------------------------------------------


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
    told = [
        ModelTool(
            name=tool.id,
            description=tool.description,
            input_schema=draft_7(tool.input_schema, "input"),
            output_schema=draft_7(tool.output_schema, "output"),
        )
        for tool in agent.tools
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": call.context.args["intent"]}]
    shape = draft_7(agent.output_schema, "input")
    for _ in range(_MOST_TURNS):
        request = TurnRequest(
            system=_system(agent), messages=tuple(messages), tools=told, role=agent.llm, output_schema=shape, signal=access.signal
        )
        turn = await _turn(call, request)
        if turn.finish_reason == "length":
            raise StepError(
                f"The model of {agent.name!r} was cut off before it was done.",
                advice="Give it a higher limit of output tokens, or less to say.",
            )
        if not turn.tool_calls:
            return await _final(agent, turn)
        messages.append({"role": "assistant", "content": turn.text, "toolCalls": [_call_json(c) for c in turn.tool_calls]})
        for wanted in turn.tool_calls:
            answer = await _tool_message(tools, wanted, access, live)
            messages.append(answer)
    raise StepError(
        f"The agent {agent.name!r} did not end within {_MOST_TURNS} turns.",
        advice="Give it fewer or clearer tools, or say in its instructions when it is done.",
    )


def _system(agent: AgentSpec) -> str:
    skills = "".join(f"\n\n# Skill: {s.name}\n{s.description}\n\n{s.content}" for s in agent.skills)
    return f"{agent.instructions}{skills}"


def _call_json(call: ToolRequest) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "input": thaw(freeze(call.input))}


async def _turn(call: AgentCall, request: TurnRequest) -> TurnResult:
    """One turn of the model; what is on record of it, where the step is made again."""
    told = {"system": request.system, "messages": list(request.messages), "role": request.role}

    async def really(number: int) -> TurnResult:
        model = model_of(request.role)
        if model is None:
            raise StepError(
                f"There is no model for the role {request.role!r} of the agent {call.agent.name!r}.",
                advice="Give one: loom.flow(…, models={'default': model}), or loom.use_models(model), then run.retry().",
            )
        try:
            turn = await model.run_turn(request)
        except LoomError:
            raise
        except Exception as exc:
            raise StepError(
                f"The request to the model of {call.agent.name!r} failed: {exc}", code="LLM_REQUEST_FAILED", cause=exc
            ) from exc
        call.live.check()
        try:
            record = _turn_json(turn)
        except Exception as exc:
            raise StepError(
                f"The model of {call.agent.name!r} answered with something unreadable: {exc}",
                code="LLM_RESPONSE_INVALID",
                cause=exc,
            ) from exc
        await call.live.store(number, "model.turn", told, record)
        return turn

    return await call.live.perform("model.turn", told, really, _turn_of)


def _turn_json(turn: TurnResult) -> dict[str, Any]:
    out: dict[str, Any] = {"text": turn.text, "toolCalls": [_call_json(c) for c in turn.tool_calls], "finish": turn.finish_reason}
    out |= {"object": turn.object} if turn.object is not None else {}
    out |= {"usage": dict(turn.usage)} if turn.usage else {}
    out |= {"model": turn.model_id} if turn.model_id else {}
    return cast("dict[str, Any]", thaw(freeze(out)))


def _turn_of(record: Any) -> TurnResult:
    return TurnResult(
        text=record["text"],
        tool_calls=tuple(ToolRequest(**c) for c in record["toolCalls"]),
        finish_reason=record["finish"],
        object=record.get("object"),
        usage=record.get("usage", {}),
        model_id=record.get("model", ""),
    )


async def _final(agent: AgentSpec, turn: TurnResult) -> Any:
    """What the agent ended with: parsed once by its output schema."""
    try:
        raw = turn.object if turn.object is not None else json.loads(_unfenced(turn.text))
        return await _parsed(agent.output_schema, raw)
    except Exception as exc:
        what = (
            "; ".join(f"{n or 'it'}: {t}" for n, t in fields_from_pydantic(exc).items())
            if isinstance(exc, ValidationError)
            else exc
        )
        raise StepError(
            f"The agent {agent.name!r} ended with something that does not fit its output schema: {what}",
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
    """Run a tool for the model. Input that does not fit is told to it, and it may try again; everything else ends the step."""
    answer: dict[str, Any] = {"role": "tool", "toolCallId": wanted.id, "name": wanted.name}
    try:
        tool = tools.get(wanted.name)
        if tool is None:
            raise InvalidRequest(f"There is no tool {wanted.name!r}.", advice=f"There are: {', '.join(tools) or 'none'}.")
        return {**answer, "content": thaw(await execute_tool(tool, wanted.input, access, live))}
    except InvalidRequest as exc:
        return {**answer, "content": str(exc), "isError": True}


async def execute_tool(tool: AgentTool[Any, Any, Any], raw: Json, access: Any, live: LiveCall) -> Any:
    """Call a tool: parse its input, run it, parse what it gives. Each parser runs once; the result is a JSON copy.

    Raises:
        InvalidRequest: the input does not fit; nothing was run.
        StepError: anything else went wrong, also when the tool caught it (the latch of the contract). The code is that of the
            runtime error in the chain of causes, else TOOL_EXECUTION_FAILED.
    """
    live.check()
    try:
        given = await _parsed(tool.input_schema, thaw(freeze(raw)))
    except ValidationError as exc:
        fields = "; ".join(f"{name or 'the input'}: {text}" for name, text in fields_from_pydantic(exc).items())
        raise InvalidRequest(f"The input does not fit the tool {tool.id!r}: {fields}.") from exc
    except NotJson as exc:
        raise InvalidRequest(f"The input of the tool {tool.id!r} is no JSON: {exc.message}") from exc
    except Exception as exc:
        raise InvalidRequest(f"The input does not fit the tool {tool.id!r}: {exc}") from exc
    live.check()
    before = len(live.failures)
    try:
        if inspect.iscoroutinefunction(tool.execute):
            value: Any = tool.execute(given, access)
        else:
            value = await asyncio.wrap_future(live.engine.workers.submit(tool.execute, given, access))
        made = await value if inspect.isawaitable(value) else value
        live.check()
        result = _json_of(tool.output_schema, await _parsed(tool.output_schema, made))
        live.check()
    except Exception as exc:
        raise _tool_error(tool.id, exc) from exc
    if len(live.failures) > before:
        raise _tool_error(tool.id, live.failures[before])
    return result


def _tool_error(tool_id: str, exc: BaseException) -> StepError:
    found: BaseException | None = exc
    for _ in range(_DEEPEST_CAUSE):
        if found is None:
            break
        if isinstance(found, LoomError) and found.code in RUNTIME:
            return StepError(found.message, code=found.code, advice=found.advice, cause=exc)
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    code = f" [{exc.code}]" if isinstance(exc, LoomError) else ""
    return StepError(f"The tool {tool_id!r} failed: {type(exc).__name__}{code}: {exc}", code="TOOL_EXECUTION_FAILED", cause=exc)


# -- the binding of an adapter's context --------------------------------------------------------------

_STATE = ("create", "update", "clear")
_STORAGE = (
    *("get_artifact", "get_artifact_by_id", "get_latest_record", "get_record_by_id"),
    *("list_artifacts", "list_records"),
)
_PROJECT = ("snapshot", "read", "write", "remove", "run")
_NOTHING = object()


def get_agent_execution_access(context: Any) -> AgentExecutionAccess:
    """The access of an agent step out of an adapter's context: what `context.get("intloom.execution")` gives, checked.

    Nothing of it is read or called: members are looked up without running a property.

    Raises:
        StepError: it is none (STEP_EXECUTION_FAILED); what was raised meanwhile is the cause.
    """
    try:
        binding = context.get(agent_execution_context_key)
        _check_binding(binding)
    except StepError:
        raise
    except Exception as exc:
        raise StepError(f"The context holds no access of an agent step: {type(exc).__name__}.", cause=exc) from exc
    return cast("AgentExecutionAccess", binding)


def _member(owner: Any, name: str) -> Any:
    """A member as it stands, without running a property; `_NOTHING` when there is none."""
    if isinstance(owner, Mapping):
        return owner.get(name, _NOTHING)
    found = inspect.getattr_static(owner, name, _NOTHING)
    if isinstance(found, types.MemberDescriptorType):  # a slot, which may be empty; reading it runs nothing
        try:
            return found.__get__(owner, type(owner))
        except AttributeError:
            return _NOTHING
    return found


def _check_binding(binding: Any) -> None:
    if binding is None or isinstance(binding, (str, bytes, int, float, Sequence)):
        raise _bad("is missing, or is no object")
    _need(binding, "state", _STATE)
    if _member(_member(binding, "state"), "value") is _NOTHING:
        raise _bad("has a state without `value`")
    _need(binding, "storage", _STORAGE)
    if _member(_member(binding, "storage"), "commit") is not _NOTHING:
        raise _bad("has a storage that can commit: an agent's may only read")
    if _member(binding, "interaction") is not _NOTHING:
        raise _bad("has an interaction: an agent cannot ask in the middle of its step")
    if not isinstance(_member(binding, "signal"), AbortSignal):
        raise _bad("has no signal")
    if _member(binding, "project") is not _NOTHING:
        _need(binding, "project", _PROJECT)


def _need(binding: Any, name: str, methods: Sequence[str]) -> None:
    owner = _member(binding, name)
    if owner is _NOTHING or owner is None or isinstance(owner, (str, bytes, int, float, Sequence)):
        raise _bad(f"has no {name}")
    for method in methods:
        found = _member(owner, method)
        found = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
        if found is _NOTHING or not callable(found):
            raise _bad(f"has a {name} without `{method}`")


def _bad(what: str) -> StepError:
    return StepError(
        f"The access under {agent_execution_context_key!r} {what}.", advice="Hand on the very access a tool was given."
    )
