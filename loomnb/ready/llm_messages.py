"""Messages of a conversation: from documents and arguments to what a provider is told, and from its turn back to a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from loomnb.agents import storable
from loomnb.documents import DocumentEntity, StopReason
from loomnb.jsonvalue import thaw
from loomnb.runtime import TurnResult

__all__ = ["LlmMessage", "calls_of", "message_of", "of_documents", "told"]


class LlmMessage(BaseModel):
    """A message: `{"role", "text"?, "blocks"?, "id"?, "stopReason"?}`, or `{"role", "content"}` with a text or blocks.

    A saved `LlmMessageDocument` is one too.
    """

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    role: Literal["user", "assistant"]
    text: str | None = None
    blocks: list[dict[str, Any]] | None = None
    id: str | None = None
    stop_reason: StopReason | None = Field(default=None, alias="stopReason")

    @model_validator(mode="before")
    @classmethod
    def _of_content(cls, data: Any) -> Any:
        if isinstance(data, BaseModel):
            data = data.model_dump()
        if not isinstance(data, Mapping) or data.get("content") is None:
            return data
        content = data["content"]
        given = {name: value for name, value in data.items() if name != "content"}
        name = "text" if isinstance(content, str) else "blocks"  # anything else is refused under the name of blocks
        return {**given, name: content} if given.get(name) is None else given

    def said(self) -> str:
        """Its text; where it has none of its own, that of its blocks, joined by newlines."""
        return self.text if self.text is not None else _text_of(self.blocks or ())

    def dump(self) -> dict[str, Any]:
        """Its JSON; what is not known is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _text_of(blocks: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(str(b.get("text", "")) for b in blocks if b.get("type") == "text")


def calls_of(message: LlmMessage) -> list[dict[str, Any]]:
    """The tool calls of a message: `{"id", "name", "args"}` each, in order."""
    return [b for b in message.blocks or () if b.get("type") == "tool_call"]


# -- towards the model ----------------------------------------------------------------------------


def of_documents(entities: Iterable[DocumentEntity], provider: str) -> list[tuple[LlmMessage, Any]]:
    """The messages among documents, each with what the same provider gave natively for it, if anything.

    Raises:
        pydantic.ValidationError: a document with the tag is no message.
    """
    found: list[tuple[LlmMessage, Any]] = []
    for entity in entities:
        meta = entity.meta or {}
        # What another vendor's model gave natively means nothing to this one: its text and calls do.
        native = thaw(meta.get("response")) if meta.get("provider") == provider else None
        found.append((LlmMessage.model_validate(thaw(entity.content)), native))
    return found


def told(messages: Iterable[tuple[LlmMessage, Any]]) -> list[dict[str, Any]]:
    """Messages as a `TurnRequest` has them; a message that begins with the result of a tool becomes a message for each."""
    names: dict[str, str] = {}
    return [one for message, native in messages for one in _told(message, native, names)]


def _told(message: LlmMessage, native: Any, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    blocks = message.blocks or []
    if message.role == "assistant":
        out: dict[str, Any] = {"role": "assistant", "content": message.said()}
        calls = calls_of(message)
        if calls:
            names.update({str(call.get("id")): str(call.get("name")) for call in calls})
            out["toolCalls"] = [{"id": c.get("id"), "name": c.get("name"), "input": c.get("args")} for c in calls]
        yield out | ({"native": native} if native is not None else {})
        return
    is_results = bool(blocks) and blocks[0].get("type") == "tool_result"
    for block in blocks if is_results else ():
        if block.get("type") == "tool_result":
            answered = str(block.get("toolCallId"))
            one = {"role": "tool", "toolCallId": answered, "name": names.get(answered, ""), "content": block.get("content", "")}
            yield one | ({"isError": True} if block.get("isError") else {})
    said = message.said()
    if said or not is_results:
        yield {"role": "user", "content": said}


# -- back from it ---------------------------------------------------------------------------------

_STOPS: Mapping[str, StopReason] = {
    "stop": "end_turn",
    "tool-calls": "tool_use",
    "length": "max_tokens",
    "stop-sequence": "stop_sequence",
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
}


def message_of(turn: TurnResult, id: str) -> LlmMessage:  # noqa: A002  # the contract's word
    """The message a turn gave. Why it ended is None where the provider's word for it is not known."""
    texts = [{"type": "text", "text": turn.text}] if turn.text else []
    thoughts = [{"type": "thinking", "text": turn.reasoning}] if turn.reasoning else []
    calls = [
        {"type": "tool_call", "id": call_id, "name": call.name, "args": thaw(storable(call.input))}
        for call, call_id in zip(turn.tool_calls, _ids(turn), strict=True)
    ]
    stop = _STOPS.get(turn.finish_reason)
    if calls and stop == "end_turn":  # some servers say that they stopped when they stopped for tools
        stop = "tool_use"
    blocks = [*thoughts, *texts, *calls]
    return LlmMessage(role="assistant", id=id, text=turn.text, blocks=blocks or None, stopReason=stop)


def _ids(turn: TurnResult) -> Sequence[str]:
    """An id for each call. Results are matched by it, and some servers give none, or one twice."""
    ids: list[str] = []
    for number, call in enumerate(turn.tool_calls, 1):
        given = call.id or f"call-{number}"
        ids.append(f"{given}-{number}" if given in ids else given)
    return ids
