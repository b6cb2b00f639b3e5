"""What a blueprint of dataclasses has to be, how routes and executions may be written, and the metadata of a workflow."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest

from loomnb.blueprints import metadata
from loomnb.blueprints.access import StorageCategory, StorageQuery
from loomnb.blueprints.checks import check_blueprint, check_conflicts
from loomnb.blueprints.diagnostics import Problem, dotted
from loomnb.blueprints.folder import validate
from loomnb.blueprints.model import (
    STAGE_END,
    WORKFLOW_END,
    AgentSpec,
    AgentTool,
    Blueprint,
    BlueprintStage,
    BlueprintStep,
    SkillSpec,
    StageEnd,
    ToStage,
    ToStep,
    WorkflowEnd,
    WorkflowModule,
)
from loomnb.blueprints.shapes import (
    ShapeInvalid,
    code_problem,
    name_problem,
    schema_problem,
    stage_route,
    step_execution,
    step_route,
)
from loomnb.errors import DefinitionError


def never(*_: Any) -> Any:
    raise AssertionError("called")


class NeverParsed:
    def parse(self, value: Any) -> Any:
        raise AssertionError("parsed")


TOOL: AgentTool[Any, Any, Any] = AgentTool(id="search", description="", input_schema=str, output_schema=str, execute=never)
AGENT = AgentSpec(name="writer", instructions="Write.", output_schema=dict)
STEP = BlueprintStep(execution=never, on={"done": STAGE_END})
STAGE = BlueprintStage(
    state_schema=NeverParsed(),
    initialize_state=never,
    entry_step_name="start",
    steps={"start": STEP},
    on={"done": WORKFLOW_END},
)
BLUEPRINT = Blueprint(flow_name="notes", entry_stage_name="first", stages={"first": STAGE})


def stage(**changes: Any) -> Blueprint:
    return replace(BLUEPRINT, stages={"first": replace(STAGE, **changes)})


def step(**changes: Any) -> Blueprint:
    return stage(steps={"start": replace(STEP, **changes)})


def agent(**changes: Any) -> Blueprint:
    return step(execution=replace(AGENT, **changes))


def told(problems: list[Problem]) -> list[str]:
    return [f"{dotted(p.path)}: {p.message}" for p in problems]


@pytest.mark.case("blueprints:WF-01")
def test_a_blueprint_that_can_run_has_no_problems_and_nothing_of_it_is_called() -> None:
    tools = [TOOL, replace(TOOL, id="other")]
    steps = {
        "start": STEP,
        "named": BlueprintStep(execution={"kind": "code", "codeId": "c"}, on={"done": STAGE_END}, step_name="named"),
        "agent": BlueprintStep(execution={"kind": "agent", "agent_id": "a"}, on={"done": StageEnd()}),
    }
    steps["start"] = replace(STEP, on={"a": "named", "b": ToStep(step_name="agent"), "c": {"kind": "step", "stepName": "start"}})
    module = WorkflowModule(blueprint=stage(steps=steps), codes={"c": never}, agent_specs={"a": replace(AGENT, tools=tools)})

    assert check_blueprint(module.blueprint, module.codes, module.agent_specs) == []
    assert validate(module).ok
    assert validate(BLUEPRINT).ok


EXECUTION = "expected {'kind': 'code', 'codeId': …} or {'kind': 'agent', 'agentId': …}"
WRONG: list[tuple[Any, list[str]]] = [
    ("text", [": expected a Blueprint, got 'text'"]),
    (replace(BLUEPRINT, flow_name=""), ["flow_name: the name of the flow is empty"]),
    (replace(BLUEPRINT, flow_name="constructor"), ["flow_name: the name of the flow is reserved: 'constructor'"]),
    (replace(BLUEPRINT, exclusive=1), ["exclusive: expected True or False, got 1"]),
    (replace(BLUEPRINT, title=None), ["title: expected a text, got nothing"]),
    (replace(BLUEPRINT, entry_stage_name="frist"),
     ["entry_stage_name: there is no stage 'frist' to begin with (did you mean 'first'?)"]),
    (replace(BLUEPRINT, stages={}), ["stages: there is no stage; at least one is needed"]),
    (replace(BLUEPRINT, stages=[STAGE]),
     [f"stages: expected a mapping of names to BlueprintStage, got {repr([STAGE])[:57]}…"]),
    (replace(BLUEPRINT, stages={"first": STEP}), [f"stages['first']: expected a BlueprintStage, got {repr(STEP)[:57]}…"]),
    (replace(BLUEPRINT, stages={"first": STAGE, " x": STAGE}),
     ["stages[' x']: the name of a stage begins or ends with white space: ' x'",
      "stages[' x']: no run can come to the stage ' x'"]),
    (replace(BLUEPRINT, stages={"first": STAGE, 1: STAGE}), ["stages['1']: the name of a stage has to be a text, not 1"]),
    (stage(stage_name="second"), ["stages['first'].stage_name: the stage 'first' calls itself 'second'"]),
    (stage(entry_step_name="begin"), ["stages['first'].entry_step_name: there is no step 'begin' to begin with"]),
    (stage(entry_step_name=None), ["stages['first'].entry_step_name: there is no step nothing to begin with"]),
    (stage(steps={}),
     ["stages['first'].steps: there is no step; at least one is needed"]),
    (stage(initialize_state=None),
     ["stages['first'].initialize_state: the initializer of its State, nothing, cannot be called"]),
    (stage(state_schema=None), ["stages['first'].state_schema: the schema of its State, nothing, is no schema"]),
    (stage(on={}),
     ["stages['first'].steps['start'].on['done']: 'done' of the step 'start' ends the stage 'first', which has no route for it"]),
    (stage(on={"done": "second"}),
     ["stages['first'].on['done']: 'done' of the stage 'first' leads to the stage 'second', which does not exist"]),
    (stage(on=None), ["stages['first'].on: expected a mapping of outcomes to where they lead, got nothing"]),
    (stage(on={"done": STAGE_END}),
     ["stages['first'].on['done']: expected a stage's name, ToStage(stage_name=…) or WorkflowEnd(), got StageEnd()"]),
    (step(step_name="begin"), ["stages['first'].steps['start'].step_name: the step 'start' calls itself 'begin'"]),
    (step(on={"done": "begin"}),
     ["stages['first'].steps['start'].on['done']: 'done' of the step 'start' leads to the step 'begin', which does not exist"]),
    (step(on={"done": WORKFLOW_END}),
     ["stages['first'].steps['start'].on['done']: expected a step's name, ToStep(step_name=…) or StageEnd(), got WorkflowEnd()"]),
    (step(on={"done": STAGE_END, "done ": "start"}),
     ["stages['first'].steps['start'].on['done ']: the name of an outcome begins or ends with white space: 'done '"]),
    (step(execution={"kind": "code", "codeId": "absent"}),
     ["stages['first'].steps['start'].execution: there is no code 'absent'"]),
    (step(execution={"kind": "agent", "agentId": "absent"}),
     ["stages['first'].steps['start'].execution: there is no agent 'absent'"]),
    (step(execution={"kind": "kernel"}),
     ["stages['first'].steps['start'].execution: " + EXECUTION + ", got {'kind': 'kernel'}"]),
    (step(execution="work"),
     ["stages['first'].steps['start'].execution: it is no code, no AgentSpec and no id of one: 'work' cannot be called"]),
    (agent(name=""), ["stages['first'].steps['start'].execution.name: the name of an agent is empty"]),
    (agent(instructions=" "),
     ["stages['first'].steps['start'].execution.instructions: the agent 'writer' is not told what to do"]),
    (agent(output_schema="Text"),
     ["stages['first'].steps['start'].execution.output_schema: its output schema, 'Text', is no schema; give the type itself"]),
    (agent(tools=[TOOL, TOOL]),
     ["stages['first'].steps['start'].execution.tools[1]: the agent 'writer' has two tools with the id 'search'"]),
    (agent(tools=["search"]), ["stages['first'].steps['start'].execution.tools[0]: 'search' is no AgentTool"]),
    (agent(tools=None), ["stages['first'].steps['start'].execution.tools: expected a list, got nothing"]),
    (agent(skills=[SkillSpec(name="tone", description="", content="")] * 2),
     ["stages['first'].steps['start'].execution.skills[1]: the agent 'writer' has two skills called 'tone'"]),
    (agent(skills=["tone"]), ["stages['first'].steps['start'].execution.skills[0]: expected a SkillSpec, got 'tone'"]),
]  # fmt: skip


@pytest.mark.case("blueprints:WF-02", "blueprints:CP-04")
@pytest.mark.parametrize(("blueprint", "expected"), WRONG)
def test_what_cannot_be_is_told_with_its_path(blueprint: Any, expected: list[str]) -> None:
    problems = check_blueprint(blueprint)

    assert told(problems) == expected
    assert {p.code for p in problems} == {"INVALID_WORKFLOW"}


def test_a_problem_of_one_part_hides_none_of_another() -> None:
    broken = replace(stage(entry_step_name="x", state_schema=None), entry_stage_name="y", flow_name="")

    assert [p.path[-1] for p in check_blueprint(broken)] == ["flow_name", "entry_stage_name", "state_schema", "entry_step_name"]


@pytest.mark.case("blueprints:DX-22")
@pytest.mark.parametrize("role", ["default", "Reasoning", "", None, 1])
def test_an_agent_asks_for_one_of_three_roles(role: Any) -> None:
    (wrong,) = check_blueprint(agent(llm=role))

    assert (wrong.path[-1], wrong.code) == ("llm", "INVALID_WORKFLOW")
    assert wrong.message.startswith("expected 'reasoning', 'coding' or 'review', got ")


@pytest.mark.case("blueprints:WF-06")
@pytest.mark.parametrize(("specs", "expected"), [
    ({}, ["there is no agent 'a'"]),
    ({"a": AGENT, "b": AGENT}, ["no step uses the agent 'b'"]),
    ({"a": "writer"}, ["expected an AgentSpec, got 'writer'"]),
    ({"a": replace(AGENT, instructions="", output_schema=None)},
     ["the agent 'writer' is not told what to do", "its output schema, nothing, is no schema"]),
])  # fmt: skip
def test_the_agents_of_a_module_are_those_its_steps_name_and_whole(specs: dict[str, Any], expected: list[str]) -> None:
    problems = check_blueprint(step(execution={"kind": "agent", "agentId": "a"}), {}, specs)

    assert [p.message for p in problems if p.severity == "error"] == expected


def test_a_code_no_step_uses_is_a_warning() -> None:
    (unused,) = check_blueprint(BLUEPRINT, {"c": never})

    assert (unused.severity, unused.path) == ("warning", ("codes", "c"))


def test_a_path_reads_as_the_objects_do_whatever_they_are_called() -> None:
    path = ("stages", "steps", "steps", "on", "on", "target", "target")

    assert dotted(path) == "stages['steps'].steps['on'].on['target']"
    assert dotted(("stages", "on", "entry_step_name")) == "stages['on'].entry_step_name"


# -- warnings -------------------------------------------------------------------------------------


def test_what_no_run_comes_to_is_warned_about() -> None:
    lost = replace(STEP, on={"more": "lost", "done": STAGE_END})
    stages = {
        "first": replace(STAGE, steps={"start": STEP, "lost": lost}, on={"done": "second", "never": "third"}),
        "second": replace(STAGE, on={"done": ToStage(stage_name="second")}),
        "third": replace(STAGE, on={"done": "fourth"}),
        "fourth": STAGE,
    }
    problems = check_blueprint(replace(BLUEPRINT, stages=stages))

    assert {p.severity for p in problems} == {"warning"}
    assert told(problems) == [
        "stages['first'].steps['lost']: no run can come to the step 'lost'",
        "stages['first'].on['never']: no step ends the stage 'first' with 'never'",
        "stages['third']: no run can come to the stage 'third'",
        "stages['fourth']: no run can come to the stage 'fourth'",
    ]


def test_a_stage_that_only_a_lost_step_leads_to_is_lost_too() -> None:
    lost = BlueprintStep(execution=never, on={"escape": STAGE_END})
    stages = {
        "first": replace(STAGE, steps={"start": STEP, "lost": lost}, on={"done": WORKFLOW_END, "escape": "second"}),
        "second": STAGE,
    }

    assert [dotted(p.path) for p in check_blueprint(replace(BLUEPRINT, stages=stages))] == [
        "stages['first'].steps['lost']",
        "stages['second']",
    ]


def test_nothing_is_said_of_what_is_reached_while_a_way_is_broken() -> None:
    broken = replace(BLUEPRINT, stages={"first": replace(STAGE, on={"done": "sceond"}), "second": STAGE})

    assert [p.severity for p in check_blueprint(broken)] == ["error"]


# -- conflicts ------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:WF-05")
def test_a_name_or_id_that_another_flow_has_is_a_conflict() -> None:
    one = WorkflowModule(blueprint=BLUEPRINT, codes={"c": never}, agent_specs={"a": AGENT})
    other = replace(one, blueprint=replace(BLUEPRINT, flow_name="others"))
    free = WorkflowModule(blueprint=replace(BLUEPRINT, flow_name="free"), codes={"d": never})

    assert check_conflicts(free, [one, other]) == []
    assert [(p.code, p.path) for p in check_conflicts(other, [one])] == [
        ("WORKFLOW_CONFLICT", ("codes", "c")),
        ("WORKFLOW_CONFLICT", ("agent_specs", "a")),
    ]
    assert check_conflicts(one, [free, one])[0].path == ("flow_name",)


# -- skills with files ----------------------------------------------------------------------------


class Packaged(SkillSpec):
    """A skill that knows its folder."""

    folder = Path()


@pytest.mark.case("blueprints:WF-10")
@pytest.mark.parametrize(("text", "expected"), [
    ("---\nname: tone\ndescription: d\n---\nPlain.", ""),
    ("Plain.", "its SKILL.md is no such file: there is no frontmatter"),
    ("---\nname: other\ndescription: d\n---\n", "its SKILL.md gives the name 'other', the skill 'tone'"),
    ("---\nname: tone\ndescription: e\n---\n", "its SKILL.md gives the description 'e', the skill 'd'"),
    ("---\nname: tone\nname: tone\ndescription: d\n---\n",
     "its SKILL.md is no such file: the key 'name' stands here a second time"),
    (None, "its SKILL.md is no such file: cannot be read: No such file or directory"),
])  # fmt: skip
def test_the_file_of_a_skill_says_what_the_skill_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, expected: str
) -> None:
    if text is not None:
        (tmp_path / "SKILL.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(Packaged, "folder", tmp_path)
    skill = Packaged(name="tone", description="d", content="Plain.", assets=("SKILL.md", "more.md"))

    assert [p.message for p in check_blueprint(agent(skills=[skill]))] == ([f"the skill 'tone': {expected}"] if expected else [])


@pytest.mark.parametrize(("assets", "expected"), [
    (["more.md"], "the skill 'tone': of its files none is called SKILL.md; exactly one has to be"),
    (["SKILL.md", "deep/SKILL.md"], "the skill 'tone': of its files 2 is called SKILL.md; exactly one has to be"),
    ([""], "expected paths, got ['']"),
    ([1], "expected paths, got [1]"),
    ("SKILL.md", "expected a list, got 'SKILL.md'"),
])  # fmt: skip
def test_exactly_one_of_a_skills_files_is_its_own(assets: Any, expected: str) -> None:
    skill = SkillSpec(name="tone", description="d", content="Plain.", assets=assets)

    assert [p.message for p in check_blueprint(agent(skills=[skill]))] == [expected]


# -- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [
    "next", ToStep(step_name="next"), {"kind": "step", "stepName": "next"}, {"kind": "step", "step_name": "next"},
])  # fmt: skip
def test_a_step_is_named_in_any_of_these_ways(value: Any) -> None:
    assert step_route(value) == ToStep(step_name="next")


@pytest.mark.parametrize("value", [
    "next", ToStage(stage_name="next"), {"kind": "stage", "stageName": "next"}, {"kind": "stage", "stage_name": "next"},
])  # fmt: skip
def test_so_is_a_stage(value: Any) -> None:
    assert stage_route(value) == ToStage(stage_name="next")


def test_an_end_is_written_in_either_of_two_ways() -> None:
    assert [step_route(v) for v in (StageEnd(), {"kind": "stage_end"})] == [STAGE_END, STAGE_END]
    assert [stage_route(v) for v in (WorkflowEnd(), {"kind": "workflow_end"})] == [WORKFLOW_END, WORKFLOW_END]


@pytest.mark.parametrize("route", [step_route, stage_route])
@pytest.mark.parametrize("value", [
    "", None, 1, ("next",), {}, {"kind": "step"}, {"kind": "stage"}, {"kind": "step", "stepName": ""},
    {"kind": "stage", "stageName": None}, {"kind": "step", "stepName": "a", "step_name": "a"},
    {"kind": "step", "stepName": "a", "more": 1}, {"kind": "end"}, {"kind": ["step"]}, {"target": "a"}, {"end": True},
    {"kind": "stage_end", "stepName": "a"}, {"kind": "workflow_end", "stageName": "a"}, StageEnd, WorkflowEnd,
    ToStep(step_name=""), ToStage(stage_name=""),
])  # fmt: skip
def test_any_other_shape_of_a_route_is_refused(route: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(ShapeInvalid, match=r"^expected ") as caught:
        route(value)

    assert caught.value.code == "INVALID_WORKFLOW"
    assert isinstance(caught.value, DefinitionError)


def test_a_route_in_the_words_of_yaml_says_where_it_belongs() -> None:
    with pytest.raises(ShapeInvalid, match="That is how a YAML file says it; here a plain text names the step"):
        step_route({"target": "next"})


def test_an_execution_is_code_an_agent_or_the_id_of_one() -> None:
    codes, agents = {"c": never}, {"a": AGENT}

    assert step_execution(never, {}, {}) is never
    assert step_execution(AGENT, {}, {}) is AGENT
    for key in ("codeId", "code_id"):
        assert step_execution({"kind": "code", key: "c"}, codes, agents) is never
    for key in ("agentId", "agent_id"):
        assert step_execution({"kind": "agent", key: "a"}, codes, agents) is AGENT
    for wrong in ({"kind": "code", "agentId": "a"}, {"kind": "code"}, {"kind": "code", "codeId": "a"}, {}, None, {"codeId": 1}):
        with pytest.raises(ShapeInvalid):
            step_execution(wrong, codes, agents)


class Coded:
    def __call__(self, _input: None, access: Any) -> Any:
        raise AssertionError("called")

    @property
    def recover(self) -> Any:
        raise AssertionError("read")


def with_recover(recover: Any) -> Any:
    def code(_input: None, access: Any) -> None: ...

    code.recover = recover  # type: ignore[attr-defined]
    return code


@pytest.mark.parametrize(("code", "expected"), [
    (never, ""), (Coded(), ""), (functools.partial(never, 1), ""), (lambda i, a, more=1: None, ""), (max, ""),
    (with_recover(never), ""), (with_recover(None), ""), (with_recover(3), "has a recover that cannot be called"),
    (Coded, "is a class; a function or an object with __call__ is wanted"),
    (lambda: None, "cannot be called with (input, access); it takes () (under @loom.code it may take `access` alone)"),
    (lambda a, b, c: None,
     "cannot be called with (input, access); it takes (a, b, c) (under @loom.code it may take `access` alone)"),
    ("code", "cannot be called"),
])  # fmt: skip
def test_code_takes_an_input_and_an_access_and_is_not_run_to_find_out(code: Any, expected: str) -> None:
    assert code_problem(code) == expected


class Foreign:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        raise ZeroDivisionError("odd")


@pytest.mark.parametrize(("schema", "expected"), [
    (dict, ""), (type(None), ""), (list[int], ""), (Annotated[int, pydantic.Field(gt=1)], ""), (int | None, ""), (Any, ""),
    (pydantic.BaseModel, ""), (pydantic.TypeAdapter(int), ""), (NeverParsed(), ""),
    (None, "is no schema"), ("int", "is no schema; give the type itself"), (pytest, "is no schema; give the type itself"),
    (never, "is a function, and no schema"), (functools.partial(never), "is a function, and no schema"),
    (Foreign, "cannot be a schema: ZeroDivisionError: odd"),
    (3, "cannot be a schema: Unable to generate pydantic-core schema for 3"),
])  # fmt: skip
def test_a_schema_is_what_pydantic_takes_or_an_object_that_parses(schema: Any, expected: str) -> None:
    assert schema_problem(schema) == expected


@pytest.mark.parametrize("name", ["a", "Über uns", "a b", "complete", "hasOwnProperty", "1", "\x1f", "\x85"])
def test_a_name_may_be_nearly_any_text(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    "name", ["", " ", " a", "a\n", "\ufeffa", "a\u00a0", "__proto__", "prototype", "constructor", None, 1, b"a"]
)
def test_a_name_is_no_blank_and_not_reserved(name: Any) -> None:
    assert name_problem(name)


# -- metadata -------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:SC-14")
@pytest.mark.parametrize("version", [metadata.workflow_protocol_version, "1999-01-01", "x", " "])
def test_metadata_of_any_version_fits_its_shape(version: str) -> None:
    given = {"type": "workflow", "version": version}

    assert metadata.workflow_metadata_schema.validate_python(given).model_dump() == given


@pytest.mark.case("blueprints:SC-15")
@pytest.mark.parametrize("given", [
    {}, None, {"type": "workflow"}, {"version": "1"}, {"type": "app", "version": "1"}, {"type": "workflow", "version": ""},
    {"type": "workflow", "version": 20261008}, {"type": "workflow", "version": None},
    {"type": "workflow", "version": "1", "name": "x"},
])  # fmt: skip
def test_other_metadata_does_not(given: Any) -> None:
    with pytest.raises(pydantic.ValidationError):
        metadata.workflow_metadata_schema.validate_python(given)


def test_the_protocol_is_the_contracts() -> None:
    assert metadata.workflow_protocol_version == "2026-10-08"


@pytest.mark.parametrize(("name", "now"), [("Query", StorageQuery), ("SnapshotCategory", StorageCategory)])
def test_a_former_name_still_leads_to_what_it_named_and_says_so(name: str, now: Any) -> None:
    with pytest.warns(DeprecationWarning, match=f"{name} is the former name of Storage"):
        assert getattr(metadata, name) is now


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Queries'"):
        _ = metadata.Queries
