"""One turn of an agent, as the order of its effects: model → tools → model, until the model is done.

A generator that decides and performs nothing. Every name and the order of the checkpoints are contracts/agents.md §1.2; optional
parts take their positions only when they are configured. What changes the sequence is read from what a checkpoint recorded
(kind, approval, terminal, stages, persona, cancel answers), never from the live configuration, so that a replay in a process
that is configured differently takes the same way. The steps are in `turn_steps.py`, their tool calls in `turn_tools.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from loomnb.agents.deps import LoopDeps
from loomnb.agents.effects import AskAnswers, Checkpoint, Direct, Effect, Patched
from loomnb.agents.failures import QuotaExceededError
from loomnb.agents.spi import AgentTurnInput, AgentTurnResult
from loomnb.agents.turn_steps import Flow, Shape, SoFar, Steps
from loomnb.agents.work import UNNAMED
from loomnb.agents.work import TurnWork as W

__all__ = ["Shape", "turn"]


def turn(deps: LoopDeps, given: AgentTurnInput, shape: Shape) -> Generator[Effect, Any, AgentTurnResult]:
    """The effects of one turn, in order. Returns what it came to.

    Raises:
        QuotaExceededError: the quota is used up.
        RunCancelledError: a cancel was observed.
        OutputRejectedError: an output processor refused what the model said.
        StructuredOutputError: the model's output did not fit the schema, repairs included.
    """
    so_far = SoFar()
    if given.persona is not None:
        persona = yield Checkpoint("persona:resolve", W.resolve_persona, (given.persona,))
        yield Direct(W.adopt, (persona,))
    asked = yield from _admit(deps, given)
    loaded = yield from _history(deps, so_far)
    yield Direct(W.open_stream)
    stages = {"memory": deps.memory is not None, "retriever": deps.retriever is not None, "skills": deps.skills is not None}
    if (yield Patched("agent:prompt-stages")):
        stages = yield Checkpoint("run:prompt-stages", W.keep, (stages,))
    started = yield Checkpoint("run:started-at", W.now)
    yield Checkpoint("persist:run:start", W.run_start)
    found = yield from _found(stages, asked["content"])
    prices = (yield Checkpoint("pricing:list", W.list_prices)) if deps.pricing_store is not None else ()
    yield Direct(W.settle_prompt, (found, prices))
    messages = [*loaded["messages"]]
    if deps.intake is not None:
        messages += yield from _intake(loaded)
    cancellable = shape.cancellable and (yield Patched("agent:cancellation"))
    yield from Steps(deps, shape, bool(cancellable), asked["content"], found.get("passages"), messages, so_far).run()
    if (loaded.get("title") or "") in UNNAMED:
        yield Checkpoint("persist:title", W.save_title, (asked["content"],))
    if given.deliver_to is not None:
        yield Checkpoint("deliver:detached", W.deliver, (so_far.answer,))
    yield Checkpoint("persist:run:end", W.run_end, (started, so_far.steps, dict(so_far.usage)))
    yield Direct(W.close_stream)
    return AgentTurnResult(
        text=so_far.answer,
        object=so_far.object,
        usage=so_far.usage,
        cost_usd=so_far.total_cost,
        steps=so_far.steps,
        stopped_by=so_far.stopped_by,
    )


def _admit(deps: LoopDeps, given: AgentTurnInput) -> Flow:
    """Look at the quota, then store what is asked, or go back to it; `{"id", "content"}`."""
    if deps.quota is not None:
        verdict = yield Checkpoint("quota:check", W.check_quota)
        if not verdict["withinLimit"]:
            if "reason" in verdict:
                raise QuotaExceededError(
                    f"{verdict['reason']}: {given.actor.id!r} can go on from {verdict.get('resetsAt') or 'the next period'} on.",
                    advice="Wait until then, or raise the limit.",
                    period=verdict["period"],
                )
            raise QuotaExceededError(
                f"The quota of {given.actor.id!r} is used up: {verdict['usedTokens']} of {verdict['limitTokens']} tokens today.",
                advice="Wait for tomorrow, or raise the limit.",
            )
    if given.regenerate:
        asked = yield Checkpoint("regenerate:truncate", W.truncate)
    else:
        asked = yield Checkpoint("persist:user", W.save_user)
    return asked


def _history(deps: LoopDeps, so_far: SoFar) -> Flow:
    """What the model is told of the thread, with a summary in place of what is left out."""
    selected = yield Patched("agent:selected-history")
    loaded = yield Checkpoint("load:thread", W.load_thread, (selected,))
    loaded = yield Direct(W.select, (loaded, selected))
    if not (deps.summarizes and loaded["dropped"]):
        return loaded
    summary = yield Checkpoint("history:summarize", W.summarize, (loaded["dropped"],))
    if summary.get("usage"):
        yield Checkpoint("persist:usage:history", W.save_usage, (summary, "history_summary"))
        so_far.add(summary, summary.get("costUsd"))
    if not summary["text"].strip():
        return loaded
    return {**loaded, "messages": [{"role": "system", "content": summary["text"]}, *loaded["messages"]]}


def _found(stages: Mapping[str, bool], query: str) -> Flow:
    """What is looked up for the system prompt, as far as the run has these stages."""
    found: dict[str, Any] = {}
    if stages["memory"]:
        found["memory"] = yield Checkpoint("memory:digest", W.memory_digest, (query,))
    if stages["retriever"]:
        found["passages"] = yield Checkpoint("retrieve", W.retrieve, (query,))
    if stages["skills"]:
        found["skills"] = yield Checkpoint("skills:catalog", W.skills_catalog)
    return found


def _intake(loaded: Mapping[str, Any]) -> Flow:
    """The questions an agent begins with; the message that tells the model the answers, or none when they were not asked."""
    asked = yield Checkpoint("intake:ask", W.intake_ask, (loaded["hasAssistant"],))
    if not asked["asked"]:
        return []
    reply = yield AskAnswers(asked["request"])
    message = yield Checkpoint("intake:answers", W.intake_answers, (asked, reply))
    return [message]
