"""What goes into a tool call and what comes out of it, as data, with the contract's JSON shapes (camelCase)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NotRequired, TypedDict, cast, get_args

from typing_extensions import TypeVar

from loomnb.errors import Refused, ToolFailed, ToolPending

__all__ = ["Callback", "QueueResult", "ResultType", "ToolCallOptions", "ToolEnvelope", "ToolResult"]

TData = TypeVar("TData", default=Any)
TMeta = TypeVar("TMeta", default=dict[str, Any])
TConfig = TypeVar("TConfig", default=Any)

ResultType = Literal["text", "image", "file"]


class Callback(TypedDict):
    """Which wait transition of the parent a sub-workflow's end resumes, and what it is told along with it."""

    transition: str
    metadata: NotRequired[Any]


@dataclass(frozen=True, slots=True)
class QueueResult:
    """A started sub-workflow's id. Awaiting it gives itself."""

    workflow_id: str

    def __await__(self) -> Generator[None, None, QueueResult]:
        return self
        yield  # a generator that returns at once


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallOptions(Generic[TConfig]):
    """Options of one call. `callback` goes to `handle` untouched, for tools that start sub-workflows."""

    callback: Callback | Mapping[str, Any] | None = None
    config: TConfig | None = None

    @staticmethod
    def of(value: ToolCallOptions[Any] | Mapping[str, Any] | None) -> ToolCallOptions[Any]:
        """The options of what a caller gave: themselves, or their JSON shape.

        Raises:
            Refused: it is neither.
        """
        if isinstance(value, ToolCallOptions):
            return value
        return ToolCallOptions(**_known(value or {}, ("callback", "config"), "The options of a tool call"))

    def dump(self) -> dict[str, Any]:
        """Its JSON shape; what was not given is left out."""
        return _given(callback=self.callback, config=self.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(Generic[TData, TMeta]):
    """What `call` gives: the data of a success. `metadata` is never None."""

    data: TData
    metadata: TMeta = field(default_factory=lambda: cast("Any", {}))
    type: ResultType | None = None

    def dump(self) -> dict[str, Any]:
        """Its JSON shape."""
        return {"data": self.data, "metadata": self.metadata, **_given(type=self.type)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnvelope(Generic[TData, TMeta]):
    """What `handle` returns: a success (`data`), a failure the caller may recover from (`error`), or `pending`.

    Attributes:
        data: the result.
        error: what went wrong; any text, also an empty one, makes it a failure. None is no error.
        metadata: more about the result, for code.
        type: what kind of thing the data is.
        pending: a started sub-workflow (what its `run(...)` gave): the result comes when it ends.
    """

    data: TData | None = None
    error: str | None = None
    metadata: TMeta | None = None
    type: ResultType | None = None
    pending: QueueResult | None = None

    def __post_init__(self) -> None:
        pending: Any = self.pending
        if isinstance(pending, Mapping):
            object.__setattr__(self, "pending", QueueResult(cast("str", pending.get("workflowId"))))
        started = self.pending
        if started is not None and not (isinstance(started, QueueResult) and isinstance(started.workflow_id, str)):
            raise Refused(
                f"pending= takes what a sub-workflow's run(...) gave, not {pending!r}.",
                advice='Write `ToolEnvelope(pending=self.child.run(…))`, or {"workflowId": …}.',
            )
        if self.error is not None and not isinstance(self.error, str):
            raise Refused(f"error= is a text, not {self.error!r}.", advice="Write error=str(exc).")
        if self.type is not None and self.type not in get_args(ResultType):
            raise Refused(f"type={self.type!r} is not known.", advice=f"One of: {', '.join(get_args(ResultType))}.")

    @staticmethod
    def of(value: ToolEnvelope[Any, Any] | Mapping[str, Any]) -> ToolEnvelope[Any, Any]:
        """The envelope of what a tool returned: itself, or its JSON shape.

        Raises:
            Refused: it is neither.
        """
        if isinstance(value, ToolEnvelope):
            return value
        if not isinstance(value, Mapping):
            raise Refused(
                f"A tool returned a {type(value).__name__}, not an envelope.", advice="Write `return loom.ToolEnvelope(data=…)`."
            )
        return ToolEnvelope(**_known(value, ("data", "error", "metadata", "type", "pending"), "What a tool returned"))

    def dump(self) -> dict[str, Any]:
        """Its JSON shape; what was not given is left out."""
        pending = {"workflowId": self.pending.workflow_id} if self.pending is not None else None
        return _given(type=self.type, data=self.data, error=self.error, metadata=self.metadata, pending=pending)

    def narrowed(self, tool: str) -> ToolResult[TData, TMeta]:
        """The result of a success.

        Raises:
            ToolFailed: it carries an error.
            ToolPending: its result is still to come.
        """
        if self.error is not None:
            raise ToolFailed(self.error or f"The tool {tool!r} failed and did not say why.", tool=tool, data=self.data)
        if self.pending is not None:
            raise ToolPending(
                f"The tool {tool!r} started the sub-workflow {self.pending.workflow_id}; its result comes when that ends.",
                advice="In a workflow start the sub-workflow itself: child.run(input, callback={'transition': …}).",
            )
        metadata: Any = self.metadata if self.metadata is not None else {}
        return ToolResult(data=cast("TData", self.data), metadata=metadata, type=self.type)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _known(value: Mapping[str, Any], names: tuple[str, ...], what: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Refused(f"{what} cannot be a {type(value).__name__}.", advice=f"It takes: {', '.join(names)}.")
    unknown = [repr(name) for name in value if name not in names]
    if unknown:
        raise Refused(f"{what} has an unknown {', '.join(unknown)}.", advice=f"It takes: {', '.join(names)}.")
    return dict(value)
