"""The access of an agent step out of an adapter's context: checked to be one, and never used. Rules: blueprints.md §1.11."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any, cast

from loomnb.blueprints.access import AbortSignal, AgentExecutionAccess
from loomnb.errors import StepError

__all__ = ["agent_execution_context_key", "get_agent_execution_access"]

agent_execution_context_key = "intloom.execution"
"""The key under which an adapter's context holds the access of the agent step."""

_STATE = ("create", "update", "clear")
_STORAGE = (
    *("get_artifact", "get_artifact_by_id", "get_latest_record", "get_record_by_id"),
    *("list_artifacts", "list_records"),
)
_PROJECT = ("snapshot", "read", "write", "remove", "run")
_NOTHING = object()


class _Unfit(Exception):
    """What is wrong with a binding."""


def get_agent_execution_access(context: Any) -> AgentExecutionAccess:
    """The access of an agent step out of an adapter's context: what `context.get("intloom.execution")` gives, checked.

    No capability of it is called, and its State is not read.

    Raises:
        StepError: it is none (STEP_EXECUTION_FAILED); what was raised meanwhile is the cause.
    """
    try:
        binding = context.get(agent_execution_context_key)
        _check(binding)
    except _Unfit as exc:
        raise StepError(
            f"The access under {agent_execution_context_key!r} {exc}.", advice="Hand on the very access a tool was given."
        ) from None
    except Exception as exc:
        raise StepError(
            f"The access under {agent_execution_context_key!r} cannot be looked at: {type(exc).__name__}.", cause=exc
        ) from exc
    return cast("AgentExecutionAccess", binding)


def _check(binding: Any) -> None:
    if not _is_object(binding):
        raise _Unfit("is missing, or is no object")
    state = _need(binding, "state", _STATE)
    if not _is_there(state, "value"):
        raise _Unfit("has a state without `value`")
    if _may_have(_need(binding, "storage", _STORAGE), "commit"):
        raise _Unfit("has a storage that can commit: an agent's may only read")
    if _may_have(binding, "interaction"):
        raise _Unfit("has an interaction: an agent cannot ask in the middle of its step")
    if not issubclass(type(_read(binding, "signal")), AbortSignal):  # by its type: __class__ may say anything
        raise _Unfit("has no signal")
    if _may_have(binding, "project"):
        _need(binding, "project", _PROJECT)


def _need(binding: Any, name: str, methods: Sequence[str]) -> Any:
    owner = _read(binding, name)
    if not _is_object(owner):
        raise _Unfit(f"has no {name}")
    for method in methods:
        if not callable(_read(owner, method)):
            raise _Unfit(f"has a {name} without `{method}`")
    return owner


def _is_object(value: Any) -> bool:
    return value is not None and not issubclass(type(value), (str, bytes, bytearray, int, float, complex, Sequence))


def _read(owner: Any, name: str) -> Any:
    """A member; `_NOTHING` when there is none. What it raises on the way is whoever's owner it is, and told as the cause."""
    if issubclass(type(owner), Mapping) and name in owner:
        return owner[name]
    return getattr(owner, name) if _is_there(owner, name) else getattr(owner, name, _NOTHING)


def _is_there(owner: Any, name: str) -> bool:
    """Whether it has a member, its own or inherited, told without running anything of it."""
    if issubclass(type(owner), Mapping) and name in owner:
        return True
    found = inspect.getattr_static(owner, name, _NOTHING)
    if isinstance(found, types.MemberDescriptorType):  # a slot, which may be empty; reading it runs nothing
        try:
            found.__get__(owner, type(owner))
        except AttributeError:
            return False
    return found is not _NOTHING


def _may_have(owner: Any, name: str) -> bool:
    """Whether it has a member, or its `__getattr__` would give one."""
    return _is_there(owner, name) or getattr(owner, name, _NOTHING) is not _NOTHING
