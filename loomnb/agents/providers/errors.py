"""What can go wrong with a model, in our words: every failure of a vendor's library is translated where it comes in.

A key never stands in what these errors say. What a service answered is quoted in one line, with the keys that were used taken
out; the library's own exception is not kept, because its text, its request and its headers may carry one.

ModelError                LLM_REQUEST_FAILED     the request failed: a refusal of the service, or it could not be reached
├── ModelResponseInvalid  LLM_RESPONSE_INVALID   it answered with something unreadable
├── ModelRateLimited      LLM_RATE_LIMITED       too many requests                       (.retry_after)
├── ModelAuthFailed       LLM_AUTH_FAILED        the key is not accepted
├── ModelKeyMissing       LLM_KEY_MISSING        there is no key                         (.variable)
├── ModelPackageMissing   LLM_PACKAGE_MISSING    a library is not installed              (.extra)
├── ModelStreamCut        LLM_STREAM_CUT         the answer broke off in the middle      (.text, .usage)
└── LocalServerFailed     LLM_LOCAL_FAILED       a local model could not be started
TurnCanceled              (an asyncio.CancelledError) nobody waits for the turn any more (.text, .usage, .reason)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from loomnb.errors import WorldFailed

__all__ = [
    "LocalServerFailed",
    "ModelAuthFailed",
    "ModelError",
    "ModelKeyMissing",
    "ModelPackageMissing",
    "ModelRateLimited",
    "ModelResponseInvalid",
    "ModelStreamCut",
    "TurnCanceled",
]


class ModelError(WorldFailed):
    """A request to a model failed. `retryable` says whether the same request may succeed later.

    Attributes:
        model: which model it was, as it was named.
        status: of HTTP, where there was one.
        retry_after: seconds the service asked to wait, where it said so.
        usage: the tokens that are known to be spent all the same.
        text: what the model had said until then.
    """

    code = "LLM_REQUEST_FAILED"
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        advice: str = "",
        retryable: bool | None = None,
        model: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        usage: Mapping[str, int] | None = None,
        text: str = "",
    ) -> None:
        super().__init__(message, advice=advice, retryable=retryable)
        self.model = model
        self.status = status
        self.retry_after = retry_after
        self.usage: dict[str, int] = dict(usage or {})
        self.text = text


class ModelResponseInvalid(ModelError):
    """The service answered with something unreadable."""

    code = "LLM_RESPONSE_INVALID"


class ModelRateLimited(ModelError):
    """Too many requests, and waiting as long as is allowed did not help. `retry_after` says when to come back, where known."""

    code = "LLM_RATE_LIMITED"
    retryable = True


class ModelAuthFailed(ModelError):
    """The service does not accept the key, or the key may not use this model."""

    code = "LLM_AUTH_FAILED"


class ModelKeyMissing(ModelError):
    """There is no key for this vendor.

    Attributes:
        variable: the environment variable that would hold it.
    """

    code = "LLM_KEY_MISSING"

    def __init__(self, message: str, *, variable: str = "", advice: str = "", model: str = "") -> None:
        super().__init__(message, advice=advice, model=model)
        self.variable = variable


class ModelPackageMissing(ModelError):
    """A library that this model needs is not installed.

    Attributes:
        extra: what installs it, as pip takes it.
    """

    code = "LLM_PACKAGE_MISSING"

    def __init__(self, message: str, *, extra: str = "", advice: str = "", model: str = "") -> None:
        super().__init__(message, advice=advice, model=model)
        self.extra = extra


class ModelStreamCut(ModelError):
    """The answer broke off before its end. It is not asked for again by itself: part of it was shown, and paid for."""

    code = "LLM_STREAM_CUT"
    retryable = True


class LocalServerFailed(ModelError):
    """A local model could not be started: no server program, no such file, or it did not get ready."""

    code = "LLM_LOCAL_FAILED"


class TurnCanceled(asyncio.CancelledError):
    """The turn's signal was aborted: the connection was closed at once.

    It is a CancelledError, so that nothing takes it for a failure of the model.

    Attributes:
        reason: what the signal was aborted with.
        usage: the tokens that are known to be spent; services tell most of it at the end only.
        text: what the model had said until then.
    """

    def __init__(
        self,
        message: str = "The turn was canceled.",
        *,
        reason: BaseException | None = None,
        usage: Mapping[str, int] | None = None,
        text: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.usage: dict[str, int] = dict(usage or {})
        self.text = text
