"""`loop="kernel"`: moves on the notebook's own loop, for what was made in a cell; and nest-asyncio only where it must be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernel.flows import ONE_BUTTON, workflow
from tests.kernel.view import View

if TYPE_CHECKING:
    from tests.kernel.client import Kernel

ON_KERNEL = "loom.start(OneWorkflow, loop='kernel')"
ASKS_ON_KERNEL = ONE_BUTTON.replace("loom.start(GoWorkflow)", "loom.start(GoWorkflow, loop='kernel')")
IS_LOADED = "import sys; print('nest_asyncio' in sys.modules)"


def test_await_works_and_is_answered(person: Kernel) -> None:
    view = View.of(person.run(ASKS_ON_KERNEL), person)
    cell = person.send("print(await run)")

    view.answer()

    assert person.wait(cell, 5).stdout == "gone\n"
    assert person.run(IS_LOADED).stdout == "False\n"


def test_moves_run_on_the_cells_own_loop(person: Kernel) -> None:
    head = "gate = asyncio.Event(); mine = asyncio.get_running_loop()"
    body = "await gate.wait()\nself.set_result(asyncio.get_running_loop() is mine)"
    person.run(workflow(body, start=ON_KERNEL, head=head))

    assert person.run("gate.set(); print(await run)").stdout == "True\n"


def test_a_plain_wait_that_needs_a_person_is_refused(person: Kernel) -> None:
    view = View.of(person.run(ASKS_ON_KERNEL), person)
    view.until_asked("Go on")

    cell = person.wait(person.send("run.wait()"), 5)

    assert cell.error.startswith("WouldDeadlock: run.wait() would block the loop")
    assert "Write `await run` instead." in cell.error
    last = person.send("print(await run)")
    view.answer()
    assert person.wait(last, 5).stdout == "gone\n"


def test_a_plain_wait_that_needs_nobody_works_through_nest_asyncio(person: Kernel) -> None:
    person.run(workflow("await asyncio.sleep(0.2)\nself.set_result('done')", start="None"))
    person.run("run = None")
    queued = [
        person.send(f"run = {ON_KERNEL}; print(run.wait())"),
        person.send("print('next')"),
        person.send("await asyncio.sleep(0.01); print('async')"),
    ]

    assert [person.wait(cell).stdout for cell in queued] == ["done\n", "next\n", "async\n"]
    assert person.run(IS_LOADED).stdout == "True\n"


def test_nest_asyncio_is_not_loaded_otherwise(person: Kernel, barrier: str) -> None:
    person.run(workflow("pass"))
    person.run(barrier)
    person.run("loom.runs(); loom.pending()")

    assert person.run(IS_LOADED).stdout == "False\n"


def test_a_lock_of_a_cell_fails_in_a_move_with_the_way_out(person: Kernel) -> None:
    """Contended in the cell's loop first: only then is it bound to it."""
    head = """
lock = asyncio.Lock()
async def hold():
    async with lock:
        await asyncio.sleep(0.05)
await asyncio.gather(hold(), hold())
holder = asyncio.create_task(hold())
await asyncio.sleep(0)
"""
    person.run(workflow("async with lock:\n    pass", start="loom.start(OneWorkflow)", head=head))

    cell = person.wait(person.send("await run"))

    assert "RuntimeError" in cell.error
    assert "belongs to the notebook's loop" in cell.error
    assert 'loop="kernel"' in cell.error


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_user_who_applies_nest_asyncio_breaks_nothing(person: Kernel, barrier: str, when: str) -> None:
    patch = "import nest_asyncio; nest_asyncio.apply()"
    if when == "before":
        person.run(patch)
    view = View.of(person.run(ONE_BUTTON), person)
    if when == "after":
        person.run(patch)
    cell = person.send(f"print({barrier})")
    queued = person.send("print('next')")

    view.answer()

    assert person.wait(cell, 5).stdout == "gone\n"
    assert person.wait(queued, 5).stdout == "next\n"
