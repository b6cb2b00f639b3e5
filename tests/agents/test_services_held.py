"""What an audit of contracts/agents.md 1.7 to 1.14 and 2.1 found missing."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import (
    Actor,
    ApprovalRequirement,
    InMemoryAgentStore,
    InMemoryMemories,
    InMemoryPricingStore,
    Memories,
    Memory,
    MemoryForbidden,
    ModelPrice,
    ProcessorFailedError,
    QuotaWindow,
    StoreQuotaProvider,
    ToolScope,
    UsageRow,
    scopes_of,
)
from loomnb.testing import ProtocolServer, Reply, Said, ScriptedModel
from tests.agents.doubles import Gate
from tests.agents.looping import Hooks, Suspended, deps, purposes_of, row_of, said, tool, turn
from tests.helpers import PATIENCE, ended

ANN = Actor(id="ann", tenant_ref="acme")


# -- memories --


@pytest.mark.parametrize("scopes", [["project:x", "actor:ann", "global"], ["global", "actor:ann"]])
def test_a_fact_is_kept_for_its_person_wherever_that_scope_stands(scopes: list[str]) -> None:
    memories = Memories(provider=InMemoryMemories(), scopes=lambda _: scopes)

    assert asyncio.run(memories.remember(ANN, {"key": "unit", "fact": "mm"}, ""))["scope"] == "actor:ann"


@pytest.mark.parametrize("scopes", [["tenant:acme", "global"], []])
def test_nothing_is_kept_for_others(scopes: list[str]) -> None:
    memories = Memories(provider=InMemoryMemories(), scopes=lambda _: scopes)

    with pytest.raises(loom.InvalidRequest, match="actor:ann"):
        asyncio.run(memories.remember(ANN, {"key": "unit", "fact": "mm"}, ""))


def test_a_shared_fact_is_not_forgotten_by_one_person() -> None:
    shared = Memory(key="unit", fact="mm", scope="tenant:acme")
    memories = Memories(provider=InMemoryMemories([shared]), scopes=lambda _: ["tenant:acme", "global"])

    with pytest.raises(MemoryForbidden):
        asyncio.run(memories.forget(ANN, "unit"))


def test_who_has_no_tenant_shares_no_scope_of_one() -> None:
    assert scopes_of(Actor(id="ann", tenant_ref="")) == ["actor:ann", "global"]


def test_what_a_search_finds_beside_a_cut_list_is_told() -> None:
    class Cut(InMemoryMemories):
        def list(self, scopes: Any) -> Any:
            return []

        def search(self, query: str, scopes: Any, limit: int) -> Any:
            return [Memory(key="unit", fact="mm", scope="actor:ann")]

    digest = asyncio.run(Memories(provider=Cut()).digest(ANN, "which unit?"))

    assert ([one["fact"] for one in digest["memories"]], digest["recalled"]) == (["mm"], 1)


# -- gates --


def test_a_gate_that_fails_on_a_suggestion_fails_no_turn_and_the_call_is_booked() -> None:
    def gate(answer: Any) -> loom.OutputVerdict:
        if answer["text"] == "q1":
            raise ValueError("boom")
        return loom.OutputVerdict()

    given = deps([said("hi"), said('["q1", "q2"]')], output_processors=[Gate(gate)], follow_ups_count=2)

    assert turn(given, Hooks()).text == "hi"
    assert purposes_of(given) == ["chat", "follow_ups"]


@pytest.mark.parametrize("which", ["input_processors", "output_processors"])
def test_a_processor_without_a_name_is_called_by_its_class(which: str) -> None:
    class Nameless:
        async def process(self, given: Any, ctx: Any) -> Any:
            raise ValueError("boom")

    with pytest.raises(ProcessorFailedError, match="Nameless"):
        turn(deps([said("hi")], **{which: [Nameless()]}), Hooks())


# -- signals --


def test_a_signal_of_the_runner_comes_through_a_preview() -> None:
    def preview(scope: Any) -> Any:
        raise Suspended

    registry = deps([], tool("look", preview_input=preview)).registry

    with pytest.raises(Suspended):
        asyncio.run(registry.preview_input("look", ToolScope(actor=ANN)))


# -- approvals --


@pytest.mark.parametrize(("ttl", "kept"), [("5", None), (True, None), (0, None), (-1, None), (0.5, 1), (1500.9, 1500)])
def test_only_a_number_of_milliseconds_limits_an_approval(ttl: Any, kept: int | None) -> None:
    class Policy:
        def requirement_for(self, *_: Any, **__: Any) -> ApprovalRequirement:
            return ApprovalRequirement(required=True, approver="requester", ttl_ms=ttl)

    given = deps([said("", ("send", {})), said("done")], tool("send", kind="action"), approval_policy=Policy())
    turn(given, Hooks())
    limit = row_of(given, "send").expires_at

    assert (limit is None) == (kept is None)
    if kept is not None:
        assert datetime.fromisoformat(limit) - given.source.now() == timedelta(milliseconds=kept)


# -- quotas and prices --


def test_a_row_whose_cost_is_unknown_counts_no_money_in_a_quota() -> None:
    async def main() -> Any:
        kept = InMemoryAgentStore()
        thread = await kept.create_thread(actor=ANN)
        for usage in ({"inputTokens": 1, "outputTokens": 1}, {"inputTokens": 5}):
            row = UsageRow(thread_id=thread.id, actor_ref="ann", model_id="m", purpose="chat", usage=usage)
            await kept.record_usage(row)
        prices = InMemoryPricingStore([ModelPrice(model_id="m", input_price_per_1m=1e6, output_price_per_1m=1e6)])
        return await StoreQuotaProvider(kept, QuotaWindow(period="day", limit_usd=5), pricing=prices).report(actor=ANN)

    (window,) = asyncio.run(main()).windows
    assert (window.used_usd, window.used_tokens) == (2.0, 7)


def test_windows_of_a_quota_stop_a_turn_before_anything_of_it_is_stored(store: loom.Loom) -> None:
    model = ScriptedModel([Said(text="One.", usage={"inputTokens": 60, "outputTokens": 60}), "Two."])
    quota = [QuotaWindow(period="month", limit_tokens=100), QuotaWindow(period="day", limit_tokens=1000)]
    chat = loom.Agent(model, name="metered", quota=quota, store=store).chat()
    ended(chat.send("Hello."))

    with pytest.raises(loom.RunFailed, match="Monthly token limit reached") as failed:
        ended(chat.send("And?"))

    assert failed.value.code == "QUOTA_EXCEEDED"
    assert failed.value.__cause__.period == "month"  # type: ignore[union-attr]
    assert [message.content for message in chat.messages] == ["Hello.", "One."]


def test_windows_of_a_quota_that_are_none_are_refused_when_the_agent_is_made(store: loom.Loom) -> None:
    for quota in ([], [5], [QuotaWindow(period="week", limit_tokens=1)]):  # type: ignore[arg-type]
        with pytest.raises(loom.LoomError):
            loom.Agent(ScriptedModel([]), name="unmetered", quota=quota, store=store)  # type: ignore[arg-type]


# -- the model of a thread --


def test_a_thread_answers_with_the_model_it_is_pinned_to(store: loom.Loom) -> None:
    agent = loom.Agent(ScriptedModel(["small"] * 3), name="pinned", models={"big": ScriptedModel(["big"] * 3)}, store=store)
    chat = agent.chat()
    ended(chat.send("Hello."))
    asyncio.run(chat.store.update_thread(chat.thread_id, model="big"))

    assert ended(chat.send("And now?")).text == "big"

    asyncio.run(chat.store.update_thread(chat.thread_id, model="gone"))
    with pytest.raises(loom.NotFound, match="gone"):
        chat.send("And now?")


# -- a store that is opened again --


def test_a_turn_goes_on_in_the_store_that_was_opened_again(tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    class Slow:
        model_id = "slow"

        async def run_turn(self, request: Any) -> loom.TurnResult:
            begun.set()
            await asyncio.to_thread(go.wait, PATIENCE)
            return loom.TurnResult(text="done")

    path = str(tmp_path / "again.duckdb")
    with loom.Loom(path, headless=True) as first:
        loom.Agent(Slow(), name="slow", store=first, memory=True).run("x", key="k")
        assert begun.wait(PATIENCE)
    go.set()

    with loom.Loom(path, headless=True) as second:
        assert ended(loom.Agent(Slow(), name="slow", store=second, memory=True).run("x", key="k")).text == "done"


# -- arguments that are no JSON --


@pytest.mark.parametrize("given", ['{"x": NaN}', '{"x": 1e999}', '{"x": ', "\\ud800"])
@pytest.mark.parametrize("model", ["anthropic:claude-opus-5-5", "openai:gpt-6-astra"])
def test_arguments_that_are_no_json_end_no_turn(store: loom.Loom, model: str, given: str) -> None:
    def look(x: float = 0) -> str:
        """Looks."""
        return "seen"

    with ProtocolServer([Reply(tools=[("look", given)]), Reply(text="Sorry.")]) as server:
        vendor = loom.VendorModel(model, api_key="k", base_url=server.url)
        assert ended(loom.Agent(vendor, [look], name="odd", store=store).run("Look.")).text == "Sorry."
    assert store.sql("select status from tool_calls").fetchall() == [("failed",)]
