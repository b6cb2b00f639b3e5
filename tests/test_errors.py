"""The tree of errors: codes are API, errors survive pickling, and every one belongs to somebody."""

from __future__ import annotations

import copy
import pickle

import pytest

from loomnb import errors

CODES = {
    "AnswerInvalid": "INVALID_REQUEST",
    "AnswerRefused": "CONFLICT",
    "ArgsInvalid": "INVALID_REQUEST",
    "Bug": "BUG",
    "Conflict": "CONFLICT",
    "DefinitionError": "INVALID_DEFINITION",
    "InvalidRequest": "INVALID_REQUEST",
    "LoomError": "LOOM_ERROR",
    "MoveTimedOut": "MOVE_TIMED_OUT",
    "NoFrontEnd": "NO_FRONT_END",
    "NotFound": "NOT_FOUND",
    "NotJson": "INVALID_JSON",
    "OwnershipLost": "EXECUTION_OWNERSHIP_LOST",
    "ReadOnly": "READ_ONLY",
    "Refused": "REFUSED",
    "RunFailed": "MOVE_FAILED",
    "SchemaValidationError": "INVALID_DOCUMENT",
    "StepError": "STEP_EXECUTION_FAILED",
    "StorageFailed": "STORAGE_ERROR",
    "StoreBusy": "BUSY",
    "StoreClosed": "STORE_CLOSED",
    "StoreDamaged": "STORAGE_ERROR",
    "ToolFailed": "TOOL_FAILED",
    "ToolPending": "TOOL_PENDING",
    "Unavailable": "KERNEL_UNAVAILABLE",
    "WorldFailed": "WORLD_FAILED",
    "WouldDeadlock": "WOULD_DEADLOCK",
}
CLASSES = [getattr(errors, name) for name in errors.__all__]
WITH_FIELDS = [errors.AnswerInvalid, errors.ArgsInvalid, errors.SchemaValidationError]

COPIES = {"pickle": lambda e: pickle.loads(pickle.dumps(e)), "copy": copy.copy, "deepcopy": copy.deepcopy}


def test_the_codes_are_these() -> None:
    assert {c.__name__: c.code for c in CLASSES} == CODES


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_error_is_a_loom_error(cls: type[errors.LoomError]) -> None:
    assert issubclass(cls, errors.LoomError)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_an_error_has_one_owner(cls: type[errors.LoomError]) -> None:
    """You, the world, the run you waited for, or us."""
    branches = [errors.Refused, errors.WorldFailed, errors.RunFailed, errors.Bug]

    assert sum(issubclass(cls, b) for b in branches) == (0 if cls is errors.LoomError else 1)


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_an_error_survives_a_copy_whole(cls: type[errors.LoomError], make) -> None:
    error = cls("what happened", advice="what to do")
    error.code, error.retryable = "MINE", True
    again = make(error)

    assert type(again) is cls
    assert (again.message, again.advice, again.code, again.retryable, str(again)) == (
        "what happened",
        "what to do",
        "MINE",
        True,
        str(error),
    )


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("cls", WITH_FIELDS, ids=lambda c: c.__name__)
def test_fields_survive_a_copy(cls, make) -> None:
    assert make(cls("no", {"a": "wrong", "": "all of it"})).fields == {"a": "wrong", "": "all of it"}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_a_failed_run_survives_a_copy(make) -> None:
    again = make(errors.RunFailed("it failed", run_id="run-1", status="canceled", code="RUN_STOPPED"))

    assert (again.run_id, again.status, again.code) == ("run-1", "canceled", "RUN_STOPPED")


def test_the_text_is_the_message_then_the_fields_then_the_advice() -> None:
    error = errors.AnswerInvalid("It does not fit.", {"n": "not a number", "": "too short"}, advice="Try again.")

    assert str(error) == "It does not fit.\n  n: not a number\n  too short\nTry again."


def test_a_text_without_advice_ends_with_its_message() -> None:
    assert str(errors.NotFound("no such run")) == "no such run"


@pytest.mark.parametrize("cls", [errors.NotJson, errors.ReadOnly], ids=lambda c: c.__name__)
def test_a_wrong_value_is_a_type_error_too(cls: type[errors.LoomError]) -> None:
    assert issubclass(cls, TypeError)


@pytest.mark.parametrize(
    ("cls", "retryable"),
    [
        (errors.StoreBusy, True),
        (errors.MoveTimedOut, True),
        (errors.StoreDamaged, False),
        (errors.StoreClosed, False),
        (errors.Conflict, False),
    ],
    ids=lambda v: getattr(v, "__name__", str(v)),
)
def test_an_error_says_whether_the_same_call_may_succeed_later(cls: type[errors.LoomError], retryable: bool) -> None:
    assert cls("x").retryable is retryable


def test_a_refusal_in_a_notebook_is_its_message_without_frames() -> None:
    assert errors.Conflict("no", advice="do")._render_traceback_() == ["Conflict [CONFLICT]: no\ndo"]


def test_a_failed_run_in_a_notebook_shows_the_users_frames_only() -> None:
    error = errors.RunFailed("it failed")
    error.frames = '  File "cell", line 1, in body\n'

    assert error._render_traceback_() == ['  File "cell", line 1, in body', "RunFailed [MOVE_FAILED]: it failed"]
