"""An agent's turn whose kernel dies: after each commit, and by kill -9 inside a model call, a read and an action.

Whatever was on record is not made again, and the finished turn is what it would have been without the death
(contracts/decisions.md, Agents 7).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents.results import STOPPED
from loomnb.errors import StoreClosed
from loomnb.ids import Source
from loomnb.runtime import FINISHED
from loomnb.store import Database
from loomnb.testing import Death, StillSource, at_rest
from tests.agents.journaling import ANSWERS, World, five_steps, kernel, left, only_turn, sql, to_the_end
from tests.crash.agents import PLACES, killed_agent
from tests.helpers import PATIENCE

ROOT = Path(__file__).parents[2]
STEPS = 5


class Unheard:
    """Kills a store with its n-th commit, which is in the file: whoever made it hears that the store is gone."""

    def __init__(self, after: int) -> None:
        self.after, self.batches, self.struck = after, 0, False

    def __call__(self, path: str, source: Source) -> Database:
        return _Unheard(path, source, self)


class _Unheard(Database):
    def __init__(self, path: str, source: Source, death: Unheard) -> None:
        self._death, self._counting = death, threading.Lock()
        super().__init__(path, source)

    def put(self, rows: Any, done: Any, **options: Any) -> None:
        death = self._death
        with self._counting:
            death.batches += 1
            number = death.batches
        if number > death.after:
            raise StoreClosed("The store died, as this test wants it to.")

        def last(error: Any, seq: int) -> None:
            death.struck = True
            done(error or StoreClosed("The store died, as this test wants it to."), seq)

        super().put(rows, last if number == death.after else done, **options)


def until_death(session: loom.Loom, death: Any, world: World) -> None:
    """Let the turn run, with its answers given, until the store dies or the turn has ended."""
    session.answers({"five": dict(ANSWERS)})
    try:
        run = five_steps(session, world).run("Do it", key="k")
    except StoreClosed:
        return
    over = threading.Event()
    run.record.watchers.append(lambda _: over.set() if run.record.view.status in FINISHED else None)
    if run.record.view.status in FINISHED:
        return
    for _ in range(int(PATIENCE / 0.01)):  # it is dead once it has tried to go on: what was in flight has happened by then
        if over.wait(0.01) or death.batches > death.after:
            return
        if getattr(death, "struck", False) and (run.status == "waiting" or not run.record.passing):
            return  # it was an answer, or the very last one: whoever has not heard of it does nothing more
    raise AssertionError(f"neither died nor ended: {run.status}, {death.batches} commits")


@dataclass
class Undisturbed:
    """The turn that nobody killed: what it left, and after how many commits."""

    left: dict[str, Any]
    commits: int


def undisturbed(folder: Path, durability: str) -> Undisturbed:
    death, world = Death(10**9), World()
    with kernel(folder / "whole.duckdb", source=StillSource(), database=death, durability=durability) as session:
        session.answers({"five": dict(ANSWERS)})
        run = to_the_end(five_steps(session, world).run("Do it", key="k"))
        assert dict(world.said) == dict.fromkeys(range(STEPS), 1)
        return Undisturbed(left(session, run), death.batches)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("durability", "heard"), [("sync", True), ("sync", False), ("pipelined", True)])
def test_a_turn_that_dies_after_any_commit_ends_as_if_it_had_not(tmp_path: Path, durability: str, heard: bool) -> None:
    whole = undisturbed(tmp_path, durability)
    made_again: Counter[str] = Counter()
    for after in range(1, whole.commits + 1):
        world, source, path = World(), StillSource(), tmp_path / f"{after}.duckdb"
        death: Any = Death(after) if heard else Unheard(after)
        with kernel(path, source=source, database=death, durability=durability) as session:
            until_death(session, death, world)
        asked: list[str] = []
        with kernel(path, source=source, durability=durability) as session:
            run = to_the_end(five_steps(session, world).run("Do it", key="k"), each=asked.append)
            assert left(session, run) == whole.left, f"after commit {after}"
            assert sql(session, "select count(*) from runs") == [(1,)]
        # In flight was one action, or one call of the model with the reads before it, which ride in its commit.
        again = sum(world.said.values()) - STEPS
        acts = world.done["send_mail"] + world.done["pay"] - 2
        reads = (world.done["add"] > 2) + (world.done["look"] > 1)
        assert (again, acts) in ((0, 0), (1, 0), (0, 1)), f"after commit {after}: {world.said}, {world.done}"
        assert not (reads and acts), f"after commit {after}: {world.said}, {world.done}"
        # An action that had begun is never made again unless a person said so.
        assert acts <= sum(name.startswith("again:") for name in asked), f"after commit {after}"
        made_again.update({"model": again, "read": bool(reads), "action": acts})
    print(f"figure: {durability}, {'heard' if heard else 'unheard'}: {whole.commits} commits; made again: {dict(made_again)}")
    assert not heard or durability == "pipelined" or all(made_again.values()), "no death met something in flight"


# -- kill -9 ---------------------------------------------------------------------------------------------


def killed(path: Path, place: str) -> None:
    """A kernel that is killed at a place."""
    command = [sys.executable, "-m", "tests.crash.agents", str(path), place]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        line = child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        error = child.stderr.read()
    assert line == f"at {place}\n", error


WHOLE = ("model 0", "look", "model 1", "mail call-1-send_mail", "model 2")
TABLE = {
    "model": (WHOLE[0], *WHOLE),
    "read": (*WHOLE[:2], *WHOLE[1:]),
    "waiting": WHOLE,
    "action": (*WHOLE[:4], *WHOLE[3:]),
    "last answer": (*WHOLE, WHOLE[-1]),
    "end": WHOLE,
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects.txt"))
    return tmp_path / "s.duckdb"


def effects(path: Path) -> tuple[str, ...]:
    return tuple((path.parent / "effects.txt").read_text().splitlines())


@pytest.mark.parametrize("place", PLACES)
def test_after_a_kill_only_what_was_in_flight_is_made_again(path: Path, place: str) -> None:
    killed(path, place)
    asked: list[str] = []
    with kernel(path) as session:
        killed_agent(session)
        run = to_the_end(only_turn(session), each=asked.append)

        assert run.status == "completed"
        assert effects(path) == TABLE[place]
        assert asked == {"action": ["again:send_mail"], "last answer": [], "end": []}.get(place, ["send_mail"])
        assert [m.content for m in run.messages if m.role == "assistant"] == ["", "", "Done."]
        assert sql(session, "select tool_name, status from tool_calls order by seq") == [
            ("look", "executed"),
            ("send_mail", "executed"),
        ]


def test_an_action_that_a_kill_stopped_is_asked_about_and_may_be_left_as_it_is(path: Path) -> None:
    killed(path, "action")
    with kernel(path) as session:
        killed_agent(session)
        run = only_turn(session)
        at_rest(run)
        (ask,) = run.pending
        assert (ask.name, ask.kind) == ("again:send_mail", "approval")
        assert ask.request is not None
        assert ask.request["canEdit"] is False
        run.answer(ask.id, False)
        at_rest(run)

        assert effects(path) == WHOLE  # the mail went out once, before the kill
        assert sql(session, "select status, error from tool_calls where tool_name = 'send_mail'") == [("failed", STOPPED)]
        (told,) = (r for m in run.messages for r in m.tool_results or () if r["name"] == "send_mail")
        assert told["error"] == STOPPED
        assert told["interrupted"] is True


def test_an_action_that_is_stopped_twice_is_asked_about_twice(path: Path) -> None:
    killed(path, "action")
    killed_again(path)
    with kernel(path) as session:
        killed_agent(session)
        asked: list[str] = []
        run = to_the_end(only_turn(session), each=asked.append)

        assert asked == ["again:send_mail"]
        assert run.status == "completed"
        assert effects(path) == (*WHOLE[:4], WHOLE[3], WHOLE[3], WHOLE[4])


def killed_again(path: Path) -> None:
    """A kernel that goes on with the turn, and is killed inside the action once more."""
    code = (
        "import loomnb as loom, tests.crash.agents as a\n"
        "from tests.agents.journaling import only_turn\nfrom loomnb.testing import at_rest\n"
        "import sys\na.Held.place = 'action'\nsession = loom.Loom(sys.argv[1], headless=True)\na.killed_agent(session)\n"
        "run = only_turn(session)\nat_rest(run)\nrun.answer(run.pending[0].id, True)\nat_rest(run)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        line = child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        error = child.stderr.read()
    assert line == "at action\n", error
