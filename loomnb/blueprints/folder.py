"""A workflow folder: `workflow.yaml`, its stage files, its agents and skills in Markdown, and the Python they name.

Reads all of it into a WorkflowModule, or tells all that is wrong with it, each at its file, line and column. Where something
cannot be read, something that fits stands in its place, so that the rest is still judged. What a blueprint has to be is `checks`'
to know. Rules: contracts/blueprints.md §3.1–3.4.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loomnb.blueprints.checks import LLM_ROLES, check_blueprint
from loomnb.blueprints.diagnostics import BlueprintInvalid, Diagnostic, Findings, PathTo, Place, Report, dotted, short
from loomnb.blueprints.metadata import workflow_metadata_schema, workflow_protocol_version
from loomnb.blueprints.model import (
    STAGE_END,
    WORKFLOW_END,
    AgentSpec,
    Blueprint,
    BlueprintStage,
    BlueprintStep,
    StageEnd,
    StepRoute,
    ToStage,
    ToStep,
    WorkflowModule,
)
from loomnb.blueprints.modules import MISSING, Modules, folder_modules
from loomnb.blueprints.references import Kind, Reference, ReferenceInvalid, reference
from loomnb.blueprints.resources import FolderSkill, Markdown, folder_assets, parse_markdown
from loomnb.blueprints.shapes import code_problem, initializer_problem, schema_problem, tool_problem
from loomnb.blueprints.sources import HOLE, Fields, Node, Reader, parse_yaml, read_text

__all__ = ["load_folder", "validate"]

WORKFLOW_FILE = "workflow.yaml"
_FORMER = {
    "input": "A step takes no input: what it needs stands in the State of its stage.",
    "preHook": "There are no hooks: make it a step of its own before this one.",
    "postHook": "There are no hooks: make it a step of its own after this one.",
}
_JUDGES: dict[str, Callable[[Any], str]] = {
    "codes": code_problem,
    "initializers": initializer_problem,
    "schemas": schema_problem,
    "tools": tool_problem,
}
_NO_CODE = {"kind": "code", "codeId": "?"}


def load_folder(path: str | os.PathLike[str]) -> WorkflowModule:
    """The blueprint of a workflow folder, with the code and the agents its steps name.

    The Python files of the folder are imported anew at each call, so that an edit counts; that runs their top level. Nothing
    they define is called. Warnings are for `validate` to tell.

    Args:
        path: a folder with `workflow.yaml`, or that file.

    Raises:
        BlueprintInvalid: it cannot be read, or could not run. Tells all of it; `diagnostics` has the places.
    """
    module, report = _read(Path(path))
    if module is None or not report.ok:
        raise BlueprintInvalid.of_report(report)
    return module


def validate(workflow: str | os.PathLike[str] | Blueprint | WorkflowModule) -> Report:
    """All that is wrong with a workflow, and what in it is likely not meant: what no run can come to, routes nothing uses.

    Args:
        workflow: a workflow folder or its `workflow.yaml` (its Python files are imported as by `load_folder`), or the objects.
    """
    if isinstance(workflow, (str, os.PathLike)):
        return _read(Path(workflow))[1]
    module = workflow if isinstance(workflow, WorkflowModule) else WorkflowModule(blueprint=workflow)
    problems = check_blueprint(module.blueprint, module.codes, module.agent_specs)
    name = getattr(module.blueprint, "flow_name", "")
    return Report(
        f"The blueprint {short(name)}",
        [
            Diagnostic(p.code, p.message, advice=p.advice, severity=p.severity, place=dotted(p.path) or "blueprint")
            for p in problems
        ],
    )


def _read(path: Path) -> tuple[WorkflowModule | None, Report]:
    root, file = (path, WORKFLOW_FILE) if path.is_dir() or not path.suffix else (path.parent, path.name)
    findings = Findings()
    module = None
    text = read_text(root, file, findings, f"A workflow folder has a {WORKFLOW_FILE}; it was looked for at {root / file}.")
    if text is not None:
        with folder_modules(root, findings) as modules:
            module = _Loader(root, file, findings, modules).module(text)
    return module, Report(f"The workflow folder {root.resolve().name!r}", findings.in_order())


class _Loader:
    """One reading of one folder."""

    def __init__(self, root: Path, file: str, findings: Findings, modules: Modules) -> None:
        self._root = root.absolute()  # a skill knows its folder, and a notebook may change its own
        self._file = file
        self._findings = findings
        self._modules = modules
        self._read = Reader(findings)
        self._flow = ""
        self._codes: dict[str, Any] = {}
        self._agents: dict[str, AgentSpec] = {}
        self._places: dict[PathTo, Place] = {(): Place(file, 1, 1)}
        self._is_whole = True
        """Whether every way between steps and stages was read."""

    def module(self, text: str) -> WorkflowModule | None:
        root = parse_yaml(text, self._file, self._findings)
        top = self._read.fields(root, "", ("workflow",), ("metadata",)) if root is not None else None
        if top is None:
            return None
        if "metadata" in top:
            self._metadata(top["metadata"])
        blueprint = self._workflow(top["workflow"]) if "workflow" in top else None
        if blueprint is None:
            return None
        module = WorkflowModule(blueprint=blueprint, codes=self._codes, agent_specs=self._agents)
        for problem in check_blueprint(blueprint, self._codes, self._agents):
            if self._is_whole or problem.severity == "error":
                self._findings.tell(problem.code, problem.message, self._at(problem.path), problem.advice, problem.severity)
        return module

    def _at(self, path: PathTo) -> Place:
        while path not in self._places:
            path = path[:-1]
        return self._places[path]

    def _metadata(self, node: Node) -> None:
        fields = self._read.fields(node, "", ("type", "version"))
        if fields is None or len(fields) < 2:
            return
        try:
            metadata = workflow_metadata_schema.validate_python({key: value.value for key, value in fields.items()})
        except ValidationError as exc:
            for error in exc.errors(include_url=False, include_context=False):
                wrong = fields[str(error["loc"][0])]
                if wrong.value is not HOLE:
                    self._read.wrong(f"expected {_expected(error['msg'])}, got {wrong.shown}", wrong.at)
            return
        if metadata.version != workflow_protocol_version:
            message = f"the protocol {short(metadata.version)} is not known; this library runs {workflow_protocol_version!r}"
            self._findings.tell("UNSUPPORTED_WORKFLOW_PROTOCOL", message, fields["version"].at)

    # -- workflow and stages

    def _workflow(self, node: Node) -> Blueprint | None:
        fields = self._read.fields(node, "", ("name", "entry", "stages"), ("exclusive",), former=_FORMER)
        if fields is None:
            return None
        for field, name in (("flow_name", "name"), ("entry_stage_name", "entry"), ("exclusive", "exclusive")):
            self._place((field,), fields, name)
        self._flow = self._read.text(fields.get("name")) or ""
        listed = self._read.mapping(fields["stages"], "stages") if "stages" in fields else None
        if listed is None:
            return None
        self._places["stages",] = fields["stages"].key_at
        stages = {key: self._listed_stage(key, value) for key, value in listed.items()}
        entry = self._read.text(fields.get("entry"))
        return Blueprint(
            flow_name=self._name(fields.get("name"), "workflow"),
            entry_stage_name=self._or_first(entry, stages),
            stages=stages,
            exclusive=bool(self._read.flag(fields["exclusive"])) if "exclusive" in fields else False,
        )

    def _listed_stage(self, key: str, node: Node) -> BlueprintStage:
        path: PathTo = ("stages", key)
        self._places[path] = node.key_at
        fields = self._read.fields(node, "", ("stage", "on"), former=_FORMER) or {}
        routes = self._routes((*path, "on"), fields.get("on"), lambda t: ToStage(stage_name=t), WORKFLOW_END, WORKFLOW_END)
        stage = self._stage(path, key, fields["stage"]) if "stage" in fields else None
        if stage is None:
            self._is_whole = False
            ends: dict[str, StepRoute] = dict.fromkeys(routes or {}, STAGE_END) or {"?": "?"}
            steps = {"?": BlueprintStep(execution=self._no_code(), on=ends)}
            stage = BlueprintStage(state_schema=dict, initialize_state=_nothing, entry_step_name="?", steps=steps)
        if routes is None:
            ended = [o for step in stage.steps.values() for o, to in step.on.items() if isinstance(to, StageEnd)]
            routes = dict.fromkeys(ended, WORKFLOW_END)
        return replace(stage, on=routes)

    def _stage(self, path: PathTo, key: str, node: Node) -> BlueprintStage | None:
        ref = self._existing(node, "stages")
        text = read_text(self._root, ref.file, self._findings) if ref is not None else None
        root = parse_yaml(text, ref.file, self._findings) if ref is not None and text is not None else None
        top = self._read.fields(root, "", ("stage",)) if root is not None else None
        if top is None or "stage" not in top:
            return None
        fields = self._read.fields(top["stage"], "", ("name", "state", "entry", "steps"), former=_FORMER)
        if fields is None:
            return None
        self._place((*path, "stage_name"), fields, "name")
        self._place((*path, "entry_step_name"), fields, "entry")
        state = (self._read.fields(fields["state"], "", ("schema", "initialize")) if "state" in fields else None) or {}
        schema, _ = self._value(state.get("schema"), "schemas")
        initialize, _ = self._value(state.get("initialize"), "initializers")
        entry = self._read.text(fields.get("entry"))
        name = self._name(fields.get("name"), key)
        if not name:  # in a dataclass that means its key
            self._read.wrong("the name of a stage is empty", fields["name"].at)
        listed = self._read.mapping(fields["steps"], "steps") if "steps" in fields else None
        if listed is None:
            return None
        self._places[*path, "steps"] = fields["steps"].key_at
        steps = {step: self._step((*path, "steps", step), step, value) for step, value in listed.items()}
        return BlueprintStage(
            state_schema=dict if schema is MISSING else schema,
            initialize_state=_nothing if initialize is MISSING else initialize,
            entry_step_name=self._or_first(entry, steps),
            steps=steps,
            stage_name=name,
        )

    # -- steps

    def _step(self, path: PathTo, key: str, node: Node) -> BlueprintStep:
        self._places[path] = node.key_at
        execution: Any = None
        on: Node | None = None
        found = self._read.mapping(node, "fields of a step")
        if found is not None and "type" not in found:
            self._read.wrong("missing field 'type'", node.key_at, "Say `type: code` or `type: agent`.")
        if found is not None:
            on = found.get("on")
            advice = "A step is code or an agent; nothing else moves a run."
            kind = self._read.one_of(found.get("type"), ("code", "agent"), advice)
            if kind == "code":
                fields = self._read.fields(node, "", ("type", "code", "on"), former=_FORMER) or {}
                execution = self._code(path, fields.get("code"))
            elif kind == "agent":
                required = ("type", "agent", "llm", "outputSchema", "on")
                fields = self._read.fields(node, "", required, ("skills", "tools"), former=_FORMER) or {}
                execution = self._agent(fields)
        routes = self._routes((*path, "on"), on, lambda t: ToStep(step_name=t), STAGE_END, ToStep(step_name=key))
        return BlueprintStep(
            execution=execution or self._no_code(), on={"?": ToStep(step_name=key)} if routes is None else routes
        )

    def _routes(
        self, path: PathTo, node: Node | None, to: Callable[[str], Any], end: Any, anything: Any
    ) -> dict[str, Any] | None:
        """Outcome → where it leads; `anything` for one that cannot be read, None when none can."""
        found = self._read.mapping(node, "outcomes to where they lead") if node is not None else None
        if found is None or node is None:
            self._is_whole = False
            return None
        self._places[path] = node.key_at
        routes: dict[str, Any] = {}
        for outcome, value in found.items():
            self._places[*path, outcome] = value.key_at
            route = self._route((*path, outcome, "target"), value, to, end)
            self._is_whole &= route is not None
            routes[outcome] = anything if route is None else route
        return routes

    def _route(self, path: PathTo, node: Node, to: Callable[[str], Any], end: Any) -> Any:
        """Where it leads; None when that was told to be unreadable."""
        fields = self._read.fields(node, "where it leads, {target: …} or {end: true}", (), ("target", "end"))
        if fields is None:
            return None
        if len(fields) != 1:
            if not fields and node.value:
                return None  # what stands there instead was told
            at = fields["end"].key_at if fields else node.key_at
            self._read.wrong("expected either `target: …` or `end: true`", at, "An outcome leads to one place, or ends.")
            return None
        if "target" in fields:
            self._places[path] = fields["target"].at
            target = self._read.text(fields["target"])
            return to(target) if target is not None else None
        if fields["end"].value is True:
            return end
        if fields["end"].value is not HOLE:
            self._read.wrong(f"expected `end: true`, got {fields['end'].shown}", fields["end"].at)
        return None

    def _code(self, path: PathTo, node: Node | None) -> Mapping[str, str] | None:
        code, ref = self._value(node, "codes")
        if ref is None or code is MISSING or node is None:
            return None
        id_ = self._id("CODE", ref.identity)
        self._codes[id_] = code
        self._places.setdefault(("codes", id_), node.at)
        self._places[*path, "execution"] = node.at
        return {"kind": "code", "codeId": id_}

    def _no_code(self) -> Mapping[str, str]:
        self._codes["?"] = _nothing
        return _NO_CODE

    # -- agents

    def _agent(self, fields: Fields) -> Mapping[str, str] | None:
        markdown, ref = self._markdown(fields.get("agent"), "agents")
        llm = self._read.one_of(fields.get("llm"), LLM_ROLES)
        schema, schema_ref = self._value(fields.get("outputSchema"), "schemas")
        skills = [self._skill(node) for node in self._items(fields, "skills", "skills")]
        tools = [self._value(node, "tools") for node in self._items(fields, "tools", "tools")]
        if markdown is None or ref is None or llm is None or schema_ref is None or schema is MISSING:
            return None
        if any(skill is None for skill in skills) or any(tool is MISSING for tool, _ in tools):
            return None
        known_skills = [skill for skill in skills if skill is not None]
        folders = (s.folder.relative_to(self._root).as_posix() for s in known_skills)  # an id is the same on every machine
        used = [",".join(folders), ",".join(r.identity for _, r in tools if r is not None)]
        id_ = self._id("AGENT", ref.identity, llm, schema_ref.identity, *used)
        self._agents[id_] = AgentSpec(
            name=markdown.name,
            description=markdown.description,
            instructions=markdown.body,
            llm=llm,  # type: ignore[arg-type]  # one of LLM_ROLES, which are its literals
            output_schema=schema,
            skills=known_skills,
            tools=[tool for tool, _ in tools],
        )
        here: PathTo = ("agent_specs", id_)
        self._places.setdefault(here, fields["agent"].at)
        self._places[*here, "name"] = markdown.name_at
        self._places[*here, "instructions"] = Place(ref.file, 1, 1)
        for part in ("skills", "tools"):
            for at, node in enumerate(self._items(fields, part, part)):
                self._places[*here, part, at] = node.at
        return {"kind": "agent", "agentId": id_}

    def _items(self, fields: Fields, name: str, of: str) -> Sequence[Node]:
        return (self._read.items(fields[name], of) or ()) if name in fields else ()

    def _markdown(self, node: Node | None, kind: Kind) -> tuple[Markdown | None, Reference | None]:
        ref = self._existing(node, kind)
        text = read_text(self._root, ref.file, self._findings) if ref is not None else None
        return (parse_markdown(text, ref.file, self._findings) if ref is not None and text is not None else None), ref

    def _skill(self, node: Node) -> FolderSkill | None:
        markdown, ref = self._markdown(node, "skills")
        if markdown is None or ref is None:
            return None
        folder = ref.file.rpartition("/")[0]
        return FolderSkill(
            name=markdown.name,
            description=markdown.description,
            content=markdown.body,
            assets=folder_assets(self._root, folder, node.at, self._findings),
            folder=self._root / folder,
        )

    # -- references

    def _reference(self, node: Node | None, kind: Kind) -> Reference | None:
        text = self._read.text(node)
        if text is None or node is None:
            return None
        try:
            return reference(text, kind)
        except ReferenceInvalid as exc:
            self._findings.tell("INVALID_REFERENCE", str(exc), node.at, exc.advice)
            return None

    def _existing(self, node: Node | None, kind: Kind) -> Reference | None:
        """What it names, when that is a file that is there."""
        ref = self._reference(node, kind)
        if ref is None or node is None or (self._root / ref.file).is_file():
            return ref
        self._findings.tell("INVALID_REFERENCE", f"there is no file {ref.file}", node.at, "Make it, or correct the reference.")
        return None

    def _value(self, node: Node | None, kind: Kind) -> tuple[Any, Reference | None]:
        """What it names in Python, when that is of the kind wanted; else MISSING."""
        ref = self._reference(node, kind)
        if ref is None or node is None:
            return MISSING, None
        value = self._modules.value(ref, node.at)
        if value is not MISSING and (wrong := _JUDGES[kind](value)):
            self._findings.tell("INVALID_REFERENCE", f"{ref.identity} {wrong}", node.at)
            return MISSING, ref
        return value, ref

    # -- small things

    def _place(self, path: PathTo, fields: Fields, name: str) -> None:
        if name in fields:
            self._places[path] = fields[name].at

    def _name(self, node: Node | None, otherwise: str) -> str:
        """A name to judge; what is no text was told already, and something that fits stands in."""
        return node.value if node is not None and isinstance(node.value, str) else otherwise

    def _or_first(self, entry: str | None, known: Mapping[str, Any]) -> str:
        if entry is None:
            self._is_whole = False
        return next(iter(known), "") if entry is None else entry

    def _id(self, kind: str, *parts: str) -> str:
        """The same for the same parts of one flow, anywhere."""
        digest = hashlib.sha256("\0".join([self._flow, *parts]).encode()).digest()
        return f"{kind}-{base64.urlsafe_b64encode(digest).decode()[:21]}"


def _nothing(*_: Any) -> None:
    """Stands in for what could not be had."""


def _expected(message: str) -> str:
    return message.removeprefix("Input should be ").replace("String should have", "a text of")
