"""A server's tools as tools of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.types import ListToolsResult, Tool

import loomnb as loom
from loomnb.agents import DefaultRolesPolicy, ToolRegistry, tool_of
from loomnb.agents.mcp.client import CommandServer
from loomnb.agents.mcp.errors import McpSecurityError, McpTransportError
from loomnb.agents.mcp.toolset import McpTools, mcp_tools
from loomnb.agents.spi import Actor, ToolContext, ToolScope
from loomnb.runtime import AbortSignal
from tests.agents.mcp_servers import COMMAND, Front, calculator, serving

OPEN: dict[str, Any] = {"allow_insecure_http": True, "allow_private_hosts": True}
CTX = ToolContext(actor=Actor(id="ann"))


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[str, Front]]:
    with serving(calculator().streamable_http_app()) as served:
        yield served


@pytest.fixture(scope="module")
def tools(shared: tuple[str, Front]) -> McpTools:
    return asyncio.run(mcp_tools(f"{shared[0]}/mcp", prefix="calc_", roles=["clerk"], **OPEN))


def executed(tools: McpTools, name: str, arguments: Any, ctx: ToolContext = CTX) -> Any:
    found = next(tool for tool in tools if tool.remote_name == name)
    return asyncio.run(found.handler.execute(arguments, ctx))


def test_each_tool_of_the_server_is_one_of_the_agents(tools: McpTools) -> None:
    spec = tools[0].spec

    assert spec.name == "calc_add"
    assert spec.description == "Adds two numbers."
    assert spec.input_schema["properties"]["a"]["type"] == "integer"
    assert spec.roles == ("clerk",)
    assert spec.presentation == {"label": "Sum"}
    assert len(tools) == len([*tools]) == 6


def test_what_only_reads_is_a_read_and_everything_else_an_action(tools: McpTools) -> None:
    assert [tool.spec.kind for tool in tools] == ["read", "action", "action", "action", "action", "action"]
    assert tools[1].spec.presentation == {"label": "drop", "tone": "destructive"}


def test_who_does_not_trust_the_server_says_what_reads(shared: tuple[str, Front]) -> None:
    found = asyncio.run(mcp_tools(f"{shared[0]}/mcp", read_only=["draw"], **OPEN))

    assert [tool.remote_name for tool in found if tool.spec.kind == "read"] == ["draw"]


def test_data_is_given_as_data_and_text_as_text(tools: McpTools) -> None:
    assert executed(tools, "add", {"a": 2, "b": 3}) == {"sum": 5}
    assert executed(tools, "say.it", {"text": "hello"}) == "hello"


def test_the_bytes_of_images_and_files_are_left_out(tools: McpTools) -> None:
    attached = executed(tools, "attach", {})["content"][0]

    assert attached["resource"] == {"uri": "loom://dot", "base64Length": 8}
    assert executed(tools, "draw", None) == {
        "content": [{"type": "text", "text": "a dot"}, {"type": "image", "mimeType": "image/png", "base64Length": 8}]
    }


def test_a_tool_that_fails_raises_what_it_said(tools: McpTools) -> None:
    with pytest.raises(loom.ToolFailed, match="Error executing tool drop") as caught:
        executed(tools, "drop", {"table": "t"})
    assert caught.value.tool == "calc_drop"


def test_a_call_nobody_waits_for_is_over(tools: McpTools) -> None:
    signal = AbortSignal()
    signal.abort(InterruptedError("stopped"))

    with pytest.raises(InterruptedError):
        executed(tools, "hang", {}, ToolContext(actor=Actor(id="ann"), abort_signal=signal))


def test_the_registry_takes_them_and_judges_their_input(tools: McpTools) -> None:
    registry = ToolRegistry()
    for tool in tools:
        registry.register(*tool_of(tool))
    ctx = ToolContext(actor=Actor(id="ann", roles=("clerk",)))
    policy = DefaultRolesPolicy()

    assert asyncio.run(registry.invoke("calc_add", {"a": 2, "b": 3}, ctx, policy)) == {"sum": 5}
    with pytest.raises(loom.LoomError) as caught:
        asyncio.run(registry.invoke("calc_add", {"a": "x"}, ctx, policy))
    assert type(caught.value).__name__ == "ToolInputInvalidError"
    offered = asyncio.run(registry.definitions_for(ctx.actor, policy))
    assert [tool.name for tool in offered] == [tool.spec.name for tool in tools]


def test_a_pattern_of_javascript_is_left_to_the_server() -> None:
    schema = {
        "type": "object",
        "properties": {"day": {"type": "string", "pattern": "(?<year>[0-9]{4})"}, "pattern": {"type": "integer"}},
        "patternProperties": {"(?<x>y)": {"type": "string"}},
    }

    async def listing(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="dated", input_schema=schema)])

    with serving(Server("dates", on_list_tools=listing).streamable_http_app()) as (url, _):
        (tool,) = asyncio.run(mcp_tools(f"{url}/mcp", **OPEN))

    assert tool.spec.input_schema["properties"] == {"day": {"type": "string"}, "pattern": {"type": "integer"}}


def test_a_tool_with_a_schema_that_is_none_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def listing(ctx: Any, params: Any) -> ListToolsResult:
        broken = {"type": "object", "properties": {"a": {"type": "nonsense"}}}
        return ListToolsResult(tools=[Tool(name="bad", input_schema=broken), Tool(name="good", input_schema={"type": "object"})])

    with serving(Server("half", on_list_tools=listing).streamable_http_app()) as (url, _):
        tools = asyncio.run(mcp_tools(f"{url}/mcp", **OPEN))

    assert [tool.remote_name for tool in tools] == ["good"]
    assert "'bad'" in caplog.text


def test_a_command_is_a_server_too() -> None:
    tools = asyncio.run(mcp_tools(COMMAND))

    assert tools[0].spec.name == "mcp_servers_add"
    assert executed(tools, "add", {"a": 2, "b": 3}) == {"sum": 5}


def test_a_name_no_model_takes_gets_a_mark_of_its_own() -> None:
    tools = McpTools(CommandServer(command=("x",)), prefix="p_")
    names = [tools.name_of(name) for name in ("say_it", "say.it", "say it", "l" * 62, "l" * 63, "l" * 100)]

    assert names[0] == "p_say_it"
    assert names[3] == "p_" + "l" * 62
    assert len(set(names)) == len(names)
    assert all(len(name) <= 64 and name.replace("_", "").isalnum() for name in names)


def test_two_servers_do_not_take_each_others_names(shared: tuple[str, Front]) -> None:
    one = asyncio.run(mcp_tools(f"{shared[0]}/mcp", **OPEN))
    other = asyncio.run(mcp_tools(COMMAND))

    assert not {tool.spec.name for tool in one} & {tool.spec.name for tool in other}


# -- asked again --------------------------------------------------------------------------------------


def test_what_is_gone_is_offered_no_more_also_by_who_has_it_already() -> None:
    server = calculator()
    with serving(server.streamable_http_app()) as (url, _):
        tools = asyncio.run(mcp_tools(f"{url}/mcp", prefix="", **OPEN))
        held = {tool.spec.name: tool.handler for tool in tools}
        server.remove_tool("hang")
        server.add_tool(changed, name="new")

        assert asyncio.run(tools.refresh()) is tools

    assert [tool.spec.name for tool in tools][-1] == "new"
    assert "hang" not in [tool.spec.name for tool in tools]
    assert (held["hang"].is_enabled(), held["add"].is_enabled()) == (False, True)
    assert held["hang"].describe(ToolScope(actor=CTX.actor)) == {"available": False}


def test_as_long_as_nothing_changed_the_spec_is_what_is_told(tools: McpTools) -> None:
    """So who gives a tool another description is not overruled."""
    assert tools[0].handler.describe(ToolScope(actor=CTX.actor)) == {}


def changed(what: str) -> str:
    """Is new."""
    return what


def test_what_changed_is_told_as_it_is_now() -> None:
    server = MCPServer("changing", log_level="CRITICAL")
    server.add_tool(changed, name="it", description="Is old.")
    with serving(server.streamable_http_app()) as (url, _):
        tools = asyncio.run(mcp_tools(f"{url}/mcp", **OPEN))
        held = tools[0].handler
        server.remove_tool("it")
        server.add_tool(changed, name="it")
        asyncio.run(tools.refresh())

    assert held.describe(ToolScope(actor=CTX.actor))["description"] == "Is new."
    assert tools[0].spec.description == "Is new."
    assert tools[0].handler is held


def test_a_server_that_cannot_be_reached_keeps_its_tools() -> None:
    with serving(calculator().streamable_http_app()) as (url, _):
        tools = asyncio.run(mcp_tools(f"{url}/mcp", **OPEN))
    before = [*tools]

    with pytest.raises(McpTransportError):
        asyncio.run(tools.refresh())
    assert [*tools] == before
    assert tools[0].handler.is_enabled()


def test_a_server_that_cannot_be_reached_is_not_one_without_tools() -> None:
    with serving(calculator().streamable_http_app()) as (url, _):
        pass

    with pytest.raises(McpTransportError):
        asyncio.run(mcp_tools(f"{url}/mcp", **OPEN))


# -- what cannot be asked for ---------------------------------------------------------------------------


def test_a_server_of_ones_own_has_to_be_named_as_one(shared: tuple[str, Front]) -> None:
    with pytest.raises(McpSecurityError) as caught:
        asyncio.run(mcp_tools(f"{shared[0]}/mcp"))
    assert "allow_insecure_http=True" in caught.value.advice
    with pytest.raises(McpSecurityError) as caught:
        asyncio.run(mcp_tools(f"{shared[0]}/mcp", allow_insecure_http=True))
    assert "allow_private_hosts=True" in caught.value.advice


@pytest.mark.parametrize(
    ("server", "options"),
    [
        ("uvx mcp-server-git", {}),
        ([], {}),
        (["x", 1], {}),
        ("https://[::1", {}),
        ("https://mcp.example.com", {"timeout_ms": 0}),
        ("https://mcp.example.com", {"timeout_ms": 900_001}),
        ("https://mcp.example.com", {"timeout_ms": "60"}),
        ("https://mcp.example.com", {"transport": "stdio"}),
        ("https://mcp.example.com", {"env": {"A": "b"}}),
        ("https://mcp.example.com", {"allowed_hosts": []}),
        ("https://mcp.example.com", {"default_headers": {"Authorization": "x"}}),
        (["x"], {"allowed_hosts": ["mcp.example.com"]}),
        (["x"], {"transport": "sse"}),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(server: Any, options: dict[str, Any]) -> None:
    with pytest.raises(loom.Refused) as caught:
        asyncio.run(mcp_tools(server, **options))
    assert caught.value.code == "INVALID_REQUEST"
