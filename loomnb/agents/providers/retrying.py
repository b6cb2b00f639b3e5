"""Trying a request again, and saying so: a wait nobody is told of looks like a machine that hangs. The loop is tenacity's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from loomnb.agents.providers.errors import ModelError, ModelRateLimited, ModelStreamCut

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["retried"]

T = TypeVar("T")


async def retried(
    call: Callable[[], Awaitable[T]],
    *,
    attempts: int,
    longest_wait: float,
    first_wait: float,
    tell: Callable[[float, str], Awaitable[None]],
) -> T:
    """Make a request until it succeeds, fails for good, or was made often enough.

    Args:
        call: makes it once.
        attempts: how often at the most.
        longest_wait: seconds of one wait at the most. Where the service asks for more, its error is raised at once: somebody who
            sits before a notebook rather knows than waits.
        first_wait: seconds of the first wait where the service says nothing; then twice as long each time, plus a random part.
        tell: told of each wait before it begins: seconds, and why.

    Raises:
        ModelError: the last failure.
    """
    import tenacity  # noqa: PLC0415  # optional: comes with the extra `agents`

    # Of two parts: what the library offers in one changed the name of its parameter between 9.1 and 9.2.
    growing = tenacity.wait_exponential(multiplier=first_wait, max=longest_wait) + tenacity.wait_random(0, first_wait)

    def is_worth_it(exc: BaseException) -> bool:
        if not isinstance(exc, ModelError) or not exc.retryable or isinstance(exc, ModelStreamCut):
            return False
        return (exc.retry_after or 0.0) <= longest_wait

    def seconds(state: RetryCallState) -> float:
        asked = _failure(state).retry_after
        return growing(state) if asked is None else asked

    async def waits(state: RetryCallState) -> None:
        assert state.next_action is not None
        failure = _failure(state)
        why = "rate-limited" if isinstance(failure, ModelRateLimited) else "unavailable"
        await tell(state.next_action.sleep, why)

    return await tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(is_worth_it),
        stop=tenacity.stop_after_attempt(attempts),
        wait=seconds,
        before_sleep=waits,
        reraise=True,
    )(call)


def _failure(state: RetryCallState) -> ModelError:
    assert state.outcome is not None
    failure = state.outcome.exception()
    assert isinstance(failure, ModelError)
    return failure
