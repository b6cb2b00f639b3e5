"""Which headers a host is sent: four layers, the later ones win."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from loomnb.agents.mcp.config import VALUE, McpConfig
from loomnb.agents.mcp.security import ascii_host
from loomnb.errors import InvalidRequest

__all__ = ["headers_for"]


def headers_for(config: McpConfig, host: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers for a host, their names in lower case: defaults, then `header_env`, then `*` and the host itself of
    `host_header_env`. A variable that is not set, or empty, says nothing.

    Args:
        config: the layers.
        host: who is sent them.
        environ: default: the environment of this process, read now. White space around a value is no part of it.

    Raises:
        InvalidRequest: a variable holds what no header can carry. Its value is not told.
    """
    held = os.environ if environ is None else environ
    headers = {name.lower(): text for name, text in config.default_headers.items()}
    layers = [config.header_env, config.host_header_env.get("*", {}), config.host_header_env.get(ascii_host(host), {})]
    for layer in layers:
        for name, variable in layer.items():
            value = held.get(variable, "").strip()
            if not re.fullmatch(VALUE, value):
                raise InvalidRequest(f"The variable {variable} holds a value that the header {name} cannot carry.")
            if value:
                headers[name.lower()] = value
    return headers
