"""What a person types: questions and confirmations in a cell, answers as data, what is pending, the table of runs."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pydantic import BaseModel

import loomnb as loom
from tests.helpers import at_rest

ENV = {"id": "env", "question": "Where to?", "isSkippable": False, "options": [{"id": "s", "label": "staging"}]}
WHY = {"id": "why", "question": "Why?", "isSkippable": True}


class Verdict(BaseModel):
    ok: bool


def notes(session: loom.Loom, **options: Any) -> loom.Run:
    """A run of `meeting_notes` that waits for `approve`, twice."""

    @loom.workflow
    class MeetingNotesWorkflow(loom.BaseWorkflow):
        @loom.transition(to="review")
        def draft(self) -> None: ...

        @loom.transition(from_="review", to="again", wait=True, schema=Verdict)
        def approve(self, state: Any, input: Any) -> None:  # noqa: A002
            self.assign_state(first=input.data.ok)

        @loom.transition(from_="again", to="end", wait=True)
        def publish(self, state: Any, input: Any) -> None:  # noqa: A002
            self.set_result({"first": state["first"], "data": input.data})

    return session.start(MeetingNotesWorkflow, **options)


# -- questions and confirmations ----------------------------------------------------------------------


def test_answers_are_read_by_id(session: loom.Loom) -> None:
    run = session.ask_questions([ENV, WHY])
    run.answer({"env": "my laptop", "why": None})
    answers = run.wait(5)

    assert (answers["env"], answers["why"]) == ("my laptop", None)
    assert answers.dump() == [
        {"questionId": "env", "isSkipped": False, "answer": "my laptop"},
        {"questionId": "why", "isSkipped": True},
    ]


def test_a_confirmation_gives_its_verdict(session: loom.Loom) -> None:
    run = session.confirm("Deploy **v1.2**?")
    run.answer({"isConfirmed": False, "feedback": "not on a Friday"})
    verdict = run.wait(5)

    assert (verdict.is_confirmed, verdict.feedback) == (False, "not on a Friday")
    assert verdict.dump() == {"isConfirmed": False, "feedback": "not on a Friday"}


def test_feedback_that_was_left_out_is_none(session: loom.Loom) -> None:
    run = session.confirm("Go?")
    run.answer(True)

    assert run.wait(5).feedback is None
    assert run.wait(5).dump() == {"isConfirmed": True}


def test_asking_can_be_awaited(session: loom.Loom) -> None:
    async def cell() -> Any:
        run = session.ask_questions([ENV])
        run.answer({"env": "x"})
        return await run

    assert asyncio.run(cell())["env"] == "x"


def test_a_question_asked_in_a_cell_is_a_run_of_its_own(session: loom.Loom) -> None:
    run = session.ask_questions([ENV])

    assert (run.workflow, run.status, run.waiting_for, len(run.pending)) == ("ask", "waiting", "person", 1)
    assert session.sql("select workflow, status from runs").fetchall() == [("ask", "waiting")]


def test_several_asks_are_answered_in_any_order(session: loom.Loom) -> None:
    runs = [session.confirm(f"{n}?") for n in range(3)]
    for run in reversed(runs):
        run.answer(True)

    assert [run.wait(5).is_confirmed for run in runs] == [True] * 3


@pytest.mark.parametrize("questions", [[], [{"id": "a"}], "env", [ENV | {"options": None}], None], ids=str)
def test_what_is_no_question_is_refused_and_asks_nothing(session: loom.Loom, questions: Any) -> None:
    with pytest.raises(loom.ArgsInvalid):
        session.ask_questions(questions)

    assert len(session.pending()) == 0


def test_an_empty_confirmation_is_refused(session: loom.Loom) -> None:
    with pytest.raises(loom.ArgsInvalid):
        session.confirm("")


def test_a_key_finds_the_earlier_answer(session: loom.Loom) -> None:
    first = session.ask_questions([ENV], key="where")
    first.answer({"env": "staging"})
    first.wait(5)

    assert session.ask_questions([ENV], key="where").wait(5)["env"] == "staging"


def test_a_key_finds_the_earlier_answer_after_a_restart(here: Path) -> None:
    with loom.open(here / "s.duckdb") as session:
        run = session.confirm("Go?", key="go")
        run.answer(True)
        run.wait(5)
    with loom.open(here / "s.duckdb") as session:
        assert session.confirm("Go?", key="go").wait(5).is_confirmed


def test_other_questions_under_a_key_are_refused(session: loom.Loom) -> None:
    session.ask_questions([ENV], key="where")

    with pytest.raises(loom.Conflict):
        session.ask_questions([WHY], key="where")


def test_fresh_asks_anew_under_a_key(session: loom.Loom) -> None:
    first = session.confirm("Go?", key="go")
    first.answer(False)
    first.wait(5)

    assert session.confirm("Go?", key="go", fresh=True).status == "waiting"


@pytest.mark.parametrize("ask", ["confirm", "ask_questions"])
def test_a_transition_cannot_ask_like_a_cell(session: loom.Loom, ask: str) -> None:
    @loom.workflow
    class Asking(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            getattr(session, ask)("Go?" if ask == "confirm" else [ENV])

    run = session.start(Asking)
    at_rest(run)

    assert run.status == "failed"
    assert "wait transition" in str(run.record.view.failure)


def test_the_module_verbs_act_on_the_default_session(session: loom.Loom) -> None:
    run = loom.confirm("Go?")

    assert loom.run(run.id).id == run.id
    assert [p.run.id for p in loom.pending()] == [r.id for r in loom.restore()] == [run.id]
    assert loom.runs().fetchall()[0][0] == run.id


# -- where nobody can answer --------------------------------------------------------------------------

WAITS = {"wait": lambda run: run.wait(), "await": lambda run: asyncio.run(_await(run))}


async def _await(run: loom.Run) -> Any:
    return await run


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("ask", ["questions", "confirm", "keyed confirm", "wait transition"])
def test_where_nobody_can_answer_waiting_ends_at_once_and_says_how_to_answer(session: loom.Loom, ask: str, wait: Any) -> None:
    run, workflow, key = {
        "questions": lambda: (session.ask_questions([ENV]), "ask", "env"),
        "confirm": lambda: (session.confirm("Go?"), "ask", "confirm"),
        "keyed confirm": lambda: (session.confirm("Go?", key="deploy"), "ask", "deploy"),
        "wait transition": lambda: (notes(session), "meeting_notes", "approve"),
    }[ask]()
    began = time.monotonic()
    with pytest.raises(loom.NoFrontEnd) as caught:
        wait(run)

    assert time.monotonic() - began < 2
    text = str(caught.value)
    for part in (run.pending[0].label, key, workflow, "loom.answers", "LOOMNB_ANSWERS", run.id):
        assert part in text, part
    assert (run.status, len(run.pending)) == ("waiting", 1)


def test_the_answer_it_names_works(session: loom.Loom) -> None:
    run = session.ask_questions([ENV])
    with pytest.raises(loom.NoFrontEnd) as caught:
        run.wait()
    line = next(part for part in str(caught.value).splitlines() if "loom.answers" in part)
    call = line[line.index("loom.answers") :]
    eval(call.replace("'…'", "'staging'"), {"loom": loom})

    assert run.wait(5)["env"] == "staging"


def test_an_answer_in_code_ends_the_wait_of_another_thread(session: loom.Loom) -> None:
    """A run that moves is waited for; only one that waits for a person is not."""
    release = threading.Event()

    @loom.workflow
    class Slow(loom.BaseWorkflow):
        @loom.transition(to="ask")
        def begin(self) -> None:
            release.wait(10)

        @loom.transition(from_="ask", to="end", wait=True)
        def go(self) -> None: ...

    run = session.start(Slow)
    release.set()
    at_rest(run)
    run.answer("go")

    assert run.wait(5) is None


# -- answers as data ----------------------------------------------------------------------------------


def sources(session: loom.Loom) -> list[Any]:
    return [s for (s,) in session.sql("select source from answers order by seq").fetchall()]


def test_answers_given_before_are_used_and_recorded_with_their_source(session: loom.Loom) -> None:
    loom.answers({"ask": {"env": "staging"}})

    assert session.ask_questions([ENV]).wait(5)["env"] == "staging"
    assert sources(session) == ["loom.answers"]


def test_answers_given_later_reach_the_asks_that_are_open(session: loom.Loom) -> None:
    run = session.confirm("Go?")
    loom.answers({"ask": {"confirm": True}})

    assert run.wait(5).is_confirmed


def test_a_whole_workflow_is_answered(session: loom.Loom) -> None:
    loom.answers({"meeting_notes": {"approve": {"ok": True}, "publish": "now"}})

    assert notes(session).wait(5) == {"first": True, "data": "now"}


def test_a_list_answers_each_time_it_is_asked(session: loom.Loom) -> None:
    loom.answers({"ask": {"confirm": [True, False]}})
    verdicts = [session.confirm("Go?").wait(5).is_confirmed for _ in range(2)]

    assert verdicts == [True, False]
    with pytest.raises(loom.NoFrontEnd):
        session.confirm("Go?").wait()


def test_an_answer_that_does_not_fit_raises_where_it_is_waited_for(session: loom.Loom) -> None:
    loom.answers({"meeting_notes": {"approve": {"ok": "perhaps"}}})
    run = notes(session)

    with pytest.raises(loom.AnswerInvalid) as caught:
        run.wait(5)
    assert set(caught.value.fields) == {"ok"}
    assert run.status == "waiting"


def test_a_null_leaves_a_wait_transition_to_a_person(session: loom.Loom) -> None:
    loom.answers({"meeting_notes": {"approve": None}})

    with pytest.raises(loom.NoFrontEnd):
        notes(session).wait()


def test_new_answers_replace_the_old_ones(session: loom.Loom) -> None:
    loom.answers({"ask": {"confirm": True}})
    loom.answers({"ask": {"env": "x"}})

    with pytest.raises(loom.NoFrontEnd):
        session.confirm("Go?").wait()


def test_none_clears_the_answers(session: loom.Loom) -> None:
    loom.answers({"ask": {"confirm": True}})
    loom.answers(None)

    with pytest.raises(loom.NoFrontEnd):
        session.confirm("Go?").wait()


def test_a_wrong_shape_is_refused_and_what_was_given_stays(session: loom.Loom) -> None:
    loom.answers({"ask": {"confirm": True}})
    with pytest.raises(loom.ArgsInvalid):
        loom.answers({"ask": True})

    assert session.confirm("Go?").wait(5).is_confirmed


def answers_file(here: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str = "mine.yaml") -> None:
    (here / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("LOOMNB_ANSWERS", name)


def test_a_file_answers(here: Path, session: loom.Loom, monkeypatch: pytest.MonkeyPatch) -> None:
    answers_file(here, monkeypatch, "ask:\n  env: staging\n  why: null\n  confirm: [true]\n")

    assert session.ask_questions([ENV, WHY]).wait(5)["env"] == "staging"
    assert session.confirm("Go?").wait(5).is_confirmed
    assert sources(session) == ["mine.yaml", "mine.yaml"]


def test_answers_in_code_replace_the_files(here: Path, session: loom.Loom, monkeypatch: pytest.MonkeyPatch) -> None:
    answers_file(here, monkeypatch, "ask:\n  confirm: true\n")
    loom.answers({"ask": {"confirm": False}})

    assert not session.confirm("Go?").wait(5).is_confirmed


def test_none_clears_the_files_answers_too(here: Path, session: loom.Loom, monkeypatch: pytest.MonkeyPatch) -> None:
    answers_file(here, monkeypatch, "ask:\n  confirm: true\n")
    loom.answers(None)

    with pytest.raises(loom.NoFrontEnd):
        session.confirm("Go?").wait()


@pytest.mark.parametrize("text", [None, "a: [", "- x"], ids=["missing", "no YAML", "no mapping"])
def test_a_file_that_cannot_be_used_is_told_where_it_was_needed(
    here: Path, session: loom.Loom, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    monkeypatch.setenv("LOOMNB_ANSWERS", "mine.yaml")
    if text is not None:
        (here / "mine.yaml").write_text(text, encoding="utf-8")
    run = session.confirm("Go?")

    with pytest.raises(loom.ArgsInvalid, match=r"mine\.yaml"):
        run.wait(5)
    assert run.status == "waiting"


def test_a_file_beside_is_not_used_where_there_is_no_notebook(here: Path, session: loom.Loom) -> None:
    (here / "answers.yaml").write_text("ask:\n  confirm: true\n", encoding="utf-8")

    with pytest.raises(loom.NoFrontEnd):
        session.confirm("Go?").wait()


# -- what is pending ----------------------------------------------------------------------------------


def test_every_open_ask_of_every_run_is_pending(session: loom.Loom) -> None:
    first, second = session.confirm("One?"), session.ask_questions([ENV])
    third = notes(session)
    at_rest(third)

    assert [(p.run.id, p.name) for p in session.pending()] == [(first.id, "answer"), (second.id, "answer"), (third.id, "approve")]


def test_a_pending_ask_is_answered(session: loom.Loom) -> None:
    run = session.confirm("Go?")
    session.pending()[0].answer(True)

    assert run.wait(5).is_confirmed
    assert len(session.pending()) == 0


def test_pending_asks_are_there_after_the_store_was_opened_again(here: Path) -> None:
    with loom.open(here / "s.duckdb") as session:
        session.ask_questions([ENV])
        session.confirm("Go?")
    with loom.open(here / "s.duckdb") as session:
        assert [p.ask.kind for p in session.pending()] == ["questions", "confirm"]
        session.pending()[0].answer({"env": "later"})
        session.pending()[0].answer(True)
        assert len(session.pending()) == 0


def test_nothing_pending_says_so(session: loom.Loom) -> None:
    assert repr(session.pending()) == "Nothing is asked."


def test_what_is_pending_tells_its_runs(session: loom.Loom) -> None:
    session.confirm("Deploy it?")

    assert "Deploy it?" in repr(session.pending())


# -- the table of runs --------------------------------------------------------------------------------


def test_runs_are_a_table_newest_first(session: loom.Loom) -> None:
    first, second = session.confirm("One?"), notes(session, labels=["q3", "mine"], title="Notes of May")
    at_rest(second)
    table = session.runs()

    assert table.columns[:5] == ["run_id", "title", "workflow", "status", "place"]
    assert [row[:5] for row in table.fetchall()] == [
        (second.id, "Notes of May", "meeting_notes", "waiting", "review"),
        (first.id, "Confirmation", "ask", "waiting", "start"),
    ]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"status": "waiting"}, ["meeting_notes"]),
        ({"status": "completed"}, ["ask"]),
        ({"status": "failed"}, []),
        ({"workflow": "ask"}, ["ask"]),
        ({"labels": ["q3"]}, ["meeting_notes"]),
        ({"labels": ["q3", "mine"]}, ["meeting_notes"]),
        ({"labels": ["q3", "other"]}, []),
        ({"workflow": "ask", "status": "waiting"}, []),
    ],
    ids=str,
)
def test_runs_are_filtered(session: loom.Loom, filters: Any, found: list[str]) -> None:
    run = session.confirm("One?")
    run.answer(True)
    at_rest(run)
    at_rest(notes(session, labels=["q3", "mine"]))

    assert [row[2] for row in session.runs(**filters).fetchall()] == found


def test_an_unknown_status_is_refused_with_those_there_are(session: loom.Loom) -> None:
    with pytest.raises(loom.Refused, match="waiting"):
        session.runs(status="paused")


def test_pending_names_what_cannot_be_read_and_what_waits_for_its_definition(tmp_path: Path) -> None:
    """One bad run blocks no other, and is told where a person looks."""
    path = tmp_path / "s.duckdb"
    bad = loom.open(path).confirm("Bad?")
    good = loom.confirm("Good?")
    loom.close()
    with duckdb.connect(str(path)) as raw:
        raw.execute('update journal set body = json_merge_patch(body, \'{"status":"martian"}\') where run_id = ?', [bad.id])

    pending = loom.open(path).pending()

    assert [ask.run.id for ask in pending] == [good.id]
    assert [bad.id in note and "martian" in note for note in pending.notes] == [True]
    with pytest.raises(loom.StoreDamaged, match="cannot be read"):
        loom.run(bad.id)
    loom.close()


def test_a_run_of_a_closed_store_cannot_be_canceled(tmp_path: Path) -> None:
    run = loom.open(tmp_path / "s.duckdb").confirm("Go?")
    loom.close()

    with pytest.raises(loom.StoreClosed, match="goes on when the store is open again"):
        run.cancel()
