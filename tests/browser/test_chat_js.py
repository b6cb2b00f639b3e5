"""The chat panel's module in a real browser, against a fake model: what a person sees and what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.static_page import Stage, ask, field, stage

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


def approval(**more: Any) -> dict[str, Any]:
    told = {"label": "Send this mail?", "description_html": "<p>It goes to <b>bob@example.org</b> at once.</p>"}
    told |= {"submit": "Send mail", "reject": "Reject", "tool": "Send mail", "remember": True, "has_reason": True}
    fields = [field("to", default="bob@example.org"), field("subject", default="Weather"), field("text", default="Mild.")]
    return ask("approval", **{**told, "fields": [*fields, field("urgent", "boolean", default=False)], **more})


def waiting(*asks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return chat_head(status="waiting", status_text="waiting for you", asks=list(asks), can_stop=True, **more)


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


# -- narrow and low ----------------------------------------------------------------------------------

BROKEN_WORDS = """() => [...document.querySelectorAll(".loom-chat :is(button, .loom-chip)")].flatMap((node) => {
  if (!node.getClientRects().length) return [];
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    for (const { 0: word, index } of text.data.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(word);
    }
  }
  return broken;
})"""


@pytest.mark.parametrize("width", [300, 340, 400])
def test_in_a_narrow_page_no_word_of_a_button_breaks_and_nothing_scrolls_sideways(stage: Stage, width: int) -> None:
    stage.page.set_viewport_size({"width": width, "height": 800})
    queued = {"text": "And then?", "files": [], "error": "", "is_due": True}
    offered = {"suggestions": ["And next week?", "Mail the whole forecast to Bob and to Alice"], "models": ["small"]}
    chat(stage, waiting(approval(), queued=queued, can_retry=True, **offered))
    stage.page.get_by_role("button", name="Conversations").click()
    listed = [("What is the weather like in Lisbon?", 3, True), ("Hi", 3000, False)]
    told = [{"threadId": str(n), "title": t, "messages": m, "waiting": w} for n, (t, m, w) in enumerate(listed)]
    stage.say({"type": "accepted", "n": stage.sent("threads")[-1]["n"], "here": "t1", "threads": told})
    expect(stage.find(".loom-thread")).to_have_count(2)

    assert stage.page.evaluate(BROKEN_WORDS) == []
    assert stage.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert stage.find(".loom-thread-title").first.bounding_box()["width"] > 90  # type: ignore[index]


@pytest.mark.parametrize("width", [420, 1000])
def test_while_something_is_asked_the_messages_give_up_height_so_that_both_are_seen(stage: Stage, width: int) -> None:
    stage.page.set_viewport_size({"width": width, "height": 720})
    said = [one for n in range(12) for one in (user(f"u{n}", "What is it like?"), answer(f"a{n}", "<p>Mild.</p>" * 3))]
    chat(stage, chat_head(), *said)
    before = stage.find(".loom-transcript").bounding_box()
    assert before is not None
    assert before["height"] > 400

    tell(stage, waiting(approval()), rev=2)
    expect(stage.find("form.loom-ask")).to_be_visible()
    stage.wait(0.1)

    top, form = stage.find(".loom-transcript").bounding_box(), stage.find("form.loom-ask").bounding_box()
    assert top is not None
    assert form is not None
    assert top["height"] >= 110
    assert form["y"] + form["height"] - top["y"] <= 720 - 110  # what a notebook's own bars leave
    expect(stage.find(".loom-turn").last).to_be_in_viewport()  # the end of what was said, still


# -- the focus and what is asked ---------------------------------------------------------------------


def sent(stage: Stage, text: str = "Mail it") -> None:
    """Something said with Enter, and taken."""
    stage.page.get_by_label("Message", exact=True).click()
    stage.page.keyboard.type(text)
    stage.page.keyboard.press("Enter")
    stage.say({"type": "accepted", "n": stage.sent("send")[-1]["n"]})


def test_who_has_just_said_something_is_led_to_what_is_asked(stage: Stage) -> None:
    chat(stage)
    sent(stage)

    tell(stage, waiting(approval()), rev=2)

    assert stage.active_key() == "f:input.to"
    expect(stage.find("[role='status'][aria-live]")).to_have_text("waiting for your answer: Send this mail?")


def test_a_second_question_is_announced_too_and_goes_on_from_the_first(stage: Stage) -> None:
    chat(stage)
    sent(stage)
    tell(stage, waiting(approval()), rev=2)
    stage.page.get_by_role("button", name="Send mail").click()
    stage.accept()

    tell(stage, waiting(approval(id="a2", label="Send that, too?")), rev=3)

    assert stage.active_key() == "f:input.to"
    expect(stage.find("[role='status'][aria-live]")).to_have_text("waiting for your answer: Send that, too?")


def test_an_approval_without_fields_leads_to_its_form_and_not_to_its_yes(stage: Stage) -> None:
    chat(stage)
    sent(stage)

    tell(stage, waiting(approval(fields=[], remember=False, has_reason=False, input_html="<p>all</p>")), rev=2)

    expect(stage.find("form.loom-ask")).to_be_focused()
    stage.page.keyboard.press("Enter")
    assert stage.sent("answer") == []
    stage.page.keyboard.press("Tab")
    expect(stage.page.get_by_role("button", name="Send mail")).to_be_focused()


def test_who_types_ahead_keeps_the_focus(stage: Stage) -> None:
    chat(stage)
    sent(stage)
    stage.page.keyboard.type("and ")

    tell(stage, waiting(approval()), rev=2)
    stage.wait(5)
    stage.page.keyboard.type("then")

    assert stage.page.get_by_label("Message", exact=True).input_value() == "and then"
    expect(stage.page.get_by_label("Message", exact=True)).to_be_focused()


def test_who_has_just_pressed_a_key_is_led_there_a_moment_later(stage: Stage) -> None:
    chat(stage)
    sent(stage)
    stage.page.keyboard.type("x")
    stage.page.keyboard.press("Backspace")

    tell(stage, waiting(approval()), rev=2)

    expect(stage.page.get_by_label("Message", exact=True)).to_be_focused()
    stage.wait(3)
    assert stage.active_key() == "f:input.to"


def test_who_is_elsewhere_keeps_the_focus(stage: Stage) -> None:
    chat(stage)
    sent(stage)
    stage.page.evaluate("document.body.append(Object.assign(document.createElement('input'), { id: 'other' }))")
    stage.find("#other").click()

    tell(stage, waiting(approval()), rev=2)
    stage.wait(5)

    expect(stage.find("#other")).to_be_focused()


def test_who_is_at_another_question_stays_there(stage: Stage) -> None:
    chat(stage, waiting(approval()))
    stage.page.get_by_role("button", name="Reject").focus()

    tell(stage, waiting(approval(), approval(id="a2", label="Send that, too?")), rev=2)
    stage.wait(5)

    expect(stage.page.get_by_role("button", name="Reject").first).to_be_focused()


def test_who_reads_and_has_marked_words_keeps_them(stage: Stage) -> None:
    chat(stage)
    stage.find(".loom-transcript").focus()
    stage.page.evaluate("getSelection().selectAllChildren(document.querySelector('.loom-words'))")

    tell(stage, waiting(approval()), rev=2)
    stage.wait(5)

    expect(stage.find(".loom-transcript")).to_be_focused()


def test_what_was_open_when_the_view_was_drawn_takes_no_focus(stage: Stage) -> None:
    chat(stage, waiting(approval()))

    assert stage.active_key() is None
