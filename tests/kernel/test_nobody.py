"""Where nobody can answer, a waiting cell ends soon, says what to do, and leaves the run waiting."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.kernel import matrix
from tests.kernel.flows import ONE_BUTTON, OPEN, TWO_QUESTIONS, workflow
from tests.kernel.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernel.client import Kernel


def test_a_program_that_runs_the_notebook_gets_no_front_end_at_once(kernel: Kernel, barrier: str) -> None:
    """nbclient and papermill send cells with `allow_stdin` off."""
    kernel.run(TWO_QUESTIONS)

    start = time.monotonic()
    cell = kernel.wait(kernel.send(barrier))
    took = time.monotonic() - start

    print(f"figure: NoFrontEnd without stdin, {kernel.version}, {barrier}: {took:.2f} s")
    assert took < 2
    assert cell.error.startswith("NoFrontEnd: Greet asks 'Your name' (name), and nobody can answer here")
    assert cell.reply is not None
    shown = "\n".join(cell.reply["traceback"])
    assert "loom.answers({'greet': {'name': {'name': …}}})" in shown
    assert "LOOMNB_ANSWERS" in shown
    assert 'File "' not in shown
    assert kernel.run("print(run.status, [a.name for a in run.pending])").stdout == "waiting ['name']\n"


def test_a_program_that_runs_the_notebook_is_given_pages_without_views(kernel: Kernel) -> None:
    """A view that is saved hides the page: JupyterLab shows "model not found" for it, nbconvert an empty place."""
    kernel.run(TWO_QUESTIONS)
    kernel.run("loom.answers({'greet': {'name': {'name': 'Ada'}, 'age': {'age': 36}}}); run.wait()")

    def shown() -> list[dict[str, str]]:
        kinds = ("display_data", "update_display_data")
        return [message["content"]["data"] for message in kernel.iopub if message["msg_type"] in kinds]

    kernel.until(lambda: "completed" in str(shown()), what="the page that tells the end")
    assert {mime for data in shown() for mime in data} == {"text/html", "text/markdown", "text/plain"}


def test_the_advice_it_gives_works(kernel: Kernel, barrier: str) -> None:
    kernel.run(TWO_QUESTIONS)
    kernel.wait(kernel.send(barrier))

    kernel.run("loom.run(run.id).answer('name', {'name': 'Ada'}); loom.answers({'greet': {'age': {'age': 36}}})")

    assert kernel.run(f"print({barrier})").stdout == "{'name': 'Ada', 'age': 36}\n"


def test_answers_beside_the_notebook_are_used_where_nobody_can_answer(kernel: Kernel, barrier: str) -> None:
    (kernel.cwd / "answers.yaml").write_text("greet:\n  name: {name: Ada}\n  age: {age: 36}\n", encoding="utf-8")
    kernel.run(TWO_QUESTIONS)

    assert kernel.run(f"print({barrier})").stdout == "{'name': 'Ada', 'age': 36}\n"
    sources = kernel.run("print(loom.sql('select source from answers order by all').fetchall())")
    assert sources.stdout == "[('answers.yaml',), ('answers.yaml',)]\n"


def test_answers_beside_the_notebook_are_left_alone_while_a_person_sits_there(person: Kernel) -> None:
    (person.cwd / "answers.yaml").write_text("go:\n  go: {}\n", encoding="utf-8")

    View.of(person.run(ONE_BUTTON), person).until_asked("Go on")
    person.run("pass")

    assert person.run("print(run.status)").stdout == "waiting\n"


@pytest.mark.parametrize(("version", "wait"), [(matrix.chosen()[0], "run.wait()"), (matrix.chosen()[-1], "await run")])
def test_a_front_end_that_shows_nothing_is_noticed(version: str, wait: str, start_kernel: Callable[..., Kernel]) -> None:
    """A person may sit there, but no view says hello and no core widget either: seven seconds, then the same message."""
    kernel = start_kernel(version)
    kernel.allow_stdin = True
    kernel.run(ONE_BUTTON)

    start = time.monotonic()
    cell = kernel.wait(kernel.send(wait))
    took = time.monotonic() - start

    print(f"figure: NoFrontEnd without any hello, {version}, {wait}: {took:.1f} s")
    assert 4 < took < 9
    assert "no front end of this notebook shows its panel" in cell.error
    assert kernel.run("print(run.status)").stdout == "waiting\n"


def test_a_run_that_needs_nobody_is_waited_for_headless(kernel: Kernel, barrier: str) -> None:
    kernel.run(workflow("await asyncio.sleep(0.2)\nself.set_result('alone')"))

    assert kernel.run(f"print({barrier})").stdout == "alone\n"


@pytest.mark.parametrize("env", [{"VOILA_APP_PORT": "8866"}, {"SERVER_SOFTWARE": "voila/0.5.13"}], ids=["port", "software"])
def test_under_voila_the_waiting_cell_ends_at_once_and_the_panel_stays_live(
    env: dict[str, str], start_kernel: Callable[..., Kernel], barrier: str
) -> None:
    kernel = start_kernel(env=env)
    shown = kernel.run(ONE_BUTTON)

    start = time.monotonic()
    cell = kernel.wait(kernel.send(barrier))

    assert time.monotonic() - start < 2
    assert "NoFrontEnd" in cell.error
    assert "under Voila the page is shown only when every cell has finished" in cell.error
    view = View.of(shown, kernel)
    assert view.answer()["type"] == "accepted"
    view.until_status("completed")


def test_questions_in_a_cell_say_their_key_too(kernel: Kernel) -> None:
    question = '[{"id": "env", "question": "Where to?", "isSkippable": False}]'
    cell = kernel.wait(kernel.send(OPEN + f"loom.ask_questions({question}).wait()"))

    assert "Question asks 'Where to?' (env), and nobody can answer here" in cell.error
    assert "loom.answers({'ask': {'env': '…'}})" in cell.error
