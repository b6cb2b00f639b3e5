"""Sub-workflows: a child is a run of its own, started by the very commit of its parent's move, that calls back when it ends.

No orphan and no lost child: the child's first row is in the batch of the move that started it, so it exists if and only if
that move was committed. No lost callback: the child's own journal says that it ended; a callback waits until its parent is at
a place that can take it, and each ending is taken once.

A callback is taken by the parent's pass, never beside it: in the batch of the move before it, where the pass is under way,
else in a batch of its own. So a thousand children cost their parent one commit each, and no loop ever waits for the store.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from loomnb.jsonvalue import loads
from loomnb.runtime.definition import Definition, Envelope, Move
from loomnb.runtime.lifecycle import FINISHED, Event, Status, after
from loomnb.runtime.record import Payload, RunRecord
from loomnb.runtime.records import Records

if TYPE_CHECKING:  # for its types only: DuckDB is loaded by who opens a store
    from loomnb.store import Database

__all__ = ["Children", "next_callback", "take_callback"]


class Children:
    """Brings the ends of children to their parents."""

    def __init__(self, database: Database, records: Records, go: Callable[[RunRecord], None]) -> None:
        self._database = database
        self._records = records
        self._go = go

    def ended(self, child: RunRecord) -> None:
        """A run ended: if it has a parent that wants to know, tell it."""
        if child.parent_id is None or child.callback is None:
            return
        parent = self._records.record(child.parent_id)
        with parent.lock:
            if self._note(parent, child):
                parent.tell("view")
            self.deliver(parent)

    def _note(self, parent: RunRecord, child: RunRecord) -> bool:
        """Put a child's latest ending among its parent's callbacks, unless it was told already."""
        view, callback = child.view, child.callback
        token = _token(child.id, child.endings)
        known = parent.callbacks.get(child.id)
        if callback is None or view.status not in FINISHED or token in parent.taken or (known and known.token == token):
            return False
        failed = view.status is not Status.COMPLETED
        message = view.failure.message if view.has_error and view.failure else None
        if failed and message is None:
            message = "the sub-workflow was canceled" if view.status is Status.CANCELED else "the sub-workflow failed"
        status = {Status.COMPLETED: "completed", Status.FAILED: "failed", Status.CANCELED: "canceled"}[view.status]
        envelope = Envelope(
            workflow_id=child.id,
            status=status,  # type: ignore[arg-type]  # one of the three: see the line above
            error_message=message if failed else None,
            meta=callback.get("metadata"),
        )
        # Of a child that ended again (failed, retried, completed) only the last end counts, if the first was not taken yet.
        parent.callbacks[child.id] = Payload(callback["transition"], view.result, "child", envelope, token)
        return True

    def is_expecting(self, parent: RunRecord) -> bool:
        """Whether a child has ended of which the parent is to be told in a moment."""
        with parent.lock:
            if parent.is_moving:  # it is about to go on anyway, and what it awaits may not be stored yet
                return True
            unheard = [run_id for run_id in parent.awaited if run_id not in parent.callbacks]
            return any(self._records.record(run_id).view.status in FINISHED for run_id in unheard)

    def restore(self, parents: Sequence[RunRecord]) -> None:
        """After a restart: which children these runs have, and which of their ends they have not heard of."""
        by_id = {p.id: p for p in parents}
        rows = self._database.read(
            "with child as (select run_id, seq, body->>'parent_id' as parent, body->>'callback' as callback from journal "
            "  where kind = 'run.started' and list_contains(?::varchar[], body->>'parent_id')), "
            "ending as (select run_id, count(*) as n from journal "
            "  where body->>'status' in ('completed', 'failed', 'canceled') and starts_with(kind, 'run.') "
            "  and run_id in (select run_id from child) group by run_id) "
            "select child.parent, child.run_id, child.callback, coalesce(ending.n, 0) from child left join ending using (run_id) "
            "order by child.seq",
            [list(by_id)],
        )
        heard = {p.id: {token.rpartition("/")[0] for token in p.taken} for p in parents}
        for p in parents:
            p.children = []
        for parent_id, run_id, callback, endings in rows:
            parent = by_id[parent_id]
            parent.children.append(run_id)
            if callback is None:
                continue
            if run_id not in heard[parent_id]:
                parent.awaited[run_id] = loads(callback)["transition"]
            if endings and _token(run_id, endings) not in parent.taken:
                self._note(parent, self._records.record(run_id))

    def deliver(self, parent: RunRecord) -> bool:
        """Resume a resting parent with the first callback it can take; whether there was one."""
        with parent.lock:
            if parent.passing or parent.status is not Status.WAITING or not parent.callbacks:
                return False
            definition = self._records.acquaint(parent)
            move = next_callback(definition, parent) if definition is not None else None
            if move is None:
                return False
            take_callback(parent, move)
            parent.unwritten = True
            self._go(parent)  # under the lock: from here on nobody else may touch it
        return True


def _token(child_id: str, endings: int) -> str:
    return f"{child_id}/{endings}"


def next_callback(definition: Definition, parent: RunRecord) -> tuple[Move, Payload] | None:
    """The first callback that the place of a run can take, and the transition that takes it."""
    for payload in tuple(parent.callbacks.values()):
        move = next((m for m in definition.moves_from(parent.place) or () if m.wait and m.name == payload.name), None)
        if move is not None and _lets(move, parent):
            return move, payload
    return None


def take_callback(parent: RunRecord, taken: tuple[Move, Payload]) -> None:
    """Put a callback into the inbox of its parent. The caller holds the lock, and sees to its `run.answered` row."""
    payload = parent.callbacks[taken[1].envelope.workflow_id] if taken[1].envelope is not None else taken[1]  # the latest end
    parent.inbox = payload
    parent.due, parent.has_error, parent.failure = None, False, None
    parent.take(payload)
    if parent.status is Status.WAITING:
        parent.status = after(parent.status, Event.ANSWERED)


def _lets(move: Move, parent: RunRecord) -> bool:
    if move.guard is None:
        return True
    verdict = parent.new_context().run(move.guard, parent.state)
    return _settled(verdict) if inspect.isawaitable(verdict) else bool(verdict)


def _settled(awaitable: Any) -> bool:
    """An async guard that does not really wait, as a guard should: it is pure. One that does is taken as refusing for now."""
    iterator = awaitable.__await__()
    try:
        next(iterator)
    except StopIteration as stop:
        return bool(stop.value)
    iterator.close()
    return False
