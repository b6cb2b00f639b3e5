"""Forms of nested schemas: objects and lists as fields of fields, values as one JSON value, errors at their dotted place."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import BaseModel

from loomnb.asks import Field, Form, Schema, form_of, invalid, payload_of
from loomnb.errors import AnswerInvalid


class Address(BaseModel):
    street: str
    zip_code: str = pydantic.Field(pattern=r"^\d{5}$", default="00000")


class Item(BaseModel):
    name: str = pydantic.Field(min_length=1, max_length=40)
    count: int = pydantic.Field(ge=1, lt=100, multiple_of=2, default=2)
    tags: list[str] = []


class Order(BaseModel):
    home: Address
    work: Address | None = None
    items: list[Item] = pydantic.Field(min_length=1, max_length=3)
    colours: set[Literal["red", "green"]] = pydantic.Field(default_factory=set)
    extra: dict[str, int] = {}
    either: int | str = 1
    price: Decimal = Decimal(1)
    agree: Literal[True]


def form(type_: Any) -> Form:
    made = form_of(Schema(type_, "test"))
    assert made is not None
    return made


def at(fields: list[Field], *names: str) -> Field:
    found = next(f for f in fields if f.name == names[0])
    return at(found.fields or (found.item.fields if found.item else []), *names[1:]) if len(names) > 1 else found


ORDER = form(Order).fields


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (("home",), "object"),
        (("home", "street"), "text"),
        (("work",), "object"),
        (("items",), "array"),
        (("items", "count"), "integer"),
        (("items", "tags"), "array"),
        (("colours",), "array"),
        (("extra",), "json"),
        (("either",), "json"),
        (("price",), "text"),
        (("agree",), "boolean"),
    ],
)
def test_a_nested_type_is_a_nested_field(path: tuple[str, ...], kind: str) -> None:
    assert at(ORDER, *path).kind == kind


def test_two_fields_of_one_class_are_called_by_their_own_names() -> None:
    assert [at(ORDER, name).label for name in ("home", "work")] == ["Home", "Work"]


def test_what_may_be_left_out_is_not_required_deep_down_either() -> None:
    assert [(f.name, f.required) for f in at(ORDER, "home").fields] == [("street", True), ("zip_code", False)]


def test_the_limits_of_a_field_are_told_for_checks_while_typing() -> None:
    count, name, zip_code = at(ORDER, "items", "count"), at(ORDER, "items", "name"), at(ORDER, "home", "zip_code")

    assert (count.minimum, count.maximum, count.exclusive_maximum, count.multiple_of) == (1, 100, True, 2)
    assert (name.min_length, name.max_length, zip_code.pattern) == (1, 40, r"^\d{5}$")
    assert (at(ORDER, "items").min_items, at(ORDER, "items").max_items) == (1, 3)
    assert at(ORDER, "agree").must_tick


def test_a_list_of_choices_has_choices_as_items() -> None:
    item = at(ORDER, "colours").item

    assert item is not None
    assert (item.kind, [c.value for c in item.choices]) == ("choice", ["red", "green"])


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


def test_a_type_that_contains_itself_ends_in_json() -> None:
    children = at(form(Tree).fields, "children")

    assert (children.kind, children.item and children.item.kind) == ("array", "json")


def test_a_plain_list_is_one_raw_field_with_items() -> None:
    made = form(list[Address])

    assert (made.raw, made.fields[0].kind) == (True, "array")
    assert payload_of(made, {"data": [{"street": "x", "zip_code": None}]}) == [{"street": "x"}]


def test_a_schema_may_say_itself_how_a_field_is_drawn() -> None:
    class Note(BaseModel):
        text: str = pydantic.Field(json_schema_extra={"widget": "textarea", "rows": 5, "placeholder": "…", "readOnly": True})
        size: int = pydantic.Field(json_schema_extra={"widget": "nonsense", "hidden": True})

    text, size = form(Note).fields

    assert (text.widget, text.rows, text.placeholder, text.readonly) == ("textarea", 5, "…", True)
    assert (size.widget, size.hidden) == ("", True)


def test_a_nested_form_survives_its_json() -> None:
    made = form(Order)

    assert Form.model_validate(made.model_dump(mode="json", exclude_defaults=True)) == made


SENT = {
    "home": {"street": "Main", "zip_code": ""},
    "work": None,
    "items": [{"name": "Pen", "count": " 4 ", "tags": ["a", ""]}],
    "colours": ["red"],
    "extra": '{"n": 1}',
    "either": "",
    "price": "1.10",
    "agree": True,
}


def test_values_travel_as_one_json_value() -> None:
    assert payload_of(form(Order), SENT) == {
        "home": {"street": "Main"},
        "work": None,
        "items": [{"name": "Pen", "count": 4, "tags": ["a", ""]}],
        "colours": ["red"],
        "extra": {"n": 1},
        "price": "1.10",
        "agree": True,
    }


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"home": {"street": None}}, "home.street"),
        ({"home": None}, "home"),
        ({"items": [{"name": "Pen", "count": "many"}]}, "items.0.count"),
        ({"items": [{"name": "Pen"}, {"name": None}]}, "items.1.name"),
        ({"items": [{"name": "Pen", "tags": [None]}]}, "items.0.tags.0"),
        ({"extra": "{"}, "extra"),
        ({"items": "[1"}, "items"),
    ],
)
def test_what_cannot_be_read_is_an_error_at_its_nested_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(AnswerInvalid) as caught:
        payload_of(form(Order), SENT | change)

    assert list(caught.value.fields) == [place]


def test_a_nested_field_may_be_sent_as_json_text() -> None:
    """By a front end that draws no nested forms."""
    sent = SENT | {"items": '[{"name": "Pen"}]', "home": '{"street": "Main"}'}

    assert payload_of(form(Order), sent)["items"] == [{"name": "Pen"}]


@pytest.mark.parametrize("type_", [Order, Annotated[list[Item], pydantic.Field(min_length=1)]], ids=["object", "list"])
def test_the_schemas_own_errors_keep_their_nested_place(type_: Any) -> None:
    schema = Schema(type_, "test")
    bad = [{"name": "", "count": 3}]
    payload = bad if schema.type is not Order else {**payload_of(form(Order), SENT), "items": bad}

    with pytest.raises(pydantic.ValidationError) as caught:
        schema.parse(payload)

    root = "items" if type_ is Order else "data"
    assert set(invalid(caught.value, form(type_), "It").fields) == {f"{root}.0.name", f"{root}.0.count"}


def test_a_form_filled_with_content_begins_with_it() -> None:
    made = form(Order).filled({"home": {"street": "Main"}, "items": []})

    assert (at(made.fields, "home").default, at(made.fields, "items").default) == ({"street": "Main"}, [])


def test_a_text_emptied_while_editing_is_empty_and_not_its_default() -> None:
    class Note(BaseModel):
        title: str = "Untitled"

    assert payload_of(form(Note).filled({"title": "x"}), {"title": ""}) == {"title": ""}
    assert payload_of(form(Note), {"title": ""}) == {}
