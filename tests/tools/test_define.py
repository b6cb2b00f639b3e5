"""Defining tools: names, what is refused, server tools, and a cell that is run again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import loomnb as loom
from loomnb.names import snake_case
from loomnb.tools import TOOLS, spec_of


def defined(class_name: str, module: str = "m", **options: Any) -> Any:
    handle = {"handle": lambda self, args: loom.ToolEnvelope(data=class_name), "__module__": module}
    return loom.tool(**options)(type(class_name, (loom.BaseTool,), handle))


@pytest.mark.case("workflows:A03")
def test_a_run_of_capitals_is_one_word() -> None:
    assert snake_case("OAuthPromptDocument", "_document") == "o_auth_prompt"
    assert loom.resolve(defined("OAuthPromptTool")).name == "o_auth_prompt"


@pytest.mark.case("workflows:A04")
@pytest.mark.parametrize(
    ("class_name", "name"),
    [("MathSumTool", "math_sum"), ("WebSearch", "web_search"), ("Tool", "tool"), ("HTTPGetTool", "http_get")],
)
def test_a_tool_without_a_name_is_called_after_its_class(class_name: str, name: str) -> None:
    assert spec_of(defined(class_name)).name == name


@pytest.mark.parametrize("name", ["my tool", "päckchen", "a.b", "x" * 65], ids=repr)
def test_a_name_models_do_not_take_is_refused(name: str) -> None:
    with pytest.raises(loom.DefinitionError, match="cannot be a tool's name"):
        defined("SomeTool", name=name)


def test_two_tools_of_one_name_are_refused_by_both_places() -> None:
    defined("SumTool", module="one")

    with pytest.raises(loom.DefinitionError, match=r"'sum' is taken: one\.SumTool has it, and two\.SumTool wants it") as caught:
        defined("SumTool", module="two")
    assert "@loom.tool(name=…)" in caught.value.advice


def test_an_unknown_tool_is_told_what_there_is() -> None:
    defined("SumTool")

    with pytest.raises(loom.NotFound, match=r"No tool is called 'sums'\.\nDid you mean 'sum'\? Defined here: .*sum"):
        TOOLS.need("sums")


def test_running_the_cell_again_replaces_the_tool_for_those_who_need_it() -> None:
    def cell(version: int) -> Any:
        @loom.tool(name="greet")
        class GreetTool(loom.BaseTool):
            def handle(self) -> loom.ToolEnvelope:
                return loom.ToolEnvelope(data=version)

        return GreetTool

    first = cell(1)

    class Needs:
        def __init__(self, greet: first) -> None:  # type: ignore[valid-type]
            self.greet: Any = greet

    Needs.__init__.__annotations__["greet"] = first
    assert asyncio.run(loom.resolve(Needs).greet.call()).data == 1

    cell(2)

    assert asyncio.run(loom.resolve(Needs).greet.call()).data == 2
    assert asyncio.run(loom.resolve(first).call()).data == 2


def test_a_subclass_without_a_name_gets_a_fresh_one() -> None:
    class Base(loom.BaseTool):
        def handle(self) -> loom.ToolEnvelope:
            return loom.ToolEnvelope()

    named = loom.tool(name="special", description="Special.")(type("SpecialTool", (Base,), {}))
    child = loom.tool(type("ChildTool", (named,), {}))

    assert (spec_of(child).name, spec_of(child).description) == ("child", "")


def _idle() -> Any:
    return type("IdleTool", (loom.BaseTool,), {})


def _greedy() -> Any:
    return type("GreedyTool", (loom.BaseTool,), {"handle": lambda self, args, ctx, options, more: None})


def _foreign() -> Any:
    return type("Foreign", (), {})


def _unserved() -> Any:
    return type("Unserved", (loom.ServerTool,), {})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_idle, "IdleTool does nothing"),
        (_greedy, r"GreedyTool\.handle takes more than it gets"),
        (_foreign, "Foreign is no tool class"),
        (_unserved, "Unserved does nothing"),
        (lambda: 3, "3 cannot be a tool"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_defined(make: Any, said: str) -> None:
    with pytest.raises(loom.DefinitionError, match=said):
        loom.tool(make())


def test_widgets_are_read_from_mappings_and_files_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "two.ui.yaml"
    file.write_text("description: Greets somebody.\nui:\n  widgets:\n    - widget: form\n")
    both = spec_of(defined("TwoTool", widget=[file, {"widget": "form", "options": {"title": "T"}}]))

    assert [w.name for w in both.widgets] == ["form", "form"]
    assert (both.description, spec_of(defined("OneTool", widget=file, description="Mine.")).description) == (
        "Greets somebody.",
        "Mine.",
    )
    with pytest.raises(loom.DefinitionError, match="nowhere"):
        defined("BadTool", widget="./nowhere.ui.yaml")


class SearchConfig(BaseModel):
    max_uses: int = 8
    allowed_domains: list[str] | None = None


def server_tool() -> Any:
    @loom.tool(name="web_search", config_schema=SearchConfig)
    class WebSearchTool(loom.ServerTool[SearchConfig]):
        def to_server_tool_config(self, config: SearchConfig) -> dict[str, Any]:
            return {"type": "web_search", "max_uses": config.max_uses}

    return WebSearchTool()


@pytest.mark.parametrize(("config", "max_uses"), [(None, 8), ({}, 8), ({"max_uses": 2}, 2)], ids=repr)
def test_a_server_tool_gets_its_validated_config(config: Any, max_uses: int) -> None:
    tool = server_tool()

    assert tool.server_config(config) == {"type": "web_search", "max_uses": max_uses}
    assert spec_of(tool).is_server


def test_a_server_tools_config_that_does_not_fit_is_refused() -> None:
    with pytest.raises(loom.ArgsInvalid, match="'web_search': this configuration") as caught:
        server_tool().server_config({"max_uses": "many"})

    assert list(caught.value.fields) == ["max_uses"]
