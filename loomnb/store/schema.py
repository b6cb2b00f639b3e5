# ruff: noqa: S608  # the only text put into these statements is the list of kinds below
"""The tables and views of the store file, as numbered migrations. Their names are API: people query them.

Of runs one table is written: `journal`, and only by INSERT. Everything else about them is a view over it, so there is no second
truth that a crash could leave behind. Five columns, because a DuckDB INSERT pays for every column (1.08 ms for five, 1.25 ms for
nine, measured); what a view needs stands in `body`, a JSON object.

Artifacts and records are tables, changed in the transaction that journals the change. A view over the journal would have to look
through all of it for each read, and a map of the heads in memory costs hundreds of MB for a million artifacts; the tables answer
by key in about a millisecond, and the file carries their indexes.

What an artifact holds stands in its history only, which is appended to and never changed; `artifact_heads`, which is, has a
short row for each, and `artifacts` is the view that joins them. With the data in the changed rows, a checkpoint wrote all of a
table anew that was changed here and there: at a million artifacts it stopped the writer, and so every run, for 2 to 4 s. Now it
takes 0.1 s, a commit of 20 takes 7 ms instead of 35, and the data is in the file once. A filter by a JSON field pays
for the join with 490 ms instead of 240 (measured).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loomnb.errors import StoreDamaged
from loomnb.store.agent_views import AGENT_VIEWS, MEMORY_VIEWS, THREADS_VIEW

__all__ = ["MIGRATIONS", "STATUS_KINDS", "migrate"]

STATUS_KINDS = (
    "run.started",
    "run.answered",
    "run.moved",
    "run.broke",
    "run.retried",
    "run.canceled",
    "run.interrupted",
    "run.resumed",
    "run.rested",
)
"""Kinds of journal rows that say where a run stands afterwards: each carries `status` and `place`."""

_STATUS_LIST = ", ".join(f"'{kind}'" for kind in STATUS_KINDS)


def _1_journal(execute: Callable[[str], object]) -> None:
    execute("""
        create table journal(
            seq bigint not null, ts timestamptz not null, run_id varchar not null, kind varchar not null, body json not null
        )""")
    execute("create table store(id varchar not null, created_at timestamptz not null)")
    execute("insert into store select uuid()::varchar, now()")
    for name, sql in _VIEWS.items():
        execute(f"create view {name} as {sql}")
    for name, text in _COMMENTS.items():
        kind = "table" if name in ("journal", "store") else "view"
        execute(f"comment on {kind} {name} is '{text}'")


_VIEWS = {
    # `at_rest`: the last row that says where the run stands. One pass over the journal, then joins by (run, seq).
    "runs": f"""
        with last as (
            select run_id, arg_max(body, seq) as body, max(seq) as seq, max(ts) as ts,
                   count(*) filter (where kind = 'run.moved') as moves,
                   arg_max((body->'result'), seq) filter (where (body->'result') is not null) as result
            from journal where kind in ({_STATUS_LIST}) group by run_id
        ), first as (
            select run_id, ts, body, row_number() over (order by seq) as number from journal where kind = 'run.started'
        )
        select run_id, first.number, first.body->>'workflow' as workflow, first.body->>'title' as title,
               last.body->>'status' as status, last.body->>'waiting_for' as waiting_for, last.body->>'place' as place, last.moves,
               coalesce((last.body->>'has_error')::boolean, false) as has_error,
               last.body->>'$.error.code' as error_code, last.body->>'$.error.message' as error_message,
               first.body->'args' as args, last.result, first.body->>'key' as key,
               first.body->>'parent_id' as parent_id,
               coalesce((first.body->'labels')::varchar[], []) as labels, first.body->>'notebook' as notebook,
               first.ts as started_at, last.ts as updated_at, last.seq
        from first join last using (run_id) order by first.number""",
    "moves": """
        select run_id, (body->>'move')::integer as move, body->>'name' as name, body->>'from' as from_place,
               body->>'place' as place, body->>'status' as status,
               case when kind = 'run.broke' then 'failed' else 'done' end as outcome,
               coalesce((body->>'attempt')::integer, 0) as attempt, (body->>'ms')::double as ms,
               body->>'$.error.message' as error_message, body->'changes' as changes, body->'result' as result, ts, seq
        from journal where kind in ('run.moved', 'run.broke') order by seq""",
    "documents": """
        select run_id, body->>'id' as document_id, (body->>'index')::integer as index, body->>'name' as name,
               body->>'key' as key, body->>'title' as title, body->'content' as content, body->'meta' as meta,
               body->'error' as error, coalesce((body->'tags')::varchar[], []) as tags,
               coalesce((body->>'internal')::boolean, false) as internal, body->>'transition' as transition,
               body->>'place' as place,
               seq <> max(seq) over (partition by run_id, body->>'index') as is_invalidated, ts, seq
        from journal where kind = 'document.saved' order by seq""",
    "answers": """
        select run_id, body->>'ask' as ask_id, body->>'name' as name, body->'payload' as payload,
               body->>'source' as source, ts, seq
        from journal where kind = 'run.answered' order by seq""",
    "asks": f"""
        with rest as (select run_id, max(seq) as seq from journal where kind in ({_STATUS_LIST}) group by run_id)
        select j.run_id, j.body->>'id' as ask_id, j.body->>'name' as name, j.body->>'kind' as kind,
               j.body->>'label' as label, j.body->>'place' as place,
               case when a.seq is not null then 'answered' when j.seq > rest.seq then 'open' else 'closed' end as status,
               a.payload as answer, j.body as request, j.ts as opened_at, a.ts as answered_at, j.seq
        from journal j join rest on rest.run_id = j.run_id
        left join answers a on a.run_id = j.run_id and a.ask_id = (j.body->>'id')
        where j.kind = 'ask.opened' order by j.seq""",
    "logs": """
        select run_id, (body->>'move')::integer as move, body->>'text' as text, ts, seq
        from journal where kind = 'run.logged' order by seq""",
    "events": """
        select seq, ts, run_id, kind, body->>'name' as name, body->>'place' as place, body->>'status' as status, body
        from journal order by seq""",
    # Replays the changes of each run with json_set; `add` puts items at a list's end. Costs what the run's history costs.
    "states": """
        with ops as (
            select run_id, seq, generate_subscripts(ops, 1) as i, unnest(ops) as op
            from (
                select run_id, seq, (body->'changes')::json[] as ops from journal
                where kind in ('run.moved', 'run.started') and (body->'changes') is not null
            )
        ), steps as (
            select run_id, seq, i, 0 as j, op->>0 as what, op->>1 as path, op->2 as value from ops where (op->>0) <> 'add'
            union all
            select run_id, seq, i, generate_subscripts((op->2)::json[], 1) as j, 'add' as what, (op->>1) || '[#]' as path,
                   unnest((op->2)::json[]) as value
            from ops where (op->>0) = 'add'
        ), folded as (
            select run_id, list({'what': what, 'path': path, 'value': value} order by seq, i, j) as steps
            from steps group by run_id
        )
        select run_id, list_reduce(
            list_prepend({'what': 'set', 'path': '$', 'value': '{}'::json}, steps),
            lambda acc, step: {'what': 'set', 'path': '$', 'value': case
                when step.what = 'unset' then json_remove(acc.value, step.path)
                when step.what = 'add' then json_insert(acc.value, step.path, step.value)
                when step.path = '$' then step.value
                else json_set(acc.value, step.path, step.value) end}
        ).value as state
        from (select run_id from journal where kind = 'run.started') left join folded using (run_id)""",
}

_COMMENTS = {
    "journal": "Everything that happened, in order; only ever appended to. The views read it.",
    "store": "The id of this store and when it was made.",
    "runs": "One row a run: what it is, where it stands, its result or error.",
    "moves": "One row a move that was committed or failed; changes are what it did to the state.",
    "documents": "Every document ever saved; is_invalidated marks those that a later save replaced.",
    "asks": "Every question asked: open, answered, or closed because the run moved on.",
    "answers": "Every answer given, and from where: panel, code, or an answers file.",
    "logs": "What moves printed and logged.",
    "events": "The journal with its most used fields as columns.",
    "states": "The current state of each run, replayed from its moves.",
}


def _2_workspaces(execute: Callable[[str], object]) -> None:
    execute(f"create or replace view runs as {_RUNS_2}")
    execute(f"comment on view runs is '{_COMMENTS['runs']}'")
    execute(f"create view workspaces as {_WORKSPACES}")
    execute("comment on view workspaces is 'One row a workspace: the runs of an app and user.'")


_RUNS_2 = f"""
    select r.*, coalesce(s.body->>'user', 'local') as user_id, coalesce(s.body->>'app', 'notebook') as app_name,
           coalesce(s.body->>'workspace', (select id from store)) as workspace_id,
           row_number() over (
               partition by coalesce(s.body->>'workspace', ''), coalesce(s.body->>'user', 'local') order by r.number
           ) as run_number
    from ({_VIEWS["runs"]}) r join journal s on s.run_id = r.run_id and s.kind = 'run.started' order by r.number"""

_WORKSPACES = """
    select workspace_id, app_name, user_id, count(*) as runs, min(started_at) as created_at, max(updated_at) as updated_at
    from runs group by workspace_id, app_name, user_id order by created_at"""


def _3_storage(execute: Callable[[str], object]) -> None:
    for sql in _STORAGE:
        execute(sql)
    for thing, columns in _STORAGE_COMMENTS.items():
        kind, _, name = thing.partition(" ")
        for column, text in columns.items():
            execute(f"comment on column {name}.{column} is '{text}'" if column else f"comment on {kind} {name} is '{text}'")


# `place` is flow and stage in one column, because DuckDB answers an equality by index for single-column indexes only: at a
# million artifacts 1 ms, against 20 ms with `unique(flow_name, stage_name)`, and 53 ms with an index on an expression (measured).
# A tab stands between them: no name may hold one, so no two pairs make the same place.
_STORAGE = (
    """create table artifact_heads(
        artifact_id varchar primary key, flow_name varchar not null, stage_name varchar not null, revision bigint not null,
        change bigint not null, created_at timestamptz not null, updated_at timestamptz not null, run_id varchar,
        place varchar not null unique
    )""",
    # No index: `change` counts up, so that whole row groups are passed over for it, and by artifact only people read it: looking
    # through a million of them takes 16 ms.
    """create table artifact_revisions(
        change bigint not null, artifact_id varchar not null, revision bigint not null, flow_name varchar not null,
        stage_name varchar not null, op varchar not null, data json, created_at timestamptz not null,
        committed_at timestamptz not null, run_id varchar
    )""",
    """create table records(
        record_id varchar primary key, flow_name varchar not null, stage_name varchar not null, data json not null,
        created_at timestamptz not null, run_id varchar, place varchar not null
    )""",
    "create index records_place on records(place)",
    """create view artifacts as
        select h.artifact_id, h.flow_name, h.stage_name, h.revision, r.data, h.created_at, h.updated_at, h.run_id
        from artifact_heads h join artifact_revisions r on r.change = h.change""",
    """create view artifact_history as
        select artifact_id, revision, flow_name, stage_name, op, data, created_at, valid_from, valid_to,
               op <> 'removed' and valid_to is null as is_current, run_id, change
        from (
            select *, committed_at as valid_from,
                   lead(committed_at) over (partition by artifact_id order by change) as valid_to
            from artifact_revisions
        ) order by change""",
    """create view latest_records as
        select flow_name, stage_name, unnest(last)
        from (
            select flow_name, stage_name, arg_max(
                struct_pack(record_id := record_id, data := data, created_at := created_at, run_id := run_id),
                row(created_at, record_id)
            ) as last
            from records group by flow_name, stage_name
        )""",
)

_WHO = {
    "flow_name": "The flow it belongs to.",
    "stage_name": "The stage of the flow it belongs to.",
    "data": "Its content: data->>''$.title'' is a field of it.",
    "run_id": "The run that wrote it; NULL when it was written outside of a run.",
}
_STORAGE_COMMENTS: dict[str, dict[str, str]] = {
    "view artifacts": {
        "": "The current artifact of each stage of a flow, with its data: at most one row a flow and stage.",
        "artifact_id": "Its id.",
        "revision": "Counts up in the whole store with each artifact that is written; never used twice.",
        "created_at": "When it was made, to the millisecond; replacing it does not change this.",
        "updated_at": "When this revision was committed.",
        **_WHO,
    },
    "table artifact_heads": {
        "": "Where each artifact stands; its data is in artifact_revisions. The view artifacts has both.",
        **{name: text for name, text in _WHO.items() if name != "data"},
        "artifact_id": "Its id.",
        "revision": "Counts up in the whole store with each artifact that is written; never used twice.",
        "created_at": "When it was made, to the millisecond; replacing it does not change this.",
        "updated_at": "When this revision was committed.",
        "change": "The row of artifact_revisions that made this revision.",
        "place": "flow_name and stage_name with a tab between them: what its index is of.",
    },
    "table artifact_revisions": {
        "": "Every revision of every artifact, and every removal; only ever appended to.",
        **_WHO,
        "change": "Counts up with each of them.",
        "artifact_id": "The artifact.",
        "revision": "Its revision; of a removal the one that was removed.",
        "op": "created, replaced or removed.",
        "created_at": "When the artifact was made.",
        "committed_at": "When this happened.",
    },
    "table records": {
        "": "Every record that was appended and not removed.",
        **_WHO,
        "record_id": "Its id.",
        "created_at": "When it was appended, to the millisecond; those of one commit share it.",
        "place": "flow_name and stage_name with a tab between them: what its index is of.",
    },
    "view artifact_history": {
        "": "Every revision of every artifact with the time it held: from valid_from until valid_to, which is NULL for the last."
    },
    "view latest_records": {"": "The latest record of each stage of a flow, by created_at and then record_id."},
}


def _4_steps(execute: Callable[[str], object]) -> None:
    # A step writes its State in its middle, and a retry may put it back: those rows carry changes too.
    writing = "kind in ('run.moved', 'run.started', 'step.recorded', 'run.retried')"
    states = _VIEWS["states"].replace("kind in ('run.moved', 'run.started')", writing)
    assert writing in states
    execute(f"create or replace view states as {states}")
    execute(f"create or replace view moves as {_MOVES_4}")
    execute(f"create view step_calls as {_STEP_CALLS}")
    for name, text in (("states", _COMMENTS["states"]), ("moves", _COMMENTS["moves"]), ("step_calls", _STEP_CALLS_COMMENT)):
        execute(f"comment on view {name} is '{text}'")


_MOVES_4 = """
    select run_id, (body->>'move')::integer as move, body->>'name' as name, body->>'from' as from_place,
           body->>'place' as place, body->>'status' as status,
           case when kind = 'run.broke' then 'failed' else 'done' end as outcome,
           coalesce((body->>'attempt')::integer, 0) as attempt, (body->>'ms')::double as ms,
           body->>'$.error.message' as error_message, body->'changes' as changes, body->'result' as result, ts, seq,
           body->>'outcome' as step_outcome
    from journal where kind in ('run.moved', 'run.broke') order by seq"""

_STEP_CALLS = """
    select run_id, move, step, (sub->>'n')::integer as number, sub->>'name' as name, sub->'result' as result,
           sub->>'$.error.code' as error_code, sub->>'$.error.message' as error_message, ts, seq
    from (
        select run_id, (body->>'move')::integer as move, body->>'name' as step, unnest((body->'subs')::json[]) as sub, ts, seq
        from journal where kind in ('step.recorded', 'run.rested') and (body->'subs') is not null
    ) order by seq, number"""

_STEP_CALLS_COMMENT = (
    "What the steps of blueprints did and read, call by call: State, Storage, project, turns of a model. Answers are in answers."
)


def _5_agents(execute: Callable[[str], object]) -> None:
    for name, (sql, text) in AGENT_VIEWS.items():
        execute(f"create view {name} as {sql}")
        execute(f"comment on view {name} is '{text}'")


def _6_memories(execute: Callable[[str], object]) -> None:
    for name, (sql, text) in MEMORY_VIEWS.items():
        execute(f"create view {name} as {sql}")
        execute(f"comment on view {name} is '{text}'")


def _7_threads(execute: Callable[[str], object]) -> None:
    sql, text = THREADS_VIEW
    execute(f"create or replace view threads as {sql}")
    execute(f"comment on view threads is '{text}'")


MIGRATIONS: Sequence[Callable[[Callable[[str], object]], None]] = (
    *(_1_journal, _2_workspaces, _3_storage),
    *(_4_steps, _5_agents, _6_memories, _7_threads),
)
"""Number n is at index n - 1. Never change one that was released: add the next."""


def migrate(connection: Any) -> bool:
    """Bring an open store up to date; each migration is committed with its own row in `migrations`. Whether there was any.

    Raises:
        StoreDamaged: a newer loomnb made the file.
    """
    connection.execute("create table if not exists migrations(number integer not null, applied_at timestamptz not null)")
    done, rows = connection.execute("select coalesce(max(number), 0), count(distinct number) from migrations").fetchone()
    if done > len(MIGRATIONS):
        raise StoreDamaged(
            f"This store has schema version {done}; this loomnb knows versions up to {len(MIGRATIONS)}.",
            advice="Upgrade loomnb (pip install -U loomnb), or open another file.",
            code="STORE_NEWER",
        )
    if rows != done:
        raise StoreDamaged(
            f"This store's list of migrations has gaps: {rows} of {done}.",
            advice="Somebody changed the table migrations. Keep a copy of the file before you try anything else.",
        )
    for number, step in enumerate(MIGRATIONS[done:], done + 1):
        connection.execute("begin transaction")
        try:
            step(connection.execute)
            connection.execute("insert into migrations values (?, now())", [number])
        except BaseException:
            connection.execute("rollback")
            raise
        connection.execute("commit")
    return bool(done < len(MIGRATIONS))
