"""Tools by name: as a model is told of them, and as they are called for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loomnb.asks import draft_7
from loomnb.errors import NotFound, Refused
from loomnb.runtime import ModelTool
from loomnb.tools import TOOLS, BaseTool, ServerTool, ToolSpec, container

__all__ = ["callable_tool", "told_tools"]


def told_tools(names: Iterable[str]) -> tuple[list[ModelTool], list[Any]]:
    """What a model is told of the named tools, and how its provider switches on those that it runs itself.

    Raises:
        NotFound: no tool has a name; lists those that exist.
    """
    ours: list[ModelTool] = []
    providers: list[Any] = []
    for name in dict.fromkeys(names):
        spec = TOOLS.need(name)
        if spec.is_server:
            server: ServerTool[Any] = container().get(spec.made_of)
            providers.append(server.server_config())
        else:
            ours.append(ModelTool(name=spec.name, description=spec.description, input_schema=draft_7(spec.json_schema())))
    return ours, providers


def callable_tool(name: str, allowed: Iterable[str] | None) -> BaseTool[Any, Any, Any, Any]:
    """The tool a model asks for.

    Args:
        name: as the model wrote it.
        allowed: the names it was offered; None: every tool of this process.

    Raises:
        NotFound: it is none, or was not offered.
        Refused: the provider runs it, not we.
    """
    offered = sorted(spec.name for spec in TOOLS if not spec.is_server) if allowed is None else list(allowed)
    spec: ToolSpec | None = TOOLS.get(name) if name in offered or allowed is None else None
    if spec is None:
        raise NotFound(f"There is no tool {name!r}.", advice=f"There are: {', '.join(offered) or 'none'}.")
    if spec.is_server:
        raise Refused(f"The tool {name!r} is run by the model's provider.", advice="Ask for another one.")
    made = spec.made_of
    tool: BaseTool[Any, Any, Any, Any] = container().get(made) if isinstance(made, type) else made
    return tool
