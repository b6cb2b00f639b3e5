"""Drives a real JupyterLab in a headless Chromium: start, open a notebook, run, click, type, look.

How it is built, and why:

* One Lab server for the whole session (3 s to start), one browser per test file (1 s), a page and a kernel per notebook
  (5 s).
* All of Jupyter's state (config, data, runtime, workspaces, settings) lies in a temporary folder.
* `LabApp.expose_app_in_browser` gives `window.jupyterapp`. Commands are executed through it, so that nothing depends on
  menu texts; only what a person does with the panel itself goes through real mouse and keyboard events.
* `windowingMode: "none"`: by default cells that are off-screen are not in the page at all.
* Only outputs are searched for text: the page also holds the code, which often contains the same words.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from playwright.sync_api import Browser, Locator, Page, WebSocket

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM_ARGS = [
    "--no-sandbox",  # CI runs as root, where Chromium's sandbox refuses to start
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SETTINGS: dict[str, dict[str, Any]] = {
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none", "showHiddenCellsButton": False},
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}
Cell = str | tuple[Literal["markdown"], str]


def find_chromium() -> str:
    """The Chromium to use. There is no skipping: these tests are the proof that the panel works."""
    given = os.environ.get("CHROMIUM", "")
    found = shutil.which(given) if given else next((p for n in CHROMIUM_NAMES if (p := shutil.which(n))), None)
    if not found:
        reason = f"CHROMIUM={given} is no program" if given else f"none of {', '.join(CHROMIUM_NAMES)} is installed"
        raise RuntimeError(
            f"The browser tests need Chromium: {reason}. Install it (Debian: apt-get install chromium) or set "
            "CHROMIUM=/path/to/it. `python3 tasks.py test` does this by itself where it can."
        )
    return found


def free_port() -> int:
    with contextlib.closing(socket.socket()) as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class LabServer:
    """A JupyterLab process with private state. `app` may also be `notebook` (Notebook 7)."""

    def __init__(
        self,
        *,
        app: str = "lab",
        settings: dict[str, dict[str, Any]] | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self.app = app
        self.tmp = Path(tempfile.mkdtemp(prefix="loomnb-lab-"))
        self.root = self.tmp / "root"
        self.settings = {name: {**SETTINGS.get(name, {}), **(settings or {}).get(name, {})} for name in SETTINGS}
        self.settings |= {name: value for name, value in (settings or {}).items() if name not in SETTINGS}
        self.env = env or {}
        self.log = self.tmp / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.root.mkdir()
        try:
            self._launch()
        except RuntimeError:
            self._launch()  # the port was free a moment ago; another process may have taken it
        return self

    def __exit__(self, *_: object) -> None:
        if self.process and self.process.poll() is None:
            with contextlib.suppress(OSError):
                for kernel in self.api("GET", "/api/kernels"):
                    self.shutdown_kernel(kernel["id"])
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.tmp, ignore_errors=True)

    def _launch(self, timeout: float = 60) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        app_settings = self.tmp / "app-settings"
        app_settings.mkdir(exist_ok=True)
        # This file replaces the one Lab ships with; ours would lose nothing a test looks at.
        (app_settings / "overrides.json").write_text(json.dumps(self.settings))
        options = [
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            "--IdentityProvider.token=",
            "--ServerApp.password=",
            "--ServerApp.disable_check_xsrf=True",
            f"--ServerApp.root_dir={self.root}",
        ]
        for name in ("LabApp", "JupyterNotebookApp"):
            options += [f"--{name}.expose_app_in_browser=True", f"--{name}.app_settings_dir={app_settings}"]
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "jupyter", self.app, *options]
            self.process = subprocess.Popen(command, env=self._env(), stdout=log, stderr=subprocess.STDOUT)
        end = time.monotonic() + timeout
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                self.process.wait()
                raise RuntimeError(f"JupyterLab did not start:\n{self.log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.05)

    def _env(self) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if k not in {"JUPYTER_TOKEN", "JUPYTER_PATH"}}
        for name, folder in [
            ("JUPYTER_CONFIG_DIR", "config"),
            ("JUPYTER_RUNTIME_DIR", "runtime"),
            ("JUPYTER_DATA_DIR", "data"),
            ("JUPYTERLAB_SETTINGS_DIR", "user-settings"),
            ("JUPYTERLAB_WORKSPACES_DIR", "workspaces"),
            ("IPYTHONDIR", "ipython"),
        ]:
            (self.tmp / folder).mkdir(exist_ok=True)
            env[name] = str(self.tmp / folder)
        env["JUPYTER_PREFER_ENV_PATH"] = "1"
        return env | self.env

    def _answers(self) -> bool:
        try:
            self.api("GET", "/api/status", timeout=1)
        except OSError:
            return False
        return True

    def api(self, method: str, path: str, *, timeout: float = 20) -> Any:
        request = urllib.request.Request(self.url + path, method=method)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            body = response.read()
        return json.loads(body) if body else None

    def shutdown_kernel(self, kernel_id: str) -> None:
        """End a kernel; returns once the server no longer has it."""
        with contextlib.suppress(urllib.error.HTTPError):  # 404: it is gone already
            self.api("DELETE", f"/api/kernels/{kernel_id}")

    def write_notebook(self, name: str, cells: Sequence[Cell], kernel: str = "python3") -> Path:
        """A notebook file in the server's root; a cell is code, or `("markdown", text)`."""
        return self.write_notebook_at(self.root / name, cells, kernel)

    @staticmethod
    def write_notebook_at(path: Path, cells: Sequence[Cell], kernel: str = "python3") -> Path:
        """The same, anywhere."""
        spec = {"name": kernel, "display_name": kernel, "language": "python"}
        made = [new_code_cell(c) if isinstance(c, str) else new_markdown_cell(c[1]) for c in cells]
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(new_notebook(cells=made, metadata={"kernelspec": spec}), path)
        return path


class Notebook:
    """One notebook, open in a page of its own. Cells are counted from 0."""

    def __init__(self, server: LabServer, page: Page, path: str) -> None:
        self.server, self.page, self.path = server, page, path
        self.console: list[str] = []
        self.frames: list[tuple[Literal["in", "out"], int]] = []  # kernel traffic: direction and bytes of each frame
        page.on("console", lambda m: self.console.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.console.append(f"pageerror: {e}"))
        page.on("websocket", self._watch)

    def _watch(self, socket: WebSocket) -> None:
        if "/channels" in socket.url:
            socket.on("framereceived", lambda data: self.frames.append(("in", len(data))))
            socket.on("framesent", lambda data: self.frames.append(("out", len(data))))

    # -- life ----------------------------------------------------------------------------------

    def open(self, timeout: float = 60) -> Notebook:
        """Load the page; returns when the notebook is there and its kernel idle."""
        where = f"lab/workspaces/w{time.monotonic_ns()}/tree/{self.path}?reset"
        self.page.goto(f"{self.server.url}/{where if self.server.app == 'lab' else 'notebooks/' + self.path}")
        self._ready(timeout, states=["idle"])
        return self

    def reload(self, timeout: float = 60, states: Sequence[str] = ("idle", "busy")) -> None:
        """Reload the page, as F5 does, maybe with a waiting cell. Returns when the notebook is there, its kernel in a state."""
        self.page.on("dialog", lambda dialog: dialog.accept())  # "leave the page?": yes
        self.page.reload()
        self._ready(timeout, states=list(states))

    def _ready(self, timeout: float, states: list[str]) -> None:
        ms = timeout * 1000
        self.page.wait_for_function("() => window.jupyterapp && window.jupyterapp.shell", timeout=ms)
        self.page.evaluate("async () => { await jupyterapp.started; await jupyterapp.restored; }")
        self.page.wait_for_function(
            "([path, states]) => [...jupyterapp.shell.widgets('main')].some(w => w.context && w.context.path === path"
            " && w.context.isReady && states.includes(w.sessionContext?.session?.kernel?.status))",
            arg=[self.path, states],
            timeout=ms,
        )

    def close(self) -> None:
        """Close the page, then end the kernel for good."""
        kernel_id = None
        with contextlib.suppress(Exception):  # a page that crashed still has a kernel to find below
            kernel_id = self.kernel_id
        self.page.close(run_before_unload=False)
        for session in self.server.api("GET", "/api/sessions"):
            if session["path"] == self.path or session["kernel"]["id"] == kernel_id:
                self.server.shutdown_kernel(session["kernel"]["id"])

    @property
    def kernel_id(self) -> str:
        return str(self._in_page("return panel.sessionContext.session?.kernel?.id"))

    def _in_page(self, body: str, arg: object = None) -> Any:
        """Run JavaScript with `panel` bound to this notebook's panel."""
        find = f"w => w.context && w.context.path === {json.dumps(self.path)} && w.content && w.content.widgets"
        script = f"async (arg) => {{ const panel = [...jupyterapp.shell.widgets('main')].find({find}); {body} }}"
        return self.page.evaluate(script, arg)

    # -- running -------------------------------------------------------------------------------

    def run_all(self) -> None:
        """Trigger Run All and return at once: a cell that waits for an answer would block otherwise."""
        self._in_page("jupyterapp.shell.activateById(panel.id); jupyterapp.commands.execute('notebook:run-all-cells');")

    def run_cell(self, i: int) -> None:
        """Trigger one cell and return at once."""
        self._in_page(
            "panel.content.deselectAll(); panel.content.activeCellIndex = arg;"
            "jupyterapp.shell.activateById(panel.id); jupyterapp.commands.execute('notebook:run-cell');",
            i,
        )

    def set_source(self, i: int, source: str) -> None:
        self._in_page("panel.content.widgets[arg[0]].model.sharedModel.setSource(arg[1]);", [i, source])

    def wait_idle(self, timeout: float = 60, settle: float = 0.15) -> None:
        """Wait until no cell is queued or running and the kernel is idle, and stays so for a moment."""
        since = None
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            idle = self.status() == "idle" and not any("*" in self.prompt(i) for i in range(self.n_cells()))
            since = (since or time.monotonic()) if idle else None
            if since and time.monotonic() - since >= settle:
                return
            self.page.wait_for_timeout(50)
        prompts = [self.prompt(i) for i in range(self.n_cells())]
        raise TimeoutError(f"not idle after {timeout} s: kernel {self.status()}, prompts {prompts}")

    def interrupt(self) -> None:
        self._in_page("await panel.sessionContext.session.kernel.interrupt();")

    def restart(self) -> None:
        """Restart the kernel, as the button does; outputs stay on the page."""
        self._in_page("await panel.sessionContext.session.kernel.restart();")

    def save(self) -> None:
        self._in_page("await panel.context.save();")

    # -- looking -------------------------------------------------------------------------------

    def n_cells(self) -> int:
        return int(self._in_page("return panel.content.widgets.length"))

    def status(self) -> str:
        return str(self._in_page("return panel.sessionContext.session?.kernel?.status"))

    def prompt(self, i: int) -> str:
        """`*` while queued or running, a number once done, `` if never run."""
        return str(
            self._in_page(
                "const n = panel.content.widgets[arg].node.querySelector('.jp-InputPrompt');"
                "return n ? n.textContent.replace(/[\\[\\]: ]/g, '') : '';",
                i,
            )
        )

    def cell(self, i: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(i)

    def output(self, i: int) -> Locator:
        """The output area of a cell: look for buttons and fields in here, not in the page."""
        return self.cell(i).locator(".jp-Cell-outputArea")

    def text(self, i: int) -> str:
        """What a cell's outputs show."""
        return "\n".join(text.strip() for text in self.output(i).locator(".jp-OutputArea-output").all_inner_texts())

    def mimes(self, i: int) -> list[list[str]]:
        """The MIME types of each output of a cell; `[output_type]` where it has no data."""
        found = self._in_page(
            "const outputs = panel.content.widgets[arg].model.outputs; if (!outputs) return [];"
            "return outputs.toJSON().map(o => o.data ? Object.keys(o.data) : [o.output_type])",
            i,
        )
        return list(found)

    def wait_text(self, i: int, text: str, timeout: float = 20) -> str:
        return self.wait_until(lambda: text in self.text(i), lambda: f"cell {i} shows {self.text(i)!r}, not {text!r}", i, timeout)

    def wait_no_text(self, i: int, text: str, timeout: float = 20) -> str:
        return self.wait_until(lambda: text not in self.text(i), lambda: f"cell {i} still shows {text!r}", i, timeout)

    def wait_until(self, holds: Callable[[], bool], complaint: Callable[[], str], i: int = 0, timeout: float = 20) -> str:
        end = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(complaint() + (f"\nconsole: {self.console[-5:]}" if self.console else ""))
            self.page.wait_for_timeout(50)
        return self.text(i)

    # -- doing what a person does -----------------------------------------------------------------

    def click(self, text: str, *, cell: int | None = None, timeout: float = 10) -> None:
        """Click the button with this text, in one cell's output or in any."""
        where = self.page.locator(".jp-Cell-outputArea") if cell is None else self.output(cell)
        where.get_by_role("button", name=text).first.click(timeout=timeout * 1000)

    def type(self, label: str, text: str, *, cell: int | None = None, timeout: float = 10) -> None:
        """Click the field with this label and type, key by key."""
        where = self.page.locator(".jp-Cell-outputArea") if cell is None else self.output(cell)
        field = where.get_by_label(label).first
        field.click(timeout=timeout * 1000)
        self.page.keyboard.type(text)

    def press(self, *keys: str) -> None:
        """Press keys where the focus is: `press("Tab", "Enter")`."""
        for key in keys:
            self.page.keyboard.press(key)

    def focused(self) -> str:
        """The element that has the focus, as its tag and accessible text: `BUTTON Submit`."""
        return str(
            self.page.evaluate(
                "() => { const e = document.activeElement; return e.tagName + ' ' + "
                "(e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || '').trim() }"
            )
        )

    def theme(self, name: Literal["light", "dark"]) -> None:
        """Switch JupyterLab's theme; returns when its colours are on the page and nothing hides it."""
        title = f"JupyterLab {name.capitalize()}"
        self.page.evaluate("async t => { await jupyterapp.commands.execute('apputils:change-theme', {theme: t}) }", title)
        self.page.wait_for_function(
            "light => document.body.dataset.jpThemeLight === light", arg="true" if name == "light" else "false"
        )
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")  # it covers the page while the sheet is loaded

    def screenshot(self, path: Path, *, cell: int | None = None) -> Path:
        """A picture of the page, or of one cell with its output."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if cell is None:
            self.page.screenshot(path=path)
        else:
            self.cell(cell).scroll_into_view_if_needed()
            self.cell(cell).screenshot(path=path)
        return path

    def traffic(self, direction: Literal["in", "out"], since: int = 0) -> tuple[int, int]:
        """Frames and bytes to (`in`) or from the page, counted from the `since`-th frame on."""
        sizes = [size for way, size in self.frames[since:] if way == direction]
        return len(sizes), sum(sizes)


@contextlib.contextmanager
def open_chromium() -> Iterator[Browser]:
    """A headless Chromium. While it is open, `asyncio.run` does not work in this thread: Playwright's loop is there."""
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=CHROMIUM_ARGS)
        yield browser
        browser.close()
