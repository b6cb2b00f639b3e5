"""Where the boxes and lines of a graph are drawn, from the top down. Geometry only, no names and no SVG.

`layers` decides who stands beside whom; here are the heights of the ranks and the curves between them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

from loomnb.present.layers import Line, Net, chains_of, layers_of, ordered, positions, ranks_of, straighten

__all__ = ["Box", "Line", "Placed", "Point", "Route", "arrange"]

Point = tuple[float, float]

_GAP = 12.0  # between ranks, at the least: where lines bend
_STEEP = 0.14  # how much of a line's sideways way is added to the gap it bends in
_LOOP = 22.0  # how far a loop reaches out of its box


@dataclass(frozen=True, slots=True)
class Box:
    """A box to place."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """A line, placed: the curves it is made of, the middle of its label, and where its arrow points to."""

    curves: tuple[tuple[Point, ...], ...]
    """Each a start and then three points per piece, as in an SVG path `M … C …`. What lines share is a curve of its own, the same
    in each of them: drawn twice, dashes would fill each other's gaps."""
    label: Point
    tip: Point
    heading: str
    """`down`, `up` or `left`."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The drawing: middles of the boxes, their heights, and the routes, in the order given."""

    width: float
    height: float
    middles: tuple[Point, ...]
    heights: tuple[float, ...]
    routes: tuple[Route, ...]


def arrange(boxes: Sequence[Box], lines: Sequence[Line], last: int | None = None) -> Placed:
    """Place boxes and route lines.

    Args:
        boxes: the first one stands at the top.
        lines: in order of importance: where two lines make a circle, the later one is the one that leads back.
        last: the box to stand on the lowest rank.
    """
    ranks = ranks_of(len(boxes), lines, last)
    loops: dict[int, list[int]] = defaultdict(list)
    for i, line in enumerate(lines):
        if line.source == line.target:
            loops[line.source].append(i)
    net = Net()
    for v, box in enumerate(boxes):
        beside = max((_LOOP + 4 + lines[i].width for i in loops[v]), default=0.0)
        tall = sum(lines[i].height + 4 for i in loops[v])
        net.add(2 * ranks[v], box.width / 2, box.width / 2 + beside, max(box.height, tall))
    chains = chains_of(net, lines)
    layers = ordered(net, layers_of(net))
    xs = positions(net, layers)
    for _ in range(2):
        straighten(net, layers, xs, len(boxes))
    least = min((xs[v] - net.left[v] for v in range(len(xs))), default=0.0)
    xs = [x - least for x in xs]
    plan = _Plan(net, xs, *_bands(net, layers, xs))
    ports = _ports(plan, boxes, lines, chains)
    shared = {v for v, n in Counter(v for chain in chains for v in chain[2:-1]).items() if n > 1}
    routes = [_route(plan, chain, shared, ports[i]) if chain else None for i, chain in enumerate(chains)]
    for v, around in loops.items():
        y = plan.middle(v) - sum(lines[i].height + 4 for i in around) / 2
        for i in around:
            routes[i] = _loop(xs[v] + boxes[v].width / 2, y + (lines[i].height + 4) / 2, lines[i])
            y += lines[i].height + 4
    middles = tuple((xs[v], plan.middle(v)) for v in range(len(boxes)))
    width = max((xs[v] + net.right[v] for v in range(len(xs))), default=0.0)
    heights = tuple(net.height[: len(boxes)])
    return Placed(width, plan.bottoms[-1] if plan.bottoms else 0.0, middles, heights, tuple(r for r in routes if r is not None))


# -- heights and lines ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """Every vertex's x, and the top and bottom of every rank."""

    net: Net
    xs: Sequence[float]
    tops: Sequence[float]
    bottoms: Sequence[float]

    def middle(self, v: int) -> float:
        """A vertex stands in the middle of its rank, which may be higher than it is."""
        return (self.tops[self.net.rank[v]] + self.bottoms[self.net.rank[v]]) / 2


def _bands(net: Net, layers: Sequence[Sequence[int]], xs: Sequence[float]) -> tuple[list[float], list[float]]:
    """Top and bottom of each rank; where lines go far sideways, the ranks stand further apart."""
    tops: list[float] = []
    bottoms: list[float] = []
    y = 0.0
    for layer in layers:
        tops.append(y)
        y += max((net.height[v] for v in layer), default=0.0)
        bottoms.append(y)
        y += max(_GAP, min(48.0, _STEEP * max((abs(xs[v] - xs[w]) for v in layer for w in net.below[v]), default=0.0)))
    return tops, bottoms


def _ports(
    plan: _Plan, boxes: Sequence[Box], lines: Sequence[Line], chains: Sequence[Sequence[int]]
) -> list[tuple[float, float]]:
    """Where each line leaves its source and enters its target: side by side, in the order of what they lead to."""
    xs, rank = plan.xs, plan.net.rank
    sides: dict[tuple[int, bool], dict[str, float]] = defaultdict(dict)  # (box, below it) → port → what it leads to
    ends: list[tuple[tuple[int, bool], str, tuple[int, bool], str] | None] = []
    for i, chain in enumerate(chains):
        if not chain:
            ends.append(None)
            continue
        down = rank[chain[-1]] > rank[chain[0]]
        out, into = (chain[0], down), (chain[-1], not down)
        leaving, entering = f"out {i:06}", f"in {lines[i].kind}"
        sides[out][leaving] = xs[chain[1]]
        had = sides[into].get(entering)
        sides[into][entering] = xs[chain[-2]] if had is None else (had + xs[chain[-2]]) / 2
        ends.append((out, leaving, into, entering))
    at: dict[tuple[tuple[int, bool], str], float] = {}
    for side, wanted in sides.items():
        step = min(26.0, (boxes[side[0]].width - 20) / len(wanted))
        for n, port in enumerate(sorted(wanted, key=lambda p: (wanted[p], p))):
            at[side, port] = xs[side[0]] + (n - (len(wanted) - 1) / 2) * step
    return [(at[e[0], e[1]], at[e[2], e[3]]) if e else (0.0, 0.0) for e in ends]


def _route(plan: _Plan, chain: Sequence[int], shared: AbstractSet[int], ports: tuple[float, float]) -> Route:
    net, xs, rank = plan.net, plan.xs, plan.net.rank
    source, label, target = chain[0], chain[1], chain[-1]
    way = 1 if rank[target] > rank[source] else -1
    near, far = (plan.tops, plan.bottoms) if way > 0 else (plan.bottoms, plan.tops)
    middle, half = plan.middle(label), way * net.height[label] / 2
    tip = (ports[1], plan.middle(target) - way * net.height[target] / 2)
    parts = [
        [
            (ports[0], plan.middle(source) + way * net.height[source] / 2),
            (ports[0], far[rank[source]]),
            (xs[label], near[rank[label]]),
            (xs[label], middle - half),
        ],
        [(xs[label], middle + half), (xs[label], far[rank[label]])],
    ]
    for v in chain[2:-1]:
        enters = (xs[v], near[rank[v]])
        parts[-1].append(enters)
        if v in shared:
            parts.append([enters])
        parts[-1].append((xs[v], far[rank[v]]))
    parts[-1] += [(ports[1], near[rank[target]]), tip]
    return Route(tuple(_curve(part) for part in parts), (xs[label], middle), tip, "down" if way > 0 else "up")


def _curve(points: Sequence[Point]) -> tuple[Point, ...]:
    """Points as one smooth curve that is vertical in each of them."""
    points = list(_kept(points))
    curve = [points[0]]
    for (x0, y0), (x1, y1) in pairwise(points):
        bend = (y0 + y1) / 2
        curve += [(x0, bend), (x1, bend), (x1, y1)]
    return tuple(curve)


def _kept(points: Iterable[Point]) -> Iterator[Point]:
    """Without points that change nothing: doubles, and those on a vertical line between two others."""
    kept: list[Point] = []
    for point in points:
        if kept and abs(kept[-1][0] - point[0]) < 0.5 and abs(kept[-1][1] - point[1]) < 0.5:
            continue
        if len(kept) > 1 and abs(kept[-2][0] - point[0]) < 0.5 and abs(kept[-1][0] - point[0]) < 0.5:
            kept.pop()
        kept.append(point)
    yield from kept


def _loop(x: float, y: float, line: Line) -> Route:
    out, up = x + _LOOP, min(8.0, line.height / 2)
    curve = ((x, y - up), (out, y - up - 2), (out, y + up + 2), (x, y + up))
    return Route((curve,), (out + 2 + line.width / 2, y), (x, y + up), "left")
