"""Help for tests of agents that ask agents: runners that do so, and kernels that know no agent but those of a test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import loomnb as loom
from loomnb.agents import AgentRunDefinition, ToolRegistry, delegation_tool
from loomnb.agents.diagnostics import subscribe
from loomnb.runtime import REGISTRY
from tests.agents.looping import Journal

__all__ = ["Asking", "Starting", "agents_only", "asked_tools", "heard", "kernel"]


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
def heard(event: str) -> Iterator[list[Mapping[str, Any]]]:
    """The payloads of an event, while this goes on."""
    payloads: list[Mapping[str, Any]] = []
    stop = subscribe(event, lambda envelope: payloads.append(envelope["payload"]))
    try:
        yield payloads
    finally:
        stop()


def agents_only() -> None:
    """As in a new kernel: no agent is known."""
    for name in [d.name for d in REGISTRY if isinstance(d, AgentRunDefinition)]:
        del REGISTRY._known[name]


@contextmanager
def kernel(path: Path) -> Iterator[loom.Loom]:
    """A kernel that was just started on a store: no agent is known in it before its cell is run."""
    agents_only()
    with loom.Loom(str(path), headless=True) as session:
        yield session


Script = Callable[[Any, int], Awaitable[Any]]
