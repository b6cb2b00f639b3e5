"""What FanOut and Sequence share: the items they are given, the ends of their children, and the result made of both. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from loomnb.errors import DefinitionError, LoomError
from loomnb.jsonvalue import freeze, thaw
from loomnb.runtime import REGISTRY, Definition, Show, TransitionInput, current_attempt
from loomnb.workflows import definition_of

__all__ = ["ChildOutcome", "FanOutArgs", "FanOutResult", "Item", "ItemsArgs", "SequenceArgs", "SequenceResult"]

Mode = Literal["all", "allSettled"]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Item(_Shape):
    """One child to start. `workflow` is a name or a class; `key` is made of the record's key, the label or the index."""

    key: str = ""
    workflow: str
    args: Any = None
    label: str | None = None
    show: Show = "inline"

    @field_validator("workflow", mode="before")
    @classmethod
    def _name(cls, value: Any) -> Any:
        try:
            return definition_of(value).name if isinstance(value, type) else value
        except DefinitionError as exc:
            raise ValueError(exc.message) from exc

    @field_validator("args", mode="before")
    @classmethod
    def _json(cls, value: Any) -> Any:
        return thaw(freeze(value, None, "args"))  # refused, not stringified, where JSON cannot hold it


class ItemsArgs(_Shape):
    """The arguments as they are stored: a list of items with their keys, and whether a list was given."""

    items: list[Item]
    mode: Mode = "all"
    is_list: bool = Field(default=True, alias="isList")

    @model_validator(mode="before")
    @classmethod
    def _with_keys(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or "isList" in data or "is_list" in data:
            return data
        items = data.get("items")
        if isinstance(items, Mapping):
            return {**data, "items": [_keyed(item, str(key)) for key, item in items.items()], "isList": False}
        if isinstance(items, Sequence) and not isinstance(items, str):
            return {**data, "items": [_keyed(item, None if _label(item) else str(i)) for i, item in enumerate(items)]}
        return data

    @model_validator(mode="after")
    def _unique(self) -> ItemsArgs:
        keys = [item.key for item in self.items]
        if len(set(keys)) < len(keys):
            twice = next(k for k in keys if keys.count(k) > 1)
            raise ValueError(f"two items have the key {twice!r}: keys must be unique; give each its own label")
        return self


def _label(item: Any) -> Any:
    return item.get("label") if isinstance(item, Mapping) else getattr(item, "label", None)


def _keyed(item: Any, key: str | None) -> Any:
    if isinstance(item, Item):
        item = item.model_dump(exclude={"key"})
    return {**item, "key": key if key is not None else _label(item)} if isinstance(item, Mapping) else item


class FanOutArgs(ItemsArgs):
    """`{"items": {key: item} | [item], "mode"?: "all" | "allSettled", "concurrency"?: 16}`; an item is
    `{"workflow": name or class, "args"?, "label"?, "show"?}`.
    """

    concurrency: int = Field(default=16, ge=1)


class SequenceArgs(ItemsArgs):
    """`{"items": {key: item} | [item], "mode"?: "all" | "allSettled"}`; items as for FanOut."""


class ChildOutcome(_Shape):
    """How one child ended. `key` is there for items that were given as a list; `error` says why it did not complete."""

    key: str | None = None
    status: Literal["completed", "failed", "canceled", "skipped"]
    data: Any = None
    error: str | None = None


class FanOutResult(_Shape):
    """The result: by key, or in order where a list was given. As a transition's `schema` it types `input.data`."""

    results: dict[str, ChildOutcome] | list[ChildOutcome]
    has_errors: bool = Field(alias="hasErrors")
    error_count: int = Field(alias="errorCount")


class SequenceResult(FanOutResult):
    """As for FanOut; what an earlier failure kept from starting is `skipped`."""


# -- starting and ending ----------------------------------------------------------------------------


def resolve_all(items: Sequence[Item]) -> None:
    """Find every workflow and judge every child's arguments, before anything is started.

    Raises:
        NotFound: no workflow has a name.
        ArgsInvalid: the arguments of one do not fit.
    """
    known: dict[str, Definition] = {}
    for item in items:
        definition = known.get(item.workflow)
        if definition is None:
            definition = known[item.workflow] = REGISTRY.need(item.workflow)
        try:
            definition.parse_args(item.args)
        except LoomError as exc:
            exc.message = f"item {item.key!r}: {exc.message}"
            raise


def start_item(items: Sequence[Item], index: int, callback: str) -> dict[str, Any] | None:
    """Start the child of an item; its outcome where it cannot start any more (its cell was run again, with other args)."""
    item = items[index]
    try:
        current_attempt().start_child(
            REGISTRY.need(item.workflow),
            item.args,
            callback={"transition": callback, "metadata": {"key": item.key, "index": index}},
            show=item.show,
            label=item.label or (None if item.key.isdigit() else item.key),  # the index alone names nothing
        )
    except LoomError as exc:
        return outcome(item.key, "failed", error=exc.message)
    return None


def outcome(key: str, status: str, data: Any = None, error: str | None = None) -> dict[str, Any]:
    """The stored form of how one child ended."""
    out: dict[str, Any] = {"key": key, "status": status, "data": data}
    return out | ({"error": error} if error is not None else {})


def outcome_of(items: Sequence[Item], told: TransitionInput[Any, Any]) -> tuple[int, dict[str, Any]]:
    """Which item a callback is about, and how that child ended.

    Raises:
        ValueError: the callback does not say for which item it is.
    """
    meta = told.meta if isinstance(told.meta, Mapping) else {}
    index = meta.get("index")
    if not isinstance(index, int) or not 0 <= index < len(items) or items[index].key != meta.get("key"):
        raise ValueError(f"The end of {told.workflow_id} does not say which item it is about: its metadata is {told.meta!r}.")
    match told.status:
        case "completed":
            return index, outcome(items[index].key, "completed", told.data)
        case "failed":
            return index, outcome(items[index].key, "failed", error=told.error_message or "the sub-workflow failed")
        case "canceled":
            return index, outcome(items[index].key, "canceled")


def result_of(args: ItemsArgs, entries: Sequence[Mapping[str, Any]], missing: Mapping[str, Any]) -> dict[str, Any]:
    """The result: each item's last outcome, in the order and the shape of the items.

    Args:
        args: the items.
        entries: outcomes in the order they came; the later of one key counts.
        missing: the outcome, without its key, of an item that has none.
    """
    last = {entry["key"]: entry for entry in entries}
    found = [last.get(item.key, {"key": item.key, **missing}) for item in args.items]
    errors = sum(entry["status"] != "completed" for entry in found)
    results: Any = list(found) if args.is_list else {e["key"]: {k: v for k, v in e.items() if k != "key"} for e in found}
    return {"results": results, "hasErrors": errors > 0, "errorCount": errors}
