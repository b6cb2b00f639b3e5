"""The gate before the reader of an answer, in a turn: contracts/agents.md §1.9."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from loomnb.agents.failures import OutputRejectedError, ProcessorFailedError
from loomnb.agents.spi import OutputVerdict
from loomnb.testing import ScriptedModel
from tests.agents.doubles import Gate, Incremental, Quota, masks, streaming, texts
from tests.agents.looping import (
    Hooks,
    Journal,
    Killed,
    deps,
    messages_of,
    purposes_of,
    rows_of,
    said,
    tool,
    turn,
)


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
    assert purposes_of(made) == ["chat"]
    assert quota.used == 3
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
        incremental: ClassVar[Any] = {"lookbackChars": 0}

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
    assert first.names[-1] == "process:output:0"
    assert texts(first) == ["a", "bc"]

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

    assert messages_of(made)[1]["content"] == "the ***"
    assert "native" not in messages_of(made)[1]
    assert "secret" not in str(model.requests[1].messages)


def test_what_a_provider_wants_back_is_told_to_it_again() -> None:
    model = ScriptedModel([said("Look.", ("look", {}), native={"raw": 1}), "Done."])
    made = deps(model, tool("look"))
    turn(made)

    assert model.requests[1].messages[1]["native"] == {"raw": 1}
    assert messages_of(made)[1]["native"] == {"raw": 1}


def test_a_gate_that_is_gone_after_a_crash_still_has_its_position_and_shows_what_was_held() -> None:
    made = deps(streaming("ab", "cd"), output_processors=[Gate(lambda answer: OutputVerdict())])
    first = Journal(dies_at=7)
    with pytest.raises(Killed):
        turn(made, first)
    made.output_processors = []
    again = first.again()
    turn(made, again)

    assert "process:output:0" in again.names
    assert texts(again) == ["abcd"]
