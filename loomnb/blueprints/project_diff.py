"""What changed in a project between two looks at it: which files, and their lines. Told as text, Markdown and HTML.

It knows no files, only what was captured of them. Deterministic, as every static form: no ids, no times. Names and contents
are anybody's text: each face escapes them, and shows what could steer a terminal or turn a line's direction as U+FFFD.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from loomnb.present import escape, markdown_safe

__all__ = ["Capture", "FileChange", "ProjectDiff"]

Kind = Literal["added", "removed", "changed"]

_FILES_SHOWN = 20
_LINES_SHOWN = 200  # of each of them
_NAMES_SHOWN = 200  # of the rest
_LINES_COMPARED = 50_000
_PAIRS_COMPARED = 200_000
_SIGNS: Mapping[Kind, str] = {"added": "+", "removed": "-", "changed": "~"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What a project held at a moment.

    Attributes:
        hashes: path → SHA-256 of each file, by path.
        texts: path → content of those that are UTF-8 text of at most 1 MiB.
        beyond: the paths whose text would have been one too many; of them only the hash is known.
    """

    hashes: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    beyond: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """One file that is not as it was.

    Attributes:
        note: why there are no lines; empty when there are.
    """

    path: str
    kind: Kind
    before: str | None = field(default=None, repr=False)
    after: str | None = field(default=None, repr=False)
    note: str = ""

    @cached_property
    def diff(self) -> str:
        """A unified diff, as `patch` and `git apply` read it; empty when no lines are known."""
        if self.note:
            return ""
        old, new = _name("a", self.path, self.kind == "added"), _name("b", self.path, self.kind == "removed")
        lines = [line if line[-1] == "\n" else f"{line}\n\\ No newline at end of file\n" for line in self._hunks()]
        return "".join([f"--- {old}\n+++ {new}\n", *lines]) if lines else ""

    @cached_property
    def counts(self) -> tuple[int, int]:
        """How many lines were added, and how many removed."""
        lines = self.diff.split("\n")[2:]
        return sum(line[:1] == "+" for line in lines), sum(line[:1] == "-" for line in lines)

    def _hunks(self) -> Iterator[str]:
        before, after = _lines(self.before or ""), _lines(self.after or "")
        if _is_quick(before, after):
            yield from list(difflib.unified_diff(before, after))[2:]
            return
        # difflib would take minutes, or for ever: what is not alike at both ends is replaced as a whole.
        start, end, context = *_alike(before, after), 3
        first, last = max(0, start - context), min(end, context)
        old, new = len(before) - end, len(after) - end
        yield f"@@ -{_range(first, old + last)} +{_range(first, new + last)} @@\n"
        yield from (f" {line}" for line in before[first:start])
        yield from (f"-{line}" for line in before[start:old])
        yield from (f"+{line}" for line in after[start:new])
        yield from (f" {line}" for line in before[old : old + last])


@dataclass(frozen=True, kw_only=True, repr=False)
class ProjectDiff:
    """What changed in a project; as a cell's last line it is drawn, and `if diff:` asks whether anything did.

    Attributes:
        files: each change, by path.
    """

    files: tuple[FileChange, ...]

    @classmethod
    def between(cls, before: Capture, after: Capture) -> ProjectDiff:
        """What is in `after` and was not so in `before`. Texts that stayed the same are let go of."""
        changes: list[FileChange] = []
        for path in sorted(before.hashes.keys() | after.hashes.keys()):
            old, new = before.hashes.get(path), after.hashes.get(path)
            if old == new:
                continue
            kind: Kind = "added" if old is None else "removed" if new is None else "changed"
            was, now = before.texts.get(path), after.texts.get(path)
            note = ""
            if path in before.beyond or path in after.beyond:
                note = "its lines are not known: the project has more text than a capture keeps"
            elif (old is not None and was is None) or (new is not None and now is None):
                note = "no text of at most 1 MiB, so there are no lines to compare"
            known = (None, None) if note else (was, now)
            changes.append(FileChange(path=path, kind=kind, before=known[0], after=known[1], note=note))
        return cls(files=tuple(changes))

    @property
    def added(self) -> tuple[str, ...]:
        """The paths of new files."""
        return self._of("added")

    @property
    def removed(self) -> tuple[str, ...]:
        """The paths of files that are gone."""
        return self._of("removed")

    @property
    def changed(self) -> tuple[str, ...]:
        """The paths of files with another content."""
        return self._of("changed")

    def _of(self, kind: Kind) -> tuple[str, ...]:
        return tuple(f.path for f in self.files if f.kind == kind)

    def __bool__(self) -> bool:
        return bool(self.files)

    def __getitem__(self, path: str) -> FileChange:
        for change in self.files:
            if change.path == path:
                return change
        raise KeyError(path)

    @property
    def diffs(self) -> Mapping[str, str]:
        """Path → unified diff, of each file whose lines are known."""
        return {f.path: f.diff for f in self.files if not f.note}

    @property
    def patch(self) -> str:
        """All of them as one text, whole, for `patch -p1` or `git apply`. Without files that have no lines, as empty ones."""
        return "".join(f.diff for f in self.files)

    @cached_property
    def summary(self) -> str:
        """How much changed, in a few words."""
        counts = [(len(self._of(kind)), kind) for kind in _SIGNS]
        said = ", ".join(f"{n:,} {kind}" for n, kind in counts if n)
        return f"Project files: {said}" if said else "Project files: nothing changed"

    @cached_property
    def text(self) -> str:
        """The changes, with their lines as far as they can be read at a glance."""
        parts = [self.summary]
        for change in self.files[:_FILES_SHOWN]:
            parts.append(f"{_SIGNS[change.kind]} {_heading(change)}")
            lines, more = _shown(change)
            parts += [f"    {line}" for line in lines] + ([f"    {more}"] if more else [])
        return "\n".join([*parts, *(f"{_SIGNS[c.kind]} {_line(c.path)}" for c in self._names), *self._rest])

    @cached_property
    def markdown(self) -> str:
        """The same for a page."""
        parts = [f"**{markdown_safe(self.summary)}**"]
        for change in self.files[:_FILES_SHOWN]:
            parts.append(markdown_safe(_heading(change)))
            lines, more = _shown(change)
            if lines:
                body = "\n".join(lines)
                fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", body)), 3)
                parts.append(f"{fence}diff\n{body}\n{fence}")
            parts += [more] if more else []
        names = "\n".join(f"- {c.kind}: {markdown_safe(_line(c.path))}" for c in self._names)
        return "\n\n".join([*parts, *([names] if names else []), *self._rest])

    @cached_property
    def html(self) -> str:
        """The same, each file folded."""
        parts = [f"<p><strong>{escape(self.summary)}</strong></p>"]
        for change in self.files[:_FILES_SHOWN]:
            lines, more = _shown(change)
            tail = f"<p>{escape(more)}</p>" if more else ""
            if not lines:
                parts.append(f"<p>{escape(_heading(change))}</p>{tail}")
                continue
            body = "\n".join(_line_html(line) for line in lines)
            label = escape(f"Lines of {_line(change.path)}")
            parts.append(
                f'<details open><summary style="{_SUMMARY}">{escape(_heading(change))}</summary>'
                f'<pre tabindex="0" role="region" aria-label="{label}" style="{_PRE}">{body}</pre>{tail}</details>'
            )
        names = "".join(f"<li>{c.kind}: {escape(_line(c.path))}</li>" for c in self._names)
        parts += [f"<ul>{names}</ul>"] if names else []
        parts += [f"<p>{escape(rest)}</p>" for rest in self._rest]
        return f'<div class="loom-diff">{"".join(parts)}</div>'

    @property
    def _names(self) -> tuple[FileChange, ...]:
        return self.files[_FILES_SHOWN : _FILES_SHOWN + _NAMES_SHOWN]

    @property
    def _rest(self) -> list[str]:
        more = len(self.files) - _FILES_SHOWN - _NAMES_SHOWN
        return [f"{more:,} more files; .files has them all"] if more > 0 else []

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> Mapping[str, str]:
        return {"text/plain": self.text, "text/markdown": self.markdown, "text/html": self.html}


# -- faces -----------------------------------------------------------------------------------------
# Lines keep the page's own text colour, which is readable on either theme; the tint is behind it, and the sign before it says
# the same. <ins> and <del> say it to a screen reader.
_TINT = "text-decoration:none;color:inherit;background:"
_ADDED = f"{_TINT}color-mix(in srgb,var(--jp-success-color1,#388e3c) 22%,transparent)"
_REMOVED = f"{_TINT}color-mix(in srgb,var(--jp-error-color1,#d32f2f) 22%,transparent)"
_PLACE = "color:var(--jp-ui-font-color2,inherit)"
_SUMMARY = "cursor:pointer"
_PRE = "overflow-x:auto;margin:4px 0 12px;padding:4px 8px;border:1px solid var(--jp-border-color2,#8888)"


def _line_html(line: str) -> str:
    text = escape(line)
    match line[:1]:
        case "+":
            return f'<ins style="{_ADDED}">{text}</ins>'
        case "-":
            return f'<del style="{_REMOVED}">{text}</del>'
        case "@":
            return f'<span style="{_PLACE}">{text}</span>'
        case _:
            return text


def _heading(change: FileChange) -> str:
    told = f"{_line(change.path)}: {change.kind}"
    if change.note:
        return f"{told}; {change.note}"
    more, fewer = change.counts
    parts = [f"{n:,} {'line' if n == 1 else 'lines'} {what}" for n, what in ((more, "added"), (fewer, "removed")) if n]
    return f"{told}, {' and '.join(parts)}" if parts else f"{told}, empty"


def _shown(change: FileChange) -> tuple[list[str], str]:
    """The lines below the heading, and how many are left out."""
    lines = change.diff.split("\n")[2:-1]
    more = len(lines) - _LINES_SHOWN
    return [_line(line) for line in lines[:_LINES_SHOWN]], f"{more:,} more lines; .diffs has them all" if more > 0 else ""


# What XML forbids, terminals obey, or turns the direction of what follows. A tab stays: it is part of a file's layout.
_BREAKING = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_LONGEST = 2_000


def _line(text: str) -> str:
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text) - _LONGEST:,} more characters)"
    return _BREAKING.sub("\ufffd", text.replace("\r", "␍"))


# -- lines -----------------------------------------------------------------------------------------


def _name(side: str, path: str, is_none: bool) -> str:
    """A file's name in the head of a diff, quoted as git does where a reader of diffs would stumble."""
    if is_none:
        return "/dev/null"
    name = f"{side}/{path}"
    if re.search('[\x00-\x1f\x7f"\\\\]', name):
        return '"' + "".join(f"\\{b:03o}" if b < 32 or b > 126 or b in b'"\\' else chr(b) for b in name.encode()) + '"'
    return f"{name}\t" if " " in name else name


def _lines(text: str) -> list[str]:
    # Not splitlines: to diff and patch only \n ends a line.
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _alike(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the start, and how many of the others at the end."""
    short = min(len(before), len(after))
    start = next((i for i in range(short) if before[i] != after[i]), short)
    end = next((i for i in range(short - start) if before[-1 - i] != after[-1 - i]), short - start)
    return start, end


def _range(first: int, last: int) -> str:
    """The lines from `first` up to but not including `last`, as the head of a hunk says it."""
    count = last - first
    return f"{first + 1 if count else first},{count}"


def _is_quick(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether difflib compares them in a moment: it looks at every pair of equal lines, but for those that are everywhere."""
    if max(len(before), len(after)) > _LINES_COMPARED:
        return False
    many, often = Counter(after), len(after) // 100 + 1 if len(after) >= 200 else len(after)
    return sum(n for line in before if (n := many[line]) <= often) <= _PAIRS_COMPARED
