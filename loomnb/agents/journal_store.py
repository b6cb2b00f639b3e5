"""Threads, messages and calls of agents in the store file: rows of the journal, like everything else that happens.

What a thread says stands in the journal under the thread's id, and only ever as rows that are added; `threads`, `messages`,
`tool_calls`, `model_usage` and `agent_runs` are views over them (store/agent_views.py). In memory it is the store of
`memory_store.py`, filled thread by thread when one is first needed (`journal_reading.py`): so both do the same, by the same code.

A row that is written inside a checkpoint is committed with that checkpoint's own record (`journal_batch.py`): both are there
after a crash, or neither, and a replay writes none twice. Which run a thread streams is not stored: it ends with the process.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

from loomnb.agents.journal_batch import collecting, collector
from loomnb.agents.journal_pricing import JournalPricing
from loomnb.agents.journal_reading import JournalReading, guarded
from loomnb.agents.results import STOPPED
from loomnb.agents.rows import RunStatus, was_decided
from loomnb.agents.spi import Actor, ChatMessage, Thread, ToolCallRow, UsageRow, camel, finished
from loomnb.errors import LoomError
from loomnb.ids import Source
from loomnb.jsonvalue import dumps, freeze
from loomnb.store import Database

__all__ = ["JournalAgentStore", "JournalPricing", "agent_store_of", "collecting"]

T = TypeVar("T")


@guarded
class JournalAgentStore(JournalReading):
    """An `AgentStore` in a DuckDB file. See the module. Any thread may use it.

    What is written by itself is durable when it returns, and blocks for a commit's time; several things are written as one by
    `now`. Each method refuses what the store in memory refuses, and raises WorldFailed or StoreClosed when it cannot be stored.

    Args:
        database: the store file.
        source: ids and clock.
    """

    def _may_write(self) -> None:
        """Refuse before anything is changed in memory, when what writes here was stopped."""
        here = collector()
        if here is not None:
            here.check()

    def _log(self, thread_id: str, kind: str, body: Mapping[str, Any]) -> None:
        row = (thread_id, kind, dumps(body))
        here = collector()
        if here is not None:
            here.rows.append(row)
            return
        try:
            self._database.commit([row])
        except LoomError:
            self.forget(thread_id)
            raise

    @property
    def database(self) -> Database:
        """The store file."""
        return self._database

    def now(self, make: Coroutine[Any, Any, T]) -> T:
        """Do something with this store from a cell, whole or not at all, and wait until it is durable.

        Args:
            make: a coroutine of the methods here, which wait for nothing.

        Raises:
            LoomError: it was refused, or could not be stored.
        """
        with collecting() as rows:
            try:
                value = finished(make)
                if rows:
                    self._database.commit(rows)
            except BaseException:
                for thread_id in {row[0] for row in rows}:
                    self.forget(thread_id)
                raise
        return value

    # -- threads ----------------------------------------------------------------------------------

    def new_thread_id(self) -> str:
        """An id for a thread that is to be made: nothing stands in the journal about it, so nothing is looked for."""
        made = self.source.new_id("thread")
        self._lazy.is_new(made)
        return made

    async def create_thread(
        self,
        *,
        actor: Actor,
        id: str | None = None,  # noqa: A002  # the contract's word
        title: str = "New chat",
        transient: bool = False,
        agent_name: str | None = None,
        model: str | None = None,
    ) -> Thread:
        """A new thread of somebody. As in memory."""
        self._may_write()
        if id is None:
            id = self.new_thread_id()  # noqa: A001
        thread = await super().create_thread(
            actor=actor, id=id, title=title, transient=transient, agent_name=agent_name, model=model
        )
        self._log(thread.id, "thread.created", _thread_json(thread))
        return thread

    async def soft_delete_thread(self, thread_id: str) -> None:
        """Delete a thread for everybody. As in memory."""
        self._may_write()
        was = thread_id in self._threads and self._threads[thread_id].deleted
        await super().soft_delete_thread(thread_id)
        if not was:
            self._log(thread_id, "thread.changed", {"deleted": True})

    async def fork_thread(self, thread_id: str, from_message: str) -> Thread:
        """A new thread that begins as another, up to a message. As in memory."""
        self._may_write()
        thread = await super().fork_thread(thread_id, from_message)
        if thread.persona is not None:
            self._log(thread.id, "thread.changed", {"persona": thread.persona})
        for message in self._messages[thread.id]:
            self._log(thread.id, "message.added", message.to_json())
        return thread

    async def update_thread(self, thread_id: str, **changes: str | None) -> None:
        """Change what a thread is called and who answers in it. As in memory."""
        self._may_write()
        await super().update_thread(thread_id, **changes)
        thread = self._threads[thread_id].thread
        self._log(thread_id, "thread.changed", {camel(name): getattr(thread, name) for name in changes})

    async def promote_thread(self, thread_id: str) -> None:
        """Let a transient thread be listed. As in memory."""
        self._may_write()
        was = self._live(thread_id).thread.transient
        await super().promote_thread(thread_id)
        if was:
            self._log(thread_id, "thread.changed", {"transient": False})

    # -- messages ---------------------------------------------------------------------------------

    async def append_message(self, thread_id: str, message: ChatMessage) -> str:
        """Store a message at the end of a thread. As in memory."""
        self._may_write()
        if message.id is not None:
            self._find_message(message.id)
        before = len(self._messages.get(thread_id, ())) if thread_id in self._threads else 0
        message_id = await super().append_message(thread_id, message)
        kept = self._messages[thread_id]
        if len(kept) > before:
            self._log(thread_id, "message.added", kept[-1].to_json())
        return message_id

    def _change(self, message_id: str, **changes: Any) -> None:
        self._may_write()
        self._find_message(message_id)
        super()._change(message_id, **changes)
        body = {"id": message_id, **{camel(name): value for name, value in changes.items()}}
        self._log(self._home[message_id], "message.changed", body)

    async def truncate_from(self, thread_id: str, message_id: str) -> None:
        """Delete a message and all after it. As in memory."""
        self._may_write()
        before = [m.id for m in self._messages[thread_id]] if thread_id in self._threads else []
        await super().truncate_from(thread_id, message_id)
        gone = before[len(self._messages[thread_id]) :]
        self._log(thread_id, "message.removed", {"ids": gone})

    # -- calls, usage, runs -------------------------------------------------------------------------

    async def record_tool_call(self, row: ToolCallRow) -> None:
        """Write a row of a call. As in memory."""
        self._may_write()
        await super().record_tool_call(row)
        self._log(row.thread_id, "toolcall.recorded", row.to_json())

    async def update_tool_call(self, tool_call_id: str, changes: Mapping[str, Any]) -> None:
        """Change the row of a call. As in memory."""
        self._may_write()
        await super().update_tool_call(tool_call_id, changes)
        row = self._call(tool_call_id)[1].row
        body = {**{camel(name): value for name, value in changes.items()}, "id": tool_call_id, "runId": row.run_id}
        self._log(row.thread_id, "toolcall.changed", body)

    async def update_call_of_run(self, thread_id: str, run_id: str | None, tool_call_id: str, changes: Mapping[str, Any]) -> bool:
        """Change the row of a call that a run made. As in memory."""
        self._may_write()
        _ = thread_id in self._threads
        place = self._place_of(thread_id, run_id, tool_call_id)
        found = await super().update_call_of_run(thread_id, run_id, tool_call_id, changes)
        if found and place is not None:
            body = {**{camel(name): value for name, value in changes.items()}, "id": tool_call_id, "runId": place[1]}
            self._log(thread_id, "toolcall.changed", body)
        return found

    async def fail_unsettled_tool_calls(self, run_id: str, error: str) -> int:
        """Fail the calls of a run that nobody decided on. As in memory."""
        self._may_write()
        self._find_run(run_id)
        waiting = [s.row for s in self._calls.values() if s.row.run_id == run_id and s.row.status == "pending_approval"]
        count = await super().fail_unsettled_tool_calls(run_id, error)
        for row in waiting:
            body = {"id": row.id, "runId": run_id, "status": "failed", "error": STOPPED if was_decided(row) else error}
            self._log(row.thread_id, "toolcall.changed", body)
        return count

    async def record_lost_usage(self, row: UsageRow) -> None:
        """Book what a call used that was stopped or cut off, beside the checkpoint that failed; nothing waits for it."""
        body = replace(row, at=row.at or self.source.now().isoformat()).to_json()
        with contextlib.suppress(LoomError):  # the store is being closed
            self._database.put([(row.thread_id, "usage.recorded", dumps(body))], lambda *_: None)

    async def record_usage(self, row: UsageRow) -> None:
        """Book what a call of a model used. As in memory."""
        self._may_write()
        at = row.at or self.source.now().isoformat()
        body = replace(row, at=at).to_json()
        freeze(body)
        self._log(row.thread_id, "usage.recorded", body)

    async def record_run_start(
        self,
        *,
        run_id: str,
        thread_id: str,
        actor_ref: str,
        agent_name: str | None = None,
        parent_run_id: str | None = None,
        prompt_hash: str | None = None,
    ) -> None:
        """Write that a run goes on. As in memory."""
        self._may_write()
        _ = thread_id in self._threads  # with it come its runs
        about: dict[str, Any] = {"agent_name": agent_name, "parent_run_id": parent_run_id, "prompt_hash": prompt_hash}
        await super().record_run_start(run_id=run_id, thread_id=thread_id, actor_ref=actor_ref, **about)
        self._log_run(run_id)

    async def record_run_end(
        self,
        run_id: str,
        *,
        status: RunStatus,
        error_code: str | None = None,
        error_message: str | None = None,
        duration_ms: float | None = None,
    ) -> None:
        """Write how a run ended. As in memory."""
        self._may_write()
        self._find_run(run_id)
        before = self._runs.get(run_id)
        await super().record_run_end(
            run_id, status=status, error_code=error_code, error_message=error_message, duration_ms=duration_ms
        )
        if self._runs.get(run_id) != before:
            self._log_run(run_id)

    async def bump_run_retries(self, run_id: str) -> None:
        """Count one more time that a run was taken up again. As in memory."""
        self._may_write()
        self._find_run(run_id)
        await super().bump_run_retries(run_id)
        if run_id in self._runs:
            self._log_run(run_id)

    async def reopen_run(self, run_id: str) -> None:
        """A run that failed goes on: count that, and let it end anew. One that completed stays so."""
        self._may_write()
        self._find_run(run_id)
        row = self._runs.get(run_id)
        if row is not None and row.status != "completed":
            self._runs[run_id] = replace(
                row, status="running", error_code=None, error_message=None, ended_at=None, duration_ms=None
            )
        await self.bump_run_retries(run_id)

    def _log_run(self, run_id: str) -> None:
        row = self._runs[run_id]
        told = {camel(name): value for name, value in asdict(row).items() if value is not None}
        self._log(row.thread_id, "agent.run", told)


_STORES: weakref.WeakKeyDictionary[Database, JournalAgentStore] = weakref.WeakKeyDictionary()
_MAKING = threading.Lock()


def agent_store_of(database: Database, source: Source) -> JournalAgentStore:
    """The one store of threads of a store file, in this process."""
    with _MAKING:
        found = _STORES.get(database)
        if found is None:
            # It must not keep the file alive that it is found by.
            found = _STORES[database] = JournalAgentStore(weakref.proxy(database), source)
        return found


def _thread_json(thread: Thread) -> dict[str, Any]:
    names = ("actor_ref", "tenant_ref", "title", "transient", "agent_name", "model", "persona")
    return {camel(name): getattr(thread, name) for name in names if getattr(thread, name) is not None}
