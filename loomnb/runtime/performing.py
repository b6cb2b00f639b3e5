"""Performing one body: on the loop or in a worker, with its time-out, its access, and its way to be stopped."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from loomnb.errors import DefinitionError, LoomError, MoveTimedOut, OwnershipLost, StepError
from loomnb.runtime.attempt import CURRENT, Attempt
from loomnb.runtime.definition import Definition, Envelope, Execution, Move, RunContext
from loomnb.runtime.failure import explain, tame
from loomnb.runtime.host import Host, Workers
from loomnb.runtime.live import LiveCall
from loomnb.runtime.record import Payload, RunRecord

__all__ = ["judge", "perform", "stop_body"]

_GRACE = 1.0  # seconds a canceled body has for its finally blocks before it is left behind


async def perform(
    record: RunRecord,
    definition: Definition,
    attempt: Attempt,
    payload: Payload | None,
    *,
    host: Host,
    workers: Workers,
) -> BaseException | None:
    """Run the body of an attempt on its host; the exception it ended with, if any."""
    move = attempt.move
    run_context: RunContext[Any] = RunContext(
        user_id=record.user_id,
        workspace_id=record.workspace_id,
        workflow_id=record.id,
        args=record.loaded_args,
        config=record.loaded_config,
        execution=Execution(record.place, record.attempts.get(move.name, 0)),
        idempotency_key=f"{record.id}/{attempt.number}",
    )
    context = record.new_context()
    context.run(CURRENT.set, attempt)
    if attempt.live is not None:
        return await _perform_step(
            record, attempt.live, lambda: definition.perform(move, run_context, attempt.state, None, _NOBODY), context
        )
    data = payload.data if payload is not None else None
    envelope = payload.envelope if payload is not None and payload.envelope is not None else Envelope(workflow_id=record.id)

    def call() -> Any:
        return definition.perform(move, run_context, attempt.state, data, envelope)

    coroutine = _async_body(call) if move.is_async else _sync_body(call, workers)
    task = host.loop.create_task(coroutine, context=context)
    task.set_name(f"run {record.workflow} ({record.id}), transition {move.name}")
    if await _supervised(record, task, move.timeout, attempt.revoke, host=host):
        return MoveTimedOut(
            f"The transition {move.name!r} took longer than {move.timeout:g} ms and was stopped.",
            advice=f"Give it more time with @loom.transition(timeout=…), now {move.timeout:g} ms, or make it shorter.",
        )
    if not task.done() or task.cancelled():
        if record.cancel_requested:
            return asyncio.CancelledError()
        return _Canceled(f"The body of {move.name!r} was canceled from inside.")
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


_NOBODY = Envelope(workflow_id="")


async def _perform_step(
    record: RunRecord, live: LiveCall, call: Callable[[], Any], context: contextvars.Context
) -> BaseException | None:
    """Run a step's code. It ends when the code does, or before: the run was canceled, or what it did could not be stored. Then
    the code is left behind with nothing it can do any more; it is not killed (contracts/blueprints.md §2.7)."""
    loop = live.host.loop
    task = loop.create_task(_async_body(call), context=context)
    task.set_name(f"run {record.workflow} ({record.id}), step {live.name}")
    done: asyncio.Future[None] = loop.create_future()
    task.add_done_callback(lambda t: _ended(t, done))
    live.over(done)
    record.body, record.body_done = task, done
    if record.cancel_requested:
        stop_body(record)
    try:
        await done
        with record.lock:
            record.suspended = False
        if record.cancel_requested:
            return asyncio.CancelledError()
        if live.broken is not None:
            return live.broken
        if task.cancelled() or not task.done():
            return _Canceled(f"The code of {live.name!r} was canceled from inside.")
        exc = task.exception()
        if exc is not None:
            record.exception = exc
            return explain(tame(exc), record.loop)
        return None
    finally:
        record.body = None
        live.end(OwnershipLost(f"The call of {live.name!r} is over: what it was given ended with it."))


async def judge(record: RunRecord, move: Move, verdict: Awaitable[Any], *, host: Host) -> Any:
    """The verdict of an async guard. It has its transition's time-out, and a cancel of the run stops it, as they do a body.

    Raises:
        MoveTimedOut: it took too long.
    """
    task = host.loop.create_task(_async_body(lambda: verdict))
    task.set_name(f"run {record.workflow} ({record.id}), guard {move.guard_name} of {move.name}")
    if await _supervised(record, task, move.timeout, lambda: None, host=host):
        raise MoveTimedOut(
            f"The guard {move.guard_name!r} of {move.name!r} took longer than {move.timeout:g} ms and was stopped.",
            advice=f"Give it more time with @loom.transition(timeout=…), now {move.timeout:g} ms, or make it shorter.",
        )
    if not task.done() or task.cancelled():
        raise _Canceled(f"The guard {move.guard_name!r} of {move.name!r} was canceled.")
    return task.result()


async def _supervised(
    record: RunRecord, task: asyncio.Task[Any], within: float, revoke: Callable[[], None], *, host: Host
) -> bool:
    """Wait for a task of the run, which a time-out or a cancel may stop; whether the time-out did."""
    record.body = task
    done: asyncio.Future[None] = host.loop.create_future()
    task.add_done_callback(lambda t: _ended(t, done))
    timed_out = False

    def expire() -> None:
        nonlocal timed_out
        timed_out = True
        revoke()
        task.cancel()
        _leave_behind(done)

    timer = host.loop.call_later(within / 1000, expire) if within else None
    record.body_done = done
    if record.cancel_requested:
        stop_body(record)
    try:
        await done
    finally:
        record.body = None
        if timer is not None:
            timer.cancel()
    return timed_out


async def _async_body(call: Callable[[], Any]) -> Any:
    try:
        value = call()
        return await value if inspect.isawaitable(value) else value
    except (SystemExit, KeyboardInterrupt) as exc:  # these two would pass through the task and end the loop of every run
        raise tame(exc) from exc


async def _sync_body(call: Callable[[], Any], workers: Workers) -> Any:
    value = await asyncio.wrap_future(workers.submit(call))
    return await _async_body(lambda: value)


def stop_body(record: RunRecord) -> None:
    """Take the access of a running body away and cancel it. On its loop."""
    if record.attempt is not None:
        record.attempt.revoke()
        if record.attempt.live is not None:
            record.attempt.live.end(StepError("The run was stopped.", code="RUN_STOPPED"))
            return
    if record.body is not None and record.body_done is not None:
        record.body.cancel()
        _leave_behind(record.body_done)


class _Canceled(LoomError):
    code = "MOVE_FAILED"


def _ended(task: asyncio.Task[Any], done: asyncio.Future[None]) -> None:
    if not task.cancelled():
        task.exception()  # looked at, or asyncio complains about the late error of a body that was left behind
    _resolve(done)


def _resolve(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _leave_behind(done: asyncio.Future[None]) -> None:
    """A canceled body gets its grace for finally blocks; then the run goes on without it."""
    done.get_loop().call_later(_GRACE, _resolve, done)
