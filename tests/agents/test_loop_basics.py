"""What a turn does with what it is configured with: contracts/agents.md §1.1–§1.3."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loomnb.agents.failures import RepeatedCallError, RunCancelledError
from loomnb.agents.spi import ToolCallRow
from loomnb.errors import DefinitionError, InvalidRequest
from loomnb.testing import ScriptedModel
from tests.agents.doubles import Finder
from tests.agents.looping import ANN, Hooks, Journal, deps, messages_of, purposes_of, row_of, rows_of, said, tool, turn
from tests.helpers import plain_id


@pytest.mark.case("agents:A02")
def test_a_read_tool_runs_without_approval_and_its_output_is_on_record() -> None:
    hooks = Hooks()
    made = deps([[("look", {"at": "sky"})], "Blue."], tool("look", lambda given, ctx: {"seen": given["at"]}))

    result = turn(made, hooks)

    assert (result.text, result.steps, result.stopped_by) == ("Blue.", 2, "")
    assert hooks.waits == []
    row = row_of(made, "look")
    assert (row.status, row.output, row.tool_type, row.executed_by_ref) == ("executed", {"seen": "sky"}, "read", None)


@pytest.mark.case("agents:A08")
@pytest.mark.parametrize("is_async", [False, True], ids=plain_id)
def test_a_prompt_builder_is_asked_for_the_actor(is_async: bool) -> None:
    model = ScriptedModel(["Hi."])

    async def later(ctx: Any) -> str:
        return f"You help {ctx.actor.id}."

    turn(deps(model, system_prompt=later if is_async else lambda ctx: f"You help {ctx.actor.id}."))

    assert model.requests[0].system == "You help ann."


@pytest.mark.case("agents:A09")
def test_contributors_are_appended_in_their_order_and_empty_ones_left_out() -> None:
    model, seen = ScriptedModel(["Hi."]), []

    def contributor(text: str | None) -> Any:
        def contribute(ctx: Any) -> str | None:
            seen.append(ctx.agent_name)
            return text

        return contribute

    turn(deps(model, prompt_contributors=[contributor(text) for text in ("One.", None, "", "Two.")]))

    assert model.requests[0].system == "You help.\n\nOne.\n\nTwo."
    assert seen == ["default"] * 4


def test_what_was_found_follows_base_and_contributors_and_only_they_are_hashed() -> None:
    model = ScriptedModel(["Hi."])
    made = deps(model, prompt_contributors=[lambda ctx: "One."], retriever=Finder())
    plain = deps(["Hi."], prompt_contributors=[lambda ctx: "One."])

    turn(made)
    turn(plain)

    assert model.requests[0].system.startswith("You help.\n\nOne.\n\n")
    assert "a fact" in model.requests[0].system
    stores: tuple[Any, Any] = (made.store, plain.store)
    hashes = [store.runs()[0].prompt_hash for store in stores]
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == 64


def test_passages_ride_the_first_message_as_a_read_call_with_a_row_and_its_frames_once() -> None:
    finder, hooks = Finder("a fact"), Hooks()
    made = deps([[("look", {})], "Hi."], tool("look"), retriever=finder)

    turn(made, hooks, "Why?")

    assert finder.asked == [("Why?", 5)]
    first = messages_of(made)[1]
    assert [(c["id"], c["kind"]) for c in first["toolCalls"]] == [("call-0-look", "read"), ("retrieve-run-1", "read")]
    assert [r["id"] for r in first["toolResults"]] == ["call-0-look", "retrieve-run-1"]
    row = row_of(made, "retrieve")
    assert (row.input, row.output, row.status) == ({"query": "Why?"}, {"passages": [{"text": "a fact"}]}, "executed")
    outputs = [f["id"] for f in hooks.sink.frames("tool-output")]
    assert outputs == ["retrieve-run-1", "call-0-look"]


def test_the_record_of_passages_stands_right_after_the_first_message() -> None:
    journal = Journal()
    turn(deps(["Hi."], retriever=Finder()), journal)

    at = journal.names.index("persist:assistant:0")
    assert journal.names[journal.names.index("persist:run:start") + 1] == "retrieve"
    assert journal.names[at + 1].startswith("persist:retrieval:message-")


def test_without_a_hit_nothing_is_told_or_recorded() -> None:
    journal = Journal()
    finder = Finder()
    finder.texts = ()
    made = deps(["Hi."], retriever=finder)

    turn(made, journal)

    assert not [name for name in journal.names if name.startswith("persist:retrieval")]
    assert "toolCalls" not in messages_of(made)[1]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("  What\n is\tthis? ", "What is this?"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 57 + "..."),
        ("   ", "New chat"),
    ],
    ids=plain_id,
)
def test_a_thread_without_a_name_is_named_after_what_was_asked(text: str, title: str) -> None:
    hooks = Hooks()
    made = deps(["Hi."])

    turn(made, hooks, text)

    thread = asyncio.run(made.store.get_thread("t1"))
    assert thread is not None
    assert thread.title == title
    assert [f["title"] for f in hooks.sink.frames("title")] == [title]


def test_a_thread_with_a_name_keeps_it() -> None:
    journal = Journal()
    made = deps(["Hi."])
    asyncio.run(made.store.create_thread(actor=ANN, id="t1", title="Mine"))

    turn(made, journal)

    assert "persist:title" not in journal.names


def test_at_the_limit_of_steps_the_turn_completes_with_the_last_text() -> None:
    journal = Journal()
    model = ScriptedModel([said("One.", ("look", {})), said("Two.", ("look", {}))])
    made = deps(model, tool("look"), max_steps=2, follow_ups_count=3, output_schema=int)

    result = turn(made, journal)

    assert (result.text, result.stopped_by, result.object) == ("Two.", "max_steps", None)
    assert journal.names[-1] == "persist:run:end"
    assert purposes_of(made) == ["chat", "chat"]


def test_regenerate_answers_the_last_question_anew() -> None:
    model = ScriptedModel(["First.", "Second."])
    made = deps(model)
    turn(made, Hooks(run_id="run-1"), "Why?")
    journal = Journal(run_id="run-2")
    made.model = ScriptedModel(["Better."])

    turn(made, journal, "ignored", regenerate=True)

    assert journal.names[:2] == ["regenerate:truncate", "load:thread"]
    assert [(m["role"], m["content"]) for m in messages_of(made)] == [("user", "Why?"), ("assistant", "Better.")]


def test_regenerate_searches_for_what_was_really_asked() -> None:
    finder = Finder()
    made = deps(["First."], retriever=finder)
    turn(made, Hooks(run_id="run-1"), "Why?")

    turn(made, Hooks(run_id="run-2"), "ignored", regenerate=True)

    assert [query for query, _ in finder.asked] == ["Why?", "Why?"]
    assert messages_of(made)[1]["toolCalls"][0]["input"] == {"query": "Why?"}


def test_regenerate_without_a_question_is_refused_and_deletes_nothing() -> None:
    made = deps(["Hi."])

    with pytest.raises(InvalidRequest, match="t1"):
        turn(made, regenerate=True)


def test_attachments_are_stored_and_told() -> None:
    model = ScriptedModel(["Hi."])
    made = deps(model)
    attached = [{"name": "a.txt", "mediaType": "text/plain", "data": "aGk="}]

    turn(made, attachments=attached)

    assert messages_of(made)[0]["attachments"] == attached
    assert model.requests[0].messages[0]["attachments"] == attached


def test_what_is_the_stores_business_is_not_told_to_the_model() -> None:
    model = ScriptedModel([[("look", {})], "Hi."])

    turn(deps(model, tool("look")))

    told = model.requests[1].messages[1]
    assert set(told) == {"role", "content", "toolCalls", "toolResults"}
    assert told["toolCalls"] == [{"id": "call-0-look", "name": "look", "input": {}}]


def test_an_error_of_the_model_ends_the_run_as_it_is() -> None:
    class Broken(Exception): ...

    broken = Broken("no")
    journal = Journal()
    with pytest.raises(Broken) as caught:
        turn(deps([broken]), journal)

    assert caught.value is broken
    assert not journal.sink.ended
    assert "persist:run:end" not in journal.names


def test_an_error_of_the_store_ends_the_run_as_it_is() -> None:
    made = deps([[("look", {})], "Hi."], tool("look"))

    async def broken(*args: Any) -> None:
        raise OSError("disk full")

    store: Any = made.store
    store.record_tool_call = broken
    with pytest.raises(OSError, match="disk full"):
        turn(made)


def test_a_store_with_the_required_methods_only_is_enough() -> None:
    made = deps([[("look", {}), ("send", {})], "Hi."], tool("look"), tool("send", kind="action"))
    required = [
        "create_thread",
        "get_thread",
        "set_title",
        "append_message",
        "set_message_tool_results",
        "record_tool_call",
        "update_tool_call",
        "record_usage",
    ]
    full: Any = made.store

    class Plain:
        pass

    plain: Any = Plain()
    for name in required:
        setattr(plain, name, getattr(full, name))
    made.store = plain

    assert turn(made).text == "Hi."


def test_the_same_call_the_third_time_is_a_persons_business() -> None:
    asked: list[tuple[str, int]] = []
    hooks = Hooks()

    def repeat(call: Any, count: int) -> str:
        asked.append((call["name"], count))
        return "Look elsewhere."

    hooks.await_repeat = repeat
    model = ScriptedModel([[("look", {"at": 1})]] * 3 + ["Hi."])
    made = deps(model, tool("look"), repeat_guard=3)

    turn(made, hooks)

    assert asked == [("look", 3)]
    result = model.requests[3].messages[-1]["toolResults"][0]
    assert "Look elsewhere." in result["error"]
    assert result["output"] is None


def test_a_repeated_call_stops_the_run_where_nobody_can_be_asked() -> None:
    made = deps([[("look", {})]] * 3, tool("look"), repeat_guard=2)
    with pytest.raises(RepeatedCallError, match="look"):
        turn(made)


@pytest.mark.parametrize(("said_last", "calls"), [("continue", 4), ("stop", 2)], ids=plain_id)
def test_a_person_may_let_a_repeated_call_go_on_or_stop_the_run(said_last: str, calls: int) -> None:
    model = ScriptedModel([*[[("look", {})]] * 3, "Done."])
    made = deps(model, tool("look"), repeat_guard=2)
    hooks = Hooks(await_repeat=lambda call, count: said_last)
    if said_last == "stop":
        with pytest.raises(RunCancelledError, match="stopped"):
            turn(made, hooks)
    else:
        turn(made, hooks)

    assert len(model.requests) == calls


@pytest.mark.parametrize(
    ("finish", "stopped"),
    [("stop", ""), ("length", "length"), ("max_tokens", "length"), ("refusal", "refusal"), ("odd", "odd")],
    ids=plain_id,
)
def test_what_ended_the_last_step_is_said_where_the_model_was_not_simply_done(finish: str, stopped: str) -> None:
    result = turn(deps([said("Hi", finish_reason=finish)]))

    assert (result.text, result.stopped_by) == ("Hi", stopped)


def test_a_thread_that_somebody_named_meanwhile_keeps_that_name() -> None:
    made = deps(lambda request, n: rename())

    async def rename() -> str:
        await made.store.set_title("t1", "Mine")
        return "Hi."

    hooks = Hooks()
    turn(made, hooks)

    thread = asyncio.run(made.store.get_thread("t1"))
    assert thread is not None
    assert thread.title == "Mine"
    assert not hooks.sink.frames("title")


def test_passages_may_be_plain_texts() -> None:
    class Plain:
        def retrieve(self, query: str, *, top_k: int) -> Any:
            return ["a fact"]

    made = deps(["Hi."], retriever=Plain())
    turn(made)

    assert row_of(made, "retrieve").output == {"passages": [{"text": "a fact"}]}


@pytest.mark.parametrize("name", ["max_steps", "output_repair_attempts", "retrieval_top_k"], ids=plain_id)
@pytest.mark.parametrize("value", [-1, 1.5, True, "3"], ids=plain_id)
def test_numbers_that_cannot_be_are_refused(name: str, value: Any) -> None:
    with pytest.raises(DefinitionError, match=name):
        deps(["Hi."], **{name: value})


def test_a_way_of_approval_that_is_not_there_is_refused() -> None:
    with pytest.raises(DefinitionError, match="action_approval_mode"):
        deps(["Hi."], action_approval_mode="independent")


# -- turns that another one started -----------------------------------------------------------------------


async def waiting(made: Any) -> dict[str, str]:
    """A thread in which a call waits for the answer of another agent."""
    await made.store.create_thread(actor=ANN, id="t0")
    await made.store.record_tool_call(ToolCallRow(id="call-start", thread_id="t0", run_id="run-0", tool_name="start_poet"))
    return {"threadId": "t0", "toolCallId": "call-start"}


def test_a_detached_answer_is_posted_where_it_was_asked_for_and_on_the_row() -> None:
    made, journal = deps(["A poem."]), Journal()
    to = asyncio.run(waiting(made))
    turn(made, journal, agent_name="poet", deliver_to=to, parent_run_id="run-0")

    assert [(m["content"], m["agentName"], m["runId"]) for m in messages_of(made, "t0")] == [("A poem.", "poet", "run-1")]
    told = {"detached": True, "status": "delivered", "agent": "poet", "runId": "run-1", "text": "A poem."}
    assert row_of(made, "start_poet").output == told
    assert journal.names[-2:] == ["deliver:detached", "persist:run:end"]
    store: Any = made.store
    assert store.runs()[0].parent_run_id == "run-0"


@pytest.mark.case("agents:I06")
@pytest.mark.parametrize("why", ["deleted", "blank"], ids=plain_id)
def test_nothing_is_posted_in_a_thread_that_is_gone_or_where_nothing_was_said(why: str) -> None:
    made = deps(["A poem." if why == "deleted" else " "])
    to = asyncio.run(waiting(made))
    if why == "deleted":
        asyncio.run(made.store.soft_delete_thread("t0"))

    result = turn(made, agent_name="poet", deliver_to=to)

    assert result.text == ("A poem." if why == "deleted" else " ")
    assert why == "deleted" or messages_of(made, "t0") == []


@pytest.mark.case("agents:I07")
def test_an_ordinary_turn_delivers_nothing() -> None:
    journal = Journal()
    turn(deps(["Hi."]), journal)

    assert "deliver:detached" not in journal.names


@pytest.mark.case("agents:I07")
def test_an_answer_that_is_delivered_changes_no_call_of_the_same_id_in_another_conversation() -> None:
    made = deps(["A poem."])

    async def conversations() -> None:
        for thread, run in (("asking", "run-0"), ("other", "run-9")):
            await made.store.create_thread(actor=ANN, id=thread)
            row = ToolCallRow(id="call-0", thread_id=thread, run_id=run, tool_name="start_poet", output={"of": thread})
            await made.store.record_tool_call(row)

    asyncio.run(conversations())
    turn(made, agent_name="poet", deliver_to={"threadId": "asking", "toolCallId": "call-0"})

    outputs = {row.thread_id: row.output for row in rows_of(made)}
    assert outputs["asking"]["text"] == "A poem."
    assert outputs["other"] == {"of": "other"}
