"""The work of a turn outside its tools: what each checkpoint does when it is really done, and not replayed.

Everything here gives JSON, because that is what a journal keeps. Frames, diagnostics and rows are written inside, so that a replay
writes none of them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from loomnb.agents.diagnostics import publish, span
from loomnb.agents.frames import DiscardWriter, frame
from loomnb.agents.gating import frames_to_release, gate_mode, gate_writer, judge, run_input_chain, run_output_chain
from loomnb.agents.history import drop_blank, settle_history, unanswered_calls
from loomnb.agents.spi import (
    ChatMessage,
    HistoryContext,
    HistorySelection,
    ModelPrice,
    Prompt,
    PromptContext,
    ToolCallRow,
    UsageRow,
    optional,
    settled,
)
from loomnb.agents.structured import (
    DEFAULT_STRUCTURED_OUTPUT_INSTRUCTION,
    output_json_schema,
    parse_follow_ups,
    repair_instruction,
    validate_structured,
)
from loomnb.agents.work_base import Watching, for_model, hash_of
from loomnb.agents.work_tools import ToolWork
from loomnb.jsonvalue import thaw
from loomnb.runtime import AbortSignal, TurnRequest, TurnResult

__all__ = ["TurnWork"]

_FOLLOW_UPS = (
    "Suggest what the person may want to ask next. Answer with a JSON array of {count} short questions in their language, each as "
    "they would type it, and nothing else."
)
_TITLE = 60


class TurnWork(ToolWork):
    """What the effects of a turn do."""

    _system: Mapping[str, Any]

    # -- before the first step --------------------------------------------------------------------

    async def resolve_persona(self, name: str) -> Any:
        """The persona of a name or alias, with its prompt as text; None when there is none any more."""
        for one in self.deps.personas:
            if name == one.id or name in one.aliases:
                prompt = one.system_prompt
                if callable(prompt):
                    about = {"id": one.id, "label": one.label}
                    base = await self._base_prompt(about)
                    prompt = await settled(prompt(self._prompt_context(about, base)))
                allowed = list(one.allowed_tools) if one.allowed_tools is not None else None
                self.persona = {"id": one.id, "label": one.label, "prompt": prompt, "allowedTools": allowed}
                return self.persona
        return None

    async def check_quota(self) -> Any:
        """What the quota says."""
        assert self.deps.quota is not None
        verdict = await settled(self.deps.quota.check(self.given.actor, self.given.day or self.deps.day))
        if not verdict.within_limit:
            told = {"usedTokens": verdict.used_tokens, "limitTokens": verdict.limit_tokens}
            publish("quota.exceeded", {"actorId": self.given.actor.id, **told})
        return {"withinLimit": verdict.within_limit, "usedTokens": verdict.used_tokens, "limitTokens": verdict.limit_tokens}

    async def save_user(self, persona: str | None) -> Any:
        """Store what the person said."""
        given = self.given
        message = ChatMessage(
            role="user", content=given.user_text, run_id=self.run_id, persona=persona, attachments=given.attachments or None
        )
        message_id = await self.deps.store.append_message(given.thread_id, message)
        publish("message", {**self._who(), "role": "user", "textLength": len(given.user_text)})
        return {"id": message_id, "content": given.user_text}

    async def truncate(self) -> Any:
        """Delete what stands after the last thing the person said."""
        thread = await self.deps.store.get_thread(self.given.thread_id)
        messages = list(thread.messages) if thread is not None else []
        last = max((n for n, m in enumerate(messages) if m.role == "user"), default=-1)
        if last + 1 < len(messages):
            await self.deps.store.truncate_from(self.given.thread_id, cast("str", messages[last + 1].id))
        return {"id": messages[last].id, "content": messages[last].content} if last >= 0 else {"id": None, "content": ""}

    async def load_thread(self, selected: bool) -> Any:
        """The thread as the model is told of it: every call with a result, no blank answers, and what the policy keeps."""
        policy = self.deps.history_policy
        limit = getattr(policy, "max_messages", None) if selected and not self.deps.summarizes else None
        reader = optional(self.deps.store, "load_thread_for_turn")
        if reader is not None:
            thread = await settled(reader(self.given.thread_id, message_limit=limit))
        else:
            thread = await self.deps.store.get_thread(self.given.thread_id)
        messages: Sequence[ChatMessage] = thread.messages if thread is not None else ()
        open_calls = unanswered_calls(messages)
        outcomes = (await self.store_optional("tool_call_outcomes", open_calls)) if open_calls else {}
        messages = drop_blank(settle_history(messages, outcomes or {}))
        chosen = self._select(messages) if selected else HistorySelection(keep=messages)
        return {
            "messages": [m.to_json() for m in chosen.keep],
            "dropped": [m.to_json() for m in chosen.drop],
            "title": thread.title if thread is not None else "",
            "hasAssistant": any(m.role == "assistant" for m in messages),
        }

    def _select(self, messages: Sequence[ChatMessage]) -> HistorySelection:
        policy = self.deps.history_policy
        if policy is None:
            return HistorySelection(keep=messages)
        return policy.select(messages, self._history_context())

    def _history_context(self) -> HistoryContext:
        return HistoryContext(actor=self.given.actor, thread_id=self.given.thread_id, agent_name=self.given.agent_name)

    async def select(self, loaded: Any, selected: bool) -> Any:
        """For a run whose journal has the whole thread: what the policy keeps of it."""
        if selected or self.deps.history_policy is None:
            return loaded
        chosen = self._select(self.messages_of(loaded["messages"]))
        return {**loaded, "messages": [m.to_json() for m in chosen.keep], "dropped": [m.to_json() for m in chosen.drop]}

    async def summarize(self, dropped: Sequence[Any]) -> Any:
        """What stands for the messages that were dropped."""
        summarize = optional(self.deps.history_policy, "summarize")
        messages = self.messages_of(dropped)
        if self.deps.input_processors:
            prompt = await run_input_chain(
                self.deps.input_processors, Prompt(system="", messages=messages), self.processor_context(0)
            )
            messages = list(prompt.messages)
        summary = await settled(summarize(messages, self._history_context()))
        told = {"text": summary.text, "usage": dict(summary.usage) if summary.usage else None}
        return {**told, "modelId": summary.model_id, "costUsd": summary.cost_usd}

    async def now(self) -> str:
        """The time, as the run's clock says it."""
        return self.deps.source.now().isoformat()

    async def _base_prompt(self, persona: Mapping[str, Any] | None) -> str:
        prompt = self.deps.system_prompt
        return await settled(prompt(self._prompt_context(persona))) if callable(prompt) else prompt

    def _prompt_context(self, persona: Mapping[str, Any] | None, base: str = "") -> PromptContext:
        return PromptContext(
            actor=self.given.actor,
            thread_id=self.given.thread_id,
            run_id=self.run_id,
            agent_name=self.agent_name,
            persona=persona,
            base_prompt=base,
            page_context=self.given.page_context,
        )

    async def compose(self, persona: Mapping[str, Any] | None) -> Any:
        """The system prompt's fixed part: the base (or the persona's), then the contributors."""
        self.persona = persona
        about = {"id": persona["id"], "label": persona["label"]} if persona else None
        own = persona.get("prompt") if persona else None
        parts = [own if own is not None else await self._base_prompt(about)]
        for contribute in self.deps.prompt_contributors:
            parts.append(await settled(contribute(self._prompt_context(about))) or "")
        return {"base": "\n\n".join(part for part in parts if part)}

    async def run_start(self, base: str) -> None:
        """Put the run on record."""
        given = self.given
        await self.store_optional(
            "record_run_start",
            run_id=self.run_id,
            thread_id=given.thread_id,
            actor_ref=given.actor.id,
            agent_name=given.agent_name,
            parent_run_id=given.parent_run_id,
            prompt_hash=hash_of(base),
        )
        named = {"agentName": given.agent_name} if given.agent_name else {}
        publish("run.started", {**self._who(), "actorId": given.actor.id, **named, **self._persona_named()}, trace_id=self.run_id)

    def _who(self) -> dict[str, Any]:
        return {"runId": self.run_id, "threadId": self.given.thread_id}

    def _persona_named(self) -> dict[str, Any]:
        return {"persona": self.persona["id"]} if self.persona else {}

    async def retrieve(self, query: str) -> Any:
        """Passages for what was asked."""
        assert self.deps.retriever is not None
        async with span("retrieval", {"runId": self.run_id, "queryLength": len(query), "topK": self.deps.retrieval_top_k}):
            passages = await settled(self.deps.retriever.retrieve(query, top_k=self.deps.retrieval_top_k))
        publish("retrieved", {"runId": self.run_id, "query": query, "count": len(passages)})
        return [thaw(p) for p in passages]

    async def list_prices(self) -> Any:
        """The prices of this run, once."""
        assert self.deps.pricing_store is not None
        prices = await settled(self.deps.pricing_store.list_current_prices())
        return [
            [p.model_id, p.input_price_per_1m, p.output_price_per_1m, p.cache_write_price_per_1m, p.cache_read_price_per_1m]
            for p in prices
        ]

    async def settle_prompt(
        self, system: Mapping[str, Any], stages: Mapping[str, bool], prices: Sequence[Any], persona: Mapping[str, Any] | None
    ) -> None:
        """Put the system prompt together, in its fixed order, and take the prices of this run."""
        self.persona = persona
        self.deps.prices = [ModelPrice(**dict(zip(_PRICE, row, strict=True))) for row in prices]
        blocks = [system["base"], self.memory_block(system.get("memory")), _passages_block(system.get("passages"))]
        blocks.append(self.skills_block(system.get("skills")))
        self._system = {"text": "\n\n".join(block for block in blocks if block)}

    # -- a step -----------------------------------------------------------------------------------

    async def cancelled(self) -> bool:
        """Whether somebody wants the turn to end."""
        asked = optional(self.hooks, "cancelled")
        return bool(await settled(asked())) if asked is not None else False

    async def process_input(self, messages: Sequence[Any], step: int) -> Any:
        """What the input processors make of the prompt."""
        prompt = Prompt(system=self._system["text"], messages=self.messages_of(messages))
        prompt = await run_input_chain(self.deps.input_processors, prompt, self.processor_context(step))
        return {"system": prompt.system, "messages": [m.to_json() for m in prompt.messages]}

    async def call_model(self, messages: Sequence[Any], prompt: Any, step: int) -> Any:
        """One call of the model; what it said, with each call it asks for stamped with its kind."""
        told = prompt["messages"] if prompt is not None else messages
        offered = await self.offer()
        processors = self.deps.output_processors
        gate = gate_writer(gate_mode(processors), self.writer, processors, self.processor_context(step))
        watching = Watching(gate, self.deps.source.monotonic)
        request = TurnRequest(
            system=prompt["system"] if prompt is not None else self._system["text"],
            messages=[for_model(m) for m in told],
            tools=[one.told for one in offered.values()],
            sink=watching,
            model=self.given.model,
            signal=self._signal(),
            settings=self.deps.model_settings,
        )
        async with span("llm.turn", {"runId": self.run_id, "step": step}):
            result = await self.deps.model.run_turn(request)
        said = self._said(result, watching)
        said["toolCalls"] = self.stamped(result.tool_calls, offered, told, step)
        for call in said["toolCalls"]:
            if call["id"] not in watching.announced:
                kind = "action" if call["kind"] in ("action", "ask") else "read"
                await watching.write(
                    frame("tool-input-available", id=call["id"], name=call["name"], input=call["input"], toolKind=kind)
                )
        if result.text and not watching.wrote_text:
            await watching.write(frame("text", text=result.text))
        await watching.flush()
        return said | gate.record()

    def _signal(self) -> AbortSignal:
        signal = getattr(self.hooks, "abort_signal", None)
        return signal if isinstance(signal, AbortSignal) else AbortSignal()

    def _said(self, result: TurnResult, watching: Watching | None = None) -> dict[str, Any]:
        reasoning = result.reasoning if result.reasoning is not None else (watching.reasoning if watching else None)
        ms = result.reasoning_ms if result.reasoning_ms is not None else (watching.reasoning_ms if watching else None)
        ui = result.ui if result.ui is not None else (watching.ui if watching else None)
        out: dict[str, Any] = {"text": result.text, "toolCalls": [], "finish": result.finish_reason}
        more = {
            "usage": dict(result.usage) or None,
            "modelId": result.model_id or self.given.model or self.deps.model_id,
            "costUsd": result.cost_usd,
            "reasoning": reasoning or None,
            "reasoningMs": ms,
            "ui": list(ui) if ui else None,
            "native": result.native,
            "object": result.object,
        }
        return thaw({**out, **{name: value for name, value in more.items() if value is not None}})

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
        """Judge suggestions one by one; what is refused or emptied is left out."""
        kept = []
        for text in texts:
            verdict = await self.gate_plain(text, step)
            if "rejection" not in verdict and verdict["text"].strip():
                kept.append(verdict["text"])
        return kept

    async def save_usage(self, answer: Mapping[str, Any], purpose: Any) -> None:
        """Book what a call of the model used."""
        await self.deps.store.record_usage(
            UsageRow(
                thread_id=self.given.thread_id,
                actor_ref=self.given.actor.id,
                model_id=answer.get("modelId") or self.given.model or self.deps.model_id or "unknown",
                purpose=purpose,
                usage=answer.get("usage") or {},
                cost_usd=answer.get("costUsd"),
                run_id=self.run_id,
            )
        )

    async def bump_quota(self, answer: Mapping[str, Any]) -> None:
        """Count what a call used."""
        assert self.deps.quota is not None
        usage = answer.get("usage") or {}
        tokens = usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
        await settled(self.deps.quota.bump(self.given.actor, self.given.day or self.deps.day, tokens))

    async def save_assistant(
        self, answer: Mapping[str, Any], text: str, cost: float | None, follow_ups: Any, synthetic: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Store what the model said; nothing when that is blank: providers refuse a thread that holds a blank answer."""
        calls = [{name: call[name] for name in ("id", "name", "input", "kind")} for call in answer["toolCalls"]]
        calls += [{"id": one["id"], "name": one["name"], "input": one["input"], "kind": "read"} for one in synthetic]
        if not text.strip() and not calls and not any((answer.get("ui"), answer.get("reasoning"), follow_ups)):
            return None
        message = ChatMessage(
            role="assistant",
            content=text,
            run_id=self.run_id,
            agent_name=self.given.agent_name,
            persona=self.persona["id"] if self.persona else None,
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
        message_id = await self.deps.store.append_message(self.given.thread_id, message)
        publish("message", {**self._who(), "role": "assistant", "textLength": len(text)})
        return message_id

    async def save_synthetic(self, message_id: str | None, made: Mapping[str, Any]) -> None:
        """The row and the frames of a call that no tool made."""
        row = ToolCallRow(
            id=made["id"],
            thread_id=self.given.thread_id,
            message_id=message_id,
            run_id=self.run_id,
            tool_name=made["name"],
            input=made["input"],
            output=made["output"],
            status="executed",
        )
        await self.deps.store.record_tool_call(row)
        told = {"id": made["id"], "name": made["name"], "input": made["input"], "toolKind": "read"}
        await self.frame({"kind": "tool-input-available", **told})
        await self.frame({"kind": "tool-output", "id": made["id"], "output": made["output"]})

    async def step_finish(self, finish: Mapping[str, Any]) -> None:
        """Say what a step used and cost."""
        told = finish["answer"]
        known = {"usage": told.get("usage"), "reasoningMs": told.get("reasoningMs"), "model": told.get("modelId")}
        line = {"kind": "step-finish", **{name: value for name, value in known.items() if value is not None}}
        await self.writer.write(frame(**line, costUsd=finish["costUsd"]))

    # -- the passes after the final step ------------------------------------------------------------

    async def structured(self, messages: Sequence[Any], text: str, problem: Any, step: int, attempt: int) -> Any:
        """Ask the model for the value: the last question and the answer, no tools, nobody reading."""
        base = self.deps.output_instruction or DEFAULT_STRUCTURED_OUTPUT_INSTRUCTION
        instruction = repair_instruction(base, problem["issues"]) if problem is not None else base
        answer = {"role": "assistant", "content": text}
        asked = [m for m in messages if m["role"] == "user"][-1:]
        told = [*messages, answer] if self.deps.output_from_transcript else [*asked, answer]
        request = TurnRequest(
            system=instruction,
            messages=[for_model(m) for m in told],
            output_schema=output_json_schema(self.deps.output_schema),
            sink=DiscardWriter(),
            model=self.given.model,
            signal=self._signal(),
            settings=self.deps.model_settings,
        )
        async with span("structured-output", {"runId": self.run_id, "step": step, "attempt": attempt}):
            result = await self.deps.model.run_turn(request)
        return self._said(result)

    async def validate(self, given: Mapping[str, Any]) -> Any:
        """The value, or what is wrong with it."""
        judged = await validate_structured(self.deps.output_schema, given["text"], given.get("object"))
        return {"value": judged.value} if judged.is_valid else {"issues": [dict(issue) for issue in judged.issues]}

    async def follow_ups(self, messages: Sequence[Any], text: str, step: int) -> Any:
        """What the person may want to ask next."""
        said = [{"role": "assistant", "content": text}] if text.strip() else []
        told = [m for m in [*messages, *said] if m["role"] != "assistant" or m.get("content", "").strip() or m.get("toolCalls")]
        count = self.deps.follow_ups_count
        request = TurnRequest(
            system=_FOLLOW_UPS.format(count=count),
            messages=[for_model(m) for m in told],
            sink=DiscardWriter(),
            model=self.given.model,
            signal=self._signal(),
        )
        async with span("follow-ups", {"runId": self.run_id, "step": step, "count": count}):
            result = await self.deps.model.run_turn(request)
        return {**self._said(result), "suggestions": parse_follow_ups(result.text, count)}

    # -- the end ------------------------------------------------------------------------------------

    async def save_title(self, text: str) -> str:
        """Name the thread after what was asked first."""
        words = " ".join(text.split())
        title = words if len(words) <= _TITLE else f"{words[: _TITLE - 3]}..."
        title = title or "New chat"
        await self.deps.store.set_title(self.given.thread_id, title)
        await self.frame({"kind": "title", "title": title})
        return title

    async def deliver(self, text: str) -> bool:
        """Post a detached answer in the thread that asked for it, unless that is gone or the answer is blank."""
        to = self.given.deliver_to
        assert to is not None
        thread = await self.deps.store.get_thread(to["threadId"])
        if thread is None or not text.strip():
            return False
        message = ChatMessage(role="assistant", content=text, agent_name=self.given.agent_name, run_id=self.run_id)
        await self.deps.store.append_message(to["threadId"], message)
        output = {"detached": True, "status": "delivered", "agent": self.given.agent_name, "runId": self.run_id, "text": text}
        await self.deps.store.update_tool_call(to["toolCallId"], {"output": output})
        return True

    async def run_end(self, started: str, steps: int, usage: Mapping[str, int]) -> None:
        """Put on record that the run completed, and how long it took."""
        taken = self.deps.source.now() - datetime.fromisoformat(started)
        await self.store_optional(
            "record_run_end", self.run_id, status="completed", duration_ms=round(taken.total_seconds() * 1000)
        )
        tokens = {"inputTokens": usage.get("inputTokens", 0), "outputTokens": usage.get("outputTokens", 0)}
        publish("run.finished", {**self._who(), "steps": steps, **tokens}, trace_id=self.run_id)


_PRICE = ("model_id", "input_price_per_1m", "output_price_per_1m", "cache_write_price_per_1m", "cache_read_price_per_1m")


def _passages_block(passages: Any) -> str:
    if not passages:
        return ""
    lines = "\n\n".join(f"[{n}] {p.get('text', '')}" for n, p in enumerate(passages, 1))
    return f"# What was found about this\n\n{lines}"
