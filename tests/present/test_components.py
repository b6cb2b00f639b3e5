"""Components: how they are made and judged, who renders them, what a client draws of them, and how they are text and HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, TypeAdapter

from loomnb.errors import DefinitionError, InvalidRequest, NotFound, Refused
from loomnb.present import (
    BUILT_IN,
    TREE,
    ComponentDefinition,
    ComponentRegistry,
    Presentation,
    chart,
    check_ui_capabilities,
    component_html,
    component_text,
    create_component,
    create_component_registry,
    judge_ui,
    negotiate_catalog,
    storable_text,
    table,
)
from tests.helpers import plain_id
from tests.present.hostile import HOSTILE, executable


class Score(BaseModel):
    """A score."""

    points: int
    best: int = 10


score = create_component(
    name="Score", title="Score", props=Score, version=2, fallback_text=lambda props: f"{props['points']} of {props['best']}"
)

EXAMPLES: dict[str, dict[str, Any]] = {
    "DataTable": {
        "title": "Stock",
        "columns": [{"key": "item", "label": "Item"}, {"key": "left", "label": "Left", "format": "number"}],
        "rows": [{"item": "pen", "left": 1200}, {"item": "cap", "left": None}],
    },
    "Chart": {
        "type": "bar",
        "title": "Sales",
        "xKey": "month",
        "series": [{"key": "n", "label": "Sold"}],
        "data": [{"month": "May", "n": 4}, {"month": "June", "n": 0}],
        "unit": "pcs",
    },
    "KpiCards": {"items": [{"label": "Sold", "value": 4, "delta": "+2", "trend": "up", "hint": "since May"}]},
    "SourceCards": {"items": [{"title": "Page", "url": "https://example.org/a", "snippet": "Said so.", "source": "Example"}]},
    "Checklist": {"title": "To do", "items": [{"label": "Buy", "done": True, "note": "today"}, {"label": "Sell"}]},
    "Timeline": {"events": [{"date": "May", "title": "Began", "description": "In Bern."}]},
    "CodeBlock": {"language": "python", "code": "x = 1"},
    "Diff": {"before": "a\nb", "after": "a\nc"},
    "Callout": {"tone": "warning", "title": "Look", "text": "It is late."},
    "Stack": {"direction": "row", "gap": 4},
    "Card": {"title": "Card", "subtitle": "below"},
    "Heading": {"text": "Head"},
    "Text": {"text": "Some text.", "muted": True},
    "Badge": {"text": "new", "tone": "success"},
    "Link": {"text": "there", "url": "http://example.org"},
    "Image": {"url": "https://example.org/a.png", "alt": "A cat"},
}


# -- made -------------------------------------------------------------------------------------------------


@pytest.mark.case("agents:V01")
def test_a_component_called_gives_its_props_judged_with_version_and_text() -> None:
    shown = score(points=7)

    assert shown == Presentation(component="Score", props={"points": 7, "best": 10}, version=2, fallback_text="7 of 10")
    assert shown.to_json() == {
        "component": "Score",
        "props": {"points": 7, "best": 10},
        "version": 2,
        "fallbackText": "7 of 10",
    }
    assert score({"points": 7}) == score(Score(points=7)) == shown
    assert score.definition.title == "Score"


@pytest.mark.case("agents:V01")
@pytest.mark.parametrize("props", [{}, {"points": "many"}, {"points": 1, "best": None}], ids=["missing", "wrong", "null"])
def test_props_that_do_not_fit_are_refused_by_place(props: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=r"(?s)do not fit Score.*  (points|best): "):
        score(props)


def doubled(n: int) -> int:
    return n * 2


class Doubling(BaseModel):
    n: Annotated[int, AfterValidator(doubled)]


class Reshaping:
    """Makes another shape."""

    def parse(self, value: Any) -> Any:
        return {"whole": f"{value['first']} {value['last']}"}


class Plain(BaseModel):
    n: int


@pytest.mark.case("agents:V02")
@pytest.mark.parametrize(
    ("schema", "props"), [(Doubling, {"n": 1}), (Reshaping(), {"first": "A", "last": "B"})], ids=["again", "shape"]
)
def test_a_transform_that_cannot_be_repeated_needs_output_props(schema: Any, props: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="output_props"):
        create_component(name="X", props=schema)(props)


@pytest.mark.case("agents:V02")
def test_with_output_props_a_transform_is_applied_once_and_never_when_it_is_rendered() -> None:
    component = create_component(name="X", props=Doubling, output_props=Plain)
    registry = ComponentRegistry().register(component, {"text": lambda props, ctx: props["n"]})

    shown = component(n=1)

    assert shown.props == {"n": 2}
    assert registry.render(shown, "text") == 2


@pytest.mark.case("agents:V02")
def test_what_was_made_has_to_fit_the_output_props() -> None:
    class Never(BaseModel):
        other: int

    with pytest.raises(Refused, match="other"):
        create_component(name="X", props=Plain, output_props=Never)(n=1)


class Numbers:
    def parse(self, value: Any) -> Any:
        return {"n": float("nan")}


class Lists:
    def parse(self, value: Any) -> Any:
        return [1]


@pytest.mark.case("agents:V02")
@pytest.mark.parametrize("schema", [Numbers(), Lists()], ids=["nan", "list"])
def test_props_that_are_no_json_object_are_refused(schema: Any) -> None:
    with pytest.raises(Refused, match="no JSON"):
        create_component(name="X", props=schema)({})


@pytest.mark.case("agents:V02")
def test_a_transform_that_only_orders_keys_is_fine() -> None:
    class Ordering:
        def parse(self, value: Any) -> Any:
            return dict(reversed(value.items()))

    assert create_component(name="X", props=Ordering())(a=1, b=2).props == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "parts",
    [
        {"name": "two words", "props": Score},
        {"name": "X", "props": Score, "version": 0},
        {"name": "X", "props": Score, "version": True},
        {"name": "X", "props": Score, "colour": "red"},
        {"name": "X"},
        {"name": "X", "props": object()},
    ],
    ids=["name", "zero", "bool", "unknown", "no-props", "no-schema"],
)
def test_a_component_that_cannot_be_is_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        create_component(**parts)


@pytest.mark.case("agents:V03")
def test_table_and_chart_make_the_built_in_components() -> None:
    assert table(EXAMPLES["DataTable"]).component == "DataTable"
    assert chart(EXAMPLES["Chart"]).component == "Chart"
    assert chart(EXAMPLES["Chart"]).version == 1


@pytest.mark.case("agents:V03")
def test_a_table_without_columns_is_refused() -> None:
    with pytest.raises(Refused, match="columns"):
        table(columns=[], rows=[])


@pytest.mark.parametrize("props", [[1], "x", 3], ids=plain_id)
def test_props_that_are_no_object_are_refused(props: Any) -> None:
    with pytest.raises(Refused, match="DataTable"):
        table(props)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_built_in_component_takes_its_props_and_gives_them_back(name: str) -> None:
    assert BUILT_IN[name](EXAMPLES[name]).props == EXAMPLES[name]


def test_the_built_in_components_are_those_of_the_contract() -> None:
    assert list(BUILT_IN) == list(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_property_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="more"):
        BUILT_IN[name]({**EXAMPLES[name], "more": 1})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("DataTable", {"columns": [{"key": str(i), "label": "x"} for i in range(13)]}),
        ("DataTable", {"rows": [{}] * 501}),
        ("DataTable", {"rows": [{"item": [1]}]}),
        ("Chart", {"data": []}),
        ("Chart", {"data": [{}] * 201}),
        ("Chart", {"series": [{"key": "n"}] * 7}),
        ("Chart", {"type": "pie"}),
        ("KpiCards", {"items": [{"label": "a", "value": 1}] * 9}),
        ("SourceCards", {"items": [{"title": "a"}] * 13}),
        ("Checklist", {"items": [{"label": "a"}] * 51}),
        ("Timeline", {"events": []}),
        ("Callout", {"tone": "pink"}),
        ("Link", {"url": "javascript:alert(1)"}),
        ("Image", {"url": "http://example.org/a.png"}),
        ("Text", {"muted": None}),
    ],
)
def test_built_in_props_have_their_limits(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        BUILT_IN[name]({**EXAMPLES[name], **change})


# -- rendered ----------------------------------------------------------------------------------------------


@pytest.mark.case("agents:V04")
def test_a_renderer_gets_props_and_context() -> None:
    registry = ComponentRegistry().register(score, {"web": lambda props, ctx: (props["points"], ctx)})

    assert registry.render(score(points=3), "web", "ctx") == (3, "ctx")
    assert registry.render(score(points=3).to_json(), "web") == (3, None)


@pytest.mark.case("agents:V04")
@pytest.mark.parametrize(
    "shown",
    [
        Presentation(component="Score", props={"points": 1}, version=1),
        Presentation(component="Score", props={"points": "x"}, version=2),
        {"component": "Score", "props": None, "version": 2},
        {"component": "Score", "props": {"points": 1}, "version": True},
    ],
    ids=["version", "props", "null", "bool"],
)
def test_another_version_or_bad_props_never_reach_a_renderer(shown: Any) -> None:
    ran: list[Any] = []
    registry = ComponentRegistry().register(score, {"web": lambda *args: ran.append(args)})

    with pytest.raises(Refused):
        registry.render(shown, "web")

    assert ran == []


@pytest.mark.case("agents:V05")
def test_a_channel_without_renderer_gets_the_text_renderer_or_the_definitions_own_text() -> None:
    forged = Presentation(component="Score", props={"points": 1, "best": 2}, version=2, fallback_text="forged")
    with_text = ComponentRegistry().register(score, {"text": lambda props, ctx: "rendered"})

    assert with_text.render(forged, "web") == "rendered"
    assert ComponentRegistry().register(score).render(forged, "web") == "1 of 2"


@pytest.mark.case("agents:V05")
def test_registries_know_nothing_of_one_another_and_a_name_is_taken_once() -> None:
    registry = create_component_registry([score, table])

    with pytest.raises(DefinitionError, match="Score"):
        registry.register(score)
    with pytest.raises(NotFound, match="Score"):
        create_component_registry().render(score(points=1), "web")
    assert [one.name for one in registry.catalog] == ["Score", "DataTable"]


@pytest.mark.case("agents:V05")
def test_a_manifest_is_plain_json_without_code() -> None:
    class Untold:
        def parse(self, value: Any) -> Any:
            return value

    registry = create_component_registry([score, create_component(name="Own", props=Untold())])

    first, second = json.loads(json.dumps(registry.manifest))

    assert {key: first[key] for key in ("name", "title", "description", "version")} == {
        "name": "Score",
        "title": "Score",
        "description": "",
        "version": 2,
    }
    assert first["schema"]["required"] == ["points"]
    assert second == {"name": "Own", "title": "", "description": "", "version": 1}


@pytest.mark.case("agents:V06")
def test_what_a_renderer_raises_comes_through() -> None:
    def broken(props: Any, ctx: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ComponentRegistry().register(score, {"web": broken}).render(score(points=1), "web")


# -- negotiated --------------------------------------------------------------------------------------------

SECRET = ComponentDefinition(name="Secret", props=Score, internal=True)
CATALOG = [score, BUILT_IN["Text"], BUILT_IN["Stack"], SECRET]


def can(*pairs: tuple[str, int]) -> dict[str, Any]:
    return {"components": [{"name": name, "version": version} for name, version in pairs]}


@pytest.mark.case("agents:V07")
@pytest.mark.parametrize(
    ("capabilities", "names"),
    [
        (None, ["Score", "Text", "Stack"]),
        (can(), []),
        (can(("Text", 1), ("Score", 1), ("Nobody", 1)), ["Text"]),
        (can(("Text", 1), ("Score", 2), ("Secret", 1)), ["Score", "Text"]),
    ],
    ids=["none", "empty", "version", "internal"],
)
def test_what_a_client_draws_is_what_a_model_may_show(capabilities: Any, names: list[str]) -> None:
    assert [one.name for one in negotiate_catalog(CATALOG, capabilities)] == names


@pytest.mark.case("agents:V08")
@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        [],
        "all",
        {"components": None},
        {"components": {}},
        {"components": [], "more": 1},
        {"components": [None]},
        {"components": [{"name": "Text"}]},
        {"components": [{"name": "Text", "version": 1, "more": 1}]},
        {"components": [{"name": "two words", "version": 1}]},
        can(("Text", 0)),
        can(("Text", True)),
        {"components": [{"name": "Text", "version": 1.0}]},
        can(("Text", 2**53)),
        can(("Text", 1), ("Text", 1)),
    ],
)
def test_capabilities_that_cannot_be_are_refused(capabilities: Any) -> None:
    with pytest.raises(InvalidRequest):
        check_ui_capabilities(capabilities)


@pytest.mark.case("agents:V08")
def test_two_versions_of_one_component_may_be_drawn() -> None:
    assert list(check_ui_capabilities(can(("Text", 1), ("Text", 2))) or ()) == [("Text", 1), ("Text", 2)]


@pytest.mark.case("agents:V09")
def test_what_is_drawn_has_its_version_and_text_and_what_is_not_has_its_text() -> None:
    drawn = judge_ui(CATALOG, can(("Score", 2)), "Score", {"points": 1, "best": 3})
    told = judge_ui(CATALOG, can(("Score", 1)), "Score", {"points": 1, "best": 3})

    assert (drawn.is_drawable, drawn.version, drawn.text) == (True, 2, "1 of 3")
    assert (told.is_drawable, told.text) == (False, "1 of 3")


@pytest.mark.case("agents:V09")
@pytest.mark.case("agents:V10")
@pytest.mark.parametrize(
    ("component", "props", "version"),
    [("Nobody", {}, None), ("Score", {"points": "x"}, None), ("Score", {"points": 1}, 1), (TREE, {"top": {}}, None)],
    ids=["unknown", "props", "version", "tree"],
)
@pytest.mark.parametrize("capabilities", [None, can()], ids=["all", "text-only"])
def test_what_is_wrong_is_an_error_even_where_only_text_is_shown(
    capabilities: Any, component: str, props: Any, version: int | None
) -> None:
    with pytest.raises(Refused):
        judge_ui(CATALOG, capabilities, component, props, version=version)


@pytest.mark.case("agents:V09")
def test_capabilities_without_a_catalog_are_an_error_and_neither_is_none() -> None:
    with pytest.raises(Refused, match="catalog"):
        judge_ui(None, can(), "Score", {})

    assert judge_ui(None, None, "Anything", {"a": 1}).is_drawable


def text_node(text: str) -> dict[str, Any]:
    return {"component": "Text", "props": {"text": text}}


TREE_PROPS = {
    "root": {
        "component": "Stack",
        "children": [text_node("one"), {"component": "Score", "props": {"points": 1, "best": 2}}, text_node("three")],
    }
}


@pytest.mark.case("agents:V09")
def test_a_tree_is_drawn_whole_with_the_versions_of_all_its_components() -> None:
    judged = judge_ui(CATALOG, can(("Text", 1), ("Stack", 1), ("Score", 2)), TREE, TREE_PROPS)

    assert judged.is_drawable
    assert judged.component_versions == {"Stack": 1, "Text": 1, "Score": 2}
    assert judged.props["root"]["children"][1] == {"component": "Score", "props": {"points": 1, "best": 2}, "version": 2}


@pytest.mark.case("agents:V09")
def test_a_tree_with_one_component_that_is_not_drawn_is_the_text_of_all() -> None:
    judged = judge_ui(CATALOG, can(("Text", 1), ("Stack", 1)), TREE, TREE_PROPS)

    assert (judged.is_drawable, judged.text) == (False, "one\n1 of 2\nthree")


@pytest.mark.parametrize(
    ("root", "where"),
    [
        ({"component": "Nobody"}, "root"),
        ({"component": "Stack", "children": [{"component": "Text", "props": {"text": 1}}]}, r"root\.children\.0"),
        ({"component": "Text", "props": {"text": "x"}, "children": [text_node("y")]}, "holds nothing"),
        ({"component": "Stack", "children": {}}, "not a list"),
        ({"component": "Stack", "more": 1}, "root"),
        ("Stack", "root"),
        ({"component": "Stack", "children": [text_node("x")] * 1000}, "1,000"),
    ],
    ids=["unknown", "props", "holds", "children", "key", "text", "many"],
)
def test_a_tree_that_is_wrong_says_where(root: Any, where: str) -> None:
    with pytest.raises(Refused, match=where):
        judge_ui(CATALOG, None, TREE, {"root": root})


def test_a_text_for_stores_has_no_nul_and_no_half_of_a_pair() -> None:
    assert storable_text("a\x00b\ud800c😀") == "a\\u0000b\\ud800c😀"


# -- as text ------------------------------------------------------------------------------------------------


@pytest.mark.case("agents:V10")
@pytest.mark.parametrize("fallback", [None, lambda props: 1 / 0, lambda props: 3], ids=["missing", "raises", "no-text"])
def test_the_default_text_keeps_long_content_whole(fallback: Any) -> None:
    long = "x" * 50_000
    component = create_component(name="Long", title="A title", props=TypeAdapter(dict[str, str]), fallback_text=fallback)

    text = component(content=long).fallback_text or ""

    assert text.startswith("*A title*\n```\n{")
    assert long in text


TEXTS = {
    "DataTable": "*Stock*\n```\nItem   Left\n----  -----\npen   1,200\ncap\n```",
    "Chart": "*Sales*\n```\nMay                ████████████████████ 4 pcs\nJune               ▏ 0 pcs\n```",
    "KpiCards": "• Sold: 4 (▲ +2) — since May",
    "SourceCards": "• Page (Example) https://example.org/a\n  Said so.",
    "Checklist": "*To do*\n[x] Buy — today\n[ ] Sell",
    "Timeline": "• May — Began: In Bern.",
    "CodeBlock": "```\nx = 1\n```",
    "Diff": "```\n  a\n- b\n+ c\n```",
    "Callout": "*Look*\nIt is late.",
    "Stack": "",
    "Card": "*Card*\nbelow",
    "Heading": "*Head*",
    "Text": "Some text.",
    "Badge": "[new]",
    "Link": "there: http://example.org",
    "Image": "A cat: https://example.org/a.png",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_built_in_component_is_text(name: str) -> None:
    assert BUILT_IN[name](EXAMPLES[name]).fallback_text == TEXTS[name]


def test_a_table_as_text_has_fifteen_rows_and_narrow_columns() -> None:
    shown = table(columns=[{"key": "a", "label": "A", "align": "right"}], rows=[{"a": "x" * 40}] * 17).fallback_text or ""
    lines = shown.splitlines()

    assert lines[1] == " " * 27 + "A"
    assert lines[3] == "x" * 27 + "…"
    assert (lines.count(lines[3]), lines[-1]) == (15, "… 2 more rows")


def test_a_chart_as_text_has_twenty_points_of_its_first_series() -> None:
    data = [{"x": f"{'long name ' * 3}{i}", "a": -i, "b": 1000} for i in range(25)]
    lines = (chart(type="line", xKey="x", series=[{"key": "a"}, {"key": "b"}], data=data).fallback_text or "").splitlines()

    assert len(lines) == 22
    assert lines[20] == "long name long na… " + "█" * 20 + " -19"


def test_a_large_difference_is_told_as_all_gone_and_all_new() -> None:
    before, after = "\n".join(f"a{i}" for i in range(501)), "\n".join(f"a{i}" for i in range(500))
    lines = (BUILT_IN["Diff"](before=before, after=after).fallback_text or "").splitlines()

    assert [line[0] for line in lines[1:-1]] == ["-"] * 501 + ["+"] * 500


def test_a_text_cannot_end_its_block() -> None:
    assert (BUILT_IN["CodeBlock"](code="a\n```\nb").fallback_text or "").count("```") == 2


@pytest.mark.parametrize(
    ("component", "props", "given", "told"),
    [
        ("Heading", {"text": "x"}, "other", "*x*"),
        ("Heading", {"text": 1}, "other", "other"),
        ("Mine", {"a": 1}, "other", "other"),
        ("Mine", {"a": 1}, None, '*Mine*\n```\n{\n  "a": 1\n}\n```'),
    ],
    ids=["built-in", "wrong", "unknown", "json"],
)
def test_a_component_is_told_by_what_is_known_of_it(component: str, props: Any, given: str | None, told: str) -> None:
    assert component_text(component, props, given) == told


# -- as HTML --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_built_in_component_is_html_that_is_the_same_each_time(name: str) -> None:
    html = component_html(name, EXAMPLES[name])

    assert html == component_html(name, EXAMPLES[name])
    assert html.startswith('<div class="loom-component">')
    assert "<pre" not in html or name == "CodeBlock"
    for word in ("Stock", "Sales", "Sold", "Said so.", "today", "Began", "x = 1", "It is late.", "below", "Head", "Some text."):
        assert (word in html) == (word in json.dumps(EXAMPLES[name]) and not (name == "Chart" and word == "Sold"))


def filled(value: Any, text: str) -> Any:
    """Props with a hostile text wherever any text may stand."""
    if isinstance(value, Mapping):
        kept = ("type", "xKey", "key", "align", "format", "tone", "trend", "direction", "url")
        return {key: one if key in kept else filled(one, text) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, text) for one in value]
    return text if isinstance(value, str) else value


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_hostile_text_runs_nothing(name: str, text: str) -> None:
    assert executable(component_html(name, filled(EXAMPLES[name], text))) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_unknown_component_runs_nothing(text: str) -> None:
    html = component_html(text, {text: text}) + component_html("Mine", {}, text) + component_html("Text", {"text": [text]})

    assert executable(html) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_the_labels_of_a_line_chart_run_nothing(text: str) -> None:
    props = {**filled(EXAMPLES["Chart"], text), "type": "line", "series": [{"key": "n", "label": text}, {"key": text}]}

    assert [found for found in executable(component_html("Chart", props)) if "svg" not in found] == []


def test_a_line_is_broken_where_a_value_is_missing() -> None:
    data = [{"x": 1, "n": 1}, {"x": 2, "n": None}, {"x": 3, "n": 3}, {"x": 4, "n": 2}]

    html = component_html("Chart", {"type": "line", "xKey": "x", "series": [{"key": "n"}], "data": data})

    assert html.count("M") == 2
    assert "from 0 to 3, 1 to 4" in html


@pytest.mark.parametrize("url", ["javascript:alert(1)", " https://example.org", "java\nscript:x", "data:text/html,x"])
def test_only_addresses_of_the_web_become_links(url: str) -> None:
    row = {"columns": [{"key": "a", "label": "A", "format": "link"}], "rows": [{"a": url}]}
    html = component_html("DataTable", row) + component_html("SourceCards", {"items": [{"title": "t", "url": url}]})

    assert executable(html) == []
    assert ("<a " in html) == ("https" in url)


def test_a_picture_of_another_site_is_a_link_and_nothing_is_fetched() -> None:
    html = component_html("Image", EXAMPLES["Image"])

    assert "<img" not in html
    assert ">A cat</a>" in html


def test_a_tree_is_html_and_what_does_not_fit_is_its_text() -> None:
    tree = {"root": {"component": "Card", "props": {"title": "C"}, "children": [text_node("one"), text_node("two")]}}

    html = component_html(TREE, tree)

    assert html.index("C</strong>") < html.index(">one<") < html.index(">two<")
    assert "1 of 2" in component_html(TREE, TREE_PROPS, "one\n1 of 2\nthree")
