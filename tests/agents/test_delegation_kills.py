"""Agents that ask and start others, with the kernel dying at every single commit: the next one tells the same story."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import Death, ScriptedModel
from tests.agents.journaling import kernel

COMMITS = 27
"""Of the whole story, or some more."""
ENDS = ("completed", "failed", "canceled")
BOSS = [[("ask_writer", {"task": "Now."}), ("start_writer", {"task": "Later."})], "So it is."]
WRITER = [[("send", {"to": "bob"})], "A poem."]


def cells(session: loom.Loom, did: Counter[str]) -> loom.Agent:
    """A boss who asks a writer, and starts it once more; the writer sends a mail, which nobody is asked about."""

    @loom.agent_tool(kind="action")
    def send(to: str) -> str:
        """Sends."""
        did["send"] += 1
        return to

    writer = loom.Agent(ScriptedModel(WRITER), [send], name="writer", store=session, approvals={"send": "auto"}, memory=True)
    return loom.Agent(ScriptedModel(BOSS), name="boss", store=session, agents=[writer], detached=[writer])


def told(session: loom.Loom) -> list[Any]:
    """What the store says in the end, without ids."""
    rows = "select tool_name, status, output->>'status', output->>'text' from tool_calls order by tool_name, output->>'text'"
    runs = "select workflow, status, count(*) from runs group by all order by all"
    said = "select coalesce(agent_name, role), content, count(*) from messages where content <> '' group by all order by all"
    return [session.sql(one).fetchall() for one in (rows, runs, said)]


def to_the_end(session: loom.Loom, did: Counter[str]) -> None:
    """Answer with yes what the next kernel asks of actions that had begun, until all is at rest."""
    boss = cells(session, did)
    if not _runs(session):
        boss.run("Go", key="story")

    async def settled() -> None:
        while going := [run for run in _runs(session) if run.status not in ENDS]:
            for run in going:
                for ask in run.pending:
                    did["asked"] += 1
                    run.answer(ask.id, True)
            await asyncio.sleep(0.01)  # a turn of this loop: what goes on does so on others

    asyncio.run(asyncio.wait_for(settled(), 30))


def _runs(session: loom.Loom) -> list[loom.Run]:
    return [session.run(run_id) for (run_id,) in session.sql("select run_id from runs order by number").fetchall()]


@pytest.mark.parametrize("after", range(1, COMMITS), ids=str)
def test_nobody_is_asked_twice_and_the_answer_comes_once(tmp_path: Path, after: int) -> None:
    did: Counter[str] = Counter()
    path, death = tmp_path / "s.duckdb", Death(after=after)
    with kernel(path, database=death) as session:
        boss = cells(session, did)
        with suppress(loom.StoreClosed):
            boss.run("Go", key="story")
        death.wait()
    with kernel(path) as session:
        to_the_end(session, did)

        calls, runs, said = told(session)
        assert runs == [("boss", "completed", 1), ("writer", "completed", 2)]
        assert calls == [
            ("ask_writer", "executed", None, "A poem."),
            ("send", "executed", None, None),
            ("send", "executed", None, None),
            ("start_writer", "executed", "delivered", "A poem."),
        ]
        assert said == [
            ("boss", "So it is.", 1),
            ("user", "Go", 1),
            ("user", "Later.", 1),
            ("user", "Now.", 1),
            ("writer", "A poem.", 3),
        ]
