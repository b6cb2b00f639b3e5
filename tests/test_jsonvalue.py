"""What a JSON value is: the check on the way in, frozen copies, and changes that can be replayed."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from loomnb.errors import NotJson, ReadOnly
from loomnb.jsonvalue import FrozenDict, FrozenList, apply, changes, dumps, freeze, loads, thaw

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
STATE = st.dictionaries(TEXT, JSON, max_size=5)


def same(a: Any, b: Any) -> bool:
    """Equal as JSON: 1, 1.0 and true are three values."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Model(BaseModel):
    when: date
    n: int = 1


NOT_JSON = [
    (math.nan, "NaN"),
    (math.inf, "infinity"),
    (-math.inf, "minus infinity"),
    ((1, 2), "tuple"),
    ({1, 2}, "set"),
    ({1: "a"}, "int key"),
    ({None: "a"}, "None key"),
    (datetime(2026, 1, 1, tzinfo=UTC), "datetime"),
    (date(2026, 1, 1), "date"),
    (Decimal("1.5"), "Decimal"),
    (UUID(int=1), "UUID"),
    (Path("a"), "Path"),
    (b"bytes", "bytes"),
    (Colour.RED, "enum"),
    (Point(1), "dataclass"),
    (object(), "object"),
    ("\ud800", "half a surrogate pair"),
    ({"\ud800": 1}, "half a surrogate pair as a key"),
    (lambda: 1, "function"),
]


@pytest.mark.parametrize(("value", "what"), NOT_JSON, ids=[what for _, what in NOT_JSON])
def test_what_json_cannot_hold_is_refused(value: Any, what: str) -> None:
    with pytest.raises(NotJson):
        freeze(value)


@pytest.mark.parametrize(("value", "what"), NOT_JSON, ids=[what for _, what in NOT_JSON])
def test_what_json_cannot_hold_is_refused_deep_inside_too(value: Any, what: str) -> None:
    with pytest.raises(NotJson):
        freeze({"a": [{"b": value}]})


def test_a_refusal_says_where_the_value_stands_and_what_to_do() -> None:
    with pytest.raises(NotJson, match=r"\$\.a\[1\]\.b is a tuple") as caught:
        freeze({"a": [0, {"b": (1,)}]})

    assert "list" in caught.value.advice


def test_a_key_that_is_no_text_is_named() -> None:
    with pytest.raises(NotJson, match="the key 1"):
        freeze({1: "a"})


@given(JSON)
def test_every_json_value_comes_back_equal(value: Any) -> None:
    assert same(thaw(freeze(value)), value)


@given(JSON)
def test_the_text_of_a_value_reads_back_equal(value: Any) -> None:
    assert same(loads(dumps(freeze(value))), value)


def test_a_pydantic_model_is_dumped_in_json_mode() -> None:
    assert freeze({"m": Model(when=date(2026, 1, 2))}) == {"m": {"when": "2026-01-02", "n": 1}}


def test_a_frozen_copy_does_not_follow_its_original() -> None:
    original = {"a": [1]}
    frozen = freeze(original)
    original["a"].append(2)

    assert frozen == {"a": [1]}


DICT_WRITES = {
    "item": lambda d: d.__setitem__("a", 1),
    "del": lambda d: d.__delitem__("a"),
    "update": lambda d: d.update(a=1),
    "pop": lambda d: d.pop("a"),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
    "setdefault": lambda d: d.setdefault("z", 1),
    "or": lambda d: d.__ior__({"a": 1}),
}
LIST_WRITES = {
    "item": lambda x: x.__setitem__(0, 1),
    "del": lambda x: x.__delitem__(0),
    "append": lambda x: x.append(1),
    "extend": lambda x: x.extend([1]),
    "insert": lambda x: x.insert(0, 1),
    "pop": lambda x: x.pop(),
    "remove": lambda x: x.remove(1),
    "clear": lambda x: x.clear(),
    "sort": lambda x: x.sort(),
    "reverse": lambda x: x.reverse(),
    "add": lambda x: x.__iadd__([1]),
    "times": lambda x: x.__imul__(2),
}


@pytest.mark.parametrize("write", DICT_WRITES.values(), ids=DICT_WRITES)
def test_a_frozen_dict_refuses_every_write_and_names_the_setter(write: Any) -> None:
    frozen = freeze({"a": 0})

    with pytest.raises(ReadOnly, match="assign_state"):
        write(frozen)
    assert frozen == {"a": 0}


@pytest.mark.parametrize("write", LIST_WRITES.values(), ids=LIST_WRITES)
def test_a_frozen_list_refuses_every_write(write: Any) -> None:
    frozen = freeze([1, 2])

    with pytest.raises(ReadOnly):
        write(frozen)
    assert frozen == [1, 2]


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda v: pickle.loads(pickle.dumps(v)),
    "thaw": thaw,
}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_a_copy_of_frozen_values_is_plain_and_writable(make: Any) -> None:
    copied = make(freeze({"a": [1]}))
    copied["b"] = 2

    assert type(copied) is dict


def test_a_deep_copy_is_writable_to_the_bottom() -> None:
    copied = copy.deepcopy(freeze({"a": [{"b": 1}]}))
    copied["a"][0]["b"] = 2

    assert copied == {"a": [{"b": 2}]}


def test_frozen_values_unpack_and_merge_like_plain_ones() -> None:
    frozen = freeze({"a": [1, 2]})

    assert {**frozen, "b": 1} == {"a": [1, 2], "b": 1}
    assert [*frozen["a"], 3] == [1, 2, 3]
    assert isinstance(frozen, dict)
    assert json.dumps(frozen) == '{"a": [1, 2]}'


def test_what_is_frozen_already_is_kept_as_it_is() -> None:
    inner = freeze({"deep": [1]})

    assert freeze({"a": inner})["a"] is inner


@given(STATE, STATE)
@settings(max_examples=300)
def test_changes_lead_from_the_old_state_to_the_new_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = freeze(old)
    after = freeze(new, before)

    assert same(apply(thaw(before), changes(before, after)), new)


def test_an_equal_value_that_is_assigned_again_is_no_change() -> None:
    before = freeze({"a": ["x", "y"], "b": {"c": 1}})

    assert changes(before, freeze({"a": ["x", "y"], "b": {"c": 1}}, before)) == []


@pytest.mark.parametrize("key", [".", "a.", ".a", "a.b", "$", "*", "", " ", "#", "[0]", "é", 'a"b', "a\\b", "'", "." + '"'])
def test_any_text_may_be_a_key(key: str) -> None:
    before, after = freeze({"deep": {key: {key: 1}}}), freeze({"deep": {key: {key: 2}, "more": 3}})

    assert apply(thaw(before), changes(before, after)) == after


@given(st.lists(JSON, max_size=6), st.lists(JSON, min_size=1, max_size=3))
def test_a_list_that_grew_is_written_by_its_new_items_only(items: list[Any], more: list[Any]) -> None:
    before = freeze({"seen": items})
    after = freeze({"seen": [*before["seen"], *more]}, before)
    expected = [["add", '$."seen"', after["seen"][len(items) :]]] if items else [["set", '$."seen"', after["seen"]]]

    assert changes(before, after) == expected


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (True, 1), (0, False), ("1", 1), (None, 0), ([], {})])
def test_values_that_python_calls_equal_are_changes_of_their_own(old: Any, new: Any) -> None:
    assert changes(freeze({"a": old}), freeze({"a": new})) == [["set", '$."a"', new]]


def test_a_list_whose_old_part_changed_type_is_written_whole() -> None:
    before = freeze({"a": [1, 2]})
    after = freeze({"a": [True, 2, 3]}, before)

    assert apply(thaw(before), changes(before, after))["a"][0] is True


def test_null_is_a_value_and_a_missing_key_is_none() -> None:
    assert changes(freeze({}), freeze({"a": None})) == [["set", '$."a"', None]]
    assert changes(freeze({"a": None}), freeze({})) == [["unset", '$."a"']]


def test_a_list_that_grew_forgets_its_ancestors_once_its_changes_are_told() -> None:
    """Else every earlier list of a run would stay in memory."""
    before = freeze({"a": ["x"]})
    after = freeze({"a": ["x", "y"]}, before)
    changes(before, after)

    assert after["a"].grown_from is None


def test_frozen_types_are_subclasses_of_the_plain_ones() -> None:
    assert issubclass(FrozenDict, dict)
    assert issubclass(FrozenList, list)


def nested(levels: int, container: type) -> Any:
    value: Any = container()
    for _ in range(levels - 1):
        value = [value] if container is list else {"a": value}
    return value


@pytest.mark.parametrize("container", [list, dict])
def test_what_is_nested_too_deep_is_refused_and_all_else_comes_back(container: type) -> None:
    deep = nested(200, container)

    assert thaw(freeze(deep)) == deep == loads(dumps(freeze(deep)))
    for levels in (201, 100_000):
        with pytest.raises(NotJson, match="nested deeper than 200 levels"):
            freeze(nested(levels, container))


@pytest.mark.parametrize("container", [list, dict])
def test_what_grows_deeper_around_frozen_values_is_refused_in_time(container: type) -> None:
    value = freeze(container())
    for _ in range(199):
        value = freeze([value] if container is list else {"a": value})

    with pytest.raises(NotJson, match="nested deeper"):
        freeze([value])


def test_what_holds_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["me"] = value

    with pytest.raises(NotJson, match="holds itself"):
        freeze(value)


def test_an_integer_that_python_could_not_read_back_is_refused() -> None:
    assert loads(dumps(freeze(10**3_999))) == 10**3_999
    with pytest.raises(NotJson, match="digits"):
        freeze({"n": 10**5_000})
