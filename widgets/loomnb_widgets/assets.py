"""The scripts and styles of our widgets, as anywidget takes them: one module, one sheet.

anywidget loads a module from a blob, where a relative import has no base. So the panel's modules, which import one another by
name, are put together here: in order, without their `import` and `export` lines. Their top-level names must differ, and a test
sees to it; that is the whole bundler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "ARTIFACT_MODULES",
    "CHAT_MODULES",
    "PANEL_MODULES",
    "PANEL_SHEETS",
    "artifact_module",
    "artifact_sheet",
    "chat_module",
    "chat_sheet",
    "joined",
    "panel_module",
    "panel_sheet",
]

_STATIC = Path(__file__).parent / "static"
PANEL_MODULES = ("base.js", "fields.js", "forms.js", "children.js", "parts.js", "stages.js", "panel.js")
"""Each imports only from those before it."""
PANEL_SHEETS = ("panel.css", "forms.css", "children.css", "stages.css", "parts.css", "tree.css")
CHAT_MODULES = (*PANEL_MODULES, "messages.js", "composer.js", "threads.js", "chat.js")
"""A chat shows runs that its tools start, so it has the panel in it."""
CHAT_SHEETS = (*PANEL_SHEETS, "chat.css")
ARTIFACT_MODULES = ("base.js", "artifact.js")
_ARTIFACT_SHEETS = ("artifact.css", "tree.css")

_IMPORT = re.compile(r"^import \{[^}]*\} from \"\./[\w-]+\.js\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)
_DEFAULT = re.compile(r"^export default .*\n", re.MULTILINE)


_ASIDE = re.compile(r"^[ \t]*(?://.*|/\*\*(?:.|\n)*?\*/[ \t]*)\n|^[ \t]+", re.MULTILINE)
"""Comments that fill their lines, and what indents a line: a quarter of what each panel would send to the page."""


_ASIDE_CSS = re.compile(r"/\*(?:.|\n)*?\*/\n?|^[ \t]+", re.MULTILINE)


def joined(sources: list[str]) -> str:
    """One module of several, which exports what the last one does. No template of theirs may span lines, since lines lose their
    indentation."""
    *inner, last = sources
    kept = [*(_DEFAULT.sub("", source) for source in inner), last]
    return _ASIDE.sub("", "\n".join(_EXPORT.sub("", _IMPORT.sub("", source)) for source in kept))


def _read(names: Iterable[str]) -> list[str]:
    return [(_STATIC / name).read_text(encoding="utf-8") for name in names]


def panel_module() -> str:
    """The panel's script."""
    return joined(_read(PANEL_MODULES))


def panel_sheet() -> str:
    """The panel's style."""
    return _ASIDE_CSS.sub("", "\n".join(_read(PANEL_SHEETS)))


def chat_module() -> str:
    """The chat panel's script."""
    return joined(_read(CHAT_MODULES))


def chat_sheet() -> str:
    """The chat panel's style."""
    return _ASIDE_CSS.sub("", "\n".join(_read(CHAT_SHEETS)))


def artifact_module() -> str:
    """The artifact viewer's script."""
    return joined(_read(ARTIFACT_MODULES))


def artifact_sheet() -> str:
    """The artifact viewer's style."""
    return _ASIDE_CSS.sub("", "\n".join(_read(_ARTIFACT_SHEETS)))
