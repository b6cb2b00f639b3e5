"""What `loom.Agent` refuses when it is made, or used: before a turn begins, in words that say what to write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import ScriptedModel
from tests.helpers import ended, plain_id


@pytest.mark.parametrize(
    "options",
    [
        {"tools": len},
        {"tools": "add"},
        {"history": 20},
        {"budget": 5},
        {"max_steps": 0},
        {"max_steps": True},
        {"repeat_guard": 0},
        {"approvals": {"nobody": "ask"}},
        {"name": ""},
        {"follow_ups": -1},
        {"follow_ups": "2"},
        {"output_repairs": -1},
        {"approval_ttl": "5"},
        {"approval_ttl": 0},
        {"tool_timeout": -1},
        {"tool_timeouts": {"add": float("nan")}},
        {"quota": 5},
        {"retriever": 5},
        {"roles_policy": 5},
        {"instructions": 5},
    ],
    ids=plain_id,
)
def test_an_option_that_cannot_work_is_refused_when_the_agent_is_made(store: loom.Loom, options: dict[str, Any]) -> None:
    with pytest.raises(loom.DefinitionError):
        loom.Agent(ScriptedModel(["Hello."]), store=store, **{"name": "optional", **options})


def test_an_agent_whose_name_another_one_took_starts_no_turn(store: loom.Loom) -> None:
    first = loom.Agent(ScriptedModel(["First."]), name="taken", store=store)
    second = loom.Agent(ScriptedModel(["Second."]), name="taken", store=store)

    with pytest.raises(loom.DefinitionError, match="name"):
        first.run("Hello.")
    assert ended(second.run("Hello.")).text == "Second."


def test_one_attachment_by_itself_is_refused_and_not_read_letter_by_letter(store: loom.Loom) -> None:
    agent = loom.Agent(ScriptedModel(["Hello."]), name="attaching", store=store)

    with pytest.raises(loom.Refused, match="list"):
        agent.run("Look.", attachments="report.pdf")


@pytest.mark.parametrize("price", [(-1, 2), (1,), {"input": 1}, "1", (1, float("nan"))], ids=plain_id)
def test_a_price_that_is_none_is_refused_and_none_is_stored(store: loom.Loom, price: Any) -> None:
    with pytest.raises(loom.InvalidRequest):
        store.set_model_prices({"good": (1, 2), "bad": price})

    assert store.sql("select count(*) from model_prices").fetchall() == [(0,)]


def test_the_row_of_a_call_says_from_where_it_was_decided_and_how_long_it_took(store: loom.Loom) -> None:
    @loom.agent_tool(kind="action")
    def send(to: str) -> str:
        """Sends."""
        return to

    agent = loom.Agent(ScriptedModel([[("send", {"to": "bob"})], "Sent."]), [send], name="sending", store=store)
    store.answers({"sending": {"send": True}})

    ended(agent.run("Send."))

    ((via, took),) = store.sql("select decided_via, duration_ms >= 0 from tool_calls").fetchall()
    assert (via, took) == ("loom.answers", True)


def test_nobody_but_the_clock_can_say_that_an_approval_expired(store: loom.Loom) -> None:
    @loom.agent_tool(kind="action")
    def send(to: str) -> str:
        """Sends."""
        return to

    agent = loom.Agent(ScriptedModel([[("send", {"to": "bob"})], "Sent."]), [send], name="patient", store=store)
    run = agent.run("Send.")
    asyncio.run(run.settled())

    with pytest.raises(loom.AnswerInvalid):
        run.answer("send", {"expired": True})
    assert [ask.name for ask in run.pending] == ["send"]


def test_a_misspelt_vendor_is_told_with_the_one_that_was_meant(store: loom.Loom) -> None:
    agent = loom.Agent("antropic:claude-sonnet-4-5", name="misspelt", store=store)

    with pytest.raises(loom.RunFailed, match="Did you mean 'anthropic'"):
        ended(agent.run("Hello."))
