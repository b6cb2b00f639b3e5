"""How a step asks in its middle: published at the call, answered once, and over with the step."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import loomnb as loom
from tests.blueprints.recovering import DONE, Gate, asking, blueprint, code_of, in_code, question, started, try_
from tests.helpers import PATIENCE, at_rest, until


def waits(run: loom.FlowRun) -> Any:
    """The open action of a run, once it waits."""
    until(run, lambda: run.status == "waiting")
    view = run.view()
    assert view.pending_action is not None
    return view.pending_action


def last_error(run: loom.FlowRun) -> str:
    view = at_rest(run)
    assert view.status == "failed"
    assert view.last_error is not None
    return str(view.last_error.code)


# -- the question ------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:IA-01")
def test_a_confirmation_that_is_awaited_lets_the_run_wait(session: loom.Loom) -> None:
    effects: list[Any] = []
    view = at_rest(started(session, asking(effects)))

    assert (view.status, effects) == ("waiting", ["ask"])


@pytest.mark.case("blueprints:IA-01")
def test_the_open_action_has_an_id_of_its_own_the_cursor_of_the_view_and_the_request(session: loom.Loom) -> None:
    run = started(session, asking([]))
    told = run.view().dump()

    assert told["pendingAction"]["id"].startswith("ASK-")
    assert told["pendingAction"]["cursor"] == told["cursor"] == {"stageName": "first", "stepName": "start"}
    assert told["pendingAction"]["kind"] == "user_ask_confirmation"
    assert told["pendingAction"]["request"] == {"context": "Go?"}
    assert told["pendingAction"]["flowName"] == "fixture"


@pytest.mark.case("blueprints:IA-01")
def test_changing_a_view_changes_nothing_of_the_run(session: loom.Loom) -> None:
    run = started(session, asking([]))
    before = run.view().dump()
    changed = run.view().dump()
    changed["pendingAction"]["request"]["context"] = "changed"
    changed["cursor"]["stepName"] = "changed"

    assert run.view().dump() == before


@pytest.mark.case("blueprints:IA-01", "blueprints:DX-02")
def test_while_it_waits_the_step_may_read_and_write_nothing(session: loom.Loom) -> None:
    told: dict[str, Any] = {}

    async def body(access: Any) -> None:
        answer = access.interaction.confirm("Go?")
        told["read"] = access.state.value
        told["update"] = await try_(lambda: access.state.update({"value": 1}))
        told["clear"] = await try_(access.state.clear)
        told["commit"] = await try_(lambda: access.storage.commit([]))
        told["storage"] = await try_(lambda: access.storage.get_artifact("f", "s"))
        told["list"] = await try_(access.storage.list_records)
        told["aborted"] = access.signal.aborted
        await answer
        told["afterwards"] = await try_(lambda: access.state.update({"value": 2}))

    run = session.flow(in_code([], body), "x")
    waits(run)
    until(run, lambda: "aborted" in told)
    run.answer(True)
    at_rest(run)

    assert told == {
        "read": {"value": 0},
        "update": "STAGE_STATE_INACTIVE",
        "clear": "STAGE_STATE_INACTIVE",
        "commit": "EXECUTION_OWNERSHIP_LOST",
        "storage": "fine",
        "list": "fine",
        "aborted": False,
        "afterwards": "fine",
    }


@pytest.mark.case("blueprints:DX-02")
def test_a_commit_that_was_refused_while_it_waited_wrote_nothing(session: loom.Loom) -> None:
    async def body(access: Any) -> str:
        answer = access.interaction.confirm("Go?")
        record = {"type": "append_record", "id": "r", "payload": {"flowName": "f", "stageName": "s", "data": 1}}
        told = await try_(lambda: access.storage.commit([record]))
        await answer
        return str(told)

    result: list[Any] = []
    run = started(session, in_code(result, body))
    run.answer(True)
    at_rest(run)

    assert result == ["EXECUTION_OWNERSHIP_LOST"]
    assert session.storage.get_record_by_id("r").wait() is None


@pytest.mark.case("blueprints:IA-02")
def test_the_request_is_that_of_the_call_whatever_becomes_of_its_objects(session: loom.Loom) -> None:
    async def body(access: Any) -> None:
        asked = [question("one", options=[{"id": "a", "label": "A"}])]
        answer = access.interaction.ask_questions(asked)
        asked[0]["question"] = "changed"
        asked[0]["options"].append({"id": "b", "label": "B"})
        asked.append(question("two"))
        await answer

    run = started(session, in_code([], body))

    assert run.view().dump()["pendingAction"]["request"] == [
        {"id": "one", "question": "Which?", "isSkippable": False, "options": [{"id": "a", "label": "A"}]}
    ]


@pytest.mark.case("blueprints:IA-02")
def test_an_optional_field_that_is_null_is_no_question(session: loom.Loom) -> None:
    """Optional means left out: JSON has no `undefined`, and an explicit null is not a text."""
    run = started(session, in_code([], lambda access: access.interaction.ask_questions([question("one", description=None)])))

    assert last_error(run) == "STEP_INTERACTION_INVALID"


BAD_REQUESTS: dict[str, Any] = {
    "the same question twice": [question("a"), question("a")],
    "the same option twice": [question("a", options=[{"id": "o", "label": "1"}, {"id": "o", "label": "2"}])],
    "no question": [],
    "an unknown key": [question("a", runId="x")],
    "no text": [question("a", text="")],
    "no list": question("a"),
}


@pytest.mark.case("blueprints:IA-04")
@pytest.mark.parametrize("asked", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_questions_that_cannot_be_fail_the_run_and_are_not_published(session: loom.Loom, asked: Any) -> None:
    async def body(access: Any) -> None:
        await access.interaction.ask_questions(asked)

    run = started(session, in_code([], body))

    assert last_error(run) == "STEP_INTERACTION_INVALID"
    assert run.view().pending_action is None
    assert len(session.pending()) == 0


@pytest.mark.case("blueprints:IA-04")
def test_the_same_option_in_two_questions_is_fine(session: loom.Loom) -> None:
    options = [{"id": "o", "label": "1"}]
    asked = [question("a", options=options), question("b", options=options)]
    run = started(session, in_code([], lambda access: access.interaction.ask_questions(asked)))

    assert run.view().status == "waiting"


@pytest.mark.case("blueprints:IA-04")
@pytest.mark.parametrize("context", ["", None, 1, b"x"])
def test_a_confirmation_of_no_text_fails_the_run(session: loom.Loom, context: Any) -> None:
    run = started(session, in_code([], lambda access: access.interaction.confirm(context)))

    assert last_error(run) == "STEP_INTERACTION_INVALID"


@pytest.mark.case("blueprints:IA-04")
def test_a_malformed_question_fails_the_run_also_when_its_error_was_caught(session: loom.Loom) -> None:
    async def body(access: Any) -> None:
        assert await try_(lambda: access.interaction.ask_questions([])) == "STEP_INTERACTION_INVALID"

    assert last_error(started(session, in_code([], body))) == "STEP_INTERACTION_INVALID"


@pytest.mark.case("blueprints:IA-05")
def test_a_question_that_nobody_awaits_fails_the_run(session: loom.Loom) -> None:
    async def body(access: Any) -> None:
        access.interaction.confirm("Go?")

    run = started(session, in_code([], body))

    assert last_error(run) == "STEP_INTERACTION_INVALID"
    assert run.pending == []


@pytest.mark.case("blueprints:IA-05")
def test_a_question_while_another_one_is_open_fails_the_run(session: loom.Loom) -> None:
    async def body(access: Any) -> None:
        access.interaction.confirm("One?")
        await access.interaction.confirm("Two?")

    run = started(session, in_code([], body))

    assert last_error(run) == "STEP_INTERACTION_INVALID"
    assert run.pending == []


@pytest.mark.case("blueprints:IA-05")
def test_two_questions_at_once_fail_the_run_also_when_the_code_catches_that_and_the_first_is_answered(
    session: loom.Loom,
) -> None:
    async def body(access: Any) -> None:
        first = access.interaction.confirm("One?")
        assert await try_(lambda: access.interaction.confirm("Two?")) == "STEP_INTERACTION_INVALID"
        await first

    run = started(session, in_code([], body))
    assert run.view().dump()["pendingAction"]["request"] == {"context": "One?"}
    run.answer(True)

    assert last_error(run) == "STEP_INTERACTION_INVALID"


@pytest.mark.case("blueprints:IA-06")
def test_a_code_that_raises_while_its_question_is_open_fails_the_run_and_takes_the_question_away(session: loom.Loom) -> None:
    gate = Gate()

    async def body(access: Any) -> None:
        access.interaction.confirm("Go?")
        await gate()
        raise ValueError("no")

    run = session.flow(in_code([], body), "x")
    action = waits(run)
    gate.open()
    until(run, lambda: run.status == "failed")

    assert last_error(run) == "STEP_EXECUTION_FAILED"
    assert (run.view().pending_action, len(session.pending())) == (None, 0)
    assert code_of(lambda: run.answer(action.id, True)) == "CONFLICT"


@pytest.mark.case("blueprints:IA-06")
def test_a_question_that_was_taken_away_stays_away_after_a_restart(here: Any) -> None:
    async def body(access: Any) -> None:
        access.interaction.confirm("Go?")
        raise ValueError("no")

    with loom.open(here / "s.duckdb") as session:
        run = started(session, in_code([], body))
        before = run.view()
    with loom.open(here / "s.duckdb") as session:
        assert len(session.pending()) == 0
        assert session.flows()[0].view() == before


# -- the answer --------------------------------------------------------------------------------------


def two_questions(effects: list[Any]) -> loom.Code[Any]:
    @loom.code
    async def ask(access: Any) -> loom.StepResult:
        effects.append("before")
        first = await access.interaction.confirm("One?")
        effects.append(first.is_confirmed)
        second = await access.interaction.ask_questions([question("name")])
        effects.append(second["name"])
        return DONE

    return ask


@pytest.mark.case("blueprints:IA-07")
def test_the_first_answer_leads_to_the_next_question_under_a_new_id(session: loom.Loom) -> None:
    effects: list[Any] = []
    run = started(session, two_questions(effects))
    first = waits(run)
    run.answer(first.id, True)
    at_rest(run)
    second = waits(run)

    assert second.id != first.id
    assert second.kind == "user_ask_questions"
    assert effects == ["before", True]


@pytest.mark.case("blueprints:IA-07")
def test_an_old_id_answers_no_later_question_and_changes_nothing(session: loom.Loom) -> None:
    run = started(session, two_questions([]))
    first = waits(run)
    run.answer(first.id, True)
    before = at_rest(run)

    assert code_of(lambda: run.answer(first.id, {"name": "x"})) == "CONFLICT"
    assert at_rest(run) == before


@pytest.mark.case("blueprints:IA-07")
def test_the_last_answer_lets_the_run_end_and_takes_no_other(session: loom.Loom) -> None:
    effects: list[Any] = []
    run = started(session, two_questions(effects))
    run.answer(waits(run).id, False)
    at_rest(run)
    second = waits(run)
    run.answer(second.id, {"name": " Ada "})

    assert at_rest(run).status == "completed"
    assert effects == ["before", False, " Ada "]
    assert code_of(lambda: run.answer(second.id, {"name": "Bob"})) == "CONFLICT"


@pytest.mark.case("blueprints:IA-07")
def test_a_code_that_fails_after_its_answer_is_a_failed_run_and_no_error_of_the_answer(session: loom.Loom) -> None:
    async def body(access: Any) -> None:
        await access.interaction.confirm("Go?")
        raise ValueError("no")

    run = started(session, in_code([], body))
    run.answer(True)

    assert last_error(run) == "STEP_EXECUTION_FAILED"


@pytest.mark.case("blueprints:IA-10")
def test_the_code_gets_the_answers_as_submitted_whatever_becomes_of_the_objects(session: loom.Loom) -> None:
    result: list[Any] = []
    options = [{"id": "a", "label": "A"}]

    async def body(access: Any) -> Any:
        asked = [question("one", options=options), question("two"), {**question("three"), "isSkippable": True}]
        return (await access.interaction.ask_questions(asked)).dump()

    run = started(session, in_code(result, body))
    given = [
        {"questionId": "three", "isSkipped": True},
        {"questionId": "two", "isSkipped": False, "answer": "  padded\n"},
        {"questionId": "one", "isSkipped": False, "answer": "something of my own"},
    ]
    as_given = [dict(one) for one in given]
    run.answer(given)
    given[1]["answer"] = "changed"
    given.clear()
    at_rest(run)

    assert result == [as_given]


BAD_ANSWERS: dict[str, Any] = {
    "an omission": [{"questionId": "one", "isSkipped": False, "answer": "x"}],
    "an unknown question": {"one": "x", "two": "y", "three": "z"},
    "the same question twice": [
        {"questionId": "one", "isSkipped": False, "answer": "x"},
        {"questionId": "one", "isSkipped": False, "answer": "x"},
        {"questionId": "two", "isSkipped": True},
    ],
    "a skip of what cannot be skipped": {"one": None, "two": None},
    "a blank": {"one": " \n", "two": None},
    "a skip with an answer": [
        {"questionId": "one", "isSkipped": False, "answer": "x"},
        {"questionId": "two", "isSkipped": True, "answer": "y"},
    ],
    "a confirmation": True,
    "nothing": None,
}


@pytest.mark.case("blueprints:IA-10")
@pytest.mark.parametrize("given", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_as_it_was(session: loom.Loom, given: Any) -> None:
    asked = [question("one"), {**question("two"), "isSkippable": True}]
    run = started(session, in_code([], lambda access: access.interaction.ask_questions(asked)))
    before = run.view()

    assert code_of(lambda: run.answer(waits(run).id, given)) == "INVALID_REQUEST"
    assert run.view() == before
    run.answer({"one": "x", "two": None})
    assert at_rest(run).status == "completed"


@pytest.mark.case("blueprints:IA-10")
@pytest.mark.parametrize(
    "given", [{}, {"isConfirmed": "yes"}, {"isConfirmed": 1}, {"isConfirmed": True, "x": 1}, "yes", [True], 1]
)
def test_a_verdict_that_does_not_fit_is_refused(session: loom.Loom, given: Any) -> None:
    run = started(session, asking([]))
    before = run.view()

    assert code_of(lambda: run.answer(waits(run).id, given)) == "INVALID_REQUEST"
    assert run.view() == before


@pytest.mark.case("blueprints:IA-10")
@pytest.mark.parametrize("action", ["", "  "])
def test_a_blank_id_is_no_id(session: loom.Loom, action: str) -> None:
    run = started(session, asking([]))

    assert code_of(lambda: run.answer(action, True)) == "INVALID_REQUEST"
    assert run.view().status == "waiting"


@pytest.mark.case("blueprints:IA-13")
def test_the_id_of_another_runs_question_answers_nothing(session: loom.Loom) -> None:
    code = asking([])
    a, b = started(session, code, name="a"), started(session, code, name="b")
    before = b.view()

    assert code_of(lambda: b.answer(waits(a).id, True)) == "CONFLICT"
    a.answer(waits(a).id, True)
    assert at_rest(a).status == "completed"
    assert b.view() == before


class Cancels(dict[str, Any]):
    """An answer that cancels the run when somebody looks into it."""

    def __init__(self, run: loom.FlowRun, answer: dict[str, Any]) -> None:
        super().__init__(answer)
        self.run = run

    def items(self) -> Any:
        self.run.cancel()
        return super().items()

    def __iter__(self) -> Any:
        self.run.cancel()
        return super().__iter__()

    def keys(self) -> Any:
        self.run.cancel()
        return super().keys()

    def get(self, *args: Any) -> Any:
        self.run.cancel()
        return super().get(*args)

    def __getitem__(self, key: str) -> Any:
        self.run.cancel()
        return super().__getitem__(key)


@pytest.mark.case("blueprints:IA-14")
def test_an_answer_whose_inspection_cancels_the_run_is_too_late(session: loom.Loom) -> None:
    effects: list[Any] = []
    run = started(session, two_questions(effects))
    run.answer(True)
    at_rest(run)

    assert code_of(lambda: run.answer(waits(run).id, Cancels(run, {"name": "x"}))) == "CONFLICT"
    assert last_error(run) == "RUN_STOPPED"
    assert effects == ["before", True]


@pytest.mark.case("blueprints:RC-01", "blueprints:IA-07")
def test_of_answers_at_once_exactly_one_is_taken(session: loom.Loom) -> None:
    effects: list[Any] = []
    run = started(session, asking(effects))
    action, start = waits(run).id, threading.Barrier(8)

    def answer(_: int) -> str:
        start.wait(PATIENCE)
        return code_of(lambda: run.answer(action, True))

    with ThreadPoolExecutor(8) as pool:
        told = sorted(pool.map(answer, range(8)))
    at_rest(run)

    assert told == ["CONFLICT"] * 7 + ["fine"]
    assert effects == ["ask", ["went on", True]]


def test_each_step_asks_with_a_question_of_its_own(session: loom.Loom) -> None:
    async def one(access: Any) -> loom.StepResult:
        await access.interaction.confirm("Same?")
        return DONE

    run = started(session, {"start": loom.code(one), "then": loom.code(one)})
    first = waits(run)
    run.answer(first.id, True)
    at_rest(run)
    second = waits(run)

    assert (first.id == second.id, second.cursor.step_name) == (False, "then")
    assert code_of(lambda: run.answer(first.id, True)) == "CONFLICT"


@pytest.mark.parametrize("how", ["confirm", "ask_questions"])
def test_a_plain_def_cannot_ask_and_is_told_so(session: loom.Loom, how: str) -> None:
    def start(access: Any) -> loom.StepResult:
        getattr(access.interaction, how)("Go?")
        return DONE

    run = started(session, blueprint(loom.code(start)))

    assert last_error(run) == "STEP_EXECUTION_FAILED"
    assert "async def" in (run.traceback or "")
