"""A conversation in core ipywidgets, for a front end without anywidget: what was said, what is asked, a box to write in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ipywidgets as W  # noqa: N812  # the name its own documentation uses for short

from loomnb.errors import LoomError
from loomnb.present import escape, story_bundle
from loomnb.studio import Chat
from loomnb_widgets.bridge import Lane
from loomnb_widgets.forms import AskForms

__all__ = ["CoreChat"]


class CoreChat:
    """A conversation as core widgets in `box`."""

    def __init__(self, chat: Chat, lane: Lane) -> None:
        self._chat = chat
        self._lane = lane
        self._shown: tuple[Any, ...] | None = None
        self._typed = ""
        self.seen = False
        """Whether a front end has drawn it: its hidden player ticks there, and only there."""
        self._story = W.HTML()
        self._pulse = W.Play(value=0, min=0, max=10**6, interval=1500, playing=True, layout=W.Layout(display="none"))
        lane.route(self._pulse, self._alive, self._alive)
        self._asks = W.VBox()
        self._error = W.HTML()
        self._words = W.Textarea(placeholder="Write a message", continuous_update=False, layout=W.Layout(width="100%"))
        lane.route(self._words, self._alive, self._write)
        self._send = W.Button(description="Send", disabled=not chat.has_agent)
        self._stop = W.Button(description="Stop")
        lane.route(self._send, lambda _: self._submit(self._say))
        lane.route(self._stop, lambda _: self._submit(chat.stop))
        self.box = W.VBox([self._story, self._pulse, self._asks, self._words, W.HBox([self._send, self._stop]), self._error])
        self.draw()

    def _alive(self, _: Mapping[str, Any]) -> None:
        self.seen = True

    def _write(self, state: Mapping[str, Any]) -> None:
        self.seen = True
        if "value" in state:
            self._typed = state["value"]

    def _submit(self, call: Any) -> None:
        self.seen = True
        self._chat.session.runtime.workers.submit(self._try, call)

    def _try(self, call: Any) -> None:
        try:
            call()
        except LoomError as exc:
            self._error.value = (
                f"<span style='color:var(--jp-error-color1,#c00)'>{escape(exc.message)} {escape(exc.advice)}</span>"
            )
        else:
            self._error.value = ""

    def _say(self) -> None:
        self._chat.send(self._typed)
        self._typed = self._words.value = ""

    def draw(self) -> None:
        """Draw what has changed."""
        run = self._chat.run
        self._story.value = story_bundle(replace(self._chat.story(), asks=()))["text/html"]  # the forms below ask
        shown = tuple(ask.id for ask in run.record.view.asks) if run is not None else ()
        self._stop.disabled = run is None or run.has_error
        if shown == self._shown:
            return
        self._shown = shown
        self._asks.children = []
        if run is not None:
            forms = AskForms(run.record, run.runtime, self._lane, self._alive)
            self._asks.children = [forms.form(ask) for ask in run.record.view.asks]
