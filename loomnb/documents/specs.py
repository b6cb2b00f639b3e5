"""The options of every widget, as types: what a YAML file or an inline mapping may say, and nothing else.

JSON names (`enabledWhen`, `enumOptions`) and Python names (`enabled_when`) are both read; a key that is not listed is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from loomnb.asks import Choice, FieldWidget, Form
from loomnb.asks import Field as FormField

__all__ = [
    "DOCUMENT_WIDGETS",
    "NEEDS",
    "PROMPTS",
    "SPECS",
    "WORKFLOW_WIDGETS",
    "Action",
    "ButtonOptions",
    "FormOptions",
    "PromptInputOptions",
    "PromptOptions",
    "Spec",
    "UiElement",
    "ViewOptions",
    "decorated",
]


class Spec(BaseModel):
    """A strict piece of a widget's description."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="forbid", strict=True, frozen=True
    )

    @classmethod
    def keys(cls) -> list[str]:
        """The keys it knows, as JSON names them."""
        return [field.alias or name for name, field in cls.model_fields.items()]


Name = Annotated[str, Field(min_length=1)]
Variant = Literal["", "default", "primary", "secondary", "outline", "destructive", "ghost", "link"]


def _option(raw: Any) -> Any:
    return {"label": raw, "value": raw} if isinstance(raw, (str, int, float, bool)) else raw


class EnumOption(Spec):
    """One of several: what is shown, and the value it stands for."""

    label: str
    value: Any


class UiElement(Spec):
    """How one field of a form is drawn. What it leaves out is as the schema says."""

    widget: FieldWidget = ""
    label: str | None = None
    title: str | None = None
    description: str | None = None
    help: str | None = None
    placeholder: str | None = None
    rows: Annotated[int, Field(ge=1)] | None = None
    inline: bool | None = None
    enum_options: list[Annotated[EnumOption, BeforeValidator(_option)]] | None = None
    hidden: bool | None = None
    disabled: bool | None = None
    readonly: bool | None = None
    collapsed: bool | None = None
    fixed: bool | None = None
    order: list[str] | None = None
    items: UiElement | None = None
    properties: dict[str, UiElement] = {}


class ButtonProps(Spec):
    """What a button may be given beside its label."""

    variant: Variant = ""
    disabled: bool = False


class Action(Spec):
    """A button of a form: it resumes a wait transition with the whole edited content."""

    type: Literal["button", "button-full-w"] = "button"
    transition: Name
    label: str = "Submit"
    variant: Variant = ""
    props: ButtonProps = ButtonProps()


class FormOptions(Spec):
    """A form: its fields come from the schema, and these only decorate them."""

    title: str | None = None
    description: str | None = None
    order: list[str] = []
    properties: dict[str, UiElement] = {}
    disabled: bool = False
    actions: list[Action] = []


class ButtonOptions(Spec):
    """A button under a run; it sends no data."""

    transition: Name
    label: str | None = None
    variant: Variant = ""
    props: ButtonProps = ButtonProps()


class PromptInputOptions(Spec):
    """A line to write in under a run; it sends the text as it was written."""

    transition: Name
    label: str = "Submit"
    placeholder: str = ""
    rows: Annotated[int, Field(ge=1)] | None = None


class PromptOptions(Spec):
    """A question in a document; it sends `{"answer": …}`."""

    transition: Name
    label: str = "Submit"
    placeholder: str = ""


class ViewOptions(Spec):
    """A document that only shows something."""


SPECS: Mapping[str, type[Spec]] = {
    "form": FormOptions,
    "prompt-input": PromptInputOptions,
    "button": ButtonOptions,
    "button-full-w": ButtonOptions,
    "text-prompt": PromptOptions,
    "confirm-prompt": PromptOptions,
    "choices": PromptOptions,
    "message": ViewOptions,
    "llm-message": ViewOptions,
    "markdown": ViewOptions,
    "plain": ViewOptions,
    "error": ViewOptions,
    "link": ViewOptions,
    "debug": ViewOptions,
}
WORKFLOW_WIDGETS = ("prompt-input", "button", "button-full-w", "form")
DOCUMENT_WIDGETS = tuple(name for name in SPECS if name not in ("prompt-input", "button", "button-full-w"))
PROMPTS = ("text-prompt", "confirm-prompt", "choices")
NEEDS: Mapping[str, Sequence[str]] = {
    "message": ("role", "text"),
    "llm-message": ("role", "text", "blocks"),
    "markdown": ("markdown",),
    "plain": ("text",),
    "error": ("error",),
    "text-prompt": ("question",),
    "confirm-prompt": ("question",),
    "choices": ("question", "options"),
}
"""The fields a document has to have for its widget to show something."""


# -- forms ----------------------------------------------------------------------------------------


def decorated(form: Form, options: FormOptions) -> Form:
    """The form as its widget wants it: the widget's word counts before the schema's."""
    fields = form.fields
    if form.raw:
        fields = [_dressed(f, options.properties.get(f.name, UiElement())) for f in fields]
    else:
        fields = _ordered([_dressed(f, options.properties.get(f.name, UiElement())) for f in fields], options.order)
    if options.disabled:
        fields = [f.model_copy(update={"disabled": True}) for f in fields]
    update = {"fields": fields, "title": options.title, "description": options.description}
    return form.model_copy(update={k: v for k, v in update.items() if v is not None})


def _ordered(fields: list[FormField], order: Sequence[str]) -> list[FormField]:
    """Those named first, in that order; the others follow as the schema has them."""
    return sorted(fields, key=lambda f: order.index(f.name) if f.name in order else len(order))


def _dressed(field: FormField, ui: UiElement) -> FormField:
    plain = ("widget", "placeholder", "rows", "inline", "hidden", "disabled", "readonly", "collapsed", "fixed")
    update: dict[str, Any] = {key: getattr(ui, key) for key in plain if getattr(ui, key) not in (None, "")}
    if ui.label or ui.title:
        update["label"] = ui.label or ui.title
    if ui.description or ui.help:
        update["help"] = "\n\n".join(text for text in (ui.description, ui.help) if text)
    if ui.enum_options:
        choices = [Choice(value=o.value, label=o.label) for o in ui.enum_options]
        update |= {"kind": "choice", "choices": choices} if field.kind in ("text", "integer", "number", "choice") else {}
    if field.kind == "object":
        inner = [_dressed(f, ui.properties.get(f.name, UiElement())) for f in field.fields]
        update["fields"] = _ordered(inner, ui.order or [])
    if field.item is not None:
        of_item = ui.items or UiElement(properties=ui.properties, order=ui.order)
        update["item"] = _dressed(field.item, of_item)
    return field.model_copy(update=update)
