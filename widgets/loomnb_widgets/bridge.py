"""The one file that knows kernels: their threads, their sockets, and who can answer.

**The express lane.** While a cell runs, ipykernel up to 7.3 handles no widget message on the main shell, and 7.4 handles
them but loses typed text; a blocked cell gets none on 6.x and 7.4. So messages of our own comms are taken where they arrive,
before any lock of the kernel: the lane looks at each message as it reaches the shell stream, hands ours to their handler, and
passes everything else on untouched and in order. (notes/jupyter.md §C, notes/loop-thread.md §0: measured on 6.29 to 7.4.)

Everything private that is used is looked up with `getattr`; where something is missing (xeus, pyodide, a future kernel) the
lane is off and handlers are plain `on_msg` callbacks: then panels answer between cells.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from IPython.core.getipython import get_ipython

__all__ = ["Lane", "nobody_at_all", "under_voila"]

Handler = Callable[[Mapping[str, Any]], None]


class Lane:
    """Hands over the messages of our own comms as they arrive. Handlers must be quick: they run on the reading thread."""

    def __init__(self) -> None:
        self._handlers: dict[str, tuple[Handler, Handler | None]] = {}
        self._context = contextvars.copy_context()
        self.reads_on_main = False
        """Whether the main thread reads the socket (ipykernel 6): then who blocks it has to read."""
        self.kernel: Any = None
        kernel = getattr(get_ipython(), "kernel", None)
        stream = getattr(kernel, "shell_stream", None)
        if kernel is None or stream is None or not hasattr(stream, "on_recv"):
            return
        if getattr(kernel, "shell_channel_thread", None) is not None and hasattr(kernel, "shell_channel_thread_main"):
            self._pass_on = kernel.shell_channel_thread_main
        elif hasattr(kernel, "schedule_dispatch") and hasattr(kernel, "dispatch_shell"):
            self._pass_on = partial(kernel.schedule_dispatch, kernel.dispatch_shell)
            self.reads_on_main = True
        else:
            return
        self.kernel = kernel
        if self.reads_on_main and threading.current_thread() is threading.main_thread():
            # At once: a callback would wait for the main loop, and with Run All the next cell (or this one) may be in
            # `run.wait()` before that loop turns again; then nobody would ever hand our messages over.
            self._hook()
        else:
            stream.io_loop.add_callback(self._hook)

    @property
    def is_open(self) -> bool:
        """Whether messages come through it."""
        return self.kernel is not None

    def _hook(self) -> None:
        """On the thread that reads the socket."""
        stream = self.kernel.shell_stream
        stream.on_recv(self._received, copy=False)
        if not self.reads_on_main:
            # ipykernel 7.0-7.3 miss wake-ups of this socket (ZMQ's descriptor is edge-triggered, and replies are sent on it
            # behind the stream's back) and are then deaf until restarted; looking again five times a second cures it.
            from tornado.ioloop import PeriodicCallback  # noqa: PLC0415  # where ipykernel 7 is, tornado is

            self._poll = PeriodicCallback(partial(stream.flush, 1), 200)
            self._poll.start()

    def route(self, widget: Any, custom: Handler, on_update: Handler | None = None) -> None:
        """Send a widget's custom messages (and, if asked, its trait updates) to handlers from now on."""
        if self.is_open and widget.comm is not None:
            self._handlers[widget.comm.comm_id] = custom, on_update
            return
        widget.on_msg(lambda _, content, __: custom(content))
        if on_update is not None:
            widget.observe(lambda change: on_update({"value": change["new"]}), "value")

    def forget(self, widget: Any) -> None:
        """Stop routing a widget's messages."""
        if widget.comm is not None:
            self._handlers.pop(widget.comm.comm_id, None)

    def _received(self, message: Any) -> Any:
        ours = self._ours(message)
        if ours is None:
            return self._pass_on(message)  # ipykernel 7 gives a coroutine, which the stream schedules
        header, call = ours
        kernel = self.kernel
        # Each message gets its own busy/idle, as the kernel would give it: ipywidgets' front end holds back the next update of a
        # widget until it has seen idle for the last one.
        status = partial(
            kernel.session.send,
            kernel.iopub_socket,
            "status",
            parent={"header": header},
            ident=kernel._topic("status"),  # noqa: SLF001  # guarded where the lane is laid
        )
        status({"execution_state": "busy"})
        try:
            # In a copied context: ipykernel 7.0 needs the parent's ContextVar to send from a foreign thread.
            self._context.copy().run(call)
        except Exception:
            kernel.log.exception("loomnb: a panel's message failed")
        status({"execution_state": "idle"})
        return None

    def _ours(self, message: Any) -> tuple[Any, Callable[[], None]] | None:
        with contextlib.suppress(Exception):  # not for us, or not readable: the kernel will say so itself
            session = self.kernel.session
            # With copy=False deserialising stores no digest, so the kernel can still read the message after us.
            head = session.deserialize(session.feed_identities(message, copy=False)[1], content=False, copy=False)
            if head["header"]["msg_type"] == "comm_msg":
                content = session.unpack(head["content"])
                custom, update = self._handlers[content["comm_id"]]
                data = content["data"]
                if data["method"] == "custom":
                    return head["header"], partial(custom, data["content"])
                if data["method"] == "update" and update is not None:
                    return head["header"], partial(update, data["state"])
        return None

    def pump(self) -> bool:
        """Read the socket, where the caller is the thread that has to."""
        if self.reads_on_main and threading.current_thread() is threading.main_thread():
            self.kernel.shell_stream.flush()
            return True
        return False


def under_voila() -> bool:
    """Whether Voila runs this kernel: it shows the page only when every cell has finished."""
    return os.environ.get("SERVER_SOFTWARE", "").startswith("voila/") or "VOILA_APP_PORT" in os.environ


def nobody_at_all() -> str:
    """Why nobody can ever answer in this kernel; empty when somebody may."""
    if under_voila():
        return "under Voila the page is shown only when every cell has finished; the panel on it stays live"
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return "this is no notebook"
    # Private, and set for each cell: nbclient and papermill run cells with it off, every front end a person sits at with it on.
    if getattr(kernel, "_allow_stdin", True) is False:
        return "this kernel is run by a program (nbclient, papermill, nbconvert)"
    return ""


def kernel_version() -> tuple[int, int]:
    """Major and minor version of ipykernel; (0, 0) for another kernel."""
    with contextlib.suppress(PackageNotFoundError, ValueError):
        major, minor, *_ = version("ipykernel").split(".")
        return int(major), int(minor)
    return 0, 0
