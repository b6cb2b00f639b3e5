"""Answers reach a run while a cell waits or computes, on every kernel; an interrupt ends the wait and nothing else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.kernel import matrix
from tests.kernel.flows import ONE_BUTTON, OPEN, TWO_QUESTIONS, workflow
from tests.kernel.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernel.client import Cell, Kernel

SUBSHELLS = [v for v in matrix.chosen() if not v.startswith("6.")]


def waiting_cell(kernel: Kernel, barrier: str) -> tuple[View, Cell]:
    """The two questions' run, shown, and a cell that waits for its end."""
    view = View.of(kernel.run(TWO_QUESTIONS), kernel)
    cell = kernel.send(f"print('waits', flush=True)\nresult = {barrier}\nprint('over:', result)")
    kernel.until(lambda: "waits" in cell.stdout)
    return view, cell


def test_an_answer_resumes_the_run_a_cell_waits_for(person: Kernel, barrier: str) -> None:
    view, cell = waiting_cell(person, barrier)

    assert view.answer({"name": "Ada"})["type"] == "accepted"
    view.until_asked("Your age")
    assert not cell.done
    assert view.answer({"age": "36"})["type"] == "accepted"

    assert person.wait(cell, 5).stdout == "waits\nover: {'name': 'Ada', 'age': 36}\n"


@pytest.mark.parametrize("version", SUBSHELLS)
def test_an_answer_on_a_subshell_resumes_it_too(version: str, start_kernel: Callable[..., Kernel], barrier: str) -> None:
    """JupyterLab sends comms on a subshell of their target, where the kernel has them."""
    kernel = start_kernel(version)
    kernel.allow_stdin = True
    view, cell = waiting_cell(kernel, barrier)
    view.subshell = kernel.create_subshell()

    view.answer({"name": "Ada"})
    view.until_asked("Your age")
    view.answer({"age": "36"})

    assert "over: {'name': 'Ada', 'age': 36}" in kernel.wait(cell, 5).stdout


def test_a_refused_answer_names_the_field_and_the_cell_goes_on_waiting(person: Kernel, barrier: str) -> None:
    view, cell = waiting_cell(person, barrier)
    view.answer({"name": "Ada"})
    view.until_asked("Your age")

    refused = view.answer({"age": "old"})

    assert refused["type"] == "refused"
    assert refused["fields"] == {"age": "not a whole number"}
    assert not cell.done
    view.answer({"age": "36"})
    assert "'age': 36" in person.wait(cell, 5).stdout


def test_an_interrupt_ends_the_cell_and_leaves_the_question_open(person: Kernel, barrier: str) -> None:
    view, cell = waiting_cell(person, barrier)
    queued = person.send("print('never')")
    person.pump(0.2)  # well into the wait: see test_kernel_client on a lost interrupt of 7.3.0

    start = time.monotonic()
    person.interrupt()
    person.wait(cell, 10)
    took = time.monotonic() - start

    print(f"figure: interrupt to the cell's end, {person.version}, {barrier}: {took:.2f} s")
    assert took < 3
    assert cell.error.startswith("CancelledError" if "await" in barrier else "KeyboardInterrupt")
    assert person.wait(queued).status == "aborted"
    after = person.run("print(run.status, [a.label for a in run.pending])")
    assert after.stdout == "waiting ['Your name']\n"
    view.answer({"name": "Ada"})
    view.until_asked("Your age")
    last = person.send(f"print({barrier})")
    view.answer({"age": "36"})
    assert "'age': 36" in person.wait(last, 5).stdout


def test_run_all_keeps_the_order_of_start_wait_and_use(person: Kernel, barrier: str) -> None:
    cells = [person.send(code) for code in (ONE_BUTTON, f"result = {barrier}", "print('used', result)")]

    view = View.of(cells[0], person)
    person.pump(0.3)
    assert not cells[1].done
    assert cells[2].stdout == ""
    view.answer()

    assert person.wait(cells[2], 5).stdout == "used gone\n"
    assert [cell.status for cell in cells] == ["ok", "ok", "ok"]


def test_questions_asked_in_one_cell_are_answered_while_it_waits(person: Kernel, barrier: str) -> None:
    question = '[{"id": "env", "question": "Where to?", "isSkippable": False, "options": [{"id": "s", "label": "staging"}]}]'
    asked = f"loom.ask_questions({question})"
    cell = person.send(OPEN + f"print((await {asked})['env'])" if "await" in barrier else OPEN + f"print({asked}.wait()['env'])")

    view = View.of(cell, person)
    assert view.answer([{"questionId": "env", "isSkipped": False, "answer": "my own place"}])["type"] == "accepted"

    assert person.wait(cell, 5).stdout == "my own place\n"


def test_several_open_asks_are_answered_in_any_order(person: Kernel, barrier: str) -> None:
    code = "\n".join(
        f'r{i} = loom.ask_questions([{{"id": "q", "question": "Question {i}?", "isSkippable": False}}]); display(r{i})'
        for i in range(3)
    )
    shown = person.run(OPEN + code)
    views = [View(person, model_id) for model_id in shown.model_ids]
    for view in views:
        view.hello()
    wait = [f"(await r{i})['q']" if "await" in barrier else f"r{i}.wait()['q']" for i in range(3)]
    cell = person.send(f"print({', '.join(wait)})")

    for i in (2, 0, 1):
        views[i].answer([{"questionId": "q", "isSkipped": False, "answer": f"answer {i}"}])

    assert person.wait(cell, 5).stdout == "answer 0 answer 1 answer 2\n"


@pytest.mark.parametrize("version", SUBSHELLS)
@pytest.mark.parametrize("busy", ["time.sleep(1.5)", "run.wait()"])
def test_a_hello_is_acknowledged_while_the_main_thread_is_blocked(
    version: str, busy: str, start_kernel: Callable[..., Kernel]
) -> None:
    kernel = start_kernel(version)
    kernel.allow_stdin = True
    view = View.of(kernel.run(ONE_BUTTON), kernel)
    cell = kernel.send(f"print('in', flush=True); {busy}")
    kernel.until(lambda: "in" in cell.stdout)

    start = time.monotonic()
    view.hello()
    took = time.monotonic() - start

    print(f"figure: hello to its acknowledgement, {version}, main thread in {busy}: {took * 1000:.1f} ms")
    assert took < 1
    assert not cell.done
    view.answer()
    kernel.wait(cell)


def test_a_run_goes_on_while_a_plain_cell_computes(person: Kernel) -> None:
    person.run(workflow("for i in range(5):\n    await asyncio.sleep(0.01)\nself.set_result(time.monotonic())", start="None"))
    code = """
run = loom.start(OneWorkflow)
end = time.monotonic() + 10
while run.status != "completed" and time.monotonic() < end:
    sum(range(1000))
print(run.status, run.result < time.monotonic())
"""
    assert person.run(code).stdout == "completed True\n"


def test_a_kernel_hears_every_hello_said_as_a_cell_ends(person: Kernel) -> None:
    """7.0-7.3 miss wake-ups of their shell socket at just this moment, and are then deaf for good; the lane looks again."""
    view = View.of(person.run(ONE_BUTTON), person)

    for i in range(60):
        person.run(f"{i}")
        view.hello()


def test_a_view_that_comes_later_is_told_everything(person: Kernel) -> None:
    cell = person.run(workflow("print('some words')\nself.document_store.save(loom.PlainDocument, {'text': 'a paper'})"))
    view = View.of(cell, person)
    view.until_status("completed")

    late = View(person, view.model_id)
    before = len(view.heard)
    late.hello()
    told = next(message for message in view.heard[before:] if "ack" in message)  # a push may come in between

    assert told["log"] == "some words\n"
    assert [d["html"] for d in told["docs"]] == ["<pre>a paper</pre>"]
    assert told["head"]["status"] == "completed"


def test_a_view_that_speaks_but_hears_nothing_gets_a_new_model(person: Kernel) -> None:
    """anywidget gives a panel's module two seconds; the model of a slower one is deaf for good, and must be replaced."""
    cell = person.run(ONE_BUTTON)
    deaf = View.of(cell, person)

    def is_replaced() -> bool:
        deaf.head_rev = 0
        deaf.say(type="hello", have={"stamp": 0, "log": 0, "head": 0})
        person.pump(0.3)
        return cell.model_ids[-1] != deaf.model_id

    person.until(is_replaced, 10, what="a new model")

    fresh = View.of(cell, person)
    assert fresh.answer()["type"] == "accepted"
    fresh.until_status("completed")
