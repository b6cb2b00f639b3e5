"""A graph as SVG, Mermaid and text: every edge kind can be told apart, no name escapes, and nothing moves by itself."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomnb.present import EdgeKind, Graph, GraphEdge, GraphNode
from loomnb.present.layout import Box, Line, arrange
from tests.present.hostile import HOSTILE, executable

SVG = "{http://www.w3.org/2000/svg}"
KINDS: list[EdgeKind] = ["automatic", "manual", "error", "retry", "past"]
AWKWARD = [*HOSTILE, "a\x00b\x1b[31mc", "line\nbreak", "\u202egnp.exe", "```\nfence", "<!--", "]]>", "\ud800", "日本語" * 30, " "]


def graph(*edges: GraphEdge, **rest: Any) -> Graph:
    names = dict.fromkeys(["start", *(p for e in edges for p in (e.from_, e.to))])
    kinds = {"start": "start", "end": "end"}
    nodes = tuple(GraphNode(name=n, kind=kinds.get(n, "place")) for n in names)  # type: ignore[arg-type]
    return Graph(title="Notes", nodes=nodes, edges=edges, **rest)


def edge(name: str, from_: str, to: str, kind: EdgeKind = "automatic", **rest: Any) -> GraphEdge:
    return GraphEdge(name=name, from_=from_, to=to, kind=kind, **rest)


NOTES = graph(
    edge("draft", "start", "review", retries=3),
    edge("draft", "start", "trouble", "error"),
    edge("approve", "review", "end", "manual", guard="is_good", priority=10),
    edge("revise", "review", "start", "retry"),
    edge("note", "review", "review", "manual"),
    edge("fix", "trouble", "start", "manual"),
)


def line_of(picture: Graph, label: str) -> ET.Element:
    """The line of an edge, found by the tooltip of its group."""
    for group in ET.fromstring(picture.svg).iter(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        if title is not None and (title.text or "").startswith(f"{label}"):
            found = group.find(f"{SVG}path")
            assert found is not None
            return found
    raise AssertionError(label)


def texts(picture: Graph) -> list[str]:
    return [t.text or "" for t in ET.fromstring(picture.svg).iter(f"{SVG}text")]


def walk(picture: Graph) -> Iterator[ET.Element]:
    return ET.fromstring(picture.svg).iter()


# -- the SVG --------------------------------------------------------------------------------------


def test_every_place_and_transition_is_written() -> None:
    assert {"start", "review", "trouble", "end", "draft", "draft fails", "approve", "revise again", "note", "fix"} <= set(
        texts(NOTES)
    )


def test_guards_priorities_and_retries_are_written() -> None:
    assert {"[is_good] · priority 10", "3 retries"} <= set(texts(NOTES))


@pytest.mark.parametrize("kind", ["error", "retry"])
def test_what_happens_on_failure_is_thin_and_dashed(kind: EdgeKind) -> None:
    line = line_of(
        graph(edge("go", "start", "end"), edge("go", "start", "far", kind)), f"go {'fails' if kind == 'error' else 'again'}"
    )

    assert (line.get("stroke-dasharray"), line.get("stroke-width")) == ("5 4", "1")


def test_a_transition_is_a_whole_line() -> None:
    assert line_of(NOTES, "draft:").get("stroke-dasharray") is None


def test_an_answer_is_framed_and_an_automatic_transition_is_not() -> None:
    framed = [
        (title.text or "").split(":")[0]
        for g in walk(NOTES)
        if (title := g.find(f"{SVG}title")) is not None and g.find(f"{SVG}path") is not None and g.find(f"{SVG}rect") is not None
    ]

    assert sorted(framed) == [f"{n} (waits for an answer)" for n in ("approve", "fix", "note")]


def test_start_has_its_dot_and_end_its_double_border() -> None:
    marked = {
        (title.text or ""): (len(g.findall(f"{SVG}circle")), len(g.findall(f"{SVG}rect")))
        for g in walk(NOTES)
        if (title := g.find(f"{SVG}title")) is not None and g.tag == f"{SVG}g" and g.find(f"{SVG}path") is None
    }

    assert marked == {"start": (1, 1), "review": (0, 1), "trouble": (0, 1), "end": (0, 2)}


@pytest.mark.parametrize(
    ("kinds", "said"), [(KINDS[:1], ""), (KINDS, "framed: waits for an answer · dashed: on failure · dotted")]
)
def test_the_key_names_only_what_is_drawn(kinds: list[EdgeKind], said: str) -> None:
    picture = graph(*(edge(k, "start", "end", k) for k in kinds))

    assert texts(picture)[-1].startswith(said)
    assert ("framed" in picture.svg) == bool(said)


def test_a_screen_reader_gets_an_image_with_a_name_and_a_description() -> None:
    root = ET.fromstring(NOTES.svg)

    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "Notes"
    assert root.findtext(f"{SVG}desc") == "4 places, 4 transitions, 3 of which wait for an answer."


def test_it_takes_its_colour_from_the_page() -> None:
    colours = {v for e in walk(NOTES) for v in (e.get("stroke"), e.get("fill")) if v not in (None, "none")}

    assert colours == {"currentColor"}


def test_two_pictures_on_a_page_share_nothing() -> None:
    """No ids and no style sheet: those of one would be taken for the other's."""
    assert all(e.get("id") is None and not e.tag.endswith(("style", "defs", "script", "use")) for e in walk(NOTES))


def test_it_asks_for_nothing_outside_itself() -> None:
    assert not re.search(r"url\(|href|src=", NOTES.svg)
    assert NOTES.svg.count("http") == 1


# -- a run's way ----------------------------------------------------------------------------------

WAY = [("start", ""), ("review", "draft"), ("review", "note")]


def test_the_way_taken_and_the_current_place_are_lit() -> None:
    lit = NOTES.lit(WAY, "review", "waiting for an answer")

    assert [e.name for e in lit.edges if e.taken] == ["draft", "note"]
    assert [n.name for n in lit.nodes if n.visited] == ["start", "review"]
    assert lit.current == "review"


def test_lighting_is_not_by_colour_alone() -> None:
    lit = NOTES.lit(WAY, "review", "waiting for an answer")

    assert line_of(lit, "draft:").get("stroke-width") == "2.6"
    assert line_of(lit, "fix").get("stroke-width") == "1.3"
    assert "review, where the run is" in [t.text for t in walk(lit) if t.tag == f"{SVG}title"]
    assert "▶ review" in lit.text
    assert "✓ note" in lit.text


def test_a_failure_that_leads_where_success_does_counts_as_success() -> None:
    lit = graph(edge("go", "start", "end"), edge("go", "start", "end", "error")).lit([("start", ""), ("end", "go")], "end", "x")

    assert [(e.kind, e.taken) for e in lit.edges] == [("automatic", True), ("error", False)]


def test_a_step_the_definition_no_longer_has_is_added_as_past() -> None:
    lit = NOTES.lit([("start", ""), ("old", "gone"), ("review", "back")], "review", "failed")

    assert [(e.name, e.from_, e.to) for e in lit.edges if e.kind == "past"] == [
        ("gone", "start", "old"),
        ("back", "old", "review"),
    ]
    assert "old" in texts(lit)


def test_a_long_way_round_a_circle_is_drawn_once() -> None:
    lit = NOTES.lit(WAY * 1000, "review", "running")

    assert len(lit.edges) == len(NOTES.edges) + 1  # from review to start, which nothing leads along


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", AWKWARD)
def test_no_name_escapes(text: str) -> None:
    picture = graph(
        *(edge(text, "start", text, kind, guard=text) for kind in KINDS), edge(text, text, "end"), status=text, note=text
    )
    html = picture.html
    root = ET.fromstring(picture.svg)  # it is well-formed: what XML forbids is gone

    assert [f for f in executable(html) if f != "<svg>"] == []
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {"svg", "title", "desc", "text", "g", "path", "rect", "circle"}
    assert html.count("<svg") == 1


@pytest.mark.parametrize("text", AWKWARD)
def test_no_name_leaves_its_line_of_mermaid_or_text(text: str) -> None:
    hostile, plain = (graph(edge(t, "start", t, guard=t), edge(t, t, "end")) for t in (text, "plain"))
    fenced = hostile._repr_mimebundle_()["text/markdown"]

    assert hostile.mermaid.count("\n") == plain.mermaid.count("\n")
    assert re.sub(r'"[^"]*"', "", hostile.mermaid) == re.sub(r'"[^"]*"', "", plain.mermaid)
    assert hostile.text.count("\n") == plain.text.count("\n")
    assert fenced.count("```") == 2
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\ud800-\udfff]", hostile.text + hostile.mermaid + hostile.svg)


def test_a_long_name_is_cut_and_its_tooltip_has_the_whole_of_it() -> None:
    name = "a_very_long_name_" * 10
    picture = graph(edge("go", "start", name))

    assert max(map(len, texts(picture))) == 36
    assert name in [t.text for t in walk(picture)]


# -- the other forms ------------------------------------------------------------------------------


def test_the_text_says_the_same() -> None:
    assert NOTES.text.splitlines() == [
        "Notes",
        "○ start",
        "    draft → review  3 retries",
        "    draft fails → trouble",
        "○ review",
        "    approve (answer) → end  [is_good] · priority 10",
        "    revise again → start",
        "    note (answer) → review",
        "○ trouble",
        "    fix (answer) → start",
        "○ end",
    ]


def test_the_mermaid_text_says_the_same() -> None:
    assert NOTES.lit(WAY, "review", "waiting").mermaid.splitlines() == [
        "flowchart TD",
        '  n0(["start"])',
        '  n1("review")',
        '  n2("trouble")',
        '  n3((("end")))',
        '  n0 -->|"draft 3 retries"| n1',
        '  n0 -.->|"draft fails"| n2',
        '  n1 ==>|"approve #91;is_good#93; · priority 10"| n3',
        '  n1 -.->|"revise again"| n0',
        '  n1 ==>|"note"| n1',
        '  n2 ==>|"fix"| n0',
        "  linkStyle 0,4 stroke:#1976d2,stroke-width:3px",
        "  classDef visited stroke:#1976d2",
        "  class n0 visited",
        "  classDef current stroke:#1976d2,stroke-width:4px",
        "  class n1 current",
    ]


def test_the_bundle_has_four_forms_with_the_same_svg_in_two() -> None:
    bundle = NOTES._repr_mimebundle_()

    assert list(bundle) == ["text/plain", "text/html", "image/svg+xml", "text/markdown"]
    assert bundle["image/svg+xml"] in bundle["text/html"]
    assert bundle["text/plain"] == repr(NOTES)


def test_where_a_page_drops_the_svg_its_words_do_not_show_and_the_text_form_stays() -> None:
    """JupyterLab takes SVG out of what it does not trust and leaves its words; at size 0 they take no room."""
    before, svg, after = re.split("(<svg.*</svg>)", NOTES.html, flags=re.DOTALL)

    assert before.endswith('font-size:0">')
    assert 'font-size="12"' in svg
    assert "<pre>Notes\n○ start" in after


def test_it_is_the_same_in_another_process() -> None:
    code = (
        "import sys, hashlib; sys.path.insert(0, '.')\n"
        "from tests.present.test_graph import NOTES, WAY\n"
        "print(hashlib.sha256(''.join(NOTES.lit(WAY, 'review', 'x')._repr_mimebundle_().values()).encode()).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=Path(__file__).parents[2], env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip

    assert len(said) == 1


# -- the layout -----------------------------------------------------------------------------------


def rectangles(boxes: list[Box], lines: list[Line]) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom of every box and label."""
    placed = arrange(boxes, lines)
    middles = [*placed.middles, *(r.label for r in placed.routes)]
    sizes = [*((b.width, h) for b, h in zip(boxes, placed.heights, strict=True)), *((line.width, line.height) for line in lines)]
    return [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(middles, sizes, strict=True)]


@given(st.integers(1, 9).flatmap(lambda n: st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=24)))
def test_no_box_and_no_label_lies_on_another(ends: list[tuple[int, int]]) -> None:
    boxes = [Box(60 + 10 * i, 30) for i in range(9)]
    lines = [Line(a, b, 40 + 5 * i, 20 if i % 2 else 33, kind="x" if i % 3 else "") for i, (a, b) in enumerate(ends)]

    for a, b in combinations(rectangles(boxes, lines), 2):
        assert a[2] <= b[0] + 0.01 or b[2] <= a[0] + 0.01 or a[3] <= b[1] + 0.01 or b[3] <= a[1] + 0.01


def test_lines_lead_down_unless_they_lead_back() -> None:
    placed = arrange([Box(60, 30)] * 3, [Line(0, 1, 9, 9), Line(1, 2, 9, 9), Line(2, 0, 9, 9), Line(1, 1, 9, 9)])

    assert [r.heading for r in placed.routes] == ["down", "down", "up", "left"]
    assert [y for _, y in placed.middles] == sorted(y for _, y in placed.middles)


def test_a_line_begins_and_ends_at_the_borders_of_its_boxes() -> None:
    placed = arrange([Box(60, 30), Box(80, 30)], [Line(0, 1, 30, 20)])
    (route,) = placed.routes

    assert route.curves[0][0][1] == placed.middles[0][1] + 15
    assert route.curves[-1][-1] == route.tip == (route.tip[0], placed.middles[1][1] - 15)


def test_lines_of_one_kind_to_one_box_share_a_trunk() -> None:
    chain = [Line(i, i + 1, 30, 20) for i in range(5)]
    placed = arrange([Box(60, 30)] * 6, [*chain, *(Line(i, 5, 30, 20, kind=k) for i, k in enumerate(["x", "x", "y"]))])
    first, second, other = (set(r.curves) for r in placed.routes[5:])

    assert first & second
    assert not (first | second) & other


def test_what_dashed_lines_share_is_drawn_once() -> None:
    """Twice, the dashes of one would fill the gaps of the other."""
    steps = [edge(f"go_{i}", f"p{i}" if i else "start", f"p{i + 1}") for i in range(5)]
    failing = graph(*steps, *(edge(e.name, e.from_, "p5", "error") for e in steps[:3]))
    dashed = [e.get("d", "") for e in walk(failing) if e.get("stroke-dasharray")]
    pieces = [piece for d in dashed for piece in d.split("M")[1:]]

    assert len(pieces) == len(set(pieces))


def test_the_last_place_stands_lowest() -> None:
    picture = graph(edge("skip", "start", "end"), edge("a", "start", "b"), edge("b", "b", "c"), edge("c", "c", "b"))
    ys = {t.text: float(t.get("y", "")) for t in walk(picture) if t.tag == f"{SVG}text"}

    assert ys["end"] >= max(ys[p] for p in ("start", "b", "c"))


def test_a_graph_of_one_place_is_drawn() -> None:
    assert texts(graph()) == ["Notes", "start"]


# -- size -----------------------------------------------------------------------------------------


def a_hundred_places() -> Graph:
    places = ["start", *(f"place_{i}" for i in range(1, 99)), "end"]
    edges: list[GraphEdge] = []
    for i, place in enumerate(places[:-1]):
        edges.append(edge(f"go_{i}", place, places[i + 1], retries=2))
        if i % 3 == 0:
            edges.append(edge(f"go_{i}", place, "place_90", "error"))
        if i % 5 == 1:
            edges.append(edge(f"skip_{i}", place, places[min(99, i + 8)], "manual"))
        if i % 7 == 2:
            edges.append(edge(f"back_{i}", place, places[max(1, i - 9)], guard="not_yet", priority=i))
        if i % 11 == 4:
            edges.append(edge(f"again_{i}", place, place, "manual"))
    return graph(*edges)


def test_a_hundred_places_are_drawn_in_200_ms() -> None:
    def once() -> float:
        picture = a_hundred_places()
        start = time.process_time()
        picture._repr_mimebundle_()
        return time.process_time() - start

    assert min(once() for _ in range(5)) < 0.2


def test_a_chain_of_thousands_is_no_deep_recursion() -> None:
    boxes = [Box(60, 30)] * 3000

    placed = arrange(boxes, [Line(i, i + 1, 30, 20) for i in range(2999)])

    assert len(placed.routes) == 2999
