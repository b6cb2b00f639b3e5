"""Workflows as classes: places, transitions, guards; checked when they are defined."""

from loomnb.workflows.base import BaseWorkflow, Callback, QueueResult, RunOptions
from loomnb.workflows.decorators import TransitionOptions, guard, transition
from loomnb.workflows.define import definition_of, know, refine, workflow
from loomnb.workflows.table import WorkflowDefinition

__all__ = [
    "BaseWorkflow",
    "Callback",
    "QueueResult",
    "RunOptions",
    "TransitionOptions",
    "WorkflowDefinition",
    "definition_of",
    "guard",
    "know",
    "refine",
    "transition",
    "workflow",
]
