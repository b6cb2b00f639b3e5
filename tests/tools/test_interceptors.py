"""Interceptors: their order, and what they may do to a call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import loomnb as loom
from tests.helpers import StillSource, at_rest


def noting_tool(told: list[Any]) -> Any:
    @loom.tool(name="noting")
    class NotingTool(loom.BaseTool):
        async def handle(self, args: Any) -> loom.ToolEnvelope:
            told.append("handle")
            if args.get("fail"):
                raise ValueError("broken")
            return loom.ToolEnvelope(data=args)

    return NotingTool()


def called(tool: Any, args: Any = None) -> Any:
    return asyncio.run(tool.call(args))


def test_lower_is_further_out_and_the_default_is_100() -> None:
    told: list[Any] = []

    def noting(name: str, priority: float | None) -> None:
        class Noting:
            async def intercept(self, context: loom.ToolInterception, next: Any) -> loom.ToolEnvelope:  # noqa: A002  # the contract's word
                told.append(f"{name}>")
                envelope = await next()
                told.append(f"<{name}")
                return envelope

        Noting.__qualname__ = name
        (loom.use_tool_interceptor if priority is None else loom.use_tool_interceptor(priority=priority))(Noting)

    noting("200", 200)
    noting("100", None)
    noting("10", 10)
    called(noting_tool(told))

    assert told == ["10>", "100>", "200>", "handle", "<200", "<100", "<10"]


def test_equal_ones_nest_in_the_order_they_were_defined_and_a_re_run_cell_replaces() -> None:
    told: list[Any] = []

    def define(name: str, version: int) -> None:
        class Noting:
            def intercept(self, context: Any, next: Any) -> Any:  # noqa: A002  # the contract's word
                told.append(f"{name}{version}")
                return next()

        Noting.__qualname__ = f"<locals>.{name}"
        loom.use_tool_interceptor(Noting)

    define("a", 1)
    define("b", 1)
    define("a", 2)
    called(noting_tool(told))

    assert told == ["a2", "b1", "handle"]


def test_one_may_short_circuit() -> None:
    told: list[Any] = []

    @loom.use_tool_interceptor
    class Cached:
        async def intercept(self, context: loom.ToolInterception, next: Any) -> loom.ToolEnvelope:  # noqa: A002  # the contract's word
            return loom.ToolEnvelope(data="cached", metadata={"hit": True})

    result = called(noting_tool(told))

    assert (result.data, result.metadata, told) == ("cached", {"hit": True}, [])


def test_one_may_change_the_envelope_and_catch_errors() -> None:
    @loom.use_tool_interceptor
    class Softening:
        async def intercept(self, context: loom.ToolInterception, next: Any) -> Any:  # noqa: A002  # the contract's word
            try:
                return {"data": {"was": (await next()).data}}
            except ValueError as exc:
                return loom.ToolEnvelope(error=str(exc))

    assert called(noting_tool([]), {"a": 1}).data == {"was": {"a": 1}}
    with pytest.raises(loom.ToolFailed, match="broken"):
        called(noting_tool([]), {"fail": True})


def test_one_may_ask_again() -> None:
    told: list[Any] = []

    @loom.use_tool_interceptor
    class Twice:
        async def intercept(self, context: loom.ToolInterception, next: Any) -> Any:  # noqa: A002  # the contract's word
            await next()
            return await next()

    called(noting_tool(told))

    assert told == ["handle", "handle"]


def test_they_share_a_bag_and_every_one_sees_the_duration_once_the_tool_has_run(session: loom.Loom) -> None:
    seen: list[Any] = []
    source = StillSource()
    session.runtime.source = source

    @loom.tool
    class Slow(loom.BaseTool):
        async def handle(self, args: Any, ctx: Any) -> loom.ToolEnvelope:
            return loom.ToolEnvelope()

    @loom.use_tool_interceptor(priority=10)
    class Outer:
        async def intercept(self, context: loom.ToolInterception, next: Any) -> Any:  # noqa: A002  # the contract's word
            context.metadata["from"] = "outer"
            envelope = await next()
            seen.append(("outer", context.metadata["durationMs"]))
            return envelope

    @loom.use_tool_interceptor(priority=200)
    class Inner:
        async def intercept(self, context: loom.ToolInterception, next: Any) -> Any:  # noqa: A002  # the contract's word
            seen.append(("inner", context.metadata.get("from"), "durationMs" in context.metadata))
            envelope = await next()
            seen.append(("inner", context.metadata["durationMs"]))
            return envelope

    @loom.workflow
    class Calling(loom.BaseWorkflow):
        slow: Slow

        @loom.transition(to="end")
        async def go(self) -> None:
            await self.slow.call()

    run = session.start(Calling)
    at_rest(run)

    assert seen == [("inner", "outer", False), ("inner", 0.0), ("outer", 0.0)], run.error


def test_one_sees_the_tool_the_judged_arguments_and_the_run() -> None:
    seen: list[Any] = []

    @loom.tool
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    @loom.use_tool_interceptor
    class Looking:
        async def intercept(self, context: loom.ToolInterception, next: Any) -> Any:  # noqa: A002  # the contract's word
            seen.append((context.tool.name, context.args, context.run_context.workflow_id))
            return await next()

    called(add, {"a": "1"})

    assert seen == [("add", {"a": 1, "b": 2}, "")]


def test_arguments_are_judged_before_any_of_them() -> None:
    told: list[Any] = []

    @loom.tool
    def add(a: int) -> int:
        """Add."""
        return a

    @loom.use_tool_interceptor
    class Never:
        def intercept(self, context: Any, next: Any) -> Any:  # noqa: A002  # the contract's word
            told.append("asked")

    with pytest.raises(loom.ArgsInvalid):
        add.call({"a": "many"})

    assert told == []


def test_its_constructor_is_injected() -> None:
    class Log:
        def __init__(self) -> None:
            self.names: list[str] = []

    log = Log()

    @loom.use_tool_interceptor
    class Logging:
        def __init__(self, log: Log) -> None:
            self.log = log

        async def intercept(self, context: loom.ToolInterception, next: Any) -> Any:  # noqa: A002  # the contract's word
            self.log.names.append(context.tool.name)
            return await next()

    with loom.overrides({Log: log}):
        called(noting_tool([]))

    assert log.names == ["noting"]


def test_a_class_that_intercepts_nothing_is_refused() -> None:
    with pytest.raises(loom.DefinitionError, match="intercepts nothing"):

        @loom.use_tool_interceptor
        class Nothing: ...


def test_one_that_returns_no_envelope_is_named() -> None:
    @loom.use_tool_interceptor
    class Forgetful:
        async def intercept(self, context: Any, next: Any) -> None:  # noqa: A002  # the contract's word
            await next()

    with pytest.raises(loom.DefinitionError, match=r"Forgetful\.intercept gave no envelope"):
        called(noting_tool([]))
