"""What is wrong with a blueprint, as data: a problem of the objects, the same at its place in a file, and the list of them.

Nothing is judged here. Every face of a report escapes what it quotes, because names and texts are anybody's.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from loomnb.errors import DefinitionError
from loomnb.present import escape, markdown_safe, table_html, table_markdown

__all__ = [
    "BlueprintInvalid",
    "Diagnostic",
    "Findings",
    "PathTo",
    "Place",
    "Problem",
    "Report",
    "Severity",
    "dotted",
    "listed",
    "meant",
    "one_line",
    "short",
]

Severity = Literal["error", "warning"]
PathTo: TypeAlias = tuple["str | int", ...]
_MAPS = ("stages", "steps", "on", "codes", "agent_specs", "skills", "tools")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong in a Blueprint or WorkflowModule.

    Attributes:
        path: where, as field names and keys: `("stages", "draft", "steps", "start", "on", "done")`. What follows an outcome is
            `target` when the place it leads to is wrong. A module's own maps are `codes` and `agent_specs`.
        code: of the contract's compiler and loader: INVALID_WORKFLOW, WORKFLOW_CONFLICT.
        severity: a warning keeps nothing from running.
    """

    path: PathTo
    code: str
    message: str
    advice: str = ""
    severity: Severity = "error"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, from 1; without a line it is the file."""

    file: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem and its place.

    Attributes:
        file: relative to the folder; empty for what was not read from files.
        line, column: from 1; None where the whole file is meant.
        place: where in the objects, when there is no file.
    """

    code: str
    message: str
    file: str = ""
    line: int | None = None
    column: int | None = None
    advice: str = ""
    severity: Severity = "error"
    place: str = ""

    @property
    def location(self) -> str:
        """`workflow.yaml:7:5`, or the dotted place of what was not read from a file."""
        if not self.file:
            return self.place
        return ":".join([one_line(self.file), *(str(n) for n in (self.line, self.column) if n is not None)])

    def __str__(self) -> str:
        head = " ".join(t for t in (self.location, self.severity, self.code, self.message) if t)
        return f"{head}\n    {self.advice}" if self.advice else head


class Report:
    """What `validate` found, worst or not: as a cell's last line it is the list of it.

    Attributes:
        subject: what was looked at.
        diagnostics: all of it, in the order of the files and their lines.
    """

    def __init__(self, subject: str, diagnostics: Sequence[Diagnostic]) -> None:
        self.subject = subject
        self.diagnostics = tuple(diagnostics)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """What has to be corrected before it can run."""
        return tuple(d for d in self.diagnostics if d.severity == "error")

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What can run, and is likely not meant."""
        return tuple(d for d in self.diagnostics if d.severity == "warning")

    @property
    def ok(self) -> bool:
        """Whether it can run."""
        return not self.errors

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.diagnostics)

    def __repr__(self) -> str:
        return "\n".join([self._summary(), *(f"  {line}" for d in self.diagnostics for line in str(d).splitlines())])

    def _summary(self) -> str:
        counts = [_count(len(self.errors), "error"), _count(len(self.warnings), "warning")]
        return f"{one_line(self.subject)}: {', '.join(c for c in counts if c) or 'no problems'}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self.static_bundle()

    def static_bundle(self) -> dict[str, str]:
        """What a page tells of it, as text, HTML and Markdown."""
        columns, types = ["where", "severity", "code", "problem"], ["VARCHAR"] * 4
        rows = [[d.location, d.severity, d.code, ". ".join(t for t in (d.message, d.advice) if t)] for d in self.diagnostics]
        summary, total = self._summary(), len(rows)
        table = _left(table_html(columns, types, rows, total)) if rows else ""
        markdown = [markdown_safe(summary), *([table_markdown(columns, types, rows, total)] if rows else [])]
        return {
            "text/plain": repr(self),
            "text/html": f'<div class="loom-static"><p>{escape(summary)}</p>{table}</div>',
            "text/markdown": "\n\n".join(markdown),
        }


class BlueprintInvalid(DefinitionError):
    """A workflow folder or a blueprint cannot be run. Its text tells all that is wrong; its code is the first problem's.

    Attributes:
        diagnostics: each problem with its file, line and column.
    """

    code = "INVALID_WORKFLOW"

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = (), *, advice: str = "") -> None:
        super().__init__(message, advice=advice, code=diagnostics[0].code if diagnostics else None)
        self.diagnostics = tuple(diagnostics)

    @classmethod
    def of_report(cls, report: Report) -> BlueprintInvalid:
        """The error that tells all errors of a report."""
        count = "a problem" if len(report.errors) == 1 else f"{len(report.errors)} problems"
        lines = [f"  {line}" for d in report.errors for line in str(d).splitlines()]
        return cls("\n".join([f"{one_line(report.subject)} has {count}:", *lines]), report.errors)


class Findings:
    """Collects diagnostics while files are read; what is told twice counts once."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._found: dict[Diagnostic, None] = {}

    def opened(self, file: str) -> None:
        """Give a file its place in the order of the report."""
        self._files.setdefault(file, len(self._files))

    def tell(self, code: str, message: str, at: Place, advice: str = "", severity: Severity = "error") -> None:
        """Add a problem."""
        self.opened(at.file)
        self._found[Diagnostic(code, message, at.file, at.line, at.column, advice, severity)] = None

    @property
    def any(self) -> bool:
        """Whether there is an error."""
        return any(d.severity == "error" for d in self._found)

    def in_order(self) -> list[Diagnostic]:
        """All of it, by file and place."""
        return sorted(self._found, key=lambda d: (self._files[d.file], d.line or 0, d.column or 0))


def _left(table: str) -> str:
    """Sentences begin at the left; JupyterLab sets the cells of a table to the right."""
    return table.replace("<td>", '<td style="text-align:left">').replace("<th ", '<th style="text-align:left" ')


# -- words ----------------------------------------------------------------------------------------


def dotted(path: PathTo) -> str:
    """`stages['draft'].steps['start'].on['done']`: the fields of the dataclasses, and the keys of their maps."""
    text, was_key = "", True
    for at, part in enumerate(path):
        was_key = not was_key and path[at - 1] in _MAPS
        if was_key:
            text += f"[{part!r}]"
        elif not (part == "target" and at == len(path) - 1):  # a route's; it may be a plain text
            text += f".{part}" if text else str(part)
    return text


def listed(names: Iterable[object]) -> str:
    """`'a', 'b' or 'c'`."""
    *most, last = [repr(n) for n in names] or ["nothing"]
    return f"{', '.join(most)} or {last}" if most else last


def meant(wrong: object, known: Iterable[object]) -> str:
    """` (did you mean 'x'?)`, when something known is close."""
    close = difflib.get_close_matches(str(wrong), [k for k in known if isinstance(k, str)], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def short(value: object) -> str:
    """A value as a message quotes it."""
    try:
        text = "nothing" if value is None else repr(value)
    except Exception:  # noqa: BLE001  # anybody's __repr__ may raise anything, and the message is about something else
        text = f"a {type(value).__name__}"
    return one_line(text if len(text) <= 60 else f"{text[:57]}…")


def one_line(text: str) -> str:
    """Text on one line, without what steers a terminal or turns the direction of what follows."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}" if number else ""
