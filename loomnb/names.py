"""Names: identifiers from class names, as the contract derives them, and the notebook's own."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

__all__ = ["cell_name", "humanised", "notebook_name", "snake_case", "worker_name"]


def snake_case(class_name: str, suffix: str = "") -> str:
    """`HTTPCallWorkflow` → `http_call` (suffix `_workflow`). A run of capitals is one word; a bare suffix stays.

    Rule: contracts/workflows.md §1.1.
    """
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", class_name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()
    return name.removesuffix(suffix) if suffix and name != suffix.removeprefix("_") else name


def humanised(name: str) -> str:
    """`confirm_notes` → `Confirm notes`, for a label nobody wrote."""
    text = name.replace("_", " ").strip()
    return text[:1].upper() + text[1:]


def notebook_name() -> str:
    """The notebook this kernel serves, where the Jupyter server says so."""
    return os.environ.get("JPY_SESSION_NAME", "")


def cell_name() -> str:
    """The id of the notebook cell that is at work, where the front end says so (JupyterLab and Notebook 7 do); else empty.

    Only looks: where IPython was not loaded there is no cell.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    try:
        found = shell.kernel.get_parent("shell")["metadata"]["cellId"] if shell is not None else ""
    except (AttributeError, KeyError, LookupError, TypeError):
        return ""
    return found if isinstance(found, str) else ""


def worker_name() -> str:
    """The id of this kernel, as its connection file tells; outside a kernel the process."""
    files = [arg for arg in sys.argv[1:] if arg.endswith(".json")]
    kernels = [Path(arg).stem.removeprefix("kernel-") for arg in files if Path(arg).name.startswith("kernel-")]
    return kernels[0] if kernels else f"process-{os.getpid()}"
