"""The run loop: start, move, wait, answer, retry, time out, cancel, restore. One engine for every vocabulary."""

from loomnb.runtime.attempt import CURRENT, Show, current_attempt
from loomnb.runtime.definition import END, START, AskContent, Definition, Envelope, Execution, Move, RunContext, TransitionInput
from loomnb.runtime.failure import Failure
from loomnb.runtime.graphs import definition_graph, run_graph
from loomnb.runtime.handle import Face, HistoryEntry, NoFace, Run
from loomnb.runtime.lifecycle import FINISHED, TABLE, Event, Status, after
from loomnb.runtime.loop import MISSING, Runtime, default_timeout
from loomnb.runtime.record import RunRecord, RunView
from loomnb.runtime.registry import REGISTRY, Registry

__all__ = [
    "CURRENT",
    "END",
    "FINISHED",
    "MISSING",
    "REGISTRY",
    "START",
    "TABLE",
    "AskContent",
    "Definition",
    "Envelope",
    "Event",
    "Execution",
    "Face",
    "Failure",
    "HistoryEntry",
    "Move",
    "NoFace",
    "Registry",
    "Run",
    "RunContext",
    "RunRecord",
    "RunView",
    "Runtime",
    "Show",
    "Status",
    "TransitionInput",
    "after",
    "current_attempt",
    "default_timeout",
    "definition_graph",
    "run_graph",
]
