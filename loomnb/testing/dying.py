"""A store that dies in the middle, as a kernel does: for tests of what a restart finds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from loomnb.errors import LoomError, StoreClosed
from loomnb.ids import Source
from loomnb.store import Action, Chain, Database, Row

__all__ = ["Death"]

T = TypeVar("T")


class Death:
    """Kills a store with its n-th commit: `Loom(path, database=Death(after=3))`, `death.wait()`, `session.close()`.

    From then on nothing is written and nothing is acknowledged, as after `kill -9`; runs stand still in mid-move.

    Args:
        after: how many batches are committed. Each start, move, answer and cancel is one, and each commit of storage.
        acknowledged: whether the last of them was still heard of. If not, it is in the file, and no run of this process knows.
    """

    def __init__(self, after: int, *, acknowledged: bool = True) -> None:
        self.after = after
        self.acknowledged = acknowledged
        self.batches = 0
        """How many were put so far."""
        self._dead = threading.Event()
        self._counting = threading.Lock()

    def __call__(self, path: str, source: Source) -> Database:
        """The store, opened."""
        return _Mortal(path, source, self)

    def wait(self, timeout: float = 20.0) -> None:
        """Wait until it is dead and its last batch is in the file.

        Raises:
            TimeoutError: it lived on.
        """
        if not self._dead.wait(timeout):
            raise TimeoutError(f"Only {self.batches} of {self.after} batches were put within {timeout:g} seconds.")

    def count(self) -> int:
        """Count a batch; its number. From any thread."""
        with self._counting:
            self.batches += 1
            return self.batches

    def strike(self) -> None:
        """The last batch was written."""
        self._dead.set()


class _Mortal(Database):
    def __init__(self, path: str, source: Source, death: Death) -> None:
        self._death = death
        super().__init__(path, source)

    def put(
        self,
        rows: Sequence[Row],
        done: Callable[[LoomError | None, int], None],
        *,
        more: bool = False,
        chain: Chain | None = None,
        behind: bool = False,
    ) -> None:
        is_last, done = self._counted(done)
        super().put(rows, done, more=more and not is_last, chain=chain, behind=behind and not is_last)

    def transact(
        self, action: Action[T], done: Callable[[LoomError | None, T | None], None], *, chain: Chain | None = None
    ) -> None:
        _, done = self._counted(done)
        super().transact(action, done, chain=chain)

    def _counted(self, done: Callable[[LoomError | None, T], None]) -> tuple[bool, Callable[[LoomError | None, T], None]]:
        """Count a batch: whether it is the last one, and what is to be told of it."""
        death, number = self._death, self._death.count()
        if number > death.after:
            raise StoreClosed("The store died, as this test wants it to.")
        if number < death.after:
            return False, done

        def last(error: LoomError | None, value: T) -> None:
            death.strike()
            if death.acknowledged:
                done(error, value)

        return True, last
