"""A blueprint's run as the contract shows it: four statuses, a cursor, the open question, the last error. Detached and checked.

Rules: contracts/blueprints.md §2.2; the table of statuses is decisions.md, Workflows 22. It tells neither intent, State, nor the
text of an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from loomnb.asks import Ask, Shape
from loomnb.blueprints.catalog import RUNTIME
from loomnb.blueprints.places import Cursor
from loomnb.blueprints.storage_rules import milliseconds, timestamp
from loomnb.errors import StepError, fields_from_pydantic
from loomnb.jsonvalue import thaw
from loomnb.runtime import RunRecord, Status

__all__ = ["Execution", "FlowCursor", "FlowRunView", "LastError", "PendingUserAction", "view_of"]


def _timestamp(moment: datetime) -> str:
    return timestamp(milliseconds(moment))


def _is_instant(text: str) -> str:
    datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return text


Text = Annotated[str, Field(min_length=1)]
_DAY, _TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}"
Instant = Annotated[str, Field(pattern=rf"^{_DAY}T{_TIME}Z$"), AfterValidator(_is_instant)]


class FlowCursor(Shape):
    """The step a run is at."""

    stage_name: Text
    step_name: Text


class Execution(Shape):
    """Who started it, and what makes its agent steps."""

    source: Literal["cli", "studio", "agent_ide"]
    agent_executor: Literal["service", "mcp_client"] = "service"


class PendingUserAction(Shape):
    """The question a run waits for."""

    id: Text
    flow_name: Text
    cursor: FlowCursor
    kind: Literal["user_ask_questions", "user_ask_confirmation"]
    request: Any
    created_at: Instant


class LastError(Shape):
    """Why it failed: a code of the runtime catalogue, with the catalogue's text."""

    code: Text
    message: str
    retryable: bool = False


class FlowRunView(Shape):
    """A run, as of its last commit. `dump()` is the contract's JSON; what does not apply is left out there, and None here."""

    run_id: Text
    flow_name: Text
    status: Literal["running", "waiting", "completed", "failed"]
    cursor: FlowCursor
    execution: Execution
    pending_action: PendingUserAction | None = None
    last_error: LastError | None = None
    created_at: Instant
    updated_at: Instant

    @model_validator(mode="after")
    def _left_out(self) -> Self:
        """Optional means left out: an explicit null is refused."""
        for name in ("pending_action", "last_error"):
            if name in self.model_fields_set and getattr(self, name) is None:
                raise ValueError(f"{name} is null: leave it out")
        return self

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """What is told fits the status."""
        if (self.status == "waiting") != (self.pending_action is not None):
            raise ValueError("a run waits if and only if it has a pending action")
        if (self.status == "failed") != (self.last_error is not None):
            raise ValueError("a run has failed if and only if it has a last error")
        if self.last_error is not None and self.last_error.code not in RUNTIME:
            raise ValueError(f"{self.last_error.code} is no code of the runtime catalogue")
        if self.pending_action is not None and (
            self.pending_action.flow_name != self.flow_name or self.pending_action.cursor != self.cursor
        ):
            raise ValueError("the pending action is of another flow or step")
        return self

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> FlowRunView:
        """The view of its JSON.

        Raises:
            StepError: it tells of a run that cannot be (RUN_STATE_INVALID).
        """
        try:
            return cls.model_validate(value)
        except ValidationError as exc:
            told = "; ".join(f"{name or 'the whole'}: {text}" for name, text in fields_from_pydantic(exc).items())
            raise StepError(f"This run cannot be: {told}.", code="RUN_STATE_INVALID", cause=exc) from exc


_STATUS: Mapping[Status, str] = {
    Status.PENDING: "running",
    Status.RUNNING: "running",
    Status.RETRYING: "running",
    Status.WAITING: "waiting",
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
    Status.CANCELED: "failed",
    Status.INTERRUPTED: "failed",
}


def view_of(record: RunRecord, cursor: Cursor, source: str) -> FlowRunView:
    """The view of a run."""
    view = record.view
    at = view.updated_at or record.started_at or record.source.now()
    told: dict[str, Any] = {
        "runId": record.id,
        "flowName": record.workflow,
        "status": _STATUS[view.status],
        "cursor": cursor.to_json(),
        "execution": {"source": source, "agentExecutor": "service"},
        "createdAt": _timestamp(record.started_at or at),
        "updatedAt": _timestamp(at),
    }
    if view.status is Status.WAITING and view.asks:
        told["pendingAction"] = _action(record, view.asks[0], cursor)
    code = _code(record)
    if code:
        told["lastError"] = {"code": code, "message": RUNTIME[code].message, "retryable": RUNTIME[code].retryable}
    return FlowRunView.parse(told)


def _code(record: RunRecord) -> str:
    match record.view.status:
        case Status.CANCELED:
            return "RUN_STOPPED"
        case Status.INTERRUPTED:
            return "RUN_INTERRUPTED"
        case Status.FAILED:
            code = record.view.failure.code if record.view.failure is not None else ""
            return code if code in RUNTIME else "STEP_EXECUTION_FAILED"
        case _:
            return ""


def _action(record: RunRecord, ask: Ask, cursor: Cursor) -> dict[str, Any]:
    asked = ask.kind == "questions"
    return {
        "id": ask.id,
        "flowName": record.workflow,
        "cursor": cursor.to_json(),
        "kind": "user_ask_questions" if asked else "user_ask_confirmation",
        "request": thaw([q.dump() for q in ask.questions]) if asked else {"context": ask.context},
        "createdAt": _timestamp(ask.opened_at) if ask.opened_at is not None else _timestamp(record.source.now()),
    }
