"""An output schema on its way to a model, and the object that comes back.

Three ways, the first that the model can: its own mode for JSON Schema; a tool that it has to call, whose input is the output; or
the schema in words. Services want an object at the top, so that any other schema travels inside `{"output": …}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from loomnb.jsonvalue import Json

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile

__all__ = ["OUTPUT_TOOL", "Output", "json_in", "output_for"]

OUTPUT_TOOL = "final_result"
"""What the tool is called whose input is the output."""

_DESCRIPTION = "Call this once, with the final answer."


@dataclass(frozen=True, slots=True)
class Output:
    """How an output is asked for.

    Attributes:
        mode: `native`, `tool` or `prompted`.
        schema: what is sent: an object at the top.
        is_wrapped: whether the output is inside `{"output": …}`.
    """

    mode: Literal["native", "tool", "prompted"]
    schema: dict[str, Any]
    is_wrapped: bool

    @property
    def is_shown(self) -> bool:
        """Whether the text that is streamed is the output as it will be."""
        return self.mode != "tool" and not self.is_wrapped

    def opened(self, value: Any) -> Json:
        """What the caller asked for, out of what the model gave; None when it is not there."""
        if not self.is_wrapped:
            return cast("Json", value)
        return cast("Json", value.get("output")) if isinstance(value, dict) else None

    def parameters(self) -> dict[str, Any]:
        """The fields of pydantic-ai's request that ask for it."""
        from pydantic_ai.output import OutputObjectDefinition  # noqa: PLC0415  # 1.5 s, which only the first turn pays
        from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415  # the same

        if self.mode == "tool":
            tool = ToolDefinition(name=OUTPUT_TOOL, description=_DESCRIPTION, parameters_json_schema=self.schema, kind="output")
            return {"output_mode": "tool", "output_tools": [tool], "allow_text_output": False}
        return {"output_mode": self.mode, "output_object": OutputObjectDefinition(json_schema=self.schema, name=OUTPUT_TOOL)}


def output_for(schema: Mapping[str, Any] | None, profile: ModelProfile) -> Output | None:
    """How a model is asked for an output of this schema (JSON Schema, draft 7); None for free text."""
    if schema is None:
        return None
    if profile.get("supports_json_schema_output"):
        mode: Literal["native", "tool", "prompted"] = "native"
    else:
        mode = "tool" if profile.get("supports_tools", True) else "prompted"
    plain = _with_defs({key: value for key, value in schema.items() if key not in ("$schema", "$id")})
    is_object = plain.get("type") == "object" and not any(key in plain for key in ("anyOf", "oneOf", "allOf", "$ref"))
    if is_object:
        return Output(mode, plain, is_wrapped=False)
    shared = plain.pop("$defs", None)
    wrapper: dict[str, Any] = {"type": "object", "properties": {"output": plain}, "required": ["output"]}
    wrapper["additionalProperties"] = False
    return Output(mode, wrapper | ({"$defs": shared} if shared else {}), is_wrapped=True)


def _with_defs(schema: Any) -> Any:
    """With `$defs`, where draft 7 has `definitions`: the form that vendors' own checks know."""
    if isinstance(schema, list):
        return [_with_defs(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            out[key] = value.replace("#/definitions/", "#/$defs/")
        elif key in ("properties", "definitions", "$defs"):  # the keys in there are names
            out["$defs" if key == "definitions" else key] = {name: _with_defs(inner) for name, inner in value.items()}
        elif key in ("const", "enum", "default", "examples"):  # values, no schemas
            out[key] = value
        else:
            out[key] = _with_defs(value)
    return out


def json_in(text: str) -> Any:
    """The JSON that a text is, also inside a Markdown fence; `...` when it is none."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.partition("\n")[2].removesuffix("```")
    try:
        return json.loads(text)
    except ValueError:
        return ...
