"""One try of one move: what it may write, collected until the commit, and taken away when it is stopped."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from loomnb.documents import DocumentEntity, Shelf
from loomnb.errors import NotJson, OwnershipLost, Refused
from loomnb.jsonvalue import FrozenDict, freeze
from loomnb.runtime.definition import Move

if TYPE_CHECKING:
    from loomnb.runtime.record import RunRecord

__all__ = ["CURRENT", "Attempt", "current_attempt"]

CURRENT: contextvars.ContextVar[Attempt | None] = contextvars.ContextVar("loom_attempt", default=None)
"""The attempt whose body is at work in this context; also asked by the tap that sorts prints to their run."""


def current_attempt() -> Attempt:
    """The attempt at work.

    Raises:
        Refused: no move is at work here.
    """
    attempt = CURRENT.get()
    if attempt is None:
        raise Refused(
            "This works only inside a transition.",
            advice="Call it from a method decorated with @loom.transition, while the run moves.",
        )
    return attempt


class StateDict(FrozenDict):
    """The live state of a move: read-only for the body, written by the setters, so that what they write is seen at once."""

    __slots__ = ()


class Attempt:
    """The access of one try of one move. Everything written through it is committed with the move or dropped."""

    def __init__(self, record: RunRecord, move: Move, number: int) -> None:
        self.record = record
        self.move = move
        self.number = number
        self.state = StateDict(record.state)
        self.result: Any = record.result
        self.result_dirty = False
        self.saved: list[DocumentEntity] = []
        self.log: list[str] = []
        self.revoked = False

    # -- state and result ------------------------------------------------------------------------

    def assign_state(self, partial: Mapping[str, Any]) -> None:
        """Merge keys into the state, shallowly. Copies and checks only what is new."""
        dict.update(self.state, self._frozen(partial, self.state, "state"))

    def set_state(self, full: Mapping[str, Any]) -> None:
        """Replace the state."""
        frozen = self._frozen(full, self.state, "state")
        dict.clear(self.state)
        dict.update(self.state, frozen)

    def assign_result(self, partial: Mapping[str, Any]) -> None:
        """Merge keys into the result, shallowly."""
        base = self.result if isinstance(self.result, Mapping) else {}
        self.result = freeze({**base, **self._frozen(partial, base, "result")})
        self.result_dirty = True

    def set_result(self, full: Any) -> None:
        """Replace the result; any JSON value."""
        self._check()
        self.result = freeze(full, None, "result")
        self.result_dirty = True

    def _frozen(self, value: Mapping[str, Any], was: Any, what: str) -> FrozenDict:
        self._check()
        if not isinstance(value, Mapping):
            raise NotJson(
                f"The {what} takes a mapping, not a {type(value).__name__}.", advice=f"Write {{'key': value}} for the {what}."
            )
        frozen: FrozenDict = freeze(value if isinstance(value, dict) else dict(value), was, what)
        return frozen

    # -- documents: the Writer that documents.DocumentStore asks for ------------------------------

    def document_shelf(self) -> Shelf:
        """The documents, with what this attempt saved."""
        self._check()
        return self.record.shelf

    def new_document_id(self) -> str:
        """A fresh id."""
        self._check()
        return self.record.source.new_id("doc")

    def save_document(self, entity: DocumentEntity) -> DocumentEntity:
        """Put it on the shelf, stamped with this move."""
        self._check()
        record = self.record
        entity = record.shelf.put(
            replace(
                entity,
                transition=self.move.name,
                place=self.move.to,
                labels=record.labels,
                workflow_id=record.id,
                workspace_id=record.workspace_id,
                created_by=record.user_id,
                created_at=record.source.now(),
            )
        )
        self.saved.append(entity)
        return entity

    # -- the rest ---------------------------------------------------------------------------------

    def note(self, text: str) -> int:
        """Take what the body printed or logged. Kept even when the move fails."""
        self.log.append(text)
        self.record.log(text)
        return len(text)

    def revoke(self) -> None:
        """Take the access away: the body was stopped, late writes are refused."""
        self.revoked = True

    def _check(self) -> None:
        if self.revoked:
            raise OwnershipLost(
                f"The transition {self.move.name!r} is over (returned, timed out or canceled); it can write nothing any more.",
                advice="Await what the body starts. A sync body cannot be stopped from outside: let it return soon, or make it async.",
            )
