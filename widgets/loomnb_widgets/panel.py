"""The live panel of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from loomnb.present import story_bundle
from loomnb.runtime import Run, RunRecord, Status
from loomnb_widgets.assets import panel_module, panel_sheet
from loomnb_widgets.bridge import Lane, kernel_version
from loomnb_widgets.feed import Feed
from loomnb_widgets.live import HELLO_WITHIN, LivePanel

__all__ = ["HELLO_WITHIN", "Panel"]


class Panel(LivePanel):
    """A run's panel. Every display of the run is a view of it."""

    _esm: ClassVar[str] = panel_module()
    _css: ClassVar[str] = panel_sheet()

    def __init__(self, run: Run, record: RunRecord, lane: Lane, runtime: Any) -> None:
        self.record = record
        self._run = run
        self._runtime = runtime
        self._feed = Feed(record, runtime, self.say, self._pushed)
        super().__init__(lane, self._feed.head)
        self._feed.open()

    def heard(self, content: Mapping[str, Any]) -> None:
        """For the run's feed."""
        self._feed.receive(content)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """On the run's loop."""
        host = self.record.host
        if host is not None:
            host.post((lambda: host.loop.call_later(seconds, call)) if seconds else call)

    def warn(self, text: str) -> None:
        """Show a line above everything; empty takes it away."""
        self._feed.warn(text)

    def _pushed(self, head_changed: bool) -> None:
        self.pushed(self._feed.head if head_changed else None)

    def refresh_view(self) -> None:
        """The run may have moved while its panel was made."""
        self._feed.changed("view")

    def static_forms(self) -> Mapping[str, str]:
        """The run's story."""
        story = story_bundle(self._run.story())
        if self.record.view.asks and (0, 0) < kernel_version() < (7, 4):
            story["text/plain"] += (
                "\n  if the page was reloaded while a cell waits: interrupt the kernel, then loom.pending() brings the form back"
            )
        return story

    def standing(self) -> tuple[Any, ...]:
        """Where the run stands."""
        view = self.record.view
        return view.status, view.moves, tuple(a.id for a in view.asks), self.record.stamp

    def is_at_rest(self) -> bool:
        """Whether the run waits for somebody, or is over."""
        return not self.record.is_moving and self.record.view.status not in (Status.PENDING, Status.RUNNING)

    def is_closed(self) -> bool:
        """Whether the store of the run is closed."""
        return bool(self._runtime.closed)

    def core_form(self) -> Any:
        """The run in core widgets."""
        from loomnb_widgets.forms import CoreForm  # noqa: PLC0415  # only front ends without anywidget need it

        return CoreForm(self.record, self._runtime, self._lane, self._run)

    def close_panel(self) -> None:
        """Let go of the run."""
        self._feed.close()
        super().close_panel()
