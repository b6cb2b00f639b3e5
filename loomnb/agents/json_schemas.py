"""A JSON Schema that an author wrote by hand, of an output or of a tool's input, judged as a whole before anything is asked of a
model.

The library jsonschema notices a reference into nowhere, or a pattern that is none, only when a value is looked at: after the
call of the model was paid for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from loomnb.errors import DefinitionError, NotJson
from loomnb.jsonvalue import freeze, thaw

__all__ = ["validator_of", "with_patterns_of_python"]

_VALUES = ("const", "default", "enum", "example", "examples")
"""What stands there is no schema, whatever it looks like."""
_NAMED = ("$defs", "definitions", "dependentSchemas", "dependencies", "patternProperties", "properties")
"""Schemas by names of the author's, which are no keywords."""


def validator_of(schema: Mapping[str, Any], owner: str = "This JSON Schema", *, is_newer: bool = False) -> Any:
    """What judges values by a schema; nothing is ever fetched.

    Args:
        schema: as the author wrote it. Without `$schema` it is of draft 7.
        owner: whose it is, for messages.
        is_newer: whether one without `$schema` is of draft 2020-12 where it can be: who names no dialect mostly writes what both
            say, but `items` as a list is draft 7's, and refused by the newer one.

    Raises:
        DefinitionError: it is none; the message says where.
    """
    try:
        from jsonschema import Draft7Validator, Draft202012Validator  # noqa: PLC0415  # 60 ms, for such schemas only
        from jsonschema.exceptions import SchemaError  # noqa: PLC0415
        from jsonschema.validators import validator_for  # noqa: PLC0415
        from jsonschema_specifications import REGISTRY  # noqa: PLC0415
    except ImportError as error:
        raise DefinitionError(
            "A JSON Schema is judged by the library jsonschema, which is not installed.",
            advice="Install jsonschema, or give a pydantic type.",
            cause=error,
        ) from error
    advice = "Correct it, or give a pydantic model."
    try:
        plain = thaw(freeze(dict(schema), None, "$"))
    except NotJson as error:
        raise DefinitionError(f"{owner} is broken: {error.message}", advice=advice, cause=error) from error
    kind = validator_for(plain, default=Draft7Validator)
    if is_newer and "$schema" not in plain and Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(plain):
        kind = Draft202012Validator
    try:
        kind.check_schema(plain)
    except SchemaError as error:
        where = _where(error.absolute_path)
        raise DefinitionError(f"{owner} is broken at {where}: {error.message}", advice=advice, cause=error) from error
    _check_parts(plain, kind, owner)
    # With a registry of its own it never fetches what a reference names.
    return kind(plain, registry=REGISTRY)


def with_patterns_of_python(schema: Any) -> Any:
    """A copy without the patterns that are none of Python's: a server's are JavaScript's, and it judges by them itself.

    Raises:
        NotJson: it is no JSON, or nested too deep.
    """
    return _without_foreign(thaw(freeze(schema)))


def _without_foreign(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_foreign(one) for one in node]
    if not isinstance(node, dict):
        return node
    out = {name: one if name in _VALUES else _without_foreign(one) for name, one in node.items()}
    if isinstance(out.get("pattern"), str) and _problem_of(out["pattern"]):
        del out["pattern"]
    if isinstance(out.get("patternProperties"), dict):
        out["patternProperties"] = {name: one for name, one in out["patternProperties"].items() if not _problem_of(name)}
    return out


def _check_parts(plain: Mapping[str, Any], kind: Any, owner: str) -> None:
    resolves = _resolver_of(plain, kind)
    for path, part in _parts(plain, ()):
        for name, pattern in [("pattern", part.get("pattern")), *_names(part.get("patternProperties"))]:
            problem = _problem_of(pattern) if isinstance(pattern, str) else ""
            if problem:
                raise DefinitionError(
                    f"{owner} is broken at {_where((*path, name))}: {pattern!r:.60} is no regular expression: {problem}",
                    advice="Correct the pattern: it is one of Python's.",
                )
        for name in ("$ref", "$dynamicRef"):
            reference = part.get(name)
            if isinstance(reference, str) and not resolves(reference):
                raise DefinitionError(
                    f"{owner} is broken at {_where((*path, name))}: {reference!r:.100} leads nowhere.",
                    advice="Point into the schema itself (#/$defs/…); references to the net are not followed.",
                )


def _problem_of(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error) or type(error).__name__
    return ""


def _resolver_of(plain: Mapping[str, Any], kind: Any) -> Callable[[str], bool]:
    """Whether a reference leads somewhere. Where a part has an address of its own, that is not judged here."""
    from jsonschema_specifications import REGISTRY  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415
    from referencing.jsonschema import DRAFT202012, specification_with  # noqa: PLC0415

    if any(path and isinstance(part.get("$id"), str) for path, part in _parts(plain, ())):
        return lambda _: True
    dialect = plain.get("$schema") or kind.META_SCHEMA.get("$schema", "")
    root: Any = specification_with(str(dialect), default=DRAFT202012).create_resource(plain)
    address = root.id() or ""
    resolver = REGISTRY.with_resource(address, root).resolver(address)

    def resolves(reference: str) -> bool:
        try:
            resolver.lookup(reference)
        except (Unresolvable, LookupError, ValueError):
            return False
        return True

    return resolves


def _names(value: Any) -> list[tuple[str, Any]]:
    return [("patternProperties", name) for name in value] if isinstance(value, Mapping) else []


def _parts(value: Any, path: tuple[Any, ...], *, is_named: bool = False) -> Iterator[tuple[tuple[Any, ...], Mapping[str, Any]]]:
    """Every schema within a schema, and where it stands."""
    if isinstance(value, Mapping):
        if not is_named:
            yield path, value
        for name, one in value.items():
            if is_named or name not in _VALUES:
                yield from _parts(one, (*path, name), is_named=not is_named and name in _NAMED)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _parts(one, (*path, number))


def _where(path: Any) -> str:
    """A place in a schema, as a person reads it: `$.properties.size.type`."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
