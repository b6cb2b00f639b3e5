"""The default store and the verbs that act on it; apps; what happens at the process's exit."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from loomnb.agents import ModelPrice, SqlGovernance, model_of_name
from loomnb.blueprints import Blueprint, FlowRun, WorkflowModule, blueprint_of, known_blueprint
from loomnb.errors import Conflict, LoomError
from loomnb.ids import SYSTEM, Source
from loomnb.present import Graph
from loomnb.ready import Runner
from loomnb.runtime import REGISTRY, ModelProvider, Restored, Run, RunEvent, definition_graph
from loomnb.runtime import use_models as use_process_models
from loomnb.store import MEMORY, Relation
from loomnb.studio.costs import Costs, CostsBy
from loomnb.studio.decisions import Approvals
from loomnb.studio.face import notebook_face
from loomnb.studio.held import Held
from loomnb.studio.session import Durability, Loom, known_text
from loomnb.studio.shown import Artifact, AskRun, Pending
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
    "WorkflowRunner",
    "answers",
    "approvals",
    "artifact",
    "ask_questions",
    "cancel_all_runs",
    "close",
    "confirm",
    "costs",
    "default",
    "define",
    "events",
    "flow",
    "flows",
    "governance",
    "graph",
    "open_store",
    "pending",
    "restore",
    "run",
    "runs",
    "set_model_prices",
    "snapshot",
    "sql",
    "start",
    "studio_app",
    "use_models",
]

DEFAULT_PATH = "loom.duckdb"


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
    with Held.guard:
        found = Held.stores.get(resolved)
        if found is None:
            Held.refused = resolved
            found = Loom(resolved, durability=durability, source=source)
            Held.stores[resolved] = found
        elif found.runtime.pipelined != (durability == "pipelined") and durability != "sync":
            raise Conflict(f"{resolved} is open with another durability.", advice="loom.close() first, then open it again.")
        Held.default, Held.refused = found, ""
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
    """The default store, opened on first use; one that could not be opened is tried again, because what comes next must not go
    into another."""
    with Held.guard:
        return Held.default if Held.default is not None else open_store(Held.refused or None)


def close() -> None:
    """Close the default store; without one, nothing happens."""
    with Held.guard:
        Held.refused = ""
        if Held.default is not None:
            Held.default.close()


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
    models: Mapping[str, ModelProvider | str] | ModelProvider | str | None = None,
    **options: Any,
) -> FlowRun:
    """Start a blueprint in the default store: see `Loom.flow`."""
    return default().flow(
        blueprint, intent, key=key, fresh=fresh, labels=labels, title=title, project=project, models=models, **options
    )


def define(blueprint: Blueprint | WorkflowModule | str | os.PathLike[str]) -> Restored:
    """Make a blueprint known: see `Loom.define`. Where no store is open, none is opened for it."""
    with Held.guard:
        session = Held.default
    if session is None and not Held.refused:
        return Restored([], heading=known_text(known_blueprint(blueprint).name))
    return default().define(blueprint)


def graph(of: type[BaseWorkflow[Any]] | Blueprint | WorkflowModule | str | os.PathLike[str]) -> Graph:
    """The picture of a workflow or a blueprint: as a cell's last line it is drawn. Nothing is started or made known.

    Args:
        of: a workflow class, a blueprint, the path of a blueprint's folder, or the name of one of them.

    Raises:
        NotFound: nothing has this name.
        DefinitionError: it cannot work.
    """
    if isinstance(of, type):
        return definition_graph(definition_of(of))
    return definition_graph(found if isinstance(of, str) and (found := REGISTRY.get(of)) is not None else blueprint_of(of))


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


def use_models(
    default: ModelProvider | str | None = None,
    *,
    reasoning: ModelProvider | str | None = None,
    coding: ModelProvider | str | None = None,
    review: ModelProvider | str | None = None,
) -> None:
    """Say which models play the agents of blueprints and the `llm_…` tools of this process, where nothing else is said. Replaces
    what was said before.

    Args:
        default: for the roles that have none of their own; an object with `run_turn`, or what names a model, as `loom.Agent`
            takes it (`"anthropic:…"`, an address).
        reasoning: for this role.
        coding: for this role.
        review: for this role.

    Raises:
        InvalidRequest: a text names no model.
    """
    given = {"reasoning": reasoning, "coding": coding, "review": review}
    named = {role: model_of_name(one) if isinstance(one, str) else one for role, one in given.items()}
    use_process_models(model_of_name(default) if isinstance(default, str) else default, **named)


def costs(by: CostsBy = "model") -> Costs:
    """What calls of models used and cost: as a cell's last line a table; `.chart()` draws it.

    Args:
        by: one row for each `model`, `thread`, `agent` or `day`.

    Raises:
        Refused: there is no such grouping.
    """
    return default().costs(by)


def approvals() -> Approvals:
    """What agents ask before they act, decided by the id of a call; see `Approvals`.

    loom.approvals().approve(call_id, remember=True)
    """
    return default().approvals()


def governance() -> SqlGovernance:
    """What those who are responsible for agents ask: `await loom.governance().run_metrics(loom.DayRange(first, last))`."""
    return default().governance()


def set_model_prices(prices: Mapping[str, tuple[float, float]] | Sequence[ModelPrice]) -> None:
    """Say what models cost, for what their providers do not price themselves; `model_costs` and the chat panel estimate by it.

    Args:
        prices: model → USD for a million tokens (input, output); or whole ModelPrices.

    Raises:
        InvalidRequest: a price is no number from 0 on; none of them was stored.
    """
    default().set_model_prices(prices)


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


# DuckDB registers an exit hook of its own on import, which interrupts every connection. Exit hooks run last in, first out: ours
# has to come after it to close in order, and does, because `session` above imports DuckDB.
@atexit.register
def _at_exit() -> None:
    for session in list(Held.stores.values()):
        with contextlib.suppress(LoomError):
            session.close()
