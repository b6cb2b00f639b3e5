"""An error whose text is as long as a book is put on record cut, with a note; its exception is not touched."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.runtime import TurnResult
from loomnb.testing import ScriptedModel

LONG = "begin " + "x" * 5_000_000 + " end"


class BookError(Exception):
    pass


@pytest.fixture
def store(tmp_path: Path) -> Iterator[loom.Loom]:
    with loom.Loom(str(tmp_path / "a.duckdb"), headless=True) as session:
        yield session


def size_of(store: loom.Loom) -> int:
    ((size,),) = store.sql("select sum(length(body::varchar)) from journal").fetchall()
    return int(size)


@pytest.mark.parametrize(
    "error", [BookError(LONG), loom.InvalidRequest(LONG), loom.Conflict("short", advice=LONG)], ids=["own", "ours", "advice"]
)
@pytest.mark.parametrize("kind", ["read", "action"])
def test_what_a_tool_raises_is_cut_with_a_note_where_it_enters(store: loom.Loom, error: Exception, kind: Any) -> None:
    @loom.agent_tool(kind=kind)
    def fail() -> str:
        """Fails."""
        raise error

    model = ScriptedModel([[("fail", {})], "It failed."])
    agent = loom.Agent(model, [fail], name="failing", approvals={"fail": "auto"}, store=store)
    run = agent.run("Try.")

    async def main() -> None:
        await run

    asyncio.run(main())

    (result,) = run.messages[1].tool_results or ()
    assert len(result["error"]) < 11_000
    assert "characters are left out" in result["error"]
    assert result["error"].endswith(" end")
    assert size_of(store) < 100_000


def test_what_a_model_raises_is_cut_on_record_and_arrives_whole(store: loom.Loom) -> None:
    raised = BookError(LONG)

    class Failing:
        async def run_turn(self, request: Any) -> TurnResult:
            raise raised

    run = loom.Agent(Failing(), name="failing_model", store=store).run("Try.")

    async def main() -> None:
        with pytest.raises(loom.RunFailed) as caught:
            await run
        assert caught.value.__cause__ is raised

    asyncio.run(main())

    assert str(raised) == LONG
    assert size_of(store) < 200_000
    assert "characters are left out" in repr(run)
