"""What of a thread a model is told: complete, without blanks, no more than fits, and in short."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loomnb.agents.history import (
    SUMMARY_INSTRUCTION,
    drop_blank,
    estimate_tokens,
    model_messages,
    settle_history,
    summarizing_history,
    unanswered_calls,
    window_history,
    with_summary,
)
from loomnb.agents.memory_store import InMemoryAgentStore
from loomnb.agents.spi import Actor, ChatMessage, HistoryContext, HistorySummary, ToolCallRow
from loomnb.errors import InvalidRequest
from loomnb.runtime import TurnRequest, TurnResult
from loomnb.testing import ScriptedModel, StillSource
from tests.agents.looping import Hooks, Suspended, deps, said, tool, turn

CTX = HistoryContext(actor=Actor(id="ann"), thread_id="t")


def user(text: str = "hi") -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(text: str = "", *calls: str, results: list[dict[str, Any]] | None = None, **more: Any) -> ChatMessage:
    told = [{"id": id_, "name": f"tool-{id_}", "input": {}, "kind": "read"} for id_ in calls]
    return ChatMessage(role="assistant", content=text, tool_calls=told or None, tool_results=results, **more)


def result(id_: str, output: Any = 1) -> dict[str, Any]:
    return {"id": id_, "name": f"tool-{id_}", "output": output}


# -- complete --


def test_a_complete_history_is_given_back_as_it_is() -> None:
    messages = [user(), assistant("", "a", "b", results=[result("b"), result("a")]), assistant("done")]

    assert settle_history(messages, {"a": {"status": "rejected"}}) is messages


def test_messages_that_are_complete_stay_the_same_objects() -> None:
    messages = [user(), assistant("", "a"), assistant("done")]
    settled = settle_history(messages, {})

    assert settled[0] is messages[0]
    assert settled[2] is messages[2]
    assert messages[1].tool_results is None


OUTCOMES: list[tuple[str, dict[str, Any] | None, dict[str, Any], str]] = [
    ("executed", {"status": "executed", "output": {"x": 1}}, {"output": {"x": 1}}, ""),
    ("executed-gave-nothing", {"status": "executed", "output": None}, {"output": None}, ""),
    (
        "rejected",
        {"status": "rejected", "reason": "too early"},
        {"output": {"rejected": True, "reason": "too early"}, "denied": True},
        "They said: too early",
    ),
    (
        "rejected-without-reason",
        {"status": "rejected"},
        {"output": {"rejected": True, "reason": "rejected by user"}, "denied": True},
        "A person declined",
    ),
    (
        "expired",
        {"status": "expired"},
        {"output": {"rejected": True, "expired": True, "reason": "approval expired"}, "denied": True, "expired": True},
        "Nobody decided",
    ),
    ("failed", {"status": "failed", "error": "boom"}, {"output": None}, "boom"),
    ("stopped", {"status": "auto_executed"}, {"output": None}, "started and was stopped"),
    ("read-with-output", {"status": "auto_executed", "output": 5}, {"output": 5}, ""),
    ("approved-and-stopped", {"status": "pending_approval", "decided": True}, {"output": None}, "started and was stopped"),
    ("waiting", {"status": "pending_approval"}, {"output": None}, "never started"),
    ("proposed", {"status": "proposed"}, {"output": None}, "never started"),
    ("unknown", None, {"output": None}, "never completed"),
]


@pytest.mark.parametrize(("outcome", "told", "error"), [row[1:] for row in OUTCOMES], ids=[row[0] for row in OUTCOMES])
def test_a_call_without_a_result_gets_one_of_what_is_on_record(
    outcome: dict[str, Any] | None, told: dict[str, Any], error: str
) -> None:
    settled = settle_history([assistant("", "a")], {} if outcome is None else {"a": outcome})
    (got,) = settled[0].tool_results or ()
    said = got.get("error", "")

    assert {key: value for key, value in got.items() if key != "error"} == {"id": "a", "name": "tool-a", **told}
    assert error in said
    assert bool(said) == bool(error)


def test_a_result_that_is_there_is_kept_and_results_stand_in_the_order_of_their_calls() -> None:
    settled = settle_history(
        [assistant("", "a", "b", "c", results=[result("c", "kept")])], {"b": {"status": "executed", "output": 2}}
    )
    results = settled[0].tool_results or ()

    assert [one["id"] for one in results] == ["a", "b", "c"]
    assert [one["output"] for one in results] == [None, 2, "kept"]


def test_every_call_has_exactly_one_result_right_with_it() -> None:
    messages = [
        assistant("", "a", "b", results=[result("a"), result("a", "again"), result("nobody")]),
        user(),
        assistant("late", results=[result("b", "moved")]),
    ]
    settled = settle_history(messages, {})

    assert settled[0].tool_results == [result("a"), result("b", "moved")]
    assert settled[2].tool_results is None


def test_the_calls_without_a_result_are_known() -> None:
    messages = [assistant("", "a", "b", results=[result("b")]), user(), assistant("", "c")]

    assert unanswered_calls(messages) == ["a", "c"]


def test_a_call_whose_id_has_a_result_on_another_calls_message_has_none() -> None:
    messages = [assistant("", "a"), assistant("", "a", results=[result("a")])]

    assert unanswered_calls(messages) == ["a"]


def test_a_history_is_settled_from_the_rows_of_a_store() -> None:
    async def story() -> list[str]:
        store = InMemoryAgentStore(source=StillSource())
        await store.create_thread(actor=Actor(id="ann"), id="t")
        await store.append_message("t", assistant("", "ran", "stopped", "waited"))
        for id_, status in (("ran", "executed"), ("stopped", "auto_executed"), ("waited", "pending_approval")):
            await store.record_tool_call(ToolCallRow(id=id_, thread_id="t", tool_name="x", status=status))  # type: ignore[arg-type]
        messages = store.messages("t")
        settled = settle_history(messages, await store.tool_call_outcomes(unanswered_calls(messages)))
        return [str(one.get("error", "ran"))[:30] for one in settled[0].tool_results or ()]

    assert asyncio.run(story()) == ["ran", "This call started and was stop", "This call never started, so it"]


def test_a_call_that_never_ended_is_not_told_what_another_conversations_call_of_its_id_gave() -> None:
    def stops(given: Any, ctx: Any) -> Any:
        raise Suspended

    call = said("", ("look", {}))
    first = deps([call], tool("look", stops))
    with pytest.raises(Suspended):
        turn(first, Hooks(run_id="r1"))
    theirs = deps([call, "Done."], tool("look", lambda given, ctx: "a secret"), store=first.store)
    turn(theirs, Hooks(run_id="r2"), thread_id="t2", actor=Actor(id="bob"))
    model = ScriptedModel(lambda request, n: "Go on.")
    turn(deps(model, store=first.store), Hooks(run_id="r3"))

    (told,) = model.requests[0].messages[1]["toolResults"]
    assert (told["id"], told["output"]) == ("call-look", None)
    assert "never completed" in told["error"]


def test_a_call_that_its_tools_own_check_refused_is_not_told_as_declined_by_a_person() -> None:
    (settled,) = settle_history([assistant("", "a")], {"a": {"status": "rejected", "error": "too late"}})
    (told,) = settled.tool_results or ()

    assert (told["denied"], told["output"]) == (True, {"rejected": True, "reason": "too late"})
    assert "A person" not in told["error"]


@pytest.mark.case("agents:B01")
def test_blank_answers_are_not_told_and_calls_without_text_are() -> None:
    calls = assistant("", "a", results=[result("a")])

    assert drop_blank([user(), calls, assistant(""), assistant(" \n\t"), user(), assistant("x")]) == [
        user(),
        calls,
        user(),
        assistant("x"),
    ]


@pytest.mark.case("agents:B03")
def test_a_blank_answer_with_follow_ups_is_not_told() -> None:
    assert drop_blank([user(), assistant("", follow_ups=["and?"])]) == [user()]


def test_a_blank_message_of_a_person_is_told() -> None:
    assert drop_blank([user("")]) == [user("")]


def test_a_model_is_told_nothing_that_is_only_for_people() -> None:
    message = assistant("x", "a", results=[result("a")], ui=[{"id": "u"}], follow_ups=["and?"], native={"s": 1}, cost_usd=1.0)
    (told,) = model_messages([message])

    assert told == {
        "role": "assistant",
        "content": "x",
        "toolCalls": [{"id": "a", "name": "tool-a", "input": {}}],
        "toolResults": [result("a")],
        "native": {"s": 1},
    }


# -- no more than fits --


FIVE = [user(str(number)) for number in range(5)]


def kept(policy: Any, messages: list[ChatMessage]) -> list[str]:
    selection = policy.select(messages, CTX)
    assert [*selection.drop, *selection.keep] == messages
    return [message.content for message in selection.keep]


@pytest.mark.case("agents:X04")
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_messages": 2}, ["3", "4"]),
        ({"max_messages": 9}, ["0", "1", "2", "3", "4"]),
        ({"max_messages": 0}, ["4"]),
        ({"max_tokens": 30}, ["2", "3", "4"]),
        ({"max_tokens": 29}, ["3", "4"]),
        ({"max_tokens": 0}, ["4"]),
        ({"max_messages": 1, "max_tokens": 30}, ["4"]),
        ({"max_messages": 4, "max_tokens": 20}, ["3", "4"]),
        ({}, ["0", "1", "2", "3", "4"]),
    ],
    ids=str,
)
def test_a_window_keeps_the_newest_that_fit(limits: dict[str, int], expected: list[str]) -> None:
    assert kept(window_history(**limits, estimate=lambda _: 10), FIVE) == expected


@pytest.mark.case("agents:X04")
@pytest.mark.parametrize("limits", [{"max_messages": 0}, {"max_tokens": 0}, {}], ids=str)
def test_an_empty_history_stays_empty(limits: dict[str, int]) -> None:
    assert kept(window_history(**limits), []) == []


@pytest.mark.case("agents:X04")
def test_a_long_message_ends_a_window_also_when_an_older_one_would_fit() -> None:
    messages = [user("a"), user("b" * 400), user("c")]

    assert kept(window_history(max_tokens=50), messages) == ["c"]


def test_a_window_promises_how_many_messages_it_reads() -> None:
    promised = [window_history(**limits).max_messages for limits in ({"max_messages": 7}, {"max_messages": 0}, {"max_tokens": 7})]

    assert promised == [7, 1, None]


@pytest.mark.parametrize("limit", [-1, 1.5, True], ids=str)
def test_a_limit_that_cannot_be_is_refused(limit: Any) -> None:
    with pytest.raises(InvalidRequest):
        window_history(max_messages=limit)
    with pytest.raises(InvalidRequest):
        window_history(max_tokens=limit)


@pytest.mark.case("agents:X05")
def test_an_estimate_grows_with_text_and_with_the_data_of_tools() -> None:
    plain, longer = assistant("x" * 40), assistant("x" * 80)
    with_call = assistant("x" * 40, "a")
    with_result = assistant("x" * 40, "a", results=[result("a", "y" * 100)])
    sizes = [estimate_tokens(message) for message in (assistant(""), plain, longer, with_call, with_result)]

    assert sizes[:3] == [0, 10, 20]
    assert sizes[1] < sizes[3] < sizes[4]


# -- in short --


class Summarizer:
    """Says how it was asked, and writes while it does."""

    def __init__(self) -> None:
        self.requests: list[TurnRequest] = []

    async def run_turn(self, request: TurnRequest) -> TurnResult:
        self.requests.append(request)
        assert request.sink is not None
        await request.sink.write('{"kind": "text", "text": "They talked"}\n')
        return TurnResult(text=" They talked. ", usage={"inputTokens": 9, "outputTokens": 3}, model_id="small", cost_usd=0.01)


@pytest.mark.case("agents:X05")
def test_a_summary_is_made_of_what_is_dropped_without_tools() -> None:
    model = Summarizer()
    policy = summarizing_history(model, max_messages=2)
    selection = policy.select(FIVE, CTX)
    summary = asyncio.run(policy.summarize(selection.drop, CTX))
    (request,) = model.requests

    assert (summary.text, summary.usage, summary.model_id, summary.cost_usd) == (
        "They talked.",
        {"inputTokens": 9, "outputTokens": 3},
        "small",
        0.01,
    )
    assert [message["content"] for message in request.messages[:-1]] == ["0", "1", "2"]
    assert request.messages[-1]["role"] == "user"
    assert (request.tools, request.system) == ((), SUMMARY_INSTRUCTION)


@pytest.mark.case("agents:X05")
def test_a_summary_follows_an_instruction_of_ones_own() -> None:
    model = ScriptedModel(["In short."])
    policy = summarizing_history(model, max_messages=1, instruction="One sentence.", model="tiny")
    summary = asyncio.run(policy.summarize(FIVE, CTX))

    assert (model.requests[0].system, model.requests[0].model) == ("One sentence.", "tiny")
    assert (summary.text, summary.usage) == ("In short.", None)


def test_what_is_summarized_has_no_call_without_a_result() -> None:
    model = Summarizer()
    asyncio.run(summarizing_history(model).summarize([user(), assistant("", "a"), assistant(" ")], CTX))

    told = model.requests[0].messages
    assert [message["role"] for message in told] == ["user", "assistant", "user"]
    assert [one["id"] for one in told[1]["toolResults"]] == ["a"]


def test_a_policy_that_summarizes_does_not_promise_to_read_less() -> None:
    assert getattr(summarizing_history(ScriptedModel([]), max_messages=2), "max_messages", None) is None


@pytest.mark.case("agents:K16")
def test_a_summary_is_told_as_a_system_message_before_the_others() -> None:
    told = with_summary(FIVE[3:], HistorySummary(text="They talked."))

    assert [(message.role, message.content) for message in told] == [("system", "They talked."), ("user", "3"), ("user", "4")]


@pytest.mark.parametrize("summary", [None, HistorySummary(text=" ")], ids=["none", "blank"])
def test_without_a_summary_the_kept_messages_are_told_alone(summary: HistorySummary | None) -> None:
    assert with_summary(FIVE, summary) == FIVE
