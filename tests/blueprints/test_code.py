"""`@loom.code`: a function as a step's code, and what a notebook does to it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import loomnb as loom
from loomnb.blueprints.code import recover_of
from loomnb.testing import drive
from tests.helpers import at_rest


def blueprint(code: Any, name: str = "coded") -> loom.Blueprint:
    return loom.Blueprint(
        flow_name=name,
        entry_stage_name="only",
        stages={
            "only": loom.BlueprintStage(
                state_schema=int,
                initialize_state=lambda _: 0,
                entry_step_name="step",
                steps={"step": loom.BlueprintStep(execution=code, on={"done": loom.STAGE_END})},
                on={"done": loom.WORKFLOW_END},
            )
        },
    )


async def both(input: None, access: Any) -> loom.StepResult:  # noqa: A002
    assert input is None
    assert access.state.value == 0
    return loom.StepResult("done")


async def one(access: Any) -> loom.StepResult:
    assert access.state.value == 0
    return loom.StepResult("done")


async def named_otherwise(a: Any) -> loom.StepResult:
    assert a.state.value == 0
    return loom.StepResult("done")


async def none() -> loom.StepResult:
    return loom.StepResult("done")


def plain(access: Any) -> dict[str, str]:
    assert access.state.value == 0
    return {"outcome": "done"}


class Caller:
    async def __call__(self, input: None, access: Any) -> dict[str, str]:  # noqa: A002
        return {"outcome": "done"}


@pytest.mark.parametrize("function", [both, one, named_otherwise, none, plain], ids=lambda f: f.__name__)
def test_a_code_is_handed_what_its_function_asks_for(function: Any) -> None:
    assert drive(blueprint(loom.code(function)), "x").status == "completed"


@pytest.mark.parametrize("executable", [both, Caller()], ids=["function", "object"])
def test_any_callable_of_input_and_access_is_a_code(executable: Any) -> None:
    assert drive(blueprint(executable), "x").status == "completed"


def test_a_function_of_three_arguments_is_refused_when_it_is_decorated() -> None:
    def three(a: Any, b: Any, c: Any) -> None: ...

    with pytest.raises(loom.DefinitionError, match="takes 3 arguments"):
        loom.code(three)


def test_a_recover_may_be_given_in_either_way() -> None:
    async def goes_on(saved: Any, access: Any) -> loom.StepResult:
        return loom.StepResult("done")

    decorated = loom.code(one)
    decorated.recover(goes_on)

    assert recover_of(decorated) is not None
    assert recover_of(loom.code(recover=goes_on)(one)) is not None
    assert recover_of(loom.code(one)) is None


def test_a_member_called_recover_makes_any_callable_recoverable() -> None:
    class Asks(Caller):
        async def recover(self, saved: Any, access: Any) -> dict[str, str]:
            return {"outcome": "done"}

    assert recover_of(Asks()) is not None


CELL = """
@loom.code
async def fix_me(access):
    return loom.StepResult({outcome!r})
"""


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Says which cell is at work, as a kernel does."""

    def be(name: str) -> None:
        monkeypatch.setattr(sys.modules["loomnb.blueprints.code"], "cell_name", lambda: name)

    be("cell-1")
    return be


def run_cell(outcome: str) -> Any:
    """A cell of a notebook, run again."""
    names: dict[str, Any] = {"__name__": "__main__", "loom": loom}
    exec(CELL.format(outcome=outcome), names)
    return names["fix_me"]


@pytest.mark.usefixtures("cell")
def test_a_cell_that_is_run_again_replaces_the_code_in_a_blueprint_of_another_cell(session: loom.Loom) -> None:
    run = session.flow(blueprint(run_cell("wrong"), "fixed_in_a_cell"), "x")
    at_rest(run)
    run_cell("done")
    run.retry()

    assert run.wait() == "done"


def test_a_plain_def_that_writes_is_told_to_be_async(session: loom.Loom) -> None:
    def writes(access: Any) -> loom.StepResult:
        access.state.update(1)
        return loom.StepResult("done")

    driven = drive(blueprint(loom.code(writes)), "x")

    assert driven.status == "failed"
    assert "async def" in str(driven.exception)


def test_a_code_of_the_same_name_in_another_cell_is_another_code(session: loom.Loom, cell: Any) -> None:
    first = blueprint(run_cell("done"), "first_of_two")
    cell("cell-2")
    run_cell("wrong")

    assert session.flow(first, "x").wait() == "done"


def test_where_no_cell_is_known_nothing_is_replaced(session: loom.Loom) -> None:
    first = blueprint(run_cell("done"), "of_no_cell")
    run_cell("wrong")

    assert session.flow(first, "x").wait() == "done"


ASKS = """
@loom.code
async def ask_me(access):
    await access.state.update(5)
    await access.interaction.confirm({text!r})
    return loom.StepResult("done")
"""


def run_asking_cell(text: str) -> Any:
    names: dict[str, Any] = {"__name__": "__main__", "loom": loom}
    exec(ASKS.format(text=text), names)
    return names["ask_me"]


@pytest.mark.usefixtures("cell")
def test_a_code_that_was_changed_while_it_asks_is_told_and_goes_on_as_it_was(session: loom.Loom) -> None:
    run = session.flow(blueprint(run_asking_cell("old?"), "changed_here"), "x")
    at_rest(run)
    run_asking_cell("new?")

    assert "was changed while this question is open" in run.advice
    run.answer(True)
    assert run.wait() == "done"


@pytest.mark.usefixtures("cell")
def test_a_step_that_waits_here_begins_anew_with_the_new_code_and_its_first_state(session: loom.Loom) -> None:
    run = session.flow(blueprint(run_asking_cell("old?"), "begun_anew"), "x")
    at_rest(run)
    old = run.pending[0].id
    run_asking_cell("new?")
    run.retry(fresh=True)
    at_rest(run)

    assert [ask.context for ask in run.pending] == ["new?"]
    assert run.advice == ""
    with pytest.raises(loom.AnswerRefused):
        run.answer(old, True)
    states = [name for (name,) in session.sql("select name from step_calls order by seq").fetchall()]
    assert states == ["state.update", "state.update"]


def test_an_exclusive_run_that_failed_is_not_made_again_beside_another(session: loom.Loom) -> None:
    async def fails(access: Any) -> loom.StepResult:
        raise ValueError("not yet")

    alone = blueprint(loom.code(fails), "alone")
    run = session.flow(loom.Blueprint(**{**vars(alone), "exclusive": True}), "x")
    at_rest(run)
    other = session.flow(blueprint(run_asking_cell("?"), "beside"), "x")
    at_rest(other)
    with pytest.raises(loom.StoreBusy):
        run.retry()

    assert run.status == "failed"


def test_a_blueprint_is_drawn_before_it_runs() -> None:
    drawn = loom.graph(blueprint(loom.code(plain), "drawn"))

    assert [(n.name, n.group) for n in drawn.nodes] == [("start", ""), ("only/step", "only"), ("end", "")]


def test_the_artifacts_of_a_run_are_those_it_wrote_whatever_others_made_of_them(session: loom.Loom) -> None:
    async def writes(access: Any) -> loom.StepResult:
        found = await access.storage.get_artifact("f", "s")
        payload = {"flowName": "f", "stageName": "s", "data": "first" if found is None else "second"}
        operation = {"type": "create_artifact", "id": "a", "payload": payload}
        if found is not None:
            operation |= {"type": "replace_artifact", "expectedRevision": found.revision}
        await access.storage.commit([operation])
        return loom.StepResult("done")

    first = session.flow(blueprint(loom.code(writes), "writes_first"), "x")
    first.wait()
    second = session.flow(blueprint(loom.code(writes), "writes_second"), "x")
    second.wait()

    assert ([a.data for a in first.artifacts], [a.data for a in second.artifacts]) == (["first"], ["second"])


def test_a_write_that_was_not_awaited_is_told_in_the_log() -> None:
    async def forgets(access: Any) -> loom.StepResult:
        access.state.update(1)
        return loom.StepResult("done")

    driven = drive(blueprint(loom.code(forgets)), "x")

    assert driven.status == "completed"
    assert "Write `await access.state.update(…)`" in driven.log


def test_a_question_without_an_answer_ends_a_drive_by_name() -> None:
    async def asks(access: Any) -> loom.StepResult:
        await access.interaction.confirm("Really?")
        return loom.StepResult("done")

    with pytest.raises(loom.NoFrontEnd, match="Really"):
        drive(blueprint(loom.code(asks)), "x")


def test_a_project_that_is_not_there_says_how_to_get_one() -> None:
    async def reads(access: Any) -> loom.StepResult:
        await access.project.read("x")
        return loom.StepResult("done")

    driven = drive(blueprint(loom.code(reads)), "x")

    assert 'loom.flow(…, project="folder")' in str(driven.exception)
