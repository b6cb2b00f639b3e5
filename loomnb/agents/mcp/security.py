"""Which addresses may be reached: by the name of the host, and by what the name resolves to.

A check of the name alone is no protection: a name may resolve to an address inside, and to another one the next moment. So
addresses are looked up here, and whoever connects takes one of those that were checked.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

from loomnb.agents.mcp.errors import McpSecurityError, McpTransportError

__all__ = [
    "Resolver",
    "UrlRules",
    "ascii_host",
    "check_pattern",
    "check_url",
    "checked_addresses",
    "host_allowed",
    "is_private_address",
    "resolve",
    "without_query",
]

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""`(host, port)` → its addresses."""

_V4_IN_V6 = [ipaddress.IPv6Network(net) for net in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")]
"""Networks whose last 32 bits are an address of v4: compatible, mapped, translated, NAT64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlRules:
    """What may be reached. `allowed_hosts` as `check_pattern` gives them."""

    allowed_hosts: tuple[str, ...]
    allow_insecure_http: bool = False
    allow_private_hosts: bool = False


def ascii_host(host: str) -> str:
    """A host as it is compared: lower case, punycode, an address in its shortest form, without brackets and final dot.

    Raises:
        ValueError: it cannot be a host.
    """
    host = host.strip().lower().removeprefix("[").removesuffix("]").removesuffix(".")
    address = _address(host)
    if address is not None:
        return str(address)
    if not host.isascii():
        host = _punycode(host)
    if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", host):
        raise ValueError(f"{host!r} is no host")
    return host


def _punycode(host: str) -> str:
    try:
        import idna  # noqa: PLC0415  # comes with the extra; the same rules as those of the client that connects
    except ImportError as exc:
        raise ValueError(f"{host!r}: a name with other letters needs the library idna: pip install 'loomnb[mcp]'") from exc
    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError as exc:
        raise ValueError(f"{host!r} is no host: {exc}") from exc


def check_pattern(pattern: str) -> str:
    """A pattern of an allow-list as it is compared: a host, or `*.` and the end of one.

    Raises:
        ValueError: it is neither.
    """
    if pattern.startswith("*."):
        suffix = ascii_host(pattern[2:])
        if _address(suffix) is not None:
            raise ValueError(f"{pattern!r}: an address has no hosts below it")
        return f"*.{suffix}"
    return ascii_host(pattern)


def host_allowed(host: str, allowed: Sequence[str]) -> bool:
    """Whether an allow-list names a host. `*.example.com` is example.com and everything below it."""
    try:
        name = ascii_host(host)
    except ValueError:
        return False
    patterns = [check_pattern(pattern) for pattern in allowed]
    if name in patterns:
        return True
    if _address(name) is not None:  # 10.0.0.1 is not below 0.0.1
        return False
    return any(name == suffix or name.endswith(f".{suffix}") for suffix in (p[2:] for p in patterns if p.startswith("*.")))


def is_private_address(address: str) -> bool:
    """Whether an address is not one of the public internet. What is no address at all is taken for private."""
    found = _address(address.removeprefix("[").removesuffix("]"))
    return found is None or _is_private(found)


def _is_private(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.sixtofour is not None:
            return _is_private(address.sixtofour)
        if any(address in net for net in _V4_IN_V6):
            return _is_private(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.is_site_local:
            return True
    return not address.is_global or address.is_multicast or address.is_reserved


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def without_query(url: str) -> str:
    """An address for a message: without what may be a secret in it."""
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{netloc}{parts.path}"


def check_url(url: str, rules: UrlRules) -> tuple[str, int]:
    """The host and port of an address that may be reached, as far as can be said without looking its name up.

    Raises:
        McpSecurityError: it may not.
    """
    parts, host, port = _parts(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and rules.allow_insecure_http):
        raise McpSecurityError(
            f"{without_query(url)} is not reached by {parts.scheme or 'no'}: only by https.",
            advice="A server of your own: allow_insecure_http=True." if parts.scheme == "http" else "",
        )
    if "@" in parts.netloc:
        raise McpSecurityError(
            f"The address of {host} carries a user name or a password.",
            advice="Put it into a variable of the environment, and name that in header_env or host_header_env.",
        )
    if not host_allowed(host, rules.allowed_hosts):
        raise McpSecurityError(
            f"The host {host} is not on the list of hosts that may be reached: {', '.join(rules.allowed_hosts)}.",
            advice="Add it to allowed_hosts if it should be.",
        )
    if not rules.allow_private_hosts and (_is_local_name(host) or (_address(host) is not None and is_private_address(host))):
        raise _private(host, host)
    return host, port


def _parts(url: str) -> tuple[SplitResult, str, int]:
    try:
        if re.search(r"[\s\\\x00-\x1f\x7f]", url):
            raise ValueError("it has a character that no address has")
        parts = urlsplit(url)
        host = ascii_host(parts.hostname or "")
        port = parts.port
    except ValueError as exc:
        raise McpSecurityError(f"{url.partition('?')[0]!r} is no address of a server: {exc}.") from exc
    return parts, host, port if port is not None else (443 if parts.scheme == "https" else 80)


def _is_local_name(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")


def _private(host: str, address: str) -> McpSecurityError:
    what = f"{host} is" if host == address else f"{host} resolves to {address},"
    return McpSecurityError(
        f"{what} an address of this machine or of a private network.",
        advice="A server of your own: allow_private_hosts=True.",
    )


async def checked_addresses(host: str, port: int, lookup: Resolver) -> list[str]:
    """The addresses of a host, all of them public: connect to one of these, and do not look it up again.

    Raises:
        McpSecurityError: one of them is private; who answers with both kinds is not to be trusted with either.
        McpTransportError: the name cannot be resolved.
    """
    if _address(host) is not None:
        found: Sequence[str] = [host]
    else:
        try:
            found = list(dict.fromkeys(await lookup(host, port)))
        except OSError as exc:
            raise McpTransportError(f"The name {host} cannot be resolved: {exc}", cause=exc) from exc
    if not found:
        raise McpTransportError(f"The name {host} has no address.")
    for address in found:
        if is_private_address(address):
            raise _private(host, address)
    return list(found)


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, as this machine resolves it."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(info[4][0]) for info in infos]
