"""What is said of a tool, judged where it is made, and again where it is registered."""

from __future__ import annotations

from collections.abc import Mapping

from loomnb.agents.input_schemas import InputSchema
from loomnb.agents.spi import ToolSpec
from loomnb.agents.words import check_text, check_texts
from loomnb.errors import DefinitionError, NotJson
from loomnb.jsonvalue import freeze
from loomnb.tools import check_name

__all__ = ["checked_tool"]

_AUTHORED = ("read", "action", "agent")


def checked_tool(spec: object, handler: object) -> InputSchema:
    """What judges the input of a tool that can work.

    Raises:
        DefinitionError: no model can say its name, its kind is unknown, its handler executes nothing, its schema can judge
            nothing, or another field of it is none.
    """
    if not isinstance(spec, ToolSpec):
        raise DefinitionError(f"{spec!r:.60} declares no tool.", advice='Give loom.ToolSpec(name="…", description="…").')
    name = check_name(spec.name, "An agent's tool")
    if spec.kind not in _AUTHORED:
        raise DefinitionError(
            f"The tool {name!r} is of the kind {spec.kind!r}.",
            advice=f"One of: {', '.join(_AUTHORED)}; the others are the loop's own.",
        )
    if not callable(getattr(handler, "execute", None)):
        raise DefinitionError(f"The tool {name!r} does nothing.", advice="Give its handler `execute(input, ctx)`.")
    _check_fields(spec)
    return InputSchema(spec.input_schema, f"The tool {name!r}")


def _check_fields(spec: ToolSpec) -> None:
    """Refuse a field that would only be noticed when a model is told of it, or a person.

    Raises:
        DefinitionError: one is none.
    """
    whose = f"of the tool {spec.name!r}"
    check_text(f"description= {whose}", spec.description)
    check_text(f"ability= {whose}", spec.ability)
    check_text(f"target_agent= {whose}", spec.target_agent)
    check_texts(f"roles= {whose}", spec.roles, advice=f"Write roles=[{spec.roles!r}]." if isinstance(spec.roles, str) else "")
    for what in ("detached", "terminal"):
        if not isinstance(getattr(spec, what), bool):
            raise DefinitionError(f"{what}= {whose} is True or False, not {getattr(spec, what)!r:.60}.")
    if not isinstance(spec.enabled, bool) and not callable(spec.enabled):
        raise DefinitionError(f"enabled= {whose} is True, False or a function, not {spec.enabled!r:.60}.")
    if not callable(spec.replacement_key):
        check_text(f"replacement_key= {whose}", spec.replacement_key)
    if spec.presentation is not None and not isinstance(spec.presentation, Mapping):
        raise DefinitionError(
            f"presentation= {whose} is a mapping, not {spec.presentation!r:.60}.", advice='Write presentation={"label": "…"}.'
        )
    try:
        freeze(None if spec.presentation is None else dict(spec.presentation), None, "presentation")
    except NotJson as exc:
        raise DefinitionError(f"presentation= {whose} is no JSON: {exc.message}", advice=exc.advice) from exc
