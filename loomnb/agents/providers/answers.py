"""A model's answer on its way to us: frames while it comes (contracts/agents.md §6.1), and the TurnResult at its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from loomnb.agents.providers.outputs import OUTPUT_TOOL, Output, json_in
from loomnb.errors import NotJson
from loomnb.jsonvalue import Json, freeze
from loomnb.runtime import SinkWriter, ToolRequest, TurnResult

if TYPE_CHECKING:
    from pydantic_ai import messages as theirs
    from pydantic_ai.usage import RequestUsage

__all__ = ["Frames", "result_of", "usage_of"]

_REASONS = {"stop": "stop", "length": "length", "content_filter": "content-filter", "tool_call": "tool-calls", "error": "error"}

_USAGE = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadTokens",
    "cache_write_tokens": "cacheWriteTokens",
    "output_reasoning_tokens": "reasoningTokens",
}


class Frames:
    """Writes a turn into its sink as it comes, and measures how long the model thought aloud.

    Args:
        sink: None where nobody looks: nothing is written, and the rest is measured all the same.
        output: how an output is asked for; one that would be shown in a wrapping is told at the end only.
        clock: seconds that only grow.

    `text` is what was said so far. `failure` is what the sink itself raised: no fault of the model.
    """

    def __init__(self, sink: SinkWriter | None, output: Output | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._sink = sink
        self._output = output
        self._clock = clock
        self._calls: dict[int, str] = {}
        self._thinking_since: float | None = None
        self._thought = 0.0
        self.has_thought = False
        self.has_begun = False
        self.text = ""
        self.failure: BaseException | None = None

    @property
    def reasoning_ms(self) -> int | None:
        """How long it thought aloud; None when it did not, or nobody saw it happen."""
        return round(self._thought * 1000) if self.has_thought else None

    async def write(self, kind: str, **fields: Any) -> None:
        """One frame."""
        if self._sink is None:
            return
        try:
            await self._sink.write(json.dumps({"kind": kind, **fields}, ensure_ascii=False) + "\n")
        except BaseException as exc:
            self.failure = exc
            raise

    async def event(self, event: theirs.ModelResponseStreamEvent) -> None:
        """Take one event of a stream."""
        from pydantic_ai import messages as theirs  # noqa: PLC0415  # is loaded by now

        if isinstance(event, theirs.PartStartEvent):
            self.has_begun = True
            self._think(isinstance(event.part, theirs.ThinkingPart))
            if isinstance(event.part, theirs.TextPart):
                await self._say(event.part.content)
            elif isinstance(event.part, theirs.ThinkingPart):
                await self._reason(event.part.content)
            elif isinstance(event.part, theirs.ToolCallPart) and not self._is_output(event.part.tool_name):
                self._calls[event.index] = event.part.tool_call_id
                await self.write("tool-input-start", id=event.part.tool_call_id, name=event.part.tool_name)
                await self._input(event.index, event.part.args)
        elif isinstance(event, theirs.PartDeltaEvent):
            if isinstance(event.delta, theirs.TextPartDelta):
                await self._say(event.delta.content_delta)
            elif isinstance(event.delta, theirs.ThinkingPartDelta):
                await self._reason(event.delta.content_delta or "")
            elif isinstance(event.delta, theirs.ToolCallPartDelta):
                await self._input(event.index, event.delta.args_delta)
        elif isinstance(event, theirs.PartEndEvent):
            self._think(on=False)

    async def whole(self, response: theirs.ModelResponse) -> None:
        """Take an answer that came in one piece, for those who look."""
        from pydantic_ai import messages as theirs  # noqa: PLC0415  # is loaded by now

        for index, part in enumerate(response.parts):
            await self.event(theirs.PartStartEvent(index=index, part=part))
        self.has_thought = False  # nobody saw how long

    async def ended(self, result: TurnResult) -> None:
        """Tell what could not be shown while it came: an output out of its wrapping, a refusal."""
        if result.text and not self.text:
            self.text = result.text
            await self.write("text", text=result.text)

    def _is_output(self, tool: str) -> bool:
        return self._output is not None and self._output.mode == "tool" and tool == OUTPUT_TOOL

    def _think(self, on: bool) -> None:
        now = self._clock()
        if self._thinking_since is not None:
            self._thought += now - self._thinking_since
        self._thinking_since = now if on else None
        self.has_thought |= on

    async def _say(self, text: str) -> None:
        if text and (self._output is None or self._output.is_shown):
            self.text += text
            await self.write("text", text=text)

    async def _reason(self, text: str) -> None:
        if text:
            await self.write("reasoning", text=text)

    async def _input(self, index: int, args: Any) -> None:
        call_id = self._calls.get(index)
        if call_id is not None and args:
            delta = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
            await self.write("tool-input-delta", id=call_id, delta=delta)


def usage_of(usage: RequestUsage) -> dict[str, int]:
    """Tokens in our words. What the service did not tell is left out: pydantic-ai has 0 for it."""
    found = {ours: getattr(usage, name, 0) for name, ours in _USAGE.items()}
    return {ours: count for ours, count in found.items() if isinstance(count, int) and count > 0}


def _frozen_input(part: theirs.ToolCallPart) -> Json:
    """What a tool is called with. Where JSON cannot hold that (NaN, half a surrogate pair, too deep) its text, which no tool
    takes: so the model is told, and may do better."""
    try:
        return cast("Json", freeze(_input_of(part)))
    except NotJson:
        text = part.args if isinstance(part.args, str) else repr(part.args)
        return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def result_of(response: theirs.ModelResponse, output: Output | None, frames: Frames, model: str) -> TurnResult:
    """The turn, out of the vendor's answer."""
    from pydantic_ai import messages as theirs  # noqa: PLC0415  # is loaded by now

    details: Mapping[str, Any] = response.provider_details or {}
    text = "".join(part.content for part in response.parts if isinstance(part, theirs.TextPart))
    thoughts = [part.content for part in response.parts if isinstance(part, theirs.ThinkingPart) and part.content]
    asked = [part for part in response.parts if isinstance(part, theirs.ToolCallPart)]
    is_tool = output is not None and output.mode == "tool"
    calls = tuple(
        ToolRequest(id=part.tool_call_id, name=part.tool_name, input=_frozen_input(part))
        for part in asked
        if not (is_tool and part.tool_name == OUTPUT_TOOL)
    )
    found = _found(text, asked, output) if not calls else None
    if found is not None and output is not None and not output.is_shown:
        text = json.dumps(found, ensure_ascii=False)
    cost = details.get("cost")
    return TurnResult(
        text=text or str(details.get("refusal") or ""),
        tool_calls=calls,
        finish_reason=_reason(response.finish_reason, details, bool(calls)),
        object=freeze(found),
        usage=usage_of(response.usage),
        model_id=response.model_name or model,
        cost_usd=float(cost) if isinstance(cost, (int, float)) else None,
        reasoning="".join(thoughts) or None,
        reasoning_ms=frames.reasoning_ms if thoughts else None,
        native=freeze(theirs.ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]),
    )


def _input_of(part: theirs.ToolCallPart) -> Json:
    """What a tool is to be called with. Broken JSON stays the text it is: the tool's schema refuses it, and the model is told."""
    if not isinstance(part.args, str):
        return dict(part.args or {})
    if not part.args.strip():
        return {}
    value = json_in(part.args)
    return part.args if value is ... else value


def _found(text: str, asked: list[theirs.ToolCallPart], output: Output | None) -> Json:
    """The output as an object; None when there is none in it."""
    if output is None:
        return None
    given = next((_input_of(part) for part in asked if output.mode == "tool" and part.tool_name == OUTPUT_TOOL), ...)
    value = json_in(text) if given is ... else given
    return None if value is ... else output.opened(value)


def _reason(reason: str | None, details: Mapping[str, Any], calls: bool) -> str:
    """Why it ended. `tool-calls` exactly where there are some: services differ in what they say then."""
    raw = details.get("finish_reason")
    if "refusal" in details or raw == "refusal":
        return "refusal"
    word = _REASONS.get(reason or "", str(raw or "stop"))
    if word in ("stop", "tool-calls"):
        return "tool-calls" if calls else "stop"
    return word
