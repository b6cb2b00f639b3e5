"""What an agent hands out that a cell can show: a turn's run, its result, and a conversation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from loomnb.agents import (
    AgentRunDefinition,
    ChatMessage,
    JournalAgentStore,
    Thread,
    ToolCallRow,
    agent_store_of,
    check_text,
    finished,
)
from loomnb.errors import NotFound, Refused
from loomnb.jsonvalue import freeze, thaw
from loomnb.names import humanised
from loomnb.present import Story, markdown_safe, story_bundle, story_plain
from loomnb.runtime import FINISHED, REGISTRY, Face, Run, RunRecord, Runtime, Status
from loomnb.studio.face import notebook_face
from loomnb.studio.said import check_said
from loomnb.studio.transcripts import UNNAMED, is_named_after, told_messages

if TYPE_CHECKING:
    from loomnb.studio.agents import Agent

__all__ = ["AgentResult", "AgentRun", "Chat"]

_TOLD = 60
"""Messages that a static page tells of; of a longer conversation the last ones."""
_OWN_WORDS: Mapping[str, Mapping[str, str]] = {
    "ask": {"label": "Questions for you", "done": "Asked you"},
    "retrieve": {"label": "Look up what is known", "done": "Looked up what is known"},
    "structured_output": {"label": "The answer as data"},
}
"""Of the calls that the loop makes by itself."""


class Home(Protocol):
    """What a conversation needs of its store."""

    @property
    def runtime(self) -> Runtime: ...

    @property
    def face(self) -> Callable[[], Face]: ...


@dataclass(frozen=True, slots=True)
class _Home:
    runtime: Runtime
    face: Callable[[], Face]


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
    thread_id: str = field(default="", repr=False)
    steps: int = 0
    stopped_by: str = ""

    def _repr_markdown_(self) -> str:
        return markdown_safe(self.text)  # a model's words: JupyterLab runs what HTML is in the Markdown of a fresh output

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
    def advice(self) -> str:
        """Why it does not go on by itself; of one that is being stopped and cannot be yet, what it waits for."""
        record = self.record
        if record.cancel_requested and record.passing:
            blocks = record.host.blocked if record.host is not None else ""
            return f"It is to be stopped, and ends as canceled as soon as what it does lets go. {blocks}".strip()
        return super().advice

    def cancel(self, timeout: float = 2.0) -> None:
        """Stop it. What was on its way is thrown away; a finished turn is left as it is.

        Where something blocks the loop of all runs (a model's `run_turn` that waits without awaiting), nothing can be stopped
        before that lets go: this returns at once, the turn says what it waits for, and ends as canceled by itself.

        Args:
            timeout: seconds to wait for the stop to be stored.

        Raises:
            StoreClosed: the store was closed, so nothing can be stored any more.
        """
        record = self.record
        super().cancel(0)
        if record.host is not None and not record.host.is_current():
            with contextlib.suppress(TimeoutError):
                self._block(lambda: not record.passing or bool(record.host and record.host.blocked), timeout)
        if self.status not in FINISHED and not record.passing:
            self._refuse_closed()  # the store was closed under the cancel: it was not stored

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

    @property
    def chat(self) -> Chat:
        """The conversation it stands in. Where its agent is not known yet, it can be read and answered, but not gone on with."""
        definition = REGISTRY.get(self.workflow)
        agent = definition.agent if isinstance(definition, AgentRunDefinition) else None
        return Chat(agent, _Home(self.runtime, self._face), self.thread_id, name=self.workflow, run=self)

    def story(self, handle: str = "run") -> Story:
        """What was said tells it: no path to speak of, and the result would only say it again."""
        story = super().story(handle)
        chat = self.chat
        told = told_messages(self.messages, chat.presentation, chat.rows(), is_moving=self.status not in FINISHED)
        return replace(story, documents=tuple(told), answered=(), result=None, path=())


def _store(record: RunRecord, runtime: Any) -> JournalAgentStore:
    return agent_store_of(runtime.database, record.source)


def _messages(store: JournalAgentStore, thread_id: str) -> list[ChatMessage]:
    thread = finished(store.get_thread(thread_id))
    return list(thread.messages) if thread is not None else []


class Chat:
    """A conversation with an agent. As a cell's last line it is the chat panel; elsewhere it tells what was said.

    Args:
        agent: who answers; None: it is not known here, and the conversation can only be read.
        session: the store.
        thread: the id of an earlier conversation; None: a new one.
        name: of the agent, where that is None.
        run: a turn of it.

    `watchers` are called, on any thread, when something was done here that no run tells of.

    Raises:
        NotFound: there is no such conversation, or it was deleted.
    """

    def __init__(
        self, agent: Agent | None, session: Home, thread: str | None = None, *, name: str = "", run: AgentRun | None = None
    ) -> None:
        check_text("The id of a thread", thread, error=Refused, advice="agent.threads() lists them.")
        self._agent = agent
        self.session = session
        self._name = agent.name if agent is not None else name
        self._run: AgentRun | None = run
        self.watchers: list[Callable[[], None]] = []
        self.is_new = thread is None
        self.thread_id = thread if thread is not None else session.runtime.source.new_id("thread")
        if thread is not None and run is None and self.thread is None:
            self._refuse_deleted()
            raise NotFound(f"There is no thread {thread!r}.", advice="agent.threads() lists them.")

    @property
    def agent(self) -> Agent:
        """Who answers.

        Raises:
            Refused: it is not known here.
        """
        if self._agent is None:
            raise Refused(
                f"The agent {self._name!r} is not known in this kernel.",
                advice="Run the cell that makes it, then show this again.",
            )
        return self._agent

    @property
    def has_agent(self) -> bool:
        """Whether who answers is known here."""
        return self._agent is not None

    @property
    def agent_title(self) -> str:
        """Who answers, for people."""
        return self._agent.title if self._agent is not None else humanised(self._name)

    def presentation(self, tool: str) -> Mapping[str, Any] | None:
        """A tool's words for people."""
        spec = self._agent.registry.spec(tool) if self._agent is not None else None
        return spec.presentation if spec is not None else _OWN_WORDS.get(tool)

    def rows(self) -> dict[str, ToolCallRow]:
        """Its calls of tools by their id; of several with the same one, the latest."""
        return {row.id: row for row in self.store.tool_calls(self.thread_id)}

    def tell(self) -> None:
        """Call the watchers."""
        for watcher in tuple(self.watchers):
            watcher()

    def show(self, thread: str | None) -> None:
        """Go over to another conversation with the same agent; None: a new one.

        Raises:
            NotFound: there is no such conversation.
        """
        other = Chat(self._agent, self.session, thread, name=self._name)
        self.thread_id, self.is_new, self._run = other.thread_id, other.is_new, None
        self.tell()

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
        return thread.title if thread is not None else UNNAMED

    @property
    def messages(self) -> list[ChatMessage]:
        """What was said."""
        return _messages(self.store, self.thread_id)

    @property
    def turn(self) -> AgentRun | None:
        """The last turn, whatever became of it; None: there was none, or it cannot be told."""
        runtime = self.session.runtime
        for record in reversed(runtime.live()):
            if self._is_ours(record):
                return AgentRun(record, runtime, self.session.face)
        thread = self.thread
        run_id = next((m.run_id for m in reversed(thread.messages if thread is not None else ()) if m.run_id), None)
        if self._run is not None and run_id in (None, self._run.id) and self._is_ours(self._run.record):
            return self._run
        found: RunRecord | None = None
        if run_id is not None:
            with contextlib.suppress(NotFound):  # of a runner of another kind
                found = runtime.readable(run_id)
        return AgentRun(found, runtime, self.session.face) if found is not None and self._is_ours(found) else None

    def _is_ours(self, record: RunRecord) -> bool:
        return isinstance(record.args, Mapping) and record.args.get("thread") == self.thread_id

    @property
    def run(self) -> AgentRun | None:
        """The turn that is under way, or that failed and can be taken up again; None: neither."""
        turn = self.turn
        return turn if turn is not None and turn.status not in (Status.COMPLETED, Status.CANCELED) else None

    def _refuse_deleted(self) -> None:
        """Refuse to do anything in a conversation that is gone.

        Raises:
            NotFound: it was deleted.
        """
        if self.store.was_deleted(self.thread_id):
            raise NotFound(f"The conversation {self.thread_id!r} was deleted.", advice="agent.chat() begins a new one.")

    def send(self, text: str, **options: Any) -> AgentRun:
        """Say something; see `Agent.run`.

        Raises:
            Refused, NotFound, Conflict: as `Agent.run`; NotFound also when it was deleted.
        """
        self._refuse_deleted()
        self._run = self.agent.run(text, thread=self, **options)
        self.tell()
        return self._run

    def stop(self) -> None:
        """Stop the turn that is under way. What was on its way is thrown away; what was stored stays.

        Raises:
            NotFound: it was deleted.
        """
        self._refuse_deleted()
        self._stop()

    def _stop(self) -> None:
        run = self.run
        if run is not None:
            run.cancel()

    def retry(self) -> AgentRun:
        """Go on with a turn that failed; where none did, answer the last thing that was said once more.

        Raises:
            Refused: nothing was said yet.
            Conflict: a turn is under way.
            NotFound: it was deleted.
        """
        self._refuse_deleted()
        run = self.run
        if run is not None and (run.has_error or run.status is Status.INTERRUPTED):
            run.retry()
            return run
        if not any(m.role == "user" for m in self.messages):
            raise Refused("Nothing was said yet that could be answered again.")
        self._run = self.agent.regenerate(self.thread_id)
        self.tell()
        return self._run

    def edit(self, message_id: str, text: str) -> AgentRun:
        """Say something else instead of what was said; that, and all after it, is taken away. A conversation that is named
        after what was first said takes its new name from it.

        Raises:
            NotFound: it is no message of a person's in this conversation, or that was deleted.
            Conflict: a turn is under way.
            Refused: the text is none, or blank with nothing attached. Nothing was taken away.
        """
        self._refuse_deleted()
        check_text("The id of a message", message_id, error=Refused)
        said = [m for m in self.messages if m.role == "user"]
        found = next((m for m in said if m.id == message_id), None)
        if found is None:
            raise NotFound(f"No message {message_id!r} of yours stands in this conversation.")
        check_said(self.agent.name, text, found.attachments)
        run = self.run
        if run is not None and run.status not in FINISHED:
            run.cancel()
        self.store.now(self.store.truncate_from(self.thread_id, message_id))
        if found is said[0] and is_named_after(self.title, found.content):
            self.store.now(self.store.set_title(self.thread_id, UNNAMED))  # the new turn names it after what is said now
        return self.send(text, attachments=thaw(freeze(list(found.attachments))) if found.attachments else None)

    def fork(self, message_id: str) -> Chat:
        """A new conversation that begins with this one, up to a message and with it.

        Raises:
            NotFound: there is no such message in it, or it was deleted.
        """
        self._refuse_deleted()
        check_text("The id of a message", message_id, error=Refused)
        thread = self.store.now(self.store.fork_thread(self.thread_id, message_id))
        return Chat(self._agent, self.session, thread.id, name=self._name)

    def rename(self, title: str) -> None:
        """Call it something else.

        Raises:
            NotFound: it was deleted, or nothing was said in it yet.
            Refused: the title is no text, or blank.
        """
        self._refuse_deleted()
        check_text("The title of a conversation", title, error=Refused, advice='Write chat.rename("…").')
        if title is None or not title.strip():  # pyright: ignore[reportUnnecessaryComparison]
            raise Refused("A conversation cannot be called nothing.", advice='Write chat.rename("…").')
        self.store.now(self.store.set_title(self.thread_id, title))
        self.tell()

    def delete(self) -> None:
        """Delete it. A turn that is under way is stopped."""
        self._stop()
        self.store.now(self.store.soft_delete_thread(self.thread_id))
        self.tell()

    def feedback(self, message_id: str, feedback: str | None) -> None:
        """Say what you think of a message: `up`, `down`, or any text; None takes it back.

        Raises:
            NotFound: there is no such message, or the conversation was deleted.
            Refused: it is no text.
        """
        self._refuse_deleted()
        check_text("The id of a message", message_id, error=Refused)
        check_text("What you think of a message", feedback, error=Refused, advice='Say "up", "down", any text, or None.')
        self.store.now(self.store.set_message_feedback(message_id, feedback))
        self.tell()

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
        """What a static page tells of it: no ids, no times; of a long conversation its end."""
        run, messages = self.run, self.messages
        failure = run.record.view.failure if run is not None and run.has_error else None
        more = len(messages) - _TOLD
        title = self.title
        notices = [f"{more:,} earlier messages are left out here: chat.messages has all of them."] if more > 0 else []
        notices += [run.advice] if run is not None and run.record.cancel_requested else []
        told = told_messages(messages[-_TOLD:], self.presentation, self.rows(), is_moving=run is not None)
        return Story(
            title=title if title != UNNAMED else self.agent_title,
            workflow=self._name,
            status=run.status.value if run is not None else "completed",
            place="",
            path=(),
            documents=tuple(told),
            asks=run.record.view.asks if run is not None else (),
            has_error=failure is not None,
            error_type=failure.type if failure is not None else "",
            error=failure.message if failure is not None else "",
            advice=failure.advice if failure is not None else "",
            result=None,
            notice="\n".join(notices),
            handle="chat.run",
        )

    def __repr__(self) -> str:
        return story_plain(self.story())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return story_bundle(self.story())

    def _ipython_display_(self) -> None:
        face = notebook_face()
        if face is None or not face.show_chat(self):
            raise NotImplementedError  # IPython then takes the static forms
