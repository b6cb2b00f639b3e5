"""What a model's message has beside its text: the tools it asks for, what they gave, and what it thought. Folded away."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from loomnb.present.markdown import escape
from loomnb.present.values import value_html

__all__ = ["blocks_html", "blocks_plain"]


def blocks_html(blocks: Any) -> str:
    """The blocks of a message as safe HTML, each folded under a line that names it; its texts are left out."""
    return "".join(_folded(head, value) for head, value in _told(blocks))


def blocks_plain(blocks: Any) -> Iterator[str]:
    """The same as lines of text."""
    for head, value in _told(blocks):
        yield f"  {head}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def _folded(head: str, value: Any) -> str:
    body = f'<pre style="white-space:pre-wrap">{escape(value)}</pre>' if isinstance(value, str) else value_html(value)
    return f"<details><summary>{escape(head)}</summary>{body}</details>"


def _told(blocks: Any) -> Iterator[tuple[str, Any]]:
    """A line for each block, and what is below it. A document saved unchecked may hold anything."""
    for block in blocks if isinstance(blocks, list) else ():
        if not isinstance(block, Mapping):
            continue
        match block.get("type"):
            case "tool_call":
                yield f"→ {block.get('name', 'a tool')}", block.get("args")
            case "tool_result":
                yield ("✗ error of a tool" if block.get("isError") else "← result of a tool"), str(block.get("content", ""))
            case "thinking":
                yield "… thinking", str(block.get("text", ""))
            case _:
                pass
