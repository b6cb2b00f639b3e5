"""Document types, the built-in ones, and the documents of a run. Pure."""

from loomnb.documents.store import DocumentEntity, DocumentSaveOptions, DocumentStore, SavedDocument, Shelf
from loomnb.documents.types import (
    DocumentOptions,
    DocumentType,
    ErrorDocument,
    LinkDocument,
    MarkdownDocument,
    MessageDocument,
    PlainDocument,
    document,
)

__all__ = [
    "DocumentEntity",
    "DocumentOptions",
    "DocumentSaveOptions",
    "DocumentStore",
    "DocumentType",
    "ErrorDocument",
    "LinkDocument",
    "MarkdownDocument",
    "MessageDocument",
    "PlainDocument",
    "SavedDocument",
    "Shelf",
    "document",
]
