"""The pass: move after move until a run rests, each committed whole with what it leads to.

How a run moves. A *pass* is a task on the run's loop; there is at most one per run, so moves of a run never overlap. It
performs a move, asks the definition what may move next, and puts all of it (the state's changes, documents, the next
questions, the new status) into ONE batch of journal rows: so a move is there whole, with what it led to, or not at all. Only
when the batch is acknowledged does anybody see it. A pass ends when the run rests; a run at rest holds no task and no thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from loomnb.asks import Ask
from loomnb.documents import DocumentEntity
from loomnb.errors import LoomError, StoreClosed
from loomnb.ids import Source
from loomnb.jsonvalue import changes
from loomnb.runtime.attempt import Attempt
from loomnb.runtime.children import next_callback, take_callback
from loomnb.runtime.definition import END, Definition, Move
from loomnb.runtime.failure import Failure, bug, is_stopping, tame
from loomnb.runtime.host import Host, Hosts, Workers
from loomnb.runtime.lifecycle import FINISHED, Event, Status, after
from loomnb.runtime.live import LiveCall
from loomnb.runtime.performing import judge, perform
from loomnb.runtime.record import Due, Payload, RunRecord, RunView, WaitingFor, due_json, row
from loomnb.runtime.records import Records
from loomnb.runtime.registry import REGISTRY

if TYPE_CHECKING:  # for its types only: DuckDB is loaded by who opens a store
    from loomnb.store import Chain, Database, Row

__all__ = ["Moves"]

_FLUSH = 1.0  # seconds between two commits of what a long move prints
_IN_FLIGHT = 256  # commits a pipelined run may be ahead of the store


@dataclass(frozen=True, slots=True)
class _Next:
    """What a run does next: a move with its payload, or a move whose guard raised, or (no move) why it rests."""

    move: Move | None = None
    payload: Payload | None = None
    raised: Exception | None = None
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass of a run: the run, what defines it, and the commits of a pipelined run that are still in flight."""

    record: RunRecord
    definition: Definition
    acks: list[asyncio.Future[None]]
    chain: Chain
    ahead: bool
    """Whether its moves need not wait for one another's commits."""


@dataclass(frozen=True, slots=True)
class _News:
    """What a batch shows once it is durable, beside the run's standing."""

    step: tuple[str, str] | None = None
    saved: Sequence[DocumentEntity] = ()
    children: Sequence[RunRecord] = ()


_NO_NEWS = _News()


class ChildFailed(LoomError):
    """A sub-workflow failed, and the transition that is told so says where to go then."""

    code = "CHILD_FAILED"


def _child_failure(move: Move, payload: Payload | None) -> Exception | None:
    """A failed child is the failure of a callback transition that says what to do then; else its body looks for itself."""
    envelope = payload.envelope if payload is not None else None
    if envelope is None or envelope.status == "completed" or (move.error_place is None and move.retry_attempts <= 0):
        return None
    return ChildFailed(envelope.error_message or f"the sub-workflow {envelope.status}")


def _taken_row(record: RunRecord) -> Row:
    """The row that says which callback was taken: the one in the inbox."""
    return row(record, "run.answered", {**(record.inbox.to_json() if record.inbox is not None else {}), **record.standing()})


class Moves:
    """Moves the runs of one store."""

    def __init__(
        self,
        database: Database,
        source: Source,
        records: Records,
        hosts: Hosts,
        *,
        at_rest: Callable[[RunRecord], None],
        stop_children: Callable[[RunRecord], None],
    ) -> None:
        self._database = database
        self._source = source
        self._records = records
        self._hosts = hosts
        self._at_rest = at_rest
        self._stop_children = stop_children
        self.closed = False
        self.canceled_rows: Callable[[RunRecord], Sequence[Row]] = lambda _: ()
        """What is stored with a run that is canceled, beside that it is."""

    # what a step in progress needs of it: see live.Engine

    @property
    def database(self) -> Database:
        """The store."""
        return self._database

    @property
    def workers(self) -> Workers:
        """Threads for what must not block a loop."""
        return self._hosts.workers

    def host_of(self, record: RunRecord) -> Host:
        """Where a run moves."""
        return self._hosts.of(record)

    @property
    def readers(self) -> Workers:
        """Threads for reads of ours."""
        return self._hosts.readers

    def suspend(
        self, record: RunRecord, ask: Ask, body: dict[str, Any], failed: Callable[[LoomError], None], chain: Chain
    ) -> None:
        """Store a question and let the run wait for its answer, in the middle of a step. On its loop.

        Its pass stands still, and everybody sees a run at rest; `resume` lets it go on.
        """
        body = {**body, **self._set(record, Event.RESTED), "waiting_for": "person"}
        view = record.snapshot((ask,), "person")
        opened = {**ask.to_json(), "place": record.place, "at": ask.opened_at.isoformat() if ask.opened_at else ""}
        rows = [row(record, "run.rested", body), row(record, "ask.opened", opened)]
        if record.attempt is not None:
            rows += self._log_rows(record, record.attempt)  # its kernel may be gone before somebody answers

        def acknowledged(error: LoomError | None) -> None:
            if error is not None:
                failed(error)
                return
            with record.lock:
                attempt = record.attempt
                if record.cancel_requested or attempt is None or attempt.live is None or not attempt.live.alive:
                    return  # it is over meanwhile: nobody is to see a question that no answer can reach
                record.suspended = record.scripting = True
            record.publish(view)
            self._hosts.of(record).post(self._at_rest, record)

        host = self._hosts.of(record)
        self._database.put(rows, lambda error, _: host.post(acknowledged, error), chain=chain)

    @staticmethod
    def resume(record: RunRecord, payload: Any) -> None:
        """Let a suspended step go on with its answer. On its loop."""
        if record.attempt is not None and record.attempt.live is not None:
            record.attempt_started = record.source.monotonic()  # how long it works is shown, not how long it waited
            record.attempt.live.answered(payload)

    def go(self, record: RunRecord) -> None:
        """Start a pass, unless one is under way."""
        with record.lock:
            if record.passing or self.closed or record.status not in (Status.PENDING, Status.RUNNING):
                return  # under way already; or canceled since whoever calls this let go of the lock
            record.passing = True
        self._hosts.of(record).spawn(lambda: self._pass(record))

    async def _pass(self, record: RunRecord) -> None:
        try:
            await self._all(record)
        except StoreClosed:
            record.passing = False  # the kernel is going down: what was not committed is made again by the next one
        except Exception as exc:  # noqa: BLE001  # a failed commit, or a bug of ours: never lose a run without a word
            self._fall_back(record, exc)

    async def _all(self, record: RunRecord) -> None:
        definition = self._records.acquaint(record)
        if definition is None:
            self._stop_passing(record)
            return
        p = _Pass(record, definition, [], self._database.chain(), record.pipelined or definition.runs_ahead)
        try:
            await self._make_moves(p)
        except BaseException:
            for ack in p.acks:  # the first failure is told; the others would complain that nobody asked
                ack.add_done_callback(lambda a: a.cancelled() or a.exception())
            raise

    async def _make_moves(self, p: _Pass) -> None:
        record = p.record
        steps = 0
        following: _Next | None = await self._first(record, p.definition)
        if record.unwritten:
            record.unwritten = False
            await self._commit(p, [_taken_row(record)])
        while following is not None:
            if record.cancel_requested:
                rows = [row(record, "run.canceled", self._set(record, Event.CANCELED)), *self.canceled_rows(record)]
                await self._commit(p, rows, last=True)
                return
            if following.move is None:
                following = await self._come_to_rest(p, following)
                continue
            if following.payload is not None:
                steps = 0  # somebody, or a child's end, let it go on: that is as good as a rest
            if steps >= record.step_limit:
                await self._stop_at_limit(p)
                return
            steps += 1
            following = await self._one(p, following)

    async def _first(self, record: RunRecord, definition: Definition) -> _Next:
        payload = record.inbox
        if payload is not None:
            for move in definition.moves_from(record.place) or ():
                if (move.wait or move.is_step) and move.name == payload.name:
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
                verdict = record.new_context().run(move.guard, state)
                if inspect.isawaitable(verdict):
                    verdict = await judge(record, move, verdict, host=self._hosts.of(record))
                verdict = bool(verdict)
            except BaseException as exc:  # a guard's error, whatever it is, is a failure of its transition
                if is_stopping(exc):  # the store is being closed
                    raise
                return _Next(move, raised=tame(exc))
            if verdict:
                return _Next(move)
            refused.append(move.guard_name)
        return _Next(refused=tuple(refused))

    async def _one(self, p: _Pass, what: _Next) -> _Next | None:
        """Perform one move and commit what came of it; what follows, or None when the pass is over."""
        record, definition = p.record, p.definition
        move, payload = what.move, what.payload
        assert move is not None
        attempt = Attempt(record, move, record.moves + 1, self._stop_children)
        if move.is_step:
            attempt.live = LiveCall(record, attempt.number, move.name, self)
        started = self._source.monotonic()
        record.attempt, record.attempt_started = attempt, started
        raised: BaseException | None = what.raised if what.raised is not None else _child_failure(move, payload)
        if raised is None:
            host = self._hosts.of(record)
            flush = host.loop.call_later(_FLUSH, self._flush_log, record, attempt)
            raised = await perform(record, definition, attempt, payload, host=host, workers=self._hosts.workers)
            flush.cancel()
            if raised is not None and attempt.live is not None and self.closed:
                raise StoreClosed("The store was closed while a step was made.")  # that is no failure of the step
        if attempt.live is not None and attempt.live.broken is not None:
            self._stand_as_stored(record)  # what the step wrote is in memory and not in the store: a retry must not build on it
        attempt.revoke()  # a task the body left behind must not write into what is committed now
        ms = round((self._source.monotonic() - started) * 1000, 3)
        record.attempt = None
        logs = self._log_rows(record, attempt)
        if record.cancel_requested:
            record.shelf.roll_back()
            rows = [*logs, row(record, "run.canceled", self._set(record, Event.CANCELED)), *self.canceled_rows(record)]
            await self._commit(p, rows, last=True)
            return None
        if record.restart_requested:
            await self._begin_anew(p, logs)
            return None
        state: Any = attempt.state
        try:
            if raised is None:
                state = definition.check_state(state)
        except Exception as exc:  # noqa: BLE001  # the schema's own error, or the user's: a failure of the transition
            raised = exc
        if raised is not None:
            record.shelf.roll_back()
            return await self._failed(p, what, tame(raised), ms=ms, logs=logs)
        body, rows = self._take_over(record, attempt, state, ms)
        return await self._onward(p, body, [*logs, *rows], attempt)

    async def _begin_anew(self, p: _Pass, logs: list[Row]) -> None:
        """A suspended step was stopped so that it begins once more: with the State it had, and what is defined now."""
        record, was = p.record, p.record.state
        record.restart_requested = record.changed = False
        record.notice = ""
        record.state = record.call.first_state if record.call is not None else was
        body: dict[str, Any] = {"fresh": True, "changes": changes(was, record.state)}
        definition = REGISTRY.get(record.workflow)
        if definition is not None and definition.fingerprint != record.fingerprint:
            body["fingerprint"] = record.fingerprint = definition.fingerprint
        record.retry_call(fresh=True)
        rows = [row(record, "run.retried", {**body, **self._set(record, Event.RETRIED)}), *logs]
        await self._commit(p, rows, last=True)
        self.go(record)  # a pass of its own: this one knows the old definition

    @staticmethod
    def _take_over(record: RunRecord, attempt: Attempt, state: Any, ms: float) -> tuple[dict[str, Any], list[Row]]:
        """What a good attempt wrote becomes the run's: the body of its row, and the rows beside it."""
        move = attempt.move
        ops = changes(record.state, state)
        body: dict[str, Any] = {"move": attempt.number, "name": move.name, "from": record.place, "ms": ms}
        tries = record.attempts.pop(move.name, 0)
        if tries:
            body["attempt"] = tries
        if attempt.via != move.name:
            body["outcome"] = attempt.via
        if ops:
            body["changes"] = ops
        if attempt.result_dirty:
            body["result"] = record.result = attempt.result
        if attempt.progress is not None:
            record.progress = attempt.progress
            body["progress"] = list(attempt.progress)
        record.state, record.place, record.moves = state, attempt.to, attempt.number
        record.inbox = record.call = None
        if record.status is Status.RUNNING and tries:
            record.has_error, record.failure = False, None  # the automatic retry succeeded
        if not record.has_error:  # else an error place's clean-up: retry() still knows the way back
            record.due = None
        record.shelf.keep()
        rows = [row(record, "document.saved", e.to_json()) for e in attempt.saved]
        for child in attempt.children:
            rows.append(row(child, "run.started", child.beginning()))
            if child.callback is not None:
                record.awaited[child.id] = child.callback["transition"]
        return body, rows

    async def _onward(self, p: _Pass, body: dict[str, Any], rows: list[Row], attempt: Attempt) -> _Next | None:
        """Commit a move together with what it leads to: the next move, a rest with its questions, or the end."""
        record, definition = p.record, p.definition
        news = _News((attempt.to, attempt.via), attempt.saved, attempt.children)
        if record.place == END:
            rows.insert(0, row(record, "run.moved", {**body, **self._set(record, Event.ENDED)}))
            await self._commit(p, rows, news, last=True)
            return None
        following = await self._choose(record, definition, record.state)
        if following.move is not None:
            standing = self._set(record, Event.MOVED, keeps_time=attempt.move.keeps_time)
            rows.insert(0, row(record, "run.moved", {**body, **standing}))
            await self._commit(p, rows, news)
            return following
        callback = next_callback(definition, record)
        if callback is not None:  # no rest between two callbacks: the next one is taken in the batch of this move
            rows.insert(0, row(record, "run.moved", {**body, **self._set(record, Event.MOVED)}))
            following = self._take(record, callback)
            await self._commit(p, [*rows, _taken_row(record)], news)
            return following
        event, asks, ask_rows = self._rest(record, definition, following)
        standing = self._set(record, event)
        if event is Event.RESTED:
            standing["waiting_for"] = "person" if asks else "child"
        if record.failure is not None and event is Event.BROKE:
            standing["error"] = record.failure.to_json()
        rows.insert(0, row(record, "run.moved", {**body, **standing}))
        await self._commit(p, [*rows, *ask_rows], news, asks=asks, last=True)
        return None

    @staticmethod
    def _take(record: RunRecord, callback: tuple[Move, Payload]) -> _Next:
        with record.lock:
            take_callback(record, callback)
        return _Next(callback[0], record.inbox)

    def _rest(self, record: RunRecord, definition: Definition, following: _Next) -> tuple[Event, tuple[Ask, ...], list[Row]]:
        asks, rows = self.open_asks(record, definition)
        if asks or self._waits_for_child(record, definition):
            return Event.RESTED, asks, rows
        if not record.has_error:  # an error that led here says more than "stuck" would
            guards = ", ".join(following.refused)
            record.has_error = True
            record.failure = Failure(
                code="RUN_STUCK",
                message=f"Nothing can move from the place {record.place!r}"
                + (f": the guards {guards} refused." if guards else "."),
                advice="Correct the workflow and run its cell again, then run.retry().",
            )
        return Event.BROKE, (), []

    async def _come_to_rest(self, p: _Pass, following: _Next) -> _Next | None:
        """A pass that finds nothing to do at its very beginning (a retry, a restore), unless a callback waits."""
        record, definition = p.record, p.definition
        callback = next_callback(definition, record)
        if callback is not None:
            following = self._take(record, callback)
            await self._commit(p, [_taken_row(record)])
            return following
        event, asks, ask_rows = self._rest(record, definition, following)
        body = self._set(record, event)
        body |= {"waiting_for": "person" if asks else "child"} if event is Event.RESTED else {}
        if event is Event.BROKE and record.failure is not None:
            body = {**body, "move": record.moves + 1, "name": "", "from": record.place, "error": record.failure.to_json()}
        kind = "run.rested" if event is Event.RESTED else "run.broke"
        await self._commit(p, [row(record, kind, body), *ask_rows], asks=asks, last=True)
        return None

    def open_asks(self, record: RunRecord, definition: Definition) -> tuple[tuple[Ask, ...], list[Row]]:
        """An ask for each wait transition that leaves the place, and the rows that store them.

        Not for those that wait for a child: they are answered by its end, and nobody has to see them.
        """
        asks: list[Ask] = []
        for move in definition.moves_from(record.place) or ():
            if move.wait and move.name not in record.awaited.values():
                c = definition.ask(move, record.loaded_args)
                asks.append(
                    Ask(
                        id=self._source.new_id("ask"),
                        name=move.name,
                        kind=c.kind,
                        label=c.label,
                        description=c.description,
                        form=c.form,
                        questions=c.questions,
                        context=c.context,
                        key=c.key,
                        widget=c.widget,
                        opened_at=self._source.now(),
                    )
                )
        return tuple(asks), [row(record, "ask.opened", {**a.to_json(), "place": record.place}) for a in asks]

    @staticmethod
    def _waits_for_child(record: RunRecord, definition: Definition) -> bool:
        return any(m.wait and m.name in record.awaited.values() for m in definition.moves_from(record.place) or ())

    async def _failed(self, p: _Pass, what: _Next, exc: Exception, *, ms: float, logs: list[Row]) -> _Next | None:
        """The decision tree of a failed move: an automatic retry, the error place, or failed until somebody retries."""
        record, definition, move, payload = p.record, p.definition, what.move, what.payload
        assert move is not None
        failure = definition.failure_of(exc, move)
        record.exception = exc
        tries = record.attempts.get(move.name, 0)
        record.attempts[move.name] = tries + 1
        record.has_error, record.failure, record.inbox = True, failure, None
        body: dict[str, Any] = {"move": record.moves + 1, "name": move.name, "from": record.place, "ms": ms, "attempt": tries}
        error = failure.to_json()
        if move.retry_attempts > 0 and tries < move.retry_attempts and not record.stateless:
            at = self._source.now() + timedelta(seconds=move.back_off(tries + 1))
            record.due = Due(move.name, move.from_, payload, at)
            if move.retry_target is not None:
                record.place = move.retry_target
            body |= self._set(record, Event.BACKED_OFF)
            body |= {"error": error, "attempts": record.attempts, "due": due_json(record.due)}
            news = _News((record.place, move.name) if record.place != move.from_ else None)
            await self._commit(p, [row(record, "run.broke", body), *logs], news, last=True)
            self.arm(record)
            return None
        # A step is taken up again by what is on record of it; the answer it had is there.
        record.due = Due(move.name, move.from_, payload if not move.is_step else None, None)
        if move.error_place is not None:
            record.attempts.pop(move.name)
            record.place = move.error_place
            body |= {"error": error, "attempts": record.attempts, "due": due_json(record.due)}
            return await self._to_error_place(p, body, logs, move.name)
        # What leads on from here may still be answered: a wrong answer can be given anew, not only replayed.
        asks, ask_rows = self.open_asks(record, definition)
        body |= self._set(record, Event.BROKE)
        body |= {"error": error, "attempts": record.attempts, "due": due_json(record.due)}
        await self._commit(p, [row(record, "run.broke", body), *logs, *ask_rows], asks=asks, last=True)
        return None

    async def _to_error_place(self, p: _Pass, body: dict[str, Any], logs: list[Row], name: str) -> _Next | None:
        record, definition = p.record, p.definition
        error, news = body["error"], _News((record.place, name))
        if record.place == END:
            rows = [row(record, "run.broke", {**body, **self._set(record, Event.ENDED), "error": error}), *logs]
            await self._commit(p, rows, news, last=True)
            return None
        following = await self._choose(record, definition, record.state)
        asks: tuple[Ask, ...] = ()
        ask_rows: list[Row] = []
        event = Event.MOVED
        if following.move is None:
            asks, ask_rows = self.open_asks(record, definition)
            event = Event.RESTED if asks or self._waits_for_child(record, definition) else Event.BROKE
        standing = self._set(record, event)
        standing |= {"waiting_for": "person" if asks else "child"} if event is Event.RESTED else {}
        rows = [row(record, "run.broke", {**body, **standing, "error": error}), *logs, *ask_rows]
        await self._commit(p, rows, news, asks=asks, last=following.move is None)
        return following if following.move is not None else None

    async def _stop_at_limit(self, p: _Pass) -> None:
        record = p.record
        record.has_error = True
        record.failure = Failure(
            code="STEP_LIMIT",
            message=f"{record.step_limit} moves were made in one pass without a rest.",
            advice="If that is meant, run.retry() goes on; or raise it: @loom.workflow(step_limit=…).",
        )
        body = {"move": record.moves + 1, "name": "", "from": record.place, "error": record.failure.to_json()}
        rows = [row(record, "run.broke", {**body, **self._set(record, Event.BROKE), "error": body["error"]})]
        await self._commit(p, rows, last=True)

    def arm(self, record: RunRecord) -> None:
        """Wake a run when its automatic retry is due."""
        due = record.due
        if due is None or due.at is None:
            return
        delay = max(0.0, (due.at - self._source.now()).total_seconds())
        host = self._hosts.of(record)
        host.post(lambda: host.loop.call_later(delay, self._wake, record, due))

    def _wake(self, record: RunRecord, due: Due) -> None:
        with record.lock:
            if record.status is not Status.RETRYING or record.due is not due:
                return  # somebody retried by hand, or canceled: this alarm is stale
            record.status = after(record.status, Event.WOKE)
            if due.payload is not None and record.place == due.from_:
                record.inbox = due.payload
        record.publish(record.snapshot())
        self.go(record)

    @staticmethod
    def _set(record: RunRecord, event: Event, *, keeps_time: bool = False) -> dict[str, Any]:
        record.status = after(record.status, event)
        return record.standing(keeps_time=keeps_time)

    async def _commit(
        self, p: _Pass, rows: Sequence[Row], news: _News = _NO_NEWS, *, asks: tuple[Ask, ...] = (), last: bool = False
    ) -> None:
        """Put one atomic batch. It is shown when acknowledged; a pipelined run waits for that only at its rests."""
        record, acks = p.record, p.acks
        host = self._hosts.of(record)
        future: asyncio.Future[None] = host.loop.create_future()
        waiting_for: WaitingFor | None = ("person" if asks else "child") if record.status is Status.WAITING else None
        view = record.snapshot(asks, waiting_for)
        record.endings += view.status in FINISHED

        def acknowledged(error: LoomError | None) -> None:
            if error is None:
                self._show(record, view, news, last=last)
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
                # The first that failed is told; those behind it fail of the same, and asyncio would print each nobody asked.
                future.exception()

        more = p.ahead and not last
        self._database.put(rows, lambda error, _: host.post(acknowledged, error), more=more, chain=p.chain)
        if more:
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

    def _show(self, record: RunRecord, view: RunView, news: _News, *, last: bool) -> None:
        """A batch is durable: now everybody may see it, and its children begin."""
        ended = view.status in FINISHED
        for child in news.children:
            record.children.append(child.id)
            self._records.adopt(child)
        if last:
            record.scripting = bool(view.asks)  # nobody is told "no one can answer" before the script was asked
            self._stop_passing(record, ended=ended)
        record.publish(view, news.step, news.saved)
        for child in news.children:
            self.go(child)
        if last:
            self._records.settle(record)
            if view.asks or ended or record.callbacks or record.cancel_again:
                self._hosts.of(record).post(self._at_rest, record)

    def _stop_passing(self, record: RunRecord, *, ended: bool = True) -> None:
        with record.lock:
            record.passing = record.suspended = False
            record.cancel_again = record.cancel_requested and not ended
            record.cancel_requested = False

    def _fall_back(self, record: RunRecord, exc: Exception) -> None:
        """A commit failed, or we did: the run stands where the store says, failed here, and retry() goes on from there."""
        told = exc if isinstance(exc, LoomError) else bug(f"The run loop failed: {exc!r}").with_traceback(exc.__traceback__)
        definition = REGISTRY.get(record.workflow)
        failure = definition.failure_of(told) if definition is not None else Failure.of(told)
        with record.lock:
            record.shelf.roll_back()
            try:
                self._stand_as_stored(record)
                record.awaited.clear()
                record.callbacks.clear()
                self._records.on_load(record)  # which children there are, and what they have to tell
            except Exception:  # noqa: BLE001  # the store cannot even be read: what is in memory is the best there is
                record.exception = exc
            record.status, record.has_error, record.failure = Status.FAILED, True, failure
            record.exception = exc
            record.passing = record.suspended = record.cancel_requested = False
        record.publish(record.snapshot())

    def _stand_as_stored(self, record: RunRecord) -> None:
        rows = self._database.read("select seq, ts, kind, body from journal where run_id = ? order by seq", [record.id])
        stored = RunRecord(id=record.id, workflow=record.workflow, source=self._source, workspace_id=self._records.store_id)
        stored.replay(rows)
        record.place, record.state, record.result, record.moves = stored.place, stored.state, stored.result, stored.moves
        record.shelf, record.documents, record.stamp = stored.shelf, stored.documents, stored.stamp
        record.due, record.inbox, record.attempts = stored.due, stored.inbox, stored.attempts
        record.taken, record.unwritten = stored.taken, False
        record.call = stored.call

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
                self._database.put(rows, lambda *_: None)
        record.tell("log")
        self._hosts.of(record).loop.call_later(_FLUSH, self._flush_log, record, attempt)
