"""State, result and args: written by the setters, seen at once, committed with the move or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import loomnb as loom
from tests.helpers import at_rest

Body = Callable[[Any, Any, Any], None]


def run_of(session: loom.Loom, *bodies: Body, args: Any = None, **options: Any) -> loom.Run:
    """A run of automatic moves with these bodies: (workflow, state, ctx)."""
    places = ["start", *(f"p{i}" for i in range(1, len(bodies))), "end"]
    methods: dict[str, Any] = {}
    for i, body in enumerate(bodies):

        def method(self: Any, state: Any, ctx: Any, body: Body = body) -> None:
            body(self, state, ctx)

        methods[f"m{i}"] = loom.transition(from_=places[i], to=places[i + 1])(method)
    flow = loom.workflow(name="state_test", **options)(type("Flow", (loom.BaseWorkflow,), methods))
    run = session.start(flow, args)
    at_rest(run)
    return run


def ok(run: loom.Run) -> loom.Run:
    assert run.status == "completed", run.traceback
    return run


@pytest.mark.case("workflows:B01")
def test_assigning_merges_shallowly_and_adds_up(session: loom.Loom) -> None:
    def second(self: Any, *_: Any) -> None:
        self.assign_state({"b": {"x": 9}})
        self.assign_state({"c": 3})

    run = ok(run_of(session, lambda self, *_: self.assign_state({"a": 1, "b": {"x": 1, "y": 2}}), second))

    assert run.state == {"a": 1, "b": {"x": 9}, "c": 3}


def test_setting_replaces_the_whole_state(session: loom.Loom) -> None:
    run = ok(run_of(session, lambda self, *_: self.assign_state(a=1), lambda self, *_: self.set_state({"b": 2})))

    assert run.state == {"b": 2}


def test_keys_may_be_keywords(session: loom.Loom) -> None:
    assert ok(run_of(session, lambda self, *_: self.assign_state({"a": 1}, b=2))).state == {"a": 1, "b": 2}


@pytest.mark.case("workflows:B02")
def test_what_was_assigned_is_seen_at_once(session: loom.Loom) -> None:
    seen: list[Any] = []

    def body(self: Any, state: Any, _: Any) -> None:
        self.assign_state(x=1)
        seen.append(state["x"])
        self.set_state({"y": 2})
        seen.append(dict(state))

    ok(run_of(session, body))

    assert seen == [1, {"y": 2}]


@pytest.mark.case("workflows:B03")
def test_what_a_failing_body_wrote_is_dropped(session: loom.Loom) -> None:
    def second(self: Any, *_: Any) -> None:
        self.assign_state(a=5, more=1)
        self.set_result({"a": 5})
        raise RuntimeError("no")

    def first(self: Any, *_: Any) -> None:
        self.assign_state(a=1)
        self.set_result({"a": 1})

    run = run_of(session, first, second)

    assert run.status == "failed"
    assert (run.state, run.result) == ({"a": 1}, {"a": 1})


@pytest.mark.case("workflows:B05")
def test_a_result_is_set_then_added_to(session: loom.Loom) -> None:
    def body(self: Any, *_: Any) -> None:
        self.set_result({"s": 1})
        self.assign_result(extra=2)

    assert ok(run_of(session, body)).result == {"s": 1, "extra": 2}


@pytest.mark.parametrize("value", [None, 0, "", False, [1], {"a": None}, 1.5], ids=repr)
def test_a_result_may_be_any_json_value(session: loom.Loom, value: Any) -> None:
    assert ok(run_of(session, lambda self, *_: self.set_result(value))).result == value


def test_a_result_survives_waits(session: loom.Loom) -> None:
    @loom.workflow
    class Long(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def first(self) -> None:
            self.assign_result(early=1)

        @loom.transition(from_="middle", to="end", wait=True)
        def last(self) -> None:
            self.assign_result(late=2)

    run = session.start(Long)
    at_rest(run)
    assert run.result == {"early": 1}
    run.answer("last")
    at_rest(run)

    assert run.result == {"early": 1, "late": 2}


@pytest.mark.case("workflows:B07", "workflows:D09")
def test_an_answer_to_a_finished_run_is_refused_and_its_result_kept(session: loom.Loom) -> None:
    run = ok(run_of(session, lambda self, *_: self.set_result({"a": 1})))

    with pytest.raises(loom.AnswerRefused):
        run.answer("m0", {"data": 1})

    assert (run.status, run.result) == ("completed", {"a": 1})


WRITES: dict[str, Callable[[Any], Any]] = {
    "a key": lambda s: s.__setitem__("new", 1),
    "a nested list": lambda s: s["items"].append(2),
    "a nested dict": lambda s: s["deep"]["a"].update(b=2),
    "deleting": lambda s: s.pop("items"),
    "clearing": lambda s: s.clear(),
}


@pytest.mark.case("workflows:B08")
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writing_into_the_state_argument_raises_and_names_the_setter(session: loom.Loom, write: Callable[[Any], Any]) -> None:
    run = run_of(
        session, lambda self, *_: self.set_state({"items": [1], "deep": {"a": {"b": 1}}}), lambda _, state, __: write(state)
    )

    assert (run.status, run.error_code) == ("failed", "READ_ONLY")
    assert "assign_state" in (run.traceback or "")
    assert run.state == {"items": [1], "deep": {"a": {"b": 1}}}


def test_the_state_is_a_plain_mapping_to_everybody_else(session: loom.Loom) -> None:
    seen: list[Any] = []

    def second(_: Any, state: Any, __: Any) -> None:
        seen.extend([isinstance(state, dict), isinstance(state["items"], list), json.dumps(state), {**state}, [*state["items"]]])

    ok(run_of(session, lambda self, *_: self.set_state({"items": [1]}), second))

    assert seen == [True, True, '{"items": [1]}', {"items": [1]}, [1]]


def test_what_was_assigned_is_copied(session: loom.Loom) -> None:
    def body(self: Any, *_: Any) -> None:
        mine = [1]
        self.assign_state(items=mine)
        self.set_result(mine)
        mine.append(2)

    run = ok(run_of(session, body))

    assert (run.state, run.result) == ({"items": [1]}, [1])


@pytest.mark.parametrize("value", [(1,), {1}, float("nan"), object(), date(2026, 1, 1), {1: 2}], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("setter", ["assign_state", "assign_result"])
def test_what_is_no_json_fails_the_move_that_wrote_it(session: loom.Loom, setter: str, value: Any) -> None:
    run = run_of(session, lambda self, *_: getattr(self, setter)(bad=value))

    assert (run.status, run.error_code) == ("failed", "INVALID_JSON")


@pytest.mark.parametrize("value", [None, 0, False, [], {}, "", "later", ()], ids=repr)
def test_only_none_may_be_returned(session: loom.Loom, value: Any) -> None:
    run = run_of(session, lambda *_: None)
    assert run.status == "completed"

    @loom.workflow
    class Returning(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> Any:
            self.assign_state(a=1)
            return value

    run = session.start(Returning)
    at_rest(run)

    if value is None:
        assert run.status == "completed"
    else:
        assert (run.status, run.state) == ("failed", {})
        assert "assign_state" in (run.traceback or run.advice or "") or "set_result" in str(run.record.view.failure)


def test_a_helper_may_write_too(session: loom.Loom) -> None:
    @loom.workflow
    class Helped(loom.BaseWorkflow):
        @loom.transition(to="end")
        async def go(self) -> None:
            self.plain()
            await self.later()
            await asyncio.gather(self.later_still(1), self.later_still(2))

        def plain(self) -> None:
            self.assign_state(plain=True)

        async def later(self) -> None:
            self.assign_state(later=True)

        async def later_still(self, n: int) -> None:
            self.assign_state({f"n{n}": n})

    run = session.start(Helped)
    at_rest(run)

    assert run.state == {"plain": True, "later": True, "n1": 1, "n2": 2}


@pytest.mark.parametrize("setter", ["assign_state", "set_state", "assign_result", "set_result"])
def test_a_setter_outside_a_move_is_refused(session: loom.Loom, setter: str) -> None:
    @loom.workflow
    class Outside(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None: ...

    with pytest.raises(loom.Refused, match="inside a transition"):
        getattr(Outside(), setter)({"a": 1})


@pytest.mark.case("workflows:B20")
def test_a_message_in_state_reaches_the_documents_of_both_steps(session: loom.Loom) -> None:
    def show(self: Any, state: Any, _: Any) -> None:
        self.document_store.save(loom.MessageDocument(role="assistant", text=state["message"]))

    def first(self: Any, state: Any, ctx: Any) -> None:
        self.assign_state(message="hi")
        show(self, state, ctx)

    run = ok(run_of(session, first, show))

    assert [d.content["text"] for d in run.documents] == ["hi", "hi"]
    assert not run.has_error


# -- the state's schema -------------------------------------------------------------------------------


class Counted(BaseModel):
    a: int = 7
    b: str


@pytest.mark.case("workflows:B12")
def test_what_the_state_schema_parses_to_is_stored(session: loom.Loom) -> None:
    assert ok(run_of(session, lambda self, *_: self.assign_state(b="x"), state_schema=Counted)).state == {"a": 7, "b": "x"}


def test_a_state_that_breaks_its_schema_fails_the_move(session: loom.Loom) -> None:
    run = run_of(
        session, lambda self, *_: self.assign_state(b="x"), lambda self, *_: self.assign_state(a="many"), state_schema=Counted
    )

    assert (run.status, run.state) == ("failed", {"a": 7, "b": "x"})
    assert "state_test" in (run.error or "")


# -- args ---------------------------------------------------------------------------------------------


class Args(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    when: date = date(2026, 1, 1)
    tags: list[str] = []


def count(session: loom.Loom) -> int:
    (found,) = session.sql("select count(*) from runs").fetchall()
    return int(found[0])


@pytest.mark.case("workflows:B15")
@pytest.mark.parametrize("args", [{"name": 3}, {"name": "x", "more": 1}, "x", [1]], ids=repr)
def test_bad_args_raise_to_the_caller_and_start_nothing(session: loom.Loom, args: Any) -> None:
    with pytest.raises(loom.ArgsInvalid) as caught:
        run_of(session, lambda *_: None, args=args, schema=Args)

    assert caught.value.fields
    assert count(session) == 0


@pytest.mark.case("workflows:B16")
def test_no_args_count_as_empty_ones(session: loom.Loom) -> None:
    with pytest.raises(loom.ArgsInvalid) as caught:
        run_of(session, lambda *_: None, schema=Args)

    assert set(caught.value.fields) == {"name"}


def test_args_without_a_schema_are_plain_json(session: loom.Loom) -> None:
    seen: list[Any] = []
    run = ok(run_of(session, lambda _, __, ctx: seen.append(ctx.args), args={"a": [1]}))

    assert seen == [{"a": [1]}]
    assert run.args == {"a": [1]}


def test_args_that_are_no_json_start_nothing(session: loom.Loom) -> None:
    with pytest.raises(loom.NotJson):
        run_of(session, lambda *_: None, args={"a": object()})

    assert count(session) == 0


def test_args_are_what_the_schema_parses_to(session: loom.Loom) -> None:
    seen: list[Any] = []
    run = ok(run_of(session, lambda _, __, ctx: seen.append(ctx.args), args={"name": "x", "when": "2026-05-06"}, schema=Args))

    assert isinstance(seen[0], Args)
    assert seen[0].when == date(2026, 5, 6)
    assert run.args == {"name": "x", "when": "2026-05-06", "tags": []}


def test_args_equal_the_model_they_were_parsed_to(session: loom.Loom) -> None:
    seen: list[Any] = []
    ok(run_of(session, lambda _, __, ctx: seen.append(ctx.args == Args(name="x")), args={"name": "x"}, schema=Args))

    assert seen == [True]


def test_a_model_may_be_given_as_args(session: loom.Loom) -> None:
    assert ok(run_of(session, lambda *_: None, args=Args(name="x"), schema=Args)).args["name"] == "x"


def test_args_are_copied_at_the_call(session: loom.Loom) -> None:
    mine = {"a": [1]}
    run = run_of(session, lambda *_: None, args=mine)
    mine["a"].append(2)

    assert run.args == {"a": [1]}


@pytest.mark.case("workflows:B18")
@pytest.mark.parametrize("schema", [None, Args, dict[str, Any]], ids=["no schema", "model", "dict"])
def test_writing_into_args_raises(session: loom.Loom, schema: Any) -> None:
    caught: list[Exception] = []

    def body(_: Any, __: Any, ctx: Any) -> None:
        try:
            if schema is Args:
                ctx.args.name = "y"
            else:
                ctx.args["name"] = "y"
        except (TypeError, ValidationError) as exc:
            caught.append(exc)

    ok(run_of(session, body, args={"name": "x"}, schema=schema))

    assert len(caught) == 1


@dataclass
class AsDataclass:
    n: int


def test_args_may_be_a_dataclass(session: loom.Loom) -> None:
    seen: list[Any] = []
    run = ok(run_of(session, lambda _, __, ctx: seen.append(ctx.args), args={"n": "3"}, schema=AsDataclass))

    assert (seen, run.args) == ([AsDataclass(3)], {"n": 3})


def test_a_schema_on_the_start_transition_judges_args(session: loom.Loom) -> None:
    @loom.workflow
    class Judged(loom.BaseWorkflow):
        @loom.transition(to="end", schema=Args)
        def go(self, state: Any, ctx: Any) -> None:
            self.set_result(ctx.args.name)

    with pytest.raises(loom.ArgsInvalid):
        session.start(Judged, {})
    run = session.start(Judged, {"name": "x"})
    at_rest(run)

    assert run.result == "x"


# -- the context --------------------------------------------------------------------------------------


@pytest.mark.case("workflows:B19")
def test_the_place_a_move_sees_is_the_one_before_it(session: loom.Loom) -> None:
    seen: list[str] = []

    def look(_: Any, __: Any, ctx: Any) -> None:
        seen.append(ctx.execution.place)

    ok(run_of(session, look, look))

    assert seen == ["start", "p1"]


def test_the_context_says_whose_run_it_is(session: loom.Loom) -> None:
    seen: list[Any] = []
    run = ok(run_of(session, lambda _, __, ctx: seen.append(ctx)))
    (ctx,) = seen

    assert (ctx.workflow_id, ctx.user_id) == (run.id, "local")
    assert ctx.workspace_id == session.sql("select id from store").fetchall()[0][0]


def test_every_move_has_an_idempotency_key_of_its_own(session: loom.Loom) -> None:
    keys: list[str] = []

    def look(_: Any, __: Any, ctx: Any) -> None:
        keys.append(ctx.idempotency_key)

    ok(run_of(session, look, look))
    ok(run_of(session, look, look))

    assert len(set(keys)) == 4
    assert all(keys)


def test_args_of_a_model_with_aliases_are_read_again_after_a_restart(tmp_path: Path) -> None:
    """What is stored must be what the schema itself reads."""

    class Args(BaseModel):
        start_at: int = Field(alias="startAt")

    @loom.workflow(name="aliased", schema=Args)
    class AliasedWorkflow(loom.BaseWorkflow[Args]):
        @loom.transition(to="asked")
        def begin(self, state: object) -> None: ...

        @loom.transition(from_="asked", to="end", wait=True)
        def go(self, state: object, given: object, ctx: loom.RunContext[Args]) -> None:
            self.set_result({"at": ctx.args.start_at})

    path = tmp_path / "aliases.duckdb"
    run = loom.open(path).start(AliasedWorkflow, {"startAt": 7})
    at_rest(run)
    loom.close()

    again = loom.open(path).run(run.id)
    again.answer("go", None)

    assert again.wait() == {"at": 7}
    loom.close()
