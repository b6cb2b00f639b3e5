"""Widgets from YAML files and mappings: the three layouts, and every mistake told with its file, line and column."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest

import loomnb as loom
from loomnb.documents import DocumentType, Reading, accepts_input, is_hidden, read_widgets, widget_of
from loomnb.errors import DefinitionError


class Here:
    """A class whose file is this one."""


def read(*refs: Any, cls: type = Here) -> Reading:
    return read_widgets(list(refs) if len(refs) > 1 else refs[0], cls)


def file(folder: Path, text: str, name: str = "ui.yaml") -> str:
    (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return str(folder / name)


FLAT = """\
    widget: button
    options: {transition: approve, label: Approve}
"""
LISTED = """\
    widgets:
      - widget: prompt-input
        options: {transition: say}
      - widget: button
        options: {transition: stop}
"""
DOCUMENTED = """\
    type: workflow
    title: Notes
    description: What was said
    tags: [a, b]
    ui:
      widgets:
        - widget: prompt-input
          enabledWhen: [waiting]
          showWhen: [waiting, done]
          options: {transition: say, label: Send}
"""


@pytest.mark.case("workflows:N01")
def test_a_flat_file_is_one_widget(tmp_path: Path) -> None:
    (one,) = read(file(tmp_path, FLAT)).widgets

    assert (one.name, one.options.model_dump()["label"]) == ("button", "Approve")


@pytest.mark.case("workflows:N01")
def test_a_list_in_a_file_and_a_list_of_references_give_all_in_order(tmp_path: Path) -> None:
    inline = {"widget": "button-full-w", "options": {"transition": "go"}}

    found = read(file(tmp_path, LISTED), inline, file(tmp_path, FLAT, "flat.yaml")).widgets

    assert [w.name for w in found] == ["prompt-input", "button", "button-full-w", "button"]


@pytest.mark.case("workflows:N02")
def test_the_documented_layout_is_understood(tmp_path: Path) -> None:
    found = read(file(tmp_path, DOCUMENTED))
    (one,) = found.widgets

    assert (one.name, one.enabled_when, one.show_when) == ("prompt-input", ("waiting",), ("waiting", "done"))
    assert (found.title, found.description, found.tags) == ("Notes", "What was said", ("a", "b"))


def test_a_relative_path_is_looked_for_beside_the_file_of_the_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(DefinitionError, match=r"nowhere\.yaml: cannot be read \(.*\); it was looked for at .*tests/documents/"):
        read("./nowhere.yaml")


def test_in_a_notebook_it_is_looked_for_where_the_notebook_works(here: Path) -> None:
    file(here, FLAT)
    cell = type("Cell", (), {"__module__": "no_such_module"})

    assert [w.name for w in read("ui.yaml", cls=cell).widgets] == ["button"]


def problems(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said of a file, line by line."""
    monkeypatch.chdir(folder)
    file(folder, text)
    cell = type("Cell", (), {"__module__": "no_such_module"})
    with pytest.raises(DefinitionError) as caught:
        read("ui.yaml", cls=cell)
    return [line.strip() for line in caught.value.message.splitlines()[1:]]


WIDGETS = (
    "form, prompt-input, button, button-full-w, text-prompt, confirm-prompt, choices, "
    "message, llm-message, markdown, plain, error, link, debug"
)
FIELDS = "'text', 'textarea', 'select', 'radio', 'checkbox', 'switch', 'slider', 'code-view' or 'markdown-view'"
TOP_KEYS = "'widget', 'enabledWhen', 'showWhen', 'options', 'type', 'title', 'description' or 'tags'"
BUTTON_KEYS = "expected 'transition', 'label', 'variant' or 'props'"
WRONG = [
    ("widget: button\noptions:\n  transition: go\n  lable: Go\n",
     [f"ui.yaml:4:3: unknown key 'lable'; {BUTTON_KEYS} (did you mean 'label'?)"]),
    ("widget: button\noptions:\n  label: Go\n", ["ui.yaml:3:3: missing key 'transition'"]),
    ("widget: button\n", ["ui.yaml:1:1: missing key 'transition'"]),
    ("widgets:\n  - widget: buton\n",
     [f"ui.yaml:2:13: there is no widget 'buton'; expected one of {WIDGETS} (did you mean 'button'?)"]),
    ("widget: form\noptions:\n  properties:\n    text:\n      rows: many\n",
     ["ui.yaml:5:13: expected a valid integer, got 'many'"]),
    ("widget: form\noptions:\n  properties:\n    text:\n      widget: slide\n",
     [f"ui.yaml:5:15: expected {FIELDS}, got 'slide'"]),
    ("widget: form\noptions:\n  actions:\n    - type: buton\n",
     ["ui.yaml:4:7: missing key 'transition'", "ui.yaml:4:13: expected 'button' or 'button-full-w', got 'buton'"]),
    ("widget: button\nshowIf: [a]\noptions: {transition: go}\n",
     [f"ui.yaml:2:1: unknown key 'showIf'; expected {TOP_KEYS}"]),
    ("ui:\n  widgets: []\n  extra: 1\n", ["ui.yaml:3:3: unknown key 'extra'; expected 'widgets'"]),
    ("title: a\nwidgets: &all\n  - *all\n", ["ui.yaml:2:10: this is no YAML: an alias stands inside what it means"]),
    ("title: a\nwid\0gets: []\n", ["ui.yaml:2:4: this is no YAML: '\\x00' cannot stand in it"]),
    ("title: 2020-13-45\nwidgets: []\n", ["ui.yaml: this is no YAML: month must be in 1..12"]),
    ("ui: nothing\n", ["ui.yaml:1:5: expected a mapping with 'widgets', got 'nothing'"]),
    ("widgets: {a: 1}\n", ["ui.yaml:1:10: expected a list of widgets, got {'a': 1}"]),
    ("widgets: [form]\n", ["ui.yaml:1:11: expected a widget such as {widget: button}, got 'form'"]),
    ("type: page\nwidgets: []\n", ["ui.yaml:1:7: expected 'workflow', 'document' or 'tool', got 'page'"]),
    ("widget: button\nenabledWhen: here\noptions: {transition: go}\n",
     ["ui.yaml:2:14: expected a list of places, got 'here'"]),
    ("widget: button\noptions: {transition: go}\noptions: {transition: stop}\n",
     ["ui.yaml:3:1: the key 'options' stands here a second time"]),
    ("widget: [\n", ["ui.yaml:2:1: this is no YAML: expected the node content, but found '<stream end>'"]),
    ("", ["ui.yaml:1:1: the file is empty; expected `widget: …`, `widgets: […]` or `ui: {widgets: […]}`"]),
    ("- a\n", ["ui.yaml:1:1: expected a mapping, got ['a']"]),
    ("title: x\n", ["ui.yaml:1:1: missing key 'widget'; or is it a file with `widgets: […]`?"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), WRONG, ids=[told[0].split(": ", 1)[1][:40] for _, told in WRONG])
def test_a_mistake_is_told_with_file_line_column_and_what_was_expected(
    text: str, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert problems(text, tmp_path, monkeypatch) == told


def test_every_mistake_is_told_at_once_in_the_order_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "type: page\nwidgets:\n  - widget: buton\n  - widget: button\n    options: {lable: Go}\n  - 3\n"

    told = problems(text, tmp_path, monkeypatch)

    assert [line.split(": ")[0] for line in told] == [f"ui.yaml:{at}" for at in ("1:7", "3:13", "5:14", "5:15", "6:5")]


def test_an_inline_mistake_is_told_by_its_path() -> None:
    with pytest.raises(DefinitionError) as caught:
        read({"widget": "form", "options": {"properties": {"a": {"rowz": 1}}}}, {"widget": "button", "options": {}})

    assert "widget[0].options.properties.a.rowz: unknown key 'rowz'" in caught.value.message
    assert "(did you mean 'rows'?)" in caught.value.message
    assert "widget[1].options: missing key 'transition'" in caught.value.message


def test_python_names_are_read_too() -> None:
    (one,) = read(
        {"widget": "form", "enabled_when": ["a"], "options": {"properties": {"x": {"enum_options": ["p", "q"]}}}}
    ).widgets

    assert one.enabled_when == ("a",)


# -- documents ---------------------------------------------------------------------------------------


class Notes(pydantic.BaseModel):
    title: str = pydantic.Field(min_length=3)
    text: str = ""
    tone: Literal["plain", "warm"] = "plain"
    items: list[dict[str, int]] = []


FORM = {"widget": "form", "options": {"order": ["text"], "properties": {"text": {"widget": "textarea", "label": "What"}}}}


def ui_of(cls: type) -> Any:
    return DocumentType.of(cls).ui


def test_a_forms_fields_come_from_the_schema_and_are_decorated() -> None:
    @loom.document(widget=FORM)
    class NotesDocument(Notes):
        pass

    fields = ui_of(NotesDocument)["form"]["fields"]

    assert [f["name"] for f in fields] == ["text", "title", "tone", "items"]
    assert (fields[0]["widget"], fields[0]["label"], fields[1]["min_length"]) == ("textarea", "What", 3)


def test_the_decorator_wins_over_the_file(tmp_path: Path) -> None:
    path = file(tmp_path, "type: document\ntitle: From the file\ntags: [f]\nui: {widgets: [{widget: form}]}\n")

    @loom.document(widget=path)
    class OneDocument(Notes):
        pass

    @loom.document(widget=path, title="From the class", tags=["c"])
    class TwoDocument(Notes):
        pass

    assert [(DocumentType.of(c).title, DocumentType.of(c).tags) for c in (OneDocument, TwoDocument)] == [
        ("From the file", ("f",)),
        ("From the class", ("c",)),
    ]


@pytest.mark.parametrize(
    ("widget", "told"),
    [
        ({"widget": "form", "options": {"order": ["txet"]}},
         "order[0]: there is no field 'txet'; the schema has 'title', 'text', 'tone' or 'items' (did you mean 'text'?)"),
        ({"widget": "form", "options": {"properties": {"nope": {}}}}, "widget.options.properties.nope: there is no field 'nope'"),
        ({"widget": "form", "options": {"properties": {"text": {"items": {}}}}}, "properties.text.items: 'text' is no list"),
        ({"widget": "button", "options": {"transition": "x"}}, "widget.widget: a document cannot be a 'button'"),
        ({"widget": "markdown"}, "widget.widget: the widget 'markdown' shows 'markdown', which NotesDocument lacks"),
        ({"widget": "form", "showWhen": ["a"]}, "widget.showWhen: a document has no showWhen; use meta={'hideAtPlaces': […]}"),
    ],
)  # fmt: skip
def test_a_widget_that_cannot_show_its_document_is_refused(widget: Any, told: str) -> None:
    with pytest.raises(DefinitionError) as caught:

        @loom.document(widget=widget)
        class NotesDocument(Notes):
            pass

    assert told in caught.value.message


def test_wrong_static_meta_is_refused() -> None:
    with pytest.raises(DefinitionError, match="hideAtPlaces"):

        @loom.document(meta={"hideAtPlaces": "end"})
        class NotesDocument(Notes):
            pass


def test_a_document_without_a_widget_stores_nothing_about_it() -> None:
    assert ui_of(Notes) is None
    assert widget_of(ui_of(Notes)) == ""


# -- when a document takes an answer -------------------------------------------------------------------

PROMPT = {"widget": "text-prompt", "options": {"transition": "answer"}, "enableAtPlaces": ["later"], "hideAtPlaces": ["end"]}


@pytest.mark.case("workflows:N03")
@pytest.mark.parametrize(
    ("status", "saved_for", "place", "takes"),
    [
        ("waiting", "here", "here", True),
        ("waiting", "elsewhere", "here", False),
        ("waiting", "here", "later", True),
        *[
            (s, "here", "here", False)
            for s in ("pending", "running", "retrying", "completed", "failed", "canceled", "interrupted")
        ],
    ],
)
def test_a_document_takes_an_answer_only_while_the_run_waits_where_it_may(
    status: str, saved_for: str, place: str, takes: bool
) -> None:
    assert accepts_input(PROMPT, {"question": "?"}, saved_for=saved_for, status=status, place=place) is takes


@pytest.mark.case("workflows:N04")
@pytest.mark.parametrize("answer", ["yes", ""])
def test_a_prompt_with_an_answer_takes_no_other(answer: str) -> None:
    assert not accepts_input(PROMPT, {"question": "?", "answer": answer}, saved_for="a", status="waiting", place="a")


def test_a_document_is_hidden_where_its_meta_says() -> None:
    assert [is_hidden(PROMPT, place) for place in ("end", "here")] == [True, False]
