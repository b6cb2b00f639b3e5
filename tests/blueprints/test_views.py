"""A run as the contract shows it: which views can be, that each is a copy, and what it never tells."""

from __future__ import annotations

import json
from typing import Any

import pytest

import loomnb as loom
from tests.blueprints.flows import f2, one_step, opened, rest, the_error
from tests.helpers import StillSource, until

DONE = loom.StepResult("complete")
RUN_ID = "RUN-20260102T030405000Z-1"


def view(**changes: Any) -> dict[str, Any]:
    """The JSON of a run that moves, with changes; None takes a member away."""
    told: dict[str, Any] = {
        "runId": RUN_ID,
        "flowName": "fixture",
        "status": "running",
        "cursor": {"stageName": "first", "stepName": "start"},
        "execution": {"source": "cli", "agentExecutor": "service"},
        "createdAt": "2026-01-02T03:04:05.000Z",
        "updatedAt": "2026-01-02T03:04:05.000Z",
        **changes,
    }
    return {name: value for name, value in told.items() if value is not Missing}


class Missing:
    pass


def action(**changes: Any) -> dict[str, Any]:
    told = {
        "id": "ASK-1",
        "flowName": "fixture",
        "cursor": {"stageName": "first", "stepName": "start"},
        "kind": "user_ask_confirmation",
        "request": {"context": "Go?"},
        "createdAt": "2026-01-02T03:04:05.000Z",
        **changes,
    }
    return {name: value for name, value in told.items() if value is not Missing}


ERROR = {"code": "STEP_EXECUTION_FAILED", "message": "A step failed.", "retryable": False}

FINE: dict[str, dict[str, Any]] = {
    "running": view(),
    "waiting": view(status="waiting", pendingAction=action()),
    "completed": view(status="completed"),
    "failed": view(status="failed", lastError=ERROR),
}


@pytest.mark.case("blueprints:RV-03")
@pytest.mark.parametrize("status", FINE)
def test_each_status_has_a_view_that_can_be(status: str) -> None:
    assert loom.FlowRunView.parse(FINE[status]).dump() == FINE[status]


CANNOT_BE: dict[str, dict[str, Any]] = {
    "waits for nothing": view(status="waiting"),
    "moves and waits": view(pendingAction=action()),
    "ended and waits": view(status="completed", pendingAction=action()),
    "failed and waits": view(status="failed", lastError=ERROR, pendingAction=action()),
    "failed without an error": view(status="failed"),
    "moves with an error": view(lastError=ERROR),
    "waits with an error": view(status="waiting", pendingAction=action(), lastError=ERROR),
    "ended with an error": view(status="completed", lastError=ERROR),
    "waits for another flow": view(status="waiting", pendingAction=action(flowName="other")),
    "waits in another stage": view(status="waiting", pendingAction=action(cursor={"stageName": "second", "stepName": "start"})),
    "waits in another step": view(status="waiting", pendingAction=action(cursor={"stageName": "first", "stepName": "review"})),
    "an action of no kind": view(status="waiting", pendingAction=action(kind="agent")),
    "an action without an id": view(status="waiting", pendingAction=action(id="")),
    "an action that is null": view(pendingAction=None),
    "an error that is null": view(lastError=None),
    "an error that no runtime has": view(status="failed", lastError={**ERROR, "code": "CONFLICT"}),
    "an error with a cause": view(status="failed", lastError={**ERROR, "cause": "secret"}),
    "an error that says maybe": view(status="failed", lastError={**ERROR, "retryable": "no"}),
    "a status of another vocabulary": view(status="canceled", lastError=ERROR),
    "no status": view(status=Missing),
    "an intent": view(intent="go"),
    "a State": view(state={}),
    "an empty id": view(runId=""),
    "no flow": view(flowName=Missing),
    "an unknown source": view(execution={"source": "me", "agentExecutor": "service"}),
}

TIMES: list[Any] = [
    "",
    "2026-01-02",
    "2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05.000",
    "2026-01-02T03:04:05.000000Z",
    "2026-01-02T03:04:05.000+00:00",
    "2026-13-02T03:04:05.000Z",
    "2026-02-30T03:04:05.000Z",
    "2026-01-02T25:04:05.000Z",
    "2026-01-02T03:04:05.000Z\n",
    " 2026-01-02T03:04:05.000Z",
    "٢٠٢٦-01-02T03:04:05.000Z",
    "2026-01-02t03:04:05.000z",
    1767323045000,
    None,
    Missing,
]


def refused(told: Any) -> str:
    with pytest.raises(loom.StepError) as error:
        loom.FlowRunView.parse(told)
    return error.value.code


@pytest.mark.case("blueprints:RV-03")
@pytest.mark.parametrize("what", CANNOT_BE)
def test_a_view_of_a_run_that_cannot_be_is_refused(what: str) -> None:
    assert refused(CANNOT_BE[what]) == "RUN_STATE_INVALID"


@pytest.mark.case("blueprints:RV-03")
@pytest.mark.parametrize("member", ["createdAt", "updatedAt"])
@pytest.mark.parametrize("time", TIMES, ids=range(len(TIMES)))
def test_a_time_that_is_none_is_refused(member: str, time: Any) -> None:
    assert refused(view(**{member: time})) == "RUN_STATE_INVALID"


@pytest.mark.case("blueprints:RV-03")
@pytest.mark.parametrize("time", TIMES, ids=range(len(TIMES)))
def test_a_time_of_an_action_that_is_none_is_refused(time: Any) -> None:
    assert refused(view(status="waiting", pendingAction=action(createdAt=time))) == "RUN_STATE_INVALID"


@pytest.mark.case("blueprints:RV-03")
@pytest.mark.parametrize("told", [None, [], "view", 1, {}], ids=range(5))
def test_what_is_no_view_at_all_is_refused(told: Any) -> None:
    assert refused(told) == "RUN_STATE_INVALID"


CURSORS: list[Any] = [
    1,
    None,
    "",
    "first/start",
    [],
    ["first", "start"],
    {},
    {"stageName": "first"},
    {"stepName": "start"},
    {"stageName": "", "stepName": "start"},
    {"stageName": "first", "stepName": ""},
    {"stageName": "first", "stepName": None},
    {"stageName": 1, "stepName": "start"},
    {"stageName": "first", "stepName": "start", "more": 1},
    Missing,
]


@pytest.mark.case("blueprints:RV-04")
@pytest.mark.parametrize("cursor", CURSORS, ids=range(len(CURSORS)))
def test_an_action_whose_cursor_is_none_is_refused(cursor: Any) -> None:
    assert refused(view(status="waiting", pendingAction=action(cursor=cursor))) == "RUN_STATE_INVALID"


@pytest.mark.case("blueprints:RV-04")
@pytest.mark.parametrize("cursor", CURSORS, ids=range(len(CURSORS)))
def test_a_view_whose_cursor_is_none_is_refused(cursor: Any) -> None:
    assert refused(view(cursor=cursor)) == "RUN_STATE_INVALID"


# -- RV-02: copies -----------------------------------------------------------------------------------


def asking(kind: str) -> loom.Blueprint:
    async def step(access: Any) -> loom.StepResult:
        if kind == "confirm":
            await access.interaction.confirm("Go?")
        else:
            options = [{"id": "o", "label": "Yes"}]
            await access.interaction.ask_questions([{"id": "q", "question": "?", "isSkippable": False, "options": options}])
        return DONE

    return one_step(step)


@pytest.mark.case("blueprints:RV-02")
@pytest.mark.parametrize("kind", ["confirm", "questions"])
def test_a_view_that_is_changed_changes_no_run(session: loom.Loom, kind: str) -> None:
    run = session.flow(asking(kind), "go")
    seen = rest(run)
    before = json.dumps(seen.dump())
    assert seen.pending_action is not None
    request: Any = seen.pending_action.request
    if kind == "confirm":
        request["context"] = "changed"
    else:
        request[0]["options"].clear()
        request[0]["question"] = "changed"

    assert json.dumps(run.view().dump()) == before
    assert json.dumps([a.id for a in run.pending]) == json.dumps([seen.pending_action.id])


@pytest.mark.case("blueprints:RV-02")
@pytest.mark.parametrize("path", [("status",), ("cursor", "step_name"), ("pending_action", "id"), ("pending_action",)])
def test_a_view_is_frozen(session: loom.Loom, path: tuple[str, ...]) -> None:
    seen: Any = rest(session.flow(asking("confirm"), "go"))
    for name in path[:-1]:
        seen = getattr(seen, name)

    with pytest.raises(ValueError, match="frozen"):
        setattr(seen, path[-1], "changed")


@pytest.mark.case("blueprints:RV-02")
def test_a_question_is_shown_as_it_was_asked(session: loom.Loom) -> None:
    run = session.flow(asking("questions"), "go")
    pending = rest(run).dump()["pendingAction"]

    assert pending["id"].startswith("ASK-")
    assert (pending["kind"], pending["flowName"]) == ("user_ask_questions", "one")
    assert pending["cursor"] == {"stageName": "stage", "stepName": "step"}
    assert pending["request"] == [{"id": "q", "question": "?", "isSkippable": False, "options": [{"id": "o", "label": "Yes"}]}]


# -- what every view is ------------------------------------------------------------------------------


@pytest.mark.case("blueprints:RV-03")
def test_what_does_not_apply_is_left_out(session: loom.Loom) -> None:
    told = rest(session.flow(f2(), "go")).dump()

    assert list(told) == ["runId", "flowName", "status", "cursor", "execution", "createdAt", "updatedAt"]


@pytest.mark.case("blueprints:RV-03")
def test_a_view_tells_neither_intent_nor_state_nor_answers(session: loom.Loom) -> None:
    async def step(access: Any) -> loom.StepResult:
        await access.state.update({"s": "the state"})
        await access.interaction.confirm("Go?")
        await access.interaction.confirm("Sure?")
        return DONE

    run = session.flow(one_step(step), "the intent")
    rest(run)
    run.answer({"isConfirmed": True, "feedback": "the feedback"})
    until(run, lambda: bool(run.pending) and run.pending[0].context == "Sure?")
    told = json.dumps(run.view().dump())

    assert [word for word in ("the state", "the intent", "the feedback") if word in told] == []


@pytest.mark.case("blueprints:RV-03")
@pytest.mark.parametrize("status", ["running", "waiting", "completed", "failed", "stopped"])
def test_what_a_run_shows_is_a_view_that_can_be(here: Any, status: str) -> None:
    async def step(access: Any) -> loom.StepResult:
        if status in ("waiting", "stopped"):
            await access.interaction.confirm("Go?")
        if status == "failed":
            raise ValueError
        return DONE

    with opened(here / "s.duckdb", StillSource()) as session:
        run = session.flow(one_step(step), "go", source="studio")
        seen = run.view() if status == "running" else rest(run)
        if status == "stopped":
            run.cancel()
            until(run, lambda: run.status == "canceled")
            seen = run.view()
            assert the_error(seen) == "RUN_STOPPED"
        rest(run)

    assert loom.FlowRunView.parse(json.loads(json.dumps(seen.dump()))) == seen
    assert seen.execution.dump() == {"source": "studio", "agentExecutor": "service"}


@pytest.mark.case("blueprints:RV-03")
@pytest.mark.parametrize("source", ["", "me", None, 1, "CLI"])
def test_an_unknown_source_starts_nothing(session: loom.Loom, source: Any) -> None:
    with pytest.raises(loom.InvalidRequest):
        session.flow(f2(), "go", source=source)

    assert session.flows() == []
