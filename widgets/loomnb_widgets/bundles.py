"""What a cell is given to show: a live view together with what a page without a kernel shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipywidgets import DOMWidget

from loomnb_widgets.bridge import nobody_at_all, under_voila

__all__ = ["view_bundle"]


def view_bundle(widget: DOMWidget, static: Mapping[str, str]) -> dict[str, Any]:
    """A widget's view and its static forms, by MIME type.

    The static forms alone where a program runs the cells (nbclient, papermill, nbconvert): nobody sees the view live, and saved
    it hides them, since JupyterLab shows "model not found" for a view whose kernel is gone, and nbconvert an empty place.
    """
    if nobody_at_all() and not under_voila():
        return dict(static)
    made: Any = widget._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]  # IPython's hook
    data = made[0] if isinstance(made, tuple) else made
    return {**(data or {}), **static}
