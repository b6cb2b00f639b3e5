"""A JSON value as a tree that folds: safe HTML without a script, and light, however large the value is.

What is near the root is drawn first. What is left out is named by the subscript that gives it (`["rows"][100:]`), and marked
(`data-path`, `data-from`) for a face that can ask for it: `branch_html` is what it gets.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from loomnb.present.markdown import escape, plain_line

__all__ = ["PathStep", "branch_html", "leaf_html", "subscript", "tree_html", "tree_plain"]

PathStep = str | int
_Path = tuple[PathStep, ...]

_NODES = 600
"""How many values are drawn at once."""
_ITEMS = 100  # and how many of one list or object
_DEPTH = 24  # levels drawn; more would be a very narrow column
_OPEN = 2  # levels that begin unfolded
_OPEN_ITEMS = 30  # a list or object with more begins folded
_INLINE = 60  # characters of a small list or object that is written on its line
_LINE = 100  # characters of a text that is not folded
_PLAIN = 300  # characters of a line of the text form
_TEXT = 20_000  # characters of one text that are drawn
_TEXTS = 100_000  # and of all of them


_ABSENT = object()


def tree_html(value: Any, most: int = _NODES, texts: int = _TEXTS) -> str:
    """A JSON value as a tree of at most `most` values, with `texts` characters of all long texts together."""
    return f'<div class="loom-tree">{_Drawing(value, (), 0, most, texts).children()}</div>'


def branch_html(value: Any, path: Sequence[PathStep], start: int = 0) -> str:
    """What the tree left out below a path, from an item on; empty for a path that leads nowhere."""
    for step in path:
        found: Any = _ABSENT
        if isinstance(value, Mapping):
            found = value.get(step, _ABSENT)
        elif isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
            found = value[step]
        if found is _ABSENT:
            return ""
        value = found
    return _Drawing(value, tuple(path), max(0, start)).children()


def subscript(path: Sequence[PathStep]) -> str:
    """A path as Python subscripts: `["rows"][3]`."""
    return "".join(f"[{step if isinstance(step, int) else json.dumps(step, ensure_ascii=False)}]" for step in path)


class _Drawing:
    """One picture of a value: what of it is drawn is decided first, level by level, so that no branch takes all the room."""

    def __init__(self, value: Any, path: _Path, start: int, most: int = _NODES, texts: int = _TEXTS) -> None:
        self._value, self._path, self._start = value, path, start
        self._texts = texts
        self._shown: dict[_Path, int] = {}  # how many children are drawn; what is not here is left out whole
        todo: deque[tuple[_Path, Any, int]] = deque([(path, value, start)])
        while todo and most > 0:
            at, one, first = todo.popleft()
            if len(at) - len(path) >= _DEPTH:
                continue
            here = list(islice(_items(one, first), min(_ITEMS, most)))
            self._shown[at] = len(here)
            most -= len(here)
            todo += [((*at, step), child, 0) for step, child in here if _branches(child)]

    def children(self) -> str:
        """The tree, without its root."""
        if not isinstance(self._value, (Mapping, list)):
            return self._leaf("", self._value)
        if not self._value:
            return self._leaf("", self._value)
        return self._inside(self._value, self._path, self._start, 1)

    def _inside(self, value: Any, path: _Path, start: int, level: int) -> str:
        shown = self._shown.get(path, 0)
        parts = [self._node(step, child, (*path, step), level) for step, child in islice(_items(value, start), shown)]
        rest = len(value) - start - shown
        if rest > 0:
            at = f"{subscript(path)}[{start + shown}:]" if isinstance(value, list) else f"{subscript(path)}, more keys"
            parts.append(_left_out(path, start + shown, f"… {rest:,} more", at))
        return "".join(parts)

    def _node(self, step: PathStep, value: Any, path: _Path, level: int) -> str:
        if not _branches(value):
            return self._leaf(_key(step), value)
        one = "item" if isinstance(value, list) else "key"
        count = f"{len(value):,} {one}{'' if len(value) == 1 else 's'}"
        if path not in self._shown:
            return _left_out(path, 0, f"{_key(step)}: {count}", subscript(path))
        opened = " open" if level < _OPEN and len(value) <= _OPEN_ITEMS else ""
        inside = self._inside(value, path, 0, level + 1)
        summary = f'<summary>{_key(step)} <span class="loom-count">{count}</span></summary>'
        return f'<details{opened}>{summary}<div style="{_INSIDE}">{inside}</div></details>'

    def _leaf(self, key: str, value: Any) -> str:
        before = f"{key}: " if key else ""
        if isinstance(value, str) and (len(value) > _LINE or "\n" in value.strip()):
            room = min(_TEXT, self._texts)
            self._texts -= min(len(value), room)
            return f"<div>{leaf_html(value, before, room)}</div>"
        return f"<div>{before}{leaf_html(value)}</div>"


def leaf_html(value: Any, before: str = "", room: int = _TEXT) -> str:
    """A value on one line; a long text folded, up to `room` characters of it. `before` is HTML."""
    if not isinstance(value, str):
        kind = "loom-none" if value is None else "loom-value"
        return f'{before}<span class="{kind}">{escape(plain_line(_json(value)))}</span>'
    if len(value) <= _LINE and "\n" not in value.strip():
        return f'{before}<span class="loom-text">{escape(plain_line(_json(value)))}</span>'
    first = plain_line(value.strip()[: _LINE - 20])
    rest = f"\n… {len(value) - room:,} more characters" if len(value) > room else ""
    summary = (
        f'{before}<span class="loom-text">"{escape(first)}…</span> <span class="loom-count">{len(value):,} characters</span>'
    )
    return f'<details><summary>{summary}</summary><pre style="white-space:pre-wrap">{escape(value[:room] + rest)}</pre></details>'


def tree_plain(value: Any, most: int = 60) -> str:
    """A JSON value as indented text of at most `most` lines."""
    lines = list(islice(_lines(value), most + 1))
    cut = (line if len(line) <= _PLAIN else line[: _PLAIN - 1] + "…" for line in lines[:most])
    return "\n".join([*map(plain_line, cut), *(["…"] if len(lines) > most else [])])


def _lines(value: Any) -> Iterator[str]:
    """Indented JSON line by line: a large value is not written whole for its first lines."""
    line = ""
    for piece in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(value):
        *whole, last = (line + piece).split("\n")
        yield from whole
        line = last
    yield line


def _items(value: Any, start: int) -> Iterator[tuple[PathStep, Any]]:
    if isinstance(value, Mapping):
        yield from islice(value.items(), start, None)
    elif isinstance(value, list):
        for i in range(start, len(value)):
            yield i, value[i]


def _branches(value: Any) -> bool:
    """Whether a value has a branch of its own, and is not written on its line."""
    if not isinstance(value, (Mapping, list)) or not value:
        return False
    if len(value) > _INLINE // 3 or any(isinstance(v, (Mapping, list)) for v in _values(value)):
        return True
    return len(_json(value)) > _INLINE


def _values(value: Any) -> Sequence[Any]:
    return list(value.values()) if isinstance(value, Mapping) else value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _key(step: PathStep) -> str:
    text = plain_line(str(step))
    return f'<b class="loom-key">{escape(text if len(text) <= _LINE else text[: _LINE - 1] + "…")}</b>'


def _left_out(path: _Path, start: int, said: str, code: str) -> str:
    """`said` is HTML."""
    marked = f'data-path="{escape(_json(list(path)))}" data-from="{start}"'
    return f'<div class="loom-left" {marked}>{said} <code>{escape(plain_line(code))}</code></div>'


_INSIDE = "margin-left:.4em;padding-left:1em;border-left:1px solid #8885"
