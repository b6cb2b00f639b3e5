"""The two tools for workflows: what a server has, and one call of it. `config=` of a call says what may be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from loomnb.agents.mcp.client import UrlServer, call_tool, list_tools
from loomnb.agents.mcp.config import DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS, McpConfig, McpTransport
from loomnb.runtime import RunContext
from loomnb.tools import BaseTool, ToolCallOptions, ToolEnvelope, tool

__all__ = ["McpCallArgs", "McpCallTool", "McpListToolsArgs", "McpListToolsTool", "said_by"]


class McpListToolsArgs(BaseModel):
    """Which server. Python and JSON names are both taken.

    Attributes:
        timeout_ms: milliseconds for all of it, at most 900000.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True, alias_generator=to_camel)

    server_url: str = Field(description="The address of the MCP server.")
    transport: McpTransport = "streamableHttp"
    timeout_ms: int = Field(DEFAULT_TIMEOUT_MS, gt=0, le=MAX_TIMEOUT_MS)


class McpCallArgs(McpListToolsArgs):
    """Which tool of which server, with what."""

    tool_name: str = Field(min_length=1, description="The name of the tool, as mcp_list_tools tells it.")
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])


@tool
class McpListToolsTool(BaseTool[McpListToolsArgs, McpConfig, dict[str, Any]]):
    """Lists the tools of an MCP server, with the JSON Schema of their arguments."""

    async def handle(
        self, args: McpListToolsArgs, ctx: RunContext[Any], options: ToolCallOptions[McpConfig]
    ) -> ToolEnvelope[dict[str, Any]]:
        """`{"tools": [{"name", "description", "inputSchema", …}]}`.

        Raises:
            McpSecurityError: the server may not be reached.
            McpAuthError: it does not let us in.
            McpTimeout: it took too long.
            McpProtocolError: it does not speak the protocol.
            McpTransportError: it cannot be reached.
        """
        return ToolEnvelope(data={"tools": await list_tools(_server(args, options), timeout_ms=args.timeout_ms)})


@tool
class McpCallTool(BaseTool[McpCallArgs, McpConfig, dict[str, Any]]):
    """Calls a tool of an MCP server."""

    async def handle(
        self, args: McpCallArgs, ctx: RunContext[Any], options: ToolCallOptions[McpConfig]
    ) -> ToolEnvelope[dict[str, Any]]:
        """`{"content": [blocks], "structuredContent"?, "isError"}`; if the tool failed, an envelope with `error`, and the data.

        Raises:
            LoomError: as for the list.
        """
        result = await call_tool(_server(args, options), args.tool_name, args.arguments, timeout_ms=args.timeout_ms)
        return ToolEnvelope(data=result, error=said_by(result) if result.get("isError") else None)


def _server(args: McpListToolsArgs, options: ToolCallOptions[McpConfig]) -> UrlServer:
    return UrlServer(url=args.server_url, config=cast("McpConfig", options.config), transport=args.transport)


def said_by(result: Mapping[str, Any]) -> str:
    """The text of a result: its blocks of text, one under the other."""
    return "\n".join(str(block.get("text", "")) for block in result.get("content", ()) if block.get("type") == "text")
