"""The class a workflow extends: the four setters and the documents of the run at work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from loomnb.documents import DocumentStore
from loomnb.runtime import current_attempt

__all__ = ["BaseWorkflow"]

TArgs = TypeVar("TArgs")


class BaseWorkflow(Generic[TArgs]):
    """Base of workflow classes.

    One instance serves every run: keep nothing of a run on `self`. A transition gets `(state, ctx)`, a wait transition
    `(state, input, ctx)`; trailing parameters may be left out. It returns nothing and writes with the four setters, which
    take effect at once and are dropped together if the transition fails.
    """

    @property
    def document_store(self) -> DocumentStore:
        """The documents of the run at work."""
        return _DOCUMENTS

    def assign_state(self, partial: Mapping[str, Any] | None = None, /, **values: Any) -> None:
        """Merge keys into the state, shallowly.

        Raises:
            NotJson: a value JSON cannot hold.
            OwnershipLost: the transition was stopped.
            Refused: no transition is at work.
        """
        current_attempt().assign_state({**(partial if partial is not None else {}), **values} if values else _mapping(partial))

    def set_state(self, full: Mapping[str, Any], /) -> None:
        """Replace the state. Raises as `assign_state` does."""
        current_attempt().set_state(full)

    def assign_result(self, partial: Mapping[str, Any] | None = None, /, **values: Any) -> None:
        """Merge keys into the run's result, shallowly. Raises as `assign_state` does."""
        current_attempt().assign_result({**(partial if partial is not None else {}), **values} if values else _mapping(partial))

    def set_result(self, full: Any, /) -> None:
        """Replace the run's result; any JSON value. Raises as `assign_state` does."""
        current_attempt().set_result(full)


def _mapping(partial: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {} if partial is None else partial


_DOCUMENTS = DocumentStore(current_attempt)
