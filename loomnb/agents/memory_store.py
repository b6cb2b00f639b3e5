"""A store of threads in the memory of this process: for tests, and for agents whose talk nobody has to keep.

It does what the store in the file does, and nothing that only a file can do: it ends with its process, and serves one only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from loomnb.agents.memory_queue import InMemoryChatQueue
from loomnb.agents.memory_rows import MemoryRows, StoredThread, check_changes
from loomnb.agents.rows import with_approvals
from loomnb.agents.spi import Actor, ChatMessage, Thread
from loomnb.errors import Conflict, NotFound
from loomnb.ids import SYSTEM, Source
from loomnb.jsonvalue import freeze

__all__ = ["InMemoryAgentStore"]


class InMemoryAgentStore(MemoryRows):
    """An `AgentStore` with every optional method, in memory.

    A deleted thread is gone for everybody, and its id stays taken. What is given is copied, and what is returned cannot be
    changed in place. Rows are looked at with `messages`, `tool_calls`, `usage_rows` and `runs`.

    Args:
        source: where ids and times come from; the machine's own unless given.

    Attributes:
        queue: messages that wait for their turn, a `ChatQueueStore`.
    """

    def __init__(self, source: Source = SYSTEM) -> None:
        super().__init__(source)
        self.queue = InMemoryChatQueue()
        self._messages: dict[str, list[ChatMessage]] = {}
        self._home: dict[str, str] = {}  # message → thread
        self._changes = 0

    # -- threads --

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
        """A new thread of somebody.

        Args:
            actor: whose it is.
            id: its id; a new one unless given.
            title: `New chat`, or empty, is replaced by the loop after the first turn.
            transient: not listed, until it is promoted.
            agent_name: who answers in it, where nothing else is said.
            model: which model answers in it, where nothing else is said.

        Raises:
            Conflict: there is, or was, a thread of this id.
        """
        if id is not None and id in self._threads:
            raise Conflict(f"There is a thread {id!r} already.", advice="Choose another id, or give none.")
        now = self.source.now()
        thread = Thread(
            id=id if id is not None else self.source.new_id("thread"),
            actor_ref=actor.id,
            tenant_ref=actor.tenant_ref,
            title=title,
            transient=transient,
            agent_name=agent_name,
            model=model,
            created_at=now,
        )
        self._threads[thread.id] = StoredThread(thread=thread)
        self._messages[thread.id] = []
        self._touch(thread.id)
        return self._threads[thread.id].thread

    async def get_thread(self, thread_id: str) -> Thread | None:
        """A thread with its messages, and on them what became of approvals; None: there is none, or it was deleted."""
        stored = self._threads.get(thread_id)
        return None if stored is None or stored.deleted else replace(stored.thread, messages=self.messages(thread_id))

    def was_deleted(self, thread_id: str) -> bool:
        """Whether there was a thread of this id, and somebody deleted it."""
        stored = self._threads.get(thread_id)
        return stored is not None and stored.deleted

    async def load_thread_for_turn(self, thread_id: str, *, message_limit: int | None = None) -> Thread | None:
        """The same for a turn: the newest messages only, without what became of approvals.

        Args:
            thread_id: the thread.
            message_limit: how many messages at most; None: all.
        """
        stored = self._threads.get(thread_id)
        if stored is None or stored.deleted:
            return None
        kept = self._messages[thread_id]
        start = 0 if message_limit is None else max(0, len(kept) - max(message_limit, 0))
        return replace(stored.thread, messages=tuple(kept[start:]))

    async def list_threads(self, actor: Actor, limit: int = 50) -> tuple[Thread, ...]:
        """Somebody's threads without their messages, the one that changed last first; transient ones are left out."""
        mine = [
            stored
            for stored in self._threads.values()
            if not stored.deleted
            and not stored.thread.transient
            and (stored.thread.actor_ref, stored.thread.tenant_ref) == (actor.id, actor.tenant_ref)
        ]
        mine.sort(key=lambda stored: stored.order, reverse=True)
        return tuple(stored.thread for stored in mine[: max(limit, 0)])

    async def soft_delete_thread(self, thread_id: str) -> None:
        """Delete a thread for everybody; its rows stay, for those who count. One that is gone already stays gone.

        Raises:
            NotFound: there never was such a thread.
        """
        if thread_id not in self._threads:
            self._live(thread_id)
        stored = self._threads[thread_id]
        stored.deleted = True
        stored.thread = replace(stored.thread, active_stream=None)

    async def fork_thread(self, thread_id: str, from_message: str) -> Thread:
        """A new thread that begins with what was said in another, up to this message and with it.

        Title, agent, model and persona go along; feedback does not, and the new thread is not transient.

        Raises:
            NotFound: there is no such thread, or no such message in it.
        """
        origin = self._live(thread_id).thread
        end = self._index(thread_id, from_message) + 1
        actor = Actor(id=origin.actor_ref, tenant_ref=origin.tenant_ref)
        thread = await self.create_thread(actor=actor, title=origin.title, agent_name=origin.agent_name, model=origin.model)
        self._threads[thread.id].thread = replace(thread, persona=origin.persona)
        for message in self._messages[thread_id][:end]:
            self._keep(thread.id, replace(message, id=self.source.new_id("message"), feedback=None))
        return replace(self._threads[thread.id].thread, messages=self.messages(thread.id))

    async def set_title(self, thread_id: str, title: str) -> None:
        """Name a thread.

        Raises:
            NotFound: there is no such thread.
        """
        await self.update_thread(thread_id, title=title)

    async def update_thread(self, thread_id: str, **changes: str | None) -> None:
        """Change `title`, `agent_name`, `model` or `persona` of a thread; None takes it away.

        Raises:
            NotFound: there is no such thread.
            InvalidRequest: a name is none of these.
        """
        check_changes("thread", changes, ("title", "agent_name", "model", "persona"))
        stored = self._live(thread_id)
        if changes.get("title", "") is None:
            changes["title"] = "New chat"
        stored.thread = replace(stored.thread, **changes)  # type: ignore[arg-type]  # the names were checked above
        self._touch(thread_id)

    async def promote_thread(self, thread_id: str) -> None:
        """Let a transient thread be listed; one that is listed stays so.

        Raises:
            NotFound: there is no such thread.
        """
        stored = self._live(thread_id)
        if stored.thread.transient:
            stored.thread = replace(stored.thread, transient=False)
            self._touch(thread_id)

    async def owner_of_thread(self, thread_id: str) -> str | None:
        """Whose it is; None: there is none, or it was deleted."""
        return self._owner(thread_id)

    # -- which run a thread streams --

    async def set_active_stream(self, thread_id: str, run_id: str | None) -> None:
        """Say which run a thread streams; None: none.

        Raises:
            NotFound: there is no such thread (a thread that is gone may still be told that it streams nothing).
        """
        stored = self._threads.get(thread_id) if run_id is None else self._live(thread_id)
        if stored is not None:
            stored.thread = replace(stored.thread, active_stream=run_id)

    async def claim_active_stream(self, thread_id: str, run_id: str, *, instead_of: str | None = None) -> bool:
        """Take a thread for a run, if the thread streams what the caller believes it does.

        Args:
            thread_id: the thread.
            run_id: the run that is to have it; it may have it already.
            instead_of: the run that is known to be dead and still has it; None: nobody has it.

        Returns:
            False when another run has it.

        Raises:
            NotFound: there is no such thread.
        """
        stored = self._live(thread_id)
        if stored.thread.active_stream not in (instead_of, run_id):
            return False
        stored.thread = replace(stored.thread, active_stream=run_id)
        return True

    async def release_active_stream(self, thread_id: str, run_id: str) -> bool:
        """Let a thread go, if this run has it; False when it has not."""
        stored = self._threads.get(thread_id)
        if stored is None or stored.thread.active_stream != run_id:
            return False
        stored.thread = replace(stored.thread, active_stream=None)
        return True

    async def active_run_for_thread(self, thread_id: str) -> str | None:
        """Which run a thread streams; None: none."""
        stored = self._threads.get(thread_id)
        return None if stored is None else stored.thread.active_stream

    async def owner_of_active_stream(self, run_id: str) -> str | None:
        """Whose thread streams this run; None: no thread does."""
        owners = (one.thread.actor_ref for one in self._threads.values() if one.thread.active_stream == run_id)
        return next(owners, None)

    # -- messages --

    async def append_message(self, thread_id: str, message: ChatMessage) -> str:
        """Store a message at the end of a thread; its id (the one it brings, or a new one).

        A message that brings an id which is in this thread already is not stored again: what repeats a step may repeat this.

        Raises:
            NotFound: there is no such thread.
            Conflict: its id is that of a message elsewhere.
            NotJson: it holds something that JSON cannot hold.
        """
        self._live(thread_id)
        if message.id is not None and (home := self._home.get(message.id)) is not None:
            if home != thread_id:
                raise Conflict(f"Message {message.id!r} stands in another thread.", advice="Give it another id, or none.")
            return message.id
        kept = ChatMessage.from_json(freeze(message.to_json()))
        message_id = kept.id or self.source.new_id("message")
        self._keep(thread_id, replace(kept, id=message_id, created_at=kept.created_at or self.source.now().isoformat()))
        self._touch(thread_id)
        return message_id

    async def set_message_tool_results(self, message_id: str, results: Sequence[Mapping[str, Any]]) -> None:
        """Replace the results of the calls of a message.

        Raises:
            NotFound: there is no such message.
            NotJson: one holds something that JSON cannot hold.
        """
        self._change(message_id, tool_results=freeze([dict(result) for result in results]))

    async def set_message_ui(self, message_id: str, ui: Sequence[Mapping[str, Any]]) -> None:
        """Replace the components of a message; errors as for results."""
        self._change(message_id, ui=freeze([dict(one) for one in ui]))

    async def set_message_feedback(self, message_id: str, feedback: str | None) -> None:
        """Say what somebody thinks of a message; None takes it back.

        Raises:
            NotFound: there is no such message.
        """
        self._change(message_id, feedback=feedback)

    async def thread_of_message(self, message_id: str) -> str | None:
        """In which thread it stands; None: there is none, or the thread was deleted."""
        home = self._home.get(message_id)
        return None if home is None or self._threads[home].deleted else home

    async def truncate_from(self, thread_id: str, message_id: str) -> None:
        """Delete a message and all after it. Rows of their tool calls stay: what was done is done.

        Raises:
            NotFound: there is no such thread, or no such message in it.
        """
        self._live(thread_id)
        start = self._index(thread_id, message_id)
        for gone in self._messages[thread_id][start:]:
            self._home.pop(gone.id or "", None)
        del self._messages[thread_id][start:]
        self._touch(thread_id)

    async def referenced_media_ids(self) -> tuple[str, ...]:
        """Which staged files messages still need, sorted."""
        found = {
            attachment["mediaId"]
            for thread_id, messages in self._messages.items()
            if not self._threads[thread_id].deleted
            for message in messages
            for attachment in message.attachments or ()
            if attachment.get("mediaId")
        }
        return tuple(sorted(found))

    # -- for those who look --

    def threads(self) -> tuple[tuple[Thread, bool], ...]:
        """Every thread without its messages, and whether it was deleted, in the order they were made."""
        return tuple((stored.thread, stored.deleted) for stored in self._threads.values())

    def messages(self, thread_id: str) -> tuple[ChatMessage, ...]:
        """The messages of a thread, also of a deleted one; none of an unknown one."""
        return tuple(with_approvals(self._messages.get(thread_id, ()), self._rows_of(thread_id)))

    def message_count(self, thread_id: str) -> int:
        """How many messages of a thread a person sees: what was said, and the answers; no steps that only call tools."""
        told = self._messages.get(thread_id, ())
        return sum(m.role == "user" or (m.role == "assistant" and not m.tool_calls) for m in told)

    # -- within --

    def _touch(self, thread_id: str) -> None:
        stored = self._threads[thread_id]
        self._changes += 1
        stored.order = self._changes
        stored.thread = replace(stored.thread, updated_at=self.source.now())

    def _keep(self, thread_id: str, message: ChatMessage) -> None:
        assert message.id is not None
        self._messages[thread_id].append(message)
        self._home[message.id] = thread_id

    def _index(self, thread_id: str, message_id: str) -> int:
        for index, message in enumerate(self._messages[thread_id]):
            if message.id == message_id:
                return index
        raise NotFound(f"There is no message {message_id!r} in thread {thread_id!r}.")

    def _change(self, message_id: str, **changes: Any) -> None:
        home = self._home.get(message_id)
        if home is None:
            raise NotFound(f"There is no message {message_id!r}.", advice="It may have been deleted.")
        index = self._index(home, message_id)
        self._messages[home][index] = replace(self._messages[home][index], **changes)
