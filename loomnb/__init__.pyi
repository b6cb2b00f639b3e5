# The public names, for type checkers. `__init__.py` resolves the same ones at first use; tests/test_door.py keeps
# the two equal.

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
from loomnb.ready import AskUserConfirmDocument as AskUserConfirmDocument
from loomnb.ready import AskUserDocument as AskUserDocument
from loomnb.ready import AskUserOptionsDocument as AskUserOptionsDocument
from loomnb.ready import AskUserWorkflow as AskUserWorkflow
from loomnb.ready import ChildOutcome as ChildOutcome
from loomnb.ready import ConfirmUserDocument as ConfirmUserDocument
from loomnb.ready import ConfirmUserWorkflow as ConfirmUserWorkflow
from loomnb.ready import FanOutResult as FanOutResult
from loomnb.ready import FanOutWorkflow as FanOutWorkflow
from loomnb.ready import RunResult as RunResult
from loomnb.ready import SequenceResult as SequenceResult
from loomnb.ready import SequenceWorkflow as SequenceWorkflow
from loomnb.ready import StatelessRunResult as StatelessRunResult
from loomnb.ready import SyncRunResult as SyncRunResult
from loomnb.ready import WorkflowArgs as WorkflowArgs
from loomnb.ready import WorkflowRunnerOptions as WorkflowRunnerOptions
from loomnb.ready import WorkflowRunnerSyncOptions as WorkflowRunnerSyncOptions
from loomnb.ready import WorkflowRunResult as WorkflowRunResult
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
from loomnb.runtime import Status as Status
from loomnb.runtime import ToolRequest as ToolRequest
from loomnb.runtime import TransitionInput as TransitionInput
from loomnb.runtime import TurnRequest as TurnRequest
from loomnb.runtime import TurnResult as TurnResult
from loomnb.runtime import WorkflowState as WorkflowState
from loomnb.runtime import use_models as use_models
from loomnb.store import Relation as Relation
from loomnb.store import StoreWarning as StoreWarning
from loomnb.studio import App as App
from loomnb.studio import Artifact as Artifact
from loomnb.studio import AskRun as AskRun
from loomnb.studio import Loom as Loom
from loomnb.studio import Pending as Pending
from loomnb.studio import PendingAsk as PendingAsk
from loomnb.studio import WorkflowRunner as WorkflowRunner
from loomnb.studio import answers as answers
from loomnb.studio import artifact as artifact
from loomnb.studio import ask_questions as ask_questions
from loomnb.studio import cancel_all_runs as cancel_all_runs
from loomnb.studio import close as close
from loomnb.studio import confirm as confirm
from loomnb.studio import define as define
from loomnb.studio import events as events
from loomnb.studio import flow as flow
from loomnb.studio import flows as flows
from loomnb.studio import graph as graph
from loomnb.studio import open_store as open  # noqa: A004  # `loom.open`: a name of the module, not of whoever imports it
from loomnb.studio import pending as pending
from loomnb.studio import restore as restore
from loomnb.studio import run as run
from loomnb.studio import runs as runs
from loomnb.studio import snapshot as snapshot
from loomnb.studio import sql as sql
from loomnb.studio import start as start
from loomnb.studio import studio_app as studio_app
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
    "STAGE_END",
    "WORKFLOW_END",
    "AbortSignal",
    "AgentExecutionAccess",
    "AgentSpec",
    "AgentTool",
    "AnswerInvalid",
    "AnswerRefused",
    "Answers",
    "App",
    "ArgsInvalid",
    "Artifact",
    "Ask",
    "AskRun",
    "AskUserConfirmDocument",
    "AskUserDocument",
    "AskUserOptionsDocument",
    "AskUserWorkflow",
    "BaseTool",
    "BaseWorkflow",
    "Blueprint",
    "BlueprintInvalid",
    "BlueprintStage",
    "BlueprintStep",
    "Bug",
    "Callback",
    "ChildOutcome",
    "Code",
    "CodeExecutionAccess",
    "CodeRecovery",
    "CommitResult",
    "ConfirmUserDocument",
    "ConfirmUserWorkflow",
    "Confirmation",
    "Conflict",
    "Cursor",
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
    "FunctionTool",
    "Graph",
    "GraphEdge",
    "GraphNode",
    "HistoryEntry",
    "InitializerContext",
    "InteractionAccess",
    "InvalidRequest",
    "Json",
    "LinkDocument",
    "Loom",
    "LoomError",
    "MarkdownDocument",
    "MessageDocument",
    "ModelProvider",
    "ModelTool",
    "MoveTimedOut",
    "NoFrontEnd",
    "NotFound",
    "NotJson",
    "Option",
    "OwnershipLost",
    "Pending",
    "PendingAsk",
    "PlainDocument",
    "Progress",
    "ProjectAccess",
    "ProjectCommand",
    "ProjectCommandResult",
    "ProjectDiff",
    "ProjectError",
    "ProjectFiles",
    "Question",
    "QueueResult",
    "ReadOnly",
    "Refused",
    "Relation",
    "Report",
    "Restored",
    "Run",
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
    "SkillSpec",
    "SnapshotResult",
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
    "StoreWarning",
    "StoredArtifact",
    "StoredRecord",
    "StudioAppOptions",
    "StudioUiConfig",
    "SyncRunResult",
    "ToStage",
    "ToStep",
    "ToolCallOptions",
    "ToolEnvelope",
    "ToolFailed",
    "ToolInterception",
    "ToolOptions",
    "ToolPending",
    "ToolRequest",
    "ToolResult",
    "TransitionInput",
    "TransitionOptions",
    "TurnRequest",
    "TurnResult",
    "Unavailable",
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
    "answers",
    "artifact",
    "ask_questions",
    "cancel_all_runs",
    "close",
    "code",
    "confirm",
    "define",
    "define_agent_tool",
    "document",
    "events",
    "flow",
    "flows",
    "get_agent_execution_access",
    "graph",
    "guard",
    "load_folder",
    "open",
    "overrides",
    "pending",
    "resolve",
    "restore",
    "run",
    "runs",
    "snapshot",
    "sql",
    "start",
    "studio_app",
    "tool",
    "transition",
    "use_models",
    "use_tool_interceptor",
    "user_answer_confirmation_schema",
    "user_answer_questions_schema",
    "user_ask_confirmation_schema",
    "user_ask_questions_schema",
    "validate",
    "workflow",
    "workflow_metadata_schema",
    "workflow_protocol_version",
]
