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
    assert session.flow(BLUEPRINT, "1.2").title == "Release notes weekly"


def test_a_failed_step_says_where_its_error_is_and_not_what_it_said(session: loom.Loom) -> None:
    run = session.flow(BLUEPRINT, "1.2")
    at_rest(run)

    for told in run._repr_mimebundle_().values():
        assert "run.traceback" in told
        assert "run.retry()" in told.replace("\\", "")  # Markdown escapes
        assert "hunter2" not in told
        assert "swordfish" not in told
