"""Named variants of an agent, in a turn: contracts/agents.md §1.4 (Personas)."""

from __future__ import annotations

from typing import Any

import pytest

from loomnb.agents.spi import Persona
from loomnb.testing import ScriptedModel
from tests.agents.looping import Hooks, Journal, Suspended, deps, messages_of, row_of, said, tool, turn
from tests.helpers import plain_id


def with_persona(*more: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(lambda request, n: "Hi.")
    persona = Persona(**{"id": "poet", "label": "The poet", **options})
    return deps(model, tool("alpha"), tool("beta"), tool("gamma"), personas=[persona]), model


@pytest.mark.case("agents:G01")
def test_a_builder_is_given_the_base_and_contributors_follow_it() -> None:
    seen: list[Any] = []
    made, model = with_persona(system_prompt=lambda ctx: f"{ctx.base_prompt}\n\nIn verse, {ctx.persona['label']}.")
    made.prompt_contributors = [lambda ctx: seen.append(ctx.persona) or "Be short."]
    turn(made, persona="poet")

    assert model.requests[0].system == "You help.\n\nIn verse, The poet.\n\nBe short."
    assert seen == [{"id": "poet", "label": "The poet"}]


@pytest.mark.case("agents:G02")
def test_a_flat_prompt_replaces_the_base() -> None:
    made, model = with_persona(system_prompt="Verse only.")
    turn(made, persona="poet")

    assert model.requests[0].system == "Verse only."


@pytest.mark.case("agents:G03")
def test_without_a_prompt_of_its_own_the_base_is_told_who_it_is() -> None:
    made, model = with_persona()
    made.system_prompt = lambda ctx: f"You are {ctx.persona['label']}."
    turn(made, persona="poet")

    assert model.requests[0].system == "You are The poet."


@pytest.mark.case("agents:G04")
@pytest.mark.parametrize(
    ("agent", "persona", "offered"),
    [
        (["alpha", "beta"], ["beta", "gamma"], ["beta"]),
        (["alpha", "beta"], None, ["alpha", "beta"]),
        (None, ["beta", "gamma"], ["beta", "gamma"]),
        (None, [], []),
    ],
    ids=plain_id,
)
def test_both_lists_of_tools_count(agent: Any, persona: Any, offered: list[str]) -> None:
    made, model = with_persona(allowed_tools=persona)
    made.tool_allow_list = agent
    turn(made, persona="poet")

    assert [t.name for t in model.requests[0].tools] == offered


@pytest.mark.case("agents:G05")
@pytest.mark.parametrize("kind", ["read", "action"], ids=plain_id)
def test_a_tool_outside_the_personas_list_does_not_run(kind: Any) -> None:
    ran: list[Any] = []
    contexts: list[Any] = []
    made = deps(
        [said("", ("alpha", {}), ("beta", {})), "Done."],
        tool("alpha", lambda i, c: ran.append(1), kind=kind),
        tool("beta", lambda i, c: contexts.append(c.persona)),
        personas=[Persona(id="poet", allowed_tools=["beta"])],
    )
    turn(made, Hooks(decide=lambda call: pytest.fail("asked")), persona="poet")

    assert ran == []
    assert row_of(made, "alpha").status == "failed"
    assert contexts == ["poet"]
    assert row_of(made, "beta").status == "executed"


@pytest.mark.case("agents:G07")
@pytest.mark.parametrize(("named", "recorded"), [("poet", "poet"), (None, None), ("retired", None)], ids=plain_id)
def test_messages_record_the_persona_that_there_was(named: str | None, recorded: str | None) -> None:
    made, model = with_persona(system_prompt="Verse only.", allowed_tools=["beta"])
    turn(made, persona=named)

    assert [m.get("persona") for m in messages_of(made)] == [recorded, recorded]
    if recorded is None:
        assert model.requests[0].system == "You help."
        assert len(model.requests[0].tools) == 3


def test_an_alias_names_the_persona_itself() -> None:
    made, _ = with_persona(aliases=["bard"])
    turn(made, persona="bard")

    assert messages_of(made)[0]["persona"] == "poet"


@pytest.mark.case("agents:G08")
@pytest.mark.parametrize("named", ["poet", None], ids=plain_id)
def test_only_a_turn_that_names_one_looks_for_it_and_first(named: str | None) -> None:
    journal = Journal()
    made, _ = with_persona()
    turn(made, journal, persona=named)

    assert (journal.names[0] == "persona:resolve") is (named is not None)
    assert journal.names.count("persona:resolve") == (1 if named else 0)


@pytest.mark.case("agents:G09")
@pytest.mark.parametrize("change", ["rewritten", "removed"], ids=plain_id)
def test_a_run_that_waited_keeps_the_prompt_and_the_tools_it_began_with(change: str) -> None:
    model = ScriptedModel([[("send", {})], "Done."])
    made = deps(
        model,
        tool("send", kind="action"),
        tool("other"),
        personas=[Persona(id="poet", system_prompt="Verse only.", allowed_tools=["send"])],
    )
    first = Journal(suspends={"tool:run-1:call-0-send"})
    with pytest.raises(Suspended):
        turn(made, first, persona="poet")
    made.personas = [Persona(id="poet", system_prompt="Prose.", allowed_tools=["other"])] if change == "rewritten" else []

    turn(made, first.again(), persona="poet")

    assert model.requests[1].system == "Verse only."
    assert [t.name for t in model.requests[1].tools] == ["send"]
    assert [m["persona"] for m in messages_of(made)] == ["poet"] * 3
    assert row_of(made, "send").status == "executed"


def test_processors_are_told_the_persona_also_after_a_restart() -> None:
    seen: list[Any] = []

    class Sees:
        name = "sees"

        def process(self, prompt: Any, ctx: Any) -> Any:
            seen.append(ctx.persona)
            return prompt

    made, _ = with_persona()
    made.input_processors = [Sees()]
    first = Journal(suspends={"process:input:0"})
    with pytest.raises(Suspended):
        turn(made, first, persona="poet")
    turn(made, first.again(), persona="poet")

    assert seen == ["poet"]
