"""A database in a bad moment is asked again; nothing else is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loomnb.agents.control_flow import ControlFlowSignal, NonDeterminismError
from loomnb.agents.retrying import TransientRetry, invoke_with_transient_retry, is_transient_error, transient_retry
from loomnb.errors import DefinitionError


class DbError(Exception):
    def __init__(self, text: str = "it went wrong", **facts: Any) -> None:
        super().__init__(text)
        self.__dict__.update(facts)


def caused_by(cause: BaseException) -> Exception:
    error = ValueError("outer")
    error.__cause__ = cause
    return error


def own_cause() -> Exception:
    error = DbError(code=1)
    error.__cause__ = error
    return error


TRANSIENT = [
    *[DbError(**{place: number}) for place in ("code", "errno") for number in (1213, 1205)],
    *[DbError(code=name) for name in ("ER_LOCK_DEADLOCK", "ER_LOCK_WAIT_TIMEOUT", "SQLITE_BUSY")],
    *[DbError(**{place: s}) for place in ("code", "sqlstate", "sqlState", "sql_state", "pgcode") for s in ("40001", "40P01")],
    DbError(sqlite_errorname="SQLITE_BUSY"),
    *[DbError(t) for t in ("Deadlock found when trying to get lock", "LOCK WAIT TIMEOUT exceeded", "a serialization failure")],
    caused_by(DbError(code="40001")),
    DbError(cause=DbError(errno=1213)),
]
LASTING = [
    ValueError("x"),
    DbError(code=1062),
    DbError(code=True),
    DbError(code="23505"),
    DbError(code=40001.0),
    caused_by(caused_by(DbError(code="40001"))),
    own_cause(),
]


@pytest.mark.case("agents:W06")
@pytest.mark.parametrize(
    "error", TRANSIENT, ids=[f"{n}-{vars(e)}" if vars(e) else str(e) for n, e in enumerate(TRANSIENT[:-2])] + ["c", "d"]
)
def test_these_errors_pass_by_themselves(error: Exception) -> None:
    assert is_transient_error(error)


@pytest.mark.case("agents:W06")
@pytest.mark.parametrize("thing", [*LASTING, None, "deadlock"], ids=[*map(str, range(len(LASTING))), "None", "a text"])
def test_others_do_not(thing: object) -> None:
    assert not is_transient_error(thing)


class Story:
    """A call that raises what it is given, one after the other, and then gives `done`; and all that happens around it."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.waited: list[float] = []
        self.told: list[tuple[int, str]] = []

    async def call(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)

    def on_retry(self, attempt: int, error: BaseException) -> None:
        self.told.append((attempt, str(error)))

    def run(self, settings: TransientRetry | None, **more: Any) -> str:
        return asyncio.run(invoke_with_transient_retry(self.call, settings, on_retry=self.on_retry, sleep=self.sleep, **more))


BUSY = "SQLITE_BUSY"


@pytest.mark.case("agents:W07")
def test_one_bad_moment_is_one_more_call_and_one_notice() -> None:
    story = Story(DbError("busy", code=BUSY))
    assert story.run(TransientRetry()) == "done"
    assert (story.calls, story.told, story.waited) == (2, [(1, "busy")], [0.15])


@pytest.mark.case("agents:W07")
def test_another_error_is_no_reason_to_call_again() -> None:
    story = Story(ValueError("x"))
    with pytest.raises(ValueError, match="x"):
        story.run(TransientRetry())
    assert (story.calls, story.told) == (1, [])


@pytest.mark.case("agents:W07")
def test_when_the_tries_are_used_up_the_last_error_is_raised() -> None:
    story = Story(*(DbError(f"busy {n}", code=BUSY) for n in (1, 2, 3)))
    with pytest.raises(DbError, match="busy 3"):
        story.run(TransientRetry(attempts=3, backoff_ms=100))
    assert story.calls == 3
    assert [number for number, _ in story.told] == [1, 2]


@pytest.mark.case("agents:W07")
def test_each_wait_is_longer_by_the_backoff() -> None:
    story = Story(*(DbError(code=BUSY) for _ in range(3)))
    assert story.run(TransientRetry(attempts=4, backoff_ms=100)) == "done"
    assert story.waited == pytest.approx([0.1, 0.2, 0.3])


@pytest.mark.case("agents:W07")
def test_switched_off_it_is_called_once() -> None:
    story = Story(DbError(code=BUSY))
    with pytest.raises(DbError):
        story.run(transient_retry(False))
    assert story.calls == 1


class Signal(ControlFlowSignal):
    pass


@pytest.mark.case("agents:W07")
@pytest.mark.parametrize("error", [Signal(), NonDeterminismError(0, "a", "b")], ids=["signal", "divergence"])
def test_a_signal_is_never_tried_again_whatever_a_classifier_says(error: Exception) -> None:
    story = Story(error)
    with pytest.raises(type(error)):
        story.run(TransientRetry(attempts=5, classifier=lambda _: True))
    assert story.calls == 1


def test_a_runner_may_know_more_signals() -> None:
    story = Story(DbError(code=BUSY))
    with pytest.raises(DbError):
        story.run(TransientRetry(), is_control_flow=lambda error: isinstance(error, DbError))
    assert story.calls == 1


def test_a_call_may_be_synchronous() -> None:
    assert asyncio.run(invoke_with_transient_retry(lambda: 3, TransientRetry())) == 3


@pytest.mark.case("agents:W07")
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, (2, 150)),
        (True, (2, 150)),
        ({}, (2, 150)),
        ({"attempts": 5}, (5, 150)),
        ({"backoffMs": 10}, (2, 10)),
        (TransientRetry(attempts=7), (7, 150)),
    ],
    ids=["None", "True", "empty", "attempts", "backoff", "settings"],
)
def test_what_is_not_said_is_the_default(given: Any, meant: tuple[int, int]) -> None:
    settings = transient_retry(given)
    assert settings is not None
    assert (settings.attempts, settings.backoff_ms) == meant


@pytest.mark.parametrize(
    "given",
    [{"attempts": 0}, {"attempts": 1.5}, {"attempts": True}, {"backoff_ms": -1}, {"backoff_ms": float("nan")}, {"tries": 2}, 3],
    ids=repr,
)
def test_settings_that_mean_nothing_are_refused(given: Any) -> None:
    with pytest.raises(DefinitionError):
        transient_retry(given)
