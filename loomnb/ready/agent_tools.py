"""Tools for agents: to ask a person, to have something approved, and to end a task. Their docstrings are what models read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from loomnb.ready.people import AskUserArgs, AskUserWorkflow, ConfirmUserWorkflow
from loomnb.runtime import RunContext
from loomnb.tools import BaseTool, ToolCallOptions, ToolEnvelope, tool

__all__ = ["AgentFinishTool", "AskClarificationTool", "AskForApprovalTool"]


@tool(name="ask_clarification", schema=AskUserArgs)
class AskClarificationTool(BaseTool[AskUserArgs, None, Any]):
    """Ask the person a question and get the answer. Use it when something you need is missing or unclear.

    Give options where there are a few sensible answers.
    """

    # Models read the text above; for people: it is pending until its `AskUserWorkflow` ends.

    ask: AskUserWorkflow

    async def handle(self, args: AskUserArgs, ctx: RunContext[Any], options: ToolCallOptions[Any]) -> ToolEnvelope[Any, Any]:
        """Start the question as a sub-workflow."""
        return ToolEnvelope(pending=self.ask.run(args.model_dump(by_alias=True), callback=options.callback))

    async def complete(self, result: Mapping[str, Any]) -> ToolEnvelope[Any, Any]:
        """The answer's text; the whole input where there is no answer."""
        data = result.get("data")
        answer = data.get("answer") if isinstance(data, Mapping) else None
        return ToolEnvelope(data=answer if answer is not None else dict(result))


class _Concept(BaseModel):
    model_config = ConfigDict(extra="forbid")

    concept: str = Field(description="What the person is to approve, in Markdown: complete, as it would be done.")


@tool(name="ask_for_approval", schema=_Concept)
class AskForApprovalTool(BaseTool[_Concept, None, Any]):
    """Show the person what you are about to do and have it approved. You get `{"denied": true}` when it is not."""

    confirm: ConfirmUserWorkflow

    async def handle(self, args: _Concept, ctx: RunContext[Any], options: ToolCallOptions[Any]) -> ToolEnvelope[Any, Any]:
        """Start the confirmation as a sub-workflow."""
        return ToolEnvelope(pending=self.confirm.run({"markdown": args.concept}, callback=options.callback))

    async def complete(self, result: Mapping[str, Any]) -> ToolEnvelope[Any, Any]:
        """`{"concept"}` when it was confirmed; `{"denied": true}` when not, and when nobody could say."""
        data = result.get("data")
        if result.get("status", "completed") == "completed" and isinstance(data, Mapping) and data.get("confirmed") is True:
            return ToolEnvelope(data={"concept": data.get("markdown")})
        return ToolEnvelope(data={"denied": True})


class _Finish(BaseModel):
    model_config = ConfigDict(extra="forbid")

    result: Any = Field(description="What the task was to bring about: an object, or any other JSON value.")


@tool(name="agent_finish", schema=_Finish)
class AgentFinishTool(BaseTool[_Finish, None, Any]):
    """End the task with its result. Call it once, when nothing is left to do."""

    async def handle(self, args: _Finish) -> ToolEnvelope[Any, Any]:
        """The result; the workflow ends with it once every call of the turn has its own."""
        return ToolEnvelope(data=args.result)
