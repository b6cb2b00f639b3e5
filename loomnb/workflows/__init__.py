"""Workflows as classes: places, transitions, guards; checked when they are defined."""

from loomnb.tools import Callback, QueueResult
from loomnb.workflows.apps import APPS, AppWorkflow, StudioApp, StudioAppOptions, StudioUiConfig, register_app
from loomnb.workflows.base import BaseWorkflow, RunOptions
from loomnb.workflows.decorators import TransitionOptions, guard, transition
from loomnb.workflows.define import WorkflowOptions, definition_of, know, refine, workflow
from loomnb.workflows.table import WorkflowDefinition

__all__ = [
    "APPS",
    "AppWorkflow",
    "BaseWorkflow",
    "Callback",
    "QueueResult",
    "RunOptions",
    "StudioApp",
    "StudioAppOptions",
    "StudioUiConfig",
    "TransitionOptions",
    "WorkflowDefinition",
    "WorkflowOptions",
    "definition_of",
    "guard",
    "know",
    "refine",
    "register_app",
    "transition",
    "workflow",
]
