"""What a call of a model costs."""

from __future__ import annotations

import asyncio
import builtins
from typing import Any

import pytest

from loomnb.agents.pricing import InMemoryPricingStore, estimate_cost, fill_known_prices, known_price, price_of, seed_model_prices
from loomnb.agents.spi import AgentPricingStore, ModelPrice
from loomnb.errors import InvalidRequest

PLAIN = ModelPrice(model_id="m-1", input_price_per_1m=3.0, output_price_per_1m=15.0)
CACHED = ModelPrice(
    model_id="m-2",
    input_price_per_1m=3.0,
    output_price_per_1m=15.0,
    cache_write_price_per_1m=4.0,
    cache_read_price_per_1m=0.5,
)


def usage(tokens_in: int, tokens_out: int, written: int = 0, read: int = 0) -> dict[str, int]:
    return {"inputTokens": tokens_in, "outputTokens": tokens_out, "cacheWriteTokens": written, "cacheReadTokens": read}


@pytest.mark.parametrize(
    ("used", "price", "cost"),
    [
        (usage(1_000_000, 0), PLAIN, 3.0),
        (usage(0, 1_000_000), PLAIN, 15.0),
        (usage(1000, 200, 300, 400), PLAIN, 0.006),
        (usage(1000, 200, 300, 400), CACHED, (300 * 3 + 300 * 4 + 400 * 0.5 + 200 * 15) / 1_000_000),
        ({"inputTokens": 0, "outputTokens": 0}, PLAIN, 0.0),
    ],
    ids=["input", "output", "cache-at-input-price", "cache-prices", "nothing-used"],
)
def test_a_cost_is_estimated_from_tokens_and_price(used: dict[str, int], price: ModelPrice, cost: float) -> None:
    assert estimate_cost(used, price) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("used", "price"),
    [(usage(1, 1), None), (None, PLAIN), ({}, PLAIN), ({"inputTokens": 5}, PLAIN), ({"outputTokens": 5}, PLAIN)],
    ids=["no-price", "no-usage", "empty-usage", "no-output", "no-input"],
)
def test_what_is_not_known_has_no_cost(used: Any, price: ModelPrice | None) -> None:
    assert estimate_cost(used, price) is None


def test_a_cache_price_of_zero_is_a_price() -> None:
    free = ModelPrice(model_id="m", input_price_per_1m=3.0, output_price_per_1m=0.0, cache_read_price_per_1m=0.0)

    assert estimate_cost(usage(1000, 0, 0, 1000), free) == 0.0


def test_a_price_is_found_by_the_exact_name() -> None:
    assert (price_of("m-1", [CACHED, PLAIN]), price_of("m", [PLAIN]), price_of(None, [PLAIN])) == (PLAIN, None, None)


def test_prices_are_seeded_and_the_newest_of_a_model_counts() -> None:
    async def story() -> list[ModelPrice]:
        store = InMemoryPricingStore([PLAIN])
        as_store: AgentPricingStore = store
        newer = ModelPrice(model_id="m-1", input_price_per_1m=1.0, output_price_per_1m=2.0)
        await seed_model_prices(as_store, [CACHED, newer])
        return list(await store.list_current_prices())

    assert asyncio.run(story()) == [ModelPrice(model_id="m-1", input_price_per_1m=1.0, output_price_per_1m=2.0), CACHED]


def test_prices_are_seeded_in_a_store_that_is_not_async() -> None:
    class Plain:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def upsert_model_price(self, price: ModelPrice) -> None:
            self.seen.append(price.model_id)

        def list_current_prices(self) -> list[ModelPrice]:
            return []

    store = Plain()
    asyncio.run(seed_model_prices(store, [PLAIN, CACHED]))

    assert store.seen == ["m-1", "m-2"]


@pytest.mark.parametrize(
    "price",
    [
        ModelPrice(model_id="", input_price_per_1m=1, output_price_per_1m=1),
        ModelPrice(model_id="m", input_price_per_1m=-1, output_price_per_1m=1),
        ModelPrice(model_id="m", input_price_per_1m=1, output_price_per_1m=float("nan")),
        ModelPrice(model_id="m", input_price_per_1m=1, output_price_per_1m=1, cache_read_price_per_1m=-0.5),
        ModelPrice(model_id="m", input_price_per_1m="3", output_price_per_1m=1),  # type: ignore[arg-type]
    ],
    ids=["no-model", "negative", "nan", "cache", "text"],
)
def test_a_price_that_cannot_be_is_refused(price: ModelPrice) -> None:
    store = InMemoryPricingStore()

    with pytest.raises(InvalidRequest):
        asyncio.run(store.upsert_model_price(price))

    assert asyncio.run(store.list_current_prices()) == ()


def test_a_known_model_has_a_price_with_or_without_its_provider() -> None:
    pytest.importorskip("genai_prices")
    plain = known_price("claude-sonnet-4-5")
    named = [known_price(f"anthropic{mark}claude-sonnet-4-5") for mark in (":", "/")]

    assert plain is not None
    assert plain.model_id == "claude-sonnet-4-5"
    assert 0 < plain.input_price_per_1m < plain.output_price_per_1m
    assert plain.cache_read_price_per_1m is not None
    assert [(price.input_price_per_1m, price.output_price_per_1m) for price in named if price] == [
        (plain.input_price_per_1m, plain.output_price_per_1m)
    ] * 2


@pytest.mark.parametrize("model_id", ["", "scripted", "no-such-model", "anthropic:no-such-model", "nobody:claude-sonnet-4-5"])
def test_an_unknown_model_has_no_price(model_id: str) -> None:
    assert known_price(model_id) is None


def test_without_the_library_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "genai_prices":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)

    assert known_price("claude-sonnet-4-5") is None


def test_known_prices_fill_what_is_missing_and_replace_nothing() -> None:
    pytest.importorskip("genai_prices")

    async def story() -> tuple[tuple[str, ...], list[tuple[str, float]]]:
        own = ModelPrice(model_id="claude-sonnet-4-5", input_price_per_1m=0.1, output_price_per_1m=0.2)
        store = InMemoryPricingStore([own])
        without = await fill_known_prices(store, ["claude-sonnet-4-5", "gpt-4o", "no-such-model", "gpt-4o"])
        return without, [(price.model_id, price.input_price_per_1m) for price in await store.list_current_prices()]

    without, prices = asyncio.run(story())

    assert without == ("no-such-model",)
    assert prices[0] == ("claude-sonnet-4-5", 0.1)
    assert [model_id for model_id, _ in prices] == ["claude-sonnet-4-5", "gpt-4o"]
