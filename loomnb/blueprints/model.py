"""Blueprints as data: stages with a State, steps that end in an outcome, and routes that say what an outcome leads to.

Only shapes stand here; `table.py` checks them and makes what the run loop reads. Field names are the contract's in Python
form (`flowName` → `flow_name`). What a name may be left out of is filled in from where it stands.
Rules: contracts/blueprints.md §1.1–1.4.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, cast, runtime_checkable

from typing_extensions import TypeVar

from loomnb.asks import Answers, Confirmation
from loomnb.jsonvalue import Json

__all__ = [
    "STAGE_END",
    "WORKFLOW_END",
    "AgentSpec",
    "Blueprint",
    "BlueprintStage",
    "BlueprintStep",
    "CodeRecovery",
    "ExecutableCode",
    "InitializerContext",
    "LlmRole",
    "SavedAction",
    "SkillSpec",
    "StageEnd",
    "StageRoute",
    "StageStateInitializer",
    "StepResult",
    "StepRoute",
    "ToStage",
    "ToStep",
    "WorkflowEnd",
    "WorkflowModule",
]

LlmRole = Literal["reasoning", "coding", "review"]
"""What an agent asks of its model; which model that is, is said when the run starts."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step ends with: the outcome that its routes are looked up by, never trimmed or folded."""

    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializerContext:
    """What an initializer knows: who it is for, and what was asked for, to the letter."""

    run_id: str
    flow_name: str
    stage_name: str
    intent: str


class StageStateInitializer(Protocol):
    """Gives a stage its first State: the input of the stage's schema. Sync or async; it should have no effects."""

    def __call__(self, context: InitializerContext, /) -> Any:
        """The input of the schema, or an awaitable of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAction:
    """A question that a step asked before its kernel died."""

    id: str
    kind: Literal["user_ask_questions", "user_ask_confirmation"]
    request: Json
    """The questions, or `{"context": …}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRecovery:
    """What a recover function is given: the question its step was asking, and the answer that came. A copy."""

    action: SavedAction
    answer: Json
    """The list of answers as submitted, or `{"isConfirmed": …, "feedback"?: …}`."""

    @property
    def answers(self) -> Answers:
        """The answers to questions: `saved.answers["id"]` is the text.

        Raises:
            TypeError: it was a confirmation.
        """
        if not isinstance(self.answer, list):
            raise TypeError("This answers a confirmation: use saved.confirmation.")
        return Answers(cast("list[dict[str, Any]]", self.answer))

    @property
    def confirmation(self) -> Confirmation:
        """The verdict on a confirmation.

        Raises:
            TypeError: it was questions.
        """
        if not isinstance(self.answer, dict):
            raise TypeError("These are answers to questions: use saved.answers.")
        return Confirmation.model_validate(self.answer)


@runtime_checkable
class ExecutableCode(Protocol):
    """A step's code: a callable of `(input, access)`, sync or async, that gives a `StepResult`.

    It may have a member `recover(saved, access)`: what goes on after a question when the kernel died while it was open.
    """

    def __call__(self, input: None, access: Any, /) -> Any:  # noqa: A002  # the contract's word
        """A StepResult, `{"outcome": …}`, or an awaitable of one. `input` is always None."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToStep:
    """Go on with a step of the same stage. In a step's `on` a plain text says the same."""

    step_name: str


@dataclass(frozen=True, slots=True)
class StageEnd:
    """End the stage; the same outcome is then looked up in the stage's routes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToStage:
    """Enter a stage, with a fresh State. In a stage's `on` a plain text says the same."""

    stage_name: str


@dataclass(frozen=True, slots=True)
class WorkflowEnd:
    """End the run."""


STAGE_END = StageEnd()
WORKFLOW_END = WorkflowEnd()

StepRoute: TypeAlias = "ToStep | StageEnd | str | Mapping[str, str]"
"""Where an outcome leads; as a mapping `{"kind": "step", "stepName": …}` or `{"kind": "stage_end"}`, as in the contract."""
StageRoute: TypeAlias = "ToStage | WorkflowEnd | str | Mapping[str, str]"
"""The same for a stage: `{"kind": "stage", "stageName": …}` or `{"kind": "workflow_end"}`."""


@dataclass(frozen=True, kw_only=True)
class SkillSpec:
    """Knowledge an agent can look up."""

    name: str
    description: str
    content: str
    assets: Sequence[str] = ()
    """Paths of files that belong to it, relative to its folder."""


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """An agent as a step: what it is told, which model plays it, what it may use and what it has to give."""

    name: str
    instructions: str
    description: str = ""
    llm: LlmRole = "reasoning"
    output_schema: Any = StepResult
    """Judges what the agent ends with; what it parses to has to be a StepResult."""
    skills: Sequence[SkillSpec] = ()
    tools: Sequence[Any] = ()
    """Its `AgentTool`s; each id once."""


@dataclass(frozen=True, kw_only=True)
class BlueprintStep:
    """One step: what it does, and where each of its outcomes leads.

    Attributes:
        execution: a function or other `ExecutableCode`, an `AgentSpec`, or by id: `{"kind": "code", "codeId": …}`,
            `{"kind": "agent", "agentId": …}`.
        on: outcome → route; at least one.
        step_name: default: its key in the stage's `steps`.
    """

    execution: Any
    on: Mapping[str, StepRoute]
    step_name: str = ""


@dataclass(frozen=True, kw_only=True)
class BlueprintStage:
    """One stage: a State that lives as long as the stage, and the steps that work on it.

    Attributes:
        state_schema: what pydantic's TypeAdapter takes, or an object with `parse(value)`, sync or async. What it gives is stored,
            so that it should accept its own output.
        initialize_state: called at each entry of the stage, with an `InitializerContext`.
        entry_step_name: the step it begins with.
        steps: name → step.
        on: outcome that ended the stage → route.
        stage_name: default: its key in the blueprint's `stages`.
    """

    state_schema: Any
    initialize_state: Callable[[InitializerContext], Any]
    entry_step_name: str
    steps: Mapping[str, BlueprintStep]
    on: Mapping[str, StageRoute] = field(default_factory=dict[str, StageRoute])
    stage_name: str = ""


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A flow as stages and steps: `loom.flow(blueprint, intent="…")` runs it.

    Attributes:
        flow_name: the name it is known, stored and found by.
        entry_stage_name: the stage it begins with.
        stages: name → stage.
        exclusive: no other blueprint runs beside it.
        title: what people read; default: from the name.
    """

    flow_name: str
    entry_stage_name: str
    stages: Mapping[str, BlueprintStage]
    exclusive: bool = False
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkflowModule:
    """A blueprint with what its steps name by id."""

    blueprint: Blueprint
    codes: Mapping[str, ExecutableCode | Callable[..., Any]] = field(default_factory=dict[str, Any])
    agent_specs: Mapping[str, AgentSpec] = field(default_factory=dict[str, AgentSpec])


Input = TypeVar("Input")
Output = TypeVar("Output")
RawOutput = TypeVar("RawOutput", default=Output)
Given = TypeVar("Given")
Made = TypeVar("Made")

Execute: TypeAlias = Callable[[Given, Any], "Made | Awaitable[Made]"]


@dataclass(frozen=True, kw_only=True)
class AgentTool(Generic[Input, Output, RawOutput]):
    """A function a model may call in an agent step.

    Three types: `Input` is what the input schema parses to and `execute` is given; `RawOutput` is what `execute` returns, the
    input of the output schema, and may be left out where it is `Output`; `Output` is what that parses to and the model reads.
    """

    id: str
    description: str
    input_schema: Any
    output_schema: Any
    execute: Execute[Input, RawOutput]
