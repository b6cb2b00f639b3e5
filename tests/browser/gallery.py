"""Every widget, as the panel is told of it: made by the views from real schemas and widgets, without a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pydantic
from loomnb_widgets.views import artifact_view, ask_view, document_view, stages_view
from pydantic import Field

import loomnb as loom
from loomnb.asks import Ask, AskWidget, Schema, form_of
from loomnb.asks import Field as FormField
from loomnb.documents import DocumentEntity, DocumentType
from loomnb.present import tree_html
from tests.browser.static_page import head

__all__ = [
    "ACTIONS",
    "Order",
    "StoredArtifact",
    "blueprint_head",
    "docs",
    "fields",
    "gallery",
    "order_document",
    "prompt",
    "widget_asks",
]


class Address(pydantic.BaseModel):
    street: str
    city: str = "Ghent"


class Item(pydantic.BaseModel):
    name: str = Field(min_length=1, max_length=20)
    count: int = Field(default=1, ge=1, le=10)
    note: str = ""


class Order(pydantic.BaseModel):
    title: str = Field(min_length=3, description="At least **three** characters")
    text: str = ""
    tone: Literal["neutral", "warm"] = "neutral"
    topics: list[Literal["work", "home"]] = []
    urgent: bool = False
    remind: bool = True
    size: int = Field(default=40, ge=0, le=100)
    mail: str | None = Field(default=None, json_schema_extra={"format": "email"})
    address: Address = Address(street="Main")
    work: Address | None = None
    items: list[Item] = Field(default=[], max_length=3)
    tags: list[str] = []
    code: str = "x = 1"
    about: str = "Some **Markdown**"
    extra: dict[str, int] = {}
    secret: str = "kept"


PROPERTIES = {
    "text": {"widget": "textarea", "rows": 3, "placeholder": "What was said"},
    "tone": {"widget": "radio", "inline": True},
    "topics": {"inline": True},
    "remind": {"widget": "switch", "label": "Remind me"},
    "size": {"widget": "slider"},
    "code": {"widget": "code-view"},
    "about": {"widget": "markdown-view"},
    "extra": {"collapsed": True},
    "address": {"collapsed": True},
    "secret": {"hidden": True},
}
ACTIONS = [
    {"transition": "confirm", "label": "Confirm"},
    {"transition": "again", "label": "Do it again", "variant": "outline"},
    {"transition": "never", "label": "Not here", "variant": "ghost"},
]


@loom.document(title="Order", widget={"widget": "form", "options": {"properties": PROPERTIES, "actions": ACTIONS}})
class OrderDocument(Order):
    pass


class Asked(pydantic.BaseModel):
    question: str
    options: list[str] = []
    allowCustomAnswer: bool = False  # noqa: N815  # the contract's name
    answer: str | None = None


def document(cls: type, index: int = 0, **content: Any) -> dict[str, Any]:
    """A document as the panel is told of it."""
    kind = DocumentType.of(cls)
    stored = kind.validated(content)
    entity = DocumentEntity(
        id=f"d{index}",
        key="k",
        index=index,
        document_name=kind.name,
        title=kind.title,
        content=stored,
        place="w",
        ui=kind.ui,
    )
    return document_view(entity, index + 1)


def order_document(index: int = 0, **content: Any) -> dict[str, Any]:
    base = {"title": "Pens", "text": "Blue ones", "items": [{"name": "Pen", "count": 2}, {"name": "Cap"}], "tags": ["a"]}
    return document(OrderDocument, index, **{**base, **content})


def prompt(widget: str, index: int = 0, **content: Any) -> dict[str, Any]:
    marked = loom.document(widget={"widget": widget, "options": {"transition": "answer", "label": "Send"}})(
        type("PromptDocument", (Asked,), {})
    )
    return document(marked, index, **{"question": "Which one?", **content})


def fields(type_: Any) -> list[dict[str, Any]]:
    """The fields of a schema's form."""
    form = form_of(Schema(type_, "gallery"))
    assert form is not None
    return ask_view(Ask(id="a1", name="a", kind="form", label="Order", form=form), "")["fields"]


def widget_asks() -> list[dict[str, Any]]:
    """The widgets that stand under a run."""
    line = FormField(name="data", label="Say", kind="text", required=True, placeholder="Say something")
    form = form_of(Schema(str, "gallery"))
    assert form is not None
    form = form.model_copy(update={"fields": [line]})
    looks = [AskWidget(name="button", variant="destructive"), AskWidget(name="button-full-w")]
    asks = [Ask(id="say", name="say", kind="form", label="Say", form=form, widget=AskWidget(name="prompt-input", submit="Send"))]
    asks += [Ask(id=f"b{at}", name="b", kind="button", label=f"Button {at}", widget=look) for at, look in enumerate(looks)]
    return [ask_view(ask, "") for ask in asks]


def docs() -> list[dict[str, Any]]:
    """A document of every kind that takes an answer, and one that has it."""
    return [
        order_document(0),
        prompt("text-prompt", 1),
        prompt("confirm-prompt", 2),
        prompt("choices", 3, options=["red", "green"], allowCustomAnswer=True),
        prompt("choices", 4, options=["red", "green"], answer="red"),
    ]


def gallery() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The head and the documents of a run that shows everything."""
    opened = [{"index": 0, "open": {"confirm": "a-c", "again": "a-a"}}]
    opened += [{"index": at, "open": {"answer": f"a-{at}"}} for at in (1, 2, 3)]
    return head("waiting", asks=widget_asks(), active_docs=opened, hidden_docs=[]), docs()


# -- a blueprint's run ----------------------------------------------------------------------------

STAGES = {
    "specification": ["init", "analyze", "clarify", "check", "confirm", "finalize"],
    "solution": ["draft", "review", "confirm"],
    "implementation": ["plan", "write", "test", "fix"],
    "validation": ["run", "report"],
}
VISITED = {f"specification/{step}" for step in ("init", "analyze", "check", "confirm", "finalize")} | {"solution/draft"}
STATE = {
    "draft": {"title": "Notes of a meeting", "points": [{"text": "who comes", "done": True}, {"text": "when", "done": False}]},
    "rounds": 2,
    "reason": None,
    "prompt": "You are a careful writer.\n\nKeep to what was said, and say who said it. " * 4,
}


@dataclass(frozen=True)
class StoredArtifact:
    """What the store gives."""

    stage_name: str
    data: Any
    revision: int
    flow_name: str = "deliver"
    id: str = "a-1"


ARTIFACTS = [
    StoredArtifact(
        "specification", {"title": "Meeting notes", "body": "# Goal\n\nNotes *anybody* can read:\n\n- who\n- when"}, 3
    ),
    StoredArtifact("solution", [{"part": "panel", "days": 2}, {"part": "graph", "days": 1.5}], 7),
]


def blueprint_head(**more: Any) -> dict[str, Any]:
    """The head of a run that reviews its solution."""
    shown = {
        "title": "Deliver",
        "place": "solution/review",
        "stages": stages_view(
            {stage: {f"{stage}/{step}": step for step in steps} for stage, steps in STAGES.items()}, VISITED, "solution/review"
        ),
        "state_html": tree_html(STATE),
        "artifacts": [artifact_view(a) for a in ARTIFACTS],
        "path": [{"place": "start", "name": ""}, {"place": "solution/review", "name": "drafted"}],
    }
    return head("running", **{**shown, **more})
