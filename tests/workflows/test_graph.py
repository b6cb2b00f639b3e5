"""The graph of a class and of a run: read from the table the run loop reads, with the way the run took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.runtime import REGISTRY
from loomnb.workflows import definition_of
from tests.helpers import at_rest


def notes() -> type[loom.BaseWorkflow[Any]]:
    @loom.workflow(name="notes", title="Release notes")
    class Notes(loom.BaseWorkflow[Any]):
        """Drafts, and asks."""

        @loom.transition(to="review", retry_attempts=2, retry_target="rest", error_place="trouble")
        def draft(self, state: Any, ctx: loom.RunContext[Any]) -> None:
            if ctx.args.get("broken"):
                raise ValueError("broken")

        @loom.transition(from_="review", to="end", wait=True, priority=1)
        @loom.guard("is_good")
        def approve(self) -> None: ...

        @loom.transition(from_="review", to="review", wait=True)
        def note(self) -> None: ...

        @loom.transition(from_="review", to="start", wait=True, priority=5)
        def revise(self) -> None: ...

        @loom.transition(from_="rest", to="start")
        def again(self) -> None: ...

        @loom.transition(from_="trouble", to="end", wait=True)
        def give_up(self) -> None: ...

        @loom.transition(from_="island", to="end")
        def leave(self) -> None: ...

        def is_good(self, state: Any) -> bool:
            return True

    return Notes


def seen(graph: loom.Graph) -> set[tuple[str, str, str, str]]:
    return {(e.name, e.from_, e.to, e.kind) for e in graph.edges}


def test_a_graph_has_every_line_of_the_table() -> None:
    flow = notes()

    moves = [m for place in definition_of(flow).places for m in definition_of(flow).moves_from(place) or ()]

    assert {(m.name, m.from_, m.to, "manual" if m.wait else "automatic") for m in moves} == {
        e for e in seen(flow.graph()) if e[3] in ("automatic", "manual")
    }


def test_a_graph_has_where_failures_lead() -> None:
    assert {e for e in seen(notes().graph()) if e[3] in ("error", "retry")} == {
        ("draft", "start", "trouble", "error"),
        ("draft", "start", "rest", "retry"),
    }


def test_a_retry_target_that_no_retry_uses_is_not_drawn() -> None:
    @loom.workflow
    class Never(loom.BaseWorkflow[Any]):
        @loom.transition(to="end", retry_attempts=0, retry_target="start")
        def go(self) -> None: ...

    assert seen(Never.graph()) == {("go", "start", "end", "automatic")}


def test_what_leaves_a_place_stands_in_the_order_it_is_tried() -> None:
    assert [e.name for e in notes().graph().edges if e.from_ == "review"] == ["revise", "approve", "note"]


def test_guards_priorities_and_retries_are_told() -> None:
    details = {e.name: e.detail for e in notes().graph().edges if e.kind in ("automatic", "manual")}

    assert (details["approve"], details["revise"], details["draft"]) == ("[is_good] · priority 1", "priority 5", "2 retries")


def test_a_place_nothing_leads_to_is_drawn_too() -> None:
    assert [n.name for n in notes().graph().nodes] == ["start", "review", "rest", "trouble", "island", "end"]


def test_a_graph_has_the_title_people_read() -> None:
    assert notes().graph().title == "Release notes"


def test_a_class_that_is_not_decorated_has_no_graph() -> None:
    class Plain(loom.BaseWorkflow[Any]): ...

    with pytest.raises(loom.DefinitionError, match="Plain"):
        Plain.graph()


def test_defining_it_again_gives_the_new_graph() -> None:
    old = notes().graph().svg

    @loom.workflow(name="notes", title="Release notes")
    class Notes(loom.BaseWorkflow[Any]):
        @loom.transition(to="end")
        def go(self) -> None: ...

    assert seen(Notes.graph()) == {("go", "start", "end", "automatic")}
    assert Notes.graph().svg != old


def test_two_drawings_of_a_class_are_the_same() -> None:
    flow = notes()

    assert flow.graph()._repr_mimebundle_() == flow.graph()._repr_mimebundle_()


# -- a run ----------------------------------------------------------------------------------------


def test_a_run_lights_its_way_and_its_place(session: loom.Loom) -> None:
    run = session.start(notes(), {})
    at_rest(run)
    run.answer("note", None)
    at_rest(run)

    graph = run.graph()

    assert [e.name for e in graph.edges if e.taken] == ["draft", "note"]
    assert (graph.current, graph.status) == ("review", "waiting for an answer")


def test_the_graph_of_a_run_is_its_workflows_graph(session: loom.Loom) -> None:
    flow = notes()
    run = session.start(flow, {})
    at_rest(run)

    assert seen(run.graph()) == seen(flow.graph())


def test_a_completed_run_is_at_the_end(session: loom.Loom) -> None:
    run = session.start(notes(), {})
    at_rest(run)
    run.answer("approve", None)
    at_rest(run)

    assert (run.graph().current, run.graph().status) == ("end", "completed")


def test_a_run_that_failed_lights_where_that_led(session: loom.Loom) -> None:
    @loom.workflow
    class Failing(loom.BaseWorkflow[Any]):
        @loom.transition(to="end", error_place="trouble")
        def go(self) -> None:
            raise ValueError

        @loom.transition(from_="trouble", to="end", wait=True)
        def give_up(self) -> None: ...

    run = session.start(Failing)
    at_rest(run)

    assert [(e.name, e.kind) for e in run.graph().edges if e.taken] == [("go", "error")]
    assert run.graph().current == "trouble"


def test_a_run_found_again_lights_the_same_way(here: Path) -> None:
    flow = notes()
    with loom.open(here / "s.duckdb") as session:
        run = session.start(flow, {})
        at_rest(run)
        before, run_id = run.graph().svg, run.id
    with loom.open(here / "s.duckdb") as session:
        assert session.run(run_id).graph().svg == before


def test_a_run_whose_definition_is_not_known_shows_the_way_it_took(session: loom.Loom) -> None:
    run = session.start(notes(), {})
    at_rest(run)
    del REGISTRY._known["notes"]

    graph = run.graph()

    assert seen(graph) == {("draft", "start", "review", "past")}
    assert graph.current == "review"
    assert "its definition is not known here" in graph.text


def test_a_run_whose_definition_lost_its_place_is_still_drawn(session: loom.Loom) -> None:
    run = session.start(notes(), {})
    at_rest(run)

    @loom.workflow(name="notes")
    class Notes(loom.BaseWorkflow[Any]):
        @loom.transition(to="end")
        def go(self) -> None: ...

    graph = run.graph()

    assert {("go", "start", "end", "automatic"), ("draft", "start", "review", "past")} <= seen(graph)
    assert graph.current == "review"


def test_a_graph_tells_no_id_and_no_time(session: loom.Loom) -> None:
    first, second = (session.start(notes(), {}) for _ in range(2))
    at_rest(first)
    at_rest(second)

    assert first.graph()._repr_mimebundle_() == second.graph()._repr_mimebundle_()


def test_a_question_of_a_cell_has_a_graph(session: loom.Loom) -> None:
    run = session.confirm("Go?", key="go")

    assert seen(run.graph()) == {("answer", "start", "end", "manual")}
