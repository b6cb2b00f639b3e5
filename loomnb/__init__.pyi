# The public names, for type checkers. `__init__.py` resolves the same ones at first use; tests/test_door.py keeps
# the two equal.

from loomnb.agents import DEFAULT_STRUCTURED_OUTPUT_INSTRUCTION as DEFAULT_STRUCTURED_OUTPUT_INSTRUCTION
from loomnb.agents import Actor as Actor
from loomnb.agents import AgentApprovalPort as AgentApprovalPort
from loomnb.agents import AgentDefinition as AgentDefinition
from loomnb.agents import AgentGovernanceQueries as AgentGovernanceQueries
from loomnb.agents import AgentPricingStore as AgentPricingStore
from loomnb.agents import AgentRegistry as AgentRegistry
from loomnb.agents import AgentRunner as AgentRunner
from loomnb.agents import AgentStore as AgentStore
from loomnb.agents import AgentTurnInput as AgentTurnInput
from loomnb.agents import AgentTurnResult as AgentTurnResult
from loomnb.agents import AnswersReply as AnswersReply
from loomnb.agents import ApprovalPolicy as ApprovalPolicy
from loomnb.agents import ApprovalRequirement as ApprovalRequirement
from loomnb.agents import ApprovalRules as ApprovalRules
from loomnb.agents import BackgroundActorResolver as BackgroundActorResolver
from loomnb.agents import Budget as Budget
from loomnb.agents import BudgetExceededError as BudgetExceededError
from loomnb.agents import ChatMessage as ChatMessage
from loomnb.agents import ClosedRolesPolicy as ClosedRolesPolicy
from loomnb.agents import CompatibleModel as CompatibleModel
from loomnb.agents import ConfirmTokenError as ConfirmTokenError
from loomnb.agents import ControlFlowSignal as ControlFlowSignal
from loomnb.agents import DayRange as DayRange
from loomnb.agents import Decision as Decision
from loomnb.agents import DefaultApprovalPolicy as DefaultApprovalPolicy
from loomnb.agents import DefaultRolesPolicy as DefaultRolesPolicy
from loomnb.agents import FolderSkills as FolderSkills
from loomnb.agents import FunctionalTool as FunctionalTool
from loomnb.agents import HistoryPolicy as HistoryPolicy
from loomnb.agents import InMemoryAgentStore as InMemoryAgentStore
from loomnb.agents import InMemoryGovernance as InMemoryGovernance
from loomnb.agents import InMemoryMemories as InMemoryMemories
from loomnb.agents import InMemoryPricingStore as InMemoryPricingStore
from loomnb.agents import InMemoryQuotaStore as InMemoryQuotaStore
from loomnb.agents import InMemorySkills as InMemorySkills
from loomnb.agents import InputProcessor as InputProcessor
from loomnb.agents import Intake as Intake
from loomnb.agents import IntakeQuestion as IntakeQuestion
from loomnb.agents import Key as Key
from loomnb.agents import LlmCost as LlmCost
from loomnb.agents import LocalServer as LocalServer
from loomnb.agents import LoopDeps as LoopDeps
from loomnb.agents import LoopHooks as LoopHooks
from loomnb.agents import McpCallTool as McpCallTool
from loomnb.agents import McpConfig as McpConfig
from loomnb.agents import McpListToolsTool as McpListToolsTool
from loomnb.agents import McpSecurityError as McpSecurityError
from loomnb.agents import McpTools as McpTools
from loomnb.agents import Memory as Memory
from loomnb.agents import MemoryProvider as MemoryProvider
from loomnb.agents import MemorySink as MemorySink
from loomnb.agents import ModelError as ModelError
from loomnb.agents import ModelKeyMissing as ModelKeyMissing
from loomnb.agents import ModelPackageMissing as ModelPackageMissing
from loomnb.agents import ModelPrice as ModelPrice
from loomnb.agents import ModelRateLimited as ModelRateLimited
from loomnb.agents import NonDeterminismError as NonDeterminismError
from loomnb.agents import OutputProcessor as OutputProcessor
from loomnb.agents import OutputRejectedError as OutputRejectedError
from loomnb.agents import OutputVerdict as OutputVerdict
from loomnb.agents import Persona as Persona
from loomnb.agents import Preflight as Preflight
from loomnb.agents import ProcessorContext as ProcessorContext
from loomnb.agents import ProcessorFailedError as ProcessorFailedError
from loomnb.agents import Prompt as Prompt
from loomnb.agents import PromptContext as PromptContext
from loomnb.agents import QuotaExceededError as QuotaExceededError
from loomnb.agents import QuotaProvider as QuotaProvider
from loomnb.agents import QuotaReport as QuotaReport
from loomnb.agents import QuotaState as QuotaState
from loomnb.agents import QuotaStore as QuotaStore
from loomnb.agents import QuotaVerdict as QuotaVerdict
from loomnb.agents import QuotaWindow as QuotaWindow
from loomnb.agents import RepeatedCallError as RepeatedCallError
from loomnb.agents import Retriever as Retriever
from loomnb.agents import RolesPolicy as RolesPolicy
from loomnb.agents import RunCancelledError as RunCancelledError
from loomnb.agents import Skill as Skill
from loomnb.agents import SkillProvider as SkillProvider
from loomnb.agents import SqlGovernance as SqlGovernance
from loomnb.agents import StoreQuotaProvider as StoreQuotaProvider
from loomnb.agents import StructuredOutputError as StructuredOutputError
from loomnb.agents import Thread as Thread
from loomnb.agents import TokenStreamSink as TokenStreamSink
from loomnb.agents import ToolCallRow as ToolCallRow
from loomnb.agents import ToolContext as ToolContext
from loomnb.agents import ToolDisabledError as ToolDisabledError
from loomnb.agents import ToolForbiddenError as ToolForbiddenError
from loomnb.agents import ToolHandler as ToolHandler
from loomnb.agents import ToolInputDriftError as ToolInputDriftError
from loomnb.agents import ToolInputInvalidError as ToolInputInvalidError
from loomnb.agents import ToolNotFoundError as ToolNotFoundError
from loomnb.agents import ToolPreflightDeniedError as ToolPreflightDeniedError
from loomnb.agents import ToolQuotas as ToolQuotas
from loomnb.agents import ToolRegistry as ToolRegistry
from loomnb.agents import ToolSpec as ToolSpec
from loomnb.agents import ToolTimeoutError as ToolTimeoutError
from loomnb.agents import TransientRetry as TransientRetry
from loomnb.agents import UsageRow as UsageRow
from loomnb.agents import VendorModel as VendorModel
from loomnb.agents import agent_failure_code as agent_failure_code
from loomnb.agents import agent_tool as agent_tool
from loomnb.agents import ask_key as ask_key
from loomnb.agents import close_empty_roles as close_empty_roles
from loomnb.agents import create_frame_buffer as create_frame_buffer
from loomnb.agents import create_functional_tool as create_functional_tool
from loomnb.agents import decode_stream_event as decode_stream_event
from loomnb.agents import define_tool as define_tool
from loomnb.agents import estimate_cost as estimate_cost
from loomnb.agents import exhausted_window as exhausted_window
from loomnb.agents import expose_stream_error_details as expose_stream_error_details
from loomnb.agents import extract_json as extract_json
from loomnb.agents import forget_keys as forget_keys
from loomnb.agents import invoke_with_transient_retry as invoke_with_transient_retry
from loomnb.agents import is_control_flow_signal as is_control_flow_signal
from loomnb.agents import is_replay_integrity_error as is_replay_integrity_error
from loomnb.agents import local_model as local_model
from loomnb.agents import mcp_tools as mcp_tools
from loomnb.agents import openai_compatible as openai_compatible
from loomnb.agents import quota_warning as quota_warning
from loomnb.agents import release_gated_frames as release_gated_frames
from loomnb.agents import repair_instruction as repair_instruction
from loomnb.agents import run_agent_loop as run_agent_loop
from loomnb.agents import seed_model_prices as seed_model_prices
from loomnb.agents import settle_dead_run as settle_dead_run
from loomnb.agents import stream_failure as stream_failure
from loomnb.agents import subscribe_diagnostics as subscribe_diagnostics
from loomnb.agents import summarizing_history as summarizing_history
from loomnb.agents import use_tool_quotas as use_tool_quotas
from loomnb.agents import validate_structured as validate_structured
from loomnb.agents import window_history as window_history
from loomnb.asks import Answers as Answers
from loomnb.asks import Ask as Ask
from loomnb.asks import Confirmation as Confirmation
from loomnb.asks import Option as Option
from loomnb.asks import Question as Question
from loomnb.asks import user_answer_confirmation_schema as user_answer_confirmation_schema
from loomnb.asks import user_answer_questions_schema as user_answer_questions_schema
from loomnb.asks import user_ask_confirmation_schema as user_ask_confirmation_schema
from loomnb.asks import user_ask_questions_schema as user_ask_questions_schema
from loomnb.blueprints import ABSENT as ABSENT
from loomnb.blueprints import STAGE_END as STAGE_END
from loomnb.blueprints import WORKFLOW_END as WORKFLOW_END
from loomnb.blueprints import AbortSignal as AbortSignal
from loomnb.blueprints import AgentExecutionAccess as AgentExecutionAccess
from loomnb.blueprints import AgentSpec as AgentSpec
from loomnb.blueprints import AgentTool as AgentTool
from loomnb.blueprints import Blueprint as Blueprint
from loomnb.blueprints import BlueprintInvalid as BlueprintInvalid
from loomnb.blueprints import BlueprintStage as BlueprintStage
from loomnb.blueprints import BlueprintStep as BlueprintStep
from loomnb.blueprints import Code as Code
from loomnb.blueprints import CodeExecutionAccess as CodeExecutionAccess
from loomnb.blueprints import CodeRecovery as CodeRecovery
from loomnb.blueprints import CommitResult as CommitResult
from loomnb.blueprints import Cursor as Cursor
from loomnb.blueprints import Diagnostic as Diagnostic
from loomnb.blueprints import ErrorCatalog as ErrorCatalog
from loomnb.blueprints import ErrorEntry as ErrorEntry
from loomnb.blueprints import ExecutableCode as ExecutableCode
from loomnb.blueprints import FlowRun as FlowRun
from loomnb.blueprints import FlowRunView as FlowRunView
from loomnb.blueprints import InitializerContext as InitializerContext
from loomnb.blueprints import InteractionAccess as InteractionAccess
from loomnb.blueprints import ProjectAccess as ProjectAccess
from loomnb.blueprints import ProjectCommand as ProjectCommand
from loomnb.blueprints import ProjectCommandResult as ProjectCommandResult
from loomnb.blueprints import ProjectDiff as ProjectDiff
from loomnb.blueprints import ProjectError as ProjectError
from loomnb.blueprints import ProjectFiles as ProjectFiles
from loomnb.blueprints import Report as Report
from loomnb.blueprints import SavedAction as SavedAction
from loomnb.blueprints import SkillSpec as SkillSpec
from loomnb.blueprints import SnapshotResult as SnapshotResult
from loomnb.blueprints import StageEnd as StageEnd
from loomnb.blueprints import StageStateInitializer as StageStateInitializer
from loomnb.blueprints import StateAccess as StateAccess
from loomnb.blueprints import StepResult as StepResult
from loomnb.blueprints import Storage as Storage
from loomnb.blueprints import StorageAccess as StorageAccess
from loomnb.blueprints import StorageCategory as StorageCategory
from loomnb.blueprints import StorageOperation as StorageOperation
from loomnb.blueprints import StoragePage as StoragePage
from loomnb.blueprints import StorageQuery as StorageQuery
from loomnb.blueprints import StorageReadAccess as StorageReadAccess
from loomnb.blueprints import StoredArtifact as StoredArtifact
from loomnb.blueprints import StoredRecord as StoredRecord
from loomnb.blueprints import ToStage as ToStage
from loomnb.blueprints import ToStep as ToStep
from loomnb.blueprints import WorkflowEnd as WorkflowEnd
from loomnb.blueprints import WorkflowModule as WorkflowModule
from loomnb.blueprints import agent_execution_context_key as agent_execution_context_key
from loomnb.blueprints import code as code
from loomnb.blueprints import define_agent_tool as define_agent_tool
from loomnb.blueprints import get_agent_execution_access as get_agent_execution_access
from loomnb.blueprints import load_folder as load_folder
from loomnb.blueprints import validate as validate
from loomnb.blueprints import workflow_metadata_schema as workflow_metadata_schema
from loomnb.blueprints import workflow_protocol_version as workflow_protocol_version
from loomnb.documents import DocumentEntity as DocumentEntity
from loomnb.documents import DocumentOptions as DocumentOptions
from loomnb.documents import DocumentSaveOptions as DocumentSaveOptions
from loomnb.documents import DocumentStore as DocumentStore
from loomnb.documents import ErrorDocument as ErrorDocument
from loomnb.documents import LinkDocument as LinkDocument
from loomnb.documents import LlmContextDocument as LlmContextDocument
from loomnb.documents import LlmMessageDocument as LlmMessageDocument
from loomnb.documents import MarkdownDocument as MarkdownDocument
from loomnb.documents import MessageDocument as MessageDocument
from loomnb.documents import PlainDocument as PlainDocument
from loomnb.documents import StaticDocumentMeta as StaticDocumentMeta
from loomnb.documents import WidgetRef as WidgetRef
from loomnb.documents import document as document
from loomnb.errors import AnswerInvalid as AnswerInvalid
from loomnb.errors import AnswerRefused as AnswerRefused
from loomnb.errors import ArgsInvalid as ArgsInvalid
from loomnb.errors import Bug as Bug
from loomnb.errors import Conflict as Conflict
from loomnb.errors import DefinitionError as DefinitionError
from loomnb.errors import InvalidRequest as InvalidRequest
from loomnb.errors import LoomError as LoomError
from loomnb.errors import MoveTimedOut as MoveTimedOut
from loomnb.errors import NoFrontEnd as NoFrontEnd
from loomnb.errors import NotFound as NotFound
from loomnb.errors import NotJson as NotJson
from loomnb.errors import OwnershipLost as OwnershipLost
from loomnb.errors import ReadOnly as ReadOnly
from loomnb.errors import Refused as Refused
from loomnb.errors import RunFailed as RunFailed
from loomnb.errors import SchemaValidationError as SchemaValidationError
from loomnb.errors import StepError as StepError
from loomnb.errors import StorageFailed as StorageFailed
from loomnb.errors import StoreBusy as StoreBusy
from loomnb.errors import StoreClosed as StoreClosed
from loomnb.errors import StoreDamaged as StoreDamaged
from loomnb.errors import ToolFailed as ToolFailed
from loomnb.errors import ToolPending as ToolPending
from loomnb.errors import Unavailable as Unavailable
from loomnb.errors import WorldFailed as WorldFailed
from loomnb.errors import WouldDeadlock as WouldDeadlock
from loomnb.jsonvalue import Json as Json
from loomnb.present import Graph as Graph
from loomnb.present import GraphEdge as GraphEdge
from loomnb.present import GraphNode as GraphNode
from loomnb.present import chart as chart
from loomnb.present import create_component as create_component
from loomnb.present import create_component_registry as create_component_registry
from loomnb.present import negotiate_catalog as negotiate_catalog
from loomnb.present import table as table
from loomnb.ready import AgentArgs as AgentArgs
from loomnb.ready import AgentConfig as AgentConfig
from loomnb.ready import AgentFinishTool as AgentFinishTool
from loomnb.ready import AgentWorkflow as AgentWorkflow
from loomnb.ready import AskClarificationTool as AskClarificationTool
from loomnb.ready import AskForApprovalTool as AskForApprovalTool
from loomnb.ready import AskUserConfirmDocument as AskUserConfirmDocument
from loomnb.ready import AskUserDocument as AskUserDocument
from loomnb.ready import AskUserOptionsDocument as AskUserOptionsDocument
from loomnb.ready import AskUserWorkflow as AskUserWorkflow
from loomnb.ready import ChatAgentArgs as ChatAgentArgs
from loomnb.ready import ChatAgentWorkflow as ChatAgentWorkflow
from loomnb.ready import ChildOutcome as ChildOutcome
from loomnb.ready import ConfirmUserDocument as ConfirmUserDocument
from loomnb.ready import ConfirmUserWorkflow as ConfirmUserWorkflow
from loomnb.ready import FanOutResult as FanOutResult
from loomnb.ready import FanOutWorkflow as FanOutWorkflow
from loomnb.ready import LlmDelegateToolCallsTool as LlmDelegateToolCallsTool
from loomnb.ready import LlmGenerateObjectTool as LlmGenerateObjectTool
from loomnb.ready import LlmGenerateTextTool as LlmGenerateTextTool
from loomnb.ready import LlmMessage as LlmMessage
from loomnb.ready import LlmUpdateToolResultTool as LlmUpdateToolResultTool
from loomnb.ready import RunResult as RunResult
from loomnb.ready import SequenceResult as SequenceResult
from loomnb.ready import SequenceWorkflow as SequenceWorkflow
from loomnb.ready import StatelessRunResult as StatelessRunResult
from loomnb.ready import SyncRunResult as SyncRunResult
from loomnb.ready import WorkflowArgs as WorkflowArgs
from loomnb.ready import WorkflowRunnerOptions as WorkflowRunnerOptions
from loomnb.ready import WorkflowRunnerSyncOptions as WorkflowRunnerSyncOptions
from loomnb.ready import WorkflowRunResult as WorkflowRunResult
from loomnb.ready import llm_provider as llm_provider
from loomnb.ready import register_llm_provider as register_llm_provider
from loomnb.runtime import Event as Event
from loomnb.runtime import Failure as Failure
from loomnb.runtime import HistoryEntry as HistoryEntry
from loomnb.runtime import ModelProvider as ModelProvider
from loomnb.runtime import ModelTool as ModelTool
from loomnb.runtime import Progress as Progress
from loomnb.runtime import Restored as Restored
from loomnb.runtime import Run as Run
from loomnb.runtime import RunContext as RunContext
from loomnb.runtime import RunEvent as RunEvent
from loomnb.runtime import RunView as RunView
from loomnb.runtime import SinkWriter as SinkWriter
from loomnb.runtime import Status as Status
from loomnb.runtime import ToolRequest as ToolRequest
from loomnb.runtime import TransitionInput as TransitionInput
from loomnb.runtime import TurnRequest as TurnRequest
from loomnb.runtime import TurnResult as TurnResult
from loomnb.runtime import WorkflowState as WorkflowState
from loomnb.store import Relation as Relation
from loomnb.store import StoreWarning as StoreWarning
from loomnb.studio import Agent as Agent
from loomnb.studio import AgentResult as AgentResult
from loomnb.studio import AgentRun as AgentRun
from loomnb.studio import App as App
from loomnb.studio import Approvals as Approvals
from loomnb.studio import Artifact as Artifact
from loomnb.studio import AskRun as AskRun
from loomnb.studio import Chat as Chat
from loomnb.studio import Loom as Loom
from loomnb.studio import Pending as Pending
from loomnb.studio import PendingAsk as PendingAsk
from loomnb.studio import Threads as Threads
from loomnb.studio import WorkflowRunner as WorkflowRunner
from loomnb.studio import answers as answers
from loomnb.studio import approvals as approvals
from loomnb.studio import artifact as artifact
from loomnb.studio import ask_questions as ask_questions
from loomnb.studio import cancel_all_runs as cancel_all_runs
from loomnb.studio import close as close
from loomnb.studio import confirm as confirm
from loomnb.studio import costs as costs
from loomnb.studio import define as define
from loomnb.studio import events as events
from loomnb.studio import flow as flow
from loomnb.studio import flows as flows
from loomnb.studio import governance as governance
from loomnb.studio import graph as graph
from loomnb.studio import open_store as open  # noqa: A004  # `loom.open`: a name of the module, not of whoever imports it
from loomnb.studio import pending as pending
from loomnb.studio import restore as restore
from loomnb.studio import run as run
from loomnb.studio import runs as runs
from loomnb.studio import set_model_prices as set_model_prices
from loomnb.studio import snapshot as snapshot
from loomnb.studio import sql as sql
from loomnb.studio import start as start
from loomnb.studio import studio_app as studio_app
from loomnb.studio import use_models as use_models
from loomnb.tools import BaseTool as BaseTool
from loomnb.tools import Callback as Callback
from loomnb.tools import FunctionTool as FunctionTool
from loomnb.tools import QueueResult as QueueResult
from loomnb.tools import ServerTool as ServerTool
from loomnb.tools import ToolCallOptions as ToolCallOptions
from loomnb.tools import ToolEnvelope as ToolEnvelope
from loomnb.tools import ToolInterception as ToolInterception
from loomnb.tools import ToolOptions as ToolOptions
from loomnb.tools import ToolResult as ToolResult
from loomnb.tools import overrides as overrides
from loomnb.tools import resolve as resolve
from loomnb.tools import tool as tool
from loomnb.tools import use_tool_interceptor as use_tool_interceptor
from loomnb.workflows import BaseWorkflow as BaseWorkflow
from loomnb.workflows import RunOptions as RunOptions
from loomnb.workflows import StudioAppOptions as StudioAppOptions
from loomnb.workflows import StudioUiConfig as StudioUiConfig
from loomnb.workflows import TransitionOptions as TransitionOptions
from loomnb.workflows import WorkflowOptions as WorkflowOptions
from loomnb.workflows import guard as guard
from loomnb.workflows import transition as transition
from loomnb.workflows import workflow as workflow

Query = StorageQuery
SnapshotCategory = StorageCategory
storage: Storage

__version__: str

__all__ = [
    "ABSENT",
    "DEFAULT_STRUCTURED_OUTPUT_INSTRUCTION",
    "STAGE_END",
    "WORKFLOW_END",
    "AbortSignal",
    "Actor",
    "Agent",
    "AgentApprovalPort",
    "AgentArgs",
    "AgentConfig",
    "AgentDefinition",
    "AgentExecutionAccess",
    "AgentFinishTool",
    "AgentGovernanceQueries",
    "AgentPricingStore",
    "AgentRegistry",
    "AgentResult",
    "AgentRun",
    "AgentRunner",
    "AgentSpec",
    "AgentStore",
    "AgentTool",
    "AgentTurnInput",
    "AgentTurnResult",
    "AgentWorkflow",
    "AnswerInvalid",
    "AnswerRefused",
    "Answers",
    "AnswersReply",
    "App",
    "ApprovalPolicy",
    "ApprovalRequirement",
    "ApprovalRules",
    "Approvals",
    "ArgsInvalid",
    "Artifact",
    "Ask",
    "AskClarificationTool",
    "AskForApprovalTool",
    "AskRun",
    "AskUserConfirmDocument",
    "AskUserDocument",
    "AskUserOptionsDocument",
    "AskUserWorkflow",
    "BackgroundActorResolver",
    "BaseTool",
    "BaseWorkflow",
    "Blueprint",
    "BlueprintInvalid",
    "BlueprintStage",
    "BlueprintStep",
    "Budget",
    "BudgetExceededError",
    "Bug",
    "Callback",
    "Chat",
    "ChatAgentArgs",
    "ChatAgentWorkflow",
    "ChatMessage",
    "ChildOutcome",
    "ClosedRolesPolicy",
    "Code",
    "CodeExecutionAccess",
    "CodeRecovery",
    "CommitResult",
    "CompatibleModel",
    "ConfirmTokenError",
    "ConfirmUserDocument",
    "ConfirmUserWorkflow",
    "Confirmation",
    "Conflict",
    "ControlFlowSignal",
    "Cursor",
    "DayRange",
    "Decision",
    "DefaultApprovalPolicy",
    "DefaultRolesPolicy",
    "DefinitionError",
    "Diagnostic",
    "DocumentEntity",
    "DocumentOptions",
    "DocumentSaveOptions",
    "DocumentStore",
    "ErrorCatalog",
    "ErrorDocument",
    "ErrorEntry",
    "Event",
    "ExecutableCode",
    "Failure",
    "FanOutResult",
    "FanOutWorkflow",
    "FlowRun",
    "FlowRunView",
    "FolderSkills",
    "FunctionTool",
    "FunctionalTool",
    "Graph",
    "GraphEdge",
    "GraphNode",
    "HistoryEntry",
    "HistoryPolicy",
    "InMemoryAgentStore",
    "InMemoryGovernance",
    "InMemoryMemories",
    "InMemoryPricingStore",
    "InMemoryQuotaStore",
    "InMemorySkills",
    "InitializerContext",
    "InputProcessor",
    "Intake",
    "IntakeQuestion",
    "InteractionAccess",
    "InvalidRequest",
    "Json",
    "Key",
    "LinkDocument",
    "LlmContextDocument",
    "LlmCost",
    "LlmDelegateToolCallsTool",
    "LlmGenerateObjectTool",
    "LlmGenerateTextTool",
    "LlmMessage",
    "LlmMessageDocument",
    "LlmUpdateToolResultTool",
    "LocalServer",
    "Loom",
    "LoomError",
    "LoopDeps",
    "LoopHooks",
    "MarkdownDocument",
    "McpCallTool",
    "McpConfig",
    "McpListToolsTool",
    "McpSecurityError",
    "McpTools",
    "Memory",
    "MemoryProvider",
    "MemorySink",
    "MessageDocument",
    "ModelError",
    "ModelKeyMissing",
    "ModelPackageMissing",
    "ModelPrice",
    "ModelProvider",
    "ModelRateLimited",
    "ModelTool",
    "MoveTimedOut",
    "NoFrontEnd",
    "NonDeterminismError",
    "NotFound",
    "NotJson",
    "Option",
    "OutputProcessor",
    "OutputRejectedError",
    "OutputVerdict",
    "OwnershipLost",
    "Pending",
    "PendingAsk",
    "Persona",
    "PlainDocument",
    "Preflight",
    "ProcessorContext",
    "ProcessorFailedError",
    "Progress",
    "ProjectAccess",
    "ProjectCommand",
    "ProjectCommandResult",
    "ProjectDiff",
    "ProjectError",
    "ProjectFiles",
    "Prompt",
    "PromptContext",
    "Question",
    "QueueResult",
    "QuotaExceededError",
    "QuotaProvider",
    "QuotaReport",
    "QuotaState",
    "QuotaStore",
    "QuotaVerdict",
    "QuotaWindow",
    "ReadOnly",
    "Refused",
    "Relation",
    "RepeatedCallError",
    "Report",
    "Restored",
    "Retriever",
    "RolesPolicy",
    "Run",
    "RunCancelledError",
    "RunContext",
    "RunEvent",
    "RunFailed",
    "RunOptions",
    "RunResult",
    "RunView",
    "SavedAction",
    "SchemaValidationError",
    "SequenceResult",
    "SequenceWorkflow",
    "ServerTool",
    "SinkWriter",
    "Skill",
    "SkillProvider",
    "SkillSpec",
    "SnapshotResult",
    "SqlGovernance",
    "StageEnd",
    "StageStateInitializer",
    "StateAccess",
    "StatelessRunResult",
    "StaticDocumentMeta",
    "Status",
    "StepError",
    "StepResult",
    "Storage",
    "StorageAccess",
    "StorageCategory",
    "StorageFailed",
    "StorageOperation",
    "StoragePage",
    "StorageQuery",
    "StorageReadAccess",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreQuotaProvider",
    "StoreWarning",
    "StoredArtifact",
    "StoredRecord",
    "StructuredOutputError",
    "StudioAppOptions",
    "StudioUiConfig",
    "SyncRunResult",
    "Thread",
    "Threads",
    "ToStage",
    "ToStep",
    "TokenStreamSink",
    "ToolCallOptions",
    "ToolCallRow",
    "ToolContext",
    "ToolDisabledError",
    "ToolEnvelope",
    "ToolFailed",
    "ToolForbiddenError",
    "ToolHandler",
    "ToolInputDriftError",
    "ToolInputInvalidError",
    "ToolInterception",
    "ToolNotFoundError",
    "ToolOptions",
    "ToolPending",
    "ToolPreflightDeniedError",
    "ToolQuotas",
    "ToolRegistry",
    "ToolRequest",
    "ToolResult",
    "ToolSpec",
    "ToolTimeoutError",
    "TransientRetry",
    "TransitionInput",
    "TransitionOptions",
    "TurnRequest",
    "TurnResult",
    "Unavailable",
    "UsageRow",
    "VendorModel",
    "WidgetRef",
    "WorkflowArgs",
    "WorkflowEnd",
    "WorkflowModule",
    "WorkflowOptions",
    "WorkflowRunResult",
    "WorkflowRunner",
    "WorkflowRunnerOptions",
    "WorkflowRunnerSyncOptions",
    "WorkflowState",
    "WorldFailed",
    "WouldDeadlock",
    "agent_execution_context_key",
    "agent_failure_code",
    "agent_tool",
    "answers",
    "approvals",
    "artifact",
    "ask_key",
    "ask_questions",
    "cancel_all_runs",
    "chart",
    "close",
    "close_empty_roles",
    "code",
    "confirm",
    "costs",
    "create_component",
    "create_component_registry",
    "create_frame_buffer",
    "create_functional_tool",
    "decode_stream_event",
    "define",
    "define_agent_tool",
    "define_tool",
    "document",
    "estimate_cost",
    "events",
    "exhausted_window",
    "expose_stream_error_details",
    "extract_json",
    "flow",
    "flows",
    "forget_keys",
    "get_agent_execution_access",
    "governance",
    "graph",
    "guard",
    "invoke_with_transient_retry",
    "is_control_flow_signal",
    "is_replay_integrity_error",
    "llm_provider",
    "load_folder",
    "local_model",
    "mcp_tools",
    "negotiate_catalog",
    "open",
    "openai_compatible",
    "overrides",
    "pending",
    "quota_warning",
    "register_llm_provider",
    "release_gated_frames",
    "repair_instruction",
    "resolve",
    "restore",
    "run",
    "run_agent_loop",
    "runs",
    "seed_model_prices",
    "set_model_prices",
    "settle_dead_run",
    "snapshot",
    "sql",
    "start",
    "stream_failure",
    "studio_app",
    "subscribe_diagnostics",
    "summarizing_history",
    "table",
    "tool",
    "transition",
    "use_models",
    "use_tool_interceptor",
    "use_tool_quotas",
    "user_answer_confirmation_schema",
    "user_answer_questions_schema",
    "user_ask_confirmation_schema",
    "user_ask_questions_schema",
    "validate",
    "validate_structured",
    "window_history",
    "workflow",
    "workflow_metadata_schema",
    "workflow_protocol_version",
]
