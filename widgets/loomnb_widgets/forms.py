"""The same question in core ipywidgets, for a front end without anywidget. Its inputs go through the express lane too:
otherwise ipykernel 7.4 loses all but the first key while a cell waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import ipywidgets as W  # noqa: N812  # the name its own documentation uses for short

from loomnb.asks import Ask, Field
from loomnb.documents import document_form
from loomnb.jsonvalue import dumps
from loomnb.present import ask_heading, escape, markdown_html, story_bundle
from loomnb.runtime import FINISHED, Run, RunRecord
from loomnb_widgets.agent_asks import AGENT_KINDS, agent_ask_form, agent_ask_view
from loomnb_widgets.answers import answer_from_form, covering, document_payload_of
from loomnb_widgets.bridge import Lane

__all__ = ["AskForms", "CoreForm"]

_REMEMBER, _REASON = " remember", " reason"  # no field of a form has a name that begins with a space
_AS_JSON = ("json", "object", "array")

_AT_ONCE = {"continuous_update": False}
"""Text is sent whole when its field is left, which a click does before it counts. Key by key the front end holds back the next
update until the last one is acknowledged, and the click would overtake the last key."""


class CoreForm:
    """A run's story and its open asks as core widgets in `box`."""

    def __init__(self, record: RunRecord, runtime: Any, lane: Lane, run: Run) -> None:
        self._record = record
        self._runtime = runtime
        self._lane = lane
        self._run = run
        self._shown: tuple[Any, ...] | None = None
        self.seen = False
        """Whether a front end has drawn it: its hidden player ticks there, and only there."""
        self._story = W.HTML()
        # Core widgets have no hello. A Play widget counts in the browser by itself and sends each step: that is one.
        self._pulse = W.Play(value=0, min=0, max=10**6, interval=1500, playing=True, layout=W.Layout(display="none"))
        lane.route(self._pulse, self._alive, self._alive)
        self.box = W.VBox()
        self.draw()

    def _alive(self, _: Mapping[str, Any]) -> None:
        self.seen = True

    def draw(self) -> None:
        """Draw what has changed."""
        view = self._record.view
        self._story.value = story_bundle(replace(self._run.story(), asks=()))["text/html"]  # the forms below ask
        shown = (tuple(a.id for a in view.asks), view.status in FINISHED)
        if shown == self._shown:
            return
        self._shown = shown
        children: list[Any] = [self._story, self._pulse]
        forms = AskForms(self._record, self._runtime, self._lane, self._alive)
        children += [forms.form(ask) for ask in view.asks if ask.widget is None or not ask.widget.hidden]
        if view.status not in FINISHED:
            cancel = W.Button(description="Cancel run")
            self._lane.route(cancel, lambda _: self._runtime.workers.submit(self._runtime.cancel, self._record))
            children.append(cancel)
        self.box.children = children


class AskForms:
    """The forms of a run's open asks.

    Args:
        record: the run.
        runtime: moves it.
        lane: by which inputs arrive.
        alive: called with each of them: somebody sees the form.
    """

    def __init__(self, record: RunRecord, runtime: Any, lane: Lane, alive: Callable[[Mapping[str, Any]], None]) -> None:
        self._record = record
        self._runtime = runtime
        self._lane = lane
        self._alive = alive

    def form(self, ask: Ask) -> Any:
        """The form of an ask."""
        values: dict[str, Any] = {}
        error = W.HTML()
        document = covering(self._record, ask)
        if document is not None:
            ask = replace(ask, kind="form", form=document_form(document.ui or {}, document.content))
        rows: list[Any] = [W.HTML(f"<b>{escape(ask_heading(ask))}</b>{markdown_html(ask.context) if ask.context else ''}")]
        form = agent_ask_form(ask) if ask.kind in AGENT_KINDS else ask.form
        rows += [self._input(field, values) for field in (form.fields if form else [])]
        if ask.kind == "approval":
            rows += self._decision(ask, values)
        for question in ask.questions:
            rows.append(
                W.HTML(f"{escape(question.question)}{markdown_html(question.description) if question.description else ''}")
            )
            if question.options:
                options = ["", *(o.label for o in question.options)]
                pick = W.Dropdown(options=options, layout=W.Layout(width="auto"))
                self._lane.route(pick, self._alive, partial(self._picked, values, f"pick:{question.id}", options))
                rows.append(pick)
            other = W.Text(placeholder="your own words" if question.options else "", **_AT_ONCE)
            self._lane.route(other, self._alive, partial(self._typed, values, f"text:{question.id}"))
            rows.append(other)
            if question.is_skippable:
                skip = W.Checkbox(description="Skip this question", indent=False)
                self._lane.route(skip, self._alive, partial(self._typed, values, f"skip:{question.id}"))
                rows.append(skip)
        feedback = None
        if ask.kind == "confirm":
            feedback = W.Text(placeholder="Feedback (optional)", **_AT_ONCE)
            self._lane.route(feedback, self._alive, partial(self._typed, values, "feedback"))
            rows.append(feedback)
        buttons = []
        submit = (ask.widget.submit if ask.widget is not None else "") or "Submit"
        labels: list[tuple[str, bool | None]] = [(ask.label if ask.kind == "button" else submit, None)]
        if ask.kind == "confirm":
            labels = [("Confirm", True), ("Decline", False)]
        elif ask.kind in AGENT_KINDS:
            words = agent_ask_view(ask)
            labels = [(words["submit"], True), (words["reject"], False)]
        for label, verdict in labels:
            button = W.Button(description=label, disabled=bool(self._record.advice))
            self._lane.route(button, partial(self._send, ask, verdict, values, error))
            buttons.append(button)
        return W.VBox([*rows, W.HBox(buttons), error])

    def _decision(self, ask: Ask, values: dict[str, Any]) -> list[Any]:
        """What goes with an approval: the arguments where they cannot be changed, whether to ask again, and why not."""
        words = agent_ask_view(ask)
        rows: list[Any] = [W.HTML(words["description_html"] + words["input_html"])]
        if words["remember"]:
            what = f"Do not ask again for this tool ({words['tool']}) in this conversation, whatever its arguments"
            box = W.Checkbox(description=what, indent=False)
            self._lane.route(box, self._alive, partial(self._typed, values, _REMEMBER))
            rows.append(box)
        if words["has_reason"]:
            reason = W.Text(placeholder="Reason, if you reject it (the agent is told)", layout=W.Layout(width="100%"), **_AT_ONCE)
            self._lane.route(reason, self._alive, partial(self._typed, values, _REASON))
            rows.append(reason)
        return rows

    def _input(self, field: Field, values: dict[str, Any]) -> Any:
        label = field.label + ("" if field.required else " (optional)")
        style = {"description_width": "initial"}
        if field.kind == "boolean" and not field.nullable and (field.default is not None or not field.required):
            values[field.name] = bool(field.default)
            box = W.Checkbox(description=label, value=bool(field.default), indent=False)
            self._lane.route(box, self._alive, partial(self._typed, values, field.name))
            return box
        if field.kind in ("choice", "boolean"):
            choices = [(c.label, c.value) for c in field.choices] if field.kind == "choice" else [("Yes", True), ("No", False)]
            options = [("", None), *choices]
            start = next((i for i, (_, v) in enumerate(options) if v == field.default), 0)
            values[field.name] = options[start][1]
            drop = W.Dropdown(options=[o[0] for o in options], index=start, description=label, style=style)
            self._lane.route(drop, self._alive, partial(self._picked, values, field.name, [o[1] for o in options]))
            return drop
        is_json = field.kind in _AS_JSON  # nested fields too: core widgets would be too many, and JSON says it all
        values[field.name] = "" if field.default is None else dumps(field.default) if is_json else str(field.default)
        if field.hidden:
            return W.HTML()
        kind = W.Textarea if field.multiline or is_json else W.Text
        text = kind(description=label, value=values[field.name], style=style, **_AT_ONCE)
        self._lane.route(text, self._alive, partial(self._typed, values, field.name))
        return text

    def _typed(self, values: dict[str, Any], name: str, state: Mapping[str, Any]) -> None:
        self._alive(state)
        if "value" in state:
            values[name] = state["value"]

    def _picked(self, values: dict[str, Any], name: str, options: list[Any], state: Mapping[str, Any]) -> None:
        self._alive(state)
        if state.get("index") is not None:
            values[name] = options[state["index"]]

    def _send(self, ask: Ask, verdict: bool | None, values: dict[str, Any], error: Any, _: Mapping[str, Any]) -> None:
        self._alive({})
        payload: Any = dict(values)
        if ask.kind == "approval":
            given = {name: value for name, value in values.items() if name not in (_REMEMBER, _REASON)}
            payload = {"approved": verdict, "remember": values.get(_REMEMBER), "reason": values.get(_REASON)}
            form = agent_ask_form(ask)
            payload["input"] = given.get("input") if form is not None and form.raw else given or None
        elif ask.kind == "elicitation" and not verdict:
            payload = {"skipped": True}
        elif ask.kind == "confirm":
            payload = {"isConfirmed": verdict, **({"feedback": values["feedback"]} if values.get("feedback") else {})}
        elif ask.kind == "questions":
            payload = {
                q.id: None if values.get(f"skip:{q.id}") else values.get(f"text:{q.id}") or values.get(f"pick:{q.id}") or ""
                for q in ask.questions
            }
        self._runtime.workers.submit(self._deliver, ask, payload, error)

    def _deliver(self, ask: Ask, payload: Any, error: Any) -> None:
        try:
            document = covering(self._record, ask)
            if document is not None:
                payload = document_payload_of(self._record, document.index, ask.id, payload)
            answer_from_form(self._runtime, self._record, ask.id, payload, is_read=document is not None)
        except Exception as exc:  # noqa: BLE001  # whatever it is, the person at the form has to see it
            error.value = f"<span style='color:var(--jp-error-color1,#c00)'>{escape(str(exc)).replace(chr(10), '<br>')}</span>"
