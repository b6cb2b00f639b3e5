"""What a turn of an agent costs beside its model: a stub model that asks for one tool twenty times and then is done.

A step is one call of the model and the tool it asks for. `no journal` is the bare loop (`run_agent_loop`) with a store in
memory and a runner that keeps nothing; the other two are `loom.Agent` on a DuckDB file, where every call of the model and of
the tool is durable before the next begins (`sync`), or goes on while commits are in flight (`pipelined`). Peers do the same with
the loop that they ship. What counts is the CPU of the process, all threads of it; the time that passes is printed beside it.

Then how it grows: one turn of 200 steps, and a conversation of 1,000 messages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from typing import Any

import bench_import
import rounds

STEPS = 20
LONG = 200  # steps of the long turn
MESSAGES = 1_000
TENTH = 10


# ---- loomnb --------------------------------------------------------------------------------------


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def stub(asks: Any) -> Any:
    """A model that asks for `add` as long as `asks(messages)` gives a number for it. It writes no frames, as peers' stubs."""
    from loomnb.runtime import ToolRequest, TurnResult

    class Stub:
        model_id = "stub"

        async def run_turn(self, request: Any) -> Any:
            n = asks(request.messages)
            if n is None:
                return TurnResult(text="done", model_id="stub")
            return TurnResult(tool_calls=[ToolRequest(id=f"c{n}", name="add", input={"a": n, "b": 1})], model_id="stub")

    return Stub()


def first(steps: int) -> Any:
    """Asks `steps` times in a thread that is new."""

    def asks(messages: Any) -> int | None:
        n = sum(message["role"] == "assistant" for message in messages)
        return n if n < steps else None

    return asks


class NoJournal:
    """A runner that keeps nothing."""

    def __init__(self, run_id: str, sink: Any) -> None:
        self.run_id, self.sink = run_id, sink

    def open_sink(self) -> Any:
        return self.sink.open(self.run_id)

    async def step(self, name: str, fn: Any) -> Any:
        return await fn()


def loomnb_bare(o: argparse.Namespace, scripted: bool = False) -> Iterator[None]:
    import loomnb as loom
    from loomnb.agents import Actor, AgentTurnInput, LoopDeps, MemorySink, ToolRegistry, run_agent_loop, tool_of
    from loomnb.testing import ScriptedModel

    asks = first(STEPS)

    def script(request: Any, turn: int) -> Any:
        n = asks(request.messages)
        return "done" if n is None else [("add", {"a": n, "b": 1})]

    store, registry, sink = loom.InMemoryAgentStore(), ToolRegistry(), MemorySink()
    registry.register(*tool_of(add))
    deps = LoopDeps(
        model=ScriptedModel(script) if scripted else stub(asks),
        store=store,
        registry=registry,
        roles_policy=loom.DefaultRolesPolicy(),
        system_prompt="Go.",
        day="2026-11-30",
        max_steps=STEPS + 1,
    )
    me = Actor(id="me")

    async def turns(prefix: str, count: int) -> None:
        for i in range(count):
            await store.create_thread(actor=me, id=f"{prefix}{i}")
            given = AgentTurnInput(thread_id=f"{prefix}{i}", actor=me, user_text="go")
            result = await run_agent_loop(deps, given, NoJournal(f"run-{prefix}{i}", sink))
            assert (result.text, result.steps) == ("done", STEPS + 1), result
            sink.close(f"run-{prefix}{i}")

    asyncio.run(turns("warm", 1))
    yield
    asyncio.run(turns("t", o.turns))
    yield


def loomnb_agent(o: argparse.Namespace, durability: str) -> Iterator[None]:
    import loomnb as loom

    loom.open(str(o.folder / "loom.duckdb"), durability=durability)
    agent = loom.Agent(stub(first(STEPS)), [add], "Go.", max_steps=STEPS + 1)

    async def turns(count: int) -> None:
        for _ in range(count):
            result = await agent.run("go")
            assert (result.text, result.steps) == ("done", STEPS + 1), result

    asyncio.run(turns(1))
    yield
    asyncio.run(turns(o.turns))
    yield
    loom.close()
    o.figures["body"] = journal_bytes(o)[0] / (o.turns + 1) / STEPS


def journal_bytes(o: argparse.Namespace) -> tuple[float, list[tuple[str, int]]]:
    """Bytes of the journal's lines: all, and (kind, bytes of a line) in their order. The file itself grows by whole blocks."""
    import duckdb

    with duckdb.connect(str(o.folder / "loom.duckdb"), read_only=True) as db:
        rows = db.execute("select kind, strlen(body::varchar) from journal order by seq").fetchall()
    return float(sum(size for _, size in rows)), rows


# ---- peers ---------------------------------------------------------------------------------------


def pydantic_ai(o: argparse.Namespace) -> Iterator[None]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import UsageLimits

    def model(messages: Any, info: Any) -> Any:
        n = sum(isinstance(message, ModelResponse) for message in messages)
        call = ToolCallPart("add", {"a": n, "b": 1}, tool_call_id=f"c{n}")
        return ModelResponse(parts=[call if n < STEPS else TextPart("done")])

    agent = Agent(FunctionModel(model), tools=[add], system_prompt="Go.")

    async def turns(count: int) -> None:
        for _ in range(count):
            result = await agent.run("go", usage_limits=UsageLimits(request_limit=1000))
            assert result.output == "done"

    asyncio.run(turns(1))
    yield
    asyncio.run(turns(o.turns))
    yield


def langgraph_agent(asks: Any, saver: Any = None) -> Any:
    from langchain.agents import create_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool

    class Stub(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "stub"

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
            n = asks(messages)
            call = {"name": "add", "args": {"a": n, "b": 1}, "id": f"c{n}"}
            said = AIMessage("", tool_calls=[call]) if n is not None else AIMessage("done")
            return ChatResult(generations=[ChatGeneration(message=said)])

    return create_agent(Stub(), [tool(add)], system_prompt="Go.", checkpointer=saver)


def langgraph_first(steps: int) -> Any:
    def asks(messages: Any) -> int | None:
        n = sum(message.type == "ai" for message in messages)
        return n if n < steps else None

    return asks


GO = {"messages": [{"role": "user", "content": "go"}]}


def langgraph(o: argparse.Namespace) -> Iterator[None]:
    agent = langgraph_agent(langgraph_first(STEPS))

    async def turns(count: int) -> None:
        for _ in range(count):
            result = await agent.ainvoke(GO, {"recursion_limit": 1000})
            assert result["messages"][-1].content == "done"

    asyncio.run(turns(1))
    yield
    asyncio.run(turns(o.turns))
    yield


def opened_saver(o: argparse.Namespace) -> Any:
    from langgraph.checkpoint.sqlite import SqliteSaver

    saver = SqliteSaver(sqlite3.connect(o.folder / "lg.sqlite", check_same_thread=False))
    saver.setup()
    return saver


def langgraph_saver(o: argparse.Namespace) -> Iterator[None]:
    saver = opened_saver(o)
    agent = langgraph_agent(langgraph_first(STEPS), saver)

    def turns(prefix: str, count: int) -> None:
        for i in range(count):
            thread = {"recursion_limit": 1000, "configurable": {"thread_id": f"{prefix}{i}"}}
            result = agent.invoke(GO, thread, durability="sync")
            assert result["messages"][-1].content == "done"

    turns("warm", 1)
    yield
    turns("t", o.turns)
    yield
    o.figures["body"] = saved_bytes(saver) / (o.turns + 1) / STEPS
    saver.conn.close()


def saved_bytes(saver: Any) -> float:
    sizes = "select sum(length(checkpoint) + length(metadata)) from checkpoints", "select sum(length(value)) from writes"
    return float(sum(saver.conn.execute(size).fetchone()[0] for size in sizes))


def openai_agents(o: argparse.Namespace) -> Iterator[None]:
    from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Stub(Model):
        async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002
            items = input if isinstance(input, list) else []
            n = sum(isinstance(item, dict) and item.get("type") == "function_call_output" for item in items)
            if n < STEPS:
                arguments = json.dumps({"a": n, "b": 1})
                said: Any = ResponseFunctionToolCall(arguments=arguments, call_id=f"c{n}", name="add", type="function_call")
            else:
                text = ResponseOutputText(text="done", type="output_text", annotations=[])
                said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    agent = Agent(name="a", model=Stub(), tools=[function_tool(add)], instructions="Go.")

    async def turns(count: int) -> None:
        for _ in range(count):
            result = await Runner.run(agent, "go", max_turns=1000)
            assert result.final_output == "done"

    asyncio.run(turns(1))
    yield
    asyncio.run(turns(o.turns))
    yield


# ---- growth --------------------------------------------------------------------------------------


class Ticks:
    """The CPU of the process at each call of the model: what a step costs at both ends, in ms."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.at = options, list[float]()

    def of(self, asks: Any) -> Any:
        def ticking(messages: Any) -> Any:
            self.at.append(time.process_time())
            return asks(messages)

        return ticking

    def note(self, per: int = 1) -> None:
        """`per`: calls of the model in what is measured."""
        ends = max(2, len(self.at) // TENTH)
        begin = (self.at[ends] - self.at[0]) / ends * per * 1e3
        end = (self.at[-1] - self.at[-1 - ends]) / ends * per * 1e3
        self.options.figures |= {"first": begin, "last": end}


def ends(sizes: list[int]) -> dict[str, float]:
    tenth = len(sizes) // TENTH
    return {"bytes_first": sum(sizes[:tenth]) / tenth, "bytes_last": sum(sizes[-tenth:]) / tenth}


def loomnb_long(o: argparse.Namespace) -> Iterator[None]:
    import loomnb as loom

    ticks = Ticks(o)
    loom.open(str(o.folder / "loom.duckdb"))
    agent = loom.Agent(stub(ticks.of(first(LONG))), [add], "Go.", max_steps=LONG + 1)

    async def turn() -> None:
        assert (await agent.run("go")).steps == LONG + 1

    yield
    asyncio.run(turn())
    yield
    loom.close()
    ticks.note()
    whole, rows = journal_bytes(o)
    lines = [size for _, size in rows]
    width = len(lines) // LONG  # lines of a step: what is over at both ends does not matter to tenths
    o.figures |= ends([sum(lines[i : i + width]) for i in range(0, LONG * width, width)]) | {"each": whole / LONG}


def langgraph_long(o: argparse.Namespace) -> Iterator[None]:
    ticks, saver = Ticks(o), opened_saver(o)
    agent = langgraph_agent(ticks.of(langgraph_first(LONG)), saver)
    yield
    agent.invoke(GO, {"recursion_limit": 10 * LONG, "configurable": {"thread_id": "t"}}, durability="sync")
    yield
    ticks.note()
    sizes = [
        row[0] + row[1]
        for row in saver.conn.execute(
            "select length(checkpoint) + length(metadata), (select coalesce(sum(length(value)), 0) from writes w where "
            "w.thread_id = c.thread_id and w.checkpoint_id = c.checkpoint_id) from checkpoints c order by checkpoint_id"
        )
    ]
    o.figures |= ends([a + b for a, b in zip(sizes[::2], sizes[1::2], strict=False)]) | {"each": sum(sizes) / LONG}
    saver.conn.close()


def loomnb_thread(o: argparse.Namespace) -> Iterator[None]:
    """A conversation, three messages a turn: what was said, a call of the tool, the answer."""
    import loomnb as loom

    ticks, count, turns = Ticks(o), iter(range(10**6)), MESSAGES // 3 + 1
    loom.open(str(o.folder / "loom.duckdb"))
    asks = ticks.of(lambda messages: next(count) if messages[-1]["role"] == "user" else None)
    agent = loom.Agent(stub(asks), [add], "Go.")

    async def conversation() -> None:
        thread: str | None = None
        for _ in range(turns):
            thread = (await agent.run("go", thread=thread)).thread_id

    yield
    asyncio.run(conversation())
    yield
    loom.close()
    ticks.note(per=2)
    whole, rows = journal_bytes(o)
    by_turn = [0]
    for kind, size in rows:
        by_turn += [0] if kind == "run.started" else []
        by_turn[-1] += size
    o.figures |= ends(by_turn[1:]) | {"each": whole / turns}


def langgraph_thread(o: argparse.Namespace) -> Iterator[None]:
    ticks, saver, count, turns = Ticks(o), opened_saver(o), iter(range(10**6)), MESSAGES // 4
    agent = langgraph_agent(ticks.of(lambda messages: next(count) if messages[-1].type == "human" else None), saver)
    yield
    sizes = []
    for _ in range(turns):
        agent.invoke(GO, {"configurable": {"thread_id": "t"}}, durability="sync")
        sizes.append(saved_bytes(saver))
    yield
    ticks.note(per=2)
    o.figures |= ends([b - a for a, b in zip([0, *sizes], sizes, strict=False)]) | {"each": sizes[-1] / turns}
    saver.conn.close()


# ---- the whole -----------------------------------------------------------------------------------

BARE, SYNC, PIPELINED = "loomnb, no journal", "loomnb, journal", "loomnb, journal, pipelined"
SAVER = "LangGraph agent, SqliteSaver sync"
PEERS = ("pydantic-ai Agent", "LangGraph agent", "openai-agents Runner")
GROWING = {
    f"loomnb, journal, {LONG} steps": loomnb_long,
    f"LangGraph SqliteSaver, {LONG} steps": langgraph_long,
    f"loomnb, journal, {MESSAGES} messages": loomnb_thread,
    f"LangGraph SqliteSaver, {MESSAGES} messages": langgraph_thread,
}
ENGINES: dict[str, rounds.Engine] = {
    BARE: loomnb_bare,
    "loomnb, no journal, ScriptedModel": lambda o: loomnb_bare(o, scripted=True),
    SYNC: lambda o: loomnb_agent(o, "sync"),
    PIPELINED: lambda o: loomnb_agent(o, "pipelined"),
    PEERS[0]: pydantic_ai,
    PEERS[1]: langgraph,
    PEERS[2]: openai_agents,
    SAVER: langgraph_saver,
    **GROWING,
}
IMPORTS = {
    "loomnb": "import loomnb\nclass M:\n    async def run_turn(self, r): ...\nloomnb.Agent(M())",
    "pydantic-ai": "from pydantic_ai import Agent\nAgent()",
    "langchain": "from langchain.agents import create_agent\nfrom langchain_core.language_models.fake_chat_models import "
    "FakeListChatModel\ncreate_agent(FakeListChatModel(responses=['x']), [])",
    "openai-agents": "from agents import Agent\nAgent(name='a')",
}


def imports(count: int) -> dict[str, float]:
    """CPU of a fresh process for the first agent, in ms: the least of several."""
    least: dict[str, float] = {}
    for number in range(count + 1):
        for name in random.sample(list(IMPORTS), k=len(IMPORTS)):
            try:
                seconds, _ = bench_import.cpu(IMPORTS[name])
            except RuntimeError as failure:
                if number == 0:
                    print(f"{name} FAILED:\n{failure}")
                continue
            if number:  # the first round only writes bytecode and fills the page cache
                least[name] = min(seconds * 1e3, least.get(name, seconds * 1e3))
    return least


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10, help=f"of {STEPS} steps each, per round")
    figures = rounds.main(__file__, ENGINES, parser)
    if figures is None:
        return 0
    options = parser.parse_args()
    steps = options.turns * STEPS
    cpu = {name: rounds.median(rows, "cpu") * 1e3 / steps for name, rows in figures.items() if name not in GROWING}
    peers = [cpu[name] for name in PEERS if name in cpu]
    best = min(peers) if peers else None
    print(f"\n{steps} steps per engine and round; median of {options.rounds} rounds\n")
    print("| engine | CPU ms/step (min..max) | ms/step | x best peer | x SqliteSaver | bytes/step | peak MB |")
    print("|---|---|---|---|---|---|---|")

    def ratio(name: str, to: float | None) -> float | None:
        return cpu[name] / to if name in cpu and to else None

    def told(value: float | None, form: str = ".2f") -> str:
        return "-" if value is None else format(value, form)

    for name, value in cpu.items():
        rows = figures[name]
        low, high = (end(row["cpu"] for row in rows) * 1e3 / steps for end in (min, max))
        wall, peak = rounds.median(rows, "wall") * 1e3 / steps, rounds.median(rows, "peak")
        size = rounds.median(rows, "body") if "body" in rows[0] else None
        ratios = f"{told(ratio(name, best))} | {told(ratio(name, cpu.get(SAVER)))}"
        print(f"| {name} | {value:.2f} ({low:.2f}..{high:.2f}) | {wall:.2f} | {ratios} | {told(size, '.0f')} | {peak:.0f} |")

    print("\n| each step, or turn of the conversation | CPU ms, first -> last 10 % | bytes, first -> last 10 % | bytes each |")
    print("|---|---|---|---|")
    grown = {name: {k: rounds.median(rows, k) for k in rows[0]} for name, rows in figures.items() if name in GROWING}
    for name, row in grown.items():
        sizes = f"{row['bytes_first']:.0f} -> {row['bytes_last']:.0f} | {row['each']:.0f}"
        print(f"| {name} | {row['first']:.2f} -> {row['last']:.2f} | {sizes} |")

    made = imports(options.rounds) if not options.only else {}
    if made:
        print("\n| the first agent of a fresh process | ms CPU |\n|---|---|")
        for name, value in made.items():
            print(f"| {name} | {value:.0f} |")

    print("\nTargets, as multiples of the peer's CPU:")
    met = [
        rounds.verdict(f"{BARE}, to the best peer", ratio(BARE, best), 0.5, at_least=False),
        rounds.verdict(f"{SYNC}, to {SAVER}", ratio(SYNC, cpu.get(SAVER)), 0.8, at_least=False),
        rounds.verdict(f"{PIPELINED}, to {SAVER}", ratio(PIPELINED, cpu.get(SAVER)), 0.5, at_least=False),
    ]
    for name in GROWING:
        if name.startswith("loomnb"):
            row = grown.get(name)
            growth = row["bytes_last"] / row["bytes_first"] if row else None
            met.append(rounds.verdict(f"bytes last/first, {name}", growth, 1.2, at_least=False))
    theirs = [value for name, value in made.items() if name != "loomnb"]
    first_agent = made["loomnb"] / min(theirs) if theirs and "loomnb" in made else None
    met.append(rounds.verdict("the first agent, to the best peer's", first_agent, 1.0, at_least=False))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
