"""Markdown to HTML that cannot run: rendered by markdown-it-py, then cleaned by nh3 against an allow-list.

Every face uses this one function, because a just executed `display(Markdown(...))` or raw text/html does run scripts.
"""

from __future__ import annotations

import html
import re
from functools import cache
from typing import Any

__all__ = [
    "escape",
    "html_block",
    "markdown_blocks",
    "markdown_html",
    "markdown_line",
    "markdown_safe",
    "plain_line",
    "without_controls",
]

_TAGS = {
    *[
        "a",
        "abbr",
        "b",
        "blockquote",
        "br",
        "code",
        "dd",
        "del",
        "details",
        "div",
        "dl",
        "dt",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "img",
        "kbd",
        "li",
        "ol",
        "p",
        "pre",
        "q",
        "s",
        "span",
    ],
    *["strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr", "u", "ul"],
}
_ATTRIBUTES = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "width", "height"},
    "ol": {"start"},
    "td": {"align", "colspan", "rowspan"},
    "th": {"align", "colspan", "rowspan"},
    "code": {"class"},
}


@cache
def _renderer() -> Any:
    from markdown_it import MarkdownIt  # noqa: PLC0415  # 30 ms that only showing something needs

    return MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])


def markdown_html(text: str) -> str:
    """Safe HTML of Markdown text. Images of other sites are left out: showing a document must not call home.

    Args:
        text: CommonMark with tables; raw HTML in it is kept as far as the allow-list lets it.
    """
    return _cleaned(_renderer().render(text))


def markdown_blocks(text: str) -> list[tuple[int, str]]:
    """Safe HTML of Markdown text, block by block: where in the text each begins, and its HTML.

    For a text that grows: all but the last block stay as they are. Only the whole is exact: a link may be defined further below.
    """
    env: dict[str, Any] = {}
    tokens, starts = _renderer().parse(text, env), [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    blocks: list[tuple[int, str]] = []
    depth, begin = 0, 0
    for at, token in enumerate(tokens):
        depth += token.nesting
        if depth == 0:
            html = _cleaned(_renderer().renderer.render(tokens[begin : at + 1], _renderer().options, env))
            blocks.append((starts[tokens[begin].map[0]] if tokens[begin].map else starts[-1], html))
            begin = at + 1
    return blocks


def _cleaned(html: str) -> str:
    import nh3  # noqa: PLC0415  # loaded when something is shown

    return nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto", "data"},
        attribute_filter=_filter,
        link_rel="noopener noreferrer",
    ).strip()


_UNSEEN = re.compile("[\x00-\x20]")
"""What browsers leave out of an address, some of it only at its ends: `d<tab>ata:` is a data: link."""


def _filter(_tag: str, attribute: str, value: str) -> str | None:
    if attribute == "src":
        return value if value.startswith(("data:image/png;", "data:image/jpeg;", "data:image/gif;", "data:image/webp;")) else None
    if attribute == "href" and _UNSEEN.sub("", value).lower().startswith("data:"):
        return None
    if attribute == "class":
        return value if value.startswith("language-") else None
    return value


def markdown_line(text: str, most: int = 60) -> str:
    """The first line of Markdown as plain text, cut to `most` characters."""
    import nh3  # noqa: PLC0415  # loaded when something is shown

    first = next((line for line in text.strip().splitlines() if line.strip()), "")
    plain = html.unescape(nh3.clean(_renderer().render(first), tags=set())).strip()
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def escape(text: str) -> str:
    """Text for HTML, also inside a quoted attribute."""
    return html.escape(text, quote=True)


def markdown_safe(text: str) -> str:
    """Text that shows as itself in Markdown and runs nothing: for names and messages that are not Markdown."""
    out = "".join("\\" + c if c in "\\`*_{}[]()#+-!|~" else c for c in text)
    return html.escape(out, quote=False).replace("\n", " ")


def html_block(html: str) -> str:
    """HTML that stays HTML in Markdown: a block that no line of its text can end, as a blank one would."""
    return f"<div>{html.replace(chr(10), '&#10;')}</div>"


_BREAKING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def without_controls(text: str) -> str:
    """Text of several lines without what terminals obey. What turns a line's direction stays: whole texts are written so."""
    return _CONTROLS.sub("\ufffd", text)


def plain_line(text: str) -> str:
    """Text on one line, without what XML forbids, terminals obey, or turns the direction of what follows."""
    return _BREAKING.sub("\ufffd", re.sub(r"[\t\n\r]+", " ", text))
