"""Fixtures for a real JupyterLab in Chromium. Without Chromium these tests fail, with the reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.lab import LabServer, Notebook, find_chromium, open_chromium
from tests.kernel import matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from playwright.sync_api import Browser, BrowserContext, Page

    from tests.browser.lab import Cell

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "test-results"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if item.path.stem.endswith("_js"):
                item.add_marker(pytest.mark.page)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    if report.when == "call" and report.failed:
        item.stash[FAILED] = True
    return report


FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser per test file, not per session: as long as it is open, no other test could use `asyncio.run`."""
    with open_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """Shared by a file's notebooks: a context holds the cache, and Lab's scripts are many."""
    context = chromium.new_context(viewport={"width": 1400, "height": 1500})
    yield context
    context.close()


@pytest.fixture(scope="session")
def lab() -> Iterator[LabServer]:
    """One server for all tests, knowing the kernels of the matrix."""
    find_chromium()  # its absence is said before a server is started for nothing
    with LabServer(env={"JUPYTER_PATH": str(matrix.jupyter_path())}) as server:
        yield server


@pytest.fixture
def notebook(lab: LabServer, context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Callable[..., Notebook]]:
    """`notebook(cells, kernel="7.4.0")` opens a new notebook in a folder of its own; without `kernel`, on ours.

    `prepare` is given the page before it loads anything. Pages are closed and kernels ended with the test. A failed test
    leaves a picture of each page in test-results/.
    """
    opened: list[Notebook] = []
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")

    def make(cells: Sequence[Cell], kernel: str | None = None, prepare: Callable[[Page], object] | None = None) -> Notebook:
        if kernel:
            matrix.install(kernel)
        path = f"{name}-{len(opened)}/notebook.ipynb"
        lab.write_notebook(path, cells, matrix.spec_name(kernel) if kernel else "python3")
        opened.append(Notebook(lab, context.new_page(), path))
        if prepare is not None:
            prepare(opened[-1].page)
        return opened[-1].open()

    yield make
    for number, one in enumerate(opened):
        if request.node.stash.get(FAILED, False):
            one.screenshot(RESULTS / f"{name}-{number}.png")
        one.close()
