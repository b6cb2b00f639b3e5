"""The rules that accept an answer: every question once, none else, in the order it was submitted."""

from __future__ import annotations

from typing import Any

import pytest

from loomnb.asks import Answers, accept_confirmation, accept_questions, check_confirmation, check_questions
from loomnb.errors import AnswerInvalid, ArgsInvalid

ASKED = check_questions(
    [
        {"id": "env", "question": "Where to?", "isSkippable": False, "options": [{"id": "s", "label": "staging"}]},
        {"id": "why", "question": "Why?", "isSkippable": True},
    ]
)


def given(id_: str, text: str) -> dict[str, Any]:
    return {"questionId": id_, "isSkipped": False, "answer": text}


def skipped(id_: str) -> dict[str, Any]:
    return {"questionId": id_, "isSkipped": True}


def test_a_complete_answer_comes_back_in_submitted_order() -> None:
    answer = [given("why", " because "), given("env", "my laptop")]

    assert accept_questions(ASKED, answer) == answer


def test_an_accepted_answer_is_a_copy() -> None:
    answer = [given("env", "a"), skipped("why")]
    accepted = accept_questions(ASKED, answer)
    answer[0]["answer"] = "b"

    assert accepted[0]["answer"] == "a"


def test_a_mapping_answers_by_id_and_none_skips() -> None:
    assert accept_questions(ASKED, {"env": "x", "why": None}) == [given("env", "x"), skipped("why")]


def test_answers_of_an_earlier_ask_answer_again() -> None:
    earlier = Answers([given("env", "x"), skipped("why")])

    assert accept_questions(ASKED, earlier) == earlier.dump()


WRONG = {
    "nothing": ([], {"env", "why"}),
    "one missing": ([given("env", "x")], {"why"}),
    "unknown": ([given("env", "x"), skipped("why"), given("who", "me")], {"who"}),
    "twice": ([given("env", "x"), given("env", "y"), skipped("why")], {"env"}),
    "skipped although it must be answered": ([skipped("env"), skipped("why")], {"env"}),
    "blank": ([given("env", "  "), skipped("why")], {"env"}),
    "a number": ({"env": 3, "why": None}, {"env"}),
    "a list for one answer": ({"env": ["x"], "why": None}, {"env"}),
    "no mapping at all": ("staging", {""}),
}


@pytest.mark.parametrize(("payload", "fields"), WRONG.values(), ids=WRONG)
def test_a_wrong_answer_is_refused_at_its_question(payload: Any, fields: set[str]) -> None:
    with pytest.raises(AnswerInvalid) as caught:
        accept_questions(ASKED, payload)

    assert set(caught.value.fields) == fields


@pytest.mark.case("blueprints:IA-04")
@pytest.mark.parametrize(
    "questions",
    [
        [{"id": "a", "question": "?", "isSkippable": True}] * 2,
        [{"id": "a", "question": "?", "isSkippable": True, "options": [{"id": "x", "label": "1"}, {"id": "x", "label": "2"}]}],
    ],
    ids=["question", "option"],
)
def test_an_id_that_stands_twice_is_refused(questions: Any) -> None:
    with pytest.raises(ArgsInvalid, match="stands twice"):
        check_questions(questions)


def test_one_option_id_may_stand_in_two_questions() -> None:
    options = [{"id": "x", "label": "1"}]
    questions = [{"id": i, "question": "?", "isSkippable": True, "options": options} for i in ("a", "b")]

    assert len(check_questions(questions)) == 2


def test_snake_case_is_read_as_well() -> None:
    (question,) = check_questions([{"id": "a", "question": "?", "is_skippable": True}])

    assert question.dump() == {"id": "a", "question": "?", "isSkippable": True}


def test_question_objects_are_read_as_well() -> None:
    assert check_questions(ASKED) == ASKED


@pytest.mark.parametrize("context", ["", None, 3, ["x"]], ids=repr)
def test_what_is_no_text_cannot_be_confirmed(context: Any) -> None:
    with pytest.raises(ArgsInvalid):
        check_confirmation(context)


@pytest.mark.parametrize(
    ("payload", "verdict"),
    [
        (True, {"isConfirmed": True}),
        (False, {"isConfirmed": False}),
        ({"isConfirmed": False, "feedback": "no"}, {"isConfirmed": False, "feedback": "no"}),
        ({"is_confirmed": True}, {"isConfirmed": True}),
    ],
    ids=repr,
)
def test_a_verdict_is_accepted(payload: Any, verdict: Any) -> None:
    assert accept_confirmation(payload) == verdict


@pytest.mark.parametrize("payload", [None, "yes", 1, {}, {"isConfirmed": "true"}, [True]], ids=repr)
def test_what_is_no_verdict_is_refused(payload: Any) -> None:
    with pytest.raises(AnswerInvalid):
        accept_confirmation(payload)


class TestAnswers:
    ANSWERS = Answers([given("env", "x"), skipped("why")])

    def test_an_id_gives_the_text(self) -> None:
        assert self.ANSWERS["env"] == "x"

    def test_a_skipped_question_gives_none(self) -> None:
        assert self.ANSWERS["why"] is None

    def test_an_index_gives_the_submitted_item(self) -> None:
        assert self.ANSWERS[0] == given("env", "x")

    def test_an_unknown_id_names_those_that_were_asked(self) -> None:
        with pytest.raises(KeyError, match="env, why"):
            self.ANSWERS["who"]

    def test_it_dumps_to_the_contracts_list(self) -> None:
        assert self.ANSWERS.dump() == [given("env", "x"), skipped("why")]

    def test_it_equals_its_list(self) -> None:
        assert [given("env", "x"), skipped("why")] == self.ANSWERS
