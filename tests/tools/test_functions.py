"""Tools that are functions: their schema, their documentation, what they are called with."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import loomnb as loom
from loomnb.tools import TOOLS, execute


def called(tool: Any, args: Any = None, **options: Any) -> Any:
    return asyncio.run(tool.call(args, **options)).data


def test_a_function_is_a_tool_and_stays_a_function() -> None:
    @loom.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    assert add(1, 5) == 6
    assert called(add, {"a": 1}) == 3
    assert (add.name, add.__name__, add.__doc__) == ("add", "add", "Add two numbers.")
    assert isinstance(add, loom.BaseTool)


def test_an_async_function_is_awaited() -> None:
    @loom.tool(name="slow_add")
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    assert (add.name, called(add, {"a": 1, "b": 2})) == ("slow_add", 3)


def test_annotations_and_docstring_make_the_schema() -> None:
    class Address(BaseModel):
        street: str

    @loom.tool
    def ship(
        item: str,
        to: Address,
        speed: Literal["slow", "fast"] = "slow",
        weight: Annotated[float, Field(gt=0, description="In kilograms.")] = 1.0,
    ) -> str:
        """Ship an item.

        It goes by train.

        Args:
            item: What to ship; a name
                of the catalogue.
            weight: not this text, the annotation's.

        Returns:
            The tracking number.
        """
        return f"{item} to {to.street}, {speed}, {weight}"

    spec = TOOLS.need("ship")
    schema = spec.json_schema()

    assert spec.description == "Ship an item.\n\nIt goes by train."
    assert list(schema["properties"]) == ["item", "to", "speed", "weight"]
    assert schema["required"] == ["item", "to"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["item"]["description"] == "What to ship; a name of the catalogue."
    assert schema["properties"]["weight"]["description"] == "In kilograms."
    assert schema["properties"]["speed"]["enum"] == ["slow", "fast"]
    assert called(ship, {"item": "lamp", "to": {"street": "Main"}}) == "lamp to Main, slow, 1.0"


def test_rest_docstrings_are_read_too() -> None:
    @loom.tool
    def look(city: str) -> str:
        """Look at a city.

        :param city: which one
        :returns: what is seen
        """
        return city

    spec = TOOLS.need("look")

    assert spec.description == "Look at a city."
    assert spec.json_schema()["properties"]["city"]["description"] == "which one"


@pytest.mark.parametrize("args", [{}, {"a": "x"}, {"a": 1, "z": 2}], ids=["missing", "wrong", "extra"])
def test_arguments_that_do_not_fit_are_refused_by_name(args: Any) -> None:
    @loom.tool
    def one(a: int) -> int:
        return a

    with pytest.raises(loom.ArgsInvalid) as caught:
        one.call(args)

    assert list(caught.value.fields) == ["z" if "z" in args else "a"]


def test_ctx_and_options_are_no_arguments() -> None:
    @loom.tool
    def where(ctx: loom.RunContext[Any], city: str, options: loom.ToolCallOptions[Any]) -> list[Any]:
        return [ctx.workflow_id, city, options.callback]

    assert list(TOOLS.need("where").json_schema()["properties"]) == ["city"]
    assert called(where, {"city": "Rome"}, callback={"transition": "t"}) == ["", "Rome", {"transition": "t"}]


def test_a_parameter_may_have_a_name_that_models_keep_for_themselves() -> None:
    @loom.tool
    def odd(schema: str, copy: int = 1, model_dump: bool = False, options: str = "o") -> list[Any]:
        return [schema, copy, model_dump, options]

    assert called(odd, {"schema": "s", "copy": 3}) == ["s", 3, False, "o"]


@pytest.mark.parametrize("value", [None, 0, False, "", {"error": "mine"}], ids=repr)
def test_what_it_returns_is_the_data(value: Any) -> None:
    @loom.tool
    def give() -> Any:
        return value

    assert asyncio.run(execute(give)).data == value


def test_it_may_return_an_envelope() -> None:
    @loom.tool
    def give() -> loom.ToolEnvelope[int]:
        return loom.ToolEnvelope(error="no")

    assert asyncio.run(execute(give)) == loom.ToolEnvelope(error="no")


def _unannotated() -> Any:
    def f(a) -> int:  # type: ignore[no-untyped-def]
        return int(a)

    return f


def _starred() -> Any:
    def f(*a: int) -> int:
        return sum(a)

    return f


def _unfillable() -> Any:
    def f(a: asyncio.Lock) -> int:
        return 1

    return f


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_unannotated, "the parameter 'a' has no annotation"),
        (_starred, "'a' cannot be filled"),
        (_unfillable, "Unable to generate pydantic-core schema"),
        (lambda: lambda a: a, "'a' has no annotation"),
    ],
)
def test_a_function_that_cannot_be_called_by_name_is_refused_when_defined(make: Any, said: str) -> None:
    with pytest.raises(loom.DefinitionError, match=said):
        loom.tool(make())


def test_schema_beside_a_function_is_refused() -> None:
    with pytest.raises(loom.DefinitionError, match="is its parameters"):

        @loom.tool(schema=dict)
        def f() -> int:
            return 1


def test_a_stand_in_is_called_instead() -> None:
    @loom.tool
    def add(a: int, b: int) -> int:
        return a + b

    with loom.overrides({add: lambda a, b: a * 100 + b}):
        assert called(add, {"a": 1, "b": 2}) == 102
        assert add(1, 2) == 3, "a plain call is Python's"
        with pytest.raises(loom.ArgsInvalid):
            add.call({"a": "x", "b": 2})

    async def slow(a: int, b: int, ctx: Any) -> Any:
        return [a, b, ctx.workflow_id]

    with loom.overrides({add: slow}):
        assert called(add, {"a": 1, "b": 2}) == [1, 2, ""]
    assert called(add, {"a": 1, "b": 2}) == 3
