"""Where the panel's own front end is missing, or the page is no JupyterLab: core widgets, Notebook 7, Voila."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.flows import NOTES
from tests.browser.lab import LabServer, Notebook, free_port
from tests.browser.test_notebook_panel import NEWEST, RESULT, approve, panel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page


def without_anywidget(page: Page) -> None:
    """As in a front end that cannot load third-party widgets: its script never comes."""
    page.route("**/labextensions/anywidget/**", lambda route: route.abort())
    page.route("**/extensions/anywidget/**", lambda route: route.abort())


@pytest.mark.parametrize(("kernel", "wait"), [("6.29.5", "run.wait()"), (NEWEST, "await run")])
def test_without_anywidget_core_widgets_ask_and_take_typed_text(notebook, kernel: str, wait: str, tmp_path: Path) -> None:
    nb = notebook([NOTES, f"result = {wait}", "print('got', result)"], kernel=kernel, prepare=without_anywidget)
    start = time.monotonic()
    nb.run_all()
    nb.wait_text(0, "Is this draft good to go?", timeout=15)
    took = time.monotonic() - start
    form = nb.output(0)
    expect(form.get_by_role("button", name="Submit")).to_be_visible()

    print(f"figure: fallback form, {kernel}: {took:.1f} s after Run All")
    assert took < 8
    assert nb.prompt(1) == "*"
    nb.screenshot(tmp_path / "fallback.png", cell=0)
    form.get_by_label("Stars").click()
    nb.page.keyboard.type("44", delay=20)
    form.get_by_role("button", name="Submit").click()
    expect(form.get_by_text("verdict: this field is required")).to_be_visible()
    nb.screenshot(tmp_path / "fallback-error.png", cell=0)
    form.get_by_label("Verdict").select_option("ship")
    nb.press("Tab")
    form.get_by_label("Stars").click()
    nb.press("Backspace")
    form.get_by_label("Note").click()
    nb.page.keyboard.type("hello", delay=20)
    form.get_by_role("button", name="Submit").click()
    form.get_by_role("button", name="Publish now").click()

    nb.wait_text(2, "got " + RESULT.replace("None", "'hello'"))
    nb.wait_text(0, "completed")


SLOW_MODULES = """
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => make.call(URL, blob.type === "text/javascript"
  ? new Blob(["await new Promise((go) => setTimeout(go, window.slow ?? 6000)); window.slow = 0;\\n", blob],
      { type: blob.type })
  : blob);
"""


def test_a_slow_front_end_gets_the_panel_after_all(notebook) -> None:
    """The panel's module takes longer than the panel is waited for: core widgets come first, then the panel."""
    cells = [NOTES, "result = await run", "print('got', result)"]
    nb = notebook(cells, prepare=lambda page: page.add_init_script(SLOW_MODULES))
    nb.run_all()
    expect(nb.output(0).get_by_role("button", name="Cancel run")).to_be_visible(timeout=10_000)  # the core widgets

    shown = panel(nb)
    assert nb.output(0).get_by_role("button", name="Cancel run").count() == 0  # one of them only
    approve(shown)
    shown.get_by_role("button", name="Publish now").click()
    nb.wait_text(2, f"got {RESULT}")


def test_notebook_7_shows_the_panel_and_takes_answers(context: BrowserContext, tmp_path: Path) -> None:
    with LabServer(app="notebook") as server:
        server.write_notebook("smoke/n.ipynb", [NOTES, "result = await run", "print('got', result)"])
        nb = Notebook(server, context.new_page(), "smoke/n.ipynb").open()
        nb.run_all()
        shown = panel(nb)
        nb.screenshot(tmp_path / "notebook7.png", cell=0)

        approve(shown)
        shown.get_by_role("button", name="Publish now").click()

        nb.wait_text(2, f"got {RESULT}")
        nb.close()


@contextlib.contextmanager
def voila(folder: Path, name: str) -> Iterator[str]:
    """A Voila server that serves one notebook; its address."""
    port = free_port()
    options = ["--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1", "--show_tracebacks=True"]
    env = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_PREFER_ENV_PATH": "1"}
    for key in ("CONFIG", "DATA", "RUNTIME"):
        env[f"JUPYTER_{key}_DIR"] = str(folder / key.lower())
    with (folder / "voila.log").open("wb") as log:
        command = [sys.executable, "-m", "voila", name, *options]
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}/"
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(url + "voila/static/", timeout=1):
                break
            with contextlib.suppress(OSError):
                try:
                    urllib.request.urlopen(url + "no-such-page", timeout=1)
                except urllib.error.HTTPError:
                    break
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((folder / "voila.log").read_text(errors="replace")[-3000:])
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_voila_shows_the_page_with_a_live_panel(context: BrowserContext, tmp_path: Path) -> None:
    LabServer.write_notebook_at(tmp_path / "page.ipynb", [NOTES, "await run", "print('after')"])
    with voila(tmp_path, "page.ipynb") as url:
        page = context.new_page()
        page.goto(url, timeout=40_000)
        shown = page.locator(".loom-panel").first
        expect(shown).to_have_attribute("data-live", "live", timeout=30_000)
        page.screenshot(path=tmp_path / "voila.png", full_page=True)
        expect(page.get_by_text("under Voila the page is shown only when every cell has finished")).to_be_visible()

        approve(shown)
        shown.get_by_role("button", name="Publish now").click()

        expect(shown.locator(".loom-chip")).to_have_text("completed")
        page.close()
