"""What those who are responsible for agents may ask: answers in memory, and the same ones from SQL."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import astuple, is_dataclass
from datetime import UTC, date, datetime
from typing import Any

import duckdb
import pytest

from loomnb.agents.governance import AgentGovernanceQueries, InMemoryGovernance
from loomnb.agents.governance_rows import DayRange
from loomnb.agents.governance_sql import SqlGovernance
from loomnb.agents.memory_store import InMemoryAgentStore
from loomnb.agents.pricing import InMemoryPricingStore
from loomnb.agents.spi import Actor, ChatMessage, ModelPrice, ToolCallRow, UsageRow
from loomnb.errors import InvalidRequest
from loomnb.testing import StillSource

DAYS = DayRange(date(2026, 1, 2), date(2026, 1, 4))
PRICES = [
    ModelPrice(model_id="big", input_price_per_1m=3.0, output_price_per_1m=15.0, cache_read_price_per_1m=0.3),
    ModelPrice(model_id="small", input_price_per_1m=1.0, output_price_per_1m=2.0),
]

SCHEMA = """
create table agent_runs(run_id varchar, thread_id varchar, actor_ref varchar, agent_name varchar, parent_run_id varchar,
    status varchar, error_code varchar, error_message varchar, retries integer, started_at timestamptz, ended_at timestamptz,
    duration_ms double);
create table threads(thread_id varchar, actor_ref varchar, tenant_ref varchar, title varchar, agent_name varchar, model varchar,
    is_transient boolean, is_deleted boolean, created_at timestamptz, updated_at timestamptz, messages bigint);
create table tool_calls(tool_call_id varchar, thread_id varchar, message_id varchar, run_id varchar, tool_name varchar,
    tool_type varchar, input json, output json, status varchar, error varchar, approver varchar, expires_at timestamptz,
    decided_by varchar, decided_via varchar, remember boolean, executed_by varchar, duration_ms double,
    recorded_at timestamptz, updated_at timestamptz);
create table model_usage(run_id varchar, thread_id varchar, actor_ref varchar, model_id varchar, purpose varchar,
    input_tokens bigint, output_tokens bigint, cache_read_tokens bigint, cache_write_tokens bigint, reasoning_tokens bigint,
    cost_usd double, "at" timestamptz);
create table model_prices(model_id varchar, input_price_per_1m double, output_price_per_1m double,
    cache_write_price_per_1m double, cache_read_price_per_1m double);
"""


def in_a_file(store: InMemoryAgentStore, prices: Sequence[ModelPrice] = PRICES) -> SqlGovernance:
    """The same rows, in tables of the shape of a store's file."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'Asia/Tokyo'")
    connection.execute(SCHEMA)

    def put(table: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            connection.executemany(f"insert into {table} values ({', '.join('?' * len(rows[0]))})", rows)

    put("agent_runs", [
        (r.run_id, r.thread_id, r.actor_ref, r.agent_name, r.parent_run_id, r.status, r.error_code, r.error_message, r.retries,
         r.started_at, r.ended_at, r.duration_ms)
        for r in store.runs()
    ])  # fmt: skip
    put("threads", [
        (t.id, t.actor_ref, t.tenant_ref, t.title, t.agent_name, t.model, t.transient, gone, t.created_at, t.updated_at,
         store.message_count(t.id))
        for t, gone in store.threads()
    ])  # fmt: skip
    put("tool_calls", [
        (c.row.id, c.row.thread_id, c.row.message_id, c.row.run_id, c.row.tool_name, c.row.tool_type, json.dumps(c.row.input),
         json.dumps(c.row.output), c.row.status, c.row.error, c.row.approver, c.row.expires_at, c.row.decided_by,
         c.row.decided_via, c.row.remember, c.row.executed_by_ref, c.row.duration_ms, c.recorded_at, c.updated_at)
        for c in store.stored_calls()
    ])  # fmt: skip
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
    put("model_usage", [
        (u.run_id, u.thread_id, u.actor_ref, u.model_id, u.purpose, *(u.usage.get(name) for name in names), u.cost_usd, u.at)
        for u in store.usage_rows()
    ])  # fmt: skip
    put("model_prices", [astuple(price) for price in prices])

    def read(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        return connection.execute(sql, list(params)).fetchall()

    return SqlGovernance(read)


def in_memory(store: InMemoryAgentStore, prices: Sequence[ModelPrice] = PRICES) -> InMemoryGovernance:
    return InMemoryGovernance(store, InMemoryPricingStore(prices))


BOTH = pytest.mark.parametrize("made", [in_memory, in_a_file], ids=["memory", "sql"])


def at(day: int, hour: int = 12, minute: int = 0) -> str:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC).isoformat()


async def some_use(store: InMemoryAgentStore) -> None:
    for thread_id, actor in (("t1", "ann"), ("t2", "ann"), ("t3", "ben")):
        await store.create_thread(actor=Actor(id=actor), id=thread_id, title=f"About {thread_id}")
    rows: list[tuple[str, str, str, dict[str, int], float | None, str]] = [
        ("t1", "ann", "big", {"inputTokens": 1_000_000, "outputTokens": 100_000, "cacheReadTokens": 500_000}, None, at(2, 0)),
        ("t1", "ann", "big", {"inputTokens": 10, "outputTokens": 10}, 7.0, at(3)),
        ("t2", "ann", "unpriced", {"inputTokens": 100, "outputTokens": 1}, None, at(4, 23, 59)),
        ("t3", "ben", "small", {"inputTokens": 1_000_000}, None, at(4)),
        ("t3", "ben", "small", {"inputTokens": 500_000, "outputTokens": 0}, None, at(4)),
        ("t3", "ben", "small", {"inputTokens": 9, "outputTokens": 9}, 99.0, at(5, 0)),
        ("t3", "ben", "small", {"inputTokens": 9, "outputTokens": 9}, 99.0, at(1, 23, 59)),
    ]
    for thread_id, actor, model, usage, cost, when in rows:
        row = UsageRow(thread_id=thread_id, actor_ref=actor, model_id=model, usage=usage, cost_usd=cost, at=when, run_id="r")
        await store.record_usage(row)


def near(rows: Any) -> Any:
    """Rows with their floats rounded: sums may differ in the last digit."""
    if isinstance(rows, float):
        return round(rows, 9)
    if is_dataclass(rows) and not isinstance(rows, type):
        return (type(rows).__name__, *(near(getattr(rows, name)) for name in rows.__dataclass_fields__))
    return [near(one) for one in rows] if isinstance(rows, (list, tuple)) else rows


@BOTH
def test_spend_is_reported_else_estimated_else_nothing_and_the_highest_comes_first(made: Any) -> None:
    async def story() -> None:
        store = InMemoryAgentStore(source=StillSource())
        await some_use(store)
        ask: AgentGovernanceQueries = made(store)
        models, actors = await ask.spend_by_model(DAYS), await ask.spend_by_actor(DAYS)
        threads = await ask.spend_by_thread(DAYS, limit=2)

        assert [(row.model_id, row.requests, round(row.cost_usd, 6)) for row in models] == [
            ("big", 2, 10.15),
            ("small", 2, 0.5),
            ("unpriced", 1, 0.0),
        ]
        assert [(row.actor_ref, row.total_tokens, row.threads) for row in actors] == [
            ("ann", 1_100_121, 2),
            ("ben", 1_500_000, 1),
        ]
        assert [(row.thread_id, row.title, row.requests) for row in threads] == [("t1", "About t1", 2), ("t3", "About t3", 2)]

    asyncio.run(story())


@BOTH
def test_a_day_is_one_of_utc_with_both_its_ends(made: Any) -> None:
    async def story() -> None:
        store = InMemoryAgentStore(source=StillSource())
        await some_use(store)
        trend = await made(store).usage_trend(DAYS)

        assert [(row.day, row.requests, row.output_tokens) for row in trend] == [
            (date(2026, 1, 2), 1, 100_000),
            (date(2026, 1, 3), 1, 10),
            (date(2026, 1, 4), 3, 1),
        ]

    asyncio.run(story())


async def some_runs(store: InMemoryAgentStore, source: StillSource) -> None:
    await store.create_thread(actor=Actor(id="ann"), id="t")
    ends: list[tuple[str, str | None, str | None, float]] = [
        ("completed", "writer", None, 100),
        ("completed", None, None, 200),
        ("failed", "writer", "run_failed", 300),
        ("failed", "writer", None, 400),
        ("failed", "writer", "run_failed", 500),
        ("cancelled", None, None, 1000),
    ]
    for number, (status, agent, code, took) in enumerate(ends):
        source.advance(60)
        await store.record_run_start(run_id=f"r{number}", thread_id="t", actor_ref="ann", agent_name=agent)
        await store.record_run_end(
            f"r{number}", status=status, error_code=code, error_message=f"no {number}", duration_ms=took  # type: ignore[arg-type]
        )  # fmt: skip
    await store.record_run_start(run_id="open", thread_id="t", actor_ref="ann", parent_run_id="r0")
    await store.bump_run_retries("open")


@BOTH
def test_runs_are_counted_by_how_they_ended(made: Any) -> None:
    async def story() -> None:
        source = StillSource()
        store = InMemoryAgentStore(source=source)
        await some_runs(store, source)
        ask: AgentGovernanceQueries = made(store)
        metrics = await ask.run_metrics(DAYS)

        assert (metrics.runs, metrics.completed, metrics.failed, metrics.cancelled, metrics.retries) == (7, 2, 3, 1, 1)
        assert (metrics.success_rate, metrics.p50_ms, metrics.p95_ms) == (pytest.approx(2 / 7), 350, pytest.approx(875))
        agents = [(row.agent_name, row.runs, row.failed, row.cancelled) for row in await ask.runs_by_agent(DAYS)]
        assert agents == [("writer", 4, 3, 0), ("(default)", 3, 0, 1)]
        errors = [(row.error_code, row.runs, row.last_message) for row in await ask.run_errors(DAYS)]
        assert errors == [("run_failed", 2, "no 4"), ("(unknown)", 1, "no 3")]
        assert [(row.day, row.runs, row.cancelled) for row in await ask.run_trend(DAYS)] == [(date(2026, 1, 2), 7, 1)]
        assert [run.run_id for run in await ask.recent_runs(3)] == ["r5", "open", "r4"]

    asyncio.run(story())


@BOTH
def test_without_data_the_answers_are_empty_or_zeros(made: Any) -> None:
    async def story() -> None:
        ask: AgentGovernanceQueries = made(InMemoryAgentStore(source=StillSource()))
        metrics = await ask.run_metrics(DAYS)
        empty: list[Sequence[Any]] = [
            await ask.spend_by_model(DAYS),
            await ask.spend_by_actor(DAYS),
            await ask.spend_by_thread(DAYS),
            await ask.usage_trend(DAYS),
            await ask.recent_tool_calls(),
            await ask.recent_threads(),
            await ask.recent_runs(),
            await ask.runs_by_agent(DAYS),
            await ask.run_errors(DAYS),
            await ask.run_trend(DAYS),
            await ask.pending_approvals(),
            await ask.tool_stats(DAYS),
            (await ask.runs_page()).rows,
        ]

        assert [list(rows) for rows in empty] == [[]] * len(empty)
        assert astuple(metrics) == (0, 0, 0, 0, 0.0, 0, None, None)
        assert (await ask.run_detail("no"), await ask.thread_detail("no")) == (None, None)

    asyncio.run(story())


async def some_calls(store: InMemoryAgentStore, source: StillSource) -> None:
    for thread_id in ("t", "gone"):
        await store.create_thread(actor=Actor(id="ann"), id=thread_id)
    rows: list[tuple[str, str, str, str, float | None]] = [
        ("c0", "t", "send", "pending_approval", None),
        ("c1", "t", "look", "executed", 10),
        ("c2", "t", "send", "rejected", None),
        ("c3", "t", "look", "failed", 30),
        ("c4", "t", "send", "pending_approval", None),
        ("c5", "gone", "send", "pending_approval", None),
        ("c6", "t", "look", "proposed", None),
    ]
    for id_, thread_id, tool, status, took in rows:
        source.advance(60)
        row = ToolCallRow(
            id=id_,
            thread_id=thread_id,
            run_id="r",
            tool_name=tool,
            status=status,  # type: ignore[arg-type]
            duration_ms=took,
            input={"n": [id_]},
            approver="admin" if status == "pending_approval" else None,
            expires_at=at(9) if id_ == "c0" else None,
        )
        await store.record_tool_call(row)
    await store.soft_delete_thread("gone")


@BOTH
def test_who_waits_longest_for_an_approval_comes_first(made: Any) -> None:
    async def story() -> None:
        source = StillSource()
        store = InMemoryAgentStore(source=source)
        await some_calls(store, source)
        ask: AgentGovernanceQueries = made(store)
        waiting = await ask.pending_approvals()

        assert [(call.tool_call_id, call.approver, call.input) for call in waiting] == [
            ("c0", "admin", {"n": ["c0"]}),
            ("c4", "admin", {"n": ["c4"]}),
        ]
        assert (waiting[0].expires_at, waiting[1].expires_at) == (datetime.fromisoformat(at(9)), None)
        assert [call.tool_call_id for call in await ask.pending_approvals(1)] == ["c0"]
        assert [call.tool_call_id for call in await ask.recent_tool_calls(3)] == ["c6", "c4", "c3"]

    asyncio.run(story())


@BOTH
def test_the_most_called_tool_comes_first(made: Any) -> None:
    async def story() -> None:
        source = StillSource()
        store = InMemoryAgentStore(source=source)
        await some_calls(store, source)
        stats = await made(store).tool_stats(DAYS)

        assert [astuple(row) for row in stats] == [("send", 4, 0, 1, None), ("look", 3, 1, 0, 29.0)]

    asyncio.run(story())


@BOTH
def test_pages_count_from_one_and_can_be_narrowed(made: Any) -> None:
    async def story() -> None:
        source = StillSource()
        store = InMemoryAgentStore(source=source)
        await some_calls(store, source)
        ask: AgentGovernanceQueries = made(store)
        first, second, beyond = [await ask.tool_calls_page(page, 4) for page in (1, 2, 3)]
        looked = await ask.tool_calls_page(where={"tool_name": "look", "approver": None})
        threads = await ask.threads_page(where={"is_transient": False})

        assert [call.tool_call_id for call in first.rows] == ["c6", "c4", "c3", "c2"]
        assert [call.tool_call_id for call in second.rows] == ["c1", "c0"]
        assert (first.total, second.page, second.page_size, list(beyond.rows), beyond.total) == (6, 2, 4, [], 6)
        assert [call.tool_call_id for call in looked.rows] == ["c6", "c3", "c1"]
        assert [thread.thread_id for thread in threads.rows] == ["t"]

    asyncio.run(story())


@BOTH
@pytest.mark.parametrize(
    "wrong",
    [
        {"page": 0},
        {"page_size": 0},
        {"page_size": 1001},
        {"page": True},
        {"where": {"1=1; drop table threads; --": 1}},
    ],
    ids=["page-0", "no-rows", "too-many", "no-number", "no-name"],
)
def test_a_page_that_cannot_be_is_refused(made: Any, wrong: dict[str, Any]) -> None:
    ask = made(InMemoryAgentStore(source=StillSource()))

    for question in (ask.runs_page, ask.threads_page, ask.tool_calls_page):
        with pytest.raises(InvalidRequest):
            asyncio.run(question(**wrong))


@BOTH
def test_a_limit_that_cannot_be_is_refused(made: Any) -> None:
    ask = made(InMemoryAgentStore(source=StillSource()))

    for question in (ask.recent_runs, ask.recent_threads, ask.recent_tool_calls, ask.pending_approvals):
        with pytest.raises(InvalidRequest):
            asyncio.run(question(0))


def test_days_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        DayRange(date(2026, 1, 2), date(2026, 1, 1))


@BOTH
def test_a_run_is_told_with_what_belongs_to_it(made: Any) -> None:
    async def story() -> None:
        source = StillSource()
        store = InMemoryAgentStore(source=source)
        await some_use(store)
        await some_calls(store, source)
        await store.record_run_start(run_id="r", thread_id="t", actor_ref="ann")
        await store.record_run_start(run_id="child", thread_id="t", actor_ref="ann", parent_run_id="r")
        detail = await made(store).run_detail("r")

        assert detail is not None
        assert (detail.run.status, [run.run_id for run in detail.children]) == ("running", ["child"])
        assert [call.tool_call_id for call in detail.tool_calls] == ["c0", "c1", "c2", "c3", "c4", "c6"]
        assert (detail.requests, round(detail.cost_usd, 6)) == (7, 208.65)

    asyncio.run(story())


async def much(store: InMemoryAgentStore, source: StillSource) -> None:
    """A few hundred rows of everything, the same at every run."""
    dice = random.Random(7)
    for number in range(12):
        source.advance(dice.choice([0, 3600, 50_000]))
        await store.create_thread(
            actor=Actor(id=dice.choice(["ann", "ben", "cy"]), tenant_ref=dice.choice([None, "acme"])),
            id=f"t{number}",
            transient=number % 5 == 0,
            agent_name=dice.choice([None, "writer"]),
        )
        for text in range(dice.randrange(4)):
            await store.append_message(f"t{number}", ChatMessage(role="user", content=str(text)))
    for number in range(60):
        source.advance(dice.choice([0, 1.5, 1000, 5000]))
        thread_id = f"t{dice.randrange(12)}"
        await store.record_run_start(
            run_id=f"r{number}",
            thread_id=thread_id,
            actor_ref=dice.choice(["ann", "ben"]),
            agent_name=dice.choice([None, "writer", "reader"]),
            parent_run_id=dice.choice([None, "r1", "r2"]),
        )
        for call in range(dice.randrange(4)):
            await store.record_tool_call(
                ToolCallRow(
                    id=f"c{number}-{call}",
                    thread_id=thread_id,
                    run_id=f"r{number}",
                    tool_name=dice.choice(["look", "send", "drop"]),
                    status=dice.choice(["executed", "failed", "rejected", "pending_approval"]),
                    input=dice.choice([None, {"x": 1}, "text", [1, 2]]),
                    duration_ms=dice.choice([None, 0.5, 12, 700]),
                )
            )
        names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
        usage = {name: dice.randrange(100_000) for name in names if dice.random() < 0.8}
        await store.record_usage(
            UsageRow(
                thread_id=thread_id,
                actor_ref=dice.choice(["ann", "ben"]),
                model_id=dice.choice(["big", "small", "unpriced"]),
                usage=usage,
                cost_usd=dice.choice([None, None, 0.25]),
                run_id=f"r{number}",
            )
        )
        source.advance(dice.choice([0.25, 4]))
        if dice.random() < 0.8:
            status: Any = dice.choice(["completed", "completed", "failed", "cancelled"])
            await store.record_run_end(f"r{number}", status=status, error_code=dice.choice([None, "a", "b"]), error_message="x")
    await store.soft_delete_thread("t3")


def test_sql_answers_every_question_as_memory_does() -> None:
    async def answers(ask: AgentGovernanceQueries) -> dict[str, Any]:
        days = DayRange(date(2026, 1, 2), date(2026, 1, 7))
        return {
            "spend_by_model": await ask.spend_by_model(days),
            "spend_by_actor": await ask.spend_by_actor(days),
            "spend_by_thread": await ask.spend_by_thread(days, 7),
            "usage_trend": await ask.usage_trend(days),
            "recent_tool_calls": await ask.recent_tool_calls(50),
            "recent_threads": await ask.recent_threads(50),
            "recent_runs": await ask.recent_runs(50),
            "run_metrics": await ask.run_metrics(days),
            "runs_by_agent": await ask.runs_by_agent(days),
            "run_errors": await ask.run_errors(days),
            "run_trend": await ask.run_trend(days),
            "pending_approvals": await ask.pending_approvals(50),
            "tool_stats": await ask.tool_stats(days),
            "tool_calls_page": await ask.tool_calls_page(2, 9, {"status": "failed"}),
            "threads_page": await ask.threads_page(1, 5, {"agent_name": None}),
            "runs_page": await ask.runs_page(2, 7, {"actor_ref": "ann", "status": "completed"}),
            "run_detail": await ask.run_detail("r2"),
            "thread_detail": await ask.thread_detail("t4"),
            "deleted": await ask.thread_detail("t3"),
        }

    async def story() -> None:
        source = StillSource()
        store = InMemoryAgentStore(source=source)
        await much(store, source)
        memory, sql = await answers(in_memory(store)), await answers(in_a_file(store))

        assert {name: near(rows) for name, rows in sql.items()} == {name: near(rows) for name, rows in memory.items()}
        assert [name for name, rows in memory.items() if not rows] == ["deleted"]

    asyncio.run(story())
