"""A form as data: one control per flat field, and from what a form sends to a payload."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict  # pydantic refuses the one of typing before Python 3.12

from loomnb.asks import Field, Form, Schema, form_of, payload_of
from loomnb.errors import AnswerInvalid, DefinitionError


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Inner(BaseModel):
    n: int


class All(BaseModel):
    name: str
    age: int
    weight: float = 1.5
    sure: bool = False
    colour: Literal["red", "green"] = "red"
    size: Size = Size.SMALL
    note: str | None = None
    inner: Inner | None = None
    tags: list[str] = []


def form(type_: Any) -> Form:
    found = form_of(Schema(type_, "test"))
    assert found is not None
    return found


def field(type_: Any, name: str) -> Field:
    return next(f for f in form(type_).fields if f.name == name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("name", "text"),
        ("age", "integer"),
        ("weight", "number"),
        ("sure", "boolean"),
        ("colour", "choice"),
        ("size", "choice"),
        ("note", "text"),
        ("inner", "object"),
        ("tags", "array"),
    ],
)
def test_a_field_is_the_control_of_its_type(name: str, kind: str) -> None:
    assert field(All, name).kind == kind


def test_no_schema_is_no_form() -> None:
    assert form_of(None) is None


def test_the_fields_keep_the_schemas_order() -> None:
    assert [f.name for f in form(All).fields] == list(All.model_fields)


def test_only_fields_without_a_default_are_required() -> None:
    assert [f.name for f in form(All).fields if f.required] == ["name", "age"]


def test_a_default_is_filled_in() -> None:
    assert field(All, "weight").default == 1.5


def test_choices_are_the_values_with_a_label() -> None:
    assert [(c.value, c.label) for c in field(All, "size").choices] == [("small", "small"), ("large", "large")]


def test_an_optional_field_may_be_null() -> None:
    assert (field(All, "note").nullable, field(All, "note").required) == (True, False)


def test_a_title_and_a_description_are_the_label_and_the_help() -> None:
    class Asked(BaseModel):
        n: int = pydantic.Field(title="How many?", description="At most **three**", ge=1, le=3)

    asked = field(Asked, "n")

    assert (asked.label, asked.help, asked.minimum, asked.maximum) == ("How many?", "At most **three**", 1, 3)


def test_a_plain_type_is_one_raw_field() -> None:
    plain = form(int)

    assert (plain.raw, [f.kind for f in plain.fields]) == (True, ["integer"])


@dataclass
class AsDataclass:
    n: int
    s: str = "x"


class AsTypedDict(TypedDict):
    n: int
    s: str


@pytest.mark.parametrize("type_", [AsDataclass, AsTypedDict], ids=lambda t: t.__name__)
def test_whatever_pydantic_takes_makes_a_form(type_: Any) -> None:
    assert [(f.name, f.kind) for f in form(type_).fields] == [("n", "integer"), ("s", "text")]


def test_what_pydantic_cannot_take_is_refused_by_name() -> None:
    class Strange:
        pass

    with pytest.raises(DefinitionError, match=r"Flow\.ask"):
        Schema(Strange, "Flow.ask")


class Unfinished(BaseModel):
    part: "NotYet"  # type: ignore[name-defined]  # noqa: F821, UP037


@pytest.mark.parametrize("type_", [Unfinished, list["NotYet"], "NotYet"], ids=str)  # type: ignore[name-defined]  # noqa: F821
def test_a_schema_that_names_what_is_not_there_is_refused_when_it_is_made(type_: Any) -> None:
    with pytest.raises(DefinitionError, match=r"Flow\.ask.* name 'NotYet' is not defined") as caught:
        Schema(type_, "Flow.ask")

    assert "Define every class it names" in caught.value.advice


def test_a_recursive_schema_still_makes_a_form() -> None:
    class Node(BaseModel):
        name: str
        next: Node | None = None

    Node.model_rebuild()

    assert [f.kind for f in form(Node).fields] == ["text", "json"]


def test_a_form_survives_its_json() -> None:
    made = form(All)

    assert Form.model_validate(made.model_dump(mode="json", exclude_defaults=True)) == made


def payload(type_: Any, values: Any) -> Any:
    return payload_of(form(type_), values)


def test_texts_become_what_their_fields_say() -> None:
    sent = {"name": " Ann ", "age": " 42 ", "weight": "2.5", "sure": True, "colour": "green", "tags": '["a"]'}

    assert payload(All, sent) == {
        "name": " Ann ",
        "age": 42,
        "weight": 2.5,
        "sure": True,
        "colour": "green",
        "note": None,
        "inner": None,
        "tags": ["a"],
    }


def test_a_blank_field_with_a_default_is_left_to_the_schema() -> None:
    assert "weight" not in payload(All, {"name": "x", "age": "1", "weight": ""})


def test_a_blank_nullable_field_is_null() -> None:
    assert payload(All, {"name": "x", "age": "1", "note": ""})["note"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("age", "old"), ("age", "1.5"), ("weight", "heavy"), ("weight", "nan"), ("weight", "inf"), ("inner", "{n:1"), ("age", "")],
)
def test_what_cannot_be_read_is_an_error_at_its_field(name: str, value: str) -> None:
    with pytest.raises(AnswerInvalid) as caught:
        payload(All, {"name": "x", "age": "1"} | {name: value})

    assert set(caught.value.fields) == {name}


def test_a_required_field_that_was_not_sent_is_an_error() -> None:
    with pytest.raises(AnswerInvalid) as caught:
        payload(All, {})

    assert set(caught.value.fields) == {"name", "age"}


def test_every_wrong_field_is_told_at_once() -> None:
    with pytest.raises(AnswerInvalid) as caught:
        payload(All, {"age": "x", "weight": "y"})

    assert set(caught.value.fields) == {"name", "age", "weight"}


def test_an_empty_text_is_an_answer_to_a_required_text() -> None:
    """The schema says whether it is long enough."""
    assert payload(All, {"name": "", "age": "1"})["name"] == ""


def test_a_raw_form_gives_the_value_itself() -> None:
    assert payload(int, {"data": "3"}) == 3


def test_a_choice_of_numbers_gives_the_number() -> None:
    class Rated(BaseModel):
        stars: Literal[1, 2, 3]

    assert payload(Rated, {"stars": "2"}) == {"stars": 2}


def test_a_button_sends_nothing() -> None:
    assert payload_of(None, {}) is None


def test_a_constrained_type_is_the_control_of_its_base() -> None:
    assert form(Annotated[int, pydantic.Field(ge=0)]).fields[0].kind == "integer"
