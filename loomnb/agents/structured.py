"""Getting one JSON value of a given shape out of what a model said. Rule: contracts/agents.md §1.10.

A schema is what pydantic's TypeAdapter takes, a JSON Schema as a mapping (judged by the library jsonschema), or an object with
`parse(value)` and `json_schema()`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from loomnb.agents.control_flow import is_not_a_failure
from loomnb.agents.json_schemas import validator_of
from loomnb.agents.spi import settled
from loomnb.agents.words import shortened
from loomnb.asks import draft_7
from loomnb.errors import DefinitionError, NotJson, Refused
from loomnb.jsonvalue import Json, dumps, freeze, thaw

__all__ = [
    "DEFAULT_STRUCTURED_OUTPUT_INSTRUCTION",
    "NO_JSON",
    "NoJson",
    "Validated",
    "extract_json",
    "output_json_schema",
    "parse_follow_ups",
    "repair_instruction",
    "validate_structured",
]

DEFAULT_STRUCTURED_OUTPUT_INSTRUCTION = (
    "Put the answer below into the JSON shape you were given. Take every value from the answer, or from the question where the "
    "answer only confirms it; invent nothing. Reply with that JSON alone: no explanation before or after it, and no code fence."
)
"""The system text of the structured pass, unless the agent has its own."""


class NoJson:
    """The type of `NO_JSON`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_JSON"

    def __bool__(self) -> bool:
        return False


NO_JSON: Final = NoJson()
"""There is no JSON; JSON's own `null` is None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """Whether a model gave what was asked for.

    Attributes:
        is_valid: whether it did.
        value: JSON of what the schema made of it; None where it did not.
        issues: why not: `{"path": [...], "message"}`. Empty where there was no JSON at all.
    """

    is_valid: bool
    value: Json = None
    issues: Sequence[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])


def extract_json(text: str) -> Json | NoJson:
    """The JSON value in a text: the whole of it, else the widest `{…}`, else the widest `[…]`; `NO_JSON` if there is none."""
    for piece in (text, _widest(text, "{", "}"), _widest(text, "[", "]")):
        value = _read(piece)
        if not isinstance(value, NoJson):
            return value
    return NO_JSON


def _widest(text: str, opening: str, closing: str) -> str:
    first, last = text.find(opening), text.rfind(closing)
    return text[first : last + 1] if 0 <= first < last else ""


def _read(text: str) -> Json | NoJson:
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant)
        freeze(value)  # a number or a depth that cannot be stored is no value here
    except (ValueError, RecursionError, NotJson):
        return NO_JSON
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


async def validate_structured(schema: Any, text: str, reported: Json | NoJson = NO_JSON) -> Validated:
    """What a model gave, judged by a schema.

    Args:
        schema: see the module.
        text: what it said; looked at when it reported nothing.
        reported: the object that its provider parsed already; None or `NO_JSON` when there is none. It is judged all the same.

    Raises:
        DefinitionError: the schema is none, or a JSON Schema that is broken.
        NotJson: what the schema made of it is no JSON.
        Exception: what a schema's own `parse` raised beside ValueError, TypeError, AssertionError and our refusals, which mean
            that the value does not fit.
    """
    value = extract_json(text) if reported is None or isinstance(reported, NoJson) else reported
    if isinstance(value, NoJson):
        return Validated(is_valid=False)
    parse = _own_parse(schema)
    if parse is not None:
        return await _by_itself(parse, value)
    return _by_json_schema(schema, value) if isinstance(schema, Mapping) else _by_pydantic(schema, value)


def _own_parse(schema: Any) -> Callable[[Any], Any] | None:
    found = None if isinstance(schema, (type, TypeAdapter, Mapping)) else getattr(schema, "parse", None)
    return found if callable(found) else None


async def _by_itself(parse: Callable[[Any], Any], value: Json) -> Validated:
    try:
        parsed = await settled(parse(thaw(value)))
    except (ValueError, TypeError, AssertionError, Refused) as error:
        if is_not_a_failure(error):
            raise
        return Validated(is_valid=False, issues=_issues_of(error))
    return Validated(is_valid=True, value=thaw(freeze(parsed)))


def _issues_of(error: Exception) -> list[dict[str, Any]]:
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return [{"path": list(item["loc"]), "message": shortened(item["msg"])} for item in found]
    own = getattr(error, "issues", None)
    if isinstance(own, Iterable) and not isinstance(own, str):
        told = [one for one in own if isinstance(one, Mapping) and isinstance(one.get("message"), str)]
        if told:
            return [{"path": list(one.get("path") or ()), "message": shortened(one["message"])} for one in told]
    return [{"path": [], "message": shortened(str(error)) or type(error).__name__}]


def _by_pydantic(schema: Any, value: Json) -> Validated:
    adapter = _adapter(schema)
    try:
        parsed = adapter.validate_json(dumps(value))
    except ValidationError as error:
        return Validated(is_valid=False, issues=_issues_of(error))
    return Validated(is_valid=True, value=thaw(freeze(adapter.dump_python(parsed, mode="json", by_alias=True))))


def _adapter(schema: Any) -> TypeAdapter[Any]:
    if isinstance(schema, TypeAdapter):
        return schema
    if isinstance(schema, str):
        raise DefinitionError(f"The output is given as the text {schema!r:.60}.", advice=f"Give the class itself: {schema:.60}.")
    try:
        return TypeAdapter(schema)
    except Exception as error:  # whatever the author's types raise
        raise DefinitionError(f"{schema!r} is no schema: {_first(error)}", advice=_SHAPES, cause=error) from error


_SHAPES = "Give a pydantic model (`class Answer(BaseModel): ...`), a dataclass, a TypedDict, a list of them, or a JSON Schema."


def _first(error: Exception) -> str:
    """The first sentence. What pydantic says after it is for those who write types of their own."""
    return (str(error).splitlines() or [type(error).__name__])[0].split(". ")[0].rstrip(".") + "."


def _by_json_schema(schema: Mapping[str, Any], value: Json) -> Validated:
    validator = validator_of(schema)
    try:
        found = list(validator.iter_errors(thaw(value)))
    except Exception as error:  # what only shows when a value is looked at
        raise DefinitionError(f"This JSON Schema cannot judge a value: {error}", cause=error) from error
    found.sort(key=lambda one: [str(part) for part in one.absolute_path])
    issues = [{"path": list(one.absolute_path), "message": shortened(one.message)} for one in found]
    return Validated(is_valid=not issues, value=None if issues else thaw(value), issues=issues)


def output_json_schema(schema: Any) -> dict[str, Any]:
    """The JSON Schema of an output, as it is told to a model.

    Raises:
        DefinitionError: the schema is none, it is a broken JSON Schema, or JSON Schema cannot say it.
    """
    if isinstance(schema, Mapping):
        validator_of(schema)
        return cast("dict[str, Any]", thaw(freeze(dict(schema))))
    if _own_parse(schema) is not None:
        told = getattr(schema, "json_schema", None)
        told = told() if callable(told) else told
        if not isinstance(told, Mapping):
            raise DefinitionError(
                f"{schema!r} does not say its shape.", advice="Give it `json_schema()`, which returns a mapping."
            )
        return cast("dict[str, Any]", thaw(freeze(dict(told))))
    try:
        return draft_7(_adapter(schema).json_schema(mode="validation"))
    except PydanticUserError as error:
        raise DefinitionError(f"{schema!r} cannot be told to a model: {_first(error)}", advice=_SHAPES, cause=error) from error


def repair_instruction(base: str, issues: Sequence[Mapping[str, Any]]) -> str:
    """The instruction for another attempt: the first one, that the reply was refused, and why, line by line."""
    lines = [f"{'.'.join(str(part) for part in one.get('path') or ()) or '(root)'}: {one['message']}" for one in issues]
    why = lines or ["The reply was not valid JSON."]
    return "\n".join([base, "", "Your last reply was rejected. Send the whole JSON again, with this put right:", *why])


def parse_follow_ups(text: str, count: int) -> list[str]:
    """The questions that a model suggests: of a JSON array of texts, at most `count`; none where there is no such array.

    The first array in a text is found too. What is no text, or blank, is left out.
    """
    found = _read(text)
    if isinstance(found, NoJson):
        found = _first_array(text)
    if not isinstance(found, list) or count <= 0:
        return []
    return [one.strip() for one in found if isinstance(one, str) and one.strip()][:count]


def _first_array(text: str) -> Json | NoJson:
    first = text.find("[")
    if first < 0:
        return NO_JSON
    try:
        return cast("Json", json.JSONDecoder(parse_constant=_refuse_constant).raw_decode(text, first)[0])
    except (ValueError, RecursionError):
        return _read(_widest(text, "[", "]"))
