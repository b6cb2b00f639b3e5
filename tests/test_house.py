"""The import rules of the house: which room may know which, and that no headless room knows a notebook."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = ROOT / "loomnb"
FACE = ROOT / "widgets" / "loomnb_widgets"

ROOMS = [
    *("errors", "jsonvalue", "names", "ids", "asks", "documents", "present", "store", "runtime"),
    *("tools", "workflows", "blueprints", "agents", "ready", "studio", "testing"),
]
"""From the ground floor up: a room imports only rooms that stand before it."""

NOTEBOOK = {"IPython", "ipywidgets", "anywidget", "ipykernel", "comm", "traitlets", "loomnb_widgets"}

CORE_FILES = sorted(CORE.rglob("*.py"))
ROOM_FILES = [path for path in CORE_FILES if path != CORE / "__init__.py"]  # the front door knows them all by name
FACE_FILES = sorted(FACE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(CORE).parts[0].removesuffix(".py")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(node: ast.AST) -> Iterator[str]:
    """The dotted modules an import statement names; relative ones as they are written."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield "." * node.level + (node.module or "")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree_of(path)):
        for name in imported(node):
            assert isinstance(node, (ast.Import, ast.ImportFrom))
            yield name, node.lineno


def inner_imports(path: Path) -> Iterator[tuple[str, int]]:
    """Imports inside a function."""
    for outer in ast.walk(tree_of(path)):
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for node in ast.walk(outer):
                for name in imported(node):
                    assert isinstance(node, (ast.Import, ast.ImportFrom))
                    yield name, node.lineno


def test_every_room_stands_in_the_list() -> None:
    rooms = {room_of(path) for path in CORE_FILES} - {"__init__"}

    assert rooms <= set(ROOMS)


@pytest.mark.parametrize("path", ROOM_FILES, ids=lambda p: str(p.relative_to(CORE)))
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    room = room_of(path)
    allowed = {*ROOMS[: ROOMS.index(room)], room}
    wrong = [
        f"line {line}: {name}" for name, line in imports(path) if name.startswith("loomnb.") and name.split(".")[1] not in allowed
    ]

    assert wrong == []


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda p: str(p.relative_to(CORE)))
def test_a_room_never_goes_through_the_front_door_or_a_relative_path(path: Path) -> None:
    wrong = [f"line {line}: {name}" for name, line in imports(path) if name == "loomnb" or name.startswith(".")]

    assert wrong == []


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda p: str(p.relative_to(CORE)))
def test_a_room_enters_another_through_its_door(path: Path) -> None:
    room = room_of(path)
    wrong = [
        f"line {line}: {name}"
        for name, line in imports(path)
        if name.startswith("loomnb.") and name.count(".") > 1 and name.split(".")[1] != room
    ]

    assert wrong == []


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda p: str(p.relative_to(CORE)))
def test_no_room_imports_its_own_door(path: Path) -> None:
    room = room_of(path)
    wrong = [f"line {line}: {name}" for name, line in imports(path) if name == f"loomnb.{room}" and path.name != "__init__.py"]

    assert wrong == []


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda p: str(p.relative_to(CORE)))
def test_no_function_imports_a_module_of_ours(path: Path) -> None:
    wrong = [f"line {line}: {name}" for name, line in inner_imports(path) if name.partition(".")[0] in ("loomnb", "")]

    assert wrong == []


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda p: str(p.relative_to(CORE)))
def test_no_headless_file_imports_a_notebook_library(path: Path) -> None:
    wrong = [f"line {line}: {name}" for name, line in imports(path) if name.partition(".")[0] in NOTEBOOK]

    assert wrong == []


@pytest.mark.parametrize("path", FACE_FILES, ids=lambda p: str(p.relative_to(FACE)))
def test_the_face_imports_only_doors(path: Path) -> None:
    wrong = [f"line {line}: {name}" for name, line in imports(path) if name.startswith("loomnb.") and name.count(".") > 1]

    assert wrong == []


def in_a_fresh_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_touching_every_public_name_loads_no_notebook_library() -> None:
    code = (
        "import sys, loomnb\n"
        "for name in loomnb.__all__: getattr(loomnb, name)\n"
        "print([m for m in ('IPython', 'ipywidgets', 'anywidget') if m in sys.modules])"
    )

    assert in_a_fresh_process(code) == "[]"


def test_importing_loomnb_loads_none_of_its_dependencies() -> None:
    heavy = ["duckdb", "pydantic", "yaml", "markdown_it", "nh3", "nest_asyncio"]
    code = f"import sys, loomnb\nprint([m for m in {heavy} if m in sys.modules])"

    assert in_a_fresh_process(code) == "[]"


def test_a_run_headless_loads_no_notebook_library(tmp_path: Path) -> None:
    code = (
        "import sys, loomnb as loom\n"
        f"with loom.open({str(tmp_path / 's.duckdb')!r}) as session:\n"
        "    session.answers({'ask': {'env': 'staging'}})\n"
        "    print(session.ask_questions([{'id': 'env', 'question': 'Where?', 'isSkippable': False}]).wait()['env'])\n"
        "print([m for m in ('IPython', 'ipywidgets', 'anywidget', 'nest_asyncio') if m in sys.modules])"
    )

    assert in_a_fresh_process(code).splitlines() == ["staging", "[]"]


def test_no_committed_text_carries_the_marks_of_a_merge() -> None:
    marks = tuple(mark * 7 + " " for mark in "<>|")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    files = [ROOT / name for name in listed.split("\0") if name] or [*ROOT.glob("*.md"), *CORE_FILES, *FACE_FILES]
    texts = [path for path in files if path.suffix in {".py", ".md", ".js", ".css", ".toml", ".yaml", ".yml", ".ipynb", ".pyi"}]
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in texts
        if path.exists()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.startswith(marks)
    ]

    assert wrong == []
