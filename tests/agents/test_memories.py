"""Memories: what is remembered for whom, what the prompt says, and what the tool keeps. contracts/agents.md §1.14."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import Actor, InMemoryMemories, JournalMemories, Memories, Memory, MemoryForbidden
from loomnb.errors import DefinitionError, NotFound, Refused
from loomnb.testing import ScriptedModel, at_rest
from tests.agents.delegating import heard
from tests.agents.journaling import kernel
from tests.agents.looping import ANN, Journal, Suspended, deps, row_of, turn
from tests.helpers import plain_id

KEEPS = [[("remember", {"key": "unit", "fact": "Counts in dozens."})], "Noted."]


def mine(key: str, fact: str = "-", **more: Any) -> Memory:
    return Memory(key=key, fact=fact, scope="actor:ann", **more)


def requests_of(made: Any) -> Any:
    return made.model.requests


def system_of(made: Any, text: str = "Hello", **more: Any) -> str:
    turn(made, None, text, **more)
    return str(requests_of(made)[0].system)


def lines_of(made: Any, text: str = "Hello") -> list[str]:
    """The facts in the prompt, in order."""
    return [line for line in system_of(made, text).split("\n") if line.startswith("- ")]


def remembering(says: Any, *memories: Memory, **more: Any) -> Any:
    return deps(says, memory=Memories(provider=InMemoryMemories(memories), **more))


# -- the digest ---------------------------------------------------------------------------------------------


def test_the_prompt_tells_what_is_remembered_as_data() -> None:
    system = system_of(remembering(["Hi."], mine("unit", 'Says "dozen"\nalways.')))

    assert '- "unit": "Says \\"dozen\\"\\nalways."' in system
    assert "no instructions" in system


def test_nothing_is_said_where_nothing_is_remembered() -> None:
    assert system_of(remembering(["Hi."])) == "You help."


def test_pinned_ones_stand_first_and_then_the_newest() -> None:
    made = remembering(["Hi."], mine("old"), mine("pinned", pinned=True), mine("new"))

    assert [line.split('"')[1] for line in lines_of(made)] == ["pinned", "new", "old"]


def test_a_narrower_one_of_the_same_key_counts_and_says_what_it_overrides() -> None:
    hooks = Journal()
    made = remembering(["Hi."], mine("unit", "Mine."), Memory(key="unit", fact="Everybody's.", scope="global"))

    turn(made, hooks)

    ((_, digest),) = [record for record in hooks.records if record[0] == "memory:digest"]
    told = '{"key": "unit", "fact": "Mine.", "scope": "actor:ann", "overrides": ["global"]}'
    assert told in digest
    assert "Everybody" not in requests_of(made)[0].system


def test_what_is_of_somebody_else_is_dropped() -> None:
    assert system_of(remembering(["Hi."], Memory(key="k", fact="Bob's.", scope="actor:bob"))) == "You help."


def test_of_too_many_the_last_are_left_out() -> None:
    made = remembering(["Hi."], *[mine(f"k{n:02}") for n in range(25)])

    keys = [line.split('"')[1] for line in lines_of(made)]
    assert (len(keys), keys[0], keys[-1]) == (20, "k24", "k05")


class Searching(InMemoryMemories):
    """Finds the memories in whose facts a word of the question stands."""

    def search(self, query: str, scopes: Any, limit: int) -> list[Memory]:
        return [m for m in self.list(scopes) if any(word in m.fact for word in query.split())][:limit]


def test_what_a_search_finds_for_the_question_stands_before_the_rest() -> None:
    provider = Searching([mine("ship", "The ship is blue."), mine("tea", "Green."), mine("pin", "-", pinned=True)])
    made = deps(["Hi."], memory=Memories(provider=provider, max_memories=2))

    assert [line.split('"')[1] for line in lines_of(made, "Which ship")] == ["pin", "ship"]


def test_those_who_watch_hear_how_much_is_remembered() -> None:
    provider = Searching([mine("ship", "A ship."), *[mine(f"p{n}", pinned=True) for n in range(2)]])
    with heard("memory.resolved") as events:
        system_of(deps(["Hi."], memory=Memories(provider=provider, max_memories=1)), "ship")

    (event,) = events
    counts = {name: event[name] for name in ("offered", "omitted", "pinnedOmitted", "recalled", "scopes")}
    assert counts == {"offered": 1, "omitted": 2, "pinnedOmitted": 1, "recalled": 0, "scopes": ["actor:ann", "global"]}


def test_a_replay_takes_what_was_remembered_when_the_run_began() -> None:
    provider = InMemoryMemories([mine("unit", "Old.")])
    hooks = Journal(suspends={"llm:0"})
    made = deps(["Hi."], memory=provider)
    with pytest.raises(Suspended):
        turn(made, hooks)
    provider.write(mine("unit", "New."))

    turn(made, hooks.again())

    assert "Old." in requests_of(made)[0].system


# -- the tool -----------------------------------------------------------------------------------------------


def test_a_fact_is_kept_for_the_person_and_recorded_as_a_read() -> None:
    provider = InMemoryMemories()
    made = deps(KEEPS, memory=provider)

    turn(made, actor=Actor(id="ann", tenant_ref="acme"))

    row = row_of(made, "remember")
    (kept,) = provider.list(["actor:ann"])
    assert (kept.key, kept.fact, kept.pinned) == ("unit", "Counts in dozens.", False)
    assert (row.status, row.tool_type, row.output["scope"]) == ("executed", "read", "actor:ann")


def test_a_fact_of_the_same_key_is_replaced() -> None:
    provider = InMemoryMemories([mine("unit", "Old."), mine("other", "-")])

    turn(deps(KEEPS, memory=provider))

    assert {m.key: m.fact for m in provider.list(["actor:ann"])} == {"unit": "Counts in dozens.", "other": "-"}


@pytest.mark.parametrize(
    "given",
    [
        {"key": "k", "fact": "x" * 241},
        {"key": "k"},
        {"key": " ", "fact": "f"},
        {"key": "k", "fact": "  "},
        {"key": "k" * 81, "fact": "f"},
        {"key": "k", "fact": "f", "pinned": True},
        {"key": "k", "fact": "f", "scope": "global"},
    ],
    ids=["too long", "no fact", "blank key", "blank fact", "long key", "pinned", "wider scope"],
)
def test_what_cannot_be_kept_is_a_failure_of_the_call_and_nothing_is_kept(given: dict[str, Any]) -> None:
    provider = InMemoryMemories()
    made = deps([[("remember", given)], "Well."], memory=provider)

    result = turn(made)

    assert (result.text, row_of(made, "remember").status) == ("Well.", "failed")
    assert provider.list(["actor:ann", "global"]) == []


def test_the_tool_is_not_offered_where_nothing_can_be_written() -> None:
    class ReadOnly:
        def list(self, scopes: Any) -> Any:
            return [mine("unit", "Dozens.")]

        def forget(self, scope: str, key: str) -> bool:
            return False

    made = deps(["Hi."], memory=ReadOnly())

    assert "Dozens." in system_of(made)
    assert requests_of(made)[0].tools == []


def test_those_who_watch_hear_that_something_was_kept_and_not_what() -> None:
    with heard("memory.written") as events:
        turn(deps(KEEPS, memory=InMemoryMemories()))

    assert events == [{"runId": "run-1", "scope": "actor:ann", "chars": len("Counts in dozens.")}]


# -- forgetting ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["unit", "actor:ann/unit"], ids=plain_id)
def test_ones_own_can_be_forgotten_by_key_or_id(named: str) -> None:
    provider = InMemoryMemories([mine("unit")])

    asyncio.run(Memories(provider=provider).forget(ANN, named))

    assert provider.list(["actor:ann"]) == []


@pytest.mark.parametrize("named", ["unknown", "actor:bob/unit"], ids=plain_id)
def test_what_one_cannot_see_is_not_there(named: str) -> None:
    provider = InMemoryMemories([Memory(key="unit", fact="-", scope="actor:bob")])

    with pytest.raises(NotFound):
        asyncio.run(Memories(provider=provider).forget(ANN, named))
    assert len(provider.list(["actor:bob"])) == 1


def test_what_stands_for_others_too_is_not_forgotten() -> None:
    provider = InMemoryMemories([Memory(key="unit", fact="-", scope="global")])

    with pytest.raises(MemoryForbidden, match="global"):
        asyncio.run(Memories(provider=provider).forget(ANN, "unit"))
    assert len(provider.list(["global"])) == 1


# -- in the store ------------------------------------------------------------------------------------------------


def clerk(session: loom.Loom, says: Any, **more: Any) -> loom.Agent:
    options: Any = {"memory": True, **more}
    return loom.Agent(ScriptedModel(says), name="clerk", store=session, **options)


def test_an_agent_remembers_over_conversations_and_kernels(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with kernel(path) as session:
        at_rest(clerk(session, KEEPS).run("Dozens, please"))
    with kernel(path) as session:
        agent = clerk(session, ["Hi."])
        at_rest(agent.run("Hello"))
        model: Any = agent.model

        assert "Counts in dozens." in model.requests[0].system


def test_what_is_remembered_is_a_view_that_sql_can_ask(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        at_rest(clerk(session, KEEPS).run("Dozens, please"))

        rows = session.sql("select scope, key, fact, pinned from memories").fetchall()
        assert rows == [("actor:local", "unit", "Counts in dozens.", False)]


def test_what_was_forgotten_is_not_remembered_in_the_next_turn(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        agent = clerk(session, KEEPS)
        at_rest(agent.run("Dozens, please"))
        assert [m.key for m in asyncio.run(agent.memories())] == ["unit"]

        asyncio.run(agent.forget("unit"))

        assert asyncio.run(agent.memories()) == []
        assert session.sql("select count(*) from memories").fetchall() == [(0,)]


def test_what_somebody_else_remembers_is_theirs(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        at_rest(clerk(session, KEEPS, actor="bob").run("Dozens, please"))

        assert asyncio.run(clerk(session, KEEPS, actor="ann").memories()) == []


def test_a_person_may_write_and_pin_for_everybody(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        JournalMemories(session.runtime.database).write(Memory(key="tone", fact="Be kind.", scope="global", pinned=True))
        agent = clerk(session, ["Hi."])

        (kept,) = asyncio.run(agent.memories())
        assert (kept.id, kept.pinned) == ("global/tone", True)
        with pytest.raises(MemoryForbidden):
            asyncio.run(agent.forget("tone"))


def test_a_fact_that_is_forgotten_twice_was_there_once(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        memories = JournalMemories(session.runtime.database)
        memories.write(mine("unit"))

        assert (memories.forget("actor:ann", "unit"), memories.forget("actor:ann", "unit")) == (True, False)


def test_an_agent_without_a_memory_says_so(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session, pytest.raises(Refused, match="remembers nothing"):
        asyncio.run(clerk(session, ["Hi."], memory=False).memories())


def test_what_keeps_no_memories_is_refused(tmp_path: Path) -> None:
    given: Any = []
    with kernel(tmp_path / "s.duckdb") as session, pytest.raises(DefinitionError, match="keeps no memories"):
        clerk(session, ["Hi."], memory=given)
