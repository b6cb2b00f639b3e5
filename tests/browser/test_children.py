"""Sub-workflows in their parent's panel, in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.lab import Notebook

pytestmark = pytest.mark.browser

FAMILY = '''
import loomnb as loom
loom.open(":memory:")

@loom.workflow
class ChapterWorkflow(loom.BaseWorkflow):
    @loom.transition(to="draft")
    async def write(self, state, ctx): ...

    @loom.transition(from_="draft", to="end", wait=True, schema=str)
    def name(self, state, input):
        """A title for it?"""
        self.set_result({"title": input.data})

@loom.workflow
class BookWorkflow(loom.BaseWorkflow):
    @loom.transition(to="writing")
    async def begin(self, state, ctx):
        for n in range(2):
            ChapterWorkflow().run(callback={"transition": "chapter_done"}, label=f"Chapter {n}")
        self.assign_state(titles=[])

    @loom.transition(from_="writing", to="writing", wait=True)
    def chapter_done(self, state, input):
        self.assign_state(titles=[*state["titles"], input.data["title"]])

    def complete(self, state):
        return len(state["titles"]) == 2

    @loom.transition(from_="writing", to="end")
    @loom.guard("complete")
    def bind(self, state):
        self.set_result({"titles": list(state["titles"])})

run = loom.start(BookWorkflow)
run
'''


def test_a_child_is_answered_in_its_parents_panel_and_calls_back(notebook: Callable[..., Notebook]) -> None:
    """Both children ask at once, each in a panel of its own inside the parent's; the second is answered first."""
    nb = notebook([FAMILY, "print((await run)['titles'])"])
    nb.run_all()
    nested = nb.page.locator(".loom-nested .loom-panel")
    nested.nth(1).get_by_role("textbox").fill("Last")
    nested.nth(1).get_by_role("button", name="Submit").click()
    nb.page.locator(".loom-card").nth(1).locator(".loom-card-head .loom-chip", has_text="completed").wait_for()
    nested.nth(0).get_by_role("textbox").fill("First")
    nested.nth(0).get_by_role("button", name="Submit").click()

    nb.wait_text(1, "['Last', 'First']")


def test_the_graph_is_drawn_when_it_is_opened_and_follows_the_run(notebook: Callable[..., Notebook]) -> None:
    nb = notebook([FAMILY, "run.cancel()"])
    nb.run_cell(0)
    graph = nb.page.locator(".loom-panel details.loom-graph").first
    graph.locator("summary").click()
    graph.locator("svg").wait_for()
    before = graph.locator("svg").first.evaluate("svg => svg.outerHTML")
    nb.run_cell(1)
    nb.wait_text(0, "canceled")

    nb.page.wait_for_function(
        "old => { const svg = document.querySelector('.loom-graph svg'); return svg && svg.outerHTML !== old; }", arg=before
    )
