"""The protocol a workflow speaks, and how it says so. Which versions can be run is the loader's to judge.

Rules: contracts/blueprints.md §1.13.
"""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from loomnb.blueprints.access import StorageCategory, StorageQuery

__all__ = ["WorkflowMetadata", "workflow_metadata_schema", "workflow_protocol_version"]

workflow_protocol_version = "2026-10-08"
"""The protocol this library runs; it is no version of a package."""


class WorkflowMetadata(BaseModel):
    """What a workflow says of itself."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: Literal["workflow"]
    version: Annotated[str, Field(min_length=1)]


workflow_metadata_schema: TypeAdapter[WorkflowMetadata] = TypeAdapter(WorkflowMetadata)
"""`{"type": "workflow", "version": …}`, strictly. Any version fits that is not empty."""

_FORMER: dict[str, tuple[str, Any]] = {
    "Query": ("StorageQuery", StorageQuery),
    "SnapshotCategory": ("StorageCategory", StorageCategory),
}


def __getattr__(name: str) -> Any:
    if name not in _FORMER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return former(name, stacklevel=3)


def former(name: str, stacklevel: int = 2) -> Any:
    """What a former name stands for, with a warning."""
    now, value = _FORMER[name]
    warnings.warn(f"{name} is the former name of {now}.", DeprecationWarning, stacklevel=stacklevel)
    return value
