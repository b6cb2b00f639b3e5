"""What judges the input of a tool: how it parses, how it is told to a model (JSON Schema, draft 7), and how it is JSON again.

Three kinds of schema: what pydantic's TypeAdapter takes, an object with `parse(value)` (sync or async) that may tell its
`json_schema`, and a plain JSON Schema, which the library jsonschema judges. None: any input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from loomnb.agents.control_flow import is_not_a_failure
from loomnb.agents.json_schemas import validator_of
from loomnb.agents.spi import settled
from loomnb.agents.tool_errors import Issue
from loomnb.asks import Schema, draft_7
from loomnb.errors import DefinitionError, NotJson
from loomnb.jsonvalue import dumps, freeze, thaw

__all__ = ["InputIssues", "InputSchema", "canonical_json", "json_of"]

_ANY = {"type": "object"}


class InputIssues(Exception):
    """What is wrong with an input. The registry makes the error of it, which names the tool."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("; ".join(str(issue["message"]) for issue in issues))
        self.issues = issues


class InputSchema:
    """The schema of a tool's input, checked.

    Args:
        schema: one of the three kinds, or None.
        owner: whose it is, for messages.

    Raises:
        DefinitionError: it can judge nothing: pydantic cannot build it, or it is no valid JSON Schema.
    """

    def __init__(self, schema: Any, owner: str) -> None:
        self._schema = schema
        self._owner = owner
        self._adapter: TypeAdapter[Any] | None = None
        self._validator: Any = None
        self._said: Any = None
        """What `told` made of a schema that cannot change, frozen: it is asked for with every call of a model."""
        if schema is None or _own(schema, "parse"):
            return
        if isinstance(schema, Mapping):
            self._validator = validator_of(schema, f"{owner}: its input schema", is_newer=True)
            return
        try:
            self._adapter = schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)
        except Exception as exc:  # whatever the author's types raise
            raise DefinitionError(
                f"{owner}: {schema!r} cannot judge an input: {_first_line(exc)}",
                advice="Give what pydantic takes, an object with `parse` and `json_schema`, or a JSON Schema as a dict.",
            ) from exc

    async def parse(self, value: Any) -> Any:
        """What the schema makes of an input.

        Raises:
            InputIssues: it does not fit.
        """
        if self._validator is not None:
            return _checked(self._validator, value, self._owner)
        try:
            if self._adapter is None:
                return value if self._schema is None else await settled(self._schema.parse(value))
            try:
                text = dumps(freeze(value))
            except NotJson:  # a caller in Python, not a model: objects are taken as they are
                return self._adapter.validate_python(value)
            return self._adapter.validate_json(text)  # so that a strict model takes a date as its text
        except Exception as exc:
            if is_not_a_failure(exc):
                raise
            raise InputIssues(_issues_of(exc)) from exc

    def told(self) -> dict[str, Any]:
        """The JSON Schema of the input, draft 7. An object that tells nothing of itself takes any object.

        Raises:
            DefinitionError: JSON Schema cannot say it.
        """
        if self._schema is None:
            return {**_ANY, "properties": {}}
        if self._said is None:
            told = self._tell()
            if self._adapter is None and self._validator is None and not isinstance(self._schema, Schema):
                return told  # an object of somebody's, which may say something else tomorrow
            self._said = freeze(told)
        return cast("dict[str, Any]", thaw(self._said))

    def _tell(self) -> dict[str, Any]:
        if self._validator is not None:
            return _draft_7(self._schema)
        if self._adapter is None:
            told = getattr(self._schema, "json_schema", None)
            told = told() if callable(told) else told
            return _draft_7(told) if isinstance(told, Mapping) else dict(_ANY)
        try:
            return _draft_7(self._adapter.json_schema(mode="validation"))
        except Exception as exc:
            raise DefinitionError(
                f"{self._owner}: its input cannot be told to a model: {_first_line(exc)}",
                advice="Use plain types and pydantic models for what a model has to give.",
            ) from exc

    def json_of(self, parsed: Any) -> Any:
        """Frozen JSON of what it made of an input, in the schema's own words where it has some.

        Raises:
            NotJson: it is none.
        """
        dump = _own(self._schema, "dump")
        if dump is not None:
            return freeze(_checked_dump(_VALUES.dump_python(parsed, by_alias=True, warnings=False), dump(parsed)))
        return freeze(_told_by(self._adapter, parsed, self._owner)) if self._adapter is not None else json_of(parsed)


def json_of(value: Any) -> Any:
    """Frozen JSON of a value: models and dataclasses, also nested ones, are dumped as pydantic does; tuples become lists.

    Raises:
        NotJson: it holds something that is no JSON.
    """
    return freeze(_dumped(value))


def canonical_json(value: Any) -> str:
    """The JSON text of a value that is the same for the same value: keys in order, and 1.0 is 1.

    Raises:
        NotJson: it is no JSON.
    """
    return dumps(_ordered(freeze(value)))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_ordered(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _dumped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _dumped(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_dumped(one) for one in value]
    if isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)):
        return _told_by(TypeAdapter(type(value)), value, f"A {type(value).__name__}")
    return value


_VALUES: TypeAdapter[Any] = TypeAdapter(Any)


def _told_by(adapter: TypeAdapter[Any], value: Any, owner: str) -> Any:
    try:
        plain = adapter.dump_python(value, by_alias=True, warnings=False)
        told = adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
    except Exception as exc:
        raise NotJson(f"{owner} gives no JSON: {_first_line(exc)}") from exc
    return _checked_dump(plain, told)


def _checked_dump(plain: Any, told: Any) -> Any:
    """What pydantic tells in JSON of a value, seen beside the value: a number that JSON has not is refused, where pydantic writes
    null, and a set is put in order, for its own differs from copy to copy and from process to process."""
    if isinstance(plain, float) and not math.isfinite(plain):
        raise NotJson(f"It holds {plain!r}: JSON has no such number.", advice="Give None or a text instead.")
    if isinstance(plain, dict) and isinstance(told, dict) and len(plain) == len(told):
        return {key: _checked_dump(one, said) for one, (key, said) in zip(plain.values(), told.items(), strict=True)}
    if isinstance(plain, (list, tuple)) and isinstance(told, list) and len(plain) == len(told):
        return [_checked_dump(one, said) for one, said in zip(plain, told, strict=True)]
    if isinstance(plain, (set, frozenset)) and isinstance(told, list):
        for one in plain:
            _checked_dump(one, None)
        return sorted(told, key=canonical_json)
    return told


def _own(schema: Any, name: str) -> Callable[[Any], Any] | None:
    """A method of an object that judges by itself. Classes are pydantic's: `BaseModel.parse_obj` and the like are no such."""
    found = None if isinstance(schema, (type, TypeAdapter, Mapping)) else getattr(schema, name, None)
    return found if callable(found) else None


def _first_line(exc: BaseException) -> str:
    return (str(exc) or type(exc).__name__).splitlines()[0]


def _issues_of(exc: Exception) -> list[Issue]:
    """What a parser found: pydantic's errors, an exception's own `issues` or `fields`, else what it says of the whole."""
    if isinstance(exc, ValidationError):
        found = exc.errors(include_url=False, include_context=False, include_input=False)
        return [{"path": list(one["loc"]), "message": one["msg"]} for one in found]
    issues = getattr(exc, "issues", None)
    if isinstance(issues, (list, tuple)) and issues and all(isinstance(one, Mapping) for one in issues):
        return [{"path": list(one.get("path") or ()), "message": str(one.get("message", ""))} for one in issues]
    fields = getattr(exc, "fields", None)
    if isinstance(fields, Mapping) and fields:
        return [{"path": str(name).split(".") if name else [], "message": str(text)} for name, text in fields.items()]
    return [{"path": [], "message": str(exc) or type(exc).__name__}]


# -- plain JSON Schema --------------------------------------------------------------------------------


def _checked(validator: Any, value: Any, owner: str) -> Any:
    from jsonschema.exceptions import best_match  # noqa: PLC0415  # see above

    try:
        plain = thaw(freeze(value))
    except NotJson as exc:
        raise InputIssues([{"path": [], "message": exc.message}]) from exc
    try:
        # By place, and not as it comes: which keyword is looked at first is the library's business.
        errors = sorted(validator.iter_errors(plain), key=lambda error: [str(step) for step in error.absolute_path])
    except Exception as exc:  # a reference into nowhere in a part with an address of its own: found when it is looked at
        raise DefinitionError(
            f"{owner}: its input schema cannot judge: {_first_line(exc)}",
            advice="Correct the schema; references to the net are not followed.",
        ) from exc
    if not errors:
        return plain
    issues: list[Issue] = []
    for error in errors:
        told = best_match([error]) or error  # of a union: the alternative that was meant
        issues.append({"path": [*told.absolute_path, *_missing(told)], "message": told.message})
    raise InputIssues(issues)


def _missing(error: Any) -> list[str]:
    """The property that is missing, of an error that says so: it stands where the property would."""
    if error.validator != "required":
        return []
    return [name for name in error.validator_value if error.message.startswith(f"{name!r} ")][:1]


def _draft_7(schema: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = thaw(freeze(dict(schema)))
    return draft_7(plain)
