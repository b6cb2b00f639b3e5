"""The notebook's face, as the composition root knows it: what shows things, where there is a notebook."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from loomnb.present import ArtifactView
from loomnb.runtime import Face, NoFace
from loomnb.store import Relation

if TYPE_CHECKING:  # they show themselves through it
    from loomnb.studio.chats import Chat
    from loomnb.studio.process import App
    from loomnb.studio.session import Loom
    from loomnb.studio.shown import Pending

__all__ = ["NotebookFace", "current_face", "notebook_face"]


class NotebookFace(Face, Protocol):
    """What the entry point group `loomnb.face` provides."""

    def attach(self, session: Loom) -> None:
        """A store was opened."""
        ...

    def show_pending(self, pending: Pending) -> bool:
        """Show every open ask with its form; False where nothing can be shown."""
        ...

    def show_relation(self, relation: Relation) -> bool:
        """Show a paged table; False where nothing can be shown."""
        ...

    def show_artifact(self, view: ArtifactView) -> bool:
        """Show an artifact with its revisions; False where nothing can be shown."""
        ...

    def show_chat(self, chat: Chat) -> bool:
        """Show a conversation; False where nothing can be shown."""
        ...

    def show_app(self, app: App) -> bool:
        """Show an app as its launcher; False where nothing can be shown."""
        ...

    def names(self) -> Mapping[str, Any]:
        """The notebook's variables."""
        ...

    def answers_beside_notebook(self) -> bool:
        """Whether nobody can answer in this kernel, so that an `answers.yaml` beside the notebook is used by itself."""
        ...


class _Found:
    """The face of this process, once it was looked for."""

    face: NotebookFace | None = None
    looked_for = False


def notebook_face() -> NotebookFace | None:
    """The face, where IPython runs in this process and one is installed."""
    ipython = sys.modules.get("IPython")
    if _Found.looked_for or ipython is None or ipython.get_ipython() is None:
        return _Found.face
    _Found.looked_for = True
    from importlib.metadata import entry_points  # noqa: PLC0415  # only where there is a notebook

    for point in entry_points(group="loomnb.face"):
        _Found.face = cast("NotebookFace", point.load())
        break
    return _Found.face


def current_face() -> Face:
    """The face, or one that shows nothing."""
    return notebook_face() or NoFace()
