"""A JSON value as safe HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from loomnb.names import humanised
from loomnb.present.markdown import escape

__all__ = ["rows_html", "value_html"]

_DRAWN = 20
"""Objects of a list that are drawn one by one; more read better as JSON."""


def value_html(value: Any) -> str:
    """A JSON value as safe HTML."""
    if isinstance(value, Mapping) and value:
        return rows_html([(humanised(k), value_html(v)) for k, v in value.items()])
    if isinstance(value, list) and value and all(not isinstance(v, (Mapping, list)) for v in value):
        return "<ul>" + "".join(f"<li>{value_html(v)}</li>" for v in value) + "</ul>"
    if isinstance(value, list) and 0 < len(value) <= _DRAWN and all(isinstance(v, Mapping) and v for v in value):
        return "<ol>" + "".join(f"<li>{value_html(v)}</li>" for v in value) + "</ol>"
    if isinstance(value, (Mapping, list)):
        return f"<pre>{escape(json.dumps(value, ensure_ascii=False, indent=2))}</pre>"
    text = {True: "yes", False: "no"}.get(value) if isinstance(value, bool) else "–" if value is None else str(value)
    return f"<span>{escape(text or '')}</span>"


def rows_html(rows: Sequence[tuple[str, str]]) -> str:
    """Names and what stands for each, already HTML, side by side."""
    cells = "".join(f'<dt style="{_CELL}">{escape(name)}</dt><dd style="{_CELL}">{html}</dd>' for name, html in rows)
    return f'<dl style="{_GRID}">{cells}</dl>'


# JupyterLab floats definition lists, with a fifth of the width for the terms: long ones would run into each other.
_GRID = "display:grid;grid-template-columns:fit-content(40%) minmax(0,1fr);gap:2px 16px;margin:0"
_CELL = "float:none;clear:none;width:auto;margin:0;padding:0"
