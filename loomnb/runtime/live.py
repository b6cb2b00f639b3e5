"""One execution of a step: live access, durable at the call, that ends when the execution does.

The body of a workflow's transition collects, and the pass commits. A step's code makes its effects at once. What it may do
goes through a `LiveCall`, which numbers each call, stores what came of it, lets the run wait in the middle of the code, and is
over for good when the code returned, failed, was canceled, or could not be stored. A body that goes on after that finds
everything refused; it is never killed (contracts/blueprints.md §2.5, §2.7).

All of it happens on the run's loop; only `check` and the reads behind it may be called from a sync code's own thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import itertools
import json
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from loomnb.asks import Ask
from loomnb.errors import (
    Conflict,
    InvalidRequest,
    LoomError,
    NotFound,
    OwnershipLost,
    StepError,
    StorageFailed,
    StoreBusy,
    StoreClosed,
    Unavailable,
)
from loomnb.jsonvalue import FrozenDict, changes, freeze, thaw
from loomnb.runtime.calls import CallRecord, SubStep
from loomnb.runtime.definition import AskContent
from loomnb.runtime.failure import tame
from loomnb.runtime.record import RunRecord, row

if TYPE_CHECKING:  # for its types only: DuckDB is loaded by who opens a store
    from loomnb.runtime.host import Host, Workers
    from loomnb.store import Action, Chain, Database, Row

__all__ = ["Engine", "LiveCall"]

_SOON = 0.05  # seconds that a checkpoint without an effect waits for one that has one, and shares its commit

T = TypeVar("T")


class Engine(Protocol):
    """What a step needs of the run loop."""

    @property
    def database(self) -> Database:
        """The store."""
        ...

    def host_of(self, record: RunRecord) -> Host:
        """Where the run moves."""
        ...

    @property
    def workers(self) -> Workers:
        """Threads for what must not block a loop."""
        ...

    @property
    def readers(self) -> Workers:
        """Threads for reads of ours, which no code of the user's can keep."""
        ...

    def suspend(
        self, record: RunRecord, ask: Ask, body: dict[str, Any], failed: Callable[[LoomError], None], chain: Chain
    ) -> None:
        """Store a question and let the run wait for its answer, in the middle of a step."""
        ...


def _ignored(future: asyncio.Future[Any]) -> None:
    """Look at its exception, or asyncio complains about one that nobody awaited."""
    if not future.cancelled():
        future.exception()


class _Place:
    """A checkpoint that is being made: what is started in it is told apart by the checkpoint's number and its own."""

    def __init__(self, live: LiveCall, number: int) -> None:
        self.live = live
        self._number = number
        self._count = itertools.count(1)  # from any thread: tools of one message work side by side

    def key(self) -> str:
        return f"{self._number}/{next(self._count)}"


_PLACE: contextvars.ContextVar[_Place | None] = contextvars.ContextVar("loom_checkpoint", default=None)
"""The checkpoint that the code of this context is in."""

_TOOL: contextvars.ContextVar[tuple[LiveCall, object] | None] = contextvars.ContextVar("loom_tool", default=None)
"""The call of a tool that the code of this context belongs to, with the execution it is part of: a run that the tool starts has
an execution of its own."""


class LiveCall:
    """The access of one execution of a step.

    Args:
        record: the run.
        number: the number of its move.
        name: the step, for messages.
        engine: the run loop.
    """

    def __init__(self, record: RunRecord, number: int, name: str, engine: Engine) -> None:
        self.record = record
        self.number = number
        self.name = name
        self.engine = engine
        self.host = engine.host_of(record)
        self.call: CallRecord | None = None
        self.alive = True
        self.waiting = False
        self.violation: StepError | None = None
        """A rule that was broken, whether or not the code caught the error."""
        self.broken: BaseException | None = None
        """Why it had to stop: what it did could not be stored."""
        # What is behind a row that could not be stored is not stored either: it may build on it.
        self._chain = engine.database.chain()
        self._next = 1
        self._buffer: list[SubStep] = []
        self._rows: list[Row] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._answer: asyncio.Future[Any] | None = None
        self._over: asyncio.Future[None] | None = None
        self._at_end: list[Callable[[BaseException], None]] = []
        self._last_on_record = 0
        self._tool: object | None = None
        self._under_way: dict[int, str] = {}
        self.on_passed: list[Callable[[str, Any], None]] = []
        """Called with the name and the result of each recorded call that is passed over: see `skip_to`."""
        self.failures: list[BaseException] = []
        """What was refused to the code, whether or not it caught that: after one a tool's result does not count."""

    # -- its life ---------------------------------------------------------------------------------

    async def begin(self, *, recoverable: bool, replays: bool = False) -> CallRecord:
        """Its code is about to begin: durable, so that a crash from here on is known for one.

        Args:
            recoverable: whether the code can go on after a question in another kernel.
            replays: whether it is simply made again there, by what is on record of it.

        Raises:
            OwnershipLost: it was stopped before that was durable.
        """
        record, call = self.record, self.record.call
        how = "run" if call is None else "recover" if call.answered and recoverable and not replays else "again"
        body: dict[str, Any] = {"move": self.number, "name": self.name, "place": record.place, "how": how}
        body |= {"recoverable": True} if recoverable else {}
        body |= {"replays": True} if replays else {}
        if how == "recover" and call is not None and call.asked is not None:
            answer = record.inbox.data if record.inbox is not None else call.steps[call.asked["n"]].result
            body["saved"] = {"action": call.asked["action"], "answer": answer}
        await self._put([row(record, "step.began", body)])
        self.check()  # stopped meanwhile: its code must not even begin
        record.begin_call(body, record.state)
        assert record.call is not None
        self.call = record.call
        self._last_on_record = max(self.call.steps, default=0)
        return self.call

    def at_end(self, call: Callable[[BaseException], None]) -> None:
        """Call something, with why, when it is over."""
        self._at_end.append(call)

    def end(self, reason: BaseException) -> None:
        """It is over, whether or not its code is: whoever waits for that goes on."""
        self.close(reason)
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def close(self, reason: BaseException) -> None:
        """Nothing goes through it any more. The first reason counts."""
        if not self.alive:
            return
        self.alive = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(reason)
            _ignored(self._answer)
        for call in self._at_end:
            call(reason)

    def over(self, future: asyncio.Future[None]) -> None:
        """What is to be resolved when it ends before its code does."""
        self._over = future

    def fail(self, error: LoomError) -> None:
        """What it did could not be stored."""
        self.broken = StepError(
            f"What the step {self.name!r} did could not be stored: {error.message}",
            advice=error.advice or "Nothing of this call was kept. run.retry() makes the step again.",
            code="RUN_CHECKPOINT_FAILED",
            cause=error,
        )
        self.end(self.broken)

    def check(self) -> None:
        """Refuse when it is over.

        Raises:
            OwnershipLost: it is.
        """
        owner, tool = _TOOL.get() or (None, None)
        if not self.alive or (owner is self and tool is not self._tool):  # the latter: what a tool left behind when it returned
            raise OwnershipLost(
                f"The call of {self.name!r} is over: what it was given ended with it.",
                advice="Await what the code starts before it returns, and keep nothing of `access` for later.",
            )

    @contextlib.contextmanager
    def tool(self) -> Generator[None]:
        """While a tool is at work: what it starts may do nothing any more once it returned, though the step goes on."""
        self._tool = object()
        token = _TOOL.set((self, self._tool))
        try:
            yield
        finally:
            _TOOL.reset(token)
            self._tool = None

    def finished(self) -> None:
        """The code returned: judge whether it did all that is on record of it.

        Raises:
            StepError: it asked and did not wait for the answer, or did less than is on record.
        """
        if self.violation is not None:
            raise self.violation
        if self.waiting:
            raise StepError(
                f"The step {self.name!r} ended while its question was open.",
                advice="Write `await` before access.interaction.confirm(...) or .ask_questions(...).",
                code="STEP_INTERACTION_INVALID",
            )
        for name in self._under_way.values():  # no failure, by the contract; but nothing a person should have to find out
            if self.record.attempt is not None:
                self.record.attempt.note(
                    f"loom: access.{name}(…) was not awaited when the step {self.name!r} ended, so it did nothing. "
                    f"Write `await access.{name}(…)`.\n"
                )
        if self._last_on_record >= self._next:
            sub = self.call.steps.get(self._last_on_record) if self.call is not None else None
            raise self._diverged(f"it ended before call {self._last_on_record} ({sub.name if sub else '?'}), which is on record")

    # -- numbered calls ---------------------------------------------------------------------------

    def needs_loop(self, what: str) -> None:
        """Refuse a call whose result nobody could await: a sync code runs on a thread of its own.

        Raises:
            StepError: the caller is not on the run's loop.
        """
        if not self.host.is_current():
            raise StepError(
                f"{what} needs an async code: what calls it in the step {self.name!r} is a plain def, and cannot wait.",
                advice=f"Write `async def`, and `await {what}`.",
            )

    def take_number(self) -> int:
        """The number of the next call."""
        number = self._next
        self._next += 1
        return number

    @property
    def next_number(self) -> int:
        """The number the next call will have."""
        return self._next

    def skip_to(self, number: int) -> None:
        """Pass over calls that are on record and not made again, for what called them is itself on record.

        What they left is left all the same: whoever keeps something that calls change takes it up by `on_passed`.
        """
        for passed in range(self._next, number):
            sub = self.call.steps.get(passed) if self.call is not None else None
            if sub is not None and sub.error is None:
                for take_up in self.on_passed:
                    take_up(sub.name, thaw(sub.result))
        self._next = max(self._next, number)

    def recorded(self, number: int, name: str, key: str) -> SubStep | None:
        """What is on record under a number; None when the call is new.

        Raises:
            StepError: another call is on record there (STEP_REPLAY_DIVERGED).
        """
        sub = self.call.steps.get(number) if self.call is not None else None
        if sub is None:
            return None
        if (sub.name, sub.key) != (name, key):
            what = "the same call with other arguments" if sub.name == name else f"the call {sub.name}"
            raise self._diverged(f"call {number} is {name}, and on record there is {what}")
        return sub

    def _diverged(self, what: str) -> StepError:
        self.violation = StepError(
            f"The step {self.name!r} was made again and did something else than before: {what}.",
            advice="If its code was changed on purpose: run.retry(fresh=True) forgets that and begins the step anew.",
            code="STEP_REPLAY_DIVERGED",
        )
        return self.violation

    def perform(
        self,
        name: str,
        arguments: Any,
        live: Callable[[int], Awaitable[T]],
        again: Callable[[Any], T],
        revive: Callable[[Mapping[str, Any]], Exception] | None = None,
    ) -> asyncio.Future[T]:
        """Make a numbered call: what is on record, or the real one. Begins at once; what is returned may be dropped.

        Args:
            name: what it is.
            arguments: JSON that tells this call from another.
            live: makes it, given its number, and sees to its record (`note` or `store`).
            again: its result from the recorded JSON.
            revive: its failure from the recorded `{"code", "message", "retryable"}`; default: an error of that code.
        """
        number = self.take_number()
        key = key_of(arguments)
        try:
            sub = self.recorded(number, name, key)
        except StepError as exc:
            return self.refuse(exc)
        if sub is not None:
            if sub.error is not None:
                return self.refuse((revive or _error_of)(sub.error))
            return done(again(thaw(sub.result)))
        self._under_way[number] = name
        return self.spawn(self._really(number, name, key, live))

    async def _really(self, number: int, name: str, key: str, live: Callable[[int], Awaitable[T]]) -> T:
        try:
            return await live(number)
        except LoomError as exc:
            self.failures.append(exc)
            self._keep(SubStep(number, name, key, error=_told(exc)))
            raise
        except (SystemExit, KeyboardInterrupt) as exc:  # as from a body: they would end the loop of every run
            raise tame(exc) from exc
        finally:
            self._under_way.pop(number, None)

    def refuse(self, exc: BaseException) -> asyncio.Future[Any]:
        """An awaitable that raises, for a call that cannot be made."""
        self.failures.append(exc)
        return failed(exc)

    def note(self, number: int, name: str, arguments: Any, result: Any) -> None:
        """Keep what a read gave, to be stored with the next effect."""
        self._keep(SubStep(number, name, key_of(arguments), freeze(result)))

    def note_failure(self, number: int, name: str, arguments: Any, exc: Exception) -> None:
        """Keep how a call failed that raises no error of ours."""
        self.failures.append(exc)
        told = {"code": "", "message": str(exc), "retryable": False}
        self._keep(SubStep(number, name, key_of(arguments), error=told))

    def _keep(self, sub: SubStep) -> None:
        if self.alive:
            self._buffer.append(sub)

    async def store(self, number: int, name: str, arguments: Any, result: Any, state: FrozenDict | None = None) -> None:
        """Store what an effect gave, and the State it left. Durable when it returns.

        The run's State changes at once, so that what is committed after this builds on it.
        """
        record = self.record
        body = self._recorded(SubStep(number, name, key_of(arguments), freeze(result)))
        if state is not None:
            body["changes"] = changes(record.state, state)
            record.state = state
        await self._put([row(record, "step.recorded", body)])
        self._show_state()

    async def transact(self, number: int, name: str, arguments: Any, action: Action[T], result: Callable[[T], Any]) -> T:
        """Make an effect in the store itself, in one transaction with its line in the journal.

        Args:
            number: the call's.
            name: what it is.
            arguments: JSON that tells it from another.
            action: makes it, on the writer's thread.
            result: the JSON to record.
        """
        record, buffered = self.record, self._buffer
        self._buffer = []
        key = key_of(arguments)

        def both(connection: Any, now: Any, seq: int) -> tuple[Sequence[Row], T]:
            if self._chain.error is not None:  # what is behind a row that could not be stored is not stored either
                raise self._chain.error
            rows, outcome = action(connection, now, seq)
            body = self._body((*buffered, SubStep(number, name, key, freeze(result(outcome)))))
            return [*rows, row(record, "step.recorded", body)], outcome

        future: asyncio.Future[T] = self.host.loop.create_future()

        def acknowledged(error: LoomError | None, outcome: Any) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(outcome)

        self.engine.database.transact(both, lambda error, outcome: self.host.post(acknowledged, error, outcome))
        try:
            outcome = await future
        except BaseException:
            self._buffer = [*buffered, *self._buffer]
            raise
        if self.call is not None:
            self.call.keep([s.to_json() for s in buffered])
            self.call.steps[number] = SubStep(number, name, key, freeze(result(outcome)))
        return outcome

    # -- checkpoints: calls of code that is made again by itself -----------------------------------

    async def checkpoint(self, name: str, fn: Callable[[], Awaitable[tuple[Any, Sequence[Row]]]], *, effect: bool) -> Any:
        """Do something under the next number: what is on record there, or the real one.

        Args:
            name: what it is; another name on record is a divergence.
            fn: does it, and gives its JSON result with the rows that are to be stored with it.
            effect: whether it did something outside that must not be done again: then it is durable when this returns. Else it is
                stored with the next that is, or a moment later.

        Raises:
            StepError: another call is on record there (STEP_REPLAY_DIVERGED).
            OwnershipLost: the execution is over.
        """
        self.check()
        number = self.take_number()
        sub = self.recorded(number, name, "")
        if sub is not None:
            return thaw(sub.result)
        token = _PLACE.set(_Place(self, number))
        try:
            value, rows = await fn()
        except (SystemExit, KeyboardInterrupt) as exc:  # in a task of its own it would end the loop of every run
            raise tame(exc) from exc
        finally:
            _PLACE.reset(token)
        self.check()
        frozen = freeze(value)
        self._buffer.append(SubStep(number, name, "", frozen))
        self._rows += rows
        if effect:
            await self.flush(wait=not self.record.pipelined)
        elif self._flushing is None:
            self._flushing = self.host.loop.call_later(_SOON, self._flush_now)
        return thaw(frozen)  # as a replay gives it

    def place_key(self) -> str | None:
        """What tells a call apart that is made in a checkpoint, the same whenever that is made again; None: it is in none."""
        place = _PLACE.get()
        return place.key() if place is not None and place.live is self else None

    @property
    def recorded_next(self) -> str | None:
        """The name of what is on record under the next number; None when nothing is."""
        sub = self.call.steps.get(self._next) if self.call is not None else None
        return sub.name if sub is not None else None

    def is_marked(self, name: str) -> bool:
        """Whether something of this name had begun."""
        return self.call is not None and name in self.call.marks

    async def mark(self, name: str) -> None:
        """Put on record that something begins. Durable when it returns."""
        if self.call is not None:
            self.call.marks.add(name)
        await self._put(self._taken(marks=[name]))

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Let rows be stored with the next effect, or a `flush`."""
        self._rows += rows

    async def flush(self, *, wait: bool = True) -> None:
        """Store what waits for the next effect."""
        rows = self._taken()
        if rows and wait:
            await self._put(rows)
        elif rows:
            self._put_behind(rows)

    def leave(self, rows: Sequence[Row]) -> None:
        """It was stopped: store what it did until then, and these rows, without waiting. Nothing builds on it."""
        self._rows += rows
        with contextlib.suppress(StoreClosed):
            self._put_behind(self._taken())

    def _flush_now(self) -> None:
        self._flushing = None
        with contextlib.suppress(StoreClosed):  # the kernel is going down: the next one makes it again
            if self.alive:
                self._put_behind(self._taken())

    def _taken(self, marks: Sequence[str] = ()) -> list[Row]:
        """The rows of what waits, which is taken for stored from here on: the next ones may build on it."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        buffered, rows = self._buffer, self._rows
        self._buffer, self._rows = [], []
        if not buffered and not rows and not marks:
            return []
        if self.call is not None:
            for one in buffered:
                self.call.steps[one.number] = one
        body = self._body(buffered)
        body |= {"marks": list(marks)} if marks else {}
        return [*rows, row(self.record, "step.recorded", body)]

    def _put_behind(self, rows: Sequence[Row]) -> None:
        """Commit rows without waiting. When that fails the execution is over."""
        if rows:
            self.engine.database.put(
                rows,
                lambda error, _: self.host.post(self.fail, error) if error is not None else None,
                chain=self._chain,
                behind=True,
            )

    def _recorded(self, sub: SubStep) -> dict[str, Any]:
        buffered, self._buffer = self._buffer, []
        subs = (*buffered, sub)
        if self.call is not None:
            for one in subs:
                self.call.steps[one.number] = one
        return self._body(subs)

    def _body(self, subs: Sequence[SubStep]) -> dict[str, Any]:
        return {"move": self.number, "name": self.name, "subs": [s.to_json() for s in subs]}

    def _show_state(self) -> None:
        record = self.record
        if self.alive and record.view.state is not record.state:
            record.show_state()

    async def _put(self, rows: Sequence[Row]) -> None:
        """Commit rows. When that fails the execution is over."""
        future: asyncio.Future[None] = self.host.loop.create_future()

        def acknowledged(error: LoomError | None) -> None:
            if error is not None:
                self.fail(error)
            if future.done():
                return
            if error is not None:
                assert self.broken is not None
                future.set_exception(self.broken)
            else:
                future.set_result(None)

        self.engine.database.put(rows, lambda error, _: self.host.post(acknowledged, error), chain=self._chain)
        await future

    async def journal(self, kind: str, body: dict[str, Any]) -> None:
        """Commit a row of another kind about the run."""
        await self._put([row(self.record, kind, body)])

    # -- asking -----------------------------------------------------------------------------------

    def ask(self, name: str, content: AskContent, kind: str, request: Any, again: Callable[[Any], T]) -> asyncio.Future[T]:
        """Ask a person, now; what is returned is their answer.

        Args:
            name: of the call.
            content: how it is asked.
            kind: the contract's word for the question.
            request: its JSON.
            again: the answer from its JSON.

        Raises:
            StepError: a question of this execution is open already (STEP_INTERACTION_INVALID), or another call is on record.
        """
        if self.waiting:
            self.violation = StepError(
                f"The step {self.name!r} asks while another question of it is open.",
                advice="Await the first answer before you ask again.",
                code="STEP_INTERACTION_INVALID",
            )
            raise self.violation
        record = self.record
        number, key = self.take_number(), key_of([kind, request])
        sub = self.recorded(number, name, key)
        if sub is not None:
            return done(again(thaw(sub.result)))
        source = record.source
        if self._rows:
            self._flush_now()
        ask = Ask(
            id=source.new_id("ASK"),
            name=content.name or self.name,
            kind=content.kind,
            label=content.label,
            description=content.description,
            form=content.form,
            questions=content.questions,
            context=content.context,
            key=content.key,
            request=content.request,
            expires_at=content.expires_at,
            opened_at=source.now(),
        )
        asked = {"n": number, "name": name, "key": key, "action": {"id": ask.id, "kind": kind, "request": request}}
        body: dict[str, Any] = {"step": asked}
        if self._buffer:
            body["subs"] = [s.to_json() for s in self._buffer]
        if self.call is not None:
            self.call.keep(body.get("subs", ()))
            self.call.ask(freeze(asked))
        self._buffer = []
        self.waiting = True
        self._answer = self.host.loop.create_future()
        answer: asyncio.Future[T] = self.host.loop.create_future()
        answer.add_done_callback(_ignored)
        self._answer.add_done_callback(lambda given: _pass_on(given, answer, again))
        self.engine.suspend(record, ask, body, self.fail, self._chain)
        return answer

    def answered(self, payload: Any) -> None:
        """An answer was accepted and stored: let the code go on with it, once that is stored too."""
        if self.alive:
            self.spawn(self._go_on(payload))

    async def _go_on(self, payload: Any) -> None:
        record = self.record
        recoverable = self.call.recoverable if self.call is not None else False
        body = {"move": self.number, "name": self.name, "place": record.place, "how": "on"}
        body |= {"recoverable": True} if recoverable else {}
        body |= {"replays": True} if self.call is not None and self.call.replays else {}
        if self.call is not None:
            self.call.answer(payload)
        await self._put([row(record, "step.began", body)])
        if not self.alive:
            return
        record.begin_call(body, record.state)
        self.waiting = False
        given, self._answer = self._answer, None
        if given is not None and not given.done():
            given.set_result(payload)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run something on the run's loop; its failure is no noise when nobody awaits it."""
        task = self.host.loop.create_task(coroutine)
        task.add_done_callback(_ignored)
        return task


def _pass_on(given: asyncio.Future[Any], answer: asyncio.Future[T], again: Callable[[Any], T]) -> None:
    exc = given.exception()
    if answer.done():
        return
    if exc is not None:
        answer.set_exception(exc)
        _ignored(answer)
    else:
        answer.set_result(again(thaw(given.result())))


def key_of(arguments: Any) -> str:
    """A short text that is the same for the same arguments only."""
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _told(exc: LoomError) -> dict[str, Any]:
    return {"code": exc.code, "message": exc.message, "retryable": exc.retryable}


_CLASSES: Mapping[str, type[LoomError]] = {
    cls.code: cls for cls in (Conflict, InvalidRequest, NotFound, OwnershipLost, StorageFailed, StoreBusy, Unavailable)
}


def _error_of(told: Mapping[str, Any]) -> LoomError:
    # Of the class it was: code that catches it has to take the same branch again.
    return _CLASSES.get(told["code"], StepError)(told["message"], code=told["code"], retryable=told["retryable"])


def done(value: T) -> asyncio.Future[T]:
    """An awaitable that is there already."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future


def failed(exc: BaseException) -> asyncio.Future[Any]:
    """An awaitable that raises; one that nobody awaits makes no noise. Where no loop runs, it raises itself."""
    try:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    except RuntimeError:
        raise exc from None
    future.set_exception(exc)
    _ignored(future)
    return future
