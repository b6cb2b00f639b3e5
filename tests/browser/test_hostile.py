"""Nothing that a model, a document, a question or an answer says runs as script: not live, not in a saved, trusted page."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.browser.lab import LabServer, Notebook

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext

HOSTILE = (
    "<img src=x onerror=window.__hit=1><script>window.__hit=2</script><svg onload=window.__hit=3></svg>"
    "[link](javascript:window.__hit=4) <a href='javascript:window.__hit=5'>here</a> ![pic](x \"onerror=window.__hit=6)"
    "<iframe srcdoc='<script>parent.__hit=7</script>'></iframe>"
)
CELL = f'''
import loomnb as loom
from typing import Literal
from pydantic import BaseModel, Field
loom.open("store.duckdb")
BAD = """{HOSTILE}"""

class Choice(BaseModel):
    pick: Literal[BAD, "fine"] = Field(title=BAD, description=BAD)
    text: str = Field(default=BAD, description=BAD)

@loom.document(name="finding")
class Finding(BaseModel):
    words: str
    more: dict

@loom.workflow(title=BAD)
class HostileWorkflow(loom.BaseWorkflow):
    @loom.transition(to="asked")
    async def write(self, state, ctx):
        print(BAD)
        save = self.document_store.save
        save(loom.MarkdownDocument, {{"markdown": BAD}})
        save(loom.MessageDocument, {{"role": "assistant", "text": BAD}})
        save(loom.PlainDocument, {{"text": BAD}})
        save(loom.ErrorDocument, {{"error": BAD}})
        save(Finding, {{"words": BAD, "more": {{BAD: BAD}}}})

    @loom.transition(from_="asked", to="broken", wait=True, schema=Choice)
    async def choose(self, state, input, ctx):
        self.assign_state(chosen=input.data.text)
        self.set_result({{"text": input.data.text, BAD: BAD}})

    @loom.transition(from_="broken", to="end")
    async def fail(self, state, ctx):
        raise ValueError(BAD)

HostileWorkflow.choose.__doc__ = BAD
run = loom.start(HostileWorkflow, title=BAD)
run
'''
ASKS = """
asked = loom.ask_questions([{"id": "q", "question": BAD, "description": BAD, "isSkippable": True,
    "options": [{"id": "o", "label": BAD, "description": BAD}]}])
sure = loom.confirm(BAD)
display(asked, sure)
"""
STORY = """
for one in (run, asked, sure):
    bundle = one._repr_mimebundle_()
    for mime in ("text/html", "text/markdown"):
        display({mime: bundle[mime]}, raw=True)
display({"text/html": "<img src=x onerror=window.__control=1>"}, raw=True)
rows = loom.sql("select $bad as one, run_id from runs", {"bad": BAD})
display({"text/html": rows._repr_mimebundle_()["text/html"]}, raw=True)
rows
"""
HIT = "() => [window.__hit, window.__control]"


def hits(nb: Notebook) -> Any:
    nb.page.wait_for_timeout(300)  # images that fail to load say so a little later
    return nb.page.evaluate(HIT)


def test_nothing_runs_live_and_in_the_saved_and_trusted_notebook(
    notebook, lab: LabServer, context: BrowserContext, tmp_path: Path
) -> None:
    nb = notebook([CELL, ASKS, STORY])
    nb.run_cell(0)
    shown = nb.output(0).locator(".loom-panel")
    expect(shown).to_have_attribute("data-live", "live", timeout=15_000)
    expect(shown.get_by_role("button", name="Submit")).to_be_enabled()
    nb.screenshot(tmp_path / "hostile.png", cell=0)
    assert hits(nb) == [None, None]
    shown.get_by_role("radio").or_(shown.get_by_role("combobox")).first.check()
    shown.get_by_role("button", name="Submit").click()
    expect(shown.locator(".loom-chip")).to_have_text("failed")
    nb.run_cell(1)
    asks = nb.output(1).locator(".loom-panel")
    expect(asks.nth(1)).to_have_attribute("data-live", "live", timeout=10_000)
    asks.nth(0).get_by_role("textbox").fill(HOSTILE)
    asks.nth(0).get_by_role("button", name="Submit").click()
    asks.nth(1).get_by_label("Feedback").fill(HOSTILE)
    asks.nth(1).get_by_role("button", name="Decline").click()
    expect(asks.nth(1).locator(".loom-chip")).to_have_text("completed")
    assert hits(nb) == [None, None]

    nb.run_cell(2)
    nb.wait_idle()
    nb.wait_until(lambda: hits(nb)[1] == 1, lambda: "the control, which is meant to run, did not: this test proves nothing")
    assert hits(nb)[0] is None
    nb.save()

    saved = lab.root / nb.path
    reopened = saved.with_name("trusted.ipynb")
    reopened.write_text(json.dumps(static_only(json.loads(saved.read_text()))))
    command = [sys.executable, "-m", "jupyter", "trust", str(reopened)]
    subprocess.run(command, env=lab._env(), check=True, capture_output=True)
    again = Notebook(lab, context.new_page(), str(reopened.relative_to(lab.root))).open()
    try:
        again.wait_until(lambda: hits(again)[1] == 1, lambda: "the reopened page is not trusted: this test proves nothing")
        assert hits(again)[0] is None
        assert "window.__hit" in again.text(0)
    finally:
        again.close()


def static_only(book: dict[str, Any]) -> dict[str, Any]:
    """The notebook as a page without widgets shows it; each static form as an output of its own."""
    for cell in book["cells"]:
        cell["outputs"] = [
            {**output, "data": {mime: output["data"][mime]}}
            for output in cell.get("outputs", [])
            for mime in ("text/html", "text/markdown")
            if mime in output.get("data", {})
        ]
    return book
