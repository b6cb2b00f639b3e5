"""The chat panel: a conversation with an agent, live."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from loomnb.present import story_bundle
from loomnb.runtime import FINISHED, Status
from loomnb.studio import Chat
from loomnb_widgets.assets import chat_module, chat_sheet
from loomnb_widgets.bridge import Lane
from loomnb_widgets.chat_feed import ChatFeed
from loomnb_widgets.live import LivePanel

__all__ = ["ChatPanel"]

_HELD_FOR = 8.0  # seconds a view that has fallen silent is taken to be held: more than two of its hellos


class ChatPanel(LivePanel):
    """A conversation's panel. Every display of it is a view of it."""

    _esm: ClassVar[str] = chat_module()
    _css: ClassVar[str] = chat_sheet()

    def __init__(self, chat: Chat, lane: Lane) -> None:
        self.chat = chat
        self._held: dict[int, float] = {}  # view -> when it last said that a person is in it
        self._feed = ChatFeed(chat, self.say, self.pushed)
        super().__init__(lane, self._feed.small_head())
        self._feed.open()

    def heard(self, content: Mapping[str, Any]) -> None:
        """For the feed. A hello says besides whether a person is in the view, and `rest` that they are about to save."""
        if content.get("type") == "rest":
            self._held.clear()
            self.later(0, lambda: self._rest(content.get("n")))
            return
        if content.get("type") == "hello":
            view = int(content.get("n", 0)) // 1000
            if content.get("held"):
                self._held[view] = time.monotonic()
            elif self._held.pop(view, None) is not None:
                self.later(0, self.refresh_static)
        self._feed.receive(content)

    def _rest(self, number: Any) -> None:
        """Say what was said to the notebook, then that it was done: messages keep their order."""
        try:
            self.refresh_static()
        finally:
            self.say({"type": "accepted", "n": number})

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """On a worker: a conversation has a loop only while a turn runs."""
        workers = self.chat.session.runtime.workers
        if seconds:
            timer = threading.Timer(seconds, workers.submit, (call,))
            timer.daemon = True
            timer.start()
        else:
            workers.submit(call)

    def refresh_view(self) -> None:
        """It may have gone on while its panel was made."""
        self._feed.changed()

    def static_forms(self) -> Mapping[str, str]:
        """What was said."""
        return story_bundle(self.chat.story())

    def standing(self) -> tuple[Any, ...]:
        """What was said, and where the turn stands."""
        chat, record = self.chat, self._feed.record
        view = record.view if record is not None else None
        asks = tuple(a.id for a in view.asks) if view is not None else ()
        return (
            chat.thread_id,
            chat.title,
            chat.store.message_count(chat.thread_id),
            view.status if view is not None else None,
            asks,
        )

    def is_at_rest(self) -> bool:
        """Whether the agent is not at work, and nobody is in the panel: what is said anew to the notebook is drawn anew, and that
        would take the words from under somebody's fingers."""
        if any(time.monotonic() - at < _HELD_FOR for at in self._held.values()):
            return False
        record = self._feed.record
        if record is None:
            return True
        status = record.view.status
        return status in FINISHED or status in (Status.WAITING, Status.INTERRUPTED)

    def is_closed(self) -> bool:
        """Whether the store of the conversation is closed."""
        return self.chat.session.runtime.closed

    def core_form(self) -> Any:
        """The conversation in core widgets."""
        from loomnb_widgets.core_chat import CoreChat  # noqa: PLC0415  # only front ends without anywidget need it

        return CoreChat(self.chat, self._lane)

    def asks_run(self, run_id: str) -> bool:
        """Whether the turn it shows is this run."""
        return self._feed.record is not None and self._feed.record.id == run_id

    def warn(self) -> None:
        """Show what blocks the runs, or that nothing does any more."""
        self._feed.changed()

    def close_panel(self) -> None:
        """Let go of the conversation."""
        self._feed.close()
        super().close_panel()
