"""Who may use which tool: policies over the roles that a tool names.

A tool that asks for an `ability` and names no roles is refused by these policies, whatever they say of empty lists: they know
nothing of abilities, and a right nobody judges must not be open (contracts/decisions.md, Agents 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from loomnb.agents.spi import Actor, RolesPolicy, ToolSpec, settled
from loomnb.agents.words import check_texts
from loomnb.errors import DefinitionError

__all__ = ["ClosedRolesPolicy", "DefaultRolesPolicy", "close_empty_roles"]


class DefaultRolesPolicy:
    """Whoever has one of a tool's roles may use it. A tool without roles has the default ones; without any it is open.

    Args:
        default_roles: of tools that name none (`roles=None`; an empty list of their own stays empty).
        empty_roles: what an empty list means: `allow` everybody, or `deny`.

    Raises:
        DefinitionError: `empty_roles` is neither, or the roles are one text.
    """

    def __init__(self, default_roles: Sequence[str] = (), *, empty_roles: Literal["allow", "deny"] = "allow") -> None:
        if empty_roles not in ("allow", "deny"):
            raise DefinitionError(f"empty_roles={empty_roles!r} is not known.", advice="One of: allow, deny.")
        if isinstance(default_roles, str):
            raise DefinitionError(f"default_roles is a list of roles, not the text {default_roles!r}.", advice='Write ["admin"].')
        check_texts("default_roles", default_roles, advice='Write ["admin"].')
        self._default = tuple(default_roles or ())
        self._opens_empty = empty_roles == "allow"

    def can(self, actor: Actor, tool: ToolSpec) -> bool:
        """Whether this actor may use this tool."""
        if tool.ability and not tool.roles:
            return False
        roles = self._default if tool.roles is None else tool.roles
        return bool(set(roles) & set(actor.roles or ())) if roles else self._opens_empty


class ClosedRolesPolicy(DefaultRolesPolicy):
    """The same, but a tool without any role is refused to everybody.

    Args:
        default_roles: of tools that name none.
    """

    def __init__(self, default_roles: Sequence[str] = ()) -> None:
        super().__init__(default_roles, empty_roles="deny")


class _Closed:
    def __init__(self, policy: RolesPolicy) -> None:
        self._policy = policy

    async def can(self, actor: Actor, tool: ToolSpec) -> bool:
        return bool(tool.roles) and bool(await settled(self._policy.can(actor, tool)))


def close_empty_roles(policy: RolesPolicy) -> RolesPolicy:
    """A policy that refuses every tool which names no roles itself, and asks the given one about the others."""
    return _Closed(policy)
