"""Positions, replays and kills: contracts/agents.md §1.2, §4."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from loomnb.agents import AnswersReply, Decision, NonDeterminismError
from loomnb.agents.diagnostics import subscribe
from loomnb.agents.spi import OutputVerdict, Persona
from tests.agents.doubles import Finder, Prices, Quota
from tests.agents.looping import (
    Journal,
    Killed,
    Suspended,
    Throwing,
    answering,
    deps,
    everything_of,
    said,
    tool,
    turn,
    with_parallel,
)


class Pass:
    """A processor that changes nothing."""

    name = "pass"

    def process(self, given: Any, ctx: Any) -> Any:
        return given if hasattr(given, "system") else OutputVerdict()


USAGE = {"inputTokens": 3, "outputTokens": 2}
QUESTIONS = {"questions": [{"id": "goal", "question": "What for?"}]}


def everything(**more: Any) -> Any:
    """A turn with every part that needs nothing from elsewhere: two steps with tools, an approval, questions, and all passes."""

    def script(request: Any, n: int) -> Any:
        if request.output_schema is not None:
            return said("", object={"n": 1}, usage=USAGE)
        if request.system.startswith("Suggest"):
            return said('["More?"]', usage=USAGE)
        steps = [
            said("One.", ("look", {"at": 1}), ("see", {}), usage=USAGE, reasoning="hm"),
            said("Two.", ("send", {"to": "bob"}), ("ask", QUESTIONS), ("nothing", {}), usage=USAGE),
            said("Done.", usage=USAGE),
        ]
        return steps[n - 1]

    def look(given: Any, ctx: Any) -> Any:
        ctx.emit_ui("Card", {"at": given["at"]}, version=2)
        return {"seen": given["at"]}

    return deps(
        more.pop("model", script),
        tool("look", look),
        tool("see"),
        tool("send", kind="action"),
        **{
            "personas": [Persona(id="p", label="P")],
            "quota": Quota(1000),
            "retriever": Finder(),
            "pricing_store": Prices(),
            "intake": {"questions": [{"id": "who", "question": "For whom?"}]},
            "ask": True,
            "input_processors": [Pass()],
            "output_processors": [Pass()],
            "follow_ups_count": 2,
            "output_schema": dict[str, int],
            **more,
        },
    )


def journal(**more: Any) -> Any:
    runner = answering(Journal(**more), AnswersReply(answers={"who": ["me"], "goal": ["fun"]}, answered_by="ann"))
    runner.cancelled = lambda: False
    return with_parallel(runner)


ORDER = [
    "persona:resolve",
    "quota:check",
    "persist:user",
    "load:thread",
    "run:prompt-stages",
    "run:started-at",
    "persist:run:start",
    "retrieve",
    "pricing:list",
    "intake:ask",
    "tool:run-1:intake-run-1",
    "intake:answers",
    "cancel:check:0",
    "stream:step-start:0",
    "process:input:0",
    "llm:0",
    "process:output:0",
    "persist:usage:0",
    "quota:bump:0",
    "persist:assistant:0",
    "persist:retrieval:message-3",
    "cancel:tools:0",
    "persist:toolcall:call-look",
    "persist:toolcall:call-see",
    "tool:call-look",
    "tool:call-see",
    "persist:toolexec:call-look",
    "persist:toolexec:call-see",
    "stream:tool-outputs:0",
    "stream:step-finish:0",
    "cancel:check:1",
    "stream:step-start:1",
    "process:input:1",
    "llm:1",
    "process:output:1",
    "persist:usage:1",
    "quota:bump:1",
    "persist:assistant:1",
    "cancel:tools:1",
    "persist:toolcall:call-send",
    "persist:toolcall:call-ask",
    "persist:toolcall:call-nothing",
    "tool:run-1:call-send",
    "tool:call-send",
    "persist:toolexec:call-send",
    "stream:elicitation:call-ask",
    "tool:run-1:call-ask",
    "persist:toolexec:call-ask",
    "tool:call-nothing",
    "persist:toolfail:call-nothing",
    "stream:tool-outputs:1",
    "stream:step-finish:1",
    "cancel:check:2",
    "stream:step-start:2",
    "process:input:2",
    "llm:2",
    "process:output:2",
    "persist:usage:2",
    "quota:bump:2",
    "structured:2:0",
    "persist:usage:structured:2:0",
    "process:output:structured:2:0",
    "followups:2",
    "process:output:followups:2",
    "persist:usage:followups:2",
    "persist:assistant:2",
    "persist:structured:message-5",
    "stream:step-finish:2",
    "persist:title",
    "persist:run:end",
]


def test_a_turn_with_every_part_takes_exactly_these_checkpoints() -> None:
    runner = journal()
    turn(everything(), runner, persona="p")

    assert runner.names == ORDER


def told_while(run: Callable[[], Any]) -> tuple[Any, list[str]]:
    told: list[str] = []
    end = subscribe("*", lambda envelope: told.append(envelope["event"]))
    try:
        return run(), told
    finally:
        end()


def test_a_replay_elsewhere_calls_nobody_and_writes_nothing() -> None:
    runner = journal()
    made = everything()
    result = turn(made, runner, persona="p")
    before, lines = everything_of(made), list(runner.sink.lines)

    class Untouchable:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"The replay asked for {name}.")

    def throw(*args: Any) -> Any:
        raise AssertionError("The replay called it.")

    elsewhere = everything(
        model=Throwing(),
        system_prompt=throw,
        prompt_contributors=[throw],
        retriever=Untouchable(),
        pricing_store=Untouchable(),
        quota=Untouchable(),
        approval_policy=Untouchable(),
        personas=[],
        resolve_ui_catalog=throw,
        input_processors=[Throwing()],
        output_processors=[Throwing()],
        store=made.store,
    )
    elsewhere.registry = type(elsewhere.registry)()
    again = runner.again(decide=throw, cancelled=lambda: True)
    again.await_answers = answering(again, runner.reply).await_answers

    replayed, told = told_while(lambda: turn(elsewhere, again, persona="p"))

    assert replayed == result
    assert again.names == runner.names
    assert again.made == []
    assert again.sink.lines == lines
    assert everything_of(made) == before
    assert told == []


@pytest.mark.parametrize("at", range(len(ORDER)), ids=lambda at: f"{at:02}-{ORDER[at]}")
def test_a_kill_before_any_checkpoint_leaves_nothing_behind_that_differs(at: int) -> None:
    unbroken, whole = journal(), everything()
    expected = turn(whole, unbroken, persona="p")

    first, made = journal(dies_at=at), everything()
    with pytest.raises(Killed):
        turn(made, first, persona="p")
    again = first.again()

    assert turn(made, again, persona="p") == expected
    assert again.records == unbroken.records
    assert again.sink.frames() == unbroken.sink.frames()
    assert everything_of(made) == everything_of(whole)


@pytest.mark.case("agents:E02")
def test_a_divergence_is_raised_as_it_is_and_takes_no_further_checkpoint() -> None:
    plain = Journal()
    one = deps([[("look", {})], "Done."], tool("look"))
    turn(one, plain)
    at = plain.names.index("tool:call-0-look")
    plain.records[at] = ("tool:other", plain.records[at][1])
    replay = plain.again()
    with pytest.raises(NonDeterminismError) as caught:
        turn(one, replay)

    assert (caught.value.position, caught.value.expected, caught.value.found) == (at, "tool:other", "tool:call-0-look")
    assert replay.names[-1] == "tool:call-0-look"


@pytest.mark.case("agents:E04")
def test_gates_and_a_schema_take_their_positions() -> None:
    runner = Journal()
    made = deps(
        lambda request, n: '{"a": 1}' if request.output_schema else [[("look", {})], "Done."][n],
        tool("look"),
        input_processors=[Pass()],
        output_processors=[Pass()],
        output_schema=dict[str, int],
    )
    result = turn(made, runner)

    gates = [n for n in runner.names if n.startswith("process:")]
    assert gates == [
        "process:input:0",
        "process:output:0",
        "process:input:1",
        "process:output:1",
        "process:output:structured:1:0",
    ]
    at = runner.names.index("process:output:1")
    rest = [name.rsplit(":message", 1)[0] for name in runner.names[at + 1 :]]
    assert rest == [
        "persist:usage:1",
        "structured:1:0",
        "persist:usage:structured:1:0",
        "process:output:structured:1:0",
        "persist:assistant:1",
        "persist:structured",
        "stream:step-finish:1",
        "persist:title",
        "persist:run:end",
    ]
    elsewhere = deps(Throwing(), input_processors=[Pass()], output_processors=[Pass()], output_schema=dict[str, int])
    assert turn(elsewhere, runner.again()) == result


def test_without_prompt_stages_an_older_run_keeps_its_shape() -> None:
    runner = Journal(patched=lambda name: name != "agent:prompt-stages")
    turn(deps(["Hi."]), runner)

    assert "run:prompt-stages" not in runner.names


def test_a_stage_that_is_switched_on_meanwhile_does_not_shift_a_run_that_waits() -> None:
    first = Journal(suspends={"tool:run-1:call-0-send"})
    made = deps([[("send", {})], "Done."], tool("send", kind="action"))
    with pytest.raises(Suspended):
        turn(made, first)
    made.retriever = Finder()

    again = first.again()
    assert turn(made, again).text == "Done."
    assert "retrieve" not in again.names


def test_nothing_is_written_to_the_stream_outside_a_checkpoint() -> None:
    runner = journal()
    inside: list[int] = []
    plain_step = runner.step

    async def step(name: str, fn: Any) -> Any:
        async def counted() -> Any:
            before = len(runner.sink.lines)
            value = await fn()
            inside.append(len(runner.sink.lines) - before)
            return value

        return await plain_step(name, counted)

    runner.step = step
    runner.parallel = None
    turn(everything(), runner, persona="p")

    assert sum(inside) == len(runner.sink.lines)


def test_journaled_values_are_plain_json() -> None:
    runner = journal()
    runner.decide = lambda call: Decision(approved=True, decided_by="ann")
    turn(everything(), runner, persona="p")

    assert all(json.loads(value) is not ... for _, value in runner.records)
