"""What can go wrong with a server of the Model Context Protocol, told apart by type and code, never by a text."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from loomnb.errors import LoomError, Refused, WorldFailed

__all__ = ["McpAuthError", "McpProtocolError", "McpSecurityError", "McpTimeout", "McpTransportError", "classified", "for_status"]


class McpSecurityError(Refused):
    """The address is not one that may be reached. Nothing was sent there."""

    code = "MCP_SECURITY"


class McpAuthError(WorldFailed):
    """The server does not let this caller in (401), or not do this (403)."""

    code = "MCP_AUTH"
    retryable = False


class McpTimeout(WorldFailed):
    """The server took longer than the call may take."""

    code = "MCP_TIMEOUT"


class McpProtocolError(WorldFailed):
    """The server was reached, and what it says is an error of the protocol, or not of the protocol at all."""

    code = "MCP_PROTOCOL"
    retryable = False


class McpTransportError(WorldFailed):
    """The server could not be reached, or the connection broke."""

    code = "MCP_TRANSPORT"


_CONNECTION_CLOSED = -32000
_REQUEST_TIMEOUT = -32001
"""The codes of the SDK for what its transport ran into; all others are the server's words."""

# Classes of optional libraries by their names, so that this file needs none of them: httpx, anyio and the SDK.
_TRANSPORT_TYPES = {"TransportError", "StreamError", "BrokenResourceError", "ClosedResourceError", "EndOfStream"}
_PROTOCOL_TYPES = {"SSEError", "DecodingError"}


def for_status(where: str, status: int) -> LoomError:
    """The error of an answer over HTTP that is none of the protocol."""
    if status in (401, 403):
        return McpAuthError(
            f"{where} answered {status}: "
            + ("it does not know this caller." if status == 401 else "this caller may not do that."),
            advice="Name the variable that holds the key: host_header_env={host: {'authorization': 'MY_TOKEN'}}.",
        )
    if status in (408, 504):
        return McpTimeout(f"{where} answered {status}: it took too long.")
    if status == 429 or status >= 500:
        return McpTransportError(f"{where} answered {status}.", advice="Try again later.")
    return McpProtocolError(f"{where} answered {status}.", advice="Is this the address of the server's endpoint?")


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
    code = getattr(error, "code", None)
    if code == _REQUEST_TIMEOUT:
        return McpTimeout(f"{where} took too long.", cause=error)
    if code == _CONNECTION_CLOSED:
        return McpTransportError(f"{where} closed the connection before it had answered.", cause=error)
    if status is not None:
        return for_status(where, status)
    return McpProtocolError(f"{where} answered with the error {code}: {_said(error)}", cause=error)


def _said(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__


def _flat(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _flat(inner)
    else:
        yield error
