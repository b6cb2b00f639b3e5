"""For your own tests: drive a transition, a pass or a whole run; still ids and clock; a store that dies in the middle; models
that say what a script or a record says, and a server that speaks the protocols of real ones."""

from loomnb.testing.driving import Driven, StartedChild, TransitionOutcome, at_rest, drive, run_pass, run_transition
from loomnb.testing.dying import Death
from loomnb.testing.models import Said, ScriptedModel
from loomnb.testing.protocol_server import ProtocolServer, ReceivedRequest
from loomnb.testing.protocol_wire import Reply
from loomnb.testing.recording import RecordingModel
from loomnb.testing.sources import StillSource

__all__ = [
    "Death",
    "Driven",
    "ProtocolServer",
    "ReceivedRequest",
    "RecordingModel",
    "Reply",
    "Said",
    "ScriptedModel",
    "StartedChild",
    "StillSource",
    "TransitionOutcome",
    "at_rest",
    "drive",
    "run_pass",
    "run_transition",
]
