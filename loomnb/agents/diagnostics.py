"""What goes on in agents, for those who watch: events on channels `aviary:agent:<event>`, and who listens to them.

Metadata only: of an event nothing is told but the fields that stand in the tables below, and none of them holds what was asked or
answered (but `retrieved.query`). Listening disturbs nothing: an error of a listener is dropped, and without listeners an event
costs a look into a table. The loop publishes within its checkpoints, so a replay tells nothing twice.
Rule: contracts/agents.md §1.12.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from loomnb.agents.failures import agent_failure_code
from loomnb.errors import InvalidRequest

__all__ = [
    "CHANNEL",
    "DELEGATED",
    "EVENTS",
    "FOLLOW_UPS",
    "LLM_TURN",
    "MEMORY_RESOLVED",
    "MEMORY_WRITTEN",
    "MESSAGE",
    "QUOTA_EXCEEDED",
    "RETRIEVAL",
    "RETRIEVED",
    "RUN_FAILED",
    "RUN_FINISHED",
    "RUN_STARTED",
    "SKILLS_RESOLVED",
    "SPANS",
    "STRUCTURED_OUTPUT",
    "TOOL_CALL",
    "TOOL_EXECUTION",
    "TOOL_RETRY",
    "Envelope",
    "Listener",
    "publish",
    "span",
    "subscribe",
]

CHANNEL: Final = "aviary:agent:"
"""What every channel's name begins with."""

RUN_STARTED: Final = "run.started"
MESSAGE: Final = "message"
TOOL_CALL: Final = "tool-call"
QUOTA_EXCEEDED: Final = "quota.exceeded"
RUN_FAILED: Final = "run.failed"
RUN_FINISHED: Final = "run.finished"
DELEGATED: Final = "delegated"
RETRIEVED: Final = "retrieved"
SKILLS_RESOLVED: Final = "skills.resolved"
MEMORY_RESOLVED: Final = "memory.resolved"
MEMORY_WRITTEN: Final = "memory.written"
TOOL_RETRY: Final = "tool.retry"

LLM_TURN: Final = "llm.turn"
TOOL_EXECUTION: Final = "tool.execution"
RETRIEVAL: Final = "retrieval"
FOLLOW_UPS: Final = "follow-ups"
STRUCTURED_OUTPUT: Final = "structured-output"


def _fields(words: str) -> frozenset[str]:
    return frozenset(words.split())


_RESOLVED = "runId scopes offered omitted promptChars"

EVENTS: Final[Mapping[str, frozenset[str]]] = {
    RUN_STARTED: _fields("runId threadId actorId agentName persona"),
    MESSAGE: _fields("runId threadId role textLength"),
    TOOL_CALL: _fields("runId toolName toolType status durationMs"),
    QUOTA_EXCEEDED: _fields("actorId period reason usedTokens limitTokens usedUsd limitUsd"),
    RUN_FAILED: _fields("runId code message"),
    RUN_FINISHED: _fields("runId threadId steps inputTokens outputTokens"),
    DELEGATED: _fields("runId fromAgent toAgent detached"),
    RETRIEVED: _fields("runId query count"),
    SKILLS_RESOLVED: _fields(_RESOLVED),
    MEMORY_RESOLVED: _fields(f"{_RESOLVED} pinnedOmitted recalled"),
    MEMORY_WRITTEN: _fields("runId scope chars"),
    TOOL_RETRY: _fields("toolName toolCallId attempt message"),
}
"""Every event, and what may be told of it."""

SPANS: Final[Mapping[str, frozenset[str]]] = {
    LLM_TURN: _fields("runId step"),
    TOOL_EXECUTION: _fields("runId toolCallId toolName toolType"),
    RETRIEVAL: _fields("runId queryLength topK"),
    FOLLOW_UPS: _fields("runId step count"),
    STRUCTURED_OUTPUT: _fields("runId step attempt"),
}
"""Every span, and what may be told of it. It is told as `<span>:start`, then `<span>:end` or `<span>:error`."""

_PHASES: Mapping[str, frozenset[str]] = {
    "start": frozenset(),
    "end": _fields("durationMs"),
    "error": _fields("durationMs error code"),
}
_TOLD: Mapping[str, frozenset[str]] = {
    **EVENTS,
    **{f"{name}:{phase}": names | more for name, names in SPANS.items() for phase, more in _PHASES.items()},
}

Envelope: TypeAlias = Mapping[str, Any]
"""`{"v": 1, "ts", "lib": "agent", "event", "traceId"?, "payload"}`; `ts` in milliseconds since 1970."""

Listener: TypeAlias = Callable[[Envelope], object]

_GUARD = threading.Lock()
_LISTENERS: dict[str, tuple[Listener, ...]] = {}
"""Channel name without its beginning, or `*` → who listens. The tuples are replaced, never changed, so readers need no lock."""


def subscribe(event: str, listener: Listener) -> Callable[[], None]:
    """Listen to an event, in the whole process. What is returned ends that.

    Args:
        event: one of `EVENTS`; a span of `SPANS`, for all it tells, or one part of it (`llm.turn:end`); `*` for everything. The
            channel's full name (`aviary:agent:…`) is fine too.
        listener: given the envelope, a copy of its own; called at once where the event happens, on its thread, so it is short
            and not async. What it raises is dropped.

    Raises:
        InvalidRequest: there is no such event, or the listener is async or no function.
    """
    name = event.removeprefix(CHANNEL)
    if name != "*" and name not in _TOLD and name not in SPANS:
        raise InvalidRequest(f"Agents tell of no event {event!r}.", advice=f"There are: {', '.join([*EVENTS, *SPANS])}, and *.")
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        raise InvalidRequest(f"The listener of {event!r} is no plain function.")
    names = [f"{name}:{phase}" for phase in _PHASES] if name in SPANS else [name]
    with _GUARD:
        for one in names:
            _LISTENERS[one] = (*_LISTENERS.get(one, ()), listener)
    is_over = False

    def unsubscribe() -> None:
        nonlocal is_over
        with _GUARD:
            if is_over:  # the same listener may be there twice: each time is ended once
                return
            is_over = True
            for one in names:
                left = list(_LISTENERS[one])
                left.remove(listener)
                if left:
                    _LISTENERS[one] = tuple(left)
                else:
                    del _LISTENERS[one]

    return unsubscribe


def publish(event: str, payload: Mapping[str, Any], trace_id: str | None = None, *, ts: int | None = None) -> None:
    """Tell of an event. Never raises for anything that a listener does.

    Args:
        event: one of `EVENTS`, or a part of a span.
        payload: camelCase; None leaves a field out, and so does a name that does not stand in the table.
        trace_id: of what it is a part: the run's id.
        ts: when, in milliseconds since 1970; None: now.

    Raises:
        InvalidRequest: there is no such event.
    """
    allowed = _TOLD.get(event)
    if allowed is None:
        raise InvalidRequest(f"Agents tell of no event {event!r}.")
    listeners = (*_LISTENERS.get(event, ()), *_LISTENERS.get("*", ()))
    if not listeners:
        return
    told = {key: value for key, value in payload.items() if key in allowed and value is not None}
    envelope: dict[str, Any] = {"v": 1, "ts": time.time_ns() // 1_000_000 if ts is None else ts, "lib": "agent", "event": event}
    if trace_id is not None:
        envelope["traceId"] = trace_id
    for listener in listeners:
        try:
            listener({**envelope, "payload": dict(told)})
        except Exception:  # noqa: BLE001  # whoever watches must not disturb what is watched
            continue


@asynccontextmanager
async def span(name: str, payload: Mapping[str, Any], monotonic: Callable[[], float] = time.monotonic) -> AsyncIterator[None]:
    """Tell that something begins, and how it ended and after how long. Its trace is the payload's `runId`.

    `<name>:start` and `<name>:end` have the payload; the end has `durationMs` beside it. After an exception, which is passed on,
    `<name>:error` comes instead of the end, with the `error`'s class and its failure `code` (`cancelled` when the task was).

    Args:
        name: one of `SPANS`.
        payload: camelCase.
        monotonic: the clock, in seconds.

    Raises:
        InvalidRequest: there is no such span.
    """
    if name not in SPANS:
        raise InvalidRequest(f"Agents tell of no span {name!r}.")
    run_id = payload.get("runId")
    trace_id = run_id if isinstance(run_id, str) else None
    began = monotonic()
    publish(f"{name}:start", payload, trace_id)
    try:
        yield
    except BaseException as error:
        is_stop = isinstance(error, (asyncio.CancelledError, GeneratorExit))
        facts = {
            "durationMs": _since(began, monotonic),
            "error": type(error).__name__,
            "code": "cancelled" if is_stop else agent_failure_code(error),
        }
        publish(f"{name}:error", {**payload, **facts}, trace_id)
        raise
    publish(f"{name}:end", {**payload, "durationMs": _since(began, monotonic)}, trace_id)


def _since(began: float, monotonic: Callable[[], float]) -> float:
    return round((monotonic() - began) * 1000, 3)
