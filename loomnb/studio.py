"""The composition root: `Loom` wires store, runtime, definitions and the notebook's face. The only place that knows them all."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, cast

# Before atexit.register below: DuckDB registers an exit hook of its own on import, which interrupts every connection; exit
# hooks run last in, first out, so ours has to come after it to close in order.
import duckdb

from loomnb.asks import NOTHING, Answers, Ask, Confirmation, Script, check_confirmation, check_questions, read_answers
from loomnb.blueprints import (
    Blueprint,
    FlowRun,
    Storage,
    StoredArtifact,
    WorkflowModule,
    admit,
    check_intent,
    check_models,
    check_project,
    check_source,
    checkpointing,
    known_blueprint,
    models_of,
    new_run_id,
)
from loomnb.errors import Conflict, LoomError, Refused, StoreClosed, Unavailable
from loomnb.ids import SYSTEM, Source
from loomnb.present import ArtifactDiff, ArtifactView, Story, artifact_bundle
from loomnb.ready import ASK, Runner, know_ready
from loomnb.runtime import (
    CURRENT,
    FINISHED,
    LOCAL_USER,
    Face,
    ModelProvider,
    NoFace,
    Restored,
    Run,
    RunEvent,
    RunRecord,
    Runtime,
    Status,
)
from loomnb.store import MEMORY, Database, Relation, damaged, query
from loomnb.tools import Provide
from loomnb.workflows import (
    BaseWorkflow,
    StudioApp,
    StudioAppOptions,
    StudioUiConfig,
    definition_of,
    register_app,
)

__all__ = [
    "App",
    "Artifact",
    "AskRun",
    "Loom",
    "Pending",
    "PendingAsk",
    "WorkflowRunner",
    "answers",
    "artifact",
    "ask_questions",
    "cancel_all_runs",
    "close",
    "confirm",
    "default",
    "define",
    "events",
    "flow",
    "flows",
    "open_store",
    "pending",
    "restore",
    "run",
    "runs",
    "snapshot",
    "sql",
    "start",
    "studio_app",
]

Durability = Literal["sync", "pipelined"]
DEFAULT_PATH = "loom.duckdb"


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

    def show_app(self, app: App) -> bool:
        """Show an app as its launcher; False where nothing can be shown."""
        ...

    def names(self) -> Mapping[str, Any]:
        """The notebook's variables."""
        ...

    def answers_beside_notebook(self) -> bool:
        """Whether nobody can answer in this kernel, so that an `answers.yaml` beside the notebook is used by itself."""
        ...


class _Process:
    """What this process holds: its face, its open stores and the default one."""

    face: NotebookFace | None = None
    looked_for_face = False
    stores: ClassVar[dict[str, Loom]] = {}
    default: Loom | None = None
    refused: str = ""
    """The store that could not be opened when it was last asked for: what comes next must not go into another one."""
    guard: ClassVar[threading.RLock] = threading.RLock()


def notebook_face() -> NotebookFace | None:
    """The face, where IPython runs in this process and one is installed."""
    ipython = sys.modules.get("IPython")
    if _Process.looked_for_face or ipython is None or ipython.get_ipython() is None:
        return _Process.face
    _Process.looked_for_face = True
    from importlib.metadata import entry_points  # noqa: PLC0415  # only where there is a notebook

    for point in entry_points(group="loomnb.face"):
        _Process.face = cast("NotebookFace", point.load())
        break
    return _Process.face


def _current_face() -> Face:
    return notebook_face() or NoFace()


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
            LookupError: there is no such revision.
        """
        return self.view.diff(old, new)

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


class Loom:
    """An open store with its runs. Module-level verbs (`loom.start`, …) act on the default one.

    Args:
        path: the store file; ":memory:" for none.
        durability: `sync` (each move is durable before the next begins) or `pipelined` (automatic moves go on while the commit
            of the last one is in flight; nothing is shown or answered before its commit). The default of each run.
        source: ids and clock; for tests.
        database: opens the store; for tests.

    Raises:
        StoreBusy: another kernel owns the file.
        StoreDamaged: it cannot be read.
    """

    def __init__(
        self,
        path: str,
        *,
        durability: Durability = "sync",
        source: Source = SYSTEM,
        database: Callable[[str, Source], Database] = Database,
    ) -> None:
        _check_durability(durability)
        know_ready()
        self._database = database(path, source)
        try:
            self._storage: Storage | None = None
            self._script: Script | None = None
            self._file_script: Script | None = None
            self._file_looked_for = False
            self.runtime = Runtime(self._database, source, pipelined=durability == "pipelined", scripted=self._scripted)
        except BaseException as exc:
            self._database.close()
            if isinstance(exc, duckdb.Error):
                raise damaged(path, exc) from exc
            raise
        face = notebook_face()
        if face is not None:
            face.attach(self)

    @property
    def path(self) -> str:
        """The store file."""
        return self._database.path

    def __repr__(self) -> str:
        return f"<Loom {self.path}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- runs -------------------------------------------------------------------------------------

    def start(
        self,
        workflow: type[BaseWorkflow[Any]] | str,
        args: Any = None,
        *,
        key: str | None = None,
        fresh: bool = False,
        labels: Sequence[str] = (),
        title: str | None = None,
        step_limit: int | None = None,
        durability: Durability | None = None,
        loop: Literal["thread", "kernel"] = "thread",
        config: Any = None,
        app: StudioApp | None = None,
    ) -> Run:
        """Start a run and return at once. As a cell's last line it is the live panel.

        Args:
            workflow: the class, or its name.
            args: its arguments, judged by the workflow's schema; copied.
            key: find the stored run of this key instead of starting a second one, also after a restart.
            fresh: with a key: a new run all the same.
            labels: free words to find it by.
            title: what people read above it.
            step_limit: moves it may make without coming to rest; default: the workflow's.
            durability: default: the store's.
            loop: `kernel` moves it on the notebook's own loop, for async clients that were made in a cell.
            config: its configuration, judged by the workflow's config schema; `ctx.config` in its transitions.
            app: the app it belongs to, with a workspace of its own: it must list the workflow, whose bodies get the services the
                app provides.

        Raises:
            ArgsInvalid: the arguments or the configuration do not fit; no run was made.
            Conflict: the key's run was started with other arguments or another configuration.
            DefinitionError: the class is no workflow.
            NotFound: no workflow has this name.
            Refused: the app does not list it.
        """
        if durability is not None:
            _check_durability(durability)
        record = self.runtime.start(
            definition_of(workflow) if app is None else app.pick(workflow),
            args,
            key=key,
            fresh=fresh,
            labels=labels,
            title=title,
            step_limit=step_limit,
            pipelined=None if durability is None else durability == "pipelined",
            loop=loop,
            config=config,
            services_of=app.name if app is not None and app.provide else "",
            owner=self.runtime.owner(LOCAL_USER, app.name) if app is not None else None,
        )
        return self._handle(record)

    def flow(
        self,
        blueprint: Blueprint | WorkflowModule | str | os.PathLike[str],
        intent: str,
        *,
        key: str | None = None,
        fresh: bool = False,
        labels: Sequence[str] = (),
        title: str | None = None,
        project: str | os.PathLike[str] | None = None,
        models: Mapping[str, ModelProvider] | ModelProvider | None = None,
        source: Literal["cli", "studio", "agent_ide"] = "cli",
        step_limit: int | None = None,
        loop: Literal["thread", "kernel"] = "thread",
    ) -> FlowRun:
        """Start a blueprint and return at once. As a cell's last line it is the live panel.

        What is wrong is refused here, and leaves no run behind; what goes wrong later is the run's `view().last_error`.

        Args:
            blueprint: a Blueprint, a WorkflowModule, the path of a blueprint's folder, or the name of a flow that is known here.
            intent: what it is for, to the letter: what each stage's initializer is given.
            key: find the stored run of this key instead of starting a second one, also after a restart.
            fresh: with a key: a new run all the same.
            labels: free words to find it by.
            title: what people read above it.
            project: the folder its steps may read, write and run programs in; without one they have no `access.project`.
            models: the models of its agent steps: one for all, or by role (`reasoning`, `coding`, `review`, `default`). They are
                not stored: after a restart those of `loom.use_models(…)` play.
            source: who starts it, as its view tells.
            step_limit: steps it may make without coming to rest.
            loop: `kernel` moves it on the notebook's own loop, for async clients that were made in a cell.

        Raises:
            InvalidRequest: the intent is no text or blank, the project is no folder, or a role of an agent has no model.
            BlueprintInvalid: the blueprint cannot work; every problem is told.
            StepError: its entry stage or step is not defined (INVALID_CURSOR), or it could not be stored (RUN_CHECKPOINT_FAILED).
            NotFound: no flow has this name.
            StoreBusy: it is exclusive and another run is active, or the other way round (BUSY); try again later.
            Unavailable: the store was closed.
        """
        if self.runtime.closed:
            raise Unavailable("The store was closed.", advice="Open it again: loom.open(...).", retryable=False)
        if not isinstance(blueprint, str):  # the contract's order: an unknown name, then the intent, then what it begins with
            check_intent(intent)
        definition = known_blueprint(blueprint)
        check_intent(intent)
        given = check_models(definition, models)
        config: dict[str, Any] = {"source": check_source(source)}
        config |= {"project": check_project(project, self.path)} if project is not None else {}
        config |= {"exclusive": True} if definition.exclusive else {}
        with models_of(given), checkpointing():
            record = self.runtime.start(
                definition,
                {"intent": intent},
                key=key,
                fresh=fresh,
                labels=labels,
                title=title,
                step_limit=step_limit,
                pipelined=False,  # what a step does is durable at the call, whatever the store does for workflows
                loop=loop,
                config=config,
                run_id=new_run_id(self.runtime.source),
                stamped=True,
                admit=lambda live: admit(definition, live),
            )
        for problem in definition.problems:
            record.log(f"loom: {problem}\n")
        handle = self._handle(record)
        assert isinstance(handle, FlowRun)
        return handle

    def define(self, blueprint: Blueprint | WorkflowModule | str | os.PathLike[str]) -> Restored:
        """Make a blueprint known here without starting it, so that its stored runs go on; those of them that are not finished.

        After a restart, the cell that makes the blueprint does not say so by itself; `loom.flow` does, and so does this. As a
        cell's last line it says what becomes of each run and what you can do.

        Args:
            blueprint: what `loom.flow` takes.

        Raises:
            BlueprintInvalid: the blueprint cannot work; every problem is told.
            NotFound: no flow has this name.
        """
        name = known_blueprint(blueprint).name
        return self._restored(lambda record: record.workflow == name, _known_text(name))

    def flows(self, flow_name: str | None = None) -> list[FlowRun]:
        """Every run of a blueprint, finished ones too, in the order they were started.

        Args:
            flow_name: only those of this flow.
        """
        rows = self._database.read(
            "select run_id from journal where kind = 'run.started' and (body->>'at') is not null "
            "and ($name is null or body->>'workflow' = $name) order by seq",
            {"name": flow_name},
        )
        found = [self.runtime.readable(run_id) for (run_id,) in rows if run_id not in self.runtime.unrecoverable]
        handles = [self._handle(record) for record in found if record is not None]
        return [run for run in handles if isinstance(run, FlowRun)]

    def cancel_all_runs(self) -> None:
        """Stop every run of a blueprint that is active; where there is none, nothing happens."""
        for run in self.flows():
            if run.status not in FINISHED:
                run.cancel()

    @property
    def storage(self) -> Storage:
        """The artifacts and records of this store, for cells: reads, and `await loom.storage.commit([...])`."""
        if self._storage is None:
            self._storage = Storage(self._database)
        return self._storage

    def artifact(self, flow_or_id: str, stage: str | None = None) -> Artifact:
        """An artifact: as a cell's last line it is drawn, with its revisions.

        Args:
            flow_or_id: its flow, or with nothing else its id.
            stage: its stage.

        Raises:
            NotFound: there is none.
            InvalidRequest: that is no name.
        """
        found = self.storage.artifact(flow_or_id) if stage is None else self.storage.artifact(flow_or_id, stage)
        return Artifact(**{f.name: getattr(found, f.name) for f in fields(found)})

    def run(self, run_id: str) -> Run:
        """The handle of a run, also of one of an earlier kernel.

        Raises:
            NotFound: this store has no such run.
        """
        return self._handle(self.runtime.record(run_id))

    def runs(self, *, status: str | None = None, workflow: str | None = None, labels: Sequence[str] = ()) -> Relation:
        """A table of the runs, newest first.

        Args:
            status: only those.
            workflow: only those of this name.
            labels: only those that have all of them.
        """
        if status is not None and status not in set(Status):
            raise Refused(f"{status!r} is no status.", advice=f"One of: {', '.join(Status)}.")
        sql = (
            "select run_id, title, workflow, status, place, moves, error_message, started_at, updated_at, labels from runs "
            "where ($status is null or status = $status) and ($workflow is null or workflow = $workflow) "
            "and list_has_all(coalesce(labels, []), $labels::varchar[]) order by number desc"
        )
        return self.sql(sql, {"status": status, "workflow": workflow, "labels": list(labels)})

    def pending(self) -> Pending:
        """Every open ask of every run, oldest run first."""
        found = []
        for record in self.runtime.live():
            handle = self._handle(record)
            found += [PendingAsk(handle, ask) for ask in record.view.asks]
        notes = [
            f"{record.title} ({record.id}) stopped with its kernel. {record.advice or record.notice}"
            for record in self.runtime.live()
            if record.status is Status.INTERRUPTED and (record.advice or record.notice)
        ]
        notes += [
            f"The run {run_id} cannot be read and was left as it is: {why}" for run_id, why in self.runtime.unrecoverable.items()
        ]
        return Pending(found, notes)

    def restore(self) -> Restored:
        """Let the runs of a dead kernel go on whose definition is known; every run that is not finished.

        As a cell's last line it says what went on by itself, what waits, what was interrupted or changed, what cannot be read,
        and what you can do about each. A blueprint is known here after `loom.flow` or `loom.define`.
        """
        self.runtime.restore()
        return self._restored(lambda _: True)

    def _restored(self, wanted: Callable[[RunRecord], bool], heading: str = "") -> Restored:
        resumed = [self.runtime.record(run_id) for run_id in tuple(self.runtime.resumed)]
        return Restored(
            [self._handle(record) for record in self.runtime.live() if wanted(record)],
            resumed=[self._handle(record) for record in resumed if wanted(record)],
            unrecoverable=self.runtime.unrecoverable if not heading else None,
            heading=heading,
        )

    def _handle(self, record: RunRecord) -> Run:
        if record.stamped and record.artifacts is None:
            record.artifacts = self.storage.artifacts_of(record.id) if record.moves else ()
        kind = FlowRun if record.stamped else AskRun if record.workflow == ASK.name else Run
        return kind(record, self.runtime, _current_face)

    def events(self, after: int | str | None = None) -> AsyncGenerator[RunEvent]:
        """What happens to any run from now on: `async for event in loom.events(): …`. Ends when the store is closed.

        Args:
            after: the `id` of the last event you have seen, 0 for all there are. A cursor that is none of this store's gives one
                `stream.reset`, with the id to go on from.
        """
        return self.runtime.events(after)

    # -- asking -----------------------------------------------------------------------------------

    def ask_questions(self, questions: Sequence[Any], *, key: str | None = None, fresh: bool = False) -> AskRun:
        """Ask questions in a cell: `answers = await loom.ask_questions([...])`, or `.wait()` in a plain cell.

        Args:
            questions: `{"id", "question", "isSkippable", "description"?, "options"?}` each (IntLoom's schema); copied.
            key: running the cell again finds the earlier answer.
            fresh: with a key: ask anew.

        Raises:
            ArgsInvalid: these are no questions.
            Conflict: other questions were asked under this key.
        """
        _refuse_in_move("ask_questions")
        args: dict[str, Any] = {"questions": [q.dump() for q in check_questions(questions)]}
        return self._ask(args, key, fresh, "Question" if len(args["questions"]) == 1 else "Questions")

    def confirm(self, context: str, *, key: str | None = None, fresh: bool = False) -> AskRun:
        """Ask for a confirmation in a cell; `.is_confirmed` and `.feedback` of what awaiting it gives.

        Args:
            context: what to confirm; Markdown.
            key: running the cell again finds the earlier verdict.
            fresh: with a key: ask anew.

        Raises:
            ArgsInvalid: the context is no text, or empty.
            Conflict: something else was to be confirmed under this key.
        """
        _refuse_in_move("confirm")
        return self._ask({"confirm": check_confirmation(context)}, key, fresh, "Confirmation")

    def _ask(self, args: dict[str, Any], key: str | None, fresh: bool, title: str) -> AskRun:
        if key is not None:
            args["key"] = key
        record = self.runtime.start(ASK, args, key=key, fresh=fresh, title=title)
        handle = self._handle(record)
        assert isinstance(handle, AskRun)
        return handle

    def answers(self, mapping: Mapping[str, Any] | None) -> None:
        """Answers as data, for running without a person. Replaces what was given before, also the file's; None clears.

        Args:
            mapping: definition name (or "*"; questions asked in a cell are under "ask") → question id, wait transition, or a
                confirmation's key (else "confirm") → what `run.answer` takes. A list is one answer per time it is asked (a
                payload that is a list goes inside one); None skips.

        Raises:
            ArgsInvalid: the shape is wrong; what was given before stays.
        """
        self._script = Script(mapping, "loom.answers") if mapping is not None else None
        self._file_script, self._file_looked_for = None, mapping is None and self._file_looked_for
        if mapping is None:
            self._file_looked_for = True  # None clears: neither a call nor a file answers any more
        for record in self.runtime.live():
            if record.view.asks:
                record.script_error, record.scripting = None, True  # who waits for it waits until the answers were looked at
                assert record.host is not None
                record.host.post(self.runtime.try_script, record)

    def _scripted(self, record: RunRecord, ask: Ask) -> tuple[Any, str]:
        if self._script is not None:
            return self._from(self._script, record, ask)
        if not self._file_looked_for:
            self._file_looked_for = True
            self._file_script = _answers_file()
        if self._file_script is not None:
            return self._from(self._file_script, record, ask)
        return NOTHING, ""

    @staticmethod
    def _from(script: Script, record: RunRecord, ask: Ask) -> tuple[Any, str]:
        payload = script.payload(record.workflow, ask)
        return payload, script.missing(record.workflow, ask) if payload is NOTHING else script.source

    # -- SQL --------------------------------------------------------------------------------------

    def sql(self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Relation:
        """Run one read-only query over the store; frames of the notebook are found by name.

        Tables: runs, moves, documents, asks, answers, logs, events, states, artifacts, artifact_history, records, step_calls,
        journal.

        Args:
            sql: one statement.
            params: values for `?` (a list) or `$name` (a mapping).

        Raises:
            Refused: it is not one query, it would write, or DuckDB refuses it.
        """
        frame = inspect.currentframe()
        names = list(_caller_names(frame.f_back if frame else None))
        face = notebook_face()
        relation = query(self._database, sql, params, lambda n: _frame(n, names, face), _interruptible)
        if face is not None:
            relation.show_live = face.show_relation
        return relation

    def snapshot(self, path: str) -> Path:
        """Write a copy of the store that any other kernel may open; the file must not exist.

        Raises:
            Refused: it exists.
        """
        return self._database.snapshot(path)

    def close(self) -> None:
        """Finish what was accepted and release the file. Runs in progress are made again by the next kernel."""
        with _Process.guard:
            self.runtime.close()
            self._database.close()
            _Process.stores.pop(self.path, None)
            if _Process.default is self:
                _Process.default = next(reversed(_Process.stores.values()), None) if _Process.stores else None


def _check_durability(durability: str) -> None:
    if durability not in ("sync", "pipelined"):
        raise Refused(f"durability={durability!r} is not known.", advice="Use 'sync' (the default) or 'pipelined'.")


def _refuse_in_move(what: str) -> None:
    if CURRENT.get() is not None:
        raise Refused(
            f"loom.{what} is for cells; a transition cannot stop in the middle to ask.",
            advice="End the transition in a place with a wait transition: @loom.transition(from_=…, to=…, wait=True, schema=…).",
        )


def _answers_file() -> Script | None:
    named = os.environ.get("LOOMNB_ANSWERS")
    if named:
        return read_answers(Path(named))
    beside = Path("answers.yaml")
    face = notebook_face()
    if face is not None and face.answers_beside_notebook() and beside.exists():
        return read_answers(beside)
    return None


def _caller_names(frame: Any) -> Iterator[Mapping[str, Any]]:
    """The variables of whoever called, nearest first, past our own frames."""
    package = str(Path(__file__).resolve().parent)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(package):
            yield frame.f_locals
            yield frame.f_globals
            return
        frame = frame.f_back


def _frame(name: str, names: Sequence[Mapping[str, Any]], face: NotebookFace | None) -> Any:
    spaces = [*names, *([face.names()] if face is not None else [])]
    for space in spaces:
        value = space.get(name)
        if isinstance(value, Relation):
            return value.arrow()
        if value is not None and type(value).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow", "duckdb", "numpy"):
            return value
    return None


def _interruptible(work: Callable[[], Any], interrupt: Callable[[], None]) -> Any:
    """Run a query so that a kernel interrupt stops it: it works on another thread, and this one waits in short slices."""
    done = threading.Event()
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.append(work())
        except BaseException as exc:  # noqa: BLE001  # raised again on the thread that waits
            outcome.append(exc)
        finally:
            done.set()

    thread = threading.Thread(target=call, name="loom query", daemon=True)
    thread.start()
    try:
        while not done.wait(0.1):
            pass
    except BaseException:
        for _ in range(40):  # again and again: one that comes before the statement has begun stops nothing
            interrupt()
            if done.wait(0.05):
                break
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


# -- the default session ---------------------------------------------------------------------------


def open_store(path: str | os.PathLike[str] | None = None, *, durability: Durability = "sync", source: Source = SYSTEM) -> Loom:
    """Open a store and make it the default. The same path again gives the same one; others stay open.

    Args:
        path: the file; default: $LOOMNB_STORE, else ./loom.duckdb. ":memory:" keeps nothing.
        durability: see `Loom`.
        source: ids and clock; for tests.

    Raises:
        StoreBusy: another kernel owns the file.
        StoreDamaged: it cannot be read.
        Conflict: it is open here with another durability.
    """
    name = os.fspath(path) if path is not None else os.environ.get("LOOMNB_STORE") or DEFAULT_PATH
    resolved = name if name == MEMORY else str(Path(name).resolve())
    with _Process.guard:
        found = _Process.stores.get(resolved)
        if found is None:
            _Process.refused = resolved
            found = Loom(resolved, durability=durability, source=source)
            _Process.stores[resolved] = found
        elif found.runtime.pipelined != (durability == "pipelined") and durability != "sync":
            raise Conflict(f"{resolved} is open with another durability.", advice="loom.close() first, then open it again.")
        _Process.default, _Process.refused = found, ""
        return found


class WorkflowRunner(Runner):
    """Starts, resumes, retries and cancels runs from a program, for any user and app.

    Results may be awaited, as in the seed; nothing has to be.

    Args:
        session: the store; default: the default one.
    """

    def __init__(self, session: Loom | None = None) -> None:
        super().__init__((session or default()).runtime)


def default() -> Loom:
    """The default store, opened on first use."""
    with _Process.guard:
        if _Process.default is None and _Process.refused:
            raise StoreClosed(
                f"No store is open: {_Process.refused} could not be opened.",
                advice="Open one first: loom.open(...). loom.open() alone takes ./loom.duckdb.",
            )
        return _Process.default if _Process.default is not None else open_store()


def close() -> None:
    """Close the default store; without one, nothing happens."""
    with _Process.guard:
        _Process.refused = ""
        if _Process.default is not None:
            _Process.default.close()


def start(
    workflow: type[BaseWorkflow[Any]] | str,
    args: Any = None,
    *,
    key: str | None = None,
    fresh: bool = False,
    labels: Sequence[str] = (),
    title: str | None = None,
    step_limit: int | None = None,
    durability: Durability | None = None,
    loop: Literal["thread", "kernel"] = "thread",
    **options: Any,
) -> Run:
    """Start a run in the default store: see `Loom.start`."""
    return default().start(
        workflow,
        args,
        key=key,
        fresh=fresh,
        labels=labels,
        title=title,
        step_limit=step_limit,
        durability=durability,
        loop=loop,
        **options,
    )


class App(StudioApp):
    """What `@loom.studio_app` makes of a class. As a cell's last line it lists its workflows and how to start them."""

    def start(self, workflow: type[BaseWorkflow[Any]] | str, args: Any = None, **options: Any) -> Run:
        """Start one of its workflows in the default store: see `Loom.start`, whose options it takes.

        Raises:
            Refused: the app does not list it.
        """
        return default().start(workflow, args, app=self, **options)

    def _ipython_display_(self) -> None:
        face = notebook_face()
        if face is not None:
            default()  # a launcher starts runs: its store is opened now, and an error of it told here
        if face is None or not face.show_app(self):
            raise NotImplementedError  # IPython then takes the static forms


def studio_app(
    *,
    title: str,
    app: str | None = None,
    description: str | None = None,
    workflows: Sequence[type[BaseWorkflow[Any]]] = (),
    ui: StudioUiConfig | Mapping[str, Any] | None = None,
    provide: Provide | None = None,
) -> Callable[[type], App]:
    """Make a class an app: workflows a person can start, and the services their runs get.

    The class stands for the app from then on: `HelloApp.start("hello", {...})`; in a cell it shows what it offers.

    Args:
        title: what people read.
        app: the identifier; default: the class name in snake case, `…Module` as `…_app`.
        description: for people; default: the class's docstring.
        workflows: the classes it offers.
        ui: what it shows beside them: `{"widgets": [{"widget": name, "options"?: {...}}]}`.
        provide: class → what stands in for it in the app's runs (an instance, a class to make, or a function that makes one);
            function tool → a function or tool to call instead. A run of such an app goes on only where the app is defined.

    Raises:
        DefinitionError: it cannot work, or its name is taken.
    """
    options = StudioAppOptions(title=title, app=app, description=description, workflows=workflows, ui=ui, provide=provide or {})

    def define(cls: type) -> App:
        made = App(cls, options)
        register_app(made, cls)
        return made

    return define


def flow(
    blueprint: Blueprint | WorkflowModule | str | os.PathLike[str],
    intent: str,
    *,
    key: str | None = None,
    fresh: bool = False,
    labels: Sequence[str] = (),
    title: str | None = None,
    project: str | os.PathLike[str] | None = None,
    models: Mapping[str, ModelProvider] | ModelProvider | None = None,
    **options: Any,
) -> FlowRun:
    """Start a blueprint in the default store: see `Loom.flow`."""
    return default().flow(
        blueprint, intent, key=key, fresh=fresh, labels=labels, title=title, project=project, models=models, **options
    )


def define(blueprint: Blueprint | WorkflowModule | str | os.PathLike[str]) -> Restored:
    """Make a blueprint known: see `Loom.define`. Where no store is open, none is opened for it."""
    with _Process.guard:
        session = _Process.default
    if session is None and not _Process.refused:
        return Restored([], heading=_known_text(known_blueprint(blueprint).name))
    return default().define(blueprint)


def _known_text(flow_name: str) -> str:
    return f"The blueprint {flow_name!r} is known here."


def flows(flow_name: str | None = None) -> list[FlowRun]:
    """Every run of a blueprint: see `Loom.flows`."""
    return default().flows(flow_name)


def cancel_all_runs() -> None:
    """Stop every active run of a blueprint: see `Loom.cancel_all_runs`."""
    default().cancel_all_runs()


def artifact(flow_or_id: str, stage: str | None = None) -> Artifact:
    """An artifact of the default store: see `Loom.artifact`."""
    return default().artifact(flow_or_id, stage)


def run(run_id: str) -> Run:
    """The handle of a run: see `Loom.run`."""
    return default().run(run_id)


def runs(*, status: str | None = None, workflow: str | None = None, labels: Sequence[str] = ()) -> Relation:
    """A table of the runs: see `Loom.runs`."""
    return default().runs(status=status, workflow=workflow, labels=labels)


def events(after: int | str | None = None) -> AsyncGenerator[RunEvent]:
    """What happens to any run: see `Loom.events`."""
    return default().events(after)


def pending() -> Pending:
    """Every open ask: see `Loom.pending`."""
    return default().pending()


def restore() -> Restored:
    """Let the runs of a dead kernel go on: see `Loom.restore`."""
    return default().restore()


def ask_questions(questions: Sequence[Any], *, key: str | None = None, fresh: bool = False) -> AskRun:
    """Ask questions in a cell: see `Loom.ask_questions`."""
    return default().ask_questions(questions, key=key, fresh=fresh)


def confirm(context: str, *, key: str | None = None, fresh: bool = False) -> AskRun:
    """Ask for a confirmation in a cell: see `Loom.confirm`."""
    return default().confirm(context, key=key, fresh=fresh)


def answers(mapping: Mapping[str, Any] | None) -> None:
    """Answers as data: see `Loom.answers`."""
    default().answers(mapping)


def sql(sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Relation:
    """Run one read-only query over the default store: see `Loom.sql`."""
    return default().sql(sql, params)


def snapshot(path: str) -> Path:
    """Write a copy of the default store: see `Loom.snapshot`."""
    return default().snapshot(path)


# The default store's verbs are the same verbs: what `loom.start?` shows is what `Loom.start?` shows.
_VERBS: Sequence[Callable[..., Any]] = (
    *(start, flow, define, flows, artifact, cancel_all_runs, run, runs, pending, restore, ask_questions, confirm, answers, sql),
    snapshot,
)
for _verb in _VERBS:
    _verb.__doc__ = getattr(Loom, _verb.__name__).__doc__


@atexit.register
def _at_exit() -> None:
    for session in list(_Process.stores.values()):
        with contextlib.suppress(LoomError):
            session.close()
