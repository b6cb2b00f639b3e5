"""`@loom.code`: a function as a step's code, and what a notebook does to it."""

from __future__ import annotations

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


def run_cell(outcome: str) -> Any:
    """A cell of a notebook, run again."""
    names: dict[str, Any] = {"__name__": "__main__", "loom": loom}
    exec(CELL.format(outcome=outcome), names)
    return names["fix_me"]


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
