"""A kernel with a blueprint's run that is killed at a phase: python -m tests.crash.blueprints STORE EFFECTS PHASE RECOVERS

It goes as far as the phase, says "at PHASE" on its pipe, and stands still there until it is killed. What its code does to the
world outside is a line each in EFFECTS. Phases are those of contracts/blueprints.md §2.6.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import loomnb as loom
from loomnb.store import Database

__all__ = ["PHASES", "flow_of"]

PHASES = (
    "stage_pending",
    "initializer",
    "step_ready",
    "executing",
    "committed",
    "waiting",
    "answered",
    "executing after the answer",
    "step_result",
    "stage_pending of the second stage",
    "terminal",
)

DONE = loom.StepResult("complete")


class Held:
    """Where this process stands still; None in one that is not killed."""

    phase: str | None = None


def stop(phase: str) -> None:
    """Stand still here, if this is the phase."""
    if Held.phase == phase:
        os.write(1, f"at {phase}\n".encode())
        threading.Event().wait()


def effect(what: str) -> None:
    """Something in the world outside that no transaction takes back."""
    file = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{what}\n".encode())
    os.close(file)


def record(name: str, data: Any) -> dict[str, Any]:
    return {"type": "append_record", "id": name, "payload": {"flowName": "f", "stageName": "s", "data": data}}


def flow_of(recovers: bool) -> loom.Blueprint:
    """Two stages: the first writes State, commits, asks and commits the answer; the second commits what it finds."""

    def initialize(context: Any) -> Any:
        stop(f"stage_pending of the {context.stage_name} stage")
        effect(f"initialize {context.stage_name}")
        if context.stage_name == "first":
            stop("initializer")
        return 0

    async def answered(is_confirmed: bool, access: Any) -> loom.StepResult:
        effect(f"answer {is_confirmed}")
        stop("executing after the answer")
        await access.storage.commit([record("answer", [is_confirmed, access.state.value])])
        return DONE

    @loom.code
    async def ask(access: Any) -> loom.StepResult:
        effect("ask")
        stop("executing")
        await access.state.update(access.state.value + 1)
        await access.storage.commit([record("asked", access.state.value)])
        stop("committed")
        return await answered((await access.interaction.confirm("Go?")).is_confirmed, access)

    if recovers:

        @ask.recover
        async def recover(saved: Any, access: Any) -> loom.StepResult:
            effect("recover")
            return await answered(saved.confirmation.is_confirmed, access)

    @loom.code
    async def finish(access: Any) -> loom.StepResult:
        effect("finish")
        await access.storage.commit([record("finished", access.state.value)])
        return DONE

    def stage(name: str, code: Any, target: Any) -> loom.BlueprintStage:
        step = loom.BlueprintStep(execution=code, on={"complete": loom.STAGE_END})
        return loom.BlueprintStage(
            state_schema=int, initialize_state=initialize, entry_step_name=name, steps={name: step}, on={"complete": target}
        )

    return loom.Blueprint(
        flow_name="killed_flow",
        entry_stage_name="first",
        stages={"first": stage("ask", ask, "second"), "second": stage("finish", finish, loom.WORKFLOW_END)},
    )


BEFORE: dict[str, Callable[[str, str], bool]] = {
    "step_ready": lambda kind, body: kind == "step.began",
    "answered": lambda kind, body: kind == "step.began" and '"how":"on"' in body,
    "step_result": lambda kind, body: kind == "run.moved" and '"name":"ask"' in body,
}
"""Phases that last until a row is stored."""


class Standing(Database):
    """A store that stands still instead of storing the row that would end the phase."""

    def put(self, rows: Any, done: Any, **options: Any) -> None:
        ends = BEFORE.get(Held.phase or "", lambda kind, body: False)
        if any(ends(kind, body) for _, kind, body in rows):
            stop(Held.phase or "")
        super().put(rows, done, **options)

    def commit(self, rows: Any) -> int:
        seq = super().commit(rows)
        if rows[0][1] == "run.started":
            stop("stage_pending")
        return seq


async def main() -> None:
    store, Held.phase, recovers = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
    session = loom.Loom(store, database=Standing)
    run = session.flow(flow_of(recovers), "killed")
    await run.settled()
    stop("waiting")
    run.answer({"isConfirmed": True})
    await run
    stop("terminal")


if __name__ == "__main__":
    asyncio.run(main())
