"""The tools of a server as tools of an agent: one for each, with the server's JSON Schema, under names that do not clash."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, overload
from urllib.parse import urlsplit

from pydantic import ValidationError

from loomnb.agents.functional import FunctionalTool
from loomnb.agents.input_schemas import InputSchema
from loomnb.agents.json_schemas import with_patterns_of_python
from loomnb.agents.mcp.client import CommandServer, Server, UrlServer, call_tool, list_tools
from loomnb.agents.mcp.config import DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS, McpConfig, McpTransport
from loomnb.agents.mcp.tools import said_by
from loomnb.agents.spi import ToolContext, ToolScope, ToolSpec
from loomnb.errors import ArgsInvalid, DefinitionError, InvalidRequest, NotJson, ToolFailed, fields_from_pydantic

__all__ = ["McpTool", "McpToolHandler", "McpTools", "mcp_tools"]

_LOG = logging.getLogger("loomnb.agents")


class McpTool(FunctionalTool):
    """A tool of a server: what is declared of it, and what does it.

    Attributes:
        remote_name: as the server calls it.
    """

    def __init__(self, spec: ToolSpec, handler: McpToolHandler) -> None:
        super().__init__(spec, handler)
        self.remote_name = handler.remote_name


class McpToolHandler:
    """Calls the tool at its server, in a session of its own. It looks at the set's last listing at each turn: a tool that is
    gone is offered no more, one that changed is told as it is now."""

    def __init__(self, tools: McpTools, name: str, told: Mapping[str, Any]) -> None:
        self._tools = tools
        self._told = told
        self.remote_name = name
        """As the server calls it."""

    def is_enabled(self) -> bool:
        """Whether the server still had it when it was last asked."""
        return self.remote_name in self._tools.listed

    def describe(self, scope: ToolScope) -> Mapping[str, Any]:
        """What the server said of it when it was last asked, where that is not what it said at first."""
        del scope
        listed = self._tools.listed.get(self.remote_name)
        if listed is None:
            return {"available": False}
        if listed == self._told:
            return {}
        return {"available": True, "description": listed.get("description", ""), "inputSchema": listed["inputSchema"]}

    async def execute(self, input: Any, ctx: ToolContext) -> Any:  # noqa: A002  # the contract's word
        """What the tool gave: its structured data; else its text; else `{"content": [blocks]}`, where the bytes of images and
        sounds are left out, because a model reads text.

        Raises:
            ToolFailed: the tool says that it failed.
            LoomError: the server may not be reached, lets nobody in, is too slow, broken, or away: `code` is `MCP_SECURITY`,
                `MCP_AUTH`, `MCP_TIMEOUT`, `MCP_PROTOCOL` or `MCP_TRANSPORT`.
        """
        tools = self._tools
        result = await call_tool(
            tools.server, self.remote_name, input or {}, timeout_ms=tools.timeout_ms, signal=ctx.abort_signal
        )
        if result.get("isError"):
            text = said_by(result) or f"The tool {self.remote_name!r} failed and did not say why."
            raise ToolFailed(text, tool=tools.name_of(self.remote_name), data=_readable(result))
        return _readable(result)


def _readable(result: Mapping[str, Any]) -> Any:
    if "structuredContent" in result:
        return result["structuredContent"]
    blocks: Sequence[Mapping[str, Any]] = result.get("content", ())
    if all(block.get("type") == "text" for block in blocks):
        return said_by(result)
    return {"content": [_block(block) for block in blocks]}


def _block(block: Mapping[str, Any]) -> Mapping[str, Any]:
    if block.get("type") in ("image", "audio"):
        return {"type": block["type"], "mimeType": block.get("mimeType"), "base64Length": len(block.get("data", ""))}
    resource = block.get("resource")
    if isinstance(resource, Mapping) and "blob" in resource:
        kept = {key: value for key, value in resource.items() if key != "blob"}
        return {**block, "resource": {**kept, "base64Length": len(resource["blob"])}}
    return block


class McpTools(Sequence[McpTool]):
    """The tools of a server, in its order: `loom.Agent(tools=[*tools, ...])`.

    Attributes:
        server: where they are.
        prefix: what the names begin with.
        timeout_ms: milliseconds that a call may take.
        listed: by the server's names, what it said of its tools when it was last asked.
    """

    def __init__(
        self,
        server: Server,
        *,
        prefix: str,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        read_only: Collection[str] | None = None,
        roles: Sequence[str] | None = None,
        ability: str | None = None,
    ) -> None:
        self.server = server
        self.prefix = prefix
        self.timeout_ms = timeout_ms
        self.listed: Mapping[str, Mapping[str, Any]] = {}
        self._read_only = read_only
        self._roles = tuple(roles) if roles is not None else None
        self._ability = ability
        self._tools: tuple[McpTool, ...] = ()
        self._handlers: dict[str, McpToolHandler] = {}

    @overload
    def __getitem__(self, index: int) -> McpTool: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[McpTool]: ...
    def __getitem__(self, index: int | slice) -> McpTool | Sequence[McpTool]:
        return self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[McpTool]:
        return iter(self._tools)

    def __repr__(self) -> str:
        return f"<{len(self)} tools of {self.server.where.removeprefix('The ')}: {', '.join(t.spec.name for t in self)}>"

    async def refresh(self) -> McpTools:
        """Ask the server again, and give this very set back. What is gone is no longer offered, also by agents that were given
        it before; what is new is in the set, for an agent that is made of it now. A tool whose schema is none is left out, and
        the log says so.

        Raises:
            LoomError: the server could not be asked, as for `mcp_tools`. The tools stay as they were: a server that cannot be
                reached is not one that has no tools.
        """
        found = await list_tools(self.server, timeout_ms=self.timeout_ms)
        listed = {str(tool["name"]): tool for tool in map(self._sound, found) if tool is not None}
        self._handlers = {name: self._handlers.get(name) or McpToolHandler(self, name, tool) for name, tool in listed.items()}
        self._tools = tuple(McpTool(self._spec(name, tool), self._handlers[name]) for name, tool in listed.items())
        self.listed = listed
        return self

    def _sound(self, tool: Mapping[str, Any]) -> Mapping[str, Any] | None:
        owner = f"The tool {tool['name']!r}"
        try:
            schema = with_patterns_of_python(tool["inputSchema"])
            InputSchema(schema, owner)
        except (DefinitionError, NotJson) as exc:  # one that nobody could call must not keep the others from being called
            _LOG.warning(
                "%s has a tool that is left out. %s",
                self.server.where,
                exc.message if isinstance(exc, DefinitionError) else f"{owner}: its input schema is broken: {exc.message}",
            )
            return None
        return {**tool, "inputSchema": schema}

    def name_of(self, remote_name: str) -> str:
        """The name that models are told: the prefix and the server's own, as letters, digits, `_` and `-`, 64 at the most.
        A name that had to be changed for that ends with a mark of its own, so that no two become one."""
        whole = f"{self.prefix}{remote_name}"
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", whole)
        if name == whole and len(name) <= 64:
            return name
        return f"{name[:55]}_{hashlib.sha256(whole.encode()).hexdigest()[:8]}"

    def _spec(self, name: str, listed: Mapping[str, Any]) -> ToolSpec:
        hints: Mapping[str, Any] = listed.get("annotations") or {}
        reads = name in self._read_only if self._read_only is not None else hints.get("readOnlyHint") is True
        presentation = {"label": str(listed.get("title") or hints.get("title") or name)}
        if not reads and hints.get("destructiveHint") is True:
            presentation["tone"] = "destructive"
        return ToolSpec(
            name=self.name_of(name),
            description=str(listed.get("description") or ""),
            input_schema=listed["inputSchema"],
            kind="read" if reads else "action",
            presentation=presentation,
            roles=self._roles,
            ability=self._ability,
        )


async def mcp_tools(
    server: str | Sequence[str],
    *,
    prefix: str | None = None,
    read_only: Collection[str] | None = None,
    roles: Sequence[str] | None = None,
    ability: str | None = None,
    transport: McpTransport = "streamableHttp",
    timeout_ms: float = DEFAULT_TIMEOUT_MS,
    allowed_hosts: Sequence[str] | None = None,
    allow_insecure_http: bool = False,
    allow_private_hosts: bool = False,
    default_headers: Mapping[str, str] | None = None,
    header_env: Mapping[str, str] | None = None,
    host_header_env: Mapping[str, Mapping[str, str]] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> McpTools:
    """The tools of an MCP server, for an agent: `loom.Agent(tools=[*await loom.mcp_tools("https://mcp.example.com/mcp")])`.

    Each call of a tool opens a session of its own. A tool of which the server says that it only reads (`readOnlyHint`) is of
    kind `read` and runs at once; every other is an `action`, which may need an approval. That is the server's word: for a
    server you do not trust say `read_only=` yourself.

    Args:
        server: an address, or a command with its arguments as a list, which is started as a process of this machine.
        prefix: what the names of the tools begin with; default: made of the host, or of the command: `mcp_example_com_`.
        read_only: the server's names of the tools that only read; None: as the server says.
        roles: who may use them: one of these; None: see the policy.
        ability: a finer right.
        transport: `streamableHttp`, or `sse` for older servers.
        timeout_ms: milliseconds that a listing or a call may take, at most 900000.
        allowed_hosts: the hosts that may be reached; default: that of the address.
        allow_insecure_http: also http.
        allow_private_hosts: also this machine and private networks.
        default_headers: sent with every request; none that carries a secret.
        header_env: header → the variable of the environment that holds it.
        host_header_env: host or `*` → header → variable.
        env: of a command: variables it gets beside PATH, HOME and the like.
        cwd: of a command: its working directory.

    Raises:
        InvalidRequest: a server that is neither, or an option that does not go with it.
        ArgsInvalid: an option does not fit.
        McpSecurityError: the address may not be reached.
        McpAuthError: the server does not let us in.
        McpTimeout: it took too long.
        McpProtocolError: it does not speak the protocol.
        McpTransportError: it cannot be reached, or the command cannot be started.
        DefinitionError: the library `mcp` is not installed.
    """
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, (int, float)) or not 0 < timeout_ms <= MAX_TIMEOUT_MS:
        raise InvalidRequest(f"timeout_ms={timeout_ms!r} is not between 1 and {MAX_TIMEOUT_MS}.")
    options: dict[str, Any] = {
        "allowed_hosts": allowed_hosts,
        "allow_insecure_http": allow_insecure_http,
        "allow_private_hosts": allow_private_hosts,
        "default_headers": default_headers,
        "header_env": header_env,
        "host_header_env": host_header_env,
    }
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if isinstance(server, str):
        if env is not None or cwd is not None:
            raise InvalidRequest(
                "env= and cwd= are for a server that is started as a command.", advice="Give the command as a list."
            )
        found: Server = _at_url(server, given, transport)
    else:
        if given or transport != "streamableHttp":
            names = ", ".join(sorted([*given, *(["transport"] if transport != "streamableHttp" else [])]))
            raise InvalidRequest(f"{names}: a command is not reached over HTTP.", advice="Give it variables with env={...}.")
        found = _of_command(server, env, cwd)
    tools = McpTools(
        found,
        prefix=_prefix(found) if prefix is None else prefix,
        timeout_ms=timeout_ms,
        read_only=read_only,
        roles=roles,
        ability=ability,
    )
    return await tools.refresh()


def _at_url(url: str, given: Mapping[str, Any], transport: McpTransport) -> UrlServer:
    if "://" not in url:
        raise InvalidRequest(
            f"{url!r} is no address of an MCP server.",
            advice='Write "https://…", or a command as a list: ["uvx", "mcp-server-git"].',
        )
    if transport not in ("streamableHttp", "sse"):
        raise InvalidRequest(f"transport={transport!r} is not known.", advice='One of: "streamableHttp", "sse".')
    try:
        config = McpConfig.model_validate({"allowed_hosts": [urlsplit(url).hostname or ""], **given})
    except ValidationError as exc:
        raise ArgsInvalid("These options do not fit.", fields_from_pydantic(exc)) from exc
    except ValueError as exc:  # of the address itself
        raise InvalidRequest(f"The address of the MCP server cannot be read: {exc}.") from exc
    return UrlServer(url=url, config=config, transport=transport)


def _of_command(command: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> CommandServer:
    parts = tuple(command)
    if not parts or not all(isinstance(part, str) for part in parts):
        raise InvalidRequest(f"{command!r} is no command.", advice='A list of texts: ["uvx", "mcp-server-git"].')
    return CommandServer(command=parts, env=dict(env or {}), cwd=cwd)


def _prefix(server: Server) -> str:
    """Made of what we know the server by, and not of what it calls itself: a stranger must not take another's names."""
    if isinstance(server, UrlServer):
        base = urlsplit(server.url).hostname or ""
    else:
        program, *args = server.command
        base = PurePath(next((arg for arg in args if not arg.startswith("-")), program)).stem
    return re.sub(r"[^a-zA-Z0-9-]+", "_", base).strip("_") + "_"
