"""The artifact viewer's module in a real browser, against a fake model: what is asked for, and what needs no kernel."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.static_page import Stage, stage

__all__ = ["stage"]  # a fixture: imported for pytest to find

FORMS = ["markdown", "tree", "diff", "raw"]
HEAD = {
    "title": "deliver / spec",
    "revisions": [{"n": 2, "at": "2026-01-02T10:00:00.000Z"}, {"n": 5, "at": "2026-01-05T10:00:00.000Z"}, {"n": 7, "at": ""}],
    "shown": {"revision": 7, "form": "markdown", "forms": FORMS, "html": "<h1>Seven</h1>", "start": 0, "size": 50, "total": 0},
}


@pytest.fixture
def viewer(stage: Stage) -> Stage:
    stage.mount("artifact", {"head": HEAD})
    return stage


def reply(viewer: Stage, **more: Any) -> None:
    asked = viewer.sent("show")[-1]
    base = {"type": "show", "n": asked["n"], "revision": asked["revision"], "form": asked["form"], "forms": FORMS, "html": ""}
    viewer.say({**base, **more})


def test_the_current_revision_is_there_without_a_kernel(viewer: Stage) -> None:
    expect(viewer.page.get_by_role("heading", name="Seven")).to_be_visible()
    expect(viewer.page.get_by_role("region", name="Artifact: deliver / spec")).to_be_visible()
    assert viewer.sent("show") == []
    options = viewer.page.get_by_label("Revision").locator("option").all_text_contents()
    assert [o.split(" ·")[0] for o in options] == ["7 (current)", "5", "2"]
    assert "2026" in options[1]


def test_another_revision_is_asked_for_in_the_same_form(viewer: Stage) -> None:
    viewer.page.get_by_label("Revision").select_option("5")

    assert [(m["revision"], m["form"]) for m in viewer.sent("show")] == [(5, "markdown")]
    assert viewer.find(".loom-artifact").get_attribute("aria-busy") == "true"
    reply(viewer, html="<h1>Five</h1>")
    expect(viewer.page.get_by_role("heading", name="Five")).to_be_visible()
    assert viewer.find(".loom-artifact").get_attribute("aria-busy") is None


def test_only_the_last_question_counts(viewer: Stage) -> None:
    select = viewer.page.get_by_label("Revision")
    select.select_option("5")
    late = viewer.sent("show")[-1]
    select.select_option("2")
    reply(viewer, html="<h1>Two</h1>")

    viewer.say({"type": "show", "n": late["n"], "revision": 5, "form": "markdown", "forms": FORMS, "html": "<h1>Five</h1>"})

    expect(viewer.page.get_by_role("heading", name="Two")).to_be_visible()


def test_tabs_are_walked_with_the_arrows(viewer: Stage) -> None:
    viewer.page.get_by_role("tab", name="Markdown").focus()
    viewer.page.keyboard.press("ArrowRight")
    reply(viewer, html="<div class='loom-tree'>t</div>")

    tree = viewer.page.get_by_role("tab", name="Tree")
    expect(tree).to_be_focused()
    assert tree.get_attribute("aria-selected") == "true"
    assert viewer.page.get_by_role("tab").evaluate_all("tabs => tabs.filter((t) => t.tabIndex === 0).length") == 1
    viewer.page.keyboard.press("End")
    assert viewer.sent("show")[-1]["form"] == "raw"
    reply(viewer)
    viewer.page.keyboard.press("ArrowRight")  # round, and what the trait has needs no kernel
    expect(viewer.page.get_by_role("heading", name="Seven")).to_be_visible()
    assert len(viewer.sent("show")) == 2


def test_a_diff_is_against_the_one_before_or_a_chosen_one(viewer: Stage) -> None:
    compare = viewer.page.get_by_label("Compare with")
    expect(compare).to_be_hidden()

    viewer.page.get_by_role("tab", name="Diff").click()
    reply(viewer, html="<p>d</p>", against=5)
    assert compare.input_value() == "5"
    assert [o.split(" ·")[0] for o in compare.locator("option").all_text_contents()] == ["5", "2"]
    compare.select_option("2")

    assert viewer.sent("show")[-1] | {"n": 0} == {"type": "show", "n": 0, "revision": 7, "form": "diff", "against": 2}


def test_a_table_is_turned_page_by_page(viewer: Stage) -> None:
    table = {"form": "table", "forms": ["table", "raw"], "html": "<table></table><p>70 more rows</p>", "total": 120, "size": 50}
    viewer.page.evaluate("(shown) => model.set('head', { ...model.get('head'), shown })", {**table, "revision": 7, "start": 0})

    expect(viewer.page.get_by_text("rows 1-50 of 120")).to_be_visible()
    expect(viewer.page.get_by_text("70 more rows")).to_be_hidden()
    viewer.page.get_by_role("button", name="Next").click()
    assert viewer.sent("show")[-1]["start"] == 50
    reply(viewer, **{**table, "start": 100})
    expect(viewer.page.get_by_text("rows 101-120 of 120")).to_be_visible()
    assert viewer.page.get_by_role("button", name="Next").get_attribute("aria-disabled") == "true"


def test_what_a_tree_left_out_is_fetched(viewer: Stage) -> None:
    left = '<div class="loom-left" data-path="[&quot;a&quot;]" data-from="100">… 7 more</div>'
    viewer.page.get_by_role("tab", name="Tree").click()
    reply(viewer, html=f'<div class="loom-tree">{left}</div>')

    viewer.page.get_by_role("button", name="Show").click()
    (asked,) = viewer.sent("branch")
    assert (asked["path"], asked["start"], asked["revision"]) == (["a"], 100, 7)
    viewer.say({"type": "branch", "n": asked["n"], "html": "<div>the rest</div>"})

    expect(viewer.page.get_by_text("the rest")).to_be_visible()
    assert viewer.find(".loom-left").count() == 0


def test_the_whole_text_is_copied(viewer: Stage) -> None:
    viewer.page.evaluate("navigator.clipboard ? 0 : Object.defineProperty(navigator, 'clipboard', { value: {} })")
    viewer.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")

    viewer.page.get_by_role("button", name="Copy").click()
    viewer.say({"type": "raw", "n": viewer.sent("raw")[-1]["n"], "text": "all of it"})

    expect(viewer.page.get_by_role("button", name="Copied")).to_be_visible()
    assert viewer.page.evaluate("window.copied") == "all of it"


def test_a_silent_kernel_is_named_and_what_is_there_stays(viewer: Stage) -> None:
    viewer.page.get_by_label("Revision").select_option("2")
    viewer.wait(4.1)

    expect(viewer.page.get_by_text("The kernel does not answer: run the cell again.")).to_be_visible()
    expect(viewer.page.get_by_role("heading", name="Seven")).to_be_visible()
    assert viewer.page.get_by_label("Revision").input_value() == "7"  # the picker says what is shown


def test_nothing_is_left_behind(viewer: Stage) -> None:
    viewer.page.get_by_role("tab", name="Raw").click()
    viewer.page.evaluate("cleanup()")

    assert viewer.page.evaluate("model.listeners.length") == 0
    assert viewer.find(".loom-artifact").count() == 0


def test_every_control_has_a_name_and_keeps_lab_commands_away(viewer: Stage) -> None:
    controls = viewer.find(".loom-artifact :is(button, select, [tabindex])")

    assert all(controls.evaluate_all("list => list.map((one) => one.dataset.lmSuppressShortcuts === 'true')"))
    for control in controls.all():
        assert control.evaluate(
            "e => (e.innerText || e.labels?.[0]?.innerText || e.getAttribute('aria-labelledby') || '').trim()"
        )
