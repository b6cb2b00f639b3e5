"""A signal that a call is over before its code was. Cooperative: whoever does long work looks at it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

__all__ = ["AbortSignal"]


class AbortSignal:
    """Whether a call is over before its code was: cooperative, look at it in long work.

    Listeners are called on the thread that aborts, once.
    """

    __slots__ = ("_guard", "_listeners", "_reason")

    def __init__(self) -> None:
        self._guard = threading.Lock()  # listeners come from worker threads, the abort from the loop's
        self._reason: BaseException | None = None
        self._listeners: list[Callable[[BaseException], None]] = []

    @property
    def aborted(self) -> bool:
        """Whether the call is over."""
        return self._reason is not None

    @property
    def reason(self) -> BaseException | None:
        """Why; None while it is not."""
        return self._reason

    def throw_if_aborted(self) -> None:
        """Raise the reason, if the call is over."""
        if self._reason is not None:
            raise self._reason

    def add_listener(self, call: Callable[[BaseException], None]) -> Callable[[], None]:
        """Call something with the reason when it is aborted, at once if it is already. What is returned takes it off again."""
        with self._guard:
            reason = self._reason
            if reason is None:
                self._listeners.append(call)
        if reason is not None:
            call(reason)

        def remove() -> None:
            with self._guard:
                if call in self._listeners:
                    self._listeners.remove(call)

        return remove

    def abort(self, reason: BaseException) -> None:
        """End the call. The first reason counts. For who owns the call; code only looks."""
        with self._guard:
            if self._reason is not None:
                return
            self._reason = reason
            listeners, self._listeners = self._listeners, []
        for call in listeners:
            with contextlib.suppress(BaseException):  # one that is broken must not keep the end from the others, nor the run
                call(reason)
