"""Forms and prompts to be read: as text and as safe static HTML, with the labels and the order their author gave them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loomnb.asks import Field, Form
from loomnb.documents import answered_with, prompt_options, widget_of
from loomnb.present.markdown import escape, markdown_html
from loomnb.present.values import rows_html, value_html

__all__ = ["field_lines", "form_html", "form_plain", "prompt_html", "prompt_plain"]


# -- a form with its content ----------------------------------------------------------------------


def form_html(form: Form, content: Any) -> str:
    """A form's content, read only."""
    about = markdown_html(form.description) if form.description else ""
    if form.raw or not isinstance(content, Mapping):
        return about + _html(form.fields[0], content) if form.raw else about + value_html(content)
    return about + _rows(form.fields, content)


def _rows(fields: Sequence[Field], content: Mapping[str, Any]) -> str:
    shown = [(f.label or f.name, _html(f, content.get(f.name))) for f in fields if not f.hidden]
    known = {f.name for f in fields}
    return rows_html([*shown, *((k, value_html(v)) for k, v in content.items() if k not in known)])


def _html(field: Field, value: Any) -> str:
    if value is None:
        return value_html(None)
    if field.kind == "object" and isinstance(value, Mapping):
        return _rows(field.fields, value)
    if field.kind == "array" and isinstance(value, (list, tuple)) and field.item is not None:
        item = field.item
        return "<ol>" + "".join(f"<li>{_html(item, one)}</li>" for one in value) + "</ol>" if value else value_html(None)
    if field.widget == "markdown-view" and isinstance(value, str):
        return markdown_html(value)
    if field.widget == "code-view":
        return f"<pre><code>{escape(_text(field, value))}</code></pre>"
    if isinstance(value, str) and "\n" in value:
        return f"<pre>{escape(value)}</pre>"
    return f"<span>{escape(_text(field, value))}</span>"


def _text(field: Field, value: Any) -> str:
    label = next(
        (c.label for c in field.choices if c.value == value and isinstance(c.value, bool) == isinstance(value, bool)), None
    )
    if label is not None:
        return label
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def form_plain(form: Form, content: Any) -> Iterator[str]:
    """The same as lines of text."""
    if form.raw or not isinstance(content, Mapping):
        yield f"  {_text(form.fields[0], content)}"
        return
    yield from _lines(form.fields, content, "  ")


def _lines(fields: Sequence[Field], content: Mapping[str, Any], indent: str) -> Iterator[str]:
    for field in fields:
        if field.hidden:
            continue
        value = content.get(field.name)
        label = field.label or field.name
        if field.kind == "object" and isinstance(value, Mapping):
            yield f"{indent}{label}:"
            yield from _lines(field.fields, value, indent + "  ")
        elif field.kind == "array" and isinstance(value, (list, tuple)) and field.item is not None and field.item.fields:
            yield f"{indent}{label}:"
            for one in value:
                first, *rest = list(_lines(field.item.fields, one, indent + "    ")) if isinstance(one, Mapping) else [str(one)]
                yield f"{indent}  - {first.strip()}"
                yield from rest
        elif isinstance(value, (list, tuple)) and field.item is not None:
            yield f"{indent}{label}: {', '.join(_text(field.item, one) for one in value) or '–'}"
        elif isinstance(value, str) and "\n" in value:
            yield f"{indent}{label}:"
            yield from (f"{indent}  {line}" for line in value.splitlines())
        else:
            yield f"{indent}{label}: {_text(field, value)}"


# -- a form to be filled in -----------------------------------------------------------------------


def field_lines(fields: Sequence[Field]) -> Iterator[str]:
    """What a form asks for, a line each."""
    for field in fields:
        if field.hidden:
            continue
        optional = "" if field.required else ", optional"
        inner = field.fields or (field.item.fields if field.item is not None else [])
        what = " / ".join(c.label for c in field.choices) or field.kind
        if field.kind == "array" and field.item is not None:
            of = " / ".join(c.label for c in field.item.choices) or field.item.kind
            what = "list" if inner else f"list of {of}"
        elif field.kind == "object":
            what = "group"
        yield f"{field.label} ({what}{optional})"
        yield from (f"  {line}" for line in field_lines(inner))


# -- prompts --------------------------------------------------------------------------------------


def prompt_html(ui: Mapping[str, Any] | None, content: Mapping[str, Any]) -> str:
    """A question of a document with its answer, or what may be answered."""
    answer = answered_with(ui, content)
    question = markdown_html(str(content.get("question", "")))
    if answer is not None:
        return f"{question}<div>✓ <b>{escape(_said(content, answer))}</b></div>"
    options = "".join(f"<li>{escape(text)}</li>" for text in _offered(ui, content))
    return f"{question}<ul>{options}</ul>" if options else question


def prompt_plain(ui: Mapping[str, Any] | None, content: Mapping[str, Any]) -> Iterator[str]:
    """The same as lines of text."""
    answer = answered_with(ui, content)
    yield f"{'?' if answer is None else '✓'} {content.get('question', '')}"
    if answer is not None:
        yield f"    {_said(content, answer)}"
    else:
        yield from (f"  - {text}" for text in _offered(ui, content))


def _said(content: Mapping[str, Any], answer: Any) -> str:
    return next((c.label for c in prompt_options(content) if c.value == answer), str(answer))


def _offered(ui: Mapping[str, Any] | None, content: Mapping[str, Any]) -> list[str]:
    if widget_of(ui) == "confirm-prompt":
        return ["Yes", "No"]
    own = ["your own words"] if content.get("allowCustomAnswer") else []
    return [c.label for c in prompt_options(content)] + own if widget_of(ui) == "choices" else []
