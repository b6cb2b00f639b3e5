"""The runs of this process: in memory while something can happen to them, else read from the journal when asked for."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loomnb.errors import Conflict, LoomError, NotFound, StoreDamaged
from loomnb.ids import Source
from loomnb.jsonvalue import dumps, freeze, loads
from loomnb.runtime.definition import Definition
from loomnb.runtime.host import Hosts
from loomnb.runtime.lifecycle import FINISHED, Status
from loomnb.runtime.record import LOCAL_USER, NOTEBOOK_APP, RunRecord
from loomnb.runtime.registry import REGISTRY

if TYPE_CHECKING:  # for its types only: DuckDB is loaded by who opens a store
    from loomnb.store import Database

__all__ = ["Owner", "Records"]


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a run is."""

    user_id: str
    app_name: str
    workspace_id: str


def _is_over(record: RunRecord) -> bool:
    return record.view.status in FINISHED and not record.view.asks


class Records:
    """Records by id; each exists once, so that everybody sees the same run."""

    def __init__(self, database: Database, source: Source, hosts: Hosts) -> None:
        self._database = database
        self._source = source
        self._hosts = hosts
        self._records: weakref.WeakValueDictionary[str, RunRecord] = weakref.WeakValueDictionary()
        self._live: dict[str, RunRecord] = {}
        self.keys: dict[tuple[str, str], str] = {}
        """(workflow, key) → the last run started with it: those of this process, and once `_knows_keys` those stored before."""
        self._knows_keys = False
        self.guard = threading.RLock()
        self.on_load: Callable[[RunRecord], None] = lambda _: None
        """Called for a run that was read from the store when somebody asked for it."""
        self.store_id: str = database.read("select id from store")[0][0]

    def of_key(self, definition: Definition, key: str, stored: Any, config: Any, services_of: str) -> RunRecord | None:
        run_id = self.keys.get((definition.name, key)) or self._stored_keys().get((definition.name, key))
        if run_id is None:
            return None
        record = self.record(run_id)
        if freeze(record.args) != stored or freeze(record.config) != config:
            what = "arguments" if freeze(record.args) != stored else "configuration"
            raise Conflict(
                f"The run {record.id} with key {key!r} was started with other {what}.",
                advice="Use another key, or fresh=True for a new run under this key.",
            )
        if record.services_of != services_of:
            raise Conflict(
                f"The run {record.id} with key {key!r} was started by {record.services_of or 'no app'!r}, with its services.",
                advice="Use another key, or fresh=True for a new run under this key.",
            )
        return record

    def _stored_keys(self) -> Mapping[tuple[str, str], str]:
        # Read once, not for each new key: nobody else writes here, and looking through a long journal takes long.
        if not self._knows_keys:
            rows = self._database.read(
                "select body->>'workflow', body->>'key', run_id from journal "
                "where kind = 'run.started' and (body->>'key') is not null order by seq"
            )
            self.keys = {**{(workflow, key): run_id for workflow, key, run_id in rows}, **self.keys}
            self._knows_keys = True
        return self.keys

    def owner(self, user_id: str = LOCAL_USER, app_name: str = NOTEBOOK_APP, workspace_id: str | None = None) -> Owner:
        """The workspace of an app and user is always there: its id is made from theirs and the store's. One that is named must
        have been used by that user before.

        Raises:
            NotFound: it was not.
        """
        if (user_id, app_name) == (LOCAL_USER, NOTEBOOK_APP):
            own = self.store_id
        else:
            own = f"ws-{hashlib.sha256(dumps([self.store_id, app_name, user_id]).encode()).hexdigest()[:12]}"
        if workspace_id is None or workspace_id == own:
            return Owner(user_id, app_name, own)
        if user_id == LOCAL_USER and workspace_id == self.store_id:
            return Owner(user_id, NOTEBOOK_APP, workspace_id)
        rows = self._database.read(
            "select app_name from workspaces where workspace_id = ? and user_id = ?", [workspace_id, user_id]
        )
        if not rows:
            raise NotFound(
                f"{user_id!r} has no workspace {workspace_id!r}.",
                advice="Leave workspace_id out: the app and user then have one. List them: loom.sql('from workspaces').",
            )
        return Owner(user_id, rows[0][0], workspace_id)

    def record(self, run_id: str) -> RunRecord:
        """A run, from memory or from the store.

        Raises:
            NotFound: this store has no such run.
        """
        if not isinstance(run_id, str):
            raise NotFound(f"The id of a run is a text, not a {type(run_id).__name__}.", advice="List them with loom.runs().")
        if not run_id.isascii():
            raise NotFound(f"This store has no run {run_id!r:.60}.", advice="List them with loom.runs().")
        with self.guard:
            record = self._records.get(run_id)
            if record is None:
                record = self.load(run_id)
                self.adopt(record)
                self.on_load(record)
                self.settle(record)
            return record

    def live(self) -> list[RunRecord]:
        """Runs that are not finished, oldest first, and failed ones that a person can still answer."""
        with self.guard:
            return [r for r in self._live.values() if not _is_over(r)]

    def adopt(self, record: RunRecord) -> None:
        self._records[record.id] = record
        self._live[record.id] = record  # held as long as something can happen to it; see settle

    def settle(self, record: RunRecord) -> None:
        if _is_over(record):
            with self.guard:
                self._live.pop(record.id, None)

    def load(self, run_id: str) -> RunRecord:
        rows = self._database.read("select seq, ts, kind, body from journal where run_id = ? order by seq", [run_id])
        if not rows:
            raise NotFound(f"This store has no run {run_id!r}.", advice="List them with loom.runs().")
        record = RunRecord(id=run_id, workflow="", source=self._source, workspace_id=self.store_id)
        try:
            record.workflow = loads(next(r[3] for r in rows if r[2] == "run.started"))["workflow"]
            record.replay(rows)
        except Exception as exc:  # rows of another make may be anything, and fail in any way
            raise StoreDamaged(
                f"The run {run_id} cannot be read: {type(exc).__name__}: {exc}",
                advice="It was left as it is; its rows are in the table journal.",
            ) from exc
        record.host = self._hosts.get("thread")
        self.acquaint(record)
        return record

    def acquaint(self, record: RunRecord, *, agreed: bool = False) -> Definition | None:
        """The definition of a stored run, if the one known here is its own; else the advice says what is missing.

        Args:
            record: the run.
            agreed: whether somebody agreed to go on with a changed one.
        """
        definition = REGISTRY.get(record.workflow)
        record.advice = record.notice = ""
        record.changed = False
        if definition is None and record.stamped:
            record.advice = (
                f"Run the cells of the blueprint {record.workflow!r}, up to loom.flow(…) or loom.define(…): then this run goes "
                "on, or says what it needs."
            )
        elif definition is None:
            what = (
                "makes the agent" if isinstance(record.config, Mapping) and "agent" in record.config else "defines the workflow"
            )
            record.advice = f"Run the cell that {what} {record.workflow!r}: then this run goes on."
        elif record.origin and definition.origin != record.origin and definition.fingerprint != record.fingerprint:
            record.advice = (
                f"This run belongs to the {record.workflow!r} of {record.origin}; the one defined here comes from "
                f"{definition.origin} and is another. Open that notebook, or give this one another name."
            )
            definition = None
        elif definition.moves_from(record.place) is None:
            record.advice = (
                f"This run stands at the place {record.place!r}, which {record.workflow!r} no longer has. Bring the place back "
                "and run the cell again, or cancel the run."
            )
            definition = None
        elif record.services_of and record.services_of not in REGISTRY.apps:
            record.advice = f"Run the cell that defines the app {record.services_of!r}: then this run goes on with its services."
            definition = None
        elif (record.loaded_args is None and record.args is not None) or (
            record.loaded_config is None and record.config is not None
        ):
            try:
                record.loaded_args = definition.load_args(record.args) if record.args is not None else None
                record.loaded_config = definition.load_config(record.config) if record.config is not None else None
            except LoomError as exc:
                record.advice = f"The arguments of this run do not fit {record.workflow!r} any more: {exc}"
                definition = None
        if definition is not None and record.moves and record.judged_by is not definition:
            try:  # a cell was run again with another state schema: say which fields differ, before a move meets them
                definition.check_state(record.state)
                record.judged_by = definition
            except LoomError as exc:
                record.advice = f"{exc} Run the cell again with a schema that fits it, or cancel the run."
                definition = None
        if definition is not None and definition.is_strict and record.fingerprint != definition.fingerprint and not agreed:
            record.changed = True
            record.advice = (
                f"The blueprint {record.workflow!r} was changed since this run began. run.retry(fresh=True) begins its step anew "
                "with what is defined now; or bring the old version back: then it goes on as it was."
            )
            return None
        if record.status is Status.INTERRUPTED and record.call is not None and record.call.is_lost:
            asked = record.call.asked is not None and not record.call.answered
            place = repr(record.place)
            when = (
                f"while {place} asked, and its code has no `recover` that takes an answer"
                if asked
                else f"in the middle of {place}"
            )
            record.notice = (
                f"Its kernel died {when}. run.retry() makes the step again, and does not repeat what "
                "is on record of it; run.retry(fresh=True) begins it anew with the State it had."
            )
        return definition
