"""The handle of a run: what a person types `run.` for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Self

from loomnb.asks import Ask, Script
from loomnb.documents import DocumentEntity
from loomnb.errors import NoFrontEnd, Refused, RunFailed, StoreClosed, WouldDeadlock
from loomnb.jsonvalue import thaw
from loomnb.present import Child, Graph, Story, ask_example, story_bundle, story_plain
from loomnb.runtime.attempt import CURRENT
from loomnb.runtime.definition import END
from loomnb.runtime.events import RunEvent
from loomnb.runtime.failure import user_traceback
from loomnb.runtime.graphs import run_graph
from loomnb.runtime.lifecycle import FINISHED, Status
from loomnb.runtime.loop import MISSING, Runtime
from loomnb.runtime.record import Progress, RunRecord, RunView, WaitingFor
from loomnb.runtime.registry import REGISTRY

__all__ = ["Face", "HistoryEntry", "Run"]

_TOLD_CHILDREN = 10
_TOLD_DEPTH = 3
_TICK = 0.2  # seconds; a wait that never wakes up is never interrupted (ipykernel's SIGINT handler does not wake the loop)


class Face(Protocol):
    """What shows runs and lets people answer them, where there is one. The wheel's is `loomnb_widgets`."""

    def show(self, run: Run) -> bool:
        """Show the run's panel in the current cell; False where nothing can be shown."""
        ...

    def is_shown(self, run: Run) -> bool:
        """Whether a panel of it was shown in this kernel."""
        ...

    def nobody_can_answer(self, run: Run) -> str:
        """Why no person can answer here; empty while one can, or may still turn up."""
        ...

    def pump(self) -> bool:
        """Read messages where the waiting thread has to do it itself; whether it had to."""
        ...


class NoFace:
    """No notebook: runs are answered in code."""

    def show(self, run: Run) -> bool:
        """Nothing to show on."""
        return False

    def is_shown(self, run: Run) -> bool:
        """Never."""
        return False

    def nobody_can_answer(self, run: Run) -> str:
        """There is no notebook."""
        return "this is no notebook"

    def pump(self) -> bool:
        """Nothing to read."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One line of a run's journal: its start (number 0), then each move. Numbers count up strictly.

    `number` is what `run.fork(at=…)` takes.
    """

    number: int
    name: str
    from_place: str | None
    place: str
    status: str
    at: datetime


def _set(wake: asyncio.Future[None]) -> None:
    if not wake.done():
        wake.set_result(None)


def _no_front_end(record: RunRecord, reason: str) -> NoFrontEnd:
    ask = record.view.asks[0]
    key = record.unscripted.get(ask.id) or Script.key_of(ask)
    example = ask_example(ask)
    entries = {key: "{}" if ask.kind == "button" else example}
    if ask.kind == "questions":  # all of them: who supplies one is otherwise told of the next, one by one
        entries = {q.id: "'…'" for q in ask.questions}
    scripted = ", ".join(f"{name!r}: {value}" for name, value in entries.items())
    in_file = ", ".join(f"{name}: …" for name in entries)
    error = NoFrontEnd(
        f"{record.title or record.workflow} asks {ask.label!r} ({key}), and nobody can answer here: {reason}. "
        f"The run {record.id} stays waiting.",
        advice=(
            f"Answer it in code:   loom.run({record.id!r}).answer({ask.name!r}, {example})\n"
            f"or give answers first: loom.answers({{{record.workflow!r}: {{{scripted}}}}})\n"
            f"or in a file named by LOOMNB_ANSWERS (or answers.yaml beside the notebook):   {record.workflow}: {{{in_file}}}"
        ),
    )
    error.ask = ask  # type: ignore[attr-defined]
    error.run_id = record.id  # type: ignore[attr-defined]
    return error


class Run:
    """A run. Awaiting it waits for its end, person included.

    All attributes read the last acknowledged commit. State, result and documents are copies or read-only.
    """

    def __init__(self, record: RunRecord, runtime: Runtime, face: Callable[[], Face]) -> None:
        self.record = record  # these two are for faces, which show and move the run
        self.runtime = runtime
        self._face = face
        self._look_below_at = 0.0

    # -- where it stands --------------------------------------------------------------------------

    @property
    def _view(self) -> RunView:
        return self.record.view

    @property
    def id(self) -> str:
        """Its id, for `loom.run(id)`."""
        return self.record.id

    @property
    def workflow(self) -> str:
        """The name of its definition."""
        return self.record.workflow

    @property
    def title(self) -> str:
        """What people read."""
        return self.record.title

    @property
    def key(self) -> str | None:
        """The key it was started with."""
        return self.record.key

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels."""
        return self.record.labels

    @property
    def args(self) -> Any:
        """Its arguments as stored: a plain JSON copy."""
        return thaw(self.record.args)

    @property
    def status(self) -> Status:
        """Where it stands."""
        return self._view.status

    @property
    def waiting_for(self) -> WaitingFor | None:
        """`person` or `child` while it waits."""
        return self._view.waiting_for

    @property
    def place(self) -> str:
        """The place it is in."""
        return self._view.place

    @property
    def state(self) -> Mapping[str, Any]:
        """Its state, read-only."""
        state: Mapping[str, Any] = self._view.state
        return state

    @property
    def result(self) -> Any:
        """Its result so far: a plain JSON copy; None while nothing was set."""
        return thaw(self._view.result)

    @property
    def error(self) -> str | None:
        """The message of its error."""
        return self._view.failure.message if self._view.has_error and self._view.failure else None

    @property
    def error_code(self) -> str | None:
        """The code of its error: MOVE_FAILED for an exception of your own."""
        return self._view.failure.code if self._view.has_error and self._view.failure else None

    @property
    def has_error(self) -> bool:
        """Whether its last try failed."""
        return self._view.has_error

    @property
    def traceback(self) -> str | None:
        """The whole traceback of its error, our frames included."""
        return self._view.failure.traceback or None if self._view.has_error and self._view.failure else None

    @property
    def retry_count(self) -> int:
        """How often the transition that failed last has failed in a row."""
        return self._view.retry_count

    @property
    def advice(self) -> str:
        """Why it does not go on by itself, when its definition is missing or another one."""
        return (self.record.advice or self.record.notice) if self.status not in FINISHED else ""

    @property
    def documents(self) -> list[DocumentEntity]:
        """Its current documents in order, without internal ones."""
        found = sorted((e for _, e in tuple(self.record.documents.values())), key=lambda e: e.index)
        return [e for e in found if not e.internal]

    @property
    def log(self) -> str:
        """What its moves printed and logged."""
        return "".join(self.record.log_text)

    @property
    def pending(self) -> list[Ask]:
        """Its open asks."""
        return list(self._view.asks)

    @property
    def children(self) -> list[Run]:
        """The sub-workflows it has started, in order."""
        return [Run(record, self.runtime, self._face) for record in self.runtime.children(self.record)]

    @property
    def parent_id(self) -> str | None:
        """The run that started it, for a sub-workflow."""
        return self.record.parent_id

    @property
    def available_transitions(self) -> list[dict[str, str]]:
        """What leaves its place: `id`, `from`, `to`, and `trigger: manual` for wait transitions, whatever guards say."""
        definition = REGISTRY.get(self.workflow)
        moves = definition.moves_from(self.place) if definition else None
        ways = [(m, name, to) for m in moves or () for name, to in m.routes or ((m.name, m.to),)]
        return [{"id": name, "from": m.from_, "to": to} | ({"trigger": "manual"} if m.wait else {}) for m, name, to in ways]

    @property
    def history(self) -> list[HistoryEntry]:
        """Its start and its moves, as stored."""
        rows = self.runtime.database.read(
            "select ts, kind, body->>'name', body->>'from', body->>'place', body->>'status', (body->>'move')::integer "
            "from journal where run_id = ? and kind in ('run.started', 'run.moved') order by seq",
            [self.id],
        )
        return [
            HistoryEntry(number=n or 0, name=name or "", from_place=from_, place=place, status=status, at=at)
            for at, _, name, from_, place, status, n in rows
        ]

    @property
    def progress(self) -> Progress | None:
        """How far it is, where its moves say so: `37 of 1,000`."""
        return self._view.progress

    def events(self, after: int | str | None = None) -> AsyncGenerator[RunEvent]:
        """What happened to it and what happens, as it happens: `async for event in run.events(): …`. Ends when the run has.

        Args:
            after: the `id` of the last event you have seen; default: from its beginning. A cursor that is none of this store's
                gives one `stream.reset`, with the id to go on from.
        """
        return self.runtime.events(after, self.record)

    # -- acting -----------------------------------------------------------------------------------

    def answer(self, name_or_id: Any = MISSING, payload: Any = MISSING, *, source: str = "code") -> None:
        """Answer an open ask: `run.answer("approve", {"ok": True})`, or `run.answer({"ok": True})` while only one is open.

        Returns once the answer is committed, not when the run has moved.

        Args:
            name_or_id: a wait transition's name or an open ask's id; or, alone, the payload of the only open ask.
            payload: for a wait transition its data; for questions a mapping of id to text (None skips) or the contract's
                list; for a confirmation True, False or {"isConfirmed": …, "feedback": …}.
            source: recorded with the answer.

        Raises:
            AnswerInvalid: it does not fit; `.fields` says where. The ask stays open.
            AnswerRefused: no such ask is open, a guard refuses, or the run cannot take it.
        """
        if name_or_id is MISSING:
            if len(self._view.asks) == 1:
                name_or_id = self._view.asks[0].id
        elif payload is not MISSING:
            names = {a.name for a in self._view.asks} | {a.id for a in self._view.asks}
            if name_or_id not in names:
                raise self.runtime.refusal(self.record, str(name_or_id))
        self.runtime.answer(self.record, name_or_id, payload, source)

    def retry(self, *, fresh: bool = False) -> None:
        """Try again what failed or was interrupted; an automatic retry that is due later is made now.

        A step of a blueprint is made again with what is on record of it: what it committed, asked or read is not repeated.

        Args:
            fresh: of a step: forget that, and begin it anew with the State it had at its start.

        Raises:
            Conflict: it has not failed.
        """
        self.runtime.retry(self.record, fresh=fresh)

    def cancel(self, timeout: float = 2.0) -> None:
        """Stop it. A move in progress is stopped before it commits; a finished run is left as it is.

        Args:
            timeout: seconds to wait for the stop to be stored; a sync body may go on to its end, but can write no more.

        Raises:
            StoreClosed: the store was closed, so nothing can be stored any more.
        """
        if self.record.view.status not in FINISHED:
            self._refuse_closed()
        self.runtime.cancel(self.record)
        if self.record.host is not None and not self.record.host.is_current():
            with contextlib.suppress(TimeoutError):
                self._block(lambda: not self.record.passing, timeout)
        if self.record.view.status not in FINISHED and not self.record.passing:
            self._refuse_closed()  # the store was closed under the cancel: it was not stored

    def fork(self, at: int | None = None) -> Self:
        """A new run that starts where this one stood after move `at` (default: its last), with the state and result of then.

        Raises:
            Refused: there was no such move.
            NotFound: its definition is not known here.
        """
        rows = self.runtime.database.read("select seq, ts, kind, body from journal where run_id = ? order by seq", [self.id])
        moves = [i for i, r in enumerate(rows) if r[2] in ("run.started", "run.moved")]
        number = len(moves) - 1 if at is None else at
        if isinstance(number, bool) or not isinstance(number, int):
            raise Refused(f"at={at!r:.60} is no number of a move.", advice="See run.history.")
        if not 0 <= number < len(moves):
            raise Refused(
                f"The run {self.id} has no move {at}.", advice=f"Moves are numbered 0 to {len(moves) - 1}: see run.history."
            )
        then = RunRecord(id=self.id, workflow=self.workflow, source=self.record.source)
        then.replay(rows[: moves[number] + 1])
        if then.place == END:
            raise Refused(
                f"Move {number} ended the run {self.id}: nothing follows it.", advice="Fork an earlier one: see run.history."
            )
        record = self.runtime.start(
            REGISTRY.need(self.workflow),
            self.record.args,
            labels=self.labels,
            title=self.title,
            seed=(then.place, then.state, then.result),
            forked_from=f"{self.id}/{number}",
            config=self.record.config,
            services_of=self.record.services_of,
            **self._fork_options(),
        )
        return type(self)(record, self.runtime, self._face)

    def _fork_options(self) -> dict[str, Any]:
        """What else starts a fork of this kind of run."""
        return {}

    # -- waiting ----------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Any]:
        return self._ended().__await__()

    async def _ended(self) -> Any:
        self._refuse_deadlock("await")
        await self._until(self._is_over)
        return self._outcome()

    async def settled(self) -> RunView:
        """Wait until it is at rest (it waits, failed, or ended), and give its view. Never raises for its failure."""

        def over() -> bool:
            if self.is_settled():
                return True
            self._refuse_closed()
            return False

        await self._until(over)
        return self._view

    async def _until(self, over: Callable[[], bool]) -> None:
        # Not asyncio.wrap_future: left behind by an interrupt it would complain on stderr when the run fails later. The
        # future is private and only ever set to None; asyncio.wait never cancels what it waits for (that is the shield), and
        # its time-out is the tick that lets an interrupt in.
        loop = asyncio.get_running_loop()
        while not over():
            wake: asyncio.Future[None] = loop.create_future()

            def woken(_: str, wake: asyncio.Future[None] = wake) -> None:
                with contextlib.suppress(RuntimeError):  # the cell's loop is gone
                    loop.call_soon_threadsafe(_set, wake)

            with self._watching(woken):
                if not over():
                    await asyncio.wait({wake}, timeout=_TICK)

    def wait(self, timeout: float | None = None) -> Any:
        """The same as `await run`, from a plain cell.

        Args:
            timeout: seconds; None waits as long as it takes.

        Raises:
            RunFailed: it failed or was canceled; the cause is your own exception.
            NoFrontEnd: it needs a person and nobody can answer here.
            TimeoutError: it is not over in time; it goes on.
            WouldDeadlock: it could never end, because the run moves on the calling thread.
        """
        self._refuse_deadlock("wait")
        host = self.record.host
        if host is not None and host.is_current():
            return self._wait_nested(timeout)
        self._block(self._is_over, timeout)
        return self._outcome()

    def _wait_nested(self, timeout: float | None) -> Any:
        """A plain cell's wait for a run on the kernel's own loop: only nest-asyncio can do it, and only without a person."""
        if self._view.waiting_for == "person" and not self._scripted():
            raise WouldDeadlock(
                f"run.wait() would block the loop that the run {self.id} moves on, and it needs a person.",
                advice="Write `await run` instead.",
            )
        import nest_asyncio  # noqa: PLC0415  # patches the loop: only here, where there is no other way

        nest_asyncio.apply()
        loop = asyncio.get_running_loop()
        with _nothing_lost(loop):
            loop.run_until_complete(asyncio.wait_for(self._ended_or_person(), timeout))
        return self._outcome()

    async def _ended_or_person(self) -> None:
        def over() -> bool:
            if self._view.waiting_for == "person" and not self._scripted():
                raise WouldDeadlock(
                    f"The run {self.id} now needs a person, and run.wait() blocks the loop it moves on.",
                    advice="Write `await run` instead.",
                )
            return self._is_over()

        await self._until(over)

    def _scripted(self) -> bool:
        return self.record.is_moving or self.record.scripting

    def _block(self, over: Callable[[], bool], timeout: float | None) -> None:
        event = threading.Event()
        end = None if timeout is None else time.monotonic() + timeout
        with self._watching(lambda _: event.set()):
            while not over():
                event.clear()
                if over():
                    return
                rest = _TICK if end is None else min(_TICK, end - time.monotonic())
                if rest <= 0:
                    raise TimeoutError(f"The run {self.id} is still {self.status}.")
                pumped = self._face().pump()
                event.wait(min(rest, 0.02) if pumped else rest)  # short slices: an interrupt gets in between

    @contextlib.contextmanager
    def _watching(self, watcher: Callable[[str], None]) -> Generator[None]:
        self.record.watchers.append(watcher)
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):
                self.record.watchers.remove(watcher)

    def is_settled(self) -> bool:
        """Whether it is at rest: it waits, failed, or ended."""
        return (
            not self.record.is_moving
            and not self.record.scripting
            and self.status not in (Status.PENDING, Status.RUNNING, Status.RETRYING)
        )

    def is_settled_below(self) -> bool:
        """Whether it and every sub-workflow below it is at rest: nothing goes on without a person."""
        rests = self.is_settled() and not self.runtime.is_moving(self.record)
        return rests and not any(self.runtime.is_moving(record) for record in self.runtime.below(self.record))

    def _is_over(self) -> bool:
        """Whether waiting has an end; raises where it never could."""
        view = self._view
        if view.status in FINISHED or (view.status is Status.INTERRUPTED and not self.record.is_moving):
            return True
        self._refuse_closed()
        if self._awaits_below or (view.waiting_for == "child" and not self.record.is_moving):
            self._ask_below()
        if view.waiting_for == "person" and not self.record.is_moving and not self.record.scripting:
            if self.record.script_error is not None:
                raise self.record.script_error
            if self.record.advice:
                raise Refused(f"The run {self.id} waits, but nothing here can take its answer.", advice=self.record.advice)
            face = self._face()
            if not face.is_shown(self):
                face.show(self)
            reason = face.nobody_can_answer(self)
            if reason and self._view is view:
                raise _no_front_end(self.record, reason)
        return False

    def _refuse_closed(self) -> None:
        """Raise where nothing will ever happen to it: a wait begun before the close would go on for ever."""
        if self.runtime.closed:
            raise StoreClosed(
                f"The store was closed while the run {self.id} was {self.status}; it goes on when the store is open again.",
                advice=f"loom.open({self.runtime.database.path!r}), then loom.run({self.id!r}).",
            )

    def _ask_below(self) -> None:
        """Raise when nothing below this run can move without a person, and nobody can answer here."""
        now = time.monotonic()
        if now < self._look_below_at:
            return  # it looks at every live run: not at each piece of news, of which a thousand children make many
        self._look_below_at = now + _TICK
        below = self.runtime.below(self.record)
        if not self._awaits_below and any(self.runtime.is_moving(r) for r in (self.record, *below)):
            return
        for record in below:
            view = record.view
            if view.waiting_for == "person":
                if record.script_error is not None:
                    raise record.script_error
                reason = self._face().nobody_can_answer(self)
                if reason and record.view is view and not record.is_moving:
                    raise _no_front_end(record, reason)

    def _refuse_deadlock(self, how: str) -> None:
        attempt = CURRENT.get()
        if attempt is not None and attempt.record is self.record:
            raise WouldDeadlock(f"The run {self.id} waits for itself.", advice="A move cannot wait for its own run.")
        host = self.record.host
        if how == "wait" and host is not None and host.kind == "thread" and host.is_current():
            raise WouldDeadlock(
                "run.wait() would block the very loop that runs move on.",
                advice="Write `await run`, or make this move a plain def.",
            )

    _awaits_below = False
    """Whether a move of it waits for runs below it, so that it moves while they wait for a person."""

    _way_on = "The run can go on: .retry() tries again, and .traceback has the details. %debug stops where it broke."

    def _outcome(self) -> Any:
        view = self._view
        if view.status is Status.COMPLETED:
            return self.result
        if view.status is Status.CANCELED:
            raise RunFailed(f"The run {self.id} was canceled.", run_id=self.id, status=view.status, code="RUN_STOPPED")
        if view.status is Status.INTERRUPTED:
            raise RunFailed(
                f"The run {self.id} was interrupted when its kernel died.",
                run_id=self.id,
                status=view.status,
                code="RUN_INTERRUPTED",
                advice=self.record.advice or self.record.notice or "Go on with run.retry().",
            )
        failure, cause = view.failure, self.record.exception
        what = f"{failure.type}: {failure.message}" if failure and failure.type else failure.message if failure else "it failed"
        error = RunFailed(
            f"{self.workflow} failed at {self.place!r}: {what}",
            run_id=self.id,
            status=view.status,
            code=failure.code if failure else None,
            advice=(failure.advice if failure else "") or self._way_on,
        )
        error.frames = failure.frames if failure else ""
        if cause is not None:
            raise error.with_traceback(user_traceback(cause)) from cause
        raise error

    # -- showing ----------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The picture of its workflow, with the way it took and the place it is in."""
        return run_graph(self.record)

    def story(self, handle: str = "run") -> Story:
        """What a static page tells of it: no ids, no times. `handle` is how code names it there."""
        view, record = self._view, self.record
        return Story(
            title=record.title,
            workflow=record.workflow,
            status=view.status.value,
            place=view.place,
            path=tuple(record.path),
            documents=tuple(self.documents),
            answered=tuple((before, ask, payload) for _, before, ask, payload in tuple(record.answered)),
            asks=view.asks,
            has_error=view.has_error,
            error_type=view.failure.type if view.failure else "",
            error=view.failure.message if view.failure else "",
            advice=view.failure.advice if view.failure else "",
            result=view.result if view.status is Status.COMPLETED else None,
            notice=self.advice,
            handle=handle,
            children=self._told_children(handle),
        )

    def _told_children(self, handle: str) -> dict[str, Child]:
        """What its story tells of its sub-workflows: of a few all, of many or deep ones only how they stand."""
        children = self.children
        brief = len(children) > _TOLD_CHILDREN or handle.count("[") >= _TOLD_DEPTH
        return {
            child.id: Child(child.status.value, None if brief else child.story(f"{handle}.children[{at}]"))
            for at, child in enumerate(children)
        }

    def __repr__(self) -> str:
        return story_plain(self.story())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return story_bundle(self.story())

    def _ipython_display_(self) -> None:
        if not self._face().show(self):
            raise NotImplementedError  # IPython then takes the static forms


@contextlib.contextmanager
def _nothing_lost(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """While a loop runs nested, put off callbacks whose context is entered further up the stack, until it is left.

    ipykernel 7 handles every message of the main shell in one and the same context, and the plain cell that waits here has
    entered it: the message of the next cell would fail with "cannot enter context", and that cell would never run.
    """
    put_off: list[asyncio.Handle] = []
    before = loop.get_exception_handler()

    def handler(loop: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
        if "handle" in told and "cannot enter context" in str(told.get("exception")):
            put_off.append(told["handle"])
        elif before is not None:
            before(loop, told)
        else:
            loop.default_exception_handler(told)

    loop.set_exception_handler(handler)
    try:
        yield
    finally:
        loop.set_exception_handler(before)
        for handle in put_off:
            loop.call_soon(handle._run)  # noqa: SLF001  # the very call the loop itself makes
