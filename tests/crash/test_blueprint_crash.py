"""kill -9 at each phase of a blueprint's run: what the next kernel finds, does by itself, and does when it is asked to.

The table is that of contracts/blueprints.md §2.6, as decisions.md (Blueprints 1, 11) improves it: an initializer runs again; a
step that was interrupted may be retried, and repeats nothing that is on record.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.blueprints.recovering import commits, kernel, kinds, only
from tests.crash.blueprints import PHASES, flow_of
from tests.helpers import at_rest

ROOT = Path(__file__).parents[2]
SECOND_STAGE = "stage_pending of the second stage"


@dataclass(frozen=True)
class Expected:
    """What a kernel finds after the kill.

    Attributes:
        found: the status of the run before anybody acts: as it was, `goes on`, or `interrupted`.
        effects: what was done to the world outside in all, in order, once a person has let the run go on to its end.
    """

    found: str
    effects: tuple[str, ...]


_ALL = ("initialize first", "ask", "answer True", "initialize second", "finish")
_END = _ALL[3:]
_AGAIN = ("ask", "answer True", *_END)

TABLE: dict[tuple[str, bool], Expected] = {}
for _recovers in (True, False):
    TABLE |= {
        ("stage_pending", _recovers): Expected("goes on", _ALL),
        ("initializer", _recovers): Expected("goes on", ("initialize first", *_ALL)),
        ("step_ready", _recovers): Expected("goes on", _ALL),
        ("executing", _recovers): Expected("interrupted", ("initialize first", "ask", *_AGAIN)),
        ("committed", _recovers): Expected("interrupted", ("initialize first", "ask", *_AGAIN)),
        ("executing after the answer", _recovers): Expected("interrupted", ("initialize first", "ask", "answer True", *_AGAIN)),
        ("step_result", _recovers): Expected("interrupted", ("initialize first", "ask", "answer True", *_AGAIN)),
        (SECOND_STAGE, _recovers): Expected("goes on", _ALL),
        ("terminal", _recovers): Expected("completed", _ALL),
    }
TABLE |= {
    ("waiting", True): Expected("waiting", ("initialize first", "ask", "recover", "answer True", *_END)),
    ("waiting", False): Expected("interrupted", ("initialize first", "ask", *_AGAIN)),
    ("answered", True): Expected("goes on", ("initialize first", "ask", "recover", "answer True", *_END)),
    ("answered", False): Expected("interrupted", ("initialize first", "ask", *_AGAIN)),
}


def killed(path: Path, phase: str, recovers: bool) -> None:
    """A kernel that is killed at a phase."""
    command = [sys.executable, "-m", "tests.crash.blueprints", str(path), phase, str(recovers)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        line = child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        error = child.stderr.read()
    assert line == f"at {phase}\n", error


def effects(here: Path) -> tuple[str, ...]:
    return tuple((here / "effects.txt").read_text().splitlines()) if (here / "effects.txt").exists() else ()


@pytest.fixture
def path(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EFFECTS", str(here / "effects.txt"))
    return here / "s.duckdb"


@pytest.mark.case("blueprints:RC-02", "blueprints:RC-03", "blueprints:RC-04", "blueprints:DX-05", "blueprints:DX-07")
@pytest.mark.parametrize("recovers", [True, False])
@pytest.mark.parametrize("phase", PHASES)
def test_a_kill_at_a_phase_ends_as_the_table_says(path: Path, here: Path, phase: str, recovers: bool) -> None:
    expected = TABLE[phase, recovers]
    killed(path, phase, recovers)
    done_before = effects(here)
    with kernel(path, flow_of(recovers)) as session:
        session.restore()
        run = only(session)
        status = run.status if expected.found != "goes on" else run.id in [r.id for r in session.restore().resumed]

        assert status == (True if expected.found == "goes on" else expected.found)
        if expected.found == "interrupted":
            found = run.view()
            assert found.last_error is not None
            assert found.last_error.code == "RUN_INTERRUPTED"
            assert effects(here) == done_before  # nothing was executed
            run.retry()
        if at_rest(run).status == "waiting":
            run.answer(True)
            at_rest(run)

        assert run.view().status == "completed"
        assert effects(here) == expected.effects
        assert kinds(session, run.id).count("run.answered") == 1
        assert commits(session) == [("answer", [True, 1]), ("asked", 1), ("finished", 0)]


@pytest.mark.case("blueprints:RC-01", "blueprints:DX-08")
@pytest.mark.parametrize("phase", ["waiting", "executing", "terminal"])
def test_a_kernel_that_only_looks_changes_nothing(path: Path, here: Path, phase: str) -> None:
    killed(path, phase, recovers=True)
    told: list[Any] = []
    for _ in range(3):
        with kernel(path, flow_of(True)) as session:
            session.restore()
            run = only(session)
            told.append((run.view(), kinds(session, run.id), effects(here)))

    assert told[0] == told[1] == told[2]


@pytest.mark.case("blueprints:RC-01")
@pytest.mark.parametrize("phase", ["stage_pending", "waiting", "executing", "answered"])
def test_without_its_blueprint_a_killed_run_stands_still_and_says_what_to_run(path: Path, here: Path, phase: str) -> None:
    killed(path, phase, recovers=True)
    done_before = effects(here)
    with kernel(path) as session:
        told = repr(session.restore())

        assert effects(here) == done_before
        assert "'killed_flow'" in told
        assert "loom.define(" in told


def test_every_phase_is_in_the_table() -> None:
    assert set(TABLE) == {(phase, recovers) for phase in PHASES for recovers in (True, False)}
