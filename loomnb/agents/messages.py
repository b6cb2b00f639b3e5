"""What is said and put on record: messages, threads, rows of calls and usage, and the store that keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from loomnb.agents.shapes import dump, load
from loomnb.agents.tool_types import Actor
from loomnb.jsonvalue import Json

__all__ = [
    "AgentStore",
    "ChatMessage",
    "Thread",
    "ToolCallRow",
    "ToolCallStatus",
    "UsageRow",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message of a thread.

    Attributes:
        tool_calls: of an assistant: `{"id", "name", "input", "kind"}`.
        tool_results: `{"id", "name", "output", "error"?, "denied"?, "expired"?}`, on the message that has the calls.
        usage: `{"inputTokens"?, "outputTokens"?, …}`; what is unknown is left out.
        cost_usd: None: unknown, never 0 for unknown.
        ui: `{"id", "component", "props", "version"?, "fallbackText"?, "componentVersions"?, "toolCallId"?}`.
        attachments: `{"name", "mediaType", "data" (base64) | "url", "mediaId"?}`.
        native: what its provider wants back when it is told again.
    """

    role: Literal["user", "assistant", "system"]
    content: str = ""
    id: str | None = None
    run_id: str | None = None
    agent_name: str | None = None
    persona: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    tool_results: Sequence[Mapping[str, Any]] | None = None
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    model_id: str | None = None
    reasoning: str | None = None
    reasoning_ms: int | None = None
    ui: Sequence[Mapping[str, Any]] | None = None
    follow_ups: Sequence[str] | None = None
    attachments: Sequence[Mapping[str, Any]] | None = None
    feedback: str | None = None
    native: Json = None
    created_at: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Its JSON; what is None is left out."""
        return dump(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ChatMessage:
        """The message of its JSON."""
        return load(ChatMessage, data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A conversation. `messages` in their order; a listing leaves them out."""

    id: str
    actor_ref: str
    tenant_ref: str | None = None
    title: str = "New chat"
    transient: bool = False
    agent_name: str | None = None
    model: str | None = None
    persona: str | None = None
    active_stream: str | None = None
    messages: Sequence[ChatMessage] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None


ToolCallStatus = Literal["proposed", "auto_executed", "pending_approval", "executed", "rejected", "failed", "expired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRow:
    """What is on record of a tool call. `tool_type` knows `read` and `action` only."""

    id: str
    thread_id: str
    message_id: str | None = None
    run_id: str | None = None
    tool_name: str
    tool_type: Literal["read", "action"] = "read"
    input: Json = None
    output: Json = None
    status: ToolCallStatus = "auto_executed"
    error: str | None = None
    reason: str | None = None
    approver: str | None = None
    expires_at: str | None = None
    confirmation: Mapping[str, Any] | None = None
    decided_by: str | None = None
    decided_via: str | None = None
    remember: bool = False
    executed_by_ref: str | None = None
    proposal_id: str | None = None
    duration_ms: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Its JSON; what is None is left out."""
        return dump(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ToolCallRow:
        """The row of its JSON."""
        return load(ToolCallRow, data)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What one call of a model used. `cost_usd` only where the provider said so."""

    thread_id: str
    actor_ref: str
    model_id: str
    purpose: Literal["chat", "follow_ups", "history_summary", "structured_output"] = "chat"
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    cost_usd: float | None = None
    run_id: str | None = None
    at: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Its JSON; what is None is left out."""
        return dump(self)


class AgentStore(Protocol):
    """Where threads are kept. The methods below are required; the loop looks for these and does without: `update_thread`,
    `active_run_for_thread`, `record_run_start`, `record_run_end`, `bump_run_retries`, `set_message_ui`, `thread_of_message`,
    `set_message_feedback`, `tool_call_outcomes(ids)` → id → `{"status", "output"?, "error"?, "reason"?}`,
    `outcomes_of_run(thread_id, run_id, ids)` (the same, where another thread may have calls of the same ids),
    `update_call_of_run(thread_id, run_id, id, changes)` → whether there is such a row (for the same reason; no run: of any),
    `fail_unsettled_tool_calls(run_id, error)` → count, `remembered_approvals(thread_id)` → tool names, `tool_call_approval(id)`,
    `tool_call_input(id)`, `referenced_media_ids`, `usage_between`, `load_thread_for_turn(thread_id, *, message_limit)`."""

    async def create_thread(
        self,
        *,
        actor: Actor,
        id: str | None = None,  # noqa: A002  # the contract's word
        title: str = "New chat",
        transient: bool = False,
        agent_name: str | None = None,
        model: str | None = None,
    ) -> Thread: ...
    async def get_thread(self, thread_id: str) -> Thread | None: ...
    async def list_threads(self, actor: Actor, limit: int = 50) -> Sequence[Thread]: ...
    async def soft_delete_thread(self, thread_id: str) -> None: ...
    async def fork_thread(self, thread_id: str, from_message: str) -> Thread: ...
    async def set_title(self, thread_id: str, title: str) -> None: ...
    async def promote_thread(self, thread_id: str) -> None: ...
    async def set_active_stream(self, thread_id: str, run_id: str | None) -> None: ...
    async def owner_of_thread(self, thread_id: str) -> str | None: ...
    async def owner_of_tool_call(self, tool_call_id: str) -> str | None: ...
    async def run_for_tool_call(self, tool_call_id: str) -> str | None: ...
    async def owner_of_active_stream(self, run_id: str) -> str | None: ...
    async def append_message(self, thread_id: str, message: ChatMessage) -> str:
        """Store a message; its id (the one it brings, or a new one)."""
        ...

    async def set_message_tool_results(self, message_id: str, results: Sequence[Mapping[str, Any]]) -> None: ...
    async def truncate_from(self, thread_id: str, message_id: str) -> None:
        """Delete that message and all after it."""
        ...

    async def record_tool_call(self, row: ToolCallRow) -> None: ...
    async def update_tool_call(self, tool_call_id: str, changes: Mapping[str, Any]) -> None:
        """Change a row: names of `ToolCallRow`, in snake_case."""
        ...

    async def record_usage(self, row: UsageRow) -> None: ...
    async def quota_today(self, actor: Actor, day: str) -> Mapping[str, float]:
        """`{"usedTokens", "costUsd"}` of a day; the cost is 0 if none was reported."""
        ...
