"""A whole flow as people write one: a draft is confirmed, and what was confirmed is committed, or nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from tests.blueprints.flows import END, LEAVE, outcome_of, rest, the_error
from tests.helpers import until

DONE = loom.StepResult("complete")
FLOW, STAGE = "specification", "draft"


class Draft(BaseModel):
    """What is confirmed, and the revision of the artifact it was made from."""

    text: str
    baseline: int | None = None
    confirmed: str | None = None


def payload(data: Any) -> dict[str, Any]:
    return {"flowName": FLOW, "stageName": STAGE, "data": data}


async def analyze(access: Any) -> loom.StepResult:
    """Take the current artifact as the baseline."""
    current = await access.storage.get_artifact(FLOW, STAGE)
    await access.state.update({**access.state.value, "baseline": current.revision if current else None})
    return DONE


async def confirm(access: Any) -> loom.StepResult:
    """Ask, and remember what was shown."""
    shown = access.state.value["text"]
    verdict = await access.interaction.confirm(f"Publish?\n\n{shown}")
    if not verdict.is_confirmed:
        return loom.StepResult("revise")
    await access.state.update({**access.state.value, "confirmed": shown})
    return DONE


async def revise(access: Any) -> loom.StepResult:
    """A new draft; what was confirmed of the former one does not hold for it."""
    await access.state.update({**access.state.value, "text": access.state.value["text"] + " (revised)"})
    return DONE


async def finalize(access: Any) -> loom.StepResult:
    """Commit what was confirmed, if that is still what there is."""
    draft = Draft.model_validate(access.state.value)
    current = await access.storage.get_artifact(FLOW, STAGE)
    if draft.confirmed != draft.text:
        raise ValueError("the draft was changed after it was confirmed")
    if (current.revision if current else None) != draft.baseline:
        raise ValueError("somebody else has changed the artifact")
    write = {"type": "create_artifact", "id": "spec"}
    if current is not None:
        write = {"type": "replace_artifact", "id": current.id, "expectedRevision": current.revision}
    await access.storage.commit(
        [
            {**write, "payload": payload(draft.text)},
            {"type": "append_record", "id": f"record of {draft.text}", "payload": payload(draft.text)},
        ]
    )
    await access.state.clear()
    return DONE


async def nothing(access: Any) -> loom.StepResult:
    return DONE


def specification(between: Callable[[Any], Any] = nothing) -> loom.Blueprint:
    """The flow; `between` is a step between the confirmation and the commit."""

    async def look(access: Any) -> loom.StepResult:
        assert access.state.value is loom.ABSENT
        return DONE

    def step(code: Any, **on: Any) -> loom.BlueprintStep:
        return loom.BlueprintStep(execution=loom.code(code), on=on)

    stage = loom.BlueprintStage(
        state_schema=Draft,
        initialize_state=lambda context: {"text": context.intent},
        entry_step_name="analyze",
        steps={
            "analyze": step(analyze, complete="confirm"),
            "confirm": step(confirm, complete="between", revise="revise"),
            "revise": step(revise, complete="confirm"),
            "between": step(between, complete="finalize"),
            "finalize": step(finalize, complete="look"),
            "look": step(look, complete=LEAVE),
        },
        on={"complete": END},
    )
    return loom.Blueprint(flow_name=FLOW, entry_stage_name=STAGE, stages={STAGE: stage}, exclusive=True)


def confirmed(session: loom.Loom, blueprint: loom.Blueprint, intent: str) -> loom.FlowRun:
    """A run that was confirmed, at its end."""
    run = session.flow(blueprint, intent)
    view = rest(run)
    assert view.pending_action is not None
    run.answer(view.pending_action.id, {"isConfirmed": True})
    until(run, lambda: run.status in ("completed", "failed"))
    return run


def stored(session: loom.Loom) -> tuple[Any, list[str]]:
    """The artifact's data, and the ids of the records."""
    return _artifact(session), sorted(record.id for record in _records(session))


def _artifact(session: loom.Loom) -> Any:
    async def read() -> Any:
        found = await session.storage.get_artifact(FLOW, STAGE)
        return found.data if found is not None else None

    return asyncio.run(read())


def _records(session: loom.Loom) -> list[loom.StoredRecord]:
    async def read() -> list[loom.StoredRecord]:
        return (await session.storage.list_records({"flowName": FLOW})).data

    return asyncio.run(read())


def written_by_somebody(session: loom.Loom, data: str) -> None:
    async def write() -> None:
        found = await session.storage.get_artifact(FLOW, STAGE)
        operation: dict[str, Any] = {"type": "create_artifact", "id": "theirs"}
        if found is not None:
            operation = {"type": "replace_artifact", "id": found.id, "expectedRevision": found.revision}
        await session.storage.commit([{**operation, "payload": payload(data)}])

    asyncio.run(write())


@pytest.mark.case("blueprints:IN-01")
def test_a_draft_that_is_changed_after_it_was_confirmed_is_not_committed(session: loom.Loom) -> None:
    run = confirmed(session, specification(between=revise), "a")

    assert the_error(run.view()) == "STEP_EXECUTION_FAILED"
    assert run.cursor.step_name == "finalize"
    assert stored(session) == (None, [])


@pytest.mark.case("blueprints:IN-01")
@pytest.mark.parametrize("is_first", [True, False])
def test_nothing_is_committed_over_what_somebody_else_wrote_meanwhile(session: loom.Loom, is_first: bool) -> None:
    if not is_first:
        written_by_somebody(session, "before")

    run = session.flow(specification(), "a")
    rest(run)
    written_by_somebody(session, "theirs")
    run.answer({"isConfirmed": True})
    until(run, lambda: run.status in ("completed", "failed"))

    assert the_error(run.view()) == "STEP_EXECUTION_FAILED"
    assert stored(session) == ("theirs", [])


@pytest.mark.case("blueprints:IN-02")
def test_without_a_baseline_the_artifact_is_made_and_a_record_appended(session: loom.Loom) -> None:
    run = confirmed(session, specification(), "a")

    assert outcome_of(run) == "complete"
    assert stored(session) == ("a", ["record of a"])
    assert [(a.id, a.data) for a in run.artifacts] == [("spec", "a")]
    assert [r.id for r in run.records] == ["record of a"]


@pytest.mark.case("blueprints:IN-02")
def test_with_a_baseline_the_artifact_is_replaced_and_a_record_appended(session: loom.Loom) -> None:
    first = confirmed(session, specification(), "a")
    second = confirmed(session, specification(), "b")

    assert (first.status, second.status) == ("completed", "completed")
    assert stored(session) == ("b", ["record of a", "record of b"])
    assert [r.id for r in first.records] == ["record of a"]


@pytest.mark.case("blueprints:IN-02")
def test_a_draft_goes_round_until_it_is_confirmed(session: loom.Loom) -> None:
    run = session.flow(specification(), "a")
    rest(run)
    asked = {run.pending[0].id}
    for _ in range(2):
        run.answer({"isConfirmed": False, "feedback": "more"})
        until(run, lambda: bool(run.pending) and run.pending[0].id not in asked)
        asked.add(run.pending[0].id)
    run.answer({"isConfirmed": True})
    until(run, lambda: run.status in ("completed", "failed"))

    assert stored(session) == ("a (revised) (revised)", ["record of a (revised) (revised)"])


@pytest.mark.case("blueprints:IN-03")
def test_when_the_commit_is_refused_what_was_confirmed_stays_and_nothing_is_written(session: loom.Loom) -> None:
    """The record's id is taken: neither it nor the artifact is written."""
    taken = {"type": "append_record", "id": "record of a", "payload": {"flowName": "x", "stageName": "y", "data": "taken"}}
    asyncio.run(_commit(session, taken))
    run = confirmed(session, specification(), "a")

    assert the_error(run.view()) == "STEP_EXECUTION_FAILED"
    assert run.state == {"text": "a", "baseline": None, "confirmed": "a"}
    assert stored(session) == (None, [])
    with pytest.raises(loom.RunFailed) as failed:
        outcome_of(run)
    assert isinstance(failed.value.__cause__, loom.Conflict)


@pytest.mark.case("blueprints:IN-03")
@pytest.mark.parametrize("fresh", [False, True])
def test_once_what_stood_in_the_way_is_gone_the_step_is_made_again_and_commits_once(session: loom.Loom, fresh: bool) -> None:
    taken = {"type": "append_record", "id": "record of a", "payload": {"flowName": "x", "stageName": "y", "data": "taken"}}
    asyncio.run(_commit(session, taken))
    run = confirmed(session, specification(), "a")
    asyncio.run(_commit(session, {"type": "remove_record", "id": "record of a"}))
    run.retry(fresh=fresh)

    assert rest(run).status == "completed"
    assert stored(session) == ("a", ["record of a"])


async def _commit(session: loom.Loom, operation: Any) -> None:
    await session.storage.commit([operation])
