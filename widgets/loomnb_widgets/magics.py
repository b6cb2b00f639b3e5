"""`%loom` and `%%loom sql`."""

from __future__ import annotations

import shlex
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from loomnb.errors import Refused
from loomnb.store import Relation, parameters
from loomnb.studio import Loom, default, open_store

__all__ = ["LoomMagics"]

_USAGE = """%loom                    where the store is, and what waits
%loom runs               a table of the runs
%loom pending            every open question, with its form
%loom open PATH          open another store
%%loom sql [-o NAME]     run the cell as SQL; -o keeps the result in a variable; $name takes a variable's value"""


@magics_class
class LoomMagics(Magics):
    """The magics of loomnb."""

    @line_cell_magic
    def loom(self, line: str, cell: str | None = None) -> Any:
        """See `%loom?`."""
        words = shlex.split(line)
        if cell is not None:
            return self._sql(words, cell)
        match words:
            case []:
                return self._summary()
            case ["runs"]:
                return default().runs()
            case ["pending"]:
                return default().pending()
            case ["open", path]:
                return open_store(path)
            case ["sql", *rest] if rest:
                return self._query(line.split("sql", 1)[1])
            case _:
                raise UsageError(_USAGE)

    def _names(self) -> dict[str, Any]:
        assert self.shell is not None  # IPython gives every magic its shell
        names: dict[str, Any] = self.shell.user_ns
        return names

    def _summary(self) -> None:
        session: Loom = default()
        rows = session.sql("select status, count(*) from runs group by status order by status").fetchall()
        print(f"store: {session.path}")  # noqa: T201
        print("runs: " + (", ".join(f"{n} {status}" for status, n in rows) or "none yet"))  # noqa: T201
        if session.pending():
            print(f"{len(session.pending())} open: loom.pending() shows them")  # noqa: T201

    def _sql(self, words: list[str], cell: str) -> Relation | None:
        match words:
            case ["sql"]:
                return self._query(cell)
            case ["sql", "-o", name] if name.isidentifier():
                self._names()[name] = self._query(cell)
                return None
            case _:
                raise UsageError(_USAGE)

    def _query(self, sql: str) -> Relation:
        names = parameters(sql)
        missing = [n for n in names if n not in self._names()]
        if missing:
            raise Refused(f"The query uses ${missing[0]}, and no variable is called {missing[0]}.")
        return default().sql(sql, {n: self._names()[n] for n in names} if names else None)


LoomMagics.loom.__doc__ = _USAGE
