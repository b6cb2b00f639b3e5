#!/usr/bin/env python3
"""The tasks of this checkout: `python3 tasks.py lab|test|check|bench|notebooks|clean`.

Needs Python 3.11 or newer and nothing else. Every task makes the virtual environment it needs inside the checkout and
uses it again as long as pyproject.toml stays the same. The file keeps to syntax that Python 3.6 can read, because only
then can an old Python reach the sentence that refuses it.
"""

import sys

if sys.version_info < (3, 11):
    sys.exit(
        "loomnb needs Python 3.11 or newer; this is Python {}.{} ({}).\n"
        "Run the same command with a newer one, for example: python3.11 tasks.py lab".format(
            sys.version_info[0], sys.version_info[1], sys.executable
        )
    )

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).resolve().parent
FIRST_NOTEBOOK = ROOT / "notebooks" / "01-first-workflow.ipynb"
ANSWERS = ROOT / "notebooks" / "answers.yaml"
KERNEL_SPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
KERNEL_MATRIX = ROOT / "tests" / "kernel" / "matrix.py"
BENCHMARKS = ROOT / "tests" / "benchmarks"
VENVS = {"lab": ROOT / ".venv", "dev": ROOT / ".venv-test", "bench": ROOT / ".venv-bench"}
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM_PLACES = (  # where macOS keeps it: an application, not a command
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
SLOW_MARKS = "not kernel and not browser and not crash"
PAIR_MARKS = "page or crash"
ALONE_MARKS = "(kernel or browser) and not page and not crash"
TICK_S = 10


class Failed(Exception):
    """A task cannot go on; the text says why and what to do, the code is what the process ends with."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.message, self.code = message, code


# ---- saying what happens ------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, flush=True)


class Progress:
    """Says what is being done, again every ten seconds, and how long it took when that was over a second."""

    def __init__(self, what: str) -> None:
        self.what, self.detail = what, ""

    def __enter__(self) -> Self:
        say("- " + self.what)
        self.start, self.over = time.monotonic(), threading.Event()
        threading.Thread(target=self._tick, daemon=True).start()
        return self

    def _tick(self) -> None:
        while not self.over.wait(TICK_S):
            say(f"  ... {time.monotonic() - self.start:.0f} s  {self.detail}".rstrip())

    def __exit__(self, kind: object, *_: object) -> None:
        self.over.set()
        took = time.monotonic() - self.start
        if took > 1 and kind is None:
            say(f"  done in {took:.0f} s")


def piped(command: list[str], env: dict[str, str] | None) -> "subprocess.Popen[bytes]":
    no_input, one_pipe = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=env, stdin=no_input, stdout=one_pipe, stderr=subprocess.STDOUT)


def run_quietly(what: str, command: list[str], env: dict[str, str] | None = None) -> None:
    """Run a command whose output matters only when it fails."""
    lines: list[str] = []
    with Progress(what) as progress, piped(command, env) as process:
        assert process.stdout is not None
        for raw in process.stdout:
            lines.append(raw.decode(errors="replace").rstrip())
            if not lines[-1].startswith("WARNING"):
                progress.detail = lines[-1].strip()[:100]
    if process.returncode:
        raise Failed("\n".join([*lines[-40:], "", f"{what}: failed ({process.returncode}). Its last lines are above."]))


# ---- virtual environments -----------------------------------------------------------------------


def venv_python(venv: Path) -> Path:
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def venv_env(venv: Path) -> dict[str, str]:
    """The caller's environment with this virtual environment in front, as `activate` would set it."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "PYTHONPATH")}
    env["VIRTUAL_ENV"] = str(venv)
    env["PATH"] = str(venv_python(venv).parent) + os.pathsep + env.get("PATH", "")
    env["JUPYTER_PREFER_ENV_PATH"] = "1"  # or a kernel named python3 in the home directory wins over ours
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    return env


def ensure_venv(extra: str) -> Path:
    """The environment for an extra of pyproject.toml: made when missing, refreshed when pyproject.toml changed."""
    venv = VENVS[extra]
    stamp = venv / "loomnb-stamp"
    # An environment holds absolute paths and links to its Python: after a move or an upgrade only a new one is right.
    place = f"{ROOT} {sys.version}"
    recipe = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    held = stamp.read_text(encoding="utf-8").split("\n") if stamp.exists() else ["", ""]
    if held == [place, recipe] and venv_python(venv).exists():
        return venv
    if held[0] != place:
        make_venv(venv)
    command = [str(venv_python(venv)), "-m", "pip", "install", "--progress-bar", "off", "-e", f".[{extra}]"]
    run_quietly(f"installing loomnb[{extra}] into {venv.name} (the first time takes minutes)", command, venv_env(venv))
    stamp.write_text(f"{place}\n{recipe}", encoding="utf-8")
    return venv


def make_venv(venv: Path) -> None:
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise Failed(
            f"This Python ({sys.executable}) cannot make virtual environments: venv or ensurepip is missing.\n"
            f"On Debian and Ubuntu they are a package of their own: apt-get install python{version}-venv\n"
            "Then run the same command again."
        )
    if venv.exists():
        shutil.rmtree(venv)
    run_quietly(f"making {venv.name} with Python {sys.version.split()[0]}", [sys.executable, "-m", "venv", str(venv)])


# ---- lab ----------------------------------------------------------------------------------------


def has_browser() -> bool:
    """Whether opening a page would show it to somebody. macOS and Windows always can."""
    if not sys.platform.startswith("linux") or os.environ.get("BROWSER"):
        return True
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def lab(headless: bool, rest: list[str]) -> int:
    venv = ensure_venv("lab")
    python = str(venv_python(venv))
    if headless or not (rest or has_browser()):
        if not headless:
            say("- no browser to open here: running the notebook to its end instead (as with --headless)")
        return run_headless(python, venv_env(venv))
    command = [python, "-m", "jupyterlab", *rest, str(FIRST_NOTEBOOK.relative_to(ROOT))]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.insert(3, "--allow-root")
    say(f"- opening JupyterLab on {FIRST_NOTEBOOK.relative_to(ROOT)} (Ctrl-C ends it)")
    return subprocess.call(command, cwd=ROOT, env=venv_env(venv))


def run_headless(python: str, env: dict[str, str]) -> int:
    """Run the tutorial from a fresh kernel and print what its last outputs say; the notebook file stays as it is."""
    with tempfile.TemporaryDirectory(prefix="loomnb-") as folder:
        env.setdefault("LOOMNB_STORE", str(Path(folder) / "loom.duckdb"))  # every such run starts from nothing
        env.setdefault("LOOMNB_ANSWERS", str(ANSWERS))
        done = Path(folder) / "done.ipynb"
        command = [python, "-m", "jupyter", "execute", "--timeout=120", f"--output={done}", str(FIRST_NOTEBOOK)]
        run_quietly(f"running {FIRST_NOTEBOOK.relative_to(ROOT)} to its end", command, env)
        cells: list[dict[str, Any]] = json.loads(done.read_text(encoding="utf-8"))["cells"]
    texts = [plain_text(cell.get("outputs", [])) for cell in cells]
    say("\n" + "\n\n".join([text for text in texts if text][-2:] or ["(the notebook shows nothing)"]))
    return 0


def notebooks() -> int:
    """Run the tutorials and keep their outputs in them: what GitHub shows, and what the tests compare with."""
    venv = ensure_venv("dev")
    for path in sorted(FIRST_NOTEBOOK.parent.glob("*.ipynb")):
        refresh(path, str(venv_python(venv)), venv_env(venv))
    return 0


def refresh(path: Path, python: str, env: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="loomnb-") as folder:
        done = Path(folder) / "done.ipynb"
        env = {**env, "LOOMNB_STORE": str(Path(folder) / "loom.duckdb"), "LOOMNB_ANSWERS": str(ANSWERS)}
        command = [python, "-m", "jupyter", "execute", "--timeout=120", f"--output={done}", str(path)]
        run_quietly(f"running {path.relative_to(ROOT)}", command, env)
        notebook: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
    # The state of widgets is dead without their kernel; versions and times differ from machine to machine.
    notebook["metadata"] = {"kernelspec": KERNEL_SPEC, "language_info": {"name": "python"}}
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def plain_text(outputs: list[dict[str, Any]]) -> str:
    """What a cell's outputs say as text; nbformat keeps text as a list of lines."""
    parts = ("".join(out["data"].get("text/plain", "") if "data" in out else out.get("text", "")) for out in outputs)
    return "\n".join(part.strip() for part in parts if part.strip())


# ---- test ---------------------------------------------------------------------------------------


class Stage(NamedTuple):
    name: str
    command: list[str]
    beside: bool = False
    """Whether it may run beside a neighbour that says so too: two at a time, and each tells its output at its end."""


def checks(python: str) -> list[Stage]:
    return [
        Stage("ruff check", [python, "-m", "ruff", "check", "."]),
        Stage("ruff format", [python, "-m", "ruff", "format", "--check", "."]),
        Stage("mypy", [python, "-m", "mypy"], beside=True),
        Stage("pyright", [python, "-m", "pyright", "--pythonpath", python], beside=True),
    ]


def check() -> int:
    venv = ensure_venv("dev")
    return run_stages(checks(str(venv_python(venv))), venv_env(venv))


def test(fast: bool, rest: list[str]) -> int:
    venv = ensure_venv("dev")
    python, env = str(venv_python(venv)), venv_env(venv)
    pytest = [python, "-m", "pytest"]
    with tempfile.TemporaryDirectory(prefix="loomnb-test-") as folder:
        # A store of its own, so that neither the tests nor the notebooks touch one that a person works in.
        env["LOOMNB_STORE"] = str(Path(folder) / "loom.duckdb")
        if fast:
            return run_stages([*checks(python), Stage("pytest", [*pytest, "-m", SLOW_MARKS, *rest])], env)
        env["CHROMIUM"] = find_chromium()
        run_quietly("fetching the ipykernel versions to test on", [python, str(KERNEL_MATRIX)], env)
        # What promises no seconds runs two at a time: what only computes test by test, what starts a browser or kills processes
        # file by file. Kernels, and notebooks in a browser, have the machine to themselves.
        stages = [
            *checks(python),
            Stage("pytest, two at a time", [*pytest, "-n", "2", "-m", SLOW_MARKS, *rest]),
            Stage("pytest, pages and crashes", [*pytest, "-n", "2", "--dist", "loadfile", "-m", PAIR_MARKS, *rest]),
            Stage("pytest, kernels and browsers", [*pytest, "-m", ALONE_MARKS, *rest]),
        ]
        stages += [
            Stage(f"nbval {path.name}", [*pytest, "--nbval", "-p", "no:cacheprovider", str(path)], beside=True)
            for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
        ]
        return run_stages(stages, env, folder)


def run_stages(stages: list[Stage], env: dict[str, str], stores: str = "", *, keep_going: bool = False) -> int:
    """Run commands in order until one fails; end with a summary and the exit code of the first that failed."""
    report: list[str] = []
    first = 0
    for group in groups(stages):
        if first and not keep_going:
            report += [f"  not run  {stage.name}" for stage in group]
            continue
        with ThreadPoolExecutor(2) as pool:
            ended = list(pool.map(lambda stage: run_stage(stage, env_of(stage, env, stores)), group))
        for stage, (code, seconds) in zip(group, ended, strict=True):
            first = first or code
            report.append(f"  {'FAILED ' if code else 'passed '}  {stage.name}  ({seconds:.0f} s)")
    say("\nSummary\n" + "\n".join(report))
    return first


def groups(stages: list[Stage]) -> list[list[Stage]]:
    """The stages in their order, those in one list that may run beside one another."""
    made: list[list[Stage]] = []
    for stage in stages:
        if stage.beside and made and made[-1][-1].beside:
            made[-1].append(stage)
        else:
            made.append([stage])
    return made


def env_of(stage: Stage, env: dict[str, str], stores: str) -> dict[str, str]:
    """A notebook has a store of its own: it starts on an empty one, as it would for a newcomer."""
    if stores and stage.name.startswith("nbval"):
        return {**env, "LOOMNB_STORE": str(Path(stores) / (stage.name.split()[1] + ".duckdb"))}
    return env


def run_stage(stage: Stage, env: dict[str, str]) -> "tuple[int, float]":
    """Run one; its code and how long it took. What runs beside another says all it has to say at its end."""
    head = f"\n=== {stage.name}: {' '.join(shown(part) for part in stage.command)}"
    start = time.monotonic()
    if not stage.beside:
        say(head)
        return subprocess.call(stage.command, cwd=ROOT, env=env), time.monotonic() - start
    with Progress(stage.name), piped(stage.command, env) as process:
        assert process.stdout is not None
        text = process.stdout.read().decode(errors="replace")
    say(head + "\n" + text.rstrip())
    return process.returncode, time.monotonic() - start


def shown(part: str) -> str:
    return part[len(str(ROOT)) + 1 :] if part.startswith(str(ROOT) + os.sep) else part


def find_chromium() -> str:
    """A Chromium for the browser tests: $CHROMIUM, one that is installed, or on a Debian machine a fresh one."""
    found = os.environ.get("CHROMIUM") or installed_chromium()
    if not found and shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run_quietly("refreshing Debian's package list", ["apt-get", "update"], env)
        run_quietly("installing Chromium for the browser tests", ["apt-get", "install", "-y", "chromium"], env)
        found = installed_chromium()
    if not found or not (Path(found).exists() or shutil.which(found)):
        reason = f"CHROMIUM={found} does not exist." if found else "The browser tests need Chromium; none was found."
        raise Failed(
            f"{reason}\nInstall it (Debian: apt-get install chromium; macOS: brew install --cask chromium), or set\n"
            "CHROMIUM=/path/to/it, or leave these tests out: python3 tasks.py test --fast"
        )
    return found


def installed_chromium() -> str | None:
    on_path = (shutil.which(name) for name in CHROMIUM_NAMES)
    return next((p for p in on_path if p), None) or next((p for p in CHROMIUM_PLACES if Path(p).exists()), None)


# ---- bench and clean ----------------------------------------------------------------------------


def bench(names: list[str], rest: list[str]) -> int:
    known = {path.stem.removeprefix("bench_"): path for path in sorted(BENCHMARKS.glob("bench_*.py"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Failed(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(known)}", code=2)
    venv = ensure_venv("bench")
    python = str(venv_python(venv))
    stages = [Stage(name, [python, str(known[name]), *rest]) for name in names or known]
    return run_stages(stages, venv_env(venv), keep_going=True)  # a missed target says nothing about the others


def clean() -> int:
    """Remove what these tasks made. Stores (*.duckdb) are a person's data and stay."""
    names = [".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".coverage", "htmlcov", "dist", "build"]
    for path in [*VENVS.values(), *(ROOT / name for name in [*names, "test-results"])]:
        if path.is_dir():
            say(f"- removing {path.name}")
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
    return 0


# ---- the command line ---------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="tasks.py", description="The tasks of this checkout.")
    tasks = top.add_subparsers(dest="task", required=True, metavar="TASK")
    one = tasks.add_parser("lab", help="open JupyterLab on the first tutorial; without a browser, run it")
    one.add_argument("--headless", action="store_true", help="run the tutorial to its end and print the result")
    one.epilog = "Everything after -- goes to JupyterLab."
    one = tasks.add_parser("test", help="set up and pass every check and test")
    one.add_argument("--fast", action="store_true", help="leave out kernels, browser, crashes and notebooks")
    one.epilog = "Everything after -- goes to pytest."
    tasks.add_parser("check", help="lint and type checks only")
    one = tasks.add_parser("bench", help="run the benchmarks")
    one.add_argument("names", nargs="*", help="moves, growth, import, stream; default: all")
    one.epilog = "Everything after -- goes to the benchmark."
    tasks.add_parser("notebooks", help="run the tutorials and keep their outputs in them")
    tasks.add_parser("clean", help="remove the environments and caches made here")
    return top


def main(argv: list[str]) -> int:
    cut = argv.index("--") if "--" in argv else len(argv)
    given, rest = parser().parse_args(argv[:cut]), argv[cut + 1 :]
    if given.task == "lab":
        return lab(given.headless, rest)
    if given.task == "test":
        return test(given.fast, rest)
    if given.task == "bench":
        return bench(given.names, rest)
    if given.task == "notebooks":
        return notebooks()
    return check() if given.task == "check" else clean()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as failure:
        say(failure.message)
        sys.exit(failure.code)
    except KeyboardInterrupt:
        sys.exit(130)
