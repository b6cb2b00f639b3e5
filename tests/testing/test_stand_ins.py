"""Driving one transition with other tools and a configuration."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from loomnb.testing import run_transition


class Config(BaseModel):
    unit: str = "C"


@loom.tool(name="driven_weather")
class WeatherTool(loom.BaseTool):
    async def handle(self, args: Any) -> loom.ToolEnvelope:
        raise AssertionError("replaced in every test")


class FakeWeather(WeatherTool):
    async def handle(self, args: Any) -> loom.ToolEnvelope:
        return loom.ToolEnvelope(data=f"sunny in {args['city']}")


@loom.workflow(name="driven_report", config_schema=Config)
class ReportWorkflow(loom.BaseWorkflow):
    weather: WeatherTool

    @loom.transition(to="end")
    async def report(self, state: Any, ctx: loom.RunContext[Any]) -> None:
        found = await self.weather.call({"city": ctx.args["city"]})
        self.set_result([found.data, ctx.config.unit])


@pytest.mark.parametrize(("config", "unit"), [(None, "C"), ({"unit": "F"}, "F")], ids=str)
def test_a_transition_is_driven_with_a_fake_and_a_config(config: Any, unit: str) -> None:
    with loom.overrides({WeatherTool: FakeWeather}):
        outcome = run_transition(ReportWorkflow, "report", args={"city": "Rome"}, config=config)

    assert outcome.result == ["sunny in Rome", unit]


def test_a_config_that_does_not_fit_is_refused() -> None:
    with pytest.raises(loom.ArgsInvalid):
        run_transition(ReportWorkflow, "report", args={"city": "Rome"}, config={"unit": 3})
