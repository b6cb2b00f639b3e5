"""llm_generate_text and llm_generate_object: what a model is told, what becomes of its reply, and which model it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

import loomnb as loom
from loomnb.documents import LlmContextDocument, LlmMessageDocument
from loomnb.ready import LlmGenerateObjectTool, LlmGenerateTextTool, register_llm_provider
from loomnb.runtime import ToolRequest, TurnRequest, TurnResult
from loomnb.testing import Driven, ScriptedModel, drive
from tests.ready.llm import asking, told


@pytest.fixture(autouse=True)
def _own_models() -> Iterator[None]:
    yield
    loom.use_models()


def asked(model: ScriptedModel, config: dict[str, Any] | None = None, **args: Any) -> Driven:
    loom.use_models(model)
    return drive(asking(), {"args": args, "config": config or {}})


# -- the reply ------------------------------------------------------------------------------------


@pytest.mark.case("workflows:L13")
def test_the_reply_to_a_prompt_is_stored_once_with_its_native_response_its_provider_and_the_callers_meta() -> None:
    register_llm_provider("acme", ScriptedModel([TurnResult(text="hello", native={"raw": 1}, model_id="acme-1")]))

    run = drive(asking(), {"args": {"prompt": "hi"}, "config": {"provider": "acme", "meta": {"why": "greeting"}}})

    (document,) = run.documents
    assert document.content["text"] == "hello"
    assert document.meta == {"response": {"raw": 1}, "provider": "acme", "why": "greeting"}
    assert document.tags == ("message",)
    assert run.result["data"]["message"] == document.content
    assert run.result["data"]["response"] == {"raw": 1}


@pytest.mark.case("workflows:L13")
def test_a_reply_that_is_not_to_be_saved_is_no_document() -> None:
    run = asked(ScriptedModel(["hello"]), {"save": False}, prompt="hi")

    assert (run.documents, run.result["data"]["message"]["text"]) == ([], "hello")


def test_the_metadata_names_provider_model_and_usage() -> None:
    model = ScriptedModel([TurnResult(text="a", usage={"inputTokens": 3}), TurnResult(text="b", model_id="m-1")])

    assert asked(model, prompt="hi").result["metadata"] == {
        "provider": "default",
        "model": "default",
        "usage": {"inputTokens": 3},
    }
    assert asked(ScriptedModel(["x"]), {"model": "big"}, prompt="hi").result["metadata"]["model"] == "big"


STOPS = [("stop", "end_turn"), ("tool-calls", "tool_use"), ("length", "max_tokens"), ("stop-sequence", "stop_sequence")]


@pytest.mark.parametrize(("reason", "stop"), [*STOPS, ("who knows", None)])
def test_why_it_stopped_is_one_of_four_words_or_left_out(reason: str, stop: str | None) -> None:
    run = asked(ScriptedModel([TurnResult(text="a", finish_reason=reason)]), prompt="hi")

    assert run.result["data"]["message"].get("stopReason") == stop


def test_a_turn_with_calls_that_says_it_just_stopped_counts_as_one_for_tools() -> None:
    call = ToolRequest(id="1", name="add", input={})

    run = asked(ScriptedModel([TurnResult(tool_calls=(call,), finish_reason="stop")]), prompt="hi")

    assert run.result["data"]["message"]["stopReason"] == "tool_use"


def test_calls_whose_ids_are_missing_or_the_same_are_told_apart() -> None:
    calls = tuple(ToolRequest(id=id_, name="add", input={}) for id_ in ("", "a", "a"))

    run = asked(ScriptedModel([TurnResult(tool_calls=calls, finish_reason="tool-calls")]), prompt="hi")

    assert [block["id"] for block in run.result["data"]["message"]["blocks"]] == ["call-1", "a", "a-3"]


def test_what_the_provider_raises_fails_the_transition() -> None:
    run = asked(ScriptedModel([ValueError("overloaded")]), prompt="hi")

    assert (run.status, str(run.exception)) == ("failed", "overloaded")


def test_called_in_a_cell_it_answers_and_saves_nothing() -> None:
    loom.use_models(ScriptedModel(["hello"]))

    result = asyncio.run(loom.resolve(LlmGenerateTextTool).call({"prompt": "hi"}))

    assert result.data["message"]["text"] == "hello"


# -- what it is told ------------------------------------------------------------------------------


@pytest.mark.case("workflows:L14")
@pytest.mark.parametrize(
    "given",
    [
        {"role": "user", "content": "hello there"},
        {"role": "user", "text": "hello there"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": "there"}]},
        {"role": "user", "blocks": [{"type": "text", "text": "hello"}, {"type": "text", "text": "there"}]},
    ],
    ids=["content", "text", "content-blocks", "blocks"],
)
def test_the_text_of_messages_is_seen_whatever_its_key(given: dict[str, Any]) -> None:
    model = ScriptedModel(["ok"])

    asked(model, messages=[given])

    ((role, content),) = told(model.requests[0])
    assert (role, content.split()) == ("user", ["hello", "there"])


def history() -> type[loom.BaseWorkflow[Any]]:
    @loom.workflow(name="history")
    class History(loom.BaseWorkflow[Any]):
        llm: LlmGenerateTextTool

        @loom.transition(to="ready")
        async def begin(self) -> None:
            self.document_store.save(LlmContextDocument(role="user", text="hidden"))
            self.document_store.save(LlmMessageDocument(role="user", text="draft"), key="q")
            self.document_store.save(loom.MessageDocument(role="user", text="only for people"))
            native = {"response": {"raw": 1}, "provider": "default"}
            call = {"type": "tool_call", "id": "c1", "name": "add", "args": {"a": 1}}
            self.document_store.save(LlmMessageDocument(role="assistant", text="hm", blocks=[call]), meta=native)
            result = {"type": "tool_result", "toolCallId": "c1", "content": "2", "isError": True}
            self.document_store.save(LlmMessageDocument(role="user", blocks=[result]))
            self.document_store.save(LlmMessageDocument(role="user", text="sent"), key="q")
            self.document_store.save(LlmMessageDocument(role="user", text="another"), tags=["aside"])

        @loom.transition(from_="ready", to="end")
        async def ask(self, state: Any, ctx: loom.RunContext[Any]) -> None:
            await self.llm.call(ctx.args.get("args"), config=ctx.args.get("config"))

    return History


def test_without_arguments_the_documents_with_the_tag_are_told_in_order_and_edited_ones_once() -> None:
    model = ScriptedModel(lambda *_: "ok")
    loom.use_models(model)

    drive(history(), {})

    assert [dict(one) for one in model.requests[0].messages] == [
        {"role": "user", "content": "hidden"},
        {"role": "user", "content": "sent"},
        {
            "role": "assistant",
            "content": "hm",
            "toolCalls": [{"id": "c1", "name": "add", "input": {"a": 1}}],
            "native": {"raw": 1},
        },
        {"role": "tool", "toolCallId": "c1", "name": "add", "content": "2", "isError": True},
    ]


def test_another_providers_native_response_is_not_told_to_this_one() -> None:
    model = ScriptedModel(lambda *_: "ok")
    register_llm_provider("other", model)

    drive(history(), {"config": {"provider": "other"}})

    assert not any("native" in one for one in model.requests[0].messages)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"args": {"prompt": "P", "messages": [{"role": "user", "content": "M"}]}}, [("user", "P")]),
        ({"args": {"prompt": "", "messages": [{"role": "user", "content": "M"}]}}, [("user", "M")]),
        ({"config": {"messagesSearchTag": "aside"}}, [("user", "another")]),
        ({"config": {"messagesSearchTag": "nothing"}}, []),
    ],
    ids=["prompt", "messages", "tag", "nothing"],
)
def test_the_first_source_of_messages_counts(given: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    model = ScriptedModel(lambda *_: "ok")
    loom.use_models(model)

    drive(history(), given)

    assert told(model.requests[0]) == expected


def test_a_document_with_the_tag_that_is_no_message_is_refused() -> None:
    @loom.workflow
    class Odd(loom.BaseWorkflow[Any]):
        llm: LlmGenerateTextTool

        @loom.transition(to="end")
        async def ask(self) -> None:
            self.document_store.save(loom.MarkdownDocument(markdown="x"), tags=["message"])
            await self.llm.call()

    loom.use_models(ScriptedModel(["ok"]))

    run = drive(Odd)

    assert isinstance(run.exception, loom.SchemaValidationError)
    assert "role" in run.exception.fields


def test_the_system_the_settings_and_the_tools_reach_the_provider() -> None:
    class Point(pydantic.BaseModel):
        x: int

    @loom.tool
    def plot(at: Point, size: tuple[int, str] = (1, "px")) -> None:
        """Plot a point."""

    @loom.tool(name="web_search")
    class WebSearch(loom.ServerTool[Any]):
        def to_server_tool_config(self, config: Any) -> Any:
            return {"type": "web_search_1"}

    model = ScriptedModel(["ok"])
    config = {"system": "Be brief.", "providerConfig": {"temperature": 0}, "tools": ["plot", "web_search", "plot"]}

    asked(model, config, prompt="hi")

    request = model.requests[0]
    assert request.system == "Be brief."
    assert request.settings == {"temperature": 0, "server_tools": [{"type": "web_search_1"}]}
    (one,) = request.tools
    assert (one.name, one.description) == ("plot", "Plot a point.")
    assert one.input_schema["properties"]["at"] == {"$ref": "#/definitions/Point"}
    assert one.input_schema["definitions"]["Point"]["required"] == ["x"]
    assert [item["type"] for item in one.input_schema["properties"]["size"]["items"]] == ["integer", "string"]


def test_a_tool_that_does_not_exist_is_an_error() -> None:
    run = asked(ScriptedModel(["ok"]), {"tools": ["nonesuch"]}, prompt="hi")

    assert isinstance(run.exception, loom.NotFound)
    assert "nonesuch" in str(run.exception)


@pytest.mark.parametrize("config", [{"save": "perhaps"}, {"colour": "red"}], ids=["value", "key"])
def test_a_configuration_that_does_not_fit_is_refused(config: dict[str, Any]) -> None:
    run = asked(ScriptedModel(["ok"]), config, prompt="hi")

    assert isinstance(run.exception, loom.ArgsInvalid)


# -- which model ----------------------------------------------------------------------------------


def test_the_call_names_its_provider_before_the_default() -> None:
    register_llm_provider("named", ScriptedModel(["named"]))

    run = asked(ScriptedModel(["default"]), {"provider": "named"}, prompt="hi")

    assert run.result["data"]["message"]["text"] == "named"
    assert run.result["metadata"]["provider"] == "named"


def test_an_unknown_provider_is_an_error_that_lists_those_there_are() -> None:
    register_llm_provider("named", ScriptedModel(["named"]))

    run = asked(ScriptedModel(["default"]), {"provider": "namd"}, prompt="hi")

    assert isinstance(run.exception, loom.NotFound)
    assert "Did you mean 'named'?" in str(run.exception)


def test_without_a_provider_and_a_default_the_error_says_how_to_get_one() -> None:
    loom.use_models()

    run = drive(asking(), {"args": {"prompt": "hi"}})

    assert isinstance(run.exception, loom.Refused)
    assert "loom.use_models(model)" in str(run.exception)


@pytest.mark.parametrize(("name", "provider"), [("", ScriptedModel([])), ("default", ScriptedModel([])), ("x", object())])
def test_what_cannot_be_a_provider_is_refused(name: str, provider: Any) -> None:
    with pytest.raises(loom.DefinitionError):
        register_llm_provider(name, provider)


def test_a_provider_that_gives_no_turn_is_told_from_one_that_does() -> None:
    class Broken:
        async def run_turn(self, request: TurnRequest) -> Any:
            return "hello"

    register_llm_provider("broken", Broken())

    run = drive(asking(), {"args": {"prompt": "hi"}, "config": {"provider": "broken"}})

    assert isinstance(run.exception, loom.ToolFailed)
    assert "gave a str" in str(run.exception)


# -- objects --------------------------------------------------------------------------------------


class Invoice(pydantic.BaseModel):
    total: int
    lines: list[str] = []


def objecting(said: Any, schema: Any = Invoice) -> tuple[Driven, ScriptedModel]:
    @loom.workflow(name="objecting")
    class Objecting(loom.BaseWorkflow[Any]):
        llm: LlmGenerateObjectTool

        @loom.transition(to="end")
        async def ask(self) -> None:
            self.set_result((await self.llm.call({"prompt": "hi", "outputSchema": schema})).data)

    model = ScriptedModel([said])
    loom.use_models(model)
    return drive(Objecting), model


@pytest.mark.parametrize("said", [{"total": 3}, '{"total": 3}', '```json\n{"total": 3}\n```'], ids=["object", "text", "fence"])
def test_an_object_is_parsed_by_its_schema_which_the_model_is_told_and_nothing_is_saved(said: Any) -> None:
    run, model = objecting(said)

    assert run.result == {"data": {"total": 3, "lines": []}, "response": None}
    assert run.documents == []
    shape = model.requests[0].output_schema
    assert shape is not None
    assert shape["required"] == ["total"]


@pytest.mark.parametrize("said", [{"total": "many"}, "no JSON"], ids=["shape", "json"])
def test_an_object_that_does_not_fit_raises_and_is_not_asked_for_again(said: Any) -> None:
    run, model = objecting(said)

    assert isinstance(run.exception, loom.SchemaValidationError)
    assert len(model.requests) == 1


@pytest.mark.parametrize("schema", [None, {"type": "object"}, "Invoice"], ids=["none", "mapping", "text"])
def test_an_output_schema_that_can_judge_nothing_is_refused(schema: Any) -> None:
    run, model = objecting({"total": 3}, schema)

    assert isinstance(run.exception, loom.Refused)
    assert model.requests == []


def test_a_message_is_shown_with_its_calls_folded() -> None:
    call = ToolRequest(id="1", name="add", input={"a": 1})
    loom.use_models(ScriptedModel([TurnResult(text="**hm**", tool_calls=(call,), finish_reason="tool-calls")]))
    with loom.Loom(":memory:", headless=True) as session:
        run = session.start(asking(), {"args": {"prompt": "hi"}})
        run.wait(10)
        bundle = run._repr_mimebundle_()

    assert "<strong>hm</strong>" in bundle["text/html"]
    assert "<details><summary>→ add</summary>" in bundle["text/html"]
    assert '→ add: {"a": 1}' in bundle["text/plain"]
