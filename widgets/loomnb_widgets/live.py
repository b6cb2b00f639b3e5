"""What every live panel is: one anywidget whose views ask for what they lack and send what a person does.

Nothing is taken from synced traits: ipykernel 7.4 drops trait updates while a cell awaits. The one trait, `head`, is only for
a view that is drawn before the first message, and holds no documents, so that it never grows.
"""

from __future__ import annotations

import contextvars
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets
from IPython.display import DisplayHandle, display

from loomnb_widgets.bridge import Lane, nobody_at_all
from loomnb_widgets.bundles import view_bundle

__all__ = ["HELLO_WITHIN", "LivePanel"]

HELLO_WITHIN = 3.0
"""Seconds within which a front end that knows anywidget says hello."""
_DEAF_AFTER = 2.0  # seconds between a view's hellos, as they are read: more than the same reading of a busy kernel's queue
_RENEWALS = 3


class LivePanel(anywidget.AnyWidget):
    """A panel. Every display of it is a view of it. A subclass has the script, and says what it shows."""

    head = traitlets.Dict().tag(sync=True)

    def __init__(self, lane: Lane, head: Mapping[str, Any]) -> None:
        self._lane = lane
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
        super().__init__(head=dict(head))
        lane.route(self, self._received)

    # -- what a subclass says ---------------------------------------------------------------------

    def heard(self, content: Mapping[str, Any]) -> None:
        """A message of a view. On the thread that reads, so quick."""
        raise NotImplementedError

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something after a while, on a thread that may send."""
        raise NotImplementedError

    def static_forms(self) -> Mapping[str, str]:
        """What a page without a kernel shows."""
        raise NotImplementedError

    def standing(self) -> tuple[Any, ...]:
        """What the static forms depend on."""
        raise NotImplementedError

    def is_at_rest(self) -> bool:
        """Whether the static forms are worth saying anew."""
        raise NotImplementedError

    def is_closed(self) -> bool:
        """Whether the store is closed, so that nothing of it can be read any more."""
        raise NotImplementedError

    def core_form(self) -> Any:
        """The same in core widgets: an object with `box`, `seen` and `draw()`."""
        raise NotImplementedError

    def refresh_view(self) -> None:
        """Tell the views what changed while the panel was made."""

    # -- messages ---------------------------------------------------------------------------------

    def _received(self, content: Mapping[str, Any]) -> None:
        self.seen = True
        if self.fallback is not None or self._is_deaf(content):
            self.later(0, self._renew)
        self.heard(content)

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

    def pushed(self, head: Mapping[str, Any] | None) -> None:
        """Something was told to the views; with the head, if that changed."""
        if head is not None:
            self._context.copy().run(self.set_trait, "head", dict(head))
        if self.fallback is not None and not self.is_closed():
            self._context.copy().run(self.fallback.draw)
        self.refresh_static()

    # -- displays ---------------------------------------------------------------------------------

    def show(self) -> None:
        """Show it in the current cell."""
        self._context = contextvars.copy_context()
        self.shown_at = time.monotonic()
        handle = DisplayHandle(uuid.uuid4().hex)
        self._told = self.standing()
        display(self._bundle(), raw=True, display_id=handle.display_id)
        self._handles = [*self._handles[-9:], (handle, self._context)]
        if not self.seen:
            self.later(HELLO_WITHIN, self._fall_back)
        self.refresh_view()

    def _bundle(self) -> dict[str, Any]:
        return view_bundle(self, self.static_forms())

    def refresh_static(self) -> None:
        """When it comes to rest, the static forms in the notebook tell what happened."""
        if self.is_closed():
            return
        standing = self.standing()
        if standing == self._told or not self.is_at_rest():
            return
        self._told = standing
        if self.fallback is not None:
            return
        for handle, context in self._handles:
            context.copy().run(handle.update, self._bundle(), raw=True)

    def _fall_back(self) -> None:
        """No view said hello: this front end does not know anywidget. Show the same in core widgets."""
        if self.seen or self.fallback is not None or not self._handles or nobody_at_all():
            return
        handle, context = self._handles[-1]

        def make() -> None:
            self.fallback = self.core_form()
            handle.update(view_bundle(self.fallback.box, self.static_forms()), raw=True)

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
        """Let go of what it shows."""
        self._lane.forget(self)
