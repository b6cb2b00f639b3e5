"""A model whose turns are kept in a file, and come from there the next time: real answers in tests, asked and paid for once."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loomnb.errors import NotFound, Refused
from loomnb.jsonvalue import Json, freeze, thaw
from loomnb.runtime import ModelProvider, SinkWriter, ToolRequest, TurnRequest, TurnResult

__all__ = ["RecordingModel"]

_VERSION = 1
_TOLD = ("role", "content", "toolCalls", "toolResults", "toolCallId", "name", "isError", "attachments")
"""Of a message, what makes it another request: not ids, nor what a vendor wants back."""


class RecordingModel:
    """Replays the turns that are on record for the same requests; asks another model for the others, and puts them on record.

    A request is the same when its instructions, messages, tools, role, model, output schema, `tool_choice` and settings are. The
    same request made twice has two records. What was written to the sink is replayed too. Keys are in no request, and on no
    record; what was said is, so look at a file before you publish it.

    Args:
        inner: the model that is recorded; None: only what is on record is known.
        path: the file, JSON; it is written anew, atomically, after each turn that was asked for.

    Raises:
        Refused: the file is there, and is no such record.
    """

    def __init__(self, inner: ModelProvider | None, path: str | Path) -> None:
        self._inner = inner
        self._path = Path(path)
        self._turns = _read(self._path)
        self._seen: dict[str, int] = {}

    @property
    def model_id(self) -> str:
        """That of the recorded model."""
        return str(getattr(self._inner, "model_id", "recorded"))

    async def run_turn(self, request: TurnRequest) -> TurnResult:
        """The turn on record, or a new one.

        Raises:
            NotFound: it is not on record, and there is no model to ask.
        """
        key = _key(request)
        number = self._seen.get(key, 0)
        self._seen[key] = number + 1
        known = [turn for turn in self._turns if turn["key"] == key]
        if number < len(known):
            for frame in known[number]["frames"]:
                if request.sink is not None:
                    await request.sink.write(json.dumps(frame, ensure_ascii=False) + "\n")
            return _result_of(known[number]["result"])
        if self._inner is None:
            raise NotFound(
                f"{self._path.name} has no turn on record for this request.",
                advice="Record it: give the model as the first argument, or see what changed in the request.",
            )
        tee = _Tee(request.sink)
        result = await self._inner.run_turn(dataclasses.replace(request, sink=tee))
        last = request.messages[-1] if request.messages else {}
        self._turns.append({"key": key, "last": _told(last), "frames": tee.frames, "result": _json_of(result)})
        self._write()
        return result

    def _write(self) -> None:
        text = json.dumps({"version": _VERSION, "turns": self._turns}, ensure_ascii=False, indent=1)
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(self._path)

    def __repr__(self) -> str:
        return f"<RecordingModel {self._path.name}: {len(self._turns)} turns on record>"


class _Tee:
    """Keeps the frames, and hands them on."""

    def __init__(self, sink: SinkWriter | None) -> None:
        self._sink = sink
        self.frames: list[Json] = []

    async def write(self, line: str) -> None:
        """One frame, or several lines of them. A wait is not put on record: nobody waits the next time."""
        told = [json.loads(one) for one in line.splitlines() if one.strip()]
        self.frames += [frame for frame in told if frame.get("kind") != "waiting"]
        if self._sink is not None:
            await self._sink.write(line)

    async def end(self) -> None:
        """Hand on."""
        if self._sink is not None:
            await self._sink.end()

    async def fail(self, failure: Mapping[str, str]) -> None:
        """Hand on."""
        if self._sink is not None:
            await self._sink.fail(failure)

    async def flush(self) -> None:
        """Hand on."""
        if self._sink is not None:
            await self._sink.flush()


def _told(message: Mapping[str, Any]) -> dict[str, Any]:
    return {name: thaw(message[name]) for name in _TOLD if name in message}


def _key(request: TurnRequest) -> str:
    told = {
        "system": request.system,
        "messages": [_told(message) for message in request.messages],
        "tools": [{"name": t.name, "description": t.description, "input": thaw(t.input_schema)} for t in request.tools],
        "role": request.role,
        "model": request.model,
        "output": thaw(request.output_schema),
        "choice": request.tool_choice,
        "settings": thaw(request.settings),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] != _VERSION:
            raise ValueError
        turns: list[dict[str, Any]] = found["turns"]
        for turn in turns:
            _result_of(turn["result"])
            if not isinstance(turn["key"], str) or not isinstance(turn["frames"], list):
                raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refused(f"{path.name} is no record of a model's turns.", advice="Delete it to record anew.") from None
    return turns


def _json_of(result: TurnResult) -> dict[str, Any]:
    """A turn as JSON; what it does not say is left out."""
    calls = [{"id": call.id, "name": call.name, "input": thaw(call.input)} for call in result.tool_calls]
    told: dict[str, Any] = {
        "text": result.text,
        "toolCalls": calls,
        "finishReason": result.finish_reason,
        "object": thaw(result.object),
        "usage": dict(result.usage),
        "modelId": result.model_id,
        "costUsd": result.cost_usd,
        "reasoning": result.reasoning,
        "reasoningMs": result.reasoning_ms,
        "ui": None if result.ui is None else [dict(one) for one in result.ui],
        "native": thaw(result.native),
    }
    kept = {name: value for name, value in told.items() if value is not None}
    freeze(kept)  # refuses what is no JSON before it is on record
    return kept


def _result_of(told: Mapping[str, Any]) -> TurnResult:
    return TurnResult(
        text=told["text"],
        tool_calls=tuple(ToolRequest(id=c["id"], name=c["name"], input=freeze(c["input"])) for c in told["toolCalls"]),
        finish_reason=told["finishReason"],
        object=freeze(told.get("object")),
        usage=told["usage"],
        model_id=told["modelId"],
        cost_usd=told.get("costUsd"),
        reasoning=told.get("reasoning"),
        reasoning_ms=told.get("reasoningMs"),
        ui=told.get("ui"),
        native=freeze(told.get("native")),
    )
