"""Words that can be stored.

What a person or a program writes is refused where it is no such text. What a model or a tool says is mended instead (`storable`),
since nobody is there who could write it anew.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from loomnb.errors import DefinitionError, Refused

__all__ = ["check_text", "check_texts", "shortened", "storable"]

_MOST = 10_000
"""Characters of what an error says that are put on record and told to a model."""
_END = 2_000


def check_text(what: str, value: object, *, error: type[Refused] = DefinitionError, advice: str = "") -> None:
    """Refuse what is no text that can be stored. None passes.

    Args:
        what: it is, for the message.
        value: the text.
        error: what is raised.
        advice: what to write instead.

    Raises:
        Refused: of the class given: it is no text, or holds half of a surrogate pair.
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise error(f"{what} is a text, not {value!r:.60}.", advice=advice or "Give a text: str(…).")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise error(
            f"{what} holds half of a surrogate pair: it is no valid text.",
            advice='Mend it: text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").',
        ) from exc


def check_texts(what: str, values: object, *, error: type[Refused] = DefinitionError, advice: str = "") -> None:
    """Refuse what is no list of texts that can be stored. None passes.

    Raises:
        Refused: of the class given.
    """
    if values is None:
        return
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Collection):
        raise error(f"{what} is a list of texts, not {values!r:.60}.", advice=advice or 'Write ["…"].')
    for one in values:
        if one is None:
            raise error(f"One of {what} is None.", advice=advice or 'Write ["…"].')
        check_text(f"One of {what}", one, error=error, advice=advice)


def storable(value: Any) -> Any:
    """What a model or a tool gave, as it can be stored: half a surrogate pair and NUL in its texts become the replacement
    character, a number that is none becomes None; names of a mapping stay distinct. Models say such things; a turn must not fail
    of it."""
    kind = type(value)
    if value is None or kind is int or kind is bool:
        return value
    if isinstance(value, str):
        if value.isascii() and "\0" not in value:
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    if isinstance(value, (dict, Mapping)):
        out: dict[Any, Any] = {}
        for name, one in value.items():
            kept = storable(name)
            while isinstance(kept, str) and kept in out:  # two names that differ in nothing else
                kept += "\ufffd"
            out[kept] = storable(one)
        return out
    if isinstance(value, (list, tuple)):
        return [storable(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shortened(text: str) -> str:
    """What an error says, of at most 10,000 characters and a note: its beginning and its end. Some hold a whole file."""
    if len(text) <= _MOST:
        return text
    left = len(text) - _MOST
    return f"{text[: _MOST - _END]}\n… {left:,} characters are left out …\n{text[-_END:]}"
