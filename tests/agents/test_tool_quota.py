"""Quotas of tools: looked up before a call, added to after it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents.spi import ModelPrice
from loomnb.agents.tool_quota import LlmCost, QuotaExceeded, QuotaState, QuotaUse, check_quota, use_tool_quotas
from tests.helpers import StillSource, at_rest


class Book:
    """Counts in memory."""

    def __init__(self, **states: QuotaState | None) -> None:
        self.states = {kind.replace("_", "-"): state for kind, state in states.items()}
        self.asked: list[tuple[str, str]] = []
        self.reported: list[tuple[str, str, int]] = []

    def read(self, user_id: str, quota_type: str) -> QuotaState:
        self.asked.append((user_id, quota_type))
        state = self.states.get(quota_type, QuotaState(limit=-1))
        if state is None:
            raise ConnectionError("nobody there")
        return state

    async def report(self, user_id: str, quota_type: str, amount: int) -> None:
        self.reported.append((user_id, quota_type, amount))


def looked_up(state: QuotaState | None) -> QuotaUse:
    return asyncio.run(check_quota(Book(calls=state), "ann", "calls"))


@pytest.mark.case("workflows:O01")
@pytest.mark.parametrize(
    ("used", "limit", "exceeded"),
    [(9, 10, False), (10, 10, True), (11, 10, True), (0, 0, True), (10**9, -1, False), (0, 1, False)],
)
def test_a_quota_is_exceeded_once_all_of_it_is_used(used: int, limit: int, exceeded: bool) -> None:
    assert looked_up(QuotaState(used=used, limit=limit)) == QuotaUse(exceeded=exceeded, used=used, limit=limit)


@pytest.mark.case("workflows:O01")
def test_without_a_limit_nothing_is_allowed() -> None:
    assert looked_up(QuotaState(used=0)) == QuotaUse(exceeded=True, used=0, limit=0)


@pytest.mark.case("workflows:O01")
def test_where_nobody_counts_or_can_be_asked_everything_is_allowed(caplog: pytest.LogCaptureFixture) -> None:
    assert not asyncio.run(check_quota(None, "ann", "calls")).exceeded
    assert not looked_up(None).exceeded
    assert "nobody there" in caplog.text


class PerCall:
    quota_type = "calls"

    def calculate(self, args: Any, envelope: loom.ToolEnvelope) -> int | None:
        return args.get("counts", 1)


def searching(told: list[Any], source: StillSource | None = None) -> Any:
    @loom.tool(name="searching")
    class SearchingTool(loom.BaseTool):
        async def handle(self, args: Any) -> loom.ToolEnvelope:
            told.append(args)
            if source is not None:
                source.advance(1.2344)
            if args.get("fail"):
                raise ValueError("broken")
            return loom.ToolEnvelope(data=1)

    return SearchingTool


@pytest.mark.case("workflows:O02")
@pytest.mark.parametrize("kind", ["processing_time_ms", "calls"])
def test_where_a_quota_is_exceeded_the_tool_is_not_called(kind: str) -> None:
    told: list[Any] = []
    tool = searching(told)
    book = Book(**{kind: QuotaState(used=5, limit=5)})
    use_tool_quotas(book, calculators={tool: PerCall()})

    with pytest.raises(QuotaExceeded, match="5 of 5") as caught:
        asyncio.run(tool().call({}))
    assert (caught.value.code, caught.value.quota_type) == ("QUOTA_EXCEEDED", kind.replace("_", "-"))
    assert (told, book.reported) == ([], [])


def test_processing_time_is_looked_at_first_and_then_the_tools_own_kind() -> None:
    tool = searching([])
    book = Book()
    use_tool_quotas(book, calculators={"searching": PerCall()})
    asyncio.run(tool().call({}))

    assert [kind for _, kind in book.asked] == ["processing-time-ms", "calls"]


def test_a_tool_without_a_calculator_uses_only_time() -> None:
    tool = searching([])
    book = Book()
    use_tool_quotas(book)
    asyncio.run(tool().call({}))

    assert [kind for _, kind in book.asked] == ["processing-time-ms"]


@pytest.mark.parametrize(("counts", "reported"), [(3, [3]), (0, []), (None, [])])
def test_what_the_calculator_says_is_reported(counts: int | None, reported: list[int]) -> None:
    tool = searching([])
    book = Book()
    use_tool_quotas(book, calculators={tool: PerCall()})
    asyncio.run(tool().call({"counts": counts}))

    assert [amount for _, kind, amount in book.reported if kind == "calls"] == reported


def test_a_broken_book_does_not_lose_what_the_tool_did(caplog: pytest.LogCaptureFixture) -> None:
    tool = searching([])

    class Broken(Book):
        async def report(self, user_id: str, quota_type: str, amount: int) -> None:
            raise ConnectionError("nobody there")

    use_tool_quotas(Broken(), calculators={tool: PerCall()})
    assert asyncio.run(tool().call({})).data == 1
    assert "could not be reported" in caplog.text


def test_a_calculator_that_fails_does_not_lose_what_the_tool_did(caplog: pytest.LogCaptureFixture) -> None:
    tool = searching([])

    class Confused(PerCall):
        def calculate(self, args: Any, envelope: loom.ToolEnvelope) -> int | None:
            raise KeyError("usage")

    use_tool_quotas(Book(), calculators={tool: Confused()})
    assert asyncio.run(tool().call({})).data == 1
    assert "could not be counted" in caplog.text


@pytest.mark.case("workflows:O03")
@pytest.mark.parametrize("fail", [False, True])
def test_the_time_of_a_tool_is_reported_for_the_person_it_ran_for(session: loom.Loom, fail: bool) -> None:
    still = StillSource()
    session.runtime.source = still
    book = Book()
    tool = searching([], still)
    use_tool_quotas(book)

    @loom.workflow
    class Searches(loom.BaseWorkflow):
        def __init__(self, search: tool) -> None:
            self.search = search

        @loom.transition(to="end")
        async def go(self, state: Any) -> None:
            await self.search.call({"fail": fail})

    at_rest(session.start(Searches))

    assert [(kind, amount) for _, kind, amount in book.reported] == [("processing-time-ms", 1235)]


def test_a_second_call_replaces_the_first() -> None:
    tool = searching([])
    first, second = Book(), Book()
    use_tool_quotas(first)
    use_tool_quotas(second)
    asyncio.run(tool().call({}))
    use_tool_quotas(None)
    asyncio.run(tool().call({}))

    assert (len(first.asked), len(second.asked)) == (0, 1)


PRICES = [
    ModelPrice(model_id="small", input_price_per_1m=1, output_price_per_1m=5),
    ModelPrice(
        model_id="small-2",
        input_price_per_1m=2,
        output_price_per_1m=10,
        cache_read_price_per_1m=0.2,
        cache_write_price_per_1m=2.5,
    ),
]
COST = LlmCost(PRICES, fallback=ModelPrice(model_id="", input_price_per_1m=100, output_price_per_1m=1000))


@pytest.mark.case("workflows:O04")
@pytest.mark.parametrize(
    ("model", "usage", "micro_cents"),
    [
        ("small-1", {"inputTokens": 10, "outputTokens": 10}, 6_000),
        ("small-2-preview", {"inputTokens": 10, "outputTokens": 10}, 12_000),
        ("other", {"inputTokens": 10, "outputTokens": 10}, 1_100_000),
        ("", {"inputTokens": 1}, 10_000),
        ("small-2", {"inputTokens": 100, "cacheReadTokens": 50, "cacheWriteTokens": 20, "outputTokens": 0}, 12_000),
        ("small-2", {"inputTokens": 100, "cacheReadInputTokens": 50, "cacheCreationInputTokens": 20}, 12_000),
        ("small-1", {"inputTokens": 100, "cacheReadTokens": 50}, 10_000),
        ("small-2", {"outputTokens": 30, "reasoningTokens": 20}, 30_000),
        ("small-2", {"outputTokens": 0, "reasoningTokens": 20}, 20_000),
    ],
)
def test_a_call_costs_what_the_longest_beginning_of_its_model_says(model: str, usage: dict[str, int], micro_cents: int) -> None:
    assert COST.of(model, usage) == micro_cents


@pytest.mark.case("workflows:O04")
def test_where_parts_are_told_apart_they_are_added() -> None:
    apart = LlmCost(PRICES, inclusive=False)
    usage = {"inputTokens": 30, "cacheReadTokens": 50, "cacheWriteTokens": 20, "outputTokens": 10, "reasoningTokens": 20}

    assert apart.of("small-2", usage) == 30 * 200 + 50 * 20 + 20 * 250 + 30 * 1000


@pytest.mark.case("workflows:O04")
@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"modelId": "small"}, {"usage": None}, {"usage": {}}, {"usage": {"inputTokens": 0, "outputTokens": 0}}],
    ids=str,
)
def test_where_nothing_was_used_nothing_is_reported(metadata: Any) -> None:
    assert COST.calculate({}, loom.ToolEnvelope(data=1, metadata=metadata)) is None


@pytest.mark.case("workflows:O04")
def test_the_cost_of_a_models_call_is_reported() -> None:
    @loom.tool(name="generating")
    async def generating() -> loom.ToolEnvelope:
        """Generates."""
        return loom.ToolEnvelope(data="x", metadata={"modelId": "small-1", "usage": {"inputTokens": 3, "outputTokens": 1}})

    book = Book()
    use_tool_quotas(book, calculators={"generating": COST})
    asyncio.run(generating.call({}))

    assert ("", "llm-cost", 800) in book.reported
