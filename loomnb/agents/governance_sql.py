# ruff: noqa: S608  # what is put into these statements is the text of other statements here, and names from fixed lists
"""The same questions as SQL, over the tables of a store's file; see `AgentGovernanceQueries` for what each means.

It reads `threads`, `messages`, `tool_calls`, `model_usage`, `agent_runs` and `model_prices`. Instants are read as microseconds
since 1970, so that neither the connection's time zone nor a library for time zones has a say in what a day is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import loomnb.agents.governance_rows as gov  # not through the door of its own room
from loomnb.agents.spi import MaybeAwaitable, settled
from loomnb.agents.words import check_text
from loomnb.errors import InvalidRequest
from loomnb.jsonvalue import Json, loads

__all__ = ["Read", "SqlGovernance"]

R = TypeVar("R")
Where = Mapping[str, Json]
Read = Callable[[str, Sequence[Any]], MaybeAwaitable[Sequence[tuple[Any, ...]]]]
"""Runs a query of DuckDB: its text, and what stands for the question marks in it; sync or async."""

_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _us(column: str) -> str:
    return f"epoch_us({column}::timestamptz)"


# Reported wins; else estimated as `estimate_cost` does; else nothing.
_USED = f"""
    select u.run_id, u.thread_id, u.actor_ref, u.model_id, {_us('u."at"')} as at_us,
        coalesce(u.input_tokens, 0) as tokens_in, coalesce(u.output_tokens, 0) as tokens_out,
        coalesce(u.cost_usd::double, (
            (u.input_tokens - coalesce(u.cache_write_tokens, 0) - coalesce(u.cache_read_tokens, 0)) * p.input_price_per_1m::double
            + coalesce(u.cache_write_tokens, 0) * coalesce(p.cache_write_price_per_1m, p.input_price_per_1m)::double
            + coalesce(u.cache_read_tokens, 0) * coalesce(p.cache_read_price_per_1m, p.input_price_per_1m)::double
            + u.output_tokens * p.output_price_per_1m::double
        ) / 1000000, 0) as cost
    from model_usage u left join model_prices p using (model_id)
"""

_SUMS = "count(*), sum(tokens_in)::bigint, sum(tokens_out)::bigint, fsum(cost)"
_TOTALS = "count(*), coalesce(sum(tokens_in + tokens_out), 0)::bigint, coalesce(fsum(cost), 0)"
_IN_DAYS = "at_us >= ? and at_us < ?"

_RUNS = f"""
    select run_id, thread_id, actor_ref, agent_name, parent_run_id, status, error_code, error_message,
        coalesce(retries, 0) as retries, {_us("started_at")} as started_us, {_us("ended_at")} as ended_us,
        duration_ms::double as duration_ms
    from agent_runs
"""

_ENDINGS = """count(*), count(*) filter (status = 'completed'), count(*) filter (status = 'failed'),
    count(*) filter (status = 'cancelled')"""
_SUCCESS = "coalesce(count(*) filter (status = 'completed') / nullif(count(*), 0), 0)::double"
_P95 = "quantile_cont(duration_ms::double, 0.95)"

_THREADS = f"""
    select thread_id, actor_ref, tenant_ref, title, agent_name, model, is_transient, {_us("created_at")} as created_us,
        {_us("updated_at")} as updated_us, messages
    from threads where not is_deleted
"""

_CALLS = f"""
    select tool_call_id, thread_id, run_id, tool_name, tool_type, input, status, error, approver,
        {_us("expires_at")} as expires_us, decided_by, decided_via, executed_by, duration_ms::double as duration_ms,
        {_us("recorded_at")} as recorded_us
    from tool_calls where thread_id not in (select thread_id from threads where is_deleted)
"""


class SqlGovernance:
    """`AgentGovernanceQueries` over a file of DuckDB.

    Args:
        read: runs a query; what it raises is raised.
    """

    def __init__(self, read: Read) -> None:
        self._read = read

    # -- spend --

    async def spend_by_model(self, days: gov.DayRange) -> list[gov.ModelSpend]:
        sql = f"select model_id, {_SUMS} from ({_USED}) where {_IN_DAYS} group by all order by fsum(cost) desc, model_id"
        return [
            gov.ModelSpend(model_id=model_id, requests=count, input_tokens=ins, output_tokens=outs, cost_usd=cost)
            for model_id, count, ins, outs, cost in await self._rows(sql, *_bounds(days))
        ]

    async def spend_by_actor(self, days: gov.DayRange) -> list[gov.ActorSpend]:
        sql = f"""select actor_ref, {_TOTALS}, count(distinct thread_id) from ({_USED}) where {_IN_DAYS} group by actor_ref
            order by fsum(cost) desc, actor_ref"""
        return [
            gov.ActorSpend(actor_ref=actor_ref, requests=count, total_tokens=tokens, cost_usd=cost, threads=threads)
            for actor_ref, count, tokens, cost, threads in await self._rows(sql, *_bounds(days))
        ]

    async def spend_by_thread(self, days: gov.DayRange, limit: int = 20) -> list[gov.ThreadSpend]:
        gov.checked_limit(limit)
        sql = f"""with spent as (select thread_id, {_TOTALS} from ({_USED}) where {_IN_DAYS} group by thread_id
                order by fsum(cost) desc, thread_id limit ?)
            select spent.*, title from spent left join (select thread_id, title from threads where not is_deleted)
                using (thread_id) order by 4 desc, 1"""
        return [
            gov.ThreadSpend(thread_id=thread_id, title=title, requests=count, total_tokens=tokens, cost_usd=cost)
            for thread_id, count, tokens, cost, title in await self._rows(sql, *_bounds(days), limit)
        ]

    async def usage_trend(self, days: gov.DayRange) -> list[gov.UsageDay]:
        sql = f"select at_us // {_DAY_US} as day, {_SUMS} from ({_USED}) where {_IN_DAYS} group by all order by day"
        return [
            gov.UsageDay(day=_day(day), requests=count, input_tokens=ins, output_tokens=outs, cost_usd=cost)
            for day, count, ins, outs, cost in await self._rows(sql, *_bounds(days))
        ]

    # -- runs --

    async def recent_runs(self, limit: int = 20) -> list[gov.RunInfo]:
        sql = f"{_RUNS} order by started_us desc, run_id desc limit ?"
        return [_run_info(row) for row in await self._rows(sql, gov.checked_limit(limit))]

    async def run_metrics(self, days: gov.DayRange) -> gov.RunMetrics:
        sql = f"""select {_ENDINGS}, {_SUCCESS}, coalesce(sum(retries), 0)::bigint, quantile_cont(duration_ms, 0.5), {_P95}
            from ({_RUNS}) where started_us >= ? and started_us < ?"""
        ((runs, completed, failed, cancelled, success, retries, p50, p95),) = await self._rows(sql, *_bounds(days))
        return gov.RunMetrics(
            runs=runs,
            completed=completed,
            failed=failed,
            cancelled=cancelled,
            success_rate=success,
            retries=retries,
            p50_ms=p50,
            p95_ms=p95,
        )

    async def runs_by_agent(self, days: gov.DayRange) -> list[gov.AgentRunStats]:
        sql = f"""select coalesce(nullif(agent_name, ''), ?) as agent, {_ENDINGS}, {_SUCCESS}, {_P95} from ({_RUNS})
            where started_us >= ? and started_us < ? group by agent order by count(*) desc, agent"""
        return [
            gov.AgentRunStats(
                agent_name=agent,
                runs=runs,
                completed=completed,
                failed=failed,
                cancelled=cancelled,
                success_rate=success,
                p95_ms=p95,
            )
            for agent, runs, completed, failed, cancelled, success, p95 in await self._rows(
                sql, gov.DEFAULT_AGENT, *_bounds(days)
            )
        ]

    async def run_errors(self, days: gov.DayRange) -> list[gov.RunErrorCount]:
        sql = f"""select coalesce(nullif(error_code, ''), ?) as code, count(*),
                arg_max(coalesce(error_message, ''), (started_us, run_id)), max(started_us)
            from ({_RUNS}) where status = 'failed' and started_us >= ? and started_us < ? group by code
            order by count(*) desc, code"""
        return [
            gov.RunErrorCount(error_code=code, runs=runs, last_message=message, last_at=_moment(at))
            for code, runs, message, at in await self._rows(sql, gov.UNKNOWN_ERROR, *_bounds(days))
        ]

    async def run_trend(self, days: gov.DayRange) -> list[gov.RunDay]:
        sql = f"""select started_us // {_DAY_US} as day, {_ENDINGS} from ({_RUNS})
            where started_us >= ? and started_us < ? group by day order by day"""
        return [
            gov.RunDay(day=_day(day), runs=runs, completed=completed, failed=failed, cancelled=cancelled)
            for day, runs, completed, failed, cancelled in await self._rows(sql, *_bounds(days))
        ]

    # -- tool calls --

    async def recent_tool_calls(self, limit: int = 20) -> list[gov.ToolCallInfo]:
        sql = f"{_CALLS} order by recorded_us desc, tool_call_id desc limit ?"
        return [_call_info(row) for row in await self._rows(sql, gov.checked_limit(limit))]

    async def pending_approvals(self, limit: int = 20) -> list[gov.ToolCallInfo]:
        sql = f"{_CALLS} and status = 'pending_approval' order by recorded_us, tool_call_id limit ?"
        return [_call_info(row) for row in await self._rows(sql, gov.checked_limit(limit))]

    async def tool_stats(self, days: gov.DayRange) -> list[gov.ToolStats]:
        recorded = _us("recorded_at")
        sql = f"""select tool_name, count(*), count(*) filter (status = 'failed'), count(*) filter (status = 'rejected'), {_P95}
            from tool_calls where {recorded} >= ? and {recorded} < ? group by tool_name order by count(*) desc, tool_name"""
        return [
            gov.ToolStats(tool_name=name, calls=calls, failed=failed, rejected=rejected, p95_ms=p95)
            for name, calls, failed, rejected, p95 in await self._rows(sql, *_bounds(days))
        ]

    # -- lists --

    async def recent_threads(self, limit: int = 20) -> list[gov.ThreadInfo]:
        sql = f"{_THREADS} order by updated_us desc, thread_id desc limit ?"
        return [_thread_info(row) for row in await self._rows(sql, gov.checked_limit(limit))]

    async def tool_calls_page(self, page: int = 1, page_size: int = 50, where: Where | None = None) -> gov.Page[gov.ToolCallInfo]:
        fits = gov.checked_page("tool_calls", page, page_size, where)
        return await self._page(_CALLS, "recorded_us desc, tool_call_id desc", _call_info, page=page, size=page_size, fits=fits)

    async def threads_page(self, page: int = 1, page_size: int = 50, where: Where | None = None) -> gov.Page[gov.ThreadInfo]:
        fits = gov.checked_page("threads", page, page_size, where)
        return await self._page(_THREADS, "updated_us desc, thread_id desc", _thread_info, page=page, size=page_size, fits=fits)

    async def runs_page(self, page: int = 1, page_size: int = 50, where: Where | None = None) -> gov.Page[gov.RunInfo]:
        fits = gov.checked_page("runs", page, page_size, where)
        return await self._page(_RUNS, "started_us desc, run_id desc", _run_info, page=page, size=page_size, fits=fits)

    async def run_detail(self, run_id: str) -> gov.RunDetail | None:
        check_text("The id of a run", run_id, error=InvalidRequest)
        found = await self._rows(f"select * from ({_RUNS}) where run_id = ?", run_id)
        if not found:
            return None
        calls = f"select * from ({_CALLS}) where run_id = ? order by recorded_us, tool_call_id"
        children = f"select * from ({_RUNS}) where parent_run_id = ? order by started_us, run_id"
        ((requests, tokens, cost),) = await self._rows(f"select {_TOTALS} from ({_USED}) where run_id = ?", run_id)
        return gov.RunDetail(
            run=_run_info(found[0]),
            tool_calls=[_call_info(row) for row in await self._rows(calls, run_id)],
            children=[_run_info(row) for row in await self._rows(children, run_id)],
            requests=requests,
            total_tokens=tokens,
            cost_usd=cost,
        )

    async def thread_detail(self, thread_id: str) -> gov.ThreadDetail | None:
        check_text("The id of a thread", thread_id, error=InvalidRequest)
        found = await self._rows(f"select * from ({_THREADS}) where thread_id = ?", thread_id)
        if not found:
            return None
        runs = f"select * from ({_RUNS}) where thread_id = ? order by started_us, run_id"
        calls = f"select * from ({_CALLS}) where thread_id = ? order by recorded_us, tool_call_id"
        ((requests, tokens, cost),) = await self._rows(f"select {_TOTALS} from ({_USED}) where thread_id = ?", thread_id)
        return gov.ThreadDetail(
            thread=_thread_info(found[0]),
            runs=[_run_info(row) for row in await self._rows(runs, thread_id)],
            tool_calls=[_call_info(row) for row in await self._rows(calls, thread_id)],
            requests=requests,
            total_tokens=tokens,
            cost_usd=cost,
        )

    # -- within --

    async def _rows(self, sql: str, *params: Any) -> Sequence[tuple[Any, ...]]:
        return await settled(self._read(sql, params))

    async def _page(
        self, source: str, order: str, row_of: Callable[[tuple[Any, ...]], R], *, page: int, size: int, fits: Where
    ) -> gov.Page[R]:
        # Names come from the fixed lists of FILTERS. `is not distinct from`: None is looked for as a value.
        narrow = " and ".join([f"{name} is not distinct from ?" for name in fits] or ["true"])
        values = list(fits.values())
        ((total,),) = await self._rows(f"select count(*) from ({source}) where {narrow}", *values)
        sql = f"select * from ({source}) where {narrow} order by {order} limit ? offset ?"
        rows = await self._rows(sql, *values, size, (page - 1) * size)
        return gov.Page(rows=[row_of(row) for row in rows], total=total, page=page, page_size=size)


def _bounds(days: gov.DayRange) -> tuple[int, int]:
    gov.checked_days(days)
    return (days.start - _EPOCH) // timedelta(microseconds=1), (days.end - _EPOCH) // timedelta(microseconds=1)


def _day(number: int) -> date:
    return (_EPOCH + timedelta(days=number)).date()


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _maybe(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _moment(microseconds)


def _run_info(row: tuple[Any, ...]) -> gov.RunInfo:
    run_id, thread_id, actor_ref, agent, parent, status, code, message, retries, started, ended, duration = row
    return gov.RunInfo(
        run_id=run_id,
        thread_id=thread_id,
        actor_ref=actor_ref,
        agent_name=agent,
        parent_run_id=parent,
        status=status,
        error_code=code,
        error_message=message,
        retries=retries,
        started_at=_moment(started),
        ended_at=_maybe(ended),
        duration_ms=duration,
    )


def _thread_info(row: tuple[Any, ...]) -> gov.ThreadInfo:
    thread_id, actor_ref, tenant_ref, title, agent, model, transient, created, updated, messages = row
    return gov.ThreadInfo(
        thread_id=thread_id,
        actor_ref=actor_ref,
        tenant_ref=tenant_ref,
        title=title,
        agent_name=agent,
        model=model,
        is_transient=transient,
        created_at=_moment(created),
        updated_at=_moment(updated),
        messages=messages,
    )


def _call_info(row: tuple[Any, ...]) -> gov.ToolCallInfo:
    call_id, thread_id, run_id, name, kind, given, status, error, approver, expires, by, via, executed, took, recorded = row
    return gov.ToolCallInfo(
        tool_call_id=call_id,
        thread_id=thread_id,
        run_id=run_id,
        tool_name=name,
        tool_type=kind,
        input=loads(given) if isinstance(given, str) else given,
        status=status,
        error=error,
        approver=approver,
        expires_at=_maybe(expires),
        decided_by=by,
        decided_via=via,
        executed_by=executed,
        duration_ms=took,
        recorded_at=_moment(recorded),
    )
