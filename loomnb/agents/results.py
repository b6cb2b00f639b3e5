"""What a model is told of a call that gave nothing: refused, not decided in time, stopped, or never begun. One wording each.

A person who says no is not a fault of the tool; a call that was stopped half-way may have done something; one that never began
has done nothing. A model that cannot tell these apart tries again, or reports success (contracts/agents.md §1.4).
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "NO_REASON",
    "STOPPED",
    "denied_result",
    "expired_result",
    "failed_result",
    "lost_result",
    "never_started_result",
    "preflight_denied_result",
    "stopped_result",
]

NO_REASON = "rejected by user"
"""Stands as the reason where the person gave none; it is never shown to people."""

_DENIED = (
    "A person declined this call. Nothing ran. This is not an error: do not try it again and do not work around it; ask the "
    "person what they want instead."
)
_EXPIRED = (
    "Nobody decided on this call in time. Nothing ran. Do not call it again on your own; tell the person that the request "
    "expired."
)
STOPPED = (
    "This call started and was stopped; it never completed. It may have done a part of its work, and what came of it is "
    "unknown: find that out before you call it again."
)
_NEVER_STARTED = "This call never started, so it never completed: the turn ended before it. Nothing ran."
_LOST = "This call never completed. Nothing is on record of how far it came."


def denied_result(call_id: str, name: str, reason: str | None = None) -> dict[str, Any]:
    """The result of a call that a person declined.

    Args:
        call_id: the call.
        name: the tool.
        reason: what the person said; None or blank: nothing.
    """
    said = (reason or "").strip()
    told = f"{_DENIED} They said: {said}" if said and said != NO_REASON else _DENIED
    return {"id": call_id, "name": name, "output": {"rejected": True, "reason": said or NO_REASON}, "denied": True, "error": told}


def expired_result(call_id: str, name: str) -> dict[str, Any]:
    """The result of a call that nobody decided on in time."""
    output = {"rejected": True, "expired": True, "reason": "approval expired"}
    return {"id": call_id, "name": name, "output": output, "denied": True, "expired": True, "error": _EXPIRED}


def failed_result(call_id: str, name: str, error: str) -> dict[str, Any]:
    """The result of a call that went wrong."""
    return {"id": call_id, "name": name, "output": None, "error": error}


def preflight_denied_result(call_id: str, name: str, reason: str) -> dict[str, Any]:
    """The result of a call that the tool's own check refused before it acted."""
    told = f"This call was not run: the tool's own check refused it. {reason}"
    return {"id": call_id, "name": name, "output": {"rejected": True, "reason": reason}, "denied": True, "error": told}


def stopped_result(call_id: str, name: str) -> dict[str, Any]:
    """The result of a call that was at work when its turn ended."""
    return failed_result(call_id, name, STOPPED)


def never_started_result(call_id: str, name: str) -> dict[str, Any]:
    """The result of a call that still waited when its turn ended."""
    return failed_result(call_id, name, _NEVER_STARTED)


def lost_result(call_id: str, name: str) -> dict[str, Any]:
    """The result of a call of which nothing is known."""
    return failed_result(call_id, name, _LOST)
