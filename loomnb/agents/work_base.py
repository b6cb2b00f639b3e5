"""What both halves of a turn's work share: the run, its stream, and how JSON goes in and out."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from loomnb.agents.deps import LoopDeps
from loomnb.agents.frames import DiscardWriter, FrameReader, decode_stream_event, frame, frame_lines
from loomnb.agents.spi import AgentTurnInput, ChatMessage, LoopHooks, ProcessorContext, ToolScope, optional, settled
from loomnb.jsonvalue import freeze, thaw
from loomnb.runtime import SinkWriter

__all__ = ["WorkBase", "for_model", "jsonable", "outcome_of", "pushed"]

_TOOL = "$tool"
"""Marks a journaled tool result that is more than its bare output: pushed components, or a failure."""


def jsonable(value: Any, where: str = "value") -> Any:
    """A value as plain JSON, copied; models and dataclasses are dumped.

    Raises:
        NotJson: it holds something JSON cannot.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    elif isinstance(value, (list, tuple)):
        value = [jsonable(one, where) for one in value]
    return thaw(freeze(value, None, where))


def pushed(**outcome: Any) -> dict[str, Any]:
    """A tool's result with more than an output, as it is journaled."""
    return {_TOOL: outcome}


def outcome_of(journaled: Any) -> dict[str, Any]:
    """`{"output", "ui"?}` or `{"error", "denied"?, "interrupted"?}` of what a tool's checkpoint recorded."""
    if isinstance(journaled, dict) and set(journaled) == {_TOOL}:
        return dict(journaled[_TOOL])
    return {"output": journaled}


_TOLD = ("role", "content", "toolCalls", "toolResults", "attachments", "native")


def for_model(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without what is the store's business. Edited arguments are told with the result they led to."""
    out = {name: message[name] for name in _TOLD if message.get(name) is not None}
    results = out.get("toolResults")
    if results and any("editedInput" in result for result in results):
        out["toolResults"] = [_edited(result) for result in results]
    return out


def _edited(result: Mapping[str, Any]) -> dict[str, Any]:
    if "editedInput" not in result:
        return dict(result)
    kept = {name: value for name, value in result.items() if name != "editedInput"}
    note = "A person changed the arguments before it ran; the result is of these."
    return {**kept, "output": {"note": note, "input": result["editedInput"], "output": result.get("output")}}


class Watching(FrameReader):
    """Reads along what a provider writes, so that the loop adds only what is missing."""

    def __init__(self, inner: SinkWriter, monotonic: Callable[[], float]) -> None:
        super().__init__(inner, monotonic)
        self.announced: set[str] = set()
        """Calls whose input a reader has seen whole."""
        self.wrote_text = False

    async def write(self, line: str) -> None:
        """Hand it on, and note what it says."""
        for one in frame_lines(line):
            if '"text"' in one:
                self.wrote_text = self.wrote_text or (decode_stream_event(one) or {}).get("kind") == "text"
            if "tool-input-available" in one:
                event = decode_stream_event(one) or {}
                if event.get("kind") == "tool-input-available":
                    self.announced.add(str(event.get("id")))
        await super().write(line)


class WorkBase:
    """One turn's work: what it is about, who runs it, and where it is written while it happens."""

    def __init__(self, deps: LoopDeps, given: AgentTurnInput, hooks: LoopHooks) -> None:
        self.deps = deps
        self.given = given
        self.hooks = hooks
        self.run_id = hooks.run_id
        self.writer: SinkWriter = DiscardWriter()
        self.persona: Mapping[str, Any] | None = None

    @property
    def agent_name(self) -> str:
        """The agent's name; `default` when none was named."""
        return self.given.agent_name or "default"

    async def open_stream(self) -> None:
        """Open the run's stream."""
        self.writer = await settled(self.hooks.open_sink())

    async def close_stream(self) -> None:
        """End the run's stream."""
        await self.writer.end()

    async def keep(self, value: Any) -> Any:
        """A decision, kept as it was made."""
        return value

    async def frame(self, fields: Mapping[str, Any]) -> None:
        """Write a frame."""
        await self.writer.write(frame(**fields))

    def processor_context(self, step: int) -> ProcessorContext:
        """Where a processor works."""
        return ProcessorContext(
            thread_id=self.given.thread_id,
            actor=self.given.actor,
            step=step,
            agent_name=self.given.agent_name,
            persona=self.persona["id"] if self.persona else None,
        )

    def scope(self) -> ToolScope:
        """For whom tools are offered."""
        return ToolScope(
            actor=self.given.actor,
            thread_id=self.given.thread_id,
            agent_name=self.given.agent_name,
            persona=self.persona["id"] if self.persona else None,
            ui_capabilities=self.given.ui_capabilities,
            page_context=self.given.page_context,
        )

    def allow_list(self) -> Sequence[str] | None:
        """Which tools this turn may use: the agent's, less what its persona may not."""
        mine, persona = self.deps.tool_allow_list, (self.persona or {}).get("allowedTools")
        if mine is None or persona is None:
            return persona if mine is None else mine
        return [name for name in mine if name in persona]

    async def store_optional(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method that a store may lack; None without it."""
        method = optional(self.deps.store, name)
        return await settled(method(*args, **kwargs)) if method is not None else None

    def messages_of(self, stored: Sequence[Mapping[str, Any]]) -> list[ChatMessage]:
        """Messages of their JSON."""
        return [ChatMessage.from_json(message) for message in stored]


def hash_of(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
