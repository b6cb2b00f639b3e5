"""A conversation that was deleted says so, whatever is asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import ScriptedModel


@pytest.fixture
def store(tmp_path: Path) -> Iterator[loom.Loom]:
    with loom.Loom(str(tmp_path / "a.duckdb"), headless=True) as session:
        yield session


async def said(chat: Any) -> None:
    await chat.send("Hello.")


ACTS: dict[str, Callable[[Any, str], Any]] = {
    "send": lambda chat, _: chat.send("More."),
    "run": lambda chat, _: chat.agent.run("More.", thread=chat),
    "run by id": lambda chat, _: chat.agent.run("More.", thread=chat.thread_id),
    "chat": lambda chat, _: chat.agent.chat(chat.thread_id),
    "rename": lambda chat, _: chat.rename("Else"),
    "fork": lambda chat, message: chat.fork(message),
    "edit": lambda chat, message: chat.edit(message, "Hi."),
    "retry": lambda chat, _: chat.retry(),
    "feedback": lambda chat, message: chat.feedback(message, "up"),
    "stop": lambda chat, _: chat.stop(),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_is_asked_of_a_deleted_conversation_is_refused_and_says_why(store: loom.Loom, act: str) -> None:
    chat = loom.Agent(ScriptedModel(["Hello."] * 3), name="deleting", store=store).chat()
    asyncio.run(said(chat))
    message = str(chat.messages[0].id)
    chat.delete()
    before = store.sql("select count(*) from journal").fetchall()

    with pytest.raises(loom.NotFound, match=r"was deleted[\s\S]*agent\.chat\(\) begins a new one"):
        ACTS[act](chat, message)

    assert store.sql("select count(*) from journal").fetchall() == before


def test_deleting_twice_is_as_once(store: loom.Loom) -> None:
    chat = loom.Agent(ScriptedModel(["Hello."]), name="twice", store=store).chat()
    asyncio.run(said(chat))

    chat.delete()
    chat.delete()

    assert len(chat.agent.threads()) == 0


def test_a_conversation_begins_with_what_is_first_said_in_it_whoever_starts_the_turn(store: loom.Loom) -> None:
    agent = loom.Agent(ScriptedModel(["Hello."]), name="beginning", store=store)
    chat = agent.chat()

    async def main() -> str:
        return (await agent.run("Hi.", thread=chat)).thread_id

    assert asyncio.run(main()) == chat.thread_id
