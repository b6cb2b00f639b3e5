"""What an agent hands out that a cell can show: a turn's run, its result, a conversation, and the list of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from loomnb.agents import ChatMessage, JournalAgentStore, Thread, agent_store_of, finished
from loomnb.documents import DocumentEntity
from loomnb.errors import NotFound, Refused
from loomnb.jsonvalue import freeze, thaw
from loomnb.present import Story, escape, story_bundle, story_plain
from loomnb.runtime import FINISHED, Run, RunRecord
from loomnb.studio.face import notebook_face

if TYPE_CHECKING:
    from loomnb.studio.agents import Agent
    from loomnb.studio.session import Loom

__all__ = ["AgentResult", "AgentRun", "Chat", "Threads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What a turn came to.

    Attributes:
        text: what the agent said last.
        object: the value of its output schema; None without one.
        usage: tokens of all its calls of models: `{"inputTokens", "outputTokens", …}`; what is unknown is left out.
        cost: in USD; None: unknown.
        thread_id: the conversation it stands in.
        steps: how often the model was called.
        stopped_by: why it ended before the model was done: `max_steps`, `length`, `terminal`, or empty.
    """

    text: str
    object: Any = None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    cost: float | None = None
    thread_id: str = ""
    steps: int = 0
    stopped_by: str = ""

    def _repr_markdown_(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text


class AgentRun(Run):
    """A turn of an agent. Awaiting it waits for its end, person included, and gives an `AgentResult`."""

    _awaits_below = True
    _way_on = "run.retry() goes on with what is on record: no call of a model and no action that came to its end is made again."

    @property
    def thread_id(self) -> str:
        """The conversation it stands in."""
        return str(self.record.args["thread"])

    @property
    def messages(self) -> list[ChatMessage]:
        """What was said in this turn."""
        return [m for m in _messages(_store(self.record, self.runtime), self.thread_id) if m.run_id == self.id]

    def _outcome(self) -> Any:
        said = super()._outcome()
        return AgentResult(
            text=said["text"],
            object=said.get("object"),
            usage=said.get("usage", {}),
            cost=said.get("costUsd"),
            thread_id=said["threadId"],
            steps=said.get("steps", 0),
            stopped_by=said.get("stoppedBy", ""),
        )

    def story(self, handle: str = "run") -> Story:
        """What was said tells it: no path to speak of, and the result would only say it again."""
        story = super().story(handle)
        return replace(story, documents=tuple(told_messages(self.messages)), result=None, path=())


def told_messages(messages: Sequence[ChatMessage]) -> Iterator[DocumentEntity]:
    """Messages as a story tells documents: their text, with thoughts, calls and results folded below."""
    for number, message in enumerate(messages):
        blocks: list[dict[str, Any]] = []
        if message.reasoning:
            blocks.append({"type": "thinking", "text": message.reasoning})
        results = {result["id"]: result for result in message.tool_results or ()}
        for call in message.tool_calls or ():
            blocks.append({"type": "tool_call", "id": call["id"], "name": call["name"], "args": call["input"]})
            result = results.get(call["id"])
            if result is not None:
                failed = result.get("error") is not None
                told = result["error"] if failed else json.dumps(thaw(freeze(result["output"])), ensure_ascii=False)
                blocks.append({"type": "tool_result", "toolCallId": call["id"], "content": told, "isError": failed})
        content = {"role": message.role, "text": message.content, "blocks": blocks}
        yield DocumentEntity(
            id="", key=f"message {number}", document_name="llm_message", content=freeze(content),
            ui=freeze({"widget": "llm-message"}), index=number,
        )  # fmt: skip


def _store(record: RunRecord, runtime: Any) -> JournalAgentStore:
    return agent_store_of(runtime.database, record.source)


def _messages(store: JournalAgentStore, thread_id: str) -> list[ChatMessage]:
    thread = finished(store.get_thread(thread_id))
    return list(thread.messages) if thread is not None else []


class Chat:
    """A conversation with an agent. As a cell's last line it is the chat panel; elsewhere it tells what was said.

    Args:
        agent: who answers.
        session: the store.
        thread: the id of an earlier conversation; None: a new one.

    Raises:
        NotFound: there is no such conversation.
    """

    def __init__(self, agent: Agent, session: Loom, thread: str | None = None) -> None:
        self.agent = agent
        self.session = session
        self._run: AgentRun | None = None
        self.is_new = thread is None
        self.thread_id = thread if thread is not None else session.runtime.source.new_id("thread")
        if thread is not None and self.thread is None:
            raise NotFound(f"There is no thread {thread!r}.", advice="agent.threads() lists them.")

    @property
    def store(self) -> JournalAgentStore:
        """Where it is kept."""
        return agent_store_of(self.session.runtime.database, self.session.runtime.source)

    @property
    def thread(self) -> Thread | None:
        """The thread, with its messages; None: nothing was said yet."""
        return finished(self.store.get_thread(self.thread_id))

    @property
    def title(self) -> str:
        """What it is called."""
        thread = self.thread
        return thread.title if thread is not None else "New chat"

    @property
    def messages(self) -> list[ChatMessage]:
        """What was said."""
        return _messages(self.store, self.thread_id)

    @property
    def run(self) -> AgentRun | None:
        """The turn that is under way, or that failed and can be taken up again; None: neither."""
        for record in self.session.runtime.live():
            args = record.args
            if isinstance(args, Mapping) and args.get("thread") == self.thread_id:
                return AgentRun(record, self.session.runtime, self.session.face)
        return self._run if self._run is not None and self._run.status not in FINISHED else None

    def send(self, text: str, **options: Any) -> AgentRun:
        """Say something; see `Agent.run`."""
        if self.thread is None:
            self.store.now(self.store.create_thread(actor=self.agent.actor, id=self.thread_id, agent_name=self.agent.name))
        self._run = self.agent.run(text, thread=self.thread_id, **options)
        return self._run

    def stop(self) -> None:
        """Stop the turn that is under way. What was on its way is thrown away; what was stored stays."""
        run = self.run
        if run is not None:
            run.cancel()

    def retry(self) -> AgentRun:
        """Go on with a turn that failed; where none did, answer the last thing that was said once more.

        Raises:
            Refused: nothing was said yet.
            Conflict: a turn is under way.
        """
        run = self.run
        if run is not None and run.has_error:
            run.retry()
            return run
        if not any(m.role == "user" for m in self.messages):
            raise Refused("Nothing was said yet that could be answered again.")
        self._run = self.agent.regenerate(self.thread_id)
        return self._run

    def edit(self, message_id: str, text: str) -> AgentRun:
        """Say something else instead of what was said; that, and all after it, is taken away.

        Raises:
            NotFound: it is no message of a person's in this conversation.
            Conflict: a turn is under way.
        """
        found = next((m for m in self.messages if m.id == message_id and m.role == "user"), None)
        if found is None:
            raise NotFound(f"No message {message_id!r} of yours stands in this conversation.")
        run = self.run
        if run is not None and run.status not in FINISHED:
            run.cancel()
        self.store.now(self.store.truncate_from(self.thread_id, message_id))
        return self.send(text, attachments=thaw(freeze(list(found.attachments))) if found.attachments else None)

    def fork(self, message_id: str) -> Chat:
        """A new conversation that begins with this one, up to a message and with it.

        Raises:
            NotFound: there is no such message in it.
        """
        thread = self.store.now(self.store.fork_thread(self.thread_id, message_id))
        return Chat(self.agent, self.session, thread.id)

    def rename(self, title: str) -> None:
        """Call it something else."""
        self.store.now(self.store.set_title(self.thread_id, title))

    def delete(self) -> None:
        """Delete it. A turn that is under way is stopped."""
        self.stop()
        self.store.now(self.store.soft_delete_thread(self.thread_id))

    def feedback(self, message_id: str, feedback: str | None) -> None:
        """Say what you think of a message: `up`, `down`, or any text; None takes it back."""
        self.store.now(self.store.set_message_feedback(message_id, feedback))

    def usage(self) -> Mapping[str, Any]:
        """What it has used: `{"inputTokens", "outputTokens", "costUsd"}`; what is unknown is None."""
        rows = self.session.runtime.database.read(
            "select sum(input_tokens), sum(output_tokens), sum(estimated_usd), count(*) filter (where estimated_usd is null) "
            "from model_costs where thread_id = ?",
            [self.thread_id],
        )
        tokens_in, tokens_out, cost, unknown = rows[0]
        return {"inputTokens": tokens_in, "outputTokens": tokens_out, "costUsd": cost if not unknown else None}

    def story(self) -> Story:
        """What a static page tells of it: no ids, no times."""
        run = self.run
        failure = run.record.view.failure if run is not None else None
        return Story(
            title=self.title if self.title != "New chat" else self.agent.title,
            workflow=self.agent.name,
            status=run.status.value if run is not None else "completed",
            place="",
            path=(),
            documents=tuple(self._documents()),
            asks=run.record.view.asks if run is not None else (),
            has_error=failure is not None,
            error_type=failure.type if failure is not None else "",
            error=failure.message if failure is not None else "",
            advice=failure.advice if failure is not None else "",
            result=None,
            notice="",
            handle="chat.run",
        )

    def _documents(self) -> Iterator[DocumentEntity]:
        return told_messages(self.messages)

    def __repr__(self) -> str:
        return story_plain(self.story())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return story_bundle(self.story())

    def _ipython_display_(self) -> None:
        face = notebook_face()
        if face is None or not face.show_chat(self):
            raise NotImplementedError  # IPython then takes the static forms


class Threads(Sequence[Chat]):
    """Conversations, the one that changed last first. As a cell's last line they are listed."""

    def __init__(self, chats: Sequence[Chat], titles: Sequence[tuple[str, int]]) -> None:
        self._chats = tuple(chats)
        self._titles = tuple(titles)

    @classmethod
    def of(cls, session: Loom, agent: Agent, search: str | None, limit: int) -> Threads:
        """Those of an agent's actor with this agent."""
        rows = session.runtime.database.read(
            "select thread_id, title, messages from threads t where actor_ref = $actor and not is_deleted and not is_transient "
            "and agent_name = $agent and ($text is null or contains(lower(title), lower($text)) or exists ("
            "select 1 from messages m where m.thread_id = t.thread_id and not m.is_deleted "
            "and contains(lower(m.content), lower($text)))) order by seq desc limit $limit",
            {"actor": agent.actor.id, "agent": agent.name, "text": search, "limit": max(limit, 0)},
        )
        return cls([Chat(agent, session, thread_id) for thread_id, _, _ in rows], [(title, n) for _, title, n in rows])

    def __getitem__(self, index: Any) -> Any:
        return self._chats[index]

    def __len__(self) -> int:
        return len(self._chats)

    def __repr__(self) -> str:
        lines = [f"{n}. {title} ({count} messages)" for n, (title, count) in enumerate(self._titles)]
        return "\n".join(lines) or "No conversations yet."

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(title)} <small>({count} messages)</small></li>" for title, count in self._titles)
        return f'<ol start="0">{items}</ol>' if items else "<p>No conversations yet.</p>"
