"""The fixtures themselves: stock ipywidgets in a real JupyterLab, no loomnb in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.lab import LabServer, find_chromium

if TYPE_CHECKING:
    from pathlib import Path

FORM = """
import ipywidgets
from IPython.display import display
name = ipywidgets.Text(description="Name")
button = ipywidgets.Button(description="Greet")
out = ipywidgets.HTML()
def greet(_): out.value = "hello " + name.value
button.on_click(greet)
display(name, button, out)
"""


def test_a_person_types_clicks_switches_theme_and_restarts(notebook, lab: LabServer, tmp_path: Path) -> None:
    nb = notebook([FORM, "import time; print('in', flush=True); time.sleep(30)", "1 + 1"])
    nb.run_cell(0)
    nb.wait_idle()

    nb.type("Name", "Ada")
    nb.press("Tab")
    assert nb.focused() == "BUTTON Greet"
    nb.click("Greet", cell=0)
    nb.wait_text(0, "hello Ada")

    nb.run_cell(1)
    nb.wait_text(1, "in")
    nb.interrupt()
    nb.wait_text(1, "KeyboardInterrupt")
    nb.wait_idle()  # a cell sent while the kernel still drops its queue would be dropped, too
    nb.run_cell(2)
    nb.wait_idle()
    assert nb.text(2) == "2"
    assert nb.mimes(2) == [["text/plain"]]

    nb.theme("dark")
    assert nb.screenshot(tmp_path / "dark.png", cell=0).stat().st_size > 1000
    nb.theme("light")
    nb.restart()
    nb.wait_idle()
    nb.set_source(2, "'name' in globals()")
    nb.run_cell(2)
    nb.wait_text(2, "False")

    kernel = nb.kernel_id
    nb.save()
    nb.reload()
    nb.wait_text(2, "False")
    assert nb.kernel_id == kernel, "a reload keeps the kernel"
    assert nb.traffic("in")[0] > 10
    nb.close()
    assert lab.api("GET", "/api/kernels") == []


def test_a_notebook_runs_on_a_kernel_of_the_matrix(notebook) -> None:
    nb = notebook(["import ipykernel; print(ipykernel.__version__)"], kernel="6.29.5")

    nb.run_all()

    nb.wait_text(0, "6.29.5")


def test_a_missing_chromium_is_a_failure_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "no-such-browser")

    with pytest.raises(RuntimeError, match="CHROMIUM=no-such-browser is no program"):
        find_chromium()
