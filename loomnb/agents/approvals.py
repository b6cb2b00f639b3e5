"""What an agent asks people, as asks of its run: an approval, a set of questions, and whether a repeated call is meant.

An approval takes `True` or `False`, or `{"approved", "reason"?, "remember"?, "input"?}`: `input` are the arguments as the person
changed them, judged here by the tool's schema, so that a bad change is refused while the question stays open. Who decides for
others says who they are: `"decidedBy"?`, `"executedByRef"?` (on record as having done it), `"via"?`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from types import NoneType
from typing import Any

from loomnb.agents.elicitation import accept_answers
from loomnb.agents.input_schemas import InputIssues, InputSchema
from loomnb.agents.spi import ToolSpec, finished
from loomnb.asks import Ask, Option, Question
from loomnb.errors import AnswerInvalid, NotJson
from loomnb.jsonvalue import freeze, thaw
from loomnb.names import humanised
from loomnb.present import filled
from loomnb.runtime import AskContent

__all__ = [
    "NOBODY",
    "REPEAT",
    "accept_approval",
    "accept_ask",
    "approval_content",
    "elicitation_content",
    "interrupted_content",
    "repeat_content",
]


REPEAT = "repeat"
NOBODY = "stop: nobody could be asked"
"""Stands as the answer to a repeated call where nobody can answer."""


def approval_content(
    call: Mapping[str, Any],
    spec: ToolSpec | None,
    schema: Any,
    confirmation: Mapping[str, Any] | None,
    expires_at: datetime | None,
) -> AskContent:
    """How an approval is asked: with the tool's own words where it has some."""
    presented = dict(spec.presentation or {}) if spec is not None else {}
    words = dict(confirmation or {}) or {k: filled(v, call["input"]) for k, v in (presented.get("confirm") or {}).items()}
    label = str(presented.get("label") or humanised(call["name"]))
    request: dict[str, Any] = {
        "id": call["id"],
        "tool": call["name"],
        "label": filled(label, call["input"]),
        "toolLabel": humanised(call["name"]),
        "input": thaw(call["input"]),
        "title": words.get("title") or f"Run “{filled(label, call['input'])}”?",
        "detail": words.get("detail") or (spec.description if spec is not None else ""),
        "verb": words.get("verb") or "Approve",
        "tone": presented.get("tone", "neutral"),
        "approver": (call.get("approval") or {}).get("approver", "requester"),
        "canEdit": True,
        "canRemember": True,
    }
    request |= {"schema": thaw(freeze(schema))} if schema is not None else {}
    return AskContent(
        kind="approval",
        name=call["name"],
        key=call["name"],
        label=request["title"],
        description=request["detail"],
        request=request,
        expires_at=expires_at,
    )


def interrupted_content(call: Mapping[str, Any]) -> AskContent:
    """Whether an action in whose middle the kernel died is made again."""
    name = humanised(call["name"])
    request: dict[str, Any] = {
        "id": call["id"],
        "tool": call["name"],
        "label": name,
        "input": thaw(call["input"]),
        "title": f"{name} was started and was stopped. Run it again?",
        "detail": "The kernel ended in its middle, so nobody knows whether it took effect. It would be run again with the same "
        "idempotency key; or the agent goes on without it, and is told what happened.",
        "verb": "Run it again",
        "reject": "Go on without it",
        "tone": "destructive",
        "canEdit": False,
        "canRemember": False,
    }
    return AskContent(
        kind="approval", name=f"again:{call['name']}", key=f"again:{call['name']}", label=request["title"], request=request,
        description=request["detail"],
    )  # fmt: skip


def elicitation_content(request: Mapping[str, Any]) -> AskContent:
    """How a set of questions is asked."""
    questions = request["questions"]
    label = questions[0]["question"] if len(questions) == 1 else "Some questions"
    return AskContent(
        kind="elicitation", name=request["source"], key=request["source"], label=label, description=request.get("preamble", ""),
        request=dict(request),
    )  # fmt: skip


def repeat_content(call: Mapping[str, Any], count: int) -> AskContent:
    """Whether the same call again and again is meant."""
    shown = json.dumps(thaw(call["input"]), ensure_ascii=False)
    question = Question(
        id=REPEAT,
        question=f"The model asks for the same call {count} times: {call['name']}({shown[:200]}). What now?",
        options=[
            Option(id="continue", label="continue", description="It is meant: let it run."),
            Option(id="stop", label="stop", description="End this run here."),
        ],
        is_skippable=False,
    )
    return AskContent(
        kind="questions", name=REPEAT, key=REPEAT, label="The same call again", questions=(question,),
        request={"call": dict(call), "count": count}, context="Or write what it should do instead.",
    )  # fmt: skip


def accept_ask(ask: Ask, payload: Any, source: str = "code") -> Any:
    """The answer to store, with where it came from (`panel`, `code`, an answers file, `expiry`).

    Raises:
        AnswerInvalid: it does not fit.
    """
    if ask.kind == "approval":
        return accept_approval(ask, payload, source)
    return {**_accept_elicitation(ask, payload), "via": source}


EXPIRY = "expiry"
_KEYS = {"approved", "reason", "remember", "input", "decidedBy", "executedByRef", "via"}
_PARTS: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("reason", "decidedBy", "executedByRef", "via"), (str, "give a text")),
    "remember": (bool, "give True or False"),
    "input": (Mapping, "give the arguments by their names"),
}
"""What else a decision may have, and what says that it is something else. Each may be None."""
_WORDS = {"approve": True, "approved": True, "yes": True, "reject": False, "rejected": False, "no": False, "deny": False}


def accept_approval(ask: Ask, payload: Any, source: str = "code") -> dict[str, Any]:
    """A decision, judged: see the module.

    Raises:
        AnswerInvalid: it is none, or the changed arguments do not fit the tool.
    """
    if isinstance(payload, bool):
        payload = {"approved": payload}
    elif isinstance(payload, str) and payload.strip().lower() in _WORDS:
        payload = {"approved": _WORDS[payload.strip().lower()]}
    elif source == EXPIRY and isinstance(payload, Mapping) and payload.get("expired") is True:  # only the clock says so
        payload = {"approved": False, "expired": True}
    advice = 'Use True, False or {"approved": True, "reason": "…", "remember": True, "input": {…}}.'
    if not isinstance(payload, Mapping) or not isinstance(payload.get("approved"), bool):
        raise AnswerInvalid("This is no decision.", advice=advice)
    unknown = sorted(str(key) for key in set(payload) - _KEYS - ({"expired"} if source == EXPIRY else set()))
    if unknown:
        raise AnswerInvalid("This is no decision.", dict.fromkeys(unknown, "there is no such field"), advice=advice)
    misfits = {name: said for name, (kind, said) in _PARTS.items() if not isinstance(payload.get(name), (kind, NoneType))}
    if misfits:
        raise AnswerInvalid("This is no decision.", misfits, advice=advice)
    try:
        given = {name: dict(value) if isinstance(value, Mapping) else value for name, value in payload.items()}
        decision = {name: thaw(freeze(value)) for name, value in given.items() if value not in (None, False, "")}
    except NotJson as exc:
        raise AnswerInvalid(f"This decision cannot be stored: {exc.message}", advice=exc.advice) from exc
    decision["approved"] = payload["approved"]
    if source != EXPIRY:
        decision.setdefault("via", source)
    if not decision["approved"]:
        decision.pop("input", None)
        decision.pop("remember", None)
    elif "input" in decision:
        _check_input(ask, decision)
    return decision


def _check_input(ask: Ask, decision: dict[str, Any]) -> None:
    request = ask.request or {}
    if not request.get("canEdit", False):
        raise AnswerInvalid("The arguments of this call cannot be changed.", {"input": "leave it out"})
    if decision["input"] == thaw(request.get("input")):
        del decision["input"]  # nothing was changed
        return
    schema = request.get("schema")
    if schema is None:
        return
    try:
        finished(InputSchema(thaw(schema), f"the tool {request['tool']!r}").parse(decision["input"]))
    except InputIssues as exc:
        fields = {".".join(["input", *map(str, issue["path"])]): str(issue["message"]) for issue in exc.issues}
        raise AnswerInvalid("The changed arguments do not fit the tool.", fields) from exc


def _accept_elicitation(ask: Ask, payload: Any) -> dict[str, Any]:
    if payload is None or payload is False or (isinstance(payload, Mapping) and payload.get("skipped") is True):
        return {"skipped": True}
    if payload is True:
        return {"answers": {}, "skipped": False}
    if isinstance(payload, Mapping) and set(payload) <= {"answers", "skipped"} and "answers" in payload:
        payload = payload["answers"]
    return {"answers": accept_answers(ask.request, payload), "skipped": False}
