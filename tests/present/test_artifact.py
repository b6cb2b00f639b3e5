"""Artifacts as text and HTML: which form fits, what changed, how light it stays; and nothing of one can run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomnb.present import (
    ArtifactView,
    Revision,
    artifact_form,
    artifact_forms,
    artifact_html,
    artifact_plain,
    artifact_raw,
    branch_html,
    changes_between,
    diff_html,
    diff_plain,
    tree_html,
    tree_plain,
)
from tests.helpers import calls_of
from tests.present.hostile import HOSTILE, executable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, width=16) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def view(*data: Any) -> ArtifactView:
    revisions = [Revision(number, one, f"2026-01-0{number}T00:00:00.000Z") for number, one in enumerate(data, 1)]
    return ArtifactView(flow="deliver", stage="spec", current=revisions[-1], earlier=lambda: revisions[:-1], id="artifact-1")


# -- which form -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "form"),
    [
        ("# Title", "markdown"),
        ("", "markdown"),
        ({"markdown": "# Title"}, "markdown"),
        ({"title": "T", "tags": None, "body": "text"}, "markdown"),
        ({"content": "text"}, "markdown"),
        ({"content": "text", "tags": ["a"]}, "tree"),
        ({"content": "  "}, "tree"),
        ({"markdown": 1, "content": "text"}, "tree"),
        ([{"a": 1}, {"a": 2, "b": None}], "table"),
        ({"columns": ["a", "b"], "rows": [[1, 2], {"a": 3}]}, "table"),
        ({"columns": ["a"], "rows": []}, "table"),
        ({"columns": ["a"], "rows": [[1, 2]]}, "tree"),
        ({"columns": ["a", "a"], "rows": [[1, 2]]}, "tree"),
        ({"columns": ["a"], "rows": [[1]], "more": 1}, "tree"),
        ([{"a": [1]}], "tree"),
        ([{"a": 1}, 2], "tree"),
        ([{f"k{i}": i for i in range(41)}], "tree"),
        ([], "tree"),
        ([1, 2], "tree"),
        (None, "tree"),
        (7, "tree"),
    ],
)
def test_a_value_is_shown_in_the_form_that_fits_it(data: Any, form: str) -> None:
    assert artifact_form(data) == form


def test_only_the_forms_that_fit_are_offered() -> None:
    assert artifact_forms("text") == ["markdown", "raw"]
    assert artifact_forms({"body": "text"}) == ["markdown", "tree", "raw"]
    assert artifact_forms([{"a": 1}]) == ["table", "tree", "raw"]
    assert artifact_forms({"a": [1]}) == ["tree", "raw"]


def test_what_stands_beside_a_text_is_told_above_it() -> None:
    html = artifact_html({"title": "Plan", "draft": True, "body": "# Why\n\n*so*"})

    assert html.index("Plan") < html.index("yes") < html.index("<h1>Why</h1>") < html.index("<em>so</em>")
    assert artifact_plain({"title": "Plan", "body": "one\ntwo"}) == "Title: Plan\n\none\ntwo"


def test_a_cell_without_a_value_is_empty_and_null_is_said() -> None:
    html = artifact_html([{"a": 1, "b": None}, {"a": 2.5}])

    assert "<td align=right>1</td>" in html
    assert "<td>null</td>" in html
    assert "<td></td>" in html
    assert artifact_plain([{"a": 1, "b": "x"}]).splitlines() == ["a  b", "─  ─", "1  x"]


def test_a_long_table_is_shown_from_a_row_on() -> None:
    rows = [{"n": i} for i in range(120)]

    assert "70 more rows" in artifact_html(rows)
    assert ">100<" in artifact_html(rows, "table", 100)
    assert "more rows" not in artifact_html(rows, "table", 100)


def test_raw_is_the_text_itself_or_indented_json() -> None:
    assert artifact_raw("a\nb") == "a\nb"
    assert artifact_raw({"é": [1]}) == '{\n  "é": [\n    1\n  ]\n}'
    assert (
        artifact_html({"a": "<b>"}, "raw")
        == '<pre style="white-space:pre-wrap">{\n  &quot;a&quot;: &quot;&lt;b&gt;&quot;\n}</pre>'
    )


# -- the tree -------------------------------------------------------------------------------------


def test_a_tree_folds_by_depth_and_writes_small_values_on_their_line() -> None:
    html = tree_html({"point": {"x": 1, "y": 2}, "deep": {"deeper": {"deepest": {"a": "b"}, "c": 1}}})

    assert "{&quot;x&quot;: 1, &quot;y&quot;: 2}" in html
    assert re.findall(r"<details( open)?>", html) == [" open", ""]


def test_a_large_tree_stays_light_and_says_how_to_get_the_rest() -> None:
    data = {"rows": [{"id": i, "tags": ["a", ["b"]]} for i in range(5000)], "last": "x"}

    assert calls_of(lambda: tree_html(data)) < 60_000  # what is left out is not looked at
    html = tree_html(data)
    assert len(html) < 120_000
    assert "… 4,900 more <code>[&quot;rows&quot;][100:]</code>" in html
    assert 'data-path="[&quot;rows&quot;]" data-from="100"' in html
    assert ">last<" in html  # the first branch does not take all the room


def test_a_branch_is_what_was_left_out() -> None:
    data = {"rows": [{"id": i, "tags": ["a", ["b"]]} for i in range(5000)]}

    assert ">4,999<" not in (branch := branch_html(data, ["rows"], 100))
    assert ">100<" in branch
    assert "[&quot;rows&quot;][200:]" in branch
    assert ">a<" not in branch_html(data, ["rows", 7], 0)
    assert "7" in branch_html(data, ["rows", 7], 0)
    assert branch_html(data, ["rows", 7000], 0) == branch_html(data, ["nope"], 0) == branch_html(data, ["rows", "x"], 0) == ""


def test_a_long_text_is_folded_and_cut() -> None:
    html = tree_html({"text": "word " * 10_000, "short": "s"})

    assert "50,000 characters" in html
    assert "… 30,000 more characters" in html
    assert len(html) < 30_000


def test_deep_nesting_is_no_deep_picture() -> None:
    value: Any = "end"
    for _ in range(400):
        value = {"in": value}

    assert tree_html(value).count("<details") < 30
    assert "[&quot;in&quot;][&quot;in&quot;]" in tree_html(value)


def test_a_large_value_is_cut_as_text() -> None:
    text = tree_plain(list(range(100_000)))

    assert text.splitlines()[:2] == ["[", "  0,"]
    assert (text.count("\n"), text[-1]) == (60, "…")
    assert max(map(len, tree_plain({"text": "x" * 10_000}).splitlines())) == 300


# -- what changed ---------------------------------------------------------------------------------


def told(old: Any, new: Any) -> list[tuple[str, tuple[Any, ...]]]:
    return [(c.kind, c.path) for c in changes_between(old, new)]


def test_changes_are_told_by_path() -> None:
    old = {"a": 1, "b": {"c": [1, 2, 3]}, "gone": None}
    new = {"b": {"c": [1, 3, 4]}, "a": 1.0, "new": {}}

    assert told(old, new) == [
        ("removed", ("gone",)),
        ("removed", ("b", "c", 1)),
        ("added", ("b", "c", 2)),
        ("changed", ("a",)),
        ("added", ("new",)),
    ]
    assert diff_plain(old, new).splitlines() == [
        '- ["gone"]: null',
        '- ["b"]["c"][1]: 2',
        '+ ["b"]["c"][2]: 4',
        '~ ["a"]: 1 → 1.0',
        '+ ["new"]: {}',
    ]


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), (1, 1.0), (None, {}), ("1", 1)])
def test_what_only_python_calls_equal_is_a_change(old: Any, new: Any) -> None:
    assert told([old], [new]) == [("changed", (0,))]


def test_the_order_of_keys_is_no_change_and_that_of_items_is() -> None:
    assert told({"a": 1, "b": 2}, {"b": 2, "a": 1}) == []
    assert len(told([1, 2], [2, 1])) == 2


@given(JSON, JSON)
def test_there_is_a_change_exactly_where_the_json_differs(old: Any, new: Any) -> None:
    assert bool(told(old, new)) == (json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True))
    assert told(new, new) == []
    assert executable(diff_html(old, new)) == []
    assert diff_plain(old, new)


def test_texts_are_compared_line_by_line() -> None:
    old = "\n".join(f"line {i}" for i in range(30))
    new = old.replace("line 15", "line fifteen") + "\nlast"

    assert diff_plain(old, new).splitlines() == [
        "⋯ 12 unchanged lines",
        *("  line 12", "  line 13", "  line 14", "- line 15", "+ line fifteen", "  line 16", "  line 17", "  line 18"),
        "⋯ 8 unchanged lines",
        *("  line 27", "  line 28", "  line 29", "+ last"),
    ]
    html = diff_html(old, new)
    assert re.findall(r"<(?:ins|del)[^>]*>([^<]*)", html) == ["- line 15", "+ line fifteen", "+ last"]


def test_a_text_inside_an_object_is_compared_line_by_line_too() -> None:
    html = diff_html({"title": "T", "body": "a\nb"}, {"title": "U", "body": "a\nc"})

    assert html.count("<tr>") == 3
    assert "- b" in html
    assert "+ c" in html


def test_ends_of_lines_alone_are_a_change_that_can_be_told() -> None:
    assert diff_plain("a\n", "a") == "⋯ only the ends of lines differ"


def test_no_change_is_said() -> None:
    assert (diff_html(1, 1), diff_plain(1, 1)) == ("<p>No change.</p>", "no change")


def test_large_differences_are_quick_and_counted() -> None:
    old, new = list(range(20_000)), [i * 2 + 1 for i in range(20_000)]
    lines, others = ("\n".join(map(str, those)) for those in (old[:2500], [i + 30_000 for i in old[:2500]]))

    assert "more than 200 changes" in diff_html(old, new)
    assert "4,600 more lines" in diff_html(lines, others)
    assert calls_of(lambda: diff_html(old, new)) + calls_of(lambda: diff_html(lines, others)) < 600_000


# -- an artifact ----------------------------------------------------------------------------------


def test_the_static_forms_tell_what_it_is_and_what_changed() -> None:
    bundle = view({"a": 1}, {"a": 2})._repr_mimebundle_()

    assert list(bundle) == ["text/plain", "text/html", "text/markdown"]
    assert bundle["text/plain"].splitlines() == ["deliver / spec, revision 2", "{", '  "a": 2', "}"]
    assert "<strong>deliver / spec</strong> — revision 2" in bundle["text/html"]
    assert "<summary>Changes since revision 1</summary>" in bundle["text/html"]
    assert bundle["text/markdown"].startswith("**deliver / spec** — revision 2\n\n<div>")


def test_the_static_forms_carry_no_id_and_no_time() -> None:
    assert not re.search(r"2026|artifact-1", "".join(view({"a": 1}, {"a": 2})._repr_mimebundle_().values()))


def test_a_table_is_a_table_in_markdown() -> None:
    assert "| a | b\\|c |\n| ---: | --- |\n| 1 | x\\|y |" in view([{"a": 1, "b|c": "x|y"}])._repr_mimebundle_()["text/markdown"]


def test_two_revisions_are_compared() -> None:
    shown = view({"a": 1}, {"a": 2}, {"a": 3})

    assert repr(shown.diff()) == 'deliver / spec, revision 2 → 3\n~ ["a"]: 2 → 3'
    assert [c.old for c in shown.diff(1, 3).changes] == [1]
    assert [c.new for c in shown.diff(3, 1).changes] == [1]
    assert list(shown.diff()._repr_mimebundle_()) == ["text/plain", "text/html", "text/markdown"]
    for old, new in ((7, None), (None, 7), (None, 1)):
        with pytest.raises(LookupError):
            shown.diff(old, new)


@dataclass
class Kept:
    """An artifact as the store gives it."""

    revision: int
    data: Any
    id: str = "a-1"
    flow_name: str = "deliver"
    stage_name: str = "spec"
    updated_at: str = "2026-01-01T00:00:00.000Z"
    reads: int = 0

    def history(self) -> Sequence[Kept]:
        self.reads += 1
        return [Kept(2, "old"), Kept(5, "older still"), Kept(self.revision, self.data)]


def test_a_stored_artifact_becomes_a_view_that_reads_its_past_once_and_late() -> None:
    kept = Kept(7, "now")
    shown = ArtifactView.of(kept)

    assert (shown.title, shown.data, shown.revision, kept.reads) == ("deliver / spec", "now", 7, 0)
    assert [r.number for r in shown.revisions] == [2, 5, 7]
    assert shown.at(5) == Revision(5, "older still", "2026-01-01T00:00:00.000Z")
    assert shown.at(6) is None
    assert kept.reads == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_an_artifact_runs(text: str) -> None:
    shapes: list[Any] = [
        text,
        {"body": text, text: text},
        [{text: text, "b": 1}],
        {"columns": [text], "rows": [[text]]},
        {text: [text, {text: [text * 40, [text]]}], "long": f"{text}\n" * 60},
    ]
    for one in shapes:
        bundle = view({"old": text}, one)._repr_mimebundle_()
        for html in (bundle["text/html"], tree_html(one), diff_html([text], one), diff_html(one, [text])):
            assert executable(html) == []
        assert executable(bundle["text/markdown"]) == []
        for form in artifact_forms(one):
            assert executable(artifact_html(one, form)) == []
    named = ArtifactView(flow=text, stage=text, current=Revision(1, text))
    assert executable(named._repr_mimebundle_()["text/html"]) == []


@pytest.mark.parametrize("text", ["a\x1b[31mb", "\u202egnp.exe", "a\nb"])
def test_no_text_steers_a_terminal(text: str) -> None:
    shown = view({"a": 0}, {text: text})

    for said in (repr(shown), repr(shown.diff())):
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", said)


def test_static_changes_bear_no_class_that_the_sheet_of_a_live_viewer_means():
    one = view([{"dish": "soup"}], [{"dish": "stew"}])
    for bundle in (one._repr_mimebundle_(), one.diff()._repr_mimebundle_()):
        assert "stew" in bundle["text/html"]
        assert "loom-diff" not in bundle["text/html"] + bundle["text/markdown"]
