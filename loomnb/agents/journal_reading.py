"""Threads of agents as the journal tells them: read into memory, thread by thread, when one is first asked for."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from loomnb.agents.memory_rows import StoredCall, StoredThread
from loomnb.agents.memory_store import InMemoryAgentStore
from loomnb.agents.rows import RunRow
from loomnb.agents.spi import Actor, ChatMessage, Thread, ToolCallRow, UsageRow
from loomnb.ids import Source
from loomnb.jsonvalue import freeze, loads
from loomnb.store import Database

__all__ = ["JournalReading", "guarded", "snake"]

_KINDS = (
    "'thread.created', 'thread.changed', 'message.added', 'message.changed', 'message.removed', 'toolcall.recorded', "
    "'toolcall.changed', 'agent.run'"
)

C = TypeVar("C", bound=type)


class Lazy(dict[str, StoredThread]):
    """Threads by id, read when they are first asked for. Who asks holds the store's lock."""

    def __init__(self, load: Callable[[str], None]) -> None:
        super().__init__()
        self._load = load
        self._asked: set[str] = set()

    def _there(self, key: object) -> None:
        if isinstance(key, str) and key not in self._asked:
            self._load(key)
            self._asked.add(key)

    def is_new(self, key: str) -> None:
        """Nothing stands in the journal about this id, which was made just now."""
        self._asked.add(key)

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


def guarded(cls: C) -> C:
    """Let each method that others call hold the store's lock: cells and the loop of the runs do so, each on a thread of its own.

    The coroutines among them wait for nothing, so none is left in the middle while it holds the lock.
    """
    for name in {name for base in cls.__mro__[:-1] for name in vars(base) if not name.startswith("_")}:
        method = inspect.getattr_static(cls, name)
        if inspect.isfunction(method):
            setattr(cls, name, _async(method) if inspect.iscoroutinefunction(method) else _sync(method))
    return cls


def _async(method: Any) -> Any:
    @functools.wraps(method)
    async def held(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.guard:
            return await method(self, *args, **kwargs)

    return held


def _sync(method: Any) -> Any:
    @functools.wraps(method)
    def held(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.guard:
            return method(self, *args, **kwargs)

    return held


class JournalReading(InMemoryAgentStore):
    """The reading half of `JournalAgentStore`: a store in memory that fills itself. Not for use by itself."""

    def __init__(self, database: Database, source: Source) -> None:
        super().__init__(source)
        self.guard = threading.RLock()
        self._database = database
        self._threads: dict[str, StoredThread] = Lazy(self._load_thread)

    def forget(self, thread_id: str) -> None:
        """Read a thread anew when it is needed next: what is in memory of it was not stored."""
        for message in self._messages.pop(thread_id, ()):
            self._home.pop(message.id or "", None)
        self._of_thread.pop(thread_id, None)
        for place in [place for place in self._calls if place[0] == thread_id]:
            del self._calls[place]
        for name in [name for name, place in self._latest.items() if place[0] == thread_id]:
            del self._latest[name]
        for run_id in [run_id for run_id, row in self._runs.items() if row.thread_id == thread_id]:
            del self._runs[run_id]
        self._lazy.forget(thread_id)

    @property
    def _lazy(self) -> Lazy:
        return cast("Lazy", self._threads)

    # -- what is looked for by another id than the thread's ------------------------------------------

    def _find_message(self, message_id: str) -> None:
        """Read the thread of a message, if it is not in memory."""
        if message_id not in self._home:
            self._load_where("kind = 'message.added' and body->>'id' = ?", message_id)

    def _find_call(self, tool_call_id: str) -> None:
        if tool_call_id not in self._latest:
            self._load_where("kind = 'toolcall.recorded' and body->>'id' = ?", tool_call_id)

    def _find_run(self, run_id: str) -> None:
        if run_id not in self._runs:
            self._load_where("kind = 'agent.run' and body->>'runId' = ?", run_id)

    def _load_where(self, condition: str, value: str) -> None:
        sql = f"select run_id from journal where {condition} group by run_id order by min(seq)"  # noqa: S608  # one of those above
        for (thread_id,) in self._database.read(sql, [value]):
            _ = thread_id in self._threads

    def _load_all(self) -> None:
        for (thread_id,) in self._database.read("select run_id from journal where kind = 'thread.created' order by seq"):
            _ = thread_id in self._threads

    async def list_threads(self, actor: Actor, limit: int = 50) -> tuple[Thread, ...]:
        """Somebody's threads without their messages, the one that changed last first; transient ones are left out."""
        rows = self._database.read(
            "select thread_id from threads where actor_ref = ? and tenant_ref is not distinct from ? and not is_deleted "
            "and not is_transient order by seq desc limit ?",
            [actor.id, actor.tenant_ref, max(limit, 0)],
        )
        return tuple(self._threads[thread_id].thread for (thread_id,) in rows if thread_id in self._threads)

    async def thread_of_message(self, message_id: str) -> str | None:
        """In which thread it stands. As in memory."""
        self._find_message(message_id)
        return await super().thread_of_message(message_id)

    async def referenced_media_ids(self) -> tuple[str, ...]:
        """Which staged files messages still need, sorted. Reads every thread."""
        self._load_all()
        return await super().referenced_media_ids()

    async def thread_of_run(self, run_id: str) -> str | None:
        """In which thread a run was. As in memory."""
        self._find_run(run_id)
        return await super().thread_of_run(run_id)

    def _row(self, tool_call_id: str) -> ToolCallRow | None:
        self._find_call(tool_call_id)
        return super()._row(tool_call_id)

    def _call(self, tool_call_id: str) -> Any:
        self._find_call(tool_call_id)
        return super()._call(tool_call_id)

    async def remembered_approvals(self, thread_id: str) -> tuple[str, ...]:
        """Tools that need no approval any more in a thread. As in memory."""
        _ = thread_id in self._threads
        return await super().remembered_approvals(thread_id)

    async def usage_between(self, actor: Actor, start: datetime, end: datetime) -> dict[str, Any]:
        """What somebody used. As in memory; of a turn under way, what is durable already."""
        rows = self._database.read(
            "select body from journal where kind = 'usage.recorded' and body->>'actorRef' = ? "
            "and (body->>'at')::timestamptz >= ? and (body->>'at')::timestamptz < ? order by seq",
            [actor.id, start.astimezone(UTC), end.astimezone(UTC)],
        )
        memory = InMemoryAgentStore(self.source)
        memory._usage.extend(_usage_of(loads(body)) for (body,) in rows)  # noqa: SLF001  # the same sums, by the same code
        return await memory.usage_between(actor, start, end)

    # -- for those who look ---------------------------------------------------------------------------

    def threads(self) -> tuple[tuple[Thread, bool], ...]:
        """Every thread without its messages, and whether it was deleted. Reads every thread."""
        self._load_all()
        return super().threads()

    def messages(self, thread_id: str) -> tuple[ChatMessage, ...]:
        """The messages of a thread. As in memory."""
        _ = thread_id in self._threads
        return super().messages(thread_id)

    def message_count(self, thread_id: str) -> int:
        """How many messages of a thread a person sees. As in memory."""
        _ = thread_id in self._threads
        return super().message_count(thread_id)

    def tool_calls(self, thread_id: str | None = None) -> tuple[ToolCallRow, ...]:
        """The rows of tool calls, of one thread or (which reads every thread) of all."""
        if thread_id is None:
            self._load_all()
            return super().tool_calls()
        _ = thread_id in self._threads
        return tuple(self._calls[place].row for place in self._of_thread.get(thread_id, ()))

    def stored_calls(self) -> tuple[StoredCall, ...]:
        """The same of all threads, with their times."""
        self._load_all()
        return super().stored_calls()

    def usage_rows(self) -> tuple[UsageRow, ...]:
        """What calls of models used, in the order it was recorded; as far as it is durable."""
        rows = self._database.read("select body from journal where kind = 'usage.recorded' order by seq")
        return tuple(_usage_of(loads(body)) for (body,) in rows)

    def runs(self) -> tuple[RunRow, ...]:
        """The runs, in the order they began. Reads every thread."""
        self._load_all()
        return super().runs()

    # -- what rows mean -------------------------------------------------------------------------------

    def _load_thread(self, thread_id: str) -> None:
        sql = f"select kind, body, ts from journal where run_id = ? and kind in ({_KINDS}) order by seq"  # noqa: S608  # as above
        for kind, body, ts in self._database.read(sql, [thread_id]):
            self._apply(thread_id, kind, loads(body), ts)

    def _apply(self, thread_id: str, kind: str, body: dict[str, Any], ts: datetime) -> None:
        """What a row of the journal means."""
        threads = self._threads
        if kind == "thread.created":
            dict.__setitem__(threads, thread_id, StoredThread(thread=_thread_of(thread_id, body, ts)))
            self._messages[thread_id] = []
            return
        if kind == "agent.run":
            self._runs[body["runId"]] = _run_of(body)
            return
        stored = dict.get(threads, thread_id)
        if stored is None:
            return
        match kind:
            case "thread.changed":
                stored.deleted = body.pop("deleted", stored.deleted)
                stored.thread = replace(stored.thread, updated_at=ts, **{snake(name): value for name, value in body.items()})
            case "message.added":
                stored.thread = replace(stored.thread, updated_at=ts)
                self._keep(thread_id, ChatMessage.from_json(freeze(body)))
            case "message.changed":
                self._apply_change(thread_id, freeze(body))
            case "message.removed":
                stored.thread = replace(stored.thread, updated_at=ts)
                gone = set(body["ids"])
                for message_id in gone:
                    self._home.pop(message_id, None)
                self._messages[thread_id] = [m for m in self._messages[thread_id] if m.id not in gone]
            case "toolcall.recorded":
                self._apply_call(thread_id, ToolCallRow.from_json(freeze(body)), ts)
            case _:
                place = (thread_id, body.pop("runId", None), body.pop("id"))
                held = self._calls.get(place)
                if held is not None:
                    changes = {snake(name): freeze(value) for name, value in body.items()}
                    self._calls[place] = replace(held, row=replace(held.row, **changes), updated_at=ts)

    def _apply_call(self, thread_id: str, row: ToolCallRow, ts: datetime) -> None:
        place = (thread_id, row.run_id, row.id)
        before = self._calls.get(place)
        self._calls[place] = StoredCall(row=row, recorded_at=before.recorded_at if before else ts, updated_at=ts)
        self._latest[row.id] = place
        self._of_thread.setdefault(thread_id, {})[place] = None

    def _apply_change(self, thread_id: str, body: Mapping[str, Any]) -> None:
        messages = self._messages[thread_id]
        for index in reversed(range(len(messages))):  # what is changed is one of the last, nearly always
            if messages[index].id == body["id"]:
                changes = {snake(name): value for name, value in body.items() if name != "id"}
                messages[index] = replace(messages[index], **changes)
                return


def snake(name: str) -> str:
    """`toolCalls` → `tool_calls`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def _thread_of(thread_id: str, body: Mapping[str, Any], ts: datetime) -> Thread:
    return Thread(id=thread_id, created_at=ts, updated_at=ts, **{snake(name): value for name, value in body.items()})


def _run_of(body: Mapping[str, Any]) -> RunRow:
    return RunRow(**{snake(name): value for name, value in body.items()})


def _usage_of(body: Mapping[str, Any]) -> UsageRow:
    return UsageRow(**{snake(name): value for name, value in body.items()})
