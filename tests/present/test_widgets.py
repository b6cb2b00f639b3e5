"""Forms and prompts as text and as static HTML."""

from __future__ import annotations

from typing import Any, Literal

import pydantic
import pytest

import loomnb as loom
from loomnb.documents import DocumentEntity, DocumentType
from loomnb.present import document_html, document_kind, document_plain
from tests.present.hostile import HOSTILE, executable


class Item(pydantic.BaseModel):
    name: str
    count: int = 1


class Order(pydantic.BaseModel):
    title: str
    tone: Literal["n", "w"] = "n"
    items: list[Item] = []
    tags: list[str] = []
    code: str = ""
    about: str = ""
    secret: str = ""


PROPERTIES = {
    "tone": {"enumOptions": [{"label": "Neutral", "value": "n"}, {"label": "Warm", "value": "w"}]},
    "code": {"widget": "code-view"},
    "about": {"widget": "markdown-view"},
    "secret": {"hidden": True},
    "title": {"label": "Name of it"},
}


@loom.document(title="Order", widget={"widget": "form", "options": {"order": ["tags"], "properties": PROPERTIES}})
class OrderDocument(Order):
    pass


class Asked(pydantic.BaseModel):
    question: str
    options: list[str] = []
    answer: str | None = None


def entity(cls: type, **content: Any) -> DocumentEntity:
    kind = DocumentType.of(cls)
    return DocumentEntity(id="d", key="d", document_name=kind.name, title=kind.title, content=kind.validated(content), ui=kind.ui)


def prompt(widget: str, **content: Any) -> DocumentEntity:
    marked = loom.document(widget={"widget": widget, "options": {"transition": "t"}})(type("P", (Asked,), {}))
    return entity(marked, **content)


ORDER = {
    "title": "Pens",
    "tone": "w",
    "items": [{"name": "Blue", "count": 2}],
    "tags": ["a", "b"],
    "code": "x = 1",
    "about": "**bold**",
    "secret": "s3cret",
}


def test_a_form_is_told_with_its_labels_in_its_order() -> None:
    assert document_plain(entity(OrderDocument, **ORDER)) == (
        "Order\n  Tags: a, b\n  Name of it: Pens\n  Tone: Warm\n  Items:\n    - Name: Blue\n      Count: 2\n"
        "  Code: x = 1\n  About: **bold**"
    )


def test_a_form_is_safe_html_with_code_and_markdown_rendered_and_nothing_hidden() -> None:
    html = document_html(entity(OrderDocument, **ORDER))

    assert html.index("Tags") < html.index("Name of it")
    assert "<pre><code>x = 1</code></pre>" in html
    assert "<strong>bold</strong>" in html
    assert "s3cret" not in html


@pytest.mark.parametrize(
    ("widget", "content", "text"),
    [
        ("text-prompt", {}, "? Which?"),
        ("confirm-prompt", {}, "? Which?\n  - Yes\n  - No"),
        ("choices", {"options": ["a", "b"]}, "? Which?\n  - a\n  - b"),
        ("choices", {"options": ["a", "b"], "answer": "b"}, "✓ Which?\n    b"),
    ],
)
def test_a_prompt_is_told_with_what_may_be_answered_or_what_was(widget: str, content: dict[str, Any], text: str) -> None:
    one = prompt(widget, question="Which?", **content)

    assert (document_kind(one), document_plain(one)) == ("prompt", text)
    assert all(line.strip(" ?✓-") in document_html(one) for line in text.splitlines())


@pytest.mark.parametrize(
    ("widget", "field", "kind"),
    [
        ("message", "text", "message"),
        ("markdown", "markdown", "markdown"),
        ("plain", "text", "plain"),
        ("error", "error", "error"),
    ],
)
def test_any_document_may_be_drawn_as_a_built_in_one_is(widget: str, field: str, kind: str) -> None:
    fields: dict[str, Any] = {field: (str, ...), "role": (str, "user")}
    marked = loom.document(widget={"widget": widget})(pydantic.create_model("Mine", **fields))

    assert document_kind(entity(marked, **{field: "x"})) == kind


def test_debug_shows_everything_as_it_is() -> None:
    marked = loom.document(widget={"widget": "debug"})(type("D", (Asked,), {}))

    assert document_kind(entity(marked, question="x")) == "json"


@pytest.mark.parametrize("attack", HOSTILE)
def test_nothing_a_form_or_a_prompt_holds_runs_in_static_html(attack: str) -> None:
    content = {"title": attack, "items": [{"name": attack}], "tags": [attack], "code": attack, "about": attack}
    html = document_html(entity(OrderDocument, **content)) + document_html(
        prompt("choices", question=attack, options=[attack], answer=attack)
    )

    assert executable(html) == []
