"""The documents of one run: saving in a move, finding again, order and replacement. No file here: moves collect, runs commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar, cast

from loomnb.documents.types import DocumentType
from loomnb.errors import Refused, SchemaValidationError
from loomnb.jsonvalue import freeze

__all__ = ["DocumentEntity", "DocumentSaveOptions", "DocumentStore", "Shelf"]

T = TypeVar("T")
Validate = Literal["strict", "safe", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEntity:
    """A stored document. `place` is the target place of the transition that saved it; `meta` is None when empty."""

    id: str
    key: str
    document_name: str
    content: Any
    title: str = ""
    meta: Mapping[str, Any] | None = None
    error: Mapping[str, str] | None = None
    tags: tuple[str, ...] = ()
    internal: bool = False
    index: int = 0
    transition: str = ""
    place: str = ""
    labels: tuple[str, ...] = ()
    workflow_id: str = ""
    workspace_id: str = ""
    created_by: str = ""
    created_at: datetime | None = None
    is_invalidated: bool = False
    ui: Mapping[str, Any] | None = None
    """How it is drawn and answered, stored with it: so it can be without its class, and after a restart. See `ui.py`."""

    def to_json(self) -> dict[str, Any]:
        """What the store keeps of it (the rest is the run's)."""
        out: dict[str, Any] = {"id": self.id, "index": self.index, "name": self.document_name, "key": self.key}
        out |= {"content": self.content, "transition": self.transition, "place": self.place}
        out |= {k: v for k, v in (("title", self.title), ("meta", self.meta), ("error", self.error), ("ui", self.ui)) if v}
        out |= {"tags": list(self.tags)} if self.tags else {}
        return out | ({"internal": True} if self.internal else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSaveOptions:
    """Options of a save. `key`: saving the same type under it again replaces it. `tags` override the type's."""

    key: str | None = None
    meta: Mapping[str, Any] | None = None
    validate: Validate = "strict"
    tags: Sequence[str] | None = None


class Shelf:
    """The current documents of a run. Written in place by the one move at work, with the way back kept until it commits."""

    def __init__(self) -> None:
        self._by_index: dict[int, DocumentEntity] = {}
        self._by_key: dict[tuple[str, str], list[int]] = {}
        self._size = 0
        self._undo: list[tuple[DocumentEntity, DocumentEntity | None]] = []

    def __iter__(self) -> Iterator[DocumentEntity]:
        return iter(sorted(self._by_index.values(), key=lambda e: e.index))

    def put(self, entity: DocumentEntity) -> DocumentEntity:
        """Add it, or let it take the place of what its type has under its key, unless that one is to be kept."""
        old = None
        for index in self._by_key.get((entity.document_name, entity.key), []):
            if (self._by_index[index].meta or {}).get("invalidate") is not False:
                old = self._by_index[index]  # those to be kept stay, always, beside the new one
        entity = replace(entity, index=self._size if old is None else old.index)
        self.load(entity)
        self._undo.append((entity, old))
        return entity

    def load(self, entity: DocumentEntity) -> None:
        """Put one that is stored already, at its own index."""
        indexes = self._by_key.setdefault((entity.document_name, entity.key), [])
        if entity.index not in indexes:
            indexes.append(entity.index)
        self._by_index[entity.index] = entity
        self._size = max(self._size, entity.index + 1)

    def keep(self) -> None:
        """What was put since the last keep is committed."""
        self._undo.clear()

    def roll_back(self) -> None:
        """Undo what was put since the last keep."""
        for entity, old in reversed(self._undo):
            if old is not None:
                self._by_index[old.index] = old
                continue
            del self._by_index[entity.index]
            self._by_key[entity.document_name, entity.key].remove(entity.index)
            self._size = entity.index  # indexes are given in order, so going back gives them again
        self._undo.clear()


class Writer(Protocol):
    """What a move lends to its documents."""

    def document_shelf(self) -> Shelf:
        """The documents to read from."""
        ...

    def save_document(self, entity: DocumentEntity) -> DocumentEntity:
        """Stamp it with the move and put it on the shelf."""
        ...

    def new_document_id(self) -> str:
        """A fresh id."""
        ...


class DocumentStore:
    """Create, save and find the documents of the run whose move is at work.

    Saving takes effect at the call and is committed with the move, or dropped with it.
    """

    def __init__(self, writer: Any) -> None:
        self._writer: Any = writer  # a callable giving the move at work, or raising

    def create(self, cls: type[T], data: Any) -> T:
        """An instance, checked; nothing is saved.

        Raises:
            SchemaValidationError: the data does not fit.
        """
        return cast("T", DocumentType.of(cls).create(data))

    def save(
        self,
        class_or_instance: type[T] | T,
        data: Any = None,
        options: DocumentSaveOptions | None = None,
        *,
        key: str | None = None,
        meta: Mapping[str, Any] | None = None,
        validate: Validate = "strict",
        tags: Sequence[str] | None = None,
    ) -> SavedDocument:
        """Save a document: `save(MarkdownDocument, {"markdown": "…"})` or `save(MarkdownDocument(markdown="…"))`.

        Args:
            class_or_instance: the type with its data, or an instance.
            data: the content, when a type is given. It is copied.
            options: the keyword options in one object.
            key: replace what this type has under the same key; default: a new document.
            meta: free metadata; `{"invalidate": False}` keeps this one when its key is saved again.
            validate: `strict` raises; `safe` keeps the raw content beside the error; `skip` does not check.
            tags: instead of the type's.

        Raises:
            SchemaValidationError: the content does not fit (strict).
            Refused: no move is at work.
        """
        if isinstance(data, DocumentSaveOptions):  # the seed's two-argument form: save(instance, options)
            data, options = None, data
        o = options or DocumentSaveOptions(key=key, meta=meta, validate=validate, tags=tags)
        writer: Writer = self._writer()
        if isinstance(class_or_instance, type):
            kind, raw = DocumentType.of(class_or_instance), data
        else:
            kind, raw = DocumentType.of(type(class_or_instance)), class_or_instance
        content, error = _content(kind, raw, o.validate)
        new_id = writer.new_document_id()
        saved = writer.save_document(
            DocumentEntity(
                id=new_id,
                key=o.key if o.key is not None else new_id,
                document_name=kind.name,
                title=kind.title,
                content=content,
                error=error,
                meta=freeze(dict(o.meta)) if o.meta else None,
                tags=tuple(o.tags) if o.tags is not None else kind.tags,
                internal=kind.internal,
                ui=kind.ui,
            )
        )
        return SavedDocument(saved)

    def find_all(self, cls: type[T]) -> list[T]:
        """Every current document of a type, as instances, in order. What this move saved is among them."""
        kind = DocumentType.of(cls)
        return [cast("T", kind.hydrate(e.content)) for e in self._entities() if e.document_name == kind.name]

    def find_all_documents(self) -> list[DocumentEntity]:
        """Every current document, internal ones too, in order."""
        return self._entities()

    def find_by_tag(self, tag: str) -> list[DocumentEntity]:
        """Every current document with this tag, in order."""
        return [e for e in self._entities() if tag in e.tags]

    def _entities(self) -> list[DocumentEntity]:
        writer: Writer = self._writer()
        return list(writer.document_shelf())


def _content(kind: DocumentType, raw: Any, validate: Validate) -> tuple[Any, Mapping[str, str] | None]:
    if validate == "skip":
        return freeze(_raw(raw)), None
    if validate not in ("strict", "safe"):
        raise Refused(f"validate={validate!r} is not known.", advice="Use 'strict', 'safe' or 'skip'.")
    try:
        return kind.validated(raw), None
    except SchemaValidationError as exc:
        if validate == "strict":
            raise
        return freeze(_raw(raw)), exc.fields


def _raw(raw: Any) -> Any:
    return dict(vars(raw)) if hasattr(raw, "__dict__") and not hasattr(raw, "model_dump") else raw


class SavedDocument:
    """A saved document's entity; awaiting it gives the entity too, as the seed's API does."""

    def __init__(self, entity: DocumentEntity) -> None:
        self.entity = entity

    def __getattr__(self, name: str) -> Any:
        return getattr(self.entity, name)

    def __repr__(self) -> str:
        return repr(self.entity)

    def __await__(self) -> Any:
        return self.entity
        yield  # a generator that returns at once
