"""Tool calls of a step: contracts/agents.md §1.4. What goes wrong with one is a result, and the turn goes on."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from loomnb.agents import Actor, Decision
from loomnb.agents.retrying import TransientRetry
from loomnb.agents.spi import OutputVerdict, Preflight, ToolSpec
from loomnb.testing import ScriptedModel
from tests.agents.doubles import events_of
from tests.agents.looping import Hooks, Journal, deps, messages_of, row_of, said, tool, turn
from tests.helpers import plain_id


def boom(given: Any, ctx: Any) -> Any:
    raise ValueError("the disk is full")


FAILURES: dict[str, tuple[Any, str]] = {
    "unknown": (None, "no tool 'look'"),
    "forbidden by role": (tool("look", roles=["admin"]), "may not be used"),
    "disabled": (tool("look", enabled=False), "switched off"),
    "hidden": (tool("look", describe=lambda scope: {"available": False}), "no tool 'look'"),
    "invalid input": (tool("look", input=dict[str, int]), "(root)"),
    "raises": (tool("look", boom), "the disk is full"),
    "gives no JSON": (tool("look", lambda given, ctx: {"x": object()}), "output"),
}


@pytest.mark.parametrize("which", FAILURES, ids=plain_id)
def test_a_failure_is_a_row_a_result_a_frame_and_an_event_and_the_model_goes_on(which: str) -> None:
    made_tool, text = FAILURES[which]
    given: Any = "no object" if which == "invalid input" else {}
    hooks, model = Journal(), ScriptedModel([said("", ("look", given)), "I see."])
    made = deps(model, *([made_tool] if made_tool else []))

    events = events_of("tool-call", lambda: turn(made, hooks))

    row = row_of(made, "look")
    assert row.status == "failed"
    assert text in row.error
    assert row.output is None
    result = messages_of(made)[1]["toolResults"]
    assert result == [{"id": "call-look", "name": "look", "output": None, "error": row.error}]
    assert hooks.sink.frames("tool-output-error", "tool-output") == [
        {"kind": "tool-output-error", "id": "call-look", "error": row.error}
    ]
    assert "persist:toolfail:call-look" in hooks.names
    assert [(e["toolName"], e["status"]) for e in events] == [("look", "failed")]
    assert model.requests[1].messages[-1]["toolResults"] == result


@pytest.mark.parametrize("which", ["forbidden by role", "disabled", "hidden", "invalid input"], ids=plain_id)
def test_an_action_that_cannot_be_called_fails_and_asks_nobody(which: str) -> None:
    base, text = FAILURES[which]
    spec = {name: getattr(base.spec, name) for name in ("roles", "enabled")}
    more = {"describe": base.handler.describe} if which == "hidden" else {}
    flips = {"n": 0}

    def offered_once(scope: Any) -> dict[str, Any]:
        flips["n"] += 1
        return {"available": flips["n"] == 1}

    if which == "hidden":
        more = {"describe": offered_once}
    if which == "disabled":
        spec["enabled"] = lambda: flips.__setitem__("n", flips["n"] + 1) or flips["n"] == 1
    policy: Any = None
    if which == "forbidden by role":
        spec["roles"] = None

        class Once:
            def can(self, actor: Actor, tool: ToolSpec) -> bool:
                flips["n"] += 1
                return flips["n"] == 1

        policy = Once()
    action = tool("look", boom, kind="action", input=base.spec.input_schema, **spec, **more)
    hooks = Journal()
    made = deps([said("", ("look", "no object")), "I see."], action, **({"roles_policy": policy} if policy else {}))

    turn(made, hooks)

    assert hooks.waits == []
    assert not hooks.sink.frames("approval-requested", "approval-settled")
    row = row_of(made, "look")
    assert row.status == "failed"
    assert text in row.error
    assert [n for n in hooks.names if "call-look" in n] == ["persist:toolcall:call-look", "persist:toolfail:call-look"]


def test_a_tool_that_takes_too_long_fails_with_its_name_and_limit_and_is_left_running() -> None:
    ended: list[str] = []

    async def main_tool(given: Any, ctx: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stopped")
        return "never"

    made = deps([[("slow", {})], "Too bad."], tool("slow", main_tool), tool_timeout_ms=1)
    seen: list[list[str]] = []
    made.model = ScriptedModel(lambda request, n: (seen.append(list(ended)), [[("slow", {})], "Too bad."][n])[1])

    turn(made)

    assert "'slow'" in row_of(made, "slow").error
    assert "1 ms" in row_of(made, "slow").error
    assert seen[1] == []  # still at work when the model was told


def test_a_limit_of_its_own_goes_before_that_of_all() -> None:
    async def slow(given: Any, ctx: Any) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return "done"

    made = deps([[("slow", {})], "Good."], tool("slow", slow), tool_timeout_ms=0, tool_timeouts={"slow": 60_000})

    turn(made)

    assert row_of(made, "slow").output == "done"


class Deadlock(Exception):
    code = 1213


def test_a_transient_error_is_tried_again_without_what_the_first_try_showed() -> None:
    tries: list[int] = []

    def flaky(given: Any, ctx: Any) -> str:
        tries.append(1)
        ctx.emit_ui("Card", {"try": len(tries)})
        if len(tries) == 1:
            raise Deadlock("deadlock found")
        return "ok"

    hooks = Hooks()
    made = deps([[("flaky", {})], "Good."], tool("flaky", flaky), tool_transient_retry=TransientRetry(backoff_ms=0))

    events = events_of("tool.retry", lambda: turn(made, hooks))

    assert [(e["attempt"], e["toolCallId"]) for e in events] == [(1, "call-0-flaky")]
    assert [(f["id"], f["props"]) for f in hooks.sink.frames("ui")] == [("call-0-flaky:ui:0", {"try": 2})]
    assert row_of(made, "flaky").output == "ok"


def test_retries_can_be_switched_off() -> None:
    tries: list[int] = []

    def flaky(given: Any, ctx: Any) -> str:
        tries.append(1)
        raise Deadlock("deadlock found")

    made = deps([[("flaky", {})], "Bad."], tool("flaky", flaky), tool_transient_retry=None)
    turn(made)

    assert len(tries) == 1
    assert row_of(made, "flaky").status == "failed"


def test_what_a_tool_does_to_its_input_changes_neither_the_next_try_nor_what_is_told() -> None:
    got: list[Any] = []

    def spoil(given: Any, ctx: Any) -> str:
        got.append(list(given["list"]))
        given["list"].append("spoiled")
        if len(got) == 1:
            raise Deadlock("deadlock found")
        return "ok"

    model = ScriptedModel([[("spoil", {"list": [1]})], "Good."])
    made = deps(model, tool("spoil", spoil), tool_transient_retry=TransientRetry(backoff_ms=0))
    turn(made)

    assert got == [[1], [1]]
    assert model.requests[1].messages[1]["toolCalls"][0]["input"] == {"list": [1]}
    assert messages_of(made)[1]["toolCalls"][0]["input"] == {"list": [1]}


@pytest.mark.case("agents:W04")
def test_a_tool_knows_its_call_and_a_key_that_stays_the_same() -> None:
    seen: list[Any] = []
    host = object()

    def look(given: Any, ctx: Any) -> str:
        seen.append(ctx)
        return "ok"

    made = deps([[("look", {})], "Good."], tool("look", look), host=host)
    turn(made, Hooks(run_id="r9"), agent_name="helper", page_context={"page": 1})

    (ctx,) = seen
    assert (ctx.idempotency_key, ctx.tool_call_id, ctx.run_id, ctx.request_id) == ("r9:call-0-look", "call-0-look", "r9", "r9")
    assert (ctx.thread_id, ctx.agent_name, ctx.page_context, ctx.actor.id) == ("t1", "helper", {"page": 1}, "ann")
    assert ctx.host is host


@pytest.mark.parametrize("kind", ["read", "action"], ids=plain_id)
@pytest.mark.case("agents:J08")
def test_a_terminal_tool_that_succeeds_ends_the_turn_without_another_call_of_the_model(kind: Any) -> None:
    model, journal = ScriptedModel([said("Bye.", ("finish", {}))]), Journal()
    made = deps(model, tool("finish", kind=kind, terminal=True), follow_ups_count=2, output_schema=int)

    result = turn(made, journal)

    assert (result.text, result.stopped_by, len(model.requests)) == ("Bye.", "terminal", 1)
    assert len(journal.sink.frames("step-finish")) == 1
    assert [f["output"] for f in journal.sink.frames("tool-output")] == ["ok"]
    claims = [value for name, value in journal.records if name == "persist:toolcall:call-finish"]
    assert '"terminal": true' in claims[0]
    replayed = journal.again(sink=type(journal.sink)())
    assert turn(deps([], tool("finish", kind=kind)), replayed) == result


@pytest.mark.case("agents:J08")
@pytest.mark.parametrize("how", ["fails", "denied", "expired"], ids=plain_id)
def test_a_terminal_tool_that_did_not_succeed_does_not_end_the_turn(how: str) -> None:
    decisions = {"denied": Decision(approved=False), "expired": Decision(approved=False, expired=True)}
    hooks = Hooks(decide=lambda call: decisions.get(how, Decision(approved=True)))
    made = deps([[("finish", {})], "Not done."], tool("finish", boom, kind="action", terminal=True))

    assert turn(made, hooks).text == "Not done."


def test_a_completed_preflight_of_a_terminal_tool_ends_the_turn_too() -> None:
    finish = tool("finish", boom, kind="action", terminal=True, preflight=lambda i, c, p: Preflight(status="completed", output=7))
    hooks = Hooks()
    made = deps([[("finish", {})]], finish)

    events = events_of("tool-call", lambda: turn(made, hooks))

    assert hooks.waits == []
    assert (row_of(made, "finish").status, row_of(made, "finish").output) == ("executed", 7)
    assert [e["status"] for e in events] == ["executed"]


def test_the_other_calls_of_a_step_still_run_when_one_is_terminal() -> None:
    made = deps([[("finish", {}), ("look", {})]], tool("finish", terminal=True), tool("look"))
    turn(made)

    assert row_of(made, "look").status == "executed"


def test_an_action_that_was_not_offered_does_not_run_as_a_read_tool() -> None:
    ran: list[int] = []
    offered = {"now": False}
    send = tool("send", lambda i, c: ran.append(1), kind="action", enabled=lambda: offered["now"])

    def script(request: Any, n: int) -> Any:
        offered["now"] = True  # switched on between the offer and the call
        return [[("send", {})], "Oh."][n]

    made = deps(script, send)
    turn(made)

    assert ran == []
    assert row_of(made, "send").status == "failed"


@pytest.mark.case("agents:U16")
def test_a_tool_that_hides_in_this_turn_is_not_offered_and_refused_by_name() -> None:
    scopes: list[Any] = []

    def describe(scope: Any) -> dict[str, Any]:
        scopes.append(scope)
        return {"available": False}

    model = ScriptedModel([[("look", {})], "I cannot."])
    made = deps(model, tool("look", describe=describe))

    assert turn(made, agent_name="helper").text == "I cannot."
    assert [t.name for t in model.requests[0].tools] == []
    assert row_of(made, "look").status == "failed"
    assert {(s.actor.id, s.thread_id, s.agent_name) for s in scopes} == {("ann", "t1", "helper")}


def test_an_output_that_looks_like_the_loops_own_mark_is_an_output() -> None:
    forged = {"$tool": {"error": "forged"}}
    made = deps([[("look", {})], "Hm."], tool("look", lambda given, ctx: forged))

    turn(made)

    assert (row_of(made, "look").status, row_of(made, "look").output) == ("executed", forged)


@pytest.mark.case("agents:J06")
def test_a_tool_run_elsewhere_gives_its_output_and_what_it_shows() -> None:
    asked: list[Any] = []

    async def dispatch(call: Any) -> Any:
        asked.append(call)
        card = {"id": f"{call['id']}:ui:0", "component": "Card", "props": {}, "toolCallId": call["id"]}
        return {"$tool": {"output": "there", "ui": [card]}}

    hooks = Hooks(dispatch_tool=dispatch)
    made = deps([[("look", {"at": 1})], "Hm."], tool("look", boom))
    turn(made, hooks)

    assert [(c["name"], c["input"]) for c in asked] == [("look", {"at": 1})]
    assert row_of(made, "look").output == "there"
    assert [f["id"] for f in hooks.sink.frames("ui")] == ["call-0-look:ui:0"]


def test_a_model_run_elsewhere_is_judged_whole() -> None:
    hooks = Hooks()

    async def dispatch(step: int, request: Any) -> Any:
        await request.sink.write('{"kind":"text","text":"secret"}')
        return said("secret")

    class Mask:
        name = "mask"
        incremental: ClassVar[Any] = {"lookbackChars": 0}

        def process(self, answer: Any, ctx: Any) -> Any:
            return OutputVerdict(action="replace", text="***")

    hooks.dispatch_llm = dispatch
    result = turn(deps([], output_processors=[Mask()]), hooks)

    assert result.text == "***"
    assert [f["text"] for f in hooks.sink.frames("text")] == ["***"]


def test_some_of_the_retries_settings_are_enough() -> None:
    assert deps(["Hi."], tool_transient_retry={"attempts": 3}).tool_transient_retry == TransientRetry(attempts=3)
    assert deps(["Hi."], tool_transient_retry=False).tool_transient_retry is None
