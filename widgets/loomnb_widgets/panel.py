"""The live panel of a run: one anywidget, whose view asks for what it lacks and sends what a person does.

Nothing is taken from synced traits: ipykernel 7.4 drops trait updates while a cell awaits. The one trait, `head`, is only for
a view that is drawn before the first message, and holds no documents, so that it never grows.
"""

from __future__ import annotations

import contextlib
import contextvars
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import DisplayHandle, display

from loomnb.asks import Ask
from loomnb.errors import LoomError
from loomnb.present import (
    STATUS_TEXT,
    answer_html,
    document_html,
    document_kind,
    markdown_html,
    path_tail,
    story_bundle,
    value_html,
)
from loomnb.ready import ASK
from loomnb.runtime import FINISHED, Run, RunRecord, Status
from loomnb_widgets.bridge import Lane, kernel_version

__all__ = ["Panel", "ask_view"]

_STATIC = Path(__file__).parent / "static"
_PUSH_EVERY = 0.1  # seconds: an envelope is 600 bytes, so tokens are batched
_LOG_SHOWN = 200_000
_RESULT_SHOWN = 20_000  # it travels with the head, which is to stay small
HELLO_WITHIN = 3.0
"""Seconds within which a front end that knows anywidget says hello."""


class Panel(anywidget.AnyWidget):
    """A run's panel. Every display of the run is a view of it."""

    _esm = _STATIC / "panel.js"
    _css = _STATIC / "panel.css"
    head = traitlets.Dict().tag(sync=True)

    def __init__(self, run: Run, record: RunRecord, lane: Lane, runtime: Any) -> None:
        self.record = record
        self._run = run
        self._lane = lane
        self._runtime = runtime
        self._head_rev = 0
        self._head: dict[str, Any] = {}
        self._sent_stamp = 0
        self._sent_log = 0
        self._pushing = False
        self._last_push = 0.0
        self._handles: list[tuple[DisplayHandle, contextvars.Context]] = []
        self._told: tuple[Any, ...] = ()
        self.seen = False
        """Whether a view of it has said hello."""
        self.shown_at: float | None = None
        self.fallback: Any = None
        """The core-widget form shown instead, where no view said hello."""
        self._context = contextvars.copy_context()
        super().__init__(head=self._new_head())
        lane.route(self, self._received)
        record.watchers.append(self._changed)

    # -- from the view: on the thread that reads, so quick ----------------------------------------

    def _received(self, content: Mapping[str, Any]) -> None:
        self.seen = True
        match content.get("type"):
            case "hello":
                have = content.get("have") or {}
                self.say(self._state(have.get("stamp", 0), have.get("log", 0), have.get("head", 0), ack=content.get("n")))
            case "answer":
                self._runtime.workers.submit(self._answer, content)
            case "cancel":
                self._runtime.workers.submit(self._act, self._runtime.cancel)
            case "retry":
                self._runtime.workers.submit(self._act, self._runtime.retry)
            case _:
                pass  # a newer view may say more than we know

    def _answer(self, content: Mapping[str, Any]) -> None:
        reply = {"n": content.get("n"), "ask": content.get("ask")}
        try:
            self._runtime.answer(self.record, content.get("ask"), content.get("values"), "panel", from_form=True)
        except Exception as exc:  # whatever it is, the person at the form has to see it
            self.say({"type": "refused", **reply, **refusal(exc)})
        else:
            self.say({"type": "accepted", **reply})

    def _act(self, action: Any) -> None:
        try:
            action(self.record)
        except LoomError as exc:
            self.say({"type": "refused", "n": None, "ask": "", **refusal(exc)})

    # -- to the view ------------------------------------------------------------------------------

    def say(self, content: Mapping[str, Any]) -> None:
        """Send a message, from any thread."""
        # A copied context: ipykernel 7.0 needs the parent's ContextVar to send from a foreign thread.
        self._context.copy().run(self.send, dict(content))

    def warn(self, text: str) -> None:
        """Show a line above everything; empty takes it away."""
        self.say({"type": "state", "head_rev": self._head_rev, "stamp": self._sent_stamp, "warn": text})

    def _changed(self, what: str) -> None:
        """The run changed: push soon, and once for many changes. On any thread."""
        if self._pushing:
            return
        self._pushing = True
        host = self.record.host
        if host is not None:
            wait = max(0.02, _PUSH_EVERY - (time.monotonic() - self._last_push))
            host.post(lambda: host.loop.call_later(wait, self._push))

    def _push(self) -> None:
        self._pushing = False
        self._last_push = time.monotonic()
        known = self._head_rev
        message = self._state(self._sent_stamp, self._sent_log, known)
        if len(message) > 4:  # more than type, revisions and warn
            self.say(message)
            self._sent_stamp, self._sent_log = message["stamp"], self.record.log_end
            if self._head_rev != known:
                self._context.copy().run(self.set_trait, "head", self._head)
        if self.fallback is not None:
            self._context.copy().run(self.fallback.draw)
        self._refresh_static()

    def _state(self, stamp: int, log: int, head: int, ack: Any = None) -> dict[str, Any]:
        record = self.record
        fresh = self._new_head()
        if _without_seconds(fresh) != _without_seconds(self._head):
            self._head_rev += 1
        self._head = fresh
        host = record.host
        message: dict[str, Any] = {"type": "state", "head_rev": self._head_rev, "stamp": record.stamp}
        message["warn"] = host.blocked if host is not None else ""
        if ack is not None:
            message["ack"] = ack
        if head != self._head_rev:
            message["head"] = fresh
        if record.stamp > stamp:
            changed = sorted((s, e) for s, e in tuple(record.documents.values()) if s > stamp and not e.internal)
            message["docs"] = [document_view(e, s) for s, e in changed]
            message["docs"] += [answer_view(*one) for one in enumerate(tuple(record.answered)) if one[1][0] > stamp]
        end = record.log_end
        if end > log:
            text = "".join(tuple(record.log_text))
            start = max(log, record.log_start, end - _LOG_SHOWN)
            message["log_from"], message["log"] = start, text[start - record.log_start :]
        return message

    def _new_head(self) -> dict[str, Any]:
        record, view = self.record, self.record.view
        asked = record.workflow == ASK.name  # a question of a cell goes nowhere: no place, no path
        more, tail = path_tail(() if asked else tuple(record.path))
        failure = view.failure if view.has_error else None
        return {
            "title": record.title,
            "workflow": record.workflow,
            "run_id": record.id,
            "status": view.status.value,
            "status_text": _status_text(record),
            "place": "" if asked else view.place,
            "path": [{"place": place, "name": name} for place, name in tail],
            "path_more": more,
            "asks": [ask_view(ask, record.advice) for ask in view.asks],
            "progress": self._progress(),
            "error": failure
            and {
                "title": failure.type or failure.code,
                "message": failure.message,
                "advice": failure.advice,
                "frames": failure.frames,
            },
            "result_html": "" if asked or view.status is not Status.COMPLETED else _result(view.result),
            "can_cancel": view.status not in FINISHED,
            "can_retry": view.status in (Status.FAILED, Status.RETRYING)
            or (view.status is Status.INTERRUPTED and not record.advice)
            or (view.status is Status.WAITING and view.has_error),
            "retry_text": "Retry now" if view.status is Status.RETRYING else "Retry",
            "notice": record.advice if view.status not in FINISHED else "",
        }

    def _progress(self) -> dict[str, Any] | None:
        attempt = self.record.attempt
        seconds = self.record.source.monotonic() - self.record.attempt_started
        if attempt is None or seconds < 1:
            return None
        return {"text": attempt.move.name.replace("_", " "), "since": round(seconds, 1), "fraction": None}

    # -- displays ---------------------------------------------------------------------------------

    def show(self) -> None:
        """Show it in the current cell."""
        self._context = contextvars.copy_context()
        self.shown_at = time.monotonic()
        handle = DisplayHandle(uuid.uuid4().hex)
        self._told = self._standing()
        display(self._bundle(), raw=True, display_id=handle.display_id)
        self._handles = [*self._handles[-9:], (handle, self._context)]
        if not self.seen:
            host = self.record.host
            if host is not None:
                host.post(lambda: host.loop.call_later(HELLO_WITHIN, self._fall_back))
        self._changed("view")  # it may have moved while its panel was made

    def _bundle(self) -> dict[str, Any]:
        made = super()._repr_mimebundle_()
        data = made[0] if isinstance(made, tuple) else made
        story = story_bundle(self._run.story())
        if self.record.view.asks and (0, 0) < kernel_version() < (7, 4):
            story["text/plain"] += (
                "\n  if the page was reloaded while a cell waits: interrupt the kernel, then loom.pending() brings the form back"
            )
        return {**(data or {}), **story}

    def _standing(self) -> tuple[Any, ...]:
        view = self.record.view
        return view.status, view.moves, tuple(a.id for a in view.asks), self.record.stamp

    def _refresh_static(self) -> None:
        """When the run comes to rest, the static forms in the notebook tell what happened."""
        standing = self._standing()
        if standing == self._told or self.record.passing or standing[0] in (Status.PENDING, Status.RUNNING):
            return
        self._told = standing
        if self.fallback is not None:
            return
        for handle, context in self._handles:
            context.copy().run(handle.update, self._bundle(), raw=True)

    def _fall_back(self) -> None:
        """No view said hello: this front end does not know anywidget. Show the same in core widgets."""
        if self.seen or self.fallback is not None or not self._handles:
            return
        from loomnb_widgets.forms import CoreForm  # only front ends without anywidget need it

        handle, context = self._handles[-1]

        def make() -> None:
            self.fallback = CoreForm(self.record, self._runtime, self._lane, self._run)
            handle.update(self.fallback.box)

        context.copy().run(make)

    def reachable(self) -> bool:
        """Whether a view of it, or of its fallback, has said something."""
        return self.seen or (self.fallback is not None and self.fallback.seen)

    def close_panel(self) -> None:
        """Let go of the run."""
        with contextlib.suppress(ValueError):
            self.record.watchers.remove(self._changed)
        self._lane.forget(self)


def _without_seconds(head: Mapping[str, Any]) -> dict[str, Any]:
    """A head to compare: the seconds of its progress count up in the view by themselves."""
    progress = head.get("progress")
    return {**head, "progress": progress and progress["text"]}


def _result(value: Any) -> str:
    if value is None:
        return ""
    shown = value_html(value)
    return shown if len(shown) <= _RESULT_SHOWN else "<p>too long to show here: see <code>run.result</code></p>"


def _status_text(record: RunRecord) -> str:
    view = record.view
    if view.status is Status.WAITING and view.waiting_for == "child":
        return "waiting for a sub-workflow"
    return STATUS_TEXT[view.status]


def ask_view(ask: Ask, disabled: str) -> dict[str, Any]:
    """An ask as the view draws it; every *_html is sanitised here."""
    out: dict[str, Any] = {
        "id": ask.id,
        "kind": ask.kind,
        "label": ask.label,
        "description_html": _html(ask.description or (ask.form.description if ask.form else "")),
        "enabled": not disabled,
        "disabled_reason": disabled,
        "submit": "Submit",
        "context_html": _html(ask.context),
        "fields": [],
        "questions": [],
    }
    for field in ask.form.fields if ask.form else []:
        out["fields"].append(
            {
                **field.model_dump(mode="json", exclude={"help"}),
                "help_html": _html(field.help),
            }
        )
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


def _html(text: str) -> str:
    return markdown_html(text) if text else ""


def document_view(entity: Any, stamp: int) -> dict[str, Any]:
    """A document as the view draws it; its html is sanitised here."""
    kind = document_kind(entity)
    return {
        "index": entity.index,
        "stamp": stamp,
        "name": entity.document_name,
        "kind": kind,
        "title": entity.title or (entity.document_name.replace("_", " ").capitalize() if kind == "json" else ""),
        "role": entity.content.get("role", "") if kind == "message" else "",
        "html": document_html(entity),
    }


def answer_view(number: int, answered: tuple[int, int, Ask, Any]) -> dict[str, Any]:
    """An answered question as the view draws it: among the documents, between the two it came between."""
    stamp, before, ask, payload = answered
    return {
        "index": before - 1 + (number + 1) / 1_000_000,
        "stamp": stamp,
        "name": "answer",
        "kind": "answer",
        "title": ask.label,
        "role": "",
        "html": answer_html(ask, payload) or "<p>✓</p>",
    }


def refusal(exc: Exception) -> dict[str, Any]:
    """An error as a form shows it."""
    if isinstance(exc, LoomError):
        return {"message": exc.message, "advice": exc.advice, "fields": dict(getattr(exc, "fields", {}))}
    return {"message": f"{type(exc).__name__}: {exc}", "advice": "", "fields": {}}
