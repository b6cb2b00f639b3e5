"""Signals of a runner are known by their mark, divergences by the name of their class; nothing hostile disturbs either."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from loomnb.agents import control_flow
from loomnb.agents.control_flow import (
    CONTROL_FLOW_MARK,
    ControlFlowSignal,
    NonDeterminismError,
    is_control_flow_signal,
    is_not_a_failure,
    is_replay_integrity_error,
)


class Suspend(ControlFlowSignal):
    pass


class Foreign(BaseException):
    """A runner of another library makes its own, with the mark alone."""


setattr(Foreign, CONTROL_FLOW_MARK, True)


def marked(value: object) -> Exception:
    error = Exception("x")
    setattr(error, CONTROL_FLOW_MARK, value)
    return error


def lookalike() -> Exception:
    error = Exception("x")
    error.aviary_durable_control_flow = True  # type: ignore[attr-defined]
    return error


class Hostile(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(name)


@pytest.mark.case("agents:W01")
@pytest.mark.parametrize("error", [Suspend(), Foreign(), marked(True)], ids=["ours", "foreign", "on the instance"])
def test_a_marked_signal_is_known_whatever_its_class(error: BaseException) -> None:
    assert is_control_flow_signal(error)


class ControlFlowSignalOfSomebody(Exception):
    pass


ControlFlowSignalOfSomebody.__name__ = "ControlFlowSignal"


@pytest.mark.case("agents:W01")
@pytest.mark.parametrize(
    "thing",
    [
        ControlFlowSignalOfSomebody(),
        lookalike(),
        marked(1),
        marked("true"),
        marked(False),
        None,
        "text",
        {CONTROL_FLOW_MARK: True},
    ],
    ids=["the name alone", "a look-alike", "1", "text true", "False", "None", "a text", "a mapping"],
)
def test_what_is_not_exactly_marked_is_no_signal(thing: object) -> None:
    assert not is_control_flow_signal(thing)


@pytest.mark.parametrize("ask", [is_control_flow_signal, is_replay_integrity_error, is_not_a_failure], ids=lambda f: f.__name__)
def test_a_hostile_object_is_nothing_special(ask: Any) -> None:
    assert ask(Hostile()) is False


class NondeterminismError(Exception):
    """As another durable runner names it."""


class Deeper(NondeterminismError):
    pass


@pytest.mark.parametrize(
    "error", [NonDeterminismError(1, "a", "b"), NondeterminismError(), Deeper()], ids=["ours", "another's", "a subclass"]
)
def test_a_divergence_is_known_by_the_name_of_its_class(error: Exception) -> None:
    assert is_replay_integrity_error(error)
    assert is_not_a_failure(error)
    assert not is_control_flow_signal(error)


@pytest.mark.parametrize("thing", [ValueError("NonDeterminismError"), "NonDeterminismError", NonDeterminismError, None], ids=repr)
def test_the_name_elsewhere_is_no_divergence(thing: object) -> None:
    assert not is_replay_integrity_error(thing)


@pytest.mark.parametrize("copied", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))], ids=["copy", "pickle"])
def test_a_divergence_says_where_and_survives_a_copy(copied: Any) -> None:
    error = copied(NonDeterminismError(7, "llm:0", None))
    assert (error.position, error.expected, error.found) == (7, "llm:0", None)
    assert error.code == "REPLAY_DIVERGED"
    assert "checkpoint 7: recorded is `llm:0`, asked for was nothing" in str(error)


def test_every_public_name_is_there() -> None:
    assert all(hasattr(control_flow, name) for name in control_flow.__all__)
