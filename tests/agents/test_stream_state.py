"""What frames add up to, as a reader sees it; older states never change."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from functools import reduce
from typing import Any

import pytest

from loomnb.agents.frames import frame
from loomnb.agents.memory_sink import MemorySink
from loomnb.agents.stream_state import MessageState, reduce_frames, reduce_stream


def after(*lines: str | Mapping[str, Any]) -> MessageState:
    return reduce(reduce_frames, lines, MessageState())


def text(words: str) -> str:
    return frame("text", text=words)


CALL = frame("tool-input-available", id="c1", name="pay", input={"sum": 3}, tool_kind="action")


@pytest.mark.case("workflows:N14")
def test_deltas_of_two_messages_are_reduced_independently() -> None:
    states: Mapping[str, MessageState] = {}
    for message, words in [("a", "one "), ("b", "uno "), ("a", "two"), ("b", "due")]:
        states = reduce_stream(states, message, text(words))
    assert {key: state.text for key, state in states.items()} == {"a": "one two", "b": "uno due"}


@pytest.mark.case("workflows:N14")
def test_older_states_are_left_as_they_were() -> None:
    older: list[tuple[Mapping[str, MessageState], Mapping[str, MessageState]]] = []
    states: Mapping[str, MessageState] = {}
    for line in [
        text("a"),
        CALL,
        text("b"),
        frame("tool-output", id="c1", output=1),
        frame("ui", id="u", component="T", props={}),
    ]:
        older.append((states, copy.deepcopy(states)))
        states = reduce_stream(states, "a", line)
        states = reduce_stream(states, "b", line)
    assert all(kept == copied for kept, copied in older)
    assert reduce_stream(states, "a", text("!"))["b"] is states["b"]


@pytest.mark.case("workflows:N14")
def test_an_error_keeps_the_partial_text_and_marks_completed() -> None:
    state = after(text("half an ans"), {"kind": "error", "code": "run_failed", "message": "gone"}, {"kind": "done"})
    assert (state.text, state.status, state.error) == ("half an ans", "completed", {"code": "run_failed", "message": "gone"})


@pytest.mark.case("workflows:N14")
def test_a_delta_without_a_beginning_creates_the_entry() -> None:
    assert reduce_stream({}, "new", text("hi"))["new"].text == "hi"
    card = after(frame("tool-input-delta", id="c1", delta='{"a"')).tools["c1"]
    assert (card.input_text, card.status) == ('{"a"', "preparing")


def test_parts_keep_the_order_of_the_stream_and_do_not_cross_steps() -> None:
    state = after(
        frame("step-start"), frame("reasoning", text="h"), frame("reasoning", text="m"), text("a"), CALL, frame("step-finish"),
        frame("step-start"), text("b"), text("c"), frame("step-finish", cost_usd=None, model="m1"), {"kind": "done"},
    )  # fmt: skip
    assert [(part.kind, part.content, part.step) for part in state.parts] == [
        ("reasoning", "hm", 1),
        ("text", "a", 1),
        ("tool", "c1", 1),
        ("text", "bc", 2),
    ]
    assert (state.text, state.reasoning, state.status) == ("abc", "hm", "completed")
    assert state.steps == ({}, {"costUsd": None, "model": "m1"})


ASKED = frame("approval-requested", id="c1", approver="admin", expires_at="2026-01-01T00:00:00Z", confirmation={"title": "Pay?"})


def settled(status: str, **more: Any) -> str:
    return frame("approval-settled", id="c1", status=status, **more)


LIVES = {
    "announced": ([], "running"),
    "done": ([frame("tool-output", id="c1", output=None)], "done"),
    "failed": ([frame("tool-output-error", id="c1", error="no")], "failed"),
    "asked": ([ASKED], "waiting"),
    "approved": ([ASKED, settled("approved")], "running"),
    "approved and done": ([ASKED, settled("approved"), frame("tool-output", id="c1", output=1)], "done"),
    "rejected": ([ASKED, settled("rejected"), frame("tool-output-denied", id="c1")], "denied"),
    "expired": ([ASKED, settled("expired"), frame("tool-output-denied", id="c1")], "expired"),
    "denied unasked": ([frame("tool-output-denied", id="c1", reason="closed")], "denied"),
    "decided late": ([ASKED, frame("tool-output", id="c1", output=1), settled("approved")], "done"),
    "questions": ([frame("elicitation", id="c1", request={"id": "c1", "source": "ask", "questions": []})], "waiting"),
}


@pytest.mark.parametrize(("lines", "status"), LIVES.values(), ids=LIVES)
def test_a_card_has_the_status_of_its_call(lines: list[str], status: str) -> None:
    assert after(CALL, *lines).tools["c1"].status == status


def test_a_card_knows_its_input_and_who_decided() -> None:
    card = after(CALL, ASKED, settled("approved", decided_by="ann", decided_via="panel", remember=True)).tools["c1"]
    assert (card.name, card.kind, card.input) == ("pay", "action", {"sum": 3})
    approval = card.approval
    assert approval is not None
    assert (approval.approver, approval.status, approval.decided_by, approval.decided_via) == (
        "admin",
        "approved",
        "ann",
        "panel",
    )
    assert (approval.remember, approval.confirmation) == (True, {"title": "Pay?"})


def test_open_approvals_are_those_still_pending() -> None:
    assert [card.id for card in after(CALL, ASKED).approvals] == ["c1"]
    assert after(CALL, ASKED, settled("rejected", reason="no")).approvals == ()


def test_components_replace_by_id_and_previews_can_be_taken_back() -> None:
    preview = frame("ui", id="u", component="Text", props={"text": "a"}, partial=True)
    gone = frame("ui", id="u", component="Text", props={}, partial=True)
    final = frame("ui", id="u", component="Text", props={"text": "ab"})
    assert after(preview, final).ui["u"]["props"] == {"text": "ab"}
    assert after(preview, gone).ui == {}
    assert after(preview, gone).parts == ()
    assert after(final, gone).ui["u"]["props"] == {"text": "ab"}


def test_a_stopped_message_stays_stopped() -> None:
    assert after(text("a"), frame("cancelled"), {"kind": "done"}).status == "cancelled"


def test_title_queue_and_facts_are_kept() -> None:
    queue = {"items": [], "paused": None}
    state = after(frame("title", title="Trip"), frame("queue", queue=queue), frame("message-metadata", host="x"))
    assert (state.title, state.queue, state.facts) == ("Trip", queue, {"host": "x"})


@pytest.mark.parametrize(
    "line",
    ["garbage", frame("brand-new", x=1), '{"kind":"text"}', '{"kind":"text","text":3}', '{"kind":"tool-output","id":"c"}'],
    ids=["garbage", "unknown", "no text", "no words", "no output"],
)
def test_what_says_nothing_gives_the_very_same_state(line: str) -> None:
    state = after(text("a"))
    assert reduce_frames(state, line) is state


# -- the sink in memory -----------------------------------------------------------------------------


async def read(sink: MemorySink, run: str) -> list[str]:
    return [line async for line in sink.subscribe(run)]


def test_a_late_reader_reads_from_the_first_frame_then_follows() -> None:
    async def story() -> tuple[list[str], list[str]]:
        sink = MemorySink()
        early = asyncio.create_task(read(sink, "r"))
        await asyncio.sleep(0)
        writer = sink.open("r")
        await writer.write("a\nb")
        late = asyncio.create_task(read(sink, "r"))
        await asyncio.sleep(0)
        await writer.write("c")
        await writer.end()
        await writer.write("too late")
        return await early, await late

    assert asyncio.run(story()) == (["a", "b", "c"], ["a", "b", "c"])


def test_a_run_that_goes_on_writes_to_the_same_stream() -> None:
    async def story() -> list[str]:
        sink = MemorySink()
        await sink.open("r").write("a")
        again = sink.open("r")
        await again.write("b")
        await again.end()
        return await read(sink, "r")

    assert asyncio.run(story()) == ["a", "b"]


def test_a_failure_is_the_last_frame() -> None:
    async def story() -> MessageState:
        sink = MemorySink()
        writer = sink.open("r")
        await writer.write(text("half"))
        await writer.fail({"code": "run_failed", "message": "gone"})
        return after(*await read(sink, "r"))

    state = asyncio.run(story())
    assert (state.text, state.status, state.error) == ("half", "completed", {"code": "run_failed", "message": "gone"})


def test_closing_ends_readers_and_forgets() -> None:
    async def story() -> tuple[list[str], list[str]]:
        sink = MemorySink()
        await sink.open("r").write("a")
        reader = asyncio.create_task(read(sink, "r"))
        await asyncio.sleep(0)
        sink.close("r")
        return await reader, await read(sink, "r")

    assert asyncio.run(story()) == (["a"], [])


def test_who_leaves_early_leaves_nothing_behind() -> None:
    async def story() -> int:
        sink = MemorySink()
        writer = sink.open("r")
        await writer.write("a")
        stream = sink.subscribe("r")
        assert await anext(stream) == "a"
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await stream.aclose()
        await writer.write("b")
        return len(sink._streams["r"].waiting)

    assert asyncio.run(story()) == 0


def test_a_writer_on_another_loop_wakes_its_readers() -> None:
    async def story() -> list[str]:
        sink = MemorySink()
        reader = asyncio.create_task(read(sink, "r"))
        await asyncio.sleep(0)

        def elsewhere() -> None:
            async def write() -> None:
                writer = sink.open("r")
                await writer.write("a")
                await writer.end()

            asyncio.run(write())

        await asyncio.to_thread(elsewhere)
        return await reader

    assert asyncio.run(story()) == ["a"]
