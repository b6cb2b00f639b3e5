"""Agents: a model, its tools and the people who approve them, as one loop of effects on the run's journal."""

from loomnb.agents.agent_registry import AgentRegistry
from loomnb.agents.control_flow import (
    ControlFlowSignal,
    NonDeterminismError,
    is_control_flow_signal,
    is_replay_integrity_error,
)
from loomnb.agents.deps import Budget, LoopDeps
from loomnb.agents.functional import create_functional_tool, tool_of
from loomnb.agents.loop import run_agent_loop
from loomnb.agents.memory_sink import MemorySink
from loomnb.agents.memory_store import InMemoryAgentStore
from loomnb.agents.registry import ToolRegistry
from loomnb.agents.roles import ClosedRolesPolicy, DefaultRolesPolicy, close_empty_roles
from loomnb.agents.spi import Actor, AgentTurnInput, AgentTurnResult, AnswersReply, Decision

__all__ = [
    "Actor",
    "AgentRegistry",
    "AgentTurnInput",
    "AgentTurnResult",
    "AnswersReply",
    "Budget",
    "ClosedRolesPolicy",
    "ControlFlowSignal",
    "Decision",
    "DefaultRolesPolicy",
    "InMemoryAgentStore",
    "LoopDeps",
    "MemorySink",
    "NonDeterminismError",
    "ToolRegistry",
    "close_empty_roles",
    "create_functional_tool",
    "is_control_flow_signal",
    "is_replay_integrity_error",
    "run_agent_loop",
    "tool_of",
]
