"""What no turn of the loop, no quota and no question of governance may be given: refused in our own words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import (
    Actor,
    AgentTurnInput,
    DayRange,
    InMemoryAgentStore,
    InMemoryGovernance,
    InMemoryPricingStore,
    InMemoryQuotaStore,
    ModelPrice,
    QuotaWindow,
    SqlGovernance,
    StoreQuotaProvider,
    quota_period_range,
    run_agent_loop,
    seed_model_prices,
)
from tests.agents.looping import Hooks, deps
from tests.helpers import plain_id

HALF = "half \ud800 a pair"


class Thing:
    def __repr__(self) -> str:
        return "<thing>"


NO_TEXT: list[Any] = [5, True, b"bytes", Thing(), [5], {5: 5}, len, HALF]
NOTHING: list[Any] = [5, -1, float("nan"), True, "x", HALF, b"bytes", Thing(), [5], {"a": 5}, len]
DAYS = DayRange(date(2026, 1, 1), date(2026, 1, 2))


def pairs(values: dict[str, list[Any]]) -> list[Any]:
    return [pytest.param(what, one, id=f"{what}-{plain_id(one)}") for what, given in values.items() for one in given]


OF_DEPS: dict[str, list[Any]] = {
    **{name: [*NOTHING, None] for name in ("registry", "roles_policy", "approval_policy")},
    "store": [one for one in NOTHING if one],
    **dict.fromkeys(("retriever", "pricing_store", "history_policy", "quota", "budget"), NOTHING),
    **{name: [5, True, None, "x", {"a": 5}, len] for name in ("prompt_contributors", "input_processors", "output_processors")},
    "system_prompt": [one for one in NO_TEXT if one is not len],
    "personas": [5, None, "x", [5], {"a": 5}],
    "tool_allow_list": [5, "x", [5], [HALF], {"a": 5}],
    "tool_timeout_ms": ["x", -1, True, float("nan")],
    "tool_timeouts": [5, None, "x", [5], {"a": "x"}],
    "model_settings": [5, None, "x", [5]],
    "day": NO_TEXT,
    "model_id": NO_TEXT,
    "output_instruction": NO_TEXT,
    "max_steps": ["x", 0, True, None],
}


@pytest.mark.parametrize(("option", "value"), pairs(OF_DEPS))
def test_what_a_turn_works_with_is_judged_when_it_is_given(option: str, value: Any) -> None:
    with pytest.raises(loom.DefinitionError):
        deps([], **{option: value})


OF_TURN: dict[str, list[Any]] = {
    "thread_id": NO_TEXT,
    "actor": [*NOTHING, None, Actor(id=HALF)],
    "user_text": NO_TEXT,
    "attachments": [5, True, "x", [5], {"a": 5}],
    "ui_capabilities": [5, "x", [5]],
    "deliver_to": [5, "x", [5]],
    "delegation_depth": ["x", -1, True, None],
    "delegation_path": [5, "x", [5], [HALF]],
    **dict.fromkeys(("day", "agent_name", "persona", "sink_run_id", "parent_run_id", "model"), NO_TEXT),
}


@pytest.mark.parametrize(("option", "value"), pairs(OF_TURN))
def test_a_turn_about_nothing_is_refused_and_nothing_is_stored(option: str, value: Any) -> None:
    store = InMemoryAgentStore()
    asyncio.run(store.create_thread(actor=Actor(id="ana"), id="t"))
    given: dict[str, Any] = {"thread_id": "t", "actor": Actor(id="ana"), "user_text": "Hello.", option: value}

    with pytest.raises(loom.InvalidRequest):
        asyncio.run(run_agent_loop(deps(["Hi."], store=store), AgentTurnInput(**given), Hooks()))

    assert store.messages("t") == ()


@pytest.mark.parametrize("value", [*NOTHING, None], ids=plain_id)
def test_a_model_that_cannot_be_asked_is_refused(value: Any) -> None:
    store = InMemoryAgentStore()
    asyncio.run(store.create_thread(actor=Actor(id="ana"), id="t"))

    given = AgentTurnInput(thread_id="t", actor=Actor(id="ana"), user_text="Hi.")
    with pytest.raises(loom.DefinitionError):
        asyncio.run(run_agent_loop(replace(deps([], store=store), model=value), given, Hooks()))

    assert store.messages("t") == ()


@pytest.mark.parametrize("limit", ["usd", "tokens"])
@pytest.mark.parametrize("value", [-1, float("nan"), True, "x", [5]], ids=plain_id)
def test_a_budget_is_a_number(limit: str, value: Any) -> None:
    with pytest.raises(loom.DefinitionError):
        loom.Budget(**{limit: value})


@pytest.mark.parametrize("value", [5, None, "2026-01-01", Thing()], ids=plain_id)
def test_days_are_days(value: Any) -> None:
    with pytest.raises(loom.InvalidRequest):
        DayRange(value, value)


ASKED_OF_DAYS = ("spend_by_actor", "spend_by_thread", "usage_trend", "run_metrics", "runs_by_agent", "run_errors", "run_trend")


def governances() -> list[Any]:
    return [InMemoryGovernance(InMemoryAgentStore()), SqlGovernance(lambda *_: pytest.fail("the store was asked"))]


@pytest.mark.parametrize("which", [0, 1], ids=["memory", "sql"])
@pytest.mark.parametrize("question", [*ASKED_OF_DAYS, "spend_by_model", "tool_stats"])
@pytest.mark.parametrize("value", NOTHING, ids=plain_id)
def test_a_question_about_days_needs_days(which: int, question: str, value: Any) -> None:
    with pytest.raises(loom.InvalidRequest):
        asyncio.run(getattr(governances()[which], question)(value))


@pytest.mark.parametrize("which", [0, 1], ids=["memory", "sql"])
@pytest.mark.parametrize("page", ["tool_calls_page", "threads_page", "runs_page"])
@pytest.mark.parametrize("where", [5, "x", [5], {5: 5}, {"nothing": 1}, {"thread_id": HALF}, {"thread_id": [5]}], ids=plain_id)
def test_a_page_is_narrowed_by_what_can_be_looked_for(which: int, page: str, where: Any) -> None:
    with pytest.raises(loom.InvalidRequest):
        asyncio.run(getattr(governances()[which], page)(where=where))


@pytest.mark.parametrize("which", [0, 1], ids=["memory", "sql"])
@pytest.mark.parametrize("question", ["run_detail", "thread_detail"])
@pytest.mark.parametrize("value", NO_TEXT, ids=plain_id)
def test_an_id_is_a_text(which: int, question: str, value: Any) -> None:
    with pytest.raises(loom.InvalidRequest):
        asyncio.run(getattr(governances()[which], question)(value))


QUOTAS: dict[str, Callable[[Any], Any]] = {
    "window": lambda v: StoreQuotaProvider(InMemoryAgentStore(), v),
    "period": lambda v: StoreQuotaProvider(InMemoryAgentStore(), QuotaWindow(period=v, limit_tokens=5)),
    "tokens": lambda v: StoreQuotaProvider(InMemoryAgentStore(), QuotaWindow(period="day", limit_tokens=v)),
    "warn_at": lambda v: StoreQuotaProvider(InMemoryAgentStore(), QuotaWindow(period="day", limit_tokens=5, warn_at=v)),
    "store": InMemoryQuotaStore,
    "of": lambda v: quota_period_range("day", v),
    "actor": lambda v: asyncio.run(
        StoreQuotaProvider(InMemoryAgentStore(), QuotaWindow(period="day", limit_tokens=5)).report(actor=v)
    ),
    "price": lambda v: asyncio.run(seed_model_prices(InMemoryPricingStore(), [v])),
    "prices": lambda v: asyncio.run(seed_model_prices(InMemoryPricingStore(), v)),
    "model": lambda v: asyncio.run(
        seed_model_prices(InMemoryPricingStore(), [ModelPrice(model_id=v, input_price_per_1m=1, output_price_per_1m=1)])
    ),
}


@pytest.mark.parametrize("what", QUOTAS)
@pytest.mark.parametrize("value", [-1, float("nan"), True, HALF, b"bytes", Thing(), [5], {"a": 5}, len], ids=plain_id)
def test_a_quota_and_a_price_are_numbers(what: str, value: Any) -> None:
    with pytest.raises(loom.InvalidRequest):
        QUOTAS[what](value)
