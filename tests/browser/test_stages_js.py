"""What the panel draws of a blueprint's run: stages and steps, State and artifacts; and nothing of it for other runs."""

from __future__ import annotations

from playwright.sync_api import expect

from loomnb.present import tree_html
from tests.browser.gallery import blueprint_head
from tests.browser.static_page import Stage, head, stage

__all__ = ["stage"]  # a fixture: imported for pytest to find

HOSTILE = "<img src=x onerror=window.__hit=1>"


def test_stages_are_drawn_with_their_steps_and_where_the_run_is(stage: Stage) -> None:
    stage.panel(blueprint_head())

    strip = stage.page.get_by_role("list", name="Stages")
    assert strip.locator(".loom-stage-name").all_text_contents() == [
        *("specification (done)", "solution (here)", "implementation", "validation")
    ]
    assert strip.locator("[aria-current=step]").all_text_contents() == ["review"]
    assert strip.locator("[data-state=visited].loom-step").count() == 6
    assert stage.page.get_by_role("list", name="Steps of solution").get_by_role("listitem").count() == 3
    expect(stage.find(".loom-path")).to_be_hidden()  # the strip says it


def test_the_strip_wraps_on_a_narrow_page(stage: Stage) -> None:
    stage.page.set_viewport_size({"width": 380, "height": 900})
    stage.panel(blueprint_head())

    width = stage.find(".loom-panel").evaluate("node => [node.scrollWidth, node.clientWidth]")
    assert width[0] <= width[1]


def test_the_lit_step_moves_on(stage: Stage) -> None:
    stage.panel(blueprint_head())
    moved = blueprint_head()
    for one in moved["stages"][1]["steps"]:
        one["current"] = one["name"] == "confirm"

    stage.state(moved, head_rev=2)

    assert stage.find(".loom-stages [aria-current=step]").all_text_contents() == ["confirm"]


def test_state_and_artifacts_are_folded_and_open_by_keyboard(stage: Stage) -> None:
    stage.panel(blueprint_head())
    summaries = stage.find(".loom-holdings > details > summary")
    assert summaries.all_text_contents() == ["State", "Artifacts · 2"]
    assert stage.find(".loom-fold[open]").count() == 0

    summaries.first.focus()
    stage.page.keyboard.press("Enter")
    summaries.last.focus()
    stage.page.keyboard.press("Enter")

    expect(stage.page.get_by_text("who comes")).to_be_attached()
    expect(stage.page.get_by_role("heading", name="Goal")).to_be_visible()
    expect(stage.page.get_by_role("table")).to_be_visible()
    expect(stage.page.get_by_text("deliver / specification · revision 3")).to_be_visible()


def test_what_was_unfolded_stays_unfolded_when_the_state_changes_and_when_the_view_is_drawn_anew(stage: Stage) -> None:
    stage.panel(blueprint_head(state_html=tree_html({"a": {"b": {"c": [[1]]}}, "n": 1})))
    stage.find(".loom-fold-state > summary").click()
    stage.find(".loom-fold-state details:not([open]) summary").first.click()
    before = stage.find(".loom-fold-state .loom-tree details[open]").count()

    stage.state(blueprint_head(state_html=tree_html({"a": {"b": {"c": [[1]]}}, "n": 2})), head_rev=2)

    assert "2" in stage.find(".loom-fold-state").inner_text()
    assert stage.find(".loom-fold-state .loom-tree details[open]").count() == before >= 2
    stage.render_again()
    stage.state(blueprint_head(), head_rev=2)
    assert stage.find(".loom-fold-state").get_attribute("open") is not None


def test_a_run_without_stages_looks_as_before(stage: Stage) -> None:
    stage.panel(head())

    expect(stage.find(".loom-path")).to_be_visible()
    for selector in (".loom-stages", ".loom-holdings", ".loom-fold-state", ".loom-fold-artifacts"):
        expect(stage.find(selector)).to_be_hidden()


def test_no_state_and_no_artifact_draw_nothing(stage: Stage) -> None:
    stage.panel(blueprint_head(state_html="", artifacts=[]))

    expect(stage.find(".loom-stages")).to_be_visible()
    expect(stage.find(".loom-holdings")).to_be_hidden()


def test_names_are_text(stage: Stage) -> None:
    step = {"name": HOSTILE, "current": True, "visited": True}
    one = {"id": "a", "flow": HOSTILE, "stage": HOSTILE, "revision": 1, "html": ""}
    stage.panel(blueprint_head(stages=[{**step, "steps": [step]}], artifacts=[one]))

    stage.wait(1)
    assert stage.page.evaluate("window.__hit") is None
    assert HOSTILE in (stage.find(".loom-stages").text_content() or "")
