"""A turn of a vendor's model, with the vendor's own library over a socket: what it is told, what it writes, what it gives."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from loomnb.agents.providers import ModelError, ModelKeyMissing, ModelStreamCut, TurnCanceled, VendorModel, model_of_name
from loomnb.agents.providers.outputs import output_for
from loomnb.errors import InvalidRequest
from loomnb.runtime import AbortSignal, ModelTool, TurnRequest
from loomnb.testing import ProtocolServer, Reply, ScriptedModel
from tests.agents.providing import ADD, KEY, KINDS, OUTCOME, Sink, asked, model_for, said_to
from tests.helpers import PATIENCE

ROOT = Path(__file__).parent.parent.parent

both_ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
each_kind = pytest.mark.parametrize("kind", KINDS)


# -- what it gives -------------------------------------------------------------------------------------


@each_kind
@both_ways
def test_a_turn_gives_what_the_model_said(kind: str, stream: bool) -> None:
    with ProtocolServer(["Good morning to you."]) as server:
        result = asked(model_for(kind, server, stream=stream))

    assert (result.text, result.finish_reason, result.tool_calls) == ("Good morning to you.", "stop", ())


@each_kind
@both_ways
def test_a_tool_is_asked_for_and_not_run(kind: str, stream: bool) -> None:
    with ProtocolServer([Reply(tools=[("add", {"a": 1}), ("add", {"a": 2})])]) as server:
        result = asked(model_for(kind, server, stream=stream), tools=(ADD,))

    assert [(call.id, call.name, call.input) for call in result.tool_calls] == [
        ("call-0", "add", {"a": 1}),
        ("call-1", "add", {"a": 2}),
    ]
    assert result.finish_reason == "tool-calls"
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["responses", "chat"])
@both_ways
def test_broken_json_for_a_tool_stays_the_text_it_is(kind: str, stream: bool) -> None:
    with ProtocolServer([Reply(tools=[("add", '{"a": ')])]) as server:
        result = asked(model_for(kind, server, stream=stream), tools=(ADD,))

    assert result.tool_calls[0].input == '{"a": '


@each_kind
@both_ways
def test_input_tokens_count_those_of_the_cache_in(kind: str, stream: bool) -> None:
    with ProtocolServer([Reply(text="x", usage={"inputTokens": 100, "cacheReadTokens": 40, "outputTokens": 7})]) as server:
        result = asked(model_for(kind, server, stream=stream))

    assert result.usage == {"inputTokens": 100, "cacheReadTokens": 40, "outputTokens": 7}


@both_ways
def test_tokens_written_to_the_cache_count_as_input_too(stream: bool) -> None:
    usage = {"inputTokens": 100, "cacheReadTokens": 10, "cacheWriteTokens": 20, "outputTokens": 7}
    with ProtocolServer([Reply(text="x", usage=usage)]) as server:
        result = asked(model_for("messages", server, stream=stream))

    assert result.usage == usage


@pytest.mark.parametrize("kind", ["responses", "chat"])
def test_tokens_of_reasoning_are_told(kind: str) -> None:
    with ProtocolServer([Reply(text="x", usage={"inputTokens": 3, "outputTokens": 9, "reasoningTokens": 4})]) as server:
        result = asked(model_for(kind, server))

    assert result.usage == {"inputTokens": 3, "outputTokens": 9, "reasoningTokens": 4}


@pytest.mark.parametrize("kind", ["responses", "chat"])
@both_ways
def test_usage_that_is_not_told_is_left_out(kind: str, stream: bool) -> None:
    with ProtocolServer([Reply(text="x", usage=None)]) as server:
        result = asked(model_for(kind, server, stream=stream))

    assert result.usage == {}


@both_ways
def test_a_cost_is_told_where_the_service_tells_one(stream: bool) -> None:
    with ProtocolServer([Reply(text="x", cost=0.25), Reply(text="x")]) as server:
        model = model_for("chat", server, stream=stream)
        costs = [asked(model).cost_usd, asked(model).cost_usd]

    assert costs == [0.25, None]


@each_kind
def test_a_cost_is_never_guessed(kind: str) -> None:
    with ProtocolServer(["x"]) as server:
        assert asked(model_for(kind, server)).cost_usd is None


@each_kind
@both_ways
def test_what_it_thought_is_told_apart_from_what_it_said(kind: str, stream: bool) -> None:
    with ProtocolServer([Reply(text="Yes.", reasoning="Let me see.")]) as server:
        result = asked(model_for(kind, server, stream=stream))

    assert (result.reasoning, result.text) == ("Let me see.", "Yes.")


@each_kind
def test_how_long_it_thought_is_measured_where_it_is_seen(kind: str) -> None:
    with ProtocolServer([Reply(text="Yes.", reasoning="Let me see.")] * 2) as server:
        seen = asked(model_for(kind, server, stream=True))
        unseen = asked(model_for(kind, server, stream=False))

    assert isinstance(seen.reasoning_ms, int)
    assert unseen.reasoning_ms is None


@each_kind
@both_ways
def test_a_refusal_is_a_text_with_its_own_reason(kind: str, stream: bool) -> None:
    with ProtocolServer([Reply(refusal="I will not.")]) as server:
        sink = Sink()
        result = asked(model_for(kind, server, stream=stream), sink=sink)

    assert (result.text, result.finish_reason) == ("I will not.", "refusal")
    assert sink.text() == "I will not."


@each_kind
@both_ways
def test_a_turn_that_was_cut_off_says_so(kind: str, stream: bool) -> None:
    with ProtocolServer([Reply(text="Once upon", finish="length")]) as server:
        assert asked(model_for(kind, server, stream=stream)).finish_reason == "length"


@each_kind
def test_the_model_that_answered_is_named(kind: str) -> None:
    with ProtocolServer([Reply(text="x", model="that-model-2026")]) as server:
        assert asked(model_for(kind, server, stream=False)).model_id == "that-model-2026"


# -- an output -----------------------------------------------------------------------------------------


@each_kind
@both_ways
def test_an_output_comes_parsed_by_the_services_own_mode(kind: str, stream: bool) -> None:
    with ProtocolServer([Reply(text='{"outcome": "done"}')]) as server:
        result = asked(model_for(kind, server, stream=stream), output_schema=OUTCOME)
        body = server.requests[0].body

    sent = {
        "messages": lambda: body["output_config"]["format"],
        "responses": lambda: body["text"]["format"],
        "chat": lambda: body["response_format"],
    }[kind]()
    assert sent["type"] == "json_schema"
    assert result.object == {"outcome": "done"}
    assert json.loads(result.text) == {"outcome": "done"}


@each_kind
@both_ways
def test_an_output_that_is_no_object_travels_in_one_and_comes_out_of_it(kind: str, stream: bool) -> None:
    with ProtocolServer([Reply(text='{"output": [1, 2]}')]) as server:
        sink = Sink()
        schema = {"type": "array", "items": {"type": "integer"}}
        result = asked(model_for(kind, server, stream=stream), output_schema=schema, sink=sink)

    assert result.object == [1, 2]
    assert json.loads(result.text) == json.loads(sink.text()) == [1, 2]


@each_kind
def test_text_that_is_no_json_gives_no_object(kind: str) -> None:
    with ProtocolServer(["I would rather not."]) as server:
        result = asked(model_for(kind, server), output_schema=OUTCOME)

    assert (result.object, result.text) == (None, "I would rather not.")


@both_ways
def test_without_such_a_mode_a_tool_is_forced_whose_input_is_the_output(stream: bool) -> None:
    with ProtocolServer([Reply(tools=[("final_result", {"outcome": "done"})])]) as server:
        sink = Sink()
        model = model_for("chat", server, stream=stream, native_output=False)
        result = asked(model, output_schema=OUTCOME, sink=sink)
        body = server.requests[0].body

    assert body["tool_choice"] == {"type": "function", "function": {"name": "final_result"}}
    assert [tool["function"]["name"] for tool in body["tools"]] == ["final_result"]
    assert (result.object, result.tool_calls, result.finish_reason) == ({"outcome": "done"}, (), "stop")
    assert json.loads(result.text) == {"outcome": "done"}
    assert {frame["kind"] for frame in sink.frames} == {"text"}


@both_ways
def test_beside_a_forced_output_another_tool_may_still_be_asked_for(stream: bool) -> None:
    with ProtocolServer([Reply(tools=[("add", {"a": 1})])]) as server:
        model = model_for("chat", server, stream=stream, native_output=False)
        result = asked(model, output_schema=OUTCOME, tools=(ADD,))

    assert [call.name for call in result.tool_calls] == ["add"]
    assert result.object is None


def test_definitions_of_draft_7_reach_the_service_in_its_form() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"who": {"$ref": "#/definitions/Who"}},
        "required": ["who"],
        "definitions": {"Who": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    }
    with ProtocolServer(['{"who": {"name": "Ada"}}']) as server:
        result = asked(model_for("responses", server), output_schema=schema)
        sent = json.dumps(server.requests[0].body["text"]["format"]["schema"])

    assert result.object == {"who": {"name": "Ada"}}
    assert "definitions" not in sent
    assert "$schema" not in sent


# -- what it writes ------------------------------------------------------------------------------------


@each_kind
def test_text_and_reasoning_are_written_as_they_come(kind: str) -> None:
    with ProtocolServer([Reply(text="One two three.", reasoning="Hm, hm.")]) as server:
        sink = Sink()
        asked(model_for(kind, server), sink=sink)

    assert [frame["text"] for frame in sink.of("text")] == ["One ", "two ", "three."]
    assert [frame["text"] for frame in sink.of("reasoning")] == ["Hm, ", "hm."]


@each_kind
def test_the_input_of_a_tool_is_written_as_it_comes(kind: str) -> None:
    with ProtocolServer([Reply(tools=[("add", {"a": 1})])]) as server:
        sink = Sink()
        asked(model_for(kind, server), tools=(ADD,), sink=sink)

    assert sink.frames[0] == {"kind": "tool-input-start", "id": "call-0", "name": "add"}
    assert json.loads("".join(frame["delta"] for frame in sink.of("tool-input-delta"))) == {"a": 1}


@each_kind
def test_an_answer_in_one_piece_is_written_all_the_same(kind: str) -> None:
    with ProtocolServer([Reply(text="One two.", tools=[("add", {"a": 1})])]) as server:
        sink = Sink()
        asked(model_for(kind, server, stream=False), tools=(ADD,), sink=sink)

    assert [frame["kind"] for frame in sink.frames] == ["text", "tool-input-start", "tool-input-delta"]


def test_without_a_sink_nothing_is_streamed() -> None:
    with ProtocolServer(["x"]) as server:
        asked(model_for("chat", server))

    assert not server.requests[0].body.get("stream")


def test_what_the_sink_raises_is_no_failure_of_the_model() -> None:
    class Broken(Sink):
        async def write(self, line: str) -> None:
            raise BlockingIOError("full")

    with ProtocolServer(["x"]) as server, pytest.raises(BlockingIOError, match="full"):
        asked(model_for("messages", server), sink=Broken())


# -- what it is told -----------------------------------------------------------------------------------


@each_kind
def test_results_of_tools_reach_the_service_in_both_our_forms(kind: str) -> None:
    call = {"id": "c1", "name": "add", "input": {"a": 1}}
    inside = {"role": "assistant", "content": "", "toolCalls": [call], "toolResults": [{"id": "c1", "name": "add", "output": 3}]}
    apart = [
        {"role": "assistant", "content": "", "toolCalls": [call]},
        {"role": "tool", "toolCallId": "c1", "name": "add", "content": 3},
    ]
    question = {"role": "user", "content": "1?"}
    with ProtocolServer(["x", "x"]) as server:
        model = model_for(kind, server)
        asked(model, messages=[question, inside], tools=(ADD,))
        asked(model, messages=[question, *apart], tools=(ADD,))

    assert said_to(server, 0) == said_to(server, 1)
    assert '"c1"' in json.dumps(said_to(server, 0)[-1])


def test_a_failed_tool_is_told_as_an_error() -> None:
    call = {"id": "c1", "name": "add", "input": {"a": 1}}
    with ProtocolServer(["x"]) as server:
        failed = {"role": "assistant", "toolCalls": [call], "toolResults": [{"id": "c1", "name": "add", "error": "No."}]}
        asked(model_for("messages", server), messages=[{"role": "user", "content": "1?"}, failed], tools=(ADD,))

    result = said_to(server)[-1]["content"][0]
    assert (result["type"], result["is_error"]) == ("tool_result", True)
    assert "No." in json.dumps(result["content"])


@each_kind
def test_a_call_without_a_result_gets_one_that_says_so(kind: str) -> None:
    call = {"id": "c1", "name": "add", "input": {"a": 1}}
    messages = [
        {"role": "user", "content": "1?"},
        {"role": "assistant", "toolCalls": [call]},
        {"role": "user", "content": "Well?"},
    ]
    with ProtocolServer(["x"]) as server:
        asked(model_for(kind, server), messages=messages, tools=(ADD,))

    assert "interrupted" in json.dumps(said_to(server))


@each_kind
def test_a_summary_is_told_with_the_instructions(kind: str) -> None:
    messages = [{"role": "system", "content": "Before: nothing."}, {"role": "user", "content": "Hello?"}]
    with ProtocolServer(["x"]) as server:
        asked(model_for(kind, server), messages=messages, system="Help.")
        body = server.requests[0].body

    told = {
        "messages": lambda: body["system"][0]["text"],
        "responses": lambda: body["instructions"],
        "chat": lambda: body["messages"][0]["content"],
    }[kind]()
    assert told == "Help.\n\nBefore: nothing."


@each_kind
def test_an_empty_message_of_the_model_is_not_told(kind: str) -> None:
    messages = [{"role": "user", "content": "A"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "B"}]
    with ProtocolServer(["x"]) as server:
        asked(model_for(kind, server), messages=messages)

    assert "assistant" not in [message["role"] for message in said_to(server)]


@each_kind
def test_a_conversation_that_ends_with_the_model_gets_a_users_end(kind: str) -> None:
    messages = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]
    with ProtocolServer(["x"]) as server:
        asked(model_for(kind, server), messages=messages)

    assert said_to(server)[-1]["role"] == "user"


@each_kind
def test_a_picture_reaches_the_service(kind: str) -> None:
    data = base64.b64encode(b"\x89PNG").decode()
    attached = {"name": "a.png", "mediaType": "image/png", "data": data}
    with ProtocolServer(["x"]) as server:
        asked(model_for(kind, server), messages=[{"role": "user", "content": "Look.", "attachments": [attached]}])

    assert data in json.dumps(said_to(server))


@pytest.mark.parametrize("attached", [{"name": "a", "data": "§"}, {"name": "a"}], ids=["no base64", "nothing"])
def test_an_attachment_that_cannot_be_is_refused_before_anything_is_sent(attached: dict[str, Any]) -> None:
    with ProtocolServer(["x"]) as server:
        model = model_for("messages", server)
        with pytest.raises(InvalidRequest):
            asked(model, messages=[{"role": "user", "content": "", "attachments": [attached]}])

    assert server.requests == []


@each_kind
@pytest.mark.parametrize("choice", ["none", "required", "add"])
def test_whether_a_tool_has_to_be_called_reaches_the_service(kind: str, choice: str) -> None:
    other = ModelTool(name="other", description="Another.", input_schema={"type": "object"})
    with ProtocolServer(["x"]) as server:
        asked(model_for(kind, server, "claude-opus-4-8"), tools=(ADD, other), tool_choice=choice)
        sent = server.requests[0].body["tool_choice"]

    word = {"required": "any"}.get(choice, choice) if kind == "messages" else choice
    assert word in json.dumps(sent)


def test_the_only_tool_is_forced_by_its_name_where_small_models_are() -> None:
    with ProtocolServer(["x"]) as server:
        asked(model_for("chat", server), tools=(ADD,), tool_choice="add")

    assert server.requests[0].body["tool_choice"] == {"type": "function", "function": {"name": "add"}}


def test_a_model_that_cannot_be_forced_says_so_before_anything_is_sent() -> None:
    with ProtocolServer(["x"]) as server:
        model = model_for("messages", server)
        with pytest.raises(ModelError, match="forcing"):
            asked(model, tools=(ADD,), tool_choice="add")

    assert server.requests == []


def test_a_forced_tool_that_is_none_of_the_turn_is_refused() -> None:
    with ProtocolServer(["x"]) as server:
        model = model_for("chat", server)
        with pytest.raises(InvalidRequest, match="'subtract'"):
            asked(model, tools=(ADD,), tool_choice="subtract")


def test_a_tool_whose_schema_is_no_object_is_told_as_one() -> None:
    with ProtocolServer(["x"]) as server:
        asked(model_for("chat", server), tools=(ModelTool(name="any", description="", input_schema={}),))

    assert server.requests[0].body["tools"][0]["function"]["parameters"]["type"] == "object"


@pytest.mark.parametrize(
    ("tools", "settings", "is_marked"),
    [((ADD,), {}, True), ((), {}, False), ((ADD,), {"cache": False}, False)],
    ids=["with tools", "without", "turned off"],
)
def test_a_prompt_that_is_read_again_is_marked_for_the_cache(tools: Any, settings: dict[str, Any], is_marked: bool) -> None:
    with ProtocolServer(["x"]) as server:
        asked(model_for("messages", server, settings=settings), tools=tools)

    assert ("cache_control" in json.dumps(server.requests[0].body)) is is_marked


@each_kind
def test_settings_of_the_request_win_over_those_of_the_model(kind: str) -> None:
    with ProtocolServer(["x"]) as server:
        asked(model_for(kind, server, settings={"max_tokens": 10}), settings={"max_tokens": 77})

    assert 77 in server.requests[0].body.values()


def test_a_request_may_name_another_model_of_the_vendor() -> None:
    with ProtocolServer(["x"] * 3) as server:
        model = model_for("messages", server)
        asked(model, model="claude-haiku-5-5")
        asked(model, model="anthropic:claude-haiku-5-5")
        asked(model, model="claude-opus-5-5")

    assert [r.body["model"] for r in server.requests] == ["claude-haiku-5-5", "claude-haiku-5-5", "claude-opus-5-5"]


# -- what a vendor wants back --------------------------------------------------------------------------


def _again(kind: str, change: dict[str, Any]) -> Any:
    """What is sent when an answer is told to the model again, with a change."""
    with ProtocolServer([Reply(text="Yes.", reasoning="Hm.", tools=[("add", {"a": 1})]), "x"]) as server:
        model = model_for(kind, server)
        first = asked(model, tools=(ADD,))
        calls = [{"id": call.id, "name": call.name, "input": call.input} for call in first.tool_calls]
        results = [{"id": call["id"], "name": "add", "output": 2} for call in calls]
        told = {"role": "assistant", "content": first.text, "toolCalls": calls, "toolResults": results, "native": first.native}
        asked(model, messages=[{"role": "user", "content": "Hello?"}, {**told, **change}], tools=(ADD,))
        return said_to(server)


def test_signed_reasoning_goes_back_to_the_vendor_it_came_from() -> None:
    block = _again("messages", {})[1]["content"][0]

    assert (block["type"], block["signature"]) == ("thinking", "signed")


@pytest.mark.parametrize("change", [{"content": "No."}, {"native": None}], ids=["changed", "not kept"])
def test_an_answer_that_was_changed_since_is_told_as_it_is_now(change: dict[str, Any]) -> None:
    told = json.dumps(_again("messages", change)[1])

    assert "signed" not in told
    assert change.get("content", "Yes.") in told


def test_what_another_vendor_wants_back_is_not_sent_to_this_one() -> None:
    with ProtocolServer([Reply(text="Yes.", reasoning="Hm."), "x"]) as server:
        first = asked(model_for("messages", server))
        told = {"role": "assistant", "content": first.text, "native": first.native}
        asked(model_for("responses", server), messages=[{"role": "user", "content": "Hello?"}, told])

    assert "signed" not in json.dumps(said_to(server))


def test_native_is_json() -> None:
    with ProtocolServer([Reply(text="Yes.", reasoning="Hm.")]) as server:
        native = asked(model_for("messages", server)).native

    assert json.loads(json.dumps(native)) == native


# -- the end of it -------------------------------------------------------------------------------------


@each_kind
def test_an_abort_in_the_middle_closes_the_connection_at_once(kind: str) -> None:
    async def story(server: ProtocolServer) -> TurnCanceled:
        signal, sink = AbortSignal(), Sink()

        async def write(line: str) -> None:
            await Sink.write(sink, line)
            if sink.of("text"):
                threading.Thread(target=signal.abort, args=(InvalidRequest("Enough."),)).start()  # from whatever thread

        sink.write = write  # type: ignore[method-assign]
        told = TurnRequest(system="", messages=[{"role": "user", "content": "?"}], signal=signal, sink=sink)
        task = asyncio.create_task(model_for(kind, server).run_turn(told))
        try:
            await asyncio.wait_for(task, PATIENCE)
        except TurnCanceled as exc:
            return exc
        raise AssertionError("it went on")

    # The last event is never sent: the end comes from the abort alone.
    held = Reply(text="One", hold=threading.Event(), hold_at={"messages": 3, "responses": 4, "chat": 2}[kind])
    with ProtocolServer([held]) as server:
        ended = asyncio.run(story(server))
        assert server.gone.wait(PATIENCE)

    assert str(ended.reason) == "Enough."
    assert ended.text == "One"
    assert ended.usage == ({"inputTokens": 12, "outputTokens": 1} if kind == "messages" else {})


def test_an_abort_ends_the_wait_for_an_answer_in_one_piece() -> None:
    async def story(server: ProtocolServer) -> None:
        signal = AbortSignal()
        told = TurnRequest(system="", messages=[{"role": "user", "content": "?"}], signal=signal)
        task = asyncio.create_task(model_for("chat", server).run_turn(told))
        assert await asyncio.to_thread(server.arrived.wait, PATIENCE)
        signal.abort(InvalidRequest("Enough."))
        with pytest.raises(TurnCanceled):
            await asyncio.wait_for(task, PATIENCE)

    with ProtocolServer([Reply(text="x", hold=threading.Event())]) as server:
        asyncio.run(story(server))
        assert server.gone.wait(PATIENCE)


def test_a_signal_that_is_aborted_already_lets_nothing_be_sent() -> None:
    signal = AbortSignal()
    signal.abort(InvalidRequest("Enough."))
    with ProtocolServer(["x"]) as server:
        with pytest.raises(TurnCanceled):
            asked(model_for("chat", server), signal=signal)
        assert server.requests == []


def test_a_canceled_task_takes_its_turn_with_it() -> None:
    async def story(server: ProtocolServer) -> None:
        told = TurnRequest(system="", messages=[{"role": "user", "content": "?"}])
        task = asyncio.create_task(model_for("messages", server, stream=True).run_turn(told))
        assert await asyncio.to_thread(server.arrived.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert not isinstance(caught.value, TurnCanceled)

    with ProtocolServer([Reply(text="x", hold=threading.Event())]) as server:
        asyncio.run(story(server))
        assert server.gone.wait(PATIENCE)


@each_kind
def test_a_stream_that_is_cut_tells_what_came_and_is_not_asked_for_again(kind: str) -> None:
    cut = {"messages": 4, "responses": 5, "chat": 3}[kind]
    with ProtocolServer([Reply(text="One two three four.", cut_after=cut)]) as server:
        model = model_for(kind, server)
        with pytest.raises(ModelStreamCut) as caught:
            asked(model, sink=Sink())

    assert (caught.value.code, caught.value.retryable) == ("LLM_STREAM_CUT", True)
    assert caught.value.text == "One two "
    assert len(server.requests) == 1


def test_a_stream_without_a_reason_for_its_end_was_cut() -> None:
    with ProtocolServer([Reply(text="One two", finish="")]) as server:
        model = model_for("chat", server, stream=True)
        with pytest.raises(ModelStreamCut):
            asked(model)


@each_kind
def test_an_error_in_the_middle_of_a_stream_is_not_asked_for_again(kind: str) -> None:
    with ProtocolServer([Reply(text="One two", error_in_stream="overheated")]) as server:
        model = model_for(kind, server)
        with pytest.raises(ModelStreamCut, match="overheated"):
            asked(model, sink=Sink())

    assert len(server.requests) == 1


def test_another_vendor_may_be_named_and_gets_none_of_this_ones_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ProtocolServer(["x"]) as server:
        model = model_for("messages", server)
        with pytest.raises(ModelKeyMissing):
            asked(model, model="openai:gpt-6-astra")

    assert server.requests == []


def test_a_vendor_with_a_protocol_of_its_own_fails_in_our_words() -> None:
    with ProtocolServer(["x"]) as server:
        model = VendorModel("google:gemini-4-argon", api_key=KEY, base_url=server.root)
        with pytest.raises(ModelError) as caught:
            asked(model)

    assert (caught.value.code, caught.value.status, len(server.requests)) == ("LLM_REQUEST_FAILED", 404, 1)


# -- the object ----------------------------------------------------------------------------------------


def test_one_model_serves_several_event_loops() -> None:
    with ProtocolServer(["a", "b"]) as server:
        model = model_for("messages", server)

        assert [asked(model).text, asked(model).text] == ["a", "b"]


def test_several_turns_at_once_do_not_mix() -> None:
    async def both(model: VendorModel) -> list[str]:
        requests = [TurnRequest(system="", messages=[{"role": "user", "content": word}]) for word in ("left", "right")]
        return [result.text for result in await asyncio.gather(*map(model.run_turn, requests))]

    with ProtocolServer(lambda request: json.dumps(request.body["messages"]).partition('"content": "')[2][:4]) as server:
        assert asyncio.run(both(model_for("chat", server))) == ["left", "righ"]


@pytest.mark.parametrize("name", ["", "gpt-5", ":x", "openai:", 5], ids=repr)
def test_a_name_without_a_vendor_is_refused(name: Any) -> None:
    with pytest.raises(InvalidRequest):
        VendorModel(name)


def test_a_vendor_that_nobody_knows_is_refused_with_the_first_turn() -> None:
    with pytest.raises(InvalidRequest, match="'nobody'"):
        asked(VendorModel("nobody:x", api_key=KEY))


@pytest.mark.parametrize("options", [{"attempts": 0}, {"longest_wait": -1}, {"first_wait": -1}], ids=repr)
def test_numbers_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        VendorModel("openai:x", **options)


def test_names_addresses_and_models_name_a_model() -> None:
    own = ScriptedModel(["x"])

    assert model_of_name(own) is own
    assert repr(model_of_name("openai:gpt-6-astra")) == "<VendorModel openai:gpt-6-astra>"
    assert repr(model_of_name("http://127.0.0.1:8080")) == "<CompatibleModel ? at 127.0.0.1:8080>"


@pytest.mark.parametrize("thing", [None, 5, object()], ids=["None", "5", "object"])
def test_anything_else_names_none(thing: Any) -> None:
    with pytest.raises(InvalidRequest):
        model_of_name(thing)


def test_making_models_imports_no_vendors_library() -> None:
    code = (
        "import sys, loomnb\n"
        "from loomnb.agents.providers import VendorModel, openai_compatible, model_of_name\n"
        "VendorModel('anthropic:x', api_key='abcd'); openai_compatible('http://127.0.0.1:1'); model_of_name('openai:y')\n"
        "print([m for m in ('pydantic_ai', 'openai', 'anthropic', 'tenacity', 'httpx', 'httpx2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"


# -- how an output is asked for, by what a model can ---------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "mode"),
    [
        ({"supports_json_schema_output": True}, "native"),
        ({}, "tool"),
        ({"supports_tools": False}, "prompted"),
    ],
    ids=["a mode of its own", "tools", "words"],
)
def test_an_output_is_asked_for_by_the_best_the_model_can(profile: Any, mode: str) -> None:
    output = output_for(OUTCOME, profile)

    assert output is not None
    assert output.mode == mode


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"anyOf": [{"type": "object"}, {"type": "null"}]},
        {"$ref": "#/definitions/A", "definitions": {"A": {}}},
    ],
    ids=["anything", "text", "either", "reference"],
)
def test_what_is_no_object_is_wrapped_in_one(schema: dict[str, Any]) -> None:
    output = output_for(schema, {})

    assert output is not None
    assert output.is_wrapped
    assert output.schema["type"] == "object"
    assert output.opened({"output": 5}) == 5


def test_names_of_fields_that_are_words_of_json_schema_stay() -> None:
    schema = {"type": "object", "properties": {"definitions": {"type": "string"}, "$ref": {"const": "#/definitions/x"}}}
    output = output_for(schema, {})

    assert output is not None
    assert output.schema == schema
