"""Models: of vendors, behind an address, on this machine; their keys, and what can go wrong with them."""

from loomnb.agents.providers.compatible import CompatibleModel, openai_compatible
from loomnb.agents.providers.errors import (
    LocalServerFailed,
    ModelAuthFailed,
    ModelError,
    ModelKeyMissing,
    ModelPackageMissing,
    ModelRateLimited,
    ModelResponseInvalid,
    ModelStreamCut,
    TurnCanceled,
)
from loomnb.agents.providers.keys import Key, ask_key, forget_keys
from loomnb.agents.providers.local import LocalServer, OnProgress, local_model
from loomnb.agents.providers.named import model_of_name
from loomnb.agents.providers.turn import OnWait
from loomnb.agents.providers.vendor import VendorModel

__all__ = [
    "CompatibleModel",
    "Key",
    "LocalServer",
    "LocalServerFailed",
    "ModelAuthFailed",
    "ModelError",
    "ModelKeyMissing",
    "ModelPackageMissing",
    "ModelRateLimited",
    "ModelResponseInvalid",
    "ModelStreamCut",
    "OnProgress",
    "OnWait",
    "TurnCanceled",
    "VendorModel",
    "ask_key",
    "forget_keys",
    "local_model",
    "model_of_name",
    "openai_compatible",
]
