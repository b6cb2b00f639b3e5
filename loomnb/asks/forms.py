"""A form as data, made from what pydantic's TypeAdapter takes, and the way from what a form sends to a payload.

Text, number, yes/no, one of several, an object of fields, a list of one kind of field; whatever else a schema may say (a
union, a free mapping, a type that contains itself) is a JSON text box. The schema stays the judge: a form sends what was typed,
and the schema says what is wrong with it, at the field: "items.0.name".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)

from loomnb.errors import AnswerInvalid, DefinitionError, fields_from_pydantic
from loomnb.jsonvalue import freeze, thaw

__all__ = ["RAW", "Choice", "Field", "FieldKind", "FieldWidget", "Form", "Schema", "form_of", "invalid", "payload_of"]

RAW = "data"
"""The name of the one field of a form whose schema is not an object."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Choice(_Data):
    """One of several: the JSON value and what is shown for it."""

    value: Any
    label: str


FieldKind = Literal["text", "integer", "number", "boolean", "choice", "json", "object", "array"]
FieldWidget = Literal["", "text", "textarea", "select", "radio", "checkbox", "switch", "slider", "code-view", "markdown-view"]


class Field(_Data):
    """One control of a form. The second half is how it is drawn; it changes nothing in what may be answered."""

    name: str
    label: str
    kind: FieldKind
    required: bool
    nullable: bool = False
    default: Any = None
    choices: list[Choice] = []
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    format: str = ""
    """Of a text: `email`, `uri`, `phone`, `date`, … as JSON Schema names them."""
    must_tick: bool = False
    """Of a yes/no: only yes will do."""
    fields: list[Field] = []
    """Of an object."""
    item: Field | None = None
    """Of an array: what each of its items is."""
    min_items: int | None = None
    max_items: int | None = None

    widget: FieldWidget = ""
    multiline: bool = False
    placeholder: str = ""
    rows: int | None = None
    inline: bool = False
    hidden: bool = False
    readonly: bool = False
    disabled: bool = False
    collapsed: bool = False
    fixed: bool = False
    """Of an array: no adding and no removing."""
    keep_blank: bool = False
    """A text left empty is an empty text, not "no value": it was a text before."""


class Form(_Data):
    """The fields of a form, in the schema's order. `raw`: the payload is the one field's value itself."""

    title: str = ""
    description: str = ""
    fields: list[Field]
    raw: bool = False

    def filled(self, content: Any) -> Form:
        """The form to edit some content in: each field begins with what is there."""
        if self.raw:
            return self.model_copy(update={"fields": [_kept(f, content) for f in self.fields]})
        there: Mapping[str, Any] = content if isinstance(content, Mapping) else {}
        return self.model_copy(update={"fields": [_kept(f, there.get(f.name)) for f in self.fields]})


class Schema:
    """What pydantic's TypeAdapter takes, ready to judge payloads and to describe its form.

    Raises:
        DefinitionError: pydantic cannot build it.
    """

    def __init__(self, type_: Any, owner: str) -> None:
        try:
            self._adapter: TypeAdapter[Any] = type_ if isinstance(type_, TypeAdapter) else TypeAdapter(type_)
            if not getattr(
                self._adapter, "pydantic_complete", True
            ):  # it names what is not there; since 2.10 that is no error yet
                self._adapter.rebuild()
        except PydanticUndefinedAnnotation as exc:
            raise DefinitionError(
                f"{owner}: {type_!r} cannot be a schema yet: {str(exc).splitlines()[0]}.",
                advice="Define every class it names before it is used; give the class itself, not its name as a text.",
            ) from exc
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
        return freeze(self._adapter.dump_python(parsed, mode="json", by_alias=True), was)

    def json_schema(self) -> dict[str, Any]:
        """Its JSON Schema, input side: what has a default is not required."""
        return self._adapter.json_schema(mode="validation")


def form_of(schema: Schema | None) -> Form | None:
    """The form of a schema; None without one: then a button is enough."""
    return None if schema is None else _form(schema)


def _kept(field: Field, value: Any) -> Field:
    """The field with a value, and every text below it keeping what is emptied."""
    update: dict[str, Any] = {"default": thaw(value), "keep_blank": field.kind == "text"}
    if field.fields:
        update["fields"] = [_kept(f, f.default) for f in field.fields]
    if field.item is not None:
        update["item"] = _kept(field.item, field.item.default)
    return field.model_copy(update=update)


@lru_cache(maxsize=512)
def _form(schema: Schema) -> Form:
    try:
        described = schema.json_schema()
    except PydanticUserError:  # a schema JSON Schema cannot express: still a form, just without help
        described = {}
    reader = _Reader(described.get("$defs", {}))
    root, within = reader.resolved(described, frozenset())
    title, description = root.get("title", ""), root.get("description", "")
    if root.get("type") == "object" and root.get("properties"):
        return Form(title=title, description=description, fields=reader.fields(root, within))
    field = reader.field(RAW, {**root, "title": title or "Answer"}, within, required=True)
    return Form(title=title, description=description, fields=[field], raw=True)


Within = frozenset[str]
"""The definitions a field stands inside of: one that comes again contains itself, and no form ends there."""


class _Reader:
    """Fields from a JSON Schema as pydantic writes it."""

    def __init__(self, defs: Mapping[str, Any]) -> None:
        self._defs = defs

    def resolved(self, schema: Mapping[str, Any], within: Within) -> tuple[dict[str, Any], Within]:
        """The schema without references. One that contains itself has no type any more."""
        schema = dict(schema)
        while "$ref" in schema:
            name = schema.pop("$ref").removeprefix("#/$defs/")
            if name in within:
                return {k: v for k, v in schema.items() if k in ("title", "description", "default")}, within
            within |= {name}
            defined = self._defs.get(name, {})
            if defined.get("title") == name:  # the class's name, which says less than the field's own
                defined = {k: v for k, v in defined.items() if k != "title"}
            schema = {**defined, **schema}
        if len(schema.get("allOf", [])) == 1:
            inner, within = self.resolved(schema.pop("allOf")[0], within)
            schema = {**inner, **schema}
        return schema, within

    def fields(self, schema: Mapping[str, Any], within: Within) -> list[Field]:
        """The fields of an object."""
        required = set(schema.get("required", []))
        return [self.field(name, sub, within, name in required) for name, sub in schema["properties"].items()]

    def field(self, name: str, schema: Mapping[str, Any], within: Within, required: bool) -> Field:
        """One field."""
        outer, within = self.resolved(schema, within)
        schema, nullable, within = self._not_null(outer, within)
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        kind, more = self._kind(schema, within, values)
        choices: list[Choice] = []
        if kind == "choice":
            nullable = nullable or None in (values or [])
            choices = [Choice(value=v, label=_label(v)) for v in values or [] if v is not None]
        said: dict[str, Any] = {**schema, **outer}
        drawn = {key: said[key] for key in _DRAWN if said.get(key) is not None}
        if drawn.get("widget") not in _WIDGETS:
            drawn.pop("widget", None)
        return Field(
            name=name,
            label=schema.get("title") or name.replace("_", " ").capitalize(),
            kind=kind,
            required=required and not nullable,
            nullable=nullable,
            default=outer.get("default"),
            choices=choices,
            help=outer.get("description") or schema.get("description") or ("" if kind != "json" else "JSON"),
            minimum=_bound(schema, "minimum", "exclusiveMinimum"),
            maximum=_bound(schema, "maximum", "exclusiveMaximum"),
            exclusive_minimum="minimum" not in schema and "exclusiveMinimum" in schema,
            exclusive_maximum="maximum" not in schema and "exclusiveMaximum" in schema,
            multiple_of=_bound(schema, "multipleOf"),
            min_length=schema.get("minLength"),
            max_length=schema.get("maxLength"),
            pattern=schema.get("pattern", "") if kind == "text" else "",
            format=schema.get("format", "") if kind == "text" else "",
            must_tick=schema.get("const") is True,
            multiline=schema.get("format") == "textarea" or (schema.get("maxLength") or 0) > 200,
            readonly=bool(outer.get("readOnly", False)),
            **more,
            **drawn,
        )

    def _not_null(self, schema: dict[str, Any], within: Within) -> tuple[dict[str, Any], bool, Within]:
        """What is beside null in a union with it."""
        if "anyOf" not in schema:
            return schema, False, within
        options = [self.resolved(one, within) for one in schema["anyOf"]]
        some = [one for one in options if one[0].get("type") != "null"]
        nullable = len(some) < len(options)
        rest = {k: v for k, v in schema.items() if k != "anyOf"}
        if len(some) == 1:
            return {**some[0][0], **rest}, nullable, some[0][1]
        if {one[0].get("type") for one in some} == {"integer", "number"}:
            return {"type": "number", **rest}, nullable, within
        if {one[0].get("type") for one in some} == {"number", "string"}:
            return {"type": "string", **rest}, nullable, within  # a Decimal: as text it loses nothing
        return schema, nullable, within

    def _kind(self, schema: Mapping[str, Any], within: Within, values: Any) -> tuple[FieldKind, dict[str, Any]]:
        if values is not None:
            return ("boolean" if values == [True] else "choice"), {}
        match schema.get("type"):
            case "string":
                return "text", {}
            case "integer" | "number" | "boolean" as plain:
                return plain, {}
            case "object" if schema.get("properties"):
                return "object", {"fields": self.fields(schema, within)}
            case "array" if isinstance(schema.get("items"), dict) and "prefixItems" not in schema:
                item = self.field("item", schema["items"], within, required=True)
                if not self.resolved(schema["items"], within)[0].get("title"):
                    item = item.model_copy(update={"label": ""})  # "Item" would say nothing
                return "array", {"item": item, "min_items": schema.get("minItems"), "max_items": schema.get("maxItems")}
            case _:
                return "json", {}


_DRAWN = ("widget", "placeholder", "rows", "inline", "hidden", "disabled", "collapsed", "fixed")
"""What a schema may say itself of how a field is drawn (`json_schema_extra`), beside JSON Schema's own `readOnly`."""
_WIDGETS = frozenset(get_args(FieldWidget))


def _label(value: Any) -> str:
    return "yes" if value is True else "no" if value is False else str(value)


def _bound(schema: Mapping[str, Any], *keys: str) -> float | None:
    return next((float(schema[k]) for k in keys if isinstance(schema.get(k), (int, float))), None)


def payload_of(form: Form | None, values: Any) -> Any:
    """The payload of what a form sent: texts as typed, yes/no as booleans, objects and lists of these; None or nothing where
    it was left blank.

    Raises:
        AnswerInvalid: a JSON field holds no JSON, or a required field was left blank; `.fields` says which.
    """
    if form is None:
        return None
    if not isinstance(values, Mapping):
        raise AnswerInvalid("The form sent no fields.", {"": "nothing was sent"})
    errors: dict[str, str] = {}
    payload = _object(form.fields, values, "", errors)
    if errors:
        raise AnswerInvalid("Some fields are not right yet.", errors)
    return payload.get(RAW) if form.raw else payload


def _object(fields: Sequence[Field], values: Mapping[str, Any], path: str, errors: dict[str, str]) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    for field in fields:
        value = values.get(field.name)
        where = f"{path}{field.name}"
        if _is_blank(field, value):
            if field.required:
                errors[where] = "this field is required"
            elif field.nullable:
                payload[field.name] = None  # left blank is "no value", also where the default is another
            continue
        payload[field.name] = _value(field, value, where, errors)
    return payload


def _is_blank(field: Field, value: Any) -> bool:
    keeps = field.kind == "text" and (field.required or field.keep_blank) and not field.nullable
    return value is None or (value == "" and not keeps)


def _value(field: Field, value: Any, where: str, errors: dict[str, str]) -> Any:
    if field.kind == "object" and isinstance(value, Mapping):
        return _object(field.fields, value, f"{where}.", errors)
    if field.kind == "array" and isinstance(value, (list, tuple)) and field.item is not None:
        return [_item(field.item, one, f"{where}.{at}", errors) for at, one in enumerate(value)]
    try:
        return _typed(field, value)
    except ValueError as exc:
        errors[where] = str(exc)
        return None


def _item(item: Field, value: Any, where: str, errors: dict[str, str]) -> Any:
    if _is_blank(item, value):
        if not item.nullable:
            errors[where] = "this field is required"
        return None
    return _value(item, value, where, errors)


def _typed(field: Field, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match field.kind:
        case "json" | "object" | "array":  # a nested field as JSON text: from a front end that draws no nested forms
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
        if form.fields[0].kind in ("object", "array"):
            fields = {f"{RAW}.{k}" if k else RAW: v for k, v in fields.items()}
        else:
            fields = {RAW: "; ".join(f"{k}: {v}" if k else v for k, v in fields.items())}
    return AnswerInvalid(f"{what} does not fit.", fields)
