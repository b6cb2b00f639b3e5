"""kill -9 at random moments: nothing acknowledged is lost, nothing acknowledged is made again.

200 runs over 16 kills, several in flight at each, in both durabilities. A move in flight at a kill may start again, under
the same idempotency key: at most one for each run and kill, or with pipelined durability those whose commit was in flight.
"""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import loomnb as loom
from tests.crash.child import MOVES

CHILD = Path(__file__).with_name("child.py")
RUNS, KILLS = 100, 8  # each durability
PATIENCE = 30.0


@dataclass
class Told:
    """What the killed processes said before they died."""

    moves: dict[str, int] = field(default_factory=dict)  # run -> acknowledged moves, as far as anybody saw
    finished: dict[str, object] = field(default_factory=dict)  # run -> its result
    is_done: bool = False

    def hear(self, line: str) -> None:
        if not line.endswith("\n"):
            return  # cut off by the kill: nobody saw it
        word, *rest = line.split(maxsplit=2)
        if word == "seen":
            moves = int(rest[1].split()[0])
            assert moves >= self.moves.get(rest[0], 0), f"{rest[0]} went back from {self.moves[rest[0]]} moves to {moves}"
            self.moves[rest[0]] = moves
        elif word == "result":
            self.finished[rest[0]] = json.loads(rest[1])
        self.is_done = self.is_done or word == "done"


def session_of_a_child(folder: Path, durability: str, told: Told, *, first: int, count: int, kill_after: float | None) -> None:
    """Run the child and hear all it says; kill it so many seconds after it began to move runs, or let it end."""
    env = {**os.environ, "EFFECTS": str(folder / "effects.txt")}
    command = [sys.executable, str(CHILD), str(folder / "s.duckdb"), durability, str(first), str(count)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        timer = threading.Timer(PATIENCE, child.kill)
        timer.start()
        try:
            ready = child.stdout.readline()
            if not ready.startswith(("ready", "seen")):
                raise AssertionError(f"the child did not start: {ready}{child.stderr.read() if child.stderr else ''}")
            told.hear(ready)
            if kill_after is not None:
                killer = threading.Timer(kill_after, os.kill, [child.pid, signal.SIGKILL])
                killer.start()
            for line in child.stdout:
                told.hear(line)
            if kill_after is not None:
                killer.cancel()
            error = child.stderr.read() if child.stderr else ""
        finally:
            timer.cancel()
    assert child.returncode in {0, -signal.SIGKILL}, error
    if kill_after is None:
        assert told.is_done, f"the last child did not come to its end: {error}"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("durability", ["sync", "pipelined"])
def test_nothing_acknowledged_is_lost_or_made_again(tmp_path: Path, durability: str) -> None:
    chance = random.Random(20261130)
    told = Told()
    start = time.monotonic()
    seen_before: list[dict[str, int]] = []
    effects_before: list[int] = []
    for kill in range(KILLS):
        first, count = kill * RUNS // KILLS, RUNS // KILLS + 1
        session_of_a_child(tmp_path, durability, told, first=first, count=count, kill_after=chance.uniform(0.01, 0.35))
        seen_before.append(dict(told.moves))
        effects_before.append(len(effects(tmp_path)))
    session_of_a_child(tmp_path, durability, told, first=0, count=RUNS, kill_after=None)

    made = effects(tmp_path)
    keys: dict[tuple[str, int], set[str]] = collections.defaultdict(set)
    starts: collections.Counter[tuple[str, int]] = collections.Counter()
    for run_id, number, key in made:
        keys[run_id, number].add(key)
        starts[run_id, number] += 1
    again = {what: n for what, n in starts.items() if n > 1}
    print(
        f"figure: {durability}: {len(told.moves)} runs, {KILLS} kills, {len(made)} effects, {len(again)} moves made again, "
        f"{time.monotonic() - start:.0f} s"
    )

    # Nothing lost: every run of every process ends, whole and in order.
    assert len(told.moves) == RUNS
    assert told.finished == {run_id: {"made": list(range(1, MOVES + 1))} for run_id in told.moves}
    assert {run_id for run_id, _ in starts} == set(told.moves)
    # The same key for the same move, whoever makes it, and no other.
    assert {what: len(found) for what, found in keys.items() if len(found) > 1} == {}
    assert len({key for found in keys.values() for key in found}) == RUNS * MOVES
    # No acknowledged move again: what was seen before a kill has no effect after it.
    for before, seen in zip(effects_before, seen_before, strict=True):
        late = [(run_id, number) for run_id, number, _ in made[before:] if number <= seen.get(run_id, 0)]
        assert late == []
    # At most one move of a run starts again at each kill; a pipelined run is a few moves ahead of its commits.
    most = 0
    for begin, end in zip([0, *effects_before], [*effects_before, len(made)], strict=True):
        known = {(run_id, number) for run_id, number, _ in made[:begin]}
        repeated = collections.Counter(run_id for run_id, number, _ in made[begin:end] if (run_id, number) in known)
        most = max([most, *repeated.values()])
    print(f"figure: {durability}: at most {most} moves of one run made again at one kill")
    assert most <= (1 if durability == "sync" else MOVES)
    assert again, "no kill met a move in flight: this test proves nothing"

    with loom.Loom(str(tmp_path / "s.duckdb")) as session:
        rows = session.sql("select run_id, list(move order by move) from moves group by run_id").fetchall()
        assert dict(rows) == {run_id: list(range(1, MOVES + 1)) for run_id in told.moves}
        assert session.sql("select distinct status from runs").fetchall() == [("completed",)]
        papers = session.sql("select run_id, count(*) from documents group by run_id having count(*) <> 3").fetchall()
        assert papers == []


def effects(folder: Path) -> list[tuple[str, int, str]]:
    """(run, move, key) of everything that was done to the world outside, in order."""
    path = folder / "effects.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(run_id, int(number), key) for run_id, number, key in (line.split() for line in lines)]
