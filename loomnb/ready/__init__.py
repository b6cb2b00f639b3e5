"""Ready-made runs that join rooms: questions asked in a cell, sub-workflows in numbers, a person asked by a workflow, agents."""

from loomnb.ready.agent_tools import AgentFinishTool, AskClarificationTool, AskForApprovalTool
from loomnb.ready.agent_workflow import AgentArgs, AgentConfig, AgentWorkflow, ChatAgentArgs, ChatAgentWorkflow
from loomnb.ready.fanout import FanOutWorkflow
from loomnb.ready.items import ChildOutcome, FanOutArgs, FanOutResult, Item, SequenceArgs, SequenceResult
from loomnb.ready.known import know_ready
from loomnb.ready.llm import (
    LlmGenerateObjectArgs,
    LlmGenerateObjectConfig,
    LlmGenerateObjectTool,
    LlmGenerateTextArgs,
    LlmGenerateTextConfig,
    LlmGenerateTextTool,
)
from loomnb.ready.llm_messages import LlmMessage
from loomnb.ready.llm_providers import llm_provider, register_llm_provider
from loomnb.ready.llm_tool_calls import (
    LlmDelegateToolCallsArgs,
    LlmDelegateToolCallsConfig,
    LlmDelegateToolCallsTool,
    LlmUpdateToolResultArgs,
    LlmUpdateToolResultConfig,
    LlmUpdateToolResultTool,
)
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
    "AgentArgs",
    "AgentConfig",
    "AgentFinishTool",
    "AgentWorkflow",
    "AskClarificationTool",
    "AskForApprovalTool",
    "AskUserConfirmDocument",
    "AskUserDocument",
    "AskUserOptionsDocument",
    "AskUserWorkflow",
    "CellQuestions",
    "ChatAgentArgs",
    "ChatAgentWorkflow",
    "ChildOutcome",
    "ConfirmUserDocument",
    "ConfirmUserWorkflow",
    "FanOutArgs",
    "FanOutResult",
    "FanOutWorkflow",
    "Item",
    "LlmDelegateToolCallsArgs",
    "LlmDelegateToolCallsConfig",
    "LlmDelegateToolCallsTool",
    "LlmGenerateObjectArgs",
    "LlmGenerateObjectConfig",
    "LlmGenerateObjectTool",
    "LlmGenerateTextArgs",
    "LlmGenerateTextConfig",
    "LlmGenerateTextTool",
    "LlmMessage",
    "LlmUpdateToolResultArgs",
    "LlmUpdateToolResultConfig",
    "LlmUpdateToolResultTool",
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
    "llm_provider",
    "register_llm_provider",
]
