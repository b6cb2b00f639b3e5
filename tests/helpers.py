"""How tests wait for a run; the clock and ids that stand still are the product's own. No test sleeps."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable

import loomnb as loom
from loomnb.testing import StillSource, at_rest

__all__ = ["StillSource", "at_rest", "calls_of", "ended", "plain_id", "status_is", "until"]

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


def ended(run: loom.AgentRun) -> loom.AgentResult:
    """Wait for a turn, and give what it came to."""

    async def main() -> loom.AgentResult:
        return await run

    return asyncio.run(main())


def plain_id(value: object) -> str:
    """A parameter's name that is the same in every process: its repr without addresses. Tests that run in two need that."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def calls_of(work: Callable[[], object]) -> int:
    """How many calls something makes, of Python's functions and of C's: what it costs, the same on every machine."""
    count = 0

    def heard(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
