"""The access of an agent step out of an adapter's context: what is one, what is none, and that nothing of it is used."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

import loomnb as loom
from loomnb.blueprints import AbortSignal, agent_execution_context_key, get_agent_execution_access
from loomnb.errors import StepError
from tests.blueprints.agenting import DONE, agent_flow, played, tool
from tests.helpers import plain_id

STATE = ("create", "update", "clear")
STORAGE = ("get_artifact", "get_artifact_by_id", "get_latest_record", "get_record_by_id", "list_artifacts", "list_records")
PROJECT = ("snapshot", "read", "write", "remove", "run")


def never(*args: Any, **more: Any) -> NoReturn:
    raise AssertionError("it was used")


class State:
    """Whoever reads or calls anything of it has used it."""

    create = update = clear = never

    @property
    def value(self) -> NoReturn:
        raise AssertionError("it was read")


class Storage:
    get_artifact = get_artifact_by_id = get_latest_record = get_record_by_id = list_artifacts = list_records = never


class Project:
    snapshot = read = write = remove = run = never


def members(**changed: Any) -> dict[str, Any]:
    """The members of a valid binding, but for what is given."""
    return {"state": State(), "storage": Storage(), "signal": AbortSignal()} | changed


def binding(**changed: Any) -> SimpleNamespace:
    return SimpleNamespace(**members(**changed))


class Context:
    """A context that remembers what it was asked for."""

    def __init__(self, held: Any, key: str = "intloom.execution") -> None:
        self.held, self.key = held, key
        self.asked: list[str] = []

    def get(self, key: str) -> Any:
        self.asked.append(key)
        return self.held if key == self.key else None


def looked_up(held: Any) -> Any:
    return get_agent_execution_access(Context(held))


def refused(held: Any) -> StepError:
    with pytest.raises(StepError) as caught:
        looked_up(held)
    assert (caught.value.code, caught.value.retryable) == ("STEP_EXECUTION_FAILED", False)
    return caught.value


# -- what is one -------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:AC-01")
def test_a_valid_binding_is_given_as_it_is_and_nothing_of_it_is_used() -> None:
    held = binding(project=Project())

    assert looked_up(held) is held


@pytest.mark.case("blueprints:AC-01")
def test_exactly_one_key_is_asked_for() -> None:
    context = Context(binding())

    get_agent_execution_access(context)

    assert context.asked == ["intloom.execution"] == [agent_execution_context_key]


@pytest.mark.parametrize("kind", [dict, UserDict])
def test_a_binding_may_be_a_mapping(kind: Callable[[Any], Any]) -> None:
    state = kind({"value": 1, "create": never, "update": never, "clear": never})
    held = kind(members(state=state, storage=kind(dict.fromkeys(STORAGE, never))))

    assert looked_up(held) is held


def test_a_context_may_be_a_plain_dict() -> None:
    held = binding()

    assert get_agent_execution_access({"intloom.execution": held}) is held


class Slotted:
    """With a slot for each member, of which some may be empty."""

    __slots__ = ("interaction", "project", "signal", "state", "storage")

    def __init__(self, **given: Any) -> None:
        for name, value in given.items():
            setattr(self, name, value)


def test_an_empty_slot_is_no_member() -> None:
    held = Slotted(**members())

    assert looked_up(held) is held


@pytest.mark.parametrize("name", ["state", "storage", "signal"])
def test_an_empty_slot_of_what_is_needed_is_missing(name: str) -> None:
    given = members()
    del given[name]

    refused(Slotted(**given))


@pytest.mark.case("blueprints:AC-09")
def test_methods_may_be_inherited() -> None:
    class MyState(State): ...

    class MyStorage(Storage): ...

    class MyProject(Project): ...

    held = binding(state=MyState(), storage=MyStorage(), project=MyProject())

    assert looked_up(held) is held


def test_methods_may_be_static_or_of_the_class() -> None:
    class MyState(State):
        create = staticmethod(never)

        @classmethod
        def update(cls, value: Any) -> NoReturn:
            never()

    held = binding(state=MyState())

    assert looked_up(held) is held


def test_members_may_come_from_properties() -> None:
    class Binding:
        state = property(lambda self: State())
        storage = property(lambda self: Storage())
        signal = property(lambda self: AbortSignal())

    held = Binding()

    assert looked_up(held) is held


@pytest.mark.usefixtures("session")
def test_the_access_of_a_tool_is_one() -> None:
    seen: list[bool] = []

    def execute(given: Any, access: Any) -> None:
        seen.append(get_agent_execution_access({"intloom.execution": access}) is access)

    played(agent_flow(tool(execute)), [[("tool", {})], DONE])

    assert seen == [True]


@pytest.mark.usefixtures("session")
def test_the_access_of_a_tool_of_a_project_is_one(tmp_path: Any) -> None:
    (tmp_path / "p").mkdir()
    seen: list[bool] = []

    def execute(given: Any, access: Any) -> None:
        seen.append(get_agent_execution_access({"intloom.execution": access}) is access)

    played(agent_flow(tool(execute)), [[("tool", {})], DONE], project=tmp_path / "p")

    assert seen == [True]


@pytest.mark.case("blueprints:AC-04")
@pytest.mark.usefixtures("session")
def test_the_access_of_code_is_none_for_an_agent() -> None:
    seen: list[str] = []

    async def work(_: Any, access: Any) -> loom.StepResult:
        seen.append(refused(access).code)
        return loom.StepResult("done")

    stage = loom.BlueprintStage(
        state_schema=int,
        initialize_state=lambda context: 1,
        entry_step_name="work",
        steps={"work": loom.BlueprintStep(execution=work, on={"done": loom.STAGE_END})},
        on={"done": loom.WORKFLOW_END},
    )
    run = loom.flow(loom.Blueprint(flow_name="coded", entry_stage_name="only", stages={"only": stage}), "intent")
    run.wait(20)

    assert seen == ["STEP_EXECUTION_FAILED"]


# -- what is none ------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:AC-02")
@pytest.mark.parametrize("key", ["intloom.executions", "execution", "Intloom.execution", ""])
def test_a_binding_under_another_key_is_none(key: str) -> None:
    with pytest.raises(StepError) as caught:
        get_agent_execution_access(Context(binding(), key))

    assert caught.value.code == "STEP_EXECUTION_FAILED"


@pytest.mark.parametrize("held", [None, [], (), "text", b"", 3, True, 1.5, {}, set(), object(), [binding()]], ids=plain_id)
def test_what_is_no_object_with_members_is_none(held: Any) -> None:
    refused(held)


@pytest.mark.parametrize("context", [None, object(), 3, SimpleNamespace(get=None)], ids=plain_id)
def test_a_context_that_cannot_be_asked_holds_none(context: Any) -> None:
    with pytest.raises(StepError) as caught:
        get_agent_execution_access(context)

    assert caught.value.code == "STEP_EXECUTION_FAILED"


@pytest.mark.case("blueprints:AC-04")
@pytest.mark.parametrize("value", [object(), None])
def test_a_binding_with_interaction_is_none(value: Any) -> None:
    refused(binding(interaction=value))


@pytest.mark.case("blueprints:AC-04")
@pytest.mark.parametrize("value", [object(), None])
def test_a_binding_that_inherits_interaction_is_none(value: Any) -> None:
    class Base:
        interaction = value

    class Binding(Base):
        state, storage, signal = State(), Storage(), AbortSignal()

    refused(Binding())


@pytest.mark.case("blueprints:AC-04")
def test_a_mapping_with_interaction_is_none_though_it_is_nothing() -> None:
    refused(members(interaction=None))


@pytest.mark.case("blueprints:AC-05")
@pytest.mark.parametrize("value", [never, None])
def test_a_storage_with_commit_is_none(value: Any) -> None:
    storage = SimpleNamespace(**dict.fromkeys(STORAGE, never), commit=value)

    refused(binding(storage=storage))


@pytest.mark.case("blueprints:AC-05")
@pytest.mark.parametrize("value", [never, None])
def test_a_storage_that_inherits_commit_is_none(value: Any) -> None:
    class Writable(Storage):
        commit = value

    class MyStorage(Writable): ...

    refused(binding(storage=MyStorage()))


@pytest.mark.case("blueprints:AC-05")
def test_a_mapping_that_inherits_commit_is_none() -> None:
    class Writable(dict[str, Any]):
        commit = never

    refused(binding(storage=Writable(dict.fromkeys(STORAGE, never))))


@pytest.mark.case("blueprints:AC-05")
def test_a_storage_that_forwards_to_one_with_commit_is_none() -> None:
    class Writable(Storage):
        commit = never

    class Forwarding:
        def __getattr__(self, name: str) -> Any:
            return getattr(Writable(), name)

    refused(binding(storage=Forwarding()))


def test_a_storage_that_forwards_to_one_that_only_reads_is_one() -> None:
    class Forwarding:
        def __getattr__(self, name: str) -> Any:
            return getattr(Storage(), name)

    held = binding(storage=Forwarding())

    assert looked_up(held) is held


class Pretender:
    """Says that it is a signal."""

    __class__ = AbortSignal  # type: ignore[assignment]


SIGNALS = [
    None,
    {},
    {"aborted": False},
    object(),
    SimpleNamespace(aborted=False, reason=None),
    AbortSignal,
    Pretender(),
    "signal",
]


@pytest.mark.case("blueprints:AC-06")
@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: type(s).__name__)
def test_a_binding_with_no_genuine_signal_is_none(signal: Any) -> None:
    refused(binding(signal=signal))


@pytest.mark.case("blueprints:AC-06")
def test_a_binding_without_a_signal_is_none() -> None:
    held = binding()
    del held.signal

    refused(held)


METHODS = [("state", name, STATE) for name in STATE] + [("storage", name, STORAGE) for name in STORAGE]
METHODS += [("project", name, PROJECT) for name in PROJECT]


def without(names: tuple[str, ...], missing: str, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: never for name in names if name != missing}, value=1, **more)


@pytest.mark.case("blueprints:AC-07")
@pytest.mark.parametrize(("owner", "method", "names"), METHODS)
def test_a_binding_that_lacks_a_method_is_none(owner: str, method: str, names: tuple[str, ...]) -> None:
    error = refused(binding(**{owner: without(names, method)}))

    assert f"`{method}`" in error.message


@pytest.mark.case("blueprints:AC-07")
@pytest.mark.parametrize("value", [None, 3, "text", object()], ids=plain_id)
@pytest.mark.parametrize(("owner", "method", "names"), METHODS)
def test_a_binding_with_a_method_that_cannot_be_called_is_none(
    owner: str, method: str, names: tuple[str, ...], value: Any
) -> None:
    refused(binding(**{owner: without(names, method, **{method: value})}))


@pytest.mark.parametrize("name", ["state", "storage", "project"])
@pytest.mark.parametrize("value", [None, [], {}, (), "text", 3, object()], ids=plain_id)
def test_a_binding_with_a_capability_that_is_none_is_none(name: str, value: Any) -> None:
    refused(binding(**{name: value}))


def test_a_state_without_a_value_is_none() -> None:
    refused(binding(state=SimpleNamespace(**dict.fromkeys(STATE, never))))


# -- hostile ones ------------------------------------------------------------------------------------


class Hostile(Exception):
    """Raised by what should not have been touched, or is broken."""


def raising(*args: Any) -> NoReturn:
    raise Hostile


@pytest.mark.parametrize("raised", [Hostile(), StepError("no", code="STAGE_STATE_INVALID"), StepError("no")], ids=plain_id)
def test_what_the_context_raises_is_the_cause_and_never_the_code(raised: Exception) -> None:
    class Broken:
        def get(self, key: str) -> NoReturn:
            raise raised

    with pytest.raises(StepError) as caught:
        get_agent_execution_access(Broken())

    assert caught.value.code == "STEP_EXECUTION_FAILED"
    assert caught.value.cause is raised


@pytest.mark.parametrize("name", ["state", "storage", "signal", "project"])
def test_what_a_property_of_the_binding_raises_is_the_cause(name: str) -> None:
    kind = type("Binding", (), members(**{name: property(raising)}))

    assert isinstance(refused(kind()).cause, Hostile)


def test_what_getattr_raises_is_the_cause() -> None:
    class Binding:
        __getattr__ = raising

    assert isinstance(refused(Binding()).cause, Hostile)


def test_what_a_mapping_raises_is_the_cause() -> None:
    class Binding(Mapping[str, Any]):
        __getitem__ = __iter__ = __len__ = __contains__ = raising  # type: ignore[assignment]

    assert isinstance(refused(Binding()).cause, Hostile)


def test_a_class_that_cannot_be_asked_for_is_no_reason_to_raise_anything_else() -> None:
    class Odd:
        @property
        def __class__(self) -> Any:  # type: ignore[override]
            raise Hostile

    refused(Odd())
    refused(binding(state=Odd()))
    refused(binding(signal=Odd()))


def test_a_binding_that_gives_anything_for_any_name_is_none() -> None:
    class Yes:
        def __getattr__(self, name: str) -> Any:
            return self

        def __call__(self, *args: Any) -> Any:
            return never()

    refused(Yes())
