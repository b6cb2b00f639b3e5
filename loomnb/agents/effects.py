"""What a turn asks of the world. The turn (`turn.py`) only decides and yields these; the driver (`loop.py`) does them.

So the order of a turn, which is its contract, is a plain generator that a test can step through without a model, a store or an
event loop; the same shape as h11's and httpx's logic without I/O.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["AskAnswers", "AskApproval", "AskRepeat", "Checkpoint", "Direct", "Effect", "Parallel", "Patched"]

Action = Callable[..., Awaitable[Any]]
"""A method of `TurnWork`, unbound: what is done, without who does it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Do something under a name of the journal; sent back: the JSON it gave, or what is on record under that name."""

    name: str
    action: Action
    args: tuple[Any, ...] = ()
    begins: Mapping[str, Any] | None = None
    """The tool call that acts with it: a kill in its middle must be known afterwards for one."""


@dataclass(frozen=True, slots=True)
class Direct:
    """Do something that is done again whenever the turn is replayed: it has no effect on the world."""

    action: Action
    args: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Parallel:
    """Do several checkpoints side by side. They take their positions in this order; sent back: a `(value, error)` for each."""

    checkpoints: Sequence[Checkpoint]


@dataclass(frozen=True, slots=True)
class Patched:
    """Whether this run has the newer shape `id`; sent back: True or False."""

    id: str


@dataclass(frozen=True, slots=True)
class AskApproval:
    """Let a person decide on a call; sent back: a Decision."""

    call: Mapping[str, Any]
    timeout_ms: float | None


@dataclass(frozen=True, slots=True)
class AskAnswers:
    """Let a person answer a set of questions; sent back: an AnswersReply."""

    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AskRepeat:
    """The model asks for the same thing again; sent back: `continue`, `stop`, or what it is told instead."""

    call: Mapping[str, Any]
    count: int


Effect = Checkpoint | Direct | Parallel | Patched | AskApproval | AskAnswers | AskRepeat
