"""What the head of a panel says of a blueprint's run, and what the artifact viewer answers: no kernel, only messages."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any

import pytest
from loomnb_widgets.artifact import ArtifactViewer
from loomnb_widgets.views import artifact_view, head_view

import loomnb as loom
from loomnb.present import ArtifactView, Revision
from tests.helpers import at_rest


def nothing(context: loom.InitializerContext) -> Any:
    return {"text": "<b>bold</b>"}


@loom.code
async def draft(access: loom.CodeExecutionAccess) -> loom.StepResult:
    return loom.StepResult("done")


@loom.code
async def check(access: loom.CodeExecutionAccess) -> loom.StepResult:
    await access.interaction.confirm("Is it good?")
    return loom.StepResult("done")


BLUEPRINT = loom.Blueprint(
    flow_name="holdings",
    entry_stage_name="spec",
    stages={
        "spec": loom.BlueprintStage(
            state_schema=dict[str, str],
            initialize_state=nothing,
            entry_step_name="draft",
            steps={
                "draft": loom.BlueprintStep(execution=draft, on={"done": "check/it"}),
                "check/it": loom.BlueprintStep(execution=check, on={"done": loom.STAGE_END}),
            },
            on={"done": "build"},
        ),
        "build": loom.BlueprintStage(
            state_schema=dict[str, str],
            initialize_state=nothing,
            entry_step_name="write",
            steps={"write": loom.BlueprintStep(execution=draft, on={"done": loom.STAGE_END})},
            on={"done": loom.WORKFLOW_END},
        ),
    },
)


@loom.workflow(name="holds_nothing")
class Plain(loom.BaseWorkflow[Any]):
    @loom.transition(to="waiting")
    def begin(self) -> None:
        self.assign_state(value=1)

    @loom.transition(from_="waiting", to="end", wait=True)
    def good(self) -> None: ...


@pytest.fixture
def run(session: loom.Loom) -> loom.FlowRun:
    run = session.flow(BLUEPRINT, "show it")
    at_rest(run)
    return run


def test_the_head_of_a_workflow_says_nothing_of_stages(session: loom.Loom) -> None:
    run = session.start(Plain)
    at_rest(run)

    assert {"stages", "state_html", "artifacts"}.isdisjoint(head_view(run.record))


def test_the_head_of_a_blueprints_run_says_where_it_was_and_is(run: loom.FlowRun) -> None:
    head = head_view(run.record)

    assert head["stages"] == [
        {
            "name": "spec",
            "steps": [
                {"name": "draft", "current": False, "visited": True},
                {"name": "check/it", "current": True, "visited": True},
            ],
            "current": True,
            "visited": True,
        },
        {"name": "build", "steps": [{"name": "write", "current": False, "visited": False}], "current": False, "visited": False},
    ]
    assert head["place"] == "spec/check/it"
    assert "enter → spec/draft" in run.graph().text
    assert "&lt;b&gt;bold" in head["state_html"]
    assert "artifacts" not in head


def test_names_are_read_as_they_were_written(run: loom.FlowRun) -> None:
    run.answer(True)
    at_rest(run)
    head = head_view(run.record)

    assert [stop["place"] for stop in head["path"]] == ["start", "spec/draft", "spec/check/it", "build", "build/write", "end"]
    assert "%" not in run.graph().text + str(run.story())


def test_a_step_that_waits_for_a_person_is_not_shown_at_work(run: loom.FlowRun) -> None:
    run.record.attempt_started -= 10

    assert head_view(run.record)["progress"] is None
    assert head_view(run.record)["status"] == "waiting"
    assert run.is_settled_below(), "a page without a person would be saved only seconds later"


def test_the_seconds_of_a_step_do_not_count_the_wait_for_its_answer(session: loom.Loom) -> None:
    @loom.code
    async def slow(access: loom.CodeExecutionAccess) -> loom.StepResult:
        await access.interaction.confirm("Is it good?")
        await asyncio.sleep(1.2)
        return loom.StepResult("done")

    stage = loom.BlueprintStage(
        state_schema=dict[str, str],
        initialize_state=nothing,
        entry_step_name="slow",
        steps={"slow": loom.BlueprintStep(execution=slow, on={"done": loom.STAGE_END})},
        on={"done": loom.WORKFLOW_END},
    )
    run = session.flow(loom.Blueprint(flow_name="slow", entry_stage_name="only", stages={"only": stage}), "slowly")
    at_rest(run)
    run.record.attempt_started -= 100
    run.answer(True)
    time.sleep(1.1)

    assert head_view(run.record)["progress"]["since"] < 2


def test_the_artifacts_of_the_record_are_shown_and_the_head_stays_small(
    run: loom.FlowRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    datas: list[Any] = ["# Title", {"deep": [{"x": "y" * 5000}] * 500}, "word " * 50_000]
    found = [
        SimpleNamespace(id=f"a-{i}", flow_name="f", stage_name=f"s{i}", revision=i, data=data) for i, data in enumerate(datas, 1)
    ]
    monkeypatch.setattr(run.record, "artifacts", found)
    shown = head_view(run.record)["artifacts"]

    assert shown[0] == {"id": "a-1", "flow": "f", "stage": "s1", "revision": 1, "html": "<h1>Title</h1>"}
    assert all(len(one["html"]) < 20_000 for one in shown)
    assert "loom-tree" in shown[1]["html"]
    assert "too long" in artifact_view(found[2])["html"]


# -- the viewer -----------------------------------------------------------------------------------


class _Lane:
    def route(self, widget: Any, custom: Any) -> None:
        self.say = custom


class _Here(Executor):
    def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:  # type: ignore[override]
        fn(*args, **more)
        return Future()


def answered(message: dict[str, Any], *data: Any) -> dict[str, Any]:
    """What the viewer of revisions 1, 2, … says to a message."""
    revisions = [Revision(number, one, "") for number, one in enumerate(data, 1)]
    view = ArtifactView(flow="f", stage="s", current=revisions[-1], earlier=lambda: revisions)
    lane, said = _Lane(), []
    viewer = ArtifactViewer(view, lane, _Here())  # type: ignore[arg-type]
    viewer.send = lambda content, buffers=None: said.append(content)
    lane.say({"n": 1, **message})
    (answer,) = said
    return answer


def test_only_what_fits_is_offered_and_a_diff_only_where_there_are_two() -> None:
    show = {"type": "show", "revision": 1}

    assert answered(show, "text")["forms"] == ["markdown", "raw"]
    assert answered(show, [{"a": 1}], 2)["forms"] == ["table", "tree", "diff", "raw"]
    assert answered({**show, "form": "table"}, "text", 2)["form"] == "markdown"


def test_a_diff_is_since_the_one_before_or_the_chosen_one_and_of_the_first_to_the_next() -> None:
    def between(revision: int, **more: Any) -> tuple[str, int]:
        answer = answered({"type": "show", "form": "diff", "revision": revision, **more}, 1, 2, 3)
        return answer["html"].partition(":")[0].removeprefix("<p>"), answer["against"]

    assert between(3) == ("From revision 2 to revision 3", 2)
    assert between(3, against=1) == ("From revision 1 to revision 3", 1)
    assert between(2, against=3) == ("From revision 3 to revision 2", 3)
    assert between(1) == ("From revision 1 to revision 2", 2)
    assert between(3, against=3) == ("From revision 2 to revision 3", 2)


def test_a_branch_and_the_raw_text_are_had_by_message() -> None:
    data = {"rows": list(range(500))}

    assert ">499<" in answered({"type": "branch", "revision": 1, "path": ["rows"], "start": 450}, data)["html"]
    assert answered({"type": "raw", "revision": 1}, data)["text"].startswith('{\n  "rows": [')


def test_what_cannot_be_shown_says_so() -> None:
    answer = answered({"type": "show", "revision": 1, "form": "table", "start": "x"}, [{"a": 1}])

    assert "This cannot be shown: ValueError" in answer["html"]
