"""Questions of an agent and their answers: contracts/agents.md §1.4 (ask / intake)."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from loomnb.agents.elicitation import accept_answers, check_ask, check_intake, settle_answers
from loomnb.agents.spi import AnswersReply
from loomnb.agents.tool_errors import ToolInputInvalidError
from loomnb.errors import AnswerInvalid, DefinitionError
from tests.helpers import plain_id

PICK = {"options": [{"value": "s", "label": "Small"}, {"value": "l"}], "defaults": ["s"]}


def request(**question: Any) -> dict[str, Any]:
    """One question, as it is asked."""
    return check_ask({"id": "c1", "name": "ask", "input": {"questions": [{"id": "q", "question": "What?", **question}]}})


@pytest.mark.parametrize(
    ("question", "value", "text"),
    [
        ({"input": {"type": "number"}}, "7", "7"),
        ({"input": {"type": "number"}}, 7.0, "7"),
        ({"input": {"type": "number"}}, "1e3", "1000"),
        ({"input": {"type": "number"}}, "0.0000001", "0.0000001"),
        ({"input": {"type": "number"}}, 0.25, "0.25"),
        ({"input": {"type": "number"}}, "-0", "0"),
        ({"input": {"type": "number"}}, "12345678901234567890.5", "12345678901234567890.5"),
        ({"input": {"type": "number", "min": 1, "max": 3}}, 3, "3"),
        ({"input": {"type": "boolean"}}, True, "true"),
        ({"input": {"type": "boolean"}}, " FALSE ", "false"),
        ({"input": {"type": "date"}}, "2026-11-30", "2026-11-30"),
        ({"input": {"type": "date"}}, date(2026, 11, 30), "2026-11-30"),
        ({"input": {"type": "email"}}, "a@b.de", "a@b.de"),
        ({"input": {"type": "url"}}, "https://b.de/x", "https://b.de/x"),
        ({"input": {"type": "text", "pattern": "[a-z]+"}}, "abc", "abc"),
        ({}, 5, "5"),
        (PICK, "l", "l"),
    ],
    ids=plain_id,
)
def test_answers_have_one_form(question: Any, value: Any, text: str) -> None:
    assert accept_answers(request(**question), {"q": value}) == {"q": [text]}


@pytest.mark.parametrize(
    ("question", "value", "why"),
    [
        ({"input": {"type": "number"}}, "many", "no number"),
        ({"input": {"type": "number"}}, "nan", "no number"),
        ({"input": {"type": "number"}}, "inf", "no number"),
        ({"input": {"type": "number"}}, "1e999999", "no number"),
        ({"input": {"type": "number"}}, True, "no number"),
        ({"input": {"type": "number", "min": 1, "max": 3}}, 4, "from 1 to 3"),
        ({"input": {"type": "number", "min": 0}}, -1, "from 0"),
        ({"input": {"type": "boolean"}}, "yes", "true or false"),
        ({"input": {"type": "date"}}, "30.11.2026", "YYYY-MM-DD"),
        ({"input": {"type": "email"}}, "ann", "e-mail"),
        ({"input": {"type": "url"}}, "javascript:alert(1)", "https://"),
        ({"input": {"type": "url"}}, "https://b.de/x y", "https://"),
        ({"input": {"type": "text", "pattern": "[a-z]+"}}, "abc1", "pattern"),
        ({"input": {"type": "text", "required": True}}, "", "answered"),
        ({"input": {"type": "text", "required": True}}, None, "answered"),
        ({}, {"no": "text"}, "text"),
        (PICK, "xl", "none of"),
        (PICK, ["s", "l"], "only one"),
    ],
    ids=plain_id,
)
def test_an_answer_that_does_not_fit_says_which_and_why(question: Any, value: Any, why: str) -> None:
    with pytest.raises(AnswerInvalid) as caught:
        accept_answers(request(**question), {"q": value})

    assert why in caught.value.fields["q"]


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(AnswerInvalid) as caught:
        accept_answers(request(input={"type": "number"}), {"q": "many", "other": "x"})

    assert set(caught.value.fields) == {"q", "other"}


def test_what_is_left_out_is_no_error_where_it_may_be() -> None:
    assert accept_answers(request(**PICK), {}) == {}
    assert accept_answers(request(**{**PICK, "multiple": True}), {"q": ["l", "s"]}) == {"q": ["l", "s"]}


def test_answers_are_a_mapping() -> None:
    with pytest.raises(AnswerInvalid):
        accept_answers(request(), ["x"])


def test_a_settled_set_tells_answers_defaults_and_a_summary_with_labels() -> None:
    output = settle_answers(request(**PICK), AnswersReply(answers={"other": ["x"]}, answered_via="web"))

    assert output == {
        "answers": {"q": ["s"]},
        "skipped": False,
        "defaulted": ["q"],
        "summary": "What? Small",
        "answeredVia": "web",
    }


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"options": [{"value": "a"}]}, "defaults"),
        ({**PICK, "defaults": ["x"]}, "none of the options"),
        ({**PICK, "defaults": ["s", "l"]}, "only one default"),
        ({"input": {"type": "select"}}, "needs options"),
        ({"input": {"type": "text", "pattern": "("}}, "no pattern"),
        ({"unknown": 1}, "unknown"),
        ({"id": ""}, "questions.0.id"),
    ],
    ids=plain_id,
)
def test_questions_that_cannot_be_asked_are_refused(question: Any, why: str) -> None:
    with pytest.raises(ToolInputInvalidError, match=why):
        request(**question)
    with pytest.raises(DefinitionError, match=why):
        check_intake({"questions": [{"id": "q", "question": "What?", **question}]})
