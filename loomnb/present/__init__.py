"""Everything visible, as text and as safe static HTML. Pure."""

from loomnb.present.graph import EdgeKind, Graph, GraphEdge, GraphNode
from loomnb.present.markdown import escape, markdown_html, markdown_line, markdown_safe
from loomnb.present.story import (
    STATUS_TEXT,
    Child,
    Story,
    answer_html,
    ask_example,
    ask_heading,
    ask_plain,
    document_html,
    document_kind,
    document_plain,
    document_title,
    path_tail,
    story_bundle,
    story_plain,
    taker_that_tells,
    takers_of,
)
from loomnb.present.table import table_html, table_markdown
from loomnb.present.values import value_html

__all__ = [
    "STATUS_TEXT",
    "Child",
    "EdgeKind",
    "Graph",
    "GraphEdge",
    "GraphNode",
    "Story",
    "answer_html",
    "ask_example",
    "ask_heading",
    "ask_plain",
    "document_html",
    "document_kind",
    "document_plain",
    "document_title",
    "escape",
    "markdown_html",
    "markdown_line",
    "markdown_safe",
    "path_tail",
    "story_bundle",
    "story_plain",
    "table_html",
    "table_markdown",
    "taker_that_tells",
    "takers_of",
    "value_html",
]
