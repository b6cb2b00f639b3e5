"""Starting turns of agents: their thread, their attachments, who may start beside whom, and runs as tools of an agent."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from loomnb.agents import (
    AGENT_CONFIG,
    Actor,
    AgentRunDefinition,
    JournalAgentStore,
    Thread,
    ToolContext,
    ToolSpec,
    agent_store_of,
    check_text,
    finished,
)
from loomnb.blueprints import Blueprint, WorkflowModule
from loomnb.errors import Conflict, NoFrontEnd, NotFound, Refused
from loomnb.runtime import CURRENT, FINISHED, Run, RunRecord, Status
from loomnb.studio.chats import AgentRun
from loomnb.studio.said import check_said
from loomnb.studio.session import Loom
from loomnb.workflows import BaseWorkflow, definition_of

if TYPE_CHECKING:
    from loomnb.runtime import ModelProvider

__all__ = ["RunTool", "TurnRequested", "run_tool", "start_turn", "store_of"]

_MOST_BYTES = 20_000_000
"""Of one attachment: it goes into the store, and to the model with every later turn."""


class AgentLike(Protocol):
    """What a turn needs to know of an agent."""

    name: str
    actor: Actor
    definition: AgentRunDefinition
    default_persona: str | None

    @property
    def models(self) -> Mapping[str, ModelProvider]: ...

    def has_persona(self, name: str) -> bool: ...
    def check_current(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequested:
    """A turn that is to be made: see `Agent.run`."""

    text: str
    thread: str | None = None
    may_begin: bool = False
    """Whether the thread begins with it, where it is not there yet."""
    attachments: Sequence[Any] | None = None
    model: str | None = None
    persona: str | None = None
    key: str | None = None
    fresh: bool = False
    regenerate: bool = False
    labels: Sequence[str] = field(default_factory=tuple)
    title: str | None = None
    durability: Literal["sync", "pipelined"] | None = None
    loop: Literal["thread", "kernel"] = "thread"


def store_of(session: Loom) -> JournalAgentStore:
    """Where the threads of a store are."""
    return agent_store_of(session.runtime.database, session.runtime.source)


def start_turn(session: Loom, agent: AgentLike, asked: TurnRequested) -> AgentRun:
    """Start a turn, or find the one of its key.

    Raises:
        Refused, NotFound, Conflict: see `Agent.run`.
    """
    _check(agent, asked)
    agent.check_current()
    key, parent = asked.key, None
    attempt = CURRENT.get()
    if attempt is not None and attempt.record.source is session.runtime.source:
        parent = attempt.record.id
        # Made again after a crash, the move asks for the same turn: by the number of the call in it.
        key = key if key is not None else attempt.tool_context().idempotency_key
    store = store_of(session)
    attachments = [_attached(one) for one in asked.attachments or ()]
    thread_id = asked.thread if asked.thread is not None else _new_thread_id(store, agent, key, fresh=asked.fresh)
    args: dict[str, Any] = {"thread": thread_id, "text": asked.text, "actor": agent.actor.id}
    args |= {"roles": list(agent.actor.roles)} if agent.actor.roles is not None else {}
    args |= {"tenant": agent.actor.tenant_ref} if agent.actor.tenant_ref is not None else {}
    args |= {"attachments": attachments} if attachments else {}
    args |= {"regenerate": True} if asked.regenerate else {}
    args |= {"parent": parent} if parent is not None else {}
    thread = _known_thread(store, agent, thread_id, may_begin=asked.thread is None or asked.may_begin)
    model = asked.model if asked.model is not None else thread.model if thread is not None else None
    if model is not None:
        _check_model(agent, model)
        args["model"] = model
    pinned = thread.persona if thread is not None else None
    # What the turn says, else what its thread is pinned to, else the agent's own.
    persona = next((one for one in (asked.persona, pinned, agent.default_persona) if one is not None), None)
    args |= {"persona": persona} if persona is not None else {}

    def admit(live: Sequence[RunRecord]) -> None:
        _admit(live, thread_id)
        # Here and not before: whatever of the turn cannot be is refused by now, and nothing was written.
        if finished(store.get_thread(thread_id)) is None:
            store.now(store.create_thread(actor=agent.actor, id=thread_id, agent_name=agent.name))

    fresh = asked.fresh or (parent is not None and _is_canceled(session, agent, key))
    record = session.runtime.start(
        agent.definition,
        args,
        key=key,
        fresh=fresh,
        labels=asked.labels,
        title=asked.title,
        pipelined=None if asked.durability is None else asked.durability == "pipelined",
        loop=asked.loop,
        run_id=f"{parent}.{session.runtime.source.new_id('turn')}" if parent is not None else "",  # stopped with its parent
        config={AGENT_CONFIG: agent.name},
        admit=admit,
    )
    if parent is not None and record.status is Status.FAILED:
        session.runtime.retry(record)  # the move is made again, and so is what it asked for
    return AgentRun(record, session.runtime, session.face)


def _is_canceled(session: Loom, agent: AgentLike, key: str | None) -> bool:
    """Whether the turn of a key was stopped: a move that asks for it once more means a new one, which can come to an end."""
    rows = session.runtime.database.read(
        "select status from runs where workflow = ? and key = ? order by number desc limit 1", [agent.definition.name, key]
    )
    return bool(rows) and rows[0][0] == Status.CANCELED


def _check(agent: AgentLike, asked: TurnRequested) -> None:
    if not asked.regenerate:
        check_said(agent.name, asked.text, asked.attachments)
    words = {"thread": asked.thread, "model": asked.model, "persona": asked.persona, "key": asked.key, "title": asked.title}
    for what, value in words.items():
        check_text(f"{what}=", value, error=Refused, advice=f'Write {what}="…".')
    if not isinstance(asked.fresh, bool):
        raise Refused(f"fresh={asked.fresh!r:.60} is neither True nor False.")
    if asked.durability not in (None, "sync", "pipelined"):
        raise Refused(f"durability={asked.durability!r:.60} is not known.", advice="Use 'sync' (the default) or 'pipelined'.")
    if asked.persona is not None and not agent.has_persona(asked.persona):
        raise NotFound(f"The agent {agent.name!r} has no persona {asked.persona!r}.")
    if asked.model is not None:
        _check_model(agent, asked.model)


def _check_model(agent: AgentLike, model: str) -> None:
    if model not in agent.models and ":" not in model:
        known = ", ".join(agent.models) or "none"
        raise NotFound(f"The agent {agent.name!r} has no model {model!r}.", advice=f"Give vendor:name, or one of: {known}.")


def _admit(live: Sequence[RunRecord], thread_id: str) -> None:
    """One turn at a time in a thread: a model that is told of half an answer makes up the other half."""
    for record in live:
        args = record.args
        if isinstance(args, Mapping) and args.get("thread") == thread_id and record.view.status not in FINISHED:
            if record.view.status is Status.FAILED:
                continue
            raise Conflict(
                f"A turn is under way in this thread: the run {record.id} is {record.view.status}.",
                advice=f"Wait for it, answer it, or stop it: loom.run({record.id!r}).cancel().",
            )


def _new_thread_id(store: JournalAgentStore, agent: AgentLike, key: str | None, *, fresh: bool) -> str:
    """The id of a new thread. With a key it follows from that: the same turn is found in the same thread."""
    if key is None or fresh:
        return store.new_thread_id()
    return f"thread-{hashlib.sha256(f'{agent.name}/{key}'.encode()).hexdigest()[:12]}"


def _known_thread(store: JournalAgentStore, agent: AgentLike, thread_id: str, *, may_begin: bool) -> Thread | None:
    """The thread of a turn; None: it begins with it.

    Raises:
        NotFound: there is none, or it is another person's.
    """
    thread = finished(store.get_thread(thread_id))
    if thread is None and store.was_deleted(thread_id):
        raise NotFound(f"The conversation {thread_id!r} was deleted.", advice="agent.chat() begins a new one.")
    if thread is None and not may_begin:
        raise NotFound(f"There is no thread {thread_id!r}.", advice="agent.threads() lists them.")
    if thread is not None and thread.actor_ref != agent.actor.id:
        raise NotFound(f"There is no thread {thread_id!r} of {agent.actor.id!r}.", advice="agent.threads() lists them.")
    return thread


def _attached(thing: Any) -> dict[str, Any]:
    """An attachment as it is stored.

    Raises:
        Refused: it is none, or too large.
        NotFound: there is no such file.
    """
    if isinstance(thing, Mapping):
        if not isinstance(thing.get("mediaType"), str) or not ("data" in thing or "url" in thing):
            raise Refused("This is no attachment.", advice='Give a path, or {"name", "mediaType", "data" (base64) or "url"}.')
        for what in ("name", "data", "url"):
            check_text(f"{what} of an attachment", thing.get(what), error=Refused)
        return dict(thing)
    if isinstance(thing, (str, os.PathLike)):
        path = Path(thing)
        if not path.is_file():
            raise NotFound(f"There is no file {os.fspath(thing)!r} to attach.")
        name, data = path.name, path.read_bytes()
    elif isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[1], bytes):
        name, data = str(thing[0]), thing[1]
    else:
        raise Refused(f"A {type(thing).__name__} cannot be attached.", advice="Give a path or a (name, bytes) pair.")
    if len(data) > _MOST_BYTES:
        raise Refused(f"{name} is too large to attach: {len(data):,} bytes of {_MOST_BYTES:,} at the most.")
    media = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return {"name": name, "mediaType": media, "data": base64.b64encode(data).decode()}


# -- runs as tools ---------------------------------------------------------------------------------------


class UnansweredRun(NoFrontEnd):
    """A run that a tool waits for needs a person, and nobody can answer here.

    No failure of the tool, which the model would be told of: the run goes on as soon as somebody answers it. So it passes through
    every catch of the loop, and is the turn's own.
    """

    __aviary_durable_control_flow__ = True

    def __init__(self, why: NoFrontEnd) -> None:
        advice = f"{why.advice} Then run.retry() takes this turn up again where it waited."
        super().__init__(why.message, advice=advice.strip())


class RunTool:
    """The handler of a tool that is a whole run: a workflow, or a blueprint with its intent.

    The run has the call's idempotency key as its key: an agent that is taken up again in another kernel finds it, and waits on.
    """

    resumable = True

    def __init__(self, what: Any) -> None:
        self._what = what

    async def execute(self, input: Any, ctx: ToolContext) -> Any:  # noqa: A002  # the contract's word
        """Start the run, or find it, and wait for its end: also for people."""
        session: Loom = ctx.host
        if isinstance(self._what, type):
            run = session.start(self._what, input, key=ctx.idempotency_key)
        else:
            run = session.flow(self._what, input["intent"], key=ctx.idempotency_key)
        if run.status in (Status.FAILED, Status.INTERRUPTED):
            run.retry()
        remove = ctx.abort_signal.add_listener(lambda why: _stop_with(run, why)) if ctx.abort_signal is not None else None
        try:
            return await run
        except NoFrontEnd as exc:
            raise UnansweredRun(exc) from exc
        finally:
            if remove is not None:
                remove()


def _stop_with(run: Run, why: BaseException) -> None:
    """The agent that waits for a run was stopped: so is the run. When its store is only closed, both go on in the next kernel."""
    if getattr(why, "code", "") == "RUN_STOPPED" and run.status not in FINISHED:
        run.cancel()


def run_tool(thing: Any) -> tuple[ToolSpec, RunTool] | None:
    """The tool of a workflow class or a blueprint; None when it is neither."""
    if isinstance(thing, type) and issubclass(thing, BaseWorkflow):
        definition = definition_of(thing)
        schema = getattr(definition, "schema", None)
        return ToolSpec(
            name=definition.name, description=(thing.__doc__ or definition.title).strip(), input_schema=schema
        ), RunTool(thing)
    if isinstance(thing, (Blueprint, WorkflowModule)):
        blueprint = thing.blueprint if isinstance(thing, WorkflowModule) else thing
        name = blueprint.flow_name.replace("-", "_")
        return ToolSpec(name=name, description=blueprint.title or name, input_schema=_INTENT), RunTool(thing)
    return None


_INTENT = {
    "type": "object",
    "properties": {"intent": {"type": "string", "description": "What is to be done.", "minLength": 1}},
    "required": ["intent"],
    "additionalProperties": False,
}
