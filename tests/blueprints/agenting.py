"""A flow of one agent step, or of one code step with a project, and what its tests look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import loomnb as loom
from loomnb.blueprints import FlowRun, FlowRunView
from loomnb.testing import ScriptedModel
from tests.helpers import at_rest

__all__ = ["DONE", "agent_flow", "code_flow", "error_of", "finished", "played", "tool"]

DONE = {"outcome": "done"}
"""What an agent ends with."""


def tool(
    execute: Callable[..., Any] = lambda given, access: given, *, takes: Any = Any, gives: Any = Any, name: str = "tool"
) -> loom.AgentTool[Any, Any, Any]:
    """A tool of an agent; any JSON in, any JSON out."""
    return loom.define_agent_tool(
        id=name, description=f"What {name} does.", input_schema=takes, output_schema=gives, execute=execute
    )


def agent_flow(
    *tools: loom.AgentTool[Any, Any, Any],
    output: Any = loom.StepResult,
    state: Any = Any,
    seed: Any = None,
    on: Mapping[str, Any] | None = None,
    name: str = "agency",
) -> loom.Blueprint:
    """One stage with one agent step; `done` ends the run."""
    agent = loom.AgentSpec(name="helper", instructions="Help.", output_schema=output, tools=tools)
    return _flow(agent, state, seed, on or {"done": loom.STAGE_END}, name)


def code_flow(code: Callable[..., Any], *, state: Any = Any, seed: Any = None, name: str = "workshop") -> loom.Blueprint:
    """One stage with one code step; `done` ends the run."""
    return _flow(code, state, seed, {"done": loom.STAGE_END}, name)


def _flow(execution: Any, state: Any, seed: Any, on: Mapping[str, Any], name: str) -> loom.Blueprint:
    stage = loom.BlueprintStage(
        state_schema=state,
        initialize_state=lambda context: seed,
        entry_step_name="work",
        steps={"work": loom.BlueprintStep(execution=execution, on=on)},
        on={outcome: loom.WORKFLOW_END for outcome, route in on.items() if route == loom.STAGE_END},
    )
    return loom.Blueprint(flow_name=name, entry_stage_name="only", stages={"only": stage})


def played(flow: loom.Blueprint, turns: Sequence[Any] | Callable[..., Any] | Any, **more: Any) -> FlowRun:
    """The flow run to its rest by a model that says these turns."""
    model = ScriptedModel(turns) if isinstance(turns, (list, tuple)) or callable(turns) else turns
    return finished(loom.flow(flow, "intent", models=model, **more))


def finished(run: FlowRun) -> FlowRun:
    """The run, once it rests."""
    at_rest(run)
    return run


def error_of(run: FlowRun) -> str | None:
    """The code its view tells; None when it did not fail."""
    view: FlowRunView = run.view()
    return view.last_error.code if view.last_error is not None else None
