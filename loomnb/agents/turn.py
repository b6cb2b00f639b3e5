"""One turn of an agent, as the order of its effects: model → tools → model, until the model is done.

A generator that decides and performs nothing. Every name and the order of the checkpoints are contracts/agents.md §1.2; optional
parts take their positions only when they are configured. What changes the sequence is read from what a checkpoint recorded
(kind, approval, terminal, stages, persona, cancel answers), never from the live configuration, so that a replay in a process
that is configured differently takes the same way.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loomnb.agents.deps import LoopDeps
from loomnb.agents.effects import AskAnswers, AskRepeat, Checkpoint, Direct, Effect, Patched
from loomnb.agents.failures import OutputRejectedError, QuotaExceededError, RunCancelledError, StructuredOutputError
from loomnb.agents.spi import AgentTurnInput, AgentTurnResult
from loomnb.agents.turn_tools import Done, StepTools
from loomnb.agents.work import TurnWork as W
from loomnb.jsonvalue import dumps

__all__ = ["Shape", "turn"]

Flow = Generator[Effect, Any, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the runner can do, as far as the order of a turn depends on it."""

    run_id: str = ""
    cancellable: bool = False
    parallel: bool = False


@dataclass(slots=True)
class _So:
    """How far a turn is."""

    usage: dict[str, int] = field(default_factory=dict[str, int])
    cost: float | None = None
    priced: bool = True
    steps: int = 0
    seen: dict[str, int] = field(default_factory=dict[str, int])
    """Call → how often the model asked for exactly that."""

    def add(self, answer: Mapping[str, Any], cost: float | None) -> None:
        for name, count in (answer.get("usage") or {}).items():
            self.usage[name] = self.usage.get(name, 0) + count
        if cost is None:
            self.priced = False
        else:
            self.cost = (self.cost or 0.0) + cost


def turn(deps: LoopDeps, given: AgentTurnInput, shape: Shape) -> Generator[Effect, Any, AgentTurnResult]:
    """The effects of one turn, in order. Returns what it came to.

    Raises:
        QuotaExceededError: the quota or the budget is used up.
        RunCancelledError: a cancel was observed.
        OutputRejectedError: an output processor refused what the model said.
        StructuredOutputError: the model's output did not fit the schema, repairs included.
    """
    persona = None
    if given.persona is not None:
        persona = yield Checkpoint("persona:resolve", W.resolve_persona, (given.persona,))
    if deps.quota is not None:
        verdict = yield Checkpoint("quota:check", W.check_quota)
        if not verdict["withinLimit"]:
            raise QuotaExceededError(
                f"The quota of {given.actor.id!r} is used up: {verdict['usedTokens']} of {verdict['limitTokens']} tokens today.",
                advice="Wait for tomorrow, or raise the limit.",
            )
    if given.regenerate:
        asked = yield Checkpoint("regenerate:truncate", W.truncate)
    else:
        asked = yield Checkpoint("persist:user", W.save_user, (_persona_id(persona),))
    selected = yield Patched("agent:selected-history")
    loaded = yield Checkpoint("load:thread", W.load_thread, (selected,))
    loaded = yield Direct(W.select, (loaded, selected))
    so = _So()
    if deps.history_policy is not None and loaded["dropped"] and deps.summarizes:
        summary = yield Checkpoint("history:summarize", W.summarize, (loaded["dropped"],))
        if summary.get("usage"):
            yield Checkpoint("persist:usage:history", W.save_usage, (summary, "history_summary"))
        loaded = {**loaded, "messages": [{"role": "system", "content": summary["text"]}, *loaded["messages"]]}
    yield Direct(W.open_stream)
    stages = {"memory": deps.memory is not None, "retriever": deps.retriever is not None, "skills": deps.skills is not None}
    if (yield Patched("agent:prompt-stages")):
        stages = yield Checkpoint("run:prompt-stages", W.keep, (stages,))
    started = yield Checkpoint("run:started-at", W.now)
    system = yield Direct(W.compose, (persona,))
    yield Checkpoint("persist:run:start", W.run_start, (system["base"],))
    if stages["memory"]:
        digest = yield Checkpoint("memory:digest", W.memory_digest, (asked["content"],))
        system = {**system, "memory": digest}
    passages: Any = None
    if stages["retriever"]:
        passages = yield Checkpoint("retrieve", W.retrieve, (asked["content"],))
        system = {**system, "passages": passages}
    if stages["skills"]:
        catalog = yield Checkpoint("skills:catalog", W.skills_catalog)
        system = {**system, "skills": catalog}
    prices: Sequence[Any] = ()
    if deps.pricing_store is not None:
        prices = yield Checkpoint("pricing:list", W.list_prices)
    messages = list(loaded["messages"])
    if deps.intake is not None:
        intake = yield from _intake(loaded)
        if intake is not None:
            messages.append(intake)
    cancellable = shape.cancellable and (yield Patched("agent:cancellation"))
    yield Direct(W.settle_prompt, (system, stages, prices, persona))
    text, obj, stopped = yield from _steps(deps, given, _Way(shape, cancellable, passages), messages, so)
    if loaded.get("title") in ("", "New chat", None):
        yield Checkpoint("persist:title", W.save_title, (asked["content"],))
    if given.deliver_to is not None:
        yield Checkpoint("deliver:detached", W.deliver, (text,))
    yield Checkpoint("persist:run:end", W.run_end, (started, so.steps, dict(so.usage)))
    yield Direct(W.close_stream)
    return AgentTurnResult(
        text=text, object=obj, usage=so.usage, cost_usd=so.cost if so.priced else None, steps=so.steps, stopped_by=stopped
    )


def _persona_id(persona: Mapping[str, Any] | None) -> str | None:
    return persona["id"] if persona is not None else None


@dataclass(frozen=True, slots=True)
class _Way:
    shape: Shape
    cancellable: bool
    passages: Any


def _intake(loaded: Mapping[str, Any]) -> Flow:
    """The questions an agent begins with; the message that tells the model the answers, or None when they were not asked."""
    asked = yield Checkpoint("intake:ask", W.intake_ask, (loaded["hasAssistant"],))
    if not asked["asked"]:
        return None
    reply = yield AskAnswers(asked["request"])
    message = yield Checkpoint("intake:answers", W.intake_answers, (asked["request"], reply))
    return message


def _steps(deps: LoopDeps, given: AgentTurnInput, way: _Way, messages: list[Any], so: _So) -> Flow:
    text, obj, stopped = "", None, "max_steps"
    for i in range(deps.max_steps):
        so.steps = i + 1
        if way.cancellable and (yield Checkpoint(f"cancel:check:{i}", W.cancelled)):
            raise RunCancelledError()
        deps.budget_check(so.usage, so.cost if so.priced else None)
        yield Checkpoint(f"stream:step-start:{i}", W.frame, ({"kind": "step-start"},))
        prompt: Any = None
        if deps.input_processors:
            prompt = yield Checkpoint(f"process:input:{i}", W.process_input, (messages, i))
        answer = yield Checkpoint(f"llm:{i}", W.call_model, (messages, prompt, i))
        gated: Any = {"text": answer["text"]}
        if deps.output_processors:
            gated = yield Checkpoint(f"process:output:{i}", W.gate, (answer, i))
        cost = deps.cost_of(answer)
        so.add(answer, cost)
        yield Checkpoint(f"persist:usage:{i}", W.save_usage, (answer, "chat"))
        if deps.quota is not None:
            yield Checkpoint(f"quota:bump:{i}", W.bump_quota, (answer,))
        _refuse(gated)
        text, calls = gated["text"], answer["toolCalls"]
        structured: Any = None
        follow_ups: Any = None
        if not calls and deps.output_schema is not None:
            structured = yield from _structured(deps, i, (prompt or {}).get("messages") or messages, answer, gated, so)
            obj = structured["value"]
        if not calls and deps.follow_ups_count > 0:
            follow_ups = yield from _follow_ups(deps, i, messages, text, so)
        made = _synthetic(given, way, i, structured)
        said = yield Checkpoint(f"persist:assistant:{i}", W.save_assistant, (answer, text, cost, follow_ups, made))
        for one in made:
            name = "retrieval" if one["name"] == "retrieve" else "structured"
            yield Checkpoint(f"persist:{name}:{said}", W.save_synthetic, (said, one))
        finish = {"answer": _finish(answer), "costUsd": cost}
        if not calls:
            yield Checkpoint(f"stream:step-finish:{i}", W.step_finish, (finish,))
            stopped = "length" if answer.get("finish") in ("length", "max_tokens") else ""
            break
        if way.cancellable and (yield Checkpoint(f"cancel:tools:{i}", W.cancelled)):
            raise RunCancelledError()
        hoisted = way.shape.parallel and len(calls) > 1 and (yield Patched("agent:parallel-tools"))
        yield from _guard_repeats(deps, calls, so)
        done: Done = yield from StepTools(deps, calls, said, hoisted=bool(hoisted)).run()
        outputs = yield Checkpoint(
            f"stream:tool-outputs:{i}", W.save_outputs, (said, answer, [*done.results, *map(_result, made)], done.ui)
        )
        yield Checkpoint(f"stream:step-finish:{i}", W.step_finish, (finish,))
        messages.append(_told(answer, text, done.results))
        if outputs.get("text"):
            text = f"{text}\n{outputs['text']}"
            messages.append({"role": "assistant", "content": outputs["text"]})
        if done.ends_turn:
            stopped = "terminal"
            break
    return text, obj, stopped


def _synthetic(given: AgentTurnInput, way: _Way, i: int, structured: Any) -> list[dict[str, Any]]:
    """Values that no tool made, as ordinary read calls of the message: clients know how to draw those."""
    made: list[dict[str, Any]] = []
    if i == 0 and way.passages:
        found = {"input": {"query": given.user_text}, "output": {"passages": way.passages}}
        made.append({"id": f"retrieve-{way.shape.run_id}", "name": "retrieve", **found})
    if structured is not None:
        made.append(
            {"id": f"structured-{way.shape.run_id}", "name": "structured_output", "input": {}, "output": structured["value"]}
        )
    return made


def _result(made: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": made["id"], "name": made["name"], "output": made["output"]}


def _finish(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in ("usage", "reasoningMs", "modelId") if answer.get(name) is not None}


def _refuse(gated: Mapping[str, Any]) -> None:
    rejected = gated.get("rejection")
    if rejected:
        raise OutputRejectedError(rejected["processor"], rejected["reason"])


def _told(answer: Mapping[str, Any], text: str, results: Sequence[Any]) -> dict[str, Any]:
    """What the model is told of its own step."""
    out: dict[str, Any] = {"role": "assistant", "content": text, "toolCalls": answer["toolCalls"], "toolResults": list(results)}
    if answer.get("native") is not None and text == answer["text"]:
        out["native"] = answer["native"]
    return out


def _guard_repeats(deps: LoopDeps, calls: Sequence[Any], so: _So) -> Flow:
    """The same call a third time is a person's business: contracts/decisions.md, Agents 4."""
    for call in calls:
        same = f"{call['name']} {dumps(call['input'])}"
        so.seen[same] = so.seen.get(same, 0) + 1
        if deps.repeat_guard and so.seen[same] >= deps.repeat_guard:
            said = yield AskRepeat(call, so.seen[same])
            if said == "stop":
                raise RunCancelledError(f"A person stopped the run: the model asked {so.seen[same]} times for the same call.")
            if said == "continue":
                so.seen[same] = 0
            else:
                call["instead"] = said


def _structured(
    deps: LoopDeps, i: int, messages: Sequence[Any], answer: Mapping[str, Any], gated: Mapping[str, Any], so: _So
) -> Flow:
    """The pass that turns the final answer into a value of the schema, and asks again while it does not fit."""
    problem: Any = None
    attempts = 1 + deps.output_repair_attempts
    for a in range(attempts):
        given = yield Checkpoint(f"structured:{i}:{a}", W.structured, (messages, gated["text"], problem, i, a))
        so.add(given, deps.cost_of(given))
        yield Checkpoint(f"persist:usage:structured:{i}:{a}", W.save_usage, (given, "structured_output"))
        if deps.output_processors:
            verdict = yield Checkpoint(f"process:output:structured:{i}:{a}", W.gate_plain, (given["text"], i))
            _refuse(verdict)
            if verdict["text"] != given["text"]:
                given = {**given, "text": verdict["text"], "object": None}
        judged = yield Direct(W.validate, (given,))
        if "value" in judged:
            return judged
        problem = {"issues": judged["issues"], "text": given["text"], "cutOff": given.get("finish") in ("length", "max_tokens")}
        if problem["cutOff"]:  # the same limit would cut it off again: pains I5
            attempts = a + 1
            break
    raise StructuredOutputError(problem["issues"], problem["text"], attempts, cut_off=problem["cutOff"])


def _follow_ups(deps: LoopDeps, i: int, messages: Sequence[Any], text: str, so: _So) -> Flow:
    given = yield Checkpoint(f"followups:{i}", W.follow_ups, (messages, text, i))
    kept = given["suggestions"]
    if deps.output_processors:
        kept = yield Checkpoint(f"process:output:followups:{i}", W.gate_each, (kept, i))
    so.add(given, deps.cost_of(given))
    yield Checkpoint(f"persist:usage:followups:{i}", W.save_usage, (given, "follow_ups"))
    return kept
