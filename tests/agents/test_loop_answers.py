"""Answers: blank ones, follow-ups, structured output and the gate before the reader: contracts/agents.md §1.3, §1.9, §1.10."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from loomnb.agents.failures import OutputRejectedError, ProcessorFailedError, StructuredOutputError
from loomnb.agents.frames import frame
from loomnb.agents.history import summarizing_history, window_history
from loomnb.agents.spi import ChatMessage, OutputVerdict
from loomnb.testing import ScriptedModel
from tests.agents.looping import (
    ANN,
    Hooks,
    Journal,
    Killed,
    deps,
    everything_of,
    messages_of,
    purposes_of,
    rows_of,
    said,
    tool,
    turn,
)
from tests.agents.test_loop_basics import Quota
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
    assert len(told) == 1 and told[0]["toolCalls"]


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
    assert result.text == "Hi." and result.usage == {"inputTokens": 1}


class Gate:
    """An output processor: text → verdict."""

    name = "gate"

    def __init__(self, judge: Any) -> None:
        self._judge = judge
        self.seen: list[str] = []

    def process(self, answer: Any, ctx: Any) -> OutputVerdict:
        self.seen.append(answer["text"])
        verdict: OutputVerdict = self._judge(answer)
        return verdict


def masks(word: str) -> Any:
    return Gate(lambda answer: OutputVerdict(action="replace", text=answer["text"].replace(word, "***")))


def refuses(word: str) -> Any:
    return Gate(lambda a: OutputVerdict(action="reject", reason="no") if word in a["text"] else OutputVerdict())


def test_each_follow_up_is_judged_alone_and_a_refused_one_is_left_out() -> None:
    made, _ = with_follow_ups('["fine?", "secret?"]', output_processors=[refuses("secret")])
    turn(made)

    assert messages_of(made)[1]["followUps"] == ["fine?"]


class Mask:
    """An input processor."""

    name = "mask"

    def process(self, prompt: Any, ctx: Any) -> Any:
        return replace(prompt, messages=[replace(m, content=m.content.replace("4242", "****")) for m in prompt.messages])


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


# -- structured output ------------------------------------------------------------------------------------


@pytest.mark.case("agents:K01")
def test_without_a_schema_there_is_no_pass() -> None:
    journal = Journal()
    result = turn(deps(["Hi."]), journal)

    assert result.object is None
    assert not [n for n in journal.names if "structured" in n]


def structured(*replies: Any, **more: Any) -> tuple[Any, ScriptedModel]:
    left = list(replies)
    model = ScriptedModel(lambda request, n: left.pop(0) if request.output_schema else [[("look", {})], "It is 7."][n])
    return deps(model, tool("look"), output_schema=more.pop("output_schema", dict[str, int]), **more), model


@pytest.mark.case("agents:K02", "agents:K03", "agents:K06")
def test_the_value_comes_from_one_more_call_without_tools_and_the_prose_stays() -> None:
    journal, usage = Journal(), {"inputTokens": 4}
    made, model = structured(said("", object={"n": 7}, model_id="formatter", usage=usage))
    result = turn(made, journal, "How many?")

    assert (result.text, result.object) == ("It is 7.", {"n": 7})
    assert [bool(r.tools) for r in model.requests] == [True, True, False]
    assert [(m["role"], m["content"]) for m in model.requests[2].messages] == [("user", "How many?"), ("assistant", "It is 7.")]
    store: Any = made.store
    assert [(r.purpose, r.model_id) for r in store.usage_rows()][-1] == ("structured_output", "formatter")
    last = messages_of(made)[-1]
    assert last["content"] == "It is 7."
    assert [(c["id"], c["name"], c["input"]) for c in last["toolCalls"]] == [("structured-run-1", "structured_output", {})]
    assert [(r["id"], r["output"]) for r in last["toolResults"]] == [("structured-run-1", {"n": 7})]
    assert [f["output"] for f in journal.sink.frames("tool-output")] == ["ok", {"n": 7}]
    assert [r.output for r in rows_of(made) if r.tool_name == "structured_output"] == [{"n": 7}]


def test_the_whole_conversation_is_told_where_that_is_wanted() -> None:
    made, model = structured('{"n": 7}', output_from_transcript=True)
    turn(made)

    assert [m["role"] for m in model.requests[2].messages] == ["user", "assistant", "assistant"]


@pytest.mark.case("agents:K08")
def test_a_reply_that_does_not_fit_is_asked_for_again_with_what_is_wrong() -> None:
    made, model = structured('{"n": "many"}', '{"n": 7}')
    result = turn(made)

    assert result.object == {"n": 7}
    assert "rejected" in model.requests[3].system and "n: " in model.requests[3].system
    assert purposes_of(made) == ["chat", "chat", "structured_output", "structured_output"]


@pytest.mark.case("agents:K09")
@pytest.mark.parametrize(("repairs", "calls"), [(None, 2), (2, 3), (0, 1)], ids=plain_id)
def test_a_model_that_never_fits_ends_the_turn_with_its_last_words(repairs: int | None, calls: int) -> None:
    more = {} if repairs is None else {"output_repair_attempts": repairs}
    made, _ = structured(*(f"no json {n}" for n in range(calls)), **more)
    journal = Journal()
    with pytest.raises(StructuredOutputError) as caught:
        turn(made, journal)

    assert (caught.value.attempts, caught.value.text, caught.value.issues) == (calls, f"no json {calls - 1}", ())
    assert purposes_of(made).count("structured_output") == calls
    assert [m["role"] for m in messages_of(made)] == ["user", "assistant"]  # the final answer is not stored


def test_a_reply_that_was_cut_off_is_not_asked_for_again_with_the_same_limit() -> None:
    made, _ = structured(said('{"n": ', finish_reason="length"), '{"n": 7}')
    with pytest.raises(StructuredOutputError) as caught:
        turn(made)

    assert (caught.value.attempts, caught.value.cut_off) == (1, True)


@pytest.mark.case("agents:K11")
def test_a_recorded_attempt_is_used_again() -> None:
    made, model = structured('{"n": "many"}', '{"n": 7}')
    first = Journal(dies_at=19)
    with pytest.raises(Killed):
        turn(made, first)
    assert first.names[-1] == "structured:1:1"
    assert turn(made, first.again()).object == {"n": 7}
    assert len(model.requests) == 4


@pytest.mark.case("agents:K12")
def test_the_gate_judges_the_value_too() -> None:
    made, _ = structured('{"n": 7}', '{"n": 7}', output_processors=[masks("7")], output_schema=dict[str, str])
    with pytest.raises(StructuredOutputError):
        turn(made)  # *** is no JSON


@pytest.mark.case("agents:K12", "agents:K13")
def test_what_the_gate_rewrote_is_read_again_and_the_providers_object_is_not_used() -> None:
    reply = said('{"name": "bob"}', object={"name": "bob"})
    made, _ = structured(reply, output_processors=[masks("bob")], output_schema=dict[str, str])
    result = turn(made)

    assert result.object == {"name": "***"}
    assert [r["output"] for r in messages_of(made)[-1]["toolResults"]] == [{"name": "***"}]


def test_an_object_without_a_text_does_not_get_past_the_gate() -> None:
    made, _ = structured(said("", object={"name": "bob"}), output_processors=[masks("bob")], output_schema=dict[str, str])

    assert turn(made).object == {"name": "***"}


@pytest.mark.case("agents:K12")
def test_a_refused_value_fails_the_run_and_is_told_nobody() -> None:
    hooks = Hooks()
    made, _ = structured(said("", object={"name": "bob"}), output_processors=[refuses("bob")], output_schema=dict[str, str])
    with pytest.raises(OutputRejectedError):
        turn(made, hooks)

    assert "bob" not in str(everything_of(made)["messages"]) and "bob" not in str(hooks.sink.lines)
    assert purposes_of(made)[-1] == "structured_output"


@pytest.mark.case("agents:K14")
@pytest.mark.parametrize(("schema", "gated"), [(None, True), (int, False), (int, True)], ids=plain_id)
def test_the_gate_of_the_value_takes_a_position_only_with_both(schema: Any, gated: bool) -> None:
    journal = Journal()
    processor = Incremental(lambda text: OutputVerdict())
    model = ScriptedModel(lambda request, n: "7" if request.output_schema else "Seven.")
    turn(deps(model, output_schema=schema, output_processors=[processor] if gated else []), journal)

    assert ("process:output:structured:0:0" in journal.names) is (schema is not None and gated)
    assert processor.seen.count("7") == (1 if schema is not None and gated else 0)


def test_a_value_of_null_is_a_value() -> None:
    made, _ = structured("null", output_schema=int | None)
    result = turn(made)

    assert result.object is None
    assert [r["output"] for r in messages_of(made)[-1]["toolResults"]] == [None]


# -- the gate ---------------------------------------------------------------------------------------------


class Incremental:
    name = "incremental"

    def __init__(self, judge: Any, lookback: int | None = None) -> None:
        self._judge = judge
        self.incremental: Any = {} if lookback is None else {"lookbackChars": lookback}
        self.seen: list[str] = []

    def process(self, answer: Any, ctx: Any) -> OutputVerdict:
        self.seen.append(answer["text"])
        verdict: OutputVerdict = self._judge(answer["text"]) if answer["text"] != "tools" else self._judge(answer)
        return verdict


def streaming(*pieces: str, **more: Any) -> Any:
    async def script(request: Any, n: int) -> Any:
        for piece in pieces:
            await request.sink.write(frame("text", text=piece))
        return said("".join(pieces), usage={"inputTokens": 3}, **more)

    return ScriptedModel(script)


def texts(hooks: Any) -> list[str]:
    return [f["text"] for f in hooks.sink.frames("text")]


@pytest.mark.case("agents:M02")
def test_how_an_answer_is_held_back_changes_no_position_but_the_gates() -> None:
    names, shown = [], []
    for processors in ([], [Gate(lambda a: OutputVerdict())], [Incremental(lambda text: OutputVerdict(), 1)]):
        journal = Journal()
        turn(deps(streaming("ab", "cd", "ef"), output_processors=processors), journal)
        names.append(journal.names)
        shown.append(texts(journal))

    off, whole, incremental = names
    assert whole == incremental
    assert [n for n in whole if n != "process:output:0"] == off
    assert shown == [["ab", "cd", "ef"], ["abcdef"], ["a", "bc", "de", "f"]]


@pytest.mark.case("agents:M03")
def test_a_window_wider_than_the_answer_shows_it_at_the_end_and_the_default_is_64() -> None:
    hooks = Hooks()
    turn(deps(streaming("a" * 30, "b" * 34), output_processors=[Incremental(lambda text: OutputVerdict())]), hooks)
    assert texts(hooks) == ["a" * 30 + "b" * 34]

    hooks = Hooks()
    turn(deps(streaming("a" * 64, "b"), output_processors=[Incremental(lambda text: OutputVerdict())]), hooks)
    assert texts(hooks) == ["a", "a" * 63 + "b"]


@pytest.mark.case("agents:M08")
def test_a_refusal_on_a_prefix_shuts_the_gate_and_is_billed_once() -> None:
    def judge(text: str) -> OutputVerdict:
        return OutputVerdict(action="reject", reason="no") if "x" in text else OutputVerdict()

    processor, journal, quota = Incremental(judge, 1), Journal(), Quota(100)
    made = deps(streaming("ab", "x", "cd"), output_processors=[processor], quota=quota)
    with pytest.raises(OutputRejectedError):
        turn(made, journal)

    assert texts(journal) == ["a"]
    assert processor.seen == ["ab", "abx"]
    assert purposes_of(made) == ["chat"] and quota.used == 3
    assert journal.names[-4:] == ["llm:0", "process:output:0", "persist:usage:0", "quota:bump:0"]
    assert [m["role"] for m in messages_of(made)] == ["user"]


@pytest.mark.case("agents:M09")
def test_a_refusal_at_the_end_comes_after_the_prefix_was_shown() -> None:
    def judge(text: str) -> OutputVerdict:
        return OutputVerdict(action="reject", reason="no") if text == "abcd" else OutputVerdict()

    journal = Journal()
    made = deps(streaming("ab", "c", "d"), output_processors=[Incremental(judge, 1)])
    with pytest.raises(OutputRejectedError):
        turn(made, journal)

    assert texts(journal) == ["a", "b"]
    assert [m["role"] for m in messages_of(made)] == ["user"]


@pytest.mark.case("agents:M10")
def test_a_refusal_for_the_tools_comes_with_the_whole_answer() -> None:
    class NoTools:
        name = "no-tools"
        incremental: Any = {"lookbackChars": 0}

        def process(self, answer: Any, ctx: Any) -> OutputVerdict:
            return OutputVerdict(action="reject", reason="tools") if answer["toolCalls"] else OutputVerdict()

    async def script(request: Any, n: int) -> Any:
        return said("Look.", ("look", {}))

    made = deps(ScriptedModel(script), tool("look"), output_processors=[NoTools()])
    with pytest.raises(OutputRejectedError, match="tools"):
        turn(made)

    assert rows_of(made) == []


@pytest.mark.case("agents:M11")
def test_after_a_crash_between_model_and_gate_only_the_held_tail_is_shown() -> None:
    at = 7
    made = deps(streaming("ab", "cd"), output_processors=[Incremental(lambda text: OutputVerdict(), 1)])
    first = Journal(dies_at=at)
    with pytest.raises(Killed):
        turn(made, first)
    assert first.names[-1] == "process:output:0" and texts(first) == ["a", "bc"]

    made.output_processors = [Gate(lambda a: OutputVerdict())]  # declared otherwise by now
    again = first.again()
    turn(made, again)

    assert texts(again) == ["a", "bc", "d"]


def test_a_processor_that_breaks_ends_the_turn_after_nothing_was_shown() -> None:
    def broken(answer: Any) -> OutputVerdict:
        raise KeyError("oops")

    hooks = Hooks()
    with pytest.raises(ProcessorFailedError):
        turn(deps(["secret"], output_processors=[Gate(broken)]), hooks)

    assert texts(hooks) == []


def test_what_the_gate_made_of_a_text_is_what_is_stored_and_told_without_the_providers_own() -> None:
    def script(request: Any, n: int) -> Any:
        return [said("the secret", ("look", {}), native={"raw": "the secret"}), "Done."][n]

    model = ScriptedModel(script)
    made = deps(model, tool("look"), output_processors=[masks("secret")])
    turn(made)

    assert messages_of(made)[1]["content"] == "the ***" and "native" not in messages_of(made)[1]
    assert "secret" not in str(model.requests[1].messages)


def test_what_a_provider_wants_back_is_told_to_it_again() -> None:
    model = ScriptedModel([said("Look.", ("look", {}), native={"raw": 1}), "Done."])
    made = deps(model, tool("look"))
    turn(made)

    assert model.requests[1].messages[1]["native"] == {"raw": 1}
    assert messages_of(made)[1]["native"] == {"raw": 1}


# -- history ----------------------------------------------------------------------------------------------


def test_a_policy_bounds_what_is_told() -> None:
    model = ScriptedModel(lambda request, n: "Hi.")
    made = deps(model, history_policy=window_history(max_messages=2))
    for n in range(3):
        turn(made, Hooks(run_id=f"run-{n}"), f"Question {n}")

    assert [m["content"] for m in model.requests[-1].messages] == ["Hi.", "Question 2"]


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

    assert "history:summarize" in journal.names and "persist:usage:history" not in journal.names
