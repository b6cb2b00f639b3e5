"""Numbers that say how much or how many."""

from __future__ import annotations

import math

__all__ = ["is_amount", "is_count"]


def is_amount(value: object) -> bool:
    """Whether it is a number from 0 up that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value) and value >= 0
    except OverflowError:  # an integer of hundreds of digits
        return False


def is_count(value: object, *, least: int = 1) -> bool:
    """Whether it is a whole number from `least` up."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
