"""Whom a persona may ask, which persona a turn has, and that it keeps it. The loop's own side is in `test_loop_personas.py`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import Persona
from loomnb.errors import DefinitionError, NotFound
from loomnb.testing import ScriptedModel, at_rest
from tests.agents.delegating import Asking, asked_tools, for_ever, heard
from tests.agents.journaling import kernel
from tests.agents.looping import deps, row_of, turn


@pytest.mark.case("agents:G06")
def test_an_agent_outside_the_personas_list_is_not_asked_and_the_result_says_so() -> None:
    hooks = Asking()
    persona = Persona(id="narrow", label="Narrow", allowed_tools=["look"])
    made = deps([[("ask_writer", {"task": "Write."})], "Well."], registry=asked_tools("writer"), personas=[persona])

    turn(made, hooks, persona="narrow")

    row = row_of(made, "ask_writer")
    assert (hooks.asked, row.status) == ([], "executed")
    assert "not available to the persona 'Narrow'" in row.output["text"]


def test_those_who_watch_hear_of_the_persona_of_a_run() -> None:
    with heard("run.started") as events:
        turn(deps(["Hi."], personas=[Persona(id="p", aliases=["pp"])]), persona="pp")

    assert [event["persona"] for event in events] == ["p"]


# -- which persona: the turn's, else the thread's, else the agent's ---------------------------------------------


def personas_of(session: loom.Loom, **more: Any) -> loom.Agent:
    three = [Persona(id=name, system_prompt=f"I am {name}.") for name in ("one", "two", "three")]
    return loom.Agent(ScriptedModel(lambda request, number: request.system), name="many", store=session, personas=three, **more)


def said_by(run: loom.AgentRun) -> str:
    at_rest(run)
    return str(run.result["text"])


def test_the_persona_of_an_agent_answers_where_none_is_named(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        agent = personas_of(session, default_persona="one")

        assert said_by(agent.run("Hi")) == "I am one."
        assert said_by(agent.run("Hi", persona="two")) == "I am two."


def test_the_persona_of_a_thread_stands_above_the_agents_and_below_the_turns(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        agent = personas_of(session, default_persona="one")
        chat = agent.chat()
        at_rest(chat.send("Hi"))
        chat.store.now(chat.store.update_thread(chat.thread_id, persona="two"))

        assert said_by(chat.send("Hi")) == "I am two."
        assert said_by(chat.send("Hi", persona="three")) == "I am three."


def test_a_default_persona_that_is_none_of_the_agents_is_refused(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session, pytest.raises(DefinitionError, match="none of its personas"):
        personas_of(session, default_persona="four")


def test_a_persona_that_nobody_has_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        agent = personas_of(session)

        with pytest.raises(NotFound, match="no persona 'four'"):
            agent.run("Hi", persona="four")
        assert len(agent.threads()) == 0


def test_a_persona_is_kept_over_a_restart_of_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    begun = threading.Event()

    def cells(session: loom.Loom, *, hangs: bool, says: str) -> loom.Agent:
        async def answers(request: Any, number: int) -> str:
            begun.set()
            if hangs:
                await for_ever()
            return str(request.system)

        personas = [Persona(id="p", system_prompt=says)]
        return loom.Agent(ScriptedModel(answers), name="kept", store=session, personas=personas)

    with kernel(path) as session:
        run_id = cells(session, hangs=True, says="Old.").run("Hi", persona="p").id
        assert begun.wait(20)
    with kernel(path) as session:
        cells(session, hangs=False, says="New.")
        again = session.run(run_id)
        at_rest(again)

        assert again.result["text"] == "Old."
