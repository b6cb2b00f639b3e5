"""The panel's and the table's modules in a real browser, against a fake model: what a person sees and what is sent.

Where a claim is that something does *not* happen, `assert` asks once; `expect` would wait until it stopped happening.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.static_page import Stage, ask, doc, field, head, question, stage

__all__ = ["stage"]  # a fixture: imported for pytest to find

ERROR = {"title": "ValueError", "message": "no text", "advice": "Load first.", "frames": "cell 3, line 7"}
HOSTILE = "<img src=x onerror=window.__hit=1>"
SUBMIT = "form button[type=submit]"
PROGRESS = {"text": "Reading", "since": 5, "fraction": 0.5}
FIELDS = [
    field("title", default="T"),
    field("note", required=False),
    field("count", "integer", default=3),
    field("ratio", "number"),
    field("data", "json", default={"a": 1}),
    field("urgent", "boolean", default=True),
    field("maybe", "boolean", required=False, nullable=True),
    field("tone", "choice", choices=[{"value": "n", "label": "Neutral"}, {"value": "f", "label": "Formal"}]),
    field("lang", "choice", required=False, choices=[{"value": "en", "label": "English"}]),
]
QUESTIONS = [question("a", "A?", 2), question("b", "B?", 9, skippable=True), question("c", "C?")]
EVERY_KIND = [
    ask(fields=FIELDS),
    ask("questions", id="q", questions=QUESTIONS),
    ask("confirm", id="c", context_html="<p>x</p>"),
    ask("button", id="b"),
]


def one_text(**more: Any) -> dict[str, Any]:
    return ask(label="Reply", submit="Send", fields=[field("message")], **more)


def waiting(*asks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return head("waiting", asks=list(asks), **more)


# -- connection --------------------------------------------------------------------------------------


def test_a_panel_drawn_from_saved_state_is_disabled_and_says_connecting(stage: Stage) -> None:
    stage.mount("panel", {"head": waiting(one_text(), can_cancel=True)})

    expect(stage.find(".loom-line")).to_have_text("connecting…")
    assert stage.find(".loom-title").inner_text() == "Meeting notes"
    assert stage.find(":is(input, button):enabled").count() == 0


def test_the_first_acknowledgement_enables_the_panel(stage: Stage) -> None:
    stage.panel(waiting(one_text()))

    expect(stage.find("[data-key='f:message']")).to_be_enabled()
    expect(stage.find(".loom-line")).to_be_hidden()


def test_a_hello_is_sent_at_once_and_every_three_seconds(stage: Stage) -> None:
    stage.mount("panel", {"head": {}})

    stage.wait(9.1)

    numbers = [one["n"] for one in stage.sent("hello")]
    assert numbers == [numbers[0] + i for i in range(4)]
    assert stage.sent("hello")[0]["have"] == {"stamp": 0, "log": 0, "head": 0}


def test_a_hello_tells_what_the_view_already_shows(stage: Stage) -> None:
    stage.panel(head(), docs=[doc(0, "x", stamp=7)], stamp=7, head_rev=3, log_from=0, log="ab😀")

    stage.wait(3.1)

    assert stage.sent("hello")[-1]["have"] == {"stamp": 7, "log": 3, "head": 3}


def test_a_silent_kernel_greys_the_panel_and_names_the_way_back(stage: Stage) -> None:
    stage.panel(waiting(one_text()))

    stage.wait(5.6)

    expect(stage.find(".loom-line")).to_have_text(
        'kernel gone: loom.run("run-1") or loom.pending() brings this back; so does running this cell again'
    )
    assert stage.find(".loom-panel").get_attribute("data-live") == "gone"
    expect(stage.find("[data-key='f:message']")).to_be_disabled()
    assert stage.find("form").get_attribute("aria-disabled") == "true"


def test_a_closed_store_turns_the_panel_off_and_says_what_to_run(stage: Stage) -> None:
    stage.panel(waiting(one_text()), docs=[doc(0, "<p>kept</p>")])

    stage.wait(3.1)
    stage.state(None, closed='The store is closed: run the cell that opens it again, then loom.run("run-1") shows this again.')
    stage.wait(2.6)

    expect(stage.find(".loom-line")).to_contain_text("The store is closed")
    expect(stage.find(".loom-chip").first).to_have_text("store closed")
    expect(stage.find(".loom-docs")).to_contain_text("kept")
    assert stage.find(":is(input, button):enabled").count() == 0


def test_a_busy_kernel_is_not_called_gone(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.page.evaluate("model.widget_manager.kernel.status = 'busy'")

    stage.wait(5.6)

    expect(stage.find(".loom-line")).to_have_text("kernel busy: answers wait until the running cell ends")


def test_a_front_end_without_a_widget_manager_still_greys(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.page.evaluate("Object.defineProperty(model, 'widget_manager', { get() { throw new Error('none'); } })")

    stage.wait(5.6)

    expect(stage.find(".loom-line")).to_contain_text("kernel gone")


def test_a_late_acknowledgement_brings_the_panel_back_with_its_focus(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").press_sequentially("half")
    stage.wait(5.6)

    stage.state()

    expect(stage.find("[data-key='f:message']")).to_be_enabled()
    assert stage.active_key() == "f:message"


def test_a_push_without_acknowledgement_does_not_make_a_dead_panel_look_alive(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.wait(5.6)

    stage.state(waiting(one_text()), ack=False)

    assert stage.find("[data-key='f:message']").is_disabled()


def test_another_views_acknowledgement_does_not_enable_this_one(stage: Stage) -> None:
    stage.mount("panel", {"head": waiting(one_text())})

    stage.say({"type": "state", "ack": 1, "head_rev": 1, "stamp": 0})

    assert stage.find("[data-key='f:message']").is_disabled()


def test_a_finished_run_is_pinged_slowly(stage: Stage) -> None:
    stage.panel(head("completed"))
    stage.wait(3.1)
    before = len(stage.sent("hello"))

    stage.wait(20)

    assert len(stage.sent("hello")) - before == 2


def test_cleanup_leaves_no_listener_no_timer_and_no_element(stage: Stage) -> None:
    stage.panel(waiting(one_text(), progress={"text": "x", "since": 3, "fraction": None}, can_cancel=True))
    stage.page.evaluate("cleanup()")
    before = len(stage.sent("hello"))

    stage.wait(30)

    assert stage.page.evaluate("model.listeners.length") == 0
    assert len(stage.sent("hello")) == before
    assert stage.find(".loom-panel").count() == 0


# -- the run -----------------------------------------------------------------------------------------


def test_the_status_is_told_in_words(stage: Stage) -> None:
    stage.panel(head("retrying", status_text="retrying in 4 s"))

    expect(stage.find(".loom-chip")).to_have_text("retrying in 4 s")


def test_the_path_marks_the_current_place_and_counts_what_is_left_out(stage: Stage) -> None:
    stage.panel(head(path_more=12))

    assert stage.find(".loom-path li").all_inner_texts() == ["+12 earlier", "start", "draft"]
    expect(stage.find("[aria-current=step]")).to_have_text("draft")
    assert stage.find("[aria-current=step] [title]").get_attribute("title") == "write"


def test_the_error_shows_message_advice_and_frames(stage: Stage) -> None:
    stage.panel(head("failed", error=ERROR))

    expect(stage.find(".loom-error")).to_contain_text("Load first.")
    expect(stage.find(".loom-error pre")).to_be_visible()


def test_a_result_is_shown_once_there_is_one(stage: Stage) -> None:
    stage.panel(head("running", result_html=""))
    expect(stage.find(".loom-result")).to_be_hidden()

    stage.state(head("completed", result_html="<p>42 <b>days</b></p>"))

    expect(stage.find(".loom-result")).to_have_text("Result42 days")
    expect(stage.find(".loom-result b")).to_be_visible()


def test_an_answered_question_stands_between_the_documents_it_came_between(stage: Stage) -> None:
    answer = {"index": 0.000001, "stamp": 3, "name": "answer", "kind": "answer", "title": "Which?", "role": ""}

    stage.panel(head(), docs=[doc(0, "zero"), doc(1, "one"), {**answer, "html": "<div>this one</div>"}], stamp=3)

    assert stage.find(".loom-doc").all_inner_texts() == ["zero", "Which?\nthis one", "one"]


@pytest.mark.parametrize(
    ("status", "more", "told"),
    [
        ("waiting", {"asks": [ask(label="Review")]}, "waiting for your answer: Review"),
        ("failed", {"error": ERROR}, "failed: no text"),
        ("completed", {}, "completed"),
    ],
)
def test_a_change_of_status_is_announced(stage: Stage, status: str, more: dict[str, Any], told: str) -> None:
    stage.panel(head())

    stage.state(head(status, **more), ack=False)

    expect(stage.find(".loom-hidden[aria-live=polite]")).to_have_text(told)


def test_progress_stays_hidden_for_its_first_second_and_then_counts(stage: Stage) -> None:
    stage.panel(head(progress={"text": "Reading", "since": 0, "fraction": 0.4}))
    expect(stage.find(".loom-progress")).to_be_hidden()

    stage.wait(2.4)

    expect(stage.find(".loom-progress-time")).to_have_text("2 s")
    assert stage.find("[role=progressbar]").get_attribute("aria-valuenow") == "40"


def test_progress_of_a_dead_kernel_is_not_shown(stage: Stage) -> None:
    stage.panel(head(progress={"text": "Reading", "since": 8, "fraction": None}))

    stage.wait(6)

    expect(stage.find(".loom-progress")).to_be_hidden()


def test_cancel_asks_for_a_second_click(stage: Stage) -> None:
    stage.panel(head(can_cancel=True))
    stage.find(".loom-cancel").click()
    expect(stage.find(".loom-cancel")).to_have_text("Cancel run?")
    assert stage.sent("cancel") == []

    stage.find(".loom-cancel").click()

    assert len(stage.sent("cancel")) == 1


def test_cancel_disarms_after_four_seconds(stage: Stage) -> None:
    stage.panel(head(can_cancel=True))
    stage.find(".loom-cancel").click()

    stage.wait(4.1)

    expect(stage.find(".loom-cancel")).to_have_text("Cancel")


def test_a_double_click_does_not_cancel(stage: Stage) -> None:
    stage.panel(head(can_cancel=True))

    stage.find(".loom-cancel").dblclick()

    assert stage.sent("cancel") == []


def test_retry_is_sent_once(stage: Stage) -> None:
    stage.panel(head("failed", can_retry=True, retry_text="Retry this step"))

    stage.find(".loom-retry").dblclick(force=True)

    assert len(stage.sent("retry")) == 1


# -- documents and log -------------------------------------------------------------------------------


def test_documents_are_kept_in_order_replaced_and_removed_by_index(stage: Stage) -> None:
    stage.panel(head(), docs=[doc(2, "two"), doc(0, "zero")], stamp=3)

    gone = {"index": 2, "stamp": 6, "gone": True}
    stage.state(docs=[doc(1, "one", stamp=4), doc(0, "zero again", stamp=5), gone], stamp=6)

    assert stage.find(".loom-doc").all_inner_texts() == ["zero again", "one"]


def test_an_unchanged_document_is_never_rebuilt(stage: Stage) -> None:
    stage.panel(head(), docs=[doc(0, "zero")], stamp=1)
    stage.page.evaluate("document.querySelector('.loom-doc').marked = true")

    stage.state(head("waiting"), docs=[doc(0, "zero"), doc(1, "one")], stamp=2)

    assert stage.page.evaluate("document.querySelector('.loom-doc').marked") is True


def test_two_thousand_documents_skip_layout_while_off_screen(stage: Stage) -> None:
    stage.panel(head())

    stage.state(docs=[doc(i, f"<p>document <b>{i}</b></p>", "message", role="agent") for i in range(2000)], stamp=2000)

    assert stage.find(".loom-doc").count() == 2000
    assert stage.find(".loom-doc").first.evaluate("(one) => getComputedStyle(one).contentVisibility") == "auto"


def test_a_view_that_missed_the_start_keeps_asking_for_it(stage: Stage) -> None:
    stage.mount("panel", {"head": {}})
    stage.state(ack=False, docs=[doc(9, "nine", stamp=10)], stamp=10)

    stage.wait(3.1)

    assert stage.sent("hello")[-1]["have"]["stamp"] == 0


def test_links_in_documents_open_elsewhere_and_hand_over_nothing(stage: Stage) -> None:
    stage.panel(head(), docs=[doc(0, "<a href='https://example.com/'>x</a>")], stamp=1)

    assert stage.find(".loom-doc a").get_attribute("target") == "_blank"
    assert "noopener" in (stage.find(".loom-doc a").get_attribute("rel") or "")


def test_a_progress_bar_in_the_log_shows_its_last_state_only(stage: Stage) -> None:
    stage.panel(head(), log_from=0, log="start\n 10%\r 40%")
    stage.state(log_from=15, log="\r 90%\r")
    stage.state(log_from=21, log="100%\ndone\n")

    assert stage.find(".loom-log pre").inner_text() == "start\n100%\ndone\n"


def test_a_log_that_begins_earlier_replaces_from_there(stage: Stage) -> None:
    stage.panel(head(), log_from=0, log="😀one\ntwo\n")

    stage.state(log_from=5, log="TWO\nthree")

    assert stage.find(".loom-log pre").inner_text() == "😀one\nTWO\nthree"


def test_a_gap_in_the_log_is_asked_for_at_once(stage: Stage) -> None:
    stage.panel(head(), log_from=0, log="one\n")
    before = len(stage.sent("hello"))

    stage.state(ack=False, log_from=50, log="late")

    assert len(stage.sent("hello")) == before + 1
    assert stage.sent("hello")[-1]["have"]["log"] == 4


def test_the_log_keeps_its_end_only(stage: Stage) -> None:
    stage.panel(head(), log_from=0, log="x" * 99 + "\n")
    for i in range(40):
        stage.state(log_from=100 + i * 10_000, log=("y" * 99 + "\n") * 100)

    assert 190_000 < len(stage.find(".loom-log pre").inner_text()) < 250_000
    expect(stage.find(".loom-cut")).to_be_visible()


def test_the_log_is_open_while_running_and_folds_when_completed(stage: Stage) -> None:
    stage.panel(head(), log_from=0, log="one\n")
    expect(stage.find(".loom-log pre")).to_be_visible()

    stage.state(head("completed"))

    expect(stage.find(".loom-log pre")).to_be_hidden()


# -- asks: what is sent ------------------------------------------------------------------------------


def test_enter_in_a_single_line_field_submits(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").fill("hello")

    stage.page.keyboard.press("Enter")

    assert (stage.answer()["ask"], stage.answer()["values"]) == ("a1", {"message": "hello"})


def test_a_single_short_field_has_its_button_beside_it(stage: Stage) -> None:
    stage.panel(waiting(one_text()))

    assert stage.find(".loom-row > input + button").inner_text() == "Send"


def test_control_enter_submits_from_a_textarea_and_enter_does_not(stage: Stage) -> None:
    stage.panel(waiting(ask(fields=[field("body", multiline=True)])))
    stage.find("textarea").press_sequentially("a")
    stage.page.keyboard.press("Enter")
    assert stage.sent("answer") == []

    stage.page.keyboard.press("Control+Enter")

    assert stage.answer()["values"] == {"body": "a\n"}


def test_enter_and_clicks_together_send_once(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").fill("x")

    stage.find("form").evaluate("(form) => { form.requestSubmit(); form.requestSubmit(); form.querySelector('button').click(); }")
    stage.find(SUBMIT).click(force=True)

    assert len(stage.sent("answer")) == 1
    expect(stage.find(SUBMIT)).to_have_text("Sending…")
    expect(stage.find(SUBMIT)).to_be_disabled()


def test_a_form_sends_what_was_typed_as_typed(stage: Stage) -> None:
    stage.panel(waiting(ask(fields=FIELDS)))
    stage.find("[data-key='f:ratio']").fill(" 0.50 ")
    stage.page.get_by_label("Maybe").select_option("No")
    stage.page.get_by_label("Formal").check()

    stage.find(SUBMIT).click()

    assert stage.answer()["values"] == {
        "title": "T", "note": None, "count": "3", "ratio": " 0.50 ", "data": '{\n  "a": 1\n}', "urgent": True,
        "maybe": False, "tone": "f", "lang": None,
    }  # fmt: skip


def test_every_control_has_a_label(stage: Stage) -> None:
    stage.panel(waiting(*EVERY_KIND))

    unnamed = stage.page.evaluate(
        """() => [...document.querySelectorAll('input, textarea, select')]
            .filter((one) => !one.labels?.length && !one.ariaLabel)
            .filter((one) => !document.getElementById(one.getAttribute('aria-labelledby')))
            .map((one) => one.outerHTML)"""
    )

    assert unnamed == []


def test_element_ids_are_unique_also_between_two_views(stage: Stage) -> None:
    stage.panel(waiting(ask(fields=FIELDS), ask("questions", id="q", questions=[question("a", "A?", 2)])))
    stage.page.evaluate("again()")

    ids = stage.page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")

    assert len(ids) == len(set(ids)) > 20


def test_required_is_written_out(stage: Stage) -> None:
    stage.panel(waiting(one_text()))

    expect(stage.find("form label")).to_have_text("Message required")


def test_questions_are_sent_in_order_with_label_texts(stage: Stage) -> None:
    asked = [
        question("env", "Where?", ["Staging", "Production"]),
        question("why", "Why?"),
        question("reg", "Region?", 8),
        question("tag", "Tag?", skippable=True),
    ]
    stage.panel(waiting(ask("questions", questions=asked)))
    stage.page.get_by_label("Production").check()
    stage.find("[data-key='q:why:text']").fill("because")
    stage.find("[data-key='q:reg:list']").select_option("Choice 7")
    stage.find("[data-key='q:tag:skip']").check()

    stage.find(SUBMIT).click()

    assert stage.answer()["values"] == [
        {"questionId": "env", "isSkipped": False, "answer": "Production"},
        {"questionId": "why", "isSkipped": False, "answer": "because"},
        {"questionId": "reg", "isSkipped": False, "answer": "Choice 7"},
        {"questionId": "tag", "isSkipped": True},
    ]


@pytest.mark.parametrize("options", [2, 8])
def test_typing_another_answer_selects_other(stage: Stage, options: int) -> None:
    stage.panel(waiting(ask("questions", questions=[question("env", "Where?", options)])))

    stage.page.get_by_label("Other answer").fill("the moon")
    stage.page.keyboard.press("Enter")

    assert stage.answer()["values"] == [{"questionId": "env", "isSkipped": False, "answer": "the moon"}]


def test_a_list_shows_the_description_of_the_chosen_option(stage: Stage) -> None:
    stage.panel(waiting(ask("questions", questions=[question("reg", "Region?", 8)])))

    stage.find("select").select_option("Choice 3")

    expect(stage.find(".loom-inner .loom-about")).to_have_text("about 3")


def test_an_empty_answer_is_refused_here_and_focused(stage: Stage) -> None:
    stage.panel(waiting(ask("questions", questions=[question("env", "Where?", 2), question("why", "Why?")])))
    stage.page.get_by_label("Choice 1").check()

    stage.find(SUBMIT).click()

    assert stage.sent("answer") == []
    expect(stage.find(".loom-field-error:visible")).to_have_text("Please answer this question.")
    assert stage.active_key() == "q:why:text"


def test_skipping_disables_the_rest_of_that_question(stage: Stage) -> None:
    stage.panel(waiting(ask("questions", questions=[question("tag", "Tag?", 2, skippable=True)])))

    stage.find("[data-key='q:tag:skip']").check()

    assert stage.find("[data-key^='q:tag:o']:enabled").count() == 0


@pytest.mark.parametrize(
    ("button", "feedback", "values"),
    [
        ("Confirm", "", {"isConfirmed": True}),
        ("Decline", "too risky", {"isConfirmed": False, "feedback": "too risky"}),
    ],
)
def test_a_confirmation_sends_the_choice_and_typed_feedback(
    stage: Stage, button: str, feedback: str, values: dict[str, Any]
) -> None:
    stage.panel(waiting(ask("confirm", context_html="<p>12 files</p>")))
    stage.page.get_by_label("Feedback (optional)").fill(feedback)

    stage.page.get_by_role("button", name=button).click()

    assert stage.answer()["values"] == values


def test_enter_in_the_feedback_does_not_confirm(stage: Stage) -> None:
    stage.panel(waiting(ask("confirm")))
    stage.page.get_by_label("Feedback (optional)").fill("no!")

    stage.page.keyboard.press("Enter")

    assert stage.sent("answer") == []


def test_a_button_ask_is_one_button_with_its_label(stage: Stage) -> None:
    stage.panel(waiting(ask("button", label="Publish")))

    stage.page.get_by_role("button", name="Publish").click()

    assert stage.answer()["values"] == {}


def test_several_open_asks_are_independent(stage: Stage) -> None:
    stage.panel(waiting(one_text(), one_text(id="a2")))
    stage.find("[data-ask=a1] input").fill("kept")
    stage.find("[data-ask=a2] input").fill("sent")
    stage.page.keyboard.press("Enter")

    stage.accept()

    assert stage.answer()["ask"] == "a2"
    assert stage.find("[data-ask=a1] input").input_value() == "kept"


def test_a_disabled_ask_says_why(stage: Stage) -> None:
    stage.panel(waiting(one_text(enabled=False, disabled_reason="Define MeetingNotes first.")))

    expect(stage.find(".loom-reason")).to_have_text("Define MeetingNotes first.")
    expect(stage.find("form input")).to_be_disabled()


def test_the_whole_form_is_reached_by_tab_in_reading_order(stage: Stage) -> None:
    stage.panel(waiting(ask(fields=[field("a"), field("b", "boolean", default=False), field("c", multiline=True)])))
    stage.find("[data-key='f:a']").focus()
    seen = []
    for _ in range(3):
        seen.append(stage.active_key())
        stage.page.keyboard.press("Tab")

    assert [*seen, stage.page.evaluate("document.activeElement.textContent")] == ["f:a", "f:b", "f:c", "Submit"]


def test_jupyterlab_shortcuts_are_suppressed_on_everything_that_is_not_text(stage: Stage) -> None:
    stage.panel(waiting(*EVERY_KIND, can_cancel=True), log_from=0, log="x\n")
    keyed = ":is(button, select, summary, [type=radio], [type=checkbox])"

    assert stage.find(keyed).count() > 15
    assert stage.find(f"{keyed}:not([data-lm-suppress-shortcuts])").count() == 0


# -- asks: what comes back ---------------------------------------------------------------------------


def test_an_accepted_answer_is_replaced_by_a_line_until_the_next_state(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").fill("x")
    stage.page.keyboard.press("Enter")

    stage.accept()
    expect(stage.find(".loom-asks")).to_have_text("Answer sent")

    stage.state(head())
    assert stage.find(".loom-asks > *").count() == 0


def test_after_an_answer_the_keyboard_goes_on_to_the_next_question(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").fill("x")
    stage.page.keyboard.press("Enter")
    stage.accept()

    stage.state(waiting(one_text(id="a2")))

    assert stage.find("[data-ask=a2] input").evaluate("(one) => one === document.activeElement")


def test_a_refusal_keeps_the_text_names_the_field_and_focuses_it(stage: Stage) -> None:
    stage.panel(waiting(ask(fields=[field("title"), field("count", "integer")])))
    stage.find("[data-key='f:title']").fill("kept")
    stage.find("[data-key='f:count']").fill("99")
    stage.find(SUBMIT).click()

    stage.refuse({"count": "Must be at most 10."}, "One field needs a look.")

    count = stage.find("[data-key='f:count']")
    described = count.evaluate(
        "(one) => one.getAttribute('aria-describedby').split(' ').map((id) => document.getElementById(id).textContent)"
    )
    assert (count.get_attribute("aria-invalid"), described) == ("true", ["Must be at most 10."])
    assert stage.active_key() == "f:count"
    assert stage.find("[data-key='f:title']").input_value() == "kept"


def test_a_refusal_is_announced(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.page.get_by_role("button", name="Send").click()

    stage.refuse({"": "Too early."}, "Not accepted.", "Wait a little.")

    expect(stage.find("form [role=alert]")).to_have_text("Not accepted. Wait a little. Too early.")
    expect(stage.find(SUBMIT)).to_be_enabled()


def test_an_error_of_a_field_goes_away_at_the_next_submit(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").press("Enter")
    stage.refuse({"message": "Say something."})

    stage.find("[data-key='f:message']").press("Enter")

    assert stage.find("form [aria-invalid]").count() == 0


def test_a_submit_without_reply_is_given_back_after_six_seconds(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").press("Enter")
    for _ in range(3):
        stage.wait(2.1)
        stage.state()

    expect(stage.find("form [role=alert]")).to_contain_text("did not answer")
    expect(stage.find(SUBMIT)).to_be_enabled()


def test_a_reply_to_another_views_answer_changes_nothing_here(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").fill("mine")

    stage.say({"type": "accepted", "n": 5, "ask": "a1"})

    assert stage.find("[data-key='f:message']").input_value() == "mine"


def test_a_state_push_does_not_touch_a_form_being_typed_in(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    box = stage.find("[data-key='f:message']")
    box.press_sequentially("half a sen")
    box.evaluate("(one) => { one.setSelectionRange(2, 4); one.marked = true; }")

    stage.state(waiting(one_text(), one_text(id="a2"), place="other"), docs=[doc(0, "new")], stamp=1)

    first = stage.find("[data-ask=a1] input")
    assert first.evaluate("(one) => [one.marked, one === document.activeElement, one.value]") == [
        True,
        True,
        "half a sen",
    ]
    assert first.evaluate("(one) => [one.selectionStart, one.selectionEnd]") == [2, 4]


# -- drafts ------------------------------------------------------------------------------------------


def test_typed_text_focus_and_caret_survive_a_new_view(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").press_sequentially("half")
    stage.page.keyboard.press("ArrowLeft")

    stage.render_again()
    stage.state(waiting(one_text()))

    box = stage.find("[data-key='f:message']")
    assert box.evaluate("(one) => [one.value, one === document.activeElement, one.selectionStart]") == ["half", True, 3]


def test_a_new_view_does_not_take_the_focus_from_elsewhere(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").press_sequentially("half")
    stage.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<textarea data-key=cell></textarea>')")
    stage.find("[data-key=cell]").focus()

    stage.render_again()
    stage.state(waiting(one_text()))

    assert stage.active_key() == "cell"


def test_choices_are_part_of_the_draft(stage: Stage) -> None:
    questions = [question("env", "Where?", 2), question("tag", "Tag?", 2, skippable=True)]
    asked = waiting(ask("questions", questions=questions))
    stage.panel(asked)
    stage.find("[data-key='q:env:o:o2']").check()
    stage.find("[data-key='q:tag:skip']").check()

    stage.render_again()
    stage.state(asked)

    expect(stage.find("[data-key='q:env:o:o2']")).to_be_checked()
    expect(stage.find("[data-key='q:tag:o:o1']")).to_be_disabled()


def test_an_accepted_answer_clears_its_draft(stage: Stage) -> None:
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").fill("x")
    stage.page.keyboard.press("Enter")

    stage.accept()

    assert stage.page.evaluate("sessionStorage.length") == 0


def test_a_front_end_that_forbids_storage_still_takes_answers(stage: Stage) -> None:
    stage.page.evaluate("Object.defineProperty(window, 'sessionStorage', { get() { throw new Error('forbidden'); } })")
    stage.panel(waiting(one_text()))
    stage.find("[data-key='f:message']").press_sequentially("x")

    stage.page.keyboard.press("Enter")

    assert stage.answer()["values"] == {"message": "x"}


# -- safety ------------------------------------------------------------------------------------------


def hostile(value: Any) -> Any:
    """The same message with markup in every string that a person or a model could have written."""
    if isinstance(value, dict):
        keep = {"id", "kind", "status", "name", "run_id"}
        return {k: v if k in keep or k.endswith("html") else hostile(v) for k, v in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return HOSTILE if isinstance(value, str) else value


def test_no_string_outside_the_html_fields_runs_as_markup(stage: Stage) -> None:
    shut = ask(id="s", enabled=False, disabled_reason="x")
    shown = hostile(waiting(*EVERY_KIND, shut, error=ERROR, progress=PROGRESS, notice="x", can_cancel=True, can_retry=True))
    told = {**doc(0, "<p>x</p>", "message"), "title": HOSTILE, "role": HOSTILE}
    stage.panel(shown, docs=[told], stamp=1, log_from=0, log=HOSTILE, warn=HOSTILE)
    stage.page.get_by_role("button", name=HOSTILE).last.click()

    stage.wait(7)

    assert stage.page.evaluate("[window.__hit ?? null, document.images.length]") == [None, 0]
    assert stage.find(".loom-title").inner_text() == HOSTILE


def test_the_modules_use_no_network(stage: Stage) -> None:
    stage.panel(waiting(one_text()), docs=[doc(0, "x")], stamp=1)

    assert (stage.refused, stage.console) == ([], [])


# -- contrast ----------------------------------------------------------------------------------------

# The values of JupyterLab 4's two themes; the real sheets belong to another package.
THEMES = {
    "light": ["#fff", "#fff", "#000", "rgb(0,0,0,.87)", "#e0e0e0", "#1976d2",
             "#1976d2", "#d32f2f", "#f57c00", "#388e3c"],
    "dark": ["#111", "#212121", "#fff", "rgb(255,255,255,.87)", "#424242", "#2196f3",
             "#1976d2", "#f44336", "#ff9800", "#4caf50"],
    "none": [],
}  # fmt: skip
VARIABLES = [
    "layout-color0", "layout-color1", "ui-font-color0", "ui-font-color1", "border-color2", "brand-color1",
    "accept-color-normal", "error-color1", "warn-color1", "success-color1",
]  # fmt: skip

CONTRAST = """() => {
  const ctx = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const paint = (colours) => {
    ctx.clearRect(0, 0, 1, 1);
    for (const colour of colours) { ctx.fillStyle = colour; ctx.fillRect(0, 0, 1, 1); }
    return [...ctx.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = (v) => v <= 10 ? v / 3294 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const bad = [];
  for (const node of document.querySelectorAll('.loom-panel *')) {
    const hasText = [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!hasText && !node.matches('[type=text], textarea')) continue;
    if (!node.checkVisibility() || node.closest(':disabled, .loom-hidden, option')) continue;
    const backs = [];
    for (let up = node; up; up = up.parentElement) backs.unshift(getComputedStyle(up).backgroundColor);
    const back = paint(['#fff', ...backs]), ink = paint(['#fff', ...backs, getComputedStyle(node).color]);
    const [a, b] = [light(back), light(ink)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push(`${node.className || node.tagName} ${ratio.toFixed(2)}`);
  }
  return bad;
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_every_text_has_a_contrast_of_at_least_four_and_a_half(stage: Stage, theme: str) -> None:
    rules = "".join(f"--jp-{name}:{value};" for name, value in zip(VARIABLES, THEMES[theme], strict=False))
    stage.page.add_style_tag(content=f":root{{{rules}}}")
    docs = [
        doc(0, "<p>x <a href='#'>y</a> <code>z</code></p>", "message", role="user"),
        doc(1, "<p>x</p>", "message", role="assistant"),
        doc(2, "x", "error", title="E"),
        doc(3, "<pre>x</pre>", "json", title="J"),
    ]
    more = {"error": ERROR, "notice": "n", "path_more": 3, "can_cancel": True, "can_retry": True, "progress": PROGRESS}
    stage.panel(waiting(*EVERY_KIND, **more), docs=docs, stamp=4, warn="w", log_from=0, log="x\n")
    stage.find("[data-key='f:ratio']").fill("1")
    stage.find("[data-key='f:tone:n']").check()
    stage.find("[data-ask=a1] button").click()
    stage.refuse({"title": "No."}, "One field needs a look.")

    assert stage.page.evaluate(CONTRAST) == []


# -- the table ---------------------------------------------------------------------------------------

COLUMNS = [{"name": "id", "type": "BIGINT"}, {"name": "title", "type": "VARCHAR"}]


def rows(offset: int, count: int = 50) -> list[list[str | None]]:
    return [[str(i), None if i == 2 else f"run {i}"] for i in range(offset + 1, offset + count + 1)]


def table(stage: Stage, total: int = 12_345, **more: Any) -> None:
    first = {"offset": 0, "rows": rows(0, min(50, total))}
    stage.mount("table", {"columns": COLUMNS, "total": total, "page_size": 50, "first": first, **more})


def reply(stage: Stage, offset: int, count: int = 50) -> None:
    stage.say({"type": "rows", "n": stage.sent("page")[-1]["n"], "offset": offset, "rows": rows(offset, count)})


def test_the_table_shows_its_first_page_without_a_kernel(stage: Stage) -> None:
    table(stage)

    expect(stage.find(".loom-range")).to_have_text("rows 1-50 of 12,345")
    assert stage.find("tbody tr").count() == 50
    assert stage.sent("page") == []


def test_the_table_has_a_caption_and_column_headers(stage: Stage) -> None:
    table(stage)

    assert stage.find("caption").count() == 1
    assert stage.find("th[scope=col]").count() == 2


def test_a_null_is_not_mistaken_for_text(stage: Stage) -> None:
    table(stage)

    expect(stage.find("td.loom-null")).to_have_text("NULL")


def test_numbers_are_aligned_to_the_right(stage: Stage) -> None:
    table(stage)

    assert stage.find("tbody td").first.evaluate("(one) => getComputedStyle(one).textAlign") == "end"


@pytest.mark.parametrize(("button", "offset"), [("Next", 50), ("Last", 12_300)])
def test_a_page_is_asked_for_by_its_offset(stage: Stage, button: str, offset: int) -> None:
    table(stage)

    stage.page.get_by_role("button", name=button).press("Enter")
    reply(stage, offset, 45)

    assert stage.sent("page")[0]["offset"] == offset
    expect(stage.find(".loom-range")).to_have_text(f"rows {offset + 1:,}-{offset + 45:,} of 12,345")


def test_only_the_reply_to_the_last_page_request_counts(stage: Stage) -> None:
    table(stage)
    stage.page.get_by_role("button", name="Next").click()
    stage.page.get_by_role("button", name="Last").click()

    stage.say({"type": "rows", "n": stage.sent("page")[0]["n"], "offset": 50, "rows": rows(50)})

    expect(stage.find(".loom-range")).to_have_text("rows 1-50 of 12,345")


def test_the_last_page_keeps_the_focus_on_its_button(stage: Stage) -> None:
    table(stage, total=60)
    stage.page.get_by_role("button", name="Next").press("Enter")
    reply(stage, 50, 10)

    expect(stage.page.get_by_role("button", name="Next")).to_be_focused()
    assert stage.page.get_by_role("button", name="Next").get_attribute("aria-disabled") == "true"


def test_a_page_that_never_comes_says_what_to_do(stage: Stage) -> None:
    table(stage)
    stage.page.get_by_role("button", name="Next").click()

    stage.wait(2.6)

    expect(stage.find(".loom-trouble")).to_have_text("The kernel does not answer: run the cell again.")


def test_a_cell_is_text_whatever_it_holds(stage: Stage) -> None:
    table(stage, total=1, columns=[{"name": HOSTILE, "type": HOSTILE}], first={"offset": 0, "rows": [[HOSTILE]]})

    assert stage.find("td").inner_text() == HOSTILE
    assert stage.page.evaluate("[window.__hit ?? null, document.images.length]") == [None, 0]


def test_the_tables_cleanup_leaves_no_listener_and_no_element(stage: Stage) -> None:
    table(stage)
    stage.page.evaluate("cleanup()")

    assert stage.page.evaluate("model.listeners.length") == 0
    assert stage.find(".loom-table").count() == 0


# -- messages among the documents --------------------------------------------------------------------


def said(index: int, role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return doc(index, "", "message", role=role, parts=[{"key": str(n), **part} for n, part in enumerate(parts)])


def test_messages_are_drawn_as_in_the_chat_and_a_result_stands_in_the_card_of_its_call(stage: Stage) -> None:
    words = {"kind": "text", "n": 1, "blocks": {"0": "<p>Look it up</p>"}}
    thought = {"kind": "reasoning", "ms": None, "live": False, "n": 1, "blocks": {"0": "<p>hm</p>"}}
    call = {
        "kind": "tool",
        "call": "c1",
        "status": "",
        "text": "Look up",
        "input_html": "<p>x</p>",
        "output_html": "",
        "error": "",
    }
    result = {"kind": "result", "call": "c1", "status": "done", "output_html": "<p>found</p>"}
    stage.panel(head(), docs=[said(0, "user", words), said(1, "assistant", thought, call)], stamp=2)
    expect(stage.find(".loom-doc-message[data-role='user'] .loom-said")).to_have_text("Look it up")
    expect(stage.find(".loom-thought > summary")).to_have_text("Thoughts")

    stage.state(docs=[said(2, "tool", result), said(3, "assistant")], stamp=4)

    expect(stage.find(".loom-tool")).to_have_count(1)
    expect(stage.find(".loom-tool")).to_have_attribute("data-status", "done")
    stage.find(".loom-tool summary").click()
    expect(stage.find(".loom-tool-body")).to_contain_text("found")
    assert stage.find(".loom-doc-message:visible").count() == 2  # nothing empty
