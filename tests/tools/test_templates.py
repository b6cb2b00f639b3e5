"""Templates: what is escaped, what is empty, where a path starts, and that edits are seen."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from tests.helpers import at_rest

TEMPLATE = "{{ text }}|{{ text | safe }}|{{ missing }}|{{ deep.er.missing }}|{% if rows %}some{% else %}none{% endif %}"


class Rendering(loom.BaseTool):
    """Not decorated: render works all the same."""


@pytest.mark.case("workflows:K12")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.html", "&lt;b&gt; &amp;|<b> &|||none"),
        ("prompt.md", "<b> &|<b> &|||none"),
        ("prompt.txt", "<b> &|<b> &|||none"),
    ],
)
def test_only_html_is_escaped_and_what_is_missing_is_empty(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(TEMPLATE)

    assert Rendering().render(tmp_path / name, {"text": "<b> &", "rows": []}) == text


def test_an_edit_is_seen_at_once(tmp_path: Path) -> None:
    file = tmp_path / "t.md"
    seen = []
    for text in ("one", "two", "six"):
        file.write_text(text)
        seen.append(Rendering().render(file))

    assert seen == ["one", "two", "six"]


def test_an_edit_of_an_included_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "outer.md").write_text("<{% include 'parts/inner.md' %}>")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "inner.md").write_text("{{ n }}")
    first = Rendering().render(tmp_path / "outer.md", {"n": 1})
    (tmp_path / "parts" / "inner.md").write_text("n={{ n }}")

    assert (first, Rendering().render(tmp_path / "outer.md", {"n": 1})) == ("<1>", "<n=1>")


def test_lines_that_only_hold_a_block_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "t.md").write_text("Rows:\n{% for r in rows %}\n- {{ r }}\n{% endfor %}\nEnd.\n")

    assert Rendering().render(tmp_path / "t.md", {"rows": [1, 2]}) == "Rows:\n- 1\n- 2\nEnd.\n"


def imported(folder: Path, name: str, source: str) -> Any:
    file = folder / f"{name}.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_a_relative_path_starts_at_the_file_of_the_class_then_of_its_bases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "templates_base", None)
    monkeypatch.setitem(sys.modules, "templates_child", None)
    for folder in ("base", "child"):
        (tmp_path / folder).mkdir()
    (tmp_path / "base" / "a.md").write_text("base a")
    (tmp_path / "base" / "b.md").write_text("base b")
    (tmp_path / "child" / "b.md").write_text("child b")
    base = imported(tmp_path / "base", "templates_base", "import loomnb as loom\nclass Base(loom.BaseWorkflow): ...")
    child = imported(tmp_path / "child", "templates_child", "from templates_base import Base\nclass Child(Base): ...")

    assert [base.Base().render(f"./{n}.md") for n in "ab"] == ["base a", "base b"]
    assert [child.Child().render(f"{n}.md") for n in "ab"] == ["base a", "child b"]
    assert child.Child().render("../base/b.md") == "base b"


def test_a_class_of_a_notebook_starts_at_the_working_directory(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = type("Cell", (loom.BaseTool,), {"__module__": "__main__"})
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    (here / "hello.md").write_text("Hello {{ name }}")

    assert cls().render("hello.md", {"name": "Ada"}) == "Hello Ada"


def test_a_missing_file_is_told_with_where_it_was_looked_for() -> None:
    with pytest.raises(loom.NotFound, match=r"no template 'nowhere\.md'") as caught:
        Rendering().render("nowhere.md")

    assert f"Looked for: {Path(__file__).parent / 'nowhere.md'}. " in caught.value.advice


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        ("one\n{% if %}", loom.DefinitionError, r"t\.md, line 2"),
        ("{% include 'no.md' %}", loom.NotFound, r"needs 'no\.md'"),
        ("{{ ''.__class__.__mro__ }}", loom.Refused, "access to attribute '__class__'"),
        ("{% include '../t.md' %}", loom.Refused, r"'\.\./t\.md' is not below"),
        ("{% include '/etc/' ~ 'hosts' %}", loom.Refused, "is not below"),
        ("{{ rows.append(1) }}", loom.Refused, "is not safely callable|access to"),
    ],
)
def test_what_is_wrong_in_a_template_is_told_with_its_file(tmp_path: Path, source: str, error: Any, said: str) -> None:
    (tmp_path / "t.md").write_text(source)

    with pytest.raises(error, match=said):
        Rendering().render(tmp_path / "t.md", {"rows": []})


def test_a_workflow_renders_its_state(session: loom.Loom, tmp_path: Path) -> None:
    (tmp_path / "t.md").write_text("{% for c in cities %}{{ c.name }};{% endfor %}")

    @loom.workflow
    class Cities(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self, state: Any) -> None:
            self.assign_state(cities=[{"name": "Rome"}, {"name": "Oslo"}])
            self.set_result(self.render(tmp_path / "t.md", state))

    run = session.start(Cities)
    at_rest(run)

    assert run.result == "Rome;Oslo;"


def test_jinja_is_loaded_by_the_first_template() -> None:
    code = "import sys, loomnb\nfor n in loomnb.__all__: getattr(loomnb, n)\nprint('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])

    assert done.stdout.strip() == "False"


def test_values_are_escaped_in_html_however_the_suffix_is_spelled(tmp_path: Path) -> None:
    (tmp_path / "t.HTML").write_text("{{ rows }}")

    assert Rendering().render(tmp_path / "t.HTML", {"rows": "<b>"}) == "&lt;b&gt;"
