"""How the schemas of an agent and its tools are told to a model: JSON Schema, draft 7, of the side that matters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import jsonschema
import pytest
from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    Field,
    PlainValidator,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic.experimental.pipeline import validate_as

import loomnb as loom
from loomnb.runtime import ModelTool
from loomnb.testing import ScriptedModel
from tests.blueprints.agenting import DONE, agent_flow, error_of, played, tool
from tests.helpers import plain_id

pytestmark = pytest.mark.usefixtures("session")


def told_of(**schemas: Any) -> ModelTool:
    """A tool as the model was told of it."""
    model = ScriptedModel([DONE])
    played(agent_flow(tool(**schemas)), model)
    return model.requests[0].tools[0]


def input_of(schema: Any) -> Any:
    return told_of(takes=schema).input_schema


def output_of(schema: Any) -> Any:
    return told_of(gives=schema).output_schema


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Inner(BaseModel):
    """What is within."""

    count: int = 1


class Tree(BaseModel):
    kids: list[Tree] = []


class Pair(NamedTuple):
    x: int
    y: str


class Outer(BaseModel):
    inner: Inner = Field(description="the one within")
    colour: Colour = Field(Colour.RED, title="of what colour")
    pair: tuple[int, str]
    many: tuple[int, ...] = ()
    day: date | None = None
    at: datetime | None = None
    kind: Literal["a", "b"] = "a"
    named: dict[str, Inner] = {}
    tree: Tree | None = None
    prefixItems: list[int] = []  # noqa: N815  # a word of JSON Schema
    definitions: int = Field(0, alias="$defs")


SCHEMAS = [Outer, Tree, Pair, int, str, bool, list[int], dict[str, Inner], tuple[int, str], tuple[int, ...], Colour, date, UUID]
SCHEMAS += [Decimal, int | None, Literal["a", 1], Annotated[int, Field(gt=0, lt=9)], AnyUrl, Any, list[Outer], type(None)]


@pytest.mark.parametrize("side", [input_of, output_of])
@pytest.mark.parametrize("schema", SCHEMAS, ids=plain_id)
def test_each_schema_is_one_of_draft_7(schema: Any, side: Callable[[Any], Any]) -> None:
    jsonschema.Draft7Validator.check_schema(side(schema))


def keywords(node: Any) -> set[str]:
    """Every key of every object."""
    if isinstance(node, dict):
        return set(node) | {key for value in node.values() for key in keywords(value)}
    return {key for one in node for key in keywords(one)} if isinstance(node, list) else set()


@pytest.mark.parametrize("side", [input_of, output_of])
@pytest.mark.parametrize("schema", [Tree, list[Outer], tuple[Tree, int]], ids=plain_id)
def test_no_word_of_a_later_draft_is_used(schema: Any, side: Callable[[Any], Any]) -> None:
    told = side(schema)
    of_ours = {"prefixItems", "$defs"} if schema == list[Outer] else set()  # names of properties

    assert keywords(told) & {"prefixItems", "$defs", "unevaluatedProperties", "dependentSchemas"} == of_ours


def test_nested_models_are_definitions() -> None:
    told = input_of(Outer)

    assert set(told["definitions"]) == {"Inner", "Colour", "Tree"}
    assert told["properties"]["named"]["additionalProperties"] == {"$ref": "#/definitions/Inner"}


def test_what_stands_beside_a_reference_stands_where_draft_7_reads_it() -> None:
    assert input_of(Outer)["properties"]["inner"] == {
        "allOf": [{"$ref": "#/definitions/Inner"}],
        "description": "the one within",
    }


def test_a_recursive_model_refers_to_itself() -> None:
    told = input_of(Tree)

    assert told["allOf"] == [{"$ref": "#/definitions/Tree"}]
    assert told["definitions"]["Tree"]["properties"]["kids"]["items"] == {"$ref": "#/definitions/Tree"}


def test_a_tuple_says_what_stands_where() -> None:
    told = input_of(tuple[int, str])

    assert told["items"] == [{"type": "integer"}, {"type": "string"}]
    assert (told["minItems"], told["maxItems"]) == (2, 2)


def test_a_tuple_of_any_length_is_an_array() -> None:
    assert input_of(tuple[int, ...]) == {"type": "array", "items": {"type": "integer"}}


def test_a_property_may_be_called_as_a_word_of_a_later_draft() -> None:
    assert {"prefixItems", "$defs"} <= set(input_of(Outer)["properties"])


def test_a_default_that_looks_like_a_schema_is_left_alone() -> None:
    class Asked(BaseModel):
        given: dict[str, Any] = {"prefixItems": [1], "items": 2}

    assert input_of(Asked)["properties"]["given"]["default"] == {"prefixItems": [1], "items": 2}


def test_an_optional_may_be_null() -> None:
    assert input_of(Outer)["properties"]["day"]["anyOf"] == [{"type": "string", "format": "date"}, {"type": "null"}]


def test_an_enum_lists_its_values() -> None:
    assert input_of(Colour)["enum"] == ["red", "green"]


def test_what_has_a_default_is_not_required_of_a_model() -> None:
    assert input_of(Outer)["required"] == ["inner", "pair"]


# -- sides -------------------------------------------------------------------------------------------

PARSED = Annotated[str, AfterValidator(float)]


def test_an_input_is_told_as_the_parser_takes_it() -> None:
    assert input_of(PARSED) == {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        PARSED,
        Annotated[str, WrapValidator(lambda value, handler: float(handler(value)))],
        Annotated[str, PlainValidator(float)],
        Annotated[Inner, AfterValidator(lambda inner: inner.count)],
        Annotated[Tree, AfterValidator(lambda tree: len(tree.kids))],
        Annotated[str, validate_as(str).transform(float)],
    ],
    ids=["after", "wrap", "plain", "of a model", "of a recursive model", "pipeline"],
)
def test_what_a_function_makes_is_unconstrained(schema: Any) -> None:
    assert output_of(schema) == {}


@pytest.mark.parametrize(
    ("schema", "at"),
    [
        (list[PARSED], lambda told: told["items"]),
        (dict[str, PARSED], lambda told: told.get("additionalProperties", {})),
        (tuple[PARSED, int], lambda told: told["items"][0]),
    ],
    ids=["list", "dict", "tuple"],
)
def test_it_is_so_within_others_too(schema: Any, at: Callable[[Any], Any]) -> None:
    assert at(output_of(schema)) in ({}, True)


def test_a_field_that_a_function_makes_has_no_type() -> None:
    class Made(BaseModel):
        plain: int
        made: PARSED

    told = output_of(Made)["properties"]

    assert told["plain"]["type"] == "integer"
    assert "type" not in told["made"]


def test_a_schema_after_the_function_says_its_shape() -> None:
    assert output_of(Annotated[str, validate_as(str).transform(float).validate_as(float)]) == {"type": "number"}


def test_a_json_schema_that_is_given_says_its_shape() -> None:
    assert output_of(Annotated[str, AfterValidator(float), WithJsonSchema({"type": "number"})]) == {"type": "number"}


def test_what_comes_before_the_parsing_hides_nothing_of_the_output() -> None:
    assert output_of(Annotated[int, BeforeValidator(str)]) == {"type": "integer"}


def test_the_validator_of_a_model_hides_nothing_of_it() -> None:
    class Checked(BaseModel):
        low: int
        high: int

        @model_validator(mode="after")
        def _in_order(self) -> Checked:
            return self

    assert set(output_of(Checked)["properties"]) == {"low", "high"}


# -- what cannot be told -----------------------------------------------------------------------------


class Own:
    """A schema of one's own that says nothing of itself."""

    def parse(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    "schema",
    [Callable[[], int], Own(), Annotated[Any, PlainValidator(int, json_schema_input_type=Callable[[], int])]],
    ids=plain_id,
)
def test_an_input_that_cannot_be_told_fails_before_the_model_is_asked(schema: Any) -> None:
    model = ScriptedModel([DONE])

    run = played(agent_flow(tool(takes=schema)), model)

    assert (error_of(run), model.requests) == ("STEP_EXECUTION_FAILED", [])
    assert "cannot be told to a model" in (run.traceback or "")


@pytest.mark.parametrize("schema", [Own(), Callable[[], int]], ids=plain_id)
def test_an_output_that_cannot_be_told_is_unconstrained(schema: Any) -> None:
    assert output_of(schema) == {}


@pytest.mark.parametrize("made", [{"type": "string"}, lambda: {"type": "string"}], ids=["mapping", "function"])
def test_a_schema_of_ones_own_may_say_what_it_takes(made: Any) -> None:
    own = Own()
    own.json_schema = made  # type: ignore[attr-defined]

    assert input_of(own) == {"type": "string"}


# -- the end of an agent -----------------------------------------------------------------------------


def asked_for(output: Any, said: Any = DONE) -> Any:
    model = ScriptedModel([said])
    played(agent_flow(output=output), model)
    return model.requests[0].output_schema


def test_a_model_is_told_what_it_has_to_end_with() -> None:
    class Ended(BaseModel):
        outcome: Literal["done", "again"]

    assert asked_for(Ended)["properties"]["outcome"]["enum"] == ["done", "again"]


def test_a_model_is_told_what_the_parser_takes_and_not_what_it_makes() -> None:
    ends = Annotated[str, AfterValidator(lambda raw: {"outcome": raw})]

    assert asked_for(ends, '"done"') == {"type": "string"}


def test_an_end_that_cannot_be_told_is_free_text() -> None:
    assert asked_for(Own()) is None


# -- type checkers -----------------------------------------------------------------------------------

TYPED = """
from typing import Any, assert_type
from pydantic import BaseModel, TypeAdapter
import loomnb as loom

class In(BaseModel):
    x: int

class Out(BaseModel):
    y: int

class Length:
    def parse(self, value: str) -> int:
        return len(value)

class LaterLength:
    async def parse(self, value: str) -> int:
        return len(value)

async def later(given: In, access: loom.AgentExecutionAccess) -> str:
    return ""

def plain(given: In, access: loom.AgentExecutionAccess) -> dict[str, int]:
    return {}

a = loom.define_agent_tool(id="a", description="", input_schema=In, output_schema=Out, execute=later)
assert_type(a, loom.AgentTool[In, Out, str])
b = loom.define_agent_tool(id="b", description="", input_schema=In, output_schema=Out, execute=plain)
assert_type(b, loom.AgentTool[In, Out, dict[str, int]])
c = loom.define_agent_tool(id="c", description="", input_schema=TypeAdapter(list[int]), output_schema=Length(),
                           execute=lambda given, access: str(given[0]))
assert_type(c, loom.AgentTool[list[int], int, str])
d = loom.define_agent_tool(id="d", description="", input_schema=In, output_schema=LaterLength(), execute=later)
assert_type(d, loom.AgentTool[In, int, str])
two: loom.AgentTool[In, Out] = loom.define_agent_tool(
    id="e", description="", input_schema=In, output_schema=Out, execute=lambda given, access: Out(y=given.x))

def wrong(given: str, access: loom.AgentExecutionAccess) -> str:
    return given

async def wrong_later(given: str, access: loom.AgentExecutionAccess) -> str:
    return given

loom.define_agent_tool(id="f", description="", input_schema=In, output_schema=Out, execute=wrong)  # refused
loom.define_agent_tool(id="g", description="", input_schema=In, output_schema=Out, execute=wrong_later)  # refused
loom.define_agent_tool(id="h", description="", input_schema=In, output_schema=Length(), execute=plain)  # refused
loom.define_agent_tool(id="i", description="", input_schema=In, output_schema=Out,
                       execute=lambda given, access: given.nothing)  # refused
"""


def test_mypy_infers_the_types_of_a_tool_and_refuses_a_wrong_execute(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(TYPED, encoding="utf-8")
    root = Path(loom.__file__).parent.parent

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", str(snippet)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    errors = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    lines = enumerate(TYPED.splitlines(), 1)
    wanted = {number for number, line in lines if line.endswith("# refused")}
    assert errors == wanted, done.stdout + done.stderr


def test_a_tool_of_two_types_may_be_written_down() -> None:
    assert loom.AgentTool[int, str] is not None
