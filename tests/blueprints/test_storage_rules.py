"""Storage against a plain model of its rules: any batches, any queries, any cursors."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loomnb as loom
from loomnb.blueprints.storage import Storage
from loomnb.blueprints.storage_commit import commit_action, recorded, replayed
from loomnb.blueprints.storage_rules import check_operations
from loomnb.errors import InvalidRequest
from loomnb.jsonvalue import dumps, loads
from loomnb.store import MEMORY, Database
from tests.blueprints.storing import append, create, remove, remove_record, replace
from tests.helpers import StillSource

IDS = ["a", "b", "Z", "ä", "😀"]
PLACES = [("f", "s"), ("f", "t"), ("g", "s")]


class Refusal(Exception):
    """A batch the model refuses, by its code."""


class Model:
    """The contract's rules, as plainly as they can be written."""

    def __init__(self) -> None:
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.records: dict[str, dict[str, Any]] = {}
        self.revision = 0

    def commit(self, operations: list[dict[str, Any]], now: str) -> None:
        targets = [("r" if "record" in o["type"] else "a", o["id"]) for o in operations]
        if len(set(targets)) < len(targets):
            raise Refusal("INVALID_REQUEST")
        before = copy.deepcopy((self.artifacts, self.records, self.revision))
        try:
            for operation in operations:
                self.apply(operation, now)
        except Refusal:
            self.artifacts, self.records, self.revision = before
            raise

    def apply(self, o: dict[str, Any], now: str) -> None:
        name, payload = o["id"], o.get("payload", {})
        place = payload.get("flowName"), payload.get("stageName")
        old = self.artifacts.get(name)
        match o["type"]:
            case "create_artifact":
                if old is not None or any(a["place"] == place for a in self.artifacts.values()):
                    raise Refusal("CONFLICT")
                self.revision += 1
                self.artifacts[name] = {"place": place, "revision": self.revision, "data": payload["data"], "at": (now, now)}
            case "replace_artifact":
                if old is None:
                    raise Refusal("NOT_FOUND")
                if old["revision"] != o["expectedRevision"] or old["place"] != place:
                    raise Refusal("CONFLICT")
                self.revision += 1
                old.update(revision=self.revision, data=payload["data"], at=(old["at"][0], now))
            case "remove_artifact":
                if old is None:
                    raise Refusal("NOT_FOUND")
                if old["revision"] != o["expectedRevision"]:
                    raise Refusal("CONFLICT")
                del self.artifacts[name]
            case "append_record":
                if name in self.records:
                    raise Refusal("CONFLICT")
                self.records[name] = {"place": place, "data": payload["data"], "at": now}
            case _:
                if name not in self.records:
                    raise Refusal("NOT_FOUND")
                del self.records[name]


ids = st.sampled_from(IDS)
places = st.sampled_from(PLACES)
revisions = st.integers(1, 6)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
operations = st.one_of(
    st.builds(lambda name, place, data: create(name, *place, data), ids, places, values),
    st.builds(lambda name, revision, place, data: replace(name, revision, *place, data), ids, revisions, places, values),
    st.builds(remove, ids, revisions),
    st.builds(lambda name, place, data: append(name, *place, data), ids, places, values),
    st.builds(remove_record, ids),
)
batches = st.lists(st.lists(operations, max_size=4), min_size=1, max_size=8)


def state_of(storage: Storage) -> tuple[Any, Any]:
    artifacts = storage.list_artifacts({"limit": 200}).wait().data
    records = storage.list_records({"limit": 200}).wait().data
    return (
        {
            a.id: {
                "place": (a.flow_name, a.stage_name),
                "revision": a.revision,
                "data": a.data,
                "at": (a.created_at, a.updated_at),
            }
            for a in artifacts
        },
        {r.id: {"place": (r.flow_name, r.stage_name), "data": r.data, "at": r.created_at} for r in records},
    )


@settings(max_examples=60)
@given(batches)
def test_a_commit_does_what_the_rules_say(batches: list[list[dict[str, Any]]]) -> None:
    source = StillSource()
    database = Database(MEMORY, source)
    storage, model = Storage(database), Model()
    lives: dict[str, list[int]] = {}
    for batch in batches:
        expected = given_code = None
        now = source.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        try:
            model.commit(copy.deepcopy(batch), now)
        except Refusal as exc:
            expected = str(exc)
        try:
            result = storage.commit(batch).wait()
        except loom.LoomError as exc:
            given_code = exc.code
        else:
            for artifact in result.written_artifacts:
                lives.setdefault(artifact.id, []).append(artifact.revision)
        source.advance(0.001)

        assert given_code == expected
    assert state_of(storage) == (model.artifacts, model.records)
    for name, revisions_of in lives.items():
        assert [a.revision for a in storage.history(name)] == revisions_of
    for name, artifact in model.artifacts.items():
        place = artifact["place"]
        assert storage.artifact(*place) == storage.artifact(name) == storage.artifact(name).as_of(artifact["revision"])
    for place in PLACES:
        here = [(r["at"], name.encode()) for name, r in model.records.items() if r["place"] == place]
        latest = storage.get_latest_record(*place).wait()
        assert (None if latest is None else latest.id.encode()) == (max(here)[1] if here else None)
    database.close()


@settings(max_examples=30)
@given(batches)
def test_a_result_is_made_again_from_its_batch_and_what_was_recorded(batches: list[list[dict[str, Any]]]) -> None:
    database = Database(MEMORY, StillSource())
    for batch in batches:
        try:
            checked = check_operations(batch)
            result = database.transacted(commit_action(checked))
        except loom.Refused:
            continue
        assert replayed(checked, loads(dumps(recorded(result)))) == result
        again = check_operations(loads(dumps(checked.to_json())))
        assert (again, again.fingerprint) == (checked, checked.fingerprint)
    database.close()


# -- lists --------------------------------------------------------------------------------------------

NAMES = ["".join(parts) for parts in itertools.product(["a", "Z", "é", "😀"], ["", "1", "￿"])]


@pytest.fixture(scope="module")
def full() -> Iterator[tuple[Storage, list[tuple[str, str, str, str]]]]:
    """A store with 60 artifacts at five moments, and what they are: (created_at, id, flow, stage)."""
    source = StillSource()
    database = Database(MEMORY, source)
    storage = Storage(database)
    rows = []
    for moment in range(5):
        made = [create(f"{name}{moment}", f"flow{i % 3}", f"{moment}-{i}") for i, name in enumerate(NAMES)]
        rows += [(a.created_at, a.id, a.flow_name, a.stage_name) for a in storage.commit(made).wait().written_artifacts]
        source.advance(0.001)
    yield storage, rows
    database.close()


moments = st.sampled_from([f"2026-01-02T03:04:0{s}Z" for s in ("4.999", "5.000", "5.001", "5.002", "5.003", "5.005")])
queries = st.fixed_dictionaries(
    {},
    optional={
        "flowName": st.sampled_from(["flow0", "flow1", "flow9"]),
        "stageName": st.sampled_from(["0-0", "1-1", "none"]),
        "ids": st.lists(st.sampled_from([f"{n}{m}" for n in NAMES for m in range(6)]), max_size=20),
        "createdAfter": moments,
        "createdBefore": moments,
        "order": st.sampled_from(["created_asc", "created_desc"]),
    },
)


@settings(max_examples=80)
@given(query=queries, limits=st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_the_pages_of_any_query_are_its_rows_in_order(
    full: tuple[Storage, list[tuple[str, str, str, str]]], query: dict[str, Any], limits: list[int]
) -> None:
    storage, rows = full
    after, before = query.get("createdAfter"), query.get("createdBefore")
    if after is not None and before is not None and after >= before:
        with pytest.raises(InvalidRequest):
            storage.list_artifacts(query).wait()
        return
    expected = sorted(
        (row for row in rows if _fits(row, query)),
        key=lambda row: (row[0], row[1].encode()),
        reverse=query.get("order") != "created_asc",
    )
    found: list[str] = []
    cursor = None
    for limit in itertools.cycle(limits):
        page = storage.list_artifacts({**query, "limit": limit, **({"cursor": cursor} if cursor else {})}).wait()
        found += [artifact.id for artifact in page.data]
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(page.data) == limit

    assert found == [row[1] for row in expected]


def _fits(row: tuple[str, str, str, str], query: dict[str, Any]) -> bool:
    created_at, name, flow, stage = row
    return (
        query.get("flowName", flow) == flow
        and query.get("stageName", stage) == stage
        and name in query.get("ids", [name])
        and query.get("createdAfter", "") < created_at < query.get("createdBefore", "9")
    )


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda b: b.decode("latin-1")))
@settings(max_examples=200)
def test_no_text_is_taken_for_a_cursor(full: tuple[Storage, Any], cursor: str) -> None:
    with pytest.raises(loom.Refused) as caught:
        full[0].list_artifacts({"cursor": cursor}).wait()

    assert caught.value.code == "INVALID_REQUEST"
