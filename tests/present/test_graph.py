"""A graph as SVG, Mermaid and text: every edge kind can be told apart, no name escapes, and nothing moves by itself."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomnb.present import EdgeKind, Graph, GraphEdge, GraphNode
from loomnb.present.frames import arrange_framed
from loomnb.present.layout import Box, Line, arrange
from tests.helpers import calls_of
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


def many_places(count: int) -> Graph:
    places = ["start", *(f"place_{i}" for i in range(1, count - 1)), "end"]
    edges: list[GraphEdge] = []
    for i, place in enumerate(places[:-1]):
        edges.append(edge(f"go_{i}", place, places[i + 1], retries=2))
        if i % 3 == 0:
            edges.append(edge(f"go_{i}", place, f"place_{count - 10}", "error"))
        if i % 5 == 1:
            edges.append(edge(f"skip_{i}", place, places[min(count - 1, i + 8)], "manual"))
        if i % 7 == 2:
            edges.append(edge(f"back_{i}", place, places[max(1, i - 9)], guard="not_yet", priority=i))
        if i % 11 == 4:
            edges.append(edge(f"again_{i}", place, place, "manual"))
    return graph(*edges)


def test_four_times_as_many_places_cost_hardly_more_than_four_times_as_much() -> None:
    few, many = (calls_of(many_places(count)._repr_mimebundle_) for count in (25, 100))

    assert many < 8 * few


def test_a_chain_of_thousands_is_no_deep_recursion() -> None:
    boxes = [Box(60, 30)] * 3000

    placed = arrange(boxes, [Line(i, i + 1, 30, 20) for i in range(2999)])

    assert len(placed.routes) == 2999


# -- stages ---------------------------------------------------------------------------------------


def stages(layout: dict[str, list[str]], *edges: GraphEdge) -> Graph:
    steps = [GraphNode(name=f"{stage}/{step}", group=stage) for stage, names in layout.items() for step in names]
    nodes = (GraphNode(name="start", kind="start"), *steps, GraphNode(name="end", kind="end"))
    return Graph(title="Deliver", nodes=nodes, edges=edges)


DELIVER = stages(
    {"spec": ["draft", "check"], "build": ["write", "test"]},
    edge("begin", "start", "spec/draft"),
    edge("drafted", "spec/draft", "spec/check"),
    edge("good", "spec/check", "build/write"),
    edge("written", "build/write", "build/test"),
    edge("unclear", "build/test", "spec/draft"),
    edge("green", "build/test", "end"),
    edge("check", "spec/check", "end", "error"),
)
DELIVER_WAY = [("start", ""), ("spec/draft", "begin"), ("spec/check", "drafted"), ("build/write", "good")]


def frames_of(picture: Graph) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right, bottom of each stage's frame: the only boxes that are given by a corner and stand in front of no text."""
    out = {}
    for group in ET.fromstring(picture.svg).iter(f"{SVG}g"):
        title, rect = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        if title is not None and rect is not None and rect.get("rx") == "8" and group.find(f"{SVG}path") is None:
            x, y, w, h = (float(rect.get(k, "")) for k in ("x", "y", "width", "height"))
            out[(title.text or "").split(",")[0]] = (x, y, x + w, y + h)
    return out


def places_of(picture: Graph) -> dict[str, tuple[float, float, float, float]]:
    out = {}
    for group in ET.fromstring(picture.svg).iter(f"{SVG}g"):
        title, rect = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        if title is not None and rect is not None and rect.get("rx") != "8" and group.find(f"{SVG}path") is None:
            x, y, w, h = (float(rect.get(k, "")) for k in ("x", "y", "width", "height"))
            out[(title.text or "").split(",")[0]] = (x, y, x + w, y + h)
    return out


def test_the_steps_of_a_stage_stand_in_its_frame_by_their_own_names() -> None:
    frames, places = frames_of(DELIVER), places_of(DELIVER)

    assert list(frames) == ["spec", "build"]
    for name, (left, top, right, bottom) in places.items():
        around = [g for g, f in frames.items() if f[0] < left and f[1] < top and right < f[2] and bottom < f[3]]
        assert around == ([name.split("/")[0]] if "/" in name else [])
    assert {"spec", "draft", "write", "start"} <= set(texts(DELIVER))
    assert "spec/draft" not in texts(DELIVER)
    assert frames["spec"][3] < frames["build"][1] < frames["build"][3] < places["end"][1]


def test_a_label_is_written_instead_of_the_name() -> None:
    picture = Graph(title="x", nodes=(GraphNode(name="a/b", group="a", label="Bee"), GraphNode(name="c", label="Sea")), edges=())

    assert texts(picture) == ["x", "a", "Bee", "Sea"]


def test_the_current_stage_is_marked_and_not_by_colour_alone() -> None:
    lit = DELIVER.lit(DELIVER_WAY, "build/write", "running")
    frames = {
        (title.text or ""): rect
        for g in walk(lit)
        if (title := g.find(f"{SVG}title")) is not None and (rect := g.find(f"{SVG}rect")) is not None and rect.get("rx") == "8"
    }

    assert frames["build, the stage the run is in"].get("stroke-width") == "2"
    assert frames["spec"].get("stroke-width") == "1"
    assert "var(--jp-brand-color1" in (frames["spec"].get("style") or "")
    assert lit.text.splitlines()[3:5] == ["● spec", "  ● draft"]
    assert "▶ build\n  ▶ write" in lit.text


def test_a_step_of_a_stage_that_is_gone_stays_in_it() -> None:
    lit = DELIVER.lit([*DELIVER_WAY[:2], ("spec/old", "was")], "spec/old", "failed")

    assert [(n.group, n.written) for n in lit.nodes if n.name == "spec/old"] == [("spec", "old")]


def test_text_and_mermaid_tell_stages_too() -> None:
    assert DELIVER.text.splitlines() == [
        "Deliver",
        "○ start",
        "    begin → spec/draft",
        "○ spec",
        "  ○ draft",
        "      drafted → check",
        "  ○ check",
        "      good → build/write",
        "      check fails → end",
        "○ build",
        "  ○ write",
        "      written → test",
        "  ○ test",
        "      unclear → spec/draft",
        "      green → end",
        "○ end",
    ]
    assert DELIVER.mermaid.splitlines()[:10] == [
        "flowchart TD",
        '  n0(["start"])',
        '  subgraph g0["spec"]',
        '    n1("draft")',
        '    n2("check")',
        "  end",
        '  subgraph g1["build"]',
        '    n3("write")',
        '    n4("test")',
        "  end",
    ]
    assert "  style g1 stroke:#1976d2,stroke-width:2px" in DELIVER.lit(DELIVER_WAY, "build/write", "x").mermaid.splitlines()


@pytest.mark.parametrize("text", AWKWARD)
def test_no_stage_escapes(text: str) -> None:
    picture = stages({text: [text, "b"], "second": [text]}, edge("a", "start", f"{text}/b"), edge(text, f"{text}/b", "end"))

    assert [f for f in executable(picture.html) if f != "<svg>"] == []
    assert ET.fromstring(picture.svg) is not None
    assert picture.text.count("\n") == stages({"x": ["y", "b"], "second": ["y"]}, *picture.edges[:0]).text.count("\n") + 2
    assert re.sub(r'"[^"]*"', "", picture.mermaid).count("subgraph g") == 2
    assert picture._repr_mimebundle_()["text/markdown"].count("```") == 2


ENDS = st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["", "dashed"]))


@given(st.lists(st.integers(0, 3), min_size=10, max_size=10), st.lists(ENDS, max_size=24))
def test_in_frames_nothing_lies_on_another_and_every_line_reaches_its_box(
    of: list[int], ends: list[tuple[int, int, str]]
) -> None:
    boxes = [Box(60 + 10 * i, 30) for i in range(10)]
    lines = [Line(a, b, 40 + 5 * i, 20 if i % 2 else 33, kind=kind) for i, (a, b, kind) in enumerate(ends)]
    titles = [0.0, 60.0, 200.0, 90.0]
    placed, frames = arrange_framed(boxes, lines, of, titles)
    middles = [*placed.middles, *(r.label for r in placed.routes)]
    sizes = [*((b.width, h) for b, h in zip(boxes, placed.heights, strict=True)), *((line.width, line.height) for line in lines)]
    found = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(middles, sizes, strict=True)]
    found += [(f.left + 10, f.top + 2, f.left + 10 + t, f.top + 20) for f, t in zip(frames, titles, strict=True) if f]

    for a, b in combinations(found, 2):
        assert a[2] <= b[0] + 0.01 or b[2] <= a[0] + 0.01 or a[3] <= b[1] + 0.01 or b[3] <= a[1] + 0.01
    kept = [f for f in frames if f]
    assert all(above.top + above.height < below.top for above, below in pairwise(kept))
    for i, (x, y) in enumerate(placed.middles):
        frame = frames[of[i]]
        assert frame is None or (frame.left < x < frame.left + frame.width and frame.top < y < frame.top + frame.height)
    for line, route in zip(lines, placed.routes, strict=True):
        assert abs(route.tip[0] - placed.middles[line.target][0]) <= boxes[line.target].width / 2 + 0.01
        points = [p for curve in route.curves for p in curve]
        assert all(-0.01 <= x <= placed.width + 0.01 and -0.01 <= y <= placed.height + 0.01 for x, y in points)
        x, y = route.label
        for a, b in pairwise([c for c in route.curves if len(c) > 1]):  # one unbroken way, but for the label that stands in it
            (ax, ay), (bx, by) = a[-1], b[0]
            is_joined = abs(ax - bx) + abs(ay - by) < 0.01
            assert is_joined or (abs(ax - x) < 0.01 and abs(bx - x) < 0.01 and abs(ay + by - 2 * y) < 0.01)


@given(st.lists(st.integers(0, 3), min_size=10, max_size=10), st.lists(ENDS, max_size=24))
def test_no_line_between_stages_runs_along_another_of_a_different_net(of: list[int], ends: list[tuple[int, int, str]]) -> None:
    """Crossing is fine; lying on one another for a while is not: nobody could tell where each of them leads."""
    lines = [Line(a, b, 40, 20, kind=kind) for a, b, kind in ends if of[a] != of[b]]
    placed, frames = arrange_framed([Box(60, 30)] * 10, lines, of, [0.0, 60.0, 60.0, 60.0])
    bands = [(f.top, f.top + f.height) for f in frames if f]
    level: list[tuple[int, float, float, float]] = []  # net, y, from x to x
    nets = {key: i for i, key in enumerate(dict.fromkeys((line.target, line.kind) for line in lines))}
    for line, route in zip(lines, placed.routes, strict=True):
        for curve in route.curves:
            at = curve[0]
            for a, b, end in zip(curve[1::3], curve[2::3], curve[3::3], strict=True):
                outside = all(not (low < at[1] < high) for low, high in bands)
                if outside and at[1] == a[1] == b[1] == end[1]:
                    level.append((nets[line.target, line.kind], at[1], *sorted((at[0], end[0]))))
                at = end

    for (n, y, a0, a1), (m, z, b0, b1) in combinations(level, 2):
        assert n == m or abs(y - z) > 1 or a1 <= b0 + 0.01 or b1 <= a0 + 0.01


def many_stages(count: int) -> Graph:
    layout = {f"stage_{i}": [f"step_{j}" for j in range(8)] for i in range(count)}
    names = [f"{s}/{step}" for s, steps in layout.items() for step in steps]
    edges = [edge("next", a, b) for a, b in pairwise(["start", *names, "end"])]
    edges += [edge("again", names[i], names[i - 2]) for i in range(5, len(names), 3)]
    edges += [edge("abort", name, "end", "error") for name in names[::4]]
    edges += [edge("back", names[i], names[i - 11]) for i in range(12, len(names), 8)]
    return stages(layout, *edges)


def test_four_times_as_many_stages_cost_hardly_more_than_four_times_as_much() -> None:
    few, many = (calls_of(lambda count=count: many_stages(count).svg) for count in (3, 12))  # type: ignore[misc]

    assert many < 8 * few
