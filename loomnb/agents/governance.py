"""The questions of those who are responsible for agents, and the answers of a store in memory.

`SqlGovernance` gives the same answers from a file. No question changes anything; without data the answer is empty, or zeros.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import loomnb.agents.governance_rows as gov  # not through the door of its own room
from loomnb.agents.memory_rows import StoredCall
from loomnb.agents.memory_store import InMemoryAgentStore
from loomnb.agents.pricing import estimate_cost, price_of
from loomnb.agents.rows import RunRow, used_tokens
from loomnb.agents.spi import AgentPricingStore, UsageRow, settled
from loomnb.agents.words import check_text
from loomnb.errors import InvalidRequest
from loomnb.jsonvalue import Json

__all__ = ["AgentGovernanceQueries", "InMemoryGovernance"]

R = TypeVar("R")
Where = Mapping[str, Json]


class AgentGovernanceQueries(Protocol):
    """What can be asked. Spend is sorted by cost, the highest first, then by id; lists of recent rows begin with the newest.

    A `limit` and a `page_size` are 1 to 1000, and pages count from 1; `where` names what rows must have, None for nothing. What
    cannot be is refused with InvalidRequest. The rows of a deleted thread's calls are not listed, though they are counted.
    """

    async def spend_by_model(self, days: gov.DayRange) -> Sequence[gov.ModelSpend]: ...
    async def spend_by_actor(self, days: gov.DayRange) -> Sequence[gov.ActorSpend]: ...
    async def spend_by_thread(self, days: gov.DayRange, limit: int = 20) -> Sequence[gov.ThreadSpend]: ...
    async def usage_trend(self, days: gov.DayRange) -> Sequence[gov.UsageDay]:
        """The days on which something was used, the earliest first."""
        ...

    async def recent_tool_calls(self, limit: int = 20) -> Sequence[gov.ToolCallInfo]: ...
    async def recent_threads(self, limit: int = 20) -> Sequence[gov.ThreadInfo]:
        """Those that changed last; transient ones too."""
        ...

    async def recent_runs(self, limit: int = 20) -> Sequence[gov.RunInfo]: ...
    async def run_metrics(self, days: gov.DayRange) -> gov.RunMetrics:
        """Of the runs that began in these days."""
        ...

    async def runs_by_agent(self, days: gov.DayRange) -> Sequence[gov.AgentRunStats]:
        """The agent with most runs first."""
        ...

    async def run_errors(self, days: gov.DayRange) -> Sequence[gov.RunErrorCount]:
        """The most frequent first; a cancelled run is no error."""
        ...

    async def run_trend(self, days: gov.DayRange) -> Sequence[gov.RunDay]:
        """The days on which runs began, the earliest first."""
        ...

    async def pending_approvals(self, limit: int = 20) -> Sequence[gov.ToolCallInfo]:
        """Calls that wait for somebody, the oldest first. Independent proposals are not among them."""
        ...

    async def tool_stats(self, days: gov.DayRange) -> Sequence[gov.ToolStats]:
        """Of the calls recorded in these days; the most called first."""
        ...

    async def tool_calls_page(
        self, page: int = 1, page_size: int = 50, where: Where | None = None
    ) -> gov.Page[gov.ToolCallInfo]: ...
    async def threads_page(self, page: int = 1, page_size: int = 50, where: Where | None = None) -> gov.Page[gov.ThreadInfo]: ...
    async def runs_page(self, page: int = 1, page_size: int = 50, where: Where | None = None) -> gov.Page[gov.RunInfo]: ...
    async def run_detail(self, run_id: str) -> gov.RunDetail | None:
        """A run with what belongs to it; None: it is unknown."""
        ...

    async def thread_detail(self, thread_id: str) -> gov.ThreadDetail | None:
        """A thread with what belongs to it; None: it is unknown, or was deleted."""
        ...


@dataclass(frozen=True, slots=True)
class _Used:
    """A usage row as sums need it."""

    row: UsageRow
    at: datetime
    cost: float

    @property
    def tokens_in(self) -> int:
        return self.row.usage.get("inputTokens") or 0

    @property
    def tokens_out(self) -> int:
        return self.row.usage.get("outputTokens") or 0


class InMemoryGovernance:
    """`AgentGovernanceQueries` over a store in memory; see there for what each question means.

    Args:
        store: where the rows are.
        pricing: prices for calls whose provider reported no cost; without it these cost 0.
    """

    def __init__(self, store: InMemoryAgentStore, pricing: AgentPricingStore | None = None) -> None:
        self._store, self._pricing = store, pricing

    # -- spend --

    async def spend_by_model(self, days: gov.DayRange) -> list[gov.ModelSpend]:
        rows = [
            gov.ModelSpend(
                model_id=model_id,
                requests=len(used),
                input_tokens=sum(one.tokens_in for one in used),
                output_tokens=sum(one.tokens_out for one in used),
                cost_usd=_cost(used),
            )
            for model_id, used in _grouped(await self._used(days), lambda one: one.row.model_id).items()
        ]
        return sorted(rows, key=lambda row: (-row.cost_usd, row.model_id))

    async def spend_by_actor(self, days: gov.DayRange) -> list[gov.ActorSpend]:
        rows = [
            gov.ActorSpend(
                actor_ref=actor_ref,
                requests=len(used),
                total_tokens=_tokens(used),
                cost_usd=_cost(used),
                threads=len({one.row.thread_id for one in used}),
            )
            for actor_ref, used in _grouped(await self._used(days), lambda one: one.row.actor_ref).items()
        ]
        return sorted(rows, key=lambda row: (-row.cost_usd, row.actor_ref))

    async def spend_by_thread(self, days: gov.DayRange, limit: int = 20) -> list[gov.ThreadSpend]:
        gov.checked_limit(limit)
        titles = {thread.id: thread.title for thread, is_deleted in self._store.threads() if not is_deleted}
        rows = [
            gov.ThreadSpend(
                thread_id=thread_id,
                title=titles.get(thread_id),
                requests=len(used),
                total_tokens=_tokens(used),
                cost_usd=_cost(used),
            )
            for thread_id, used in _grouped(await self._used(days), lambda one: one.row.thread_id).items()
        ]
        return sorted(rows, key=lambda row: (-row.cost_usd, row.thread_id))[:limit]

    async def usage_trend(self, days: gov.DayRange) -> list[gov.UsageDay]:
        return [
            gov.UsageDay(
                day=day,
                requests=len(used),
                input_tokens=sum(one.tokens_in for one in used),
                output_tokens=sum(one.tokens_out for one in used),
                cost_usd=_cost(used),
            )
            for day, used in sorted(_grouped(await self._used(days), lambda one: one.at.date()).items())
        ]

    # -- runs --

    async def recent_runs(self, limit: int = 20) -> list[gov.RunInfo]:
        return self._run_rows()[: gov.checked_limit(limit)]

    async def run_metrics(self, days: gov.DayRange) -> gov.RunMetrics:
        runs = self._runs_in(days)
        return gov.RunMetrics(
            **_endings(runs),
            success_rate=_success(runs),
            retries=sum(run.retries for run in runs),
            p50_ms=gov.percentile(_durations(runs), 0.5),
            p95_ms=gov.percentile(_durations(runs), 0.95),
        )

    async def runs_by_agent(self, days: gov.DayRange) -> list[gov.AgentRunStats]:
        grouped = _grouped(self._runs_in(days), lambda run: run.agent_name or gov.DEFAULT_AGENT)
        rows = [
            gov.AgentRunStats(
                agent_name=agent, **_endings(runs), success_rate=_success(runs), p95_ms=gov.percentile(_durations(runs), 0.95)
            )
            for agent, runs in grouped.items()
        ]
        return sorted(rows, key=lambda row: (-row.runs, row.agent_name))

    async def run_errors(self, days: gov.DayRange) -> list[gov.RunErrorCount]:
        failed = [run for run in self._runs_in(days) if run.status == "failed"]
        rows: list[gov.RunErrorCount] = []
        for code, runs in _grouped(failed, lambda run: run.error_code or gov.UNKNOWN_ERROR).items():
            last = max(runs, key=lambda run: (run.started_at, run.run_id))
            rows.append(
                gov.RunErrorCount(error_code=code, runs=len(runs), last_message=last.error_message or "", last_at=last.started_at)
            )
        return sorted(rows, key=lambda row: (-row.runs, row.error_code))

    async def run_trend(self, days: gov.DayRange) -> list[gov.RunDay]:
        grouped = _grouped(self._runs_in(days), lambda run: run.started_at.date())
        return [gov.RunDay(day=day, **_endings(runs)) for day, runs in sorted(grouped.items())]

    # -- tool calls --

    async def recent_tool_calls(self, limit: int = 20) -> list[gov.ToolCallInfo]:
        return self._call_rows()[: gov.checked_limit(limit)]

    async def pending_approvals(self, limit: int = 20) -> list[gov.ToolCallInfo]:
        gov.checked_limit(limit)
        waiting = [call for call in self._call_rows() if call.status == "pending_approval"]
        return sorted(waiting, key=lambda call: (call.recorded_at, call.tool_call_id))[:limit]

    async def tool_stats(self, days: gov.DayRange) -> list[gov.ToolStats]:
        gov.checked_days(days)
        calls = [call for call in self._store.stored_calls() if days.start <= call.recorded_at < days.end]
        rows = [
            gov.ToolStats(
                tool_name=name,
                calls=len(made),
                failed=sum(call.row.status == "failed" for call in made),
                rejected=sum(call.row.status == "rejected" for call in made),
                p95_ms=gov.percentile([call.row.duration_ms for call in made if call.row.duration_ms is not None], 0.95),
            )
            for name, made in _grouped(calls, lambda call: call.row.tool_name).items()
        ]
        return sorted(rows, key=lambda row: (-row.calls, row.tool_name))

    # -- lists --

    async def recent_threads(self, limit: int = 20) -> list[gov.ThreadInfo]:
        return self._thread_rows()[: gov.checked_limit(limit)]

    async def tool_calls_page(self, page: int = 1, page_size: int = 50, where: Where | None = None) -> gov.Page[gov.ToolCallInfo]:
        return _page(self._call_rows(), page, page_size, gov.checked_page("tool_calls", page, page_size, where))

    async def threads_page(self, page: int = 1, page_size: int = 50, where: Where | None = None) -> gov.Page[gov.ThreadInfo]:
        return _page(self._thread_rows(), page, page_size, gov.checked_page("threads", page, page_size, where))

    async def runs_page(self, page: int = 1, page_size: int = 50, where: Where | None = None) -> gov.Page[gov.RunInfo]:
        return _page(self._run_rows(), page, page_size, gov.checked_page("runs", page, page_size, where))

    async def run_detail(self, run_id: str) -> gov.RunDetail | None:
        check_text("The id of a run", run_id, error=InvalidRequest)
        run = next((row for row in self._run_rows() if row.run_id == run_id), None)
        if run is None:
            return None
        used = [one for one in await self._used() if one.row.run_id == run_id]
        return gov.RunDetail(
            run=run,
            tool_calls=[call for call in reversed(self._call_rows()) if call.run_id == run_id],
            children=[row for row in reversed(self._run_rows()) if row.parent_run_id == run_id],
            requests=len(used),
            total_tokens=_tokens(used),
            cost_usd=_cost(used),
        )

    async def thread_detail(self, thread_id: str) -> gov.ThreadDetail | None:
        check_text("The id of a thread", thread_id, error=InvalidRequest)
        thread = next((row for row in self._thread_rows() if row.thread_id == thread_id), None)
        if thread is None:
            return None
        used = [one for one in await self._used() if one.row.thread_id == thread_id]
        return gov.ThreadDetail(
            thread=thread,
            runs=[row for row in reversed(self._run_rows()) if row.thread_id == thread_id],
            tool_calls=[call for call in reversed(self._call_rows()) if call.thread_id == thread_id],
            requests=len(used),
            total_tokens=_tokens(used),
            cost_usd=_cost(used),
        )

    # -- rows --

    async def _used(self, days: gov.DayRange | None = None) -> list[_Used]:
        if days is not None:
            gov.checked_days(days)
        prices = [] if self._pricing is None else await settled(self._pricing.list_current_prices())
        out: list[_Used] = []
        for row in self._store.usage_rows():
            at = _moment(row.at)
            if days is None or days.start <= at < days.end:
                reported = row.cost_usd
                cost = estimate_cost(row.usage, price_of(row.model_id, prices)) if reported is None else reported
                out.append(_Used(row, at, cost or 0.0))
        return out

    def _runs_in(self, days: gov.DayRange) -> list[gov.RunInfo]:
        gov.checked_days(days)
        return [run for run in self._run_rows() if days.start <= run.started_at < days.end]

    def _run_rows(self) -> list[gov.RunInfo]:
        rows = [_run_info(row) for row in self._store.runs()]
        return sorted(rows, key=lambda row: (row.started_at, row.run_id), reverse=True)

    def _call_rows(self) -> list[gov.ToolCallInfo]:
        gone = {thread.id for thread, is_deleted in self._store.threads() if is_deleted}
        rows = [_call_info(call) for call in self._store.stored_calls() if call.row.thread_id not in gone]
        return sorted(rows, key=lambda row: (row.recorded_at, row.tool_call_id), reverse=True)

    def _thread_rows(self) -> list[gov.ThreadInfo]:
        rows = [
            gov.ThreadInfo(
                thread_id=thread.id,
                actor_ref=thread.actor_ref,
                tenant_ref=thread.tenant_ref,
                title=thread.title,
                agent_name=thread.agent_name,
                model=thread.model,
                is_transient=thread.transient,
                created_at=thread.created_at or datetime.min.replace(tzinfo=UTC),
                updated_at=thread.updated_at or datetime.min.replace(tzinfo=UTC),
                messages=self._store.message_count(thread.id),
            )
            for thread, is_deleted in self._store.threads()
            if not is_deleted
        ]
        return sorted(rows, key=lambda row: (row.updated_at, row.thread_id), reverse=True)


def _moment(text: str | None) -> datetime:
    return datetime.fromisoformat(text or "0001-01-01T00:00:00+00:00").astimezone(UTC)


def _run_info(row: RunRow) -> gov.RunInfo:
    return gov.RunInfo(
        run_id=row.run_id,
        thread_id=row.thread_id,
        actor_ref=row.actor_ref,
        agent_name=row.agent_name,
        parent_run_id=row.parent_run_id,
        status=row.status,
        error_code=row.error_code,
        error_message=row.error_message,
        retries=row.retries,
        started_at=_moment(row.started_at),
        ended_at=None if row.ended_at is None else _moment(row.ended_at),
        duration_ms=row.duration_ms,
    )


def _call_info(call: StoredCall) -> gov.ToolCallInfo:
    row = call.row
    return gov.ToolCallInfo(
        tool_call_id=row.id,
        thread_id=row.thread_id,
        run_id=row.run_id,
        tool_name=row.tool_name,
        tool_type=row.tool_type,
        input=row.input,
        status=row.status,
        error=row.error,
        approver=row.approver,
        expires_at=None if row.expires_at is None else _moment(row.expires_at),
        decided_by=row.decided_by,
        decided_via=row.decided_via,
        executed_by=row.executed_by_ref,
        duration_ms=row.duration_ms,
        recorded_at=call.recorded_at,
    )


def _grouped(rows: Iterable[R], key: Callable[[R], Any]) -> dict[Any, list[R]]:
    groups: defaultdict[Any, list[R]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def _tokens(used: Iterable[_Used]) -> int:
    return sum(used_tokens(one.row.usage) for one in used)


def _cost(used: Iterable[_Used]) -> float:
    return math.fsum(one.cost for one in used)


def _endings(runs: Sequence[gov.RunInfo]) -> dict[str, Any]:
    ended = {status: sum(run.status == status for run in runs) for status in ("completed", "failed", "cancelled")}
    return {"runs": len(runs), **ended}


def _success(runs: Sequence[gov.RunInfo]) -> float:
    return sum(run.status == "completed" for run in runs) / len(runs) if runs else 0.0


def _durations(runs: Iterable[gov.RunInfo]) -> list[float]:
    return [run.duration_ms for run in runs if run.duration_ms is not None]


def _page(rows: Sequence[R], page: int, page_size: int, where: Where) -> gov.Page[R]:
    fitting = [row for row in rows if all(getattr(row, name) == value for name, value in where.items())]
    start = (page - 1) * page_size
    return gov.Page(rows=fitting[start : start + page_size], total=len(fitting), page=page, page_size=page_size)
