"""The examples of the contract that are about tools, as small workflows."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

import loomnb as loom
from tests.helpers import at_rest, status_is


class Numbers(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    a: int
    b: int


@loom.tool(name="example_sum", description="Adds two numbers.", schema=Numbers)
class MathSumTool(loom.BaseTool[Numbers, None, int]):
    calls: list[Numbers]

    def __init__(self) -> None:
        self.calls = []

    async def handle(self, args: Numbers, ctx: loom.RunContext[Any]) -> loom.ToolEnvelope[int]:
        self.calls.append(args)
        return loom.ToolEnvelope(data=args.a + args.b)


@loom.tool(name="example_counter")
class CounterTool(loom.BaseTool[Any, None, int]):
    """Counts; it remembers, because it is one instance for all runs."""

    def __init__(self) -> None:
        self.count = 0

    def handle(self) -> loom.ToolEnvelope[int]:
        self.count += 1
        return loom.ToolEnvelope(data=self.count)


@loom.workflow(name="custom_tool_example", schema=Numbers)
class CustomToolWorkflow(loom.BaseWorkflow):
    def __init__(self, math_sum: MathSumTool, counter: CounterTool) -> None:
        self.math_sum = math_sum
        self.counter = counter

    @loom.transition(to="counted")
    async def calculate(self, state: Any, ctx: loom.RunContext[Numbers]) -> None:
        total = await self.math_sum.call({"a": ctx.args.a, "b": ctx.args.b})
        counts = [(await self.counter.call()).data for _ in range(3)]
        self.assign_state(total=total.data, counts=counts)
        self.document_store.save(loom.MessageDocument, {"role": "assistant", "text": f"The sum is {total.data}."})

    @loom.transition(from_="counted", to="end", wait=True)
    async def go_on(self, state: Any) -> None:
        self.set_result([*state["counts"], (await self.counter.call()).data])


@pytest.mark.case("workflows:K11")
def test_the_sum_tool_the_counter_and_the_message(session: loom.Loom) -> None:
    with loom.overrides({}):  # tools of its own, so that the counter starts at 0
        run = session.start(CustomToolWorkflow, {"a": 10, "b": 20})
        at_rest(run)
        tools = loom.resolve(CustomToolWorkflow)

    assert (run.status, run.place) == ("waiting", "counted")
    assert [(call.a, call.b) for call in tools.math_sum.calls] == [(10, 20)]
    assert (tools.counter.count, run.state["counts"]) == (3, [1, 2, 3])
    assert [d.content["text"] for d in run.documents] == ["The sum is 30."]

    run.answer("go_on", None)
    status_is(run, "completed")

    assert run.result == [1, 2, 3, 4], "one instance serves the run before and after its wait"


@loom.tool(name="example_glob")
async def glob(pattern: str) -> list[str]:
    """Find files.

    Args:
        pattern: what their names look like.
    """
    raise AssertionError("replaced in every test")


@loom.tool(name="example_read")
async def read(path: str) -> str:
    """Read a file."""
    raise AssertionError("replaced in every test")


@loom.workflow(name="file_explorer_example")
class FileExplorerWorkflow(loom.BaseWorkflow):
    @loom.transition(to="found")
    async def find(self) -> None:
        self.assign_state(files=(await glob.call({"pattern": "*.md"})).data)

    @loom.transition(from_="found", to="end", priority=1)
    @loom.guard("has_files")
    async def show(self, state: Any) -> None:
        text = await read.call({"path": state["files"][0]})
        self.document_store.save(loom.MarkdownDocument(markdown=text.data))

    @loom.transition(from_="found", to="end")
    def explain(self) -> None:
        self.document_store.save(loom.MessageDocument(role="assistant", text="No file matches *.md."))

    def has_files(self, state: Any) -> bool:
        return bool(state["files"])


@pytest.mark.case("workflows:K13")
@pytest.mark.parametrize(
    ("files", "was_read", "shown"),
    [([], [], "No file matches *.md."), (["a.md", "b.md"], ["a.md"], "text of a.md")],
    ids=["none", "two"],
)
def test_nothing_is_read_where_nothing_was_found(session: loom.Loom, files: Any, was_read: Any, shown: str) -> None:
    seen: list[str] = []

    def fake_read(path: str) -> str:
        seen.append(path)
        return f"text of {path}"

    with loom.overrides({glob: lambda pattern: files, read: fake_read}):
        run = session.start(FileExplorerWorkflow)
    at_rest(run)

    assert seen == was_read
    assert [d.content.get("text") or d.content.get("markdown") for d in run.documents] == [shown]
