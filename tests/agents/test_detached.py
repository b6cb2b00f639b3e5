"""Agents that start others without waiting: the receipt, and the answer that comes later. Cases I of agents.md."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import Actor
from loomnb.testing import ScriptedModel, at_rest
from tests.agents.delegating import Asking, Starting, asked_tools, for_ever, heard
from tests.agents.journaling import kernel
from tests.agents.looping import ANN, Journal, deps, messages_of, row_of, turn

STARTS = [[("start_writer", {"task": "Write."})], "It was started."]


def starting(**more: Any) -> Any:
    return deps(STARTS, registry=asked_tools("writer", detached=True), **more)


@pytest.mark.case("agents:I01")
def test_a_detached_agent_is_started_with_the_call_and_a_receipt_is_the_result() -> None:
    hooks = Starting()
    made = starting()

    turn(made, hooks)

    row = row_of(made, "start_writer")
    assert hooks.started == [{"agent_name": "writer", "task": "Write.", "tool_call_id": "call-0-start_writer"}]
    assert hooks.asked == []
    told = {name: row.output[name] for name in ("detached", "status", "agent", "runId")}
    assert told == {"detached": True, "status": "started", "agent": "writer", "runId": "run-child"}
    assert (row.status, row.tool_type) == ("executed", "read")


@pytest.mark.case("agents:I02")
def test_an_agent_that_is_not_detached_is_awaited_though_the_runner_could_detach() -> None:
    hooks = Starting()

    turn(deps([[("ask_writer", {"task": "Write."})], "Done."], registry=asked_tools("writer")), hooks)

    assert (hooks.asked, hooks.started) == ([("writer", "Write.")], [])


@pytest.mark.case("agents:I02")
def test_a_detached_agent_is_awaited_where_the_runner_cannot_detach() -> None:
    hooks = Asking()
    made = starting()

    turn(made, hooks)

    assert hooks.asked == [("writer", "Write.")]
    assert row_of(made, "start_writer").output == {"text": "Forty-two."}


@pytest.mark.case("agents:I03")
def test_the_checkpoints_are_the_same_whether_it_is_awaited_or_not() -> None:
    awaited, detached = Asking(), Starting()

    turn(starting(), awaited)
    turn(starting(), detached)

    assert awaited.names == detached.names


@pytest.mark.case("agents:I03")
def test_an_old_claim_without_the_flag_is_awaited() -> None:
    hooks = Starting()
    made = starting()
    turn(made, hooks)
    end = [name for name, _ in hooks.records].index("persist:toolcall:call-0-start_writer")
    old = [*hooks.records[:end], (hooks.records[end][0], '{"kind": "agent", "targetAgent": "writer"}')]
    again = Starting(records=old)

    turn(made, again)

    assert (again.asked, again.started) == ([("writer", "Write.")], [])


@pytest.mark.case("agents:I04")
def test_a_start_is_refused_as_deep_as_an_ask_is() -> None:
    hooks = Starting()
    made = starting()

    turn(made, hooks, delegation_depth=5)

    assert hooks.started == []
    assert "depth" in row_of(made, "start_writer").output["text"]


@pytest.mark.case("agents:I08")
def test_a_detached_claim_has_the_flag_beside_kind_and_target() -> None:
    hooks = Starting()

    turn(starting(), hooks)

    claims = [value for name, value in hooks.records if name.startswith("persist:toolcall:")]
    assert claims == ['{"kind": "agent", "targetAgent": "writer", "detached": true}']


@pytest.mark.case("agents:I09")
def test_the_note_says_that_the_answer_is_not_part_of_this_turn_comes_by_itself_and_is_not_to_be_guessed() -> None:
    made = starting()

    turn(made, Starting())

    note = row_of(made, "start_writer").output["note"]
    for said in ("not part of this turn", "separate message", "do not guess"):
        assert said in note


@pytest.mark.case("agents:I09")
@pytest.mark.parametrize(("hooks", "detached"), [(Starting(), True), (Asking(), None)], ids=["detached", "awaited"])
def test_those_who_watch_hear_of_detached_only_where_it_is(hooks: Any, detached: bool | None) -> None:
    with heard("delegated") as events:
        turn(starting(), hooks)

    assert [event.get("detached") for event in events] == [detached]


# -- delivery ----------------------------------------------------------------------------------------------


def delivered_into(made: Any, text: str = "Write.", **more: Any) -> Any:
    """What the started agent's own turn is, in another thread of the same store."""
    return turn(
        made,
        Journal(run_id="run-child"),
        text,
        thread_id="t-child",
        agent_name="writer",
        deliver_to={"threadId": "t1", "toolCallId": "call-0-start_writer"},
        parent_run_id="run-1",
        **more,
    )


def test_the_answer_is_posted_in_the_thread_that_asked_and_on_the_row_of_its_call() -> None:
    made = starting()
    turn(made, Starting())

    delivered_into(deps(["A poem."], store=made.store))

    last = messages_of(made)[-1]
    assert (last["role"], last["content"], last["agentName"], last["runId"]) == ("assistant", "A poem.", "writer", "run-child")
    output = {"detached": True, "status": "delivered", "agent": "writer", "runId": "run-child", "text": "A poem."}
    assert row_of(made, "start_writer").output == output


@pytest.mark.case("agents:I06")
def test_a_thread_that_was_deleted_meanwhile_gets_nothing_and_the_run_still_has_its_text() -> None:
    made = starting()
    turn(made, Starting())
    asyncio.run(made.store.soft_delete_thread("t1"))

    result = delivered_into(deps(["A poem."], store=made.store))

    assert result.text == "A poem."
    assert row_of(made, "start_writer").output["status"] == "started"


def test_a_blank_answer_is_not_posted() -> None:
    made = starting()
    turn(made, Starting())
    before = len(messages_of(made))

    delivered_into(deps([" "], store=made.store))

    assert len(messages_of(made)) == before


@pytest.mark.case("agents:I07")
def test_the_run_that_started_it_is_on_record_and_only_a_detached_turn_delivers() -> None:
    made = starting()
    asking, child = Starting(), Journal(run_id="run-child")
    turn(made, asking)
    turn(deps(["A poem."], store=made.store), child, thread_id="t-child", parent_run_id="run-1")

    runs = {run.run_id: run.parent_run_id for run in made.store.runs()}
    assert runs == {"run-1": None, "run-child": "run-1"}
    assert not [name for name in (*asking.names, *child.names) if name.startswith("deliver:")]


def test_an_answer_that_was_faster_than_the_turn_that_asked_stays_on_the_row() -> None:
    made = starting()

    class Fast(Starting):
        async def start_agent(self, **asked: str) -> Any:
            output = {"detached": True, "status": "delivered", "agent": "writer", "runId": "run-child", "text": "A poem."}
            await made.store.update_tool_call(asked["tool_call_id"], {"output": output})
            return await super().start_agent(**asked)

    turn(made, Fast())

    row = row_of(made, "start_writer")
    assert (row.status, row.output["status"]) == ("executed", "delivered")


# -- on the journal ------------------------------------------------------------------------------------------


def agent(session: loom.Loom, name: str, says: Any, **more: Any) -> loom.Agent:
    return loom.Agent(ScriptedModel(says), name=name, store=session, **more)


def writer_run(session: loom.Loom) -> loom.Run:
    ((run_id,),) = session.sql("select run_id from runs where workflow = 'writer'").fetchall()
    return session.run(run_id)


def messages(chat: loom.Chat) -> list[tuple[str | None, str]]:
    return [(m.agent_name, m.content) for m in chat.messages if m.role == "assistant" and m.content]


def test_the_answer_of_a_started_agent_comes_into_the_conversation(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        go = threading.Event()

        async def writes(request: Any, number: int) -> str:
            await asyncio.to_thread(go.wait, 20)
            return "A poem."

        boss = agent(session, "boss", STARTS, detached=[agent(session, "writer", writes)])
        chat = boss.chat()
        run = chat.send("Go")
        at_rest(run)
        assert messages(chat) == [("boss", "It was started.")]
        go.set()
        at_rest(writer_run(session))

        assert messages(chat) == [("boss", "It was started."), ("writer", "A poem.")]
        ((row,),) = session.sql("select output->>'status' from tool_calls").fetchall()
        assert (row, writer_run(session).parent_id) == ("delivered", run.id)


def test_the_answer_comes_after_a_restart_too_and_only_once(tmp_path: Path) -> None:
    path, begun = tmp_path / "s.duckdb", threading.Event()

    def cells(session: loom.Loom, *, hangs: bool) -> loom.Agent:
        async def writes(request: Any, number: int) -> str:
            begun.set()
            if hangs:
                await for_ever()
            return "A poem."

        return agent(session, "boss", STARTS, detached=[agent(session, "writer", writes)])

    with kernel(path) as session:
        chat = cells(session, hangs=True).chat()
        at_rest(chat.send("Go"))
        assert begun.wait(20)
        thread_id = chat.thread_id
    for _ in range(2):
        with kernel(path) as session:
            boss = cells(session, hangs=False)
            at_rest(writer_run(session))

            assert messages(boss.chat(thread_id)) == [("boss", "It was started."), ("writer", "A poem.")]


def test_stopping_the_turn_that_started_it_does_not_stop_it(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        go, asked = threading.Event(), threading.Event()

        async def writes(request: Any, number: int) -> str:
            await asyncio.to_thread(go.wait, 20)
            return "A poem."

        async def bosses(request: Any, number: int) -> Any:
            if number:
                asked.set()
                await for_ever()
            return STARTS[number]

        boss = agent(session, "boss", bosses, detached=[agent(session, "writer", writes)])
        chat = boss.chat()
        run = chat.send("Go")
        assert asked.wait(20)
        run.cancel()
        at_rest(run)
        go.set()
        at_rest(writer_run(session))

        assert (run.status, writer_run(session).status) == ("canceled", "completed")
        assert messages(chat) == [("writer", "A poem.")]


def test_the_next_turn_of_the_conversation_is_told_of_the_answer(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        model = ScriptedModel(lambda request, number: STARTS[number] if number < 2 else "I saw it.")
        boss = loom.Agent(model, name="boss", store=session, detached=[agent(session, "writer", ["A poem."])])
        chat = boss.chat()
        at_rest(chat.send("Go"))
        at_rest(writer_run(session))
        at_rest(chat.send("And?"))

        assert "A poem." in [message["content"] for message in model.requests[-1].messages]


def test_the_started_agent_works_for_the_same_person(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        writer = agent(session, "writer", ["A poem."], actor=Actor(id="somebody else"))
        boss = agent(session, "boss", STARTS, detached=[writer], actor=ANN)
        at_rest(boss.run("Go"))
        child = writer_run(session)
        at_rest(child)

        told = {name: child.args[name] for name in ("actor", "roles", "depth", "path")}
        assert told == {"actor": "ann", "roles": ["user"], "depth": 1, "path": ["boss"]}


def test_each_conversation_gets_its_own_answer_though_their_calls_have_the_same_id(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        go = threading.Event()

        async def writes(request: Any, number: int) -> str:
            await asyncio.to_thread(go.wait, 20)
            return f"About {request.messages[-1]['content']}"

        def bosses(request: Any, number: int) -> Any:
            return [[("start_writer", {"task": request.messages[0]["content"]})], "Started."][number]

        boss = agent(session, "boss", bosses, detached=[agent(session, "writer", writes)])
        chats = [boss.chat(), boss.chat()]
        for chat, about in zip(chats, ("rain", "snow"), strict=True):
            at_rest(chat.send(about))
        go.set()
        for (run_id,) in session.sql("select run_id from runs where workflow = 'writer'").fetchall():
            at_rest(session.run(run_id))

        assert [messages(chat)[-1] for chat in chats] == [("writer", "About rain"), ("writer", "About snow")]
        rows = session.sql("select input->>'task', output->>'text' from tool_calls order by seq").fetchall()
        assert rows == [("rain", "About rain"), ("snow", "About snow")]


# -- no answer ------------------------------------------------------------------------------------------------


def statuses(session: loom.Loom) -> list[Any]:
    return [one for (one,) in session.sql("select output->>'status' from tool_calls").fetchall()]


async def fails(request: Any, number: int) -> str:
    raise loom.ModelError("The ink is dried up.")


NO_ANSWER = [("boss", "It was started."), ("writer", "writer came to no answer: The ink is dried up.")]


def test_a_started_agent_that_fails_is_told_of_in_the_conversation(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        go = threading.Event()

        async def writes(request: Any, number: int) -> str:
            await asyncio.to_thread(go.wait, 20)
            return await fails(request, number)

        chat = agent(session, "boss", STARTS, detached=[agent(session, "writer", writes)]).chat()
        at_rest(chat.send("Go"))
        go.set()
        at_rest(writer_run(session))

        assert writer_run(session).status == "failed"
        assert messages(chat) == NO_ANSWER
        assert statuses(session) == ["failed"]


def test_one_that_fails_again_is_told_of_once_and_its_late_answer_still_comes(tmp_path: Path) -> None:
    path, says = tmp_path / "s.duckdb", {"now": fails}

    def cells(session: loom.Loom) -> loom.Agent:
        async def writes(request: Any, number: int) -> str:
            return await says["now"](request, number)

        return agent(session, "boss", STARTS, detached=[agent(session, "writer", writes)])

    async def succeeds(request: Any, number: int) -> str:
        return "A poem."

    with kernel(path) as session:
        go_on = cells(session).chat()
        at_rest(go_on.send("Go"))
        at_rest(writer_run(session))
        thread_id = go_on.thread_id
    for now, expected, status in ((fails, [], "failed"), (succeeds, [("writer", "A poem.")], "delivered")):
        says["now"] = now
        with kernel(path) as session:
            chat = cells(session).chat(thread_id)
            assert sorted(messages(chat)) == sorted(NO_ANSWER)
            writer_run(session).retry()
            at_rest(writer_run(session))

            assert sorted(messages(chat)) == sorted([*NO_ANSWER, *expected])
            assert statuses(session) == [status]


@pytest.mark.parametrize("waits", [False, True], ids=["at work", "waiting"])
def test_a_started_agent_that_is_stopped_is_told_of_in_the_conversation(tmp_path: Path, waits: bool) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        begun = threading.Event()

        async def writes(request: Any, number: int) -> Any:
            begun.set()
            if not waits:
                await for_ever()
            return [("publish", {})]

        @loom.agent_tool(kind="action")
        def publish() -> str:
            """Publishes."""
            return "published"

        chat = agent(session, "boss", STARTS, detached=[agent(session, "writer", writes, tools=[publish])]).chat()
        at_rest(chat.send("Go"))
        assert begun.wait(20)
        run = writer_run(session)
        if waits:
            at_rest(run)
            assert run.status == "waiting"
        run.cancel()
        at_rest(run)

        assert ("writer", "writer came to no answer: it was stopped") in messages(chat)
        assert statuses(session)[0] == "canceled"
    with kernel(tmp_path / "s.duckdb") as session:
        said = session.sql("select content from messages where content like 'writer came%'").fetchall()
        assert said == [("writer came to no answer: it was stopped",)]


def test_a_failure_in_a_conversation_that_was_deleted_meanwhile_is_told_nowhere(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        go = threading.Event()

        async def writes(request: Any, number: int) -> str:
            await asyncio.to_thread(go.wait, 20)
            return await fails(request, number)

        chat = agent(session, "boss", STARTS, detached=[agent(session, "writer", writes)]).chat()
        at_rest(chat.send("Go"))
        chat.delete()
        go.set()
        at_rest(writer_run(session))

        assert writer_run(session).status == "failed"
        assert session.sql("select count(*) from messages where content like 'writer came%'").fetchall() == [(0,)]
