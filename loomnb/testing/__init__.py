"""For your own tests: drive a transition, a pass or a whole run; still ids and clock; a store that dies in the middle."""

from loomnb.testing.driving import Driven, StartedChild, TransitionOutcome, at_rest, drive, run_pass, run_transition
from loomnb.testing.dying import Death
from loomnb.testing.models import ScriptedModel
from loomnb.testing.sources import StillSource

__all__ = [
    "Death",
    "Driven",
    "ScriptedModel",
    "StartedChild",
    "StillSource",
    "TransitionOutcome",
    "at_rest",
    "drive",
    "run_pass",
    "run_transition",
]
