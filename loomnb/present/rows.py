"""Rows as static HTML and text, for a table nobody can page any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomnb.present.markdown import escape, markdown_safe

__all__ = ["table_html", "table_markdown"]

_NUMERIC = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "HUGEINT")


def table_html(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], total: int) -> str:
    """An HTML table of the given rows, saying how many there are in all."""
    right = _right(types)
    head = "".join(f"<th scope='col'>{escape(c)}</th>" for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td{' align=right' if r else ''}>{escape(v)}</td>" for v, r in zip(row, right, strict=True)) + "</tr>"
        for row in rows
    )
    rest = total - len(rows)
    tail = f"<p>{rest:,} more rows</p>" if rest > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{tail}"


def table_markdown(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], total: int) -> str:
    """The same as a Markdown table; no cell of it can become markup."""
    lines = [columns, [("---:" if r else "---") for r in _right(types)]]
    out = ["| " + " | ".join(markdown_safe(c) if i == 0 else c for c in line) + " |" for i, line in enumerate(lines)]
    out += ["| " + " | ".join(markdown_safe(v) for v in row) + " |" for row in rows]
    rest = total - len(rows)
    return "\n".join(out) + (f"\n\n{rest:,} more rows" if rest > 0 else "")


def _right(types: Sequence[str]) -> list[bool]:
    return [any(n in t.upper() for n in _NUMERIC) and "[]" not in t for t in types]
