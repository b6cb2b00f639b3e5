"""The one writer: one connection on its own thread, group commit, append only.

Callers put batches; the thread takes all that is queued and writes it with one INSERT, which is one commit and one fsync.
A batch is acknowledged only after that INSERT returned. After any exception nothing is committed: an autocommit statement
is rolled back whole (a `commit()` of an aborted transaction would return as if nothing had happened, so there is none).
If a group fails, its batches are tried one by one, so that one bad batch does not take others with it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

from loomnb.errors import LoomError, StoreClosed, WorldFailed
from loomnb.ids import Source

__all__ = ["Batch", "Chain", "Row", "Writer"]

Row = tuple[str, str, str]
"""run_id, kind, body (JSON text)."""

Acknowledge = Callable[["LoomError | None", int], None]
"""Called on the writer's thread with the error (None: committed) and the sequence number of the batch's last row."""

_GROUP = 256  # rows of one commit at the most
_LINGER = 0.0004  # seconds to wait for the next batch, where one is to be expected


class Chain:
    """Batches that each build on the one before: once one of them failed, those behind it are not written either."""

    error: LoomError | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that are committed together or not at all."""

    rows: Sequence[Row]
    done: Acknowledge
    more: bool = False
    """Whether its sender goes on at once with the next one."""
    chain: Chain | None = None


_NONE = Batch((), lambda *_: None)


class Writer:
    """Appends batches to the journal, in the order they were put."""

    def __init__(self, connection: Any, source: Source, last_seq: int) -> None:
        self._connection = connection
        self._source = source
        self._seq = last_seq
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._closed = False
        self.acknowledged: Callable[[int], None] = lambda _: None
        """Called after each commit and before anybody hears of it, with the last sequence number."""
        self.on_commit: Callable[[int], None] = lambda _: None
        """Called on this thread after a commit was acknowledged, with the last sequence number. Must be quick."""
        self._one = _statement(connection, "insert into journal values (?, ?, ?, ?, ?)")
        self._many = _statement(
            connection,
            "insert into journal select unnest(?::bigint[]), unnest(?::timestamptz[]), unnest(?::varchar[]),"
            " unnest(?::varchar[]), unnest(?::varchar[])",
        )
        self._thread = threading.Thread(target=self._main, name="loom writer", daemon=True)
        self._thread.start()

    @property
    def last_seq(self) -> int:
        """The sequence number of the last row that is durable."""
        return self._seq

    def put(self, batch: Batch) -> None:
        """Queue a batch. From any thread; returns at once.

        Raises:
            StoreClosed: the store was closed; nothing was queued.
        """
        if self._closed:
            raise StoreClosed("The store was closed.", advice="Open it again: loom.open(...).")
        self._queue.put(batch)

    def close(self, timeout: float) -> bool:
        """Write what is queued and stop; whether the thread ended within `timeout` seconds."""
        self._closed = True
        self._queue.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _main(self) -> None:
        crowd = False  # whether the last group held several batches: then more are on their way
        while (first := self._queue.get()) is not None:
            group, rows, last = [first], len(first.rows), False
            while rows < _GROUP:
                batch = self._next(linger=crowd or group[-1].more)
                if batch is _NONE:
                    break
                if batch is None:
                    last = True
                    break
                group.append(batch)
                rows += len(batch.rows)
            crowd = len(group) > 1
            self._write(group)
            self.on_commit(self._seq)
            if last:
                return

    def _next(self, *, linger: bool) -> Batch | None:
        """The next batch, None to stop, or _NONE. A commit costs a millisecond, so where others are about to come it pays to
        wait a moment for them; a lone run is never kept waiting."""
        try:
            return self._queue.get(timeout=_LINGER) if linger else self._queue.get_nowait()
        except queue.Empty:
            return _NONE

    def _write(self, group: list[Batch]) -> None:
        for batch in group:
            if batch.chain is not None and batch.chain.error is not None:
                batch.done(batch.chain.error, self._seq)
        group = [batch for batch in group if batch.chain is None or batch.chain.error is None]
        if not group:
            return
        error = self._insert([row for batch in group for row in batch.rows])
        if error is not None and len(group) > 1:
            for batch in group:
                self._write([batch])
            return
        seq = self._seq if error is not None else self._seq - sum(len(b.rows) for b in group)
        for batch in group:
            if batch.chain is not None:
                batch.chain.error = error
            seq += 0 if error is not None else len(batch.rows)
            batch.done(error, seq)

    def _insert(self, rows: list[Row]) -> LoomError | None:
        now: datetime = self._source.now()
        seq = self._seq
        try:
            if len(rows) == 1:
                run_id, kind, body = rows[0]
                self._connection.execute(self._one, [seq + 1, now, run_id, kind, body])
            elif rows:
                n = len(rows)
                runs, kinds, bodies = zip(*rows, strict=True)
                self._connection.execute(
                    self._many, [list(range(seq + 1, seq + n + 1)), [now] * n, list(runs), list(kinds), list(bodies)]
                )
        except Exception as exc:  # noqa: BLE001  # translated where it enters: DuckDB's own errors, also the unexpected ones
            return commit_error(exc)
        self._seq = seq + len(rows)
        self.acknowledged(self._seq)
        return None


def commit_error(exc: Exception) -> LoomError:
    """A failed commit, in our words."""
    text = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
    error = WorldFailed(
        f"The store could not commit: {text}",
        advice="Nothing of this commit was kept. Check that the disk has room and the file is writable, then retry.",
        code="COMMIT_FAILED",
    )
    error.__cause__ = exc
    return error


def _statement(connection: Any, sql: str) -> Any:
    return connection.extract_statements(sql)[0] if hasattr(duckdb, "Statement") else sql
