"""A run as text, Markdown and static HTML: it tells the whole story, runs nothing, and is the same each time."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from markdown_it import MarkdownIt
from pydantic import BaseModel, Field

import loomnb as loom
from loomnb.asks import Ask, Schema, check_questions, form_of
from loomnb.documents import DocumentType
from loomnb.present import STATUS_TEXT, Child, Story, story_bundle, story_plain
from tests.helpers import StillSource, at_rest
from tests.present.hostile import HOSTILE, executable

FORMS = ["text/plain", "text/html", "text/markdown"]


def document(name: str, content: Any, **rest: Any) -> loom.DocumentEntity:
    return loom.DocumentEntity(id="doc-1", key="k", document_name=name, content=content, **rest)


def story(**changes: Any) -> Story:
    plain = Story(
        title="Notes",
        workflow="notes",
        status="waiting",
        place="review",
        path=(("start", ""), ("review", "draft")),
        documents=(),
        asks=(),
        has_error=False,
        error_type="",
        error="",
        advice="",
        result=None,
        notice="",
    )
    return dataclasses.replace(plain, **changes)


def everywhere(text: str) -> Story:
    """A story with this text at every place a text can stand."""

    class Asked(BaseModel):
        field: str = Field(title=text, description=text, default=text)

    question = {
        "id": text,
        "question": text,
        "isSkippable": True,
        "description": text,
        "options": [{"id": text, "label": text, "description": text}],
    }
    return story(
        title=text,
        place=text,
        path=(("start", ""), (text, text)),
        documents=(
            *(document(n, {k: text}) for n, k in (("markdown", "markdown"), ("plain", "text"), ("error", "error"))),
            document("message", {"role": text, "text": text}),
            document("other", {text: text, "list": [text], "deep": {"a": [{text: [text]}]}}, title=text, error={text: text}),
            document("scalar", text),
        ),
        asks=(
            Ask(id="ask-1", name=text, kind="form", label=text, description=text, form=form_of(Schema(Asked, "test"))),
            Ask(id="ask-2", name="a", kind="questions", label=text, questions=check_questions([question])),
            Ask(id="ask-3", name="b", kind="confirm", label=text, context=text, key=text),
        ),
        has_error=True,
        error_type=text,
        error=text,
        advice=text,
        result={text: [text]},
        notice=text,
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_the_html_of_a_hostile_run_runs_nothing(text: str) -> None:
    assert executable(story_bundle(everywhere(text))["text/html"]) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_the_markdown_of_a_hostile_run_renders_to_nothing_that_runs(text: str) -> None:
    """Rendered by a renderer that keeps raw HTML and any link: a just executed Markdown output may be drawn by one."""
    renderer = MarkdownIt("commonmark", {"html": True}).enable("table")
    renderer.validateLink = lambda _: True  # type: ignore[method-assign]

    assert executable(renderer.render(story_bundle(everywhere(text))["text/markdown"])) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_a_result_that_is_a_hostile_text_runs_nothing(text: str) -> None:
    bundle = story_bundle(story(status="completed", result=text))
    renderer = MarkdownIt("commonmark", {"html": True})
    renderer.validateLink = lambda _: True  # type: ignore[method-assign]

    assert executable(bundle["text/html"]) == []
    assert executable(renderer.render(bundle["text/markdown"])) == []


@pytest.mark.parametrize("status", STATUS_TEXT)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_where_the_run_stands(form: str, status: str) -> None:
    assert STATUS_TEXT[status] in story_bundle(story(status=status))[form]


def test_every_status_has_words() -> None:
    assert set(STATUS_TEXT) == set(loom.Status)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_the_whole_story(form: str) -> None:
    told = story(
        status="failed",
        documents=(document("plain", {"text": "a draft"}),),
        asks=(Ask(id="ask-1", name="approve", kind="button", label="Publish it?"),),
        has_error=True,
        error_type="ValueError",
        error="no such room",
        advice="Open the door first",
        result={"n": "forty-two"},
        notice="Run the cell",
    )

    text = story_bundle(told)[form]

    for part in (
        "Notes",
        "review",
        "a draft",
        "Publish it?",
        "ValueError",
        "no such room",
        "Open the door first",
        "forty-two",
        "Run the cell",
    ):
        assert part in text, part


def test_a_long_path_is_told_by_its_end() -> None:
    path = tuple((f"p{i}", "") for i in range(20))
    text = story_plain(story(path=path))

    assert "…" in text
    assert "p19" in text
    assert "p5" not in text


@pytest.mark.parametrize(
    ("ask", "example"),
    [
        (Ask(id="a", name="go", kind="button", label="Go"), "run.answer('go', None)"),
        (Ask(id="a", name="answer", kind="confirm", label="?", context="Go?"), "run.answer('answer', True)"),
    ],
    ids=lambda v: getattr(v, "kind", ""),
)
def test_the_text_says_how_to_answer_in_code(ask: Ask, example: str) -> None:
    assert example in story_plain(story(asks=(ask,)))


class Told(BaseModel):
    sure: bool


def told_run(path: Any, source: Any) -> dict[str, str]:
    @loom.workflow(name="told", title="A told run")
    class Flow(loom.BaseWorkflow):
        @loom.transition(to="review")
        def draft(self) -> None:
            self.document_store.save(loom.MarkdownDocument(markdown="# Draft"))
            self.assign_state(n=1)

        @loom.transition(from_="review", to="end", wait=True, schema=Told)
        def approve(self) -> None: ...

    with loom.open(path, source=source) as session:
        run = session.start(Flow)
        at_rest(run)
        return run._repr_mimebundle_()


def test_two_runs_of_one_workflow_read_the_same(here: Any) -> None:
    """No ids, times or addresses: nbval can compare a saved notebook."""
    later = StillSource()
    later.advance(12_345)
    for _ in range(100):
        later.new_id("x")

    assert told_run(here / "a.duckdb", StillSource()) == told_run(here / "elsewhere" / "b.duckdb", later)


def test_a_failed_run_shows_no_frames_in_its_static_forms(session: loom.Loom) -> None:
    @loom.workflow
    class Broken(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            raise ValueError("no such room")

    run = session.start(Broken)
    at_rest(run)

    assert "Traceback" in (run.traceback or "")
    for text in run._repr_mimebundle_().values():
        assert "no such room" in text
        assert "Traceback" not in text
        assert "File " not in text


def test_the_repr_of_a_run_is_its_plain_story(session: loom.Loom) -> None:
    run = session.confirm("Go?")

    assert repr(run) == run._repr_mimebundle_()["text/plain"]


@pytest.mark.parametrize("form", FORMS)
def test_a_link_names_what_it_leads_to_and_how_that_stands_without_its_id(form: str):
    link = document("link", {"label": "The <b>label</b>", "workflowId": "run-1.1", "embed": True, "expanded": True})
    told = story_bundle(story(documents=(link,), children={"run-1.1": Child("failed")}))[form]
    assert "→ The" in told
    assert "failed" in told
    assert "run-1.1" not in told
    assert not executable(told)
    assert "→ The" in story_bundle(story(documents=(link,)))[form]  # of a run of another store only the label is known


def test_an_answer_with_lists_and_long_texts_reads_as_its_form():
    class Task(BaseModel):
        who: str
        what: str

    class Plan(BaseModel):
        text: str
        tasks: list[Task]
        tags: list[str]

    ask = Ask(id="ask-1", name="a", kind="form", label="The plan?", form=form_of(Schema(Plan, "test")))
    answer = {"text": "one\ntwo", "tasks": [{"who": "Ada", "what": "digs"}], "tags": ["a", "b"]}
    told = story_bundle(story(asks=(), answered=((0, ask, answer),)))
    wanted = "✓ The plan?\n    Text:\n      one\n      two\n    Tasks:\n      - Who: Ada\n        What: digs\n    Tags: a, b\n"
    assert wanted in told["text/plain"] + "\n"
    assert "<pre>one\ntwo</pre>" in told["text/html"]
    assert "{" not in told["text/html"].partition("The plan?")[2]


@pytest.mark.parametrize("form", FORMS)
def test_a_child_that_is_shown_inline_tells_its_own_story_below_its_link(form: str):
    text = document("plain", {"text": "<i>two</i> lines"})
    ask = Ask(id="ask-1", name="reply", kind="confirm", label="Sure?", context="really")
    child = Child("waiting", story(documents=(text,), asks=(ask,), handle="run.children[0]"))

    def told(*, embed: bool) -> str:
        link = document("link", {"label": "The child", "workflowId": "run-1.1", "embed": embed, "expanded": embed})
        return story_bundle(story(documents=(link,), children={"run-1.1": child}))[form]

    assert "lines" not in told(embed=False)
    inline = told(embed=True)
    assert "lines" in inline
    assert "really" in inline
    assert not executable(inline)
    if form == "text/plain":
        assert "  answer with: run.children[0].answer('reply', True)" in inline


def test_a_parent_tells_what_its_child_asked_and_was_answered(session: loom.Loom):
    @loom.workflow
    class InviteWorkflow(loom.BaseWorkflow[object]):
        @loom.transition(to="asking")
        def begin(self):
            loom.AskUserWorkflow().run({"question": "Tea?", "mode": "confirm"}, callback={"transition": "told"})

        @loom.transition(from_="asking", to="end", wait=True)
        def told(self): ...

    run = session.start(InviteWorkflow)
    at_rest(run)
    child = run.children[0]
    at_rest(child)
    for told in story_bundle(run.story()).values():
        assert "Tea?" in told
    child.answer("user_answered", {"answer": "yes"})
    run.wait(10)
    for told in story_bundle(run.story()).values():
        assert "yes" in told
        assert child.id not in told


def test_an_answer_that_a_document_holds_is_told_once():
    class Order(BaseModel):
        title: str
        size: int = 1

    class Question(BaseModel):
        question: str
        answer: str | None = None

    form = {"widget": "form", "options": {"actions": [{"transition": "keep"}]}}
    prompt = {"widget": "text-prompt", "options": {"transition": "reply"}}
    order = loom.document(widget=form)(type("OrderDocument", (Order,), {}))
    question = loom.document(widget=prompt)(type("QuestionDocument", (Question,), {}))

    def told(title: str, answer: str | None) -> str:
        kinds = [
            (DocumentType.of(order), {"title": title, "size": 2}),
            (DocumentType.of(question), {"question": "Q?", "answer": answer}),
        ]
        documents = tuple(document(kind.name, content, ui=kind.ui) for kind, content in kinds)
        asks = [
            (Ask(id="ask-1", name="keep", kind="form", label="Keep it?", form=form_of(Schema(Order, "test"))), {"title": "Pens"}),
            (
                Ask(id="ask-2", name="reply", kind="form", label="Reply", form=form_of(Schema(Question, "test"))),
                {"answer": "yes"},
            ),
        ]
        return story_plain(story(documents=documents, asks=(), answered=tuple((9, *one) for one in asks)))

    once = told("Pens", "yes")
    assert once.count("Pens") == once.count("yes") == 1
    assert "✓ Keep it?" in once
    assert "Reply" not in once
    both = told("Other pens", None)  # what was sent is nowhere else
    assert both.count("Pens") == both.count("yes") == 1
    assert "Reply" in both


def test_a_result_that_lists_objects_is_drawn_as_a_list_and_a_long_one_as_json():
    def html(count: int) -> str:
        return story_bundle(story(status="completed", asks=(), result=[{"who": "Ada", "tags": ["a"]}] * count))["text/html"]

    assert html(2).count("<li><dl") == 2
    assert "<pre>" not in html(2)
    assert "<pre>[" in html(100)


def said_to_a_model() -> Story:
    said = [("user", "Hello?"), ("assistant", "Let me see."), ("assistant", "Here."), ("user", "And?"), ("assistant", "Gone.")]
    return story(documents=tuple(document("message", {"role": role, "text": text}) for role, text in said))


@pytest.mark.parametrize("form", ["text/html", "text/markdown"])
def test_a_conversation_names_who_says_it_and_an_answer_that_goes_on_once(form: str) -> None:
    told = re.findall(r"You|Answer|Hello\?|Let me see\.|Here\.|And\?|Gone\.", story_bundle(said_to_a_model())[form])

    assert told == ["You", "Hello?", "Answer", "Let me see.", "Here.", "You", "And?", "Answer", "Gone."]


def test_what_a_person_said_stands_out_of_the_answers() -> None:
    assert story_bundle(said_to_a_model())["text/html"].count("margin:.75em 0 .75em auto") == 2
