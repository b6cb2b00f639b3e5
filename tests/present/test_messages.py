"""A model's message: its text, with what it has beside that folded away, and nothing of it trusted."""

from __future__ import annotations

from typing import Any

import pytest

import loomnb as loom
from loomnb.present import document_html, document_kind, document_plain, narrated
from loomnb.present.messages import blocks_html, blocks_plain

BLOCKS = [
    {"type": "thinking", "text": "let me see"},
    {"type": "text", "text": "hello"},
    {"type": "tool_call", "id": "1", "name": "add", "args": {"a": 1}},
    {"type": "tool_result", "toolCallId": "1", "content": "3", "isError": False},
    {"type": "tool_result", "toolCallId": "2", "content": "no such tool", "isError": True},
]


def message(blocks: Any, text: str = "hello") -> loom.DocumentEntity:
    content = {"role": "assistant", "text": text, "blocks": blocks}
    return loom.DocumentEntity(id="d", key="k", document_name="llm_message", content=content, ui={"widget": "llm-message"})


def test_it_is_drawn_as_a_message_with_its_text_once() -> None:
    entity = message(BLOCKS)

    assert document_kind(entity) == "message"
    assert document_html(entity).count("hello") == 1
    assert document_html(entity).count("<details>") == 4


def test_as_text_each_block_is_a_line() -> None:
    assert document_plain(message(BLOCKS)).splitlines() == [
        "[assistant] hello",
        "  … thinking: let me see",
        '  → add: {"a": 1}',
        "  ← result of a tool: 3",
        "  ✗ error of a tool: no such tool",
    ]


@pytest.mark.parametrize("kind", ["thinking", "tool_call", "tool_result"])
def test_what_a_model_writes_into_a_block_is_never_markup(kind: str) -> None:
    bad = "<img src=x onerror=alert(1)>"
    block = {"type": kind, "text": bad, "name": bad, "args": {bad: bad}, "content": bad}

    assert "<img" not in document_html(message([block]))


@pytest.mark.parametrize("blocks", [None, "x", [1], [{}], [{"type": "image"}]], ids=["none", "text", "number", "empty", "other"])
def test_blocks_that_are_none_are_left_out(blocks: Any) -> None:
    assert document_plain(message(blocks)) == "[assistant] hello"


def test_a_call_of_a_tool_is_told_in_its_own_words() -> None:
    words = {"label": "Search {q}", "running": "Searching {q}…", "done": "Searched {q}"}
    told = [narrated("find_it", words, {"q": "x"}, status) for status in ("running", "waiting", "done", "failed", "denied")]

    assert told == ["Searching x…", "Search x", "Searched x", "Search x: failed", "Search x: declined"]


def test_a_tool_without_words_is_told_by_its_name_in_plain_ones() -> None:
    assert [narrated("find_it", None, {}, status) for status in ("running", "done", "expired")] == [
        "Find it…",
        "Find it",
        "Find it: nobody decided in time",
    ]


def test_a_call_and_what_it_showed_are_told_without_a_script() -> None:
    tool = {"type": "tool", "status": "done", "label": "<b>Found</b>", "input": {"q": "<i>"}, "output": 3}
    shown = {"type": "component", "component": "Callout", "props": {"title": "Hot", "text": "<script>"}}

    html = blocks_html([tool, shown])
    plain = list(blocks_plain([tool, shown]))

    assert "✓ &lt;b&gt;Found&lt;/b&gt;" in html
    assert "<script>" not in html
    assert plain[0] == '  ✓ <b>Found</b>: {"input": {"q": "<i>"}, "output": 3}'
    assert any("Hot" in line for line in plain[1:])
