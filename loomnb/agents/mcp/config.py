"""What a call may reach, and the headers it carries: the configuration of the two tools for workflows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from loomnb.agents.mcp.security import UrlRules, ascii_host, check_pattern

__all__ = ["DEFAULT_TIMEOUT_MS", "MAX_TIMEOUT_MS", "VALUE", "McpConfig", "McpTransport", "looks_secret"]

DEFAULT_TIMEOUT_MS = 60_000
MAX_TIMEOUT_MS = 900_000
VALUE = r"[\t\x20-\x7e]*"
"""What the value of a header is made of."""

McpTransport: TypeAlias = Literal["streamableHttp", "sse"]
"""How a server is spoken to: `sse` is the older way."""

_SECRET_WORDS = {
    *("auth", "authorization", "authentication", "cookie", "token", "secret", "password", "passwd", "passphrase"),
    *("credential", "credentials", "bearer", "apikey", "jwt"),
}
_SECRET_PAIRS = {("api", "key"), ("access", "key"), ("private", "key"), ("subscription", "key"), ("session", "id")}


def looks_secret(header: str) -> bool:
    """Whether a header is one that carries a secret, as far as its name tells."""
    words = re.split(r"[-_]", header.lower())
    return not _SECRET_WORDS.isdisjoint(words) or any(pair in _SECRET_PAIRS for pair in itertools.pairwise(words))


def _header(name: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ValueError(f"{name!r} is no name of a header")
    return name


def _variable(name: str) -> str:
    if not name or "=" in name or "\0" in name:
        raise ValueError(f"{name!r} is no name of a variable of the environment")
    return name


Header: TypeAlias = Annotated[str, AfterValidator(_header)]
Variable: TypeAlias = Annotated[str, AfterValidator(_variable)]


class McpConfig(BaseModel):
    """What a call of an MCP server may reach, and the headers it carries. Python and JSON names are both taken.

    Attributes:
        allowed_hosts: at least one: a host, or `*.example.com` for example.com and everything below it.
        allow_insecure_http: also http, not only https.
        allow_private_hosts: also this machine and private networks; names are then not looked up beforehand.
        default_headers: sent with every request. Those that carry secrets are refused: name a variable instead.
        header_env: header → the variable of the environment that holds it.
        host_header_env: host, or `*` for every host → header → variable.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, alias_generator=to_camel)

    allowed_hosts: tuple[str, ...] = Field(min_length=1)
    allow_insecure_http: bool = False
    allow_private_hosts: bool = False
    default_headers: Mapping[Header, str] = Field(default_factory=dict[str, str])
    header_env: Mapping[Header, Variable] = Field(default_factory=dict[str, str])
    host_header_env: Mapping[str, Mapping[Header, Variable]] = Field(default_factory=dict[str, Mapping[str, str]])

    @field_validator("allowed_hosts")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(check_pattern(pattern) for pattern in value)

    @field_validator("default_headers")
    @classmethod
    def _no_secrets(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name, text in value.items():
            if looks_secret(name):
                raise ValueError(f"{name} carries a secret: put it into a variable, and name that in header_env")
            if not re.fullmatch(VALUE, text):
                raise ValueError(f"{name} has a value that no header can carry")
        return value

    @field_validator("host_header_env")
    @classmethod
    def _hosts(cls, value: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
        hosts: dict[str, Mapping[str, str]] = {}
        for key, headers in value.items():
            host = key if key == "*" else ascii_host(key)
            hosts[host] = {**hosts.get(host, {}), **headers}
        return hosts

    @property
    def rules(self) -> UrlRules:
        """Which addresses may be reached."""
        return UrlRules(
            allowed_hosts=self.allowed_hosts,
            allow_insecure_http=self.allow_insecure_http,
            allow_private_hosts=self.allow_private_hosts,
        )
