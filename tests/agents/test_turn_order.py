"""The order of a turn's checkpoints: contracts/agents.md §1.2."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.looping import Journal, deps, tool, turn


@pytest.mark.case("agents:E03", "agents:E01")
def test_a_turn_with_an_approved_action_takes_exactly_these_checkpoints() -> None:
    journal = Journal()
    model: list[Any] = [[("send", {"to": "bob"})], "Sent."]

    result = turn(deps(model, tool("send", lambda given, ctx: "ok", kind="action")), journal)

    assert result.text == "Sent."
    assert [name for name, _ in journal.records] == [
        "persist:user",
        "load:thread",
        "run:prompt-stages",
        "run:started-at",
        "persist:run:start",
        "stream:step-start:0",
        "llm:0",
        "persist:usage:0",
        "persist:assistant:0",
        "persist:toolcall:call-0-send",
        "tool:run-1:call-0-send",
        "tool:call-0-send",
        "persist:toolexec:call-0-send",
        "stream:tool-outputs:0",
        "stream:step-finish:0",
        "stream:step-start:1",
        "llm:1",
        "persist:usage:1",
        "persist:assistant:1",
        "stream:step-finish:1",
        "persist:title",
        "persist:run:end",
    ]
