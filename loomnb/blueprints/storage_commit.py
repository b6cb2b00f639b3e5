"""Applying a batch of operations to the tables of artifacts and records, on the writer's thread.

A batch is applied in two halves. First what it is about is read in a few statements, whatever its length, and the rules are
applied in Python, in order; so a refusal has written nothing. Then what came of it is written, again in a few statements: a
statement costs half a millisecond in DuckDB, and a hundred operations would pay it several hundred times.
Rules: contracts/blueprints.md §1.7, §1.8.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from loomnb.blueprints.access import CommitResult, StoredArtifact, StoredRecord
from loomnb.blueprints.storage_rules import (
    MOST,
    CheckedOperations,
    Operation,
    instant,
    milliseconds,
    place_of,
    timestamp,
)
from loomnb.errors import Conflict, NotFound, StorageFailed
from loomnb.jsonvalue import Json, loads
from loomnb.store import Action, Row, parsed

__all__ = ["commit_action", "recorded", "replayed"]

Rows = Callable[[CommitResult], Sequence[Row]]
"""The journal rows that are committed together with a batch."""


@dataclass(frozen=True, slots=True)
class _Head:
    """Where an artifact stands."""

    flow_name: str
    stage_name: str
    revision: int
    created_ms: int
    change: int = 0
    """The line of the history that made it; of one that was only read, 0."""


@dataclass(slots=True)
class _Plan:
    """A batch whose rules were applied: what is to be written."""

    now_ms: int
    revision: int
    """The last one that was given to an artifact."""
    change: int
    """The number of the last line of the history."""
    heads: dict[str, _Head]
    places: dict[str, str]
    """Place → the artifact there."""
    records: set[str]
    """Those of the batch that exist."""
    created: list[Operation] = field(default_factory=list[Operation])
    replaced: list[Operation] = field(default_factory=list[Operation])
    appended: list[Operation] = field(default_factory=list[Operation])
    removed_artifacts: list[str] = field(default_factory=list[str])
    removed_records: list[str] = field(default_factory=list[str])
    history: list[tuple[int, str, int, str, str, str, str | None, int]] = field(
        default_factory=list[tuple[int, str, int, str, str, str, "str | None", int]]
    )
    result: CommitResult = field(default_factory=CommitResult)

    def apply(self, operation: Operation) -> None:
        """Apply one operation after those before it.

        Raises:
            Conflict: something else is there, or another revision.
            NotFound: there is no such entry.
            StorageFailed: there are no revisions left.
        """
        match operation.type:
            case "create_artifact":
                self._create(operation)
            case "replace_artifact":
                self._replace(operation)
            case "append_record":
                self._append(operation)
            case "remove_artifact":
                head = self._expected(operation)
                del self.heads[operation.id], self.places[place_of(head.flow_name, head.stage_name)]
                self.removed_artifacts.append(operation.id)
                self.result.removed_artifact_ids.append(operation.id)
                self._note("removed", operation.id, head, None)
            case "remove_record":
                if operation.id not in self.records:
                    raise NotFound(f"There is no record {operation.id!r}.")
                self.removed_records.append(operation.id)
                self.result.removed_record_ids.append(operation.id)

    def _create(self, operation: Operation) -> None:
        if operation.id in self.heads:
            raise Conflict(f"There is an artifact {operation.id!r} already.", advice="Replace it, with its revision.")
        place = place_of(operation.flow_name, operation.stage_name)
        if place in self.places:
            raise Conflict(
                f"Flow {operation.flow_name!r}, stage {operation.stage_name!r} has the artifact {self.places[place]!r} already.",
                advice="Replace that one; a stage has one artifact.",
            )
        self.places[place] = operation.id
        self.created.append(operation)
        self._write("created", operation, self.now_ms)

    def _replace(self, operation: Operation) -> None:
        head = self._expected(operation)
        if (operation.flow_name, operation.stage_name) != (head.flow_name, head.stage_name):
            raise Conflict(
                f"The artifact {operation.id!r} belongs to flow {head.flow_name!r}, stage {head.stage_name!r}, and stays there.",
                advice="Remove it and make another one.",
            )
        self.replaced.append(operation)
        self._write("replaced", operation, head.created_ms)

    def _expected(self, operation: Operation) -> _Head:
        head = self.heads.get(operation.id)
        if head is None:
            raise NotFound(f"There is no artifact {operation.id!r}.")
        if head.revision != operation.expected_revision:
            raise Conflict(
                f"The artifact {operation.id!r} is at revision {head.revision}, not {operation.expected_revision}.",
                advice="Revisions count up in the whole store, not per artifact. Read the artifact again, and decide anew.",
            )
        return head

    def _write(self, op: str, operation: Operation, created_ms: int) -> None:
        if self.revision >= MOST:
            raise StorageFailed("This store has used all its revisions.", advice="Go on in a new one.")
        self.revision += 1
        head = _Head(operation.flow_name, operation.stage_name, self.revision, created_ms, self.change + 1)
        self.heads[operation.id] = head
        self.result.written_artifacts.append(_artifact(operation, head, self.now_ms))
        self._note(op, operation.id, head, operation.data)

    def _note(self, op: str, artifact_id: str, head: _Head, data: str | None) -> None:
        self.change += 1
        place = head.flow_name, head.stage_name
        self.history.append((self.change, artifact_id, head.revision, *place, op, data, head.created_ms))

    def _append(self, operation: Operation) -> None:
        if operation.id in self.records:
            raise Conflict(f"There is a record {operation.id!r} already.", advice="Records are never changed; use a new id.")
        self.appended.append(operation)
        self.result.appended_records.append(_record(operation, self.now_ms))


def _artifact(operation: Operation, head: _Head, now_ms: int) -> StoredArtifact:
    return StoredArtifact(
        id=operation.id,
        flow_name=head.flow_name,
        stage_name=head.stage_name,
        revision=head.revision,
        data=loads(operation.data),
        created_at=timestamp(head.created_ms),
        updated_at=timestamp(now_ms),
    )


def _record(operation: Operation, now_ms: int) -> StoredRecord:
    return StoredRecord(
        id=operation.id,
        flow_name=operation.flow_name,
        stage_name=operation.stage_name,
        data=loads(operation.data),
        created_at=timestamp(now_ms),
    )


def commit_action(checked: CheckedOperations, *, run_id: str | None = None, rows: Rows = lambda _: ()) -> Action[CommitResult]:
    """What applies a batch, for `Database.transact`. Nothing is written when it refuses.

    Args:
        checked: the batch.
        run_id: the run that writes it.
        rows: the journal rows that are committed with it; not asked for when it refuses.
    """

    def action(connection: Any, now: datetime, _: int) -> tuple[Sequence[Row], CommitResult]:
        if not checked.operations:
            return rows(result := CommitResult()), result
        plan = _read_plan(connection, checked.operations, milliseconds(now))
        for operation in checked.operations:
            plan.apply(operation)
        _write_plan(connection, plan, run_id)
        return rows(plan.result), plan.result

    return action


def _run(connection: Any, sql: str, params: Any) -> Any:
    return connection.execute(parsed(connection, sql), params)


_HEADS = """
    select artifact_id, flow_name, stage_name, revision, epoch_ms(created_at), null
    from artifact_heads where list_contains($ids::varchar[], artifact_id)
    union all select artifact_id, flow_name, stage_name, revision, epoch_ms(created_at), null
    from artifact_heads where list_contains($places::varchar[], place)
    union all
    select null, null, null, coalesce(max(revision), 0), coalesce(arg_max(change, revision), 0), coalesce(max(change), 0)
    from artifact_revisions where change >= $newest"""
"""The artifacts that a batch is about, and the counters; by equality, so that the indexes answer (`in (select …)` scans)."""

_NEWEST: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""By the writer's connection: the change that made the greatest revision, as of the last batch. What is before it need not be
looked at for the counters, so that a commit does not grow with the history. It was read from committed rows: never too high."""


def _read_plan(connection: Any, operations: Sequence[Operation], now_ms: int) -> _Plan:
    plan = _Plan(now_ms, 0, 0, {}, {}, set())
    artifacts = [operation for operation in operations if operation.category == "artifacts"]
    if artifacts:
        places = [place_of(o.flow_name, o.stage_name) for o in artifacts if o.type == "create_artifact"]
        params = {"ids": [o.id for o in artifacts], "places": places, "newest": _NEWEST.get(connection, 0)}
        found = _run(connection, _HEADS, params).fetchall()
        for artifact_id, flow_name, stage_name, revision, created_ms, change in found:
            if artifact_id is None:
                plan.revision, plan.change, _NEWEST[connection] = revision, change, created_ms
                continue
            plan.heads[artifact_id] = _Head(flow_name, stage_name, revision, created_ms)
            plan.places[place_of(flow_name, stage_name)] = artifact_id
    records = [operation.id for operation in operations if operation.category == "records"]
    if records:
        sql = "select record_id from records where list_contains(?::varchar[], record_id)"
        plan.records.update(name for (name,) in _run(connection, sql, [records]).fetchall())
    return plan


def _write_plan(connection: Any, plan: _Plan, run_id: str | None) -> None:
    now, new, changed = instant(plan.now_ms), plan.created, plan.replaced
    if plan.removed_artifacts:  # first: what is made may stand where they stood
        _run(connection, "delete from artifact_heads where list_contains(?::varchar[], artifact_id)", [plan.removed_artifacts])
    if changed:
        # One UPDATE with lists, and not deleted and inserted: a row stays where it is, among those of its time, and pages stay
        # quick. For a hundred of a million it takes half of what a hundred UPDATEs do, and for one hardly more than one.
        _run(
            connection,
            "update artifact_heads set "
            "revision = list_extract($revisions::bigint[], list_position($ids::varchar[], artifact_id)), "
            "change = list_extract($changes::bigint[], list_position($ids::varchar[], artifact_id)), "
            "updated_at = $now, run_id = $run_id where list_contains($ids::varchar[], artifact_id)",
            {
                "ids": [o.id for o in changed],
                "revisions": [plan.heads[o.id].revision for o in changed],
                "changes": [plan.heads[o.id].change for o in changed],
                "now": now,
                "run_id": run_id,
            },
        )
    if new:
        heads = [plan.heads[o.id] for o in new]
        _run(
            connection,
            "insert into artifact_heads select unnest(?::varchar[]), unnest(?::varchar[]), unnest(?::varchar[]), "
            "unnest(?::bigint[]), unnest(?::bigint[]), ?::timestamptz, ?::timestamptz, ?::varchar, unnest(?::varchar[])",
            [
                *([o.id for o in new], [h.flow_name for h in heads], [h.stage_name for h in heads]),
                *([h.revision for h in heads], [h.change for h in heads], now, now, run_id),
                [place_of(h.flow_name, h.stage_name) for h in heads],
            ],
        )
    if plan.history:
        changes, ids, revisions, flows, stages, ops, data, created = zip(*plan.history, strict=True)
        _run(
            connection,
            "insert into artifact_revisions select unnest(?::bigint[]), unnest(?::varchar[]), unnest(?::bigint[]), "
            "unnest(?::varchar[]), unnest(?::varchar[]), unnest(?::varchar[]), unnest(?::json[]), unnest(?::timestamptz[]), "
            "?::timestamptz, ?::varchar",
            [
                *(list(changes), list(ids), list(revisions), list(flows), list(stages), list(ops), list(data)),
                *([instant(ms) for ms in created], now, run_id),
            ],
        )
    if plan.removed_records:
        _run(connection, "delete from records where list_contains(?::varchar[], record_id)", [plan.removed_records])
    new = plan.appended
    if new:
        _run(
            connection,
            "insert into records select unnest(?::varchar[]), unnest(?::varchar[]), unnest(?::varchar[]), unnest(?::json[]), "
            "?::timestamptz, ?::varchar, unnest(?::varchar[])",
            [
                *([o.id for o in new], [o.flow_name for o in new], [o.stage_name for o in new], [o.data for o in new]),
                *(now, run_id, [place_of(o.flow_name, o.stage_name) for o in new]),
            ],
        )


def recorded(result: CommitResult) -> Json:
    """What a journal keeps of a result beside its batch: everything that the batch does not say itself."""
    return {
        "written": [[a.revision, a.created_at, a.updated_at] for a in result.written_artifacts],
        "appended": [r.created_at for r in result.appended_records],
    }


def replayed(checked: CheckedOperations, record: Any) -> CommitResult:
    """The result again, from its batch and what `recorded` kept."""
    result = CommitResult()
    written, appended = iter(record["written"]), iter(record["appended"])
    for o in checked.operations:
        common: dict[str, Any] = {"id": o.id, "flow_name": o.flow_name, "stage_name": o.stage_name, "data": loads(o.data)}
        match o.type:
            case "create_artifact" | "replace_artifact":
                revision, created_at, updated_at = next(written)
                artifact = StoredArtifact(**common, revision=revision, created_at=created_at, updated_at=updated_at)
                result.written_artifacts.append(artifact)
            case "append_record":
                result.appended_records.append(StoredRecord(**common, created_at=next(appended)))
            case "remove_artifact":
                result.removed_artifact_ids.append(o.id)
            case "remove_record":
                result.removed_record_ids.append(o.id)
    return result
