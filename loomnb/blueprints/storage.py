"""Storage as a notebook has it: `loom.storage`. Reads and commits that are under way as soon as they are called, and the past.

Input is checked and copied at the call, whatever becomes of what the call gives; an error comes out of that, when it is awaited,
and makes no noise when nobody does. Commits are handed to the store's one writer in the order of their calls; each is one
transaction. Reads run on threads of their own: one of a page may take tens of milliseconds in a big store, which no loop should
stand still for, and the way there and back costs a tenth of one.

A run's steps have storage too, bound to their call: that is made of the same parts.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from loomnb.blueprints.access import CommitResult, StorageOperation, StoragePage, StorageQuery, StoredArtifact, StoredRecord
from loomnb.blueprints.storage_commit import commit_action
from loomnb.blueprints.storage_reads import (
    Past,
    read_artifact,
    read_artifact_by_id,
    read_artifacts_of,
    read_latest_record,
    read_page,
    read_record_by_id,
    read_records_of,
    storage_error,
    with_past,
)
from loomnb.blueprints.storage_rules import check_name, check_operations, check_query
from loomnb.errors import LoomError, NotFound, Unavailable
from loomnb.runtime import Workers
from loomnb.store import Database

__all__ = ["Later", "Storage"]

T = TypeVar("T")


class Later(Generic[T]):
    """What comes of a call that is under way: await it on any loop, as often as you like; or `.wait()`, where there is none."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._future.set_running_or_notify_cancel()  # who stops waiting does not stop what was accepted

    def __repr__(self) -> str:
        return "<a result under way: write `await` before the call, or `.wait()` behind it>"

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self._future).__await__()

    def wait(self, timeout: float | None = None) -> T:
        """The same, blocking.

        Raises:
            TimeoutError: it took longer than so many seconds; it goes on all the same.
        """
        return self._future.result(timeout)

    @property
    def is_done(self) -> bool:
        """Whether it is over."""
        return self._future.done()

    def settle(self, value: T) -> None:
        """It went well. For who made it."""
        self._future.set_result(value)

    def fail(self, error: BaseException) -> None:
        """It did not. For who made it."""
        self._future.set_exception(error)


class Storage:
    """The artifacts and records of a store.

    Args:
        database: the store. It stays open when this is disposed of.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._past = Past(database)
        self._workers = Workers(limit=4)
        weakref.finalize(self, self._workers.let_go)  # threads that wait for work hold no handle that nobody else does
        self._guard = threading.Lock()
        self._accepted = 0
        self._end: Later[None] | None = None

    def __repr__(self) -> str:
        return f"<Storage of {self._database.path}>"

    # -- reading ----------------------------------------------------------------------------------

    def get_artifact(self, flow_name: str, stage_name: str) -> Later[StoredArtifact | None]:
        """The artifact of a stage; None when there is none. INVALID_REQUEST for a name that cannot be, as all of these."""

        def check() -> Callable[[], StoredArtifact | None]:
            place = check_name(flow_name, "flow_name"), check_name(stage_name, "stage_name")
            return lambda: read_artifact(self._database, *place, past=self._past)

        return self._read(check)

    def get_artifact_by_id(self, id: str) -> Later[StoredArtifact | None]:  # noqa: A002  # the contract's word
        """The artifact of an id."""

        def check() -> Callable[[], StoredArtifact | None]:
            return functools.partial(read_artifact_by_id, self._database, check_name(id, "id"), past=self._past)

        return self._read(check)

    def get_latest_record(self, flow_name: str, stage_name: str) -> Later[StoredRecord | None]:
        """The record of a stage that is last by (created_at, id); within one commit that is the greatest id, not the last one."""

        def check() -> Callable[[], StoredRecord | None]:
            place = check_name(flow_name, "flow_name"), check_name(stage_name, "stage_name")
            return lambda: read_latest_record(self._database, *place)

        return self._read(check)

    def get_record_by_id(self, id: str) -> Later[StoredRecord | None]:  # noqa: A002  # the contract's word
        """The record of an id."""

        def check() -> Callable[[], StoredRecord | None]:
            return functools.partial(read_record_by_id, self._database, check_name(id, "id"))

        return self._read(check)

    def list_artifacts(self, query: StorageQuery | Mapping[str, Any] | None = None) -> Later[StoragePage]:
        """A page of artifacts, newest first unless the query says otherwise."""

        def check() -> Callable[[], StoragePage]:
            checked = check_query("artifacts", query, self._database.store_id)
            return lambda: read_page(self._database, checked, past=self._past)

        return self._read(check)

    def list_records(self, query: StorageQuery | Mapping[str, Any] | None = None) -> Later[StoragePage]:
        """A page of records, newest first unless the query says otherwise."""

        def check() -> Callable[[], StoragePage]:
            checked = check_query("records", query, self._database.store_id)
            return lambda: read_page(self._database, checked)

        return self._read(check)

    # -- writing ----------------------------------------------------------------------------------

    def commit(self, operations: Sequence[StorageOperation]) -> Later[CommitResult]:
        """Apply operations in order, all or none; durable when awaited.

        INVALID_REQUEST when one is malformed or a target stands twice, CONFLICT for a stale revision or a taken id or stage,
        NOT_FOUND for a missing one; nothing is written then.

        Args:
            operations: `{"type": "create_artifact", "id", "payload": {"flowName", "stageName", "data"}}`, `replace_artifact` and
                `remove_artifact` with `expectedRevision`, `append_record`, `remove_record`.
        """

        def start(later: Later[CommitResult]) -> None:
            def done(error: LoomError | None, result: CommitResult | None) -> None:
                if error is not None:
                    self._over(later, error=storage_error(error))
                elif result is not None:
                    self._over(later, with_past(result, self._past))

            self._database.transact(commit_action(check_operations(operations)), done)

        return self._begin(start)

    def dispose(self) -> Later[None]:
        """Refuse new work from now on, and finish what was accepted; over when that is done. Twice is the same once."""
        with self._guard:
            if self._end is not None:
                return self._end
            self._end = end = Later[None]()
            is_idle = self._accepted == 0
        if is_idle:
            self._ended(end)
        return end

    # -- for a cell, without await ------------------------------------------------------------------

    @overload
    def artifact(self, id: str, /) -> StoredArtifact: ...
    @overload
    def artifact(self, flow_name: str, stage_name: str, /) -> StoredArtifact: ...
    def artifact(self, name: str, stage_name: str | None = None, /) -> StoredArtifact:
        """The artifact of an id, or of a flow and a stage. It blocks for a millisecond.

        Raises:
            InvalidRequest: a name cannot be.
            NotFound: there is none.
        """
        found = (self.get_artifact_by_id(name) if stage_name is None else self.get_artifact(name, stage_name)).wait()
        if found is None:
            what = (
                f"There is no artifact {name!r}" if stage_name is None else f"Flow {name!r}, stage {stage_name!r} has no artifact"
            )
            raise NotFound(f"{what}.", advice="List them: loom.sql('from artifacts').")
        return found

    def history(self, id: str) -> list[StoredArtifact]:  # noqa: A002  # the contract's word
        """Each revision of an artifact, oldest first; also of one that was removed.

        Raises:
            InvalidRequest: the id cannot be.
            NotFound: there never was one.
        """
        found = self._read(lambda: functools.partial(self._past.history, check_name(id, "id"))).wait()
        if not found:
            raise NotFound(f"There never was an artifact {id!r}.", advice="List them: loom.sql('from artifact_history').")
        return found

    def artifacts_of(self, run_id: str) -> list[StoredArtifact]:
        """The artifacts a run wrote, each as it left it, by flow and stage; whatever others made of them since."""
        return self._read(lambda: functools.partial(read_artifacts_of, self._database, run_id)).wait()

    def records_of(self, run_id: str) -> list[StoredRecord]:
        """The records a run appended, oldest first."""
        return self._read(lambda: functools.partial(read_records_of, self._database, run_id)).wait()

    # -- accepted work ----------------------------------------------------------------------------

    def _read(self, check: Callable[[], Callable[[], T]]) -> Later[T]:
        def start(later: Later[T]) -> None:
            read = check()

            def work() -> None:
                try:
                    value = read()
                except Exception as exc:  # noqa: BLE001  # translated: whatever it is, it belongs to who waits for it
                    self._over(later, error=storage_error(exc))
                else:
                    self._over(later, value)

            self._workers.submit(work)

        return self._begin(start)

    def _begin(self, start: Callable[[Later[T]], None]) -> Later[T]:
        """Accept a call, unless this was disposed of; what `start` raises is what comes of it."""
        later = Later[T]()
        with self._guard:
            if self._end is not None:
                later.fail(Unavailable("This storage was disposed of.", advice="Use loom.storage.", retryable=False))
                return later
            self._accepted += 1
        try:
            start(later)
        except Exception as exc:  # noqa: BLE001  # translated: whatever it is, it belongs to who waits for it
            self._over(later, error=storage_error(exc))
        return later

    def _over(self, later: Later[T], value: Any = None, *, error: LoomError | None = None) -> None:
        later.fail(error) if error is not None else later.settle(value)
        with self._guard:
            self._accepted -= 1
            end = self._end if self._accepted == 0 else None
        if end is not None:
            self._ended(end)

    def _ended(self, end: Later[None]) -> None:
        self._workers.let_go()
        end.settle(None)
