"""What is on record of a step that is under way: the calls it made, so that it can be taken up again after a crash.

A step with live access makes its effects at once, not with the commit of its move. So each of its calls is numbered, at the
call, and what came of it is stored under that number: an effect in the very commit that makes it, a read or a failure with
the next effect. When the step is made again (`run.retry()`), a call whose number is on record returns what is recorded there
instead of happening twice; another call under that number is a replay error. Rule: contracts/decisions.md, Blueprints 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from loomnb.jsonvalue import FrozenDict, freeze

__all__ = ["CallKind", "CallRecord", "SubStep"]

CallKind = Literal["run", "recover"]


@dataclass(frozen=True, slots=True)
class SubStep:
    """One recorded call: what it was, and what came of it."""

    number: int
    name: str
    key: str
    """A hash of its arguments."""
    result: Any = None
    error: Mapping[str, Any] | None = None
    """`{"code", "message", "retryable"}` when it was refused."""

    def to_json(self) -> dict[str, Any]:
        """Its JSON."""
        out: dict[str, Any] = {"n": self.number, "name": self.name, "key": self.key}
        return out | ({"error": dict(self.error)} if self.error is not None else {"result": self.result})

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SubStep:
        """The call of its JSON."""
        return SubStep(data["n"], data["name"], data["key"], freeze(data.get("result")), freeze(data.get("error")))


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """One execution of a step, as the journal knows it.

    Attributes:
        kind: `run` from the step's beginning, or `recover` after a question whose kernel died.
        saved: of a recover, the question and its answer.
        state: the State when this execution began.
        first_state: the State when the step began: what `retry(fresh=True)` goes back to.
        recoverable: whether the step's code can go on after a question in another kernel.
        executing: whether its code has begun and was not heard of since: a crash then interrupts the run.
        asked: the question it waits for: `{"n", "name", "key", "action": {"id", "kind", "request"}}`.
        answered: whether that was answered, and nothing has gone on with the answer yet.
        steps: number → recorded call.
        replays: whether its code may be made again by itself: everything it did is on record as numbered calls, and what was in
            flight is its own business.
        marks: what it had begun, by name: an effect that must not be made twice without asking is marked before it begins.
    """

    kind: CallKind = "run"
    saved: Mapping[str, Any] | None = None
    state: FrozenDict = field(default_factory=FrozenDict)
    first_state: FrozenDict = field(default_factory=FrozenDict)
    recoverable: bool = False
    executing: bool = False
    asked: Mapping[str, Any] | None = None
    answered: bool = False
    steps: dict[int, SubStep] = field(default_factory=dict[int, SubStep])
    replays: bool = False
    marks: set[str] = field(default_factory=set[str])

    def keep(self, subs: Any, marks: Any = ()) -> None:
        """Put recorded calls and marks, as their row has them, on record."""
        self.marks.update(marks)
        for data in subs:
            sub = SubStep.from_json(data)
            self.steps[sub.number] = sub

    def ask(self, asked: Mapping[str, Any]) -> None:
        """It asked, and waits."""
        self.asked, self.answered, self.executing = asked, False, False

    def answer(self, payload: Any) -> None:
        """Its question was answered: one more call on record."""
        if self.asked is not None and not self.answered:
            a = self.asked
            self.steps[a["n"]] = SubStep(a["n"], a["name"], a["key"], payload)
            self.answered = True

    @property
    def is_lost(self) -> bool:
        """Whether nothing can go on with it by itself in another kernel."""
        if self.replays:
            return False
        return self.executing or (self.asked is not None and not self.recoverable)
