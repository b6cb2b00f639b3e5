"""The tools of an agent step: how one is defined, and how it is called. Rules: contracts/blueprints.md §1.10."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar, overload

from pydantic import TypeAdapter, ValidationError

from loomnb.blueprints.agent_schemas import json_of, parsed_by
from loomnb.blueprints.catalog import RUNTIME
from loomnb.blueprints.model import AgentTool, Execute
from loomnb.errors import InvalidRequest, NotJson, StepError, fields_from_pydantic, is_loom_error
from loomnb.jsonvalue import Json, freeze, thaw
from loomnb.runtime import LiveCall

__all__ = ["CATCHABLE", "define_agent_tool", "execute_tool", "is_our_end", "said_by"]

_DEEPEST_CAUSE = 8

CATCHABLE = (Exception, SystemExit, KeyboardInterrupt, asyncio.CancelledError)
"""What a tool, a parser or a provider may raise without ending more than its own step."""

Given = TypeVar("Given")
Made = TypeVar("Made")
Parsed = TypeVar("Parsed")
Takes_contra = TypeVar("Takes_contra", contravariant=True)
Gives_co = TypeVar("Gives_co", covariant=True)


class Parses(Protocol[Takes_contra, Gives_co]):
    """A schema of one's own; one whose `parse` is async gives an awaitable."""

    def parse(self, value: Takes_contra, /) -> Gives_co:
        """Judge a value, and make something of it."""
        ...


@overload
def define_agent_tool(
    *,
    id: str,
    description: str,
    input_schema: type[Given] | TypeAdapter[Given] | Parses[Any, Given],
    output_schema: type[Parsed] | TypeAdapter[Parsed],
    execute: Callable[[Given, Any], Coroutine[Any, Any, Made]],
) -> AgentTool[Given, Parsed, Made]: ...
@overload
def define_agent_tool(
    *,
    id: str,
    description: str,
    input_schema: type[Given] | TypeAdapter[Given] | Parses[Any, Given],
    output_schema: type[Parsed] | TypeAdapter[Parsed],
    execute: Callable[[Given, Any], Made],
) -> AgentTool[Given, Parsed, Made]: ...
@overload
def define_agent_tool(
    *,
    id: str,
    description: str,
    input_schema: type[Given] | TypeAdapter[Given] | Parses[Any, Given],
    output_schema: Parses[Made, Awaitable[Parsed]],
    execute: Callable[[Given, Any], Coroutine[Any, Any, Made]],
) -> AgentTool[Given, Parsed, Made]: ...
@overload
def define_agent_tool(
    *,
    id: str,
    description: str,
    input_schema: type[Given] | TypeAdapter[Given] | Parses[Any, Given],
    output_schema: Parses[Made, Awaitable[Parsed]],
    execute: Callable[[Given, Any], Made],
) -> AgentTool[Given, Parsed, Made]: ...
@overload
def define_agent_tool(
    *,
    id: str,
    description: str,
    input_schema: type[Given] | TypeAdapter[Given] | Parses[Any, Given],
    output_schema: Parses[Made, Parsed],
    execute: Callable[[Given, Any], Coroutine[Any, Any, Made]],
) -> AgentTool[Given, Parsed, Made]: ...
@overload
def define_agent_tool(
    *,
    id: str,
    description: str,
    input_schema: type[Given] | TypeAdapter[Given] | Parses[Any, Given],
    output_schema: Parses[Made, Parsed],
    execute: Callable[[Given, Any], Made],
) -> AgentTool[Given, Parsed, Made]: ...
def define_agent_tool(
    *,
    id: str,  # noqa: A002  # the contract's word
    description: str,
    input_schema: Any,
    output_schema: Any,
    execute: Execute[Any, Any],
) -> AgentTool[Any, Any, Any]:
    """A tool of an agent step.

    Type checkers take the types of what is parsed from the two schemas: a class, a TypeAdapter, or an object with a typed
    `parse`. A union or an `Annotated[…]` is no class to them: write `TypeAdapter(int | None)`.

    Args:
        id: what the model calls it by; once per agent.
        description: what it is for.
        input_schema: judges and parses the model's input; what pydantic's TypeAdapter takes.
        output_schema: judges and parses what `execute` returns, which is the schema's input; the parsed value has to be JSON.
        execute: `(input, access)`, sync or async; `access` is an `AgentExecutionAccess`.
    """
    return AgentTool(id=id, description=description, input_schema=input_schema, output_schema=output_schema, execute=execute)


async def execute_tool(tool: AgentTool[Any, Any, Any], raw: Json, access: Any, live: LiveCall) -> Any:
    """Call a tool: parse its input, run it, parse what it gives. Each parser runs once; the result is a JSON copy.

    Raises:
        InvalidRequest: the input does not fit; nothing was run.
        StepError: anything else went wrong, also when the tool caught it (the latch of the contract). The code is that of the
            runtime error in the chain of causes, else TOOL_EXECUTION_FAILED.
    """
    live.check()
    try:
        given = await parsed_by(tool.input_schema, thaw(freeze(raw)), is_json=True)
    except CATCHABLE as exc:
        if is_our_end(exc):
            raise
        raise InvalidRequest(f"The input does not fit the tool {tool.id!r}: {said_by(exc)}") from exc
    live.check()
    before = len(live.failures)
    try:
        with live.tool():
            if inspect.iscoroutinefunction(tool.execute):
                value: Any = tool.execute(given, access)
            else:
                value = await asyncio.wrap_future(live.engine.workers.submit(tool.execute, given, access))
            made = await value if inspect.isawaitable(value) else value
        live.check()
        result = json_of(await parsed_by(tool.output_schema, made))
        live.check()
    except CATCHABLE as exc:
        if is_our_end(exc):
            raise
        raise _tool_error(tool.id, exc, *live.failures[before:]) from exc
    if len(live.failures) > before:
        first = live.failures[before]
        raise _tool_error(tool.id, first) from first
    return result


def is_our_end(exc: BaseException) -> bool:
    """Whether it is the step's own task that is ended (the loop is closed), and not something the author's code raised."""
    task = asyncio.current_task()
    return isinstance(exc, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def said_by(exc: BaseException) -> str:
    """What an exception says, in a line for a model or a person."""
    if isinstance(exc, ValidationError):
        return "; ".join(f"{name or 'the whole'}: {text}" for name, text in fields_from_pydantic(exc).items())
    if isinstance(exc, NotJson):
        return exc.message
    try:
        return str(exc) or type(exc).__name__
    except Exception:  # noqa: BLE001  # the author's own __str__ is broken
        return type(exc).__name__


def _tool_error(tool_id: str, exc: BaseException, *refused: BaseException) -> StepError:
    """What a tool failed with. The first thing that was refused to it says the code, then the exception and its causes."""
    for found in (*refused[:1], *_chain(exc)):
        if RUNTIME.recognises(found):
            return StepError(found.message, code=found.code, advice=getattr(found, "advice", ""), cause=exc)  # type: ignore[attr-defined]
    code = f" [{exc.code}]" if is_loom_error(exc) else ""  # type: ignore[attr-defined]
    return StepError(
        f"The tool {tool_id!r} failed: {type(exc).__name__}{code}: {said_by(exc)}", code="TOOL_EXECUTION_FAILED", cause=exc
    )


def _chain(exc: BaseException) -> list[BaseException]:
    """An exception and what caused it, eight at the most: a chain may be a circle."""
    chain: list[BaseException] = []
    found: BaseException | None = exc
    while found is not None and len(chain) < _DEEPEST_CAUSE:
        chain.append(found)
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    return chain
