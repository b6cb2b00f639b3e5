"""Everything an agent's loop is given from outside, as types: who acts, what is said, who stores it, and who decides.

A method of these protocols may be sync or async: what it returns is awaited when it can be (`settled`). Names and meanings are
those of contracts/agents.md §1.7; on the JSON side (frames, rows, journals) they are the camelCase of the contract.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast

from loomnb.errors import Bug, LoomError
from loomnb.jsonvalue import Json
from loomnb.runtime import AbortSignal, SinkWriter

__all__ = [
    "Actor",
    "ActorDirectory",
    "ActorResolver",
    "AgentDefinition",
    "AgentPricingStore",
    "AgentRunner",
    "AgentStore",
    "AgentTurnInput",
    "AgentTurnResult",
    "AnswersReply",
    "ApprovalPolicy",
    "ApprovalRequirement",
    "AttachmentStagingStore",
    "BackgroundActorResolver",
    "ChatMessage",
    "ChatQueueStore",
    "ConfirmTokenStore",
    "Decision",
    "HistoryContext",
    "HistoryPolicy",
    "HistorySelection",
    "HistorySummary",
    "InputProcessor",
    "LoopHooks",
    "MaybeAwaitable",
    "ModelCatalog",
    "ModelPrice",
    "OutputProcessor",
    "OutputVerdict",
    "Persona",
    "Preflight",
    "ProcessorContext",
    "Prompt",
    "PromptContext",
    "QuotaProvider",
    "QuotaReport",
    "QuotaStore",
    "QuotaVerdict",
    "QuotaWindow",
    "Retriever",
    "RolesPolicy",
    "Thread",
    "TokenStreamSink",
    "ToolCallRow",
    "ToolCallStatus",
    "ToolContext",
    "ToolHandler",
    "ToolKind",
    "ToolScope",
    "ToolSpec",
    "UsageRow",
    "finished",
    "settled",
]

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


async def settled(value: MaybeAwaitable[T]) -> T:
    """A value, awaited when it can be: who implements a protocol here may write `def` or `async def`."""
    return cast("T", await value if inspect.isawaitable(value) else value)


def finished(made: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives that waits for nothing: for callers that have no loop to wait on.

    Raises:
        Bug: it did wait.
    """
    try:
        made.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    made.close()
    raise Bug("A coroutine that has nothing to wait for waited.")


@functools.cache
def camel(name: str) -> str:
    """`tool_calls` → `toolCalls`."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


# -- who --------------------------------------------------------------------------------------------


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


# -- tools ------------------------------------------------------------------------------------------

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
        return _dump(self, keep_false=("approved",))

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Decision:
        """The decision of its JSON."""
        return _load(Decision, data)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersReply:
    """How a set of questions was answered: question id → values; `answers` None: the defaults are taken, or it was skipped."""

    answers: Mapping[str, Sequence[str]] | None = None
    skipped: bool = False
    answered_by: str | None = None
    answered_via: str | None = None


# -- messages and rows --------------------------------------------------------------------------------


@functools.cache
def _names(cls: type) -> Mapping[str, str]:
    """The fields of a dataclass by their names in JSON."""
    return {camel(one.name): one.name for one in fields(cls)}


@functools.cache
def _held(cls: type) -> Callable[[Any], Sequence[Any]]:
    return operator.attrgetter(*_names(cls).values())  # all at once: a thread of 1,000 messages is told with every turn


def _dump(value: Any, keep_false: Sequence[str] | None = None) -> dict[str, Any]:
    """The JSON of a dataclass without what is None; with `keep_false` also without what is False, but for these."""
    out: dict[str, Any] = {}
    cls: Any = type(value)
    for key, held in zip(_names(cls), _held(cls)(value), strict=True):
        if held is None or (held is False and keep_false is not None and key not in keep_false):
            continue
        out[key] = list(held) if isinstance(held, tuple) else held
    return out


def _load(cls: type[T], data: Mapping[str, Any]) -> T:
    names = _names(cast("Any", cls))
    return cls(**{names[key]: value for key, value in data.items() if key in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message of a thread.

    Attributes:
        tool_calls: of an assistant: `{"id", "name", "input", "kind"}`.
        tool_results: `{"id", "name", "output", "error"?, "denied"?, "expired"?}`, on the message that has the calls.
        usage: `{"inputTokens"?, "outputTokens"?, …}`; what is unknown is left out.
        cost_usd: None: unknown, never 0 for unknown.
        ui: `{"id", "component", "props", "version"?, "fallbackText"?, "componentVersions"?, "toolCallId"?}`.
        attachments: `{"name", "mediaType", "data" (base64) | "url", "mediaId"?}`.
        native: what its provider wants back when it is told again.
    """

    role: Literal["user", "assistant", "system"]
    content: str = ""
    id: str | None = None
    run_id: str | None = None
    agent_name: str | None = None
    persona: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    tool_results: Sequence[Mapping[str, Any]] | None = None
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    model_id: str | None = None
    reasoning: str | None = None
    reasoning_ms: int | None = None
    ui: Sequence[Mapping[str, Any]] | None = None
    follow_ups: Sequence[str] | None = None
    attachments: Sequence[Mapping[str, Any]] | None = None
    feedback: str | None = None
    native: Json = None
    created_at: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Its JSON; what is None is left out."""
        return _dump(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ChatMessage:
        """The message of its JSON."""
        return _load(ChatMessage, data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A conversation. `messages` in their order; a listing leaves them out."""

    id: str
    actor_ref: str
    tenant_ref: str | None = None
    title: str = "New chat"
    transient: bool = False
    agent_name: str | None = None
    model: str | None = None
    persona: str | None = None
    active_stream: str | None = None
    messages: Sequence[ChatMessage] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None


ToolCallStatus = Literal["proposed", "auto_executed", "pending_approval", "executed", "rejected", "failed", "expired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRow:
    """What is on record of a tool call. `tool_type` knows `read` and `action` only."""

    id: str
    thread_id: str
    message_id: str | None = None
    run_id: str | None = None
    tool_name: str
    tool_type: Literal["read", "action"] = "read"
    input: Json = None
    output: Json = None
    status: ToolCallStatus = "auto_executed"
    error: str | None = None
    reason: str | None = None
    approver: str | None = None
    expires_at: str | None = None
    confirmation: Mapping[str, Any] | None = None
    decided_by: str | None = None
    decided_via: str | None = None
    remember: bool = False
    executed_by_ref: str | None = None
    proposal_id: str | None = None
    duration_ms: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Its JSON; what is None is left out."""
        return _dump(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ToolCallRow:
        """The row of its JSON."""
        return _load(ToolCallRow, data)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What one call of a model used. `cost_usd` only where the provider said so."""

    thread_id: str
    actor_ref: str
    model_id: str
    purpose: Literal["chat", "follow_ups", "history_summary", "structured_output"] = "chat"
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    cost_usd: float | None = None
    run_id: str | None = None
    at: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Its JSON; what is None is left out."""
        return _dump(self)


class AgentStore(Protocol):
    """Where threads are kept. The methods below are required; the loop looks for these and does without: `update_thread`,
    `active_run_for_thread`, `record_run_start`, `record_run_end`, `bump_run_retries`, `set_message_ui`, `thread_of_message`,
    `set_message_feedback`, `tool_call_outcomes(ids)` → id → `{"status", "output"?, "error"?, "reason"?}`,
    `fail_unsettled_tool_calls(run_id, error)` → count, `remembered_approvals(thread_id)` → tool names, `tool_call_approval(id)`,
    `tool_call_input(id)`, `referenced_media_ids`, `usage_between`, `load_thread_for_turn(thread_id, *, message_limit)`."""

    async def create_thread(
        self,
        *,
        actor: Actor,
        id: str | None = None,  # noqa: A002  # the contract's word
        title: str = "New chat",
        transient: bool = False,
        agent_name: str | None = None,
        model: str | None = None,
    ) -> Thread: ...
    async def get_thread(self, thread_id: str) -> Thread | None: ...
    async def list_threads(self, actor: Actor, limit: int = 50) -> Sequence[Thread]: ...
    async def soft_delete_thread(self, thread_id: str) -> None: ...
    async def fork_thread(self, thread_id: str, from_message: str) -> Thread: ...
    async def set_title(self, thread_id: str, title: str) -> None: ...
    async def promote_thread(self, thread_id: str) -> None: ...
    async def set_active_stream(self, thread_id: str, run_id: str | None) -> None: ...
    async def owner_of_thread(self, thread_id: str) -> str | None: ...
    async def owner_of_tool_call(self, tool_call_id: str) -> str | None: ...
    async def run_for_tool_call(self, tool_call_id: str) -> str | None: ...
    async def owner_of_active_stream(self, run_id: str) -> str | None: ...
    async def append_message(self, thread_id: str, message: ChatMessage) -> str:
        """Store a message; its id (the one it brings, or a new one)."""
        ...

    async def set_message_tool_results(self, message_id: str, results: Sequence[Mapping[str, Any]]) -> None: ...
    async def truncate_from(self, thread_id: str, message_id: str) -> None:
        """Delete that message and all after it."""
        ...

    async def record_tool_call(self, row: ToolCallRow) -> None: ...
    async def update_tool_call(self, tool_call_id: str, changes: Mapping[str, Any]) -> None:
        """Change a row: names of `ToolCallRow`, in snake_case."""
        ...

    async def record_usage(self, row: UsageRow) -> None: ...
    async def quota_today(self, actor: Actor, day: str) -> Mapping[str, float]:
        """`{"usedTokens", "costUsd"}` of a day; the cost is 0 if none was reported."""
        ...


# -- streams ------------------------------------------------------------------------------------------


class TokenStreamSink(Protocol):
    """Where a run's frames go, and who reads them."""

    def open(self, run_id: str) -> MaybeAwaitable[SinkWriter]: ...
    def subscribe(self, run_id: str) -> AsyncIterator[str]:
        """From the first frame on, then as they come, until the end."""
        ...

    def close(self, run_id: str) -> MaybeAwaitable[None]: ...


class AgentRunner(Protocol):
    """Starts turns and takes what people say to them."""

    def start(self, input: AgentTurnInput, *, run_id: str | None = None) -> MaybeAwaitable[Mapping[str, str]]: ...  # noqa: A002
    def signal(self, run_id: str, tool_call_id: str, reply: Decision | AnswersReply) -> MaybeAwaitable[None]: ...
    def cancel(self, run_id: str) -> MaybeAwaitable[None]: ...


# -- quota and prices ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaVerdict:
    """What a QuotaStore says."""

    used_tokens: int
    limit_tokens: int
    within_limit: bool


class QuotaStore(Protocol):
    """Tokens a day, the older way; looked at by the loop only."""

    def check(self, actor: Actor, day: str) -> MaybeAwaitable[QuotaVerdict]: ...
    def bump(self, actor: Actor, day: str, tokens: int) -> MaybeAwaitable[None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWindow:
    """What may be used in a period, and what was. `warn_at`: the share from which on a warning is given."""

    period: Literal["day", "month"]
    limit_tokens: int | None = None
    used_tokens: int | None = None
    limit_usd: float | None = None
    used_usd: float | None = None
    warn_at: float | None = None
    resets_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaReport:
    """Every window, and what follows from them: `{"period", "reason"}`."""

    windows: Sequence[QuotaWindow] = ()
    blocked: Mapping[str, str] | None = None
    warning: Mapping[str, Any] | None = None


class QuotaProvider(Protocol):
    """What somebody may still use."""

    def report(self, *, actor: Actor, now: datetime | None = None) -> MaybeAwaitable[QuotaReport]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """USD for a million tokens."""

    model_id: str
    input_price_per_1m: float
    output_price_per_1m: float
    cache_write_price_per_1m: float | None = None
    cache_read_price_per_1m: float | None = None


class AgentPricingStore(Protocol):
    """What models cost."""

    def upsert_model_price(self, price: ModelPrice) -> MaybeAwaitable[None]:
        """Supersede the price of a model, at once."""
        ...

    def list_current_prices(self) -> MaybeAwaitable[Sequence[ModelPrice]]: ...


class ConfirmTokenStore(Protocol):
    """Makes a confirm token single-use."""

    def claim(self, *, hash: str, actor_ref: str, tool: str, expires_at: int) -> MaybeAwaitable[bool]:  # noqa: A002
        """False if it is spent already."""
        ...

    def release(self, hash: str) -> MaybeAwaitable[None]: ...  # noqa: A002


class ModelCatalog(Protocol):
    """Which models may be picked: `{"id", "label"?, "available"?, "locked"?}`."""

    def list(self, *, actor: Actor, agent: str | None) -> MaybeAwaitable[Sequence[Mapping[str, Any]]]: ...


class AttachmentStagingStore(Protocol):
    """Files on their way into a message; the only source of their URLs."""

    def stage(self, *, actor: Actor, name: str, media_type: str, data: bytes) -> MaybeAwaitable[str]: ...
    def resolve(self, *, media_id: str, actor: Actor) -> MaybeAwaitable[Mapping[str, Any] | None]: ...


class ChatQueueStore(Protocol):
    """Messages that wait for their turn, first in first out; the id of a message is that of its run."""

    def enqueue(self, thread_id: str, item: Mapping[str, Any]) -> MaybeAwaitable[None]: ...
    def list(self, thread_id: str) -> MaybeAwaitable[Sequence[Mapping[str, Any]]]: ...
    def update(self, thread_id: str, message_id: str, text: str) -> MaybeAwaitable[bool]: ...
    def move(self, thread_id: str, message_id: str, index: int) -> MaybeAwaitable[bool]: ...
    def remove(self, thread_id: str, message_id: str) -> MaybeAwaitable[bool]: ...
    def clear(self, thread_id: str) -> MaybeAwaitable[None]: ...


# -- history, processors, retrieval ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryContext:
    """What a history policy may look at beside the messages."""

    actor: Actor
    thread_id: str
    agent_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySelection:
    """What the model is told, and what not; both in their order."""

    keep: Sequence[ChatMessage]
    drop: Sequence[ChatMessage] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySummary:
    """What stands for the messages that were dropped."""

    text: str
    usage: Mapping[str, int] | None = None
    model_id: str | None = None
    cost_usd: float | None = None


class HistoryPolicy(Protocol):
    """What of a thread the model is told. `select` is pure. May have `max_messages` (a promise: it keeps only the newest of that
    number) and `summarize(dropped, ctx) -> HistorySummary`."""

    def select(self, messages: Sequence[ChatMessage], ctx: HistoryContext) -> HistorySelection: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorContext:
    """Where in a turn a processor works."""

    thread_id: str
    actor: Actor
    step: int
    agent_name: str | None = None
    persona: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is about to be told."""

    system: str
    messages: Sequence[ChatMessage]


class InputProcessor(Protocol):
    """Looks at, and may change, what a model is told, before every call. What is stored stays as it was."""

    @property
    def name(self) -> str: ...
    def process(self, prompt: Prompt, ctx: ProcessorContext) -> MaybeAwaitable[Prompt]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputVerdict:
    """What an output processor says: `pass`, `replace` with `text`, or `reject` with a `reason`."""

    action: Literal["pass", "replace", "reject"] = "pass"
    text: str = ""
    reason: str = ""


class OutputProcessor(Protocol):
    """Judges what a model said, before anybody reads it. May have `incremental`, a mapping with `lookbackChars` (default 64): it
    can judge a growing prefix of the text."""

    @property
    def name(self) -> str: ...
    def process(self, answer: Mapping[str, Any], ctx: ProcessorContext) -> MaybeAwaitable[OutputVerdict]:
        """The verdict on `{"text", "toolCalls"}`."""
        ...


class Retriever(Protocol):
    """Finds passages: `{"id"?, "text", "source"?, "score"?}`."""

    def retrieve(self, query: str, *, top_k: int) -> MaybeAwaitable[Sequence[Mapping[str, Any]]]: ...


# -- the loop's own ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptContext:
    """What a prompt builder and the contributors may look at."""

    actor: Actor
    thread_id: str
    run_id: str
    agent_name: str
    persona: Mapping[str, Any] | None = None
    """`{"id", "label"}`."""
    base_prompt: str = ""
    page_context: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """A named variant of an agent. A flat `system_prompt` replaces the base; a builder receives it as `ctx.base_prompt`."""

    id: str
    label: str = ""
    description: str = ""
    system_prompt: str | Callable[[PromptContext], MaybeAwaitable[str]] | None = None
    allowed_tools: Sequence[str] | None = None
    aliases: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """What an AgentRegistry knows of an agent."""

    name: str
    description: str = ""
    system_prompt: str | Callable[[PromptContext], MaybeAwaitable[str]] = ""
    tools: Sequence[str] | None = None
    delegates_to: Sequence[str] = ()
    model_id: str | None = None
    max_steps: int | None = None
    max_delegation_depth: int | None = None
    max_agent_appearances: int | None = None
    history: HistoryPolicy | None = None
    output_schema: Any = None
    output_repair_attempts: int | None = None
    intake: Mapping[str, Any] | None = None
    ask: bool = False
    personas: Sequence[Persona] = ()
    default_persona: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnInput:
    """What one turn is about. `regenerate`: the last user message is answered anew, and `user_text` is ignored."""

    thread_id: str
    actor: Actor
    user_text: str = ""
    attachments: Sequence[Mapping[str, Any]] | None = None
    page_context: Any = None
    ui_capabilities: Mapping[str, Any] | None = None
    day: str | None = None
    agent_name: str | None = None
    persona: str | None = None
    delegation_depth: int = 0
    delegation_path: Sequence[str] = ()
    sink_run_id: str | None = None
    deliver_to: Mapping[str, str] | None = None
    parent_run_id: str | None = None
    regenerate: bool = False
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnResult:
    """What a turn came to. `object` only with an output schema."""

    text: str
    object: Any = None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    cost_usd: float | None = None
    steps: int = 0
    stopped_by: str = ""
    """Why it ended before the model was done: `max_steps`, `length`, `terminal`, or empty."""


class LoopHooks(Protocol):
    """What a runner supplies. The methods below are required; the loop looks for these others, and does without them.

    `await_answers(request, ctx)` → AnswersReply, `run_agent(name, task)` → `{"text"}`, `start_agent(agent_name, task,
    tool_call_id)` → `{"runId"}`, `dispatch_llm(step, request)`, `dispatch_tool(call)`, `is_control_flow_error(exc)`,
    `parallel(tasks)` (starts all in order, waits for all, gives `(value, error)` in order, never raises), `cancelled()` (asked
    inside a checkpoint only), `patched(id)` (absent: true), `abort_signal`.
    """

    @property
    def run_id(self) -> str: ...
    def open_sink(self) -> MaybeAwaitable[SinkWriter]: ...
    async def step(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        """A checkpoint: what `fn` gives, or what is on record of it. JSON."""
        ...

    async def await_approval(self, call: Mapping[str, Any], ctx: ToolContext, *, timeout_ms: float | None = None) -> Decision:
        """Wait for a person. A time-out is a decision (`expired`), not an error."""
        ...


def optional(thing: object, name: str) -> Any:
    """A method that may be missing; bound to its object, so that a class's own state is there."""
    found = getattr(thing, name, None)
    return found if callable(found) else None


class StoreMissing(LoomError):
    """A store lacks a method that something was asked for needs."""

    code = "STORE_LACKS_METHOD"
