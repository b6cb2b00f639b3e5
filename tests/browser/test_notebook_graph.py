"""A workflow's graph as a cell's last line in JupyterLab: drawn, named for a screen reader, readable in both themes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.browser.lab import LabServer, Notebook

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

RESULTS = Path(__file__).parents[2] / "test-results"

DEFINE = '''
import loomnb as loom

@loom.workflow(name="release_notes")
class ReleaseNotes(loom.BaseWorkflow):
    """Drafts, and asks."""

    @loom.transition(to="review", retry_attempts=3, error_place="trouble")
    def draft(self): ...

    @loom.transition(from_="review", to="end", wait=True, priority=10)
    @loom.guard("is_good")
    def approve(self): ...

    @loom.transition(from_="review", to="start", wait=True)
    def revise(self): ...

    @loom.transition(from_="review", to="review", wait=True)
    def note(self): ...

    @loom.transition(from_="trouble", to="end", wait=True)
    def give_up(self): ...

    def is_good(self, state):
        return True

session = loom.open(":memory:")
ReleaseNotes.graph()
'''
RUN = """
import asyncio
run = session.start(ReleaseNotes)
await run.settled()
run.graph()
"""
STAGES = """
from loomnb.present import Graph, GraphEdge, GraphNode
layout = {"specification": ["analyze", "check", "confirm"], "solution": ["draft", "review"]}
steps = [GraphNode(name=f"{stage}/{step}", group=stage) for stage, names in layout.items() for step in names]
edges = [("begin", "start", 0), ("clear", 0, 1), ("repair", 1, 0), ("good", 1, 2), ("approved", 2, 3), ("drafted", 3, 4),
         ("respecify", 4, 0), ("accepted", 4, "end"), ("rejected", 2, "end")]
name = lambda end: end if isinstance(end, str) else steps[end].name
graph = Graph(
    title="Deliver",
    nodes=(GraphNode(name="start", kind="start"), *steps, GraphNode(name="end", kind="end")),
    edges=tuple(GraphEdge(name=n, from_=name(a), to=name(b)) for n, a, b in edges),
)
way = [("start", ""), *((steps[i].name, n) for i, n in enumerate(["begin", "clear", "good", "approved", "drafted"]))]
graph.lit(way, "solution/review", "waiting for an answer")
"""
LUMINANCE = """(element) => {
  const [r, g, b] = getComputedStyle(element).fill.match(/[0-9.]+/g).slice(0, 3).map((c) => {
    const v = c / 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}"""


def described_by_chromium(page: Page, name: str) -> str:
    """The description of the image of this name in Chromium's own accessibility tree; Playwright's knows no `<desc>`."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    (image,) = (n for n in nodes if n.get("name", {}).get("value") == name and n["role"]["value"] in ("image", "img"))
    return str(image.get("description", {}).get("value", ""))


def test_a_graph_reads_in_both_themes_and_to_a_screen_reader(notebook: Any) -> None:
    nb = notebook([DEFINE, RUN])
    for i in (0, 1):
        nb.run_cell(i)
        nb.wait_idle()
    nb.wait_text(1, "waiting for an answer")
    image = nb.output(1).get_by_role("img", name="Release notes: waiting for an answer")
    letters = nb.output(1).locator("svg text").first

    expect(image).to_have_count(1)
    assert "The run is at review" in described_by_chromium(nb.page, "Release notes: waiting for an answer")
    nb.screenshot(RESULTS / "graph-light.png", cell=1)
    assert letters.evaluate(LUMINANCE) < 0.2
    nb.theme("dark")
    nb.screenshot(RESULTS / "graph-dark.png", cell=1)
    assert letters.evaluate(LUMINANCE) > 0.6


def test_stages_are_frames_in_both_themes(notebook: Any) -> None:
    nb = notebook([STAGES])
    nb.run_cell(0)
    nb.wait_idle()
    letters = nb.output(0).locator("svg text", has_text="solution").first

    assert "2 stages, 7 places" in described_by_chromium(nb.page, "Deliver: waiting for an answer")
    for theme in ("dark", "light"):
        nb.theme(theme)
        nb.screenshot(RESULTS / f"graph-stages-{theme}.png", cell=0)
        assert (letters.evaluate(LUMINANCE) > 0.6) == (theme == "dark")


def test_a_notebook_that_lab_does_not_trust_shows_the_text_and_no_loose_words(
    notebook: Any, lab: LabServer, context: BrowserContext
) -> None:
    nb = notebook([DEFINE])
    nb.run_cell(0)
    nb.wait_idle()
    nb.save()
    saved = lab.root / nb.path
    strange = saved.with_name("strange.ipynb")
    strange.write_text(saved.read_text().replace("Drafts", "Other drafts"))  # it bears no signature now

    again = Notebook(lab, context.new_page(), str(strange.relative_to(lab.root))).open()
    try:
        again.output(0).get_by_text("As text").click()
        expect(again.output(0).locator("pre")).to_contain_text("draft fails → trouble")
        again.screenshot(RESULTS / "graph-untrusted.png", cell=0)
        loose = again.output(0).locator(".loom-graph > div")
        assert again.output(0).locator(".loom-graph svg").count() == 0
        assert loose.evaluate("e => e.getBoundingClientRect().height") < 2
    finally:
        again.close()
