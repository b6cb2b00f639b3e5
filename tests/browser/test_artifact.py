"""The artifact viewer in a real JupyterLab: forms, revisions, differences, by day and by night; and nothing of one runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.browser.test_hostile import HOSTILE, hits, static_only

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.lab import LabServer, Notebook

RESULTS = Path(__file__).parents[2] / "test-results"

OPEN = """
import loomnb as loom
from loomnb.present import ArtifactView, Revision
from loomnb_widgets.face import face
session = loom.open("store.duckdb")

def artifact(stage, *data):
    revisions = [Revision(n, one, f"2026-01-0{n}T10:00:00.000Z") for n, one in enumerate(data, 1)]
    view = ArtifactView(flow="deliver", stage=stage, current=revisions[-1], earlier=lambda: revisions)
    view.show_live = face.show_artifact
    return view
"""
TEXT = """
one = "# Goal\\n\\nNotes *anybody* can read.\\n\\n- who came\\n- what was said\\n\\n| part | days |\\n|---|---|\\n| panel | 2 |"
two = one.replace("what was said", "what was decided") + "\\n\\n> Short, please.\\n\\n```python\\nprint('hello')\\n```"
artifact("specification", {"title": "Notes", "draft": True, "body": one}, {"title": "Meeting notes", "draft": False, "body": two})
"""
ROWS = """
rows = [{"part": f"part {i}", "days": i / 2, "note": "a longer note, " * (1 + i % 3), "done": i % 2 == 0} for i in range(120)]
artifact("solution", rows[:60], rows)
"""
TREE = """
report = {
    "ok": False, "seconds": 12.5, "none": None, "empty": [], "point": {"x": 1, "y": 2},
    "log": "a line of a log\\n" * 400,
    "cases": [{"id": f"case-{i}", "passed": i % 7 != 0, "why": ["slow", {"took": [i, i + 1]}]} for i in range(500)],
}
artifact("validation", {**report, "ok": True, "gone": {"deep": [1, 2]}, "log": "a line of a log\\nand another"}, report)
"""
BAD = f'''
BAD = """{HOSTILE}"""
artifact(BAD, {{BAD: BAD, "n": 1}}, BAD + " more", [{{BAD: BAD}}], {{BAD: [BAD, {{BAD: [BAD * 30]}}], "long": BAD * 30}})
'''
STATIC = """
view = artifact(BAD, BAD + " more", {BAD: [BAD, {BAD: [BAD * 30]}], "long": BAD * 30})
for one in (view, view.diff()):
    bundle = one._repr_mimebundle_()
    for mime in ("text/html", "text/markdown"):
        display({mime: bundle[mime]}, raw=True)
display({"text/html": "<img src=x onerror=window.__control=1>"}, raw=True)
"""


def viewer(nb: Notebook, cell: int) -> Locator:
    nb.run_cell(cell)
    shown = nb.output(cell).locator(".loom-artifact")
    expect(shown).to_be_visible(timeout=20_000)
    return shown


def pictures(nb: Notebook, shown: Locator, name: str) -> None:
    for theme in ("dark", "light"):
        nb.theme(theme)
        shown.scroll_into_view_if_needed()
        shown.screenshot(path=RESULTS / f"artifact-{name}-{theme}.png")


def test_a_text_its_revisions_and_what_changed(notebook: Any) -> None:
    nb = notebook([OPEN, TEXT])
    nb.run_cell(0)
    nb.wait_idle()
    shown = viewer(nb, 1)
    expect(shown.get_by_role("heading", name="Goal")).to_be_visible()
    assert shown.get_by_role("tab").all_text_contents() == ["Markdown", "Tree", "Diff", "Raw"]
    pictures(nb, shown, "markdown")

    shown.get_by_label("Revision").select_option("1")
    expect(shown.get_by_text("what was said")).to_be_visible()
    shown.get_by_label("Revision").select_option("2")
    expect(shown.get_by_text("what was decided")).to_be_visible()

    shown.get_by_role("tab", name="Markdown").focus()
    nb.press("ArrowRight", "ArrowRight")
    expect(shown.get_by_role("tab", name="Diff")).to_be_focused()
    expect(shown.locator("del", has_text="- - what was said")).to_be_visible()
    expect(shown.locator("ins", has_text="+ - what was decided")).to_be_visible()
    pictures(nb, shown, "diff-text")
    nb.press("ArrowRight")
    expect(shown.locator("pre")).to_contain_text('"title": "Meeting notes"')
    pictures(nb, shown, "raw")

    shown.get_by_role("button", name="Copy").click()
    expect(shown.get_by_role("button", name="Copied")).to_be_visible()


def test_a_table_and_a_tree(notebook: Any) -> None:
    nb = notebook([OPEN, ROWS, TREE])
    nb.run_cell(0)
    nb.wait_idle()
    shown = viewer(nb, 1)
    pictures(nb, shown, "table")
    shown.get_by_role("button", name="Next").click()
    expect(shown.get_by_text("rows 51-100 of 120")).to_be_visible()
    expect(shown.get_by_role("cell", name="part 99")).to_be_visible()

    shown = viewer(nb, 2)
    pictures(nb, shown, "tree")
    shown.locator("summary", has_text="cases").click()
    shown.get_by_role("button", name="Show").last.click()
    expect(shown.get_by_text("[200:]")).to_be_attached()
    shown.locator("summary", has_text="characters").click()
    pictures(nb, shown, "tree-open")
    shown.get_by_role("tab", name="Diff").click()
    expect(shown.get_by_text('["gone"]')).to_be_visible()
    pictures(nb, shown, "diff")


def test_nothing_of_an_artifact_runs_live_or_static(notebook: Any, lab: LabServer, tmp_path: Path) -> None:
    nb = notebook([OPEN, BAD, STATIC])
    nb.run_cell(0)
    nb.wait_idle()
    shown = viewer(nb, 1)
    for number in ("4", "3", "2", "1"):
        shown.get_by_label("Revision").select_option(number)
        expect(shown.get_by_role("tab", selected=True)).to_be_visible()
        for tab in ("Raw", "Diff"):
            shown.get_by_role("tab", name=tab).click()
            expect(shown.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        nb.page.wait_for_timeout(200)
    assert hits(nb) == [None, None]

    nb.run_cell(2)
    nb.wait_idle()
    nb.wait_until(lambda: hits(nb)[1] == 1, lambda: "the control, which is meant to run, did not: this test proves nothing")
    assert hits(nb)[0] is None
    nb.save()
    saved = json.loads((lab.root / nb.path).read_text())
    assert "window.__hit" in json.dumps(static_only(saved))


def test_without_a_kernel_it_says_so_and_goes_on_showing(notebook: Any) -> None:
    nb = notebook([OPEN, TEXT])
    nb.run_cell(0)
    nb.wait_idle()
    shown = viewer(nb, 1)
    nb.restart()
    shown.get_by_role("tab", name="Raw").click()

    expect(shown.get_by_text("The kernel does not answer: run the cell again.")).to_be_visible(timeout=10_000)
    expect(shown.get_by_role("heading", name="Goal")).to_be_visible()
