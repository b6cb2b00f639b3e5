"""Waiting and answering: judged before anything changes, taken once, committed at the call."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from tests.helpers import at_rest


class Verdict(BaseModel):
    ok: bool
    stars: int = 3


def asking(session: loom.Loom, schema: Any = None, **options: Any) -> tuple[loom.Run, list[Any]]:
    """A run that waits for `approve` at the place `ask`, and the inputs its body got."""
    inputs: list[Any] = []

    @loom.workflow(name="asking")
    class Asking(loom.BaseWorkflow):
        @loom.transition(to="ask")
        def begin(self) -> None:
            self.assign_state(begun=True)

        @loom.transition(from_="ask", to="end", wait=True, schema=schema, **options)
        def approve(self, state: Any, input: Any, ctx: Any) -> None:  # noqa: A002
            inputs.append((input, ctx))
            self.assign_state(approved=True)

    run = session.start(Asking)
    at_rest(run)
    return run, inputs


@pytest.mark.case("workflows:D01")
def test_a_wait_transition_gets_the_answer_in_its_envelope(session: loom.Loom) -> None:
    run, inputs = asking(session)
    run.answer("approve", "hi")
    at_rest(run)
    ((got, ctx),) = inputs

    assert (got.workflow_id, got.status, got.has_error, got.error_message, got.data, got.meta) == (
        *(run.id, "completed", False, None, "hi", None),
    )
    assert (ctx.workflow_id, ctx.args, ctx.execution.place, ctx.execution.retry_count) == (run.id, {}, "ask", 0)
    assert ctx.user_id
    assert ctx.workspace_id


def test_the_data_is_what_the_schema_parsed(session: loom.Loom) -> None:
    run, inputs = asking(session, Verdict)
    run.answer("approve", {"ok": "true"})
    at_rest(run)

    assert inputs[0][0].data == Verdict(ok=True, stars=3)


def test_a_model_may_be_the_answer(session: loom.Loom) -> None:
    run, inputs = asking(session, Verdict)
    run.answer("approve", Verdict(ok=False, stars=1))
    at_rest(run)

    assert inputs[0][0].data == Verdict(ok=False, stars=1)


def test_an_answer_is_copied_at_the_call(session: loom.Loom) -> None:
    run, inputs = asking(session)
    mine = {"a": [1]}
    run.answer("approve", mine)
    mine["a"].append(2)
    at_rest(run)

    assert inputs[0][0].data == {"a": [1]}


@pytest.mark.case("workflows:D02", "workflows:D04")
@pytest.mark.parametrize("payload", ["hi", 3, None, [], {}, {"ok": "perhaps"}, {"ok": True, "stars": "many"}], ids=repr)
def test_a_bad_answer_is_refused_with_its_fields_and_leaves_the_run_alone(session: loom.Loom, payload: Any) -> None:
    run, inputs = asking(session, Verdict)
    before = session.sql("select count(*) from journal").fetchall()
    (ask,) = run.pending

    with pytest.raises(loom.AnswerInvalid) as caught:
        run.answer("approve", payload)

    assert caught.value.fields
    assert (run.status, run.place, run.state, run.pending, run.has_error) == ("waiting", "ask", {"begun": True}, [ask], False)
    assert session.sql("select count(*) from journal").fetchall() == before
    assert inputs == []


@pytest.mark.case("workflows:D04")
def test_a_good_answer_after_a_bad_one_works(session: loom.Loom) -> None:
    run, inputs = asking(session, int)
    with pytest.raises(loom.AnswerInvalid) as caught:
        run.answer("approve", "many")
    assert set(caught.value.fields) == {"data"}
    run.answer("approve", 4)

    assert at_rest(run).status == "completed"
    assert inputs[0][0].data == 4


def test_an_answer_that_is_no_json_is_refused(session: loom.Loom) -> None:
    run, _ = asking(session)

    with pytest.raises(loom.NotJson):
        run.answer("approve", object())
    assert run.status == "waiting"


@pytest.mark.case("workflows:D06")
@pytest.mark.parametrize("name", ["nothing", "begin", "ask-000000000000", ""])
def test_a_name_that_is_not_open_is_refused_and_the_open_ones_named(session: loom.Loom, name: str) -> None:
    run, inputs = asking(session)

    with pytest.raises(loom.AnswerRefused, match="'approve'"):
        run.answer(name, {"data": 1})

    assert (run.status, run.place, inputs) == ("waiting", "ask", [])


@pytest.mark.case("workflows:D08")
def test_whoever_answers_cannot_set_the_status(session: loom.Loom) -> None:
    run, inputs = asking(session)
    run.answer("approve", {"status": "canceled", "hasError": True, "data": 1})
    at_rest(run)
    got = inputs[0][0]

    assert (got.status, got.has_error) == ("completed", False)


@pytest.mark.case("workflows:D08")
def test_a_status_in_the_answer_does_not_get_round_the_schema(session: loom.Loom) -> None:
    run, _ = asking(session, Verdict)

    with pytest.raises(loom.AnswerInvalid):
        run.answer("approve", {"status": "canceled", "data": None})


@pytest.mark.case("workflows:D09")
def test_a_completed_run_cannot_be_retried(session: loom.Loom) -> None:
    run, _ = asking(session)
    run.answer("approve")
    at_rest(run)

    with pytest.raises(loom.Conflict):
        run.retry()
    assert run.status == "completed"


@pytest.mark.case("workflows:D10")
def test_a_waiting_run_that_has_not_failed_cannot_be_retried(session: loom.Loom) -> None:
    run, _ = asking(session)
    pending = run.pending

    with pytest.raises(loom.Conflict, match="waits"):
        run.retry()

    assert (run.status, run.pending) == ("waiting", pending)
    run.answer("approve")
    assert at_rest(run).status == "completed"


@pytest.mark.case("workflows:D15")
def test_a_canceled_run_takes_no_answer(session: loom.Loom) -> None:
    run, inputs = asking(session)
    run.cancel()

    with pytest.raises(loom.AnswerRefused):
        run.answer("approve")
    assert (run.status, inputs) == ("canceled", [])


def test_a_second_answer_is_refused_and_the_first_one_stands(session: loom.Loom) -> None:
    run, inputs = asking(session)
    run.answer("approve", 1)
    with pytest.raises(loom.AnswerRefused):
        run.answer("approve", 2)
    at_rest(run)

    assert [got.data for got, _ in inputs] == [1]


def test_the_id_of_an_ask_answers_it(session: loom.Loom) -> None:
    run, inputs = asking(session)
    run.answer(run.pending[0].id, 1)
    at_rest(run)

    assert [got.data for got, _ in inputs] == [1]


def test_without_a_name_the_only_open_ask_is_answered(session: loom.Loom) -> None:
    run, inputs = asking(session, Verdict)
    run.answer({"ok": True})
    at_rest(run)

    assert inputs[0][0].data == Verdict(ok=True)


def test_a_button_needs_neither_name_nor_payload(session: loom.Loom) -> None:
    run, inputs = asking(session)
    run.answer()
    at_rest(run)

    assert inputs[0][0].data is None


def test_the_payload_may_be_given_by_its_keyword(session: loom.Loom) -> None:
    run, inputs = asking(session)
    run.answer(payload="approve")
    at_rest(run)

    assert inputs[0][0].data == "approve"


def two_ways(session: loom.Loom) -> loom.Run:
    @loom.workflow
    class TwoWays(loom.BaseWorkflow):
        @loom.transition(to="fork")
        def begin(self) -> None: ...

        @loom.transition(from_="fork", to="end", wait=True)
        def left(self) -> None:
            self.set_result("left")

        @loom.transition(from_="fork", to="end", wait=True)
        def right(self) -> None:
            self.set_result("right")

    run = session.start(TwoWays)
    at_rest(run)
    return run


def test_each_wait_transition_of_a_place_opens_an_ask(session: loom.Loom) -> None:
    assert [a.name for a in two_ways(session).pending] == ["left", "right"]


def test_with_several_open_asks_an_answer_must_name_one(session: loom.Loom) -> None:
    run = two_ways(session)

    with pytest.raises(loom.AnswerRefused, match="'left'"):
        run.answer({"x": 1})
    assert run.status == "waiting"


@pytest.mark.parametrize("name", ["left", "right"])
def test_any_open_ask_may_be_answered_and_the_others_close(session: loom.Loom, name: str) -> None:
    run = two_ways(session)
    run.answer(name)
    at_rest(run)

    assert (run.result, run.pending) == (name, [])


def test_answering_returns_when_the_answer_is_stored_not_when_the_run_moved(session: loom.Loom) -> None:
    release = threading.Event()

    @loom.workflow
    class Slow(loom.BaseWorkflow):
        @loom.transition(to="ask")
        def begin(self) -> None: ...

        @loom.transition(from_="ask", to="end", wait=True)
        def go(self) -> None:
            release.wait(20)

    run = session.start(Slow)
    at_rest(run)
    run.answer("go")
    stored = session.sql("select status from runs").fetchall(), run.status, run.pending
    release.set()

    assert stored == ([("running",)], "running", [])
    assert at_rest(run).status == "completed"


# -- guards -------------------------------------------------------------------------------------------


def guarded(session: loom.Loom, guard: Any) -> loom.Run:
    def begin(self: Any) -> None: ...

    def go(self: Any) -> None: ...

    body = {
        "begin": loom.transition(to="ask")(begin),
        "go": loom.transition(from_="ask", to="end", wait=True)(loom.guard("may")(go)),
        "may": guard,
    }
    run = session.start(loom.workflow(type("Guarded", (loom.BaseWorkflow,), body)))
    at_rest(run)
    return run


async def refuse_later(self: Any, state: Any) -> bool:
    return False


def refuse(self: Any, state: Any) -> bool:
    return False


def explode(self: Any, state: Any) -> bool:
    raise ValueError("no guard today")


async def explode_later(self: Any, state: Any) -> bool:
    raise ValueError("no guard today")


@pytest.mark.case("workflows:C05", "workflows:C06")
@pytest.mark.parametrize("guard", [refuse, refuse_later, explode, explode_later], ids=lambda g: g.__name__)
def test_a_wait_guard_that_does_not_hold_refuses_the_answer_and_changes_nothing(session: loom.Loom, guard: Any) -> None:
    run = guarded(session, guard)
    pending, available = run.pending, run.available_transitions

    with pytest.raises(loom.AnswerRefused, match="'may'"):
        run.answer("go")

    assert (run.status, run.place, run.has_error, run.pending, run.available_transitions) == (
        "waiting",
        "ask",
        False,
        pending,
        available,
    )
    assert available == [{"id": "go", "from": "ask", "to": "end", "trigger": "manual"}]


async def allow_later(self: Any, state: Any) -> bool:
    return True


def test_an_async_wait_guard_that_holds_lets_the_answer_in(session: loom.Loom) -> None:
    run = guarded(session, allow_later)
    run.answer("go")

    assert at_rest(run).status == "completed"


# -- questions and confirmations ----------------------------------------------------------------------

QUESTIONS = [{"id": "env", "question": "Where?", "isSkippable": False, "options": [{"id": "s", "label": "staging"}]}]


@pytest.mark.case("blueprints:IA-02")
def test_questions_are_copied_at_the_call(session: loom.Loom) -> None:
    mine = [{"id": "env", "question": "Where?", "isSkippable": False}]
    run = session.ask_questions(mine)
    mine[0]["question"] = "When?"

    assert [q.question for q in run.pending[0].questions] == ["Where?"]


@pytest.mark.case("blueprints:IA-04")
def test_questions_with_one_id_twice_ask_nothing(session: loom.Loom) -> None:
    with pytest.raises(loom.ArgsInvalid):
        session.ask_questions(QUESTIONS * 2)

    assert len(session.pending()) == 0
    assert session.sql("select count(*) from runs").fetchall() == [(0,)]


@pytest.mark.case("blueprints:IA-07")
def test_a_run_that_asks_twice_takes_each_answer_once(session: loom.Loom) -> None:
    effects: list[str] = []

    @loom.workflow
    class Twice(loom.BaseWorkflow):
        @loom.transition(to="first")
        def begin(self) -> None:
            effects.append("begin")

        @loom.transition(from_="first", to="second", wait=True)
        def one(self) -> None: ...

        @loom.transition(from_="second", to="end", wait=True)
        def two(self) -> None: ...

    run = session.start(Twice)
    at_rest(run)
    first = run.pending[0].id
    run.answer(first, 1)
    at_rest(run)
    second = run.pending[0].id
    assert second != first
    with pytest.raises(loom.AnswerRefused) as caught:
        run.answer(first, 1)
    assert (caught.value.code, run.place, run.pending[0].id) == ("CONFLICT", "second", second)
    run.answer(second, 1)
    assert at_rest(run).status == "completed"
    with pytest.raises(loom.AnswerRefused):
        run.answer(second, 1)
    assert effects == ["begin"]


@pytest.mark.case("blueprints:IA-10")
def test_free_text_in_any_order_reaches_the_asker_to_the_letter(session: loom.Loom) -> None:
    run = session.ask_questions([*QUESTIONS, {"id": "why", "question": "Why?", "isSkippable": True}])
    answer = [
        {"questionId": "why", "isSkipped": False, "answer": "  because \n"},
        {"questionId": "env", "isSkipped": False, "answer": "my own laptop"},
    ]
    run.answer("answer", answer)
    answer[0]["answer"] = "changed"
    answer.reverse()

    assert run.wait(5).dump() == [
        {"questionId": "why", "isSkipped": False, "answer": "  because \n"},
        {"questionId": "env", "isSkipped": False, "answer": "my own laptop"},
    ]


@pytest.mark.case("blueprints:IA-13")
def test_the_ask_of_one_run_does_not_answer_another(session: loom.Loom) -> None:
    one, other = session.confirm("Go?"), session.confirm("Go?")

    with pytest.raises(loom.AnswerRefused) as caught:
        other.answer(one.pending[0].id, True)
    assert caught.value.code == "CONFLICT"
    one.answer(True)
    at_rest(one)

    assert other.status == "waiting"


class Cancelling(Mapping[str, Any]):
    """An answer whose inspection cancels the run."""

    def __init__(self, run: loom.Run) -> None:
        self.run = run

    def __getitem__(self, key: str) -> Any:
        return {"env": "x"}[key]

    def __iter__(self) -> Any:
        self.run.cancel()
        return iter(["env"])

    def __len__(self) -> int:
        return 1


@pytest.mark.case("blueprints:IA-14")
def test_an_answer_that_cancels_the_run_while_it_is_read_is_refused(session: loom.Loom) -> None:
    run = session.ask_questions(QUESTIONS)

    with pytest.raises(loom.AnswerRefused) as caught:
        run.answer("answer", Cancelling(run))

    assert (caught.value.code, run.status, run.result) == ("CONFLICT", "canceled", None)
    with pytest.raises(loom.RunFailed) as failed:
        run.wait(5)
    assert failed.value.code == "RUN_STOPPED"


@pytest.mark.case("blueprints:IA-01")
def test_a_confirmation_waits_with_its_request_as_it_was_made(session: loom.Loom) -> None:
    run = session.confirm("Deploy **v1.2**?")
    (ask,) = run.pending

    assert (run.status, run.waiting_for, ask.kind, ask.context) == ("waiting", "person", "confirm", "Deploy **v1.2**?")
    assert ask.id.lower().startswith("ask-")
    with pytest.raises(AttributeError):
        ask.context = "Deploy v2?"  # type: ignore[misc]
    run.pending.clear()
    assert len(run.pending) == 1


def test_a_bad_answer_to_questions_changes_nothing(session: loom.Loom, here: Path) -> None:
    run = session.ask_questions(QUESTIONS)
    updated = run.record.view.updated_at

    with pytest.raises(loom.AnswerInvalid) as caught:
        run.answer("answer", {"env": None})

    assert set(caught.value.fields) == {"env"}
    assert (run.status, len(run.pending), run.record.view.updated_at) == ("waiting", 1, updated)


@pytest.mark.parametrize("mapping", [[], "x", 5])
def test_answers_that_are_no_mapping_are_refused(session: loom.Loom, mapping: Any) -> None:
    with pytest.raises(loom.ArgsInvalid):
        session.answers(mapping)
