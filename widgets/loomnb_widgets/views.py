"""What the view draws, as JSON: a run's head, its asks, its documents. Every *_html and html is sanitised here."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any
from urllib.parse import unquote

from loomnb.agents import AGENT_CONFIG
from loomnb.asks import Ask, AskWidget, Field
from loomnb.blueprints import BlueprintDefinition
from loomnb.errors import LoomError
from loomnb.present import (
    STATUS_TEXT,
    answer_html,
    artifact_form,
    artifact_html,
    ask_heading,
    document_html,
    document_kind,
    document_title,
    markdown_html,
    path_tail,
    tree_html,
    value_html,
)
from loomnb.ready import ASK
from loomnb.runtime import FINISHED, REGISTRY, RunRecord, Status
from loomnb_widgets.agent_asks import AGENT_KINDS, agent_ask_form, agent_ask_view
from loomnb_widgets.answers import active_documents, answer_index, document_ask, hidden_documents
from loomnb_widgets.message_parts import message_parts

__all__ = [
    "answer_view",
    "artifact_view",
    "ask_view",
    "closed_text",
    "document_view",
    "field_view",
    "head_view",
    "link_of",
    "link_view",
    "refusal",
    "stages_view",
    "status_text",
]

_RESULT_SHOWN = 20_000  # it travels with the head, which is to stay small
_HELD, _HELD_TEXT = 150, 8000  # values and characters of long texts of the State's tree: the same. All artifacts share as many


def head_view(record: RunRecord) -> dict[str, Any]:
    """Where a run stands, as the view draws it; small, and without documents."""
    view = record.view
    is_turn = isinstance(record.config, Mapping) and AGENT_CONFIG in record.config
    asked = record.workflow == ASK.name  # a question of a cell goes nowhere: no place, no path
    stands = asked or is_turn  # nor does an agent's turn
    more, tail = path_tail(() if stands else tuple(record.path))
    failure = view.failure if view.has_error else None
    active = active_documents(record)
    in_documents = {ask_id for _, here in active for ask_id in here.values()}
    return {
        "title": record.title,
        "workflow": record.workflow,
        "run_id": record.id,
        "status": "running" if _has_begun(record) else view.status.value,
        "status_text": status_text(record),
        "place": "" if stands else _written(record, view.place),
        "path": [{"place": _written(record, place), "name": name} for place, name in tail],
        "path_more": more,
        "asks": [{**ask_view(ask, record.advice), "in_document": ask.id in in_documents} for ask in view.asks],
        "active_docs": [{"index": entity.index, "open": here} for entity, here in active],
        "hidden_docs": hidden_documents(record),
        "progress": _progress(record),
        "error": failure
        and {
            "title": failure.type or failure.code,
            "message": failure.message,
            "advice": failure.advice,
            "frames": failure.frames,
        },
        "result_html": "" if asked or view.status is not Status.COMPLETED else _result(view.result, is_turn=is_turn),
        "can_cancel": view.status not in FINISHED,
        "can_retry": view.status in (Status.FAILED, Status.RETRYING)
        or (view.status is Status.INTERRUPTED and not record.advice)
        or (view.status is Status.WAITING and view.has_error),
        "can_restart": record.changed or (view.status in (Status.FAILED, Status.INTERRUPTED) and record.call is not None),
        "has_key": record.key is not None,
        "retry_text": _retry_text(record),
        "notice": (record.advice or record.notice) if view.status not in FINISHED else "",
        **_holdings(record),
    }


def _written(record: RunRecord, place: str) -> str:
    """A place as people read it: a step by its names, a stage that is about to be entered by its own."""
    return unquote(place.removesuffix("/")) if record.stamped else place


def _holdings(record: RunRecord) -> dict[str, Any]:
    """What the run of a blueprint shows besides: its stages, its State, its artifacts; nothing for other runs."""
    if not record.stamped:
        return {}
    out: dict[str, Any] = {}
    definition = REGISTRY.get(record.workflow)
    if isinstance(definition, BlueprintDefinition):
        visited, here = {place for place, _ in tuple(record.path)}, definition.shown(record.view.place)
        stages = {name: {step.place: step.name for step in stage.steps.values()} for name, stage in definition.stages.items()}
        out["stages"] = stages_view(stages, visited, here)
    state = record.view.state
    if isinstance(state, Mapping) and "value" in state:
        out["state_html"] = tree_html(state["value"], _HELD, _HELD_TEXT)
    artifacts = tuple(record.artifacts or ())
    if artifacts:
        out["artifacts"] = [artifact_view(a, _HELD // len(artifacts)) for a in artifacts]
    return out


def stages_view(stages: Mapping[str, Mapping[str, str]], visited: AbstractSet[str], here: str) -> list[dict[str, Any]]:
    """The stages, each with its steps (place → name), and where the run was and is."""
    drawn = []
    for stage, places in stages.items():
        steps = [{"name": name, "current": place == here, "visited": place in visited} for place, name in places.items()]
        drawn.append(
            {"name": stage, "steps": steps, "current": here in places, "visited": any(place in visited for place in places)}
        )
    return drawn


def artifact_view(artifact: Any, most: int = _HELD) -> dict[str, Any]:
    """A stored artifact as the view draws it."""
    most = max(10, most)
    is_tree = artifact_form(artifact.data) == "tree"
    html = tree_html(artifact.data, most, _HELD_TEXT * most // _HELD) if is_tree else artifact_html(artifact.data, most=most)
    if len(html) > _RESULT_SHOWN:
        html = "<p>too long to show here: see <code>loom.artifact(…)</code></p>"
    return {
        "id": artifact.id,
        "flow": artifact.flow_name,
        "stage": artifact.stage_name,
        "revision": artifact.revision,
        "html": html,
    }


def _retry_text(record: RunRecord) -> str:
    if record.call is not None or record.stamped:
        return "Make the step again"
    if record.view.status is Status.RETRYING:
        return "Retry now"
    return "Retry with the same answer" if record.due is not None and record.due.payload is not None else "Retry"


def _progress(record: RunRecord) -> dict[str, Any] | None:
    told = record.view.progress
    if told is not None and record.view.status not in FINISHED:
        since = record.source.monotonic() - record.known_since
        return {"text": str(told), "since": round(since, 1), "fraction": told.done / told.total if told.total else None}
    attempt = record.attempt
    seconds = record.source.monotonic() - record.attempt_started
    if attempt is None or record.suspended or seconds < 1:
        return None
    return {"text": attempt.move.name.replace("_", " "), "since": round(seconds, 1), "fraction": None}


def _result(value: Any, *, is_turn: bool) -> str:
    if value is None:
        return ""
    shown = markdown_html(value["text"]) if is_turn and value.get("object") is None else value_html(value)
    return shown if len(shown) <= _RESULT_SHOWN else "<p>too long to show here: see <code>run.result</code></p>"


def _has_begun(record: RunRecord) -> bool:
    """Whether a run that is still `pending` is in its first move: nothing of it is stored yet, but it is at work."""
    return record.view.status is Status.PENDING and record.attempt is not None


def status_text(record: RunRecord) -> str:
    """A run's status for people."""
    view = record.view
    if _has_begun(record):
        return STATUS_TEXT["running"]
    if view.status is Status.WAITING and view.waiting_for == "child":
        return "waiting for a sub-workflow"
    return STATUS_TEXT[view.status]


def ask_view(ask: Ask, disabled: str) -> dict[str, Any]:
    """An ask as the view draws it; every *_html is sanitised here."""
    widget = ask.widget or AskWidget(name="")
    if widget.disabled and not disabled:
        disabled = "This cannot be used at this place."
    out: dict[str, Any] = {
        "id": ask.id,
        "kind": ask.kind,
        "label": ask_heading(ask),
        "description_html": _html(ask.description or (ask.form.description if ask.form else "")),
        "enabled": not disabled,
        "disabled_reason": disabled,
        "submit": widget.submit or "Submit",
        "widget": widget.name,
        "variant": widget.variant,
        "wide": widget.wide,
        "hidden": widget.hidden,
        "context_html": _html(ask.context),
        "fields": [],
        "questions": [],
    }
    form = agent_ask_form(ask) if ask.kind in AGENT_KINDS else ask.form
    out |= agent_ask_view(ask) if ask.kind in AGENT_KINDS else {}
    out["fields"] = [field_view(field, field.default) for field in (form.fields if form else [])]
    for question in ask.questions:
        out["questions"].append(
            {
                "id": question.id,
                "question": question.question,
                "description_html": _html(question.description),
                "skippable": question.is_skippable,
                "options": [{"id": o.id, "label": o.label, "description_html": _html(o.description)} for o in question.options],
            }
        )
    return out


def field_view(field: Field, value: Any) -> dict[str, Any]:
    """A field as the view draws it, beginning with a value; what is nested in it too."""
    out = field.model_dump(mode="json", exclude={"help", "fields", "item"}, exclude_defaults=True)
    out |= {"label": field.label, "kind": field.kind, "required": field.required, "default": value}
    if field.help:
        out["help_html"] = _html(field.help)
    if field.widget == "markdown-view" and isinstance(value, str):
        out["view_html"] = _html(value)
    if field.fields:
        there = value if isinstance(value, Mapping) else {}
        out["fields"] = [field_view(one, there.get(one.name, one.default)) for one in field.fields]
    if field.item is not None:
        out["item"] = field_view(field.item, field.item.default)
    return out


def _html(text: str) -> str:
    return markdown_html(text) if text else ""


def document_view(entity: Any, stamp: int) -> dict[str, Any]:
    """A document as the view draws it; its html is sanitised here."""
    kind = document_kind(entity)
    ask = document_ask(entity, lambda form: [field_view(field, field.default) for field in form.fields])
    return {
        **({"ask": ask} if ask is not None else {}),
        "index": entity.index,
        "stamp": stamp,
        "name": entity.document_name,
        "kind": kind,
        "title": document_title(entity) if kind in ("json", "form") else entity.title,
        **(_message(entity.content) if kind == "message" else {"role": "", "html": document_html(entity)}),
    }


def _message(content: Mapping[str, Any]) -> dict[str, Any]:
    parts = message_parts(content)
    of_tools = bool(parts) and all(part["kind"] == "result" for part in parts)  # which are a user's, as a model is told them
    return {"role": "tool" if of_tools else content["role"], "html": "", "parts": parts}


def link_of(record: RunRecord, label: str | None = None, *, embed: bool = True, expanded: bool = True) -> dict[str, Any]:
    """A card that leads to a run, and how that stands."""
    link: dict[str, Any] = {"run_id": record.id, "label": label or record.title, "embed": embed, "expanded": expanded}
    link |= {"status": record.view.status.value, "status_text": status_text(record)}
    return {"kind": "link", "title": link["label"], "link": link}


def link_view(record: RunRecord, *, index: int, stamp: int) -> dict[str, Any]:
    """Such a card as a document of its own."""
    return {"index": index, "stamp": stamp, "name": "link", "role": "", "html": "", **link_of(record)}


def answer_view(number: int, answered: tuple[int, int, Ask, Any]) -> dict[str, Any]:
    """An answered question as the view draws it: among the documents, between the two it came between."""
    stamp, before, ask, payload = answered
    return {
        "index": answer_index(number, before),
        "stamp": stamp,
        "name": "answer",
        "kind": "answer",
        "title": ask_heading(ask),
        "role": "",
        "html": answer_html(ask, payload) or "<p>✓</p>",
    }


def closed_text(call: str) -> str:
    """What a panel says whose store was closed.

    Args:
        call: what shows it again, once the store is open.
    """
    return f"The store is closed: run the cell that opens it again, then {call} shows this again."


def refusal(exc: Exception) -> dict[str, Any]:
    """An error as a form shows it."""
    if isinstance(exc, LoomError):
        return {"message": exc.message, "advice": exc.advice, "fields": dict(getattr(exc, "fields", {}))}
    return {"message": f"{type(exc).__name__}: {exc}", "advice": "", "fields": {}}
