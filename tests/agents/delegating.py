"""Help for tests of agents that ask agents: runners that do so, the tools for it, and who hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from loomnb.agents import ToolRegistry, delegation_tool
from loomnb.agents.diagnostics import subscribe
from tests.agents.looping import Journal

__all__ = ["Asking", "Starting", "asked_tools", "for_ever", "heard"]

_HELD: list[asyncio.Event] = []
"""What nobody sets: kept, for a task that waits for nothing anybody holds is swept away with a warning."""


async def for_ever() -> None:
    """Do not come to an end, as a model that a kernel died over."""
    _HELD.append(asyncio.Event())
    await _HELD[-1].wait()


@dataclass
class Asking(Journal):
    """A runner whose agents answer at once; `answer` may be an exception to raise."""

    answer: Any = "Forty-two."
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def run_agent(self, name: str, task: str) -> Mapping[str, Any]:
        self.asked.append((name, task))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return {"text": self.answer}


@dataclass
class Starting(Asking):
    """A runner that can detach, too."""

    started: list[dict[str, str]] = field(default_factory=list)

    async def start_agent(self, **asked: str) -> Mapping[str, str]:
        self.started.append(asked)
        return {"runId": "run-child"}


def asked_tools(*names: str, detached: bool = False, registry: ToolRegistry | None = None) -> ToolRegistry:
    """A registry by which these agents are asked."""
    registry = registry or ToolRegistry()
    for name in names:
        registry.register(*delegation_tool(name, lambda: "Helps.", detached=detached))
    return registry


@contextmanager
def heard(event: str) -> Generator[list[Mapping[str, Any]]]:
    """The payloads of an event, while this goes on."""
    payloads: list[Mapping[str, Any]] = []
    stop = subscribe(event, lambda envelope: payloads.append(envelope["payload"]))
    try:
        yield payloads
    finally:
        stop()
