"""How a tool of an agent passes the interceptors, which see every tool call of the process (contracts/workflows.md §2.13).

A tool of workflows passes them by itself, wherever it is called. Everything else an agent has is passed through here: functions,
objects with hooks, workflows and blueprints, tools of MCP servers, other agents, and the loop's own tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from loomnb.agents.control_flow import is_not_a_failure
from loomnb.agents.delegation import is_kernels_end
from loomnb.agents.spi import ToolContext, ToolSpec
from loomnb.runtime import CURRENT, RunContext
from loomnb.tools import INTERCEPTORS, ToolEnvelope, intercepted

__all__ = ["run_context_of", "through_interceptors"]


async def through_interceptors(tool: ToolSpec, given: Any, ctx: ToolContext, work: Callable[[], Awaitable[Any]]) -> Any:
    """What a tool gave, once it passed the interceptors: the data of its envelope, when it gave one.

    Args:
        tool: what is declared of it; its name is what interceptors know it by.
        given: what it is called with.
        ctx: of the call.
        work: does it.

    Raises:
        ToolFailed: the envelope carries an error.
        Exception: what the tool or an interceptor raised. A signal of the runner comes through whatever interceptors do with it.
    """
    signals: list[BaseException] = []

    async def enveloped() -> ToolEnvelope[Any, Any]:
        try:
            value = await work()
        except BaseException as exc:
            if not isinstance(exc, Exception) or is_not_a_failure(exc) or is_kernels_end(exc):
                signals.append(exc)
            raise
        return value if isinstance(value, ToolEnvelope) else ToolEnvelope(data=value)

    if not [*INTERCEPTORS]:
        envelope = await enveloped()
    else:
        try:
            envelope = await intercepted(tool, given, run_context_of(ctx), enveloped)
        except BaseException as exc:
            if signals and signals[0] is not exc:
                raise signals[0] from None
            raise
    if signals:
        raise signals[0] from None
    return envelope.narrowed(tool.name).data


def run_context_of(ctx: ToolContext) -> RunContext[Any]:
    """What is known of the run in which an agent calls: of the transition that is at work, else of the agent.

    Raises:
        OwnershipLost: the transition is over.
    """
    attempt = CURRENT.get()
    if attempt is None:
        known: RunContext[Any] = RunContext(user_id=ctx.actor.id, workspace_id="", workflow_id=ctx.run_id, args=None)
    else:
        known = attempt.tool_context()
    return replace(known, idempotency_key=ctx.idempotency_key or known.idempotency_key)
