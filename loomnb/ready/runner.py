"""Runs started, resumed and stopped by programs: the seed's runner, with its options, envelopes and result types.

It moves runs through the same doors as handles do, so its rules are theirs: what cannot be done is refused, and nothing is
ignored.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from loomnb.documents import DocumentEntity
from loomnb.errors import ArgsInvalid, Conflict, DefinitionError, NotFound, fields_from_pydantic
from loomnb.jsonvalue import thaw
from loomnb.names import worker_name
from loomnb.runtime import (
    LOCAL_USER,
    MISSING,
    NOTEBOOK_APP,
    WORKFLOW_STATES,
    Owner,
    RunRecord,
    Runtime,
    Status,
    WorkflowState,
)
from loomnb.workflows import BaseWorkflow, definition_of

__all__ = [
    "RunResult",
    "Runner",
    "StatelessRunResult",
    "SyncRunResult",
    "WorkflowArgs",
    "WorkflowRunResult",
    "WorkflowRunnerOptions",
    "WorkflowRunnerSyncOptions",
]

W = TypeVar("W")
TArgs = TypeVar("TArgs")

if TYPE_CHECKING:
    WorkflowArgs = Annotated[Any, W]
else:

    class WorkflowArgs(Generic[W]):
        """`WorkflowArgs[SomeWorkflow]` is the args type that its class names: `BaseWorkflow[Args]` → `Args`.

        For reading in code; a type checker sees Any, and infers the type itself in `runner.run(SomeWorkflow, args)`.
        """

        def __class_getitem__(cls, workflow: Any) -> Any:
            for base in getattr(workflow, "__mro__", ()):
                for written in getattr(base, "__orig_bases__", ()):
                    if get_origin(written) is BaseWorkflow:
                        return get_args(written)[0]
            if isinstance(workflow, type) and issubclass(workflow, BaseWorkflow):
                return dict[str, Any]
            raise DefinitionError(f"{workflow!r} is no workflow class.", advice="Write WorkflowArgs[SomeWorkflow].")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRunnerOptions:
    """Whose a run is. In a notebook the defaults do.

    Attributes:
        workspace_id: one that this user has; default: that of the app and user.
        labels: free words to find the run by.
    """

    user_id: str = LOCAL_USER
    app_name: str = NOTEBOOK_APP
    workspace_id: str | None = None
    labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRunnerSyncOptions(WorkflowRunnerOptions):
    """The same for `run_sync`. `stateless`: nothing is stored, and the run cannot wait for anybody."""

    stateless: bool = False


class _Result:
    """A result: awaiting it gives itself, as the seed's calls are awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, Any]:
        return self
        yield  # a generator that returns at once

    def to_json(self) -> dict[str, Any]:
        """Its JSON, with the contract's names."""
        return {_camel(f.name): _plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]  # each is a dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(_Result):
    """A run that was started; `worker_id` is this kernel."""

    workflow_id: str
    workspace_id: str
    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRunResult(RunResult):
    """A run after its first pass: where it stands, and its result so far."""

    status: WorkflowState
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StatelessRunResult(_Result):
    """A run of which nothing was stored: how it ended, its result, and the documents it saved."""

    status: WorkflowState
    result: Any
    documents: Sequence[DocumentEntity] = field(default=())
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRunResult(_Result):
    """A run that was started, resumed or retried: `pending` until it moves."""

    workflow_id: str
    workspace_id: str
    status: WorkflowState


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [v.to_json() if isinstance(v, DocumentEntity) else thaw(v) for v in value]
    return str(value) if isinstance(value, WorkflowState) else thaw(value)


# -- what comes in --------------------------------------------------------------------------------


class _Envelope(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class _Transition(_Envelope):
    id: str
    workflow_id: str | None = Field(default=None, alias="workflowId")
    payload: Any = MISSING


class _Resume(_Envelope):
    transition: _Transition | None = None


class _Labels(_Envelope):
    labels: list[Annotated[str, Field(min_length=1)]] | None = None


class _Start(_Labels):
    args: Any = None


class _ResumeById(_Resume):
    workflow_id: str = Field(alias="workflowId")


_RESUME, _RESUME_BY_ID, _START, _LABELS = (TypeAdapter(t) for t in (_Resume, _ResumeById, _Start, _Labels))


def _read(adapter: TypeAdapter[Any], value: Any, what: str, shape: str) -> Any:
    try:
        return adapter.validate_python({} if value is None else value)
    except ValidationError as exc:
        raise ArgsInvalid(f"This is no {what}.", fields_from_pydantic(exc), advice=f"The shape is {shape}") from exc


_TRANSITION_SHAPE = '{"transition": {"id": "<a wait transition>", "payload": …}}, or nothing to retry.'
_PAYLOAD_SHAPE = '{"args": …, "labels": […]} to start, or {"workflowId": …, "transition": …} to go on.'


class Runner:
    """Starts, resumes, retries and cancels runs of one store."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def run(
        self, workflow: type[BaseWorkflow[TArgs]] | str, args: TArgs | Any = None, options: WorkflowRunnerOptions | None = None
    ) -> RunResult:
        """Start a run; it goes on by itself.

        Raises:
            ArgsInvalid: the arguments do not fit; no run was made.
            NotFound: no workflow has the name, or the user has no such workspace.
        """
        return self._started(self._start(workflow, args, options or WorkflowRunnerOptions()))

    def run_sync(
        self, workflow: type[BaseWorkflow[TArgs]] | str, args: TArgs | Any = None, options: WorkflowRunnerOptions | None = None
    ) -> SyncRunResult | StatelessRunResult:
        """Start a run and wait for the end of its first pass: until it ended, failed, waits, or is to be retried later.

        It never raises for a failure of the run: the status says so. With `stateless`, nothing is stored: documents are in the
        result, those of a failed transition are dropped, nothing is tried again, and no sub-workflow can start.

        Raises:
            ArgsInvalid: the arguments do not fit; no run was made.
            Refused: a stateless run waits for somebody.
            WouldDeadlock: called on the loop that runs move on.
        """
        o = options or WorkflowRunnerSyncOptions()
        if isinstance(o, WorkflowRunnerSyncOptions) and o.stateless:
            record = self._runtime.run_stateless(definition_of(workflow), args, self._owner(o))
            documents = [e for _, e in sorted(record.documents.values(), key=lambda pair: pair[1].index)]
            view = record.view
            error = view.failure.message if view.has_error and view.failure else None
            state = WORKFLOW_STATES[view.status]
            return StatelessRunResult(status=state, result=thaw(view.result), documents=documents, error=error)
        self._runtime.refuse_on_loop()
        record = self._start(workflow, args, o)
        news = threading.Event()
        record.watchers.append(lambda _: news.set())
        while record.is_moving or record.scripting or record.view.status in (Status.PENDING, Status.RUNNING):
            news.wait(0.2)  # a wait without an end cannot be interrupted
            news.clear()
        view, started = record.view, self._started(record)
        return SyncRunResult(
            workflow_id=started.workflow_id,
            workspace_id=started.workspace_id,
            worker_id=started.worker_id,
            status=WORKFLOW_STATES[view.status],
            result=thaw(view.result),
        )

    def run_by_id(
        self, workflow_id: str, user_id: str = LOCAL_USER, resume: Mapping[str, Any] | None = None
    ) -> WorkflowRunResult:
        """Answer a wait transition of a run, or try again what failed.

        Args:
            workflow_id: the run.
            user_id: whose it is.
            resume: `{"transition": {"id": name, "payload"?: data}}`; nothing retries.

        Raises:
            NotFound: this user has no such run.
            ArgsInvalid: `resume` has another shape.
            AnswerInvalid, AnswerRefused: the payload does not fit, or nothing may take it now.
            Conflict: there is nothing to retry.
        """
        return self._resume(workflow_id, user_id, _read(_RESUME, resume, "way to resume a run", _TRANSITION_SHAPE).transition)

    def execute(
        self,
        workflow: type[BaseWorkflow[Any]] | str,
        payload: Mapping[str, Any] | None = None,
        options: WorkflowRunnerOptions | None = None,
    ) -> WorkflowRunResult:
        """Start, resume or retry, as the payload says: with a `workflowId` as `run_by_id`, else a new run.

        Args:
            workflow: the class, or its name; of a run that goes on it must be its own.
            payload: `{"args"?, "labels"?}` to start (its labels win), or `{"workflowId", "transition"?}` to go on.
            options: whose it is.

        Raises:
            ArgsInvalid: the payload has another shape, or the arguments do not fit.
            Conflict: the run is of another workflow, or there is nothing to retry.
            NotFound: no such workflow, workspace or run of this user.
        """
        o = options or WorkflowRunnerOptions()
        given = {} if payload is None else payload
        if isinstance(given, Mapping) and ("workflowId" in given or "workflow_id" in given):
            read = _read(_RESUME_BY_ID, given, "payload", _PAYLOAD_SHAPE)
            name = definition_of(workflow).name
            record = self._of_user(read.workflow_id, o.user_id)
            if record.workflow != name:
                raise Conflict(f"The run {record.id} is a {record.workflow!r}, not a {name!r}.")
            return self._resume(read.workflow_id, o.user_id, read.transition)
        read = _read(_START, given, "payload", _PAYLOAD_SHAPE)
        record = self._start(workflow, read.args, o, labels=read.labels)
        return _accepted(record)

    def cancel(self, workflow_id: str, user_id: str = LOCAL_USER) -> None:
        """Stop a run with its sub-workflows; a finished one is left as it is.

        Raises:
            NotFound: this user has no such run.
        """
        self._runtime.cancel(self._of_user(workflow_id, user_id))

    # -- the inside -------------------------------------------------------------------------------

    def _owner(self, o: WorkflowRunnerOptions) -> Owner:
        return self._runtime.owner(o.user_id, o.app_name, o.workspace_id)

    def _start(self, workflow: Any, args: Any, o: WorkflowRunnerOptions, *, labels: Sequence[str] | None = None) -> RunRecord:
        words = o.labels if isinstance(o.labels, str) else list(o.labels)
        own = _read(_LABELS, {"labels": words}, "list of labels", '["nightly", "customer:7"].').labels
        return self._runtime.start(definition_of(workflow), args, labels=own if labels is None else labels, owner=self._owner(o))

    def _of_user(self, workflow_id: str, user_id: str) -> RunRecord:
        record = self._runtime.record(workflow_id)
        if record.user_id != user_id:  # as if there were none: an id of another user's run is nobody else's business
            raise NotFound(f"This store has no run {workflow_id!r}.", advice="List them with loom.runs().")
        return record

    def _resume(self, workflow_id: str, user_id: str, transition: _Transition | None) -> WorkflowRunResult:
        record = self._of_user(workflow_id, user_id)
        if transition is not None and transition.workflow_id not in (None, workflow_id):
            record = self._of_user(str(transition.workflow_id), user_id)  # a sub-workflow's question, by way of its root
            if not record.id.startswith(f"{workflow_id}."):
                raise Conflict(f"The run {record.id} is no sub-workflow of {workflow_id}.")
        due = record.due
        if transition is None or (
            record.status is Status.FAILED and due is not None and due.name == transition.id and transition.payload is MISSING
        ):
            self._runtime.retry(record)
            return _accepted(record)
        if not any(transition.id == ask.name for ask in record.view.asks):
            raise self._runtime.refusal(record, transition.id)
        payload = None if transition.payload is MISSING else transition.payload
        self._runtime.answer(record, transition.id, payload, "runner")
        return _accepted(record)

    @staticmethod
    def _started(record: RunRecord) -> RunResult:
        return RunResult(workflow_id=record.id, workspace_id=record.workspace_id, worker_id=worker_name())


def _accepted(record: RunRecord) -> WorkflowRunResult:
    return WorkflowRunResult(workflow_id=record.id, workspace_id=record.workspace_id, status=WorkflowState.PENDING)
