"""References of a workflow folder: what kind of thing one names, in which file, and which name of it. Text only; no file is read.

| written | means |
|---|---|
| `@stages/draft`, `@stages/draft.yaml` | `stages/draft.yaml` |
| `@agents/writer`, `@agents/writer.md` | `agents/writer.md` |
| `@skills/tone`, `@skills/tone/SKILL.md` | `skills/tone/SKILL.md`, with the other files of that folder |
| `@codes/publish:run` | `run` of `codes/publish.py`; so for `@initializers/…`, `@schemas/…`, `@tools/…`; `.py` may be said |
| `@codes/publish` | `publish` of it: the file's own name, `-` as `_` |
| `@schemas/release_state` | `ReleaseState` of it: for a schema that name as a class's |
| `package.module:name` | a name of a module that can be imported, wherever Python is meant; `__main__:name` is the notebook's |

Folders may be nested (`@codes/mail/send`). Rules: contracts/blueprints.md §3.1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from loomnb.blueprints.diagnostics import listed, short

__all__ = ["Kind", "Reference", "ReferenceInvalid", "reference"]

Kind = Literal["stages", "agents", "skills", "codes", "schemas", "initializers", "tools"]

_EXTENSIONS: dict[str, str] = {
    "stages": ".yaml",
    "agents": ".md",
    "skills": "/SKILL.md",
    **dict.fromkeys(("codes", "schemas", "initializers", "tools"), ".py"),
}
_PYTHON = ("codes", "schemas", "initializers", "tools")
_SEGMENT = re.compile(r"\w[\w-]*")


class ReferenceInvalid(ValueError):
    """It cannot be a reference here.

    Attributes:
        advice: what to write instead.
    """

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a reference names.

    Attributes:
        file: relative to the folder; empty for a module that is imported.
        module: the module that is imported; empty for a file.
        name: which name of a Python file or module; empty for the others.
    """

    kind: Kind
    file: str = ""
    module: str = ""
    name: str = ""

    @property
    def identity(self) -> str:
        """The same text for each way of writing the same reference."""
        source = self.file or self.module
        return f"{source}:{self.name}" if self.name else source


def reference(text: str, kind: Kind) -> Reference:
    """What a text names, where a thing of this kind is wanted.

    Raises:
        ReferenceInvalid: it is malformed, or names another kind.
    """
    path, colon, name = text.partition(":")
    if not path.startswith("@"):
        return _imported(text, kind, path, name)
    prefix, slash, rest = path[1:].partition("/")
    if prefix not in _EXTENSIONS:
        raise ReferenceInvalid(f"{short(text)} begins with no known prefix", f"Known: {listed('@' + k for k in _EXTENSIONS)}.")
    if prefix != kind:
        raise ReferenceInvalid(f"{short(text)} is wanted from @{kind}, not from @{prefix}", f"Write {_form(kind)}.")
    file = _file(text, kind, rest if slash else "")
    if kind not in _PYTHON:
        if colon:
            raise ReferenceInvalid(f"{short(text)} picks {short(name)} of a file that is no Python", f"Write {_form(kind)}.")
        return Reference(kind=kind, file=file)
    if colon and not _is_name(name):
        raise ReferenceInvalid(f"{short(text)} picks {short(name)}, which cannot be a name in Python")
    return Reference(kind=kind, file=file, name=name or _default_name(text, kind, file))


def _imported(text: str, kind: Kind, module: str, name: str) -> Reference:
    if kind not in _PYTHON:
        raise ReferenceInvalid(f"{short(text)} does not begin with @{kind}/", f"Write {_form(kind)}.")
    if not name or not _is_name(name) or not all(map(_is_name, module.split("."))):
        raise ReferenceInvalid(
            f"{short(text)} is neither @{kind}/file:name nor module:name",
            f"Write {_form(kind)} for a file of the folder, or package.module:name for what can be imported.",
        )
    return Reference(kind=kind, module=module, name=name)


def _file(text: str, kind: Kind, path: str) -> str:
    if "\\" in path:
        raise ReferenceInvalid(f"{short(text)} has a backslash", "Folders are written with / on every system.")
    stem = path.removesuffix(_EXTENSIONS[kind])
    segments = stem.split("/")
    if ".." in segments:
        raise ReferenceInvalid(f"{short(text)} leaves the folder with ..", "Keep what a workflow needs inside of its folder.")
    wrong: Sequence[str] = [s for s in segments if not _SEGMENT.fullmatch(s)]
    if wrong:
        what = f"{wrong[0]!r} in it can be no file or folder" if wrong[0] else "a name in it is empty"
        raise ReferenceInvalid(
            f"{short(text)}: {what}", f"Names are letters, digits, _ and -; the only extension is {_EXTENSIONS[kind]}."
        )
    return f"{kind}/{stem}{_EXTENSIONS[kind]}"


def _default_name(text: str, kind: Kind, file: str) -> str:
    stem = file.rpartition("/")[2].removesuffix(".py")
    name = "".join(w[:1].upper() + w[1:] for w in re.split("[-_]", stem)) if kind == "schemas" else stem.replace("-", "_")
    if not _is_name(name):
        raise ReferenceInvalid(
            f"{short(text)} says no name, and {name!r} cannot be one in Python", f"Write which one: {short(text)[1:-1]}:name."
        )
    return name


def _is_name(text: str) -> bool:
    return text.isidentifier()


def _form(kind: Kind) -> str:
    return f"@{kind}/name" if kind not in _PYTHON else f"@{kind}/file:name"
