"""The streams of runs, kept in this process: who comes late reads from the first frame on. Rule: contracts/agents.md §1.7."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping

from loomnb.agents.frames import frame, frame_lines

__all__ = ["MemorySink"]

_CLOSED_KEPT = 1_024  # ids only: so that a reader who comes after the end is not left waiting for a beginning


class _Stream:
    """One run's frames, and who waits for more. Readers may be on other loops and threads than the writer."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_over = False
        self.was_opened = False
        self.readers = 0
        self.guard = threading.Lock()
        self.waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    def add(self, lines: list[str], *, is_over: bool = False) -> None:
        with self.guard:
            if self.is_over:
                return
            self.lines += lines
            self.is_over = is_over
            waiting, self.waiting = self.waiting, {}
        for future, loop in waiting.items():
            with contextlib.suppress(RuntimeError):  # the reader's loop was closed, and the reader is gone with it
                loop.call_soon_threadsafe(_wake, future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _followed(stream: _Stream) -> AsyncGenerator[str, None]:
    at = 0
    while True:
        with stream.guard:
            news, is_over = stream.lines[at:], stream.is_over
            waiter: asyncio.Future[None] | None = None
            if not news and not is_over:
                loop = asyncio.get_running_loop()
                waiter = loop.create_future()
                stream.waiting[waiter] = loop
        for line in news:
            yield line
        at += len(news)
        if waiter is not None:
            try:
                await waiter
            finally:
                with stream.guard:
                    stream.waiting.pop(waiter, None)
        elif is_over and not news:
            return


class _Writer:
    """The writing end of a stream. What comes after its end is dropped."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    async def write(self, line: str) -> None:
        self._stream.add(frame_lines(line))

    async def end(self) -> None:
        self._stream.add([], is_over=True)

    async def fail(self, failure: Mapping[str, str]) -> None:
        self._stream.add([frame("error", code=failure["code"], message=failure["message"])], is_over=True)

    async def flush(self) -> None: ...


class MemorySink:
    """A `TokenStreamSink` in memory, for one process; its methods may be called from any thread.

    A stream that ended with a failure has one more frame, `{"kind": "error", "code", "message"}`.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._streams: dict[str, _Stream] = {}
        self._closed: OrderedDict[str, None] = OrderedDict()

    def open(self, run_id: str) -> _Writer:
        """The writer of a run. A stream that has not ended is gone on with, as after a restart of the run; one that has begins
        anew."""
        with self._guard:
            self._closed.pop(run_id, None)
            stream = self._streams.get(run_id)
            if stream is None or stream.is_over:
                stream = self._streams[run_id] = _Stream()
            stream.was_opened = True
        return _Writer(stream)

    async def subscribe(self, run_id: str) -> AsyncGenerator[str, None]:
        """The frames of a run: from the first one on, then as they come, until its end.

        A run that was not opened yet is waited for. One that was closed has none.
        """
        with self._guard:
            if run_id in self._closed:
                return
            stream = self._streams.setdefault(run_id, _Stream())
            stream.readers += 1
        try:
            async with contextlib.aclosing(_followed(stream)) as lines:
                async for line in lines:
                    yield line
        finally:
            with self._guard:  # a run that nobody opened is not kept because somebody once asked for it
                stream.readers -= 1
                if not stream.was_opened and not stream.readers and self._streams.get(run_id) is stream:
                    del self._streams[run_id]

    def finish(self, run_id: str, *lines: str) -> None:
        """Write the last frames of a run and end its stream; one that has ended, or was never opened, is left as it is."""
        with self._guard:
            stream = self._streams.get(run_id)
        if stream is not None:
            stream.add(list(lines), is_over=True)

    def close(self, run_id: str) -> None:
        """Forget the frames of a run. Who still reads comes to the end of what there is."""
        with self._guard:
            stream = self._streams.pop(run_id, None)
            self._closed[run_id] = None
            while len(self._closed) > _CLOSED_KEPT:
                self._closed.popitem(last=False)
        if stream is not None:
            stream.add([], is_over=True)
