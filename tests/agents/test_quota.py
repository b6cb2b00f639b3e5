"""What somebody may use in a day or a month."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from loomnb.agents.memory_store import InMemoryAgentStore
from loomnb.agents.pricing import InMemoryPricingStore
from loomnb.agents.quota import InMemoryQuotaStore, StoreQuotaProvider, exhausted_window, quota_period_range, quota_warning
from loomnb.agents.spi import Actor, ModelPrice, QuotaProvider, QuotaReport, QuotaStore, QuotaWindow, StoreMissing, UsageRow
from loomnb.errors import InvalidRequest
from loomnb.testing import StillSource

ANN = Actor(id="ann")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.case("agents:X01")
@pytest.mark.parametrize(
    ("period", "now", "start", "end"),
    [
        ("day", "2026-03-15T13:30:00", "2026-03-15", "2026-03-16"),
        ("day", "2026-03-15T00:00:00", "2026-03-15", "2026-03-16"),
        ("day", "2026-12-31T23:59:59.999", "2026-12-31", "2027-01-01"),
        ("day", "2028-02-28T12:00:00", "2028-02-28", "2028-02-29"),
        ("day", "2027-02-28T12:00:00", "2027-02-28", "2027-03-01"),
        ("month", "2026-03-15T13:30:00", "2026-03-01", "2026-04-01"),
        ("month", "2026-12-31T23:59:59.999", "2026-12-01", "2027-01-01"),
        ("month", "2028-02-29T12:00:00", "2028-02-01", "2028-03-01"),
        ("month", "2027-02-01T00:00:00", "2027-02-01", "2027-03-01"),
        ("month", "2026-01-31T12:00:00", "2026-01-01", "2026-02-01"),
    ],
)
def test_a_period_is_a_utc_day_or_month(period: Any, now: str, start: str, end: str) -> None:
    found = quota_period_range(period, moment(now))

    assert (found.start, found.end) == (moment(start), moment(end))
    assert found.resets_at == f"{end}T00:00:00+00:00"


@pytest.mark.case("agents:X01")
def test_a_moment_elsewhere_lies_in_the_day_of_utc() -> None:
    late = datetime(2026, 1, 1, 1, 0, tzinfo=timezone(timedelta(hours=5)))

    assert quota_period_range("day", late).start == moment("2025-12-31")
    assert quota_period_range("month", late).start == moment("2025-12-01")


@pytest.mark.parametrize(
    ("period", "now"),
    [("day", moment("2026-01-01").replace(tzinfo=None)), ("week", moment("2026-01-01"))],
    ids=["naive", "week"],
)
def test_a_period_that_cannot_be_is_refused(period: Any, now: datetime) -> None:
    with pytest.raises(InvalidRequest):
        quota_period_range(period, now)


def window(period: Any = "day", **more: Any) -> QuotaWindow:
    return QuotaWindow(period=period, **more)


EXHAUSTED: list[tuple[str, list[QuotaWindow], dict[str, str] | None]] = [
    (
        "monthly-spend",
        [window(limit_tokens=10, used_tokens=9), window("month", limit_usd=5, used_usd=5)],
        {"period": "month", "reason": "Monthly spend limit reached"},
    ),
    ("daily-tokens", [window(limit_tokens=10, used_tokens=10)], {"period": "day", "reason": "Daily token limit reached"}),
    ("no-ceilings", [window(used_tokens=10**9, used_usd=1e9), window("month")], None),
    ("usd-only-below", [window(limit_usd=1.0, used_usd=0.99, used_tokens=10**9)], None),
    ("usd-only", [window(limit_usd=1.0, used_usd=1.01)], {"period": "day", "reason": "Daily spend limit reached"}),
    (
        "spend-wins-the-wording",
        [window(limit_usd=1.0, used_usd=1.0, limit_tokens=1, used_tokens=1)],
        {"period": "day", "reason": "Daily spend limit reached"},
    ),
    ("nothing-used", [window(limit_tokens=1)], None),
    ("nothing-allowed", [window(limit_tokens=0)], {"period": "day", "reason": "Daily token limit reached"}),
    (
        "first-of-two",
        [window("month", limit_tokens=1, used_tokens=1), window(limit_usd=1, used_usd=1)],
        {"period": "month", "reason": "Monthly token limit reached"},
    ),
]


@pytest.mark.case("agents:X02")
@pytest.mark.parametrize(("windows", "told"), [row[1:] for row in EXHAUSTED], ids=[row[0] for row in EXHAUSTED])
def test_the_first_exhausted_window_is_named(windows: list[QuotaWindow], told: dict[str, str] | None) -> None:
    assert exhausted_window(windows) == told


@pytest.mark.case("agents:X03")
def test_the_fullest_window_past_its_soft_limit_is_the_warning() -> None:
    windows = [
        window(limit_tokens=100, used_tokens=85, warn_at=0.8),
        window("month", limit_usd=10, used_usd=9.5, limit_tokens=1000, used_tokens=1, warn_at=0.9),
        window(limit_tokens=100, used_tokens=99),
    ]

    assert quota_warning(windows) == {"period": "month", "ratio": 0.95, "warnAt": 0.9}


@pytest.mark.case("agents:X03")
@pytest.mark.parametrize(
    "windows",
    [
        [window(limit_tokens=100, used_tokens=79, warn_at=0.8)],
        [window(limit_tokens=100, used_tokens=99)],
        [window(limit_tokens=100, used_tokens=90, warn_at=0.8), window("month", limit_tokens=1, used_tokens=1)],
        [window(used_tokens=90, warn_at=0.8)],
        [],
    ],
    ids=["below", "no-soft-limit", "exhausted", "no-limit", "no-window"],
)
def test_there_is_no_warning(windows: list[QuotaWindow]) -> None:
    assert quota_warning(windows) is None


# -- from a store --


async def used_store(source: StillSource) -> InMemoryAgentStore:
    store = InMemoryAgentStore(source=source)
    await store.create_thread(actor=ANN, id="t")
    rows = [("2026-01-02T03:00:00+00:00", 0.5), ("2026-01-01T03:00:00+00:00", 1.0), ("2025-12-31T23:59:59+00:00", 8.0)]
    for at, cost in rows:
        await store.record_usage(
            UsageRow(
                thread_id="t", actor_ref="ann", model_id="m", usage={"inputTokens": 60, "outputTokens": 20}, cost_usd=cost, at=at
            )
        )
    return store


def test_what_a_store_has_on_record_fills_the_windows() -> None:
    async def story() -> QuotaReport:
        source = StillSource()
        provider: QuotaProvider = StoreQuotaProvider(
            await used_store(source), window(limit_tokens=100, warn_at=0.8), window("month", limit_usd=100.0), source=source
        )
        report = provider.report(actor=ANN)
        assert not isinstance(report, QuotaReport)
        return await report

    report = asyncio.run(story())
    day, month = report.windows

    assert (day.used_tokens, day.used_usd, day.resets_at) == (80, 0.5, "2026-01-03T00:00:00+00:00")
    assert (month.used_tokens, month.used_usd, month.resets_at) == (160, 1.5, "2026-02-01T00:00:00+00:00")
    assert (report.blocked, report.warning) == (None, {"period": "day", "ratio": 0.8, "warnAt": 0.8})


def test_another_moment_and_another_person_have_their_own_windows() -> None:
    async def story() -> list[int | None]:
        provider = StoreQuotaProvider(await used_store(StillSource()), window(limit_tokens=80), source=StillSource())
        old = await provider.report(actor=ANN, now=moment("2025-12-31T01:00:00"))
        other = await provider.report(actor=Actor(id="ben"))
        assert (old.blocked or {})["period"] == "day"
        return [old.windows[0].used_tokens, other.windows[0].used_tokens]

    assert asyncio.run(story()) == [80, 0]


def test_calls_without_a_reported_cost_are_priced() -> None:
    async def story() -> list[float | None]:
        source = StillSource()
        store = await used_store(source)
        row = UsageRow(thread_id="t", actor_ref="ann", model_id="priced", usage={"inputTokens": 1_000_000, "outputTokens": 0})
        await store.record_usage(row)
        await store.record_usage(UsageRow(thread_id="t", actor_ref="ann", model_id="unpriced", usage=row.usage))
        pricing = InMemoryPricingStore([ModelPrice(model_id="priced", input_price_per_1m=2.0, output_price_per_1m=1.0)])
        plain = await StoreQuotaProvider(store, window(), source=source).report(actor=ANN)
        priced = await StoreQuotaProvider(store, window(), pricing=pricing, source=source).report(actor=ANN)
        return [plain.windows[0].used_usd, priced.windows[0].used_usd]

    assert asyncio.run(story()) == [0.5, 2.5]


def test_a_store_that_cannot_tell_what_was_used_is_refused() -> None:
    store: Any = object()

    with pytest.raises(StoreMissing, match="usage_between"):
        StoreQuotaProvider(store, window(limit_tokens=1))


@pytest.mark.parametrize("limits", [[], [window(limit_tokens=-1)], [window(limit_usd=-0.5)]], ids=["none", "tokens", "usd"])
def test_limits_that_cannot_be_are_refused(limits: list[QuotaWindow]) -> None:
    with pytest.raises(InvalidRequest):
        StoreQuotaProvider(InMemoryAgentStore(), *limits)


# -- the older way --


def test_tokens_are_counted_for_an_actor_and_a_day() -> None:
    async def story() -> list[bool]:
        store = InMemoryQuotaStore(100)
        as_store: QuotaStore = store
        said = [(await store.check(ANN, "2026-01-02")).within_limit]
        await store.bump(ANN, "2026-01-02", 100)
        said.append((await store.check(ANN, "2026-01-02")).within_limit)
        others = [(Actor(id="ben"), "2026-01-02"), (Actor(id="ann", tenant_ref="acme"), "2026-01-02"), (ANN, "2026-01-03")]
        assert as_store is store
        return [*said, *[(await store.check(actor, day)).within_limit for actor, day in others]]

    assert asyncio.run(story()) == [True, False, True, True, True]


def test_a_limit_of_nothing_lets_nobody_begin() -> None:
    assert not asyncio.run(InMemoryQuotaStore(0).check(ANN, "2026-01-02")).within_limit


def test_a_limit_below_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        InMemoryQuotaStore(-1)
