"""What a move prints or logs goes to its run.

A ContextVar says which move is at work in this context; the tap asks it for every write to the kernel's streams. It is a data
descriptor on the stream's class, because IPython swaps `stream.write` on the instance around every plain cell and leaves the
old one there: a plain patch would be undone, and a proxy in `sys.stdout` would miss handlers that hold the old stream.

Known limits: prints of threads the user started, of child processes, and of a move while a cell holds `%%capture` or
`redirect_stdout` go to the cell. In a plain script there is no such stream, and prints go where they always go.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from loomnb.runtime import CURRENT

__all__ = ["install"]


class _Tap:
    def __init__(self, original: Callable[..., Any]) -> None:
        self._original = original

    def __get__(self, stream: Any, owner: type | None = None) -> Any:
        if stream is None:
            return self._original
        inner = stream.__dict__.get("write") or self._original.__get__(stream)

        def write(text: str, *args: Any) -> Any:
            attempt = CURRENT.get()
            return inner(text, *args) if attempt is None else attempt.note(text)

        write.inner = inner  # type: ignore[attr-defined]
        return write

    def __set__(self, stream: Any, function: Any) -> None:
        # What is set is unwrapped, or every cell would add a layer.
        stream.__dict__["write"] = getattr(function, "inner", function)


def install() -> None:
    """Put the tap on the kernel's output streams; once."""
    stream_class: Any = type(sys.stdout)
    if stream_class.__name__ == "OutStream" and not isinstance(vars(stream_class).get("write"), _Tap):
        stream_class.write = _Tap(stream_class.write)
