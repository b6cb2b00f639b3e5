"""What a person who tried to break agents found, and must not find again."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any, cast

import pytest

import loomnb as loom
from loomnb.testing import ProtocolServer, Reply, Said, ScriptedModel
from tests.helpers import PATIENCE, ended, plain_id


def test_an_approved_action_that_is_stopped_in_its_middle_is_told_as_begun(store: loom.Loom) -> None:
    begun, go = threading.Event(), threading.Event()

    @loom.agent_tool(kind="action")
    def act(n: int) -> str:
        """Acts."""
        begun.set()
        go.wait(PATIENCE)
        return "did"

    agent = loom.Agent(ScriptedModel([[("act", {"n": 1})], "Done."]), [act], name="stopped_in_action", store=store)
    run = agent.run("Act.")
    asyncio.run(run.settled())
    run.answer("act", True)
    assert begun.wait(PATIENCE)

    run.cancel()
    go.set()

    ((status, error, by),) = store.sql("select status, error, decided_by from tool_calls").fetchall()
    assert (status, by) == ("failed", "local")
    assert "started and was stopped" in error


def test_a_models_words_are_no_raw_markdown_of_a_cell(store: loom.Loom) -> None:
    agent = loom.Agent(ScriptedModel(["<script>alert(1)</script> <img src=x onerror=alert(2)>"]), name="hostile", store=store)

    shown = ended(agent.run("Hello."))._repr_markdown_()

    assert "<script" not in shown
    assert "<img" not in shown


@pytest.mark.parametrize(
    "usage",
    [
        {"inputTokens": 10**20},
        {"inputTokens": True},
        {"inputTokens": None},
        {"inputTokens": float("nan")},
        {"inputTokens": -1},
        None,
    ],
    ids=plain_id,
)
def test_an_odd_number_of_tokens_is_unknown_and_breaks_no_query(store: loom.Loom, usage: Any) -> None:
    class Odd:
        async def run_turn(self, request: loom.TurnRequest) -> loom.TurnResult:
            return loom.TurnResult(text="Hello.", usage=usage, model_id="odd")

    agent = loom.Agent(Odd(), name="odd", store=store)

    result = ended(agent.run("Hello."))

    assert (result.text, result.usage) == ("Hello.", {})
    assert store.sql("select sum(input_tokens) from model_usage").fetchall() == [(None,)]


@pytest.mark.parametrize("given", ['{"what": NaN}', '{"what":"\\ud800"}', '{"what":' + "[" * 300 + "]" * 300 + "}"], ids=plain_id)
def test_tool_input_that_json_cannot_hold_is_told_to_the_model(store: loom.Loom, given: str) -> None:
    def look(what: str) -> str:
        """Looks."""
        return what

    with ProtocolServer([Reply(tools=[("look", given)]), "I will do better."]) as server:
        agent = loom.Agent(loom.openai_compatible(server.url, model="m"), [look], name="odd_input", store=store)

        assert ended(agent.run("Look.")).text == "I will do better."

    assert store.sql("select status from tool_calls").fetchall() == [("failed",)]


def test_what_was_said_is_kept_when_the_turn_is_stopped_at_once(store: loom.Loom) -> None:
    chat = loom.Agent(ScriptedModel(["Hello."]), name="hasty", store=store).chat()

    for _ in range(5):
        run = chat.send("Hi.")
        chat.stop()
        asyncio.run(run.settled())

    assert [m.content for m in chat.messages if m.role == "user"] == ["Hi."] * 5


def test_a_budget_in_money_stops_a_run_whose_cost_nobody_knows(store: loom.Loom) -> None:
    def look() -> str:
        """Looks."""
        return "nothing"

    model = ScriptedModel(lambda request, turn: Said(tools=[("look", {})], usage={"inputTokens": 10**6, "outputTokens": 1}))
    agent = loom.Agent(model, [look], name="unpriced", budget=loom.Budget(usd=0.01), repeat_guard=None, store=store)

    with pytest.raises(loom.RunFailed, match="set_model_prices") as failed:
        ended(agent.run("Look."))

    assert failed.value.code == "BUDGET_EXCEEDED"


class Giving:
    """A model of somebody's own."""

    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)

    async def run_turn(self, request: loom.TurnRequest) -> Any:
        return self.turns.pop(0)


@pytest.mark.parametrize(
    "given",
    [
        None,
        "hi",
        loom.TurnResult(text=None),  # type: ignore[arg-type]
        loom.TurnResult(tool_calls=None),  # type: ignore[arg-type]
        loom.TurnResult(tool_calls=["look"]),  # type: ignore[list-item]
        loom.TurnResult(tool_calls=[loom.ToolRequest(id="a", name="look", input=cast("Any", {1, 2}))]),
        loom.TurnResult(text="a", finish_reason=4),  # type: ignore[arg-type]
        loom.TurnResult(text="a", cost_usd="x"),  # type: ignore[arg-type]
        loom.TurnResult(text="a", ui=["chart"]),  # type: ignore[list-item]
    ],
    ids=plain_id,
)
def test_a_model_that_gives_no_turn_is_named(store: loom.Loom, given: Any) -> None:
    with pytest.raises(loom.RunFailed, match="Giving") as failed:
        ended(loom.Agent(Giving(given), name="silent", store=store).run("Hello."))

    assert failed.value.code == "MODEL_NO_OUTPUT"


def test_a_model_that_does_not_wait_is_told_how_to_be_written(store: loom.Loom) -> None:
    class Plain:
        def run_turn(self, request: loom.TurnRequest) -> str:
            return "hi"

    with pytest.raises(loom.RunFailed, match="async def run_turn") as failed:
        ended(loom.Agent(cast("Any", Plain()), name="plain", store=store).run("Hello."))

    assert failed.value.code == "MODEL_NO_OUTPUT"


def test_a_number_that_is_none_in_arguments_is_told_to_the_model_by_the_tool(store: loom.Loom) -> None:
    def look(size: float) -> str:
        """Looks."""
        return "seen"

    asks = loom.ToolRequest(id="a", name="look", input={"size": math.nan})
    agent = loom.Agent(
        Giving(loom.TurnResult(tool_calls=[asks]), loom.TurnResult(text="Sorry.")), [look], name="odd", store=store
    )

    assert ended(agent.run("Look.")).text == "Sorry."
    assert store.sql("select status from tool_calls").fetchall() == [("failed",)]


@pytest.mark.parametrize("cost", [-1.0, math.nan, math.inf])
def test_a_cost_that_cannot_be_is_not_known(store: loom.Loom, cost: float) -> None:
    agent = loom.Agent(Giving(loom.TurnResult(text="a", cost_usd=cost)), name="paid", store=store)

    assert ended(agent.run("Hello.")).cost is None


def test_a_stream_that_was_cut_is_booked_with_unknown_tokens(store: loom.Loom) -> None:
    with ProtocolServer([Reply(text="one two three four five six", cut_after=4)]) as server:
        agent = loom.Agent(loom.openai_compatible(server.url, model="m"), name="cut", store=store)
        with pytest.raises(loom.RunFailed):
            ended(agent.run("Count."))

    assert store.sql("select purpose, input_tokens from model_usage").fetchall() == [("chat", None)]
