"""Stopping a turn whose model blocks the loop of all runs: it is said, and it ends once the block does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.runtime import TurnResult
from tests.helpers import PATIENCE


@pytest.fixture
def store(tmp_path: Path) -> Iterator[loom.Loom]:
    with loom.Loom(str(tmp_path / "a.duckdb"), headless=True) as session:
        yield session


class Blocking:
    """A model that waits without awaiting."""

    def __init__(self) -> None:
        self.begun, self.may_go = threading.Event(), threading.Event()

    async def run_turn(self, request: Any) -> TurnResult:
        self.begun.set()
        self.may_go.wait(PATIENCE)
        return TurnResult(text="Too late.")


def test_a_stop_returns_while_the_loop_is_blocked_says_so_and_comes_to_pass(store: loom.Loom) -> None:
    model = Blocking()
    chat = loom.Agent(model, name="blocking", store=store).chat()
    run = chat.send("Hello.")
    assert model.begun.wait(PATIENCE)

    started = time.monotonic()
    run.cancel(timeout=PATIENCE)

    assert time.monotonic() - started < PATIENCE / 2
    for told in (run.advice, repr(run), repr(chat)):
        assert "is to be stopped" in told
        assert "blocks all runs" in told
        assert "step turn" in told

    model.may_go.set()

    async def ended() -> None:
        with pytest.raises(loom.RunFailed) as caught:
            await run
        assert caught.value.status == "canceled"

    asyncio.run(ended())
    assert run.advice == ""
    assert [message.content for message in chat.messages] == ["Hello."]


def test_a_turn_that_is_not_blocked_is_stopped_when_cancel_returns(store: loom.Loom) -> None:
    begun = threading.Event()

    class Waiting:
        async def run_turn(self, request: Any) -> TurnResult:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError("it was to wait for ever")

    run = loom.Agent(Waiting(), name="waiting", store=store).run("Hello.")
    assert begun.wait(PATIENCE)

    run.cancel(timeout=PATIENCE)

    assert run.status == "canceled"
