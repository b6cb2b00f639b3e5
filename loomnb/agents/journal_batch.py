"""Rows that are written together: those of one checkpoint, with what it recorded; those of one cell's call, in one commit."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from loomnb.store import Row

__all__ = ["Collected", "collecting", "collector"]


@dataclass(slots=True)
class Collected:
    """The rows that were written within one `collecting`.

    Attributes:
        rows: in order.
        check: raises when nothing may be written any more.
        is_open: whether it still takes rows. A task that was left behind in its context writes for itself.
    """

    check: Callable[[], None]
    rows: list[Row] = field(default_factory=list[Row])
    is_open: bool = True


_HERE: contextvars.ContextVar[Collected | None] = contextvars.ContextVar("loom_agent_rows", default=None)
"""Where the rows go that are written in this context."""


def collector() -> Collected | None:
    """What takes the rows of this context; None: each is written by itself."""
    here = _HERE.get()
    return here if here is not None and here.is_open else None


@contextlib.contextmanager
def collecting(check: Callable[[], None] = lambda: None) -> Generator[list[Row]]:
    """Take the rows that are written within, to commit them together with something else.

    Args:
        check: called before each write; it raises when the writer was stopped. So nothing of it is in memory either.
    """
    here = Collected(check)
    token = _HERE.set(here)
    try:
        yield here.rows
    finally:
        here.is_open = False
        _HERE.reset(token)
