"""What is put on record of a step's calls: how each ended, what the model and the readers are told, and answers to questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomnb.agents.delegation import is_receipt
from loomnb.agents.diagnostics import publish
from loomnb.agents.elicitation import ASK_TOOL, intake_message, intake_request, settle_answers
from loomnb.agents.frames import merged_ui
from loomnb.agents.results import NO_REASON
from loomnb.agents.spi import AnswersReply, ChatMessage, ToolCallRow
from loomnb.agents.work_base import WorkBase, shown_kind

__all__ = ["RecordWork"]


class RecordWork(WorkBase):
    """The rows, the frames and the events of calls whose outcome is known."""

    # -- how a call ended -------------------------------------------------------------------------

    async def tool_executed(self, call: Mapping[str, Any], claim: Mapping[str, Any], decision: Any, outcome: Any) -> None:
        """It ran."""
        changes: dict[str, Any] = {"status": "executed", "output": outcome["output"], **self._took(call)}
        if is_receipt(outcome["output"]) and claim.get("detached"):
            del changes["output"]  # it is there since the agent was started, and by now the answer may be
        if claim["kind"] == "action":
            changes["executed_by_ref"] = (decision or {}).get("executedByRef") or self.given.actor.id
        await self._settled(call, claim, decision, changes, "approved")
        if "preflight" in claim:
            self.tell_call(call, claim, "executed")

    def _took(self, call: Mapping[str, Any]) -> dict[str, float]:
        ms = self.took.get(call["id"])
        return {} if ms is None else {"duration_ms": round(ms, 3)}

    async def tool_failed(self, call: Mapping[str, Any], claim: Mapping[str, Any], decision: Any, outcome: Any) -> None:
        """It raised, or could not be called."""
        await self._settled(
            call, claim, decision, {"status": "failed", "error": outcome["error"], **self._took(call)}, "approved"
        )
        if "preflight" in claim:
            self.tell_call(call, claim, "failed")

    async def tool_rejected(self, call: Mapping[str, Any], claim: Mapping[str, Any], decision: Any, outcome: Any) -> None:
        """A person declined, nobody decided in time, or its own check refused."""
        reason = outcome.get("reason")
        if outcome.get("preflight"):
            # Somebody had agreed to it: then it is their call that failed, and not one they declined.
            changes = {"status": "failed" if decision is not None else "rejected", "error": reason}
            await self._settled(call, claim, decision, changes, "approved")
            return
        if decision.get("expired"):
            await self._settled(call, claim, decision, {"status": "expired"}, "expired")
        else:
            told = {"reason": reason, "error": reason} if reason is not None else {}
            await self._settled(call, claim, decision, {"status": "rejected", **told}, "rejected")
        self.tell_call(call, claim, "rejected")

    async def _settled(
        self,
        call: Mapping[str, Any],
        claim: Mapping[str, Any],
        decision: Any,
        changes: dict[str, Any],
        status: str,
    ) -> None:
        """Change the row, and say how the approval was settled, where there was one."""
        approval = claim.get("approval")
        remember = bool(decision and decision.get("approved") and decision.get("remember"))
        by = self._decided_by(decision, approval)
        if decision:
            more = {"decided_via": decision.get("via"), "decided_by": by, "remember": remember or None}
            more["input"] = decision.get("input")
            changes |= {name: value for name, value in more.items() if value is not None}
        await self.change_call(call["id"], changes)
        if not decision or approval is None or approval["mode"] == "auto":
            return  # nobody was asked; or it was claimed by a release that wrote no such frame
        told: dict[str, Any] = {"id": call["id"], "status": status, "approver": approval.get("approver")}
        told |= {"decidedBy": by, "decidedVia": decision.get("via"), "remember": remember or None}
        told["reason"] = changes.get("reason") if status == "rejected" else None
        await self.frame({"kind": "approval-settled", **told})

    def _decided_by(self, decision: Any, approval: Any) -> str | None:
        """Who is on record as having decided: who says so, else the requester where the question was theirs."""
        if not decision or decision.get("expired") or decision.get("via") == "remembered":
            return None
        is_theirs = approval is None or approval.get("approver") == "requester"
        by: str | None = decision.get("decidedBy") or decision.get("executedByRef")
        return by or (self.given.actor.id if is_theirs else None)

    def tell_call(self, call: Mapping[str, Any], claim: Mapping[str, Any], status: str, started: float | None = None) -> None:
        """Tell those who watch how a call ended.

        Args:
            call: the call.
            claim: what was settled of it.
            status: `executed`, `failed` or `rejected`.
            started: when, by the monotonic clock; None: it never ran.
        """
        about = {"runId": self.run_id, "toolName": call["name"], "toolType": shown_kind(claim["kind"]), "status": status}
        took = round((self.deps.source.monotonic() - started) * 1000) if started is not None else None
        publish("tool-call", {**about, "durationMs": took}, self.run_id)

    # -- what a step's calls came to ----------------------------------------------------------------

    async def save_outputs(
        self,
        message_id: str | None,
        answer: Mapping[str, Any],
        results: Sequence[Mapping[str, Any]],
        synthetic: Sequence[Mapping[str, Any]],
        shown: Mapping[str, Any],
    ) -> Any:
        """Put the results on their message, show them, and what the tools pushed.

        Args:
            message_id: of the message with the calls.
            answer: what the model said.
            results: of the calls, in their order.
            synthetic: results that no tool gave; their frames are written already.
            shown: `{"ui", "texts"}`: components that are drawn, and texts in place of those that cannot be.

        Returns:
            `{"text"?}`: what stands for components that the client does not draw.
        """
        ui, text = shown["ui"], "\n".join(shown["texts"])
        if message_id is not None:
            await self.deps.store.set_message_tool_results(message_id, [*results, *synthetic])
            if ui:
                await self.store_optional("set_message_ui", message_id, merged_ui(answer.get("ui") or (), ui))
        for component in ui:
            await self.frame({"kind": "ui", **component})
        if text:
            await self.frame({"kind": "text", "text": text})
            await self.say(ChatMessage(role="assistant", content=text, agent_name=self.given.agent_name))
        for result in results:
            await self.frame(_outcome_frame(result))
        return {"text": text} if text else {}

    async def save_synthetic(self, message_id: str | None, made: Mapping[str, Any]) -> None:
        """The row and the frames of a call that no tool made."""
        row = self._row(made, message_id, status="executed", output=made["output"])
        await self.deps.store.record_tool_call(row)
        await self._announce(made, "read")
        await self.frame({"kind": "tool-output", "id": made["id"], "output": made["output"]})

    async def _announce(self, call: Mapping[str, Any], kind: str) -> None:
        told = {"id": call["id"], "name": call["name"], "input": call["input"], "toolKind": kind}
        await self.frame({"kind": "tool-input-available", **told})

    def _row(self, call: Mapping[str, Any], message_id: str | None, **more: Any) -> ToolCallRow:
        """The row of a call of this run."""
        return ToolCallRow(
            id=call["id"],
            thread_id=self.given.thread_id,
            message_id=message_id,
            run_id=self.run_id,
            tool_name=call["name"],
            input=call["input"],
            **more,
        )

    # -- questions ----------------------------------------------------------------------------------

    async def intake_ask(self, has_assistant: bool) -> Any:
        """Whether the questions an agent begins with are asked now, and which.

        They are on record before anybody answers, so that whoever does finds whose they are and which run waits.
        """
        asked = intake_request(self.deps.intake, self.run_id, has_assistant)
        if not asked["asked"]:
            return asked
        request = asked["request"]
        call = _asking(request)
        message = ChatMessage(role="assistant", tool_calls=[call], agent_name=self.given.agent_name)
        message_id = await self.say(message)
        await self.deps.store.record_tool_call(self._row(call, message_id, tool_type="action", status="pending_approval"))
        await self._announce(call, "action")
        await self.frame({"kind": "elicitation", "id": call["id"], "request": request})
        return {**asked, "messageId": message_id}

    async def intake_answers(self, asked: Mapping[str, Any], reply: AnswersReply) -> Any:
        """Put the answers on record, as those of a call of `ask`; the message that tells the model of them."""
        request = asked["request"]
        call, output = _asking(request), settle_answers(request, reply)
        message = intake_message(call, output)
        await self.deps.store.set_message_tool_results(asked["messageId"], message.tool_results or ())
        await self._save_answered(call, output, reply)
        await self.frame({"kind": "tool-output", "id": call["id"], "output": output})
        return message.to_json()

    async def answered(self, call: Mapping[str, Any], request: Mapping[str, Any], reply: AnswersReply) -> Any:
        """Put the answers to the tool `ask` on record; its output."""
        output = settle_answers(request, reply)
        await self._save_answered(call, output, reply)
        return output

    async def _save_answered(self, call: Mapping[str, Any], output: Any, reply: AnswersReply) -> None:
        status = "rejected" if reply.skipped else "executed"
        changes: dict[str, Any] = {"status": status, "output": output, "decided_via": reply.answered_via}
        changes["decided_by"] = reply.answered_by or self.given.actor.id
        if not reply.skipped:
            changes["executed_by_ref"] = changes["decided_by"]
        await self.change_call(call["id"], {k: v for k, v in changes.items() if v is not None})
        self.tell_call(call, {"kind": "ask"}, status)


def _asking(request: Mapping[str, Any]) -> dict[str, Any]:
    asked = {name: request[name] for name in ("preamble", "questions") if name in request}
    return {"id": request["id"], "name": ASK_TOOL, "input": asked, "kind": "ask"}


def _outcome_frame(result: Mapping[str, Any]) -> dict[str, Any]:
    if result.get("denied"):
        reason = (result.get("output") or {}).get("reason")
        shown = None if result.get("expired") or reason == NO_REASON else reason
        return {"kind": "tool-output-denied", "id": result["id"], "reason": shown}
    if result.get("error") is not None:
        return {"kind": "tool-output-error", "id": result["id"], "error": result["error"]}
    return {"kind": "tool-output", "id": result["id"], "output": result["output"]}
