"""Storage as a step has it: bound to one execution, each call on record. The rules are `storage_rules`'."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from loomnb.blueprints.access import (
    ArtifactPast,
    CommitResult,
    StorageCategory,
    StorageOperation,
    StoragePage,
    StorageQuery,
    StoredArtifact,
    StoredRecord,
)
from loomnb.blueprints.storage_commit import commit_action, recorded, replayed
from loomnb.blueprints.storage_reads import (
    Past,
    read_artifact,
    read_artifact_by_id,
    read_latest_record,
    read_page,
    read_record_by_id,
    storage_error,
    with_past,
)
from loomnb.blueprints.storage_rules import check_name, check_operations, check_query
from loomnb.errors import LoomError, OwnershipLost
from loomnb.runtime import LiveCall, RunRecord

__all__ = ["ReadStorage", "StepStorage"]

T = TypeVar("T")
Entry = TypeVar("Entry", StoredArtifact, StoredRecord)


class ReadStorage:
    """Artifacts and records of the whole store, to read, in one execution of a step."""

    __slots__ = ("_live", "_past")

    def __init__(self, live: LiveCall) -> None:
        self._live = live
        self._past: ArtifactPast = Past(live.engine.database)

    def get_artifact(self, flow_name: str, stage_name: str) -> Awaitable[StoredArtifact | None]:
        """The artifact of a stage; None when there is none."""
        return self._one(
            "storage.get_artifact",
            lambda: [check_name(flow_name, "flow_name"), check_name(stage_name, "stage_name")],
            lambda db, told: read_artifact(db, told[0], told[1], past=self._past),
            self._artifact,
        )

    def get_artifact_by_id(self, id: str) -> Awaitable[StoredArtifact | None]:  # noqa: A002  # the contract's word
        """The artifact of an id."""
        return self._one(
            "storage.get_artifact_by_id",
            lambda: [check_name(id, "id")],
            lambda db, told: read_artifact_by_id(db, told[0], past=self._past),
            self._artifact,
        )

    def get_latest_record(self, flow_name: str, stage_name: str) -> Awaitable[StoredRecord | None]:
        """The record of a stage that is last by (created_at, id)."""
        return self._one(
            "storage.get_latest_record",
            lambda: [check_name(flow_name, "flow_name"), check_name(stage_name, "stage_name")],
            lambda db, told: read_latest_record(db, told[0], told[1]),
            _record,
        )

    def get_record_by_id(self, id: str) -> Awaitable[StoredRecord | None]:  # noqa: A002  # the contract's word
        """The record of an id."""
        return self._one(
            "storage.get_record_by_id", lambda: [check_name(id, "id")], lambda db, told: read_record_by_id(db, told[0]), _record
        )

    def list_artifacts(self, query: StorageQuery | Mapping[str, Any] | None = None) -> Awaitable[StoragePage]:
        """A page of artifacts."""
        return self._page("artifacts", query, self._artifact)

    def list_records(self, query: StorageQuery | Mapping[str, Any] | None = None) -> Awaitable[StoragePage]:
        """A page of records."""
        return self._page("records", query, _record)

    def _artifact(self, told: Any) -> StoredArtifact:
        return StoredArtifact(**told, _past=self._past)

    def _page(self, category: StorageCategory, query: Any, entry: Callable[[Any], Any]) -> Awaitable[StoragePage]:
        database = self._live.engine.database
        try:
            checked = check_query(category, query, database.store_id)
        except LoomError as exc:
            return self._refused(exc)
        told = [category, [f"{f.name}={getattr(checked, f.name)!r}" for f in fields(checked)]]

        def again(kept: Any) -> StoragePage:
            return StoragePage(data=[entry(one) for one in kept["data"]], next_cursor=kept["next"])

        def keep(page: StoragePage) -> Any:
            return {"data": [_plain(one) for one in page.data], "next": page.next_cursor}

        return self._read(f"storage.list_{category}", told, lambda: read_page(database, checked, past=self._past), keep, again)

    def _one(
        self,
        name: str,
        check: Callable[[], list[str]],
        read: Callable[[Any, list[str]], Entry | None],
        entry: Callable[[Any], Entry],
    ) -> Awaitable[Entry | None]:
        try:
            told = check()
        except LoomError as exc:
            return self._refused(exc)
        return self._read(
            name,
            told,
            lambda: read(self._live.engine.database, told),
            lambda found: _plain(found) if found is not None else None,
            lambda kept: entry(kept) if kept is not None else None,
        )

    def _read(
        self, name: str, told: Any, read: Callable[[], T], keep: Callable[[T], Any], again: Callable[[Any], T]
    ) -> Awaitable[T]:
        async def really(number: int) -> T:
            self._live.check()
            value: T = await asyncio.wrap_future(self._live.engine.readers.submit(read))
            self._live.check()
            self._live.note(number, name, told, keep(value))
            return value

        try:
            self._live.check()
            self._live.needs_loop(f"access.{name}(…)")
        except LoomError as exc:
            return self._live.refuse(exc)
        return self._live.perform(name, told, really, again)

    def _refused(self, exc: LoomError) -> Awaitable[Any]:
        """A call that cannot be; that of a call that is over is refused for that."""
        try:
            self._live.check()
        except LoomError as lost:
            exc = lost
        return self._live.refuse(exc)


class StepStorage(ReadStorage):
    """The same, and to write."""

    __slots__ = ()

    def commit(self, operations: Sequence[StorageOperation]) -> Awaitable[CommitResult]:
        """Apply operations in order, all or none; durable when awaited, and not done again when the step is made again.

        INVALID_REQUEST when one is malformed or a target stands twice, CONFLICT for a stale revision or a taken id or stage,
        NOT_FOUND for a missing one; EXECUTION_OWNERSHIP_LOST when the call is over, or waits for an answer.
        """
        live = self._live
        try:
            self._owned()
            live.needs_loop("access.storage.commit(…)")
            checked = check_operations(operations)
        except LoomError as exc:
            return live.refuse(exc)
        told = checked.to_json()

        async def really(number: int) -> CommitResult:
            self._owned()
            action = commit_action(checked, run_id=live.record.id)
            try:
                result = await live.transact(number, "storage.commit", told, action, recorded)
            except LoomError as exc:
                raise storage_error(exc) from exc
            _show(live.record, result)
            live.check()  # it is durable, but whoever asked for it is over: contract §1.8
            return with_past(result, self._past)

        return live.perform("storage.commit", told, really, lambda kept: with_past(replayed(checked, kept), self._past))

    def _owned(self) -> None:
        self._live.check()
        if self._live.waiting:
            raise OwnershipLost(
                f"The step {self._live.name!r} waits for an answer, and can commit nothing meanwhile.",
                advice="Await the answer first.",
            )


def _show(record: RunRecord, result: CommitResult) -> None:
    """Let a panel show what was written: an artifact stands where its earlier revision stood."""
    if record.artifacts is not None:  # else nobody has looked yet, and who does will find it in the store
        known = {a.id: a for a in record.artifacts} | {a.id: a for a in result.written_artifacts}
        record.artifacts = [a for a in known.values() if a.id not in result.removed_artifact_ids]
    record.tell("view")


def _record(told: Any) -> StoredRecord:
    return StoredRecord(**told)


def _plain(entry: Any) -> dict[str, Any]:
    assert is_dataclass(entry)
    return {f.name: getattr(entry, f.name) for f in fields(entry) if not f.name.startswith("_")}
