"""What a session hands out that a cell can show: artifacts, questions asked in a cell, open asks."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loomnb.asks import Answers, Ask, Confirmation
from loomnb.blueprints import StoredArtifact
from loomnb.errors import NotFound, Refused
from loomnb.present import ArtifactDiff, ArtifactView, Story, artifact_bundle
from loomnb.runtime import Run
from loomnb.studio.face import notebook_face

__all__ = ["Artifact", "AskRun", "Pending", "PendingAsk"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Artifact(StoredArtifact):
    """An artifact at the revision it had when it was asked for. As a cell's last line it is drawn, with its revisions."""

    @property
    def view(self) -> ArtifactView:
        """What is drawn, for another look: its forms and its revisions."""
        return ArtifactView.of(self)

    def diff(self, old: int | None = None, new: int | None = None) -> ArtifactDiff:
        """What changed between two revisions; by default since the one before this one.

        Raises:
            NotFound: there is no such revision.
        """
        try:
            return self.view.diff(old, new)
        except LookupError as exc:
            raise NotFound(f"{exc}.", advice="List them: artifact.history().") from None

    def __repr__(self) -> str:
        return repr(self.view)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return artifact_bundle(self.view)

    def _ipython_display_(self) -> None:
        face = notebook_face()
        if face is None or not face.show_artifact(self.view):
            raise NotImplementedError  # IPython then takes the static forms


class AskRun(Run):
    """Questions asked in a cell. Awaiting it gives `Answers`, or for a confirmation its verdict."""

    def _outcome(self) -> Any:
        result = super()._outcome()
        face = self._face()
        if not face.is_shown(self):  # answered by a file or an earlier run of the cell: the page should tell it all the same
            face.show(self)
        return Answers(result) if isinstance(result, list) else Confirmation.model_validate(result)

    def story(self, handle: str = "run") -> Story:
        """The questions with their answers tell it: no path to speak of, and the result would only say them again."""
        return replace(super().story(handle), result=None, path=())

    def __await__(self) -> Generator[Any, None, Any]:
        return self._ended().__await__()

    # What people do with the answer when they forgot to wait for it: nobody has been asked yet.

    def __bool__(self) -> bool:
        raise self._not_awaited()

    def __getitem__(self, key: Any) -> Any:
        raise self._not_awaited()

    def __getattr__(self, name: str) -> Any:
        if name in ("is_confirmed", "feedback", "dump"):
            raise self._not_awaited()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _not_awaited(self) -> Refused:
        return Refused(
            "This is the question, not yet its answer.",
            advice="Write `await` before loom.ask_questions(...) or loom.confirm(...), or .wait() behind it.",
        )


class PendingAsk:
    """One open ask of a run."""

    def __init__(self, run: Run, ask: Ask) -> None:
        self.run = run
        self.ask = ask

    @property
    def id(self) -> str:
        """The ask's id."""
        return self.ask.id

    @property
    def name(self) -> str:
        """The wait transition, or `answer`."""
        return self.ask.name

    @property
    def label(self) -> str:
        """What is asked."""
        return self.ask.label

    def answer(self, payload: Any = None) -> None:
        """Answer it; see `Run.answer`."""
        self.run.answer(self.ask.id, payload)

    def __repr__(self) -> str:
        return f"<{self.run.title}: {self.ask.label!r} ({self.ask.kind}), run {self.run.id}>"


class Pending(Sequence[PendingAsk]):
    """Every open ask of a store. As a cell's last line it shows each run with its form."""

    def __init__(self, asks: Sequence[PendingAsk], notes: Sequence[str] = ()) -> None:
        self._asks = tuple(asks)
        self.notes = tuple(notes)
        """What else stands still: runs that wait for their definition, and runs that cannot be read."""

    def __getitem__(self, index: Any) -> Any:
        return self._asks[index]

    def __len__(self) -> int:
        return len(self._asks)

    def __iter__(self) -> Iterator[PendingAsk]:
        return iter(self._asks)

    @property
    def runs(self) -> list[Run]:
        """The runs that ask, each once."""
        return list({a.run.id: a.run for a in self._asks}.values())

    def __repr__(self) -> str:
        parts = [repr(run) for run in self.runs] or ["Nothing is asked."]
        return "\n\n".join([*parts, *(f"! {note}" for note in self.notes)])

    def _ipython_display_(self) -> None:
        face = notebook_face()
        if not self._asks or face is None or not face.show_pending(self):
            print(repr(self))  # noqa: T201  # where nothing can be drawn, its text
        elif self.notes:
            print("\n".join(self.notes))  # noqa: T201  # below the panels
