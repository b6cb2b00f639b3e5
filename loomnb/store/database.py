"""The store file: open it, own it, write through the one writer, read on cursors of their own, copy it, close it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import duckdb

from loomnb.errors import LoomError, Refused, StoreClosed, StoreDamaged, WorldFailed
from loomnb.ids import Source
from loomnb.store.lock import OwnerLock
from loomnb.store.schema import migrate
from loomnb.store.writer import Acknowledge, Action, Batch, Chain, Row, Transaction, Writer

__all__ = ["MEMORY", "Database", "StoreWarning", "damaged"]

MEMORY = ":memory:"

T = TypeVar("T")


class StoreWarning(UserWarning):
    """A store was opened, and rows that had been acknowledged are missing; the text says how many, and what was kept."""


class Database:
    """An open store. This process owns the file until `close`.

    Args:
        path: the file, or ":memory:". Missing folders are made.
        source: ids and clock.

    Raises:
        StoreBusy: another process owns it.
        StoreDamaged: it cannot be read, or a newer loomnb made it.
    """

    def __init__(self, path: str, source: Source) -> None:
        self.path = path if path == MEMORY else str(Path(path).resolve())
        self._pid = os.getpid()
        self._guard = threading.Lock()
        self._copying = threading.Lock()  # a copy is attached under one name, and that is the whole store's
        self._closed = False
        self._readers: set[Any] = set()
        self._lock: OwnerLock | None = None
        if self.path != MEMORY:
            try:
                Path(self.path).parent.mkdir(parents=True, exist_ok=True)
                self._lock = OwnerLock(Path(self.path), source.now())
            except OSError as exc:
                raise StoreDamaged(
                    f"The store {self.path} cannot be opened: {exc.strerror} ({exc.filename}).",
                    advice="Its folder must be writable: a lock file and the store's log stand beside it. Or open another path.",
                ) from exc
        try:
            # The root is only ever asked for cursors: a connection that is busy refuses every other call (DuckDB 2).
            if self._lock is not None and self._lock.left is not None:
                _keep_log(self.path)
            self._root = _connect(self.path)
        except BaseException:
            self._release()
            raise
        try:
            own = self._root.cursor()
            if migrate(own):
                own.execute("checkpoint")  # the store's id must not live in the log alone: it says which log is missing
            (last_seq,) = own.execute("select coalesce(max(seq), 0) from journal").fetchone()
            (store_id,) = own.execute("select id from store").fetchone()
            self.store_id: str = store_id
            """What tells this store from every other one; a copy of it has the same."""
        except BaseException as exc:
            self._root.close()
            self._release()
            if isinstance(exc, duckdb.Error):
                raise damaged(self.path, exc) from exc
            raise
        self._writer = Writer(own, source, last_seq)
        if self._lock is not None:
            _tell_of_loss(self.path, self._lock.left, store_id, last_seq)
            self._lock.begin(store_id, last_seq)
            self._writer.acknowledged = self._lock.note

    @staticmethod
    def chain() -> Chain:
        """A chain for `put`."""
        return Chain()

    def put(
        self,
        rows: Sequence[Row],
        done: Acknowledge,
        *,
        more: bool = False,
        chain: Chain | None = None,
        behind: bool = False,
    ) -> None:
        """Queue one atomic batch; `done` is called on the writer's thread once it is durable, or failed.

        `more` says that the next one follows at once, so that both may share a commit; `chain`, that it builds on those put
        before it with the same one; `behind`, that nobody waits for it: it may be some milliseconds on its way, to share a
        commit with what follows.
        """
        self._check()
        self._writer.put(Batch(rows, done, more, chain, behind))

    def commit(self, rows: Sequence[Row]) -> int:
        """Write one atomic batch and wait; the sequence number of its last row. Not on a loop: it blocks."""
        future: concurrent.futures.Future[int] = concurrent.futures.Future()

        def done(error: LoomError | None, seq: int) -> None:
            future.set_exception(error) if error is not None else future.set_result(seq)

        self.put(rows, done)
        return future.result()

    def transact(
        self, action: Action[T], done: Callable[[LoomError | None, T | None], None], *, chain: Chain | None = None
    ) -> None:
        """Queue a transaction that writes other tables too: it stands in one order with what is `put`.

        Args:
            action: called as `action(connection, now, seq)` on the writer's thread, inside a transaction; checks and writes, and
                gives `(rows, result)`: the journal rows that are committed with it, the first of them numbered `seq`.
            done: called on the writer's thread as `done(error, result)`, once it is durable or failed. What the action raises is
                undone; a LoomError arrives as it is, anything else as COMMIT_FAILED.
            chain: as for `put`. A refusal (`Refused`) is an answer, and does not break it.
        """
        self._check()
        self._writer.put(Transaction(action, done, chain))

    def transacted(self, action: Action[T]) -> T:
        """The result of a transaction, once it is durable. Not on a loop: it blocks.

        Raises:
            LoomError: what the action refused with, or why it could not be committed.
        """
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def done(error: LoomError | None, result: T | None) -> None:
            future.set_exception(error) if error is not None else future.set_result(cast("T", result))

        self.transact(action, done)
        return future.result()

    @property
    def last_seq(self) -> int:
        """The sequence number of the journal's last row."""
        return self._writer.last_seq

    def on_commit(self, call: Callable[[int], None]) -> None:
        """Call something on the writer's thread after each commit, with the last sequence number. It must be quick."""
        self._writer.on_commit = call

    def cursor(self) -> Any:
        """A connection of your own to this store, for reading. Close it."""
        self._check()
        with self._guard:
            return self._root.cursor()

    def read(self, sql: str, params: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query, on a cursor of its own."""
        with self.reading() as cursor:
            rows: list[tuple[Any, ...]] = cursor.execute(sql, params).fetchall()
            return rows

    @contextlib.contextmanager
    def reading(self) -> Generator[Any]:
        """A cursor that is closed at the end."""
        cursor = self.cursor()
        self._readers.add(cursor)
        try:
            yield cursor
        finally:
            self._readers.discard(cursor)
            cursor.close()

    def snapshot(self, path: str) -> Path:
        """Copy the store into a new file that anyone may open.

        Raises:
            Refused: the file exists already, or is the store itself.
            WorldFailed: it could not be written; nothing of it is left.
        """
        target = Path(path).resolve()
        if target.exists():
            raise Refused(f"{target} exists already.", advice="Name a file that does not exist, or remove it first.")
        partial = target.with_name(target.name + ".partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial.unlink(missing_ok=True)
            self._copy_to(partial)
            partial.rename(target)  # whole or not at all: a copy that was interrupted is never taken for one
        except (duckdb.Error, OSError) as exc:
            for left in (partial, partial.with_name(partial.name + ".wal")):
                with contextlib.suppress(OSError):
                    left.unlink(missing_ok=True)
            raise WorldFailed(
                f"The copy {target} could not be written: {str(exc).splitlines()[0]}",
                advice="Nothing of it is left. Check that its folder is writable and the disk has room.",
            ) from exc
        return target

    def _copy_to(self, path: Path) -> None:
        with self._copying, self.reading() as cursor:
            (name,) = cursor.execute("select current_database()").fetchone()
            quoted, doubled = str(path).replace("'", "''"), name.replace('"', '""')
            cursor.execute(f"attach '{quoted}' as loom_snapshot")
            try:
                cursor.execute(f'copy from database "{doubled}" to loom_snapshot')
            finally:
                cursor.execute("detach loom_snapshot")

    def close(self) -> None:
        """Finish what was accepted and release the file. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._pid:
            return  # a forked child owns nothing: closing here would write into its parent's file
        if not self._writer.close(timeout=2.0):
            self._root.interrupt()  # a long statement: stop it rather than hang the exit
            self._writer.close(timeout=2.0)
        try:
            self._close_root()
        finally:
            self._release()

    def _close_root(self, patience: float = 2.0) -> None:
        """Close the connection with its cursors. DuckDB refuses while one of them is in the middle of a query."""
        end = time.monotonic() + patience
        with self._guard:
            while True:
                try:
                    self._root.close()
                except duckdb.Error:
                    if time.monotonic() > end:
                        raise
                else:
                    return
                for cursor in tuple(self._readers):
                    cursor.interrupt()  # somebody reads on another thread: it ends with an error there
                time.sleep(0.005)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise StoreClosed(
                "This process was forked from the one that owns the store.",
                advice="Use the 'spawn' start method, or open the store in one process only.",
            )
        if self._closed:
            raise StoreClosed(f"The store {self.path} was closed.", advice="Open it again: loom.open(...).")


_SQLITE = b"SQLite format 3\x00"
"""How every SQLite file begins (https://www.sqlite.org/fileformat.html, §1.3). DuckDB, given one, tries to download a reader."""


def _connect(path: str) -> Any:
    if path != MEMORY and Path(path).is_file():
        with Path(path).open("rb") as file:
            if file.read(len(_SQLITE)) == _SQLITE:
                raise StoreDamaged(f"The store {path} cannot be opened: it is a SQLite file.", advice="Open another path.")
    try:
        # Frames are found by us, in the caller's names (see relation.py); DuckDB would look into our own frames. Locked, because
        # a table function changes settings from within a query, and some of those write files: enable_logging(storage_path=…).
        return duckdb.connect(path, config={"python_enable_replacements": False, "lock_configuration": True})
    except duckdb.Error as exc:
        first = str(exc).splitlines()[0]
        if "Could not set lock" in str(exc):
            raise Refused(
                f"Another program has {path} open: {first}", advice="Close it there (a DuckDB shell, a viewer), then try again."
            ) from exc
        raise damaged(path, exc) from exc


def damaged(path: str, exc: duckdb.Error) -> StoreDamaged:
    """A store that DuckDB cannot open or read, in our words."""
    advice = "Keep a copy of the file and its .wal before you try anything else."
    if "WAL" in str(exc):
        advice = (
            f"Its log is damaged. Copy {path} and {path}.wal aside, then move the .wal away and open again: all up to the "
            "last checkpoint is there."
        )
    elif isinstance(exc, duckdb.CatalogException):
        advice = "It is a DuckDB file, but no store: its tables are somebody else's. Open another path."
    return StoreDamaged(f"The store {path} cannot be opened: {str(exc).splitlines()[0]}", advice=advice)


def _kept(path: str) -> Path:
    return Path(path + ".wal.kept")


def _keep_log(path: str) -> None:
    """The last owner died. DuckDB replays what it can read of the log and then deletes it: keep it until that was enough."""
    log = Path(path + ".wal")
    if log.exists():
        shutil.copyfile(log, _kept(path))


def _tell_of_loss(path: str, left: tuple[str, int] | None, store_id: str, last_seq: int) -> None:
    """Compare what the last owner had acknowledged with what is there. A cut log opens without a word (measured)."""
    if left is not None and left[0] == store_id and left[1] > last_seq:
        kept = f" What was left of it is in {_kept(path)}." if _kept(path).exists() else ""
        warnings.warn(
            f"The store {path} has lost its last {left[1] - last_seq} rows: its log (.wal) was cut short or taken away.{kept} "
            f"Everything up to row {last_seq} is there; runs go on from what it says.",
            StoreWarning,
            stacklevel=2,
        )
    else:
        _kept(path).unlink(missing_ok=True)
