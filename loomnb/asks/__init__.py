"""Questions, confirmations and forms as data: request, answer, and the rules that accept an answer. Pure."""

from loomnb.asks.draft_7 import draft_7
from loomnb.asks.forms import RAW, Choice, Field, FieldWidget, Form, Schema, form_of, invalid, payload_of
from loomnb.asks.model import (
    Answers,
    Ask,
    AskKind,
    AskWidget,
    accept_confirmation,
    accept_questions,
    check_confirmation,
    check_questions,
)
from loomnb.asks.schemas import (
    Answered,
    Confirmation,
    ConfirmationRequest,
    Option,
    Question,
    Shape,
    Skipped,
    user_answer_confirmation_schema,
    user_answer_questions_schema,
    user_ask_confirmation_schema,
    user_ask_questions_schema,
)
from loomnb.asks.scripted import NOTHING, Script, read_answers

__all__ = [
    "NOTHING",
    "RAW",
    "Answered",
    "Answers",
    "Ask",
    "AskKind",
    "AskWidget",
    "Choice",
    "Confirmation",
    "ConfirmationRequest",
    "Field",
    "FieldWidget",
    "Form",
    "Option",
    "Question",
    "Schema",
    "Script",
    "Shape",
    "Skipped",
    "accept_confirmation",
    "accept_questions",
    "check_confirmation",
    "check_questions",
    "draft_7",
    "form_of",
    "invalid",
    "payload_of",
    "read_answers",
    "user_answer_confirmation_schema",
    "user_answer_questions_schema",
    "user_ask_confirmation_schema",
    "user_ask_questions_schema",
]
