"""Access to the files of a project below its root: what a step may read, write and run there.

It decides when a call is checked, where its work is done, and how its failure is told. Which paths there are is the business of
`project_paths`, what happens to files that of `project_disk`, a program's life that of `project_run`. It knows nothing of steps:
whose call it is, and whether it is over, is checked by the access that is bound to a call. Not a sandbox: a program may touch
whatever its user may.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from loomnb.blueprints.access import AbortSignal, ProjectAccess, ProjectCommand, ProjectCommandResult
from loomnb.blueprints.project_diff import Capture
from loomnb.blueprints.project_disk import TEXT_BYTES, digest_of, each_file, kept_text, read_text, remove_file, write_text
from loomnb.blueprints.project_paths import Parts, ProjectError, folder_at, parts_of, shown
from loomnb.blueprints.project_run import Bell, checked_command, run_program
from loomnb.errors import InvalidRequest

__all__ = ["ProjectError", "ProjectFiles"]

T = TypeVar("T")

BUDGET = 64 * 2**20
"""Bytes of text that one capture keeps."""


class ProjectFiles(ProjectAccess):
    r"""The files below a folder.

    Each method checks and copies its arguments at the call, and starts at once, also if nobody awaits it. Files are read and
    written one call after another, in the order of the calls; programs run beside them. It works on any running loop.

    Paths are relative, with `/` or `\` between names. Refused are those with a `..`, through a link of any kind, or through
    one of `.git .intloom intloom node_modules dist coverage .turbo intloom.yaml intloom.config.yaml .env* .dev.vars*`.

    Args:
        root: an existing folder. It is resolved once; links above it may be changed later, and do not matter.
        private: further files and folders that no step may see, such as the store if it is in the root; and what stands beside
            one under its name and a dot, such as the store's log and lock.

    Raises:
        InvalidRequest: the root is no folder.
    """

    def __init__(self, root: str | os.PathLike[str], *, private: Iterable[str | os.PathLike[str]] = ()) -> None:
        try:
            resolved = Path(root).resolve(strict=True)
        except (OSError, TypeError, ValueError, RuntimeError) as exc:  # RuntimeError: links that lead in a circle
            raise InvalidRequest(f"The project's root {root!r} is not there.", advice="Give an existing folder.") from exc
        if not resolved.is_dir():
            raise InvalidRequest(f"The project's root {str(root)!r} is a file.", advice="Give the folder it is in.")
        self._root = str(resolved)
        self._private = frozenset(_below(resolved, private))
        self._line = _Line()

    @property
    def root(self) -> Path:
        """The folder, resolved."""
        return Path(self._root)

    def __repr__(self) -> str:
        return f"ProjectFiles({self._root!r})"

    def snapshot(self) -> Awaitable[Mapping[str, str]]:
        """Path → SHA-256 of each regular file, by path. Excluded names are left out at every depth.

        Raises:
            ProjectError: there is a link, a file of more than 16 MiB, or more than 10,000 files.
        """
        return self._line.start("The project cannot be read", self._digests)

    def capture(self) -> Awaitable[Capture]:
        """The same with the texts of files, to see later what has changed: `ProjectDiff.between(before, after)`."""
        return self._line.start("The project cannot be read", self._capture)

    def read(self, path: str) -> Awaitable[str]:
        """The text of a file, unchanged.

        Raises:
            ProjectError: it is not there, has more than 1 MiB, or is no UTF-8.
        """
        parts = self._file(path)
        return self._line.start(f"{shown(path)} cannot be read", lambda: read_text(self._root, parts))

    def write(self, path: str, content: str) -> Awaitable[None]:
        """Make or replace a file of at most 1 MiB: whole or not at all, even if the process dies. Missing folders are made.

        Its permissions stay as they were. It is a new file, though: another owner or further attributes are lost.

        Raises:
            ProjectError: it is too big, or the path is no file that may be written.
        """
        parts = self._file(path)
        data = _content(content)
        return self._line.start(f"{shown(path)} cannot be written", lambda: write_text(self._root, parts, data))

    def remove(self, path: str) -> Awaitable[None]:
        """Remove one file.

        Raises:
            ProjectError: it is not there, or a folder.
        """
        parts = self._file(path)
        return self._line.start(f"{shown(path)} cannot be removed", lambda: remove_file(self._root, parts))

    def run(
        self, command: ProjectCommand | Mapping[str, Any], signal: AbortSignal | None = None
    ) -> Awaitable[ProjectCommandResult]:
        """Run a program in the project, without a shell and without input. A non-zero exit is a result.

        When its time is over it and what it started is killed; so it is when the signal is aborted, and the signal's reason is
        raised, or when who awaits it is canceled. It has this process's environment. A program that was killed by a signal has
        that signal's negative number as its exit code.

        Raises:
            ProjectError: the command breaks a rule, or cannot be started.
        """
        checked = checked_command(command)
        parts = parts_of(checked.cwd, self._private, what="cwd") if checked.cwd else ()
        if signal is not None and not isinstance(signal, AbortSignal):
            raise ProjectError(f"The signal is a {type(signal).__name__}. Give an AbortSignal, or none.")
        loop = _running_loop()
        bell = Bell()
        future: asyncio.Future[ProjectCommandResult] = loop.create_future()
        future.add_done_callback(lambda f: bell.ring() if f.cancelled() else _look_at(f))
        stop_listening = signal.add_listener(lambda _: bell.ring()) if signal is not None else _nothing
        if signal is not None and signal.aborted:
            bell.ring()  # it may have been aborted on another thread, between its listeners being called and ours being added

        def work() -> ProjectCommandResult:
            with folder_at(self._root, parts) as folder:
                result = run_program(checked, folder, bell)
            if signal is not None:
                signal.throw_if_aborted()
            if result is None:
                raise asyncio.CancelledError
            return result

        def job() -> None:
            try:
                _perform(loop, future, f"The cwd {shown(checked.cwd or '.')} cannot be opened", work)
            finally:
                with contextlib.suppress(ValueError):  # taken off by an abort on another thread, in this moment
                    stop_listening()
                bell.put_away()

        _on_a_thread(job, "loom command")
        return future

    def _file(self, path: object) -> Parts:
        parts = parts_of(path, self._private)
        if not parts:
            raise ProjectError(f"The path {path!r} is the root itself. Give the path of a file in it.")
        return parts

    def _digests(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for folder, name in each_file(self._root, self._private):
            digest = digest_of(folder, name)
            if digest is not None:
                found["/".join((*folder.parts, name))] = digest[0]
        return dict(sorted(found.items()))

    def _capture(self) -> Capture:
        hashes: dict[str, str] = {}
        texts: dict[str, str] = {}
        beyond: list[str] = []
        left = BUDGET
        for folder, name in each_file(self._root, self._private):
            digest = digest_of(folder, name, keep=TEXT_BYTES)
            if digest is None:
                continue
            path = "/".join((*folder.parts, name))
            hashes[path], data = digest
            text = kept_text(data)
            if data is not None and text is not None:
                if len(data) <= left:
                    texts[path] = text
                    left -= len(data)
                else:
                    beyond.append(path)
        return Capture(hashes=dict(sorted(hashes.items())), texts=texts, beyond=frozenset(beyond))


def _below(root: Path, private: Iterable[str | os.PathLike[str]]) -> Iterable[Parts]:
    for one in private:
        path = Path(one).absolute()
        with contextlib.suppress(ValueError):  # it is elsewhere, where no step gets anyhow
            yield (path.parent.resolve() / path.name).relative_to(root).parts


def _content(content: object) -> bytes:
    if not isinstance(content, str):
        raise ProjectError(f"The content is a {type(content).__name__}. Give a text.")
    try:
        data = content.encode()
    except UnicodeEncodeError as exc:
        raise ProjectError(f"The content is no Unicode text at character {exc.start}: half a surrogate pair.") from None
    if len(data) > TEXT_BYTES:
        raise ProjectError(f"The content has {len(data):,} bytes; a step may write 1 MiB ({TEXT_BYTES:,}). Split it.")
    return data


# -- threads ---------------------------------------------------------------------------------------
# Daemon threads of our own: those of asyncio's executor are few, shared with everybody, and joined at exit, so that a program of
# five minutes or a network drive that hangs would hold up the others and the kernel's end.


class _Line:
    """Work that is done one call after another, on a thread that ends when there is no more."""

    def __init__(self) -> None:
        self._jobs: collections.deque[Callable[[], None]] = collections.deque()
        self._lock = threading.Lock()
        self._is_working = False

    def start(self, failure: str, work: Callable[[], T]) -> asyncio.Future[T]:
        """Do it as soon as what was started before is done."""
        loop = _running_loop()
        future: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(_look_at)
        with self._lock:
            self._jobs.append(lambda: _perform(loop, future, failure, work))
            if not self._is_working:
                _on_a_thread(self._work, "loom project")
                self._is_working = True
        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._is_working = False
                    return
                job = self._jobs.popleft()
            job()


def _on_a_thread(work: Callable[[], None], name: str) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()


def _perform(loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], failure: str, work: Callable[[], T]) -> None:
    """Do the work of a future that another thread's loop waits for."""
    if future.cancelled():
        return  # the line had not come to it: nothing is done

    def settle(value: T | None, exc: BaseException | None) -> None:
        if not future.done():
            if exc is None:
                future.set_result(value)  # type: ignore[arg-type]  # of a T, or of None for one
            else:
                future.set_exception(exc)

    try:
        outcome: tuple[T | None, BaseException | None] = work(), None
    except OSError as exc:
        error = ProjectError(f"{failure}: {exc.strerror or exc}. Check that it is there and may be used so.")
        error.__cause__ = exc
        outcome = None, error
    except BaseException as exc:  # noqa: BLE001  # it belongs to who waits
        outcome = None, exc
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(settle, *outcome)


def _look_at(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()  # looked at, or asyncio complains about a failure that nobody awaited


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ProjectError(
            "A project is used where a loop runs: await it in an async function or in a notebook's cell."
        ) from None


def _nothing() -> None:
    """What takes off no listener."""
