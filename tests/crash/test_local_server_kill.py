"""A kernel that dies, and the server of a local model that it had started: nothing may stay behind with gigabytes of memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.local_servers import is_alive, model_file, server_program
from tests.helpers import PATIENCE

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server's stand-in is a script with a first line for Unix")

KERNEL = """
import os, sys, threading
import loomnb as loom
server = loom.LocalServer(sys.argv[1], arguments=sys.argv[2:]).start()
if os.environ.get("FORKS") and os.fork() == 0:
    threading.Event().wait(20)  # it owns the pipe to the warden, too, and outlives the kernel
    os._exit(0)
print(server.pid, flush=True)
threading.Event().wait()
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A process that has started a server, and says which."""
    monkeypatch.setenv("PATH", str(server_program(tmp_path)), prepend=os.pathsep)
    command = [sys.executable, "-c", KERNEL, str(model_file(tmp_path))]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        yield child
        if child.poll() is None:
            child.kill()


def pid_of(kernel: subprocess.Popen[str]) -> int:
    assert kernel.stdout is not None
    return int(kernel.stdout.readline())


def is_gone(pid: int) -> bool:
    tick = threading.Event()
    return any(not is_alive(pid) or tick.wait(0.02) for _ in range(int(PATIENCE / 0.02)))


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_a_server_ends_with_a_kernel_that_is_killed(kernel: subprocess.Popen[str], blow: signal.Signals) -> None:
    pid = pid_of(kernel)
    assert is_alive(pid)

    kernel.send_signal(blow)

    assert is_gone(pid)


def test_a_server_ends_with_a_kernel_that_is_killed_though_what_it_forked_lives_on(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("FORKS", "yes")
    kernel: subprocess.Popen[str] = request.getfixturevalue("kernel")
    pid = pid_of(kernel)

    os.kill(kernel.pid, signal.SIGKILL)

    assert is_gone(pid)
    os.killpg(kernel.pid, signal.SIGKILL)  # the forked one: the group is the kernel's own


def test_an_interrupt_of_the_kernel_leaves_the_server_alone(kernel: subprocess.Popen[str]) -> None:
    pid = pid_of(kernel)
    group = os.getpgid(pid)

    assert group != os.getpgid(kernel.pid)  # Jupyter interrupts the kernel's whole group
    kernel.kill()
    assert is_gone(pid)
