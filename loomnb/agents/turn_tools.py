"""The tool calls of one step, as the order of their effects. Like `turn.py`, it performs nothing."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loomnb.agents.effects import AskAnswers, AskApproval, Checkpoint, Effect, Parallel
from loomnb.agents.results import NO_REASON, denied_result, expired_result, failed_result, preflight_denied_result
from loomnb.agents.spi import AnswersReply, Decision
from loomnb.agents.work import TurnWork as W
from loomnb.agents.work_base import outcome_of

__all__ = ["Done", "StepTools"]

Flow = Generator[Effect, Any, Any]
_SIDE_BY_SIDE = ("read", "skill", "memory")


@dataclass(slots=True)
class Done:
    """What the calls of a step came to."""

    results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ui: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    texts: list[str] = field(default_factory=list[str])
    """What stands for components that the client does not draw."""
    ends_turn: bool = False


class StepTools:
    """The calls of one step.

    Args:
        calls: `{"id", "name", "input", "kind"}`.
        message_id: the message that has them.
        instead: call → what the model is told, where a person wants it not to run.
        hoisted: whether all are claimed before the first runs.
    """

    def __init__(
        self, calls: Sequence[Mapping[str, Any]], message_id: str | None, instead: Mapping[str, str], *, hoisted: bool
    ) -> None:
        self._calls = [{**call, "instead": instead[call["id"]]} if call["id"] in instead else dict(call) for call in calls]
        self._message_id = message_id
        self._hoisted = hoisted
        self._done = Done()

    def run(self) -> Flow:
        """Claim, decide, run and store each call; `Done`."""
        side_by_side = self._hoisted and all(call["kind"] in _SIDE_BY_SIDE for call in self._calls)
        claims: Sequence[Any] = ()
        if self._hoisted:
            claims = yield from self._claims()
        if side_by_side:
            yield from self._together(claims)
        else:
            for index, call in enumerate(self._calls):
                claim = claims[index] if self._hoisted else (yield self._claim(call))
                yield from self._one(call, claim)
        return self._done

    def _claims(self) -> Flow:
        claims: list[Any] = []
        for call in self._calls:
            claim = yield self._claim(call)
            claims.append(claim)
        return claims

    def _claim(self, call: Mapping[str, Any]) -> Checkpoint:
        return Checkpoint(f"persist:toolcall:{call['id']}", W.claim, (dict(call), self._message_id))

    def _together(self, claims: Sequence[Any]) -> Flow:
        pairs = [*zip(self._calls, claims, strict=True)]
        runs = [self._tool(call, claim, None) for call, claim in pairs if "preflight" not in claim]
        outcomes = (yield Parallel(runs)) if runs else []
        errors = [error for _, error in outcomes if error is not None]
        if errors:  # a signal of the runner: nothing is stored for the siblings that finished
            raise errors[0]
        ran = iter(outcomes)
        for call, claim in pairs:
            if "preflight" in claim:
                yield from self._one(call, claim)
            else:
                yield from self._settle(call, claim, next(ran)[0], None)

    def _tool(self, call: Mapping[str, Any], claim: Mapping[str, Any], decision: Decision | None) -> Checkpoint:
        action = W.run_agent if claim["kind"] == "agent" else W.run_tool
        edited = decision.input if decision is not None else None
        decided = {"decision": decision.to_json()} if decision is not None else {}
        acts = {**call, **decided} if claim["kind"] == "action" else None
        return Checkpoint(f"tool:{call['id']}", action, (dict(call), dict(claim), edited), begins=acts)

    def _one(self, call: Mapping[str, Any], claim: Mapping[str, Any]) -> Flow:
        before = claim.get("preflight") or {}
        if before.get("status") == "failed":
            yield from self._failed(call, claim, before["error"], None)
        elif before.get("status") == "denied":
            yield from self._refused(call, claim, before["reason"], None)
        elif before.get("status") == "completed":
            yield from self._settle(call, claim, before["result"], None)
        elif claim["kind"] == "ask":
            yield from self._questions(call, claim)
        elif claim["kind"] == "action":
            yield from self._action(call, claim)
        else:
            outcome = yield self._tool(call, claim, None)
            yield from self._settle(call, claim, outcome, None)

    def _action(self, call: Mapping[str, Any], claim: Mapping[str, Any]) -> Flow:
        approval = claim.get("approval")
        decision: Decision | None = None
        if approval is None:  # claimed by an older release: the requester decides, without a time limit
            decision = yield AskApproval(call, None)
        elif approval["mode"] == "remembered":
            decision = Decision(approved=True, remember=True, via="remembered")
        elif approval["mode"] == "ask":
            decision = yield AskApproval({**call, "approval": approval}, approval.get("ttlMs"))
        if decision is not None and not decision.approved:
            yield from self._declined(call, claim, decision)
            return
        outcome = yield self._tool(call, claim, decision)
        yield from self._settle(call, claim, outcome, decision)

    def _declined(self, call: Mapping[str, Any], claim: Mapping[str, Any], decision: Decision) -> Flow:
        """A person said no, or nobody said anything in time."""
        reason = (decision.reason or "").strip()
        reason = "" if reason == NO_REASON else reason
        args = (dict(call), dict(claim), decision.to_json(), {"reason": reason or None})
        yield Checkpoint(f"persist:toolreject:{call['id']}", W.tool_rejected, args)
        who = call["id"], call["name"]
        self._done.results.append(expired_result(*who) if decision.expired else denied_result(*who, reason))

    def _settle(self, call: Mapping[str, Any], claim: Mapping[str, Any], journaled: Any, decision: Decision | None) -> Flow:
        outcome = outcome_of(journaled)
        if "error" in outcome:
            if outcome.get("denied"):
                yield from self._refused(call, claim, outcome["error"], decision)
            else:
                yield from self._failed(call, claim, outcome["error"], decision, interrupted=outcome.get("interrupted", False))
            return
        told = decision.to_json() if decision is not None else None
        args = (dict(call), dict(claim), told, outcome)
        yield Checkpoint(f"persist:toolexec:{call['id']}", W.tool_executed, args)
        self._tell({"id": call["id"], "name": call["name"], "output": outcome["output"]}, decision)
        self._done.ui += outcome.get("ui", ())
        self._done.texts += [outcome["text"]] if outcome.get("text") else []
        self._done.ends_turn |= bool(claim.get("terminal"))

    def _tell(self, result: dict[str, Any], decision: Decision | None) -> None:
        """A result for the model; with the arguments, where a person changed them."""
        edited = {"editedInput": decision.input} if decision is not None and decision.input is not None else {}
        self._done.results.append({**result, **edited})

    def _failed(
        self,
        call: Mapping[str, Any],
        claim: Mapping[str, Any],
        error: str,
        decision: Decision | None,
        *,
        interrupted: bool = False,
    ) -> Flow:
        told = decision.to_json() if decision is not None else None
        yield Checkpoint(f"persist:toolfail:{call['id']}", W.tool_failed, (dict(call), dict(claim), told, {"error": error}))
        result = failed_result(call["id"], call["name"], error)
        self._tell({**result, "interrupted": True} if interrupted else result, decision)

    def _refused(self, call: Mapping[str, Any], claim: Mapping[str, Any], reason: str, decision: Decision | None) -> Flow:
        """Its own preflight refused: before anybody was asked, or right before it would have acted."""
        told = decision.to_json() if decision is not None else None
        args = (dict(call), dict(claim), told, {"reason": reason, "preflight": True})
        yield Checkpoint(f"persist:toolreject:{call['id']}", W.tool_rejected, args)
        self._tell(preflight_denied_result(call["id"], call["name"], reason), decision)

    def _questions(self, call: Mapping[str, Any], claim: Mapping[str, Any]) -> Flow:
        """The built-in tool `ask`: a person answers, and that is the result."""
        request = claim["request"]
        yield Checkpoint(
            f"stream:elicitation:{call['id']}", W.frame, ({"kind": "elicitation", "id": call["id"], "request": request},)
        )
        reply: AnswersReply = yield AskAnswers(request)
        output = yield Checkpoint(
            f"persist:{'toolreject' if reply.skipped else 'toolexec'}:{call['id']}", W.answered, (dict(call), request, reply)
        )
        self._done.results.append({"id": call["id"], "name": call["name"], "output": output})
