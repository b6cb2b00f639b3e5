"""An app's launcher, in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.lab import Notebook

pytestmark = pytest.mark.browser

APP = '''
import loomnb as loom
from pydantic import BaseModel, Field
loom.open(":memory:")

class Guest(BaseModel):
    name: str
    times: int = Field(default=1, le=3)

@loom.workflow(schema=Guest)
class GreetWorkflow(loom.BaseWorkflow):
    @loom.transition(to="greeted")
    def greet(self, state, ctx):
        self.document_store.save(loom.PlainDocument, {"text": f"Hello {ctx.args.name}! " * ctx.args.times})

    @loom.transition(from_="greeted", to="end", wait=True)
    def leave(self, state):
        """Say goodbye"""

@loom.studio_app(title="Front desk", workflows=[GreetWorkflow])
class DeskApp: ...

DeskApp
'''


def test_an_app_starts_a_workflow_from_its_form_and_shows_the_run(notebook: Callable[..., Notebook]) -> None:
    nb = notebook([APP, "print([r.status.value for r in loom.restore()], len(loom.runs()))"])
    nb.run_cell(0)
    panel = nb.page.locator(".loom-panel").first
    panel.get_by_label("Name").fill("Ada")
    panel.get_by_role("button", name="Start").click()
    nb.wait_text(0, "Hello Ada!")
    nb.page.locator(".loom-nested").get_by_role("button", name="Say goodbye").click()
    nb.page.locator(".loom-card-head .loom-chip", has_text="completed").wait_for()
    nb.run_cell(1)

    nb.wait_text(1, "[] 1")


def test_arguments_that_do_not_fit_are_told_at_their_field_and_start_nothing(notebook: Callable[..., Notebook]) -> None:
    nb = notebook([APP, "print(len(loom.runs()), 'runs')"])
    nb.run_cell(0)
    panel = nb.page.locator(".loom-panel").first
    panel.get_by_label("Name").fill("Ada")
    panel.get_by_label("Times").fill("9")
    panel.get_by_role("button", name="Start").click()
    panel.get_by_role("alert").first.wait_for()
    nb.run_cell(1)

    nb.wait_text(1, "0 runs")
