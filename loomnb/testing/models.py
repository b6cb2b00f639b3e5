"""A model that says what a script tells it, behind the same interface as a real one. Nothing of it is intelligent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from loomnb.errors import Refused
from loomnb.jsonvalue import freeze
from loomnb.runtime import ToolRequest, TurnRequest, TurnResult

__all__ = ["ScriptedModel"]

Script = Callable[[TurnRequest, int], Any]


class ScriptedModel:
    """A stand-in for a model: each turn says what the script says next. It can be told from a real one by its id.

    Args:
        turns: what each turn gives, or a function of `(request, turn)` (sync or async) that gives it; `turn` counts from 0 the
            assistant messages that are in the request. One of: a text; a dict, which is the output as an object; a list of
            `(tool, input)` pairs, the tools it asks for (ids are `call-<turn>-<tool>`); a TurnResult; an exception to raise.

    `requests` are those it was given, in order.
    """

    model_id = "scripted"

    def __init__(self, turns: Sequence[Any] | Script) -> None:
        self._turns = turns
        self.requests: list[TurnRequest] = []

    async def run_turn(self, request: TurnRequest) -> TurnResult:
        """What the script says for this turn.

        Raises:
            Refused: it has nothing for it.
        """
        turn = sum(message["role"] == "assistant" for message in request.messages)
        self.requests.append(request)
        if callable(self._turns):
            said = self._turns(request, turn)
            said = await said if inspect.isawaitable(said) else said
        elif turn < len(self._turns):
            said = self._turns[turn]
        else:
            raise Refused(f"The script of this model says nothing for its turn number {turn + 1}: it has {len(self._turns)}.")
        return self._result(said, turn)

    def _result(self, said: Any, turn: int) -> TurnResult:
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, TurnResult):
            return said
        if isinstance(said, str):
            return TurnResult(text=said, model_id=self.model_id)
        if isinstance(said, dict):
            return TurnResult(object=freeze(said), model_id=self.model_id)
        calls = tuple(ToolRequest(id=f"call-{turn}-{tool}", name=tool, input=freeze(given)) for tool, given in said)
        return TurnResult(tool_calls=calls, finish_reason="tool-calls", model_id=self.model_id)

    def __repr__(self) -> str:
        return "<ScriptedModel: says what its script says, and is no real model>"
