"""What a call of a model costs: reported by the provider, else estimated from a price, else unknown. Never 0 for unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from loomnb.agents.amounts import is_amount
from loomnb.agents.spi import AgentPricingStore, ModelPrice, settled
from loomnb.agents.words import check_text
from loomnb.errors import InvalidRequest

__all__ = ["InMemoryPricingStore", "estimate_cost", "fill_known_prices", "known_price", "price_of", "seed_model_prices"]

MILLION = 1_000_000


class InMemoryPricingStore:
    """An `AgentPricingStore` in memory.

    Args:
        prices: those it begins with.

    Raises:
        InvalidRequest: a price has no model, or is no number from 0 up.
    """

    def __init__(self, prices: Iterable[ModelPrice] = ()) -> None:
        self._prices: dict[str, ModelPrice] = {}
        if not isinstance(prices, Iterable):
            raise InvalidRequest(f"Prices are a list of loom.ModelPrice, not {prices!r:.60}.")
        for price in prices:
            self._prices[checked_price(price).model_id] = price

    async def upsert_model_price(self, price: ModelPrice) -> None:
        """Replace what a model costs, from now on.

        Raises:
            InvalidRequest: it has no model, or is no number from 0 up.
        """
        self._prices[checked_price(price).model_id] = price

    async def list_current_prices(self) -> Sequence[ModelPrice]:
        """What each model costs, by the name of the model."""
        return tuple(self._prices[model_id] for model_id in sorted(self._prices))


def checked_price(price: ModelPrice) -> ModelPrice:
    """The price, when it can be one.

    Raises:
        InvalidRequest: it has no model, or is no number from 0 up.
    """
    if not isinstance(price, ModelPrice):
        raise InvalidRequest(
            f"{price!r:.60} is no price.",
            advice='Give loom.ModelPrice(model_id="…", input_price_per_1m=1, output_price_per_1m=2).',
        )
    check_text("The model of a price", price.model_id, error=InvalidRequest)
    if not price.model_id or not price.model_id.strip():
        raise InvalidRequest("A price names no model.")
    told = {
        "input_price_per_1m": price.input_price_per_1m,
        "output_price_per_1m": price.output_price_per_1m,
        "cache_write_price_per_1m": price.cache_write_price_per_1m,
        "cache_read_price_per_1m": price.cache_read_price_per_1m,
    }
    for name, value in told.items():
        if value is None and name.startswith("cache"):
            continue
        if not is_amount(value):
            raise InvalidRequest(
                f"{name} of model {price.model_id!r} is {value!r:.60}.", advice="Give the USD for a million tokens, from 0 up."
            )
    return price


async def seed_model_prices(store: AgentPricingStore, prices: Iterable[ModelPrice]) -> None:
    """Set each of these prices in a store; errors are the store's.

    Raises:
        InvalidRequest: they are no prices. None was set.
    """
    if isinstance(prices, (str, bytes)) or not isinstance(prices, Iterable):
        raise InvalidRequest(f"{prices!r:.60} is no prices.", advice="Give a list of loom.ModelPrice.")
    given = [checked_price(price) for price in prices]
    for price in given:
        await settled(store.upsert_model_price(price))


def estimate_cost(usage: Mapping[str, int] | None, price: ModelPrice | None) -> float | None:
    """The USD that a call cost, from what it used and what the model costs.

    Tokens that were written to or read from a cache are a part of `inputTokens`, and cost what input does unless the price says
    otherwise.

    Args:
        usage: `inputTokens`, `outputTokens`, `cacheWriteTokens`?, `cacheReadTokens`?.
        price: of its model.

    Returns:
        None when there is no price, or when input or output is not known.
    """
    if usage is None or price is None:
        return None
    tokens_in, tokens_out = usage.get("inputTokens"), usage.get("outputTokens")
    if tokens_in is None or tokens_out is None:
        return None
    written, read = usage.get("cacheWriteTokens") or 0, usage.get("cacheReadTokens") or 0
    write_price = price.input_price_per_1m if price.cache_write_price_per_1m is None else price.cache_write_price_per_1m
    read_price = price.input_price_per_1m if price.cache_read_price_per_1m is None else price.cache_read_price_per_1m
    total = (
        (tokens_in - written - read) * price.input_price_per_1m
        + written * write_price
        + read * read_price
        + tokens_out * price.output_price_per_1m
    )
    return total / MILLION


def price_of(model_id: str | None, prices: Iterable[ModelPrice]) -> ModelPrice | None:
    """The price of exactly this model; None: there is none."""
    return next((price for price in prices if price.model_id == model_id), None)


def known_price(model_id: str) -> ModelPrice | None:
    """What a model costs by the public list in the library genai-prices, which comes with `loomnb[agents]`.

    The list is that of the installed version: nothing is fetched. Where a price depends on the length of the request or on the
    time, it is the price for short requests now.

    Args:
        model_id: `claude-sonnet-4-5`, or with its provider, `anthropic:claude-sonnet-4-5` or `anthropic/claude-sonnet-4-5`.

    Returns:
        Its price under the name that was given; None when the model is not on the list, has no price for tokens in and out, or
        the library is not installed.
    """
    try:
        import genai_prices  # noqa: PLC0415  # optional, and 150 ms
    except ImportError:
        return None
    for name, provider in _spellings(model_id):
        try:
            # Of no tokens at all: the library's own way to the price that holds now.
            found = genai_prices.calc_price(
                genai_prices.Usage(input_tokens=0, output_tokens=0), name, provider_id=provider
            ).model_price
        except (LookupError, ValueError):
            continue
        told = {column: _per_million(getattr(found, column, None)) for column in ("input_mtok", "output_mtok")}
        if told["input_mtok"] is None or told["output_mtok"] is None:
            return None
        return ModelPrice(
            model_id=model_id,
            input_price_per_1m=told["input_mtok"],
            output_price_per_1m=told["output_mtok"],
            cache_write_price_per_1m=_per_million(getattr(found, "cache_write_mtok", None)),
            cache_read_price_per_1m=_per_million(getattr(found, "cache_read_mtok", None)),
        )
    return None


async def fill_known_prices(store: AgentPricingStore, model_ids: Iterable[str]) -> tuple[str, ...]:
    """Set the known prices of those models that have none in a store; a price that is there is never replaced.

    Returns:
        The models that still have none, whose calls would record no cost unless their provider reports it.
    """
    priced = {price.model_id for price in await settled(store.list_current_prices())}
    unpriced: list[str] = []
    for model_id in dict.fromkeys(model_ids):
        if model_id in priced:
            continue
        if (price := known_price(model_id)) is None:
            unpriced.append(model_id)
        else:
            await settled(store.upsert_model_price(price))
    return tuple(unpriced)


def _spellings(model_id: str) -> list[tuple[str, str | None]]:
    """The name as it is, and split from its provider where it names one."""
    out: list[tuple[str, str | None]] = [(model_id, None)]
    for mark in (":", "/"):
        provider, found, name = model_id.partition(mark)
        if found and provider and name:
            out.append((name, provider))
    return out


def _per_million(price: object) -> float | None:
    """A price of the library, which may be in tiers by the length of the request: then the first."""
    base = getattr(price, "base", price)
    return None if base is None else float(base)  # type: ignore[arg-type]  # a Decimal
