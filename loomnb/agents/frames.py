"""The frames of a turn's stream: making them, reading them, and the writers they pass through on their way.

A frame is one line of JSON with a text `kind`; its fields are camelCase. Unknown kinds are let through, an optional field that is
absent is left out and never null. What the frames add up to is `stream_state`'s business. Rule: contracts/agents.md §6.1, §1.9.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

from loomnb.agents.spi import camel
from loomnb.errors import InvalidRequest, NotJson
from loomnb.runtime import SinkWriter

__all__ = [
    "DiscardWriter",
    "FrameBuffer",
    "FrameReader",
    "TeeWriter",
    "create_frame_buffer",
    "decode_stream_event",
    "frame",
    "frame_lines",
    "merged_ui",
    "release_gated_frames",
]

_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "reasoning": ("text",),
    "tool-input-start": ("id", "name", "toolKind"),
    "tool-input-delta": ("id", "delta"),
    "tool-input-available": ("id", "name", "input", "toolKind"),
    "tool-output": ("id", "output"),
    "tool-output-error": ("id", "error"),
    "tool-output-denied": ("id",),
    "elicitation": ("id", "request"),
    "approval-requested": ("id", "approver"),
    "approval-settled": ("id", "status"),
    "ui": ("id", "component", "props"),
    "title": ("title",),
    "queue": ("queue",),
}
_NULLABLE = frozenset({("tool-output", "output"), ("tool-input-available", "input"), ("step-finish", "costUsd")})
"""Where None is a value: a tool may give nothing, and a cost may be unknown."""


def frame(kind: str, **fields: Any) -> str:
    """One frame: a line of JSON without its line end.

    Args:
        kind: what it is; any text.
        fields: what it carries, in snake_case; written in camelCase. None leaves a field out, except where it means something:
            the input and the output of a tool, and the cost of a step. Of `tool_kind`, everything but `action` is told as `read`.

    Raises:
        InvalidRequest: a field that this kind cannot be without is missing.
        NotJson: a field holds something that JSON cannot.
    """
    told: dict[str, Any] = {"kind": kind}
    for name, value in fields.items():
        key = camel(name)
        if key == "toolKind" and value is not None:
            value = "action" if value == "action" else "read"  # noqa: PLW2901  # the kinds of the loop's own tools are not told
        if value is not None or (kind, key) in _NULLABLE:
            told[key] = value
    missing = [key for key in _REQUIRED.get(kind, ()) if key not in told]
    if missing:
        raise InvalidRequest(f"A frame of kind `{kind}` cannot be without {', '.join(missing)}.")
    try:
        line = json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"A frame of kind `{kind}` holds something that JSON cannot: {error}") from error
    return line if _is_text(line) else json.dumps(told, allow_nan=False, separators=(",", ":"))


def _is_text(line: str) -> bool:
    # Half a surrogate pair can be written in JSON's own escapes, but not as text to a file or a socket.
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


def decode_stream_event(line: str) -> dict[str, Any] | None:
    """The event of a line; None unless the line is a JSON object whose `kind` is a text. Unknown kinds are events too."""
    try:
        event = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, TypeError, RecursionError):
        return None
    return cast("dict[str, Any]", event) if isinstance(event, dict) and isinstance(event.get("kind"), str) else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def frame_lines(chunk: str) -> list[str]:
    """The lines of what was written at once, in their order, without those that are blank.

    Only a line feed ends a line: JSON may hold the other characters that `str.splitlines` breaks at.
    """
    return [line.removesuffix("\r") for line in chunk.split("\n") if line.strip()]


class FrameBuffer:
    """A writer that keeps what is written, until somebody has judged it. That it ended, or failed, is not its business.

    Attributes:
        lines: one for each frame, in the order they were written.
    """

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self.lines: list[str] = list(lines)

    async def write(self, line: str) -> None:
        self.lines += frame_lines(line)

    async def end(self) -> None: ...

    async def fail(self, failure: Mapping[str, str]) -> None: ...

    async def flush(self) -> None: ...


def create_frame_buffer() -> FrameBuffer:
    """An empty `FrameBuffer`."""
    return FrameBuffer()


class DiscardWriter:
    """A writer for turns that nobody reads along: follow-ups, summaries, the structured pass."""

    async def write(self, line: str) -> None: ...

    async def end(self) -> None: ...

    async def fail(self, failure: Mapping[str, str]) -> None: ...

    async def flush(self) -> None: ...


class TeeWriter:
    """A writer that hands everything to several others, one after the other. The first that raises ends it."""

    def __init__(self, *writers: SinkWriter) -> None:
        self._writers = writers

    async def write(self, line: str) -> None:
        for writer in self._writers:
            await writer.write(line)

    async def end(self) -> None:
        for writer in self._writers:
            await writer.end()

    async def fail(self, failure: Mapping[str, str]) -> None:
        for writer in self._writers:
            await writer.fail(failure)

    async def flush(self) -> None:
        for writer in self._writers:
            await writer.flush()


def release_gated_frames(frames: Sequence[str], text: str) -> list[str]:
    """The frames of a turn that was held back, with the text that may be read instead of what the model wrote.

    The text stands where the first text, or the first line that nobody can read, stood; other texts and such lines are dropped,
    since nobody has judged them. Without such a place it stands last. An empty text has no frame.
    """
    out: list[str] = []
    is_told = not text
    for line in frames:
        event = decode_stream_event(line)
        if event is not None and event["kind"] != "text":
            out.append(line)
        elif not is_told:
            out.append(frame("text", text=text))
            is_told = True
    if not is_told:
        out.append(frame("text", text=text))
    return out


_UI_KEYS = ("id", "component", "props", "version", "fallbackText", "componentVersions", "toolCallId")


def merged_ui(*lists: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Components in the order they were first seen; of those with the same id the last is kept."""
    merged: dict[str, dict[str, Any]] = {}
    for shown in (one for several in lists for one in several):
        merged[str(shown["id"])] = dict(shown)
    return list(merged.values())


class FrameReader:
    """A writer in front of another that reads along: what a model thought, for how long, and which components it wrote.

    For providers that do not say so themselves. It hands everything on unchanged; previews (`partial`) are not kept.

    Args:
        inner: what it writes to.
        monotonic: the clock, in seconds.
    """

    def __init__(self, inner: SinkWriter, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._inner = inner
        self._monotonic = monotonic
        self._reasoning: list[str] = []
        self._since: float | None = None
        self._thought = 0.0
        self._ui: list[Mapping[str, Any]] = []

    async def write(self, line: str) -> None:
        for one in frame_lines(line):
            self._read(one)
        await self._inner.write(line)

    async def end(self) -> None:
        self._stop_thinking()
        await self._inner.end()

    async def fail(self, failure: Mapping[str, str]) -> None:
        self._stop_thinking()
        await self._inner.fail(failure)

    async def flush(self) -> None:
        await self._inner.flush()

    def _read(self, line: str) -> None:
        event = decode_stream_event(line)
        if event is None:
            return
        if event["kind"] == "reasoning":
            if isinstance(event.get("text"), str):
                self._reasoning.append(event["text"])
            if self._since is None:
                self._since = self._monotonic()
            return
        self._stop_thinking()
        if event["kind"] == "ui" and not event.get("partial") and "id" in event and "component" in event:
            self._ui.append({key: event[key] for key in _UI_KEYS if key in event})

    def _stop_thinking(self) -> None:
        if self._since is not None:
            self._thought += self._monotonic() - self._since
            self._since = None

    @property
    def reasoning(self) -> str | None:
        """What was thought aloud; None: nothing."""
        return "".join(self._reasoning) or None

    @property
    def reasoning_ms(self) -> int | None:
        """How long: from each first word to the frame that came next, or to now; None: nothing was thought."""
        if self.reasoning is None:
            return None
        still = self._monotonic() - self._since if self._since is not None else 0.0
        return round((self._thought + still) * 1000)

    @property
    def ui(self) -> list[dict[str, Any]] | None:
        """The components, as a message keeps them; None: none."""
        return merged_ui(self._ui) or None
