"""AskUser and ConfirmUser: a person asked by a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import at_rest


def asked(session: loom.Loom, **args: Any) -> loom.Run:
    run = session.start(loom.AskUserWorkflow, {"question": "Where to?", **args})
    at_rest(run)
    return run


@pytest.mark.case("workflows:M01")
def test_a_question_is_one_text_document_and_waits_for_the_user(session: loom.Loom) -> None:
    run = asked(session)

    assert [(d.document_name, d.key, d.content["question"]) for d in run.documents] == [("ask_user", "question", "Where to?")]
    assert (run.status, run.waiting_for, run.place) == ("waiting", "person", "waiting_for_user")
    assert [e.place for e in run.history] == ["start", "show_question", "waiting_for_user"]
    assert run.pending[0].label == "Where to?"


@pytest.mark.case("workflows:M02")
@pytest.mark.parametrize("mode", [{}, {"mode": "options"}])
def test_options_are_in_their_document_and_in_the_form(session: loom.Loom, mode: dict[str, str]) -> None:
    run = asked(session, options=["staging", "production"], **mode)

    (document,) = run.documents
    assert document.document_name == "ask_user_options"
    assert document.content["options"] == ["staging", "production"]
    form = run.pending[0].form
    assert form is not None
    assert [c.value for c in form.fields[0].choices] == ["staging", "production"]


@pytest.mark.case("workflows:M03")
def test_confirm_mode_has_its_document_and_takes_yes_or_no(session: loom.Loom) -> None:
    run = asked(session, mode="confirm")

    assert [d.document_name for d in run.documents] == ["ask_user_confirm"]
    with pytest.raises(loom.AnswerInvalid):
        run.answer({"answer": "perhaps"})
    run.answer({"answer": "yes"})
    assert run.wait(10) == {"answer": "yes"}


@pytest.mark.case("workflows:M05")
@pytest.mark.parametrize("options", [[], ["staging"]])
def test_the_answer_takes_the_place_of_its_question(session: loom.Loom, options: list[str]) -> None:
    run = asked(session, options=options)

    run.answer("user_answered", {"answer": "staging"})

    assert run.wait(10) == {"answer": "staging"}
    (document,) = run.documents
    assert (document.key, document.content["question"], document.content["answer"]) == ("question", "Where to?", "staging")


@pytest.mark.case("workflows:M06")
def test_the_answer_to_inferred_options_stays_an_options_document(session: loom.Loom) -> None:
    run = asked(session, options=["a", "b"])
    run.answer({"answer": "a"})
    run.wait(10)

    assert [(d.document_name, d.content["options"]) for d in run.documents] == [("ask_user_options", ["a", "b"])]
    assert run.args["mode"] == "options"


@pytest.mark.case("workflows:M07")
def test_an_answer_that_was_not_offered_is_refused_and_the_question_stays(session: loom.Loom) -> None:
    run = asked(session, options=["a", "b"])

    with pytest.raises(loom.AnswerInvalid) as caught:
        run.answer({"answer": "zzz"})

    assert list(caught.value.fields) == ["answer"]
    assert (run.status, len(run.pending), run.has_error) == ("waiting", 1, False)
    run.answer({"answer": "b"})
    assert run.wait(10) == {"answer": "b"}


def test_own_words_are_taken_where_they_are_allowed(session: loom.Loom) -> None:
    run = asked(session, options=["a", "b"], allowCustomAnswer=True)

    run.answer({"answer": "zzz"})

    assert run.wait(10) == {"answer": "zzz"}
    assert run.documents[0].content["allowCustomAnswer"] is True


def test_unknown_keys_are_dropped_and_options_without_any_are_refused(session: loom.Loom) -> None:
    assert "colour" not in asked(session, colour="red").args
    with pytest.raises(loom.ArgsInvalid, match="needs options"):
        asked(session, mode="options")


@pytest.mark.case("workflows:M09")
@pytest.mark.parametrize(("button", "confirmed"), [("user_confirmed", True), ("user_denied", False)])
def test_a_verdict_is_the_result_and_stands_in_the_document(session: loom.Loom, button: str, confirmed: bool) -> None:
    run = session.start(loom.ConfirmUserWorkflow, {"markdown": "Ship **v1**?"})
    at_rest(run)
    assert [(d.document_name, d.key) for d in run.documents] == [("confirm_user", "content")]
    assert (run.place, [a.name for a in run.pending]) == ("waiting_for_confirmation", ["user_confirmed", "user_denied"])
    assert [a.label for a in run.pending] == ["Confirm", "Deny"]

    run.answer(button)

    assert run.wait(10) == {"confirmed": confirmed, "markdown": "Ship **v1**?"}
    assert [d.content["confirmed"] for d in run.documents] == [confirmed]


@pytest.mark.case("workflows:M13")
@pytest.mark.parametrize(("button", "text"), [("user_confirmed", "proceeds"), ("user_denied", "aborts")])
def test_a_parent_proceeds_or_aborts(session: loom.Loom, button: str, text: str) -> None:
    @loom.workflow
    class ConfirmContentWorkflow(loom.BaseWorkflow[dict[str, Any]]):
        @loom.transition(to="waiting")
        async def go(self) -> None:
            loom.ConfirmUserWorkflow().run({"markdown": "…"}, callback={"transition": "decided"})

        @loom.transition(from_="waiting", to="end", wait=True)
        async def decided(self, state: Mapping[str, Any], given: loom.TransitionInput[Any, None]) -> None:
            self.set_result("proceeds" if given.data["confirmed"] else "aborts")

    run = session.start(ConfirmContentWorkflow)
    at_rest(run)
    at_rest(run.children[0])

    run.children[0].answer(button)

    assert run.wait(10) == text


def test_a_question_outlives_its_kernel_without_any_definition(here: Any) -> None:
    with loom.open(here / "p.duckdb") as first:
        run = asked(first, options=["a", "b"])

    with loom.open(here / "p.duckdb") as second:
        again = second.run(run.id)
        assert [a.label for a in again.pending] == ["Where to?"]
        again.answer({"answer": "b"})
        assert again.wait(10) == {"answer": "b"}
