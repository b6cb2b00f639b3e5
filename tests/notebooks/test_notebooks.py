"""The tutorials: they run without a person and give what they ship with, and they read well where nothing runs."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

SOURCE = Path(__file__).parents[2] / "notebooks"
NAMES = [path.name for path in sorted(SOURCE.glob("*.ipynb"))]
FIRST = "01-first-workflow.ipynb"
TOLD = {  # what is asked in each, and what its page says was answered
    FIRST: {"One temperature looks wrong. What now?": "leave it out"},
    "02-questions-and-confirmations.ipynb": {
        "What shall the garden be called?": "Sunny Side",
        "What grows in the first bed?": "Tomatoes",
        "Anything the gardener should know?": "skipped",
        "fence": "confirmed: but not before Friday",
        "How many litres does the tank hold?": "300",
        "What bench shall we build?": "oak",
    },
    "03-killed-kernel-and-sql.ipynb": {
        "Which train shall it be?": "morning",
        "Who pays for the seat?": "the company's",
    },
    "04-meeting-notes.ipynb": {"Are these the notes?": "by Monday", "Are these the minutes?": "asks the band"},
    "05-routing-and-errors.ipynb": {"I wrote it by hand": "written by hand"},
    "06-sub-workflows-and-fan-out.ipynb": {"What shall we drink?": "lemonade"},
    "07-gallery.ipynb": {
        "Keep it?": "wren",
        "What is the bird called?": "Pip",
        "Shall we feed it?": "yes",
        "Where shall it live?": "a box",
        "Write a line": "The wren is back.",
        "The weather": "grey",
    },
    "08-release-notes-blueprint.ipynb": {
        "What does “Fixed stuff” mean for users?": "The panel no longer closes by itself",
        "Tables can be sorted": "Thanks to Ada for the icons",
        "Search finds plurals, too": "confirmed",
    },
    "09-artifacts-and-history.ipynb": {"What does the soup cost?": "6.20"},
    "10-first-agent.ipynb": {"Who is the book for?": "a friend who bakes"},
    "11-approvals.ipynb": {
        "Order 10 × tap washer?": "approved, with other arguments",
        "Order 1 × gold-plated tap?": "She only wants it to stop dripping.",
        "Run “Mail to Mrs Kern”?": "approved",
    },
    "12-structured-output.ipynb": {},
    "13-an-agent-inside-a-workflow.ipynb": {"What shall we do with it?": "repair it"},
    "14-a-local-model.ipynb": {},
}
ASKING = [name for name in NAMES if TOLD.get(name)]
DIFFERS = {  # what another run or another machine would not repeat
    "id": r"\b(run|ask|doc|store|thread|message)-[0-9a-f]{6,}|\b(RUN|ASK)-[\w-]{6,}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}|[0-9a-f]{32}",
    "address": r"\b0x[0-9a-f]{6,}",
    "port": r"127\.0\.0\.1:(?!9\b)\d+",
    "time": r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d",
    "path": r"/tmp/|/home/|/root/|/Users/|/var/|[A-Z]:\\\\|ipykernel_\d",
}
STATIC = ("text/html", "text/markdown", "text/plain")


def read(name: str) -> Any:
    return nbformat.read(SOURCE / name, as_version=4)


def shipped_outputs(name: str) -> list[dict[str, Any]]:
    return [output for cell in read(name).cells for output in cell.get("outputs", [])]


def stories(outputs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The displays of runs and questions among some outputs."""
    data = [output.get("data", {}) for output in outputs]
    return [d for d in data if "loom-static" in d.get("text/html", "") or "text/markdown" in d]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the folder to run in, so that the tree stays as it is."""
    return Path(shutil.copytree(SOURCE, tmp_path / "notebooks", ignore=shutil.ignore_patterns(".*", "*.duckdb*")))


def run(where: Path, *module: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LOOMNB_", "PYTEST_"))}
    env["JUPYTER_PREFER_ENV_PATH"] = "1"
    command = [sys.executable, "-m", *module]
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, check=False, timeout=110)


def test_all_of_them_are_named_here():
    assert sorted(TOLD) == NAMES


# -- they run ---------------------------------------------------------------------------------------


@pytest.mark.kernel
@pytest.mark.parametrize("name", NAMES)
def test_it_gives_what_it_ships_with_and_leaves_nothing_behind(name: str, copy: Path):
    before = sorted(path.name for path in copy.iterdir())
    done = run(copy, "pytest", "--nbval", "-p", "no:cacheprovider", "-q", name)
    assert done.returncode == 0, done.stdout[-6000:]
    assert sorted(path.name for path in copy.iterdir()) == before


@pytest.mark.kernel
def test_papermill_runs_the_first(copy: Path):
    done = run(copy, "papermill", "--no-progress-bar", FIRST, "done.ipynb")
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.dumps(json.loads((copy / "done.ipynb").read_text(encoding="utf-8"))["cells"])
    assert "'mean': 18.1" in told


@pytest.mark.kernel
def test_without_answers_the_first_fails_soon_and_says_what_it_needs(copy: Path):
    (copy / "answers.yaml").unlink()
    began = time.monotonic()
    done = run(copy, "jupyter", "execute", "--timeout=60", FIRST)
    took = time.monotonic() - began
    assert done.returncode != 0
    assert "NoFrontEnd" in done.stderr
    assert "One temperature looks wrong. What now?" in done.stderr
    assert "'temperatures': {'decide':" in done.stderr  # what to give loom.answers
    assert took < 10


@pytest.mark.kernel
def test_what_a_document_holds_does_not_run_on_the_page(copy: Path):
    hostile = '<script>window.hit = 1</script><img src=x onerror="window.hit = 2">[a](javascript:window.hit=3)'
    notebook = read(FIRST)
    (cell,) = [cell for cell in notebook.cells if "class TemperaturesWorkflow" in cell.source]
    cell.source = cell.source.replace("is far from all the others.", "is far. " + hostile.replace('"', '\\"'))
    nbformat.write(notebook, copy / "hostile.ipynb")
    done = run(copy, "jupyter", "execute", "--output=done.ipynb", "hostile.ipynb")
    assert done.returncode == 0, done.stderr[-3000:]
    ran = nbformat.read(copy / "done.ipynb", as_version=4)
    shown = stories([output for cell in ran.cells for output in cell.get("outputs", [])])
    assert any("is far." in data["text/html"] for data in shown)
    for data in shown:
        for mime in ("text/html", "text/markdown"):
            assert not re.search(r"<script|<[^>]*\bonerror|href=.?javascript", data[mime], re.IGNORECASE)


# -- they read --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_valid_notebook_without_widgets_or_the_machine_it_was_made_on(name: str):
    notebook = read(name)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.language_info == {"name": "python"}
    assert all(set(cell.metadata) <= {"tags"} for cell in notebook.cells)
    assert [cell.id for cell in notebook.cells] == [f"cell-{i:02d}" for i in range(1, len(notebook.cells) + 1)]


@pytest.mark.parametrize("name", NAMES)
def test_it_was_run_from_top_to_bottom_and_nothing_complained(name: str):
    cells = [cell for cell in read(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = shipped_outputs(name)
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]


@pytest.mark.parametrize("what", DIFFERS)
@pytest.mark.parametrize("name", NAMES)
def test_its_outputs_hold_nothing_that_differs(name: str, what: str):
    text = json.dumps(shipped_outputs(name), ensure_ascii=False)
    assert [m.group() for m in re.finditer(DIFFERS[what], text)] == []


@pytest.mark.parametrize("name", NAMES)
def test_each_question_is_told_with_its_answer_in_every_static_form(name: str):
    shown = stories(shipped_outputs(name))
    assert shown
    assert all(set(STATIC) <= set(data) for data in shown)
    assert not any("application/vnd.jupyter.widget-view+json" in data for data in shown)
    for question, answer in TOLD[name].items():
        for mime in STATIC:
            told = [html.unescape(data[mime]).replace("\\", "") for data in shown]
            told = [re.sub(r"</?(strong|b|span)>|\*\*", "", text) for text in told]
            assert any(question in text and answer in text for text in told), (question, mime)


@pytest.mark.parametrize("form", ["html", "markdown"])
@pytest.mark.parametrize("name", NAMES)
def test_as_a_page_it_tells_the_story(name: str, form: str, tmp_path: Path):
    done = run(SOURCE, "jupyter", "nbconvert", f"--to={form}", f"--output-dir={tmp_path}", name)
    assert done.returncode == 0, done.stderr[-3000:]
    (page,) = [path.read_text(encoding="utf-8") for path in tmp_path.iterdir() if path.suffix in (".html", ".md")]
    text = html.unescape(page).replace("\\", "")
    for question, answer in TOLD[name].items():
        assert question in text
        assert answer in text
    assert ("Answer here" in text) == bool(TOLD[name])
    body = re.sub(r"<(head|script)\b.*?</\1>", "", page, flags=re.DOTALL) if form == "html" else page
    assert not re.search(r"<[^>]*\bonerror|href=.?javascript", body, re.IGNORECASE)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_first_what_to_do_and_at_each_question_that_the_cells_wait(name: str):
    cells = read(name).cells
    first_line = cells[0].source.splitlines()[0]
    assert all(place in first_line for place in ("JupyterLab", "Binder", "Colab"))
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert ("Answer here, in the panel below. The cells below wait for you." in prose) == (name in ASKING)
    assert ("nothing is asked here" in first_line) == (name not in ASKING)


def test_links_between_them_lead_somewhere():
    for name in NAMES:
        for cell in read(name).cells:
            if cell.cell_type == "markdown":
                for target in re.findall(r"\]\(([^)#:]+)\)", cell.source):
                    assert (SOURCE / target).exists(), f"{name}: {target}"
