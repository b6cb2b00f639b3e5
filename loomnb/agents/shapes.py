"""What the types of this room share: values that may be awaited, names on the JSON side, and methods that may be missing."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias, TypeVar, cast

from loomnb.errors import Bug

__all__ = [
    "MaybeAwaitable",
    "camel",
    "dump",
    "finished",
    "load",
    "optional",
    "settled",
]

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


async def settled(value: MaybeAwaitable[T]) -> T:
    """A value, awaited when it can be: who implements a protocol here may write `def` or `async def`."""
    return cast("T", await value if inspect.isawaitable(value) else value)


def finished(made: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives that waits for nothing: for callers that have no loop to wait on.

    Raises:
        Bug: it did wait.
    """
    try:
        made.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    made.close()
    raise Bug("A coroutine that has nothing to wait for waited.")


@functools.cache
def camel(name: str) -> str:
    """`tool_calls` → `toolCalls`."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


@functools.cache
def _names(cls: type) -> Mapping[str, str]:
    """The fields of a dataclass by their names in JSON."""
    return {camel(one.name): one.name for one in fields(cls)}


@functools.cache
def _held(cls: type) -> Callable[[Any], Sequence[Any]]:
    return operator.attrgetter(*_names(cls).values())  # all at once: a thread of 1,000 messages is told with every turn


def dump(value: Any, keep_false: Sequence[str] | None = None) -> dict[str, Any]:
    """The JSON of a dataclass without what is None; with `keep_false` also without what is False, but for these."""
    out: dict[str, Any] = {}
    cls: Any = type(value)
    for key, held in zip(_names(cls), _held(cls)(value), strict=True):
        if held is None or (held is False and keep_false is not None and key not in keep_false):
            continue
        out[key] = list(held) if isinstance(held, tuple) else held
    return out


def load(cls: type[T], data: Mapping[str, Any]) -> T:
    """The dataclass of its JSON; other keys are left out."""
    names = _names(cast("Any", cls))
    return cls(**{names[key]: value for key, value in data.items() if key in names})


def optional(thing: object, name: str) -> Any:
    """A method that may be missing; bound to its object, so that a class's own state is there."""
    found = getattr(thing, name, None)
    return found if callable(found) else None
