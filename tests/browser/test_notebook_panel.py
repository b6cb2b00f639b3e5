"""The run panel in a real JupyterLab: what a person sees, clicks and types, and what they find after things went wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.flows import BREAKS, NOTES, QUESTIONS
from tests.kernel import matrix

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator

    from tests.browser.lab import Notebook

NEWEST = matrix.VERSIONS[-1]
RESULT = "{'verdict': 'ship', 'stars': 4, 'note': None}"


def panel(nb: Notebook, cell: int = 0) -> Locator:
    """A cell's panel, alive."""
    found = nb.output(cell).locator(".loom-panel").last
    expect(found).to_have_attribute("data-live", "live", timeout=15_000)
    return found


def approve(shown: Locator, verdict: str = "ship", stars: str = "4") -> None:
    """Fill in and send the first form by mouse."""
    shown.get_by_label(verdict).check()
    shown.get_by_label("Stars").fill(stars)
    shown.get_by_role("button", name="Submit").click()


# -- answering ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "wait"), [("6.29.5", "run.wait()"), ("7.3.0", "await run"), (NEWEST, "run.wait()"), (NEWEST, "await run")]
)
def test_run_all_holds_its_order_until_a_person_answered_by_mouse(notebook, kernel: str, wait: str, tmp_path: Path) -> None:
    nb = notebook([NOTES, f"result = {wait}", "print('got', result)"], kernel=kernel)
    nb.run_all()
    shown = panel(nb)
    expect(shown.get_by_text("Is this draft good to go?")).to_be_visible()
    nb.page.wait_for_timeout(500)  # the answer is late: nothing behind the waiting cell may have run
    assert nb.prompt(1) == "*"
    assert nb.text(2) == ""
    nb.screenshot(tmp_path / "waiting.png", cell=0)

    approve(shown)
    shown.get_by_role("button", name="Publish now").click()

    nb.wait_text(2, f"got {RESULT}")
    expect(shown.locator(".loom-chip")).to_have_text("completed")
    shown.get_by_text("Log", exact=False).first.click()
    assert shown.locator(".loom-log pre").inner_text() == "drafting the notes\napproved as ship\n"
    assert "drafting" not in nb.text(1) + nb.text(2)
    nb.screenshot(tmp_path / "completed.png", cell=0)


def test_a_person_answers_with_the_keyboard_alone(notebook) -> None:
    nb = notebook([NOTES, "result = await run", "print('got', result)"])
    nb.run_all()
    shown = panel(nb)
    shown.evaluate("node => node.focus()")  # where a Tab from the cell leads

    nb.press("Tab")
    while not nb.focused().startswith("INPUT ship"):
        nb.press("Tab")
    nb.press("Space", "ArrowDown")
    assert nb.focused() == "INPUT hold"
    nb.press("ArrowUp")
    assert nb.focused() == "INPUT ship"
    nb.press("Tab")
    nb.page.keyboard.type("9")
    nb.press("Enter")
    expect(shown.get_by_role("alert").first).to_be_visible()
    assert nb.focused().startswith("INPUT Stars")
    expect(shown.get_by_label("Stars")).to_have_attribute("aria-invalid", "true")
    assert shown.get_by_label("Stars").input_value() == "9"
    nb.press("Control+a")
    nb.page.keyboard.type("4")
    nb.press("Enter")
    expect(shown.get_by_role("button", name="Publish now")).to_be_focused()
    nb.press("Enter")

    nb.wait_text(2, f"got {RESULT}")
    assert nb.page.evaluate("() => document.querySelectorAll('.jp-Notebook .jp-Cell').length") == 3


def test_several_open_questions_are_answered_in_any_order(notebook, tmp_path: Path) -> None:
    nb = notebook([QUESTIONS, "print([a['env'] for a in [await env]], (await env)['why'], await ship, (await name)['name'])"])
    nb.run_all()
    panels = nb.output(0).locator(".loom-panel")
    expect(panels).to_have_count(3)
    for i in range(3):
        expect(panels.nth(i)).to_have_attribute("data-live", "live", timeout=10_000)
    nb.screenshot(tmp_path / "questions.png", cell=0)

    panels.nth(2).get_by_role("textbox").fill("Ada")
    panels.nth(2).get_by_role("button", name="Submit").click()
    panels.nth(1).get_by_label("Feedback").fill("at last")
    panels.nth(1).get_by_role("button", name="Confirm").click()
    panels.nth(0).get_by_label("Other answer").fill("my laptop")
    panels.nth(0).get_by_label("Skip this question").check()
    panels.nth(0).get_by_role("button", name="Submit").click()

    nb.wait_text(1, "['my laptop'] None is_confirmed=True feedback='at last' Ada")
    for i in range(3):
        expect(panels.nth(i).locator(".loom-chip")).to_have_text("completed")


def test_every_control_of_the_panel_has_a_name_and_errors_are_announced(notebook) -> None:
    nb = notebook([NOTES, QUESTIONS])
    nb.run_all()
    panels = [panel(nb), *[nb.output(1).locator(".loom-panel").nth(i) for i in range(3)]]
    expect(panels[3]).to_have_attribute("data-live", "live", timeout=10_000)

    named = re.compile(r'- (button|textbox|radio|checkbox|combobox|group|region|form|list|heading)( "|:? ?$|.*)')
    for shown in panels:
        for line in shown.aria_snapshot().splitlines():
            if found := re.match(r"\s*- (button|textbox|radio|checkbox|combobox|link|form)\b(.*)", line):
                assert '"' in found[2], f"a {found[1]} without a name: {line}"
        assert named.search(shown.aria_snapshot())
    panels[0].get_by_role("button", name="Submit").click()

    alert = panels[0].get_by_role("alert")
    expect(alert).to_be_visible()
    assert alert.inner_text()
    assert panels[0].get_by_label("Stars").get_attribute("aria-describedby")


# -- the run's own buttons ----------------------------------------------------------------------------


def test_a_failed_run_shows_the_users_frames_and_retry_goes_on(notebook, tmp_path: Path) -> None:
    nb = notebook([BREAKS, "open('input.txt', 'w').write('now it is here')", "await run"])
    nb.run_cell(0)
    shown = panel(nb)
    expect(shown.locator(".loom-chip")).to_have_text("failed")
    assert "No such file or directory: 'input.txt'" in shown.locator(".loom-error-message").inner_text()
    frames = shown.locator(".loom-error pre").inner_text()
    assert 'read("input.txt")' in frames
    assert "loomnb" not in frames
    nb.screenshot(tmp_path / "failed.png", cell=0)
    nb.theme("dark")
    nb.screenshot(tmp_path / "failed-dark.png", cell=0)
    nb.theme("light")

    nb.run_cell(1)
    nb.wait_idle()
    shown.get_by_role("button", name="Retry").click()

    expect(shown.get_by_role("button", name="Go on")).to_be_visible()
    expect(shown.locator(".loom-error")).to_be_hidden()


def test_cancel_needs_two_clicks_and_ends_the_waiting_cell(notebook, tmp_path: Path) -> None:
    nb = notebook([NOTES, "await run", "print('never')"])
    nb.run_all()
    shown = panel(nb)

    shown.get_by_role("button", name="Cancel", exact=True).click()
    expect(shown.locator(".loom-chip")).to_have_text("waiting for an answer")
    nb.page.wait_for_timeout(400)  # a second click, not a double click
    shown.get_by_role("button", name="Cancel run?").click()

    nb.wait_text(1, "was canceled")
    expect(shown.locator(".loom-chip")).to_have_text("canceled")
    assert shown.get_by_role("button", name="Submit").count() == 0
    assert nb.text(2) == ""
    nb.screenshot(tmp_path / "canceled.png", cell=1)


def test_an_interrupt_ends_the_waiting_cell_and_the_panel_still_answers(notebook) -> None:
    nb = notebook([NOTES, "await run", "print('never')", "print(await run)"])
    nb.run_cell(0)
    shown = panel(nb)
    nb.run_cell(1)
    nb.run_cell(2)
    nb.wait_until(lambda: nb.status() == "busy", lambda: "the cell does not wait")

    nb.interrupt()
    nb.wait_text(1, "CancelledError", timeout=5)
    nb.wait_idle()

    assert nb.text(2) == ""
    approve(shown)
    nb.run_cell(3)
    shown.get_by_role("button", name="Publish now").click()
    nb.wait_text(3, RESULT)


# -- kernels that go, pages that come back -------------------------------------------------------------


def test_after_a_restart_the_panel_is_grey_and_running_the_cell_again_goes_on(notebook, tmp_path: Path) -> None:
    nb = notebook([NOTES, "result = await run", "print('got', result)"])
    nb.run_cell(0)
    shown = panel(nb)
    approve(shown)
    expect(shown.get_by_role("button", name="Publish now")).to_be_visible()

    nb.restart()
    expect(shown).to_have_attribute("data-live", "gone", timeout=10_000)
    assert re.search(r'kernel gone: loom.run\("run-\w+"\) or loom.pending\(\) brings this back', shown.inner_text())
    assert shown.locator(":is(button, input, textarea):enabled").count() == 0
    nb.screenshot(tmp_path / "gone.png", cell=0)
    nb.run_all()

    again = panel(nb)
    expect(nb.output(0).locator(".loom-panel")).to_have_count(1)
    expect(again.get_by_role("button", name="Submit")).to_have_count(0)
    again.get_by_role("button", name="Publish now").click()
    nb.wait_text(2, f"got {RESULT}")
    again.get_by_text("Log", exact=False).first.click()
    assert again.locator(".loom-log pre").inner_text() == "drafting the notes\napproved as ship\n"


def test_pending_shows_working_forms_after_a_restart(notebook, tmp_path: Path) -> None:
    only_defined = NOTES.replace('run = loom.start(ReleaseNotesWorkflow, key="notes")\nrun', "")
    look = "import loomnb as loom\nloom.open('store.duckdb')\nloom.pending()"
    nb = notebook([NOTES, look, only_defined])
    nb.run_cell(0)
    panel(nb)
    nb.restart()
    nb.wait_idle()

    nb.run_cell(1)
    shown = panel(nb, 1)
    expect(shown.get_by_text("Run the cell that defines the workflow").first).to_be_visible()
    expect(shown.get_by_role("button", name="Submit")).to_be_disabled()
    nb.screenshot(tmp_path / "pending.png", cell=1)
    nb.run_cell(2)
    expect(shown.get_by_role("button", name="Submit")).to_be_enabled(timeout=10_000)
    approve(shown)
    shown.get_by_role("button", name="Publish now").click()

    expect(shown.locator(".loom-chip")).to_have_text("completed")


def test_a_page_reloaded_while_a_cell_awaits_still_answers(notebook) -> None:
    """On the newest kernel; older ones say in the text form how to go on."""
    nb = notebook([NOTES, "result = await run\nopen('over.txt', 'w').write(str(result))"], kernel=NEWEST)
    nb.run_cell(0)
    panel(nb)
    nb.save()
    nb.run_cell(1)
    nb.wait_until(lambda: nb.status() == "busy", lambda: "the cell does not wait")

    nb.reload()
    shown = panel(nb)
    approve(shown)
    shown.get_by_role("button", name="Publish now").click()

    expect(shown.locator(".loom-chip")).to_have_text("completed")
    over = nb.server.root / nb.path.replace("notebook.ipynb", "over.txt")
    nb.wait_until(lambda: over.exists() and RESULT in over.read_text(), lambda: "the waiting cell did not end")


def test_a_page_reloaded_during_a_plain_wait_comes_back_after_an_interrupt(notebook) -> None:
    """A plain cell keeps the kernel from greeting the new page, so the page shows nothing until it is interrupted."""
    nb = notebook([NOTES, "run.wait()", "print(await run)"], kernel=NEWEST)
    nb.run_cell(0)
    panel(nb)
    nb.save()
    nb.run_cell(1)
    nb.wait_until(lambda: nb.status() == "busy", lambda: "the cell does not wait")
    nb.reload(states=["unknown"])

    nb.page.get_by_role("button", name="Interrupt the kernel").click()

    shown = panel(nb)
    approve(shown)
    nb.run_cell(2)
    shown.get_by_role("button", name="Publish now").click()
    nb.wait_text(2, RESULT)


def test_a_half_filled_form_survives_running_the_cell_again(notebook) -> None:
    nb = notebook([NOTES])
    nb.run_cell(0)
    shown = panel(nb)
    shown.get_by_label("Note").fill("a thought")
    shown.get_by_label("hold").check()

    nb.run_cell(0)
    nb.wait_idle()

    again = panel(nb)
    assert again.get_by_label("Note").input_value() == "a thought"
    assert again.get_by_label("hold").is_checked()


# -- looks ---------------------------------------------------------------------------------------------


def test_the_panel_follows_the_dark_theme(notebook, tmp_path: Path) -> None:
    nb = notebook([NOTES])
    nb.run_cell(0)
    shown = panel(nb)
    ground = "node => getComputedStyle(node).backgroundColor"
    light = shown.evaluate(ground)

    nb.theme("dark")
    try:
        nb.screenshot(tmp_path / "dark.png", cell=0)
        assert shown.evaluate(ground) != light
        assert shown.evaluate("node => getComputedStyle(node).colorScheme") == "dark"
    finally:
        nb.theme("light")


def test_a_query_is_a_table_that_turns_its_pages(notebook, tmp_path: Path) -> None:
    nb = notebook(
        ["import loomnb as loom\nloom.open('store.duckdb')\nloom.sql('select range + 1 as n, hash(range) as h from range(1234)')"]
    )
    nb.run_cell(0)
    table = nb.output(0).locator(".loom-table")
    expect(table.get_by_text("rows 1-50 of 1,234").last).to_be_visible(timeout=10_000)

    table.get_by_role("button", name="Next").click()

    expect(table.get_by_text("rows 51-100 of 1,234").last).to_be_visible()
    assert table.locator("tbody tr").first.locator("td").first.inner_text() == "51"
    nb.screenshot(tmp_path / "table.png", cell=0)
    table.get_by_role("button", name="Last").click()
    expect(table.get_by_text("rows 1,201-1,234 of 1,234").last).to_be_visible()
