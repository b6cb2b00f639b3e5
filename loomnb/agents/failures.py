"""What ends a turn, as errors; and what of it is told to those who only read the stream.

A failure has a code of the contract (`agent_failure_code`). Its text is our own where it is written for readers, and otherwise
that of whatever broke: shown while one develops, and one fixed sentence in production (environment `LOOMNB_ENV=production`).
Errors of single tools are no failures of a turn and live beside the registry. Rule: contracts/agents.md §1.8.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from loomnb.agents.control_flow import is_replay_integrity_error
from loomnb.agents.words import shortened
from loomnb.errors import InvalidRequest, LoomError, Refused, WorldFailed

__all__ = [
    "GENERIC_FAILURE_MESSAGE",
    "AgentFailureCode",
    "BudgetExceededError",
    "ConfirmTokenError",
    "ModelOutputMissing",
    "OutputRejectedError",
    "ProcessorFailedError",
    "QuotaExceededError",
    "RepeatedCallError",
    "RunCancelledError",
    "StructuredOutputError",
    "agent_failure_code",
    "expose_stream_error_details",
    "stream_failure",
]

AgentFailureCode: TypeAlias = Literal[
    "cancelled",
    "quota_exceeded",
    "output_rejected",
    "structured_output_invalid",
    "replay_diverged",
    "model_no_output",
    "run_failed",
]
"""Why a turn ended early, as clients know it."""

GENERIC_FAILURE_MESSAGE = "The assistant ran into a problem and could not finish this answer."
"""All that is told of an error in production when its text was not written for readers."""


class QuotaExceededError(Refused):
    """What may be used in this period is used up. Nothing of the turn was stored."""

    code = "QUOTA_EXCEEDED"

    def __init__(
        self, message: str = "The usage limit for this period is reached.", *, advice: str = "", period: str | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.period = period
        """`day` or `month`, where a QuotaProvider said so."""


class BudgetExceededError(QuotaExceededError):
    """A run has used what it may use; it was stopped before the next call of a model."""

    code = "BUDGET_EXCEEDED"

    def __init__(self, message: str) -> None:
        super().__init__(message, advice="Give it more (Agent(budget=loom.Budget(usd=…, tokens=…))), then run.retry().")


class RepeatedCallError(Refused):
    """A model asks for the same call again and again, and nobody can be asked about it."""

    code = "REPEATED_CALL"

    def __init__(self, tool_name: str, count: int) -> None:
        super().__init__(
            f"The model asked {count} times for the same call of {tool_name!r}, and nobody could be asked whether that is meant.",
            advice="Look at what the tool gives: a result that does not help is asked for again. repeat_guard=None ends this.",
        )
        self.args = (tool_name, count)
        self.tool_name = tool_name
        self.count = count


class RunCancelledError(LoomError):
    """Somebody stopped the run, and the loop has seen it."""

    code = "RUN_CANCELLED"

    def __init__(self, message: str = "The run was stopped.", *, advice: str = "") -> None:
        super().__init__(message, advice=advice)


class OutputRejectedError(WorldFailed):
    """An output processor refused what the model said. It is billed, and nobody reads it.

    Attributes:
        processor: who refused it.
        reason: why, in its words.
    """

    code = "OUTPUT_REJECTED"
    retryable = False

    def __init__(self, processor: str, reason: str) -> None:
        super().__init__(f"The answer was withheld by `{processor}`{f': {reason}' if reason else '.'}")
        self.args = (processor, reason)  # what pickle and copy make it from
        self.processor = processor
        self.reason = reason


class ProcessorFailedError(WorldFailed):
    """A processor broke, so nobody knows whether what it was to judge may pass: it does not.

    Attributes:
        phase: `input` or `output`.
        processor: its name.
        cause: what it raised.
    """

    code = "PROCESSOR_FAILED"
    retryable = False

    def __init__(self, phase: Literal["input", "output"], processor: str, cause: BaseException | None) -> None:
        why = f": {text_of(cause)}" if cause is not None else "."
        super().__init__(f"The {phase} processor `{processor}` failed{why}", cause=cause)
        self.args = (phase, processor, cause)
        self.phase = phase
        self.processor = processor


_TOLD_ISSUES, _TOLD_CHARS = 3, 120


class StructuredOutputError(WorldFailed):
    """The model did not give what the output schema asks for, however often it was asked.

    Attributes:
        issues: of the last attempt: `{"path": [...], "message"}`; empty when its text held no JSON.
        text: what it said last, to the letter.
        attempts: how often it was asked.
        cut_off: whether its last reply reached the limit of output tokens; then it is not asked again with the same limit.
    """

    code = "STRUCTURED_OUTPUT_INVALID"

    def __init__(self, issues: Sequence[Mapping[str, Any]], text: str, attempts: int, cut_off: bool = False) -> None:
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        wrong = [f"{'.'.join(map(str, one.get('path') or ())) or 'the whole'}: {one.get('message')}" for one in issues]
        why = "; ".join(wrong[:_TOLD_ISSUES]) or f"what it said is no JSON: “{text[:_TOLD_CHARS]}”"
        super().__init__(
            "The model's output was cut off at its limit of tokens, so it is no JSON that fits the schema."
            if cut_off
            else f"The model gave no output that fits the schema in {times}: {why}.",
            advice="Raise the limit, settings={'max_tokens': …} of an Agent; or ask for less."
            if cut_off
            else "Make the schema simpler, or allow more repairs: output_repairs= of an Agent.",
        )
        self.args = (issues, text, attempts, cut_off)
        self.cut_off = cut_off
        self.issues = tuple(issues)
        self.text = text
        self.attempts = attempts


class ConfirmTokenError(Refused):
    """A write was to be confirmed with a token that does not confirm it.

    Attributes:
        reason: `invalid` (not of this very call, or too old) or `used` (it confirmed a write already).
    """

    code = "CONFIRM_TOKEN_INVALID"

    def __init__(self, reason: Literal["invalid", "used"], message: str = "") -> None:
        told = {
            "invalid": "This confirmation does not belong to this call, or it is too old.",
            "used": "This confirmation was used already.",
        }
        super().__init__(message or told[reason], advice="Ask for a new preview: call the tool without `confirm`.")
        self.args = (reason, message)
        self.reason = reason


class ModelOutputMissing(WorldFailed):
    """A model ended its turn without an output where there has to be one."""

    code = "MODEL_NO_OUTPUT"

    def __init__(self, message: str = "No output generated: the model ended its turn without one.", *, advice: str = "") -> None:
        super().__init__(message, advice=advice)


_NO_OUTPUT_NAMES = frozenset({"AI_NoOutputGeneratedError", "NoOutputGeneratedError"})
_NO_OUTPUT_TEXT = "No output generated"

_CODES: tuple[tuple[type[LoomError], AgentFailureCode], ...] = (
    (RunCancelledError, "cancelled"),
    (QuotaExceededError, "quota_exceeded"),
    (OutputRejectedError, "output_rejected"),
    (StructuredOutputError, "structured_output_invalid"),
    (ModelOutputMissing, "model_no_output"),
)


def agent_failure_code(error: object) -> AgentFailureCode:
    """The code of whatever ended a turn; `run_failed` for everything that has none of its own. Never raises.

    A missing output is also known by the class names and the text that model libraries give it.
    """
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    if is_replay_integrity_error(error):
        return "replay_diverged"
    if type(error).__name__ in _NO_OUTPUT_NAMES or text_of(error).startswith(_NO_OUTPUT_TEXT):
        return "model_no_output"
    return "run_failed"


def text_of(error: object) -> str:
    """What an error says, without the advice of ours, and of a long text its ends; the name of its class when it says nothing.
    Never raises."""
    try:
        said = error.message if isinstance(error, LoomError) else str(error)
        return shortened(said) if isinstance(said, str) and said.strip() else type(error).__name__
    except Exception:  # noqa: BLE001  # an error whose __str__ is broken is still an error
        return type(error).__name__


_WRITTEN_FOR_READERS = frozenset({"quota_exceeded", "output_rejected", "structured_output_invalid"})


class _Exposure:
    """Whether readers see raw errors; None: by the environment."""

    override: bool | None = None


_EXPOSURE = _Exposure()


def expose_stream_error_details(show: bool | None) -> None:
    """Say whether readers of streams see the text of any error, for the whole process.

    Args:
        show: True: always; False: never; None: unless this is production, which is when the environment variable `LOOMNB_ENV`
            is `production` at the time of the failure.

    Raises:
        InvalidRequest: it is none of the three.
    """
    if show is not None and type(show) is not bool:
        raise InvalidRequest(f"expose_stream_error_details takes True, False or None, not {show!r}.")
    _EXPOSURE.override = show


def stream_failure(error: object) -> dict[str, str]:
    """What the readers of a stream are told of a failure: `{"code", "message"}`.

    The message of an exceeded quota, a refused answer or an unfit output is ours, and always told. Any other is the raw text of
    the error, or, in production, `GENERIC_FAILURE_MESSAGE` (see `expose_stream_error_details`).
    """
    code = agent_failure_code(error)
    shown = _EXPOSURE.override
    if shown is None:
        shown = os.environ.get("LOOMNB_ENV") != "production"
    return {"code": code, "message": text_of(error) if shown or code in _WRITTEN_FOR_READERS else GENERIC_FAILURE_MESSAGE}
