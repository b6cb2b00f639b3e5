"""What a vocabulary supplies to the run loop: a checked table of moves, how to judge what comes in, how to perform one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar

from loomnb.asks import AskKind, AskWidget, Form, Question
from loomnb.runtime.failure import Failure

__all__ = ["END", "START", "AskContent", "Definition", "Envelope", "Execution", "Move", "RunContext", "TransitionInput"]

START, END = "start", "end"

TArgs = TypeVar("TArgs")
TData = TypeVar("TData")
TMeta = TypeVar("TMeta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One line of the table: what may move from `from_`, and what happens when it fails. Times are milliseconds."""

    name: str
    from_: str
    to: str
    wait: bool = False
    priority: float | None = None
    guard_name: str = ""
    guard: Callable[[Mapping[str, Any]], bool | Awaitable[bool]] | None = None
    retry_attempts: int = -1
    retry_delay: float = 1000
    retry_backoff: Literal["fixed", "exponential"] = "exponential"
    retry_max_delay: float = 30_000
    retry_target: str | None = None
    error_place: str | None = None
    timeout: float = 300_000
    is_async: bool = True
    is_step: bool = False
    """Its body has live access: what it writes is durable at the call, it may ask in its middle, and a cancel takes its access
    away instead of canceling its task."""
    keeps_time: bool = False
    """It belongs to the move before it: the time that the run shows does not change with it."""
    routes: tuple[tuple[str, str], ...] = ()
    """Of a step: outcome → place. Where it leads is then its outcome's business, and `to` says nothing."""

    def back_off(self, attempt: int) -> float:
        """Seconds before try number `attempt` (1 is the first retry). The cap holds for fixed delays too."""
        delay = self.retry_delay * (2 ** (attempt - 1) if self.retry_backoff == "exponential" else 1)
        return min(delay, self.retry_max_delay) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AskContent:
    """What a wait transition asks, without the id the run gives it."""

    kind: AskKind
    label: str
    name: str = ""
    """What it is answered by, beside its id; empty: the move's name."""
    description: str = ""
    form: Form | None = None
    questions: tuple[Question, ...] = ()
    context: str = ""
    key: str = ""
    widget: AskWidget | None = None
    request: Any = None
    """JSON of what is asked, where the other fields do not say it: of an approval, the call."""
    expires_at: datetime | None = None
    """When it is answered with `{"expired": true}` if nobody was faster."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Where a move stands: the place before it, and how often this transition has failed since it last succeeded."""

    place: str
    retry_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(Generic[TArgs]):
    """What a move knows of its run.

    Attributes:
        args: the run's arguments, read-only: what the schema parsed them to, or plain JSON without one.
        config: its configuration, the same way: what the config schema parsed, with its defaults.
        execution: the place before the move and its retry count; None in a tool.
        idempotency_key: the same for every try of this move (in a tool: of this call), also after the kernel died in the
            middle of it. Hand it to services that can tell a repeated request.
    """

    user_id: str
    workspace_id: str
    workflow_id: str
    args: TArgs
    config: Any = None
    execution: Execution | None = None
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionInput(Generic[TData, TMeta]):
    """What a wait transition receives, whoever resumed it. `data` is what the transition's schema parsed."""

    workflow_id: str
    status: Literal["completed", "failed", "canceled"] = "completed"
    has_error: bool = False
    error_message: str | None = None
    data: TData
    meta: TMeta | None = field(default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Who resumed a wait transition, and how that ended: the run itself for a person, a child for a callback."""

    workflow_id: str
    status: Literal["completed", "failed", "canceled"] = "completed"
    error_message: str | None = None
    meta: Any = None


class Definition(Protocol):
    """A checked definition of a kind of run."""

    @property
    def name(self) -> str:
        """The identifier."""
        ...

    @property
    def title(self) -> str:
        """For people."""
        ...

    @property
    def origin(self) -> str:
        """Where it was written: the module, or the notebook."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes when the table does."""
        ...

    @property
    def step_limit(self) -> int:
        """Moves of one pass at the most."""
        ...

    @property
    def runs_ahead(self) -> bool:
        """Whether its bodies touch nothing but the run, so that its moves need not wait for one another's commits."""
        ...

    @property
    def rests_at_start(self) -> bool:
        """Whether a run begins with its question instead of a move."""
        ...

    def parse_args(self, raw: Any) -> tuple[Any, Any]:
        """The JSON to store and the value for `ctx.args`. Raises ArgsInvalid."""
        ...

    def load_args(self, stored: Any) -> Any:
        """The value for `ctx.args` from what was stored."""
        ...

    def parse_config(self, raw: Any) -> tuple[Any, Any]:
        """The JSON to store and the value for `ctx.config`. Raises ArgsInvalid."""
        ...

    def load_config(self, stored: Any) -> Any:
        """The value for `ctx.config` from what was stored."""
        ...

    @property
    def places(self) -> Sequence[str]:
        """The places that moves leave, as they are written; also those nothing leads to."""
        ...

    def moves_from(self, place: str) -> Sequence[Move] | None:
        """What may move from a place, best first; None when the place is unknown."""
        ...

    def has_wait(self, name: str) -> bool:
        """Whether a wait transition of this name exists, anywhere."""
        ...

    def check_state(self, state: Any) -> Any:
        """The state to store. Raises when it breaks the state's schema."""
        ...

    def ask(self, move: Move, args: Any) -> AskContent:
        """What a wait transition asks."""
        ...

    def accept(self, move: Move, args: Any, payload: Any) -> Any:
        """The payload to store, frozen. Raises AnswerInvalid."""
        ...

    def failure_of(self, exc: Exception, move: Move | None = None) -> Failure:
        """How an exception that ended a move is told; without one, what kept it from being committed."""
        ...

    def shown(self, place: str) -> str:
        """The place that shows it in a picture; itself, but where a place is only passed through."""
        ...

    def group_of(self, place: str) -> tuple[str, str]:
        """What a place belongs to in a picture, empty for nothing, and what is written on it."""
        ...

    @property
    def is_strict(self) -> bool:
        """Whether a stored run goes on by itself only with the very definition it began with."""
        ...

    def perform(self, move: Move, context: RunContext[Any], state: Any, payload: Any, envelope: Envelope) -> Any:
        """Call the body; whatever it returns, also an awaitable."""
        ...
