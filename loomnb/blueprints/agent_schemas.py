"""The schemas of an agent and its tools: how they parse, what of it is JSON, and how they are told to a model.

A schema is what pydantic's TypeAdapter takes, or an object with `parse(value)`, sync or async. It is told as JSON Schema, draft
7, which providers read; pydantic writes 2020-12. Rules: contracts/blueprints.md §1.10.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any, Literal, cast

from pydantic import BaseModel, PlainValidator, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema as core

from loomnb.asks import draft_7 as older
from loomnb.errors import NotJson, StepError
from loomnb.jsonvalue import dumps, freeze, thaw

__all__ = ["draft_7", "is_own", "json_of", "parsed_by", "shape_of"]


async def parsed_by(schema: Any, value: Any, *, is_json: bool = False) -> Any:
    """What a schema makes of a value, parsed once.

    Args:
        schema: of a tool or an agent.
        value: what it judges.
        is_json: whether it is JSON from outside: then a strict model takes a date as its text, and a tuple as a list.
    """
    own = _own_parse(schema)
    if own is not None:
        parsed = own(value)
    elif is_json:
        parsed = _adapter(schema).validate_json(dumps(value))
    else:
        parsed = _adapter(schema).validate_python(value)
    return await parsed if inspect.isawaitable(parsed) else parsed


def json_of(parsed: Any) -> Any:
    """Frozen JSON of what a schema gave. Models and dataclasses are dumped as pydantic does, everything else has to be JSON.

    Raises:
        NotJson: it is not.
    """
    return freeze(_dumped(parsed))


def _dumped(value: Any) -> Any:
    if type(value) is dict:
        return {key: _dumped(one) for key, one in value.items()}
    if type(value) is list:
        return [_dumped(one) for one in value]
    if isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)):
        adapter: TypeAdapter[Any] = TypeAdapter(type(value))
        _refuse_no_numbers(adapter.dump_python(value, warnings=False))  # JSON mode would silently make them null
        return adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
    return value


def _refuse_no_numbers(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise NotJson(f"It holds {value!r}: JSON has no such number.", advice="Give None or a text instead.")
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set, frozenset)) else ():
        _refuse_no_numbers(one)


def _own_parse(schema: Any) -> Callable[[Any], Any] | None:
    found = None if isinstance(schema, (type, TypeAdapter)) else getattr(schema, "parse", None)
    return found if callable(found) else None


def _adapter(schema: Any) -> TypeAdapter[Any]:
    return schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)


# -- told to a model -------------------------------------------------------------------------------


def draft_7(schema: Any, side: Literal["input", "output"]) -> dict[str, Any]:
    """The JSON Schema (draft 7) of one side of a schema: `input` as the parser takes it, `output` as it gives it.

    What a function of the author's makes of a value has no shape of its own: on the output side it is told as unconstrained. An
    object with `parse` may tell its input as `json_schema`, a mapping or a function that gives one.

    Raises:
        StepError: an input schema that JSON Schema cannot say.
    """
    if _own_parse(schema) is not None:
        return {} if side == "output" else _told_by_itself(schema)
    mode: JsonSchemaMode = "validation" if side == "input" else "serialization"
    try:
        made = _adapter(schema).json_schema(mode=mode, ref_template="#/definitions/{model}", schema_generator=_Generator)
    except Exception as exc:
        if side == "output":
            return {}
        raise _untold(schema, str(exc).splitlines()[0], exc) from exc
    return older(made)


def shape_of(schema: Any, side: Literal["input", "output"] = "input") -> dict[str, Any] | None:
    """The same; None where JSON Schema cannot say it."""
    try:
        return draft_7(schema, side)
    except StepError:
        return None


def is_own(schema: Any) -> bool:
    """Whether it is an object with `parse`, of which pydantic knows nothing."""
    return _own_parse(schema) is not None


def _told_by_itself(schema: Any) -> dict[str, Any]:
    told = getattr(schema, "json_schema", None)
    if callable(told):
        told = told()
    if not isinstance(told, Mapping):
        raise _untold(schema, "an object with `parse` does not say what it takes", None)
    return cast("dict[str, Any]", thaw(freeze(dict(told))))


def _untold(schema: Any, why: str, cause: BaseException | None) -> StepError:
    return StepError(
        f"The input schema {schema!r} cannot be told to a model: {why}.",
        advice="Use plain types and pydantic models for what a model has to give, or an object with `parse` and `json_schema`.",
        cause=cause,
    )


class _Generator(GenerateJsonSchema):
    """pydantic's, but what a validator function gives is not taken for the type it was given."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing: a default that is no JSON is left out, which is all there is to know."""

    def function_after_schema(self, schema: core.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        """A function after the parsing of a type may give anything; the validator of a model gives the model."""
        return {} if self._is_opaque(schema) else super().function_after_schema(schema)

    def function_wrap_schema(self, schema: core.WrapValidatorFunctionSchema) -> JsonSchemaValue:
        """As after it."""
        return {} if self._is_opaque(schema) else super().function_wrap_schema(schema)

    def function_plain_schema(self, schema: core.PlainValidatorFunctionSchema) -> JsonSchemaValue:
        """A function instead of a type."""
        return {} if self.mode == "serialization" else super().function_plain_schema(schema)

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        """A serializer says its shape; one that pydantic itself put beside a function instead of a type knows nothing of it."""
        function = schema.get("function")
        return {} if getattr(function, "__module__", "") == PlainValidator.__module__ else super().ser_schema(schema)

    def _is_opaque(self, schema: Any) -> bool:
        if self.mode == "validation":
            return False
        function, inner = schema["function"]["function"], schema["schema"]
        while inner["type"] in ("function-after", "function-wrap", "function-before"):
            inner = inner["schema"]
        decorators = getattr(inner.get("cls"), "__pydantic_decorators__", None)
        own = decorators.model_validators.values() if decorators is not None else ()
        return not any(validator.func is function for validator in own)
