"""The store file: opened, owned, migrated, closed, copied."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

import loomnb as loom
from loomnb.ids import SYSTEM
from loomnb.store import Database
from loomnb.store.schema import MIGRATIONS
from tests.helpers import at_rest

ROOT = Path(__file__).parent.parent.parent

OWNER = """
import sys
import loomnb as loom
with loom.open(sys.argv[1]) as session:
    print("open", flush=True)
    sys.stdin.readline()
print("closed", flush=True)
"""


@contextmanager
def owner_of(path: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the store open until it is told a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert process.stdin
    assert process.stdout
    try:
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


# -- opening ------------------------------------------------------------------------------------------


def test_missing_folders_are_made(here: Path) -> None:
    loom.open(here / "a" / "b" / "s.duckdb").close()

    assert (here / "a" / "b" / "s.duckdb").exists()


def test_the_same_path_again_is_the_same_session(session: loom.Loom, here: Path) -> None:
    assert loom.open(here / "s.duckdb") is session
    assert loom.open("s.duckdb") is session


def test_another_path_becomes_the_default_and_leaves_the_first_open(session: loom.Loom, here: Path) -> None:
    with loom.open(here / "other.duckdb") as other:
        run = loom.confirm("Go?")

        assert [p.run.id for p in other.pending()] == [run.id]
        assert len(session.pending()) == 0


def test_opening_the_first_path_again_makes_it_the_default(session: loom.Loom, here: Path) -> None:
    with loom.open(here / "other.duckdb"):
        loom.open(here / "s.duckdb")
        loom.confirm("Go?")

        assert len(session.pending()) == 1


def test_another_durability_of_an_open_store_is_refused(session: loom.Loom, here: Path) -> None:
    with pytest.raises(loom.Conflict, match="durability"):
        loom.open(here / "s.duckdb", durability="pipelined")


def test_an_unknown_durability_is_refused_before_anything_is_opened(here: Path) -> None:
    with pytest.raises(loom.Refused, match="fast"):
        loom.open(here / "s.duckdb", durability="fast")  # type: ignore[arg-type]

    assert not (here / "s.duckdb").exists()


def test_a_store_in_memory_works_and_leaves_no_file(here: Path) -> None:
    with loom.open(":memory:") as session:
        run = session.confirm("Go?")
        run.answer(True)
        at_rest(run)

        assert session.sql("select count(*) from runs").fetchall() == [(1,)]
    assert list(here.iterdir()) == []


def test_a_file_that_is_no_store_is_refused_with_advice(here: Path) -> None:
    (here / "s.duckdb").write_text("this is no database, and long enough to be looked at" * 100)

    with pytest.raises(loom.StoreDamaged, match=r"s\.duckdb"):
        loom.open(here / "s.duckdb")


def test_a_sqlite_file_is_refused_as_what_it_is(here: Path) -> None:
    with contextlib.closing(sqlite3.connect(here / "s.duckdb")) as foreign:
        foreign.execute("create table notes(text)")

    with pytest.raises(loom.StoreDamaged, match="SQLite"):
        loom.open(here / "s.duckdb")


@pytest.mark.parametrize("table", ["journal", "runs", "store"])
def test_a_database_of_something_else_is_refused_with_advice(here: Path, table: str) -> None:
    with duckdb.connect(here / "s.duckdb") as foreign:
        foreign.execute(f"create table {table}(mine integer)")

    with pytest.raises(loom.StoreDamaged, match="no store"):
        loom.open(here / "s.duckdb")
    with duckdb.connect(here / "s.duckdb") as foreign:  # and it is neither held nor changed
        assert foreign.execute("select count(*) from duckdb_tables() where table_name <> 'migrations'").fetchall() == [(1,)]


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_a_file_that_was_cut_off_is_refused_with_advice(here: Path, keep: float) -> None:
    with loom.open(here / "s.duckdb") as session:
        session.confirm("Go?")
    os.truncate(here / "s.duckdb", int((here / "s.duckdb").stat().st_size * keep))

    with pytest.raises(loom.StoreDamaged, match="copy of the file"):
        loom.open(here / "s.duckdb")


@pytest.mark.parametrize("name", ["taken/s.duckdb", "folder.duckdb", "x" * 300 + ".duckdb"])
def test_a_path_where_nothing_can_be_written_is_refused_in_our_words(here: Path, name: str) -> None:
    (here / "taken").write_text("a file")
    (here / "folder.duckdb.lock").mkdir()

    with pytest.raises(loom.StoreDamaged, match="cannot be opened"):
        loom.open(here / name)


def test_a_store_that_could_not_be_opened_is_not_owned(here: Path) -> None:
    (here / "s.duckdb").write_text("no database" * 1000)
    with pytest.raises(loom.StoreDamaged):
        loom.open(here / "s.duckdb")
    (here / "s.duckdb").unlink()

    loom.open(here / "s.duckdb").close()


# -- migrations ---------------------------------------------------------------------------------------


def test_each_migration_has_its_row(session: loom.Loom) -> None:
    assert session.sql("select number from migrations order by 1").fetchall() == [(n + 1,) for n in range(len(MIGRATIONS))]


def test_opening_again_migrates_nothing(here: Path) -> None:
    for _ in range(2):
        with loom.open(here / "s.duckdb") as session:
            assert session.sql("select count(*) from migrations").fetchall() == [(len(MIGRATIONS),)]


def test_a_newer_file_is_refused_with_its_version_and_left_as_it_is(here: Path) -> None:
    path = here / "s.duckdb"
    loom.open(path).close()
    with duckdb.connect(str(path)) as raw:
        raw.execute("insert into migrations values (99, now())")
    before = path.read_bytes()

    with pytest.raises(loom.StoreDamaged, match="version 99") as caught:
        loom.open(path)

    assert caught.value.code == "STORE_NEWER"
    assert "pip install" in caught.value.advice
    assert path.read_bytes() == before


def test_a_migration_that_fails_leaves_nothing_behind(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def another(execute: Callable[[str], object]) -> None:
        execute("create table half(a integer)")
        raise RuntimeError("no")

    path = here / "s.duckdb"
    loom.open(path).close()
    with monkeypatch.context() as patch:
        from loomnb.store import schema

        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, another))
        with pytest.raises(RuntimeError):
            loom.open(path)

    with loom.open(path) as session:
        assert session.sql("select count(*) from migrations").fetchall() == [(len(MIGRATIONS),)]
        assert session.sql("select count(*) from information_schema.tables where table_name = 'half'").fetchall() == [(0,)]


# -- owning -------------------------------------------------------------------------------------------


def test_a_second_process_is_told_who_owns_the_file_within_two_seconds(here: Path) -> None:
    with owner_of(here / "s.duckdb", JPY_SESSION_NAME="work/notes.ipynb") as owner:
        began = time.monotonic()
        with pytest.raises(loom.StoreBusy) as caught:
            loom.open(here / "s.duckdb")

        assert time.monotonic() - began < 2
    text = str(caught.value)
    for part in (str(owner.pid), "work/notes.ipynb", 'loom.snapshot("copy.duckdb")', "loom.close()"):
        assert part in text, part
    assert caught.value.retryable


def test_the_message_in_a_notebook_has_no_frames(here: Path) -> None:
    with owner_of(here / "s.duckdb"), pytest.raises(loom.StoreBusy) as caught:
        loom.open(here / "s.duckdb")

    assert "Traceback" not in "".join(caught.value._render_traceback_())


def test_the_file_is_free_once_its_owner_closed_it(here: Path) -> None:
    with owner_of(here / "s.duckdb") as owner:
        assert owner.stdin
        assert owner.stdout
        owner.stdin.write("\n")
        owner.stdin.flush()
        assert owner.stdout.readline() == "closed\n"

        loom.open(here / "s.duckdb").close()


def test_the_file_is_free_once_its_owner_was_killed(here: Path) -> None:
    with owner_of(here / "s.duckdb") as owner:
        owner.send_signal(signal.SIGKILL)
        owner.wait()

        loom.open(here / "s.duckdb").close()


def test_the_lock_file_says_who_owns_the_store(session: loom.Loom, here: Path) -> None:
    owner = json.loads((here / "s.duckdb.lock").read_text().splitlines()[0])

    assert owner["pid"] == os.getpid()
    assert owner["started"]


def test_somebody_reading_the_lock_file_does_not_free_the_store(here: Path) -> None:
    """DuckDB's own lock would vanish."""
    with owner_of(here / "s.duckdb"):
        for _ in range(2):
            with pytest.raises(loom.StoreBusy):
                loom.open(here / "s.duckdb")


def test_a_forked_child_can_neither_read_nor_write(session: loom.Loom, here: Path) -> None:
    read_end, write_end = os.pipe()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads forks: that is what is tested
        pid = os.fork()
    if pid == 0:
        try:
            session.runtime.database.read("select 1")
        except loom.StoreClosed as exc:
            os.write(write_end, exc.code.encode())
        finally:
            os._exit(0)
    os.close(write_end)
    os.waitpid(pid, 0)
    with os.fdopen(read_end) as told:
        assert told.read() == "STORE_CLOSED"
    assert session.sql("select 1").fetchall() == [(1,)]


# -- closing ------------------------------------------------------------------------------------------


def test_a_closed_store_refuses_and_says_how_to_go_on(here: Path) -> None:
    session = loom.open(here / "s.duckdb")
    session.close()

    with pytest.raises(loom.StoreClosed, match=r"loom\.open"):
        session.sql("select 1")


def test_closing_twice_is_fine(here: Path) -> None:
    session = loom.open(here / "s.duckdb")
    session.close()
    session.close()


def test_closing_while_somebody_reads_ends_the_query_and_frees_the_file(here: Path) -> None:
    database, reads, told = Database(str(here / "s.duckdb"), SYSTEM), threading.Event(), []

    def read() -> None:
        with database.reading() as cursor:
            reads.set()
            try:
                cursor.execute("select count(*) from range(100000000) a, range(100) b").fetchall()
            except duckdb.Error as exc:
                told.append(exc)

    reader = threading.Thread(target=read)
    reader.start()
    assert reads.wait(20)
    database.close()
    reader.join(20)

    assert len(told) == 1
    Database(str(here / "s.duckdb"), SYSTEM).close()


def test_closing_without_an_open_store_does_nothing(here: Path) -> None:
    loom.close()

    assert list(here.iterdir()) == []


def test_opening_and_closing_leaves_no_threads(here: Path) -> None:
    @loom.workflow
    class Quick(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None: ...

    before = set(threading.enumerate())
    for _ in range(3):
        with loom.open(here / "s.duckdb") as session:
            session.start(Quick).wait(10)
    for thread in set(threading.enumerate()) - before:
        thread.join(5)

    assert not [t for t in threading.enumerate() if t not in before]


def test_a_closed_store_is_opened_anew(here: Path) -> None:
    first = loom.open(here / "s.duckdb")
    first.close()
    with loom.open(here / "s.duckdb") as second:
        assert second is not first


def test_a_result_outlives_neither_the_store_nor_in_silence(here: Path) -> None:
    session = loom.open(here / "s.duckdb")
    relation = session.sql("select 1")
    session.close()

    with pytest.raises(loom.LoomError):
        relation.fetchall()


# -- copying ------------------------------------------------------------------------------------------


def test_a_snapshot_is_a_store_of_its_own(session: loom.Loom, here: Path) -> None:
    run = session.confirm("Go?", key="k")
    copied = session.snapshot(str(here / "copy.duckdb"))
    run.answer(True)
    at_rest(run)

    with loom.open(copied) as copy:
        assert copy.sql("select run_id, status from runs").fetchall() == [(run.id, "waiting")]
        assert [p.run.id for p in copy.pending()] == [run.id]


def test_a_snapshot_may_be_read_by_another_program_at_once(session: loom.Loom, here: Path) -> None:
    session.confirm("Go?")
    copied = session.snapshot(str(here / "copy.duckdb"))

    with duckdb.connect(str(copied), read_only=True) as raw:
        assert raw.execute("select status from runs").fetchall() == [("waiting",)]


def test_a_snapshot_never_overwrites(session: loom.Loom, here: Path) -> None:
    (here / "copy.duckdb").write_text("mine")

    with pytest.raises(loom.Refused, match="exists"):
        session.snapshot(str(here / "copy.duckdb"))
    assert (here / "copy.duckdb").read_text() == "mine"


def test_a_snapshot_of_the_store_onto_itself_is_refused(session: loom.Loom, here: Path) -> None:
    with pytest.raises(loom.Refused):
        session.snapshot(str(here / "s.duckdb"))


def test_a_snapshot_name_may_hold_a_quote(session: loom.Loom, here: Path) -> None:
    assert session.snapshot(str(here / "it's a copy.duckdb")).exists()


@pytest.mark.parametrize("name", ['a "store".duckdb', "it's.duckdb", "ü 😀.duckdb", "a;b.duckdb"])
def test_a_store_of_any_name_can_be_copied(here: Path, name: str) -> None:
    with loom.open(here / name) as session:
        assert session.snapshot(str(here / "copy.duckdb")).exists()


FULL = """
import resource, signal, sys
import loomnb as loom
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with loom.open(sys.argv[1]) as session:
    session.confirm("x" * 2_000_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))  # as if the disk were full
    try:
        session.snapshot(sys.argv[2])
    except loom.WorldFailed as exc:
        print(exc.message)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(session.snapshot(sys.argv[2]).exists())
"""


def test_a_snapshot_for_which_there_is_no_room_leaves_nothing(here: Path) -> None:
    (here / "copies").mkdir()
    command = [sys.executable, "-c", FULL, str(here / "s.duckdb"), str(here / "copies" / "copy.duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True, timeout=60)

    assert "could not be written" in done.stdout.splitlines()[0]
    assert done.stdout.splitlines()[1] == "True"
    assert [p.name for p in (here / "copies").iterdir()] == ["copy.duckdb"]


def test_a_snapshot_where_nothing_can_be_written_says_so(session: loom.Loom, here: Path) -> None:
    (here / "taken").write_text("a file")
    with pytest.raises(loom.WorldFailed, match="could not be written"):
        session.snapshot(str(here / "taken" / "copy.duckdb"))


def test_a_snapshot_leaves_only_itself(session: loom.Loom, here: Path) -> None:
    session.snapshot(str(here / "copies" / "copy.duckdb"))

    assert [p.name for p in (here / "copies").iterdir()] == ["copy.duckdb"]


def test_a_store_in_memory_can_be_kept_by_a_snapshot(here: Path) -> None:
    with loom.open(":memory:") as session:
        session.confirm("Go?")
        copied = session.snapshot(str(here / "kept.duckdb"))
    with loom.open(copied) as kept:
        assert len(kept.pending()) == 1


def test_two_snapshots_at_once_are_two_copies(session: loom.Loom, here: Path) -> None:
    session.confirm("Go?")
    failures: list[BaseException] = []

    def copy(name: str) -> None:
        try:
            session.snapshot(str(here / name))
        except Exception as exc:  # noqa: BLE001  # whatever it is, the test shows it
            failures.append(exc)

    threads = [threading.Thread(target=copy, args=(f"copy{i}.duckdb",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(list(here.glob("copy*.duckdb"))) == 4


LOST = """
import os, sys
import loomnb as loom
loom.open(sys.argv[1])
for number in range(20):
    loom.confirm(f"Question {number}?")
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("harm", ["cut", "removed"])
def test_rows_that_a_harmed_log_lost_are_told_and_the_log_is_kept(tmp_path: Path, harm: str) -> None:
    """DuckDB opens a cut log without a word; what the dead owner had acknowledged stands in the lock file."""
    path = tmp_path / "lost.duckdb"
    log = tmp_path / "lost.duckdb.wal"
    subprocess.run([sys.executable, "-c", LOST, str(path)], check=False)
    if harm == "cut":
        os.truncate(log, log.stat().st_size // 2)
    else:
        log.unlink()

    with pytest.warns(loom.StoreWarning, match=r"lost its last \d+ rows"):
        store = loom.open(path)
    store.close()
    assert (tmp_path / "lost.duckdb.wal.kept").exists() == (harm == "cut")


def test_a_killed_owner_whose_log_is_whole_is_not_mentioned(tmp_path: Path) -> None:
    path = tmp_path / "whole.duckdb"
    subprocess.run([sys.executable, "-c", LOST, str(path)], check=False)

    store = loom.open(path)

    assert len(store.pending()) == 20
    assert not (tmp_path / "whole.duckdb.wal.kept").exists()
    store.close()
