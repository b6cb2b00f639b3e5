"""Answers as data: which ask takes which of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loomnb.asks import NOTHING, Ask, Question, Script, check_questions, read_answers
from loomnb.errors import ArgsInvalid

QUESTIONS = Ask(
    id="ask-1",
    name="answer",
    kind="questions",
    label="?",
    questions=check_questions([{"id": i, "question": "?", "isSkippable": True} for i in ("env", "why")]),
)
CONFIRM = Ask(id="ask-2", name="answer", kind="confirm", label="?", context="Go?")
KEYED = Ask(id="ask-3", name="answer", kind="confirm", label="?", context="Go?", key="deploy")
WAIT = Ask(id="ask-4", name="approve", kind="form", label="?")


def script(mapping: Any) -> Script:
    return Script(mapping, "test")


def test_questions_are_found_by_their_ids() -> None:
    assert script({"ask": {"env": "staging", "why": None}}).payload("ask", QUESTIONS) == {"env": "staging", "why": None}


def test_a_question_without_an_answer_leaves_the_whole_ask_open() -> None:
    assert script({"ask": {"env": "staging"}}).payload("ask", QUESTIONS) is NOTHING


def test_a_confirmation_is_found_under_confirm() -> None:
    assert script({"ask": {"confirm": True}}).payload("ask", CONFIRM) is True


def test_a_confirmation_with_a_key_is_found_under_its_key() -> None:
    assert script({"ask": {"confirm": False, "deploy": True}}).payload("ask", KEYED) is True


def test_a_wait_transition_is_found_by_its_name() -> None:
    assert script({"notes": {"approve": {"ok": True}}}).payload("notes", WAIT) == {"ok": True}


def test_a_star_answers_for_every_definition() -> None:
    assert script({"*": {"approve": {"ok": True}}}).payload("notes", WAIT) == {"ok": True}


def test_a_definitions_own_answer_goes_before_the_star() -> None:
    assert script({"*": {"approve": 1}, "notes": {"approve": 2}}).payload("notes", WAIT) == 2


def test_another_definitions_answer_is_not_taken() -> None:
    assert script({"other": {"approve": 1}}).payload("notes", WAIT) is NOTHING


def test_a_list_is_one_answer_per_time_it_is_asked() -> None:
    given = script({"notes": {"approve": [1, 2]}})

    assert [given.payload("notes", WAIT) for _ in range(3)] == [1, 2, NOTHING]


def test_a_payload_that_is_a_list_goes_inside_one() -> None:
    assert script({"notes": {"approve": [["a", "b"]]}}).payload("notes", WAIT) == ["a", "b"]


def test_a_null_leaves_a_wait_transition_to_a_person() -> None:
    assert script({"notes": {"approve": None}}).payload("notes", WAIT) is NOTHING


def test_a_null_in_a_list_leaves_only_that_time_to_a_person() -> None:
    given = script({"notes": {"approve": [None, 2]}})

    assert [given.payload("notes", replace(WAIT, id=f"ask-{n}")) for n in range(2)] == [NOTHING, 2]


def test_an_ask_that_was_left_to_a_person_is_not_answered_by_a_later_look() -> None:
    given = script({"notes": {"approve": [None, 2]}})

    assert [given.payload("notes", WAIT) for _ in range(2)] == [NOTHING, NOTHING]


def test_questions_that_lack_an_answer_use_none_up() -> None:
    two = replace(QUESTIONS, questions=(*QUESTIONS.questions, Question(id="more", question="More?", is_skippable=True)))
    given = script({"ask": {"env": ["staging"], "why": "because"}})

    assert given.payload("ask", two) is NOTHING
    assert given.missing("ask", two) == "more"
    assert given.payload("ask", QUESTIONS) is not NOTHING


@pytest.mark.parametrize("mapping", [{"ask": "staging"}, {"ask": ["x"]}, {1: {}}, {"ask": None}], ids=repr)
def test_another_shape_is_refused_with_an_example(mapping: Any) -> None:
    with pytest.raises(ArgsInvalid, match="meeting_notes"):
        script(mapping)


@pytest.mark.parametrize(
    ("ask", "key"), [(QUESTIONS, "env"), (CONFIRM, "confirm"), (KEYED, "deploy"), (WAIT, "approve")], ids=lambda v: str(v)[:8]
)
def test_an_ask_says_its_key(ask: Ask, key: str) -> None:
    assert Script.key_of(ask) == key


def test_a_yaml_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("ask:\n  env: staging\n  why: null\n", encoding="utf-8")

    assert read_answers(path).payload("ask", QUESTIONS) == {"env": "staging", "why": None}


@pytest.mark.parametrize("text", ["a: [", "- a", "just text", ""], ids=repr)
def test_a_file_that_holds_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ArgsInvalid, match=r"a\.yaml"):
        read_answers(path)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ArgsInvalid, match=r"none\.yaml"):
        read_answers(tmp_path / "none.yaml")


def test_yaml_makes_no_objects(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("ask:\n  env: !!python/object/apply:os.system ['true']\n", encoding="utf-8")

    with pytest.raises(ArgsInvalid):
        read_answers(path)


def test_an_ask_survives_its_json() -> None:
    assert [Ask.from_json(a.to_json()) for a in (QUESTIONS, CONFIRM, KEYED, WAIT)] == [QUESTIONS, CONFIRM, KEYED, WAIT]
