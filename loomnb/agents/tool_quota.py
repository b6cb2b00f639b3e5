"""Quotas of tools: what a person has used of a kind, looked up before each call and added to after it.

Fails open: where the place that counts cannot be asked, tools work. It guards a budget, and is no lock.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from loomnb.agents.spi import MaybeAwaitable, ModelPrice, settled
from loomnb.errors import Refused
from loomnb.tools import ToolEnvelope, ToolInterception, spec_of, use_tool_interceptor

__all__ = [
    "PROCESSING_TIME",
    "LlmCost",
    "QuotaCalculator",
    "QuotaExceeded",
    "QuotaState",
    "QuotaUse",
    "ToolQuotas",
    "check_quota",
    "use_tool_quotas",
]

PROCESSING_TIME = "processing-time-ms"
"""The kind that every tool uses: milliseconds of its work."""

_LOG = logging.getLogger("loomnb.agents")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaState:
    """What is on record. `limit` −1: unlimited; None: nobody allowed anything, which is a limit of 0."""

    used: float = 0
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """Where somebody stands. `limit` as it counts: −1 for unlimited, 0 for a missing one."""

    exceeded: bool
    used: float = 0
    limit: float = -1


class ToolQuotas(Protocol):
    """Where uses are counted, by person and kind. Both methods may be sync or async."""

    def read(self, user_id: str, quota_type: str) -> MaybeAwaitable[QuotaState]:
        """What is on record of a person and a kind."""
        ...

    def report(self, user_id: str, quota_type: str, amount: int) -> MaybeAwaitable[None]:
        """Add to what was used."""
        ...


class QuotaCalculator(Protocol):
    """How much one call of a tool used of its own kind."""

    @property
    def quota_type(self) -> str:
        """The kind, such as `llm-cost`."""
        ...

    def calculate(self, args: Any, envelope: ToolEnvelope[Any, Any]) -> int | None:
        """The amount; None: nothing to report."""
        ...


class QuotaExceeded(Refused):
    """Nothing is left of a quota. The tool did not run.

    Attributes:
        quota_type: the kind.
        used: what was used.
        limit: what may be used.
    """

    code = "QUOTA_EXCEEDED"
    retryable = True

    def __init__(self, message: str, *, quota_type: str = "", used: float = 0, limit: float = 0, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.quota_type = quota_type
        self.used = used
        self.limit = limit


async def check_quota(quotas: ToolQuotas | None, user_id: str, quota_type: str) -> QuotaUse:
    """Where a person stands with a kind: exceeded once all that may be is used. Nowhere counted, or not to be asked: allowed."""
    if quotas is None:
        return QuotaUse(exceeded=False)
    try:
        state = await settled(quotas.read(user_id, quota_type))
        limit = 0 if state.limit is None else state.limit
        return QuotaUse(exceeded=limit != -1 and state.used >= limit, used=state.used, limit=limit)
    except Exception as exc:  # noqa: BLE001  # fails open, whatever it is
        _LOG.warning("The quota %s could not be read, so the tool is allowed: %r", quota_type, exc)
        return QuotaUse(exceeded=False)


def use_tool_quotas(
    quotas: ToolQuotas | None, *, calculators: Mapping[type | str, QuotaCalculator] | None = None, priority: float = 50
) -> None:
    """Judge every tool call of this process by quotas from now on; another call of this function replaces the former.

    Before a tool runs, `processing-time-ms` of the person it runs for is looked at, then the kind of its calculator. After it,
    what was used is reported: the milliseconds of its work (also when it failed), and what the calculator says.

    Args:
        quotas: where uses are counted; None: nothing is judged.
        calculators: tool class, or name → what it uses of a kind of its own.
        priority: where it stands among the interceptors; lower is further out.

    Raises:
        DefinitionError: a class among the calculators is no tool.
    """
    own = {key if isinstance(key, str) else spec_of(key).name: found for key, found in (calculators or {}).items()}

    class ToolQuotaInterceptor:
        async def intercept(
            self,
            context: ToolInterception,
            next: Callable[[], Awaitable[ToolEnvelope[Any, Any]]],  # noqa: A002  # the contract's word
        ) -> ToolEnvelope[Any, Any]:
            calculator = own.get(context.tool.name)
            user = context.run_context.user_id
            for kind in [PROCESSING_TIME, *([calculator.quota_type] if calculator is not None else [])]:
                _admit(await check_quota(quotas, user, kind), kind, context.tool.name)
            try:
                envelope = await next()
            finally:
                # The pipeline says it before any interceptor hears of the end, so it is there even for the innermost one.
                spent = math.ceil(context.metadata.get("durationMs", 0))
                await _report(quotas, user, PROCESSING_TIME, spent)
            if calculator is not None:
                await _report(quotas, user, calculator.quota_type, _amount(calculator, context.args, envelope))
            return envelope

    use_tool_interceptor(priority=priority)(ToolQuotaInterceptor)


def _admit(use: QuotaUse, kind: str, tool: str) -> None:
    if use.exceeded:
        raise QuotaExceeded(
            f"The tool {tool!r} did not run: {use.used:g} of {use.limit:g} is used of the quota {kind}.",
            quota_type=kind,
            used=use.used,
            limit=use.limit,
            advice="Raise the limit, or wait until it begins anew.",
        )


def _amount(calculator: QuotaCalculator, args: Any, envelope: ToolEnvelope[Any, Any]) -> int | None:
    try:
        return calculator.calculate(args, envelope)
    except Exception as exc:  # noqa: BLE001  # the tool has done its work; that it cannot be counted must not lose it
        _LOG.warning("What was used of the quota %s could not be counted: %r", calculator.quota_type, exc)
        return None


async def _report(quotas: ToolQuotas | None, user: str, kind: str, amount: int | None) -> None:
    if quotas is None or not amount:
        return
    try:
        await settled(quotas.report(user, kind, amount))
    except Exception as exc:  # noqa: BLE001  # as in _amount
        _LOG.warning("%d of the quota %s could not be reported: %r", amount, kind, exc)


UNKNOWN_MODEL = ModelPrice(model_id="", input_price_per_1m=3, output_price_per_1m=15)
"""What a model costs that no price names: a guess that is rather too high than too low."""


@dataclass(frozen=True, slots=True)
class LlmCost:
    """What a call of a model costs, in micro-cents: for tools whose envelope has `metadata = {"modelId", "usage"}`.

    Attributes:
        prices: `model_id` of a price is the beginning of the models it is for; the longest one counts.
        fallback: for models that no price names.
        inclusive: whether `inputTokens` counts cached tokens too, and `outputTokens` those of reasoning (usage in loomnb does);
            False: they come on top.
    """

    prices: Sequence[ModelPrice]
    fallback: ModelPrice = UNKNOWN_MODEL
    inclusive: bool = True
    quota_type: str = "llm-cost"

    def calculate(self, args: Any, envelope: ToolEnvelope[Any, Any]) -> int | None:
        """The cost of the call; None where nothing is said of it, or nothing was used."""
        del args
        metadata = envelope.metadata
        if not isinstance(metadata, Mapping) or not isinstance(metadata.get("usage"), Mapping):
            return None
        return self.of(str(metadata.get("modelId") or metadata.get("model") or ""), metadata["usage"])

    def of(self, model: str, usage: Mapping[str, Any]) -> int | None:
        """The cost of a usage in micro-cents, to the next whole one; None for no tokens.

        Args:
            model: its id.
            usage: `inputTokens`, `outputTokens`, and perhaps `cacheReadInputTokens` or `cacheReadTokens`,
                `cacheCreationInputTokens` or `cacheWriteTokens`, `reasoningTokens`.
        """
        read = _tokens(usage, "cacheReadInputTokens", "cacheReadTokens")
        written = _tokens(usage, "cacheCreationInputTokens", "cacheWriteTokens")
        plain, output, reasoning = (_tokens(usage, name) for name in ("inputTokens", "outputTokens", "reasoningTokens"))
        if self.inclusive:
            plain, output = max(0, plain - read - written), max(output, reasoning)
        else:
            output += reasoning
        price = self.price_of(model)
        dollars_per_1m = (
            plain * price.input_price_per_1m
            + read * _or(price.cache_read_price_per_1m, price.input_price_per_1m)
            + written * _or(price.cache_write_price_per_1m, price.input_price_per_1m)
            + output * price.output_price_per_1m
        )
        # A dollar is 100 million micro-cents, and prices are for a million tokens.
        return math.ceil(round(dollars_per_1m * 100, 6)) or None

    def price_of(self, model: str) -> ModelPrice:
        """The price of the longest beginning of this model's id, else the fallback."""
        fitting = [price for price in self.prices if price.model_id and model.startswith(price.model_id)]
        return max(fitting, key=lambda price: len(price.model_id), default=self.fallback)


def _tokens(usage: Mapping[str, Any], *names: str) -> int:
    return next((int(usage[name]) for name in names if usage.get(name)), 0)


def _or(price: float | None, other: float) -> float:
    return other if price is None else price
