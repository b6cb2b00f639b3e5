"""What loomnb asks of a notebook (the entry point `loomnb.face`): show runs, take answers, say when nobody can answer."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import display

from loomnb.present import ArtifactView
from loomnb.runtime import FINISHED, Run, Status, name_frames_by
from loomnb.store import Relation
from loomnb.studio import AgentRun, App, Chat, Loom, Pending
from loomnb_widgets import capture
from loomnb_widgets.artifact import ArtifactViewer
from loomnb_widgets.bridge import Lane, nobody_at_all, under_voila
from loomnb_widgets.chat import ChatPanel
from loomnb_widgets.explorer import RelationTable
from loomnb_widgets.launcher import Launcher
from loomnb_widgets.live import HELLO_WITHIN, LivePanel
from loomnb_widgets.panel import Panel

__all__ = ["NotebookFace", "face"]

_FALLBACK_WITHIN = 4.0  # seconds more for the core widgets to show a sign of life
_SETTLE = 0.4  # seconds a display waits for a quick run to come to rest, so that what is saved tells where it stands
_SETTLE_UNWATCHED = 5.0  # the same where nobody watches: there what is saved is all there is
_PANELS_KEPT = 200


class NotebookFace:
    """The face of this kernel."""

    def __init__(self) -> None:
        self._lane: Lane | None = None
        self._panels: dict[str, Panel] = {}
        self._chats: list[ChatPanel] = []
        self._sessions: weakref.WeakSet[Loom] = weakref.WeakSet()
        self._guard = threading.Lock()

    def lane(self) -> Lane:
        """The express lane, laid on first use."""
        if self._lane is None:
            self._lane = Lane()
        return self._lane

    def attach(self, session: Loom) -> None:
        """A store was opened: sort prints from now on, and show what blocks its runs."""
        if getattr(get_ipython(), "kernel", None) is None:
            return
        self.lane()
        capture.install()
        name_frames_by(_cell_name)
        self._sessions.add(session)
        session.runtime.on_blocked(self._blocked)

    def _blocked(self) -> None:
        for panel in list(self._panels.values()):
            host = panel.record.host
            if host is not None:
                panel.warn(host.blocked)
        for chat in list(self._chats):
            chat.warn()

    # -- showing ----------------------------------------------------------------------------------

    def show(self, run: Run) -> bool:
        """Show the run's panel in the current cell."""
        return self.show_chat(run.chat) if isinstance(run, AgentRun) else self._show_run(run)

    def _show_run(self, run: Run) -> bool:
        if getattr(get_ipython(), "kernel", None) is None:
            return False
        self._settle(run)
        with self._guard:
            panel = self._panels.get(run.id)
            if panel is None:
                panel = Panel(run, run.record, self.lane(), run.runtime)
                self._panels[run.id] = panel
                self._prune()
        panel.show()
        return True

    def show_chat(self, chat: Chat) -> bool:
        """Show a conversation in the current cell."""
        if getattr(get_ipython(), "kernel", None) is None:
            return False
        turn = chat.turn
        if turn is not None:
            self._settle(turn)
        with self._guard:
            panel = next((one for one in self._chats if one.chat is chat), None)
            if panel is None:
                panel = ChatPanel(chat, self.lane())
                self._chats.append(panel)
                for old in self._chats[:-_PANELS_KEPT]:
                    old.close_panel()
                self._chats = self._chats[-_PANELS_KEPT:]
        panel.show()
        return True

    def _settle(self, run: Run) -> None:
        """Wait a moment for a run to come to rest."""
        unwatched = bool(nobody_at_all())
        at_rest = run.is_settled_below if unwatched else run.is_settled
        end = time.monotonic() + (_SETTLE_UNWATCHED if unwatched else _SETTLE)
        while not at_rest() and time.monotonic() < end and not self._on_its_loop(run):
            self.pump()
            time.sleep(0.01)

    @staticmethod
    def _on_its_loop(run: Run) -> bool:
        host = run.record.host
        return host is not None and host.is_current()

    def _prune(self) -> None:
        for run_id, panel in list(self._panels.items())[:-_PANELS_KEPT]:
            if panel.record.view.status in FINISHED:
                panel.close_panel()
                del self._panels[run_id]

    def show_pending(self, pending: Pending) -> bool:
        """Show each run that asks."""
        shown = [self._show_run(run) for run in pending.runs]  # every one, not only up to the first that cannot be shown
        return all(shown)

    def show_relation(self, relation: Relation) -> bool:
        """Show a paged table."""
        if getattr(get_ipython(), "kernel", None) is None:
            return False
        sessions = list(self._sessions)
        if not sessions:
            return False
        table = RelationTable(relation, self.lane(), sessions[0].runtime.workers)
        display(table.bundle(), raw=True)
        return True

    def show_artifact(self, view: ArtifactView) -> bool:
        """Show an artifact with its revisions."""
        if getattr(get_ipython(), "kernel", None) is None:
            return False
        sessions = list(self._sessions)
        if not sessions:
            return False
        display(ArtifactViewer(view, self.lane(), sessions[0].runtime.workers).bundle(), raw=True)
        return True

    def show_app(self, app: App) -> bool:
        """Show an app as its launcher."""
        if getattr(get_ipython(), "kernel", None) is None:
            return False
        display(Launcher(app, self.lane()).bundle(), raw=True)
        return True

    def is_shown(self, run: Run) -> bool:
        """Whether a panel of it was shown."""
        panel = self._panel_of(run)
        return panel is not None and panel.shown_at is not None

    def _panel_of(self, run: Run) -> LivePanel | None:
        return self._panels.get(run.id) or next((one for one in self._chats if one.asks_run(run.id)), None)

    # -- answering --------------------------------------------------------------------------------

    def nobody_can_answer(self, run: Run) -> str:
        """Why no person can answer this run here; empty while one can, or may still turn up."""
        reason = nobody_at_all()
        if reason or run.status is not Status.WAITING:
            return reason
        panel = self._panel_of(run)
        if panel is None or panel.shown_at is None or any(p.reachable() for p in [*self._panels.values(), *self._chats]):
            return ""  # somebody who saw one panel of this kernel will see this one, too
        waited = time.monotonic() - panel.shown_at
        return "no front end of this notebook shows its panel" if waited > HELLO_WITHIN + _FALLBACK_WITHIN else ""

    def answers_beside_notebook(self) -> bool:
        """Whether nobody can answer in this kernel."""
        return bool(nobody_at_all()) and not under_voila()

    def pump(self) -> bool:
        """Read messages, where the waiting thread has to do it itself."""
        return self.lane().pump()

    def names(self) -> Mapping[str, Any]:
        """The notebook's variables."""
        shell = get_ipython()
        names: Mapping[str, Any] = shell.user_ns if shell is not None else {}
        return names


def _cell_name(filename: str) -> str:
    """`Cell In[3]` for a cell's file, as IPython's own tracebacks say."""
    compiler: Any = getattr(get_ipython(), "compile", None)
    with contextlib.suppress(AttributeError, TypeError, ValueError):  # private, and only a nicer name
        kind, number = compiler.format_code_name(filename)
        return f"{kind} {number}"
    return filename


face = NotebookFace()
