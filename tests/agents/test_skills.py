"""Skills: what is offered for whom, what the prompt says, and what the tool gives. contracts/agents.md §1.14."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import Actor, FolderSkills, InMemorySkills, Skill, SkillFileInvalid, Skills
from loomnb.errors import DefinitionError, NotFound
from loomnb.testing import ScriptedModel, at_rest
from tests.agents.delegating import heard
from tests.agents.journaling import kernel
from tests.agents.looping import ANN, Hooks, Journal, Suspended, deps, row_of, said, tool, turn, with_parallel
from tests.helpers import plain_id

REFUNDS = Skill(name="refunds", description="How to pay back.", body="Pay it back.")
READS = [[("skill", {"name": "refunds"})], "Done."]
ACME = Actor(id="ann", tenant_ref="acme")


def with_skills(says: Any, *skills: Skill, **more: Any) -> Any:
    return deps(says, skills=InMemorySkills(skills), **more)


def requests_of(made: Any) -> Any:
    return made.model.requests


def system_of(made: Any, **more: Any) -> str:
    turn(made, **more)
    return str(requests_of(made)[0].system)


# -- the catalog -----------------------------------------------------------------------------------------


def test_the_prompt_lists_the_skills_and_not_what_they_say() -> None:
    system = system_of(with_skills(["Hi."], REFUNDS))

    assert "- refunds: How to pay back." in system
    assert "Pay it back." not in system


def test_the_list_stands_at_the_end_of_the_prompt() -> None:
    system = system_of(with_skills(["Hi."], REFUNDS, prompt_contributors=[lambda ctx: "Be brief."]))

    assert system.index("You help.") < system.index("Be brief.") < system.index("refunds")


def test_without_skills_there_is_no_list_and_no_tool() -> None:
    made = with_skills(["Hi."])

    assert system_of(made) == "You help."
    assert requests_of(made)[0].tools == []


@pytest.mark.parametrize(
    ("actor", "scope"),
    [(ANN, "actor:ann"), (Actor(id="bob", tenant_ref="acme"), "tenant:acme"), (Actor(id="bob"), "global")],
    ids=["own", "tenant", "global"],
)
def test_of_one_name_the_narrowest_counts(actor: Actor, scope: str) -> None:
    scopes = ["global", "tenant:acme", "actor:ann"]
    made = with_skills(READS, *[Skill(name="refunds", description="-", body=one, scope=one) for one in scopes])

    turn(made, actor=actor)

    assert row_of(made, "skill").output["body"] == scope


def test_a_skill_says_which_others_it_stands_above() -> None:
    scopes = ["global", "tenant:acme", "actor:ann"]
    made = with_skills(READS, *[Skill(name="refunds", body=one, scope=one) for one in scopes])

    turn(made, actor=ACME)

    output = {"name": "refunds", "scope": "actor:ann", "body": "actor:ann", "shadows": ["tenant:acme", "global"]}
    assert row_of(made, "skill").output == output


def test_what_is_of_somebody_else_is_dropped_though_the_provider_gives_it() -> None:
    class Careless:
        def list(self, scopes: Any) -> Any:
            return [Skill(name="secret", description="-", scope="actor:bob")]

        def load(self, name: str, scope: str) -> str:
            raise AssertionError("It was loaded.")

    made = deps([[("skill", {"name": "secret"})], "Done."], skills=Careless())

    assert "secret" not in system_of(made)
    assert row_of(made, "skill").status == "failed"


def test_of_too_many_those_for_the_widest_scope_are_left_out() -> None:
    many = [Skill(name=f"g{n:02}", description="-") for n in range(20)]
    mine = Skill(name="mine", description="-", scope="actor:ann")

    system = system_of(with_skills(["Hi."], *many, mine))

    assert "- mine" in system
    assert "- g18" in system
    assert "- g19" not in system


def test_those_who_watch_hear_how_many_were_offered_and_left_out() -> None:
    skills = Skills(provider=InMemorySkills([REFUNDS, Skill(name="other", description="-")]), max_skills=1)
    with heard("skills.resolved") as events:
        system = system_of(deps(["Hi."], skills=skills))

    chars = len(system) - len("You help.\n\n")
    told = {"runId": "run-1", "scopes": ["actor:ann", "global"], "offered": 1, "omitted": 1, "promptChars": chars}
    assert events == [told]


# -- the tool ---------------------------------------------------------------------------------------------


def test_the_tool_gives_the_body_as_a_read_that_was_executed() -> None:
    made = with_skills(READS, REFUNDS)

    turn(made)

    row = row_of(made, "skill")
    assert (row.status, row.tool_type) == ("executed", "read")
    assert row.output == {"name": "refunds", "scope": "global", "body": "Pay it back."}


@pytest.mark.parametrize("given", [{"name": "unknown"}, {}, {"name": 3}, {"name": "refunds", "x": 1}], ids=plain_id)
def test_what_was_not_offered_is_a_failure_of_the_call(given: dict[str, Any]) -> None:
    made = with_skills([[("skill", given)], "Done."], REFUNDS)

    result = turn(made)

    assert (result.text, row_of(made, "skill").status) == ("Done.", "failed")


def test_a_tool_of_an_author_with_this_name_is_not_run_in_its_place() -> None:
    ran: list[Any] = []
    theirs = tool("skill", lambda *given: ran.append(given))
    made = deps(READS, theirs, skills=InMemorySkills([REFUNDS]))

    turn(made)

    assert (ran, row_of(made, "skill").output["body"]) == ([], "Pay it back.")


def test_a_replay_takes_the_catalog_and_the_bodies_from_the_record() -> None:
    hooks = Journal(suspends={"llm:1"})
    made = with_skills(READS, REFUNDS)
    with pytest.raises(Suspended):
        turn(made, hooks)
    model = ScriptedModel(["-", "Done."])
    changed = deps(model, skills=InMemorySkills([Skill(name="new", description="-")]), store=made.store)

    result = turn(changed, hooks.again())

    assert result.text == "Done."
    told = model.requests[0]
    assert "refunds" in told.system
    assert told.messages[-1]["toolResults"][0]["output"]["body"] == "Pay it back."


def test_skills_are_read_side_by_side_with_other_reads() -> None:
    calls = said("", ("skill", {"name": "refunds"}), ("look", {}))
    hooks = with_parallel(Hooks())

    turn(deps([calls, "Done."], tool("look"), skills=InMemorySkills([REFUNDS])), hooks)

    of_calls = [name.removesuffix("call-skill").removesuffix("call-look") for name in hooks.names if "call-" in name]
    assert of_calls == ["persist:toolcall:"] * 2 + ["tool:"] * 2 + ["persist:toolexec:"] * 2


# -- files ------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_folder_of_markdown_files_holds_skills(tmp_path: Path) -> None:
    write(tmp_path / "refunds.md", "---\ndescription: How to\n  pay back.\n---\n# Refunds\n\nPay it back.\n")
    write(tmp_path / "letters" / "SKILL.md", "---\nname: letter\ndescription: Letters.\nscope: tenant:acme\n---\nDear…")
    write(tmp_path / "notes.txt", "no skill")
    folder = FolderSkills(tmp_path)

    assert [(s.name, s.description, s.scope) for s in folder.list(["global", "tenant:acme"])] == [
        ("letter", "Letters.", "tenant:acme"),
        ("refunds", "How to pay back.", "global"),
    ]
    assert folder.load("refunds", "global") == "# Refunds\n\nPay it back."
    assert folder.load("refunds", "tenant:acme") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Pay it back.", "front matter"),
        ("---\nname: x\n---\nBody", "description"),
        ("---\ndescription: [a]\n---\nBody", "description is no text"),
        ("---\ndescription: a: b: c\n---\nBody", "cannot be read"),
        ("---\n- a\n---\nBody", "front matter"),
    ],
    ids=["no front matter", "no description", "a list", "no yaml", "no fields"],
)
def test_a_file_that_is_no_skill_is_named_with_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    write(tmp_path / "bad.md", text)

    with pytest.raises(SkillFileInvalid, match=why) as caught:
        FolderSkills(tmp_path).list(["global"])
    assert "bad.md" in str(caught.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no folder"):
        FolderSkills(tmp_path / "nowhere")


def test_two_skills_of_one_name_and_scope_are_refused() -> None:
    with pytest.raises(DefinitionError, match="refunds"):
        InMemorySkills([REFUNDS, REFUNDS])


# -- an agent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["folder", "list"])
def test_an_agent_reads_its_skills(tmp_path: Path, given: str) -> None:
    write(tmp_path / "skills" / "refunds.md", "---\ndescription: How to pay back.\n---\nPay it back.")
    with kernel(tmp_path / "s.duckdb") as session:
        skills: Any = str(tmp_path / "skills") if given == "folder" else [REFUNDS]
        agent = loom.Agent(ScriptedModel(READS), name="clerk", store=session, skills=skills)
        run = agent.run("Pay back")
        at_rest(run)

        ((body,),) = session.sql("select output->>'body' from tool_calls").fetchall()
        assert (run.status, body) == ("completed", "Pay it back.")


def test_what_are_no_skills_is_refused(tmp_path: Path) -> None:
    given: Any = 3
    with kernel(tmp_path / "s.duckdb") as session, pytest.raises(DefinitionError, match="is no skills"):
        loom.Agent(ScriptedModel([]), name="clerk", store=session, skills=given)
