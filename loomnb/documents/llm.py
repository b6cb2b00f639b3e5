"""The messages of a conversation with a model, as documents: what people see of it, and what the next prompt is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from loomnb.documents.types import document

__all__ = ["LlmContextDocument", "LlmMessageDocument", "StopReason"]

StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence"]
"""Why a model ended its turn; a reason that is none of these is left out."""


class _Said(BaseModel):
    # Other keys are dropped, not refused: messages come from models and from other programs.
    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    role: Literal["user", "assistant"]
    text: str | None = None

    @model_serializer(mode="wrap")
    def _given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


@document(tags=("message",), widget={"widget": "llm-message"})
class LlmMessageDocument(_Said):
    """A message to or from a model. `llm_generate_text` sends those of its run, in order.

    Attributes:
        role: whose it is; the results of tools are a user's.
        text: Markdown; of several texts all, joined by newlines.
        id: the message's own.
        blocks: its parts, in order: `{"type": "text", "text"}`, `{"type": "thinking", "text"}`,
            `{"type": "tool_call", "id", "name", "args"}`, `{"type": "tool_result", "toolCallId", "content", "isError"}`.
        stop_reason: why the model ended its turn.

    What a provider gave natively is in the document's meta: `{"response", "provider"}`.
    """

    id: str | None = None
    blocks: list[Mapping[str, Any]] | None = None
    stop_reason: StopReason | None = Field(default=None, alias="stopReason")


@document(tags=("message",), internal=True)
class LlmContextDocument(_Said):
    """Something a model is told and people are not shown."""
