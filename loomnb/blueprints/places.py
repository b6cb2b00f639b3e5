"""Positions of a blueprint's run as places of the run loop: `stage/step`, and `stage` while its State is still to be made."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Cursor", "place_of", "stage_place"]


class Cursor(NamedTuple):
    """The step a run is at, or is about to make."""

    stage_name: str
    step_name: str

    def to_json(self) -> dict[str, str]:
        """The contract's JSON."""
        return {"stageName": self.stage_name, "stepName": self.step_name}


def _quoted(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def place_of(stage: str, step: str) -> str:
    """The place of a step."""
    return f"{_quoted(stage)}/{_quoted(step)}"


def stage_place(stage: str) -> str:
    """The place in which a stage is about to be entered."""
    # Behind a slash that no step's place ends with, so that a stage called `start` or `end` is none of the run loop's places.
    return f"{_quoted(stage)}/"
