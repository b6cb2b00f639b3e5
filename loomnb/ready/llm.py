"""Tools that ask a model for one turn: its words and tool calls, or an object of a given shape.

A turn is not a row of its own. A transition whose kernel dies in the middle is made again from its beginning, with the same
`ctx.idempotency_key`, and so asks the model again: what it said before was not stored. Let a transition ask once, and let the
next one use the answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from loomnb.asks import Schema
from loomnb.documents import DocumentStore, LlmMessageDocument
from loomnb.errors import DefinitionError, Refused, SchemaValidationError, ToolFailed, fields_from_pydantic
from loomnb.ids import SYSTEM
from loomnb.jsonvalue import freeze, thaw
from loomnb.ready.llm_messages import LlmMessage, message_of, of_documents, told
from loomnb.ready.llm_providers import llm_provider
from loomnb.ready.llm_tools import told_tools
from loomnb.runtime import CURRENT, AbortSignal, RunContext, TurnRequest, TurnResult
from loomnb.tools import BaseTool, ToolCallOptions, ToolEnvelope, tool

__all__ = [
    "LlmGenerateObjectArgs",
    "LlmGenerateObjectConfig",
    "LlmGenerateObjectTool",
    "LlmGenerateTextArgs",
    "LlmGenerateTextConfig",
    "LlmGenerateTextTool",
]


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="forbid")


class LlmGenerateTextArgs(_Shape):
    """What the model is told: a `prompt`, or `messages`; without either the messages among the run's documents."""

    prompt: str | None = None
    messages: list[LlmMessage] | None = None


class LlmGenerateObjectArgs(LlmGenerateTextArgs):
    """The same, with the shape of the object: what pydantic's TypeAdapter takes, such as a model class."""

    output_schema: Any


class LlmGenerateObjectConfig(_Shape):
    """Which model, and how it is asked.

    Attributes:
        provider: a name given to `loom.register_llm_provider`; default: the model of `loom.use_models(...)`.
        system: its instructions.
        model: which of the provider's models; default: the provider's own.
        messages_search_tag: the tag of the documents that are told when the arguments have no messages.
        provider_config: settings for the provider (`temperature`, `max_tokens`, …), handed on as they are.
    """

    provider: str | None = None
    system: str | None = None
    model: str | None = None
    messages_search_tag: str = "message"
    provider_config: dict[str, Any] = Field(default_factory=dict[str, Any])


class LlmGenerateTextConfig(LlmGenerateObjectConfig):
    """The same, with tools and what becomes of the reply.

    Attributes:
        tools: the names of the tools the model may ask for.
        save: whether the reply becomes a document of the run, and so a part of the next prompt.
        meta: kept with that document, beside the native response and the provider.
    """

    tools: list[str] = []
    save: bool = True
    meta: dict[str, Any] | None = None


@tool(name="llm_generate_text", schema=LlmGenerateTextArgs, config_schema=LlmGenerateTextConfig)
class LlmGenerateTextTool(BaseTool[LlmGenerateTextArgs, LlmGenerateTextConfig, dict[str, Any]]):
    """Ask a model for one turn.

    `await self.llm.call({"prompt": "…"}, config={"tools": ["search"]})`. The data is `{"message", "response"}`: the message
    `{"id", "role", "text", "blocks"?, "stopReason"?}` and what the provider gave natively; the metadata is
    `{"provider", "model", "usage"?}`.
    The reply is saved as an `LlmMessageDocument` of the run (`save: false`: not); do not save it again, it would be told twice.
    It runs no tool: `llm_delegate_tool_calls` does. What the provider raises is raised. Made again after a crash, it asks again.
    """

    async def handle(
        self, args: LlmGenerateTextArgs, ctx: RunContext[Any], options: ToolCallOptions[LlmGenerateTextConfig]
    ) -> ToolEnvelope[Any, Any]:
        """One turn, saved."""
        config = options.config or LlmGenerateTextConfig()
        provider, turn = await _turn(self, args, config, tools=config.tools)
        attempt = CURRENT.get()
        message = message_of(turn, (attempt.record.source if attempt is not None else SYSTEM).new_id("msg"))
        response = thaw(freeze(turn.native, None, "the native response"))
        if config.save and attempt is not None:  # called in a cell there is no run to save it to
            meta = {"response": response, "provider": provider, **(config.meta or {})}
            self.document_store.save(LlmMessageDocument.model_validate(message.dump()), meta=meta)
        data = {"message": message.dump(), "response": response}
        return ToolEnvelope(data=data, metadata=_metadata(provider, config, turn))


@tool(name="llm_generate_object", schema=LlmGenerateObjectArgs, config_schema=LlmGenerateObjectConfig)
class LlmGenerateObjectTool(BaseTool[LlmGenerateObjectArgs, LlmGenerateObjectConfig, dict[str, Any]]):
    """Ask a model for an object of a given shape.

    `await self.llm.call({"prompt": "…", "outputSchema": Invoice})`. The data is `{"data", "response"}`: what the schema made
    of the model's output, and what the provider gave natively. Output that does not fit raises `SchemaValidationError`;
    nothing is asked again by itself (`retry_attempts=` of the transition does), and nothing is saved. Made again after a crash,
    it asks again.
    """

    async def handle(
        self, args: LlmGenerateObjectArgs, ctx: RunContext[Any], options: ToolCallOptions[LlmGenerateObjectConfig]
    ) -> ToolEnvelope[Any, Any]:
        """One turn, parsed."""
        config = options.config or LlmGenerateObjectConfig()
        schema = _schema_of(args.output_schema)
        provider, turn = await _turn(self, args, config, output_schema=schema.json_schema())
        data = {"data": _parsed(schema, turn), "response": thaw(freeze(turn.native, None, "the native response"))}
        return ToolEnvelope(data=data, metadata=_metadata(provider, config, turn))


async def _turn(
    by: BaseTool[Any, Any, Any],
    args: LlmGenerateTextArgs,
    config: LlmGenerateObjectConfig,
    *,
    tools: list[str] | None = None,
    output_schema: Mapping[str, Any] | None = None,
) -> tuple[str, TurnResult]:
    name, provider = llm_provider(config.provider)
    ours, of_provider = told_tools(tools or ())
    signal = AbortSignal()
    request = TurnRequest(
        system=config.system or "",
        messages=freeze(told(_conversation(by.document_store, args, config, name))),
        tools=tuple(ours),
        output_schema=output_schema,
        signal=signal,
        model=config.model,
        settings={**config.provider_config, **({"server_tools": of_provider} if of_provider else {})},
    )
    try:
        turn: Any = await provider.run_turn(request)
    except asyncio.CancelledError as exc:  # the transition timed out or was canceled
        signal.abort(exc)
        raise
    if not isinstance(turn, TurnResult):
        raise ToolFailed(f"The provider {name!r} gave a {type(turn).__name__}, not a TurnResult.", tool=by.name)
    return name, turn


def _conversation(
    store: DocumentStore, args: LlmGenerateTextArgs, config: LlmGenerateObjectConfig, provider: str
) -> list[tuple[LlmMessage, Any]]:
    """The first that is there: the prompt alone, the messages, the documents with the tag."""
    if args.prompt:
        return [(LlmMessage(role="user", text=args.prompt), None)]
    if args.messages:
        return [(message, None) for message in args.messages]
    tag = config.messages_search_tag
    try:
        return of_documents(store.find_by_tag(tag), provider)
    except ValidationError as exc:
        raise SchemaValidationError(
            f"A document with the tag {tag!r} is no message of a conversation.",
            fields_from_pydantic(exc),
            advice="It needs a role, `user` or `assistant`, and a text; or search another tag: config={'messagesSearchTag': …}.",
        ) from exc


def _metadata(provider: str, config: LlmGenerateObjectConfig, turn: TurnResult) -> dict[str, Any]:
    out: dict[str, Any] = {"provider": provider, "model": config.model or turn.model_id or "default"}
    return out | ({"usage": dict(turn.usage)} if turn.usage else {})


def _schema_of(given: Any) -> Schema:
    if given is None or isinstance(given, (Mapping, str)):
        raise Refused(
            f"outputSchema={given!r:.80} cannot judge what a model gives.",
            advice="Give a pydantic model class, or something else TypeAdapter takes: a TypedDict, list[str], …",
        )
    try:
        return Schema(given, "outputSchema")
    except DefinitionError:
        raise
    except Exception as exc:  # whatever pydantic raises for what is no type at all
        raise Refused(f"outputSchema={given!r:.80} is no schema: {exc}") from exc


def _parsed(schema: Schema, turn: TurnResult) -> Any:
    what = "What the model gave does not fit the output schema."
    try:
        raw = turn.object if turn.object is not None else json.loads(_unfenced(turn.text))
    except ValueError as exc:
        raise SchemaValidationError(what, {"": f"it is no JSON: {turn.text!r:.200}"}) from exc
    try:
        return thaw(schema.dump(_adapter(schema).validate_json(json.dumps(thaw(raw)))))
    except ValidationError as exc:
        raise SchemaValidationError(what, fields_from_pydantic(exc)) from exc


def _adapter(schema: Schema) -> TypeAdapter[Any]:
    """Judged as JSON: a strict model takes a date as its text then."""
    return schema.type if isinstance(schema.type, TypeAdapter) else TypeAdapter(schema.type)


def _unfenced(text: str) -> str:
    """JSON out of a Markdown fence, in which many models put it."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        return text.removeprefix("```json").removeprefix("```").removesuffix("```")
    return text
