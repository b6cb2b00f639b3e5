"""The testing kit: one transition, one pass, a whole run, by the real loop's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from loomnb.testing import Death, StillSource, drive, run_pass, run_transition

State = Mapping[str, Any]


class Verdict(BaseModel):
    ok: bool


class Counted(BaseModel):
    n: int = 0
    unit: str = "pages"


@loom.workflow(name="kit_notes", state_schema=Counted)
class NotesWorkflow(loom.BaseWorkflow[dict[str, Any]]):
    @loom.transition(to="review")
    def draft(self, state: State, ctx: loom.RunContext[dict[str, Any]]) -> None:
        self.document_store.save(loom.PlainDocument(text=ctx.args["text"]), key="notes")
        self.assign_state(n=state.get("n", 0) + 1)

    @loom.transition(from_="review", to="end", wait=True, schema=Verdict)
    async def approve(self, state: State, given: loom.TransitionInput[Verdict, Any], ctx: Any) -> None:
        self.set_result({"ok": given.data.ok if not given.has_error else None, "tries": ctx.execution.retry_count})

    @loom.transition(from_="review", to="end", wait=True)
    async def wrong(self) -> Any:
        return 1

    @loom.transition(from_="review", to="end", wait=True)
    async def unfit(self) -> None:
        self.assign_state(n="many")

    @loom.transition(from_="review", to="end", wait=True)
    async def ask(self) -> None:
        loom.AskUserWorkflow().run({"question": "?"}, callback={"transition": "approve", "metadata": {"a": 1}})


@pytest.fixture(autouse=True)
def _known() -> None:
    from loomnb.workflows import know

    know(NotesWorkflow)


def test_a_transition_gives_what_it_wrote() -> None:
    done = run_transition(NotesWorkflow, "draft", state={"n": 4}, args={"text": "hi"})

    assert (done.place, done.state, done.result) == ("review", {"n": 5, "unit": "pages"}, None)
    assert [(d.key, d.content, d.place) for d in done.documents] == [("notes", {"text": "hi"}, "review")]


def test_a_wait_transition_gets_its_data_judged_and_parsed() -> None:
    done = run_transition(NotesWorkflow, "approve", input={"ok": True}, retry_count=2)

    assert done.result == {"ok": True, "tries": 2}
    with pytest.raises(loom.AnswerInvalid):
        run_transition(NotesWorkflow, "approve", input={"ok": "perhaps"})


def test_a_childs_end_is_given_whole() -> None:
    told = loom.TransitionInput(workflow_id="c", status="failed", has_error=True, error_message="no", data=None)

    assert run_transition(NotesWorkflow, "approve", input=told).result == {"ok": None, "tries": 0}


def test_what_a_run_would_refuse_is_refused() -> None:
    with pytest.raises(loom.DefinitionError, match="return"):
        run_transition(NotesWorkflow, "wrong")
    with pytest.raises(loom.SchemaValidationError):
        run_transition(NotesWorkflow, "unfit")
    with pytest.raises(KeyError, match="text"):
        run_transition(NotesWorkflow, "draft")
    with pytest.raises(loom.Refused, match="no transition"):
        run_transition(NotesWorkflow, "nowhere")
    with pytest.raises(loom.Refused, match="no input"):
        run_transition(NotesWorkflow, "draft", args={"text": ""}, input=1)


def test_children_are_told_and_not_started() -> None:
    (child,) = run_transition(NotesWorkflow, "ask").children

    assert (child.workflow, child.args["question"]) == ("ask_user", "?")
    assert child.callback == {"transition": "approve", "metadata": {"a": 1}}


def test_a_pass_ends_at_the_first_rest() -> None:
    rest = run_pass(NotesWorkflow, {"text": "hi"})

    assert (rest.status, rest.place, rest.path) == ("waiting", "review", ["start", "review"])
    assert {a.name for a in rest.asks} == {"approve", "wrong", "unfit", "ask"}
    assert rest.documents[0].content == {"text": "hi"}


def test_a_whole_run_is_driven_by_answers() -> None:
    done = drive(NotesWorkflow, {"text": "hi"}, answers={"approve": {"ok": True}})

    assert (done.status, done.result, done.path) == ("completed", {"ok": True, "tries": 0}, ["start", "review", "end"])


def test_an_answer_that_is_missing_is_named() -> None:
    with pytest.raises(loom.NoFrontEnd, match="approve"):
        drive(NotesWorkflow, {"text": "hi"})


def test_an_answer_that_does_not_fit_is_told() -> None:
    with pytest.raises(loom.AnswerInvalid):
        drive(NotesWorkflow, {"text": "hi"}, answers={"approve": {"ok": "perhaps"}})


def test_a_failure_is_given_back_with_its_exception() -> None:
    done = drive(NotesWorkflow, {})

    assert (done.status, done.error) == ("failed", "'text'")
    assert isinstance(done.exception, KeyError)


def test_sub_workflows_are_driven_too() -> None:
    items = {name: {"workflow": "ask_user", "args": {"question": name}} for name in ("a", "b")}

    done = drive(loom.FanOutWorkflow, {"items": items}, answers={"user_answered": {"answer": "yes"}})

    assert done.result["results"]["b"]["data"] == {"answer": "yes"}
    assert [c.status for c in done.children] == ["completed", "completed"]


def test_driving_leaves_the_default_store_alone(session: loom.Loom) -> None:
    drive(NotesWorkflow, {"text": "hi"}, answers={"approve": {"ok": True}})

    assert session.runs().fetchall() == []
    assert loom.start(NotesWorkflow, {"text": ""}).runtime is session.runtime


def test_ids_and_times_stand_still() -> None:
    one, two = (run_pass(NotesWorkflow, {"text": "hi"}) for _ in range(2))

    assert [d.id for d in one.documents] == [d.id for d in two.documents] == ["doc-2"]
    assert one.documents[0].created_at == StillSource().now()


@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_store_dies_after_its_last_commit(here: Any, acknowledged: bool) -> None:
    death = Death(after=2, acknowledged=acknowledged)
    with loom.Loom(str(here / "d.duckdb"), database=death) as session:
        run = session.start(NotesWorkflow, {"text": "hi"})
        death.wait()
        with pytest.raises(loom.StoreClosed):
            session.start(NotesWorkflow, {"text": "more"})

    with loom.open(here / "d.duckdb") as again:
        assert again.run(run.id).status == "waiting"
        assert len(again.runs().fetchall()) == 1


def test_a_store_that_lives_on_is_told(here: Any) -> None:
    death = Death(after=50)
    with loom.Loom(str(here / "l.duckdb"), database=death), pytest.raises(TimeoutError, match="0 of 50"):
        death.wait(timeout=0.01)
