"""`Loom`: an open store with its runs. Wires store, runtime, definitions, blueprints and answers."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, Self

import duckdb

from loomnb.agents import (
    AGENT_CONFIG,
    JournalPricing,
    ModelPrice,
    SqlGovernance,
    agent_store_of,
    canceled_rows,
    model_of_name,
    seed_model_prices,
)
from loomnb.asks import NOTHING, Ask, Script, check_confirmation, check_questions, read_answers
from loomnb.blueprints import (
    Blueprint,
    FlowRun,
    Storage,
    WorkflowModule,
    admit,
    check_intent,
    check_models,
    check_name,
    check_project,
    check_source,
    checkpointing,
    known_blueprint,
    models_of,
    new_run_id,
    titled,
)
from loomnb.errors import InvalidRequest, Refused, Unavailable
from loomnb.ids import SYSTEM, Source
from loomnb.ready import ASK, know_ready
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
from loomnb.store import Database, Relation, damaged, query
from loomnb.studio.chats import AgentRun
from loomnb.studio.costs import Costs, CostsBy, costs_of
from loomnb.studio.decisions import Approvals
from loomnb.studio.face import current_face, notebook_face
from loomnb.studio.held import Held
from loomnb.studio.queries import caller_names, frame_of, interruptible
from loomnb.studio.shown import Artifact, AskRun, Pending, PendingAsk
from loomnb.workflows import (
    BaseWorkflow,
    StudioApp,
    definition_of,
)

__all__ = ["Durability", "Loom", "known_text", "named_models"]

Durability = Literal["sync", "pipelined"]


class Loom:
    """An open store with its runs. Module-level verbs (`loom.start`, …) act on the default one.

    Args:
        path: the store file; ":memory:" for none.
        durability: `sync` (each move is durable before the next begins) or `pipelined` (automatic moves go on while the commit
            of the last one is in flight; nothing is shown or answered before its commit). The default of each run.
        source: ids and clock; for tests.
        database: opens the store; for tests.
        headless: never show anything, and ask nobody, whatever front end there is; for tests.

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
        headless: bool = False,
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
            self.runtime.with_canceled(lambda record: canceled_rows(self._database, record))
        except BaseException as exc:
            self._database.close()
            if isinstance(exc, duckdb.Error):
                raise damaged(path, exc) from exc
            raise
        self._face: Callable[[], Face] = NoFace if headless else current_face
        face = None if headless else notebook_face()
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
        models: Mapping[str, ModelProvider | str] | ModelProvider | str | None = None,
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
            title: what people read above it; default: the blueprint's with the beginning of the intent.
            project: the folder its steps may read, write and run programs in; without one they have no `access.project`.
            models: the models of its agent steps: one for all, or by role (`reasoning`, `coding`, `review`, `default`); an object
                with `run_turn`, or what names a model, as `loom.Agent` takes it (`"anthropic:…"`, an address). They are not
                stored: after a restart those of `loom.use_models(…)` play.
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
        given = check_models(definition, named_models(models))
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
                title=title or titled(definition.title, intent),
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
        return self._restored(lambda record: record.workflow == name, known_text(name))

    def flows(self, flow_name: str | None = None) -> list[FlowRun]:
        """Every run of a blueprint, finished ones too, in the order they were started.

        Args:
            flow_name: only those of this flow.

        Raises:
            InvalidRequest: that is no name.
        """
        if flow_name is not None:
            check_name(flow_name, "flow_name")
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

    @property
    def face(self) -> Callable[[], Face]:
        """What finds the face that shows runs."""
        return self._face

    def _handle(self, record: RunRecord) -> Run:
        if record.stamped and record.artifacts is None:
            record.artifacts = self.storage.artifacts_of(record.id) if record.moves else ()
        kind = FlowRun if record.stamped else AskRun if record.workflow == ASK.name else Run
        if isinstance(record.config, Mapping) and AGENT_CONFIG in record.config:
            kind = AgentRun
        return kind(record, self.runtime, self._face)

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

    # -- agents -----------------------------------------------------------------------------------

    def set_model_prices(self, prices: Mapping[str, tuple[float, float]] | Sequence[ModelPrice]) -> None:
        """Say what models cost; see `loom.set_model_prices`.

        Raises:
            InvalidRequest: a price is no number from 0 on. None of them was stored.
        """
        given = _priced(prices)
        store = agent_store_of(self._database, self.runtime.source)
        store.now(seed_model_prices(JournalPricing(self._database), given))

    def costs(self, by: CostsBy = "model") -> Costs:
        """What calls of models used and cost: as a cell's last line a table; `.chart()` draws it.

        Args:
            by: one row for each `model`, `thread`, `agent` or `day`.

        Raises:
            Refused: there is no such grouping.
        """
        return costs_of(self.sql, by)

    def approvals(self) -> Approvals:
        """What agents ask before they act, decided by the id of a call: `loom.approvals().approve(tool_call_id)`."""
        return Approvals(self.pending, self._database.read)

    def governance(self) -> SqlGovernance:
        """What those who are responsible for agents ask: `await loom.governance().run_metrics(DayRange(first, last))`."""
        return SqlGovernance(self._database.read)

    # -- SQL --------------------------------------------------------------------------------------

    def sql(self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Relation:
        """Run one read-only query over the store; frames of the notebook are found by name.

        Tables: runs, moves, documents, asks, answers, logs, events, states, artifacts, artifact_history, records, step_calls,
        threads, messages, tool_calls, model_usage, model_costs, model_prices, agent_runs, memories, journal.

        Args:
            sql: one statement.
            params: values for `?` (a list) or `$name` (a mapping).

        Raises:
            Refused: it is not one query, it would write, or DuckDB refuses it.
        """
        frame = inspect.currentframe()
        names = list(caller_names(frame.f_back if frame else None))
        face = notebook_face()
        relation = query(self._database, sql, params, lambda n: frame_of(n, names, face), interruptible)
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
        with Held.guard:
            self.runtime.close()
            self._database.close()
            Held.stores.pop(self.path, None)
            if Held.default is self:
                Held.default = next(reversed(Held.stores.values()), None) if Held.stores else None


def named_models(
    models: Mapping[str, ModelProvider | str] | ModelProvider | str | None,
) -> Mapping[str, ModelProvider] | ModelProvider | None:
    """Models, where some may be given by what names them.

    Raises:
        InvalidRequest: a text names no model.
    """
    if isinstance(models, Mapping):
        return {role: model_of_name(one) if isinstance(one, str) else one for role, one in models.items()}
    return model_of_name(models) if isinstance(models, str) else models


def _priced(prices: Mapping[str, tuple[float, float]] | Sequence[ModelPrice]) -> list[ModelPrice]:
    advice = 'Give USD for a million tokens in and out: {"model": (1.25, 10)}.'
    if not isinstance(prices, Mapping):
        if isinstance(prices, (str, bytes)) or not isinstance(prices, Sequence):
            raise InvalidRequest(f"{prices!r:.60} is no prices.", advice=advice)
        return list(prices)
    made: list[ModelPrice] = []
    for model, one in prices.items():
        if not isinstance(one, (tuple, list)) or len(one) != 2:
            raise InvalidRequest(
                f"The price of {model!r} is {one!r:.60}.",
                advice=advice,
            )
        made.append(ModelPrice(model_id=model, input_price_per_1m=one[0], output_price_per_1m=one[1]))
    return made


def _check_durability(durability: str) -> None:
    if durability not in ("sync", "pipelined"):
        raise Refused(f"durability={durability!r} is not known.", advice="Use 'sync' (the default) or 'pipelined'.")


def _refuse_in_move(what: str) -> None:
    attempt = CURRENT.get()
    if attempt is not None and attempt.live is not None:
        raise Refused(f"loom.{what} is for cells.", advice=f"In a step write `await access.interaction.{what}(…)`.")
    if attempt is not None:
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


def known_text(flow_name: str) -> str:
    """What `define` says first."""
    return f"The blueprint {flow_name!r} is known here."
