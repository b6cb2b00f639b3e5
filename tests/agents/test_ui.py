"""What a tool shows beside its answer, judged by a catalog and by what the client draws; and the tools that show components."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from loomnb.agents.functional import create_functional_tool
from loomnb.agents.registry import ToolRegistry
from loomnb.agents.roles import DefaultRolesPolicy
from loomnb.agents.spi import Actor, ToolContext, ToolScope
from loomnb.agents.tool_errors import ToolInputInvalidError, ToolNotFoundError
from loomnb.agents.ui_collector import UiCollector
from loomnb.agents.ui_tools import ui_tools
from loomnb.errors import InvalidRequest, Refused
from loomnb.present import BUILT_IN, TREE, ComponentDefinition, create_component, table

ANN = Actor(id="ann")
OPEN = DefaultRolesPolicy()


def doubled(n: int) -> int:
    return n * 2


class Doubling(BaseModel):
    n: Annotated[int, AfterValidator(doubled)]


class Number(BaseModel):
    n: int


twice = create_component(name="Twice", props=Doubling, output_props=Number, fallback_text=lambda props: f"n={props['n']}")
hidden = ComponentDefinition(name="Hidden", props=Number, internal=True)
CATALOG = [BUILT_IN["Text"], BUILT_IN["Stack"], twice.definition, hidden]
ALL = {"components": [{"name": one, "version": 1} for one in ("Text", "Stack", "Twice", "Hidden")]}
ONLY_STACK = {"components": [{"name": "Stack", "version": 1}]}
NOTHING: dict[str, Any] = {"components": []}


def collector(capabilities: Any = None) -> UiCollector:
    return UiCollector("c1", catalog=CATALOG, capabilities=capabilities)


# -- what is collected ---------------------------------------------------------------------------------------


@pytest.mark.case("agents:V09")
def test_what_is_drawn_is_collected_with_the_catalogs_version_and_text() -> None:
    ui = collector(ALL)

    ui.emit("Text", {"text": "hello"})

    assert ui.collected == [
        {
            "id": "c1:ui:0",
            "component": "Text",
            "props": {"text": "hello"},
            "version": 1,
            "fallbackText": "hello",
            "toolCallId": "c1",
        }
    ]
    assert ui.text == ""


@pytest.mark.case("agents:V09")
def test_what_is_not_drawn_is_text_in_the_order_of_the_calls() -> None:
    ui = collector(ONLY_STACK)

    ui.emit("Text", {"text": "first"})
    ui.emit("Stack", {})
    ui.emit("Text", {"text": "second\x00"}, id="mine")
    ui.emit("Text", {"text": "1st"}, id="c1:ui:0")

    assert [row["component"] for row in ui.collected] == ["Stack"]
    assert ui.text == "1st\nsecond\\u0000"


@pytest.mark.case("agents:V09")
@pytest.mark.parametrize("capabilities", [None, ALL, NOTHING], ids=["none", "all", "text-only"])
def test_what_the_catalog_refuses_is_an_error_whatever_is_drawn(capabilities: Any) -> None:
    ui = collector(capabilities)

    for push in ({"component": "Nobody", "props": {}}, {"component": "Text", "props": {}}):
        with pytest.raises(Refused):
            ui.emit(**push)
    with pytest.raises(Refused, match="version 1"):
        ui.emit("Text", {"text": "x"}, version=2)

    assert (ui.collected, ui.text) == ([], "")


def test_capabilities_need_a_catalog_and_have_to_be_right() -> None:
    with pytest.raises(Refused, match="catalog"):
        UiCollector("c1", capabilities=NOTHING).emit("Text", {})
    with pytest.raises(InvalidRequest):
        collector({"components": None}).emit("Text", {"text": "x"})


@pytest.mark.case("agents:U09")
@pytest.mark.case("agents:V09")
def test_one_presentation_the_catalog_refuses_keeps_all_from_being_shown() -> None:
    told: list[str] = []
    made = create_functional_tool(
        name="look",
        execute=lambda value, ctx: "seen",
        present=lambda *_: [BUILT_IN["Text"](text="fine"), table(columns=[{"key": "a", "label": "A"}], rows=[])],
    )
    registry = ToolRegistry()
    registry.register(made.spec, made.handler)
    ui = collector(ALL)
    ctx = ToolContext(actor=ANN, emit_ui=ui.emit, on_presentation_error=lambda error, where: told.append(str(error)))

    output = asyncio.run(registry.invoke("look", {}, ctx, OPEN))

    assert (output, ui.collected) == ("seen", [])
    assert "DataTable" in told[0]


# -- tools that show -----------------------------------------------------------------------------------------


def registry_of_ui() -> ToolRegistry:
    registry = ToolRegistry()
    for tool in ui_tools(CATALOG, generic=True, tree=True):
        registry.register(tool.spec, tool.handler)
    return registry


def names(capabilities: Any) -> list[str]:
    scope = ToolScope(actor=ANN, ui_capabilities=capabilities)
    return [tool.name for tool in asyncio.run(registry_of_ui().definitions_for(ANN, OPEN, scope=scope))]


def call(name: str, value: Any, capabilities: Any = None) -> tuple[Any, UiCollector]:
    ui = collector(capabilities)
    ctx = ToolContext(actor=ANN, emit_ui=ui.emit, ui_capabilities=capabilities)
    return asyncio.run(registry_of_ui().invoke(name, value, ctx, OPEN)), ui


@pytest.mark.case("agents:U16")
@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        (None, ["ui__show_text", "ui__show_twice", "ui__show", "ui__render"]),
        (ALL, ["ui__show_text", "ui__show_twice", "ui__show", "ui__render"]),
        (ONLY_STACK, ["ui__render"]),
        (NOTHING, []),
    ],
    ids=["none", "all", "stack", "nothing"],
)
def test_what_is_offered_is_what_the_client_draws(capabilities: Any, expected: list[str]) -> None:
    assert names(capabilities) == expected


TREE_INPUT = {
    "root": {
        "component": "Stack",
        "children": [{"component": "Text", "props": {"text": "hello"}}, {"component": "Twice", "props": {"n": 2}}],
    }
}


@pytest.mark.case("agents:U16")
def test_a_tree_is_an_unknown_tool_where_nothing_is_drawn_and_shown_once_where_all_is() -> None:
    with pytest.raises(ToolNotFoundError):
        call("ui__render", TREE_INPUT, NOTHING)

    output, ui = call("ui__render", TREE_INPUT, ALL)

    assert output == {"shown": TREE, "id": "c1:ui:0"}
    (row,) = ui.collected
    assert row["componentVersions"] == {"Stack": 1, "Text": 1, "Twice": 1}
    assert row["fallbackText"] == "hello\nn=4"


def test_a_component_is_shown_with_its_props_made_once() -> None:
    _, one = call("ui__show_twice", {"n": 2})
    _, any_ = call("ui__show", {"component": "Twice", "props": {"n": 2}}, ALL)

    assert [one.collected[0]["props"], any_.collected[0]["props"]] == [{"n": 4}, {"n": 4}]


def test_the_input_of_a_component_is_its_props() -> None:
    (text, *_), specs = ui_tools(CATALOG), [tool.spec for tool in ui_tools(CATALOG, each=False, generic=True)]
    registry = registry_of_ui()
    offered = asyncio.run(registry.definitions_for(ANN, OPEN))

    assert (text.spec.kind, [spec.name for spec in specs]) == ("read", ["ui__show"])
    assert offered[0].input_schema["required"] == ["text"]
    assert "- Text: A text." in offered[2].description


def test_what_is_wrong_with_props_is_told_to_the_model() -> None:
    with pytest.raises(ToolInputInvalidError, match="text"):
        call("ui__show_text", {"text": 3})
    with pytest.raises(Refused, match="n: "):
        call("ui__show", {"component": "Twice", "props": {"n": "x"}})
    with pytest.raises(ToolInputInvalidError, match="root"):
        call("ui__render", {})


@pytest.mark.parametrize("name", ["Hidden", "Nobody", "Stack"])
def test_what_a_model_may_not_show_is_refused_by_name(name: str) -> None:
    with pytest.raises(Refused, match=name):
        call("ui__show", {"component": name, "props": {"n": 1}}, ALL)


@pytest.mark.parametrize("name", ["Hidden", "Nobody"])
def test_a_tree_holds_only_what_a_model_may_show(name: str) -> None:
    with pytest.raises(Refused, match=name):
        call("ui__render", {"root": {"component": "Stack", "children": [{"component": name, "props": {"n": 1}}]}}, ALL)
