"""Threads, messages and calls of agents in the store file: rows of the journal, like everything else that happens.

What a thread says stands in the journal under the thread's id, and only ever as rows that are added; `threads`, `messages`,
`tool_calls`, `model_usage` and `agent_runs` are views over them (store/schema.py). In memory it is the store of
`memory_store.py`, filled thread by thread when one is first needed: so both do the same, by the same code.

A row that is written inside a checkpoint is committed with that checkpoint's own record (`collecting`): both are there after a
crash, or neither, and a replay writes none twice.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from loomnb.agents.memory_rows import StoredCall, StoredThread
from loomnb.agents.memory_store import InMemoryAgentStore
from loomnb.agents.rows import RunRow, RunStatus
from loomnb.agents.spi import Actor, ChatMessage, ModelPrice, Thread, ToolCallRow, UsageRow, camel, finished
from loomnb.errors import LoomError
from loomnb.ids import Source
from loomnb.jsonvalue import dumps, freeze, loads
from loomnb.store import Database, Row

__all__ = ["JournalAgentStore", "JournalPricing", "agent_store_of", "collecting", "put_row"]

T = TypeVar("T")

_ROWS: contextvars.ContextVar[list[Row] | None] = contextvars.ContextVar("loom_agent_rows", default=None)
"""Where the rows of the checkpoint go that is being made in this context."""

_PRICES = "prices"
"""Stands for a thread's id in the rows of prices."""


@contextlib.contextmanager
def collecting() -> Generator[list[Row]]:
    """Take the rows that are written within, to commit them together with something else."""
    rows: list[Row] = []
    token = _ROWS.set(rows)
    try:
        yield rows
    finally:
        _ROWS.reset(token)


def put_row(database: Database, row: Row) -> None:
    """Write a row: with the checkpoint that is being made in this context, else at once. Then it is durable when this returns.

    Raises:
        StoreClosed: the store was closed.
    """
    rows = _ROWS.get()
    if rows is not None:
        rows.append(row)
    else:
        database.commit([row])


class _Lazy(dict[str, StoredThread]):
    """Threads by id, read from the journal when they are first asked for."""

    def __init__(self, load: Callable[[str], None]) -> None:
        super().__init__()
        self._load = load
        self._asked: set[str] = set()

    def _there(self, key: object) -> None:
        if isinstance(key, str) and key not in self._asked:
            self._asked.add(key)
            self._load(key)

    def forget(self, key: str) -> None:
        """Read it anew when it is asked for next."""
        self._asked.discard(key)
        self.pop(key, None)

    def __contains__(self, key: object) -> bool:
        self._there(key)
        return super().__contains__(key)

    def __getitem__(self, key: str) -> StoredThread:
        self._there(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The thread of an id."""
        self._there(key)
        return super().get(key, default)


class JournalAgentStore(InMemoryAgentStore):
    """An `AgentStore` in a DuckDB file. See the module.

    Args:
        database: the store file.
        source: ids and clock.
    """

    def __init__(self, database: Database, source: Source) -> None:
        super().__init__(source)
        self._database = database
        self._guard = threading.RLock()  # cells and the loop of the runs write, each on a thread of its own
        self._threads: dict[str, StoredThread] = _Lazy(self._load_thread)
        self._runs_asked: set[str] = set()

    # -- writing ----------------------------------------------------------------------------------

    def _log(self, thread_id: str, kind: str, body: Mapping[str, Any]) -> None:
        row = (thread_id, kind, dumps(body))
        rows = _ROWS.get()
        if rows is not None:
            rows.append(row)
        else:
            self._database.put([row], lambda error, _: self._lost(thread_id, error))

    def _lost(self, thread_id: str, error: LoomError | None) -> None:
        if error is not None:
            self.forget(thread_id)

    def forget(self, thread_id: str) -> None:
        """Read a thread anew when it is needed next: what is in memory of it was not stored."""
        with self._guard:
            for message in self._messages.pop(thread_id, ()):
                self._home.pop(message.id or "", None)
            for place in [place for place in self._calls if place[0] == thread_id]:
                del self._calls[place]
            for name in [name for name, place in self._latest.items() if place[0] == thread_id]:
                del self._latest[name]
            assert isinstance(self._threads, _Lazy)
            self._threads.forget(thread_id)

    def now(self, make: Coroutine[Any, Any, T]) -> T:
        """Do something with this store from a cell, whole or not at all, and wait until it is durable.

        Args:
            make: a coroutine of one of the methods here, which wait for nothing.

        Raises:
            LoomError: it was refused, or could not be stored.
        """
        with collecting() as rows:
            value = finished(make)
        if rows:
            try:
                self._database.commit(rows)
            except LoomError:
                for thread_id in {row[0] for row in rows}:
                    self.forget(thread_id)
                raise
        return value

    # -- threads ----------------------------------------------------------------------------------

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
        with self._guard:
            thread = await super().create_thread(
                actor=actor, id=id, title=title, transient=transient, agent_name=agent_name, model=model
            )
            self._log(thread.id, "thread.created", _thread_json(thread))
            return thread

    async def list_threads(self, actor: Actor, limit: int = 50) -> tuple[Thread, ...]:
        """Somebody's threads without their messages, the one that changed last first; transient ones are left out."""
        rows = self._database.read(
            "select thread_id from threads where actor_ref = ? and tenant_ref is not distinct from ? and not is_deleted "
            "and not is_transient order by seq desc limit ?",
            [actor.id, actor.tenant_ref, max(limit, 0)],
        )
        with self._guard:
            return tuple(self._threads[thread_id].thread for (thread_id,) in rows if thread_id in self._threads)

    async def soft_delete_thread(self, thread_id: str) -> None:
        """Delete a thread for everybody. As in memory."""
        with self._guard:
            await super().soft_delete_thread(thread_id)
            self._log(thread_id, "thread.changed", {"deleted": True})

    async def fork_thread(self, thread_id: str, from_message: str) -> Thread:
        """A new thread that begins as another, up to a message. As in memory."""
        with self._guard:
            thread = await super().fork_thread(thread_id, from_message)
            if thread.persona is not None:
                self._log(thread.id, "thread.changed", {"persona": thread.persona})
            for message in self._messages[thread.id]:
                self._log(thread.id, "message.added", message.to_json())
            return thread

    async def update_thread(self, thread_id: str, **changes: str | None) -> None:
        """Change what a thread is called and who answers in it. As in memory."""
        with self._guard:
            await super().update_thread(thread_id, **changes)
            self._log(thread_id, "thread.changed", {camel(name): value for name, value in changes.items()})

    async def promote_thread(self, thread_id: str) -> None:
        """Let a transient thread be listed. As in memory."""
        with self._guard:
            was = self._live(thread_id).thread.transient
            await super().promote_thread(thread_id)
            if was:
                self._log(thread_id, "thread.changed", {"transient": False})

    # -- messages ---------------------------------------------------------------------------------

    async def append_message(self, thread_id: str, message: ChatMessage) -> str:
        """Store a message at the end of a thread. As in memory."""
        with self._guard:
            before = len(self._messages.get(thread_id, ())) if thread_id in self._threads else 0
            message_id = await super().append_message(thread_id, message)
            kept = self._messages[thread_id]
            if len(kept) > before:
                self._log(thread_id, "message.added", kept[-1].to_json())
            return message_id

    def _change(self, message_id: str, **changes: Any) -> None:
        with self._guard:
            self._find_message(message_id)
            super()._change(message_id, **changes)
            body = {"id": message_id, **{camel(name): value for name, value in changes.items()}}
            self._log(self._home[message_id], "message.changed", body)

    async def thread_of_message(self, message_id: str) -> str | None:
        """In which thread it stands. As in memory."""
        with self._guard:
            self._find_message(message_id)
            return await super().thread_of_message(message_id)

    async def truncate_from(self, thread_id: str, message_id: str) -> None:
        """Delete a message and all after it. As in memory."""
        with self._guard:
            before = [m.id for m in self._messages[thread_id]] if thread_id in self._threads else []
            await super().truncate_from(thread_id, message_id)
            gone = before[len(self._messages[thread_id]) :]
            self._log(thread_id, "message.removed", {"ids": gone})

    def _find_message(self, message_id: str) -> None:
        """Read the thread of a message, if it is not in memory."""
        if message_id not in self._home:
            for (thread_id,) in self._database.read(
                "select run_id from journal where kind = 'message.added' and body->>'id' = ?", [message_id]
            ):
                _ = thread_id in self._threads

    # -- calls, usage, runs -------------------------------------------------------------------------

    async def record_tool_call(self, row: ToolCallRow) -> None:
        """Write a row of a call. As in memory."""
        with self._guard:
            await super().record_tool_call(row)
            self._log(row.thread_id, "toolcall.recorded", row.to_json())

    async def update_tool_call(self, tool_call_id: str, changes: Mapping[str, Any]) -> None:
        """Change the row of a call. As in memory."""
        with self._guard:
            self._find_call(tool_call_id)
            await super().update_tool_call(tool_call_id, changes)
            row = self._call(tool_call_id)[1].row
            body = {"id": tool_call_id, "runId": row.run_id, **{camel(name): value for name, value in changes.items()}}
            self._log(row.thread_id, "toolcall.changed", body)

    async def owner_of_tool_call(self, tool_call_id: str) -> str | None:
        """Whose thread a call is in. As in memory."""
        with self._guard:
            self._find_call(tool_call_id)
            return await super().owner_of_tool_call(tool_call_id)

    async def run_for_tool_call(self, tool_call_id: str) -> str | None:
        """Which run made a call. As in memory."""
        with self._guard:
            self._find_call(tool_call_id)
            return await super().run_for_tool_call(tool_call_id)

    async def tool_call_outcomes(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """What became of calls. As in memory."""
        with self._guard:
            for tool_call_id in ids:
                self._find_call(tool_call_id)
            return await super().tool_call_outcomes(ids)

    async def tool_call_approval(self, tool_call_id: str) -> dict[str, Any] | None:
        """The approval of a call. As in memory."""
        with self._guard:
            self._find_call(tool_call_id)
            return await super().tool_call_approval(tool_call_id)

    async def tool_call_input(self, tool_call_id: str) -> Any:
        """The arguments of a call. As in memory."""
        with self._guard:
            self._find_call(tool_call_id)
            return await super().tool_call_input(tool_call_id)

    async def fail_unsettled_tool_calls(self, run_id: str, error: str) -> int:
        """Fail the calls of a run that nobody decided on. As in memory."""
        with self._guard:
            await self.thread_of_run(run_id)
            waiting = [s.row for s in self._calls.values() if s.row.run_id == run_id and s.row.status == "pending_approval"]
            count = await super().fail_unsettled_tool_calls(run_id, error)
            for row in waiting:
                body = {"id": row.id, "runId": run_id, "status": "failed", "error": error}
                self._log(row.thread_id, "toolcall.changed", body)
            return count

    async def remembered_approvals(self, thread_id: str) -> tuple[str, ...]:
        """Tools that need no approval any more in a thread. As in memory."""
        with self._guard:
            _ = thread_id in self._threads
            return await super().remembered_approvals(thread_id)

    def _find_call(self, tool_call_id: str) -> None:
        if tool_call_id not in self._latest:
            for (thread_id,) in self._database.read(
                "select run_id from journal where kind = 'toolcall.recorded' and body->>'id' = ? order by seq", [tool_call_id]
            ):
                _ = thread_id in self._threads

    async def record_usage(self, row: UsageRow) -> None:
        """Book what a call of a model used."""
        at = row.at or self.source.now().isoformat()
        self._log(row.thread_id, "usage.recorded", replace(row, at=at).to_json())

    async def usage_between(self, actor: Actor, start: datetime, end: datetime) -> dict[str, Any]:
        """What somebody used. As in memory; what was recorded a moment ago may not be in it yet."""
        rows = self._database.read(
            "select body from journal where kind = 'usage.recorded' and body->>'actorRef' = ? "
            "and (body->>'at')::timestamptz >= ? and (body->>'at')::timestamptz < ? order by seq",
            [actor.id, start.astimezone(UTC), end.astimezone(UTC)],
        )
        memory = InMemoryAgentStore(self.source)
        memory._usage.extend(_usage_of(loads(body)) for (body,) in rows)  # noqa: SLF001  # the same sums, by the same code
        return await memory.usage_between(actor, start, end)

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
        with self._guard:
            self._find_run(run_id)
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
        with self._guard:
            self._find_run(run_id)
            before = self._runs.get(run_id)
            await super().record_run_end(
                run_id, status=status, error_code=error_code, error_message=error_message, duration_ms=duration_ms
            )
            if self._runs.get(run_id) != before:
                self._log_run(run_id)

    async def bump_run_retries(self, run_id: str) -> None:
        """Count one more time that a run was taken up again; it goes on from here."""
        with self._guard:
            self._find_run(run_id)
            await super().bump_run_retries(run_id)
            row = self._runs.get(run_id)
            if row is not None:
                self._runs[run_id] = replace(
                    row, status="running", error_code=None, error_message=None, ended_at=None, duration_ms=None
                )
                self._log_run(run_id)

    async def thread_of_run(self, run_id: str) -> str | None:
        """In which thread a run was. As in memory."""
        with self._guard:
            self._find_run(run_id)
            found = await super().thread_of_run(run_id)
            _ = found is not None and found in self._threads
            return found

    def _log_run(self, run_id: str) -> None:
        row = self._runs[run_id]
        told = {camel(name): value for name, value in asdict(row).items() if value is not None}
        self._log(row.thread_id, "agent.run", told)

    def _find_run(self, run_id: str) -> None:
        if run_id in self._runs or run_id in self._runs_asked:
            return
        self._runs_asked.add(run_id)
        rows = self._database.read(
            "select body from journal where kind = 'agent.run' and body->>'runId' = ? order by seq desc limit 1", [run_id]
        )
        for (body,) in rows:
            self._runs[run_id] = _run_of(loads(body))

    # -- reading ------------------------------------------------------------------------------------

    def _load_thread(self, thread_id: str) -> None:
        rows = self._database.read(
            "select kind, body, ts from journal where run_id = ? and kind in "
            "('thread.created', 'thread.changed', 'message.added', 'message.changed', 'message.removed', 'toolcall.recorded', "
            "'toolcall.changed') order by seq",
            [thread_id],
        )
        with self._guard:
            for kind, body, ts in rows:
                self._apply(thread_id, kind, loads(body), ts)

    def _apply(self, thread_id: str, kind: str, body: dict[str, Any], ts: datetime) -> None:
        """What a row of the journal means."""
        threads = self._threads
        if kind == "thread.created":
            dict.__setitem__(threads, thread_id, StoredThread(thread=_thread_of(thread_id, body, ts)))
            self._messages[thread_id] = []
            return
        stored = dict.get(threads, thread_id)
        if stored is None:
            return
        stored.thread = replace(stored.thread, updated_at=ts)
        match kind:
            case "thread.changed":
                stored.deleted = body.pop("deleted", stored.deleted)
                stored.thread = replace(stored.thread, **{_snake(name): value for name, value in body.items()})
            case "message.added":
                self._keep(thread_id, ChatMessage.from_json(freeze(body)))
            case "message.changed":
                self._apply_change(thread_id, freeze(body))
            case "message.removed":
                gone = set(body["ids"])
                for message_id in gone:
                    self._home.pop(message_id, None)
                self._messages[thread_id] = [m for m in self._messages[thread_id] if m.id not in gone]
            case "toolcall.recorded":
                row = ToolCallRow.from_json(freeze(body))
                place = (thread_id, row.run_id, row.id)
                self._calls[place] = StoredCall(row=row, recorded_at=ts, updated_at=ts)
                self._latest[row.id] = place
            case _:
                place = (thread_id, body.pop("runId", None), body.pop("id"))
                held = self._calls.get(place)
                if held is not None:
                    changes = {_snake(name): freeze(value) for name, value in body.items()}
                    self._calls[place] = replace(held, row=replace(held.row, **changes), updated_at=ts)

    def _apply_change(self, thread_id: str, body: Mapping[str, Any]) -> None:
        messages = self._messages[thread_id]
        for index, message in enumerate(messages):
            if message.id == body["id"]:
                changes = {_snake(name): value for name, value in body.items() if name != "id"}
                messages[index] = replace(message, **changes)


class JournalPricing:
    """What models cost, in the store file: an `AgentPricingStore`.

    Args:
        database: the store file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def upsert_model_price(self, price: ModelPrice) -> None:
        """Supersede the price of a model.

        Raises:
            StoreClosed: the store was closed.
        """
        body = {camel(one.name): getattr(price, one.name) for one in fields(price)}
        row = (_PRICES, "price.set", dumps(body))
        rows = _ROWS.get()
        if rows is not None:
            rows.append(row)
        else:
            self._database.put([row], lambda *_: None)

    async def list_current_prices(self) -> Sequence[ModelPrice]:
        """Every model's price, by name."""
        rows = self._database.read(
            "select model_id, input_price_per_1m, output_price_per_1m, cache_write_price_per_1m, cache_read_price_per_1m "
            "from model_prices order by model_id"
        )
        return [ModelPrice(**dict(zip([one.name for one in fields(ModelPrice)], row, strict=True))) for row in rows]


_STORES: weakref.WeakKeyDictionary[Database, JournalAgentStore] = weakref.WeakKeyDictionary()


def agent_store_of(database: Database, source: Source) -> JournalAgentStore:
    """The one store of threads of a store file, in this process."""
    found = _STORES.get(database)
    if found is None:
        found = _STORES[database] = JournalAgentStore(database, source)
    return found


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def _thread_json(thread: Thread) -> dict[str, Any]:
    names = ("actor_ref", "tenant_ref", "title", "transient", "agent_name", "model", "persona")
    return {camel(name): getattr(thread, name) for name in names if getattr(thread, name) is not None}


def _thread_of(thread_id: str, body: Mapping[str, Any], ts: datetime) -> Thread:
    return Thread(id=thread_id, created_at=ts, updated_at=ts, **{_snake(name): value for name, value in body.items()})


def _run_of(body: Mapping[str, Any]) -> RunRow:
    return RunRow(**{_snake(name): value for name, value in body.items()})


def _usage_of(body: Mapping[str, Any]) -> UsageRow:
    return UsageRow(**{_snake(name): value for name, value in body.items()})
