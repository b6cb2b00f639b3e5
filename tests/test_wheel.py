"""What `pip install loomnb` puts on a disk."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_holds_every_file_of_both_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    packages = {"loomnb": ROOT / "loomnb", "loomnb_widgets": ROOT / "widgets" / "loomnb_widgets"}
    expected = {
        f"{name}/{path.relative_to(folder).as_posix()}"
        for name, folder in packages.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected
    assert {"loomnb/py.typed", "loomnb_widgets/py.typed", "loomnb_widgets/static/panel.js"} <= expected


def test_the_wheel_registers_the_notebook_face(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]

    assert wheel.read(name).decode().split() == ["[loomnb.face]", "ipywidgets", "=", "loomnb_widgets.face:face"]
