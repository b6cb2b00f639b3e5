"""How the engine reaches a model: one turn at a time, which never runs a tool itself. And which model plays which role.

A provider is an object with `run_turn`. The default adapters come with agents; `loomnb.testing.ScriptedModel` is one too.
Rule: contracts/agents.md §1 (ModelProvider), contracts/blueprints.md §1.4 (roles).
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from loomnb.jsonvalue import Json
from loomnb.runtime.signal import AbortSignal

__all__ = [
    "MODELS",
    "ModelProvider",
    "ModelTool",
    "SinkWriter",
    "ToolRequest",
    "TurnRequest",
    "TurnResult",
    "model_of",
    "use_models",
]


class SinkWriter(Protocol):
    """Where a turn is written while it happens: lines of JSON, each an object with a `kind` (contracts/agents.md §6.1)."""

    async def write(self, line: str) -> None:
        """One frame, or several lines of them."""
        ...

    async def end(self) -> None:
        """Nothing more will come."""
        ...

    async def fail(self, failure: Mapping[str, str]) -> None:
        """It ended with a failure: `{"code", "message"}`."""
        ...

    async def flush(self) -> None:
        """Hand on what is held back to save messages."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTool:
    """A tool as a model is told of it; the schemas are JSON Schema, draft 7."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What one turn of a model is given.

    Attributes:
        system: its instructions.
        messages: what was said so far: `{"role": "user", "content": text}`, `{"role": "assistant", "content": text, "toolCalls":
            [{"id", "name", "input"}], "toolResults": [{"id", "name", "output", "error"?, "denied"?}]}`, or each result as a
            message of its own: `{"role": "tool", "toolCallId", "name", "content", "isError"?}`;
            `{"role": "system", "content": text}` for a summary of what went before. A user's attachments:
            `"attachments": [{"name", "mediaType", "data" (base64) | "url"}]`.
        tools: what it may ask for.
        role: which role it plays (`reasoning`, `coding`, `review`).
        output_schema: JSON Schema (draft 7) of what it has to end with; None for free text.
        signal: aborted when nobody waits for the turn any more.
        sink: where it is written while it happens; None where nobody looks.
        model: which model, where the provider knows several; None for its own.
        tool_choice: `auto`, `none`, `required`, or the name of the tool that it has to ask for.
        settings: what the provider takes beside: `temperature`, `max_tokens`, …
    """

    system: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[ModelTool] = ()
    role: str = ""
    output_schema: Mapping[str, Any] | None = None
    signal: AbortSignal = field(default_factory=AbortSignal)
    sink: SinkWriter | None = None
    model: str | None = None
    tool_choice: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A tool the model asks for."""

    id: str
    name: str
    input: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """What one turn gave.

    Attributes:
        text: what it said.
        tool_calls: what it asks for; none when it is done.
        finish_reason: `stop`, `tool-calls`, `length` when it was cut off, or another word of the provider's.
        object: its output, where the provider parsed it.
        usage: tokens: `inputTokens` (with those that were read from or written to a cache), `outputTokens` (with those of
            reasoning), `cacheReadTokens`, `cacheWriteTokens`, `reasoningTokens`; what is unknown is left out.
        model_id: which model it was.
        cost_usd: what it cost, where the provider says so.
        reasoning: what it thought aloud; None: derived from the frames it wrote.
        reasoning_ms: how long it did; None: derived from the frames.
        ui: components it wrote itself: `{"id", "component", "props", "version"?, "fallbackText"?}`; None: from the frames.
        native: what the provider wants back when this message is told to it again: JSON.
    """

    text: str = ""
    tool_calls: Sequence[ToolRequest] = ()
    finish_reason: str = "stop"
    object: Json = None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    model_id: str = ""
    cost_usd: float | None = None
    reasoning: str | None = None
    reasoning_ms: int | None = None
    ui: Sequence[Mapping[str, Any]] | None = None
    native: Json = None


class ModelProvider(Protocol):
    """A model."""

    async def run_turn(self, request: TurnRequest) -> TurnResult:
        """Exactly one turn. It never runs a tool."""
        ...


Role = Literal["default", "reasoning", "coding", "review"]

MODELS: contextvars.ContextVar[Mapping[str, ModelProvider] | None] = contextvars.ContextVar("loom_models", default=None)
"""The models of the run that is at work in this context; None for those of the process."""

_PROCESS: dict[str, ModelProvider] = {}


def use_models(
    default: ModelProvider | None = None,
    *,
    reasoning: ModelProvider | None = None,
    coding: ModelProvider | None = None,
    review: ModelProvider | None = None,
) -> None:
    """Say which models play the agents of this process, in runs that say nothing else. Replaces what was said before.

    Args:
        default: for the roles that have none of their own.
        reasoning: for this role.
        coding: for this role.
        review: for this role.
    """
    given = {"default": default, "reasoning": reasoning, "coding": coding, "review": review}
    _PROCESS.clear()
    _PROCESS.update({role: model for role, model in given.items() if model is not None})


def model_of(role: str) -> ModelProvider | None:
    """The model of a role here; a role without one falls back to the default."""
    models = MODELS.get() or _PROCESS
    return models.get(role) or models.get("default")
