"""Storage: what a commit does, what a read gives, and what stays when something fails: the contract's cases on our file."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import loomnb as loom
from loomnb.blueprints.access import CommitResult, StorageQuery, StoredArtifact
from loomnb.blueprints.storage import Later, Storage
from loomnb.errors import InvalidRequest, StorageFailed, Unavailable
from loomnb.ids import SYSTEM
from loomnb.store import MEMORY, Database
from tests.blueprints.storing import append, break_connection, create, remove, remove_record, replace
from tests.helpers import StillSource

PATIENCE = 20.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def source() -> StillSource:
    return StillSource()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s.duckdb")


@pytest.fixture
def database(source: StillSource) -> Iterator[Database]:
    opened = Database(MEMORY, source)
    yield opened
    opened.close()


@pytest.fixture
def storage(database: Database) -> Storage:
    return Storage(database)


def done(later: Later[Any]) -> Any:
    return later.wait(PATIENCE)


def commit(storage: Storage, *operations: Any) -> CommitResult:
    result: CommitResult = done(storage.commit(list(operations)))
    return result


def refused(later: Later[Any]) -> str:
    """The code it fails with."""
    with pytest.raises(loom.LoomError) as caught:
        done(later)
    return caught.value.code


def ids(storage: Storage, category: str = "artifacts", **query: Any) -> list[str]:
    page = done(storage.list_artifacts(query) if category == "artifacts" else storage.list_records(query))
    return [entry.id for entry in page.data]


# -- reading and writing ------------------------------------------------------------------------------


@pytest.mark.case("blueprints:SG-01")
def test_an_empty_store_gives_nothing(storage: Storage) -> None:
    assert done(storage.get_artifact("f", "s")) is None
    assert done(storage.get_artifact_by_id("a")) is None
    assert done(storage.get_latest_record("f", "s")) is None
    assert done(storage.get_record_by_id("r")) is None
    assert done(storage.list_artifacts()).data == done(storage.list_records()).data == []


def test_what_a_commit_gives_is_what_a_read_gives(storage: Storage) -> None:
    result = commit(storage, create("a", "flow", "stage", {"n": 1}), append("r", "flow", "stage", [1, None]))

    assert result.written_artifacts == [done(storage.get_artifact_by_id("a"))] == [done(storage.get_artifact("flow", "stage"))]
    assert result.appended_records == [done(storage.get_record_by_id("r"))] == [done(storage.get_latest_record("flow", "stage"))]


def test_an_artifact_has_the_fields_of_the_contract(storage: Storage) -> None:
    commit(storage, create("a", "flow", "stage", {"n": 1}))

    assert done(storage.get_artifact_by_id("a")) == StoredArtifact(
        id="a",
        flow_name="flow",
        stage_name="stage",
        revision=1,
        data={"n": 1},
        created_at="2026-01-02T03:04:05.000Z",
        updated_at="2026-01-02T03:04:05.000Z",
    )


JSON = [
    None,
    True,
    0,
    -1.5,
    1e300,
    2**63,
    10**100,
    "",
    "é 😀 \u0000 \u2028",
    [],
    {},
    {"": {'a"b\\c': [[[]]]}},
    [1, "1", 1.0, None],
    {"b": 1, "a": 2},
]


@pytest.mark.parametrize("data", JSON, ids=lambda d: repr(d)[:20])
def test_any_json_comes_back_as_it_was(storage: Storage, data: Any) -> None:
    commit(storage, create("a", data=data), append("r", data=data))

    stored = done(storage.get_artifact_by_id("a")).data
    assert stored == done(storage.get_record_by_id("r")).data == data
    assert repr(stored) == repr(data)  # 1 is not 1.0, and keys keep their order


@pytest.mark.case("blueprints:SG-02")
def test_a_change_after_the_call_changes_nothing(storage: Storage) -> None:
    data = {"items": [1]}
    operations = [create("a", data=data), append("r", data=data)]
    later = storage.commit(operations)
    data["items"].append(2)
    operations[0]["id"] = "b"
    operations.clear()
    done(later)

    assert done(storage.get_artifact_by_id("a")).data == done(storage.get_record_by_id("r")).data == {"items": [1]}


@pytest.mark.case("blueprints:SG-03")
def test_a_change_of_what_a_commit_or_a_read_gave_changes_nothing(storage: Storage) -> None:
    result = commit(storage, create("a", data={"items": [1]}), append("r", data={"items": [1]}))
    result.written_artifacts[0].data["items"].append(2)
    result.appended_records[0].data["items"].append(2)
    done(storage.get_artifact_by_id("a")).data["items"].append(3)
    done(storage.list_artifacts()).data[0].data["items"].append(4)

    assert done(storage.get_artifact_by_id("a")).data == done(storage.get_record_by_id("r")).data == {"items": [1]}


@pytest.mark.case("blueprints:SG-05")
def test_what_was_committed_is_there_after_the_store_was_opened_again(path: str) -> None:
    database = Database(path, SYSTEM)
    storage = Storage(database)
    commit(storage, create("a", "flow", "stage", "kept"), append("r", data="kept too"))
    done(storage.dispose())
    database.close()
    again = Database(path, SYSTEM)

    assert done(Storage(again).get_artifact("flow", "stage")).data == "kept"
    assert done(Storage(again).get_record_by_id("r")).data == "kept too"
    again.close()


@pytest.mark.case("blueprints:SG-06")
def test_an_artifact_and_a_record_may_have_one_id(storage: Storage) -> None:
    commit(storage, create("x", data=1), append("x", data=2))

    assert (done(storage.get_artifact_by_id("x")).data, done(storage.get_record_by_id("x")).data) == (1, 2)


@pytest.mark.case("blueprints:CL-01")
def test_an_id_and_a_location_find_the_same_artifact(storage: Storage) -> None:
    commit(storage, create("a", "f/g", "h"), create("b", "f", "g/h"))

    assert done(storage.get_artifact("f/g", "h")) == done(storage.get_artifact_by_id("a"))
    assert done(storage.get_artifact("f", "g/h")) == done(storage.get_artifact_by_id("b"))
    assert done(storage.get_artifact("f", "h")) is None


@pytest.mark.case("blueprints:SG-16")
def test_an_empty_batch_gives_four_empty_lists(storage: Storage, database: Database) -> None:
    assert commit(storage) == CommitResult()
    assert database.last_seq == 0


def test_the_latest_record_of_one_commit_is_the_greatest_id(storage: Storage) -> None:
    commit(storage, append("z1"), append("a"), append("é"), append("😀"), append("￿"), append("b"))

    assert done(storage.get_latest_record("f", "s")).id == "😀"


def test_the_latest_record_is_of_its_stage_and_by_time_first(storage: Storage, source: StillSource) -> None:
    commit(storage, append("z"))
    source.advance(1)
    commit(storage, append("a"), append("zz", "f", "other"))

    assert done(storage.get_latest_record("f", "s")).id == "a"


# -- the rules of a batch -----------------------------------------------------------------------------


@pytest.mark.case("blueprints:SG-07")
@pytest.mark.parametrize("second", [create("b", "f", "s"), create("a", "f", "other")], ids=["place", "id"])
def test_a_place_and_an_id_are_taken_once(storage: Storage, second: Any) -> None:
    commit(storage, create("a", "f", "s"))

    with pytest.raises(loom.Conflict) as caught:
        done(storage.commit([second]))

    assert (caught.value.code, caught.value.retryable) == ("CONFLICT", False)
    assert ids(storage) == ["a"]


@pytest.mark.case("blueprints:SG-08")
@pytest.mark.parametrize("place", [("f", "other"), ("other", "s")], ids=["stage", "flow"])
def test_an_artifact_stays_where_it_is(storage: Storage, place: tuple[str, str]) -> None:
    revision = commit(storage, create("a", "f", "s")).written_artifacts[0].revision

    assert refused(storage.commit([replace("a", revision, *place)])) == "CONFLICT"


@pytest.mark.case("blueprints:SG-11")
def test_a_stale_revision_takes_its_whole_batch_along(storage: Storage, source: StillSource) -> None:
    made = commit(storage, create("a")).written_artifacts[0]
    source.advance(5)

    assert refused(storage.commit([append("r"), replace("a", made.revision + 1)])) == "CONFLICT"
    assert done(storage.get_record_by_id("r")) is None
    new = commit(storage, append("r"), replace("a", made.revision, data=2)).written_artifacts[0]
    assert new.revision > made.revision
    assert (new.created_at, new.updated_at) == ("2026-01-02T03:04:05.000Z", "2026-01-02T03:04:10.000Z")


@pytest.mark.case("blueprints:SG-12")
@pytest.mark.parametrize("reopened", [False, True], ids=["at once", "after reopening"])
def test_a_revision_is_never_used_again(path: str, reopened: bool) -> None:
    database = Database(path, SYSTEM)
    storage = Storage(database)
    old = commit(storage, create("a")).written_artifacts[0].revision
    commit(storage, remove("a", old))
    if reopened:
        database.close()
        database = Database(path, SYSTEM)
        storage = Storage(database)
    new = commit(storage, create("a")).written_artifacts[0].revision

    assert new > old
    assert refused(storage.commit([replace("a", old)])) == "CONFLICT"
    database.close()


def test_a_refused_batch_and_a_removal_use_no_revision(storage: Storage) -> None:
    commit(storage, create("a"))
    refused(storage.commit([create("b"), create("c"), create("a")]))
    commit(storage, remove("a", 1))

    assert commit(storage, create("d")).written_artifacts[0].revision == 2


def test_a_batch_counts_its_revisions_in_order_and_shares_one_time(storage: Storage) -> None:
    commit(storage, create("a"))
    written = commit(storage, create("c"), replace("a", 1), create("b")).written_artifacts

    assert [(w.id, w.revision) for w in written] == [("c", 2), ("a", 3), ("b", 4)]
    assert len({w.updated_at for w in written}) == 1


@pytest.mark.case("blueprints:SG-14")
def test_a_removal_names_the_revision(storage: Storage) -> None:
    commit(storage, create("a"), append("r"))

    assert refused(storage.commit([remove("a", 2)])) == "CONFLICT"
    result = commit(storage, remove("a", 1), remove_record("r"))
    assert (result.removed_artifact_ids, result.removed_record_ids) == (["a"], ["r"])
    assert done(storage.get_artifact_by_id("a")) is done(storage.get_record_by_id("r")) is None


@pytest.mark.case("blueprints:SG-15")
def test_of_two_batches_on_one_revision_one_wins_whole(storage: Storage) -> None:
    commit(storage, create("a"))
    gate = threading.Barrier(8)
    told: list[str] = []

    def write(n: int) -> None:
        gate.wait(PATIENCE)
        try:
            commit(storage, append(f"r{n}"), replace("a", 1, data=n))
        except loom.Conflict:
            told.append("lost")
        else:
            told.append("won")

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(told) == ["lost"] * 7 + ["won"]
    assert ids(storage, "records") == [f"r{done(storage.get_artifact_by_id('a')).data}"]


def test_a_place_is_free_after_a_removal_in_the_same_batch_but_not_before_it(storage: Storage) -> None:
    commit(storage, create("a", "f", "s"))

    assert refused(storage.commit([create("b", "f", "s"), remove("a", 1)])) == "CONFLICT"
    commit(storage, remove("a", 1), create("b", "f", "s"))
    assert done(storage.get_artifact("f", "s")).id == "b"


@pytest.mark.parametrize("n", [7, 8, 9, 30])
def test_any_number_of_artifacts_is_replaced_at_once(storage: Storage, source: StillSource, n: int) -> None:
    made = commit(storage, *[create(f"a{i}", data=0) for i in range(n)]).written_artifacts
    source.advance(1)
    commit(storage, *[replace(a.id, a.revision, data=i) for i, a in enumerate(made)])

    page = done(storage.list_artifacts({"limit": 200, "order": "created_asc"}))
    assert {a.id: a.data for a in page.data} == {f"a{i}": i for i in range(n)}
    assert {a.created_at for a in page.data} == {made[0].created_at}


@pytest.mark.case("blueprints:SG-23")
def test_one_batch_names_an_entry_once(storage: Storage) -> None:
    commit(storage, create("a"))

    for batch in ([create("b"), create("b", stage="t")], [replace("a", 1), remove("a", 1)], [append("r"), remove_record("r")]):
        assert refused(storage.commit(batch)) == "INVALID_REQUEST"
    assert (ids(storage), ids(storage, "records")) == (["a"], [])


@pytest.mark.case("blueprints:SG-25")
@pytest.mark.parametrize("missing", [remove_record("x"), remove("x", 1), replace("x", 1)], ids=lambda o: o["type"])
def test_what_is_not_there_cannot_be_changed(storage: Storage, missing: Any) -> None:
    assert refused(storage.commit([append("r"), missing])) == "NOT_FOUND"
    assert ids(storage, "records") == []


def test_a_replacement_is_judged_by_existence_then_revision_then_place(storage: Storage) -> None:
    commit(storage, create("a", "f", "s"))

    with pytest.raises(loom.Conflict, match="revision 1, not 2"):
        done(storage.commit([replace("a", 2, "f", "other")]))
    assert refused(storage.commit([replace("b", 2, "f", "other")])) == "NOT_FOUND"


def test_a_store_without_revisions_left_says_so_and_writes_nothing(path: str) -> None:
    Database(path, SYSTEM).close()
    with duckdb.connect(path) as raw:
        raw.execute(
            "insert into artifact_revisions values (1, 'x', 9007199254740990, 'f', 's', 'removed', null, now(), now(), null)"
        )
    database = Database(path, SYSTEM)
    storage = Storage(database)

    assert refused(storage.commit([append("r"), create("a"), create("b")])) == "STORAGE_ERROR"
    assert (ids(storage), ids(storage, "records")) == ([], [])
    assert commit(storage, create("a")).written_artifacts[0].revision == 2**53 - 1
    database.close()


# -- lists --------------------------------------------------------------------------------------------


@pytest.fixture
def listed(storage: Storage, source: StillSource) -> Storage:
    """Records r0 to r4, a second apart."""
    for n in range(5):
        commit(storage, append(f"r{n}", "f", f"s{n % 2}"))
        source.advance(1)
    return storage


@pytest.mark.case("blueprints:SG-17")
def test_a_page_goes_on_at_its_cursor_with_another_limit(listed: Storage) -> None:
    first = done(listed.list_records({"limit": 2, "order": "created_asc"}))
    rest = done(listed.list_records({"order": "created_asc", "cursor": first.next_cursor}))

    assert [r.id for r in first.data + rest.data] == ["r0", "r1", "r2", "r3", "r4"]
    assert rest.next_cursor is None


def test_the_default_is_newest_first(listed: Storage) -> None:
    assert ids(listed, "records") == ["r4", "r3", "r2", "r1", "r0"]


@pytest.mark.parametrize("category", ["artifacts", "records"])
@pytest.mark.parametrize("order", ["created_asc", "created_desc"])
def test_rows_of_one_moment_are_ordered_by_the_bytes_of_their_ids(storage: Storage, category: str, order: str) -> None:
    names = ["Z", "a", "b", "ä", "￿", "😀", "10", "9"]
    commit(storage, *[create(n) if category == "artifacts" else append(n) for n in names])

    found, cursor = [], None
    while True:
        query = {"order": order, "limit": 3, **({"cursor": cursor} if cursor else {})}
        page = done(storage.list_artifacts(query) if category == "artifacts" else storage.list_records(query))
        found += [entry.id for entry in page.data]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == sorted(names, key=str.encode, reverse=order == "created_desc")


@pytest.mark.parametrize("limit", [4, 5, 6])
def test_there_is_a_cursor_only_when_another_row_exists(listed: Storage, limit: int) -> None:
    assert (done(listed.list_records({"limit": limit})).next_cursor is not None) is (limit < 5)


@pytest.mark.case("blueprints:SG-19")
def test_bounds_are_not_within(listed: Storage) -> None:
    moment = "2026-01-02T03:04:07.000Z"  # r2

    assert ids(listed, "records", created_after=moment) == ["r4", "r3"]
    assert ids(listed, "records", created_before=moment) == ["r1", "r0"]
    assert ids(listed, "records", createdAfter="2026-01-02T03:04:06.999Z", createdBefore="2026-01-02T03:04:07.001Z") == ["r2"]


@pytest.mark.case("blueprints:SG-20")
def test_filters_hold_together(listed: Storage) -> None:
    assert ids(listed, "records", ids=[]) == []
    assert ids(listed, "records", ids=["r1", "r1", "nobody"]) == ["r1"]
    assert ids(listed, "records", flowName="nobody") == ids(listed, "records", stageName="nobody") == []
    assert ids(listed, "records", stage_name="s1") == ["r3", "r1"]
    assert ids(listed, "records", flow_name="f", stage_name="s1", ids=["r0", "r1"]) == ["r1"]


def test_a_query_may_be_the_data_type(listed: Storage) -> None:
    page = done(listed.list_records(StorageQuery(stage_name="s0", order="created_asc", limit=1)))

    assert [r.id for r in page.data] == ["r0"]


@pytest.mark.case("blueprints:DX-19")
def test_a_cursor_is_for_the_same_query_however_it_is_said(listed: Storage) -> None:
    cursor = done(listed.list_records({"limit": 1, "ids": ["r1", "r2"]})).next_cursor

    for same in ({"ids": ["r2", "r1", "r1"]}, {"ids": ["r1", "r2"], "order": "created_desc"}, {"ids": ["r1", "r2"], "limit": 7}):
        assert ids(listed, "records", cursor=cursor, **same) == ["r1"]


@pytest.mark.case("blueprints:CL-02")
@pytest.mark.parametrize(
    "other",
    [
        *({"flowName": "f"}, {"stageName": "s0"}, {"ids": ["r1"]}, {"order": "created_asc"}),
        *({"createdAfter": "2020-01-01T00:00:00.000Z"}, {"createdBefore": "2030-01-01T00:00:00.000Z"}),
    ],
    ids=lambda q: next(iter(q)),
)
def test_a_cursor_of_another_query_is_refused(listed: Storage, other: dict[str, Any]) -> None:
    cursor = done(listed.list_records({"limit": 1})).next_cursor

    assert refused(listed.list_records({"cursor": cursor, **other})) == "INVALID_REQUEST"
    assert refused(listed.list_artifacts({"cursor": cursor})) == "INVALID_REQUEST"


@pytest.mark.parametrize(
    "cursor", ["", "x", "é", "W10", "W10=", "eyJ9", "A" * 16385, 5, None, b"W10"], ids=lambda c: repr(c)[:12]
)
def test_what_no_page_gave_is_no_cursor(listed: Storage, cursor: Any) -> None:
    assert refused(listed.list_records({"cursor": cursor})) == "INVALID_REQUEST"


def test_a_cursor_outlives_the_row_it_stands_at(listed: Storage) -> None:
    cursor = done(listed.list_records({"limit": 2})).next_cursor
    commit(listed, remove_record("r3"), remove_record("r1"))

    assert ids(listed, "records", cursor=cursor) == ["r2", "r0"]


# -- bad input ----------------------------------------------------------------------------------------

NO_NAMES = ["", " ", "\u3000\ufeff", "a\nb", "\x00", "\x7f", "\x85", "\ud83d", "x" * 1025, "😀" * 513, None, 5, True, b"a", ["a"]]


@pytest.mark.case("blueprints:SG-22")
@pytest.mark.parametrize("name", NO_NAMES, ids=lambda n: repr(n)[:12])
def test_what_is_no_name_is_refused_everywhere(storage: Storage, name: Any) -> None:
    calls: list[Later[Any]] = [
        *(storage.get_artifact(name, "s"), storage.get_artifact("f", name), storage.get_artifact_by_id(name)),
        *(storage.get_latest_record(name, "s"), storage.get_latest_record("f", name), storage.get_record_by_id(name)),
        *(storage.list_artifacts({"flowName": name}), storage.list_records({"ids": ["a", name]})),
        *(storage.commit([create(name, stage="s")]), storage.commit([append("r", flow=name)]), storage.commit([remove(name, 1)])),
    ]

    assert {refused(call) for call in calls} == {"INVALID_REQUEST"}


@pytest.mark.parametrize(
    "name", ["x" * 1024, "😀" * 512, " a ", "\u200b", "../..", "'; drop table artifacts; --", "%", "a\u00adb"]
)
def test_any_other_text_is_a_name_as_it_is(storage: Storage, name: str) -> None:
    commit(storage, create(name, name, name), append(name, name, name))

    assert done(storage.get_artifact(name, name)).id == done(storage.get_latest_record(name, name)).id == name


NO_BATCHES = [
    None,
    "create",
    {"type": "remove_record", "id": "r"},
    [None],
    ["remove_record"],
    [{}],
    [{"type": "drop", "id": "a"}],
    [{"type": ["remove_record"], "id": "a"}],
    [{"type": "remove_record"}],
    [{"type": "remove_record", "id": "r", "extra": 1}],
    [{"type": "remove_record", "id": "r", 5: 1}],
    [{**create("a"), "expectedRevision": 1}],
    [{**create("a"), "payload": None}],
    [{**create("a"), "payload": {"flowName": "f", "stageName": "s"}}],
    [{**create("a"), "payload": {"flow_name": "f", "flowName": "f", "stageName": "s", "data": 1}}],
    [{**create("a"), "payload": {"flowName": "f", "stageName": "s", "data": 1, "x": 1}}],
    *([remove("a", revision)] for revision in (None, 0, -1, True, 1.0, 1.5, "1", 2**53)),
    *(
        [create("a", data=data)]
        for data in (float("nan"), float("inf"), (1,), {1: 2}, object(), "\ud800", {"a": datetime.now(UTC)})
    ),
]


@pytest.mark.parametrize("batch", NO_BATCHES, ids=lambda b: repr(b)[:40])
def test_what_is_no_batch_is_refused_whole(storage: Storage, batch: Any) -> None:
    assert refused(storage.commit(batch)) == "INVALID_REQUEST"
    if isinstance(batch, list):
        assert refused(storage.commit([append("r"), *batch])) == "INVALID_REQUEST"
    assert (ids(storage), ids(storage, "records")) == ([], [])


NO_QUERIES = [
    5,
    "all",
    [],
    {"unknown": 1},
    {5: 1},
    {"flowName": "f", "flow_name": "f"},
    {"flowName": None},
    {"ids": "abc"},
    {"ids": None},
    {"ids": {"a"}},
    *({"limit": limit} for limit in (0, 201, -1, 1.5, 50.0, "50", True, None)),
    *({"order": order} for order in ("asc", "", None, ["created_asc"])),
    *(
        {"createdAfter": t}
        for t in ("2026-01-02", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000+00:00", "2026-02-30T00:00:00.000Z")
    ),
    *(
        {"createdBefore": t}
        for t in ("2026-01-02T24:00:00.000Z", "2026-01-02t03:04:05.000z", 5, datetime(2026, 1, 2, tzinfo=UTC))
    ),
    {"createdAfter": "2026-01-02T03:04:05.000Z", "createdBefore": "2026-01-02T03:04:05.000Z"},
    {"createdAfter": "2026-01-02T03:04:05.001Z", "createdBefore": "2026-01-02T03:04:05.000Z"},
    StorageQuery(limit=0),
    StorageQuery(ids=["", "a"]),
]


@pytest.mark.parametrize("query", NO_QUERIES, ids=lambda q: repr(q)[:60])
def test_what_is_no_query_is_refused(storage: Storage, query: Any) -> None:
    assert refused(storage.list_artifacts(query)) == refused(storage.list_records(query)) == "INVALID_REQUEST"


def test_an_error_nobody_waits_for_makes_no_noise(storage: Storage) -> None:
    storage.commit(None)  # type: ignore[arg-type]  # that is the point
    storage.get_artifact_by_id("")
    gc.collect()  # warnings are errors here


# -- awaiting -----------------------------------------------------------------------------------------


def test_one_call_may_be_awaited_on_two_loops(storage: Storage) -> None:
    later = storage.commit([create("a")])

    async def wait() -> Any:
        return await later

    assert asyncio.run(wait()) is asyncio.run(wait())


def test_who_stops_waiting_does_not_stop_the_commit(storage: Storage, database: Database) -> None:
    release = hold(database)

    async def give_up() -> None:
        later = storage.commit([create("a")])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_of(later), 0.01)
        release.set()
        await later

    asyncio.run(give_up())

    assert ids(storage) == ["a"]


async def _of(later: Later[Any]) -> Any:
    return await later


def hold(database: Database) -> threading.Event:
    """Keep the writer busy, until the event is set."""
    held, release = threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        held.set()
        release.wait(PATIENCE)

    database.put([("r", "test", "{}")], wait)
    assert held.wait(PATIENCE)
    return release


@pytest.mark.case("blueprints:SG-26")
def test_disposing_finishes_what_was_accepted_and_refuses_what_comes(path: str) -> None:
    database = Database(path, SYSTEM)
    storage = Storage(database)
    release = hold(database)
    in_flight = storage.commit([create("a")])
    first, second = storage.dispose(), storage.dispose()

    assert first is second
    assert not first.is_done
    for call in (storage.commit([]), storage.commit([create("b")]), storage.get_artifact_by_id("a"), storage.list_records()):
        with pytest.raises(Unavailable) as caught:
            done(call)
        assert (caught.value.code, caught.value.retryable) == ("KERNEL_UNAVAILABLE", False)
    release.set()
    done(first)
    assert in_flight.is_done
    database.close()
    again = Database(path, SYSTEM)
    assert ids(Storage(again)) == ["a"]
    again.close()


def test_a_closed_store_is_unavailable(storage: Storage, database: Database) -> None:
    database.close()

    for call in (storage.commit([create("b")]), storage.get_artifact_by_id("a"), storage.list_records()):
        with pytest.raises(Unavailable) as caught:
            done(call)
        assert caught.value.retryable is False
    done(storage.dispose())


# -- when something fails -----------------------------------------------------------------------------


@pytest.mark.case("blueprints:SG-27", "blueprints:SG-37")
def test_an_open_store_is_busy_and_a_dead_owners_is_free(path: str) -> None:
    code = (
        "import sys; from loomnb.store import Database; from loomnb.ids import SYSTEM\n"
        "from loomnb.blueprints.storage import Storage\n"
        "from tests.blueprints.storing import create\n"
        f"Storage(Database({path!r}, SYSTEM)).commit([create('a')]).wait(); print('ready', flush=True); sys.stdin.read()"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        with pytest.raises(loom.StoreBusy) as caught:
            Database(path, SYSTEM)
        assert (caught.value.code, caught.value.retryable) == ("BUSY", True)
        owner.kill()
    database = Database(path, SYSTEM)

    assert ids(Storage(database)) == ["a"]
    database.close()


@pytest.mark.case("blueprints:SG-28")
def test_a_file_that_is_no_store_is_refused_unchanged_and_not_owned(path: str) -> None:
    Path(path).write_bytes(b"{ no store" * 1000)
    for _ in range(2):
        with pytest.raises(loom.StoreDamaged) as caught:
            Database(path, SYSTEM)
        assert caught.value.code == "STORAGE_ERROR"

    assert Path(path).read_bytes() == b"{ no store" * 1000


@pytest.mark.case("blueprints:SG-30")
def test_a_failure_after_a_commit_took_effect_makes_the_handle_unusable_until_it_is_opened_again(path: str) -> None:
    database = Database(path, SYSTEM)
    storage = Storage(database)
    release = hold(database)
    break_connection(database, after=True)
    first, queued = storage.commit([create("a")]), storage.commit([create("b")])
    release.set()

    assert (refused(first), refused(queued)) == ("STORAGE_ERROR", "STORAGE_ERROR")
    assert refused(storage.commit([append("r")])) == "STORAGE_ERROR"
    database.close()
    again = Database(path, SYSTEM)
    assert ids(Storage(again)) == ["a"]
    again.close()


@pytest.mark.case("blueprints:SG-33")
def test_a_commit_that_failed_shows_nothing_and_later_ones_work(path: str) -> None:
    database = Database(path, SYSTEM)
    storage = Storage(database)
    mend = break_connection(database, after=False)

    with pytest.raises(StorageFailed) as caught:
        done(storage.commit([create("a"), append("r")]))
    assert (caught.value.code, caught.value.retryable) == ("STORAGE_ERROR", False)
    mend()
    assert (ids(storage), ids(storage, "records")) == ([], [])
    assert commit(storage, create("b")).written_artifacts[0].revision == 1
    database.close()
    again = Database(path, SYSTEM)
    assert (ids(Storage(again)), ids(Storage(again), "records")) == (["b"], [])
    again.close()


@pytest.mark.case("blueprints:SG-31")
@pytest.mark.parametrize(
    "twice",
    [
        "insert into artifact_heads select * replace ('b' as artifact_id) from artifact_heads",
        "insert into artifact_heads select * replace ('elsewhere' as place) from artifact_heads",
        "insert into records select * from records",
    ],
)
def test_the_file_itself_takes_no_second_artifact_of_an_id_or_place(path: str, twice: str) -> None:
    database = Database(path, SYSTEM)
    commit(Storage(database), create("a"), append("r"))
    database.close()

    with duckdb.connect(path) as raw, pytest.raises(duckdb.ConstraintException):
        raw.execute(twice)


@pytest.mark.case("blueprints:SG-31", "blueprints:SG-36")
@pytest.mark.parametrize(
    "change",
    [
        "insert into migrations values (99, now())",
        "delete from migrations where number = 2",
        "delete from migrations where number >= 3",
    ],
)
def test_a_store_of_another_history_is_refused_and_keeps_its_data(path: str, change: str) -> None:
    database = Database(path, SYSTEM)
    commit(Storage(database), create("a", data="kept"))
    database.close()
    with duckdb.connect(path) as raw:
        raw.execute(change)

    with pytest.raises(loom.StoreDamaged):
        Database(path, SYSTEM)
    with duckdb.connect(path) as raw:
        assert raw.execute("select data->>'$' from artifacts").fetchall() == [("kept",)]


@pytest.mark.case("blueprints:SG-32")
def test_damaged_content_is_an_error_and_is_not_made_anew(path: str) -> None:
    database = Database(path, SYSTEM)
    marker = "MARKER" * 100
    commit(Storage(database), *[create(f"a{n}", data=f"{marker}{n}") for n in range(50)])
    database.close()
    content = bytearray(Path(path).read_bytes())
    at = content.find(b"MARKER")
    assert at > 0
    content[at] ^= 0xFF
    Path(path).write_bytes(content)

    def read() -> None:
        with contextlib.closing(Database(path, SYSTEM)) as damaged:
            done(Storage(damaged).list_artifacts())

    with pytest.raises((loom.StoreDamaged, StorageFailed)) as caught:
        read()
    assert caught.value.code == "STORAGE_ERROR"
    assert bytes(content[at : at + 6]) in Path(path).read_bytes()


@pytest.mark.case("blueprints:SG-34")
def test_two_stores_know_nothing_of_each_other(storage: Storage, tmp_path: Path) -> None:
    other_database = Database(str(tmp_path / "other.duckdb"), StillSource())
    other = Storage(other_database)
    commit(storage, create("a"), append("r1"), append("r2"))
    commit(storage, replace("a", 1))

    assert commit(other, create("a"), append("r1"), append("r2")).written_artifacts[0].revision == 1
    commit(other, remove("a", 1))
    assert ids(storage) == ["a"]
    cursor = done(storage.list_records({"limit": 1})).next_cursor
    assert refused(other.list_records({"cursor": cursor})) == "INVALID_REQUEST"
    other_database.close()


@pytest.mark.case("blueprints:SG-34")
def test_two_handles_on_one_store_see_each_others_commits(storage: Storage, database: Database) -> None:
    other = Storage(database)
    commit(storage, create("a"))
    commit(other, replace("a", 1, data=2))

    assert done(storage.get_artifact_by_id("a")).data == 2
    assert refused(storage.commit([replace("a", 1)])) == "CONFLICT"
    done(other.dispose())
    assert ids(storage) == ["a"]


def test_a_copy_of_a_store_takes_its_artifacts_and_their_rules_along(
    storage: Storage, database: Database, tmp_path: Path
) -> None:
    commit(storage, create("a", "f", "s"), append("r"))
    copy = Database(str(database.snapshot(str(tmp_path / "copy.duckdb"))), SYSTEM)

    assert commit(Storage(copy), create("b")).written_artifacts[0].revision == 2
    assert refused(Storage(copy).commit([create("c", "f", "s")])) == "CONFLICT"
    copy.close()
    with duckdb.connect(str(tmp_path / "copy.duckdb")) as raw, pytest.raises(duckdb.ConstraintException):
        raw.execute("insert into records select * from records")


# -- the past, and the notebook's helpers -------------------------------------------------------------


@pytest.mark.case("blueprints:CL-06")
def test_the_current_artifact_is_the_last_one_and_the_first_record_stays(storage: Storage) -> None:
    commit(storage, create("a", data="first"), append("r1", data="first"))
    commit(storage, replace("a", 1, data="second"), append("r2", data="second"))

    assert (storage.artifact("a").data, storage.artifact("a").revision) == ("second", 2)
    assert done(storage.get_record_by_id("r1")).data == "first"


def test_an_artifact_is_found_without_await_by_id_or_place(storage: Storage) -> None:
    commit(storage, create("a", "f", "s"))

    assert storage.artifact("a") == storage.artifact("f", "s")
    for name in (("b",), ("f", "t")):
        with pytest.raises(loom.NotFound):
            storage.artifact(*name)
    with pytest.raises(InvalidRequest):
        storage.artifact("")


def lived(storage: Storage, source: StillSource) -> None:
    """Made at 0 s, replaced at 10, removed at 20, made anew elsewhere at 30."""
    commit(storage, create("a", "f", "s", "one"))
    source.advance(10)
    commit(storage, replace("a", 1, "f", "s", "two"), create("other"))
    source.advance(10)
    commit(storage, remove("a", 2))
    source.advance(10)
    commit(storage, create("a", "f", "t", "three"))


def test_history_has_each_revision_also_of_an_earlier_life(storage: Storage, source: StillSource) -> None:
    lived(storage, source)

    past = storage.artifact("a").history()
    assert [(a.revision, a.stage_name, a.data) for a in past] == [(1, "s", "one"), (2, "s", "two"), (4, "t", "three")]
    assert past == storage.history("a")
    assert past[-1] == storage.artifact("a")
    assert (past[1].created_at, past[1].updated_at) == ("2026-01-02T03:04:05.000Z", "2026-01-02T03:04:15.000Z")


def test_the_history_of_a_removed_artifact_is_still_there(storage: Storage) -> None:
    commit(storage, create("a", data="gone"))
    commit(storage, remove("a", 1))

    assert [a.data for a in storage.history("a")] == ["gone"]
    with pytest.raises(loom.NotFound):
        storage.history("never")
    with pytest.raises(InvalidRequest):
        storage.history("")


START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("when", "data"),
    [
        *((1, "one"), (2, "two"), (3, "two"), (4, "three"), (99, "three")),
        (START - timedelta(milliseconds=1), None),
        (START, "one"),
        (START + timedelta(seconds=9.9), "one"),
        (START + timedelta(seconds=10), "two"),
        (START + timedelta(seconds=20), None),
        (START + timedelta(days=1), "three"),
        ("2026-01-02T03:04:15.000Z", "two"),
        ("2026-01-02T04:04:15+01:00", "two"),
        ("2027-01-01", "three"),
        (datetime(2027, 1, 1), "three"),  # noqa: DTZ001  # of this machine
    ],
    ids=str,
)
def test_an_artifact_is_what_it_was_at_a_revision_or_a_moment(
    storage: Storage, source: StillSource, when: Any, data: Any
) -> None:
    lived(storage, source)

    found = storage.artifact("a").as_of(when)
    assert (None if found is None else found.data) == data


@pytest.mark.parametrize("when", [0, -1, True, 1.5, "yesterday", "", None, 2**53], ids=repr)
def test_what_is_no_revision_or_moment_is_refused(storage: Storage, when: Any) -> None:
    commit(storage, create("a"))

    with pytest.raises(InvalidRequest):
        storage.artifact("a").as_of(when)


def test_what_a_commit_gave_knows_its_past_too(storage: Storage) -> None:
    commit(storage, create("a"))

    assert [a.revision for a in commit(storage, replace("a", 1)).written_artifacts[0].history()] == [1, 2]


# -- SQL ----------------------------------------------------------------------------------------------


def test_artifacts_records_and_their_history_are_tables_to_query(here: Path) -> None:
    with loom.open(here / "q.duckdb") as session:
        storage = Storage(session._database)
        commit(storage, create("a", "notes", "draft", {"title": "One"}), append("r", "notes", "draft", {"n": 1}))
        commit(storage, replace("a", 1, "notes", "draft", {"title": "Two"}), append("s", "notes", "draft", {"n": 2}))

        assert session.sql("select data->>'$.title' from artifacts where flow_name = 'notes'").fetchall() == [("Two",)]
        history = (
            "select revision, op, data->>'$.title', is_current from artifact_history where artifact_id = 'a' order by change"
        )
        assert session.sql(history).fetchall() == [(1, "created", "One", False), (2, "replaced", "Two", True)]
        assert session.sql("select record_id, data->>'$.n' from latest_records where stage_name = 'draft'").fetchall() == [
            ("s", "2")
        ]


def test_every_column_of_storage_says_what_it_is(database: Database) -> None:
    tables = "('artifacts', 'artifact_heads', 'artifact_revisions', 'records')"
    rows = database.read(f"select table_name, column_name from duckdb_columns() where table_name in {tables} and comment is null")

    assert rows == []


def test_a_long_read_sees_one_state_and_blocks_no_commit(storage: Storage, database: Database) -> None:
    commit(storage, create("a", data=1), append("r"))
    with database.reading() as cursor:
        cursor.execute("begin transaction read only")
        assert cursor.execute("select revision from artifacts").fetchall() == [(1,)]
        commit(storage, remove("a", 1), remove_record("r"))
        commit(storage, create("a", data=2), append("r"))  # the same keys again, while the reader holds the old ones

        assert cursor.execute("select revision from artifacts").fetchall() == [(1,)]
        cursor.execute("commit")
    assert done(storage.get_artifact_by_id("a")).data == 2


def test_operations_take_the_names_of_this_side_too(session: loom.Loom) -> None:
    payload = {"flow_name": "f", "stage_name": "s", "data": 1}
    session.storage.commit([{"type": "create_artifact", "id": "a", "payload": payload}]).wait()
    session.storage.commit([{"type": "remove_artifact", "id": "a", "expected_revision": 1}]).wait()

    assert session.storage.get_artifact("f", "s").wait() is None
