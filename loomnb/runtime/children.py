"""Sub-workflows: a child is a run of its own, started by the very commit of its parent's move, that calls back when it ends.

No orphan and no lost child: the child's first row is in the batch of the move that started it, so it exists if and only if
that move was committed. No lost callback: the child's own journal says that it ended; a callback waits until its parent
rests at a place that can take it, and each ending is taken once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loomnb.runtime.definition import Definition, Envelope, Move
from loomnb.runtime.lifecycle import FINISHED, Event, Status
from loomnb.runtime.record import Payload, RunRecord
from loomnb.runtime.records import Records

if TYPE_CHECKING:  # for its types only: DuckDB is loaded by who opens a store
    from loomnb.store import Database

__all__ = ["Children"]

Turn = Callable[[RunRecord, Event, str, dict[str, Any]], None]


class Children:
    """Brings the ends of children to their parents."""

    def __init__(self, database: Database, records: Records, turn: Turn, go: Callable[[RunRecord], None]) -> None:
        self._database = database
        self._records = records
        self._turn = turn
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
        token = f"{child.id}/{child.endings}"
        if (
            callback is None
            or view.status not in FINISHED
            or token in parent.taken
            or any(p.token == token for p in parent.callbacks)
        ):
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
        parent.callbacks = [p for p in parent.callbacks if p.envelope is None or p.envelope.workflow_id != child.id]
        parent.callbacks.append(Payload(callback["transition"], view.result, "child", envelope, token))
        return True

    def restore(self, parent: RunRecord) -> None:
        """After a restart: which children a run has, and which of their ends it has not heard of."""
        rows = self._database.read(
            "select run_id from journal where kind = 'run.started' and body->>'parent_id' = ? order by seq", [parent.id]
        )
        parent.children = [run_id for (run_id,) in rows]
        for run_id in parent.children:
            child = self._records.record(run_id)
            if child.callback is None:
                continue
            if not any(token.startswith(f"{run_id}/") for token in parent.taken):
                parent.awaited[run_id] = child.callback["transition"]
            self._note(parent, child)

    def deliver(self, parent: RunRecord) -> bool:
        """Resume a resting parent with the first callback it can take; whether there was one."""
        with parent.lock:
            if parent.passing or parent.status is not Status.WAITING or not parent.callbacks:
                return False
            definition = self._records.acquaint(parent)
            if definition is None:
                return False
            for payload in parent.callbacks:
                if self._may_take(definition, parent, payload):
                    parent.callbacks.remove(payload)
                    self._resume(parent, payload)
                    break
            else:
                return False
        self._go(parent)
        return True

    def _resume(self, parent: RunRecord, payload: Payload) -> None:
        before = parent.due, parent.has_error, parent.failure, dict(parent.awaited)
        parent.inbox = payload
        parent.due, parent.has_error, parent.failure = None, False, None
        parent.take(payload)
        try:
            self._turn(parent, Event.ANSWERED, "run.answered", payload.to_json())
        except BaseException:
            parent.inbox = None
            parent.due, parent.has_error, parent.failure, parent.awaited = before
            parent.taken.discard(payload.token)
            parent.callbacks.insert(0, payload)
            raise

    @staticmethod
    def _may_take(definition: Definition, parent: RunRecord, payload: Payload) -> bool:
        move: Move | None = next(
            (m for m in definition.moves_from(parent.place) or () if m.wait and m.name == payload.name), None
        )
        if move is None:
            return False
        if move.guard is None:
            return True
        verdict = move.guard(parent.state)
        if inspect.isawaitable(verdict):
            verdict = _settled(verdict)
        return bool(verdict)


def _settled(awaitable: Any) -> bool:
    """An async guard that does not really wait, as a guard should: it is pure. One that does is taken as refusing for now."""
    iterator = awaitable.__await__()
    try:
        next(iterator)
    except StopIteration as stop:
        return bool(stop.value)
    iterator.close()
    return False
