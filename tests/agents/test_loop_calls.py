"""How calls are announced and named, and what is no failure of a tool: contracts/agents.md §1.4, §4."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loomnb.agents import AgentTurnInput, run_agent_loop
from loomnb.testing import ScriptedModel
from tests.agents.looping import ANN, Hooks, Journal, Suspended, Writes, deps, messages_of, row_of, said, tool, turn
from tests.helpers import plain_id


def boom(given: Any, ctx: Any) -> Any:
    raise ValueError("the disk is full")


def test_ids_that_the_thread_has_already_become_the_calls_own_everywhere() -> None:
    async def script(request: Any, n: int) -> Any:
        if n == 2:
            return "Done."
        for kind in ("tool-input-start", "tool-input-delta"):
            extra = '"name":"look"' if kind == "tool-input-start" else '"delta":"{}"'
            await request.sink.write(f'{{"kind":"{kind}","id":"call-look",{extra}}}\n')
        return said("", ("look", {"n": n}))

    hooks = Hooks()
    model = Writes(script)
    made = deps(model, tool("look", lambda given, ctx: given["n"]))

    turn(made, hooks)

    calls = [m["toolCalls"][0]["id"] for m in messages_of(made) if m.get("toolCalls")]
    assert calls[0] == "call-look"
    assert calls[1] != "call-look"
    assert [f["id"] for f in hooks.sink.frames("tool-input-start")] == calls
    assert [f["id"] for f in hooks.sink.frames("tool-input-delta")] == calls
    assert [(f["id"], f["output"]) for f in hooks.sink.frames("tool-output")] == [(calls[0], 0), (calls[1], 1)]
    told = [m for m in model.requests[2].messages if m["role"] == "assistant"]
    assert [m["toolCalls"][0]["id"] for m in told] == [m["toolResults"][0]["id"] for m in told] == calls


def test_calls_without_an_id_or_with_the_same_one_get_their_own() -> None:
    calls = [said("", ("look", {"n": 0}), ("look", {"n": 1}), ("look", {"n": 2})), "Done."]
    model = ScriptedModel(calls)
    made = deps(model, tool("look", lambda given, ctx: given["n"]))

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
    turn(deps(Writes(script), tool("send", kind="action"), tool("look")), hooks)

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
    turn(deps(Writes(script), tool("look")), hooks)

    assert [f["text"] for f in hooks.sink.frames("text")] == ["Look", "ing.", "Done."]


def test_a_signal_of_the_runner_passes_through_a_tool_untouched() -> None:
    signal = Suspended("wait")

    def suspend(given: Any, ctx: Any) -> Any:
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

    def diverge(given: Any, ctx: Any) -> Any:
        raise NonDeterminismError

    with pytest.raises(NonDeterminismError):
        turn(deps([[("look", {})], "Hm."], tool("look", diverge)))


def test_a_tool_that_cancels_itself_has_failed_and_the_turn_goes_on() -> None:
    async def cancel(given: Any, ctx: Any) -> Any:
        raise asyncio.CancelledError

    made = deps([[("look", {})], "Hm."], tool("look", cancel))

    assert turn(made).text == "Hm."
    assert row_of(made, "look").status == "failed"


def test_a_cancel_of_the_turns_own_task_ends_it() -> None:
    begun: list[asyncio.Event] = []

    async def wait(given: Any, ctx: Any) -> Any:
        begun[0].set()
        await asyncio.Event().wait()

    made = deps([[("look", {})], "Hm."], tool("look", wait))

    async def main() -> None:
        begun.append(asyncio.Event())
        await made.store.create_thread(actor=ANN, id="t1")
        given = AgentTurnInput(thread_id="t1", actor=ANN, user_text="Hello")
        running = asyncio.ensure_future(run_agent_loop(made, given, Hooks()))
        await begun[0].wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert row_of(made, "look").status == "auto_executed"


def test_half_a_surrogate_pair_in_a_streamed_input_stays_an_escape() -> None:
    async def script(request: Any, n: int) -> Any:
        if n:
            return "Done."
        await request.sink.write('{"kind":"tool-input-start","id":"call-look","name":"look\\ud800"}\n')
        return said("", ("look", {}))

    hooks = Hooks()
    turn(deps(Writes(script), tool("look")), hooks)

    "".join(hooks.sink.lines).encode()
    assert hooks.sink.frames("tool-input-start")[0]["name"] == "look\ud800"


def test_two_streamed_calls_of_one_id_are_two_calls() -> None:
    async def script(request: Any, n: int) -> Any:
        if n:
            return "Done."
        for number in (1, 2):
            await request.sink.write('{"kind":"tool-input-start","id":"call-look","name":"look"}')
            await request.sink.write(f'{{"kind":"tool-input-delta","id":"call-look","delta":"{number}"}}')
        return said("", ("look", {"n": 1}), ("look", {"n": 2}))

    hooks = Hooks()
    made = deps(Writes(script), tool("look", lambda given, ctx: given["n"]))
    turn(made, hooks)

    deltas = {f["id"]: f["delta"] for f in hooks.sink.frames("tool-input-delta")}
    outputs = {f["id"]: str(f["output"]) for f in hooks.sink.frames("tool-output")}
    assert len(deltas) == 2
    assert deltas == outputs


@pytest.mark.case("agents:U16")
@pytest.mark.parametrize(
    ("hides", "told"),
    [
        ({"describe": lambda scope: {"available": False}}, "There is no tool"),
        ({"enabled": False}, "is switched off"),
        ({"roles": ["admin"]}, "may not be used here"),
    ],
    ids=["hidden", "disabled", "of others"],
)
def test_an_action_that_was_not_offered_is_refused_for_its_own_reason(hides: dict[str, Any], told: str) -> None:
    made = deps([said("", ("send", {})), "Done."], tool("send", boom, kind="action", **hides))
    hooks = Hooks()

    turn(made, hooks)

    assert told in row_of(made, "send").error
    assert (row_of(made, "send").status, hooks.waits) == ("failed", [])
