"""What drawing a workflow of 100 places costs: every form of its graph, from the table to the bundle a notebook gets.

Beside it the time of `json.dumps` of the same table in the same run: the seconds belong to the machine, the ratio does not.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import rounds

import loomnb as loom
from loomnb.workflows import definition_of

PLACES = 100
LIMIT = 200.0  # milliseconds


def flow(places: int) -> type[Any]:
    """A chain with waits that skip, guards that lead back, loops, and one error place: 1.7 transitions per place."""
    names = ["start", *(f"place_{i}" for i in range(1, places - 2)), "trouble", "end"]
    chain = [n for n in names if n != "trouble"]
    members: dict[str, Any] = {"not_yet": lambda self, state: False}

    def add(name: str, *, guard: str = "", **options: Any) -> None:
        def body(self: Any) -> None: ...

        body.__name__ = name
        members[name] = loom.transition(**options)(loom.guard(guard)(body) if guard else body)

    for i, place in enumerate(chain[:-1]):
        failing = {"error_place": "trouble"} if i % 3 == 0 else {}
        add(f"go_{i}", from_=place, to=chain[i + 1], retry_attempts=2, **failing)
        if i % 5 == 1:
            add(f"skip_{i}", from_=place, to=chain[min(len(chain) - 1, i + 8)], wait=True)
        if i % 7 == 2:
            add(f"back_{i}", from_=place, to=chain[max(1, i - 9)], guard="not_yet", priority=i)
        if i % 11 == 4:
            add(f"again_{i}", from_=place, to=place, wait=True)
    add("fix", from_="trouble", to=chain[1], wait=True)
    return loom.workflow(type("Big", (loom.BaseWorkflow,), members))


def times_of(count: int, work: Callable[[], object]) -> tuple[float, float]:
    """The median and the least, in milliseconds."""
    times: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), min(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    big = flow(PLACES)
    graph = big.graph()
    definition = definition_of(big)
    table = [
        {f.name: getattr(m, f.name) for f in dataclasses.fields(m) if f.name != "guard"}
        for place in definition.places
        for m in definition.moves_from(place) or ()
    ]
    way = [(n.name, "") for n in graph.nodes]
    whole = times_of(options.rounds, lambda: big.graph()._repr_mimebundle_())
    figures = {
        "W.graph(), every form": whole,
        "… the svg only": times_of(options.rounds, lambda: dataclasses.replace(graph).svg),
        "… of a run": times_of(options.rounds, lambda: graph.lit(way, "end", "completed")._repr_mimebundle_()),
        "json.dumps(table)": times_of(options.rounds * 20, lambda: json.dumps(table)),
    }
    dump = figures["json.dumps(table)"]
    print(f"{len(graph.nodes)} places, {len(graph.edges)} edges, {len(graph.svg):,} characters of SVG\n")
    print("| | ms, median | ms, least | x json.dumps(table), least |\n|---|---|---|---|")
    for name, (median, least) in figures.items():
        print(f"| {name} | {median:.2f} | {least:.2f} | {least / dump[1]:.0f} |")
    print("\nTargets:")
    return 0 if rounds.verdict(f"every form of {len(graph.nodes)} places, ms", whole[0], LIMIT, at_least=False) else 1


if __name__ == "__main__":
    sys.exit(main())
