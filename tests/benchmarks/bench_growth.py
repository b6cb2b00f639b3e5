"""What a move costs as its run grows: ms per move over the first and the last 10 %, and bytes per move.

One run of 10,000 moves. `constant` replaces a state of 1 KB; `appended` adds an item of 200 B to a list in the state.
Beside it: one DuckDB INSERT per move (of the state, or of the item) as the limit, and LangGraph's SqliteSaver, which
stores the whole state at every step and is therefore measured on 1,000 moves only.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from typing import Any

import rounds
from rounds import data

CONSTANT, APPENDED = 1000, 200


class Clock:
    """Notes the time at each move's body; a move lasts until the next one's body begins."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.at = options, list[float]()

    def tick(self) -> None:
        self.at.append(time.perf_counter())

    def note(self, moves: int) -> None:
        """Mean ms per move of both ends: what one pays, a checkpoint of the database included."""
        tenth = max(1, (len(self.at) - 1) // 10)
        first = (self.at[tenth] - self.at[0]) / tenth * 1e3
        last = (self.at[-1] - self.at[-1 - tenth]) / tenth * 1e3
        self.options.figures |= {"first": first, "last": last, "moves": moves}


def loomnb(o: argparse.Namespace, *, appended: bool, moves: int | None = None) -> Iterator[None]:
    import loomnb as loom

    moves, clock = moves or o.moves, Clock(o)

    @loom.workflow(step_limit=2 * moves)
    class Loop(loom.BaseWorkflow):
        @loom.transition(to="loop")
        async def begin(self, state: Any, ctx: Any) -> None:
            self.assign_state({"step": 0, "items": []} if appended else {"step": 0, "data": data(0, CONSTANT)})

        @loom.transition(from_="loop", to="loop", priority=10)
        @loom.guard("more")
        async def again(self, state: Any, ctx: Any) -> None:
            clock.tick()
            step = state["step"]
            if appended:
                self.assign_state({"step": step + 1, "items": [*state["items"], data(step, APPENDED)]})
            else:
                self.assign_state({"step": step + 1, "data": data(step, CONSTANT)})

        @loom.transition(from_="loop", to="end")
        async def done(self, state: Any, ctx: Any) -> None:
            clock.tick()

        def more(self, state: Any) -> bool:
            return bool(state["step"] < moves)

    loom.open(str(o.folder / "loom.duckdb"))
    yield
    run = loom.start(Loop, {})
    run.wait(timeout=1800)
    assert run.status == "completed", run.status
    yield
    clock.note(moves)
    loom.close()


def duckdb_insert(o: argparse.Namespace, *, appended: bool) -> Iterator[None]:
    import duckdb

    clock = Clock(o)
    db = duckdb.connect(str(o.folder / "journal.duckdb"))
    db.execute("create table journal(run varchar, seq integer, name varchar, ts timestamptz default now(), state json)")
    (insert,) = db.extract_statements("insert into journal(run, seq, name, state) values (?, ?, ?, ?)")
    yield
    for step in range(o.moves):
        clock.tick()
        db.execute(insert, ["r", step, "again", json.dumps(data(step, APPENDED if appended else CONSTANT))])
    clock.tick()
    yield
    clock.note(o.moves)
    db.close()


def langgraph(o: argparse.Namespace, *, appended: bool) -> Iterator[None]:
    import operator
    from typing import Annotated, TypedDict

    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    moves, clock = o.moves // 10, Clock(o)
    State = TypedDict("State", {"step": int, "items": Annotated[list, operator.add], "data": dict})  # noqa: UP013 - the annotation must be a value here, not text

    def again(state: State) -> dict[str, Any]:
        clock.tick()
        step = state["step"]
        new = {"items": [data(step, APPENDED)]} if appended else {"data": data(step, CONSTANT)}
        return {"step": step + 1, **new}

    graph = StateGraph(State)
    graph.add_node("again", again)
    graph.add_edge(START, "again")
    graph.add_conditional_edges("again", lambda state: "again" if state["step"] < moves else END)
    db = sqlite3.connect(o.folder / "lg.sqlite", check_same_thread=False)
    saver = SqliteSaver(db)
    saver.setup()
    app = graph.compile(checkpointer=saver)
    yield
    app.invoke(
        {"step": 0, "items": [], "data": {}},
        {"configurable": {"thread_id": "r"}, "recursion_limit": 10**6},
        durability="sync",
    )
    clock.tick()
    yield
    clock.note(moves)
    db.close()


ENGINES: dict[str, rounds.Engine] = {
    "limit: DuckDB INSERT, constant": lambda o: duckdb_insert(o, appended=False),
    "limit: DuckDB INSERT, appended": lambda o: duckdb_insert(o, appended=True),
    "LangGraph SqliteSaver, constant": lambda o: langgraph(o, appended=False),
    "LangGraph SqliteSaver, appended": lambda o: langgraph(o, appended=True),
    "loomnb, constant": lambda o: loomnb(o, appended=False),
    "loomnb, appended": lambda o: loomnb(o, appended=True),
    "loomnb, appended, a tenth": lambda o: loomnb(o, appended=True, moves=o.moves // 10),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=10_000)
    parser.set_defaults(rounds=1)
    figures = rounds.main(__file__, ENGINES, parser)
    if figures is None:
        return 0
    row = {name: {key: rounds.median(rows, key) for key in rows[0]} for name, rows in figures.items()}
    print("\n| engine | moves | ms/move first 10 % -> last 10 % | last/first | bytes/move | peak memory MB |")
    print("|---|---|---|---|---|---|")
    for name, r in row.items():
        ends = f"{r['first']:.2f} -> {r['last']:.2f} | {r['last'] / r['first']:.2f}"
        print(f"| {name} | {r['moves']:.0f} | {ends} | {r['bytes'] / r['moves']:.0f} | {r['peak']:.0f} |")

    def ratio(name: str) -> float | None:
        return row[name]["last"] / row[name]["first"] if name in row else None

    def bytes_ratio() -> float | None:
        many, few = row.get("loomnb, appended"), row.get("loomnb, appended, a tenth")
        return (many["bytes"] / many["moves"]) / (few["bytes"] / few["moves"]) if many and few else None

    print("\nTargets:")
    met = [
        rounds.verdict("last/first with constant state", ratio("loomnb, constant"), 1.2, at_least=False),
        rounds.verdict("last/first with appended state", ratio("loomnb, appended"), 1.2, at_least=False),
        # O(n) in bytes: ten times the moves must not make a move bigger (O(n^2) would make it ten times as big).
        rounds.verdict("bytes/move, all moves to a tenth of them", bytes_ratio(), 1.2, at_least=False),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
