"""Which ready-made definitions every store knows, so that runs of an earlier kernel go on without a cell that defines them."""

from __future__ import annotations

from loomnb.ready.agent_workflow import AgentWorkflow, ChatAgentWorkflow
from loomnb.ready.fanout import FanOutWorkflow
from loomnb.ready.people import AskUserWorkflow, ConfirmUserWorkflow
from loomnb.ready.questions import ASK
from loomnb.ready.sequence import SequenceWorkflow
from loomnb.runtime import REGISTRY
from loomnb.workflows import know

__all__ = ["know_ready"]


def know_ready() -> None:
    """Make them known; knowing them already is fine."""
    if REGISTRY.get(ASK.name) is not ASK:
        REGISTRY.add(ASK, type(ASK).__module__, type(ASK).__qualname__)
    for cls in (
        *(FanOutWorkflow, SequenceWorkflow, AskUserWorkflow, ConfirmUserWorkflow),
        *(AgentWorkflow, ChatAgentWorkflow),
    ):
        know(cls)
