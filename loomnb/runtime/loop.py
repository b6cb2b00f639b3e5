"""The run loop: start, answer, retry, cancel, restore. One engine for every vocabulary; the moves themselves are in moves.py.

Who may touch a record. The pass, while `passing`; otherwise whoever holds `record.lock` (an answer, a retry, a cancel, from
any thread). Both sides set the status under the lock, so each refuses what the other has just made impossible.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from loomnb.asks import NOTHING, Ask, accept_confirmation, accept_questions, payload_of
from loomnb.errors import AnswerInvalid, AnswerRefused, Conflict, LoomError, OwnershipLost, Refused, StoreDamaged, WouldDeadlock
from loomnb.ids import Source
from loomnb.jsonvalue import changes, freeze
from loomnb.runtime.children import Children
from loomnb.runtime.definition import Definition, Move
from loomnb.runtime.events import RunEvent, Tail
from loomnb.runtime.host import Hosts, Workers
from loomnb.runtime.lifecycle import FINISHED, Event, Status, after
from loomnb.runtime.moves import Moves
from loomnb.runtime.performing import stop_body
from loomnb.runtime.record import Payload, RunRecord, row
from loomnb.runtime.records import Owner, Records
from loomnb.runtime.registry import REGISTRY
from loomnb.runtime.stateless import run_stateless

if TYPE_CHECKING:  # for its types only: DuckDB is loaded by who opens a store
    from loomnb.store import Database, Row

__all__ = ["MISSING", "Runtime", "default_timeout"]

MISSING: Any = type("MISSING", (), {"__repr__": lambda _: "MISSING"})()

ScriptedAnswer = Callable[[RunRecord, Ask], "tuple[Any, str]"]


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
        self.closed = False
        self.unrecoverable: dict[str, str] = {}
        """Runs that could not be read at open, with the reason. They were left as they are."""
        self.resumed: dict[str, None] = {}
        """Runs that a kernel died with and that went on by themselves in this one, in order."""
        self._hosts = Hosts()
        self._tail = Tail(database, self._hosts)
        self._records = Records(database, source, self._hosts)
        self._moves = Moves(
            database, source, self._records, self._hosts, at_rest=self._at_rest, stop_children=self.cancel_children
        )
        self._children = Children(database, self._records, self._moves.go)
        self._records.on_load = lambda record: self._children.restore([record])
        self._restore()
        REGISTRY.listen(self)

    def with_canceled(self, rows: Callable[[RunRecord], Sequence[Row]]) -> None:
        """Let these rows be stored with a run that is canceled, whether or not its definition is known here."""
        self._moves.canceled_rows = rows

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
        owner: Owner | None = None,
        config: Any = None,
        services_of: str = "",
        run_id: str = "",
        stamped: bool = False,
        admit: Callable[[Sequence[RunRecord]], None] | None = None,
        parent: RunRecord | None = None,
    ) -> RunRecord:
        """Start a run, or find the one of this key. Returns once its first row is durable; the moves follow by themselves.

        `run_id` is its id, else a fresh one; `stamped`, whether its rows carry the times it shows. `admit` judges, given the runs
        that are not finished, whether it may start beside them, and raises if not: no other run starts between the two. `parent`
        asks for it, and is told nothing of its end; it is stopped with that run if its id begins with that one's and a dot.

        Raises:
            ArgsInvalid: the arguments or the configuration do not fit; no run was created.
            Conflict: the key's stored run has other arguments or another configuration.
        """
        if step_limit is not None and (isinstance(step_limit, bool) or not isinstance(step_limit, int) or step_limit < 1):
            raise Refused(f"step_limit={step_limit!r} is no number of moves.", advice="Give a whole number of at least 1.")
        _check_words(key, title, labels)
        stored, loaded = definition.parse_args(raw_args)
        stored_config, loaded_config = definition.parse_config(config)
        host = self._hosts.get(loop)
        owner = owner or self._records.owner()
        # Two cells that start the same key at once must find one run; runs without a key start side by side.
        with self._records.guard if key is not None or admit is not None else contextlib.nullcontext():
            if key is not None and not fresh:
                found = self._records.of_key(definition, key, stored, stored_config, services_of)
                if found is not None:
                    return found
            if admit is not None:
                admit(self.live())
            record = RunRecord(
                id=run_id or self.source.new_id("run"),
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
                user_id=owner.user_id,
                app_name=owner.app_name,
                workspace_id=owner.workspace_id,
                config=stored_config,
                loaded_config=loaded_config,
                services_of=services_of,
                stamped=stamped,
                parent_id=parent.id if parent is not None else None,
                loaded_args=loaded,
                context=contextvars.copy_context(),
                host=host,
            )
            body: dict[str, Any] = {}
            if seed is not None:
                record.place, record.state, record.result = seed
                record.path = [(record.place, "")]
                body |= {"changes": changes({}, record.state), "forked_from": forked_from}
                body |= {"result": record.result} if record.result is not None else {}
            rows: list[Row] = []
            asks: tuple[Ask, ...] = ()
            if definition.rests_at_start:
                record.status = Status.WAITING
                asks, rows = self._moves.open_asks(record, definition)
                body["waiting_for"] = "person"
            self.database.commit([row(record, "run.started", {**record.beginning(), **body}), *rows])
            record.started_at = record.touched or self.source.now()
            self._records.adopt(record)
            if key is not None:
                self._records.keys[definition.name, key] = record.id
            if parent is not None:
                parent.children.append(record.id)
        record.scripting = bool(asks)
        record.publish(record.snapshot(asks, "person" if asks else None))
        if asks:
            host.post(self.try_script, record)
        else:
            self._moves.go(record)
        return record

    def owner(self, user_id: str, app_name: str, workspace_id: str | None = None) -> Owner:
        """Whose a run is to be: the workspace that is named, else that of the app and user.

        Raises:
            NotFound: the user has no such workspace.
        """
        return self._records.owner(user_id, app_name, workspace_id)

    def run_stateless(self, definition: Definition, raw_args: Any, owner: Owner) -> RunRecord:
        """Make a run that is not stored, and wait until it rests; its record has the documents.

        Raises:
            ArgsInvalid: the arguments do not fit.
            Refused: it waits for somebody.
        """
        stored, loaded = definition.parse_args(raw_args)
        stored_config, loaded_config = definition.parse_config(None)
        record = RunRecord(
            id=self.source.new_id("run"),
            workflow=definition.name,
            source=self.source,
            args=stored,
            title=definition.title,
            step_limit=definition.step_limit,
            config=stored_config,
            loaded_config=loaded_config,
            user_id=owner.user_id,
            app_name=owner.app_name,
            workspace_id=owner.workspace_id,
            loaded_args=loaded,
            context=contextvars.copy_context(),
        )
        self.refuse_on_loop()
        run_stateless(record, self.source, self._records, self._hosts)
        return record

    def refuse_on_loop(self) -> None:
        """Refuse to wait on the thread that runs move on.

        Raises:
            WouldDeadlock: this is that thread.
        """
        if self._hosts.get("thread").is_current():
            raise WouldDeadlock(
                "This would block the very loop that runs move on.",
                advice="Call it from a plain `def` transition, or start a sub-workflow: Child().run(…).",
            )

    def _restore(self) -> None:
        """At open: what was moving when its kernel died is interrupted; then whatever is known goes on."""
        rows = self.database.read(
            "select run_id, status from runs where coalesce(status, '') not in ('completed', 'canceled') "
            "and (coalesce(status, '') <> 'failed' or run_id in (select run_id from asks where status = 'open')) order by number"
        )
        lost: list[tuple[RunRecord, Row]] = []
        for run_id, _ in rows:
            try:
                record = self._records.load(run_id)
            except Exception as exc:  # noqa: BLE001  # one bad run must not block the others: it stays in the store as it is
                self.unrecoverable[run_id] = exc.message if isinstance(exc, LoomError) else f"{type(exc).__name__}: {exc}"
                continue
            self._records.adopt(record)
            is_open = record.status is Status.WAITING and record.call is not None
            is_left = is_open and record.call is not None and record.call.is_lost
            status = after(record.status, Event.ABANDONED if is_left else Event.LOST)
            if status is not record.status:
                record.status = status
                lost.append((record, row(record, "run.interrupted", record.standing())))
        if lost:
            self.database.commit([r for _, r in lost])
            for record, _ in lost:
                record.publish(record.snapshot())
        self._children.restore(self.live())
        for record in self.live():
            self._resume(record)

    def _at_rest(self, record: RunRecord) -> None:
        """A run came to rest or ended, and everybody may know it. On its loop."""
        if record.cancel_again:
            record.cancel_again = False
            self.cancel(record)
        if record.view.status is Status.CANCELED:
            self.cancel_children(record)  # those that its last move started while it was being stopped
        if record.view.status in FINISHED:
            self._children.ended(record)
        if self._children.deliver(record):
            record.scripting = False
        else:
            self._arm_expiry(record)
            self.try_script(record)

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
                self._tell_change(record)
                return
            known = self._records.acquaint(record)
            if record.status is Status.INTERRUPTED and record.call is not None and record.call.is_lost:
                record.tell("view")  # its code had begun: only a person can say whether it may be made again
                return
            if record.status is not Status.INTERRUPTED:
                record.tell("view")
                if known is not None and record.status is not Status.RETRYING:
                    record.scripting = bool(record.view.asks)
                    self._hosts.of(record).post(self._at_rest, record)
                return
            if known is None:
                record.tell("view")
                return
            is_due_later = record.due is not None and record.due.at is not None
            self._turn(record, Event.REARMED if is_due_later else Event.RESUMED, "run.resumed")
            self.resumed[record.id] = None
        if is_due_later:
            self._moves.arm(record)
        else:
            self._moves.go(record)

    @staticmethod
    def _tell_change(record: RunRecord) -> None:
        """A step waits here for an answer, and its blueprint was defined anew: it goes on with the code that asked, unless
        somebody says otherwise."""
        definition = REGISTRY.get(record.workflow)
        if record.suspended and definition is not None and definition.fingerprint != record.fingerprint:
            record.changed = True
            record.notice = (
                f"The blueprint {record.workflow!r} was changed while this question is open. An answer goes on with the code "
                "that asked; run.retry(fresh=True) begins the step anew with what is defined now."
            )
            record.tell("view")

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
        ask = self._find_ask(record, name_or_id, is_named=payload is not MISSING and name_or_id is not MISSING)
        if ask is None:  # one argument that is neither a name nor an id: it is the payload of the only ask
            ask, payload = record.view.asks[0], name_or_id
        if record.call is not None:
            self._answer_step(record, ask, None if payload is MISSING else payload, source)
            return
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
            if ask not in record.view.asks or record.passing:  # somebody else, or the payload's own inspection, was faster
                raise self.refusal(record, ask.id)
            before = record.due, record.has_error, record.failure
            record.inbox = Payload(move.name, stored, source)
            record.due, record.has_error, record.failure = None, False, None
            try:
                body = {"ask": ask.id, "name": move.name, "source": source, "payload": stored}
                self._turn(record, Event.ANSWERED, "run.answered", body)
            except BaseException:
                record.inbox = None
                record.due, record.has_error, record.failure = before
                raise
        self._moves.go(record)

    def _answer_step(self, record: RunRecord, ask: Ask, payload: Any, source: str) -> None:
        """Answer what a step asks in its middle: its code goes on, here or (after a restart) from its `recover`."""
        if not record.suspended and self._records.acquaint(record) is None:
            raise AnswerRefused(f"The run {record.id} cannot take an answer yet.", advice=record.advice)
        stored = freeze(self._accepted(record, ask, payload, source))
        with record.lock:
            if ask not in record.view.asks or record.is_moving or record.cancel_requested:
                raise self.refusal(record, ask.id)
            is_suspended, record.suspended = record.suspended, False
            record.changed, record.notice = False, ""
            record.inbox = Payload(ask.name, stored, source)
            try:
                body = {"ask": ask.id, "name": ask.name, "source": source, "payload": stored}
                self._turn(record, Event.ANSWERED, "run.answered", body)
            except BaseException:
                record.inbox, record.suspended = None, is_suspended
                raise
            if is_suspended:
                record.inbox = None
            elif record.call is not None:
                record.call.answer(stored)
        if is_suspended:
            self._hosts.of(record).post(self._moves.resume, record, stored)
        else:
            self._moves.go(record)

    @staticmethod
    def _accepted(record: RunRecord, ask: Ask, payload: Any, source: str) -> Any:
        """The answer to store. Questions and confirmations have one rule for all; the others have their definition's."""
        if ask.kind == "confirm":
            return accept_confirmation(payload)
        if ask.kind == "questions":
            return accept_questions(ask.questions, payload)
        accept = getattr(REGISTRY.get(record.workflow), "accept_ask", None)
        if accept is None:
            raise AnswerRefused(f"Nothing here knows how to judge an answer to {ask.label!r}.", advice=record.advice)
        return accept(ask, payload, source)

    def _arm_expiry(self, record: RunRecord) -> None:
        """Answer the asks of a run that have a time limit, when it is over. On its loop."""
        for ask in record.view.asks:
            if ask.expires_at is not None:
                delay = max(0.0, (ask.expires_at - self.source.now()).total_seconds())
                self._hosts.of(record).loop.call_later(delay, self._expire, record, ask)

    def _expire(self, record: RunRecord, ask: Ask) -> None:
        if ask not in record.view.asks or self.closed:
            return
        with contextlib.suppress(LoomError):  # somebody was faster; or its definition is gone, and its answer would be refused
            self.answer(record, ask.id, {"expired": True}, "expiry")

    def _find_ask(self, record: RunRecord, name_or_id: Any, *, is_named: bool) -> Ask | None:
        asks = record.view.asks
        if isinstance(name_or_id, str):
            for ask in asks:
                if name_or_id in (ask.id, ask.name):
                    return ask
        if is_named:  # a second click on a question that is gone must never answer the one that came after it
            raise self.refusal(record, name_or_id if isinstance(name_or_id, str) else repr(name_or_id))
        if not asks:
            raise self.refusal(record, "")
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
        definition = self._records.acquaint(record)
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
            verdict = record.new_context().run(move.guard, record.state)
            if not inspect.isawaitable(verdict):
                return bool(verdict)
            future = self._hosts.workers.submit(asyncio.run, _awaiting(verdict))
            return bool(future.result(move.timeout / 1000 if move.timeout else None))
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
                    record.unscripted[ask.id] = source
                    payload, source = self._unanswered(record, ask), "nobody"
                if payload is None:
                    continue
                self.answer(record, ask.id, payload, source)
                record.script_error = None
            except (AnswerInvalid, Refused) as exc:
                if ask in record.view.asks:  # else somebody was faster, and all is well
                    record.script_error = exc
                continue
            return

    @staticmethod
    def _unanswered(record: RunRecord, ask: Ask) -> Any:
        """What stands for an answer that nobody here can give; None: the ask stays open until somebody can."""
        instead = getattr(REGISTRY.get(record.workflow), "unanswered", None)
        return instead(record, ask) if instead is not None else None

    def retry(self, record: RunRecord, *, fresh: bool = False) -> None:
        """Try again what failed, was interrupted, or waits for its automatic retry.

        Args:
            record: the run.
            fresh: of a step: forget what is on record of it, and begin it with the State it had at its start.

        Raises:
            Refused: the run has not failed, or its definition is missing.
        """
        with record.lock:
            self._records.acquaint(record)
            if fresh and record.suspended:
                if self._records.acquaint(record, agreed=True) is None:
                    raise Refused(f"The run {record.id} cannot go on yet.", advice=record.advice)
                record.suspended, record.restart_requested = False, True  # from here on no answer reaches the old code
                self._hosts.of(record).post(stop_body, record)
                return
            out_of_error_place = record.status is Status.WAITING and record.has_error and record.due is not None
            if record.status is Status.WAITING and not out_of_error_place and not (record.changed and not record.suspended):
                raise Conflict(f"The run {record.id} has not failed: it waits.", advice="Answer it, or cancel it.")
            if record.status is Status.WAITING and record.changed and not fresh:
                raise Refused(f"The run {record.id} waits, and its blueprint was changed.", advice=record.advice)
            after(record.status, Event.RETRIED)
            due = record.due
            before = record.place, record.inbox, record.has_error, record.failure
            if due is not None and record.status is not Status.RETRYING:
                record.place = due.from_  # out of an error place too; an early automatic retry goes where it would have gone
            definition = self._records.acquaint(record, agreed=True)
            if definition is None:
                record.place = before[0]
                raise Refused(f"The run {record.id} cannot go on yet.", advice=record.advice)
            record.inbox = due.payload if due is not None and record.place == due.from_ else record.inbox
            record.has_error, record.failure = False, None
            body: dict[str, Any] = {"fresh": True} if fresh else {}
            was, versions = record.state, (record.fingerprint, record.changed)
            if fresh and record.call is not None:
                record.state = record.call.first_state
                body["changes"] = changes(was, record.state)
            if record.fingerprint != definition.fingerprint:
                body["fingerprint"] = record.fingerprint = definition.fingerprint
            record.changed = False
            try:
                self._turn(record, Event.RETRIED, "run.retried", body)
            except BaseException:
                record.place, record.inbox, record.has_error, record.failure = before
                record.state, (record.fingerprint, record.changed) = was, versions
                raise
            record.retry_call(fresh=fresh)
            self._records.adopt(record)
        self._moves.go(record)

    def cancel(self, record: RunRecord) -> None:
        """Stop a run with all its sub-workflows; finished runs are left as they are. A move in progress is stopped before it
        commits; what is at rest is canceled in one batch, so that no child calls back into a run that is being canceled."""
        if record.status not in FINISHED:
            self._stop([record])

    def cancel_children(self, record: RunRecord) -> None:
        """Stop the sub-workflows of a run that are not finished, with all theirs; the run itself goes on."""
        self._stop([r for r in self.below(record) if r.parent_id == record.id and r.status not in FINISHED])

    def below(self, record: RunRecord) -> list[RunRecord]:
        """The live runs that it started, directly or not: a child's id begins with its parent's."""
        return [r for r in self.live() if r.id.startswith(f"{record.id}.")]

    def is_moving(self, record: RunRecord) -> bool:
        """Whether a run is about to go on without a person."""
        moving = (Status.PENDING, Status.RUNNING, Status.RETRYING)
        return record.is_moving or record.scripting or record.view.status in moving or self._children.is_expecting(record)

    def _stop(self, roots: Sequence[RunRecord]) -> None:
        tree = {r.id: r for root in roots for r in (root, *self.below(root))}
        resting: list[RunRecord] = []
        with contextlib.ExitStack() as locks:
            # Parents before children and else by id: two that stop overlapping trees must not wait for one another.
            for r in sorted(tree.values(), key=lambda r: (r.id.count("."), r.id)):
                locks.enter_context(r.lock)
                if r.passing:
                    # It goes on, to its end: whoever waits for it, or for the stop, waits for that.
                    r.cancel_requested, r.suspended = True, False
                    self._hosts.of(r).post(stop_body, r)
                elif r.status not in FINISHED:
                    resting.append(r)
            before = [r.status for r in resting]
            try:
                for r in resting:
                    r.status = after(r.status, Event.CANCELED)
                if resting:
                    rows = [row(r, "run.canceled", r.standing()) for r in resting]
                    self.database.commit([*rows, *(more for r in resting for more in self._moves.canceled_rows(r))])
            except BaseException:
                for r, status in zip(resting, before, strict=True):
                    r.status = status
                raise
            for r in resting:
                r.endings += 1
                r.publish(r.snapshot())
        for r in resting:
            self._records.settle(r)
        for root in roots:
            if root in resting:
                self._children.ended(root)

    def children(self, record: RunRecord) -> list[RunRecord]:
        """The sub-workflows a run has started, in order."""
        return [self._records.record(run_id) for run_id in tuple(record.children)]

    def close(self) -> None:
        """Stop moving. What was committed stands; what was in flight is made again by the next kernel."""
        self.closed = self._moves.closed = True
        for record in self.live():
            attempt = record.attempt
            if attempt is not None:
                attempt.revoke()
            if attempt is not None and attempt.live is not None:
                # Before its code is canceled: what its `finally` does would be on record, and no retry would do the same.
                self._hosts.of(record).post(attempt.live.close, OwnershipLost("The store was closed: the call is over."))
        self._tail.close()
        self._hosts.close()
        for record in self.live():
            if record.stamped and record.view.status not in FINISHED:
                # The contract's suspend: whoever waits for a flow hears that it was interrupted. What is stored stays as it was.
                record.passing = record.suspended = record.scripting = False
                record.notice = "The store was closed. When it is open again, this run goes on, or says what it needs."
                view = replace(record.view, status=Status.INTERRUPTED, asks=(), waiting_for=None)
                record.publish(view)

    def events(self, after: int | str | None, record: RunRecord | None = None) -> AsyncGenerator[RunEvent]:
        """What happened and happens, to one run until it has ended, or to all: see `Tail.events`."""
        if record is None:
            return self._tail.events(after)
        return self._tail.events(after, run_id=record.id, is_over=lambda: record.view.status in FINISHED and not record.passing)

    @property
    def workers(self) -> Workers:
        """Threads for what must not block a loop."""
        return self._hosts.workers

    def on_blocked(self, call: Callable[[], None]) -> None:
        """Call something when a body begins to block every run, and when it no longer does."""
        self._hosts.on_blocked = call

    def record(self, run_id: str) -> RunRecord:
        """A run, from memory or from the store.

        Raises:
            NotFound: this store has no such run.
        """
        return self._records.record(run_id)

    def readable(self, run_id: str) -> RunRecord | None:
        """The same; None for one that cannot be read, which is told as unrecoverable from then on."""
        try:
            return self._records.record(run_id)
        except StoreDamaged as exc:
            self.unrecoverable[run_id] = exc.message
            return None

    def live(self) -> list[RunRecord]:
        """Runs that are not finished, oldest first, and failed ones that a person can still answer."""
        return self._records.live()


async def _awaiting(value: Awaitable[Any]) -> Any:
    return await value


def _check_words(key: object, title: object, labels: object) -> None:
    """What people find a run by is text: anything else would only be noticed when it is shown, or looked for."""
    for what, value in (("key", key), ("title", title)):
        if value is not None and not isinstance(value, str):
            raise Refused(f"The {what} of a run is a text, not a {type(value).__name__}.", advice=f"Use {what}=str(…).")
        freeze(None if value is None else str(value), None, what)
    if isinstance(labels, str) or not isinstance(labels, Collection) or not all(isinstance(label, str) for label in labels):
        raise Refused(f"labels={labels!r:.100} is no list of words.", advice='Write labels=["draft"].')
    freeze([str(label) for label in labels], None, "labels")


def default_timeout() -> float:
    """Milliseconds a transition may take unless it says otherwise: LOOMNB_TRANSITION_TIMEOUT, else 300,000."""
    try:
        value = float(os.environ.get("LOOMNB_TRANSITION_TIMEOUT", ""))
    except ValueError:
        return 300_000
    return value if value > 0 else 300_000
