"""From what somebody writes for a model to the model: a name, an address, or a model already."""

from __future__ import annotations

from typing import Any

from loomnb.agents.providers.compatible import openai_compatible
from loomnb.agents.providers.keys import Key
from loomnb.agents.providers.vendor import VendorModel
from loomnb.errors import InvalidRequest
from loomnb.runtime import ModelProvider

__all__ = ["model_of_name"]


def model_of_name(thing: str | ModelProvider, *, api_key: str | Key | None = None, **options: Any) -> ModelProvider:
    """A model for what names one.

    Args:
        thing: `vendor:name` (VendorModel); an address that begins with `http://` or `https://` (`openai_compatible`); or an
            object with `run_turn`, which is given back as it is.
        api_key: the key of a service that is named.
        options: as VendorModel or `openai_compatible` take them.

    Raises:
        InvalidRequest: it names no model; or options were given along with a model that is there already.
    """
    if isinstance(thing, str):
        make: Any = openai_compatible if thing.startswith(("http://", "https://")) else VendorModel
        made: ModelProvider = make(thing, api_key=api_key, **options)
        return made
    if not callable(getattr(thing, "run_turn", None)):
        raise InvalidRequest(
            f"A {type(thing).__name__} is no model.",
            advice="Give a name ('anthropic:claude-opus-5-5'), an address ('http://127.0.0.1:8080'), or an object with run_turn.",
        )
    if options or api_key is not None:
        raise InvalidRequest("A key and options are for a model that is named; this one is made already.")
    return thing
