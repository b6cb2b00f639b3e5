"""A definition's table as a graph, and a run's way through it. Read from the table the run loop reads, so they cannot differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loomnb.present import STATUS_TEXT, Graph, GraphEdge, GraphNode
from loomnb.runtime.definition import END, START, Definition, Move
from loomnb.runtime.lifecycle import Status
from loomnb.runtime.record import RunRecord
from loomnb.runtime.registry import REGISTRY

__all__ = ["definition_graph", "run_graph"]


def definition_graph(definition: Definition) -> Graph:
    """The graph of a definition: the places from the start on, as they are reached, then those that cannot be reached."""
    edges: list[GraphEdge] = []
    found: dict[str, None] = {}
    todo = [*reversed(definition.places), START]
    while todo:
        place = todo.pop()
        if place in found:
            continue
        found[place] = None
        leaving = [
            replace(edge, to=definition.shown(edge.to)) for move in definition.moves_from(place) or () for edge in _edges(move)
        ]
        edges += leaving
        todo += [edge.to for edge in reversed(leaving)]
    order = [p for p in found if p != END and definition.shown(p) == p]
    nodes = [_node(p, *definition.group_of(p)) for p in (*order, END)]
    return Graph(
        title=definition.title, nodes=tuple(nodes), edges=tuple(e for e in edges if definition.shown(e.from_) == e.from_)
    )


def run_graph(record: RunRecord) -> Graph:
    """The graph of a run: its definition's, with the way it took and where it is."""
    definition = REGISTRY.get(record.workflow)
    if definition is None:
        note = "only the way taken: its definition is not known here"
        graph = Graph(title=record.title, nodes=(_node(START), _node(END)), edges=(), note=note)
    else:
        graph = replace(definition_graph(definition), title=record.title)
    view = record.view
    by_child = view.status is Status.WAITING and view.waiting_for == "child"
    shown = definition.shown if definition is not None else str
    way: list[tuple[str, str]] = []
    before = ""
    for place, name in record.path:
        if place == before or not way or shown(place) != way[-1][0]:  # else a place that was only passed through
            way.append((shown(place), name))
        before = place
    return graph.lit(tuple(way), shown(view.place), "waiting for a sub-workflow" if by_child else STATUS_TEXT[view.status.value])


def _node(place: str, group: str = "", label: str = "") -> GraphNode:
    return GraphNode(name=place, group=group, label=label, kind="start" if place == START else "end" if place == END else "place")


def _edges(move: Move) -> Iterable[GraphEdge]:
    if move.routes:
        yield from (GraphEdge(name=outcome, from_=move.from_, to=to) for outcome, to in move.routes)
        return
    retries = max(0, move.retry_attempts)
    yield GraphEdge(
        name=move.name,
        from_=move.from_,
        to=move.to,
        kind="manual" if move.wait else "automatic",
        guard=move.guard_name,
        priority=move.priority,
        retries=retries,
    )
    if move.retry_target is not None and retries and move.retry_target != move.from_:
        yield GraphEdge(name=move.name, from_=move.from_, to=move.retry_target, kind="retry")
    if move.error_place is not None:
        yield GraphEdge(name=move.name, from_=move.from_, to=move.error_place, kind="error")
