"""From what a vendor's library raises to our own errors: which kind, whether trying again may help, and nothing secret in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from loomnb.agents.providers.errors import (
    ModelAuthFailed,
    ModelError,
    ModelKeyMissing,
    ModelPackageMissing,
    ModelRateLimited,
    ModelResponseInvalid,
    ModelStreamCut,
)
from loomnb.agents.providers.keys import Scrubber

__all__ = ["missing_package", "translated"]

_OURS = ("openai", "anthropic", "google")
"""Vendors with an extra of their own."""

_NETWORK = ("httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "requests", "botocore", "anyio")
"""Libraries that vendors' libraries stand on: what they raise, when nobody translated it, is about the connection."""


def missing_package(exc: ImportError, vendor: str, model: str) -> ModelPackageMissing:
    """What to install for a vendor. Its own libraries come with the extra of its name, or with that of pydantic-ai."""
    if (exc.name or "").partition(".")[0] in ("pydantic_ai", "tenacity"):
        what = f"loomnb[{vendor}]" if vendor in _OURS else "loomnb[agents]"
    elif vendor in _OURS or vendor.startswith(tuple(f"{name}-" for name in _OURS)):
        what = f"loomnb[{vendor.partition('-')[0]}]"
    else:
        what = f"pydantic-ai-slim[{vendor}]"
    return ModelPackageMissing(
        f"A library that the model {model!r} needs is not installed.",
        extra=what,
        advice=f'Install it: pip install "{what}", then restart the kernel.',
        model=model,
    )


def translated(exc: Exception, *, model: str, vendor: str, scrubber: Scrubber, has_begun: bool) -> ModelError:
    """Our error for whatever a vendor's library raised during one request.

    Args:
        exc: what it raised.
        model: which model was asked, as it was named.
        vendor: whose it is.
        scrubber: takes the keys that were used out of what is quoted.
        has_begun: whether a part of the answer had come already.
    """
    from pydantic_ai import exceptions as theirs  # noqa: PLC0415  # 1.5 s, which only the first turn pays

    if isinstance(exc, ModelError):
        return exc
    said = scrubber.clean(_said(exc))
    status = exc.status_code if isinstance(exc, theirs.ModelHTTPError) else None
    wait = exc.retry_after if isinstance(exc, theirs.ModelAPIError) else None

    def make(kind: type[ModelError], what: str, advice: str = "", retryable: bool | None = None) -> ModelError:
        http = f" with HTTP {status}" if status is not None else ""
        text = f"{what.format(model=repr(model), http=http)}{f': {said}' if said else '.'}"
        return kind(text, advice=advice, retryable=retryable, model=model, status=status, retry_after=wait)

    if isinstance(exc, ImportError):
        return missing_package(exc, vendor, model)
    if isinstance(exc, theirs.UserError):
        return _users(exc, make, model)
    if isinstance(exc, (theirs.ModelAPIError, theirs.UnexpectedModelBehavior)):
        return _services(exc, make, status, has_begun)
    if type(exc).__module__.partition(".")[0] in _NETWORK or isinstance(exc, OSError):
        return _broken_off(make, has_begun)
    return make(ModelResponseInvalid, f"The model {{model}} answered with something unreadable ({type(exc).__name__})")


_Make = Callable[..., ModelError]


def _users(exc: Any, make: _Make, model: str) -> ModelError:
    """What pydantic-ai takes for a mistake of ours: a missing key among others, which it tells in a sentence only."""
    variable = re.search(r"`([A-Z][A-Z0-9_]*(?:KEY|TOKEN)[A-Z0-9_]*)`", exc.message)
    if variable is None:
        return make(ModelError, "The request to the model {model} cannot be made")
    name = variable.group(1)
    return ModelKeyMissing(
        f"The model {model!r} cannot be asked: the environment variable {name} is not set.",
        variable=name,
        advice=f"Set the environment variable {name}, or give api_key=….",
        model=model,
    )


def _services(exc: Any, make: _Make, status: int | None, has_begun: bool) -> ModelError:
    from pydantic_ai import exceptions as theirs  # noqa: PLC0415  # is loaded by now

    if isinstance(exc, theirs.UnexpectedModelBehavior):
        return make(ModelResponseInvalid, "The model {model} answered with something unreadable")
    if isinstance(exc, theirs.ModelAuthenticationError) or status in (401, 403):
        return make(ModelAuthFailed, "The service of {model} did not accept the key{http}", "Check the key, and what it is for.")
    if isinstance(exc, theirs.ModelQuotaExceededError):
        return make(ModelError, "The account of {model} has no credit left{http}", "Look at the account's plan and billing.")
    if (isinstance(exc, theirs.ModelRateLimitError) or status == 429) and not has_begun:
        return make(ModelRateLimited, "The service of {model} takes no more requests just now{http}", "Wait, then try again.")
    if isinstance(exc, theirs.ModelConnectionError):
        return _broken_off(make, has_begun)
    if isinstance(exc, theirs.ModelNotFoundError) or status == 404:
        return make(ModelError, "The request to the model {model} failed{http}", "Check the model's name, and the address.")
    if (
        isinstance(exc, (theirs.ModelUnavailableError, theirs.ModelServerError))
        or status in (408, 409, 429)
        or (status or 0) >= 500
    ):
        if has_begun:  # asked for again it would be shown, and paid for, twice
            return make(ModelStreamCut, "The answer of the model {model} broke off before its end", "Try again.")
        return make(ModelError, "The service of {model} failed{http}", "Try again later.", retryable=True)
    if "finish_reason" in exc.message:
        return make(ModelStreamCut, "The answer of the model {model} broke off before its end")
    if type(exc) is theirs.ModelAPIError and not exc.in_stream:
        # The plain class without a status: the body was no JSON, or none of the protocol.
        return make(ModelResponseInvalid, "The model {model} answered with something unreadable")
    return make(ModelError, "The request to the model {model} failed{http}")


def _broken_off(make: _Make, has_begun: bool) -> ModelError:
    if has_begun:
        return make(ModelStreamCut, "The answer of the model {model} broke off before its end", "Try again.")
    return make(ModelError, "The service of {model} could not be reached", "Check the address and the network.", retryable=True)


def _said(exc: Exception) -> str:
    """What a service said, without the wrapping of its library."""
    body: Any = getattr(exc, "body", None)
    if isinstance(body, dict):
        inner: Any = body.get("error", body)
        told: Any = inner.get("message") if isinstance(inner, dict) else inner
        if isinstance(told, str):
            return told
    if isinstance(body, str) and body.strip():
        return body
    return str(getattr(exc, "message", None) or exc)
