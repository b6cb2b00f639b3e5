"""The one writer: a batch is whole or not there, is acknowledged after its commit, and keeps its order."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

import loomnb as loom
from loomnb.store import MEMORY, Database, Row
from loomnb.testing import Death
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


def test_a_batch_that_nobody_waits_for_is_written_though_nothing_follows(database: Database) -> None:
    written = threading.Event()
    database.put([row(1)], lambda *_: written.set(), behind=True)

    assert written.wait(10)
    assert stored(database) == [1]


def test_batches_that_nobody_waits_for_keep_their_place_before_one_that_is_awaited(database: Database) -> None:
    for n in range(1, 5):
        database.put([row(n)], lambda *_: None, behind=True)
    database.commit([row(5)])

    assert stored(database) == [1, 2, 3, 4, 5]


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


# -- transactions -------------------------------------------------------------------------------------


def note(n: int, rows: int = 1) -> Any:
    """An action that writes a table of its own, gives so many journal rows, and tells the number of the first."""

    def action(connection: Any, now: Any, seq: int) -> tuple[list[Row], int]:
        connection.execute("create table if not exists notes(n integer)")
        connection.execute("insert into notes values (?)", [n])
        return [row(n) for _ in range(rows)], seq

    return action


def fails(error: Exception) -> Any:
    def action(connection: Any, now: Any, seq: int) -> tuple[list[Row], int]:
        note(99)(connection, now, seq)
        raise error

    return action


def notes(database: Database) -> list[int]:
    return [n for (n,) in database.read("select n from notes order by n")]


def test_a_transaction_lands_with_its_journal_rows(database: Database) -> None:
    database.commit([row(0)])

    assert [database.transacted(note(1)), database.transacted(note(2, rows=3)), database.transacted(note(3))] == [2, 3, 6]
    assert (notes(database), stored(database), database.last_seq) == ([1, 2, 3], [0, 1, 2, 2, 2, 3], 6)


def test_a_transaction_may_have_no_journal_row(database: Database) -> None:
    database.transacted(note(1, rows=0))
    database.commit([row(2)])

    assert (notes(database), stored(database), database.last_seq) == ([1], [2], 1)


def test_a_refusal_arrives_as_it_is_and_undoes_the_rest(database: Database) -> None:
    database.transacted(note(1))
    refusal = loom.Conflict("no")

    with pytest.raises(loom.Conflict) as caught:
        database.transacted(fails(refusal))

    assert caught.value is refusal
    assert (notes(database), stored(database)) == ([1], [1])
    assert database.transacted(note(2)) == 2


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), duckdb.IOException("disk")], ids=["ours", "duckdb"])
def test_any_other_error_is_a_failed_commit_with_its_cause(database: Database, error: Exception) -> None:
    database.transacted(note(1))

    with pytest.raises(loom.WorldFailed) as caught:
        database.transacted(fails(error))

    assert (caught.value.code, caught.value.__cause__) == ("COMMIT_FAILED", error)
    assert (notes(database), stored(database)) == ([1], [1])


def test_a_bad_journal_row_undoes_its_transaction(database: Database) -> None:
    database.transacted(note(1))

    def action(connection: Any, now: Any, seq: int) -> tuple[list[Row], None]:
        note(2)(connection, now, seq)
        return [row(2), BAD], None

    with pytest.raises(loom.WorldFailed):
        database.transacted(action)

    assert (notes(database), stored(database)) == ([1], [1])


def test_an_error_inside_a_transaction_that_its_action_swallows_is_not_committed(database: Database) -> None:
    database.transacted(note(1))

    def action(connection: Any, now: Any, seq: int) -> tuple[list[Row], None]:
        note(2)(connection, now, seq)
        with contextlib.suppress(duckdb.Error):
            connection.execute("insert into nowhere values (1)")
        return [row(2)], None

    with pytest.raises(loom.WorldFailed):
        database.transacted(action)

    assert (notes(database), stored(database)) == ([1], [1])


def test_transactions_and_batches_stand_in_one_queue(database: Database) -> None:
    told: list[tuple[str, int]] = []
    over = threading.Event()
    release = hold(database)
    database.put([row(1), row(1)], lambda _, seq: told.append(("batch", seq)))
    database.transact(note(2), lambda _, seq: told.append(("transaction", seq or 0)))
    database.transact(fails(loom.Conflict("no")), lambda error, _: told.append((error.code if error else "", 0)))
    database.put([row(3)], lambda _, seq: told.append(("batch", seq)))
    database.put([row(4)], lambda *_: over.set())
    release.set()
    assert over.wait(10)

    assert told == [("batch", 3), ("transaction", 4), ("CONFLICT", 0), ("batch", 5)]
    assert stored(database) == [0, 1, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("error", "kept"), [(loom.Conflict("no"), [0, 1]), (ZeroDivisionError(), [0])], ids=["refusal", "failure"]
)
def test_a_failed_transaction_breaks_its_chain_and_a_refused_one_does_not(
    database: Database, error: Exception, kept: list[int]
) -> None:
    chain, over = Database.chain(), threading.Event()
    release = hold(database)
    database.transact(fails(error), lambda *_: None, chain=chain)
    database.put([row(1)], lambda *_: None, chain=chain)
    database.transact(lambda *_: ([], None), lambda *_: over.set(), chain=chain)
    release.set()
    assert over.wait(10)

    assert stored(database) == kept


def test_a_transaction_has_the_injected_time(database: Database) -> None:
    assert database.transacted(lambda _, now, __: ([], now)) == StillSource().now()


def test_a_closed_store_takes_no_transaction(database: Database) -> None:
    database.close()

    with pytest.raises(loom.StoreClosed):
        database.transacted(note(1))


@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_store_that_dies_counts_transactions(tmp_path: Path, acknowledged: bool) -> None:
    death = Death(after=2, acknowledged=acknowledged)
    path = str(tmp_path / "s.duckdb")
    database, told = death(path, StillSource()), list[int]()
    database.put([row(1)], lambda *_: told.append(1))
    database.transact(note(2), lambda *_: told.append(2))
    with pytest.raises(loom.StoreClosed):
        database.transact(note(3), lambda *_: told.append(3))
    death.wait()
    database.close()

    assert told == ([1, 2] if acknowledged else [1])
    with duckdb.connect(path) as raw:
        assert raw.execute("from notes").fetchall() == [(2,)]
