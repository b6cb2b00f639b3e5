"""What model services say on the wire: OpenAI's chat completions and Responses, and Anthropic's messages, whole and streamed.

Pure functions: a `Reply` becomes a JSON body, or the events of a stream. `ProtocolServer` sends them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Event", "Reply", "body_of", "events_of", "words_of"]

Event = tuple[str, dict[str, Any]]
"""The name of a server-sent event (empty for none), and its data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the server answers once.

    Attributes:
        text: what the model says.
        tools: `(name, input)` pairs: the tools it asks for; their ids are `call-<n>`. An input that is a text is sent as it is,
            so that it may be broken JSON.
        reasoning: what it thinks aloud.
        refusal: why it refuses; nothing else is said then.
        finish: `stop`, `tool-calls`, `length` or `content-filter`; None: what follows from the rest. In a stream of chat
            completions an empty text leaves the reason out.
        usage: `inputTokens` (with those of the cache), `outputTokens`, `cacheReadTokens`, `cacheWriteTokens`, `reasoningTokens`;
            None: the server says nothing about it.
        cost: US dollars, as OpenRouter reports them.
        model: the model's name; None: the one that was asked for.
        status: of HTTP. One of 400 and more sends an error of the protocol with `message`.
        message: of the error.
        headers: sent beside the usual ones.
        body: sent instead of everything above, as it is.
        content_type: of `body`.
        cut_after: the connection is cut after so many events of the stream.
        hold: before the event with number `hold_at` (from 0) the server waits until this is set, or until the client is gone.
        hold_at: see `hold`.
        error_in_stream: an error that is sent as the last event of a stream.
    """

    text: str = ""
    tools: Sequence[tuple[str, Any]] = ()
    reasoning: str = ""
    refusal: str = ""
    finish: str | None = None
    usage: Mapping[str, int] | None = field(default_factory=lambda: {"inputTokens": 12, "outputTokens": 5})
    cost: float | None = None
    model: str | None = None
    status: int = 200
    message: str = "It failed."
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str | None = None
    content_type: str = "application/json"
    cut_after: int | None = None
    hold: threading.Event | None = None
    hold_at: int = 0
    error_in_stream: str = ""

    @property
    def reason(self) -> str:
        """Why it ends."""
        return self.finish if self.finish is not None else "tool-calls" if self.tools else "stop"


def words_of(text: str) -> list[str]:
    """A text in the pieces in which it is streamed: a word, with the space after it."""
    pieces = text.split(" ")
    return [f"{piece} " for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def body_of(protocol: str, reply: Reply, model: str) -> dict[str, Any]:
    """The whole answer: `protocol` is `chat`, `responses` or `messages`."""
    if reply.status >= 400:
        return _error(protocol, reply)
    model = reply.model or model
    return {"chat": _chat_body, "responses": _responses_body, "messages": _messages_body}[protocol](reply, model)


def events_of(protocol: str, reply: Reply, model: str) -> Iterator[Event]:
    """The answer, piece by piece."""
    model = reply.model or model
    yield from {"chat": _chat_events, "responses": _responses_events, "messages": _messages_events}[protocol](reply, model)


def _error(protocol: str, reply: Reply) -> dict[str, Any]:
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(reply.status, "api_error" if reply.status >= 500 else "invalid_request_error")
    if protocol == "messages":
        return {"type": "error", "error": {"type": kind, "message": reply.message}}
    return {"error": {"message": reply.message, "type": kind, "code": None, "param": None}}


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _without_none(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


# -- OpenAI: chat completions --------------------------------------------------------------------------

_CHAT_REASON = {"tool-calls": "tool_calls", "content-filter": "content_filter"}


def _chat_usage(reply: Reply) -> dict[str, Any] | None:
    told = reply.usage
    if told is None:
        return None
    asked, said = told.get("inputTokens", 0), told.get("outputTokens", 0)
    usage: dict[str, Any] = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    if "cacheReadTokens" in told:
        usage["prompt_tokens_details"] = {"cached_tokens": told["cacheReadTokens"]}
    if "reasoningTokens" in told:
        usage["completion_tokens_details"] = {"reasoning_tokens": told["reasoningTokens"]}
    return usage | ({} if reply.cost is None else {"cost": reply.cost})


def _chat_calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": _arguments(given)}}
        for number, (name, given) in enumerate(reply.tools)
    ]


def _chat_body(reply: Reply, model: str) -> dict[str, Any]:
    message = _without_none(
        {
            "role": "assistant",
            "content": reply.text or None,
            "refusal": reply.refusal or None,
            "reasoning_content": reply.reasoning or None,
            "tool_calls": _chat_calls(reply) or None,
        }
    )
    choice = {"index": 0, "message": message, "finish_reason": _CHAT_REASON.get(reply.reason, reply.reason)}
    body = {"id": "chat-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
    return _without_none({**body, "usage": _chat_usage(reply)})


def _chat_events(reply: Reply, model: str) -> Iterator[Event]:
    head = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Event:
        return "", {**head, "choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for word in words_of(reply.reasoning):
        yield chunk({"reasoning_content": word})
    for word in words_of(reply.refusal):
        yield chunk({"refusal": word})
    for word in words_of(reply.text):
        yield chunk({"content": word})
    for number, call in enumerate(_chat_calls(reply)):
        arguments = call["function"]["arguments"]
        named = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": number, "id": call["id"], "type": "function", "function": named}]})
        for piece in words_of(arguments):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    if reply.error_in_stream:
        yield "", {"error": {"message": reply.error_in_stream, "type": "server_error", "code": None}}
        return
    if reply.reason:
        yield chunk({}, _CHAT_REASON.get(reply.reason, reply.reason))
    if (usage := _chat_usage(reply)) is not None:
        yield "", {**head, "choices": [], "usage": usage}


# -- OpenAI: Responses ---------------------------------------------------------------------------------


def _responses_usage(reply: Reply) -> dict[str, Any] | None:
    told = reply.usage
    if told is None:
        return None
    asked, said = told.get("inputTokens", 0), told.get("outputTokens", 0)
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": told.get("cacheReadTokens", 0)},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": told.get("reasoningTokens", 0)},
        "total_tokens": asked + said,
    }


def _responses_items(reply: Reply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.reasoning:
        items.append({"id": "rs-1", "type": "reasoning", "summary": [{"type": "summary_text", "text": reply.reasoning}]})
    said: list[dict[str, Any]] = []
    if reply.refusal:
        said.append({"type": "refusal", "refusal": reply.refusal})
    elif reply.text:
        said.append({"type": "output_text", "text": reply.text, "annotations": []})
    if said:
        items.append({"id": "msg-1", "type": "message", "role": "assistant", "status": "completed", "content": said})
    for number, (name, given) in enumerate(reply.tools):
        call = {"call_id": f"call-{number}", "name": name, "arguments": _arguments(given)}
        items.append({"id": f"fc-{number}", "type": "function_call", "status": "completed", **call})
    return items


def _responses_body(reply: Reply, model: str, *, begun: bool = False) -> dict[str, Any]:
    broken = {"length": "max_output_tokens", "content-filter": "content_filter"}.get(reply.reason)
    status = "in_progress" if begun else "incomplete" if broken else "completed"
    return {
        "id": "resp-1",
        "object": "response",
        "created_at": 1,
        "model": model,
        "status": status,
        "output": [] if begun else _responses_items(reply),
        "incomplete_details": {"reason": broken} if broken and not begun else None,
        "usage": None if begun else _responses_usage(reply),
        "error": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _responses_events(reply: Reply, model: str) -> Iterator[Event]:
    number = 0

    def event(kind: str, **data: Any) -> Event:
        nonlocal number
        number += 1
        return kind, {"type": kind, "sequence_number": number - 1, **data}

    yield event("response.created", response=_responses_body(reply, model, begun=True))
    for index, item in enumerate(_responses_items(reply)):
        yield from _item_events(event, index, item)
    if reply.error_in_stream:
        yield event("error", code="server_error", message=reply.error_in_stream, param=None)
        return
    whole = _responses_body(reply, model)
    yield event(f"response.{whole['status']}", response=whole)


def _item_events(event: Any, index: int, item: Mapping[str, Any]) -> Iterator[Event]:
    at = {"output_index": index, "item_id": item["id"]}
    if item["type"] == "reasoning":
        text = item["summary"][0]["text"]
        yield event("response.output_item.added", output_index=index, item={**item, "summary": []})
        part = {"summary_index": 0, **at}
        yield event("response.reasoning_summary_part.added", part={"type": "summary_text", "text": ""}, **part)
        for word in words_of(text):
            yield event("response.reasoning_summary_text.delta", delta=word, **part)
        yield event("response.reasoning_summary_text.done", text=text, **part)
        yield event("response.reasoning_summary_part.done", part={"type": "summary_text", "text": text}, **part)
    elif item["type"] == "message":
        said = item["content"][0]
        kind, text = ("refusal", said["refusal"]) if said["type"] == "refusal" else ("output_text", said["text"])
        empty = {"type": "refusal", "refusal": ""} if kind == "refusal" else {**said, "text": ""}
        part = {"content_index": 0, **at}
        more: dict[str, Any] = {} if kind == "refusal" else {"logprobs": []}
        yield event("response.output_item.added", output_index=index, item={**item, "content": [], "status": "in_progress"})
        yield event("response.content_part.added", part=empty, **part)
        for word in words_of(text):
            yield event(f"response.{kind}.delta", delta=word, **part, **more)
        yield event(f"response.{kind}.done", **{"refusal" if kind == "refusal" else "text": text}, **part, **more)
        yield event("response.content_part.done", part=said, **part)
    else:
        yield event("response.output_item.added", output_index=index, item={**item, "arguments": "", "status": "in_progress"})
        for piece in words_of(item["arguments"]):
            yield event("response.function_call_arguments.delta", delta=piece, **at)
        yield event("response.function_call_arguments.done", arguments=item["arguments"], name=item["name"], **at)
    yield event("response.output_item.done", output_index=index, item=dict(item))


# -- Anthropic: messages -------------------------------------------------------------------------------

_MESSAGES_REASON = {"stop": "end_turn", "tool-calls": "tool_use", "length": "max_tokens", "content-filter": "refusal"}


def _messages_usage(reply: Reply) -> dict[str, Any]:
    told = reply.usage or {}
    read, written = told.get("cacheReadTokens", 0), told.get("cacheWriteTokens", 0)
    usage = {"input_tokens": told.get("inputTokens", 0) - read - written, "output_tokens": told.get("outputTokens", 0)}
    return usage | {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}


def _messages_blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.reasoning:
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": "signed"})
    if reply.text or reply.refusal:
        blocks.append({"type": "text", "text": reply.text or reply.refusal})
    for number, (name, given) in enumerate(reply.tools):
        blocks.append({"type": "tool_use", "id": f"call-{number}", "name": name, "input": given})
    return blocks


def _messages_body(reply: Reply, model: str) -> dict[str, Any]:
    reason = "refusal" if reply.refusal else _MESSAGES_REASON.get(reply.reason, reply.reason)
    return {
        "id": "msg-1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _messages_blocks(reply),
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": _messages_usage(reply),
    }


def _messages_events(reply: Reply, model: str) -> Iterator[Event]:
    whole = _messages_body(reply, model)
    usage = whole["usage"]
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": begun}
    for index, block in enumerate(whole["content"]):
        yield from _block_events(index, block)
    if reply.error_in_stream:
        yield "error", {"type": "error", "error": {"type": "overloaded_error", "message": reply.error_in_stream}}
        return
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output_tokens"]}}
    yield "message_stop", {"type": "message_stop"}


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[Event]:
    kind = block["type"]
    hollow: dict[str, dict[str, Any]] = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}}
    empty = hollow.get(kind, {"input": {}})
    yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
    deltas: list[dict[str, Any]]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": word} for word in words_of(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif kind == "text":
        deltas = [{"type": "text_delta", "text": word} for word in words_of(block["text"])]
    else:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in words_of(_arguments(block["input"]))]
    for delta in deltas:
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": index}
