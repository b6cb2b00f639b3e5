"""Documents that take an answer: which of them do now, what the view draws for them, and what comes back."""

from __future__ import annotations

from typing import Any

from loomnb.asks import Ask
from loomnb.documents import (
    DocumentEntity,
    accepts_input,
    answered_with,
    document_form,
    document_payload,
    is_hidden,
    prompt_options,
    transitions_of,
    widget_of,
)
from loomnb.errors import AnswerRefused
from loomnb.present import document_title, markdown_html, taker_that_tells, takers_of
from loomnb.runtime import RunRecord, Runtime
from loomnb_widgets.agent_asks import AGENT_KINDS, agent_ask_payload

__all__ = [
    "active_documents",
    "answer_from_form",
    "answer_index",
    "covering",
    "document_ask",
    "document_payload_of",
    "hidden_documents",
]


def active_documents(record: RunRecord) -> list[tuple[DocumentEntity, dict[str, str]]]:
    """The documents that take an answer now, each with its open transitions and their asks."""
    view = record.view
    asks = {ask.name: ask.id for ask in view.asks}
    if not asks:
        return []
    found = []
    for entity in _drawn(record):
        at = {"saved_for": entity.place, "status": view.status.value, "place": view.place}
        if accepts_input(entity.ui, entity.content, **at) and not is_hidden(entity.ui, view.place):
            here = {name: asks[name] for name in transitions_of(entity.ui) if name in asks}
            if here:
                found.append((entity, here))
    return found


def hidden_documents(record: RunRecord) -> list[float]:
    """The indexes of what is not shown where the run is: documents, and answers that a document tells already."""
    place, drawn = record.view.place, _drawn(record)
    takers = takers_of(drawn, place)
    answered = enumerate(tuple(record.answered)) if takers else ()
    told = [answer_index(at, before) for at, (_, before, *one) in answered if taker_that_tells(takers, *one)]
    return [*(entity.index for entity in drawn if is_hidden(entity.ui, place)), *told]


def answer_index(number: int, before: int) -> float:
    """Where an answered question stands among the documents: between the two it came between."""
    return before - 1 + (number + 1) / 1_000_000


def _drawn(record: RunRecord) -> list[DocumentEntity]:
    entities = (entity for _, entity in tuple(record.documents.values()))
    return sorted((e for e in entities if e.ui and not e.internal), key=lambda e: e.index)


def covering(record: RunRecord, ask: Ask) -> DocumentEntity | None:
    """The document an ask is answered in, instead of in a form of its own; the newest of several."""
    return next((e for e, here in reversed(active_documents(record)) if here.get(ask.name) == ask.id), None)


def document_payload_of(record: RunRecord, index: Any, ask_id: Any, values: Any) -> Any:
    """The payload of what was typed in a document.

    Raises:
        AnswerInvalid: it cannot be read.
        AnswerRefused: the document takes no answer now.
    """
    for entity, here in active_documents(record):
        if entity.index == index and ask_id in here.values():
            return document_payload(entity.ui or {}, entity.content, values)
    raise AnswerRefused(
        "This document takes no answer now.", advice=f"The run is {record.view.status.value} at {record.view.place!r}."
    )


def answer_from_form(runtime: Runtime, record: RunRecord, ask_id: Any, values: Any, *, is_read: bool = False) -> None:
    """Answer an ask with what its form sent.

    Args:
        runtime: moves the run.
        record: the run.
        ask_id: the ask.
        values: what was typed.
        is_read: whether these were made a payload already.

    Raises:
        AnswerInvalid: it does not fit; the ask stays open.
        AnswerRefused: nothing may take it now.
    """
    ask = next((one for one in record.view.asks if one.id == ask_id and one.kind in AGENT_KINDS), None)
    payload = agent_ask_payload(ask, values) if ask is not None else values
    runtime.answer(record, ask_id, payload, "panel", from_form=ask is None and not is_read)


def document_ask(entity: DocumentEntity, fields: Any) -> dict[str, Any] | None:
    """What a document is answered with, as the view draws it; None when it takes no answer.

    Args:
        entity: the document.
        fields: makes a form's fields what the view draws.
    """
    ui = entity.ui
    if not transitions_of(ui) or answered_with(ui, entity.content) is not None:
        return None
    assert ui is not None
    options = ui.get("options", {})
    ask: dict[str, Any] = {"kind": "form", "label": document_title(entity), "untitled": True, "questions": []}
    if widget_of(ui) == "form":
        form = document_form(ui, entity.content)
        ask["description_html"] = markdown_html(form.description) if form.description else ""
        ask["fields"] = fields(form)
        ask["actions"] = [dict(action) for action in options.get("actions", ())]
        return ask
    question = str(entity.content.get("question", ""))
    ask |= {"label": question, "actions": [{"transition": options["transition"], "label": options.get("label", "Submit")}]}
    match widget_of(ui):
        case "confirm-prompt":
            yes, no = ({**ask["actions"][0], "label": label, "value": label.lower()} for label in ("Yes", "No"))
            return ask | {"kind": "confirm-prompt", "untitled": False, "actions": [yes, no]}
        case "choices":
            offered = [{"id": str(at), "label": c.label} for at, c in enumerate(prompt_options(entity.content))]
            custom = bool(entity.content.get("allowCustomAnswer"))
            one = {"id": "answer", "question": question, "skippable": False, "options": offered, "custom": custom}
            return ask | {"kind": "questions", "questions": [one]}
        case _:
            return ask | {"fields": fields(document_form(ui, entity.content))}
