"""Tools made of what people write: a function, an object with hooks, a tool of a workflow. All become a spec and a handler."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from loomnb.agents.intercepting import run_context_of
from loomnb.agents.spi import MaybeAwaitable, ToolContext, ToolHandler, ToolKind, ToolSpec
from loomnb.agents.tool_checks import checked_tool
from loomnb.errors import DefinitionError
from loomnb.tools import (
    BaseTool,
    Call,
    FunctionTool,
    ServerTool,
    ToolCallOptions,
    arguments_of,
    check_name,
    config_of,
    container,
    documented,
    names_of,
    perform,
    spec_of,
)

__all__ = ["AgentFunction", "FunctionalTool", "agent_tool", "create_functional_tool", "define_tool", "tool_of"]

P = ParamSpec("P")
R = TypeVar("R")

_HOOKS = ("execute", "preflight", "present", "is_enabled", "can_use", "describe", "preview_input")
_FIELDS = (
    *("name", "description", "kind", "presentation", "roles", "ability", "enabled"),
    *("target_agent", "detached", "terminal", "replacement_key"),
)


class FunctionalTool:
    """A tool as one object: what is declared of it, and what it does.

    Attributes:
        spec: what is declared.
        handler: what it does.
    """

    def __init__(self, spec: ToolSpec, handler: ToolHandler) -> None:
        self.spec = spec
        self.handler = handler

    def __repr__(self) -> str:
        return f"<agent tool {self.spec.name}>"


class AgentFunction(FunctionalTool, Generic[P, R]):
    """A function as a tool of agents. Called itself it is the plain function."""

    def __init__(self, function: Callable[P, R], spec: ToolSpec, handler: ToolHandler) -> None:
        super().__init__(spec, handler)
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


class _Hooks:
    """A handler that has just the hooks it was given, each with its receiver.

    `is_intercepted`: it passes the interceptors by itself.
    """

    def __init__(self, hooks: Mapping[str, Any]) -> None:
        self.__dict__.update(hooks)

    execute: Callable[..., Any]


# -- one object ------------------------------------------------------------------------------------


def create_functional_tool(author: Any = None, /, **parts: Any) -> FunctionalTool:
    """A tool of one object: fields of the spec (`input` is its schema; the kind is `read` unless said) and hooks.

    `create_functional_tool(name="add", description="Adds.", input=Sum, execute=lambda sum, ctx: sum.a + sum.b)`, or an object
    (or a mapping) that has these, whose hooks stay its own methods. `execute` is required, and so is a name.

    Args:
        author: the object; None: keywords only.
        parts: fields and hooks; they win over the object's.

    Raises:
        DefinitionError: something is missing, is unknown, or cannot work.
    """
    known = (*_FIELDS, "input", *_HOOKS)
    unknown = [name for name in parts if name not in known]
    if isinstance(author, Mapping):
        unknown += [str(name) for name in author if name not in known]
    if unknown:
        raise DefinitionError(f"A tool has no {', '.join(map(repr, unknown))}.", advice=f"It has: {', '.join(known)}.")

    def part(name: str) -> Any:
        if name in parts:
            return parts[name]
        return author.get(name) if isinstance(author, Mapping) else getattr(author, name, None)

    fields = {name: part(name) for name in _FIELDS}
    spec = ToolSpec(input_schema=part("input"), **{name: value for name, value in fields.items() if value is not None})
    hooks = {name: part(name) for name in _HOOKS}
    return _checked(spec, _Hooks({name: hook for name, hook in hooks.items() if callable(hook)}))


define_tool = create_functional_tool
"""The same."""


def _checked(spec: ToolSpec, handler: Any) -> FunctionalTool:
    checked_tool(spec, handler)
    return FunctionalTool(spec, handler)


# -- functions -------------------------------------------------------------------------------------


class _Decorator(Protocol):
    def __call__(self, thing: Callable[P, R], /) -> AgentFunction[P, R]: ...


@overload
def agent_tool(
    thing: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    kind: ToolKind = "read",
    presentation: Mapping[str, Any] | None = None,
    roles: Sequence[str] | None = None,
    ability: str | None = None,
    enabled: bool | Callable[[], MaybeAwaitable[bool]] = True,
    terminal: bool = False,
    replacement_key: Any = None,
    preflight: Callable[..., Any] | None = None,
    present: Callable[..., Any] | None = None,
    can_use: Callable[..., Any] | None = None,
    describe: Callable[..., Any] | None = None,
    preview_input: Callable[..., Any] | None = None,
) -> AgentFunction[P, R]: ...
@overload
def agent_tool(
    *,
    name: str | None = None,
    description: str | None = None,
    kind: ToolKind = "read",
    presentation: Mapping[str, Any] | None = None,
    roles: Sequence[str] | None = None,
    ability: str | None = None,
    enabled: bool | Callable[[], MaybeAwaitable[bool]] = True,
    terminal: bool = False,
    replacement_key: Any = None,
    preflight: Callable[..., Any] | None = None,
    present: Callable[..., Any] | None = None,
    can_use: Callable[..., Any] | None = None,
    describe: Callable[..., Any] | None = None,
    preview_input: Callable[..., Any] | None = None,
) -> _Decorator: ...
def agent_tool(
    thing: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    kind: ToolKind = "read",
    presentation: Mapping[str, Any] | None = None,
    roles: Sequence[str] | None = None,
    ability: str | None = None,
    enabled: bool | Callable[[], MaybeAwaitable[bool]] = True,
    terminal: bool = False,
    replacement_key: Any = None,
    preflight: Callable[..., Any] | None = None,
    present: Callable[..., Any] | None = None,
    can_use: Callable[..., Any] | None = None,
    describe: Callable[..., Any] | None = None,
    preview_input: Callable[..., Any] | None = None,
) -> Any:
    """Make a tool of agents of a function that needs more than a plain one, which is a `read` tool as it stands.

    A function's parameters, with their annotations and its docstring, are the schema of the input. A parameter annotated
    `ToolContext`, or called `ctx`, gets the context of the call. A sync function runs on a worker thread. A class or function
    made with `@loom.tool` may be given too, and gets these options.

    Args:
        thing: the function, when used without parentheses.
        name: as the model says it; default: the function's.
        description: what the model is told of it; default: the docstring.
        kind: `action` for what changes something: it may need an approval.
        presentation: for people: `label`, `running`, `done`, `icon`, `detail`, `tone`, `confirm`, `result`.
        roles: who may use it: one of these.
        ability: a finer right, for a policy of yours; without roles the built-in ones refuse it.
        enabled: False, or a function that says so, takes it away for the time being.
        terminal: its success ends the turn.
        replacement_key: a pending proposal of the same key is superseded by a new one.
        preflight: `(input, ctx, phase)` → Preflight: what an action says before it acts. `input` is a dict of the arguments.
        present: `(output, ctx)` → what is shown of the result.
        can_use: `(actor)` → whether this one may.
        describe: `(scope)` → `{"available", "description", "inputSchema"}` for this turn.
        preview_input: `(scope)` → an input to try it with.

    Raises:
        DefinitionError: it cannot be a tool; the message says why.
    """
    namespace = names_of(sys._getframe(1))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # annotations may be text
    fields = {
        "name": name,
        "description": description,
        "presentation": presentation,
        "roles": roles,
        "ability": ability,
        "replacement_key": replacement_key,
    }
    said: dict[str, Any] = {key: value for key, value in fields.items() if value is not None}
    said |= {"kind": kind, "enabled": enabled, "terminal": terminal}
    given = {"preflight": preflight, "present": present, "can_use": can_use, "describe": describe, "preview_input": preview_input}
    hooks: dict[str, Callable[..., Any]] = {key: hook for key, hook in given.items() if hook is not None}

    def define(thing: Any) -> Any:
        return _made(thing, said, hooks, namespace)

    return define(thing) if thing is not None else define


def tool_of(thing: Any, namespace: Mapping[str, Any] | None = None) -> tuple[ToolSpec, ToolHandler]:
    """The spec and the handler of whatever may be a tool of an agent.

    Args:
        thing: what `agent_tool` or `create_functional_tool` made; a plain function (a `read` tool); a class, an instance or a
            function made with `@loom.tool`; or a pair of a spec and a handler.
        namespace: names that the annotations of a function may use beside its module's.

    Raises:
        DefinitionError: it cannot be a tool; the message says why.
    """
    if isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], ToolSpec):
        made = _checked(thing[0], thing[1])
    else:
        made = _made(thing, {}, {}, namespace or {})
    return made.spec, made.handler


def _made(thing: Any, said: Mapping[str, Any], hooks: Mapping[str, Any], namespace: Mapping[str, Any]) -> FunctionalTool:
    if isinstance(thing, FunctionalTool):
        if said or hooks:
            raise DefinitionError(f"{thing!r} is a tool already.", advice="Say everything where it is made.")
        return thing
    if isinstance(thing, BaseTool) or (isinstance(thing, type) and issubclass(thing, (BaseTool, ServerTool))):
        return _of_workflow_tool(thing, said, hooks)
    if inspect.isfunction(thing) or inspect.ismethod(thing):
        return _of_function(thing, said, hooks, namespace)
    raise DefinitionError(
        f"{thing!r} cannot be a tool of an agent.",
        advice="Give a function, what @loom.agent_tool or loom.define_tool made, or a tool made with @loom.tool.",
    )


def _of_function(
    function: Any, said: Mapping[str, Any], hooks: Mapping[str, Any], namespace: Mapping[str, Any]
) -> FunctionalTool:
    where = function.__qualname__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError(f"{where} yields: a tool gives one result.", advice="Return a list.")
    contexts = _context_parameters(function, namespace)
    schema, wants = arguments_of(_without(function, contexts), namespace)
    name = said.get("name") or function.__name__
    check_name(name, where)

    def arguments(parsed: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        extra: dict[str, Any] = dict.fromkeys(contexts, ctx)
        extra |= {"options": ToolCallOptions()} if "options" in wants else {}
        return {**parsed, **extra}

    # A sync body stays sync: the registry runs it on a thread.
    async def run(input: Mapping[str, Any], ctx: ToolContext) -> Any:  # noqa: A002
        return await function(**arguments(input, ctx))

    def work(input: Mapping[str, Any], ctx: ToolContext) -> Any:  # noqa: A002
        return function(**arguments(input, ctx))

    execute = run if inspect.iscoroutinefunction(function) else work
    parts: dict[str, Any] = {"description": documented(function)[0], **said, "name": name, "input_schema": schema}
    made = _checked(ToolSpec(**parts), _Hooks({**hooks, "execute": execute}))
    return AgentFunction(function, made.spec, made.handler)


def _context_parameters(function: Any, namespace: Mapping[str, Any]) -> list[str]:
    """The parameters that get the context: called `ctx`, or annotated so."""
    try:
        hints = typing.get_type_hints(function, localns=dict(namespace))
    except NameError:
        hints = {}  # `arguments_of` says it better
    names = inspect.signature(function).parameters
    return [name for name in names if name == "ctx" or _is_context(hints.get(name))]


def _is_context(hint: Any) -> bool:
    return hint is ToolContext or ToolContext in typing.get_args(hint)


def _without(function: Any, names: Sequence[str]) -> Callable[..., Any]:
    """The function as it looks without these parameters. Only looked at, never called."""

    @functools.wraps(function)
    def seen(*_: Any, **__: Any) -> Any:
        raise AssertionError

    signature = inspect.signature(function)
    left = [p for p in signature.parameters.values() if p.name not in names]
    seen.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    return seen


# -- tools of workflows ----------------------------------------------------------------------------


def _of_workflow_tool(thing: Any, said: Mapping[str, Any], hooks: Mapping[str, Any]) -> FunctionalTool:
    known = spec_of(thing)
    if known.is_server:
        raise DefinitionError(
            f"{known.name!r} is run by the model's provider: an agent cannot call it.", advice="Give it to the provider itself."
        )

    async def execute(input: Any, ctx: ToolContext) -> Any:  # noqa: A002
        tool = container().get(thing) if isinstance(thing, type) else thing
        # The input is parsed: it is handed on as it is, for a schema that transforms must not do so twice.
        call = Call(tool, known, input, ToolCallOptions(config=config_of(known, None)), run_context_of(ctx))
        return (await perform(call)).narrowed(known.name).data

    parts: dict[str, Any] = {"name": known.name, "description": known.description, **said}
    if known.schema is not None:
        parts["input_schema"] = known.schema
    made = _checked(ToolSpec(**parts), _Hooks({**hooks, "execute": execute, "is_intercepted": True}))
    return AgentFunction(thing.function, made.spec, made.handler) if isinstance(thing, FunctionTool) else made
