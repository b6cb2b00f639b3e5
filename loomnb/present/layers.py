"""Which rank each box, label and passing line of a graph stands on, in which order, and how far to the right.

The steps of a layered drawing (Sugiyama, Tagawa and Toda, 1981), kept simple because workflows are small:

1. Ranks: the longest path from the first box; lines that lead back, and loops, do not count.
2. Each line's label is a vertex of its own, on a rank between two ranks of boxes and next to where the line begins, so a label
   never lies on anything. What is left of the way goes through one point per rank. Lines of one kind that lead to the same
   box share these points: a hundred error edges are one trunk with a hundred branches.
3. Order within a rank by barycentres, swept down and up; the order with the fewest crossings is kept.
4. Positions: each vertex is drawn to the mean of its neighbours, as near as the order and the widths allow; then long lines
   are made straight.

Everything is ordered by index and computed with plain arithmetic: the same input gives the same drawing, to the digit.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["Line", "Net", "chains_of", "layers_of", "ordered", "positions", "ranks_of", "straighten"]

_SPACE = 16.0  # between neighbours on a rank
_TIGHT = 9.0  # the same beside a line that only passes
_EFFORT = 60_000  # vertices looked at while sweeping; large graphs get fewer sweeps


@dataclass(frozen=True, slots=True)
class Line:
    """A line between two boxes (by index), with the size of its label. `kind`: lines of one kind may share a trunk."""

    source: int
    target: int
    width: float
    height: float
    kind: str = ""


@dataclass(slots=True)
class Net:
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


# -- ranks ----------------------------------------------------------------------------------------


def ranks_of(count: int, lines: Sequence[Line], last: int | None) -> list[int]:
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
        rank[last] = max(rank)
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


def chains_of(net: Net, lines: Sequence[Line]) -> list[list[int]]:
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
        for a, b in pairwise(chain):
            net.join(a, b)
        chains.append(chain)
    return chains


def layers_of(net: Net) -> list[list[int]]:
    layers: list[list[int]] = [[] for _ in range(max(net.rank, default=-1) + 1)]
    for v, rank in enumerate(net.rank):
        layers[rank].append(v)
    return layers


# -- order ----------------------------------------------------------------------------------------


def ordered(net: Net, layers: list[list[int]]) -> list[list[int]]:
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


def _crossings(net: Net, layers: Sequence[Sequence[int]], place: Sequence[float]) -> int:
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


def positions(net: Net, layers: Sequence[Sequence[int]]) -> list[float]:
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
    return xs


def _settle(
    net: Net, layer: Sequence[int], xs: list[float], near: tuple[list[list[int]], list[list[int]]], *, both: bool
) -> None:
    """Move a rank as near to its neighbours' means as order and widths allow: least squares, by pooling adjacent violators."""
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


def straighten(net: Net, layers: Sequence[Sequence[int]], xs: list[float], boxes: int) -> None:
    """Let long lines run straight as far as their neighbours leave room: few bends, and each where it must be."""
    at = {v: (layer, i) for layer in layers for i, v in enumerate(layer)}

    def room(v: int) -> tuple[float, float]:
        layer, i = at[v]
        least = xs[layer[i - 1]] + net.space(layer[i - 1], v) if i else -math.inf
        most = xs[layer[i + 1]] - net.space(v, layer[i + 1]) if i + 1 < len(layer) else math.inf
        return least, most

    for top in range(boxes, len(xs)):
        above = net.above[top]
        if net.real[top] or any(not net.real[w] for w in above):
            continue
        run = [above[0], top] if len(above) == 1 and above[0] >= boxes else [top]
        while (following := next((w for w in net.below[run[-1]] if not net.real[w]), None)) is not None:
            run.append(following)
        if len(net.below[run[-1]]) == 1 and net.below[run[-1]][0] >= boxes:
            run.append(net.below[run[-1]][0])
        piece: list[int] = []
        least, most = -math.inf, math.inf
        for v in [*run, None]:
            low, high = room(v) if v is not None else (math.inf, -math.inf)
            if piece and max(least, low) > min(most, high):
                mean = sum(xs[w] for w in piece) / len(piece)
                for w in piece:
                    xs[w] = min(max(mean, least), most)
                piece, least, most = [], -math.inf, math.inf
            if v is not None:
                piece.append(v)
                least, most = max(least, low), min(most, high)
