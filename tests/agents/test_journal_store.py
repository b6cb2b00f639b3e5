"""The store of threads in the file: the contract of every store, live and read anew at each call, and what SQL makes of it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from loomnb.agents import Actor, ChatMessage, DayRange, InMemoryGovernance, JournalAgentStore, SqlGovernance
from loomnb.agents.journal_batch import collecting
from loomnb.agents.journal_pricing import JournalPricing
from loomnb.agents.memory_store import InMemoryAgentStore
from loomnb.agents.pricing import InMemoryPricingStore
from loomnb.agents.spi import ModelPrice, ToolCallRow, UsageRow
from loomnb.errors import LoomError, OwnershipLost, WorldFailed
from loomnb.ids import Source
from loomnb.store import Database
from loomnb.testing import StillSource
from tests.agents.test_governance import PRICES, much, near
from tests.blueprints.recovering import Disk

pytest.register_assert_rewrite("loomnb.testing.agent_store_contract", "loomnb.testing.agent_store_rows")

from loomnb.testing.agent_store_contract import AgentStoreContract  # noqa: E402  # after its asserts are to be explained

ANN = Actor(id="ann")


class TestJournalAgentStore(AgentStoreContract):
    def make_store(self, source: StillSource) -> JournalAgentStore:
        return JournalAgentStore(Database(":memory:", source), source)

    def close_store(self, store: Any) -> None:
        store._database.close()


class _Anew:
    """A store that is read anew from its file at each call: nothing is answered from memory but which run a thread streams,
    which is never stored."""

    def __init__(self, source: Source) -> None:
        self.database, self.source = Database(":memory:", source), source
        self._streams: dict[str, str | None] = {}

    def __getattr__(self, name: str) -> Any:
        store = JournalAgentStore(self.database, self.source)
        for thread_id, run_id in self._streams.items():
            stored = store._threads[thread_id]
            stored.thread = replace(stored.thread, active_stream=run_id)
        method = getattr(store, name)

        async def called(*args: Any, **kwargs: Any) -> Any:
            result = await method(*args, **kwargs)
            self._streams = {one.thread.id: one.thread.active_stream for one in store._threads.values()}
            return result

        return called if inspect.iscoroutinefunction(method) else method


class TestJournalAgentStoreReadAnew(AgentStoreContract):
    def make_store(self, source: StillSource) -> Any:
        return _Anew(source)

    def close_store(self, store: Any) -> None:
        store.database.close()


def test_governance_over_the_views_answers_every_question_as_memory_does() -> None:
    days = DayRange(date(2026, 1, 2), date(2026, 1, 7))
    questions: list[tuple[str, tuple[Any, ...]]] = [
        *((name, (days,)) for name in ("spend_by_model", "spend_by_actor", "usage_trend", "run_metrics", "runs_by_agent")),
        *((name, (days,)) for name in ("run_errors", "run_trend", "tool_stats")),
        ("spend_by_thread", (days, 7)),
        *((name, (50,)) for name in ("recent_tool_calls", "recent_threads", "recent_runs", "pending_approvals")),
        ("tool_calls_page", (2, 9, {"status": "failed"})),
        ("threads_page", (1, 5, {"agent_name": None})),
        ("runs_page", (2, 7, {"actor_ref": "ann", "status": "completed"})),
        ("run_detail", ("r2",)),
        ("thread_detail", ("t4",)),
        ("thread_detail", ("t3",)),
    ]

    async def answers(ask: Any) -> list[Any]:
        return [near(await getattr(ask, name)(*args)) for name, args in questions]

    async def story() -> None:
        memory_source, source = StillSource(), StillSource()
        memory, database = InMemoryAgentStore(source=memory_source), Database(":memory:", source)
        store, pricing = JournalAgentStore(database, source), JournalPricing(database)
        await much(memory, memory_source)
        await much(store, source)
        for price in PRICES:
            await pricing.upsert_model_price(price)
        expected = await answers(InMemoryGovernance(memory, InMemoryPricingStore(PRICES)))
        found = await answers(SqlGovernance(database.read))
        through_the_store = await answers(InMemoryGovernance(JournalAgentStore(database, source), pricing))
        database.close()

        assert dict(enumerate(found)) == dict(enumerate(expected))
        assert dict(enumerate(through_the_store)) == dict(enumerate(expected))

    asyncio.run(story())


def test_a_thread_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    async def story() -> None:
        source = StillSource()
        database = Database(str(tmp_path / "s.duckdb"), source)
        store = JournalAgentStore(database, source)
        await store.create_thread(actor=ANN, id="t")
        kept = await store.append_message("t", ChatMessage(role="user", content="kept \0 é"))
        gone = await store.append_message("t", ChatMessage(role="user", content="gone"))
        await store.truncate_from("t", gone)
        await store.set_message_feedback(kept, "up")
        before = await store.get_thread("t")
        database.close()
        database = Database(str(tmp_path / "s.duckdb"), source)
        after = await JournalAgentStore(database, source).get_thread("t")
        database.close()

        assert after == before
        assert after is not None
        assert [(m.content, m.feedback) for m in after.messages] == [("kept \0 é", "up")]

    asyncio.run(story())


def test_what_a_cell_does_is_stored_whole_or_not_at_all() -> None:
    source, disk = StillSource(), Disk()
    database = disk(":memory:", source)
    store = JournalAgentStore(database, source)
    store.now(store.create_thread(actor=ANN, id="t"))

    async def two() -> None:
        await store.append_message("t", ChatMessage(role="user", content="one"))
        await store.set_title("t", "Two")

    disk.fails = lambda rows: True
    with pytest.raises(WorldFailed):
        store.now(two())
    disk.fails = lambda rows: False

    thread = asyncio.run(store.get_thread("t"))
    assert thread is not None
    assert (thread.title, list(thread.messages)) == ("New chat", [])
    database.close()


def test_a_refusal_in_the_middle_of_what_a_cell_does_leaves_nothing() -> None:
    source = StillSource()
    database = Database(":memory:", source)
    store = JournalAgentStore(database, source)
    store.now(store.create_thread(actor=ANN, id="t"))

    async def two() -> None:
        await store.append_message("t", ChatMessage(role="user", content="one"))
        await store.set_message_feedback("nobody", "up")

    with pytest.raises(LoomError, match="nobody"):
        store.now(two())

    assert store.messages("t") == ()
    assert database.read("select count(*) from messages") == [(0,)]
    database.close()


def test_what_was_stopped_writes_nothing_not_even_in_memory() -> None:
    source = StillSource()
    database = Database(":memory:", source)
    store = JournalAgentStore(database, source)
    store.now(store.create_thread(actor=ANN, id="t"))

    def stopped() -> None:
        raise OwnershipLost("over")

    writes = [
        lambda: store.append_message("t", ChatMessage(role="user", content="late")),
        lambda: store.record_tool_call(ToolCallRow(id="c", thread_id="t", tool_name="look")),
        lambda: store.set_title("t", "late"),
        lambda: store.record_run_start(run_id="r", thread_id="t", actor_ref="ann"),
        lambda: store.record_usage(UsageRow(thread_id="t", actor_ref="ann", model_id="m", usage={})),
        lambda: store.create_thread(actor=ANN, id="late"),
        lambda: store.soft_delete_thread("t"),
    ]
    for write in writes:
        with collecting(stopped) as rows, pytest.raises(OwnershipLost):
            asyncio.run(write())
        assert rows == []

    thread = asyncio.run(store.get_thread("t"))
    assert thread is not None
    assert (thread.title, list(thread.messages), store.tool_calls(), store.runs()) == ("New chat", [], (), ())
    database.close()


def test_what_is_left_behind_in_a_checkpoints_context_writes_for_itself() -> None:
    source = StillSource()
    database = Database(":memory:", source)
    store = JournalAgentStore(database, source)
    store.now(store.create_thread(actor=ANN, id="t"))
    with collecting() as rows:
        context = contextvars.copy_context()
    context.run(asyncio.run, store.append_message("t", ChatMessage(role="user", content="late")))

    assert rows == []
    assert database.read("select content from messages") == [("late",)]
    database.close()


def test_cells_and_runs_use_it_at_once() -> None:
    source = StillSource()
    database = Database(":memory:", source)
    store = JournalAgentStore(database, source)
    problems: list[Exception] = []
    start = threading.Barrier(5)

    def writer(thread_id: str) -> None:
        try:
            start.wait()
            store.now(store.create_thread(actor=ANN, id=thread_id))
            for number in range(30):
                store.now(store.append_message(thread_id, ChatMessage(role="user", content=str(number))))
                row = ToolCallRow(id=f"{thread_id}-{number}", thread_id=thread_id, tool_name="look", run_id="r")
                store.now(store.record_tool_call(row))
        except Exception as exc:  # noqa: BLE001  # looked at by the test
            problems.append(exc)

    def reader() -> None:
        try:
            start.wait()
            for _ in range(60):
                store.tool_calls()
                store.messages("t0")
                asyncio.run(store.list_threads(ANN))
        except Exception as exc:  # noqa: BLE001  # looked at by the test
            problems.append(exc)

    threads = [threading.Thread(target=writer, args=(f"t{n}",)) for n in range(4)] + [threading.Thread(target=reader)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert problems == []
    assert [[m.content for m in store.messages(f"t{n}")] for n in range(4)] == [[str(n) for n in range(30)]] * 4
    assert database.read("select count(*) from tool_calls") == [(120,)]
    database.close()


def test_a_thread_that_is_asked_for_by_two_at_once_is_read_whole_for_both() -> None:
    source = StillSource()
    database = Database(":memory:", source)
    writing = JournalAgentStore(database, source)
    writing.now(writing.create_thread(actor=ANN, id="t"))
    for _ in range(20):
        store, found = JournalAgentStore(database, source), list[Any]()
        start = threading.Barrier(4)

        def look(store: JournalAgentStore = store, found: list[Any] = found, start: threading.Barrier = start) -> None:
            start.wait()
            found.append(asyncio.run(store.get_thread("t")))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert [one is not None for one in found] == [True] * 4
    database.close()


def test_new_messages_and_calls_are_not_looked_for_in_the_file() -> None:
    source = StillSource()
    database = Database(":memory:", source)
    store = JournalAgentStore(database, source)
    thread = store.now(store.create_thread(actor=ANN))
    asked: list[str] = []
    read = database.read
    database.read = lambda sql, params=(): asked.append(sql) or read(sql, params)  # type: ignore[method-assign,func-returns-value]

    async def turn() -> None:
        message = await store.append_message(thread.id, ChatMessage(role="assistant", content="x"))
        await store.record_run_start(run_id="r", thread_id=thread.id, actor_ref="ann")
        await store.record_tool_call(ToolCallRow(id="c", thread_id=thread.id, tool_name="look", run_id="r"))
        await store.update_tool_call("c", {"status": "executed"})
        await store.set_message_tool_results(message, [{"id": "c", "name": "look", "output": 1}])
        await store.load_thread_for_turn(thread.id)
        await store.remembered_approvals(thread.id)
        await store.record_run_end("r", status="completed")

    store.now(turn())

    assert asked == []
    database.close()


def test_prices_are_kept_and_the_last_one_counts() -> None:
    source = StillSource()
    database = Database(":memory:", source)
    pricing = JournalPricing(database)
    for price in (1.0, 2.0):
        asyncio.run(pricing.upsert_model_price(ModelPrice(model_id="m", input_price_per_1m=price, output_price_per_1m=3.0)))

    assert asyncio.run(pricing.list_current_prices()) == [
        ModelPrice(model_id="m", input_price_per_1m=2.0, output_price_per_1m=3.0)
    ]
    database.close()


def test_a_thread_of_a_thousand_messages_is_read_in_one_query() -> None:
    source = StillSource()
    database = Database(":memory:", source)
    store = JournalAgentStore(database, source)

    async def talk() -> None:
        await store.create_thread(actor=ANN, id="t")
        for number in range(1000):
            await store.append_message("t", ChatMessage(role="user", content=f"message {number} " + "word " * 40))

    store.now(talk())
    asked: list[str] = []
    read = database.read
    database.read = lambda sql, params=(): asked.append(sql) or read(sql, params)  # type: ignore[method-assign,func-returns-value]
    began = time.perf_counter()
    thread = asyncio.run(JournalAgentStore(database, source).load_thread_for_turn("t"))
    print(f"figure: 1,000 messages read in {(time.perf_counter() - began) * 1000:.0f} ms")

    assert thread is not None
    assert (len(thread.messages), len(asked)) == (1000, 1)
    database.close()
