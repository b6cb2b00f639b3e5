"""What a turn is given and gives, and what its runner supplies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from loomnb.agents.prompting import HistoryPolicy
from loomnb.agents.shapes import MaybeAwaitable
from loomnb.agents.tool_types import Actor, Decision, ToolContext
from loomnb.runtime import SinkWriter

__all__ = [
    "AgentDefinition",
    "AgentTurnInput",
    "AgentTurnResult",
    "LoopHooks",
    "Persona",
    "PromptContext",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptContext:
    """What a prompt builder and the contributors may look at."""

    actor: Actor
    thread_id: str
    run_id: str
    agent_name: str
    persona: Mapping[str, Any] | None = None
    """`{"id", "label"}`."""
    base_prompt: str = ""
    page_context: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """A named variant of an agent. A flat `system_prompt` replaces the base; a builder receives it as `ctx.base_prompt`."""

    id: str
    label: str = ""
    description: str = ""
    system_prompt: str | Callable[[PromptContext], MaybeAwaitable[str]] | None = None
    allowed_tools: Sequence[str] | None = None
    aliases: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """What an AgentRegistry knows of an agent."""

    name: str
    description: str = ""
    system_prompt: str | Callable[[PromptContext], MaybeAwaitable[str]] = ""
    tools: Sequence[str] | None = None
    delegates_to: Sequence[str] = ()
    model_id: str | None = None
    max_steps: int | None = None
    max_delegation_depth: int | None = None
    max_agent_appearances: int | None = None
    history: HistoryPolicy | None = None
    output_schema: Any = None
    output_repair_attempts: int | None = None
    intake: Mapping[str, Any] | None = None
    ask: bool = False
    personas: Sequence[Persona] = ()
    default_persona: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnInput:
    """What one turn is about. `regenerate`: the last user message is answered anew, and `user_text` is ignored."""

    thread_id: str
    actor: Actor
    user_text: str = ""
    attachments: Sequence[Mapping[str, Any]] | None = None
    page_context: Any = None
    ui_capabilities: Mapping[str, Any] | None = None
    day: str | None = None
    agent_name: str | None = None
    persona: str | None = None
    delegation_depth: int = 0
    delegation_path: Sequence[str] = ()
    sink_run_id: str | None = None
    deliver_to: Mapping[str, str] | None = None
    parent_run_id: str | None = None
    regenerate: bool = False
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnResult:
    """What a turn came to. `object` only with an output schema."""

    text: str
    object: Any = None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    cost_usd: float | None = None
    steps: int = 0
    stopped_by: str = ""
    """Why it ended before the model was done: `max_steps`, `length`, `terminal`, or empty."""


class LoopHooks(Protocol):
    """What a runner supplies. The methods below are required; the loop looks for these others, and does without them.

    `await_answers(request, ctx)` → AnswersReply, `run_agent(name, task)` → `{"text"}`, `start_agent(agent_name, task,
    tool_call_id)` → `{"runId"}`, `dispatch_llm(step, request)`, `dispatch_tool(call)`, `is_control_flow_error(exc)`,
    `parallel(tasks)` (starts all in order, waits for all, gives `(value, error)` in order, never raises), `cancelled()` (asked
    inside a checkpoint only), `patched(id)` (absent: true), `abort_signal`.
    """

    @property
    def run_id(self) -> str: ...
    def open_sink(self) -> MaybeAwaitable[SinkWriter]: ...
    async def step(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        """A checkpoint: what `fn` gives, or what is on record of it. JSON."""
        ...

    async def await_approval(self, call: Mapping[str, Any], ctx: ToolContext, *, timeout_ms: float | None = None) -> Decision:
        """Wait for a person. A time-out is a decision (`expired`), not an error."""
        ...
