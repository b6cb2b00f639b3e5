"""The single steps of a tool call: may it be made, what is it called with, what does the tool say before, and how does it show.

`loomnb.agents.registry` puts them in the contract's order (contracts/agents.md §1.6).
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loomnb.agents.control_flow import is_not_a_failure
from loomnb.agents.input_schemas import InputIssues, InputSchema, canonical_json
from loomnb.agents.intercepting import through_interceptors
from loomnb.agents.spi import Actor, Preflight, RolesPolicy, ToolContext, ToolHandler, ToolScope, ToolSpec, settled
from loomnb.agents.tool_errors import ToolInputDriftError, ToolInputInvalidError
from loomnb.agents.ui_collector import UiCollector, checked_push
from loomnb.errors import DefinitionError, NotJson
from loomnb.runtime import Workers

__all__ = [
    "Entry",
    "check_approved",
    "described",
    "executed",
    "guarded_preflight",
    "is_enabled",
    "json_input",
    "may_use",
    "own_copy",
    "parsed_input",
    "preflight_of",
    "scope_of",
    "show",
]

Phase = Literal["prepare", "execute"]

_LOG = logging.getLogger("loomnb.agents")
_WORKERS = Workers()


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool as it is registered."""

    spec: ToolSpec
    handler: ToolHandler
    schema: InputSchema

    def hook(self, name: str) -> Callable[..., Any] | None:
        """What the handler has beside `execute`; None where it has not."""
        found = getattr(self.handler, name, None)
        return found if callable(found) else None


# -- may it ------------------------------------------------------------------------------------------


async def is_enabled(entry: Entry) -> bool:
    enabled = entry.spec.enabled
    if not (await settled(enabled()) if callable(enabled) else enabled):
        return False
    hook = entry.hook("is_enabled")
    return hook is None or bool(await settled(hook()))


async def may_use(entry: Entry, actor: Actor, policy: RolesPolicy) -> bool:
    if not await settled(policy.can(actor, entry.spec)):
        return False
    hook = entry.hook("can_use")
    return hook is None or bool(await settled(hook(actor)))


async def described(entry: Entry, scope: ToolScope) -> Mapping[str, Any] | None:
    """What the tool says of itself here; None: it is not to be had."""
    hook = entry.hook("describe")
    said = await settled(hook(scope)) if hook is not None else None
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        raise DefinitionError(
            f"The tool {entry.spec.name!r} describes itself as {said!r}.",
            advice='Return {"available": …, "description": …}, or None.',
        )
    return None if said.get("available") is False else said


def scope_of(ctx: ToolContext) -> ToolScope:
    return ToolScope(
        actor=ctx.actor,
        thread_id=ctx.thread_id or None,
        agent_name=ctx.agent_name,
        persona=ctx.persona,
        ui_capabilities=ctx.ui_capabilities,
        page_context=ctx.page_context,
    )


# -- what is it called with --------------------------------------------------------------------------


async def parsed_input(entry: Entry, value: Any) -> Any:
    try:
        return await entry.schema.parse(value)
    except InputIssues as exc:
        raise ToolInputInvalidError(entry.spec.name, exc.issues) from exc.__cause__


def own_copy(entry: Entry, value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as exc:
        raise ToolInputDriftError(entry.spec.name, "it cannot be copied, so it cannot be kept from changes") from exc


def json_input(entry: Entry, parsed: Any) -> Any:
    try:
        return entry.schema.json_of(parsed)
    except NotJson as exc:
        raise ToolInputDriftError(entry.spec.name, f"it is no JSON ({exc.message})") from exc


def check_approved(entry: Entry, parsed: Any, approved: Any) -> None:
    now = canonical_json(json_input(entry, parsed))
    try:
        was = canonical_json(approved)
    except NotJson as exc:
        raise ToolInputDriftError(entry.spec.name, f"what was approved is no JSON ({exc.message})") from exc
    if now != was:
        raise ToolInputDriftError(entry.spec.name, "it is read differently now")


async def preflight_of(entry: Entry, parsed: Any, ctx: ToolContext, phase: Phase) -> Preflight:
    hook = entry.hook("preflight") if entry.spec.kind == "action" else None
    if hook is None:
        return Preflight()
    said = await run_hook(hook, parsed, ctx, phase)
    if said is None:
        return Preflight()
    if isinstance(said, Mapping):
        known = {key: said[key] for key in ("status", "confirmation", "reason", "output") if key in said}
        said = Preflight(**known)
    if not isinstance(said, Preflight) or said.status not in ("ready", "denied", "completed"):
        raise DefinitionError(
            f"The preflight of {entry.spec.name!r} says {said!r}.",
            advice="Return Preflight(status='ready' | 'denied' | 'completed', …), or None for ready.",
        )
    return said


async def guarded_preflight(entry: Entry, parsed: Any, ctx: ToolContext, phase: Phase) -> Preflight:
    """The same on a copy: what the hook changes, or keeps to change later, is not what is executed."""
    was = canonical_json(json_input(entry, parsed))
    lent = own_copy(entry, parsed)
    said = await preflight_of(entry, lent, ctx, phase)
    if canonical_json(json_input(entry, lent)) != was:
        raise ToolInputDriftError(entry.spec.name, "its preflight changed it")
    return said


async def run_hook(function: Callable[..., Any], *args: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    return await settled(await asyncio.wrap_future(_WORKERS.submit(function, *args)))


async def executed(entry: Entry, parsed: Any, seen: Any, ctx: ToolContext) -> Any:
    """What the tool gives, inside of the interceptors; `seen` is what those are told that it is called with."""

    async def work() -> Any:
        return await run_hook(entry.handler.execute, parsed, ctx)

    if getattr(entry.handler, "is_intercepted", False) is True:
        return await work()
    return await through_interceptors(entry.spec, seen, ctx, work)


# -- showing it ----------------------------------------------------------------------------------------


async def show(entry: Entry, output: Any, ctx: ToolContext) -> None:
    """Show an output. What goes wrong is reported: the tool is done, and must not count as failed for its picture."""
    hook = entry.hook("present")
    if hook is None:
        return
    try:
        # A copy: what the hook does to it must not reach the model.
        lent = copy.deepcopy(output) if isinstance(output, (dict, list)) else output
        made = await run_hook(hook, lent, ctx)
        pushes = [checked_push(one) for one in _each(made)]  # all are judged before the first is shown
        collector = getattr(ctx.emit_ui, "__self__", None)
        if isinstance(collector, UiCollector):
            for push in pushes:
                collector.judge(push)
        for push in pushes:
            ctx.emit_ui(push.component, push.props, version=push.version, fallback_text=push.fallback_text)
    except Exception as exc:
        if is_not_a_failure(exc):
            raise
        await _report(entry.spec.name, exc, ctx)


def _each(made: Any) -> Sequence[Any]:
    if made is None:
        return []
    return made if isinstance(made, (list, tuple)) else [made]


async def _report(name: str, exc: Exception, ctx: ToolContext) -> None:
    if ctx.on_presentation_error is not None:
        try:
            await settled(ctx.on_presentation_error(exc, {"toolName": name}))
        except Exception as error:
            if is_not_a_failure(error):
                raise
            # A broken reporter is no reason to fail either.
            _LOG.warning("What was told of the presentation of %r could not be heard.", name, exc_info=True)
        return
    _LOG.warning("The result of %r could not be shown: %s", name, exc)
