"""Where output goes: a move's words to its run, a cell's to the cell, a failure's frames to the person who wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernel.flows import workflow
from tests.kernel.view import View

if TYPE_CHECKING:
    from tests.kernel.client import Kernel

WORDS = """
import sys, logging, warnings
print("printed")
print("flushed", flush=True)
print("to stderr", file=sys.stderr)
logging.getLogger("mine").warning("logged")
await_or_not
print("afterwards")
"""
HEAD = "import logging; logging.basicConfig(format='%(message)s')"
ALL = ["printed", "flushed", "to stderr", "logged", "inside", "afterwards"]
PAUSE = {
    "async": "await asyncio.sleep(0.05); await asyncio.to_thread(print, 'inside')",
    "sync": "time.sleep(0.05); print('inside')",
}


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_what_a_move_prints_and_logs_goes_to_its_run_and_to_no_cell(person: Kernel, kind: str) -> None:
    body = WORDS.replace("await_or_not", PAUSE[kind])
    cell = person.run(workflow(body, sync=kind == "sync", head=HEAD))
    other = person.send("import time\nfor i in range(10): print('cell', i); time.sleep(0.02)")

    view = View.of(cell, person)
    view.until_status("completed")
    person.wait(other)
    log = person.run("print(run.log)")

    assert (cell.stdout, cell.stderr) == ("", "")
    assert other.stdout == "".join(f"cell {i}\n" for i in range(10))
    assert log.stdout.split("\n")[:6] == ALL
    view.hello()
    assert view.log.splitlines() == ALL


def test_a_log_is_kept_in_the_store_and_shown_after_a_restart(person: Kernel) -> None:
    code = workflow("print('kept words')", start="loom.start(OneWorkflow, key='k')")
    View.of(person.run(code), person).until_status("completed")

    person.kill()
    person.restart()
    view = View.of(person.run(code), person)

    assert view.head["status"] == "completed"
    assert view.log == "kept words\n"


def test_what_cells_print_stays_in_them_through_every_layer(person: Kernel) -> None:
    """IPython 9 swaps `stream.write` around every plain cell (its tee); ours must stay, and stay one layer."""
    person.run(workflow("print('mine')"))

    for i in range(30):
        assert person.run(f"print('cell {i}')").stdout == f"cell {i}\n"
    captured = person.run("%%capture held\nprint('captured')")
    assert captured.stdout == ""
    assert person.run("print(held.stdout)").stdout == "captured\n\n"
    again = person.run("run = loom.start(OneWorkflow)\nloom.run(run.id).wait()\nprint(repr(run.log))")
    assert again.stdout == "'mine\\n'\n"
    depth = """
import sys
layers, write = 0, type(sys.stdout).__dict__["write"]._original
inner = sys.stdout.__dict__.get("write")
while hasattr(inner, "inner"):
    layers, inner = layers + 1, inner.inner
print(layers)
"""
    assert person.run(depth).stdout == "0\n"


FAILING = """
import loomnb as loom
loom.open("store.duckdb")

def helper(number):
    return number / 0

@loom.workflow
class BreakWorkflow(loom.BaseWorkflow):
    @loom.transition(to="end")
    KIND work(self, state, ctx):
        wanted = 42
        helper(wanted)

run = loom.start(BreakWorkflow)
"""


@pytest.mark.parametrize("kind", ["async def", "def"])
def test_a_failing_move_shows_the_users_own_frames_and_none_of_ours(person: Kernel, barrier: str, kind: str) -> None:
    person.run(FAILING.replace("KIND", kind))

    cell = person.wait(person.send(barrier))

    assert cell.error.startswith("RunFailed: break failed at 'start': ZeroDivisionError")
    assert cell.reply is not None
    shown = "\n".join(cell.reply["traceback"])
    assert "helper(wanted)" in shown
    assert "number / 0" in shown
    assert "loomnb" not in shown.replace("loomnb:", "")
    assert "site-packages" not in shown
    assert len(shown.splitlines()) <= 12


@pytest.mark.parametrize("kind", ["async def", "def"])
def test_debug_lands_in_the_body(person: Kernel, barrier: str, kind: str) -> None:
    person.run(FAILING.replace("KIND", kind))
    person.wait(person.send(barrier))

    deepest = """
import sys
def frames(exc):
    tb = exc.__traceback__
    while tb is not None:
        yield tb.tb_frame
        tb = tb.tb_next
error = sys.last_value
found = list(frames(error))
print(found[-1].f_code.co_name, found[-2].f_locals["wanted"])
print([f.f_code.co_filename for f in list(frames(error)) if "loomnb/" in f.f_code.co_filename][2:])
print(repr(error.__cause__), "ZeroDivisionError" in run.traceback)
"""
    out = person.run(deepest).stdout.splitlines()
    assert out[0] == "helper 42"
    assert out[1] == "[]"
    assert out[2] == "ZeroDivisionError('division by zero') True"


def test_an_error_in_a_cell_is_shown_as_always(person: Kernel) -> None:
    person.run(workflow("pass"))

    cell = person.wait(person.send("def mine():\n    raise KeyError('x')\nmine()"))

    assert cell.reply is not None
    assert "mine()" in "\n".join(cell.reply["traceback"])


def test_a_failed_runs_panel_holds_the_frames_and_its_saved_forms_do_not(person: Kernel) -> None:
    cell = person.run(FAILING.replace("KIND", "async def") + "run")
    view = View.of(cell, person)
    view.until_status("failed")
    person.run("pass")

    assert "number / 0" in view.head["error"]["frames"]
    assert "loomnb" not in view.head["error"]["frames"]
    bundle = cell.outputs[-1]["data"]
    assert "ZeroDivisionError: division by zero" in bundle["text/plain"]
    assert "number / 0" not in bundle["text/plain"] + bundle["text/html"] + bundle["text/markdown"]


STREAM = """
for i in range(2000):
    print(f"word{i % 10} ", end="", flush=True)
    if i % 20 == 0:
        await asyncio.sleep(0.01)
"""


def size(message: dict) -> int:
    """Roughly what goes over the websocket: the message as JSON, with its header and parent."""
    import json

    parts = (message["header"], message["parent_header"], message["metadata"], message["content"])
    return sum(len(json.dumps(part, default=str)) for part in parts)


def test_a_move_that_prints_two_thousand_tokens_sends_at_most_ten_times_its_text(person: Kernel) -> None:
    cell = person.run(workflow(STREAM, start="None"))
    person.run("pass")
    before = len(person.iopub)

    view = View.of(person.run("run = loom.start(OneWorkflow); run"), person)
    view.until_status("completed")
    view.hello()

    # Without comm_open: the panel's script and style travel once a panel, however much is printed.
    kinds = {"comm_msg", "display_data", "update_display_data", "stream", "status"}
    sent = [m for m in person.iopub[before:] if m["msg_type"] in kinds]
    text = len(view.log)
    total = sum(size(m) for m in sent)
    print(f"figure: 2,000 tokens, {person.version}: {text} characters, {len(sent)} messages, {total} bytes, {total / text:.1f}x")
    assert text == 2000 * 6
    assert total <= 10 * text
    assert cell.stdout == ""


def test_a_blocking_move_is_named_on_the_panel(person: Kernel) -> None:
    person.run(workflow("time.sleep(3)", start="None"))
    view = View.of(person.run("run = loom.start(OneWorkflow); run"), person)

    view.until(lambda: any("blocks all runs" in m.get("warn", "") for m in view.heard), "the warning")

    (warning, *_) = [m["warn"] for m in view.heard if m.get("warn")]
    assert "in work, line" in warning
    assert "await asyncio.to_thread" in warning
    view.until_status("completed")
    view.until(lambda: view.heard[-1].get("warn") == "", "the warning to go")
