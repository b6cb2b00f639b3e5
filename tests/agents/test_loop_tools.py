"""Tool calls of a step: contracts/agents.md §1.4. What goes wrong with one is a result, and the turn goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from loomnb.agents import Actor, AgentTurnInput, Decision, run_agent_loop
from loomnb.agents.diagnostics import subscribe
from loomnb.agents.retrying import TransientRetry
from loomnb.agents.spi import OutputVerdict, Preflight, ToolSpec
from loomnb.testing import ScriptedModel
from tests.agents.looping import ANN, Hooks, Journal, Suspended, deps, messages_of, row_of, said, tool, turn
from tests.helpers import plain_id


def events_of(event: str, run: Any) -> list[dict[str, Any]]:
    """What was told while something ran."""
    told: list[dict[str, Any]] = []
    end = subscribe(event, lambda envelope: told.append(dict(envelope["payload"])))
    try:
        run()
    finally:
        end()
    return told


def boom(input: Any, ctx: Any) -> Any:
    raise ValueError("the disk is full")


FAILURES: dict[str, tuple[Any, str]] = {
    "unknown": (None, "no tool 'look'"),
    "forbidden by role": (tool("look", roles=["admin"]), "may not be used"),
    "disabled": (tool("look", enabled=False), "switched off"),
    "hidden": (tool("look", describe=lambda scope: {"available": False}), "no tool 'look'"),
    "invalid input": (tool("look", input=dict[str, int]), "(root)"),
    "raises": (tool("look", boom), "the disk is full"),
    "gives no JSON": (tool("look", lambda input, ctx: {"x": object()}), "output"),
}


@pytest.mark.parametrize("which", FAILURES, ids=plain_id)
def test_a_failure_is_a_row_a_result_a_frame_and_an_event_and_the_model_goes_on(which: str) -> None:
    made_tool, text = FAILURES[which]
    given: Any = "no object" if which == "invalid input" else {}
    hooks, model = Journal(), ScriptedModel([said("", ("look", given)), "I see."])
    made = deps(model, *([made_tool] if made_tool else []))

    events = events_of("tool-call", lambda: turn(made, hooks))

    row = row_of(made, "look")
    assert row.status == "failed" and text in row.error and row.output is None
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
    assert row.status == "failed" and text in row.error
    assert [n for n in hooks.names if "call-look" in n] == ["persist:toolcall:call-look", "persist:toolfail:call-look"]


def test_a_tool_that_takes_too_long_fails_with_its_name_and_limit_and_is_left_running() -> None:
    ended: list[str] = []

    async def main_tool(input: Any, ctx: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stopped")
        return "never"

    made = deps([[("slow", {})], "Too bad."], tool("slow", main_tool), tool_timeout_ms=1)
    seen: list[list[str]] = []
    made.model = ScriptedModel(lambda request, n: (seen.append(list(ended)), [[("slow", {})], "Too bad."][n])[1])

    turn(made)

    assert "'slow'" in row_of(made, "slow").error and "1 ms" in row_of(made, "slow").error
    assert seen[1] == []  # still at work when the model was told


def test_a_limit_of_its_own_goes_before_that_of_all() -> None:
    async def slow(input: Any, ctx: Any) -> str:
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

    def flaky(input: Any, ctx: Any) -> str:
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

    def flaky(input: Any, ctx: Any) -> str:
        tries.append(1)
        raise Deadlock("deadlock found")

    made = deps([[("flaky", {})], "Bad."], tool("flaky", flaky), tool_transient_retry=None)
    turn(made)

    assert len(tries) == 1 and row_of(made, "flaky").status == "failed"


def test_what_a_tool_does_to_its_input_changes_neither_the_next_try_nor_what_is_told() -> None:
    got: list[Any] = []

    def spoil(input: Any, ctx: Any) -> str:
        got.append(list(input["list"]))
        input["list"].append("spoiled")
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

    def look(input: Any, ctx: Any) -> str:
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


def test_ids_that_the_thread_has_already_become_the_calls_own_everywhere() -> None:
    async def script(request: Any, n: int) -> Any:
        if n == 2:
            return "Done."
        for kind in ("tool-input-start", "tool-input-delta"):
            extra = '"name":"look"' if kind == "tool-input-start" else '"delta":"{}"'
            await request.sink.write(f'{{"kind":"{kind}","id":"call-look",{extra}}}\n')
        return said("", ("look", {"n": n}))

    hooks = Hooks()
    model = ScriptedModel(script)
    made = deps(model, tool("look", lambda input, ctx: input["n"]))

    turn(made, hooks)

    calls = [m["toolCalls"][0]["id"] for m in messages_of(made) if m.get("toolCalls")]
    assert calls[0] == "call-look" and calls[1] != "call-look"
    assert [f["id"] for f in hooks.sink.frames("tool-input-start")] == calls
    assert [f["id"] for f in hooks.sink.frames("tool-input-delta")] == calls
    assert [(f["id"], f["output"]) for f in hooks.sink.frames("tool-output")] == [(calls[0], 0), (calls[1], 1)]
    told = [m for m in model.requests[2].messages if m["role"] == "assistant"]
    assert [m["toolCalls"][0]["id"] for m in told] == [m["toolResults"][0]["id"] for m in told] == calls


def test_calls_without_an_id_or_with_the_same_one_get_their_own() -> None:
    calls = [said("", ("look", {"n": 0}), ("look", {"n": 1}), ("look", {"n": 2})), "Done."]
    model = ScriptedModel(calls)
    made = deps(model, tool("look", lambda input, ctx: input["n"]))

    turn(made)

    results = messages_of(made)[1]["toolResults"]
    assert [r["output"] for r in results] == [0, 1, 2]
    assert len({r["id"] for r in results}) == 3


def test_a_call_is_announced_before_its_outcome_with_the_kind_it_was_offered_as() -> None:
    async def script(request: Any, n: int) -> Any:
        if n:
            return "Done."
        await request.sink.write('{"kind":"tool-input-start","id":"call-send","name":"send"}\n')
        return said("", ("send", {"to": "bob"}), ("look", {}))

    hooks = Hooks()
    turn(deps(script, tool("send", kind="action"), tool("look")), hooks)

    frames = hooks.sink.frames("tool-input-start", "tool-input-available", "approval-requested", "tool-output")
    assert [(f["kind"], f["id"], f.get("toolKind")) for f in frames] == [
        ("tool-input-start", "call-send", "action"),
        ("tool-input-available", "call-send", "action"),
        ("tool-input-available", "call-look", "read"),
        ("approval-requested", "call-send", None),
        ("tool-output", "call-send", None),
        ("tool-output", "call-look", None),
    ]


def test_a_text_that_the_provider_did_not_stream_is_written_once() -> None:
    async def script(request: Any, n: int) -> Any:
        if n == 0:
            await request.sink.write('{"kind":"text","text":"Look"}\n{"kind":"text","text":"ing."}\n')
            return said("Looking.", ("look", {}))
        return "Done."

    hooks = Hooks()
    turn(deps(script, tool("look")), hooks)

    assert [f["text"] for f in hooks.sink.frames("text")] == ["Look", "ing.", "Done."]


def test_an_output_that_looks_like_the_loops_own_mark_is_an_output() -> None:
    forged = {"$tool": {"error": "forged"}}
    made = deps([[("look", {})], "Hm."], tool("look", lambda input, ctx: forged))

    turn(made)

    assert (row_of(made, "look").status, row_of(made, "look").output) == ("executed", forged)


def test_a_signal_of_the_runner_passes_through_a_tool_untouched() -> None:
    signal = Suspended("wait")

    def suspend(input: Any, ctx: Any) -> Any:
        raise signal

    journal = Journal()
    made = deps([[("look", {})], "Hm."], tool("look", suspend))
    with pytest.raises(Suspended) as caught:
        turn(made, journal)

    assert caught.value is signal
    assert row_of(made, "look").status == "auto_executed"
    assert not [n for n in journal.names if n.startswith("persist:tool") and "toolcall" not in n]


@pytest.mark.parametrize("where", ["preflight", "execute"], ids=plain_id)
def test_a_runner_may_know_more_signals(where: str) -> None:
    class Mine(Exception): ...

    def signal(*args: Any) -> Any:
        raise Mine

    hooks: Any = Hooks()
    hooks.is_control_flow_error = lambda exc: isinstance(exc, Mine)
    made = deps([[("send", {})], "Hm."], tool("send", kind="action", **{where: signal}))
    with pytest.raises(Mine):
        turn(made, hooks)


def test_a_divergence_passes_through_a_tool_untouched() -> None:
    class NonDeterminismError(Exception): ...

    def diverge(input: Any, ctx: Any) -> Any:
        raise NonDeterminismError

    with pytest.raises(NonDeterminismError):
        turn(deps([[("look", {})], "Hm."], tool("look", diverge)))


def test_a_tool_that_cancels_itself_has_failed_and_the_turn_goes_on() -> None:
    async def cancel(input: Any, ctx: Any) -> Any:
        raise asyncio.CancelledError

    made = deps([[("look", {})], "Hm."], tool("look", cancel))

    assert turn(made).text == "Hm."
    assert row_of(made, "look").status == "failed"


def test_a_cancel_of_the_turns_own_task_ends_it() -> None:
    begun = threading.Event()

    async def wait(input: Any, ctx: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    made = deps([[("look", {})], "Hm."], tool("look", wait))

    async def main() -> None:
        await made.store.create_thread(actor=ANN, id="t1")
        given = AgentTurnInput(thread_id="t1", actor=ANN, user_text="Hello")
        running = asyncio.ensure_future(run_agent_loop(made, given, Hooks()))
        while not begun.is_set():
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert row_of(made, "look").status == "auto_executed"


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
        incremental: Any = {"lookbackChars": 0}

        def process(self, answer: Any, ctx: Any) -> Any:
            return OutputVerdict(action="replace", text="***")

    hooks.dispatch_llm = dispatch
    result = turn(deps([], output_processors=[Mask()]), hooks)

    assert result.text == "***"
    assert [f["text"] for f in hooks.sink.frames("text")] == ["***"]
