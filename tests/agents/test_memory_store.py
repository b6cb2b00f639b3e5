"""The store in memory: the contract of every store, its queue, and how a dead run is put to rest."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from loomnb.agents.memory_store import InMemoryAgentStore
from loomnb.agents.settling import settle_dead_run
from loomnb.agents.spi import Actor, AgentStore, ChatMessage, ChatQueueStore, ToolCallRow
from loomnb.errors import Conflict, InvalidRequest, NotJson
from loomnb.ids import SYSTEM
from loomnb.testing import StillSource

pytest.register_assert_rewrite("loomnb.testing.agent_store_contract", "loomnb.testing.agent_store_rows")

from loomnb.testing.agent_store_contract import AgentStoreContract  # noqa: E402  # after its asserts are to be explained

ANN = Actor(id="ann")


class TestInMemoryAgentStore(AgentStoreContract):
    def make_store(self, source: StillSource) -> InMemoryAgentStore:
        return InMemoryAgentStore(source=source)


def test_it_is_an_agent_store_and_its_queue_a_queue_store() -> None:
    store = InMemoryAgentStore()
    as_store: AgentStore = store
    as_queue: ChatQueueStore = store.queue

    assert (as_store, as_queue) == (store, store.queue)
    assert store.source is SYSTEM


def test_a_message_that_is_no_json_is_refused_and_nothing_is_stored() -> None:
    store = InMemoryAgentStore(source=StillSource())
    asyncio.run(store.create_thread(actor=ANN, id="t"))

    with pytest.raises(NotJson):
        asyncio.run(store.append_message("t", ChatMessage(role="user", native=float("nan"))))

    assert store.messages("t") == ()


def test_one_id_of_a_call_in_two_runs_is_two_rows_and_the_latest_is_meant() -> None:
    async def story() -> None:
        store = InMemoryAgentStore(source=StillSource())
        for thread_id in ("t", "u"):
            await store.create_thread(actor=ANN, id=thread_id)
            await store.record_tool_call(
                ToolCallRow(id="call-0", thread_id=thread_id, run_id=f"run-{thread_id}", tool_name="look")
            )
        await store.update_tool_call("call-0", {"status": "executed"})

        assert [(row.thread_id, row.status) for row in store.tool_calls()] == [("t", "auto_executed"), ("u", "executed")]
        assert [row.thread_id for row in store.tool_calls("t")] == ["t"]

    asyncio.run(story())


def test_messages_wait_first_in_first_out_and_can_be_changed_moved_and_taken_out() -> None:
    async def story() -> None:
        queue = InMemoryAgentStore().queue
        for name in ("a", "b", "c"):
            await queue.enqueue("t", {"id": name, "text": name})
        assert await queue.update("t", "b", "better")
        assert await queue.move("t", "c", 0)
        assert await queue.remove("t", "a")

        assert await queue.list("t") == ({"id": "c", "text": "c"}, {"id": "b", "text": "better"})
        assert await queue.list("u") == ()

    asyncio.run(story())


def test_a_message_that_waits_no_more_is_not_changed() -> None:
    async def story() -> list[bool]:
        queue = InMemoryAgentStore().queue
        await queue.enqueue("t", {"id": "a", "text": "a"})
        await queue.clear("t")
        return [await queue.update("t", "a", "x"), await queue.move("t", "a", 0), await queue.remove("t", "a")]

    assert asyncio.run(story()) == [False, False, False]


@pytest.mark.parametrize(
    ("item", "error"), [({"text": "x"}, InvalidRequest), ({"id": "a", "text": "x"}, Conflict)], ids=["no-id", "twice"]
)
def test_a_message_that_cannot_wait_is_refused(item: dict[str, Any], error: type[Exception]) -> None:
    queue = InMemoryAgentStore().queue
    asyncio.run(queue.enqueue("t", {"id": "a", "text": "a"}))

    with pytest.raises(error):
        asyncio.run(queue.enqueue("t", item))

    assert len(asyncio.run(queue.list("t"))) == 1


def test_a_queue_is_paused_for_a_reason_also_when_it_is_empty() -> None:
    async def story() -> list[str | None]:
        queue = InMemoryAgentStore().queue
        said = [await queue.paused("t")]
        await queue.set_paused("t", "run_failed")
        await queue.clear("t")
        said.append(await queue.paused("t"))
        await queue.set_paused("t", None)
        return [*said, await queue.paused("t")]

    assert asyncio.run(story()) == [None, "run_failed", None]


# -- a run that died --


async def with_a_dead_run() -> InMemoryAgentStore:
    store = InMemoryAgentStore(source=StillSource())
    await store.create_thread(actor=ANN, id="t")
    await store.record_run_start(run_id="r1", thread_id="t", actor_ref="ann")
    await store.set_active_stream("t", "r1")
    for id_, run_id in (("mine", "r1"), ("other", "r2")):
        row = ToolCallRow(id=id_, thread_id="t", run_id=run_id, tool_name="act", status="pending_approval", approver="requester")
        await store.record_tool_call(row)
    await store.record_tool_call(
        ToolCallRow(id="done", thread_id="t", run_id="r1", tool_name="look", status="executed", output=1)
    )
    return store


def statuses(store: InMemoryAgentStore) -> dict[str, str]:
    return {row.id: row.status for row in store.tool_calls()}


@pytest.mark.case("agents:W05")
def test_without_a_failure_only_its_own_waiting_calls_are_failed() -> None:
    async def story() -> None:
        store = await with_a_dead_run()
        counts = [await settle_dead_run(store, "r1"), await settle_dead_run(store, "r1")]

        assert counts == [1, 0]
        assert statuses(store) == {"mine": "failed", "other": "pending_approval", "done": "executed"}
        assert store.runs()[0].status == "running"
        assert await store.active_run_for_thread("t") == "r1"

    asyncio.run(story())


@pytest.mark.case("agents:W05")
def test_with_a_failure_its_row_is_ended_and_its_thread_is_free() -> None:
    async def story() -> None:
        store = await with_a_dead_run()
        await settle_dead_run(store, "r1", {"code": "replay_diverged", "message": "step 3"})
        (once,) = store.runs()
        await settle_dead_run(store, "r1", {"code": "run_failed", "message": "again"})

        assert (once.status, once.error_code, once.error_message) == ("failed", "replay_diverged", "step 3")
        assert store.runs() == (once,)
        assert await store.active_run_for_thread("t") is None
        assert statuses(store)["mine"] == "failed"

    asyncio.run(story())


@pytest.mark.case("agents:W05")
def test_outcomes_leave_out_ids_that_nobody_knows() -> None:
    async def story() -> dict[str, Any]:
        store = await with_a_dead_run()
        return await store.tool_call_outcomes(["done", "unheard-of"])

    assert asyncio.run(story()) == {"done": {"status": "executed", "output": 1}}


def test_a_thread_that_another_run_took_over_stays_with_it() -> None:
    async def story() -> str | None:
        store = await with_a_dead_run()
        await store.set_active_stream("t", "r2")
        await settle_dead_run(store, "r1", {"code": "run_failed", "message": "x"}, "t")
        return await store.active_run_for_thread("t")

    assert asyncio.run(story()) == "r2"


def test_a_cancelled_run_is_settled_without_an_error() -> None:
    async def story() -> None:
        store = await with_a_dead_run()
        await settle_dead_run(store, "r1", {"code": "cancelled", "message": "stopped"})
        (row,) = store.runs()

        assert (row.status, row.error_code) == ("cancelled", None)

    asyncio.run(story())


def test_a_store_with_the_required_methods_only_is_settled_as_far_as_it_can_be() -> None:
    class Small:
        """What the protocol requires here, and nothing beside it."""

        def __init__(self, inner: InMemoryAgentStore) -> None:
            self.get_thread = inner.get_thread
            self.set_active_stream = inner.set_active_stream

    async def story() -> None:
        store = await with_a_dead_run()
        small: Any = Small(store)

        assert await settle_dead_run(small, "r1", {"code": "run_failed", "message": "x"}, "t") == 0
        assert await store.active_run_for_thread("t") is None
        assert statuses(store)["mine"] == "pending_approval"

    asyncio.run(story())


def test_a_returned_thread_is_not_the_stores_own() -> None:
    async def story() -> None:
        store = InMemoryAgentStore(source=StillSource())
        thread = await store.create_thread(actor=ANN, id="t")
        replace(thread, title="mine")

        with pytest.raises(AttributeError):
            thread.title = "mine"  # type: ignore[misc]

    asyncio.run(story())
