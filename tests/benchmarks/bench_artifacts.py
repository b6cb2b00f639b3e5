"""What artifacts and records cost in a store that holds a million of each: commits, reads, pages, and questions asked in SQL.

The peer is SQLite with the same tables, indexes, rules and durability (WAL, synchronous=FULL), and the same work in Python around
it: operations are checked and copied, rules are applied in order, results are parsed. It has an index on every column that a
read asks for. Both are filled in bulk before the clock starts. Each figure is the median over some calls.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import rounds

KEYS = 10  # records of a stage
CALLS = {"commit of 1": 60, "commit of 100": 15, "point read": 100, "page": 20, "scan": 3}


def artifact(i: int) -> tuple[str, str, str, str]:
    """Id, flow, stage, data of about 250 bytes. Ids are in no order, as random ones are."""
    body = {
        "title": f"Title {i}",
        "status": ("open", "done", "late")[i % 3],
        "score": i * 7919 % 1000 / 10,
        "tags": ["a", "b"],
        "text": f"{i * 2654435761 % 2**32:08x}" * 16,
    }
    return f"a{i * 2654435761 % 2**32:08x}", f"flow{i % 50}", f"stage{i}", json.dumps(body, separators=(",", ":"))


def operation(kind: str, entry: tuple[str, str, str, str], revision: int = 0) -> dict[str, Any]:
    name, flow, stage, data = entry
    out: dict[str, Any] = {
        "type": kind,
        "id": name,
        "payload": {"flowName": flow, "stageName": stage, "data": json.loads(data)},
    }
    return out | ({"expectedRevision": revision} if revision else {})


class Peer:
    """What both engines offer: the work of the benchmark, by name."""

    def commit(self, operations: list[dict[str, Any]]) -> None:
        raise NotImplementedError

    def by_id(self, name: str) -> Any:
        raise NotImplementedError

    def by_place(self, flow: str, stage: str) -> Any:
        raise NotImplementedError

    def latest(self, flow: str, stage: str) -> Any:
        raise NotImplementedError

    def page(self, flow: str | None, cursor: Any) -> tuple[list[Any], Any]:
        raise NotImplementedError

    def ask(self, what: str) -> list[Any]:
        raise NotImplementedError


class Ours(Peer):
    SQL: ClassVar = {
        "filter": "select artifact_id from artifacts where data->>'$.status' = 'open' and (data->>'$.score')::double > 99",
        "group": "select data->>'$.status', avg((data->>'$.score')::double) from artifacts group by 1",
        "latest per key": "select count(*), max(record_id) from latest_records",
    }

    def __init__(self, folder: Any, n: int) -> None:
        import duckdb

        import loomnb as loom
        from loomnb.blueprints.storage import Storage

        path = str(folder / "s.duckdb")
        loom.Loom(path).close()
        raw = duckdb.connect(path)
        # Made in SQL, as `artifact` makes it: a million rows by way of Python take minutes.
        raw.execute(f"""
            create temp table made as
            select i, 'a' || lower(printf('%08x', (i * 2654435761) % 4294967296)) as artifact_id, 'flow' || (i % 50) as flow,
                   'stage' || i as stage, to_timestamp(1.7e9 + i // 10 * 0.001) as moment,
                   '{{"title":"Title ' || i || '","status":"' || ['open', 'done', 'late'][1 + i % 3] || '","score":'
                   || (i * 7919 % 1000 / 10.0) || ',"tags":["a","b"],"text":"'
                   || repeat(printf('%08x', (i * 2654435761) % 4294967296), 16) || '"}}' as data
            from range({n}) as t(i) order by i""")
        raw.execute(
            "insert into artifact_heads "
            "select artifact_id, flow, stage, i + 1, i + 1, moment, moment, null, flow || chr(9) || stage from made"
        )
        raw.execute(
            "insert into artifact_revisions select i + 1, artifact_id, i + 1, flow, stage, 'created', data, moment, moment, null "
            "from made"
        )
        raw.execute(f"""
            insert into records select 'r' || artifact_id, 'flow' || (i % 50), 'stage' || (i % {n // KEYS}), data, moment, null,
                   'flow' || (i % 50) || chr(9) || 'stage' || (i % {n // KEYS}) from made""")
        raw.close()
        self.session = loom.Loom(path)
        self.storage = Storage(self.session._database)

    def commit(self, operations: list[dict[str, Any]]) -> None:
        self.storage.commit(operations).wait()

    def by_id(self, name: str) -> Any:
        return self.storage.get_artifact_by_id(name).wait()

    def by_place(self, flow: str, stage: str) -> Any:
        return self.storage.get_artifact(flow, stage).wait()

    def latest(self, flow: str, stage: str) -> Any:
        return self.storage.get_latest_record(flow, stage).wait()

    def page(self, flow: str | None, cursor: Any) -> tuple[list[Any], Any]:
        query = ({"flowName": flow} if flow else {}) | ({"cursor": cursor} if cursor else {})
        page = self.storage.list_artifacts(query).wait()
        return page.data, page.next_cursor

    def ask(self, what: str) -> list[Any]:
        return self.session.sql(self.SQL[what]).fetchall()


class Sqlite(Peer):
    SQL: ClassVar = {
        "filter": "select artifact_id from artifacts where data->>'$.status' = 'open' and data->>'$.score' > 99",
        "group": "select data->>'$.status', avg(data->>'$.score') from artifacts group by 1",
        "latest per key": """
            select count(*), max(record_id) from (
                select record_id, row_number() over (
                    partition by flow_name, stage_name order by created_at desc, record_id desc
                ) as n from records
            ) where n = 1""",
    }
    TABLES = """
        create table artifacts(
            artifact_id text primary key, flow_name text not null, stage_name text not null, revision integer not null,
            data text not null, created_at integer not null, updated_at integer not null, run_id text,
            unique(flow_name, stage_name)
        ) without rowid;
        create index artifacts_created on artifacts(created_at, artifact_id);
        create index artifacts_flow on artifacts(flow_name, created_at, artifact_id);
        create table artifact_revisions(
            change integer primary key, artifact_id text not null, revision integer not null, flow_name text not null,
            stage_name text not null, op text not null, data text, created_at integer not null, committed_at integer not null,
            run_id text
        );
        create table counters(revision integer not null, change integer not null);
        create table records(
            record_id text primary key, flow_name text not null, stage_name text not null, data text not null,
            created_at integer not null, run_id text
        ) without rowid;
        create index records_place on records(flow_name, stage_name, created_at, record_id);"""

    def __init__(self, folder: Any, n: int) -> None:
        self.db = sqlite3.connect(folder / "s.sqlite", isolation_level=None)
        self.db.executescript("pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -200000;" + self.TABLES)
        self.db.execute("begin")
        made = [(i, *artifact(i), 1_700_000_000_000 + i // 10) for i in range(n)]
        self.db.executemany(
            "insert into artifacts values (?2, ?3, ?4, ?1 + 1, ?5, ?6, ?6, null)", sorted(made, key=lambda row: row[1])
        )
        self.db.executemany(
            "insert into artifact_revisions values (?1 + 1, ?2, ?1 + 1, ?3, ?4, 'created', ?5, ?6, ?6, null)", made
        )
        self.db.executemany(
            f"insert into records values ('r' || ?2, ?3, 'stage' || (?1 % {n // KEYS}), ?5, ?6, null)",
            sorted(made, key=lambda row: row[1]),
        )
        self.db.execute("insert into counters values (?, ?)", (n, n))
        self.db.execute("commit")
        self.db.execute("pragma wal_checkpoint(truncate)")

    def commit(self, operations: list[dict[str, Any]]) -> None:
        seen, checked = set[tuple[bool, str]](), []
        for o in operations:
            target = ("record" in o["type"], o["id"])
            assert target not in seen
            assert isinstance(o["id"], str)
            seen.add(target)
            place = o["payload"]
            checked.append((o["type"], o["id"], o.get("expectedRevision"), place["flowName"], place["stageName"]))
        texts = [json.dumps(o["payload"]["data"], separators=(",", ":"), allow_nan=False) for o in operations]
        now, run = time.time_ns() // 1_000_000, self.db.execute
        run("begin immediate")
        try:
            revision, change = run("select revision, change from counters").fetchone()
            for (kind, name, expected, flow, stage), text in zip(checked, texts, strict=True):
                if kind == "append_record":
                    run("insert into records values (?, ?, ?, ?, ?, null)", (name, flow, stage, text, now))
                    continue
                revision, change, created = revision + 1, change + 1, now
                if kind == "create_artifact":
                    run("insert into artifacts values (?, ?, ?, ?, ?, ?, ?, null)", (name, flow, stage, revision, text, now, now))
                else:
                    head = run("select revision, flow_name, stage_name, created_at from artifacts where artifact_id = ?", (name,))
                    *found, created = head.fetchone()
                    assert tuple(found) == (expected, flow, stage)
                    run(
                        "update artifacts set revision = ?, data = ?, updated_at = ? where artifact_id = ?",
                        (revision, text, now, name),
                    )
                op = "created" if kind == "create_artifact" else "replaced"
                run(
                    "insert into artifact_revisions values (?, ?, ?, ?, ?, ?, ?, ?, ?, null)",
                    (change, name, revision, flow, stage, op, text, created, now),
                )
            run("update counters set revision = ?, change = ?", (revision, change))
        except BaseException:
            run("rollback")
            raise
        run("commit")
        for text in texts:
            json.loads(text)

    def _one(self, sql: str, *params: Any) -> Any:
        row = self.db.execute(sql, params).fetchone()
        return (*row[:3], json.loads(row[3]), *row[4:])

    def by_id(self, name: str) -> Any:
        return self._one("select artifact_id, flow_name, stage_name, data, revision from artifacts where artifact_id = ?", name)

    def by_place(self, flow: str, stage: str) -> Any:
        sql = "select artifact_id, flow_name, stage_name, data, revision from artifacts where flow_name = ? and stage_name = ?"
        return self._one(sql, flow, stage)

    def latest(self, flow: str, stage: str) -> Any:
        sql = (
            "select record_id, flow_name, stage_name, data, created_at from records where flow_name = ? and stage_name = ? "
            "order by created_at desc, record_id desc limit 1"
        )
        return self._one(sql, flow, stage)

    def page(self, flow: str | None, cursor: Any) -> tuple[list[Any], Any]:
        terms = [*(["flow_name = ?"] if flow else []), *(["(created_at, artifact_id) < (?, ?)"] if cursor else [])]
        where = f"where {' and '.join(terms)} " if terms else ""
        sql = (
            f"select artifact_id, flow_name, stage_name, data, created_at from artifacts {where}"
            "order by created_at desc, artifact_id desc limit 51"
        )
        rows = self.db.execute(sql, (*([flow] if flow else []), *(cursor or []))).fetchall()
        data = [(*row[:3], json.loads(row[3]), row[4]) for row in rows[:50]]
        return data, (data[-1][4], data[-1][0]) if len(rows) > 50 else None

    def ask(self, what: str) -> list[Any]:
        return self.db.execute(self.SQL[what]).fetchall()


def work(o: argparse.Namespace, make: Callable[[Any, int], Peer]) -> Iterator[None]:
    peer, n, chance = make(o.folder, o.artifacts), o.artifacts, random.Random(7)
    os.sync()  # else the commits below pay for what filling the store left to be written
    new, revision = n, n  # the number of the next artifact, and the store's counter: both engines give the same revisions

    def timed(name: str, calls: int, call: Callable[[], object]) -> None:
        call()
        took = []
        for _ in range(calls):
            started = time.perf_counter()
            call()
            took.append(time.perf_counter() - started)
        o.figures[name] = statistics.median(took) * 1e3

    def some() -> tuple[int, tuple[str, str, str, str]]:
        i = chance.randrange(n)
        return i, artifact(i)

    untouched = iter(chance.sample(range(n), k=min(n, 5000)))

    def replaced(count: int) -> list[dict[str, Any]]:
        nonlocal revision
        chosen = [next(untouched) for _ in range(count)]
        revision += count
        return [operation("replace_artifact", artifact(i), revision=i + 1) for i in chosen]

    def created(count: int) -> list[dict[str, Any]]:
        nonlocal new, revision
        made = [operation("create_artifact", artifact(i)) for i in range(new, new + count)]
        new, revision = new + count, revision + count
        return made

    def appended(count: int) -> list[dict[str, Any]]:
        nonlocal new
        made = [artifact(i) for i in range(new, new + count)]
        new += count
        return [operation("append_record", (f"n{name}", *rest)) for name, *rest in made]

    cursor: Any = None

    def next_page() -> object:
        nonlocal cursor
        data, cursor = peer.page(None, cursor)
        assert len(data) == 50
        return data

    yield
    timed("commit of 1: create", CALLS["commit of 1"], lambda: peer.commit(created(1)))
    timed("commit of 1: replace", CALLS["commit of 1"], lambda: peer.commit(replaced(1)))
    timed("commit of 1: append a record", CALLS["commit of 1"], lambda: peer.commit(appended(1)))
    timed(
        "commit of 100: 40 create, 40 replace, 20 append",
        CALLS["commit of 100"],
        lambda: peer.commit(_mixed(created, replaced, appended)),
    )
    timed("read by id", CALLS["point read"], lambda: peer.by_id(some()[1][0]))
    timed("read by location", CALLS["point read"], lambda: peer.by_place(*some()[1][1:3]))
    timed(
        "latest record of a stage",
        CALLS["point read"],
        lambda: peer.latest(f"flow{(i := some()[0]) % 50}", f"stage{i % (n // KEYS)}"),
    )
    timed("page of 50", CALLS["page"], next_page)
    timed("page of 50 of one flow", CALLS["page"], lambda: peer.page(f"flow{some()[0] % 50}", None))
    timed("filter by two JSON fields", CALLS["scan"], lambda: peer.ask("filter"))
    timed("group by a JSON field", CALLS["scan"], lambda: peer.ask("group"))
    timed("latest per key, all keys", CALLS["scan"], lambda: peer.ask("latest per key"))
    yield


def _mixed(*makers: Callable[[int], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [made for maker, count in zip(makers, (40, 40, 20), strict=True) for made in maker(count)]


ENGINES: dict[str, rounds.Engine] = {
    "loomnb": lambda o: work(o, Ours),
    "SQLite": lambda o: work(o, Sqlite),
}
LIMITS = {
    "commit of 100: 40 create, 40 replace, 20 append": 10.0,
    "filter by two JSON fields": 1.0,
    "latest per key, all keys": 1.0,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--artifacts", type=int, default=1_000_000)
    parser.set_defaults(rounds=3)
    figures = rounds.main(__file__, ENGINES, parser)
    if figures is None:
        return 0
    names = [name for name in next(iter(figures.values()))[0] if name not in ("wall", "cpu", "bytes", "peak")]
    row = {engine: {name: rounds.median(rows, name) for name in rows[0]} for engine, rows in figures.items()}
    ours, theirs = row.get("loomnb"), row.get("SQLite")
    print("\n| ms | loomnb | SQLite | loomnb / SQLite |\n|---|---|---|---|")
    for name in names:
        both = f"{ours[name] / theirs[name]:.2f}" if ours and theirs else "-"
        print(f"| {name} | {f'{ours[name]:.2f}' if ours else '-'} | {f'{theirs[name]:.3f}' if theirs else '-'} | {both} |")
    for engine, r in row.items():
        print(f"{engine}: {r['bytes'] / 1e6:.0f} MB in files, peak memory {r['peak']:.0f} MB")
    print("\nTargets, as a ratio to SQLite:")
    met = [
        rounds.verdict(name, ours[name] / theirs[name] if ours and theirs else None, limit, at_least=False)
        for name, limit in LIMITS.items()
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
