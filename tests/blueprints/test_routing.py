"""Where an outcome leads: to a step, out of the stage, to the end; and what is no outcome, or none that leads anywhere."""

from __future__ import annotations

import collections
import enum
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

import loomnb as loom
from tests.blueprints.flows import END, LEAVE, Gate, f2, intent_of, one_step, outcome_of, rest, the_error, two_steps
from tests.helpers import StillSource, until


def ended_with(session: loom.Loom, result: Any, **options: Any) -> loom.FlowRunView:
    """How a flow stands whose only step returned this."""

    async def step(access: Any) -> Any:
        return result

    return rest(session.flow(one_step(step, **options), "go"))


# -- RT-01 … RT-04: where routes lead ---------------------------------------------------------------


class Counted:
    """An initializer that counts."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def __call__(self, context: loom.InitializerContext) -> Any:
        self.stages.append(context.stage_name)
        return intent_of(context)


def at_review(here: Any, gate: Gate, first: Gate, initialize: Any) -> tuple[loom.Loom, loom.FlowRun, StillSource]:
    source = StillSource()
    session = loom.open(here / "s.duckdb", source=source)

    async def start(access: Any) -> loom.StepResult:
        await first.wait()
        return loom.StepResult("complete")

    async def review(access: Any) -> loom.StepResult:
        await gate.wait()
        return loom.StepResult("complete")

    return session, session.flow(f2(start=start, review=review, initialize=initialize), "  go  "), source


@pytest.mark.case("blueprints:RT-01")
def test_a_step_route_moves_the_cursor_within_the_stage(here: Any) -> None:
    first, gate, counted = Gate(), Gate(), Counted()
    session, run, source = at_review(here, gate, first, counted)
    with session:
        first.reached()
        before = run.view()
        source.advance(1)
        first.open()
        gate.reached()
        after = run.view()
        gate.open()
        rest(run)

    assert before.cursor.dump() == {"stageName": "first", "stepName": "start"}
    assert after.cursor.dump() == {"stageName": "first", "stepName": "review"}
    assert after.updated_at > before.updated_at
    assert (after.run_id, after.created_at, run.intent) == (before.run_id, before.created_at, "  go  ")
    assert counted.stages == ["first"]


@pytest.mark.case("blueprints:RT-02")
def test_an_outcome_that_ends_the_stage_is_looked_up_in_the_stage_and_leads_to_the_entry_step(session: loom.Loom) -> None:
    seen: list[loom.Cursor] = []

    async def finish(access: Any) -> loom.StepResult:
        seen.append(run.cursor)
        return loom.StepResult("complete")

    gate = Gate()

    async def start(access: Any) -> loom.StepResult:
        await gate.wait()
        return loom.StepResult("complete")

    run = session.flow(f2(start=start, finish=finish), "go")
    gate.open()
    rest(run)

    assert seen == [("second", "finish")]


@pytest.mark.case("blueprints:RT-02")
def test_the_entry_step_is_the_one_that_is_named_and_not_the_first_of_the_map(session: loom.Loom) -> None:
    made: list[str] = []

    def step(name: str, outcome: str) -> Any:
        async def code(access: Any) -> loom.StepResult:
            made.append(name)
            return loom.StepResult(outcome)

        return loom.code(code)

    def stage(entry: str, leads: Any) -> loom.BlueprintStage:
        return loom.BlueprintStage(
            state_schema=dict[str, Any],
            initialize_state=lambda context: {},
            entry_step_name=entry,
            steps={
                "z": loom.BlueprintStep(execution=step(f"{entry}:z", "out"), on={"out": LEAVE}),
                "a": loom.BlueprintStep(execution=step(f"{entry}:a", "out"), on={"out": LEAVE}),
            },
            on={"out": leads},
        )

    flow = loom.Blueprint(flow_name="order", entry_stage_name="b", stages={"c": stage("z", END), "b": stage("a", "c")})
    rest(session.flow(flow, "go"))

    assert made == ["a:a", "z:z"]


@pytest.mark.case("blueprints:RT-03")
def test_a_stage_that_leads_to_itself_at_the_same_step_is_entered_anew(session: loom.Loom) -> None:
    counted, values = Counted(), []

    async def start(access: Any) -> loom.StepResult:
        values.append(access.state.value["value"])
        await access.state.update({**access.state.value, "value": 7})
        return loom.StepResult("reenter" if len(values) < 3 else "complete")

    run = session.flow(f2(start=start, initialize=counted, initialize_second=counted), "go")

    assert rest(run).status == "completed"
    assert values == [0, 0, 0]
    assert counted.stages == ["first", "first", "first", "second"]


@pytest.mark.case("blueprints:RT-04")
def test_at_the_end_the_run_is_completed_and_its_cursor_stays_on_the_last_step(session: loom.Loom) -> None:
    run = session.flow(f2(), "go")
    view = rest(run)

    assert (view.status, view.cursor.dump()) == ("completed", {"stageName": "second", "stepName": "finish"})
    assert view.pending_action is None
    assert view.last_error is None


@pytest.mark.case("blueprints:RT-04")
def test_awaiting_a_run_gives_its_last_outcome(session: loom.Loom) -> None:
    async def step(access: Any) -> dict[str, str]:
        return {"outcome": "gut gemacht ✓"}

    run = session.flow(one_step(step, on={"gut gemacht ✓": LEAVE}, ends={"gut gemacht ✓": END}), "go")

    assert outcome_of(run) == "gut gemacht ✓"


@pytest.mark.case("blueprints:RT-04")
def test_an_ended_run_is_the_same_after_a_restart(here: Any) -> None:
    with loom.open(here / "s.duckdb") as session:
        view = rest(session.flow(f2(), "go"))
    with loom.open(here / "s.duckdb") as session:
        (run,) = session.flows()

        assert run.view() == view


@pytest.mark.case("blueprints:RT-04")
@pytest.mark.parametrize("name", ["a/b", "Stufe ä", "50%", "%2F", "start", "end", "enter", "x" * 300, "…", "a b"])
def test_any_name_will_do_for_a_stage_a_step_and_an_outcome(session: loom.Loom, name: str) -> None:
    async def step(access: Any) -> loom.StepResult:
        return loom.StepResult(name)

    run = session.flow(one_step(step, on={name: LEAVE}, ends={name: END}, stage=name, step=name, name=f"f {name}"), "go")
    view = rest(run)

    assert (view.status, view.cursor.dump()) == ("completed", {"stageName": name, "stepName": name})
    assert run.cursor == (name, name)


# -- RT-05, RT-13: what is no step result ------------------------------------------------------------


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@dataclass(frozen=True)
class WithData:
    outcome: str = "complete"
    data: int = 1


@dataclass(frozen=True)
class MoreThanResult(loom.StepResult):
    data: int = 1


NO_RESULTS: list[Any] = [
    {"outcome": ""},
    loom.StepResult(""),
    None,
    "complete",
    b"complete",
    0,
    True,
    ("complete",),
    ["complete"],
    {},
    {"outcome": None},
    {"outcome": 1},
    {"outcome": True},
    {"outcome": ["complete"]},
    {"outcome": b"complete"},
    {"Outcome": "complete"},
    {"outcome": "complete", "data": 1},
    {"outcome": "complete", "output": None},
    {"outcome": "complete", "status": "ok"},
    {"outcome": "complete", 1: 2},
    loom.StepResult(1),  # type: ignore[arg-type]
    loom.StepResult(None),  # type: ignore[arg-type]
    loom.StepResult,
    MoreThanResult("complete"),
    WithData(),
    MappingProxyType({"outcome": "complete"}),
    object(),
    NoRepr(),
    {"outcome": NoRepr()},
    float("nan"),
]


@pytest.mark.case("blueprints:RT-05", "blueprints:RT-13")
@pytest.mark.parametrize("result", NO_RESULTS, ids=range(len(NO_RESULTS)))
def test_what_is_not_exactly_one_text_as_outcome_is_no_step_result(session: loom.Loom, result: Any) -> None:
    view = ended_with(session, result)

    assert (view.status, the_error(view)) == ("failed", "STEP_RESULT_INVALID")
    assert view.cursor.dump() == {"stageName": "stage", "stepName": "step"}


@pytest.mark.case("blueprints:RT-13")
def test_a_plain_def_is_judged_by_the_same_rule(session: loom.Loom) -> None:
    def step(access: Any) -> Any:
        return "complete"

    assert the_error(rest(session.flow(one_step(step), "go"))) == "STEP_RESULT_INVALID"


class Word(enum.StrEnum):
    COMPLETE = "complete"


class Text(str):
    __slots__ = ()


@pytest.mark.case("blueprints:RT-13")
@pytest.mark.parametrize("outcome", [Word.COMPLETE, Text("complete")])
@pytest.mark.parametrize("wrap", [loom.StepResult, lambda outcome: {"outcome": outcome}])
def test_a_text_of_a_class_of_its_own_is_a_text(session: loom.Loom, outcome: Any, wrap: Any) -> None:
    assert ended_with(session, wrap(outcome)).status == "completed"


# -- RT-06 … RT-09: outcomes that no route takes -----------------------------------------------------


@pytest.mark.case("blueprints:RT-06")
@pytest.mark.parametrize(
    "outcome",
    ["done", " complete", "complete ", "Complete", "COMPLETE", "complete\n", "com\u200bplete", " ", "\u00a0", "\ud800", "ﬁn"],
)
def test_an_outcome_is_compared_to_the_letter(session: loom.Loom, outcome: str) -> None:
    view = ended_with(session, {"outcome": outcome}, on={"complete": LEAVE, "fin": LEAVE}, ends={"complete": END, "fin": END})

    assert (view.status, the_error(view)) == ("failed", "STEP_OUTCOME_NOT_HANDLED")
    assert view.cursor.dump() == {"stageName": "stage", "stepName": "step"}


PYTHONS = ["__class__", "__init__", "get", "keys", "toString", "hasOwnProperty", "__missing__", "None", "0"]


@pytest.mark.case("blueprints:RT-06", "blueprints:RT-09")
@pytest.mark.parametrize("outcome", [*PYTHONS, "constructor", "__proto__"])
def test_a_name_that_every_map_has_as_a_member_is_no_route(session: loom.Loom, outcome: str) -> None:
    assert the_error(ended_with(session, {"outcome": outcome})) == "STEP_OUTCOME_NOT_HANDLED"


@pytest.mark.case("blueprints:RT-08")
@pytest.mark.parametrize("outcome", PYTHONS)
def test_such_a_name_is_a_route_where_it_is_defined(session: loom.Loom, outcome: str) -> None:
    assert ended_with(session, {"outcome": outcome}, on={outcome: LEAVE}, ends={outcome: END}).status == "completed"


@pytest.mark.case("blueprints:RT-09")
def test_an_outcome_that_ends_the_stage_and_is_no_route_of_it_is_not_handled(session: loom.Loom) -> None:
    view = ended_with(session, {"outcome": "lost"}, on={"complete": LEAVE, "lost": LEAVE})

    assert (view.status, the_error(view)) == ("failed", "STEP_OUTCOME_NOT_HANDLED")


@pytest.mark.case("blueprints:RT-09")
def test_a_step_route_does_not_ask_the_stage(session: loom.Loom) -> None:
    """`again` leads to the step itself, though the stage would end with it."""
    seen: list[str] = []

    async def step(access: Any) -> loom.StepResult:
        seen.append("step")
        return loom.StepResult("again" if len(seen) == 1 else "complete")

    rest(session.flow(one_step(step, on={"again": "step", "complete": LEAVE}, ends={"again": END, "complete": END}), "go"))

    assert seen == ["step", "step"]


@pytest.mark.case("blueprints:RT-09")
def test_a_map_that_makes_up_what_it_lacks_makes_up_no_route(session: loom.Loom) -> None:
    on: Any = collections.defaultdict(lambda: LEAVE, {"complete": LEAVE})
    ends: Any = collections.defaultdict(lambda: END, {"complete": END})

    assert the_error(ended_with(session, {"outcome": "other"}, on=on, ends=ends)) == "STEP_OUTCOME_NOT_HANDLED"


@pytest.mark.case("blueprints:RT-06")
def test_a_route_that_is_added_once_the_run_began_is_not_its_route(session: loom.Loom) -> None:
    gate, on = Gate(), {"complete": LEAVE}

    async def step(access: Any) -> loom.StepResult:
        await gate.wait()
        return loom.StepResult("late")

    run = session.flow(one_step(step, on=on, ends={"complete": END, "late": END}), "go")
    gate.reached()
    on["late"] = LEAVE
    gate.open()

    assert the_error(rest(run)) == "STEP_OUTCOME_NOT_HANDLED"


# -- RT-11, RT-12: results that come too late --------------------------------------------------------


@pytest.mark.case("blueprints:RT-11")
def test_a_run_goes_by_the_definition_it_began_with(session: loom.Loom) -> None:
    """A cell that is run again while a step is at work changes neither what runs nor where its outcome leads."""
    gate, made = Gate(), []

    async def first(access: Any) -> loom.StepResult:
        await gate.wait()
        return loom.StepResult("complete")

    async def then(access: Any) -> loom.StepResult:
        made.append("then")
        return loom.StepResult("complete")

    async def other(access: Any) -> loom.StepResult:
        made.append("other")
        return loom.StepResult("complete")

    run = session.flow(two_steps(first, then), "go")
    gate.reached()
    rest(session.flow(two_steps(other, other), "the cell, run again"))
    made.clear()
    gate.open()

    assert rest(run).status == "completed"
    assert made == ["then"]


@pytest.mark.case("blueprints:RT-11")
def test_a_result_is_routed_once(session: loom.Loom) -> None:
    """Two steps that return the very same result object: each counts for its own step."""
    result, made = loom.StepResult("complete"), []

    async def first(access: Any) -> loom.StepResult:
        made.append("first")
        return result

    async def then(access: Any) -> loom.StepResult:
        made.append("then")
        return result

    run = session.flow(two_steps(first, then), "go")
    rest(run)

    assert made == ["first", "then"]
    assert [entry.name for entry in run.history if entry.number] == ["enter", "first", "then"]


@pytest.mark.case("blueprints:RT-12")
@pytest.mark.parametrize("how", ["return", "raise"])
def test_what_a_step_ends_with_after_its_run_was_stopped_is_lost(session: loom.Loom, how: str) -> None:
    gate, over = Gate(), Gate()

    async def step(access: Any) -> loom.StepResult:
        try:
            await gate.wait()
            if how == "raise":
                raise ValueError("late")
            return loom.StepResult("complete")
        finally:
            over.arrived.set()

    run = session.flow(one_step(step), "go")
    gate.reached()
    run.cancel()
    view = rest(run)
    gate.open()
    over.reached()

    assert the_error(view) == "RUN_STOPPED"
    assert rest(run) == view


@pytest.mark.case("blueprints:RT-12")
def test_what_a_plain_def_ends_with_after_its_run_was_stopped_is_lost(session: loom.Loom) -> None:
    gate, over = Gate(), Gate()

    def step(access: Any) -> loom.StepResult:
        gate.block()
        over.arrived.set()
        return loom.StepResult("complete")

    run = session.flow(one_step(step), "go")
    gate.reached()
    run.cancel()
    view = rest(run)
    gate.open()
    over.reached()

    assert the_error(view) == "RUN_STOPPED"
    assert rest(run) == view


@pytest.mark.case("blueprints:RT-12")
def test_an_outcome_does_not_move_a_run_that_waits(session: loom.Loom) -> None:
    """The step asks, does not wait for the answer, and returns while its question is open."""
    made: list[str] = []
    gate = Gate()

    async def first(access: Any) -> loom.StepResult:
        access.interaction.confirm("Go?")
        await gate.wait()
        return loom.StepResult("complete")

    async def then(access: Any) -> loom.StepResult:
        made.append("then")
        return loom.StepResult("complete")

    run = session.flow(two_steps(first, then), "go")
    until(run, lambda: bool(run.pending))
    gate.open()
    until(run, lambda: run.status == "failed")

    assert the_error(run.view()) == "STEP_INTERACTION_INVALID"
    assert run.cursor == ("stage", "first")
    assert made == []
