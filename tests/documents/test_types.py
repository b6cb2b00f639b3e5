"""Document types: their names, their schemas, and what a subclass inherits (nothing)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

import loomnb as loom
from loomnb.documents import DocumentType, LlmContextDocument, LlmMessageDocument
from loomnb.errors import DefinitionError, SchemaValidationError


def name_of(class_name: str) -> str:
    return DocumentType.of(type(class_name, (BaseModel,), {})).name


@pytest.mark.case("workflows:A02")
@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("AskUserDocument", "ask_user"),
        ("LlmMessageDocument", "llm_message"),
        ("HTMLDocument", "html"),
        ("Document", "document"),
        ("Note", "note"),
    ],
)
def test_a_document_is_named_by_its_class(class_name: str, name: str) -> None:
    assert name_of(class_name) == name


@pytest.mark.case("workflows:A03")
def test_a_run_of_capitals_is_one_word() -> None:
    assert name_of("OAuthPromptDocument") == "o_auth_prompt"


@pytest.mark.parametrize(
    ("cls", "name", "tags"),
    [
        (loom.MessageDocument, "message", ("ui-message",)),
        (loom.MarkdownDocument, "markdown", ()),
        (loom.PlainDocument, "plain", ()),
        (loom.ErrorDocument, "error", ("error",)),
        (LlmMessageDocument, "llm_message", ("message",)),
        (LlmContextDocument, "llm_context", ("message",)),
    ],
)
def test_the_built_in_types_have_their_names_and_tags(cls: type, name: str, tags: tuple[str, ...]) -> None:
    kind = DocumentType.of(cls)

    assert (kind.name, kind.tags) == (name, tags)


@pytest.mark.parametrize(
    ("cls", "data"),
    [
        (loom.MessageDocument, {"text": "no role"}),
        (loom.MessageDocument, {"role": "user", "extra": 1}),
        (loom.MarkdownDocument, {}),
        (loom.MarkdownDocument, {"markdown": 3}),
        (loom.PlainDocument, {"markdown": "x"}),
        (loom.ErrorDocument, {"error": "x", "code": 1}),
    ],
)
def test_a_built_in_document_is_strict(cls: type, data: Any) -> None:
    with pytest.raises(SchemaValidationError):
        DocumentType.of(cls).validated(data)


def test_a_message_may_have_no_text() -> None:
    assert DocumentType.of(loom.MessageDocument).validated({"role": "user"}) == {"role": "user", "text": None}


def test_a_decorator_gives_name_title_and_tags() -> None:
    @loom.document(name="invoice", title="An invoice", tags=["money"])
    class Bill(BaseModel):
        total: int

    kind = DocumentType.of(Bill)

    assert (kind.name, kind.title, kind.tags) == ("invoice", "An invoice", ("money",))


def test_a_subclass_starts_afresh() -> None:
    @loom.document(name="invoice", title="An invoice", tags=["money"], internal=True)
    class Bill(BaseModel):
        total: int

    @loom.document()
    class LateBill(Bill):
        pass

    class PaidBill(Bill):
        pass

    for cls, name in ((LateBill, "late_bill"), (PaidBill, "paid_bill")):
        kind = DocumentType.of(cls)
        assert (kind.name, kind.title, kind.tags, kind.internal) == (name, "", (), False)


def test_a_class_without_a_schema_is_refused_where_it_is_defined() -> None:
    with pytest.raises(DefinitionError, match="Bare"):

        @loom.document()
        class Bare:
            pass


@dataclass
class AsDataclass:
    n: int


class AsTypedDict(TypedDict):
    n: int


class AsModel(BaseModel):
    n: int


@pytest.mark.parametrize("cls", [AsDataclass, AsModel, AsTypedDict], ids=lambda c: c.__name__)
def test_a_document_may_be_what_pydantic_takes(cls: type) -> None:
    kind = DocumentType.of(cls)

    assert kind.validated({"n": 1}) == {"n": 1}
    assert kind.create({"n": 1}) == cls(n=1)
    assert kind.hydrate({"n": 1}) == cls(n=1)


def test_a_schema_of_its_own_judges_any_class() -> None:
    @loom.document(schema=TypeAdapter(dict[str, int]))
    class Counts:
        a: int

    kind = DocumentType.of(Counts)

    assert kind.validated({"a": 1}) == {"a": 1}
    assert isinstance(kind.create({"a": 1}), Counts)
    assert kind.create({"a": 1}).a == 1


def test_stored_content_is_not_judged_again() -> None:
    """It may have been saved with validate="skip", or by an older definition."""
    document = DocumentType.of(AsModel).hydrate({"n": "many", "more": 1})

    assert isinstance(document, AsModel)
    assert document.n == "many"


def test_a_schema_error_names_the_document_and_every_path() -> None:
    class Inner(BaseModel):
        x: int

    class Deep(BaseModel):
        inner: list[Inner]
        y: int

    with pytest.raises(SchemaValidationError, match="'deep'") as caught:
        DocumentType.of(Deep).validated({"inner": [{"x": "a"}]})

    assert set(caught.value.fields) == {"inner.0.x", "y"}


def test_a_models_message_drops_what_is_not_its_own_and_leaves_out_what_it_has_not() -> None:
    content = DocumentType.of(LlmMessageDocument).validated({"role": "user", "text": "hi", "colour": "red"})

    assert content == {"role": "user", "text": "hi"}


@pytest.mark.parametrize("content", [{"role": "system", "text": "x"}, {"text": "x"}, {"role": "user", "blocks": "x"}])
def test_a_models_message_that_is_none_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(SchemaValidationError):
        DocumentType.of(LlmMessageDocument).validated(content)


def test_context_for_a_model_is_hidden_from_people() -> None:
    assert (DocumentType.of(LlmContextDocument).internal, DocumentType.of(LlmMessageDocument).internal) == (True, False)
