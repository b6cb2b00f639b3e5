"""What tests of storage share: operations in short, and stores whose connection fails when it is told to."""

from __future__ import annotations

from typing import Any

import duckdb

from loomnb.store import Database

__all__ = ["Broken", "append", "break_connection", "create", "remove", "remove_record", "replace"]

Operation = dict[str, Any]


def payload(flow: str, stage: str, data: Any) -> dict[str, Any]:
    return {"flowName": flow, "stageName": stage, "data": data}


def create(name: str, flow: str = "f", stage: str | None = None, data: Any = None) -> Operation:
    """An artifact, in a stage of its own unless one is named."""
    return {"type": "create_artifact", "id": name, "payload": payload(flow, name if stage is None else stage, data)}


def replace(name: str, revision: Any, flow: str = "f", stage: str | None = None, data: Any = None) -> Operation:
    return {
        "type": "replace_artifact",
        "id": name,
        "expectedRevision": revision,
        "payload": payload(flow, name if stage is None else stage, data),
    }


def append(name: str, flow: str = "f", stage: str = "s", data: Any = None) -> Operation:
    return {"type": "append_record", "id": name, "payload": payload(flow, stage, data)}


def remove(name: str, revision: Any) -> Operation:
    return {"type": "remove_artifact", "id": name, "expectedRevision": revision}


def remove_record(name: str) -> Operation:
    return {"type": "remove_record", "id": name}


class Broken:
    """The writer's connection, of which a COMMIT fails: before it took effect, or after, and then everything else too."""

    def __init__(self, connection: Any, *, after: bool) -> None:
        self._connection, self._after = connection, after
        self.is_dead = False

    def execute(self, sql: Any, *params: Any) -> Any:
        if self.is_dead:
            raise duckdb.FatalException("the database has been invalidated because of a previous fatal error")
        if sql == "commit":
            self.is_dead = self._after
            if self._after:
                self._connection.execute(sql)
            else:
                self._connection.execute("rollback")
            raise duckdb.IOException("the disk said no")
        return self._connection.execute(sql, *params)

    def extract_statements(self, sql: str) -> Any:
        return self._connection.extract_statements(sql)


def break_connection(database: Database, *, after: bool) -> Any:
    """Let the next commit fail; gives what mends it."""
    writer = database._writer
    whole = writer._connection
    writer._connection = Broken(whole, after=after)

    def mend() -> None:
        writer._connection = whole

    return mend
