"""What models cost, in the store file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from loomnb.agents.journal_batch import collector
from loomnb.agents.pricing import checked_price, known_price
from loomnb.agents.spi import ModelPrice, camel
from loomnb.agents.words import check_texts
from loomnb.jsonvalue import dumps
from loomnb.store import Database

__all__ = ["JournalPricing"]

_PRICES = "prices"
"""Stands for a thread's id in the rows of prices."""


class JournalPricing:
    """An `AgentPricingStore` in the store file: `model_prices`.

    Args:
        database: the store file.
        public: models whose prices are taken from the public list of the library genai-prices when none is set: of vendors. A
            price that is set is never replaced. What they call themselves in their answers is looked up too, once it is known.
    """

    def __init__(self, database: Database, public: Sequence[str] = ()) -> None:
        self._database = database
        check_texts("public", public)
        self._public = tuple(public)

    async def upsert_model_price(self, price: ModelPrice) -> None:
        """Supersede the price of a model. Durable when it returns, unless it is part of something larger.

        Raises:
            StoreClosed: the store was closed.
            WorldFailed: it could not be stored.
            InvalidRequest: it names no model, or is no number from 0 up.
        """
        checked_price(price)
        body = {camel(one.name): getattr(price, one.name) for one in fields(price)}
        row = (_PRICES, "price.set", dumps(body))
        here = collector()
        if here is not None:
            here.rows.append(row)
        else:
            self._database.commit([row])

    async def list_current_prices(self) -> Sequence[ModelPrice]:
        """Every model's price, by name."""
        rows = self._database.read(
            "select model_id, input_price_per_1m, output_price_per_1m, cache_write_price_per_1m, cache_read_price_per_1m "
            "from model_prices order by model_id"
        )
        names = [one.name for one in fields(ModelPrice)]
        prices = [ModelPrice(**dict(zip(names, row, strict=True))) for row in rows]
        return [*prices, *(await self._of_public_list({price.model_id for price in prices}))]

    async def _of_public_list(self, priced: set[str]) -> list[ModelPrice]:
        if not self._public:
            return []
        used = {name for (name,) in self._database.read("select distinct model_id from model_usage")}
        found = [known_price(name) for name in sorted({*self._public, *used} - priced - {"unknown", "scripted"})]
        for price in found:
            if price is not None:
                await self.upsert_model_price(price)
        return [price for price in found if price is not None]
