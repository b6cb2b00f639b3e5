"""Sequence: start sub-workflows one after the other, and collect how each ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loomnb.ready.items import SequenceArgs, outcome_of, resolve_all, result_of, start_item
from loomnb.runtime import RunContext, TransitionInput, current_attempt
from loomnb.workflows import BaseWorkflow, transition, workflow
from loomnb.workflows import guard as guarded_by

__all__ = ["SequenceWorkflow"]


@workflow(title="Sequence", schema=SequenceArgs)
class SequenceWorkflow(BaseWorkflow[SequenceArgs]):
    """Start a sub-workflow for each item, each when the one before has ended.

    Used like `FanOutWorkflow`; the result is a `SequenceResult`, and the run completes also when children failed. With
    `mode: "all"`, the default, the first child that does not complete ends it, and the items behind it are `skipped`; with
    `allSettled` it goes on with the next. An earlier child that failed, is retried and completes while a later one goes on
    counts as completed.
    """

    @transition(to="awaiting")
    def launch(self, state: Mapping[str, Any], ctx: RunContext[SequenceArgs]) -> None:
        """Find all workflows, then start the first child."""
        resolve_all(ctx.args.items)
        self.set_state({"index": 0, "entries": [], "aborted": False})
        self._start(state, ctx.args)

    @transition(from_="awaiting", to="awaiting", wait=True, timeout=0)
    async def on_child_complete(
        self,
        state: Mapping[str, Any],
        input: TransitionInput[Any, Any],  # noqa: A002  # the contract's word
        ctx: RunContext[SequenceArgs],
    ) -> None:
        """A child ended: note how; if it is the one that was waited for, start the next."""
        index, entry = outcome_of(ctx.args.items, input)
        self.assign_state(entries=[*state["entries"], entry])
        if index == state["index"]:
            self._go_on(state, ctx.args, entry)
            self._start(state, ctx.args)

    @transition(from_="awaiting", to="end")
    @guarded_by("is_over")
    async def finish(self, state: Mapping[str, Any], ctx: RunContext[SequenceArgs]) -> None:
        """All have ended, or one kept the others from starting."""
        if state["aborted"]:
            last = ctx.args.items[state["index"] - 1].key
            missing = {"status": "skipped", "data": None, "error": f"not started: {last!r} did not complete"}
        else:
            missing = {"status": "failed", "data": None, "error": "the sub-workflow never told how it ended"}
        self.set_result(result_of(ctx.args, state["entries"], missing))

    def is_over(self, state: Mapping[str, Any]) -> bool:
        """Whether nothing is to be started any more."""
        return bool(state["aborted"] or state["index"] >= state["total"])

    def _go_on(self, state: Mapping[str, Any], args: SequenceArgs, entry: Mapping[str, Any]) -> None:
        aborted = entry["status"] != "completed" and args.mode == "all"
        self.assign_state(index=state["index"] + 1, aborted=aborted)

    def _start(self, state: Mapping[str, Any], args: SequenceArgs) -> None:
        self.assign_state(total=len(args.items))
        while not state["aborted"] and state["index"] < len(args.items):
            never = start_item(args.items, state["index"], "on_child_complete")
            if never is None:
                break
            self.assign_state(entries=[*state["entries"], never])
            self._go_on(state, args, never)
        current_attempt().tell_progress(state["index"], len(args.items))
