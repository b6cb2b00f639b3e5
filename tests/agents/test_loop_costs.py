"""Quotas, usage, costs and budgets of a turn: contracts/agents.md §1.2, §1.3."""

from __future__ import annotations

from typing import Any

import pytest

from loomnb.agents.deps import Budget
from loomnb.agents.failures import BudgetExceededError, QuotaExceededError
from loomnb.testing import ScriptedModel
from tests.agents.doubles import Prices, Quota
from tests.agents.looping import Hooks, Journal, deps, messages_of, row_of, said, tool, turn
from tests.helpers import plain_id


@pytest.mark.case("agents:A05")
def test_a_used_up_quota_refuses_the_turn_before_anything_is_stored_or_streamed() -> None:
    journal = Journal()
    made = deps(["Hi."], quota=Quota(0))

    with pytest.raises(QuotaExceededError):
        turn(made, journal)

    assert messages_of(made) == []
    assert journal.names == ["quota:check"]
    assert journal.sink.opened == 0


def test_a_quota_is_counted_up_by_input_and_output_after_each_call() -> None:
    quota = Quota(100)
    usage = {"inputTokens": 10, "outputTokens": 3, "cacheReadTokens": 7}

    turn(deps([said("Hi.", usage=usage)], quota=quota))

    assert quota.used == 13


@pytest.mark.case("agents:A07")
@pytest.mark.parametrize("cost", [0.25, None], ids=plain_id)
def test_a_usage_row_has_a_cost_only_where_the_provider_said_so(cost: float | None) -> None:
    made = deps([said("Hi.", usage={"inputTokens": 5}, cost_usd=cost)])

    result = turn(made)

    store: Any = made.store
    assert [(r.cost_usd, r.model_id, r.usage) for r in store.usage_rows()] == [(cost, "m-1", {"inputTokens": 5})]
    assert result.cost_usd == cost


def test_a_cost_is_estimated_from_the_prices_of_the_run_on_the_message_but_not_on_the_row() -> None:
    prices, hooks = Prices(), Hooks()
    usage = {"inputTokens": 500_000, "outputTokens": 250_000}
    made = deps([said("", ("look", {}), usage=usage), said("Hi.", usage=usage)], tool("look"), pricing_store=prices)

    result = turn(made, hooks)

    assert prices.asked == 1
    assert [m["costUsd"] for m in messages_of(made) if m["role"] == "assistant"] == [2.0, 2.0]
    assert [f["costUsd"] for f in hooks.sink.frames("step-finish")] == [2.0, 2.0]
    store: Any = made.store
    assert [row.cost_usd for row in store.usage_rows()] == [None, None]
    assert result.cost_usd == 4.0


def test_an_unknown_cost_is_null_and_never_nought() -> None:
    hooks = Hooks()
    made = deps([said("Hi.", usage={"inputTokens": 5}, model_id="unpriced")], pricing_store=Prices())

    assert turn(made, hooks).cost_usd is None
    assert hooks.sink.frames("step-finish")[0]["costUsd"] is None
    assert "costUsd" not in messages_of(made)[-1]


def test_a_model_of_the_turn_without_a_price_is_not_priced_as_the_agents_own() -> None:
    usage = {"inputTokens": 1_000_000, "outputTokens": 0}
    made = deps([said("Hi.", usage=usage, model_id="")], pricing_store=Prices(), model_id="m-1")

    assert turn(made, model="unpriced").cost_usd is None


def test_the_prices_of_one_run_are_not_those_of_the_next() -> None:
    made = deps([said("Hi.", usage={"inputTokens": 5})], pricing_store=Prices())
    turn(made)

    assert made.prices == ()


@pytest.mark.parametrize("budget", [Budget(tokens=10), Budget(usd=0.5)], ids=["tokens", "usd"])
def test_a_used_up_budget_stops_the_run_before_the_next_call(budget: Budget) -> None:
    usage = {"inputTokens": 8, "outputTokens": 2}
    model = ScriptedModel([said("", ("look", {}), usage=usage, cost_usd=0.5), "Hi."])
    made = deps(model, tool("look"), budget=budget)

    with pytest.raises(BudgetExceededError):
        turn(made)

    assert len(model.requests) == 1
    assert row_of(made, "look").status == "executed"


def test_a_model_of_the_turn_is_used_for_every_call_and_is_the_label_where_the_provider_has_none() -> None:
    model = ScriptedModel(lambda request, n: said('["Next?"]', model_id=""))
    made = deps(model, follow_ups_count=1, output_schema=list[str], model_id="label")

    turn(made, model="chosen")

    assert [request.model for request in model.requests] == ["chosen"] * 3
    store: Any = made.store
    assert [row.model_id for row in store.usage_rows()] == ["chosen"] * 3


def test_without_any_label_usage_is_booked_on_unknown_and_the_frame_has_no_model() -> None:
    hooks = Hooks()
    made = deps([said("Hi.", model_id="")])

    turn(made, hooks)

    store: Any = made.store
    assert store.usage_rows()[0].model_id == "unknown"
    assert "model" not in hooks.sink.frames("step-finish")[0]


def test_a_budget_counts_what_is_known_when_something_is_not() -> None:
    replies = [said("", ("look", {}), cost_usd=0.5), said("", ("look", {}), model_id="unpriced"), "Done."]
    made = deps(replies, tool("look"), budget=Budget(usd=0.5))
    with pytest.raises(BudgetExceededError):
        turn(made)


def test_the_passes_after_the_last_step_are_held_to_the_budget_too() -> None:
    made = deps([said("Hi.", usage={"inputTokens": 9}), '["A?"]'], follow_ups_count=1, budget=Budget(tokens=9))
    with pytest.raises(BudgetExceededError):
        turn(made)
