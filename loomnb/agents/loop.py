"""`run_agent_loop`: performs the effects of a turn, each through the runner's `step(name, fn)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from loomnb.agents.deps import LoopDeps
from loomnb.agents.effects import AskAnswers, AskApproval, AskRepeat, Checkpoint, Direct, Effect, Parallel, Patched
from loomnb.agents.elicitation import check_intake
from loomnb.agents.failures import RepeatedCallError
from loomnb.agents.loop_checks import check_given
from loomnb.agents.spi import AgentTurnInput, AgentTurnResult, AnswersReply, Decision, LoopHooks, optional, settled
from loomnb.agents.turn import Shape, turn
from loomnb.agents.ui_collector import UiCollector
from loomnb.agents.work import TurnWork
from loomnb.errors import Bug
from loomnb.present import check_ui_capabilities

__all__ = ["run_agent_loop"]


async def run_agent_loop(deps: LoopDeps, given: AgentTurnInput, hooks: LoopHooks) -> AgentTurnResult:
    """Run one turn: model → tools → model, until the model is done.

    Args:
        deps: what it works with.
        given: what it is about.
        hooks: what the runner supplies. `step` makes each checkpoint durable, or returns what is on record of it.

    Returns:
        The last step's text, and with an output schema the value. `stopped_by` says why it ended before the model was done.

    Raises:
        QuotaExceededError: the quota is used up. Nothing of the turn is stored.
        BudgetExceededError: the run has used what it may; looked at before each call of the model.
        RunCancelledError: a cancel was observed; nothing is put on record of the end: that is the runner's duty.
        OutputRejectedError: an output processor refused what the model said.
        ProcessorFailedError: a processor raised.
        StructuredOutputError: the output did not fit its schema, repairs included.
        DefinitionError: the model cannot be asked.
        InvalidRequest: what it is about cannot be, or the client says what it draws in a way that cannot be; or there is nothing
            to answer anew.
        RepeatedCallError: the model asks for the same again and again, and nobody can be asked about it.
        Exception: whatever the model, the store or the runner itself raised, unchanged. A tool's failure is none of these: it
            is a result, and the model goes on with it.
    """
    check_given(given, deps, hooks)
    check_ui_capabilities(given.ui_capabilities)
    # Of its own: the prices of a run are not those of the next, and two runs may share what they were given.
    # The model that the turn names is asked in every call of it, so its label and its price count, too.
    deps = replace(deps, intake=check_intake(deps.intake), prices=(), model_id=given.model or deps.model_id)
    work = TurnWork(deps, given, hooks)
    driver = _Driver(work, hooks)
    shape = Shape(
        run_id=hooks.run_id,
        cancellable=optional(hooks, "cancelled") is not None,
        parallel=optional(hooks, "parallel") is not None,
    )
    flow = turn(deps, given, shape)
    try:
        effect: Effect = next(flow)
        while True:
            effect = flow.send(await driver.perform(effect))
    except StopIteration as end:
        result: AgentTurnResult = end.value
        work.end_trace(None)
        return result
    except BaseException as exc:
        work.end_trace(exc)
        raise
    finally:
        flow.close()


class _Driver:
    """Performs effects."""

    def __init__(self, work: TurnWork, hooks: LoopHooks) -> None:
        self._work = work
        self._hooks = hooks

    async def perform(self, effect: Effect) -> Any:
        match effect:
            case Checkpoint():
                return await self._checkpoint(effect)
            case Direct(action, args):
                return await action(self._work, *args)
            case Parallel(checkpoints):
                return await self._parallel(checkpoints)
            case Patched(name):
                patched = optional(self._hooks, "patched")
                return bool(await settled(patched(name))) if patched is not None else True
            case AskApproval(call, timeout_ms):
                ctx = self._work.context(call, UiCollector(call["id"]))
                return await settled(self._hooks.await_approval(call, ctx, timeout_ms=timeout_ms))
            case AskAnswers(request):
                return await self._answers(request)
            case AskRepeat(call, count):
                ask = optional(self._hooks, "await_repeat")
                if ask is None:
                    raise RepeatedCallError(call["name"], count)
                return await settled(ask(call, count))
        raise Bug(f"{effect!r} is no effect.")

    async def _checkpoint(self, effect: Checkpoint) -> Any:
        if effect.begins is not None:
            begin = optional(self._hooks, "begin_action")
            if begin is not None:
                instead = await settled(begin(effect.name, effect.begins))
                if instead is not None:
                    return await self._hooks.step(effect.name, lambda: self._work.keep(instead))
        return await self._hooks.step(effect.name, lambda: effect.action(self._work, *effect.args))

    async def _parallel(self, checkpoints: Sequence[Checkpoint]) -> Any:
        together = optional(self._hooks, "parallel")
        tasks: list[Callable[[], Any]] = [partial(self._checkpoint, one) for one in checkpoints]
        if together is not None:
            return await settled(together(tasks))
        raise Bug("Calls were to run side by side, and the runner cannot do that.")

    async def _answers(self, request: Any) -> AnswersReply:
        ask = optional(self._hooks, "await_answers")
        call: dict[str, Any] = {"id": request["id"], "name": "ask", "input": {"questions": request["questions"]}, "kind": "ask"}
        ctx = self._work.context(call, UiCollector(call["id"]))
        if ask is not None:
            reply = await settled(ask(request, ctx))
        else:
            reply = await settled(self._hooks.await_approval(call, ctx, timeout_ms=None))
        if isinstance(reply, Decision):  # a bare yes takes the defaults, a no skips
            reply = AnswersReply(skipped=not reply.approved, answered_by=reply.decided_by, answered_via=reply.via)
        return cast("AnswersReply", reply)
