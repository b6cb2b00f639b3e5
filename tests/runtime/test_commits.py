"""When a move counts: whole or not at all, shown when it is durable and not before."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

import loomnb as loom
from loomnb.store.writer import Writer
from tests.helpers import at_rest

ROOT = Path(__file__).parents[2]


def counting(moves: int, hook: Any = None) -> Any:
    """A workflow of so many automatic moves; `hook(n)` is called in the n-th (from 1)."""

    @loom.workflow(name="counting", step_limit=100_000)
    class Counting(loom.BaseWorkflow):
        @loom.transition(to="on")
        def begin(self) -> None:
            self.assign_state(n=1)
            self.document_store.save(loom.PlainDocument(text="1"))
            if hook:
                hook(1)

        @loom.transition(from_="on", to="on", priority=1)
        @loom.guard("is_short")
        def more(self, state: Any) -> None:
            n = state["n"] + 1
            self.assign_state(n=n)
            self.document_store.save(loom.PlainDocument(text=str(n)))
            if hook:
                hook(n)

        @loom.transition(from_="on", to="end")
        def stop(self) -> None: ...

        def is_short(self, state: Any) -> bool:
            return state["n"] < moves

    return Counting


def hold_writer(session: loom.Loom) -> threading.Event:
    """Stop the writer before its next commit, until the event is set."""
    held, release = threading.Event(), threading.Event()

    def acknowledge(*_: Any) -> None:
        held.set()
        release.wait(20)

    session.runtime.database.put([("none", "test", "{}")], acknowledge)
    assert held.wait(10)
    return release


def test_a_pipelined_run_goes_on_while_its_commits_are_in_flight_and_shows_none_of_them(session: loom.Loom) -> None:
    releases: list[threading.Event] = []
    last = threading.Event()

    def hook(n: int) -> None:
        if n == 1:
            releases.append(hold_writer(session))
        if n == 5:
            last.set()

    run = session.start(counting(5, hook), durability="pipelined")
    assert last.wait(10)
    shown = run.place, dict(run.state), run.documents
    releases[0].set()
    at_rest(run)

    assert shown == ("start", {}, [])
    assert (run.status, run.state) == ("completed", {"n": 5})
    assert [d.content["text"] for d in run.documents] == list("12345")


def test_a_sync_run_makes_no_move_before_the_last_one_is_durable(session: loom.Loom) -> None:
    releases: list[threading.Event] = []
    held, second = threading.Event(), threading.Event()

    def hook(n: int) -> None:
        if n == 1:
            releases.append(hold_writer(session))
            held.set()
        if n == 2:
            second.set()

    run = session.start(counting(2, hook))
    assert held.wait(10)
    early = second.wait(0.2)
    releases[0].set()
    at_rest(run)

    assert not early
    assert run.status == "completed"


@pytest.mark.parametrize("durability", ["sync", "pipelined"])
def test_every_move_of_an_ended_run_is_in_the_file(here: Path, durability: Any) -> None:
    with loom.open(here / "s.duckdb", durability=durability) as session:
        run = session.start(counting(50))
        at_rest(run)

        assert session.sql("select count(*) from moves").fetchall() == [(51,)]
    with duckdb.connect(str(here / "s.duckdb"), read_only=True) as raw:
        assert raw.execute("select status, moves from runs").fetchall() == [("completed", 51)]


def test_the_durability_of_a_run_goes_before_the_stores(here: Path) -> None:
    with loom.open(here / "s.duckdb", durability="pipelined") as session:
        run = session.start(counting(2), durability="sync")
        at_rest(run)

        assert not run.record.pipelined


def fail_commits(monkeypatch: pytest.MonkeyPatch, match: str) -> None:
    """The disk is full for every batch that holds this text, and only for those."""
    insert = Writer._insert

    def failing(self: Writer, rows: list[Any]) -> Any:
        if any(match in body for *_, body in rows):
            return loom.WorldFailed("The store could not commit: disk full", code="COMMIT_FAILED")
        return insert(self, rows)

    monkeypatch.setattr(Writer, "_insert", failing)


def test_a_move_whose_commit_fails_is_not_there_and_can_be_retried(session: loom.Loom, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        fail_commits(patch, '"move":3,')
        run = session.start(counting(5))
        at_rest(run)
        assert (run.status, run.error_code, run.state, len(run.documents)) == ("failed", "COMMIT_FAILED", {"n": 2}, 2)
    run.retry()
    at_rest(run)

    assert (run.status, run.state) == ("completed", {"n": 5})
    assert [d.content["text"] for d in run.documents] == list("12345")


FAILS = """
import gc, sys
import loomnb as loom
from loomnb.store.writer import Writer
from tests.helpers import at_rest
from tests.runtime.test_commits import counting

class Full:
    insert = Writer._insert
    def failing(self, rows):
        full = any('"move":3,' in body for *_, body in rows)
        return loom.WorldFailed("disk full", code="COMMIT_FAILED") if full else Full.insert(self, rows)

Writer._insert = Full.failing
with loom.open(sys.argv[1], durability="pipelined") as session:
    run = session.start(counting(40))
    at_rest(run)
    print(run.error_code)
del run, session
gc.collect()
"""


def test_a_failed_commit_of_a_pipelined_run_is_told_by_the_run_alone(here: Path) -> None:
    """In a process of its own: asyncio complains of what nobody asked only when it is thrown away."""
    done = subprocess.run(
        [sys.executable, "-c", FAILS, str(here / "s.duckdb")], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert (done.stdout, done.stderr) == ("COMMIT_FAILED\n", "")


def test_after_a_failed_commit_no_later_move_of_a_pipelined_run_is_stored(
    session: loom.Loom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moves behind it were built on it."""
    with monkeypatch.context() as patch:
        fail_commits(patch, '"move":3,')
        run = session.start(counting(40), durability="pipelined")
        at_rest(run)
        stored = session.sql("select move from moves order by seq").fetchall()

    assert stored == [(1,), (2,)]
    assert (run.status, run.error_code, run.state) == ("failed", "COMMIT_FAILED", {"n": 2})
    run.retry()
    at_rest(run)
    assert (run.status, run.state) == ("completed", {"n": 40})
    assert session.sql("select move from moves order by seq").fetchall() == [(n,) for n in range(1, 42)]


def test_an_answer_whose_commit_fails_was_not_given(session: loom.Loom, monkeypatch: pytest.MonkeyPatch) -> None:
    run = session.confirm("Go?")
    with monkeypatch.context() as patch:
        fail_commits(patch, "isConfirmed")
        with pytest.raises(loom.WorldFailed):
            run.answer(True)
        assert (run.status, len(run.pending)) == ("waiting", 1)
    run.answer(True)

    assert at_rest(run).status == "completed"


def test_a_start_whose_commit_fails_starts_nothing(session: loom.Loom, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        fail_commits(patch, "run.started")
        fail_commits(patch, '"workflow"')
        with pytest.raises(loom.WorldFailed):
            session.confirm("Go?", key="k")

    assert len(session.pending()) == 0
    assert session.confirm("Go?", key="k").status == "waiting"


@pytest.mark.parametrize("schema", [None, dict[str, Any]], ids=["no state schema", "state schema"])
@pytest.mark.parametrize("item", ["text", 7, {"n": 1.5, "deep": [1, "x"]}], ids=["texts", "numbers", "objects"])
def test_a_state_that_grows_by_one_item_a_move_is_stored_in_its_items_only(session: loom.Loom, item: Any, schema: Any) -> None:
    """A run of n moves writes O(n), not O(n²)."""
    moves = 60

    @loom.workflow(name="growing", state_schema=schema)
    class Growing(loom.BaseWorkflow):
        @loom.transition(to="on")
        def begin(self) -> None:
            self.assign_state(items=[item])

        @loom.transition(from_="on", to="on")
        @loom.guard("is_short")
        def more(self, state: Any) -> None:
            self.assign_state(items=[*state["items"], item])

        @loom.transition(from_="on", to="end")
        def stop(self) -> None: ...

        def is_short(self, state: Any) -> bool:
            return len(state["items"]) < moves

    run = session.start(Growing)
    at_rest(run)
    sizes = [n for (n,) in session.sql("select length(changes::varchar) from moves where name = 'more' order by seq").fetchall()]

    assert run.state["items"] == [item] * moves
    assert max(sizes) == min(sizes)


def test_a_state_that_does_not_change_is_not_stored_again(session: loom.Loom) -> None:
    @loom.workflow
    class Constant(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def begin(self) -> None:
            self.assign_state(big=["x"] * 1000)

        @loom.transition(from_="middle", to="end")
        def same(self, state: Any) -> None:
            self.assign_state(big=state["big"])

    run = session.start(Constant)
    at_rest(run)

    assert session.sql("select changes is null from moves where name = 'same'").fetchall() == [(True,)]
