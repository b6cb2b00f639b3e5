"""The handle of a blueprint's run: what a person types `run.` for, beside what every run has."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from loomnb.blueprints.access import ABSENT, StoredArtifact, StoredRecord
from loomnb.blueprints.admission import admit, new_run_id
from loomnb.blueprints.captures import project_diff_of
from loomnb.blueprints.catalog import RUNTIME
from loomnb.blueprints.places import Cursor
from loomnb.blueprints.project_diff import ProjectDiff
from loomnb.blueprints.storage import Storage
from loomnb.blueprints.table import BlueprintDefinition
from loomnb.blueprints.views import FlowRunView, view_of
from loomnb.documents import DocumentEntity
from loomnb.errors import InvalidRequest, StepError, WorldFailed
from loomnb.jsonvalue import freeze, thaw
from loomnb.present import Story, artifact_markdown
from loomnb.runtime import END, FINISHED, MISSING, REGISTRY, START, Run, Status

__all__ = ["FlowRun", "checkpointing"]


@contextlib.contextmanager
def checkpointing() -> Generator[None]:
    """Tell a commit that fails in the contract's words.

    Raises:
        StepError: one did (RUN_CHECKPOINT_FAILED).
    """
    try:
        yield
    except WorldFailed as exc:
        if exc.code != "COMMIT_FAILED":
            raise
        raise StepError(exc.message, code="RUN_CHECKPOINT_FAILED", advice=exc.advice, cause=exc) from exc


def _told_artifact(number: int, artifact: StoredArtifact) -> DocumentEntity:
    """An artifact as a story tells documents: a text or a table as its viewer shows it, all else as JSON."""
    title = f"{artifact.flow_name} / {artifact.stage_name}, revision {artifact.revision}"
    markdown = artifact_markdown(artifact.data)
    data = artifact.data if isinstance(artifact.data, dict) else {"data": artifact.data}
    return DocumentEntity(
        id="",
        key=f"artifact {number}",
        document_name="artifact" if markdown is None else "markdown",
        content=freeze(data if markdown is None else {"markdown": f"**{title}**\n\n{markdown}"}),
        title=title if markdown is None else "",
        index=number,
    )


class FlowRun(Run):
    """A run of a blueprint. Awaiting it waits for its end, person included, and gives its last outcome, or raises."""

    _way_on = (
        "Correct the code and run its cell again, then run.retry(): what is on record is not repeated. run.retry(fresh=True) "
        "begins the step anew, and asks again. run.traceback has the details."
    )

    @property
    def flow_name(self) -> str:
        """The blueprint's name."""
        return self.workflow

    @property
    def intent(self) -> str:
        """What it was started for, to the letter."""
        return str(self.record.args["intent"])

    @property
    def cursor(self) -> Cursor:
        """The step it is at: the one that is made next, the one that waits or failed, or the last one."""
        definition = REGISTRY.get(self.workflow)
        place, path = self.record.view.place, tuple(self.record.path)
        if isinstance(definition, BlueprintDefinition):
            try:
                return definition.cursor(place, path)
            except StepError:
                pass  # the definition known here is another version: what the place itself says is the best there is
        if place == END and len(path) > 1:
            place = path[-2][0]
        stage, _, step = place.partition("/")
        return Cursor(unquote(stage), unquote(step) or "?") if place != START else Cursor("?", "?")

    @property
    def state(self) -> Any:
        """The State of the stage it is in, a copy; `ABSENT` when there is none."""
        state = self.record.view.state
        return thaw(state["value"]) if "value" in state else ABSENT

    @property
    def artifacts(self) -> list[StoredArtifact]:
        """The artifacts it wrote, each as it left it, by flow and stage; whatever others made of them since."""
        return Storage(self.runtime.database).artifacts_of(self.id)

    @property
    def records(self) -> list[StoredRecord]:
        """The records it appended, oldest first."""
        return Storage(self.runtime.database).records_of(self.id)

    @property
    def project_diff(self) -> ProjectDiff:
        """What changed in its project since it began; of a run that has ended, until then.

        Raises:
            Refused: it was started without a project.
        """
        return project_diff_of(self.runtime.database, self.record, self.runtime.workers)

    def view(self) -> FlowRunView:
        """How it stands, in the contract's words.

        Raises:
            StepError: it is in a state that cannot be (RUN_STATE_INVALID).
        """
        return view_of(self.record, self.cursor, (self.record.config or {}).get("source", "cli"))

    async def settled(self) -> FlowRunView:  # type: ignore[override]  # the contract's view, which says less
        """Wait until it is at rest (it waits, failed, or ended), and give its view. Never raises for its failure."""
        await super().settled()
        return self.view()

    def answer(self, name_or_id: Any = MISSING, payload: Any = MISSING, *, source: str = "code") -> None:
        """Answer the open question: `run.answer(action_id, answer)`, or `run.answer(answer)`. Returns once that is committed.

        Raises:
            InvalidRequest: the id is blank.
            AnswerInvalid: the answer does not fit (INVALID_REQUEST); the question stays open as it was.
            AnswerRefused: this is not the open question, or no longer (CONFLICT).
            StepError: it could not be stored, and was not given (RUN_CHECKPOINT_FAILED).
        """
        if payload is not MISSING and isinstance(name_or_id, str) and not name_or_id.strip():
            raise InvalidRequest("The id of the question is blank.", advice="It is run.view().pending_action.id.")
        with checkpointing():
            super().answer(name_or_id, payload, source=source)

    def retry(self, *, fresh: bool = False) -> None:
        """Make the step again that failed or was interrupted, with what is on record of it: what it committed, asked or read is
        not repeated.

        Args:
            fresh: forget that, and begin the step anew with the State it had at its start, and the code that is defined now; also
                where it waits for an answer here.

        Raises:
            Conflict: it has not failed.
            StoreBusy: it, or another run that is active, is exclusive (BUSY).
            StepError: that it goes on could not be stored (RUN_CHECKPOINT_FAILED).
        """
        definition = REGISTRY.get(self.workflow)
        if isinstance(definition, BlueprintDefinition) and self.status in (*FINISHED, Status.INTERRUPTED):
            admit(definition, [record for record in self.runtime.live() if record is not self.record])
        with checkpointing():
            super().retry(fresh=fresh)

    def cancel(self, timeout: float = 2.0) -> None:
        """Stop it: its capabilities end at once and its signal is aborted, and code that goes on can do nothing any more. What
        was committed stays. A finished run is left as it is.

        Raises:
            StoreClosed: the store was closed, so nothing can be stored any more.
            StepError: that it was stopped could not be stored (RUN_CHECKPOINT_FAILED); it is stopped all the same.
        """
        was_over = self.status in FINISHED
        with checkpointing():
            super().cancel(timeout)
        failure = self.record.view.failure
        if not was_over and failure is not None and failure.code == "RUN_CHECKPOINT_FAILED":
            raise StepError(failure.message, code="RUN_CHECKPOINT_FAILED", cause=self.record.exception)

    def _fork_options(self) -> dict[str, Any]:
        definition = REGISTRY.get(self.workflow)
        return {
            "run_id": new_run_id(self.record.source),
            "stamped": True,
            "pipelined": False,
            "admit": lambda live: admit(definition, live) if isinstance(definition, BlueprintDefinition) else None,
        }

    def story(self, handle: str = "run") -> Story:
        """As of every run, but what an exception said stays with the person at this kernel (decisions.md, Blueprints 9)."""
        story = super().story(handle)
        story = replace(story, path=self._told_path(story.path), documents=(*story.documents, *self._told_artifacts()))
        failure = self.record.view.failure
        if not story.has_error or failure is None:
            return story
        code = failure.code if failure.code in RUNTIME else "STEP_EXECUTION_FAILED"
        advice = f"{handle}.traceback tells what was raised. {handle}.retry() makes the step again."
        return replace(story, error_type=code, error=RUNTIME[code].message, advice=advice)

    def _told_path(self, path: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """The steps it made: that a stage is entered goes without saying."""
        return tuple((unquote(place), name) for place, name in path if not place.endswith("/"))

    def _told_artifacts(self) -> Iterator[DocumentEntity]:
        """What it wrote, as its story tells documents."""
        return itertools.starmap(_told_artifact, enumerate(self.record.artifacts or ()))
