"""What a model's message has beside its text: the tools it asks for, what they gave, what they show, and what it thought.

Tools and thoughts are folded away under a line that tells what happened in the tool's own words (`narrated`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from loomnb.jsonvalue import thaw
from loomnb.names import humanised
from loomnb.present.built_in import component_text
from loomnb.present.component_html import component_html
from loomnb.present.markdown import escape
from loomnb.present.values import value_html

__all__ = ["blocks_html", "blocks_plain", "filled", "narrated"]

_SIGNS = {"done": "✓", "failed": "✗", "denied": "✗", "expired": "✗", "stopped": "■"}
_AFTER = {"failed": "failed", "denied": "declined", "expired": "nobody decided in time", "stopped": "stopped"}


def filled(template: str, values: Any) -> str:
    """A template of a tool's presentation: `{dotted.path}` over its input; an empty slot goes with the space before it."""

    def value(found: re.Match[str]) -> str:
        held: Any = values
        for part in found[2].split("."):
            held = held.get(part) if isinstance(held, Mapping) else None
        if held is None or held == "":
            return ""
        return found[1] + (held if isinstance(held, str) else json.dumps(thaw(held), ensure_ascii=False))

    return re.sub(r"(\s?)\{([\w.]+)\}", value, template).strip()


def narrated(name: str, presentation: Mapping[str, Any] | None, given: Any, status: str) -> str:
    """What a call of a tool is told as, in the words of its presentation; a tool without any by its name in plain words.

    Args:
        name: the tool.
        presentation: its `label`, `running` and `done`, templates over the input.
        given: the input, as far as it is known.
        status: `preparing`, `running`, `waiting`, `done`, `failed`, `denied`, `expired` or `stopped`.
    """
    words = presentation or {}
    label = filled(str(words.get("label") or humanised(name)), given)
    if status == "done":
        return filled(str(words["done"]), given) if words.get("done") else label
    if status in ("preparing", "running"):
        return filled(str(words["running"]), given) if words.get("running") else f"{label}…"
    return f"{label}: {_AFTER[status]}" if status in _AFTER else label


def blocks_html(blocks: Any) -> str:
    """The blocks of a message as safe HTML, each folded under a line that names it; components are drawn, texts left out."""
    return "".join(component_html(*head) if isinstance(head, tuple) else _folded(head, value) for head, value in _told(blocks))


def blocks_plain(blocks: Any) -> Iterator[str]:
    """The same as lines of text."""
    for head, value in _told(blocks):
        if isinstance(head, tuple):
            yield from (f"  {line}" for line in component_text(*head).splitlines())
        elif value is None:
            yield f"  {head}"
        else:
            yield f"  {head}: {value if isinstance(value, str) else json.dumps(thaw(value), ensure_ascii=False)}"


def _folded(head: str, value: Any) -> str:
    if value is None:
        return f"<p>{escape(head)}</p>"
    body = f'<pre style="white-space:pre-wrap">{escape(value)}</pre>' if isinstance(value, str) else value_html(value)
    return f"<details><summary>{escape(head)}</summary>{body}</details>"


def _told(blocks: Any) -> Iterator[tuple[Any, Any]]:
    """A line for each block, and what is below it; a component as what draws it. A document saved unchecked may hold anything."""
    for block in blocks if isinstance(blocks, list) else ():
        if not isinstance(block, Mapping):
            continue
        match block.get("type"):
            case "tool_call":
                yield f"→ {block.get('name', 'a tool')}", block.get("args")
            case "tool_result":
                yield ("✗ error of a tool" if block.get("isError") else "← result of a tool"), str(block.get("content", ""))
            case "tool":
                told = {name: block[name] for name in ("input", "output") if block.get(name) not in (None, {}, "")}
                decided = f" ({block['decision']})" if block.get("decision") else ""
                yield f"{_SIGNS.get(str(block.get('status')), '…')} {block.get('label', 'a tool')}{decided}", told or None
            case "component":
                fallback = block.get("fallbackText")
                yield (str(block.get("component")), block.get("props"), fallback if isinstance(fallback, str) else None), None
            case "thinking":
                yield "… thinking", str(block.get("text", ""))
            case _:
                pass
