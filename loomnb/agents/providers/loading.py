"""The libraries of vendors, imported on a thread: 1.5 to 2 s in which a loop would stand still, and every run with it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

__all__ = ["loaded"]

_ONE = threading.Lock()
"""Two threads that import packages with cycles may each see half of one."""
_DONE: set[str] = set()


async def loaded(what: str, load: Callable[[], object]) -> None:
    """Import something, once in a process.

    Args:
        what: its name.
        load: imports it. What it raises is left to those who need it: it will be raised there again, and told.
    """
    if what not in _DONE:
        await asyncio.to_thread(_load, what, load)


def _load(what: str, load: Callable[[], object]) -> None:
    with _ONE:
        if what not in _DONE:
            with contextlib.suppress(Exception):
                load()
            _DONE.add(what)
