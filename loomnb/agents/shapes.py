"""What the types of this room share: values that may be awaited, names on the JSON side, and methods that may be missing."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
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


def camel(name: str) -> str:
    """`tool_calls` → `toolCalls`."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def dump(value: Any, drop: Sequence[Any] = (None,), keep: Sequence[str] = ()) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for one in fields(value):
        held = getattr(value, one.name)
        if one.name in keep or not any(held is gone for gone in drop):
            out[camel(one.name)] = list(held) if isinstance(held, tuple) else held
    return out


def load(cls: type[T], data: Mapping[str, Any]) -> T:
    names = {camel(one.name): one.name for one in fields(cls)}  # type: ignore[arg-type]  # a dataclass
    return cls(**{names[key]: value for key, value in data.items() if key in names})


def optional(thing: object, name: str) -> Any:
    """A method that may be missing; bound to its object, so that a class's own state is there."""
    found = getattr(thing, name, None)
    return found if callable(found) else None
