"""What a turn is configured with: `LoopDeps`, with the defaults of contracts/agents.md §1.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from loomnb.agents.failures import BudgetExceededError
from loomnb.agents.loop_checks import check_budget, check_deps
from loomnb.agents.policies import DefaultApprovalPolicy
from loomnb.agents.pricing import estimate_cost, price_of
from loomnb.agents.registry import ToolRegistry
from loomnb.agents.retrying import TransientRetry, transient_retry
from loomnb.agents.spi import (
    AgentPricingStore,
    AgentStore,
    ApprovalPolicy,
    HistoryPolicy,
    InputProcessor,
    MaybeAwaitable,
    ModelPrice,
    OutputProcessor,
    Persona,
    PromptContext,
    QuotaProvider,
    QuotaStore,
    Retriever,
    RolesPolicy,
)
from loomnb.errors import DefinitionError
from loomnb.ids import SYSTEM, Source
from loomnb.runtime import ModelProvider

__all__ = ["Budget", "LoopDeps", "PromptBuilder"]

PromptBuilder = Callable[[PromptContext], MaybeAwaitable[str]]
Contributor = Callable[[PromptContext], MaybeAwaitable[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one run may use before it is stopped: looked at before each call of a model. None: no limit."""

    usd: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse what nothing could be compared with.

        Raises:
            DefinitionError: a limit is no number from 0 up.
        """
        check_budget(self)


@dataclass(kw_only=True)
class LoopDeps:
    """What a turn works with. The first six are required. A run takes a copy: what it changes is its own.

    Attributes:
        model: what is asked, one turn at a time.
        store: where threads are kept.
        registry: the tools.
        roles_policy: who may use which.
        system_prompt: a text, or a builder given a PromptContext.
        day: `YYYY-MM-DD`, for the quota: given, so that a replay on another day takes the same way.
        prompt_contributors: each gives a text or None; appended in order, with a blank line between.
        model_id: what usage is booked on when the provider does not say.
        max_steps: calls of the model in one turn. When they are used up after tools, the turn completes with what there is.
        tool_allow_list: None: all tools; empty: none.
        tool_timeout_ms: None: no limit. A tool that takes longer is left running, and its call is recorded as failed.
        tool_transient_retry: None or False switches it off; a mapping may say some of `attempts`, `backoff_ms`, `classifier`.
        follow_ups_count: suggestions after the answer; 0: none.
        retrieval_top_k: passages that are looked for before the turn, with a `retriever`.
        pricing_store: prices, for what the provider does not price itself.
        history_policy: what of the thread the model is told; None: all of it.
        output_schema: what the turn must end with beside its text: what pydantic's TypeAdapter takes, or a JSON Schema.
        output_repair_attempts: how often the model may correct it.
        output_from_transcript: the structured pass is given the whole conversation and not only the answer.
        approval_policy: which actions somebody has to agree to.
        action_approval_mode: `blocking`: the turn waits for the decision.
        repeat_guard: from how many identical calls in a run on a person is asked; None: never.
        budget: what the run may use.
        host: handed to tools, untouched.
        output_instruction: of the structured pass; None: the built-in one.
        tool_timeouts: tool → milliseconds, for those that have a limit of their own.
        model_settings: what the provider takes beside: `temperature`, …
        resolve_ui_catalog: the components there are: `() -> catalog`, sync or async. Without one, what tools show is taken as it
            is, and a client that says what it draws cannot be shown anything.
        intake: the questions the agent begins with (`Intake`, or its JSON).
        ask: whether the model may ask questions by the built-in tool.
        personas: variants of the agent; a turn names one.
        quota: tokens a day (a QuotaStore), or windows of days and months in tokens and USD (a QuotaProvider); looked at before
            anything is stored.
        source: ids and the clock.
    """

    model: ModelProvider
    store: AgentStore
    registry: ToolRegistry
    roles_policy: RolesPolicy
    system_prompt: str | PromptBuilder
    day: str
    prompt_contributors: Sequence[Contributor] = ()
    model_id: str | None = None
    max_steps: int = 8
    max_delegation_depth: int = 5
    max_agent_appearances: int = 1
    tool_allow_list: Sequence[str] | None = None
    tool_timeout_ms: float | None = None
    tool_timeouts: Mapping[str, float] = field(default_factory=dict[str, float])
    tool_transient_retry: TransientRetry | Mapping[str, Any] | bool | None = field(default_factory=TransientRetry)
    follow_ups_count: int = 0
    retriever: Retriever | None = None
    retrieval_top_k: int = 5
    pricing_store: AgentPricingStore | None = None
    history_policy: HistoryPolicy | None = None
    input_processors: Sequence[InputProcessor] = ()
    output_processors: Sequence[OutputProcessor] = ()
    output_schema: Any = None
    output_instruction: str | None = None
    output_repair_attempts: int = 1
    output_from_transcript: bool = False
    intake: Any = None
    ask: bool = False
    skills: Any = None
    memory: Any = None
    approval_policy: ApprovalPolicy = field(default_factory=DefaultApprovalPolicy)
    action_approval_mode: Literal["blocking"] = "blocking"
    personas: Sequence[Persona] = ()
    resolve_ui_catalog: Callable[[], Any] | None = None
    quota: QuotaStore | QuotaProvider | None = None
    host: Any = None
    repeat_guard: int | None = None
    budget: Budget | None = None
    model_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    source: Source = SYSTEM
    prices: Sequence[ModelPrice] = ()
    """The prices of this run: what `pricing:list` recorded."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything is written.

        Raises:
            DefinitionError: a number is no whole number in its range, the retries are none, approvals would not be blocking, or
                something lacks the method it is called by.
        """
        check_deps(self)
        if self.action_approval_mode != "blocking":
            raise DefinitionError(
                f"action_approval_mode={self.action_approval_mode!r:.60} is not there: a turn waits for the decision.",
                advice='Leave it out, or write "blocking".',
            )
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise DefinitionError(
                f"budget={self.budget!r:.60} is no budget.", advice="Give Budget(usd=0.5) or Budget(tokens=20_000)."
            )
        if self.tool_transient_retry is not None:
            self.tool_transient_retry = transient_retry(self.tool_transient_retry)
        for name, least in (
            ("max_steps", 1),
            ("max_delegation_depth", 0),
            ("max_agent_appearances", 1),
            ("retrieval_top_k", 1),
            ("follow_ups_count", 0),
            ("output_repair_attempts", 0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise DefinitionError(
                    f"{name}={value!r} is no whole number of at least {least}.", advice=f"Give {name} such a number."
                )

    @property
    def summarizes(self) -> bool:
        """Whether the history policy says what it left out."""
        return callable(getattr(self.history_policy, "summarize", None))

    @property
    def counts_quota(self) -> bool:
        """Whether the quota is told what is used. A QuotaProvider looks it up in what is booked."""
        # By the class: a replay asks the quota itself nothing.
        return self.quota is not None and not hasattr(type(self.quota), "report")

    def cost_of(self, answer: Mapping[str, Any]) -> float | None:
        """What a call cost: as the provider says, else estimated by the prices of this run; None when neither is known."""
        if answer.get("costUsd") is not None:
            return float(answer["costUsd"])
        price = price_of(answer.get("modelId"), self.prices) or price_of(self.model_id or "unknown", self.prices)
        return estimate_cost(answer.get("usage"), price)

    def budget_check(self, usage: Mapping[str, int], cost: float | None) -> None:
        """Stop before the next call of a model, when what the run may use is used up, as far as that is known.

        Raises:
            BudgetExceededError: it is.
        """
        if self.budget is None:
            return
        tokens = usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
        if self.budget.tokens is not None and tokens >= self.budget.tokens:
            raise BudgetExceededError(f"This run has used {tokens} of the {self.budget.tokens} tokens it may use.")
        if self.budget.usd is not None and cost is None and tokens:
            raise BudgetExceededError(
                f"This run may cost {self.budget.usd:.4f} USD, and what it has cost is unknown: its model has no price. "
                'Say it, loom.set_model_prices({"model": (in, out)}), or give the budget in tokens.'
            )
        if self.budget.usd is not None and cost is not None and cost >= self.budget.usd:
            raise BudgetExceededError(f"This run has cost {cost:.4f} of the {self.budget.usd:.4f} USD it may cost.")
