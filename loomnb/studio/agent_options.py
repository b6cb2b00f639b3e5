"""What the options of an agent may be: judged when it is made, before anything of it is known or stored.

Without that, a mistake would be noticed in the middle of a turn, or with an error of Python's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from loomnb.agents import Actor, Budget, Persona, check_text, check_texts
from loomnb.errors import DefinitionError

__all__ = ["check_options"]

_MOST_SECONDS = 10 * 365 * 24 * 3600

_HANDS = {
    "history": ("select", "Write history=loom.window_history(max_messages=20), or summarizing_history(…)."),
    "quota": ("check report", "Write quota=[loom.QuotaWindow(period='day', limit_tokens=100_000)]."),
    "retriever": ("retrieve", "Give an object with `retrieve(query, top_k=…)`."),
    "roles_policy": ("can", "Give an object with `can(actor, tool)`, such as loom.DefaultRolesPolicy(…)."),
}
_LISTS = {
    "tools": "Write tools=[add, send_mail].",
    "personas": 'Write personas=[loom.Persona(id="tutor", system_prompt="…")].',
    "input_processors": "Write input_processors=[…], each with a name and `process(prompt, ctx)`.",
    "output_processors": "Write output_processors=[…], each with a name and `process(answer, ctx)`.",
}
_MAPPINGS = {
    "approvals": 'Write approvals={"send_mail": "auto"}.',
    "models": 'Write models={"fast": "openai:…"}.',
    "tool_timeouts": 'Write tool_timeouts={"search": 30}.',
    "settings": 'Write settings={"temperature": 0}.',
}


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse what cannot work.

    Args:
        name: the agent's.
        options: those of `Agent` by their names.

    Raises:
        DefinitionError: one is none.
    """
    whose = f"the agent {name!r}"
    for what in ("title", "description", "default_persona"):
        check_text(f"{what}= of {whose}", options[what])
    if not isinstance(options["instructions"], str) and not callable(options["instructions"]):
        raise DefinitionError(
            f"instructions= of {whose} is a text or a function, not {options['instructions']!r:.60}.",
            advice='Write instructions="Answer in one sentence.".',
        )
    if isinstance(options["instructions"], str):
        check_text(f"instructions= of {whose}", options["instructions"])
    _check_actor(whose, options["actor"])
    _check_shapes(whose, options)
    if not isinstance(options["ask"], bool):
        raise DefinitionError(f"ask= of {whose} is True or False, not {options['ask']!r:.60}.")
    if options["budget"] is not None and not isinstance(options["budget"], Budget):
        raise DefinitionError(
            f"budget= of {whose} is {options['budget']!r:.60}.",
            advice="Write budget=loom.Budget(usd=0.5) or (tokens=20_000).",
        )
    for what in ("max_steps", "repeat_guard"):
        value = options[what]
        if value is None and what == "repeat_guard":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DefinitionError(f"{what}={value!r:.60} of {whose} is no whole number from 1 on.")
    for what in ("approval_ttl", "tool_timeout"):
        _check_seconds(what, options[what])
    for tool, value in (options["tool_timeouts"] or {}).items():
        _check_seconds(f"tool_timeouts[{tool!r}]", value)


def _check_actor(whose: str, actor: object) -> None:
    advice = 'Write actor="ana", or loom.Actor(id="ana", roles=("admin",)).'
    if isinstance(actor, str):
        actor = Actor(id=actor)
    if not isinstance(actor, Actor):
        raise DefinitionError(f"actor= of {whose} is nobody: {actor!r:.60}.", advice=advice)
    if not isinstance(actor.id, str) or not actor.id.strip():
        raise DefinitionError(f"actor= of {whose} has no id: {actor!r:.60}.", advice=advice)
    check_text(f"actor= of {whose}", actor.id)
    check_text(f"The tenant of the actor of {whose}", actor.tenant_ref)
    check_texts(f"roles of the actor of {whose}", actor.roles, advice=advice)


def _check_shapes(whose: str, options: Mapping[str, Any]) -> None:
    for what, advice in _LISTS.items():
        given = options[what]
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            raise DefinitionError(f"{what}= of {whose} is a list, not {given!r:.60}.", advice=advice)
        for one in given if what.endswith("processors") else ():
            _check_hand(f"One of {what}= of {whose}", one, "process", advice)
    for one in options["personas"]:
        _check_persona(whose, one)
    for what, advice in _MAPPINGS.items():
        given = options[what]
        if given is not None and not isinstance(given, Mapping):
            raise DefinitionError(f"{what}= of {whose} is a mapping, not {given!r:.60}.", advice=advice)
        check_texts(f"names in {what}= of {whose}", list(given or ()), advice=advice)
    for what, (method, advice) in _HANDS.items():
        if options[what] is not None and not (what == "quota" and isinstance(options[what], (list, tuple))):
            _check_hand(f"{what}= of {whose}", options[what], method, advice)


def _check_hand(what: str, given: object, methods: str, advice: str) -> None:
    each = methods.split()
    if inspect.isclass(given) or not any(callable(getattr(given, method, None)) for method in each):
        lacks = " or ".join(f"`{method}`" for method in each)
        raise DefinitionError(f"{what} has no method {lacks}: {given!r:.60}.", advice=advice)


def _check_persona(whose: str, one: object) -> None:
    if not isinstance(one, Persona):
        raise DefinitionError(f"personas= of {whose} has one that is none: {one!r:.60}.", advice=_LISTS["personas"])
    for what in ("id", "label", "description"):
        check_text(f"{what}= of a persona of {whose}", getattr(one, what))
    if not isinstance(one.id, str) or not one.id.strip():
        raise DefinitionError(f"A persona of {whose} has no id.", advice=_LISTS["personas"])
    if not callable(one.system_prompt):
        check_text(f"system_prompt= of the persona {one.id!r}", one.system_prompt)
    check_texts(f"allowed_tools= of the persona {one.id!r}", one.allowed_tools)
    check_texts(f"aliases= of the persona {one.id!r}", one.aliases)


def _check_seconds(what: str, value: object) -> None:
    """Refuse a time that is none.

    Raises:
        DefinitionError: it is no finite number above 0.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < _MOST_SECONDS:
        raise DefinitionError(
            f"{what}={value!r:.60} is no number of seconds.", advice="Give a number above 0, or None for no limit."
        )
