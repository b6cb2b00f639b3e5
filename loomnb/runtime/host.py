"""Where moves run: one dedicated loop thread, or the kernel's own loop. And the threads of sync bodies.

The thread is the default because nothing a cell does can stop it: not a busy cell, not an interrupt, not a patched loop.
Sync bodies get daemon threads of our own: a stock executor's threads are joined at exit before anything else, so a body that
never returns would keep the kernel from exiting.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import contextvars
import itertools
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from loomnb.errors import Refused
from loomnb.runtime.failure import tame

__all__ = ["Host", "Hosts", "KernelHost", "ThreadHost", "Workers"]

_WORKERS = 256


class Workers(concurrent.futures.ThreadPoolExecutor):
    """Daemon threads for sync bodies, kept for the next one; each call in a copy of its caller's context.

    A subclass of the stock executor only because asyncio demands one for `set_default_executor`; none of its threads start.
    """

    def __init__(self, limit: int = _WORKERS) -> None:
        super().__init__(max_workers=1)
        self._limit = limit
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = self._queued = self._count = 0
        self._names = itertools.count(1)
        self._counts = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """Run a call on a thread of ours."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        context = contextvars.copy_context()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(context.run(fn, *args, **kwargs))
            except BaseException as exc:  # noqa: BLE001  # whatever a body raises belongs to who waits for it
                future.set_exception(tame(exc))

        self._jobs.put(job)
        with self._counts:
            self._queued += 1
            if self._queued > self._idle and self._count < self._limit:
                self._count += 1
                threading.Thread(target=self._work, name=f"loom body {next(self._names)}", daemon=True).start()
        return future

    def let_go(self) -> None:
        """End the threads that do nothing, and the others once they are done. What is submitted later gets new ones."""
        with self._counts:
            for _ in range(self._count):
                self._jobs.put(None)

    def _work(self) -> None:
        while True:
            with self._counts:
                self._idle += 1
            job = self._jobs.get()
            with self._counts:
                self._idle -= 1
                if job is None:
                    self._count -= 1
                    return
                self._queued -= 1
            job()
            del job  # a kept reference would keep the body's locals alive until the next job


class Host:
    """A loop that moves run on."""

    kind: str
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        self._posted: collections.deque[tuple[Callable[..., Any], tuple[Any, ...]]] = collections.deque()
        self._scheduled = False
        self.blocked = ""
        """What blocks every run right now, said by the watchdog; empty when nothing does."""

    def post(self, fn: Callable[..., Any], *args: Any) -> None:
        """Call something soon on the loop, from any thread. Calls posted together share one wake-up."""
        self._posted.append((fn, args))
        if not self._scheduled:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: the kernel is going down
                self.loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._scheduled = False  # before draining: what is posted from now on schedules again
        while self._posted:
            fn, args = self._posted.popleft()
            try:
                fn(*args)
            except Exception as exc:  # noqa: BLE001  # one call must not take those behind it along
                self.loop.call_exception_handler({"message": "loom: a posted call failed", "exception": exc})

    def spawn(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Start a task on the loop, from any thread."""
        self.post(self._start, make)

    def _start(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        task = self.loop.create_task(make())
        _TASKS.add(task)  # the loop holds tasks weakly: one nobody holds may vanish in mid-flight
        task.add_done_callback(_TASKS.discard)

    def is_current(self) -> bool:
        """Whether the caller runs on this loop (in a task or a callback)."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False


_TASKS: set[asyncio.Task[Any]] = set()


class ThreadHost(Host):
    """The dedicated loop thread, with a watchdog that names what blocks it."""

    kind = "thread"

    def __init__(self, workers: Workers) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(workers)
        self._missed = 0
        self._thread = threading.Thread(target=self._main, name="loom loop", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="loom watchdog", daemon=True).start()
        self.on_blocked: Callable[[], None] = lambda: None

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        if tasks:  # stopped: let the bodies' finally blocks run, but not for ever
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=1))
        self.loop.close()

    def _beat(self) -> None:
        self._missed = 0
        if self.blocked:
            self.blocked = ""
            self.on_blocked()

    def _watch(self, every: float = 0.25, ticks: int = 4) -> None:
        """Count this thread's own punctual ticks, not seconds: when a C call in a cell holds the GIL this thread starves
        too, and the loop is not to blame."""
        while not self.loop.is_closed():
            self.post(self._beat)
            started = time.monotonic()
            time.sleep(every)
            self._missed = self._missed + 1 if time.monotonic() - started < 2 * every else 0
            task = asyncio.current_task(self.loop)
            if self._missed >= ticks and task is not None and not self.blocked:
                frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # documented, for this use
                stack = traceback.extract_stack(frame)
                where = next((f for f in reversed(stack) if "ipykernel_" in f.filename), stack[-1])
                self.blocked = (
                    f"{task.get_name()} blocks all runs (in {where.name}, line {where.lineno}: {where.line}): "
                    "await asyncio.to_thread(...) there, or make a transition or a tool a plain def"
                )
                self.on_blocked()

    def close(self, timeout: float = 2.0) -> None:
        """Stop the loop; tasks are canceled and their finally blocks run."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout)


class KernelHost(Host):
    """The kernel's own loop: for async clients, locks and tasks that were made in a cell."""

    kind = "kernel"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop


class HasHost(Protocol):
    """A run."""

    host: Host | None


class Hosts:
    """The loops of one store's runs, each made when it is first needed."""

    def __init__(self) -> None:
        self.workers = Workers()
        self.readers = Workers(limit=8)
        self.on_blocked: Callable[[], None] = lambda: None
        self._thread_host: ThreadHost | None = None
        self._kernel_hosts: dict[int, KernelHost] = {}
        self._guard = threading.Lock()

    def get(self, kind: str) -> Host:
        """The loop thread (`thread`), or the loop the caller runs on (`kernel`)."""
        if kind == "thread":
            with self._guard:
                if self._thread_host is None:
                    self._thread_host = ThreadHost(self.workers)
                    self._thread_host.on_blocked = self._tell_blocked
                return self._thread_host
        if kind != "kernel":
            raise Refused(f"loop={kind!r} is not known.", advice="Use 'thread' (the default) or 'kernel'.")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as exc:
            raise Refused(
                'loop="kernel" needs a running loop.', advice="Call it in a notebook cell or in an async function."
            ) from exc
        return self._kernel_hosts.setdefault(id(loop), KernelHost(loop))

    def of(self, record: HasHost) -> Host:
        """The host of a run; the loop thread for one that has none yet."""
        if record.host is None:
            record.host = self.get("thread")
        return record.host

    def _tell_blocked(self) -> None:
        self.on_blocked()

    def close(self) -> None:
        """Stop the loop thread, and let go of the threads of sync bodies."""
        if self._thread_host is not None:
            self._thread_host.close()
        self.workers.let_go()
        self.readers.let_go()
