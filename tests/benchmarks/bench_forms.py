"""What a form costs the kernel: the form of a schema of 100 fields, one with nested lists, and a widget file, by the limit.

A person feels half a second. The page has its own part of it (tests/browser/test_forms_js.py); here is the kernel's: making
the form from the schema, making what the view draws, reading what was sent, and reading a widget file at definition.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
from loomnb_widgets.views import ask_view

from loomnb.asks import Ask, Form, Schema, form_of, payload_of
from loomnb.documents import read_widgets

LIMIT = 0.5  # seconds in which a form of 100 fields opens; the kernel may use a fifth of it
SHARE = 0.2


class Item(pydantic.BaseModel):
    name: str
    tags: list[str] = []


KINDS: list[Any] = [(str, ...), (int, 3), (bool, True), (list[str], []), (Item, ...)]


def big() -> type[pydantic.BaseModel]:
    return pydantic.create_model("Big", **{f"field_{at}": KINDS[at % 5] for at in range(100)})


def made() -> Form:
    form = form_of(Schema(big(), "bench"))
    assert form is not None
    return form


def widget_file(folder: Path) -> Path:
    lines = ["ui:", "  widgets:", "    - widget: form", "      options:", "        properties:"]
    lines += [f"          field_{at}: {{widget: textarea, rows: 3, label: Field {at}}}" for at in range(100)]
    path = folder / "ui.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def least(work: Callable[[], Any], rounds: int) -> float:
    def once() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return min(once() for _ in range(rounds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    form = made()
    ask = Ask(id="a", name="a", kind="form", label="Big", form=form)
    sent = {
        f.name: {"name": "x", "tags": ["a"] * 20} if f.kind == "object" else ["a"] * 20 if f.kind == "array" else "1"
        for f in form.fields
    }
    with tempfile.TemporaryDirectory() as folder:
        path = widget_file(Path(folder))
        figures = {
            "form of 100 fields from its schema": least(made, options.rounds),
            "what the view draws of it": least(lambda: ask_view(ask, ""), options.rounds),
            "payload of what was sent": least(lambda: payload_of(form, sent), options.rounds),
            "a widget file of 100 fields": least(lambda: read_widgets(str(path), Item), options.rounds),
        }
    print("| work | ms CPU | of the limit |\n|---|---|---|")
    for name, seconds in figures.items():
        print(f"| {name} | {seconds * 1000:.1f} | {seconds / (LIMIT * SHARE):.0%} |")
    total = sum(list(figures.values())[:2])
    print(f"\nopening a form of 100 fields: {total / (LIMIT * SHARE):.0%} of the kernel's share, {SHARE:.0%} of {LIMIT} s")
    return 0 if total <= LIMIT * SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
