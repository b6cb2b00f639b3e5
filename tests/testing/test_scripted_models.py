"""Models that say what a script or a record says: what they write, what they give, and that they can be told from real ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from loomnb.errors import InvalidRequest, NotFound, Refused
from loomnb.runtime import AbortSignal, ToolRequest, TurnRequest, TurnResult
from loomnb.testing import RecordingModel, Said, ScriptedModel
from tests.helpers import PATIENCE


class Sink:
    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []

    async def write(self, line: str) -> None:
        assert line.endswith("\n")
        self.frames += [json.loads(one) for one in line.splitlines()]

    async def end(self) -> None: ...
    async def fail(self, failure: Mapping[str, str]) -> None: ...
    async def flush(self) -> None: ...


QUESTION = {"role": "user", "content": "Hello?"}


def played(model: Any, sink: Sink | None = None, /, messages: Any = (QUESTION,), **more: Any) -> TurnResult:
    return asyncio.run(model.run_turn(TurnRequest(system="Help.", messages=messages, sink=sink, **more)))


# -- scripted ------------------------------------------------------------------------------------------


def test_a_text_is_written_word_by_word() -> None:
    sink = Sink()
    result = played(ScriptedModel(["One two  three."]), sink)

    assert [frame["text"] for frame in sink.frames] == ["One ", "two ", " ", "three."]
    assert result.text == "One two  three."


def test_a_turn_may_say_everything_at_once() -> None:
    sink = Sink()
    said = Said(text="Yes.", reasoning="Hm.", tools=[("add", {"a": 1})], usage={"inputTokens": 3}, cost=0.5)
    result = played(ScriptedModel([said]), sink)

    assert [frame["kind"] for frame in sink.frames] == ["reasoning", "text", "tool-input-start", "tool-input-delta"]
    assert (result.text, result.reasoning, result.usage, result.cost_usd) == ("Yes.", "Hm.", {"inputTokens": 3}, 0.5)
    assert result.tool_calls == (ToolRequest(id="call-0-add", name="add", input={"a": 1}),)
    assert result.finish_reason == "tool-calls"


@pytest.mark.parametrize(
    ("said", "is_turn"),
    [
        ({"text": "a", "tools": []}, True),
        ({"text": "a", "usage": {"inputTokens": 1}}, True),
        ({"text": "a", "cost": 1.0}, True),
        ({"text": "a"}, False),
        ({"outcome": "done"}, False),
        ({"outcome": "done", "tools": []}, False),
    ],
    ids=["tools", "usage", "cost", "text alone", "output", "output with tools"],
)
def test_where_an_output_is_asked_for_a_dict_is_a_turn_when_it_has_what_only_a_turn_has(
    said: dict[str, Any], is_turn: bool
) -> None:
    result = played(ScriptedModel([said]), output_schema={"type": "object"})

    assert (result.text, result.object) == (("a", None) if is_turn else ("", said))


def test_where_no_output_is_asked_for_a_dict_of_a_turns_fields_is_a_turn() -> None:
    assert played(ScriptedModel([{"text": "a", "reasoning": "b"}])).text == "a"


def test_ids_of_tools_count_up_and_may_be_given() -> None:
    result = played(ScriptedModel([[("add", 1), ("add", 2), ("add", 3, "mine")]]))

    assert [call.id for call in result.tool_calls] == ["call-0-add", "call-0-add-2", "mine"]


def test_the_turn_is_counted_by_the_models_own_messages() -> None:
    answered = {"role": "assistant", "content": "a"}

    assert played(ScriptedModel(["a", "b", "c"]), messages=[QUESTION, answered, QUESTION, answered]).text == "c"


def test_it_waits_where_a_test_wants_it_to() -> None:
    async def story() -> list[str]:
        gate, reached, sink = asyncio.Event(), asyncio.Event(), Sink()

        async def pause(turn: int, frame: Mapping[str, Any]) -> None:
            if (turn, frame["text"]) == (0, "two"):
                reached.set()
                await gate.wait()

        told = TurnRequest(system="", messages=[QUESTION], sink=sink)
        task = asyncio.create_task(ScriptedModel(["one two"], pause=pause).run_turn(told))
        await reached.wait()
        before = [frame["text"] for frame in sink.frames]
        gate.set()
        await task
        return [*before, *[frame["text"] for frame in sink.frames]]

    assert asyncio.run(story()) == ["one ", "one ", "two"]


def test_an_abort_ends_it_while_it_waits() -> None:
    async def story() -> None:
        signal, reached = AbortSignal(), asyncio.Event()

        async def pause(turn: int, frame: Mapping[str, Any]) -> None:
            reached.set()
            await asyncio.Event().wait()

        told = TurnRequest(system="", messages=[QUESTION], signal=signal)
        task = asyncio.create_task(ScriptedModel(["one"], pause=pause).run_turn(told))
        await reached.wait()
        signal.abort(InvalidRequest("Enough."))
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)

    asyncio.run(story())


def test_it_says_on_its_face_that_it_is_no_real_model() -> None:
    model = ScriptedModel(["a"])

    assert played(model).model_id == model.model_id == "scripted"
    assert "no real model" in model.label
    assert "no real model" in repr(model)


# -- recorded ------------------------------------------------------------------------------------------


def test_what_was_asked_once_is_not_asked_again(tmp_path: Path) -> None:
    inner = ScriptedModel(
        [Said(text="Yes indeed.", tools=[("add", {"a": 1})], usage={"inputTokens": 3}, cost=0.5, reasoning="Hm.")]
    )
    live, replayed = Sink(), Sink()
    first = played(RecordingModel(inner, tmp_path / "tape.json"), live)
    second = played(RecordingModel(None, tmp_path / "tape.json"), replayed)

    assert first == second
    assert live.frames == replayed.frames
    assert len(inner.requests) == 1


@pytest.mark.parametrize(
    "change",
    [{"messages": [{"role": "user", "content": "Bye?"}]}, {"role": "review"}, {"model": "other"}, {"settings": {"seed": 1}}],
    ids=["messages", "role", "model", "settings"],
)
def test_another_request_is_not_on_record(tmp_path: Path, change: dict[str, Any]) -> None:
    played(RecordingModel(ScriptedModel(["a"]), tmp_path / "tape.json"))
    with pytest.raises(NotFound, match=r"tape\.json"):
        played(RecordingModel(None, tmp_path / "tape.json"), **change)


def test_the_same_request_twice_has_two_answers_in_order(tmp_path: Path) -> None:
    answers = iter(["first", "second"])
    recording = RecordingModel(ScriptedModel(lambda request, turn: next(answers)), tmp_path / "tape.json")
    live = [played(recording).text, played(recording).text]
    tape = RecordingModel(None, tmp_path / "tape.json")

    assert live == [played(tape).text, played(tape).text] == ["first", "second"]


def test_what_is_missing_is_asked_for_and_added(tmp_path: Path) -> None:
    played(RecordingModel(ScriptedModel(["a"]), tmp_path / "tape.json"))
    more = RecordingModel(ScriptedModel(["b"]), tmp_path / "tape.json")

    assert played(more).text == "a"
    assert played(more, role="review").text == "b"
    assert played(RecordingModel(None, tmp_path / "tape.json"), role="review").text == "b"


def test_a_failure_is_not_put_on_record(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        played(RecordingModel(ScriptedModel([]), tmp_path / "tape.json"))

    assert not (tmp_path / "tape.json").exists()


def test_a_script_that_is_at_its_end_says_what_helps_and_that_trying_again_does_not() -> None:
    with pytest.raises(Refused, match="turn number 1: it has 0") as caught:
        played(ScriptedModel([]))

    assert "Add what it says next to the script" in caught.value.advice
    assert "retry" not in caught.value.advice
    assert not caught.value.retryable


@pytest.mark.parametrize("text", ["", "[]", '{"version": 9}', '{"version": 1, "turns": [{}]}'], ids=repr)
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tape.json").write_text(text)
    with pytest.raises(Refused, match="no record"):
        RecordingModel(None, tmp_path / "tape.json")
