"""Personas: named variants of an agent. Cases G of agents.md, and which persona a turn has."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import Persona
from loomnb.errors import DefinitionError, NotFound
from loomnb.testing import ScriptedModel, at_rest
from tests.agents.delegating import Asking, asked_tools, heard, kernel
from tests.agents.looping import Journal, Suspended, deps, messages_of, row_of, tool, turn


def system_of(persona: Persona, **more: Any) -> str:
    """The system prompt of a turn as this persona."""
    model = ScriptedModel(["Hi."])
    turn(deps(model, personas=[persona], **more), persona=persona.id)
    return str(model.requests[0].system)


def about(ctx: Any) -> str:
    return f"You are {ctx.persona['label'] if ctx.persona else 'nobody'}."


@pytest.mark.case("agents:G01")
def test_a_builder_of_a_persona_is_given_the_agents_own_prompt_and_contributors_follow() -> None:
    pirate = Persona(id="pirate", label="Pirate", system_prompt=lambda ctx: f"{ctx.base_prompt}\n\nTalk like a pirate.")

    told = system_of(pirate, prompt_contributors=[lambda ctx: f"{ctx.persona['id']}/{ctx.persona['label']}"])

    assert told == "You help.\n\nTalk like a pirate.\n\npirate/Pirate"


@pytest.mark.case("agents:G02")
def test_a_flat_prompt_of_a_persona_replaces_the_agents_own() -> None:
    assert system_of(Persona(id="pirate", system_prompt="Arr.")) == "Arr."


@pytest.mark.case("agents:G03")
def test_the_agents_own_builder_sees_a_persona_without_a_prompt() -> None:
    assert system_of(Persona(id="pirate", label="Pirate"), system_prompt=about) == "You are Pirate."


@pytest.mark.case("agents:G04")
@pytest.mark.parametrize(
    ("allowed", "offered"), [(["beta", "gamma"], ["beta"]), (None, ["alpha", "beta"]), ([], [])], ids=["both", "agent", "none"]
)
def test_a_persona_is_offered_what_both_lists_allow(allowed: list[str] | None, offered: list[str]) -> None:
    model = ScriptedModel(["Hi."])
    tools = [tool(name) for name in ("alpha", "beta", "gamma")]

    turn(
        deps(model, *tools, tool_allow_list=["alpha", "beta"], personas=[Persona(id="p", allowed_tools=allowed)]), persona="p"
    )

    assert [told.name for told in model.requests[0].tools] == offered


@pytest.mark.case("agents:G05")
def test_a_tool_outside_the_personas_list_does_not_run() -> None:
    ran: list[str] = []
    forbidden = tool("look", lambda input, ctx: ran.append("look"))
    made = deps([[("look", {})], "Well."], forbidden, personas=[Persona(id="p", allowed_tools=["other"])])

    turn(made, persona="p")

    assert (ran, row_of(made, "look").status) == ([], "failed")


@pytest.mark.case("agents:G05")
def test_a_tool_on_the_personas_list_runs_and_knows_the_persona() -> None:
    allowed = tool("look", lambda input, ctx: ctx.persona)
    made = deps([[("look", {})], "Well."], allowed, personas=[Persona(id="p", aliases=["pp"], allowed_tools=["look"])])

    turn(made, persona="pp")

    assert row_of(made, "look").output == "p"


@pytest.mark.case("agents:G06")
def test_an_agent_outside_the_personas_list_is_not_asked_and_the_result_says_so() -> None:
    hooks = Asking()
    persona = Persona(id="narrow", label="Narrow", allowed_tools=["look"])
    made = deps([[("ask_writer", {"task": "Write."})], "Well."], registry=asked_tools("writer"), personas=[persona])

    turn(made, hooks, persona="narrow")

    row = row_of(made, "ask_writer")
    assert (hooks.asked, row.status) == ([], "executed")
    assert "not available to the persona 'Narrow'" in row.output["text"]


@pytest.mark.case("agents:G07")
@pytest.mark.parametrize(("named", "recorded"), [("p", "p"), (None, None), ("retired", None)], ids=["named", "none", "retired"])
def test_what_was_said_records_the_persona_it_was_said_as(named: str | None, recorded: str | None) -> None:
    model = ScriptedModel(["Hi."])
    made = deps(model, tool("look"), personas=[Persona(id="p", system_prompt="Arr.", allowed_tools=[])])

    turn(made, persona=named)

    assert [message.get("persona") for message in messages_of(made)] == [recorded, recorded]
    assert (model.requests[0].system, len(model.requests[0].tools)) == (("Arr.", 0) if recorded else ("You help.", 1))


@pytest.mark.case("agents:G08")
def test_a_persona_is_the_first_checkpoint_and_a_turn_without_one_spends_nothing() -> None:
    named, plain = Journal(), Journal()
    persona = Persona(id="p")

    turn(deps(["Hi."], personas=[persona]), named, persona="p")
    turn(deps(["Hi."], personas=[persona]), plain)

    assert named.names[0] == "persona:resolve"
    assert named.names[1:] == plain.names


@pytest.mark.case("agents:G09")
@pytest.mark.parametrize(
    "now", [[Persona(id="p", system_prompt="New.", allowed_tools=["gamma"])], []], ids=["rewritten", "removed"]
)
def test_a_run_that_is_resumed_keeps_the_prompt_and_the_tools_it_began_with(now: list[Persona]) -> None:
    model = ScriptedModel(["Hi."])
    tools = [tool("beta"), tool("gamma")]
    before = Persona(id="p", system_prompt="Old.", allowed_tools=["beta"])
    hooks = Journal(suspends={"llm:0"})
    made = deps(model, *tools, personas=[before])
    with pytest.raises(Suspended):
        turn(made, hooks, persona="p")

    turn(deps(model, *tools, personas=now, store=made.store), hooks.again(), persona="p")

    (request,) = model.requests
    assert (request.system, [told.name for told in request.tools]) == ("Old.", ["beta"])


def test_those_who_watch_hear_of_the_persona_of_a_run() -> None:
    with heard("run.started") as events:
        turn(deps(["Hi."], personas=[Persona(id="p", aliases=["pp"])]), persona="pp")

    assert [event["persona"] for event in events] == ["p"]


# -- which persona: the turn's, else the thread's, else the agent's ---------------------------------------------


def personas_of(session: loom.Loom, **more: Any) -> loom.Agent:
    three = [Persona(id=name, system_prompt=f"I am {name}.") for name in ("one", "two", "three")]
    return loom.Agent(
        ScriptedModel(lambda request, number: request.system), name="many", store=session, personas=three, **more
    )


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
                await asyncio.Event().wait()
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
