"""What tests of interaction, cancelling and recovery share: short blueprints, kernels that know only what they define, gates."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import loomnb as loom
from loomnb.ids import SYSTEM, Source
from loomnb.runtime import REGISTRY
from loomnb.store import Action, Chain, Database, Row
from loomnb.store.writer import commit_error
from tests.helpers import PATIENCE, at_rest

__all__ = [
    "DONE",
    "Disk",
    "Gate",
    "asking",
    "blueprint",
    "code_of",
    "commits",
    "in_code",
    "kernel",
    "kinds",
    "only",
    "question",
    "stage",
    "started",
    "try_",
]

DONE = loom.StepResult("complete")


def question(name: str, text: str = "Which?", **more: Any) -> dict[str, Any]:
    return {"id": name, "question": text, "isSkippable": False, **more}


def stage(
    steps: Mapping[str, Any],
    *,
    schema: Any = Any,
    initialize: Callable[[Any], Any] = lambda context: {"value": 0},
    on: Mapping[str, Any] | None = None,
) -> loom.BlueprintStage:
    """A stage of codes, in order: `complete` leads to the next, `again` to the same one, `retry` to the first."""
    names = list(steps)
    routed = {}
    for name, following in zip(names, [*names[1:], None], strict=True):
        complete = loom.STAGE_END if following is None else following
        on_step = {"complete": complete, "again": name, "retry": names[0], "reenter": loom.STAGE_END}
        routed[name] = loom.BlueprintStep(execution=steps[name], on=on_step)
    return loom.BlueprintStage(
        state_schema=schema,
        initialize_state=initialize,
        entry_step_name=names[0],
        steps=routed,
        on={"complete": loom.WORKFLOW_END, "reenter": loom.WORKFLOW_END, **(on or {})},
    )


def blueprint(
    steps: Mapping[str, Any] | Any, *, name: str = "fixture", second: Mapping[str, Any] | None = None, **options: Any
) -> loom.Blueprint:
    """A flow of one stage, `first`, made of codes (or of one, `start`); with `second`, of two."""
    steps = steps if isinstance(steps, Mapping) else {"start": steps}
    on = {"complete": "second", "reenter": "first"} if second is not None else {"reenter": "first"}
    stages = {"first": stage(steps, on=on, **options)}
    if second is not None:
        stages["second"] = stage(second, **options)
    return loom.Blueprint(flow_name=name, entry_stage_name="first", stages=stages)


def asking(effects: list[Any], *, recovers: bool = True, context: str = "Go?") -> loom.Code[Any]:
    """Writes State 1, asks, writes what it heard; `effects` tells what ran."""

    @loom.code
    async def ask(access: Any) -> loom.StepResult:
        effects.append("ask")
        await access.state.update({"value": 1})
        verdict = await access.interaction.confirm(context)
        effects.append(["went on", verdict.is_confirmed])
        await access.state.update({"value": 2})
        return DONE

    if recovers:

        @ask.recover
        async def recover(saved: Any, access: Any) -> loom.StepResult:
            effects.append(["recover", saved.action.kind, saved.answer, access.state.value])
            return DONE

    return ask


def started(session: loom.Loom, steps: Any, intent: str = "do it", **options: Any) -> loom.FlowRun:
    """A run of a blueprint of these codes, at its first rest."""
    run = session.flow(steps if isinstance(steps, loom.Blueprint) else blueprint(steps, **options), intent)
    at_rest(run)
    return run


@contextmanager
def kernel(path: Path, *known: loom.Blueprint, database: Any = Database, source: Source = SYSTEM) -> Iterator[loom.Loom]:
    """A kernel that was just started on a store: no blueprint is known in it but these, whose cells are run after the open."""
    for name in [d.name for d in REGISTRY if getattr(d, "is_strict", False)]:
        del REGISTRY._known[name]
    session = loom.Loom(str(path), database=database, source=source)
    try:
        for one in known:
            session.define(one)
        yield session
    finally:
        session.close()


def only(session: loom.Loom) -> loom.FlowRun:
    """The one run of a store."""
    (run,) = session.flows()
    return run


def kinds(session: loom.Loom, run_id: str) -> list[str]:
    """The kinds of the journal's rows of a run."""
    return [k for (k,) in session.sql("select kind from journal where run_id = $id order by seq", {"id": run_id}).fetchall()]


def commits(session: loom.Loom) -> list[Any]:
    """What the records of a store say, oldest first by id."""
    return sorted((r.id, r.data) for r in session.storage.list_records({"limit": 200}).wait().data)


async def try_(make: Callable[[], Any]) -> Any:
    """The code of the error that a call raises, or its awaitable does; `fine` when it does not."""
    try:
        made = make()
        if asyncio.isfuture(made) or asyncio.iscoroutine(made):
            await made
    except loom.LoomError as exc:
        return exc.code
    return "fine"


def code_of(call: Callable[[], Any]) -> str:
    """The same for a call of the test's own."""
    try:
        call()
    except loom.LoomError as exc:
        return exc.code
    return "fine"


class Gate:
    """A point in a code that the test holds: `await gate()` there, `gate.reached()` and `gate.open()` in the test."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    async def __call__(self) -> None:
        self._reached.set()
        await asyncio.to_thread(self._open.wait, PATIENCE)

    def hold(self) -> None:
        """The same in a plain def."""
        self._reached.set()
        self._open.wait(PATIENCE)

    def reached(self) -> None:
        assert self._reached.wait(PATIENCE), "nothing came to the gate"

    def open(self) -> None:
        self._open.set()


class Disk:
    """A store whose disk fails or hangs when it is told to: `kernel(path, database=Disk(...))`.

    Attributes:
        fails: a batch is refused, as by a full disk, when this says so of its rows.
        gate: a transaction that is written is heard of only when this is opened.
    """

    def __init__(self) -> None:
        self.fails: Callable[[list[Row]], bool] = lambda rows: False
        self.gate: Gate | None = None

    def __call__(self, path: str, source: Source) -> Database:
        return _Failing(path, source, self)


class _Failing(Database):
    def __init__(self, path: str, source: Source, disk: Disk) -> None:
        self._disk = disk
        super().__init__(path, source)

    def put(self, rows: Any, done: Any, **options: Any) -> None:
        if self._disk.fails(list(rows)):
            done(commit_error(OSError("the disk said no")), 0)
            return
        super().put(rows, done, **options)

    def transact(self, action: Action[Any], done: Any, *, chain: Chain | None = None) -> None:
        gate = self._disk.gate

        def heard(error: Any, value: Any) -> None:
            def tell() -> None:
                if gate is not None:
                    gate.hold()
                done(error, value)

            threading.Thread(target=tell, daemon=True).start()

        super().transact(action, heard if gate is not None else done, chain=chain)


def in_code(result: list[Any], body: Callable[[Any], Any], *, name: str = "fixture") -> loom.Blueprint:
    """A blueprint of one code, `body(access)`, whose value is put into `result`."""

    async def start(access: Any) -> loom.StepResult:
        result.append(await body(access))
        return DONE

    return blueprint(loom.code(start), name=name)
