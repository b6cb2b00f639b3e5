"""The configuration of a run: judged once, defaults always, `ctx.config` in the bodies."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from tests.helpers import at_rest, status_is


class Config(BaseModel):
    model: str = "small"
    turns: int = 3


@loom.tool(name="config_seen")
def config_seen(ctx: loom.RunContext[Any]) -> Any:
    """The configuration of the run that calls."""
    return ctx.config.model_dump()


@loom.workflow(name="configured", config_schema=Config)
class ConfiguredWorkflow(loom.BaseWorkflow):
    @loom.transition(to="waiting")
    async def begin(self, state: Any, ctx: loom.RunContext[Any]) -> None:
        self.assign_state(seen=ctx.config.model_dump(), tool=(await config_seen.call()).data)

    @loom.transition(from_="waiting", to="end", wait=True)
    def go_on(self, state: Any, input: Any, ctx: loom.RunContext[Any]) -> None:  # noqa: A002  # the seed's word
        self.set_result([type(ctx.config).__name__, ctx.config.turns])


@pytest.mark.parametrize(
    ("given", "config"),
    [
        ({}, {"model": "small", "turns": 3}),
        ({"config": {}}, {"model": "small", "turns": 3}),
        ({"config": {"turns": 5}}, {"model": "small", "turns": 5}),
        ({"config": Config(model="big")}, {"model": "big", "turns": 3}),
    ],
    ids=["none", "empty", "mapping", "model"],
)
def test_config_is_parsed_with_its_defaults(session: loom.Loom, given: dict[str, Any], config: dict[str, Any]) -> None:
    run = session.start(ConfiguredWorkflow, **given)
    at_rest(run)

    assert run.state == {"seen": config, "tool": config}


def test_config_that_does_not_fit_starts_nothing(session: loom.Loom) -> None:
    with pytest.raises(loom.ArgsInvalid, match="This configuration does not fit 'configured'") as caught:
        session.start(ConfiguredWorkflow, config={"turns": "many"})

    assert list(caught.value.fields) == ["turns"]
    assert session.runs().fetchall() == []


def test_config_is_read_only(session: loom.Loom) -> None:
    @loom.workflow(config_schema=Config)
    class Writing(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self, state: Any, ctx: loom.RunContext[Any]) -> None:
            ctx.config.turns = 9

    run = session.start(Writing)
    at_rest(run)

    assert "frozen" in (run.error or "").lower()


def test_without_a_schema_config_is_plain_json(session: loom.Loom) -> None:
    @loom.workflow
    class Plain(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self, state: Any, ctx: loom.RunContext[Any]) -> None:
            self.set_result(ctx.config)

    given, nothing = session.start(Plain, config={"a": [1]}), session.start(Plain)
    at_rest(given)
    at_rest(nothing)

    assert (given.result, nothing.result) == ({"a": [1]}, None)
    with pytest.raises(loom.NotJson):
        session.start(Plain, config={"a": object()})


def test_config_survives_a_restart_and_a_fork(session: loom.Loom) -> None:
    run = session.start(ConfiguredWorkflow, config={"turns": 7})
    at_rest(run)
    session.close()
    with loom.open(session.path) as again:
        stored = again.run(run.id)
        forked = stored.fork()
        for r in (stored, forked):
            at_rest(r)
            r.answer("go_on", None)
            status_is(r, "completed")

        assert (stored.result, forked.result) == (["Config", 7], ["Config", 7])


def test_a_key_finds_its_run_only_with_the_same_config(session: loom.Loom) -> None:
    run = session.start(ConfiguredWorkflow, key="k", config={"turns": 3})

    assert session.start(ConfiguredWorkflow, key="k").id == run.id, "the default is the same configuration"
    with pytest.raises(loom.Conflict, match="other configuration"):
        session.start(ConfiguredWorkflow, key="k", config={"turns": 4})


def test_a_sub_workflow_gets_the_config_of_its_run_call(session: loom.Loom) -> None:
    @loom.workflow
    class Parent(loom.BaseWorkflow):
        child: ConfiguredWorkflow

        @loom.transition(to="end")
        def go(self) -> None:
            self.child.run(config={"turns": 8})
            with pytest.raises(loom.ArgsInvalid):
                self.child.run(config={"turns": "many"})

    run = session.start(Parent)
    at_rest(run)
    (child,) = run.children
    at_rest(child)

    assert child.state["seen"] == {"model": "small", "turns": 8}
