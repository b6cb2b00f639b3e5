"""What a document type is: its name, its schema, its tags, and what is never stored of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from loomnb.documents.ui import StaticDocumentMeta, ui_of
from loomnb.documents.widgets import WidgetRef, read_widgets
from loomnb.errors import DefinitionError, SchemaValidationError, fields_from_pydantic
from loomnb.jsonvalue import freeze, thaw
from loomnb.names import snake_case

__all__ = [
    "DocumentOptions",
    "DocumentType",
    "ErrorDocument",
    "LinkDocument",
    "MarkdownDocument",
    "MessageDocument",
    "PlainDocument",
    "document",
]

T = TypeVar("T")
OPTIONS = "__loom_document__"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DocumentOptions:
    """Options of `@loom.document`. `meta` is static: it is never stored. `internal`: code sees it, people do not."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    schema: Any = None
    tags: Sequence[str] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    internal: bool = False
    widget: WidgetRef | Sequence[WidgetRef] | None = None


def document(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    schema: Any = None,
    tags: Sequence[str] = (),
    meta: StaticDocumentMeta | Mapping[str, Any] | None = None,
    internal: bool = False,
    widget: WidgetRef | Sequence[WidgetRef] | None = None,
) -> Callable[[type[T]], type[T]]:
    """Mark a class as a document type.

    Args:
        name: the identifier; default: the class name without `Document`, in snake case.
        title: shown above the document; default: none.
        description: what it is for.
        schema: what pydantic's TypeAdapter takes; default: the class itself (a pydantic model, dataclass or TypedDict).
        tags: found again by `find_by_tag`.
        meta: static metadata, no part of a document's own: `enableAtPlaces` and `hideAtPlaces` (places of a run),
            `mimeType`, `level`.
        internal: stored and visible to code, hidden from people.
        widget: how it is drawn and answered: the path of a YAML file, relative to the class's, or a mapping. The first widget
            counts.

    A pydantic model needs no decorator to be saved; it then has all the defaults. A subclass starts afresh: it inherits
    neither name nor tags.
    """

    def mark(cls: type[T]) -> type[T]:
        options = DocumentOptions(
            name=name,
            title=title,
            description=description,
            schema=schema,
            tags=tuple(tags),
            meta=dict(meta or {}),
            internal=internal,
            widget=widget,
        )
        setattr(cls, OPTIONS, options)
        DocumentType.of(cls)  # a schema that cannot work is refused here, not at the first save
        return cls

    return mark


@dataclass(frozen=True, slots=True)
class DocumentType:
    """A document class, read once."""

    cls: type
    name: str
    title: str
    tags: tuple[str, ...]
    internal: bool
    adapter: TypeAdapter[Any]
    custom: bool
    """Whether the adapter is of another type than the class."""
    description: str = ""
    ui: Mapping[str, Any] | None = None
    """How its documents are drawn and answered, as it is stored with each: see `ui.py`. None: by what they hold."""

    @staticmethod
    def of(document_class: type) -> DocumentType:
        """The type of a class.

        Raises:
            DefinitionError: it can hold no document.
        """
        return _type_of(document_class, document_class.__dict__.get(OPTIONS))

    def validated(self, data: Any) -> Any:
        """The parsed content as JSON.

        Raises:
            SchemaValidationError: it does not fit; names the document and every path.
        """
        return freeze(self.adapter.dump_python(self._parse(data), mode="json", by_alias=True))

    def create(self, data: Any) -> Any:
        """An instance of the class with this content; nothing is saved.

        Raises:
            SchemaValidationError: it does not fit.
        """
        return self._instance(self._parse(data))

    def hydrate(self, content: Any) -> Any:
        """An instance from stored content, without judging it again."""
        if issubclass(self.cls, BaseModel) and isinstance(content, Mapping):
            try:
                return self.cls.model_validate(thaw(content))
            except ValidationError:  # saved with validate="skip" or "safe", or by an older definition: show what is there
                return self.cls.model_construct(**content)
        try:
            return self._instance(self.adapter.validate_python(thaw(content)))
        except ValidationError:
            return self._instance(thaw(content))

    def _parse(self, data: Any) -> Any:
        try:
            return self.adapter.validate_python(_plain(data))
        except ValidationError as exc:
            raise SchemaValidationError(f"The document {self.name!r} does not fit its type.", fields_from_pydantic(exc)) from exc

    def _instance(self, parsed: Any) -> Any:
        if hasattr(self.cls, "__total__"):  # a TypedDict: its instances are plain dicts, and isinstance() refuses it
            return parsed
        if isinstance(parsed, self.cls) or not isinstance(parsed, Mapping):
            return parsed
        instance: Any = object.__new__(self.cls)
        for key, value in parsed.items():
            object.__setattr__(instance, key, value)
        return instance


def _plain(data: Any) -> Any:
    if isinstance(data, BaseModel):
        return data.model_dump()
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return dataclasses.asdict(data)
    if isinstance(data, (dict, list)):
        return thaw(data)
    return dict(vars(data)) if hasattr(data, "__dict__") and not isinstance(data, type) else data


@cache
def _type_of(cls: type, options: DocumentOptions | None) -> DocumentType:
    options = options or DocumentOptions()
    schema = options.schema if options.schema is not None else cls
    if schema is cls and not (issubclass(cls, BaseModel) or dataclasses.is_dataclass(cls) or hasattr(cls, "__total__")):
        raise DefinitionError(
            f"{cls.__qualname__} can hold no document: it has no schema.",
            advice=f"Make it a pydantic model, `class {cls.__name__}(pydantic.BaseModel)`, or pass `@loom.document(schema=…)`.",
        )
    reading = read_widgets(options.widget, cls)
    adapter = schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)
    return DocumentType(
        cls=cls,
        name=options.name or snake_case(cls.__name__, "_document"),
        title=options.title or reading.title or "",
        description=options.description or reading.description or "",
        tags=tuple(options.tags) or reading.tags,
        internal=options.internal,
        adapter=adapter,
        custom=schema is not cls,
        ui=ui_of(cls, adapter, reading, options.meta),
    )


class _Builtin(BaseModel):
    model_config = ConfigDict(extra="forbid")


@document(tags=("ui-message",))
class MessageDocument(_Builtin):
    """A chat message; its text is Markdown."""

    role: str
    text: str | None = None


@document()
class MarkdownDocument(_Builtin):
    """Markdown."""

    markdown: str


@document()
class PlainDocument(_Builtin):
    """Plain text, shown as it is."""

    text: str


@document()
class LinkDocument(_Builtin):
    """A card that leads to another run; saved by the framework for each sub-workflow that is shown."""

    label: str | None = None
    workflowId: str | None = None  # noqa: N815  # the stored JSON keeps the seed's names
    embed: bool | None = None
    expanded: bool | None = None


@document(tags=("error",))
class ErrorDocument(_Builtin):
    """An error message a workflow wants to show. A failed run makes none: its error is on the run."""

    error: str
