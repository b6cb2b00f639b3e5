"""Any service that speaks OpenAI's chat completions, by its address: llama.cpp's server, Ollama, vLLM, a gateway."""

from __future__ import annotations

import asyncio
import functools
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from loomnb.agents.providers.errors import ModelAuthFailed, ModelError, ModelResponseInvalid
from loomnb.agents.providers.keys import Key, Scrubber, address_of
from loomnb.agents.providers.outputs import OUTPUT_TOOL, Output
from loomnb.agents.providers.turn import OnWait
from loomnb.agents.providers.vendor import VendorModel
from loomnb.runtime import TurnRequest

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.models.openai import OpenAIChatModel

__all__ = ["CompatibleModel", "openai_compatible"]

_PATIENCE = 30.0
"""Seconds for the list of models."""


NativeOutput = bool | Literal["json_object"]


class CompatibleModel(VendorModel):
    """A model behind an address. Made by `openai_compatible`.

    A tool that has to be called is named in `tool_choice`; an output schema goes as `response_format`, which llama.cpp, Ollama
    and vLLM turn into a grammar, so that a small model keeps to it too.
    """

    def __init__(self, url: str, model: str | None, *, native: NativeOutput, **options: Any) -> None:
        super().__init__(f"{_NAME}:{model or '?'}", base_url=url, **options)
        self._is_found = model is None
        self._native: NativeOutput = native

    def __repr__(self) -> str:
        parts = urlsplit(self.base_url or "")
        return (
            f"<{type(self).__name__} {'?' if self._is_found else self.model_id} at {parts.hostname}:{parts.port or parts.scheme}>"
        )

    def _named(self, name: str) -> VendorModel:
        return CompatibleModel(
            self.base_url or "",
            name,
            native=self._native,
            api_key=self._key,
            **self._options(),
        )

    def adjusted(self, settings: dict[str, Any], request: TurnRequest, output: Output | None) -> dict[str, Any]:
        """The settings, with the forced tool by name: servers of small models take that, and answer `required` with nothing."""
        forced = request.tool_choice if request.tool_choice in [tool.name for tool in request.tools] else None
        if output is not None and output.mode == "tool" and not request.tools:
            forced = OUTPUT_TOOL
        body: dict[str, Any] = {}
        if forced is not None:
            body["tool_choice"] = {"type": "function", "function": {"name": forced}}
        if output is not None and output.mode == "native" and self._native == "json_object":
            body["response_format"] = {"type": "json_object", "schema": output.schema}
        return {**settings, "extra_body": {**settings.get("extra_body", {}), **body}} if body else settings

    async def list_models(self) -> list[str]:
        """The names of the models that the service has.

        Raises:
            ModelError: it could not be asked.
        """
        return await asyncio.to_thread(self._listed)

    def _listed(self) -> list[str]:
        scrubber = Scrubber(self.secrets())
        try:
            asked = urllib.request.Request(f"{self.base_url}/models")  # noqa: S310  # http(s): see openai_compatible
            if self._key is not None:  # and not to whomever it is redirected to
                asked.add_unredirected_header("authorization", f"Bearer {self._key.reveal()}")
            with urllib.request.urlopen(asked, timeout=_PATIENCE) as answer:  # noqa: S310  # the same
                return [str(one["id"]) for one in json.load(answer)["data"]]
        except urllib.error.HTTPError as exc:
            exc.close()
            kind = ModelAuthFailed if exc.code in (401, 403) else ModelError
            failure = kind(f"{self!r} does not list its models: HTTP {exc.code}.", status=exc.code, retryable=exc.code >= 500)
        except (ValueError, KeyError, TypeError):
            failure = ModelResponseInvalid(f"{self!r} does not list its models: the answer is no such list.")
        except OSError as exc:
            text = scrubber.clean(str(getattr(exc, "reason", exc)))
            failure = ModelError(
                f"The server at {self.base_url} could not be reached: {text}.", advice="Is it running?", retryable=True
            )
        raise failure

    def load(self) -> None:
        """Import what its turns need. Called on a thread, once."""
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415

        client = OpenAICompatibleProvider(_NAME, base_url="http://127.0.0.1", api_key="none").client
        _ = _model_class(), client.chat.completions  # it imports its parts when they are first looked at

    async def opened(self) -> Model:
        """The library's model. Without a name, the first that the service lists."""
        from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415  # 1.5 s, which only the first turn pays
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415  # the same

        if self._is_found:
            names = await self.list_models()
            if not names:
                raise ModelError(f"{self!r} has no model.", advice="Load one, or give its name: model='…'.")
            self.model, self._is_found = f"{_NAME}:{names[0]}", False
        key = self._key.reveal() if self._key is not None else None
        provider = OpenAICompatibleProvider(_NAME, base_url=self.base_url or "", api_key=key)
        profile = OpenAIModelProfile(
            supports_json_schema_output=bool(self._native),
            native_output_requires_schema_in_instructions=True,  # a grammar only masks; the model has to be told as well
            openai_chat_supports_multiple_system_messages=False,  # many chat templates refuse a second one
        )
        return _model_class()(self.model_id, provider=provider, profile=profile)


@functools.cache
def _model_class() -> type[OpenAIChatModel]:
    """OpenAI's chat completions, with what gateways such as OpenRouter and LiteLLM add: what the request cost."""
    from pydantic_ai.models import openai as theirs  # noqa: PLC0415  # 1.5 s, which only the first turn pays

    class Stream(theirs.OpenAIStreamedResponse):
        def _map_chunk_provider_details(self, chunk: Any) -> dict[str, Any] | None:
            return _cost_in(chunk)

    class ChatModel(theirs.OpenAIChatModel):
        def _process_provider_details(self, response: Any) -> dict[str, Any] | None:
            return {**(super()._process_provider_details(response) or {}), **(_cost_in(response) or {})}

        @property
        def _streamed_response_cls(self) -> type[theirs.OpenAIStreamedResponse]:
            return Stream

    return ChatModel


def _cost_in(answer: Any) -> dict[str, Any] | None:
    cost = getattr(answer.usage, "cost", None)
    return {"cost": cost} if isinstance(cost, (int, float)) and not isinstance(cost, bool) else None


_NAME = "openai-compatible"
"""The vendor, as this room and pydantic-ai's messages name it."""


def openai_compatible(
    url: str,
    model: str | None = None,
    api_key: str | Key | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    native_output: NativeOutput = True,
    attempts: int = 3,
    longest_wait: float = 60.0,
    first_wait: float = 1.0,
    on_wait: OnWait | None = None,
    stream: bool | None = None,
) -> CompatibleModel:
    """A model behind an address that speaks OpenAI's chat completions.

    Args:
        url: of the service, as `http://127.0.0.1:8080` or with its `/v1`; where there is no path, `/v1` is meant.
        model: its name; None: the first that the service lists, asked for with the first turn.
        api_key: where the service wants one. `OPENAI_API_KEY` is never sent to it.
        settings: as for VendorModel.
        native_output: whether an output schema goes as `response_format`; False: as a tool that has to be called.
            `"json_object"`: in the older form, `{"type": "json_object", "schema": …}`, which llama-cpp-python's server takes.
        attempts: as for VendorModel.
        longest_wait: the same.
        first_wait: the same.
        on_wait: the same.
        stream: the same.

    Raises:
        InvalidRequest: `url` is no http(s) address, or has a user, a password or a query in it.
    """
    parts = address_of(url)
    path = parts.path.rstrip("/") or "/v1"
    return CompatibleModel(
        urlunsplit((parts.scheme, parts.netloc, path, "", "")),
        model,
        native=native_output,
        api_key=api_key,
        settings=settings,
        attempts=attempts,
        longest_wait=longest_wait,
        first_wait=first_wait,
        on_wait=on_wait,
        stream=stream,
    )
