"""The run loop: start, move, commit, rest, answer, retry, time out, cancel, restore. One engine for every vocabulary.

How a run moves. A *pass* is a task on the run's loop; there is at most one per run, so moves of a run never overlap. It
performs a move, asks the definition what may move next, and puts all of it (the state's changes, documents, the next
questions, the new status) into ONE batch of journal rows: so a move is there whole, with what it led to, or not at all. Only
when the batch is acknowledged does anybody see it. A pass ends when the run rests; a run at rest holds no task and no thread.

Who may touch a record. The pass, while `passing`; otherwise whoever holds `record.lock` (an answer, a retry, a cancel, from
any thread). Both sides set the status under the lock, so each refuses what the other has just made impossible.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from loomnb.asks import NOTHING, Ask, payload_of
from loomnb.errors import (
    AnswerInvalid,
    AnswerRefused,
    Conflict,
    DefinitionError,
    LoomError,
    MoveTimedOut,
    NotFound,
    Refused,
    StoreClosed,
)
from loomnb.ids import Source
from loomnb.jsonvalue import changes, freeze, loads
from loomnb.runtime.attempt import CURRENT, Attempt
from loomnb.runtime.definition import END, Definition, Execution, Move, RunContext
from loomnb.runtime.failure import Failure, bug, explain, tame
from loomnb.runtime.host import Host, KernelHost, ThreadHost, Workers
from loomnb.runtime.lifecycle import FINISHED, Event, Status, after
from loomnb.runtime.record import Due, Payload, RunRecord, due_json, row
from loomnb.runtime.registry import REGISTRY
from loomnb.store import Database, Row, notebook_name

__all__ = ["MISSING", "Runtime"]

MISSING: Any = type("MISSING", (), {"__repr__": lambda self: "MISSING"})()
_GRACE = 1.0  # seconds a canceled body has for its finally blocks before it is left behind
_IN_FLIGHT = 256  # commits a pipelined run may be ahead of the store

ScriptedAnswer = Callable[[RunRecord, Ask], "tuple[Any, str]"]


@dataclass(frozen=True, slots=True)
class _Next:
    """What a run does next: a move with its payload, or a move whose guard raised, or (no move) why it rests."""

    move: Move | None = None
    payload: Payload | None = None
    raised: Exception | None = None
    refused: tuple[str, ...] = ()


class Runtime:
    """Every run of one store in this process.

    Args:
        database: the store.
        source: ids and clock.
        pipelined: whether automatic moves may run ahead of the commit; the default of each run.
        scripted: gives a scripted answer for an ask with its source, or NOTHING.
    """

    def __init__(self, database: Database, source: Source, *, pipelined: bool, scripted: ScriptedAnswer) -> None:
        self.database = database
        self.source = source
        self.pipelined = pipelined
        self._scripted = scripted
        self.workers = Workers()
        self._thread_host: ThreadHost | None = None
        self._hosts: dict[int, KernelHost] = {}
        self._records: weakref.WeakValueDictionary[str, RunRecord] = weakref.WeakValueDictionary()
        self._live: dict[str, RunRecord] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._guard = threading.RLock()
        self.closed = False
        self.unrecoverable: dict[str, str] = {}
        """Runs that could not be read at open, with the reason. They were left as they are."""
        self.on_blocked: Callable[[], None] = lambda: None
        self._store_id = database.read("select id from store")[0][0]
        self._restore()
        REGISTRY.listen(self)

    # -- starting and finding ---------------------------------------------------------------------

    def start(
        self,
        definition: Definition,
        raw_args: Any,
        *,
        key: str | None = None,
        fresh: bool = False,
        labels: Sequence[str] = (),
        title: str | None = None,
        step_limit: int | None = None,
        pipelined: bool | None = None,
        loop: str = "thread",
        seed: tuple[str, Any, Any] | None = None,
        forked_from: str = "",
    ) -> RunRecord:
        """Start a run, or find the one of this key. Returns once its first row is durable; the moves follow by themselves.

        Raises:
            ArgsInvalid: the arguments do not fit; no run was created.
            Conflict: the key's stored run has other arguments.
        """
        stored, loaded = definition.parse_args(raw_args)
        host = self._host(loop)
        # Two cells that start the same key at once must find one run; runs without a key start side by side.
        with self._guard if key is not None else contextlib.nullcontext():
            if key is not None and not fresh:
                found = self._of_key(definition, key, stored)
                if found is not None:
                    return found
            record = RunRecord(
                id=self.source.new_id("run"),
                workflow=definition.name,
                source=self.source,
                args=stored,
                title=title or definition.title,
                key=key,
                labels=tuple(labels),
                origin=definition.origin,
                fingerprint=definition.fingerprint,
                step_limit=step_limit or definition.step_limit,
                pipelined=self.pipelined if pipelined is None else pipelined,
                loop=loop,
                workspace_id=self._store_id,
                loaded_args=loaded,
                context=contextvars.copy_context(),
                host=host,
            )
            body: dict[str, Any] = {"workflow": record.workflow, "title": record.title, "args": stored, "step_limit": record.step_limit}
            body |= {"origin": record.origin, "fingerprint": record.fingerprint}
            body |= {"key": key} if key is not None else {}
            body |= {"labels": list(record.labels)} if record.labels else {}
            body |= {"durability": "pipelined"} if record.pipelined else {}
            body |= {"notebook": notebook_name()} if notebook_name() else {}
            if seed is not None:
                record.place, record.state, record.result = seed
                record.path = [(record.place, "")]
                body |= {"changes": changes({}, record.state), "forked_from": forked_from}
                body |= {"result": record.result} if record.result is not None else {}
            rows: list[Row] = []
            asks: tuple[Ask, ...] = ()
            if definition.rests_at_start:
                record.status = Status.WAITING
                asks, rows = self._open_asks(record, definition)
                body["waiting_for"] = "person"
            self.database.commit([row(record, "run.started", {**body, **record.standing()}), *rows])
            self._adopt(record)
            if key is not None:
                self._keys[definition.name, key] = record.id
        record.scripting = bool(asks)
        record.publish(record.snapshot(asks, "person" if asks else None))
        if asks:
            host.post(self.try_script, record)
        else:
            self._go(record)
        return record

    def _of_key(self, definition: Definition, key: str, stored: Any) -> RunRecord | None:
        run_id = self._keys.get((definition.name, key))
        if run_id is None:
            rows = self.database.read(
                "select run_id from runs where workflow = ? and key = ? order by number desc limit 1", [definition.name, key]
            )
            if not rows:
                return None
            run_id = rows[0][0]
        record = self.record(run_id)
        if freeze(record.args) != stored:
            raise Conflict(
                f"The run {record.id} with key {key!r} was started with other arguments.",
                advice="Use another key, or fresh=True for a new run under this key.",
            )
        return record

    def record(self, run_id: str) -> RunRecord:
        """A run, from memory or from the store.

        Raises:
            NotFound: this store has no such run.
        """
        with self._guard:
            record = self._records.get(run_id)
            if record is None:
                record = self._load(run_id)
                self._adopt(record)
            return record

    def live(self) -> list[RunRecord]:
        """Runs that are not finished, oldest first, and failed ones that a person can still answer."""
        with self._guard:
            return list(self._live.values())

    def _adopt(self, record: RunRecord) -> None:
        self._records[record.id] = record
        self._live[record.id] = record  # held as long as something can happen to it; see _settle

    def _settle(self, record: RunRecord) -> None:
        if record.view.status in FINISHED and not record.view.asks:
            with self._guard:
                self._live.pop(record.id, None)

    def _load(self, run_id: str) -> RunRecord:
        rows = self.database.read("select seq, ts, kind, body from journal where run_id = ? order by seq", [run_id])
        if not rows:
            raise NotFound(f"This store has no run {run_id!r}.", advice="List them with loom.runs().")
        first = next(r[3] for r in rows if r[2] == "run.started")
        record = RunRecord(id=run_id, workflow="", source=self.source, workspace_id=self._store_id)
        record.workflow = loads(first)["workflow"]
        record.replay(rows)
        record.host = self._host("thread")
        self._acquaint(record)
        return record

    def _acquaint(self, record: RunRecord) -> Definition | None:
        """The definition of a stored run, if the one known here is its own; else the advice says what is missing."""
        definition = REGISTRY.get(record.workflow)
        record.advice = ""
        if definition is None:
            record.advice = f"Run the cell that defines the workflow {record.workflow!r}: then this run goes on."
        elif record.origin and definition.origin != record.origin and definition.fingerprint != record.fingerprint:
            record.advice = (
                f"This run belongs to the {record.workflow!r} of {record.origin}; the one defined here comes from "
                f"{definition.origin} and is another. Open that notebook, or give this one another name."
            )
            definition = None
        elif definition.moves_from(record.place) is None:
            record.advice = (
                f"This run stands at the place {record.place!r}, which {record.workflow!r} no longer has. Bring the place back "
                "and run the cell again, or cancel the run."
            )
            definition = None
        elif record.loaded_args is None and record.args is not None:
            try:
                record.loaded_args = definition.load_args(record.args)
            except LoomError as exc:
                record.advice = f"The arguments of this run do not fit {record.workflow!r} any more: {exc}"
                definition = None
        return definition

    # -- restoring --------------------------------------------------------------------------------

    def _restore(self) -> None:
        """At open: what was moving when its kernel died is interrupted; then whatever is known goes on."""
        rows = self.database.read(
            "select run_id, status from runs where status not in ('completed', 'canceled') "
            "and (status <> 'failed' or run_id in (select run_id from asks where status = 'open')) order by number"
        )
        lost: list[tuple[RunRecord, Row]] = []
        for run_id, _ in rows:
            try:
                record = self._load(run_id)
            except Exception as exc:  # one bad run must not block the others: it stays in the store as it is
                self.unrecoverable[run_id] = f"{type(exc).__name__}: {exc}"
                continue
            self._adopt(record)
            status = after(record.status, Event.LOST)
            if status is not record.status:
                record.status = status
                lost.append((record, row(record, "run.interrupted", record.standing())))
        if lost:
            self.database.commit([r for _, r in lost])
            for record, _ in lost:
                record.publish(record.snapshot())
        for record in self.live():
            self._resume(record)

    def restore(self) -> list[RunRecord]:
        """Let every interrupted run whose definition is known go on; the runs that are not finished."""
        for record in self.live():
            self._resume(record)
        return self.live()

    def defined(self, definition: Definition) -> None:
        """A definition was executed: runs of that name go on."""
        if self.closed:
            return
        for record in self.live():
            if record.workflow == definition.name:
                self._resume(record)

    def _resume(self, record: RunRecord) -> None:
        with record.lock:
            if record.passing:
                return
            known = self._acquaint(record)
            if record.status is not Status.INTERRUPTED:
                record.tell("view")
                if known is not None and record.view.asks:
                    record.scripting = True
                    self._need_host(record).post(self.try_script, record)
                return
            if known is None:
                record.tell("view")
                return
            due = record.due.at if record.due is not None else None
            self._turn(record, Event.REARMED if due is not None else Event.RESUMED, "run.resumed")
        if record.status is Status.RETRYING:
            self._arm(record)
        else:
            self._go(record)

    def _turn(self, record: RunRecord, event: Event, kind: str, body: Mapping[str, Any] | None = None) -> None:
        """Change the status of a run at rest: one durable row, then the view. Under the record's lock."""
        before = record.status
        record.status = after(before, event)
        try:
            self.database.commit([row(record, kind, {**(body or {}), **record.standing()})])
        except BaseException:
            record.status = before
            raise
        record.publish(record.snapshot())

    # -- answering --------------------------------------------------------------------------------

    def answer(self, record: RunRecord, name_or_id: Any, payload: Any, source: str, *, from_form: bool = False) -> None:
        """Give an answer. Returns once it is committed, not when the run has moved.

        Args:
            record: the run.
            name_or_id: a wait transition's name or an open ask's id; MISSING while exactly one ask is open.
            payload: what the ask takes; with `from_form`, what its form sent.
            source: where it came from; recorded.
            from_form: whether `payload` are the raw values of a form.

        Raises:
            AnswerInvalid: it does not fit; the ask stays open.
            AnswerRefused: nothing may take it now.
        """
        ask = self._find_ask(record, name_or_id)
        if ask is None:  # one argument that is neither a name nor an id: it is the payload of the only ask
            ask, payload = record.view.asks[0], name_or_id
        definition, move = self._wait_of(record, ask)
        if from_form and ask.kind in ("form", "button"):
            payload = payload_of(ask.form, payload)
        stored = definition.accept(move, record.loaded_args, None if payload is MISSING else payload)
        if move.guard is not None and not self._ask_guard(record, move):
            raise AnswerRefused(
                f"The guard {move.guard_name!r} of {move.name!r} refuses: this answer is not allowed now.",
                advice="Nothing was changed; the question stays open.",
            )
        with record.lock:
            if ask not in record.view.asks:  # somebody else, or the payload's own inspection, was faster
                raise self.refusal(record, ask.id)
            before = record.due, record.has_error, record.failure
            record.inbox = Payload(move.name, stored, source)
            record.due, record.has_error, record.failure = None, False, None
            try:
                self._turn(record, Event.ANSWERED, "run.answered", self._answer_body(ask, move, stored, source))
            except BaseException:
                record.inbox = None
                record.due, record.has_error, record.failure = before
                raise
        self._go(record)

    @staticmethod
    def _answer_body(ask: Ask, move: Move, stored: Any, source: str) -> dict[str, Any]:
        return {"ask": ask.id, "name": move.name, "source": source, "payload": stored}

    def _find_ask(self, record: RunRecord, name_or_id: Any) -> Ask | None:
        asks = record.view.asks
        if isinstance(name_or_id, str):
            for ask in asks:
                if name_or_id in (ask.id, ask.name):
                    return ask
        if not asks or isinstance(name_or_id, _Named):
            raise self.refusal(record, str(name_or_id.name) if isinstance(name_or_id, _Named) else "")
        if len(asks) > 1:
            raise AnswerRefused(
                f"{len(asks)} questions are open; the answer must say which it is for.",
                advice="Name one: " + ", ".join(f"run.answer({a.name!r}, …)" for a in asks),
            )
        return None

    def refusal(self, record: RunRecord, wanted: str) -> AnswerRefused:
        view = record.view
        names = ", ".join(repr(a.name) for a in view.asks)
        what = f"{wanted!r} is not open in" if wanted else "Nothing is asked by"
        advice = f"Open now: {names}." if names else f"The run is {view.status} at {view.place!r}."
        return AnswerRefused(f"{what} the run {record.id} ({record.workflow}).", advice=advice)

    def _wait_of(self, record: RunRecord, ask: Ask) -> tuple[Definition, Move]:
        definition = self._acquaint(record)
        if definition is None:
            raise AnswerRefused(f"The run {record.id} cannot take an answer yet.", advice=record.advice)
        for move in definition.moves_from(record.place) or ():
            if move.wait and move.name == ask.name:
                return definition, move
        raise AnswerRefused(f"{record.workflow!r} no longer has the wait transition {ask.name!r} at {record.place!r}.")

    def _ask_guard(self, record: RunRecord, move: Move) -> bool:
        if move.guard is None:
            return True
        try:
            verdict = move.guard(record.state)
            if not inspect.isawaitable(verdict):
                return bool(verdict)
            future = self.workers.submit(asyncio.run, _awaiting(verdict))
            return bool(future.result())
        except Exception as exc:
            raise AnswerRefused(
                f"The guard {move.guard_name!r} of {move.name!r} raised {type(exc).__name__}: {exc}",
                advice="The answer was not taken; the question stays open.",
            ) from exc

    def try_script(self, record: RunRecord) -> None:
        """Answer from the script, if it has something for one of the open asks. On the run's loop."""
        try:
            self._from_script(record)
        finally:
            record.scripting = False
            record.tell("view")

    def _from_script(self, record: RunRecord) -> None:
        for ask in record.view.asks:
            try:
                payload, source = self._scripted(record, ask)
                if payload is NOTHING:
                    continue
                self.answer(record, ask.id, payload, source)
                record.script_error = None
            except (AnswerInvalid, Refused) as exc:
                if ask in record.view.asks:  # else somebody was faster, and all is well
                    record.script_error = exc
                continue
            return

    # -- retry and cancel -------------------------------------------------------------------------

    def retry(self, record: RunRecord) -> None:
        """Try again what failed, was interrupted, or waits for its automatic retry.

        Raises:
            Refused: the run has not failed, or its definition is missing.
        """
        with record.lock:
            out_of_error_place = record.status is Status.WAITING and record.has_error and record.due is not None
            if record.status is Status.WAITING and not out_of_error_place:
                raise Conflict(f"The run {record.id} has not failed: it waits.", advice="Answer it, or cancel it.")
            after(record.status, Event.RETRIED)
            due = record.due
            before = record.place, record.inbox, record.has_error, record.failure
            if due is not None and record.status is not Status.RETRYING:
                record.place = due.from_  # out of an error place too; an early automatic retry goes where it would have gone
            if self._acquaint(record) is None:
                record.place = before[0]
                raise Refused(f"The run {record.id} cannot go on yet.", advice=record.advice)
            record.inbox = due.payload if due is not None and record.place == due.from_ else record.inbox
            record.has_error, record.failure = False, None
            try:
                self._turn(record, Event.RETRIED, "run.retried")
            except BaseException:
                record.place, record.inbox, record.has_error, record.failure = before
                raise
            self._adopt(record)
        self._go(record)

    def cancel(self, record: RunRecord) -> None:
        """Stop a run; finished runs are left as they are. A move in progress is stopped before it commits."""
        with record.lock:
            if record.passing:
                record.cancel_requested = True
                self._need_host(record).post(self._stop_body, record)
                return
            if after(record.status, Event.CANCELED) is record.status:
                return
            self._turn(record, Event.CANCELED, "run.canceled")
        self._settle(record)

    @staticmethod
    def _stop_body(record: RunRecord) -> None:
        if record.attempt is not None:
            record.attempt.revoke()
        if record.body is not None and record.body_done is not None:
            record.body.cancel()
            _leave_behind(record.body_done)

    # -- the pass ---------------------------------------------------------------------------------

    def _go(self, record: RunRecord) -> None:
        with record.lock:
            if record.passing or self.closed:
                return
            record.passing = True
        self._need_host(record).spawn(lambda: self._pass(record))

    async def _pass(self, record: RunRecord) -> None:
        try:
            await self._moves(record)
        except StoreClosed:
            record.passing = False  # the kernel is going down: what was not committed is made again by the next one
        except Exception as exc:  # a failed commit, or a bug of ours: never lose a run without a word
            self._fall_back(record, exc)

    async def _moves(self, record: RunRecord) -> None:
        definition = self._acquaint(record)
        if definition is None:
            self._stop_passing(record)
            return
        acks: list[asyncio.Future[None]] = []
        try:
            await self._make_moves(record, definition, acks)
        except BaseException:
            for ack in acks:  # the first failure is told; the others would complain that nobody asked
                ack.add_done_callback(lambda a: a.cancelled() or a.exception())
            raise

    async def _make_moves(self, record: RunRecord, definition: Definition, acks: list[asyncio.Future[None]]) -> None:
        steps = 0
        following = await self._first(record, definition)
        while following is not None:
            if record.cancel_requested:
                await self._commit(record, [row(record, "run.canceled", self._set(record, Event.CANCELED))], acks, last=True)
                return
            if following.move is None:
                await self._come_to_rest(record, definition, following, acks)
                return
            if steps >= record.step_limit:
                await self._stop_at_limit(record, acks)
                return
            steps += 1
            following = await self._one(record, definition, following, acks)

    async def _first(self, record: RunRecord, definition: Definition) -> _Next:
        payload = record.inbox
        if payload is not None:
            for move in definition.moves_from(record.place) or ():
                if move.wait and move.name == payload.name:
                    return _Next(move, payload)
            record.inbox = None
        return await self._choose(record, definition, record.state)

    async def _choose(self, record: RunRecord, definition: Definition, state: Any) -> _Next:
        """The automatic transition that fires: the first, best first, whose guard lets it."""
        refused = []
        for move in definition.moves_from(record.place) or ():
            if move.wait:
                continue
            if move.guard is None:
                return _Next(move)
            try:
                verdict = move.guard(state)
                if inspect.isawaitable(verdict):
                    verdict = await verdict
            except Exception as exc:  # a guard's error is a failure of its transition
                return _Next(move, raised=exc)
            if verdict:
                return _Next(move)
            refused.append(move.guard_name)
        return _Next(refused=tuple(refused))

    async def _one(
        self, record: RunRecord, definition: Definition, what: _Next, acks: list[asyncio.Future[None]]
    ) -> _Next | None:
        """Perform one move and commit what came of it; what follows, or None when the pass is over."""
        move, payload = what.move, what.payload
        assert move is not None
        attempt = Attempt(record, move, record.moves + 1)
        started = self.source.monotonic()
        record.attempt, record.attempt_started = attempt, started
        raised: BaseException | None = what.raised
        if raised is None:
            raised = await self._perform(record, definition, move, attempt, payload)
        attempt.revoke()  # a task the body left behind must not write into what is committed now
        ms = round((self.source.monotonic() - started) * 1000, 3)
        record.attempt = None
        logs = self._log_rows(record, attempt)
        if record.cancel_requested:
            record.shelf.roll_back()
            rows = [*logs, row(record, "run.canceled", self._set(record, Event.CANCELED))]
            await self._commit(record, rows, acks, last=True)
            return None
        try:
            if raised is None:
                state = definition.check_state(attempt.state)
        except Exception as exc:
            raised = exc
        if raised is not None:
            record.shelf.roll_back()
            return await self._failed(record, definition, move, payload, tame(raised), ms, logs, acks)
        ops = changes(record.state, state)
        body: dict[str, Any] = {"move": attempt.number, "name": move.name, "from": record.place, "ms": ms}
        tries = record.attempts.pop(move.name, 0)
        if tries:
            body["attempt"] = tries
        if ops:
            body["changes"] = ops
        if attempt.result_dirty:
            body["result"] = record.result = attempt.result
        record.state, record.place, record.moves = state, move.to, attempt.number
        record.inbox = record.due = None
        if record.status is Status.RUNNING and tries:
            record.has_error, record.failure = False, None  # the automatic retry succeeded
        record.shelf.keep()
        documents = [row(record, "document.saved", e.to_json()) for e in attempt.saved]
        return await self._onward(record, definition, body, "run.moved", [*logs, *documents], acks, attempt, (move.to, move.name))

    async def _onward(
        self,
        record: RunRecord,
        definition: Definition,
        body: dict[str, Any],
        kind: str,
        rows: list[Row],
        acks: list[asyncio.Future[None]],
        attempt: Attempt | None,
        step: tuple[str, str] | None,
    ) -> _Next | None:
        """Commit a move together with what it leads to: the next move, a rest with its questions, or the end."""
        saved = attempt.saved if attempt is not None else ()
        if record.place == END:
            rows.insert(0, row(record, kind, {**body, **self._set(record, Event.ENDED)}))
            await self._commit(record, rows, acks, step=step, saved=saved, last=True)
            return None
        following = await self._choose(record, definition, record.state)
        if following.move is not None:
            rows.insert(0, row(record, kind, {**body, **self._set(record, Event.MOVED)}))
            await self._commit(record, rows, acks, step=step, saved=saved)
            return following
        event, asks, ask_rows = self._rest(record, definition, following)
        standing = self._set(record, event)
        if asks and event is Event.RESTED:
            standing["waiting_for"] = "person"
        if record.failure is not None and event is Event.BROKE:
            standing["error"] = record.failure.to_json()
        rows.insert(0, row(record, kind, {**body, **standing}))
        await self._commit(record, [*rows, *ask_rows], acks, step=step, saved=saved, asks=asks, last=True)
        return None

    def _rest(self, record: RunRecord, definition: Definition, following: _Next) -> tuple[Event, tuple[Ask, ...], list[Row]]:
        asks, rows = self._open_asks(record, definition)
        if asks:
            return Event.RESTED, asks, rows
        if not record.has_error:  # an error that led here says more than "stuck" would
            guards = ", ".join(following.refused)
            record.has_error = True
            record.failure = Failure(
                code="RUN_STUCK",
                message=f"Nothing can move from the place {record.place!r}" + (f": the guards {guards} refused." if guards else "."),
                advice="Correct the workflow and run its cell again, then run.retry().",
            )
        return Event.BROKE, (), []

    async def _come_to_rest(
        self, record: RunRecord, definition: Definition, following: _Next, acks: list[asyncio.Future[None]]
    ) -> None:
        """A pass that finds nothing to do at its very beginning (a retry, a restore)."""
        event, asks, ask_rows = self._rest(record, definition, following)
        body = self._set(record, event)
        body |= {"waiting_for": "person"} if event is Event.RESTED else {}
        if event is Event.BROKE and record.failure is not None:
            body = {**body, "move": record.moves + 1, "name": "", "from": record.place, "error": record.failure.to_json()}
        kind = "run.rested" if event is Event.RESTED else "run.broke"
        await self._commit(record, [row(record, kind, body), *ask_rows], acks, asks=asks, last=True)

    def _open_asks(self, record: RunRecord, definition: Definition) -> tuple[tuple[Ask, ...], list[Row]]:
        asks = []
        for move in definition.moves_from(record.place) or ():
            if move.wait:
                c = definition.ask(move, record.loaded_args)
                asks.append(
                    Ask(
                        id=self.source.new_id("ask"),
                        name=move.name,
                        kind=c.kind,
                        label=c.label,
                        description=c.description,
                        form=c.form,
                        questions=c.questions,
                        context=c.context,
                        key=c.key,
                        opened_at=self.source.now(),
                    )
                )
        return tuple(asks), [row(record, "ask.opened", {**a.to_json(), "place": record.place}) for a in asks]

    # -- performing -------------------------------------------------------------------------------

    async def _perform(
        self, record: RunRecord, definition: Definition, move: Move, attempt: Attempt, payload: Payload | None
    ) -> BaseException | None:
        """Run the body; the exception it ended with, if any."""
        run_context: RunContext[Any] = RunContext(
            user_id=record.user_id,
            workspace_id=record.workspace_id,
            workflow_id=record.id,
            args=record.loaded_args,
            execution=Execution(record.place, record.attempts.get(move.name, 0)),
            idempotency_key=f"{record.id}/{attempt.number}",
        )
        context = record.context.copy() if record.context is not None else contextvars.copy_context()
        context.run(CURRENT.set, attempt)
        data = payload.data if payload is not None else None

        def call() -> Any:
            return definition.perform(move, run_context, attempt.state, data, record.id)

        host = self._need_host(record)
        coroutine = self._async_body(call) if move.is_async else self._sync_body(call, context)
        task = host.loop.create_task(coroutine, context=context)
        task.set_name(f"run {record.workflow} ({record.id}), transition {move.name}")
        record.body = task
        done: asyncio.Future[None] = host.loop.create_future()
        task.add_done_callback(lambda _: _resolve(done))
        timed_out = False

        def expire() -> None:
            nonlocal timed_out
            timed_out = True
            attempt.revoke()
            task.cancel()
            _leave_behind(done)

        timer = host.loop.call_later(move.timeout / 1000, expire) if move.timeout else None
        flush = host.loop.call_later(_GRACE, self._flush_log, record, attempt)
        record.body_done = done
        if record.cancel_requested:
            self._stop_body(record)
        try:
            await done
        finally:
            record.body = None
            flush.cancel()
            if timer is not None:
                timer.cancel()
        if timed_out:
            return MoveTimedOut(
                f"The transition {move.name!r} took longer than {move.timeout:g} ms and was stopped.",
                advice=f"Give it more time with @loom.transition(timeout=…), now {move.timeout:g} ms, or make it shorter.",
            )
        if not task.done() or task.cancelled():
            if record.cancel_requested:
                return asyncio.CancelledError()
            return _Cancelled(f"The body of {move.name!r} was canceled from inside.")
        exc = task.exception()
        if exc is not None:
            record.exception = exc
            return explain(tame(exc), record.loop)
        value = task.result()
        if value is not None:
            return DefinitionError(
                f"The transition {move.name!r} returned a {type(value).__name__}: transitions return nothing.",
                advice="Use self.assign_state(...) or self.set_result(...) instead of return.",
            )
        return None

    @staticmethod
    async def _async_body(call: Callable[[], Any]) -> Any:
        value = call()
        return await value if inspect.isawaitable(value) else value

    async def _sync_body(self, call: Callable[[], Any], context: contextvars.Context) -> Any:
        value = await asyncio.wrap_future(self.workers.submit(call))
        return await value if inspect.isawaitable(value) else value

    # -- failing ----------------------------------------------------------------------------------

    async def _failed(
        self,
        record: RunRecord,
        definition: Definition,
        move: Move,
        payload: Payload | None,
        exc: Exception,
        ms: float,
        logs: list[Row],
        acks: list[asyncio.Future[None]],
    ) -> _Next | None:
        """The decision tree of a failed move: an automatic retry, the error place, or failed until somebody retries."""
        failure = Failure.of(exc)
        record.exception = exc
        tries = record.attempts.get(move.name, 0)
        record.attempts[move.name] = tries + 1
        record.has_error, record.failure, record.inbox = True, failure, None
        body: dict[str, Any] = {"move": record.moves + 1, "name": move.name, "from": record.place, "ms": ms, "attempt": tries}
        error = failure.to_json()
        if move.retry_attempts > 0 and tries < move.retry_attempts:
            at = self.source.now() + timedelta(seconds=move.back_off(tries + 1))
            record.due = Due(move.name, move.from_, payload, at)
            if move.retry_target is not None:
                record.place = move.retry_target
            body |= self._set(record, Event.BACKED_OFF)
            body |= {"error": error, "attempts": record.attempts, "due": due_json(record.due)}
            step = (record.place, move.name) if record.place != move.from_ else None
            await self._commit(record, [row(record, "run.broke", body), *logs], acks, step=step, last=True)
            self._arm(record)
            return None
        record.due = Due(move.name, move.from_, payload, None)
        if move.error_place is not None:
            record.attempts.pop(move.name)
            record.place = move.error_place
            body |= {"error": error, "attempts": record.attempts, "due": due_json(record.due)}
            return await self._to_error_place(record, definition, body, logs, acks, move.name)
        # What leads on from here may still be answered: a wrong answer can be given anew, not only replayed.
        asks, ask_rows = self._open_asks(record, definition)
        body |= self._set(record, Event.BROKE)
        body |= {"error": error, "attempts": record.attempts, "due": due_json(record.due)}
        await self._commit(record, [row(record, "run.broke", body), *logs, *ask_rows], acks, asks=asks, last=True)
        return None

    async def _to_error_place(
        self,
        record: RunRecord,
        definition: Definition,
        body: dict[str, Any],
        logs: list[Row],
        acks: list[asyncio.Future[None]],
        name: str,
    ) -> _Next | None:
        error, step = body["error"], (record.place, name)
        if record.place == END:
            rows = [row(record, "run.broke", {**body, **self._set(record, Event.ENDED), "error": error}), *logs]
            await self._commit(record, rows, acks, step=step, last=True)
            return None
        following = await self._choose(record, definition, record.state)
        asks: tuple[Ask, ...] = ()
        ask_rows: list[Row] = []
        event = Event.MOVED
        if following.move is None:
            asks, ask_rows = self._open_asks(record, definition)
            event = Event.RESTED if asks else Event.BROKE
        standing = self._set(record, event)
        standing |= {"waiting_for": "person"} if event is Event.RESTED else {}
        rows = [row(record, "run.broke", {**body, **standing, "error": error}), *logs, *ask_rows]
        await self._commit(record, rows, acks, step=step, asks=asks, last=following.move is None)
        return following if following.move is not None else None

    async def _stop_at_limit(self, record: RunRecord, acks: list[asyncio.Future[None]]) -> None:
        record.has_error = True
        record.failure = Failure(
            code="STEP_LIMIT",
            message=f"{record.step_limit} moves were made in one pass without a rest.",
            advice="If that is meant, run.retry() goes on; or raise it: @loom.workflow(step_limit=…).",
        )
        body = {"move": record.moves + 1, "name": "", "from": record.place, "error": record.failure.to_json()}
        rows = [row(record, "run.broke", {**body, **self._set(record, Event.BROKE), "error": body["error"]})]
        await self._commit(record, rows, acks, last=True)

    def _arm(self, record: RunRecord) -> None:
        """Wake a run when its automatic retry is due."""
        due = record.due
        if due is None or due.at is None:
            return
        delay = max(0.0, (due.at - self.source.now()).total_seconds())
        host = self._need_host(record)
        host.post(lambda: host.loop.call_later(delay, self._wake, record, due))

    def _wake(self, record: RunRecord, due: Due) -> None:
        with record.lock:
            if record.status is not Status.RETRYING or record.due is not due:
                return  # somebody retried by hand, or canceled: this alarm is stale
            record.status = after(record.status, Event.WOKE)
            if due.payload is not None and record.place == due.from_:
                record.inbox = due.payload
        record.publish(record.snapshot())
        self._go(record)

    # -- committing -------------------------------------------------------------------------------

    @staticmethod
    def _set(record: RunRecord, event: Event) -> dict[str, Any]:
        record.status = after(record.status, event)
        return record.standing()

    async def _commit(
        self,
        record: RunRecord,
        rows: Sequence[Row],
        acks: list[asyncio.Future[None]],
        *,
        step: tuple[str, str] | None = None,
        saved: Sequence[Any] = (),
        asks: tuple[Ask, ...] = (),
        last: bool = False,
    ) -> None:
        """Put one atomic batch. It is shown when acknowledged; a pipelined run waits for that only at its rests."""
        host = self._need_host(record)
        future: asyncio.Future[None] = host.loop.create_future()
        view = record.snapshot(asks, "person" if asks and record.status is Status.WAITING else None)

        def acknowledged(error: LoomError | None) -> None:
            if error is None:
                if last:
                    record.scripting = bool(asks)  # nobody is told "no one can answer" before the script was asked
                    self._stop_passing(record)
                record.publish(view, step, saved)
                if last:
                    self._settle(record)
                    if asks:
                        host.post(self.try_script, record)
                done_error = None
            else:
                done_error = error
            if not future.done():
                future.set_exception(done_error) if done_error is not None else future.set_result(None)

        self.database.put(rows, lambda error, _: host.post(acknowledged, error))
        if record.pipelined and not last:
            acks.append(future)
            if len(acks) > _IN_FLIGHT:
                await acks.pop(0)
            elif len(acks) % 16 == 0:
                await asyncio.sleep(0)  # let answers to others, cancels and acknowledgements in
            return
        for earlier in acks:  # in order: the first that failed is the one to tell
            await earlier
        acks.clear()
        await future

    def _stop_passing(self, record: RunRecord) -> None:
        with record.lock:
            record.passing = False
            record.cancel_requested = False

    def _fall_back(self, record: RunRecord, exc: Exception) -> None:
        """A commit failed, or we did: the run stands where the store says, failed here, and retry() goes on from there."""
        failure = Failure.of(exc if isinstance(exc, LoomError) else bug(f"The run loop failed: {exc!r}").with_traceback(exc.__traceback__))
        with record.lock:
            record.shelf.roll_back()
            try:
                rows = self.database.read("select seq, ts, kind, body from journal where run_id = ? order by seq", [record.id])
                stored = RunRecord(id=record.id, workflow=record.workflow, source=self.source, workspace_id=self._store_id)
                stored.replay(rows)
                record.place, record.state, record.result, record.moves = stored.place, stored.state, stored.result, stored.moves
                record.shelf, record.documents, record.stamp = stored.shelf, stored.documents, stored.stamp
                record.due, record.inbox, record.attempts = stored.due, stored.inbox, stored.attempts
            except Exception:  # the store cannot even be read: what is in memory is the best there is
                record.exception = exc
            record.status, record.has_error, record.failure = Status.FAILED, True, failure
            record.exception = exc
            record.passing = record.cancel_requested = False
        record.publish(record.snapshot())

    def _log_rows(self, record: RunRecord, attempt: Attempt) -> list[Row]:
        text = "".join(attempt.log)
        attempt.log.clear()
        return [row(record, "run.logged", {"move": attempt.number, "text": text})] if text else []

    def _flush_log(self, record: RunRecord, attempt: Attempt) -> None:
        """A long move's prints are kept while it runs, about once a second."""
        if record.attempt is not attempt:
            return
        rows = self._log_rows(record, attempt)
        if rows:
            with contextlib.suppress(LoomError):  # closing: the move itself will not be committed either
                self.database.put(rows, lambda *_: None)
        record.tell("log")
        self._need_host(record).loop.call_later(_GRACE, self._flush_log, record, attempt)

    # -- hosts ------------------------------------------------------------------------------------

    def _host(self, kind: str) -> Host:
        if kind == "thread":
            with self._guard:
                if self._thread_host is None:
                    self._thread_host = ThreadHost(self.workers)
                    self._thread_host.on_blocked = lambda: self.on_blocked()
                return self._thread_host
        if kind != "kernel":
            raise Refused(f"loop={kind!r} is not known.", advice="Use 'thread' (the default) or 'kernel'.")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as exc:
            raise Refused('loop="kernel" needs a running loop.', advice="Call it in a notebook cell or in an async function.") from exc
        return self._hosts.setdefault(id(loop), KernelHost(loop))

    def host(self) -> ThreadHost:
        """The loop thread."""
        found = self._host("thread")
        assert isinstance(found, ThreadHost)
        return found

    def _need_host(self, record: RunRecord) -> Host:
        if record.host is None:
            record.host = self._host("thread")
        return record.host

    def close(self) -> None:
        """Stop moving. What was committed stands; what was in flight is made again by the next kernel."""
        self.closed = True
        for record in self.live():
            if record.attempt is not None:
                record.attempt.revoke()
        if self._thread_host is not None:
            self._thread_host.close()


class _Named:
    """Wraps a name that must be one: it is never taken for a payload."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Cancelled(LoomError):
    code = "MOVE_FAILED"


def _resolve(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _leave_behind(done: asyncio.Future[None]) -> None:
    """A canceled body gets its grace for finally blocks; then the run goes on without it."""
    done.get_loop().call_later(_GRACE, _resolve, done)


async def _awaiting(value: Awaitable[Any]) -> Any:
    return await value


def default_timeout() -> float:
    """Milliseconds a transition may take unless it says otherwise: LOOMNB_TRANSITION_TIMEOUT, else 300,000."""
    try:
        value = float(os.environ.get("LOOMNB_TRANSITION_TIMEOUT", ""))
    except ValueError:
        return 300_000
    return value if value > 0 else 300_000

