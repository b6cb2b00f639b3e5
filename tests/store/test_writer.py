"""The one writer: a batch is whole or not there, is acknowledged after its commit, and keeps its order."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

import loomnb as loom
from loomnb.store import MEMORY, Database, Row
from tests.helpers import StillSource

BAD = ("run-x", "bad", "{no json")


def row(n: int, run: str = "run-1") -> Row:
    return (run, "test", f'{{"n":{n}}}')


@pytest.fixture
def database() -> Any:
    opened = Database(MEMORY, StillSource())
    yield opened
    opened.close()


def stored(database: Database) -> list[int]:
    return [n for (n,) in database.read("select (body->>'n')::integer from journal where kind = 'test' order by seq")]


def test_what_was_committed_can_be_read(database: Database) -> None:
    database.commit([row(1), row(2)])

    assert stored(database) == [1, 2]


def test_numbers_count_up_without_a_gap(database: Database) -> None:
    database.commit([row(1)])
    database.commit([row(2), row(3)])

    assert database.read("select seq from journal order by seq") == [(1,), (2,), (3,)]


def test_a_commit_gives_the_number_of_its_last_row(database: Database) -> None:
    assert [database.commit([row(1)]), database.commit([row(2), row(3)])] == [1, 3]


def test_numbers_go_on_after_the_store_was_opened_again(tmp_path: Path) -> None:
    path = str(tmp_path / "s.duckdb")
    first = Database(path, StillSource())
    first.commit([row(1)])
    first.close()
    second = Database(path, StillSource())

    assert second.commit([row(2)]) == 2
    second.close()


def test_a_bad_batch_is_refused_whole(database: Database) -> None:
    with pytest.raises(loom.WorldFailed) as caught:
        database.commit([row(1), BAD, row(2)])

    assert caught.value.code == "COMMIT_FAILED"
    assert stored(database) == []


def test_the_writer_goes_on_after_a_bad_batch(database: Database) -> None:
    with pytest.raises(loom.WorldFailed):
        database.commit([BAD])
    database.commit([row(1)])

    assert database.read("select seq from journal") == [(1,)]


def hold(database: Database) -> threading.Event:
    """Keep the writer busy inside an acknowledgement, so that what is put meanwhile becomes one group."""
    held, release = threading.Event(), threading.Event()

    def acknowledge(*_: Any) -> None:
        held.set()
        release.wait(10)

    database.put([row(0)], acknowledge)
    held.wait(10)
    return release


def put_all(database: Database, batches: list[list[Row]]) -> list[tuple[int, str | None, int]]:
    """Put them as one group; (which, code of its error, number of its last row), in the order of acknowledgement."""
    told: list[tuple[int, str | None, int]] = []
    done = threading.Event()
    release = hold(database)

    for i, batch in enumerate(batches):

        def acknowledge(error: loom.LoomError | None, seq: int, i: int = i) -> None:
            told.append((i, error.code if error else None, seq))
            if len(told) == len(batches):
                done.set()

        database.put(batch, acknowledge)
    release.set()
    assert done.wait(10)
    return told


def test_a_group_is_acknowledged_in_order_with_each_batchs_own_number(database: Database) -> None:
    assert put_all(database, [[row(1)], [row(2), row(3)], [row(4)]]) == [(0, None, 2), (1, None, 4), (2, None, 5)]


def test_one_bad_batch_does_not_take_its_group_along(database: Database) -> None:
    told = put_all(database, [[row(1)], [row(2), BAD], [row(3)]])

    assert [code for _, code, _ in told] == [None, "COMMIT_FAILED", None]
    assert stored(database) == [0, 1, 3]


def test_what_is_queued_when_the_store_closes_is_written(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "s.duckdb"), StillSource())
    release = hold(database)
    for n in range(1, 1000):
        database.put([row(n)], lambda *_: None)
    release.set()
    database.close()
    with duckdb.connect(str(tmp_path / "s.duckdb")) as raw:
        assert raw.execute("select count(*) from journal").fetchall() == [(1000,)]


def test_many_threads_write_without_losing_a_row(database: Database) -> None:
    def write(which: int) -> None:
        for n in range(50):
            database.commit([row(n, f"run-{which}"), row(n + 1000, f"run-{which}")])

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert database.read("select count(*), max(seq) from journal") == [(800, 800)]
    assert database.read("select count(*) from (select run_id from journal group by run_id having count(*) = 100)") == [(8,)]


def test_each_threads_batches_stay_in_order(database: Database) -> None:
    def write(which: int) -> None:
        for n in range(50):
            database.put([row(n, f"run-{which}")], lambda *_: None)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.commit([row(99, "last")])

    for i in range(4):
        rows = database.read("select (body->>'n')::integer from journal where run_id = ? order by seq", [f"run-{i}"])
        assert [n for (n,) in rows] == list(range(50))


def test_an_acknowledged_batch_is_seen_by_every_reader(database: Database) -> None:
    for n in range(20):
        database.commit([row(n)])

        assert stored(database)[-1] == n


def test_rows_carry_the_clock_that_was_injected(tmp_path: Path) -> None:
    source = StillSource()
    database = Database(MEMORY, source)
    database.commit([row(1)])
    source.advance(60)
    database.commit([row(2)])

    assert database.read("select date_diff('second', min(ts), max(ts)) from journal") == [(60,)]
    database.close()
