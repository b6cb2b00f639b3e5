"""A run as text, Markdown and static HTML: the whole story with no kernel and no script.

Deterministic: no ids, no times, no addresses, so that a saved notebook reads well and nbval can compare it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loomnb.asks import Ask, Form
from loomnb.documents import PROMPTS, DocumentEntity, form_of_ui, is_hidden, transitions_of, widget_of
from loomnb.names import humanised
from loomnb.present.markdown import escape, html_block, markdown_html, markdown_safe, without_controls
from loomnb.present.messages import blocks_html, blocks_plain
from loomnb.present.values import value_html
from loomnb.present.widgets import field_lines, form_html, form_plain, prompt_html, prompt_plain

__all__ = [
    "STATUS_TEXT",
    "Child",
    "Story",
    "answer_html",
    "ask_example",
    "ask_heading",
    "ask_plain",
    "document_html",
    "document_kind",
    "document_plain",
    "document_title",
    "path_tail",
    "story_bundle",
    "story_plain",
    "taker_that_tells",
    "takers_of",
]

STATUS_TEXT: Mapping[str, str] = {
    "pending": "about to start",
    "running": "running",
    "waiting": "waiting for an answer",
    "retrying": "will try again by itself",
    "completed": "completed",
    "failed": "failed",
    "canceled": "canceled",
    "interrupted": "interrupted",
}

_PATH_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What there is to tell of a run."""

    title: str
    workflow: str
    status: str
    place: str
    path: tuple[tuple[str, str], ...]
    documents: tuple[DocumentEntity, ...]
    answered: tuple[tuple[int, Ask, Any], ...] = ()
    """(index of the document that came next, ask, payload): what was asked before, and what was answered."""
    asks: tuple[Ask, ...]
    has_error: bool
    error_type: str
    error: str
    advice: str
    result: Any
    notice: str
    handle: str = "run"
    """How code names the run."""
    children: Mapping[str, Child] = field(default_factory=dict)
    """run id → what a link among the documents leads to."""

    @property
    def error_line(self) -> str:
        """The error on one line."""
        return f"{self.error_type}: {self.error}" if self.error_type else self.error

    def in_order(self) -> Iterator[DocumentEntity | tuple[Ask, Any]]:
        """Documents and answered questions as they came."""
        takers = takers_of(self.documents, self.place)
        answers = [(before, *told) for before, *one in self.answered if (told := _told_once(takers, *one))]
        for entity in self.documents:
            if is_hidden(entity.ui, self.place):
                continue
            while answers and answers[0][0] <= entity.index:
                yield answers.pop(0)[1:]
            yield entity
        yield from (a[1:] for a in answers)

    def shown_asks(self) -> tuple[Ask, ...]:
        """The open asks that their author does not hide."""
        return tuple(a for a in self.asks if a.widget is None or not a.widget.hidden)


def takers_of(documents: Iterable[DocumentEntity], place: str) -> list[DocumentEntity]:
    """The documents on show that take answers, or took them."""
    return [d for d in documents if transitions_of(d.ui) and not is_hidden(d.ui, place) and isinstance(d.content, Mapping)]


def taker_that_tells(takers: Iterable[DocumentEntity], ask: Ask, payload: Any) -> DocumentEntity | None:
    """The document that took an answer and shows all of it now: to tell the answer beside it would say it twice."""
    if not isinstance(payload, Mapping):
        return None
    for entity in takers:
        if ask.name in transitions_of(entity.ui) and all(entity.content.get(k) == v for k, v in payload.items()):
            return entity
    return None


def _told_once(takers: Iterable[DocumentEntity], ask: Ask, payload: Any) -> tuple[Ask, Any] | None:
    """An answer without what a document shows anyhow: of a form its label is left, of a prompt nothing."""
    entity = taker_that_tells(takers, ask, payload)
    if entity is None:
        return ask, payload
    return None if widget_of(entity.ui) in PROMPTS else (ask, {})


@dataclass(frozen=True, slots=True)
class Child:
    """A sub-workflow, as its parent's story tells it: how it stands, and its own story where that is not too long."""

    status: str
    story: Story | None = None


def path_tail(path: Sequence[tuple[str, str]], shown: int = _PATH_SHOWN) -> tuple[int, Sequence[tuple[str, str]]]:
    """How many places are left out, and the last ones: (place, the move that led there)."""
    more = max(0, len(path) - shown)
    return more, path[more:]


# -- documents ------------------------------------------------------------------------------------


def document_kind(entity: DocumentEntity) -> str:
    """How a document is drawn: message, markdown, plain, error, form or prompt; json for whatever nothing else fits."""
    content = entity.content
    widget = widget_of(entity.ui)
    if widget == "form" and entity.error is None:
        return "form"
    if isinstance(content, Mapping):
        if widget in PROMPTS:
            return "prompt"
        drawn = widget or entity.document_name
        if drawn in ("message", "llm-message") and "role" in content:
            return "message"
        if drawn in _TEXTS and isinstance(content.get(_TEXTS[drawn]), str):
            return drawn
    return "json"


_NO_CHILDREN: Mapping[str, Child] = {}
_TEXTS = {"markdown": "markdown", "plain": "text", "error": "error"}


def document_title(entity: DocumentEntity) -> str:
    """What stands above a document that has no heading of its own."""
    return entity.title or (entity.ui or {}).get("title", "") or humanised(entity.document_name)


def _link(entity: DocumentEntity, children: Mapping[str, Child]) -> tuple[str, Story | None]:
    """A link to another run on one line, without its id, and what is told of it below; empty for whatever is no link."""
    content = entity.content
    if (widget_of(entity.ui) or entity.document_name) != "link" or not isinstance(content, Mapping):
        return "", None
    line = f"→ {content.get('label') or document_title(entity)}"
    child = children.get(str(content.get("workflowId")))
    if child is None:
        return line, None
    return f"{line}: {STATUS_TEXT[child.status]}", child.story if content.get("embed") else None


def document_html(entity: DocumentEntity, children: Mapping[str, Child] = _NO_CHILDREN) -> str:
    """A document's content as safe HTML. `children` are the runs that links lead to."""
    content = entity.content
    line, below = _link(entity, children)
    if line:
        told = _told_html(below) if below else ""
        return f"<p>{escape(line)}</p>" + (f'<div style="{_BELOW}">{told}</div>' if told else "")
    match document_kind(entity):
        case "message":
            return markdown_html(content.get("text") or "") + blocks_html(content.get("blocks"))
        case "markdown":
            return markdown_html(content["markdown"])
        case "plain":
            return f"<pre>{escape(content['text'])}</pre>"
        case "error":
            return f"<p>{escape(content['error'])}</p>"
        case "form":
            return form_html(form_of_ui(entity.ui or {}), content)
        case "prompt":
            return prompt_html(entity.ui, content)
        case _:
            invalid = "".join(f"<p>{escape(f'{k}: {v}' if k else v)}</p>" for k, v in (entity.error or {}).items())
            return value_html(content) + invalid


def document_plain(entity: DocumentEntity, children: Mapping[str, Child] = _NO_CHILDREN) -> str:
    """A document's content as text. `children` as for `document_html`."""
    content = entity.content
    line, below = _link(entity, children)
    if line:
        return "\n".join([line, *(f"  {one}" for one in _told_plain(below).splitlines())] if below else [line])
    match document_kind(entity):
        case "message":
            return "\n".join([f"[{content['role']}] {content.get('text') or ''}".rstrip(), *blocks_plain(content.get("blocks"))])
        case "markdown":
            return str(content["markdown"])
        case "plain":
            return str(content["text"])
        case "error":
            return f"Error: {content['error']}"
        case "form":
            return "\n".join([document_title(entity), *form_plain(form_of_ui(entity.ui or {}), content)])
        case "prompt":
            return "\n".join(prompt_plain(entity.ui, content))
        case _:
            return f"{entity.title or humanised(entity.document_name)}: {json.dumps(content, ensure_ascii=False)}"


def _head_and_body(one: DocumentEntity | tuple[Ask, Any], children: Mapping[str, Child]) -> tuple[str, str]:
    """The line above a document or an answered question, and its safe HTML."""
    if isinstance(one, tuple):
        return one[0].label, answer_html(*one)
    if _link(one, children)[0]:
        return "", document_html(one, children)
    kind = document_kind(one)
    if kind == "message":
        role = str(one.content["role"])
        return " · ".join(part for part in (_SAID_BY.get(role, role), one.title) if part), document_html(one)
    return document_title(one) if kind in ("json", "form") else str(one.title), document_html(one)


_SAID_BY = {"user": "You", "assistant": "Answer"}


def _parts(story: Story) -> Iterator[tuple[str, str, bool]]:
    """What a run showed and was answered: the line above it, its safe HTML, and whether a person said it to a model.

    An answer that goes on, as after each round of tools, is named once.
    """
    before = ""
    for one in story.in_order():
        head, body = _head_and_body(one, story.children)
        role = one.content["role"] if not isinstance(one, tuple) and head and document_kind(one) == "message" else ""
        yield "" if role and role != "user" and head == before else head, body, role == "user"
        before = head if role else ""


def _markdown_of(head: str, body: str) -> str:
    # Through the sanitised HTML: a just executed text/markdown output may run scripts like any other.
    return (f"**{markdown_safe(head)}**\n\n" if head else "") + html_block(body)


# -- asks -----------------------------------------------------------------------------------------


def ask_heading(ask: Ask) -> str:
    """What stands above an ask. What is confirmed, or asked first of several, follows whole: its label would say it twice."""
    if ask.kind == "questions" and len(ask.questions) > 1:
        return f"{len(ask.questions)} questions"
    return "Please confirm" if ask.kind == "confirm" else ask.label


def ask_plain(ask: Ask, handle: str = "run") -> str:
    """A question as text, with how to answer it: `handle` is how code names its run."""
    lines = [f"? {ask_heading(ask)}"]
    if ask.description:
        lines.append(f"  {ask.description}")
    if ask.context:
        lines += [f"  {line}" for line in ask.context.splitlines()]
    for question in ask.questions:
        options = f" ({' / '.join(o.label for o in question.options)}, or your own words)" if question.options else ""
        skip = " [may be skipped]" if question.is_skippable else ""
        lines.append(f"  {question.id}: {question.question}{options}{skip}")
    if ask.form is not None:
        lines += [f"  {line}" for line in field_lines(ask.form.fields)]
    lines += [f"  {line}" for line in _request_lines(ask)]
    lines.append(f"  answer with: {handle}.answer({ask.name!r}, {ask_example(ask)})")
    return "\n".join(lines)


def _request_lines(ask: Ask) -> list[str]:
    """What an agent asks, line by line: the arguments of the call, or its questions."""
    if not isinstance(ask.request, Mapping):
        return []
    if ask.kind == "approval":
        given = ask.request.get("input")
        pairs = given.items() if isinstance(given, Mapping) else [("input", given)]
        return [f"{name}: {v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}" for name, v in pairs]
    if ask.kind == "elicitation":
        return [_elicited(question) for question in ask.request.get("questions", ())]
    return []


def _elicited(question: Mapping[str, Any]) -> str:
    options = " / ".join(str(o.get("label") or o.get("value")) for o in question.get("options", ()))
    return f"{question['id']}: {question['question']}" + (f" ({options})" if options else "")


def ask_example(ask: Ask) -> str:
    """What to give `run.answer` for it."""
    match ask.kind:
        case "button":
            return "None"
        case "confirm":
            return "True"
        case "questions":
            return "{" + ", ".join(f"{q.id!r}: '…'" for q in ask.questions) + "}"
        case "approval":
            return "True"
        case "elicitation":
            return "{" + ", ".join(f"{q['id']!r}: '…'" for q in (ask.request or {}).get("questions", ())) + "}"
        case "form":
            fields = ask.form.fields if ask.form else []
            return "…" if ask.form and ask.form.raw else "{" + ", ".join(f"{f.name!r}: …" for f in fields if f.required) + "}"


def _ask_html(ask: Ask) -> str:
    body = f"<p><strong>{escape(ask_heading(ask))}</strong></p>"
    body += markdown_html(ask.description) if ask.description else ""
    body += markdown_html(ask.context) if ask.context else ""
    items = []
    for question in ask.questions:
        options = "".join(f"<li>{escape(o.label)}</li>" for o in question.options)
        described = markdown_html(question.description) if question.description else ""
        options = f"<ul>{options}</ul>" if options else ""
        if question.question == ask_heading(ask):  # the only one: it stands above already
            body += described + options
        else:
            items.append(f"<li>{escape(question.question)}{described}{options}</li>")
    items += [f"<li>{escape(line)}</li>" for line in _request_lines(ask)]
    fields = ask.form.fields if ask.form else []
    items += [f"<li>{escape(field.label)}{'' if field.required else ' (optional)'}</li>" for field in fields]
    return body + (f"<ul>{''.join(items)}</ul>" if items else "")


def _answer_pairs(ask: Ask, payload: Any) -> list[tuple[str, Any]]:
    """What was answered: what it is for (empty where the label says it) and the value; None was skipped."""
    match ask.kind:
        case "button":
            return []
        case "confirm":
            said = "confirmed" if payload["isConfirmed"] else "not confirmed"
            return [("", f"{said}: {payload['feedback']}" if payload.get("feedback") else said)]
        case "questions":
            texts = {q.id: q.question if len(ask.questions) > 1 else "" for q in ask.questions}
            return [(texts.get(a["questionId"], ""), "skipped" if a["isSkipped"] else a["answer"]) for a in payload]
        case "approval":
            return [("", _decided(payload))]
        case "elicitation":
            if payload.get("skipped"):
                return [("", "skipped")]
            asked = {q["id"]: q["question"] for q in (ask.request or {}).get("questions", ())}
            return [(asked.get(name, name), ", ".join(values)) for name, values in payload.get("answers", {}).items()]
        case "form":
            if not isinstance(payload, Mapping):
                return [("", payload)]
            labels = {f.name: f.label for f in ask.form.fields} if ask.form else {}
            return [(labels.get(k, humanised(k)), v) for k, v in payload.items()]


def _decided(payload: Mapping[str, Any]) -> str:
    if payload.get("expired"):
        return "expired: nobody decided in time"
    said = "approved" if payload["approved"] else "declined"
    said += ", with other arguments" if payload.get("input") is not None else ""
    said += ", also from now on" if payload.get("remember") else ""
    return f"{said}: {payload['reason']}" if payload.get("reason") else said


def _filled_in(ask: Ask, payload: Any) -> Form | None:
    """The form to show an answer in, of the fields it has, where one has more than a line; else None."""
    if ask.form is None or ask.form.raw or not isinstance(payload, Mapping):
        return None
    if not any(isinstance(v, (Mapping, list)) or (isinstance(v, str) and "\n" in v) for v in payload.values()):
        return None
    return ask.form.model_copy(update={"description": "", "fields": [f for f in ask.form.fields if f.name in payload]})


def answer_html(ask: Ask, payload: Any) -> str:
    """What was asked and what was answered, as safe HTML without the label."""
    if filled_in := _filled_in(ask, payload):
        return form_html(filled_in, payload)
    rows = [(escape(name), value_html(value)) for name, value in _answer_pairs(ask, payload)]
    named = "".join(f"<li>{name} → <b>{value}</b></li>" for name, value in rows if name)
    body = markdown_html(ask.context) if ask.context else ""
    body += "".join(f"<div>✓ <b>{value}</b></div>" for name, value in rows if not name)
    return body + (f"<ul>{named}</ul>" if named else "")


def _answer_plain(ask: Ask, payload: Any) -> str:
    lines = [f"✓ {ask_heading(ask)}", *(f"    {line}" for line in ask.context.splitlines())]
    if filled_in := _filled_in(ask, payload):
        return "\n".join([*lines, *(f"  {line}" for line in form_plain(filled_in, payload))])
    for name, value in _answer_pairs(ask, payload):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"    {name + ' → ' if name else ''}{text}")
    return "\n".join(lines)


# -- the whole ------------------------------------------------------------------------------------


def _told_plain(story: Story) -> str:
    """What a run showed, was answered, asks, and where it broke."""
    shown = story.in_order()
    lines = [_answer_plain(*one) if isinstance(one, tuple) else document_plain(one, story.children) for one in shown]
    lines += [ask_plain(a, story.handle) for a in story.shown_asks()]
    return "\n".join([*lines, f"! {story.error_line}"] if story.has_error else lines)


def _told_html(story: Story) -> str:
    """The same as safe HTML."""
    parts = []
    for head, body, is_said in _parts(story):
        title = f"<p><strong>{escape(head)}</strong></p>" if head else ""
        parts.append(f'<div style="{_SAID}">{title}{body}</div>' if is_said else f"<div>{title}{body}</div>")
    parts += [f"<div>{_ask_html(a)}</div>" for a in story.shown_asks()]
    if story.has_error:
        advice = f"<br>{escape(story.advice)}" if story.advice else ""
        parts.append(f"<p><strong>Error:</strong> {escape(story.error_line)}{advice}</p>")
    return "".join(parts)


_SAID = (
    "width:fit-content;max-width:88%;margin:.75em 0 .75em auto;padding:0 .75em;"
    "border:1px solid rgba(128,128,128,.5);border-radius:12px 3px 12px 12px;background:rgba(128,128,128,.1)"
)
_BELOW = "margin-left:.5em;padding-left:.75em;border-left:2px solid currentColor"


def story_plain(story: Story) -> str:
    """The run as text."""
    more, tail = path_tail(story.path)
    places = (["…"] if more else []) + [place for place, _ in tail]
    lines = [f"{story.title}: {STATUS_TEXT[story.status]}", *(["  " + " → ".join(places)] if places else [])]
    if story.notice:
        lines.append(f"! {story.notice}")
    lines += [told] if (told := _told_plain(story)) else []
    if story.has_error and story.advice:
        lines.append(f"  {story.advice}")
    if story.result is not None:
        lines.append(f"result: {json.dumps(story.result, ensure_ascii=False)}")
    return without_controls("\n".join(lines))


def _story_html(story: Story) -> str:
    more, tail = path_tail(story.path)
    steps = [f"<span>+{more} earlier →</span>"] if more else []
    for i, (place, _) in enumerate(tail):
        last = i == len(tail) - 1
        style = "padding:1px 8px;border:1px solid currentColor;border-radius:10px" + (
            ";font-weight:bold" if last else ";opacity:.7"
        )
        steps.append(f'<span style="{style}">{escape(place)}</span>{"" if last else " → "}')
    parts = [
        f"<p><strong>{escape(story.title)}</strong> — {escape(STATUS_TEXT[story.status])}</p>",
        *([f'<p style="line-height:2">{" ".join(steps)}</p>'] if steps else []),
    ]
    if story.notice:
        parts.append(f"<p><em>{escape(story.notice)}</em></p>")
    parts.append(_told_html(story))
    if story.result is not None:
        parts.append(f"<div>{_result_html(story.result)}</div>")
    return f'<div class="loom-static">{"".join(parts)}</div>'


def _result_html(result: Any) -> str:
    space = "" if isinstance(result, (Mapping, list)) else " "  # those are blocks, everything else stands on the same line
    return f"<strong>Result</strong>{space}{value_html(result)}"


def _story_markdown(story: Story) -> str:
    more, tail = path_tail(story.path)
    places = (["…"] if more else []) + [
        f"**{markdown_safe(p)}**" if i == len(tail) - 1 else markdown_safe(p) for i, (p, _) in enumerate(tail)
    ]
    parts = [f"**{markdown_safe(story.title)}** — {STATUS_TEXT[story.status]}", *([" → ".join(places)] if places else [])]
    if story.notice:
        parts.append(f"*{markdown_safe(story.notice)}*")
    parts += [_markdown_of(head, body) for head, body, _ in _parts(story)]
    parts += [html_block(_ask_html(a)) for a in story.shown_asks()]
    if story.has_error:
        parts.append(f"**Error:** {markdown_safe(story.error_line)}")
        parts += [markdown_safe(story.advice)] if story.advice else []
    if story.result is not None:
        parts.append(html_block(_result_html(story.result)))
    return "\n\n".join(parts)


def story_bundle(story: Story) -> dict[str, str]:
    """The static forms, as a MIME bundle."""
    forms = {"text/plain": story_plain(story), "text/html": _story_html(story), "text/markdown": _story_markdown(story)}
    return {kind: without_controls(text) for kind, text in forms.items()}
