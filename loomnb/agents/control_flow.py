"""Which exceptions are no failures: signals of the runner, and a replay that went another way. Nobody may swallow those.

A signal is known by a mark, not by its class or name: runners of other libraries make their own. A divergence is known by the
name of its class, because every durable runner has its own of that name. Rule: contracts/agents.md §4.
"""

from __future__ import annotations

from loomnb.errors import Refused

__all__ = [
    "CONTROL_FLOW_MARK",
    "ControlFlowSignal",
    "NonDeterminismError",
    "is_control_flow_signal",
    "is_not_a_failure",
    "is_replay_integrity_error",
]

CONTROL_FLOW_MARK = "__aviary_durable_control_flow__"
"""The attribute that makes an exception a signal of a runner, when it is exactly `True`."""

_REPLAY_NAMES = frozenset({"NonDeterminismError", "NondeterminismError"})


class ControlFlowSignal(Exception):
    """Base for those who make a signal: it unwinds the loop (to suspend it, say) and is no failure of what it passes through."""

    __aviary_durable_control_flow__ = True


class NonDeterminismError(Refused):
    """A replay asked for another checkpoint than the one that was recorded at this position.

    Attributes:
        position: of the checkpoint in the journal, from 0.
        expected: the name that is recorded there; None: nothing is.
        found: the name that was asked for; None: the run ended before it.
    """

    code = "REPLAY_DIVERGED"

    def __init__(self, position: int, expected: str | None, found: str | None) -> None:
        super().__init__(
            f"The replay went another way at checkpoint {position}: recorded is {_told(expected)}, asked for was {_told(found)}.",
            advice="The code, or what it is given, changed while the run was under way. Go on with what it was, or start anew.",
        )
        self.args = (position, expected, found)  # what pickle and copy make it from
        self.position = position
        self.expected = expected
        self.found = found


def _told(name: str | None) -> str:
    return "nothing" if name is None else f"`{name}`"


def is_control_flow_signal(error: object) -> bool:
    """Whether it is a signal of a runner: its mark is exactly `True`. Never raises, whatever it is given."""
    try:
        return getattr(error, CONTROL_FLOW_MARK, None) is True
    except BaseException:  # noqa: BLE001  # members of a hostile object may raise anything
        return False


def is_replay_integrity_error(error: object) -> bool:
    """Whether it says that a replay diverged: its class, or one of its bases, is named so. Never raises."""
    try:
        return isinstance(error, BaseException) and any(cls.__name__ in _REPLAY_NAMES for cls in type(error).__mro__)
    except BaseException:  # noqa: BLE001  # as above: a metaclass may be hostile too
        return False


def is_not_a_failure(error: object) -> bool:
    """Whether every catch has to let it through untouched: a signal, or a divergence."""
    return is_control_flow_signal(error) or is_replay_integrity_error(error)
