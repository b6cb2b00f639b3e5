"""Runs one program of a project on a thread: no shell, no input, a process group of its own, and an end in any case.

One selector waits for everything that can happen: output, the end of the program, its time, and a bell that others may ring.
asyncio's own subprocesses were not taken: how they learn of a child's end depends on the loop's thread and the Python version.

What a program leaves behind in its group may keep its output open for ever. It has a second after the program's end, then the
group is killed. What let go of the output, or left the group, goes on: it is the author's business.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import fields
from typing import IO, Any, Self

from loomnb.blueprints.access import ProjectCommand, ProjectCommandResult
from loomnb.blueprints.project_paths import Folder, ProjectError, checked_text, shown

__all__ = ["Bell", "checked_command", "run_program"]

TIMEOUT_MS = 60_000
MOST_MS = 300_000
STREAM_BYTES = 2**20
_GRACE = 1.0  # seconds for output that others keep open after the program's end
_KILLED = 10.0  # seconds after SIGKILL until we say that it does not die
_POLL = 0.02  # seconds, only where the kernel cannot tell of a process's end by a descriptor
_READ = 2**16
_LAST_READS = 32  # a pipe holds one of them; more only if somebody outside the group goes on writing

_LIVE: set[tuple[int, int]] = set()
"""(our process, a group that runs now). Whoever is in it was not reaped yet, so its number belongs to nobody else."""
_LIVE_LOCK = threading.Lock()


# -- what is asked for -----------------------------------------------------------------------------


def checked_command(value: object) -> ProjectCommand:
    """A copy of a command, once it keeps the rules; its `cwd` is still to be checked.

    Raises:
        ProjectError: it does not.
    """
    command = _command_of(value)
    program = checked_text(command.command, "command")
    if not program.replace("\ufeff", " ").strip():
        raise ProjectError("The command is blank. Give the name of a program, and its arguments as args.")
    if isinstance(command.args, str) or not isinstance(command.args, (list, tuple)):
        raise ProjectError("The args of a command are a list of texts, one per argument: nothing is split as a shell does.")
    args = tuple(checked_text(arg, f"argument {i}") for i, arg in enumerate(command.args, 1))
    timeout = command.timeout_ms
    if timeout is not None and (type(timeout) is not int or not 1 <= timeout <= MOST_MS):
        raise ProjectError(f"timeout_ms is {timeout!r}. Give whole milliseconds from 1 to {MOST_MS:,}, or leave it out.")
    cwd = None if command.cwd is None else checked_text(command.cwd, "cwd")
    return ProjectCommand(command=program, args=args, cwd=cwd, timeout_ms=timeout)


def _command_of(value: object) -> ProjectCommand:
    if isinstance(value, ProjectCommand):
        return value
    if not isinstance(value, Mapping):
        raise ProjectError(f"A command is a ProjectCommand or a mapping, not a {type(value).__name__}.")
    given: dict[str, Any] = {}
    known = {field.name for field in fields(ProjectCommand)}
    for key, one in value.items():
        name = "timeout_ms" if key == "timeoutMs" else key
        if name not in known:
            raise ProjectError(f"A command has no {key!r}. It has command, args, cwd and timeoutMs (or timeout_ms).")
        if name in given:
            raise ProjectError("A command has both timeoutMs and timeout_ms. Give one of them.")
        given[name] = one
    if "command" not in given:
        raise ProjectError("A command names no program. Give it as 'command'.")
    return ProjectCommand(**given)


# -- what happens to it ----------------------------------------------------------------------------


class Bell:
    """Wakes the thread that waits for a program and tells it to stop. Anybody may ring, also when nobody listens any more."""

    def __init__(self) -> None:
        self._heard, self._button = socket.socketpair()
        self._button.setblocking(False)
        self._lock = threading.Lock()  # else a number that was closed may be another socket's when it is written to
        self._is_away = False
        self.rung = False

    def ring(self) -> None:
        """Stop it."""
        with self._lock:
            if not self._is_away and not self.rung:
                self.rung = True
                self._button.send(b"!")

    def fileno(self) -> int:
        """What to wait for."""
        return self._heard.fileno()

    def put_away(self) -> None:
        """Close it."""
        with self._lock:
            self._is_away = True
            self._heard.close()
            self._button.close()


class _Stream:
    """One stream of output: its first MiB is kept, the rest is read and dropped, so that the program never waits for us."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.pipe = pipe
        self.is_open = True
        self.truncated = False
        self._kept = bytearray()
        os.set_blocking(pipe.fileno(), False)

    def read(self) -> bool:
        """Take what is there; whether something was."""
        try:
            data = os.read(self.pipe.fileno(), _READ)
        except BlockingIOError:
            return False
        if not data:
            self.is_open = False
            return False
        room = STREAM_BYTES - len(self._kept)
        self._kept += data[:room]
        self.truncated = self.truncated or len(data) > room
        return True

    def text(self) -> str:
        """What is kept; a character that the cut went through is left out, and what is no UTF-8 is U+FFFD."""
        return codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._kept), final=not self.truncated)


def run_program(command: ProjectCommand, folder: Folder, bell: Bell) -> ProjectCommandResult | None:
    """Run a checked command in an opened folder and wait for its end; None when the bell was rung before.

    Raises:
        ProjectError: it cannot be started, or does not even end when it is killed.
    """
    if bell.rung:
        return None
    process = _started(command, folder)
    try:
        with process.stdout as out, process.stderr as err:  # type: ignore[union-attr]  # they are pipes
            streams = _Stream(out), _Stream(err)
            timed_out = _ended(process, streams, bell, (command.timeout_ms or TIMEOUT_MS) / 1000)
            for stream in streams:
                reads = 0
                while stream.is_open and reads < _LAST_READS and stream.read():
                    reads += 1
        exit_code = _reaped(process)
    except BaseException:
        _kill(process)
        _reaped(process)
        raise
    if bell.rung:
        return None
    return ProjectCommandResult(
        command=command,
        exit_code=None if timed_out else exit_code,
        stdout=streams[0].text(),
        stderr=streams[1].text(),
        timed_out=timed_out,
        truncated=streams[0].truncated or streams[1].truncated,
    )


def _started(command: ProjectCommand, folder: Folder) -> subprocess.Popen[bytes]:
    if not hasattr(os, "killpg"):
        raise ProjectError("Commands need process groups, which this platform lacks: a time-out could not stop what they start.")
    with _LIVE_LOCK:  # started and noted at once, for who ends them all at exit
        try:
            process = subprocess.Popen(  # noqa: S603  # a list, never a shell; which program is what the step decides
                [command.command, *command.args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=folder.chdir_path,
                start_new_session=True,
            )
        except OSError as exc:
            name = shown(command.command)
            raise ProjectError(
                f"The program {name} cannot be started: {exc.strerror}. Check that it is installed, on the PATH and executable."
            ) from exc
        _LIVE.add((os.getpid(), process.pid))
    return process


def _ended(process: subprocess.Popen[bytes], streams: tuple[_Stream, ...], bell: Bell, seconds: float) -> bool:
    """Wait until a program is over, or has to be, and kill what is left then; whether its time was."""
    over = time.monotonic() + seconds
    has_ended = False
    with _Watch(process, streams, bell) as watch:
        while True:
            left = over - time.monotonic()
            if has_ended and not any(stream.is_open for stream in streams):
                return False
            if bell.rung or left <= 0:
                _kill(process)
                return not has_ended and not bell.rung
            watch.wait(left)
            if not has_ended and watch.has_ended():
                has_ended, over = True, time.monotonic() + _GRACE


class _Watch:
    """Waits for what can happen to a program."""

    def __init__(self, process: subprocess.Popen[bytes], streams: tuple[_Stream, ...], bell: Bell) -> None:
        self._process = process
        self._selector = selectors.DefaultSelector()
        self._selector.register(bell, selectors.EVENT_READ)
        for stream in streams:
            self._selector.register(stream.pipe, selectors.EVENT_READ, stream)
        self._end = -1
        with contextlib.suppress(OSError, AttributeError):  # not Linux, an old one, or one in a sandbox
            self._end = os.pidfd_open(process.pid)
            self._selector.register(self._end, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        if self._end >= 0:
            os.close(self._end)

    def wait(self, seconds: float) -> None:
        """Wait for something, and take what output there is."""
        for key, _ in self._selector.select(seconds if self._end >= 0 else min(seconds, _POLL)):
            stream = key.data
            if isinstance(stream, _Stream):
                stream.read()
                if not stream.is_open:
                    self._selector.unregister(key.fileobj)
            elif key.fd == self._end:
                self._selector.unregister(key.fileobj)  # it stays readable from now on

    def has_ended(self) -> bool:
        """Whether it has; it is not reaped, so that its number stays its own and its group can still be killed."""
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):  # others reaped it
                return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return self._process.poll() is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    # Nobody there is fine; macOS says EPERM of a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _reaped(process: subprocess.Popen[bytes]) -> int:
    with _LIVE_LOCK:
        _LIVE.discard((os.getpid(), process.pid))
    try:
        return process.wait(_KILLED)
    except subprocess.TimeoutExpired:
        raise ProjectError(
            f"Process {process.pid} was killed and does not end. Look at it by hand: it may be another user's."
        ) from None


def _kill_all() -> None:
    with _LIVE_LOCK:
        for owner, group in _LIVE:
            if owner == os.getpid():  # a fork has our list, but they are not its children
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)


atexit.register(
    _kill_all
)  # the threads that wait for them are daemons: a restarted kernel would leave programs without a time-out
