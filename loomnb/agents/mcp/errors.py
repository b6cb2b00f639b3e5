"""What can go wrong with a server of the Model Context Protocol, told apart by type and code, never by a text."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from loomnb.errors import LoomError, Refused, WorldFailed

__all__ = ["McpAuthError", "McpProtocolError", "McpSecurityError", "McpTimeout", "McpTransportError", "classified", "for_status"]


class McpSecurityError(Refused):
    """The address is not one that may be reached. Nothing was sent there."""

    code = "MCP_SECURITY"


class _McpFailed(WorldFailed):
    """What a server, or the way to it, failed with.

    Attributes:
        rpc_code: of the error by which the server answered (JSON-RPC), where it did; the message has its text.
    """

    rpc_code: int | None = None


class McpAuthError(_McpFailed):
    """The server does not let this caller in (401), or not do this (403)."""

    code = "MCP_AUTH"
    retryable = False


class McpTimeout(_McpFailed):
    """The server took longer than the call may take."""

    code = "MCP_TIMEOUT"


class McpProtocolError(_McpFailed):
    """The server was reached, and what it says is an error of the protocol, or not of the protocol at all."""

    code = "MCP_PROTOCOL"
    retryable = False


class McpTransportError(_McpFailed):
    """The server could not be reached, or the connection broke."""

    code = "MCP_TRANSPORT"


_CONNECTION_CLOSED = -32000
_REQUEST_TIMEOUT = -32001
"""The codes of the SDK for what its transport ran into. Servers answer with them, too, and then have something to say."""

_STAND_INS = {"Server returned an error response", "Session terminated", "Not Found"}
"""What the SDK puts where a server answered with a status only. It tells nothing, and no server said it."""

_MOST = 500
"""Characters of what a server says that go into a message."""

# Classes of optional libraries by their names, so that this file needs none of them: httpx, anyio and the SDK.
_TRANSPORT_TYPES = {"TransportError", "StreamError", "BrokenResourceError", "ClosedResourceError", "EndOfStream"}
_PROTOCOL_TYPES = {"SSEError", "DecodingError"}


def for_status(where: str, status: int, said: str = "") -> LoomError:
    """The error of an answer over HTTP that is none of the protocol; `said` is what it says beside."""
    more = f" It says: {said}" if said else ""
    if status in (401, 403):
        return McpAuthError(
            f"{where} answered {status}: "
            + ("it does not know this caller." if status == 401 else "this caller may not do that.")
            + more,
            advice="Name the variable that holds the key: host_header_env={host: {'authorization': 'MY_TOKEN'}}.",
        )
    if status in (408, 504):
        return McpTimeout(f"{where} answered {status}: it took too long.{more}")
    if status == 429 or status >= 500:
        return McpTransportError(f"{where} answered {status}.{more}", advice="Try again later.")
    return McpProtocolError(f"{where} answered {status}.{more}", advice="Is this the address of the server's endpoint?")


def classified(where: str, error: BaseException, status: int | None = None) -> BaseException:
    """The error of this library for what the SDK raised; errors of ours, and what ends the process, stay as they are.

    Args:
        where: the server, for the message.
        error: what was raised; of a group the first that says something.
        status: how the last request was answered over HTTP, where that was a failure.
    """
    found = list(_flat(error))
    ours = next((one for one in found if isinstance(one, LoomError)), None)
    if ours is not None:
        return ours
    one = found[0] if found else error
    if not isinstance(one, Exception):
        return one
    named = {cls.__name__ for cls in type(one).__mro__}
    if isinstance(one, TimeoutError) or "TimeoutException" in named:
        return McpTimeout(f"{where} took too long: {_said(one)}", cause=one)
    if "HTTPStatusError" in named:
        return for_status(where, int(getattr(getattr(one, "response", None), "status_code", 0)))
    if "MCPError" in named:
        return _of_code(where, one, status)
    if named & _PROTOCOL_TYPES or isinstance(one, ValidationError):
        return McpProtocolError(f"{where} said something that is not of the protocol: {_said(one)}", cause=one)
    if named & _TRANSPORT_TYPES or isinstance(one, OSError):
        return McpTransportError(f"{where} could not be reached: {_said(one)}", cause=one)
    # What is left the SDK raises when it checks an answer: a version nobody knows, data that does not fit its own schema.
    return McpProtocolError(f"{where} gave an answer that cannot be used: {_said(one)}", cause=one)


def _of_code(where: str, error: Exception, status: int | None) -> LoomError:
    code, said = getattr(error, "code", None), _said(error)
    made: LoomError
    if code == _REQUEST_TIMEOUT:
        made = McpTimeout(f"{where} took too long (error {code}): {said}", cause=error)
    elif code == _CONNECTION_CLOSED:
        made = McpTransportError(f"{where} did not do it (error {code}): {said}", cause=error)
    elif status is not None and said in _STAND_INS:
        return for_status(where, status)
    elif status is not None:
        made = for_status(where, status, said)
    else:
        made = McpProtocolError(f"{where} answered with the error {code}: {said}", cause=error)
    if isinstance(made, _McpFailed) and isinstance(code, int):
        made.rpc_code = code
    return made


def _said(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text if len(text) <= _MOST else text[: _MOST - 1].rstrip() + "…"


def _flat(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _flat(inner)
    else:
        yield error
