"""The panel's modules put together are one module: nothing is imported, and no top-level name stands twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files

import pytest
from loomnb_widgets.assets import (
    ARTIFACT_MODULES,
    PANEL_MODULES,
    artifact_module,
    artifact_sheet,
    joined,
    panel_module,
    panel_sheet,
)


@pytest.mark.parametrize("module", [panel_module, artifact_module])
def test_what_a_widget_gets_is_one_module_without_imports(module: Callable[[], str]) -> None:
    (line,) = re.findall(r"^(?:import|export)\b.*$", module(), re.MULTILINE)

    assert line.startswith("export default {")


@pytest.mark.parametrize("modules", [PANEL_MODULES, ARTIFACT_MODULES])
def test_no_two_modules_declare_the_same_name(modules: tuple[str, ...]) -> None:
    static = files("loomnb_widgets") / "static"
    sources = "\n".join((static / name).read_text(encoding="utf-8") for name in modules)
    names = re.findall(r"^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+)", sources, re.MULTILINE)

    assert len(names) > 20
    assert sorted({n for n in names if names.count(n) > 1}) == []


def test_imports_and_exports_are_taken_out_and_the_rest_is_left_alone() -> None:
    parts = [
        "export const a = 1; // export nothing\n",
        'import { a } from "./a.js";\nimport {\n  b,\n} from "./b.js";\nconst c = "export const";\nexport default { a };\n',
    ]

    assert joined(parts) == 'const a = 1; // export nothing\n\nconst c = "export const";\nexport default { a };\n'


def test_every_sheet_and_module_of_the_panel_is_in_it() -> None:
    assert PANEL_MODULES[-1] == "panel.js"
    assert ".loom-panel {" in panel_sheet()
    assert ".loom-artifact {" in artifact_sheet()
    assert ".loom-tree {" in panel_sheet()
    assert ".loom-tree {" in artifact_sheet()


def test_no_template_spans_lines() -> None:
    """Its lines lose their indentation, and a text would too."""
    static = files("loomnb_widgets") / "static"
    for name in {*PANEL_MODULES, *ARTIFACT_MODULES}:
        source = (static / name).read_text(encoding="utf-8")
        assert [t for t in re.findall(r"`[^`]*`", source) if "\n" in t] == []
