"""What the frames of a turn add up to: the message as a reader sees it. Pure: a state and an event give a new state.

Nothing is ever changed in place, so a panel may keep any state and compare by identity. Two events are no frames but the end of
a stream, as readers know it: `{"kind": "done"}`, and `{"kind": "error", "code", "message"}`. Rule: contracts/agents.md §6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from loomnb.agents.frames import decode_stream_event

__all__ = [
    "Approval",
    "MessagePart",
    "MessageState",
    "ToolCard",
    "ToolCardStatus",
    "reduce_frames",
    "reduce_stream",
]

ToolCardStatus: TypeAlias = Literal["preparing", "running", "waiting", "done", "failed", "denied", "expired"]
"""`preparing`: the model still writes its input; `waiting`: a person is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Whether somebody has to agree to a call, and whether they did.

    Attributes:
        status: `pending`, `approved`, `rejected` or `expired`.
        target: what is decided on, where it is not the call itself: `{"kind": "proposal", "proposalId"}`.
    """

    status: str = "pending"
    approver: str | None = None
    expires_at: str | None = None
    reason: str | None = None
    confirmation: Mapping[str, Any] | None = None
    target: Mapping[str, Any] | None = None
    decided_by: str | None = None
    decided_via: str | None = None
    remember: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCard:
    """A tool's call.

    Attributes:
        input_text: the JSON of its input as far as the model has written it.
        input: the input, once it is whole.
        parent_id: the call within which it was made.
        reason: why it was denied, where that was said.
        question: what a person is asked, of a call that asks: `{"id", "source", "preamble"?, "questions"}`.
    """

    id: str
    name: str = ""
    kind: str = "read"
    status: ToolCardStatus = "preparing"
    input_text: str = ""
    input: Any = None
    output: Any = None
    error: str | None = None
    reason: str | None = None
    parent_id: str | None = None
    approval: Approval | None = None
    question: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePart:
    """A stretch of a message, in the order of the stream: a `text`, a piece of `reasoning`, or the id of a `tool` call or of a
    component (`ui`)."""

    kind: Literal["text", "reasoning", "tool", "ui"]
    content: str
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageState:
    """A message that grows.

    Attributes:
        status: `streaming` until it ends: `completed`, or `cancelled` when somebody stopped it.
        error: `{"code", "message"}` when it ended with a failure; what was said until then is kept.
        parts: what it is made of, in order.
        tools: calls by their id, in the order they were first seen.
        ui: components by their id, in the order they were first seen; a preview has `partial`.
        steps: of each step that finished: `{"usage"?, "costUsd"?, "reasoningMs"?, "model"?}`.
        step: how many steps began, from 0.
        title: of the thread, if it was given one.
        queue: what waits behind it: `{"items", "paused"}`.
        facts: what hosts say beside: the fields of `message-metadata`.
    """

    status: Literal["streaming", "completed", "cancelled"] = "streaming"
    error: Mapping[str, str] | None = None
    parts: tuple[MessagePart, ...] = ()
    tools: Mapping[str, ToolCard] = field(default_factory=dict[str, ToolCard])
    ui: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    steps: tuple[Mapping[str, Any], ...] = ()
    step: int = 0
    title: str | None = None
    queue: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def text(self) -> str:
        """All it says."""
        return "".join(part.content for part in self.parts if part.kind == "text")

    @property
    def reasoning(self) -> str:
        """All that was thought aloud."""
        return "".join(part.content for part in self.parts if part.kind == "reasoning")

    @property
    def approvals(self) -> tuple[ToolCard, ...]:
        """The calls about which somebody is asked just now."""
        return tuple(card for card in self.tools.values() if card.approval is not None and card.approval.status == "pending")


Event: TypeAlias = Mapping[str, Any]


def reduce_frames(state: MessageState, frame: str | Event) -> MessageState:
    """The message after one frame: a line, or an event that was decoded already.

    Lines that nobody can read, unknown kinds and events without what they need change nothing: the very state is given back. A
    delta without a beginning begins it.
    """
    event = decode_stream_event(frame) if isinstance(frame, str) else frame
    apply = _KINDS.get(str(event.get("kind"))) if event is not None else None
    if event is None or apply is None:
        return state
    try:
        return apply(state, event)
    except (KeyError, TypeError):
        return state  # a frame of another make, without a field that ours have


def reduce_stream(states: Mapping[str, MessageState], message_id: str, frame: str | Event) -> Mapping[str, MessageState]:
    """Several messages after one frame of one of them, which begins with it if it is new. The others stay the same objects."""
    before = states.get(message_id)
    after = reduce_frames(before or MessageState(), frame)
    return states if after is before else {**states, message_id: after}


def _grown(state: MessageState, kind: Literal["text", "reasoning"], text: str) -> MessageState:
    if not text:
        return state
    last = state.parts[-1] if state.parts else None
    if last is not None and last.kind == kind and last.step == state.step:
        return replace(state, parts=(*state.parts[:-1], replace(last, content=last.content + text)))
    return replace(state, parts=(*state.parts, MessagePart(kind=kind, content=text, step=state.step)))


def _placed(state: MessageState, kind: Literal["tool", "ui"], of: str) -> tuple[MessagePart, ...]:
    is_known = any(part.kind == kind and part.content == of for part in state.parts)
    return state.parts if is_known else (*state.parts, MessagePart(kind=kind, content=of, step=state.step))


def _card(state: MessageState, event: Event, **changes: Any) -> MessageState:
    id_ = _text(event, "id")
    card = state.tools.get(id_) or ToolCard(id=id_)
    for name, key in (("name", "name"), ("kind", "toolKind"), ("parent_id", "parentId")):
        if key in event:
            changes[name] = event[key]
    return replace(state, tools={**state.tools, id_: replace(card, **changes)}, parts=_placed(state, "tool", id_))


def _text(event: Event, key: str) -> str:
    value = event[key]
    if not isinstance(value, str):
        raise TypeError(key)
    return value


def _input_delta(state: MessageState, event: Event) -> MessageState:
    card = state.tools.get(_text(event, "id"))
    return _card(state, event, input_text=(card.input_text if card else "") + _text(event, "delta"))


def _output(state: MessageState, event: Event) -> MessageState:
    return _card(state, event, status="done", output=event["output"])


def _denied(state: MessageState, event: Event) -> MessageState:
    card = state.tools.get(_text(event, "id"))
    is_expired = card is not None and card.approval is not None and card.approval.status == "expired"
    return _card(state, event, status="expired" if is_expired else "denied", reason=event.get("reason"))


def _asked(state: MessageState, event: Event) -> MessageState:
    approval = Approval(
        approver=event["approver"],
        expires_at=event.get("expiresAt"),
        reason=event.get("reason"),
        confirmation=event.get("confirmation"),
        target=event.get("target"),
    )
    return _card(state, event, status="waiting", approval=approval)


_AFTER_ASKING: Mapping[str, ToolCardStatus] = {"approved": "running", "rejected": "denied", "expired": "expired"}


def _decided(state: MessageState, event: Event) -> MessageState:
    card = state.tools.get(_text(event, "id"))
    before = (card.approval if card else None) or Approval()
    verdict = _text(event, "status")
    approval = replace(
        before,
        status=verdict,
        approver=event.get("approver", before.approver),
        decided_by=event.get("decidedBy"),
        decided_via=event.get("decidedVia"),
        remember=event.get("remember") is True,
        reason=event.get("reason", before.reason),
    )
    # The frames of results come after those of decisions; where they came before, what happened stays what happened.
    is_open = card is None or card.status in ("preparing", "running", "waiting")
    status = _AFTER_ASKING.get(verdict, "running") if is_open or card is None else card.status
    return _card(state, event, status=status, approval=approval)


def _component(state: MessageState, event: Event) -> MessageState:
    id_ = _text(event, "id")
    if event.get("partial") and not event["props"]:  # a preview is taken back; one that was never shown is not
        shown = {key: one for key, one in state.ui.items() if key != id_ or not one.get("partial")}
        if len(shown) == len(state.ui):
            return state
        return replace(state, ui=shown, parts=tuple(p for p in state.parts if p.kind != "ui" or p.content != id_))
    component = {key: value for key, value in event.items() if key != "kind"}
    _text(component, "component")
    return replace(state, ui={**state.ui, id_: component}, parts=_placed(state, "ui", id_))


def _ended(state: MessageState, _: Event) -> MessageState:
    return state if state.status != "streaming" else replace(state, status="completed")


def _failed(state: MessageState, event: Event) -> MessageState:
    told = {key: str(event.get(key, "")) for key in ("code", "message")}
    return replace(_ended(state, event), error=told)


def _step_over(state: MessageState, event: Event) -> MessageState:
    return replace(state, steps=(*state.steps, {key: value for key, value in event.items() if key != "kind"}))


_KINDS: Mapping[str, Callable[[MessageState, Event], MessageState]] = {
    "step-start": lambda state, _: replace(state, step=state.step + 1),
    "step-finish": _step_over,
    "text": lambda state, event: _grown(state, "text", _text(event, "text")),
    "reasoning": lambda state, event: _grown(state, "reasoning", _text(event, "text")),
    "tool-input-start": lambda state, event: _card(state, event, status="preparing"),
    "tool-input-delta": _input_delta,
    "tool-input-available": lambda state, event: _card(state, event, status="running", input=event["input"]),
    "tool-output": _output,
    "tool-output-error": lambda state, event: _card(state, event, status="failed", error=_text(event, "error")),
    "tool-output-denied": _denied,
    "elicitation": lambda state, event: _card(state, event, status="waiting", question=event["request"]),
    "approval-requested": _asked,
    "approval-settled": _decided,
    "ui": _component,
    "title": lambda state, event: replace(state, title=_text(event, "title")),
    "cancelled": lambda state, _: replace(state, status="cancelled"),
    "queue": lambda state, event: replace(state, queue=event["queue"]),
    "message-metadata": lambda state, event: replace(
        state, facts={**state.facts, **{key: value for key, value in event.items() if key != "kind"}}
    ),
    "error": _failed,
    "done": _ended,
}
