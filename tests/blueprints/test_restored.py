"""What a person is told after a restart, how a blueprint becomes known again, and what happens when it was changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import create_model

import loomnb as loom
from loomnb.blueprints import compile_blueprint
from tests.blueprints.recovering import DONE, Gate, asking, blueprint, code_of, kernel, kinds, only, started
from tests.helpers import PATIENCE, at_rest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(here: Path) -> Path:
    return here / "s.duckdb"


def interrupted(path: Path, name: str = "fixture", gate: Gate | None = None) -> loom.Blueprint:
    """A flow whose run was in the middle of its code when its kernel went."""
    gate = gate or Gate()

    @loom.code
    async def start(access: Any) -> loom.StepResult:
        await gate()
        return DONE

    flow = blueprint(start, name=name)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    gate.open()
    return flow


# -- a blueprint is known again ----------------------------------------------------------------------


@pytest.mark.case("blueprints:RC-01")
def test_a_blueprint_that_is_defined_is_known_and_starts_nothing(here: Path) -> None:
    with kernel(here / "s.duckdb") as session:
        session.define(blueprint(asking([])))

        assert session.flows() == []
        assert session.flow("fixture", "x").flow_name == "fixture"


@pytest.mark.case("blueprints:DX-05")
def test_the_stored_runs_of_a_blueprint_go_on_when_it_is_defined(path: Path) -> None:
    gate = Gate()

    async def initialize(context: Any) -> Any:
        await gate()
        return {"value": 0}

    flow = blueprint(asking([]), initialize=initialize)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    gate.open()
    with kernel(path) as session:
        run = only(session)
        assert run.view().status == "failed"
        told = session.define(flow)

        assert [r.id for r in told.resumed] == [run.id]
        assert at_rest(run).status == "waiting"


def test_defining_tells_of_the_runs_of_this_blueprint_only(path: Path) -> None:
    one, two = blueprint(asking([]), name="one"), blueprint(asking([]), name="two")
    with kernel(path) as session:
        first = started(session, one)
        started(session, two)
    with kernel(path, two) as session:
        told = session.define(one)

        assert [r.id for r in told] == [first.id]
        assert repr(told).startswith("The blueprint 'one' is known here. 1 run is unfinished.")


def test_defining_the_same_again_changes_nothing(path: Path) -> None:
    flow = blueprint(asking([]))
    with kernel(path) as session:
        before = started(session, flow).view()
    with kernel(path, flow, flow) as session:
        session.define(flow)

        assert only(session).view() == before


def test_a_name_or_a_folder_may_be_defined(here: Path) -> None:
    with kernel(here / "s.duckdb") as session:
        session.define(blueprint(asking([])))
        session.define("fixture")

        assert code_of(lambda: session.define("none")) == "NOT_FOUND"


def test_defining_in_a_notebook_without_a_store_opens_none(here: Path) -> None:
    told = loom.define(blueprint(asking([]), name="early"))

    assert list(here.iterdir()) == []
    assert "'early' is known" in repr(told)


def test_what_was_defined_before_the_store_was_opened_goes_on_at_the_open(path: Path) -> None:
    flow = interrupted_initializer(path)
    with kernel(path.with_name("other.duckdb"), flow), loom.open(path) as session:
        assert at_rest(session.flows()[0]).status == "completed"


def interrupted_initializer(path: Path) -> loom.Blueprint:
    gate = Gate()

    async def initialize(context: Any) -> Any:
        await gate()
        return 0

    flow = blueprint(loom.code(lambda: DONE), initialize=initialize)
    with kernel(path) as session:
        session.flow(flow, "x")
        gate.reached()
    gate.open()
    return flow


def test_the_cell_that_started_a_run_with_a_key_finds_it_again(path: Path) -> None:
    flow = blueprint(asking([]))
    with kernel(path) as session:
        run_id = session.flow(flow, "x", key="k").id
        before = at_rest(only(session))
    with kernel(path) as session:
        run = session.flow(flow, "x", key="k")

        assert (run.id, run.view()) == (run_id, before)
        run.answer(True)
        assert at_rest(run).status == "completed"


# -- what is told ------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:DX-08", "blueprints:DX-10")
def test_restore_tells_every_kind_apart(path: Path) -> None:
    lost = interrupted(path, "lost")
    going = interrupted_initializer(path)
    changed, bad = blueprint(asking([]), name="changed"), blueprint(asking([]), name="bad")
    waiting = blueprint(asking([]), name="waiting")
    with kernel(path) as session:
        ids = {flow.flow_name: started(session, flow).id for flow in (changed, bad, waiting)}
        session.runtime.database.commit([(ids["bad"], "step.recorded", "{}")])
        ids |= {run.flow_name: run.id for run in session.flows()}
    now = blueprint(asking([], recovers=False), name="changed")
    with kernel(path, lost, going, now, bad, waiting) as session:
        told = session.restore()
        found = {name: [run.workflow for run in getattr(told, name)] for name in ("resumed", "waiting", "interrupted", "changed")}

        assert found == {"resumed": ["fixture"], "waiting": ["waiting"], "interrupted": ["lost"], "changed": ["changed"]}
        assert set(told.unrecoverable) == {ids["bad"]}
        assert "subs" in told.unrecoverable[ids["bad"]]


def test_it_is_a_list_of_the_runs_that_are_not_finished(path: Path) -> None:
    flow = blueprint(asking([]))
    with kernel(path) as session:
        run = started(session, flow)
        other = started(session, flow)
        other.answer(True)
        at_rest(other)
        told = session.restore()

        assert [r.id for r in told] == [run.id]
        assert isinstance(told, list)
        assert told[0].id == run.id


def test_nothing_to_restore_is_said(session: loom.Loom) -> None:
    told = session.restore()

    assert told == []
    assert repr(told) == "No run is unfinished."


def test_of_a_waiting_run_it_says_what_is_asked_and_how_to_answer(path: Path) -> None:
    flow = blueprint(asking([], context="Ship it?"))
    with kernel(path) as session:
        run_id = started(session, flow).id
    with kernel(path, flow) as session:
        told = repr(session.restore())

        assert f"run = loom.run({run_id!r})" in told
        assert "Ship it?" in told
        assert "run.answer(True)" in told


def test_of_an_interrupted_run_it_says_both_ways_to_go_on(path: Path) -> None:
    flow = interrupted(path)
    with kernel(path, flow) as session:
        told = repr(session.restore())

        assert "run.retry()" in told
        assert "run.retry(fresh=True)" in told
        assert "run.retry()" in repr(session.pending())


def test_of_a_run_that_went_on_and_ended_it_says_so_once(path: Path) -> None:
    flow = interrupted_initializer(path)
    with kernel(path, flow) as session:
        run = only(session)
        at_rest(run)
        told = session.restore()

        assert told == []
        assert [r.id for r in told.resumed] == [run.id]
        assert "completed" in repr(told)


@pytest.mark.parametrize("mime", ["text/html", "text/markdown"])
def test_what_is_shown_of_a_title_or_a_question_is_text(path: Path, mime: str) -> None:
    flow = blueprint(asking([], context="<script>alert(1)</script> <b>x</b>"))
    with kernel(path) as session:
        run = session.flow(flow, "x", title="<img src=x onerror=alert(1)> *bold*")
        at_rest(run)
        shown = session.restore()._repr_mimebundle_()[mime]

    assert "<script" not in shown
    assert "<img" not in shown
    assert "<b>x" not in shown


def test_its_three_forms_tell_the_same(path: Path) -> None:
    flow = interrupted(path)
    with kernel(path, flow) as session:
        told = session.restore()
        forms = told._repr_mimebundle_()

        assert forms["text/plain"] == repr(told)
        assert all("Interrupted" in form for form in forms.values())
        assert all(only(session).id.replace("-", "")[:10] in form.replace("\\", "").replace("-", "") for form in forms.values())


# -- changed definitions -----------------------------------------------------------------------------


def old(effects: list[Any]) -> loom.Blueprint:
    @loom.code
    async def start(access: Any) -> loom.StepResult:
        effects.append(["old", access.state.value])
        await access.state.update({"value": "old"})
        await access.interaction.confirm("Old?")
        return DONE

    @start.recover
    async def recover(saved: Any, access: Any) -> loom.StepResult:
        effects.append("old recovers")
        return DONE

    return blueprint(start)


def new(effects: list[Any]) -> loom.Blueprint:
    @loom.code
    async def start(access: Any) -> loom.StepResult:
        effects.append(["new", access.state.value])
        await access.interaction.confirm("New?")
        return DONE

    @start.recover
    async def recover(saved: Any, access: Any) -> loom.StepResult:
        effects.append("new recovers")
        return DONE

    return blueprint(start)


@pytest.mark.case("blueprints:RC-07")
def test_a_run_of_another_version_is_listed_as_changed_and_left_as_it_was(path: Path) -> None:
    effects: list[Any] = []
    with kernel(path) as session:
        run = started(session, old(effects))
        before, rows = run.view(), kinds(session, run.id)
    with kernel(path, new(effects)) as session:
        told = session.restore()
        run = only(session)

        assert [r.id for r in told.changed] == [run.id]
        assert (told.waiting, told.interrupted) == ([], [])
        assert (run.view(), kinds(session, run.id)) == (before, rows)
        assert "run.retry(fresh=True)" in repr(told)


@pytest.mark.case("blueprints:RC-07")
def test_it_takes_no_answer_and_says_what_may_be_done(path: Path) -> None:
    effects: list[Any] = []
    with kernel(path) as session:
        before = started(session, old(effects)).view()
    with kernel(path, new(effects)) as session:
        run = only(session)
        with pytest.raises(loom.AnswerRefused, match=r"retry\(fresh=True\)"):
            run.answer(True)

        assert run.view() == before
        assert len(effects) == 1


@pytest.mark.case("blueprints:RC-07")
def test_beginning_anew_takes_the_new_code_with_the_state_of_the_steps_beginning(path: Path) -> None:
    effects: list[Any] = []
    with kernel(path) as session:
        started(session, old(effects))
    with kernel(path, new(effects)) as session:
        run = only(session)
        run.retry(fresh=True)
        view = at_rest(run)

        assert effects == [["old", {"value": 0}], ["new", {"value": 0}]]
        assert view.pending_action is not None
        assert view.pending_action.request == {"context": "New?"}
        run.answer(True)
        assert at_rest(run).status == "completed"


@pytest.mark.case("blueprints:RC-07")
def test_from_then_on_it_is_a_run_of_the_new_version(path: Path) -> None:
    effects: list[Any] = []
    with kernel(path) as session:
        started(session, old(effects))
    with kernel(path, new(effects)) as session:
        run = only(session)
        run.retry(fresh=True)
        before = at_rest(run)
    with kernel(path, new(effects)) as session:
        run = only(session)
        assert session.restore().changed == []
        assert run.view() == before
        run.answer(True)
        assert at_rest(run).status == "completed"
        assert effects[-1] == "new recovers"


@pytest.mark.case("blueprints:RC-07")
@pytest.mark.parametrize("seen_before", [True, False])
def test_with_the_old_version_it_goes_on_as_it_was(path: Path, seen_before: bool) -> None:
    effects: list[Any] = []
    with kernel(path) as session:
        before = started(session, old(effects)).view()
    with kernel(path, *([new(effects)] if seen_before else []), old(effects)) as session:
        run = only(session)
        assert run.view() == before
        assert session.restore().changed == []
        run.answer(True)

        assert at_rest(run).status == "completed"
        assert effects[1:] == ["old recovers"]


@pytest.mark.case("blueprints:RC-07")
def test_a_step_that_had_not_begun_is_not_made_by_itself_with_another_version(path: Path) -> None:
    flow = interrupted_initializer(path)
    other = blueprint(loom.code(lambda: DONE), initialize=lambda context: 1)
    with kernel(path, other) as session:
        run = only(session)

        assert [r.id for r in session.restore().changed] == [run.id]
        assert at_rest(run).status == "failed"
        run.retry()
        assert at_rest(run).status == "completed"
    assert flow.flow_name == "fixture"


@pytest.mark.case("blueprints:RC-07")
def test_an_interrupted_step_that_is_made_again_with_another_version_may_diverge_and_then_begin_anew(path: Path) -> None:
    gate = Gate()

    def version(text: str) -> loom.Blueprint:
        async def first(access: Any) -> loom.StepResult:
            await access.state.update({"value": "one"})
            await gate()
            return DONE

        async def second(access: Any) -> loom.StepResult:
            await access.state.update({"value": "two"})
            await gate()
            return DONE

        return blueprint(loom.code(first if text == "one" else second))

    with kernel(path) as session:
        session.flow(version("one"), "x")
        gate.reached()
    gate.open()
    with kernel(path, version("two")) as session:
        run = only(session)
        run.retry()
        view = at_rest(run)
        assert view.last_error is not None
        assert view.last_error.code == "STEP_REPLAY_DIVERGED"
        run.retry(fresh=True)

        assert at_rest(run).status == "completed"


def test_a_failed_step_whose_code_was_corrected_goes_on_where_it_failed(session: loom.Loom) -> None:
    effects: list[str] = []

    def version(is_right: bool) -> loom.Blueprint:
        async def wrong(access: Any) -> loom.StepResult:
            verdict = await access.interaction.confirm("Go?")
            effects.append(f"heard {verdict.is_confirmed}")
            raise ValueError("a mistake")

        async def right(access: Any) -> loom.StepResult:
            verdict = await access.interaction.confirm("Go?")
            effects.append(f"heard {verdict.is_confirmed}")
            return DONE

        return blueprint(loom.code(right if is_right else wrong))

    run = started(session, version(False))
    run.answer(True)
    assert at_rest(run).status == "failed"
    session.define(version(True))
    run.retry()

    assert at_rest(run).status == "completed"
    assert effects == ["heard True", "heard True"]


def test_a_run_that_waits_in_this_kernel_goes_on_with_the_code_that_asked(session: loom.Loom) -> None:
    effects: list[Any] = []
    run = started(session, old(effects))
    session.define(new(effects))
    assert [changed.id for changed in session.restore().changed] == [run.id]
    run.answer(True)

    assert at_rest(run).status == "completed"
    assert effects == [["old", {"value": 0}]]


class Parses:
    def parse(self, value: Any) -> Any:
        return value


class ParsesOtherwise:
    def parse(self, value: Any) -> Any:
        return dict(value)


async def tool_one(given: Any, access: Any) -> Any:
    return 1


async def tool_two(given: Any, access: Any) -> Any:
    return 2


def agent(instructions: str = "Write.", output: Any = loom.StepResult, execute: Any = tool_one, given: Any = int) -> Any:
    tool = loom.define_agent_tool(id="t", description="", input_schema=given, output_schema=int, execute=execute)
    return loom.AgentSpec(name="writer", instructions=instructions, output_schema=output, tools=[tool])


async def one(access: Any) -> loom.StepResult:
    await access.interaction.confirm("Go?")
    return DONE


CHANGES: dict[str, tuple[Any, Any]] = {
    "a field of the State's schema": (
        lambda: blueprint(loom.code(one), schema=create_model("S", value=(int, ...))),
        lambda: blueprint(loom.code(one), schema=create_model("S", value=(int, ...), more=(int, 0))),
    ),
    "the parser of the State's schema": (
        lambda: blueprint(loom.code(one), schema=Parses()),
        lambda: blueprint(loom.code(one), schema=ParsesOtherwise()),
    ),
    "an initializer": (
        lambda: blueprint(loom.code(one), initialize=lambda context: {"value": 0}),
        lambda: blueprint(loom.code(one), initialize=lambda context: {"value": 1}),
    ),
    "a recover that is there now": (lambda: blueprint(loom.code(one)), lambda: blueprint(loom.code(recover=tool_one)(one))),
    "another step": (
        lambda: blueprint({"start": loom.code(one)}),
        lambda: blueprint({"start": loom.code(one), "then": loom.code(one)}),
    ),
    "the prompt of an agent": (
        lambda: blueprint({"start": loom.code(one), "then": agent()}),
        lambda: blueprint({"start": loom.code(one), "then": agent("Write well.")}),
    ),
    "what an agent has to give": (
        lambda: blueprint({"start": loom.code(one), "then": agent()}),
        lambda: blueprint({"start": loom.code(one), "then": agent(output=create_model("O", outcome=(str, ...), why=(str, "")))}),
    ),
    "the code of a tool": (
        lambda: blueprint({"start": loom.code(one), "then": agent()}),
        lambda: blueprint({"start": loom.code(one), "then": agent(execute=tool_two)}),
    ),
    "what a tool takes": (
        lambda: blueprint({"start": loom.code(one), "then": agent()}),
        lambda: blueprint({"start": loom.code(one), "then": agent(given=str)}),
    ),
}


@pytest.mark.case("blueprints:RC-07")
@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES.keys())
def test_what_matters_for_going_on_tells_one_version_from_another(before: Any, after: Any) -> None:
    assert compile_blueprint(before()).fingerprint == compile_blueprint(before()).fingerprint
    assert compile_blueprint(before()).fingerprint != compile_blueprint(after()).fingerprint


WITHOUT_SOURCE = """
import loomnb as loom
from loomnb.blueprints import compile_blueprint
async def ask(access):
    def inner(x): return x in {"a", "b", "c", "d"}
    if inner("a"):
        await access.%s.confirm("Go?")
    return {"outcome": "complete"}
class Ask:
    async def __call__(self, input, access):
        return {"outcome": %r}
def stage(code):
    return loom.BlueprintStage(state_schema=int, initialize_state=lambda c: 0, entry_step_name="s", steps={
        "s": loom.BlueprintStep(execution=code, on={"complete": loom.STAGE_END})}, on={"complete": loom.WORKFLOW_END})
for code in (loom.code(ask), Ask()):
    print(compile_blueprint(loom.Blueprint(flow_name="f", entry_stage_name="a", stages={"a": stage(code)})).fingerprint)
"""


def fingerprints(member: str, outcome: str, seed: str) -> list[str]:
    command = [sys.executable, "-c", f"exec({WITHOUT_SOURCE % (member, outcome)!r})"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE * 2)
    assert told.returncode == 0, told.stderr
    return told.stdout.split()


@pytest.mark.case("blueprints:RC-07")
def test_a_code_whose_text_cannot_be_found_is_the_same_in_every_process() -> None:
    """Its byte code tells it: without addresses and without the order of a set, both of which differ from process to process."""
    assert fingerprints("interaction", "complete", "1") == fingerprints("interaction", "complete", "2")


@pytest.mark.case("blueprints:RC-07")
def test_a_code_whose_text_cannot_be_found_is_told_from_another() -> None:
    before, after = fingerprints("interaction", "complete", "1"), fingerprints("interactions", "completed", "1")

    assert [a == b for a, b in zip(before, after, strict=True)] == [False, False]
