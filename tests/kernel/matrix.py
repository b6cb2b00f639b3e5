"""The ipykernel versions loomnb is tested on, side by side in one environment.

ipykernel is a small package whose dependencies hardly move, so each version lies in a folder of its own (installed with
`--no-deps --target`) and a kernelspec puts that folder first on PYTHONPATH. One environment and one Lab server then
serve them all. `python tests/kernel/matrix.py` fetches the versions of a run; fixtures fetch what is still missing.

LOOMNB_KERNELS chooses: a list such as `7.0.1,7.4.0`, or `all`. The default is the oldest supported version, one of
7.0-7.3 (comms on subshells) and the newest (comms beside a waiting cell), because these three behave differently.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSIONS = ("6.29.5", "6.31.0", "7.0.1", "7.3.0", "7.4.0")
DEFAULT = ("6.29.5", "7.3.0", "7.4.0")
CACHE = Path(sys.prefix) / "loomnb-kernels"


def chosen() -> tuple[str, ...]:
    """The versions of this test run, oldest first."""
    wanted = os.environ.get("LOOMNB_KERNELS", "")
    if wanted == "all":
        return VERSIONS
    names = {name.strip() for name in wanted.split(",") if name.strip()} or set(DEFAULT)
    if unknown := names - set(VERSIONS):
        raise ValueError(f"LOOMNB_KERNELS names {', '.join(sorted(unknown))}; the matrix has {', '.join(VERSIONS)}")
    return tuple(version for version in VERSIONS if version in names)


def spec_name(version: str) -> str:
    """The kernelspec's name, as a notebook's metadata gives it."""
    return f"ipykernel-{version}"


def jupyter_path() -> Path:
    """What JUPYTER_PATH must hold for the kernelspecs to be found."""
    return CACHE / "jupyter"


def argv() -> list[str]:
    return [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]


def kernel_env(version: str) -> dict[str, str]:
    return {"PYTHONPATH": str(CACHE / "ik" / version)}


def install(version: str) -> None:
    """Fetch one version, unless it is there, and write its kernelspec."""
    target = CACHE / "ik" / version
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Into a folder beside it first: an interrupted download must not look like an installed version.
        half = Path(tempfile.mkdtemp(prefix=".half-", dir=target.parent))
        try:
            pip(half, version)
            half.rename(target)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    folder = jupyter_path() / "kernels" / spec_name(version)
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"argv": argv(), "display_name": spec_name(version), "language": "python", "env": kernel_env(version)}
    (folder / "kernel.json").write_text(json.dumps(spec, indent=1), encoding="utf-8")


def pip(target: Path, version: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(target)]
    done = subprocess.run([*command, f"ipykernel=={version}"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ipykernel {version} could not be fetched:\n{done.stderr[-2000:]}")


def main() -> None:
    for version in chosen():
        print(f"ipykernel {version}", flush=True)
        install(version)


if __name__ == "__main__":
    main()
