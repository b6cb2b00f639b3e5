"""The stores this process has open, and which of them is the default."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from loomnb.studio.session import Loom

__all__ = ["Held"]


class Held:
    """What this process holds open."""

    stores: ClassVar[dict[str, Loom]] = {}
    default: ClassVar[Loom | None] = None
    refused: ClassVar[str] = ""
    """The store that could not be opened when it was last asked for: what comes next must not go into another one."""
    guard: ClassVar[threading.RLock] = threading.RLock()
