"""Rows as static HTML."""

from __future__ import annotations

import pytest

from loomnb.present import table_html
from tests.present.hostile import HOSTILE, executable


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_cell_or_column_runs_nothing(text: str) -> None:
    assert executable(table_html([text], ["VARCHAR"], [[text]], 1)) == []


def test_it_says_how_many_rows_are_not_shown() -> None:
    assert "1,999 more rows" in table_html(["a"], ["INTEGER"], [["1"]], 2000)


def test_numbers_stand_to_the_right() -> None:
    assert "align=right" in table_html(["a"], ["BIGINT"], [["1"]], 1)
    assert "align=right" not in table_html(["a"], ["VARCHAR"], [["1"]], 1)
