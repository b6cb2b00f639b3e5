"""Turns inside of runs, and runs inside of turns: found again when they are made again, stopped with who waits for them."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import loomnb as loom
from loomnb.agents import DayRange, agent_tool
from loomnb.runtime import REGISTRY, NoFace
from loomnb.studio.agents import Agent
from loomnb.testing import Said, ScriptedModel, at_rest
from tests.agents.journaling import kernel, sql
from tests.blueprints.recovering import DONE, Gate, blueprint
from tests.helpers import until


class Held:
    """What the definitions of this file, which are made once, work with in a test."""

    session: loom.Loom
    said: list[int]
    fails: list[bool]
    gate: Gate | None


def counting(**options: Any) -> Agent:
    """An agent whose calls of the model are counted."""

    async def script(_: Any, turn: int) -> Any:
        Held.said.append(turn)
        if Held.gate is not None:
            await Held.gate()
        return f"Answer {turn}"

    return Agent(ScriptedModel(script), name="counting", store=Held.session, **options)


def begin(session: loom.Loom, *, fails: bool = False, gate: Gate | None = None) -> None:
    Held.session, Held.said, Held.fails, Held.gate = session, [], [True] if fails else [], gate


def asking() -> type[loom.BaseWorkflow[Any]]:
    """A workflow that asks an agent twice, and may fail once after that."""

    @loom.workflow(name="asks_an_agent")
    class AskingWorkflow(loom.BaseWorkflow[Any]):
        @loom.transition(from_="start", to="end")
        async def ask(self, state: Any, ctx: Any) -> None:
            one = await counting().run("One")
            two = await counting().run("Two")
            if Held.fails:
                Held.fails.clear()
                raise OSError("after both")
            self.set_result([one.text, two.text])

    return AskingWorkflow


def test_a_turn_in_a_transition_is_found_again_when_the_move_is_made_again(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        begin(session, fails=True)
        run = session.start(asking())
        at_rest(run)
        assert run.status == "failed"
        run.retry()
        at_rest(run)

        assert (run.status, run.record.view.result, Held.said) == ("completed", ["Answer 0", "Answer 0"], [0, 0])
        assert sql(session, f"select parent_run_id from agent_runs where parent_run_id = '{run.id}'") == [(run.id,)] * 2


def test_a_turn_in_a_transition_is_found_again_after_a_crash(tmp_path: Path) -> None:
    gate = Gate()
    with kernel(tmp_path / "s.duckdb") as session:
        begin(session, gate=gate)
        run = session.start(asking())
        gate.reached()
    gate.open()
    del REGISTRY._known["asks_an_agent"]
    with kernel(tmp_path / "s.duckdb") as session:
        begin(session)
        counting()
        asking()
        run = session.run(run.id)
        at_rest(run)

        assert (run.status, run.record.view.result) == ("completed", ["Answer 0", "Answer 0"]), run.record.view.failure
        assert sql(session, "select count(*) from runs where workflow = 'counting'") == [(2,)]


def test_a_turn_is_stopped_with_the_run_that_waits_for_it(tmp_path: Path) -> None:
    gate = Gate()
    with kernel(tmp_path / "s.duckdb") as session:
        begin(session, gate=gate)
        run = session.start(asking())
        gate.reached()
        run.cancel()
        ((turn,),) = sql(session, "select run_id from runs where workflow = 'counting'")
        until(session.run(turn), lambda: session.run(turn).status == "canceled")
        gate.open()
        at_rest(run)

        assert run.status == "canceled"
        assert sql(session, "select status from agent_runs") == [("cancelled",)]


def test_a_turn_that_failed_is_taken_up_again_with_the_move_that_asked_for_it(tmp_path: Path) -> None:
    fails = [True]

    def script(_: Any, turn: int) -> Any:
        if fails:
            fails.clear()
            raise ConnectionError("gone")
        return "At last."

    @loom.workflow(name="asks_one_that_fails")
    class FailingWorkflow(loom.BaseWorkflow[Any]):
        @loom.transition(from_="start", to="end")
        async def ask(self, state: Any, ctx: Any) -> None:
            self.set_result((await Agent(ScriptedModel(script), name="failing", store=session).run("Go")).text)

    with kernel(tmp_path / "s.duckdb") as session:
        run = session.start(FailingWorkflow)
        at_rest(run)
        assert run.status == "failed"
        run.retry()
        at_rest(run)

        assert run.record.view.result == "At last."
        assert sql(session, "select status, retries from agent_runs") == [("completed", 1)]


def test_a_turn_in_a_blueprints_step_is_found_again_when_the_step_is_retried(tmp_path: Path) -> None:
    results: list[str] = []

    @loom.code
    async def ask(access: Any) -> loom.StepResult:
        results.append((await counting().run("One")).text)
        if Held.fails:
            Held.fails.clear()
            raise OSError("after it")
        return DONE

    with kernel(tmp_path / "s.duckdb") as session:
        begin(session, fails=True)
        run = session.flow(blueprint(ask, name="asks_in_a_step"), "go")
        at_rest(run)
        assert run.status == "failed"
        run.retry()
        at_rest(run)

        assert (run.status, results, Held.said) == ("completed", ["Answer 0", "Answer 0"], [0])


def test_turns_that_a_tool_starts_are_told_apart_by_the_call_and_found_again(tmp_path: Path) -> None:
    gate, asked = Gate(), list[str]()

    def outer(session: loom.Loom) -> Agent:
        helper = Agent(
            ScriptedModel(lambda request, turn: "helped: " + request.messages[-1]["content"]), name="helper", store=session
        )

        async def delegate(task: str) -> str:
            """Lets another agent do something."""
            asked.append(task)
            told = (await helper.run(task)).text
            if task == "two" and asked.count("two") == 1:
                await gate()
            return told

        model = ScriptedModel([[("delegate", {"task": "one"})], [("delegate", {"task": "two"})], "Done."])
        return Agent(model, [delegate], name="outer", store=session)

    with kernel(tmp_path / "s.duckdb") as session:
        run = outer(session).run("Go", key="k")
        gate.reached()
    gate.open()
    with kernel(tmp_path / "s.duckdb") as session:
        run = outer(session).run("Go", key="k")
        at_rest(run)

        assert run.status == "completed", run.record.view.failure
        assert asked == ["one", "two", "two"]
        assert sql(session, "select output from tool_calls order by seq") == [('"helped: one"',), ('"helped: two"',)]
        assert sql(session, "select count(*) from runs where workflow = 'helper'") == [(2,)]


# -- runs as tools ---------------------------------------------------------------------------------------------


@loom.workflow(name="approved_order")
class OrderWorkflow(loom.BaseWorkflow[Any]):
    """Orders something, when a person agrees."""

    @loom.transition(from_="start", to="agreed")
    def begin(self, state: Any, ctx: Any) -> None:
        self.assign_state(what=ctx.args["what"])

    @loom.transition(from_="agreed", to="end", wait=True)
    def agree(self, state: Any) -> None:
        self.set_result({"ordered": state["what"]})


def ordering(session: loom.Loom) -> Agent:
    model = ScriptedModel([[("approved_order", {"what": "tea"})], "Ordered."])
    return Agent(model, [OrderWorkflow], name="ordering", store=session)


class Notebook(NoFace):
    """A face where somebody may answer, though nothing is shown."""

    def nobody_can_answer(self, run: loom.Run) -> str:
        return ""


def with_somebody(session: loom.Loom) -> loom.Loom:
    session._face = Notebook
    return session


def test_a_workflow_as_a_tool_waits_for_its_person_also_across_a_restart(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        run = ordering(with_somebody(session)).run("Order tea", key="k")
        order = _inner(session, "approved_order", run)
        at_rest(order)
        assert (run.status in ("pending", "running"), order.status) == (True, "waiting")
    with kernel(tmp_path / "s.duckdb") as session:
        run = ordering(with_somebody(session)).run("Order tea", key="k")
        order = session.run(order.id)
        at_rest(order)
        order.answer("agree", {})
        at_rest(run)

        assert run.status == "completed"
        assert sql(session, "select output from tool_calls") == [('{"ordered":"tea"}',)]
        assert sql(session, "select count(*) from runs where workflow = 'approved_order'") == [(1,)]


def test_where_nobody_can_answer_a_workflow_as_a_tool_the_turn_fails_and_is_taken_up_when_somebody_did(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        run = ordering(session).run("Order tea", key="k")
        at_rest(run)
        failure = run.record.view.failure
        assert failure is not None
        assert (failure.code, "agree" in failure.message) == ("NO_FRONT_END", True)
        assert sql(session, "select status, error from tool_calls") == [("auto_executed", None)]  # no failure of the tool
        order = _inner(session, "approved_order", run)
        order.answer("agree", {})
        at_rest(order)
        run.retry()
        at_rest(run)

        assert run.status == "completed"
        assert sql(session, "select status, output from tool_calls") == [("executed", '{"ordered":"tea"}')]


def test_a_workflow_as_a_tool_is_stopped_with_its_agent_but_not_with_the_kernel(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        run = ordering(with_somebody(session)).run("Order tea", key="k")
        order = _inner(session, "approved_order", run)
        at_rest(order)
    with kernel(tmp_path / "s.duckdb") as session:
        assert session.run(order.id).status == "waiting"
        run = ordering(with_somebody(session)).run("Order tea", key="k")
        order = session.run(order.id)
        until(order, lambda: bool(order.record.watchers))  # somebody waits for it: the tool, again
        run.cancel()
        until(order, lambda: order.status == "canceled")
        at_rest(run)

        assert run.status == "canceled"


def test_a_blueprint_as_a_tool_gives_what_it_came_to(tmp_path: Path) -> None:
    made: list[str] = []

    @loom.code
    async def make(access: Any) -> loom.StepResult:
        made.append("made")
        return DONE

    with kernel(tmp_path / "s.duckdb") as session:
        model = ScriptedModel([[("makes_things", {"intent": "a thing"})], "Made."])
        run = Agent(model, [blueprint(make, name="makes_things")], name="making", store=session).run("Make it")
        at_rest(run)

        assert (run.status, made) == ("completed", ["made"])
        assert sql(session, "select status from tool_calls") == [("executed",)]


def _inner(session: loom.Loom, workflow: str, outer: loom.Run) -> loom.Run:
    """The run that a tool of another one has started."""
    until(outer, lambda: any(r.workflow == workflow for r in session.runtime.live()))
    return session.run(next(r.id for r in session.runtime.live() if r.workflow == workflow))


# -- the façade --------------------------------------------------------------------------------------------------


def test_approvals_are_rules_by_exact_name(tmp_path: Path) -> None:
    done: list[str] = []

    @agent_tool(kind="action")
    def send(to: str) -> str:
        """Sends."""
        done.append("send")
        return to

    @agent_tool(kind="action")
    def send_all() -> str:
        """Sends to all."""
        done.append("send_all")
        return "all"

    with kernel(tmp_path / "s.duckdb") as session:
        model = ScriptedModel([[("send", {"to": "bob"})], [("send_all", {})], "Done."])
        run = Agent(model, [send, send_all], name="exact", store=session, approvals={"send": "auto"}).run("Go")
        at_rest(run)

        assert (done, [ask.name for ask in run.pending]) == (["send"], ["send_all"])
        with pytest.raises(loom.DefinitionError, match="sned"):
            Agent(model, [send], name="exact", store=session, approvals={"sned": "auto"})


def test_costs_are_reported_else_estimated_else_unknown(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        turns = [
            Said(tools=[("look", {})], usage={"inputTokens": 1_000_000, "outputTokens": 0}),
            Said(text="Done.", usage={"inputTokens": 1, "outputTokens": 1}, cost=0.5),
        ]

        def look() -> str:
            """Looks."""
            return "seen"

        run = Agent(ScriptedModel(turns), [look], name="costly", store=session).run("Look at it")
        at_rest(run)
        before = session.costs().fetchall()
        session.set_model_prices({"scripted": (3.0, 15.0)})

        assert before == [("scripted", 2, 1_000_001, 1, 0.5, 1)]
        assert session.costs().fetchall() == [("scripted", 2, 1_000_001, 1, 3.5, 0)]
        assert session.costs("thread").fetchall() == [("Look at it", 2, 1_000_001, 1, 3.5, 0)]
        assert session.costs("agent").fetchall() == [("costly", 2, 1_000_001, 1, 3.5, 0)]
        assert "scripted" in repr(session.costs())
        with pytest.raises(loom.Refused, match="weather"):
            session.costs("weather")  # type: ignore[arg-type]


def test_a_chart_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with kernel(tmp_path / "s.duckdb") as session, pytest.raises(loom.Unavailable) as caught:
        session.costs().chart()

    assert caught.value.advice == "pip install altair"


def test_governance_asks_the_store(tmp_path: Path) -> None:
    with kernel(tmp_path / "s.duckdb") as session:
        at_rest(Agent(ScriptedModel(["Hi."]), name="greeting", store=session).run("Hello"))
        today = datetime.now(UTC).date()
        metrics = asyncio.run(session.governance().run_metrics(DayRange(today, today)))

        assert (metrics.runs, metrics.completed, metrics.success_rate) == (1, 1, 1.0)
