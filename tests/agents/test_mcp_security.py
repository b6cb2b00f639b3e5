"""Which addresses an MCP server may have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents.mcp.errors import McpSecurityError, McpTransportError
from loomnb.agents.mcp.security import (
    UrlRules,
    check_pattern,
    check_url,
    checked_addresses,
    host_allowed,
    is_private_address,
)

RULES = UrlRules(allowed_hosts=("mcp.example.com", "*.example.org"))


@pytest.mark.case("workflows:O05")
@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("mcp.example.com", True),
        ("MCP.Example.COM", True),
        ("mcp.example.com.", True),
        ("example.com", False),
        ("a.mcp.example.com", False),
        ("example.org", True),
        ("a.example.org", True),
        ("a.b.C.example.org", True),
        ("notexample.org", False),
        ("example.org.evil.com", False),
        ("xn--bcher-kva.example.org", True),
        ("", False),
        ("a..example.org", False),
    ],
)
def test_a_host_is_allowed_exactly_or_below_a_wildcard(host: str, allowed: bool) -> None:
    assert host_allowed(host, RULES.allowed_hosts) is allowed


@pytest.mark.case("workflows:O05")
@pytest.mark.parametrize("pattern", ["bücher.example", "xn--bcher-kva.example", "BÜCHER.example"])
@pytest.mark.parametrize("host", ["bücher.example", "xn--bcher-kva.example", "Bücher.Example"])
def test_unicode_and_punycode_are_one_name(pattern: str, host: str) -> None:
    assert host_allowed(host, [pattern])
    assert host_allowed(f"a.{host}", [f"*.{pattern}"])


@pytest.mark.case("workflows:O05")
def test_an_address_is_below_no_wildcard() -> None:
    with pytest.raises(ValueError, match="no hosts below"):
        check_pattern("*.10.0.0.1")
    assert not host_allowed("10.0.0.1", ["*.0.0.1"])
    assert host_allowed("[0:0::FFFF]", ["::ffff"])


PRIVATE = [
    *("10.0.0.1", "10.255.255.255", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.16.0.1", "172.31.255.255"),
    *("192.168.0.1", "100.64.0.1", "100.127.255.255", "0.0.0.0", "255.255.255.255", "224.0.0.1"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1"),
    *("::ffff:10.0.0.1", "::ffff:7f00:1", "::FFFF:C0A8:0001", "0:0:0:0:0:ffff:0a00:0001", "[::ffff:169.254.169.254]"),
    *("2002:0a00:0001::", "2002:7f00:1::1", "2002:c0a8:0101::5", "64:ff9b::10.0.0.1", "::10.0.0.1", "no address"),
]
PUBLIC = [
    *("8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "192.167.1.1", "1.1.1.1"),
    *("2606:4700:4700::1111", "::ffff:8.8.8.8", "2002:0808:0808::1", "64:ff9b::8.8.8.8"),
]


@pytest.mark.case("workflows:O06")
@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_of_this_machine_or_a_private_network_is_private(address: str) -> None:
    assert is_private_address(address)


@pytest.mark.case("workflows:O06")
@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_internet_is_not(address: str) -> None:
    assert not is_private_address(address)


@pytest.mark.case("workflows:O07")
@pytest.mark.parametrize(
    "url",
    [
        "http://mcp.example.com/mcp",
        "ftp://mcp.example.com/mcp",
        "//mcp.example.com/mcp",
        "https://user@mcp.example.com/mcp",
        "https://user:secret@mcp.example.com/mcp",
        "https://@mcp.example.com/mcp",
        "https://other.example.com/mcp",
        "https://mcp.example.com@other.example.com/mcp",
        "https://other.example.com\\@mcp.example.com/mcp",
        "https://mcp.example.com\t.evil.com/",
        "https://mcp.example.com:99999/mcp",
        "https:///mcp",
        "https://[::1/mcp",
        "mcp.example.com/mcp",
    ],
)
def test_an_address_that_is_not_plainly_allowed_is_refused(url: str) -> None:
    with pytest.raises(McpSecurityError) as caught:
        check_url(url, RULES)

    assert caught.value.code == "MCP_SECURITY"
    assert isinstance(caught.value, loom.Refused)
    assert "secret" not in str(caught.value)


@pytest.mark.case("workflows:O07")
def test_http_is_reached_where_it_is_allowed() -> None:
    rules = UrlRules(allowed_hosts=("mcp.example.com",), allow_insecure_http=True)

    assert check_url("http://mcp.example.com/mcp", rules) == ("mcp.example.com", 80)
    assert check_url("https://mcp.example.com:8443/mcp", rules) == ("mcp.example.com", 8443)


@pytest.mark.case("workflows:O07", "workflows:O06")
@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "[::1]", "[::ffff:7f00:1]", "169.254.169.254"])
def test_a_private_host_is_refused_though_it_is_listed(host: str) -> None:
    with pytest.raises(McpSecurityError, match="private network"):
        check_url(f"https://{host}/mcp", UrlRules(allowed_hosts=(check_pattern(host),)))
    assert check_url(f"https://{host}/mcp", UrlRules(allowed_hosts=(check_pattern(host),), allow_private_hosts=True))


def resolving(*addresses: str) -> Any:
    async def lookup(host: str, port: int) -> Sequence[str]:
        return addresses

    return lookup


@pytest.mark.case("workflows:O07")
def test_a_name_with_a_private_address_among_its_own_is_refused() -> None:
    with pytest.raises(McpSecurityError, match=r"resolves to 10\.0\.0\.7"):
        asyncio.run(checked_addresses("mcp.example.com", 443, resolving("8.8.8.8", "10.0.0.7")))


def test_a_name_with_public_addresses_gives_them_once_each() -> None:
    found = asyncio.run(checked_addresses("mcp.example.com", 443, resolving("8.8.8.8", "2606:4700::1", "8.8.8.8")))

    assert found == ["8.8.8.8", "2606:4700::1"]


def test_a_name_that_cannot_be_resolved_is_no_question_of_security() -> None:
    async def failing(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(McpTransportError, match="cannot be resolved"):
        asyncio.run(checked_addresses("mcp.example.com", 443, failing))
    with pytest.raises(McpTransportError, match="no address"):
        asyncio.run(checked_addresses("mcp.example.com", 443, resolving()))
