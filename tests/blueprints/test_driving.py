"""Blueprints driven by `loomnb.testing`, as an author's own tests do it."""

from __future__ import annotations

from typing import Any

import loomnb as loom
from loomnb.testing import ScriptedModel, drive, run_pass


@loom.code
async def ask(access: Any) -> loom.StepResult:
    verdict = await access.interaction.confirm("Publish it?")
    return loom.StepResult("good" if verdict else "bad")


@loom.code
async def publish(access: Any) -> loom.StepResult:
    payload = {"flow_name": "driven", "stage_name": "only", "data": access.state.value}
    await access.storage.commit([{"type": "create_artifact", "id": "a", "payload": payload}])
    return loom.StepResult("done")


def blueprint(first: Any = ask) -> loom.Blueprint:
    return loom.Blueprint(
        flow_name="driven",
        entry_stage_name="only",
        stages={
            "only": loom.BlueprintStage(
                state_schema=str,
                initialize_state=lambda context: context.intent,
                entry_step_name="first",
                steps={
                    "first": loom.BlueprintStep(execution=first, on={"good": "publish", "bad": loom.STAGE_END}),
                    "publish": loom.BlueprintStep(execution=publish, on={"done": loom.STAGE_END}),
                },
                on={"done": loom.WORKFLOW_END, "bad": loom.WORKFLOW_END},
            )
        },
    )


def test_a_blueprint_is_driven_to_its_end_with_its_answers() -> None:
    driven = drive(blueprint(), "text", answers={"confirm": True})

    assert (driven.status, driven.result, [a.data for a in driven.artifacts]) == ("completed", "done", ["text"])


def test_its_first_pass_ends_with_its_question() -> None:
    driven = run_pass(blueprint(), "text")

    assert [ask.context for ask in driven.asks] == ["Publish it?"]


def test_a_scripted_model_plays_its_agents() -> None:
    agent = loom.AgentSpec(name="judge", instructions="Judge.")
    driven = drive(blueprint(agent), "text", models=ScriptedModel([{"outcome": "good"}]))

    assert driven.result == "done"
