"""Blueprints in real kernels: a step asks in the middle of its function, and cells, other runs and kills take their course."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.kernel import matrix
from tests.kernel.flows import DELIVER, DELIVER_DEFINED, OPEN, step
from tests.kernel.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernel.client import Cell, Kernel

NAME = [{"questionId": "name", "isSkipped": False, "answer": "Ada"}]
ASKS = "verdict = await access.interaction.confirm('Go **on**?')\nreturn loom.StepResult('done')"
RECOVERS = "print('goes on:', saved.confirmation.feedback)\nreturn loom.StepResult('done')"
IS_VOLATILE = re.compile(r"(RUN|ASK)-|run-\w{6}|20\d\d-\d\d-\d\d|0x[0-9a-f]{6}")


@pytest.fixture
def kernel(start_kernel: Callable[..., Kernel]) -> Kernel:
    """The newest kernel: what differs between versions is how messages arrive, and one test here is on all of them."""
    return start_kernel()


@pytest.fixture
def person(kernel: Kernel) -> Kernel:
    kernel.allow_stdin = True
    return kernel


def answer_later(code: str) -> str:
    """Code of a cell that answers while the same cell waits."""
    return f"import threading; threading.Timer(0.3, lambda: {code}).start()\n"


# -- waiting and answering ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "barrier"),
    [*zip(matrix.chosen(), ("run.wait()", "await run", "run.wait()"), strict=False), (matrix.chosen()[-1], "await run")],
)
def test_a_suspended_step_goes_on_with_an_answer_of_the_panel_or_of_code(
    version: str, barrier: str, start_kernel: Callable[..., Kernel]
) -> None:
    person = start_kernel(version)
    person.allow_stdin = True
    view = View.of(person.run(DELIVER), person)
    view.until_asked("Your name?")
    cell = person.send(f"print('waits', flush=True)\nprint('over:', {barrier})")
    person.until(lambda: "waits" in cell.stdout)

    start = time.monotonic()
    assert view.answer(NAME)["type"] == "accepted"
    view.until_asked("Please confirm")
    took = time.monotonic() - start
    assert not cell.done
    person.interrupt()
    person.wait(cell, 10)
    assert person.run("print(run.status, [a.kind for a in run.pending])").stdout == "waiting ['confirm']\n"
    last = person.wait(person.send(answer_later("run.answer(True)") + f"print('over:', {barrier})"), 10)

    print(f"figure: answer of a step's question to its next one, {version}: {took:.2f} s")
    assert took < 3
    assert cell.error.startswith("CancelledError" if "await" in barrier else "KeyboardInterrupt")
    assert last.stdout == "over: done\n"
    assert (person.cwd / "made.txt").read_text() == "clarify\nclarified\n"
    view.until_status("completed")
    assert [a["stage"] for a in view.head["artifacts"]] == ["spec"]


def test_without_a_front_end_the_waiting_cell_names_the_question_and_its_advice_works(kernel: Kernel) -> None:
    barrier = "await run"
    kernel.run("import loomnb, loomnb_widgets.face")
    start = time.monotonic()
    kernel.run(DELIVER)
    assert time.monotonic() - start < 3, "a suspended step is at rest: nothing is to be waited for"

    start = time.monotonic()
    cell = kernel.wait(kernel.send(barrier))
    took = time.monotonic() - start
    print(f"figure: NoFrontEnd of a suspended step: {took:.2f} s")
    assert took < 2
    assert cell.error.startswith("NoFrontEnd: Deliver: Notes asks 'Your name?' (name), and nobody can answer here")
    assert "loom.answers({'deliver': {'name': '…'}})" in cell.error
    kernel.run("run.answer('clarify', {'name': 'Ada'})")
    second = kernel.wait(kernel.send(barrier))
    assert second.error.startswith("NoFrontEnd: Deliver: Notes asks 'Please confirm: Publish Notes for Ada?' (confirm)")
    assert "loom.answers({'deliver': {'confirm': True}})" in second.error

    kernel.run("loom.answers({'deliver': {'confirm': True}})")
    assert kernel.run(f"print({barrier})").stdout == "done\n"


def test_answers_given_first_run_it_through(kernel: Kernel) -> None:
    given = "loom.answers({'deliver': {'name': 'Ada', 'confirm': {'isConfirmed': True, 'feedback': 'fine'}}})\n"

    cell = kernel.run(OPEN + given + DELIVER + "\n")

    assert kernel.run("print(await run, run.artifacts[0].data)").stdout == "done {'goal': 'Notes', 'name': 'Ada'}\n"
    assert "confirmed: fine" in cell.outputs[-1]["data"]["text/plain"], "nobody watches: the cell waits for the end"
    sources = kernel.run("print(loom.sql('select distinct source from answers').fetchall())")
    assert sources.stdout == "[('loom.answers',)]\n"


def test_core_widgets_answer_a_step_where_anywidget_is_missing(person: Kernel) -> None:
    """No view says hello: after three seconds the same questions are core widgets, spoken to by hand here."""
    person.run(DELIVER)

    def model(**traits: str) -> str:
        """The newest widget with these traits."""
        fits = [m for m, state in person.states.items() if all(state.get(k) == v for k, v in traits.items())]
        return fits[-1] if fits else ""

    person.until(lambda: model(description="Submit"), 6, what="a form of core widgets")
    cell = person.send("print(await run)")
    person.comm_update(model(_model_name="TextModel"), {"value": "Ada"})
    person.comm_msg(model(description="Submit"), {"event": "click"})
    person.until(lambda: model(description="Decline"), 6, what="the next question")
    person.comm_update(model(placeholder="Feedback (optional)"), {"value": "not yet"})
    person.comm_msg(model(description="Decline"), {"event": "click"})
    person.until(lambda: any("not confirmed: not yet" in s["value"] for s in told(person)), 6, what="the answer in the story")
    assert not cell.done
    assert (person.cwd / "made.txt").read_text() == "clarify\nclarified\nclarify\n", "it asks anew"


def told(kernel: Kernel) -> list[dict[str, str]]:
    """The HTML that core widgets show."""
    return [s for s in kernel.states.values() if s.get("_model_name") == "HTMLModel"]


# -- kernels that die ---------------------------------------------------------------------------------


def killed_and_run_again(person: Kernel, code: str, *, asked: str) -> tuple[str, View]:
    """The id of the question that was open when the kernel was killed, and the panel in the next kernel."""
    view = View.of(person.run(code), person)
    view.until_asked(asked)
    (ask,) = view.head["asks"]
    person.kill()
    person.restart()
    return ask["id"], View.of(person.run(code), person)


def test_a_killed_kernels_question_is_open_again_and_its_answer_goes_on_through_recover(person: Kernel) -> None:
    start = time.monotonic()
    asked, view = killed_and_run_again(person, DELIVER, asked="Your name?")
    took = time.monotonic() - start
    assert [(a["id"], a["enabled"]) for a in view.head["asks"]] == [(asked, True)]
    assert view.log == "who is it for?\n"
    cell = person.send("print(await run)")
    assert view.answer(NAME)["type"] == "accepted"
    view.until_asked("Please confirm")
    view.answer({"isConfirmed": True})

    assert person.wait(cell, 10).stdout == "done\n"
    assert (person.cwd / "made.txt").read_text() == f"clarify\nrecover {asked}\n"
    print(f"figure: a run's first cell, a kill, a new kernel, the open question again: {took:.1f} s")


def test_without_recover_the_run_is_interrupted_and_says_what_to_do(person: Kernel) -> None:
    _, view = killed_and_run_again(person, step(ASKS), asked="Please confirm")

    assert (view.head["status"], view.head["asks"]) == ("interrupted", [])
    assert (view.head["can_retry"], view.head["retry_text"], view.head["can_restart"]) == (True, "Make the step again", True)
    assert "recover" in view.head["notice"]
    cell = person.wait(person.send("await run"))
    assert cell.error.startswith("RunFailed: The run RUN-")
    assert "was interrupted" in cell.error
    assert "run.retry()" in cell.error
    assert "run.retry()" in person.run("run").text
    assert "run.retry()" in person.run("loom.pending()").text
    view.say(type="retry")
    view.until_asked("Please confirm")
    view.answer({"isConfirmed": True})
    assert person.run("print(await run)").stdout == "done\n"


# -- output, threads, loops ---------------------------------------------------------------------------


def test_what_a_step_prints_goes_to_its_run_and_to_no_cell(person: Kernel) -> None:
    body = "print('before')\nawait access.interaction.confirm('?')\nprint('after')\nreturn loom.StepResult('done')"
    first = person.run(step(body))
    view = View.of(first, person)
    other = person.send("for i in range(10): print('cell', i); time.sleep(0.02)")
    view.answer({"isConfirmed": True})
    view.until_status("completed")
    person.wait(other)

    assert (first.stdout, first.stderr) == ("", "")
    assert other.stdout == "".join(f"cell {i}\n" for i in range(10))
    assert person.run("print(run.log)").stdout == "before\nafter\n\n"
    view.hello()
    assert view.log == "before\nafter\n"


def test_a_plain_step_that_blocks_does_not_hold_up_other_runs(person: Kernel) -> None:
    person.run(step("time.sleep(1.5)\nreturn loom.StepResult('done')", flow="slow", sync=True))
    person.run("slow_run = run")

    start = time.monotonic()
    person.run(step("await asyncio.sleep(0.01)\nreturn loom.StepResult('done')", flow="quick"))
    assert person.run("print(await run, slow_run.status)").stdout == "done running\n"
    assert time.monotonic() - start < 1.4
    assert person.run("print(await slow_run)").stdout == "done\n"


def test_a_plain_step_that_asks_is_told_how(person: Kernel) -> None:
    person.run(step("access.interaction.confirm('?')", sync=True))

    assert "Write `async def`, and `await access.interaction.confirm(…)`." in person.wait(person.send("await run")).error


def test_steps_on_the_kernels_own_loop(person: Kernel) -> None:
    head = "gate = asyncio.Event(); mine = asyncio.get_running_loop()"
    body = f"print(asyncio.get_running_loop() is mine)\nawait gate.wait()\n{ASKS}"
    view = View.of(person.run(step(body, head=head, start="loom.flow(one, 'do it', loop='kernel')")), person)
    person.run("gate.set()")
    cell = person.send("print(await run, run.log)")

    view.until_asked("Please confirm")
    view.answer({"isConfirmed": True})

    assert person.wait(cell, 5).stdout == "done True\n\n"


# -- what is told -------------------------------------------------------------------------------------


def statics(cell: Cell) -> dict[str, str]:
    """The static forms a cell's output has in the end."""
    data = cell.outputs[-1]["data"]
    return {mime: data[mime] for mime in ("text/plain", "text/html", "text/markdown")}


def test_the_static_forms_tell_the_story_without_ids_or_times(person: Kernel) -> None:
    cell = person.run(DELIVER)
    view = View.of(cell, person)
    view.answer(NAME)
    view.until_asked("Please confirm")
    view.answer({"isConfirmed": True, "feedback": "well done"})
    person.until(lambda: "completed" in statics(cell)["text/plain"], 5)

    for text in statics(cell).values():
        for said in ("spec/clarify", "spec/publish", "Your name?", "Ada", "confirmed: well done", "deliver / spec, revision 1"):
            assert said in text
        assert not IS_VOLATILE.search(text)
    assert person.run("print(repr(run))").stdout.strip() == statics(cell)["text/plain"]


def test_what_an_exception_says_is_told_live_only(person: Kernel) -> None:
    cell = person.run(step("secret = 'the-secret'\nraise ValueError(f'no {secret}')"))
    view = View.of(cell, person)
    view.until_status("failed")
    person.run("run")

    assert "no the-secret" in view.head["error"]["message"]
    assert "raise ValueError(f'no {secret}')" in view.head["error"]["frames"]
    assert "no the-secret" in person.wait(person.send("await run")).error
    told = json.dumps([statics(c) for c in person.cells.values() if c.outputs])
    assert "the-secret" not in told
    assert "STEP_EXECUTION_FAILED" in told
    assert "the-secret" not in person.run("print(repr(run), run.view())").stdout


def test_pending_events_and_the_view_tell_of_a_steps_question(person: Kernel) -> None:
    view = View.of(person.run(DELIVER), person)
    view.until_asked("Your name?")

    told = person.run("print([(p.run.id == run.id, p.ask.label) for p in loom.pending()]); print(run.view().status)")
    assert told.stdout == "[(True, 'Your name?')]\nwaiting\n"
    assert person.run("loom.pending()").model_ids == [view.model_id]
    view.answer(NAME)
    view.until_asked("Please confirm")
    view.answer({"isConfirmed": True})
    view.until_status("completed")
    events = person.run(
        "async for e in run.events(): print(e.type, e.status or '', e.data.get('name', ''), e.data.get('how', ''))"
    )
    lines = [" ".join(line.split()) for line in events.stdout.splitlines() if "log.added" not in line]
    assert lines == [
        "workflow.created pending",
        "workflow.updated running enter",
        "step.began clarify run",
        "workflow.updated waiting",
        "ask.opened clarify",
        "workflow.updated running clarify",
        "step.began clarify on",
        "step.recorded clarify",
        "workflow.updated running clarify",
        "step.began publish run",
        "workflow.updated waiting",
        "ask.opened publish",
        "workflow.updated running publish",
        "step.began publish on",
        "step.recorded publish",
        "workflow.updated completed publish",
    ]


def test_a_run_without_its_blueprint_asks_for_its_cell(person: Kernel) -> None:
    View.of(person.run(DELIVER), person).until_asked("Your name?")
    person.kill()
    person.restart()

    view = View.of(person.run(OPEN + "loom.pending()"), person)
    (ask,) = view.head["asks"]
    assert ask["enabled"] is False
    assert "Run the cells of the blueprint 'deliver', up to loom.flow(…)" in ask["disabled_reason"]
    person.run(DELIVER_DEFINED + "loom.flow(deliver, 'Notes', key='notes')")
    view.until(lambda: view.head["asks"][0]["enabled"], "the form to come alive")
    assert view.answer(NAME)["type"] == "accepted"
