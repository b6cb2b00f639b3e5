"""The work of a turn's tool calls: which tools are offered, how a call is claimed, run and put on record."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from loomnb.agents.amounts import is_amount
from loomnb.agents.control_flow import is_control_flow_signal, is_replay_integrity_error
from loomnb.agents.delegation import Delegation, is_kernels_end, is_receipt
from loomnb.agents.diagnostics import publish, span
from loomnb.agents.elicitation import ASK_TOOL, ask_definition, check_ask
from loomnb.agents.failures import text_of
from loomnb.agents.history import call_outcomes
from loomnb.agents.intercepting import through_interceptors
from loomnb.agents.memories import REMEMBER_TOOL, memories_of, memory_block, remember_definition
from loomnb.agents.memories import told_resolved as memory_resolved
from loomnb.agents.retrying import TransientRetry, invoke_with_transient_retry
from loomnb.agents.skills import SKILL_TOOL, skill_definition, skills_block, skills_of
from loomnb.agents.skills import told_resolved as skills_resolved
from loomnb.agents.spi import ToolContext, ToolKind, ToolSpec, optional, settled
from loomnb.agents.tool_errors import (
    ToolForbiddenError,
    ToolInputInvalidError,
    ToolNotFoundError,
    ToolPreflightDeniedError,
    ToolTimeoutError,
)
from loomnb.agents.tracing import tool_span
from loomnb.agents.ui_collector import UiCollector
from loomnb.agents.words import shortened
from loomnb.agents.work_base import Announcing, is_marked, jsonable, pushed, shown_kind
from loomnb.agents.work_records import RecordWork
from loomnb.errors import LoomError
from loomnb.jsonvalue import thaw
from loomnb.runtime import ModelTool, SinkWriter, ToolRequest

__all__ = ["Offered", "ToolWork"]

_TERMINAL_KINDS = ("read", "action")
_OWN_KINDS = ("skill", "memory")
_LEFT_BEHIND: set[asyncio.Future[Any]] = set()
"""Tools that took too long and are still at work: an event loop alone would let go of them."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool as the model was told of it, and what kind it is here."""

    told: ModelTool
    kind: ToolKind


class ToolWork(RecordWork):
    """What the effects of tool calls do."""

    _catalog: Any = None
    """The skills that this run was offered."""

    # -- offering ---------------------------------------------------------------------------------

    async def offer(self) -> dict[str, Offered]:
        """The tools of this turn by name: those of the registry that may be used here, and the loop's own."""
        deps = self.deps
        told = await deps.registry.definitions_for(self.given.actor, deps.roles_policy, self.allow_list(), self.scope())
        out = {tool.name: Offered(tool, told.kind_of(tool.name)) for tool in told}
        if deps.ask:
            out[ASK_TOOL] = Offered(ask_definition(), "ask")
        if deps.skills is not None and (self._catalog or {}).get("skills"):
            out[SKILL_TOOL] = Offered(skill_definition(), "skill")
        memories = memories_of(deps.memory)
        if memories is not None and memories.can_write:
            out[REMEMBER_TOOL] = Offered(remember_definition(memories.max_fact_chars), "memory")
        return out

    def announcing(
        self, gate: SinkWriter, offered: Mapping[str, Offered], messages: Sequence[Mapping[str, Any]], step: int
    ) -> Announcing:
        """What a provider writes its turn to: it knows what was offered, and which ids of calls the thread has already.

        Some servers count ids from nought in each answer; rows, frames and results are matched by them.
        """
        taken = {call["id"] for message in messages for call in (message.get("toolCalls") or ())}
        kinds = {name: one.kind for name, one in offered.items()}
        return Announcing(gate, self.deps.source.monotonic, kinds, taken, lambda n: f"call-{self.run_id}-{step}-{n}")

    def stamped(self, calls: Sequence[ToolRequest], offered: Mapping[str, Offered], watching: Announcing) -> list[dict[str, Any]]:
        """The calls the model asks for, each with its kind: from what was offered here, whoever replays this."""
        return [
            {
                "id": watching.id_of(call.id),
                "name": call.name,
                "input": thaw(call.input),
                "kind": self._kind_of(call.name, offered),
            }
            for call in calls
        ]

    def _kind_of(self, name: str, offered: Mapping[str, Offered]) -> ToolKind:
        """What a call is: as it was offered. An agent that was not is told of as one, so that the model learns why."""
        if name in offered:
            return offered[name].kind
        spec = self.deps.registry.spec(name)
        return "agent" if spec is not None and spec.kind == "agent" else "read"

    # -- claiming ---------------------------------------------------------------------------------

    async def claim(self, call: Mapping[str, Any], message_id: str | None) -> Any:
        """Settle what becomes of a call, and put it on record; everything later reads this and not the registry.

        Returns:
            `{"kind", "targetAgent"?, "detached"?, "terminal"?, "approval"?, "request"?, "preflight"?}`.
        """
        kind = call["kind"]
        settled_now, row_more = await self._claimed(call)
        claim = {"kind": kind, **settled_now}
        spec = self.deps.registry.spec(call["name"])
        if spec is not None and spec.terminal and kind in _TERMINAL_KINDS:
            claim["terminal"] = True
        is_asked = claim.get("approval", {}).get("mode") == "ask"
        status = "pending_approval" if is_asked or "request" in claim else "auto_executed"
        row = self._row(call, message_id, tool_type=shown_kind(kind), status=status, **row_more)
        await self.deps.store.record_tool_call(row)
        if is_asked:
            shown = {"approver": row.approver, "expiresAt": row.expires_at, "confirmation": row.confirmation}
            await self.frame({"kind": "approval-requested", "id": call["id"], **shown})
        return claim

    async def _claimed(self, call: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is settled of a call beside its kind; for the claim, and for the row."""
        if call.get("instead"):
            text = f"A person was asked, because this is the same call again, and says: {call['instead']}"
            return {"preflight": {"status": "failed", "error": text}}, {}
        match call["kind"]:
            case "agent":
                return self._claim_agent(call), {}
            case "ask":
                return self._claim_ask(call), {}
            case "action":
                return await self._claim_action(call)
            case _:
                return {}, {}

    def _claim_agent(self, call: Mapping[str, Any]) -> dict[str, Any]:
        spec = self.deps.registry.spec(call["name"])
        if spec is None:
            return {}
        return {"targetAgent": spec.target_agent} | ({"detached": True} if spec.detached else {})

    def _claim_ask(self, call: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {"request": check_ask(call)}
        except ToolInputInvalidError as exc:
            return {"preflight": {"status": "failed", "error": _message(exc)}}

    async def _claim_action(self, call: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its preflight, and what approval it needs; for the claim, and for the row."""
        try:
            collector = await self._collector(call)
            ctx = self.context(call, collector)
            before = await self.deps.registry.prepare(
                call["name"], thaw(call["input"]), ctx, self.deps.roles_policy, allowed_tools=self.allow_list()
            )
            confirmation = jsonable(dict(before.confirmation), "confirmation") if before.confirmation else None
            if before.status == "completed":
                await self.deps.registry.present_result(call["name"], before.output, ctx)
                result = self._result(before.output, collector)
                return {"preflight": {"status": "completed", "result": result}}, {}
        except Exception as exc:  # noqa: BLE001  # whatever a tool's own code raises is told to the model
            self._reraise(exc)
            return {"preflight": {"status": "failed", "error": _message(exc)}}, {}
        if before.status == "denied":
            return {"preflight": {"status": "denied", "reason": before.reason}}, {}
        approval, shown = await self._approval(call)
        if confirmation is not None and approval["mode"] == "ask":
            shown["confirmation"] = confirmation
        return {"approval": approval}, shown

    async def _approval(self, call: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        given, deps = self.given, self.deps
        spec = deps.registry.spec(call["name"]) or ToolSpec(name=call["name"], kind="action")
        required = await settled(
            deps.approval_policy.requirement_for(
                spec, given.actor, thread_id=given.thread_id, run_id=self.run_id, agent_name=given.agent_name
            )
        )
        if not required.required:
            return {"mode": "auto"}, {}
        if call["name"] in ((await self.store_optional("remembered_approvals", given.thread_id)) or ()):
            return {"mode": "remembered", "approver": required.approver}, {"approver": required.approver}
        approval: dict[str, Any] = {"mode": "ask", "approver": required.approver}
        ttl = required.ttl_ms
        if ttl is not None and is_amount(ttl) and ttl > 0:
            with contextlib.suppress(OverflowError):  # later than any date there is: for ever
                approval["expiresAt"] = (deps.source.now() + timedelta(milliseconds=max(1, int(ttl)))).isoformat()
                approval["ttlMs"] = max(1, int(ttl))
        return approval, {"approver": required.approver, "expires_at": approval.get("expiresAt")}

    # -- running ----------------------------------------------------------------------------------

    def context(self, call: Mapping[str, Any], collector: UiCollector) -> ToolContext:
        """What a tool knows of a call."""
        given = self.given
        return ToolContext(
            actor=given.actor,
            thread_id=given.thread_id,
            run_id=self.run_id,
            request_id=self.run_id,
            agent_name=given.agent_name,
            persona=self.persona["id"] if self.persona else None,
            page_context=given.page_context,
            ui_capabilities=given.ui_capabilities,
            host=self.deps.host,
            emit_ui=collector.emit,
            tool_call_id=call["id"],
            idempotency_key=f"{self.run_id}:{call['id']}",
            abort_signal=getattr(self.hooks, "abort_signal", None),
            on_presentation_error=getattr(self.hooks, "on_presentation_error", None),
        )

    async def _collector(self, call: Mapping[str, Any]) -> UiCollector:
        """What collects the components that a call shows: judged by the catalog, drawn as far as the client can."""
        resolve = self.deps.resolve_ui_catalog
        catalog = await settled(resolve()) if resolve is not None else None
        return UiCollector(call["id"], catalog=catalog, capabilities=self.given.ui_capabilities)

    async def run_tool(self, call: Mapping[str, Any], claim: Mapping[str, Any], edited: Any) -> Any:
        """Run a tool. What goes wrong with it is a result, which the model may act on; only the runner's signals pass through."""
        about = {"runId": self.run_id, "toolCallId": call["id"], "toolName": call["name"]}
        started = self.deps.source.monotonic()
        try:
            async with span("tool.execution", {**about, "toolType": shown_kind(claim["kind"])}, self.deps.source.monotonic):
                with (
                    tool_span(name=call["name"], call_id=call["id"], kind=claim["kind"], parent=self.traced()) as told,
                    told.current(),
                ):
                    result = await self._ran(call, claim, edited)
        except ToolPreflightDeniedError as exc:
            return pushed(error=exc.reason, denied=True)
        except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001  # as above
            self._reraise(exc)
            self.took[call["id"]] = (self.deps.source.monotonic() - started) * 1000
            self.tell_call(call, claim, "failed", started)
            return pushed(error=_message(exc))
        self.took[call["id"]] = (self.deps.source.monotonic() - started) * 1000
        self.tell_call(call, claim, "executed", started)
        return result

    async def _ran(self, call: Mapping[str, Any], claim: Mapping[str, Any], edited: Any) -> Any:
        name, given = call["name"], edited if edited is not None else call["input"]
        if claim["kind"] in _OWN_KINDS:
            return jsonable(await self._within(name, self._passed(call, lambda: self._serve_own(claim["kind"], call))), "output")
        spec = self.deps.registry.spec(name)
        if spec is not None and spec.kind == "action" and claim["kind"] != "action":
            # It was not offered as an action, so nobody was asked: that it can be had by now does not make it approved.
            ctx = self.context(call, UiCollector(call["id"]))
            await self.deps.registry.check_admission(name, ctx, self.deps.roles_policy, allowed_tools=self.allow_list())
            raise ToolForbiddenError(name)
        dispatch = optional(self.hooks, "dispatch_tool")
        if dispatch is not None:
            return jsonable(await self._within(name, settled(dispatch({**call, "input": given}))), "output")
        collector = await self._collector(call)
        ctx = self.context(call, collector)

        async def once() -> Any:
            collector.reset()
            # A copy for every try: what a tool does to its input must not change what it is told to have been called with.
            return await self.deps.registry.invoke(
                name, thaw(given), ctx, self.deps.roles_policy, allowed_tools=self.allow_list()
            )

        return self._result(await self._within(name, self._retried(call, once)), collector)

    async def _passed(self, call: Mapping[str, Any], work: Any) -> Any:
        """The work of a call that the registry does not run, inside of the interceptors."""
        spec = self.deps.registry.spec(call["name"]) or ToolSpec(name=call["name"])
        ctx = self.context(call, UiCollector(call["id"]))
        return await through_interceptors(spec, thaw(call["input"]), ctx, work)

    def _retried(self, call: Mapping[str, Any], once: Any) -> Any:
        retry = self.deps.tool_transient_retry
        if not isinstance(retry, TransientRetry):
            return once()

        def on_retry(attempt: int, exc: BaseException) -> None:
            publish(
                "tool.retry", {"toolName": call["name"], "toolCallId": call["id"], "attempt": attempt, "message": text_of(exc)}
            )

        return invoke_with_transient_retry(once, retry, on_retry=on_retry, is_control_flow=self._is_signal)

    async def _within(self, name: str, work: Any) -> Any:
        """Its result within its time. A tool that takes longer is left running, as it cannot be stopped from outside."""
        ms = self.deps.tool_timeouts.get(name, self.deps.tool_timeout_ms)
        if ms is None:
            return await work
        task = asyncio.ensure_future(work)
        task.add_done_callback(_is_over)
        try:
            done, _ = await asyncio.wait({task}, timeout=ms / 1000)
        except BaseException:
            task.cancel()
            raise
        if not done:
            _LEFT_BEHIND.add(task)
            raise ToolTimeoutError(name, ms)
        return task.result()

    def _result(self, output: Any, collector: UiCollector) -> Any:
        """What is journaled of a success: its bare output, or with what it pushed.

        Raises:
            NotJson: the output is something JSON cannot hold.
        """
        plain = jsonable(output, "output")
        shown = {"ui": collector.collected, "text": collector.text}
        shown = {name: value for name, value in shown.items() if value}
        return pushed(output=plain, **shown) if shown or is_marked(plain) else plain

    def _is_signal(self, exc: BaseException) -> bool:
        extra = optional(self.hooks, "is_control_flow_error")
        return is_control_flow_signal(exc) or is_replay_integrity_error(exc) or bool(extra is not None and extra(exc))

    def _reraise(self, exc: BaseException) -> None:
        """Let the runner's own signals through, and a cancel of this very task; every other failure is the tool's."""
        task = asyncio.current_task()
        is_mine = isinstance(exc, asyncio.CancelledError) and task is not None and task.cancelling() > 0
        if is_mine or self._is_signal(exc):
            raise exc

    # -- other agents, skills and memory ------------------------------------------------------------

    async def run_agent(self, call: Mapping[str, Any], claim: Mapping[str, Any], edited: Any) -> Any:
        """Hand a task to another agent: its answer, a receipt, or why it was not asked. A refusal is a text, not a failure."""
        deps, name = self.deps, call["name"]
        offered = await deps.registry.definitions_for(self.given.actor, deps.roles_policy, [name], self.scope())
        delegation = Delegation(
            given=self.given,
            hooks=self.hooks,
            call=call,
            target=claim.get("targetAgent"),
            detached=bool(claim.get("detached")),
            persona=self.persona,
            allowed=deps.tool_allow_list,
            is_offered=bool(offered),
            max_depth=deps.max_delegation_depth,
            max_appearances=deps.max_agent_appearances,
        )
        refusal = delegation.refusal()
        if refusal is not None:
            return {"text": refusal}
        publish("delegated", delegation.facts, self.run_id)
        started = deps.source.monotonic()
        try:
            answer = await self._passed(call, delegation.ask)
            answer = answer if isinstance(answer, dict) else {"text": str(answer)}  # an interceptor may say what it likes
        except (Exception, asyncio.CancelledError) as exc:  # what goes wrong with it is told to the model
            self._reraise(exc)
            if is_kernels_end(exc):
                raise
            answer = {"text": delegation.failed(exc)}
        if is_receipt(answer):
            await self._receipted(call["id"], answer)
        self.took[call["id"]] = (deps.source.monotonic() - started) * 1000
        self.tell_call(call, claim, "executed", started)
        return answer

    async def _receipted(self, call_id: str, receipt: Mapping[str, Any]) -> None:
        """Put a receipt on the row of its call at once, for the answer may come before the turn's next checkpoint."""
        known = await call_outcomes(self.deps.store, self.given.thread_id, self.run_id, [call_id])
        if not is_receipt((known.get(call_id) or {}).get("output")):
            await self.change_call(call_id, {"output": dict(receipt)})

    def memory_block(self, digest: Any) -> str:
        """What the system prompt says of the run's memories; nothing without one."""
        return memory_block(digest)

    def skills_block(self, catalog: Any) -> str:
        """What the system prompt says of the run's skills; nothing without one. From here on they can be read."""
        self._catalog = catalog
        return skills_block(catalog)

    async def memory_digest(self, query: str) -> Any:
        """The memories of this run."""
        memories = memories_of(self.deps.memory)
        if memories is None:  # the run began where there were some
            return {}
        digest = await memories.digest(self.given.actor, query)
        publish("memory.resolved", memory_resolved(self.run_id, digest), self.run_id)
        return digest

    async def skills_catalog(self) -> Any:
        """The skills of this run."""
        skills = skills_of(self.deps.skills)
        if skills is None:
            return {}
        catalog = await skills.catalog(self.given.actor)
        publish("skills.resolved", skills_resolved(self.run_id, catalog), self.run_id)
        return catalog

    async def _serve_own(self, kind: str, call: Mapping[str, Any]) -> Any:
        """Do what a tool of the loop's own does."""
        skills, memories = skills_of(self.deps.skills), memories_of(self.deps.memory)
        if kind == "skill" and skills is not None:
            return await skills.serve(self._catalog, call["input"])
        if kind == "memory" and memories is not None:
            kept = await memories.remember(self.given.actor, call["input"], self.deps.source.now().isoformat())
            told = {"runId": self.run_id, "scope": kept["scope"], "chars": len(kept["fact"])}
            publish("memory.written", told, self.run_id)
            return kept
        raise ToolNotFoundError(call["name"])


def _message(exc: BaseException) -> str:
    if isinstance(exc, LoomError):
        return shortened(str(exc))
    text = text_of(exc)  # an exception of a tool may have a broken __str__
    return f"{type(exc).__name__}: {text}" if text and text != type(exc).__name__ else type(exc).__name__


def _is_over(task: asyncio.Future[Any]) -> None:
    _LEFT_BEHIND.discard(task)
    if not task.cancelled():
        task.exception()  # of a tool that was left running nobody asks any more
