"""Driving workflows in a test: one transition, one pass, or a whole run with its answers given as data.

All three go through the real loop's own parts, so what a run would refuse is refused here: a returned value, a state its
schema does not take, a document that does not fit, a late write.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loomnb.asks import Ask
from loomnb.blueprints import Blueprint, FlowRun, StoredArtifact, StoredRecord, WorkflowModule
from loomnb.documents import DocumentEntity
from loomnb.errors import Refused, RunFailed
from loomnb.ids import Source
from loomnb.jsonvalue import FrozenDict, freeze, thaw
from loomnb.ready import know_ready
from loomnb.runtime import (
    START,
    Definition,
    Envelope,
    ModelProvider,
    Move,
    Run,
    RunRecord,
    RunView,
    Status,
    TransitionInput,
    try_move,
)
from loomnb.store import MEMORY
from loomnb.studio import Loom
from loomnb.testing.sources import StillSource
from loomnb.workflows import BaseWorkflow, definition_of

__all__ = ["Driven", "StartedChild", "TransitionOutcome", "at_rest", "drive", "run_pass", "run_transition"]

Workflow = type[BaseWorkflow[Any]] | str
Drivable = Workflow | Blueprint | WorkflowModule


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedChild:
    """A sub-workflow that a transition asked for."""

    workflow: str
    args: Any
    callback: Mapping[str, Any] | None
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionOutcome:
    """What one transition wrote. `documents` are those it saved; `children` those it asked for, none of which was started."""

    place: str
    state: dict[str, Any]
    result: Any
    documents: Sequence[DocumentEntity]
    children: Sequence[StartedChild]
    log: str


def run_transition(
    workflow: Workflow,
    method: str,
    *,
    from_: str | None = None,
    state: Mapping[str, Any] | None = None,
    result: Any = None,
    args: Any = None,
    input: Any = None,  # noqa: A002  # the word of the transition's parameter
    documents: Sequence[DocumentEntity] = (),
    retry_count: int = 0,
    source: Source | None = None,
    config: Any = None,
) -> TransitionOutcome:
    """Perform one transition and give what it wrote. Nothing is stored, no guard is asked and nothing follows.

    Args:
        workflow: the class, or its name.
        method: the transition.
        from_: the place it leaves, where it is stacked on several.
        state: the state before.
        result: the run's result before.
        args: the run's args, judged as at a start.
        input: of a wait transition: the answer's data, judged as an answer; or a `TransitionInput`, for the end of a
            sub-workflow.
        documents: documents the run has.
        retry_count: what `ctx.execution.retry_count` says.
        source: ids and clock; default: still ones.
        config: the run's configuration, judged as at a start.

    What stands around it in `loom.overrides({...})` holds for it.

    Raises:
        Exception: whatever the body raises, unchanged; and what the run loop would fail the transition with.
        ArgsInvalid, AnswerInvalid: the args, the configuration or the input do not fit.
        Refused: there is no such transition.
    """
    know_ready()
    definition = definition_of(workflow)
    move = _move(definition, method, from_)
    stored, loaded = definition.parse_args(args)
    stored_config, loaded_config = definition.parse_config(config)
    source = source or StillSource()
    record = RunRecord(
        id=source.new_id("run"),
        workflow=definition.name,
        source=source,
        args=stored,
        loaded_args=loaded,
        config=stored_config,
        loaded_config=loaded_config,
        title=definition.title,
        workspace_id="test",
        place=move.from_,
        state=freeze(dict(state or {})),
        result=freeze(result),
    )
    record.attempts[move.name] = retry_count
    for entity in documents:
        record.shelf.load(entity)
    data, envelope = input, None
    if isinstance(input, TransitionInput):
        envelope = Envelope(
            workflow_id=input.workflow_id, status=input.status, error_message=input.error_message, meta=freeze(input.meta)
        )
        data = input.data
    elif move.wait:
        data = definition.accept(move, loaded, input)
    elif input is not None:
        raise Refused(f"{method!r} is no wait transition: it gets no input.", advice="Leave input= out.")
    tried = try_move(definition, move, record, data=data, envelope=envelope)
    children = [
        StartedChild(workflow=c.workflow, args=thaw(c.args), callback=thaw(c.callback), label=c.title) for c in tried.children
    ]
    return TransitionOutcome(
        place=tried.place,
        state=thaw(tried.state),
        result=thaw(tried.result),
        documents=tried.documents,
        children=children,
        log=tried.log,
    )


def _move(definition: Definition, method: str, from_: str | None) -> Move:
    places = {START: None, **dict.fromkeys(definition.places)}
    found = [m for place in places for m in definition.moves_from(place) or () if m.name == method]
    fitting = [m for m in found if from_ in (None, m.from_)]
    if not fitting:
        names = sorted({m.name for place in places for m in definition.moves_from(place) or ()})
        raise Refused(f"{definition.name!r} has no transition {method!r}.", advice=f"It has: {', '.join(names)}.")
    if len(fitting) > 1:
        listed = ", ".join(repr(m.from_) for m in fitting)
        raise Refused(f"{method!r} leaves several places.", advice=f"Say which with from_=: {listed}.")
    return fitting[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """A run that was driven: where it stands, and everything it left behind."""

    status: Status
    place: str
    path: Sequence[str]
    state: FrozenDict
    result: Any
    error: str | None
    exception: BaseException | None
    documents: Sequence[DocumentEntity]
    asks: Sequence[Ask]
    children: Sequence[Driven]
    log: str
    artifacts: Sequence[StoredArtifact] = ()
    """Of a blueprint: what it wrote last in each place."""
    records: Sequence[StoredRecord] = ()

    @staticmethod
    def of(run: Run) -> Driven:
        """What a run left behind."""
        view = run.record.view
        return Driven(
            status=view.status,
            place=view.place,
            path=[place for place, _ in run.record.path],
            state=view.state,
            result=run.result,
            error=run.error,
            exception=run.record.exception if view.has_error else None,
            documents=run.documents,
            asks=run.pending,
            children=[Driven.of(child) for child in run.children],
            log=run.log,
            artifacts=run.artifacts if isinstance(run, FlowRun) else (),
            records=run.records if isinstance(run, FlowRun) else (),
        )


def _started(session: Loom, workflow: Drivable, args: Any, models: Any) -> Run:
    if isinstance(workflow, (Blueprint, WorkflowModule)):
        return session.flow(workflow, args, models=models)
    return session.start(workflow, args)


def run_pass(
    workflow: Drivable,
    args: Any = None,
    *,
    source: Source | None = None,
    timeout: float = 20.0,
    models: Mapping[str, ModelProvider] | ModelProvider | None = None,
) -> Driven:
    """Start a run in a store of its own, and give where it stands when it first comes to rest: its questions, or its end.

    Args:
        workflow: the class, or its name; or a blueprint.
        args: its arguments; of a blueprint the intent.
        source: ids and clock; default: still ones.
        timeout: seconds.
        models: the models of a blueprint's agent steps.

    Raises:
        TimeoutError: it does not come to rest in time.
    """
    with Loom(MEMORY, source=source or StillSource(), headless=True) as session:
        session.answers(None)  # what lies in a file is not this test's business
        run = _started(session, workflow, args, models)
        at_rest(run, timeout)
        return Driven.of(run)


def drive(
    workflow: Drivable,
    args: Any = None,
    *,
    answers: Mapping[str, Any] | None = None,
    source: Source | None = None,
    timeout: float = 20.0,
    models: Mapping[str, ModelProvider] | ModelProvider | None = None,
) -> Driven:
    """Drive a whole run in a store of its own, sub-workflows too, with scripted answers. A failure is told, not raised.

    Args:
        workflow: the class, or its name; or a blueprint.
        args: its arguments; of a blueprint the intent.
        answers: wait transition (of a blueprint: question id, or `confirm`) → what `run.answer` takes; of this run and of its
            sub-workflows. A list is one answer per time it is asked, so a payload that is a list goes inside one.
        source: ids and clock; default: still ones.
        timeout: seconds.
        models: the models of a blueprint's agent steps.

    Raises:
        NoFrontEnd: something is asked that the answers do not have; the message names it.
        AnswerInvalid, AnswerRefused: a scripted answer does not fit, or was not allowed.
        TimeoutError: it does not end in time.
    """
    with Loom(MEMORY, source=source or StillSource(), headless=True) as session:
        session.answers({"*": answers or {}})
        run = _started(session, workflow, args, models)
        with contextlib.suppress(RunFailed):  # told by what is given back
            run.wait(timeout)
        for child in run.children:  # those that nobody waits for
            at_rest(child, timeout)
        return Driven.of(run)


def at_rest(run: Run, timeout: float = 20.0) -> RunView:
    """The run's view once it waits, failed or ended. For plain code; in async code `await run.settled()`.

    Raises:
        TimeoutError: it does not come to rest within `timeout` seconds.
    """

    async def rest() -> RunView:
        return await asyncio.wait_for(run.settled(), timeout)

    return asyncio.run(rest())
