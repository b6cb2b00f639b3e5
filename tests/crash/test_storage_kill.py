"""kill -9 in the middle of commits to storage: each is there whole or not at all, and none that was acknowledged is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from loomnb.blueprints.storage import Storage
from loomnb.ids import SYSTEM
from loomnb.store import Database
from tests.crash.storing import ARTIFACTS

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("storing.py")
KILLS = 8


def killed(path: Path, first: int, after: float) -> list[int]:
    """The batches a child heard to be durable before it was killed."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(CHILD), str(path), str(first)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        if child.stdout.readline() != "ready\n":
            raise AssertionError(child.stderr.read())
        killer = threading.Timer(after, os.kill, [child.pid, signal.SIGKILL])
        killer.start()
        lines = [line for line in child.stdout if line.endswith("\n")]
        error = child.stderr.read()
    assert child.returncode == -signal.SIGKILL, error
    return [int(line.split()[1]) for line in lines]


@pytest.mark.timeout(120)
def test_a_commit_that_was_killed_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    chance = random.Random(20261130)
    path = tmp_path / "s.duckdb"
    first, heard, unheard = 0, 0, 0
    for _ in range(KILLS):
        told = killed(path, first, chance.uniform(0.02, 0.5))
        database = Database(str(path), SYSTEM)
        storage = Storage(database)
        artifacts = {a.id: a for a in storage.list_artifacts({"limit": 200}).wait().data}
        records = [r.data for r in storage.list_records().wait().data]
        revisions = [r for (r,) in database.read("select revision from artifact_revisions where op <> 'removed' order by change")]
        changes = database.read("select count(*), max(change) from artifact_revisions")
        database.close()
        last = records[0] if records else -1

        assert len(records) <= 1  # of batch n and the one before never both, never neither
        assert {artifacts[f"a{i}"].data for i in range(ARTIFACTS) if records} == ({last} if records else set())
        assert set(artifacts) == ({f"a{i}" for i in range(ARTIFACTS)} | {f"turn{last}"} if records else set())
        assert last >= max(told, default=-1)  # nothing acknowledged is lost
        assert revisions == list(range(1, (last + 1) * (ARTIFACTS + 1) + 1))  # and what is lost used no revision
        assert changes == [(n := (last + 1) * (ARTIFACTS + 2) - 1, n)] or not records
        heard, unheard, first = heard + len(told), unheard + last - max(told, default=last), last + 1
    print(f"figure: {KILLS} kills, {heard} commits heard of, {unheard} more were whole in the file")

    assert heard > KILLS
