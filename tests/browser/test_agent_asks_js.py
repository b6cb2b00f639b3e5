"""What an agent asks, in the run panel's own forms: an approval with its arguments, a set of questions."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.static_page import Stage, ask, field, head, stage

__all__ = ["stage"]  # a fixture: imported for pytest to find


def approval(**more: Any) -> dict[str, Any]:
    base = {"label": "Send it?", "submit": "Send", "reject": "Reject", "tool": "Send", "tone": "neutral", "raw": False}
    base |= {"remember": True, "has_reason": True, "input_html": "", "expires": None}
    return ask("approval", **{**base, "fields": [field("to", default="bob"), field("times", "integer", default=1)], **more})


def waiting(*asks: dict[str, Any]) -> dict[str, Any]:
    return head("waiting", asks=list(asks))


def test_an_approval_sends_its_arguments_as_they_stand(stage: Stage) -> None:
    stage.panel(waiting(approval()))

    stage.find("[data-key='f:input.to']").fill("eve")
    stage.find("[data-key='f:remember']").check()
    stage.page.get_by_role("button", name="Send").click()

    sent = stage.answer()["values"]
    assert sent == {"approved": True, "input": {"to": "eve", "times": "1"}, "remember": True, "reason": None}


def test_a_rejection_needs_no_valid_arguments(stage: Stage) -> None:
    stage.panel(waiting(approval()))

    stage.find("[data-key='f:input.times']").fill("")
    stage.find("[data-key='f:reason']").fill("not now")
    stage.page.get_by_role("button", name="Reject").click()

    sent = stage.answer()["values"]
    assert (sent["approved"], sent["reason"]) == (False, "not now")


def test_enter_in_a_field_leads_to_the_choice_and_does_not_make_it(stage: Stage) -> None:
    stage.panel(waiting(approval()))

    stage.find("[data-key='f:input.to']").press("Enter")

    assert stage.sent("answer") == []
    expect(stage.page.get_by_role("button", name="Send")).to_be_focused()


def test_an_error_of_an_argument_is_shown_at_its_field(stage: Stage) -> None:
    stage.panel(waiting(approval()))
    stage.page.get_by_role("button", name="Send").click()

    stage.refuse({"input.times": "not a whole number"})

    expect(stage.find("[data-key='f:input.times']")).to_have_attribute("aria-invalid", "true")
    expect(stage.find(".loom-field-error:not([hidden])")).to_have_text("not a whole number")


def test_an_approval_that_cannot_be_edited_shows_what_would_run(stage: Stage) -> None:
    again = approval(
        fields=[], input_html="<dl><dt>To</dt><dd>bob</dd></dl>", remember=False, has_reason=False, tone="destructive"
    )
    stage.panel(waiting(again))

    expect(stage.find(".loom-given")).to_contain_text("bob")
    assert stage.find("form :is(input, textarea)").count() == 0
    assert "loom-danger" in (stage.page.get_by_role("button", name="Send").get_attribute("class") or "")


def test_the_time_that_is_left_counts_down(stage: Stage) -> None:
    stage.panel(waiting(approval(expires=1_800_000_000 + 65)))
    expect(stage.find(".loom-expiry")).to_have_text("expires in 1 min 05 s")

    stage.wait(40)

    expect(stage.find(".loom-expiry")).to_have_text("expires in 25 s")
    assert "loom-soon" in (stage.find(".loom-expiry").get_attribute("class") or "")


def test_questions_are_answered_or_skipped(stage: Stage) -> None:
    size = field(
        "size",
        "choice",
        default="s",
        widget="radio",
        choices=[{"value": "s", "label": "Small"}, {"value": "l", "label": "Large"}],
    )
    asked = ask("elicitation", submit="Answer", reject="Skip", fields=[size, field("n", "number", required=False)])
    stage.panel(waiting(asked))

    stage.page.get_by_label("Large").check()
    stage.find("[data-key='f:n']").fill("3")
    stage.page.get_by_role("button", name="Answer").click()
    assert stage.answer()["values"] == {"size": "l", "n": "3"}

    stage.state(waiting({**asked, "id": "a2"}), head_rev=2)
    stage.page.get_by_role("button", name="Skip").click()
    assert stage.sent("answer")[-1]["values"] == {"skipped": True}
