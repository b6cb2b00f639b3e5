"""What a turn does with what it is configured with: contracts/agents.md §1.1–§1.3."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loomnb.agents import Actor
from loomnb.agents.failures import BudgetExceededError, QuotaExceededError
from loomnb.agents.deps import Budget
from loomnb.agents.spi import ModelPrice, QuotaVerdict
from loomnb.errors import InvalidRequest
from loomnb.testing import ScriptedModel
from tests.agents.looping import ANN, Hooks, Journal, deps, messages_of, purposes_of, row_of, said, tool, turn
from tests.helpers import plain_id


class Quota:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def check(self, actor: Actor, day: str) -> QuotaVerdict:
        return QuotaVerdict(used_tokens=self.used, limit_tokens=self.limit, within_limit=self.used < self.limit)

    def bump(self, actor: Actor, day: str, tokens: int) -> None:
        self.used += tokens


@pytest.mark.case("agents:A02")
def test_a_read_tool_runs_without_approval_and_its_output_is_on_record() -> None:
    hooks = Hooks()
    made = deps([[("look", {"at": "sky"})], "Blue."], tool("look", lambda input, ctx: {"seen": input["at"]}))

    result = turn(made, hooks)

    assert (result.text, result.steps, result.stopped_by) == ("Blue.", 2, "")
    assert hooks.waits == []
    row = row_of(made, "look")
    assert (row.status, row.output, row.tool_type, row.executed_by_ref) == ("executed", {"seen": "sky"}, "read", None)


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


class Prices:
    def __init__(self) -> None:
        self.asked = 0

    def list_current_prices(self) -> list[ModelPrice]:
        self.asked += 1
        return [ModelPrice(model_id="m-1", input_price_per_1m=2.0, output_price_per_1m=4.0)]

    def upsert_model_price(self, price: ModelPrice) -> None:
        raise AssertionError


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


def test_the_prices_of_one_run_are_not_those_of_the_next() -> None:
    made = deps([said("Hi.", usage={"inputTokens": 5})], pricing_store=Prices())
    turn(made)

    assert made.prices == ()


@pytest.mark.case("agents:A08")
@pytest.mark.parametrize("is_async", [False, True], ids=plain_id)
def test_a_prompt_builder_is_asked_for_the_actor(is_async: bool) -> None:
    model = ScriptedModel(["Hi."])

    async def later(ctx: Any) -> str:
        return f"You help {ctx.actor.id}."

    turn(deps(model, system_prompt=later if is_async else lambda ctx: f"You help {ctx.actor.id}."))

    assert model.requests[0].system == "You help ann."


@pytest.mark.case("agents:A09")
def test_contributors_are_appended_in_their_order_and_empty_ones_left_out() -> None:
    model, seen = ScriptedModel(["Hi."]), []

    def contributor(text: str | None) -> Any:
        def contribute(ctx: Any) -> str | None:
            seen.append(ctx.agent_name)
            return text

        return contribute

    turn(deps(model, prompt_contributors=[contributor(text) for text in ("One.", None, "", "Two.")]))

    assert model.requests[0].system == "You help.\n\nOne.\n\nTwo."
    assert seen == ["default"] * 4


def test_what_was_found_follows_base_and_contributors_and_only_they_are_hashed() -> None:
    model = ScriptedModel(["Hi."])
    made = deps(model, prompt_contributors=[lambda ctx: "One."], retriever=Finder())
    plain = deps(["Hi."], prompt_contributors=[lambda ctx: "One."])

    turn(made)
    turn(plain)

    assert model.requests[0].system.startswith("You help.\n\nOne.\n\n")
    assert "a fact" in model.requests[0].system
    stores: tuple[Any, Any] = (made.store, plain.store)
    hashes = [store.runs()[0].prompt_hash for store in stores]
    assert hashes[0] == hashes[1] and len(hashes[0]) == 64


class Finder:
    def __init__(self, *texts: str) -> None:
        self.texts = texts or ("a fact",)
        self.asked: list[tuple[str, int]] = []

    async def retrieve(self, query: str, *, top_k: int) -> list[dict[str, Any]]:
        self.asked.append((query, top_k))
        return [{"text": text} for text in self.texts]


def test_passages_ride_the_first_message_as_a_read_call_with_a_row_and_its_frames_once() -> None:
    finder, hooks = Finder("a fact"), Hooks()
    made = deps([[("look", {})], "Hi."], tool("look"), retriever=finder)

    turn(made, hooks, "Why?")

    assert finder.asked == [("Why?", 5)]
    first = messages_of(made)[1]
    assert [(c["id"], c["kind"]) for c in first["toolCalls"]] == [("call-0-look", "read"), ("retrieve-run-1", "read")]
    assert [r["id"] for r in first["toolResults"]] == ["call-0-look", "retrieve-run-1"]
    row = row_of(made, "retrieve")
    assert (row.input, row.output, row.status) == ({"query": "Why?"}, {"passages": [{"text": "a fact"}]}, "executed")
    outputs = [f["id"] for f in hooks.sink.frames("tool-output")]
    assert outputs == ["retrieve-run-1", "call-0-look"]


def test_the_record_of_passages_stands_right_after_the_first_message() -> None:
    journal = Journal()
    turn(deps(["Hi."], retriever=Finder()), journal)

    at = journal.names.index("persist:assistant:0")
    assert journal.names[journal.names.index("persist:run:start") + 1] == "retrieve"
    assert journal.names[at + 1].startswith("persist:retrieval:message-")


def test_without_a_hit_nothing_is_told_or_recorded() -> None:
    journal = Journal()
    finder = Finder()
    finder.texts = ()
    made = deps(["Hi."], retriever=finder)

    turn(made, journal)

    assert not [name for name in journal.names if name.startswith("persist:retrieval")]
    assert "toolCalls" not in messages_of(made)[1]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("  What\n is\tthis? ", "What is this?"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 57 + "..."),
        ("   ", "New chat"),
    ],
    ids=plain_id,
)
def test_a_thread_without_a_name_is_named_after_what_was_asked(text: str, title: str) -> None:
    hooks = Hooks()
    made = deps(["Hi."])

    turn(made, hooks, text)

    thread = asyncio.run(made.store.get_thread("t1"))
    assert thread is not None and thread.title == title
    assert [f["title"] for f in hooks.sink.frames("title")] == [title]


def test_a_thread_with_a_name_keeps_it() -> None:
    journal = Journal()
    made = deps(["Hi."])
    asyncio.run(made.store.create_thread(actor=ANN, id="t1", title="Mine"))

    turn(made, journal)

    assert "persist:title" not in journal.names


def test_at_the_limit_of_steps_the_turn_completes_with_the_last_text() -> None:
    journal = Journal()
    model = ScriptedModel([said("One.", ("look", {})), said("Two.", ("look", {}))])
    made = deps(model, tool("look"), max_steps=2, follow_ups_count=3, output_schema=int)

    result = turn(made, journal)

    assert (result.text, result.stopped_by, result.object) == ("Two.", "max_steps", None)
    assert journal.names[-1] == "persist:run:end"
    assert purposes_of(made) == ["chat", "chat"]


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


def test_regenerate_answers_the_last_question_anew() -> None:
    model = ScriptedModel(["First.", "Second."])
    made = deps(model)
    turn(made, Hooks(run_id="run-1"), "Why?")
    journal = Journal(run_id="run-2")
    made.model = ScriptedModel(["Better."])

    turn(made, journal, "ignored", regenerate=True)

    assert journal.names[:2] == ["regenerate:truncate", "load:thread"]
    assert [(m["role"], m["content"]) for m in messages_of(made)] == [("user", "Why?"), ("assistant", "Better.")]


def test_regenerate_searches_for_what_was_really_asked() -> None:
    finder = Finder()
    made = deps(["First."], retriever=finder)
    turn(made, Hooks(run_id="run-1"), "Why?")

    turn(made, Hooks(run_id="run-2"), "ignored", regenerate=True)

    assert [query for query, _ in finder.asked] == ["Why?", "Why?"]
    assert messages_of(made)[1]["toolCalls"][0]["input"] == {"query": "Why?"}


def test_regenerate_without_a_question_is_refused_and_deletes_nothing() -> None:
    made = deps(["Hi."])

    with pytest.raises(InvalidRequest, match="t1"):
        turn(made, regenerate=True)


def test_attachments_are_stored_and_told() -> None:
    model = ScriptedModel(["Hi."])
    made = deps(model)
    attached = [{"name": "a.txt", "mediaType": "text/plain", "data": "aGk="}]

    turn(made, attachments=attached)

    assert messages_of(made)[0]["attachments"] == attached
    assert model.requests[0].messages[0]["attachments"] == attached


def test_what_is_the_stores_business_is_not_told_to_the_model() -> None:
    model = ScriptedModel([[("look", {})], "Hi."])

    turn(deps(model, tool("look")))

    told = model.requests[1].messages[1]
    assert set(told) == {"role", "content", "toolCalls", "toolResults"}
    assert told["toolCalls"] == [{"id": "call-0-look", "name": "look", "input": {}}]


@pytest.mark.parametrize("budget", [Budget(tokens=10), Budget(usd=0.5)], ids=["tokens", "usd"])
def test_a_used_up_budget_stops_the_run_before_the_next_call(budget: Budget) -> None:
    usage = {"inputTokens": 8, "outputTokens": 2}
    model = ScriptedModel([said("", ("look", {}), usage=usage, cost_usd=0.5), "Hi."])
    made = deps(model, tool("look"), budget=budget)

    with pytest.raises(BudgetExceededError):
        turn(made)

    assert len(model.requests) == 1
    assert row_of(made, "look").status == "executed"


def test_an_error_of_the_model_ends_the_run_as_it_is() -> None:
    class Broken(Exception): ...

    broken = Broken("no")
    journal = Journal()
    with pytest.raises(Broken) as caught:
        turn(deps([broken]), journal)

    assert caught.value is broken
    assert not journal.sink.ended
    assert "persist:run:end" not in journal.names


def test_an_error_of_the_store_ends_the_run_as_it_is() -> None:
    made = deps([[("look", {})], "Hi."], tool("look"))

    async def broken(*args: Any) -> None:
        raise OSError("disk full")

    store: Any = made.store
    store.record_tool_call = broken
    with pytest.raises(OSError, match="disk full"):
        turn(made)


def test_a_store_with_the_required_methods_only_is_enough() -> None:
    made = deps([[("look", {}), ("send", {})], "Hi."], tool("look"), tool("send", kind="action"))
    required = (
        "create_thread get_thread set_title append_message set_message_tool_results record_tool_call update_tool_call record_usage"
    ).split()
    full: Any = made.store

    class Plain:
        pass

    plain: Any = Plain()
    for name in required:
        setattr(plain, name, getattr(full, name))
    made.store = plain

    assert turn(made).text == "Hi."


def test_the_same_call_the_third_time_is_a_persons_business() -> None:
    asked: list[tuple[str, int]] = []
    hooks = Hooks()

    def repeat(call: Any, count: int) -> str:
        asked.append((call["name"], count))
        return "Look elsewhere."

    hooks.await_repeat = repeat
    model = ScriptedModel([[("look", {"at": 1})]] * 3 + ["Hi."])
    made = deps(model, tool("look"), repeat_guard=3)

    turn(made, hooks)

    assert asked == [("look", 3)]
    result = model.requests[3].messages[-1]["toolResults"][0]
    assert "Look elsewhere." in result["error"] and result["output"] is None
