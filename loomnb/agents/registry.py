"""The tools of an agent: which are offered to whom, and what a call goes through. Rules: contracts/agents.md §1.6.

An offer and a call are judged alike, so that a tool that was not offered is not run because a model names it all the same. All of
it is judged again at the call: what was offered may have changed since.

Trusted calls. What a person approved has to be what runs. `prepare_validated(..., snapshot_input=True)` gives JSON of the parsed
input that nobody else holds; `invoke(..., approved_input=that)` parses the input again and refuses (ToolInputDriftError) when it
is not the same any more: a default or a transform of the schema changed, or a hook changed its copy.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from loomnb.agents.input_schemas import InputIssues, InputSchema, canonical_json
from loomnb.agents.spi import Actor, Preflight, RolesPolicy, ToolContext, ToolHandler, ToolKind, ToolScope, ToolSpec, settled
from loomnb.agents.tool_errors import (
    ToolDisabledError,
    ToolForbiddenError,
    ToolInputDriftError,
    ToolInputInvalidError,
    ToolNotFoundError,
    ToolPreflightDeniedError,
)
from loomnb.agents.ui_collector import UiCollector, checked_push
from loomnb.errors import DefinitionError, NotJson
from loomnb.jsonvalue import thaw
from loomnb.runtime import ModelTool, Workers
from loomnb.tools import check_name

__all__ = ["NOT_GIVEN", "NotGiven", "OfferedTools", "PreparedCall", "ToolRegistry"]

Phase = Literal["prepare", "execute"]

_LOG = logging.getLogger("loomnb.agents")
_WORKERS = Workers()


class NotGiven:
    """What stands for an argument that was not given, where None is one."""

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final = NotGiven()


class OfferedTools(list[ModelTool]):
    """What a model is offered: name, description and schema of each tool, and beside it what only we need to know.

    Attributes:
        specs: the spec of each, by name.
    """

    def __init__(self, tools: Sequence[ModelTool] = (), specs: Mapping[str, ToolSpec] | None = None) -> None:
        super().__init__(tools)
        self.specs: dict[str, ToolSpec] = dict(specs or {})

    def kind_of(self, name: str) -> ToolKind:
        """The kind of a tool as it was offered; of a name that was not, `read`."""
        spec = self.specs.get(name)
        return spec.kind if spec is not None else "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A call that may be made. `input`: what the schema made of it; with `snapshot_input` the JSON of that, which is yours."""

    input: Any
    preflight: Preflight


@dataclass(frozen=True, slots=True)
class _Entry:
    spec: ToolSpec
    handler: ToolHandler
    schema: InputSchema

    def hook(self, name: str) -> Callable[..., Any] | None:
        found = getattr(self.handler, name, None)
        return found if callable(found) else None


class ToolRegistry:
    """The tools of an agent, or of several, by name.

    A handler's `execute`, `preflight` and `present` run on a worker thread when they are plain functions (in a copy of the
    caller's context), so that none of them stops the loop; async ones are awaited.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    # -- what is there ---------------------------------------------------------------------------

    def register(self, spec: ToolSpec, handler: ToolHandler) -> None:
        """Make a tool known. One of the same name is replaced, and keeps its place.

        Raises:
            DefinitionError: no model can say its name, its kind is unknown, its handler executes nothing, its roles are one text,
                or its schema can judge nothing.
        """
        name = check_name(spec.name, "An agent's tool")
        if spec.kind not in get_args(ToolKind):
            raise DefinitionError(
                f"The tool {name!r} is of the kind {spec.kind!r}.", advice=f"One of: {', '.join(get_args(ToolKind))}."
            )
        if not callable(getattr(handler, "execute", None)):
            raise DefinitionError(f"The tool {name!r} does nothing.", advice="Give its handler `execute(input, ctx)`.")
        if isinstance(spec.roles, str):
            raise DefinitionError(f"The tool {name!r}: roles= is a list.", advice=f"Write roles=[{spec.roles!r}].")
        self._entries[name] = _Entry(spec, handler, InputSchema(spec.input_schema, f"The tool {name!r}"))

    def unregister(self, name: str) -> bool:
        """Take a tool away; whether it was there."""
        return self._entries.pop(name, None) is not None

    def has(self, name: str) -> bool:
        """Whether a tool of this name is registered, whoever may use it."""
        return name in self._entries

    def spec(self, name: str) -> ToolSpec | None:
        """What was declared of a tool; None if there is none."""
        entry = self._entries.get(name)
        return entry.spec if entry is not None else None

    def all_specs(self) -> list[ToolSpec]:
        """Every tool, in the order of registration."""
        return [entry.spec for entry in self._entries.values()]

    async def visible_specs(self, actor: Actor, policy: RolesPolicy) -> list[ToolSpec]:
        """The tools that are switched on and that this actor may use."""
        entries = [*self._entries.values()]
        return [entry.spec for entry in entries if await _enabled(entry) and await _may(entry, actor, policy)]

    async def definitions_for(
        self, actor: Actor, policy: RolesPolicy, allow_list: Collection[str] | None = None, scope: ToolScope | None = None
    ) -> OfferedTools:
        """What a model is offered, in the order of registration.

        Args:
            actor: on whose behalf it works.
            policy: who may use what.
            allow_list: the names that may be offered; None is all of them, empty is none. Names nobody knows do not matter.
            scope: what the tools' `describe` may look at; None: the actor only.
        """
        tools: list[ModelTool] = []
        specs: dict[str, ToolSpec] = {}
        scope = scope or ToolScope(actor=actor)
        for entry in [*self._entries.values()]:
            spec = entry.spec
            if allow_list is not None and spec.name not in allow_list:
                continue
            if not await _enabled(entry) or not await _may(entry, actor, policy):
                continue
            said = await _described(entry, scope)
            if said is None:
                continue
            schema = said.get("inputSchema")
            told = entry.schema if schema is None else InputSchema(schema, f"What {spec.name!r} says of itself")
            description = said.get("description")
            tools.append(
                ModelTool(
                    name=spec.name,
                    description=spec.description if description is None else str(description),
                    input_schema=told.told(),
                )
            )
            specs[spec.name] = spec
        return OfferedTools(tools, specs)

    # -- a call ----------------------------------------------------------------------------------

    async def prepare(
        self,
        name: str,
        input: Any,  # noqa: A002  # the contract's word
        ctx: ToolContext,
        policy: RolesPolicy,
        *,
        allowed_tools: Collection[str] | None = None,
    ) -> Preflight:
        """Judge a call, and let an action say what it would do; nothing is executed. As `prepare_validated`."""
        return (await self.prepare_validated(name, input, ctx, policy, allowed_tools=allowed_tools)).preflight

    async def prepare_validated(
        self,
        name: str,
        input: Any,  # noqa: A002  # the contract's word
        ctx: ToolContext,
        policy: RolesPolicy,
        *,
        allowed_tools: Collection[str] | None = None,
        snapshot_input: bool = False,
    ) -> PreparedCall:
        """Judge a call, and let an action say what it would do; nothing is executed.

        Args:
            name: the tool.
            input: its arguments, as the model said them.
            ctx: of the call.
            policy: who may use what.
            allowed_tools: names that may be used here; None is all.
            snapshot_input: give the parsed input as JSON that nobody else holds, for `invoke(approved_input=)`. The preflight
                gets a copy of its own.

        Raises:
            ToolNotFoundError, ToolDisabledError, ToolForbiddenError: it may not be called, in the contract's order.
            ToolInputInvalidError: the input does not fit.
            ToolInputDriftError: with `snapshot_input`: it is no JSON, or the preflight changed its copy.
            Exception: what the preflight raised.
        """
        entry = await self._admitted(name, ctx, policy, allowed_tools)
        if not snapshot_input:
            parsed = await _parsed(entry, input)
            return PreparedCall(input=parsed, preflight=await _preflight(entry, parsed, ctx, "prepare"))
        parsed = await _parsed(entry, _own_copy(entry, input))
        snapshot = thaw(_json(entry, parsed))
        return PreparedCall(input=snapshot, preflight=await _guarded_preflight(entry, parsed, ctx, "prepare"))

    async def invoke(
        self,
        name: str,
        input: Any,  # noqa: A002  # the contract's word
        ctx: ToolContext,
        policy: RolesPolicy,
        *,
        allowed_tools: Collection[str] | None = None,
        approved_input: Any = NOT_GIVEN,
    ) -> Any:
        """Judge a call and make it: an action's preflight, what the tool does, and how it shows that.

        Args:
            name: the tool.
            input: its arguments, as the model said them.
            ctx: of the call.
            policy: who may use what.
            allowed_tools: names that may be used here; None is all.
            approved_input: what was approved (see `prepare_validated`). Given at all, also as None,
                the parsed input has to be it.

        Returns:
            What the tool gave, untouched; of a preflight that is `completed`, its output.

        Raises:
            ToolNotFoundError, ToolDisabledError, ToolForbiddenError: it may not be called, in the contract's order.
            ToolInputInvalidError: the input does not fit.
            ToolInputDriftError: it is not what was approved. Nothing ran.
            ToolPreflightDeniedError: the tool refuses; its reason is the message. Nothing ran.
            Exception: what the tool raised.
        """
        entry = await self._admitted(name, ctx, policy, allowed_tools)
        if isinstance(approved_input, NotGiven):
            parsed = await _parsed(entry, input)
            preflight = await _preflight(entry, parsed, ctx, "execute")
        else:
            parsed = await _parsed(entry, _own_copy(entry, input))
            _check_approved(entry, parsed, approved_input)
            preflight = await _guarded_preflight(entry, parsed, ctx, "execute")
        if preflight.status == "denied":
            raise ToolPreflightDeniedError(name, preflight.reason)
        if preflight.status == "completed":
            output = preflight.output
        else:
            output = await _run(entry.handler.execute, parsed, ctx)
        await _present(entry, output, ctx)
        return output

    async def _admitted(self, name: str, ctx: ToolContext, policy: RolesPolicy, allowed_tools: Collection[str] | None) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise ToolNotFoundError(name)
        if not await _enabled(entry):
            raise ToolDisabledError(name)
        if not await _may(entry, ctx.actor, policy):
            raise ToolForbiddenError(name)
        if allowed_tools is not None and name not in allowed_tools:
            raise ToolForbiddenError(name)
        if await _described(entry, _scope_of(ctx)) is None:
            raise ToolNotFoundError(name)
        return entry

    # -- how it shows ----------------------------------------------------------------------------

    def has_presentation(self, name: str) -> bool:
        """Whether a tool shows its result as components."""
        entry = self._entries.get(name)
        return entry is not None and entry.hook("present") is not None

    async def present_result(self, name: str, output: Any, ctx: ToolContext) -> None:
        """Show a result that was had without `invoke`: of a preflight that completed the call. Never raises, as there."""
        entry = self._entries.get(name)
        if entry is not None:
            await _present(entry, output, ctx)

    async def preview_input(self, name: str, scope: ToolScope) -> Any:
        """An input to try the tool with; None where it has none, or fails to say it."""
        entry = self._entries.get(name)
        hook = entry.hook("preview_input") if entry is not None else None
        if hook is None:
            return None
        try:
            return await settled(hook(scope))
        except Exception:  # noqa: BLE001  # a preview is a kindness: without it there is none
            return None


# -- may it ------------------------------------------------------------------------------------------


async def _enabled(entry: _Entry) -> bool:
    enabled = entry.spec.enabled
    if not (await settled(enabled()) if callable(enabled) else enabled):
        return False
    hook = entry.hook("is_enabled")
    return hook is None or bool(await settled(hook()))


async def _may(entry: _Entry, actor: Actor, policy: RolesPolicy) -> bool:
    if not await settled(policy.can(actor, entry.spec)):
        return False
    hook = entry.hook("can_use")
    return hook is None or bool(await settled(hook(actor)))


async def _described(entry: _Entry, scope: ToolScope) -> Mapping[str, Any] | None:
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


def _scope_of(ctx: ToolContext) -> ToolScope:
    return ToolScope(
        actor=ctx.actor,
        thread_id=ctx.thread_id or None,
        agent_name=ctx.agent_name,
        persona=ctx.persona,
        ui_capabilities=ctx.ui_capabilities,
        page_context=ctx.page_context,
    )


# -- what is it called with --------------------------------------------------------------------------


async def _parsed(entry: _Entry, value: Any) -> Any:
    try:
        return await entry.schema.parse(value)
    except InputIssues as exc:
        raise ToolInputInvalidError(entry.spec.name, exc.issues) from exc.__cause__


def _own_copy(entry: _Entry, value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as exc:
        raise ToolInputDriftError(entry.spec.name, "it cannot be copied, so it cannot be kept from changes") from exc


def _json(entry: _Entry, parsed: Any) -> Any:
    try:
        return entry.schema.json_of(parsed)
    except NotJson as exc:
        raise ToolInputDriftError(entry.spec.name, f"it is no JSON ({exc.message})") from exc


def _check_approved(entry: _Entry, parsed: Any, approved: Any) -> None:
    now = canonical_json(_json(entry, parsed))
    try:
        was = canonical_json(approved)
    except NotJson as exc:
        raise ToolInputDriftError(entry.spec.name, f"what was approved is no JSON ({exc.message})") from exc
    if now != was:
        raise ToolInputDriftError(entry.spec.name, "it is read differently now")


async def _preflight(entry: _Entry, parsed: Any, ctx: ToolContext, phase: Phase) -> Preflight:
    hook = entry.hook("preflight") if entry.spec.kind == "action" else None
    if hook is None:
        return Preflight()
    said = await _run(hook, parsed, ctx, phase)
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


async def _guarded_preflight(entry: _Entry, parsed: Any, ctx: ToolContext, phase: Phase) -> Preflight:
    """The same on a copy: what the hook changes, or keeps to change later, is not what is executed."""
    was = canonical_json(_json(entry, parsed))
    lent = _own_copy(entry, parsed)
    said = await _preflight(entry, lent, ctx, phase)
    if canonical_json(_json(entry, lent)) != was:
        raise ToolInputDriftError(entry.spec.name, "its preflight changed it")
    return said


async def _run(function: Callable[..., Any], *args: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    return await settled(await asyncio.wrap_future(_WORKERS.submit(function, *args)))


# -- showing it ----------------------------------------------------------------------------------------


async def _present(entry: _Entry, output: Any, ctx: ToolContext) -> None:
    """Show an output. What goes wrong is reported: the tool is done, and must not count as failed for its picture."""
    hook = entry.hook("present")
    if hook is None:
        return
    try:
        # A copy: what the hook does to it must not reach the model.
        lent = copy.deepcopy(output) if isinstance(output, (dict, list)) else output
        made = await _run(hook, lent, ctx)
        pushes = [checked_push(one) for one in _each(made)]  # all are judged before the first is shown
        collector = getattr(ctx.emit_ui, "__self__", None)
        if isinstance(collector, UiCollector):
            for push in pushes:
                collector.judge(push)
        for push in pushes:
            ctx.emit_ui(push.component, push.props, version=push.version, fallback_text=push.fallback_text)
    except Exception as exc:  # noqa: BLE001  # the author's own code
        await _report(entry.spec.name, exc, ctx)


def _each(made: Any) -> Sequence[Any]:
    if made is None:
        return []
    return made if isinstance(made, (list, tuple)) else [made]


async def _report(name: str, exc: Exception, ctx: ToolContext) -> None:
    if ctx.on_presentation_error is not None:
        try:
            await settled(ctx.on_presentation_error(exc, {"toolName": name}))
        except Exception:  # noqa: BLE001  # a broken reporter is no reason to fail either
            _LOG.warning("What was told of the presentation of %r could not be heard.", name, exc_info=True)
        return
    _LOG.warning("The result of %r could not be shown: %s", name, exc)
