"""The gate between a model and its readers; what it holds survives a journal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import pytest

from loomnb.agents.control_flow import ControlFlowSignal
from loomnb.agents.failures import OutputRejectedError, ProcessorFailedError
from loomnb.agents.frames import FrameBuffer, decode_stream_event, frame
from loomnb.agents.gating import (
    GateMode,
    GateVerdict,
    IncrementalGate,
    frames_to_release,
    gate_mode,
    gate_writer,
    judge,
    lookback_of,
    run_input_chain,
    run_output_chain,
)
from loomnb.agents.spi import Actor, ChatMessage, OutputVerdict, ProcessorContext, Prompt
from loomnb.errors import DefinitionError

T = TypeVar("T")
CTX = ProcessorContext(thread_id="t", actor=Actor(id="ann"), step=0)
PASS = OutputVerdict()


def run(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(story)


class Judge:
    """A processor that answers with a function of the text, and remembers what it was asked."""

    def __init__(self, name: str, answer: Callable[[str], Any] = lambda _: PASS, incremental: Any = None) -> None:
        self.name = name
        self.answer = answer
        self.asked: list[Mapping[str, Any]] = []
        if incremental is not None:
            self.incremental = incremental

    def process(self, answer: Mapping[str, Any], ctx: ProcessorContext) -> Any:
        self.asked.append(answer)
        return self.answer(answer["text"])

    @property
    def texts(self) -> list[str]:
        return [one["text"] for one in self.asked]


def upper(text: str) -> OutputVerdict:
    return OutputVerdict(action="replace", text=text.upper())


def refuse(word: str) -> Callable[[str], OutputVerdict]:
    return lambda text: OutputVerdict(action="reject", reason=f"says {word}") if word in text else PASS


def breaks(text: str) -> OutputVerdict:
    raise ValueError("broken")


def suspends(text: str) -> OutputVerdict:
    raise ControlFlowSignal


def live(lookback: int = 0, **given: Any) -> Judge:
    return Judge("live", incremental={"lookbackChars": lookback}, **given)


# -- modes ------------------------------------------------------------------------------------------


@pytest.mark.case("agents:M02")
@pytest.mark.parametrize(
    ("processors", "mode"),
    [([], "off"), ([live()], "incremental"), ([live(), Judge("w")], "whole"), ([Judge("e", incremental={})], "incremental"),
     ([Judge("n", incremental=False)], "whole")],
    ids=["none", "all", "one cannot", "no width", "says no"],
)  # fmt: skip
def test_the_mode_follows_from_what_processors_declare(processors: list[Judge], mode: GateMode) -> None:
    assert gate_mode(processors) == mode


def test_a_step_that_runs_elsewhere_is_held_back_whole() -> None:
    assert gate_mode([live()], is_dispatched=True) == "whole"
    assert gate_mode([], is_dispatched=True) == "off"


@pytest.mark.case("agents:M03")
def test_the_widest_lookback_counts_and_64_is_meant_when_nothing_is_said() -> None:
    assert lookback_of([live(3), live(9)]) == 9
    assert lookback_of([live(3), Judge("e", incremental={})]) == 64


@pytest.mark.parametrize("width", [-1, 1.5, "3", True], ids=repr)
def test_a_lookback_that_is_no_number_is_refused(width: Any) -> None:
    with pytest.raises(DefinitionError):
        lookback_of([live(width)])


# -- chains -----------------------------------------------------------------------------------------


def test_each_output_processor_is_given_what_the_one_before_made_of_it() -> None:
    second = Judge("second", lambda text: OutputVerdict(action="replace", text=text + "!"))
    verdict = run(run_output_chain([Judge("first", upper), Judge("pass"), second], "hi", [{"name": "x"}], CTX))
    assert (verdict, second.asked) == (GateVerdict(text="HI!"), [{"text": "HI", "toolCalls": [{"name": "x"}]}])


def test_the_first_refusal_ends_the_chain() -> None:
    last = Judge("last")
    verdict = run(run_output_chain([Judge("no", refuse("hi")), last], "hi", [], CTX))
    assert (verdict.rejection, last.asked) == ({"processor": "no", "reason": "says hi"}, [])
    with pytest.raises(OutputRejectedError) as caught:
        verdict.raise_if_rejected()
    assert (caught.value.processor, caught.value.reason) == ("no", "says hi")


@pytest.mark.parametrize(
    "answer",
    [breaks, lambda _: None, lambda _: "pass", lambda _: OutputVerdict(action="maybe"), lambda _: OutputVerdict(text=None)],  # type: ignore[arg-type]
    ids=["raises", "None", "a text", "unknown", "no text"],
)
def test_an_output_processor_that_does_not_say_what_it_means_is_broken(answer: Any) -> None:
    with pytest.raises(ProcessorFailedError) as caught:
        run(run_output_chain([Judge("pii", answer)], "hi", [], CTX))
    assert (caught.value.phase, caught.value.processor) == ("output", "pii")
    assert caught.value.__cause__ is not None


def test_a_processor_cannot_change_the_calls_of_the_answer() -> None:
    calls = [{"name": "x", "input": {"a": 1}}]

    class Meddler(Judge):
        def process(self, answer: Mapping[str, Any], ctx: ProcessorContext) -> Any:
            answer["toolCalls"][0]["input"]["a"] = 2
            return PASS

    run(run_output_chain([Meddler("m")], "hi", calls, CTX))
    assert calls == [{"name": "x", "input": {"a": 1}}]


class Masks:
    """An input processor."""

    def __init__(self, name: str, change: Callable[[Prompt], Any]) -> None:
        self.name = name
        self.change = change

    async def process(self, prompt: Prompt, ctx: ProcessorContext) -> Any:
        return self.change(prompt)


def test_input_processors_fold_in_order() -> None:
    def adding(words: str) -> Masks:
        return Masks(words, lambda prompt: Prompt(system=prompt.system + words, messages=prompt.messages))

    assert run(run_input_chain([adding("b"), adding("c")], Prompt(system="a", messages=()), CTX)).system == "abc"


def test_what_input_processors_do_never_reaches_the_transcript() -> None:
    results = [{"id": "c", "name": "n", "output": {"card": "4111"}}]
    message = ChatMessage(role="assistant", content="x", tool_results=results)

    def meddle(prompt: Prompt) -> Prompt:
        (prompt.messages[0].tool_results or [])[0]["output"]["card"] = "****"
        return prompt

    told = run(run_input_chain([Masks("m", meddle)], Prompt(system="", messages=[message]), CTX))
    assert (told.messages[0].tool_results or [])[0]["output"] == {"card": "****"}
    assert results == [{"id": "c", "name": "n", "output": {"card": "4111"}}]


@pytest.mark.parametrize("change", [lambda _: None, lambda _: breaks("")], ids=["None", "raises"])
def test_an_input_processor_that_breaks_ends_the_turn(change: Any) -> None:
    with pytest.raises(ProcessorFailedError) as caught:
        run(run_input_chain([Masks("mask", change)], Prompt(system="", messages=()), CTX))
    assert (caught.value.phase, caught.value.processor) == ("input", "mask")


def test_a_signal_of_the_runner_passes_every_chain() -> None:
    with pytest.raises(ControlFlowSignal):
        run(run_output_chain([Judge("s", suspends)], "hi", [], CTX))
    with pytest.raises(ControlFlowSignal):
        run(run_input_chain([Masks("s", lambda _: suspends(""))], Prompt(system="", messages=()), CTX))
    with pytest.raises(ControlFlowSignal):
        run(turn("incremental", [live(answer=suspends)], "hi"))


# -- a model's turn, and the release ----------------------------------------------------------------


REASONING = frame("reasoning", text="hm")


class Turn:
    """What became of a turn: what readers saw live, what is journaled, and what they saw after the verdict."""

    def __init__(self, live_lines: list[str], record: dict[str, Any]) -> None:
        self.live = live_lines
        self.record: dict[str, Any] = json.loads(json.dumps(record))


async def turn(mode: GateMode, processors: Sequence[Judge], *chunks: str) -> Turn:
    """Each chunk is a text, or a frame."""
    sink = FrameBuffer()
    writer = gate_writer(mode, sink, processors, CTX)
    for chunk in chunks:
        await writer.write(chunk if chunk.startswith(("{", "?")) else frame("text", text=chunk))
    await writer.flush()
    await writer.end()
    return Turn(sink.lines, writer.record())


def released(
    record: Mapping[str, Any], processors: Sequence[Judge], text: str, calls: Sequence[Mapping[str, Any]] = ()
) -> list[str]:
    async def story() -> list[str]:
        verdict = GateVerdict.from_json(json.loads(json.dumps((await judge(processors, text, calls, record, CTX)).to_json())))
        verdict.raise_if_rejected()
        return frames_to_release(record, verdict, processors)

    return run(story())


def words(lines: Sequence[str]) -> list[str]:
    return [event["text"] for event in map(decode_stream_event, lines) if event is not None and event["kind"] == "text"]


def test_without_processors_readers_see_it_live_and_nothing_is_held() -> None:
    done = run(turn("off", [], REASONING, "a", "b"))
    assert (words(done.live), done.record) == (["a", "b"], {})
    assert released(done.record, [], "ab") == []


@pytest.mark.case("agents:M02")
def test_whole_answers_are_released_as_one_frame() -> None:
    chain = [Judge("up", upper)]
    done = run(turn("whole", chain, REASONING, "a", "b"))
    assert (done.live, chain[0].asked) == ([], [])
    assert released(done.record, chain, "ab") == [REASONING, frame("text", text="AB")]
    assert chain[0].texts == ["ab"]


def test_a_growing_answer_is_released_but_for_its_end() -> None:
    chain = [live(3, answer=upper)]
    done = run(turn("incremental", chain, "ab", "cd", "efg"))
    assert words(done.live) == ["A", "BCD"]
    assert done.record == {"releasedText": "ABCD"}
    assert chain[0].texts == ["ab", "abcd", "abcdefg"]
    assert words(released(done.record, chain, "abcdefg")) == ["EFG"]


def test_a_growing_answer_is_judged_without_calls_and_the_whole_with_them() -> None:
    chain = [live(0)]
    done = run(turn("incremental", chain, "ab"))
    released(done.record, chain, "ab", [{"name": "x"}])
    assert [one["toolCalls"] for one in chain[0].asked] == [[], [{"name": "x"}]]


@pytest.mark.case("agents:M03")
def test_an_answer_shorter_than_the_window_is_one_frame_at_the_end() -> None:
    chain = [Judge("e", incremental={})]
    done = run(turn("incremental", chain, "a short ", "answer"))
    assert words(done.live) == []
    assert words(released(done.record, chain, "a short answer")) == ["a short answer"]


def test_other_frames_pass_live_and_what_nobody_can_read_never() -> None:
    done = run(
        turn("incremental", [live(0)], REASONING, "?garbage", '{"kind":3}', "a", frame("ui", id="u", component="T", props={}))
    )
    assert [(decode_stream_event(line) or {})["kind"] for line in done.live] == ["reasoning", "text", "ui"]


def test_a_text_that_does_not_go_on_from_what_was_seen_is_not_released() -> None:
    def turns(text: str) -> OutputVerdict:
        return OutputVerdict(action="replace", text="other" if len(text) == 2 else text)

    done = run(turn("incremental", [live(0, answer=turns)], "a", "b", "c"))
    assert words(done.live) == ["a", "bc"]


@pytest.mark.case("agents:M08")
def test_a_refused_prefix_shuts_the_gate_and_nobody_is_asked_again() -> None:
    chain = [live(0, answer=refuse("bad"))]
    done = run(turn("incremental", chain, "fine ", "bad ", "more", REASONING))
    asked = len(chain[0].asked)
    assert done.live == [frame("text", text="fine ")]
    assert done.record == {"releasedText": "fine ", "gateRejection": {"processor": "live", "reason": "says bad"}}
    with pytest.raises(OutputRejectedError, match="says bad"):
        released(done.record, chain, "fine bad more")
    assert asked == len(chain[0].asked) == 2


@pytest.mark.case("agents:M09")
def test_a_refusal_of_the_whole_releases_nothing_more() -> None:
    chain = [live(0, answer=lambda text: OutputVerdict(action="reject", reason="long") if len(text) > 3 else PASS)]
    done = run(turn("incremental", chain, "abc"))
    assert words(done.live) == ["abc"]
    with pytest.raises(OutputRejectedError):
        released(done.record, chain, "abcd")
    assert frames_to_release(done.record, GateVerdict(text="", rejection={"processor": "x", "reason": "y"})) == []


@pytest.mark.case("agents:M10")
def test_a_refusal_because_of_calls_is_found_on_the_whole_answer() -> None:
    class NoCalls(Judge):
        def process(self, answer: Mapping[str, Any], ctx: ProcessorContext) -> Any:
            return OutputVerdict(action="reject", reason="a call") if answer["toolCalls"] else PASS

    chain = [NoCalls("calls", incremental={"lookbackChars": 0})]
    done = run(turn("incremental", chain, "abc"))
    assert words(done.live) == ["abc"]
    with pytest.raises(OutputRejectedError, match="a call"):
        released(done.record, chain, "abc", [{"name": "x"}])


def test_a_processor_that_breaks_on_a_prefix_only_delays() -> None:
    chain = [live(0, answer=lambda text: breaks(text) if len(text) == 2 else PASS)]
    done = run(turn("incremental", chain, "a", "b", "c"))
    assert words(done.live) == ["a", "bc"]


def test_a_processor_that_breaks_on_the_whole_ends_the_turn() -> None:
    chain = [live(0, answer=breaks)]
    done = run(turn("incremental", chain, "a"))
    assert words(done.live) == []
    with pytest.raises(ProcessorFailedError):
        released(done.record, chain, "a")


def test_what_readers_have_seen_cannot_be_taken_back() -> None:
    def late(text: str) -> OutputVerdict:
        return OutputVerdict(action="replace", text=text.replace("4111", "****"))

    chain = [live(0, answer=late)]
    done = run(turn("incremental", chain, "card 41", "11"))
    assert words(done.live) == ["card 41"]
    with pytest.raises(ProcessorFailedError, match="released") as caught:
        released(done.record, chain, "card 4111")
    assert caught.value.processor == "live"


@pytest.mark.case("agents:M11")
def test_after_a_crash_only_the_held_tail_is_released() -> None:
    record = run(turn("incremental", [live(2)], "abc", "def")).record
    assert record == {"releasedText": "abcd"}
    assert words(released(record, [live(2)], "abcdef")) == ["ef"]


@pytest.mark.case("agents:M11")
@pytest.mark.parametrize("now", [[], [Judge("whole")], [live(9)]], ids=["none", "whole", "wider"])
def test_the_tail_follows_from_the_record_and_not_from_how_the_chain_is_declared_now(now: list[Judge]) -> None:
    assert words(released({"releasedText": "abcd"}, now, "abcdef")) == ["ef"]
    assert released({"frames": [REASONING, frame("text", text="x")]}, now, "abc") == [REASONING, frame("text", text="abc")]


def test_an_incremental_gate_tells_what_readers_have_seen() -> None:
    async def story() -> IncrementalGate:
        gate = IncrementalGate(FrameBuffer(), [live(50)], CTX, lookback=1)
        await gate.write(frame("text", text="ab") + "\n" + frame("text", text="c"))
        await gate.fail({"code": "x", "message": "y"})
        return gate

    gate = run(story())
    assert (gate.released_text, gate.rejection) == ("ab", None)
