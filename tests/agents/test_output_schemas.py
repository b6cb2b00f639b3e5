"""A broken schema of an output, or of a tool, is refused when it is given, with the place: no call of a model is paid for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import ScriptedModel
from tests.agents.looping import deps
from tests.helpers import plain_id


@pytest.fixture
def store(tmp_path: Path) -> Iterator[loom.Loom]:
    with loom.Loom(str(tmp_path / "a.duckdb"), headless=True) as session:
        yield session


class _Handler:
    async def execute(self, value: Any, ctx: Any) -> Any:
        return value


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"type": "nonsense"}, r"\$\.type"),
    ({"type": "object", "properties": {"size": {"type": 5}}}, r"\$\.properties\.size\.type"),
    ({"properties": {"size": {"$ref": "#/$defs/Size"}}}, r"\$\.properties\.size\.\$ref.*leads nowhere"),
    ({"items": {"$ref": "https://example.org/schema.json"}}, r"\$\.items\.\$ref.*leads nowhere"),
    ({"properties": {"a": {"pattern": "("}}}, r"\$\.properties\.a\.pattern"),
    ({"patternProperties": {"[": {"type": "string"}}}, "pattern"),
    ({"required": "size"}, r"\$\.required"),
    ({"properties": {"size": {"minimum": float("nan")}}}, "properties.size.minimum"),
    ({"properties": {5: {}}}, "keys are text"),
]


@pytest.mark.parametrize(("schema", "where"), BROKEN, ids=plain_id)
def test_a_broken_schema_is_refused_when_the_agent_is_made(store: loom.Loom, schema: dict[str, Any], where: str) -> None:
    with pytest.raises(loom.DefinitionError, match=where):
        loom.Agent(ScriptedModel(["Hello."]), name="shaped", output=schema, store=store)


@pytest.mark.parametrize(("schema", "where"), BROKEN, ids=plain_id)
def test_the_loop_refuses_it_too(schema: dict[str, Any], where: str) -> None:
    with pytest.raises(loom.DefinitionError, match=where):
        deps([], output_schema=schema)


@pytest.mark.parametrize(("schema", "where"), BROKEN, ids=plain_id)
def test_a_tool_with_such_an_input_is_refused_when_it_is_registered(schema: dict[str, Any], where: str) -> None:
    spec = loom.ToolSpec(name="measure", description="Measures.", input_schema=schema)

    with pytest.raises(loom.DefinitionError, match="'measure'.*" + where):
        loom.ToolRegistry().register(spec, _Handler())


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"$ref": {"type": "string"}, "pattern": {"type": "string"}}},
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"type": "object", "$defs": {"A": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/A"}}},
        {"type": "object", "default": {"$ref": "#/nowhere", "pattern": "("}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "prefixItems": [{"type": "string"}]},
        {"$id": "https://example.org/a", "type": "object", "definitions": {"A": {}}, "items": {"$ref": "#/definitions/A"}},
        {"type": "object", "properties": {"a": {"$ref": "http://json-schema.org/draft-07/schema#"}}},
    ],
    ids=plain_id,
)
def test_a_sound_schema_is_taken(store: loom.Loom, schema: dict[str, Any]) -> None:
    agent = loom.Agent(ScriptedModel(["Hello.", "{}"]), name="sound", output=schema, store=store)

    async def main() -> Any:
        return (await agent.run("Hello.")).object

    assert asyncio.run(main()) == {}


class Plain:
    """No model."""


@pytest.mark.parametrize(("schema", "said"), [(Plain, "Give a pydantic model"), ("Plain", "Give the class itself: Plain")])
def test_what_is_no_shape_of_an_output_leads_to_those_that_are(store: loom.Loom, schema: Any, said: str) -> None:
    with pytest.raises(loom.DefinitionError, match=said) as refused:
        loom.Agent(ScriptedModel([]), name="shapeless", output=schema, store=store)

    assert "pydantic_core" not in str(refused.value)
