"""Models of every wire format against the protocol server, and what a turn of one writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from loomnb.agents.providers import VendorModel, openai_compatible
from loomnb.runtime import ModelTool, TurnRequest, TurnResult
from loomnb.testing import ProtocolServer

__all__ = ["ADD", "KEY", "KINDS", "OUTCOME", "Sink", "asked", "model_for", "said_to"]

KEY = "nobodys-key-4711"
"""It does not look like one, so that only who knows it can take it out of a text."""

KINDS = ("messages", "responses", "chat")
"""Anthropic's messages, OpenAI's Responses and OpenAI's chat completions."""

ADD = ModelTool(
    name="add",
    description="Adds.",
    input_schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
)

OUTCOME = {"type": "object", "properties": {"outcome": {"type": "string"}}, "required": ["outcome"]}


class Sink:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []

    async def write(self, line: str) -> None:
        self.frames += [json.loads(one) for one in line.splitlines()]

    async def end(self) -> None: ...
    async def fail(self, failure: Mapping[str, str]) -> None: ...
    async def flush(self) -> None: ...

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["kind"] == kind]

    def text(self, kind: str = "text") -> str:
        return "".join(frame["text"] for frame in self.of(kind))


def model_for(kind: str, server: ProtocolServer, name: str = "claude-opus-5-5", **options: Any) -> VendorModel:
    """A model of this wire format whose service is the server. It waits for nothing."""
    options = {"api_key": KEY, "first_wait": 0.0, **options}
    if kind == "messages":
        return VendorModel(f"anthropic:{name}", base_url=server.root, **options)
    if kind == "responses":
        return VendorModel("openai:gpt-6-astra", base_url=server.url, **options)
    return openai_compatible(server.root, "some-model", **options)


def asked(model: VendorModel, /, **request: Any) -> TurnResult:
    """One turn."""
    told = {"system": "Help.", "messages": [{"role": "user", "content": "Hello?"}], **request}
    return asyncio.run(model.run_turn(TurnRequest(**told)))


def said_to(server: ProtocolServer, number: int = -1) -> Any:
    """The conversation that a service was sent."""
    body = server.requests[number].body
    return body["input"] if "input" in body else body["messages"]
