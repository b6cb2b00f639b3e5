"""What tests of running blueprints share: the fixture F2 of the cases, flows of one step, gates, and ways to wait for a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import loomnb as loom
from tests.helpers import PATIENCE, StillSource

__all__ = ["BLOWS", "F2State", "Gate", "code_of", "f2", "one_step", "opened", "outcome_of", "rest", "the_error", "two_steps"]

END = loom.WORKFLOW_END
LEAVE = loom.STAGE_END


class F2State(BaseModel):
    """The State of F2's stages."""

    intent: str
    value: int = 0


def intent_of(context: loom.InitializerContext) -> Any:
    """F2's initializer: a value that the schema completes."""
    return {"intent": context.intent}


async def complete(access: Any) -> loom.StepResult:
    """What F2's codes do unless a test says otherwise."""
    return loom.StepResult("complete")


def f2(
    *,
    start: Any = complete,
    review: Any = complete,
    finish: Any = complete,
    initialize: Any = intent_of,
    initialize_second: Any = intent_of,
    schema: Any = F2State,
    name: str = "fixture",
    exclusive: bool = False,
) -> loom.Blueprint:
    """F2: `first` (`start`, which may lead to itself or into the stage anew, then `review`), then `second` (`finish`)."""
    first = loom.BlueprintStage(
        state_schema=schema,
        initialize_state=initialize,
        entry_step_name="start",
        steps={
            "start": loom.BlueprintStep(
                execution=code_of(start), on={"complete": "review", "retry": "start", "reenter": LEAVE, "lost": "review"}
            ),
            "review": loom.BlueprintStep(execution=code_of(review), on={"complete": LEAVE}),
        },
        on={"complete": "second", "reenter": "first"},
    )
    second = loom.BlueprintStage(
        state_schema=schema,
        initialize_state=initialize_second,
        entry_step_name="finish",
        steps={"finish": loom.BlueprintStep(execution=code_of(finish), on={"complete": LEAVE})},
        on={"complete": END},
    )
    return loom.Blueprint(
        flow_name=name, entry_stage_name="first", stages={"first": first, "second": second}, exclusive=exclusive
    )


def code_of(given: Any) -> Any:
    """A code: what is given, a function of one argument made one."""
    return loom.code(given) if callable(given) and getattr(given, "__code__", None) is not None else given


def one_step(
    code: Any,
    *,
    on: Mapping[str, Any] | None = None,
    ends: Mapping[str, Any] | None = None,
    schema: Any = dict[str, Any],
    initialize: Any = lambda context: {},
    name: str = "one",
    stage: str = "stage",
    step: str = "step",
    exclusive: bool = False,
) -> loom.Blueprint:
    """A flow of one stage with one step, which ends with `complete` unless it is told other routes."""
    only = loom.BlueprintStage(
        state_schema=schema,
        initialize_state=initialize,
        entry_step_name=step,
        steps={step: loom.BlueprintStep(execution=code_of(code), on={"complete": LEAVE} if on is None else on)},
        on={"complete": END} if ends is None else ends,
    )
    return loom.Blueprint(flow_name=name, entry_stage_name=stage, stages={stage: only}, exclusive=exclusive)


def two_steps(first: Any, then: Any, **options: Any) -> loom.Blueprint:
    """A flow of one stage with two steps, `first` and `then`; `first` may also go to itself by `again`."""
    only = loom.BlueprintStage(
        state_schema=options.get("schema", dict[str, Any]),
        initialize_state=options.get("initialize", lambda context: {}),
        entry_step_name="first",
        steps={
            "first": loom.BlueprintStep(execution=code_of(first), on={"complete": "then", "again": "first"}),
            "then": loom.BlueprintStep(execution=code_of(then), on={"complete": LEAVE}),
        },
        on={"complete": END},
    )
    return loom.Blueprint(flow_name=options.get("name", "two"), entry_stage_name="stage", stages={"stage": only})


class Gate:
    """Holds a code until the test lets it go on; `arrived` once it is there."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.opened = threading.Event()

    async def wait(self) -> None:
        """In an async code."""
        self.arrived.set()
        assert await asyncio.to_thread(self.opened.wait, PATIENCE), "nobody opened the gate"

    def block(self) -> None:
        """In a plain def."""
        self.arrived.set()
        assert self.opened.wait(PATIENCE), "nobody opened the gate"

    def open(self) -> None:
        """Let it go on."""
        self.opened.set()

    def reached(self) -> None:
        """In the test: wait until it is there."""
        assert self.arrived.wait(PATIENCE), "nothing came to the gate"


def rest(run: loom.FlowRun) -> loom.FlowRunView:
    """The run's view once it waits, failed or ended."""

    async def settle() -> loom.FlowRunView:
        return await asyncio.wait_for(run.settled(), PATIENCE)

    return asyncio.run(settle())


def outcome_of(run: loom.FlowRun) -> Any:
    """What awaiting the run gives, or raises."""

    async def wait() -> Any:
        return await asyncio.wait_for(asyncio.ensure_future(_awaited(run)), PATIENCE)

    return asyncio.run(wait())


async def _awaited(run: loom.FlowRun) -> Any:
    return await run


def the_error(view: loom.FlowRunView) -> str:
    """The code of its last error; empty for none."""
    return view.last_error.code if view.last_error is not None else ""


async def code_raised(call: Callable[[], Awaitable[Any]]) -> str:
    """The code of the error that a call of an access raises, at once or when it is awaited; empty for none."""
    try:
        await call()
    except loom.LoomError as exc:
        return exc.code
    return ""


def opened(path: Path | str, source: Any = None) -> loom.Loom:
    """A store, opened, with a clock that stands still unless it is given one."""
    return loom.open(path, source=source if source is not None else StillSource())


class Broken(Exception):
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Touchy(Exception):
    """An exception that raises whenever an attribute it does not have is asked for."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Sealed(Exception):
    """An exception that takes no attribute."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("sealed")


class HalfOurs(loom.LoomError):
    """One of ours by its class, whose code cannot be read."""

    def __init__(self) -> None:
        Exception.__init__(self, "half")

    @property
    def code(self) -> str:  # type: ignore[override]
        raise RuntimeError("no code")


BLOWS: list[Callable[[], BaseException]] = [
    lambda: ValueError("secret"),
    lambda: Broken("secret"),
    lambda: Touchy("secret"),
    lambda: Sealed("secret"),
    HalfOurs,
    lambda: SystemExit("secret"),
    lambda: KeyboardInterrupt("secret"),
    lambda: GeneratorExit("secret"),
    lambda: asyncio.CancelledError("secret"),
    lambda: StopIteration("secret"),
    lambda: StopAsyncIteration("secret"),
    lambda: ExceptionGroup("secret", [ValueError("secret")]),
    lambda: BaseExceptionGroup("secret", [KeyboardInterrupt("secret")]),
    lambda: RecursionError("secret"),
    lambda: loom.LoomError("secret", code="MY_CODE"),
    lambda: loom.Conflict("secret"),
    lambda: loom.InvalidRequest("secret"),
]
"""What a user's function may raise. None of them has a code of the runtime catalogue."""
