"""The built-in components as safe static HTML, for a page that nothing runs on. The same props give the same text.

Nothing is fetched: a picture by its address is a link to it. What is unknown, or does not fit, shows its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from loomnb.errors import Refused
from loomnb.present.built_in import BUILT_IN, component_text
from loomnb.present.component_text import cell_text, column_side, component_number, line_diff
from loomnb.present.markdown import escape, plain_line
from loomnb.present.negotiation import TREE, judge_ui

__all__ = ["component_html"]

Props = Mapping[str, Any]

_TONES = {"info": "#1f6feb", "success": "#1a7f37", "warning": "#b26a00", "danger": "#c62828", "brand": "#6b46c1"}
_COLOURS = ("#1f6feb", "#e8710a", "#1a7f37", "#c62828", "#6b46c1", "#5f6b7a")
_MUTED = "opacity:.7"
_WRAP = "white-space:pre-wrap;margin:0"
_WIDE, _HIGH = 600, 200  # of a line chart, in its own units


def component_html(component: str, props: Any, fallback_text: str | None = None) -> str:
    """Safe static HTML of a component that is shown.

    Args:
        component: its name; `genui:tree` for a tree of built-in ones.
        props: its props.
        fallback_text: shown where the component is not a built-in one, or its props do not fit; None: the props as JSON.
    """
    try:
        judged = judge_ui(BUILT_IN.values(), None, component, props)
    except Refused:
        text = component_text(component, props, fallback_text)
        return f'<div class="loom-component"><pre style="{_WRAP}">{escape(text)}</pre></div>'
    inner = _node(judged.props["root"]) if component == TREE else _drawn(component, judged.props, "")
    return f'<div class="loom-component">{inner}</div>'


def _node(node: Props) -> str:
    return _drawn(node["component"], node["props"], "".join(_node(child) for child in node.get("children", ())))


def _drawn(component: str, props: Props, held: str) -> str:
    """`held` is HTML: what a Stack or a Card holds."""
    if component == "Stack":
        way = props.get("direction", "column")
        wrap = ";flex-wrap:wrap" if way == "row" else ""
        return f'<div style="display:flex;flex-direction:{way};gap:{props.get("gap", 8)}px{wrap}">{held}</div>'
    if component == "Card":
        below = f'<div style="{_MUTED}">{_line(props["subtitle"])}</div>' if "subtitle" in props else ""
        frame = "border:1px solid #8886;border-radius:6px;padding:8px 12px"
        return f'<div style="{frame}">{_title(props)}{below}{held}</div>'
    return _HTML[component](props)


def _line(text: Any) -> str:
    return escape(plain_line(str(text)))


def _title(props: Props) -> str:
    return f"<p><strong>{_line(props['title'])}</strong></p>" if props.get("title") else ""


def _link(text: str, url: str) -> str:
    """A link; what is no address of the web stays text."""
    address = "".join(url.split())
    if not address.lower().startswith(("http://", "https://")):
        return _line(text)
    return f'<a href="{escape(plain_line(address))}" rel="noopener noreferrer" target="_blank">{_line(text)}</a>'


def _table(props: Props) -> str:
    sides = [column_side(column) for column in props["columns"]]
    head = "".join(
        f'<th scope="col" style="text-align:{side}">{_line(c["label"])}</th>'
        for c, side in zip(props["columns"], sides, strict=True)
    )
    body = "".join(f"<tr>{''.join(_cells(row, props['columns'], sides))}</tr>" for row in props["rows"])
    return f"{_title(props)}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Props, columns: list[Props], sides: list[str]) -> Iterator[str]:
    for column, side in zip(columns, sides, strict=True):
        value, kind = row.get(column["key"]), column.get("format", "text")
        text = _link(value, value) if kind == "link" and isinstance(value, str) else escape(component_number(value, kind))
        yield f'<td style="text-align:{side}">{text}</td>'


def _chart(props: Props) -> str:
    drawn = _bars(props) if props["type"] == "bar" else _lines(props)
    names = [_line(s.get("label") or s["key"]) for s in props["series"]]
    legend = " ".join(
        f'<span><span style="color:{colour}">■</span> {name}</span>' for colour, name in zip(_COLOURS, names, strict=False)
    )
    return f"{_title(props)}{drawn}<p>{legend}</p>" if len(names) > 1 else f"{_title(props)}{drawn}"


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _bars(props: Props) -> str:
    """A bar for each number. They begin at the left: the sign is told by the number beside it."""
    unit = f" {_line(props['unit'])}" if props.get("unit") else ""
    numbers = [_number(row.get(s["key"])) for row in props["data"] for s in props["series"]]
    most = max((abs(n) for n in numbers if n is not None), default=0) or 1
    rows = []
    for row in props["data"]:
        bars = []
        for colour, s in zip(_COLOURS, props["series"], strict=False):
            number = _number(row.get(s["key"]))
            width = round(abs(number) / most * 100, 2) if number is not None else 0
            bar = f'<div style="background:{colour};height:.8em;min-width:1px;width:{width:g}%"></div>'
            said = escape(cell_text(row.get(s["key"]))) + (unit if number is not None else "")
            told = f'<span style="white-space:nowrap">{said}</span>'
            bars.append(f'<div style="display:flex;gap:6px;align-items:center"><div style="flex:1">{bar}</div>{told}</div>')
        label = escape(cell_text(row.get(props["xKey"])))
        rows.append(f'<tr><th scope="row" style="text-align:left">{label}</th><td style="width:80%">{"".join(bars)}</td></tr>')
    return f'<table style="width:100%"><tbody>{"".join(rows)}</tbody></table>'


def _lines(props: Props) -> str:
    """A line for each series, as SVG; where a value is missing, it is broken."""
    data = props["data"]
    found = [n for s in props["series"] for row in data if (n := _number(row.get(s["key"]))) is not None]
    low, high = min([0, *found]), max([0, *found])
    across, up = _WIDE / max(len(data) - 1, 1), _HIGH / ((high - low) or 1)
    paths = []
    for colour, s in zip(_COLOURS, props["series"], strict=False):
        path, pen = [], "M"
        for i, row in enumerate(data):
            number = _number(row.get(s["key"]))
            if number is None:
                pen = "M"
                continue
            path.append(f"{pen}{i * across:.1f} {_HIGH - (number - low) * up:.1f}")
            pen = "L"
        # A point alone has no length: round ends make it a dot.
        dot = "h0" if len(path) == 1 else ""
        paths.append(f'<path d="{" ".join(path)}{dot}" fill="none" stroke="{colour}" stroke-width="2" stroke-linecap="round"/>')
    first, last = (_line(cell_text(data[at].get(props["xKey"]))) for at in (0, -1))
    unit = f" {_line(props['unit'])}" if props.get("unit") else ""
    said = f"from {cell_text(low)} to {cell_text(high)}{unit}, {first} to {last}"
    svg = (
        f'<svg viewBox="-4 -4 {_WIDE + 8} {_HIGH + 8}" role="img" aria-label="{said}" style="width:100%;max-width:{_WIDE}px">'
        f"{''.join(paths)}</svg>"
    )
    return f'<div>{svg}</div><p style="{_MUTED}">{said}</p>'


def _kpis(props: Props) -> str:
    cards = []
    for item in props["items"]:
        sign = {"up": "▲ ", "down": "▼ ", "flat": "▬ "}.get(item.get("trend", ""), "")
        change = f"<div>{sign}{_line(cell_text(item.get('delta')))}</div>" if sign or "delta" in item else ""
        hint = f'<div style="{_MUTED}">{_line(item["hint"])}</div>' if item.get("hint") else ""
        value = f'<div style="font-size:1.5em">{_line(cell_text(item["value"]))}</div>'
        cards.append(f'<div><div style="{_MUTED}">{_line(item["label"])}</div>{value}{change}{hint}</div>')
    return f'{_title(props)}<div style="display:flex;flex-wrap:wrap;gap:24px">{"".join(cards)}</div>'


def _sources(props: Props) -> str:
    items = []
    for item in props["items"]:
        head = _link(item["title"], item.get("url", ""))
        source = f' <span style="{_MUTED}">{_line(item["source"])}</span>' if item.get("source") else ""
        snippet = f"<div>{escape(item['snippet'])}</div>" if item.get("snippet") else ""
        items.append(f"<li>{head}{source}{snippet}</li>")
    return f"{_title(props)}<ul>{''.join(items)}</ul>"


def _checklist(props: Props) -> str:
    items = [
        f"<div>{'☑' if item.get('done') else '☐'} {_line(item['label'])}"
        + (f' <span style="{_MUTED}">{_line(item["note"])}</span>' if item.get("note") else "")
        + "</div>"
        for item in props["items"]
    ]
    return _title(props) + "".join(items)


def _timeline(props: Props) -> str:
    items = [
        "<li>"
        + (f'<span style="{_MUTED}">{_line(event["date"])}</span> ' if event.get("date") else "")
        + f"<strong>{_line(event['title'])}</strong>"
        + (f"<div>{escape(event['description'])}</div>" if event.get("description") else "")
        + "</li>"
        for event in props["events"]
    ]
    return f"{_title(props)}<ol>{''.join(items)}</ol>"


def _code(props: Props) -> str:
    return f"{_title(props)}<pre><code>{escape(props['code'])}</code></pre>"


def _diff(props: Props) -> str:
    tags = {"+": ("ins", "background:#2da44e33"), "-": ("del", "background:#cf222e33;text-decoration:none"), " ": ("span", "")}
    lines = []
    for sign, line in line_diff(props["before"], props["after"]):
        tag, style = tags[sign]
        lines.append(f'<{tag} style="display:block;{style}">{escape(f"{sign} {line}")}</{tag}>')
    return f'{_title(props)}<div style="font-family:monospace;white-space:pre-wrap">{"".join(lines)}</div>'


def _callout(props: Props) -> str:
    style = f"border-left:4px solid {_TONES[props.get('tone', 'info')]};padding:4px 12px"
    return f'<div role="note" style="{style}">{_title(props)}<div style="{_WRAP}">{escape(props["text"])}</div></div>'


def _text(props: Props) -> str:
    style = f"{_WRAP};{_MUTED}" if props.get("muted") else _WRAP
    return f'<p style="{style}">{escape(props["text"])}</p>'


def _badge(props: Props) -> str:
    colour = _TONES.get(props.get("tone", "neutral"), "#5f6b7a")
    style = f"border:1px solid {colour};color:{colour};border-radius:8px;padding:0 8px"
    return f'<div><span style="{style}">{_line(props["text"])}</span></div>'


_HTML: Mapping[str, Callable[[Props], str]] = {
    "DataTable": _table,
    "Chart": _chart,
    "KpiCards": _kpis,
    "SourceCards": _sources,
    "Checklist": _checklist,
    "Timeline": _timeline,
    "CodeBlock": _code,
    "Diff": _diff,
    "Callout": _callout,
    "Heading": lambda props: f"<h4>{_line(props['text'])}</h4>",
    "Text": _text,
    "Badge": _badge,
    "Link": lambda props: f"<div>{_link(props['text'], props['url'])}</div>",
    "Image": lambda props: f"<div>{_link(props.get('alt') or props['url'], props['url'])}</div>",
}
