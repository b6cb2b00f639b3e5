"""Words that people and programs give: refused where they are no text that can be stored.

What a model or a tool says is mended instead (`storable`), since nobody is there who could write it anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from loomnb.errors import DefinitionError, Refused

__all__ = ["check_text", "check_texts"]


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
