"""JSON Schema in the words of draft 7, which providers of models read; pydantic writes 2020-12."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["draft_7"]

_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_ONES = ("items", "additionalProperties", "additionalItems", "not", "contains", "propertyNames", "if", "then", "else")
_OLD = ("draft-07", "draft-06", "draft-04", "draft-03")


def draft_7(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in the words of draft 7, as a copy: definitions, tuples, and what stands beside a reference.

    One that says of itself that it is of draft 7 or older stays as it is.
    """
    plain = dict(schema)
    if any(old in str(plain.get("$schema", "")) for old in _OLD):
        return plain
    plain.pop("$schema", None)
    return cast("dict[str, Any]", _older(plain))


def _older(node: Any) -> Any:
    """The words of 2020-12 as those of draft 7. Names of properties, and values, are left alone."""
    if not isinstance(node, dict):
        return node
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key in _MAPS and isinstance(value, dict):
            out["definitions" if key == "$defs" else key] = {name: _older(one) for name, one in value.items()}
        elif key in (*_LISTS, "items") and isinstance(value, list):
            out[key] = [_older(one) for one in value]
        elif key == "$ref" and isinstance(value, str):
            out[key] = value.replace("/$defs/", "/definitions/")
        else:
            out[key] = _older(value) if key in _ONES else value
    if "prefixItems" in out:
        rest = out.pop("items", None)
        out["items"] = out.pop("prefixItems")
        out |= {"additionalItems": rest} if rest is not None else {}
    if "$ref" in out and len(out) > 1:  # draft 7 reads nothing that stands beside a reference
        out = {"allOf": [{"$ref": out.pop("$ref")}], **out}
    return out
