"""What the tests of models in workflows share: workflows that do one thing with a model, and what is in a run's prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loomnb as loom
from loomnb.ready import LlmDelegateToolCallsTool, LlmGenerateTextTool, LlmUpdateToolResultTool
from loomnb.runtime import TurnRequest
from loomnb.testing import Driven


def message(*calls: tuple[str, Any], text: str = "") -> dict[str, Any]:
    """A message of a model that asks for these tools; the ids are c1, c2, …"""
    blocks = [{"type": "tool_call", "id": f"c{n}", "name": name, "args": args} for n, (name, args) in enumerate(calls, 1)]
    return {"id": "m1", "role": "assistant", "text": text, "blocks": blocks, "stopReason": "tool_use" if calls else "end_turn"}


def conversation(driven: Driven) -> list[dict[str, Any]]:
    """The messages among the documents people see."""
    return [d.content for d in driven.documents if d.document_name == "llm_message"]


def results(driven: Driven) -> list[Mapping[str, Any]]:
    """The results of tools that are saved, in order."""
    blocks = [block for one in conversation(driven) for block in one.get("blocks", ())]
    return [block for block in blocks if block["type"] == "tool_result"]


def told(request: TurnRequest) -> list[tuple[str, Any]]:
    """What a model was told: who said what."""
    return [(one["role"], one["content"]) for one in request.messages]


def asking() -> type[loom.BaseWorkflow[Any]]:
    """A workflow that calls `llm_generate_text` once with its args: `{"args", "config"}`; its result is what came of it."""

    @loom.workflow(name="asking")
    class Asking(loom.BaseWorkflow[Any]):
        llm: LlmGenerateTextTool

        @loom.transition(to="end")
        async def ask(self, state: Any, ctx: loom.RunContext[Any]) -> None:
            self.set_result((await self.llm.call(ctx.args.get("args", {}), config=ctx.args.get("config", {}))).dump())

    return Asking


def delegating() -> type[loom.BaseWorkflow[Any]]:
    """A workflow that delegates a message, `{"message", "config"?}`, and goes on until all results are there."""

    @loom.workflow(name="delegating")
    class Delegating(loom.BaseWorkflow[Any]):
        delegate: LlmDelegateToolCallsTool
        update: LlmUpdateToolResultTool

        @loom.transition(to="awaiting")
        async def begin(self, state: Any, ctx: loom.RunContext[Any]) -> None:
            args = {"message": ctx.args["message"], "callback": {"transition": "ended"}}
            done = await self.delegate.call(args, config=ctx.args.get("config", {}))
            self.set_state({"first": done.data, "now": done.data})

        @loom.transition(from_="awaiting", to="awaiting", wait=True)
        async def ended(self, state: Any, input: loom.TransitionInput[Any, Any], ctx: loom.RunContext[Any]) -> None:  # noqa: A002
            done = await self.update.call({"delegateResult": state["now"], "completedTool": input})
            self.assign_state(now=done.data)

        @loom.transition(from_="awaiting", to="end")
        @loom.guard("is_complete")
        async def finish(self, state: Any) -> None:
            self.set_result(state["now"])

        def is_complete(self, state: Any) -> bool:
            return bool(state["now"]["allCompleted"])

    return Delegating
