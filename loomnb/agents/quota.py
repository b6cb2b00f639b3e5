"""What somebody may use in a day or a month, what they did use, and what follows: go on, a warning, or no more.

Days and months are those of UTC. A ceiling is reached when as much was used as it allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, assert_never

from loomnb.agents.pricing import estimate_cost, price_of
from loomnb.agents.spi import (
    Actor,
    AgentPricingStore,
    AgentStore,
    QuotaReport,
    QuotaVerdict,
    QuotaWindow,
    StoreMissing,
    optional,
    settled,
)
from loomnb.errors import InvalidRequest
from loomnb.ids import SYSTEM, Source

__all__ = [
    "InMemoryQuotaStore",
    "QuotaPeriod",
    "StoreQuotaProvider",
    "exhausted_window",
    "quota_period_range",
    "quota_warning",
]

_NAMES = {"day": "Daily", "month": "Monthly"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaPeriod:
    """A day or a month. `start` belongs to it, `end` no more."""

    start: datetime
    end: datetime

    @property
    def resets_at(self) -> str:
        """When it begins anew: ISO 8601, UTC."""
        return self.end.isoformat()


def quota_period_range(period: Literal["day", "month"], now: datetime) -> QuotaPeriod:
    """The UTC day or month in which a moment lies.

    Raises:
        InvalidRequest: the moment has no time zone, or the period is neither.
    """
    if not isinstance(now, datetime) or now.tzinfo is None:
        raise InvalidRequest("A moment without a time zone lies in no day.", advice="Give a datetime with one, such as UTC.")
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match period:
        case "day":
            return QuotaPeriod(start=midnight, end=midnight + timedelta(days=1))
        case "month":
            start = midnight.replace(day=1)
            # The 28th is in every month, and four days later is the next one.
            return QuotaPeriod(start=start, end=(start.replace(day=28) + timedelta(days=4)).replace(day=1))
        case _:
            if not isinstance(period, str) or period not in _NAMES:
                raise InvalidRequest(f"{period!r} is no period of a quota.", advice="It is 'day' or 'month'.")
            assert_never(period)


def exhausted_window(windows: Sequence[QuotaWindow]) -> dict[str, str] | None:
    """The first window of which nothing is left, `{"period", "reason"}`; None: there is something left in all.

    What is not known to be used counts as 0. Where money and tokens are both used up, the reason names the money.
    """
    for window in windows:
        spent, used = _is_reached(window.used_usd, window.limit_usd), _is_reached(window.used_tokens, window.limit_tokens)
        if spent or used:
            return {"period": window.period, "reason": f"{_NAMES[window.period]} {'spend' if spent else 'token'} limit reached"}
    return None


def _is_reached(used: float | None, limit: float | None) -> bool:
    return limit is not None and (used or 0) >= limit


def quota_warning(windows: Sequence[QuotaWindow]) -> dict[str, Any] | None:
    """The fullest window that is as full as its `warn_at` says, `{"period", "ratio", "warnAt"}`.

    None when no window is, when one is exhausted already, and for windows without `warn_at`.
    """
    if exhausted_window(windows) is not None:
        return None
    fullest: QuotaWindow | None = None
    for window in windows:
        is_full = window.warn_at is not None and _ratio(window) >= window.warn_at
        if is_full and (fullest is None or _ratio(window) > _ratio(fullest)):
            fullest = window
    return None if fullest is None else {"period": fullest.period, "ratio": _ratio(fullest), "warnAt": fullest.warn_at}


def _ratio(window: QuotaWindow) -> float:
    """How full it is, 0 to 1: by money or by tokens, whichever is more."""
    pairs = ((window.used_usd, window.limit_usd), (window.used_tokens, window.limit_tokens))
    return max(((used or 0) / limit for used, limit in pairs if limit), default=0.0)


def _check_window(window: object) -> None:
    if not isinstance(window, QuotaWindow):
        raise InvalidRequest(f"{window!r:.60} is no window.", advice='Give QuotaWindow(period="day", limit_tokens=100_000).')
    if not isinstance(window.period, str) or window.period not in _NAMES:
        raise InvalidRequest(f"{window.period!r:.60} is no period of a quota.", advice="It is 'day' or 'month'.")
    for what in ("limit_tokens", "limit_usd", "warn_at"):
        if getattr(window, what) is not None:
            _check_amount(f"{what} of the {window.period}'s quota", getattr(window, what))


def _check_amount(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise InvalidRequest(f"{what} is {value!r:.60}.", advice="Give a number from 0 up.")


class StoreQuotaProvider:
    """A `QuotaProvider` that counts what a store has on record.

    Args:
        store: its `usage_between(actor, start, end)` gives `usedTokens`, `costUsd` and, if it can, `unreported` (model →
            tokens of the calls for which no cost was reported).
        limits: the windows, without what was used: `QuotaWindow(period="day", limit_tokens=100_000, warn_at=0.8)`.
        pricing: prices for calls whose provider reports no cost. Without it, or without a price, such calls count no money.
        source: the clock.

    Raises:
        StoreMissing: the store lacks `usage_between`.
        InvalidRequest: there are no windows, or one is none: another period, or a limit that is no number from 0 up.
    """

    def __init__(
        self, store: AgentStore, *limits: QuotaWindow, pricing: AgentPricingStore | None = None, source: Source = SYSTEM
    ) -> None:
        usage = optional(store, "usage_between")
        if usage is None:
            raise StoreMissing(
                f"{type(store).__name__} cannot say what was used between two moments.", advice="Give it a method usage_between."
            )
        if not limits:
            raise InvalidRequest("A quota without a window limits nothing.", advice="Give at least one QuotaWindow.")
        for window in limits:
            _check_window(window)
        self._usage, self._limits, self._pricing, self._source = usage, limits, pricing, source

    async def report(self, *, actor: Actor, now: datetime | None = None) -> QuotaReport:
        """What somebody used in each window, and what follows.

        Args:
            actor: who.
            now: the moment; the clock's unless given.

        Raises:
            InvalidRequest: nobody is named, or the moment has no time zone.
        """
        if not isinstance(actor, Actor):
            raise InvalidRequest(f"Whose quota is it? actor={actor!r:.60}.", advice='Give Actor(id="ana").')
        now = now if now is not None else self._source.now()
        windows = [await self._window(window, actor, now) for window in self._limits]
        return QuotaReport(windows=windows, blocked=exhausted_window(windows), warning=quota_warning(windows))

    async def _window(self, window: QuotaWindow, actor: Actor, now: datetime) -> QuotaWindow:
        period = quota_period_range(window.period, now)
        used: Mapping[str, Any] = await settled(self._usage(actor, period.start, period.end))
        cost = float(used["costUsd"]) + await self._estimated(used.get("unreported") or {})
        return replace(window, used_tokens=int(used["usedTokens"]), used_usd=cost, resets_at=period.resets_at)

    async def _estimated(self, unreported: Mapping[str, Mapping[str, int]]) -> float:
        if self._pricing is None or not unreported:
            return 0.0
        prices = await settled(self._pricing.list_current_prices())
        return sum(estimate_cost(usage, price_of(model_id, prices)) or 0.0 for model_id, usage in unreported.items())


class InMemoryQuotaStore:
    """A `QuotaStore`, the older way: so many tokens for everybody and day, counted in memory.

    Args:
        limit_tokens: 0 lets nobody do anything.

    Raises:
        InvalidRequest: it is no number from 0 up.
    """

    def __init__(self, limit_tokens: int) -> None:
        _check_amount("The quota in tokens", limit_tokens)
        self._limit = limit_tokens
        self._used: dict[tuple[str | None, str, str], int] = {}

    async def check(self, actor: Actor, day: str) -> QuotaVerdict:
        """How much somebody used on a day (`YYYY-MM-DD`), and whether there is something left."""
        used = self._used.get((actor.tenant_ref, actor.id, day), 0)
        return QuotaVerdict(used_tokens=used, limit_tokens=self._limit, within_limit=used < self._limit)

    async def bump(self, actor: Actor, day: str, tokens: int) -> None:
        """Count tokens that somebody used on a day."""
        key = (actor.tenant_ref, actor.id, day)
        self._used[key] = self._used.get(key, 0) + tokens
