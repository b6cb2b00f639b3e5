"""The runs of agents that an agent asks, on the journal: each is a run of its own, found again by the call that asked for it.

The key of such a run is the call's idempotency key, so a turn that is made again in another kernel finds the run, and waits on:
nothing is asked twice. Its approvals are questions of its own; `loom.pending()` lists them. An awaited one stands below the run
that asks, and is stopped with it; a detached one is a run like any other, and delivers its answer when it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from loomnb.agents.delegation import StartAgent, call_id_of, receipt_of
from loomnb.agents.journal_store import JournalAgentStore
from loomnb.agents.spi import Actor
from loomnb.errors import Conflict, NotFound, StoreClosed
from loomnb.jsonvalue import dumps
from loomnb.runtime import FINISHED, LiveCall, Run, Status

__all__ = ["ChildRuns"]

_TICK = 0.2  # seconds; whoever closes the store tells nobody


class ChildRuns:
    """Starts and awaits the runs that one run's calls ask for.

    Args:
        live: the access of the asking run's step.
        store: where the threads are.
        thread_id: the asking thread, into which detached answers come.
        start_agent: starts them; None: it cannot be done here.
    """

    def __init__(self, live: LiveCall, store: JournalAgentStore, thread_id: str, start_agent: StartAgent | None) -> None:
        self._live = live
        self._record = live.record
        self._store = store
        self._thread_id = thread_id
        self._start_agent = start_agent

    async def run(self, name: str, task: str) -> Mapping[str, Any]:
        """The answer of an agent, as `{"text"}`.

        Raises:
            NotFound: there is no such agent.
            RunFailed: its run failed, was stopped, or was interrupted.
        """
        call_id = call_id_of()
        below = hashlib.sha256(call_id.encode()).hexdigest()[:8]
        run = await self._started(name, task, call_id, {}, f"{self._record.id}.{below}")
        if run.status in (Status.FAILED, Status.INTERRUPTED):
            with contextlib.suppress(Conflict):  # it goes on by itself
                run.retry()
        await _over(run)
        await run  # raises for one that did not come to its end
        said: Mapping[str, Any] = run.result
        text = said["text"]
        return {"text": text if text.strip() or said.get("object") is None else dumps(said["object"])}

    async def start(self, name: str, task: str, call_id: str) -> Mapping[str, str]:
        """Start an agent, or find it; `{"runId"}`. Its answer is posted in the asking thread.

        Raises:
            NotFound: there is no such agent.
        """
        deliver = {"threadId": self._thread_id, "toolCallId": call_id}
        own = hashlib.sha256(f"{self._record.id}:{call_id}".encode()).hexdigest()[:12]
        run = await self._started(name, task, call_id, {"deliver": deliver}, f"run-{own}")
        return {"runId": run.id}

    async def _started(self, name: str, task: str, call_id: str, more: Mapping[str, Any], run_id: str) -> Run:
        """Start it, or find it: on a thread, for it is durable when that returns, and the loop moves other runs meanwhile.

        The call that asks for it is stored before: no run is there that nobody asked for, and no answer before its call.
        """
        await self._live.flush()
        starting = self._live.engine.readers.submit(self._start, name, task, call_id, more, run_id)
        try:
            return await asyncio.wrap_future(starting)
        except asyncio.CancelledError:
            if not more:
                starting.add_done_callback(self._stop_late)
            raise

    def _stop_late(self, starting: Future[Run]) -> None:
        """The asking run was stopped while this one was being started: nobody waits for it."""
        if not starting.cancelled() and starting.exception() is None and self._record.cancel_requested:
            run = starting.result()
            run.runtime.cancel(run.record)

    def _start(self, name: str, task: str, call_id: str, more: Mapping[str, Any], run_id: str) -> Run:
        if self._start_agent is None:
            raise NotFound(f"Nothing runs the agent {name!r} here.")
        key = f"{self._record.id}:{call_id}"
        args = {**self._args(name, task, key), **more}
        self._know_thread(args, name)
        self._receipt(name, call_id, args, run_id)
        try:
            return self._start_agent(name, args, key=key, run_id=run_id, fresh=False, parent=self._record)
        except Conflict:
            # The step was begun anew, and its model asks for something else by the same call: that is another task.
            run_id = f"{run_id}-{self._record.source.new_id('child')}"
            self._receipt(name, call_id, args, run_id)
            return self._start_agent(name, args, key=key, run_id=run_id, fresh=True, parent=self._record)

    def _receipt(self, name: str, call_id: str, args: Mapping[str, Any], run_id: str) -> None:
        """Put the receipt of a detached run on its call's row before there is such a run: its answer is to come after that."""
        begun = "select 1 from journal where kind = 'run.started' and run_id = ? limit 1"
        if "deliver" not in args or self._live.engine.database.read(begun, [run_id]):
            return
        changes = {"output": receipt_of(name, run_id)}
        self._store.now(self._store.update_call_of_run(self._thread_id, self._record.id, call_id, changes))

    def _args(self, name: str, task: str, key: str) -> dict[str, Any]:
        """The same person, one deeper, in a thread of its own that follows from the call and the task."""
        mine: Mapping[str, Any] = self._record.loaded_args
        thread = hashlib.sha256(f"{name}/{key}/{task}".encode()).hexdigest()[:12]
        kept = {field: mine[field] for field in ("actor", "roles", "tenant", "day") if mine.get(field) is not None}
        path = [*mine.get("path", ()), self._record.workflow]
        asked = {"text": task, "depth": mine.get("depth", 0) + 1, "path": path, "parent": self._record.id}
        return {"thread": f"thread-{thread}", **kept, **asked}

    def _know_thread(self, args: Mapping[str, Any], name: str) -> None:
        """Make the thread, unless it is there. It is transient: what agents say to one another is listed nowhere."""
        roles = args.get("roles")
        actor = Actor(
            id=args.get("actor", "local"), roles=tuple(roles) if roles is not None else None, tenant_ref=args.get("tenant")
        )

        async def known() -> None:
            if await self._store.get_thread(args["thread"]) is None:
                await self._store.create_thread(actor=actor, id=args["thread"], agent_name=name, transient=True)

        self._store.now(known())


async def _over(run: Run) -> None:
    """Wait for the end of a run, however long it waits for people: who looks for one is whoever waits for the asking run.

    Raises:
        StoreClosed: the store was closed before.
    """
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def told(_: str) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone
            loop.call_soon_threadsafe(news.set)

    run.record.watchers.append(told)
    try:
        while run.status not in FINISHED and (run.status is not Status.INTERRUPTED or run.record.is_moving):
            if run.runtime.closed:
                raise StoreClosed(f"The store was closed while the run {run.id} was {run.status}.")
            news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), _TICK)
    finally:
        with contextlib.suppress(ValueError):
            run.record.watchers.remove(told)
