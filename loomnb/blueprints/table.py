"""From a blueprint to the table the run loop reads: which step may move from a position, how it is made, where it leads.

A stage is entered by a move of its own, which makes its State (`start`, or `stage/`, to `stage/step`); then each move is one
step. What a step's code is given stands in `capabilities.py`, an agent's in `agents.py`.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import re
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from loomnb.asks import Shape
from loomnb.blueprints.agent_schemas import is_own, shape_of
from loomnb.blueprints.agents import AgentCall, execute_agent
from loomnb.blueprints.capabilities import agent_access, code_access
from loomnb.blueprints.captures import keep_capture
from loomnb.blueprints.catalog import RUNTIME
from loomnb.blueprints.checks import check_blueprint
from loomnb.blueprints.code import Code, called_by, code_name, latest, on_replaced, recover_of
from loomnb.blueprints.diagnostics import BlueprintInvalid
from loomnb.blueprints.folder import validate
from loomnb.blueprints.model import (
    AgentSpec,
    AgentTool,
    Blueprint,
    CodeRecovery,
    InitializerContext,
    SavedAction,
    StageEnd,
    StepResult,
    ToStage,
    WorkflowModule,
)
from loomnb.blueprints.places import Cursor, place_of, stage_place
from loomnb.blueprints.shapes import is_blank, stage_route, step_route
from loomnb.blueprints.state import StateSchema
from loomnb.errors import ArgsInvalid, DefinitionError, OwnershipLost, StepError
from loomnb.jsonvalue import FrozenDict, dumps, freeze, thaw
from loomnb.names import humanised, notebook_name
from loomnb.runtime import (
    END,
    REGISTRY,
    START,
    AskContent,
    Attempt,
    Envelope,
    Failure,
    LiveCall,
    Move,
    RunContext,
    current_attempt,
)

__all__ = ["BlueprintDefinition", "compile_blueprint", "know_blueprint"]

_STEP_LIMIT = 10_000
"""Steps of one pass at the most: a loop without a way out must not fill the disk. `run.retry()` goes on."""

ENTER = "enter"
"""The move that makes a stage's State."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    name: str
    place: str
    code: Any
    """What is called; None for an agent."""
    agent: AgentSpec | None
    routes: Mapping[str, str]
    """Outcome → the place it leads to."""
    ends: Mapping[str, bool]
    """Outcome → whether the stage ends with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    name: str
    schema: StateSchema
    initialize: Callable[[InitializerContext], Any]
    entry: str
    steps: Mapping[str, _Step]


@dataclass(frozen=True, eq=False, kw_only=True)
class BlueprintDefinition:
    """A blueprint, checked: what the run loop needs of it."""

    name: str
    title: str
    origin: str
    fingerprint: str
    module: WorkflowModule
    exclusive: bool
    entry: str
    stages: Mapping[str, _Stage]
    moves: Mapping[str, Sequence[Move]]
    steps: Mapping[str, tuple[_Stage, _Step]]
    """Place → its step."""
    entries: Mapping[str, _Stage]
    """Place in which a stage is about to be entered → that stage."""
    problems: tuple[str, ...] = ()
    """What is wrong with it and shows only if a run comes to it."""
    step_limit: int = _STEP_LIMIT
    runs_ahead: bool = False
    rests_at_start: bool = False
    is_strict: bool = True

    # -- what the run loop asks -------------------------------------------------------------------

    @property
    def places(self) -> Sequence[str]:
        """The places that moves leave."""
        return tuple(self.moves)

    def moves_from(self, place: str) -> Sequence[Move] | None:
        """What leaves a place: one move."""
        return () if place == END else self.moves.get(place)

    def has_wait(self, name: str) -> bool:
        """Never: a step asks in its middle."""
        return False

    def parse_args(self, raw: Any) -> tuple[Any, Any]:
        """The intent.

        Raises:
            ArgsInvalid: it is no text, or blank.
        """
        intent = raw.get("intent") if isinstance(raw, Mapping) else raw
        if not isinstance(intent, str) or is_blank(intent):
            raise ArgsInvalid(
                "The intent is a text that is not blank.", {"intent": "required"}, advice='Write intent="what is to be done".'
            )
        stored = freeze({"intent": intent}, None, "intent")
        return stored, stored

    def load_args(self, stored: Any) -> Any:
        """As they are."""
        return stored

    def parse_config(self, raw: Any) -> tuple[Any, Any]:
        """Where it runs: checked by `loom.flow`."""
        stored = freeze(raw, None, "config")
        return stored, stored

    def load_config(self, stored: Any) -> Any:
        """As it is."""
        return stored

    def check_state(self, state: Any) -> Any:
        """Judged when it was written."""
        return state

    def ask(self, move: Move, args: Any) -> AskContent:
        """Never called: no move of a blueprint is a wait transition."""
        raise StepError("A blueprint has no wait transitions.", code="RUNTIME_NOT_IMPLEMENTED")

    def accept(self, move: Move, args: Any, payload: Any) -> Any:
        """Never called, as `ask`."""
        raise StepError("A blueprint has no wait transitions.", code="RUNTIME_NOT_IMPLEMENTED")

    def failure_of(self, exc: Exception, move: Move | None = None) -> Failure:
        """An error of the runtime catalogue keeps its code; everything else is a failed step (contract §2.8)."""
        failure = Failure.of(exc)
        code = failure.code
        if move is None and code == "COMMIT_FAILED":
            code = "RUN_CHECKPOINT_FAILED"
        elif move is not None and move.from_ in self.entries and code != "RUN_CHECKPOINT_FAILED":
            code = "RUN_INITIALIZATION_FAILED"
        return replace(failure, code=code if code in RUNTIME else "STEP_EXECUTION_FAILED")

    def shown(self, place: str) -> str:
        """A stage that is about to be entered is shown as its first step."""
        stage = self.entries.get(place) if place != START else None
        return place_of(stage.name, stage.entry) if stage is not None else place

    def group_of(self, place: str) -> tuple[str, str]:
        """A step's stage and name."""
        found = self.steps.get(place)
        return (found[0].name, found[1].name) if found is not None else ("", "")

    def perform(self, move: Move, context: RunContext[Any], state: Any, payload: Any, envelope: Envelope) -> Any:
        """Enter a stage, or make a step."""
        attempt = current_attempt()
        assert attempt.live is not None
        found = self.steps.get(move.from_)
        if found is None:
            return self._enter(self.entries[move.from_], context, attempt, attempt.live)
        return self._step(*found, context, attempt, attempt.live)

    @property
    def agents(self) -> list[AgentSpec]:
        """The agents of its steps."""
        return [step.agent for _, step in self.steps.values() if step.agent is not None]

    # -- what happens -----------------------------------------------------------------------------

    def cursor(self, place: str, path: Sequence[tuple[str, str]]) -> Cursor:
        """The step a run is at: the last one when it is over, the first of a stage that is about to be entered."""
        if place == END and len(path) > 1:
            place = path[-2][0]
        found, entered = self.steps.get(place), self.entries.get(place)
        if found is not None:
            return Cursor(found[0].name, found[1].name)
        if entered is not None:
            return Cursor(entered.name, entered.entry)
        raise StepError(f"{place!r} is no position of {self.name!r}.", code="RUN_STATE_INVALID")

    async def _enter(self, stage: _Stage, context: RunContext[Any], attempt: Attempt, live: LiveCall) -> None:
        """Make the State of a stage. It has no effects, so that it is simply made again after a crash."""
        about = InitializerContext(
            run_id=context.workflow_id, flow_name=self.name, stage_name=stage.name, intent=context.args["intent"]
        )
        if attempt.move.from_ == START:
            await self._capture(context, live, "start")
        try:
            seed = await _called(stage.initialize, live, about)
            value = await stage.schema.parse(freeze(seed, None, "State"))
        finally:
            live.close(_over(stage.name))
        attempt.leave(ENTER, place_of(stage.name, stage.entry), freeze({"value": value}))

    async def _capture(self, context: RunContext[Any], live: LiveCall, when: str) -> None:
        root = (context.config or {}).get("project")
        if root is not None:
            await keep_capture(live, root, when)

    async def _step(self, stage: _Stage, step: _Step, context: RunContext[Any], attempt: Attempt, live: LiveCall) -> None:
        if step.code is None and step.agent is None:
            raise StepError(
                f"What the step {step.name!r} is to do is not there: its code or agent is not defined.",
                advice="Put it into the module's codes or agent_specs, and start anew.",
            )
        raw: Any = None
        recovery = recover_of(step.code) if step.agent is None else None
        call = await live.begin(recoverable=recovery is not None)
        try:
            if step.agent is not None:
                given = agent_access(live, stage.schema, call.state, context)
                raw = await execute_agent(AgentCall(step.agent, step.name, context, live), given)
            else:
                access = code_access(live, stage.schema, call.state, context)
                if call.kind == "recover" and recovery is not None:
                    raw = await _called(recovery, live, _recovery_of(call.saved), access)
                elif step.code is not None:
                    raw = await _called(step.code, live, None, access)
            outcome = _outcome(raw, step.name)
            target = _target(stage, step, outcome)
            live.finished()
        finally:
            # At once, and not when the loop comes round: a write that was begun and not awaited must not slip in.
            live.close(_over(step.name))
        if target == END:
            attempt.set_result(outcome)
            await self._capture(context, live, "end")
        attempt.leave(outcome, target, FrozenDict() if step.ends[outcome] else attempt.record.state)


def _recovery_of(saved: Any) -> CodeRecovery:
    told = thaw(saved)
    return CodeRecovery(action=SavedAction(**told["action"]), answer=told["answer"])


async def _called(function: Callable[..., Any], live: LiveCall, *args: Any) -> Any:
    """What a function of the user's gives. A plain def works on a thread of its own: on the loop it would stop every run."""
    if _is_async(function):
        value = function(*args)
    else:
        value = await asyncio.wrap_future(live.engine.workers.submit(function, *args))
    return await value if inspect.isawaitable(value) else value


def _is_async(function: Any) -> bool:
    # Only what we wrapped is looked into: a wrapper of somebody else may do anything, such as run a loop of its own.
    function = called_by(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004


def _over(name: str) -> OwnershipLost:
    return OwnershipLost(
        f"The call of {name!r} is over: what it was given ended with it.",
        advice="Await what the code starts before it returns, and keep nothing of `access` for later.",
    )


class _ResultShape(Shape):
    outcome: str


_RESULT: TypeAdapter[_ResultShape] = TypeAdapter(_ResultShape)


def _outcome(raw: Any, step: str) -> str:
    """The outcome of what a step ended with.

    Raises:
        StepError: it is not exactly one text that is not empty (STEP_RESULT_INVALID).
    """
    if isinstance(raw, StepResult) and len(fields(raw)) == 1:  # a subclass with fields of its own says more than an outcome
        raw = {"outcome": raw.outcome}
    try:
        outcome = _RESULT.validate_python(raw).outcome if isinstance(raw, dict) else ""
    except ValidationError:
        outcome = ""
    if not outcome:
        raise StepError(
            f"The step {step!r} ended with {_brief(raw)}, which is no outcome.",
            code="STEP_RESULT_INVALID",
            advice='Return loom.StepResult("…") or {"outcome": "…"}, nothing else: what it made belongs into State or Storage.',
        )
    return outcome


def _brief(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # its own __repr__ is broken: what it is an instance of still says what is wrong
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}…"


def _target(stage: _Stage, step: _Step, outcome: str) -> str:
    target = step.routes.get(outcome)
    if target is None:
        known = ", ".join(repr(o) for o in step.routes)
        where = f"the stage {stage.name!r} has no route for it" if outcome in step.ends else f"its routes are: {known}"
        raise StepError(
            f"The step {step.name!r} ended with the outcome {_brief(outcome)}, and {where}.",
            code="STEP_OUTCOME_NOT_HANDLED",
            advice="Outcomes are compared to the letter. Give it a route, or correct the code.",
        )
    return target


# -- compiling ---------------------------------------------------------------------------------------


def compile_blueprint(source: Blueprint | WorkflowModule) -> BlueprintDefinition:
    """Check a blueprint, with what its steps name by id, and make its table. Nothing of it is called.

    Raises:
        BlueprintInvalid: it cannot work; the message tells every problem.
    """
    module = source if isinstance(source, WorkflowModule) else WorkflowModule(blueprint=source)
    if not isinstance(module.blueprint, Blueprint):
        raise DefinitionError(
            f"{type(source).__name__} is no blueprint.", advice="Pass a loom.Blueprint, a WorkflowModule or the path of a folder."
        )
    problems = _judged(module)
    blueprint = module.blueprint
    stages = {name: _stage(module, name, stage) for name, stage in blueprint.stages.items()}
    entries = {stage_place(name): stage for name, stage in stages.items()} | {START: stages[blueprint.entry_stage_name]}
    steps = {step.place: (stage, step) for stage in stages.values() for step in stage.steps.values()}
    moves: dict[str, Sequence[Move]] = {}
    for place, stage in entries.items():
        entered = place_of(stage.name, stage.entry)
        moves[place] = (Move(name=ENTER, from_=place, to=entered, is_step=True, keeps_time=True, timeout=0),)
    for place, (_, step) in steps.items():
        routes = tuple(step.routes.items())
        moves[place] = (Move(name=step.name, from_=place, to="", is_step=True, routes=routes, timeout=0),)
    origin = _origin(module)
    return BlueprintDefinition(
        name=blueprint.flow_name,
        title=blueprint.title or humanised(blueprint.flow_name.replace("-", " ")),
        origin=(notebook_name() or origin) if origin == "__main__" else origin,
        fingerprint=_identity(module, stages),
        module=module,
        exclusive=blueprint.exclusive,
        entry=blueprint.entry_stage_name,
        stages=stages,
        # The start first: pictures begin there.
        moves={START: moves[START], **moves},
        steps=steps,
        entries=entries,
        problems=problems,
    )


def _judged(module: WorkflowModule) -> tuple[str, ...]:
    """What is wrong with a blueprint and shows only if a run comes to it.

    An outcome that ends a stage without a route, and a code or agent that is not there, may never be reached: the contract's
    runtime tells them then (STEP_OUTCOME_NOT_HANDLED, STEP_EXECUTION_FAILED).

    Raises:
        BlueprintInvalid: something else is wrong.
        StepError: what it begins with is not defined (INVALID_CURSOR).
    """
    blueprint = module.blueprint
    errors = [p for p in check_blueprint(blueprint, module.codes, module.agent_specs) if p.severity == "error"]
    entry = ("stages", blueprint.entry_stage_name, "entry_step_name")
    for problem in errors:
        if problem.path in {("entry_stage_name",), entry}:
            raise StepError(
                f"{blueprint.flow_name!r} cannot begin: {problem.message}.", code="INVALID_CURSOR", advice=problem.advice
            )
    later = [p for p in errors if _shows_later(module, p.path)]
    if len(later) < len(errors):
        raise BlueprintInvalid.of_report(validate(module))
    return tuple(f"{p.message}{' ' + p.advice if p.advice else ''}" for p in later)


def _shows_later(module: WorkflowModule, path: Sequence[Any]) -> bool:
    if len(path) < 5 or path[0] != "stages" or path[2] != "steps":
        return False
    stage = module.blueprint.stages[path[1]]
    step = stage.steps[path[3]]
    if len(path) == 6 and path[4] == "on":
        try:
            return path[5] not in stage.on and isinstance(step_route(step.on[path[5]]), StageEnd)
        except Exception:  # noqa: BLE001  # the route itself is malformed
            return False
    if len(path) == 5 and path[4] == "execution" and isinstance(step.execution, Mapping):
        kind, wanted = step.execution.get("kind"), _id_of(step.execution)
        known = module.codes if kind == "code" else module.agent_specs if kind == "agent" else None
        return known is not None and isinstance(wanted, str) and wanted not in known and len(step.execution) == 2
    return False


def _id_of(execution: Mapping[str, Any]) -> Any:
    return next((execution[name] for name in ("codeId", "code_id", "agentId", "agent_id") if name in execution), None)


def _stage(module: WorkflowModule, name: str, stage: Any) -> _Stage:
    ends = {outcome: _stage_target(route) for outcome, route in stage.on.items()}
    steps = {}
    for step_name, step in stage.steps.items():
        routes: dict[str, str] = {}
        leaves: dict[str, bool] = {}
        for outcome, given in step.on.items():
            route = step_route(given)
            leaves[outcome] = isinstance(route, StageEnd)
            target = ends.get(outcome) if isinstance(route, StageEnd) else place_of(name, route.step_name)
            if target is not None:
                routes[outcome] = target
        code, agent = _execution(module, step.execution)
        steps[step_name] = _Step(
            name=step_name, place=place_of(name, step_name), code=code, agent=agent, routes=routes, ends=leaves
        )
    return _Stage(
        name=name,
        schema=StateSchema(stage.state_schema, f"The State of the stage {name!r}"),
        initialize=stage.initialize_state,
        entry=stage.entry_step_name,
        steps=steps,
    )


def _stage_target(given: Any) -> str:
    route = stage_route(given)
    return stage_place(route.stage_name) if isinstance(route, ToStage) else END


def _execution(module: WorkflowModule, execution: Any) -> tuple[Any, AgentSpec | None]:
    if isinstance(execution, AgentSpec):
        return None, execution
    if isinstance(execution, Mapping):
        wanted = _id_of(execution)
        if execution["kind"] == "agent":
            return None, module.agent_specs.get(wanted)
        return latest(module.codes.get(wanted)), None
    return latest(execution), None


def _origin(module: WorkflowModule) -> str:
    """Where it was written: the module of its first function."""
    for stage in module.blueprint.stages.values():
        for step in stage.steps.values():
            found = getattr(_execution(module, step.execution)[0], "__module__", "")
            if isinstance(found, str) and found:
                return found
        found = getattr(stage.initialize_state, "__module__", "")
        if isinstance(found, str) and found:
            return found
    return "__main__"


def _identity(module: WorkflowModule, stages: Mapping[str, _Stage]) -> str:
    """A hash of what matters for going on with a stored run: the table, the schemas, the source of codes, and the prompts."""
    told: dict[str, Any] = {"exclusive": module.blueprint.exclusive, "entry": module.blueprint.entry_stage_name}
    for name, stage in stages.items():
        told[f"stage {name}"] = {
            "entry": stage.entry,
            "schema": [stage.schema.json_schema(), _source(stage.schema.parser)],
            "initialize": _source(stage.initialize),
            "steps": {
                step.name: {
                    "routes": dict(step.routes),
                    "code": _source(step.code) if step.agent is None else None,
                    "recover": _source(recover_of(step.code)) if step.agent is None else None,
                    "agent": _agent_identity(step.agent) if step.agent is not None else None,
                }
                for step in stage.steps.values()
            },
        }
    return hashlib.sha256(dumps(told).encode()).hexdigest()[:16]


def _agent_identity(agent: AgentSpec) -> Any:
    return {
        "instructions": agent.instructions,
        "llm": agent.llm,
        "output": _shape(agent.output_schema),
        "skills": [[s.name, s.content] for s in agent.skills],
        "tools": [[t.id, t.description, _source(t.execute), *_shapes(t)] for t in agent.tools],
    }


def _shapes(tool: AgentTool[Any, Any, Any]) -> tuple[Any, Any]:
    return _shape(tool.input_schema), _shape(tool.output_schema, "output")


def _shape(schema: Any, side: Literal["input", "output"] = "input") -> Any:
    """What tells one version of a schema from another. One's own is not called for it: its source is all there is to know."""
    return _source(schema) if is_own(schema) else shape_of(schema, side)


def _source(function: Any) -> str:
    """The text of a function; where there is none, its byte code; for an object, its class's."""
    if function is None:
        return ""
    found = inspect.unwrap(function) if callable(function) else function
    found = getattr(found, "function", found)
    if isinstance(found, functools.partial):
        return re.sub(r" at 0x[0-9a-f]+", "", f"{_source(found.func)} {found.args!r} {found.keywords!r}")
    if not (inspect.isroutine(found) or inspect.isclass(found)):
        found = type(found)
    try:
        return textwrap.dedent(inspect.getsource(found))
    except (OSError, TypeError):  # typed into a prompt, or made by exec; of a class in a notebook Python finds no text either
        members = vars(found) if inspect.isclass(found) else {"": found}
        told = {name: _byte_code(f.__code__) for name, f in members.items() if isinstance(f, types.FunctionType)}
        return dumps(told) if told else code_name(found)


def _byte_code(code: types.CodeType) -> list[Any]:
    """What a code does, told the same in every process: no addresses, no order of a set."""
    constants: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            constants.append(_byte_code(constant))
        else:
            constants.append(repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant))
    return [code.co_code.hex(), list(code.co_names), list(code.co_freevars), constants]


def know_blueprint(definition: BlueprintDefinition) -> BlueprintDefinition:
    """Make it known under its name; the very same definition that is known already is that one.

    Raises:
        DefinitionError: something of another place has the name.
    """
    known = REGISTRY.get(definition.name)
    if (
        isinstance(known, BlueprintDefinition)
        and known.fingerprint == definition.fingerprint
        and known.module == definition.module
    ):
        return known
    REGISTRY.add(definition, definition.origin, f"the blueprint {definition.name}")
    return definition


def _replaced(made: Code[Any]) -> None:
    """A cell was run again: blueprints that use the code of this name go on with the new one."""
    for definition in list(REGISTRY):
        if isinstance(definition, BlueprintDefinition) and any(
            isinstance(step.code, Code) and step.code.__qualname__ == made.__qualname__ and latest(step.code) is made
            for _, step in definition.steps.values()
        ):
            know_blueprint(compile_blueprint(definition.module))


on_replaced(_replaced)
