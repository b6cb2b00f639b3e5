"""The notebook face of loomnb: panels, forms, tables and magics. Shown by itself; `%load_ext loomnb_widgets` adds the magics."""

from __future__ import annotations

from typing import Any

__all__ = ["load_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext loomnb_widgets`: add `%loom` and `%%loom sql`."""
    from loomnb_widgets.magics import LoomMagics  # noqa: PLC0415  # importing this package must not need IPython

    shell.register_magics(LoomMagics)
