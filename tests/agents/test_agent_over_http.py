"""`loom.Agent` with vendors' own libraries underneath, over a real socket: what a person gets, in two wire formats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from loomnb.testing import ProtocolServer, Reply

PROTOCOLS = ["openai", "anthropic"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[loom.Loom]:
    with loom.Loom(str(tmp_path / "a.duckdb"), headless=True) as session:
        yield session


def model_on(server: ProtocolServer, protocol: str) -> Any:
    if protocol == "openai":
        return loom.openai_compatible(server.url, model="scripted-model")
    return loom.VendorModel("anthropic:claude-scripted", api_key="test-key", base_url=server.root)


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def ended(run: loom.AgentRun) -> loom.AgentResult:
    async def main() -> loom.AgentResult:
        return await run

    return asyncio.run(main())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_agent_calls_a_tool_and_answers(store: loom.Loom, protocol: str) -> None:
    with ProtocolServer([Reply(tools=[("add", {"a": 17, "b": 25})]), "It is 42."]) as server:
        agent = loom.Agent(model_on(server, protocol), [add], name=f"sum_{protocol}", store=store)

        result = ended(agent.run("17 + 25?"))

    assert (result.text, result.steps, server.unexpected) == ("It is 42.", 2, 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_was_said_before_is_told_again_in_the_next_turn(store: loom.Loom, protocol: str) -> None:
    with ProtocolServer([Reply(tools=[("add", {"a": 1, "b": 1})]), "Two.", "As I said: two."]) as server:
        agent = loom.Agent(model_on(server, protocol), [add], name=f"again_{protocol}", store=store)
        first = ended(agent.run("1 + 1?"))

        second = ended(agent.run("What was it?", thread=first.thread_id))

    told = str(server.requests[-1].body["messages"])
    assert second.text == "As I said: two."
    assert all(text in told for text in ("1 + 1?", "Two.", "What was it?"))


class City(BaseModel):
    name: str
    country: str


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_output_schema_gives_a_value_beside_the_text(store: loom.Loom, protocol: str) -> None:
    said = iter(["Bern, in Switzerland."])

    def reply(request: Any) -> Reply | str:
        value = {"name": "Bern", "country": "CH"}
        tools = request.body.get("tools")  # where a vendor has no JSON mode for a model, the output is a tool it has to call
        name = (tools[0].get("function") or tools[0])["name"] if tools else ""
        return next(said, None) or (Reply(tools=[(name, value)]) if tools else json.dumps(value))

    with ProtocolServer(reply) as server:
        agent = loom.Agent(model_on(server, protocol), name=f"city_{protocol}", output=City, store=store)

        result = ended(agent.run("A capital?"))

    assert (result.text, result.object) == ("Bern, in Switzerland.", {"name": "Bern", "country": "CH"})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_refused_key_fails_the_run_with_one_request_and_without_the_key(store: loom.Loom, protocol: str) -> None:
    with ProtocolServer([Reply(status=401)]) as server:
        agent = loom.Agent(model_on(server, protocol), name=f"locked_{protocol}", store=store)
        run = agent.run("Hello?")

        with pytest.raises(loom.RunFailed) as failed:
            ended(run)

    assert len(server.requests) == 1
    assert failed.value.code == "LLM_AUTH_FAILED"
    assert "test-key" not in f"{failed.value} {run.traceback} {store.sql('select body from journal').fetchall()}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_failed_turn_goes_on_from_what_is_on_record(store: loom.Loom, protocol: str) -> None:
    ran: list[int] = []

    def count(a: int) -> int:
        """Counts."""
        ran.append(a)
        return a

    with ProtocolServer([Reply(tools=[("count", {"a": 1})]), Reply(status=404), "Done."]) as server:
        agent = loom.Agent(model_on(server, protocol), [count], name=f"retry_{protocol}", store=store)
        run = agent.run("Count.")
        with pytest.raises(loom.RunFailed):
            ended(run)

        run.retry()
        result = ended(run)

    assert (result.text, ran, len(server.requests)) == ("Done.", [1], 3)
