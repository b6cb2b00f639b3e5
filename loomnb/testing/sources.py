"""Ids and a clock that stand still, so that what a test compares is the same at every run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

__all__ = ["StillSource"]


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
