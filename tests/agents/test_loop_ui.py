"""Components beside an answer, in a turn: contracts/agents.md §1.3, §1.4 (emitUi), §3 (negotiation)."""

from __future__ import annotations

from typing import Any

import pytest

from loomnb.agents.ui_tools import ui_tools
from loomnb.errors import InvalidRequest
from loomnb.present import BUILT_IN
from loomnb.testing import ScriptedModel
from tests.agents.looping import Hooks, Journal, deps, messages_of, row_of, said, tool, turn, with_parallel


def shows(component: str, props: Any, **more: Any) -> Any:
    def execute(given: Any, ctx: Any) -> str:
        ctx.emit_ui(component, props, **more)
        return "shown"

    return execute


CATALOG = tuple(BUILT_IN.values())
CALLOUT = {"text": "Mind the gap"}
NOTHING: Any = {"components": []}
CALLOUTS: Any = {"components": [{"name": "Callout", "version": 1}]}


@pytest.mark.case("agents:J01")
def test_a_component_is_shown_before_the_output_and_stored_with_the_message() -> None:
    hooks = Hooks()
    made = deps([[("look", {})], "Done."], tool("look", shows("Card", {"n": 1}, version=2)))
    turn(made, hooks)

    frames = hooks.sink.frames("ui", "tool-output")
    assert [f["kind"] for f in frames] == ["ui", "tool-output"]
    card = {"id": "call-0-look:ui:0", "component": "Card", "props": {"n": 1}, "version": 2, "toolCallId": "call-0-look"}
    assert frames[0] == {"kind": "ui", **card}
    assert messages_of(made)[1]["ui"] == [card]


@pytest.mark.case("agents:J03")
def test_what_the_model_shows_comes_first_then_the_tools_in_call_order_and_the_last_of_an_id_wins() -> None:
    own = [{"id": "m", "component": "Card", "props": {}}, {"id": "same", "component": "Card", "props": {"old": 1}}]
    made = deps(
        [said("", ("a", {}), ("b", {}), ui=own), "Done."],
        tool("a", shows("Card", {"of": "a"})),
        tool("b", shows("Card", {"new": 1}, id="same")),
    )
    turn(made, with_parallel(Hooks()))

    shown = messages_of(made)[1]["ui"]
    assert [(one["id"], one["props"]) for one in shown] == [("m", {}), ("same", {"new": 1}), ("call-a:ui:0", {"of": "a"})]


@pytest.mark.case("agents:J05")
def test_a_tool_that_shows_nothing_journals_its_bare_output() -> None:
    journal = Journal()
    made = deps([[("look", {})], "Done."], tool("look", lambda i, c: {"x": 1}))
    turn(made, journal)

    assert dict(journal.records)["tool:call-0-look"] == '{"x": 1}'
    assert "ui" not in messages_of(made)[1]


def test_a_tool_that_failed_shows_nothing() -> None:
    def execute(given: Any, ctx: Any) -> str:
        ctx.emit_ui("Card", {})
        raise ValueError("no")

    hooks = Hooks()
    turn(deps([[("look", {})], "Done."], tool("look", execute)), hooks)

    assert not hooks.sink.frames("ui")


def test_a_component_that_the_client_draws_is_shown_with_its_text() -> None:
    hooks = Hooks()
    made = deps([[("look", {})], "Done."], tool("look", shows("Callout", CALLOUT)), resolve_ui_catalog=lambda: CATALOG)
    result = turn(made, hooks, ui_capabilities=CALLOUTS)

    (shown,) = hooks.sink.frames("ui")
    assert (shown["component"], shown["version"]) == ("Callout", 1)
    assert "Mind the gap" in shown["fallbackText"]
    assert result.text == "Done."


def test_what_the_client_does_not_draw_becomes_text_for_everybody() -> None:
    hooks = Hooks()
    model = ScriptedModel(lambda request, n: said("See.", ("look", {}), ("also", {})) if n == 0 else "Done.")
    made = deps(
        model,
        tool("look", shows("Callout", CALLOUT)),
        tool("also", shows("Text", {"text": "A \x00 b"})),
        resolve_ui_catalog=lambda: CATALOG,
    )
    result = turn(made, hooks, ui_capabilities=NOTHING)

    assert not hooks.sink.frames("ui")
    text = hooks.sink.frames("text")[1]["text"]
    assert "Mind the gap" in text
    assert text.endswith("\nA \\u0000 b")
    assert [(m["role"], m["content"]) for m in messages_of(made)][1:3] == [("assistant", "See."), ("assistant", text)]
    assert [m["content"] for m in model.requests[1].messages] == ["Hello", "See.", text]
    assert result.text == f"Done.\n{text}"


def test_after_a_terminal_tool_the_text_is_appended_too() -> None:
    made = deps([said("Bye.", ("look", {}))], tool("look", shows("Callout", CALLOUT), terminal=True))
    made.resolve_ui_catalog = lambda: CATALOG
    result = turn(made, ui_capabilities=NOTHING)

    assert result.text.startswith("Bye.\n")
    assert "Mind the gap" in result.text


def test_a_replay_shows_the_same_text_once() -> None:
    journal = Journal()
    made = deps([[("look", {})], lambda: 0], tool("look", shows("Callout", CALLOUT)), resolve_ui_catalog=lambda: CATALOG)
    made.model = ScriptedModel(lambda request, n: [[("look", {})], "", "Done."][n])
    result = turn(made, journal, ui_capabilities=NOTHING)
    lines, messages = list(journal.sink.lines), messages_of(made)

    assert turn(made, journal.again(), ui_capabilities=NOTHING) == result
    assert journal.sink.lines == lines
    assert messages_of(made) == messages


@pytest.mark.parametrize(
    ("component", "props", "catalog"),
    [("Nowhere", {}, True), ("Callout", {"nothing": 1}, True), ("Callout", CALLOUT, False)],
    ids=["unknown", "props", "no catalog"],
)
def test_a_component_that_cannot_be_is_a_failure_of_the_tool_even_where_only_text_is_shown(
    component: str, props: Any, catalog: bool
) -> None:
    made = deps([[("look", {})], "Done."], tool("look", shows(component, props)))
    if catalog:
        made.resolve_ui_catalog = lambda: CATALOG
    turn(made, ui_capabilities=NOTHING)

    assert row_of(made, "look").status == "failed"


def test_a_presentation_that_cannot_be_is_reported_and_the_tool_is_done() -> None:
    told: list[Any] = []
    hooks: Any = Hooks()
    hooks.on_presentation_error = lambda exc, about: told.append(about)
    look = tool("look", present=lambda output, ctx: {"component": "Nowhere", "props": {}})
    made = deps([[("look", {})], "Done."], look, resolve_ui_catalog=lambda: CATALOG)
    turn(made, hooks, ui_capabilities=NOTHING)

    assert row_of(made, "look").status == "executed"
    assert told == [{"toolName": "look"}]


def test_capabilities_that_cannot_be_are_refused_before_anything_is_written() -> None:
    made = deps(["Hi."])
    with pytest.raises(InvalidRequest):
        turn(made, ui_capabilities={"components": [{"name": "Card", "version": 0}]})

    assert messages_of(made) == []


@pytest.mark.case("agents:U16")
def test_a_tool_that_shows_what_the_client_does_not_draw_is_not_offered_and_refused() -> None:
    model = ScriptedModel([said("", ("ui__show_callout", CALLOUT)), "I cannot."])
    made = deps(model, *ui_tools(CATALOG), resolve_ui_catalog=lambda: CATALOG)
    result = turn(made, ui_capabilities=NOTHING)

    assert result.text == "I cannot."
    assert "ui__show_callout" not in [t.name for t in model.requests[0].tools]
    assert "no tool" in row_of(made, "ui__show_callout").error


@pytest.mark.case("agents:U16")
def test_with_the_capability_it_shows_once() -> None:
    hooks = Hooks()
    model = ScriptedModel([said("", ("ui__show_callout", CALLOUT)), "There."])
    made = deps(model, *ui_tools(CATALOG), resolve_ui_catalog=lambda: CATALOG)
    turn(made, hooks, ui_capabilities=CALLOUTS)

    assert [f["component"] for f in hooks.sink.frames("ui")] == ["Callout"]
