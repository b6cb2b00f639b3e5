"""Workflows that a killed process and the test that restarts it both know."""

from __future__ import annotations

import threading
from typing import Any

import loomnb as loom

__all__ = ["GO", "KEYS", "Killed", "Retried"]

GO = threading.Event()
"""Lets the slow moves of this process end."""
KEYS: list[str] = []
"""The idempotency key of each slow move this process began."""


def say(text: str) -> None:
    print(text, flush=True)


@loom.workflow(name="killed")
class Killed(loom.BaseWorkflow):
    """Two moves, the second of which hangs until GO; then a question."""

    @loom.transition(to="slow")
    def first(self, state: Any, ctx: Any) -> None:
        self.assign_state(first=1)
        self.document_store.save(loom.PlainDocument(text="kept"))
        say("first")

    @loom.transition(from_="slow", to="ask")
    def second(self, state: Any, ctx: Any) -> None:
        self.assign_state(lost=True)
        self.document_store.save(loom.PlainDocument(text="lost"))
        KEYS.append(ctx.idempotency_key)
        say(f"key {ctx.idempotency_key}")
        GO.wait()
        self.set_state({"first": state["first"], "second": 2})

    @loom.transition(from_="ask", to="end", wait=True)
    def approve(self, state: Any, input: Any) -> None:  # noqa: A002
        say("approving")
        GO.wait()
        self.set_result({"data": input.data})


@loom.workflow(name="retried")
class Retried(loom.BaseWorkflow):
    """Fails until GO is set, and is tried again after an hour."""

    @loom.transition(to="end", retry_attempts=3, retry_delay=3_600_000, retry_max_delay=3_600_000)
    def go(self, state: Any, ctx: Any) -> None:
        if not GO.is_set():
            raise RuntimeError("not yet")
        self.set_result(ctx.execution.retry_count)
