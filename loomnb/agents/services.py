"""What a host supplies beside a store: streams, a runner, quotas, prices, models to pick, files on their way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from loomnb.agents.shapes import MaybeAwaitable
from loomnb.agents.tool_types import Actor, AnswersReply, Decision
from loomnb.agents.turn_types import AgentTurnInput
from loomnb.errors import LoomError
from loomnb.runtime import SinkWriter

__all__ = [
    "AgentPricingStore",
    "AgentRunner",
    "AttachmentStagingStore",
    "ChatQueueStore",
    "ConfirmTokenStore",
    "ModelCatalog",
    "ModelPrice",
    "QuotaProvider",
    "QuotaReport",
    "QuotaStore",
    "QuotaVerdict",
    "QuotaWindow",
    "StoreMissing",
    "TokenStreamSink",
]


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


class StoreMissing(LoomError):
    """A store lacks a method that something was asked for needs."""

    code = "STORE_LACKS_METHOD"
