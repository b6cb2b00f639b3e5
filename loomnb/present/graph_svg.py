"""A graph as one SVG element: no script, no style sheet, no ids, no reference to anything outside it.

Lines and letters are `currentColor`, so that they read on the page's background whatever it is; what is lit takes JupyterLab's
brand colour, or a blue that reads on black and on white. Nothing is said by colour alone: what waits for an answer is framed,
what happens on failure is dashed, what was taken is thick, and the current place is double and bold.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loomnb.present.frames import Frame, arrange_framed
from loomnb.present.layout import Box, Line, Placed, Point, Route, arrange
from loomnb.present.markdown import escape, plain_line

if TYPE_CHECKING:
    from loomnb.present.graph import Graph, GraphEdge, GraphNode

__all__ = ["graph_svg"]

_MARGIN = 10.0
_TITLE = 34.0  # the height of the heading
_SIZE, _SMALL = 12.0, 10.5  # letters
_SHOWN = 36  # letters of a name; its tooltip has the whole of it
_ACCENT = "#1976d2"
_LIT = f"var(--jp-brand-color1,{_ACCENT})"
_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
_KEY = (("manual", "framed: waits for an answer"), ("error", "dashed: on failure"), ("past", "dotted: of an older definition"))


def graph_svg(graph: Graph) -> str:
    """The SVG element of a graph."""
    number = {n.name: i for i, n in enumerate(graph.nodes)}
    # Where two lines make a circle the later one leads back: failures after the rest.
    edges = sorted(graph.edges, key=lambda e: e.kind not in ("automatic", "manual"))
    boxes = [Box(max(52.0, _wide(_short(n.written), bold=True) + (38 if n.kind == "start" else 24)), 30.0) for n in graph.nodes]
    lines = [Line(number[e.from_], number[e.to], *_label_size(e), kind=_trunk(e)) for e in edges]
    placed, frames = _placed(graph, boxes, lines)
    heading, key = _heading(graph), _key(graph)
    width = max(placed.width, _wide(heading, bold=True) * 1.2, _wide(key)) + 2 * _MARGIN
    height = placed.height + _TITLE + (24 if key else 0) + 2 * _MARGIN
    is_run = graph.current is not None
    drawn = list(zip(edges, placed.routes, strict=True))
    seen: set[object] = set()
    shift = max(0.0, (width - 2 * _MARGIN - placed.width) / 2) if placed.width < 320 else 0.0
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{_n(width)}" height="{_n(height)}" ',
            f'viewBox="0 0 {_n(width)} {_n(height)}" fill="none" stroke="none" font-family="{_FONT}" font-size="{_n(_SIZE)}" ',
            f'style="max-width:none"><title>{escape(heading)}</title><desc>{escape(_told(graph))}</desc>',
            f'<text x="{_n(_MARGIN)}" y="{_n(_MARGIN + 12)}" fill="currentColor" font-size="14" font-weight="bold">',
            f"{escape(heading)}</text>",
            f'<g transform="translate({_n(_MARGIN + shift)} {_n(_MARGIN + _TITLE)})">',
            *frames,
            f'<g opacity="{0.8 if is_run else 0.9}">',
            *(_edge(edge, route, seen) for edge, route in drawn if not edge.taken),
            "</g>",
            *(_edge(edge, route, seen) for edge, route in drawn if edge.taken),
            *(_node(node, box, placed, i) for i, (node, box) in enumerate(zip(graph.nodes, boxes, strict=True))),
            "</g>",
            _text(key, _MARGIN, height - _MARGIN, size=_SMALL, anchor="start", opacity=0.8) if key else "",
            "</svg>",
        ]
    )


def _placed(graph: Graph, boxes: Sequence[Box], lines: Sequence[Line]) -> tuple[Placed, list[str]]:
    """Where everything stands, and the frames of the stages."""
    if not graph.groups:
        return arrange(boxes, lines, next((i for i, n in enumerate(graph.nodes) if n.kind == "end"), None)), []
    sections = graph.grouped()
    of = {n.name: k for k, (_, nodes) in enumerate(sections) for n in nodes}
    titles = [_wide(_short(group), bold=True) if group else 0.0 for group, _ in sections]
    placed, frames = arrange_framed(boxes, lines, [of[n.name] for n in graph.nodes], titles)
    return placed, [_frame(g, nodes, f) for (g, nodes), f in zip(sections, frames, strict=True) if f]


# -- what is said ---------------------------------------------------------------------------------


def _heading(graph: Graph) -> str:
    return plain_line(f"{graph.title}: {graph.status}" if graph.status else graph.title)


def _told(graph: Graph) -> str:
    """The picture in a sentence or two, for who cannot see it; the text form has the rest."""
    moves = [e for e in graph.edges if e.kind in ("automatic", "manual")]
    waits = sum(e.kind == "manual" for e in moves)
    stages = f"{len(graph.groups)} stages, " if graph.groups else ""
    told = f"{stages}{len(graph.nodes)} places, {len(moves)} transitions, {waits} of which wait for an answer."
    if graph.current is not None:
        told += f" The run is at {graph.current}, {len([e for e in graph.edges if e.taken])} of them were taken."
    return plain_line(f"{told} {graph.note}".strip())


def _key(graph: Graph) -> str:
    kinds = {"error" if e.kind == "retry" else e.kind for e in graph.edges}
    parts = [text for kind, text in _KEY if kind in kinds]
    parts += ["thick: the way taken"] if any(e.taken for e in graph.edges) else []
    parts += [plain_line(graph.note)] if graph.note else []
    return " · ".join(parts)


# -- pieces ---------------------------------------------------------------------------------------


def _frame(group: str, nodes: Sequence[GraphNode], frame: Frame) -> str:
    current = any(n.current for n in nodes)
    lit = current or any(n.visited for n in nodes)
    at = f'x="{_n(frame.left)}" y="{_n(frame.top)}" width="{_n(frame.width)}" height="{_n(frame.height)}" rx="8"'
    fill = f'fill="{_ACCENT}" fill-opacity="0.06"' if current else 'fill="currentColor" fill-opacity="0.03"'
    style = f"{_stroke(lit=lit)} stroke-width={_q(2.0 if current else 1.0)} stroke-opacity={_q(1.0 if current else 0.5)}"
    title = _text(_short(group), frame.left + 10, frame.top + 16, anchor="start", bold=True, opacity=1.0 if current else 0.8)
    tip = f"{group}, the stage the run is in" if current else group
    return f"<g>{_tip(tip)}<rect {at} {fill} {style}/>{title}</g>"


def _node(node: GraphNode, box: Box, placed: Placed, i: int) -> str:
    (x, y), w, h = placed.middles[i], box.width, placed.heights[i]
    lit = node.current or node.visited
    round_ = h / 2 if node.kind != "place" else 5.0
    frame = _rect(x, y, w, h, round_, lit=lit, width=2.5 if node.current else 1.4 if lit else 1.2, filled=node.current)
    if node.kind == "end" or node.current:
        inner = _rect(x, y, w - 6, h - 6, max(2.0, round_ - 3), lit=lit, width=1.0, filled=False)
    else:
        inner = ""
    dot = f'<circle cx="{_n(x - w / 2 + 13)}" cy="{_n(y)}" r="3.5" fill="currentColor"/>' if node.kind == "start" else ""
    text = _text(_short(node.written), x + (7 if dot else 0), y + 4, bold=node.current or node.kind != "place")
    return f"<g>{_tip(node.name + (', where the run is' if node.current else ''))}{frame}{inner}{dot}{text}</g>"


def _edge(edge: GraphEdge, route: Route, seen: set[object]) -> str:
    dash = {"error": ' stroke-dasharray="5 4"', "retry": ' stroke-dasharray="5 4"', "past": ' stroke-dasharray="1.5 4"'}
    weight = 2.6 if edge.taken else 1.0 if edge.kind in dash else 1.3
    paint = f"{_stroke(lit=edge.taken)} stroke-width={_q(weight)}{dash.get(edge.kind, '')}"
    x, y = route.tip
    wing, long = (4.5, 8.5) if edge.taken else (3.5, 7.5)
    # A line ends where its arrow begins, or its square end would blunt the point.
    *curves, ending = route.curves
    match route.heading:
        case "down":
            back, head = (0.0, -long), f"M{_n(x)} {_n(y)}l{_n(-wing)} {_n(-long)}h{_n(2 * wing)}z"
        case "up":
            back, head = (0.0, long), f"M{_n(x)} {_n(y)}l{_n(-wing)} {_n(long)}h{_n(2 * wing)}z"
        case _:
            back, head = (long, 0.0), f"M{_n(x)} {_n(y)}l{_n(long)} {_n(-wing)}v{_n(2 * wing)}z"
    ending = (*ending[:-1], (x + back[0] * 0.8, y + back[1] * 0.8))
    new = [c for c in (*curves, ending) if len(c) > 1 and (c, edge.taken, _trunk(edge)) not in seen]
    seen.update((c, edge.taken, _trunk(edge)) for c in new)
    d = "".join(_path(curve) for curve in new)
    fill = f'fill="{_ACCENT}" style="fill:{_LIT}"' if edge.taken else 'fill="currentColor"'
    return f'<g>{_tip(_spoken(edge))}<path d="{d}" {paint}/><path d="{head}" {fill}/>{_label(edge, route)}</g>'


def _label(edge: GraphEdge, route: Route) -> str:
    x, y = route.label
    width, height = _label_size(edge)
    framed = edge.kind == "manual"
    frame = _rect(x, y, width, height - 2, 8.0, lit=edge.taken, width=1.6 if edge.taken else 1.0) if framed else ""
    name, detail = _short(edge.label), _short(edge.detail, 48)
    top = y - (6.5 if detail else 0)
    said = _text(name, x, top + 4, bold=edge.taken, italic=edge.kind in ("error", "retry", "past"))
    return frame + said + (_text(detail, x, top + 17, size=_SMALL, opacity=0.9) if detail else "")


def _label_size(edge: GraphEdge) -> tuple[float, float]:
    name, detail = _short(edge.label), _short(edge.detail, 48)
    wide = max(_wide(name, bold=True), _wide(detail) * _SMALL / _SIZE)
    return wide + (18 if edge.kind == "manual" else 6), 33.0 if detail else 20.0


def _trunk(edge: GraphEdge) -> str:
    """Which lines may share their way: those that look the same."""
    return "dashed" if edge.kind in ("error", "retry") else "dotted" if edge.kind == "past" else ""


def _spoken(edge: GraphEdge) -> str:
    waits = " (waits for an answer)" if edge.kind == "manual" else ""
    return f"{edge.label}{waits}: {edge.from_} → {edge.to}{'; ' + edge.detail if edge.detail else ''}"


# -- SVG ------------------------------------------------------------------------------------------


def _tip(text: str) -> str:
    return f"<title>{escape(plain_line(text))}</title>"


def _stroke(*, lit: bool) -> str:
    return f'stroke="{_ACCENT}" style="stroke:{_LIT}"' if lit else 'stroke="currentColor"'


def _rect(x: float, y: float, w: float, h: float, r: float, *, lit: bool, width: float, filled: bool = False) -> str:
    style = _stroke(lit=lit)
    if filled:
        style = f'stroke="{_ACCENT}" fill="{_ACCENT}" fill-opacity="0.16" style="stroke:{_LIT};fill:{_LIT}"'
    at = f'x="{_n(x - w / 2)}" y="{_n(y - h / 2)}" width="{_n(w)}" height="{_n(h)}" rx="{_n(r)}"'
    return f"<rect {at} {style} stroke-width={_q(width)}/>"


def _text(
    text: str,
    x: float,
    y: float,
    *,
    size: float = _SIZE,
    anchor: str = "middle",
    bold: bool = False,
    italic: bool = False,
    opacity: float = 1.0,
) -> str:
    more = f' font-size="{_n(size)}"' if size != _SIZE else ""
    more += ' font-weight="bold"' if bold else ""
    more += ' font-style="italic"' if italic else ""
    more += f' opacity="{opacity:g}"' if opacity != 1 else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" fill="currentColor"{more}>{escape(text)}</text>'


def _path(curve: tuple[Point, ...]) -> str:
    parts = [f"M{_n(curve[0][0])} {_n(curve[0][1])}"]
    at = curve[0]
    for i in range(1, len(curve), 3):
        a, b, end = curve[i : i + 3]
        if at[0] == a[0] == b[0] == end[0]:
            parts.append(f"V{_n(end[1])}")
        elif at[1] == a[1] == b[1] == end[1]:
            parts.append(f"H{_n(end[0])}")
        else:
            parts.append(f"C{_n(a[0])} {_n(a[1])} {_n(b[0])} {_n(b[1])} {_n(end[0])} {_n(end[1])}")
        at = end
    return "".join(parts)


def _n(value: float) -> str:
    """A number with one decimal at the most; never -0."""
    rounded = math.floor(value * 10 + 0.5) / 10
    return f"{rounded:g}" if abs(rounded) < 100_000 else f"{rounded:.1f}"


def _q(value: float) -> str:
    return f'"{_n(value)}"'


def _short(text: str, most: int = _SHOWN) -> str:
    line = plain_line(text)
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


_NARROW, _BROAD = set("iljtfrI.,:;|!'`()[]{} /\\-·"), set("mwMW@%—…")


def _wide(text: str, *, bold: bool = False) -> float:
    """About how wide a text is: a little more than in the fonts people have, since nothing here can measure it."""
    width = 0.0
    for c in text:
        if c in _NARROW:
            width += 4.4
        elif c in _BROAD:
            width += 11.2
        elif c.isascii():
            width += 8.6 if c.isupper() else 7.1
        elif unicodedata.east_asian_width(c) in "WF":
            width += 12.6
        else:
            width += 0.0 if unicodedata.combining(c) else 8.0
    return width * (1.06 if bold else 1.0)
