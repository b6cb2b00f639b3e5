"""The work of a turn's calls of a model: the prompt, the answer, the gate before its readers, what it used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from loomnb.agents.diagnostics import span
from loomnb.agents.failures import ProcessorFailedError
from loomnb.agents.frames import DiscardWriter, frame
from loomnb.agents.gating import frames_to_release, gate_mode, gate_writer, judge, run_input_chain, run_output_chain
from loomnb.agents.services import QuotaStore
from loomnb.agents.spi import ChatMessage, MaybeAwaitable, Prompt, PromptContext, UsageRow, optional, settled
from loomnb.agents.structured import (
    DEFAULT_STRUCTURED_OUTPUT_INSTRUCTION,
    output_json_schema,
    parse_follow_ups,
    repair_instruction,
    validate_structured,
)
from loomnb.agents.tracing import chat_span
from loomnb.agents.turn_results import counted, turn_result
from loomnb.agents.work_base import Announcing, for_model, shown_kind
from loomnb.agents.work_tools import ToolWork
from loomnb.jsonvalue import dumps, thaw
from loomnb.runtime import AbortSignal, TurnRequest, TurnResult

__all__ = ["ModelWork"]

_LOG = logging.getLogger(__name__)

_FOLLOW_UPS = (
    "Suggest what the person may want to ask next. Answer with a JSON array of {count} short questions in their language, each "
    "as they would type it, and nothing else."
)


Spent = tuple[Mapping[str, int], float | None]
"""What the run has used so far: tokens, and USD where that is known."""
Told = tuple[Sequence[Any], str, int, Spent]
"""What a pass after the final step is about: the conversation, the answer, which step that was, and what the run has used."""


_PAID = ("LLM_STREAM_CUT", "LLM_RESPONSE_INVALID")
"""Codes of failures in which a model did say something."""


class ModelWork(ToolWork):
    """What the effects of a step outside its tools do."""

    _base: str | None = None
    _blocks: Sequence[str] = ()
    """Of the system prompt, after its base: what was found for this turn."""

    # -- the system prompt ------------------------------------------------------------------------

    def prompt_context(self, persona: Mapping[str, Any] | None, base: str = "") -> PromptContext:
        """What a builder of prompts may look at."""
        return PromptContext(
            actor=self.given.actor,
            thread_id=self.given.thread_id,
            run_id=self.run_id,
            agent_name=self.agent_name,
            persona=persona,
            base_prompt=base,
            page_context=self.given.page_context,
        )

    async def own_prompt(self, persona: Mapping[str, Any] | None) -> str:
        """The agent's own prompt."""
        prompt = self.deps.system_prompt
        return await settled(prompt(self.prompt_context(persona))) if callable(prompt) else prompt

    async def base_prompt(self) -> str:
        """The fixed part of the system prompt: the agent's own (or the persona's), then the contributors.

        Made when it is needed first, so that a replay, which needs none, asks nobody.
        """
        if self._base is None:
            persona = self.persona
            about = {"id": persona["id"], "label": persona["label"]} if persona else None
            own = persona.get("prompt") if persona else None
            own = own if own is not None else await self.own_prompt(about)
            said = [await settled(contribute(self.prompt_context(about))) for contribute in self.deps.prompt_contributors]
            self._base = "\n\n".join(part for part in (own, *said) if part)
        return self._base

    async def system_prompt(self) -> str:
        """All of it."""
        return "\n\n".join(part for part in (await self.base_prompt(), *self._blocks) if part)

    # -- a step -----------------------------------------------------------------------------------

    async def cancelled(self) -> bool:
        """Whether somebody wants the turn to end."""
        asked = optional(self.hooks, "cancelled")
        return bool(await settled(asked())) if asked is not None else False

    async def process_input(self, messages: Sequence[Any], step: int) -> Any:
        """What the input processors make of the prompt."""
        prompt = Prompt(system=await self.system_prompt(), messages=self.messages_of(messages))
        prompt = await run_input_chain(self.deps.input_processors, prompt, self.processor_context(step))
        return {"system": prompt.system, "messages": [m.to_json() for m in prompt.messages]}

    async def call_model(self, messages: Sequence[Any], prompt: Any, step: int, spent: Spent) -> Any:
        """One call of the model; what it said, with each call it asks for stamped with its kind.

        Raises:
            BudgetExceededError: the run has used what it may.
        """
        self.deps.budget_check(*spent)
        told = prompt["messages"] if prompt is not None else messages
        offered = await self.offer()
        processors = self.deps.output_processors
        dispatch = optional(self.hooks, "dispatch_llm")
        mode = gate_mode(processors, is_dispatched=dispatch is not None)
        gate = gate_writer(mode, self.writer, processors, self.processor_context(step))
        watching = self.announcing(gate, offered, [*messages, *told], step)
        request = TurnRequest(
            system=prompt["system"] if prompt is not None else await self.system_prompt(),
            messages=[for_model(m) for m in told],
            tools=[one.told for one in offered.values()],
            sink=watching,
            model=self.given.model,
            signal=self._signal(),
            settings=self.deps.model_settings,
        )
        async with span("llm.turn", {"runId": self.run_id, "step": step}, self.deps.source.monotonic):
            asked = dispatch(step, request) if dispatch is not None else self.deps.model.run_turn(request)
            result = await self._traced_call(asked, "chat", step)
        said = self._said(result, watching)
        said["toolCalls"] = self.stamped(result.tool_calls, offered, watching)
        await self._complete(said, watching)
        return said | gate.record()

    async def _traced_call(self, asked: MaybeAwaitable[TurnResult], purpose: str, step: int) -> TurnResult:
        """What a call of the model gives, with a span of its own."""
        model = self.given.model or self.deps.model_id
        span_of = chat_span(model=model, thread_id=self.given.thread_id, step=step, purpose=purpose, parent=self.traced())
        with span_of as told, told.current():
            try:
                result = turn_result(await settled(asked), self.deps.model)
            except (Exception, asyncio.CancelledError) as exc:
                await self._book_lost(exc, purpose)
                raise
            told.set_result(result)
            return result

    async def _book_lost(self, exc: BaseException, purpose: Any) -> None:
        """A call of the model was stopped, cut off, or gave nothing readable, and it may have been paid for: what it used is
        booked as far as it is known. Outside of the checkpoint, which failed; so only where the store can do that."""
        book = optional(self.deps.store, "record_lost_usage")
        usage = counted(getattr(exc, "usage", None))
        if book is not None and (usage or isinstance(exc, asyncio.CancelledError) or getattr(exc, "code", "") in _PAID):
            await settled(book(self.usage_row({"usage": usage, "modelId": None}, purpose)))

    async def _complete(self, said: Mapping[str, Any], watching: Announcing) -> None:
        """Write the frames that the provider left out: a text nobody saw grow, and each call before its outcome."""
        if said["text"] and not watching.wrote_text:
            await watching.write(frame("text", text=said["text"]))
        for call in said["toolCalls"]:
            if call["id"] not in watching.announced:
                told = {"id": call["id"], "name": call["name"], "input": call["input"]}
                await watching.write_own(frame("tool-input-available", **told, toolKind=shown_kind(call["kind"])))
        await watching.flush()

    def _signal(self) -> AbortSignal:
        signal = getattr(self.hooks, "abort_signal", None)
        return signal if isinstance(signal, AbortSignal) else AbortSignal()

    def _said(self, result: TurnResult, watching: Announcing | None = None) -> dict[str, Any]:
        reasoning = result.reasoning if result.reasoning is not None else (watching.reasoning if watching else None)
        ms = result.reasoning_ms if result.reasoning_ms is not None else (watching.reasoning_ms if watching else None)
        ui = result.ui if result.ui is not None else (watching.ui if watching else None)
        more = {
            "usage": dict(result.usage) or None,
            "modelId": result.model_id or self.given.model or self.deps.model_id,
            "costUsd": result.cost_usd,
            "reasoning": reasoning or None,
            "reasoningMs": ms,
            "ui": [*ui] if ui else None,
            "native": result.native,
            "object": result.object,
        }
        known = {name: value for name, value in more.items() if value is not None}
        return cast("dict[str, Any]", thaw({"text": result.text, "toolCalls": [], "finish": result.finish_reason, **known}))

    async def gate(self, answer: Mapping[str, Any], step: int) -> Any:
        """Judge an answer, and let its reader see what passed."""
        processors = self.deps.output_processors
        verdict = await judge(processors, answer["text"], answer["toolCalls"], answer, self.processor_context(step))
        for line in frames_to_release(answer, verdict, processors):
            await self.writer.write(line)
        return verdict.to_json()

    async def gate_plain(self, text: str, step: int) -> Any:
        """Judge a text that nobody has read."""
        verdict = await run_output_chain(self.deps.output_processors, text, [], self.processor_context(step))
        return verdict.to_json()

    async def gate_each(self, texts: Sequence[str], step: int) -> Any:
        """Judge suggestions one by one; what is refused or emptied is left out, and so is what a processor fails on: suggestions
        never fail a turn (contracts/agents.md 1.9)."""
        kept = []
        for text in texts:
            try:
                verdict = await self.gate_plain(text, step)
            except ProcessorFailedError as exc:
                _LOG.warning("A suggestion was left out: %s", exc.message)
                continue
            if "rejection" not in verdict and verdict["text"].strip():
                kept.append(verdict["text"])
        return kept

    async def save_usage(self, answer: Mapping[str, Any], purpose: Any) -> None:
        """Book what a call of the model used."""
        await self.deps.store.record_usage(self.usage_row(answer, purpose))

    def usage_row(self, answer: Mapping[str, Any], purpose: Any) -> UsageRow:
        """What is booked for a call of the model."""
        return UsageRow(
            thread_id=self.given.thread_id,
            actor_ref=self.given.actor.id,
            model_id=answer.get("modelId") or self.given.model or self.deps.model_id or "unknown",
            purpose=purpose,
            usage=answer.get("usage") or {},
            cost_usd=answer.get("costUsd"),
            run_id=self.run_id,
        )

    async def bump_quota(self, answer: Mapping[str, Any]) -> None:
        """Count what a call used."""
        usage = answer.get("usage") or {}
        tokens = usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
        await settled(cast("QuotaStore", self.deps.quota).bump(self.given.actor, self.given.day or self.deps.day, tokens))

    async def save_assistant(
        self, answer: Mapping[str, Any], text: str, cost: float | None, follow_ups: Any, synthetic: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Store what the model said; nothing when that is blank: providers refuse a thread that holds a blank answer."""
        calls = [{name: call[name] for name in ("id", "name", "input", "kind")} for call in answer["toolCalls"]]
        calls += [{"id": one["id"], "name": one["name"], "input": one["input"], "kind": "read"} for one in synthetic]
        if not text.strip() and not calls and not any((answer.get("ui"), answer.get("reasoning"), follow_ups)):
            return None
        return await self.say(
            ChatMessage(
                role="assistant",
                content=text,
                agent_name=self.given.agent_name,
                tool_calls=calls or None,
                tool_results=[{name: one[name] for name in ("id", "name", "output")} for one in synthetic] or None,
                usage=answer.get("usage"),
                cost_usd=cost,
                model_id=answer.get("modelId"),
                reasoning=answer.get("reasoning"),
                reasoning_ms=answer.get("reasoningMs"),
                ui=answer.get("ui"),
                follow_ups=follow_ups or None,
                native=answer.get("native") if text == answer["text"] and not synthetic else None,
            )
        )

    async def step_finish(self, finish: Mapping[str, Any]) -> None:
        """Say what a step used and cost."""
        told = finish["answer"]
        known = {"usage": told.get("usage"), "reasoningMs": told.get("reasoningMs"), "model": told.get("modelId")}
        line = {"kind": "step-finish", **{name: value for name, value in known.items() if value is not None}}
        await self.writer.write(frame(**line, costUsd=finish["costUsd"]))

    # -- the passes after the final step ------------------------------------------------------------

    async def structured(self, told: Told, problem: Any, attempt: int) -> Any:
        """Ask the model for the value: the last question and the answer, no tools, nobody reading.

        Raises:
            BudgetExceededError: the run has used what it may.
        """
        messages, text, step, spent = told
        self.deps.budget_check(*spent)
        base = self.deps.output_instruction or DEFAULT_STRUCTURED_OUTPUT_INSTRUCTION
        instruction = repair_instruction(base, problem["issues"]) if problem is not None else base
        answer = {"role": "assistant", "content": text}
        asked = [m for m in messages if m["role"] == "user"][-1:]
        heard = [*messages, answer] if self.deps.output_from_transcript else [*asked, answer]
        request = TurnRequest(
            system=instruction,
            messages=[for_model(m) for m in heard],
            output_schema=output_json_schema(self.deps.output_schema),
            sink=DiscardWriter(),
            model=self.given.model,
            signal=self._signal(),
            settings=self.deps.model_settings,
        )
        async with span(
            "structured-output", {"runId": self.run_id, "step": step, "attempt": attempt}, self.deps.source.monotonic
        ):
            result = await self._traced_call(self.deps.model.run_turn(request), "structured_output", step)
        said = self._said(result)
        if not said["text"].strip() and said.get("object") is not None:
            said["text"] = dumps(said["object"])  # the gate judges text, and nothing goes past it
        return said

    async def validate(self, given: Mapping[str, Any]) -> Any:
        """The value, or what is wrong with it."""
        judged = await validate_structured(self.deps.output_schema, given["text"], given.get("object"))
        return {"value": judged.value} if judged.is_valid else {"issues": [dict(issue) for issue in judged.issues]}

    async def follow_ups(self, told: Told) -> Any:
        """What the person may want to ask next.

        Raises:
            BudgetExceededError: the run has used what it may.
        """
        messages, text, step, spent = told
        self.deps.budget_check(*spent)
        said = [{"role": "assistant", "content": text}] if text.strip() else []
        heard = [m for m in [*messages, *said] if m["role"] != "assistant" or m.get("content", "").strip() or m.get("toolCalls")]
        count = self.deps.follow_ups_count
        request = TurnRequest(
            system=_FOLLOW_UPS.format(count=count),
            messages=[for_model(m) for m in heard],
            sink=DiscardWriter(),
            model=self.given.model,
            signal=self._signal(),
            settings=self.deps.model_settings,
        )
        async with span("follow-ups", {"runId": self.run_id, "step": step, "count": count}, self.deps.source.monotonic):
            result = await self._traced_call(self.deps.model.run_turn(request), "follow_ups", step)
        return {**self._said(result), "suggestions": parse_follow_ups(result.text, count)}
