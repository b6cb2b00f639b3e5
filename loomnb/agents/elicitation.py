"""Questions of an agent: those it begins with (`intake`), and those the model asks with the built-in tool `ask`.

Both wait like an approval and are put on record as calls of `ask`. Rules: contracts/agents.md §1.4, "ask / intake".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from loomnb.agents.spi import AnswersReply, ChatMessage
from loomnb.agents.tool_errors import ToolInputInvalidError
from loomnb.errors import AnswerInvalid, DefinitionError, fields_from_pydantic
from loomnb.runtime import ModelTool

__all__ = [
    "ASK_TOOL",
    "AskInput",
    "Intake",
    "IntakeQuestion",
    "accept_answers",
    "ask_definition",
    "check_ask",
    "check_intake",
    "intake_message",
    "intake_request",
    "is_unanswered_intake",
    "settle_answers",
]

ASK_TOOL = "ask"
_INTAKE = "intake-"
_MOST = 5
_MOST_DIGITS = 30


class _Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="forbid", frozen=True
    )


class Choice(_Model):
    """One way to answer."""

    value: str = Field(min_length=1)
    label: str = ""
    description: str = ""


class AskInput(_Model):
    """A typed answer. Answers are texts all the same, in one form: decimal numbers, true/false, YYYY-MM-DD."""

    type: Literal["text", "textarea", "number", "boolean", "date", "email", "url", "select"] = "text"
    placeholder: str = ""
    required: bool = False
    min: float | None = None
    max: float | None = None
    pattern: str | None = None

    @field_validator("pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as exc:
            raise ValueError(f"this is no pattern: {exc}") from exc
        return pattern


class IntakeQuestion(_Model):
    """A question: to pick from `options` (one, or several with `multiple`), or to fill in (`input`).

    `defaults` is what counts when nobody says otherwise; a question to pick from must have some.
    """

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    options: list[Choice] = Field(default_factory=list[Choice])
    multiple: bool = False
    defaults: list[str] = Field(default_factory=list[str])
    input: AskInput | None = None

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        if self.options and not self.defaults:
            raise ValueError("a question to pick from needs defaults: what counts when nobody answers")
        known = {o.value for o in self.options}
        if self.options and not set(self.defaults) <= known:
            raise ValueError(f"the defaults {sorted(set(self.defaults) - known)} are none of the options")
        if len(self.defaults) > 1 and not self.multiple:
            raise ValueError("only one can be picked, so it has only one default")
        if self.input is not None and self.input.type == "select" and not self.options:
            raise ValueError("a question to pick from needs options")
        return self


class _Ask(_Model):
    questions: list[IntakeQuestion] = Field(min_length=1, max_length=_MOST)
    preamble: str = ""

    @model_validator(mode="after")
    def _ids_differ(self) -> Self:
        ids = [q.id for q in self.questions]
        if len(set(ids)) < len(ids):
            raise ValueError("two questions have the same id")
        return self


class Intake(_Ask):
    """The questions an agent begins with. `when`: at the start of a thread, or at every turn."""

    when: Literal["thread-start", "every-turn"] = "thread-start"


def ask_definition() -> ModelTool:
    """The tool `ask`, as the model is told of it."""
    return ModelTool(
        name=ASK_TOOL,
        description="Ask the person up to five questions at once and wait for the answers. Use it when you cannot go on sensibly "
        "without them; give each question to pick from its most likely options as defaults.",
        input_schema=_Ask.model_json_schema(by_alias=True),
    )


def check_intake(intake: Any) -> Intake | None:
    """The questions an agent begins with, checked.

    Raises:
        DefinitionError: they are none.
    """
    if intake is None or isinstance(intake, Intake):
        return intake
    try:
        return Intake.model_validate(intake)
    except ValidationError as exc:
        told = "; ".join(f"{path}: {text}" if path else text for path, text in fields_from_pydantic(exc).items())
        raise DefinitionError(
            f"These are no questions to begin with: {told}",
            advice='Write intake={"questions": [{"id": "goal", "question": "What is it for?"}]}.',
        ) from exc


def check_ask(call: Mapping[str, Any]) -> dict[str, Any]:
    """The request of a call of `ask`.

    Raises:
        ToolInputInvalidError: the model did not ask properly; nobody is bothered.
    """
    try:
        asked = _Ask.model_validate(call["input"])
    except ValidationError as exc:
        issues = [{"path": list(e["loc"]), "message": e["msg"]} for e in exc.errors(include_url=False, include_context=False)]
        raise ToolInputInvalidError(ASK_TOOL, issues) from exc
    return _request(call["id"], "ask", asked)


def intake_request(intake: Intake, run_id: str, has_assistant: bool) -> dict[str, Any]:
    """Whether the questions are asked now, and their request."""
    if intake.when == "thread-start" and has_assistant:
        return {"asked": False}
    return {"asked": True, "request": _request(f"{_INTAKE}{run_id}", "intake", intake)}


def is_unanswered_intake(message: ChatMessage) -> bool:
    """Whether a message of a settled history is the questions that a turn began with, and ended before they were answered."""
    calls, results = message.tool_calls or (), message.tool_results or ()
    return bool(calls) and all(
        str(call["id"]).startswith(_INTAKE) and any(r.get("id") == call["id"] and r.get("error") is not None for r in results)
        for call in calls
    )


def _request(request_id: str, source: str, asked: _Ask) -> dict[str, Any]:
    out: dict[str, Any] = {"id": request_id, "source": source}
    if asked.preamble:
        out["preamble"] = asked.preamble
    out["questions"] = [q.model_dump(mode="json", by_alias=True, exclude_defaults=True) for q in asked.questions]
    return out


def accept_answers(request: Mapping[str, Any], payload: Any) -> dict[str, list[str]]:
    """Answers by question id, each a list of texts in their one form.

    Args:
        request: what was asked.
        payload: question id → a value or a list of them; None, or left out: its defaults.

    Raises:
        AnswerInvalid: an unknown question, a value that is none of the options, or one that does not fit its input.
    """
    if not isinstance(payload, Mapping):
        raise AnswerInvalid("These answers do not fit.", {"": "answers are a mapping of question id to value"})
    questions = {q["id"]: IntakeQuestion.model_validate(q) for q in request["questions"]}
    errors = {str(name): "no such question was asked" for name in payload if name not in questions}
    out: dict[str, list[str]] = {}
    for name, question in questions.items():
        given = payload.get(name)
        values = [*given] if isinstance(given, (list, tuple)) else [given]
        try:
            said = [_canonical(question, value) for value in values if value is not None and value != ""]
            if len(said) > 1 and not question.multiple:
                raise ValueError("only one can be picked")
            if not said and question.input is not None and question.input.required and not question.defaults:
                raise ValueError("this has to be answered")
        except ValueError as exc:
            errors[name] = str(exc)
            continue
        if said:
            out[name] = said
    if errors:
        raise AnswerInvalid("These answers do not fit.", errors)
    return out


def _canonical(question: IntakeQuestion, value: Any) -> str:
    """A value as the one text that stands for it.

    Raises:
        ValueError: it does not fit; said for the person.
    """
    if not isinstance(value, (str, bool, int, float, date)):
        raise ValueError("answer with a text")  # noqa: TRY004  # one kind of refusal, told to the person
    rule = question.input
    match rule.type if rule is not None else "text":
        case "boolean":
            text = _boolean(value)
        case "number":
            text = _number(rule, value)
        case "date":
            text = _date(value)
        case kind:
            text = _text(kind, rule, str(value))
    if question.options and text not in {o.value for o in question.options}:
        raise ValueError(f"{text!r} is none of: {', '.join(o.value for o in question.options)}")
    return text


def _text(kind: str, rule: AskInput | None, text: str) -> str:
    if kind == "email" and not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", text):
        raise ValueError("this is no e-mail address")
    if kind == "url" and not re.fullmatch(r"https?://\S+", text):
        raise ValueError("write an address that begins with https:// or http://")
    if rule is not None and rule.pattern and not re.fullmatch(rule.pattern, text):
        raise ValueError(f"it does not fit the pattern {rule.pattern}")
    return text


def _boolean(value: Any) -> str:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("answer true or false")
    return text


def _date(value: Any) -> str:
    try:
        return date.fromisoformat(str(value).strip()).isoformat()
    except ValueError:
        raise ValueError("write the date as YYYY-MM-DD") from None


def _number(rule: AskInput | None, value: Any) -> str:
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        number = Decimal("NaN")
    # An exponent is a short way to write a number that fills the memory when it is written out.
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        raise ValueError(f"{value!r} is no number")
    low, high = (rule.min, rule.max) if rule is not None else (None, None)
    if (low is not None and number < Decimal(str(low))) or (high is not None and number > Decimal(str(high))):
        told = [f"{word} {end:g}" for word, end in (("from", low), ("to", high)) if end is not None]
        raise ValueError(f"give a number {' '.join(told)}")
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def settle_answers(request: Mapping[str, Any], reply: AnswersReply) -> dict[str, Any]:
    """What a set of questions came to: the answers, with the defaults for what nobody answered."""
    given = {} if reply.skipped else dict(reply.answers or {})
    answers: dict[str, list[str]] = {}
    defaulted: list[str] = []
    lines: list[str] = []
    for data in request["questions"]:
        question = IntakeQuestion.model_validate(data)
        said = given.get(question.id) or ()
        values = [said] if isinstance(said, str) else [*said]
        if not values:
            values = list(question.defaults)
            defaulted.append(question.id)
        answers[question.id] = values
        labels = {o.value: o.label or o.value for o in question.options}
        lines.append(f"{question.question} {', '.join(labels.get(v, v) for v in values) or '—'}")
    out: dict[str, Any] = {"answers": answers, "skipped": reply.skipped, "defaulted": defaulted, "summary": "\n".join(lines)}
    out |= {"answeredBy": reply.answered_by} if reply.answered_by else {}
    return out | ({"answeredVia": reply.answered_via} if reply.answered_via else {})


def intake_message(call: Mapping[str, Any], output: Mapping[str, Any]) -> ChatMessage:
    """The message that tells the model of the answers: a call of `ask` with its result."""
    result = {"id": call["id"], "name": call["name"], "output": output}
    return ChatMessage(role="assistant", content="", tool_calls=[dict(call)], tool_results=[result])
