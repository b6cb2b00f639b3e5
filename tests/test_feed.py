"""What the feed of a panel says when its view asks for the graph: no widget and no kernel, only messages."""

from __future__ import annotations

from queue import Queue
from typing import Any

from loomnb_widgets.feed import Feed

import loomnb as loom
from tests.helpers import PATIENCE, at_rest


@loom.workflow(name="feed_parent")
class Parent(loom.BaseWorkflow[Any]):
    @loom.transition(to="waiting")
    def begin(self) -> None:
        Child().run({}, callback={"transition": "child_done"})

    @loom.transition(from_="waiting", to="end", wait=True)
    def child_done(self) -> None: ...


@loom.workflow(name="feed_child")
class Child(loom.BaseWorkflow[Any]):
    @loom.transition(to="asking")
    def ask(self) -> None: ...

    @loom.transition(from_="asking", to="end", wait=True)
    def answer(self) -> None: ...


def told(run: loom.Run, message: dict[str, Any]) -> dict[str, Any]:
    """What the feed says to a message."""
    said: Queue[dict[str, Any]] = Queue()
    feed = Feed(run.record, run.runtime, said.put)
    feed.receive(message)
    try:
        while (answer := said.get(timeout=PATIENCE)).get("type") != "graph":
            pass
    finally:
        feed.close()
    return answer


def test_the_view_gets_the_graph_it_asks_for(session: loom.Loom) -> None:
    run = session.start(Child)
    at_rest(run)

    assert told(run, {"type": "graph"}) == {"type": "graph", "svg": run.graph().svg}


def test_the_graph_of_a_sub_workflow_carries_its_id(session: loom.Loom) -> None:
    run = session.start(Parent)
    at_rest(run)
    (child,) = run.children
    at_rest(child)

    assert told(run, {"type": "graph", "run": child.id}) == {"type": "graph", "svg": child.graph().svg, "run": child.id}


def test_the_head_does_not_carry_the_graph(session: loom.Loom) -> None:
    run = session.start(Child)
    at_rest(run)
    feed = Feed(run.record, run.runtime, lambda _: None)

    assert "svg" not in str(feed.head)


@loom.workflow(name="feed_twice")
class Twice(loom.BaseWorkflow[Any]):
    @loom.transition(to="first")
    def begin(self) -> None: ...

    @loom.transition(from_="first", to="second", wait=True)
    def look(self) -> None: ...

    @loom.transition(from_="second", to="end", wait=True)
    def delete(self) -> None: ...


def submitted(run: loom.Run, **message: Any) -> str:
    """How the feed takes an answer: `accepted`, or `refused`."""
    said: Queue[dict[str, Any]] = Queue()
    feed = Feed(run.record, run.runtime, said.put)
    feed.receive({"type": "answer", "n": 1, "values": {}, **message})
    while (reply := said.get(timeout=PATIENCE))["type"] not in ("accepted", "refused"):
        pass
    feed.close()
    at_rest(run)
    return str(reply["type"])


def test_a_second_click_on_a_question_does_not_answer_the_next_one(session: loom.Loom) -> None:
    run = session.start(Twice)
    at_rest(run)
    first = run.pending[0].id

    assert submitted(run, ask=first) == "accepted"
    assert submitted(run, ask=first) == "refused"
    for wrong in ({}, {"ask": None}, {"ask": 5}, {"ask": ["x"]}, {"ask": ""}, {"ask": "look"}):
        assert submitted(run, **wrong) == "refused"
    assert (run.status, run.place) == ("waiting", "second")
    assert submitted(run, ask=run.pending[0].id) == "accepted"


def test_when_the_store_is_closed_the_view_is_told_so(session: loom.Loom) -> None:
    run = session.start(Child)
    at_rest(run)
    said: list[dict[str, Any]] = []
    feed = Feed(run.record, run.runtime, said.append)

    session.close()
    feed.receive({"type": "hello", "n": 1, "have": {}})

    assert (
        said[-1]["closed"]
        == f'The store is closed: run the cell that opens it again, then loom.run("{run.id}") shows this again.'
    )
    assert said[-1]["ack"] == 1
    feed.close()
