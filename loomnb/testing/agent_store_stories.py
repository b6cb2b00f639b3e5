"""How the contract of agent stores is told: a new store for every story, and the people in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from loomnb.agents import spi
from loomnb.errors import LoomError
from loomnb.testing.sources import StillSource

__all__ = ["ANN", "BEN", "StoreStories", "refused", "told"]

ANN = spi.Actor(id="ann", tenant_ref="acme")
BEN = spi.Actor(id="ben", tenant_ref="acme")

Story = Callable[[Any, StillSource], Awaitable[None]]


class StoreStories:
    """Tests that each begin with a store of their own."""

    def make_store(self, source: StillSource) -> Any:
        """A new, empty store that takes its ids and times from `source`; may be a coroutine.

        Raises:
            NotImplementedError: the class does not say how.
        """
        raise NotImplementedError("Say in make_store(source) how a store is made.")

    def close_store(self, store: Any) -> Any:
        """Let a store go when its test is over; nothing unless replaced. May be a coroutine."""

    def play(self, story: Story) -> None:
        """Tell a story to a new store."""

        async def told() -> None:
            source = StillSource()
            store = await spi.settled(self.make_store(source))
            try:
                await story(store, source)
            finally:
                await spi.settled(self.close_store(store))

        asyncio.run(told())


async def told(store: Any, thread_id: str, *texts: str) -> list[str]:
    """A new thread of Ann's in which this was said; the ids of the messages."""
    await store.create_thread(actor=ANN, id=thread_id)
    return [await store.append_message(thread_id, spi.ChatMessage(role="user", content=text)) for text in texts]


async def refused(kind: type[LoomError], attempt: Awaitable[Any]) -> None:
    """Nothing but an error of this kind.

    Raises:
        AssertionError: it went well.
    """
    try:
        await attempt
    except kind:
        return
    raise AssertionError(f"expected {kind.__name__}, and nothing was raised")
