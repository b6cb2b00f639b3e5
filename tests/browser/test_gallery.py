"""The gallery in a real JupyterLab: each document, field and button is there, has a name, and looks right by day and by night."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.gallery import blueprint_head
from tests.browser.static_page import ask, field

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.lab import LabServer, Notebook

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CELLS = nbformat.read(NOTEBOOKS / "07-gallery.ipynb", as_version=4).cells
FIELDS = {  # what a nest has, as a screen reader tells it: role and name
    "textbox": [
        *("Which bird", "Story", "Email", "Garden", "Colour", "Names 1", "Anything else (JSON)", "Number", "Rules"),
        *("Eggs Seen", "Height", "Weight"),
    ],
    "combobox": ["Season"],
    "radio": ["twigs", "moss", "mud"],
    "group": ["Material", "What was to be heard", "Place", "Eggs", "Names", "Code, to read", "Markdown, to read"],
    "checkbox": ["song", "call", "drumming", "Occupied"],
    "switch": ["Call me when something moves"],
    "slider": ["Shyness"],
    "button": ["Add Second place", "Add egg", "Remove egg 1", "Add name", "Keep it", "Show it again", "Forget it"],
}
NAMED = re.compile(r"\s*- (button|textbox|radio|radiogroup|checkbox|combobox|spinbutton|slider|switch|link|form)\b(.*)")


def at(source: str) -> int:
    """The cell that ends with a line."""
    (found,) = [i for i, cell in enumerate(CELLS) if cell.source.split("\n")[-1] == source]
    return found


def panel(nb: Notebook, cell: int) -> Locator:
    found = nb.output(cell).locator(".loom-panel").first
    expect(found).to_have_attribute("data-live", "live", timeout=20_000)
    return found


def everything_is_named(shown: Locator) -> None:
    for line in shown.aria_snapshot().splitlines():
        if found := NAMED.match(line):
            assert '"' in found[2], f"a {found[1]} without a name: {line}"


def by_day_and_by_night(nb: Notebook, shown: Locator, folder: Path, name: str) -> None:
    before = nb.page.viewport_size
    assert before is not None
    nb.page.set_viewport_size({"width": before["width"], "height": 2600})  # a long form whole
    for theme in ("dark", "light"):
        nb.theme(theme)
        shown.scroll_into_view_if_needed()
        shown.screenshot(path=folder / f"{name}-{theme}.png")
    nb.page.set_viewport_size(before)


@pytest.fixture
def gallery(notebook, lab: LabServer) -> Notebook:
    nb: Notebook = notebook([c.source if c.cell_type == "code" else ("markdown", c.source) for c in CELLS])
    beside = (lab.root / nb.path).with_name("07-gallery.yaml")
    beside.write_bytes((NOTEBOOKS / "07-gallery.yaml").read_bytes())
    nb.run_all()
    return nb


def test_every_widget_of_the_gallery_is_there_and_has_a_name(gallery: Notebook, tmp_path: Path) -> None:
    nb = gallery

    shown = panel(nb, at("showcase"))  # documents that show something
    for role in ("user", "assistant", "system", "tool", "error", "document"):
        expect(shown.get_by_text(f"A message of the role {role}.")).to_be_visible()
    expect(shown.get_by_role("heading", name="Markdown")).to_be_visible()
    expect(shown.get_by_role("table")).to_be_visible()
    for text in ("with** its  spaces", "The nest is empty.", "For the curious", "A sub-workflow: one egg"):
        expect(shown.get_by_text(text).first).to_be_visible()
    shown.get_by_text("A sub-workflow: one egg").click()  # it has ended, so it is folded
    expect(shown.get_by_text("The egg was boiled.")).to_be_visible()
    everything_is_named(shown)
    by_day_and_by_night(nb, shown, tmp_path, "documents")

    shown = panel(nb, at("nest"))  # every field
    for role, names in FIELDS.items():
        for name in names:
            expect(shown.get_by_role(role, name=name).first, f"{role} {name}").to_be_attached()
    for text in ("print(egg.colour)", "A robin's nest has five eggs.", "Every field there is."):
        expect(shown.get_by_text(text).first).to_be_visible()
    assert "where it is" not in shown.inner_text()
    expect(shown.get_by_role("textbox", name="Number")).not_to_be_editable()
    expect(shown.get_by_role("textbox", name="Rules")).to_be_disabled()
    everything_is_named(shown)
    by_day_and_by_night(nb, shown, tmp_path, "fields")

    shown.get_by_role("textbox", name="Which bird").fill("ow")
    shown.get_by_role("button", name="Keep it").click()
    expect(shown.get_by_role("alert").first).to_be_visible()
    shown.screenshot(path=tmp_path / "fields-wrong.png")
    shown.get_by_role("textbox", name="Which bird").fill("owl")
    shown.get_by_role("button", name="Add egg").click()
    shown.get_by_role("textbox", name="Colour").last.fill("grey")
    shown.get_by_role("button", name="Keep it").click()
    nb.wait_text(at("await nest"), "{'bird': 'owl', 'eggs': 3}")
    expect(shown.get_by_text("owl").filter(visible=True)).to_have_count(2)  # in the form and the result, not as an answer, too
    assert "where it is" not in shown.inner_text()
    by_day_and_by_night(nb, shown, tmp_path, "fields-answered")

    shown = panel(nb, at("bird"))  # questions as documents
    everything_is_named(shown)
    by_day_and_by_night(nb, shown, tmp_path, "text-prompt")
    shown.get_by_role("textbox", name="What is the bird called?").fill("Pip")
    shown.get_by_role("button", name="Submit").click()
    expect(shown.get_by_role("button", name="No")).to_be_visible()
    everything_is_named(shown)
    by_day_and_by_night(nb, shown, tmp_path, "confirm-prompt")
    shown.get_by_role("button", name="Yes").click()
    expect(shown.get_by_role("radio", name="a basket")).to_be_visible()
    everything_is_named(shown)
    by_day_and_by_night(nb, shown, tmp_path, "choices")
    shown.get_by_role("radio", name="Other").check()
    shown.get_by_role("textbox", name="Other").fill("a tree")
    shown.get_by_role("button", name="Take this one").click()
    nb.wait_text(at("await bird"), "{'name': 'Pip', 'fed': 'yes', 'house': 'a tree'}")
    expect(shown.get_by_text("a tree").filter(visible=True)).to_have_count(2)  # in the document and the result
    by_day_and_by_night(nb, shown, tmp_path, "prompts-answered")

    shown = panel(nb, at("diary"))  # widgets of a workflow
    shown.get_by_role("textbox", name="Write").fill("It rains.")
    shown.get_by_role("button", name="Write").click()
    expect(shown.get_by_text("It rains.").first).to_be_visible()
    shown.get_by_role("radio", name="grey").check()
    everything_is_named(shown)
    by_day_and_by_night(nb, shown, tmp_path, "workflow")
    shown.get_by_role("button", name="Note the weather").click()
    expect(shown.get_by_text("grey sky, wind 3")).to_be_visible()
    shown.get_by_role("button", name="That is all").click()
    expect(shown.get_by_role("button", name="No, one more")).to_be_visible()
    expect(shown.get_by_role("textbox")).to_have_count(0)
    by_day_and_by_night(nb, shown, tmp_path, "workflow-closing")
    shown.get_by_role("button", name="Close the diary").click()
    nb.wait_text(at("await diary"), "{'lines': 1}")
    nb.wait_text(len(CELLS) - 2, "2 problems")


BLUEPRINT = """
import anywidget, json, traitlets
from loomnb_widgets.assets import panel_module, panel_sheet

class Shown(anywidget.AnyWidget):
    _esm, _css = panel_module(), panel_sheet()
    head = traitlets.Dict().tag(sync=True)

def hello(panel, message, _):
    if message["type"] == "hello":
        panel.send({"type": "state", "ack": message["n"], "head_rev": 1, "stamp": 0, "head": panel.head})

panel = Shown(head=json.loads(HEAD))
panel.on_msg(hello)
panel
"""


def test_a_blueprints_run_by_day_and_by_night(notebook, tmp_path: Path) -> None:
    """Drawn from a made-up head: what the engine says of a run is its own tests' business."""
    asked = [ask(label="Is the solution good?", fields=[field("remarks", required=False)])]
    nb: Notebook = notebook([f"HEAD = {json.dumps(blueprint_head(asks=asked, can_cancel=True))!r}\n{BLUEPRINT}"])
    nb.run_cell(0)
    shown = panel(nb, 0)
    shown.get_by_text("State", exact=True).click()
    shown.get_by_text("Artifacts").click()
    expect(shown.get_by_role("heading", name="Goal")).to_be_visible()
    expect(shown.get_by_role("list", name="Stages").locator("[aria-current=step]")).to_have_text("review")
    everything_is_named(shown)
    by_day_and_by_night(nb, shown, tmp_path, "blueprint")
    nb.page.set_viewport_size({"width": 700, "height": 1500})
    shown.screenshot(path=tmp_path / "blueprint-narrow.png")
