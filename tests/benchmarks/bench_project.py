"""What a snapshot of a project of 10,000 files costs, beside a plain `os.walk` + hashlib over the same files in the same run.

The plain one does what a first draft would: it follows nothing, but checks nothing either. A capture keeps the texts as well.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import rounds

from loomnb.blueprints.project import ProjectFiles

FILES = 10_000
FOLDERS = 200
LIMIT = 1.5  # times the plain walk


def fill(root: Path, size: int) -> None:
    """Files of 0 to 2 x `size` bytes, in folders three deep."""
    chance = random.Random(7)
    folders = [root / f"part{i % 10}" / f"group{i % 40}" / f"folder{i}" for i in range(FOLDERS)]
    for folder in folders:
        folder.mkdir(parents=True)
    for i in range(FILES):
        text = f"{i} " * (chance.randrange(2 * size) // 6)
        (folders[i % FOLDERS] / f"file{i}.txt").write_text(text)


def plain(root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            found[path.relative_to(root).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def plainer(root: Path) -> dict[str, str]:
    """The same without pathlib, which is most of its time."""
    found: dict[str, str] = {}
    cut = len(str(root)) + 1
    for folder, _, names in os.walk(str(root)):
        for name in names:
            path = f"{folder}/{name}"
            with open(path, "rb") as file:  # noqa: PTH123
                found[path[cut:]] = hashlib.sha256(file.read()).hexdigest()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--size", type=int, default=4_000, help="bytes of a file, on average")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loomnb-bench-") as folder:
        root = Path(folder)
        fill(root, options.size)
        project = ProjectFiles(root)

        async def capture() -> None:
            await project.capture()

        async def snapshot() -> dict[str, str]:
            return dict(await project.snapshot())

        assert asyncio.run(snapshot()) == plain(root) == plainer(root)  # and the page cache is warm for all of them
        work: dict[str, Callable[[], object]] = {
            "snapshot()": lambda: asyncio.run(snapshot()),
            "capture()": lambda: asyncio.run(capture()),
            "os.walk + hashlib, pathlib": lambda: plain(root),
            "os.walk + hashlib, open()": lambda: plainer(root),
        }
        times: dict[str, list[float]] = {name: [] for name in work}
        for _ in range(options.rounds):
            for name in random.sample(list(work), k=len(work)):
                start = time.perf_counter()
                work[name]()
                times[name].append((time.perf_counter() - start) * 1e3)
    bare = statistics.median(times["os.walk + hashlib, open()"])
    print(f"{FILES:,} files of {options.size:,} bytes on average in {FOLDERS} folders; median of {options.rounds} rounds\n")
    print("| | ms (min..max) | x os.walk + hashlib, open() |\n|---|---|---|")
    for name, row in times.items():
        print(f"| {name} | {statistics.median(row):.0f} ({min(row):.0f}..{max(row):.0f}) | {statistics.median(row) / bare:.2f} |")
    print("\nTargets, as multiples of os.walk + hashlib, open():")
    ratio = statistics.median(times["snapshot()"]) / bare
    return 0 if rounds.verdict("snapshot()", ratio, LIMIT, at_least=False) else 1


if __name__ == "__main__":
    sys.exit(main())
