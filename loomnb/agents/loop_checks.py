"""What a turn may be given: judged before its first checkpoint, since nothing of it is stored by then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from loomnb.agents.amounts import is_amount
from loomnb.agents.spi import Actor, AgentTurnInput, LoopHooks, Persona, optional
from loomnb.agents.structured import output_json_schema
from loomnb.agents.words import check_text, check_texts
from loomnb.errors import DefinitionError, InvalidRequest

__all__ = ["check_budget", "check_deps", "check_given"]

_NEEDED = {
    "store": "append_message",
    "registry": "definitions_for",
    "roles_policy": "can",
    "approval_policy": "requirement_for",
}
_OPTIONAL: Mapping[str, str | tuple[str, ...]] = {
    "retriever": "retrieve",
    "pricing_store": "list_current_prices",
    "history_policy": "select",
    "quota": ("check", "report"),
}
_LISTS = ("prompt_contributors", "input_processors", "output_processors", "personas", "prices")
_WORDS = ("thread_id", "user_text", "day", "agent_name", "persona", "sink_run_id", "parent_run_id", "model")


def check_deps(deps: Any) -> None:
    """Refuse what a turn cannot work with.

    Raises:
        DefinitionError: something lacks the method it is called by, or is of another shape.
    """
    for what, methods in {**_NEEDED, **_OPTIONAL}.items():
        given = getattr(deps, what)
        each = (methods,) if isinstance(methods, str) else methods
        if (given is not None or what in _NEEDED) and not any(_has(given, method) for method in each):
            lacks = " or ".join(f"`{method}`" for method in each)
            raise DefinitionError(f"{what} has no method {lacks}: {given!r:.60}.", advice=f"Give {what} an object that has it.")
    if not callable(deps.system_prompt):
        check_text("system_prompt", "" if deps.system_prompt is None else deps.system_prompt)
    for what in ("day", "model_id", "output_instruction"):
        check_text(what, getattr(deps, what))
    for what in _LISTS:
        given = getattr(deps, what)
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            raise DefinitionError(f"{what} is a list, not {given!r:.60}.", advice=f"Give {what} a list or a tuple.")
    _check_members(deps)
    if deps.output_schema is not None:
        output_json_schema(deps.output_schema)  # before a call of the model is paid for
    check_texts("tool_allow_list", deps.tool_allow_list)
    for what in ("tool_timeouts", "model_settings"):
        if not isinstance(getattr(deps, what), Mapping):
            raise DefinitionError(f"{what} is a mapping, not {getattr(deps, what)!r:.60}.", advice=f"Give {what} a dict.")
    for what, value in {"tool_timeout_ms": deps.tool_timeout_ms, **deps.tool_timeouts}.items():
        if value is not None and not _is_number(value):
            raise DefinitionError(f"The time-out {what} is {value!r:.60}.", advice="Give milliseconds from 0 up, or None.")


def _check_members(deps: Any) -> None:
    for one in deps.prompt_contributors:
        if not callable(one):
            raise DefinitionError(f"A prompt contributor is a function, not {one!r:.60}.", advice="Give `lambda ctx: …`.")
    for one in deps.personas:
        if not isinstance(one, Persona):
            raise DefinitionError(f"This is no persona: {one!r:.60}.", advice='Give Persona(id="tutor").')


def check_budget(budget: Any) -> None:
    """Refuse a budget that nothing could be compared with.

    Raises:
        DefinitionError: a limit is no number from 0 up.
    """
    for what in ("usd", "tokens"):
        value = getattr(budget, what)
        if value is not None and not _is_number(value):
            raise DefinitionError(
                f"The budget {what}={value!r:.60} is no number from 0 up.",
                advice=f"Write loom.Budget({what}=…), or None for no limit.",
            )


def check_given(given: Any, deps: Any, hooks: LoopHooks) -> None:
    """Refuse a turn that is about nothing.

    Raises:
        InvalidRequest: a field is of another shape, or a text cannot be stored.
        DefinitionError: the model cannot be asked.
    """
    if optional(hooks, "dispatch_llm") is None and not callable(getattr(deps.model, "run_turn", None)):
        raise DefinitionError(f"A {type(deps.model).__name__} is no model.", advice="Give an object with `run_turn(request)`.")
    if not isinstance(given, AgentTurnInput):
        raise InvalidRequest(
            f"A turn is about an AgentTurnInput, not {given!r:.60}.", advice="Give AgentTurnInput(thread_id=…, …)."
        )
    if not isinstance(given.actor, Actor):
        raise InvalidRequest(f"Nobody acts: actor={given.actor!r:.60}.", advice='Give Actor(id="ana").')
    check_text("The id of an actor", given.actor.id, error=InvalidRequest)
    for what in _WORDS:
        check_text(what, getattr(given, what), error=InvalidRequest)
    if given.attachments is not None and (
        isinstance(given.attachments, (str, bytes)) or not all(isinstance(one, Mapping) for one in _listed(given.attachments))
    ):
        raise InvalidRequest(
            f"attachments={given.attachments!r:.60} is no list of attachments.", advice="Give a list of mappings."
        )
    for what in ("ui_capabilities", "deliver_to"):
        value = getattr(given, what)
        if value is not None and not isinstance(value, Mapping):
            raise InvalidRequest(f"{what}={value!r:.60} is no mapping.", advice=f"Give {what} a dict, or None.")
    if isinstance(given.delegation_depth, bool) or not isinstance(given.delegation_depth, int) or given.delegation_depth < 0:
        raise InvalidRequest(f"delegation_depth={given.delegation_depth!r:.60} is no whole number from 0 up.")
    check_texts("delegation_path", given.delegation_path, error=InvalidRequest)


def _has(given: object, method: str) -> bool:
    """Whether it has a method. What answers for its attributes itself is not asked: nothing is touched before it is needed."""
    return hasattr(type(given), "__getattr__") or callable(getattr(given, method, None))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) else [None]


def _is_number(value: Any) -> bool:
    return is_amount(value) or (isinstance(value, float) and value == math.inf)
