"""What happens to runs, as a stream: every journal row is an event, its sequence number the cursor to go on from.

A follower reads the journal at its own pace, so a slow one never holds up a run, and one that comes back misses nothing. It
is woken by the writer's commits, after those who hold a handle were told; nothing polls the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from loomnb.errors import StoreClosed
from loomnb.jsonvalue import freeze, loads
from loomnb.runtime.host import Hosts
from loomnb.runtime.lifecycle import Status

if TYPE_CHECKING:  # for its types only: DuckDB is loaded by who opens a store
    from loomnb.store import Database

__all__ = ["RunEvent", "Tail"]

_PAGE = 500
_TICK = 0.2  # seconds; a wait that never wakes up is never interrupted (ipykernel's SIGINT handler does not wake the loop)

_TYPES = {
    "run.started": "workflow.created",
    "document.saved": "document.created",
    "ask.opened": "ask.opened",
    "run.logged": "log.added",
    "step.began": "step.began",
    "step.recorded": "step.recorded",
    "project.captured": "project.captured",
}
"""Journal kind → event type; every other row says where a run stands now: `workflow.updated`."""

_DETAILS = {
    "workflow.created": ("workflow", "title"),
    "workflow.updated": ("name", "move", "waiting_for", "progress", "error"),
    "document.created": ("id", "index", "name", "key", "internal"),
    "ask.opened": ("id", "name", "kind", "label"),
    "log.added": ("move", "text"),
    "step.began": ("move", "name", "how"),
    "step.recorded": ("move", "name"),
    "project.captured": ("when",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Something that happened to a run.

    Attributes:
        id: counts up in a store; where to go on from: `events(after=event.id)`.
        type: `workflow.created`, `workflow.updated`, `document.created`, `ask.opened`, `log.added`; of a blueprint's step also
            `step.began`, `step.recorded`, `project.captured`; or `stream.reset`, when
            the cursor was lost: what happened before `id` is not told, look at the run itself.
        workflow_id: the run.
        parent_id: of a run that was created: the run that started it.
        status: of a `workflow.…` event: where the run stands since.
        place: the same, the place; of a question, where it is asked.
        data: what else there is to say: the document's id, key and name, the transition, the error.
    """

    id: int
    type: str
    workflow_id: str = ""
    at: datetime | None = None
    parent_id: str | None = None
    status: Status | None = None
    place: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """Its JSON, with the contract's names."""
        out: dict[str, Any] = {"id": self.id, "type": self.type}
        named = (("workflowId", self.workflow_id), ("parentId", self.parent_id), ("status", self.status), ("place", self.place))
        out |= {name: str(value) for name, value in named if value}
        out |= {"at": self.at.isoformat()} if self.at is not None else {}
        return out | ({"data": dict(self.data)} if self.data else {})


def _event(row: tuple[int, datetime, str, str, str]) -> RunEvent:
    seq, at, run_id, kind, text = row
    body = loads(text)
    what = _TYPES.get(kind, "workflow.updated")
    return RunEvent(
        id=seq,
        type=what,
        workflow_id=run_id,
        at=at,
        parent_id=body.get("parent_id"),
        status=Status(body["status"]) if what.startswith("workflow.") else None,
        place=body.get("place") if what != "document.created" else None,
        data=freeze({name: body[name] for name in _DETAILS[what] if name in body}),
    )


class Tail:
    """The journal's end, for whoever follows it."""

    def __init__(self, database: Database, hosts: Hosts) -> None:
        self._database = database
        self._hosts = hosts
        self._followers: set[Callable[[], None]] = set()
        self._shown = 0
        self._closed = False
        database.on_commit(self._committed)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        self._wake()

    def _committed(self, seq: int) -> None:
        # On the writer's thread. By way of the loop, so that a follower hears of a row only after its run's handle shows it:
        # the acknowledgement was posted there before.
        if self._followers:
            self._hosts.get("thread").post(self._show, seq)

    def _show(self, seq: int) -> None:
        self._shown = max(self._shown, seq)
        self._wake()

    def _wake(self) -> None:
        for follower in tuple(self._followers):
            follower()

    async def events(
        self, after: Any, *, run_id: str | None = None, is_over: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[RunEvent]:
        """The events after a cursor, of one run or of all; then what happens from now on, until it is over.

        Args:
            after: the last event seen; None for a run's beginning, or for whatever happens from now on.
            run_id: only this run's.
            is_over: whether the stream ends with what is stored now.
        """
        last = self._database.last_seq
        cursor = _cursor(after, last) if after is not None else 0 if run_id is not None else last
        if cursor is None:
            yield RunEvent(id=last, type="stream.reset")
            cursor = last
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()

        def woken() -> None:
            with contextlib.suppress(RuntimeError):  # the follower's loop is gone
                loop.call_soon_threadsafe(wake.set)

        self._followers.add(woken)
        self._committed(last)  # so that what is stored already is told at once
        try:
            while not self._closed:
                wake.clear()
                over = is_over()  # asked before reading: what ended it is stored by then
                upto = self._database.last_seq if over else self._shown
                while cursor < upto:
                    rows = await loop.run_in_executor(self._hosts.workers, self._read, cursor, upto, run_id)
                    for row in rows:
                        cursor = row[0]
                        yield _event(row)
                    if len(rows) < _PAGE:
                        cursor = max(cursor, upto)
                if over:
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), _TICK)
        except StoreClosed:
            return
        finally:
            self._followers.discard(woken)

    def _read(self, cursor: int, upto: int, run_id: str | None) -> list[tuple[Any, ...]]:
        return self._database.read(
            "select seq, ts, run_id, kind, body from journal where seq > $cursor and seq <= $upto "
            "and ($run is null or run_id = $run) order by seq limit $page",
            {"cursor": cursor, "upto": upto, "run": run_id, "page": _PAGE},
        )


def _cursor(after: Any, last: int) -> int | None:
    """The cursor as a number, None when it is none of this store's: malformed, or of another store."""
    if isinstance(after, str) and after.isascii() and after.isdecimal():
        after = int(after)
    return after if type(after) is int and 0 <= after <= last else None
