"""What models cost, in the store file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from loomnb.agents.journal_batch import collector
from loomnb.agents.spi import ModelPrice, camel
from loomnb.jsonvalue import dumps
from loomnb.store import Database

__all__ = ["JournalPricing"]

_PRICES = "prices"
"""Stands for a thread's id in the rows of prices."""


class JournalPricing:
    """An `AgentPricingStore` in the store file: `model_prices`.

    Args:
        database: the store file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def upsert_model_price(self, price: ModelPrice) -> None:
        """Supersede the price of a model. Durable when it returns, unless it is part of something larger.

        Raises:
            StoreClosed: the store was closed.
            WorldFailed: it could not be stored.
        """
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
        return [ModelPrice(**dict(zip([one.name for one in fields(ModelPrice)], row, strict=True))) for row in rows]
