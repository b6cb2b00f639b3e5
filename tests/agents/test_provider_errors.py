"""What goes wrong with a model: which of our errors it is, how often it is tried, who is told of a wait; and no key shows."""

from __future__ import annotations

import asyncio
import builtins
import json
import logging
import socket
import sys
import traceback
from typing import Any

import pytest

from loomnb.agents.providers import (
    ModelAuthFailed,
    ModelError,
    ModelPackageMissing,
    ModelRateLimited,
    ModelResponseInvalid,
    VendorModel,
    openai_compatible,
)
from loomnb.errors import InvalidRequest, WorldFailed, is_loom_error
from loomnb.runtime import TurnRequest
from loomnb.testing import ProtocolServer, Reply
from tests.agents.providing import KEY, KINDS, OUTCOME, Sink, asked, model_for

each_kind = pytest.mark.parametrize("kind", KINDS)
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def failing(kind: str, *replies: Reply, **options: Any) -> tuple[ModelError, int]:
    """What a turn raises, and how many requests it made."""
    with ProtocolServer(replies) as server:
        model = model_for(kind, server, **options)
        with pytest.raises(ModelError) as caught:
            asked(model)
    assert server.unexpected == 0
    return caught.value, len(server.requests)


# -- once ----------------------------------------------------------------------------------------------


@each_kind
@both_ways
@pytest.mark.parametrize(
    ("status", "kind_of", "code"),
    [
        (400, ModelError, "LLM_REQUEST_FAILED"),
        (401, ModelAuthFailed, "LLM_AUTH_FAILED"),
        (403, ModelAuthFailed, "LLM_AUTH_FAILED"),
        (404, ModelError, "LLM_REQUEST_FAILED"),
        (422, ModelError, "LLM_REQUEST_FAILED"),
    ],
)
def test_what_trying_again_cannot_help_is_asked_once(
    kind: str, stream: bool, status: int, kind_of: type[ModelError], code: str
) -> None:
    error, requests = failing(kind, Reply(status=status, message="No such thing."), stream=stream)

    assert (type(error), error.code, error.status, error.retryable, requests) == (kind_of, code, status, False, 1)
    assert "No such thing." in str(error)


@each_kind
@both_ways
@pytest.mark.parametrize(
    "reply",
    [
        Reply(body="<html>"),
        Reply(body="{}"),
        Reply(body="[1]"),
        Reply(body=""),
        Reply(body="<html>", content_type="text/html"),
        Reply(body="data: {nonsense\n\n", content_type="text/event-stream"),
        Reply(body="", content_type="text/event-stream"),
    ],
    ids=["no JSON", "empty object", "list", "nothing", "a page", "a broken stream", "an empty stream"],
)
def test_an_unreadable_answer_is_asked_for_once(kind: str, stream: bool, reply: Reply) -> None:
    error, requests = failing(kind, reply, stream=stream)

    assert (type(error), error.code, error.retryable, requests) == (ModelResponseInvalid, "LLM_RESPONSE_INVALID", False, 1)


def test_an_account_without_credit_is_not_asked_again() -> None:
    body = json.dumps({"error": {"message": "No credit.", "type": "insufficient_quota", "code": "insufficient_quota"}})

    error, requests = failing("responses", Reply(status=429, body=body))

    assert (type(error), error.retryable, requests) == (ModelError, False, 1)


# -- again ---------------------------------------------------------------------------------------------


@each_kind
@both_ways
@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_a_busy_or_broken_service_is_asked_again(kind: str, stream: bool, status: int) -> None:
    with ProtocolServer([Reply(status=status), "Here."]) as server:
        assert asked(model_for(kind, server, stream=stream)).text == "Here."

    assert len(server.requests) == 2


@each_kind
def test_a_service_that_stays_broken_is_asked_as_often_as_allowed(kind: str) -> None:
    error, requests = failing(kind, *[Reply(status=503)] * 2, attempts=2)

    assert (type(error), error.code, error.status, error.retryable, requests) == (ModelError, "LLM_REQUEST_FAILED", 503, True, 2)


@each_kind
def test_a_service_that_cannot_be_reached_may_be_later(kind: str) -> None:
    with ProtocolServer() as server:
        model = model_for(kind, server, attempts=2)
    with pytest.raises(ModelError) as caught:
        asked(model)

    assert (caught.value.code, caught.value.retryable) == ("LLM_REQUEST_FAILED", True)


@each_kind
def test_a_wait_is_as_long_as_the_service_says_and_told_in_the_sink(kind: str) -> None:
    with ProtocolServer([Reply(status=429, headers={"retry-after-ms": "10"}), "Here."]) as server:
        sink = Sink()
        asked(model_for(kind, server), sink=sink)

    assert sink.frames[0] == {"kind": "waiting", "seconds": 0.01, "reason": "rate-limited"}
    assert sink.text() == "Here."


@pytest.mark.parametrize("is_async", [False, True])
def test_a_wait_is_told_to_who_asked_for_it_instead(is_async: bool) -> None:
    waits: list[tuple[float, str]] = []

    def plain(seconds: float, reason: str) -> None:
        waits.append((seconds, reason))

    async def coroutine(seconds: float, reason: str) -> None:
        waits.append((seconds, reason))

    with ProtocolServer([Reply(status=503), Reply(status=503), "Here."]) as server:
        sink = Sink()
        asked(model_for("chat", server, on_wait=coroutine if is_async else plain), sink=sink)

    assert waits == [(0.0, "unavailable")] * 2
    assert sink.of("waiting") == []


@each_kind
def test_a_wait_that_is_too_long_is_not_begun(kind: str) -> None:
    error, requests = failing(kind, Reply(status=429, headers={"retry-after": "3600"}))

    assert (type(error), error.retry_after, error.retryable, requests) == (ModelRateLimited, 3600, True, 1)
    assert error.code == "LLM_RATE_LIMITED"


def test_a_connection_that_breaks_before_the_answer_is_tried_again() -> None:
    with ProtocolServer([Reply(text="x", cut_after=0), "Here."]) as server:
        assert asked(model_for("messages", server, stream=True)).text == "Here."


# -- no key shows --------------------------------------------------------------------------------------


def everything_said(error: BaseException) -> str:
    """What of an error anybody could print, log or store: with its causes, and the values in the frames that are ours."""
    found = traceback.TracebackException.from_exception(error, capture_locals=False)
    chain = [error, error.__cause__, error.__context__]
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__) if "loomnb" in frame.f_code.co_filename]
    chain += [RuntimeError(repr(values)) for values in frames if "reply" not in values and "replies" not in values]
    return "\n".join([*found.format(), *map(repr, chain), *(repr(vars(one)) for one in chain if one is not None)])


@each_kind
@both_ways
@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=401, message=f"Incorrect API key provided: {KEY}."),
        Reply(status=500, message=f"authorization: Bearer {KEY}"),
        Reply(status=404, body=f"no {KEY} here"),
        Reply(body=f"<html>{KEY}</html>", content_type="text/plain"),
        Reply(text="x", error_in_stream=f"x-api-key {KEY} is bad"),
    ],
    ids=["401", "500", "404", "unreadable", "in the stream"],
)
def test_a_key_that_a_service_echoes_shows_nowhere(
    kind: str, stream: bool, reply: Reply, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    with ProtocolServer([reply]) as server:
        sink = Sink()
        model = model_for(kind, server, attempts=1, stream=stream)
        error: BaseException | None = None
        try:
            asked(model, sink=sink)
        except ModelError as exc:
            error = exc

    texts = [repr(model), json.dumps(sink.frames), caplog.text, *capfd.readouterr()]
    assert KEY not in "".join(texts)
    if error is not None:
        assert KEY not in everything_said(error)
        assert error.__cause__ is None
        assert error.__context__ is None


def test_a_key_of_somebody_elses_is_taken_out_by_its_look() -> None:
    error, _ = failing("chat", Reply(status=400, message="Your key sk-proj-abcdef123456 is not mine."))

    assert "sk-proj" not in str(error)


@pytest.mark.parametrize("url", ["http://me:hunter22@127.0.0.1:9", "http://127.0.0.1:9/v1?key=hunter22"], ids=["user", "query"])
def test_an_address_with_a_secret_in_it_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(InvalidRequest) as compatible:
        openai_compatible(url, "m")
    with pytest.raises(InvalidRequest) as vendor:
        VendorModel("openai:x", base_url=url)

    assert "hunter22" not in repr(compatible.value) + repr(vendor.value)


def test_what_goes_in_headers_of_ones_own_shows_nowhere() -> None:
    settings = {"extra_headers": {"x-gateway": "a-word-to-pass"}}
    error, _ = failing("chat", Reply(status=400, message="a-word-to-pass is wrong"), settings=settings)

    assert "a-word-to-pass" not in everything_said(error)


# -- packages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "model", "extra"),
    [
        ("pydantic_ai", "anthropic:x", "loomnb[anthropic]"),
        ("pydantic_ai", "groq:x", "loomnb[agents]"),
        ("tenacity", "openai:x", "loomnb[openai]"),
        ("anthropic", "anthropic:x", "loomnb[anthropic]"),
        ("openai", "openai:x", "loomnb[openai]"),
        ("openai", "openai-chat:x", "loomnb[openai]"),
    ],
)
def test_a_missing_library_names_what_installs_it(module: str, model: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return original(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith(("pydantic_ai.models.", "pydantic_ai.providers."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModelPackageMissing) as caught:
        asked(VendorModel(model, api_key=KEY))

    assert (caught.value.extra, caught.value.code, caught.value.retryable) == (extra, "LLM_PACKAGE_MISSING", False)
    assert f'pip install "{extra}"' in str(caught.value)


# -- the family ----------------------------------------------------------------------------------------


def test_all_of_them_are_failures_of_the_world_and_ours() -> None:
    error, _ = failing("chat", Reply(status=404))

    assert isinstance(error, WorldFailed)
    assert is_loom_error(error)


def test_a_server_that_says_nothing_until_the_time_out_may_answer_later() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        model = openai_compatible(url, "m", attempts=1, settings={"timeout": 0.05})
        with pytest.raises(ModelError) as caught:
            asked(model)

    assert (caught.value.code, caught.value.retryable) == ("LLM_REQUEST_FAILED", True)


def test_output_that_does_not_fit_is_left_to_who_asked_for_it() -> None:
    with ProtocolServer(["Not JSON."]) as server:
        result = asyncio.run(
            model_for("messages", server).run_turn(
                TurnRequest(system="", messages=[{"role": "user", "content": "?"}], output_schema=OUTCOME)
            )
        )

    assert (result.text, result.object, len(server.requests)) == ("Not JSON.", None, 1)
