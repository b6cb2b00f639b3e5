"""The chat panel's module in a real browser, against a fake model: what a person sees and what is sent."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.static_page import Stage, stage

__all__ = ["stage"]  # a fixture: imported for pytest to find

CLOSED = 'The store is closed: run the cell that opens it again, then agent.chat("t1") shows this again.'


def chat_head(**more: Any) -> dict[str, Any]:
    base = {
        "kind": "chat", "title": "Weather", "agent": "Helper", "thread_id": "t1", "count": 2, "earlier": 0, "status": "",
        "status_text": "", "asks": [], "error": None, "notice": "", "can_stop": False, "can_retry": False,
        "retry_text": "Go on", "can_say": True, "why_not": "", "models": [], "model": "", "suggestions": [], "used": "",
        "waiting": None, "queued": None, "limits": {"file": 5_000_000, "files": 7_000_000},
    }  # fmt: skip
    return {**base, **more}


def user(uid: str, text: str, **more: Any) -> dict[str, Any]:
    return {"uid": uid, "role": "user", "id": uid, "turn": uid, "text": text, "files": [], "ends": True, "parts": [], **more}


def answer(uid: str, *html: str, **more: Any) -> dict[str, Any]:
    text = {"key": "text", "kind": "text", "n": len(html), "blocks": {str(n): one for n, one in enumerate(html)}}
    base = {"uid": uid, "role": "assistant", "id": uid, "turn": "r1", "ends": True, "parts": [text] if html else []}
    return {**base, **more}


def tell(stage: Stage, head: dict[str, Any], *items: dict[str, Any], rev: int = 1, **more: Any) -> None:
    """A state as the kernel sends it; with items, they are the whole conversation."""
    told = {"items": list(items), "order": [item["uid"] for item in items]} if items else {}
    stage.state(head, head_rev=rev, stamp=rev, since=0, **told, **more)


def chat(stage: Stage, head: dict[str, Any] | None = None, *items: dict[str, Any]) -> None:
    """A chat whose kernel has answered its first hello."""
    stage.mount("chat", {"head": {"kind": "chat", "title": "Weather", "agent": "Helper", "thread_id": "t1"}})
    tell(stage, head or chat_head(), *(items or (user("m1", "What is it like?"), answer("m2", "<p>Mild.</p>"))))


# -- a closed store ----------------------------------------------------------------------------------


def test_a_closed_store_keeps_the_transcript_and_says_what_to_run(stage: Stage) -> None:
    chat(stage)

    stage.wait(3.1)
    stage.state(None, stamp=1, since=1, closed=CLOSED)
    stage.wait(3.1)
    stage.state(None, stamp=1, since=1, closed=CLOSED)
    stage.wait(1)

    expect(stage.find(".loom-line")).to_have_text(CLOSED)
    expect(stage.find(".loom-chip")).to_have_text("store closed")
    expect(stage.find(".loom-turns")).to_contain_text("Mild.")
    assert stage.find(".loom-chat :is(textarea, button):enabled:visible").all_inner_texts() == ["Copy", "Copy"]


# -- nothing said ------------------------------------------------------------------------------------


def test_where_nothing_was_said_stands_a_line_and_no_empty_answer(stage: Stage) -> None:
    note = {"key": "note", "kind": "note", "text": "Stopped before anything was said."}
    begun = answer("r1:1", id=None, live=True, open=True)
    chat(stage, chat_head(), user("m1", "Go"), begun)
    expect(stage.find(".loom-turn:visible")).to_have_count(1)

    tell(stage, chat_head(), user("m1", "Go"), answer("r1:stopped", id=None, parts=[note]), rev=2)

    expect(stage.find(".loom-turn[data-role='assistant'] .loom-said")).to_have_text("Stopped before anything was said.")
    assert stage.find(".loom-turn[data-role='assistant'] button:visible").count() == 0
