"""Which headers a host is sent: four layers, the later ones win."""

from __future__ import annotations

import os
from collections.abc import Mapping

from loomnb.agents.mcp.config import McpConfig
from loomnb.agents.mcp.security import ascii_host

__all__ = ["headers_for"]


def headers_for(config: McpConfig, host: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers for a host, their names in lower case: defaults, then `header_env`, then `*` and the host itself of
    `host_header_env`. A variable that is not set, or empty, says nothing.

    Args:
        config: the layers.
        host: who is sent them.
        environ: default: the environment of this process, read now.
    """
    held = os.environ if environ is None else environ
    headers = {name.lower(): text for name, text in config.default_headers.items()}
    layers = [config.header_env, config.host_header_env.get("*", {}), config.host_header_env.get(ascii_host(host), {})]
    for layer in layers:
        headers.update({name.lower(): held[variable] for name, variable in layer.items() if held.get(variable)})
    return headers
