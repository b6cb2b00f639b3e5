"""Sub-workflows that ask a person: a question with its answer, and a confirmation. Their documents tell both."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from loomnb.asks import Schema, form_of, invalid
from loomnb.documents import document
from loomnb.jsonvalue import freeze
from loomnb.runtime import AskContent, Move, RunContext, TransitionInput
from loomnb.workflows import BaseWorkflow, WorkflowDefinition, refine, transition, workflow

__all__ = [
    "AskUserArgs",
    "AskUserConfirmDocument",
    "AskUserDocument",
    "AskUserOptionsDocument",
    "AskUserWorkflow",
    "ConfirmUserArgs",
    "ConfirmUserDocument",
    "ConfirmUserWorkflow",
]

AskMode = Literal["text", "options", "confirm"]


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


@document(widget={"widget": "text-prompt", "options": {"transition": "user_answered"}})
class AskUserDocument(_Content):
    """A question to be answered in free words, later with its answer."""

    question: str
    answer: str | None = None


@document(widget={"widget": "choices", "options": {"transition": "user_answered"}})
class AskUserOptionsDocument(_Content):
    """A question with options, later with its answer."""

    question: str
    options: list[str]
    allow_custom_answer: bool = Field(default=False, alias="allowCustomAnswer")
    answer: str | None = None


@document(widget={"widget": "confirm-prompt", "options": {"transition": "user_answered"}})
class AskUserConfirmDocument(_Content):
    """A question to be answered yes or no, later with its answer."""

    question: str
    answer: str | None = None


@document(
    widget={
        "widget": "form",
        "options": {
            "properties": {"markdown": {"widget": "markdown-view"}, "confirmed": {"hidden": True}},
            "actions": [
                {"transition": "user_confirmed", "label": "Confirm"},
                {"transition": "user_denied", "label": "Deny", "variant": "outline"},
            ],
        },
    }
)
class ConfirmUserDocument(_Content):
    """What is to be confirmed, in Markdown, later with the verdict."""

    markdown: str
    confirmed: bool | None = None


class AskUserArgs(BaseModel):
    """`{"question", "mode"?, "options"?, "allowCustomAnswer"?}`. The mode is `options` where options are given, else `text`."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    question: str
    mode: AskMode = "text"
    options: list[str] = []
    allow_custom_answer: bool = Field(default=False, alias="allowCustomAnswer")

    @model_validator(mode="before")
    @classmethod
    def _resolve_mode(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("mode") is None:
            return {**data, "mode": "options" if data.get("options") else "text"}
        return data

    @model_validator(mode="after")
    def _answerable(self) -> AskUserArgs:
        if self.mode == "options" and not self.options and not self.allow_custom_answer:
            raise ValueError("mode 'options' needs options: nothing could be answered")
        return self


@lru_cache(maxsize=256)
def _answer_schema(question: str, mode: AskMode, options: tuple[str, ...], allow_custom: bool) -> Schema:
    """What may be answered, and so the form: free words, one of the options, or yes and no."""
    kind: Any = str
    described: dict[str, Any] = {"title": question}
    if mode == "confirm":
        kind = Literal["yes", "no"]
    elif mode == "options" and not allow_custom:
        kind = Literal[options]  # a list of options is a type only at run time
    elif mode == "options":
        described["description"] = "One of these, or your own words: " + ", ".join(options)
    model = create_model("Answer", __config__=ConfigDict(extra="forbid"), answer=(kind, Field(**described)))
    return Schema(model, "ask_user")


class _AskUser(WorkflowDefinition):
    """`ask_user`: its form and what it accepts come from the run's own args."""

    def ask(self, move: Move, args: Any) -> AskContent:
        """The question, with its options."""
        return AskContent(kind="form", label=args.question, form=form_of(self._schema(args)))

    def accept(self, move: Move, args: Any, payload: Any) -> Any:
        """The answer, where it is one that was offered."""
        stored = freeze(payload, None, "the answer")
        schema = self._schema(args)
        try:
            schema.parse(stored)
        except ValidationError as exc:
            raise invalid(exc, form_of(schema), f"The answer to {args.question!r}") from exc
        return stored

    @staticmethod
    def _schema(args: AskUserArgs) -> Schema:
        return _answer_schema(args.question, args.mode, tuple(args.options), args.allow_custom_answer)


class _Answer(BaseModel):
    answer: str


@refine(_AskUser)
@workflow(title="Ask user", schema=AskUserArgs)
class AskUserWorkflow(BaseWorkflow[AskUserArgs]):
    """Ask a person one question and give `{"answer": text}`.

    `AskUserWorkflow().run({"question": "Where to?", "options": ["staging", "production"]}, callback=…)`. An answer that was
    not offered is refused, unless `allowCustomAnswer` is set; with `mode: "confirm"` it is `yes` or `no`. The question stands
    in the documents, under the key `question`, and is replaced by itself with its answer.
    """

    @transition(to="show_question", timeout=0)
    async def begin(self) -> None:
        """There is nothing to prepare: the args were judged at the start."""

    @transition(from_="show_question", to="waiting_for_user")
    async def show_question(self, state: Mapping[str, Any], ctx: RunContext[AskUserArgs]) -> None:
        """Put the question into the documents."""
        self._save(ctx.args, None)

    @transition(from_="waiting_for_user", to="end", wait=True, schema=_Answer)
    async def user_answered(
        self,
        state: Mapping[str, Any],
        input: TransitionInput[_Answer, None],  # noqa: A002  # the contract's word
        ctx: RunContext[AskUserArgs],
    ) -> None:
        """Keep the answer beside its question."""
        self._save(ctx.args, input.data.answer)
        self.set_result({"answer": input.data.answer})

    def _save(self, args: AskUserArgs, answer: str | None) -> None:
        content: dict[str, Any] = {"question": args.question, "answer": answer}
        if args.mode == "options":
            content |= {"options": list(args.options), "allowCustomAnswer": args.allow_custom_answer}
        kinds: dict[AskMode, type[_Content]] = {
            "text": AskUserDocument,
            "options": AskUserOptionsDocument,
            "confirm": AskUserConfirmDocument,
        }
        self.document_store.save(kinds[args.mode].model_validate(content), key="question")


class ConfirmUserArgs(BaseModel):
    """`{"markdown"}`: what is to be confirmed."""

    markdown: str


@workflow(title="Confirm user", schema=ConfirmUserArgs)
class ConfirmUserWorkflow(BaseWorkflow[ConfirmUserArgs]):
    """Show something to a person and give `{"confirmed": bool, "markdown": text}`."""

    @transition(to="waiting_for_confirmation")
    async def show(self, state: Mapping[str, Any], ctx: RunContext[ConfirmUserArgs]) -> None:
        """Put it into the documents."""
        self.document_store.save(ConfirmUserDocument(markdown=ctx.args.markdown), key="content")

    @transition(from_="waiting_for_confirmation", to="end", wait=True)
    async def user_confirmed(
        self,
        state: Mapping[str, Any],
        input: TransitionInput[Any, None],  # noqa: A002  # the contract's word
        ctx: RunContext[ConfirmUserArgs],
    ) -> None:
        """Confirm"""  # noqa: D415  # the label of its button
        self._decide(ctx.args.markdown, confirmed=True)

    @transition(from_="waiting_for_confirmation", to="end", wait=True)
    async def user_denied(
        self,
        state: Mapping[str, Any],
        input: TransitionInput[Any, None],  # noqa: A002  # the contract's word
        ctx: RunContext[ConfirmUserArgs],
    ) -> None:
        """Deny"""  # noqa: D415  # the label of its button
        self._decide(ctx.args.markdown, confirmed=False)

    def _decide(self, markdown: str, *, confirmed: bool) -> None:
        self.document_store.save(ConfirmUserDocument(markdown=markdown, confirmed=confirmed), key="content")
        self.set_result({"confirmed": confirmed, "markdown": markdown})
