"""Two kernels and one store, a killed kernel, and SQL beside runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.kernel.flows import ONE_BUTTON, OPEN, TWO_QUESTIONS, workflow
from tests.kernel.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernel.client import Kernel

# -- two kernels ------------------------------------------------------------------------------------


def test_a_second_kernel_is_told_who_owns_the_store_and_both_lines_it_is_given_work(
    kernel_version: str, start_kernel: Callable[..., Kernel]
) -> None:
    env = {"JPY_SESSION_NAME": "analysis/first.ipynb"}
    owner = start_kernel(kernel_version, env=env)
    owner.allow_stdin = True
    View.of(owner.run(TWO_QUESTIONS), owner).answer({"name": "Ada"})
    second = start_kernel(kernel_version)
    second.run("import loomnb as loom")

    start = time.monotonic()
    cell = second.wait(second.send("loom.open('store.duckdb')"))
    took = time.monotonic() - start

    print(f"figure: StoreBusy, {kernel_version}: {took:.2f} s")
    assert took < 2
    assert cell.reply is not None
    shown = "\n".join(cell.reply["traceback"])
    assert f"in use by the notebook analysis/first.ipynb (process {owner.pid}, since 20" in shown
    assert 'File "' not in shown
    assert "Traceback" not in shown
    lines = [line.split("#")[0].strip() for line in shown.splitlines() if line.startswith("    loom.")]
    assert lines == ['loom.snapshot("copy.duckdb")', "loom.close()"]
    owner.run(lines[0])
    copied = second.run("loom.open('copy.duckdb'); print(loom.sql('select place from runs').fetchall()); loom.close()")
    assert copied.stdout == "[('named',)]\n"
    owner.run(lines[1])
    assert second.run("loom.open('store.duckdb'); print(len(loom.runs()))").stdout == "1\n"


def test_a_dead_owner_is_none(start_kernel: Callable[..., Kernel]) -> None:
    owner, second = start_kernel(), start_kernel()
    owner.run(TWO_QUESTIONS)

    owner.kill()

    assert second.run(OPEN + "print(loom.sql('select status from runs').fetchall())").stdout == "[('waiting',)]\n"


# -- a killed kernel --------------------------------------------------------------------------------


def test_a_killed_kernels_run_goes_on_at_its_second_question(person: Kernel, barrier: str) -> None:
    view = View.of(person.run(TWO_QUESTIONS), person)
    view.answer({"name": "Ada"})
    view.until_asked("Your age")

    person.kill()
    person.restart()
    view = View.of(person.run(TWO_QUESTIONS), person)
    cell = person.send(f"print({barrier})")

    assert [a["label"] for a in view.head["asks"]] == ["Your age"]
    assert (person.cwd / "made.txt").read_text() == "prepare\nname\n"
    view.answer({"age": "36"})
    assert person.wait(cell, 5).stdout == "{'name': 'Ada', 'age': 36}\n"
    assert (person.cwd / "made.txt").read_text() == "prepare\nname\n"


def test_pending_brings_the_forms_back_once_the_workflow_is_defined(person: Kernel) -> None:
    view = View.of(person.run(TWO_QUESTIONS), person)
    view.answer({"name": "Ada"})
    view.until_asked("Your age")
    person.kill()
    person.restart()

    view = View.of(person.run(OPEN + "loom.pending()"), person)
    (ask,) = view.head["asks"]
    assert ask["enabled"] is False
    assert "Run the cell that defines the workflow 'greet'" in ask["disabled_reason"]
    assert view.answer({"age": "36"})["type"] == "refused"
    person.run(TWO_QUESTIONS.replace('run = loom.start(GreetWorkflow, key="greet")\nrun', ""))
    view.until(lambda: view.head["asks"][0]["enabled"], "the form to come alive")

    assert view.answer({"age": "36"})["type"] == "accepted"
    view.until_status("completed")


def test_a_question_asked_in_a_cell_needs_no_definition_after_a_kill(person: Kernel) -> None:
    code = OPEN + 'asked = loom.confirm("Ship **it**?", key="ship")\nasked'
    View.of(person.run(code), person).until_status("waiting")
    person.kill()
    person.restart()

    view = View.of(person.run(OPEN + "loom.pending()"), person)
    assert view.answer({"isConfirmed": True, "feedback": "go"})["type"] == "accepted"

    again = person.run(code + "\nverdict = asked.wait(); print(verdict.is_confirmed, verdict.feedback)")
    assert again.stdout == "True go\n"


def test_a_move_in_flight_at_the_kill_is_made_again(person: Kernel) -> None:
    body = """
with open("made.txt", "a") as file:
    file.write(ctx.idempotency_key + "\\n")
await asyncio.sleep(0.05 if os.path.exists("again") else 60)
self.set_result("made")
"""
    code = workflow(body, start="loom.start(OneWorkflow, key='k')")
    person.run(code)
    made = person.cwd / "made.txt"
    person.until(made.exists, 5)
    (person.cwd / "again").touch()

    person.kill()
    person.restart()

    assert person.run(code + "\nprint(await run)").stdout == "made\n"
    first, second = made.read_text().splitlines()
    assert first == second


# -- SQL --------------------------------------------------------------------------------------------

LONG = "select sum(hash(a.range + b.range)) from range(100_000_000) a, range(1_000_000) b"


def test_an_interrupt_stops_a_long_query_and_the_kernel_lives(person: Kernel) -> None:
    view = View.of(person.run(ONE_BUTTON), person)
    cell = person.send(f"print('in', flush=True); loom.sql('{LONG}')")
    person.until(lambda: "in" in cell.stdout)
    person.pump(0.5)

    start = time.monotonic()
    person.interrupt()
    person.wait(cell, 10)
    took = time.monotonic() - start

    print(f"figure: interrupt of a long query, {person.version}: {took:.2f} s")
    assert took < 2
    assert cell.error.startswith("KeyboardInterrupt")
    assert view.answer()["type"] == "accepted"
    view.until_status("completed")
    assert person.run("print(loom.sql('select status from runs').fetchall())").stdout == "[('completed',)]\n"


def test_a_half_read_result_blocks_no_run(person: Kernel, barrier: str) -> None:
    view = View.of(person.run(ONE_BUTTON), person)
    person.run("rows = loom.sql('from range(1_000_000)'); first = rows.page(0, 10)")
    cell = person.send(f"print({barrier})")

    view.answer()

    assert person.wait(cell, 5).stdout == "gone\n"
    assert person.run("print(first[-1], rows.page(999_999))").stdout == "(9,) [(999999,)]\n"


def test_a_query_and_runs_go_on_beside_each_other(person: Kernel) -> None:
    person.run(workflow("await asyncio.sleep(0)", start="None"))
    cell = person.run("""
runs = [loom.start(OneWorkflow) for _ in range(50)]
counts = [loom.sql("select count(*) from runs").fetchall()[0][0] for _ in range(50)]
for one in runs: await one
print(counts == sorted(counts), loom.sql("select count(*) from runs where status = 'completed'").fetchall())
""")
    assert cell.stdout == "True [(50,)]\n"


def test_the_magics_run_sql_over_the_store_and_a_frame_of_the_notebook(person: Kernel) -> None:
    person.run(ONE_BUTTON)
    person.run("%load_ext loomnb_widgets\nimport pandas\nframe = pandas.DataFrame({'status': ['waiting'], 'word': ['patience']})")

    person.run("%%loom sql -o found\nselect word from runs join frame using (status)")

    assert person.run("print(found.fetchall())").stdout == "[('patience',)]\n"
    assert "1 waiting" in person.run("%loom").stdout


def test_a_refused_query_is_one_message(person: Kernel) -> None:
    person.run(OPEN)

    cell = person.wait(person.send("loom.sql('delete from journal')"))

    assert cell.reply is not None
    shown = "\n".join(cell.reply["traceback"])
    assert "loom.sql only reads, and this is a DELETE statement." in shown
    assert 'File "' not in shown
