"""Workflows as classes: places, transitions, guards; checked when they are defined."""

from loomnb.tools import Callback, QueueResult
from loomnb.workflows.base import BaseWorkflow, RunOptions
from loomnb.workflows.decorators import TransitionOptions, guard, transition
from loomnb.workflows.define import WorkflowOptions, definition_of, know, refine, workflow
from loomnb.workflows.table import WorkflowDefinition

__all__ = [
    "BaseWorkflow",
    "Callback",
    "QueueResult",
    "RunOptions",
    "TransitionOptions",
    "WorkflowDefinition",
    "WorkflowOptions",
    "definition_of",
    "guard",
    "know",
    "refine",
    "transition",
    "workflow",
]
