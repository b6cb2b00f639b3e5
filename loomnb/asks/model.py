"""An ask as data: what is asked, and the rules that accept an answer. Pure: no run, no store, no widget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, overload

from pydantic import BaseModel, ConfigDict, ValidationError

from loomnb.asks.forms import Form
from loomnb.asks.schemas import (
    Answered,
    Confirmation,
    Question,
    Skipped,
    user_answer_confirmation_schema,
    user_answer_questions_schema,
    user_ask_confirmation_schema,
    user_ask_questions_schema,
)
from loomnb.errors import AnswerInvalid, ArgsInvalid, fields_from_pydantic

__all__ = [
    "Answers",
    "Ask",
    "AskKind",
    "AskWidget",
    "accept_confirmation",
    "accept_questions",
    "check_confirmation",
    "check_questions",
]

AskKind = Literal["button", "form", "questions", "confirm", "approval", "elicitation"]


class AskWidget(BaseModel):
    """How an ask is drawn, where its author said so."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    """`prompt-input`, `button`, `button-full-w` or `form`."""
    submit: str = ""
    """What its button says."""
    variant: str = ""
    wide: bool = False
    disabled: bool = False
    """Drawn, but not to be used at this place."""
    hidden: bool = False
    """Not drawn at this place; it is open all the same, and code may answer it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One open question of a run, as it is stored and shown. Everything needed to draw its form is in it."""

    id: str
    name: str
    """What answers it: the wait transition; `answer` for a question asked in a cell."""
    kind: AskKind
    label: str
    description: str = ""
    form: Form | None = None
    questions: tuple[Question, ...] = ()
    context: str = ""
    key: str = ""
    """The `key=` it was asked with; the name it is answered by in `loom.answers`."""
    widget: AskWidget | None = None
    request: Any = None
    """JSON of what is asked, where the other fields do not say it: of an approval, the call it is about."""
    expires_at: datetime | None = None
    """When it is answered with `{"expired": true}` if nobody was faster."""
    opened_at: datetime | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Its JSON, as stored."""
        out: dict[str, Any] = {"id": self.id, "name": self.name, "kind": self.kind, "label": self.label}
        if self.description:
            out["description"] = self.description
        if self.form is not None:
            out["form"] = self.form.model_dump(mode="json", exclude_defaults=True)
        if self.questions:
            out["questions"] = [q.dump() for q in self.questions]
        if self.context:
            out["context"] = self.context
        if self.key:
            out["key"] = self.key
        if self.widget is not None:
            out["widget"] = self.widget.model_dump(mode="json", exclude_defaults=True)
        if self.request is not None:
            out["request"] = self.request
        if self.expires_at is not None:
            out["expires_at"] = self.expires_at.isoformat()
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any], opened_at: datetime | None = None) -> Ask:
        """The ask of its stored JSON."""
        return cls(
            id=data["id"],
            name=data["name"],
            kind=data["kind"],
            label=data["label"],
            description=data.get("description", ""),
            form=Form.model_validate(data["form"]) if "form" in data else None,
            questions=tuple(Question.model_validate(q) for q in data.get("questions", [])),
            context=data.get("context", ""),
            key=data.get("key", ""),
            widget=AskWidget.model_validate(data["widget"]) if "widget" in data else None,
            request=data.get("request"),
            expires_at=datetime.fromisoformat(data["expires_at"]) if "expires_at" in data else None,
            opened_at=opened_at,
        )


class Answers(Sequence[dict[str, Any]]):
    """The answers to questions: the submitted list, in its order, and `answers["env"]` is the text, None when skipped."""

    def __init__(self, items: Sequence[Mapping[str, Any]]) -> None:
        self._items = [dict(item) for item in items]

    @overload
    def __getitem__(self, key: str) -> str | None: ...  # pyright: ignore[reportIncompatibleMethodOverride]  # by question id too
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, key: str | int | slice) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # as above
        if not isinstance(key, str):
            return self._items[key]
        for item in self._items:
            if item["questionId"] == key:
                return item.get("answer")
        raise KeyError(f"no question has the id {key!r}; asked were: {', '.join(i['questionId'] for i in self._items)}")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return self._items == (other._items if isinstance(other, Answers) else other)

    __hash__ = None  # type: ignore[assignment]  # like a list: it compares by content

    def keys(self) -> list[str]:
        """The ids of the questions, so that `dict(answers)` is id → text."""
        return [item["questionId"] for item in self._items]

    def dump(self) -> list[dict[str, Any]]:
        """The contract's camelCase list."""
        return [dict(item) for item in self._items]

    def __repr__(self) -> str:
        return f"Answers({ {i['questionId']: i.get('answer') for i in self._items} })"


def check_questions(questions: object) -> tuple[Question, ...]:
    """The questions, checked and copied.

    Raises:
        ArgsInvalid: they break the schema, or an id stands twice.
    """
    try:
        parsed = user_ask_questions_schema.validate_python(_plain(questions))
    except ValidationError as exc:
        raise ArgsInvalid("These are no questions.", fields_from_pydantic(exc), advice=_QUESTION_ADVICE) from exc
    _unique([q.id for q in parsed], "question id")
    for q in parsed:
        _unique([o.id for o in q.options], f"option id of question {q.id!r}")
    return tuple(parsed)


_QUESTION_ADVICE = 'A question looks like {"id": "env", "question": "Where to?", "isSkippable": False}.'


def _unique(ids: list[str], what: str) -> None:
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise ArgsInvalid(f"The {what} {twice[0]!r} stands twice.", advice="Give each its own id.")


def check_confirmation(context: object) -> str:
    """The text to confirm, checked.

    Raises:
        ArgsInvalid: it is no text, or empty.
    """
    try:
        return user_ask_confirmation_schema.validate_python({"context": context}).context
    except ValidationError as exc:
        raise ArgsInvalid("This cannot be confirmed.", fields_from_pydantic(exc)) from exc


def _plain(value: object) -> Any:
    """Models among plain data dumped, so that one schema reads both."""
    if isinstance(value, (Question, Answered, Skipped, Confirmation)):
        return value.dump()
    if isinstance(value, Answers):
        return value.dump()
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value


def accept_questions(questions: Sequence[Question], payload: object) -> list[dict[str, Any]]:
    """The submitted answers in submitted order, copied.

    Args:
        questions: what was asked.
        payload: the contract's list, or a mapping of question id to text (None skips).

    Raises:
        AnswerInvalid: an unknown, missing, doubled or wrongly skipped question, or a blank answer. `.fields` maps the
            question's id to its error.
    """
    known = {q.id: q for q in questions}
    if isinstance(payload, Mapping):
        payload = [
            {"questionId": k, "isSkipped": True} if v is None else {"questionId": k, "isSkipped": False, "answer": v}
            for k, v in payload.items()
        ]
    items = _plain(payload)
    try:
        parsed = user_answer_questions_schema.validate_python(items)
    except ValidationError as exc:
        raise AnswerInvalid("These answers do not fit.", _question_fields(exc, items)) from exc
    errors: dict[str, str] = {}
    seen: set[str] = set()
    for item in parsed:
        question = known.get(item.question_id)
        if question is None:
            errors[item.question_id] = "no such question was asked"
        elif item.question_id in seen:
            errors[item.question_id] = "answered twice"
        elif isinstance(item, Skipped) and not question.is_skippable:
            errors[item.question_id] = "this question cannot be skipped"
        seen.add(item.question_id)
    errors.update({q.id: "not answered" for q in questions if q.id not in seen})
    if errors:
        raise AnswerInvalid("These answers do not fit.", errors)
    return [item.dump() for item in parsed]


def _question_fields(exc: ValidationError, items: Any) -> dict[str, str]:
    """Errors by question id, where the place in the list tells it."""
    fields: dict[str, str] = {}
    for error in exc.errors(include_url=False, include_context=False, include_input=False):
        name = ""
        loc = error["loc"]
        if loc and isinstance(loc[0], int) and isinstance(items, list) and isinstance(items[loc[0]], dict):
            name = str(items[loc[0]].get("questionId", ""))
        fields.setdefault(name, str(error["msg"]).removeprefix("Value error, "))
    return fields


def accept_confirmation(payload: object) -> dict[str, Any]:
    """The verdict, copied.

    Args:
        payload: True or False, or `{"isConfirmed": …, "feedback": …}`.

    Raises:
        AnswerInvalid: it is neither.
    """
    if isinstance(payload, bool):
        payload = {"isConfirmed": payload}
    try:
        return user_answer_confirmation_schema.validate_python(_plain(payload)).dump()
    except ValidationError as exc:
        raise AnswerInvalid(
            "This is no verdict.", fields_from_pydantic(exc), advice='Use True, False or {"isConfirmed": True, "feedback": "…"}.'
        ) from exc
