"""Durable moves per second: loomnb, LangGraph's SQLite checkpointers, and the bare limits.

The workload is the same for all: runs of ten linear moves, each of which replaces a state of 1 KB and is durable before
the next begins (pipelined, where the name says so). What an engine writes at a run's start and end is on its clock, but
does not count as a move.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import rounds
from rounds import data

MOVES = 10
IN_FLIGHT = 16


# ---- the bare limits ----------------------------------------------------------------------------


def append_fsync(o: argparse.Namespace) -> Iterator[None]:
    file = os.open(o.folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    yield
    for _ in range(o.runs):
        for k in range(MOVES):
            os.write(file, json.dumps({"step": k + 1, "data": data(k, o.size)}).encode())
            os.fsync(file)
    yield
    os.close(file)


def duckdb_insert(o: argparse.Namespace, width: int = 1) -> Iterator[None]:
    """One autocommitted INSERT per move; with `width` runs in flight one for all of them (group commit at its best)."""
    import duckdb

    db = duckdb.connect(str(o.folder / "journal.duckdb"))
    db.execute("create table journal(run varchar, seq integer, name varchar, ts timestamptz default now(), state json)")
    (insert,) = db.extract_statements(
        "insert into journal(run, seq, name, state) select unnest(?::varchar[]), ?, ?, unnest(?::varchar[])"
        if width > 1
        else "insert into journal(run, seq, name, state) values (?, ?, ?, ?)"
    )
    yield
    for first in range(0, o.runs, width):
        runs = [f"r{i}" for i in range(first, min(first + width, o.runs))]
        for k in range(MOVES):
            states = [json.dumps({"step": k + 1, "data": data(k, o.size)}) for _ in runs]
            who, what = (runs, states) if width > 1 else (runs[0], states[0])
            db.execute(insert, [who, k, f"s{k}", what])
    yield
    db.close()


# ---- LangGraph ----------------------------------------------------------------------------------


def langgraph_app(saver: Any, size: int) -> Any:
    from typing import TypedDict

    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        step: int
        data: dict

    graph = StateGraph(State)
    for k in range(MOVES):

        def node(state: State, k: int = k) -> dict[str, Any]:
            return {"step": k + 1, "data": data(k, size)}

        graph.add_node(f"s{k}", node)
        graph.add_edge(f"s{k - 1}" if k else START, f"s{k}")
    graph.add_edge(f"s{MOVES - 1}", END)
    return graph.compile(checkpointer=saver)


def first_state(o: argparse.Namespace) -> dict[str, Any]:
    return {"step": 0, "data": data(0, o.size)}


def langgraph(o: argparse.Namespace, durability: str) -> Iterator[None]:
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    db = sqlite3.connect(o.folder / "lg.sqlite", check_same_thread=False)
    saver = SqliteSaver(db)
    saver.setup()
    app = langgraph_app(saver, o.size)
    app.invoke(first_state(o), {"configurable": {"thread_id": "warm"}}, durability=durability)
    yield
    for i in range(o.runs):
        end = app.invoke(first_state(o), {"configurable": {"thread_id": f"r{i}"}}, durability=durability)
        assert end["step"] == MOVES
    yield
    db.close()


def langgraph_aio(o: argparse.Namespace, durability: str, width: int = 1) -> Iterator[None]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    loop = asyncio.new_event_loop()
    opened = AsyncSqliteSaver.from_conn_string(str(o.folder / "lg.sqlite"))
    saver = loop.run_until_complete(opened.__aenter__())
    loop.run_until_complete(saver.setup())
    app = langgraph_app(saver, o.size)

    async def one(name: str) -> None:
        end = await app.ainvoke(first_state(o), {"configurable": {"thread_id": name}}, durability=durability)
        assert end["step"] == MOVES

    async def every() -> None:
        for first in range(0, o.runs, width):
            await asyncio.gather(*(one(f"r{i}") for i in range(first, min(first + width, o.runs))))

    loop.run_until_complete(one("warm"))
    yield
    loop.run_until_complete(every())
    yield
    loop.run_until_complete(opened.__aexit__(None, None, None))
    loop.close()


# ---- loomnb -------------------------------------------------------------------------------------


def linear_workflow(size: int) -> Any:
    """Ten transitions, s0 to s9, each replacing the state."""
    import loomnb as loom

    def move(k: int) -> Any:
        async def body(self: Any, state: Any, ctx: Any) -> None:
            self.assign_state({"step": k + 1, "data": data(k, size)})

        body.__name__ = f"s{k}"
        body.__qualname__ = f"Linear.s{k}"
        source, target = f"p{k}" if k else "start", f"p{k + 1}" if k + 1 < MOVES else "end"
        return loom.transition(from_=source, to=target)(body)

    made = type("Linear", (loom.BaseWorkflow,), {f"s{k}": move(k) for k in range(MOVES)} | {"__module__": __name__})
    return loom.workflow()(made)


def loomnb(o: argparse.Namespace, durability: str = "sync", width: int = 1) -> Iterator[None]:
    import loomnb as loom

    loom.open(str(o.folder / "loom.duckdb"), durability=durability)
    workflow = linear_workflow(o.size)
    loom.start(workflow, {"run": -1}).wait(timeout=60)
    flying: deque[Any] = deque()

    def land() -> None:
        run = flying.popleft()
        run.wait(timeout=60)
        assert run.status == "completed", run.status

    yield
    for i in range(o.runs):
        flying.append(loom.start(workflow, {"run": i}))
        if len(flying) == width:
            land()
    while flying:
        land()
    yield
    loom.close()


ENGINES: dict[str, rounds.Engine] = {
    "limit: append + fsync": append_fsync,
    "limit: DuckDB INSERT per move": duckdb_insert,
    f"limit: DuckDB INSERT per {IN_FLIGHT} moves": lambda o: duckdb_insert(o, IN_FLIGHT),
    "LangGraph SqliteSaver sync": lambda o: langgraph(o, "sync"),
    "LangGraph SqliteSaver async": lambda o: langgraph(o, "async"),
    "LangGraph AsyncSqliteSaver sync": lambda o: langgraph_aio(o, "sync"),
    "LangGraph AsyncSqliteSaver async": lambda o: langgraph_aio(o, "async"),
    f"LangGraph AsyncSqliteSaver sync, {IN_FLIGHT} in flight": lambda o: langgraph_aio(o, "sync", IN_FLIGHT),
    "loomnb one run": loomnb,
    "loomnb one run, pipelined": lambda o: loomnb(o, "pipelined"),
    f"loomnb {IN_FLIGHT} in flight": lambda o: loomnb(o, "sync", IN_FLIGHT),
}
PEER = "LangGraph SqliteSaver sync"
TARGETS = {"loomnb one run": 0.8, "loomnb one run, pipelined": 3.0, f"loomnb {IN_FLIGHT} in flight": 4.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=48)
    parser.add_argument("--size", type=int, default=1000, help="bytes of state")
    figures = rounds.main(__file__, ENGINES, parser)
    if figures is None:
        return 0
    moves = parser.parse_args().runs * MOVES
    speed = {name: moves / rounds.median(rows, "wall") for name, rows in figures.items()}
    peer = speed.get(PEER)
    print(f"\n{moves} moves of 1 KB state per engine and round; median of {len(next(iter(figures.values())))} rounds\n")
    print(f"| engine | durable moves/s (min..max) | x {PEER} | CPU ms/move | bytes/move |\n|---|---|---|---|---|")
    for name, rows in figures.items():
        low, high = moves / max(r["wall"] for r in rows), moves / min(r["wall"] for r in rows)
        ratio = f"{speed[name] / peer:.2f}" if peer else "-"
        cpu, size = rounds.median(rows, "cpu") * 1e3 / moves, rounds.median(rows, "bytes") / moves
        print(f"| {name} | {speed[name]:.0f} ({low:.0f}..{high:.0f}) | {ratio} | {cpu:.2f} | {size:.0f} |")
    print(f"\nTargets, as multiples of {PEER}:")
    met = [
        rounds.verdict(name, speed[name] / peer if peer and name in speed else None, target, at_least=True)
        for name, target in TARGETS.items()
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
