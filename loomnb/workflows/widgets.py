"""The widgets of a workflow: each stands for the question of its wait transition. Checked with the class, with their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from loomnb.asks import RAW, AskWidget, Field, Form, Schema, form_of
from loomnb.documents import (
    WORKFLOW_WIDGETS,
    ButtonOptions,
    FormOptions,
    PromptInputOptions,
    Reading,
    Widget,
    decorated,
    form_problems,
    widget_problems,
)
from loomnb.runtime import AskContent, Move

__all__ = ["NO_WIDGETS", "WorkflowWidgets", "workflow_widgets"]


@dataclass(frozen=True, slots=True)
class WorkflowWidgets:
    """The widgets of a workflow by the wait transition they resume."""

    by_transition: Mapping[str, Sequence[Widget]]

    def dress(self, content: AskContent, move: Move) -> AskContent:
        """What a wait transition asks, as its widget wants it. The first one that is shown at the place counts."""
        widgets = self.by_transition.get(move.name, ())
        if not widgets:
            return content
        widget = next((w for w in widgets if w.shown_at(move.from_)), None)
        if widget is None:
            return replace(content, widget=AskWidget(name=widgets[0].name, hidden=True))
        off = not widget.enabled_at(move.from_)
        match widget.options:
            case PromptInputOptions() as o:
                field = Field(
                    name=RAW,
                    label=content.label,
                    kind="text",
                    required=True,
                    placeholder=o.placeholder,
                    rows=o.rows,
                    multiline=(o.rows or 1) > 1,
                )
                look = AskWidget(name="prompt-input", submit=o.label, disabled=off)
                return replace(content, kind="form", form=Form(fields=[field], raw=True), widget=look)
            case ButtonOptions() as o:
                variant = o.props.variant or o.variant
                look = AskWidget(name=widget.name, variant=variant, disabled=off or o.props.disabled)
                return replace(content, kind="button", form=None, label=o.label or content.label, widget=look)
            case FormOptions() as o:
                action = next(a for a in o.actions if a.transition == move.name)
                look = AskWidget(
                    name="form",
                    submit=action.label,
                    variant=action.props.variant or action.variant,
                    wide=action.type == "button-full-w",
                    disabled=off or action.props.disabled,
                )
                form = decorated(content.form, o) if content.form is not None else None
                return replace(content, form=form, label=o.title or content.label, widget=look)
            case _:
                return content


NO_WIDGETS = WorkflowWidgets({})


def workflow_widgets(
    owner: str, reading: Reading, moves: Sequence[tuple[Move, Schema | None]], places: Sequence[str]
) -> WorkflowWidgets:
    """The checked widgets of a workflow.

    Raises:
        DefinitionError: one of them could never do what it is for. Names all of them.
    """
    problems: list[str] = []
    by_transition: dict[str, list[Widget]] = {}
    for widget in reading.widgets:
        problems += _problems(widget, moves, places)
        for name, _ in _transitions(widget):
            by_transition.setdefault(name, []).append(widget)
    if problems:
        raise widget_problems(owner, problems)
    return WorkflowWidgets(by_transition) if by_transition else NO_WIDGETS


def _transitions(widget: Widget) -> Iterator[tuple[str, str]]:
    """The transitions it resumes, each with where it says so."""
    match widget.options:
        case PromptInputOptions() | ButtonOptions() as o:
            yield o.transition, widget.at("options", "transition")
        case FormOptions() as o:
            for at, action in enumerate(o.actions):
                yield action.transition, widget.at("options", "actions", at, "transition")
        case _:
            pass


def _problems(widget: Widget, moves: Sequence[tuple[Move, Schema | None]], places: Sequence[str]) -> Iterator[str]:
    if widget.name not in WORKFLOW_WIDGETS:
        yield f"{widget.at('widget')}: a workflow cannot have a {widget.name!r}; expected one of {', '.join(WORKFLOW_WIDGETS)}"
        return
    for key, said in (("enabledWhen", widget.enabled_when), ("showWhen", widget.show_when)):
        for at, place in enumerate(said or ()):
            if place not in places:
                yield f"{widget.at(key, at)}: there is no place {place!r}; known places: {', '.join(places)}"
    if isinstance(widget.options, FormOptions) and not widget.options.actions:
        yield f"{widget.at('widget')}: a form of a workflow needs options.actions, which say what it resumes"
    waits = sorted({m.name for m, _ in moves if m.wait})
    for name, where in _transitions(widget):
        found = [(m, schema) for m, schema in moves if m.name == name and m.wait]
        if not found:
            yield f"{where}: there is no wait transition {name!r}; there are: {', '.join(waits) or 'none'}"
            continue
        yield from _misfits(widget, found, where)


def _misfits(widget: Widget, found: Sequence[tuple[Move, Schema | None]], where: str) -> Iterator[str]:
    move, schema = found[0]
    leaves = [m.from_ for m, _ in found]
    for key, said in (("enabledWhen", widget.enabled_when), ("showWhen", widget.show_when)):
        if said is not None and not set(said) & set(leaves):
            word = "enabled" if key == "enabledWhen" else "shown"
            yield f"{widget.at(key)}: never {word} where {move.name!r} can be answered, at {' or '.join(map(repr, leaves))}"
    form = form_of(schema)
    match widget.options:
        case PromptInputOptions() if form is not None and not form.raw:
            yield f"{where}: a prompt-input sends a text, and the schema of {move.name!r} takes an object"
        case ButtonOptions() if schema is not None and not _takes_nothing(schema):
            yield f"{where}: a button sends no data, and the schema of {move.name!r} does not accept that"
        case FormOptions() if form is None:
            yield f"{where}: {move.name!r} has no schema, so there is nothing to fill in"
        case FormOptions() if form is not None:
            yield from form_problems(widget, form)
        case _:
            pass


def _takes_nothing(schema: Schema) -> bool:
    try:
        schema.parse(None)
    except ValidationError:
        return False
    return True
