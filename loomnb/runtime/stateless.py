"""Runs of which nothing is stored: the same pass over a journal that keeps nothing, and one transition all by itself."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

from loomnb.documents import DocumentEntity
from loomnb.errors import LoomError, Refused
from loomnb.ids import Source
from loomnb.jsonvalue import FrozenDict, freeze
from loomnb.runtime.attempt import Attempt
from loomnb.runtime.definition import Definition, Envelope, Move
from loomnb.runtime.host import Hosts
from loomnb.runtime.moves import Moves
from loomnb.runtime.performing import perform
from loomnb.runtime.record import Payload, RunRecord
from loomnb.runtime.records import Records

if TYPE_CHECKING:  # for its types only: DuckDB is loaded by who opens a store
    from loomnb.store import Chain, Database, Row

__all__ = ["Tried", "run_stateless", "try_move"]

_TICK = 0.2  # seconds; a wait without an end cannot be interrupted


class _Nowhere:
    """A store that keeps nothing: what it is given is as good as durable at once."""

    @staticmethod
    def chain() -> Chain | None:
        return None

    @staticmethod
    def put(rows: Sequence[Row], done: Callable[[LoomError | None, int], None], **_: object) -> None:
        done(None, len(rows))

    @staticmethod
    def read(*_: object) -> list[Any]:
        return []


def _no_children(_: RunRecord) -> None:
    """A run without a store has none."""


def run_stateless(record: RunRecord, source: Source, records: Records, hosts: Hosts) -> None:
    """Let a run that nobody else knows make its moves, and wait until it rests.

    Raises:
        Refused: it waits for somebody; there is nowhere to keep its question.
    """
    record.stateless = True
    moves = Moves(cast("Database", _Nowhere), source, records, hosts, at_rest=_no_children, stop_children=_no_children)
    news = threading.Event()
    record.watchers.append(lambda _: news.set())
    moves.go(record)
    while record.passing:
        news.wait(_TICK)
        news.clear()
    if record.view.asks:
        names = ", ".join(repr(a.name) for a in record.view.asks)
        raise Refused(
            f"The stateless run of {record.workflow!r} waits for {names} at {record.place!r}: nothing keeps its question.",
            advice="Leave stateless=True out, so that it can be answered.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What one transition wrote."""

    place: str
    state: FrozenDict
    result: Any
    documents: tuple[DocumentEntity, ...]
    children: tuple[RunRecord, ...]
    log: str


def try_move(
    definition: Definition,
    move: Move,
    record: RunRecord,
    *,
    data: Any = None,
    envelope: Envelope | None = None,
) -> Tried:
    """Perform one move of a run that nobody else knows, by the rules of the real loop, and give what it wrote.

    Raises:
        Exception: whatever the body raised, unchanged; the same errors as in a run for what it must not return or store.
    """
    hosts = Hosts()
    try:
        host = hosts.get("thread")
        payload = Payload(move.name, freeze(data), "test", envelope) if move.wait else None
        record.context = contextvars.copy_context()
        attempt = Attempt(record, move, record.moves + 1, _refuse_stop)

        async def tried() -> Tried:
            raised = await perform(record, definition, attempt, payload, host=host, workers=hosts.workers)
            attempt.revoke()
            if raised is not None:
                raise raised
            return Tried(
                place=move.to,
                state=freeze(definition.check_state(attempt.state)),
                result=attempt.result,
                documents=tuple(attempt.saved),
                children=tuple(attempt.children),
                log="".join(attempt.log),
            )

        done: concurrent.futures.Future[Tried] = asyncio.run_coroutine_threadsafe(tried(), host.loop)
        return done.result()
    finally:
        hosts.close()


def _refuse_stop(_: RunRecord) -> NoReturn:
    raise Refused("A transition that is tried by itself has no sub-workflows to cancel.", advice="Drive the whole run instead.")
