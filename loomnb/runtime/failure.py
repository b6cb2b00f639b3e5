"""A failure as data: what is stored and shown of an exception, with the user's own frames apart from ours."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from loomnb.errors import Bug, LoomError, is_loom_error

__all__ = ["Failure", "explain", "is_stopping", "name_frames_by", "stored_text", "tame", "user_traceback"]

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_HIDDEN = (
    "/asyncio/",
    "/concurrent/futures/",
    "/threading.py",
    "/contextvars",
    "/contextlib.py",
    "/pydantic/",
    "/site-packages/tenacity/",  # the retries of a model's calls
    "/site-packages/pydantic_ai/",
    "/selectors.py",
    "/IPython/core/",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run failed. `frames` are the user's own, `traceback` is everything; neither goes into the static forms."""

    code: str
    message: str
    type: str = ""
    advice: str = ""
    retryable: bool = False
    frames: str = ""
    traceback: str = ""

    @staticmethod
    def of(exc: BaseException) -> Failure:
        """The failure of an exception. A code of ours is kept; an exception of the user's is MOVE_FAILED."""
        own = cast("LoomError", exc) if is_loom_error(exc) else None
        frames = [f for f in traceback.extract_tb(exc.__traceback__) if not _ours(f.filename)]
        kept = traceback.StackSummary.from_list(
            [traceback.FrameSummary(_Frames.name(f.filename), f.lineno, f.name, line=f.line) for f in frames]
        )
        notes = _member(exc, "__notes__")
        told = (_member(own, "advice") or "", *(notes if isinstance(notes, (list, tuple)) else ()))
        advice = map(_text_of, told)
        return Failure(
            code=own.code if own is not None else "MOVE_FAILED",
            message=_message(exc) or type(exc).__name__,
            type=stored_text(type(exc).__name__),
            advice=stored_text("\n".join(filter(None, advice))),
            retryable=own.retryable if own is not None else False,
            frames=stored_text("".join(kept.format())),
            traceback=stored_text(_whole_traceback(exc)),
        )

    def to_json(self) -> dict[str, Any]:
        """Its JSON, without what is empty."""
        names = ("code", "message", "type", "advice", "retryable", "frames", "traceback")
        return {n: getattr(self, n) for n in names if getattr(self, n)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Failure:
        """The failure of its JSON."""
        known = ("type", "advice", "retryable", "frames", "traceback")
        return Failure(code=data["code"], message=data.get("message", ""), **{k: data[k] for k in known if k in data})


class _Frames:
    """How a file is called in the user's frames; a notebook calls its cells `Cell In[3]`."""

    name: Callable[[str], str] = staticmethod(str)


def name_frames_by(name: Callable[[str], str]) -> None:
    """Call the files of frames what this function says."""
    _Frames.name = staticmethod(name)


def stored_text(text: str) -> str:
    """A text as it can be stored: half a surrogate pair (from a file's name, say) is written out as its escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _member(value: object, name: str) -> Any:
    """A member of an exception; None where it has none, or raises when it is asked for it."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001  # the user's own __getattr__ or property is broken: the failure must still be told
        return None


def _text_of(value: object) -> str:
    """`str(value)`, also where that raises: a failure whose text is broken must still be told, and tried again."""
    try:
        return stored_text(str(value))
    except Exception:  # noqa: BLE001  # the user's own __str__ is broken: its name is all there is to say
        return f"a {type(value).__name__} whose text cannot be made"


def _message(exc: BaseException) -> str:
    """What happened. An error of ours names its fields: "it does not fit" alone says nothing."""
    if not is_loom_error(exc):
        return _text_of(exc)
    fields = _member(exc, "fields")
    told = fields.items() if isinstance(fields, dict) else ()
    return _text_of(_member(exc, "message")) + stored_text("".join(f" {n}: {t}." if n else f" {t}." for n, t in told))


def _whole_traceback(exc: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(exc))
    except Exception:  # noqa: BLE001  # an exception with a __bool__, __eq__ or __notes__ of its own that raises
        return "".join(traceback.format_tb(exc.__traceback__)) + f"{type(exc).__name__}\n"


def _ours(filename: str) -> bool:
    path = filename.replace("\\", "/")
    return filename.startswith(_PACKAGE) or any(part in path for part in _HIDDEN)


def user_traceback(exc: BaseException) -> TracebackType | None:
    """The traceback from the user's first frame on, so that %debug lands in the user's body."""
    tb = exc.__traceback__
    while tb is not None and _ours(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    return tb


def tame(exc: BaseException) -> Exception:
    """SystemExit and KeyboardInterrupt would stop the loop for every run, StopIteration cannot be set on a future."""
    if isinstance(exc, Exception) and not isinstance(exc, (StopIteration, StopAsyncIteration)):
        return exc
    wrapped = _BodyStopped(f"{type(exc).__name__} was raised in a move: {_text_of(exc)}")
    wrapped.__cause__ = exc
    return wrapped.with_traceback(exc.__traceback__)


def is_stopping(exc: BaseException) -> bool:
    """Whether it stops the very task that is at work, and was not just raised by what the task called."""
    if isinstance(exc, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(exc, GeneratorExit)


class _BodyStopped(LoomError):
    code = "MOVE_FAILED"


_LOOP_HINTS = ("different event loop", "different loop", "attached to a different")
_THREAD_HINTS = ("can only be used in that same thread", "only works in main thread")


def explain(exc: Exception, loop: str) -> Exception:
    """Add what to do to errors that come from where a move runs."""
    text = _text_of(exc)
    if any(hint in text for hint in _LOOP_HINTS):
        exc.add_note(
            "loom: a client, lock, queue or task made in a cell belongs to the notebook's loop; moves run on their own. Make it "
            'inside the move, or start the run with loop="kernel".'
            if loop != "kernel"
            else "loom: this client, lock or task was made on another loop than the kernel's. Make it inside the move."
        )
    elif any(hint in text for hint in _THREAD_HINTS):
        exc.add_note("loom: moves do not run in the cells' thread. Open the connection inside the move.")
    elif isinstance(exc, EOFError) or type(exc).__name__ == "StdinNotImplementedError":
        exc.add_note("loom: a move cannot call input(). Ask with a wait transition: @loom.transition(..., wait=True).")
    return exc


def bug(what: str) -> Bug:
    """An error of ours."""
    return Bug(what, advice="This is a bug in loomnb. Please report it with this text.")
