"""One call of a server: a session is opened, asked, and closed again."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, TypeVar

from loomnb.agents.mcp.config import McpConfig, McpTransport
from loomnb.agents.mcp.errors import McpProtocolError, McpTimeout, McpTransportError, classified
from loomnb.agents.mcp.headers import headers_for
from loomnb.agents.mcp.security import Resolver, check_url, resolve, without_query
from loomnb.agents.mcp.transport import Watch, http_client
from loomnb.errors import DefinitionError
from loomnb.runtime import AbortSignal

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["CommandServer", "Server", "UrlServer", "call_tool", "list_tools"]

T = TypeVar("T")

_PAGES = 100
"""A list of tools that is longer than this has no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlServer:
    """A server that is reached over HTTP.

    Attributes:
        lookup: resolves the host's name.
    """

    url: str
    config: McpConfig
    transport: McpTransport = "streamableHttp"
    lookup: Resolver = resolve

    @property
    def where(self) -> str:
        """It, in a message."""
        return f"The MCP server {without_query(self.url)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandServer:
    """A server that is started as a process of ours, for each session anew, and spoken to over its stdin and stdout.

    Attributes:
        command: the program and its arguments. No shell reads it.
        env: variables it gets beside the few every process needs (PATH, HOME, …); nothing else of our environment.
        cwd: its working directory; None: ours.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None

    @property
    def where(self) -> str:
        """It, in a message."""
        return f"The MCP server {self.command[0]!r}"


Server = UrlServer | CommandServer


async def list_tools(server: Server, *, timeout_ms: float, signal: AbortSignal | None = None) -> list[dict[str, Any]]:
    """The tools of a server, all pages, as the protocol's JSON (`name`, `description`, `inputSchema`, `annotations` and more).

    Raises:
        McpSecurityError: it may not be reached.
        McpAuthError: it does not let us in.
        McpTimeout: it took longer than `timeout_ms`.
        McpProtocolError: it does not speak the protocol.
        McpTransportError: it cannot be reached.
        DefinitionError: the SDK is not installed.
    """

    async def work(client: Client) -> list[dict[str, Any]]:
        tools: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools.extend(tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None:
                return tools
        raise McpProtocolError(f"{server.where} lists its tools without end.")

    return await _session(server, server.where, work, timeout_ms, signal)


async def call_tool(
    server: Server, name: str, arguments: Mapping[str, Any], *, timeout_ms: float, signal: AbortSignal | None = None
) -> dict[str, Any]:
    """What a tool of a server gave, as the protocol's JSON: `content` (blocks), `isError`, and perhaps `structuredContent`.

    A tool that failed is no error here: `isError` says it.

    Raises:
        LoomError: as for `list_tools`.
    """

    async def work(client: Client) -> dict[str, Any]:
        result = await client.call_tool(name, dict(arguments))
        found = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {key: found[key] for key in ("content", "structuredContent", "isError") if key in found}

    where = f"The tool {name!r} of {server.where.replace('The ', 'the ', 1)}"
    return await _session(server, where, work, timeout_ms, signal)


async def _session(
    server: Server, where: str, work: Callable[[Client], Awaitable[T]], timeout_ms: float, signal: AbortSignal | None
) -> T:
    """Do something in a session of its own, and end it when the server, the caller or the time says so. `where`: for messages."""
    if isinstance(server, UrlServer):
        check_url(server.url, server.config.rules)
    _need_sdk()
    watch = Watch(where, strict=isinstance(server, UrlServer) and server.transport == "sse")
    loop = asyncio.get_running_loop()

    def aborted(reason: BaseException) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            loop.call_soon_threadsafe(watch.fail, reason)

    unlisten = signal.add_listener(aborted) if signal is not None else lambda: None
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        at_work = asyncio.ensure_future(_opened(server, watch, work, timeout_ms / 1000, said))
        failing = asyncio.ensure_future(watch.failed.wait())
        try:
            await asyncio.wait({at_work, failing}, timeout=timeout_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
            return _outcome(at_work, watch, timeout_ms, said)
        finally:
            unlisten()
            watch.over = True
            failing.cancel()
            at_work.cancel()
            await asyncio.wait({at_work, failing})
            if not at_work.cancelled():
                at_work.exception()  # looked at: what a session says when it is ended from outside is nobody's news


def _outcome(at_work: asyncio.Future[T], watch: Watch, timeout_ms: float, said: IO[str]) -> T:
    if at_work.done() and not at_work.cancelled():
        error = at_work.exception()
        if error is None:
            return at_work.result()
        raise watch.failure or _with_words(classified(watch.where, error, watch.status), said)
    if watch.failure is not None:
        raise watch.failure
    raise McpTimeout(f"{watch.where} took longer than {timeout_ms:g} ms.", advice="Allow more: timeout_ms=…, at most 900000.")


def _with_words(error: BaseException, said: IO[str]) -> BaseException:
    """The error, with the last lines a process wrote to its stderr before it went."""
    if isinstance(error, McpTransportError):
        said.seek(0)
        lines = said.read()[-2000:].strip().splitlines()[-8:]
        if lines:
            with_them = McpTransportError(error.message, advice="\n".join(["It wrote:", *lines]), cause=error)
            with_them.rpc_code = error.rpc_code
            return with_them
    return error


async def _opened(server: Server, watch: Watch, work: Callable[[Client], Awaitable[T]], seconds: float, said: IO[str]) -> T:
    from mcp import Client, StdioServerParameters, stdio_client  # noqa: PLC0415  # the optional SDK, with all it imports
    from mcp.client.sse import sse_client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    async with contextlib.AsyncExitStack() as stack:
        if isinstance(server, CommandServer):
            program, *args = server.command
            parameters = StdioServerParameters(command=program, args=args, env=dict(server.env), cwd=server.cwd)
            # A file, because the SDK's default is sys.stderr, which in a kernel is no file a process could write to.
            transport = stdio_client(parameters, errlog=said)  # type: ignore[arg-type]
        else:
            rules = server.config.rules
            host, _ = check_url(server.url, rules)
            http = http_client(rules, headers_for(server.config, host), watch, lookup=server.lookup, timeout=seconds)
            if server.transport == "sse":
                transport = sse_client(server.url, sse_read_timeout=seconds, httpx_client_factory=lambda *_, **__: http)
            else:
                transport = streamable_http_client(server.url, http_client=await stack.enter_async_context(http))
        # Servers that speak SSE are older than the new handshake, which is not tried with them. No cache: a session is one call.
        older = isinstance(server, UrlServer) and server.transport == "sse"
        client = await stack.enter_async_context(Client(transport, mode="legacy" if older else "auto", cache=None))
        return await work(client)


def _need_sdk() -> None:
    try:
        import mcp  # noqa: F401, PLC0415  # pyright: ignore[reportUnusedImport]  # optional
    except ImportError as exc:
        raise DefinitionError(
            "Servers of the Model Context Protocol need the library mcp.", advice="Install it: pip install 'loomnb[mcp]'"
        ) from exc
