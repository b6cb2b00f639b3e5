"""The two tools for workflows, called in a workflow against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents.mcp.errors import McpSecurityError
from loomnb.agents.mcp.tools import McpCallTool, McpListToolsTool
from loomnb.tools import execute, spec_of
from tests.agents.mcp_servers import Front, calculator, serving
from tests.helpers import at_rest

CONFIG = {"allowedHosts": ["127.0.0.1"], "allowInsecureHttp": True, "allowPrivateHosts": True}


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[str, Front]]:
    with serving(calculator().streamable_http_app()) as served:
        yield served


@pytest.fixture
def url(shared: tuple[str, Front]) -> str:
    return f"{shared[0]}/mcp"


def test_they_have_the_names_of_the_contract() -> None:
    assert spec_of(McpListToolsTool).name == "mcp_list_tools"
    assert spec_of(McpCallTool).name == "mcp_call"
    assert set(spec_of(McpCallTool).json_schema()["properties"]) == {
        "serverUrl",
        "toolName",
        "arguments",
        "transport",
        "timeoutMs",
    }


def test_a_workflow_lists_and_calls(session: loom.Loom, url: str) -> None:
    @loom.workflow
    class Adding(loom.BaseWorkflow):
        def __init__(self, listing: McpListToolsTool, calling: McpCallTool) -> None:
            self.listing, self.calling = listing, calling

        @loom.transition(to="end")
        async def add(self, state: Any) -> None:
            found = await self.listing.call({"serverUrl": url}, config=CONFIG)
            given = await self.calling.call(
                {"serverUrl": url, "toolName": found.data["tools"][0]["name"], "arguments": {"a": 2, "b": 3}}, config=CONFIG
            )
            self.set_result(given.data["structuredContent"])

    run = at_rest(session.start(Adding))

    assert (run.status, run.result) == ("completed", {"sum": 5})


def test_a_tool_that_fails_is_an_error_with_what_it_said(url: str) -> None:
    args = {"serverUrl": url, "toolName": "drop", "arguments": {"table": "t"}}
    envelope = asyncio.run(execute(McpCallTool(), args, {"config": CONFIG}))

    assert envelope.error == "Error executing tool drop"
    assert envelope.data["isError"] is True
    with pytest.raises(loom.ToolFailed, match="drop"):
        asyncio.run(McpCallTool().call(args, config=CONFIG))


def test_a_host_that_is_not_listed_is_refused(url: str) -> None:
    with pytest.raises(McpSecurityError, match="not on the list"):
        asyncio.run(McpListToolsTool().call({"serverUrl": url}, config=CONFIG | {"allowedHosts": ["mcp.example.com"]}))


@pytest.mark.case("workflows:O10")
@pytest.mark.parametrize("config", [None, {}, {"allowedHosts": []}, CONFIG | {"proxy": "x"}], ids=str)
def test_a_call_without_a_sound_configuration_is_refused(config: Any) -> None:
    with pytest.raises(loom.ArgsInvalid, match="configuration"):
        McpListToolsTool().call({"serverUrl": "https://mcp.example.com"}, config=config)


@pytest.mark.parametrize(
    "wrong",
    [{"timeoutMs": 900_001}, {"timeoutMs": 0}, {"transport": "stdio"}, {"toolName": ""}, {"serverUrl": None}, {"headers": {}}],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(loom.ArgsInvalid):
        McpCallTool().call({"serverUrl": "https://mcp.example.com", "toolName": "t"} | wrong, config=CONFIG)
