"""The task file, without the minutes that its environments take."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tasks

SOURCE = Path(tasks.__file__)


def test_an_old_python_can_read_the_file_and_is_refused_in_words() -> None:
    ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 6))
    pretend = f"import sys; sys.version_info = (3, 10, 1); exec(open({str(SOURCE)!r}).read())"

    done = subprocess.run([sys.executable, "-c", pretend], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "loomnb needs Python 3.11 or newer; this is Python 3.10" in done.stderr


def test_a_python_without_ensurepip_is_told_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tasks.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else object())

    with pytest.raises(tasks.Failed, match=r"apt-get install python3\.\d+-venv"):
        tasks.make_venv(tmp_path / "venv")


def test_without_chromium_the_tests_fail_and_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(tasks.shutil, "which", lambda name: None)
    monkeypatch.setattr(tasks, "CHROMIUM_PLACES", ())

    with pytest.raises(tasks.Failed, match="none was found"):
        tasks.find_chromium()


def test_a_chromium_that_is_named_but_missing_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")

    with pytest.raises(tasks.Failed, match="CHROMIUM=/no/such/browser does not exist"):
        tasks.find_chromium()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there always is a browser")
@pytest.mark.parametrize(
    ("env", "expected"),
    [({}, False), ({"BROWSER": "firefox"}, True), ({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "wayland-0"}, True)],
)
def test_a_browser_needs_a_screen_or_a_name(monkeypatch: pytest.MonkeyPatch, env: dict[str, str], expected: bool) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tasks.webbrowser, "get", object)

    assert tasks.has_browser() is expected


def test_stages_stop_at_the_first_failure_and_end_with_its_code(capfd: pytest.CaptureFixture[str]) -> None:
    def stage(name: str, code: int) -> tasks.Stage:
        return tasks.Stage(name, [sys.executable, "-c", f"raise SystemExit({code})"])

    code = tasks.run_stages([stage("one", 0), stage("two", 3), stage("three", 0)], dict(os.environ))

    assert code == 3
    summary = capfd.readouterr().out.split("Summary")[1]
    assert [line.split("  (")[0].split() for line in summary.strip().splitlines()] == [
        ["passed", "one"],
        ["FAILED", "two"],
        ["not", "run", "three"],
    ]


def test_stages_beside_one_another_tell_their_output_whole_and_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    def stage(name: str) -> tasks.Stage:
        return tasks.Stage(name, [sys.executable, "-c", f"print('{name} begins'); print('{name} ends')"], beside=True)

    code = tasks.run_stages([stage("one"), stage("two")], dict(os.environ))

    lines = [line for line in capfd.readouterr().out.splitlines() if line.endswith((" begins", " ends"))]
    assert (code, sorted([lines[:2], lines[2:]])) == (0, [["one begins", "one ends"], ["two begins", "two ends"]])


def test_a_failure_among_stages_beside_one_another_is_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    def stage(name: str, code: int, *, beside: bool) -> tasks.Stage:
        return tasks.Stage(name, [sys.executable, "-c", f"raise SystemExit({code})"], beside=beside)

    stages = [stage("one", 4, beside=True), stage("two", 0, beside=True), stage("three", 0, beside=False)]

    assert tasks.run_stages(stages, dict(os.environ)) == 4
    summary = capfd.readouterr().out.split("Summary")[1]
    assert [line.split()[0] for line in summary.strip().splitlines()] == ["FAILED", "passed", "not"]


def test_the_result_of_a_notebook_is_the_text_of_its_outputs() -> None:
    outputs = [
        {"output_type": "stream", "text": ["a\n", "b\n"]},
        {"output_type": "display_data", "data": {"text/html": "<b>x</b>"}},
        {"output_type": "execute_result", "data": {"text/plain": "c"}},
    ]

    assert tasks.plain_text(outputs) == "a\nb\nc"
