"""The steps of a turn, as the order of their effects: one call of the model each, then the tools it asks for."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loomnb.agents.deps import LoopDeps
from loomnb.agents.effects import AskRepeat, Checkpoint, Direct, Effect, Patched
from loomnb.agents.failures import OutputRejectedError, RunCancelledError, StructuredOutputError
from loomnb.agents.turn_tools import Done, StepTools
from loomnb.agents.work import TurnWork as W
from loomnb.jsonvalue import dumps

__all__ = ["Flow", "Shape", "SoFar", "Steps"]

Flow = Generator[Effect, Any, Any]
_CUT_OFF = ("length", "max_tokens")
_DONE = ("stop", "end_turn", "tool-calls")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the runner can do, as far as the order of a turn depends on it."""

    run_id: str = ""
    cancellable: bool = False
    parallel: bool = False


@dataclass(slots=True)
class SoFar:
    """How far a turn is."""

    usage: dict[str, int] = field(default_factory=dict[str, int])
    cost: float | None = None
    priced: bool = True
    steps: int = 0
    text: str = ""
    """Of the last step."""
    fallbacks: list[str] = field(default_factory=list[str])
    """What was told in place of components that cannot be drawn."""
    object: Any = None
    stopped_by: str = "max_steps"
    seen: dict[str, int] = field(default_factory=dict[str, int])
    """Call → how often the model asked for exactly that."""

    def add(self, answer: Mapping[str, Any], cost: float | None) -> None:
        """Count what a call of the model used."""
        for name, count in (answer.get("usage") or {}).items():
            self.usage[name] = self.usage.get(name, 0) + count
        if cost is None:
            self.priced = False
        else:
            self.cost = (self.cost or 0.0) + cost

    @property
    def total_cost(self) -> float | None:
        """In USD; None as soon as one call's is unknown."""
        return self.cost if self.priced else None

    @property
    def spent(self) -> tuple[dict[str, int], float | None]:
        """What a budget is held against: all that is known of it."""
        return dict(self.usage), self.cost

    @property
    def answer(self) -> str:
        """What the turn says: the last step's text, then what was told in place of components."""
        return "\n".join(part for part in (self.text, *self.fallbacks) if part)


@dataclass(slots=True)
class Steps:
    """The steps of one turn.

    Attributes:
        deps: the loop's.
        shape: the runner's.
        cancellable: whether a cancel is looked for.
        query: what was asked.
        passages: what was retrieved for it; None without a retriever.
        messages: what the model is told; it grows.
        so_far: how far the turn is.
    """

    deps: LoopDeps
    shape: Shape
    cancellable: bool
    query: str
    passages: Any
    messages: list[Any]
    so_far: SoFar

    def run(self) -> Flow:
        """Step by step, until the model is done or something ends the turn."""
        for i in range(self.deps.max_steps):
            self.so_far.steps = i + 1
            if (yield from self._step(i)):
                return

    def _step(self, i: int) -> Flow:
        """One step; whether it was the last."""
        yield from self._observe(f"cancel:check:{i}")
        yield Checkpoint(f"stream:step-start:{i}", W.frame, ({"kind": "step-start"},))
        prompt: Any = None
        if self.deps.input_processors:
            prompt = yield Checkpoint(f"process:input:{i}", W.process_input, (self.messages, i))
        answer = yield Checkpoint(f"llm:{i}", W.call_model, (self.messages, prompt, i, self.so_far.spent))
        text, cost = yield from self._account(answer, i)
        heard = prompt["messages"] if prompt is not None else self.messages
        made: list[dict[str, Any]] = self._retrieved(i)
        follow_ups: Any = None
        if not answer["toolCalls"]:
            made += yield from self._structured(heard, answer, text, i)
            follow_ups = yield from self._follow_ups(heard, answer, text, i)
        said = yield Checkpoint(f"persist:assistant:{i}", W.save_assistant, (answer, text, cost, follow_ups, made))
        for one in made:
            name = "retrieval" if one["name"] == "retrieve" else "structured"
            yield Checkpoint(f"persist:{name}:{said}", W.save_synthetic, (said, one))
        done: Done | None = None
        if answer["toolCalls"]:
            done = yield from self._tools(answer, text, said, made, i)
        used = {name: answer[name] for name in ("usage", "reasoningMs", "modelId") if answer.get(name) is not None}
        yield Checkpoint(f"stream:step-finish:{i}", W.step_finish, ({"answer": used, "costUsd": cost},))
        if done is None:
            self.so_far.stopped_by = _stopped_by(answer.get("finish") or "stop")
        elif done.ends_turn:
            self.so_far.stopped_by = "terminal"
        return done is None or done.ends_turn

    def _observe(self, name: str) -> Flow:
        """See whether somebody wants the turn to end."""
        if self.cancellable and (yield Checkpoint(name, W.cancelled)):
            raise RunCancelledError

    def _account(self, answer: Mapping[str, Any], i: int) -> Flow:
        """Judge an answer, book what it used, and only then refuse it; its text as it may be read, and its cost."""
        gated: Any = {"text": answer["text"]}
        if _is_held(answer):
            gated = yield Checkpoint(f"process:output:{i}", W.gate, (answer, i))
        cost = self.deps.cost_of(answer)
        self.so_far.add(answer, cost)
        yield Checkpoint(f"persist:usage:{i}", W.save_usage, (answer, "chat"))
        if self.deps.counts_quota:
            yield Checkpoint(f"quota:bump:{i}", W.bump_quota, (answer,))
        _refuse(gated)
        self.so_far.text = gated["text"]
        return gated["text"], cost

    # -- tools --------------------------------------------------------------------------------------

    def _tools(self, answer: Mapping[str, Any], text: str, said: str, made: Sequence[Mapping[str, Any]], i: int) -> Flow:
        """Run what the model asks for, and tell it what came of that; `Done`."""
        yield from self._observe(f"cancel:tools:{i}")
        calls = answer["toolCalls"]
        hoisted = self.shape.parallel and len(calls) > 1 and (yield Patched("agent:parallel-tools"))
        instead = yield from self._repeated(calls)
        done: Done = yield from StepTools(calls, said, instead, hoisted=bool(hoisted)).run()
        synthetic = [{name: one[name] for name in ("id", "name", "output")} for one in made]
        shown = {"ui": done.ui, "texts": done.texts}
        outputs = yield Checkpoint(f"stream:tool-outputs:{i}", W.save_outputs, (said, answer, done.results, synthetic, shown))
        told = {"role": "assistant", "content": text, "toolCalls": calls, "toolResults": done.results}
        if answer.get("native") is not None and text == answer["text"]:
            told["native"] = answer["native"]
        self.messages.append(told)
        if outputs.get("text"):
            self.so_far.fallbacks.append(outputs["text"])
            self.messages.append({"role": "assistant", "content": outputs["text"]})
        return done

    def _repeated(self, calls: Sequence[Mapping[str, Any]]) -> Flow:
        """The same call again and again is a person's business (contracts/decisions.md, Agents 4): call → what it is told."""
        instead: dict[str, str] = {}
        seen, limit = self.so_far.seen, self.deps.repeat_guard
        for call in calls if limit else ():
            same = f"{call['name']} {dumps(call['input'])}"
            seen[same] = seen.get(same, 0) + 1
            if limit is None or seen[same] < limit:
                continue
            said = yield AskRepeat(call, seen[same])
            if said == "stop":
                raise RunCancelledError(f"A person stopped the run: the model asked {seen[same]} times for the same call.")
            if said == "continue":
                seen[same] = 0
            else:
                instead[call["id"]] = said
        return instead

    # -- values that no tool made ---------------------------------------------------------------------

    def _retrieved(self, i: int) -> list[dict[str, Any]]:
        """What was retrieved, as an ordinary read call of the first message: clients know how to draw those."""
        if i > 0 or not self.passages:
            return []
        found = {"input": {"query": self.query}, "output": {"passages": self.passages}}
        return [{"id": f"retrieve-{self.shape.run_id}", "name": "retrieve", **found}]

    def _structured(self, heard: Sequence[Any], answer: Mapping[str, Any], text: str, i: int) -> Flow:
        """The pass that turns the final answer into a value of the schema, and asks again while it does not fit.

        Returns:
            The value, as a read call; nothing without a schema.
        """
        deps = self.deps
        problem: dict[str, Any] | None = None
        if deps.output_schema is None:
            return []
        for a in range(1 + deps.output_repair_attempts):
            about = (heard, text, i, self.so_far.spent)
            given = yield Checkpoint(f"structured:{i}:{a}", W.structured, (about, problem, a))
            self.so_far.add(given, deps.cost_of(given))
            yield Checkpoint(f"persist:usage:structured:{i}:{a}", W.save_usage, (given, "structured_output"))
            if _is_held(answer):
                verdict = yield Checkpoint(f"process:output:structured:{i}:{a}", W.gate_plain, (given["text"], i))
                _refuse(verdict)
                if verdict["text"] != given["text"]:
                    given = {**given, "text": verdict["text"], "object": None}
            judged = yield Direct(W.validate, (given,))
            if "value" in judged:
                self.so_far.object = judged["value"]
                made = {"id": f"structured-{self.shape.run_id}", "name": "structured_output", "input": {}}
                return [{**made, "output": judged["value"]}]
            problem = {"issues": judged["issues"], "text": given["text"], "attempts": a + 1}
            problem["cutOff"] = given.get("finish") in _CUT_OFF
            if problem["cutOff"]:  # the same limit would cut it off again
                break
        assert problem is not None  # there is always a first attempt
        raise StructuredOutputError(problem["issues"], problem["text"], problem["attempts"], cut_off=problem["cutOff"])

    def _follow_ups(self, heard: Sequence[Any], answer: Mapping[str, Any], text: str, i: int) -> Flow:
        """What the person may want to ask next; None where nobody wants to know."""
        if self.deps.follow_ups_count <= 0:
            return None
        given = yield Checkpoint(f"followups:{i}", W.follow_ups, ((heard, text, i, self.so_far.spent),))
        kept = given["suggestions"]
        if _is_held(answer):
            kept = yield Checkpoint(f"process:output:followups:{i}", W.gate_each, (kept, i))
        self.so_far.add(given, self.deps.cost_of(given))
        yield Checkpoint(f"persist:usage:followups:{i}", W.save_usage, (given, "follow_ups"))
        return kept


def _stopped_by(finish: str) -> str:
    """Why a model ended its last step, where it was not simply done."""
    if finish in _CUT_OFF:
        return "length"
    return "" if finish in _DONE else finish


def _is_held(answer: Mapping[str, Any]) -> bool:
    """Whether an answer was held back for a gate: what is on record of it says so, and not who would judge it now."""
    return "frames" in answer or "releasedText" in answer


def _refuse(gated: Mapping[str, Any]) -> None:
    rejected = gated.get("rejection")
    if rejected:
        raise OutputRejectedError(rejected["processor"], rejected["reason"])
