"""The guide's longer examples run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom

GUIDE = (Path(__file__).parent.parent.parent / "docs" / "guide.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("session")
def test_the_guides_examples_run() -> None:
    names: dict[str, Any] = {"__name__": "__main__", "loom": loom}
    assert EXAMPLES
    for example in EXAMPLES:
        exec(compile(example, "guide.md", "exec", dont_inherit=True), names)  # a notebook has real annotations
