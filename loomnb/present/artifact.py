"""An artifact and its revisions, to be looked at: as Markdown, as a table, as a tree, and what changed between two revisions.

How a value is shown by itself:

- a text is Markdown; so is an object with a text under `markdown`, `body` or `content` (the first of them that is there) whose
  other values are no lists or objects: they stand above the text;
- a list of objects without lists or objects in them, of at most 40 keys together, is a table; so is an object of nothing but
  `columns` (names) and `rows` (as long as them, or objects);
- everything else is a tree.

Static forms are deterministic: they carry no ids and no times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

from loomnb.names import humanised
from loomnb.present.difference import Change, changes_between, diff_html, diff_plain
from loomnb.present.markdown import escape, html_block, markdown_html, markdown_safe, plain_line
from loomnb.present.rows import table_html, table_markdown
from loomnb.present.tree import tree_html, tree_plain
from loomnb.present.values import rows_html, value_html

__all__ = [
    "ArtifactDiff",
    "ArtifactForm",
    "ArtifactView",
    "Revision",
    "artifact_bundle",
    "artifact_form",
    "artifact_forms",
    "artifact_html",
    "artifact_markdown",
    "artifact_plain",
    "artifact_raw",
    "table_length",
]

ArtifactForm = Literal["markdown", "table", "tree", "raw"]

_TEXTS = ("markdown", "body", "content")
_COLUMNS = 40
_ROWS = 50  # of a table that are shown in a static form, and on a page of a live one
_CELL = 300  # characters of a cell
_LINES = 200  # of a text form
_RAW = 200_000  # characters of a raw form; what is copied is whole


@dataclass(frozen=True, slots=True)
class Revision:
    """One state of an artifact.

    Attributes:
        at: when it was written, as the store says it; only live faces show it.
    """

    number: int
    data: Any
    at: str = ""


class Stored(Protocol):
    """What an `ArtifactView` is made of: an artifact as the store gives it."""

    @property
    def id(self) -> str: ...
    @property
    def flow_name(self) -> str: ...
    @property
    def stage_name(self) -> str: ...
    @property
    def revision(self) -> int: ...
    @property
    def data(self) -> Any: ...
    @property
    def updated_at(self) -> str: ...

    def history(self) -> Sequence[Stored]:
        """Each revision, oldest first."""
        ...


class ArtifactView:
    """An artifact of a flow's stage, to be looked at: as a cell's last line it is shown with its revisions."""

    def __init__(
        self,
        *,
        flow: str,
        stage: str,
        current: Revision,
        earlier: Callable[[], Sequence[Revision]] = tuple,
        id: str = "",  # noqa: A002  # the contract's word
    ) -> None:
        self.show_live: Callable[[ArtifactView], bool] = lambda _: False
        """Shows it as a viewer, where there is a notebook."""
        self.flow, self.stage, self.id = flow, stage, id
        self.current = current
        self._earlier = earlier

    @classmethod
    def of(cls, stored: Stored) -> ArtifactView:
        """The view of a stored artifact. Its earlier revisions are read when they are first needed."""

        def earlier() -> list[Revision]:
            return [_revision(one) for one in stored.history()]

        return cls(flow=stored.flow_name, stage=stored.stage_name, current=_revision(stored), earlier=earlier, id=stored.id)

    @property
    def data(self) -> Any:
        """Its value now."""
        return self.current.data

    @property
    def revision(self) -> int:
        """The number of the current revision."""
        return self.current.number

    @property
    def title(self) -> str:
        """Its flow and stage."""
        return f"{self.flow} / {self.stage}"

    @cached_property
    def revisions(self) -> tuple[Revision, ...]:
        """Every revision up to the current one, oldest first."""
        return (*(r for r in self._earlier() if r.number < self.current.number), self.current)

    def at(self, number: int) -> Revision | None:
        """The revision of a number; None where there is none."""
        return next((r for r in self.revisions if r.number == number), None)

    def before(self, number: int) -> Revision | None:
        """The revision before one."""
        return next((r for r in reversed(self.revisions) if r.number < number), None)

    def diff(self, old: int | None = None, new: int | None = None) -> ArtifactDiff:
        """What changed between two revisions; by default since the one before the new one, which is by default the current.

        Raises:
            LookupError: there is no such revision.
        """
        after = self.current if new is None else self.at(new)
        if after is None:
            raise LookupError(f"{self.title} has no revision {new}")
        before = self.before(after.number) if old is None else self.at(old)
        if before is None:
            raise LookupError(f"{self.title} has no revision {old}" if old is not None else f"{self.title} has no other revision")
        return ArtifactDiff(self.title, before, after)

    def __repr__(self) -> str:
        return artifact_bundle(self)["text/plain"]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return artifact_bundle(self)

    def _ipython_display_(self) -> None:
        if not self.show_live(self):
            raise NotImplementedError  # IPython then takes the static forms


def _revision(stored: Stored) -> Revision:
    return Revision(stored.revision, stored.data, stored.updated_at)


@dataclass(frozen=True, slots=True, repr=False)
class ArtifactDiff:
    """What changed between two revisions."""

    title: str
    old: Revision
    new: Revision

    @property
    def changes(self) -> list[Change]:
        """Each change."""
        return list(changes_between(self.old.data, self.new.data))

    @property
    def html(self) -> str:
        """The changes as safe HTML."""
        return diff_html(self.old.data, self.new.data)

    @property
    def _static(self) -> str:
        return _static_diff(self.old.data, self.new.data)

    @property
    def _line(self) -> str:
        return f"revision {self.old.number} → {self.new.number}"

    def __repr__(self) -> str:
        return f"{plain_line(self.title)}, {self._line}\n{diff_plain(self.old.data, self.new.data)}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {
            "text/plain": repr(self),
            "text/html": f'<div class="loom-artifact-static">{_head_html(self.title, self._line)}{self._static}</div>',
            "text/markdown": f"{_head_markdown(self.title, self._line)}\n\n{html_block(self._static)}",
        }


# -- which form -----------------------------------------------------------------------------------


def artifact_form(data: Any) -> ArtifactForm:
    """How a value is shown by itself: `markdown`, `table` or `tree`."""
    return "markdown" if _text_of(data) is not None else "table" if _table_of(data) is not None else "tree"


def artifact_forms(data: Any) -> list[ArtifactForm]:
    """Every form that fits a value, the one it is shown in first."""
    first = artifact_form(data)
    more: list[ArtifactForm] = ["tree", "raw"] if first != "tree" and _is_nested(data) else ["raw"]
    return [first, *more]


def _text_of(data: Any) -> tuple[str, Mapping[str, Any]] | None:
    """The text of a value that is one, and what stands beside it."""
    if isinstance(data, str):
        return data, {}
    if not isinstance(data, Mapping):
        return None
    key = next((k for k in _TEXTS if k in data), None)
    if key is None or not isinstance(data[key], str) or not data[key].strip():
        return None
    rest = {k: v for k, v in data.items() if k != key}
    return None if any(map(_is_nested, rest.values())) else (data[key], rest)


def _table_of(data: Any) -> tuple[list[str], list[list[Any]]] | None:
    """Columns and rows of a value that is a table."""
    if isinstance(data, Mapping):
        if set(data) != {"columns", "rows"}:
            return None
        columns, rows = data["columns"], data["rows"]
        if not isinstance(columns, list) or not isinstance(rows, list) or not all(isinstance(c, str) for c in columns):
            return None
        if not columns or len(columns) > _COLUMNS or len(set(columns)) < len(columns):
            return None
    else:
        columns, rows = [], data
        if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) and row for row in rows):
            return None
        columns = list(dict.fromkeys(key for row in rows for key in row))
        if len(columns) > _COLUMNS or any(_is_nested(v) for row in rows for v in row.values()):
            return None
    out: list[list[Any]] = []
    for row in rows:
        if isinstance(row, Mapping) and set(row) <= set(columns):
            out.append([row.get(c, _NOTHING) for c in columns])
        elif isinstance(row, list) and len(row) == len(columns):
            out.append(row)
        else:
            return None
    return columns, out


class _Nothing:
    """What stands in a cell its row has no value for."""


_NOTHING = _Nothing()


def _is_nested(value: Any) -> bool:
    return isinstance(value, (Mapping, list))


# -- the forms ------------------------------------------------------------------------------------


def artifact_html(data: Any, form: ArtifactForm | None = None, start: int = 0, most: int | None = None) -> str:
    """A value as safe HTML.

    Args:
        data: the value.
        form: default: the one it is shown in by itself. One that does not fit gives the tree.
        start: the first row of a table.
        most: values of a tree, or rows of a table.
    """
    form = form or artifact_form(data)
    if form == "raw":
        raw = artifact_raw(data)
        more = f"\n… {len(raw) - _RAW:,} more characters" if len(raw) > _RAW else ""
        return f'<pre style="white-space:pre-wrap">{escape(raw[:_RAW] + more)}</pre>'
    if form == "markdown" and (told := _text_of(data)) is not None:
        text, rest = told
        beside = rows_html([(humanised(k), value_html(v)) for k, v in rest.items()]) + "<hr>" if rest else ""
        return beside + (markdown_html(text) or "<p>(empty)</p>")
    if form == "table" and (table := _table_of(data)) is not None:
        columns, cells = table
        shown = cells[start : start + (most or _ROWS)]
        return table_html(columns, _types(columns, cells), [[_cell(v) for v in row] for row in shown], len(cells) - start)
    return tree_html(data) if most is None else tree_html(data, most)


def artifact_markdown(data: Any) -> str | None:
    """A value as Markdown to read: a text and what stands beside it, or a table; None for what would be a tree."""
    if (told := _text_of(data)) is not None:
        text, rest = told
        beside = "  \n".join(f"{markdown_safe(humanised(k))}: {markdown_safe(_cell(v))}" for k, v in rest.items())
        return f"{beside}\n\n{text}" if beside else text
    table = _table_of(data)
    return None if table is None else _table_markdown(*table)


def artifact_plain(data: Any) -> str:
    """A value as text: its Markdown as it is written, the first rows of a table, indented JSON."""
    form = artifact_form(data)
    if form == "markdown" and (told := _text_of(data)) is not None:
        text, rest = told
        beside = [f"{plain_line(humanised(k))}: {plain_line(_cell(v))}" for k, v in rest.items()]
        lines = [*beside, *([""] if beside else []), *(plain_line(line) for line in text.splitlines())]
        more = len(lines) - _LINES
        return "\n".join(lines if more <= 0 else [*lines[:_LINES], f"… {more:,} more lines"])
    if form == "table" and (table := _table_of(data)) is not None:
        return _table_plain(*table)
    return tree_plain(data)


def artifact_raw(data: Any) -> str:
    """A value whole: a text as it is, all else as indented JSON."""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, indent=2)


def table_length(data: Any) -> int:
    """How many rows it has as a table; 0 for what is none."""
    table = _table_of(data)
    return 0 if table is None else len(table[1])


def _types(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    def has_numbers(column: list[Any]) -> bool:
        values = [v for v in column if v is not None and v is not _NOTHING]
        return bool(values) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)

    return ["DOUBLE" if has_numbers([row[i] for row in rows]) else "VARCHAR" for i in range(len(columns))]


def _cell(value: Any) -> str:
    if value is _NOTHING:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _table_markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    shown = [[_cell(v) for v in row] for row in rows[:_ROWS]]
    return table_markdown(columns, _types(columns, rows), shown, len(rows))


def _table_plain(columns: Sequence[str], rows: Sequence[Sequence[Any]], most: int = 20) -> str:
    cells = [list(map(plain_line, columns)), *([plain_line(_cell(v)) for v in row] for row in rows[:most])]
    widths = [min(40, max(len(row[i]) for row in cells)) for i in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        return "  ".join((c if len(c) <= w else c[: w - 1] + "…").ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()

    more = [f"… {len(rows) - most:,} more rows"] if len(rows) > most else []
    return "\n".join([line(cells[0]), line(["─" * w for w in widths]), *map(line, cells[1:]), *more])


# -- the static forms -----------------------------------------------------------------------------


def _head_html(title: str, line: str) -> str:
    return f"<p><strong>{escape(plain_line(title))}</strong> — {escape(line)}</p>"


def _head_markdown(title: str, line: str) -> str:
    return f"**{markdown_safe(plain_line(title))}** — {line}"


def _static_diff(old: Any, new: Any, most: int | None = None) -> str:
    """Changes without the class of a live viewer, whose style sheet, once it is on the page, would hit this table too: as wide as
    the page, with JupyterLab's columns of equal width."""
    html = diff_html(old, new) if most is None else diff_html(old, new, most)
    return html.replace('<div class="loom-diff">', "<div>", 1)


def artifact_bundle(view: ArtifactView) -> dict[str, str]:
    """The static forms of an artifact: what it is now, and folded what changed since the revision before."""
    data, line = view.data, f"revision {view.revision}"
    html, before = artifact_html(data), view.before(view.revision)
    if before is not None:
        changed = _static_diff(before.data, data, most=20)
        html += f"<details><summary>Changes since revision {before.number}</summary>{changed}</details>"
    table = _table_of(data) if artifact_form(data) == "table" else None
    # All but a table through the sanitised HTML: a just executed text/markdown output may run scripts like any other.
    markdown = _table_markdown(*table) if table is not None else html_block(artifact_html(data))
    return {
        "text/plain": f"{plain_line(view.title)}, {line}\n{artifact_plain(data)}",
        "text/html": f'<div class="loom-artifact-static">{_head_html(view.title, line)}{html}</div>',
        "text/markdown": f"{_head_markdown(view.title, line)}\n\n{markdown}",
    }
