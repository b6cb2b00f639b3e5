"""What an action says before it acts, and arguments that a person edits: contracts/agents.md §1.4, §2.1."""

from __future__ import annotations

from typing import Any

import pytest

from loomnb.agents import Decision
from loomnb.agents.spi import ApprovalRequirement, Preflight
from loomnb.testing import ScriptedModel
from tests.agents.doubles import events_of
from tests.agents.looping import Hooks, Journal, deps, messages_of, row_of, tool, turn
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


# -- preflights ---------------------------------------------------------------------------------------


def test_a_preflight_that_refuses_before_anybody_was_asked_rejects_the_call_silently() -> None:
    hooks = Journal()
    made = deps(SENDS, send(preflight=lambda i, c, p: Preflight(status="denied", reason="bob has left")))

    events = events_of("tool-call", lambda: turn(made, hooks))

    row = row_of(made, "send")
    assert (row.status, row.error) == ("rejected", "bob has left")
    assert hooks.waits == []
    assert not hooks.sink.frames("approval-requested", "approval-settled")
    assert hooks.sink.frames("tool-output-denied")[0]["reason"] == "bob has left"
    assert [n for n in hooks.names if "call-0-send" in n] == ["persist:toolcall:call-0-send", "persist:toolreject:call-0-send"]
    (result,) = messages_of(made)[1]["toolResults"]
    assert result["output"] == {"rejected": True, "reason": "bob has left"}
    assert result["denied"] is True
    assert events == []


@pytest.mark.parametrize(("how", "status"), [("asked", "failed"), ("remembered", "failed"), ("auto", "rejected")], ids=plain_id)
def test_a_preflight_that_refuses_right_before_it_would_act(how: str, status: str) -> None:
    def preflight(given: Any, ctx: Any, phase: str) -> Preflight:
        return Preflight(status="denied" if phase == "execute" else "ready", reason="too late")

    hooks = Hooks()
    made = deps(SENDS, send(preflight=preflight), approval_policy=Policy(required=how != "auto"))
    if how == "remembered":

        async def remembered(thread_id: str) -> list[str]:
            return ["send"]

        store: Any = made.store
        store.remembered_approvals = remembered

    events = events_of("tool-call", lambda: turn(made, hooks))

    assert (row_of(made, "send").status, row_of(made, "send").error) == (status, "too late")
    assert events == []
    assert [f["status"] for f in hooks.sink.frames("approval-settled")] == ([] if how == "auto" else ["approved"])


@pytest.mark.parametrize("phase", ["prepare", "execute"], ids=plain_id)
def test_a_preflight_that_completes_the_call_runs_nothing(phase: str) -> None:
    ran: list[Any] = []

    def preflight(given: Any, ctx: Any, now: str) -> Any:
        return Preflight(status="completed", output="was done") if now == phase else None

    hooks = Hooks()
    present = {"present": lambda output, ctx: {"component": "Card", "props": {"is": output}}}
    made = deps(SENDS, send(lambda i, c: ran.append(i), preflight=preflight, **present))
    turn(made, hooks)

    row = row_of(made, "send")
    assert (row.status, row.output, ran) == ("executed", "was done", [])
    assert len(hooks.waits) == (0 if phase == "prepare" else 1)
    assert [f["props"] for f in hooks.sink.frames("ui")] == [{"is": "was done"}]


def test_the_wording_of_the_preflight_is_on_the_card_and_the_row() -> None:
    hooks = Hooks()
    wording = {"title": "Send to bob?", "verb": "Send"}
    made = deps(SENDS, send(preflight=lambda i, c, p: Preflight(confirmation=wording)))
    turn(made, hooks)

    assert hooks.sink.frames("approval-requested")[0]["confirmation"] == wording
    assert row_of(made, "send").confirmation == wording


@pytest.mark.parametrize(
    "said",
    [Preflight(status="completed", output=object()), Preflight(confirmation={"x": object()})],
    ids=["output", "confirmation"],
)
def test_a_preflight_that_gives_no_json_is_a_failure_of_the_tool(said: Preflight) -> None:
    hooks = Hooks()
    made = deps(SENDS, send(preflight=lambda i, c, p: said))

    assert turn(made, hooks).text == "Done."
    assert row_of(made, "send").status == "failed"
    assert hooks.waits == []


# -- edited arguments -----------------------------------------------------------------------------------


def test_edited_arguments_are_what_runs_what_is_on_record_and_what_the_model_is_told_of() -> None:
    model = ScriptedModel(SENDS)
    made = deps(model, send(lambda given, ctx: f"sent to {given['to']}"))
    turn(made, Hooks(decide=lambda call: Decision(approved=True, input={"to": "eve"})))

    row = row_of(made, "send")
    assert (row.input, row.output) == ({"to": "eve"}, "sent to eve")
    told = model.requests[1].messages[-1]
    assert told["toolCalls"][0]["input"] == {"to": "bob"}
    assert told["toolResults"][0]["output"]["input"] == {"to": "eve"}
    assert told["toolResults"][0]["output"]["output"] == "sent to eve"
    assert "editedInput" not in told["toolResults"][0]


def test_the_model_is_told_of_edited_arguments_in_later_turns_too() -> None:
    model = ScriptedModel([*SENDS, "Later."])
    made = deps(model, send())
    turn(made, Hooks(decide=lambda call: Decision(approved=True, input={"to": "eve"})))

    turn(made, Hooks(run_id="run-2"))

    assert model.requests[2].messages[1]["toolResults"][0]["output"]["input"] == {"to": "eve"}


def test_edited_arguments_are_judged_like_any() -> None:
    model = ScriptedModel(SENDS)
    made = deps(model, send(input=dict[str, str]))
    turn(made, Hooks(decide=lambda call: Decision(approved=True, input={"to": 5})))

    assert row_of(made, "send").status == "failed"
    error = model.requests[1].messages[-1]["toolResults"][0]["error"]
    assert "changed the arguments" in error
    assert '{"to":5}' in error
    assert "does not fit" in error
