"""One try of one move: what it may write, collected until the commit, and taken away when it is stopped."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from loomnb.documents import DocumentEntity, Shelf
from loomnb.errors import NotJson, OwnershipLost, Refused
from loomnb.jsonvalue import FrozenDict, freeze
from loomnb.runtime.definition import Definition, Move, RunContext
from loomnb.runtime.failure import stored_text
from loomnb.runtime.live import LiveCall
from loomnb.runtime.record import Progress, RunRecord
from loomnb.runtime.registry import REGISTRY

__all__ = ["CURRENT", "Attempt", "Show", "current_attempt"]

Show = Literal["inline", "link", "hidden"]
"""How a sub-workflow is shown in its parent's panel."""

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

    def __init__(self, record: RunRecord, move: Move, number: int, stop_children: Callable[[RunRecord], None]) -> None:
        self.record = record
        self._stop_children = stop_children
        self.move = move
        self.number = number
        self.to, self.via = move.to, move.name
        self.live: LiveCall | None = None
        """Of a step: what its code is given goes through this."""
        self.state = StateDict(record.state)
        self.result: Any = record.result
        self.result_dirty = False
        self.progress: Progress | None = None
        self.saved: list[DocumentEntity] = []
        self.children: list[RunRecord] = []
        self.log: list[str] = []
        self.revoked = False
        self._tool_calls = 0
        self._lock = threading.RLock()  # tools of one message of a model work side by side, sync ones on threads

    def tool_context(self) -> RunContext[Any]:
        """What a tool called by this move knows of the run. Each call has a key of its own: the first call's is not the second's.

        Raises:
            OwnershipLost: the move is over.
        """
        self._check()
        place = self.live.place_key() if self.live is not None else None
        if place is None:
            with self._lock:
                self._tool_calls += 1
                place = str(self._tool_calls)
        record = self.record
        return RunContext(
            user_id=record.user_id,
            workspace_id=record.workspace_id,
            workflow_id=record.id,
            args=record.loaded_args,
            config=record.loaded_config,
            idempotency_key=f"{record.id}/{self.number}/{place}",
        )

    # -- state and result ------------------------------------------------------------------------

    def assign_state(self, partial: Mapping[str, Any]) -> None:
        """Merge keys into the state, shallowly. Copies and checks only what is new."""
        with self._lock:
            dict.update(self.state, self._frozen(partial, self.state, "state"))

    def set_state(self, full: Mapping[str, Any]) -> None:
        """Replace the state."""
        with self._lock:
            frozen = self._frozen(full, self.state, "state")
            dict.clear(self.state)
            dict.update(self.state, frozen)

    def assign_result(self, partial: Mapping[str, Any]) -> None:
        """Merge keys into the result, shallowly."""
        with self._lock:
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
        with self._lock:
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

    # -- sub-workflows ----------------------------------------------------------------------------

    def start_child(
        self,
        definition: Definition,
        raw_args: Any,
        *,
        callback: Mapping[str, Any] | None,
        show: Show,
        label: str | None,
        config: Any = None,
    ) -> str:
        """Start a sub-workflow with this move's commit; its id.

        Raises:
            ArgsInvalid: the arguments or the configuration do not fit; nothing is started.
            Refused: the callback names no wait transition of this workflow, or `show` is not known.
        """
        self._check()
        record = self.record
        if record.stateless:
            raise Refused(
                "A stateless run cannot start a sub-workflow: there is no store to keep it in.",
                advice="Leave stateless=True out.",
            )
        if show not in ("inline", "link", "hidden"):
            raise Refused(f"show={show!r} is not known.", advice="Use 'inline', 'link' or 'hidden'.")
        if callback is not None and not isinstance(callback, Mapping):
            raise Refused(
                f"callback={callback!r:.100} is no mapping.", advice='Give callback={"transition": "<a method with wait=True>"}.'
            )
        parent = REGISTRY.get(record.workflow)
        if callback is not None and (parent is None or not parent.has_wait(callback.get("transition", ""))):
            raise Refused(
                f"The callback names {callback.get('transition')!r}, which is no wait transition of {record.workflow!r}.",
                advice='Give callback={"transition": "<a method with wait=True>"}.',
            )
        stored, loaded = definition.parse_args(raw_args)
        stored_config, loaded_config = definition.parse_config(config)
        with self._lock:
            child = RunRecord(
                # By move and call, so that the same move made again after a crash would start the same child.
                id=f"{record.id}.{self.number}.{len(self.children) + 1}",
                workflow=definition.name,
                source=record.source,
                args=stored,
                title=label or definition.title,
                origin=definition.origin,
                fingerprint=definition.fingerprint,
                step_limit=definition.step_limit,
                pipelined=record.pipelined,
                loop=record.loop,
                config=stored_config,
                loaded_config=loaded_config,
                services_of=record.services_of,
                user_id=record.user_id,
                app_name=record.app_name,
                workspace_id=record.workspace_id,
                loaded_args=loaded,
                context=record.context,
                host=record.host,
                parent_id=record.id,
                callback=freeze(dict(callback)) if callback is not None else None,
            )
            if show != "hidden":
                content = {
                    "label": label or definition.name,
                    "workflowId": child.id,
                    "embed": show == "inline",
                    "expanded": show == "inline",
                }
                link = DocumentEntity(
                    id=self.new_document_id(), key=f"link_{child.id}", document_name="link", content=freeze(content)
                )
                self.save_document(link)
            self.children.append(child)
            return child.id

    def cancel_children(self) -> None:
        """Cancel the sub-workflows that still go on, now. Their callbacks come as of any child that was canceled.

        It cannot be taken back when the move fails, and a move made again after a crash does it again: let a transition of
        its own do this and nothing else. It waits for the store: call it from a plain `def`.
        """
        self._check()
        self._stop_children(self.record)

    # -- steps ------------------------------------------------------------------------------------

    def leave(self, outcome: str, to: str, state: FrozenDict) -> None:
        """Of a step: it is over with this outcome, and leads to that place with that state."""
        self._check()
        self.via, self.to = outcome, to
        dict.clear(self.state)
        dict.update(self.state, state)

    # -- the rest ---------------------------------------------------------------------------------

    def tell_progress(self, done: int, total: int) -> None:
        """How far the run is, shown when the move is committed."""
        self._check()
        self.progress = Progress(done, total)

    def note(self, text: str) -> int:
        """Take what the body printed or logged. Kept even when the move fails."""
        kept = stored_text(text)
        self.log.append(kept)
        self.record.log(kept)
        return len(text)

    def revoke(self) -> None:
        """Take the access away: the body was stopped, late writes are refused."""
        self.revoked = True

    def _check(self) -> None:
        if self.revoked:
            raise OwnershipLost(
                f"The transition {self.move.name!r} is over (returned, timed out or canceled); it can write nothing any more.",
                advice="Await what the body starts. A sync body cannot be stopped from outside: let it return soon.",
            )
