"""The four IntLoom schemas of questions and confirmations, with their exact rules.

Rules (contracts/blueprints.md §1.9): objects are strict, unknown keys are refused, nothing is coerced, text is kept to the
letter. Only a given answer needs a character that is not white space. Optional means left out: an explicit null is refused.
On the JSON side the names are camelCase; in Python they are snake_case, and both are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter
from pydantic.alias_generators import to_camel

__all__ = [
    "Answered",
    "Confirmation",
    "ConfirmationRequest",
    "Option",
    "Question",
    "Skipped",
    "user_answer_confirmation_schema",
    "user_answer_questions_schema",
    "user_ask_confirmation_schema",
    "user_ask_questions_schema",
]


class Shape(BaseModel):
    """A strict JSON shape: camelCase outside, snake_case inside."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="forbid", strict=True, frozen=True
    )

    def dump(self) -> dict[str, Any]:
        """The camelCase JSON of what was given; what was left out stays out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


Text = Annotated[str, Field(min_length=1)]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("an answer needs at least one character that is not white space")
    return text


class Option(Shape):
    """One suggestion for an answer."""

    id: Text
    label: Text
    description: str = ""


class Question(Shape):
    """One question. Options are suggestions: any text that is not blank may be the answer."""

    id: Text
    question: Text
    is_skippable: bool
    description: str = ""
    options: list[Option] = []


class Skipped(Shape):
    """A question that was left out."""

    question_id: Text
    is_skipped: Literal[True]


class Answered(Shape):
    """A question that was answered."""

    question_id: Text
    is_skipped: Literal[False]
    answer: Annotated[str, AfterValidator(_not_blank)]


class ConfirmationRequest(Shape):
    """What is to be confirmed; Markdown."""

    context: Text


class Confirmation(Shape):
    """The verdict on a confirmation. It is true when it was confirmed, so that `if verdict:` says what it means."""

    is_confirmed: bool
    feedback: str = None  # type: ignore[assignment]  # left out is None here, and an explicit null is still refused

    def __bool__(self) -> bool:
        return self.is_confirmed


user_ask_questions_schema: TypeAdapter[list[Question]] = TypeAdapter(Annotated[list[Question], Field(min_length=1)])


def _which(item: Any) -> str | None:
    is_mapping = isinstance(item, Mapping)
    flag = item.get("isSkipped", item.get("is_skipped")) if is_mapping else getattr(item, "is_skipped", None)
    # By identity: a plain discriminator takes 1 for True, and nothing is coerced here.
    return "skipped" if flag is True else "answered" if flag is False else None


_ANSWER = Annotated[
    Annotated[Skipped, Tag("skipped")] | Annotated[Answered, Tag("answered")],
    Discriminator(_which, custom_error_type="is_skipped", custom_error_message="isSkipped must be true or false"),
]

user_answer_questions_schema: TypeAdapter[list[Skipped | Answered]] = TypeAdapter(list[_ANSWER])
user_ask_confirmation_schema: TypeAdapter[ConfirmationRequest] = TypeAdapter(ConfirmationRequest)
user_answer_confirmation_schema: TypeAdapter[Confirmation] = TypeAdapter(Confirmation)
