"""What stands around a query: the frames of the notebook it may name, and the interrupt that stops it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loomnb.store import Relation
from loomnb.studio.face import NotebookFace

__all__ = ["caller_names", "frame_of", "interruptible"]


def caller_names(frame: Any) -> Iterator[Mapping[str, Any]]:
    """The variables of whoever called, nearest first, past our own frames."""
    package = str(Path(__file__).resolve().parent.parent)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(package):
            yield frame.f_locals
            yield frame.f_globals
            return
        frame = frame.f_back


def frame_of(name: str, names: Sequence[Mapping[str, Any]], face: NotebookFace | None) -> Any:
    """A frame of the notebook by its name; None where there is none."""
    spaces = [*names, *([face.names()] if face is not None else [])]
    for space in spaces:
        value = space.get(name)
        if isinstance(value, Relation):
            return value.arrow()
        if value is not None and type(value).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow", "duckdb", "numpy"):
            return value
    return None


def interruptible(work: Callable[[], Any], interrupt: Callable[[], None]) -> Any:
    """Run a query so that a kernel interrupt stops it: it works on another thread, and this one waits in short slices."""
    done = threading.Event()
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.append(work())
        except BaseException as exc:  # noqa: BLE001  # raised again on the thread that waits
            outcome.append(exc)
        finally:
            done.set()

    thread = threading.Thread(target=call, name="loom query", daemon=True)
    thread.start()
    try:
        while not done.wait(0.1):
            pass
    except BaseException:
        for _ in range(40):  # again and again: one that comes before the statement has begun stops nothing
            interrupt()
            if done.wait(0.05):
                break
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
