"""The spans of a whole turn: model calls and tools below it, none again on a replay; a stop in mid-stream is quiet."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import ScriptedModel
from tests.agents.looping import ANN, Hooks, Journal, deps, tool, turn

export = pytest.importorskip("opentelemetry.sdk.trace.export", reason="the extra `dev` has opentelemetry-sdk")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
trace = pytest.importorskip("opentelemetry.trace")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    kept = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return kept.get_finished_spans


def test_a_turn_has_its_model_calls_and_tools_as_children(spans: Any) -> None:
    turn(deps([[("add", {})], "Done."], tool("add", lambda given, ctx: 1)), Journal())

    by_name = {span.name: span for span in spans()}
    above = by_name["invoke_agent default"]
    assert [span.name for span in spans()] == ["chat", "execute_tool add", "chat", "invoke_agent default"]
    assert {span.parent.span_id for span in spans() if span is not above} == {above.context.span_id}


def test_a_replay_makes_no_span(spans: Any) -> None:
    journal = Journal()
    configured = deps([[("add", {})], "Done."], tool("add", lambda given, ctx: 1))
    turn(configured, journal)
    before = len(spans())

    turn(configured, journal.again())

    assert len(spans()) == before


def test_a_failed_model_ends_its_span_and_the_turns_with_its_class_and_none_of_its_words(spans: Any) -> None:
    with pytest.raises(ValueError, match="secret"):
        turn(deps([ValueError("secret")]), Hooks())

    assert [span.attributes["error.type"] for span in spans()] == ["ValueError", "ValueError"]
    assert "secret" not in str([span.to_json() for span in spans()])


def test_a_turn_that_is_left_in_mid_stream_ends_its_spans_as_cancelled_and_logs_nothing(
    spans: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        reached = asyncio.Event()

        async def wait(turn: int, frame: Any) -> None:
            reached.set()
            await asyncio.Event().wait()

        configured = deps(ScriptedModel(["A long answer."], pause=wait))
        await configured.store.create_thread(actor=ANN, id="t1")
        given = loom.AgentTurnInput(thread_id="t1", actor=ANN, user_text="Go.")
        task = asyncio.ensure_future(loom.run_agent_loop(configured, given, Hooks()))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    gc.collect()

    assert [span.attributes["error.type"] for span in spans()] == ["cancelled", "cancelled"]
    assert caplog.records == []
