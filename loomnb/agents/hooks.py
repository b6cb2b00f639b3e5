"""The runner of the loop on a run's journal: `JournalHooks`. Each checkpoint is a numbered call of the run's one step.

What has an effect outside (a call of a model, a tool that is not `read`) is durable when it returns; what has none rides in the
commit of the next that does, or one a moment later, with the rows it wrote (contracts/decisions.md, Agents 3). In another kernel
the turn is made again: what is on record is not repeated. A call of a model or a `read` tool that was in flight is made again; an
`action` is not: a person is asked (Agents 7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from loomnb.agents.approvals import NOBODY, approval_content, elicitation_content, interrupted_content, repeat_content
from loomnb.agents.child_runs import ChildRuns
from loomnb.agents.control_flow import NonDeterminismError
from loomnb.agents.delegation import StartAgent
from loomnb.agents.failures import RepeatedCallError
from loomnb.agents.history import drop_blank, outcomes_of, settle_history
from loomnb.agents.journal_batch import collecting
from loomnb.agents.journal_store import JournalAgentStore
from loomnb.agents.registry import ToolRegistry
from loomnb.agents.results import STOPPED
from loomnb.agents.spi import AnswersReply, Decision, TokenStreamSink, ToolContext
from loomnb.agents.words import storable
from loomnb.agents.work_base import pushed
from loomnb.errors import LoomError, StepError
from loomnb.jsonvalue import freeze, thaw
from loomnb.runtime import AbortSignal, AskContent, LiveCall

__all__ = ["JournalHooks"]

T = TypeVar("T")

_EFFECTS = ("llm:", "tool:", "structured:", "followups:", "history:summarize", "retrieve", "persist:run:start", "intake:answers")
"""Checkpoints that did something which must not be done again. `persist:run:start` is among them so that what a person said can
be read before the model begins to answer."""

_CLAIM = "persist:toolcall:"


class JournalHooks:
    """What the loop is given by a run of this engine.

    Args:
        run_id: the run's id, as tools and rows know it.
        live: the access of the run's step.
        store: where its thread is.
        sink: where its frames go.
        registry: the tools, for what an approval shows.
        thread_id: the thread it stands in.
        start_agent: starts runs of other agents; None: nobody can be asked here.
    """

    def __init__(
        self,
        run_id: str,
        live: LiveCall,
        store: JournalAgentStore,
        sink: TokenStreamSink,
        *,
        registry: ToolRegistry,
        thread_id: str,
        actor: str,
        start_agent: StartAgent | None = None,
    ) -> None:
        self.run_id = run_id
        self._actor = actor
        self.abort_signal = AbortSignal()
        self._live = live
        self._store = store
        self._sink = sink
        self._registry = registry
        self._thread_id = thread_id
        self._reads: set[str] = set()
        """Checkpoints of `read` tools: one that was in flight at a kill is made again (Agents 7), so its result may ride."""
        self._edited: dict[str, Any] = {}  # call → its arguments as a person changed them
        self._children = ChildRuns(live, store, thread_id, start_agent)
        live.at_end(self.abort_signal.abort)

    def open_sink(self) -> Any:
        """The writer of the run's stream."""
        return self._sink.open(self.run_id)

    def is_control_flow_error(self, exc: BaseException) -> bool:
        """Whether it is ours and no tool's: the run was stopped, or what it did could not be stored."""
        return not self._live.alive or self._live.broken is not None or _diverged(exc)

    async def step(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        """A checkpoint of the loop.

        Raises:
            NonDeterminismError: another one is on record here.
            OwnershipLost: the run was stopped.
        """
        if name == "load:thread":
            return await self._load_thread(name, fn)
        value = await self._checkpoint(name, fn)
        if name.startswith(_CLAIM) and value["kind"] == "read":
            self._reads.add(f"tool:{name.removeprefix(_CLAIM)}")
        return value

    async def _checkpoint(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        position, found = self._live.next_number, self._live.recorded_next
        try:
            effect = name.startswith(_EFFECTS) and name not in self._reads
            return await self._live.checkpoint(name, lambda: self._collected(fn), effect=effect)
        except StepError as exc:
            if _diverged(exc):
                raise NonDeterminismError(position, found, name) from exc
            raise

    async def _collected(self, fn: Callable[[], Awaitable[Any]]) -> Any:
        with collecting(self._live.check) as rows:
            try:
                return storable(await fn()), rows
            except BaseException:
                if rows and self._live.alive:
                    # What it wrote before it failed is in memory, and will not be stored: what was before it, is.
                    await self._live.flush()
                    for thread_id in {row[0] for row in rows}:
                        self._store.forget(thread_id)
                raise

    async def _load_thread(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        """The history, of which only the ends are put on record where it is one piece of the thread: that stands in the journal
        already, and does not change. What a policy of somebody's own made of it is put on record whole."""
        full: Any = None

        async def ends() -> Any:
            nonlocal full
            full = await fn()
            if not full["isPiece"]:
                return full
            told = [m["id"] for m in (*full["dropped"], *full["messages"]) if m.get("id")]
            kept = {"first": told[0] if told else None, "last": told[-1] if told else None, "dropped": len(full["dropped"])}
            return {**kept, "title": full["title"], "hasAssistant": full["hasAssistant"]}

        mark = await self._checkpoint(name, ends)
        if full is not None:
            return full
        return mark if "messages" in mark else await self._loaded(mark)

    async def _loaded(self, mark: Mapping[str, Any]) -> Any:
        thread = await self._store.load_thread_for_turn(self._thread_id)
        messages = list(thread.messages) if thread is not None else []
        ids = [m.id for m in messages]
        first = ids.index(mark["first"]) if mark["first"] in ids else 0
        last = ids.index(mark["last"]) + 1 if mark["last"] in ids else 0
        messages = messages[first:last]
        outcomes = await outcomes_of(self._store, self._thread_id, messages)
        told = [m.to_json() for m in drop_blank(settle_history(messages, outcomes))]
        return {**mark, "messages": told[mark["dropped"] :], "dropped": told[: mark["dropped"]]}

    # -- people -----------------------------------------------------------------------------------

    async def await_approval(self, call: Mapping[str, Any], ctx: ToolContext, *, timeout_ms: float | None = None) -> Decision:
        """Wait for a person, as long as it takes: also into another kernel."""
        spec = self._registry.spec(call["name"])
        schema = next((t.input_schema for t in await self._offered(ctx) if t.name == call["name"]), None)
        row = next((r for r in self._store.tool_calls(self._thread_id) if r.id == call["id"] and r.run_id == self.run_id), None)
        expires = (call.get("approval") or {}).get("expiresAt")
        content = approval_content(
            call,
            spec,
            schema,
            row.confirmation if row is not None else None,
            datetime.fromisoformat(expires) if expires else None,
        )
        decision = await self._ask(f"tool:{self.run_id}:{call['id']}", content, _meant(call), Decision.from_json)
        if decision.input is not None:
            self._edited[call["id"]] = decision.input
        return decision

    async def _offered(self, ctx: ToolContext) -> Any:
        policy = _Anybody()
        return await self._registry.definitions_for(ctx.actor, policy)

    async def await_answers(self, request: Mapping[str, Any], ctx: ToolContext) -> AnswersReply:
        """Wait for answers to a set of questions."""

        def reply(data: Mapping[str, Any]) -> AnswersReply:
            said = {"answered_by": ctx.actor.id, "answered_via": data.get("via")}
            return AnswersReply(answers=data.get("answers"), skipped=data.get("skipped", False), **said)

        return await self._ask(f"tool:{self.run_id}:{request['id']}", elicitation_content(request), request, reply)

    async def await_repeat(self, call: Mapping[str, Any], count: int) -> str:
        """Ask whether a call is meant that the model asks for again and again.

        Raises:
            RepeatedCallError: nobody here can answer.
        """

        def said(data: Sequence[Mapping[str, Any]]) -> str:
            return str(data[0].get("answer") or "stop").strip()

        answer = await self._ask(f"repeat:{call['id']}", repeat_content(call, count), {**_meant(call), "count": count}, said)
        if answer == NOBODY:
            raise RepeatedCallError(call["name"], count)
        return answer

    async def begin_action(self, name: str, call: Mapping[str, Any]) -> Any:
        """Mark that an action begins; what stands for its result, if it had begun before and nobody wants it made again."""
        call = {**call, "input": self._edited.get(call["id"], call["input"])}
        mark, time = name, 1
        while self._live.is_marked(mark) and self._live.recorded_next != name:
            asked = f"interrupted:{call['id']}" + (f"#{time}" if time > 1 else "")
            decision = await self._ask(asked, interrupted_content(call), _meant(call), Decision.from_json)
            if not decision.approved:
                return pushed(error=STOPPED, interrupted=True)
            time += 1
            mark = f"{name}#{time}"  # begun once more: should the kernel die again, a person is asked again
        if self._live.recorded_next is None:
            await self._tell_decided(call)
            await self._live.mark(mark)
        return None

    async def _tell_decided(self, call: Mapping[str, Any]) -> None:
        """Let the call's row say that somebody agreed, with the mark that it begins: who stops it now stops what had begun."""
        decision = call.get("decision")
        if decision:
            by = decision.get("decidedBy") or (None if decision.get("via") == "remembered" else self._actor)
            told = {"decided_by": by, "decided_via": decision.get("via")}
            with collecting() as rows:
                changes = {name: value for name, value in told.items() if value is not None}
                await self._store.update_call_of_run(self._thread_id, self.run_id, call["id"], changes)
            self._live.add_rows(rows)

    async def _ask(self, name: str, content: AskContent, told: Mapping[str, Any], again: Callable[[Any], T]) -> T:
        """Ask a person. `told` is what the question is about, to the letter: how it is worded may change until it is answered."""
        try:
            return await self._live.ask(name, content, content.kind, thaw(freeze(told)), again)
        except StepError as exc:
            if _diverged(exc):
                raise NonDeterminismError(self._live.next_number - 1, None, name) from exc
            raise

    # -- other agents -----------------------------------------------------------------------------

    async def run_agent(self, name: str, task: str) -> Mapping[str, Any]:
        """Ask another agent and wait for its answer, in whichever kernel; see `ChildRuns`."""
        return await self._children.run(name, task)

    async def start_agent(self, *, agent_name: str, task: str, tool_call_id: str) -> Mapping[str, str]:
        """Let another agent begin, without waiting for it; see `ChildRuns`."""
        return await self._children.start(agent_name, task, tool_call_id)

    # -- the rest -----------------------------------------------------------------------------------

    async def parallel(self, tasks: Sequence[Callable[[], Awaitable[Any]]]) -> list[tuple[Any, BaseException | None]]:
        """Start all in order, wait for all."""
        running = [asyncio.ensure_future(task()) for task in tasks]
        try:
            await asyncio.wait(running)
        except BaseException:
            for one in running:
                one.cancel()
            raise
        return [(None, one.exception()) if one.exception() is not None else (one.result(), None) for one in running]


class _Anybody:
    def can(self, actor: Any, tool: Any) -> bool:
        return True


def _meant(call: Mapping[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("id", "name", "input")}


def _diverged(exc: BaseException) -> bool:
    return isinstance(exc, LoomError) and exc.code == "STEP_REPLAY_DIVERGED"
