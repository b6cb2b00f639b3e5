"""Help for tests of the agent loop: deps with sensible defaults, and runners: inline, and a journal that can replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loomnb.agents import (
    Actor,
    AgentTurnInput,
    AgentTurnResult,
    AnswersReply,
    Decision,
    DefaultRolesPolicy,
    InMemoryAgentStore,
    LoopDeps,
    NonDeterminismError,
    ToolRegistry,
    create_functional_tool,
    run_agent_loop,
)
from loomnb.runtime import ToolRequest, TurnResult
from loomnb.testing import ScriptedModel, StillSource

ANN = Actor(id="ann", roles=("user",))
Step = Callable[[], Awaitable[Any]]


def tool(name: str, execute: Callable[..., Any] = lambda given, ctx: "ok", **more: Any) -> Any:
    return create_functional_tool(
        **{"name": name, "description": f"Tool {name}.", "input": dict[str, Any], "execute": execute, **more}
    )


def registry_of(*tools: Any) -> ToolRegistry:
    registry = ToolRegistry()
    for one in tools:
        registry.register(one.spec, one.handler)
    return registry


def a_store() -> InMemoryAgentStore:
    return InMemoryAgentStore(source=StillSource())


def deps(model: Any, *tools: Any, **more: Any) -> LoopDeps:
    """What a turn works with: of a model, or of what its turns say."""
    given: dict[str, Any] = {
        "model": model if hasattr(model, "run_turn") else ScriptedModel(model),
        "store": more.pop("store", None) or a_store(),
        "registry": registry_of(*tools),
        "roles_policy": DefaultRolesPolicy(),
        "system_prompt": "You help.",
        "day": "2026-11-30",
        "source": StillSource(),
    }
    return LoopDeps(**{**given, **more})


def said(text: str = "", *calls: tuple[str, Any], **more: Any) -> TurnResult:
    """A turn of a model with all that it may have: calls are `(tool, input)`, their ids `call-<tool>`."""
    asked = tuple(ToolRequest(id=f"call-{name}", name=name, input=given) for name, given in calls)
    return TurnResult(**{"text": text, "tool_calls": asked, "model_id": "m-1", **more})


class Throwing:
    """A model that may not be called."""

    async def run_turn(self, request: Any) -> TurnResult:
        raise AssertionError("The model was called.")


class Writes:
    """A model that writes its turn itself: a function of the request and of how many answers there are."""

    def __init__(self, script: Any) -> None:
        self._script = script
        self.requests: list[Any] = []

    async def run_turn(self, request: Any) -> TurnResult:
        self.requests.append(request)
        result = await self._script(request, sum(m["role"] == "assistant" for m in request.messages))
        return said(result) if isinstance(result, str) else result


class Suspended(Exception):
    """A runner's signal: the wait is not over."""

    __aviary_durable_control_flow__ = True


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Lines:
    """A stream that keeps what is written, whether it ended or not."""

    lines: list[str] = field(default_factory=list)
    opened: int = 0
    ended: bool = False

    async def write(self, line: str) -> None:
        self.lines += [one for one in line.split("\n") if one]

    async def end(self) -> None:
        self.ended = True

    async def fail(self, failure: Mapping[str, str]) -> None:
        raise AssertionError("A loop never fails a stream: that is the runner's.")

    async def flush(self) -> None: ...

    def frames(self, *kinds: str) -> list[dict[str, Any]]:
        """What was written; of some kinds only, if any are named."""
        frames = [json.loads(line) for line in self.lines]
        return [one for one in frames if not kinds or one["kind"] in kinds]


@dataclass
class Hooks:
    """A runner that keeps nothing: each checkpoint is simply done."""

    run_id: str = "run-1"
    decide: Callable[[Mapping[str, Any]], Any] = lambda call: Decision(approved=True)
    sink: Lines = field(default_factory=Lines)
    names: list[str] = field(default_factory=list)
    waits: list[tuple[str, float | None]] = field(default_factory=list)
    cancelled: Callable[[], Any] | None = None
    patched: Callable[[str], bool] | None = None
    parallel: Any = None
    await_answers: Any = None
    await_repeat: Any = None
    begin_action: Any = None
    dispatch_tool: Any = None
    dispatch_llm: Any = None

    def open_sink(self) -> Any:
        self.sink.opened += 1
        return self.sink

    async def step(self, name: str, fn: Step) -> Any:
        self.names.append(name)
        return await fn()

    async def await_approval(self, call: Mapping[str, Any], ctx: Any, *, timeout_ms: float | None = None) -> Decision:
        self.names.append(f"tool:{self.run_id}:{call['id']}")
        self.waits.append((call["id"], timeout_ms))
        decision: Decision = self.decide(call)
        return decision


@dataclass
class Journal(Hooks):
    """A runner with a positional journal: a name that differs from the recorded one is a divergence; values go through JSON.

    `dies_at`: the process is gone before the checkpoint at this position is made. `suspends`: checkpoints that raise the
    runner's signal once.
    """

    records: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0
    dies_at: int | None = None
    suspends: set[str] = field(default_factory=set)
    made: list[str] = field(default_factory=list)
    """The checkpoints that were made here, and not replayed."""

    async def step(self, name: str, fn: Step) -> Any:
        position = self.at
        self.at += 1
        self.names.append(name)
        if position < len(self.records) and self.records[position][1]:
            expected, value = self.records[position]
            if expected != name:
                raise NonDeterminismError(position, expected, name)
            return json.loads(value)
        if position == self.dies_at:
            raise Killed
        if position == len(self.records):
            self.records.append((name, ""))
        if name in self.suspends:
            self.suspends.remove(name)
            raise Suspended
        value = json.dumps(await fn(), allow_nan=False)
        self.made.append(name)
        self.records[position] = (name, value)
        return json.loads(value)

    async def await_approval(self, call: Mapping[str, Any], ctx: Any, *, timeout_ms: float | None = None) -> Decision:
        self.waits.append((call["id"], timeout_ms))

        async def decided() -> Any:
            return self.decide(call).to_json()

        return Decision.from_json(await self.step(f"tool:{self.run_id}:{call['id']}", decided))

    def again(self, **more: Any) -> Any:
        """A runner of the same journal, from its beginning: as after a restart of the process."""
        kept = {name: getattr(self, name) for name in ("run_id", "sink", "parallel", "decide", "patched", "cancelled")}
        records = list(self.records)
        while records and not records[-1][1]:
            records.pop()
        runner = type(self)(**{**kept, "records": records, **more})
        if self.await_answers is not None and "await_answers" not in more:
            answering(runner, self.reply)
        return runner

    reply: Any = None


async def _parallel(tasks: Sequence[Step]) -> list[tuple[Any, BaseException | None]]:
    running = [asyncio.ensure_future(task()) for task in tasks]
    await asyncio.wait(running)
    return [(None, t.exception()) if t.exception() else (t.result(), None) for t in running]


def with_parallel(hooks: Any) -> Any:
    hooks.parallel = _parallel
    return hooks


def answering(hooks: Any, reply: Any) -> Any:
    """A runner whose person answers every set of questions with this."""

    async def await_answers(request: Mapping[str, Any], ctx: Any) -> AnswersReply:
        async def fn() -> Any:
            return {"answers": reply.answers, "skipped": reply.skipped, "by": reply.answered_by, "via": reply.answered_via}

        got = await hooks.step(f"tool:{hooks.run_id}:{request['id']}", fn)
        return AnswersReply(answers=got["answers"], skipped=got["skipped"], answered_by=got["by"], answered_via=got["via"])

    hooks.await_answers, hooks.reply = await_answers, reply
    return hooks


def turn(configured: LoopDeps, hooks: Any = None, text: str = "Hello", **more: Any) -> AgentTurnResult:
    """Run one turn to its end, in a thread that is made when it is not there."""

    async def main() -> AgentTurnResult:
        given = AgentTurnInput(**{"thread_id": "t1", "actor": ANN, "user_text": text, **more})
        if await configured.store.get_thread(given.thread_id) is None:
            await configured.store.create_thread(actor=given.actor, id=given.thread_id)
        return await run_agent_loop(configured, given, hooks if hooks is not None else Hooks())

    return asyncio.run(main())


def messages_of(configured: LoopDeps, thread_id: str = "t1") -> list[dict[str, Any]]:
    """What is stored of a thread."""
    store: Any = configured.store
    return [one.to_json() for one in store.messages(thread_id)]


def rows_of(configured: LoopDeps) -> list[Any]:
    """The rows of tool calls."""
    store: Any = configured.store
    return list(store.tool_calls())


def row_of(configured: LoopDeps, name: str) -> Any:
    """The only row of a tool."""
    (row,) = [row for row in rows_of(configured) if row.tool_name == name]
    return row


def purposes_of(configured: LoopDeps) -> list[str]:
    """For what models were called, in order."""
    store: Any = configured.store
    return [row.purpose for row in store.usage_rows()]


def everything_of(configured: LoopDeps) -> dict[str, Any]:
    """All that is stored, to be compared; but for how long tools took, which a process knows only of those it ran itself."""
    store: Any = configured.store
    return {
        "messages": messages_of(configured),
        "rows": [replace(row, duration_ms=None).to_json() for row in rows_of(configured)],
        "usage": [row.to_json() for row in store.usage_rows()],
        "runs": list(store.runs()),
        "title": asyncio.run(store.get_thread("t1")).title,
    }
