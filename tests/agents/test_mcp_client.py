"""Sessions with a real MCP server on the loopback: what is sent, what is never sent, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import pytest
from mcp import MCPError
from mcp.server import Server
from starlette.responses import JSONResponse, Response

import loomnb as loom
from loomnb.agents.mcp.client import CommandServer, UrlServer, call_tool, list_tools
from loomnb.agents.mcp.config import McpConfig
from loomnb.agents.mcp.errors import (
    McpAuthError,
    McpProtocolError,
    McpSecurityError,
    McpTimeout,
    McpTransportError,
    classified,
)
from loomnb.agents.mcp.security import UrlRules
from loomnb.agents.mcp.transport import Watch, http_client
from loomnb.errors import WorldFailed
from loomnb.runtime import AbortSignal
from tests.agents.mcp_servers import COMMAND, Front, answering, calculator, paged, redirecting, serving

NAMES = ["add", "drop", "say.it", "draw", "attach", "hang"]


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[str, Front]]:
    with serving(calculator().streamable_http_app()) as served:
        yield served


@pytest.fixture
def front(shared: tuple[str, Front]) -> Iterator[Front]:
    shared[1].answer = None
    shared[1].headers.clear()
    shared[1].paths.clear()
    yield shared[1]
    shared[1].answer = None


def at(url: str, **config: Any) -> UrlServer:
    open_to_all = {"allowed_hosts": ["127.0.0.1"], "allow_insecure_http": True, "allow_private_hosts": True}
    return UrlServer(url=f"{url}/mcp", config=McpConfig(**{**open_to_all, **config}))


def listed(server: UrlServer | CommandServer, timeout_ms: float = 20_000) -> list[str]:
    return [tool["name"] for tool in asyncio.run(list_tools(server, timeout_ms=timeout_ms))]


def called(server: UrlServer | CommandServer, name: str, arguments: dict[str, Any], timeout_ms: float = 20_000) -> Any:
    return asyncio.run(call_tool(server, name, arguments, timeout_ms=timeout_ms))


def test_the_tools_are_listed_with_their_schemas(shared: tuple[str, Front], front: Front) -> None:
    tools = asyncio.run(list_tools(at(shared[0]), timeout_ms=20_000))

    assert [tool["name"] for tool in tools] == NAMES
    assert tools[0]["inputSchema"]["required"] == ["a", "b"]
    assert tools[0]["annotations"]["readOnlyHint"] is True


def test_all_pages_of_a_list_are_read() -> None:
    with serving(paged(3).streamable_http_app()) as (url, _):
        assert listed(at(url)) == ["t0", "t1", "t2"]


def test_a_list_without_end_is_not_read_for_ever() -> None:
    with serving(paged(None).streamable_http_app()) as (url, _), pytest.raises(McpProtocolError, match="without end"):
        listed(at(url), timeout_ms=60_000)


def test_a_call_gives_what_the_tool_gave(shared: tuple[str, Front], front: Front) -> None:
    given = called(at(shared[0]), "add", {"a": 2, "b": 3})

    assert given["structuredContent"] == {"sum": 5}
    assert json.loads(given["content"][0]["text"]) == {"sum": 5}
    assert given["isError"] is False


def test_a_tool_that_fails_is_no_error_of_the_call(shared: tuple[str, Front], front: Front) -> None:
    given = called(at(shared[0]), "drop", {"table": "t"})

    assert given["isError"] is True


def test_a_server_that_is_a_command_is_spoken_to_as_a_process() -> None:
    server = CommandServer(command=tuple(COMMAND))

    assert listed(server) == NAMES
    assert called(server, "add", {"a": 2, "b": 3})["structuredContent"] == {"sum": 5}


def test_the_older_way_over_sse_is_spoken_too() -> None:
    with serving(calculator().sse_app()) as (url, _):
        config = McpConfig(allowed_hosts=("127.0.0.1",), allow_insecure_http=True, allow_private_hosts=True)
        server = UrlServer(url=f"{url}/sse", config=config, transport="sse")

        assert listed(server) == NAMES
        assert called(server, "add", {"a": 2, "b": 3})["structuredContent"] == {"sum": 5}


def test_a_server_older_than_the_new_handshake_is_spoken_to(shared: tuple[str, Front], front: Front) -> None:
    front.answer = lambda method: Response(status_code=404) if len(front.paths) == 1 else None

    assert listed(at(shared[0])) == NAMES


@pytest.mark.case("workflows:O08")
def test_every_request_carries_the_headers(shared: tuple[str, Front], front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_TOKEN", "Bearer 1")
    listed(at(shared[0], default_headers={"X-Team": "loom"}, host_header_env={"127.0.0.1": {"Authorization": "MCP_TOKEN"}}))

    assert front.headers
    assert {(sent["authorization"], sent["x-team"]) for sent in front.headers} == {("Bearer 1", "loom")}


@pytest.mark.parametrize(
    ("status", "error", "retryable"),
    [
        (401, McpAuthError, False),
        (403, McpAuthError, False),
        (404, McpProtocolError, False),
        (418, McpProtocolError, False),
        (429, McpTransportError, True),
        (503, McpTransportError, True),
        (504, McpTimeout, True),
        (200, McpProtocolError, False),
    ],
)
def test_an_answer_that_is_none_is_told_by_its_status(
    shared: tuple[str, Front], front: Front, status: int, error: type[loom.LoomError], retryable: bool
) -> None:
    front.answer = answering(status)

    with pytest.raises(error) as caught:
        listed(at(shared[0]))
    assert caught.value.retryable is retryable


@pytest.mark.parametrize(
    ("status", "method", "error"),
    [(401, "GET", McpAuthError), (403, "POST", McpAuthError), (404, "POST", McpProtocolError), (500, "POST", McpTransportError)],
)
def test_over_sse_a_refused_request_ends_the_call(status: int, method: str, error: type[loom.LoomError]) -> None:
    """The SDK only logs a message that was refused, and would wait for its answer."""
    with serving(calculator().sse_app()) as (url, front):
        front.answer = answering(status, method)
        config = McpConfig(allowed_hosts=("127.0.0.1",), allow_insecure_http=True, allow_private_hosts=True)

        with pytest.raises(error):
            listed(UrlServer(url=f"{url}/sse", config=config, transport="sse"), timeout_ms=100_000)


@pytest.mark.parametrize("code", [-32700, -32600, -32601, -32602, -32603, -32022, 7])
def test_an_error_of_the_server_is_one_of_the_protocol(shared: tuple[str, Front], front: Front, code: int) -> None:
    front.answer = lambda method: JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": "401 unauthorized, timed out"}}, status_code=400
    )

    with pytest.raises(loom.LoomError) as caught:
        listed(at(shared[0]))
    assert caught.value.code == "MCP_PROTOCOL"


def test_an_answer_that_is_no_json_is_an_error_of_the_protocol(shared: tuple[str, Front], front: Front) -> None:
    front.answer = lambda method: Response("not json", media_type="application/json")

    with pytest.raises(McpProtocolError):
        listed(at(shared[0]))


def test_a_call_that_takes_too_long_is_over_when_its_time_is(shared: tuple[str, Front], front: Front) -> None:
    with pytest.raises(McpTimeout, match="200 ms") as caught:
        called(at(shared[0]), "hang", {}, timeout_ms=200)
    assert caught.value.code == "MCP_TIMEOUT"


def test_a_call_is_over_when_its_caller_is(shared: tuple[str, Front], front: Front) -> None:
    """The signal comes from another thread, as it does when a person stops a run."""
    signal = AbortSignal()
    front.answer = lambda method: signal.abort(InterruptedError("stopped"))

    with pytest.raises(InterruptedError, match="stopped"):
        asyncio.run(call_tool(at(shared[0]), "hang", {}, timeout_ms=100_000, signal=signal))


def test_a_server_that_is_not_there_cannot_be_reached() -> None:
    with serving(calculator().streamable_http_app()) as (url, _):
        pass

    with pytest.raises(McpTransportError) as caught:
        listed(at(url))
    assert caught.value.retryable


def test_a_command_that_is_not_there_cannot_be_reached() -> None:
    with pytest.raises(McpTransportError, match="no-such-program"):
        listed(CommandServer(command=("no-such-program",)))


def test_a_process_that_ends_is_told_with_its_last_words() -> None:
    with pytest.raises(McpTransportError, match="out of luck"):
        listed(CommandServer(command=(COMMAND[0], "-c", "import sys; sys.exit('out of luck')")))


def test_a_process_gets_the_variables_it_is_given_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "x")
    code = "import os, sys; sys.exit(f\"{os.environ.get('MY_SECRET')} {os.environ.get('GIVEN')}\")"

    with pytest.raises(McpTransportError, match="None yes"):
        listed(CommandServer(command=(COMMAND[0], "-c", code), env={"GIVEN": "yes"}))


# -- what is never reached --------------------------------------------------------------------------


def test_a_redirect_elsewhere_is_not_followed(shared: tuple[str, Front], front: Front) -> None:
    with serving(calculator().streamable_http_app()) as (other, seen):
        front.answer = redirecting(f"{other}/mcp")

        with pytest.raises(McpSecurityError, match="sends its callers on"):
            listed(at(shared[0]))
        assert seen.paths == []


def test_a_redirect_within_the_server_is_followed(shared: tuple[str, Front], front: Front) -> None:
    moved = at(shared[0])
    server = UrlServer(url=moved.url.replace("/mcp", "/old"), config=moved.config)
    front.answer = lambda method: redirecting("/mcp")(method) if front.paths[-1].endswith("/old") else None

    assert listed(server) == NAMES


def test_over_sse_no_other_server_can_be_named_for_the_messages() -> None:
    """The SDK then waits for ever, so the time of the call ends it."""
    with serving(calculator().sse_app()) as (url, front), serving(calculator().sse_app()) as (other, seen):
        named = f"event: endpoint\ndata: {other}/messages/\n\n"
        front.answer = lambda method: Response(named, media_type="text/event-stream")
        config = McpConfig(allowed_hosts=("127.0.0.1",), allow_insecure_http=True, allow_private_hosts=True)

        with pytest.raises(McpTimeout):
            listed(UrlServer(url=f"{url}/sse", config=config, transport="sse"), timeout_ms=300)
        assert seen.paths == []


@pytest.mark.case("workflows:O07")
@pytest.mark.parametrize(
    "config",
    [{"allowed_hosts": ["mcp.example.com"]}, {"allow_insecure_http": False}, {"allow_private_hosts": False}],
    ids=str,
)
def test_a_server_that_is_not_allowed_gets_no_request(shared: tuple[str, Front], front: Front, config: dict[str, Any]) -> None:
    with pytest.raises(McpSecurityError):
        listed(at(shared[0], **config))
    assert front.paths == []


class Noting(httpx2.AsyncBaseTransport):
    """What would connect: it notes to whom."""

    def __init__(self, away: Sequence[str] = ()) -> None:
        self.reached: list[tuple[str, str, Any]] = []
        self.away = away

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.reached.append((request.url.host, request.headers["host"], request.extensions.get("sni_hostname")))
        if request.url.host in self.away:
            raise httpx2.ConnectError("away", request=request)
        return httpx2.Response(200)


def posted(inner: Noting, answers: list[list[str]], times: int = 1, url: str = "https://mcp.example.com/mcp") -> Watch:
    async def lookup(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    async def story() -> Watch:
        watch = Watch("The server")
        rules = UrlRules(allowed_hosts=("mcp.example.com",))
        async with http_client(rules, {}, watch, lookup=lookup, timeout=1, inner=inner) as client:
            for _ in range(times):
                await client.post(url, json={})
        return watch

    return asyncio.run(story())


@pytest.mark.case("workflows:O07")
def test_the_address_that_was_checked_is_the_one_that_is_connected_to() -> None:
    inner = Noting()
    posted(inner, [["8.8.8.8"]])

    assert inner.reached == [("8.8.8.8", "mcp.example.com", "mcp.example.com")]


def test_an_address_that_is_public_is_connected_to_as_it_is() -> None:
    inner = Noting()
    watch = Watch("The server")

    async def story() -> None:
        rules = UrlRules(allowed_hosts=("8.8.8.8",))
        async with http_client(rules, {}, watch, lookup=never, timeout=1, inner=inner) as client:
            await client.post("https://8.8.8.8/mcp", json={})
            watch.over = True
            await client.delete("https://8.8.8.8/mcp")

    asyncio.run(story())
    assert inner.reached == [("8.8.8.8", "8.8.8.8", None)]  # and once it is over, nothing is sent any more


async def never(host: str, port: int) -> Sequence[str]:
    raise AssertionError(f"{host} was looked up")


@pytest.mark.case("workflows:O07")
def test_a_name_that_moves_to_a_private_address_gets_no_further_request() -> None:
    inner = Noting()

    with pytest.raises(McpSecurityError, match=r"resolves to 127\.0\.0\.1"):
        posted(inner, [["8.8.8.8"], ["127.0.0.1"]], times=2)
    assert [host for host, *_ in inner.reached] == ["8.8.8.8"]


def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    inner = Noting(away=["2606:4700::1"])
    posted(inner, [["2606:4700::1", "8.8.8.8"]])

    assert [host for host, *_ in inner.reached] == ["2606:4700::1", "8.8.8.8"]


@pytest.mark.case("workflows:O07")
def test_whatever_asks_for_another_host_is_stopped_where_it_leaves() -> None:
    inner = Noting()

    with pytest.raises(McpSecurityError, match="not on the list"):
        posted(inner, [["8.8.8.8"]], url="https://evil.example.com/mcp")
    assert inner.reached == []


# -- the library ---------------------------------------------------------------------------------------


def test_without_the_library_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(loom.DefinitionError, match=r"loomnb\[mcp\]"):
        listed(CommandServer(command=tuple(COMMAND)))


def test_the_library_is_loaded_when_it_is_used() -> None:
    code = "import sys, loomnb.agents.mcp.toolset\nprint([m for m in ('mcp', 'httpx2', 'anyio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"


# -- what a server says ----------------------------------------------------------------------------------


def failing_with(code: int, text: str) -> Server[Any]:
    """A server whose calls end with an error of the protocol."""

    async def fails(ctx: Any, params: Any) -> Any:
        raise MCPError(code, text)

    return Server("failing", on_call_tool=fails)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(-32000, "MCP_TRANSPORT"), (-32001, "MCP_TIMEOUT"), (-32002, "MCP_PROTOCOL"), (-32603, "MCP_PROTOCOL"), (7, "MCP_PROTOCOL")],
)
def test_what_a_server_says_of_its_error_is_told_with_the_tool_and_the_server(code: int, kind: str) -> None:
    with serving(failing_with(code, "The budget of March is spent.").streamable_http_app()) as (url, _):
        with pytest.raises(WorldFailed) as caught:
            called(at(url), "book", {})
        assert caught.value.code == kind
        assert caught.value.rpc_code == code  # type: ignore[attr-defined]
        for told in ("The budget of March is spent.", "'book'", url, str(code)):
            assert told in caught.value.message


def test_what_a_server_says_beside_a_status_is_told(shared: tuple[str, Front], front: Front) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "the disk is full"}}
    front.answer = lambda method: JSONResponse(error, status_code=503)

    with pytest.raises(McpTransportError, match=r"503.*the disk is full") as caught:
        listed(at(shared[0]))
    assert caught.value.rpc_code == -32603


def test_of_a_bare_status_nobody_is_quoted(shared: tuple[str, Front], front: Front) -> None:
    front.answer = answering(503)

    with pytest.raises(McpTransportError, match=r"answered 503\.") as caught:
        listed(at(shared[0]))
    assert caught.value.rpc_code is None
    assert "says" not in caught.value.message


def test_a_long_text_of_a_server_is_cut() -> None:
    found = classified("The server", MCPError(-32000, "x" * 10_000))

    assert isinstance(found, WorldFailed)
    assert len(found.message) < 600


# -- told apart by type and code ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MCPError(-32001, "whatever"), "MCP_TIMEOUT"),
        (MCPError(-32000, "timed out"), "MCP_TRANSPORT"),
        (MCPError(-32603, "401 Unauthorized"), "MCP_PROTOCOL"),
        (TimeoutError(), "MCP_TIMEOUT"),
        (httpx2.ReadTimeout("x"), "MCP_TIMEOUT"),
        (httpx2.ConnectError("timeout"), "MCP_TRANSPORT"),
        (httpx2.RemoteProtocolError("gone"), "MCP_TRANSPORT"),
        (ConnectionResetError("403"), "MCP_TRANSPORT"),
        (httpx2.SSEError("x"), "MCP_PROTOCOL"),
        (RuntimeError("connection refused"), "MCP_PROTOCOL"),
        (ExceptionGroup("two", [ExceptionGroup("one", [httpx2.ConnectTimeout("x")])]), "MCP_TIMEOUT"),
        (ExceptionGroup("two", [ValueError("x"), McpAuthError("no")]), "MCP_AUTH"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_errors_are_told_apart_by_type_and_code(error: Exception, code: str) -> None:
    found = classified("The server", error)

    assert isinstance(found, loom.LoomError)
    assert found.code == code
