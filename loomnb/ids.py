"""Ids and the clock: the only caller of random and of now(). Both are injected, so tests can freeze them."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["SYSTEM", "Source", "SystemSource"]


class Source(Protocol):
    """Where ids and times come from."""

    def new_id(self, prefix: str) -> str:
        """A fresh id such as `run-3f9c2a1b4d5e`; unique in a store. Prefixes in capitals are the blueprint contract's."""
        ...

    def now(self) -> datetime:
        """The present moment, with a time zone."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...


@dataclass(frozen=True, slots=True)
class SystemSource:
    """Random ids of 48 bits behind their prefix, and the machine's clocks."""

    def new_id(self, prefix: str) -> str:
        """Short enough to type, and still without a clash in a store of millions; 21 characters behind capitals (contracts/
        blueprints.md §2.2)."""
        if prefix.isupper():
            return f"{prefix}-{''.join(secrets.choice(_URL_SAFE) for _ in range(21))}"
        return f"{prefix}-{secrets.token_hex(6)}"

    def now(self) -> datetime:
        """The machine's time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The machine's monotonic clock."""
        return time.monotonic()


SYSTEM = SystemSource()

_URL_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
