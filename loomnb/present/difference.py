"""What changed between two JSON values, by path, and between two texts, by line. As data, text and safe HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, Literal

from loomnb.present.markdown import escape, plain_line
from loomnb.present.tree import PathStep, leaf_html, subscript

__all__ = ["Change", "changes_between", "diff_html", "diff_plain"]

_SHOWN = 200  # changes that are told; more are counted
_LINES_SHOWN = 400  # lines of one text's difference
_AROUND = 3  # unchanged lines around a changed one
_ALIGNED = 1_000_000  # items of one list times those of the other, up to which they are matched and not only counted through
_VALUE = 2000  # characters of a value that is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. In a list, `path` counts in the new one; that of what was removed, in the old one."""

    kind: Literal["added", "removed", "changed"]
    path: tuple[PathStep, ...]
    old: Any = None
    new: Any = None

    @property
    def is_text(self) -> bool:
        """Whether a text of several lines was changed."""
        return self.kind == "changed" and isinstance(self.old, str) and isinstance(self.new, str) and "\n" in self.old + self.new


def changes_between(old: Any, new: Any, path: tuple[PathStep, ...] = ()) -> Iterator[Change]:
    """What changed, in the order of the new value. 1, 1.0 and true are not the same; the order of keys does not count."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in old:
            if key not in new:
                yield Change(kind="removed", path=(*path, key), old=old[key])
        for key, value in new.items():
            if key in old:
                yield from changes_between(old[key], value, (*path, key))
            else:
                yield Change(kind="added", path=(*path, key), new=value)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_changes(old, new, path)
    elif _text(old) != _text(new):
        yield Change(kind="changed", path=path, old=old, new=new)


def _list_changes(old: list[Any], new: list[Any], path: tuple[PathStep, ...]) -> Iterator[Change]:
    for a, b, c, d in _unequal([_text(v) for v in old], [_text(v) for v in new]):
        both = min(b - a, d - c)
        for i in range(both):
            yield from changes_between(old[a + i], new[c + i], (*path, c + i))
        for i in range(a + both, b):
            yield Change(kind="removed", path=(*path, i), old=old[i])
        for i in range(c + both, d):
            yield Change(kind="added", path=(*path, i), new=new[i])


def _unequal(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """The stretches of two sequences that differ: from and to in the old, from and to in the new."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    a, b = old[first : len(old) - last], new[first : len(new) - last]
    if len(a) * len(b) > _ALIGNED:
        yield first, first + len(a), first, first + len(b)
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            yield first + i1, first + i2, first + j1, first + j2


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


# -- texts ----------------------------------------------------------------------------------------


def _line_diff(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Lines with their sign: `-` gone, `+` new, ` ` unchanged, `⋯` how many unchanged ones are left out."""
    a, b = old.splitlines(), new.splitlines()
    done = 0  # lines of the old text that were told
    stretches = list(_unequal(a, b))
    for at, (i1, i2, j1, j2) in enumerate(stretches):
        start = max(done, i1 - _AROUND)
        if start > done:
            yield "⋯", _unchanged(start - done)
        yield from ((" ", line) for line in a[start:i1])
        yield from (("-", line) for line in a[i1:i2])
        yield from (("+", line) for line in b[j1:j2])
        following = stretches[at + 1][0] if at + 1 < len(stretches) else len(a)
        done = min(i2 + _AROUND, following)
        yield from ((" ", line) for line in a[i2:done])
    if stretches and done < len(a):
        yield "⋯", _unchanged(len(a) - done)
    if not stretches:
        yield "⋯", "only the ends of lines differ"


def _unchanged(count: int) -> str:
    return f"{count:,} unchanged line{'' if count == 1 else 's'}"


def _some_lines(change: Change) -> Iterator[tuple[str, str]]:
    lines = list(_line_diff(change.old, change.new))
    yield from lines[:_LINES_SHOWN]
    if len(lines) > _LINES_SHOWN:
        yield "⋯", f"{len(lines) - _LINES_SHOWN:,} more lines"


# -- as text and HTML -----------------------------------------------------------------------------


def _some(old: Any, new: Any, most: int) -> tuple[list[Change], str]:
    found = list(islice(changes_between(old, new), most + 1))
    return found[:most], f"more than {most:,} changes: the first of them are shown" if len(found) > most else ""


def diff_plain(old: Any, new: Any, most: int = _SHOWN) -> str:
    """The difference as text, a line for each change."""
    changes, more = _some(old, new, most)
    lines = [] if changes else ["no change"]
    for change in changes:
        at = plain_line(subscript(change.path))
        sign = {"added": "+", "removed": "-", "changed": "~"}[change.kind]
        if change.is_text:
            lines += [f"{sign} {at}:"] if at else []
            lines += [f"{'  ' if at else ''}{s} {plain_line(line)}" for s, line in _some_lines(change)]
        elif change.kind == "changed":
            lines.append(f"{sign} {at + ': ' if at else ''}{_short(change.old)} → {_short(change.new)}")
        else:
            lines.append(f"{sign} {at}: {_short(change.new if change.kind == 'added' else change.old)}")
    return "\n".join([*lines, *([f"… {more}"] if more else [])])


def diff_html(old: Any, new: Any, most: int = _SHOWN) -> str:
    """The difference as safe HTML: a row for each change, or the lines of a text."""
    changes, more = _some(old, new, most)
    if not changes:
        return "<p>No change.</p>"
    if len(changes) == 1 and changes[0].is_text and not changes[0].path:
        return f'<div class="loom-diff">{_lines_html(changes[0])}</div>'
    rows = "".join(_row(change) for change in changes)
    head = "".join(f'<th scope="col" style="{_LEFT}">{name}</th>' for name in ("Change", "Where", "Before", "After"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="loom-diff">{table}{f"<p>{more}</p>" if more else ""}</div>'


def _row(change: Change) -> str:
    where = f"<code>{escape(plain_line(subscript(change.path)))}</code>" if change.path else "the whole"
    if change.is_text:
        told = f'<td colspan="2" style="{_LEFT}">{_lines_html(change)}</td>'
    else:
        before = "" if change.kind == "added" else f'<del style="{_GONE}">{_value(change.old)}</del>'
        after = "" if change.kind == "removed" else f'<ins style="{_NEW}">{_value(change.new)}</ins>'
        told = f'<td style="{_LEFT}">{before}</td><td style="{_LEFT}">{after}</td>'
    return f'<tr><td style="{_LEFT}">{change.kind}</td><td style="{_LEFT}">{where}</td>{told}</tr>'


def _value(value: Any) -> str:
    if isinstance(value, (Mapping, list)):
        text = json.dumps(value, ensure_ascii=False, indent=2)
        if len(text) > 80:
            kind = f"{len(value):,} items" if isinstance(value, list) else f"{len(value):,} keys"
            text = text if len(text) <= _VALUE else text[:_VALUE] + "\n…"
            return f'<details><summary>{kind}</summary><pre style="white-space:pre-wrap">{escape(text)}</pre></details>'
    return leaf_html(value, room=_VALUE)


def _lines_html(change: Change) -> str:
    lines = []
    for sign, line in _some_lines(change):
        text = escape(f"{sign} {plain_line(line)}")
        match sign:
            case "+":
                lines.append(f'<ins style="display:block;{_NEW}">{text}</ins>')
            case "-":
                lines.append(f'<del style="display:block;{_GONE}">{text}</del>')
            case _:
                lines.append(f'<span style="display:block{";opacity:.7" if sign == "⋯" else ""}">{text}</span>')
    return f'<div class="loom-lines" style="font-family:monospace;white-space:pre-wrap">{"".join(lines)}</div>'


def _short(value: Any) -> str:
    text = plain_line(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 200 else text[:199] + "…"


_LEFT = "text-align:left;vertical-align:top"
_NEW = "text-decoration:none;background:#2ea04330"
_GONE = "text-decoration:none;background:#f8514930"
