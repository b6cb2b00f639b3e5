"""loomnb: workflows that run, ask and remember in a notebook. `import loomnb as loom`.

The front door: names only, each loaded when it is first used, so that importing loomnb costs nothing and DuckDB loads at the
first `open`. `__init__.pyi` says the same to type checkers; tests/test_door.py keeps the two equal.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_ERRORS = (
    "AnswerInvalid AnswerRefused ArgsInvalid Bug Conflict DefinitionError InvalidRequest LoomError MoveTimedOut NoFrontEnd "
    "NotFound NotJson OwnershipLost ReadOnly Refused RunFailed SchemaValidationError StepError StorageFailed StoreBusy "
    "StoreClosed StoreDamaged ToolFailed ToolPending Unavailable WorldFailed WouldDeadlock"
)
_ASKS = (
    "Answers Ask Confirmation Option Question user_answer_confirmation_schema user_answer_questions_schema "
    "user_ask_confirmation_schema user_ask_questions_schema"
)
_DOCUMENTS = (
    "DocumentEntity DocumentOptions DocumentSaveOptions DocumentStore ErrorDocument LinkDocument MarkdownDocument "
    "MessageDocument PlainDocument StaticDocumentMeta WidgetRef document"
)
_RUNTIME = (
    "Event Failure HistoryEntry ModelProvider ModelTool Progress Restored Run RunContext RunEvent RunView Status ToolRequest "
    "TransitionInput TurnRequest TurnResult WorkflowState use_models"
)
_TOOLS = (
    "BaseTool Callback FunctionTool QueueResult ServerTool ToolCallOptions ToolEnvelope ToolInterception ToolOptions ToolResult "
    "overrides resolve tool use_tool_interceptor"
)
_WORKFLOWS = "BaseWorkflow RunOptions StudioAppOptions StudioUiConfig TransitionOptions WorkflowOptions guard transition workflow"
_PRESENT = "Graph GraphEdge GraphNode"
_READY = (
    "AskUserConfirmDocument AskUserDocument AskUserOptionsDocument AskUserWorkflow ChildOutcome ConfirmUserDocument "
    "ConfirmUserWorkflow FanOutResult FanOutWorkflow RunResult SequenceResult SequenceWorkflow StatelessRunResult "
    "SyncRunResult WorkflowArgs WorkflowRunResult WorkflowRunnerOptions WorkflowRunnerSyncOptions"
)
_BLUEPRINTS = (
    "ABSENT STAGE_END WORKFLOW_END AbortSignal AgentExecutionAccess AgentSpec AgentTool Blueprint BlueprintInvalid "
    "BlueprintStage BlueprintStep Code CodeExecutionAccess CodeRecovery CommitResult Cursor Diagnostic ErrorCatalog "
    "ErrorEntry ExecutableCode FlowRun FlowRunView InitializerContext InteractionAccess ProjectAccess ProjectCommand "
    "ProjectCommandResult ProjectDiff ProjectError ProjectFiles Report SavedAction SkillSpec SnapshotResult StageEnd "
    "StageStateInitializer StateAccess StepResult Storage StorageAccess StorageCategory StorageOperation StoragePage "
    "StorageQuery StorageReadAccess StoredArtifact StoredRecord ToStage ToStep WorkflowEnd WorkflowModule "
    "agent_execution_context_key code define_agent_tool get_agent_execution_access load_folder validate "
    "workflow_metadata_schema workflow_protocol_version"
)
_STUDIO = (
    "App Artifact AskRun Loom Pending PendingAsk WorkflowRunner answers artifact ask_questions cancel_all_runs close "
    "confirm define events flow flows graph pending restore run runs snapshot sql start studio_app"
)

_WHERE: dict[str, tuple[str, str]] = {
    **{name: ("loomnb.errors", name) for name in _ERRORS.split()},
    **{name: ("loomnb.asks", name) for name in _ASKS.split()},
    **{name: ("loomnb.documents", name) for name in _DOCUMENTS.split()},
    **{name: ("loomnb.runtime", name) for name in _RUNTIME.split()},
    **{name: ("loomnb.tools", name) for name in _TOOLS.split()},
    **{name: ("loomnb.workflows", name) for name in _WORKFLOWS.split()},
    **{name: ("loomnb.ready", name) for name in _READY.split()},
    **{name: ("loomnb.blueprints", name) for name in _BLUEPRINTS.split()},
    **{name: ("loomnb.studio", name) for name in _STUDIO.split()},
    **{name: ("loomnb.present", name) for name in _PRESENT.split()},
    "Relation": ("loomnb.store", "Relation"),
    "StoreWarning": ("loomnb.store", "StoreWarning"),
    "Json": ("loomnb.jsonvalue", "Json"),
    "open": ("loomnb.studio", "open_store"),
}

__all__ = sorted(_WHERE)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  # a list of names, made from the one table above


_DEPRECATED = ("Query", "SnapshotCategory")
"""Former names: they warn each time, so that nothing of them is kept here."""


def __getattr__(name: str) -> Any:
    if name == "storage":  # of the store that is the default one now
        return importlib.import_module("loomnb.studio").default().storage
    if name in _DEPRECATED:
        return importlib.import_module("loomnb.blueprints.metadata").former(name, stacklevel=3)
    try:
        module, attribute = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module 'loomnb' has no attribute {name!r}") from None
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
