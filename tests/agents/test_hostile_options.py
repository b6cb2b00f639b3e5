"""What no option of an agent may be: refused in our own words, before anything is written."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import Memories, Skills, ToolRegistry, agent_tool, create_functional_tool
from loomnb.testing import ScriptedModel
from tests.helpers import plain_id

HALF = "half \ud800 a pair"
NUMBERS = itertools.count()


class Thing:
    """Nothing of use."""

    def __repr__(self) -> str:
        return "<thing>"


ANYTHING: list[Any] = [5, -1, float("nan"), True, b"bytes", Thing(), [5], {5: 5}, (1, 2), len, {HALF: 1}, [HALF]]
"""None of these is a text, and none a mapping of texts."""

WORDS = [*ANYTHING, HALF]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[loom.Loom]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    with loom.Loom(str(folder / "a.duckdb"), headless=True) as session:
        yield session


def rows(home: loom.Loom) -> Any:
    return home.sql("select count(*) from journal").fetchall()


def made(home: loom.Loom, **options: Any) -> loom.Agent:
    model = options.pop("model", None) or ScriptedModel(["Hello."] * 3)
    return loom.Agent(model, store=home, **{"name": f"agent_{next(NUMBERS)}", **options})


def pairs(values: dict[str, list[Any]]) -> list[Any]:
    return [pytest.param(what, one, id=f"{what}-{plain_id(one)}") for what, given in values.items() for one in given]


NO_MAPPING = [5, True, "text", HALF, b"bytes", Thing(), [5], (1, 2), len, {5: 5}, {HALF: 1}]
NO_LIST = [5, True, None, "text", HALF, b"bytes", Thing(), len, {"a": 5}]

OF_AGENT: dict[str, list[Any]] = {
    "name": [*WORDS, None, "", "  "],
    "title": WORDS,
    "description": WORDS,
    "instructions": [one for one in WORDS if one is not len],
    "actor": [*WORDS, None, "", loom.Actor(id=HALF), loom.Actor(id=5), loom.Actor(id="a", roles="admin")],  # type: ignore[arg-type]
    "model": [one for one in WORDS if one != 0],
    "models": [*NO_MAPPING, {"a": 5}],
    "settings": NO_MAPPING,
    "approvals": [*NO_MAPPING, {"a": 5}],
    "tool_timeouts": [*NO_MAPPING, {"a": "5"}],
    "tools": [*NO_LIST, [5], [None], [HALF]],
    "personas": [*NO_LIST, [5], [loom.Persona(id=HALF)], [loom.Persona(id="a", aliases="b")]],
    "input_processors": [*NO_LIST, [5]],
    "output_processors": [*NO_LIST, [5]],
    "agents": [*NO_LIST, [5], [None], [HALF]],
    "detached": [*NO_LIST, [5], [None], [HALF]],
    "history": ANYTHING,
    "quota": WORDS,
    "retriever": WORDS,
    "roles_policy": WORDS,
    "intake": WORDS,
    "skills": [*ANYTHING, HALF],
    "memory": [one for one in WORDS if one is not True],
    "budget": WORDS,
    "default_persona": WORDS,
    "ask": [one for one in WORDS if one is not True] + [None],
    "output": [5, "text", HALF, Thing(), [5], len, {5: 5}],
    "max_steps": ["5", 0, True, None, 1.5, HALF],
    "repeat_guard": ["5", 0, True, 1.5],
    "follow_ups": ["5", -1, True, None, 1.5],
    "output_repairs": ["5", -1, True, None],
    "max_delegation_depth": ["5", -1, True, None],
    "max_agent_appearances": ["5", 0, True, None],
    "tool_timeout": ["5", 0, True, float("nan"), Thing()],
    "approval_ttl": ["5", 0, True, float("nan"), Thing()],
}


@pytest.mark.parametrize(("option", "value"), pairs(OF_AGENT))
def test_an_option_of_an_agent_is_refused_in_our_words(home: loom.Loom, option: str, value: Any) -> None:
    before = rows(home)

    with pytest.raises(loom.LoomError) as caught:
        made(home, **{option: value})

    assert caught.value.code
    assert rows(home) == before


def test_the_store_of_an_agent_is_one() -> None:
    with pytest.raises(loom.DefinitionError):
        loom.Agent(ScriptedModel([]), store=5)  # type: ignore[arg-type]


OF_RUN: dict[str, list[Any]] = {
    "text": [*WORDS, None, "", "  "],
    "thread": [*WORDS, "", "nowhere"],
    "attachments": [5, True, "a.txt", HALF, b"bytes", Thing(), [5], {"a": 5}, [{"mediaType": "text/plain", "data": HALF}]],
    "model": [*WORDS, ""],
    "persona": [*WORDS, "", "nobody"],
    "key": WORDS,
    "title": WORDS,
    "labels": [5, "text", HALF, [5], [HALF], None],
    "durability": [*WORDS, "text"],
    "loop": [*WORDS, None, "text", "kernel"],
    "fresh": [one for one in WORDS if one is not True],
}


@pytest.mark.parametrize(("option", "value"), pairs(OF_RUN))
def test_a_turn_is_refused_in_our_words_and_no_row_is_written(home: loom.Loom, option: str, value: Any) -> None:
    agent, before = made(home), rows(home)

    with pytest.raises(loom.LoomError) as caught:
        agent.run(**{"text": "Hello.", option: value})

    assert caught.value.code
    assert rows(home) == before


@pytest.mark.parametrize("text", [*WORDS, None, ""], ids=plain_id)
def test_what_is_no_text_is_not_said_in_a_conversation(home: loom.Loom, text: Any) -> None:
    chat, before = made(home).chat(), rows(home)

    with pytest.raises(loom.Refused):
        chat.send(text)

    assert rows(home) == before


OF_THREADS: dict[str, list[Any]] = {
    "search": WORDS,
    "limit": ["x", None, True, -1, 1.5, 10**400, Thing()],
}


@pytest.mark.parametrize(("option", "value"), pairs(OF_THREADS))
def test_a_search_that_is_none_is_refused(home: loom.Loom, option: str, value: Any) -> None:
    with pytest.raises(loom.Refused):
        made(home).threads(**{option: value})


@pytest.mark.parametrize("thread", [*WORDS, ""], ids=plain_id)
def test_a_thread_that_is_none_is_refused(home: loom.Loom, thread: Any) -> None:
    agent, before = made(home), rows(home)
    for ask in (agent.chat, agent.regenerate, agent.chat().show):
        with pytest.raises(loom.Refused):
            ask(thread)
    assert rows(home) == before


@pytest.fixture(scope="module")
def chat(home: loom.Loom) -> Any:
    chat = made(home).chat()

    async def said() -> None:
        await chat.send("Hello.")

    asyncio.run(said())
    return chat


@pytest.mark.parametrize("value", WORDS, ids=plain_id)
def test_a_conversation_is_not_changed_by_what_is_no_text(home: loom.Loom, chat: Any, value: Any) -> None:
    asked, before = chat.messages[0].id, rows(home)
    for act in (
        lambda: chat.rename(value),
        lambda: chat.edit(asked, value),
        lambda: chat.edit(value, "Hi."),
        lambda: chat.fork(value),
        lambda: chat.feedback(value, "up"),
        lambda: chat.feedback(asked, value),
    ):
        with pytest.raises(loom.Refused):
            act()
    assert rows(home) == before
    assert len(chat.messages) == 2


OF_SPEC: dict[str, list[Any]] = {
    "name": [*WORDS, None, ""],
    "description": WORDS,
    "kind": [*WORDS, None, ""],
    "presentation": [5, True, "text", [5], {5: 5}, {"label": HALF}, {"label": Thing()}],
    "roles": [5, True, "admin", [5], [HALF], {"a": 1}],
    "ability": WORDS,
    "enabled": [5, "yes", None, [5]],
    "target_agent": WORDS,
    "detached": [5, "yes", None],
    "terminal": [5, "yes", None],
    "replacement_key": [one for one in WORDS if one is not len],
    "input_schema": [5, [5], {5: 5}, {"type": "nonsense"}],
}


@pytest.mark.parametrize(("option", "value"), pairs(OF_SPEC))
def test_a_tool_is_refused_in_our_words(option: str, value: Any) -> None:
    class Handler:
        def execute(self, input: Any, ctx: Any) -> Any: ...  # noqa: A002

    fields: dict[str, Any] = {"name": "add", "description": "Adds.", option: value}
    with pytest.raises(loom.DefinitionError):
        ToolRegistry().register(loom.ToolSpec(**fields), Handler())


@pytest.mark.parametrize("spec", [5, None, "add", Thing()], ids=plain_id)
def test_what_declares_no_tool_is_refused(spec: Any) -> None:
    with pytest.raises(loom.DefinitionError):
        ToolRegistry().register(spec, Thing())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value"), [*pairs({k: [one for one in v if one is not None] for k, v in OF_SPEC.items() if k != "input_schema"})]
)
def test_an_agent_refuses_a_functional_tool_in_our_words(home: loom.Loom, option: str, value: Any) -> None:
    def execute(given: Any, ctx: Any) -> Any:
        return given

    with pytest.raises(loom.DefinitionError):
        made(home, tools=[create_functional_tool(**{"name": "add", "description": "Adds.", "execute": execute, option: value})])


@pytest.mark.parametrize("prices", [5, None, "x", [5], {"m": 5}, {5: (1, 2)}, {HALF: (1, 2)}, {"m": ("1", 2)}], ids=plain_id)
def test_prices_that_are_none_are_refused(home: loom.Loom, prices: Any) -> None:
    before = rows(home)

    with pytest.raises(loom.InvalidRequest):
        home.set_model_prices(prices)

    assert rows(home) == before


def test_a_plain_tool_is_still_one(home: loom.Loom) -> None:
    @agent_tool(kind="action", presentation={"label": "Add"}, roles=["admin"])
    def add(a: int) -> int:
        """Adds."""
        return a

    assert [one.name for one in made(home, tools=[add]).tools] == ["add"]


HUGE = 10**400
NO_AMOUNT = ["x", -1, float("nan"), True, HUGE, Thing()]
PARTS: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "Budget.usd": (lambda value: loom.Budget(usd=value), NO_AMOUNT),
    "Budget.tokens": (lambda value: loom.Budget(tokens=value), NO_AMOUNT),
    "TransientRetry.attempts": (lambda value: loom.TransientRetry(attempts=value), ["x", 0, 1.5, True, Thing()]),
    "TransientRetry.backoff_ms": (lambda value: loom.TransientRetry(backoff_ms=value), [*NO_AMOUNT, float("inf")]),
    "Memories.max_memories": (lambda value: Memories(provider=loom.InMemoryMemories(), max_memories=value), ["x", 0, 1.5, True]),
    "Skills.max_skills": (lambda value: Skills(provider=loom.InMemorySkills([]), max_skills=value), ["x", 0, 1.5, True]),
    "DefaultRolesPolicy": (loom.DefaultRolesPolicy, [5, "admin", Thing(), [5], [HALF]]),
    "ClosedRolesPolicy": (loom.ClosedRolesPolicy, [5, "admin", Thing(), [5], [HALF]]),
    "InMemoryPricingStore": (loom.InMemoryPricingStore, [5, Thing(), [5], "x"]),
    "ApprovalRules": (loom.ApprovalRules, [5, "ask", ["ask"], Thing()]),
    "ApprovalRules.ttl_ms": (lambda value: loom.ApprovalRules({}, ttl_ms=value), NO_AMOUNT),
    "DefaultApprovalPolicy.ttl_ms": (lambda value: loom.DefaultApprovalPolicy(ttl_ms=value), NO_AMOUNT),
}


@pytest.mark.parametrize(
    ("make", "value"),
    [pytest.param(make, one, id=f"{name}-{plain_id(one)[:20]}") for name, (make, values) in PARTS.items() for one in values],
)
def test_a_part_of_an_agent_refuses_what_it_cannot_be(make: Callable[[Any], object], value: Any) -> None:
    with pytest.raises(loom.LoomError):
        make(value)
