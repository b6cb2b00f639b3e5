"""Frames: how they are written and read, the writers they pass, and what they add up to."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from loomnb.agents.frames import (
    DiscardWriter,
    FrameReader,
    TeeWriter,
    create_frame_buffer,
    decode_stream_event,
    frame,
    frame_lines,
    merged_ui,
    release_gated_frames,
)
from loomnb.errors import InvalidRequest, NotJson


def kinds(lines: list[str]) -> list[str]:
    return [(decode_stream_event(line) or {"kind": "?"})["kind"] for line in lines]


REASONING = frame("reasoning", text="hm")
TOOL = frame("tool-input-available", id="c1", name="look", input={}, tool_kind="read")


# -- writing and reading one ------------------------------------------------------------------------


def test_a_frame_is_one_line_of_camel_case_json() -> None:
    line = frame("tool-input-start", id="c1", name="look", tool_kind="action", parent_id="c0")
    assert json.loads(line) == {"kind": "tool-input-start", "id": "c1", "name": "look", "toolKind": "action", "parentId": "c0"}
    assert "\n" not in frame("text", text="two\nlines")


def test_an_absent_optional_is_left_out() -> None:
    assert json.loads(frame("tool-output-denied", id="c1", reason=None)) == {"kind": "tool-output-denied", "id": "c1"}
    assert json.loads(frame("step-finish", usage=None)) == {"kind": "step-finish"}


def test_none_is_told_where_it_is_a_value() -> None:
    assert json.loads(frame("tool-output", id="c1", output=None))["output"] is None
    assert json.loads(frame("tool-input-available", id="c1", name="n", input=None, tool_kind="read"))["input"] is None
    assert json.loads(frame("step-finish", cost_usd=None)) == {"kind": "step-finish", "costUsd": None}


@pytest.mark.parametrize("kind", ["read", "agent", "ask", "skill", "memory"])
def test_every_tool_that_is_no_action_is_told_as_read(kind: str) -> None:
    assert json.loads(frame("tool-input-start", id="c", name="n", tool_kind=kind))["toolKind"] == "read"


def test_a_frame_without_what_it_needs_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="toolKind"):
        frame("tool-input-start", id="c", name="n")


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}], ids=["NaN", "object", "set"])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(NotJson):
        frame("tool-output", id="c", output=value)


def test_half_a_surrogate_pair_can_be_written_to_a_file() -> None:
    line = frame("text", text="\ud83d")
    assert line.encode()
    assert decode_stream_event(line) == {"kind": "text", "text": "\ud83d"}


def test_unknown_kinds_are_written_and_read() -> None:
    assert decode_stream_event(frame("host-fact", some_thing=1)) == {"kind": "host-fact", "someThing": 1}


@pytest.mark.case("agents:L05")
@pytest.mark.parametrize(
    "line",
    ["", "not json", "3", '"text"', "[]", "null", "{}", '{"kind":3}', '{"kind":null}', '{"kind":"text","n":NaN}', "[" * 100_000],
    ids=["empty", "words", "number", "text", "list", "null", "no kind", "kind 3", "kind null", "NaN", "too deep"],
)
def test_a_line_that_is_no_event_decodes_to_none(line: str) -> None:
    assert decode_stream_event(line) is None


# -- writers ----------------------------------------------------------------------------------------


@pytest.mark.case("agents:L01")
def test_a_buffer_keeps_lines_in_write_order_and_splits_chunks() -> None:
    async def story() -> list[str]:
        buffer = create_frame_buffer()
        await buffer.write("a\nb\r\n\n  \n")
        await buffer.write("c")
        await buffer.flush()
        await buffer.fail({"code": "run_failed", "message": "x"})
        await buffer.end()
        await buffer.write("d\n")
        return buffer.lines

    assert asyncio.run(story()) == ["a", "b", "c", "d"]


def test_only_a_line_feed_ends_a_line() -> None:
    line = frame("text", text="a\u2028b\x85c")
    assert frame_lines(line + "\n") == [line]


def test_a_tee_hands_everything_to_all() -> None:
    async def story() -> tuple[list[str], list[str]]:
        one, other = create_frame_buffer(), create_frame_buffer()
        tee = TeeWriter(one, DiscardWriter(), other)
        await tee.write("a\nb")
        await tee.flush()
        await tee.fail({"code": "x", "message": "y"})
        await tee.end()
        return one.lines, other.lines

    assert asyncio.run(story()) == (["a", "b"], ["a", "b"])


class Clock:
    """Seconds that only a test moves on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_reader_derives_what_a_provider_does_not_say() -> None:
    async def story() -> tuple[FrameReader, list[str]]:
        clock, inner = Clock(), create_frame_buffer()
        reader = FrameReader(inner, clock)
        for at, line in [
            (1.0, frame("reasoning", text="let ")),
            (2.0, frame("reasoning", text="me see")),
            (2.5, frame("text", text="It is")),
            (4.0, frame("reasoning", text="!")),
            (4.25, frame("ui", id="a", component="Text", props={"text": "1"})),
            (5.0, frame("ui", id="b", component="Text", props={"text": "2"}, partial=True)),
            (6.0, frame("ui", id="c", component="Badge", props={}, version=2)),
            (6.0, frame("ui", id="a", component="Text", props={"text": "3"})),
        ]:
            clock.now = at
            await reader.write(line)
        await reader.end()
        return reader, inner.lines

    reader, lines = asyncio.run(story())
    assert reader.reasoning == "let me see!"
    assert reader.reasoning_ms == 1750
    assert reader.ui == [
        {"id": "a", "component": "Text", "props": {"text": "3"}},
        {"id": "c", "component": "Badge", "props": {}, "version": 2},
    ]
    assert len(lines) == 8


def test_a_reader_of_nothing_derives_nothing() -> None:
    async def story() -> FrameReader:
        reader = FrameReader(DiscardWriter(), Clock())
        await reader.write(frame("text", text="x"))
        await reader.write("nobody can read this")
        await reader.flush()
        await reader.fail({"code": "x", "message": "y"})
        return reader

    reader = asyncio.run(story())
    assert (reader.reasoning, reader.reasoning_ms, reader.ui) == (None, None, None)


def test_components_merge_by_id_and_keep_their_first_place() -> None:
    first = [{"id": "a", "component": "X", "props": 1}, {"id": "b", "component": "X", "props": 2}]
    assert [(one["id"], one["props"]) for one in merged_ui(first, [{"id": "a", "component": "X", "props": 3}])] == [
        ("a", 3),
        ("b", 2),
    ]


# -- release ----------------------------------------------------------------------------------------


@pytest.mark.case("agents:L02")
def test_gated_text_takes_the_place_of_the_first_text() -> None:
    frames = [REASONING, frame("text", text="a"), frame("text", text="b"), TOOL]
    assert release_gated_frames(frames, "gated") == [REASONING, frame("text", text="gated"), TOOL]


@pytest.mark.case("agents:L03")
def test_lines_that_nobody_can_read_are_dropped_and_replaced_once() -> None:
    frames = [REASONING, "garbage", TOOL, frame("text", text="a"), '{"kind":3}']
    assert release_gated_frames(frames, "gated") == [REASONING, frame("text", text="gated"), TOOL]


@pytest.mark.case("agents:L04")
def test_without_a_place_the_gated_text_stands_last() -> None:
    assert release_gated_frames([REASONING, TOOL], "gated") == [REASONING, TOOL, frame("text", text="gated")]


@pytest.mark.case("agents:L04")
def test_an_empty_gated_text_has_no_frame() -> None:
    assert kinds(release_gated_frames([REASONING, frame("text", text="a"), TOOL], "")) == ["reasoning", "tool-input-available"]
