"""The four IntLoom schemas: strict objects, nothing coerced, text kept to the letter."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

import loomnb as loom

QUESTION = {"id": "env", "question": "Where to?", "isSkippable": False}
OPTION = {"id": "s", "label": "staging"}


def refused(schema: TypeAdapter[Any], value: Any) -> None:
    with pytest.raises(ValidationError):
        schema.validate_python(value)


def dumped(schema: TypeAdapter[Any], value: Any) -> Any:
    return [item.dump() for item in schema.validate_python(value)]


@pytest.mark.case("blueprints:SC-01")
def test_a_whole_question_is_accepted_unchanged() -> None:
    assert dumped(loom.user_ask_questions_schema, [QUESTION]) == [QUESTION]


@pytest.mark.case("blueprints:SC-02")
def test_no_question_at_all_is_refused() -> None:
    refused(loom.user_ask_questions_schema, [])


@pytest.mark.case("blueprints:SC-03")
@pytest.mark.parametrize(
    "question",
    [
        QUESTION | {"id": ""},
        QUESTION | {"question": ""},
        {"id": "env", "question": "Where to?"},
        {"id": "env", "isSkippable": True},
    ],
    ids=["empty id", "empty text", "no isSkippable", "no text"],
)
def test_a_question_without_its_parts_is_refused(question: Any) -> None:
    refused(loom.user_ask_questions_schema, [question])


@pytest.mark.case("blueprints:SC-04")
def test_a_question_with_an_unknown_key_is_refused() -> None:
    refused(loom.user_ask_questions_schema, [QUESTION | {"runId": "run-1"}])


@pytest.mark.case("blueprints:SC-05")
@pytest.mark.parametrize(
    "option",
    [OPTION | {"label": ""}, OPTION | {"id": ""}, OPTION | {"value": 1}, {"label": "s"}],
    ids=["label", "id", "extra", "no id"],
)
def test_a_wrong_option_is_refused(option: Any) -> None:
    refused(loom.user_ask_questions_schema, [QUESTION | {"options": [option]}])


@pytest.mark.case("blueprints:SC-06")
def test_every_character_of_a_description_is_kept() -> None:
    question = QUESTION | {"description": "  Grüße, 東京 \n", "options": [OPTION | {"description": " ✓ "}]}

    assert dumped(loom.user_ask_questions_schema, [question]) == [question]


def test_a_single_space_is_long_enough_for_every_text() -> None:
    question = {"id": " ", "question": " ", "isSkippable": True, "options": [{"id": " ", "label": " "}]}

    assert dumped(loom.user_ask_questions_schema, [question]) == [question]


def test_empty_options_are_legal_and_kept() -> None:
    assert dumped(loom.user_ask_questions_schema, [QUESTION | {"options": []}]) == [QUESTION | {"options": []}]


@pytest.mark.parametrize("key", ["description", "options"])
def test_an_explicit_null_is_not_the_same_as_left_out(key: str) -> None:
    refused(loom.user_ask_questions_schema, [QUESTION | {key: None}])


@pytest.mark.parametrize("value", ["yes", 1, None], ids=repr)
def test_is_skippable_is_never_coerced(value: Any) -> None:
    refused(loom.user_ask_questions_schema, [QUESTION | {"isSkippable": value}])


@pytest.mark.case("blueprints:SC-07")
def test_a_skipped_answer_is_accepted() -> None:
    skipped = {"questionId": "env", "isSkipped": True}

    assert dumped(loom.user_answer_questions_schema, [skipped]) == [skipped]


@pytest.mark.case("blueprints:SC-07")
@pytest.mark.parametrize("answer", ["x", "", None], ids=repr)
def test_a_skipped_answer_carries_no_answer(answer: Any) -> None:
    refused(loom.user_answer_questions_schema, [{"questionId": "env", "isSkipped": True, "answer": answer}])


@pytest.mark.case("blueprints:SC-08")
@pytest.mark.parametrize("rest", [{}, *({"answer": a} for a in ["", "  ", "\t\n", " ", None, 3])], ids=repr)
def test_a_given_answer_needs_a_character_that_shows(rest: Any) -> None:
    refused(loom.user_answer_questions_schema, [{"questionId": "env", "isSkipped": False, **rest}])


@pytest.mark.case("blueprints:SC-09")
def test_the_padding_of_an_answer_is_kept() -> None:
    answer = {"questionId": "env", "isSkipped": False, "answer": "  a few words \n"}

    assert dumped(loom.user_answer_questions_schema, [answer]) == [answer]


def test_no_answer_at_all_fits_the_schema_alone() -> None:
    assert dumped(loom.user_answer_questions_schema, []) == []


@pytest.mark.parametrize(
    "answers",
    [
        {"questionId": "env", "isSkipped": True},
        [{"questionId": "", "isSkipped": True}],
        [{"questionId": "env", "isSkipped": 1}],
        ["env"],
    ],
    ids=["no list", "empty id", "a number for a boolean", "a text for an answer"],
)
def test_answers_of_another_shape_are_refused(answers: Any) -> None:
    refused(loom.user_answer_questions_schema, answers)


def test_a_confirmation_asks_with_any_text_that_is_not_empty() -> None:
    assert loom.user_ask_confirmation_schema.validate_python({"context": " "}).dump() == {"context": " "}


@pytest.mark.parametrize("request_", [{}, {"context": ""}, {"context": None}, {"context": "x", "title": "y"}, "x"], ids=repr)
def test_a_wrong_confirmation_request_is_refused(request_: Any) -> None:
    refused(loom.user_ask_confirmation_schema, request_)


@pytest.mark.parametrize(
    "verdict",
    [
        {"isConfirmed": True},
        {"isConfirmed": False},
        {"isConfirmed": True, "feedback": ""},
        {"isConfirmed": False, "feedback": " no "},
    ],
    ids=repr,
)
def test_a_verdict_may_carry_any_feedback(verdict: Any) -> None:
    assert loom.user_answer_confirmation_schema.validate_python(verdict).dump() == verdict


@pytest.mark.case("blueprints:SC-13")
@pytest.mark.parametrize(
    "verdict",
    [
        {},
        {"isConfirmed": "yes"},
        {"isConfirmed": 1},
        {"isConfirmed": True, "by": "me"},
        {"isConfirmed": True, "feedback": None},
        [True],
    ],
    ids=repr,
)
def test_a_wrong_verdict_is_refused(verdict: Any) -> None:
    refused(loom.user_answer_confirmation_schema, verdict)
