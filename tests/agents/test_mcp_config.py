"""The configuration of a call of an MCP server, and the headers made of it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

import loomnb as loom
from loomnb.agents.mcp.config import McpConfig, looks_secret
from loomnb.agents.mcp.headers import headers_for

HOSTS = {"allowedHosts": ["mcp.example.com"]}


@pytest.mark.case("workflows:O08")
def test_headers_come_in_four_layers_and_the_last_one_wins() -> None:
    config = McpConfig.model_validate(
        HOSTS
        | {
            "defaultHeaders": {"X-A": "default", "X-B": "default", "X-C": "default", "X-D": "default"},
            "headerEnv": {"x-b": "B", "x-c": "B", "x-d": "B"},
            "hostHeaderEnv": {"*": {"X-C": "C", "x-d": "C"}, "MCP.example.com": {"x-D": "D"}, "other.example.com": {"x-a": "D"}},
        }
    )

    found = headers_for(config, "mcp.EXAMPLE.com", {"B": "env", "C": "any host", "D": "this host"})

    assert found == {"x-a": "default", "x-b": "env", "x-c": "any host", "x-d": "this host"}


@pytest.mark.case("workflows:O08")
def test_a_variable_that_is_not_set_or_empty_says_nothing() -> None:
    config = McpConfig.model_validate(
        HOSTS
        | {"defaultHeaders": {"X-A": "default", "X-B": "default"}, "headerEnv": {"x-a": "UNSET", "x-b": "EMPTY", "x-c": "EMPTY"}}
    )

    assert headers_for(config, "mcp.example.com", {"EMPTY": ""}) == {"x-a": "default", "x-b": "default"}


@pytest.mark.case("workflows:O08")
def test_variables_are_read_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    config = McpConfig.model_validate(HOSTS | {"headerEnv": {"Authorization": "MCP_TOKEN"}})
    monkeypatch.setenv("MCP_TOKEN", "Bearer 1")

    assert headers_for(config, "mcp.example.com") == {"authorization": "Bearer 1"}


def test_the_line_end_of_a_variable_made_of_a_file_is_no_part_of_it() -> None:
    config = McpConfig.model_validate(HOSTS | {"headerEnv": {"Authorization": "MCP_TOKEN"}})

    assert headers_for(config, "mcp.example.com", {"MCP_TOKEN": "Bearer 1\n"}) == {"authorization": "Bearer 1"}


@pytest.mark.parametrize("value", ["secret\r\nX-B: y", "sécret", "secret\0"], ids=ascii)
def test_a_variable_that_no_header_can_carry_is_refused_without_telling_it(value: str) -> None:
    config = McpConfig.model_validate(HOSTS | {"headerEnv": {"Authorization": "MCP_TOKEN"}})

    with pytest.raises(loom.InvalidRequest, match="MCP_TOKEN") as caught:
        headers_for(config, "mcp.example.com", {"MCP_TOKEN": value})
    assert "cret" not in str(caught.value)


@pytest.mark.case("workflows:O10")
@pytest.mark.parametrize(
    "name",
    [
        *(
            "Authorization",
            "authorization",
            "COOKIE",
            "Proxy-Authorization",
            "X-API-Key",
            "x-api-key",
            "Set-Cookie",
            "X-Auth-Token",
        ),
        *("Private-Token", "X-Client-Secret", "apikey", "Ocp-Apim-Subscription-Key", "Mcp-Session-Id", "X_ACCESS_KEY"),
    ],
)
def test_a_default_header_that_carries_a_secret_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="carries a secret"):
        McpConfig.model_validate(HOSTS | {"defaultHeaders": {name: "x"}})


@pytest.mark.case("workflows:O10")
@pytest.mark.parametrize("name", ["Accept-Language", "X-Workspace", "X-Author", "Idempotency-Key", "X-Monkey"])
def test_any_other_default_header_is_taken(name: str) -> None:
    assert not looks_secret(name)
    assert McpConfig.model_validate(HOSTS | {"defaultHeaders": {name: "x"}}).default_headers == {name: "x"}


@pytest.mark.case("workflows:O10")
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"allowedHosts": []},
        {"allowedHosts": ["*"]},
        {"allowedHosts": ["https://mcp.example.com"]},
        {"allowedHosts": ["mcp.example.com:443"]},
        {"allowedHosts": [""]},
        HOSTS | {"allowEverything": True},
        HOSTS | {"headers": {}},
        HOSTS | {"defaultHeaders": {"X A": "x"}},
        HOSTS | {"defaultHeaders": {"X-A": "x\r\nX-B: y"}},
        HOSTS | {"headerEnv": {"X-A": ""}},
        HOSTS | {"hostHeaderEnv": {"*.example.com": {"X-A": "A"}}},
    ],
    ids=str,
)
def test_a_configuration_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        McpConfig.model_validate(wrong)


@pytest.mark.case("workflows:O10")
def test_nothing_more_is_allowed_unless_it_is_said() -> None:
    config = McpConfig.model_validate({"allowed_hosts": ["*.Example.com."]})

    assert config.allowed_hosts == ("*.example.com",)
    assert not config.allow_insecure_http
    assert not config.allow_private_hosts
