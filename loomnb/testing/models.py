"""A model that says what a script tells it, behind the same interface as a real one. Nothing of it is intelligent."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loomnb.errors import Refused
from loomnb.jsonvalue import Json, freeze
from loomnb.runtime import AbortSignal, ToolRequest, TurnRequest, TurnResult
from loomnb.testing.protocol_wire import words_of

__all__ = ["Said", "ScriptedModel"]

Script = Callable[[TurnRequest, int], Any]
Frame = dict[str, Any]
Pause = Callable[[int, Mapping[str, Any]], Awaitable[None] | None]
Wanted = tuple[str, Any] | tuple[str, Any, str]

_SAID = {"text", "tools", "reasoning", "object", "usage", "cost", "finish"}
_TELLING = {"tools", "usage", "cost"}
"""Where an output is asked for, one of these says that a dict with nothing but the keys above is a turn, and not that output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a scripted model says in one turn.

    Attributes:
        text: told word by word.
        tools: what it asks for: `(tool, input)`, or `(tool, input, id)`. Ids are `call-<turn>-<tool>` otherwise, and a second
            call of the same tool in a turn ends with `-2`.
        reasoning: what it thinks aloud before.
        object: its output.
        usage: tokens, as in TurnResult.
        cost: US dollars.
        finish: why it ends; None: `tool-calls` with tools, else `stop`.
    """

    text: str = ""
    tools: Sequence[Wanted] = ()
    reasoning: str = ""
    object: Json = None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    cost: float | None = None
    finish: str | None = None


class ScriptedModel:
    """A stand-in for a model: each turn says what the script says next. It can be told from a real one by its id and label.

    What it says is written to the request's sink as a real model's is: reasoning and text word by word, and the input of tools.
    It stops at once, with a CancelledError, when the request's signal is aborted.

    Args:
        turns: what each turn gives, or a function of `(request, turn)` (sync or async) that gives it; `turn` counts from 0 the
            assistant messages that are in the request. One of: a text; a Said, or a dict of its fields (where an output
            is asked for: of which one is `tools`, `usage` or `cost`); any other dict, which is the output as an object; a list
            of `(tool, input)` pairs, the tools it asks for; a TurnResult; an exception to raise.
        pause: called (sync or async) before each frame is written, with the number of the turn and the frame: a test waits
            there for what has to happen in the middle. Also called when there is no sink.

    `requests` are those it was given, in order.
    """

    model_id = "scripted"
    label = "Scripted: says what a script says, and is no real model"

    def __init__(self, turns: Sequence[Any] | Script, *, pause: Pause | None = None) -> None:
        self._turns = turns
        self._pause = pause
        self.requests: list[TurnRequest] = []

    async def run_turn(self, request: TurnRequest) -> TurnResult:
        """What the script says for this turn.

        Raises:
            Refused: it has nothing for it.
            asyncio.CancelledError: the request's signal was aborted.
        """
        turn = sum(message["role"] == "assistant" for message in request.messages)
        self.requests.append(request)
        if callable(self._turns):
            said = self._turns(request, turn)
            said = await said if inspect.isawaitable(said) else said
        elif turn < len(self._turns):
            said = self._turns[turn]
        else:
            raise Refused(
                f"The script of this model says nothing for its turn number {turn + 1}: it has {len(self._turns)}.",
                advice="Add what it says next to the script, ScriptedModel([…]), and run the cells of the model and of its agent "
                "again. To try again without that changes nothing.",
            )
        result = self._result(said, turn, has_output=request.output_schema is not None)
        async for frame in self._frames(result, request.signal, turn):
            if request.sink is not None:
                await request.sink.write(json.dumps(frame, ensure_ascii=False) + "\n")
        return result

    def _result(self, said: Any, turn: int, *, has_output: bool) -> TurnResult:
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, TurnResult):
            return said
        if isinstance(said, str):
            said = Said(text=said)
        elif isinstance(said, dict):
            is_turn = said.keys() <= _SAID and bool(not has_output or said.keys() & _TELLING)
            said = Said(**said) if is_turn else Said(object=freeze(said))
        elif not isinstance(said, Said):
            said = Said(tools=said)
        calls = _calls(said.tools, turn)
        return TurnResult(
            text=said.text,
            tool_calls=calls,
            finish_reason=said.finish or ("tool-calls" if calls else "stop"),
            object=said.object,
            usage=dict(said.usage),
            model_id=self.model_id,
            cost_usd=said.cost,
            reasoning=said.reasoning or None,
        )

    async def _frames(self, result: TurnResult, signal: AbortSignal, turn: int) -> AsyncIterator[Frame]:
        """What a sink is told, with a pause before each."""
        frames = [{"kind": "reasoning", "text": word} for word in words_of(result.reasoning or "")]
        frames += [{"kind": "text", "text": word} for word in words_of(result.text)]
        for call in result.tool_calls:
            frames.append({"kind": "tool-input-start", "id": call.id, "name": call.name})
            frames.append({"kind": "tool-input-delta", "id": call.id, "delta": json.dumps(call.input, ensure_ascii=False)})
        for frame in frames:
            _stop_if(signal)
            if self._pause is not None and inspect.isawaitable(waiting := self._pause(turn, frame)):
                await _until_aborted(waiting, signal)
            yield frame
        _stop_if(signal)

    def __repr__(self) -> str:
        return "<ScriptedModel: says what its script says, and is no real model>"


def _calls(tools: Sequence[Wanted], turn: int) -> tuple[ToolRequest, ...]:
    calls: list[ToolRequest] = []
    for tool, given, *named in tools:
        before = sum(call.name == tool for call in calls)
        call_id = named[0] if named else f"call-{turn}-{tool}" + (f"-{before + 1}" if before else "")
        calls.append(ToolRequest(id=call_id, name=tool, input=freeze(given)))
    return tuple(calls)


def _stop_if(signal: AbortSignal) -> None:
    if signal.aborted:
        raise asyncio.CancelledError("The turn was canceled.")


async def _until_aborted(waiting: Awaitable[None], signal: AbortSignal) -> None:
    """Wait, but not longer than somebody waits for the turn."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(waiting)

    def end(_: BaseException) -> None:
        loop.call_soon_threadsafe(task.cancel)

    remove = signal.add_listener(end)
    try:
        await task
    finally:
        remove()
        task.cancel()
