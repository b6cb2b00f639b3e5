"""What of a thread a model is told: complete, without blanks, and no more than fits.

A history with a call that has no result, or with a blank answer, is refused by most vendors, and then every later turn of the
thread fails too. So a history is settled whenever it is loaded; what is stored stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from loomnb.agents.results import (
    denied_result,
    expired_result,
    failed_result,
    lost_result,
    never_started_result,
    preflight_denied_result,
    stopped_result,
)
from loomnb.agents.spi import AgentStore, ChatMessage, HistoryContext, HistorySelection, HistorySummary, optional, settled
from loomnb.agents.turn_results import turn_result
from loomnb.errors import InvalidRequest
from loomnb.runtime import ModelProvider, TurnRequest

__all__ = [
    "SUMMARY_INSTRUCTION",
    "SummarizingHistory",
    "WindowHistory",
    "call_outcomes",
    "drop_blank",
    "estimate_tokens",
    "model_messages",
    "outcomes_of",
    "settle_history",
    "summarizing_history",
    "unanswered_calls",
    "window_history",
    "with_summary",
]

Estimate = Callable[[ChatMessage], int]

SUMMARY_INSTRUCTION = (
    "You summarize the older part of a conversation, so that it can go on without it. Keep facts, names, numbers, decisions, "
    "what tools found or changed, what the person prefers, and what is still open. Leave out courtesies. Write plain prose, "
    "without an introduction, and do not answer the conversation."
)
"""What a summarizing policy tells its model, unless it was given something else."""

_SUMMARY_REQUEST = "Summarize the conversation up to here."


# -- complete -----------------------------------------------------------------------------------------


def unanswered_calls(messages: Iterable[ChatMessage]) -> list[str]:
    """The ids of calls without a result, in their order: what to ask a store's `tool_call_outcomes` about."""
    return [id_ for _, id_ in _unanswered([*messages])]


def _unanswered(messages: Sequence[ChatMessage]) -> list[tuple[str | None, str]]:
    """The same, each with the run that made it."""
    strays = _strays(messages)
    found: list[tuple[str | None, str]] = []
    for message in messages:
        own = {str(result.get("id")) for result in message.tool_results or ()}
        ids = (str(call["id"]) for call in message.tool_calls or ())
        found += [(message.run_id, id_) for id_ in ids if id_ not in own and id_ not in strays]
    return found


async def call_outcomes(
    store: AgentStore, thread_id: str, run_id: str | None, ids: Sequence[str]
) -> Mapping[str, Mapping[str, Any]]:
    """How far calls of one run came, by id. A store that cannot tell runs apart is asked about the ids alone.

    Some servers count the ids of calls from nought in each answer: the call of another conversation may have the same.

    Args:
        store: where the rows are.
        thread_id: the thread that has the calls.
        run_id: the run that made them; None: it is not known.
        ids: of the calls.
    """
    of_run, of_all = optional(store, "outcomes_of_run"), optional(store, "tool_call_outcomes")
    if of_run is not None:
        return cast("Mapping[str, Mapping[str, Any]]", await settled(of_run(thread_id, run_id, ids)))
    return cast("Mapping[str, Mapping[str, Any]]", await settled(of_all(ids))) if of_all is not None else {}


async def outcomes_of(store: AgentStore, thread_id: str, messages: Sequence[ChatMessage]) -> dict[str, Mapping[str, Any]]:
    """How far the calls of a thread came that have no result, by id: what `settle_history` is given."""
    by_run: dict[str | None, list[str]] = {}
    for run_id, id_ in _unanswered(messages):
        by_run.setdefault(run_id, []).append(id_)
    found: dict[str, Mapping[str, Any]] = {}
    for run_id, ids in by_run.items():
        found.update(await call_outcomes(store, thread_id, run_id, ids))
    return found


def settle_history(messages: Sequence[ChatMessage], outcomes: Mapping[str, Mapping[str, Any]]) -> Sequence[ChatMessage]:
    """The history with exactly one result for every call, on the message that has the call.

    A result that is there is kept. One that stands on another message is moved to its call; one without a call, or a second one,
    is dropped. A call without any gets one of what is on record of it: its output, that a person declined it, that nobody decided
    in time, how it failed, that it started and was stopped, that it never started, or that it never completed.

    Args:
        messages: a thread's.
        outcomes: by the id of the call: `{"status", "output"?, "error"?, "reason"?, "decided"?}` (see a store's
            `tool_call_outcomes`); calls that nothing is known of are left out.

    Returns:
        The very sequence, when nothing was missing; else a new one, in which complete messages are the same objects.
    """
    strays = _strays(messages)
    complete = [_settle(message, outcomes, strays) for message in messages]
    return messages if all(new is old for new, old in zip(complete, messages, strict=True)) else complete


def _strays(messages: Iterable[ChatMessage]) -> dict[str, Mapping[str, Any]]:
    """Results that stand on a message without their call, by the id of the call; the first of several."""
    strays: dict[str, Mapping[str, Any]] = {}
    for message in messages:
        own = {call["id"] for call in message.tool_calls or ()}
        for result in message.tool_results or ():
            if result.get("id") not in own:
                strays.setdefault(str(result.get("id")), result)
    return strays


def _settle(
    message: ChatMessage, outcomes: Mapping[str, Mapping[str, Any]], strays: Mapping[str, Mapping[str, Any]]
) -> ChatMessage:
    calls, results = message.tool_calls or (), message.tool_results or ()
    asked = dict.fromkeys(str(call["id"]) for call in calls)
    if len(results) == len(asked) and {str(result.get("id")) for result in results} == asked.keys():
        return message
    held: dict[str, Mapping[str, Any]] = {}
    for result in results:
        held.setdefault(str(result.get("id")), result)
    complete: dict[str, Mapping[str, Any]] = {}
    for call in calls:
        id_ = str(call["id"])
        complete[id_] = held.get(id_) or strays.get(id_) or _result_of(call, outcomes.get(id_))
    return replace(message, tool_results=list(complete.values()) or None)


def _result_of(call: Mapping[str, Any], outcome: Mapping[str, Any] | None) -> dict[str, Any]:
    id_, name = str(call["id"]), str(call.get("name", ""))
    if outcome is None:
        return lost_result(id_, name)
    match outcome.get("status"):
        case "rejected" if outcome.get("error") and not outcome.get("reason"):  # no person did: the tool's own check
            return preflight_denied_result(id_, name, outcome["error"])
        case "rejected":
            return denied_result(id_, name, outcome.get("reason"))
        case "expired":
            return expired_result(id_, name)
        case "failed":
            return failed_result(id_, name, outcome["error"]) if outcome.get("error") else lost_result(id_, name)
        case "executed":
            return {"id": id_, "name": name, "output": outcome.get("output")}
        case "auto_executed":
            if "output" in outcome:  # on record, though the message never got it
                return {"id": id_, "name": name, "output": outcome["output"]}
            return stopped_result(id_, name)
        case "pending_approval" if outcome.get("decided"):
            return stopped_result(id_, name)
        case "pending_approval" | "proposed":
            return never_started_result(id_, name)
        case _:
            return lost_result(id_, name)


def drop_blank(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """The messages without the assistant's blank ones: no text but white space, no call, no result."""
    return [
        message
        for message in messages
        if message.role != "assistant" or message.content.strip() or message.tool_calls or message.tool_results
    ]


def model_messages(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    """The messages as a `TurnRequest` takes them: only what a model is to know of them."""
    return [_model_message(message) for message in messages]


def _model_message(message: ChatMessage) -> dict[str, Any]:
    out: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        out["toolCalls"] = [
            {"id": call["id"], "name": call.get("name", ""), "input": call.get("input")} for call in message.tool_calls
        ]
    if message.tool_results:
        out["toolResults"] = [dict(result) for result in message.tool_results]
    if message.attachments:
        out["attachments"] = [dict(attachment) for attachment in message.attachments]
    if message.native is not None:
        out["native"] = message.native
    return out


# -- no more than fits ----------------------------------------------------------------------------------


def estimate_tokens(message: ChatMessage) -> int:
    """About how many tokens a message is: one for every four characters of its text, its calls and their results."""
    characters = len(message.content)
    for data in (message.tool_calls, message.tool_results):
        if data:
            characters += len(json.dumps([dict(one) for one in data], ensure_ascii=False, separators=(",", ":")))
    return -(-characters // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowHistory:
    """A `HistoryPolicy` that keeps the newest messages; made by `window_history`.

    Attributes:
        max_messages: how many at most, which is also the promise that a store may load no more; None: no such limit.
        max_tokens: for how many tokens they may be, estimated; None: no such limit.
        estimate: message → tokens.
    """

    max_messages: int | None = None
    max_tokens: int | None = None
    estimate: Estimate = estimate_tokens

    def select(self, messages: Sequence[ChatMessage], ctx: HistoryContext) -> HistorySelection:
        """The newest that fit, and those that do not. The newest of all is always kept."""
        del ctx
        start = _first_kept(messages, self.max_messages, self.max_tokens, self.estimate)
        return HistorySelection(keep=messages[start:], drop=messages[:start])


def _first_kept(messages: Sequence[ChatMessage], max_messages: int | None, max_tokens: int | None, estimate: Estimate) -> int:
    left = max_tokens
    for index in range(len(messages) - 1, -1, -1):
        kept = len(messages) - 1 - index
        if left is not None:
            left -= estimate(messages[index])
        is_too_much = (max_messages is not None and kept >= max_messages) or (left is not None and left < 0)
        if kept and is_too_much:
            return index + 1
    return 0


def window_history(
    max_messages: int | None = None, max_tokens: int | None = None, estimate: Estimate = estimate_tokens
) -> WindowHistory:
    """A policy that tells the model only the newest messages.

    Args:
        max_messages: how many at most; None: no such limit.
        max_tokens: for how many tokens at most, as `estimate` counts; None: no such limit. With both, the stricter counts. The
            newest message is told whatever the limits are.
        estimate: message → tokens; about four characters a token unless given.

    Raises:
        InvalidRequest: a limit is no number from 0 up.
    """
    _check_limits(max_messages=max_messages, max_tokens=max_tokens)
    if max_messages is not None:
        max_messages = max(max_messages, 1)  # a promise of 0 would let a store load not even the newest
    return WindowHistory(max_messages=max_messages, max_tokens=max_tokens, estimate=estimate)


def _check_limits(**limits: int | None) -> None:
    for name, limit in limits.items():
        if limit is not None and (type(limit) is not int or limit < 0):
            raise InvalidRequest(
                f"{name} of a history is {limit!r}.", advice="Give a whole number from 0 up, or None for no limit."
            )


# -- in short ---------------------------------------------------------------------------------------------


class _Nowhere:
    """Where a summary is written while it is made: nobody looks."""

    async def write(self, line: str) -> None: ...

    async def end(self) -> None: ...

    async def fail(self, failure: Mapping[str, str]) -> None: ...

    async def flush(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizingHistory:
    """A `HistoryPolicy` that keeps the newest messages and has a model summarize the others; made by `summarizing_history`.

    It makes no promise of `max_messages`: a store has to load all, since what is dropped is still read.
    """

    provider: ModelProvider
    window: WindowHistory
    instruction: str = SUMMARY_INSTRUCTION
    model: str | None = None

    def select(self, messages: Sequence[ChatMessage], ctx: HistoryContext) -> HistorySelection:
        """The newest that fit, and those that are to be summarized."""
        return self.window.select(messages, ctx)

    async def summarize(self, dropped: Sequence[ChatMessage], ctx: HistoryContext) -> HistorySummary:
        """One turn of the model, without tools, over the messages that were dropped; what the model raises is raised."""
        del ctx
        told = model_messages(settle_history(drop_blank(dropped), {}))
        # Vendors want a person to speak last, and would otherwise let the model go on with the conversation.
        told.append({"role": "user", "content": _SUMMARY_REQUEST})
        request = TurnRequest(system=self.instruction, messages=told, sink=_Nowhere(), model=self.model, tool_choice="none")
        result = turn_result(await settled(self.provider.run_turn(request)), self.provider)
        return HistorySummary(
            text=result.text.strip(),
            usage=dict(result.usage) or None,
            model_id=result.model_id or None,
            cost_usd=result.cost_usd,
        )


def summarizing_history(
    model_provider: ModelProvider,
    max_messages: int | None = None,
    max_tokens: int | None = None,
    estimate: Estimate = estimate_tokens,
    *,
    instruction: str | None = None,
    model: str | None = None,
) -> SummarizingHistory:
    """A policy that tells the model the newest messages, and a summary of the older ones before them.

    Args:
        model_provider: who summarizes.
        max_messages: as for `window_history`.
        max_tokens: as for `window_history`.
        estimate: as for `window_history`.
        instruction: what the summarizing model is told to do; `SUMMARY_INSTRUCTION` unless given.
        model: which of the provider's models; its own unless given.

    Raises:
        InvalidRequest: a limit is no number from 0 up.
    """
    window = window_history(max_messages, max_tokens, estimate)
    return SummarizingHistory(provider=model_provider, window=window, instruction=instruction or SUMMARY_INSTRUCTION, model=model)


def with_summary(keep: Sequence[ChatMessage], summary: HistorySummary | None) -> list[ChatMessage]:
    """What is told of a thread: the messages that were kept, and before them what stands for the others, as a `system` message.

    Without a summary, or with a blank one, the messages alone.
    """
    if summary is None or not summary.text.strip():
        return list(keep)
    return [ChatMessage(role="system", content=summary.text), *keep]
