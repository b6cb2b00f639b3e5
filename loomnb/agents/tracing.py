"""Turns, model calls and tools as OpenTelemetry spans, in the words of its GenAI conventions (extra `otel`).

Without the library, or with nobody who set it up, nothing happens. A span is begun and ended by hand and its parent is given by
hand: it is never made the current one of a context behind anybody's back, because a context that an async generator is closed in
is another one than it began in. Metadata only: no prompt, no answer, no text of an error.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from loomnb.agents.control_flow import is_control_flow_signal
from loomnb.agents.failures import RunCancelledError
from loomnb.runtime import TurnResult

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["AgentSpan", "chat_span", "tool_span", "turn_span"]

_NAME = "loomnb.agents"

_USAGE: Mapping[str, str] = {
    "inputTokens": "gen_ai.usage.input_tokens",
    "outputTokens": "gen_ai.usage.output_tokens",
    "cacheReadTokens": "gen_ai.usage.cache_read.input_tokens",
    "cacheWriteTokens": "gen_ai.usage.cache_write.input_tokens",
    "reasoningTokens": "gen_ai.usage.reasoning.output_tokens",
}


@functools.cache
def _trace_api() -> ModuleType | None:
    try:
        from opentelemetry import trace  # noqa: PLC0415  # optional: the extra `otel`
    except ImportError:
        return None
    return trace


class AgentSpan:
    """A span that ends once, by hand or at the end of a `with`; later calls do nothing.

    A `with` ends it as what happened: well, with an error (of which only the class is told), as cancelled (a stopped run, a
    cancelled task, a generator that was left early), or, for a signal of the runner, as well and suspended.
    """

    def __init__(self, span: Span | None) -> None:
        self._span = span

    @property
    def is_recording(self) -> bool:
        """Whether anybody keeps it."""
        return self._span is not None and self._span.is_recording()

    def set(self, **attributes: str | float | bool | None) -> None:
        """Say more of it: `loomnb.<name>`; None says nothing."""
        for name, value in attributes.items():
            self._set(f"loomnb.{name}", value)

    def set_usage(self, usage: Mapping[str, int]) -> None:
        """Say how many tokens were used, as a `TurnResult` has them."""
        for name, attribute in _USAGE.items():
            self._set(attribute, usage.get(name))

    def set_result(self, result: TurnResult) -> None:
        """Say what a model's turn gave, but not its words."""
        self._set("gen_ai.response.model", result.model_id or None)
        self._set("gen_ai.response.finish_reasons", (result.finish_reason,) if result.finish_reason else None)
        self.set_usage(result.usage)
        self.set(cost_usd=result.cost_usd)

    def current(self) -> AbstractContextManager[object]:
        """Make it the current span while a coroutine does something within, so that spans of other libraries are its children.

        Never around a `yield`: see the module.
        """
        api = _trace_api()
        if api is None or self._span is None:
            return nullcontext()
        return _used(self._span)

    def end(self) -> None:
        """It went well."""
        if self._span is not None:
            self._span.end()
            self._span = None

    def fail(self, error: BaseException) -> None:
        """It ended with an error."""
        self._end_as(type(error).__qualname__)

    def cancel(self) -> None:
        """Nobody waited for its end."""
        self._end_as("cancelled")

    def _end_as(self, error_type: str) -> None:
        api = _trace_api()
        if api is not None and self._span is not None:
            self._span.set_attribute("error.type", error_type)
            self._span.set_status(api.StatusCode.ERROR, error_type)
        self.end()

    def _set(self, name: str, value: str | float | bool | tuple[str, ...] | None) -> None:
        if self._span is not None and value is not None:
            self._span.set_attribute(name, value)

    @property
    def otel_span(self) -> Span | None:
        """The span itself; None when it ended, or without the library."""
        return self._span

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.end()
        elif isinstance(error, (asyncio.CancelledError, GeneratorExit, RunCancelledError)):
            self.cancel()
        elif is_control_flow_signal(error):
            self.set(suspended=True)
            self.end()
        else:
            self.fail(error)


@contextmanager
def _used(span: Span) -> Generator[None, None, None]:
    from opentelemetry import trace  # noqa: PLC0415  # there: the span is one of its

    with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        yield


Parent: TypeAlias = "AgentSpan | None"


def turn_span(
    *,
    agent: str,
    thread_id: str | None = None,
    run_id: str | None = None,
    model: str | None = None,
    parent: Parent = None,
    tracer: Tracer | None = None,
) -> AgentSpan:
    """The span of one turn of an agent, begun.

    Args:
        agent: its name.
        thread_id: the conversation.
        run_id: told as `loomnb.run_id`.
        model: the model that is asked for.
        parent: the turn that handed the task over; None: the span that is current here, if any.
        tracer: makes the span; None: the process's own.
    """
    told = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": thread_id,
        "gen_ai.request.model": model,
        "loomnb.run_id": run_id,
    }
    return _begun(f"invoke_agent {agent}", "INTERNAL", told, parent, tracer)


def chat_span(
    *,
    model: str | None = None,
    provider: str | None = None,
    thread_id: str | None = None,
    step: int | None = None,
    purpose: str | None = None,
    parent: Parent = None,
    tracer: Tracer | None = None,
) -> AgentSpan:
    """The span of one call of a model, begun. `set_result` says what it gave.

    Args:
        model: the model that is asked for.
        provider: who runs it, in the conventions' words (`openai`, `anthropic`, …).
        thread_id: the conversation.
        step: of the turn, from 0; told as `loomnb.step`.
        purpose: as in a usage row (`chat`, `follow_ups`, …); told as `loomnb.purpose`.
        parent: the span of the turn; None: the span that is current here, if any.
        tracer: makes the span; None: the process's own.
    """
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.conversation.id": thread_id,
        "loomnb.step": step,
        "loomnb.purpose": purpose,
    }
    return _begun(f"chat {model}" if model else "chat", "CLIENT", told, parent, tracer)


def tool_span(
    *, name: str, call_id: str | None = None, kind: str | None = None, parent: Parent = None, tracer: Tracer | None = None
) -> AgentSpan:
    """The span of one execution of a tool, begun.

    Args:
        name: the tool's.
        call_id: of the call, as the model knows it.
        kind: `read`, `action`, …; told as `loomnb.tool_kind`.
        parent: the span of the turn; None: the span that is current here, if any.
        tracer: makes the span; None: the process's own.
    """
    told = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.type": "function",
        "loomnb.tool_kind": kind,
    }
    return _begun(f"execute_tool {name}", "INTERNAL", told, parent, tracer)


def _begun(
    name: str, kind: Literal["INTERNAL", "CLIENT"], told: Mapping[str, Any], parent: Parent, tracer: Tracer | None
) -> AgentSpan:
    api = _trace_api()
    if api is None:
        return AgentSpan(None)
    maker: Tracer = tracer if tracer is not None else api.get_tracer(_NAME)
    above = parent.otel_span if parent is not None else None
    span = maker.start_span(
        name,
        context=api.set_span_in_context(above) if above is not None else None,
        kind=api.SpanKind[kind],
        attributes={key: value for key, value in told.items() if value is not None},
    )
    return AgentSpan(span)
