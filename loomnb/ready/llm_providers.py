"""Which models workflows may name. A provider says nothing of workflows, and is handed over as it is."""

from __future__ import annotations

import difflib

from loomnb.errors import DefinitionError, NotFound, Refused
from loomnb.runtime import ModelProvider, model_of

__all__ = ["DEFAULT_PROVIDER", "llm_provider", "register_llm_provider"]

DEFAULT_PROVIDER = "default"
"""What the provider of `loom.use_models(...)` is called in documents and metadata."""

_PROVIDERS: dict[str, ModelProvider] = {}


def register_llm_provider(id: str, provider: ModelProvider) -> None:  # noqa: A002  # the contract's word
    """Give a model a name, by which `config={"provider": name}` of the `llm_…` tools and of the agents finds it.

    Holds for this process; the same name again replaces it. What names none gets the default of `loom.use_models(...)`.

    Args:
        id: the name.
        provider: anything with `run_turn(request)`.

    Raises:
        DefinitionError: the name is empty or `default`, or it is no provider.
    """
    if not isinstance(id, str) or not id or id == DEFAULT_PROVIDER:
        raise DefinitionError(
            f"{id!r} cannot be the name of a provider.",
            advice="Take a text such as 'claude'. The default one is set with loom.use_models(provider).",
        )
    if not callable(getattr(provider, "run_turn", None)):
        raise DefinitionError(f"{provider!r} is no provider of models.", advice="It needs `async def run_turn(self, request)`.")
    _PROVIDERS[id] = provider


def llm_provider(id: str | None = None) -> tuple[str, ModelProvider]:  # noqa: A002  # the contract's word
    """A provider with its name.

    Args:
        id: its name; None (or `default`): the default of `loom.use_models(...)`.

    Raises:
        NotFound: none has this name; lists those that are there.
        Refused: there is no default.
    """
    names = ", ".join(sorted(_PROVIDERS)) or "none yet"
    if id is None or id == DEFAULT_PROVIDER:
        model = model_of("default")
        if model is None:
            raise Refused(
                "No model is configured, and the call names no provider.",
                advice=f"loom.use_models(model) sets the default one. Registered providers: {names}; name one with "
                'config={"provider": …}.',
            )
        return DEFAULT_PROVIDER, model
    found = _PROVIDERS.get(id)
    if found is None:
        near = difflib.get_close_matches(id, _PROVIDERS, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise NotFound(
            f"No provider of models is called {id!r}.",
            advice=f"{hint}Registered here: {names}. loom.register_llm_provider({id!r}, provider) adds it.",
        )
    return id, found
