"""The tables and views people query: their names and columns are API, and they say what the handles say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from tests.helpers import at_rest

COLUMNS = {
    "journal": ["seq", "ts", "run_id", "kind", "body"],
    "store": ["id", "created_at"],
    "runs": [
        *("run_id", "number", "workflow", "title", "status", "waiting_for", "place", "moves", "has_error", "error_code"),
        *("error_message", "args", "result", "key", "parent_id", "labels", "notebook", "started_at", "updated_at", "seq"),
        *("user_id", "app_name", "workspace_id", "run_number"),
    ],
    "workspaces": ["workspace_id", "app_name", "user_id", "runs", "created_at", "updated_at"],
    "moves": [
        *(
            "run_id",
            "move",
            "name",
            "from_place",
            "place",
            "status",
            "outcome",
            "attempt",
            "ms",
            "error_message",
            "changes",
            "result",
        ),
        *("ts", "seq", "step_outcome"),
    ],
    "step_calls": ["run_id", "move", "step", "number", "name", "result", "error_code", "error_message", "ts", "seq"],
    "artifacts": ["artifact_id", "flow_name", "stage_name", "revision", "data", "created_at", "updated_at", "run_id"],
    "artifact_history": [
        *("artifact_id", "revision", "flow_name", "stage_name", "op", "data", "created_at", "valid_from", "valid_to"),
        *("is_current", "run_id", "change"),
    ],
    "records": ["record_id", "flow_name", "stage_name", "data", "created_at", "run_id", "place"],
    "latest_records": ["flow_name", "stage_name", "record_id", "data", "created_at", "run_id"],
    "documents": [
        *("run_id", "document_id", "index", "name", "key", "title", "content", "meta", "error", "tags", "internal", "transition"),
        *("place", "is_invalidated", "ts", "seq"),
    ],
    "asks": [
        *("run_id", "ask_id", "name", "kind", "label", "place", "status", "answer", "request", "opened_at", "answered_at", "seq"),
    ],
    "answers": ["run_id", "ask_id", "name", "payload", "source", "ts", "seq"],
    "logs": ["run_id", "move", "text", "ts", "seq"],
    "events": ["seq", "ts", "run_id", "kind", "name", "place", "status", "body"],
    "states": ["run_id", "state"],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_table_has_these_columns(session: loom.Loom, name: str) -> None:
    assert session.sql(f"select * from {name}").columns == COLUMNS[name]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_table_is_described(session: loom.Loom, name: str) -> None:
    rows = session.sql(
        "select comment from duckdb_tables() where table_name = ? union all "
        "select comment from duckdb_views() where view_name = ?",
        [name, name],
    ).fetchall()

    assert rows
    assert rows[0][0]


class Verdict(BaseModel):
    ok: bool


def flow() -> type[loom.BaseWorkflow[Any]]:
    @loom.workflow(name="viewed", title="A viewed run")
    class Viewed(loom.BaseWorkflow):
        @loom.transition(to="review")
        def draft(self, state: Any, ctx: Any) -> None:
            self.assign_state(n=1, items=["a"], who={"name": "Ann"})
            self.set_result({"early": True})
            self.document_store.save(loom.PlainDocument(text="hi"), key="note")

        @loom.transition(from_="review", to="end", wait=True, schema=Verdict)
        def approve(self, state: Any, input: Any) -> None:  # noqa: A002
            if not input.data.ok:
                raise ValueError("not approved")
            self.assign_state(items=[*state["items"], "b"])
            self.assign_result(late=True)

    return Viewed


def one(session: loom.Loom, sql: str) -> Any:
    (found,) = session.sql(sql).fetchall()
    return found if len(found) > 1 else found[0]


def test_a_waiting_run_is_a_row(session: loom.Loom) -> None:
    run = session.start(flow(), {"x": 1}, key="k", labels=["a", "b"])
    at_rest(run)

    assert one(
        session, "select run_id, workflow, title, status, waiting_for, place, moves, has_error, key, labels from runs"
    ) == (*(run.id, "viewed", "A viewed run", "waiting", "person", "review", 1, False, "k", ["a", "b"]),)
    assert json.loads(one(session, "select args from runs")) == {"x": 1}


def test_a_completed_run_has_its_result(session: loom.Loom) -> None:
    run = session.start(flow())
    at_rest(run)
    run.answer("approve", {"ok": True})
    at_rest(run)

    assert one(session, "select status, waiting_for, place, moves from runs") == ("completed", None, "end", 2)
    assert json.loads(one(session, "select result from runs")) == run.result == {"early": True, "late": True}


def test_a_failed_run_has_its_error(session: loom.Loom) -> None:
    run = session.start(flow())
    at_rest(run)
    run.answer("approve", {"ok": False})
    at_rest(run)

    assert one(session, "select status, has_error, error_code, error_message from runs") == (
        "failed",
        True,
        "MOVE_FAILED",
        "not approved",
    )


def test_runs_are_numbered_as_they_were_started(session: loom.Loom) -> None:
    runs = [session.confirm(f"{n}?") for n in range(3)]

    assert session.sql("select run_id, number from runs order by number").fetchall() == [
        (r.id, i + 1) for i, r in enumerate(runs)
    ]


def test_every_move_is_a_row_failed_ones_too(session: loom.Loom) -> None:
    run = session.start(flow())
    at_rest(run)
    run.answer("approve", {"ok": False})
    at_rest(run)
    run.answer("approve", {"ok": True})
    at_rest(run)

    assert session.sql(
        "select move, name, from_place, place, outcome, attempt, error_message from moves order by seq"
    ).fetchall() == [
        (1, "draft", "start", "review", "done", 0, None),
        (2, "approve", "review", "review", "failed", 0, "not approved"),
        (2, "approve", "review", "end", "done", 1, None),
    ]


def test_an_ask_is_open_then_answered(session: loom.Loom) -> None:
    run = session.start(flow())
    at_rest(run)
    assert one(session, "select name, kind, place, status, answer from asks") == ("approve", "form", "review", "open", None)

    run.answer("approve", {"ok": True})
    at_rest(run)

    assert one(session, "select status, answer->>'ok' from asks") == ("answered", "true")


def test_an_ask_is_closed_when_its_run_moved_on_without_it(session: loom.Loom) -> None:
    @loom.workflow
    class TwoWays(loom.BaseWorkflow):
        @loom.transition(to="fork")
        def go(self) -> None: ...

        @loom.transition(from_="fork", to="end", wait=True)
        def left(self) -> None: ...

        @loom.transition(from_="fork", to="end", wait=True)
        def right(self) -> None: ...

    run = session.start(TwoWays)
    at_rest(run)
    run.answer("left")
    at_rest(run)

    assert session.sql("select name, status from asks order by name").fetchall() == [("left", "answered"), ("right", "closed")]


def test_an_ask_is_closed_when_its_run_was_canceled(session: loom.Loom) -> None:
    run = session.confirm("Go?")
    run.cancel()

    assert one(session, "select status from asks") == "closed"


def test_an_answer_says_where_it_came_from(session: loom.Loom) -> None:
    session.confirm("Go?").answer(True)

    assert one(session, "select name, source, payload->>'isConfirmed' from answers") == ("answer", "code", "true")


def test_the_notebook_of_a_run_is_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "work/notes.ipynb")
    with loom.open(here / "s.duckdb") as session:
        session.confirm("Go?")

        assert one(session, "select notebook from runs") == "work/notes.ipynb"


STATES = [
    {"a": 1},
    {"a": None},
    {"a": [1, [2, {"b": 3}]], "c": {"d": {"e": []}}},
    {"": 1, ".": 2, "a.": 3, ".a": 4, "a.b": 5, " ": 6},
    {"*": 1, "#": 2, "[0]": 3, "$": 4, "é": 5, "東": 6, "'": 7},
    {'"': 1, "\\": 2, 'a"b': {"c\\d": [1]}},
    {"big": 2**60, "float": 0.1, "text": "a\nb\t\"c\" \\ 'd'", "true": True, "false": False},
]


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_state_in_sql_is_the_state_of_the_run(session: loom.Loom, state: dict[str, Any]) -> None:
    """Written in two moves, so that the second one's changes are replayed onto the first one's."""

    @loom.workflow
    class Kept(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def first(self) -> None:
            self.set_state({"gone": [1], **dict.fromkeys(state, 0)})

        @loom.transition(from_="middle", to="late")
        def second(self) -> None:
            self.set_state(state)

        @loom.transition(from_="late", to="end")
        def third(self) -> None:
            self.set_state({k: [v] for k, v in state.items()})

    run = session.start(Kept)
    at_rest(run)

    assert json.loads(one(session, "select state from states")) == run.state == {k: [v] for k, v in state.items()}
    assert json.loads(one(session, "select json_object('s', state)->'s' from states")) == run.state


def test_a_list_that_grew_move_by_move_is_whole_in_sql(session: loom.Loom) -> None:
    @loom.workflow
    class Growing(loom.BaseWorkflow):
        @loom.transition(to="more")
        def begin(self) -> None:
            self.assign_state(items=[{"n": 0}])

        @loom.transition(from_="more", to="more")
        @loom.guard("is_short")
        def add(self, state: Any) -> None:
            self.assign_state(items=[*state["items"], {"n": len(state["items"])}])

        @loom.transition(from_="more", to="end")
        def stop(self) -> None: ...

        def is_short(self, state: Any) -> bool:
            return len(state["items"]) < 20

    run = session.start(Growing)
    at_rest(run)

    assert json.loads(one(session, "select state from states"))["items"] == [{"n": n} for n in range(20)]


def test_the_log_of_a_run_is_kept(session: loom.Loom) -> None:
    @loom.workflow
    class Talking(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            from loomnb.runtime import current_attempt

            current_attempt().note("hello\n")

    run = session.start(Talking)
    at_rest(run)

    assert run.log == "hello\n"
    assert one(session, "select move, text from logs") == (1, "hello\n")


def test_a_run_that_never_wrote_state_has_a_row_too(session: loom.Loom) -> None:
    @loom.workflow
    class QuickWorkflow(loom.BaseWorkflow):
        @loom.transition(to="end")
        def only(self) -> None: ...

    run = session.start(QuickWorkflow)
    at_rest(run)

    assert session.sql("select run_id, state from states").fetchall() == [(run.id, "{}")]
