"""Calling a tool: what is judged, what it is given, what comes back."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

import loomnb as loom
from loomnb.tools import execute
from tests.helpers import at_rest


class SumArgs(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    a: int
    b: int


def sum_tool() -> Any:
    @loom.tool(name="math_sum", description="Adds two numbers.", schema=SumArgs)
    class MathSumTool(loom.BaseTool[SumArgs, None, int]):
        async def handle(self, args: SumArgs, ctx: loom.RunContext[Any]) -> loom.ToolEnvelope[int]:
            return loom.ToolEnvelope(data=args.a + args.b)

    return MathSumTool()


def called(tool: Any, *args: Any, **options: Any) -> Any:
    async def call() -> Any:
        return await tool.call(*args, **options)

    return asyncio.run(call())


@pytest.mark.case("workflows:K10")
@pytest.mark.parametrize(("a", "b", "total"), [(10, 20, 30), (-5, -7, -12), (0, 0, 0)])
def test_the_sum_tool_adds(a: int, b: int, total: int) -> None:
    result = called(sum_tool(), {"a": a, "b": b})

    assert (result.data, result.metadata, result.type) == (total, {}, None)


@pytest.mark.case("workflows:K10")
@pytest.mark.parametrize(
    ("args", "field"),
    [({"a": "10", "b": "20"}, "a"), ({"a": 1, "b": 2, "c": 3}, "c"), ({"a": 1}, "b"), (None, "a"), ({}, "a")],
    ids=["strings", "extra", "missing", "none", "empty"],
)
def test_the_sum_tool_refuses_what_is_not_two_numbers(args: Any, field: str) -> None:
    with pytest.raises(loom.ArgsInvalid) as caught:
        sum_tool().call(args)

    assert field in caught.value.fields
    assert "'math_sum'" in str(caught.value)


@pytest.mark.case("workflows:K01")
def test_defaults_of_the_schema_reach_handle() -> None:
    class Args(BaseModel):
        a: int = 5

    @loom.tool(schema=Args)
    class Defaulted(loom.BaseTool[Args]):
        def handle(self, args: Args) -> loom.ToolEnvelope:
            return loom.ToolEnvelope(data=args.model_dump())

    assert called(Defaulted()).data == {"a": 5}


def configured() -> Any:
    class Config(BaseModel):
        limit: int = 8
        unit: str = "km"

    @loom.tool(config_schema=Config)
    class Configured(loom.BaseTool[Any, Config]):
        def handle(self, args: Any, ctx: Any, options: loom.ToolCallOptions[Config]) -> loom.ToolEnvelope:
            assert isinstance(options.config, Config)
            return loom.ToolEnvelope(data=options.config.model_dump())

    return Configured()


@pytest.mark.case("workflows:K03")
@pytest.mark.parametrize(
    ("given", "limit"), [({}, 8), ({"config": {}}, 8), ({"config": {"limit": 3}}, 3), ({"options": {"config": {"limit": 4}}}, 4)]
)
def test_defaults_of_the_config_schema_always_apply(given: dict[str, Any], limit: int) -> None:
    assert called(configured(), {}, **given).data == {"limit": limit, "unit": "km"}


def test_a_config_that_does_not_fit_is_refused_at_the_call() -> None:
    with pytest.raises(loom.ArgsInvalid, match="configuration does not fit") as caught:
        configured().call({}, config={"limit": "many"})

    assert list(caught.value.fields) == ["limit"]


def test_options_given_twice_are_refused() -> None:
    with pytest.raises(loom.Refused, match="twice"):
        configured().call({}, {"config": {}}, config={"limit": 1})


def returning(envelope: Any) -> Any:
    @loom.tool(name="returning")
    class Returning(loom.BaseTool):
        def handle(self) -> Any:
            return envelope

    return Returning()


@pytest.mark.case("workflows:K06")
def test_pending_raises_through_call() -> None:
    with pytest.raises(loom.ToolPending, match="run-7") as caught:
        called(returning(loom.ToolEnvelope(pending=loom.QueueResult("run-7"))))

    assert caught.value.code == "TOOL_PENDING"


def test_execute_gives_the_whole_envelope() -> None:
    pending = asyncio.run(execute(returning({"pending": {"workflowId": "run-7"}})))
    error = asyncio.run(execute(returning({"error": ""})))

    assert pending.pending == loom.QueueResult("run-7")
    assert error.error == ""


@pytest.mark.parametrize("returned", [None, 3, {"sum": 3}])
def test_a_handle_that_returns_no_envelope_is_told_so(returned: Any) -> None:
    with pytest.raises(loom.DefinitionError, match="'returning' gave no envelope"):
        called(returning(returned))


@pytest.mark.case("workflows:K08")
@pytest.mark.parametrize(
    ("result", "data"),
    [
        ({"workflowId": "w", "data": 0}, 0),
        ({"workflowId": "w", "data": None}, {"workflowId": "w", "data": None}),
        ({"workflowId": "w"}, {"workflowId": "w"}),
    ],
    ids=["0", "null", "missing"],
)
def test_complete_gives_the_data_or_else_the_whole(result: dict[str, Any], data: Any) -> None:
    assert asyncio.run(sum_tool().complete(result)).data == data


def echo() -> Any:
    @loom.tool
    class EchoTool(loom.BaseTool):
        seen: list[Any] = []  # noqa: RUF012  # what a call got, for the test to look at

        async def handle(self, args: Any, ctx: Any, options: Any) -> loom.ToolEnvelope:
            await asyncio.sleep(0)
            self.seen.append((args, ctx, options))
            return loom.ToolEnvelope(data=args)

    return EchoTool()


def test_arguments_are_copied_at_the_call() -> None:
    tool, args = echo(), {"items": [1]}

    async def call() -> Any:
        working = tool.call(args)
        args["items"].append(2)
        return await working

    assert asyncio.run(call()).data == {"items": [1]}


def test_a_model_is_copied_at_the_call() -> None:
    class Basket(BaseModel):
        items: list[int]

    @loom.tool(schema=Basket)
    class BasketTool(loom.BaseTool[Basket]):
        def handle(self, args: Basket) -> loom.ToolEnvelope:
            return loom.ToolEnvelope(data=args.items)

    basket = Basket(items=[1])

    async def call() -> Any:
        working = BasketTool().call(basket)
        basket.items.append(2)
        return await working

    assert asyncio.run(call()).data == [1]


def test_without_a_schema_arguments_are_json() -> None:
    with pytest.raises(loom.NotJson, match=r"args\.when"):
        echo().call({"when": {1, 2}})


def test_callback_goes_through_untouched() -> None:
    tool = echo()
    callback = {"transition": "done", "metadata": {"toolUseId": "t1"}}
    called(tool, {}, callback=callback)

    assert tool.seen[-1][2].callback is callback


def test_outside_any_run_the_ids_are_empty() -> None:
    tool = echo()
    called(tool, {})
    ctx = tool.seen[-1][1]

    assert (ctx.user_id, ctx.workspace_id, ctx.workflow_id, ctx.args, ctx.execution) == ("", "", "", None, None)


def test_the_schema_may_come_from_the_generic() -> None:
    @loom.tool
    class Inferred(loom.BaseTool[SumArgs]):
        def handle(self, args: SumArgs) -> loom.ToolEnvelope:
            return loom.ToolEnvelope(data=args.a - args.b)

    assert called(Inferred(), {"a": 3, "b": 1}).data == 2


def test_an_undecorated_tool_says_what_is_missing() -> None:
    class Bare(loom.BaseTool):
        def handle(self) -> loom.ToolEnvelope:
            return loom.ToolEnvelope()

    with pytest.raises(loom.DefinitionError, match=r"Bare is no tool\.\nDecorate the class with @loom\.tool"):
        Bare().call()


def test_a_sync_handle_works_on_a_thread_of_its_own() -> None:
    @loom.tool
    class Where(loom.BaseTool):
        def handle(self) -> loom.ToolEnvelope:
            return loom.ToolEnvelope(data=threading.get_ident())

    assert called(Where()).data != threading.get_ident()


# -- in a run -------------------------------------------------------------------------------------


def calling(tool: Any, body: Any) -> Any:
    """A workflow of one transition that calls a tool."""

    @loom.workflow
    class Calling(loom.BaseWorkflow):
        @loom.transition(to="end")
        async def go(self, state: Any, ctx: Any) -> None:
            await body(self, tool, ctx)

    return Calling


def test_a_tool_knows_its_run_but_no_execution(session: loom.Loom) -> None:
    tool = echo()

    async def body(flow: Any, tool: Any, ctx: Any) -> None:
        await tool.call({"n": 1})
        await tool.call({"n": 2})

    run = session.start(calling(tool, body), {"city": "Rome"})
    at_rest(run)
    first, second = (seen[1] for seen in tool.seen)

    assert (first.workflow_id, first.user_id, first.args, first.execution) == (run.id, "local", {"city": "Rome"}, None)
    assert first.workspace_id
    assert first.idempotency_key != second.idempotency_key, "or a service would take the second call for a repetition"


def test_documents_of_a_tool_are_committed_with_the_transition(session: loom.Loom) -> None:
    @loom.tool
    class Notes(loom.BaseTool):
        def handle(self, args: Any) -> loom.ToolEnvelope:
            self.document_store.save(loom.PlainDocument, {"text": args["text"]})
            return loom.ToolEnvelope(data=len(self.document_store.find_all(loom.PlainDocument)))

    async def body(flow: Any, tool: Any, ctx: Any) -> None:
        result = await tool.call({"text": "hello"})
        flow.set_result(result.data)
        if ctx.args["fail"]:
            raise ValueError("no")

    flow = calling(Notes(), body)
    good, bad = session.start(flow, {"fail": False}), session.start(flow, {"fail": True})
    at_rest(good)
    at_rest(bad)

    assert good.result == 1
    assert [(d.content, d.transition, d.place) for d in good.documents] == [({"text": "hello"}, "go", "end")]
    assert (bad.status, list(bad.documents)) == ("failed", [])


@pytest.mark.parametrize("setter", ["assign_state", "set_state", "assign_result", "set_result"])
def test_a_tool_cannot_set_state_or_result(session: loom.Loom, setter: str) -> None:
    @loom.tool
    class Meddling(loom.BaseTool):
        flow: Any = None

        async def handle(self) -> loom.ToolEnvelope:
            getattr(self.flow, setter)({"x": 1})
            return loom.ToolEnvelope()

    async def body(flow: Any, tool: Any, ctx: Any) -> None:
        tool.flow = flow
        with pytest.raises(loom.Refused, match=r"A tool cannot set the (state|result)"):
            await tool.call()
        getattr(flow, setter)({"mine": 2})

    run = session.start(calling(Meddling(), body))
    at_rest(run)

    assert run.status == "completed", run.error


def test_a_run_started_by_a_tool_may_set_its_own_state(session: loom.Loom) -> None:
    @loom.workflow
    class Inner(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            self.set_result("mine")

    started: list[loom.Run] = []

    @loom.tool
    class Starting(loom.BaseTool):
        async def handle(self) -> loom.ToolEnvelope:
            started.append(session.start(Inner))
            return loom.ToolEnvelope()

    async def body(flow: Any, tool: Any, ctx: Any) -> None:
        await tool.call()

    at_rest(session.start(calling(Starting(), body)))
    at_rest(started[0])

    assert started[0].result == "mine", started[0].error


def test_a_sync_body_is_told_that_it_cannot_wait(session: loom.Loom) -> None:
    @loom.workflow
    class Sync(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            sum_tool().call({"a": 1, "b": 2})

    run = session.start(Sync)
    failure = at_rest(run).failure

    assert failure is not None
    assert "'math_sum' was called in a sync body" in failure.message
    assert "async def" in failure.advice


def test_an_error_of_a_tool_fails_the_transition_with_its_message(session: loom.Loom) -> None:
    async def body(flow: Any, tool: Any, ctx: Any) -> None:
        await tool.call()

    run = session.start(calling(returning({"error": "no such city"}), body))
    failure = at_rest(run).failure

    assert failure is not None
    assert (failure.code, failure.message) == ("TOOL_FAILED", "no such city")


def test_a_call_after_the_move_is_refused(session: loom.Loom) -> None:
    caught: list[Exception] = []
    over = threading.Event()

    async def late(tool: Any) -> None:
        await asyncio.sleep(0.05)
        try:
            await tool.call()
        except loom.OwnershipLost as exc:
            caught.append(exc)
        over.set()

    tasks = []

    async def body(flow: Any, tool: Any, ctx: Any) -> None:
        tasks.append(asyncio.get_running_loop().create_task(late(tool)))

    at_rest(session.start(calling(echo(), body)))
    assert over.wait(5)

    assert len(caught) == 1


def test_a_tool_may_call_tools_side_by_side(session: loom.Loom) -> None:
    inner = sum_tool()

    @loom.tool
    class SumOfSums(loom.BaseTool):
        async def handle(self) -> loom.ToolEnvelope:
            parts = await asyncio.gather(*(inner.call({"a": n, "b": n}) for n in range(3)))
            total = await inner.call({"a": parts[1].data, "b": parts[2].data})
            return loom.ToolEnvelope(data=total.data)

    async def body(flow: Any, tool: Any, ctx: Any) -> None:
        flow.set_result((await tool.call()).data)

    run = session.start(calling(SumOfSums(), body))
    at_rest(run)

    assert run.result == 6, run.error


def test_a_tool_that_starts_a_sub_workflow_is_pending_and_calls_back(session: loom.Loom) -> None:
    @loom.workflow
    class Child(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self, state: Any, ctx: Any) -> None:
            self.set_result({"doubled": ctx.args["n"] * 2})

    @loom.tool
    class Doubling(loom.BaseTool):
        def __init__(self, child: Child) -> None:
            self.child = child

        async def handle(self, args: Any, ctx: Any, options: loom.ToolCallOptions) -> loom.ToolEnvelope:
            return loom.ToolEnvelope(pending=self.child.run(args, callback=options.callback))

    @loom.workflow
    class Parent(loom.BaseWorkflow):
        tool: Doubling

        @loom.transition(to="working")
        async def begin(self) -> None:
            envelope = await execute(self.tool, {"n": 4}, {"callback": {"transition": "done", "metadata": {"toolUseId": "t1"}}})
            assert envelope.pending is not None
            self.assign_state(child=envelope.pending.workflow_id)

        @loom.transition(from_="working", to="end", wait=True)
        async def done(self, state: Any, input: Any) -> None:  # noqa: A002  # the seed's word
            completed = await self.tool.complete({"workflowId": input.workflow_id, "data": input.data})
            self.set_result({"data": completed.data, "meta": input.meta, "same": input.workflow_id == state["child"]})

    run = session.start(Parent)
    asyncio.run(asyncio.wait_for(_ended(run), 20))

    assert run.result == {"data": {"doubled": 8}, "meta": {"toolUseId": "t1"}, "same": True}


async def _ended(run: loom.Run) -> None:
    await run


def test_a_refused_call_leaves_nothing_behind() -> None:
    tool = echo()
    with pytest.raises(loom.NotJson):
        tool.call({"x": object()})

    assert tool.seen == []
