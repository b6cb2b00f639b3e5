"""Messages that wait for their turn, in the memory of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomnb.errors import Conflict, InvalidRequest
from loomnb.jsonvalue import freeze

__all__ = ["InMemoryChatQueue"]


class InMemoryChatQueue:
    """A `ChatQueueStore` without a file: first in, first out, for each thread its own. The `id` of an item is that of its run."""

    def __init__(self) -> None:
        self._items: dict[str, list[Mapping[str, Any]]] = {}
        self._paused: dict[str, str] = {}

    async def enqueue(self, thread_id: str, item: Mapping[str, Any]) -> None:
        """Put a message at the end.

        Args:
            thread_id: where it is to be said.
            item: `{"id", "text", …}`, JSON.

        Raises:
            InvalidRequest: it has no id.
            Conflict: one of this id waits already.
            NotJson: it holds something that JSON cannot hold.
        """
        message_id = item.get("id")
        if not isinstance(message_id, str) or not message_id:
            raise InvalidRequest("A message that is to wait has no id.", advice="Give it the id that its run will have.")
        if self._place(thread_id, message_id) is not None:
            raise Conflict(f"Message {message_id!r} waits in thread {thread_id!r} already.")
        self._items.setdefault(thread_id, []).append(freeze(dict(item)))

    async def list(self, thread_id: str) -> Sequence[Mapping[str, Any]]:
        """Those that wait, in their order."""
        return tuple(self._items.get(thread_id, ()))

    async def update(self, thread_id: str, message_id: str, text: str) -> bool:
        """Change the text of one that waits; False if it waits no more."""
        place = self._place(thread_id, message_id)
        if place is None:
            return False
        items = self._items[thread_id]
        items[place] = freeze({**items[place], "text": text})
        return True

    async def move(self, thread_id: str, message_id: str, index: int) -> bool:
        """Put one that waits at another place, counted from 0 (beyond the end: the last); False if it waits no more.

        Raises:
            InvalidRequest: the place is below 0.
        """
        if index < 0:
            raise InvalidRequest(f"A message cannot be moved to place {index}: places count from 0.")
        place = self._place(thread_id, message_id)
        if place is None:
            return False
        items = self._items[thread_id]
        items.insert(index, items.pop(place))
        return True

    async def remove(self, thread_id: str, message_id: str) -> bool:
        """Take one out; False if it waits no more."""
        place = self._place(thread_id, message_id)
        if place is None:
            return False
        del self._items[thread_id][place]
        return True

    async def clear(self, thread_id: str) -> None:
        """Let none wait any more. Whether the queue is paused stays as it is."""
        self._items.pop(thread_id, None)

    async def paused(self, thread_id: str) -> str | None:
        """Why nothing of this thread is started by itself (`run_failed`, `cancelled`, `quota_exceeded`, …); None: it goes on."""
        return self._paused.get(thread_id)

    async def set_paused(self, thread_id: str, reason: str | None) -> None:
        """Pause a queue for this reason; None lets it go on."""
        if reason is None:
            self._paused.pop(thread_id, None)
        else:
            self._paused[thread_id] = reason

    def _place(self, thread_id: str, message_id: str) -> int | None:
        for place, item in enumerate(self._items.get(thread_id, ())):
            if item["id"] == message_id:
                return place
        return None
