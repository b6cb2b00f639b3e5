"""Structured output of a turn: contracts/agents.md §1.10."""

from __future__ import annotations

from typing import Any

import pytest

from loomnb.agents.failures import OutputRejectedError, StructuredOutputError
from loomnb.agents.spi import OutputVerdict
from loomnb.testing import ScriptedModel
from tests.agents.doubles import Incremental, masks, refuses
from tests.agents.looping import (
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
from tests.helpers import plain_id


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
    assert "rejected" in model.requests[3].system
    assert "n: " in model.requests[3].system
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

    assert "bob" not in str(everything_of(made)["messages"])
    assert "bob" not in str(hooks.sink.lines)
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
