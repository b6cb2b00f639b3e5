"""An artifact as a viewer: its revisions, each in the forms that fit it, and what changed between two of them.

Every form is rendered, and sanitised, here when it is asked for; the one trait holds what a view has to begin with.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any, ClassVar

import anywidget
import traitlets

from loomnb.present import (
    ArtifactView,
    Revision,
    artifact_bundle,
    artifact_forms,
    artifact_html,
    artifact_raw,
    branch_html,
    diff_html,
    escape,
    table_length,
)
from loomnb_widgets.assets import artifact_module, artifact_sheet
from loomnb_widgets.bridge import Lane
from loomnb_widgets.bundles import view_bundle

__all__ = ["ArtifactViewer"]

_PAGE = 50


class ArtifactViewer(anywidget.AnyWidget):
    """Shows one revision in one form at a time."""

    _esm: ClassVar[str] = artifact_module()
    _css: ClassVar[str] = artifact_sheet()
    head = traitlets.Dict().tag(sync=True)

    def __init__(self, view: ArtifactView, lane: Lane, workers: Executor) -> None:
        self._view = view
        self._workers = workers
        self._context = contextvars.copy_context()
        super().__init__(
            head={
                "title": view.title,
                "revisions": [{"n": r.number, "at": r.at} for r in view.revisions],
                "shown": self._shown(view.current, {}),
            }
        )
        lane.route(self, self._received)

    def _received(self, content: Mapping[str, Any]) -> None:
        """On the thread that reads, so quick."""
        if content.get("type") in ("show", "branch", "raw"):
            self._workers.submit(self._reply, content)

    def _reply(self, content: Mapping[str, Any]) -> None:
        revision = self._view.at(content.get("revision", -1)) or self._view.current
        match content["type"]:
            case "branch":
                reply: dict[str, Any] = {"html": branch_html(revision.data, content["path"], int(content["start"]))}
            case "raw":
                reply = {"text": artifact_raw(revision.data)}
            case _:
                reply = self._shown(revision, content)
        self._context.copy().run(self.send, {"type": content["type"], "n": content.get("n"), **reply})

    def _shown(self, revision: Revision, content: Mapping[str, Any]) -> dict[str, Any]:
        data = revision.data
        fitting = artifact_forms(data)
        others = len(self._view.revisions) > 1
        # The raw text stands last.
        forms = [*fitting[:-1], *(["diff"] if others else []), fitting[-1]]
        form = content.get("form") if content.get("form") in forms else forms[0]
        shown: dict[str, Any] = {"revision": revision.number, "form": form, "forms": forms}
        try:
            if form == "diff":
                return {**shown, **self._difference(revision, content.get("against"))}
            start = max(0, int(content.get("start", 0)))
            html = artifact_html(data, next(f for f in fitting if f == form), start, _PAGE if form == "table" else None)
        except Exception as exc:  # noqa: BLE001  # whatever it is, the reader has to see it
            return {**shown, "html": f"<p>This cannot be shown: {escape(f'{type(exc).__name__}: {exc}')}</p>"}
        return {**shown, "html": html, "start": start, "size": _PAGE, "total": table_length(data) if form == "table" else 0}

    def _difference(self, revision: Revision, against: Any) -> dict[str, Any]:
        """What changed since the revision before it, or since the one that was chosen; of the first, until the one after it."""
        chosen = self._view.at(against) if against is not None and against != revision.number else None
        other = chosen or self._view.before(revision.number)
        if other is None:
            other = next(r for r in self._view.revisions if r.number > revision.number)
        old, new = (other, revision) if chosen or other.number < revision.number else (revision, other)
        said = f"<p>From revision {old.number} to revision {new.number}:</p>"
        html = said + diff_html(old.data, new.data)
        return {"html": html, "against": other.number, "isChosen": chosen is not None}

    def bundle(self) -> dict[str, Any]:
        """The view with its static forms."""
        return view_bundle(self, artifact_bundle(self._view))
