"""How tests wait for a run, and a clock and ids that stand still. No test sleeps."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import loomnb as loom

__all__ = ["StillSource", "at_rest", "status_is", "until"]

PATIENCE = 20.0
"""Seconds after which a wait in a test has failed; it is never waited for otherwise."""


def at_rest(run: loom.Run) -> loom.RunView:
    """The run's view once it waits, failed or ended."""

    async def rest() -> loom.RunView:
        return await asyncio.wait_for(run.settled(), PATIENCE)

    return asyncio.run(rest())


def until(run: loom.Run, over: Callable[[], bool]) -> None:
    """Wait for something that the run's own news tells."""

    async def wait() -> None:
        await asyncio.wait_for(run._until(over), PATIENCE)

    asyncio.run(wait())


def status_is(run: loom.Run, status: str) -> None:
    """Wait for a status that is no rest, such as `retrying`."""
    until(run, lambda: run.status == status)


@dataclass
class StillSource:
    """Ids that count, and a clock that moves only by hand."""

    time: datetime = field(default_factory=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def new_id(self, prefix: str) -> str:
        return f"{prefix}-{next(self._numbers)}"

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
