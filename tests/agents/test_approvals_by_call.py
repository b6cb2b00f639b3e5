"""Approvals decided by the id of the call they are about: `loom.approvals()`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import loomnb as loom
from loomnb.testing import ScriptedModel


@pytest.fixture
def store(tmp_path: Path) -> Iterator[loom.Loom]:
    with loom.Loom(str(tmp_path / "a.duckdb"), headless=True) as session:
        yield session


def asked(store: loom.Loom, name: str = "mailer", call_id: str = "c1") -> loom.AgentRun:
    """A turn that waits until somebody agrees to its call."""

    @loom.agent_tool(kind="action")
    def send(to: str) -> str:
        """Sends."""
        return f"sent to {to}"

    says = ScriptedModel([[("send", {"to": "ann"}, call_id)], "Done."])
    run = loom.Agent(says, [send], name=name, store=store).run("Write to Ann.")
    asyncio.run(run.settled())
    return run


def call_of(store: loom.Loom, columns: str) -> tuple[object, ...]:
    ((*row,),) = store.sql(f"select {columns} from tool_calls").fetchall()
    return tuple(row)


def test_a_call_is_agreed_to_by_its_id(store: loom.Loom) -> None:
    run = asked(store)
    store.approvals().approve("c1", executed_by_ref="ben", decided_via="console", remember=True)
    asyncio.run(run.settled())

    told = call_of(store, "status, decided_by, decided_via, executed_by, remember")
    assert told == ("executed", "ben", "console", "ben", True)


def test_it_is_agreed_to_with_other_arguments(store: loom.Loom) -> None:
    run = asked(store)
    store.approvals().approve("c1", input={"to": "bob"})
    asyncio.run(run.settled())

    assert call_of(store, "output, decided_via, executed_by") == ('"sent to bob"', "code", "local")


def test_it_is_declined_with_a_reason(store: loom.Loom) -> None:
    run = asked(store)
    store.approvals().reject("c1", reason="Not today.", executed_by_ref="ben")
    asyncio.run(run.settled())

    assert call_of(store, "status, reason, decided_by") == ("rejected", "Not today.", "ben")


def test_a_decision_that_does_not_fit_leaves_the_question_open(store: loom.Loom) -> None:
    asked(store)
    with pytest.raises(loom.AnswerInvalid):
        store.approvals().approve("c1", input={"to": 5})

    assert [one.name for one in store.pending()] == ["send"]


@pytest.mark.parametrize("field", ["decidedBy", "executedByRef", "via"])
def test_who_decides_is_a_text(store: loom.Loom, field: str) -> None:
    run = asked(store)
    with pytest.raises(loom.AnswerInvalid) as refused:
        run.answer("send", {"approved": True, field: 5})

    assert refused.value.fields == {field: "give a text"}


@pytest.mark.parametrize("value", ["no", 1, [1], float("nan")])
def test_only_true_agrees_for_later(store: loom.Loom, value: object) -> None:
    asked(store)
    with pytest.raises(loom.AnswerInvalid) as refused:
        store.approvals().approve("c1", remember=value)  # type: ignore[arg-type]

    assert refused.value.fields == {"remember": "give True or False"}


@pytest.mark.parametrize("value", [5, [1], "x"])
def test_arguments_are_given_by_their_names(store: loom.Loom, value: object) -> None:
    asked(store)
    with pytest.raises(loom.AnswerInvalid) as refused:
        store.approvals().approve("c1", input=value)  # type: ignore[arg-type]

    assert refused.value.fields == {"input": "give the arguments by their names"}


def test_arguments_that_are_no_json_are_refused(store: loom.Loom) -> None:
    asked(store)
    with pytest.raises(loom.AnswerInvalid, match="nan"):
        store.approvals().approve("c1", input={"to": float("nan")})


@pytest.mark.parametrize("reason", [{}, [], 0, False])
def test_a_reason_is_a_text(store: loom.Loom, reason: object) -> None:
    asked(store)
    with pytest.raises(loom.AnswerInvalid) as refused:
        store.approvals().reject("c1", reason=reason)  # type: ignore[arg-type]

    assert refused.value.fields == {"reason": "give a text"}


@pytest.mark.parametrize("call_id", [5, {}, None, b"c1", "\ud800"])
def test_what_can_be_no_id_is_that_of_no_call(store: loom.Loom, call_id: object) -> None:
    asked(store)
    with pytest.raises(loom.NotFound):
        store.approvals().approve(call_id)  # type: ignore[arg-type]


def test_a_second_decision_is_told_that_there_was_one(store: loom.Loom) -> None:
    asked(store)
    store.approvals().approve("c1")
    with pytest.raises(loom.AnswerRefused, match="waits for no decision"):
        store.approvals().approve("c1")


def test_a_call_that_is_not_known_is_said_to_be(store: loom.Loom) -> None:
    with pytest.raises(loom.NotFound, match="no call 'c9'"):
        store.approvals().approve("c9")


def test_a_call_that_was_decided_waits_for_nobody(store: loom.Loom) -> None:
    run = asked(store)
    store.approvals().approve("c1")
    asyncio.run(run.settled())
    with pytest.raises(loom.AnswerRefused, match="waits for no decision: it is executed"):
        store.approvals().reject("c1")


def test_a_call_of_a_run_that_is_over_is_not_active(store: loom.Loom) -> None:
    run = asked(store)
    run.cancel()
    with pytest.raises(loom.Conflict) as refused:
        store.approvals().approve("c1")

    assert refused.value.code == "RUN_NOT_ACTIVE"


def test_calls_of_two_conversations_with_one_id_are_not_mixed_up(store: loom.Loom) -> None:
    runs = [asked(store, name) for name in ("one", "two")]
    with pytest.raises(loom.Conflict, match="2 calls with the id 'c1'") as refused:
        store.approvals().approve("c1")

    assert all(run.id in refused.value.advice for run in runs)
