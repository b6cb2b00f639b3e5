"""One JSON value of a given shape, out of what a model said."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter, field_validator

from loomnb.agents.control_flow import ControlFlowSignal
from loomnb.agents.structured import (
    NO_JSON,
    Validated,
    extract_json,
    output_json_schema,
    parse_follow_ups,
    repair_instruction,
    validate_structured,
)
from loomnb.errors import DefinitionError


class Trip(BaseModel):
    city: str
    days: Annotated[int, Field(alias="nDays")]


class Odd(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _odd(cls, n: int) -> int:
        if n % 2 == 0:
            raise ValueError("must be odd")
        return n


BY_HAND = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}},
    "required": ["city"],
}


class Own:
    """A schema with a parser of its own."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def parse(self, value: Any) -> Any:
        if self.error is not None:
            raise self.error
        return {"got": value}

    def json_schema(self) -> dict[str, Any]:
        return {"type": "number"}


class WithIssues(ValueError):
    issues = ({"path": ("a", 0), "message": "too long"},)


def judged(schema: Any, text: str, *reported: Any) -> Validated:
    return asyncio.run(validate_structured(schema, text, *reported))


# -- finding JSON -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("  [1, 2]\n", [1, 2]),
        ("null", None),
        ("3", 3),
        ('Here: ```json\n{"a": {"b": 1}}\n``` done', {"a": {"b": 1}}),
        ('[{"a": 1}]', [{"a": 1}]),
        ('see [1, {"a": 2}] there', {"a": 2}),
        ("list: [1, 2]!", [1, 2]),
        ("use {x} and [1]", [1]),
    ],
    ids=["object", "array", "null", "number", "fenced", "whole array", "object first", "array", "array after braces"],
)
def test_json_is_found_in_a_text(text: str, value: Any) -> None:
    assert extract_json(text) == value


@pytest.mark.parametrize("text", ["", "no json", "{a}", "}{", "NaN", '{"a": NaN}', "[" * 90_000], ids=[*"123456", "deep"])
def test_no_json_is_not_null(text: str) -> None:
    assert extract_json(text) is NO_JSON


# -- judging ----------------------------------------------------------------------------------------


@pytest.mark.case("agents:K02")
@pytest.mark.parametrize(
    "schema", [Trip, TypeAdapter(Trip), BY_HAND | {"required": ["city", "nDays"]}], ids=["model", "adapter", "JSON Schema"]
)
def test_a_value_that_fits_is_given_as_json(schema: Any) -> None:
    assert judged(schema, 'So: {"city": "Rome", "nDays": 3}') == Validated(is_valid=True, value={"city": "Rome", "nDays": 3})


@pytest.mark.case("agents:K08")
@pytest.mark.parametrize(
    ("schema", "text", "path"),
    [(Trip, '{"city": "Rome"}', ["nDays"]), (BY_HAND, '{"city": "Rome", "days": [1, "x"]}', ["days", 1]), (BY_HAND, "[]", [])],
    ids=["model", "JSON Schema", "the whole"],
)
def test_what_does_not_fit_is_told_by_place(schema: Any, text: str, path: list[Any]) -> None:
    verdict = judged(schema, text)
    assert (verdict.is_valid, [issue["path"] for issue in verdict.issues]) == (False, [path])


def test_a_validator_of_a_model_is_heard() -> None:
    assert judged(Odd, '{"n": 2}').issues == [{"path": ["n"], "message": "Value error, must be odd"}]


@pytest.mark.case("agents:K09")
def test_no_json_fails_without_issues() -> None:
    assert judged(Trip, "I do not know") == Validated(is_valid=False)


def test_what_the_provider_parsed_is_preferred_and_judged_all_the_same() -> None:
    text = '{"city": "Rome", "nDays": 3}'
    assert judged(Trip, text, {"city": "Oslo", "nDays": 1}).value == {"city": "Oslo", "nDays": 1}
    assert not judged(Trip, text, {"city": "Oslo"}).is_valid
    assert judged(Trip, text, None).value == {"city": "Rome", "nDays": 3}


def test_an_object_of_ones_own_may_judge() -> None:
    assert judged(Own(), "3").value == {"got": 3}


@pytest.mark.parametrize(
    ("error", "issues"),
    [
        (ValueError("too small"), [{"path": [], "message": "too small"}]),
        (AssertionError(), [{"path": [], "message": "AssertionError"}]),
        (WithIssues(), [{"path": ["a", 0], "message": "too long"}]),
    ],
    ids=["ValueError", "assert", "own issues"],
)
def test_what_ones_own_parser_raises_is_told(error: Exception, issues: list[Any]) -> None:
    assert judged(Own(error), "3").issues == issues


@pytest.mark.parametrize("error", [KeyError("bug"), ControlFlowSignal()], ids=["bug", "signal"])
def test_a_parser_that_breaks_is_no_verdict(error: Exception) -> None:
    with pytest.raises(type(error)):
        judged(Own(error), "3")


@pytest.mark.parametrize(
    "schema",
    [{"type": "nonsense"}, object(), {"$ref": "https://example.invalid/schema.json"}],
    ids=["broken", "no schema", "a reference to the net"],
)
def test_a_schema_that_can_judge_nothing_is_refused(schema: Any) -> None:
    with pytest.raises(DefinitionError):
        judged(schema, "3")


# -- telling ----------------------------------------------------------------------------------------


def test_a_schema_is_told_in_the_words_of_draft_7() -> None:
    class Plan(BaseModel):
        trips: list[Trip]

    told = output_json_schema(Plan)
    assert told["properties"]["trips"]["items"] == {"$ref": "#/definitions/Trip"}
    assert set(told["definitions"]) == {"Trip"}


def test_a_hand_written_schema_is_told_as_a_copy() -> None:
    told = output_json_schema(BY_HAND)
    assert told == BY_HAND
    assert told is not BY_HAND


def test_an_object_of_ones_own_tells_its_shape() -> None:
    assert output_json_schema(Own()) == {"type": "number"}


class Untold:
    def parse(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("schema", [Untold(), object(), TypeAdapter(type)], ids=["says nothing", "no schema", "not JSON"])
def test_a_shape_that_cannot_be_told_is_refused(schema: Any) -> None:
    with pytest.raises(DefinitionError):
        output_json_schema(schema)


@pytest.mark.case("agents:K08")
def test_a_repair_says_what_was_wrong_line_by_line() -> None:
    told = repair_instruction("Give JSON.", [{"path": ["a", 0], "message": "too long"}, {"path": [], "message": "no object"}])
    assert told.startswith("Give JSON.\n")
    assert "rejected" in told
    assert told.splitlines()[-2:] == ["a.0: too long", "(root): no object"]


@pytest.mark.case("agents:K09")
def test_a_repair_of_no_json_says_so() -> None:
    assert "not valid JSON" in repair_instruction("Give JSON.", []).splitlines()[-1]


# -- follow-ups -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('["a?", "b?", "c?", "d?"]', ["a?", "b?", "c?"]),
        ('Sure: ["a?"] and ["b?"]', ["a?"]),
        ('["a?", 3, null, " ", ["x"], "b?"]', ["a?", "b?"]),
        ('{"a": 1}', []),
        ("none", []),
        ("[not json", []),
        ("", []),
    ],
    ids=["cut", "first region", "only texts", "object", "words", "broken", "empty"],
)
def test_follow_ups_are_the_texts_of_an_array(text: str, found: list[str]) -> None:
    assert parse_follow_ups(text, 3) == found


def test_no_follow_ups_are_asked_for_and_none_given() -> None:
    assert parse_follow_ups('["a?"]', 0) == []
