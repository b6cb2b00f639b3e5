"""Which definitions exist in this process, by name. A re-run cell replaces its own; a clash of two places is an error."""

from __future__ import annotations

import difflib
import weakref
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from loomnb.errors import DefinitionError, NotFound
from loomnb.runtime.definition import Definition

__all__ = ["REGISTRY", "Registry"]


class Named(Protocol):
    """What can be registered."""

    @property
    def name(self) -> str:
        """The identifier."""
        ...


D = TypeVar("D", bound=Named)


class Listener(Protocol):
    """Who wants to know of new definitions."""

    def defined(self, definition: Any) -> None:
        """A definition was added or replaced."""
        ...


class Registry(Generic[D]):
    """Definitions by name.

    Args:
        what: what they are, for messages; `@loom.<what>` defines one.
    """

    def __init__(self, what: str = "workflow") -> None:
        self._what = what
        self._known: dict[str, tuple[D, str, str]] = {}
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self.apps: set[str] = set()
        """The apps defined here; a stored run of another app waits for its cell."""

    def __iter__(self) -> Iterator[D]:
        return iter([known[0] for known in self._known.values()])

    def add(self, definition: D, module: str, qualname: str) -> None:
        """Add it, or replace the one of the same place.

        Raises:
            DefinitionError: another module (or another class of this module) has this name.
        """
        known = self._known.get(definition.name)
        if known is not None and not _same_place(known[1:], (module, qualname)):
            raise DefinitionError(
                f"The name {definition.name!r} is taken: {known[1]}.{known[2]} has it, and {module}.{qualname} wants it.",
                advice=f"Give one of them another name, e.g. @loom.{self._what}(name=…).",
            )
        self._known[definition.name] = definition, module, qualname
        self._tell(definition)

    def add_app(self, name: str) -> None:
        """An app was defined: stored runs of it may go on."""
        self.apps.add(name)
        for definition in self:
            self._tell(definition)

    def _tell(self, definition: D) -> None:
        for listener in list(self._listeners):
            listener.defined(definition)

    def get(self, name: str) -> D | None:
        """The definition of a name."""
        known = self._known.get(name)
        return known[0] if known else None

    def need(self, name: str) -> D:
        """The definition of a name.

        Raises:
            NotFound: none has it; the message lists those that exist.
        """
        found = self.get(name)
        if found is None:
            names = ", ".join(sorted(n for n in self._known if n != "ask")) or "none yet"
            near = difflib.get_close_matches(name, self._known, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise NotFound(
                f"No {self._what} is called {name!r}.", advice=f"{hint}Defined here: {names}. Run the cell that defines it first."
            )
        return found

    def listen(self, listener: Listener) -> None:
        """Tell somebody of every definition from now on; held weakly."""
        self._listeners.add(listener)


def _same_place(old: tuple[str, str], new: tuple[str, str]) -> bool:
    if old[0] != new[0]:
        return False
    # A class made inside a function is made anew at each call, like one in a cell that is run again.
    return old[0] == "__main__" or old[1] == new[1] or "<locals>" in old[1] or "<locals>" in new[1]


REGISTRY: Registry[Definition] = Registry()
