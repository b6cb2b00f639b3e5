"""Reading artifacts and records: one entry, a page, and what an artifact was. Each read sees what was committed when it began.

The functions block, and take names and queries that were checked. What they give is a copy of the caller's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import duckdb

from loomnb.blueprints.access import ArtifactPast, CommitResult, StoragePage, StoredArtifact, StoredRecord
from loomnb.blueprints.storage_rules import MOST, CheckedQuery, check_name, cursor_after, instant, place_of, timestamp
from loomnb.errors import InvalidRequest, LoomError, Refused, StorageFailed, StoreClosed, Unavailable
from loomnb.jsonvalue import loads
from loomnb.store import Database, parsed

__all__ = [
    "Past",
    "read_artifact",
    "read_artifact_by_id",
    "read_artifacts_of",
    "read_latest_record",
    "read_page",
    "read_record_by_id",
    "read_records_of",
    "storage_error",
    "with_past",
]


def storage_error(error: BaseException) -> LoomError:
    """What went wrong with storage, by the contract's codes: refusals as they are, a closed store as KERNEL_UNAVAILABLE,
    anything else as STORAGE_ERROR with the cause."""
    if isinstance(error, (Refused, StorageFailed, Unavailable)):
        return error
    out: LoomError
    if isinstance(error, (StoreClosed, duckdb.ConnectionException)):
        out = Unavailable("The store was closed.", advice="Open it again: loom.open(...).", retryable=False, cause=error)
    else:
        text = error.message if isinstance(error, LoomError) else str(error).partition("\n")[0]
        out = StorageFailed(f"Artifacts and records cannot be read or written: {text}", cause=error)
    out.__cause__ = error
    return out


_HEAD = "artifact_id, flow_name, stage_name, change, epoch_ms(created_at), revision, epoch_ms(updated_at)"
_LINES = "select change, data from artifact_revisions where "
_RECORD = "record_id, flow_name, stage_name, data, epoch_ms(created_at)"


def read_artifact(
    database: Database, flow_name: str, stage_name: str, *, past: ArtifactPast | None = None
) -> StoredArtifact | None:
    """The artifact of a stage; None when there is none. Blocks for about a millisecond, as the other reads of one entry.

    Args:
        database: the store.
        flow_name: a name that was checked.
        stage_name: another one.
        past: where the artifact finds its earlier revisions, if it may.

    Raises:
        StorageFailed: the store cannot be read.
        Unavailable: it was closed.
    """
    sql = f"select {_HEAD} from artifact_heads where place = ?"  # noqa: S608  # the columns above
    return next(iter(_artifacts(_read_heads(database, sql, [place_of(flow_name, stage_name)]), past)), None)


def read_artifact_by_id(database: Database, artifact_id: str, *, past: ArtifactPast | None = None) -> StoredArtifact | None:
    """The artifact of an id."""
    sql = f"select {_HEAD} from artifact_heads where artifact_id = ?"  # noqa: S608  # the columns above
    return next(iter(_artifacts(_read_heads(database, sql, [artifact_id]), past)), None)


def read_latest_record(database: Database, flow_name: str, stage_name: str) -> StoredRecord | None:
    """The record of a stage that is last by (created_at, id)."""
    # arg_max and not `order by … limit 1`: that one does not use the index (1.2 ms against 14, at a million records).
    sql = f"""
        select unnest(last) from (
            select arg_max(row({_RECORD}), row(created_at, record_id)) as last from records where place = ?
        ) where last is not null"""  # noqa: S608  # the columns above
    return next(iter(_records(_read(database, sql, [place_of(flow_name, stage_name)]))), None)


def read_record_by_id(database: Database, record_id: str) -> StoredRecord | None:
    """The record of an id."""
    sql = f"select {_RECORD} from records where record_id = ?"  # noqa: S608  # the columns above
    return next(iter(_records(_read(database, sql, [record_id]))), None)


def read_artifacts_of(database: Database, run_id: str) -> list[StoredArtifact]:
    """The artifacts a run wrote, each as it left it, by flow and stage; whatever others made of them since."""
    return Past(database).written_by(run_id)


def read_records_of(database: Database, run_id: str) -> list[StoredRecord]:
    """The records a run appended, oldest first."""
    sql = f"select {_RECORD} from records where run_id = ? order by created_at, record_id"  # noqa: S608  # as above
    return _records(_read(database, sql, [run_id]))


def read_page(database: Database, query: CheckedQuery, *, past: ArtifactPast | None = None) -> StoragePage:
    """A page of a list. Takes milliseconds, and with a filter in a big store tens of them: not on a loop."""
    is_artifacts = query.category == "artifacts"
    table, name, columns = ("artifact_heads", "artifact_id", _HEAD) if is_artifacts else ("records", "record_id", _RECORD)
    where, params = _conditions(query, name)
    way = "desc" if query.is_descending else "asc"
    sql = f"select {columns} from {table} {where} order by created_at {way}, {name} {way} limit ?"  # noqa: S608  # names of ours
    rows = (_read_heads if is_artifacts else _read)(database, sql, [*params, query.limit + 1])
    shown = rows[: query.limit]
    cursor = cursor_after(query, (shown[-1][4], shown[-1][0])) if len(rows) > query.limit else None
    return StoragePage(data=list(_artifacts(shown, past) if is_artifacts else _records(shown)), next_cursor=cursor)


def _conditions(query: CheckedQuery, name: str) -> tuple[str, list[Any]]:
    terms: list[tuple[str, Any]] = []
    if query.flow_name is not None and query.stage_name is not None:
        terms.append(("place = ?", place_of(query.flow_name, query.stage_name)))
    elif query.flow_name is not None:
        terms.append(("flow_name = ?", query.flow_name))
    elif query.stage_name is not None:
        terms.append(("stage_name = ?", query.stage_name))
    if query.ids is not None:
        terms.append((f"list_contains(?::varchar[], {name})", list(query.ids)))
    if query.created_after is not None:
        terms.append(("created_at > ?", query.created_after))
    if query.created_before is not None:
        terms.append(("created_at < ?", query.created_before))
    params = [value for _, value in terms]
    texts = [text for text, _ in terms]
    if query.position is not None:
        sign, (ms, last) = "<" if query.is_descending else ">", query.position
        # Not a comparison of rows: by the first term alone whole row groups are passed over.
        texts.append(f"created_at {sign}= ? and (created_at {sign} ? or {name} {sign} ?)")
        params += [instant(ms), instant(ms), last]
    return ("where " + " and ".join(texts) if texts else ""), params


def _read(database: Database, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    try:
        with database.reading() as cursor:
            return _fetched(cursor, sql, params)
    except (duckdb.Error, LoomError) as exc:
        raise storage_error(exc) from exc


def _read_heads(database: Database, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows of `_HEAD`, each with its data in place of its change.

    Two statements take 1.2 ms for one artifact of a million, and a join takes 5, as it looks through the history. What is
    committed between them does no harm: no line of the history ever changes or goes.
    """
    try:
        with database.reading() as cursor:
            heads = _fetched(cursor, sql, params)
            changes = [head[3] for head in heads]
            if len(changes) > 1:
                within = "change between ? and ? and list_contains(?::bigint[], change)"
                lines = _fetched(cursor, _LINES + within, [min(changes), max(changes), changes])
            elif changes:
                lines = _fetched(cursor, _LINES + "change = ?", changes)
            else:
                lines = []
    except (duckdb.Error, LoomError) as exc:
        raise storage_error(exc) from exc
    data = dict(lines)
    return [(*head[:3], data[head[3]], *head[4:]) for head in heads]


def _fetched(cursor: Any, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = cursor.execute(parsed(cursor, sql), params).fetchall()
    return rows


def _artifacts(rows: Sequence[tuple[Any, ...]], past: ArtifactPast | None) -> list[StoredArtifact]:
    return [
        StoredArtifact(
            id=artifact_id,
            flow_name=flow_name,
            stage_name=stage_name,
            revision=revision,
            data=loads(data),
            created_at=timestamp(created_ms),
            updated_at=timestamp(updated_ms),
            _past=past,
        )
        for artifact_id, flow_name, stage_name, data, created_ms, revision, updated_ms in rows
    ]


def _records(rows: Sequence[tuple[Any, ...]]) -> list[StoredRecord]:
    return [
        StoredRecord(id=record_id, flow_name=flow_name, stage_name=stage_name, data=loads(data), created_at=timestamp(ms))
        for record_id, flow_name, stage_name, data, ms in rows
    ]


class Past:
    """The earlier revisions of artifacts. Looks through the history, which has no index: not on a loop."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def history(self, artifact_id: str) -> list[StoredArtifact]:
        """Each revision of an id, oldest first; also those before it was removed and made anew. Empty when there never was one.

        Raises:
            InvalidRequest: it is no id.
        """
        return self._revisions("artifact_id = ? and op <> 'removed' order by change", [check_name(artifact_id, "id")])

    def as_of(self, artifact_id: str, when: Any) -> StoredArtifact | None:
        """What it was at a revision of the store, or at a moment; None when it was not.

        Args:
            artifact_id: the artifact.
            when: a revision; a datetime; or a text that is an ISO date and time. Without a time zone it is this machine's time.

        Raises:
            InvalidRequest: it is none of these.
        """
        name = check_name(artifact_id, "id")
        value: int | datetime
        if type(when) is int and 1 <= when <= MOST:
            until, value = "change <= (select max(change) from artifact_revisions where op <> 'removed' and revision <= ?)", when
        else:
            until, value = "committed_at <= ?", _moment(when)
        found = self._revisions(f"artifact_id = ? and {until} order by change desc limit 1", [name, value])
        return found[0] if found else None

    def written_by(self, run_id: str) -> list[StoredArtifact]:
        """The last revision that a run wrote of each artifact, by flow and stage; none of one that it removed itself."""
        which = "run_id = ? qualify row_number() over (partition by artifact_id order by change desc) = 1"
        return self._revisions(f"{which} order by flow_name, stage_name", [run_id])

    def _revisions(self, which: str, params: list[Any]) -> list[StoredArtifact]:
        sql = f"""
            select artifact_id, flow_name, stage_name, data, epoch_ms(created_at), revision, epoch_ms(committed_at), op
            from artifact_revisions where {which}"""  # noqa: S608  # ours, see above
        rows = _read(self._database, sql, params)
        return _artifacts([row[:-1] for row in rows if row[-1] != "removed"], self)


def _moment(when: object) -> datetime:
    if isinstance(when, str):
        try:
            when = datetime.fromisoformat(when)
        except ValueError:
            when = None
    if not isinstance(when, datetime):
        raise InvalidRequest(
            "An artifact is asked for as of a revision, or a moment.", advice="Such as 7, or 2026-01-31T09:30:00Z."
        )
    return when.astimezone()


def with_past(result: CommitResult, past: ArtifactPast) -> CommitResult:
    """A result whose artifacts find their earlier revisions."""
    return replace(result, written_artifacts=[replace(artifact, _past=past) for artifact in result.written_artifacts])
