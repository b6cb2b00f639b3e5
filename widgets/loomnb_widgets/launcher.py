"""An app as its launcher: a form for each of its workflows, and below it the runs it has started, live.

It speaks the panel's protocol, so the panel's script draws it: the forms are asks whose answer starts a run, and the runs are
cards with their own panel inside, like the sub-workflows of a run.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Any, ClassVar

import anywidget
import traitlets

from loomnb.asks import Ask, AskKind, payload_of
from loomnb.studio import App
from loomnb_widgets.assets import panel_module, panel_sheet
from loomnb_widgets.bridge import Lane
from loomnb_widgets.bundles import view_bundle
from loomnb_widgets.feed import Feed
from loomnb_widgets.views import ask_view, link_view, refusal

__all__ = ["Launcher"]


class Launcher(anywidget.AnyWidget):
    """The launcher of an app."""

    _esm: ClassVar[str] = panel_module()
    _css: ClassVar[str] = panel_sheet()
    head = traitlets.Dict().tag(sync=True)

    def __init__(self, app: App, lane: Lane) -> None:
        self._app = app
        self._feeds: list[Feed] = []
        self._stamp = 0
        self._told: dict[str, tuple[int, str]] = {}
        self._context = contextvars.copy_context()
        super().__init__(head=self._head())
        lane.route(self, self._received)

    def _head(self) -> dict[str, Any]:
        """The app, drawn as a run that waits: each workflow is an open ask."""
        asks = []
        for workflow in self._app.workflows:
            kind: AskKind = "form" if workflow.form is not None else "button"
            label = workflow.title if workflow.form is not None else f"Start {workflow.title}"
            ask = Ask(id=f"start:{workflow.name}", name=workflow.name, kind=kind, label=label, form=workflow.form)
            asks.append({**ask_view(ask, ""), "submit": "Start", "description_html": ""})
        return {
            "title": self._app.title,
            "workflow": self._app.name,
            "run_id": f"app:{self._app.name}",
            "status": "",
            "status_text": f"{len(asks)} workflow{'' if len(asks) == 1 else 's'}",
            "path": [],
            "asks": asks,
            "can_cancel": False,
            "can_retry": False,
        }

    # -- from the view ----------------------------------------------------------------------------

    def _received(self, content: Mapping[str, Any]) -> None:
        """On the thread that reads, so quick."""
        run_id = content.get("run")
        if run_id is not None:
            for feed in self._feeds:
                if run_id == feed.record.id or str(run_id).startswith(f"{feed.record.id}."):
                    feed.receive(content)
            return
        match content.get("type"):
            case "hello":
                have = content.get("have") or {}
                self._say({**self._state(have.get("stamp", 0)), "head": self._head(), "ack": content.get("n")})
            case "answer":
                self._context.copy().run(self._start, content)
            case _:
                pass  # there is nothing to cancel or to retry

    def _start(self, content: Mapping[str, Any]) -> None:
        """Start a run. It takes the commit of its first row, on the reading thread: about a millisecond."""
        reply = {"n": content.get("n"), "ask": content.get("ask")}
        name = str(content.get("ask", "")).removeprefix("start:")
        try:
            workflow = next(w for w in self._app.workflows if w.name == name)
            args = payload_of(workflow.form, content.get("values")) if workflow.form is not None else None
            run = self._app.start(name, args)
        except StopIteration:
            self._say({"type": "refused", **reply, "message": f"The app no longer has {name!r}.", "advice": "", "fields": {}})
        except Exception as exc:  # noqa: BLE001  # whatever it is, the person at the form has to see it
            self._say({"type": "refused", **reply, **refusal(exc)})
        else:
            feed = Feed(run.record, run.runtime, self._say, nested=True)
            feed.open()
            self._feeds.append(feed)
            run.record.watchers.append(lambda _: self._changed())
            self._say({"type": "accepted", **reply})
            self._say({**self._state(0), "head": self._head()})

    # -- to the view ------------------------------------------------------------------------------

    def _changed(self) -> None:
        """A run changed: its card tells how it stands."""
        before = self._stamp
        message = self._state(before)
        if message["docs"]:
            self._say(message)

    def _state(self, stamp: int) -> dict[str, Any]:
        docs = []
        for index, feed in enumerate(self._feeds):
            status = feed.record.view.status.value
            known = self._told.get(feed.record.id)
            if known is None or known[1] != status:
                self._stamp += 1
                known = self._told[feed.record.id] = (self._stamp, status)
            if known[0] > stamp:
                docs.append(link_view(feed.record, index=index, stamp=known[0]))
        return {"type": "state", "head_rev": 1 + len(self._feeds), "stamp": self._stamp, "docs": docs, "warn": ""}

    def _say(self, message: Mapping[str, Any]) -> None:
        self._context.copy().run(self.send, dict(message))

    def bundle(self) -> dict[str, Any]:
        """The view with the app's static forms."""
        return view_bundle(self, self._app.static_bundle())
