"""The one writer: one connection on its own thread, group commit, append only.

Callers put batches; the thread takes all that is queued and writes it with one INSERT, which is one commit and one fsync.
A batch is acknowledged only after that INSERT returned. After any exception nothing is committed: an autocommit statement
is rolled back whole (a `commit()` of an aborted transaction would return as if nothing had happened, so there is none).
If a group fails, its batches are tried one by one, so that one bad batch does not take others with it.

What changes other tables than the journal is a `Transaction`: an action that checks and writes on this thread, inside a
transaction of its own that the journal rows it gives are part of. It stands in the same queue, so that what was put before it is
there, and what is put after it is not. Nobody else writes, so what an action has read holds until its commit.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import duckdb

from loomnb.errors import LoomError, Refused, StoreClosed, WorldFailed
from loomnb.ids import Source

__all__ = ["Action", "Batch", "Chain", "Row", "Transaction", "Writer", "parsed"]

T = TypeVar("T")

Row = tuple[str, str, str]
"""run_id, kind, body (JSON text)."""

Acknowledge = Callable[["LoomError | None", int], None]
"""Called on the writer's thread with the error (None: committed) and the sequence number of the batch's last row."""

Action: TypeAlias = Callable[[Any, datetime, int], "tuple[Sequence[Row], T]"]
"""Called on the writer's thread with its connection, the time, and the number the first of its rows will have. Gives the journal
rows that belong to what it wrote, and a result. It must not end the transaction; what it raises undoes it."""

_GROUP = 256  # rows of one commit at the most
_LINGER = 0.0004  # seconds to wait for the next batch, where one is to be expected
_BEHIND = 0.025  # seconds a group is kept open that nobody waits for


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
    behind: bool = False
    """Whether nobody waits for it: its sender is ahead already, and more of it are to come."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What an action does, with the journal rows it gives: committed together or not at all."""

    action: Action[Any]
    done: Callable[[LoomError | None, Any], None]
    chain: Chain | None = None


_NONE = Batch((), lambda *_: None)


class Writer:
    """Appends batches to the journal, in the order they were put."""

    def __init__(self, connection: Any, source: Source, last_seq: int) -> None:
        self._connection = connection
        self._source = source
        self._seq = last_seq
        self._queue: queue.SimpleQueue[Batch | Transaction | None] = queue.SimpleQueue()
        self._closed = False
        self.acknowledged: Callable[[int], None] = lambda _: None
        """Called after each commit and before anybody hears of it, with the last sequence number."""
        self.on_commit: Callable[[int], None] = lambda _: None
        """Called on this thread after a commit was acknowledged, with the last sequence number. Must be quick."""
        self._one = parsed(connection, "insert into journal values (?, ?, ?, ?, ?)")
        self._many = parsed(
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

    def put(self, batch: Batch | Transaction) -> None:
        """Queue a batch or a transaction. From any thread; returns at once.

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
            group, rows, last = [first], _size(first), False
            until = time.monotonic() + _BEHIND if _is_behind(first) else 0.0
            while rows < _GROUP:
                end = group[-1]
                if _is_behind(end):
                    seconds = until - time.monotonic()
                else:
                    until = 0.0  # somebody waits: what is behind it does not keep them any longer
                    seconds = _LINGER if crowd or (isinstance(end, Batch) and end.more) else 0.0
                batch = self._next(seconds)
                if batch is _NONE:
                    break
                if batch is None:
                    last = True
                    break
                group.append(batch)
                rows += _size(batch)
            crowd = len(group) > 1
            self._work_off(group)
            self.on_commit(self._seq)
            if last:
                return

    def _next(self, seconds: float) -> Batch | Transaction | None:
        """The next batch, None to stop, or _NONE. A commit costs a millisecond, so where others are about to come it pays to
        wait a moment for them; nobody who waits for theirs is kept waiting for long."""
        try:
            return self._queue.get(timeout=seconds) if seconds > 0 else self._queue.get_nowait()
        except queue.Empty:
            return _NONE

    def _work_off(self, group: list[Batch | Transaction]) -> None:
        # Batches that follow one another share a commit; a transaction has its own. Two of them in one would save half a
        # millisecond, but DuckDB has no savepoints: one that is refused would take the other along.
        for is_batch, part in itertools.groupby(group, lambda item: isinstance(item, Batch)):
            if is_batch:
                self._write([item for item in part if isinstance(item, Batch)])
            else:
                for item in part:
                    if isinstance(item, Transaction):
                        self._transact(item)

    def _transact(self, transaction: Transaction) -> None:
        chain = transaction.chain
        if chain is not None and chain.error is not None:
            transaction.done(chain.error, None)
            return
        error: LoomError | None = None
        result: Any = None
        connection, now = self._connection, self._source.now()
        try:
            connection.execute("begin transaction")
            rows, result = transaction.action(connection, now, self._seq + 1)
            self._append(rows, now)
            connection.execute("commit")
        except Exception as exc:  # noqa: BLE001  # translated where it enters; what is refused is an answer, and goes on as it is
            with contextlib.suppress(duckdb.Error):  # a commit that failed has ended the transaction already
                connection.execute("rollback")
            error, result = exc if isinstance(exc, LoomError) else commit_error(exc), None
            if chain is not None and not isinstance(error, Refused):
                chain.error = error
        else:
            self._seq += len(rows)
            self.acknowledged(self._seq)
        transaction.done(error, result)

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
        try:
            self._append(rows, self._source.now())
        except Exception as exc:  # noqa: BLE001  # translated where it enters: DuckDB's own errors, also the unexpected ones
            return commit_error(exc)
        self._seq += len(rows)
        self.acknowledged(self._seq)
        return None

    def _append(self, rows: Sequence[Row], now: datetime) -> None:
        """One INSERT behind the journal's last row. The caller counts them once they are committed."""
        seq, n = self._seq, len(rows)
        if n == 1:
            run_id, kind, body = rows[0]
            self._connection.execute(self._one, [seq + 1, now, run_id, kind, body])
        elif rows:
            runs, kinds, bodies = zip(*rows, strict=True)
            self._connection.execute(
                self._many, [list(range(seq + 1, seq + n + 1)), [now] * n, list(runs), list(kinds), list(bodies)]
            )


def _is_behind(item: Batch | Transaction) -> bool:
    return isinstance(item, Batch) and item.behind


def _size(item: Batch | Transaction) -> int:
    return len(item.rows) if isinstance(item, Batch) else 1


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


_PARSED: dict[str, Any] = {}


def parsed(connection: Any, sql: str) -> Any:
    """A statement to execute in place of its text, which saves 0.1–0.2 ms each time. For texts of which there are few: it is
    kept for good, and is every connection's, as it knows no tables yet."""
    statement = _PARSED.get(sql)
    if statement is None:
        statement = _PARSED[sql] = connection.extract_statements(sql)[0]
    return statement
