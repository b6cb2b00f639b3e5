"""Where the places and transitions of a graph stand: a small layered layout, from the top down. Geometry only, no names.

Four steps, as in every layered drawing (Sugiyama, Tagawa and Toda, 1981), kept simple because workflows are small:

1. Ranks: the longest path from the first box; lines that lead back, and loops, do not count.
2. Each line's label is a vertex of its own, on a rank between two ranks of boxes and next to where the line begins, so a label
   never lies on anything. What is left of the way goes through one point per rank. Lines of one kind that lead to the same
   box share these points: a hundred error edges are one trunk with a hundred branches.
3. Order within a rank by barycentres, swept down and up; the order with the fewest crossings is kept.
4. Positions: each vertex is drawn to the mean of its neighbours, as near as the order and the widths allow.

Everything is ordered by index and computed with plain arithmetic: the same input gives the same drawing, to the digit.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Box", "Line", "Placed", "Point", "Route", "arrange"]

Point = tuple[float, float]

_SPACE = 16.0  # between neighbours on a rank
_TIGHT = 9.0  # the same beside a line that only passes
_GAP = 12.0  # between ranks, at the least: where lines bend
_STEEP = 0.14  # how much of a line's sideways way is added to the gap it bends in
_LOOP = 22.0  # how far a loop reaches out of its box
_EFFORT = 60_000  # vertices looked at while sweeping; large graphs get fewer sweeps


@dataclass(frozen=True, slots=True)
class Box:
    """A box to place."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line between two boxes (by index), with the size of its label. `kind`: lines of one kind may share a trunk."""

    source: int
    target: int
    width: float
    height: float
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """A line, placed: the curves it is made of, the middle of its label, and where its arrow points to."""

    curves: tuple[tuple[Point, ...], ...]
    """Each a start and then three points per piece, as in an SVG path `M … C …`."""
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


@dataclass(slots=True)
class _Net:
    """Boxes, labels and passing points as vertices 0, 1, …; the boxes come first."""

    rank: list[int] = field(default_factory=list[int])
    left: list[float] = field(default_factory=list[float])
    right: list[float] = field(default_factory=list[float])
    height: list[float] = field(default_factory=list[float])
    real: list[bool] = field(default_factory=list[bool])
    above: list[list[int]] = field(default_factory=list[list[int]])
    below: list[list[int]] = field(default_factory=list[list[int]])

    def add(self, rank: int, left: float, right: float, height: float, *, real: bool = True) -> int:
        self.rank.append(rank)
        self.left.append(left)
        self.right.append(right)
        self.height.append(height)
        self.real.append(real)
        self.above.append([])
        self.below.append([])
        return len(self.rank) - 1

    def join(self, a: int, b: int) -> None:
        upper, lower = (a, b) if self.rank[a] < self.rank[b] else (b, a)
        if lower not in self.below[upper]:
            self.below[upper].append(lower)
            self.above[lower].append(upper)

    def space(self, a: int, b: int) -> float:
        """Between the middles of two neighbours."""
        return self.right[a] + self.left[b] + (_SPACE if self.real[a] and self.real[b] else _TIGHT)


def arrange(boxes: Sequence[Box], lines: Sequence[Line], last: int | None = None) -> Placed:
    """Place boxes and route lines.

    Args:
        boxes: the first one stands at the top.
        lines: in order of importance: where two lines make a circle, the later one is the one that leads back.
        last: the box to stand on the lowest rank.
    """
    ranks = _ranks(len(boxes), lines, last)
    loops: dict[int, list[int]] = defaultdict(list)
    for i, line in enumerate(lines):
        if line.source == line.target:
            loops[line.source].append(i)
    net = _Net()
    for v, box in enumerate(boxes):
        beside = max((_LOOP + 4 + lines[i].width for i in loops[v]), default=0.0)
        tall = sum(lines[i].height + 4 for i in loops[v])
        net.add(2 * ranks[v], box.width / 2, box.width / 2 + beside, max(box.height, tall))
    chains = _chains(net, lines)
    layers = _ordered(net, _layers(net))
    xs = _positions(net, layers)
    tops, bottoms = _bands(net, layers, xs)
    ports = _ports(net, boxes, lines, chains, xs)
    routes: list[Route] = []
    for i, line in enumerate(lines):
        if line.source == line.target:
            continue_at = loops[line.source].index(i)
            before = sum(lines[j].height + 4 for j in loops[line.source][:continue_at])
            all_of = sum(lines[j].height + 4 for j in loops[line.source])
            top = (tops[net.rank[line.source]] + bottoms[net.rank[line.source]]) / 2 - all_of / 2
            routes.append(_loop(xs[line.source] + boxes[line.source].width / 2, top + before + (line.height + 4) / 2, line))
        else:
            routes.append(_route(net, chains[i], xs, tops, bottoms, ports[i]))
    middles = tuple((xs[v], (tops[net.rank[v]] + bottoms[net.rank[v]]) / 2) for v in range(len(boxes)))
    width = max((xs[v] + net.right[v] for v in range(len(xs))), default=0.0)
    return Placed(width, bottoms[-1] if bottoms else 0.0, middles, tuple(net.height[: len(boxes)]), tuple(routes))


# -- ranks ----------------------------------------------------------------------------------------


def _ranks(count: int, lines: Sequence[Line], last: int | None) -> list[int]:
    """The longest path from the first box, ignoring loops and lines that lead back."""
    out: list[list[int]] = [[] for _ in range(count)]
    for line in lines:
        if line.source != line.target:
            out[line.source].append(line.target)
    rank = [0] * count
    for v in reversed(list(_finished(out))):  # a topological order
        for w in out[v]:
            if w >= 0:
                rank[w] = max(rank[w], rank[v] + 1)
    if last is not None:
        rank[last] = max(rank[last], *(r + (v != last and not any(w >= 0 for w in out[v])) * 0 for v, r in enumerate(rank)))
    return rank


def _finished(out: list[list[int]]) -> Iterator[int]:
    """Vertices as a depth-first search leaves them. Lines that lead back into its path are struck out of `out` (-1)."""
    new, open_, done = 0, 1, 2
    state = [new] * len(out)
    for root in range(len(out)):
        if state[root] != new:
            continue
        stack = [(root, 0)]
        state[root] = open_
        while stack:
            v, at = stack.pop()
            while at < len(out[v]):
                w = out[v][at]
                if state[w] == open_:
                    out[v][at] = -1
                elif state[w] == new:
                    break
                at += 1
            if at == len(out[v]):
                state[v] = done
                yield v
            else:
                w = out[v][at]
                stack += [(v, at + 1), (w, 0)]
                state[w] = open_


# -- chains ---------------------------------------------------------------------------------------


def _chains(net: _Net, lines: Sequence[Line]) -> list[list[int]]:
    """Each line as vertices: its source, its label, the points it passes, its target."""
    trunks: dict[tuple[int, str, int, int], int] = {}
    chains: list[list[int]] = []
    for line in lines:
        s, t = line.source, line.target
        if s == t:
            chains.append([])
            continue
        step = 1 if net.rank[t] > net.rank[s] else -1
        chain = [s, net.add(net.rank[s] + step, line.width / 2, line.width / 2, line.height)]
        for rank in range(net.rank[s] + 2 * step, net.rank[t], step):
            key = (t, line.kind, step, rank)
            if key not in trunks:
                trunks[key] = net.add(rank, 0, 0, 0, real=False)
            chain.append(trunks[key])
        chain.append(t)
        for a, b in zip(chain, chain[1:], strict=False):
            net.join(a, b)
        chains.append(chain)
    return chains


def _layers(net: _Net) -> list[list[int]]:
    layers: list[list[int]] = [[] for _ in range(max(net.rank, default=-1) + 1)]
    for v, rank in enumerate(net.rank):
        layers[rank].append(v)
    return layers


# -- order ----------------------------------------------------------------------------------------


def _ordered(net: _Net, layers: list[list[int]]) -> list[list[int]]:
    best, fewest = layers, None
    sweeps = max(2, min(10, _EFFORT // (len(net.rank) + 1) // 4))
    for sweep in range(sweeps):
        down = sweep % 2 == 0
        layers = [list(layer) for layer in layers]
        place = [0.0] * len(net.rank)
        for layer in layers:
            for i, v in enumerate(layer):
                place[v] = float(i)
        for layer in layers if down else reversed(layers):
            near = net.above if down else net.below
            middle = {v: sum(place[w] for w in near[v]) / len(near[v]) if near[v] else place[v] for v in layer}
            layer.sort(key=middle.__getitem__)
            for i, v in enumerate(layer):
                place[v] = float(i)
        crossings = _crossings(net, layers, place)
        if fewest is None or crossings < fewest:
            best, fewest = layers, crossings
        if fewest == 0:
            break
    return best


def _crossings(net: _Net, layers: Sequence[Sequence[int]], place: Sequence[float]) -> int:
    count = 0
    for layer in layers:
        seen: list[float] = []
        for v in layer:
            ends = sorted(place[w] for w in net.below[v])
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count


# -- positions ------------------------------------------------------------------------------------


def _positions(net: _Net, layers: Sequence[Sequence[int]]) -> list[float]:
    xs = [0.0] * len(net.rank)
    for layer in layers:
        x = 0.0
        for i, v in enumerate(layer):
            x += net.space(layer[i - 1], v) if i else 0.0
            xs[v] = x
        for v in layer:
            xs[v] -= x / 2
    sweeps = max(4, min(16, _EFFORT // (len(net.rank) + 1)))
    for sweep in range(sweeps):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            _settle(net, layer, xs, (net.above, net.below) if down else (net.below, net.above), both=sweep >= sweeps - 2)
    least = min((xs[v] - net.left[v] for v in range(len(xs))), default=0.0)
    return [x - least for x in xs]


def _settle(
    net: _Net, layer: Sequence[int], xs: list[float], near: tuple[list[list[int]], list[list[int]]], *, both: bool
) -> None:
    """Move a rank as near to its neighbours' means as order and widths allow: the least squares of it (pool adjacent violators)."""
    blocks: list[list[float]] = []  # weighted sum, weight, members
    offsets: list[float] = []
    offset = 0.0
    for i, v in enumerate(layer):
        offset += net.space(layer[i - 1], v) if i else 0.0
        offsets.append(offset)
        around = [*near[0][v], *near[1][v]] if both else near[0][v] or near[1][v]
        total = weight = 0.0
        for w in around:
            # Long lines are to be straight before anything else is.
            pull = 8.0 if not net.real[v] and not net.real[w] else 2.0 if not (net.real[v] and net.real[w]) else 1.0
            total += pull * xs[w]
            weight += pull
        if not around:
            total, weight = xs[v] * 0.1, 0.1
        blocks.append([total - weight * offset, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            total_, weight_, members = blocks.pop()
            blocks[-1][0] += total_
            blocks[-1][1] += weight_
            blocks[-1][2] += members
    at = 0
    for total, weight, members in blocks:
        for i in range(at, at + int(members)):
            xs[layer[i]] = total / weight + offsets[i]
        at += int(members)


def _bands(net: _Net, layers: Sequence[Sequence[int]], xs: Sequence[float]) -> tuple[list[float], list[float]]:
    """Top and bottom of each rank; where lines go far sideways, the ranks stand further apart."""
    tops: list[float] = []
    bottoms: list[float] = []
    y = 0.0
    for layer in layers:
        tops.append(y)
        y += max(net.height[v] for v in layer)
        bottoms.append(y)
        y += max(_GAP, min(48.0, _STEEP * max((abs(xs[v] - xs[w]) for v in layer for w in net.below[v]), default=0.0)))
    return tops, bottoms


# -- lines ----------------------------------------------------------------------------------------


def _ports(
    net: _Net, boxes: Sequence[Box], lines: Sequence[Line], chains: Sequence[Sequence[int]], xs: Sequence[float]
) -> list[tuple[float, float]]:
    """Where each line leaves its source and enters its target: side by side, in the order of what they lead to."""
    sides: dict[tuple[int, bool], dict[tuple[object, ...], float]] = defaultdict(dict)
    ends: list[list[tuple[tuple[int, bool], tuple[object, ...]]]] = []
    for i, chain in enumerate(chains):
        ends.append([])
        if not chain:
            continue
        down = net.rank[chain[-1]] > net.rank[chain[0]]
        out, into = (chain[0], down), (chain[-1], not down)
        sides[out]["out", i] = xs[chain[1]]
        key = ("in", lines[i].kind)
        had = sides[into].get(key)
        sides[into][key] = xs[chain[-2]] if had is None else (had + xs[chain[-2]]) / 2
        ends[i] = [(out, ("out", i)), (into, key)]
    at: dict[tuple[tuple[int, bool], tuple[object, ...]], float] = {}
    for side, wanted in sides.items():
        room = boxes[side[0]].width - 20
        keys = sorted(wanted, key=lambda k: (wanted[k], str(k)))
        step = min(26.0, room / max(1, len(keys)))
        for n, key in enumerate(keys):
            at[side, key] = xs[side[0]] + (n - (len(keys) - 1) / 2) * step
    return [(at[e[0]], at[e[1]]) if e else (0.0, 0.0) for e in ends]


def _route(
    net: _Net,
    chain: Sequence[int],
    xs: Sequence[float],
    tops: Sequence[float],
    bottoms: Sequence[float],
    ports: tuple[float, float],
) -> Route:
    down = net.rank[chain[-1]] > net.rank[chain[0]]
    near, far = (tops, bottoms) if down else (bottoms, tops)
    source, label, target = chain[0], chain[1], chain[-1]
    middle = (tops[net.rank[label]] + bottoms[net.rank[label]]) / 2
    half = net.height[label] / 2 * (1 if down else -1)

    def edge(v: int, *, leaving: bool) -> float:
        """The y of a box's border: boxes stand in the middle of their rank, which may be higher than they are."""
        centre = (tops[net.rank[v]] + bottoms[net.rank[v]]) / 2
        return centre + net.height[v] / 2 * (1 if leaving == down else -1)

    first = [
        (ports[0], edge(source, leaving=True)),
        (ports[0], far[net.rank[source]]),
        (xs[label], near[net.rank[label]]),
        (xs[label], middle - half),
    ]
    rest = [(xs[label], middle + half), (xs[label], far[net.rank[label]])]
    for v in chain[2:-1]:
        rest += [(xs[v], near[net.rank[v]]), (xs[v], far[net.rank[v]])]
    tip = (ports[1], edge(target, leaving=False))
    rest += [(ports[1], near[net.rank[target]]), tip]
    return Route((_curve(first), _curve(rest)), (xs[label], middle), tip, "down" if down else "up")


def _curve(points: Sequence[Point]) -> tuple[Point, ...]:
    """Points as one smooth curve that is vertical in each of them."""
    points = list(_kept(points))
    curve = [points[0]]
    for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
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
