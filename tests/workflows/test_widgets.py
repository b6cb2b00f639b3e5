"""Widgets of workflows and of documents at work: what is asked, who may answer, what is stored and found again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pydantic
import pytest
from loomnb_widgets.answers import answer_index, document_payload_of
from loomnb_widgets.feed import Feed
from loomnb_widgets.views import head_view

import loomnb as loom
from loomnb.errors import AnswerInvalid, AnswerRefused, DefinitionError
from tests.helpers import at_rest, status_is


class Notes(pydantic.BaseModel):
    title: str = pydantic.Field(min_length=3)
    items: list[str] = []


@loom.document(
    widget={
        "widget": "form",
        "options": {"actions": [{"transition": "confirm", "label": "Yes"}, {"transition": "again"}, {"transition": "never"}]},
    },
    meta={"enableAtPlaces": ["second"], "hideAtPlaces": ["end"]},
)
class NotesDocument(Notes):
    pass


class Asked(pydantic.BaseModel):
    question: str
    options: list[Any] = []
    allowCustomAnswer: bool = False  # noqa: N815
    answer: str | None = None


def flow(*widgets: Any) -> type[loom.BaseWorkflow[Any]]:
    @loom.workflow(name="flow", widget=list(widgets))
    class Flow(loom.BaseWorkflow[Any]):
        @loom.transition(to="review")
        def begin(self) -> None:
            self.document_store.save(NotesDocument(title="First", items=["a"]), key="n")

        @loom.transition(from_="review", to="end", wait=True, schema=Notes)
        def confirm(self, state: Any, input: Any) -> None:  # noqa: A002
            self.set_result(input.data.model_dump())

        @loom.transition(from_="review", to="second", wait=True)
        def again(self, state: Any, input: Any) -> None:  # noqa: A002
            self.assign_state(again=input.data)

        @loom.transition(from_="second", to="end", wait=True)
        def say(self, state: Any, input: Any) -> None:  # noqa: A002
            self.set_result(input.data)

    return Flow


SAY = {"widget": "prompt-input", "options": {"transition": "say", "label": "Send", "placeholder": "…"}}
STOP = {"widget": "button", "options": {"transition": "again", "label": "Do it again", "variant": "outline"}}
FILL = {
    "widget": "form",
    "options": {"order": ["items"], "title": "Correct it", "actions": [{"transition": "confirm", "label": "Fine"}]},
}


def started(session: loom.Loom, *widgets: Any) -> loom.Run:
    run = session.start(flow(*widgets))
    at_rest(run)
    return run


# -- widgets of a workflow -----------------------------------------------------------------------------


def test_a_button_takes_the_place_of_its_transitions_question_and_sends_no_data(session: loom.Loom) -> None:
    run = started(session, STOP)
    ask = next(a for a in run.record.view.asks if a.name == "again")

    run.runtime.answer(run.record, ask.id, {}, "panel", from_form=True)
    at_rest(run)

    assert (ask.kind, ask.label, ask.widget and ask.widget.variant) == ("button", "Do it again", "outline")
    assert run.state == {"again": None}


def test_a_prompt_input_sends_the_text_as_it_was_written(session: loom.Loom) -> None:
    run = started(session, SAY)
    run.answer("again", None)
    at_rest(run)
    (ask,) = run.record.view.asks

    run.runtime.answer(run.record, ask.id, {"data": "  hi\n"}, "panel", from_form=True)
    at_rest(run)

    assert (ask.widget and ask.widget.name, run.result) == ("prompt-input", "  hi\n")


def test_a_form_decorates_what_the_schema_asks(session: loom.Loom) -> None:
    ask = next(a for a in started(session, FILL).record.view.asks if a.name == "confirm")

    assert ask.form is not None
    assert ask.widget is not None
    assert ([f.name for f in ask.form.fields], ask.label, ask.widget.submit) == (["items", "title"], "Correct it", "Fine")


def stacked(**when: Any) -> type[loom.BaseWorkflow[Any]]:
    """A transition that listens at two places, with a widget that speaks of one."""

    @loom.workflow(name="stacked", widget={"widget": "button", "options": {"transition": "go"}, **when})
    class Stacked(loom.BaseWorkflow[Any]):
        @loom.transition(to="one")
        def begin(self) -> None: ...

        @loom.transition(from_="one", to="two", wait=True)
        @loom.transition(from_="two", to="end", wait=True)
        def go(self) -> None: ...

    return Stacked


def test_show_when_hides_and_enabled_when_disables(session: loom.Loom) -> None:
    seen = []
    for when in ({"showWhen": ["two"]}, {"enabledWhen": ["two"]}):
        run = session.start(stacked(**when))
        for _ in range(2):
            at_rest(run)
            ask = run.record.view.asks[0]
            assert ask.widget is not None
            seen.append((ask.widget.hidden, head_view(run.record)["asks"][0]["enabled"]))
            run.answer("go", None)

    assert seen == [(True, True), (False, True), (False, False), (False, True)]


def test_a_hidden_question_is_still_open_for_code_and_not_in_the_text(session: loom.Loom) -> None:
    run = session.start(stacked(showWhen=["two"]))
    at_rest(run)

    assert "? Go" not in repr(run)
    assert [ask.name for ask in run.record.view.asks] == ["go"]


@pytest.mark.parametrize(
    ("widget", "told"),
    [
        ({"widget": "button", "options": {"transition": "agian"}},
         "widget.options.transition: there is no wait transition 'agian'; there are: again, confirm, say"),
        ({"widget": "button", "options": {"transition": "begin"}}, "there is no wait transition 'begin'"),
        ({"widget": "button", "options": {"transition": "confirm"}}, "a button sends no data"),
        ({"widget": "prompt-input", "options": {"transition": "confirm"}}, "a prompt-input sends a text"),
        ({"widget": "form", "options": {"actions": [{"transition": "say"}]}},
         "widget.options.actions[0].transition: 'say' has no schema, so there is nothing to fill in"),
        ({"widget": "form", "options": {"order": ["nope"], "actions": [{"transition": "confirm"}]}}, "there is no field 'nope'"),
        ({"widget": "form"}, "a form of a workflow needs options.actions"),
        ({"widget": "markdown"}, "a workflow cannot have a 'markdown'"),
        ({**SAY, "showWhen": ["nowhere"]}, "widget.showWhen[0]: there is no place 'nowhere'"),
        ({**SAY, "enabledWhen": ["review"]}, "widget.enabledWhen: never enabled where 'say' can be answered, at 'second'"),
    ],
)  # fmt: skip
def test_a_widget_that_could_never_work_is_refused_with_its_class(widget: Any, told: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        flow(widget)

    assert told in caught.value.message


# -- documents that are forms --------------------------------------------------------------------------


def typed(run: loom.Run, name: str, values: Any, index: int = 0) -> Any:
    """What a person sends from a document, as the panel does."""
    ask = next(a for a in run.record.view.asks if a.name == name)
    payload = document_payload_of(run.record, index, ask.id, values)
    run.runtime.answer(run.record, ask.id, payload, "panel")
    return at_rest(run)


def test_a_form_in_a_document_sends_the_whole_edited_content(session: loom.Loom) -> None:
    run = started(session)

    typed(run, "confirm", {"title": "Second", "items": ["a", "b"]})

    assert run.result == {"title": "Second", "items": ["a", "b"]}


def test_an_action_whose_transition_has_no_schema_gets_it_too(session: loom.Loom) -> None:
    run = started(session)

    typed(run, "again", {"title": "x", "items": []})

    assert run.state == {"again": {"title": "x", "items": []}}


def test_the_transitions_schema_judges_what_was_edited(session: loom.Loom) -> None:
    run = started(session)

    with pytest.raises(AnswerInvalid) as caught:
        typed(run, "confirm", {"title": "x", "items": []})

    assert list(caught.value.fields) == ["title"]
    assert run.status == "waiting"


class Sender(pydantic.BaseModel):
    name: str = "Ada"
    number: int = 1


class Letter(pydantic.BaseModel):
    text: str = "Hello"
    stamp: str = "paid"
    secret: str = "s"
    sender: Sender = Sender()


def test_what_nobody_could_edit_is_sent_as_the_document_holds_it(session: loom.Loom) -> None:
    look = {"stamp": {"readonly": True}, "secret": {"hidden": True}, "sender": {"properties": {"number": {"disabled": True}}}}

    @loom.document(widget={"widget": "form", "options": {"properties": look, "actions": [{"transition": "send"}]}})
    class LetterDocument(Letter):
        pass

    @loom.workflow(name="letters")
    class Letters(loom.BaseWorkflow[Any]):
        @loom.transition(to="written")
        def write(self) -> None:
            self.document_store.save(LetterDocument())

        @loom.transition(from_="written", to="end", wait=True, schema=Letter)
        def send(self, state: Any, input: Any) -> None:  # noqa: A002
            self.set_result(input.data.model_dump())

    run = session.start(Letters)
    at_rest(run)

    typed(run, "send", {"text": "Bye", "stamp": "x", "secret": "x", "sender": {"name": "Bo", "number": 2}})

    assert run.result == {"text": "Bye", "stamp": "paid", "secret": "s", "sender": {"name": "Bo", "number": 1}}


@pytest.mark.case("workflows:N03")
def test_the_kernel_refuses_a_document_that_takes_no_answer_any_more(session: loom.Loom) -> None:
    run = started(session)
    ask = next(a for a in run.record.view.asks if a.name == "confirm")
    run.answer("confirm", {"title": "Done"})
    at_rest(run)

    with pytest.raises(AnswerRefused):
        document_payload_of(run.record, 0, ask.id, {"title": "Late"})


def test_its_questions_have_no_form_of_their_own_while_the_document_is_active(session: loom.Loom) -> None:
    head = head_view(started(session).record)

    assert {a["label"]: a["in_document"] for a in head["asks"]} == {"Notes": True, "Again": True}
    assert [(one["index"], sorted(one["open"])) for one in head["active_docs"]] == [(0, ["again", "confirm"])]


def test_a_document_is_hidden_from_people_where_its_meta_says(session: loom.Loom) -> None:
    run = started(session)
    assert "First" in repr(run)

    run.answer("confirm", {"title": "Done"})
    at_rest(run)

    assert "First" not in repr(run)
    assert (head_view(run.record)["hidden_docs"], [d.content["title"] for d in run.documents]) == ([0], ["First"])


def test_an_answer_is_not_drawn_beside_the_document_that_shows_it(session: loom.Loom) -> None:
    @loom.document(widget={"widget": "form", "options": {"actions": [{"transition": "keep"}]}})
    class KeptDocument(Notes):
        pass

    @loom.workflow
    class KeepWorkflow(loom.BaseWorkflow[Any]):
        @loom.transition(to="review")
        def begin(self) -> None:
            self.document_store.save(KeptDocument(title="First"), key="n")

        @loom.transition(from_="review", to="review", wait=True, schema=Notes)
        def keep(self, state: Any, input: Any) -> None:  # noqa: A002
            if input.data.title != "Not saved":
                self.document_store.save(KeptDocument(title=input.data.title), key="n")

    run = session.start(KeepWorkflow)
    hidden = []
    for title in ("Second", "Not saved"):
        at_rest(run)
        run.answer("keep", {"title": title})
        at_rest(run)
        hidden.append(head_view(run.record)["hidden_docs"])

    assert hidden[0] == hidden[1] == [answer_index(0, 1)]  # what is shown nowhere else stays


def test_a_document_is_drawn_and_answered_after_a_restart(here: Path) -> None:
    with loom.open(here / "s.duckdb") as session:
        run_id = started(session).id

    with loom.open(here / "s.duckdb") as session:
        run = session.run(run_id)
        typed(run, "confirm", {"title": "Second", "items": []})

        assert run.result == {"title": "Second", "items": []}


def test_a_feed_takes_the_answer_of_a_document(session: loom.Loom) -> None:
    run = started(session)
    said: list[dict[str, Any]] = []
    feed = Feed(run.record, run.runtime, said.append)
    ask = next(a for a in run.record.view.asks if a.name == "confirm")

    feed._answer({"n": 1, "ask": ask.id, "doc": 0, "values": {"title": "no", "items": [None]}})
    feed._answer({"n": 2, "ask": ask.id, "doc": 0, "values": {"title": "Second", "items": []}})
    at_rest(run)

    assert [(m["type"], m["n"], m.get("fields")) for m in said if "n" in m] == [
        ("refused", 1, {"items.0": "this field is required"}),
        ("accepted", 2, None),
    ]
    assert run.result == {"title": "Second", "items": []}


# -- prompts -------------------------------------------------------------------------------------------


def prompted(session: loom.Loom, widget: str, **content: Any) -> loom.Run:
    @loom.document(name="asked", widget={"widget": widget, "options": {"transition": "answer"}})
    class AskedDocument(Asked):
        pass

    @loom.workflow(name="prompted")
    class Prompted(loom.BaseWorkflow[Any]):
        @loom.transition(to="asking")
        def begin(self) -> None:
            self.document_store.save(AskedDocument(question="Which?", **content), key="q")

        @loom.transition(from_="asking", to="asking", wait=True)
        def answer(self, state: Any, input: Any) -> None:  # noqa: A002
            self.document_store.save(AskedDocument(question="Which?", answer=str(input.data["answer"]), **content), key="q")
            self.assign_state(got=input.data)

    run = session.start(Prompted)
    at_rest(run)
    return run


@pytest.mark.parametrize(
    ("widget", "content", "value", "got"),
    [
        ("text-prompt", {}, "  Ann ", "Ann"),
        ("confirm-prompt", {}, "yes", "yes"),
        ("choices", {"options": ["red", "green"]}, "green", "green"),
        ("choices", {"options": [{"label": "Red", "value": 1}]}, "Red", 1),
        ("choices", {"options": ["red"], "allowCustomAnswer": True}, "blue", "blue"),
    ],
)
def test_a_prompt_sends_its_answer(session: loom.Loom, widget: str, content: Any, value: str, got: Any) -> None:
    run = prompted(session, widget, **content)

    typed(run, "answer", {"answer": value})

    assert run.state == {"got": {"answer": got}}


@pytest.mark.parametrize(
    ("widget", "content", "value"),
    [
        ("text-prompt", {}, "  "),
        ("confirm-prompt", {}, "maybe"),
        ("choices", {"options": ["red"]}, "blue"),
        ("choices", {}, None),
    ],
)
def test_a_prompt_refuses_what_is_no_answer(session: loom.Loom, widget: str, content: Any, value: Any) -> None:
    run = prompted(session, widget, **content)

    with pytest.raises(AnswerInvalid) as caught:
        typed(run, "answer", {"answer": value})

    assert list(caught.value.fields) == ["answer"]


@pytest.mark.case("workflows:N04")
def test_an_answered_prompt_is_read_only_and_shows_its_answer(session: loom.Loom) -> None:
    run = prompted(session, "choices", options=["red", "green"])
    typed(run, "answer", {"answer": "red"})

    assert run.status == "waiting"
    assert head_view(run.record)["active_docs"] == []
    assert "✓ Which?\n    red" in repr(run)


# -- the run -------------------------------------------------------------------------------------------


@pytest.mark.case("workflows:N06")
def test_retry_is_offered_for_what_failed_and_now_while_it_will_try_again(session: loom.Loom) -> None:
    @loom.workflow(name="failing")
    class Failing(loom.BaseWorkflow[Any]):
        @loom.transition(to="end")
        def begin(self) -> None:
            raise ValueError("no")

    @loom.workflow(name="retrying")
    class Retrying(loom.BaseWorkflow[Any]):
        @loom.transition(to="end", retry_attempts=1, retry_delay=60_000, retry_max_delay=60_000)
        def begin(self) -> None:
            raise ValueError("no")

    failing, waiting = session.start(Failing), started(session)
    at_rest(failing)
    retrying = session.start(Retrying)
    status_is(retrying, "retrying")
    offers = [(h["can_retry"], h["retry_text"]) for h in map(head_view, (failing.record, waiting.record, retrying.record))]

    assert offers == [(True, "Retry"), (False, "Retry"), (True, "Retry now")]


@pytest.mark.case("workflows:N07")
def test_a_run_that_waits_for_a_person_is_among_what_needs_an_answer(session: loom.Loom) -> None:
    run = started(session)

    assert {one.run.id for one in session.pending()} == {run.id}
    assert session.sql("select run_id from runs where status = 'waiting' and waiting_for = 'person'").fetchall() == [(run.id,)]
