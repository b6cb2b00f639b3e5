"""What may be said to an agent."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from loomnb.agents import check_text
from loomnb.errors import Refused

__all__ = ["check_said"]


def check_said(agent_name: str, text: object, attachments: object = None) -> None:
    """Refuse what cannot be said.

    Raises:
        Refused: the text is none, or blank with nothing attached; or the attachments are no list.
    """
    check_text(f"What is said to {agent_name!r}", "" if text is None else text, error=Refused, advice='Write agent.run("…").')
    if attachments is not None and (
        isinstance(attachments, (str, bytes, os.PathLike, Mapping)) or not isinstance(attachments, Sequence)
    ):
        raise Refused("Attachments are a list.", advice='Write attachments=["report.pdf"].')
    if (text is None or not str(text).strip()) and not attachments:
        raise Refused(f"Nothing was said to {agent_name!r}.", advice='Write agent.run("…").')
