"""`loom.sql`: one statement that only reads, with parameters and frames, as a table that can be paged."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import loomnb as loom
from tests.helpers import at_rest

WRITES = [
    "insert into journal values (1, now(), 'r', 'k', '{}')",
    "update journal set kind = 'x'",
    "delete from journal",
    "truncate journal",
    "create table t(a integer)",
    "create or replace view runs as select 1",
    "drop view runs",
    "alter table journal add column a integer",
    "with gone as (delete from journal returning *) select * from gone",
    "explain analyze delete from journal",
    "explain analyze insert into journal values (1, now(), 'r', 'k', '{}')",
    "select * from query('delete from journal returning *')",
    "copy journal to 'out.csv'",
    "copy (select 1) to 'out.csv'",
    "copy journal from 'in.csv'",
    "export database 'out'",
    "attach 'other.duckdb'",
    "detach s",
    "checkpoint",
    "vacuum",
    "set memory_limit = '1GB'",
    "reset memory_limit",
    "pragma memory_limit = '1GB'",
    "pragma disable_checkpoint_on_shutdown",
    "pragma enable_profiling",
    "pragma force_checkpoint",
    "install httpfs",
    "update extensions",
    "load httpfs",
    "begin",
    "commit",
    "use memory",
    "call pragma_version()",
    "select * from enable_logging(storage_path = 'logs')",
    "select * from query('from enable_logging()')",
    "select * from enable_profiling(save_location = 'profile.json')",
    "prepare p as delete from journal",
    "execute p",
    "merge into journal using (select 1 as seq) as n on journal.seq = n.seq when matched then delete",
    "comment on table journal is 'mine'",
    "select 1; delete from journal",
    "delete from journal; select 1",
    "",
    "   ",
    ";",
    "-- nothing but a comment",
]


@pytest.mark.parametrize("sql", WRITES)
def test_whatever_would_write_is_refused_and_changes_nothing(session: loom.Loom, here: Path, sql: str) -> None:
    session.confirm("Go?")
    before = session.sql("select * from journal").fetchall()
    files = {p.name for p in here.iterdir()}

    with pytest.raises(loom.Refused):
        session.sql(sql)

    assert session.sql("select * from journal").fetchall() == before
    assert {p.name for p in here.iterdir()} == files


@pytest.mark.parametrize("sql", WRITES[:12])
def test_runs_go_on_after_a_refused_statement(session: loom.Loom, sql: str) -> None:
    with pytest.raises(loom.Refused):
        session.sql(sql)
    run = session.confirm("Go?")
    run.answer(True)

    assert at_rest(run).status == "completed"


READS = [
    ("select 1 as a", [(1,)]),
    ("SELECT 1 AS a;", [(1,)]),
    ("select 1 as a -- a comment at the end", [(1,)]),
    ("/* a comment */ select ';' as a", [(";",)]),
    ("with a as (select 1 as x) select x from a", [(1,)]),
    ("from range(2)", [(0,), (1,)]),
    ("values (1, 'a')", [(1, "a")]),
    ("select count(*) from runs", [(0,)]),
]


@pytest.mark.parametrize(("sql", "rows"), READS, ids=[sql for sql, _ in READS])
def test_a_query_gives_its_rows(session: loom.Loom, sql: str, rows: list[Any]) -> None:
    assert session.sql(sql).fetchall() == rows


@pytest.mark.parametrize(
    "sql", ["describe runs", "show tables", "explain select 1", "summarize runs", "pragma table_info('journal')"]
)
def test_a_look_at_the_tables_is_a_query_too(session: loom.Loom, sql: str) -> None:
    assert len(session.sql(sql)) > 0


def test_two_columns_of_one_name_are_two_columns(session: loom.Loom) -> None:
    assert len(session.sql("select 1 as a, 2 as a").columns) == 2


def test_positional_parameters_are_filled_in(session: loom.Loom) -> None:
    assert session.sql("select ? || ?", ["a", "b'"]).fetchall() == [("ab'",)]


def test_named_parameters_are_filled_in(session: loom.Loom) -> None:
    assert session.sql("select $b || $a", {"a": "a", "b": "b"}).fetchall() == [("ba",)]


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("select * from nothing_here", "nothing_here"),
        ("select nothing_here from runs", "nothing_here"),
        ("selec 1", "selec"),
        ("select 1/", "syntax"),
    ],
)
def test_a_wrong_query_is_refused_in_words_that_help(session: loom.Loom, sql: str, part: str) -> None:
    with pytest.raises(loom.Refused, match=part) as caught:
        session.sql(sql)

    assert caught.value.code == "SQL_REFUSED"


@pytest.mark.parametrize("sql", [None, 5, b"select 1", ["select 1"], "select 'half \ud800'"], ids=repr)
def test_what_is_no_text_is_no_query(session: loom.Loom, sql: Any) -> None:
    with pytest.raises(loom.Refused):
        session.sql(sql)


@pytest.mark.parametrize("params", ["ab", 5, {1, 2}])
def test_what_is_no_list_or_mapping_gives_no_values(session: loom.Loom, params: Any) -> None:
    with pytest.raises(loom.Refused, match="values"):
        session.sql("select ?", params)


def test_an_unknown_table_lists_those_there_are(session: loom.Loom) -> None:
    with pytest.raises(loom.Refused, match="runs, moves, documents"):
        session.sql("select * from nothing_here")


def test_a_missing_parameter_is_refused(session: loom.Loom) -> None:
    with pytest.raises(loom.Refused):
        session.sql("select ?")


# -- frames -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_a_frame_is_found_by_its_name(session: loom.Loom, make: Any) -> None:
    my_frame = make({"a": [1, 2]})

    assert session.sql("select sum(a) from my_frame").fetchall() == [(3,)]
    assert my_frame is not None


def test_two_frames_are_found_in_one_query(session: loom.Loom) -> None:
    left_frame = pd.DataFrame({"k": [1, 2], "a": ["x", "y"]})
    right_frame = pd.DataFrame({"k": [2], "b": ["z"]})

    assert session.sql("select a, b from left_frame join right_frame using (k)").fetchall() == [("y", "z")]
    assert len(left_frame) == len(right_frame) + 1


FRAME_QUERIES = [
    "from my_frame",
    "select * from my_frame as f where a in (select a from my_frame)",
    "with mine as (select * from my_frame) select * from mine",
    "select (select sum(a) from my_frame)",
    "select * from my_frame union all select * from my_frame",
    "select * from my_frame, lateral (select a + 1)",
    "pivot my_frame on a in (1, 2) using count(*)",
    "describe my_frame",
    "summarize my_frame",
]


@pytest.mark.parametrize("sql", FRAME_QUERIES)
def test_a_frame_is_found_wherever_it_stands(session: loom.Loom, sql: str) -> None:
    my_frame = pd.DataFrame({"a": [1, 2]})

    assert len(session.sql(sql)) > 0
    assert len(my_frame) == 2


def test_a_result_is_found_by_its_name(session: loom.Loom) -> None:
    numbers = session.sql("select range as n from range(3)")

    assert session.sql("select sum(n) from numbers").fetchall() == [(3,)]
    assert len(numbers) == 3


def test_a_table_of_the_store_goes_before_a_frame(session: loom.Loom) -> None:
    runs = pd.DataFrame({"a": [1, 2, 3]})

    assert session.sql("select count(*) from runs").fetchall() == [(0,)]
    assert len(runs) == 3


def test_a_frame_joins_a_table_of_the_store(session: loom.Loom) -> None:
    run = session.confirm("Go?")
    notes = pd.DataFrame({"run_id": [run.id], "note": ["mine"]})

    assert session.sql("select note, status from runs join notes using (run_id)").fetchall() == [("mine", "waiting")]
    assert len(notes) == 1


def test_a_variable_that_is_no_frame_is_not_read(session: loom.Loom) -> None:
    secret = {"a": [1]}

    with pytest.raises(loom.Refused):
        session.sql("select * from secret")
    assert secret


def test_the_module_verb_finds_the_callers_frames_too(session: loom.Loom) -> None:
    my_frame = pd.DataFrame({"a": [1, 2]})

    assert loom.sql("select sum(a) from my_frame").fetchall() == [(3,)]
    assert len(my_frame) == 2


# -- the relation -------------------------------------------------------------------------------------


def test_a_result_is_a_pandas_frame(session: loom.Loom) -> None:
    pd.testing.assert_frame_equal(session.sql("select 1::bigint as a").df(), pd.DataFrame({"a": [1]}))


def test_a_result_is_a_polars_frame(session: loom.Loom) -> None:
    assert session.sql("select 1::bigint as a").pl().to_dicts() == [{"a": 1}]


def test_a_result_is_an_arrow_table(session: loom.Loom) -> None:
    assert session.sql("select 1::bigint as a").arrow().to_pylist() == [{"a": 1}]


def test_pages_keep_the_order_of_the_query(session: loom.Loom) -> None:
    relation = session.sql("select range as n from range(1000) order by n desc")

    assert relation.page(0, 3) == [(999,), (998,), (997,)]
    assert relation.page(998, 3) == [(1,), (0,)]
    assert relation.page(5000, 3) == []


def test_a_result_knows_its_length_columns_and_types(session: loom.Loom) -> None:
    relation = session.sql("select 1::integer as a, 'x' as b from range(7)")

    assert (len(relation), relation.columns, relation.types) == (7, ["a", "b"], ["INTEGER", "VARCHAR"])


def test_a_result_does_not_change_when_the_store_does(session: loom.Loom) -> None:
    relation = session.sql("select status from runs")
    session.confirm("Go?")

    assert relation.fetchall() == []


def test_a_half_read_result_blocks_no_run(session: loom.Loom) -> None:
    relation = session.sql("select * from range(100000)")
    relation.page(0, 10)
    run = session.confirm("Go?")
    run.answer(True)

    assert at_rest(run).status == "completed"
    assert len(relation.fetchall()) == 100_000


def test_many_results_are_read_at_once(session: loom.Loom) -> None:
    relations = [session.sql("select ? as n from range(3)", [n]) for n in range(20)]

    assert [r.fetchall()[0][0] for r in relations] == list(range(20))


def test_the_text_is_an_aligned_table_that_says_what_is_left_out(session: loom.Loom) -> None:
    text = session.sql("select range as number from range(1234)").text(3)

    assert text.splitlines() == ["number", "──────", "0", "1", "2", "… 1,231 more rows"]


def test_the_text_of_no_rows_says_so(session: loom.Loom) -> None:
    assert "(no rows)" in repr(session.sql("select * from runs"))


def test_a_cell_of_several_lines_is_one_line_of_text(session: loom.Loom) -> None:
    assert "a⏎b" in session.sql("select 'a\nb' as t").text()


def test_show_prints_the_text(session: loom.Loom, capsys: pytest.CaptureFixture[str]) -> None:
    session.sql("select 1 as a").show()

    assert capsys.readouterr().out == "a\n─\n1\n"


def test_an_interrupt_stops_a_long_query_within_two_seconds(session: loom.Loom) -> None:
    """The signal a kernel's stop button sends, to the thread that waits."""
    told: list[float] = []

    def interrupt() -> None:
        while not any(t.name == "loom query" for t in threading.enumerate()):
            threading.Event().wait(0.01)
        told.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    # As a kernel has it: a process that a shell started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        session.sql("select sum(a.range * b.range) from range(1000000) a, range(1000000) b")
    thread.join()
    signal.signal(signal.SIGINT, before)

    assert time.monotonic() - told[0] < 2
    assert session.sql("select 1").fetchall() == [(1,)]
