"""What a store of threads keeps beside messages: the row of a run, and what rows of tool calls say on messages.

Every store answers these questions alike, in memory or in a file; so the answers are here, as functions of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from loomnb.agents.spi import ChatMessage, ToolCallRow

__all__ = ["RunRow", "RunStatus", "approval_of", "outcome_of", "used_tokens", "was_decided", "with_approvals"]

RunStatus = Literal["running", "completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """What is on record of a run of an agent.

    Attributes:
        prompt_hash: SHA-256 of the instructions without what memory and retrieval added, so that runs of one prompt are found.
        retries: how often it was taken up again.
        error_code: of a failed run; a cancelled one has neither code nor message.
        duration_ms: of a run that ended.
    """

    run_id: str
    thread_id: str
    actor_ref: str
    agent_name: str | None = None
    parent_run_id: str | None = None
    prompt_hash: str | None = None
    status: RunStatus = "running"
    error_code: str | None = None
    error_message: str | None = None
    retries: int = 0
    started_at: str | None = None
    ended_at: str | None = None
    duration_ms: float | None = None


def approval_of(row: ToolCallRow) -> dict[str, Any] | None:
    """The approval that a row tells of, as a message shows it; None where nobody was to be asked.

    `{"status", "approver", "expiresAt"?, "confirmation"?, "decidedBy"?, "decidedVia"?, "remember"?, "reason"?}`; the status is
    `pending`, `rejected`, `expired` or `approved`. Who decided stands there only when somebody did, and a reason only on a
    rejection.
    """
    if row.approver is None:
        return None
    status = {"pending_approval": "pending", "rejected": "rejected", "expired": "expired"}.get(row.status, "approved")
    out: dict[str, Any] = {"status": status, "approver": row.approver}
    if row.expires_at is not None:
        out["expiresAt"] = row.expires_at
    if row.confirmation is not None:
        out["confirmation"] = row.confirmation
    if status in ("approved", "rejected"):
        out |= {
            name: value for name, value in (("decidedBy", row.decided_by), ("decidedVia", row.decided_via)) if value is not None
        }
    if status == "approved" and row.remember:
        out["remember"] = True
    if status == "rejected" and row.reason is not None:
        out["reason"] = row.reason
    return out


def with_approvals(messages: Iterable[ChatMessage], rows: Iterable[ToolCallRow]) -> list[ChatMessage]:
    """The messages, with an `approval` on each tool call whose row tells of one. Messages without such calls stay as they are.

    A row is that of a call when both are of the same run: some servers count ids from nought in each answer. A message or a row
    that names no run is taken by the id alone.

    Args:
        messages: of one thread.
        rows: its rows, in the order they were recorded.
    """
    by_run: dict[tuple[str | None, str], ToolCallRow] = {}
    by_id: dict[str, ToolCallRow] = {}
    for row in rows:
        by_run[row.run_id, row.id] = by_id[row.id] = row

    def found(run_id: str | None, call_id: Any) -> dict[str, Any] | None:
        row = by_id.get(call_id) if run_id is None else by_run.get((run_id, call_id)) or by_run.get((None, call_id))
        return None if row is None else approval_of(row)

    return [_with_approvals(message, found) for message in messages]


def _with_approvals(message: ChatMessage, approval: Callable[[str | None, Any], dict[str, Any] | None]) -> ChatMessage:
    calls = message.tool_calls or ()
    found = {id_: told for id_ in (call.get("id") for call in calls) if (told := approval(message.run_id, id_)) is not None}
    if not found:
        return message
    return replace(
        message, tool_calls=[{**call, "approval": found[call["id"]]} if call.get("id") in found else call for call in calls]
    )


def outcome_of(row: ToolCallRow) -> dict[str, Any]:
    """How far a call came, as `settle_history` wants to know it: `{"status", "output"?, "error"?, "reason"?, "decided"?}`.

    `output` stands there once the call gave one, even None: a call that is still to run has the status, and no output.
    `decided`: somebody agreed, and the call was on its way.
    """
    out: dict[str, Any] = {"status": row.status}
    if row.status == "executed" or row.output is not None:
        out["output"] = row.output
    if row.error is not None:
        out["error"] = row.error
    if row.reason is not None:
        out["reason"] = row.reason
    if row.status == "pending_approval" and was_decided(row):
        out["decided"] = True
    return out


def was_decided(row: ToolCallRow) -> bool:
    """Whether somebody decided on it."""
    return row.decided_by is not None or row.decided_via is not None


def used_tokens(usage: Mapping[str, int]) -> int:
    """Tokens that count against a ceiling: those in and those out. Unknown ones count as none."""
    return int(usage.get("inputTokens", 0) or 0) + int(usage.get("outputTokens", 0) or 0)
