"""One tree of errors: who is to blame, a stable code, and what to do next.

LoomError
├── Refused          you asked for something that is not allowed; nothing was changed
│   ├── DefinitionError      a workflow, guard or document is defined wrongly; of a blueprint BlueprintInvalid (.diagnostics)
│   ├── ArgsInvalid          arguments do not fit their schema                    (.fields)
│   ├── AnswerInvalid        an answer does not fit its question                  (.fields)
│   ├── AnswerRefused        the answer is fine, but nothing here may take it now
│   ├── NoFrontEnd           a person is needed and nobody can answer here
│   ├── NotFound             no such run, ask or document
│   ├── Conflict             it clashes with what is already there
│   ├── WouldDeadlock        the wait could never end
│   ├── NotJson              a value that JSON cannot hold
│   ├── ReadOnly             a write into something that is only to be read
│   ├── OwnershipLost        a body that was stopped still tries to write
│   ├── ToolPending          a tool's result comes later, and the caller wants it now
│   ├── InvalidRequest       a name, query, batch or intent that cannot be
│   ├── StepError            a step of a blueprint broke a rule, by a code of the contract's runtime catalogue
│   └── SchemaValidationError   a document does not fit its type                  (.fields)
├── WorldFailed      something outside failed
│   ├── StoreBusy            another kernel owns the store file
│   ├── StoreDamaged         the file cannot be read
│   ├── StoreClosed          the store was closed
│   ├── StorageFailed        artifacts or records could not be read or written
│   ├── Unavailable          nothing here can do it now: closed, or not yet known
│   ├── MoveTimedOut         a move took longer than its time-out
│   └── ToolFailed           a tool answered with an error                        (.tool, .data)
├── RunFailed        the run you waited for did not complete; its cause is your own exception, unchanged
└── Bug              ours
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "AnswerInvalid",
    "AnswerRefused",
    "ArgsInvalid",
    "Bug",
    "Conflict",
    "DefinitionError",
    "InvalidRequest",
    "LoomError",
    "MoveTimedOut",
    "NoFrontEnd",
    "NotFound",
    "NotJson",
    "OwnershipLost",
    "ReadOnly",
    "Refused",
    "RunFailed",
    "SchemaValidationError",
    "StepError",
    "StorageFailed",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "ToolFailed",
    "ToolPending",
    "Unavailable",
    "WorldFailed",
    "WouldDeadlock",
]


class LoomError(Exception):
    """Base of every error loomnb raises.

    Attributes:
        code: a stable, upper-case identifier; branch on this, not on the text.
        retryable: whether the same call may succeed later without a change.
        message: what happened, to which thing.
        advice: what to do next; empty when the message says it all.
        cause: what it was made from; for an exception the same as `__cause__`, but it may be any object.
    """

    code: str = "LOOM_ERROR"
    retryable: bool = False
    __loom_error__ = True  # the brand: a second copy of this library is known by it, not by its class

    def __init__(
        self, message: str, *, advice: str = "", code: str | None = None, retryable: bool | None = None, cause: object = None
    ) -> None:
        # Only the message goes into args and the rest into attributes: pickle and copy restore both by themselves.
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.cause = cause
        if isinstance(cause, BaseException):
            self.__cause__ = cause
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message}\n{self.advice}" if self.advice else self.message

    @classmethod
    def of(cls, cause: object, *, code: str, message: str, retryable: bool = False) -> BaseException:
        """An error of this code for anything that went wrong: `cause` itself when it has the code already, else a new one."""
        if isinstance(cause, BaseException) and code_of(cause) == code:
            return cause
        return cls(message, code=code, retryable=retryable, cause=cause)


def is_loom_error(value: object) -> bool:
    """Whether it is an error of this library, also of another copy of it. Never raises, whatever it is given."""
    return code_of(value) is not None


def code_of(value: object) -> str | None:
    """The code of an error of this library, also of another copy of it; None for anything else. Never raises."""
    try:
        code = getattr(value, "code", None)
        is_one = (
            getattr(value, "__loom_error__", None) is True
            and isinstance(value, BaseException)
            and type(code) is str
            and type(getattr(value, "message", None)) is str
            and type(getattr(value, "retryable", None)) is bool
        )
    except BaseException:  # noqa: BLE001  # members of a hostile object may raise anything
        return None
    return code if is_one else None


class Refused(LoomError):
    """You asked for something that is not allowed. Nothing was written."""

    code = "REFUSED"

    def _render_traceback_(self) -> list[str]:
        # IPython asks exceptions for this. A refusal is a message to a person: twenty frames of our code above it
        # would only hide what to do next. The traceback itself stays on the exception (%debug, %tb in a script).
        return [f"{type(self).__name__} [{self.code}]: {self}"]


class _WithFields(Refused):
    """A refusal that can point at the fields it is about: `fields` maps a field's name ("" for the whole) to its error."""

    def __init__(self, message: str, fields: Mapping[str, str] | None = None, *, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.fields: dict[str, str] = dict(fields or {})

    def __str__(self) -> str:
        lines = [self.message, *(f"  {name}: {text}" if name else f"  {text}" for name, text in self.fields.items())]
        return "\n".join([*lines, self.advice] if self.advice else lines)


class DefinitionError(Refused):
    """A workflow, transition, guard or document is defined wrongly, or its name is taken."""

    code = "INVALID_DEFINITION"


class ArgsInvalid(_WithFields):
    """Arguments do not fit their schema. No run was created."""

    code = "INVALID_REQUEST"


class AnswerInvalid(_WithFields):
    """An answer does not fit its question. The question stays open and the run is unchanged."""

    code = "INVALID_REQUEST"


class AnswerRefused(Refused):
    """Nothing may take this answer now: unknown or closed ask, false guard, finished run."""

    code = "CONFLICT"


class NoFrontEnd(Refused):
    """A person is needed and nobody can answer here. The run stays `waiting` with its question open."""

    code = "NO_FRONT_END"


class NotFound(Refused):
    """No run, ask or document has this id."""

    code = "NOT_FOUND"


class Conflict(Refused):
    """It clashes with what is already there."""

    code = "CONFLICT"


class WouldDeadlock(Refused):
    """The wait could never end, because what it waits for runs on the very thread that would wait."""

    code = "WOULD_DEADLOCK"


class NotJson(Refused, TypeError):
    """A value that JSON cannot hold. Nothing is stringified for you."""

    code = "INVALID_JSON"


class ReadOnly(Refused, TypeError):
    """A write into something that is only to be read (a run's state, its args)."""

    code = "READ_ONLY"


class OwnershipLost(Refused):
    """A body that was timed out or canceled still tries to write. What it wrote is dropped."""

    code = "EXECUTION_OWNERSHIP_LOST"


class SchemaValidationError(_WithFields):
    """A document's content does not fit its type."""

    code = "INVALID_DOCUMENT"


class ToolPending(Refused):
    """A tool started a sub-workflow; its result comes when that ends, and `call` cannot wait for it."""

    code = "TOOL_PENDING"


class InvalidRequest(Refused):
    """A name, a query, a batch of operations or an intent that cannot be. Nothing was written."""

    code = "INVALID_REQUEST"


class StepError(Refused):
    """A step of a blueprint broke a rule. Its code is one of the contract's runtime catalogue (STAGE_STATE_INVALID, …)."""

    code = "STEP_EXECUTION_FAILED"


class WorldFailed(LoomError):
    """Something outside loomnb failed."""

    code = "WORLD_FAILED"
    retryable = True


class StoreBusy(WorldFailed):
    """Another kernel owns the store file.

    Attributes:
        pid: its process, if it said so.
        notebook: the notebook it serves; empty when unknown.
    """

    code = "BUSY"
    pid: int | None = None
    notebook: str = ""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__} [{self.code}]: {self}"]  # as for Refused: this is a message to a person


class StoreDamaged(WorldFailed):
    """The store file, or its log, cannot be read."""

    code = "STORAGE_ERROR"
    retryable = False


class StoreClosed(WorldFailed):
    """The store was closed, or belongs to the process this one was forked from."""

    code = "STORE_CLOSED"
    retryable = False


class StorageFailed(WorldFailed):
    """Artifacts or records could not be read or written; what the batch was to do was not done."""

    code = "STORAGE_ERROR"
    retryable = False


class Unavailable(WorldFailed):
    """Nothing here can do it now: a store that was closed, a flow that is not known yet."""

    code = "KERNEL_UNAVAILABLE"
    retryable = True


class MoveTimedOut(WorldFailed):
    """A move took longer than its time-out; its body was canceled."""

    code = "MOVE_TIMED_OUT"


class ToolFailed(WorldFailed):
    """A tool answered with an error instead of data.

    Attributes:
        tool: its name.
        data: what it gave along with the error, if anything.
    """

    code = "TOOL_FAILED"
    retryable = False

    def __init__(self, message: str, *, tool: str = "", data: Any = None, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.tool = tool
        self.data = data


class RunFailed(LoomError):
    """The run you waited for did not complete. `__cause__` is your own exception, unchanged.

    Attributes:
        run_id: the run.
        status: `failed`, `canceled` or `interrupted`.
        code: the code of the run's error (`MOVE_FAILED` for an exception of your own).
    """

    code = "MOVE_FAILED"

    def __init__(
        self, message: str, *, run_id: str = "", status: str = "failed", code: str | None = None, advice: str = ""
    ) -> None:
        super().__init__(message, advice=advice, code=code)
        self.run_id = run_id
        self.status = status
        self.frames = ""

    def _render_traceback_(self) -> list[str]:
        frames = self.frames.rstrip().splitlines()
        return [*frames, f"RunFailed [{self.code}]: {self}"]


class Bug(LoomError):
    """Our fault. Please report it with the text below."""

    code = "BUG"


def fields_from_pydantic(error: Any) -> dict[str, str]:
    """Field name to message, from a pydantic `ValidationError`; deeper places are dotted, "" is the whole value."""
    fields: dict[str, str] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        name = ".".join(str(part) for part in item["loc"])
        fields[name] = f"{fields[name]}; {item['msg']}" if name in fields else item["msg"]
    return fields
