"""The run loop of blueprints: what starts, what each step is given, what a failure becomes, and what ends with a call."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Self

import pytest

import loomnb as loom
from loomnb.runtime import FINISHED
from loomnb.store.writer import Writer, commit_error
from loomnb.testing import ScriptedModel
from tests.blueprints.flows import (
    BLOWS,
    END,
    LEAVE,
    Gate,
    code_raised,
    f2,
    intent_of,
    one_step,
    opened,
    outcome_of,
    rest,
    the_error,
    two_steps,
)
from tests.blueprints.storing import append
from tests.helpers import StillSource, until

DONE = loom.StepResult("complete")


# -- RN-01: a run from its start to its end ----------------------------------------------------------


class Whole:
    """F2 whose start writes 42, and what was seen of it."""

    def __init__(self) -> None:
        self.contexts: list[loom.InitializerContext] = []
        self.seen: list[Any] = []
        self.kept: list[Any] = []

    def initialize(self, context: loom.InitializerContext) -> Any:
        self.contexts.append(context)
        return intent_of(context)

    def blueprint(self) -> loom.Blueprint:
        async def start(access: Any) -> loom.StepResult:
            self.kept.append(access)
            await access.state.update({"intent": "changed", "value": 42})
            return DONE

        async def later(access: Any) -> loom.StepResult:
            self.seen.append(access.state.value["value"])
            return DONE

        return f2(start=start, review=later, finish=later, initialize=self.initialize, initialize_second=self.initialize)


@pytest.mark.case("blueprints:RN-01")
def test_a_state_lives_as_long_as_its_stage(session: loom.Loom) -> None:
    whole = Whole()
    rest(session.flow(whole.blueprint(), "go"))

    assert whole.seen == [42, 0]


@pytest.mark.case("blueprints:RN-01")
def test_each_initializer_is_called_once_with_the_same_run(session: loom.Loom) -> None:
    whole = Whole()
    run = session.flow(whole.blueprint(), "  go \n")
    rest(run)

    assert [c.stage_name for c in whole.contexts] == ["first", "second"]
    assert {(c.run_id, c.flow_name, c.intent) for c in whole.contexts} == {(run.id, "fixture", "  go \n")}


@pytest.mark.case("blueprints:RN-01")
def test_the_view_of_a_whole_run(session: loom.Loom) -> None:
    view = rest(session.flow(Whole().blueprint(), "go"))

    assert (view.status, view.cursor.dump()) == ("completed", {"stageName": "second", "stepName": "finish"})


@pytest.mark.case("blueprints:RN-01")
def test_the_id_of_a_run_is_unlike_any_other(session: loom.Loom) -> None:
    runs = [rest(session.flow(Whole().blueprint(), "go")).run_id for _ in range(2)]

    assert all(re.fullmatch(r"RUN-\d{8}T\d{9}Z-[A-Za-z0-9_-]{21}", run_id) for run_id in runs)
    assert runs[0] != runs[1]


@pytest.mark.case("blueprints:RN-01")
def test_the_id_of_a_run_tells_when_it_began(here: Any) -> None:
    with opened(here / "s.duckdb") as session:
        view = rest(session.flow(Whole().blueprint(), "go"))

    assert view.run_id.startswith("RUN-20260102T030405000Z-")
    assert view.created_at == "2026-01-02T03:04:05.000Z"


@pytest.mark.case("blueprints:RN-01")
def test_what_a_step_kept_of_its_access_is_over(session: loom.Loom) -> None:
    whole = Whole()
    rest(session.flow(whole.blueprint(), "go"))

    with pytest.raises(loom.OwnershipLost) as lost:
        _ = whole.kept[0].state.value
    assert lost.value.code == "EXECUTION_OWNERSHIP_LOST"


USES: dict[str, Any] = {
    "create": lambda access: access.state.create({}),
    "update": lambda access: access.state.update({}),
    "update with no json": lambda access: access.state.update(object()),
    "clear": lambda access: access.state.clear(),
    "get_artifact": lambda access: access.storage.get_artifact("f", "s"),
    "get_artifact with a bad name": lambda access: access.storage.get_artifact("", "s"),
    "get_artifact_by_id": lambda access: access.storage.get_artifact_by_id("a"),
    "get_latest_record": lambda access: access.storage.get_latest_record("f", "s"),
    "get_record_by_id": lambda access: access.storage.get_record_by_id("r"),
    "list_artifacts": lambda access: access.storage.list_artifacts(),
    "list_records": lambda access: access.storage.list_records({"nonsense": 1}),
    "commit": lambda access: access.storage.commit([append("late")]),
    "commit of nothing": lambda access: access.storage.commit([]),
    "commit of nonsense": lambda access: access.storage.commit(None),
    "ask_questions": lambda access: access.interaction.ask_questions([]),
    "confirm": lambda access: access.interaction.confirm("Late?"),
}
"""Each use of an access that may be awaited, once with arguments that would be refused for themselves."""


def kept_access(session: loom.Loom, how: str) -> tuple[loom.FlowRun, Any]:
    kept: list[Any] = []

    async def step(access: Any) -> loom.StepResult:
        kept.append(access)
        if how == "failed":
            raise ValueError("no")
        return DONE

    def plain(access: Any) -> loom.StepResult:
        kept.append(access)
        return DONE

    run = session.flow(one_step(plain if how == "plain" else step), "go")
    rest(run)
    return run, kept[0]


@pytest.mark.case("blueprints:RN-01", "blueprints:ST-10")
@pytest.mark.parametrize("how", ["returned", "failed", "plain"])
@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_kept_access_is_refused_on_another_loop(session: loom.Loom, use: str, how: str) -> None:
    run, access = kept_access(session, how)
    before = run.view()

    assert asyncio.run(code_raised(lambda: USES[use](access))) == "EXECUTION_OWNERSHIP_LOST"
    assert run.view() == before


@pytest.mark.case("blueprints:RN-01")
@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_kept_access_is_refused_where_no_loop_runs(session: loom.Loom, use: str) -> None:
    _, access = kept_access(session, "returned")

    with pytest.raises(loom.OwnershipLost):
        USES[use](access)


@pytest.mark.case("blueprints:RN-01")
def test_a_kept_access_of_another_run_is_refused_in_a_step(session: loom.Loom) -> None:
    """On the very loop it was made for, in a call that is in force."""
    _, kept = kept_access(session, "returned")
    told: dict[str, str] = {}

    async def step(access: Any) -> loom.StepResult:
        for name, use in USES.items():
            told[name] = await code_raised(functools.partial(use, kept))
        return DONE

    assert rest(session.flow(one_step(step, name="other"), "go")).status == "completed"
    assert told == dict.fromkeys(USES, "EXECUTION_OWNERSHIP_LOST")


@pytest.mark.case("blueprints:RN-01")
def test_a_code_is_given_none_as_input(session: loom.Loom) -> None:
    given: list[Any] = []

    async def step(input: Any, access: Any) -> loom.StepResult:  # noqa: A002
        given.append(input)
        return DONE

    rest(session.flow(one_step(step), "go"))

    assert given == [None]


@pytest.mark.case("blueprints:RN-01")
def test_an_access_has_exactly_what_a_code_may_use(session: loom.Loom) -> None:
    told: dict[str, bool] = {}

    async def step(access: Any) -> loom.StepResult:
        told.update({n: hasattr(access, n) for n in ("state", "storage", "interaction", "signal", "project")})
        return DONE

    rest(session.flow(one_step(step), "go"))

    assert told == {"state": True, "storage": True, "interaction": True, "signal": True, "project": False}


@pytest.mark.case("blueprints:RN-01")
@pytest.mark.parametrize("name", ["state", "storage", "interaction", "signal", "project", "more"])
def test_an_access_is_frozen(session: loom.Loom, name: str) -> None:
    async def step(access: Any) -> loom.StepResult:
        with pytest.raises((loom.ReadOnly, AttributeError)):
            setattr(access, name, None)
        with pytest.raises((loom.ReadOnly, AttributeError)):
            delattr(access, name)
        return DONE

    assert rest(session.flow(one_step(step), "go")).status == "completed"


# -- the kinds of code -------------------------------------------------------------------------------


class Called:
    def __call__(self, input: None, access: Any) -> loom.StepResult:  # noqa: A002
        return DONE


class CalledAsync:
    async def __call__(self, input: None, access: Any) -> loom.StepResult:  # noqa: A002
        await access.state.update({"by": "object"})
        return DONE


class Methods:
    async def step(self, input: None, access: Any) -> loom.StepResult:  # noqa: A002
        await access.state.update({"by": "method"})
        return DONE

    @staticmethod
    async def static(input: None, access: Any) -> loom.StepResult:  # noqa: A002
        await access.state.clear()
        return DONE


async def three(word: str, input: None, access: Any) -> loom.StepResult:  # noqa: A002
    await access.state.update({"by": word})
    return DONE


async def plain_async(input: None, access: Any) -> loom.StepResult:  # noqa: A002
    await access.state.update({"by": "function"})
    return DONE


@functools.wraps(plain_async)
def wrapper_of_async(input: None, access: Any) -> Any:  # noqa: A002
    return plain_async(input, access)


@functools.wraps(plain_async)
def runs_its_own_loop(input: None, access: Any) -> Any:  # noqa: A002
    async def inner() -> loom.StepResult:
        return loom.StepResult("complete" if access.state.value == {} else "?")

    return asyncio.run(inner())


def plain(input: None, access: Any) -> dict[str, str]:  # noqa: A002
    return {"outcome": "complete"}


@functools.wraps(plain)
async def async_wrapper_of_plain(input: None, access: Any) -> dict[str, str]:  # noqa: A002
    await access.state.update({"by": "wrapper"})
    return plain(input, access)


class Awaited:
    """An awaitable that is no coroutine."""

    def __await__(self) -> Iterator[Any]:
        yield from asyncio.sleep(0).__await__()
        return {"outcome": "complete"}


CODES: dict[str, Any] = {
    "an object": Called(),
    "an object, async": CalledAsync(),
    "a method": Methods().step,
    "a static method": Methods.static,
    "a partial": functools.partial(three, "partial"),
    "an async function": plain_async,
    "a plain function": plain,
    "a lambda": lambda input, access: DONE,  # noqa: A006
    "a function that gives an awaitable": lambda input, access: Awaited(),  # noqa: A006
    "a wrapper of an async function": wrapper_of_async,
    "a wrapper that runs a loop of its own": runs_its_own_loop,
    "an async wrapper of a plain function": async_wrapper_of_plain,
    "a code of an async function": loom.code(plain_async),
    "a code of a wrapper that runs a loop of its own": loom.code(runs_its_own_loop),
    "a code of an object": loom.code(CalledAsync()),
    "a code of nothing": loom.code(lambda: DONE),
}


@pytest.mark.case("blueprints:RN-01")
@pytest.mark.parametrize("kind", CODES)
def test_any_callable_of_input_and_access_is_a_code(session: loom.Loom, kind: str) -> None:
    step = loom.BlueprintStep(execution=CODES[kind], on={"complete": LEAVE})
    stage = loom.BlueprintStage(
        state_schema=dict[str, Any],
        initialize_state=lambda context: {},
        entry_step_name="step",
        steps={"step": step},
        on={"complete": END},
    )
    run = session.flow(loom.Blueprint(flow_name="kinds", entry_stage_name="stage", stages={"stage": stage}), "go")

    assert outcome_of(run) == "complete"


# -- RN-02: reading a run that moves -----------------------------------------------------------------


class Held:
    """A store with one run whose initializer waits at a gate."""

    def __init__(self, here: Any) -> None:
        self.source = StillSource()
        self.session = loom.open(here / "s.duckdb", source=self.source)
        self.gate = Gate()

        async def initialize(context: loom.InitializerContext) -> Any:
            await self.gate.wait()
            return intent_of(context)

        self.run = self.session.flow(f2(initialize=initialize), "go")
        self.gate.reached()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.open()
        rest(self.run)
        self.session.close()


@pytest.mark.case("blueprints:RN-02")
def test_a_run_is_listed_while_it_is_initialized(here: Any) -> None:
    with Held(here) as held:
        assert [r.id for r in held.session.flows()] == [held.run.id]
        assert held.run.view().status == "running"
        assert held.run.view().cursor.dump() == {"stageName": "first", "stepName": "start"}


@pytest.mark.case("blueprints:RN-02")
def test_a_list_of_another_flow_is_empty(here: Any) -> None:
    with Held(here) as held:
        assert held.session.flows("other") == []
        assert [r.id for r in held.session.flows("fixture")] == [held.run.id]


@pytest.mark.case("blueprints:RN-02")
def test_reading_changes_no_time(here: Any) -> None:
    with Held(here) as held:
        before = held.run.view().dump()
        held.source.advance(60)
        held.session.flows()

        assert held.run.view().dump() == before


@pytest.mark.case("blueprints:RN-02")
def test_a_view_is_a_copy(here: Any) -> None:
    with Held(here) as held:
        told = held.run.view().dump()
        told["cursor"]["stepName"] = "x"
        told["status"] = "failed"

        assert held.run.view().cursor.step_name == "start"
        assert held.run.view().status == "running"


@pytest.mark.case("blueprints:RN-02")
def test_runs_are_listed_in_the_order_they_were_started_ended_ones_too(session: loom.Loom) -> None:
    async def step(access: Any) -> loom.StepResult:
        await access.interaction.confirm("Go?")
        return DONE

    runs = [session.flow(one_step(step, name=name), "go") for name in ("b", "a", "b")]
    for run in runs:
        rest(run)
    runs[0].cancel()

    assert [r.id for r in session.flows()] == [r.id for r in runs]
    assert [r.id for r in session.flows("b")] == [runs[0].id, runs[2].id]


@pytest.mark.case("blueprints:RN-02")
def test_a_workflow_is_not_listed_as_a_flow(session: loom.Loom) -> None:
    session.ask_questions([{"id": "a", "question": "?", "isSkippable": False}])

    assert session.flows() == []


# -- RN-03: what does not start ----------------------------------------------------------------------


def never(*_: Any) -> Any:
    raise AssertionError("called")


BLANKS = ["", " ", "\t\r\n\v\f", "\u00a0", "\ufeff", "\u2028\u2029", "\u3000 \u2003", "\u202f", "\u1680"]
NO_TEXTS: list[Any] = [None, 0, True, b"go", ["go"], {"intent": "go"}, object()]


@pytest.mark.case("blueprints:RN-03")
@pytest.mark.parametrize("intent", [*BLANKS, *NO_TEXTS], ids=range(len(BLANKS) + len(NO_TEXTS)))
def test_a_blank_intent_starts_nothing(session: loom.Loom, intent: Any) -> None:
    with pytest.raises(loom.LoomError) as refused:
        session.flow(f2(initialize=never), intent)

    assert (refused.value.code, refused.value.retryable) == ("INVALID_REQUEST", False)
    assert session.flows() == []


@pytest.mark.case("blueprints:RN-03")
def test_an_intent_that_cannot_be_stored_starts_nothing(session: loom.Loom) -> None:
    with pytest.raises(loom.LoomError) as refused:
        session.flow(f2(initialize=never), "half \ud800")

    assert refused.value.code == "INVALID_REQUEST"
    assert session.flows() == []


@pytest.mark.case("blueprints:RN-03")
@pytest.mark.parametrize("intent", [" padded ", "\u200b", "\x1c", "\x85", "\x00", "日本語\n", "x" * 100_000, "𝔘"])
def test_any_other_intent_is_kept_to_the_letter(session: loom.Loom, intent: str) -> None:
    seen: list[str] = []

    def initialize(context: loom.InitializerContext) -> Any:
        seen.append(context.intent)
        return {}

    async def step(access: Any) -> loom.StepResult:
        return DONE

    run = session.flow(one_step(step, initialize=initialize), intent)
    rest(run)

    assert seen == [intent]
    assert run.intent == intent


def entered_by(stage: str, step: str) -> loom.Blueprint:
    only = loom.BlueprintStage(
        state_schema=dict[str, Any],
        initialize_state=never,
        entry_step_name=step,
        steps={"step": loom.BlueprintStep(execution=never, on={"complete": LEAVE})},
        on={"complete": END},
    )
    return loom.Blueprint(flow_name="entered", entry_stage_name=stage, stages={"stage": only})


@pytest.mark.case("blueprints:RN-03")
@pytest.mark.parametrize("name", ["lost", "", "__class__", "keys", " step", "STEP"])
@pytest.mark.parametrize("what", ["stage", "step"])
def test_an_entry_that_is_not_defined_starts_nothing(session: loom.Loom, what: str, name: str) -> None:
    blueprint = entered_by(name, "step") if what == "stage" else entered_by("stage", name)
    with pytest.raises(loom.StepError) as refused:
        session.flow(blueprint, "go")

    assert refused.value.code == "INVALID_CURSOR"
    assert session.flows() == []


@pytest.mark.case("blueprints:RN-03")
def test_a_blank_intent_is_told_before_a_missing_entry(session: loom.Loom) -> None:
    with pytest.raises(loom.LoomError) as refused:
        session.flow(entered_by("lost", "step"), " ")

    assert refused.value.code == "INVALID_REQUEST"


# -- RN-04: initializers that fail -------------------------------------------------------------------


@pytest.mark.case("blueprints:RN-04")
@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize("blow", BLOWS, ids=range(len(BLOWS)))
def test_an_initializer_may_raise_anything(session: loom.Loom, blow: Any, kind: str) -> None:
    made: list[str] = []

    async def initialize(context: loom.InitializerContext) -> Any:
        raise blow()

    def initialize_plainly(context: loom.InitializerContext) -> Any:
        raise blow()

    async def start(access: Any) -> loom.StepResult:
        made.append("start")
        return DONE

    view = rest(session.flow(f2(start=start, initialize=initialize if kind == "async" else initialize_plainly), "go"))

    assert (view.status, the_error(view)) == ("failed", "RUN_INITIALIZATION_FAILED")
    assert view.cursor.dump() == {"stageName": "first", "stepName": "start"}
    assert "secret" not in str(view.dump())
    assert made == []


@pytest.mark.case("blueprints:RN-04")
def test_an_initializer_that_raises_a_code_of_the_catalogue_failed_to_initialize(session: loom.Loom) -> None:
    def initialize(context: loom.InitializerContext) -> Any:
        raise loom.StepError("mine", code="STAGE_STATE_EXISTS")

    assert the_error(rest(session.flow(f2(initialize=initialize), "go"))) == "RUN_INITIALIZATION_FAILED"


BAD_SEEDS: list[Any] = [
    {"intent": 1},
    {"value": 1},
    None,
    "text",
    {"intent": "a", "value": "x"},
    {"intent": "a", "more": float("nan")},
    ("intent", "a"),
    {"intent": "a", 1: 2},
    {"intent": object()},
    {"intent": b"a"},
    {"intent": "\ud800"},
]


@pytest.mark.case("blueprints:RN-04", "blueprints:ST-14")
@pytest.mark.parametrize("seed", BAD_SEEDS, ids=range(len(BAD_SEEDS)))
def test_a_seed_that_does_not_fit_fails_the_initialization(session: loom.Loom, seed: Any) -> None:
    run = session.flow(f2(start=never, initialize=lambda context: seed), "go")
    view = rest(run)

    assert (view.status, the_error(view)) == ("failed", "RUN_INITIALIZATION_FAILED")
    assert view.cursor.dump() == {"stageName": "first", "stepName": "start"}
    assert run.state is loom.ABSENT


@pytest.mark.case("blueprints:RN-04")
def test_an_initializer_of_a_later_stage_fails_at_that_stage(session: loom.Loom) -> None:
    view = rest(session.flow(f2(finish=never, initialize_second=lambda context: 1 / 0), "go"))

    assert the_error(view) == "RUN_INITIALIZATION_FAILED"
    assert view.cursor.dump() == {"stageName": "second", "stepName": "finish"}


@pytest.mark.case("blueprints:RN-04")
def test_an_exception_that_an_initializer_raised_is_told_anew_when_a_step_raises_it(session: loom.Loom) -> None:
    """The very same object: what it was told as before must not stick to it."""
    shared = ValueError("shared")

    def raising(*_: Any) -> Any:
        raise shared

    first = rest(session.flow(f2(initialize=raising), "go"))
    second = rest(session.flow(one_step(lambda access: raising()), "go"))

    assert (the_error(first), the_error(second)) == ("RUN_INITIALIZATION_FAILED", "STEP_EXECUTION_FAILED")


@pytest.mark.case("blueprints:RN-04")
def test_the_cause_is_the_users_own_exception(session: loom.Loom) -> None:
    mine = ValueError("secret")

    def initialize(context: loom.InitializerContext) -> Any:
        raise mine

    run = session.flow(f2(initialize=initialize), "go")

    with pytest.raises(loom.RunFailed) as failed:
        outcome_of(run)
    assert failed.value.__cause__ is mine
    assert failed.value.code == "RUN_INITIALIZATION_FAILED"


@pytest.mark.case("blueprints:RN-04")
def test_a_failed_initializer_is_called_again_by_a_retry(session: loom.Loom) -> None:
    calls: list[int] = []

    def initialize(context: loom.InitializerContext) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not yet")
        return intent_of(context)

    run = session.flow(f2(initialize=initialize), "go")
    rest(run)
    run.retry()

    assert rest(run).status == "completed"
    assert len(calls) == 2


# -- RN-06: codes that fail --------------------------------------------------------------------------


def raising(blow: Any, kind: str) -> Any:
    async def step(access: Any) -> loom.StepResult:
        raise blow()

    def plain_step(access: Any) -> loom.StepResult:
        raise blow()

    return step if kind == "async" else plain_step


@pytest.mark.case("blueprints:RN-06")
@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize("blow", BLOWS, ids=range(len(BLOWS)))
def test_a_code_may_raise_anything(session: loom.Loom, blow: Any, kind: str) -> None:
    run = session.flow(one_step(raising(blow, kind)), "go")
    view = rest(run)

    assert (view.status, the_error(view)) == ("failed", "STEP_EXECUTION_FAILED")
    assert view.last_error is not None
    assert view.last_error.retryable is False
    assert "secret" not in str(view.dump())


@pytest.mark.case("blueprints:RN-06")
@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize("blow", BLOWS, ids=range(len(BLOWS)))
def test_whatever_one_run_raises_the_others_go_on(session: loom.Loom, blow: Any, kind: str) -> None:
    gate = Gate()

    async def step(access: Any) -> loom.StepResult:
        await gate.wait()
        await access.state.update({"still": "here"})
        return DONE

    other = session.flow(one_step(step, name="other"), "go")
    gate.reached()
    rest(session.flow(one_step(raising(blow, kind)), "go"))
    gate.open()

    assert rest(other).status == "completed"


CATALOGUE = sorted(
    [
        "RUN_INITIALIZATION_FAILED",
        "STEP_EXECUTION_FAILED",
        "STEP_RESULT_INVALID",
        "STEP_OUTCOME_NOT_HANDLED",
        "INVALID_TRANSITION",
        "INVALID_CURSOR",
        "STEP_INTERACTION_INVALID",
        "STAGE_STATE_INVALID",
        "STAGE_STATE_EXISTS",
        "STAGE_STATE_NOT_FOUND",
        "STAGE_STATE_INACTIVE",
        "EXECUTION_OWNERSHIP_LOST",
        "RUN_STOPPED",
        "RUN_INTERRUPTED",
        "RUN_CHECKPOINT_FAILED",
        "RUN_STATE_INVALID",
        "LLM_REQUEST_FAILED",
        "LLM_RESPONSE_INVALID",
        "AGENT_OUTPUT_INVALID",
        "TOOL_EXECUTION_FAILED",
        "RUNTIME_NOT_IMPLEMENTED",
    ]
)
KERNELS = ["INVALID_REQUEST", "NOT_FOUND", "CONFLICT", "BUSY", "STORAGE_ERROR", "KERNEL_UNAVAILABLE"]


@pytest.mark.case("blueprints:RN-06")
@pytest.mark.parametrize("code", CATALOGUE)
def test_a_code_of_the_runtime_catalogue_is_kept(session: loom.Loom, code: str) -> None:
    async def step(access: Any) -> loom.StepResult:
        raise loom.LoomError("secret", code=code)

    view = rest(session.flow(one_step(step), "go"))

    assert the_error(view) == code
    assert "secret" not in str(view.dump())


@pytest.mark.case("blueprints:RN-06")
@pytest.mark.parametrize("code", [*KERNELS, "COMMIT_FAILED", "MOVE_FAILED", "", "stage_state_invalid", " RUN_STOPPED"])
def test_a_code_of_another_catalogue_is_a_failed_step(session: loom.Loom, code: str) -> None:
    async def step(access: Any) -> loom.StepResult:
        raise loom.LoomError("secret", code=code, retryable=True)

    view = rest(session.flow(one_step(step), "go"))

    assert the_error(view) == "STEP_EXECUTION_FAILED"
    assert view.last_error is not None
    assert view.last_error.retryable is False


class ForeignError(Exception):
    """As another copy of the library would raise it."""

    __loom_error__ = True

    def __init__(self, code: Any) -> None:
        super().__init__("foreign")
        self.message, self.code, self.retryable = "foreign", code, False


@pytest.mark.case("blueprints:RN-06", "blueprints:ER-04")
@pytest.mark.parametrize(
    ("given", "told"),
    [("STAGE_STATE_EXISTS", "STAGE_STATE_EXISTS"), ("CONFLICT", "STEP_EXECUTION_FAILED"), (7, "STEP_EXECUTION_FAILED")],
)
def test_an_error_of_another_copy_of_the_library_is_judged_as_one_of_ours(session: loom.Loom, given: Any, told: str) -> None:
    async def step(access: Any) -> loom.StepResult:
        raise ForeignError(given)

    assert the_error(rest(session.flow(one_step(step), "go"))) == told


@pytest.mark.case("blueprints:RN-06")
def test_an_uncaught_conflict_of_storage_stays_the_cause_of_the_failure(session: loom.Loom) -> None:
    async def step(access: Any) -> loom.StepResult:
        await access.storage.commit([append("r")])
        await access.storage.commit([append("r")])
        return DONE

    run = session.flow(one_step(step), "go")

    assert the_error(rest(run)) == "STEP_EXECUTION_FAILED"
    with pytest.raises(loom.RunFailed) as failed:
        outcome_of(run)
    assert isinstance(failed.value.__cause__, loom.Conflict)
    assert failed.value.__cause__.code == "CONFLICT"


@pytest.mark.case("blueprints:RN-06")
def test_a_conflict_that_the_code_catches_fails_nothing(session: loom.Loom) -> None:
    async def step(access: Any) -> loom.StepResult:
        await access.storage.commit([append("r")])
        try:
            await access.storage.commit([append("r")])
        except loom.Conflict as exc:
            return loom.StepResult("complete" if exc.code == "CONFLICT" else "?")
        return loom.StepResult("?")

    assert rest(session.flow(one_step(step), "go")).status == "completed"


@pytest.mark.case("blueprints:RN-06")
def test_the_person_at_this_kernel_sees_the_exception(session: loom.Loom) -> None:
    async def step(access: Any) -> loom.StepResult:
        raise ValueError("my words")

    run = session.flow(one_step(step), "go")
    rest(run)

    assert "my words" in (run.traceback or "")
    with pytest.raises(loom.RunFailed) as failed:
        outcome_of(run)
    assert str(failed.value.__cause__) == "my words"


# -- RN-07, RN-08: results and resources -------------------------------------------------------------


@pytest.mark.case("blueprints:RN-07")
@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({"outcome": "complete", "data": 1}, "STEP_RESULT_INVALID"),
        ({"outcome": "elsewhere"}, "STEP_OUTCOME_NOT_HANDLED"),
    ],
)
def test_a_bad_result_fails_the_run_where_it_stands(session: loom.Loom, result: Any, code: str) -> None:
    async def start(access: Any) -> Any:
        return result

    view = rest(session.flow(f2(start=start, review=never), "go"))

    assert (view.status, the_error(view)) == ("failed", code)
    assert view.cursor.dump() == {"stageName": "first", "stepName": "start"}


@pytest.mark.case("blueprints:RN-08")
@pytest.mark.parametrize("kind", ["code", "agent"])
@pytest.mark.parametrize("id_", ["lost", "constructor", "__class__", "get", "items", "toString"])
def test_a_step_whose_code_or_agent_is_not_there_fails(session: loom.Loom, kind: str, id_: str) -> None:
    step = loom.BlueprintStep(execution={"kind": kind, f"{kind}Id": id_}, on={"complete": LEAVE})
    stage = loom.BlueprintStage(
        state_schema=dict[str, Any],
        initialize_state=lambda context: {},
        entry_step_name="step",
        steps={"step": step},
        on={"complete": END},
    )
    blueprint = loom.Blueprint(flow_name="lost", entry_stage_name="stage", stages={"stage": stage})
    view = rest(session.flow(loom.WorkflowModule(blueprint=blueprint), "go"))

    assert (view.status, the_error(view)) == ("failed", "STEP_EXECUTION_FAILED")


@pytest.mark.case("blueprints:RN-08")
def test_a_step_whose_code_is_there_by_its_id_is_made(session: loom.Loom) -> None:
    step = loom.BlueprintStep(execution={"kind": "code", "codeId": "__class__"}, on={"complete": LEAVE})
    stage = loom.BlueprintStage(
        state_schema=dict[str, Any],
        initialize_state=lambda context: {},
        entry_step_name="step",
        steps={"step": step},
        on={"complete": END},
    )
    blueprint = loom.Blueprint(flow_name="there", entry_stage_name="stage", stages={"stage": stage})
    module = loom.WorkflowModule(blueprint=blueprint, codes={"__class__": lambda input, access: DONE})  # noqa: A006

    assert rest(session.flow(module, "go")).status == "completed"


# -- RN-09: agents -----------------------------------------------------------------------------------


class Probe:
    """An agent step whose one tool looks at what it is given."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    async def execute(self, value: str, access: Any) -> str:
        self.given = {
            "commit": hasattr(access.storage, "commit"),
            "interaction": hasattr(access, "interaction"),
            "found": (await access.storage.get_record_by_id("r")).data,
            "state": access.state.value,
        }
        await access.state.update({"by": "agent"})
        return value

    def blueprint(self) -> loom.Blueprint:
        async def before(access: Any) -> loom.StepResult:
            await access.storage.commit([append("r", data={"n": 1})])
            return DONE

        tool = loom.define_agent_tool(id="look", description="Looks.", input_schema=str, output_schema=str, execute=self.execute)
        agent = loom.AgentSpec(name="looker", instructions="Look.", tools=[tool])
        stage = loom.BlueprintStage(
            state_schema=dict[str, Any],
            initialize_state=lambda context: {"by": "nobody"},
            entry_step_name="before",
            steps={
                "before": loom.BlueprintStep(execution=loom.code(before), on={"complete": "look"}),
                "look": loom.BlueprintStep(execution=agent, on={"complete": "stay"}),
                "stay": loom.BlueprintStep(execution=loom.code(self._stay), on={"complete": LEAVE}),
            },
            on={"complete": END},
        )
        return loom.Blueprint(flow_name="agents", entry_stage_name="stage", stages={"stage": stage})

    async def _stay(self, access: Any) -> loom.StepResult:
        self.given["after"] = access.state.value
        return DONE


def looking() -> ScriptedModel:
    return ScriptedModel([[("look", "there")], {"outcome": "complete"}])


@pytest.mark.case("blueprints:RN-09")
def test_the_tools_of_an_agent_read_storage_and_write_state_and_can_neither_commit_nor_ask(session: loom.Loom) -> None:
    probe = Probe()
    view = rest(session.flow(probe.blueprint(), "go", models=looking()))

    assert view.status == "completed", the_error(view)
    assert probe.given == {
        "commit": False,
        "interaction": False,
        "found": {"n": 1},
        "state": {"by": "nobody"},
        "after": {"by": "agent"},
    }


# -- RN-10, RN-12: what is over with a call ----------------------------------------------------------


class Looping:
    """F2 whose start comes three times: `retry`, `reenter`, `complete`."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.kept: list[Any] = []
        self.told: dict[str, str] = {}

    async def start(self, access: Any) -> loom.StepResult:
        self.values.append(access.state.value["value"])
        self.kept.append(access)
        if len(self.values) == 1:
            await access.state.update({**access.state.value, "value": 5})
            return loom.StepResult("retry")
        if len(self.values) == 2:
            first = self.kept[0]
            for name, use in USES.items():
                self.told[name] = await code_raised(functools.partial(use, first))
            try:
                _ = first.state.value
            except loom.OwnershipLost as exc:
                self.told["value"] = exc.code
            return loom.StepResult("reenter")
        return DONE


@pytest.mark.case("blueprints:RN-10")
def test_a_state_survives_a_loop_of_steps_and_not_a_new_entry_of_its_stage(session: loom.Loom) -> None:
    looping = Looping()
    rest(session.flow(f2(start=looping.start), "go"))

    assert looping.values == [0, 5, 0]


@pytest.mark.case("blueprints:RN-10")
def test_the_access_of_the_first_call_is_over_in_the_second_at_the_same_step(session: loom.Loom) -> None:
    looping = Looping()
    run = session.flow(f2(start=looping.start), "go")

    assert rest(run).status == "completed"
    assert looping.told == dict.fromkeys([*USES, "value"], "EXECUTION_OWNERSHIP_LOST")
    assert run.records == []


class SlowSchema:
    """Takes anything; a value with `slow` only once its gate is open."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def parse(self, value: Any) -> Any:
        if value.get("slow"):
            await self.gate.wait()
        return value


@pytest.mark.case("blueprints:RN-12")
@pytest.mark.parametrize("then_is", ["complete", "again"])
def test_a_write_that_nobody_awaited_is_lost_when_its_step_ends(session: loom.Loom, then_is: str) -> None:
    schema, left, seen = SlowSchema(), [], []

    async def first(access: Any) -> loom.StepResult:
        if left:
            return await then(access)
        left.append(access.state.update({"slow": True}))
        await asyncio.to_thread(schema.gate.reached)
        return loom.StepResult(then_is)

    async def then(access: Any) -> loom.StepResult:
        schema.gate.open()
        seen.append(await code_raised(lambda: left[0]))
        seen.append(access.state.value)
        return DONE

    async def last(access: Any) -> loom.StepResult:
        return await then(access) if then_is == "complete" else DONE

    run = session.flow(two_steps(first, last, schema=schema), "go")

    assert rest(run).status == "completed"
    assert seen == ["EXECUTION_OWNERSHIP_LOST", {}]


@pytest.mark.case("blueprints:RN-12")
def test_writes_that_nobody_awaited_and_that_fail_make_no_noise(session: loom.Loom) -> None:
    async def first(access: Any) -> loom.StepResult:
        access.state.create({})
        access.state.update(object())
        access.state.update({"a": 1})
        access.storage.commit([append("")])
        access.storage.get_artifact("", "")
        return DONE

    async def then(access: Any) -> loom.StepResult:
        return DONE

    assert rest(session.flow(two_steps(first, then), "go")).status == "completed"


@pytest.mark.case("blueprints:RN-12")
def test_a_write_that_was_begun_and_not_awaited_does_not_slip_in(session: loom.Loom) -> None:
    seen: list[Any] = []

    async def first(access: Any) -> loom.StepResult:
        access.state.update({"late": True})
        return DONE

    async def then(access: Any) -> loom.StepResult:
        seen.append(access.state.value)
        return DONE

    rest(session.flow(two_steps(first, then), "go"))

    assert seen == [{}]


@pytest.mark.case("blueprints:RN-12")
def test_a_task_that_a_step_left_behind_can_do_nothing(session: loom.Loom) -> None:
    gate, told, over = Gate(), [], Gate()
    tasks: list[Any] = []

    async def first(access: Any) -> loom.StepResult:
        async def later() -> None:
            await gate.wait()
            told.append(await code_raised(lambda: access.state.update({"late": True})))
            told.append(await code_raised(lambda: access.storage.commit([append("late")])))
            over.arrived.set()

        tasks.append(asyncio.ensure_future(later()))
        return DONE

    async def then(access: Any) -> loom.StepResult:
        gate.open()
        await asyncio.to_thread(over.reached)
        return DONE

    run = session.flow(two_steps(first, then), "go")

    assert rest(run).status == "completed"
    assert told == ["EXECUTION_OWNERSHIP_LOST"] * 2
    assert run.records == []


# -- RN-14: what goes wrong before there is a run ----------------------------------------------------


class Interrupted(BaseException):
    """The host's own reason."""


class Models(Mapping[str, Any]):
    """Models whose host is interrupted while they are looked up."""

    def __getitem__(self, key: str) -> Any:
        raise Interrupted

    def __iter__(self) -> Any:
        raise Interrupted

    def __len__(self) -> int:
        raise Interrupted


@pytest.mark.case("blueprints:RN-14")
def test_an_interrupt_while_a_run_is_prepared_is_raised_as_it_is_and_starts_nothing(session: loom.Loom) -> None:
    with pytest.raises(Interrupted):
        session.flow(f2(initialize=never), "go", models=Models())

    assert session.flows() == []


@pytest.mark.case("blueprints:RN-14")
def test_a_closed_store_starts_nothing(here: Any) -> None:
    with loom.open(here / "s.duckdb") as session:
        pass

    with pytest.raises(loom.Unavailable) as refused:
        session.flow(f2(initialize=never), "go")
    assert refused.value.code == "KERNEL_UNAVAILABLE"


@pytest.mark.case("blueprints:RN-14")
def test_an_agent_without_a_model_starts_nothing(session: loom.Loom) -> None:
    with pytest.raises(loom.InvalidRequest):
        session.flow(Probe().blueprint(), "go")

    assert session.flows() == []


# -- RN-15, DX-12: exclusive flows -------------------------------------------------------------------


def waiting(name: str, *, exclusive: bool) -> loom.Blueprint:
    async def step(access: Any) -> loom.StepResult:
        await access.interaction.confirm("Go?")
        return DONE

    return one_step(step, name=name, exclusive=exclusive)


def refuse_busy(session: loom.Loom, blueprint: loom.Blueprint) -> None:
    before = [run.id for run in session.flows()]
    with pytest.raises(loom.StoreBusy) as refused:
        session.flow(blueprint, "go")
    assert (refused.value.code, refused.value.retryable) == ("BUSY", True)
    assert [run.id for run in session.flows()] == before


@pytest.mark.case("blueprints:RN-15")
@pytest.mark.parametrize("other_is_exclusive", [False, True])
def test_nothing_starts_beside_an_exclusive_run_that_moves(session: loom.Loom, other_is_exclusive: bool) -> None:
    gate = Gate()

    async def step(access: Any) -> loom.StepResult:
        await gate.wait()
        return DONE

    run = session.flow(one_step(step, exclusive=True), "go")
    gate.reached()
    refuse_busy(session, one_step(never, name="other", initialize=never, exclusive=other_is_exclusive))
    refuse_busy(session, one_step(step, exclusive=True))
    gate.open()
    rest(run)

    assert rest(session.flow(f2(name="after"), "go")).status == "completed"


@pytest.mark.case("blueprints:DX-12")
@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("starting", [False, True])
def test_a_run_that_waits_counts_as_active(session: loom.Loom, running: bool, starting: bool) -> None:
    rest(session.flow(waiting("held", exclusive=running), "go"))
    if running or starting:
        refuse_busy(session, one_step(never, name="other", initialize=never, exclusive=starting))
    else:
        assert rest(session.flow(waiting("other", exclusive=False), "go")).status == "waiting"


@pytest.mark.case("blueprints:RN-15", "blueprints:DX-12")
@pytest.mark.parametrize("end", ["completed", "failed", "stopped"])
def test_any_end_of_an_exclusive_run_lets_others_start(session: loom.Loom, end: str) -> None:
    async def step(access: Any) -> loom.StepResult:
        if not (await access.interaction.confirm("Go?")).is_confirmed:
            raise ValueError("no")
        return DONE

    run = session.flow(one_step(step, exclusive=True), "go")
    view = rest(run)
    assert view.pending_action is not None
    if end == "stopped":
        run.cancel()
    else:
        run.answer(view.pending_action.id, {"isConfirmed": end == "completed"})
    until(run, lambda: run.status in FINISHED)

    assert rest(session.flow(f2(), "go")).status == "completed"


@pytest.mark.case("blueprints:RN-15")
def test_of_two_exclusive_flows_that_start_at_once_one_does(session: loom.Loom) -> None:
    blueprints = [waiting(f"flow {n}", exclusive=True) for n in range(8)]
    told: list[str] = []

    async def start(blueprint: loom.Blueprint) -> None:
        try:
            await asyncio.to_thread(session.flow, blueprint, "go")
            told.append("started")
        except loom.StoreBusy:
            told.append("busy")

    async def all_at_once() -> None:
        await asyncio.gather(*map(start, blueprints))

    asyncio.run(all_at_once())

    assert sorted(told) == ["busy"] * 7 + ["started"]
    assert len(session.flows()) == 1


@pytest.mark.case("blueprints:DX-12")
def test_a_run_that_waits_is_active_after_a_restart_too(here: Any) -> None:
    async def step(access: Any) -> loom.StepResult:
        await access.interaction.confirm("Go?")
        return DONE

    code = loom.code(step)
    code.recover(lambda saved, access: DONE)
    blueprint = one_step(code, exclusive=True)
    with loom.open(here / "s.duckdb") as session:
        rest(session.flow(blueprint, "go"))
    with loom.open(here / "s.duckdb") as session:
        refuse_busy(session, one_step(never, name="other", initialize=never))


# -- RN-16: an older call ----------------------------------------------------------------------------


@pytest.mark.case("blueprints:RN-16")
@pytest.mark.parametrize("how", ["returns", "raises"])
def test_an_older_call_that_ends_touches_neither_the_run_nor_the_newer_call(
    session: loom.Loom, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The first call could not store what it did: the run failed, its code is left behind, and the step is made again."""
    old, new, over = Gate(), Gate(), Gate()
    calls: list[str] = []
    insert = Writer._insert

    def failing(self: Writer, rows: Any) -> Any:
        if any("lost" in body for _, kind, body in rows if kind == "step.recorded"):
            return commit_error(OSError("the disk said no"))
        return insert(self, rows)

    monkeypatch.setattr(Writer, "_insert", failing)

    async def step(access: Any) -> loom.StepResult:
        calls.append("step")
        if len(calls) == 2:
            await new.wait()
            await access.state.update({"by": "new"})
            return DONE
        try:
            await access.state.update({"by": "lost"})
        except loom.LoomError:
            await old.wait()
            over.arrived.set()
            if how == "raises":
                raise ValueError("late") from None
        return loom.StepResult("elsewhere")

    run = session.flow(one_step(step), "go")
    assert the_error(rest(run)) == "RUN_CHECKPOINT_FAILED"
    old.reached()
    run.retry()
    new.reached()
    before = run.view()
    old.open()
    over.reached()

    assert run.view() == before
    new.open()
    assert rest(run).status == "completed"
    assert [h.name for h in run.history if h.number] == ["enter", "step"]


# -- RN-17: signals ----------------------------------------------------------------------------------


@pytest.mark.case("blueprints:RN-17")
@pytest.mark.parametrize("how", ["returns", "raises"])
def test_the_signal_of_a_call_that_ended_is_aborted(session: loom.Loom, how: str) -> None:
    signals: list[Any] = []

    async def step(access: Any) -> loom.StepResult:
        signals.append(access.signal)
        assert not access.signal.aborted
        if how == "raises":
            raise ValueError
        return DONE

    rest(session.flow(one_step(step), "go"))

    assert signals[0].aborted
    assert isinstance(signals[0].reason, loom.OwnershipLost)
    assert signals[0].reason.code == "EXECUTION_OWNERSHIP_LOST"


@pytest.mark.case("blueprints:RN-17")
def test_each_call_has_a_signal_of_its_own(session: loom.Loom) -> None:
    signals: list[Any] = []

    async def first(access: Any) -> loom.StepResult:
        signals.append(access.signal)
        return loom.StepResult("again" if len(signals) < 3 else "complete")

    async def then(access: Any) -> loom.StepResult:
        signals.append(access.signal)
        assert [s.aborted for s in signals] == [True, True, True, False]
        return DONE

    assert rest(session.flow(two_steps(first, then), "go")).status == "completed"
    assert len({id(s) for s in signals}) == 4


@pytest.mark.case("blueprints:RN-17")
@pytest.mark.parametrize("how", ["ends", "is stopped"])
def test_a_listener_that_raises_harms_neither_the_run_nor_the_listeners_after_it(session: loom.Loom, how: str) -> None:
    told: list[str] = []
    gate = Gate()

    def bad(reason: BaseException) -> None:
        raise SystemExit("bad listener")

    async def step(access: Any) -> loom.StepResult:
        access.signal.add_listener(bad)
        access.signal.add_listener(lambda reason: told.append(type(reason).__name__))
        if how == "is stopped":
            await gate.wait()
        return DONE

    run = session.flow(one_step(step), "go")
    if how == "is stopped":
        gate.reached()
        run.cancel()
    view = rest(run)
    gate.open()

    assert (view.status, the_error(view)) == (("completed", "") if how == "ends" else ("failed", "RUN_STOPPED"))
    assert told == ["OwnershipLost" if how == "ends" else "StepError"]


# -- RN-18: turns ------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:RN-18")
@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_step_that_loops_a_thousand_times_lets_other_runs_go_on(session: loom.Loom, kind: str) -> None:
    rounds: list[int] = []
    others: list[int] = []
    is_over = Gate()

    def result() -> loom.StepResult:
        rounds.append(len(others))
        return loom.StepResult(
            "again" if len(rounds) < 1000 and (len(rounds) < 900 or not is_over.opened.is_set()) else "complete"
        )

    async def first(access: Any) -> loom.StepResult:
        return result()

    def first_plainly(access: Any) -> loom.StepResult:
        return result()

    async def then(access: Any) -> loom.StepResult:
        return DONE

    async def other(access: Any) -> loom.StepResult:
        others.append(1)
        return loom.StepResult("complete" if len(others) == 20 else "again")

    run = session.flow(two_steps(first if kind == "async" else first_plainly, then, name="loops"), "go")
    until(run, lambda: len(rounds) >= 10)
    beside = session.flow(two_steps(other, then, name="beside"), "go")
    assert rest(beside).status == "completed"
    is_over.open()

    assert rest(run).status == "completed"
    assert 0 < rounds[-1] <= 20
    assert len(rounds) >= 900


@pytest.mark.case("blueprints:RN-18")
def test_a_loop_can_be_stopped(session: loom.Loom) -> None:
    rounds: list[int] = []

    async def first(access: Any) -> loom.StepResult:
        rounds.append(1)
        return loom.StepResult("again")

    run = session.flow(two_steps(first, first), "go")
    until(run, lambda: len(rounds) >= 10)
    run.cancel()

    assert the_error(rest(run)) == "RUN_STOPPED"
