"""Keys of model services: where they come from, and that they are shown nowhere.

A key is given as `api_key=`, typed in with `ask_key`, or found in the vendor's environment variable, in this order. It is read
when a request is made, never at an import, and held in an object that shows itself as `<Key ****>`.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable, Iterable
from typing import NoReturn
from urllib.parse import SplitResult, urlsplit

from loomnb.agents.providers.errors import ModelKeyMissing
from loomnb.errors import InvalidRequest

__all__ = ["Key", "Scrubber", "address_of", "ask_key", "forget_keys", "key_of", "variable_of"]

_VARIABLES: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
}
"""The variables of vendors that take nothing but a key. For any other, its library looks by itself."""

_SAME = {"openai-chat": "openai", "openai-responses": "openai"}
"""Names for one vendor's other interfaces."""

_ASKED: dict[str, Key] = {}
"""What was typed in, for as long as the process lives."""


class Key:
    """A key that does not show itself: not in `repr`, in `str`, in a traceback or in a pickle.

    Args:
        value: the key.

    Raises:
        InvalidRequest: it is no text, empty, or has characters that a header cannot hold.
    """

    __slots__ = ("_reveal",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str) or not re.fullmatch(r"[!-~]+", value.strip()):
            # The value is not quoted: a mistyped key is a key all the same.
            raise InvalidRequest("A key is a text of visible ASCII characters without spaces, and this is none.")
        value = value.strip()
        self._reveal: Callable[[], str] = lambda: value  # in a closure: no attribute, no slot shows it

    @classmethod
    def of_environment(cls, variable: str) -> Key:
        """The key that stands in an environment variable when it is used.

        Args:
            variable: its name. It is read at each use, where it raises ModelKeyMissing if it is not set.
        """
        key = object.__new__(cls)

        def reveal() -> str:
            value = os.environ.get(variable, "").strip()
            if not value:
                raise _missing(f"the environment variable {variable} is not set", variable)
            return value

        key._reveal = reveal
        return key

    def reveal(self) -> str:
        """The key itself, for the library that sends it."""
        return self._reveal()

    def __repr__(self) -> str:
        return "<Key ****>"

    def __reduce__(self) -> NoReturn:
        raise InvalidRequest("A key is not stored.", advice="Give it again where it is needed, or use the environment variable.")


def variable_of(vendor: str) -> str:
    """The environment variable of a vendor's key; empty when its library alone knows."""
    return _VARIABLES.get(_SAME.get(vendor, vendor), ("",))[0]


def key_of(vendor: str, given: str | Key | None = None) -> Key | None:
    """The key for a vendor: the given one, else the one typed in, else the one of the environment.

    Args:
        vendor: `anthropic`, `openai`, …
        given: what `api_key=` was.

    Returns:
        None when the vendor needs none, or its library finds it by itself.

    Raises:
        ModelKeyMissing: there is none; it names the environment variable.
    """
    if given is not None:
        return given if isinstance(given, Key) else Key(given)
    vendor = _SAME.get(vendor, vendor)
    if vendor in _ASKED:
        return _ASKED[vendor]
    if vendor not in _VARIABLES:
        return None
    found = next((name for name in _VARIABLES[vendor] if os.environ.get(name, "").strip()), None)
    if found is None:
        raise _missing(f"there is no key for {vendor}", _VARIABLES[vendor][0], vendor)
    return Key.of_environment(found)


def ask_key(vendor: str, *, ask: Callable[[str], str] = getpass.getpass) -> Key:
    """Let a person type a vendor's key, unseen. Models of this vendor use it until the process ends.

    Args:
        vendor: `anthropic`, `openai`, …
        ask: shows a text and gives what was typed; in a notebook `getpass` shows a field below the cell.

    Raises:
        InvalidRequest: nothing was typed, or something that is no key.
    """
    key = _ASKED[_SAME.get(vendor, vendor)] = Key(ask(f"Key for {vendor}: "))
    return key


def forget_keys() -> None:
    """Forget all keys that were typed in."""
    _ASKED.clear()


def _missing(what: str, variable: str, vendor: str = "") -> ModelKeyMissing:
    asked = f", or call loom.ask_key({vendor!r})" if vendor else ""
    return ModelKeyMissing(
        f"The model cannot be asked: {what}.",
        variable=variable,
        advice=f"Set the environment variable {variable}, or give api_key=…{asked}.",
    )


def address_of(url: str) -> SplitResult:
    """The parts of a service's address.

    Raises:
        InvalidRequest: it is no http(s) address; or it has a user, a password or a query in it: libraries write addresses into
            their logs, so that a secret has no place there. The address is not quoted.
    """
    try:
        parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one, parts = False, urlsplit("")
    if not is_one:
        raise InvalidRequest("An address begins with http:// or https:// and names a host, and this is none.")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidRequest(
            "The address of a service has no user, no password and no query in it: it is written into logs.",
            advice="Give a key with api_key=…, and anything else with settings={'extra_headers': {…}}.",
        )
    return parts


class Scrubber:
    """Takes keys out of texts that come from elsewhere.

    Args:
        secrets: what must not be shown; texts of less than four characters are none.
    """

    _LOOKS_LIKE_A_KEY = re.compile(
        r"(?:sk|rk|pk|gsk|xai|key)-[\w*.-]{6,}|AIza[\w-]{10,}|(?i:(?<=bearer )[^\s\"',]{4,}|(?<=[?&]key=)[^\s&\"']+)"
    )

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        # "a" is no secret, and taking it out of a text would leave none.
        self._secrets = sorted({one for one in secrets if one and len(one) > 3}, key=len, reverse=True)

    def clean(self, text: str, limit: int = 300) -> str:
        """The text in one line, without keys, cut to `limit` characters."""
        for secret in self._secrets:
            text = text.replace(secret, "****")
        text = " ".join(self._LOOKS_LIKE_A_KEY.sub("****", text).split())
        return text if len(text) <= limit else f"{text[:limit]}…"

    def __repr__(self) -> str:
        return "<Scrubber>"
