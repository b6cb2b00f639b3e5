"""A conversation as a static page and a list tell it: its messages as documents, how far its calls came, its title."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from loomnb.agents import DEAD_CALL, ChatMessage, ToolCallRow
from loomnb.documents import DocumentEntity
from loomnb.jsonvalue import freeze, thaw
from loomnb.present import filled, narrated

__all__ = ["UNNAMED", "Presentation", "call_status", "is_named_after", "named", "told_messages"]

UNNAMED = "New chat"
_NAME = 60
"""Characters of what was first said that stand for a title."""

Presentation = Callable[[str], Mapping[str, Any] | None]
"""A tool's name → its words for people."""


def call_status(result: Mapping[str, Any] | None, row: ToolCallRow | None, *, is_moving: bool) -> str:
    """How far a call of a tool came: `running`, `waiting`, `done`, `failed`, `denied`, `expired` or `stopped`.

    Args:
        result: what its message has of it; None: nothing yet.
        row: what is on record of it.
        is_moving: whether its turn is not over.
    """
    if result is not None:
        if result.get("expired"):
            return "expired"
        return "denied" if result.get("denied") else "failed" if result.get("error") is not None else "done"
    by_row = {"executed": "done", "rejected": "denied", "expired": "expired", "failed": "failed"}
    if row is not None and row.status == "failed" and row.error == DEAD_CALL:
        return "stopped"  # nothing went wrong: nobody decided before the turn was stopped
    if row is not None and row.status in by_row:
        return by_row[row.status]
    if not is_moving:
        return "stopped"
    return "waiting" if row is not None and row.status == "pending_approval" and row.decided_by is None else "running"


def told_messages(
    messages: Sequence[ChatMessage], presentation: Presentation, rows: Mapping[str, ToolCallRow], *, is_moving: bool
) -> Iterator[DocumentEntity]:
    """Messages as a story tells documents: their text, with thoughts and calls folded below, and what tools showed.

    Args:
        messages: what was said.
        presentation: the words of tools.
        rows: calls by id, of these messages.
        is_moving: whether the last turn is not over.
    """
    for number, message in enumerate(messages):
        blocks: list[dict[str, Any]] = []
        if message.reasoning:
            blocks.append({"type": "thinking", "text": message.reasoning})
        results = {result["id"]: result for result in message.tool_results or ()}
        is_last = is_moving and number == len(messages) - 1
        for call in message.tool_calls or ():
            row, result = rows.get(call["id"]), results.get(call["id"])
            status = call_status(result, row, is_moving=is_last)
            given = row.input if row is not None else call["input"]
            told: dict[str, Any] = {"type": "tool", "status": status, "input": thaw(given)}
            told["label"] = narrated(call["name"], presentation(call["name"]), given, status)
            told["decision"] = _decision(row, call, presentation(call["name"])) if row is not None else ""
            if status == "done":
                told["output"] = thaw(freeze(result["output"] if result is not None else row.output if row else None))
            elif status == "failed" and result is not None:
                told["output"] = str(result["error"])
            blocks.append(told)
        shown = [{"type": "component", **thaw(freeze(dict(one)))} for one in message.ui or ()]
        content = {"role": message.role, "text": message.content, "blocks": [*blocks, *shown]}
        yield DocumentEntity(
            id="", key=f"message {number}", document_name="llm_message", content=freeze(content),
            ui=freeze({"widget": "llm-message"}), index=number,
        )  # fmt: skip


def _decision(row: ToolCallRow, call: Mapping[str, Any], presentation: Mapping[str, Any] | None) -> str:
    """What a person was asked about a call, in the tool's own words where it has some, and what they decided; empty where nobody
    was asked, or nothing was decided yet."""
    if row.approver is None or row.status in ("pending_approval", "expired"):
        return ""
    if row.decided_via == "remembered":
        return "approved before"
    title = (row.confirmation or {}).get("title") or ((presentation or {}).get("confirm") or {}).get("title") or ""
    asked = f"{filled(str(title), call['input'])} " if title else ""
    if row.status == "rejected":
        return f"{asked}“{row.reason}”" if row.reason else asked.strip()
    said = "approved" if row.decided_via is not None or row.decided_by is not None else ""
    said += ", with other arguments" if said and thaw(freeze(row.input)) != thaw(freeze(call["input"])) else ""
    return f"{asked}{said}{', also from now on' if row.remember else ''}" if said else ""


def named(title: str, first: str) -> str:
    """A conversation's title; of one that has none yet, what was first said in it."""
    words = " ".join(first.split())
    return title if title not in ("", UNNAMED) or not words else words if len(words) <= _NAME else f"{words[: _NAME - 1]}…"


def is_named_after(title: str, text: str) -> bool:
    """Whether nobody gave a title but its first turn, which takes what was said, or the beginning of it."""
    words = " ".join(text.split())
    return title == words or (title.endswith("...") and words.startswith(title.removesuffix("...")))
