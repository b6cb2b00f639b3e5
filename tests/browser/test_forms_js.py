"""Every widget in a real browser: by keyboard, by its accessible name, with its errors announced, and quick."""

from __future__ import annotations

import time
from typing import Annotated, Any

import pydantic
import pytest
from playwright.sync_api import expect
from pydantic import Field

from tests.browser.gallery import Order, docs, fields, gallery, order_document, prompt, widget_asks
from tests.browser.static_page import Stage, ask, doc, field, head, stage
from tests.browser.test_panel_js import CONTRAST, HOSTILE, THEMES, VARIABLES, hostile, waiting

__all__ = ["stage"]  # a fixture: imported for pytest to find

SUBMIT = "form[data-ask=a1] button[type=submit]"


class Item(pydantic.BaseModel):
    name: str = Field(min_length=1)
    count: int = 1


class Basket(pydantic.BaseModel):
    items: list[Item] = Field(default=[], max_length=3)
    tags: list[str] = []
    home: Item
    work: Item | None = None


def form(stage: Stage, type_: Any, **defaults: Any) -> None:
    """A panel that asks for a value of a type."""
    made = fields(type_)
    for one in made:
        one["default"] = defaults.get(one["name"], one.get("default"))
    stage.panel(waiting(ask(fields=made)))


def show_gallery(stage: Stage) -> None:
    shown, listed = gallery()
    stage.panel(shown, docs=listed, stamp=9)


def described(stage: Stage, selector: str) -> str:
    """What a screen reader reads out after an element's name."""
    return stage.find(selector).evaluate(
        "(one) => (one.getAttribute('aria-describedby') ?? '').split(' ').filter(Boolean)"
        ".map((id) => document.getElementById(id).textContent).join(' ')"
    )


# -- names and keyboard --------------------------------------------------------------------------------


def test_every_control_of_every_widget_has_an_accessible_name(stage: Stage) -> None:
    show_gallery(stage)

    unnamed = stage.page.evaluate(
        """() => [...document.querySelectorAll('input:not([type=hidden]), textarea, select, button')]
            .filter((one) => ![...(one.labels ?? [])].some((label) => label.textContent.trim()))
            .filter((one) => !one.ariaLabel && !one.textContent.trim())
            .filter((one) => !document.getElementById(one.getAttribute('aria-labelledby')))
            .map((one) => one.outerHTML)"""
    )

    assert unnamed == []
    assert stage.find("fieldset.loom-group:not(:has(> legend))").count() == 0


def test_every_id_that_is_referred_to_exists_and_stands_once(stage: Stage) -> None:
    show_gallery(stage)

    wrong = stage.page.evaluate(
        """() => {
          const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
          const twice = ids.filter((id, at) => ids.indexOf(id) !== at);
          const missing = ['for', 'aria-describedby', 'aria-labelledby'].flatMap((name) =>
            [...document.querySelectorAll(`[${name}]`)].flatMap((one) => one.getAttribute(name).split(' ')))
            .filter((id) => id && !ids.includes(id));
          return [...twice, ...missing];
        }"""
    )

    assert wrong == []


def test_every_control_is_reached_by_tab_in_reading_order(stage: Stage) -> None:
    show_gallery(stage)
    stage.find("[data-key='f:title']").focus()
    order = stage.page.evaluate(
        """() => [...document.querySelectorAll('.loom-docs :is(input, textarea, select, button, summary, pre)')]
            .filter((one) => one.checkVisibility() && !one.disabled && one.type !== 'hidden')
            .filter((one) => {
              const group = [...document.getElementsByName(one.name)];
              return one.type !== 'radio' || one.checked || (!group.some((other) => other.checked) && one === group[0]);
            })
            .map((one) => one.dataset.number = Math.random())"""
    )
    seen = []
    for _ in order:
        seen.append(stage.page.evaluate("Number(document.activeElement.dataset.number)"))
        stage.page.keyboard.press("Tab")

    assert seen == order


def test_shortcuts_of_the_notebook_are_suppressed_on_everything_that_is_not_text(stage: Stage) -> None:
    show_gallery(stage)
    keyed = ":is(button, select, summary, [type=radio], [type=checkbox], [type=range])"

    assert stage.find(keyed).count() > 20
    assert stage.find(f"{keyed}:not([data-lm-suppress-shortcuts])").count() == 0


def test_a_slider_a_switch_and_a_tick_are_moved_by_keys(stage: Stage) -> None:
    show_gallery(stage)
    stage.find("[data-key='f:size']").focus()
    stage.page.keyboard.press("ArrowRight")
    stage.page.get_by_role("switch", name="Remind me").press("Space")
    stage.page.get_by_role("checkbox", name="home").press("Space")

    stage.page.get_by_role("button", name="Confirm").press("Enter")

    values = stage.answer()["values"]
    assert (values["size"], values["remind"], values["topics"]) == ("41", False, ["home"])
    expect(stage.find("output")).to_have_text("41")


# -- lists and groups ----------------------------------------------------------------------------------


def test_an_item_is_added_by_key_and_has_the_focus(stage: Stage) -> None:
    form(stage, Basket)

    stage.page.get_by_role("button", name="Add item").press("Enter")
    stage.page.keyboard.type("Pen")

    assert stage.active_key() == "f:items.0.name"
    assert stage.page.get_by_role("group", name="Item 1").count() == 1
    expect(stage.find(".loom-hidden[aria-live=polite]")).to_have_text("item 1 added")


def test_removing_an_item_keeps_the_others_and_the_keyboard_goes_on(stage: Stage) -> None:
    form(stage, Basket, items=[{"name": "a"}, {"name": "b"}, {"name": "c"}])
    stage.find("[data-key='f:items.2.name']").fill("changed")

    stage.page.get_by_role("button", name="Remove item 2").press("Enter")

    assert [one.input_value() for one in stage.find("[data-key^='f:items.'][data-key$='.name']").all()] == ["a", "changed"]
    assert stage.page.evaluate("document.activeElement.getAttribute('aria-label')") == "Remove item 2"
    expect(stage.find(".loom-hidden[aria-live=polite]")).to_have_text("item 2 removed, 2 left")


def test_the_last_item_removed_leads_to_the_add_button(stage: Stage) -> None:
    form(stage, Basket, tags=["a"])

    stage.page.get_by_role("button", name="Remove tag 1").press("Enter")

    assert stage.page.evaluate("document.activeElement.textContent") == "Add tag"


def test_a_full_list_takes_no_more(stage: Stage) -> None:
    form(stage, Basket, items=[{"name": n} for n in "abc"])

    expect(stage.page.get_by_role("button", name="Add item")).to_be_disabled()


def test_nested_values_are_sent_as_one_json_value(stage: Stage) -> None:
    form(stage, Basket)
    stage.page.get_by_role("button", name="Add item").click()
    stage.find("[data-key='f:items.0.name']").fill("Pen")
    stage.page.get_by_role("button", name="Add tag").click()
    stage.find("[data-key='f:tags.0']").fill("blue")
    stage.find("[data-key='f:home.name']").fill("Home")

    stage.find(SUBMIT).click()

    assert stage.answer()["values"] == {
        "items": [{"name": "Pen", "count": "1"}],
        "tags": ["blue"],
        "home": {"name": "Home", "count": "1"},
        "work": None,
    }


def test_a_group_that_may_be_left_out_is_none_until_it_is_added(stage: Stage) -> None:
    form(stage, Basket, home={"name": "x"})
    stage.page.get_by_role("button", name="Add work").press("Enter")
    stage.page.keyboard.type("Desk")
    stage.page.get_by_role("button", name="Remove work").press("Enter")
    stage.page.get_by_role("button", name="Add work").press("Enter")
    stage.page.keyboard.type("Chair")

    stage.find(SUBMIT).click()

    assert stage.answer()["values"]["work"] == {"name": "Chair", "count": "1"}


def test_a_fixed_list_has_no_buttons_and_a_readonly_one_cannot_be_changed(stage: Stage) -> None:
    made = fields(Basket)
    made[0] |= {"fixed": True, "default": [{"name": "a"}]}
    made[1] |= {"readonly": True, "default": ["t"]}
    stage.panel(waiting(ask(fields=made)))

    assert stage.find(".loom-items button").count() == 0
    assert stage.find("[data-key='f:tags.0']").get_attribute("readonly") is not None
    assert stage.find("[data-key='f:items.0.name']").get_attribute("readonly") is None


# -- checks and errors ---------------------------------------------------------------------------------

CHECKS = [
    (Annotated[str, Field(min_length=3)], "ab", "At least 3 characters, please."),
    (Annotated[str, Field(min_length=3)], "", "Please fill this in."),
    (Annotated[str, Field(max_length=3)], "abcd", "At most 3 characters: this has 4."),
    (Annotated[str, Field(pattern=r"^\d+$")], "x", r"This does not match ^\d+$"),
    (Annotated[str, Field(json_schema_extra={"format": "email"})], "nobody",
     "Please give an e-mail address such as name@example.org."),
    (Annotated[str, Field(json_schema_extra={"format": "date"})], "1.2.", "Please give a date such as 2026-01-31."),
    (int, "", "Please fill this in."),
    (int, "1.5", "This is not a whole number."),
    (float, "x", "This is not a number."),
    (Annotated[int, Field(ge=1)], "0", "This has to be at least 1."),
    (Annotated[int, Field(lt=5)], "5", "This has to be less than 5."),
    (Annotated[float, Field(multiple_of=0.1)], "0.25", "This has to be a multiple of 0.1."),
    (Annotated[list[str], Field(min_length=1)], None, "At least 1, please."),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "typed", "told"), CHECKS, ids=[told for _, _, told in CHECKS])
def test_what_is_surely_wrong_is_said_before_it_is_sent(stage: Stage, type_: Any, typed: str | None, told: str) -> None:
    stage.panel(waiting(ask(fields=fields(type_))))
    box = "[data-key='f:data']"
    if typed is not None:
        stage.find(box).fill(typed)

    stage.find(SUBMIT).click()

    assert stage.sent("answer") == []
    expect(stage.find(".loom-field-error:visible")).to_have_text(told)
    expect(stage.find("form [role=alert]")).to_have_text("One field needs a look.")
    if typed is not None:
        assert (stage.find(box).get_attribute("aria-invalid"), stage.active_key()) == ("true", "f:data")
        assert told in described(stage, box)


@pytest.mark.parametrize(
    ("type_", "typed"),
    [
        (str, ""),
        (Annotated[str, Field(pattern=r"(?P<x>a)")], "b"),
        (Annotated[float, Field(multiple_of=0.1)], "0.3"),
        (int, " 7 "),
    ],
    ids=["an empty text", "a pattern only Python knows", "a rounding error", "blanks around a number"],
)
def test_what_may_be_right_is_left_to_the_kernel(stage: Stage, type_: Any, typed: str) -> None:
    stage.panel(waiting(ask(fields=fields(type_))))
    stage.find("[data-key='f:data']").fill(typed)

    stage.find(SUBMIT).click()

    assert stage.answer()["values"] == {"data": typed}


def test_a_box_that_must_be_ticked_says_so(stage: Stage) -> None:
    stage.panel(waiting(ask(fields=[field("agree", "boolean", must_tick=True)])))

    stage.find(SUBMIT).click()

    expect(stage.find(".loom-field-error:visible")).to_have_text("This has to be ticked.")
    assert stage.active_key() == "f:agree"


def test_an_error_of_the_kernel_stands_at_its_nested_field(stage: Stage) -> None:
    form(stage, Basket, items=[{"name": "a"}, {"name": "b"}], home={"name": "x"})
    stage.find(SUBMIT).click()

    stage.refuse({"items.1.name": "already there", "items": "too odd", "home.count.deep": "no"}, "Three things.")

    assert described(stage, "[data-key='f:items.1.name']") == "already there"
    assert "too odd" in described(stage, "fieldset.loom-group:has([data-key='f:items'])")
    assert "no" in described(stage, "[data-key='f:home.count']")
    assert stage.active_key() == "f:items.1.name"


def test_a_fold_opens_for_the_error_in_it(stage: Stage) -> None:
    made = fields(Basket)
    made[2] |= {"collapsed": True, "default": {"name": "x"}}
    stage.panel(waiting(ask(fields=made)))
    expect(stage.find("[data-key='f:home.name']")).to_be_hidden()
    stage.find(SUBMIT).click()

    stage.refuse({"home.name": "taken"})

    expect(stage.find("[data-key='f:home.name']")).to_be_focused()


# -- nothing typed is lost -----------------------------------------------------------------------------


def test_a_list_being_filled_survives_a_new_view_with_its_focus(stage: Stage) -> None:
    form(stage, Basket, items=[{"name": "a"}])
    asked = waiting(
        ask(fields=[{**one, "default": [{"name": "a"}]} if one["name"] == "items" else one for one in fields(Basket)])
    )
    stage.page.get_by_role("button", name="Add item").click()
    stage.page.keyboard.type("half")
    stage.page.get_by_role("button", name="Add work").click()
    stage.page.keyboard.type("Desk")

    stage.render_again()
    stage.state(asked)

    assert [one.input_value() for one in stage.find("[data-key^='f:items.'][data-key$='.name']").all()] == ["a", "half"]
    assert stage.find("[data-key='f:work.name']").input_value() == "Desk"
    assert stage.active_key() == "f:work.name"


def test_a_push_leaves_a_list_alone(stage: Stage) -> None:
    form(stage, Basket)
    stage.page.get_by_role("button", name="Add tag").click()
    stage.page.keyboard.type("half")

    stage.state(waiting(ask(fields=fields(Basket)), place="other"), docs=[doc(0, "new")], stamp=1)

    assert (stage.active_key(), stage.find("[data-key='f:tags.0']").input_value()) == ("f:tags.0", "half")


# -- documents that take an answer ---------------------------------------------------------------------


def active(*opened: dict[str, str], **more: Any) -> dict[str, Any]:
    return head("waiting", active_docs=[{"index": at, "open": one} for at, one in enumerate(opened)], **more)


def test_a_form_in_a_document_sends_its_whole_content_to_the_action_pressed(stage: Stage) -> None:
    stage.panel(active({"confirm": "a-c", "again": "a-a"}), docs=[order_document()], stamp=1)
    stage.find("[data-key='f:title']").fill("Pencils")

    stage.page.get_by_role("button", name="Do it again").click()

    sent = stage.answer()
    assert (sent["ask"], sent["doc"], sent["values"]["title"]) == ("a-a", 0, "Pencils")
    assert set(sent["values"]) == set(Order.model_fields)
    assert (sent["values"]["secret"], sent["values"]["items"][1]["name"]) == ("kept", "Cap")


def test_an_action_whose_transition_is_not_open_is_dead(stage: Stage) -> None:
    stage.panel(active({"confirm": "a-c"}), docs=[order_document()], stamp=1)

    expect(stage.page.get_by_role("button", name="Not here")).to_be_disabled()
    expect(stage.page.get_by_role("button", name="Do it again")).to_be_disabled()
    expect(stage.page.get_by_role("button", name="Confirm")).to_be_enabled()


@pytest.mark.case("workflows:N03")
def test_an_inactive_form_is_to_be_read_without_its_buttons(stage: Stage) -> None:
    stage.panel(active({"confirm": "a-c"}), docs=[order_document()], stamp=1)

    stage.state(head("running"))

    assert stage.find(".loom-doc :is(input, button)").count() == 0
    expect(stage.find(".loom-doc")).to_contain_text("Blue ones")


def test_a_document_that_is_sent_again_does_not_disturb_the_others(stage: Stage) -> None:
    opened = active({"confirm": "a-c"}, {"answer": "a-1"})
    stage.panel(opened, docs=docs()[:2], stamp=2)
    stage.find("[data-key='f:answer']").press_sequentially("half")

    stage.state(opened, docs=[{**order_document(title="Other"), "stamp": 9}], stamp=9)

    assert stage.find("[data-key='f:title']").input_value() == "Other"
    assert (stage.active_key(), stage.find("[data-key='f:answer']").input_value()) == ("f:answer", "half")


def test_an_accepted_answer_of_a_document_leads_on(stage: Stage) -> None:
    stage.panel(active({"answer": "a-0"}), docs=[prompt("text-prompt")], stamp=1)
    stage.find("[data-key='f:answer']").fill("x")
    stage.page.keyboard.press("Enter")
    stage.accept()
    expect(stage.find(".loom-doc")).to_have_text("Answer sent")

    stage.state(waiting(ask(fields=[field("next")])), docs=[{**prompt("text-prompt", answer="x"), "stamp": 5}], stamp=5)

    expect(stage.find(".loom-doc")).to_contain_text("✓ x")
    assert stage.active_key() == "f:next"


def test_a_refused_document_keeps_its_text_and_shows_the_error(stage: Stage) -> None:
    stage.panel(active({"confirm": "a-c"}), docs=[order_document()], stamp=1)
    stage.find("[data-key='f:tags.0']").fill("kept")
    stage.page.get_by_role("button", name="Confirm").click()

    stage.refuse({"items.0.count": "Too few."}, "It does not fit.")

    assert described(stage, "[data-key='f:items.0.count']").endswith("Too few.")
    assert stage.find("[data-key='f:tags.0']").input_value() == "kept"
    expect(stage.find(".loom-doc [role=alert]")).to_have_text("It does not fit.")


def test_a_document_is_hidden_where_the_kernel_says(stage: Stage) -> None:
    stage.panel(active({"confirm": "a-c"}), docs=[order_document()], stamp=1)

    stage.state(head("waiting", hidden_docs=[0]))
    expect(stage.find(".loom-doc")).to_be_hidden()

    stage.state(head("waiting", hidden_docs=[]))
    expect(stage.find(".loom-doc")).to_be_visible()


def test_a_question_answered_in_a_document_has_no_form_of_its_own(stage: Stage) -> None:
    stage.panel(waiting({**ask(fields=[field("x")]), "in_document": True}))

    assert stage.find(".loom-asks > *").count() == 0


# -- prompts and buttons -------------------------------------------------------------------------------


def test_a_text_prompt_is_answered_by_enter(stage: Stage) -> None:
    stage.panel(active({"answer": "a-0"}), docs=[prompt("text-prompt")], stamp=1)
    stage.page.get_by_label("Which one?").last.press("Enter")
    assert stage.sent("answer") == []

    stage.page.keyboard.type("this")
    stage.page.keyboard.press("Enter")

    assert (stage.answer()["ask"], stage.answer()["values"]) == ("a-0", {"answer": "this"})


@pytest.mark.parametrize(("button", "answer"), [("Yes", "yes"), ("No", "no")])
def test_a_confirm_prompt_has_two_buttons(stage: Stage, button: str, answer: str) -> None:
    stage.panel(active({"answer": "a-0"}), docs=[prompt("confirm-prompt")], stamp=1)

    stage.page.get_by_role("button", name=button).press("Enter")

    assert stage.answer()["values"] == {"answer": answer}
    assert stage.page.get_by_role("group", name="Which one?").count() == 1


@pytest.mark.parametrize("custom", [True, False])
def test_choices_offer_words_of_ones_own_only_where_they_may(stage: Stage, custom: bool) -> None:
    stage.panel(active({"answer": "a-0"}), docs=[prompt("choices", options=["red", "green"], allowCustomAnswer=custom)], stamp=1)
    assert stage.page.get_by_label("Other answer").count() == int(custom)

    stage.page.get_by_label("green").check()
    stage.page.get_by_role("button", name="Send").click()

    assert stage.answer()["values"] == {"answer": "green"}


def test_a_prompt_input_sends_the_text_as_written_and_nothing_for_nothing(stage: Stage) -> None:
    stage.panel(waiting(*widget_asks()))
    stage.page.get_by_role("textbox", name="Say").press("Enter")
    assert stage.sent("answer") == []

    stage.page.keyboard.type("  two words ")
    stage.page.keyboard.press("Enter")

    assert (stage.answer()["ask"], stage.answer()["values"]) == ("say", {"data": "  two words "})


def test_a_button_sends_no_data(stage: Stage) -> None:
    stage.panel(waiting(*widget_asks()))

    stage.page.get_by_role("button", name="Button 1").press("Enter")

    assert (stage.answer()["ask"], stage.answer()["values"]) == ("b1", {})


def test_a_hidden_question_is_not_drawn(stage: Stage) -> None:
    stage.panel(waiting({**widget_asks()[1], "hidden": True}))

    assert stage.find(".loom-asks > *").count() == 0


# -- looks and safety ----------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES)
def test_every_text_of_every_widget_can_be_read(stage: Stage, theme: str) -> None:
    rules = "".join(f"--jp-{name}:{value};" for name, value in zip(VARIABLES, THEMES[theme], strict=False))
    stage.page.add_style_tag(content=f":root{{{rules}}}")
    show_gallery(stage)
    stage.find("[data-key='f:title']").fill("x")
    stage.page.get_by_role("button", name="Confirm").click()
    expect(stage.find(".loom-doc [role=alert]:visible")).to_have_text("One field needs a look.")

    assert stage.page.evaluate(CONTRAST) == []


def test_no_string_of_a_form_runs_as_markup(stage: Stage) -> None:
    made = hostile({"fields": fields(Basket)})["fields"]
    for one in made:
        one["name"] = one["label"]
    made[0]["default"], made[1]["default"] = [{"name": HOSTILE}], [HOSTILE]
    stage.panel(waiting(ask(fields=made)))

    assert stage.page.evaluate("[window.__hit ?? null, document.images.length]") == [None, 0]


# -- quick ---------------------------------------------------------------------------------------------


def seconds(stage: Stage, message: dict[str, Any]) -> float:
    """How long the page takes for a message until it is laid out, by a clock of ours: the page's own stands still."""
    stage.page.evaluate("(message) => void (window.message = message)", {"type": "state", "head_rev": 1, "stamp": 0, **message})
    start = time.perf_counter()
    stage.page.evaluate(
        "() => { model.emit('msg:custom', window.message); document.querySelector('.loom-panel').getBoundingClientRect(); }"
    )
    return time.perf_counter() - start


def test_a_form_of_a_hundred_fields_opens_within_half_a_second(stage: Stage) -> None:
    kinds: list[Any] = [(str, "x"), (int, 3), (bool, True), (list[str], ["a"]), (Item, Item(name="n"))]
    big = pydantic.create_model("Big", **{f"field_{at}": kinds[at % 5] for at in range(100)})
    asked = [waiting(ask(id=f"a{n}", fields=fields(big))) for n in range(3)]
    stage.panel(head())

    best = min(seconds(stage, {"head": shown}) for shown in asked)

    assert stage.find(".loom-fields > .loom-field").count() >= 100
    assert best < 0.5


def test_two_thousand_documents_are_drawn_within_a_second(stage: Stage) -> None:
    stage.panel(head())
    batches = [
        [doc(i, f"<p>document <b>{i}</b></p>", "message", stamp=i + 1 + n * 5000, role="agent") for i in range(2000)]
        for n in range(2)
    ]

    best = min(seconds(stage, {"docs": all_, "stamp": all_[-1]["stamp"]}) for all_ in batches)

    assert stage.find(".loom-doc").count() == 2000
    assert best < 1.0
