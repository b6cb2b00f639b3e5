"""`@loom.tool` on classes and functions, `@loom.use_tool_interceptor` on classes."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from pydantic import BaseModel

from loomnb.asks import Schema
from loomnb.documents import WidgetRef, read_widgets
from loomnb.errors import DefinitionError
from loomnb.names import snake_case
from loomnb.tools.base import BaseTool, ServerTool
from loomnb.tools.functions import FunctionTool, arguments_of, documented, function_tool
from loomnb.tools.injection import check_needs, supersede
from loomnb.tools.pipeline import add_interceptor
from loomnb.tools.spec import SPEC, TOOLS, ToolOptions, ToolSpec, check_name

__all__ = ["names_of", "tool", "use_tool_interceptor"]

C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")


class _Decorator(Protocol):
    @overload
    def __call__(self, thing: C, /) -> C: ...  # type: ignore[overload-overlap]  # a class is callable too; it comes first
    @overload
    def __call__(self, thing: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(thing: C, /) -> C: ...  # type: ignore[overload-overlap]  # a class is callable too; it comes first
@overload
def tool(thing: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    schema: Any = None,
    config_schema: Any = None,
    widget: WidgetRef | Sequence[WidgetRef] | None = None,
) -> _Decorator: ...
def tool(
    thing: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    schema: Any = None,
    config_schema: Any = None,
    widget: WidgetRef | Sequence[WidgetRef] | None = None,
) -> Any:
    """Define a tool: a class that extends `BaseTool` or `ServerTool`, or a function.

    A function's parameters, with their annotations and its docstring, are its schema; what it returns is the data, unless it
    returns a `ToolEnvelope`. A parameter called `ctx` gets what is known of the run, one annotated `options: ToolCallOptions`
    the options of the call. Running the cell again replaces the tool.

    Args:
        thing: the class or function, when used without parentheses.
        name: the identifier, which models are told; default: in snake case, without `Tool` at the end.
        description: what it is for, which models are told; default: the docstring.
        schema: judges the arguments of a call; what pydantic's TypeAdapter takes; default for a class: the model its
            `BaseTool[TArgs, …]` names, if any.
        config_schema: judges `config=` of a call; its defaults always apply.
        widget: how it is shown: the path of a YAML file, or a widget inline; one or several.

    Raises:
        DefinitionError: it cannot work, or its name is taken.
    """
    options = ToolOptions(name=name, description=description, schema=schema, config_schema=config_schema, widget=widget)
    namespace = names_of(sys._getframe(1))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # annotations may be text

    def define(thing: Any) -> Any:
        if isinstance(thing, type):
            return _tool_class(thing, options, namespace)
        if isinstance(thing, types.FunctionType):
            return _tool_function(thing, options, namespace)
        raise DefinitionError(f"{thing!r} cannot be a tool.", advice="Decorate a class extending loom.BaseTool, or a function.")

    return define(thing) if thing is not None else define


def names_of(frame: types.FrameType) -> Mapping[str, Any]:
    """The names visible where a decorator stands; of a module it is the module's own, found again by name."""
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _tool_class(cls: type, options: ToolOptions, namespace: Mapping[str, Any]) -> type:
    where = cls.__qualname__
    is_server = issubclass(cls, ServerTool)
    if not is_server and not issubclass(cls, BaseTool):
        raise DefinitionError(f"{where} is no tool class.", advice="Let it extend loom.BaseTool or loom.ServerTool.")
    base, method, signature = (
        (ServerTool, "to_server_tool_config", "(self, config)") if is_server else (BaseTool, "handle", "(self, args, ctx)")
    )
    if getattr(cls, method) is getattr(base, method):
        raise DefinitionError(f"{where} does nothing.", advice=f"Define `def {method}{signature}: ...`.")
    most = 1 if is_server else 3
    required = [
        p
        for p in list(inspect.signature(getattr(cls, method)).parameters.values())[1:]
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if len(required) > most or any(p.kind is p.KEYWORD_ONLY for p in required):
        raise DefinitionError(
            f"{where}.{method} takes more than it gets.",
            advice=f"It gets {'(config)' if is_server else '(args, ctx, options)'}; trailing ones may be left out.",
        )
    check_needs(cls, namespace)
    schema, config_schema = options.schema, options.config_schema
    generic = _generic_arguments(cls, base)
    if is_server:
        config_schema = config_schema if config_schema is not None else next(iter(generic), None)
    else:
        schema = schema if schema is not None else next(iter(generic), None)
        config_schema = config_schema if config_schema is not None else next(iter(generic[1:]), None)
    reading = read_widgets(options.widget, cls)
    spec = ToolSpec(
        name=check_name(options.name or snake_case(cls.__name__, "_tool"), where),
        description=options.description or reading.description or inspect.cleandoc(vars(cls).get("__doc__") or ""),
        schema=Schema(schema, f"{where}.schema") if schema is not None else None,
        config_schema=Schema(config_schema, f"{where}.config_schema") if config_schema is not None else None,
        widgets=reading.widgets,
        is_server=is_server,
        made_of=cls,
    )
    _register(spec, cls)
    setattr(cls, SPEC, spec)
    return cls


def _generic_arguments(cls: type, base: type) -> list[Any]:
    """The models among what `BaseTool[TArgs, TConfig, …]` was given: for anything else the schema must be said."""
    for parent in getattr(cls, "__orig_bases__", ()):
        if typing.get_origin(parent) is base:
            return [a if isinstance(a, type) and issubclass(a, BaseModel) else None for a in typing.get_args(parent)]
    return []


def _tool_function(function: types.FunctionType, options: ToolOptions, namespace: Mapping[str, Any]) -> FunctionTool[Any, Any]:
    where = function.__qualname__
    if options.schema is not None:
        raise DefinitionError(f"{where}: the schema of a function is its parameters.", advice="Drop schema=, or write a class.")
    schema, wants = arguments_of(function, namespace)
    reading = read_widgets(options.widget, cast("Any", function))

    def spec(made: Any) -> ToolSpec:
        return ToolSpec(
            name=check_name(options.name or function.__name__, where),
            description=options.description or reading.description or documented(function)[0],
            schema=schema,
            config_schema=Schema(options.config_schema, f"{where}.config_schema") if options.config_schema is not None else None,
            widgets=reading.widgets,
            is_server=False,
            made_of=made,
        )

    made = function_tool(function, wants, spec)
    _register(getattr(made, SPEC), function)
    return made


def _register(spec: ToolSpec, thing: Any) -> None:
    old = TOOLS.get(spec.name)
    TOOLS.add(spec, thing.__module__, thing.__qualname__)
    if old is not None and isinstance(old.made_of, type) and isinstance(spec.made_of, type):
        supersede(old.made_of, spec.made_of)


@overload
def use_tool_interceptor(cls: C, /) -> C: ...
@overload
def use_tool_interceptor(*, priority: float = 100) -> Callable[[C], C]: ...
def use_tool_interceptor(cls: Any = None, /, *, priority: float = 100) -> Any:
    """Let a class see every tool call of this process: `async def intercept(self, context, next)`.

    It awaits `next()` for the envelope, and may change it, return one of its own without asking `next`, ask it again, or
    catch what it raises. `context` is a `ToolInterception`. Arguments were judged before. Server tools never pass here.

    Args:
        cls: the class, when used without parentheses. Its constructor is injected like a tool's.
        priority: lower is further out: first in, last out. Equal ones nest in the order they were defined.

    Raises:
        DefinitionError: it has no `intercept`.
    """
    namespace = names_of(sys._getframe(1))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # annotations may be text

    def define(cls: C) -> C:
        return add_interceptor(cls, priority, namespace)

    return define(cls) if cls is not None else define
