"""FanOut: start many sub-workflows, let them go on side by side, and collect how each ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loomnb.ready.items import FanOutArgs, outcome_of, resolve_all, result_of, start_item
from loomnb.runtime import RunContext, TransitionInput, current_attempt
from loomnb.workflows import BaseWorkflow, WorkflowDefinition, refine, transition, workflow
from loomnb.workflows import guard as guarded_by

__all__ = ["FanOutWorkflow"]


class _FanOut(WorkflowDefinition):
    """`fan_out`: its bodies only count and start children, so a thousand callbacks need not wait for a thousand commits."""

    @property
    def runs_ahead(self) -> bool:
        """Yes."""
        return True


@refine(_FanOut)
@workflow(title="Fan out", schema=FanOutArgs)
class FanOutWorkflow(BaseWorkflow[FanOutArgs]):
    """Start a sub-workflow for each item, at most `concurrency` at once, and wait for all of them.

    `FanOutWorkflow().run({"items": {"a": {"workflow": Child, "args": {...}}, …}}, callback={"transition": "all_done"})`, or
    `loom.start(FanOutWorkflow, {...})`. The result is a `FanOutResult`; the run completes also when children failed. With
    `mode: "all"`, the default, the first child that fails cancels those that still go on, and the others do not start
    (`skipped`); with `allSettled` every child goes to its end. A failed child that is retried and completes while others still
    go on counts as completed.
    """

    # `entries` only grows at its end, which costs the store one entry a child; the later entry of a key counts.

    @transition(to="awaiting")
    def launch(self, state: Mapping[str, Any], ctx: RunContext[FanOutArgs]) -> None:
        """Find all workflows, then start as many children as may go on at once."""
        resolve_all(ctx.args.items)
        self.set_state({"started": 0, "ended": 0, "failed": [], "entries": [], "aborting": False, "stopped": False})
        self._start_more(state, ctx.args)

    @transition(from_="awaiting", to="awaiting", wait=True, timeout=0)
    async def on_child_complete(
        self,
        state: Mapping[str, Any],
        input: TransitionInput[Any, Any],  # noqa: A002  # the contract's word
        ctx: RunContext[FanOutArgs],
    ) -> None:
        """A child ended: note how, and start the next one."""
        _, entry = outcome_of(ctx.args.items, input)
        failed, again = state["failed"], entry["key"] in state["failed"]
        if entry["status"] == "failed" and not again:
            self.assign_state(failed=[*failed, entry["key"]])
            if ctx.args.mode == "all":
                self.assign_state(aborting=True)
        self.assign_state(entries=[*state["entries"], entry], ended=state["ended"] + (not again))
        self._start_more(state, ctx.args)

    @transition(from_="awaiting", to="awaiting", priority=1, timeout=0)
    @guarded_by("must_stop")
    def stop_siblings(self, state: Mapping[str, Any]) -> None:
        """Mode `all`: a child failed, so cancel those that still go on. Their callbacks follow."""
        current_attempt().cancel_children()
        self.assign_state(stopped=True)

    @transition(from_="awaiting", to="end")
    @guarded_by("is_over")
    async def finish(self, state: Mapping[str, Any], ctx: RunContext[FanOutArgs]) -> None:
        """Everything that was started has ended."""
        if state["aborting"]:
            missing = {"status": "skipped", "data": None, "error": f"not started: {state['failed'][0]!r} failed before"}
        else:
            missing = {"status": "failed", "data": None, "error": "the sub-workflow never told how it ended"}
        self.set_result(result_of(ctx.args, state["entries"], missing))

    def must_stop(self, state: Mapping[str, Any]) -> bool:
        """Whether siblings are to be canceled, once."""
        return bool(state["aborting"] and not state["stopped"])

    def is_over(self, state: Mapping[str, Any]) -> bool:
        """Whether every child that was started has ended; with room left, all that may start were started."""
        return bool(state["ended"] >= state["started"])

    def _start_more(self, state: Mapping[str, Any], args: FanOutArgs) -> None:
        started, ended = state["started"], state["ended"]
        while not state["aborting"] and started < len(args.items) and started - ended < args.concurrency:
            never = start_item(args.items, started, "on_child_complete")
            started += 1
            if never is not None:
                ended += 1
                self.assign_state(entries=[*state["entries"], never], aborting=args.mode == "all")
                self.assign_state(failed=[*state["failed"], never["key"]])
        self.assign_state(started=started, ended=ended)
        current_attempt().tell_progress(ended, len(args.items))
