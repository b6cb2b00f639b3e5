"""Questions and confirmations asked in a cell: each is a run of its own, of the definition `ask`, which is always known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomnb.asks import Question, accept_confirmation, accept_questions
from loomnb.jsonvalue import freeze
from loomnb.present import markdown_line
from loomnb.runtime import END, START, AskContent, Envelope, Failure, Move, RunContext, current_attempt

__all__ = ["ASK", "CellQuestions"]

_MOVE = Move(name="answer", from_=START, to=END, wait=True, timeout=0)


class CellQuestions:
    """The definition `ask`. Its args are `{"questions": […]}` or `{"confirm": "…"}`, checked by who starts it."""

    name = "ask"
    title = "Question"
    origin = ""
    fingerprint = "ask-1"
    step_limit = 10
    rests_at_start = True
    runs_ahead = False
    places = (START,)

    def parse_args(self, raw: Any) -> tuple[Any, Any]:
        """As they are: they were checked before."""
        stored = freeze(raw)
        return stored, stored

    def load_args(self, stored: Any) -> Any:
        """As they are."""
        return stored

    def parse_config(self, raw: Any) -> tuple[Any, Any]:
        """There is none."""
        return None, None

    def load_config(self, stored: Any) -> Any:
        """There is none."""
        return None

    def moves_from(self, place: str) -> Sequence[Move] | None:
        """One wait transition, from the start to the end."""
        return (_MOVE,) if place == START else () if place == END else None

    def has_wait(self, name: str) -> bool:
        """Only `answer`."""
        return name == _MOVE.name

    def check_state(self, state: Any) -> Any:
        """There is none."""
        return state

    def ask(self, move: Move, args: Mapping[str, Any]) -> AskContent:
        """The questions, or the confirmation."""
        key = args.get("key", "")
        if "confirm" in args:
            return AskContent(
                kind="confirm", label=f"Please confirm: {markdown_line(args['confirm'])}", context=args["confirm"], key=key
            )
        questions = _questions(args)
        more = len(questions) - 1
        label = questions[0].question + (f" (and {more} more)" if more else "")
        return AskContent(kind="questions", label=label, questions=questions, key=key)

    def accept(self, move: Move, args: Mapping[str, Any], payload: Any) -> Any:
        """The answer, judged by the contract's rules."""
        if "confirm" in args:
            return freeze(accept_confirmation(payload))
        return freeze(accept_questions(_questions(args), payload))

    is_strict = False

    def failure_of(self, exc: Exception, move: Move | None = None) -> Failure:
        """As it is."""
        return Failure.of(exc)

    def shown(self, place: str) -> str:
        """Itself."""
        return place

    def group_of(self, place: str) -> tuple[str, str]:
        """Nothing; its own name is written on it."""
        return "", ""

    def perform(self, move: Move, context: RunContext[Any], state: Any, payload: Any, envelope: Envelope) -> None:
        """The answer is the result."""
        current_attempt().set_result(payload)


def _questions(args: Mapping[str, Any]) -> tuple[Question, ...]:
    return tuple(Question.model_validate(dict(q)) for q in args["questions"])


ASK = CellQuestions()
