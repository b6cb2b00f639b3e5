"""What a message among a run's documents is drawn from."""

from __future__ import annotations

import pytest
from loomnb_widgets.message_parts import message_parts


def test_thoughts_come_first_then_what_was_said_then_the_calls() -> None:
    blocks = [
        {"type": "text", "text": "I **look**"},
        {"type": "tool_call", "id": "c1", "name": "look_up", "args": {"what": "<b>x</b>"}},
        {"type": "thinking", "text": "hm"},
    ]

    thought, said, call = message_parts({"role": "assistant", "text": "I **look**", "blocks": blocks})

    assert (thought["kind"], thought["blocks"]) == ("reasoning", {"0": "<p>hm</p>"})
    assert (said["kind"], said["blocks"]) == ("text", {"0": "<p>I <strong>look</strong></p>"})
    assert (call["text"], call["call"], "&lt;b&gt;x" in call["input_html"]) == ("Look up", "c1", True)


@pytest.mark.parametrize(("failed", "status", "where"), [(False, "done", "output_html"), (True, "failed", "error")])
def test_a_result_belongs_to_its_call(failed: bool, status: str, where: str) -> None:
    block = {"type": "tool_result", "toolCallId": "c1", "content": '{"found": "x"}', "isError": failed}

    (part,) = message_parts({"role": "user", "blocks": [block]})

    assert (part["kind"], part["call"], part["status"], "x" in part[where]) == ("result", "c1", status, True)


@pytest.mark.parametrize("blocks", [None, "text", [1, {"type": "new"}, {"type": "text"}]])
def test_what_was_saved_unchecked_is_nothing_to_see(blocks: object) -> None:
    assert message_parts({"role": "assistant", "text": "", "blocks": blocks}) == []
