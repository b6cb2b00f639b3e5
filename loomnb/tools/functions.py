"""Tools that are functions: the arguments' schema comes from the annotations, their descriptions from the docstring."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model

from loomnb.asks import Schema
from loomnb.errors import DefinitionError
from loomnb.jsonvalue import freeze
from loomnb.runtime import RunContext
from loomnb.tools.base import BaseTool
from loomnb.tools.envelope import ToolCallOptions, ToolEnvelope
from loomnb.tools.injection import container
from loomnb.tools.spec import SPEC, ToolSpec

__all__ = ["FunctionTool", "arguments_of", "documented"]

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(BaseTool[Any, Any, Any, dict[str, Any]], Generic[P, R]):
    """A function as a tool. Called itself it is the plain function; `await f.call({...})` is the tool with all around it."""

    def __init__(self, function: Callable[P, R], wants: tuple[str, ...]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._wants = wants

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def body(self) -> Any:
        """What a call runs: the function, or what stands in for it here (see `overrides`)."""
        instead = self._here()
        if isinstance(instead, BaseTool):
            return instead.body
        return self._run if inspect.iscoroutinefunction(instead) else self._work

    def _here(self) -> Any:
        instead = container().replacement(self)
        if instead is None:
            return self.function
        return container().get(instead) if isinstance(instead, type) else instead

    async def _run(self, args: Mapping[str, Any], ctx: RunContext[Any], options: ToolCallOptions[Any]) -> ToolEnvelope[Any, Any]:
        function = self._here()
        return _enveloped(await function(**self._arguments(function, args, ctx, options)))

    def _work(self, args: Mapping[str, Any], ctx: RunContext[Any], options: ToolCallOptions[Any]) -> ToolEnvelope[Any, Any]:
        function = self._here()
        return _enveloped(function(**self._arguments(function, args, ctx, options)))

    def _arguments(
        self, function: Any, args: Mapping[str, Any], ctx: RunContext[Any], options: ToolCallOptions[Any]
    ) -> dict[str, Any]:
        extra = {"ctx": ctx, "options": options}
        # What stands in may well be a lambda that takes only the arguments.
        takes = self._wants if function is self.function else inspect.signature(function).parameters
        return {**args, **{name: value for name, value in extra.items() if name in takes}}


def _enveloped(value: Any) -> ToolEnvelope[Any, Any]:
    return value if isinstance(value, ToolEnvelope) else ToolEnvelope(data=value)


class _Arguments(Schema):
    """The schema of a function's parameters; it parses to a dict of them."""

    def __init__(self, model: type[BaseModel], names: Mapping[str, str], owner: str) -> None:
        super().__init__(model, owner)
        self._model = model
        self._names = names

    def parse(self, value: Any) -> dict[str, Any]:
        parsed = super().parse(value)
        return {name: getattr(parsed, field) for field, name in self._names.items()}

    def dump(self, parsed: Any, was: Any = None) -> Any:
        return freeze(self._model(**parsed).model_dump(mode="json", by_alias=True), was)


def arguments_of(function: Callable[..., Any], namespace: Mapping[str, Any]) -> tuple[Schema, tuple[str, ...]]:
    """The schema of what a function is called with, and which of `ctx` and `options` it wants beside.

    Raises:
        DefinitionError: a parameter has no annotation, or one that JSON cannot fill.
    """
    where = function.__qualname__
    try:
        hints = typing.get_type_hints(function, localns=dict(namespace), include_extras=True)
    except NameError as exc:
        raise DefinitionError(
            f"{where}: {exc}, but an annotation names it.", advice="Import or define it before the function."
        ) from exc
    about = documented(function)[1]
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    wants: list[str] = []
    for p in inspect.signature(function).parameters.values():
        hint = hints.get(p.name)
        if p.name == "ctx" or (p.name == "options" and (typing.get_origin(hint) or hint) is ToolCallOptions):
            wants.append(p.name)
            continue
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise DefinitionError(
                f"{where}: the parameter {p.name!r} cannot be filled: a tool's arguments have names.",
                advice="Give it plain parameters; a list or a dict may be one of them.",
            )
        if hint is None:
            raise DefinitionError(
                f"{where}: the parameter {p.name!r} has no annotation, so nobody knows what to put there.",
                advice=f"Annotate it, e.g. `{p.name}: str`. What is known of the run comes in a parameter called ctx.",
            )
        # Fields by number with the name as alias: a parameter may be called `schema` or `copy`, which a model's field may not.
        field = f"arg_{len(names)}"
        names[field] = p.name
        default: Any = ... if p.default is p.empty else p.default
        if p.name in about and not _described(hint):
            fields[field] = (hint, Field(default, alias=p.name, description=about[p.name]))
        else:
            fields[field] = (hint, Field(default, alias=p.name))
    try:
        model = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
        return _Arguments(model, names, where), tuple(wants)
    except PydanticUserError as exc:
        raise DefinitionError(
            f"{where}: {str(exc).splitlines()[0]}", advice="Annotate its parameters with what JSON can fill: str, list, a model…"
        ) from exc


def _described(hint: Any) -> bool:
    return any(getattr(extra, "description", None) for extra in getattr(hint, "__metadata__", ()))


def documented(function: Any) -> tuple[str, dict[str, str]]:
    """What a docstring says: the description, and each parameter's (Google's `Args:` or reST's `:param x:`)."""
    text = inspect.getdoc(function) or ""
    body = re.split(r"^(?:Args|Arguments|Returns|Raises|Yields|Examples?|Note):[ ]*$", text, flags=re.MULTILINE)[0]
    about: dict[str, str] = {}
    args = re.search(r"^(?:Args|Arguments):[ ]*\n((?:[ \t]+.*\n?|\n)*)", text, flags=re.MULTILINE)
    if args:
        lines = inspect.cleandoc("\n" + args[1])
        for found in re.finditer(r"^\*{0,2}(\w+)[ ]*(?:\([^)]*\))?:[ ]*(.*(?:\n[ \t]+.*)*)", lines, flags=re.MULTILINE):
            about[found[1]] = " ".join(found[2].split())
    for found in re.finditer(r"^:param (?:[\w.\[\]]+ )?(\w+):[ ]*(.*(?:\n[ \t]+.*)*)", text, flags=re.MULTILINE):
        about[found[1]] = " ".join(found[2].split())
    body = re.split(r"^:(?:param|returns?|raises|rtype|type)\b", body, flags=re.MULTILINE)[0]
    return body.strip(), about


def function_tool(function: Callable[P, R], wants: tuple[str, ...], spec: Callable[[Any], ToolSpec]) -> FunctionTool[P, R]:
    """The tool of a function, knowing its spec."""
    tool = FunctionTool(function, wants)
    setattr(tool, SPEC, spec(tool))
    return tool
