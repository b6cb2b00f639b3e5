"""What those who are responsible for agents ask for, as rows: what it cost, how runs ended, who is waited for, which tools fail.

Times are in UTC; money is in USD, and 0 where it is not known, since these are sums; durations are in milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Generic, TypeVar

from loomnb.agents.rows import RunStatus
from loomnb.agents.words import check_text
from loomnb.errors import InvalidRequest
from loomnb.jsonvalue import Json

__all__ = [
    "ActorSpend",
    "AgentRunStats",
    "DayRange",
    "ModelSpend",
    "Page",
    "RunDay",
    "RunDetail",
    "RunErrorCount",
    "RunInfo",
    "RunMetrics",
    "ThreadDetail",
    "ThreadInfo",
    "ThreadSpend",
    "ToolCallInfo",
    "ToolStats",
    "UsageDay",
]

R = TypeVar("R")

DEFAULT_AGENT = "(default)"
"""Stands for runs that name no agent."""

UNKNOWN_ERROR = "(unknown)"
"""Stands for failed runs without a code."""

MAX_ROWS = 1000
"""How many rows one question gives at most."""

FILTERS: Mapping[str, Sequence[str]] = {
    "tool_calls": ("thread_id", "run_id", "tool_name", "tool_type", "status", "approver"),
    "threads": ("actor_ref", "tenant_ref", "agent_name", "model", "is_transient"),
    "runs": ("thread_id", "actor_ref", "agent_name", "parent_run_id", "status", "error_code"),
}
"""What pages may be narrowed by: names of their rows."""


@dataclass(frozen=True, slots=True)
class DayRange:
    """Days of UTC, from the first to the last, both included.

    Raises:
        InvalidRequest: the last is before the first, or one is no day.
    """

    first: date
    last: date

    def __post_init__(self) -> None:
        for day in (self.first, self.last):
            if not isinstance(day, date) or isinstance(day, datetime):
                raise InvalidRequest(f"{day!r:.60} is no day.", advice="Give a datetime.date: date(2026, 5, 1).")
        if self.last < self.first:
            raise InvalidRequest(f"The days from {self.first} to {self.last} are none.", advice="Give the earlier one first.")

    @property
    def start(self) -> datetime:
        """The first moment."""
        return datetime.combine(self.first, time(), UTC)

    @property
    def end(self) -> datetime:
        """The first moment after it."""
        return datetime.combine(self.last, time(), UTC) + timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[R]):
    """Some of many rows. `page` counts from 1; `total` is how many there are on all pages."""

    rows: Sequence[R]
    total: int
    page: int
    page_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpend:
    model_id: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSpend:
    actor_ref: str
    requests: int
    total_tokens: int
    cost_usd: float
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSpend:
    """`title`: None for a thread that was deleted."""

    thread_id: str
    title: str | None
    requests: int
    total_tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDay:
    day: date
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    run_id: str
    thread_id: str
    actor_ref: str
    agent_name: str | None
    parent_run_id: str | None
    status: RunStatus
    error_code: str | None
    error_message: str | None
    retries: int
    started_at: datetime
    ended_at: datetime | None
    duration_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo:
    """`messages`: how many a person sees: what was said, and the answers; no steps that only call tools."""

    thread_id: str
    actor_ref: str
    tenant_ref: str | None
    title: str
    agent_name: str | None
    model: str | None
    is_transient: bool
    created_at: datetime
    updated_at: datetime
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallInfo:
    tool_call_id: str
    thread_id: str
    run_id: str | None
    tool_name: str
    tool_type: str
    input: Json
    status: str
    error: str | None
    approver: str | None
    expires_at: datetime | None
    decided_by: str | None
    decided_via: str | None
    executed_by: str | None
    duration_ms: float | None
    recorded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetrics:
    """`success_rate`: completed among all runs, 0 without any. Durations: of the runs that ended; None without any."""

    runs: int
    completed: int
    failed: int
    cancelled: int
    success_rate: float
    retries: int
    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunStats:
    """`agent_name` is `(default)` for runs that name no agent."""

    agent_name: str
    runs: int
    completed: int
    failed: int
    cancelled: int
    success_rate: float
    p95_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunErrorCount:
    """`last_message`: of the run that began last."""

    error_code: str
    runs: int
    last_message: str
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDay:
    day: date
    runs: int
    completed: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStats:
    tool_name: str
    calls: int
    failed: int
    rejected: int
    p95_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """A run, the calls it made, the runs it started, and what it used."""

    run: RunInfo
    tool_calls: Sequence[ToolCallInfo]
    children: Sequence[RunInfo]
    requests: int
    total_tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadDetail:
    """A thread, its runs and calls in the order they began, and what it used."""

    thread: ThreadInfo
    runs: Sequence[RunInfo]
    tool_calls: Sequence[ToolCallInfo]
    requests: int
    total_tokens: int
    cost_usd: float


def checked_limit(limit: int) -> int:
    """The number of rows, when it can be one.

    Raises:
        InvalidRequest: it is not from 1 to 1000.
    """
    if type(limit) is not int or not 1 <= limit <= MAX_ROWS:
        raise InvalidRequest(f"{limit!r} rows cannot be asked for.", advice=f"Ask for 1 to {MAX_ROWS}.")
    return limit


def checked_days(days: DayRange) -> DayRange:
    """The days, when they are some.

    Raises:
        InvalidRequest: they are not.
    """
    if not isinstance(days, DayRange):
        raise InvalidRequest(f"{days!r:.60} are no days.", advice="Give DayRange(date(2026, 5, 1), date(2026, 5, 31)).")
    return days


def checked_page(kind: str, page: int, page_size: int, where: Mapping[str, Json] | None) -> dict[str, Json]:
    """What a page is narrowed by, when there can be such a page.

    Raises:
        InvalidRequest: the page is below 1, its size not from 1 to 1000, or a name is none of the rows'.
    """
    checked_limit(page_size)
    if type(page) is not int or page < 1:
        raise InvalidRequest(f"There is no page {page!r}.", advice="Pages count from 1.")
    if where is not None and not isinstance(where, Mapping):
        raise InvalidRequest(f"where={where!r:.60} is no mapping.", advice=f"These can be named: {', '.join(FILTERS[kind])}.")
    wrong = sorted({str(name) for name in where or {}} - set(FILTERS[kind]))
    if wrong:
        raise InvalidRequest(
            f"Rows cannot be narrowed by {', '.join(wrong)}.", advice=f"These can be named: {', '.join(FILTERS[kind])}."
        )
    for name, value in (where or {}).items():
        if value is not None and not isinstance(value, (str, int, float)):
            raise InvalidRequest(f"{name}={value!r:.60} is nothing to look for.", advice="Give a text, a number or None.")
        if isinstance(value, str):
            check_text(name, value, error=InvalidRequest)
    return dict(where or {})


def percentile(values: Iterable[float], share: float) -> float | None:
    """Between two values, in proportion: as SQL's `quantile_cont`. None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = (len(ordered) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
