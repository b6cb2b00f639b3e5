"""One kernel owns a store file: our own lock file beside it says which.

DuckDB's own lock is a POSIX record lock: it vanishes when any code of the owner opens and closes the file, and then a second
process may write over the first. `flock` on a file of our own does not, and it goes away with its process, so there is no
stale lock to clean up.
"""

from __future__ import annotations

import contextlib
import json
import os
from datetime import datetime
from pathlib import Path
from typing import IO, Any, cast

from loomnb.errors import StoreBusy
from loomnb.names import notebook_name

try:
    import fcntl
except ImportError:  # Windows: the file stays open without sharing rights, see _take
    fcntl = None  # type: ignore[assignment]

__all__ = ["OwnerLock"]


class OwnerLock:
    """The ownership of a store file, held until `release`.

    Raises:
        StoreBusy: another process holds it; the message names its notebook and PID, and what to run there.
    """

    def __init__(self, store: Path, now: datetime) -> None:
        self.path = store.with_name(store.name + ".lock")
        self._file: IO[str] = self.path.open("a+", encoding="utf-8")  # held open: it is the lock
        try:
            _take(self._file)
        except OSError as exc:
            owner = _read(self.path)
            self._file.close()
            raise _busy(store, owner) from exc
        self.left = _left(self.path)
        """The store id and the last acknowledged row of an owner that did not close; None after a clean end."""
        self._file.seek(0)
        self._file.truncate()
        head = {"pid": os.getpid(), "notebook": notebook_name(), "started": now.isoformat(timespec="seconds")}
        self._file.write(json.dumps(head) + "\n")
        self._file.flush()
        # A descriptor of its own, because writes to one that appends ignore where they should go.
        self._note = os.open(self.path, os.O_RDWR)
        self._at = os.fstat(self._note).st_size
        self._store_id = ""

    def begin(self, store_id: str, seq: int) -> None:
        """Keep beside the owner what it has acknowledged, so that the next one can tell when rows are missing."""
        self._store_id = store_id
        self.note(seq)

    def note(self, seq: int) -> None:
        """The last acknowledged row. No fsync: it is for a log that was cut, not for a machine that lost its power."""
        os.pwrite(self._note, f"{self._store_id} {seq:020d}\n".encode(), self._at)

    def release(self) -> None:
        """Give the file up. The lock file stays, emptied: removing it would race with the next owner."""
        if not self._file.closed:
            with contextlib.suppress(OSError):
                os.close(self._note)
                self._file.seek(0)
                self._file.truncate()
            self._file.close()


def _take(file: IO[str]) -> None:
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:  # pragma: no cover  # Windows
        import msvcrt  # noqa: PLC0415  # exists on Windows only

        windows = cast("Any", msvcrt)  # its members are only known to a checker that runs on Windows
        file.seek(1 << 20)  # a byte past the text, which others must still be able to read
        windows.locking(file.fileno(), windows.LK_NBLCK, 1)


def _left(path: Path) -> tuple[str, int] | None:
    try:
        store_id, seq = path.read_text(encoding="utf-8").splitlines()[1].split()
        return store_id, int(seq)
    except (OSError, ValueError, IndexError):
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8").partition("\n")[0])
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _busy(store: Path, owner: dict[str, Any]) -> StoreBusy:
    pid, notebook, started = owner.get("pid"), owner.get("notebook"), owner.get("started")
    who = f"the notebook {notebook}" if notebook else "another kernel"
    detail = ", ".join(filter(None, [f"process {pid}" if pid else "", f"since {started}" if started else ""]))
    error = StoreBusy(
        f"The store {store} is in use by {who}{f' ({detail})' if detail else ''}.",
        advice=(
            "Run one of these two lines in that notebook:\n"
            '    loom.snapshot("copy.duckdb")   # then read the copy here: loom.open("copy.duckdb")\n'
            "    loom.close()                   # release the file, then try again here\n"
            "Or shut that kernel down. Its runs are kept."
        ),
    )
    error.pid, error.notebook = pid, notebook or ""
    return error
