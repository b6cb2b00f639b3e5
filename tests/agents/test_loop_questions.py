"""Questions of an agent: those it begins with, and those the model asks: contracts/agents.md §1.4 (ask / intake)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loomnb.agents import AnswersReply, Decision, settle_dead_run
from loomnb.agents.history import window_history
from loomnb.errors import DefinitionError
from loomnb.testing import ScriptedModel
from tests.agents.looping import (
    Hooks,
    Journal,
    Suspended,
    Throwing,
    answering,
    deps,
    messages_of,
    purposes_of,
    row_of,
    rows_of,
    said,
    turn,
)
from tests.helpers import plain_id

PICK = {
    "id": "size",
    "question": "How big?",
    "options": [{"value": "s", "label": "Small"}, {"value": "l", "label": "Large"}],
    "defaults": ["s"],
}
OPEN = {"id": "who", "question": "For whom?"}
INTAKE = {"questions": [PICK, OPEN], "preamble": "First:"}
ANSWERS = AnswersReply(answers={"size": ["l"], "who": ["bob"]}, answered_by="eve", answered_via="web")


def asking(reply: Any = ANSWERS, **more: Any) -> Any:
    return answering(Journal(**more), reply)


@pytest.mark.case("agents:H01", "agents:H05")
def test_an_intake_takes_three_positions_before_the_first_step_and_no_call_of_the_model() -> None:
    with_it, without = asking(), asking()
    made = deps(lambda request, n: "Hi.", intake=INTAKE)
    turn(made, with_it)
    turn(deps(["Hi."]), without)

    at = with_it.names.index("persist:run:start")
    assert with_it.names[at + 1 : at + 5] == [
        "intake:ask", "tool:run-1:intake-run-1", "intake:answers", "stream:step-start:0",
    ]  # fmt: skip
    assert not [n for n in without.names if "intake" in n]
    assert purposes_of(made) == ["chat"]


@pytest.mark.case("agents:H06")
def test_answers_are_on_record_as_a_call_of_ask_and_told_to_the_model() -> None:
    model, journal = ScriptedModel(lambda request, n: "Hi."), asking()
    made = deps(model, intake=INTAKE)
    turn(made, journal)

    row = row_of(made, "ask")
    assert (row.id, row.tool_type, row.status, row.decided_by, row.decided_via) == (
        "intake-run-1", "action", "executed", "eve", "web",
    )  # fmt: skip
    output = row.output
    assert output == {
        "answers": {"size": ["l"], "who": ["bob"]},
        "skipped": False,
        "defaulted": [],
        "summary": "How big? Large\nFor whom? bob",
        "answeredBy": "eve",
        "answeredVia": "web",
    }
    assert [f["output"] for f in journal.sink.frames("tool-output")] == [output]
    told = model.requests[0].messages[-1]
    assert told["toolCalls"][0]["name"] == "ask"
    assert told["toolResults"][0]["output"] == output
    stored = messages_of(made)[1]
    assert stored["toolResults"] == [{"id": "intake-run-1", "name": "ask", "output": output}]


def test_while_it_waits_the_questions_are_on_record_and_announced() -> None:
    journal = asking(suspends={"tool:run-1:intake-run-1"})
    made = deps(["Hi."], intake=INTAKE)
    with pytest.raises(Suspended):
        turn(made, journal)

    row = row_of(made, "ask")
    assert (row.status, row.run_id, row.message_id) == ("pending_approval", "run-1", messages_of(made)[1]["id"])
    announced, asked = journal.sink.frames()
    assert (announced["kind"], announced["id"], announced["toolKind"]) == ("tool-input-available", "intake-run-1", "action")
    assert (asked["kind"], asked["id"]) == ("elicitation", "intake-run-1")
    request = asked["request"]
    assert (request["id"], request["source"], request["preamble"]) == ("intake-run-1", "intake", "First:")
    assert [q["id"] for q in request["questions"]] == ["size", "who"]


@pytest.mark.case("agents:H02")
def test_recorded_answers_win_over_another_reply() -> None:
    journal = asking()
    made = deps(lambda request, n: "Hi.", intake=INTAKE)
    turn(made, journal)
    again = journal.again()
    answering(again, AnswersReply(skipped=True))
    elsewhere = deps(Throwing(), intake=INTAKE, store=made.store)

    assert turn(elsewhere, again).text == "Hi."
    assert again.records == journal.records


@pytest.mark.case("agents:H03")
@pytest.mark.parametrize("when", ["thread-start", "every-turn"], ids=plain_id)
def test_a_second_turn_looks_whether_to_ask_again(when: str) -> None:
    made = deps(lambda request, n: "Hi.", intake={**INTAKE, "when": when})
    turn(made, asking())
    second = asking(run_id="run-2")
    turn(made, second)

    assert "intake:ask" in second.names
    assert ("tool:run-2:intake-run-2" in second.names) is (when == "every-turn")


@pytest.mark.case("agents:H03")
def test_whether_it_was_asked_does_not_depend_on_how_much_is_told() -> None:
    made = deps(lambda request, n: "Hi.", intake=INTAKE, history_policy=window_history(max_messages=1))
    turn(made, asking())
    second = asking(run_id="run-2")
    turn(made, second)

    assert "intake:answers" not in second.names


@pytest.mark.case("agents:H04")
def test_a_run_that_asked_goes_on_so_although_its_own_message_is_there_by_now() -> None:
    first = asking(suspends={"tool:run-1:intake-run-1"})
    made = deps(lambda request, n: "Hi.", intake=INTAKE)
    with pytest.raises(Suspended):
        turn(made, first)

    again = first.again()
    answering(again, ANSWERS)
    assert turn(made, again).text == "Hi."
    assert "intake:answers" in again.names
    assert len(again.sink.frames("elicitation")) == 1
    assert [m["role"] for m in messages_of(made)] == ["user", "assistant", "assistant"]


@pytest.mark.case("agents:H07")
def test_skipped_questions_take_their_defaults() -> None:
    made = deps(lambda request, n: "Hi.", intake=INTAKE)
    turn(made, asking(AnswersReply(skipped=True, answers={"size": ["l"]})))

    row = row_of(made, "ask")
    assert (row.status, row.output["skipped"], row.output["answers"]) == ("rejected", True, {"size": ["s"], "who": []})
    assert row.output["defaulted"] == ["size", "who"]


@pytest.mark.parametrize("approved", [True, False], ids=plain_id)
def test_a_runner_that_only_knows_decisions_takes_defaults_or_skips(approved: bool) -> None:
    hooks = Hooks(decide=lambda call: Decision(approved=approved, decided_by="eve"))
    made = deps(lambda request, n: "Hi.", intake=INTAKE)
    turn(made, hooks)

    row = row_of(made, "ask")
    assert (row.status, row.decided_by) == ("executed" if approved else "rejected", "eve")
    assert row.output["answers"] == {"size": ["s"], "who": []}
    assert hooks.waits == [("intake-run-1", None)]


@pytest.mark.parametrize("approved", [True, False], ids=plain_id)
def test_a_bare_decision_as_the_answer_means_the_same(approved: bool) -> None:
    async def await_answers(request: Any, ctx: Any) -> Any:
        return Decision(approved=approved)

    made = deps(lambda request, n: "Hi.", intake=INTAKE)
    turn(made, Hooks(await_answers=await_answers))

    assert row_of(made, "ask").output["skipped"] is not approved


def test_an_answer_that_is_one_text_is_one_answer() -> None:
    made = deps(lambda request, n: "Hi.", intake=INTAKE)
    turn(made, asking(AnswersReply(answers={"who": "bob"})))  # type: ignore[dict-item]

    assert row_of(made, "ask").output["answers"]["who"] == ["bob"]


@pytest.mark.case("agents:H03")
def test_an_intake_whose_turn_was_stopped_before_it_was_answered_is_asked_again() -> None:
    made = deps(lambda request, n: "Hi.", intake=INTAKE)
    with pytest.raises(Suspended):
        turn(made, asking(suspends={"tool:run-1:intake-run-1"}))
    asyncio.run(settle_dead_run(made.store, "run-1", {"code": "cancelled", "message": ""}))
    second = asking(run_id="run-2")
    turn(made, second)

    assert "intake:answers" in second.names


def test_an_intake_that_is_none_is_refused_before_anything_is_written() -> None:
    made = deps(["Hi."], intake={"questions": [{"id": "x", "question": "?", "options": [{"value": "a"}]}]})
    with pytest.raises(DefinitionError, match="defaults"):
        turn(made)

    assert messages_of(made) == []


# -- the tool ask -------------------------------------------------------------------------------------------


def asks(questions: Any = None) -> Any:
    given = {"questions": questions if questions is not None else [PICK, OPEN]}
    return ScriptedModel([said("", ("ask", given)), "Good."])


@pytest.mark.case("agents:H10")
def test_ask_takes_its_positions_and_no_call_of_the_model() -> None:
    model, journal = asks(), asking()
    made = deps(model, ask=True)
    turn(made, journal)

    assert [n for n in journal.names if "call-ask" in n] == [
        "persist:toolcall:call-ask", "stream:elicitation:call-ask", "tool:run-1:call-ask", "persist:toolexec:call-ask",
    ]  # fmt: skip
    row = row_of(made, "ask")
    assert (row.tool_type, row.status, row.output["answers"]) == ("action", "executed", {"size": ["l"], "who": ["bob"]})
    assert [t.name for t in model.requests[0].tools] == ["ask"]
    assert len(model.requests) == 2
    assert journal.sink.frames("tool-output")[0]["output"] == row.output
    assert model.requests[1].messages[-1]["toolResults"][0]["output"] == row.output


@pytest.mark.case("agents:H10")
def test_skipped_questions_of_the_model_use_the_reject_position() -> None:
    journal = asking(AnswersReply(skipped=True))
    made = deps(asks(), ask=True)
    turn(made, journal)

    assert "persist:toolreject:call-ask" in journal.names
    row = row_of(made, "ask")
    assert (row.status, row.output["skipped"]) == ("rejected", True)
    assert journal.sink.frames("tool-output")[0]["output"]["answers"] == {"size": ["s"], "who": []}


@pytest.mark.case("agents:H10")
def test_ask_is_offered_only_where_it_is_configured() -> None:
    model = asks()
    made = deps(model)
    turn(made)

    assert model.requests[0].tools == []
    row = row_of(made, "ask")
    assert (row.status, row.tool_type) == ("failed", "read")


@pytest.mark.parametrize(
    ("questions", "text"),
    [
        ([], "questions"),
        ([{"id": str(n), "question": "?"} for n in range(6)], "questions"),
        ([{"id": "a", "question": "?", "options": [{"value": "x"}]}], "questions.0"),
        ([OPEN, OPEN], "(root)"),
    ],
    ids=plain_id,
)
def test_questions_that_cannot_be_asked_bother_nobody(questions: Any, text: str) -> None:
    journal = asking()
    made = deps(asks(questions), ask=True)
    turn(made, journal)

    row = row_of(made, "ask")
    assert row.status == "failed"
    assert f"{text}: " in row.error
    assert [n for n in journal.names if "call-ask" in n] == ["persist:toolcall:call-ask", "persist:toolfail:call-ask"]
    assert not journal.sink.frames("elicitation")
    assert len(rows_of(made)) == 1
