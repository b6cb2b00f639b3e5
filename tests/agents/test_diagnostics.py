"""What agents tell of themselves: metadata, to those who listen, whom nothing they do can disturb."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loomnb.agents import diagnostics
from loomnb.agents.diagnostics import EVENTS, SPANS, publish, span, subscribe
from loomnb.agents.failures import QuotaExceededError
from loomnb.errors import InvalidRequest

Listen = Callable[[str], list[Any]]


@pytest.fixture
def listen() -> Iterator[Listen]:
    ends: list[Callable[[], None]] = []

    def to(event: str) -> list[Any]:
        heard: list[Any] = []
        ends.append(subscribe(event, heard.append))
        return heard

    yield to
    for end in ends:
        end()
    assert diagnostics._LISTENERS == {}


def test_the_envelope_says_what_when_and_of_which_run(listen: Listen) -> None:
    heard = listen("run.started")
    publish("run.started", {"runId": "r", "threadId": "t", "actorId": "ann"}, "r", ts=12)
    assert heard == [
        {
            "v": 1,
            "ts": 12,
            "lib": "agent",
            "event": "run.started",
            "traceId": "r",
            "payload": {"runId": "r", "threadId": "t", "actorId": "ann"},
        }
    ]


def test_without_a_trace_the_envelope_has_none_and_the_clock_is_of_this_century(listen: Listen) -> None:
    heard = listen("message")
    publish("message", {"runId": "r"})
    assert "traceId" not in heard[0]
    assert heard[0]["ts"] > 1_600_000_000_000


def test_only_what_the_table_names_is_told(listen: Listen) -> None:
    heard = listen("message")
    publish("message", {"runId": "r", "role": "user", "textLength": 3, "text": "a secret", "threadId": None})
    assert heard[0]["payload"] == {"runId": "r", "role": "user", "textLength": 3}


def test_a_star_hears_everything(listen: Listen) -> None:
    heard = listen("*")
    for event in EVENTS:
        publish(event, {})
    assert [one["event"] for one in heard] == list(EVENTS)


def test_a_channel_may_be_named_in_full(listen: Listen) -> None:
    heard = listen("aviary:agent:delegated")
    publish("delegated", {"toAgent": "b"})
    publish("retrieved", {"count": 1})
    assert [one["event"] for one in heard] == ["delegated"]


def test_who_unsubscribed_hears_nothing_and_the_others_go_on(listen: Listen) -> None:
    heard: list[Any] = []
    first, second = subscribe("message", heard.append), subscribe("message", heard.append)
    first()
    first()
    publish("message", {})
    assert len(heard) == 1
    second()
    publish("message", {})
    assert len(heard) == 1


def test_a_listener_that_raises_or_meddles_disturbs_nobody(listen: Listen) -> None:
    def meddles(envelope: Any) -> None:
        envelope["payload"].clear()
        raise RuntimeError("mine")

    end = subscribe("message", meddles)
    heard = listen("message")
    publish("message", {"runId": "r"})
    end()
    assert heard[0]["payload"] == {"runId": "r"}


class NobodyReadsMe(dict[str, Any]):
    def items(self) -> Any:
        raise AssertionError


def test_without_listeners_nothing_is_made() -> None:
    publish("message", NobodyReadsMe())


@pytest.mark.parametrize("event", ["run.begun", "llm.turn", ""])
def test_unknown_events_are_refused_even_when_nobody_listens(event: str) -> None:
    with pytest.raises(InvalidRequest):
        publish(event, {})


async def waits(envelope: Any) -> None: ...


@pytest.mark.parametrize(
    ("event", "listener"), [("run.begun", print), ("message", waits), ("message", None)], ids=["event", "async", "None"]
)
def test_a_subscription_that_could_hear_nothing_is_refused(event: str, listener: Any) -> None:
    with pytest.raises(InvalidRequest):
        subscribe(event, listener)


class Clock:
    def __init__(self, *times: float) -> None:
        self.times = list(times)

    def __call__(self) -> float:
        return self.times.pop(0)


def test_a_span_tells_its_begin_and_its_end(listen: Listen) -> None:
    heard, ends = listen("llm.turn"), listen("llm.turn:end")

    async def story() -> None:
        async with span("llm.turn", {"runId": "r", "step": 0, "prompt": "secret"}, Clock(1.0, 1.25)):
            pass

    asyncio.run(story())
    assert [(one["event"], one["traceId"], one["payload"]) for one in heard] == [
        ("llm.turn:start", "r", {"runId": "r", "step": 0}),
        ("llm.turn:end", "r", {"runId": "r", "step": 0, "durationMs": 250.0}),
    ]
    assert ends == heard[1:]


@pytest.mark.parametrize(
    ("error", "code"),
    [(QuotaExceededError(), "quota_exceeded"), (KeyError("secret"), "run_failed"), (asyncio.CancelledError(), "cancelled")],
    ids=["quota", "other", "cancelled"],
)
def test_a_span_that_fails_tells_the_class_and_passes_the_error_on(listen: Listen, error: BaseException, code: str) -> None:
    heard = listen("tool.execution")

    async def story() -> None:
        async with span("tool.execution", {"runId": "r", "toolName": "t"}, Clock(0.0, 1.0)):
            raise error

    with pytest.raises(type(error)):
        asyncio.run(story())
    assert heard[-1]["event"] == "tool.execution:error"
    assert heard[-1]["payload"] == {
        "runId": "r",
        "toolName": "t",
        "durationMs": 1000.0,
        "error": type(error).__name__,
        "code": code,
    }


def test_an_unknown_span_is_refused() -> None:
    async def story() -> None:
        async with span("llm.turns", {}):
            pass

    with pytest.raises(InvalidRequest):
        asyncio.run(story())


def test_every_event_has_a_name_of_its_own() -> None:
    names = {value for name in diagnostics.__all__ if isinstance(value := getattr(diagnostics, name), str)}
    assert names == {*EVENTS, *SPANS, diagnostics.CHANNEL}
