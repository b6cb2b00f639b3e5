"""An agent as a definition of the run loop: a run is one turn, made of one step whose checkpoints are on the run's journal."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from loomnb.agents.approvals import NOBODY, REPEAT, accept_ask
from loomnb.agents.delegation import StartAgent
from loomnb.agents.deps import LoopDeps
from loomnb.agents.diagnostics import publish
from loomnb.agents.failures import RunCancelledError, agent_failure_code, stream_failure, text_of
from loomnb.agents.frames import frame
from loomnb.agents.hooks import JournalHooks
from loomnb.agents.journal_batch import collecting
from loomnb.agents.journal_store import JournalAgentStore, agent_store_of
from loomnb.agents.loop import run_agent_loop
from loomnb.agents.memory_sink import MemorySink
from loomnb.agents.settling import announce_end, settle_dead_run
from loomnb.agents.spi import Actor, AgentTurnInput, AgentTurnResult, ChatMessage, finished
from loomnb.agents.words import shortened
from loomnb.asks import Ask
from loomnb.errors import ArgsInvalid, StepError
from loomnb.jsonvalue import dumps, freeze, thaw
from loomnb.names import notebook_name
from loomnb.runtime import (
    END,
    REGISTRY,
    START,
    AskContent,
    Envelope,
    Failure,
    LiveCall,
    Move,
    RunContext,
    RunRecord,
    current_attempt,
)

if TYPE_CHECKING:  # for its types only: DuckDB is loaded by who opens a store
    from loomnb.store import Database, Row

__all__ = ["AGENT_CONFIG", "AgentRunDefinition", "canceled_rows", "fingerprint_of", "know_agent", "origin_of", "streams_of"]

TURN = "turn"

AGENT_CONFIG = "agent"
"""What the configuration of an agent's run has, so that its handle is known for one where the agent is not."""

MakeDeps = Callable[[RunRecord, Mapping[str, Any], JournalAgentStore], LoopDeps]
"""What a turn works with, from the run, its arguments and the store."""

_ARGS = {
    *("thread", "text", "actor", "roles", "tenant", "attachments", "regenerate", "model", "persona", "day", "deliver", "depth"),
    *("path", "parent", "pageContext", "uiCapabilities"),
}

_STREAMS = MemorySink()


def streams_of() -> MemorySink:
    """The live streams of the runs of this process."""
    return _STREAMS


@dataclass(frozen=True, eq=False, kw_only=True)
class AgentRunDefinition:
    """What the run loop needs of an agent.

    Args:
        name: the agent's.
        title: for people.
        origin: where it was written.
        fingerprint: changes with its instructions and tools; a stored run goes on all the same, by what is on record.
        make: what each turn works with.
        start_agent: starts runs of the agents that it may ask; None: it asks nobody.
        nobody: why no person can answer a run here, empty while one can; None: one always may.
        description: what it is for: what agents are told that may ask it.
        agent: whose turns these are, for who shows them: an object with `chat(thread)`; None: nobody's that could be talked to.
    """

    name: str
    title: str
    origin: str
    fingerprint: str
    make: MakeDeps
    start_agent: StartAgent | None = None
    nobody: Callable[[RunRecord], str] | None = None
    description: str = ""
    agent: Any = None
    step_limit: int = 1000
    runs_ahead: bool = False
    rests_at_start: bool = False
    is_strict: bool = False

    _MOVE = Move(name=TURN, from_=START, to=END, is_step=True, timeout=0)

    @property
    def places(self) -> Sequence[str]:
        """The places that moves leave."""
        return (START,)

    def moves_from(self, place: str) -> Sequence[Move] | None:
        """The turn."""
        return (self._MOVE,) if place == START else () if place == END else None

    def has_wait(self, name: str) -> bool:
        """Never: a turn asks in its middle."""
        return False

    def parse_args(self, raw: Any) -> tuple[Any, Any]:
        """What the turn is about.

        Raises:
            ArgsInvalid: it names no thread, its text is none, or a field is unknown.
        """
        if isinstance(raw, str):
            raw = {"text": raw}
        if not isinstance(raw, Mapping):
            raise ArgsInvalid(f"A turn of {self.name!r} takes a text.", {"text": "required"})
        unknown = sorted(set(map(str, raw)) - _ARGS)
        errors = dict.fromkeys(unknown, "there is no such argument")
        if not isinstance(raw.get("text", ""), str):
            errors["text"] = "it is a text"
        if not raw.get("thread") or not isinstance(raw.get("thread"), str):
            errors["thread"] = "required"
        if errors:
            raise ArgsInvalid(
                f"These arguments do not fit a turn of {self.name!r}.",
                errors,
                advice="Use agent.run(text), which makes a thread.",
            )
        stored = freeze(dict(raw), None, "args")
        return stored, stored

    def load_args(self, stored: Any) -> Any:
        """As they are."""
        return stored

    def parse_config(self, raw: Any) -> tuple[Any, Any]:
        """None."""
        stored = freeze(raw, None, "config")
        return stored, stored

    def load_config(self, stored: Any) -> Any:
        """As it is."""
        return stored

    def check_state(self, state: Any) -> Any:
        """It has none."""
        return state

    def ask(self, move: Move, args: Any) -> AskContent:
        """Never called: a turn asks in its middle."""
        raise StepError("An agent has no wait transitions.", code="RUNTIME_NOT_IMPLEMENTED")

    def accept(self, move: Move, args: Any, payload: Any) -> Any:
        """Never called, as `ask`."""
        raise StepError("An agent has no wait transitions.", code="RUNTIME_NOT_IMPLEMENTED")

    def accept_ask(self, ask: Ask, payload: Any, source: str) -> Any:
        """The answer to what a turn asked in its middle; `source` is where it came from.

        Raises:
            AnswerInvalid: it does not fit.
        """
        return accept_ask(ask, payload, source)

    def unanswered(self, record: RunRecord, ask: Ask) -> Any:
        """A repeated call ends the run where nobody can be asked about it (contracts/decisions.md, Agents 4); all else waits."""
        if ask.name != REPEAT or self.nobody is None or not self.nobody(record):
            return None
        return {REPEAT: NOBODY}

    def failure_of(self, exc: Exception, move: Move | None = None) -> Failure:
        """As it was raised; of very long texts the ends are put on record."""
        said = Failure.of(exc)
        return replace(
            said,
            message=shortened(said.message),
            advice=shortened(said.advice),
            frames=shortened(said.frames),
            traceback=shortened(said.traceback),
        )

    def shown(self, place: str) -> str:
        """Itself."""
        return place

    def group_of(self, place: str) -> tuple[str, str]:
        """None."""
        return "", ""

    def perform(self, move: Move, context: RunContext[Any], state: Any, payload: Any, envelope: Envelope) -> Any:
        """Make the turn."""
        attempt = current_attempt()
        assert attempt.live is not None
        return self._turn(attempt, context, attempt.live)

    async def _turn(self, attempt: Any, context: RunContext[Any], live: LiveCall) -> None:
        record: RunRecord = attempt.record
        store = agent_store_of(live.engine.database, record.source)
        args = context.args
        was_on = record.call is not None
        await live.begin(recoverable=True, replays=True)
        live.at_end(lambda reason: _stopped(store, record, live, reason))
        with collecting() as rows:
            if was_on:
                await store.reopen_run(record.id)
            else:
                await _forget_turn(store, record.id, args["thread"])
        live.add_rows(rows)
        try:
            deps = self.make(record, args, store)
            hooks = JournalHooks(
                record.id,
                live,
                store,
                _STREAMS,
                registry=deps.registry,
                thread_id=args["thread"],
                actor=args.get("actor", "local"),
                start_agent=self.start_agent,
            )
            result = await run_agent_loop(deps, _input(args, self.name), hooks)
            await live.flush()
            live.finished()
        except asyncio.CancelledError as exc:
            if not live.alive:
                raise  # the run was stopped, or its kernel goes down
            lost = StepError(f"Something in the turn of {self.name!r} was canceled from inside.", code="MOVE_FAILED")
            await self._failed(store, record, live, lost)
            raise lost from exc
        except Exception as exc:
            await self._failed(store, record, live, exc)
            raise
        finally:
            _STREAMS.close(record.id)
        attempt.set_result(_result_json(result, args["thread"]))

    async def _failed(self, store: JournalAgentStore, record: RunRecord, live: LiveCall, exc: Exception) -> None:
        """A turn failed: nobody waits for its calls any more, and its row says how it ended."""
        if not live.alive:
            return  # it was stopped, and that is on record already
        code = agent_failure_code(exc)
        with collecting() as rows:
            await settle_dead_run(store, record.id, {"code": code, "message": text_of(exc)}, record.loaded_args["thread"])
            await announce_end(store, record.id, self.name, record.loaded_args, stream_failure(exc))
        live.add_rows(rows)
        await live.flush()
        is_stop = isinstance(exc, RunCancelledError)
        if not is_stop:  # who stops a run is no failure of it
            publish("run.failed", {"runId": record.id, "code": code, "message": text_of(exc)}, record.id)
        _STREAMS.finish(record.id, frame("cancelled") if is_stop else frame("error", **stream_failure(exc)))


async def _forget_turn(store: JournalAgentStore, run_id: str, thread_id: str) -> None:
    """A turn begins, or begins anew (`run.retry(fresh=True)`): what it said before is taken out of its thread."""
    messages = store.messages(thread_id)
    if messages and messages[-1].run_id == run_id:
        first = next(m for m in messages if m.run_id == run_id)
        await store.truncate_from(thread_id, str(first.id))


def _stopped(store: JournalAgentStore, record: RunRecord, live: LiveCall, reason: BaseException) -> None:
    """The access of a turn ended. If it was stopped, its row says so; if it could not be stored, memory is read anew."""
    thread = record.loaded_args["thread"]
    if live.broken is not None:
        store.forget(thread)
        if (to := record.loaded_args.get("deliver")) is not None:
            store.forget(to["threadId"])
    elif getattr(reason, "code", "") == "RUN_STOPPED":
        live.leave(_settled(store, record))
        _STREAMS.finish(record.id, frame("cancelled"))


def _settled(store: JournalAgentStore, record: RunRecord) -> list[Row]:
    with collecting() as rows:
        about = {"code": "cancelled", "message": ""}
        finished(settle_dead_run(store, record.id, about, record.args["thread"]))
        finished(announce_end(store, record.id, record.workflow, record.args, about))
        _say_unsaid(store, record)
    return rows


def _say_unsaid(store: JournalAgentStore, record: RunRecord) -> None:
    """What a person said is theirs, also when the turn was stopped before it was put into the thread."""
    args = record.args
    thread = finished(store.get_thread(args["thread"]))
    if thread is None or args.get("regenerate") or not (args.get("text") or args.get("attachments")):
        return
    if not any(message.run_id == record.id and message.role == "user" for message in thread.messages):
        said = ChatMessage(
            role="user", content=args.get("text", ""), run_id=record.id, attachments=thaw(args.get("attachments")) or None
        )
        finished(store.append_message(args["thread"], said))


def canceled_rows(database: Database, record: RunRecord) -> Sequence[Row]:
    """What is stored with a run that is canceled at rest, when it is a turn of an agent: its calls wait for nobody any more."""
    if not isinstance(record.config, Mapping) or AGENT_CONFIG not in record.config:
        return ()
    return _settled(agent_store_of(database, record.source), record)


def _input(args: Mapping[str, Any], name: str) -> AgentTurnInput:
    roles = args.get("roles")
    actor = Actor(id=args.get("actor", "local"), roles=tuple(roles) if roles is not None else None, tenant_ref=args.get("tenant"))
    return AgentTurnInput(
        thread_id=args["thread"],
        actor=actor,
        user_text=args.get("text", ""),
        attachments=thaw(args["attachments"]) if args.get("attachments") else None,
        agent_name=name,
        regenerate=args.get("regenerate", False),
        persona=args.get("persona"),
        day=args.get("day"),
        deliver_to=args.get("deliver"),
        delegation_depth=args.get("depth", 0),
        delegation_path=tuple(args.get("path", ())),
        parent_run_id=args.get("parent"),
        page_context=thaw(args.get("pageContext")),
        ui_capabilities=thaw(args.get("uiCapabilities")),
    )


def _result_json(result: AgentTurnResult, thread_id: str) -> dict[str, Any]:
    out: dict[str, Any] = {"text": result.text, "threadId": thread_id, "usage": dict(result.usage), "costUsd": result.cost_usd}
    out |= {"object": result.object} if result.object is not None else {}
    out |= {"stoppedBy": result.stopped_by} if result.stopped_by else {}
    return {**out, "steps": result.steps}


def know_agent(definition: AgentRunDefinition) -> AgentRunDefinition:
    """Make an agent known under its name; runs of it that a dead kernel left go on.

    Raises:
        DefinitionError: something of another place has the name.
    """
    REGISTRY.add(definition, definition.origin, f"the agent {definition.name}")
    return definition


def fingerprint_of(told: Any) -> str:
    """What tells one version of an agent from another."""
    return hashlib.sha256(dumps(told).encode()).hexdigest()[:16]


def origin_of(module: str) -> str:
    """Where an agent was written: the notebook, or the module."""
    return (notebook_name() or module) if module == "__main__" else module
