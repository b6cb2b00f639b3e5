"""What ended a turn has a code, and readers of the stream are told what was written for them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from loomnb.agents.control_flow import NonDeterminismError
from loomnb.agents.failures import (
    GENERIC_FAILURE_MESSAGE,
    ConfirmTokenError,
    ModelOutputMissing,
    OutputRejectedError,
    ProcessorFailedError,
    QuotaExceededError,
    RunCancelledError,
    StructuredOutputError,
    agent_failure_code,
    expose_stream_error_details,
    stream_failure,
)
from loomnb.errors import InvalidRequest, LoomError


class NoOutputGeneratedError(Exception):
    pass


class AiNoOutput(Exception):
    pass


AiNoOutput.__name__ = "AI_NoOutputGeneratedError"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("broken")


ISSUES = [{"path": ["city"], "message": "Field required"}]

CODES: list[tuple[object, str]] = [
    (RunCancelledError(), "cancelled"),
    (QuotaExceededError(), "quota_exceeded"),
    (OutputRejectedError("pii", "a card number"), "output_rejected"),
    (StructuredOutputError(ISSUES, "{}", 2), "structured_output_invalid"),
    (NonDeterminismError(3, "a", "b"), "replay_diverged"),
    (ModelOutputMissing(), "model_no_output"),
    (NoOutputGeneratedError("x"), "model_no_output"),
    (AiNoOutput("x"), "model_no_output"),
    (Exception("No output generated. Check the stream."), "model_no_output"),
    (Exception("Sorry: No output generated"), "run_failed"),
    (ProcessorFailedError("output", "pii", ValueError("x")), "run_failed"),
    (ConfirmTokenError("used"), "run_failed"),
    (ValueError("x"), "run_failed"),
    (Mute(), "run_failed"),
    (None, "run_failed"),
]

OURS = [error for error, _ in CODES if isinstance(error, LoomError)]


@pytest.fixture(autouse=True)
def _the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("LOOMNB_ENV", raising=False)
    expose_stream_error_details(None)
    yield
    expose_stream_error_details(None)


@pytest.mark.case("agents:F05")
@pytest.mark.parametrize(("error", "code"), CODES, ids=[f"{type(e).__name__}-{n}" for n, (e, _) in enumerate(CODES)])
def test_a_failure_has_this_code(error: object, code: str) -> None:
    assert agent_failure_code(error) == code


@pytest.mark.parametrize("error", OURS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))], ids=["copy", "deep", "pickle"]
)
def test_our_errors_survive_copies(copied: Any, error: LoomError) -> None:
    twin = copied(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert twin.code == error.code
    assert {k for k, v in vars(twin).items() if v is None} == {k for k, v in vars(error).items() if v is None}


def test_errors_carry_what_they_are_about() -> None:
    cause = KeyError("x")
    assert vars(OutputRejectedError("pii", "a card number")).items() >= {"processor": "pii", "reason": "a card number"}.items()
    failed = ProcessorFailedError("input", "mask", cause)
    assert (failed.phase, failed.processor, failed.cause, failed.__cause__) == ("input", "mask", cause, cause)
    unfit = StructuredOutputError(ISSUES, "nope", 2)
    assert (list(unfit.issues), unfit.text, unfit.attempts) == (ISSUES, "nope", 2)
    assert ConfirmTokenError("used").reason == "used"


def test_readers_see_the_raw_text_while_one_develops() -> None:
    assert stream_failure(ValueError("table x is gone")) == {"code": "run_failed", "message": "table x is gone"}


def test_an_error_that_says_nothing_is_told_by_its_class() -> None:
    assert stream_failure(ValueError())["message"] == "ValueError"
    assert stream_failure(Mute())["message"] == "Mute"


def test_in_production_readers_see_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMNB_ENV", "production")
    for error in (
        ValueError("secret"),
        ProcessorFailedError("output", "p", ValueError("secret")),
        NonDeterminismError(1, "a", "b"),
    ):
        assert stream_failure(error)["message"] == GENERIC_FAILURE_MESSAGE


def test_what_was_written_for_readers_is_told_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMNB_ENV", "production")
    assert stream_failure(QuotaExceededError("Daily token limit reached.", advice="See the docs."))["message"] == (
        "Daily token limit reached."
    )
    assert "a card number" in stream_failure(OutputRejectedError("pii", "a card number"))["message"]
    assert "2 attempts" in stream_failure(StructuredOutputError(ISSUES, "{}", 2))["message"]


@pytest.mark.parametrize(("show", "told"), [(True, "secret"), (False, GENERIC_FAILURE_MESSAGE)], ids=["shown", "hidden"])
@pytest.mark.parametrize("environment", ["production", "development"])
def test_the_override_beats_the_environment(monkeypatch: pytest.MonkeyPatch, environment: str, show: bool, told: str) -> None:
    monkeypatch.setenv("LOOMNB_ENV", environment)
    expose_stream_error_details(show)
    assert stream_failure(ValueError("secret"))["message"] == told


def test_the_override_takes_nothing_else() -> None:
    with pytest.raises(InvalidRequest):
        expose_stream_error_details(1)  # type: ignore[arg-type]
