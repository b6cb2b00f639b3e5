"""What both halves of a turn's work share: the run, its stream, and how JSON goes in and out."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from loomnb.agents.deps import LoopDeps
from loomnb.agents.diagnostics import publish
from loomnb.agents.frames import DiscardWriter, FrameReader, decode_stream_event, frame, frame_lines
from loomnb.agents.spi import AgentTurnInput, ChatMessage, LoopHooks, ProcessorContext, ToolScope, optional, settled
from loomnb.agents.tracing import AgentSpan, turn_span
from loomnb.agents.words import storable
from loomnb.errors import NotFound
from loomnb.jsonvalue import dumps, freeze, thaw
from loomnb.runtime import SinkWriter

__all__ = ["Announcing", "WorkBase", "for_model", "hash_of", "is_marked", "jsonable", "outcome_of", "pushed", "shown_kind"]

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


def is_marked(journaled: Any) -> bool:
    """Whether it is what `pushed` gives, or looks like it."""
    return isinstance(journaled, dict) and set(cast("dict[str, Any]", journaled)) == {_TOOL}


def outcome_of(journaled: Any) -> dict[str, Any]:
    """`{"output", "ui"?, "text"?}` or `{"error", "denied"?, "interrupted"?}` of what a tool's checkpoint recorded."""
    if is_marked(journaled):
        return dict(journaled[_TOOL])
    return {"output": journaled}


_TOLD = ("role", "content", "toolCalls", "toolResults", "attachments", "native")
_ASKED = ("id", "name", "input")
_EDITED = "A person changed the arguments of this call before it ran; what came of it is of theirs."


def for_model(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without what is the store's business. Edited arguments are told with the result they led to."""
    out = {name: message[name] for name in _TOLD if message.get(name) is not None}
    if out.get("toolCalls"):
        out["toolCalls"] = [{name: call.get(name) for name in _ASKED} for call in out["toolCalls"]]
    if out.get("toolResults"):
        out["toolResults"] = [_edited(result) for result in out["toolResults"]]
    return out


def _edited(result: Mapping[str, Any]) -> dict[str, Any]:
    if "editedInput" not in result:
        return dict(result)
    kept = {name: value for name, value in result.items() if name != "editedInput"}
    if kept.get("error") is not None:
        return {**kept, "error": f"{_EDITED} Theirs: {dumps(result['editedInput'])}\n{kept['error']}"}
    return {**kept, "output": {"note": _EDITED, "input": result["editedInput"], "output": result.get("output")}}


class Announcing(FrameReader):
    """Reads along what a provider writes of its turn, puts right what it cannot know of calls, and notes what is missing.

    A provider knows neither the kind of a tool nor the ids that the thread has already: a call whose id is taken gets one of its
    own, in its frames and in the turn's result (`id_of`).

    Args:
        inner: what it writes to.
        monotonic: the clock, in seconds.
        kinds: tool → its kind, as offered.
        taken: the ids that are used up; those of this turn are added.
        own: n → an id that nobody else has.
    """

    def __init__(
        self,
        inner: SinkWriter,
        monotonic: Callable[[], float],
        kinds: Mapping[str, str],
        taken: set[str],
        own: Callable[[int], str],
    ) -> None:
        super().__init__(inner, monotonic)
        self._kinds = kinds
        self._taken = taken
        self._own = own
        self._given: dict[str, list[str]] = {}
        """The provider's id → the ids of the calls that have it, in their order."""
        self._told: dict[str, int] = {}
        self._made = 0
        self.announced: set[str] = set()
        """Calls whose input a reader has seen whole."""
        self.wrote_text = False

    async def write(self, line: str) -> None:
        """Hand it on, put right, and note what it says."""
        for one in frame_lines(line):
            event = decode_stream_event(one)
            kind = event["kind"] if event is not None else ""
            if event is not None and kind.startswith("tool-input-") and isinstance(event.get("id"), str):
                await super().write(self._put_right(event))
            else:
                self.wrote_text = self.wrote_text or kind == "text"
                await super().write(one)

    async def write_own(self, line: str) -> None:
        """Hand on a frame of ours, as it is."""
        await super().write(line)

    def _put_right(self, event: dict[str, Any]) -> str:
        call_id: str = event["id"]
        given = self._given.get(call_id, [])
        is_another = event["kind"] == "tool-input-start" or (
            event["kind"] == "tool-input-available" and bool(given) and given[-1] in self.announced
        )
        event["id"] = self._begin(call_id) if is_another or not given else given[-1]
        if event["kind"] != "tool-input-delta":
            event["toolKind"] = shown_kind(self._kinds.get(str(event.get("name")), "read"))
        if event["kind"] == "tool-input-available":
            self.announced.add(event["id"])
        return json.dumps(event, separators=(",", ":"))

    def _begin(self, call_id: str) -> str:
        """The id of a call that nobody has heard of so far, as it will be stored: ids that are alike then would be one call."""
        mine: str = storable(call_id)
        if not mine or mine in self._taken:
            mine = self._own(self._made)
            self._made += 1
        self._taken.add(mine)
        self._given.setdefault(call_id, []).append(mine)
        return mine

    def id_of(self, call_id: str) -> str:
        """The id of the next call in the turn's result that the provider gives this one (it may be empty): that of its frames."""
        nth = self._told.get(call_id, 0)
        self._told[call_id] = nth + 1
        given = self._given.get(call_id, [])
        return given[nth] if nth < len(given) else self._begin(call_id)


def shown_kind(kind: str) -> str:
    """`read` or `action`: what streams and rows know of kinds."""
    return "action" if kind in ("action", "ask") else "read"


class WorkBase:
    """One turn's work: what it is about, who runs it, and where it is written while it happens."""

    def __init__(self, deps: LoopDeps, given: AgentTurnInput, hooks: LoopHooks) -> None:
        self.deps = deps
        self.given = given
        self.hooks = hooks
        self.run_id = hooks.run_id
        self.writer: SinkWriter = DiscardWriter()
        self.persona: Mapping[str, Any] | None = None
        self.took: dict[str, float] = {}
        """Call → milliseconds its tool took, of those that ran here."""
        self._traced: AgentSpan | None = None

    def traced(self) -> AgentSpan:
        """The OpenTelemetry span of this turn. Begun with the first thing that is really done, so that a replay makes none."""
        if self._traced is None:
            asked = self.given.model or self.deps.model_id
            self._traced = turn_span(agent=self.agent_name, thread_id=self.given.thread_id, run_id=self.run_id, model=asked)
        return self._traced

    def end_trace(self, error: BaseException | None) -> None:
        """The turn is over, well or with an error; its span is, too."""
        if self._traced is not None:
            self._traced.__exit__(type(error) if error is not None else None, error, None)

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

    async def adopt(self, persona: Mapping[str, Any] | None) -> None:
        """Take on a persona, as it was resolved when the turn began."""
        self.persona = persona

    async def keep(self, value: Any) -> Any:
        """A decision, kept as it was made."""
        return value

    async def frame(self, fields: Mapping[str, Any]) -> None:
        """Write a frame."""
        await self.writer.write(frame(**fields))

    def who(self) -> dict[str, Any]:
        """Which run of which thread, for those who watch."""
        return {"runId": self.run_id, "threadId": self.given.thread_id}

    async def say(self, message: ChatMessage) -> str:
        """Store a message of this run."""
        message = dataclasses.replace(message, run_id=self.run_id, persona=self.persona["id"] if self.persona else None)
        message_id = await self.deps.store.append_message(self.given.thread_id, message)
        publish("message", {**self.who(), "role": message.role, "textLength": len(message.content)}, self.run_id)
        return message_id

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

    async def change_call(
        self, call_id: str, changes: Mapping[str, Any], *, thread_id: str | None = None, run_id: str | None = None
    ) -> None:
        """Change the row of a call: of this run, unless another thread is named, and with it the run (None: it is not known)."""
        place = (self.given.thread_id, self.run_id) if thread_id is None else (thread_id, run_id)
        update = optional(self.deps.store, "update_call_of_run")
        if update is None:
            await self.deps.store.update_tool_call(call_id, changes)
        elif not (await settled(update(*place, call_id, changes)) or await settled(update(place[0], None, call_id, changes))):
            raise NotFound(f"There is no tool call {call_id!r} in the thread {place[0]!r}.")

    def messages_of(self, stored: Sequence[Mapping[str, Any]]) -> list[ChatMessage]:
        """Messages of their JSON."""
        return [ChatMessage.from_json(message) for message in stored]


def hash_of(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
