"""The work of a turn's tool calls: which tools are offered, how a call is claimed, run and put on record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from loomnb.agents.control_flow import is_control_flow_signal, is_replay_integrity_error
from loomnb.agents.diagnostics import publish, span
from loomnb.agents.elicitation import ASK_TOOL, ask_definition, check_ask, intake_message, intake_request, settle_answers
from loomnb.agents.frames import merged_ui
from loomnb.agents.results import NO_REASON
from loomnb.agents.retrying import invoke_with_transient_retry
from loomnb.agents.spi import AnswersReply, ToolCallRow, ToolContext, ToolKind, ToolSpec, optional, settled
from loomnb.agents.tool_errors import ToolInputInvalidError, ToolPreflightDeniedError, ToolTimeoutError
from loomnb.agents.ui_collector import UiCollector
from loomnb.agents.work_base import WorkBase, jsonable, pushed
from loomnb.errors import LoomError
from loomnb.jsonvalue import thaw
from loomnb.runtime import ModelTool, ToolRequest

__all__ = ["Offered", "ToolWork"]

_TERMINAL_KINDS = ("read", "action")


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool as the model was told of it, and what kind it is here."""

    told: ModelTool
    kind: ToolKind


class ToolWork(WorkBase):
    """What the effects of tool calls do."""

    # -- offering ---------------------------------------------------------------------------------

    async def offer(self) -> dict[str, Offered]:
        """The tools of this turn by name: those of the registry that may be used here, and the loop's own."""
        deps = self.deps
        told = await deps.registry.definitions_for(self.given.actor, deps.roles_policy, self.allow_list(), self.scope())
        out = {tool.name: Offered(tool, told.kind_of(tool.name)) for tool in told}
        if deps.ask:
            out[ASK_TOOL] = Offered(ask_definition(), "ask")
        return out

    def stamped(
        self, calls: Sequence[ToolRequest], offered: Mapping[str, Offered], told: Sequence[Mapping[str, Any]], step: int
    ) -> list[dict[str, Any]]:
        """The calls the model asks for, each with its kind: from what was offered here, whoever replays this.

        An id that the thread has already (some servers count from nought in each answer) becomes one of this step's own: rows,
        frames and results are matched by it.
        """
        used = {call["id"] for message in told for call in (message.get("toolCalls") or ())}
        out: list[dict[str, Any]] = []
        for n, call in enumerate(calls):
            call_id = call.id or f"call-{step}-{n}"
            if call_id in used:
                call_id = f"{call_id}-{self.run_id}-{step}-{n}"
            used.add(call_id)
            kind = offered[call.name].kind if call.name in offered else "read"
            out.append({"id": call_id, "name": call.name, "input": thaw(call.input), "kind": kind})
        return out

    # -- claiming ---------------------------------------------------------------------------------

    async def claim(self, call: Mapping[str, Any], message_id: str | None) -> Any:
        """Settle what becomes of a call, and put it on record; everything later reads this and not the registry."""
        kind = call["kind"]
        spec = self.deps.registry.spec(call["name"])
        claim: dict[str, Any] = {"kind": kind}
        status: Any = "auto_executed"
        row_more: dict[str, Any] = {}
        if call.get("instead"):
            text = f"A person was asked, because this is the same call again, and says: {call['instead']}"
            claim["preflight"] = {"status": "failed", "error": text}
        elif kind == "agent" and spec is not None:
            claim["targetAgent"] = spec.target_agent
            if spec.detached:
                claim["detached"] = True
        elif kind == "ask":
            claim |= self._claim_ask(call)
            status = "auto_executed" if "preflight" in claim else "pending_approval"
        elif kind == "action":
            more, row_more = await self._claim_action(call)
            claim |= more
            status = "pending_approval" if more.get("approval", {}).get("mode") == "ask" else status
        if spec is not None and spec.terminal and kind in _TERMINAL_KINDS:
            claim["terminal"] = True
        await self.deps.store.record_tool_call(
            ToolCallRow(
                id=call["id"],
                thread_id=self.given.thread_id,
                message_id=message_id,
                run_id=self.run_id,
                tool_name=call["name"],
                tool_type="action" if kind in ("action", "ask") else "read",
                input=call["input"],
                status=status,
                **row_more,
            )
        )
        if status == "pending_approval" and kind == "action":
            approval = claim["approval"]
            shown = {"approver": approval["approver"], "expiresAt": approval.get("expiresAt")}
            await self.frame(
                {"kind": "approval-requested", "id": call["id"], **shown, "confirmation": row_more.get("confirmation")}
            )
        return claim

    def _claim_ask(self, call: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {"request": check_ask(call)}
        except ToolInputInvalidError as exc:
            return {"preflight": {"status": "failed", "error": exc.message}}

    async def _claim_action(self, call: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        collector = UiCollector(call["id"])
        ctx = self.context(call, collector)
        try:
            before = await self.deps.registry.prepare(
                call["name"], call["input"], ctx, self.deps.roles_policy, allowed_tools=self.allow_list()
            )
        except Exception as exc:
            self._reraise(exc)
            return {"preflight": {"status": "failed", "error": _message(exc)}}, {}
        if before.status == "denied":
            return {"preflight": {"status": "denied", "reason": before.reason}}, {}
        if before.status == "completed":
            output = before.output
            await self.deps.registry.present_result(call["name"], output, ctx)
            return {"preflight": {"status": "completed", "result": self._result(output, collector)}}, {}
        approval, shown = await self._approval(call)
        if before.confirmation and approval["mode"] == "ask":
            shown["confirmation"] = thaw(dict(before.confirmation))
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
        if ttl is not None and 0 < ttl < float("inf"):
            approval["ttlMs"] = int(ttl)
            approval["expiresAt"] = (deps.source.now() + timedelta(milliseconds=int(ttl))).isoformat()
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

    async def run_tool(self, call: Mapping[str, Any], claim: Mapping[str, Any], edited: Any) -> Any:
        """Run a tool. What goes wrong with it is a result, which the model may act on; only signals of the runner pass through."""
        collector = UiCollector(call["id"])
        ctx = self.context(call, collector)
        given = edited if edited is not None else call["input"]

        async def once() -> Any:
            collector.reset()
            return await self.deps.registry.invoke(
                call["name"], given, ctx, self.deps.roles_policy, allowed_tools=self.allow_list()
            )

        about = {"runId": self.run_id, "toolCallId": call["id"], "toolName": call["name"]}
        started = self.deps.source.monotonic()
        try:
            async with span("tool.execution", {**about, "toolType": _type(claim["kind"])}):
                output = await self._within(call["name"], self._retried(call, once))
            result = self._result(output, collector)
        except ToolPreflightDeniedError as exc:
            return pushed(error=exc.reason, denied=True)
        except Exception as exc:
            self._reraise(exc)
            self._tell(call, claim, "failed", started)
            return pushed(error=_message(exc))
        self._tell(call, claim, "executed", started)
        return result

    def _retried(self, call: Mapping[str, Any], once: Any) -> Any:
        retry = self.deps.tool_transient_retry
        if retry is None:
            return once()

        def on_retry(attempt: int, exc: BaseException) -> None:
            publish("tool.retry", {"toolName": call["name"], "toolCallId": call["id"], "attempt": attempt, "message": str(exc)})

        return invoke_with_transient_retry(once, retry, on_retry=on_retry, is_control_flow=self._is_signal)

    async def _within(self, name: str, work: Any) -> Any:
        """Its result within its time. A tool that takes longer is left running, as it cannot be stopped from outside."""
        ms = self.deps.tool_timeouts.get(name, self.deps.tool_timeout_ms)
        if ms is None:
            return await work
        task = asyncio.ensure_future(work)
        task.add_done_callback(_looked_at)
        try:
            done, _ = await asyncio.wait({task}, timeout=ms / 1000)
        except BaseException:
            task.cancel()
            raise
        if not done:
            raise ToolTimeoutError(name, ms)
        return task.result()

    def _result(self, output: Any, collector: UiCollector) -> Any:
        """What is journaled of a success: its bare output, or with what it pushed.

        Raises:
            NotJson: the output is something JSON cannot hold.
        """
        plain = jsonable(output, "output")
        return pushed(output=plain, ui=collector.collected) if collector.collected else plain

    def _is_signal(self, exc: BaseException) -> bool:
        extra = optional(self.hooks, "is_control_flow_error")
        return is_control_flow_signal(exc) or is_replay_integrity_error(exc) or bool(extra is not None and extra(exc))

    def _reraise(self, exc: BaseException) -> None:
        """Let the runner's own signals through; every other failure is the tool's."""
        if self._is_signal(exc):
            raise exc

    def _tell(self, call: Mapping[str, Any], claim: Mapping[str, Any], status: str, started: float | None = None) -> None:
        told: dict[str, Any] = {
            "runId": self.run_id,
            "toolName": call["name"],
            "toolType": _type(claim["kind"]),
            "status": status,
        }
        if started is not None:
            told["durationMs"] = round((self.deps.source.monotonic() - started) * 1000)
        publish("tool-call", told, trace_id=self.run_id)

    async def run_agent(self, call: Mapping[str, Any], claim: Mapping[str, Any], edited: Any) -> Any:
        """Hand a task to another agent. A refusal is the result's text, not a failure."""
        return await self.delegate(call, claim)

    async def delegate(self, call: Mapping[str, Any], claim: Mapping[str, Any]) -> Any:
        """The answer of another agent, or why it was not asked: see `delegation.py`."""
        return {"text": f"{claim.get('targetAgent')} cannot be asked here: nothing runs other agents."}

    # -- putting on record --------------------------------------------------------------------------

    async def tool_executed(self, call: Mapping[str, Any], claim: Mapping[str, Any], decision: Any, outcome: Any) -> None:
        """It ran."""
        changes: dict[str, Any] = {"status": "executed", "output": outcome["output"]}
        if claim["kind"] == "action":
            changes["executed_by_ref"] = (decision or {}).get("executedByRef") or self.given.actor.id
        await self._settled(call, claim, decision, changes, "approved")

    async def tool_failed(self, call: Mapping[str, Any], claim: Mapping[str, Any], decision: Any, outcome: Any) -> None:
        """It raised, or could not be called."""
        await self._settled(call, claim, decision, {"status": "failed", "error": outcome["error"]}, "approved")

    async def tool_rejected(self, call: Mapping[str, Any], claim: Mapping[str, Any], decision: Any, outcome: Any) -> None:
        """A person declined, nobody decided in time, or its own check refused."""
        reason = outcome.get("reason")
        if outcome.get("preflight"):
            changes = {"status": "failed" if decision is not None else "rejected", "error": reason}
            await self._settled(call, claim, decision, changes, "approved")
            return
        if decision.get("expired"):
            await self._settled(call, claim, decision, {"status": "expired", "decided_by": None}, "expired")
        else:
            changes = {"status": "rejected", "reason": reason, "error": reason}
            await self._settled(call, claim, decision, {k: v for k, v in changes.items() if v is not None}, "rejected", reason)
        self._tell(call, claim, "rejected")

    async def _settled(
        self,
        call: Mapping[str, Any],
        claim: Mapping[str, Any],
        decision: Any,
        changes: dict[str, Any],
        status: str,
        reason: Any = None,
    ) -> None:
        decision = decision or {}
        if decision.get("via"):
            changes.setdefault("decided_via", decision["via"])
        if decision.get("remember") and decision.get("approved"):
            changes["remember"] = True
        if decision and "expired" not in decision:
            by = decision.get("decidedBy") or (None if decision.get("via") == "remembered" else self.given.actor.id)
            if by:
                changes.setdefault("decided_by", by)
        if decision.get("input") is not None:
            changes["input"] = decision["input"]
        await self.deps.store.update_tool_call(call["id"], changes)
        approval = claim.get("approval")
        if not decision or approval is None or approval["mode"] == "auto":
            return  # nobody was asked; or it was claimed by a release that wrote no such frame
        told: dict[str, Any] = {"id": call["id"], "status": status, "approver": approval.get("approver")}
        told["decidedBy"] = changes.get("decided_by") if status != "expired" else None
        told["decidedVia"] = decision.get("via")
        told["remember"] = True if changes.get("remember") else None
        told["reason"] = reason
        await self.frame({"kind": "approval-settled", **told})

    async def save_outputs(self, message_id: str | None, answer: Mapping[str, Any], results: Sequence[Any], ui: Any) -> Any:
        """Put the results on their message, show them, and what the tools pushed."""
        store = self.deps.store
        if message_id is not None:
            await store.set_message_tool_results(message_id, results)
        components = merged_ui(answer.get("ui") or (), ui)
        if ui and message_id is not None:
            await self.store_optional("set_message_ui", message_id, components)
        for component in ui:
            await self.frame({"kind": "ui", **component})
        for result in results:
            await self.frame(_outcome_frame(result))
        return {}

    # -- questions --------------------------------------------------------------------------------

    async def intake_ask(self, has_assistant: bool) -> Any:
        """Whether the questions an agent begins with are asked now, and which."""
        return intake_request(self.deps.intake, self.run_id, has_assistant)

    async def intake_answers(self, request: Mapping[str, Any], reply: AnswersReply) -> Any:
        """Put the answers on record, as a call of the tool `ask`; the message that tells the model of them."""
        output = settle_answers(request, reply)
        call = {"id": request["id"], "name": ASK_TOOL, "input": {"questions": request["questions"]}, "kind": "ask"}
        message = intake_message(call, output)
        message_id = await self.deps.store.append_message(self.given.thread_id, replace(message, run_id=self.run_id))
        row = ToolCallRow(
            id=call["id"],
            thread_id=self.given.thread_id,
            message_id=message_id,
            run_id=self.run_id,
            tool_name=ASK_TOOL,
            tool_type="action",
            input=call["input"],
            status="pending_approval",
        )
        await self.deps.store.record_tool_call(row)
        await self._save_answered(call, output, reply)
        return message.to_json()

    async def answered(self, call: Mapping[str, Any], request: Mapping[str, Any], reply: AnswersReply) -> Any:
        """Put the answers to the tool `ask` on record; its output."""
        output = settle_answers(request, reply)
        await self._save_answered(call, output, reply)
        return output

    async def _save_answered(self, call: Mapping[str, Any], output: Any, reply: AnswersReply) -> None:
        changes: dict[str, Any] = {"status": "rejected" if reply.skipped else "executed", "output": output}
        changes["decided_by"], changes["decided_via"] = reply.answered_by or self.given.actor.id, reply.answered_via
        if not reply.skipped:
            changes["executed_by_ref"] = reply.answered_by or self.given.actor.id
        await self.deps.store.update_tool_call(call["id"], {k: v for k, v in changes.items() if v is not None})

    # -- skills and memory --------------------------------------------------------------------------

    def memory_block(self, digest: Any) -> str:
        """What the system prompt says of memories; nothing without one."""
        return ""

    def skills_block(self, catalog: Any) -> str:
        """What the system prompt says of skills; nothing without one."""
        return ""

    async def memory_digest(self, query: str) -> Any:
        """The memories of this run."""
        return {}

    async def skills_catalog(self) -> Any:
        """The skills of this run."""
        return {}


def _type(kind: str) -> str:
    return "action" if kind in ("action", "ask") else "read"


def _message(exc: BaseException) -> str:
    if isinstance(exc, LoomError):
        return str(exc)
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__


def _looked_at(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()  # of a tool that was left running nobody asks any more


def _outcome_frame(result: Mapping[str, Any]) -> dict[str, Any]:
    if result.get("denied"):
        reason = (result.get("output") or {}).get("reason")
        shown = reason if reason not in (NO_REASON, "approval expired") else None
        return {"kind": "tool-output-denied", "id": result["id"], "reason": shown}
    if result.get("error") is not None:
        return {"kind": "tool-output-error", "id": result["id"], "error": result["error"]}
    return {"kind": "tool-output", "id": result["id"], "output": result["output"]}
