"""A model of any vendor that pydantic-ai knows, as a ModelProvider: one turn at a time, and no tool is ever run.

pydantic-ai's `direct` interface is used, and nothing else of it: one typed call for every vendor, without an agent loop of its
own. It is imported with the first turn (1.5 s): making a model costs nothing. Rules: contracts/agents.md §1.7.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args

from loomnb.agents.providers.keys import Key, address_of, key_of
from loomnb.agents.providers.loading import loaded
from loomnb.agents.providers.outputs import Output
from loomnb.agents.providers.turn import Manners, OnWait, Turn
from loomnb.errors import InvalidRequest
from loomnb.runtime import TurnRequest, TurnResult

if TYPE_CHECKING:
    from pydantic_ai.models import Model

__all__ = ["VendorModel"]


class VendorModel:
    """A model of a vendor.

    Args:
        model: `vendor:name`, such as `anthropic:claude-opus-5-5`, `openai:gpt-6-astra`, `google:gemini-4-argon`,
            `openrouter:meta-llama/llama-4-scout`: whatever pydantic-ai knows.
        api_key: the vendor's key; None: the one typed in with `ask_key`, else the vendor's environment variable.
        base_url: where the vendor's service is; None: where its library says. Only a key that is given here is sent there.
        settings: for every turn: `temperature`, `max_tokens`, `thinking`, …, as pydantic-ai's ModelSettings name them; those of
            a request win.
        attempts: how often a request is made at the most, when the service is busy (429), broken (5xx) or not reached. Anything
            else is asked exactly once.
        longest_wait: seconds between two of them at the most.
        first_wait: seconds of the first wait, where the service does not say how long; then twice as long each time.
        on_wait: told of each wait; None: a frame `{"kind": "waiting", "seconds", "reason"}` is written to the sink.
        stream: whether the answer is streamed; None: when the request has a sink.

    Raises:
        InvalidRequest: the name has no vendor, `base_url` is no address or has a secret in it, or a number is out of range.
            Whether the vendor has such a model is known at the first turn.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | Key | None = None,
        base_url: str | None = None,
        settings: Mapping[str, Any] | None = None,
        attempts: int = 3,
        longest_wait: float = 60.0,
        first_wait: float = 1.0,
        on_wait: OnWait | None = None,
        stream: bool | None = None,
    ) -> None:
        vendor, colon, name = model.partition(":") if isinstance(model, str) else ("", "", "")
        if not (vendor and colon and name):
            raise InvalidRequest(
                f"{model!r} names no model.",
                advice="Write the vendor and the model: 'anthropic:claude-opus-5-5', 'openai:gpt-6-astra', 'ollama:qwen3'.",
            )
        if base_url is not None:
            address_of(base_url)
        self.model = model
        self.vendor = vendor
        self.base_url = base_url
        self.settings = dict(settings or {})
        self._key = Key(api_key) if isinstance(api_key, str) else api_key
        self.manners = Manners(
            attempts=attempts, longest_wait=longest_wait, first_wait=first_wait, on_wait=on_wait, stream=stream
        )

    @property
    def model_id(self) -> str:
        """Its name, without the vendor."""
        return self.model.partition(":")[2]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model}>"

    async def run_turn(self, request: TurnRequest) -> TurnResult:
        """One turn of the model.

        Args:
            request: see TurnRequest. `request.model` is another model of this vendor, or `vendor:name`; then this model's key
                and address are not used for it.

        Raises:
            ModelError: it failed; see the classes of this family.
            TurnCanceled: `request.signal` was aborted.
            InvalidRequest: the request has a message, an attachment or a `tool_choice` that cannot be.
        """
        if request.model is not None:  # what names it has to be told from a vendor's
            await loaded("vendors", _vendors)
        model = self._for(request.model)
        if model is not self:
            return await model.run_turn(request)
        return await Turn(self, request).made()

    def _for(self, name: str | None) -> VendorModel:
        """The model for a name that a request gives."""
        if name is None or name in (self.model, self.model_id):
            return self
        vendor, colon, _ = name.partition(":")
        is_other = bool(colon) and vendor != self.vendor and _is_vendor(vendor)
        if is_other:  # a key must not go to a vendor it is not for
            return VendorModel(name, **self._options())
        return self._named(name.removeprefix(f"{self.vendor}:"))

    def _options(self) -> dict[str, Any]:
        """What another model is made with, to be asked as this one is."""
        return {"settings": self.settings, **{one.name: getattr(self.manners, one.name) for one in fields(self.manners)}}

    def _named(self, name: str) -> VendorModel:
        """The same with another model of the vendor."""
        return VendorModel(
            f"{self.vendor}:{name}",
            api_key=self._key,
            base_url=self.base_url,
            **self._options(),
        )

    def secrets(self) -> list[str]:
        """What must not stand in a text: the key.

        Raises:
            ModelKeyMissing: there is none, and this vendor needs one.
        """
        key = self._key if self.base_url is not None else key_of(self.vendor, self._key)
        return [key.reveal()] if key is not None else []

    def adjusted(self, settings: dict[str, Any], request: TurnRequest, output: Output | None) -> dict[str, Any]:
        """The settings of a turn, with what this service wants beside.

        Anthropic caches a prompt only when it is told to, and asks a quarter more for writing it. It is told so where there are
        tools: then there is a next turn, which reads it for a tenth. `settings={"cache": False}` turns that off.
        """
        del output
        return {"cache": True, **settings} if self.vendor == "anthropic" and request.tools else settings

    def load(self) -> None:
        """Import what its turns need. Called on a thread, once for a vendor; it may raise whatever the libraries raise."""
        from pydantic_ai.models import infer_model  # noqa: PLC0415
        from pydantic_ai.providers import infer_provider_class  # noqa: PLC0415

        # With a client of nobody's: which modules a model needs is the library's business.
        made: Any = infer_model(self.model, provider_factory=lambda vendor: infer_provider_class(vendor)(api_key="none"))  # type: ignore[call-arg]
        for part in ("chat", "responses", "messages"):  # clients import their parts when they are first looked at
            getattr(getattr(made, "client", None), part, None)
        if "Responses" in type(made).__name__:
            _build_events()

    async def opened(self) -> Model:
        """The library's model, made anew for each turn: its connections belong to the event loop that opened them.

        Raises:
            ModelKeyMissing: there is no key.
            ImportError: the vendor's library is not installed.
        """
        from pydantic_ai.models import infer_model  # noqa: PLC0415  # 1.5 s, which only the first turn pays

        advice = ""
        key = self._key if self.base_url is not None else key_of(self.vendor, self._key)
        # Raised outside of `except`: the frames below hold the key, and a debugger shows what is in frames.
        try:
            return infer_model(self.model, provider_factory=_factory(key, self.base_url))
        except ValueError:
            wrong, advice = f"There is no vendor {self.vendor!r} that pydantic-ai knows.", _vendors_like(self.vendor)
        except TypeError:
            wrong = f"The vendor {self.vendor!r} takes no api_key or no base_url."
        raise InvalidRequest(wrong, advice=advice)


def _vendors_like(name: str) -> str:
    """What to write instead of a vendor that is none."""
    from pydantic_ai.models import KnownModelName  # noqa: PLC0415  # as above

    known = sorted({model.partition(":")[0] for model in get_args(KnownModelName.__value__) if ":" in model})
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    return f"{meant}Make the agent again with one of these: {', '.join(known)}."


def _factory(key: Key | None, base_url: str | None) -> Callable[[str], Any]:
    """What makes a vendor's provider with this key and address; without either, the library finds both by itself."""
    from pydantic_ai.providers import infer_provider, infer_provider_class  # noqa: PLC0415  # is loaded by now

    def make(vendor: str) -> Any:
        if base_url is not None:
            # Without a key of its own the library would send the vendor's there.
            return infer_provider_class(vendor)(api_key=key.reveal() if key is not None else "none", base_url=base_url)  # type: ignore[call-arg]
        return infer_provider_class(vendor)(api_key=key.reveal()) if key is not None else infer_provider(vendor)  # type: ignore[call-arg]

    return make


def _build_events() -> None:
    """Have the models of what OpenAI streams made, which they are when the first of each kind comes: 0.7 s in all."""
    from openai.types.responses import ResponseStreamEvent  # noqa: PLC0415  # with the vendor's library

    for event in get_args(get_args(ResponseStreamEvent)[0]):
        event.model_rebuild()


def _vendors() -> None:
    pass  # 1.5 s, which only the first turn pays


def _is_vendor(name: str) -> bool:
    try:
        from pydantic_ai.providers import infer_provider_class  # noqa: PLC0415  # 1.5 s, which only the first turn pays

        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:  # the turn itself says what is missing
        return True
    return True
