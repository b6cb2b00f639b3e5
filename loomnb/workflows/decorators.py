"""What the decorators note on methods; nothing is judged here (table.py does, when the class is complete)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar

from loomnb.errors import DefinitionError

__all__ = ["GUARD", "TRANSITIONS", "TransitionOptions", "guard", "transition"]

F = TypeVar("F", bound=Callable[..., Any])

TRANSITIONS = "__loom_transitions__"
GUARD = "__loom_guard__"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionOptions:
    """Options of `@loom.transition`. Times are milliseconds, or a `timedelta`."""

    from_: str = "start"
    to: str
    wait: bool = False
    priority: float | None = None
    schema: Any = None
    retry_attempts: int | None = None
    retry_delay: float | timedelta = 1000
    retry_backoff: Literal["fixed", "exponential"] = "exponential"
    retry_max_delay: float | timedelta = 30_000
    retry_target: str | None = None
    error_place: str | None = None
    timeout: float | timedelta | None = None


def transition(
    *misused: object,
    to: str | None = None,
    from_: str = "start",
    wait: bool = False,
    priority: float | None = None,
    schema: Any = None,
    retry_attempts: int | None = None,
    retry_delay: float | timedelta = 1000,
    retry_backoff: Literal["fixed", "exponential"] = "exponential",
    retry_max_delay: float | timedelta = 30_000,
    retry_target: str | None = None,
    error_place: str | None = None,
    timeout: float | timedelta | None = None,
) -> Callable[[F], F]:
    """Make a method a transition between two places. Stacked on one method, it listens at several places.

    Args:
        misused: nothing; what stands here when the brackets were forgotten.
        to: the place it leads to; `"end"` completes the run.
        from_: the place it leaves; default: the start.
        wait: fire only when it is answered by name, never by itself. While the run rests at `from_`, its question is open.
        priority: higher goes first; any number goes before none.
        schema: what pydantic's TypeAdapter takes; judges the answer's data of a wait transition (`input.data` is what it
            parses to) and makes its form. On a start transition it judges the run's args when the workflow has no schema.
        retry_attempts: how often it is tried again by itself; default: not at all.
        retry_delay: milliseconds before the first retry.
        retry_backoff: `exponential` doubles the delay each time, `fixed` does not.
        retry_max_delay: the longest delay, for both.
        retry_target: the place to go to for each automatic retry.
        error_place: the place to go to when no automatic retry is left.
        timeout: milliseconds one try may take, 0 for no limit; default: LOOMNB_TRANSITION_TIMEOUT, else 300,000. The body is
            canceled and can write nothing any more.
    """
    if misused or to is None:
        raise DefinitionError(
            "@loom.transition needs to say where it leads.",
            advice='Write @loom.transition(to="some_place"), or to="end" for the last one.',
        )
    options = TransitionOptions(
        from_=from_,
        to=to,
        wait=wait,
        priority=priority,
        schema=schema,
        retry_attempts=retry_attempts,
        retry_delay=retry_delay,
        retry_backoff=retry_backoff,
        retry_max_delay=retry_max_delay,
        retry_target=retry_target,
        error_place=error_place,
        timeout=timeout,
    )

    def mark(method: F) -> F:
        # Decorators apply from the inside out: the one written last is first. Put each in front to keep reading order.
        setattr(method, TRANSITIONS, [options, *getattr(method, TRANSITIONS, [])])
        return method

    return mark


def guard(method_name: str) -> Callable[[F], F]:
    """Let a transition fire only while another method of the class returns true.

    The guard method gets the state, must have no side effects, and may be async. Of several guards on one method the
    outermost counts.
    """

    def mark(method: F) -> F:
        setattr(method, GUARD, method_name)
        return method

    return mark
