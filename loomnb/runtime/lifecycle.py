"""The life of a run, as one table: status × event → status. Code, tests and the diagram read it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from loomnb.errors import Conflict

__all__ = ["FINISHED", "TABLE", "WORKFLOW_STATES", "Event", "Status", "WorkflowState", "after"]


class Status(StrEnum):
    """Where a run stands. The panel, SQL and `run.status` say the same words."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"


class Event(StrEnum):
    """What can happen to a run."""

    MOVED = "moved"  # a move was committed and more may be made at once
    RESTED = "rested"  # nothing can move without a person (or a child)
    ENDED = "ended"  # the place `end` was reached
    BACKED_OFF = "backed_off"  # a move failed and is tried again later
    BROKE = "broke"  # a move failed, or nothing can ever move
    ANSWERED = "answered"  # an ask was answered
    RETRIED = "retried"  # somebody asked for another try
    WOKE = "woke"  # the delay of an automatic retry is over
    CANCELED = "canceled"  # somebody stopped it
    LOST = "lost"  # its kernel died
    RESUMED = "resumed"  # its definition is known again and a move is due
    ABANDONED = "abandoned"  # its kernel died, and nothing here can go on with the answer to its question
    REARMED = "rearmed"  # the same, and an automatic retry is due later


_S, _E = Status, Event

TABLE: Mapping[Status, Mapping[Event, Status]] = {
    _S.PENDING: {
        _E.MOVED: _S.RUNNING,
        _E.RESTED: _S.WAITING,
        _E.ENDED: _S.COMPLETED,
        _E.BACKED_OFF: _S.RETRYING,
        _E.BROKE: _S.FAILED,
        _E.CANCELED: _S.CANCELED,
        _E.LOST: _S.INTERRUPTED,
    },
    _S.RUNNING: {
        _E.MOVED: _S.RUNNING,
        _E.RESTED: _S.WAITING,
        _E.ENDED: _S.COMPLETED,
        _E.BACKED_OFF: _S.RETRYING,
        _E.BROKE: _S.FAILED,
        _E.CANCELED: _S.CANCELED,
        _E.LOST: _S.INTERRUPTED,
    },
    _S.WAITING: {
        _E.ANSWERED: _S.RUNNING,
        _E.RETRIED: _S.RUNNING,  # only out of an error place: see Runtime.retry
        _E.CANCELED: _S.CANCELED,
        _E.LOST: _S.WAITING,  # a question outlives its kernel
        _E.ABANDONED: _S.INTERRUPTED,  # unless only the code that asked could go on with its answer
        _E.BROKE: _S.FAILED,  # a step that asked, did not wait for the answer and failed
    },
    _S.RETRYING: {
        _E.WOKE: _S.RUNNING,
        _E.RETRIED: _S.RUNNING,
        _E.CANCELED: _S.CANCELED,
        _E.LOST: _S.INTERRUPTED,
    },
    _S.FAILED: {
        _E.RETRIED: _S.RUNNING,
        _E.ANSWERED: _S.RUNNING,  # a place may still have a question that leads on
        _E.CANCELED: _S.FAILED,
        _E.LOST: _S.FAILED,
    },
    _S.INTERRUPTED: {
        _E.RESUMED: _S.RUNNING,
        _E.REARMED: _S.RETRYING,
        _E.RETRIED: _S.RUNNING,
        _E.CANCELED: _S.CANCELED,
        _E.LOST: _S.INTERRUPTED,
    },
    _S.COMPLETED: {_E.CANCELED: _S.COMPLETED, _E.LOST: _S.COMPLETED},
    _S.CANCELED: {_E.CANCELED: _S.CANCELED, _E.LOST: _S.CANCELED},
}

FINISHED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELED})
"""Nothing moves by itself any more. A failed run can still be retried, or answered at its place."""


class WorkflowState(StrEnum):
    """The contract's words for where a run stands; `run.status` tells more."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


WORKFLOW_STATES: Mapping[Status, WorkflowState] = {
    _S.PENDING: WorkflowState.PENDING,
    _S.RUNNING: WorkflowState.RUNNING,
    _S.WAITING: WorkflowState.WAITING,
    _S.RETRYING: WorkflowState.WAITING,
    _S.COMPLETED: WorkflowState.COMPLETED,
    _S.FAILED: WorkflowState.FAILED,
    _S.CANCELED: WorkflowState.CANCELED,
    _S.INTERRUPTED: WorkflowState.FAILED,
}


def after(status: Status, event: Event) -> Status:
    """The status after an event.

    Raises:
        Conflict: that cannot happen to a run of this status; nothing is changed.
    """
    try:
        return TABLE[status][event]
    except KeyError:
        raise Conflict(f"A run that is {status} cannot be {event.replace('_', ' ')}.") from None
