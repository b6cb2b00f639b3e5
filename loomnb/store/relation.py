"""What `loom.sql` gives: the result of one read-only statement, kept on a cursor of its own.

The statement runs once, into a temporary table of its cursor: so it is the same each time it is looked at, can be paged, and
a half-read result blocks nobody. It runs in a READ ONLY transaction, which stops every write to the store, whatever its
disguise (a data-modifying CTE counts as SELECT); a statement that is no query is refused before.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from loomnb.errors import LoomError, Refused
from loomnb.present import table_html, table_markdown
from loomnb.store.database import Database

if TYPE_CHECKING:
    import pandas  # noqa: ICN001
    import polars  # noqa: ICN001
    import pyarrow  # noqa: ICN001

__all__ = ["Column", "Relation", "cell_text", "parameters", "query"]

Column = tuple[str, str]
"""Name and DuckDB type."""

_SHOWN = 10


class Relation:
    """The rows of a query. They do not change any more; they are kept until the object goes."""

    def __init__(self, cursor: Any, columns: Sequence[Column], total: int) -> None:
        self.show_live: Callable[[Relation], bool] = lambda _: False
        """Shows it as a table that can be paged, where there is a notebook."""
        self._cursor = cursor
        self._guard = threading.Lock()  # a page request may come while a cell reads
        self.columns: list[str] = [name for name, _ in columns]
        self.types: list[str] = [kind for _, kind in columns]
        self._total = total
        weakref.finalize(self, cursor.close)

    def __len__(self) -> int:
        return self._total

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Every row as a tuple of Python values."""
        rows: list[tuple[Any, ...]] = self._read(lambda c: c.execute("from loom_result").fetchall())
        return rows

    def page(self, offset: int = 0, limit: int = 50) -> list[tuple[Any, ...]]:
        """Some rows, in the order of the query."""
        rows: list[tuple[Any, ...]] = self._read(
            lambda c: c.execute("from loom_result limit ? offset ?", [limit, offset]).fetchall()
        )
        return rows

    def df(self) -> pandas.DataFrame:
        """A pandas DataFrame.

        Raises:
            Refused: pandas is not installed.
        """
        frame: pandas.DataFrame = self._read(lambda c: c.sql("from loom_result").df(), needs="pandas")
        return frame

    def pl(self) -> polars.DataFrame:
        """A polars DataFrame.

        Raises:
            Refused: polars or pyarrow is not installed.
        """
        frame: polars.DataFrame = self._read(lambda c: c.sql("from loom_result").pl(), needs="polars pyarrow")
        return frame

    def arrow(self) -> pyarrow.Table:  # pyright: ignore[reportUnknownParameterType]  # pyarrow ships no types
        """An Arrow table.

        Raises:
            Refused: pyarrow is not installed.
        """
        table: pyarrow.Table = self._read(lambda c: c.sql("from loom_result").to_arrow_table(), needs="pyarrow")
        return table

    def show(self, limit: int = _SHOWN) -> None:
        """Print the first rows as text."""
        print(self.text(limit))  # noqa: T201  # that is what show is for

    def text(self, limit: int = _SHOWN) -> str:
        """The first rows as an aligned text table."""
        rows = [[cell_text(v) for v in row] for row in self.page(0, limit)]
        widths = [max(len(c), *(len(r[i]) for r in rows)) if rows else len(c) for i, c in enumerate(self.columns)]
        widths = [min(w, 60) for w in widths]

        def line(cells: Sequence[str]) -> str:
            cut = (c if len(c) <= w else c[: w - 1] + "…" for c, w in zip(cells, widths, strict=True))
            return "  ".join(c.ljust(w) for c, w in zip(cut, widths, strict=True)).rstrip()

        rest = self._total - len(rows)
        tail = [f"… {rest:,} more rows"] if rest > 0 else [] if rows else ["(no rows)"]
        return "\n".join([line(self.columns), line(["─" * w for w in widths]), *map(line, rows), *tail])

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self.static_bundle()

    def static_bundle(self) -> dict[str, str]:
        """The first rows as text and HTML, for a page nobody can turn any more."""
        rows = [[cell_text(v) for v in row] for row in self.page(0, _SHOWN)]
        return {
            "text/plain": self.text(),
            "text/html": table_html(self.columns, self.types, rows, self._total),
            "text/markdown": table_markdown(self.columns, self.types, rows, self._total),
        }

    def _ipython_display_(self) -> None:
        if not self.show_live(self):
            raise NotImplementedError  # IPython then takes the static forms

    def _read(self, fetch: Callable[[Any], Any], needs: str = "") -> Any:
        try:
            with self._guard:
                return fetch(self._cursor)
        except ImportError as exc:
            raise Refused(f"This needs {needs.replace(' ', ' and ')}.", advice=f"Run: %pip install {needs}") from exc
        except duckdb.InvalidInputException as exc:
            if needs and "pyarrow" in str(exc):
                raise Refused("This needs pyarrow.", advice="Run: %pip install pyarrow") from exc
            raise _translated(exc) from exc
        except duckdb.Error as exc:
            raise _translated(exc) from exc


def cell_text(value: Any) -> str:
    """A cell as one line of text; NULL for none."""
    if value is None:
        return "NULL"
    text = str(value)
    return text.replace("\n", "⏎").replace("\r", "")


def query(
    database: Database,
    sql: str,
    params: Sequence[Any] | Mapping[str, Any] | None,
    find: Callable[[str], Any],
    wait: Callable[[Callable[[], Any], Callable[[], None]], Any],
) -> Relation:
    """Run one read-only statement.

    Args:
        database: the store.
        sql: exactly one query.
        params: values for `?` or `$name`.
        find: gives the frame of a name the store does not know, or None.
        wait: runs a function so that an interrupt can call the second one, and gives its result.

    Raises:
        Refused: it is not one query, it would write, a name is unknown, or DuckDB refuses it; the text says why.
    """
    _check_arguments(sql, params)
    cursor = database.cursor()
    done = False
    try:
        _check(cursor, sql)
        for name in _unknown_names(cursor, sql):
            frame = find(name)
            if frame is not None:
                cursor.register(name, frame)
        result: Relation = wait(lambda: _materialise(cursor, sql, params), cursor.interrupt)
        done = True
        return result  # noqa: TRY300  # an else block would stand further from what it belongs to
    except duckdb.Error as exc:
        raise _translated(exc) from exc
    finally:
        if not done:
            with contextlib.suppress(duckdb.Error):  # still at work, in spite of the interrupt: it goes when it is done
                cursor.close()


def parameters(sql: str) -> list[str]:
    """The names of a statement's `$name` parameters.

    Raises:
        Refused: it does not parse.
    """
    try:
        return sorted(name for s in duckdb.extract_statements(sql) for name in s.named_parameters if not name.isdigit())
    except duckdb.Error as exc:
        raise _translated(exc) from exc


_LOOKS = re.compile(
    r"\s*pragma\s+(table_info|show_tables|show_tables_expanded|show|database_list|database_size|storage_info|version)\b",
    re.IGNORECASE,
)
"""Pragmas that only look. The others set something, for every connection of this store."""


def _check_arguments(sql: object, params: object) -> None:
    if not isinstance(sql, str):
        raise Refused(f"loom.sql takes the text of a query, not a {type(sql).__name__}.")
    try:
        sql.encode()
    except UnicodeEncodeError as exc:
        raise Refused("The query holds half of a surrogate pair: it is no valid text.") from exc
    if params is not None and not isinstance(params, (list, tuple, Mapping)):
        raise Refused(f"params={params!r:.60} are no values.", advice="A list for `?`, a mapping for `$name`.")


def _check(cursor: Any, sql: str) -> None:
    statements = cursor.extract_statements(sql)
    if len(statements) != 1:
        raise Refused(
            f"{len(statements)} statements were given; loom.sql runs one query.", advice="Split them into several calls."
        )
    try:
        kind = str(statements[0].type).rpartition(".")[2]
    except ValueError:  # a kind that DuckDB's Python side has no name for, such as UPDATE EXTENSIONS: no query
        kind = "maintenance"
    if kind == "PRAGMA" and not _LOOKS.match(sql):
        raise Refused(f"loom.sql only reads, and this pragma may change a setting: {sql.strip()}")
    if kind not in ("SELECT", "EXPLAIN", "PRAGMA"):
        raise Refused(
            f"loom.sql only reads, and this is a {kind} statement.",
            advice="The store is written by runs. Change a copy: loom.snapshot('copy.duckdb'), duckdb.connect('copy.duckdb').",
        )


def _unknown_names(cursor: Any, sql: str) -> list[str]:
    # From the parsed statement: get_table_names binds it too, and fails at a USING or at a star of a name it does not know.
    (text,) = cursor.execute("select json_serialize_sql(?::varchar)", [sql]).fetchone()
    tree = json.loads(text)
    if tree.get("error"):  # EXPLAIN and the like: let the statement itself say what is wrong
        return []
    names = set(_tables_in(tree))
    known = {r[0].lower() for r in cursor.execute("select table_name from information_schema.tables").fetchall()}
    return [n for n in names if n.lower() not in known]


def _tables_in(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE" and not node.get("schema_name"):
            yield node["table_name"]
        for value in node.values():
            yield from _tables_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from _tables_in(value)


def _materialise(cursor: Any, sql: str, params: Sequence[Any] | Mapping[str, Any] | None) -> Relation:
    cursor.execute("begin transaction read only")
    try:
        values = list(params) if isinstance(params, (list, tuple)) else dict(params) if params else []
        text = sql.strip().rstrip(";")
        if str(cursor.extract_statements(sql)[0].type).endswith("SELECT"):
            cursor.execute(f"create temp table loom_result as {text}\n", values)
        else:  # EXPLAIN and PRAGMA are no sub-queries: their few rows are stored as text
            rows = cursor.execute(text, values).fetchall()
            names = [d[0] for d in cursor.description]
            cursor.execute("create temp table loom_result(" + ", ".join(f'"{n}" varchar' for n in names) + ")")
            for row in rows:
                marks = ", ".join("?" * len(row))
                cursor.execute(f"insert into loom_result values ({marks})", [str(v) for v in row])  # noqa: S608  # only marks
    except BaseException:
        cursor.execute("rollback")
        raise
    cursor.execute("commit")
    columns = [(r[0], r[1]) for r in cursor.execute("describe loom_result").fetchall()]
    ((total,),) = cursor.execute("select count(*) from loom_result").fetchall()
    return Relation(cursor, columns, total)


def _translated(exc: duckdb.Error) -> LoomError:
    if isinstance(exc, duckdb.InterruptException):
        return Refused("The query was interrupted.", code="INTERRUPTED")
    text = str(exc).replace("create temp table loom_result as ", "")
    advice = ""
    if isinstance(exc, duckdb.CatalogException) and "does not exist" in text:
        advice = (
            "Tables: runs, moves, documents, asks, answers, logs, events, states, artifacts, artifact_history, records, "
            "step_calls, threads, messages, tool_calls, model_usage, model_costs, model_prices, agent_runs, memories, journal; "
            "or a DataFrame of this notebook."
        )
    return Refused(text, advice=advice, code="SQL_REFUSED")
