"""What a model gave, judged before anything is made of it. A provider may be somebody's own class."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from loomnb.agents.amounts import is_amount, is_count
from loomnb.agents.failures import ModelOutputMissing
from loomnb.agents.words import storable
from loomnb.errors import NotJson
from loomnb.jsonvalue import Json, freeze, thaw
from loomnb.runtime import ToolRequest, TurnResult

__all__ = ["counted", "turn_result"]

_MOST_TOKENS = 2**53
"""More than any call can use, and the most that JSON carries whole."""


def turn_result(given: object, model: object) -> TurnResult:
    """What `run_turn` gave, as the loop can go on with it: what cannot be stored in the arguments of calls is mended, so that
    their tool tells the model; usage and cost that no numbers can be are unknown.

    Args:
        given: what it gave.
        model: the provider, for messages.

    Raises:
        ModelOutputMissing: it is no turn, or something of it is of another type.
    """
    if not isinstance(given, TurnResult):
        raise _refused(model, type(given).__name__)
    for name, fits in _PARTS.items():
        value = getattr(given, name)
        if not fits(value):
            raise _refused(model, f"{name}={value!r:.40}")
    calls = [dataclasses.replace(call, input=_arguments(call, model)) for call in given.tool_calls]
    return dataclasses.replace(given, tool_calls=calls, usage=counted(given.usage), cost_usd=_cost(given.cost_usd))


def counted(usage: object) -> dict[str, int]:
    """Tokens as they can be counted: what is unknown, or no number that could be one, is left out and never 0."""
    if not isinstance(usage, Mapping):
        return {}
    return {str(name): count for name, count in usage.items() if is_count(count, least=0) and count < _MOST_TOKENS}


def _arguments(call: ToolRequest, model: object) -> Json:
    try:
        return cast("Json", thaw(freeze(storable(call.input))))
    except (NotJson, RecursionError) as error:
        said = error.message if isinstance(error, NotJson) else "it is nested too deep."
        raise _refused(model, f"arguments of {call.name!r:.40} that are no JSON ({said})") from error


def _cost(value: float | None) -> float | None:
    return value if is_amount(value) else None


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _are_calls(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, ToolRequest) for one in value)


def _are_components(value: object) -> bool:
    return value is None or (
        isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, Mapping) for one in value)
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_PARTS: dict[str, Callable[[object], bool]] = {
    "text": _is_text,
    "tool_calls": _are_calls,
    "finish_reason": _is_text,
    "model_id": _is_text,
    "cost_usd": _is_number,
    "reasoning": lambda value: value is None or _is_text(value),
    "reasoning_ms": _is_number,
    "ui": _are_components,
}


def _refused(model: object, given: str) -> ModelOutputMissing:
    return ModelOutputMissing(
        f"No output generated: run_turn of {type(model).__name__} gave {given}.",
        advice="Write `async def run_turn(self, request)` that returns a loom.TurnResult: its text a text, its tool_calls a "
        "list of loom.ToolRequest.",
    )
