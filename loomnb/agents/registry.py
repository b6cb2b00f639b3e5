"""The tools of an agent: which are offered to whom, and what a call goes through. Rules: contracts/agents.md §1.6.

An offer and a call are judged alike, so that a tool that was not offered is not run because a model names it all the same. All of
it is judged again at the call: what was offered may have changed since.

Trusted calls. What a person approved has to be what runs. `prepare_validated(..., snapshot_input=True)` gives JSON of the parsed
input that nobody else holds; `invoke(..., approved_input=that)` parses the input again and refuses (ToolInputDriftError) when it
is not the same any more: a default or a transform of the schema changed, or a hook changed its copy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from loomnb.agents.control_flow import is_not_a_failure
from loomnb.agents.input_schemas import InputSchema
from loomnb.agents.spi import Actor, Preflight, RolesPolicy, ToolContext, ToolHandler, ToolKind, ToolScope, ToolSpec, settled
from loomnb.agents.tool_checks import checked_tool
from loomnb.agents.tool_errors import ToolDisabledError, ToolForbiddenError, ToolNotFoundError, ToolPreflightDeniedError
from loomnb.agents.tool_steps import (
    Entry,
    check_approved,
    described,
    executed,
    guarded_preflight,
    is_enabled,
    json_input,
    may_use,
    own_copy,
    parsed_input,
    preflight_of,
    scope_of,
    show,
)
from loomnb.jsonvalue import thaw
from loomnb.runtime import ModelTool

__all__ = ["NOT_GIVEN", "NotGiven", "OfferedTools", "PreparedCall", "ToolRegistry"]


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


class ToolRegistry:
    """The tools of an agent, or of several, by name.

    A handler's `execute`, `preflight` and `present` run on a worker thread when they are plain functions (in a copy of the
    caller's context), so that none of them stops the loop; async ones are awaited.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    # -- what is there ---------------------------------------------------------------------------

    def register(self, spec: ToolSpec, handler: ToolHandler) -> None:
        """Make a tool known. One of the same name is replaced, and keeps its place.

        Raises:
            DefinitionError: no model can say its name, its kind is unknown, its handler executes nothing, its schema can judge
                nothing, or another field of it is none.
        """
        self._entries[spec.name] = Entry(spec, handler, checked_tool(spec, handler))

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
        return [entry.spec for entry in entries if await is_enabled(entry) and await may_use(entry, actor, policy)]

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
            if not await is_enabled(entry) or not await may_use(entry, actor, policy):
                continue
            said = await described(entry, scope)
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
            parsed = await parsed_input(entry, input)
            return PreparedCall(input=parsed, preflight=await preflight_of(entry, parsed, ctx, "prepare"))
        parsed = await parsed_input(entry, own_copy(entry, input))
        snapshot = thaw(json_input(entry, parsed))
        return PreparedCall(input=snapshot, preflight=await guarded_preflight(entry, parsed, ctx, "prepare"))

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
        """Judge a call and make it: an action's preflight, what the tool does inside the interceptors, and how it shows that.

        Args:
            name: the tool.
            input: its arguments, as the model said them.
            ctx: of the call.
            policy: who may use what.
            allowed_tools: names that may be used here; None is all.
            approved_input: what was approved (see `prepare_validated`). Given at all, also as None,
                the parsed input has to be it.

        Returns:
            What the tool gave, untouched (of an envelope its data); of a preflight that is `completed`, its output.

        Raises:
            ToolNotFoundError, ToolDisabledError, ToolForbiddenError: it may not be called, in the contract's order.
            ToolInputInvalidError: the input does not fit.
            ToolInputDriftError: it is not what was approved. Nothing ran.
            ToolPreflightDeniedError: the tool refuses; its reason is the message. Nothing ran.
            ToolFailed: the tool gave an envelope with an error.
            Exception: what the tool or an interceptor raised.
        """
        entry = await self._admitted(name, ctx, policy, allowed_tools)
        if isinstance(approved_input, NotGiven):
            parsed = await parsed_input(entry, input)
            preflight = await preflight_of(entry, parsed, ctx, "execute")
        else:
            parsed = await parsed_input(entry, own_copy(entry, input))
            check_approved(entry, parsed, approved_input)
            preflight = await guarded_preflight(entry, parsed, ctx, "execute")
        if preflight.status == "denied":
            raise ToolPreflightDeniedError(name, preflight.reason)
        if preflight.status == "completed":
            output = preflight.output
        else:
            seen = parsed if isinstance(approved_input, NotGiven) else own_copy(entry, parsed)
            output = await executed(entry, parsed, seen, ctx)
        await show(entry, output, ctx)
        return output

    async def check_admission(
        self, name: str, ctx: ToolContext, policy: RolesPolicy, *, allowed_tools: Collection[str] | None = None
    ) -> None:
        """Whether a tool may be called at all, whatever with. Nothing of it runs.

        Raises:
            ToolNotFoundError, ToolDisabledError, ToolForbiddenError: it may not, in the contract's order.
        """
        await self._admitted(name, ctx, policy, allowed_tools)

    async def _admitted(self, name: str, ctx: ToolContext, policy: RolesPolicy, allowed_tools: Collection[str] | None) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise ToolNotFoundError(name)
        if not await is_enabled(entry):
            raise ToolDisabledError(name)
        if not await may_use(entry, ctx.actor, policy):
            raise ToolForbiddenError(name)
        if allowed_tools is not None and name not in allowed_tools:
            raise ToolForbiddenError(name)
        if await described(entry, scope_of(ctx)) is None:
            raise ToolNotFoundError(name)
        return entry

    # -- how it shows ----------------------------------------------------------------------------

    def has_presentation(self, name: str) -> bool:
        """Whether a tool shows its result as components."""
        entry = self._entries.get(name)
        return entry is not None and entry.hook("present") is not None

    async def present_result(self, name: str, output: Any, ctx: ToolContext) -> None:
        """Show a result that was had without `invoke`: of a preflight that completed the call. What goes wrong
        is reported, as there; only a signal of the runner comes through."""
        entry = self._entries.get(name)
        if entry is not None:
            await show(entry, output, ctx)

    async def preview_input(self, name: str, scope: ToolScope) -> Any:
        """An input to try the tool with; None where it has none, or fails to say it."""
        entry = self._entries.get(name)
        hook = entry.hook("preview_input") if entry is not None else None
        if hook is None:
            return None
        try:
            return await settled(hook(scope))
        except Exception as error:
            if is_not_a_failure(error):
                raise
            return None  # a preview is a kindness: without it there is none
