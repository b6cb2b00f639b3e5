"""JSON Schema in the words of draft 7: one conversion for every room that tells a model of a schema."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from pydantic import BaseModel, TypeAdapter

from loomnb.asks import draft_7


class Node(BaseModel):
    """A tree, with a pair."""

    pair: tuple[int, str] = (1, "a")
    kids: list[Node] = []


WORDS = {"$defs": {"type": "string"}, "prefixItems": {"type": "string"}, "$ref": {"type": "string"}}

CASES: list[tuple[Any, Any]] = [
    (
        {"$defs": {"n": {"type": "null"}}, "$ref": "#/$defs/n"},
        {"definitions": {"n": {"type": "null"}}, "allOf": [{"$ref": "#/definitions/n"}]},
    ),
    ({"prefixItems": [{"type": "null"}], "items": False}, {"items": [{"type": "null"}], "additionalItems": False}),
    ({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "null"}, {"type": "null"}),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", "$defs": {}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$defs": {}},
    ),
    ({"properties": WORDS}, {"properties": WORDS}),
    ({"enum": [{"$defs": 1}], "default": {"prefixItems": []}}, {"enum": [{"$defs": 1}], "default": {"prefixItems": []}}),
    ({"anyOf": [{"$ref": "#/$defs/n", "title": "N"}]}, {"anyOf": [{"allOf": [{"$ref": "#/definitions/n"}], "title": "N"}]}),
]


@pytest.mark.parametrize(("newer", "older"), CASES, ids=[str(n) for n in range(len(CASES))])
def test_words_that_draft_7_has_not_are_said_in_its_own(newer: Any, older: Any) -> None:
    assert draft_7(newer) == older


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({}, True),
        ({"pair": [1, "a"]}, True),
        ({"pair": ["a", 1]}, False),
        ({"pair": [1, "a", 2]}, False),
        ({"kids": [{"kids": [1]}]}, False),
    ],
    ids=str,
)
def test_it_judges_as_the_newer_one_does(value: Any, fits: bool) -> None:
    newer = TypeAdapter(Node).json_schema()

    assert Draft202012Validator(newer).is_valid(value) is fits
    assert Draft7Validator(draft_7(newer)).is_valid(value) is fits
