"""The fixtures themselves: a plain kernel, no loomnb in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kernel.client import Kernel

WIDGET = """
import ipywidgets
class Echo(ipywidgets.HTML):
    pass
echo, heard = Echo(), []
echo.on_msg(lambda _, content, buffers: (heard.append(content), echo.send({"heard": content})))
echo
"""


def test_the_kernel_runs_the_ipykernel_of_its_version(kernel: Kernel) -> None:
    cell = kernel.run("import ipykernel; print(ipykernel.__version__); 1 + 1")

    assert cell.stdout.strip() == kernel.version
    assert cell.outputs[0]["data"]["text/plain"] == "2"


def test_a_custom_message_reaches_a_widget_and_comes_back(kernel: Kernel) -> None:
    (model_id,) = kernel.run(WIDGET).model_ids

    kernel.comm_msg(model_id, {"say": "hello"})
    kernel.until(lambda: kernel.custom.get(model_id))

    assert kernel.custom[model_id] == [{"heard": {"say": "hello"}}]
    assert kernel.states[model_id]["_model_module"] == "@jupyter-widgets/controls"


def test_an_interrupt_ends_a_sleeping_cell_and_aborts_the_queue(kernel: Kernel) -> None:
    sleeping = kernel.send("import time; print('in', flush=True); time.sleep(30)")
    queued = kernel.send("print('never')")
    kernel.until(lambda: "in" in sleeping.stdout)
    kernel.pump(0.2)  # well into the sleep: right after the print one interrupt in about 110 was lost (7.3.0)

    start = time.monotonic()
    kernel.interrupt()
    kernel.wait(sleeping)

    assert sleeping.error.startswith("KeyboardInterrupt")
    assert time.monotonic() - start < 5
    assert kernel.wait(queued).status == "aborted"


def test_a_killed_kernel_comes_back_empty_after_a_restart(kernel: Kernel) -> None:
    kernel.run("x = 1")
    first = kernel.pid

    kernel.kill()
    kernel.restart()

    assert kernel.pid != first
    assert kernel.wait(kernel.send("x")).error == "NameError: name 'x' is not defined"


def test_a_failing_cell_fails_the_test_that_ran_it(start_kernel) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        start_kernel().run("1 / 0")


def test_a_subshell_takes_a_message_while_a_cell_blocks(start_kernel) -> None:
    """7.3 hands a comm on a subshell to a thread of its own; 7.4 does not, so the claim is about 7.3."""
    kernel = start_kernel("7.3.0")
    (model_id,) = kernel.run(WIDGET).model_ids
    assert kernel.has_subshells
    subshell = kernel.create_subshell()

    cell = kernel.send("import time\nend = time.time() + 10\nwhile not heard and time.time() < end: time.sleep(.05)\nheard")
    kernel.comm_msg(model_id, "now", subshell=subshell)

    assert "now" in kernel.wait(cell).text


def test_versions_before_seven_have_no_subshells(start_kernel) -> None:
    assert not start_kernel("6.29.5").has_subshells
