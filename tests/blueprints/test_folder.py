"""Workflow folders: what is read of them, and every mistake told with its file, line and column."""

from __future__ import annotations

import copy
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomnb.blueprints.diagnostics import BlueprintInvalid, Findings, Report
from loomnb.blueprints.folder import load_folder, validate
from loomnb.blueprints.model import STAGE_END, WORKFLOW_END, ToStage, ToStep, WorkflowModule
from loomnb.blueprints.references import Kind, reference
from loomnb.blueprints.sources import parse_yaml
from loomnb.errors import DefinitionError

EXAMPLE = Path(__file__).parent / "folder_example"

WORKFLOW = """\
workflow:
  name: notes
  entry: first
  stages:
    first:
      stage: "@stages/first"
      on:
        done: {end: true}
"""
STAGE = """\
stage:
  name: first
  state: {schema: "@schemas/notes", initialize: "@initializers/start"}
  entry: start
  steps:
    start:
      type: code
      code: "@codes/work"
      on:
        done: {end: true}
"""
AGENT_STEP = """\
    start:
      type: agent
      agent: "@agents/writer"
      llm: coding
      outputSchema: "@schemas/notes:Outcome"
      skills: ["@skills/tone"]
      tools: ["@tools/search"]
      on:
        done: {end: true}
"""
FILES = {
    "workflow.yaml": WORKFLOW,
    "stages/first.yaml": STAGE,
    "codes/work.py": "def work(_input, access):\n    raise AssertionError('called')\n\ndef other(_input, access):\n    pass\n",
    "initializers/start.py": "def start(context):\n    raise AssertionError('called')\n",
    "schemas/notes.py": (
        "from pydantic import BaseModel, model_validator\n"
        "class Notes(BaseModel):\n"
        "    text: str = ''\n"
        "    @model_validator(mode='before')\n"
        "    def _never(cls, value):\n"
        "        raise AssertionError('parsed')\n"
        "class Outcome(BaseModel):\n"
        "    outcome: str\n"
        "class Other(Outcome):\n"
        "    pass\n"
    ),
    "tools/search.py": (
        "from loomnb.blueprints.model import AgentTool\n"
        "def _run(given, access):\n"
        "    raise AssertionError('called')\n"
        "search = AgentTool(id='search', description='', input_schema=str, output_schema=str, execute=_run)\n"
        "second = AgentTool(id='second', description='', input_schema=str, output_schema=str, execute=_run)\n"
        "bare = AgentTool(id='bare', description='', input_schema=str, output_schema=None, execute=_run)\n"
    ),
    "agents/writer.md": "---\nname: writer\ndescription: Writes.\n---\nWrite.\n",
    "skills/tone/SKILL.md": "---\nname: tone\ndescription: How it sounds.\n---\nPlain.\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workflow of one step, with an agent beside it."""
    for name, text in FILES.items():
        write(tmp_path / name, text)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def edit(path: Path, was: str, is_: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert was in text
    path.write_text(text.replace(was, is_, 1), encoding="utf-8")


def told(report: Report) -> list[str]:
    """Place, code and message of each diagnostic."""
    return [f"{d.location} {d.code} {d.message}" for d in report]


def codes(report: Report) -> set[str]:
    return {d.code for d in report.errors}


def with_agents(folder: Path, *changes: tuple[str, str]) -> WorkflowModule:
    """One agent step, and for each change another that differs in it."""
    steps = [AGENT_STEP]
    for at, (was, is_) in enumerate(changes):
        assert was in AGENT_STEP
        steps.append(AGENT_STEP.replace(was, is_).replace("start:", f"s{at}:"))
    write(folder / "stages/first.yaml", STAGE.partition("    start:")[0] + "".join(steps))
    return load_folder(folder)


def agent_ids(module: WorkflowModule) -> list[str]:
    return [step.execution["agentId"] for step in module.blueprint.stages["first"].steps.values()]


# -- what is read ---------------------------------------------------------------------------------


def test_the_example_is_read_whole() -> None:
    module = load_folder(EXAMPLE)
    drafting = module.blueprint.stages["drafting"]
    (agent,) = module.agent_specs.values()

    assert validate(EXAMPLE).diagnostics == ()
    assert (module.blueprint.flow_name, module.blueprint.entry_stage_name) == ("release-notes", "drafting")
    assert drafting.on == {"confirmed": ToStage(stage_name="publishing"), "given up": WORKFLOW_END}
    assert drafting.steps["confirm"].on == {
        "confirmed": STAGE_END,
        "declined": ToStep(step_name="draft"),
        "given up": STAGE_END,
    }
    assert (agent.name, agent.llm, [t.id for t in agent.tools]) == ("writer", "reasoning", ["list_changes"])
    assert agent.instructions.startswith("Read the changes")
    assert agent.instructions.endswith("`drafted`.")
    assert agent.skills[0].content == "Say what a user can do now. No names of classes."
    assert agent.skills[0].assets == (".env.example", "SKILL.md", "examples/good.md")
    assert (drafting.state_schema.__name__, drafting.steps["draft"].execution["agentId"]) == ("ReleaseNotes", *module.agent_specs)


def test_a_workflow_is_given_as_its_folder_or_its_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    for path in (folder, str(folder), folder / "workflow.yaml", ".", "workflow.yaml"):
        assert load_folder(path).blueprint.flow_name == "notes"


@pytest.mark.case("blueprints:WF-01")
def test_reading_calls_no_code_initializer_tool_or_schema_and_keeps_the_objects(folder: Path) -> None:
    module = with_agents(folder, ("type: agent", "type: agent"))
    (agent,) = module.agent_specs.values()
    home = sys.modules[agent.tools[0].execute.__module__]

    assert validate(module).ok
    assert agent.tools[0] is home.search


@pytest.mark.parametrize("word", ["on", "yes", "off", "n", "2026-10-08", "1:30", "0b1", "1_000", "<<", "="])
def test_a_key_that_yaml_1_1_reads_as_something_else_is_a_text(folder: Path, word: str) -> None:
    edit(folder / "workflow.yaml", "done:", f"{word}:")
    edit(folder / "stages/first.yaml", "done:", f"{word}:")

    assert list(load_folder(folder).blueprint.stages["first"].on) == [word]


@pytest.mark.parametrize("word", ["yes", "on", "'true'", "1", "null", "[]"])
def test_exclusive_is_true_or_false_and_nothing_else(folder: Path, word: str) -> None:
    edit(folder / "workflow.yaml", "entry:", f"exclusive: {word}\n  entry:")

    (wrong,) = validate(folder)

    assert (wrong.code, wrong.location) == ("INVALID_WORKFLOW", "workflow.yaml:3:14")
    assert wrong.message.startswith("expected true or false, got ")


def test_a_file_of_the_folder_may_import_another_and_the_folder_stays_off_the_path(folder: Path) -> None:
    write(
        folder / "codes/work.py", "from ..schemas.notes import Notes\nfrom .words import WORD\ndef work(i, access): return WORD\n"
    )
    write(folder / "codes/words.py", "WORD = 1\n")
    before = list(sys.path)

    (code,) = load_folder(folder).codes.values()

    assert code(None, None) == 1
    assert sys.path == before
    assert not list(folder.rglob("__pycache__"))
    assert not {"words", "codes.words"} & sys.modules.keys()


def test_a_load_after_an_edit_sees_it_and_leaves_the_former_as_it_was(folder: Path) -> None:
    for word in ("one", "two"):  # the same size within the same second, as a notebook edits
        write(folder / "codes/words.py", f"WORD = '{word}'\n")
        write(folder / "codes/work.py", "from .words import WORD\ndef work(i, access): return WORD\n")
        (code,) = load_folder(folder).codes.values()
        assert code(None, None) == word
        if word == "one":
            former = code

    assert former(None, None) == "one"


def test_a_name_of_an_importable_module_is_a_reference_too(folder: Path) -> None:
    edit(folder / "stages/first.yaml", '"@schemas/notes"', "pydantic:BaseModel")
    edit(folder / "stages/first.yaml", '"@codes/work"', "tests_helper_of_codes.deep:run")
    (folder / "lib").mkdir()
    write(folder / "lib/tests_helper_of_codes/__init__.py", "")
    write(folder / "lib/tests_helper_of_codes/deep.py", "def run(given, access): ...\n")
    sys.path.insert(0, str(folder / "lib"))
    try:
        (code,) = load_folder(folder).codes.values()
    finally:
        sys.path.remove(str(folder / "lib"))
        for name in ("tests_helper_of_codes", "tests_helper_of_codes.deep"):
            del sys.modules[name]

    assert code.__module__ == "tests_helper_of_codes.deep"


def test_a_name_of_the_notebook_is_a_reference_too(folder: Path) -> None:
    edit(folder / "stages/first.yaml", '"@codes/work"', "__main__:in_a_cell")
    code = (
        "from loomnb.blueprints.folder import load_folder\n"
        "def in_a_cell(given, access): ...\n"
        f"print([c is in_a_cell for c in load_folder({str(folder)!r}).codes.values()])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent.parent
    )

    assert (done.stdout.strip(), done.stderr) == ("[True]", "")


# -- identity -------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:CP-01")
def test_one_name_of_one_file_is_one_code_however_it_is_written(folder: Path) -> None:
    steps = "".join(
        f'    s{at}: {{type: code, code: "{ref}", on: {{done: {{end: true}}}}}}\n'
        for at, ref in enumerate(
            ["@codes/work", "@codes/work:work", "@codes/work.py", "@codes/work.py:work", "@codes/work:other"]
        )
    )
    write(folder / "stages/first.yaml", STAGE.partition("    start:")[0].replace("entry: start", "entry: s0") + steps)

    module = load_folder(folder)
    ids = [step.execution["codeId"] for step in module.blueprint.stages["first"].steps.values()]

    assert len(set(ids[:4])) == 1
    assert ids[4] not in ids[:4]
    assert sorted(module.codes) == sorted(set(ids))


@pytest.mark.case("blueprints:CP-02")
def test_agents_that_are_the_same_are_one_and_any_difference_is_another(folder: Path) -> None:
    write(folder / "agents/copy.md", FILES["agents/writer.md"])
    write(folder / "skills/other/SKILL.md", FILES["skills/tone/SKILL.md"].replace("tone", "other"))
    differences = [
        ("@agents/writer", "@agents/copy"),
        ("llm: coding", "llm: review"),
        ("notes:Outcome", "notes:Other"),
        ('["@skills/tone"]', "[]"),
        ('"@skills/tone"', '"@skills/other"'),
        ('"@tools/search"', '"@tools/search:second"'),
        ('["@tools/search"]', '["@tools/search", "@tools/search:second"]'),
    ]

    ids = agent_ids(with_agents(folder, ("@agents/writer", "@agents/writer.md"), *differences))

    assert ids[0] == ids[1]
    assert len(set(ids)) == 1 + len(differences)


def test_ids_have_the_contracts_form_and_are_the_same_in_a_copy_of_the_folder_but_not_in_another_flow(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("copies") / "copy"
    with_agents(folder)
    edit(
        folder / "stages/first.yaml",
        "steps:\n",
        'steps:\n    code: {type: code, code: "@codes/work", on: {again: {target: start}}}\n',
    )
    shutil.copytree(folder, other)

    first, again = load_folder(folder), load_folder(other)
    edit(other / "workflow.yaml", "name: notes", "name: others")
    renamed = load_folder(other)

    assert re.fullmatch(r"CODE-[A-Za-z0-9_-]{21}", *first.codes)
    assert re.fullmatch(r"AGENT-[A-Za-z0-9_-]{21}", *first.agent_specs)
    assert (list(first.codes), list(first.agent_specs)) == (list(again.codes), list(again.agent_specs))
    assert not renamed.codes.keys() & first.codes.keys()
    assert not renamed.agent_specs.keys() & first.agent_specs.keys()


# -- structure ------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:CP-03")
def test_steps_and_stages_may_lead_to_themselves(folder: Path) -> None:
    edit(
        folder / "stages/first.yaml",
        "done: {end: true}",
        "again: {target: start}\n        done: {end: true}\n        over: {end: true}",
    )
    edit(folder / "workflow.yaml", "done: {end: true}", "done: {target: first}\n        over: {end: true}")

    assert validate(folder).diagnostics == ()


WRONG_STRUCTURE = [
    (
        "workflow.yaml",
        "entry: first",
        "entry: frist",
        ["workflow.yaml:3:10 INVALID_WORKFLOW there is no stage 'frist' to begin with (did you mean 'first'?)"],
    ),
    (
        "stages/first.yaml",
        "entry: start",
        "entry: begin",
        ["stages/first.yaml:4:10 INVALID_WORKFLOW there is no step 'begin' to begin with"],
    ),
    (
        "stages/first.yaml",
        "done: {end: true}",
        "done: {end: true}\n        more: {target: begin}",
        ["stages/first.yaml:11:24 INVALID_WORKFLOW 'more' of the step 'start' leads to the step 'begin', which does not exist"],
    ),
    (
        "workflow.yaml",
        "done: {end: true}",
        "done: {target: second}",
        ["workflow.yaml:8:24 INVALID_WORKFLOW 'done' of the stage 'first' leads to the stage 'second', which does not exist"],
    ),
    (
        "stages/first.yaml",
        "name: first",
        "name: second",
        ["stages/first.yaml:2:9 INVALID_WORKFLOW the stage 'first' calls itself 'second'"],
    ),
    (
        "stages/first.yaml",
        "on:\n        done: {end: true}",
        "on: {}",
        [
            "workflow.yaml:8:9 INVALID_WORKFLOW no step ends the stage 'first' with 'done'",
            "stages/first.yaml:9:7 INVALID_WORKFLOW the step 'start' has no route; it needs at least one outcome",
        ],
    ),
    (
        "stages/first.yaml",
        "done: {end: true}",
        "done: {end: true}\n        dome: {end: true}",
        [
            (
                "stages/first.yaml:11:9 INVALID_WORKFLOW 'dome' of the step 'start' ends the stage 'first', "
                "which has no route for it (did you mean 'done'?)"
            )
        ],
    ),
    (
        "workflow.yaml",
        "name: notes",
        "name: ' notes'",
        ["workflow.yaml:2:9 INVALID_WORKFLOW the name of the flow begins or ends with white space: ' notes'"],
    ),
    ("stages/first.yaml", "name: first", "name: ''", ["stages/first.yaml:2:9 INVALID_WORKFLOW the name of a stage is empty"]),
    (
        "stages/first.yaml",
        "done: {end: true}",
        "done: {end: true}\n        '': {target: start}",
        ["stages/first.yaml:11:9 INVALID_WORKFLOW the name of an outcome is empty"],
    ),
]


@pytest.mark.case("blueprints:CP-04", "blueprints:WF-02")
@pytest.mark.parametrize(("file", "was", "is_", "expected"), WRONG_STRUCTURE)
def test_a_structure_that_cannot_be_is_told_where_it_stands(
    folder: Path, file: str, was: str, is_: str, expected: list[str]
) -> None:
    edit(folder / file, was, is_)

    report = validate(folder)

    assert told(report) == expected
    assert codes(report) == {"INVALID_WORKFLOW"}


WRONG_FIELDS = [
    ("workflow.yaml", "entry: first", "entry: first\n  title: Notes",
     "workflow.yaml:4:3 INVALID_WORKFLOW unknown field 'title'; expected 'name', 'entry', 'stages' or 'exclusive'"),
    ("stages/first.yaml", "entry: start", "entry: start\n  input: {a: 1}",
     "stages/first.yaml:5:3 INVALID_WORKFLOW unknown field 'input'; expected 'name', 'state', 'entry' or 'steps'"),
    ("stages/first.yaml", "type: code", "type: code\n      input: {}",
     "stages/first.yaml:8:7 INVALID_WORKFLOW unknown field 'input'; expected 'type', 'code' or 'on'"),
    ("stages/first.yaml", "type: code", "type: code\n      preHook: '@codes/work'",
     "stages/first.yaml:8:7 INVALID_WORKFLOW unknown field 'preHook'; expected 'type', 'code' or 'on'"),
    ("stages/first.yaml", "type: code", "type: code\n      postHook: '@codes/work'",
     "stages/first.yaml:8:7 INVALID_WORKFLOW unknown field 'postHook'; expected 'type', 'code' or 'on'"),
    ("stages/first.yaml", "type: code", "type: kernel",
     "stages/first.yaml:7:13 INVALID_WORKFLOW expected 'code' or 'agent', got 'kernel'"),
    ("stages/first.yaml", "type: code\n      ", "", "stages/first.yaml:6:5 INVALID_WORKFLOW missing field 'type'"),
    ("stages/first.yaml", ', initialize: "@initializers/start"', "",
     "stages/first.yaml:3:3 INVALID_WORKFLOW missing field 'initialize'"),
    ("stages/first.yaml", "entry: start\n  ", "", "stages/first.yaml:1:1 INVALID_WORKFLOW missing field 'entry'"),
    ("workflow.yaml", 'stage: "@stages/first"', "stage: 7", "workflow.yaml:6:14 INVALID_WORKFLOW expected a text, got 7"),
    ("workflow.yaml", "done: {end: true}", "done: {end: true, target: first}",
     "workflow.yaml:8:16 INVALID_WORKFLOW expected either `target: …` or `end: true`"),
    ("workflow.yaml", "done: {end: true}", "done: {}",
     "workflow.yaml:8:9 INVALID_WORKFLOW expected either `target: …` or `end: true`"),
    ("workflow.yaml", "done: {end: true}", "done: {end: false}",
     "workflow.yaml:8:21 INVALID_WORKFLOW expected `end: true`, got false"),
    ("workflow.yaml", "done: {end: true}", "done: first",
     "workflow.yaml:8:15 INVALID_WORKFLOW expected a mapping of where it leads, {target: …} or {end: true}, got 'first'"),
    ("workflow.yaml", "done: {end: true}", "done: {goto: first}",
     "workflow.yaml:8:16 INVALID_WORKFLOW unknown field 'goto'; expected 'target' or 'end'"),
]  # fmt: skip


@pytest.mark.case("blueprints:CP-05")
@pytest.mark.parametrize(("file", "was", "is_", "expected"), WRONG_FIELDS)
def test_a_field_that_is_unknown_missing_or_of_another_shape_is_told_at_its_key(
    folder: Path, file: str, was: str, is_: str, expected: str
) -> None:
    edit(folder / file, was, is_)

    assert told(validate(folder)) == [expected]


WRONG_SHAPES = [
    ("workflow.yaml", WORKFLOW.partition("\n")[2], "",
     ["workflow.yaml:1:10 INVALID_WORKFLOW expected a mapping of 'name', 'entry', 'stages' or 'exclusive', got nothing"]),
    ("workflow.yaml", WORKFLOW, "metadata: []\n",
     ["workflow.yaml:1:1 INVALID_WORKFLOW missing field 'workflow'",
      "workflow.yaml:1:11 INVALID_WORKFLOW expected a mapping of 'type' or 'version', got a list"]),
    ("workflow.yaml", WORKFLOW.partition("stages:")[2], " []\n",
     ["workflow.yaml:4:11 INVALID_WORKFLOW expected a mapping of stages, got a list"]),
    ("workflow.yaml", WORKFLOW.partition("stages:")[2], " {}\n",
     ["workflow.yaml:4:3 INVALID_WORKFLOW there is no stage; at least one is needed"]),
    ("workflow.yaml", "\n      on:\n        done: {end: true}", "",
     ["workflow.yaml:5:5 INVALID_WORKFLOW missing field 'on'"]),
    ("workflow.yaml", "{end: true}", "{target: [first]}",
     ["workflow.yaml:8:24 INVALID_WORKFLOW expected a text, got a list"]),
    ("workflow.yaml", '"@stages/first"', "*x", ["workflow.yaml:6:14 SOURCE_PARSE_FAILED the alias *x stands for a value"]),
    ("stages/first.yaml", STAGE, "stage: no\n",
     ["stages/first.yaml:1:8 INVALID_WORKFLOW expected a mapping of 'name', 'state', 'entry' or 'steps', got 'no'"]),
    ("stages/first.yaml", STAGE, "[",
     ["stages/first.yaml:1:2 SOURCE_PARSE_FAILED this is no YAML: expected the node content, but found '<stream end>'"]),
    ("stages/first.yaml", STAGE.partition("steps:")[2], " 3\n",
     ["stages/first.yaml:5:10 INVALID_WORKFLOW expected a mapping of steps, got 3"]),
    ("stages/first.yaml", STAGE.partition("start:\n")[2], "",
     ["stages/first.yaml:6:11 INVALID_WORKFLOW expected a mapping of fields of a step, got nothing"]),
    ("stages/first.yaml", "{end: true}", "{end: !mine true}",
     ["stages/first.yaml:10:21 SOURCE_PARSE_FAILED the tag '!mine' is not known here, or does not fit"]),
]  # fmt: skip


@pytest.mark.parametrize(("file", "was", "is_", "expected"), WRONG_SHAPES)
def test_what_is_broken_whole_is_told_once(folder: Path, file: str, was: str, is_: str, expected: list[str]) -> None:
    edit(folder / file, was, is_)

    shown = told(validate(folder))

    assert shown == expected


def test_the_tags_of_the_core_schema_are_read(folder: Path) -> None:
    edit(folder / "workflow.yaml", "name: notes", "name: !!str 2026\n  exclusive: !!bool true")
    edit(folder / "stages/first.yaml", "on:\n", "on: !!map\n")

    blueprint = load_folder(folder).blueprint

    assert (blueprint.flow_name, blueprint.exclusive) == ("2026", True)


def test_skills_are_a_list(folder: Path) -> None:
    with pytest.raises(BlueprintInvalid, match="expected a list of skills, got '@skills/tone'"):
        with_agents(folder, ('["@skills/tone"]', '"@skills/tone"'))


def test_what_is_obsolete_says_what_to_do_now(folder: Path) -> None:
    edit(folder / "stages/first.yaml", "type: code", "type: code\n      input: {}")

    assert validate(folder).errors[0].advice == "A step takes no input: what it needs stands in the State of its stage."


@pytest.mark.case("blueprints:DX-22")
def test_an_agent_asks_for_one_of_three_roles(folder: Path) -> None:
    module = with_agents(folder, ("llm: coding", "llm: review"), ("llm: coding", "llm: reasoning"))

    assert [agent.llm for agent in module.agent_specs.values()] == ["coding", "review", "reasoning"]
    with pytest.raises(BlueprintInvalid, match="expected 'reasoning', 'coding' or 'review', got 'default'") as caught:
        with_agents(folder, ("llm: coding", "llm: default"))

    assert [d.location for d in caught.value.diagnostics] == ["stages/first.yaml:18:12"]


# -- references -----------------------------------------------------------------------------------

FORMS = [
    ("stages", "@stages/draft", ("stages/draft.yaml", "", "")),
    ("stages", "@stages/more/draft.yaml", ("stages/more/draft.yaml", "", "")),
    ("agents", "@agents/writer", ("agents/writer.md", "", "")),
    ("agents", "@agents/team/writer.md", ("agents/team/writer.md", "", "")),
    ("skills", "@skills/tone", ("skills/tone/SKILL.md", "", "")),
    ("skills", "@skills/more/tone/SKILL.md", ("skills/more/tone/SKILL.md", "", "")),
    ("codes", "@codes/ask-again", ("codes/ask-again.py", "", "ask_again")),
    ("codes", "@codes/mail/send.py:run", ("codes/mail/send.py", "", "run")),
    ("initializers", "@initializers/start:empty", ("initializers/start.py", "", "empty")),
    ("schemas", "@schemas/release_notes", ("schemas/release_notes.py", "", "ReleaseNotes")),
    ("schemas", "@schemas/release_notes:State", ("schemas/release_notes.py", "", "State")),
    ("tools", "@tools/search.py", ("tools/search.py", "", "search")),
    ("codes", "package.module:run", ("", "package.module", "run")),
    ("tools", "__main__:search", ("", "__main__", "search")),
]  # fmt: skip


@pytest.mark.case("blueprints:CP-10")
@pytest.mark.parametrize(("kind", "text", "expected"), FORMS)
def test_a_reference_names_a_file_or_module_and_a_name(kind: Kind, text: str, expected: tuple[str, str, str]) -> None:
    found = reference(text, kind)

    assert (found.kind, (found.file, found.module, found.name)) == (kind, expected)


WRONG_REFERENCES = [
    ("@codes/work", "@codes/absent", "there is no file codes/absent.py"),
    ("@codes/work", "@codes/work:wrok", "codes/work.py has no 'wrok' (did you mean 'work'?)"),
    ("@codes/work", "@codes/number", "codes/number.py:number cannot be called"),
    ("@codes/work", "@codes/number:Klass", "codes/number.py:Klass is a class; a function or an object with __call__ is wanted"),
    ("@codes/work", "@codes/number:one", "codes/number.py:one cannot be called with (input, access); it takes (access)"),
    ("@codes/work", "@schemas/notes:Notes", "'@schemas/notes:Notes' is wanted from @codes, not from @schemas"),
    ("@codes/work", "@stages/first", "'@stages/first' is wanted from @codes, not from @stages"),
    ("@codes/work", "@scripts/work", "'@scripts/work' begins with no known prefix"),
    ("@codes/work", "codes/work", "'codes/work' is neither @codes/file:name nor module:name"),
    ("@codes/work", "no_such_module:run",
     "the module 'no_such_module' cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
    ("@codes/work", "json:no_such_name", "json has no 'no_such_name'"),
    ("@codes/work", "@codes/../work", "'@codes/../work' leaves the folder with .."),
    ("@codes/work", "@codes\\work", "'@codes\\\\work' begins with no known prefix"),
    ("@codes/work", "@codes/a\\b", "'@codes/a\\\\b' has a backslash"),
    ("@codes/work", "@codes/work.pyi", "'@codes/work.pyi': 'work.pyi' in it can be no file or folder"),
    ("@codes/work", "@codes//work", "'@codes//work': a name in it is empty"),
    ("@codes/work", "@codes", "'@codes': a name in it is empty"),
    ("@codes/work", "@codes/work:", "'@codes/work:' picks '', which cannot be a name in Python"),
    ("@codes/work", "@codes/work:a b", "'@codes/work:a b' picks 'a b', which cannot be a name in Python"),
    ("@codes/work", "@codes/7up", "'@codes/7up' says no name, and '7up' cannot be one in Python"),
    ("@schemas/notes", "@schemas/notes:number", "schemas/notes.py has no 'number'"),
    ("@schemas/notes", "@codes/work", "'@codes/work' is wanted from @schemas, not from @codes"),
    ("@schemas/notes", "codes_of_tests:x", None),
    ("@schemas/notes", "json:dumps", "json:dumps is a function, and no schema"),
    ("@schemas/notes", "string:digits", "string:digits is no schema; give the type itself"),
    ("@schemas/notes", "sys:maxsize", "sys:maxsize cannot be a schema: "),
    ("@schemas/notes", "threading:Thread", "threading:Thread cannot be a schema: "),
    ("@initializers/start", "pydantic:BaseModel",
     "pydantic:BaseModel is a class; a function or an object with __call__ is wanted"),
    ("@initializers/start", "sys:maxsize", "sys:maxsize cannot be called"),
]  # fmt: skip


@pytest.mark.case("blueprints:CP-06", "blueprints:CP-10")
@pytest.mark.parametrize(("was", "is_", "expected"), WRONG_REFERENCES)
def test_a_reference_to_nothing_or_to_the_wrong_kind_is_told(folder: Path, was: str, is_: str, expected: str | None) -> None:
    write(folder / "codes/number.py", "number = 1\nclass Klass: ...\ndef one(access): ...\n")
    line = (folder / "stages/first.yaml").read_text().splitlines()
    at = next((n + 1, text.index(f'"{was}"') + 1) for n, text in enumerate(line) if f'"{was}"' in text)
    edit(folder / "stages/first.yaml", f'"{was}"', f"'{is_}'")

    (wrong,) = validate(folder)

    assert (wrong.code, wrong.location) == ("INVALID_REFERENCE", f"stages/first.yaml:{at[0]}:{at[1]}")
    assert expected is None or wrong.message.startswith(expected)


@pytest.mark.case("blueprints:CP-06", "blueprints:CP-10")
@pytest.mark.parametrize(("was", "is_", "expected"), [
    ('["@tools/search"]', '["@tools/search:bare"]', "tools/search.py:bare has an output_schema that is no schema"),
    ('["@tools/search"]', '["@tools/search:_run"]', "tools/search.py:_run is no AgentTool"),
    ('["@skills/tone"]', '["@skills/absent"]', "there is no file skills/absent/SKILL.md"),
    ('["@skills/tone"]', '["@skills/tone:x"]', "'@skills/tone:x' picks 'x' of a file that is no Python"),
    ('"@agents/writer"', '"@agents/absent"', "there is no file agents/absent.md"),
    ('"@agents/writer"', '"@agents/writer:x"', "'@agents/writer:x' picks 'x' of a file that is no Python"),
    ('"@agents/writer"', "agents:writer", "'agents:writer' does not begin with @agents/"),
])  # fmt: skip
def test_so_is_one_of_an_agent(folder: Path, was: str, is_: str, expected: str) -> None:
    with pytest.raises(BlueprintInvalid) as caught:
        with_agents(folder, (was, is_))

    (wrong,) = caught.value.diagnostics
    assert (wrong.code, wrong.message, wrong.file) == ("INVALID_REFERENCE", expected, "stages/first.yaml")
    assert (wrong.line or 0) > 14


def test_a_stage_that_is_not_there_is_told_at_its_reference_and_the_rest_is_judged(folder: Path) -> None:
    edit(folder / "workflow.yaml", '"@stages/first"', '"@stages/other"')
    edit(folder / "workflow.yaml", "entry: first", "entry: second")

    assert told(validate(folder)) == [
        "workflow.yaml:3:10 INVALID_WORKFLOW there is no stage 'second' to begin with",
        "workflow.yaml:6:14 INVALID_REFERENCE there is no file stages/other.yaml",
    ]


def test_what_a_file_raises_when_it_is_imported_is_told_at_its_line_once(folder: Path) -> None:
    write(folder / "codes/work.py", "from .words import WORD\ndef work(i, a): ...\n")
    write(folder / "codes/words.py", "\n\nWORD = undefined + 1\n")
    edit(
        folder / "stages/first.yaml",
        "done: {end: true}\n",
        'done: {end: true}\n    two: {type: code, code: "@codes/work", on: {done: {end: true}}}\n',
    )

    assert told(validate(folder)) == [
        "stages/first.yaml:11:5 INVALID_WORKFLOW no run can come to the step 'two'",
        "codes/words.py:3:1 INVALID_REFERENCE the file cannot be imported: NameError: name 'undefined' is not defined",
    ]


def test_a_file_that_is_no_python_is_told_at_its_line_and_column(folder: Path) -> None:
    write(folder / "codes/work.py", "def work(i, a):\n    return (1\n")

    assert told(validate(folder)) == ["codes/work.py:2:12 SOURCE_PARSE_FAILED this is not valid Python: '(' was never closed"]


def test_a_file_that_leaves_python_when_it_is_imported_leaves_nothing(folder: Path) -> None:
    write(folder / "codes/work.py", "import sys\nsys.exit(3)\n")

    assert told(validate(folder)) == ["codes/work.py:2:1 INVALID_REFERENCE the file cannot be imported: SystemExit: 3"]


# -- YAML -----------------------------------------------------------------------------------------

WRONG_YAML = [
    ("entry: first", "entry: first\n  entry: first", "4:3", "the key 'entry' stands here a second time"),
    ("entry: first", "entry: &e first", "3:10", "the anchor &e names a value"),
    ("entry: first", "entry: *e", "3:10", "the alias *e stands for a value"),
    ("entry: first", "entry: !mine first", "3:10", "the tag '!mine' is not known here, or does not fit"),
    ("entry: first", "entry: !!int first", "3:10", "the tag '!!int' is not known here, or does not fit"),
    ("entry: first", "entry: !!python/name:os.system first", "3:10",
     "the tag '!!python/name:os.system' is not known here, or does not fit"),
    ("entry: first", "entry: first\n  1: x", "4:3", "a key has to be a text, this one is '1'"),
    ("entry: first", "entry: first\n  true: x", "4:3", "a key has to be a text, this one is 'true'"),
    ("entry: first", "entry: first\n  ~: x", "4:3", "a key has to be a text, this one is '~'"),
    ("entry: first", "entry: first\n  [a]: x", "4:3", "a key has to be a text, this one is a list"),
    ("entry: first", "entry: first\n  ? {a: b}\n  : x", "4:5", "a key has to be a text, this one is a mapping"),
    ("entry: first", "entry: first\n  __proto__: x", "4:3", "the key '__proto__' is reserved"),
    ("entry: first", "entry: first\n  constructor: x", "4:3", "the key 'constructor' is reserved"),
    ("entry: first", "entry: first\n  prototype: x", "4:3", "the key 'prototype' is reserved"),
    ("entry: first", "entry: [first", "4:9", "this is no YAML: "),
    ("entry: first", "entry: 'first", None, "this is no YAML: "),
    ("entry: first", "entry: fir\0st", "3:13", "this is no YAML: '\\x00' cannot stand in it"),
    ("entry: first", 'entry: "\\UFFFFFFFF"', "3:", "this is no YAML: "),
    ("entry: first", "entry: " + "[" * 60 + "]" * 60, "3:", "more than 50 levels are nested here"),
]  # fmt: skip


@pytest.mark.case("blueprints:CP-12")
@pytest.mark.parametrize(("was", "is_", "place", "message"), WRONG_YAML)
def test_yaml_that_is_not_strict_is_told_at_its_place(folder: Path, was: str, is_: str, place: str | None, message: str) -> None:
    edit(folder / "workflow.yaml", was, is_)

    wrong = next(d for d in validate(folder) if d.code == "SOURCE_PARSE_FAILED")

    assert wrong.message.startswith(message)
    assert place is None or wrong.location.startswith(f"workflow.yaml:{place}")


@given(st.text(alphabet=st.one_of(st.sampled_from("a:- \n\t[]{},&*!%#'\"?|>~.0x\\U\0"), st.characters()), max_size=60))
def test_no_text_makes_reading_fail_with_anything_but_a_diagnostic(text: str) -> None:
    findings = Findings()

    node = parse_yaml(text, "x.yaml", findings)

    assert node is not None or [d.code for d in findings.in_order()][-1:] == ["SOURCE_PARSE_FAILED"]


@pytest.mark.case("blueprints:CP-12")
def test_a_file_holds_one_document(folder: Path) -> None:
    write(folder / "workflow.yaml", WORKFLOW + "---\nworkflow: {}\n")

    assert told(validate(folder)) == ["workflow.yaml:9:1 SOURCE_PARSE_FAILED a second document begins here"]


@pytest.mark.case("blueprints:CP-12")
def test_frontmatter_is_read_as_strictly(folder: Path) -> None:
    write(folder / "agents/writer.md", "---\nname: writer\ndescription: a\ndescription: b\n---\nWrite.\n")
    with pytest.raises(BlueprintInvalid) as caught:
        with_agents(folder)

    assert [d.location for d in caught.value.diagnostics] == ["agents/writer.md:4:1"]
    assert caught.value.code == "SOURCE_PARSE_FAILED"


@pytest.mark.parametrize(("text", "expected"), [
    ("Write.\n", "agents/writer.md:1:1 INVALID_WORKFLOW there is no frontmatter"),
    ("---\nname: writer\ndescription: a\n", "agents/writer.md:1:1 INVALID_WORKFLOW there is no frontmatter"),
    ("---\nname: writer\n---\nWrite.", "agents/writer.md:2:1 INVALID_WORKFLOW missing field 'description'"),
    ("---\nname: writer\ndescription: a\nllm: coding\n---\nWrite.",
     "agents/writer.md:4:1 INVALID_WORKFLOW unknown field 'llm'; expected 'name' or 'description'"),
    ("---\nname: 3\ndescription: a\n---\nWrite.", "agents/writer.md:2:7 INVALID_WORKFLOW expected a text, got 3"),
    ("---\nname: 'a '\ndescription: a\n---\nWrite.",
     "agents/writer.md:2:7 INVALID_WORKFLOW the name of an agent begins or ends with white space: 'a '"),
    ("---\nname: writer\ndescription: a\n---\n\n",
     "agents/writer.md:1:1 INVALID_WORKFLOW the agent 'writer' is not told what to do"),
])  # fmt: skip
def test_an_agents_file_says_a_name_a_description_and_what_to_do(folder: Path, text: str, expected: str) -> None:
    write(folder / "agents/writer.md", text)
    with pytest.raises(BlueprintInvalid) as caught:
        with_agents(folder)

    assert [f"{d.location} {d.code} {d.message}" for d in caught.value.diagnostics] == [expected]


def test_what_cannot_be_read_is_told(folder: Path) -> None:
    (folder / "stages/first.yaml").write_bytes(b"\xff\xfe")

    assert told(validate(folder)) == ["stages/first.yaml SOURCE_READ_FAILED this is no text in UTF-8"]
    assert told(validate(folder / "nowhere")) == ["workflow.yaml SOURCE_READ_FAILED cannot be read: No such file or directory"]


def test_an_empty_file_is_no_workflow(folder: Path) -> None:
    write(folder / "workflow.yaml", "# later\n")

    assert told(validate(folder)) == [
        "workflow.yaml:1:1 INVALID_WORKFLOW expected a mapping of 'workflow' or 'metadata', got nothing"
    ]


# -- metadata and skills --------------------------------------------------------------------------


@pytest.mark.case("blueprints:WF-08", "blueprints:CP-07")
@pytest.mark.parametrize(("metadata", "expected"), [
    ("{type: workflow, version: 2026-10-08}", []),
    ("{type: workflow, version: '2027-01-01'}",
     ["workflow.yaml:1:37 UNSUPPORTED_WORKFLOW_PROTOCOL the protocol '2027-01-01' is not known; this library runs '2026-10-08'"]),
    ("{type: app, version: 2026-10-08}", ["workflow.yaml:1:18 INVALID_WORKFLOW expected 'workflow', got 'app'"]),
    ("{type: workflow}", ["workflow.yaml:1:1 INVALID_WORKFLOW missing field 'version'"]),
    ("{type: workflow, version: 1}", ["workflow.yaml:1:37 INVALID_WORKFLOW expected a valid string, got 1"]),
    ("{type: workflow, version: 2026-10-08, name: x}",
     ["workflow.yaml:1:49 INVALID_WORKFLOW unknown field 'name'; expected 'type' or 'version'"]),
])  # fmt: skip
def test_metadata_is_optional_and_of_the_protocol_that_is_run(folder: Path, metadata: str, expected: list[str]) -> None:
    write(folder / "workflow.yaml", f"metadata: {metadata}\n{WORKFLOW}")

    assert told(validate(folder)) == expected


@pytest.mark.case("blueprints:CP-09")
def test_a_skill_has_the_files_of_its_folder_but_no_clutter(folder: Path) -> None:
    for name in ("z.txt", "deep/er/a.md", ".env.example", "deep/.env.encrypted", ".git/config", "node_modules/x/.env",
                 "__pycache__/x.pyc", "deep/.DS_Store"):  # fmt: skip
        write(folder / "skills/tone" / name, "x")

    ((skill,),) = (agent.skills for agent in with_agents(folder).agent_specs.values())

    assert skill.assets == (".env.example", "SKILL.md", "deep/.env.encrypted", "deep/er/a.md", "z.txt")


@pytest.mark.case("blueprints:CP-09")
@pytest.mark.parametrize(
    "name", [".env", ".env.keys", ".env.local", ".envrc", ".dev.vars", ".dev.vars.x", "deep/er/.env", ".env/x"]
)
def test_a_skill_with_a_private_file_is_refused(folder: Path, name: str) -> None:
    write(folder / "skills/tone" / name, "SECRET=1")
    with pytest.raises(BlueprintInvalid, match="may hold secrets, and a model reads a skill") as caught:
        with_agents(folder)

    assert [(d.code, d.location) for d in caught.value.diagnostics] == [("INVALID_REFERENCE", "stages/first.yaml:11:16")]
    assert "SECRET" not in str(caught.value)


@pytest.mark.case("blueprints:CP-09")
@pytest.mark.parametrize(
    ("name", "target"), [("link.md", "../../agents/writer.md"), ("deep", "../../agents"), ("gone", "nowhere")]
)
def test_a_skill_with_a_link_is_refused(folder: Path, name: str, target: str) -> None:
    (folder / "skills/tone" / name).symlink_to(target)
    with pytest.raises(BlueprintInvalid, match="is a link") as caught:
        with_agents(folder)

    assert caught.value.code == "INVALID_REFERENCE"


# -- telling --------------------------------------------------------------------------------------

MANY_WRONG = {
    "workflow.yaml": """\
        workflow:
          name: notes
          exclusive: maybe
          entry: absent
          stages:
            first: {stage: "@stages/first", on: {finished: {end: true}, odd: {}}}
        """,
    "stages/first.yaml": """\
        stage:
          name: first
          state: {schema: "@schemas/notes:Nots", initialize: "@initializers/start"}
          entry: start
          hooks: []
          steps:
            start: {type: code, code: "@codes/absent", on: {done: {end: true}}}
            other: {type: kernel, on: {}}
        """,
}


@pytest.fixture
def many_wrong(folder: Path) -> Path:
    for name, text in MANY_WRONG.items():
        write(folder / name, textwrap.dedent(text))
    return folder


MANY_TOLD = [
    "workflow.yaml:3:14 INVALID_WORKFLOW expected true or false, got 'maybe'",
    "workflow.yaml:4:10 INVALID_WORKFLOW there is no stage 'absent' to begin with",
    "workflow.yaml:6:65 INVALID_WORKFLOW expected either `target: …` or `end: true`",
    "stages/first.yaml:3:19 INVALID_REFERENCE schemas/notes.py has no 'Nots' (did you mean 'Notes'?)",
    "stages/first.yaml:5:3 INVALID_WORKFLOW unknown field 'hooks'; expected 'name', 'state', 'entry' or 'steps'",
    "stages/first.yaml:7:31 INVALID_REFERENCE there is no file codes/absent.py",
    "stages/first.yaml:7:53 INVALID_WORKFLOW 'done' of the step 'start' ends the stage 'first', which has no route for it",
    "stages/first.yaml:8:19 INVALID_WORKFLOW expected 'code' or 'agent', got 'kernel'",
    "stages/first.yaml:8:27 INVALID_WORKFLOW the step 'other' has no route; it needs at least one outcome",
]


def test_all_problems_of_all_files_are_told_at_once_in_order(many_wrong: Path) -> None:
    report = validate(many_wrong)

    assert told(report) == MANY_TOLD
    assert not report.ok


def test_loading_tells_them_too_in_one_error(many_wrong: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        load_folder(many_wrong)

    error: Any = caught.value
    lines = error.message.splitlines()
    assert (error.code, len(error.diagnostics)) == ("INVALID_WORKFLOW", 9)
    assert lines[0] == f"The workflow folder {many_wrong.name!r} has 9 problems:"
    assert lines[1] == "  workflow.yaml:3:14 error INVALID_WORKFLOW expected true or false, got 'maybe'"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (again.code, str(again), again.diagnostics) == (error.code, str(error), error.diagnostics)


def test_what_no_run_comes_to_is_a_warning_and_keeps_nothing_from_loading(folder: Path) -> None:
    edit(
        folder / "stages/first.yaml",
        "done: {end: true}\n",
        'done: {end: true}\n    alone: {type: code, code: "@codes/work", on: {x: {target: alone}}}\n',
    )
    edit(
        folder / "workflow.yaml",
        "done: {end: true}\n",
        'done: {end: true}\n        never: {end: true}\n    second: {stage: "@stages/second", on: {done: {end: true}}}\n',
    )
    write(folder / "stages/second.yaml", STAGE.replace("name: first", "name: second"))

    report = validate(folder)

    assert report.ok
    assert [f"{d.location} {d.severity} {d.message}" for d in report.warnings] == [
        "workflow.yaml:9:9 warning no step ends the stage 'first' with 'never'",
        "workflow.yaml:10:5 warning no run can come to the stage 'second'",
        "stages/first.yaml:11:5 warning no run can come to the step 'alone'",
    ]
    assert load_folder(folder).blueprint.stages.keys() == {"first", "second"}


def test_a_report_shows_itself_and_runs_nothing_of_what_it_quotes(folder: Path) -> None:
    edit(folder / "workflow.yaml", "entry: first", "entry: '<script>x</script>|`*\u202e'")

    report = validate(folder)
    bundle = report._repr_mimebundle_()

    assert repr(report) == bundle["text/plain"]
    assert repr(report).splitlines()[:2] == [
        f"The workflow folder {folder.name!r}: 1 error",
        "  workflow.yaml:3:10 error INVALID_WORKFLOW there is no stage '<script>x</script>|`*\\u202e' to begin with",
    ]
    assert "<script>" not in bundle["text/html"] + bundle["text/markdown"]
    assert "&lt;script&gt;" in bundle["text/html"]
    assert "\\|\\`\\*" in bundle["text/markdown"]
    assert all("\u202e" not in text for text in bundle.values())


def test_a_report_without_problems_says_so(folder: Path) -> None:
    bundle = validate(folder)._repr_mimebundle_()

    assert bundle["text/plain"] == f"The workflow folder {folder.name!r}: no problems"
    assert "<table" not in bundle["text/html"]
