"""Ready-made runs that join rooms: questions asked in a cell, sub-workflows in numbers, a person asked by a workflow."""

from loomnb.ready.fanout import FanOutWorkflow
from loomnb.ready.items import ChildOutcome, FanOutArgs, FanOutResult, Item, SequenceArgs, SequenceResult
from loomnb.ready.known import know_ready
from loomnb.ready.people import (
    AskUserConfirmDocument,
    AskUserDocument,
    AskUserOptionsDocument,
    AskUserWorkflow,
    ConfirmUserDocument,
    ConfirmUserWorkflow,
)
from loomnb.ready.questions import ASK, CellQuestions
from loomnb.ready.runner import (
    Runner,
    RunResult,
    StatelessRunResult,
    SyncRunResult,
    WorkflowArgs,
    WorkflowRunnerOptions,
    WorkflowRunnerSyncOptions,
    WorkflowRunResult,
)
from loomnb.ready.sequence import SequenceWorkflow

__all__ = [
    "ASK",
    "AskUserConfirmDocument",
    "AskUserDocument",
    "AskUserOptionsDocument",
    "AskUserWorkflow",
    "CellQuestions",
    "ChildOutcome",
    "ConfirmUserDocument",
    "ConfirmUserWorkflow",
    "FanOutArgs",
    "FanOutResult",
    "FanOutWorkflow",
    "Item",
    "RunResult",
    "Runner",
    "SequenceArgs",
    "SequenceResult",
    "SequenceWorkflow",
    "StatelessRunResult",
    "SyncRunResult",
    "WorkflowArgs",
    "WorkflowRunResult",
    "WorkflowRunnerOptions",
    "WorkflowRunnerSyncOptions",
    "know_ready",
]
