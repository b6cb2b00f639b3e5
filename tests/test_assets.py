"""The panel's modules put together are one module: nothing is imported, and no top-level name stands twice."""

from __future__ import annotations

import re
from importlib.resources import files

from loomnb_widgets.assets import PANEL_MODULES, joined, panel_module, panel_sheet


def test_the_panel_is_one_module_without_imports() -> None:
    (line,) = re.findall(r"^(?:import|export)\b.*$", panel_module(), re.MULTILINE)

    assert line.startswith("export default {")


def test_no_two_modules_declare_the_same_name() -> None:
    static = files("loomnb_widgets") / "static"
    sources = "\n".join((static / name).read_text(encoding="utf-8") for name in PANEL_MODULES)
    names = re.findall(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", sources, re.MULTILINE)

    assert len(names) > 50
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


def test_no_template_of_the_panel_spans_lines() -> None:
    """Its lines lose their indentation, and a text would too."""
    static = files("loomnb_widgets") / "static"
    for name in PANEL_MODULES:
        source = (static / name).read_text(encoding="utf-8")
        assert [t for t in re.findall(r"`[^`]*`", source) if "\n" in t] == []
