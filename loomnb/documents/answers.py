"""What a document that takes an answer sends: the way from what was typed in it to the payload of its wait transition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomnb.asks import Choice, Field, Form, payload_of
from loomnb.documents.specs import PROMPTS
from loomnb.documents.ui import form_of_ui, widget_of
from loomnb.errors import AnswerInvalid
from loomnb.jsonvalue import thaw

__all__ = ["document_form", "document_payload", "prompt_options"]


def prompt_options(content: Any) -> list[Choice]:
    """What a `choices` document offers: texts, or labels with a value each."""
    listed = content.get("options") if isinstance(content, Mapping) else None
    found: list[Choice] = []
    for one in listed or ():
        if isinstance(one, Mapping):
            label = str(one.get("label", one.get("value", "")))
            found.append(Choice(value=one.get("value", label), label=label))
        else:
            found.append(Choice(value=one, label=str(one)))
    return found


def document_form(ui: Mapping[str, Any], content: Any) -> Form:
    """The form a document is answered with, beginning with what it holds."""
    widget = widget_of(ui)
    if widget == "form":
        return form_of_ui(ui).filled(content)
    question = str(content.get("question", "")) if isinstance(content, Mapping) else ""
    if widget == "confirm-prompt":
        choices, custom = [Choice(value="yes", label="Yes"), Choice(value="no", label="No")], False
    else:
        choices, custom = prompt_options(content), bool(isinstance(content, Mapping) and content.get("allowCustomAnswer"))
    placeholder = ui.get("options", {}).get("placeholder", "")
    if widget == "text-prompt" or custom:
        help_ = " / ".join(c.label for c in choices)
        field = Field(
            name="answer", label=question, kind="text", required=True, min_length=1, placeholder=placeholder, help=help_
        )
    else:
        field = Field(name="answer", label=question, kind="choice", required=True, choices=choices)
    return Form(fields=[field])


def document_payload(ui: Mapping[str, Any], content: Any, values: Any) -> Any:
    """The payload of what was typed: the whole edited content of a form, `{"answer": …}` of a prompt.

    Raises:
        AnswerInvalid: a field cannot be read, or the question was not answered.
    """
    form = document_form(ui, content)
    if widget_of(ui) not in PROMPTS:
        payload = payload_of(form, values)
        if form.raw or not isinstance(content, Mapping):
            return payload
        known = {f.name for f in form.fields}
        return {**{k: thaw(v) for k, v in content.items() if k not in known}, **_with_kept(form.fields, content, payload)}
    answer = values.get("answer") if isinstance(values, Mapping) else None
    if isinstance(answer, str):
        answer = answer.strip()
    if answer in (None, ""):
        raise AnswerInvalid("The question is not answered.", {"answer": "Please answer this question."})
    field = form.fields[0]
    offered = field.choices or prompt_options(content)
    chosen = next((c.value for c in offered if answer in (c.value, c.label)), None)
    if chosen is None and field.kind == "choice":
        raise AnswerInvalid("This answer is not offered.", {"answer": f"choose one of: {', '.join(c.label for c in offered)}"})
    return {"answer": answer if chosen is None else thaw(chosen)}


def _with_kept(fields: Sequence[Field], content: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with what nobody could edit as the document holds it, whatever the view sent for it."""
    kept = dict(payload)
    for field in fields:
        held, sent = content.get(field.name), payload.get(field.name)
        if field.name in content and (field.hidden or field.readonly or field.disabled):
            kept[field.name] = thaw(held)
        elif field.fields and isinstance(held, Mapping) and isinstance(sent, Mapping):
            kept[field.name] = _with_kept(field.fields, held, sent)
    return kept
