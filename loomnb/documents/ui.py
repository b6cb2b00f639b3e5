"""How a document is drawn and answered, as JSON that is stored with it, and the rules of when it takes an answer.

`{"widget", "title"?, "options"?, "form"?, "enableAtPlaces"?, "hideAtPlaces"?, "mimeType"?}`. A form carries its fields, so that a
page or a later kernel can draw it without the class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from loomnb.asks import Form, Schema, form_of
from loomnb.documents.specs import DOCUMENT_WIDGETS, NEEDS, PROMPTS, FormOptions, PromptOptions, decorated
from loomnb.documents.widgets import Reading, Widget, form_problems, widget_problems
from loomnb.errors import DefinitionError, fields_from_pydantic
from loomnb.jsonvalue import freeze

__all__ = [
    "StaticDocumentMeta",
    "accepts_input",
    "answered_with",
    "form_of_ui",
    "is_hidden",
    "transitions_of",
    "ui_of",
    "widget_of",
]


class StaticDocumentMeta(TypedDict, total=False):
    """What `@loom.document(meta=…)` takes; any other key is kept to itself."""

    mimeType: str
    level: Literal["debug", "info", "warning", "error"]
    enableAtPlaces: Sequence[str]
    hideAtPlaces: Sequence[str]


class _Known(BaseModel):
    model_config = ConfigDict(extra="allow")

    mimeType: str = ""  # noqa: N815  # the seed's names
    level: Literal["debug", "info", "warning", "error"] = "info"
    enableAtPlaces: list[str] = []  # noqa: N815
    hideAtPlaces: list[str] = []  # noqa: N815


def ui_of(cls: type, adapter: TypeAdapter[Any], reading: Reading, meta: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is stored of a class's widget and static meta; None when there is nothing to say.

    Raises:
        DefinitionError: a widget that no document can have, or one that shows fields the class does not have.
    """
    try:
        _Known.model_validate(dict(meta))
    except ValidationError as exc:
        wrong = "; ".join(f"{k}: {v}" for k, v in fields_from_pydantic(exc).items())
        raise DefinitionError(f"{cls.__qualname__}: meta= does not fit: {wrong}.") from exc
    ui: dict[str, Any] = {k: list(meta[k]) for k in ("enableAtPlaces", "hideAtPlaces") if meta.get(k)}
    if not reading.widgets:
        return freeze(ui) if ui else None
    widget = reading.widgets[0]
    problems = [
        f"{w.at('widget')}: a document cannot be a {w.name!r}; expected one of {', '.join(DOCUMENT_WIDGETS)}"
        for w in reading.widgets
        if w.name not in DOCUMENT_WIDGETS
    ]
    problems += [
        f"{w.at(key)}: a document has no {key}; use meta={{{use!r}: […]}}" for w in reading.widgets for key, use in _when(w)
    ]
    form = form_of(Schema(adapter, cls.__qualname__))
    if form is not None and not problems:
        names = [f.name for f in form.fields]
        missing = [n for n in NEEDS.get(widget.name, ()) if n not in names]
        problems += [
            f"{widget.at('widget')}: the widget {widget.name!r} shows {n!r}, which {cls.__name__} lacks" for n in missing
        ]
        problems += form_problems(widget, form)
    if problems:
        raise widget_problems(cls.__qualname__, problems)
    ui |= {"widget": widget.name}
    if isinstance(widget.options, FormOptions) and form is not None:
        dressed = decorated(_by_mime(form, str(meta.get("mimeType", ""))), widget.options)
        if widget.options.title:
            ui["title"] = widget.options.title
        ui["form"] = dressed.model_dump(mode="json", exclude_defaults=True)
        ui["options"] = {"actions": [_action(a.model_dump(mode="json", exclude_defaults=True)) for a in widget.options.actions]}
    elif isinstance(widget.options, PromptOptions):
        ui["options"] = widget.options.model_dump(mode="json", exclude_defaults=True)
    if meta.get("mimeType"):
        ui["mimeType"] = meta["mimeType"]
    frozen: Mapping[str, Any] = freeze(ui)
    return frozen


def _when(widget: Widget) -> list[tuple[str, str]]:
    said = [("enabledWhen", "enableAtPlaces", widget.enabled_when), ("showWhen", "hideAtPlaces", widget.show_when)]
    return [(key, use) for key, use, value in said if value is not None]


def _action(action: dict[str, Any]) -> dict[str, Any]:
    props = action.pop("props", {})
    return {**props, **action, "label": action.get("label", "Submit")}


def _by_mime(form: Form, mime: str) -> Form:
    """A document that is one text of another kind is edited in a box."""
    if not form.raw or not mime or form.fields[0].kind != "text":
        return form
    return form.model_copy(update={"fields": [form.fields[0].model_copy(update={"multiline": True, "rows": 8})]})


# -- of a stored document -------------------------------------------------------------------------


def widget_of(ui: Mapping[str, Any] | None) -> str:
    """The name of its widget; empty where what it holds says how it is drawn."""
    return ui.get("widget", "") if ui else ""


def form_of_ui(ui: Mapping[str, Any]) -> Form:
    """Its form."""
    return Form.model_validate(ui["form"])


def transitions_of(ui: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The wait transitions it can resume."""
    options = (ui or {}).get("options", {})
    if "transition" in options:
        return (options["transition"],)
    return tuple(action["transition"] for action in options.get("actions", ()))


def answered_with(ui: Mapping[str, Any] | None, content: Any) -> Any:
    """The answer a prompt holds already, which makes it read-only; None while it has none."""
    if widget_of(ui) not in PROMPTS or not isinstance(content, Mapping):
        return None
    return content.get("answer")


def accepts_input(ui: Mapping[str, Any] | None, content: Any, *, saved_for: str, status: str, place: str) -> bool:
    """Whether a document takes an answer now.

    Args:
        ui: how it is drawn.
        content: what it holds.
        saved_for: the place the transition that saved it led to.
        status: the run's status.
        place: where the run is.
    """
    if not transitions_of(ui) or answered_with(ui, content) is not None or status != "waiting":
        return False
    return saved_for == place or place in (ui or {}).get("enableAtPlaces", ())


def is_hidden(ui: Mapping[str, Any] | None, place: str) -> bool:
    """Whether a document is not shown while the run is at a place."""
    return place in (ui or {}).get("hideAtPlaces", ())
