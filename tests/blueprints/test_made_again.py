"""What somebody who tried to break blueprints found: steps that are made again, tools, exclusive runs, identity."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import duckdb
import pytest

import loomnb as loom
from loomnb.blueprints import compile_blueprint
from loomnb.runtime import REGISTRY
from loomnb.store.writer import Writer
from loomnb.testing import Death, ScriptedModel
from tests.helpers import at_rest

OK = loom.StepResult("ok")


def blueprint(execution: Any, name: str = "again", **more: Any) -> loom.Blueprint:
    return loom.Blueprint(
        flow_name=name,
        entry_stage_name="only",
        stages={
            "only": loom.BlueprintStage(
                state_schema=dict,
                initialize_state=lambda _: {},
                entry_step_name="step",
                steps={"step": loom.BlueprintStep(execution=execution, on={"ok": "after"}), "after": AFTER},
                on={"ok": loom.WORKFLOW_END},
            )
        },
        **more,
    )


@loom.code
async def after(access: Any) -> loom.StepResult:
    payload = {"flow_name": "again", "stage_name": "only", "data": access.state.value}
    await access.storage.commit([{"type": "append_record", "id": f"state {len(access.state.value)}", "payload": payload}])
    return OK


AFTER = loom.BlueprintStep(execution=after, on={"ok": loom.STAGE_END})


def tool(name: str, execute: Any) -> Any:
    return loom.define_agent_tool(id=name, description=name, input_schema=dict, output_schema=dict, execute=execute)


def test_an_agent_that_is_made_again_sees_the_state_its_recorded_tools_left(session: loom.Loom) -> None:
    fails = [True]

    async def writes(given: Any, access: Any) -> dict[str, Any]:
        if given["n"] == 1 and fails:
            raise ValueError("first time")
        await access.state.update({**access.state.value, f"t{given['n']}": True})
        return {}

    agent = loom.AgentSpec(name="a", instructions="i", tools=[tool("t", writes)])
    model = ScriptedModel([[("t", {"n": 0})], [("t", {"n": 1})], {"outcome": "ok"}])
    run = session.flow(blueprint(agent), "x", models=model)
    at_rest(run)
    fails.clear()
    run.retry()
    run.wait()

    assert [record.data for record in run.records] == [{"t0": True, "t1": True}]


def test_what_a_tool_left_behind_can_do_nothing_once_it_returned(session: loom.Loom) -> None:
    late: list[Any] = []

    async def leaves(given: Any, access: Any) -> dict[str, Any]:
        async def write() -> None:
            await may_go.wait()
            await access.state.update({"late": True})

        may_go = asyncio.Event()
        late.extend([asyncio.get_running_loop().create_task(write()), may_go])
        return {}

    async def lets_go(given: Any, access: Any) -> dict[str, Any]:
        late[1].set()
        await asyncio.wait([late[0]])
        return {}

    agent = loom.AgentSpec(name="a", instructions="i", tools=[tool("leaves", leaves), tool("lets_go", lets_go)])
    run = session.flow(blueprint(agent), "x", models=ScriptedModel([[("leaves", {})], [("lets_go", {})], {"outcome": "ok"}]))
    at_rest(run)

    assert isinstance(late[0].exception(), loom.OwnershipLost)
    assert [record.data for record in run.records] in ([], [{}])


def test_a_commit_behind_a_write_that_could_not_be_stored_is_not_stored_either(
    session: loom.Loom, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, tries = [True], [0]
    append = Writer._append

    def failing(self: Writer, rows: Any, now: Any) -> Any:
        if full and any(row[1] == "step.recorded" and "state.update" in row[2] for row in rows):
            raise duckdb.IOException("IO Error: disk full")
        return append(self, rows, now)

    monkeypatch.setattr(Writer, "_append", failing)

    @loom.code
    async def both(access: Any) -> loom.StepResult:
        tries[0] += 1
        record = {
            "type": "append_record",
            "id": f"try-{tries[0]}",
            "payload": {"flow_name": "f", "stage_name": "s", "data": 1},
        }
        await asyncio.gather(access.state.update({"x": 1}), access.storage.commit([record]))
        return OK

    run = session.flow(blueprint(both), "x")
    at_rest(run)
    full.clear()
    run.retry()
    run.wait()

    assert [record.id for record in run.records if not record.id.startswith("state")] == ["try-2"]


def asking(text: str) -> loom.Code[Any]:
    async def asks(access: Any) -> loom.StepResult:
        await access.interaction.confirm(text)
        return OK

    code = loom.code(asks)
    code.recover(lambda saved, access: OK)
    return code


def test_a_changed_run_that_waits_is_not_made_again_by_a_plain_retry(here: Path) -> None:
    with loom.open(here / "s.duckdb") as session:
        at_rest(session.flow(blueprint(asking("one?")), "x"))
    with loom.open(here / "s.duckdb") as session:
        changed = blueprint(asking("one?"), exclusive=True)
        session.define(changed)
        run = session.flows()[0]
        with pytest.raises(loom.Refused, match="changed"):
            run.retry()

        assert [ask.context for ask in run.pending] == ["one?"]


def test_a_code_bound_to_an_object_is_the_same_in_every_kernel() -> None:
    class Config:
        pass

    async def with_config(config: Any, input: None, access: Any) -> loom.StepResult:  # noqa: A002
        return OK

    first, second = (compile_blueprint(blueprint(functools.partial(with_config, Config()))) for _ in range(2))

    assert first.fingerprint == second.fingerprint


def test_a_run_that_goes_on_by_itself_keeps_an_exclusive_one_out(here: Path) -> None:
    death = Death(after=1)  # the run is stored, and nothing of it has begun
    session = loom.Loom(str(here / "s.duckdb"), database=death)
    session.flow(blueprint(asking("?"), "alone", exclusive=True), "x")
    death.wait()
    session.close()
    del REGISTRY._known["alone"]

    with loom.open(here / "s.duckdb") as session:
        assert session.flows()[0].status == "interrupted"
        with pytest.raises(loom.StoreBusy):
            session.flow(blueprint(asking("?"), "beside"), "x")


@pytest.mark.parametrize("name", [5, [1], {}, "\ud800", ""])
def test_flows_of_what_is_no_name_are_refused(session: loom.Loom, name: Any) -> None:
    with pytest.raises(loom.InvalidRequest):
        session.flows(name)


@pytest.mark.parametrize("path", ["x" * 5000, "a\0b"])
def test_a_path_that_cannot_be_is_no_blueprint(session: loom.Loom, path: str) -> None:
    with pytest.raises((loom.NotFound, loom.InvalidRequest)):
        session.flow(path, "x")


def test_a_model_that_has_no_turns_is_refused_before_there_is_a_run(session: loom.Loom) -> None:
    agent = loom.AgentSpec(name="a", instructions="i")
    with pytest.raises(loom.InvalidRequest, match="run_turn"):
        session.flow(blueprint(agent), "x", models=5)  # type: ignore[arg-type]

    assert session.flows() == []


def test_a_tool_may_start_a_run_of_its_own(session: loom.Loom) -> None:
    @loom.code
    async def below(access: Any) -> loom.StepResult:
        await access.state.update({"below": True})
        return OK

    async def starts(given: Any, access: Any) -> dict[str, Any]:
        return {"result": await session.flow(blueprint(below, "below"), "x")}

    agent = loom.AgentSpec(name="a", instructions="i", tools=[tool("starts", starts)])
    run = session.flow(blueprint(agent, "above"), "x", models=ScriptedModel([[("starts", {})], {"outcome": "ok"}]))
    at_rest(run)

    assert [child.status for child in session.flows("below")] == ["completed"]


def test_what_a_terminal_obeys_is_not_in_the_static_forms(session: loom.Loom) -> None:
    run = session.flow(blueprint(asking("\x1b[31mred\x07")), "x", title="\x1b]0;t\x07")
    at_rest(run)
    forms = [repr(run), *run._repr_mimebundle_().values()]

    assert not [text for text in forms if "\x1b" in text or "\x07" in text]
