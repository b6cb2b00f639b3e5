"""What a blueprint's run tells of itself where nobody is at the kernel: its title, and what to do about a step that failed."""

from __future__ import annotations

from typing import Any

import loomnb as loom
from tests.helpers import at_rest


@loom.code
async def draft(access: loom.CodeExecutionAccess) -> loom.StepResult:
    error = ValueError("the password is hunter2")
    error.add_note("it was swordfish before")
    raise error


def nothing(context: loom.InitializerContext) -> Any:
    return {}


BLUEPRINT = loom.Blueprint(
    flow_name="release-notes_weekly",
    entry_stage_name="writing",
    stages={
        "writing": loom.BlueprintStage(
            state_schema=dict[str, str],
            initialize_state=nothing,
            entry_step_name="draft",
            steps={"draft": loom.BlueprintStep(execution=draft, on={"done": loom.STAGE_END})},
            on={"done": loom.WORKFLOW_END},
        )
    },
)


def test_a_title_nobody_wrote_is_the_name_in_words(session: loom.Loom) -> None:
    assert session.flow(BLUEPRINT, "1.2").title == "Release notes weekly: 1.2"


def test_a_failed_step_says_where_its_error_is_and_not_what_it_said(session: loom.Loom) -> None:
    run = session.flow(BLUEPRINT, "1.2")
    at_rest(run)

    for told in run._repr_mimebundle_().values():
        assert "run.traceback" in told
        assert "run.retry()" in told.replace("\\", "")  # Markdown escapes
        assert "hunter2" not in told
        assert "swordfish" not in told


@loom.code
async def keep(access: loom.CodeExecutionAccess) -> loom.StepResult:
    told = {"text": {"title": "Notes", "body": "- faster"}, "rows": [{"dish": "soup", "price": 5.5}], "tree": [[1], [2]]}
    for stage, data in told.items():
        payload = {"flowName": "kept", "stageName": stage, "data": data}
        await access.storage.commit([{"type": "create_artifact", "id": stage, "payload": payload}])
    return loom.StepResult("done")


KEEPS = loom.Blueprint(
    flow_name="kept",
    entry_stage_name="all",
    stages={
        "all": loom.BlueprintStage(
            state_schema=dict[str, str],
            initialize_state=nothing,
            entry_step_name="keep",
            steps={"keep": loom.BlueprintStep(execution=keep, on={"done": loom.STAGE_END})},
            on={"done": loom.WORKFLOW_END},
        )
    },
)


def test_the_page_of_a_run_shows_its_artifacts_as_their_viewer_does(session: loom.Loom) -> None:
    run = session.flow(KEEPS, "all")
    run.wait()
    told = run._repr_mimebundle_()

    for stage, revision in (("text", 1), ("rows", 2), ("tree", 3)):
        for form in told.values():
            assert form.replace("\\", "").count(f"kept / {stage}, revision {revision}") == 1
    assert "<li>faster</li>" in told["text/html"]
    assert "<td>soup</td>" in told["text/html"]
    assert '{"data": [[1], [2]]}' in told["text/plain"]
    assert "Result</strong> <span>done" in told["text/html"]
