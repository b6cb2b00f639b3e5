"""Actions that a person agrees to: contracts/agents.md §2.1."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from loomnb.agents import Decision
from loomnb.agents.results import NO_REASON
from loomnb.agents.spi import ApprovalRequirement
from loomnb.testing import ScriptedModel, StillSource
from tests.agents.doubles import events_of
from tests.agents.looping import ANN, Hooks, Journal, Suspended, deps, row_of, rows_of, tool, turn
from tests.helpers import plain_id


class Policy:
    """Requires what it is told to, and remembers what it was asked."""

    def __init__(self, **requirement: Any) -> None:
        self.requirement = ApprovalRequirement(**requirement)
        self.asked: list[Any] = []

    def requirement_for(self, spec: Any, actor: Any, *, thread_id: str, run_id: str, agent_name: str | None) -> Any:
        self.asked.append((spec.name, spec.kind, actor.id, thread_id))
        return self.requirement


def send(execute: Any = lambda given, ctx: "sent", **more: Any) -> Any:
    return tool("send", execute, **{"kind": "action", **more})


SENDS: list[Any] = [[("send", {"to": "bob"})], "Done."]


@pytest.mark.case("agents:A04")
def test_a_declined_action_does_not_run_and_the_turn_goes_on() -> None:
    ran: list[Any] = []
    hooks = Hooks(decide=lambda call: Decision(approved=False, reason="not now"))
    made = deps(SENDS, send(lambda i, c: ran.append(i)))

    events = events_of("tool-call", lambda: turn(made, hooks))

    row = row_of(made, "send")
    assert (row.status, row.output, row.reason, row.error, row.executed_by_ref) == ("rejected", None, "not now", "not now", None)
    assert ran == []
    assert [e["status"] for e in events] == ["rejected"]


def test_a_declined_action_is_told_to_the_model_as_a_persons_word_and_not_as_a_fault() -> None:
    model = ScriptedModel(SENDS)
    turn(deps(model, send()), Hooks(decide=lambda call: Decision(approved=False, reason=" not now ")))

    (result,) = model.requests[1].messages[-1]["toolResults"]
    assert result["output"] == {"rejected": True, "reason": "not now"}
    assert result["denied"] is True
    assert "declined" in result["error"]
    assert "not an error" in result["error"]
    assert "not now" in result["error"]


@pytest.mark.parametrize("reason", [None, "", "  ", NO_REASON], ids=plain_id)
def test_without_a_reason_the_placeholder_goes_to_the_model_only(reason: str | None) -> None:
    hooks, model = Hooks(decide=lambda call: Decision(approved=False, reason=reason)), ScriptedModel(SENDS)
    made = deps(model, send())
    turn(made, hooks)

    (result,) = model.requests[1].messages[-1]["toolResults"]
    assert result["output"]["reason"] == NO_REASON
    assert hooks.sink.frames("tool-output-denied") == [{"kind": "tool-output-denied", "id": "call-0-send"}]
    (settled,) = hooks.sink.frames("approval-settled")
    assert settled["status"] == "rejected"
    assert "reason" not in settled
    assert row_of(made, "send").error is None
    assert row_of(made, "send").reason is None


def test_a_reason_stands_in_both_frames() -> None:
    hooks = Hooks(decide=lambda call: Decision(approved=False, reason="not now", decided_by="eve", via="web"))
    turn(deps(SENDS, send()), hooks)

    (settled,) = hooks.sink.frames("approval-settled")
    assert settled == {
        "kind": "approval-settled",
        "id": "call-0-send",
        "status": "rejected",
        "approver": "requester",
        "decidedBy": "eve",
        "decidedVia": "web",
        "reason": "not now",
    }
    assert hooks.sink.frames("tool-output-denied")[0]["reason"] == "not now"


@pytest.mark.case("agents:C02")
def test_the_policys_approver_and_time_limit_go_to_the_wait_the_frame_and_the_row() -> None:
    policy, hooks, source = Policy(required=True, approver="admin", ttl_ms=60_000.9), Hooks(), StillSource()
    made = deps(SENDS, send(), approval_policy=policy, source=source)
    turn(made, hooks)

    assert policy.asked == [("send", "action", "ann", "t1")]
    assert hooks.waits == [("call-0-send", 60_000)]
    (frame,) = hooks.sink.frames("approval-requested")
    expires = (source.now() + timedelta(seconds=60)).isoformat()
    assert (frame["approver"], frame["expiresAt"]) == ("admin", expires)
    row = row_of(made, "send")
    assert (row.approver, row.expires_at) == ("admin", expires)


@pytest.mark.parametrize("ttl", [None, 0, -5, float("inf"), float("nan")], ids=plain_id)
def test_a_time_limit_that_is_none_waits_for_ever(ttl: float | None) -> None:
    hooks = Hooks()
    turn(deps(SENDS, send(), approval_policy=Policy(required=True, ttl_ms=ttl)), hooks)

    assert hooks.waits == [("call-0-send", None)]
    assert "expiresAt" not in hooks.sink.frames("approval-requested")[0]


def test_nobody_decided_in_time() -> None:
    hooks, model = Hooks(decide=lambda call: Decision(approved=False, expired=True)), ScriptedModel(SENDS)
    made = deps(model, send(), approval_policy=Policy(required=True, ttl_ms=10))
    turn(made, hooks)

    (result,) = model.requests[1].messages[-1]["toolResults"]
    assert result["output"] == {"rejected": True, "expired": True, "reason": "approval expired"}
    assert result["denied"] is True
    assert result["expired"] is True
    assert "Nobody decided" in result["error"]
    row = row_of(made, "send")
    assert (row.status, row.decided_by, row.error) == ("expired", None, None)
    (settled,) = hooks.sink.frames("approval-settled")
    assert settled == {"kind": "approval-settled", "id": "call-0-send", "status": "expired", "approver": "requester"}
    assert hooks.sink.frames("tool-output-denied") == [{"kind": "tool-output-denied", "id": "call-0-send"}]


@pytest.mark.case("agents:C03")
def test_an_action_that_needs_no_approval_asks_nobody_and_writes_no_such_frame() -> None:
    hooks = Hooks()
    made = deps(SENDS, send(), approval_policy=Policy(required=False))
    turn(made, hooks)

    assert hooks.waits == []
    assert not hooks.sink.frames("approval-requested", "approval-settled")
    row = row_of(made, "send")
    assert (row.status, row.tool_type, row.approver, row.decided_by, row.executed_by_ref) == (
        "executed", "action", None, None, "ann",
    )  # fmt: skip


def test_reads_are_not_asked_about() -> None:
    policy = Policy(required=True)
    turn(deps([[("look", {})], "Done."], tool("look"), approval_policy=policy))

    assert policy.asked == []


def test_an_approved_action_is_settled_before_its_output_is_shown() -> None:
    hooks = Hooks(decide=lambda call: Decision(approved=True, decided_by="eve", via="web", executed_by_ref="eve-console"))
    made = deps(SENDS, send())
    turn(made, hooks)

    kinds = [f["kind"] for f in hooks.sink.frames("approval-requested", "approval-settled", "tool-output")]
    assert kinds == ["approval-requested", "approval-settled", "tool-output"]
    row = row_of(made, "send")
    assert (row.decided_by, row.decided_via, row.executed_by_ref) == ("eve", "web", "eve-console")


def test_who_decided_is_not_made_up_where_somebody_else_had_to() -> None:
    hooks = Hooks()
    made = deps(SENDS, send(), approval_policy=Policy(required=True, approver="admin"))
    turn(made, hooks)

    assert row_of(made, "send").decided_by is None
    assert "decidedBy" not in hooks.sink.frames("approval-settled")[0]


@pytest.mark.case("agents:C06")
def test_a_remembered_approval_asks_nobody_in_later_runs_of_the_thread() -> None:
    made = deps(lambda request, n: SENDS[n % 2], send())
    turn(made, Hooks(run_id="run-1", decide=lambda call: Decision(approved=True, remember=True)))
    assert asyncio.run(made.store.remembered_approvals("t1")) == ("send",)  # type: ignore[attr-defined]
    hooks = Hooks(run_id="run-2", decide=lambda call: pytest.fail("asked"))

    turn(made, hooks)

    assert not hooks.sink.frames("approval-requested")
    assert hooks.sink.frames("approval-settled") == [
        {
            "kind": "approval-settled",
            "id": "call-2-send",
            "status": "approved",
            "approver": "requester",
            "decidedVia": "remembered",
            "remember": True,
        }
    ]


def test_a_remembered_approval_is_for_that_thread_and_tool_only() -> None:
    made = deps(lambda request, n: SENDS[n % 2], send())
    turn(made, Hooks(run_id="run-1", decide=lambda call: Decision(approved=True, remember=True)))
    hooks = Hooks(run_id="run-2")

    turn(made, hooks, thread_id="t2")

    assert len(hooks.waits) == 1


def test_remember_counts_on_an_approval_only() -> None:
    hooks = Hooks(decide=lambda call: Decision(approved=False, remember=True))
    made = deps(SENDS, send())
    turn(made, hooks)

    assert row_of(made, "send").remember is False
    assert "remember" not in hooks.sink.frames("approval-settled")[0]


@pytest.mark.case("agents:C09")
def test_a_claim_of_an_older_release_waits_without_limit_and_settles_silently_but_remembers() -> None:
    recorded = Journal()
    turn(deps(SENDS, send(), approval_policy=Policy(required=True, ttl_ms=5)), recorded)
    at = recorded.names.index("persist:toolcall:call-0-send")
    records = [*recorded.records[:at], ("persist:toolcall:call-0-send", json.dumps({"kind": "action"}))]
    journal = Journal(records=records, decide=lambda call: Decision(approved=True, remember=True))
    made = deps(SENDS, send())
    asyncio.run(prepare(made))

    turn(made, journal)

    assert journal.waits == [("call-0-send", None)]
    assert not journal.sink.frames("approval-settled")
    row = row_of(made, "send")
    assert (row.status, row.remember) == ("executed", True)


async def prepare(made: Any) -> None:
    """What the records before the claim have done already."""
    from loomnb.agents.spi import ChatMessage, ToolCallRow

    await made.store.create_thread(actor=ANN, id="t1")
    await made.store.append_message("t1", ChatMessage(role="user", content="Hello"))
    call = {"id": "call-0-send", "name": "send", "input": {"to": "bob"}, "kind": "action"}
    message = ChatMessage(role="assistant", tool_calls=[call], run_id="run-1")
    await made.store.append_message("t1", message)
    await made.store.record_tool_call(ToolCallRow(id="call-0-send", thread_id="t1", run_id="run-1", tool_name="send"))


# -- waits ------------------------------------------------------------------------------------------------


def test_a_turn_that_waits_unwinds_and_goes_on_where_it_was_without_asking_twice() -> None:
    first = Journal(suspends={"tool:run-1:call-0-send"})
    made = deps(SENDS, send())
    with pytest.raises(Suspended):
        turn(made, first)
    assert not first.sink.ended
    assert row_of(made, "send").status == "pending_approval"

    again = first.again()
    result = turn(made, again)

    assert result.text == "Done."
    assert len(again.sink.frames("approval-requested")) == 1
    assert again.made[0] == "tool:run-1:call-0-send"
    assert len(rows_of(made)) == 1


def test_a_policy_that_changed_meanwhile_has_no_effect_on_what_waits() -> None:
    first = Journal(suspends={"tool:run-1:call-0-send"})
    made = deps(SENDS, send())
    with pytest.raises(Suspended):
        turn(made, first)
    made.approval_policy = Policy(required=False)
    again = first.again(decide=lambda call: Decision(approved=False))

    turn(made, again)

    assert row_of(made, "send").status == "rejected"


def test_an_interrupted_action_is_told_as_such_and_does_not_run_again() -> None:
    ran: list[Any] = []
    begun: list[Any] = []

    def begin(name: str, call: Any) -> Any:
        begun.append((name, call["name"]))
        return {"$tool": {"error": "It started and was stopped.", "interrupted": True}}

    model = ScriptedModel(SENDS)
    made = deps(model, send(lambda i, c: ran.append(i)))
    turn(made, Hooks(begin_action=begin))

    assert (begun, ran) == ([("tool:call-0-send", "send")], [])
    assert model.requests[1].messages[-1]["toolResults"][0]["interrupted"] is True
    assert row_of(made, "send").status == "failed"


def test_only_actions_are_begun() -> None:
    hooks = Hooks(begin_action=lambda name, call: pytest.fail("a read tool may simply run again"))
    turn(deps([[("look", {})], "Done."], tool("look")), hooks)


def test_a_time_limit_beyond_every_date_is_none() -> None:
    hooks = Hooks()

    turn(deps(SENDS, send(), approval_policy=Policy(required=True, ttl_ms=1e300)), hooks)

    (asked,) = hooks.sink.frames("approval-requested")
    assert "expiresAt" not in asked
    assert [limit for _, limit in hooks.waits] == [None]
