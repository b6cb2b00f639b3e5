"""What the view `threads` counts: what a person sees."""

from __future__ import annotations

import asyncio
from pathlib import Path

import duckdb

import loomnb as loom
from loomnb.store.schema import MIGRATIONS
from loomnb.testing import ScriptedModel


def test_threads_count_what_was_said_and_the_answers_only(tmp_path: Path) -> None:
    def add(a: int) -> int:
        """Adds."""
        return a

    with loom.Loom(str(tmp_path / "a.duckdb"), headless=True) as store:
        model = ScriptedModel([[("add", {"a": 1})], "One.", "Two.", "Three."])
        chat = loom.Agent(model, [add], name="counting", store=store).chat()

        async def say(text: str) -> None:
            await chat.send(text)

        async def edit() -> None:
            await chat.edit(str(chat.messages[3].id), "Third.")

        asyncio.run(say("First."))
        asyncio.run(say("Second."))
        asyncio.run(edit())
        other = chat.fork(str(chat.messages[0].id))

        counted = dict(store.sql("select thread_id, messages from threads").fetchall())
        every = dict(store.sql("select thread_id, count(*) from messages group by all").fetchall())
        told = {one["threadId"]: one["messages"] for one in chat.agent.threads().entries}

    assert counted == {chat.thread_id: 4, other.thread_id: 1} == told
    assert every == {chat.thread_id: 7, other.thread_id: 1}


def test_a_file_of_before_counts_so_too_once_it_was_opened(tmp_path: Path) -> None:
    path = str(tmp_path / "old.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("create table migrations(number integer not null, applied_at timestamptz not null)")
        for number, step in enumerate(MIGRATIONS[:6], 1):
            step(connection.execute)
            connection.execute("insert into migrations values (?, now())", [number])
        connection.execute("""insert into journal (seq, ts, run_id, kind, body) values
            (1, now(), 't', 'thread.created', '{"actorRef": "a", "title": "T"}'),
            (2, now(), 't', 'message.added', '{"id": "m1", "role": "user", "content": "Hi"}'),
            (3, now(), 't', 'message.removed', '{"ids": ["m1"]}')""")
        assert connection.execute("select messages from threads").fetchall() == [(1,)]

    with loom.Loom(path, headless=True) as store:
        assert store.sql("select messages from threads").fetchall() == [(0,)]
