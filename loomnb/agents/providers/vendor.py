"""A model of any vendor that pydantic-ai knows, as a ModelProvider: one turn at a time, and no tool is ever run.

pydantic-ai's `direct` interface is used, and nothing else of it: one typed call for every vendor, without an agent loop of its
own. It is imported with the first turn (1.5 s): making a model costs nothing. Rules: contracts/agents.md §1.7.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from loomnb.agents.providers.answers import Frames, result_of, usage_of
from loomnb.agents.providers.errors import ModelResponseInvalid, ModelStreamCut, TurnCanceled
from loomnb.agents.providers.keys import Key, Scrubber, key_of
from loomnb.agents.providers.outputs import output_for
from loomnb.agents.providers.prompts import parameters_of, prompt_of, settings_of
from loomnb.agents.providers.retrying import retried
from loomnb.agents.providers.translating import missing_package, translated
from loomnb.errors import InvalidRequest, LoomError
from loomnb.runtime import AbortSignal, TurnRequest, TurnResult

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, StreamedResponse

__all__ = ["OnWait", "VendorModel"]

OnWait = Callable[[float, str], Awaitable[None] | None]
"""Told of a wait before it begins: seconds, and why (`rate-limited` or `unavailable`)."""


class VendorModel:
    """A model of a vendor.

    Args:
        model: `vendor:name`, such as `anthropic:claude-sonnet-4-5`, `openai:gpt-5`, `google:gemini-2.5-pro`,
            `openrouter:meta-llama/llama-4-scout`: whatever pydantic-ai knows.
        api_key: the vendor's key; None: the one typed in with `ask_key`, else the vendor's environment variable.
        base_url: where the vendor's service is; None: where its library says.
        settings: for every turn: `temperature`, `max_tokens`, `thinking`, …, as pydantic-ai's ModelSettings name them; those of
            a request win.
        attempts: how often a request is made at the most, when the service is busy (429), broken (5xx) or not reached. Anything
            else is asked exactly once.
        longest_wait: seconds between two of them at the most.
        first_wait: seconds of the first wait, where the service does not say how long; then twice as long each time.
        on_wait: told of each wait; None: a frame `{"kind": "waiting", "seconds", "reason"}` is written to the sink.
        stream: whether the answer is streamed; None: when the request has a sink.

    Raises:
        InvalidRequest: the name has no vendor, or a number is out of range. Whether the vendor has such a model is known at
            the first turn.
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
                advice="Write the vendor and the model: 'anthropic:claude-sonnet-4-5', 'openai:gpt-5', 'ollama:qwen3'.",
            )
        if attempts < 1 or longest_wait < 0 or first_wait < 0:
            raise InvalidRequest("attempts is at least 1, and a wait at least 0 seconds.")
        self.model = model
        self.vendor = vendor
        self.base_url = base_url
        self.settings = dict(settings or {})
        self._key = Key(api_key) if isinstance(api_key, str) else api_key
        self._attempts = attempts
        self._longest_wait = longest_wait
        self._first_wait = first_wait
        self._on_wait = on_wait
        self._stream = stream

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
        model = self._for(request.model)
        if model is not self:
            return await model.run_turn(request)
        return await _Turn(self, request).made()

    def _for(self, name: str | None) -> VendorModel:
        """The model for a name that a request gives."""
        if name is None or name in (self.model, self.model_id):
            return self
        vendor, colon, _ = name.partition(":")
        is_other = bool(colon) and vendor != self.vendor and _is_vendor(vendor)
        if is_other:  # a key must not go to a vendor it is not for
            return VendorModel(name, settings=self.settings, **self._manners())
        return self._named(name.removeprefix(f"{self.vendor}:"))

    def _manners(self) -> dict[str, Any]:
        return {
            "attempts": self._attempts,
            "longest_wait": self._longest_wait,
            "first_wait": self._first_wait,
            "on_wait": self._on_wait,
            "stream": self._stream,
        }

    def _named(self, name: str) -> VendorModel:
        """The same with another model of the vendor."""
        return VendorModel(
            f"{self.vendor}:{name}",
            api_key=self._key,
            base_url=self.base_url,
            settings=self.settings,
            **self._manners(),
        )

    def secrets(self) -> list[str | None]:
        """What must not stand in a text: the key, and what the address has of a user and a password."""
        key = self._key or (key_of(self.vendor) if self.base_url is None else None)
        return [key.reveal() if key is not None else None, self.base_url]

    async def opened(self) -> Model:
        """The library's model, made anew for each turn: its connections belong to the event loop that opened them.

        Raises:
            ModelKeyMissing: there is no key.
            ImportError: the vendor's library is not installed.
        """
        from pydantic_ai.models import infer_model  # noqa: PLC0415  # 1.5 s, which only the first turn pays
        from pydantic_ai.providers import infer_provider, infer_provider_class  # noqa: PLC0415  # the same

        key = self._key if self.base_url is not None else key_of(self.vendor, self._key)
        given = {name: value for name, value in (("api_key", key and key.reveal()), ("base_url", self.base_url)) if value}
        if "base_url" in given and "api_key" not in given and self.vendor == "anthropic":
            given["api_key"] = "none"  # its library insists on one, which must not be the one for Anthropic

        def provider(vendor: str) -> Any:
            return infer_provider_class(vendor)(**given) if given else infer_provider(vendor)

        try:
            return infer_model(self.model, provider_factory=provider)
        except ValueError:
            raise InvalidRequest(f"pydantic-ai knows no vendor {self.vendor!r}.") from None
        except TypeError:
            raise InvalidRequest(f"The vendor {self.vendor!r} takes no {' and no '.join(given)}.") from None


def _is_vendor(name: str) -> bool:
    from pydantic_ai.providers import infer_provider_class  # noqa: PLC0415  # 1.5 s, which only the first turn pays

    try:
        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:
        return True
    return True


class _Turn:
    """One turn that is made."""

    def __init__(self, owner: VendorModel, request: TurnRequest) -> None:
        self._owner = owner
        self._request = request
        self._frames = Frames(request.sink, None)
        self._stream: StreamedResponse | None = None
        self._scrubber = Scrubber()

    async def made(self) -> TurnResult:
        """The turn, made again where that may help, and given up at once when its signal is aborted."""
        try:
            return await _until_aborted(self._attempts(), self._request.signal)
        except asyncio.CancelledError:
            if not self._request.signal.aborted:
                raise
        raise TurnCanceled(reason=self._request.signal.reason, usage=self._usage(), text=self._frames.text)

    async def _attempts(self) -> TurnResult:
        owner = self._owner
        try:
            self._scrubber = Scrubber(owner.secrets())
            return await retried(
                self._once,
                attempts=owner._attempts,  # noqa: SLF001  # one class in two
                longest_wait=owner._longest_wait,  # noqa: SLF001
                first_wait=owner._first_wait,  # noqa: SLF001
                tell=self._tell,
            )
        except ImportError as exc:
            failure = missing_package(exc, owner.vendor, owner.model)
        raise failure

    async def _tell(self, seconds: float, reason: str) -> None:
        on_wait = self._owner._on_wait  # noqa: SLF001  # one class in two
        if on_wait is None:
            await self._frames.write("waiting", seconds=round(seconds, 3), reason=reason)
        elif inspect.isawaitable(told := on_wait(seconds, reason)):
            await told

    async def _once(self) -> TurnResult:
        """One request. What the library raises is translated outside of its `except`, so that nothing of it hangs on ours."""
        try:
            return await self._asked()
        except LoomError:
            raise
        except Exception as exc:
            if exc is self._frames.failure or isinstance(exc, Warning):  # the sink's, or a warning that is made an error
                raise
            failure = translated(
                exc,
                model=self._owner.model,
                vendor=self._owner.vendor,
                scrubber=self._scrubber,
                has_begun=self._frames.has_begun,
            )
        failure.usage, failure.text = self._usage(), self._frames.text
        raise failure

    async def _asked(self) -> TurnResult:
        owner, request = self._owner, self._request
        model = await owner.opened()
        output = output_for(request.output_schema, model.profile)
        system, prompt = prompt_of(request, model.system)
        parameters = parameters_of(request, system, output)
        settings: Any = settings_of(request, owner.settings)
        frames = self._frames = Frames(request.sink, output)
        async with model:
            if owner._stream if owner._stream is not None else request.sink is not None:  # noqa: SLF001  # one class in two
                response = await self._streamed(model, prompt, settings, parameters)
            else:
                from pydantic_ai.direct import model_request  # noqa: PLC0415  # 1.5 s, which only the first turn pays

                response = await model_request(
                    model, prompt, model_settings=settings, model_request_parameters=parameters, instrument=False
                )
                await frames.whole(response)
        self._check(model, response)
        result = result_of(response, output, frames, owner.model_id)
        await frames.ended(result)
        return result

    async def _streamed(self, model: Model, prompt: Any, settings: Any, parameters: Any) -> ModelResponse:
        from pydantic_ai.direct import model_request_stream  # noqa: PLC0415  # 1.5 s, which only the first turn pays

        self._stream = None
        async with model_request_stream(
            model, prompt, model_settings=settings, model_request_parameters=parameters, instrument=False
        ) as stream:
            self._stream = stream
            async for event in stream:
                await self._frames.event(event)
            return stream.get()

    def _check(self, model: Model, response: ModelResponse) -> None:
        """See that it is a whole answer.

        Raises:
            ModelStreamCut: it has no end.
            ModelResponseInvalid: there is nothing in it.
        """
        details = response.provider_details or {}
        # Vendors' own protocols always say why an answer ends. Without it, a proxy closed the connection in the middle.
        speaks = {base.__module__.partition("models.")[2].partition(".")[0] for base in type(model).__mro__}
        has_no_end = not details.get("finish_reason") and "refusal" not in details and bool(speaks & {"openai", "anthropic"})
        if not response.parts and has_no_end:
            raise ModelResponseInvalid(f"The model {self._owner.model!r} answered with nothing.", model=self._owner.model)
        if response.state == "incomplete" or (self._stream is not None and has_no_end):
            raise ModelStreamCut(
                f"The answer of the model {self._owner.model!r} broke off before its end.",
                advice="Try again.",
                model=self._owner.model,
                usage=usage_of(response.usage),
                text=self._frames.text,
            )

    def _usage(self) -> dict[str, int]:
        return usage_of(self._stream.usage) if self._stream is not None else {}


async def _until_aborted(work: Coroutine[Any, Any, TurnResult], signal: AbortSignal) -> TurnResult:
    """Do work in a task of its own, which is canceled when the signal is aborted, from whatever thread.

    Returns only when the task is over: then the connection is closed, and nothing writes to the sink any more.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    remove = signal.add_listener(lambda _: loop.call_soon_threadsafe(task.cancel))
    try:
        return await task
    finally:
        remove()
        if not task.done():  # the one who awaits was canceled
            task.cancel()
            await asyncio.wait([task])
