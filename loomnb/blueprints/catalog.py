"""The codes of the contract, with what people read for each: those told to a caller, and those a run fails with.

Rules: contracts/blueprints.md §2.8. A run's `last_error` shows these texts and never an exception's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from loomnb.errors import LoomError, code_of

__all__ = ["KERNEL", "RUNTIME", "ErrorCatalog", "ErrorEntry"]


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """What a code says, and whether the same call may succeed later."""

    message: str
    retryable: bool = False


class ErrorCatalog:
    """A set of codes, each with its defaults.

    Args:
        entries: code → entry.
    """

    def __init__(self, entries: Mapping[str, ErrorEntry]) -> None:
        self._entries = dict(entries)

    def __contains__(self, code: object) -> bool:
        return isinstance(code, str) and code in self._entries

    def __getitem__(self, code: str) -> ErrorEntry:
        if code not in self:
            raise TypeError(f"{code!r} is no code of this catalogue; it has: {', '.join(sorted(self._entries))}.")
        return self._entries[code]

    def create(self, code: str, *, message: str | None = None, retryable: bool | None = None, cause: object = None) -> LoomError:
        """An error of a code; what is given wins over its defaults, an empty message too.

        Raises:
            TypeError: the catalogue has no such code.
        """
        entry = self[code]
        return LoomError(
            entry.message if message is None else message,
            code=code,
            retryable=entry.retryable if retryable is None else retryable,
            cause=cause,
        )

    def wrap(self, cause: object, code: str, *, message: str | None = None, retryable: bool | None = None) -> BaseException:
        """The same for something that went wrong: `cause` itself when it has this code already.

        Raises:
            TypeError: the catalogue has no such code.
        """
        entry = self[code]
        return LoomError.of(
            cause,
            code=code,
            message=entry.message if message is None else message,
            retryable=entry.retryable if retryable is None else retryable,
        )

    def throw(self, code: str, *, message: str | None = None, retryable: bool | None = None, cause: object = None) -> NoReturn:
        """Raise what `create` gives."""
        raise self.create(code, message=message, retryable=retryable, cause=cause)

    def recognises(self, value: object) -> bool:
        """Whether it is an error with a code of this catalogue. Never raises."""
        return code_of(value) in self


KERNEL = ErrorCatalog(
    {
        "INVALID_REQUEST": ErrorEntry("The request cannot be: an intent, answer, query or batch is malformed."),
        "NOT_FOUND": ErrorEntry("There is no such run, flow or entry."),
        "CONFLICT": ErrorEntry("It clashes with what is there: a stale revision, a taken id, a question that is closed."),
        "BUSY": ErrorEntry("Something else holds it: an exclusive run, or another process.", retryable=True),
        "STORAGE_ERROR": ErrorEntry("The store could not be read or written."),
        "KERNEL_UNAVAILABLE": ErrorEntry("It is closed, or the flow is not known yet.", retryable=True),
    }
)
"""Told to whoever called."""

RUNTIME = ErrorCatalog(
    {
        code: ErrorEntry(message)
        for code, message in {
            "RUN_INITIALIZATION_FAILED": "The State of a stage could not be initialized.",
            "STEP_EXECUTION_FAILED": "A step failed.",
            "STEP_RESULT_INVALID": "A step ended with something that is no outcome.",
            "STEP_OUTCOME_NOT_HANDLED": "A step ended with an outcome that no route takes.",
            "INVALID_TRANSITION": "A route leads to no stage.",
            "INVALID_CURSOR": "No such step is defined.",
            "STEP_INTERACTION_INVALID": "A step asked in a way that cannot be: malformed, two at once, or not awaited.",
            "STAGE_STATE_INVALID": "A State does not fit its schema, or is no JSON.",
            "STAGE_STATE_EXISTS": "There is a State already.",
            "STAGE_STATE_NOT_FOUND": "There is no State.",
            "STAGE_STATE_INACTIVE": "The State cannot be written now.",
            "EXECUTION_OWNERSHIP_LOST": "The call is over, and what it was given with it.",
            "RUN_STOPPED": "The run was stopped.",
            "RUN_INTERRUPTED": "The run was interrupted when its kernel died.",
            "RUN_CHECKPOINT_FAILED": "What the run did could not be stored.",
            "RUN_STATE_INVALID": "The run is in a state that cannot be.",
            "LLM_REQUEST_FAILED": "A request to a model failed.",
            "LLM_RESPONSE_INVALID": "A model answered with something unreadable.",
            "AGENT_OUTPUT_INVALID": "An agent ended with something that does not fit its output schema.",
            "TOOL_EXECUTION_FAILED": "A tool failed.",
            "STEP_LIMIT": "Too many steps were made without a rest.",
            "STEP_REPLAY_DIVERGED": "A step that was tried again did something else than what it had recorded.",
            "RUNTIME_NOT_IMPLEMENTED": "This is not implemented.",
        }.items()
    }
)
"""What a run of a blueprint fails with."""
