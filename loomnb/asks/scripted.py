"""Answers as data: what `loom.answers(...)` and an answers file hold, and which ask takes which of them.

Shape: definition name (or "*"; questions asked in a cell are under "ask") → question id, wait transition, or a
confirmation's key (else "confirm") → what `run.answer` takes. A list is one answer per time it is asked, so a payload that
is itself a list goes inside one. A null skips: a question is skipped, any other ask is left open for a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loomnb.asks.model import Ask
from loomnb.errors import ArgsInvalid

__all__ = ["NOTHING", "Script", "read_answers"]

NOTHING: Any = type("NOTHING", (), {"__repr__": lambda _: "NOTHING"})()
"""No scripted answer for this ask."""


class Script:
    """A mapping of answers and how often each was used.

    Raises:
        ArgsInvalid: the shape is wrong.
    """

    def __init__(self, mapping: Mapping[str, Any], source: str) -> None:
        if not isinstance(mapping, Mapping):
            raise ArgsInvalid(f"{source} takes a mapping, not a {type(mapping).__name__}.", advice="None clears the answers.")
        for name, entries in mapping.items():
            if not isinstance(name, str) or not isinstance(entries, Mapping):
                raise ArgsInvalid(
                    f"{source}: {name!r} must map names of questions or wait transitions to answers.",
                    advice='The shape is {"ask": {"env": "staging"}, "meeting_notes": {"approve": {"ok": True}}}.',
                )
        self._mapping = {name: dict(entries) for name, entries in mapping.items()}
        self._used: dict[tuple[str, str], int] = {}
        self._skipped: set[str] = set()
        self.source = source

    def _look(self, definition: str, key: str) -> tuple[Any, tuple[str, str] | None]:
        """The next answer under a key, or NOTHING; and what to count when it is used."""
        for name in (definition, "*"):
            entries = self._mapping.get(name, {})
            if key in entries:
                value = entries[key]
                if not isinstance(value, list):
                    return value, None
                used = self._used.get((name, key), 0)
                if used < len(value):
                    return value[used], (name, key)
        return NOTHING, None

    def payload(self, definition: str, ask: Ask) -> Any:
        """What `run.answer` is given for this ask, or NOTHING. An ask uses up its answers once, however often it is looked at."""
        if ask.id in self._skipped:
            return NOTHING
        keys = self._keys(ask)
        found = {key: self._look(definition, key) for key in keys}
        if any(value is NOTHING for value, _ in found.values()):
            return NOTHING
        for _, count in found.values():
            if count is not None:
                self._used[count] = self._used.get(count, 0) + 1
        if ask.kind == "questions":
            return {key: value for key, (value, _) in found.items()}
        value = found[keys[0]][0]
        if value is None:  # skipped this time: the ask stays open for a person
            self._skipped.add(ask.id)
            return NOTHING
        return value

    def missing(self, definition: str, ask: Ask) -> str:
        """The key an answer is missing under; the ask's first where none is."""
        keys = self._keys(ask)
        return next((key for key in keys if self._look(definition, key)[0] is NOTHING), keys[0])

    @staticmethod
    def _keys(ask: Ask) -> list[str]:
        return [q.id for q in ask.questions] if ask.kind == "questions" else [Script.key_of(ask)]

    @staticmethod
    def key_of(ask: Ask) -> str:
        """The key this ask is answered by; the first question's id for several."""
        if ask.kind == "questions":
            return ask.questions[0].id
        if ask.kind == "confirm":
            return ask.key or "confirm"
        return ask.name


def read_answers(path: Path) -> Script:
    """The script of a YAML file.

    Raises:
        ArgsInvalid: the file is missing, is no YAML, or has another shape.
    """
    import yaml  # noqa: PLC0415  # heavy for what most sessions never use

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ArgsInvalid(f"The answers file {path} cannot be read: {exc.strerror}.", advice="Check LOOMNB_ANSWERS.") from exc
    except yaml.YAMLError as exc:
        raise ArgsInvalid(f"The answers file {path} is no YAML: {exc}") from exc
    if not isinstance(data, Mapping):
        raise ArgsInvalid(f"The answers file {path} must hold a mapping.", advice="See loom.answers for its shape.")
    return Script(data, source=path.name)
