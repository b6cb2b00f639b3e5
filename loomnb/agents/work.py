"""The work of a turn before its first step and at its end: what each checkpoint does when it is really done, and not replayed.

Everything here gives JSON, because that is what a journal keeps. Frames, diagnostics and rows are written inside, so that a
replay writes none of them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from loomnb.agents.diagnostics import publish, span
from loomnb.agents.elicitation import is_unanswered_intake
from loomnb.agents.gating import run_input_chain
from loomnb.agents.history import SummarizingHistory, WindowHistory, drop_blank, outcomes_of, settle_history
from loomnb.agents.services import QuotaReport, QuotaStore
from loomnb.agents.spi import ChatMessage, HistoryContext, HistorySelection, ModelPrice, Prompt, optional, settled
from loomnb.agents.work_base import hash_of, jsonable
from loomnb.agents.work_model import ModelWork
from loomnb.errors import InvalidRequest

__all__ = ["UNNAMED", "TurnWork"]

UNNAMED = ("", "New chat")
"""The titles of threads that nobody named."""
_TITLE = 60


class TurnWork(ModelWork):
    """What the effects of a turn do."""

    # -- before the first step --------------------------------------------------------------------

    async def resolve_persona(self, name: str) -> Any:
        """The persona of a name or alias, with its prompt as text; None when there is none any more."""
        for one in self.deps.personas:
            if name == one.id or name in one.aliases:
                prompt = one.system_prompt
                if callable(prompt):
                    about = {"id": one.id, "label": one.label}
                    base = await self.own_prompt(about)
                    prompt = await settled(prompt(self.prompt_context(about, base)))
                allowed = list(one.allowed_tools) if one.allowed_tools is not None else None
                return {"id": one.id, "label": one.label, "prompt": prompt, "allowedTools": allowed}
        return None

    async def check_quota(self) -> Any:
        """What the quota says."""
        quota, actor = self.deps.quota, self.given.actor
        report = optional(quota, "report")
        if report is not None:  # a QuotaProvider: windows of days and months, in tokens and USD
            return self._reported(await settled(report(actor=actor)))
        verdict = await settled(cast("QuotaStore", quota).check(actor, self.given.day or self.deps.day))
        if not verdict.within_limit:
            told = {"usedTokens": verdict.used_tokens, "limitTokens": verdict.limit_tokens}
            publish("quota.exceeded", {"actorId": self.given.actor.id, **told}, self.run_id)
        return {"withinLimit": verdict.within_limit, "usedTokens": verdict.used_tokens, "limitTokens": verdict.limit_tokens}

    def _reported(self, report: QuotaReport) -> dict[str, Any]:
        if report.blocked is None:
            return {"withinLimit": True}
        period = report.blocked["period"]
        window = next((one for one in report.windows if one.period == period), None)
        numbers = (
            {}
            if window is None
            else {
                "usedTokens": window.used_tokens,
                "limitTokens": window.limit_tokens,
                "usedUsd": window.used_usd,
                "limitUsd": window.limit_usd,
            }
        )
        told = {**report.blocked, **{name: value for name, value in numbers.items() if value is not None}}
        publish("quota.exceeded", {"actorId": self.given.actor.id, **told}, self.run_id)
        return {"withinLimit": False, **told, **({"resetsAt": window.resets_at} if window is not None else {})}

    async def save_user(self) -> Any:
        """Store what the person said."""
        given = self.given
        message_id = await self.say(ChatMessage(role="user", content=given.user_text, attachments=given.attachments or None))
        return {"id": message_id, "content": given.user_text}

    async def truncate(self) -> Any:
        """Delete what stands after the last thing the person said."""
        thread = await self.deps.store.get_thread(self.given.thread_id)
        messages = list(thread.messages) if thread is not None else []
        last = max((n for n, m in enumerate(messages) if m.role == "user"), default=-1)
        if last < 0:
            raise InvalidRequest(
                f"Nothing was asked yet in the thread {self.given.thread_id!r}, so there is no answer to give anew.",
                advice="Send a message.",
            )
        if last + 1 < len(messages):
            await self.deps.store.truncate_from(self.given.thread_id, cast("str", messages[last + 1].id))
        return {"id": messages[last].id, "content": messages[last].content}

    async def load_thread(self, selected: bool) -> Any:
        """The thread as the model is told of it: every call with a result, no blank answers, and what the policy keeps.

        `isPiece`: it is one piece of what is stored, as it is stored; a policy of somebody's own may leave out what it likes.
        """
        policy = self.deps.history_policy
        limit = getattr(policy, "max_messages", None) if selected and not self.deps.summarizes else None
        if self.deps.intake is not None:
            limit = None  # whether it is asked depends on all that was said
        reader = optional(self.deps.store, "load_thread_for_turn")
        if reader is not None:
            thread = await settled(reader(self.given.thread_id, message_limit=limit))
        else:
            thread = await self.deps.store.get_thread(self.given.thread_id)
        messages: Sequence[ChatMessage] = thread.messages if thread is not None else ()
        outcomes = await outcomes_of(self.deps.store, self.given.thread_id, messages)
        messages = drop_blank(settle_history(messages, outcomes))
        chosen = self._select(messages) if selected else HistorySelection(keep=messages)
        return {
            "messages": [m.to_json() for m in chosen.keep],
            # Nobody reads what is left out but who summarizes it: a long thread must not fill the journal of every turn.
            "dropped": [m.to_json() for m in chosen.drop] if self.deps.summarizes else [],
            "title": thread.title if thread is not None else "",
            "hasAssistant": any(m.role == "assistant" and not is_unanswered_intake(m) for m in messages),
            "isPiece": self.deps.history_policy is None
            or isinstance(self.deps.history_policy, (WindowHistory, SummarizingHistory)),
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

    async def run_start(self) -> None:
        """Put the run on record."""
        given = self.given
        await self.store_optional(
            "record_run_start",
            run_id=self.run_id,
            thread_id=given.thread_id,
            actor_ref=given.actor.id,
            agent_name=given.agent_name,
            parent_run_id=given.parent_run_id,
            prompt_hash=hash_of(await self.base_prompt()),
        )
        named = {"agentName": given.agent_name} if given.agent_name else {}
        publish("run.started", {**self.who(), "actorId": given.actor.id, **named, **self._persona_named()}, trace_id=self.run_id)

    def _persona_named(self) -> dict[str, Any]:
        return {"persona": self.persona["id"]} if self.persona else {}

    async def retrieve(self, query: str) -> Any:
        """Passages for what was asked."""
        assert self.deps.retriever is not None
        async with span(
            "retrieval",
            {"runId": self.run_id, "queryLength": len(query), "topK": self.deps.retrieval_top_k},
            self.deps.source.monotonic,
        ):
            passages = await settled(self.deps.retriever.retrieve(query, top_k=self.deps.retrieval_top_k))
        publish("retrieved", {"runId": self.run_id, "query": query, "count": len(passages)}, self.run_id)
        return jsonable([{"text": one} if isinstance(one, str) else one for one in passages], "passages")

    async def list_prices(self) -> Any:
        """The prices of this run, once."""
        assert self.deps.pricing_store is not None
        prices = await settled(self.deps.pricing_store.list_current_prices())
        return [
            [p.model_id, p.input_price_per_1m, p.output_price_per_1m, p.cache_write_price_per_1m, p.cache_read_price_per_1m]
            for p in prices
        ]

    async def settle_prompt(self, found: Mapping[str, Any], prices: Sequence[Any]) -> None:
        """Take what was found for the system prompt, in its fixed order, and the prices of this run."""
        self.deps.prices = [ModelPrice(**dict(zip(_PRICE, row, strict=True))) for row in prices]
        blocks = (self.memory_block(found.get("memory")), _passages_block(found.get("passages")))
        self._blocks = [block for block in (*blocks, self.skills_block(found.get("skills"))) if block]

    # -- the end ------------------------------------------------------------------------------------

    async def save_title(self, text: str) -> str:
        """Name the thread after what was asked first, unless somebody named it meanwhile."""
        thread = await self.deps.store.get_thread(self.given.thread_id)
        if thread is not None and thread.title not in UNNAMED:
            return thread.title
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
        # Of the run that asked: another conversation may have a call of the same id by now.
        await self.change_call(to["toolCallId"], {"output": output}, thread_id=to["threadId"], run_id=self.given.parent_run_id)
        return True

    async def run_end(self, started: str, steps: int, usage: Mapping[str, int]) -> None:
        """Put on record that the run completed, and how long it took."""
        taken = self.deps.source.now() - datetime.fromisoformat(started)
        await self.store_optional(
            "record_run_end", self.run_id, status="completed", duration_ms=round(taken.total_seconds() * 1000)
        )
        tokens = {"inputTokens": usage.get("inputTokens", 0), "outputTokens": usage.get("outputTokens", 0)}
        publish("run.finished", {**self.who(), "steps": steps, **tokens}, self.run_id)


_PRICE = ("model_id", "input_price_per_1m", "output_price_per_1m", "cache_write_price_per_1m", "cache_read_price_per_1m")


def _passages_block(passages: Any) -> str:
    if not passages:
        return ""
    lines = "\n\n".join(f"[{n}] {p.get('text', '')}" for n, p in enumerate(passages, 1))
    return f"# What was found about this\n\n{lines}"
