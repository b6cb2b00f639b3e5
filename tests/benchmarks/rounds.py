"""How these benchmarks measure: each engine in a process of its own, rounds in shuffled order, the median of rounds.

An engine is a generator that yields twice: it sets up (imports included), yields, does the work, yields, and cleans up.
Only the work is on the clock. Absolute figures belong to the machine of the moment; the ratios are what counts, so a
benchmark prints each figure beside a peer's, or beside a bare limit, taken in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Engine = Callable[[argparse.Namespace], Iterator[None]]
Figures = dict[str, Any]

_RANDOM = random.Random(7)
_NOISE = "".join(_RANDOM.choices("abcdefghijklmnopqrstuvwxyz0123456789 ", k=1_000_003))
_COUNT = itertools.count()


def data(i: int, size: int) -> dict[str, Any]:
    """About `size` bytes of JSON that hardly compress or repeat: slices of noise made before the clock starts."""
    at = next(_COUNT) * 7919 % (len(_NOISE) - size)
    return {"i": i, "text": _NOISE[at : at + size - 24]}


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(engine: Engine, options: argparse.Namespace) -> Figures:
    """Run one engine here. What it puts into `options.figures` is kept; the times and bytes are added."""
    options.figures = {}
    work = engine(options)
    next(work)
    wall, cpu = time.perf_counter(), time.process_time()
    next(work)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    for _ in work:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return {"wall": wall, "cpu": cpu, "bytes": folder_size(options.folder), "peak": peak, **options.figures}


def main(script: str, engines: dict[str, Engine], parser: argparse.ArgumentParser) -> dict[str, list[Figures]] | None:
    """The figures of every engine by round; None in a process that was only there to measure one."""
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="engines whose name contains one of these words: a,b,c")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(measure(engines[options.engine], options)))
        return None
    words = [word for word in options.only.split(",") if word]
    names = [name for name in engines if not words or any(word in name for word in words)]
    figures: dict[str, list[Figures]] = {name: [] for name in names}
    failed: dict[str, str] = {}
    given = sys.argv[1:]
    for number in range(options.rounds):
        for name in random.sample([name for name in names if name not in failed], k=len(names) - len(failed)):
            print(f"  round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="loomnb-bench-") as folder:
                command = [sys.executable, script, *given, "--engine", name, "--folder", folder]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                failed[name] = done.stderr[-1500:]
            else:
                figures[name].append(json.loads(done.stdout.splitlines()[-1]))
    for name, why in failed.items():
        print(f"\n{name} FAILED:\n{why}")
    return {name: rows for name, rows in figures.items() if rows}


def median(rows: list[Figures], key: str) -> float:
    return float(statistics.median(row[key] for row in rows))


def verdict(name: str, value: float | None, limit: float, *, at_least: bool) -> bool:
    """Print one target and whether it is met; a value that could not be measured is not met."""
    sign = ">=" if at_least else "<="
    met = value is not None and (value >= limit if at_least else value <= limit)
    said = "not measured" if value is None else f"{value:.2f}"
    print(f"  {'met   ' if met else 'MISSED'}  {name}: {said} ({sign} {limit:g})")
    return met
