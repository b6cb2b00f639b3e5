"""A query's result as a paged table."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from loomnb.store import Relation, cell_text
from loomnb_widgets.bridge import Lane
from loomnb_widgets.bundles import view_bundle

__all__ = ["RelationTable"]

_STATIC = Path(__file__).parent / "static"


class RelationTable(anywidget.AnyWidget):
    """Shows one page at a time; the rows stay in the store's process."""

    _esm = _STATIC / "table.js"
    _css = _STATIC / "table.css"
    columns: Any = traitlets.List().tag(sync=True)
    total = traitlets.Int().tag(sync=True)
    first = traitlets.Dict().tag(sync=True)
    page_size = traitlets.Int(50).tag(sync=True)

    def __init__(self, relation: Relation, lane: Lane, workers: Executor) -> None:
        self._relation = relation
        self._workers = workers
        self._context = contextvars.copy_context()
        super().__init__(
            columns=[{"name": n, "type": t} for n, t in zip(relation.columns, relation.types, strict=True)],
            total=len(relation),
            first={"offset": 0, "rows": self._rows(0)},
        )
        lane.route(self, self._received)

    def _rows(self, offset: int) -> list[list[str | None]]:
        return [[None if v is None else cell_text(v) for v in row] for row in self._relation.page(offset, 50)]

    def _received(self, content: Mapping[str, Any]) -> None:
        if content.get("type") == "page":
            self._workers.submit(self._page, content)

    def _page(self, content: Mapping[str, Any]) -> None:
        offset = max(0, int(content.get("offset", 0)))
        message = {"type": "rows", "n": content.get("n"), "offset": offset, "rows": self._rows(offset)}
        self._context.copy().run(self.send, message)

    def bundle(self) -> dict[str, Any]:
        """The view with its static forms: the first rows."""
        return view_bundle(self, self._relation.static_bundle())
