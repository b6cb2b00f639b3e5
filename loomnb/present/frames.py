"""Where the boxes and lines of a grouped graph are drawn: one frame below the other, each laid out by itself. Geometry only.

A line that leaves its frame goes down to a port at its bottom, along a track between two frames, through a lane beside them if
it goes further than to the next one, and in through a port at the top of its target's frame. Lines that look the same and lead
to the same box are one *net*: they share all of this way. Downward lanes are on the right, upward ones on the left.

Simple, and so it always works: no line can cross a box or a title, whatever leads where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from loomnb.present.layout import Box, Line, Placed, Point, Route, arrange

__all__ = ["Frame", "arrange_framed"]

_SIDE, _BAND, _FOOT = 14.0, 24.0, 4.0  # from a frame's border to what is in it; above it stands the title
_GAP = 22.0  # between frames, at the least
_TRACK, _LANE = 8.0, 10.0  # between tracks, and between lanes
_AWAY = 11.0  # from a frame to the first track or lane
_ROUND = 6.0  # of corners


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame, placed."""

    left: float
    top: float
    width: float
    height: float


@dataclass(slots=True)
class _Net:
    """Lines that look the same and lead to the same box from other frames."""

    target: int
    kind: str
    into: int
    """The section of the target."""
    out_of: dict[int, Point] = field(default_factory=dict[int, Point])
    """Section → the port it is left through; as `port`, below the section's top."""
    port: Point = (0.0, 0.0)
    """Where the target's section is entered."""
    lanes: dict[bool, float] = field(default_factory=dict[bool, float])
    """Whether it leads down → the x of its lane."""
    tracks: dict[int, float] = field(default_factory=dict[int, float])
    """Gap → y. Gap g is above section g."""

    def span(self, *, down: bool) -> tuple[int, int] | None:
        """The first and last gap that its lane downwards, or upwards, reaches."""
        gaps = [s + 1 for s in self.out_of if (s + 1 < self.into if down else s >= self.into)]
        return (min(*gaps, self.into), max(*gaps, self.into)) if gaps else None


@dataclass(frozen=True, slots=True)
class _Given:
    """What is to be drawn: the lines, the section of each box, the nets and the net of each line that leaves its section."""

    lines: Sequence[Line]
    section: Sequence[int]
    nets: Sequence[_Net]
    net_of: dict[int, int]


@dataclass(slots=True)
class _Section:
    """One frame's content, laid out by itself with a port box above and below."""

    title: float
    """How wide its title is; 0: it has no frame."""
    placed: Placed
    into: dict[int, int]
    """Net → its line from the upper port box."""
    out_of: dict[int, int]
    """Line that leaves → its line to the lower port box."""
    inner: dict[int, int]
    """Line → its line in here."""
    boxes: dict[int, int]
    left: float = 0.0
    slack: float = 0.0
    """How far it may be moved to each side."""
    top: float = 0.0

    def align(self, k: int, nets: Sequence[_Net]) -> None:
        """Move it below where it is entered from, as far as its frame has room: then that line is straight."""
        for n, at in self.into.items():
            if k - 1 in nets[n].out_of:
                wanted = nets[n].out_of[k - 1][0] - self.placed.routes[at].curves[0][0][0]
                self.left = min(max(self.left - self.slack, wanted), self.left + self.slack)
                return

    def route(self, at: int, shift: float) -> Route:
        """One of its lines, as the whole drawing has it."""
        one, x, y = self.placed.routes[at], self.left + shift, self.top
        curves = tuple(tuple(_shifted(point, x, y) for point in curve) for curve in one.curves)
        return Route(curves, _shifted(one.label, x, y), _shifted(one.tip, x, y), one.heading)

    def ports(self, k: int, nets: Sequence[_Net], net_of: dict[int, int]) -> None:
        """Note where nets enter and leave it."""
        for n, at in self.into.items():
            nets[n].port = _shifted(self.placed.routes[at].curves[0][0], self.left, 0.0)
        for i, at in self.out_of.items():
            nets[net_of[i]].out_of[k] = _shifted(self.placed.routes[at].tip, self.left, 0.0)


def _shifted(point: Point, x: float, y: float) -> Point:
    return point[0] + x, point[1] + y


def arrange_framed(boxes: Sequence[Box], lines: Sequence[Line], section: Sequence[int], titles: Sequence[float]) -> tuple[
    Placed, list[Frame | None]
]:  # fmt: skip
    """Place boxes and route lines, as `layout.arrange` does, and frame the sections.

    Args:
        boxes: in the order of importance within their section.
        lines: as for `layout.arrange`.
        section: of each box, from the top.
        titles: how wide the title of each section is; 0 for one without a frame.
    """
    nets, net_of = _nets(lines, section)
    given = _Given(lines, section, nets, net_of)
    sections = [_section(k, title, boxes, given) for k, title in enumerate(titles)]
    width = _widths(sections)
    for k, one in enumerate(sections):
        one.align(k, nets)
        one.ports(k, nets, net_of)
    height = _heights(sections, nets)
    left, right = _lanes(nets, width)
    ways = [_ways(net, sections) for net in nets]
    routes: list[Route] = []
    for i, line in enumerate(lines):
        one = sections[section[line.source]]
        if i not in net_of:
            routes.append(one.route(one.inner[i], -left))
            continue
        net = nets[net_of[i]]
        out, into = one.route(one.out_of[i], -left), sections[net.into].route(sections[net.into].into[net_of[i]], -left)
        way = [tuple((x - left, y) for x, y in curve) for curve in ways[net_of[i]][section[line.source]]]
        routes.append(Route((*out.curves, *way, *into.curves), out.label, into.tip, into.heading))
    places = {box: (one, at) for one in sections for box, at in one.boxes.items()}
    middles = tuple(_shifted(one.placed.middles[at], one.left - left, one.top) for _, (one, at) in sorted(places.items()))
    heights = tuple(one.placed.heights[at] for _, (one, at) in sorted(places.items()))
    frames = [Frame(-left, s.top - _BAND, width, s.placed.height + _BAND + _FOOT) if s.title else None for s in sections]
    return Placed(right - left, height, middles, heights, tuple(routes)), frames


# -- nets and sections ----------------------------------------------------------------------------


def _nets(lines: Sequence[Line], section: Sequence[int]) -> tuple[list[_Net], dict[int, int]]:
    """The nets, and the net of each line that leaves its section."""
    found: dict[tuple[int, str], int] = {}
    nets: list[_Net] = []
    net_of: dict[int, int] = {}
    for i, line in enumerate(lines):
        if section[line.source] != section[line.target]:
            key = line.target, line.kind
            if key not in found:
                found[key] = len(nets)
                nets.append(_Net(line.target, line.kind, section[line.target]))
            net_of[i] = found[key]
            nets[found[key]].out_of[section[line.source]] = 0.0, 0.0
    return nets, net_of


def _section(k: int, title: float, boxes: Sequence[Box], given: _Given) -> _Section:
    lines, section, nets, net_of = given.lines, given.section, given.nets, given.net_of
    members = [v for v, of in enumerate(section) if of == k]
    entering = sorted((n for n, net in enumerate(nets) if net.into == k), key=lambda n: (nets[n].target, nets[n].kind))
    leaving = [i for i in net_of if section[lines[i].source] == k]
    inner = [i for i, line in enumerate(lines) if section[line.source] == section[line.target] == k]
    local = [boxes[v] for v in members]
    at = {v: i + bool(entering) for i, v in enumerate(members)}
    if entering:
        local.insert(0, Box(20.0 + 16 * len(entering), 0.0))
    made = [Line(0, at[nets[n].target], 0.0, 0.0, kind=nets[n].kind) for n in entering]
    made += [Line(at[lines[i].source], at[lines[i].target], lines[i].width, lines[i].height, kind=lines[i].kind) for i in inner]
    last = None
    if leaving:
        last = len(local)
        local.append(Box(20.0 + 16 * len({net_of[i] for i in leaving}), 0.0))
        made += [
            Line(at[lines[i].source], last, lines[i].width, lines[i].height, kind=f"{lines[i].kind}>{net_of[i]}") for i in leaving
        ]
    placed = arrange(local, made, last)
    numbered = iter(range(len(made)))
    return _Section(
        title,
        placed,
        into={n: next(numbered) for n in entering},
        inner={i: next(numbered) for i in inner},
        out_of={i: next(numbered) for i in leaving},
        boxes=at,
    )


# -- sizes ----------------------------------------------------------------------------------------


def _widths(sections: Sequence[_Section]) -> float:
    """How wide every frame is. What is in it stands in the middle, unless a line would come in through the title."""

    def free(one: _Section) -> float:
        ports = [one.placed.routes[at].curves[0][0][0] for at in one.into.values()]
        return one.title + _SIDE + 8 - min(ports) if ports and one.title else 0.0

    side = [_SIDE if s.title else 0.0 for s in sections]
    width = max((max(s.placed.width, s.title) + 2 * pad for s, pad in zip(sections, side, strict=True)), default=0.0)
    for one, pad in zip(sections, side, strict=True):
        width = max(width, free(one) + one.placed.width + pad)
    for one, pad in zip(sections, side, strict=True):
        one.left = max((width - one.placed.width) / 2, free(one))
        one.slack = max(0.0, min(one.left - max(pad, free(one)), width - pad - one.placed.width - one.left))
    return width


def _heights(sections: Sequence[_Section], nets: Sequence[_Net]) -> float:
    """Place the sections below one another, with the tracks between them; gives the height of it all."""
    y = 0.0
    for g in range(len(sections) + 1):
        tracks = _tracks(g, nets)
        for at, n in enumerate(tracks):
            nets[n].tracks[g] = y + _AWAY + _TRACK * at
        room = 2 * _AWAY + _TRACK * (len(tracks) - 1) if tracks else 0.0
        y += room if g in (0, len(sections)) else max(_GAP, room)
        if g < len(sections):
            framed = bool(sections[g].title)
            sections[g].top = y + (_BAND if framed else 0.0)
            y = sections[g].top + sections[g].placed.height + (_FOOT if framed else 0.0)
    return y


def _tracks(g: int, nets: Sequence[_Net]) -> list[int]:
    """The nets that run sideways in a gap, from the top down: those that leave for a lane, those that cross it, those that come.

    So no way down from an upper port meets another's way down to a lower port, even where the ports stand above each other.
    """
    leaving = [n for n, net in enumerate(nets) if g - 1 in net.out_of and net.into != g]
    leaving.sort(key=lambda n: (-1 if nets[n].into > g else 1) * nets[n].out_of[g - 1][0])  # the one further out is above
    coming = [n for n, net in enumerate(nets) if net.into == g and g - 1 not in net.out_of]
    coming.sort(key=lambda n: (1 if nets[n].span(down=True) else -1) * nets[n].port[0])
    across = [n for n, net in enumerate(nets) if net.into == g and g - 1 in net.out_of and not _is_straight(net)]
    return [*leaving, *_untangled(across, g, nets), *coming]


def _is_straight(net: _Net) -> bool:
    """Whether it leads straight down to the next section."""
    return list(net.out_of) == [net.into - 1] and abs(net.out_of[net.into - 1][0] - net.port[0]) < 0.5


def _untangled(across: list[int], g: int, nets: Sequence[_Net]) -> Iterator[int]:
    """A net leaves from above where another arrives: it turns off before the other turns in."""
    left = sorted(across, key=lambda n: (nets[n].port[0], n))
    while left:
        free = (n for n in left if all(m == n or abs(nets[m].out_of[g - 1][0] - nets[n].port[0]) > 3 for m in left))
        n = next(free, left[0])
        left.remove(n)
        yield n


def _lanes(nets: Sequence[_Net], width: float) -> tuple[float, float]:
    """Give each net that goes further a lane, the short ones near the frames; gives how far the lanes reach."""
    reach = {True: width, False: 0.0}
    for down, side in ((True, 1), (False, -1)):
        taken: list[list[tuple[int, int]]] = []
        spans = [(span, net) for net in nets if (span := net.span(down=down))]
        for (first, last), net in sorted(spans, key=lambda one: (one[0][1] - one[0][0], one[0])):
            at = next((i for i, lane in enumerate(taken) if all(last < a or b < first for a, b in lane)), len(taken))
            taken += [[]] if at == len(taken) else []
            taken[at].append((first, last))
            net.lanes[down] = (width if down else 0.0) + side * (_AWAY + _LANE * at)
        if taken:
            reach[down] += side * (_AWAY + _LANE * (len(taken) - 1) + 4)
    return reach[False], reach[True]


# -- ways -----------------------------------------------------------------------------------------


def _ways(net: _Net, sections: Sequence[_Section]) -> dict[int, list[tuple[Point, ...]]]:
    """Section → the curves from its port to the target's. Where two join they share the rest, curve by curve."""
    paths: dict[int, list[_Piece]] = {}
    end = _shifted(net.port, 0.0, sections[net.into].top)
    for source in net.out_of:
        start = _shifted(net.out_of[source], 0.0, sections[source].top)
        points = [start]
        if not _is_straight(net):
            y = net.tracks[source + 1]
            points.append((start[0], y))
            if source + 1 != net.into:
                lane = net.lanes[source + 1 < net.into]
                points += [(lane, y), (lane, net.tracks[net.into])]
            points.append((end[0], net.tracks[net.into]))
        paths[source] = list(_pieces([*points, end]))
    joints = {piece[-1] for path in paths.values() for piece in path if len(piece) == 4}
    return {source: list(_split(path, joints)) for source, path in paths.items()}


_Piece = tuple[Point, ...]
"""A straight line (two points), or a corner (four: a Bézier curve)."""


def _pieces(points: Sequence[Point]) -> Iterator[_Piece]:
    """A polygonal line with its corners rounded."""
    points = [p for i, p in enumerate(points) if i == 0 or abs(p[0] - points[i - 1][0]) + abs(p[1] - points[i - 1][1]) > 0.01]
    at = points[0]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        if before[0] == corner[0] == after[0] or before[1] == corner[1] == after[1]:
            continue
        begins, ends = _towards(corner, before), _towards(corner, after)
        yield at, begins
        yield begins, _middle(begins, corner), _middle(ends, corner), ends
        at = ends
    yield at, points[-1]


def _towards(corner: Point, other: Point) -> Point:
    far = abs(other[0] - corner[0]) + abs(other[1] - corner[1])
    part = min(_ROUND, far / 2) / far
    return corner[0] + (other[0] - corner[0]) * part, corner[1] + (other[1] - corner[1]) * part


def _middle(a: Point, b: Point) -> Point:
    return (a[0] + 2 * b[0]) / 3, (a[1] + 2 * b[1]) / 3


def _split(path: Iterable[_Piece], joints: Iterable[Point]) -> Iterator[tuple[Point, ...]]:
    """The curves of a path, broken wherever another may join it."""
    curve: list[Point] = []
    for piece in path:
        curve = curve or [piece[0]]
        if len(piece) == 4:
            yield (*curve, *piece[1:])  # what follows a corner may be shared
            curve = []
            continue
        a, b = piece
        on = sorted((p for p in joints if _is_between(p, a, b)), key=lambda p: abs(p[0] - a[0]) + abs(p[1] - a[1]))
        for joint in on:
            yield (*curve, *_straight(curve[-1], joint))
            curve = [joint]
        curve += _straight(curve[-1], b)
    if len(curve) > 1:
        yield tuple(curve)


def _straight(a: Point, b: Point) -> tuple[Point, Point, Point]:
    return a, b, b


def _is_between(p: Point, a: Point, b: Point) -> bool:
    level = abs(a[1] - b[1]) < 0.01
    x0, x1 = sorted((a[level ^ 1], b[level ^ 1]))
    return abs(p[level] - a[level]) < 0.01 and x0 + 0.01 < p[level ^ 1] < x1 - 0.01
