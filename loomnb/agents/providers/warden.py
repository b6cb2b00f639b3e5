"""Starts one program, and ends it when the process that asked for it is gone, however that one died.

It is run as a script, `python warden.py GRACE PARENT PROGRAM [ARGUMENT…]`, in a process of its own: a process that is killed
(SIGKILL, out of memory) can end nothing any more, so somebody beside it has to. It learns of the end by its standard input, a
pipe that nobody writes to: it ends with its last owner. A process that was forked off may own it, too, so the number of the
parent is looked at as well, where there is such a thing (on Windows nothing is forked).

Its first line says "pid N", or "error …" where the program cannot be started; the program itself writes to the standard error.
Its exit code is the program's, or 128 and the number of the signal that ended it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

__all__ = ["main"]

_LOOK = 0.5
"""Seconds between two looks at the parent's number, and at whether a signal came; the end of the pipe is known at once."""


def main() -> int:
    """Start the program, and stay until it is over."""
    grace, parent, command = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    over = threading.Event()
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        asked.append(number)  # not over.set(): its lock may be held by the very thread that is interrupted

    signal.signal(signal.SIGTERM, ask)  # before the program is there: whoever ends this process means the program
    try:
        # Its standard output is where our own errors go: the parent reads only the first line of ours.
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)  # noqa: S603  # a list, never a shell
    except OSError as exc:
        _say(f"error {exc.strerror}")
        return 127
    _say(f"pid {program.pid}")
    threading.Thread(target=_listen, args=(over,), daemon=True).start()
    threading.Thread(target=_wait, args=(program, over), daemon=True).start()
    while not over.wait(_LOOK) and not asked and (os.name != "posix" or os.getppid() == parent):
        pass
    code = program.poll()
    return _as_shells_say(_ended(program, grace) if code is None else code)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the parent is gone already: the pipe of the input tells it, too
        os.write(1, f"{line}\n".encode())


def _listen(over: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    over.set()


def _wait(program: subprocess.Popen[bytes], over: threading.Event) -> None:
    program.wait()
    over.set()


def _ended(program: subprocess.Popen[bytes], grace: float) -> int:
    program.terminate()
    try:
        return program.wait(grace)
    except subprocess.TimeoutExpired:
        program.kill()
        return program.wait()


def _as_shells_say(code: int) -> int:
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    # Not by the interpreter's own way out: it would wait for the thread that reads the pipe, which may stay open.
    os._exit(main())
