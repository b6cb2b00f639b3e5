"""What a step is given: State, Storage, interaction, the project, and a signal. Shapes and types; nothing is done here.

Everything a call was given expires when the call ends. Method arguments are checked and copied at the call; what is
returned may be awaited, and is a copy. Rules: contracts/blueprints.md §1.5–1.9, §1.12.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from loomnb.asks import Answers, Confirmation
from loomnb.jsonvalue import Json
from loomnb.runtime import AbortSignal

__all__ = [
    "ABSENT",
    "AbortSignal",
    "Absent",
    "AgentExecutionAccess",
    "CodeExecutionAccess",
    "CommitResult",
    "InteractionAccess",
    "ProjectAccess",
    "ProjectCommand",
    "ProjectCommandResult",
    "SnapshotResult",
    "StateAccess",
    "StorageAccess",
    "StorageCategory",
    "StorageOperation",
    "StoragePage",
    "StorageQuery",
    "StorageReadAccess",
    "StoredArtifact",
    "StoredRecord",
]


class Absent:
    """The type of `ABSENT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT = Absent()
"""State has no value. JSON's null (None) is a value."""


class StateAccess(Protocol):
    """The State of the stage. Writes come into force in the order of their calls."""

    @property
    def value(self) -> Any:
        """A copy of it; `ABSENT` when there is none.

        Raises:
            OwnershipLost: the call is over (EXECUTION_OWNERSHIP_LOST).
        """
        ...

    def create(self, value: Json) -> Awaitable[None]:
        """Make it. STAGE_STATE_EXISTS when there is one, STAGE_STATE_INVALID when it does not fit the schema or JSON."""
        ...

    def update(self, value: Json) -> Awaitable[None]:
        """Replace it, whole. STAGE_STATE_NOT_FOUND when there is none, STAGE_STATE_INVALID as for `create`."""
        ...

    def clear(self) -> Awaitable[None]:
        """Remove it; removing nothing is fine."""
        ...


StorageCategory = Literal["artifacts", "records"]
"""An artifact is the current result of a (flow, stage) and is replaced; a record is appended, and stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArtifact:
    """The current result of a flow's stage, at one revision. `data` is a plain copy.

    Attributes:
        revision: positive, and counts up in the store; what a replacement names to say which one it has seen.
        created_at: `YYYY-MM-DDTHH:MM:SS.mmmZ`; kept when it is replaced.
    """

    id: str
    flow_name: str
    stage_name: str
    revision: int
    data: Any
    created_at: str
    updated_at: str
    _past: ArtifactPast | None = field(default=None, compare=False, repr=False)

    def history(self) -> list[StoredArtifact]:
        """Each revision of it, oldest first; also those before it was removed and made anew. Reads the store: not on a loop."""
        return [] if self._past is None else self._past.history(self.id)

    def as_of(self, when: Any) -> StoredArtifact | None:
        """What it was: at a revision (a number), or at a moment (a datetime, or the text of one); None when it was not."""
        return None if self._past is None else self._past.as_of(self.id, when)


class ArtifactPast(Protocol):
    """Where the earlier revisions of artifacts are read."""

    def history(self, artifact_id: str) -> list[StoredArtifact]:
        """Each revision, oldest first."""
        ...

    def as_of(self, artifact_id: str, when: Any) -> StoredArtifact | None:
        """The revision of a moment."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A result that was appended, and is never changed. `data` is a plain copy."""

    id: str
    flow_name: str
    stage_name: str
    data: Any
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageQuery:
    """Which artifacts or records a list is of; all that is given holds together. A mapping with the contract's names does too.

    Attributes:
        ids: only these; none at all for an empty list.
        created_after, created_before: `YYYY-MM-DDTHH:MM:SS.mmmZ`; neither is within.
        order: by (created_at, id).
        limit: 1 to 200.
        cursor: `next_cursor` of a page of the same query; the limit may differ.
    """

    flow_name: str | None = None
    stage_name: str | None = None
    ids: Sequence[str] | None = None
    created_after: str | None = None
    created_before: str | None = None
    order: Literal["created_asc", "created_desc"] = "created_desc"
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePage:
    """One page of a list. `next_cursor` is None when no more row exists now."""

    data: list[Any]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResult:
    """How much a snapshot of storage holds. A shape of the contract; nothing makes one yet (`loom.snapshot` copies the file)."""

    artifact_count: int
    record_count: int


StorageOperation: TypeAlias = Mapping[str, Any]
"""One of the five, with the contract's names: `{"type": "create_artifact", "id", "payload": {"flowName", "stageName", "data"}}`,
`replace_artifact` and `remove_artifact` with `expectedRevision`, `append_record`, `remove_record`. `flow_name`, `stage_name` and
`expected_revision` do too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What a batch did, in the order of its operations."""

    written_artifacts: list[StoredArtifact] = field(default_factory=list[StoredArtifact])
    appended_records: list[StoredRecord] = field(default_factory=list[StoredRecord])
    removed_artifact_ids: list[str] = field(default_factory=list[str])
    removed_record_ids: list[str] = field(default_factory=list[str])


class StorageReadAccess(Protocol):
    """Artifacts and records of the whole store, to read. INVALID_REQUEST for a name or a query that cannot be."""

    def get_artifact(self, flow_name: str, stage_name: str) -> Awaitable[StoredArtifact | None]:
        """The artifact of a stage; None when there is none."""
        ...

    def get_artifact_by_id(self, id: str) -> Awaitable[StoredArtifact | None]:  # noqa: A002  # the contract's word
        """The artifact of an id."""
        ...

    def get_latest_record(self, flow_name: str, stage_name: str) -> Awaitable[StoredRecord | None]:
        """The record of a stage that is last by (created_at, id)."""
        ...

    def get_record_by_id(self, id: str) -> Awaitable[StoredRecord | None]:  # noqa: A002  # the contract's word
        """The record of an id."""
        ...

    def list_artifacts(self, query: StorageQuery | Mapping[str, Any] | None = None) -> Awaitable[StoragePage]:
        """A page of artifacts."""
        ...

    def list_records(self, query: StorageQuery | Mapping[str, Any] | None = None) -> Awaitable[StoragePage]:
        """A page of records."""
        ...


class StorageAccess(StorageReadAccess, Protocol):
    """The same, and to write."""

    def commit(self, operations: Sequence[StorageOperation]) -> Awaitable[CommitResult]:
        """Apply operations in order, all or none; durable when awaited.

        INVALID_REQUEST when one is malformed or a target stands twice, CONFLICT for a stale revision or a taken id or stage,
        NOT_FOUND for a missing one; nothing is written then.
        """
        ...


class InteractionAccess(Protocol):
    """Asks a person, in the middle of a step. The question is published at the call, once its commit is durable."""

    def ask_questions(self, questions: Sequence[Any]) -> Awaitable[Answers]:
        """Ask questions (contract §1.9); the answers as submitted, and `answers["id"]` is the text."""
        ...

    def confirm(self, context: str) -> Awaitable[Confirmation]:
        """Ask for a confirmation of a text (Markdown)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCommand:
    """A program to run in the project, without a shell.

    Attributes:
        cwd: relative to the root; default: the root.
        timeout_ms: 1 to 300,000; default 60,000.
    """

    command: str
    args: Sequence[str] = ()
    cwd: str | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCommandResult:
    """How it ended. `exit_code` is None when it was stopped at its time-out; a stream is cut at 1 MiB."""

    command: ProjectCommand
    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool


class ProjectAccess(Protocol):
    """The files of a project, below its root (contract §1.12)."""

    def snapshot(self) -> Awaitable[Mapping[str, str]]:
        """Path → SHA-256 of each file that is no generated or private one."""
        ...

    def read(self, path: str) -> Awaitable[str]:
        """A text file of at most 1 MiB."""
        ...

    def write(self, path: str, content: str) -> Awaitable[None]:
        """Write a text file of at most 1 MiB, whole or not at all; folders are made."""
        ...

    def remove(self, path: str) -> Awaitable[None]:
        """Remove one file."""
        ...

    def run(
        self, command: ProjectCommand | Mapping[str, Any], signal: AbortSignal | None = None
    ) -> Awaitable[ProjectCommandResult]:
        """Run a program. A non-zero exit is a result."""
        ...


class AgentExecutionAccess(Protocol):
    """What the tools of an agent step are given. `project` is there only where the run has one."""

    state: StateAccess
    storage: StorageReadAccess
    signal: AbortSignal


class CodeExecutionAccess(Protocol):
    """What a step's code is given. `project` is there only where the run has one."""

    state: StateAccess
    storage: StorageAccess
    interaction: InteractionAccess
    signal: AbortSignal
    project: ProjectAccess
