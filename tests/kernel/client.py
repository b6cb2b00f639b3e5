"""A front end without a page: starts a real kernel, runs code in it and speaks its widgets' comms by hand.

Everything is single-threaded: whoever waits pumps the sockets. So a test can send a cell, look at what it has shown so
far, send a comm message while it waits, and then collect the end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import zmq
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.kernel import matrix

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_client.blocking.client import BlockingKernelClient

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
Message = dict[str, Any]


@dataclass
class Cell:
    """One execution: what it has shown so far, and its end."""

    msg_id: str
    stdout: str = ""
    stderr: str = ""
    outputs: list[Message] = field(default_factory=list)  # content of display_data, execute_result, update_display_data
    reply: Message | None = None
    idle: bool = False

    @property
    def done(self) -> bool:
        return self.reply is not None and self.idle

    @property
    def status(self) -> str:
        """'ok', 'error', 'aborted', or 'running'."""
        return str(self.reply["status"]) if self.reply else "running"

    @property
    def error(self) -> str:
        """'ValueError: text', or '' when the cell ended well."""
        if not self.reply or self.reply["status"] != "error":
            return ""
        return f"{self.reply['ename']}: {self.reply['evalue']}"

    @property
    def model_ids(self) -> list[str]:
        """The widgets this cell displayed, in order."""
        views = [out["data"][WIDGET_VIEW]["model_id"] for out in self.outputs if WIDGET_VIEW in out["data"]]
        return list(dict.fromkeys(views))

    @property
    def text(self) -> str:
        """What the cell printed, then its outputs' plain text."""
        return self.stdout + "\n".join(str(out["data"].get("text/plain", "")) for out in self.outputs)


class OneSpec(KernelSpecManager):
    """Finds the matrix's kernel without touching the process's JUPYTER_PATH."""

    version = ""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(argv=matrix.argv(), display_name=kernel_name, env=matrix.kernel_env(self.version))


class Kernel:
    """A started kernel of one ipykernel version."""

    def __init__(self, version: str, cwd: Path, env: dict[str, str] | None = None) -> None:
        self.version, self.cwd = version, cwd
        self.env = {**os.environ, "IPYTHONDIR": str(cwd / ".ipython"), **(env or {})}
        self.cells: dict[str, Cell] = {}
        self.states: dict[str, Message] = {}  # widget model id -> its traits as last sent
        self.custom: dict[str, list[Any]] = {}  # widget model id -> custom messages it sent, in order
        self.iopub: list[Message] = []  # every iopub message since the start
        self.allow_stdin = False  # what cells are sent with: front ends a person sits at say True, nbclient says False
        self.client: BlockingKernelClient

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> Kernel:
        """Start it; tried twice, because ports are chosen before they are bound."""
        specs = OneSpec()
        specs.version = self.version
        self.manager = KernelManager(kernel_name=matrix.spec_name(self.version), kernel_spec_manager=specs)
        self.manager.connection_file = str(self.cwd / f"kernel-{time.monotonic_ns()}.json")
        try:
            self._launch()
        except RuntimeError:
            self.shutdown()
            self.manager = KernelManager(kernel_name=matrix.spec_name(self.version), kernel_spec_manager=specs)
            self.manager.connection_file = str(self.cwd / f"kernel-{time.monotonic_ns()}.json")
            self._launch()
        return self

    def _launch(self) -> None:
        self.manager.start_kernel(cwd=str(self.cwd), env=self.env)
        self._connect()

    def _connect(self) -> None:
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.cells, self.states, self.custom = {}, {}, {}

    def shutdown(self) -> None:
        """End it for good: channels, process, sockets."""
        with contextlib.suppress(AttributeError):  # never connected
            self.client.stop_channels()
        with contextlib.suppress(ProcessLookupError):
            if self.manager.has_kernel:
                self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
        self.manager.context.destroy(linger=0)

    @property
    def pid(self) -> int:
        return int(self.manager.provisioner.pid)

    def kill(self) -> None:
        """End it with SIGKILL: nothing in it gets a chance to clean up. Returns once the process is gone."""
        process = self.manager.provisioner.process
        os.kill(self.pid, signal.SIGKILL)
        process.wait(timeout=10)

    def restart(self) -> None:
        """A new process on the same connection, as the Restart button gives (also after `kill`)."""
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self._connect()

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    # -- code ----------------------------------------------------------------------------------

    def send(self, code: str) -> Cell:
        """Queue a cell and return at once."""
        cell = Cell(self.client.execute(code, allow_stdin=self.allow_stdin, stop_on_error=True))
        self.cells[cell.msg_id] = cell
        return cell

    def wait(self, cell: Cell, timeout: float = 30) -> Cell:
        self.until(lambda: cell.done, timeout, what=lambda: f"the end of {cell}")
        return cell

    def run(self, code: str, timeout: float = 30) -> Cell:
        """Run a cell to its end; a failing cell fails the test with its traceback."""
        cell = self.wait(self.send(code), timeout)
        if cell.reply and cell.status != "ok":
            raise AssertionError("\n".join(cell.reply.get("traceback", [])) or cell.status)
        return cell

    # -- widgets -------------------------------------------------------------------------------

    def comm_msg(self, model_id: str, content: object, *, subshell: str | None = None) -> str:
        """Send a widget a custom message, as a page's `model.send(content)` does; returns the message's id."""
        return self._comm(model_id, {"method": "custom", "content": content}, subshell)

    def comm_update(self, model_id: str, state: Message, *, subshell: str | None = None) -> str:
        """Set traits from the page's side."""
        return self._comm(model_id, {"method": "update", "state": state, "buffer_paths": []}, subshell)

    def _comm(self, model_id: str, data: Message, subshell: str | None) -> str:
        message = self.client.session.msg("comm_msg", {"comm_id": model_id, "data": data})
        if subshell:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    @property
    def has_subshells(self) -> bool:
        message = self.client.session.msg("kernel_info_request", {})
        return "kernel subshells" in self._control(message).get("supported_features", [])

    def create_subshell(self) -> str:
        return str(self._control(self.client.session.msg("create_subshell_request", {}))["subshell_id"])

    def _control(self, message: Message, timeout: float = 10) -> Message:
        self.client.control_channel.send(message)
        end = time.monotonic() + timeout
        while True:
            reply = self.client.get_control_msg(timeout=max(0.0, end - time.monotonic()))
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return dict(reply["content"])

    # -- the pump ------------------------------------------------------------------------------

    def until(self, condition: Callable[[], object], timeout: float = 30, *, what: str | Callable[[], str] = "it") -> None:
        """Take messages until the condition holds. `what` is waited for; as a function it is asked when that was in vain."""
        end = time.monotonic() + timeout
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                text = what if isinstance(what, str) else what()
                raise TimeoutError(f"ipykernel {self.version}: waited {timeout} s for {text}")
            self.pump(min(left, 0.2))

    def pump(self, timeout: float = 0) -> None:
        """Take every message that is there, waiting up to `timeout` for the first."""
        poller = zmq.Poller()
        channels = [(self.client.iopub_channel, self._take_iopub), (self.client.shell_channel, self._take_shell)]
        for channel, _ in channels:
            poller.register(channel.socket, zmq.POLLIN)
        ready = dict(poller.poll(timeout * 1000))
        for channel, take in channels:
            if channel.socket in ready:
                while channel.msg_ready():
                    take(channel.get_msg(timeout=0))

    def _take_shell(self, message: Message) -> None:
        cell = self.cells.get(message["parent_header"].get("msg_id", ""))
        if cell and message["msg_type"] == "execute_reply":
            cell.reply = message["content"]

    def _take_iopub(self, message: Message) -> None:
        self.iopub.append(message)
        kind, content = message["msg_type"], message["content"]
        if kind in {"comm_open", "comm_msg"}:
            self._take_comm(content["comm_id"], content["data"])
        cell = self.cells.get(message["parent_header"].get("msg_id", ""))
        if cell is None:
            return
        if kind == "stream":
            name = content["name"]
            setattr(cell, name, getattr(cell, name) + content["text"])
        elif kind in {"display_data", "execute_result", "update_display_data"}:
            cell.outputs.append(content)
        elif kind == "status" and content["execution_state"] == "idle":
            cell.idle = True

    def _take_comm(self, model_id: str, data: Message) -> None:
        if data.get("method") == "custom":
            self.custom.setdefault(model_id, []).append(data["content"])
        elif "state" in data:
            self.states.setdefault(model_id, {}).update(data["state"])
