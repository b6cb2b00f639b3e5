"""A workflow's places and transitions as data, text, Mermaid and a MIME bundle. What stands where is `layout`'s, the SVG is
`graph_svg`'s; who fills it in is no business of this room.

Names are anybody's text: each face here escapes them, and what could steer a terminal or break XML is replaced.
Deterministic, as every static form: no ids, no times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from loomnb.present.graph_svg import graph_svg
from loomnb.present.markdown import escape, markdown_safe, plain_line

__all__ = ["EdgeKind", "Graph", "GraphEdge", "GraphNode"]

EdgeKind = Literal["automatic", "manual", "error", "retry", "past"]
"""`manual` waits for an answer; `error` leads to an error place, `retry` to a retry target; `past` was taken, and the definition
known now has it no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A place.

    Attributes:
        group: the stage it belongs to, which is drawn as a frame around it.
        label: what is written; by default the name, without the stage it begins with.
    """

    name: str
    kind: Literal["start", "place", "end"] = "place"
    visited: bool = False
    current: bool = False
    group: str = ""
    label: str = ""

    @property
    def written(self) -> str:
        """What stands in its box."""
        return self.label or (self.name.removeprefix(f"{self.group}/") if self.group else self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """A transition, or where it leads when it fails."""

    name: str
    from_: str
    to: str
    kind: EdgeKind = "automatic"
    guard: str = ""
    priority: float | None = None
    retries: int = 0
    taken: bool = False

    @property
    def label(self) -> str:
        """What stands at the line."""
        return {"error": f"{self.name} fails", "retry": f"{self.name} again"}.get(self.kind, self.name)

    @property
    def detail(self) -> str:
        """When it may be taken: `[guard] · priority 10 · 3 retries`."""
        parts = [f"[{self.guard}]"] if self.guard else []
        parts += [f"priority {self.priority:g}"] if self.priority is not None else []
        parts += [f"{self.retries} {'retry' if self.retries == 1 else 'retries'}"] if self.retries > 0 else []
        return " · ".join(parts)


@dataclass(frozen=True, kw_only=True, repr=False)
class Graph:
    """The picture of a workflow, or of a run: as a cell's last line it is drawn, without a script and without the network.

    Attributes:
        nodes: its places; the start first.
        edges: what leads from one to another; those that leave one place in the order they are tried.
        status: for a run, how it stands.
        note: what a reader has to know about the picture.
    """

    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    status: str = ""
    note: str = ""

    def lit(self, path: Sequence[tuple[str, str]], current: str, status: str) -> Graph:
        """The same graph with the way of a run: (place, the move that led there), its start first.

        A step that is not in the graph is added to it as `past`.
        """
        steps = {(a, name, b): None for (a, _), (b, name) in pairwise(path)}
        keys = [(e.from_, e.name, e.to) for e in self.edges]
        first = {key: i for i, key in reversed(list(enumerate(keys)))}  # a failure that leads where success does: take success
        edges = [
            replace(e, taken=key in steps and first[key] == i) for i, (e, key) in enumerate(zip(self.edges, keys, strict=True))
        ]
        edges += [GraphEdge(name=n, from_=a, to=b, kind="past", taken=True) for a, n, b in steps if (a, n, b) not in first]
        visited = {place for place, _ in path} | {current}
        known = {n.name for n in self.nodes}
        groups = set(self.groups)
        new = [p for p in dict.fromkeys([*(p for p, _ in path), current]) if p not in known]
        stages = {p: p.partition("/")[0] for p in new}
        nodes = [*self.nodes, *(GraphNode(name=p, group=stages[p] if stages[p] in groups else "") for p in new)]
        return replace(
            self,
            nodes=tuple(replace(n, visited=n.name in visited, current=n.name == current) for n in nodes),
            edges=tuple(edges),
            status=status,
        )

    @property
    def current(self) -> str | None:
        """The place its run is in."""
        return next((n.name for n in self.nodes if n.current), None)

    @property
    def groups(self) -> tuple[str, ...]:
        """Its stages, in order."""
        return tuple(dict.fromkeys(n.group for n in self.nodes if n.group))

    @cached_property
    def svg(self) -> str:
        """The picture as one `<svg>` element, for a page or a file."""
        return graph_svg(self)

    @cached_property
    def text(self) -> str:
        """Each place, and below it what leaves it; the places of a stage below its name."""
        lines = [f"{plain_line(self.title)}: {self.status}" if self.status else plain_line(self.title)]
        lines += [f"! {self.note}"] if self.note else []
        leaving: dict[str, list[GraphEdge]] = {}
        for edge in self.edges:
            leaving.setdefault(edge.from_, []).append(edge)
        by_name = {n.name: n for n in self.nodes}
        for group, nodes in self.grouped():
            indent = "  " if group else ""
            lines += [f"{_mark(nodes)} {plain_line(group)}"] if group else []
            for node in nodes:
                lines.append(f"{indent}{_mark([node])} {plain_line(node.written)}")
                for edge in leaving.get(node.name, ()):
                    name = plain_line(edge.label) + (" (answer)" if edge.kind == "manual" else "")
                    detail = f"  {plain_line(edge.detail)}" if edge.detail else ""
                    to = by_name.get(edge.to)
                    near = to is None or to.group in ("", group)
                    target = plain_line(edge.to if to is None else to.written if near else f"{to.group}/{to.written}")
                    lines.append(f"{indent}  {'✓' if edge.taken else ' '} {name} → {target}{detail}")
        return "\n".join(lines)

    def grouped(self) -> list[tuple[str, list[GraphNode]]]:
        """The places in the order they are told: without stages as they are, else the start, the stages, the rest, the end."""
        if not self.groups:
            return [("", list(self.nodes))]
        free = [n for n in self.nodes if not n.group]
        stages = [(g, [n for n in self.nodes if n.group == g]) for g in self.groups]
        first, rest, last = ([n for n in free if n.kind == kind] for kind in ("start", "place", "end"))
        return [one for one in [("", first), *stages, ("", rest), ("", last)] if one[1]]

    @cached_property
    def mermaid(self) -> str:
        """The picture as a Mermaid flowchart; a stage is a subgraph."""
        number = {n.name: f"n{i}" for i, n in enumerate(self.nodes)}
        lines = ["flowchart TD"]
        stages = {group: f"g{i}" for i, group in enumerate(self.groups)}
        for group, nodes in self.grouped():
            lines += [f'  subgraph {stages[group]}["{_mermaid(group)}"]'] if group else []
            for node in nodes:
                opened, closed = {"start": ("([", "])"), "end": ("(((", ")))"), "place": ("(", ")")}[node.kind]
                lines.append(f'{"    " if group else "  "}{number[node.name]}{opened}"{_mermaid(node.written)}"{closed}')
            lines += ["  end"] if group else []
        for edge in self.edges:
            arrow = {"automatic": "-->", "manual": "==>", "past": "-.->", "error": "-.->", "retry": "-.->"}[edge.kind]
            label = " ".join(t for t in (_mermaid(edge.label), _mermaid(edge.detail)) if t)
            lines.append(f'  {number[edge.from_]} {arrow}|"{label}"| {number[edge.to]}')
        taken = [str(i) for i, e in enumerate(self.edges) if e.taken]
        visited = [number[n.name] for n in self.nodes if n.visited and not n.current]
        lines += [f"  linkStyle {','.join(taken)} stroke:#1976d2,stroke-width:3px"] if taken else []
        lines += ["  classDef visited stroke:#1976d2", f"  class {','.join(visited)} visited"] if visited else []
        if self.current is not None:
            lines += ["  classDef current stroke:#1976d2,stroke-width:4px", f"  class {number[self.current]} current"]
            lines += [f"  style {stages[n.group]} stroke:#1976d2,stroke-width:2px" for n in self.nodes if n.current and n.group]
        return "\n".join(lines)

    @cached_property
    def html(self) -> str:
        """The picture and, folded, its text."""
        # Where a page takes SVG out of what it does not trust, as JupyterLab does, it leaves the words: at size 0 nobody sees
        # them, and the text form below stays. The SVG's own texts say their size.
        return (
            f'<div class="loom-graph"><div style="overflow-x:auto;font-size:0">{self.svg}</div>'
            f"<details><summary>As text</summary><pre>{escape(self.text)}</pre></details></div>"
        )

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> Mapping[str, str]:
        return {
            "text/plain": self.text,
            "text/html": self.html,
            "image/svg+xml": self.svg,
            "text/markdown": f"**{markdown_safe(plain_line(self.title))}**\n\n```mermaid\n{self.mermaid}\n```",
        }


def _mark(nodes: Sequence[GraphNode]) -> str:
    return "▶" if any(n.current for n in nodes) else "●" if any(n.visited for n in nodes) else "○"


def _mermaid(text: str) -> str:
    """Text for a quoted Mermaid label: whatever its grammar or Markdown could read is written as its code."""
    return "".join(c if c.isalnum() or c in " _.,·" else f"#{ord(c)};" for c in plain_line(text))
