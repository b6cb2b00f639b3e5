"""YAML as the contract reads it, each part with its place: version 1.2 with the core schema, one document, strict.

Read from PyYAML's events and not its nodes: those tell an explicit tag from a guessed one, and its own guesses are those of
YAML 1.1, for which the key `on` is true and `2026-10-08` a date. What is refused: anchors and aliases, tags of one's own, keys
that are no text, stand twice or are reserved, a second document, and deep nesting. Rules: contracts/blueprints.md §3.1, §3.3.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from loomnb.blueprints.diagnostics import Findings, Place, listed, meant, one_line, short

__all__ = ["HOLE", "RESERVED", "Fields", "Node", "Reader", "parse_yaml", "read_text"]

RESERVED = ("__proto__", "prototype", "constructor")
_DEEPEST = 50
_CORE = "tag:yaml.org,2002:"
_NULL = re.compile(r"(?:null|Null|NULL|~)?")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class _Hole:
    def __repr__(self) -> str:
        return "nothing readable"


HOLE: Any = _Hole()
"""The value of what was refused already: nothing more is said about it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a document: a mapping or list of nodes, a text, a number, a bool or None.

    Attributes:
        at: where it stands.
        key_at: where its key stands; for what has none, the same.
    """

    value: Any
    at: Place
    key_at: Place

    @property
    def shown(self) -> str:
        """What stands there, as a message quotes it."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return "a mapping" if isinstance(self.value, dict) else "a list" if isinstance(self.value, list) else short(self.value)


Fields = Mapping[str, Node]


def read_text(root: Path, file: str, findings: Findings, advice: str = "") -> str | None:
    """A file of the folder; None, and a problem, when it cannot be read."""
    findings.opened(file)
    try:
        if (root / file).exists() and not (root / file).is_file():  # a pipe would keep whoever reads it, a device has no end
            findings.tell("SOURCE_READ_FAILED", "cannot be read: it is no regular file", Place(file), advice)
            return None
        return (root / file).read_text(encoding="utf-8-sig")
    except OSError as exc:
        findings.tell("SOURCE_READ_FAILED", f"cannot be read: {exc.strerror}", Place(file), advice)
    except UnicodeDecodeError:
        findings.tell("SOURCE_READ_FAILED", "this is no text in UTF-8", Place(file))
    return None


def parse_yaml(text: str, file: str, findings: Findings, *, first_line: int = 1) -> Node | None:
    """The document of a text; None when it is malformed. What else is refused in it is told, and stands as a hole.

    Args:
        text: the YAML.
        file: what its places name.
        findings: where its problems are told.
        first_line: the line of the file that the text begins at.
    """
    import yaml  # noqa: PLC0415  # only who keeps workflows in files needs it

    def place(mark: Any) -> Place:
        return Place(file, mark.line + first_line, mark.column + 1) if mark is not None else Place(file)

    loader = None
    try:
        loader = yaml.SafeLoader(text)
        events = iter(loader.get_event, None)
        return _Composer(events, place, findings).document()
    except yaml.reader.ReaderError as exc:
        line, column = text.count("\n", 0, exc.position), exc.position - text.rfind("\n", 0, exc.position)
        at = Place(file, line + first_line, column)
        findings.tell("SOURCE_PARSE_FAILED", f"this is no YAML: {chr(cast(int, exc.character))!r} cannot stand in it", at)
    except yaml.MarkedYAMLError as exc:
        reason = one_line(exc.problem or exc.context or "it cannot be read")
        findings.tell("SOURCE_PARSE_FAILED", f"this is no YAML: {reason}", place(exc.problem_mark or exc.context_mark))
    except (yaml.YAMLError, ValueError, OverflowError) as exc:  # ValueError: an escape that is no character, such as \UFFFFFFFF
        mark = loader.get_mark() if loader is not None else None
        findings.tell("SOURCE_PARSE_FAILED", f"this is no YAML: {one_line(str(exc))}", place(mark))
    finally:
        if loader is not None:
            loader.dispose()
    return None


class _Composer:
    """Makes nodes of events, and refuses on the way."""

    def __init__(self, events: Iterator[Any], place: Any, findings: Findings) -> None:
        self._events = events
        self._place = place
        self._findings = findings

    def document(self) -> Node:
        root: Node | None = None
        for event in self._events:
            match _kind(event):
                case "DocumentStart" if root is not None:
                    self._refuse(event, "a second document begins here", "Keep one document in a file.")
                    break
                case "StreamStart" | "DocumentStart" | "DocumentEnd":
                    continue
                case "StreamEnd":
                    break
                case _:
                    root = self._node(event, self._place(event.start_mark), 0)
        if root is None:
            start = self._place(None)
            return Node(None, Place(start.file, 1, 1), Place(start.file, 1, 1))
        return root

    def _node(self, event: Any, key_at: Place, depth: int) -> Node:
        at = self._place(event.start_mark)
        kind = _kind(event)
        if kind == "Alias":
            self._refuse(event, f"the alias *{event.anchor} stands for a value", "Write the value itself.")
            return Node(HOLE, at, key_at)
        if event.anchor is not None:
            self._refuse(event, f"the anchor &{event.anchor} names a value", "Write the value again where it is needed.")
        if kind == "Scalar":
            return Node(self._scalar(event), at, key_at)
        if depth == _DEEPEST:
            self._refuse(event, f"more than {_DEEPEST} levels are nested here")
            self._skip()
            return Node(HOLE, at, key_at)
        wanted = "map" if kind == "MappingStart" else "seq"
        value: Any = self._mapping(depth) if wanted == "map" else self._list(depth)
        if event.tag not in (None, "!", _CORE + wanted):
            self._refuse(event, f"the tag {_tag(event)} is not known here", "Leave the tag out.")
            return Node(HOLE, at, key_at)
        return Node(value, at, key_at)

    def _list(self, depth: int) -> list[Node]:
        found: list[Node] = []
        while _kind(event := next(self._events)) != "SequenceEnd":
            found.append(self._node(event, self._place(event.start_mark), depth + 1))
        return found

    def _mapping(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while _kind(event := next(self._events)) != "MappingEnd":
            key = self._node(event, self._place(event.start_mark), depth + 1)
            value = self._node(next(self._events), key.at, depth + 1)
            name = key.value
            if name is HOLE:
                continue
            if not isinstance(name, str):
                what = "a mapping" if isinstance(name, dict) else "a list" if isinstance(name, list) else _written(event)
                self._refuse(event, f"a key has to be a text, this one is {what}", "Put it in quotes if a text is meant.")
            elif name in RESERVED:
                self._refuse(event, f"the key {name!r} is reserved")
            elif name in found:
                self._refuse(event, f"the key {short(name)} stands here a second time", "Keep one of them.")
            else:
                found[name] = value
        return found

    def _skip(self) -> None:
        open_ = 1
        while open_:
            kind = _kind(next(self._events))
            open_ += kind.endswith("Start") - kind.endswith("End")

    def _scalar(self, event: Any) -> Any:
        if event.tag is None:
            return _core(event.value) if event.style is None else event.value
        if event.tag in ("!", _CORE + "str"):
            return event.value
        value = _core(event.value)
        kinds = {"null": type(None), "bool": bool, "int": int, "float": float}
        if type(value) is kinds.get(event.tag.removeprefix(_CORE)):
            return value
        self._refuse(event, f"the tag {_tag(event)} is not known here, or does not fit", "Leave the tag out.")
        return HOLE

    def _refuse(self, event: Any, message: str, advice: str = "") -> None:
        self._findings.tell("SOURCE_PARSE_FAILED", message, self._place(event.start_mark), advice)


def _kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _tag(event: Any) -> str:
    tag: str = event.tag
    return repr("!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag)


def _written(event: Any) -> str:
    return short(event.value) if event.value else "nothing"


def _core(text: str) -> Any:
    """What a plain scalar means in the core schema of YAML 1.2."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if len(text) < 4000 else float("inf")
    if _FLOAT.fullmatch(text):
        return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
    return text


class Reader:
    """Takes a document apart by the shapes it has to have; what does not fit is told, and comes back as None."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def wrong(self, message: str, at: Place, advice: str = "") -> None:
        """Tell an INVALID_WORKFLOW."""
        self.findings.tell("INVALID_WORKFLOW", message, at, advice)

    def mapping(self, node: Node, of: str) -> Fields | None:
        """Its nodes by key."""
        if isinstance(node.value, dict):
            return cast(Fields, node.value)
        if node.value is not HOLE:
            self.wrong(f"expected a mapping of {of}, got {node.shown}", node.at)
        return None

    def fields(
        self,
        node: Node,
        of: str,
        required: Sequence[str],
        optional: Sequence[str] = (),
        *,
        former: Mapping[str, str] | None = None,
    ) -> Fields | None:
        """The fields of a mapping that knows no others; those that are missing are told and left out.

        Args:
            node: the mapping.
            of: what it describes, for the message.
            required: fields it has to have.
            optional: fields it may have.
            former: what to do about a field that other versions know.
        """
        found = self.mapping(node, of or listed([*required, *optional]))
        if found is None:
            return None
        known = [*required, *optional]
        for key, value in found.items():
            if key not in known:
                hint = (former or {}).get(key, "")
                message = f"unknown field {short(key)}; expected {listed(known)}{'' if hint else meant(key, known)}"
                self.wrong(message, value.key_at, hint)
        for key in required:
            if key not in found:
                self.wrong(f"missing field {key!r}", node.key_at)
        return {key: value for key, value in found.items() if key in known}

    def text(self, node: Node | None) -> str | None:
        """Its text."""
        if node is None or node.value is HOLE:
            return None
        if isinstance(node.value, str):
            return node.value
        is_scalar = isinstance(node.value, (bool, int, float))
        self.wrong(f"expected a text, got {node.shown}", node.at, "Put it in quotes if a text is meant." if is_scalar else "")
        return None

    def one_of(self, node: Node | None, known: Collection[str], advice: str = "") -> str | None:
        """Its text, one of those known."""
        found = self.text(node)
        if found is not None and node is not None and found not in known:
            self.wrong(f"expected {listed(known)}, got {short(found)}{meant(found, known)}", node.at, advice)
            return None
        return found

    def flag(self, node: Node) -> bool | None:
        """Whether it says true."""
        if isinstance(node.value, bool):
            return node.value
        if node.value is not HOLE:
            self.wrong(f"expected true or false, got {node.shown}", node.at)
        return None

    def items(self, node: Node, of: str) -> Sequence[Node] | None:
        """The nodes of a list."""
        if isinstance(node.value, list):
            return cast("list[Node]", node.value)
        if node.value is not HOLE:
            self.wrong(f"expected a list of {of}, got {node.shown}", node.at)
        return None
