"""The run loop: start, move, wait, answer, retry, time out, cancel, restore. One engine for every vocabulary."""

from loomnb.runtime.attempt import CURRENT, Attempt, Show, current_attempt
from loomnb.runtime.definition import END, START, AskContent, Definition, Envelope, Execution, Move, RunContext, TransitionInput
from loomnb.runtime.events import RunEvent
from loomnb.runtime.failure import Failure, is_stopping, name_frames_by
from loomnb.runtime.graphs import definition_graph, run_graph
from loomnb.runtime.handle import Face, HistoryEntry, NoFace, Run
from loomnb.runtime.host import Workers
from loomnb.runtime.lifecycle import FINISHED, TABLE, WORKFLOW_STATES, Event, Status, WorkflowState, after
from loomnb.runtime.live import LiveCall, done, failed
from loomnb.runtime.loop import MISSING, Runtime, default_timeout
from loomnb.runtime.model import (
    MODELS,
    ModelProvider,
    ModelTool,
    SinkWriter,
    ToolRequest,
    TurnRequest,
    TurnResult,
    model_of,
    use_models,
)
from loomnb.runtime.record import APP, LOCAL_USER, NOTEBOOK_APP, Progress, RunRecord, RunView
from loomnb.runtime.records import Owner
from loomnb.runtime.registry import REGISTRY, Registry
from loomnb.runtime.restored import Restored
from loomnb.runtime.signal import AbortSignal
from loomnb.runtime.stateless import Tried, try_move

__all__ = [
    "APP",
    "CURRENT",
    "END",
    "FINISHED",
    "LOCAL_USER",
    "MISSING",
    "MODELS",
    "NOTEBOOK_APP",
    "REGISTRY",
    "START",
    "TABLE",
    "WORKFLOW_STATES",
    "AbortSignal",
    "AskContent",
    "Attempt",
    "Definition",
    "Envelope",
    "Event",
    "Execution",
    "Face",
    "Failure",
    "HistoryEntry",
    "LiveCall",
    "ModelProvider",
    "ModelTool",
    "Move",
    "NoFace",
    "Owner",
    "Progress",
    "Registry",
    "Restored",
    "Run",
    "RunContext",
    "RunEvent",
    "RunRecord",
    "RunView",
    "Runtime",
    "Show",
    "SinkWriter",
    "Status",
    "ToolRequest",
    "TransitionInput",
    "Tried",
    "TurnRequest",
    "TurnResult",
    "Workers",
    "WorkflowState",
    "after",
    "current_attempt",
    "default_timeout",
    "definition_graph",
    "done",
    "failed",
    "is_stopping",
    "model_of",
    "name_frames_by",
    "run_graph",
    "try_move",
    "use_models",
]
