"""An agent step with a vendor's model: the vendor's library over a socket, and how its failures end the run."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents.providers import VendorModel
from loomnb.testing import ProtocolServer, Reply
from tests.blueprints.agenting import agent_flow, error_of, finished, played, tool
from tests.helpers import PATIENCE

pytestmark = pytest.mark.usefixtures("session")

KEY = "nobodys-key-4711"


def anthropic(server: ProtocolServer) -> VendorModel:
    return VendorModel("anthropic:claude-opus-5-5", api_key=KEY, base_url=server.root, first_wait=0.0)


def openai(server: ProtocolServer) -> VendorModel:
    return VendorModel("openai:gpt-6-astra", api_key=KEY, base_url=server.url, first_wait=0.0)


each_vendor = pytest.mark.parametrize("vendor", [anthropic, openai])


@each_vendor
def test_an_agent_step_uses_its_tool_and_ends(vendor: Callable[[ProtocolServer], VendorModel]) -> None:
    given: list[Any] = []
    replies = [Reply(tools=[("tool", {"a": 1})]), Reply(text='{"outcome": "done"}')]
    with ProtocolServer(replies) as server:
        run = played(agent_flow(tool(lambda value, access: given.append(value))), vendor(server))

    assert (run.status, given, len(server.requests)) == ("completed", [{"a": 1}], 2)


@pytest.mark.case("blueprints:AT-15")
@each_vendor
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(status=404, message=f"No model for {KEY}."), "LLM_REQUEST_FAILED"),
        (Reply(body=f"<html>{KEY}</html>"), "LLM_RESPONSE_INVALID"),
        (Reply(text="I would rather not."), "AGENT_OUTPUT_INVALID"),
    ],
    ids=["404", "unparsable", "no JSON"],
)
def test_a_provider_that_fails_is_asked_once_and_its_key_shows_nowhere(
    vendor: Callable[[ProtocolServer], VendorModel],
    reply: Reply,
    code: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.INFO)
    with ProtocolServer([reply]) as server:
        run = played(agent_flow(), vendor(server))
        view = run.view()

    assert error_of(run) == code
    assert view.last_error is not None
    assert view.last_error.retryable is False
    assert len(server.requests) == 1
    stored = json.dumps(loom.sql("select * from journal").fetchall(), default=str)
    assert KEY not in "".join([repr(view), repr(run), str(run.error), stored, caplog.text, *capfd.readouterr()])


@each_vendor
def test_stopping_the_run_hangs_up_on_its_provider(vendor: Callable[[ProtocolServer], VendorModel]) -> None:
    with ProtocolServer([Reply(text="x", hold=threading.Event())]) as server:
        run = loom.flow(agent_flow(), "intent", models=vendor(server))
        assert server.arrived.wait(PATIENCE)
        run.cancel()
        finished(run)
        assert server.gone.wait(PATIENCE)

    assert (run.status, len(server.requests)) == ("canceled", 1)


@each_vendor
def test_a_busy_provider_is_asked_again(vendor: Callable[[ProtocolServer], VendorModel]) -> None:
    with ProtocolServer([Reply(status=429), Reply(text='{"outcome": "done"}')]) as server:
        run = played(agent_flow(), vendor(server))

    assert (run.status, len(server.requests)) == ("completed", 2)
