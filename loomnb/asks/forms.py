"""A form as data, made from what pydantic's TypeAdapter takes, and the way from what a form sends to a payload.

Flat fields only: text, number, yes/no, one of several, optional. A nested field is a JSON text box. The schema stays the
judge: a form sends what was typed, and the schema says what is wrong with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from loomnb.errors import AnswerInvalid, DefinitionError, fields_from_pydantic
from loomnb.jsonvalue import freeze, thaw

__all__ = ["Choice", "Field", "Form", "Schema", "form_of", "payload_of"]

RAW = "data"
"""The name of the one field of a form whose schema is not an object."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Choice(_Data):
    """One of several: the JSON value and what is shown for it."""

    value: Any
    label: str


class Field(_Data):
    """One control of a form."""

    name: str
    label: str
    kind: Literal["text", "integer", "number", "boolean", "choice", "json"]
    required: bool
    nullable: bool = False
    default: Any = None
    choices: list[Choice] = []
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    max_length: int | None = None
    multiline: bool = False


class Form(_Data):
    """The fields of a form, in the schema's order. `raw`: the payload is the one field's value itself."""

    title: str = ""
    description: str = ""
    fields: list[Field]
    raw: bool = False


class Schema:
    """What pydantic's TypeAdapter takes, ready to judge payloads and to describe its form.

    Raises:
        DefinitionError: pydantic cannot build it.
    """

    def __init__(self, type_: Any, owner: str) -> None:
        try:
            self._adapter: TypeAdapter[Any] = type_ if isinstance(type_, TypeAdapter) else TypeAdapter(type_)
        except (PydanticSchemaGenerationError, PydanticUserError) as exc:
            raise DefinitionError(
                f"{owner}: {type_!r} cannot be a schema: {str(exc).splitlines()[0]}",
                advice="Use a pydantic model, a dataclass, a TypedDict or a plain type such as str.",
            ) from exc
        self.type = type_

    def parse(self, value: Any) -> Any:
        """The parsed value.

        Raises:
            pydantic.ValidationError: it does not fit; translate it at your door.
        """
        return self._adapter.validate_python(thaw(value) if isinstance(value, (dict, list)) else value)

    def dump(self, parsed: Any, was: Any = None) -> Any:
        """The JSON of a parsed value, frozen; `was` as for `freeze`."""
        return freeze(self._adapter.dump_python(parsed, mode="json"), was)

    def json_schema(self) -> dict[str, Any]:
        """Its JSON Schema, input side: what has a default is not required."""
        return self._adapter.json_schema(mode="validation")


def form_of(schema: Schema | None) -> Form | None:
    """The form of a schema; None without one: then a button is enough."""
    return None if schema is None else _form(schema)


@lru_cache(maxsize=512)
def _form(schema: Schema) -> Form:
    try:
        described = schema.json_schema()
    except PydanticUserError:  # a schema JSON Schema cannot express: still a form, just without help
        described = {}
    defs = described.get("$defs", {})
    root = _resolve(described, defs)
    title, description = root.get("title", ""), root.get("description", "")
    if root.get("type") == "object" and root.get("properties"):
        required = set(root.get("required", []))
        fields = [_field(name, sub, defs, name in required) for name, sub in root["properties"].items()]
        return Form(title=title, description=description, fields=fields)
    field = _field(RAW, {**root, "title": title or "Answer"}, defs, required=True)
    return Form(title=title, description=description, fields=[field], raw=True)


def _resolve(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    seen = 0
    while "$ref" in schema and seen < 32:
        seen += 1
        rest = {k: v for k, v in schema.items() if k != "$ref"}
        schema = {**defs.get(schema["$ref"].removeprefix("#/$defs/"), {}), **rest}
    if len(schema.get("allOf", [])) == 1:
        schema = {**_resolve(schema["allOf"][0], defs), **{k: v for k, v in schema.items() if k != "allOf"}}
    return schema


def _field(name: str, schema: dict[str, Any], defs: dict[str, Any], required: bool) -> Field:
    schema = _resolve(schema, defs)
    outer, nullable = schema, False
    if "anyOf" in schema:
        options = [_resolve(s, defs) for s in schema["anyOf"]]
        some = [s for s in options if s.get("type") != "null"]
        nullable = len(some) < len(options)
        if len(some) == 1:
            schema = {**some[0], **{k: v for k, v in schema.items() if k != "anyOf"}}
    kind: Literal["text", "integer", "number", "boolean", "choice", "json"] = "json"
    choices: list[Choice] = []
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        kind = "choice"
        nullable = nullable or None in values
        choices = [Choice(value=v, label="yes" if v is True else "no" if v is False else str(v)) for v in values if v is not None]
    elif schema.get("type") == "string":
        kind = "text"
    elif schema.get("type") in ("integer", "number", "boolean"):
        kind = schema["type"]
    return Field(
        name=name,
        label=schema.get("title") or name.replace("_", " ").capitalize(),
        kind=kind,
        required=required and not nullable,
        nullable=nullable,
        default=outer.get("default"),
        choices=choices,
        help=outer.get("description") or ("" if kind != "json" else "JSON"),
        minimum=_bound(schema, "minimum", "exclusiveMinimum"),
        maximum=_bound(schema, "maximum", "exclusiveMaximum"),
        max_length=schema.get("maxLength"),
        multiline=schema.get("format") == "textarea" or (schema.get("maxLength") or 0) > 200,
    )


def _bound(schema: dict[str, Any], *keys: str) -> float | None:
    return next((float(schema[k]) for k in keys if isinstance(schema.get(k), (int, float))), None)


def payload_of(form: Form | None, values: Any) -> Any:
    """The payload of what a form sent: texts as typed, yes/no as booleans, None or nothing where it was left blank.

    Raises:
        AnswerInvalid: a JSON field holds no JSON, or a required field was left blank; `.fields` says which.
    """
    if form is None:
        return None
    if not isinstance(values, Mapping):
        raise AnswerInvalid("The form sent no fields.", {"": "nothing was sent"})
    payload: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for field in form.fields:
        value = values.get(field.name)
        blank = value is None or (value == "" and (field.kind != "text" or not field.required or field.nullable))
        if blank:
            if field.required:
                errors[field.name] = "this field is required"
            elif field.nullable:
                payload[field.name] = None  # left blank is "no value", also where the default is another
            continue
        try:
            payload[field.name] = _typed(field, value)
        except ValueError as exc:
            errors[field.name] = str(exc)
    if errors:
        raise AnswerInvalid("Some fields are not right yet.", errors)
    return payload.get(RAW) if form.raw else payload


def _typed(field: Field, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match field.kind:
        case "json":
            try:
                return json.loads(value)
            except json.JSONDecodeError as exc:
                raise ValueError(f"not JSON: {exc.msg} (line {exc.lineno}, column {exc.colno})") from None
        case "integer" | "number":
            text = value.strip()
            try:
                number = int(text) if field.kind == "integer" else float(text)
            except ValueError:
                raise ValueError("not a whole number" if field.kind == "integer" else "not a number") from None
            if not math.isfinite(number):
                raise ValueError("not a number")
            return number
        case "choice":
            return next((c.value for c in field.choices if value in (c.value, c.label, str(c.value))), value)
        case _:
            return value


def invalid(exc: ValidationError, form: Form | None, what: str) -> AnswerInvalid:
    """The refusal of a payload, its errors at the form's fields."""
    fields = fields_from_pydantic(exc)
    if form is not None and form.raw:
        fields = {RAW: "; ".join(f"{k}: {v}" if k else v for k, v in fields.items())}
    return AnswerInvalid(f"{what} does not fit.", fields)
