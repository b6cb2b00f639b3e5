"""Agents that hand tasks to other agents: the tools for that, who may be asked, and what the model is told of it.

An agent that is asked works in a run and a thread of its own. Awaited (`ask_<name>`), its answer is the call's result; detached
(`start_<name>`), the call's result is a receipt, and the answer is posted in the asking thread when it is there. Why somebody is
not asked is a result, too, and no failure. Rules: contracts/agents.md §1.4, "Delegation".
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from loomnb.agents.agent_registry import AgentRegistry
from loomnb.agents.failures import text_of
from loomnb.agents.spi import (
    AgentDefinition,
    AgentTurnInput,
    LoopHooks,
    ToolContext,
    ToolHandler,
    ToolScope,
    ToolSpec,
    optional,
    settled,
)
from loomnb.errors import DefinitionError, NotFound, RunFailed, StoreClosed
from loomnb.jsonvalue import dumps
from loomnb.runtime import Run, RunRecord

__all__ = [
    "Delegation",
    "StartAgent",
    "call_id_of",
    "delegation_tool",
    "delegation_tools",
    "is_kernels_end",
    "is_receipt",
    "receipt_of",
    "task_of",
    "tool_name_of",
]

_NOTE = (
    "This agent works on its own now. Its answer is not part of this turn: it comes later, as a separate message in this "
    "conversation. You do not know it yet, so do not guess it and do not wait for it; say that it was started, and go on."
)

_CALL: contextvars.ContextVar[str] = contextvars.ContextVar("loom_delegating_call", default="")
"""The call by which an agent is being asked."""

_TASK: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "minLength": 1,
            "description": "What is to be done, with everything it has to know: it reads nothing of this conversation.",
        }
    },
    "required": ["task"],
    "additionalProperties": False,
}


class StartAgent(Protocol):
    """Starts a run of an agent, or finds the one of its key."""

    def __call__(self, name: str, args: Mapping[str, Any], *, key: str, run_id: str, fresh: bool, parent: RunRecord) -> Run:
        """The run.

        Raises:
            NotFound: no agent has this name here.
            Conflict: the key's run was about something else.
        """
        ...


# -- tools --------------------------------------------------------------------------------------------


def tool_name_of(agent: str, *, detached: bool = False) -> str:
    """The tool by which an agent is asked: `ask_<name>`, or `start_<name>`, with `_` for what is no letter or digit."""
    return f"{'start' if detached else 'ask'}_{re.sub(r'[^A-Za-z0-9]+', '_', agent)}"


@dataclass(frozen=True, slots=True)
class _Handler:
    """Says what the agent is for, as long as there is one. The loop runs it, not the registry."""

    agent: str
    about: Callable[[], str | None]
    detached: bool

    def describe(self, scope: ToolScope) -> Mapping[str, Any]:
        """What the model is told of it; not offered while nobody has its name."""
        del scope
        about = self.about()
        return {"available": False} if about is None else {"description": _description(self.agent, about, self.detached)}

    def execute(self, input: Any, ctx: ToolContext) -> Any:  # noqa: A002  # the contract's word
        """Never called by the loop."""
        del input, ctx
        raise NotFound(f"The agent {self.agent!r} is asked by a turn of an agent only.")


def _description(agent: str, about: str, detached: bool) -> str:
    what = f"Hand a task to the agent {agent!r}. {about}".strip()
    if detached:
        return f"{what}\nNobody waits for it: its answer comes later, as a separate message."
    return f"{what}\nThe result is its answer."


def delegation_tool(
    agent: str, about: Callable[[], str | None], *, detached: bool = False, roles: Sequence[str] | None = None
) -> tuple[ToolSpec, ToolHandler]:
    """The tool that hands a task to an agent, for a ToolRegistry.

    Args:
        agent: its name.
        about: what it is for; None while there is no such agent, which takes the tool away.
        detached: whether nobody waits for the answer.
        roles: who may ask it.
    """
    spec = ToolSpec(
        name=tool_name_of(agent, detached=detached),
        description=_description(agent, about() or "", detached),
        input_schema=_TASK,
        kind="agent",
        presentation={"label": agent, "running": f"{agent}: {{task}}"},
        roles=roles,
        target_agent=agent,
        detached=detached,
    )
    return spec, _Handler(agent, about, detached)


def delegation_tools(
    agents: AgentRegistry | Sequence[AgentDefinition], asking: str | None = None, *, detached: Sequence[str] = ()
) -> list[tuple[ToolSpec, ToolHandler]]:
    """The tools by which agents are asked.

    Args:
        agents: all there are, or those to ask.
        asking: who asks: only whom its `delegates_to` names; None: everybody.
        detached: the names of those that nobody waits for.

    Raises:
        NotFound: nobody is called `asking`.
        DefinitionError: somebody to ask is not there, or two tools would have one name.
    """
    known = {one.name: one for one in (agents.list() if isinstance(agents, AgentRegistry) else agents)}
    if asking is not None and asking not in known:
        raise NotFound(f"There is no agent {asking!r}.", advice=f"There are: {', '.join(known) or 'none'}.")
    names = [*known] if asking is None else [*known[asking].delegates_to]
    missing = [name for name in (*names, *detached) if name not in known]
    if missing:
        raise DefinitionError(f"There is no agent {missing[0]!r} to hand over to.", advice=f"Known: {', '.join(known)}.")

    def about(name: str) -> Callable[[], str | None]:
        return lambda: known[name].description

    made = [delegation_tool(name, about(name), detached=name in detached) for name in names]
    tools = [spec.name for spec, _ in made]
    double = next((name for name in tools if tools.count(name) > 1), None)
    if double is not None:
        raise DefinitionError(f"Two agents would be asked by the tool {double!r}.", advice="Give one another name.")
    return made


def task_of(given: Any) -> str:
    """What is asked: the input's `task`; of any other input its JSON."""
    task = given.get("task") if isinstance(given, Mapping) else None
    return task if isinstance(task, str) else dumps(given)


# -- asking -------------------------------------------------------------------------------------------


def call_id_of() -> str:
    """The id of the call by which an agent is being asked in this context; empty outside of one."""
    return _CALL.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """One call that hands a task over.

    Attributes:
        given: the asking turn's input.
        persona: the asking turn's, as it was resolved.
        allowed: the tools that the agent may use at all; None: all.
        is_offered: whether the tool may be used by this actor now.
        max_depth, max_appearances: how deep agents may ask agents, and how often one may appear in the chain.
    """

    given: AgentTurnInput
    hooks: LoopHooks
    call: Mapping[str, Any]
    target: str | None
    detached: bool
    persona: Mapping[str, Any] | None
    allowed: Sequence[str] | None
    is_offered: bool
    max_depth: int
    max_appearances: int

    def refusal(self) -> str | None:
        """Why nobody is asked; None when somebody is."""
        name, target, persona = self.call["name"], self.target, self.persona
        if persona is not None and persona.get("allowedTools") is not None and name not in persona["allowedTools"]:
            label = persona.get("label") or persona["id"]
            return f"{target or name} is not available to the persona {label!r}. Nobody was asked; go on without it."
        if target is None or not self.is_offered or (self.allowed is not None and name not in self.allowed):
            return f"{target or name} cannot be asked here. Go on without it."
        chain = [*self.given.delegation_path, self.given.agent_name or "default"]
        if chain.count(target) >= self.max_appearances:
            told = " → ".join([*chain, target])
            return f"{target} was not asked, because it takes part in this already: {told}. Answer with what you know."
        depth = self.given.delegation_depth
        if depth >= self.max_depth:
            return f"{target} was not asked: agents asked agents {depth} deep, and the depth limit is {self.max_depth}."
        if optional(self.hooks, "run_agent") is None and not self._starts:
            return f"{target} cannot be asked here: nothing runs other agents."
        return None

    @property
    def _starts(self) -> bool:
        return self.detached and optional(self.hooks, "start_agent") is not None

    @property
    def facts(self) -> dict[str, Any]:
        """What those who watch are told."""
        told = {"runId": self.hooks.run_id, "fromAgent": self.given.agent_name, "toAgent": self.target}
        return {**told, "detached": True} if self._starts else told

    async def ask(self) -> dict[str, Any]:
        """The answer as `{"text"}`, or a receipt.

        Raises:
            Exception: what the runner raised.
        """
        token = _CALL.set(self.call["id"])
        task = task_of(self.call["input"])
        try:
            if self._starts:
                start = optional(self.hooks, "start_agent")
                started = await settled(start(agent_name=self.target, task=task, tool_call_id=self.call["id"]))
                return receipt_of(str(self.target), str(started["runId"]))
            run = optional(self.hooks, "run_agent")
            answer = await settled(run(self.target, task))
            return {"text": str(answer["text"])}
        finally:
            _CALL.reset(token)

    def failed(self, exc: BaseException) -> str:
        """What the model is told when the other agent did not come to an answer."""
        if isinstance(exc, RunFailed) and exc.status == "canceled":
            return f"{self.target} was stopped by a person before it had an answer. Do not ask it again; ask what they want."
        return f"{self.target} came to no answer: {text_of(exc) or type(exc).__name__}"


def receipt_of(agent: str, run_id: str) -> dict[str, Any]:
    """What stands for the answer of an agent that nobody waits for."""
    return {"detached": True, "status": "started", "agent": agent, "runId": run_id, "note": _NOTE}


def is_kernels_end(exc: BaseException) -> bool:
    """Whether the kernel ends and not the other agent's run: that goes on in the next one, and so does who asked."""
    return isinstance(exc, StoreClosed) or (isinstance(exc, RunFailed) and exc.status == "interrupted")


def is_receipt(output: Any) -> bool:
    """Whether it stands for an answer that comes later, or came by now."""
    return isinstance(output, Mapping) and cast("Mapping[str, Any]", output).get("detached") is True
