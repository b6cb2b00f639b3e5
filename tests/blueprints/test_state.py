"""The State of a stage: how it is made, written and read, what is refused and in which order, and what a restart finds."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import loomnb as loom
from loomnb.store.writer import Writer, commit_error
from loomnb.testing import Death
from tests.blueprints.flows import BLOWS, END, Gate, code_raised, f2, intent_of, one_step, opened, rest, the_error, two_steps
from tests.helpers import StillSource, until

DONE = loom.StepResult("complete")


class Items(BaseModel):
    """A State with a default, and a list in it."""

    name: str
    items: list[Any] = Field(default_factory=list)


def ran(session: loom.Loom, step: Callable[[Any], Any], **options: Any) -> loom.FlowRunView:
    """How a flow of one step stands that did this."""

    async def code(access: Any) -> loom.StepResult:
        await step(access)
        return DONE

    view = rest(session.flow(one_step(code, **{"initialize": lambda context: {"name": "a"}, "schema": Items, **options}), "go"))
    assert view.status == "completed", the_error(view)
    return view


# -- ST-01: the initializer --------------------------------------------------------------------------


@pytest.mark.case("blueprints:ST-01")
def test_an_initializer_is_told_exactly_four_things(session: loom.Loom) -> None:
    told: list[loom.InitializerContext] = []

    def initialize(context: loom.InitializerContext) -> Any:
        told.append(context)
        return {"name": "a"}

    async def step(access: Any) -> None:
        pass

    view = ran(session, step, initialize=initialize)

    assert dataclasses.asdict(told[0]) == {"run_id": view.run_id, "flow_name": "one", "stage_name": "stage", "intent": "go"}


@pytest.mark.case("blueprints:ST-01")
@pytest.mark.parametrize("name", ["intent", "run_id", "more"])
def test_what_an_initializer_is_told_is_frozen(session: loom.Loom, name: str) -> None:
    refused: list[bool] = []

    def initialize(context: Any) -> Any:
        try:
            setattr(context, name, "changed")
        except (AttributeError, TypeError):
            refused.append(True)
        return {"name": context.intent}

    async def step(access: Any) -> None:
        assert access.state.value["name"] == "go"

    ran(session, step, initialize=initialize)

    assert refused == [True]


class Counting:
    """Adds one to its value, and says how often it was asked."""

    def __init__(self) -> None:
        self.parsed: list[Any] = []

    def parse(self, value: Any) -> Any:
        self.parsed.append(value)
        return {"n": value["n"] + 1, "default": value.get("default", "d")}


class CountingAsync(Counting):
    async def parse(self, value: Any) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().parse(value)


@pytest.mark.case("blueprints:ST-01")
@pytest.mark.parametrize("schema", [Counting, CountingAsync])
def test_a_seed_goes_through_the_schema_once(session: loom.Loom, schema: type[Counting]) -> None:
    counting = schema()

    async def step(access: Any) -> None:
        assert access.state.value == {"n": 2, "default": "d"}

    ran(session, step, schema=counting, initialize=lambda context: {"n": 1})

    assert counting.parsed == [{"n": 1}]


@pytest.mark.case("blueprints:ST-01")
@pytest.mark.parametrize("schema", [Counting, CountingAsync])
def test_a_write_goes_through_the_schema_once(session: loom.Loom, schema: type[Counting]) -> None:
    counting = schema()

    async def step(access: Any) -> None:
        await access.state.update({"n": 10})
        assert access.state.value == {"n": 11, "default": "d"}
        await access.state.update(access.state.value)
        assert access.state.value == {"n": 12, "default": "d"}

    ran(session, step, schema=counting, initialize=lambda context: {"n": 1})

    assert [value["n"] for value in counting.parsed] == [1, 10, 11]


class Typed(TypedDict):
    name: str


@dataclasses.dataclass
class Data:
    name: str
    n: int = 3


class Color(enum.Enum):
    RED = "red"


@pytest.mark.case("blueprints:ST-01")
@pytest.mark.parametrize(
    ("schema", "seed", "value"),
    [
        (Items, {"name": "a"}, {"name": "a", "items": []}),
        (Items, Items(name="a", items=[1]), {"name": "a", "items": [1]}),
        (pydantic.TypeAdapter(Items), {"name": "a"}, {"name": "a", "items": []}),
        (Typed, {"name": "a"}, {"name": "a"}),
        (Data, {"name": "a"}, {"name": "a", "n": 3}),
        (str, "text", "text"),
        (Color, "red", "red"),
        (list[int], [1, 2], [1, 2]),
        (bool, True, True),
        (int, 0, 0),
        (float, 0.5, 0.5),
        (type(None), None, None),
        (dt.date, "2026-01-02", "2026-01-02"),
        (Annotated[int, Field(gt=0)], 5, 5),
        (Any, {"ключ": ["ü", None, 1.5, True]}, {"ключ": ["ü", None, 1.5, True]}),
    ],
    ids=range(15),
)
def test_what_pydantic_takes_is_a_schema(session: loom.Loom, schema: Any, seed: Any, value: Any) -> None:
    seen: list[Any] = []

    async def step(access: Any) -> None:
        seen.append(access.state.value)

    ran(session, step, schema=schema, initialize=lambda context: seed)

    assert seen == [value]
    assert type(seen[0]) is type(value)


# -- ST-02 … ST-06: create, update, clear -----------------------------------------------------------


@pytest.mark.case("blueprints:ST-02")
def test_a_state_that_is_there_is_not_made(session: loom.Loom) -> None:
    async def step(access: Any) -> None:
        assert await code_raised(lambda: access.state.create({"name": "b"})) == "STAGE_STATE_EXISTS"
        assert access.state.value["name"] == "a"

    ran(session, step)


@pytest.mark.case("blueprints:ST-03")
def test_an_update_replaces_the_whole_state(session: loom.Loom) -> None:
    async def step(access: Any) -> None:
        await access.state.update({"name": "b", "items": [1, 2]})
        await access.state.update({"name": "c"})
        assert access.state.value == {"name": "c", "items": []}

    ran(session, step)


@pytest.mark.case("blueprints:ST-04")
def test_a_state_is_removed_and_made_again(session: loom.Loom) -> None:
    made: list[int] = []

    def initialize(context: loom.InitializerContext) -> Any:
        made.append(1)
        return {"name": "a"}

    async def step(access: Any) -> None:
        await access.state.clear()
        await access.state.clear()
        assert access.state.value is loom.ABSENT
        assert await code_raised(lambda: access.state.update({"name": "b"})) == "STAGE_STATE_NOT_FOUND"
        assert access.state.value is loom.ABSENT
        await access.state.create({"name": "c"})
        assert access.state.value == {"name": "c", "items": []}

    ran(session, step, initialize=initialize)

    assert made == [1]


@pytest.mark.case("blueprints:ST-04")
def test_a_removed_state_stays_removed_in_the_next_step_of_its_stage(session: loom.Loom) -> None:
    async def first(access: Any) -> loom.StepResult:
        await access.state.clear()
        return DONE

    async def then(access: Any) -> loom.StepResult:
        assert access.state.value is loom.ABSENT
        return DONE

    assert rest(session.flow(two_steps(first, then), "go")).status == "completed"


@pytest.mark.case("blueprints:ST-04")
def test_clearing_touches_no_storage(session: loom.Loom) -> None:
    async def step(access: Any) -> None:
        data = {"flowName": "f", "stageName": "s", "data": 1}
        await access.storage.commit([{"type": "append_record", "id": "r", "payload": data}])
        await access.state.clear()
        assert await access.storage.get_record_by_id("r") is not None

    ran(session, step)


class Thing:
    pass


class Loud(dict[str, Any]):
    pass


def in_itself() -> Any:
    value: dict[str, Any] = {}
    value["me"] = value
    return value


NO_JSON: list[Any] = [
    dt.date(2026, 1, 1),
    dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    float("nan"),
    float("inf"),
    -float("inf"),
    ("a",),
    {1, 2},
    b"a",
    Decimal(1),
    Thing(),
    Thing,
    len,
    object(),
    {1: "a"},
    {None: "a"},
    {True: "a"},
    {("a",): 1},
    {"a": {"b": [float("nan")]}},
    {"a": ("b",)},
    Color.RED,
    complex(1),
    "\ud800",
    {"\udfff": 1},
    in_itself(),
    loom.ABSENT,
    range(3),
    Loud(a=1),
]


@pytest.mark.case("blueprints:ST-05")
@pytest.mark.parametrize("value", NO_JSON, ids=range(len(NO_JSON)))
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"name": "b", "items": [value]}], ids=["bare", "nested"])
def test_what_json_cannot_hold_is_no_state(session: loom.Loom, value: Any, wrap: Any) -> None:
    async def step(access: Any) -> None:
        assert await code_raised(lambda: access.state.update(wrap(value))) == "STAGE_STATE_INVALID"
        assert access.state.value == {"name": "a", "items": []}
        await access.state.update({"name": "b"})
        assert access.state.value["name"] == "b"

    ran(session, step, schema=Items)


MISFITS: list[Any] = [{"name": 1}, {"name": None}, {}, None, "a", [], {"name": "a", "items": 1}, 0, False]


@pytest.mark.case("blueprints:ST-05")
@pytest.mark.parametrize("value", MISFITS, ids=range(len(MISFITS)))
def test_what_does_not_fit_the_schema_leaves_the_state_as_it_was(session: loom.Loom, value: Any) -> None:
    async def step(access: Any) -> None:
        assert await code_raised(lambda: access.state.update(value)) == "STAGE_STATE_INVALID"
        assert access.state.value == {"name": "a", "items": []}
        await access.state.update({"name": "b"})
        assert access.state.value["name"] == "b"

    ran(session, step)


class Giving:
    """Gives what it is told to, whatever it is given."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.calls = 0

    def parse(self, value: Any) -> Any:
        self.calls += 1
        return value if self.calls == 1 or value == "good" else self.make()


class GivingAsync(Giving):
    async def parse(self, value: Any) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().parse(value)


class NotANumber(BaseModel):
    x: float = 0

    @pydantic.field_validator("x")
    @classmethod
    def _spoil(cls, value: float) -> float:
        return float("nan") if value else value


@pytest.mark.case("blueprints:ST-05")
@pytest.mark.parametrize("kind", [Giving, GivingAsync])
@pytest.mark.parametrize("output", NO_JSON, ids=range(len(NO_JSON)))
def test_what_a_schema_gives_has_to_be_json_too(session: loom.Loom, output: Any, kind: type[Giving]) -> None:
    async def step(access: Any) -> None:
        assert await code_raised(lambda: access.state.update("bad")) == "STAGE_STATE_INVALID"
        assert access.state.value == "seed"
        await access.state.update("good")
        assert access.state.value == "good"

    ran(session, step, schema=kind(lambda: output), initialize=lambda context: "seed")


@pytest.mark.case("blueprints:ST-05")
@pytest.mark.parametrize("schema", [NotANumber, pydantic.TypeAdapter(list[NotANumber]), dict[str, NotANumber]])
def test_a_number_that_is_none_is_not_made_null_on_its_way_out_of_a_schema(session: loom.Loom, schema: Any) -> None:
    good: Any = {"x": 0.0}
    bad: Any = {"x": 1.0}
    if schema is not NotANumber:
        good, bad = ([good], [bad]) if isinstance(schema, pydantic.TypeAdapter) else ({"a": good}, {"a": bad})

    async def step(access: Any) -> None:
        assert await code_raised(lambda: access.state.update(bad)) == "STAGE_STATE_INVALID"
        assert access.state.value == good

    ran(session, step, schema=schema, initialize=lambda context: good)


def raising(blow: Callable[[], BaseException]) -> Callable[[], Any]:
    def make() -> Any:
        raise blow()

    return make


STRONG: list[Callable[[], BaseException]] = [
    *(blow for blow in BLOWS if not isinstance(blow(), GeneratorExit)),  # which is how a coroutine is closed
    lambda: loom.StepError("mine", code="RUN_STOPPED"),
]


@pytest.mark.case("blueprints:ST-05")
@pytest.mark.parametrize("kind", [Giving, GivingAsync])
@pytest.mark.parametrize("blow", STRONG, ids=range(len(STRONG)))
def test_a_schema_may_raise_anything(session: loom.Loom, blow: Any, kind: type[Giving]) -> None:
    async def step(access: Any) -> None:
        assert await code_raised(lambda: access.state.update("bad")) == "STAGE_STATE_INVALID"
        assert access.state.value == "seed"
        await access.state.update("good")
        assert access.state.value == "good"

    ran(session, step, schema=kind(raising(blow)), initialize=lambda context: "seed")


@pytest.mark.case("blueprints:ST-05")
@pytest.mark.parametrize("blow", STRONG, ids=range(len(STRONG)))
def test_a_schema_that_raises_at_the_entry_fails_the_initialization(session: loom.Loom, blow: Any) -> None:
    schema = Giving(raising(blow))
    schema.calls = 1
    view = rest(session.flow(one_step(lambda access: DONE, schema=schema, initialize=lambda context: "bad"), "go"))

    assert the_error(view) == "RUN_INITIALIZATION_FAILED"


@pytest.mark.case("blueprints:ST-05")
def test_an_uncaught_refusal_of_state_fails_the_run_by_its_code(session: loom.Loom) -> None:
    async def step(access: Any) -> loom.StepResult:
        await access.state.create({})
        return DONE

    assert the_error(rest(session.flow(one_step(step), "go"))) == "STAGE_STATE_EXISTS"


@pytest.mark.case("blueprints:ST-06")
def test_an_argument_that_is_changed_after_the_call_is_stored_as_it_was(session: loom.Loom) -> None:
    async def step(access: Any) -> None:
        value: Any = {"name": "b", "items": [{"n": 1}]}
        write = access.state.update(value)
        value["items"][0]["n"] = 2
        value["items"].append("more")
        await write
        value["name"] = "c"
        assert access.state.value == {"name": "b", "items": [{"n": 1}]}

    ran(session, step)


@pytest.mark.case("blueprints:ST-06")
def test_a_read_value_that_is_changed_changes_no_state(session: loom.Loom) -> None:
    async def step(access: Any) -> None:
        await access.state.update({"name": "b", "items": [{"n": 1}]})
        read = access.state.value
        read["items"][0]["n"] = 2
        read["more"] = 1
        assert access.state.value == {"name": "b", "items": [{"n": 1}]}

    ran(session, step)


@pytest.mark.case("blueprints:ST-06")
def test_a_seed_that_is_changed_later_changes_no_state(session: loom.Loom) -> None:
    seed: Any = {"name": "a", "items": [1]}

    async def step(access: Any) -> None:
        seed["items"].append(2)
        assert access.state.value == {"name": "a", "items": [1]}

    ran(session, step, initialize=lambda context: seed)


class Keeping:
    """Keeps what it is given and gives, and changes it afterwards."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def parse(self, value: Any) -> Any:
        self.kept.append(value)
        return value


@pytest.mark.case("blueprints:ST-06")
def test_a_value_that_a_schema_keeps_is_a_copy(session: loom.Loom) -> None:
    schema = Keeping()

    async def step(access: Any) -> None:
        await access.state.update({"items": [1]})
        for kept in schema.kept:
            kept["items"] = "changed"
        assert access.state.value == {"items": [1]}

    ran(session, step, schema=schema, initialize=lambda context: {"items": []})


@pytest.mark.case("blueprints:ST-06")
def test_the_state_of_a_run_is_read_as_a_copy(session: loom.Loom) -> None:
    async def step(access: Any) -> loom.StepResult:
        await access.interaction.confirm("Go?")
        return DONE

    run = session.flow(one_step(step, schema=Items, initialize=lambda context: {"name": "a", "items": [[1]]}), "go")
    rest(run)
    run.state["items"][0].append(2)

    assert run.state == {"name": "a", "items": [[1]]}


# -- ST-08 … ST-10: whose State it is ----------------------------------------------------------------


@pytest.mark.case("blueprints:ST-08")
def test_a_stage_that_is_entered_again_has_a_fresh_state_and_the_former_access_is_over(session: loom.Loom) -> None:
    kept: list[Any] = []
    told: list[str] = []

    async def start(access: Any) -> loom.StepResult:
        kept.append(access)
        if len(kept) == 1:
            await access.state.update({"intent": "changed", "value": 9})
            return loom.StepResult("reenter")
        assert access.state.value == {"intent": "go", "value": 0}
        former = kept[0].state
        told.append(await code_raised(lambda: former.update({"intent": "late"})))
        try:
            _ = former.value
        except loom.LoomError as exc:
            told.append(exc.code)
        assert access.state.value == {"intent": "go", "value": 0}
        return DONE

    assert rest(session.flow(f2(start=start), "go")).status == "completed"
    assert told == ["EXECUTION_OWNERSHIP_LOST"] * 2


@pytest.mark.case("blueprints:ST-09")
def test_two_runs_of_one_flow_have_a_state_each(session: loom.Loom) -> None:
    gates = {"a": Gate(), "b": Gate()}
    seen: dict[str, Any] = {}

    async def step(access: Any) -> loom.StepResult:
        name = access.state.value["name"]
        await access.state.update({"name": name, "items": [name]})
        await gates[name].wait()
        seen[name] = access.state.value
        return DONE

    blueprint = one_step(step, schema=Items, initialize=lambda context: {"name": context.intent})
    runs = [session.flow(blueprint, name) for name in gates]
    for gate in gates.values():
        gate.reached()
    for gate in gates.values():
        gate.open()
    for run in runs:
        rest(run)

    assert seen == {"a": {"name": "a", "items": ["a"]}, "b": {"name": "b", "items": ["b"]}}


@pytest.mark.case("blueprints:ST-09")
def test_a_stage_that_is_come_back_to_does_not_find_its_former_state(session: loom.Loom) -> None:
    seen: list[Any] = []

    def stage(leads: Any) -> loom.BlueprintStage:
        async def step(access: Any) -> loom.StepResult:
            seen.append(access.state.value["value"])
            await access.state.update({"intent": "x", "value": len(seen)})
            return loom.StepResult("end" if len(seen) == 3 else "go")

        return loom.BlueprintStage(
            state_schema=dict[str, Any],
            initialize_state=lambda context: {**intent_of(context), "value": 0},
            entry_step_name="step",
            steps={"step": loom.BlueprintStep(execution=loom.code(step), on={"go": loom.STAGE_END, "end": loom.STAGE_END})},
            on={"go": leads, "end": END},
        )

    flow = loom.Blueprint(flow_name="back", entry_stage_name="first", stages={"first": stage("second"), "second": stage("first")})

    assert rest(session.flow(flow, "go")).status == "completed"
    assert seen == [0, 0, 0]


@pytest.mark.case("blueprints:ST-10")
def test_after_a_failure_the_last_state_can_be_looked_at(session: loom.Loom) -> None:
    async def step(access: Any) -> loom.StepResult:
        await access.state.update({"name": "last"})
        raise ValueError("no")

    run = session.flow(one_step(step), "go")
    rest(run)

    assert run.state == {"name": "last"}


# -- ST-11 … ST-16: order, null, slow schemas --------------------------------------------------------


@pytest.mark.case("blueprints:ST-11")
def test_of_two_creates_at_once_the_first_wins(session: loom.Loom) -> None:
    async def step(access: Any) -> None:
        await access.state.clear()
        first, second = access.state.create({"name": "first"}), access.state.create({"name": "second"})
        assert await code_raised(lambda: second) == "STAGE_STATE_EXISTS"
        await first
        assert access.state.value["name"] == "first"
        await access.state.update({"name": "third"})
        assert access.state.value["name"] == "third"

    ran(session, step)


@pytest.mark.case("blueprints:ST-11")
def test_writes_come_into_force_in_the_order_of_their_calls(session: loom.Loom) -> None:
    async def step(access: Any) -> None:
        writes = [
            access.state.update({"name": "1"}),
            access.state.update({"name": 2}),
            access.state.clear(),
            access.state.update({"name": "4"}),
            access.state.create({"name": "5"}),
            access.state.create({"name": "6"}),
            access.state.update({"name": "7"}),
        ]
        told = [await code_raised(lambda write=write: write) for write in writes]
        assert told == ["", "STAGE_STATE_INVALID", "", "STAGE_STATE_NOT_FOUND", "", "STAGE_STATE_EXISTS", ""]
        assert access.state.value["name"] == "7"

    ran(session, step)


@pytest.mark.case("blueprints:ST-11")
def test_writes_of_tasks_at_once_lose_nothing(session: loom.Loom) -> None:
    async def step(access: Any) -> None:
        await asyncio.gather(*(access.state.update({"name": str(n)}) for n in range(50)))
        assert access.state.value["name"] == "49"

    ran(session, step)


@pytest.mark.case("blueprints:ST-13")
def test_null_is_a_value(session: loom.Loom) -> None:
    async def step(access: Any) -> None:
        assert access.state.value is None
        assert await code_raised(lambda: access.state.create(None)) == "STAGE_STATE_EXISTS"
        await access.state.update(None)
        assert access.state.value is None
        await access.state.clear()
        assert access.state.value is loom.ABSENT
        await access.state.create(None)
        assert access.state.value is None

    ran(session, step, schema=type(None), initialize=lambda context: None)


@pytest.mark.case("blueprints:ST-13")
@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", [], {}])
def test_a_value_that_is_empty_is_there(here: Any, value: Any) -> None:
    async def step(access: Any) -> loom.StepResult:
        assert access.state.value == value
        assert type(access.state.value) is type(value)
        await access.interaction.confirm("Go?")
        return DONE

    code = loom.code(step)
    code.recover(lambda saved, access: DONE)
    with loom.open(here / "s.duckdb") as session:
        run = session.flow(one_step(code, schema=Any, initialize=lambda context: value), "go")
        rest(run)
        assert run.state == value
    with loom.open(here / "s.duckdb") as session:
        (run,) = session.flows()
        assert run.state == value
        assert type(run.state) is type(value)


class ByGate:
    """Async; a value with a `gate` waits there."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def parse(self, value: Any) -> Any:
        if value.get("gate"):
            await self.gate.wait()
        return value


@pytest.mark.case("blueprints:ST-15")
def test_an_initializer_that_fails_once_its_run_goes_on_elsewhere_changes_nothing(here: Any) -> None:
    """Its store was closed over it; the next one entered the stage anew."""
    gate, over = Gate(), Gate()
    calls: list[int] = []

    def initialize(context: loom.InitializerContext) -> Any:
        calls.append(1)
        if len(calls) == 1:
            try:
                gate.block()
                raise ValueError("late")
            finally:
                over.arrived.set()
        return {"name": "newer"}

    async def step(access: Any) -> loom.StepResult:
        await access.interaction.confirm("Go?")
        return DONE

    blueprint = one_step(step, schema=Items, initialize=initialize)
    session = loom.open(here / "s.duckdb")
    session.flow(blueprint, "go")
    gate.reached()
    session.close()
    with loom.open(here / "s.duckdb") as session:
        (run,) = session.flows()
        until(run, lambda: bool(run.pending))
        before = run.view()
        gate.open()
        over.reached()

        assert run.view() == before
        assert run.state == {"name": "newer", "items": []}


@pytest.mark.case("blueprints:ST-16")
def test_readers_see_the_former_value_until_a_slow_schema_is_done(session: loom.Loom) -> None:
    schema = ByGate()

    async def step(access: Any) -> None:
        value = {"gate": True, "n": [1]}
        write = access.state.update(value)
        await asyncio.to_thread(schema.gate.reached)
        value["n"].append(2)
        assert access.state.value == {}
        schema.gate.open()
        await write
        assert access.state.value == {"gate": True, "n": [1]}

    ran(session, step, schema=schema, initialize=lambda context: {})


@pytest.mark.case("blueprints:ST-16")
def test_a_write_behind_a_slow_one_waits_for_it(session: loom.Loom) -> None:
    schema = ByGate()

    async def step(access: Any) -> None:
        slow, quick = access.state.update({"gate": True}), access.state.update({"n": 2})
        await asyncio.to_thread(schema.gate.reached)
        assert access.state.value == {}
        schema.gate.open()
        await quick
        assert slow.done()
        assert access.state.value == {"n": 2}

    ran(session, step, schema=schema, initialize=lambda context: {})


# -- DX-03: what is told first -----------------------------------------------------------------------


@pytest.mark.case("blueprints:DX-03")
@pytest.mark.parametrize(
    ("is_there", "what", "value", "code"),
    [
        (True, "create", {"name": 1}, "STAGE_STATE_EXISTS"),
        (True, "create", {"name": ("a",)}, "STAGE_STATE_INVALID"),
        (True, "create", float("nan"), "STAGE_STATE_INVALID"),
        (True, "create", {"name": "b"}, "STAGE_STATE_EXISTS"),
        (True, "update", {"name": 1}, "STAGE_STATE_INVALID"),
        (False, "update", {"name": 1}, "STAGE_STATE_NOT_FOUND"),
        (False, "update", {"name": "b"}, "STAGE_STATE_NOT_FOUND"),
        (False, "update", {1: 2}, "STAGE_STATE_INVALID"),
        (False, "create", {"name": 1}, "STAGE_STATE_INVALID"),
        (False, "create", object(), "STAGE_STATE_INVALID"),
    ],
    ids=range(10),
)
def test_json_is_judged_before_existence_and_existence_before_the_schema(
    session: loom.Loom, is_there: bool, what: str, value: Any, code: str
) -> None:
    async def step(access: Any) -> None:
        if not is_there:
            await access.state.clear()
        before = access.state.value
        assert await code_raised(lambda: getattr(access.state, what)(value)) == code
        assert access.state.value == before

    ran(session, step)


@pytest.mark.case("blueprints:DX-03")
def test_existence_is_judged_when_the_writes_before_it_are_done(session: loom.Loom) -> None:
    async def step(access: Any) -> None:
        gone, made = access.state.clear(), access.state.create({"name": "b"})
        await gone
        await made
        assert access.state.value["name"] == "b"

    ran(session, step)


# -- plain codes, times, the view --------------------------------------------------------------------


@pytest.mark.case("blueprints:ST-01")
def test_a_plain_def_reads_state_and_cannot_write_it(session: loom.Loom) -> None:
    seen: list[Any] = []

    def step(access: Any) -> loom.StepResult:
        seen.append(access.state.value)
        with pytest.raises(loom.StepError, match="async def"):
            access.state.update({"name": "b"})
        return DONE

    run = session.flow(one_step(step, schema=Items, initialize=lambda context: {"name": "a"}), "go")

    assert rest(run).status == "completed"
    assert seen == [{"name": "a", "items": []}]


@pytest.mark.case("blueprints:RT-01")
def test_a_write_changes_no_time_of_the_view(here: Any) -> None:
    source, gate = StillSource(), Gate()

    async def step(access: Any) -> loom.StepResult:
        source.advance(5)
        await access.state.update({"name": "b"})
        await access.state.clear()
        await gate.wait()
        return DONE

    with opened(here / "s.duckdb", source) as session:
        run = session.flow(one_step(step, schema=Items, initialize=lambda context: {"name": "a"}), "go")
        gate.reached()
        assert run.view().updated_at == run.view().created_at
        gate.open()
        assert rest(run).updated_at > run.view().created_at


@pytest.mark.case("blueprints:RT-01")
def test_making_the_state_of_the_first_stage_changes_no_time_of_the_view(here: Any) -> None:
    source, gate = StillSource(), Gate()

    async def initialize(context: loom.InitializerContext) -> Any:
        source.advance(5)
        return {"name": "a"}

    async def step(access: Any) -> loom.StepResult:
        await gate.wait()
        return DONE

    with opened(here / "s.duckdb", source) as session:
        run = session.flow(one_step(step, schema=Items, initialize=initialize), "go")
        gate.reached()
        assert run.view().updated_at == run.view().created_at
        gate.open()
        rest(run)


# -- DX-05, DX-11: restarts --------------------------------------------------------------------------


@pytest.mark.case("blueprints:DX-05")
def test_an_initializer_that_was_interrupted_runs_again(here: Any) -> None:
    """Turned by decisions.md: it has no effects."""
    gate = Gate()
    calls: list[loom.InitializerContext] = []

    def initialize(context: loom.InitializerContext) -> Any:
        calls.append(context)
        if len(calls) == 1:
            gate.block()
        return {"name": "again"}

    async def step(access: Any) -> loom.StepResult:
        assert access.state.value["name"] == "again"
        return DONE

    blueprint = one_step(step, schema=Items, initialize=initialize)
    session = loom.open(here / "s.duckdb")
    run_id = session.flow(blueprint, "  go  ").id
    gate.reached()
    session.close()
    with loom.open(here / "s.duckdb") as session:
        (run,) = session.flows()
        assert rest(run).status == "completed"
    gate.open()

    assert [(c.run_id, c.intent) for c in calls] == [(run_id, "  go  ")] * 2


@pytest.mark.case("blueprints:DX-05")
def test_an_initializer_that_was_about_to_run_runs_after_a_restart(here: Any) -> None:
    """The kernel dies with the commit of the route into the second stage."""
    calls: list[str] = []

    def initialize(context: loom.InitializerContext) -> Any:
        calls.append(context.stage_name)
        return intent_of(context)

    blueprint = f2(initialize=initialize, initialize_second=initialize)
    routed = 6  # the start, the entry, and of each of two steps its beginning and its end
    death = Death(after=routed, acknowledged=False)
    session = loom.Loom(here / "s.duckdb", database=death)
    session.flow(blueprint, "go")
    death.wait()
    session.close()
    assert calls == ["first"]
    with loom.open(here / "s.duckdb") as session:
        (run,) = session.flows()
        assert rest(run).status == "completed"

    assert calls == ["first", "second"]


def asks(access_before: Callable[[Any], Any], recover: Callable[..., Any]) -> Any:
    async def step(access: Any) -> loom.StepResult:
        await access_before(access)
        await access.interaction.confirm("Go?")
        return DONE

    code = loom.code(step)
    code.recover(recover)
    return code


@pytest.mark.case("blueprints:DX-11")
def test_a_cleared_state_is_absent_after_a_restart_and_recover_may_make_it(here: Any) -> None:
    seen: list[Any] = []

    async def recover(saved: Any, access: Any) -> loom.StepResult:
        seen.append(access.state.value)
        seen.append(await code_raised(lambda: access.state.update({"name": "b"})))
        await access.state.create({"name": "c"})
        seen.append(access.state.value)
        return DONE

    blueprint = one_step(asks(lambda access: access.state.clear(), recover), schema=Items, initialize=lambda c: {"name": "a"})
    with loom.open(here / "s.duckdb") as session:
        rest(session.flow(blueprint, "go"))
    with loom.open(here / "s.duckdb") as session:
        (run,) = session.flows()
        assert run.state is loom.ABSENT
        run.answer({"isConfirmed": True})
        until(run, lambda: run.status in ("completed", "failed"))

        assert run.status == "completed"
    assert seen == [loom.ABSENT, "STAGE_STATE_NOT_FOUND", {"name": "c", "items": []}]


@pytest.mark.case("blueprints:DX-11")
def test_a_state_that_was_written_before_a_question_is_there_after_a_restart(here: Any) -> None:
    """And its schema was not applied again."""
    seen: list[Any] = []
    schema = Counting()

    async def recover(saved: Any, access: Any) -> loom.StepResult:
        seen.append(access.state.value)
        return DONE

    blueprint = one_step(
        asks(lambda access: access.state.update({"n": 4}), recover), schema=schema, initialize=lambda c: {"n": 1}
    )
    with loom.open(here / "s.duckdb") as session:
        rest(session.flow(blueprint, "go"))
    with loom.open(here / "s.duckdb") as session:
        (run,) = session.flows()
        run.answer({"isConfirmed": True})
        until(run, lambda: run.status in ("completed", "failed"))

    assert seen == [{"n": 5, "default": "d"}]
    assert len(schema.parsed) == 2


@pytest.mark.case("blueprints:RN-16", "blueprints:ST-05")
def test_a_write_that_could_not_be_stored_is_made_anew_by_a_retry_and_a_restart_finds_it(
    here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, is_full = Writer._insert, [True]

    def failing(self: Writer, rows: Any) -> Any:
        if is_full[0] and any(kind == "step.recorded" for _, kind, _ in rows):
            return commit_error(OSError("the disk said no"))
        return insert(self, rows)

    monkeypatch.setattr(Writer, "_insert", failing)

    async def step(access: Any) -> loom.StepResult:
        await access.state.update({"name": "b", "items": [1]})
        await access.interaction.confirm("Go?")
        return DONE

    blueprint = one_step(step, schema=Items, initialize=lambda context: {"name": "a"})
    with loom.open(here / "s.duckdb") as session:
        run = session.flow(blueprint, "go")
        assert the_error(rest(run)) == "RUN_CHECKPOINT_FAILED"
        assert run.state == {"name": "a", "items": []}
        is_full[0] = False
        run.retry()
        until(run, lambda: bool(run.pending))
        assert run.state == {"name": "b", "items": [1]}
    with loom.open(here / "s.duckdb") as session:
        (run,) = session.flows()
        assert run.state == {"name": "b", "items": [1]}
