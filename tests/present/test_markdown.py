"""Markdown to HTML that cannot run: whatever a document holds, nothing executable survives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomnb.present import escape, markdown_blocks, markdown_html, markdown_safe
from tests.present.hostile import HOSTILE, executable


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hostile_survives_the_rendering(text: str) -> None:
    assert executable(markdown_html(text)) == []


@given(st.text())
def test_no_text_at_all_renders_to_something_executable(text: str) -> None:
    assert executable(markdown_html(text)) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_no_html(text: str) -> None:
    assert "<" not in escape(text)
    assert '"' not in escape(text)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**bold**", "<p><strong>bold</strong></p>"),
        ("~~gone~~", "<p><s>gone</s></p>"),
        ("`a < b`", "<p><code>a &lt; b</code></p>"),
        ("<kbd>Enter</kbd>", "<p><kbd>Enter</kbd></p>"),
        ("# Title", "<h1>Title</h1>"),
    ],
)
def test_markdown_is_rendered(text: str, html: str) -> None:
    assert markdown_html(text) == html


def test_tables_are_rendered() -> None:
    assert "<td>1</td>" in markdown_html("|a|\n|-|\n|1|")


def test_a_link_opens_without_handing_over_this_page() -> None:
    assert 'rel="noopener noreferrer"' in markdown_html("[x](https://example.org)")


@pytest.mark.parametrize(
    "source", ["https://example.org/x.png", "http://127.0.0.1/x", "//example.org/x.png", "data:image/svg+xml;base64,PHN2Zz4="]
)
def test_an_image_from_elsewhere_is_left_out(source: str) -> None:
    """Showing a document must not call home."""
    assert "src=" not in markdown_html(f"![x]({source})")


def test_an_image_that_carries_its_own_bytes_is_kept() -> None:
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in markdown_html('<img src="data:image/png;base64,iVBORw0KGgo=">')


@pytest.mark.parametrize("text", [*HOSTILE, "a*b*", "[x](y)", "`c`", "a\nb", "1. x", "# h"])
def test_a_name_shows_as_itself_in_markdown(text: str) -> None:
    """It renders to one paragraph without any markup of its own."""
    html = markdown_html("x " + markdown_safe(text))

    assert executable(html) == []
    assert html.startswith("<p>x ")
    assert html.count("<") == 2


@pytest.mark.parametrize("text", [t for t in HOSTILE if t.startswith("<") and not t.startswith("<scr<")])
def test_the_reader_of_these_tests_finds_what_is_hostile(text: str) -> None:
    assert executable(text) != []


def test_blocks_begin_where_their_text_does_and_add_up_to_the_whole() -> None:
    text = "# One\n\ntwo *three*\n\n- a\n- b\n\n```py\nx = 1\n```\n\n| a |\n|---|\n| 1 |\n\nend <script>1</script>"

    blocks = markdown_blocks(text)

    begins = [text[at:].split("\n", maxsplit=1)[0] for at, _ in blocks]
    assert begins == ["# One", "two *three*", "- a", "```py", "| a |", "end <script>1</script>"]
    assert "".join(html for _, html in blocks).replace("\n", "") == markdown_html(text).replace("\n", "")
