"""What tests of agents on the journal share: kernels that know no agent but theirs, a story of five steps, and what it left."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import loomnb as loom
from loomnb.agents import AgentRunDefinition, agent_tool
from loomnb.ids import SYSTEM, Source
from loomnb.runtime import REGISTRY, TurnRequest
from loomnb.store import Database
from loomnb.studio.agents import Agent
from loomnb.studio.chats import AgentRun
from loomnb.testing import Said, ScriptedModel, at_rest

__all__ = ["ANSWERS", "World", "five_steps", "forget_agents", "kernel", "left", "only_turn", "sql", "to_the_end"]


def forget_agents() -> None:
    """As in a new kernel: no agent is known."""
    for name in [d.name for d in REGISTRY if isinstance(d, AgentRunDefinition)]:
        del REGISTRY._known[name]


@contextmanager
def kernel(path: Path, *, database: Any = Database, source: Source = SYSTEM, **options: Any) -> Generator[loom.Loom]:
    """A kernel that was just started on a store: no agent is known in it before its cell is run."""
    forget_agents()
    session = loom.Loom(str(path), database=database, source=source, headless=True, **options)
    try:
        yield session
    finally:
        session.close()


class World:
    """What was done to the world outside, over all kernels: `done` by tool; `said` by the model's turn."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.said: Counter[int] = Counter()


ANSWERS: Mapping[str, Any] = {
    "send_mail": True,
    "pay": {"approved": True, "input": {"amount": 5}},
    "again:send_mail": True,
    "again:pay": True,
}
"""What the person says, by the name of the question."""


def five_steps(session: loom.Loom, world: World, **options: Any) -> Agent:
    """An agent whose turn takes five calls of the model, with reads (two side by side) and two actions that are asked about."""

    def add(a: int, b: int) -> int:
        """Adds."""
        world.done["add"] += 1
        return a + b

    async def look(what: str) -> dict[str, Any]:
        """Looks something up."""
        world.done["look"] += 1
        return {"found": what}

    @agent_tool(kind="action")
    def send_mail(to: str) -> str:
        """Sends a mail."""
        world.done["send_mail"] += 1
        return f"sent to {to}"

    @agent_tool(kind="action")
    async def pay(amount: int) -> str:
        """Pays."""
        world.done["pay"] += 1
        return f"paid {amount}"

    turns = [
        Said(tools=[("add", {"a": 1, "b": 2}), ("look", {"what": "x"})], usage={"inputTokens": 10, "outputTokens": 1}),
        Said(text="Mailing.", tools=[("send_mail", {"to": "bob"})], usage={"inputTokens": 20, "outputTokens": 2}),
        Said(tools=[("add", {"a": 3, "b": 4})], usage={"inputTokens": 30, "outputTokens": 3}),
        Said(tools=[("pay", {"amount": 50})], usage={"inputTokens": 40, "outputTokens": 4}),
        Said(text="All done.", usage={"inputTokens": 50, "outputTokens": 5}, cost=0.25),
    ]

    def script(_: TurnRequest, turn: int) -> Said:
        world.said[turn] += 1
        return turns[turn]

    return Agent(ScriptedModel(script), [add, look, send_mail, pay], "You help.", name="five", store=session, **options)


def only_turn(session: loom.Loom) -> AgentRun:
    """The one run of a store."""
    ((run_id,),) = session.sql("select run_id from runs").fetchall()
    run = session.run(run_id)
    assert isinstance(run, AgentRun)
    return run


def to_the_end(run: Any, answers: Mapping[str, Any] = ANSWERS, each: Callable[[str], None] = lambda _: None) -> Any:
    """Answer what is asked until the run has ended."""
    at_rest(run)
    while run.pending:
        (ask,) = run.pending
        each(ask.name)
        run.answer(ask.id, answers[ask.name], source="loom.answers")  # as those that were given before
        at_rest(run)
    return run


def sql(session: loom.Loom, text: str) -> list[Any]:
    """The rows of a query."""
    return session.sql(text).fetchall()


_IDS = ("id", "createdAt", "runId", "messageId", "threadId", "recordedAt", "startedAt", "endedAt", "at")


def _plain(value: Any, *drop: str) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if k not in drop}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def left(session: loom.Loom, run: AgentRun) -> dict[str, Any]:
    """What a turn left, without ids and times of messages: what two runs of one story must have the same."""
    calls = "select number, name, result from step_calls where name not like 'interrupted:%' order by number"
    steps = [
        (name.replace(run.id, "RUN").replace(run.thread_id, "THREAD"), _free(result, run))
        for _, name, result in sql(session, calls)
    ]
    return {
        "status": run.status.value,
        "result": {k: v for k, v in (run.record.view.result or {}).items() if k != "threadId"},
        "messages": [_plain(m.to_json(), *_IDS) for m in run.messages],
        "stored": sql(session, "select role, content, tool_calls, tool_results, usage, cost_usd from messages order by seq"),
        "calls": sql(
            session,
            "select tool_call_id, tool_name, tool_type, input, output, status, error, decided_by, executed_by from tool_calls "
            "order by seq",
        ),
        "usage": sql(session, "select model_id, purpose, input_tokens, output_tokens, cost_usd from model_usage order by seq"),
        "steps": steps,
        "runs": sql(session, "select agent_name, status, error_code from agent_runs"),
        "threads": sql(session, "select title, messages from threads"),
    }


def _free(result: Any, run: AgentRun) -> str:
    """A recorded result without ids: those count on, and a step that was made again has later ones."""
    text = str(result).replace(run.id, "RUN").replace(run.thread_id, "THREAD")
    return re.sub(r"message-\d+|ASK-\d+", "ID", text)
