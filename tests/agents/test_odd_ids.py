"""Calls of one turn whose ids cannot be stored as they are: they stay as many as the model asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.runtime import ToolRequest, TurnResult
from loomnb.testing import ScriptedModel


@pytest.fixture
def store(tmp_path: Path) -> Iterator[loom.Loom]:
    with loom.Loom(str(tmp_path / "a.duckdb"), headless=True) as session:
        yield session


@pytest.mark.parametrize("ids", [("a\0", "a\ud800", "a\ufffd"), ("\0", "\ud800", ""), ("b", "b", "b\0")])
def test_calls_whose_ids_are_stored_alike_stay_distinct(store: loom.Loom, ids: tuple[str, ...]) -> None:
    def note(text: str) -> str:
        """Notes."""
        return f"noted {text}"

    asked = tuple(ToolRequest(id=one, name="note", input={"text": str(n)}) for n, one in enumerate(ids))
    agent = loom.Agent(ScriptedModel([TurnResult(text="", tool_calls=asked), "Done."]), [note], name="odd", store=store)
    run = agent.run("Note.")

    async def main() -> None:
        await run

    asyncio.run(main())

    message = run.messages[1]
    assert len({call["id"] for call in message.tool_calls or ()}) == 3
    assert [result["output"] for result in message.tool_results or ()] == ["noted 0", "noted 1", "noted 2"]
    rows = store.sql("select json_extract_string(output, '$') from tool_calls order by 1").fetchall()
    assert rows == [("noted 0",), ("noted 1",), ("noted 2",)]


def test_arguments_whose_names_are_stored_alike_stay_distinct(store: loom.Loom) -> None:
    heard: list[Any] = []

    def note(**more: Any) -> str:
        """Notes."""
        heard.append(more)
        return "noted"

    tool = loom.create_functional_tool(
        name="note", description="Notes.", input=dict[str, Any], execute=lambda given, ctx: note(**given)
    )
    given = {"a\0": 1, "a\ud800": 2}
    asked = (ToolRequest(id="c", name="note", input=given),)
    agent = loom.Agent(ScriptedModel([TurnResult(text="", tool_calls=asked), "Done."]), [tool], name="names", store=store)

    async def main() -> None:
        await agent.run("Note.")

    asyncio.run(main())

    assert sorted(heard[0].values()) == [1, 2]
