"""Doubles for your own tests: ids and a clock that stand still, and a way to wait until a run rests."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from loomnb.runtime import Run, RunView

__all__ = ["StillSource", "at_rest"]


@dataclass
class StillSource:
    """Ids that count (`run-1`, `ask-2`, …) and a clock that moves only by `advance`: `loom.open(path, source=StillSource())`.

    The delays of automatic retries still pass in real time; only what is stored as a time stands still.
    """

    time: datetime = field(default_factory=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def new_id(self, prefix: str) -> str:
        """The next id."""
        return f"{prefix}-{next(self._numbers)}"

    def now(self) -> datetime:
        """The time it shows."""
        return self.time

    def monotonic(self) -> float:
        """The same, in seconds."""
        return self.time.timestamp()

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self.time += timedelta(seconds=seconds)


def at_rest(run: Run, timeout: float = 20.0) -> RunView:
    """The run's view once it waits, failed or ended. For plain code; in async code `await run.settled()`.

    Raises:
        TimeoutError: it does not come to rest within `timeout` seconds.
    """

    async def rest() -> RunView:
        return await asyncio.wait_for(run.settled(), timeout)

    return asyncio.run(rest())
