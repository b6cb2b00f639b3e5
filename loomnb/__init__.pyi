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
from loomnb.runtime import Progress as Progress
from loomnb.runtime import Run as Run
from loomnb.runtime import RunContext as RunContext
from loomnb.runtime import RunEvent as RunEvent
from loomnb.runtime import RunView as RunView
from loomnb.runtime import Status as Status
from loomnb.runtime import TransitionInput as TransitionInput
from loomnb.runtime import WorkflowState as WorkflowState
from loomnb.store import Relation as Relation
from loomnb.store import StoreWarning as StoreWarning
from loomnb.studio import App as App
from loomnb.studio import AskRun as AskRun
from loomnb.studio import Loom as Loom
from loomnb.studio import Pending as Pending
from loomnb.studio import PendingAsk as PendingAsk
from loomnb.studio import WorkflowRunner as WorkflowRunner
from loomnb.studio import answers as answers
from loomnb.studio import ask_questions as ask_questions
from loomnb.studio import close as close
from loomnb.studio import confirm as confirm
from loomnb.studio import events as events
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

__version__: str

__all__ = [
    "AnswerInvalid",
    "AnswerRefused",
    "Answers",
    "App",
    "ArgsInvalid",
    "Ask",
    "AskRun",
    "AskUserConfirmDocument",
    "AskUserDocument",
    "AskUserOptionsDocument",
    "AskUserWorkflow",
    "BaseTool",
    "BaseWorkflow",
    "Bug",
    "Callback",
    "ChildOutcome",
    "ConfirmUserDocument",
    "ConfirmUserWorkflow",
    "Confirmation",
    "Conflict",
    "DefinitionError",
    "DocumentEntity",
    "DocumentOptions",
    "DocumentSaveOptions",
    "DocumentStore",
    "ErrorDocument",
    "Event",
    "Failure",
    "FanOutResult",
    "FanOutWorkflow",
    "FunctionTool",
    "Graph",
    "GraphEdge",
    "GraphNode",
    "HistoryEntry",
    "InvalidRequest",
    "LinkDocument",
    "Loom",
    "LoomError",
    "MarkdownDocument",
    "MessageDocument",
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
    "Question",
    "QueueResult",
    "ReadOnly",
    "Refused",
    "Relation",
    "Run",
    "RunContext",
    "RunEvent",
    "RunFailed",
    "RunOptions",
    "RunResult",
    "RunView",
    "SchemaValidationError",
    "SequenceResult",
    "SequenceWorkflow",
    "ServerTool",
    "StatelessRunResult",
    "StaticDocumentMeta",
    "Status",
    "StepError",
    "StorageFailed",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreWarning",
    "StudioAppOptions",
    "StudioUiConfig",
    "SyncRunResult",
    "ToolCallOptions",
    "ToolEnvelope",
    "ToolFailed",
    "ToolInterception",
    "ToolOptions",
    "ToolPending",
    "ToolResult",
    "TransitionInput",
    "TransitionOptions",
    "Unavailable",
    "WidgetRef",
    "WorkflowArgs",
    "WorkflowOptions",
    "WorkflowRunResult",
    "WorkflowRunner",
    "WorkflowRunnerOptions",
    "WorkflowRunnerSyncOptions",
    "WorkflowState",
    "WorldFailed",
    "WouldDeadlock",
    "answers",
    "ask_questions",
    "close",
    "confirm",
    "document",
    "events",
    "guard",
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
    "use_tool_interceptor",
    "user_answer_confirmation_schema",
    "user_answer_questions_schema",
    "user_ask_confirmation_schema",
    "user_ask_questions_schema",
    "workflow",
]
