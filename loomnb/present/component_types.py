"""What the built-in components are given: their props as strict shapes. Unknown properties are refused.

Rule: contracts/agents.md §3, the table of built-in schemas. What is optional may be left out, and is then not None but absent.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, FiniteFloat

from loomnb.asks import Shape

__all__ = [
    "Badge",
    "Callout",
    "Card",
    "Cell",
    "Chart",
    "Checklist",
    "CodeBlock",
    "DataTable",
    "Diff",
    "Heading",
    "Image",
    "KpiCards",
    "Link",
    "SourceCards",
    "Stack",
    "TextLine",
    "Timeline",
]

Number: TypeAlias = int | FiniteFloat
Cell: TypeAlias = str | int | FiniteFloat | bool | None
"""What stands in a table's cell."""

Row: TypeAlias = dict[str, Cell]
Tone = Literal["info", "success", "warning", "danger"]
_ABSENT: str = None  # type: ignore[assignment]  # left out is None here, and an explicit null is still refused


class Column(Shape):
    """A column of a table; `key` is that of the rows."""

    key: str
    label: str
    align: Literal["left", "right", "center"] = _ABSENT  # type: ignore[assignment]
    format: Literal["text", "number", "currency", "percent", "date", "link"] = _ABSENT  # type: ignore[assignment]


class DataTable(Shape):
    """Rows under columns."""

    title: str = _ABSENT
    columns: Annotated[list[Column], Field(min_length=1, max_length=12)]
    rows: Annotated[list[Row], Field(max_length=500)]


class Series(Shape):
    """One line, or one set of bars; `key` is that of the data."""

    key: str
    label: str = _ABSENT


class Chart(Shape):
    """Bars, or lines."""

    type: Literal["bar", "line"]
    title: str = _ABSENT
    x_key: str
    series: Annotated[list[Series], Field(min_length=1, max_length=6)]
    data: Annotated[list[Row], Field(min_length=1, max_length=200)]
    unit: str = _ABSENT


class Kpi(Shape):
    """One figure."""

    label: str
    value: str | Number
    delta: str | Number = _ABSENT
    trend: Literal["up", "down", "flat"] = _ABSENT  # type: ignore[assignment]
    hint: str = _ABSENT


class KpiCards(Shape):
    """A few figures side by side."""

    title: str = _ABSENT
    items: Annotated[list[Kpi], Field(min_length=1, max_length=8)]


class Source(Shape):
    """Where something is from."""

    title: str
    url: str = _ABSENT
    snippet: str = _ABSENT
    source: str = _ABSENT


class SourceCards(Shape):
    """Sources of an answer."""

    title: str = _ABSENT
    items: Annotated[list[Source], Field(min_length=1, max_length=12)]


class Check(Shape):
    """One thing to do."""

    label: str
    done: bool = _ABSENT  # type: ignore[assignment]
    note: str = _ABSENT


class Checklist(Shape):
    """What is done, and what is to do."""

    title: str = _ABSENT
    items: Annotated[list[Check], Field(min_length=1, max_length=50)]


class Moment(Shape):
    """One thing that happened."""

    date: str = _ABSENT
    title: str
    description: str = _ABSENT


class Timeline(Shape):
    """What happened, in order."""

    title: str = _ABSENT
    events: Annotated[list[Moment], Field(min_length=1, max_length=50)]


class CodeBlock(Shape):
    """Code."""

    title: str = _ABSENT
    language: str = _ABSENT
    code: str


class Diff(Shape):
    """Two texts, line by line."""

    title: str = _ABSENT
    language: str = _ABSENT
    before: str
    after: str


class Callout(Shape):
    """Something to notice."""

    tone: Tone = _ABSENT  # type: ignore[assignment]
    title: str = _ABSENT
    text: str


class Stack(Shape):
    """What it holds, one below or beside the other."""

    direction: Literal["column", "row"] = _ABSENT  # type: ignore[assignment]
    gap: Annotated[Number, Field(ge=0, le=128)] = _ABSENT  # type: ignore[assignment]


class Card(Shape):
    """What it holds, in a frame."""

    title: str = _ABSENT
    subtitle: str = _ABSENT


class Heading(Shape):
    """A heading."""

    text: str


class TextLine(Shape):
    """A text."""

    text: str
    muted: bool = _ABSENT  # type: ignore[assignment]


class Badge(Shape):
    """A word in a coloured field."""

    text: str
    tone: Literal["neutral", "brand", "success", "warning", "danger"] = _ABSENT  # type: ignore[assignment]


class Link(Shape):
    """A link."""

    text: str
    url: Annotated[str, Field(pattern=r"^https?://")]


class Image(Shape):
    """A picture by its address."""

    url: Annotated[str, Field(pattern=r"^https://")]
    alt: str = _ABSENT
