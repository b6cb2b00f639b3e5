"""What an agent asks in its turn, as a form: an approval with its arguments, a set of questions; and what comes back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Literal

from loomnb.asks import Ask, Choice, Field, Form, Schema, form_of, payload_of
from loomnb.errors import AnswerInvalid, LoomError
from loomnb.jsonvalue import thaw
from loomnb.names import humanised
from loomnb.present import markdown_html, value_html

__all__ = ["AGENT_KINDS", "agent_ask_form", "agent_ask_payload", "agent_ask_view"]

AGENT_KINDS = ("approval", "elicitation")
FieldKind = Literal["text", "number", "boolean", "choice"]
_INPUT = "input"
_KEPT = 256

_FORMS: OrderedDict[str, Form | None] = OrderedDict()
"""By the id of the ask: a head is made ten times a second while a turn runs."""


class _Told(Schema):
    """A schema that is JSON Schema already; it only describes."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.type = dict
        self._told = dict(told)

    def json_schema(self) -> dict[str, Any]:
        return self._told


def agent_ask_form(ask: Ask) -> Form | None:
    """The fields of it: an approval's arguments, where they may be changed; the questions. None: there are none."""
    if ask.id not in _FORMS:
        _FORMS[ask.id] = _approval_form(ask.request or {}) if ask.kind == "approval" else _questions_form(ask.request or {})
        while len(_FORMS) > _KEPT:
            _FORMS.popitem(last=False)
    return _FORMS[ask.id]


def _approval_form(request: Mapping[str, Any]) -> Form | None:
    given = thaw(request.get("input"))
    if not request.get("canEdit") or given in (None, {}):
        return None
    schema = request.get("schema")
    if isinstance(schema, Mapping) and schema.get("properties") and isinstance(given, Mapping):
        try:
            form = form_of(_Told(thaw(schema)))
        except (LoomError, LookupError, TypeError, ValueError):
            form = None  # a schema of another make: its JSON can still be changed
        if form is not None and not form.raw and all(name in {f.name for f in form.fields} for name in given):
            filled = form.filled(given)
            pairs = zip(form.fields, filled.fields, strict=True)  # what the model left out keeps its default
            return filled.model_copy(
                update={"description": "", "fields": [new if new.name in given else old for old, new in pairs]}
            )
    field = Field(name=_INPUT, label="Arguments", kind="json", required=True, default=given)
    return Form(fields=[field], raw=True)


_KINDS: Mapping[str, FieldKind] = {"number": "number", "boolean": "boolean"}
_FORMATS = {"date": "date", "email": "email", "url": "url"}


def _questions_form(request: Mapping[str, Any]) -> Form | None:
    return Form(fields=[_question(one) for one in request.get("questions", ())])


def _question(asked: Mapping[str, Any]) -> Field:
    rule = asked.get("input") or {}
    choices = [Choice(value=o["value"], label=_option(o)) for o in asked.get("options", ())]
    defaults = list(asked.get("defaults", ()))
    name, label = str(asked["id"]), str(asked["question"])
    if choices and asked.get("multiple"):
        item = Field(name="", label="", kind="choice", required=True, choices=choices)
        return Field(name=name, label=label, kind="array", required=False, item=item, default=defaults)
    kind: FieldKind = "choice" if choices else _KINDS.get(rule.get("type", "text"), "text")
    first = defaults[0] if defaults else None
    if kind == "boolean" and first is not None:
        first = first == "true"
    return Field(
        name=name,
        label=label,
        kind=kind,
        required=bool(choices) or bool(rule.get("required")),
        default=first,
        choices=choices,
        placeholder=str(rule.get("placeholder", "")),
        minimum=rule.get("min"),
        maximum=rule.get("max"),
        format=_FORMATS.get(rule.get("type", ""), ""),
        multiline=rule.get("type") == "textarea",
        widget="radio" if choices and len(choices) <= 6 else "",
    )


def _option(option: Mapping[str, Any]) -> str:
    label = str(option.get("label") or option["value"])
    return f"{label} – {option['description']}" if option.get("description") else label


def agent_ask_view(ask: Ask) -> dict[str, Any]:
    """What the view draws of it beside its fields."""
    request: Mapping[str, Any] = ask.request or {}
    if ask.kind == "elicitation":
        form = agent_ask_form(ask)
        only = len(form.fields) == 1 if form else False
        return {"submit": "Answer", "reject": "Skip", "untitled": only}
    given = thaw(request.get("input"))
    form = agent_ask_form(ask)
    shown = form is None and given not in (None, {})
    return {
        "submit": str(request.get("verb") or "Approve"),
        "reject": str(request.get("reject") or "Reject"),
        "tone": str(request.get("tone", "neutral")),
        "tool": str(request.get("toolLabel") or humanised(str(request.get("tool") or ask.name))),
        "remember": bool(request.get("canRemember")),
        "raw": form is not None and form.raw,
        "has_reason": bool(request.get("canEdit") or request.get("canRemember")),
        "input_html": value_html(given) if shown else "",
        "expires": ask.expires_at.timestamp() if ask.expires_at is not None else None,
        "description_html": markdown_html(ask.description) if ask.description else "",
    }


def agent_ask_payload(ask: Ask, values: Any) -> Any:
    """The answer, from what its form sent.

    Raises:
        AnswerInvalid: a field cannot be read; its name is that of its control.
    """
    if not isinstance(values, Mapping):
        raise AnswerInvalid("The form sent nothing.", {"": "nothing was sent"})
    form = agent_ask_form(ask)
    if ask.kind == "elicitation":
        return {"skipped": True} if values.get("skipped") else payload_of(form, values)
    decision: dict[str, Any] = {"approved": values.get("approved") is True}
    decision |= {"reason": values["reason"]} if values.get("reason") and not decision["approved"] else {}
    decision |= {"remember": True} if values.get("remember") and decision["approved"] else {}
    if decision["approved"] and form is not None and values.get(_INPUT) is not None:
        decision[_INPUT] = _changed(form, values[_INPUT], thaw((ask.request or {}).get("input")))
    return decision


def _changed(form: Form, given: Any, was: Any) -> Any:
    values = {_INPUT: given} if form.raw and not isinstance(given, Mapping) else given
    try:
        read = payload_of(form.model_copy(update={"raw": False}), values)
    except AnswerInvalid as exc:
        fields = {name if form.raw else f"{_INPUT}.{name}": text for name, text in exc.fields.items()}
        raise AnswerInvalid(exc.message, fields, advice=exc.advice) from None
    if form.raw:
        return read[_INPUT]
    # What the model left out, and the person left as it was, stays left out: it was not changed.
    untouched = {f.name for f in form.fields if f.name not in was and read.get(f.name) == f.default}
    return {name: value for name, value in read.items() if name not in untouched}
