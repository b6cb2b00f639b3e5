"""Turns of an agent on the journal: approvals, time limits, stops, failures, replays."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import Budget, HistorySelection, agent_store_of, agent_tool
from loomnb.agents.definition import streams_of
from loomnb.agents.spi import QuotaVerdict
from loomnb.runtime import TurnRequest
from loomnb.studio.agents import Agent
from loomnb.testing import Said, ScriptedModel, StillSource, at_rest
from tests.agents.doubles import events_of
from tests.agents.journaling import kernel, only_turn, sql, to_the_end
from tests.blueprints.recovering import Gate
from tests.helpers import PATIENCE, until


def say(*turns: Any) -> ScriptedModel:
    return ScriptedModel(list(turns))


@agent_tool(kind="action")
def send_mail(to: str) -> str:
    """Sends a mail."""
    return f"sent to {to}"


def mailing(session: loom.Loom, **options: Any) -> Agent:
    """An agent that mails, and says what came of it."""
    return Agent(say([("send_mail", {"to": "bob"})], "Done."), [send_mail], name="mailing", store=session, **options)


def frames(run: Any) -> list[dict[str, Any]]:
    """The frames of a run that goes on, until its stream ends."""

    async def read() -> list[dict[str, Any]]:
        return [json.loads(line) async for line in streams_of().subscribe(run.id)]

    return asyncio.run(asyncio.wait_for(read(), PATIENCE))


# -- approvals ---------------------------------------------------------------------------------------------


def test_an_open_approval_survives_a_restart_and_is_answered_there(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        run = mailing(session).run("Mail bob")
        at_rest(run)
        (before,) = run.pending
    with kernel(tmp_path / "s.duckdb") as session:
        mailing(session)
        run = only_turn(session)
        at_rest(run)
        (ask,) = run.pending
        assert (ask.id, ask.request) == (before.id, before.request)
        run.answer("send_mail", {"approved": True, "input": {"to": "eve"}})
        at_rest(run)

        assert run.status == "completed"
        assert sql(session, "select input, output, decided_by from tool_calls") == [('{"to":"eve"}', '"sent to eve"', "local")]


def test_an_open_approval_may_be_answered_though_the_tool_is_told_in_other_words_by_now(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        at_rest(mailing(session).run("Mail bob"))
    with kernel(tmp_path / "s.duckdb") as session:

        @agent_tool(name="send_mail", kind="action", description="Sends a letter, in an envelope.")
        def other_words(to: str, cc: str = "") -> str:
            return f"posted to {to}{cc}"

        Agent(say("", "Done."), [other_words], name="mailing", store=session)
        run = only_turn(session)
        at_rest(run)
        run.answer("send_mail", True)
        at_rest(run)

        assert run.status == "completed", run.record.view.failure
        assert sql(session, "select output from tool_calls") == [('"posted to bob"',)]


def test_a_tool_that_cancels_itself_has_failed_and_its_turn_goes_on(tmp_path: Path) -> None:
    async def give_up() -> str:
        """Gives up."""
        raise asyncio.CancelledError

    with kernel(tmp_path / "s.duckdb") as session:
        run = Agent(say([("give_up", {})], "Done."), [give_up], name="giving_up", store=session).run("Go")
        at_rest(run)

        assert run.status == "completed"
        assert sql(session, "select status from tool_calls") == [("failed",)]


def test_without_its_agent_an_answer_is_refused_and_says_what_to_run(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        at_rest(mailing(session).run("Mail bob"))
    with kernel(tmp_path / "s.duckdb") as session:
        run = only_turn(session)
        with pytest.raises(loom.LoomError, match="mailing"):
            run.answer("send_mail", True)

        assert [ask.name for ask in run.pending] == ["send_mail"]


def test_a_bad_change_of_the_arguments_is_refused_and_the_question_stays(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        run = mailing(session).run("Mail bob")
        at_rest(run)
        with pytest.raises(loom.AnswerInvalid):
            run.answer("send_mail", {"approved": True, "input": {"to": 5}})
        at_rest(run)

        assert [ask.name for ask in run.pending] == ["send_mail"]
        assert to_the_end(run, {"send_mail": True}).status == "completed"


def test_an_approval_expires_in_its_time(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        run = mailing(session, approval_ttl=0.05).run("Mail bob")
        until(run, lambda: run.status == "completed")

        assert sql(session, "select status, decided_by, output from tool_calls") == [("expired", None, None)]
        assert sql(session, "select source from answers") == [("expiry",)]


def test_an_approval_expires_also_when_its_kernel_is_gone(tmp_path: Path) -> None:
    source = StillSource()
    with kernel(tmp_path / "s.duckdb", source=source) as session:
        run = mailing(session, approval_ttl=3600).run("Mail bob")
        at_rest(run)
        (ask,) = run.pending
        assert ask.expires_at is not None
    source.advance(3601)
    with kernel(tmp_path / "s.duckdb", source=source) as session:
        mailing(session)
        run = only_turn(session)
        until(run, lambda: run.status == "completed")

        assert sql(session, "select status from tool_calls") == [("expired",)]


def test_a_remembered_approval_is_not_asked_for_again_in_its_thread_not_even_after_a_restart(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        run = mailing(session).run("Mail bob")
        to_the_end(run, {"send_mail": {"approved": True, "remember": True}})
        thread = run.thread_id
    with kernel(tmp_path / "s.duckdb") as session:
        model = ScriptedModel(lambda request, turn: [("send_mail", {"to": "ann"})] if turn == 2 else "Done.")
        agent = Agent(model, [send_mail], name="mailing", store=session)
        again = agent.run("And ann", thread=thread)
        at_rest(again)
        other = mailing(session).run("Mail bob")
        at_rest(other)

        assert (again.status, other.status) == ("completed", "waiting")


# -- stops ---------------------------------------------------------------------------------------------------


def settled(session: loom.Loom, run: Any) -> None:
    """A stopped turn: its rows are settled, and its thread is free."""
    at_rest(run)
    assert run.status == "canceled"
    assert sql(session, "select status from agent_runs") == [("cancelled",)]
    assert sql(session, "select count(*) from tool_calls where status = 'pending_approval'") == [(0,)]
    later = Agent(say("x", "x", "x", "Later."), name="later", store=session).run("Go on", thread=run.thread_id)
    at_rest(later)
    assert later.status == "completed"


def test_a_stop_in_the_middle_of_a_models_words_books_unknown_usage_and_ends_the_stream(tmp_path: Path) -> None:
    gate, told = Gate(), list[Any]()

    async def pause(_: int, frame: Any) -> None:
        if frame["text"].strip() == "two":
            await gate()

    with kernel(tmp_path / "s.duckdb") as session:
        model = ScriptedModel([Said(text="one two three", usage={"inputTokens": 5})], pause=pause)
        run = Agent(model, name="talking", store=session).run("Talk")
        reader = threading.Thread(target=lambda: told.extend(frames(run)))
        reader.start()
        gate.reached()
        run.cancel()
        gate.open()
        reader.join(PATIENCE)

        assert told[-1] == {"kind": "cancelled"}
        settled(session, run)
        assert sql(session, "select role, content from messages order by seq limit 1") == [("user", "Talk")]
        assert sql(session, f"select input_tokens from model_usage where run_id = '{run.id}'") == [(None,)]


def test_a_stop_keeps_what_is_known_of_the_calls_before_it(tmp_path: Path) -> None:
    gate = Gate()

    async def look() -> str:
        """Looks."""
        await gate()
        return "seen"

    with kernel(tmp_path / "s.duckdb") as session:
        model = say(Said(tools=[("look", {})], usage={"inputTokens": 5, "outputTokens": 2}), "Never.")
        run = Agent(model, [look], name="looking", store=session).run("Look")
        gate.reached()
        run.cancel()
        gate.open()
        settled(session, run)

        assert sql(session, f"select input_tokens, output_tokens from model_usage where run_id = '{run.id}'") == [(5, 2)]
        mine = f"select role from messages where run_id = '{run.id}' order by seq"
        assert sql(session, mine) == [("user",), ("assistant",)]
        assert [m.role for m in run.messages] == ["user", "assistant"]


def test_a_stop_while_a_person_is_waited_for_fails_the_call_that_waited(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        run = mailing(session).run("Mail bob")
        at_rest(run)
        run.cancel()
        settled(session, run)

        assert sql(session, "select status, output from tool_calls") == [("failed", None)]


def test_a_stop_of_a_turn_that_waits_since_another_kernel_settles_it_also_without_its_agent(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        at_rest(mailing(session).run("Mail bob"))
    with kernel(tmp_path / "s.duckdb") as session:
        run = only_turn(session)
        run.cancel()
        settled(session, run)


def test_a_tool_that_goes_on_after_the_stop_writes_nothing(tmp_path: Path) -> None:
    gate, tried = Gate(), list[Any]()
    over = threading.Event()

    def stubborn() -> str:
        """Goes on."""
        gate.hold()
        try:
            tried.append(session.set_model_prices({"m": (1.0, 1.0)}))
        finally:
            over.set()
        return "too late"

    with kernel(tmp_path / "s.duckdb") as session:
        run = Agent(say([("stubborn", {})], "Never."), [stubborn], name="stubborn", store=session).run("Go")
        gate.reached()
        run.cancel()
        settled(session, run)
        gate.open()
        assert over.wait(PATIENCE)

        assert tried == [None]  # what it does for itself is its own business
        assert sql(session, f"select status, output from tool_calls where run_id = '{run.id}'") == [("auto_executed", None)]
        assert sql(session, f"select count(*) from step_calls where run_id = '{run.id}' and name like 'tool:%'") == [(0,)]


# -- failures --------------------------------------------------------------------------------------------------


def test_after_a_failure_a_retry_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    asked: list[int] = []

    def script(_: TurnRequest, turn: int) -> Any:
        asked.append(turn)
        if asked.count(1) == 1 and turn == 1:
            raise ConnectionError("gone")
        return [[("look", {})], "Done."][turn]

    looked: list[int] = []

    def look() -> str:
        """Looks."""
        looked.append(1)
        return "seen"

    with kernel(tmp_path / "s.duckdb") as session:
        run = Agent(ScriptedModel(script), [look], name="failing", store=session).run("Look")
        at_rest(run)
        assert run.status == "failed"
        assert sql(session, "select status, error_code from agent_runs") == [("failed", "run_failed")]
        run.retry()
        at_rest(run)

        assert run.status == "completed"
        assert (asked, looked) == ([0, 1, 1], [1])
        assert [m.role for m in run.messages] == ["user", "assistant", "assistant"]
        assert sql(session, "select status, retries from agent_runs") == [("completed", 1)]


def test_what_a_failed_checkpoint_wrote_is_not_there_twice_after_a_retry(tmp_path: Path) -> None:
    fails = [True]

    with kernel(tmp_path / "s.duckdb") as session:
        agent = Agent(say("Done."), name="twice", store=session)
        kept = agent_store_of(session.runtime.database, session.runtime.source)
        appended = kept.append_message

        async def failing(thread_id: str, message: Any) -> str:
            message_id = await appended(thread_id, message)
            if message.role == "assistant" and fails:
                fails.clear()
                raise OSError("after it was written")
            return message_id

        kept.append_message = failing  # type: ignore[method-assign]
        run = agent.run("Two")
        at_rest(run)
        assert run.status == "failed"
        run.retry()
        at_rest(run)
        del kept.append_message

        assert [m.content for m in run.messages] == ["Two", "Done."]
        rows = sql(session, f"select content from messages where run_id = '{run.id}' order by seq")
        assert rows == [("Two",), ("Done.",)]


def test_another_way_is_told_as_the_runs_error_and_as_no_failure_of_a_tool(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        run = mailing(session).run("Mail bob")
        at_rest(run)
    with kernel(tmp_path / "s.duckdb") as session:
        mailing(session, quota=_NoLimit())  # a checkpoint more, at the front
        run = only_turn(session)
        at_rest(run)
        run.answer("send_mail", True)
        at_rest(run)

        assert run.status == "failed"
        failure = run.record.view.failure
        assert failure is not None
        assert (failure.type, failure.code) == ("NonDeterminismError", "REPLAY_DIVERGED")
        assert sql(session, "select count(*) from tool_calls where error like '%replay%'") == [(0,)]
    with kernel(tmp_path / "s.duckdb") as session:
        mailing(session)
        run = only_turn(session)
        run.retry()
        to_the_end(run, {"send_mail": True})

        assert run.status == "completed"
        assert sql(session, "select status from tool_calls") == [("executed",)]


class _NoLimit:
    async def check(self, actor: Any, day: str) -> Any:
        return QuotaVerdict(within_limit=True, used_tokens=0, limit_tokens=1)

    async def bump(self, actor: Any, day: str, tokens: int) -> None: ...


def test_a_turn_that_is_begun_anew_says_nothing_twice(tmp_path: Path) -> None:
    fails = [True]

    def script(_: TurnRequest, turn: int) -> Any:
        if turn == 1 and fails:
            fails.clear()
            raise ConnectionError("gone")
        return [[("look", {})], "Done."][turn]

    def look() -> str:
        """Looks."""
        return "seen"

    with kernel(tmp_path / "s.duckdb") as session:
        run = Agent(ScriptedModel(script), [look], name="anew", store=session).run("Look")
        at_rest(run)
        run.retry(fresh=True)
        at_rest(run)

        assert [m.content for m in run.messages] == ["Look", "", "Done."]
        assert sql(session, "select content from messages where not is_deleted order by seq") == [("Look",), ("",), ("Done.",)]


def test_a_budget_stops_before_the_next_call_and_a_retry_with_a_higher_one_goes_on(tmp_path: Path) -> None:
    asked: list[int] = []

    def script(_: TurnRequest, turn: int) -> Any:
        asked.append(turn)
        return [Said(tools=[("look", {})], usage={"inputTokens": 90, "outputTokens": 20}), Said(text="Done.")][turn]

    def look() -> str:
        """Looks."""
        return "seen"

    with kernel(tmp_path / "s.duckdb") as session:
        run = Agent(ScriptedModel(script), [look], name="b", store=session, budget=Budget(tokens=100)).run("Look")
        at_rest(run)
        failure = run.record.view.failure
        assert failure is not None
        assert (failure.code, asked) == ("BUDGET_EXCEEDED", [0])
        Agent(ScriptedModel(script), [look], name="b", store=session, budget=Budget(tokens=1000))
        run.retry()
        at_rest(run)

        assert (run.status, asked) == ("completed", [0, 1])


# -- what is told of the thread -----------------------------------------------------------------------------


class Pinning:
    """Tells the first message, in other words, and the last."""

    def select(self, messages: Any, ctx: Any) -> HistorySelection:
        first = replace(messages[0], content=f"First: {messages[0].content}")
        return HistorySelection(keep=[first, messages[-1]] if len(messages) > 1 else messages, drop=messages[1:-1])


def test_after_a_restart_a_turn_is_told_what_a_policy_of_ones_own_had_chosen(tmp_path: Path) -> None:
    told: list[list[Any]] = []

    def script(request: TurnRequest, turn: int) -> Any:
        told.append([one["content"] for one in request.messages if one["role"] == "user"])
        return [("send_mail", {"to": "bob"})] if request.messages[-1].get("content") == "Mail bob" else "Well."

    def pinning(session: loom.Loom) -> Agent:
        return Agent(ScriptedModel(script), [send_mail], name="pinning", history=Pinning(), store=session)

    with kernel(tmp_path / "s.duckdb") as session:
        first = pinning(session).run("One")
        at_rest(first)
        at_rest(pinning(session).run("Two", thread=first.thread_id))
        waiting = pinning(session).run("Mail bob", thread=first.thread_id)
        at_rest(waiting)
    with kernel(tmp_path / "s.duckdb") as session:
        pinning(session)
        run = session.run(waiting.id)
        at_rest(run)
        run.answer("send_mail", True)
        at_rest(run)

    assert told[-2:] == [["First: One", "Mail bob"], ["First: One", "Mail bob"]]


# -- what is told of an end ----------------------------------------------------------------------------------


def test_a_failed_turn_is_told_of_and_a_stopped_one_is_none(tmp_path: Path) -> None:
    def breaks(request: TurnRequest, turn: int) -> Said:
        raise OSError("The line is dead.")

    def play() -> None:
        with kernel(tmp_path / "s.duckdb") as session:
            failed = Agent(ScriptedModel(breaks), name="breaking", store=session).run("Go")
            at_rest(failed)
            waiting = mailing(session).run("Mail bob")
            at_rest(waiting)
            waiting.cancel()
            at_rest(waiting)

    told = events_of("run.failed", play)

    assert [(one["code"], one["message"]) for one in told] == [("run_failed", "The line is dead.")]
