"""Event streams: numbered like the journal, replayed from a cursor, live without polling."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import at_rest

State = Mapping[str, Any]


@pytest.fixture
def waits() -> type[loom.BaseWorkflow[Any]]:
    @loom.workflow
    class NotesWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="review")
        async def draft(self) -> None:
            self.document_store.save(loom.PlainDocument(text="draft"), key="notes")

        @loom.transition(from_="review", to="end", wait=True)
        async def approve(self) -> None: ...

    return NotesWorkflow


async def first(events: AsyncIterator[loom.RunEvent], count: int) -> list[loom.RunEvent]:
    """So many events of a stream, which is then left."""
    found = []
    async with contextlib.aclosing(events) as stream:  # type: ignore[type-var]
        async for event in stream:
            found.append(event)
            if len(found) == count:
                break
    return found


async def all_of(run: loom.Run, after: Any = None) -> list[loom.RunEvent]:
    return [event async for event in run.events(after)]


def stored(session: loom.Loom) -> int:
    ((seq,),) = session.sql("select max(seq) from journal").fetchall()
    return int(seq)


def test_a_run_tells_its_story_as_it_happens(session: loom.Loom, waits: Any) -> None:
    async def story() -> list[loom.RunEvent]:
        run = session.start(waits)
        seen = []
        async for event in run.events():
            seen.append(event)
            if event.type == "ask.opened":
                assert (run.status, run.place) == ("waiting", "review")  # the handle shows it already
                run.answer(event.data["id"], None)
        assert run.status == "completed"
        return seen

    seen = asyncio.run(asyncio.wait_for(story(), 20))

    assert [(e.type, e.status, e.place) for e in seen] == [
        ("workflow.created", "pending", "start"),
        ("workflow.updated", "waiting", "review"),
        ("document.created", None, None),
        ("ask.opened", None, "review"),
        ("workflow.updated", "running", "review"),
        ("workflow.updated", "completed", "end"),
    ]
    (document,) = [e for e in seen if e.type == "document.created"]
    assert (document.data["name"], document.data["key"]) == ("plain", "notes")


def test_an_event_as_json_has_the_contracts_names(session: loom.Loom, waits: Any) -> None:
    run = session.start(waits)
    at_rest(run)

    event = asyncio.run(first(run.events(), 1))[0].to_json()

    assert event["type"] == "workflow.created"
    assert event["workflowId"] == run.id
    assert event["data"] == {"workflow": "notes", "title": "Notes"}


@pytest.mark.case("workflows:N08")
def test_ids_count_up_from_one_in_each_store(session: loom.Loom, here: Any, waits: Any) -> None:
    at_rest(session.start(waits))
    with loom.open(here / "other.duckdb") as other:
        at_rest(other.start(waits))
        for store in (session, other):
            n = stored(store)
            assert [e.id for e in asyncio.run(first(store.events(0), n))] == list(range(1, n + 1))


@pytest.mark.case("workflows:N09")
def test_who_comes_back_with_a_cursor_gets_exactly_what_was_missed(session: loom.Loom, waits: Any) -> None:
    run = session.start(waits)
    at_rest(run)
    before = [e.id for e in asyncio.run(first(run.events(), 3))]
    run.answer("approve", None)
    run.wait(10)

    missed = [e.id for e in asyncio.run(all_of(run, before[-1]))]
    everything = [e.id for e in asyncio.run(all_of(run))]

    assert before + missed == everything
    assert asyncio.run(all_of(run, everything[-1])) == []
    assert [e.id for e in asyncio.run(all_of(run, str(before[-1])))] == missed  # as a header carries it


@pytest.mark.case("workflows:N10")
@pytest.mark.parametrize("cursor", ["", "abc", "1.5", 1.5, -1, 10**9, "10000000000", True, [1]])
def test_an_unknown_or_malformed_cursor_gives_one_reset_with_the_latest_id(session: loom.Loom, waits: Any, cursor: Any) -> None:
    run = session.start(waits)
    at_rest(run)
    run.answer("approve", None)
    run.wait(10)

    (reset,) = asyncio.run(all_of(run, cursor))

    assert (reset.type, reset.id) == ("stream.reset", stored(session))


@pytest.mark.case("workflows:N10")
def test_after_a_reset_it_goes_on_live(session: loom.Loom, waits: Any) -> None:
    async def story() -> list[loom.RunEvent]:
        at_rest_already = session.start(waits)
        await at_rest_already.settled()
        following = asyncio.ensure_future(first(session.events("lost"), 2))
        await asyncio.sleep(0)
        session.start(waits)
        return await asyncio.wait_for(following, 20)

    reset, created = asyncio.run(story())

    assert (reset.type, created.type) == ("stream.reset", "workflow.created")
    assert created.id == reset.id + 1


@pytest.mark.case("workflows:N11")
def test_no_event_is_ever_too_old(here: Any, waits: Any) -> None:
    with loom.open(here / "old.duckdb") as one:
        run = one.start(waits)
        at_rest(run)
        n = stored(one)

    with loom.open(here / "old.duckdb") as two:
        assert [e.id for e in asyncio.run(first(two.events(0), n))] == list(range(1, n + 1))
        assert [e.id for e in asyncio.run(first(two.run(run.id).events(1), n - 1))] == list(range(2, n + 1))


def test_a_stores_events_begin_with_what_happens_from_now_on(session: loom.Loom, waits: Any) -> None:
    async def story() -> list[loom.RunEvent]:
        await session.start(waits).settled()
        following = asyncio.ensure_future(first(session.events(), 1))
        await asyncio.sleep(0)
        session.start(waits)
        return await asyncio.wait_for(following, 20)

    (event,) = asyncio.run(story())

    assert event.type == "workflow.created"
    assert event.id > 1


def test_events_of_other_runs_are_not_in_a_runs_stream(session: loom.Loom, waits: Any) -> None:
    one, two = session.start(waits), session.start(waits)
    for run in (one, two):
        at_rest(run)
        run.answer("approve", None)
        run.wait(10)

    assert {e.workflow_id for e in asyncio.run(all_of(one))} == {one.id}


def test_a_follower_that_does_not_read_holds_up_no_run(session: loom.Loom) -> None:
    @loom.workflow
    class CountWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="counting")
        async def go(self) -> None:
            self.set_state({"n": 0})

        @loom.transition(from_="counting", to="counting", priority=1)
        @loom.guard("is_on")
        async def count(self, state: State) -> None:
            self.assign_state(n=state["n"] + 1)

        @loom.transition(from_="counting", to="end")
        async def finish(self) -> None: ...

        def is_on(self, state: State) -> bool:
            return bool(state["n"] < 900)

    async def story() -> list[int]:
        run = session.start(CountWorkflow)
        slow = run.events()
        seen = [(await anext(slow)).id]  # one event, and then not another until the run is over
        await asyncio.wait_for(run, 60)
        seen += [e.id async for e in slow]
        return seen

    assert asyncio.run(story()) == list(range(1, 904))


def test_closing_the_store_ends_every_stream(here: Any, waits: Any) -> None:
    async def story() -> list[loom.RunEvent]:
        with loom.open(here / "c.duckdb") as session:
            run = session.start(waits)
            await run.settled()
            following = asyncio.ensure_future(all_of(run))
            await asyncio.sleep(0.05)
        return await asyncio.wait_for(following, 5)

    assert asyncio.run(story())[-1].type == "ask.opened"


def test_children_say_who_started_them(session: loom.Loom) -> None:
    run = session.start(loom.FanOutWorkflow, {"items": [{"workflow": "ask_user", "args": {"question": "?"}}]})
    at_rest(run)

    (child,) = run.children
    created = asyncio.run(first(child.events(), 1))[0]

    assert (created.workflow_id, created.parent_id) == (child.id, run.id)
