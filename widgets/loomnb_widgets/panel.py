"""The live panel of a run: one anywidget, whose view asks for what it lacks and sends what a person does.

Nothing is taken from synced traits: ipykernel 7.4 drops trait updates while a cell awaits. The one trait, `head`, is only for
a view that is drawn before the first message, and holds no documents, so that it never grows.
"""

from __future__ import annotations

import contextvars
import time
import uuid
from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets
from IPython.display import DisplayHandle, display

from loomnb.present import story_bundle
from loomnb.runtime import Run, RunRecord, Status
from loomnb_widgets.assets import panel_module, panel_sheet
from loomnb_widgets.bridge import Lane, kernel_version
from loomnb_widgets.feed import Feed

__all__ = ["HELLO_WITHIN", "Panel"]

HELLO_WITHIN = 3.0
"""Seconds within which a front end that knows anywidget says hello."""
_DEAF_AFTER = 2.0  # seconds between a view's hellos, as they are read: more than the same reading of a busy kernel's queue
_RENEWALS = 3


class Panel(anywidget.AnyWidget):
    """A run's panel. Every display of the run is a view of it."""

    _esm = panel_module()
    _css = panel_sheet()
    head = traitlets.Dict().tag(sync=True)

    def __init__(self, run: Run, record: RunRecord, lane: Lane, runtime: Any) -> None:
        self.record = record
        self._run = run
        self._lane = lane
        self._runtime = runtime
        self._handles: list[tuple[DisplayHandle, contextvars.Context]] = []
        self._told: tuple[Any, ...] = ()
        self._greeted: dict[int, float] = {}  # view -> when it first said hello as if it had heard nothing
        self._renewals = 0
        self.seen = False
        """Whether a front end has made it: it has said `here`, or a view of it hello."""
        self.shown_at: float | None = None
        self.fallback: Any = None
        """The core-widget form shown instead, where no view said hello."""
        self._context = contextvars.copy_context()
        self._feed = Feed(record, runtime, self.say, self._pushed)
        super().__init__(head=self._feed.head)
        lane.route(self, self._received)
        self._feed.open()

    def _received(self, content: Mapping[str, Any]) -> None:
        """On the thread that reads, so quick."""
        self.seen = True
        if (self.fallback is not None or self._is_deaf(content)) and self.record.host is not None:
            self.record.host.post(self._renew)
        self._feed.receive(content)

    def _is_deaf(self, content: Mapping[str, Any]) -> bool:
        """Whether a view says hello again as if it had never heard us."""
        have = content.get("have")
        if content.get("type") != "hello" or not have or have.get("head"):
            return False
        view, now = int(content.get("n", 0)) // 1000, time.monotonic()
        return now - self._greeted.setdefault(view, now) > _DEAF_AFTER

    def say(self, content: Mapping[str, Any]) -> None:
        """Send a message, from any thread."""
        # A copied context: ipykernel 7.0 needs the parent's ContextVar to send from a foreign thread.
        self._context.copy().run(self.send, dict(content))

    def warn(self, text: str) -> None:
        """Show a line above everything; empty takes it away."""
        self._feed.warn(text)

    def _pushed(self, head_changed: bool) -> None:
        if head_changed:
            self._context.copy().run(self.set_trait, "head", self._feed.head)
        if self.fallback is not None:
            self._context.copy().run(self.fallback.draw)
        self._refresh_static()

    # -- displays ---------------------------------------------------------------------------------

    def show(self) -> None:
        """Show it in the current cell."""
        self._context = contextvars.copy_context()
        self.shown_at = time.monotonic()
        handle = DisplayHandle(uuid.uuid4().hex)
        self._told = self._standing()
        display(self._bundle(), raw=True, display_id=handle.display_id)
        self._handles = [*self._handles[-9:], (handle, self._context)]
        if not self.seen:
            host = self.record.host
            if host is not None:
                host.post(lambda: host.loop.call_later(HELLO_WITHIN, self._fall_back))
        self._feed.changed("view")  # it may have moved while its panel was made

    def _bundle(self) -> dict[str, Any]:
        made = super()._repr_mimebundle_()
        data = made[0] if isinstance(made, tuple) else made
        story = story_bundle(self._run.story())
        if self.record.view.asks and (0, 0) < kernel_version() < (7, 4):
            story["text/plain"] += (
                "\n  if the page was reloaded while a cell waits: interrupt the kernel, then loom.pending() brings the form back"
            )
        return {**(data or {}), **story}

    def _standing(self) -> tuple[Any, ...]:
        view = self.record.view
        return view.status, view.moves, tuple(a.id for a in view.asks), self.record.stamp

    def _refresh_static(self) -> None:
        """When the run comes to rest, the static forms in the notebook tell what happened."""
        standing = self._standing()
        if standing == self._told or self.record.is_moving or standing[0] in (Status.PENDING, Status.RUNNING):
            return
        self._told = standing
        if self.fallback is not None:
            return
        for handle, context in self._handles:
            context.copy().run(handle.update, self._bundle(), raw=True)

    def _fall_back(self) -> None:
        """No view said hello: this front end does not know anywidget. Show the same in core widgets."""
        if self.seen or self.fallback is not None or not self._handles:
            return
        from loomnb_widgets.forms import CoreForm  # noqa: PLC0415  # only front ends without anywidget need it

        handle, context = self._handles[-1]

        def make() -> None:
            self.fallback = CoreForm(self.record, self._runtime, self._lane, self._run)
            handle.update(self.fallback.box)

        context.copy().run(make)

    def _renew(self) -> None:
        """The front end knows anywidget after all, it was only slow (a cold server, a busy page): the panel itself again.

        As a new model: anywidget (0.11) gives a module two seconds, and the model of one that took longer speaks, but hears
        nothing for ever.
        """
        if self._renewals == _RENEWALS or (self.fallback is None and not self._greeted):
            return
        self._renewals += 1
        self._greeted.clear()
        self.fallback = None

        def make() -> None:
            # The old comm is left open, unheard: closing it would dispose its view, and with that JupyterLab hides the output.
            self._lane.route(self, lambda _: None)
            self.comm = self._model_id = None
            self.open()
            self._lane.route(self, self._received)

        self._context.copy().run(make)
        for handle, context in self._handles:
            context.copy().run(handle.update, self._bundle(), raw=True)

    def reachable(self) -> bool:
        """Whether a view of it, or of its fallback, has said something."""
        return self.seen or (self.fallback is not None and self.fallback.seen)

    def close_panel(self) -> None:
        """Let go of the run."""
        self._feed.close()
        self._lane.forget(self)
