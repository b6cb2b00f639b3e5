"""A model on this machine: a llama.cpp server that is started for a GGUF file, listens on 127.0.0.1, and ends with the kernel."""

from __future__ import annotations

import atexit
import http.client
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

from loomnb.agents.providers.compatible import CompatibleModel, openai_compatible
from loomnb.agents.providers.errors import LocalServerFailed, ModelPackageMissing
from loomnb.errors import InvalidRequest

__all__ = ["LocalServer", "OnProgress", "local_model"]

OnProgress = Callable[[float, str], None]
"""Told while a server gets ready: seconds since it was started, and the last line it wrote."""

_LOOK = 0.1
"""Seconds between two looks at whether the server is ready."""

_GRACE = 5.0
"""Seconds a server has to end by itself before its warden kills it."""

_WARDEN = Path(__file__).with_name("warden.py")
"""It stands between us and the server, and ends it when this process was killed."""


@dataclass(frozen=True, slots=True)
class _Program:
    """How a server is started: its words for what we say, and where it tells that it is ready."""

    start: tuple[str, ...]
    model: str
    alias: str
    context: str
    ready: str
    native_output: bool | Literal["json_object"] = True


def _program() -> _Program:
    """The server that this machine has: llama.cpp's own, else the one of llama-cpp-python.

    Raises:
        ModelPackageMissing: it has none.
    """
    found = shutil.which("llama-server")
    if found is not None:
        return _Program((found,), "--model", "--alias", "--ctx-size", "/health")
    if all(importlib.util.find_spec(name) is not None for name in ("llama_cpp", "uvicorn")):
        start = (sys.executable, "-m", "llama_cpp.server")
        return _Program(start, "--model", "--model_alias", "--n_ctx", "/v1/models", native_output="json_object")
    raise ModelPackageMissing(
        "There is no llama.cpp server on this machine: neither a program llama-server, nor llama-cpp-python.",
        extra="loomnb[local]",
        advice='Install llama.cpp so that llama-server is on the PATH, or: pip install "loomnb[local]" '
        "(it is compiled then, which takes several minutes and a C++ compiler).",
    )


class LocalServer:
    """A llama.cpp server for one model file. It starts with `start` or `with`, and ends with `stop`, with the `with`, or with the
    process at the latest, also when that one is killed: a small process beside it (`warden.py`) sees to that. An interrupt of the
    kernel does not reach it.

    Args:
        gguf_path: the model file.
        context: tokens of the longest conversation.
        timeout: seconds it has to get ready.
        arguments: more of them, for the server as they are.
        on_progress: told while it gets ready.

    Raises:
        InvalidRequest: there is no such file, it is no GGUF file, or a number is out of range.
    """

    def __init__(
        self,
        gguf_path: str | Path,
        *,
        context: int = 4096,
        timeout: float = 120.0,
        arguments: Sequence[str] = (),
        on_progress: OnProgress | None = None,
    ) -> None:
        self.path = Path(gguf_path).expanduser()
        if not _is_gguf(self.path):
            raise InvalidRequest(f"{self.path.name} is no GGUF model file.", advice="Give the path of a .gguf file.")
        if context < 1 or timeout <= 0:
            raise InvalidRequest("The context is at least one token, and the time-out longer than 0 seconds.")
        self._context = context
        self._timeout = timeout
        self._arguments = tuple(arguments)
        self._on_progress = on_progress
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None  # the warden
        self._pid: int | None = None
        self._log: IO[bytes] | None = None
        self._port = 0
        self._native_output: bool | Literal["json_object"] = True
        self._owner = 0

    @property
    def url(self) -> str:
        """Its address, with `/v1`.

        Raises:
            InvalidRequest: it was not started, or is stopped.
        """
        if self._process is None:
            raise InvalidRequest(f"The server for {self.path.name} is not started.", advice="Call start(), or use `with`.")
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def pid(self) -> int | None:
        """The server's process; None while there is none."""
        return self._pid

    def start(self) -> Self:
        """Start it, and wait until it is ready. Nothing happens when it is started already.

        Raises:
            ModelPackageMissing: this machine has no llama.cpp server; the advice says how to get one.
            LocalServerFailed: it ended, or was not ready in time; it is stopped then.
        """
        with self._guard:
            if self._process is not None:
                return self
            program = _program()
            self._native_output = program.native_output
            self._port = _free_port()
            self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by stop
            try:
                self._begin(self._command(program))
                self._wait_for(program.ready)
            except OSError as exc:
                self._end()
                raise LocalServerFailed(f"The llama.cpp server could not be started: {exc.strerror}.") from None
            except BaseException:
                self._end()
                raise
        return self

    def stop(self) -> None:
        """End it, and wait until it is over. Nothing happens when it is over already, or was started before a fork."""
        with self._guard:
            self._end()

    def model(self, **options: Any) -> CompatibleModel:
        """The model that it serves.

        Args:
            options: as `openai_compatible` takes them.
        """
        options.setdefault("native_output", self._native_output)
        return openai_compatible(self.url, self.path.stem, **options)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        where = f"process {self.pid}, port {self._port}" if self._process is not None else "not started"
        return f"<LocalServer {self.path.name}: {where}>"

    def _command(self, program: _Program) -> list[str]:
        return [
            *program.start,
            *(program.model, str(self.path)),
            *(program.alias, self.path.stem),
            *(program.context, str(self._context)),
            *("--host", "127.0.0.1", "--port", str(self._port)),
            *self._arguments,
        ]

    def _begin(self, command: Sequence[str]) -> None:
        """Start the warden with the server.

        Raises:
            LocalServerFailed: the server could not be started.
        """
        self._owner = os.getpid()
        # No shell; without keys, which a local server has no use for; in a session of its own, for Jupyter sends an interrupt to
        # the whole group of the kernel. -I and -S: nothing of the user's is imported into it.
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", str(_WARDEN), f"{_GRACE:g}", str(os.getpid()), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=_without_keys(os.environ),
            start_new_session=True,
        )
        atexit.register(self.stop)
        assert self._process.stdout is not None
        word, _, rest = self._process.stdout.readline().decode("utf-8", "replace").strip().partition(" ")
        if word != "pid":
            raise LocalServerFailed(f"The llama.cpp server could not be started: {rest or self._last_line()}.")
        self._pid = int(rest)

    def _wait_for(self, path: str) -> None:
        assert self._process is not None
        begun = time.monotonic()
        while not _is_ready(self._port, path):
            passed = time.monotonic() - begun
            if self._on_progress is not None:
                self._on_progress(passed, self._last_line())
            if passed > self._timeout:
                raise LocalServerFailed(
                    f"The server for {self.path.name} was not ready after {self._timeout:g} seconds: {self._last_line()}",
                    advice="Give it a longer timeout=…, or take a smaller model.",
                )
            try:
                code = self._process.wait(_LOOK)
            except subprocess.TimeoutExpired:
                continue
            raise LocalServerFailed(
                f"The server for {self.path.name} ended with code {code} before it was ready: {self._last_line()}",
                advice="Check that the file is whole, and that there is memory enough for it.",
            )

    def _last_line(self) -> str:
        assert self._log is not None
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 4096))
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "it wrote nothing"

    def _end(self) -> None:
        process, log = self._process, self._log
        self._process = self._log = self._pid = None
        atexit.unregister(self.stop)
        if log is not None:
            log.close()
        if process is None or os.getpid() != self._owner:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        if os.name == "posix":
            process.terminate()  # a request; the pipe has told it already, unless something forked off holds the other end, too
        process.wait()  # it kills a server that does not end in time


def local_model(
    path: str | Path,
    *,
    context: int = 4096,
    timeout: float = 120.0,
    arguments: Sequence[str] = (),
    on_progress: OnProgress | None = None,
    **options: Any,
) -> CompatibleModel:
    """A model of a GGUF file, on this machine. Its server is started now, and ends with this process.

    Args:
        path: the file.
        context: as for LocalServer.
        timeout: the same.
        arguments: the same.
        on_progress: the same.
        options: as `openai_compatible` takes them.

    Raises:
        InvalidRequest: it is no such file.
        ModelPackageMissing: this machine has no llama.cpp server.
        LocalServerFailed: the server did not get ready.
    """
    server = LocalServer(path, context=context, timeout=timeout, arguments=arguments, on_progress=on_progress)
    return server.start().model(**options)


def _is_gguf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _is_ready(port: int, path: str) -> bool:
    """Whether it answers with 200. llama.cpp's server answers with 503 while it reads the file."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    secret = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
    return {name: value for name, value in environment.items() if not secret.search(name)}
