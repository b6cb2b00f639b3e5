"""What a run changed in its project: the files as they were when it began and when it ended, kept in its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loomnb.blueprints.project import ProjectFiles
from loomnb.blueprints.project_diff import Capture, ProjectDiff
from loomnb.blueprints.project_paths import ProjectError
from loomnb.errors import InvalidRequest, Refused
from loomnb.jsonvalue import loads
from loomnb.runtime import LiveCall, RunRecord, Workers

if TYPE_CHECKING:  # for its types only: DuckDB is loaded by who opens a store
    from loomnb.store import Database

__all__ = ["files_of", "keep_capture", "project_diff_of"]

_KEPT = 4 * 2**20
"""Bytes of text that one capture puts into the journal; of further files only the hash is kept."""


def files_of(root: str, database: Database) -> ProjectFiles:
    """The files of a run's project, without those of the store.

    Raises:
        InvalidRequest: the root is no folder.
    """
    return ProjectFiles(root, private=[database.path])


async def keep_capture(live: LiveCall, root: str, when: str) -> None:
    """Put the files of a project on record. One that cannot be captured (a link, too many files) is no failure of the run."""
    try:
        body = _json_of(await files_of(root, live.engine.database).capture())
    except (ProjectError, InvalidRequest) as exc:
        body = {"problem": str(exc)}
    await live.journal("project.captured", {"when": when, "root": root, **body})


def _json_of(capture: Capture) -> dict[str, Any]:
    texts, room, beyond = {}, _KEPT, set(capture.beyond)
    for path, text in capture.texts.items():
        room -= len(text)
        if room >= 0:
            texts[path] = text
        else:
            beyond.add(path)
    return {"hashes": dict(capture.hashes), "texts": texts, "beyond": sorted(beyond)}


def _capture_of(body: Mapping[str, Any]) -> Capture:
    return Capture(hashes=body["hashes"], texts=body["texts"], beyond=frozenset(body["beyond"]))


def project_diff_of(database: Database, record: RunRecord, workers: Workers) -> ProjectDiff:
    """What changed since the run began; until it ended, or until now.

    Raises:
        Refused: it has no project, or the project could not be captured when it began.
    """
    rows = database.read("select body from journal where run_id = ? and kind = 'project.captured' order by seq", [record.id])
    kept = {body["when"]: body for body in (loads(text) for (text,) in rows)}
    before = kept.get("start")
    if before is None:
        raise Refused(f"The run {record.id} has no project.", advice='Start it with one: loom.flow(…, project="folder").')
    problem = before.get("problem")
    if problem:
        raise Refused(f"The project was not captured when the run {record.id} began: {problem}")
    after = kept.get("end")
    if after is not None and "problem" not in after:
        return ProjectDiff.between(_capture_of(before), _capture_of(after))
    now = workers.submit(_captured, files_of(before["root"], database)).result()  # a cell's loop may be running here
    return ProjectDiff.between(_capture_of(before), now)


def _captured(files: ProjectFiles) -> Capture:
    async def capture() -> Capture:
        return await files.capture()

    return asyncio.run(capture())
