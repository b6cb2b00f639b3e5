"""What a blueprint has to be so that it can run, and what in it is likely not meant. The same for dataclasses and for YAML.

Every problem is told at once, with its path. Nothing of the blueprint is called.
Rules: contracts/blueprints.md §1.1, §1.4, §3.2, §3.4; decisions, Blueprints 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast, get_args

from loomnb.blueprints.diagnostics import PathTo, Problem, Severity, listed, meant, short
from loomnb.blueprints.model import (
    AgentSpec,
    Blueprint,
    BlueprintStage,
    BlueprintStep,
    LlmRole,
    SkillSpec,
    StageEnd,
    ToStage,
    ToStep,
    WorkflowEnd,
    WorkflowModule,
)
from loomnb.blueprints.resources import skill_file_problem
from loomnb.blueprints.shapes import (
    ShapeInvalid,
    code_problem,
    initializer_problem,
    name_problem,
    schema_problem,
    stage_route,
    step_execution,
    step_route,
    tool_problem,
)

__all__ = ["check_blueprint", "check_conflicts"]

T = TypeVar("T")

LLM_ROLES: tuple[str, ...] = get_args(LlmRole)


def check_blueprint(
    blueprint: Blueprint, codes: Mapping[str, Any] | None = None, agents: Mapping[str, AgentSpec] | None = None
) -> list[Problem]:
    """All that is wrong with a blueprint, in the order of its parts; warnings too, once its graph holds together.

    Args:
        blueprint: what is judged, also when it is something else.
        codes: what its steps may name by id: those of its own module, because what no step uses is told.
        agents: the same for agents.
    """
    checker = _Checker(codes or {}, agents or {})
    checker.blueprint(blueprint)
    return checker.problems


def check_conflicts(module: WorkflowModule, known: Iterable[WorkflowModule]) -> list[Problem]:
    """What of a module is taken by those that are known: the name of its flow, the id of a code or of an agent."""
    found: list[Problem] = []
    for other in known:
        if other.blueprint.flow_name == module.blueprint.flow_name:
            message = f"there is another flow called {short(module.blueprint.flow_name)}"
            found.append(Problem(("flow_name",), "WORKFLOW_CONFLICT", message, "Give it another name."))
        for part, kind in (("codes", "code"), ("agent_specs", "agent")):
            found += [
                Problem((part, id_), "WORKFLOW_CONFLICT", f"another flow has a {kind} with the id {short(id_)}")
                for id_ in getattr(module, part)
                if id_ in getattr(other, part)
            ]
    return found


@dataclass(slots=True)
class _StageGraph:
    """What is known of one stage's ways."""

    path: PathTo
    entry: str
    steps: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    endings: dict[str, dict[str, PathTo]] = field(default_factory=dict[str, "dict[str, PathTo]"])
    """step → outcome that ends the stage → where it says so"""
    routes: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """outcome → stage; None for the end"""


class _Checker:
    def __init__(self, codes: Mapping[str, Any], agents: Mapping[str, AgentSpec]) -> None:
        self.problems: list[Problem] = []
        self._codes = codes
        self._agents = agents
        self._used: set[tuple[str, str]] = set()
        self._is_whole = True

    def _tell(self, path: PathTo, message: str, advice: str = "", severity: Severity = "error") -> None:
        self.problems.append(Problem(path, "INVALID_WORKFLOW", message, advice, severity))

    def _tell_gap(self, path: PathTo, message: str, advice: str = "") -> None:
        """The same for what leaves the ways unclear: then nothing is said of what they reach."""
        self._is_whole = False
        self._tell(path, message, advice)

    def _name(self, path: PathTo, what: str, name: Any) -> None:
        if wrong := name_problem(name):
            self._tell(path, f"the name of {what} {wrong}")

    def _named_map(self, path: PathTo, value: Any, of: str, type_: type[T]) -> dict[str, T]:
        """The entries of a map that are what they have to be, under the names they have to have."""
        if not isinstance(value, Mapping):
            self._tell_gap(path, f"expected a mapping of names to {type_.__name__}, got {short(value)}")
            return {}
        found: dict[str, T] = {}
        for name, item in value.items():
            here: PathTo = (*path, name if isinstance(name, str) else short(name))
            self._name(here, f"a {of}", name)
            if not isinstance(item, type_):
                self._tell_gap(here, f"expected a {type_.__name__}, got {short(item)}")
                continue
            given = getattr(item, f"{of}_name")
            if given not in ("", name):
                advice = f"Call it {short(name)}, or leave {of}_name out." if isinstance(name, str) else ""
                self._tell((*here, f"{of}_name"), f"the {of} {short(name)} calls itself {short(given)}", advice)
            if isinstance(name, str):
                found[name] = item
        return found

    def _entry(self, path: PathTo, entry: Any, known: Any, of: str) -> None:
        if not isinstance(known, Mapping):
            return
        if not known:
            self._tell_gap((*path[:-1], f"{of}s"), f"there is no {of}; at least one is needed")
        elif not isinstance(entry, str) or entry not in known:
            message = f"there is no {of} {short(entry)} to begin with{meant(entry, known)}"
            self._tell_gap(path, message, f"There are: {listed(known)}.")

    def blueprint(self, value: Any) -> None:
        if not isinstance(value, Blueprint):
            self._tell((), f"expected a Blueprint, got {short(value)}")
            return
        self._name(("flow_name",), "the flow", value.flow_name)
        if not isinstance(value.exclusive, bool):
            self._tell(("exclusive",), f"expected True or False, got {short(value.exclusive)}")
        if not isinstance(value.title, str):
            self._tell(("title",), f"expected a text, got {short(value.title)}")
        stages = self._named_map(("stages",), value.stages, "stage", BlueprintStage)
        self._entry(("entry_stage_name",), value.entry_stage_name, value.stages, "stage")
        graphs = {name: self._stage(("stages", name), name, stage, value.stages) for name, stage in stages.items()}
        self._resources()
        if self._is_whole:
            self._reach(value.entry_stage_name, graphs)

    # -- stages and steps

    def _stage(self, path: PathTo, name: str, stage: BlueprintStage, stages: Mapping[str, Any]) -> _StageGraph:
        if wrong := schema_problem(stage.state_schema):
            self._tell((*path, "state_schema"), f"the schema of its State, {short(stage.state_schema)}, {wrong}")
        if wrong := initializer_problem(stage.initialize_state):
            self._tell((*path, "initialize_state"), f"the initializer of its State, {short(stage.initialize_state)}, {wrong}")
        graph = _StageGraph(path, stage.entry_step_name)
        steps = self._named_map((*path, "steps"), stage.steps, "step", BlueprintStep)
        self._entry((*path, "entry_step_name"), stage.entry_step_name, stage.steps, "step")
        for key, step in steps.items():
            self._step((*path, "steps", key), key, step, stage.steps, graph)
        for outcome, where, route in self._routes((*path, "on"), stage.on, stage_route):
            match route:
                case ToStage(stage_name=target):
                    self._target(where, target, stages, "stage", f"the stage {short(name)}")
                    graph.routes[outcome] = target
                case WorkflowEnd():
                    graph.routes[outcome] = None
        known = stage.on if isinstance(stage.on, Mapping) else {}
        for key, endings in graph.endings.items():
            for outcome, where in endings.items():
                if outcome not in known and isinstance(stage.on, Mapping):
                    said = f"{short(outcome)} of the step {short(key)} ends the stage {short(name)}, which has no route for it"
                    advice = f"Say in the stage's `on` where {short(outcome)} leads."
                    self._tell_gap(where, f"{said}{meant(outcome, known)}", advice)
        return graph

    def _step(self, path: PathTo, name: str, step: BlueprintStep, steps: Mapping[str, Any], graph: _StageGraph) -> None:
        self._execution((*path, "execution"), step.execution)
        graph.steps[name], graph.endings[name] = set(), {}
        routes = self._routes((*path, "on"), step.on, step_route)
        if isinstance(step.on, Mapping) and not step.on:
            self._tell((*path, "on"), f"the step {short(name)} has no route; it needs at least one outcome")
        for outcome, where, route in routes:
            match route:
                case ToStep(step_name=target):
                    self._target(where, target, steps, "step", f"the step {short(name)}")
                    graph.steps[name].add(target)
                case StageEnd():
                    graph.endings[name][outcome] = where

    def _routes(self, path: PathTo, value: Any, read: Callable[[Any], T]) -> list[tuple[str, PathTo, T]]:
        if not isinstance(value, Mapping):
            self._tell_gap(path, f"expected a mapping of outcomes to where they lead, got {short(value)}")
            return []
        found: list[tuple[str, PathTo, T]] = []
        for outcome, given in value.items():
            here: PathTo = (*path, outcome if isinstance(outcome, str) else short(outcome))
            self._name(here, "an outcome", outcome)
            try:
                found.append((outcome, here, read(given)))
            except ShapeInvalid as exc:
                self._tell_gap(here, exc.message, exc.advice)
        return found

    def _target(self, path: PathTo, target: str, known: Mapping[str, Any], of: str, owner: str) -> None:
        if isinstance(known, Mapping) and target not in known:
            message = (
                f"{short(path[-1])} of {owner} leads to the {of} {short(target)}, which does not exist{meant(target, known)}"
            )
            advice = f"Steps of this stage are: {listed(known)}." if of == "step" else f"There are: {listed(known)}."
            self._tell_gap((*path, "target"), message, advice)

    def _execution(self, path: PathTo, value: Any) -> None:
        if isinstance(value, Mapping):
            ids = {str(k): v for k, v in value.items()}
            for part, names in (("codes", ("codeId", "code_id")), ("agent_specs", ("agentId", "agent_id"))):
                self._used |= {(part, ids[n]) for n in names if isinstance(ids.get(n), str)}
        try:
            found = step_execution(value, self._codes, self._agents)
        except ShapeInvalid as exc:
            self._tell(path, exc.message, exc.advice)
            return
        if isinstance(value, AgentSpec):
            self._agent(path, cast(AgentSpec, found))

    # -- codes and agents

    def _resources(self) -> None:
        for id_, code in self._codes.items():
            self._id(("codes", id_), id_)
            if wrong := code_problem(code):
                self._tell(("codes", id_), f"the code {short(code)} {wrong}")
            if ("codes", id_) not in self._used:
                self._tell(("codes", id_), f"no step uses the code {short(id_)}", severity="warning")
        for id_, agent in self._agents.items():
            self._id(("agent_specs", id_), id_)
            self._agent(("agent_specs", id_), agent)
            if ("agent_specs", id_) not in self._used:
                self._tell(("agent_specs", id_), f"no step uses the agent {short(id_)}", "Take it out, or give it a step.")

    def _id(self, path: PathTo, id_: Any) -> None:
        if not isinstance(id_, str) or not id_:
            self._tell(path, f"an id has to be a text that is not empty, not {short(id_)}")

    def _agent(self, path: PathTo, agent: Any) -> None:
        if not isinstance(agent, AgentSpec):
            self._tell(path, f"expected an AgentSpec, got {short(agent)}")
            return
        self._name((*path, "name"), "an agent", agent.name)
        if not isinstance(agent.instructions, str) or not agent.instructions.strip():
            self._tell((*path, "instructions"), f"the agent {short(agent.name)} is not told what to do")
        if not isinstance(agent.description, str):
            self._tell((*path, "description"), f"expected a text, got {short(agent.description)}")
        if agent.llm not in LLM_ROLES:
            self._tell((*path, "llm"), f"expected {listed(LLM_ROLES)}, got {short(agent.llm)}{meant(agent.llm, LLM_ROLES)}")
        if wrong := schema_problem(agent.output_schema):
            self._tell((*path, "output_schema"), f"its output schema, {short(agent.output_schema)}, {wrong}")
        seen: set[Any] = set()
        for at, tool in enumerate(self._list((*path, "tools"), agent.tools)):
            if wrong := tool_problem(tool):
                self._tell((*path, "tools", at), f"{short(tool)} {wrong}")
            elif tool.id in seen:
                self._tell((*path, "tools", at), f"the agent {short(agent.name)} has two tools with the id {short(tool.id)}")
            else:
                seen.add(tool.id)
        names: set[str] = set()
        for at, skill in enumerate(self._list((*path, "skills"), agent.skills)):
            self._skill((*path, "skills", at), agent.name, skill, names)

    def _list(self, path: PathTo, value: Any) -> Sequence[Any]:
        if isinstance(value, Sequence) and not isinstance(value, str):
            return value
        self._tell(path, f"expected a list, got {short(value)}")
        return ()

    def _skill(self, path: PathTo, agent: str, skill: Any, names: set[str]) -> None:
        if not isinstance(skill, SkillSpec):
            self._tell(path, f"expected a SkillSpec, got {short(skill)}")
            return
        self._name((*path, "name"), "a skill", skill.name)
        if isinstance(skill.name, str):
            if skill.name in names:
                self._tell(path, f"the agent {short(agent)} has two skills called {short(skill.name)}")
            names.add(skill.name)
        for what in ("description", "content"):
            if not isinstance(getattr(skill, what), str):
                self._tell((*path, what), f"expected a text, got {short(getattr(skill, what))}")
        assets = self._list((*path, "assets"), skill.assets)
        if not all(isinstance(a, str) and a for a in assets):
            self._tell((*path, "assets"), f"expected paths, got {short(list(assets))}")
        elif assets and (wrong := skill_file_problem(skill)):
            self._tell((*path, "assets"), f"the skill {short(skill.name)}: {wrong}")

    # -- what is likely not meant

    def _reach(self, entry: str, graphs: Mapping[str, _StageGraph]) -> None:
        """Warn of what no run can come to. Only for a graph that holds together: else too much would be told."""
        ways: dict[str, set[str]] = {}
        for name, graph in graphs.items():
            steps = _reached(graph.entry, graph.steps)
            for step in (s for s in graph.steps if s not in steps):
                self._tell((*graph.path, "steps", step), f"no run can come to the step {short(step)}", severity="warning")
            ended = {outcome for step in steps for outcome in graph.endings[step]}
            ways[name] = {target for o in ended if (target := graph.routes[o]) is not None}
            used = {outcome for endings in graph.endings.values() for outcome in endings}
            for outcome in (o for o in graph.routes if o not in used):
                message = f"no step ends the stage {short(name)} with {short(outcome)}"
                self._tell((*graph.path, "on", outcome), message, severity="warning")
        reached = _reached(entry, ways)
        for name in (n for n in graphs if n not in reached):
            self._tell(graphs[name].path, f"no run can come to the stage {short(name)}", severity="warning")


def _reached(entry: str, ways: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    to_see = [entry]
    while to_see:
        name = to_see.pop()
        if name not in seen:
            seen.add(name)
            to_see += ways[name]
    return seen
