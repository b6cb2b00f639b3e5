"""Spans of turns, model calls and tools: begun and ended by hand, in the words of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pytest

from loomnb.agents import tracing
from loomnb.agents.control_flow import ControlFlowSignal
from loomnb.agents.failures import RunCancelledError
from loomnb.agents.tracing import AgentSpan, chat_span, tool_span, turn_span
from loomnb.runtime import TurnResult

export = pytest.importorskip("opentelemetry.sdk.trace.export", reason="the extra `dev` has opentelemetry-sdk")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
trace = pytest.importorskip("opentelemetry.trace")


class Traced:
    """A tracer, and the spans that it has ended."""

    def __init__(self) -> None:
        self._kept = memory.InMemorySpanExporter()
        provider = sdk.TracerProvider()
        provider.add_span_processor(export.SimpleSpanProcessor(self._kept))
        self.tracer = provider.get_tracer("test")

    @property
    def ended(self) -> list[Any]:
        return list(self._kept.get_finished_spans())

    @property
    def one(self) -> Any:
        (span,) = self.ended
        return span


@pytest.fixture
def traced() -> Traced:
    return Traced()


def test_a_turn_has_the_conventions_names(traced: Traced) -> None:
    turn_span(agent="guide", thread_id="t", run_id="r", model="m", tracer=traced.tracer).end()
    assert (traced.one.name, traced.one.kind, traced.one.status.status_code) == (
        "invoke_agent guide",
        trace.SpanKind.INTERNAL,
        trace.StatusCode.UNSET,
    )
    assert dict(traced.one.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "guide",
        "gen_ai.conversation.id": "t",
        "gen_ai.request.model": "m",
        "loomnb.run_id": "r",
    }


def test_a_model_call_says_what_it_used_and_none_of_its_words(traced: Traced) -> None:
    usage = {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 4, "cacheWriteTokens": 2, "reasoningTokens": 1}
    with chat_span(model="m", provider="openai", step=0, purpose="chat", tracer=traced.tracer) as span:
        assert span.is_recording
        span.set_result(TurnResult(text="a secret", usage=usage, model_id="m-1", cost_usd=0.5))
    assert (traced.one.name, traced.one.kind) == ("chat m", trace.SpanKind.CLIENT)
    assert dict(traced.one.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_write.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "loomnb.step": 0,
        "loomnb.purpose": "chat",
        "loomnb.cost_usd": 0.5,
    }


def test_what_is_unknown_of_a_model_call_is_left_out(traced: Traced) -> None:
    with chat_span(tracer=traced.tracer) as span:
        span.set_result(TurnResult(finish_reason=""))
    assert (traced.one.name, dict(traced.one.attributes)) == ("chat", {"gen_ai.operation.name": "chat"})


def test_a_tool_has_the_conventions_names(traced: Traced) -> None:
    tool_span(name="pay", call_id="c1", kind="action", tracer=traced.tracer).end()
    assert traced.one.name == "execute_tool pay"
    assert dict(traced.one.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "loomnb.tool_kind": "action",
    }


def test_a_parent_is_given_by_hand(traced: Traced) -> None:
    with turn_span(agent="a", tracer=traced.tracer) as turn:
        assert not trace.get_current_span().get_span_context().is_valid
        with chat_span(parent=turn, tracer=traced.tracer):
            pass
    chat, turn_ended = traced.ended
    assert chat.parent.span_id == turn_ended.context.span_id


def test_the_current_span_of_the_caller_is_the_parent_of_a_turn(traced: Traced) -> None:
    with traced.tracer.start_as_current_span("mine"):
        turn_span(agent="a", tracer=traced.tracer).end()
    turn, mine = traced.ended
    assert turn.parent.span_id == mine.context.span_id


def test_spans_of_other_libraries_can_be_children(traced: Traced) -> None:
    with turn_span(agent="a", tracer=traced.tracer) as turn:
        with turn.current():
            traced.tracer.start_span("http").end()
        assert not trace.get_current_span().get_span_context().is_valid
    http, turn_ended = traced.ended
    assert http.parent.span_id == turn_ended.context.span_id


def test_a_failure_tells_only_its_class(traced: Traced) -> None:
    with pytest.raises(KeyError), tool_span(name="t", tracer=traced.tracer):
        raise KeyError("a secret")
    assert traced.one.status.status_code is trace.StatusCode.ERROR
    assert traced.one.attributes["error.type"] == "KeyError"
    assert (traced.one.status.description, traced.one.events) == ("KeyError", ())


@pytest.mark.parametrize("error", [asyncio.CancelledError, RunCancelledError, GeneratorExit], ids=lambda e: e.__name__)
def test_what_was_stopped_is_ended_as_cancelled(traced: Traced, error: type[BaseException]) -> None:
    with pytest.raises(error), turn_span(agent="a", tracer=traced.tracer):
        raise error
    assert (traced.one.status.status_code, traced.one.attributes["error.type"]) == (trace.StatusCode.ERROR, "cancelled")


def test_a_suspended_turn_is_no_failure(traced: Traced) -> None:
    with pytest.raises(ControlFlowSignal), turn_span(agent="a", tracer=traced.tracer):
        raise ControlFlowSignal
    assert (traced.one.status.status_code, traced.one.attributes["loomnb.suspended"]) == (trace.StatusCode.UNSET, True)


def test_a_span_ends_once(traced: Traced) -> None:
    span = turn_span(agent="a", tracer=traced.tracer)
    span.end()
    span.fail(ValueError())
    span.cancel()
    span.set(more=1)
    assert traced.one.status.status_code is trace.StatusCode.UNSET
    assert not span.is_recording


async def _leave(stream: AsyncGenerator[str, None]) -> None:
    async for _ in stream:
        return


def test_leaving_a_stream_early_ends_its_span_as_cancelled_and_logs_nothing(
    traced: Traced, caplog: pytest.LogCaptureFixture
) -> None:
    async def stream() -> AsyncGenerator[str, None]:
        with turn_span(agent="a", tracer=traced.tracer):
            yield "a"
            yield "b"

    async def story() -> None:
        await _leave(stream())
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.get_running_loop().shutdown_asyncgens()

    asyncio.run(story())
    gc.collect()
    assert traced.one.attributes["error.type"] == "cancelled"
    assert caplog.records == []


@pytest.fixture
def _no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    tracing._trace_api.cache_clear()
    yield
    tracing._trace_api.cache_clear()


MAKERS: list[Callable[[], AgentSpan]] = [lambda: turn_span(agent="a"), chat_span, lambda: tool_span(name="t")]


@pytest.mark.usefixtures("_no_library")
@pytest.mark.parametrize("make", MAKERS, ids=["turn", "chat", "tool"])
def test_without_the_library_nothing_happens(make: Callable[[], AgentSpan]) -> None:
    with make() as span, span.current():
        span.set_result(TurnResult(usage={"inputTokens": 1}))
        span.set(more=True)
    span.cancel()
    assert (span.is_recording, span.otel_span) == (False, None)


def test_with_nobody_who_set_it_up_nothing_is_kept() -> None:
    with turn_span(agent="a") as span:
        assert not span.is_recording
