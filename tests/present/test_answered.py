"""A page tells what was asked and answered, where it happened, also after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

import loomnb as loom
from tests.helpers import at_rest


class Verdict(BaseModel):
    choice: Literal["ship", "hold"] = Field(title="Your choice")
    note: str | None = None


class TwoAsksWorkflow(loom.BaseWorkflow[object]):
    @loom.transition(to="drafted")
    def draft(self):
        self.document_store.save(loom.PlainDocument, {"text": "the draft"})

    @loom.transition(from_="drafted", to="judged", wait=True, schema=Verdict)
    def judge(self):
        """Is it <i>good</i>?"""
        self.document_store.save(loom.PlainDocument, {"text": "the final"})

    @loom.transition(from_="judged", to="end", wait=True)
    def publish(self):
        """Publish it"""
        self.set_result({"done": True})


def lines_in_order(text: str, *wanted: str) -> bool:
    places = [text.find(one) for one in wanted]
    return -1 not in places and places == sorted(places)


def test_an_answered_question_stands_between_the_documents_it_came_between(session: loom.Loom):
    run = session.start(loom.workflow(TwoAsksWorkflow))
    at_rest(run)
    run.answer("judge", {"choice": "ship"})
    at_rest(run)
    for form in run._repr_mimebundle_().values():
        assert lines_in_order(form, "the draft", "good", "ship", "the final", "Publish it")


def test_it_is_told_the_same_after_a_restart(here: Path):
    loom.workflow(TwoAsksWorkflow)
    with loom.open(here / "r.duckdb") as first:
        run = first.start("two_asks")
        at_rest(run)
        run.answer("judge", {"choice": "hold", "note": "later"})
        at_rest(run)
        told, run_id = run._repr_mimebundle_(), run.id
    with loom.open(here / "r.duckdb") as second:
        assert second.run(run_id)._repr_mimebundle_() == told


def test_labels_and_answers_are_no_markup(session: loom.Loom):
    run = session.start(loom.workflow(TwoAsksWorkflow))
    at_rest(run)
    run.answer("judge", {"choice": "ship", "note": "<script>x</script>"})
    at_rest(run)
    bundle = run._repr_mimebundle_()
    assert "<i>" not in bundle["text/html"]
    assert not any("<script" in bundle[mime] for mime in ("text/html", "text/markdown"))


def test_questions_of_a_cell_tell_each_answer_and_no_path(session: loom.Loom):
    ask = session.ask_questions(
        [{"id": "a", "question": "First?", "isSkippable": False}, {"id": "b", "question": "Second?", "isSkippable": True}]
    )
    ask.answer({"a": "yes", "b": None})
    ask.wait(5)
    assert repr(ask) == "Questions: completed\n✓ 2 questions\n    First? → yes\n    Second? → skipped"


def test_a_confirmation_tells_its_context_verdict_and_feedback(session: loom.Loom):
    ask = session.confirm("Deploy **v2**?")
    ask.answer({"isConfirmed": False, "feedback": "not on Friday"})
    ask.wait(5)
    assert repr(ask) == ("Confirmation: completed\n✓ Please confirm\n    Deploy **v2**?\n    not confirmed: not on Friday")


def test_answers_given_later_are_looked_at_before_anybody_is_told_that_nobody_can_answer(session: loom.Loom):
    for _ in range(20):
        ask = session.confirm("Go?")
        session.answers({"ask": {"confirm": True}})
        assert ask.wait(5).is_confirmed
        session.answers(None)
