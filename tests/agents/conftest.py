"""A store of its own for each test of agents that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import loomnb as loom


@pytest.fixture
def store(tmp_path: Path) -> Iterator[loom.Loom]:
    with loom.Loom(str(tmp_path / "a.duckdb"), headless=True) as session:
        yield session
