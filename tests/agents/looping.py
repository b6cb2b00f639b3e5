"""Help for tests of the agent loop: deps with sensible defaults, and runners: inline, and a positional journal that can replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    MemorySink,
    NonDeterminismError,
    ToolRegistry,
    create_functional_tool,
    run_agent_loop,
)
from loomnb.testing import ScriptedModel

ANN = Actor(id="ann", roles=("user",))


def tool(name: str, execute: Callable[..., Any], **more: Any) -> Any:
    return create_functional_tool(name=name, description=f"Tool {name}.", input=dict[str, Any], execute=execute, **more)


def registry_of(*tools: Any) -> ToolRegistry:
    registry = ToolRegistry()
    for one in tools:
        registry.register(one.spec, one.handler)
    return registry


def deps(model: Any, *tools: Any, store: Any = None, **more: Any) -> LoopDeps:
    given: dict[str, Any] = {
        "model": model if not isinstance(model, (list, tuple)) and not callable(model) or hasattr(model, "run_turn") else ScriptedModel(model),
        "store": store if store is not None else InMemoryAgentStore(),
        "registry": registry_of(*tools),
        "roles_policy": DefaultRolesPolicy(),
        "system_prompt": "You help.",
        "day": "2026-11-30",
    }
    return LoopDeps(**{**given, **more})


class Suspended(Exception):
    """A runner's signal: the wait is not over."""

    __aviary_durable_control_flow__ = True


@dataclass
class Hooks:
    """A runner that keeps nothing: each checkpoint is simply done."""

    run_id: str = "run-1"
    decide: Callable[[Mapping[str, Any]], Any] = lambda call: Decision(approved=True)
    sink: MemorySink = field(default_factory=MemorySink)
    names: list[str] = field(default_factory=list)
    waits: list[tuple[str, float | None]] = field(default_factory=list)

    def open_sink(self) -> Any:
        return self.sink.open(self.run_id)

    async def step(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        self.names.append(name)
        return await fn()

    async def await_approval(self, call: Mapping[str, Any], ctx: Any, *, timeout_ms: float | None = None) -> Decision:
        self.names.append(f"tool:{self.run_id}:{call['id']}")
        self.waits.append((call["id"], timeout_ms))
        return self.decide(call)


@dataclass
class Journal(Hooks):
    """A runner with a positional journal: a name that differs from the recorded one is a divergence; values go through JSON."""

    records: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0

    async def step(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        position = self.at
        self.at += 1
        if position < len(self.records):
            expected, value = self.records[position]
            if expected != name:
                raise NonDeterminismError(position, expected, name)
            self.names.append(name)
            return json.loads(value)
        self.names.append(name)
        self.records.append((name, "null"))
        try:
            value = await fn()
        except BaseException:
            del self.records[position:]
            raise
        self.records[position] = (name, json.dumps(value, allow_nan=False))
        return json.loads(self.records[position][1])

    async def await_approval(self, call: Mapping[str, Any], ctx: Any, *, timeout_ms: float | None = None) -> Decision:
        self.waits.append((call["id"], timeout_ms))

        async def decided() -> Any:
            return self.decide(call).to_json()

        return Decision.from_json(await self.step(f"tool:{self.run_id}:{call['id']}", decided))

    def replayed(self, **more: Any) -> Any:
        """A runner of the same journal, from its beginning."""
        return type(self)(run_id=self.run_id, records=list(self.records), **more)


async def _parallel(tasks: Sequence[Callable[[], Awaitable[Any]]]) -> list[tuple[Any, BaseException | None]]:
    running = [asyncio.ensure_future(task()) for task in tasks]
    await asyncio.wait(running)
    return [(None, t.exception()) if t.exception() else (t.result(), None) for t in running]


def with_parallel(hooks: Any) -> Any:
    hooks.parallel = _parallel
    return hooks


def answering(hooks: Any, reply: AnswersReply) -> Any:
    async def await_answers(request: Mapping[str, Any], ctx: Any) -> AnswersReply:
        async def fn() -> Any:
            return {"answers": reply.answers, "skipped": reply.skipped, "by": reply.answered_by, "via": reply.answered_via}

        got = await hooks.step(f"tool:{hooks.run_id}:{request['id']}", fn)
        return AnswersReply(answers=got["answers"], skipped=got["skipped"], answered_by=got["by"], answered_via=got["via"])

    hooks.await_answers = await_answers
    return hooks


async def thread_in(store: Any, thread_id: str = "t1", actor: Actor = ANN, **more: Any) -> None:
    if await store.get_thread(thread_id) is None:
        await store.create_thread(actor=actor, id=thread_id, **more)


def turn(configured: LoopDeps, hooks: Any = None, text: str = "Hello", **more: Any) -> AgentTurnResult:
    """Run one turn to its end."""

    async def main() -> AgentTurnResult:
        given = AgentTurnInput(**{"thread_id": "t1", "actor": ANN, "user_text": text, **more})
        await thread_in(configured.store, given.thread_id, given.actor)
        return await run_agent_loop(configured, given, hooks if hooks is not None else Hooks())

    return asyncio.run(main())


def frames_of(hooks: Any, run_id: str | None = None) -> list[dict[str, Any]]:
    """The frames of a run that has ended."""

    async def main() -> list[dict[str, Any]]:
        writer = hooks.sink.open(run_id or hooks.run_id) if False else None
        del writer
        return [json.loads(line) async for line in hooks.sink.subscribe(run_id or hooks.run_id)]

    return asyncio.run(main())
