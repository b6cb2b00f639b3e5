"""What agents remember, in the store file: rows of the journal under a fixed id, and the view `memories` over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomnb.agents.journal_batch import collector
from loomnb.agents.memories import Memory
from loomnb.jsonvalue import dumps
from loomnb.store import Database

__all__ = ["JournalMemories"]

_MEMORIES = "memories"
"""Stands for a run's id in these rows."""


class JournalMemories:
    """A `MemoryProvider` in the store file. What an agent remembers is committed with the record of the call that said so.

    Args:
        database: the store file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, scopes: Sequence[str]) -> Sequence[Memory]:
        """Those of some scopes, newest first."""
        rows = self._database.read(
            "select scope, key, fact, pinned, said_at from memories where list_contains(?::varchar[], scope) order by seq desc",
            [list(scopes)],
        )
        return [Memory(scope=scope, key=key, fact=fact, pinned=pinned, at=at or "") for scope, key, fact, pinned, at in rows]

    def write(self, memory: Memory) -> None:
        """Keep one, in place of the former one of its scope and key.

        Raises:
            StoreClosed: the store was closed.
        """
        body = {"scope": memory.scope, "key": memory.key, "fact": memory.fact, "pinned": memory.pinned, "at": memory.at}
        self._put("memory.written", body)

    def forget(self, scope: str, key: str) -> bool:
        """Delete one; whether it was there. Its text stays in the journal, of which nothing is taken away.

        Raises:
            StoreClosed: the store was closed.
        """
        if all(memory.key != key for memory in self.list([scope])):
            return False
        self._put("memory.forgotten", {"scope": scope, "key": key})
        return True

    def _put(self, kind: str, body: Mapping[str, Any]) -> None:
        row = (_MEMORIES, kind, dumps(body))
        here = collector()
        if here is None:
            self._database.commit([row])
        else:
            here.check()
            here.rows.append(row)
