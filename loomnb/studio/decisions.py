"""Approvals decided by the call they are about, as `tool_calls` and the governance queries name it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from loomnb.agents import check_text
from loomnb.asks import Ask
from loomnb.errors import AnswerRefused, Conflict, NotFound
from loomnb.runtime import Run
from loomnb.studio.shown import PendingAsk

__all__ = ["Approvals"]

Rows = Callable[[str, dict[str, Any]], Sequence[tuple[Any, ...]]]

_CALL = """
select c.status, c.run_id, c.approver is not null and coalesce(c.decided_by, c.decided_via) is null,
    coalesce(r.status in ('completed', 'failed', 'canceled'), true)
from tool_calls c left join runs r on r.run_id = c.run_id
where c.tool_call_id = $id order by c.seq
"""
"""Where the calls of an id stand: the row's status, its run, whether nobody decided it, whether the run is over."""


class Approvals:
    """Decides what agents ask before they act, from code that knows the id of a call: an `AgentApprovalPort`.

    It does not judge who decides. Before you offer it to several people, ask `ApprovalPolicy.can_decide`.
    """

    def __init__(self, pending: Callable[[], Iterable[PendingAsk]], rows: Rows) -> None:
        self._pending = pending
        self._rows = rows

    def approve(
        self,
        tool_call_id: str,
        *,
        input: Mapping[str, Any] | None = None,  # noqa: A002  # the name it has in every answer
        executed_by_ref: str | None = None,
        remember: bool = False,
        decided_via: str | None = None,
    ) -> None:
        """Agree to a call that waits. Returns once that is stored, not when the tool has run.

        Args:
            tool_call_id: as in the view `tool_calls`.
            input: other arguments than the model's; they are judged by the tool's schema.
            executed_by_ref: who is on record as having decided and done it; None: whoever the thread belongs to.
            remember: agree to later calls of this tool in this conversation too.
            decided_via: from where, for the record; None: `code`.

        Raises:
            NotFound: no call has this id.
            Conflict: its run is over (`RUN_NOT_ACTIVE`), or calls of several conversations with this id wait.
            AnswerInvalid: the decision does not fit; the call still waits.
            AnswerRefused: it waits for nobody, because it was decided already, or its time is over.
        """
        answer = {"approved": True, "input": input, "executedByRef": executed_by_ref, "remember": remember, "via": decided_via}
        self._decide(tool_call_id, answer)

    def reject(
        self,
        tool_call_id: str,
        *,
        reason: str | None = None,
        executed_by_ref: str | None = None,
        decided_via: str | None = None,
    ) -> None:
        """Decline a call that waits: the model is told, with the reason. Returns once that is stored.

        Args:
            tool_call_id: as in the view `tool_calls`.
            reason: why, for the model and the record.
            executed_by_ref: who is on record as having decided; None: whoever the thread belongs to.
            decided_via: from where, for the record; None: `code`.

        Raises:
            NotFound, Conflict, AnswerInvalid, AnswerRefused: as `approve`.
        """
        answer = {"approved": False, "reason": reason, "executedByRef": executed_by_ref, "via": decided_via}
        self._decide(tool_call_id, answer)

    def _decide(self, tool_call_id: str, answer: Mapping[str, Any]) -> None:
        run, ask = self._waiting(tool_call_id)
        run.answer(ask.id, {name: value for name, value in answer.items() if value is not None})

    def _waiting(self, tool_call_id: str) -> tuple[Run, Ask]:
        found = [
            (one.run, one.ask)
            for one in self._pending()
            if one.ask.kind == "approval" and (one.ask.request or {}).get("id") == tool_call_id
        ]
        if len(found) == 1:
            return found[0]
        if found:
            runs = ", ".join(run.id for run, _ in found)
            raise Conflict(
                f"{len(found)} calls with the id {tool_call_id!r} wait for a decision.",
                advice=f"Answer one at its run: loom.run(id).answer(True). They are {runs}.",
            )
        check_text("The id of a call", tool_call_id, error=NotFound)
        rows = self._rows(_CALL, {"id": tool_call_id})
        if not rows:
            raise NotFound(f"There is no call {tool_call_id!r:.80}.", advice="loom.pending() lists what waits for an answer.")
        status, run_id, is_undecided, is_over = rows[-1]
        advice = f"See what became of it: loom.run({run_id!r})."
        if is_over and is_undecided and status in ("failed", "pending_approval"):
            raise Conflict(
                f"Nobody decided the call {tool_call_id!r}, and its run {run_id} does not go on.",
                code="RUN_NOT_ACTIVE",
                advice=advice,
            )
        # The row is the tool's business, and a moment behind the answer: what waits and is not asked any more was decided.
        stands = "its decision is on its way" if status == "pending_approval" else f"it is {status}"
        raise AnswerRefused(f"The call {tool_call_id!r} waits for no decision: {stands}.", advice=advice)
