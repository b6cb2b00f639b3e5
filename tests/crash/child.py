"""A process that is killed: it keeps runs in flight and says on its pipe what it could see as acknowledged.

    python child.py STORE EFFECTS DURABILITY FIRST COUNT

Each run makes MOVES moves; before it ends, move n appends the line "run number n key" to EFFECTS, which stands for the world
outside. Each change that a run's view shows is written to standard output at once: "seen RUN MOVES STATUS", or "result RUN JSON".
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
from typing import Any

import loomnb as loom

MOVES = 8
IN_FLIGHT = 6


def say(*words: object) -> None:
    """One write call a line: what the kill leaves of the pipe is whole lines, or a last one without its end."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def effect(run_id: str, number: int, key: str) -> None:
    """Something in the world outside that a transaction cannot take back."""
    file = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{run_id} {number} {key}\n".encode())
    os.close(file)


@loom.workflow(name="killed_at_random")
class KilledWorkflow(loom.BaseWorkflow):
    """Goes round its places until it made MOVES moves; every second one is a sync body, one saves a document."""

    @loom.transition(to="even")
    async def begin(self, state: Any, ctx: Any) -> None:
        await self._work(ctx, 1)
        self.assign_state(made=[1])

    def is_made(self, state: Any) -> bool:
        return len(state["made"]) >= MOVES - 1

    @loom.transition(from_="even", to="odd")
    def sync_move(self, state: Any, ctx: Any) -> None:
        number = len(state["made"]) + 1
        effect(ctx.workflow_id, number, ctx.idempotency_key)
        self.assign_state(made=[*state["made"], number])

    @loom.transition(from_="odd", to="even")
    async def async_move(self, state: Any, ctx: Any) -> None:
        number = len(state["made"]) + 1
        await self._work(ctx, number)
        self.document_store.save(loom.PlainDocument, {"text": f"paper {number}"})
        self.assign_state(made=[*state["made"], number])

    @loom.transition(from_="even", to="end", priority=1)
    @loom.guard("is_made")
    async def finish(self, state: Any, ctx: Any) -> None:
        await self._work(ctx, len(state["made"]) + 1)
        self.set_result({"made": [*state["made"], len(state["made"]) + 1]})

    async def _work(self, ctx: Any, number: int) -> None:
        await asyncio.sleep(random.uniform(0, 0.004))
        effect(ctx.workflow_id, number, ctx.idempotency_key)
        await asyncio.sleep(random.uniform(0, 0.004))


def report(run: loom.Run) -> None:
    """Tell each acknowledged move as it becomes visible."""
    told, saying = [(-1, "")], threading.Lock()  # the first call below is on another thread than those of the run

    def changed(_: str) -> None:
        with saying:
            view = run.record.view
            if (view.moves, view.status) != told[0]:
                told[0] = view.moves, view.status
                say("seen", run.id, view.moves, view.status)

    run.record.watchers.append(changed)
    changed("")


async def main() -> None:
    store, durability, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    session = loom.open(store, durability=durability)
    runs = session.restore()
    for run in runs:
        report(run)
    say("ready", len(runs))
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int) -> None:
        async with gate:
            run = session.start(KilledWorkflow, {"number": number}, key=f"run {number}")
            report(run)
            say("result", run.id, json.dumps(await run))

    await asyncio.gather(*[one(number) for number in range(first, first + count)])
    for run in runs:
        say("result", run.id, json.dumps(await run))
    session.close()
    say("done")


if __name__ == "__main__":
    asyncio.run(main())
