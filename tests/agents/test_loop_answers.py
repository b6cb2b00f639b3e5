"""Answers of a turn: blank ones, follow-ups, and what is told of the thread before: contracts/agents.md §1.3, §1.9."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from loomnb.agents.history import summarizing_history, window_history
from loomnb.agents.spi import ChatMessage
from loomnb.testing import ScriptedModel
from tests.agents.doubles import Mask, refuses
from tests.agents.looping import (
    ANN,
    Hooks,
    Journal,
    Suspended,
    deps,
    messages_of,
    purposes_of,
    said,
    tool,
    turn,
)
from tests.helpers import plain_id

# -- blank steps ----------------------------------------------------------------------------------------


@pytest.mark.case("agents:B01")
def test_a_blank_final_step_is_not_stored_and_the_next_turn_is_not_told_of_it() -> None:
    def script(request: Any, n: int) -> Any:
        if request.messages[-1].get("content") == "Again":
            return "Hi."
        return [[("look", {})], ""][n]

    model = ScriptedModel(script)
    made = deps(model, tool("look"))
    turn(made, Hooks(run_id="run-1"))
    turn(made, Hooks(run_id="run-2"), "Again")

    assert [(m["role"], m["content"]) for m in messages_of(made)] == [
        ("user", "Hello"), ("assistant", ""), ("user", "Again"), ("assistant", "Hi."),
    ]  # fmt: skip
    assert [r["output"] for r in messages_of(made)[1]["toolResults"]] == ["ok"]
    told = [m for m in model.requests[-1].messages if m["role"] == "assistant"]
    assert len(told) == 1
    assert told[0]["toolCalls"]


@pytest.mark.case("agents:B02")
def test_an_answer_of_white_space_is_not_stored() -> None:
    made, journal = deps([" \n\t "]), Journal()
    turn(made, journal)

    assert [m["role"] for m in messages_of(made)] == ["user"]
    assert dict(journal.records)["persist:assistant:0"] == "null"
    assert journal.names[-1] == "persist:run:end"


@pytest.mark.parametrize("more", [{"reasoning": "hm"}, {"ui": [{"id": "u", "component": "Card", "props": {}}]}], ids=plain_id)
def test_a_blank_step_that_holds_something_else_is_stored(more: dict[str, Any]) -> None:
    made = deps([said("", **more)])
    turn(made)

    assert [m["role"] for m in messages_of(made)] == ["user", "assistant"]


@pytest.mark.case("agents:B03")
def test_a_blank_answer_with_follow_ups_is_stored_with_them_and_they_are_asked_without_it() -> None:
    model = ScriptedModel(lambda request, n: '["What now?"]' if request.system.startswith("Suggest") else "")
    made = deps(model, follow_ups_count=2)
    turn(made)

    assert [m["role"] for m in model.requests[1].messages] == ["user"]
    assert messages_of(made)[1]["followUps"] == ["What now?"]


def test_a_thread_that_holds_a_blank_answer_heals() -> None:
    model = ScriptedModel(["Hi."])
    made = deps(model)

    async def poison() -> None:
        await made.store.create_thread(actor=ANN, id="t1")
        await made.store.append_message("t1", ChatMessage(role="assistant", content="  "))

    asyncio.run(poison())
    turn(made)

    assert [m["role"] for m in model.requests[0].messages] == ["user"]


# -- follow-ups -----------------------------------------------------------------------------------------


def with_follow_ups(reply: Any, **more: Any) -> Any:
    model = ScriptedModel(lambda request, n: reply if request.system.startswith("Suggest") else "Hi.")
    return deps(model, follow_ups_count=2, **more), model


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ('["A?", "B?", "C?"]', ["A?", "B?"]),
        ('Here: ["A?", 5, null] and more', ["A?"]),
        ("no idea", None),
        ("[]", None),
    ],
    ids=plain_id,
)
def test_follow_ups_are_read_out_of_the_reply_and_always_billed(reply: str, kept: list[str] | None) -> None:
    hooks = Hooks()
    made, model = with_follow_ups(said(reply, usage={"inputTokens": 1}))
    result = turn(made, hooks)

    assert messages_of(made)[1].get("followUps") == kept
    assert purposes_of(made) == ["chat", "follow_ups"]
    assert not model.requests[1].tools
    assert [f["text"] for f in hooks.sink.frames("text")] == ["Hi."]
    assert result.text == "Hi."
    assert result.usage == {"inputTokens": 1}


def test_each_follow_up_is_judged_alone_and_a_refused_one_is_left_out() -> None:
    made, _ = with_follow_ups('["fine?", "secret?"]', output_processors=[refuses("secret")])
    turn(made)

    assert messages_of(made)[1]["followUps"] == ["fine?"]


@pytest.mark.case("agents:K05")
def test_what_an_input_processor_masks_is_masked_in_every_call_of_the_turn() -> None:
    def script(request: Any, n: int) -> Any:
        if request.output_schema:
            return said(object=1)
        return '["A?"]' if request.system.startswith("Suggest") else "Paid."

    model = ScriptedModel(script)
    made = deps(model, input_processors=[Mask()], output_schema=int, follow_ups_count=1)
    turn(made, text="My card is 4242")

    assert len(model.requests) == 3
    assert [r.messages[0]["content"] for r in model.requests] == ["My card is ****"] * 3
    assert messages_of(made)[0]["content"] == "My card is 4242"


def test_an_input_processor_may_leave_nothing_of_the_conversation() -> None:
    class Nothing:
        name = "nothing"

        def process(self, prompt: Any, ctx: Any) -> Any:
            return replace(prompt, messages=[])

    model = ScriptedModel(lambda request, n: said(object=1) if request.output_schema else "Hi.")
    turn(deps(model, input_processors=[Nothing()], output_schema=int))

    assert [m["content"] for m in model.requests[1].messages] == ["Hi."]


# -- history ----------------------------------------------------------------------------------------------


def test_a_policy_bounds_what_is_told() -> None:
    model = ScriptedModel(lambda request, n: "Hi.")
    made = deps(model, history_policy=window_history(max_messages=2))
    for n in range(3):
        turn(made, Hooks(run_id=f"run-{n}"), f"Question {n}")

    assert [m["content"] for m in model.requests[-1].messages] == ["Hi.", "Question 2"]


def test_a_policy_bounds_what_is_on_record_of_the_run_too() -> None:
    made, journal = deps(ScriptedModel(lambda request, n: "Hi.")), Journal(run_id="run-2")
    turn(made, Hooks(run_id="run-1"), "Old")
    made.history_policy = window_history(max_tokens=1)
    turn(made, journal, "New")

    loaded = json.loads(dict(journal.records)["load:thread"])
    assert [m["content"] for m in [*loaded["messages"], *loaded["dropped"]]] == ["New"]


@pytest.mark.case("agents:K16")
def test_a_summary_is_billed_seen_by_input_processors_and_not_gated() -> None:
    summarizer = ScriptedModel(lambda request, n: said("They paid with ****.", usage={"inputTokens": 9}, model_id="s-1"))
    gate, journal = refuses("They paid"), Journal(run_id="run-2")
    made = deps(ScriptedModel(lambda request, n: "Hi."), input_processors=[Mask()], output_processors=[gate])
    turn(made, Hooks(run_id="run-1"), "My card is 4242")
    made.history_policy = summarizing_history(summarizer, max_messages=1)
    turn(made, journal, "And now?")

    assert "4242" not in str(summarizer.requests[0].messages)
    at = journal.names.index("load:thread")
    assert journal.names[at + 1 : at + 3] == ["history:summarize", "persist:usage:history"]
    store: Any = made.store
    assert [(r.purpose, r.model_id) for r in store.usage_rows()][1] == ("history_summary", "s-1")
    model: Any = made.model
    assert [(m["role"], m["content"]) for m in model.requests[-1].messages] == [
        ("system", "They paid with ****."), ("user", "And now?"),
    ]  # fmt: skip


def test_without_usage_a_summary_takes_no_row() -> None:
    made = deps(ScriptedModel(lambda request, n: "Hi."))
    turn(made, Hooks(run_id="run-1"))
    made.history_policy = summarizing_history(ScriptedModel(lambda request, n: "Short."), max_messages=1)
    journal = Journal(run_id="run-2")
    turn(made, journal)

    assert "history:summarize" in journal.names
    assert "persist:usage:history" not in journal.names


def test_an_older_run_has_the_whole_thread_on_record_and_is_bounded_afterwards() -> None:
    made = deps(ScriptedModel(lambda request, n: "Hi."))
    turn(made, Hooks(run_id="run-1"), "Old")
    made.history_policy = window_history(max_messages=1)
    journal = Journal(run_id="run-2", patched=lambda name: name != "agent:selected-history")
    turn(made, journal, "New")

    recorded = json.loads(dict(journal.records)["load:thread"])
    model: Any = made.model
    assert [m["content"] for m in recorded["messages"]] == ["Old", "Hi.", "New"]
    assert [m["content"] for m in model.requests[-1].messages] == ["New"]


def test_a_blank_summary_is_not_told() -> None:
    made = deps(ScriptedModel(lambda request, n: "Hi."))
    turn(made, Hooks(run_id="run-1"))
    made.history_policy = summarizing_history(ScriptedModel(lambda request, n: "  "), max_messages=1)
    turn(made, Hooks(run_id="run-2"), "New")

    model: Any = made.model
    assert [m["content"] for m in model.requests[-1].messages] == ["New"]


def test_what_a_summary_used_counts_for_the_run() -> None:
    made = deps(ScriptedModel(lambda request, n: said("Hi.", usage={"inputTokens": 1})))
    turn(made, Hooks(run_id="run-1"))
    made.history_policy = summarizing_history(ScriptedModel(lambda r, n: said("S.", usage={"inputTokens": 9})), max_messages=1)

    assert turn(made, Hooks(run_id="run-2")).usage == {"inputTokens": 10}


def test_calls_that_a_dead_run_left_open_are_told_with_what_became_of_them() -> None:
    model = ScriptedModel(lambda request, n: [[("send", {})], "Hi."][n] if n < 2 else "Later.")
    made = deps(model, tool("send", kind="action"))
    with pytest.raises(Suspended):
        turn(made, Journal(suspends={"tool:run-1:call-0-send"}))
    asyncio.run(made.store.fail_unsettled_tool_calls("run-1", "The run is gone."))  # type: ignore[attr-defined]
    turn(made, Hooks(run_id="run-2"), "And?")

    told = model.requests[-1].messages
    assert [m["role"] for m in told] == ["user", "assistant", "user"]
    assert told[1]["toolResults"] == [{"id": "call-0-send", "name": "send", "output": None, "error": "The run is gone."}]
    assert "toolResults" not in messages_of(made)[1]
