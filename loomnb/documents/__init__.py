"""Document types, the built-in ones, the documents of a run, and the widgets that draw and answer them. Pure."""

from loomnb.documents.answers import document_form, document_payload, prompt_options
from loomnb.documents.llm import LlmContextDocument, LlmMessageDocument, StopReason
from loomnb.documents.specs import PROMPTS, WORKFLOW_WIDGETS, ButtonOptions, FormOptions, PromptInputOptions, decorated
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
from loomnb.documents.ui import StaticDocumentMeta, accepts_input, answered_with, form_of_ui, is_hidden, transitions_of, widget_of
from loomnb.documents.widgets import Reading, Widget, WidgetRef, form_problems, read_widgets, widget_problems

__all__ = [
    "PROMPTS",
    "WORKFLOW_WIDGETS",
    "ButtonOptions",
    "DocumentEntity",
    "DocumentOptions",
    "DocumentSaveOptions",
    "DocumentStore",
    "DocumentType",
    "ErrorDocument",
    "FormOptions",
    "LinkDocument",
    "LlmContextDocument",
    "LlmMessageDocument",
    "MarkdownDocument",
    "MessageDocument",
    "PlainDocument",
    "PromptInputOptions",
    "Reading",
    "SavedDocument",
    "Shelf",
    "StaticDocumentMeta",
    "StopReason",
    "Widget",
    "WidgetRef",
    "accepts_input",
    "answered_with",
    "decorated",
    "document",
    "document_form",
    "document_payload",
    "form_of_ui",
    "form_problems",
    "is_hidden",
    "prompt_options",
    "read_widgets",
    "transitions_of",
    "widget_of",
    "widget_problems",
]
