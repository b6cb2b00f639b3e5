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
    "DocumentEntity DocumentOptions DocumentSaveOptions DocumentStore ErrorDocument LinkDocument LlmContextDocument "
    "LlmMessageDocument MarkdownDocument MessageDocument PlainDocument StaticDocumentMeta WidgetRef document"
)
_RUNTIME = (
    "Event Failure HistoryEntry ModelProvider ModelTool Progress Restored Run RunContext RunEvent RunView SinkWriter Status "
    "ToolRequest TransitionInput TurnRequest TurnResult WorkflowState"
)
_TOOLS = (
    "BaseTool Callback FunctionTool QueueResult ServerTool ToolCallOptions ToolEnvelope ToolInterception ToolOptions ToolResult "
    "overrides resolve tool use_tool_interceptor"
)
_WORKFLOWS = "BaseWorkflow RunOptions StudioAppOptions StudioUiConfig TransitionOptions WorkflowOptions guard transition workflow"
_PRESENT = "Graph GraphEdge GraphNode chart create_component create_component_registry negotiate_catalog table"
_READY = (
    "AgentArgs AgentConfig AgentFinishTool AgentWorkflow AskClarificationTool AskForApprovalTool AskUserConfirmDocument "
    "AskUserDocument AskUserOptionsDocument AskUserWorkflow ChatAgentArgs ChatAgentWorkflow ChildOutcome "
    "ConfirmUserDocument ConfirmUserWorkflow FanOutResult FanOutWorkflow LlmDelegateToolCallsTool LlmGenerateObjectTool "
    "LlmGenerateTextTool LlmMessage LlmUpdateToolResultTool RunResult SequenceResult SequenceWorkflow StatelessRunResult "
    "SyncRunResult WorkflowArgs WorkflowRunResult WorkflowRunnerOptions WorkflowRunnerSyncOptions llm_provider "
    "register_llm_provider"
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
_AGENTS = (
    "Actor AgentApprovalPort AgentDefinition AgentGovernanceQueries AgentPricingStore AgentRegistry AgentRunner "
    "AgentStore AgentTurnInput AgentTurnResult AnswersReply ApprovalPolicy ApprovalRequirement ApprovalRules "
    "BackgroundActorResolver Budget BudgetExceededError ChatMessage ClosedRolesPolicy CompatibleModel ConfirmTokenError "
    "ControlFlowSignal DEFAULT_STRUCTURED_OUTPUT_INSTRUCTION DayRange Decision DefaultApprovalPolicy DefaultRolesPolicy "
    "FolderSkills FunctionalTool HistoryPolicy InMemoryAgentStore InMemoryGovernance InMemoryMemories "
    "InMemoryPricingStore InMemoryQuotaStore InMemorySkills InputProcessor Intake IntakeQuestion Key LlmCost LocalServer "
    "LoopDeps LoopHooks McpCallTool McpConfig McpListToolsTool McpSecurityError McpTools Memory MemoryProvider "
    "MemorySink ModelError ModelKeyMissing ModelPackageMissing ModelPrice ModelRateLimited NonDeterminismError "
    "OutputProcessor OutputRejectedError OutputVerdict Persona Preflight ProcessorContext ProcessorFailedError Prompt "
    "PromptContext QuotaExceededError QuotaProvider QuotaReport QuotaState QuotaStore QuotaVerdict QuotaWindow "
    "RepeatedCallError Retriever RolesPolicy RunCancelledError Skill SkillProvider SqlGovernance StoreQuotaProvider "
    "StructuredOutputError Thread TokenStreamSink ToolCallRow ToolContext ToolDisabledError ToolForbiddenError "
    "ToolHandler ToolInputDriftError ToolInputInvalidError ToolNotFoundError ToolPreflightDeniedError ToolQuotas "
    "ToolRegistry ToolSpec ToolTimeoutError TransientRetry UsageRow VendorModel agent_failure_code agent_tool ask_key "
    "close_empty_roles create_frame_buffer create_functional_tool decode_stream_event define_tool estimate_cost "
    "exhausted_window expose_stream_error_details extract_json forget_keys invoke_with_transient_retry "
    "is_control_flow_signal is_replay_integrity_error local_model mcp_tools openai_compatible quota_warning "
    "release_gated_frames repair_instruction run_agent_loop seed_model_prices settle_dead_run stream_failure "
    "subscribe_diagnostics summarizing_history use_tool_quotas validate_structured window_history"
)
_STUDIO = (
    "Agent AgentResult AgentRun App Approvals Artifact AskRun Chat Loom Pending PendingAsk Threads WorkflowRunner "
    "answers approvals artifact ask_questions cancel_all_runs close confirm costs define events flow flows governance "
    "graph pending restore run runs set_model_prices snapshot sql start studio_app use_models"
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
    **{name: ("loomnb.agents", name) for name in _AGENTS.split()},
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
