"""How tests wait for a run; the clock and ids that stand still are the product's own. No test sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import loomnb as loom
from loomnb.testing import StillSource, at_rest

__all__ = ["StillSource", "at_rest", "status_is", "until"]

PATIENCE = 20.0
"""Seconds after which a wait in a test has failed; it is never waited for otherwise."""


def until(run: loom.Run, over: Callable[[], bool]) -> None:
    """Wait for something that the run's own news tells."""

    async def wait() -> None:
        await asyncio.wait_for(run._until(over), PATIENCE)

    asyncio.run(wait())


def status_is(run: loom.Run, status: str) -> None:
    """Wait for a status that is no rest, such as `retrying`."""
    until(run, lambda: run.status == status)
