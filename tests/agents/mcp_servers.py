"""A real MCP server for tests: the official SDK's, over HTTP on the loopback or as a process."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.mcpserver import Image, MCPServer
from mcp.types import BlobResourceContents, EmbeddedResource, ListToolsResult, Tool, ToolAnnotations
from starlette.responses import RedirectResponse, Response

COMMAND = [sys.executable, str(Path(__file__).resolve())]
"""It as a process."""


def calculator() -> MCPServer:
    """A server with tools of every kind."""
    server = MCPServer("calculator", log_level="CRITICAL")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True, title="Sum"))
    def add(a: int, b: int) -> dict[str, int]:
        """Adds two numbers."""
        return {"sum": a + b}

    @server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))
    def drop(table: str) -> str:
        """Drops a table."""
        raise ValueError(f"there is no {table}")

    @server.tool(name="say.it", structured_output=False)
    def say(text: str) -> str:
        """Says it."""
        return text

    @server.tool(structured_output=False)
    def draw() -> list[Any]:
        """Draws."""
        return ["a dot", Image(data=b"dot!", format="png")]

    @server.tool(structured_output=False)
    def attach() -> EmbeddedResource:
        """Attaches."""
        return EmbeddedResource(type="resource", resource=BlobResourceContents(uri="loom://dot", blob="ZG90IQ=="))

    @server.tool()
    async def hang() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return ""

    return server


def paged(pages: int | None) -> Server[Any]:
    """A server with one tool on each page of its list; None: there is always a next page."""

    async def pages_of(ctx: Any, params: Any) -> ListToolsResult:
        page = int(params.cursor) if params is not None and params.cursor else 0
        last = pages is not None and page + 1 == pages
        return ListToolsResult(
            tools=[Tool(name=f"t{page}", input_schema={"type": "object"})], next_cursor=None if last else str(page + 1)
        )

    return Server("paged", on_list_tools=pages_of)


class Front:
    """What stands before the server: it notes headers, and answers some requests itself."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.answer: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.headers.append({key.decode(): value.decode() for key, value in scope["headers"]})
            self.paths.append(f"{scope['method']} {scope['path']}")
            if self.answer is not None:
                answer = self.answer(scope["method"])
                if answer is not None:
                    await answer(scope, receive, send)
                    return
        await self.app(scope, receive, send)


def answering(status: int, *methods: str) -> Any:
    """Every request (or those of these methods) is answered with a bare status."""
    return lambda method: Response(status_code=status) if not methods or method in methods else None


def redirecting(to: str) -> Any:
    """Every request is sent on."""
    return lambda method: RedirectResponse(to, status_code=307)


@contextmanager
def serving(app: Any) -> Iterator[tuple[str, Front]]:
    """An app on a free port of the loopback: `(address, what stands before it)`."""
    front = Front(app)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(front, log_level="critical", ws="none", timeout_graceful_shutdown=0))
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}", front
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


if __name__ == "__main__":
    calculator().run("stdio")
