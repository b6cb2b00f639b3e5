"""A blueprint's run in a real JupyterLab: where it is, what a step asks in its middle, what it holds, and what went wrong."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.browser.flows import RELEASE
from tests.browser.test_hostile import static_only
from tests.browser.test_notebook_panel import panel

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator

    from tests.browser.lab import LabServer, Notebook


def pictures(nb: Notebook, shown: Locator, folder: Path, name: str) -> None:
    """By day and by night."""
    for theme in ("dark", "light"):
        nb.theme(theme)
        shown.scroll_into_view_if_needed()
        shown.screenshot(path=folder / f"{name}-{theme}.png")


def here(shown: Locator) -> Locator:
    """The step that is lit."""
    return shown.get_by_role("list", name="Stages").locator("[aria-current=step]")


def clarify(shown: Locator) -> None:
    """Answer the questions by mouse."""
    shown.get_by_label("developers").check()
    shown.get_by_label("Skip this question").check()
    shown.get_by_role("button", name="Submit").click()


def decline(shown: Locator, why: str) -> None:
    shown.get_by_label("Feedback").fill(why)
    shown.get_by_role("button", name="Decline").click()
    expect(shown.get_by_text("Are the notes").last).to_be_visible()


def test_a_run_from_its_questions_to_its_artifacts(notebook: Any, lab: LabServer, tmp_path: Path) -> None:
    nb = notebook([RELEASE, "print('ended:', await run)", "loom.artifact('release', 'notes')", "run.graph()"])
    nb.run_all()
    shown = panel(nb)
    expect(here(shown)).to_have_text("clarify")
    shown.screenshot(path=tmp_path / "questions.png")
    expect(shown.locator(".loom-progress")).to_be_hidden()

    clarify(shown)
    expect(here(shown)).to_have_text("review")
    for title in ("State", "Artifacts"):
        shown.locator("summary", has_text=title).click()
    expect(shown.locator(".loom-fold-state")).to_contain_text("developers")
    expect(shown.locator(".loom-fold-artifacts").get_by_role("heading", name="Loom 1.2")).to_be_visible()
    pictures(nb, shown, tmp_path, "confirm")

    shown.evaluate("node => node.focus()")
    while not nb.focused().startswith("INPUT Feedback") and not nb.focused().startswith("TEXTAREA Feedback"):
        nb.press("Tab")
    nb.page.keyboard.type("say more")
    nb.press("Tab")
    while nb.focused() != "BUTTON Decline":
        nb.press("Tab")
    nb.press("Enter")
    expect(shown.locator(".loom-fold-artifacts")).to_contain_text("say more")
    expect(shown.locator(".loom-fold-artifacts")).to_contain_text("revision 2")
    expect(shown.get_by_role("button", name="Confirm")).to_be_enabled()
    decline(shown, "and more")
    expect(shown.locator(".loom-fold-artifacts")).to_contain_text("revision 3")
    shown.evaluate("node => node.focus()")
    while nb.focused() != "BUTTON Confirm":
        nb.press("Tab")
    nb.press("Enter")

    nb.wait_text(1, "ended: done")
    expect(shown.locator(".loom-chip")).to_have_text("completed")
    expect(here(shown)).to_have_count(0)
    shown.locator("summary", has_text="Log").click()
    assert shown.locator(".loom-log pre").inner_text().startswith("asking for the audience\nwrote round 1\nwrote round 2\n")
    assert "wrote" not in nb.text(1)
    shown.locator(".loom-graph summary").click()
    expect(shown.locator(".loom-graph svg")).to_be_visible()
    pictures(nb, shown, tmp_path, "completed")

    viewer = nb.output(2).locator(".loom-artifact")
    expect(viewer.get_by_label("Revision").locator("option")).to_have_count(3)
    viewer.get_by_role("tab", name="Diff").click()
    expect(viewer.locator("ins", has_text="and more")).to_be_visible()
    pictures(nb, viewer, tmp_path, "artifact")
    expect(nb.output(3).locator("svg text", has_text="sending").first).to_be_visible()

    nb.save()
    told = json.dumps(static_only(json.loads((lab.root / nb.path).read_text())))
    for said in ("notes/review", "developers", "not confirmed: say more", "release / notes, revision 3"):
        assert said in told
    assert not re.search(r"(RUN|ASK)-|20\d\d-\d\d-\d\d", told)


def test_a_step_that_fails_says_why_to_the_person_only_and_is_made_again(notebook: Any, lab: LabServer, tmp_path: Path) -> None:
    nb = notebook([RELEASE, "READY = False", "READY = True"])
    nb.run_cell(0)
    shown = panel(nb)
    nb.run_cell(1)
    clarify(shown)
    shown.get_by_role("button", name="Confirm").click()

    expect(shown.locator(".loom-chip")).to_have_text("failed")
    expect(shown.locator(".loom-error-message")).to_have_text("the server refused secret-token")
    assert "raise ConnectionError" in shown.locator(".loom-error pre").inner_text()
    expect(here(shown)).to_have_text("send")
    pictures(nb, shown, tmp_path, "failed")
    nb.save()
    told = json.dumps(static_only(json.loads((lab.root / nb.path).read_text())))
    assert "STEP_EXECUTION_FAILED" in told
    assert "secret-token" not in told

    nb.run_cell(2)
    shown.get_by_role("button", name="Make the step again").click()
    expect(shown.locator(".loom-chip")).to_have_text("completed")
    expect(shown.locator(".loom-error")).to_be_hidden()


def test_killed_kernels_leave_an_open_question_or_a_step_to_make_again_and_a_page_may_be_reloaded(
    notebook: Any, tmp_path: Path
) -> None:
    nb = notebook([RELEASE, "result = await run\nopen('over.txt', 'w').write(str(result))"])

    def killed_and_run_again() -> Locator:
        nb.restart()
        nb.wait_idle()
        nb.run_cell(0)
        return panel(nb)

    nb.run_cell(0)
    shown = panel(nb)
    nb.restart()
    expect(shown).to_have_attribute("data-live", "gone", timeout=10_000)
    assert shown.locator(":is(button, input, textarea):enabled").count() == 0
    shown.screenshot(path=tmp_path / "gone.png")
    nb.run_cell(0)
    shown = panel(nb)
    clarify(shown)  # the code of this question can take its answer in another kernel
    expect(here(shown)).to_have_text("review")
    expect(shown.locator(".loom-log pre")).to_contain_text("the kernel died meanwhile")

    shown = killed_and_run_again()
    expect(shown.locator(".loom-chip")).to_have_text("interrupted")
    expect(shown.locator(".loom-notice")).to_contain_text("no `recover` that takes an answer")
    pictures(nb, shown, tmp_path, "interrupted")
    nb.run_cell(1)
    nb.wait_text(1, "run.retry()")
    shown.get_by_role("button", name="Make the step again").click()
    expect(shown.get_by_role("button", name="Confirm")).to_be_enabled()

    shown = killed_and_run_again()
    shown.get_by_role("button", name="Begin the step anew").click()
    expect(shown.get_by_role("button", name="Confirm")).to_be_enabled()
    nb.save()
    nb.run_cell(1)
    nb.wait_until(lambda: nb.status() == "busy", lambda: "the cell does not wait")
    nb.reload()
    shown = panel(nb)
    expect(here(shown)).to_have_text("review")
    shown.get_by_role("button", name="Confirm").click()
    expect(shown.locator(".loom-chip")).to_have_text("completed")
    over = nb.server.root / nb.path.replace("notebook.ipynb", "over.txt")
    nb.wait_until(lambda: over.exists() and over.read_text() == "done", lambda: "the waiting cell did not end")
