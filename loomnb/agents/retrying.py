"""Calling something again when a database was only in a bad moment. Rule: contracts/agents.md §1.13."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from loomnb.agents.amounts import is_amount, is_count
from loomnb.agents.control_flow import is_not_a_failure
from loomnb.agents.spi import MaybeAwaitable, settled
from loomnb.errors import DefinitionError

__all__ = ["TransientRetry", "invoke_with_transient_retry", "is_transient_error", "transient_retry"]

T = TypeVar("T")

_MYSQL_NUMBERS = frozenset({1213, 1205})
_NAMES = frozenset({"ER_LOCK_DEADLOCK", "ER_LOCK_WAIT_TIMEOUT", "SQLITE_BUSY", "40001", "40P01"})
_NUMBER_PLACES = ("code", "errno")
# sqlstate: psycopg and asyncpg; pgcode: psycopg2; sqlState, sql_state: bridges; sqlite_errorname: Python's own sqlite3.
_NAME_PLACES = ("code", "sqlstate", "sqlState", "sql_state", "pgcode", "sqlite_errorname")
_PHRASES = ("deadlock", "lock wait timeout", "serialization failure")


def is_transient_error(error: object) -> bool:
    """Whether a database says that the same call may well succeed in a moment: a deadlock, a lock waited for too long, a
    serialization failure, a busy SQLite. Looked for on the error and on its cause, one level deep. Never raises."""
    if not isinstance(error, BaseException):
        return False
    cause = error.__cause__ if error.__cause__ is not None else _read(error, "cause")
    return _says_so(error) or (isinstance(cause, BaseException) and _says_so(cause))


def _says_so(error: BaseException) -> bool:
    for place in _NUMBER_PLACES:
        number = _read(error, place)
        if type(number) is int and number in _MYSQL_NUMBERS:
            return True
    for place in _NAME_PLACES:
        name = _read(error, place)
        if isinstance(name, str) and name in _NAMES:
            return True
    try:
        text = str(error).lower()
    except Exception:  # noqa: BLE001  # an error whose __str__ is broken says nothing
        return False
    return any(phrase in text for phrase in _PHRASES)


def _read(error: BaseException, place: str) -> object:
    try:
        return getattr(error, place, None)
    except Exception:  # noqa: BLE001  # properties of foreign errors may raise
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransientRetry:
    """How often a call is made again, and when.

    Attributes:
        attempts: tries in all, the first included.
        backoff_ms: before the second try; before the third twice as much, and so on.
        classifier: whether an error is worth another try. A signal of the runner never is, whatever it says.

    Raises:
        DefinitionError: attempts below 1, or a backoff that is no finite number from 0 on.
    """

    attempts: int = 2
    backoff_ms: float = 150
    classifier: Callable[[BaseException], bool] = is_transient_error

    def __post_init__(self) -> None:
        if not is_count(self.attempts):
            raise DefinitionError(f"attempts of a retry is {self.attempts!r}: it is a whole number from 1 on.")
        if not is_amount(self.backoff_ms):
            raise DefinitionError(f"backoff_ms of a retry is {self.backoff_ms!r:.60}: it is a number of milliseconds from 0 on.")
        if not callable(self.classifier):
            raise DefinitionError("The classifier of a retry is no function.")


_SETTINGS = {"attempts": "attempts", "backoff_ms": "backoff_ms", "backoffMs": "backoff_ms", "classifier": "classifier"}


def transient_retry(value: TransientRetry | Mapping[str, Any] | bool | None = None) -> TransientRetry | None:
    """The settings meant by a dependency of the loop: None or True for the defaults, False for none at all (None is given back),
    a mapping for some of them.

    Raises:
        DefinitionError: it is nothing of that, or a mapping with other keys or with bad values.
    """
    if value is None or value is True:
        return TransientRetry()
    if value is False:
        return None
    if isinstance(value, TransientRetry):
        return value
    if not isinstance(value, Mapping) or not set(value) <= set(_SETTINGS):
        raise DefinitionError(
            f"{value!r} says nothing about retries.", advice="Give False, or some of `attempts`, `backoff_ms` and `classifier`."
        )
    return TransientRetry(**{_SETTINGS[name]: given for name, given in value.items()})


async def invoke_with_transient_retry(
    call: Callable[[], MaybeAwaitable[T]],
    settings: TransientRetry | None = None,
    on_retry: Callable[[int, BaseException], MaybeAwaitable[None]] | None = None,
    is_control_flow: Callable[[BaseException], bool] | None = None,
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> T:
    """What a call gives, made again after errors that pass by themselves.

    Args:
        call: makes the call anew each time.
        settings: how often and when; None: once only (`transient_retry()` has the defaults).
        on_retry: told before each wait: the number of the try that failed, from 1, and its error.
        is_control_flow: knows more exceptions that are signals of the runner.
        sleep: waits for seconds.

    Raises:
        Exception: what the call raised last; a signal of the runner or a diverged replay at once.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            return await settled(call())
        except Exception as error:
            if is_not_a_failure(error) or (is_control_flow is not None and is_control_flow(error)):
                raise
            if settings is None or attempt >= settings.attempts or not settings.classifier(error):
                raise
            if on_retry is not None:
                await settled(on_retry(attempt, error))
        await sleep(settings.backoff_ms * attempt / 1000)
