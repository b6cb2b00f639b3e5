"""The built-in components as text, for where nothing can be drawn: a line or a fenced block, in the Markdown of chats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from loomnb.present.markdown import plain_line

__all__ = ["TEXTS", "cell_text", "column_side", "component_number", "json_text", "line_diff", "titled"]

_ROWS = 15
"""Rows of a table that are told."""
_COLUMN = 28  # characters of a column
_POINTS = 20  # points of a chart
_LABEL = 18  # characters of a point's label
_BAR = 20  # blocks of the longest bar
_CELLS = 250_000  # lines of one text times those of the other, up to which what they share is looked for

Props = Mapping[str, Any]


def titled(title: Any, *lines: str) -> str:
    """Lines below a title, which may be missing."""
    return "\n".join([*([f"*{plain_line(title)}*"] if isinstance(title, str) and title else []), *lines])


def fenced(text: str) -> str:
    """A block that keeps its columns, and that no text in it can end."""
    return f"```\n{text.replace('```', chr(39) * 3)}\n```"


def json_text(title: Any, props: Props) -> str:
    """Props as JSON below a title: of what has no text of its own. Nothing is cut."""
    return titled(title, fenced(json.dumps(props, ensure_ascii=False, indent=2)))


def cell_text(value: Any) -> str:
    """A cell as text on one line; null is empty."""
    if value is None:
        return ""
    return plain_line(value) if isinstance(value, str) else json.dumps(value)


def component_number(value: Any, kind: str) -> str:
    """A cell as its column's format says: thousands are parted, money has two places, and a percentage its sign."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return cell_text(value)
    if kind == "currency":
        return f"{value:,.2f}"
    if kind == "number":
        return f"{value:,}"
    return f"{cell_text(value)} %" if kind == "percent" else cell_text(value)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _table(props: Props) -> str:
    columns = props["columns"]
    shown = [
        [_cut(component_number(row.get(c["key"]), c.get("format", "text")), _COLUMN) for c in columns]
        for row in props["rows"][:_ROWS]
    ]
    head = [_cut(plain_line(c["label"]), _COLUMN) for c in columns]
    wide = [max(len(row[i]) for row in [head, *shown]) for i in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        sides = (_padded(cell, width, column_side(c)) for cell, width, c in zip(cells, wide, columns, strict=True))
        return "  ".join(sides).rstrip()

    lines = [line(head), "  ".join("-" * width for width in wide), *map(line, shown)]
    rest = len(props["rows"]) - _ROWS
    more = [f"… {rest} more row{'' if rest == 1 else 's'}"] if rest > 0 else []
    return titled(props.get("title"), fenced("\n".join(lines)), *more)


def column_side(column: Props) -> str:
    """Where the cells of a column stand: as it says, else numbers to the right."""
    is_number = column.get("format") in ("number", "currency", "percent")
    return str(column.get("align") or ("right" if is_number else "left"))


def _padded(text: str, width: int, align: str) -> str:
    return text.rjust(width) if align == "right" else text.center(width) if align == "center" else text.ljust(width)


def _chart(props: Props) -> str:
    """The first series; what is no number has no bar."""
    key, unit = props["series"][0]["key"], props.get("unit", "")
    points = props["data"][:_POINTS]
    values = [row.get(key) for row in points]
    most = max((abs(v) for v in values if _is_number(v)), default=0)
    lines = []
    for row, value in zip(points, values, strict=True):
        label = _cut(cell_text(row.get(props["xKey"])), _LABEL).ljust(_LABEL)
        told = f"{cell_text(value)}{' ' + plain_line(unit) if unit else ''}"
        lines.append(f"{label} {_bar(value, most)} {told}" if _is_number(value) else f"{label} {cell_text(value)}".rstrip())
    return titled(props.get("title"), fenced("\n".join(lines)))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _bar(value: float, most: float) -> str:
    blocks = round(abs(value) / most * _BAR) if most else 0
    return "█" * blocks or "▏"


def _kpis(props: Props) -> str:
    lines = []
    for item in props["items"]:
        sign = {"up": "▲", "down": "▼", "flat": "▬"}.get(item.get("trend", ""), "")
        change = " ".join(part for part in (sign, cell_text(item.get("delta"))) if part)
        hint = f" — {plain_line(item['hint'])}" if item.get("hint") else ""
        lines.append(f"• {plain_line(item['label'])}: {cell_text(item['value'])}{f' ({change})' if change else ''}{hint}")
    return titled(props.get("title"), *lines)


def _sources(props: Props) -> str:
    lines = []
    for item in props["items"]:
        source = f" ({plain_line(item['source'])})" if item.get("source") else ""
        url = f" {plain_line(item['url'])}" if item.get("url") else ""
        lines.append(f"• {plain_line(item['title'])}{source}{url}")
        lines += [f"  {plain_line(item['snippet'])}"] if item.get("snippet") else []
    return titled(props.get("title"), *lines)


def _checklist(props: Props) -> str:
    lines = [
        f"[{'x' if item.get('done') else ' '}] {plain_line(item['label'])}"
        + (f" — {plain_line(item['note'])}" if item.get("note") else "")
        for item in props["items"]
    ]
    return titled(props.get("title"), *lines)


def _timeline(props: Props) -> str:
    lines = [
        "• "
        + (f"{plain_line(event['date'])} — " if event.get("date") else "")
        + plain_line(event["title"])
        + (f": {plain_line(event['description'])}" if event.get("description") else "")
        for event in props["events"]
    ]
    return titled(props.get("title"), *lines)


def _code(props: Props) -> str:
    return titled(props.get("title"), fenced(props["code"]))


def _diff(props: Props) -> str:
    lines = [f"{sign} {line}" for sign, line in line_diff(props["before"], props["after"])]
    return titled(props.get("title"), fenced("\n".join(lines)))


def line_diff(before: str, after: str) -> Iterator[tuple[str, str]]:
    """The lines of two texts with `-`, `+` or a space, sharing as many as can be. Of large ones all go, and all come."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) * len(new) > _CELLS:
        yield from (("-", line) for line in old)
        yield from (("+", line) for line in new)
        return
    # common[i][j]: how many lines old[i:] and new[j:] share at the most, in order.
    common = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            same = old[i] == new[j]
            common[i][j] = common[i + 1][j + 1] + 1 if same else max(common[i + 1][j], common[i][j + 1])
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and old[i] == new[j]:
            yield " ", old[i]
            i, j = i + 1, j + 1
        elif i < len(old) and (j == len(new) or common[i + 1][j] >= common[i][j + 1]):
            yield "-", old[i]
            i += 1
        else:
            yield "+", new[j]
            j += 1


TEXTS: Mapping[str, Callable[[Props], str]] = {
    "DataTable": _table,
    "Chart": _chart,
    "KpiCards": _kpis,
    "SourceCards": _sources,
    "Checklist": _checklist,
    "Timeline": _timeline,
    "CodeBlock": _code,
    "Diff": _diff,
    "Callout": lambda props: titled(props.get("title"), props["text"]),
    "Stack": lambda _: "",
    "Card": lambda props: titled(props.get("title"), *([props["subtitle"]] if props.get("subtitle") else [])),
    "Heading": lambda props: titled(props["text"]),
    "Text": lambda props: str(props["text"]),
    "Badge": lambda props: f"[{plain_line(props['text'])}]",
    "Link": lambda props: f"{plain_line(props['text'])}: {plain_line(props['url'])}",
    "Image": lambda props: f"{plain_line(props.get('alt') or 'Image')}: {plain_line(props['url'])}",
}
"""The text of each built-in component, of props that fit."""
