"""What the model is told of a call that did not run, or not to its end. In words, because models act on words.

A refusal reported as a bare "rejected" made models diagnose faults and try again (contracts/agents.md §6.3.5); one that was
stopped half-way and told as refused made them do it twice (notes/pains.md I2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "NO_REASON",
    "denied_result",
    "expired_result",
    "failed_result",
    "interrupted_text",
    "preflight_denied_result",
]

NO_REASON = "rejected by user"
"""Stands where a person gave no reason; it is told to the model and never shown."""


def denied_result(call: Mapping[str, Any], reason: str | None) -> dict[str, Any]:
    """A person said no."""
    said = f" Their reason: {reason}" if reason else ""
    return {
        **_of(call),
        "output": {"rejected": True, "reason": reason or NO_REASON},
        "denied": True,
        "error": f"A person declined this call of {call['name']}. Nothing was run, and it is not an error.{said} Do not try it "
        "again and do not look for another way to do the same; ask them what they want instead.",
    }


def expired_result(call: Mapping[str, Any]) -> dict[str, Any]:
    """Nobody decided in time."""
    return {
        **_of(call),
        "output": {"rejected": True, "expired": True, "reason": "approval expired"},
        "denied": True,
        "expired": True,
        "error": f"Nobody decided about this call of {call['name']} in time, so it was not run. Do not run it again by yourself; "
        "tell the person that it is still to be decided.",
    }


def preflight_denied_result(call: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """The tool's own check refused before it acted."""
    return {
        **_of(call),
        "output": {"rejected": True, "reason": reason},
        "denied": True,
        "error": f"{call['name']} was not run: its own check refused. {reason}",
    }


def failed_result(call: Mapping[str, Any], error: str, *, interrupted: bool = False) -> dict[str, Any]:
    """It raised, or could not be called."""
    out = {**_of(call), "output": None, "error": error}
    return {**out, "interrupted": True} if interrupted else out


def interrupted_text(name: str) -> str:
    """An action in whose middle the kernel died, and which nobody wants to be made again."""
    return (
        f"{name} was started and was stopped before its result was known: the kernel ended. It may or may not have taken effect. "
        "Look at what is there before you do anything that builds on it, and do not run it again without being asked to."
    )


def _of(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": call["id"], "name": call["name"]}
