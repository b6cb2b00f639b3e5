"""Who acts, and what a tool is: its spec, what it knows of a call, who may use it, and what people decide about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from loomnb.agents.shapes import MaybeAwaitable, dump, load
from loomnb.jsonvalue import Json
from loomnb.runtime import AbortSignal

__all__ = [
    "Actor",
    "ActorDirectory",
    "ActorResolver",
    "AnswersReply",
    "ApprovalPolicy",
    "ApprovalRequirement",
    "BackgroundActorResolver",
    "Decision",
    "EmitUi",
    "Preflight",
    "RolesPolicy",
    "ToolContext",
    "ToolHandler",
    "ToolKind",
    "ToolScope",
    "ToolSpec",
    "no_ui",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """On whose behalf something is done."""

    id: str
    roles: tuple[str, ...] | None = None
    tenant_ref: str | None = None


class ActorResolver(Protocol):
    """Who a request comes from. Must raise rather than invent somebody."""

    def resolve(self, request: Any) -> MaybeAwaitable[Actor]: ...


class BackgroundActorResolver(Protocol):
    """Who somebody is now, for work that is done later. None: deleted, or no longer of the tenant."""

    def resolve(self, *, actor_ref: str, tenant_ref: str | None) -> MaybeAwaitable[Actor | None]: ...


class ActorDirectory(Protocol):
    """Names for people: reference → what is shown."""

    def resolve_display(self, refs: Sequence[str]) -> MaybeAwaitable[Mapping[str, str]]: ...


ToolKind = Literal["read", "action", "agent", "ask", "skill", "memory"]
"""`read` and `action` are written by authors; the others are made by the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What is declared of a tool (contracts/agents.md §1.6).

    Attributes:
        name: as the model says it.
        description: what the model is told of it.
        input_schema: judges the input: what pydantic's TypeAdapter takes, an object with `parse(value)` and `json_schema()`, or
            a plain JSON Schema mapping (told to the model, and judged by the library jsonschema).
        kind: `read` runs at once; `action` changes something, and may need an approval.
        presentation: for people, never told to the model: `label`, `running`, `done`, `icon`, `detail`, `tone`, `confirm`,
            `result`.
        roles: who may use it: one of these; None or empty: see the policy.
        ability: a finer right; without roles the built-in policies refuse such a tool.
        enabled: False, or a predicate, takes it away without unregistering it.
        target_agent: of kind `agent`: the agent that it hands a task to.
        detached: of kind `agent`: nobody waits for the answer.
        terminal: the turn ends with its success, without another call of the model.
        replacement_key: of an independent proposal: a pending one of the same key is superseded.
    """

    name: str
    description: str = ""
    input_schema: Any = None
    kind: ToolKind = "read"
    presentation: Mapping[str, Any] | None = None
    roles: Sequence[str] | None = None
    ability: str | None = None
    enabled: bool | Callable[[], MaybeAwaitable[bool]] = True
    target_agent: str | None = None
    detached: bool = False
    terminal: bool = False
    replacement_key: str | Callable[[Any, ToolContext], MaybeAwaitable[str | None]] | None = None


EmitUi = Callable[..., Mapping[str, str]]
"""`emit_ui(component, props, id=None, version=None, fallback_text=None, component_versions=None) -> {"id": …}`."""


def no_ui(component: str, props: Mapping[str, Any], **options: Any) -> Mapping[str, str]:
    """Where there is no conversation: shows nothing, and gives an id all the same."""
    del props
    return {"id": str(options.get("id") or f"{component}:none")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool knows of its call.

    Attributes:
        request_id: the run's id, under the name that tools of other hosts know.
        idempotency_key: `<run>:<call>`: the same whenever this call is made again. Hand it to services that can tell a repeat.
        emit_ui: shows a component beside the answer.
        abort_signal: aborted when nobody waits for the call any more.
        host: what the runner hands to its tools, untouched.
        on_presentation_error: told of a presentation that could not be shown: `(error, {"toolName"})`.
    """

    actor: Actor
    thread_id: str = ""
    run_id: str = ""
    request_id: str = ""
    agent_name: str | None = None
    persona: str | None = None
    page_context: Any = None
    ui_capabilities: Mapping[str, Any] | None = None
    host: Any = None
    emit_ui: EmitUi = no_ui
    tool_call_id: str = ""
    idempotency_key: str = ""
    abort_signal: AbortSignal | None = None
    on_presentation_error: Callable[[BaseException, Mapping[str, str]], Any] | None = None
    channel: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolScope:
    """For whom tools are offered: what `describe` may look at."""

    actor: Actor
    thread_id: str | None = None
    agent_name: str | None = None
    persona: str | None = None
    ui_capabilities: Mapping[str, Any] | None = None
    page_context: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What a tool says before it acts: `ready` (with wording for the card), `denied` (with a reason), or `completed`: it is done
    already, and `output` is the result."""

    status: Literal["ready", "denied", "completed"] = "ready"
    confirmation: Mapping[str, Any] | None = None
    reason: str = ""
    output: Any = None


class ToolHandler(Protocol):
    """What a tool does. Only `execute` is required; the others are looked for: `preflight(input, ctx, phase)` →
    Preflight, `present(output, ctx)`, `is_enabled()`, `can_use(actor)`, `describe(scope)` → `{"available"?, "description"?,
    "inputSchema"?}`, `preview_input(scope)`."""

    def execute(self, input: Any, ctx: ToolContext) -> Any: ...  # noqa: A002  # the contract's word


class RolesPolicy(Protocol):
    """Who may use which tool."""

    def can(self, actor: Actor, tool: ToolSpec) -> MaybeAwaitable[bool]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequirement:
    """Whether somebody has to agree, who, and for how long the question stands."""

    required: bool
    approver: str = "requester"
    ttl_ms: float | None = None


class ApprovalPolicy(Protocol):
    """When a person has to agree. Asked about actions only. May have `can_decide(actor, *, tool_call_id, approver,
    requester_ref) -> bool`; without it the requester decides on their own calls, and any other approver is a role."""

    def requirement_for(
        self, tool: ToolSpec, actor: Actor, *, thread_id: str, run_id: str, agent_name: str | None
    ) -> MaybeAwaitable[ApprovalRequirement]: ...


class AgentApprovalPort(Protocol):
    """Decides the approvals that are asked for, by the call of the tool (`loom.approvals` is one). It does not judge who
    decides: who offers it to people asks `ApprovalPolicy.can_decide` before.

    Raises (both):
        NotFound: no call has this id.
        Conflict: the call does not wait for a decision, or calls of several conversations with this id do.
        AnswerInvalid: the decision does not fit; the call still waits.
    """

    def approve(
        self,
        tool_call_id: str,
        *,
        executed_by_ref: str | None = None,
        remember: bool = False,
        decided_via: str | None = None,
    ) -> MaybeAwaitable[None]: ...

    def reject(
        self,
        tool_call_id: str,
        *,
        reason: str | None = None,
        executed_by_ref: str | None = None,
        decided_via: str | None = None,
    ) -> MaybeAwaitable[None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How an approval was answered.

    Attributes:
        input: the arguments, where the person changed them; None: as the model said.
        expired: nobody decided in time.
        remember: also for later calls of this tool in this thread; counts on an approval only.
        via: from where (`web`, `panel`, `code`, `answers`, `remembered`, …).
        executed_by_ref: who is on record as having done it; None: the run's actor.
    """

    approved: bool
    reason: str | None = None
    expired: bool = False
    remember: bool = False
    decided_by: str | None = None
    via: str | None = None
    executed_by_ref: str | None = None
    input: Json = None

    def to_json(self) -> dict[str, Any]:
        """Its JSON; what is not set is left out."""
        return dump(self, keep_false=("approved",))

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Decision:
        """The decision of its JSON."""
        return load(Decision, data)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersReply:
    """How a set of questions was answered: question id → values; `answers` None: the defaults are taken, or it was skipped."""

    answers: Mapping[str, Sequence[str]] | None = None
    skipped: bool = False
    answered_by: str | None = None
    answered_via: str | None = None
