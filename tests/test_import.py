"""What importing and opening do to the process around them: nothing it would notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def in_a_fresh_process(code: str, cwd: Path = ROOT) -> str:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def test_importing_starts_no_thread() -> None:
    code = "import threading, loomnb\nfor n in loomnb.__all__: getattr(loomnb, n)\nprint(threading.active_count())"

    assert in_a_fresh_process(code) == "1"


def test_importing_makes_no_file(tmp_path: Path) -> None:
    in_a_fresh_process("import loomnb\nfor n in loomnb.__all__: getattr(loomnb, n)", cwd=tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_the_first_verb_opens_the_default_store(here: Path) -> None:
    in_a_fresh_process("import loomnb as loom\nloom.pending()", cwd=here)

    assert (here / "loom.duckdb").exists()


def test_loomnb_store_names_the_default_store(tmp_path: Path) -> None:
    in_a_fresh_process(
        "import os; os.environ['LOOMNB_STORE'] = 'mine.duckdb'\nimport loomnb as loom\nloom.pending()", cwd=tmp_path
    )

    assert (tmp_path / "mine.duckdb").exists()


def test_a_process_with_an_open_store_and_a_waiting_run_ends_by_itself(here: Path) -> None:
    code = "import loomnb as loom\nloom.confirm('Go?')\nprint(len(loom.pending()))"

    assert in_a_fresh_process(code, cwd=here) == "1"


def test_a_process_ends_although_a_sync_body_never_returns(tmp_path: Path) -> None:
    code = """
import threading
import loomnb as loom
begun = threading.Event()
@loom.workflow
class Stuck(loom.BaseWorkflow):
    @loom.transition(to="end")
    def for_ever(self):
        begun.set()
        threading.Event().wait()
loom.start(Stuck)
begun.wait()
print("over")
"""

    assert in_a_fresh_process(code, cwd=tmp_path) == "over"


def test_what_a_cell_accepted_is_stored_when_its_process_ends(tmp_path: Path) -> None:
    in_a_fresh_process("import loomnb as loom\nrun = loom.confirm('Go?')\nrun.answer(True)", cwd=tmp_path)

    assert (
        in_a_fresh_process(
            "import loomnb as loom\nprint(loom.sql('select count(*) from answers').fetchall()[0][0])", cwd=tmp_path
        )
        == "1"
    )
