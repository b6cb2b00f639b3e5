"""Tools that run the tool calls of a model's message, and take the results that come later. No problem of a tool is raised:
the model is told of it, and may correct itself.

What is told: `{"type": "tool_result", "toolCallId", "content", "isError"}`. The content is the JSON of what the tool gave,
whatever that is (`0`, `false`, `""` and `null` too), or, with `isError`, the reason in words.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from loomnb.documents import LlmMessageDocument
from loomnb.errors import NotFound, Refused
from loomnb.ids import SYSTEM
from loomnb.jsonvalue import dumps, freeze, thaw
from loomnb.ready.llm_messages import LlmMessage, calls_of
from loomnb.ready.llm_tools import callable_tool
from loomnb.runtime import CURRENT, RunContext, TransitionInput
from loomnb.tools import BaseTool, ToolCallOptions, ToolEnvelope, execute, tool

__all__ = [
    "LlmDelegateToolCallsArgs",
    "LlmDelegateToolCallsConfig",
    "LlmDelegateToolCallsTool",
    "LlmUpdateToolResultArgs",
    "LlmUpdateToolResultConfig",
    "LlmUpdateToolResultTool",
    "save_results",
    "tool_result",
]


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="forbid")


class _Then(BaseModel):
    transition: str


class LlmDelegateToolCallsArgs(_Shape):
    """The model's message, and the wait transition that takes the results of tools that start sub-workflows."""

    message: LlmMessage
    callback: _Then


class LlmUpdateToolResultConfig(_Shape):
    """What becomes of the results once they are all there.

    Attributes:
        save: whether they become a document of the run: the message the model is told next.
        meta: kept with that document.
        provider: kept with it too.
    """

    save: bool = True
    meta: dict[str, Any] | None = None
    provider: str | None = None


class LlmDelegateToolCallsConfig(LlmUpdateToolResultConfig):
    """The same, with what may be called.

    Attributes:
        tools: the names that the model was offered; a call of another one is an error it is told. Default: every tool there is.
    """

    tools: list[str] | None = None


class LlmUpdateToolResultArgs(_Shape):
    """What the delegation (or the update before) gave, and the `input` of the wait transition that a sub-workflow resumed."""

    delegate_result: dict[str, Any]
    completed_tool: Any


@dataclass(frozen=True, slots=True)
class _Outcome:
    call_id: str
    name: str
    content: str = ""
    is_error: bool = False
    is_pending: bool = False


@tool(name="llm_delegate_tool_calls", schema=LlmDelegateToolCallsArgs, config_schema=LlmDelegateToolCallsConfig)
class LlmDelegateToolCallsTool(BaseTool[LlmDelegateToolCallsArgs, LlmDelegateToolCallsConfig, dict[str, Any]]):
    """Run all tool calls of a model's message: `async def` tools side by side, those that work on threads one after the other.

    The data is `{"allCompleted", "toolResults", "pendingCount", "errorCount", "hasErrors", "errors": [{"toolName", "toolCallId",
    "message"}]}`, and `pending` with the calls whose sub-workflows go on; each of those resumes the callback's transition, whose
    input is for `llm_update_tool_result`. Once all results are there they are saved as one message of the run.
    """

    async def handle(
        self,
        args: LlmDelegateToolCallsArgs,
        ctx: RunContext[Any],
        options: ToolCallOptions[LlmDelegateToolCallsConfig],
    ) -> ToolEnvelope[Any, Any]:
        """Run them."""
        config = options.config or LlmDelegateToolCallsConfig()
        calls = calls_of(args.message)
        outcomes = await _all_called(calls, args.callback.transition, config.tools)
        delegation = _added({"toolResults": [], "errors": []}, outcomes)
        pending = [{"toolCallId": o.call_id, "toolName": o.name} for o in outcomes if o.is_pending]
        delegation |= {"allCompleted": not pending, "pendingCount": len(pending)}
        delegation |= {"pending": pending} if pending else {}
        if not pending:
            _save(self, delegation, config)
        return ToolEnvelope(data=delegation)


@tool(name="llm_update_tool_result", schema=LlmUpdateToolResultArgs, config_schema=LlmUpdateToolResultConfig)
class LlmUpdateToolResultTool(BaseTool[LlmUpdateToolResultArgs, LlmUpdateToolResultConfig, dict[str, Any]]):
    """Take the end of a sub-workflow that a tool call waits for.

    The tool's `complete` makes the result of it; of one that failed or was canceled the model is told why. The data is as of
    `llm_delegate_tool_calls`; when the last result is there, all are saved. A sub-workflow that failed, was retried and now
    completes replaces its result while others are awaited; an end that nothing here waits for changes nothing.

    Raises:
        Refused: the input has no `meta` with `toolUseId` and `toolName`: the tool did not hand its callback on.
    """

    async def handle(
        self, args: LlmUpdateToolResultArgs, ctx: RunContext[Any], options: ToolCallOptions[LlmUpdateToolResultConfig]
    ) -> ToolEnvelope[Any, Any]:
        """Add it."""
        config = options.config or LlmUpdateToolResultConfig()
        ended = _ended(args.completed_tool)
        meta: Any = ended.get("meta")
        call_id, name = (meta.get("toolUseId"), meta.get("toolName")) if isinstance(meta, Mapping) else (None, None)
        if not isinstance(call_id, str) or not isinstance(name, str):
            raise Refused(
                "The sub-workflow that ended does not say which tool call it belongs to: no toolUseId and toolName came with it.",
                advice="Let the tool hand on what it was given: self.child.run(args, callback=options.callback).",
            )
        before = thaw(args.delegate_result)
        awaited: Any = before.get("pending")  # a delegation made by hand may count them only
        is_late = any(one.get("toolCallId") == call_id for one in before.get("toolResults", ()))
        is_awaited = not is_late and (awaited is None or any(one.get("toolCallId") == call_id for one in awaited))
        if before.get("allCompleted") or not (is_late or is_awaited):
            return ToolEnvelope(data=before)  # it was told to the model already, or belongs to an earlier message
        outcome = await _completed(ended, call_id, name)
        delegation = _added(before, [outcome])
        left = max(0, int(before.get("pendingCount", 0)) - is_awaited)
        delegation |= {"allCompleted": left == 0, "pendingCount": left}
        if awaited is not None:
            delegation |= {"pending": [one for one in awaited if one.get("toolCallId") != call_id]}
        if left == 0:
            delegation.pop("pending", None)
            _save(self, delegation, config)
        return ToolEnvelope(data=delegation)


# -- one call -------------------------------------------------------------------------------------


async def _all_called(calls: list[dict[str, Any]], transition: str, allowed: list[str] | None) -> list[_Outcome]:
    # A move collects what is saved and started without a lock, and sync tools work on threads: two at once would lose documents
    # of one another. So they take turns, when those on the loop are through.
    done: dict[int, _Outcome] = {}

    async def one(at: int) -> None:
        done[at] = await _called(calls[at], transition, allowed)

    in_turn = [at for at, call in enumerate(calls) if _is_sync(call, allowed)]
    await asyncio.gather(*(one(at) for at in range(len(calls)) if at not in in_turn))
    for at in in_turn:
        await one(at)
    return [done[at] for at in sorted(done)]


def _is_sync(call: Mapping[str, Any], allowed: list[str] | None) -> bool:
    try:
        return not inspect.iscoroutinefunction(callable_tool(str(call.get("name")), allowed).body)
    except Exception:  # noqa: BLE001  # the call itself says what is wrong with it
        return False


async def _called(call: Mapping[str, Any], transition: str, allowed: list[str] | None) -> _Outcome:
    call_id, name = str(call.get("id")), str(call.get("name"))
    callback = {"transition": transition, "metadata": {"toolUseId": call_id, "toolName": name}}
    try:
        found = callable_tool(name, allowed)
        envelope = await execute(found, call.get("args"), ToolCallOptions(callback=callback))
        if envelope.pending is None or envelope.error is not None:
            return _outcome(call_id, name, envelope)
        _check_callback(envelope.pending.workflow_id, name, call_id)
    except Exception as exc:  # noqa: BLE001  # whatever it is, the model is told: it may do it better
        return _Outcome(call_id, name, _reason(exc), is_error=True)
    return _Outcome(call_id, name, is_pending=True)


def _check_callback(child_id: str, name: str, call_id: str) -> None:
    """Refuse a pending result that would never come.

    Raises:
        Refused: the sub-workflow will not tell of its end.
    """
    attempt = CURRENT.get()
    child = next((c for c in attempt.children if c.id == child_id), None) if attempt is not None else None
    callback: Any = child.callback if child is not None else None
    metadata = callback.get("metadata") if isinstance(callback, Mapping) else None
    if not isinstance(metadata, Mapping) or metadata.get("toolUseId") != call_id:
        raise Refused(
            f"The tool {name!r} started the sub-workflow {child_id} without handing on its callback, so its result never comes.",
            advice="In the tool: self.child.run(args, callback=options.callback).",
        )


def _ended(completed: Any) -> dict[str, Any]:
    """How a sub-workflow ended, as `complete` takes it."""
    if isinstance(completed, TransitionInput):
        return {
            "workflowId": completed.workflow_id,
            "status": completed.status,
            "hasError": completed.has_error,
            "errorMessage": completed.error_message,
            "data": completed.data,
            "meta": completed.meta,
        }
    if not isinstance(completed, Mapping):
        raise Refused(
            f"completedTool is a {type(completed).__name__}.", advice="Give the `input` of the wait transition, as it came."
        )
    return thaw(dict(completed))  # type: ignore[no-any-return]  # a mapping stays one


async def _completed(ended: Mapping[str, Any], call_id: str, name: str) -> _Outcome:
    status = ended.get("status", "completed")
    if status != "completed" or ended.get("hasError"):
        how = "was canceled" if status == "canceled" else "failed"
        why = ended.get("errorMessage")
        told = f"The sub-workflow of {name!r} {how}" + (f": {why}" if why else ".")
        return _Outcome(call_id, name, told, is_error=True)
    try:
        try:
            made = callable_tool(name, None).complete(ended)
            envelope = ToolEnvelope.of(await made if inspect.isawaitable(made) else made)
        except NotFound:  # after a restart its cell may not have run yet, and what a person answered must not be lost for that
            envelope = await BaseTool[Any, Any, Any, Any]().complete(ended)
        if envelope.pending is not None:
            raise Refused(f"The tool {name!r} started another sub-workflow at the end of its first.", advice="It can start one.")
        return _outcome(call_id, name, envelope)
    except Exception as exc:  # noqa: BLE001  # as for the call itself
        return _Outcome(call_id, name, _reason(exc), is_error=True)


def _outcome(call_id: str, name: str, envelope: ToolEnvelope[Any, Any]) -> _Outcome:
    if envelope.error is not None:  # and not what it gave along with it: a model would take that for a success
        return _Outcome(call_id, name, envelope.error or f"The tool {name!r} failed and did not say why.", is_error=True)
    return _Outcome(call_id, name, dumps(freeze(envelope.data, None, "the result")))


def _reason(exc: Exception) -> str:
    return str(exc) or type(exc).__name__


# -- all of them ----------------------------------------------------------------------------------


def tool_result(call_id: str, content: str, *, is_error: bool = False) -> dict[str, Any]:
    """The result of a call as a model is told of it."""
    return {"type": "tool_result", "toolCallId": call_id, "content": content, "isError": is_error}


def _added(delegation: Mapping[str, Any], outcomes: list[_Outcome]) -> dict[str, Any]:
    results, errors = list(delegation.get("toolResults", ())), list(delegation.get("errors", ()))
    for o in outcomes:
        if o.is_pending:
            continue
        results = [r for r in results if r.get("toolCallId") != o.call_id]
        errors = [e for e in errors if e.get("toolCallId") != o.call_id]
        results.append(tool_result(o.call_id, o.content, is_error=o.is_error))
        errors += [{"toolName": o.name, "toolCallId": o.call_id, "message": o.content}] if o.is_error else []
    told = {"toolResults": results, "errorCount": len(errors), "hasErrors": bool(errors), "errors": errors}
    return {**delegation, **told}


def _save(by: BaseTool[Any, Any, Any], delegation: Mapping[str, Any], config: LlmUpdateToolResultConfig) -> None:
    if config.save and delegation["toolResults"] and CURRENT.get() is not None:
        meta = {**({"provider": config.provider} if config.provider is not None else {}), **(config.meta or {})}
        save_results(by, delegation["toolResults"], meta or None)


def save_results(by: Any, results: list[dict[str, Any]], meta: Mapping[str, Any] | None = None) -> None:
    """Save results as the message a model is told next.

    Args:
        by: the workflow or tool at work.
        results: what `tool_result` makes.
        meta: kept with the document.
    """
    attempt = CURRENT.get()
    source = attempt.record.source if attempt is not None else SYSTEM
    content = {"id": source.new_id("msg"), "role": "user", "blocks": results}
    by.document_store.save(LlmMessageDocument.model_validate(content), meta=meta)
