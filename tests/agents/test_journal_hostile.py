"""Turns of an agent on the journal: who may start, repeats, answers as data, what tools and models give that is no JSON, size."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import agent_tool
from loomnb.errors import Conflict
from loomnb.studio.agents import Agent
from loomnb.testing import Said, ScriptedModel, at_rest
from tests.agents.journaling import kernel, sql


def say(*turns: Any) -> ScriptedModel:
    return ScriptedModel(list(turns))


@agent_tool(kind="action")
def send_mail(to: str) -> str:
    """Sends a mail."""
    return f"sent to {to}"


def mailing(session: loom.Loom, **options: Any) -> Agent:
    """An agent that mails, and says what came of it."""
    return Agent(say([("send_mail", {"to": "bob"})], "Done."), [send_mail], name="mailing", store=session, **options)


# -- who may start -------------------------------------------------------------------------------------------


def test_two_turns_in_one_thread_are_refused(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        agent = mailing(session)
        run = agent.run("Mail bob")
        at_rest(run)
        with pytest.raises(Conflict, match=run.id):
            agent.run("And now?", thread=run.thread_id)

        assert sql(session, "select count(*) from runs") == [(1,)]


def test_a_key_finds_the_turn_again_also_after_a_restart(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        first = mailing(session).run("Mail bob", key="k")
        at_rest(first)
    with kernel(tmp_path / "s.duckdb") as session:
        agent = mailing(session)
        again = agent.run("Mail bob", key="k")
        at_rest(again)
        assert (again.id, again.thread_id) == (first.id, first.thread_id)
        with pytest.raises(Conflict):
            agent.run("Mail eve", key="k")


# -- repeats, scripts, no front end ----------------------------------------------------------------------------


def repeating(session: loom.Loom, looked: list[int], **options: Any) -> Agent:
    def look(at: str) -> str:
        """Looks."""
        looked.append(1)
        return "nothing"

    model = ScriptedModel(lambda request, turn: [("look", {"at": "it"})] if turn < 4 else "Done.")
    return Agent(model, [look], name="repeating", store=session, **options)


@pytest.mark.parametrize(
    ("said", "status", "times"), [("continue", "completed", 4), ("stop", "failed", 2), ("look elsewhere", "completed", 2)]
)
def test_the_third_identical_call_is_a_persons_business(tmp_path: Path, said: str, status: str, times: int) -> None:
    looked: list[int] = []
    with kernel(tmp_path / "s.duckdb") as session:
        session.answers({"repeating": {"repeat": said}})
        run = repeating(session, looked).run("Look")
        at_rest(run)

        assert (run.status, len(looked)) == (status, times)


def test_where_nobody_can_be_asked_a_repeated_call_ends_the_run_and_says_so(tmp_path: Path) -> None:
    looked: list[int] = []
    with kernel(tmp_path / "s.duckdb") as session:
        run = repeating(session, looked).run("Look")
        at_rest(run)

        assert (run.status, run.error_code, len(looked)) == ("failed", "REPEATED_CALL", 2)


def test_a_script_answers_approvals_by_the_tools_name_and_questions_by_theirs(tmp_path: Path) -> None:
    question = {
        "id": "q",
        "question": "Which?",
        "defaults": ["b"],
        "options": [{"label": "a", "value": "a"}, {"label": "b", "value": "b"}],
    }
    with kernel(tmp_path / "s.duckdb") as session:
        session.answers({"asking": {"send_mail": {"approved": False, "reason": "too early"}, "ask": True}})
        model = say([("ask", {"questions": [question]})], [("send_mail", {"to": "bob"})], "Done.")
        run = Agent(model, [send_mail], name="asking", store=session, ask=True).run("Ask me")
        at_rest(run)

        assert run.status == "completed", run.record.view
        assert sql(session, "select tool_name, status, reason from tool_calls order by seq") == [
            ("ask", "executed", None),
            ("send_mail", "rejected", "too early"),
        ]


def test_a_script_answers_what_an_agent_begins_with(tmp_path: Path) -> None:
    intake = {"questions": [{"id": "goal", "question": "What is it for?", "input": {"type": "text"}}]}
    with kernel(tmp_path / "s.duckdb") as session:
        session.answers({"beginning": {"intake": {"goal": "tea"}}})
        model = say("", "Done.")
        run = Agent(model, name="beginning", store=session, intake=intake).run("Begin")
        at_rest(run)

        assert run.status == "completed", run.record.view.failure
        ((output,),) = sql(session, "select output from tool_calls")
        assert "tea" in output


def test_where_nobody_can_be_asked_the_refusal_names_the_approval(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        run = mailing(session).run("Mail bob")

        async def wait() -> Any:
            return await run

        with pytest.raises(loom.LoomError, match="send_mail"):
            asyncio.run(wait())


# -- hostile ---------------------------------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


HOSTILE: dict[str, Any] = {
    "nan": lambda: float("nan"),
    "a set": lambda: {1, 2},
    "an object": object,
    "keys that are numbers": lambda: {1: 2},
    "half a surrogate": lambda: "\ud800",
    "deep": lambda: nested(5000),
    "itself": itself,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_tool_gives_that_cannot_be_stored_is_a_failure_the_model_is_told_of(tmp_path: Path, what: str) -> None:
    def hostile() -> Any:
        """Gives something."""
        return HOSTILE[what]()

    with kernel(tmp_path / "s.duckdb") as session:
        run = Agent(say([("hostile", {})], "Done."), [hostile], name="hostile", store=session).run("Go")
        at_rest(run)

        assert run.status == "completed", run.record.view.failure
        ((status, error),) = sql(session, "select status, error from tool_calls")
        assert (status, bool(error)) == ("failed", True)


def test_a_large_result_is_stored_whole(tmp_path: Path) -> None:
    def large() -> str:
        """Gives much."""
        return "x" * 3_000_000

    with kernel(tmp_path / "s.duckdb") as session:
        run = Agent(say([("large", {})], "Done."), [large], name="large", store=session).run("Go")
        at_rest(run)

        assert sql(session, "select length(output::varchar) from tool_calls") == [(3_000_002,)]


def test_words_that_are_no_text_are_stored_with_the_replacement_character(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        bad = "a\ud800b\0c \U0001f600"
        run = Agent(say(Said(text=bad, reasoning="\udfff")), name="bad", store=session).run("Go")
        at_rest(run)

        assert run.status == "completed", run.record.view.failure
        assert sql(session, "select content, reasoning from messages where role = 'assistant'") == [
            ("a\ufffdb\ufffdc \U0001f600", "\ufffd")
        ]
        assert run.record.view.result["text"] == "a\ufffdb\ufffdc \U0001f600"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_tool_that_ends_the_program_ends_its_turn_only(tmp_path: Path, kind: type[BaseException]) -> None:
    async def leave() -> str:
        """Leaves."""
        raise kind

    def other() -> str:
        """Stays."""
        return "here"

    with kernel(tmp_path / "s.duckdb") as session:
        model = say([("leave", {}), ("other", {})], "Done.")
        run = Agent(model, [leave, other], name="leaving", store=session).run("Go")
        at_rest(run)
        later = Agent(say("Still here."), name="later", store=session).run("Go")
        at_rest(later)

        assert (run.status, later.status) == ("failed", "completed")


# -- what it costs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "pipelined"])
def test_the_bytes_of_a_turn_do_not_grow_with_its_thread(tmp_path: Path, durability: str) -> None:
    with kernel(tmp_path / "s.duckdb", durability=durability) as session:
        agent = Agent(ScriptedModel(lambda request, turn: f"Answer {turn} " + "x" * 200), name="long", store=session)
        thread: str | None = None
        for _ in range(12):
            run = agent.run("Question " + "y" * 200, thread=thread)
            at_rest(run)
            thread = run.thread_id
        sizes = sql(
            session,
            "select r.number, sum(length(j.body::varchar)) from runs r join journal j on j.run_id = r.run_id "
            "group by all order by 1",
        )

        assert abs(sizes[-1][1] - sizes[1][1]) < 50


def test_the_loop_of_the_kernel_can_make_the_turn(tmp_path: Path) -> None:
    async def cell() -> tuple[Any, Any]:
        here = asyncio.get_running_loop()
        seen: list[Any] = []

        async def look() -> str:
            """Looks."""
            seen.append(asyncio.get_running_loop() is here)
            return "seen"

        run = Agent(say([("look", {})], "Done."), [look], name="inside", store=session).run("Look", loop="kernel")
        return await run, seen

    with kernel(tmp_path / "s.duckdb") as session:
        result, seen = asyncio.run(cell())

        assert (result.text, seen) == ("Done.", [True])
