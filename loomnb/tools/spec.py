"""What is known of a tool: its name, what it is for, and the schemas that judge its arguments and its configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loomnb.asks import Schema
from loomnb.documents import Widget, WidgetRef
from loomnb.errors import DefinitionError
from loomnb.runtime import Registry

__all__ = ["SPEC", "TOOLS", "ToolOptions", "ToolSpec", "check_name", "spec_of"]

SPEC = "__loom_tool__"
"""Where `@loom.tool` puts what it knows of a class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """Options of `@loom.tool`."""

    name: str | None = None
    description: str | None = None
    schema: Any = None
    config_schema: Any = None
    widget: WidgetRef | Sequence[WidgetRef] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolSpec:
    """A tool, checked. `schema` judges the arguments of a call, `config_schema` its configuration; None: plain JSON."""

    name: str
    description: str
    schema: Schema | None
    config_schema: Schema | None
    widgets: tuple[Widget, ...]
    is_server: bool
    """Whether the model's provider runs it."""
    made_of: Any
    """The class, or the function tool itself."""

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, input side, as it goes on the wire."""
        return self.schema.json_schema() if self.schema is not None else {"type": "object", "properties": {}}


TOOLS: Registry[ToolSpec] = Registry("tool")
"""Every tool defined in this process, by name."""


def spec_of(tool: Any) -> ToolSpec:
    """The spec of a tool, or of its class. A subclass that is not decorated is the same tool under the same name.

    Raises:
        DefinitionError: it was not decorated.
    """
    spec = getattr(tool, SPEC, None)
    if not isinstance(spec, ToolSpec):
        cls = tool if isinstance(tool, type) else type(tool)
        raise DefinitionError(f"{cls.__qualname__} is no tool.", advice="Decorate the class with @loom.tool.")
    return spec


def check_name(name: str, where: str) -> str:
    """A name that every provider takes.

    Raises:
        DefinitionError: it is not one.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        raise DefinitionError(
            f"{where}: {name!r} cannot be a tool's name: models take letters, digits, _ and -, 64 at the most.",
            advice='Name it: @loom.tool(name="my_tool").',
        )
    return name
