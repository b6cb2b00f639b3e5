"""A tool call: judge the arguments and the configuration, go through the interceptors, handle, and back out.

Everything is copied and judged at the call, before anything of the tool runs; what is awaited afterwards is the work.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from loomnb.asks import Schema
from loomnb.errors import ArgsInvalid, DefinitionError, LoomError, Refused, fields_from_pydantic
from loomnb.ids import SYSTEM
from loomnb.jsonvalue import freeze, thaw
from loomnb.runtime import CURRENT, Registry, RunContext, Workers
from loomnb.tools.envelope import ToolCallOptions, ToolEnvelope
from loomnb.tools.injection import INJECTABLE, check_needs, container, supersede
from loomnb.tools.spec import ToolSpec, spec_of

__all__ = [
    "INTERCEPTORS",
    "Call",
    "ToolInterception",
    "add_interceptor",
    "config_of",
    "execute",
    "intercepted",
    "perform",
    "prepare",
    "refuse_in_tool",
]

C = TypeVar("C", bound=type)

Next = Callable[[], Awaitable[ToolEnvelope[Any, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInterception:
    """What an interceptor sees of a call.

    Attributes:
        tool: the tool; `tool.name`. Of a tool of agents only: what is declared of it.
        args: the arguments, judged.
        run_context: the run that calls; empty ids outside any run.
        metadata: a dict all interceptors of the call share. `metadata["durationMs"]` is there once the tool has run.
    """

    tool: Any
    args: Any
    run_context: RunContext[Any]
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class _Interceptor:
    name: str
    priority: float
    cls: type


INTERCEPTORS: Registry[_Interceptor] = Registry("use_tool_interceptor")


def add_interceptor(cls: C, priority: float, namespace: Mapping[str, Any]) -> C:
    """Let a class intercept every tool call from now on; its cell run again replaces it.

    Raises:
        DefinitionError: it cannot.
    """
    if not callable(getattr(cls, "intercept", None)):
        raise DefinitionError(
            f"{cls.__qualname__} intercepts nothing.", advice="Define `async def intercept(self, context, next): ...`."
        )
    if isinstance(priority, bool) or not isinstance(priority, (int, float)):
        raise DefinitionError(f"{cls.__qualname__}: priority= is a number, not {priority!r}.", advice="Lower is further out.")
    setattr(cls, INJECTABLE, True)
    check_needs(cls, namespace)
    name = f"{cls.__module__}.{cls.__qualname__}"
    old = INTERCEPTORS.get(name)
    INTERCEPTORS.add(_Interceptor(name, priority, cls), cls.__module__, cls.__qualname__)
    if old is not None:
        supersede(old.cls, cls)
    return cls


_IN_TOOL: contextvars.ContextVar[Any] = contextvars.ContextVar("loom_tool", default=None)
"""The attempt whose tool is at work here. By attempt, because a run that a tool starts takes the context along."""


def refuse_in_tool(what: str) -> None:
    """Refuse something that only a transition may do.

    Raises:
        Refused: a tool is at work.
    """
    attempt = _IN_TOOL.get()
    if attempt is not None and attempt is CURRENT.get():
        raise Refused(
            f"A tool cannot set the {what} of the run that calls it.",
            advice="Return it as data, and let the transition assign it.",
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was judged and may begin."""

    tool: Any
    spec: ToolSpec
    args: Any
    options: ToolCallOptions[Any]
    context: RunContext[Any]


def prepare(tool: Any, args: Any, options: ToolCallOptions[Any]) -> Call:
    """Judge a call and copy its arguments.

    Raises:
        ArgsInvalid: the arguments or the configuration do not fit.
        NotJson: without a schema, arguments JSON cannot hold.
        Refused: a body that cannot await called it.
        OwnershipLost: the transition that calls is over.
    """
    spec = spec_of(tool)
    attempt = CURRENT.get()
    if attempt is not None and not _can_await():
        raise Refused(
            f"The tool {spec.name!r} was called in a sync body, which cannot wait for it.",
            advice=f"Make the body `async def`, and write `await` before the call of {spec.name!r}.",
        )
    judged = _judged(spec.schema, args, f"The tool {spec.name!r}: these arguments do not fit.")
    options = replace(options, config=config_of(spec, options.config))
    if attempt is None:
        context: RunContext[Any] = RunContext(user_id="", workspace_id="", workflow_id="", args=None)
    else:
        context = attempt.tool_context()
    return Call(tool, spec, judged, options, context)


def execute(tool: Any, args: Any = None, options: Any = None) -> Coroutine[Any, Any, ToolEnvelope[Any, Any]]:
    """Call a tool and get its whole envelope, errors and pending ones too: for those who hand it on to a model."""
    return perform(prepare(tool, args, ToolCallOptions.of(options)))


def config_of(spec: ToolSpec, config: Any) -> Any:
    """The configuration of a call, judged; its defaults always apply.

    Raises:
        ArgsInvalid: it does not fit.
    """
    if spec.config_schema is None and config is None:
        return None
    return _judged(spec.config_schema, config, f"The tool {spec.name!r}: this configuration does not fit.")


def _judged(schema: Schema | None, value: Any, what: str) -> Any:
    if schema is None:
        return thaw(freeze(_copied(value), None, "args"))
    try:
        return schema.parse(_copied(value))
    except ValidationError as exc:
        raise ArgsInvalid(what, fields_from_pydantic(exc), advice="The tool did not run.") from exc


def _copied(value: Any) -> Any:
    if value is None:
        return {}
    if isinstance(value, BaseModel):
        return value.model_copy(deep=True)
    return thaw(dict(value)) if isinstance(value, Mapping) else copy.deepcopy(value)


def _can_await() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def perform(call: Call) -> ToolEnvelope[Any, Any]:
    """Do a call: through the interceptors to the tool, and back."""
    return await intercepted(call.tool, call.args, call.context, lambda: _handle(call))


async def intercepted(tool: Any, args: Any, context: RunContext[Any], work: Next) -> ToolEnvelope[Any, Any]:
    """Do the work of a tool inside of the interceptors: for tools that are no BaseTool, such as those of agents.

    Args:
        tool: what the interceptors are told of; it has a `name`.
        args: what it is called with, judged.
        context: of the run that calls.
        work: does it; each time an interceptor asks for it.
    """
    seen = ToolInterception(tool=tool, args=args, run_context=context)

    async def timed() -> ToolEnvelope[Any, Any]:
        attempt = CURRENT.get()
        source = attempt.record.source if attempt is not None else SYSTEM
        started = source.monotonic()
        try:
            return await work()
        finally:
            seen.metadata["durationMs"] = round((source.monotonic() - started) * 1000, 3)

    step: Next = timed
    inside_out = sorted(INTERCEPTORS, key=lambda i: i.priority)[::-1]
    for interceptor in inside_out:
        step = _around(container().get(interceptor.cls), seen, step)
    return await step()


def _around(interceptor: Any, seen: ToolInterception, inner: Next) -> Next:
    async def step() -> ToolEnvelope[Any, Any]:
        value = interceptor.intercept(seen, inner)
        return _envelope(await value if inspect.isawaitable(value) else value, f"{type(interceptor).__qualname__}.intercept")

    return step


async def _handle(call: Call) -> ToolEnvelope[Any, Any]:
    attempt = CURRENT.get()
    body = call.tool.body
    arguments = (call.args, call.context, call.options)[: _parameters(body)]
    token = _IN_TOOL.set(attempt)
    try:
        if inspect.iscoroutinefunction(body):
            value = await body(*arguments)
        else:  # on a thread: what it does on the loop would stop every run
            value = await asyncio.wrap_future(_WORKERS.submit(body, *arguments))
            value = await value if inspect.isawaitable(value) else value
    finally:
        _IN_TOOL.reset(token)
    return _envelope(value, f"The tool {call.spec.name!r}")


def _envelope(value: Any, who: str) -> ToolEnvelope[Any, Any]:
    try:
        return ToolEnvelope.of(value)
    except LoomError as exc:
        raise DefinitionError(f"{who} gave no envelope. {exc.message}", advice=exc.advice) from exc


@lru_cache(maxsize=1024)
def _parameters_of(function: Any) -> int:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 99
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _parameters(body: Any) -> int:
    """How many of (args, ctx, options) it takes; trailing ones may be left out."""
    function = getattr(body, "__func__", None)
    return _parameters_of(body) if function is None else _parameters_of(function) - 1


_WORKERS = Workers()
