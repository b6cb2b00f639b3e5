"""What a JSON value is here: check it, copy it, freeze it, write it.

Strict on the way in: no NaN, no tuples, no keys that are not text, no dates, no class instances. Nothing is stringified
for you, because a value that comes back as something else is found only after a restart. A pydantic model is dumped in
JSON mode.

Freezing copies and checks only what is new: containers that are already frozen are kept as they are. A list that grew at
its end shares the check of its old part, and remembers what it grew from, so that a run whose state collects n items
writes O(n) bytes and not O(n²).
"""

from __future__ import annotations

import json
import math
import operator
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, cast

from loomnb.errors import NotJson, ReadOnly

__all__ = ["FrozenDict", "FrozenList", "Json", "apply", "changes", "dumps", "freeze", "loads", "thaw"]

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

_ADVICE = "State is read-only in a body: write it with self.assign_state(...) or self.set_state(...)."


def _refuse(*_: object, **__: object) -> NoReturn:
    raise ReadOnly("This value cannot be changed in place.", advice=_ADVICE)


class _Strict(threading.local):
    """Whether frozen containers of this thread compare strictly just now: see `_begins_with`."""

    on = False


_STRICT = _Strict()


class FrozenDict(dict[str, Any]):
    """A dict that cannot be changed. Copies (`copy`, `deepcopy`, `dict(...)`, `{**d}`, `|`) are plain and writable."""

    __slots__ = ("depth",)

    depth: int
    """How many containers are within one another, this one included. Only what `freeze` made has it."""

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __eq__(self, other: object) -> bool:
        return _is_same(self, other) if _STRICT.on else dict.__eq__(self, other)

    __hash__ = None  # as for a dict

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: object) -> dict[str, Any]:
        return cast("dict[str, Any]", thaw(self))

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list that cannot be changed. Copies (`copy`, `deepcopy`, slices, `[*x]`, `+`) are plain and writable."""

    __slots__ = ("depth", "grown_from", "has_numbers")

    depth: int
    """As for a dict."""
    grown_from: FrozenList | None
    """The list whose elements are this one's beginning. Forgotten once `changes` has told it."""
    has_numbers: bool
    """Whether an element of its own is a number or a boolean, which `==` cannot tell apart (1 == 1.0 == True)."""

    __setitem__ = __delitem__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __iadd__ = __imul__ = _refuse

    def __eq__(self, other: object) -> bool:
        return _is_same(self, other) if _STRICT.on else list.__eq__(self, other)

    __hash__ = None  # as for a list

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: object) -> list[Any]:
        return cast("list[Any]", thaw(self))

    def __reduce__(self) -> Any:
        return list, (list(self),)


def _is_same(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same, types included; a frozen container is the same as an equal plain one."""
    if a is b:
        return True
    if isinstance(a, dict):
        return isinstance(b, dict) and len(a) == len(b) and all(k in b and _is_same(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(_is_same, a, b))
    return type(a) is type(b) and bool(a == b)


def freeze(value: Any, was: Any = None, path: str = "$", level: int = 0) -> Any:
    """A frozen copy of `value`, checked to be JSON.

    Args:
        value: the value; a pydantic model (also nested) is dumped in JSON mode.
        was: the frozen value it replaces, if any: a hint that makes a grown list cheap.
        path: where it stands, for the error message.
        level: how many containers it stands in.

    Raises:
        NotJson: `value` holds something JSON cannot; the message says what and where.
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        _check_size(value, path)
        return value
    if kind is str:
        if not value.isascii():
            _check_text(value, path)
        return value
    if kind is FrozenDict or kind is FrozenList:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise NotJson(f"{path} is {value!r}: JSON has no such number.", advice="Store None or a text instead.")
        return value
    if kind is dict:
        return _freeze_dict(value, was, path, level)
    if kind is list:
        return _freeze_list(value, was, path, level)
    dump = getattr(value, "model_dump", None)
    if dump is not None and hasattr(kind, "model_fields"):
        return freeze(dump(mode="json"), was, path, level)
    if isinstance(value, FrozenDict):  # the live state of a move: a subclass that its own setters write
        return _freeze_dict(value, was, path, level)
    hint = {
        "tuple": "use a list",
        "set": "use a list",
        "datetime": "use value.isoformat()",
        "date": "use value.isoformat()",
        "Decimal": "use str(value) or float(value)",
        "UUID": "use str(value)",
        "Path": "use str(value)",
        "PosixPath": "use str(value)",
        "bytes": "use base64 text",
        "ndarray": "use value.tolist()",
        "DataFrame": "use value.to_dict('records')",
        "coroutine": "await it first",
    }.get(kind.__name__, "store the plain values it holds (for an enum: its .value)")
    raise NotJson(f"{path} is a {kind.__name__}: only JSON values are stored.", advice=f"Fix: {hint}.")


_MOST_DIGITS = 4_000  # Python refuses to write or read integers of more than 4,300 digits
_MOST_BITS = int(_MOST_DIGITS * math.log2(10))
_DEEPEST = 200  # levels; at some more, whether it can be read back would depend on how deep the reader's own stack is


def _check_size(value: int, path: str) -> None:
    if value.bit_length() > _MOST_BITS:
        raise NotJson(f"{path} is a number of more than {_MOST_DIGITS:,} digits.", advice="Store it as a text: hex(value).")


def _check_depth(depth: int, path: str) -> None:
    if depth > _DEEPEST:
        where = path if len(path) <= 60 else path[:60] + "…"
        raise NotJson(f"{where} is nested deeper than {_DEEPEST} levels, or holds itself.", advice="Store it flat, or as a text.")


def _depth(values: Iterable[Any]) -> int:
    # An empty state was never frozen, and has none.
    return 1 + max((getattr(v, "depth", 1) for v in values if type(v) is FrozenDict or type(v) is FrozenList), default=0)


def _check_text(value: str, path: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise NotJson(f"{path} holds half of a surrogate pair: it is no valid text.") from exc


def _has_numbers(values: Iterable[Any]) -> bool:
    return any(type(v) in (int, float, bool) for v in values)


def _freeze_dict(value: dict[Any, Any], was: Any, path: str, level: int) -> FrozenDict:
    _check_depth(level, path)
    old: Mapping[str, Any] = was if isinstance(was, FrozenDict) else {}
    out = {}
    for key, item in value.items():
        if type(key) is not str:
            raise NotJson(f"{path} has the key {key!r}: JSON keys are text.", advice=f"Fix: use {str(key)!r}.")
        if not key.isascii():
            _check_text(key, path)
        kind = type(item)
        if item is None or kind is bool or (kind is str and item.isascii()) or kind is FrozenDict or kind is FrozenList:
            out[key] = item  # most are such: not worth a call, and a path that nobody reads
        else:
            out[key] = freeze(item, old.get(key), f"{path}.{key}", level + 1)
    frozen = FrozenDict(out)
    frozen.depth = _depth(out.values())
    _check_depth(frozen.depth, path)  # on the way up too: what was frozen before is not walked again
    return frozen


def _freeze_list(value: list[Any], was: Any, path: str, level: int) -> FrozenList:
    _check_depth(level, path)
    if type(was) is FrozenList and was and _begins_with(value, was):
        tail = [freeze(item, None, f"{path}[{i}]", level + 1) for i, item in enumerate(value[len(was) :], len(was))]
        frozen = FrozenList(was)
        list.extend(frozen, tail)
        frozen.has_numbers = was.has_numbers or _has_numbers(tail)
        frozen.grown_from = was
        frozen.depth = max(was.depth, _depth(tail))
    else:
        frozen = FrozenList(freeze(item, None, f"{path}[{i}]", level + 1) for i, item in enumerate(value))
        frozen.has_numbers = _has_numbers(frozen)
        frozen.grown_from = None
        frozen.depth = _depth(frozen)
    _check_depth(frozen.depth, path)
    return frozen


def _begins_with(value: list[Any], was: FrozenList) -> bool:
    """Whether the first elements of `value` are exactly those of `was`.

    A run whose list grows does this at every move, so it must not cost Python code for each element. List equality runs in C
    and calls no `__eq__` for identical elements; for the few that are not identical, frozen containers compare strictly while
    the flag is up. Elements that are numbers themselves are left: there, identity has to confirm what `==` says.
    """
    n = len(was)
    if len(value) < n:
        return False
    head = value[:n]
    _STRICT.on = True
    try:
        if head != was:
            return False
    except Exception:  # noqa: BLE001  # an element's own __eq__ raised: it is refused when it is looked at by itself
        return False
    finally:
        _STRICT.on = False
    return not was.has_numbers or all(map(operator.is_, head, was))


def thaw(value: Any) -> Any:
    """A plain, writable deep copy of a JSON value."""
    if isinstance(value, dict):
        return {k: v if type(v) in _SCALARS else thaw(v) for k, v in value.items()}
    if isinstance(value, list):
        return [v if type(v) in _SCALARS else thaw(v) for v in value]
    return value


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _path(parent: str, key: str) -> str | None:
    """The child's JSON path in DuckDB's notation; None where a key cannot be written in it."""
    return None if not key or '"' in key or "\\" in key else f'{parent}."{key}"'


def changes(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "$") -> list[list[Any]]:
    """What to do to `old` to get `new`: a list of ["set", path, value], ["add", path, [items]], ["unset", path].

    Both must be frozen. Paths are DuckDB JSON paths, so that a view can replay them with `json_set`. What lists remember
    of their growth is forgotten here: else every earlier list of a run would stay in memory.
    """
    ops: list[list[Any]] = []
    for key, value in new.items():
        before = old.get(key)
        if before is value and (value is not None or key in old):
            continue
        where = _path(path, key)
        if where is None:
            return _set(path, new)
        ops.extend(_change(before, value, where) if key in old else _set(where, value))
    for key in old:
        if key not in new:
            where = _path(path, key)
            if where is None:
                return _set(path, new)
            ops.append(["unset", where])
    return ops


def _change(before: Any, value: Any, path: str) -> list[list[Any]]:
    if type(value) is FrozenList and type(before) is FrozenList:
        base: FrozenList | None = value
        while base is not None and base is not before:
            base = base.grown_from
        if base is not None:
            value.grown_from = None
            return [["add", path, value[len(before) :]]] if len(value) > len(before) else []
    elif type(value) is FrozenDict and type(before) is FrozenDict and before:
        return changes(before, value, path)
    elif type(value) is type(before) and not isinstance(value, (dict, list)) and value == before:
        return []
    return _set(path, value)


def _set(path: str, value: Any) -> list[list[Any]]:
    _forget_growth(value)
    return [["set", path, value]]


def _forget_growth(value: Any) -> None:
    if type(value) is FrozenList:
        value.grown_from = None
        for item in value:
            _forget_growth(item)
    elif isinstance(value, dict):
        for item in value.values():
            _forget_growth(item)


def apply(state: Any, ops: Iterable[Sequence[Any]]) -> Any:
    """Replay `changes` onto a plain (thawed) value and return it; it may be changed in place."""
    for op, path, *rest in ops:
        keys = _keys(path)
        if not keys:
            state = thaw(rest[0])
            continue
        target = state
        for key in keys[:-1]:
            target = target[key]
        if op == "set":
            target[keys[-1]] = thaw(rest[0])
        elif op == "add":
            target[keys[-1]].extend(thaw(rest[0]))
        else:
            target.pop(keys[-1], None)
    return state


def _keys(path: str) -> list[str]:
    # No key in a path holds a quote (see _path), but it may begin or end with a dot.
    return re.findall(r'\."([^"]*)"', path)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def dumps(value: Any) -> str:
    """Compact JSON text of a value that was checked before."""
    return _encode(value)


def loads(text: str) -> Any:
    """The plain value of JSON text."""
    return json.loads(text)
