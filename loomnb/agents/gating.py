"""The gate between a model and its readers: what processors make of a prompt, and of an answer, before anybody sees it.

A step has three parts, so that a crash between any two loses and repeats nothing:

1. the model's turn, written into `gate.writer(...)`; with its result, `writer.record()` is journaled;
2. the verdict on the whole answer, `judge(...)`, journaled too;
3. the release: `frames_to_release(record, verdict)`, written to the sink.

What is still to be released follows from the record alone, and not from how the processors are declared by then.
Rule: contracts/agents.md §1.9.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from loomnb.agents.control_flow import is_not_a_failure
from loomnb.agents.failures import OutputRejectedError, ProcessorFailedError
from loomnb.agents.frames import FrameBuffer, decode_stream_event, frame, frame_lines, release_gated_frames
from loomnb.agents.spi import InputProcessor, OutputProcessor, OutputVerdict, ProcessorContext, Prompt, settled
from loomnb.errors import DefinitionError
from loomnb.jsonvalue import thaw
from loomnb.runtime import SinkWriter

__all__ = [
    "DEFAULT_LOOKBACK_CHARS",
    "GateMode",
    "GateVerdict",
    "GateWriter",
    "IncrementalGate",
    "LiveGate",
    "WholeGate",
    "frames_to_release",
    "gate_mode",
    "gate_writer",
    "judge",
    "lookback_of",
    "run_input_chain",
    "run_output_chain",
]

GateMode: TypeAlias = Literal["off", "incremental", "whole"]

DEFAULT_LOOKBACK_CHARS = 64
"""How much of the end of a growing answer is held back when a processor does not say."""


def gate_mode(processors: Sequence[OutputProcessor], *, is_dispatched: bool = False) -> GateMode:
    """How the answers of a turn are held back.

    `off` without processors: readers see them live. `incremental` when every processor can judge a growing prefix. `whole`
    otherwise, and always when the model's step is run elsewhere (`is_dispatched`), where no reader could be reached.
    """
    if not processors:
        return "off"
    return "incremental" if not is_dispatched and all(_incremental(one) is not None for one in processors) else "whole"


def lookback_of(processors: Sequence[OutputProcessor]) -> int:
    """How many characters an incremental gate holds back: the widest of its processors.

    Raises:
        DefinitionError: a processor declares something that is no whole number from 0 on.
    """
    widths = [0]
    for one in processors:
        declared = _incremental(one) or {}
        chars = declared.get("lookbackChars", declared.get("lookback_chars"))
        chars = DEFAULT_LOOKBACK_CHARS if chars is None else chars
        if type(chars) is not int or chars < 0:
            raise DefinitionError(f"lookbackChars of the processor `{one.name}` is {chars!r}: it is a whole number from 0 on.")
        widths.append(chars)
    return max(widths)


def _incremental(processor: OutputProcessor) -> Mapping[str, Any] | None:
    declared = getattr(processor, "incremental", None)
    if declared is True:
        return {}
    return cast("Mapping[str, Any]", declared) if isinstance(declared, Mapping) else None


# -- the chains ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GateVerdict:
    """What the processors make of an answer: the text that may be read, or who refused it (`{"processor", "reason"}`)."""

    text: str
    rejection: Mapping[str, str] | None = None

    def raise_if_rejected(self) -> None:
        """Raise the refusal, if it is one.

        Raises:
            OutputRejectedError: a processor refused it.
        """
        if self.rejection is not None:
            raise OutputRejectedError(self.rejection["processor"], self.rejection["reason"])

    def to_json(self) -> dict[str, Any]:
        """Its JSON, for the journal."""
        return {"text": self.text} if self.rejection is None else {"text": self.text, "rejection": dict(self.rejection)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> GateVerdict:
        """The verdict of its JSON."""
        return GateVerdict(text=data["text"], rejection=data.get("rejection"))


async def run_input_chain(processors: Sequence[InputProcessor], prompt: Prompt, ctx: ProcessorContext) -> Prompt:
    """A prompt as the processors want the model to be told it, each given what the one before made of it.

    They work on copies: what is stored of the conversation stays as it was.

    Raises:
        ProcessorFailedError: one raised, or gave no `Prompt`.
    """
    if not processors:
        return prompt
    told = Prompt(system=prompt.system, messages=tuple(copy.deepcopy(message) for message in prompt.messages))
    for one in processors:
        try:
            told = await settled(one.process(told, ctx))
            if not isinstance(told, Prompt):
                raise TypeError(f"it gave a {type(told).__name__}, and has to give a Prompt")
        except Exception as error:
            if is_not_a_failure(error):
                raise
            raise ProcessorFailedError("input", _name_of(one), error) from error
    return told


def _name_of(processor: object) -> str:
    return str(getattr(processor, "name", None) or type(processor).__name__)


async def run_output_chain(
    processors: Sequence[OutputProcessor], text: str, tool_calls: Sequence[Mapping[str, Any]], ctx: ProcessorContext
) -> GateVerdict:
    """The processors' verdict on an answer, each given the text that the one before made of it. The first refusal ends it.

    A refusal is given back and not raised: what the answer used is accounted for first (`GateVerdict.raise_if_rejected`).

    Raises:
        ProcessorFailedError: one raised, or gave no `OutputVerdict`.
    """
    for one in processors:
        try:
            verdict = await settled(one.process({"text": text, "toolCalls": [thaw(call) for call in tool_calls]}, ctx))
            action = _action_of(verdict)
        except Exception as error:
            if is_not_a_failure(error):
                raise
            raise ProcessorFailedError("output", _name_of(one), error) from error
        if action == "reject":
            return GateVerdict(text="", rejection={"processor": _name_of(one), "reason": verdict.reason})
        if action == "replace":
            text = verdict.text
    return GateVerdict(text=text)


def _action_of(verdict: object) -> str:
    # A gate that does not say what it means stays shut.
    if not isinstance(verdict, OutputVerdict):
        raise TypeError(f"it gave a {type(verdict).__name__}, and has to give an OutputVerdict")
    if verdict.action not in ("pass", "replace", "reject"):
        raise ValueError(f"its verdict is {verdict.action!r}, and has to be pass, replace or reject")
    if type(verdict.text) is not str or type(verdict.reason) is not str:
        raise TypeError("the text and the reason of a verdict are texts")
    return verdict.action


# -- the writers ----------------------------------------------------------------------------------------


class LiveGate:
    """No gate: readers see what the model writes, as it does. The stream's end is the loop's to write, not the model's."""

    def __init__(self, sink: SinkWriter) -> None:
        self._sink = sink

    async def write(self, line: str) -> None:
        await self._sink.write(line)

    async def end(self) -> None: ...

    async def fail(self, failure: Mapping[str, str]) -> None: ...

    async def flush(self) -> None:
        await self._sink.flush()

    def record(self) -> dict[str, Any]:
        """Nothing is held back."""
        return {}


class WholeGate(FrameBuffer):
    """A gate that lets nothing through until the whole answer was judged."""

    def record(self) -> dict[str, Any]:
        """`{"frames"}`: all that is held back."""
        return {"frames": list(self.lines)}


class IncrementalGate:
    """A gate that judges a growing answer, and lets through what can hardly change any more.

    With every text the processors judge all of it so far, without tool calls. What they make of it is let through but for its
    last `lookback` characters, and only when it goes on from what was let through before. Everything else is let through at once;
    a line that nobody can read never is. A refusal shuts the gate for good. A processor that raises only delays: the whole
    answer is judged once more anyway.

    Args:
        sink: what it writes to.
        processors: the chain.
        ctx: what the chain is told.
        lookback: in characters; None: `lookback_of(processors)`.

    Attributes:
        released_text: what readers have seen.
        rejection: who refused it, `{"processor", "reason"}`; None: nobody so far.
    """

    def __init__(
        self, sink: SinkWriter, processors: Sequence[OutputProcessor], ctx: ProcessorContext, *, lookback: int | None = None
    ) -> None:
        self._sink = sink
        self._processors = tuple(processors)
        self._ctx = ctx
        self._lookback = lookback_of(processors) if lookback is None else lookback
        self._text = ""
        self.released_text = ""
        self.rejection: Mapping[str, str] | None = None

    async def write(self, line: str) -> None:
        for one in frame_lines(line):
            event = decode_stream_event(one)
            if event is None or self.rejection is not None:
                continue
            if event["kind"] != "text":
                await self._sink.write(one)
            elif isinstance(event.get("text"), str):
                await self._grow(event["text"])

    async def end(self) -> None: ...

    async def fail(self, failure: Mapping[str, str]) -> None: ...

    async def flush(self) -> None:
        await self._sink.flush()

    async def _grow(self, more: str) -> None:
        self._text += more
        try:
            verdict = await run_output_chain(self._processors, self._text, (), self._ctx)
        except ProcessorFailedError:
            return
        if verdict.rejection is not None:
            self.rejection = verdict.rejection
            return
        settled_text = verdict.text[: max(0, len(verdict.text) - self._lookback)]
        if len(settled_text) > len(self.released_text) and settled_text.startswith(self.released_text):
            news = settled_text[len(self.released_text) :]
            await self._sink.write(frame("text", text=news))
            self.released_text = settled_text

    def record(self) -> dict[str, Any]:
        """`{"releasedText", "gateRejection"?}`: what readers have seen, and who refused it."""
        record: dict[str, Any] = {"releasedText": self.released_text}
        if self.rejection is not None:
            record["gateRejection"] = dict(self.rejection)
        return record


GateWriter: TypeAlias = LiveGate | WholeGate | IncrementalGate


def gate_writer(
    mode: GateMode, sink: SinkWriter, processors: Sequence[OutputProcessor], ctx: ProcessorContext
) -> LiveGate | WholeGate | IncrementalGate:
    """What a model writes its turn to. Its `record()` is what the journal has to keep of it: JSON, empty when nothing is held."""
    if mode == "off":
        return LiveGate(sink)
    return IncrementalGate(sink, processors, ctx) if mode == "incremental" else WholeGate()


# -- the whole answer -------------------------------------------------------------------------------------


async def judge(
    processors: Sequence[OutputProcessor],
    text: str,
    tool_calls: Sequence[Mapping[str, Any]],
    record: Mapping[str, Any],
    ctx: ProcessorContext,
) -> GateVerdict:
    """The verdict on a whole answer. What was refused while it grew is refused, and nobody is asked again.

    Args:
        processors: the chain.
        text: the whole answer of the model.
        tool_calls: what it asks for.
        record: what `record()` of its writer gave.
        ctx: what the chain is told.

    Raises:
        ProcessorFailedError: a processor raised, or gave no verdict.
    """
    refused = record.get("gateRejection")
    if refused is not None:
        return GateVerdict(text="", rejection=dict(refused))
    return await run_output_chain(processors, text, tool_calls, ctx)


def frames_to_release(record: Mapping[str, Any], verdict: GateVerdict, processors: Sequence[OutputProcessor] = ()) -> list[str]:
    """What is still to be written after the verdict: all that was held back, or the tail that readers have not seen.

    Nothing when it was refused, or when nothing was held back.

    Args:
        record: what `record()` of the writer gave, maybe in another process.
        verdict: on the whole answer.
        processors: the chain, to name it in an error.

    Raises:
        ProcessorFailedError: the text does not go on from what readers have seen already, which nobody can take back.
    """
    if verdict.rejection is not None:
        return []
    if "frames" in record:
        return release_gated_frames(record["frames"], verdict.text)
    if "releasedText" not in record:
        return []
    seen: str = record["releasedText"]
    if not verdict.text.startswith(seen):
        name = " → ".join(one.name for one in processors) or "the output chain"
        raise ProcessorFailedError(
            "output", name, ValueError(f"the whole answer does not begin with the {len(seen)} characters that were released")
        )
    tail = verdict.text[len(seen) :]
    return [frame("text", text=tail)] if tail else []
