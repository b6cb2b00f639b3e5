"""Calls side by side, and where a cancel is looked for: contracts/agents.md §1.4."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loomnb.agents import AnswersReply
from loomnb.agents.failures import RunCancelledError, agent_failure_code
from tests.agents.looping import (
    Hooks,
    Journal,
    Killed,
    Suspended,
    answering,
    deps,
    row_of,
    rows_of,
    said,
    tool,
    turn,
    with_parallel,
)
from tests.helpers import plain_id

QUESTIONS = {"questions": [{"id": "goal", "question": "What for?"}]}


# -- concurrency ------------------------------------------------------------------------------------------


def two_reads(**more: Any) -> Any:
    return deps([said("", ("a", {}), ("b", {})), "Done."], *(more.pop("tools", None) or (tool("a"), tool("b"))), **more)


def tool_positions(runner: Any) -> list[str]:
    return [n for n in runner.names if "call-a" in n or "call-b" in n]


CONCURRENT = [f"{what}:call-{name}" for what in ("persist:toolcall", "tool", "persist:toolexec") for name in "ab"]
SEQUENTIAL = [f"{what}:call-{name}" for name in "ab" for what in ("persist:toolcall", "tool", "persist:toolexec")]


@pytest.mark.case("agents:D02")
def test_reads_side_by_side_are_claimed_run_and_stored_in_the_order_of_their_calls() -> None:
    other = asyncio.Event()

    async def slow(given: Any, ctx: Any) -> str:
        await other.wait()
        return "a"

    async def quick(given: Any, ctx: Any) -> str:
        other.set()
        return "b"

    marks: list[str] = []
    runner = with_parallel(Journal(patched=lambda name: marks.append(name) or True))
    made = two_reads(tools=(tool("a", slow), tool("b", quick)))
    turn(made, runner)

    assert tool_positions(runner) == CONCURRENT
    assert marks.count("agent:parallel-tools") == 1
    assert [(row.tool_name, row.output) for row in rows_of(made)] == [("a", "a"), ("b", "b")]


@pytest.mark.case("agents:D03")
def test_when_one_of_two_waits_nothing_is_stored_of_the_other_and_outputs_keep_their_calls() -> None:
    first = with_parallel(Journal(suspends={"tool:call-b"}))
    made = two_reads(tools=(tool("a", lambda i, c: "of a"), tool("b", lambda i, c: "of b")))
    with pytest.raises(Suspended):
        turn(made, first)
    assert not [n for n in first.names if n.startswith("persist:toolexec")]

    again = first.again()
    turn(made, again)

    assert tool_positions(again) == CONCURRENT
    assert "tool:call-a" not in again.made
    assert [(row.tool_name, row.output) for row in rows_of(made)] == [("a", "of a"), ("b", "of b")]


@pytest.mark.case("agents:D04")
def test_without_concurrency_calls_are_made_one_by_one_and_no_mark_is_asked_for() -> None:
    marks: list[str] = []
    runner = Journal(patched=lambda name: marks.append(name) or True)
    turn(two_reads(), runner)

    assert tool_positions(runner) == SEQUENTIAL
    assert "agent:parallel-tools" not in marks


def test_a_single_call_is_made_plainly() -> None:
    marks: list[str] = []
    runner = with_parallel(Journal(patched=lambda name: marks.append(name) or True))
    turn(deps([[("look", {})], "Done."], tool("look")), runner)

    assert "agent:parallel-tools" not in marks


@pytest.mark.parametrize("other", ["action", "ask"], ids=plain_id)
def test_a_step_with_anything_but_reads_is_claimed_first_and_run_one_by_one(other: str) -> None:
    runner = answering(with_parallel(Journal()), AnswersReply(skipped=True))
    calls = [("a", {}), ("b", {}) if other == "action" else ("ask", QUESTIONS)]
    made = deps([said("", *calls), "Done."], tool("a"), tool("b", kind="action"), ask=True)
    turn(made, runner)

    names = [n for n in runner.names if "call-" in n]
    assert [n.split(":call-")[0] for n in names[:4]] == ["persist:toolcall", "persist:toolcall", "tool", "persist:toolexec"]


@pytest.mark.case("agents:D07")
def test_a_run_that_was_recorded_one_by_one_goes_on_so_in_a_process_that_could_do_more() -> None:
    first = Journal(patched=lambda name: name != "agent:parallel-tools", dies_at=ORDER_DIES)
    made = two_reads()
    with pytest.raises(Killed):
        turn(made, first)
    again = with_parallel(first.again())
    turn(made, again)

    assert tool_positions(again) == SEQUENTIAL


ORDER_DIES = 11  # within the tool calls of the first step


@pytest.mark.case("agents:D08")
def test_when_one_of_two_fails_the_other_is_stored_as_it_is() -> None:
    def boom(given: Any, ctx: Any) -> Any:
        raise ValueError("no")

    runner = with_parallel(Journal())
    made = two_reads(tools=(tool("a", boom), tool("b")))

    assert turn(made, runner).text == "Done."
    assert tool_positions(runner)[-2:] == ["persist:toolfail:call-a", "persist:toolexec:call-b"]
    assert (row_of(made, "a").status, row_of(made, "b").status) == ("failed", "executed")


def test_a_call_that_a_person_stopped_does_not_run_beside_others_either() -> None:
    ran: list[str] = []

    def ran_as(name: str) -> Any:
        return tool(name, lambda i, c: ran.append(name))

    runner = with_parallel(Hooks(await_repeat=lambda call, count: "Do not." if call["name"] == "a" else "continue"))
    turn(two_reads(tools=(ran_as("a"), ran_as("b")), repeat_guard=1), runner)

    assert ran == ["b"]


def test_when_a_person_stopped_every_call_of_a_step_nothing_runs() -> None:
    hooks = with_parallel(Hooks(await_repeat=lambda call, count: "Do not."))
    made = two_reads()
    made.repeat_guard = 1
    turn(made, hooks)

    assert [row.status for row in rows_of(made)] == ["failed", "failed"]


# -- cancellation -----------------------------------------------------------------------------------------


def two_steps() -> Any:
    return deps([[("look", {})], "Done."], tool("look"))


@pytest.mark.case("agents:F07")
def test_a_cancel_is_looked_for_at_two_places_of_a_step() -> None:
    runner = Journal(cancelled=lambda: False)
    turn(two_steps(), runner)

    assert [n for n in runner.names if n.startswith("cancel:")] == ["cancel:check:0", "cancel:tools:0", "cancel:check:1"]


@pytest.mark.case("agents:F04", "agents:F05")
@pytest.mark.parametrize("nth", [1, 2, 3], ids=plain_id)
def test_a_cancel_ends_the_turn_where_it_was_seen(nth: int) -> None:
    looks: list[int] = []

    def cancelled() -> bool:
        looks.append(1)
        return len(looks) == nth

    runner = Journal(cancelled=cancelled)
    made = two_steps()
    with pytest.raises(RunCancelledError) as caught:
        turn(made, runner)

    assert agent_failure_code(caught.value) == "cancelled"
    assert agent_failure_code(ValueError("x")) == "run_failed"
    assert runner.names[-1] == ["cancel:check:0", "cancel:tools:0", "cancel:check:1"][nth - 1]
    assert "persist:run:end" not in runner.names
    assert "persist:title" not in runner.names
    assert not runner.sink.ended
    assert len(rows_of(made)) == (1 if nth == 3 else 0)


@pytest.mark.case("agents:F06")
def test_what_was_seen_then_counts_and_not_what_is_wanted_now() -> None:
    runner = Journal(cancelled=lambda: False)
    result = turn(two_steps(), runner)

    assert turn(two_steps(), runner.again(cancelled=lambda: True)) == result


@pytest.mark.case("agents:F08")
@pytest.mark.parametrize("how", ["no hook", "not patched"], ids=plain_id)
def test_without_the_hook_or_the_newer_shape_nothing_is_looked_for(how: str) -> None:
    runner = Journal()
    if how == "not patched":
        runner.cancelled = lambda: True
        runner.patched = lambda name: name != "agent:cancellation"
    turn(two_steps(), runner)

    assert not [n for n in runner.names if n.startswith("cancel:")]


def test_without_a_cancel_hook_its_mark_is_not_asked_for() -> None:
    marks: list[str] = []
    turn(two_steps(), Journal(patched=lambda name: marks.append(name) or True))

    assert marks == ["agent:selected-history", "agent:prompt-stages"]
