"""Fixtures with real kernels: `kernel` (one per version of the matrix), `start_kernel` (as many as a test wants)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kernel import matrix
from tests.kernel.client import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(scope="session", params=matrix.chosen())
def kernel_version(request: pytest.FixtureRequest) -> str:
    matrix.install(request.param)
    return str(request.param)


@pytest.fixture
def start_kernel(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """`start_kernel("7.4.0", cwd=..., env=...)`; all are ended with the test. The default is the newest version."""
    started: list[Kernel] = []

    def start(version: str = matrix.VERSIONS[-1], cwd: Path | None = None, env: dict[str, str] | None = None) -> Kernel:
        matrix.install(version)
        kernel = Kernel(version, cwd or tmp_path, env)
        started.append(kernel)
        return kernel.start()

    yield start
    for kernel in started:
        kernel.shutdown()


@pytest.fixture
def kernel(kernel_version: str, start_kernel: Callable[..., Kernel]) -> Kernel:
    """A fresh kernel of the version this test runs on, in a folder of its own."""
    return start_kernel(kernel_version)


@pytest.fixture
def person(kernel: Kernel) -> Kernel:
    """The same kernel as a front end with a person before it would use it: cells are sent with `allow_stdin`."""
    kernel.allow_stdin = True
    return kernel


@pytest.fixture(params=["await", "plain"])
def barrier(request: pytest.FixtureRequest) -> str:
    """How a cell waits for `run`: as code that gives its result."""
    return {"await": "await run", "plain": "run.wait()"}[request.param]
