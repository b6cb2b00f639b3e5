"""One turn of a model: the request, the stream, the retries, and the end that a signal puts to it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from loomnb.agents.providers.answers import Frames, result_of, usage_of
from loomnb.agents.providers.errors import ModelError, ModelResponseInvalid, ModelStreamCut, TurnCanceled
from loomnb.agents.providers.keys import Scrubber
from loomnb.agents.providers.loading import loaded
from loomnb.agents.providers.outputs import Output, output_for
from loomnb.agents.providers.prompts import parameters_of, prompt_of, settings_of
from loomnb.agents.providers.retrying import retried
from loomnb.agents.providers.translating import missing_package, translated
from loomnb.errors import InvalidRequest, LoomError
from loomnb.runtime import AbortSignal, TurnRequest, TurnResult

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, StreamedResponse

__all__ = ["Manners", "OnWait", "Owner", "Turn"]

OnWait = Callable[[float, str], Awaitable[None] | None]
"""Told of a wait before it begins: seconds, and why (`rate-limited` or `unavailable`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How a service is asked; the fields are arguments of VendorModel.

    Raises:
        InvalidRequest: a number is out of range.
    """

    attempts: int = 3
    longest_wait: float = 60.0
    first_wait: float = 1.0
    on_wait: OnWait | None = None
    stream: bool | None = None

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.longest_wait < 0 or self.first_wait < 0:
            raise InvalidRequest("attempts is at least 1, and a wait at least 0 seconds.")


class Owner(Protocol):
    """What a turn asks of its model."""

    vendor: str
    settings: dict[str, Any]
    manners: Manners

    @property
    def model(self) -> str: ...
    @property
    def model_id(self) -> str: ...
    def secrets(self) -> list[str]: ...
    def adjusted(self, settings: dict[str, Any], request: TurnRequest, output: Output | None) -> dict[str, Any]: ...
    def load(self) -> None: ...
    async def opened(self) -> Model: ...


class Turn:
    """One turn that is made.

    Args:
        owner: whose turn it is.
        request: what it is given.
    """

    def __init__(self, owner: Owner, request: TurnRequest) -> None:
        self._owner = owner
        self._request = request
        self._frames = Frames(request.sink, None)
        self._stream: StreamedResponse | None = None
        self._scrubber = Scrubber()

    async def made(self) -> TurnResult:
        """The turn, made again where that may help, and given up at once when its signal is aborted."""
        try:
            return await _until_aborted(self._attempts(), self._request.signal)
        except (asyncio.CancelledError, ModelError):  # what the closed connection made of it does not matter then
            if not self._request.signal.aborted:
                raise
        raise TurnCanceled(reason=self._request.signal.reason, usage=self._usage(), text=self._frames.text)

    async def _attempts(self) -> TurnResult:
        owner = self._owner
        try:
            await loaded(f"{type(owner).__name__} {owner.vendor}", owner.load)
            self._scrubber = Scrubber([*owner.secrets(), *_headers(owner.settings), *_headers(self._request.settings)])
            return await retried(
                self._once,
                attempts=owner.manners.attempts,
                longest_wait=owner.manners.longest_wait,
                first_wait=owner.manners.first_wait,
                tell=self._tell,
            )
        except ImportError as exc:
            failure = missing_package(exc, owner.vendor, owner.model)
        raise failure

    async def _tell(self, seconds: float, reason: str) -> None:
        on_wait = self._owner.manners.on_wait
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
        settings: Any = owner.adjusted(settings_of(request, owner.settings), request, output)
        frames = self._frames = Frames(request.sink, output)
        streams = owner.manners.stream
        async with model:
            if streams or (streams is None and request.sink is not None):
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


def _headers(settings: Mapping[str, Any]) -> list[str]:
    """What is sent beside: a gateway's key may be among it."""
    return [str(value) for value in (settings.get("extra_headers") or {}).values()]


async def _until_aborted(work: Coroutine[Any, Any, TurnResult], signal: AbortSignal) -> TurnResult:
    """Do work in a task of its own, which is canceled when the signal is aborted, from whatever thread.

    Returns only when the task is over, also when the one who awaits is canceled (asyncio hands that on): then the connection is
    closed, and nothing writes to the sink any more.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)

    def end(_: BaseException) -> None:
        loop.call_soon_threadsafe(task.cancel)

    remove = signal.add_listener(end)
    try:
        return await task
    finally:
        remove()
