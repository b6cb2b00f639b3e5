"""The components that every front end of ours draws: made here once, each with its shape and its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loomnb.asks import Shape
from loomnb.errors import Refused
from loomnb.present.component_text import TEXTS, json_text
from loomnb.present.component_types import (
    Badge,
    Callout,
    Card,
    Chart,
    Checklist,
    CodeBlock,
    DataTable,
    Diff,
    Heading,
    Image,
    KpiCards,
    Link,
    SourceCards,
    Stack,
    TextLine,
    Timeline,
)
from loomnb.present.components import Component, create_component

__all__ = ["BUILT_IN", "chart", "component_text", "table"]


def _built_in(name: str, props: type[Shape], title: str, *, children: bool = False) -> Component:
    description = (props.__doc__ or "").strip()
    text = TEXTS[name]
    return create_component(name=name, title=title, description=description, props=props, fallback_text=text, children=children)


BUILT_IN: Mapping[str, Component] = {
    component.definition.name: component
    for component in (
        _built_in("DataTable", DataTable, "Table"),
        _built_in("Chart", Chart, "Chart"),
        _built_in("KpiCards", KpiCards, "Figures"),
        _built_in("SourceCards", SourceCards, "Sources"),
        _built_in("Checklist", Checklist, "Checklist"),
        _built_in("Timeline", Timeline, "Timeline"),
        _built_in("CodeBlock", CodeBlock, "Code"),
        _built_in("Diff", Diff, "Difference"),
        _built_in("Callout", Callout, "Notice"),
        _built_in("Stack", Stack, "Stack", children=True),
        _built_in("Card", Card, "Card", children=True),
        _built_in("Heading", Heading, "Heading"),
        _built_in("Text", TextLine, "Text"),
        _built_in("Badge", Badge, "Badge"),
        _built_in("Link", Link, "Link"),
        _built_in("Image", Image, "Image"),
    )
}
"""The components that every front end of ours draws, by name."""

table: Component = BUILT_IN["DataTable"]
"""Rows under columns: `table(title="Stock", columns=[{"key": "n", "label": "Number"}], rows=[{"n": 1}])`."""

chart: Component = BUILT_IN["Chart"]
"""Bars or lines: `chart(type="bar", xKey="month", series=[{"key": "sales"}], data=[{"month": "May", "sales": 3}])`."""


def component_text(component: str, props: Any, fallback_text: str | None = None) -> str:
    """The text of a component: of a built-in one whose props fit its own, else the given text, else the props as JSON."""
    known = BUILT_IN.get(component)
    if known is not None:
        try:
            return known.definition.text(known.definition.check(props))
        except Refused:
            pass
    if fallback_text is not None:
        return fallback_text
    return json_text(component, props if isinstance(props, Mapping) else {"props": props})
