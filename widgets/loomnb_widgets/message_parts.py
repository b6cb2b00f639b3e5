"""What a message among a run's documents is made of, as the view draws it: the pieces that the chat draws, too."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loomnb.jsonvalue import thaw
from loomnb.present import component_html, markdown_html, narrated, value_html

__all__ = ["message_parts"]


def message_parts(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pieces of a message, its thoughts first.

    Args:
        content: a document's: `text`, and `blocks` of any kind, as it may have been saved unchecked.
    """
    listed = content.get("blocks")
    held = [block for block in listed if isinstance(block, Mapping)] if isinstance(listed, (list, tuple)) else []
    parts = list(_parts(content, held))
    return [{"key": str(at), **part} for at, part in enumerate(parts)]


def _parts(content: Mapping[str, Any], held: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for block in held:
        if block.get("type") == "thinking" and block.get("text"):
            yield {"kind": "reasoning", "ms": None, "live": False, **_text(str(block["text"]))}
    text = content.get("text")
    said = str(text) if text else "\n".join(str(block.get("text", "")) for block in held if block.get("type") == "text")
    if said.strip():
        yield {"kind": "text", **_text(said)}
    for block in held:
        match block.get("type"):
            case "tool_call":
                name, given = str(block.get("name", "a tool")), thaw(block.get("args"))
                yield _tool(str(block.get("id", "")), narrated(name, None, given, "done"), given)
            case "tool_result":
                said, failed = str(block.get("content", "")), bool(block.get("isError"))
                told = {"status": "failed", "error": said} if failed else {"status": "done", "output_html": _value(said)}
                yield {"kind": "result", "call": str(block.get("toolCallId", "")), **told}
            case "tool":
                card = _tool("", str(block.get("label", "a tool")), thaw(block.get("input")))
                told = {"status": str(block.get("status", "")), "reason": str(block.get("decision") or "")}
                yield {**card, **told, "output_html": _value(thaw(block.get("output")))}
            case "component":
                fallback = block.get("fallbackText")
                kept = fallback if isinstance(fallback, str) else None
                yield {"kind": "ui", "html": component_html(str(block.get("component")), thaw(block.get("props")), kept)}
            case _:
                pass


def _text(text: str) -> dict[str, Any]:
    return {"n": 1, "blocks": {"0": markdown_html(text)}}


def _tool(call: str, text: str, given: Any) -> dict[str, Any]:
    return {"kind": "tool", "call": call, "status": "", "text": text, "input_html": _value(given), "output_html": "", "error": ""}


def _value(value: Any) -> str:
    if isinstance(value, str) and value[:1] in ("{", "["):  # what a tool gave, as a model is told it
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    return "" if value in (None, {}, "") else value_html(value)
