"""An agent as a step: its turns, its tools one after the other, how it ends, how it fails, and what is on record of it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import math
import threading
from collections.abc import Callable, Iterator
from datetime import date
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict

import loomnb as loom
from loomnb.blueprints import FlowRun, ProjectError, compile_blueprint
from loomnb.errors import Conflict, LoomError, OwnershipLost, StepError
from loomnb.runtime import ToolRequest, TurnRequest, TurnResult
from loomnb.testing import Death, ScriptedModel
from tests.blueprints.agenting import DONE, agent_flow, code_flow, error_of, finished, played, tool
from tests.helpers import PATIENCE, at_rest

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture(autouse=True)
def _no_models_left() -> Iterator[None]:
    yield
    loom.use_models()


FAILED = "TOOL_EXECUTION_FAILED"


def failing(execute: Callable[..., Any], *, gives: Any = Any, state: Any = Any, **more: Any) -> FlowRun:
    """A run whose only tool is called once."""
    return played(agent_flow(tool(execute, gives=gives), state=state), [[("tool", {})], DONE], **more)


def said(model: ScriptedModel, turn: int = -1) -> Any:
    """The last message of what the model was told at a turn."""
    return model.requests[turn].messages[-1]


# -- the input of a tool -----------------------------------------------------------------------------


@pytest.mark.case("blueprints:AT-04")
def test_input_that_does_not_fit_is_told_to_the_model_which_may_try_again() -> None:
    given: list[int] = []
    model = ScriptedModel([[("tool", "x")], [("tool", 3)], DONE])

    run = played(agent_flow(tool(lambda n, access: given.append(n), takes=int)), model)

    assert (run.status, given) == ("completed", [3])


@pytest.mark.case("blueprints:AT-04")
def test_what_did_not_fit_is_told_as_an_error_that_names_the_field() -> None:
    class Asked(BaseModel):
        count: int

    model = ScriptedModel([[("tool", {"count": "many"})], DONE])

    played(agent_flow(tool(takes=Asked)), model)

    assert said(model)["isError"] is True
    assert "count" in said(model)["content"]


@pytest.mark.case("blueprints:AT-04")
def test_a_tool_that_is_not_declared_is_told_to_the_model() -> None:
    model = ScriptedModel([[("nobody", {})], DONE])

    run = played(agent_flow(tool()), model)

    assert run.status == "completed"
    assert said(model)["isError"] is True


def test_a_strict_model_takes_a_date_as_the_text_that_json_has() -> None:
    class Asked(BaseModel):
        model_config = ConfigDict(strict=True)
        day: date
        pair: tuple[int, str]

    given: list[Asked] = []

    played(
        agent_flow(tool(lambda asked, access: given.append(asked), takes=Asked)),
        [[("tool", {"day": "2026-01-02", "pair": [1, "a"]})], DONE],
    )

    assert given == [Asked(day=date(2026, 1, 2), pair=(1, "a"))]


# -- parsers -----------------------------------------------------------------------------------------


class Counted:
    """A schema of one's own, async, that counts."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.calls = 0
        self.make = make
        self.json_schema = {"type": "string"}

    async def parse(self, value: Any) -> Any:
        self.calls += 1
        await asyncio.sleep(0)
        return self.make(value)


def test_each_parser_runs_exactly_once() -> None:
    takes, gives, ends = Counted(int), Counted(len), Counted(lambda raw: {"outcome": raw})

    run = played(agent_flow(tool(lambda n, access: "x" * n, takes=takes, gives=gives), output=ends), [[("tool", "4")], '"done"'])

    assert (run.status, takes.calls, gives.calls, ends.calls) == ("completed", 1, 1, 1)


def test_a_tool_gives_the_input_of_its_output_schema_and_the_model_reads_what_that_parses_to() -> None:
    model = ScriptedModel([[("tool", {})], DONE])

    played(agent_flow(tool(lambda given, access: "42", gives=Annotated[str, AfterValidator(int)])), model)

    assert said(model)["content"] == 42


def test_a_validator_may_be_async() -> None:
    async def doubled(value: int) -> int:
        await asyncio.sleep(0)
        return value * 2

    model = ScriptedModel([[("tool", 3)], DONE])

    played(agent_flow(tool(takes=Annotated[int, AfterValidator(doubled)])), model)

    assert said(model)["content"] == 6


@pytest.mark.parametrize("kind", ["def", "async def", "partial", "object", "async object"])
def test_a_tool_is_whatever_can_be_called(kind: str) -> None:
    def plain(given: Any, access: Any) -> str:
        return "made"

    async def later(given: Any, access: Any) -> str:
        return "made"

    class Called:
        def __call__(self, given: Any, access: Any) -> str:
            return "made"

    class CalledLater:
        async def __call__(self, given: Any, access: Any) -> str:
            return "made"

    execute = {
        "def": plain,
        "async def": later,
        "partial": functools.partial(later),
        "object": Called(),
        "async object": CalledLater(),
    }[kind]
    model = ScriptedModel([[("tool", {})], DONE])

    played(agent_flow(tool(execute)), model)

    assert said(model)["content"] == "made"


# -- the JSON boundary -------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Scored(BaseModel):
    score: float
    colour: Colour = Colour.RED
    day: date = date(2026, 1, 2)


NO_JSON = [math.nan, math.inf, (1, 2), {1: "a"}, {1, 2}, date(2026, 1, 2), b"x", object(), [{"deep": math.nan}], "\ud800"]


@pytest.mark.parametrize("value", NO_JSON, ids=lambda v: type(v).__name__)
def test_what_a_tool_gives_is_json(value: Any) -> None:
    assert error_of(failing(lambda given, access: value)) == FAILED


def test_a_number_that_json_has_not_does_not_become_null_inside_a_model() -> None:
    assert error_of(failing(lambda given, access: {"score": math.nan}, gives=Scored)) == FAILED


@pytest.mark.parametrize("gives", [Scored, list[Scored], dict[str, Scored]])
def test_a_model_that_a_schema_made_is_told_as_its_json(gives: Any) -> None:
    one: dict[str, Any] = {"score": 1.5}
    raw = one if gives is Scored else [one] if gives == list[Scored] else {"a": one}
    model = ScriptedModel([[("tool", {})], DONE])

    played(agent_flow(tool(lambda given, access: raw, gives=gives)), model)

    told = said(model)["content"]
    assert (told if gives is Scored else told[0] if gives == list[Scored] else told["a"]) == {
        "score": 1.5,
        "colour": "red",
        "day": "2026-01-02",
    }


def test_a_result_that_its_tool_changes_later_is_told_as_it_was() -> None:
    kept: list[Any] = [1]
    calls = iter([kept, None])

    def execute(given: Any, access: Any) -> Any:
        kept.append(2) if given else None
        return next(calls)

    model = ScriptedModel([[("tool", 0), ("tool", 1)], DONE])

    played(agent_flow(tool(execute)), model)

    assert model.requests[1].messages[-2]["content"] == [1]


# -- a tool that fails -------------------------------------------------------------------------------


@pytest.mark.case("blueprints:AT-05")
def test_a_tool_that_raises_ends_the_run_and_is_not_tried_again() -> None:
    calls: list[int] = []

    def execute(given: Any, access: Any) -> None:
        calls.append(1)
        raise ValueError("broken")

    run = failing(execute)

    assert (error_of(run), len(calls)) == (FAILED, 1)


@pytest.mark.case("blueprints:AT-05")
def test_the_failure_of_a_tool_names_it_and_keeps_the_chain_of_causes() -> None:
    def execute(given: Any, access: Any) -> None:
        raise ValueError("broken") from KeyError("root")

    exc = failing(execute).record.exception

    assert isinstance(exc, StepError)
    assert "'tool'" in exc.message
    assert isinstance(exc.__cause__, ValueError)
    assert isinstance(exc.__cause__.__cause__, KeyError)


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), StopIteration(1), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_may_raise_what_it_likes_without_ending_more_than_its_step(raised: BaseException, is_async: bool) -> None:
    def plain(given: Any, access: Any) -> None:
        raise raised

    async def later(given: Any, access: Any) -> None:
        raise raised

    run = failing(later if is_async else plain)

    assert error_of(run) == FAILED
    assert error_of(played(agent_flow(name="after"), [DONE])) is None


def test_an_output_that_does_not_fit_is_a_failure_of_the_tool() -> None:
    assert error_of(failing(lambda given, access: "x", gives=int)) == FAILED


def chained(depth: int, root: BaseException) -> BaseException:
    """An exception whose chain of causes has this many members, the root last."""
    exc = root
    for _ in range(depth - 1):
        outer = ValueError("outer")
        outer.__cause__ = exc
        exc = outer
    return exc


@pytest.mark.case("blueprints:DX-16")
@pytest.mark.parametrize(("depth", "code"), [(1, "STAGE_STATE_INVALID"), (8, "STAGE_STATE_INVALID"), (9, FAILED)])
def test_a_runtime_error_among_eight_causes_gives_its_code(depth: int, code: str) -> None:
    def execute(given: Any, access: Any) -> None:
        raise chained(depth, StepError("bad", code="STAGE_STATE_INVALID"))

    assert error_of(failing(execute)) == code


def test_a_chain_of_causes_may_be_a_circle() -> None:
    def execute(given: Any, access: Any) -> None:
        one, other = ValueError("one"), ValueError("other")
        one.__cause__, other.__cause__ = other, one
        raise one

    assert error_of(failing(execute)) == FAILED


@pytest.mark.parametrize("code", ["CONFLICT", "MY_OWN"])
def test_a_code_of_another_catalogue_is_only_named(code: str) -> None:
    def execute(given: Any, access: Any) -> None:
        raise LoomError("no", code=code)

    run = failing(execute)

    assert error_of(run) == FAILED
    assert code in (run.traceback or "")


# -- the latch ---------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:AT-02")
def test_a_failed_read_of_the_project_counts_though_the_tool_caught_it(tmp_path: Path) -> None:
    async def execute(given: Any, access: Any) -> str:
        with contextlib.suppress(ProjectError):
            await access.project.read("missing.txt")
        return "fine"

    (tmp_path / "p").mkdir()

    assert error_of(failing(execute, project=tmp_path / "p")) == FAILED


@pytest.mark.case("blueprints:DX-16")
def test_a_failed_write_of_state_keeps_its_code_though_the_tool_caught_it() -> None:
    async def execute(given: Any, access: Any) -> str:
        await asyncio.gather(access.state.update("no number"), return_exceptions=True)
        return "fine"

    assert error_of(played(agent_flow(tool(execute), state=int, seed=1), [[("tool", {})], DONE])) == "STAGE_STATE_INVALID"


@pytest.mark.case("blueprints:DX-16")
def test_a_failed_call_of_storage_is_a_failure_of_the_tool() -> None:
    async def execute(given: Any, access: Any) -> str:
        await access.storage.get_artifact("", "")
        return "fine"

    run = failing(execute)

    assert error_of(run) == FAILED
    assert "INVALID_REQUEST" in (run.traceback or "")


def test_the_first_failure_of_several_at_once_counts() -> None:
    """The call of storage is refused at once, the write of State when it was judged."""

    async def execute(given: Any, access: Any) -> str:
        await asyncio.gather(
            access.state.update("no number"), access.state.update(2), access.storage.get_artifact("", ""), return_exceptions=True
        )
        return "fine"

    run = played(agent_flow(tool(execute), state=int, seed=1), [[("tool", {})], DONE])

    assert error_of(run) == FAILED


def test_what_was_refused_to_a_tool_counts_more_than_what_it_raises_about_that() -> None:
    async def execute(given: Any, access: Any) -> str:
        try:
            await access.state.create(3)
        except StepError:
            raise ValueError("cannot") from None
        return "fine"

    assert error_of(played(agent_flow(tool(execute), state=int, seed=1), [[("tool", {})], DONE])) == "STAGE_STATE_EXISTS"


def test_code_may_catch_what_a_tool_may_not() -> None:
    async def work(_: Any, access: Any) -> loom.StepResult:
        await asyncio.gather(access.state.update("no number"), return_exceptions=True)
        return loom.StepResult("done")

    assert finished(loom.flow(code_flow(work, state=int, seed=1), "intent")).status == "completed"


def test_a_sync_tool_that_writes_state_is_told_to_be_async() -> None:
    def execute(given: Any, access: Any) -> None:
        access.state.update(2)

    run = failing(execute, state=Any)

    assert error_of(run) == "STEP_EXECUTION_FAILED"
    assert "async def" in (run.traceback or "")


# -- one turn, several tools, one capability set -------------------------------------------------------


@pytest.mark.case("blueprints:AT-06")
def test_the_tools_of_one_turn_run_one_after_the_other() -> None:
    told: list[str] = []

    async def execute(given: Any, access: Any) -> None:
        told.append(f"{given} begins")
        await asyncio.sleep(0)
        told.append(f"{given} ends")

    played(agent_flow(tool(execute)), [[("tool", "a"), ("tool", "b")], DONE])

    assert told == ["a begins", "a ends", "b begins", "b ends"]


def kept_access() -> tuple[list[Any], FlowRun]:
    """The access that two tools of one turn were given, after the run."""
    seen: list[Any] = []
    run = played(agent_flow(tool(lambda given, access: seen.append(access))), [[("tool", 1), ("tool", 2)], DONE])
    return seen, run


@pytest.mark.case("blueprints:AT-06")
def test_the_tools_of_one_call_share_what_they_are_given() -> None:
    seen, _ = kept_access()

    assert seen[0] is seen[1]


@pytest.mark.case("blueprints:AT-06")
def test_a_tool_is_given_neither_commit_nor_interaction() -> None:
    (access, _), _ = kept_access()

    assert not hasattr(access, "interaction")
    assert not hasattr(access.storage, "commit")


@pytest.mark.case("blueprints:AT-06")
def test_access_that_was_kept_is_dead_after_the_call() -> None:
    (access, _), _ = kept_access()

    assert access.signal.aborted
    with pytest.raises(OwnershipLost) as caught:
        _ = access.state.value
    assert caught.value.code == "EXECUTION_OWNERSHIP_LOST"


def test_a_tool_may_write_state_and_read_storage() -> None:
    async def execute(given: Any, access: Any) -> Any:
        await access.state.update(access.state.value + 1)
        return await access.storage.get_artifact("flow", "stage")

    run = played(
        agent_flow(tool(execute), state=int, seed=1, on={"done": loom.STAGE_END, "more": "work"}), [[("tool", {})], DONE]
    )

    assert run.status == "completed"


# -- turns -------------------------------------------------------------------------------------------


@pytest.mark.case("blueprints:AT-08")
def test_a_model_that_only_calls_tools_is_stopped_after_ten_turns() -> None:
    calls: list[Any] = []
    model = ScriptedModel(lambda request, turn: [("tool", turn)])

    run = played(agent_flow(tool(lambda given, access: calls.append(given))), model)

    assert (error_of(run), len(model.requests), calls) == ("STEP_EXECUTION_FAILED", 10, list(range(10)))


@pytest.mark.case("blueprints:AT-08")
def test_the_tenth_turn_may_be_the_last() -> None:
    run = played(agent_flow(tool()), lambda request, turn: DONE if turn == 9 else [("tool", turn)])

    assert run.status == "completed"


@pytest.mark.case("blueprints:AT-12")
@pytest.mark.parametrize("reason", ["length", "max_tokens", "content-filter", "error", "tool-calls"])
def test_an_end_that_is_none_fails_the_step_whatever_was_said(reason: str) -> None:
    run = played(agent_flow(), [TurnResult(text='{"outcome": "done"}', finish_reason=reason)])

    assert error_of(run) == "STEP_EXECUTION_FAILED"


@pytest.mark.case("blueprints:AT-12")
def test_tools_that_a_cut_off_turn_asks_for_do_not_run() -> None:
    calls: list[Any] = []
    asked = TurnResult(tool_calls=[ToolRequest(id="1", name="tool", input={})], finish_reason="length")

    played(agent_flow(tool(lambda given, access: calls.append(given))), [asked])

    assert calls == []


def test_a_provider_that_changes_what_it_was_told_changes_nothing() -> None:
    class Rude:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        async def run_turn(self, request: TurnRequest) -> TurnResult:
            self.seen.append([m["role"] for m in request.messages])
            with contextlib.suppress(TypeError):
                request.messages[0]["role"] = "system"  # type: ignore[index]
            if len(self.seen) == 1:
                return TurnResult(tool_calls=(ToolRequest(id="1", name="tool", input={}),))
            return TurnResult(object=DONE)

    model = Rude()

    played(agent_flow(tool()), model)

    assert model.seen == [["user"], ["user", "assistant", "tool"]]


class Answering:
    """A provider that gives, or raises, what it is made with."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.requests = 0

    async def run_turn(self, request: TurnRequest) -> Any:
        self.requests += 1
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given


GARBAGE = [
    None,
    "done",
    {"text": "done"},
    TurnResult(text=5),  # type: ignore[arg-type]
    TurnResult(finish_reason=None),  # type: ignore[arg-type]
    TurnResult(tool_calls=None),  # type: ignore[arg-type]
    TurnResult(tool_calls=["tool"]),  # type: ignore[list-item]
    TurnResult(tool_calls=[ToolRequest(id=1, name="tool", input={})]),  # type: ignore[arg-type]
    TurnResult(tool_calls=[ToolRequest(id="1", name="tool", input=math.nan)]),
    TurnResult(object={"outcome": (1,)}),  # type: ignore[dict-item]
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_what_is_no_turn_is_an_unreadable_response(garbage: Any) -> None:
    model = Answering(garbage)

    run = played(agent_flow(tool()), model)

    assert (error_of(run), model.requests) == ("LLM_RESPONSE_INVALID", 1)


@pytest.mark.parametrize(
    "raised", [ValueError("no"), Conflict("no"), SystemExit(1), asyncio.CancelledError(), KeyboardInterrupt()], ids=repr
)
def test_a_provider_that_raises_is_asked_once(raised: BaseException) -> None:
    model = Answering(raised)

    run = played(agent_flow(), model)

    assert (error_of(run), model.requests) == ("LLM_REQUEST_FAILED", 1)


def test_a_provider_may_say_itself_that_its_response_was_unreadable() -> None:
    assert error_of(played(agent_flow(), Answering(StepError("no", code="LLM_RESPONSE_INVALID")))) == "LLM_RESPONSE_INVALID"


# -- how it ends -------------------------------------------------------------------------------------


class Trimmed(BaseModel):
    outcome: Annotated[str, AfterValidator(str.strip)]


@pytest.mark.case("blueprints:AT-09")
def test_an_output_schema_may_trim_the_outcome() -> None:
    assert played(agent_flow(output=Trimmed), [{"outcome": "  done "}]).result == "done"


@pytest.mark.case("blueprints:AT-09")
def test_an_output_schema_is_applied_once() -> None:
    calls: list[Any] = []

    def counted(value: str) -> str:
        calls.append(value)
        return value[1:]

    class Shorter(BaseModel):
        outcome: Annotated[str, AfterValidator(counted)]

    run = played(agent_flow(output=Shorter), [{"outcome": "xdone"}])

    assert (run.result, calls) == ("done", ["xdone"])


@pytest.mark.parametrize("text", ['{"outcome": "done"}', '```json\n{"outcome": "done"}\n```', '```\n{"outcome": "done"}```'])
def test_the_output_may_come_as_text(text: str) -> None:
    assert played(agent_flow(), [text]).result == "done"


@pytest.mark.parametrize("output", [StepError, object()], ids=["class", "object"])
def test_no_schema_is_no_schema(output: Any) -> None:
    with pytest.raises(loom.LoomError):
        loom.flow(agent_flow(output=output), "intent", models=ScriptedModel([DONE]))


@pytest.mark.parametrize("said", ["", "done", "{", {"outcome": 3}, {}, "[1]", '{"outcome": NaN}'])
def test_an_end_that_does_not_fit_the_output_schema_is_an_invalid_output(said: Any) -> None:
    assert error_of(played(agent_flow(), [said])) == "AGENT_OUTPUT_INVALID"


@pytest.mark.parametrize("made", [math.nan, (1,), date(2026, 1, 2)], ids=repr)
def test_an_output_that_is_parsed_to_no_json_is_an_invalid_output(made: Any) -> None:
    run = played(agent_flow(output=Annotated[Any, AfterValidator(lambda raw: {"outcome": made})]), [DONE])

    assert error_of(run) == "AGENT_OUTPUT_INVALID"


@pytest.mark.parametrize("said", ['""', "3", "null", '{"outcome": ""}', '{"outcome": "done", "data": 1}', '{"result": "done"}'])
def test_an_output_that_is_no_step_result_is_an_invalid_result(said: str) -> None:
    assert error_of(played(agent_flow(output=Any), [said])) == "STEP_RESULT_INVALID"


def test_an_outcome_without_a_route_is_not_handled() -> None:
    assert error_of(played(agent_flow(), [{"outcome": "other"}])) == "STEP_OUTCOME_NOT_HANDLED"


# -- cancelling --------------------------------------------------------------------------------------


class Held:
    """A provider, or a tool, that waits to be let go, and does not look at its signal."""

    def __init__(self, gives: Any) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()
        self.gives = gives
        self.signals: list[Any] = []
        self.calls = 0

    async def wait(self) -> Any:
        self.calls += 1
        self.entered.set()
        await asyncio.to_thread(self.let_go.wait, PATIENCE)
        return self.gives

    async def run_turn(self, request: TurnRequest) -> Any:
        self.signals.append(request.signal)
        return await self.wait()


@pytest.mark.case("blueprints:CN-07")
def test_a_model_that_answers_after_the_cancel_changes_nothing() -> None:
    model = Held(TurnResult(object=DONE))
    run = loom.flow(agent_flow(), "intent", models=model)
    model.entered.wait(PATIENCE)

    run.cancel()
    before = run.view()
    model.let_go.set()
    finished(loom.flow(agent_flow(name="other"), "intent", models=ScriptedModel([DONE])))  # the loop came round

    assert run.view() == before
    assert error_of(run) == "RUN_STOPPED"


@pytest.mark.case("blueprints:CN-07")
def test_a_cancel_aborts_the_signal_that_the_model_was_given() -> None:
    model = Held(TurnResult(object=DONE))
    run = loom.flow(agent_flow(), "intent", models=model)
    model.entered.wait(PATIENCE)

    run.cancel()
    model.let_go.set()

    assert model.signals[0].aborted
    assert model.signals[0].reason.code == "RUN_STOPPED"


def test_a_listener_of_the_signal_that_raises_keeps_no_run_from_being_canceled() -> None:
    heard: list[Any] = []

    def broken(reason: BaseException) -> None:
        raise ValueError("broken")

    class Listening(Held):
        async def run_turn(self, request: TurnRequest) -> Any:
            request.signal.add_listener(broken)
            request.signal.add_listener(heard.append)
            return await super().run_turn(request)

    model = Listening(TurnResult(object=DONE))
    run = loom.flow(agent_flow(), "intent", models=model)
    model.entered.wait(PATIENCE)

    run.cancel()
    model.let_go.set()

    assert error_of(finished(run)) == "RUN_STOPPED"
    assert len(heard) == 1


@pytest.mark.case("blueprints:CN-07")
def test_a_model_that_never_answers_keeps_neither_the_run_nor_the_store(session: loom.Loom) -> None:
    """And leaves no noise of a task that was never done: warnings are errors."""
    entered = threading.Event()

    class Silent:
        async def run_turn(self, request: TurnRequest) -> Any:
            entered.set()
            await asyncio.get_running_loop().create_future()

    run = loom.flow(agent_flow(), "intent", models=Silent())
    entered.wait(PATIENCE)

    run.cancel()
    session.close()
    gc.collect()

    assert error_of(run) == "RUN_STOPPED"


@pytest.mark.case("blueprints:AT-07")
@pytest.mark.parametrize("where", ["input", "tool", "output"])
def test_a_call_that_is_canceled_asks_the_model_for_nothing_more(where: str) -> None:
    held = Held("x")

    class Waiting:
        json_schema = MappingProxyType[str, Any]({})

        async def parse(self, value: Any) -> Any:
            return await held.wait()

    async def execute(given: Any, access: Any) -> Any:
        return await held.wait() if where == "tool" else calls.append(given)

    calls: list[Any] = []
    model = ScriptedModel([[("tool", {}), ("tool", {})], DONE])
    flow = agent_flow(tool(execute, takes=Waiting() if where == "input" else Any, gives=Waiting() if where == "output" else Any))
    run = loom.flow(flow, "intent", models=model)
    held.entered.wait(PATIENCE)

    run.cancel()
    held.let_go.set()
    finished(loom.flow(agent_flow(name="other"), "intent", models=ScriptedModel([DONE])))  # the loop came round

    assert (len(model.requests), held.calls, error_of(run)) == (1, 1, "RUN_STOPPED")
    assert calls == ([] if where != "output" else [{}])


@pytest.mark.case("blueprints:AT-07")
def test_input_whose_parser_fails_after_the_cancel_is_not_told_to_the_model() -> None:
    held = Held(None)

    class Failing:
        json_schema = MappingProxyType[str, Any]({})

        async def parse(self, value: Any) -> Any:
            await held.wait()
            raise ValueError("late")

    model = ScriptedModel([[("tool", {})], DONE])
    run = loom.flow(agent_flow(tool(takes=Failing())), "intent", models=model)
    held.entered.wait(PATIENCE)

    run.cancel()
    held.let_go.set()
    finished(loom.flow(agent_flow(name="other"), "intent", models=ScriptedModel([DONE])))

    assert len(model.requests) == 1


# -- two runs, one agent -----------------------------------------------------------------------------


def interview() -> loom.Blueprint:
    """Agent, question, agent: the agent reads the State in a tool, and ends when there is an answer."""

    async def look(given: Any, access: Any) -> Any:
        return access.state.value

    async def ask(_: Any, access: Any) -> loom.StepResult:
        answer = await access.interaction.confirm("Go on?")
        await access.state.update({"feedback": answer.feedback})
        return loom.StepResult("asked")

    agent = loom.AgentSpec(name="shared", instructions="Look.", tools=[tool(look, name="look")])
    stage = loom.BlueprintStage(
        state_schema=Any,
        initialize_state=lambda context: {"intent": context.intent},
        entry_step_name="think",
        steps={
            "think": loom.BlueprintStep(execution=agent, on={"ask": "ask", "done": loom.STAGE_END}),
            "ask": loom.BlueprintStep(execution=ask, on={"asked": "think"}),
        },
        on={"done": loom.WORKFLOW_END},
    )
    return loom.Blueprint(flow_name="interview", entry_stage_name="only", stages={"only": stage})


def thinking(request: TurnRequest, turn: int) -> Any:
    if turn == 0:
        return [("look", {})]
    return {"outcome": "done" if "feedback" in request.messages[-1]["content"] else "ask"}


def interviewed() -> tuple[dict[str, ScriptedModel], list[FlowRun]]:
    flow = interview()
    models = {intent: ScriptedModel(thinking) for intent in ("one", "two")}
    runs = [finished(loom.flow(flow, intent, models=model)) for intent, model in models.items()]
    for run in reversed(runs):
        run.answer({"isConfirmed": True, "feedback": f"for {run.intent}"})
        finished(run)
    return models, runs


@pytest.mark.case("blueprints:AT-13")
def test_two_runs_that_share_an_agent_each_come_to_their_end() -> None:
    _, runs = interviewed()

    assert [run.status for run in runs] == ["completed", "completed"]


@pytest.mark.case("blueprints:AT-13")
def test_two_runs_that_share_an_agent_keep_their_models_and_what_they_say_apart() -> None:
    models, _ = interviewed()

    told = {intent: [m["content"] for r in model.requests for m in r.messages] for intent, model in models.items()}

    assert [len(model.requests) for model in models.values()] == [4, 4]
    assert all({"feedback": f"for {intent}"} in texts for intent, texts in told.items())
    assert "two" not in str(told["one"])
    assert "one" not in str(told["two"])


@pytest.mark.case("blueprints:AT-13")
def test_each_call_of_a_shared_agent_begins_with_nothing_but_the_intent() -> None:
    models, _ = interviewed()

    begins = [[list(r.messages) for r in model.requests if len(r.messages) == 1] for model in models.values()]

    assert begins == [[[{"role": "user", "content": intent}]] * 2 for intent in models]


@pytest.mark.case("blueprints:AT-13")
def test_the_log_of_a_run_has_neither_questions_nor_answers() -> None:
    _, runs = interviewed()

    assert all("for " not in run.log and "Go on?" not in run.log for run in runs)


# -- made again --------------------------------------------------------------------------------------


def after_a_crash(here: Path, flow: loom.Blueprint, model: Any, after: int) -> FlowRun:
    """The run of a flow whose kernel died after so many commits, as another kernel finds it, retried to its end."""
    path, death = here / "died.duckdb", Death(after=after)
    with loom.Loom(path, database=death) as dying:
        dying.flow(flow, "intent", models=model, key="k")
        death.wait()
    loom.use_models(model)
    session = loom.open(path)
    run = session.flow(flow, "intent", key="k")
    at_rest(run)
    assert run.status == "interrupted"
    run.retry()
    return finished(run)


COMMITS = {"turn 0": 4, "what the tool gave": 5, "turn 1": 6}
"""The commit that stores it: before are the start, the stage and that the step began."""


def turns_asked(model: ScriptedModel) -> list[int]:
    """The number of each turn the model was asked for."""
    return [sum(m["role"] == "assistant" for m in request.messages) for request in model.requests]


@pytest.mark.parametrize("last", COMMITS)
def test_a_turn_on_record_is_not_asked_again_after_a_crash(here: Path, last: str) -> None:
    model = ScriptedModel([[("tool", {})], DONE])

    run = after_a_crash(here, agent_flow(tool()), model, COMMITS[last])

    assert run.status == "completed"
    assert turns_asked(model).count(0) == 1
    assert last != "turn 1" or turns_asked(model) == [0, 1]


@pytest.mark.parametrize("last", ["what the tool gave", "turn 1"])
def test_a_tool_that_came_to_its_end_does_not_run_again_after_a_crash(here: Path, last: str) -> None:
    """It may give something else each time: what it gave is on record, and so the model's next turn is that on record too."""
    calls: list[int] = []

    def execute(given: Any, access: Any) -> int:
        calls.append(1)
        return len(calls)

    run = after_a_crash(here, agent_flow(tool(execute)), ScriptedModel([[("tool", {})], DONE]), COMMITS[last])

    assert (run.status, len(calls)) == ("completed", 1)


def test_what_a_tool_wrote_before_the_crash_is_not_written_again(here: Path) -> None:
    async def execute(given: Any, access: Any) -> int:
        await access.state.update(access.state.value + 1)
        await access.state.update(access.state.value * 10)
        return int(access.state.value)

    def ended(request: TurnRequest, turn: int) -> Any:
        return [("tool", {})] if turn == 0 else {"outcome": "done" if request.messages[-1]["content"] == 20 else "wrong"}

    after_the_first_write = COMMITS["turn 0"] + 1

    run = after_a_crash(here, agent_flow(tool(execute), state=int, seed=1), ScriptedModel(ended), after_the_first_write)

    assert run.result == "done"


def test_two_tools_of_a_turn_are_taken_up_between_them(here: Path) -> None:
    told: list[Any] = []

    async def execute(given: Any, access: Any) -> Any:
        told.append(given)
        await access.state.update(given)
        return access.state.value

    model = ScriptedModel([[("tool", "a"), ("tool", "b")], DONE])

    run = after_a_crash(here, agent_flow(tool(execute), seed=""), model, COMMITS["turn 0"] + 2)

    assert (run.status, told.count("a"), told[-1]) == ("completed", 1, "b")  # b may have begun before the kernel was gone


def test_a_step_that_failed_is_retried_from_what_is_on_record() -> None:
    told: list[str] = []

    def execute(given: Any, access: Any) -> str:
        told.append(given)
        if told.count("b") == 1 and given == "b":
            raise ValueError("once")
        return "fine"

    model = ScriptedModel([[("tool", "a"), ("tool", "b")], DONE])
    run = played(agent_flow(tool(execute)), model)

    loom.use_models(model)
    run.retry()

    assert finished(run).status == "completed"
    assert (told, turns_asked(model)) == (["a", "b", "b"], [0, 1])


def test_a_fresh_retry_asks_the_model_anew() -> None:
    calls: list[int] = []

    def execute(given: Any, access: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")

    model = ScriptedModel([[("tool", {})], DONE])
    run = played(agent_flow(tool(execute)), model)

    run.retry(fresh=True)

    assert finished(run).status == "completed"
    assert turns_asked(model) == [0, 0, 1]


class Ended(BaseModel):
    outcome: str


class Asked(BaseModel):
    count: int


CHANGED = {
    "the output schema": agent_flow(tool(), output=Ended),
    "the input schema of a tool": agent_flow(tool(takes=Asked)),
    "the output schema of a tool": agent_flow(tool(gives=Asked)),
    "what a tool is for": agent_flow(tool(name="other")),
}


@pytest.mark.parametrize("what", CHANGED)
def test_an_agent_that_was_changed_is_another_definition(what: str) -> None:
    """So that a run that waits asks the person whether it shall go on with it (decisions.md, Blueprints 7)."""
    assert compile_blueprint(CHANGED[what]).fingerprint != compile_blueprint(agent_flow(tool())).fingerprint


def test_a_schema_of_ones_own_is_not_called_for_telling_definitions_apart() -> None:
    class Own:
        def parse(self, value: Any) -> Any:
            raise AssertionError("it was called")

        def json_schema(self) -> Any:
            raise AssertionError("it was called")

    assert compile_blueprint(agent_flow(tool(takes=Own(), gives=Own()), output=Own())).fingerprint
