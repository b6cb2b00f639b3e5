"""What decides on what a model is told, and on what people read of it: history, processors, passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from loomnb.agents.messages import ChatMessage
from loomnb.agents.shapes import MaybeAwaitable
from loomnb.agents.tool_types import Actor

__all__ = [
    "HistoryContext",
    "HistoryPolicy",
    "HistorySelection",
    "HistorySummary",
    "InputProcessor",
    "OutputProcessor",
    "OutputVerdict",
    "ProcessorContext",
    "Prompt",
    "Retriever",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryContext:
    """What a history policy may look at beside the messages."""

    actor: Actor
    thread_id: str
    agent_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySelection:
    """What the model is told, and what not; both in their order."""

    keep: Sequence[ChatMessage]
    drop: Sequence[ChatMessage] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySummary:
    """What stands for the messages that were dropped."""

    text: str
    usage: Mapping[str, int] | None = None
    model_id: str | None = None
    cost_usd: float | None = None


class HistoryPolicy(Protocol):
    """What of a thread the model is told. `select` is pure. May have `max_messages` (a promise: it keeps only the newest of that
    number) and `summarize(dropped, ctx) -> HistorySummary`."""

    def select(self, messages: Sequence[ChatMessage], ctx: HistoryContext) -> HistorySelection: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorContext:
    """Where in a turn a processor works."""

    thread_id: str
    actor: Actor
    step: int
    agent_name: str | None = None
    persona: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is about to be told."""

    system: str
    messages: Sequence[ChatMessage]


class InputProcessor(Protocol):
    """Looks at, and may change, what a model is told, before every call. What is stored stays as it was."""

    @property
    def name(self) -> str: ...
    def process(self, prompt: Prompt, ctx: ProcessorContext) -> MaybeAwaitable[Prompt]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputVerdict:
    """What an output processor says: `pass`, `replace` with `text`, or `reject` with a `reason`."""

    action: Literal["pass", "replace", "reject"] = "pass"
    text: str = ""
    reason: str = ""


class OutputProcessor(Protocol):
    """Judges what a model said, before anybody reads it. May have `incremental`, a mapping with `lookbackChars` (default 64): it
    can judge a growing prefix of the text."""

    @property
    def name(self) -> str: ...
    def process(self, answer: Mapping[str, Any], ctx: ProcessorContext) -> MaybeAwaitable[OutputVerdict]:
        """The verdict on `{"text", "toolCalls"}`."""
        ...


class Retriever(Protocol):
    """Finds passages: `{"id"?, "text", "source"?, "score"?}`."""

    def retrieve(self, query: str, *, top_k: int) -> MaybeAwaitable[Sequence[Mapping[str, Any]]]: ...
