"""The shapes a tool call is made of: what they accept, what they refuse, and their JSON."""

from __future__ import annotations

from typing import Any

import pytest

import loomnb as loom


@pytest.mark.parametrize(
    "shape",
    [
        {"data": {"sum": 30}},
        {"data": 0},
        {"error": ""},
        {"error": "no such city", "data": {"tried": 2}},
        {"data": "…", "metadata": {"tokens": 3}, "type": "text"},
        {"pending": {"workflowId": "run-1"}, "data": {"workflowId": "run-1"}},
        {},
    ],
    ids=str,
)
def test_an_envelope_reads_and_writes_the_contracts_json(shape: dict[str, Any]) -> None:
    assert loom.ToolEnvelope.of(shape).dump() == shape


def test_pending_takes_what_a_sub_workflows_run_gave() -> None:
    envelope = loom.ToolEnvelope(pending=loom.QueueResult("run-1"))

    assert envelope.dump() == {"pending": {"workflowId": "run-1"}}


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"dta": 1}, "unknown 'dta'"),
        ({"error": ValueError("x")}, "error= is a text"),
        ({"type": "video"}, "type='video' is not known"),
        ({"pending": "run-1"}, "pending= takes"),
        ({"pending": {"id": "run-1"}}, "pending= takes"),
        ("text", "returned a str, not an envelope"),
        (None, "returned a NoneType, not an envelope"),
    ],
    ids=str,
)
def test_a_shape_that_is_no_envelope_is_refused(shape: Any, said: str) -> None:
    with pytest.raises(loom.Refused, match=said):
        loom.ToolEnvelope.of(shape)


@pytest.mark.parametrize("data", [0, False, "", None, [], {"a": 1}], ids=repr)
def test_a_success_narrows_to_its_data_untouched(data: Any) -> None:
    assert loom.ToolEnvelope(data=data).narrowed("t") == loom.ToolResult(data=data, metadata={}, type=None)


def test_a_result_dumps_to_the_contracts_json() -> None:
    assert loom.ToolResult(data=1).dump() == {"data": 1, "metadata": {}}
    assert loom.ToolResult(data=1, metadata={"n": 2}, type="image").dump() == {"data": 1, "metadata": {"n": 2}, "type": "image"}


@pytest.mark.parametrize("error", ["no such city", ""])
def test_an_error_that_is_present_even_empty_raises(error: str) -> None:
    with pytest.raises(loom.ToolFailed) as caught:
        loom.ToolEnvelope(error=error, data={"tried": 2}).narrowed("weather")

    assert (error or "'weather' failed") in str(caught.value)
    assert (caught.value.code, caught.value.tool, caught.value.data) == ("TOOL_FAILED", "weather", {"tried": 2})


def test_an_error_wins_over_pending() -> None:
    with pytest.raises(loom.ToolFailed):
        loom.ToolEnvelope(error="no", pending=loom.QueueResult("run-1")).narrowed("t")


def test_options_read_and_write_the_contracts_json() -> None:
    shape = {"callback": {"transition": "done", "metadata": {"id": 1}}, "config": {"limit": 3}}

    assert loom.ToolCallOptions.of(shape).dump() == shape
    assert loom.ToolCallOptions.of(None).dump() == {}


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(loom.Refused, match="'timeout'"):
        loom.ToolCallOptions.of({"timeout": 3})
