"""The rows of an agent store in memory: tool calls, runs and what was used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from loomnb.agents.results import STOPPED
from loomnb.agents.rows import RunRow, RunStatus, outcome_of, used_tokens, was_decided
from loomnb.agents.spi import Actor, Thread, ToolCallRow, UsageRow
from loomnb.errors import InvalidRequest, NotFound
from loomnb.ids import Source
from loomnb.jsonvalue import freeze

__all__ = ["MemoryRows", "StoredCall", "check_changes"]

Place = tuple[str, str | None, str]
"""Thread, run, call: the ids of calls come from models, and some number them anew in every turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCall:
    """A row, with when it was written and when it was changed last."""

    row: ToolCallRow
    recorded_at: datetime
    updated_at: datetime


@dataclass(kw_only=True)
class StoredThread:
    """A thread as it is kept. `order`: the later changed, the higher; two changes in one moment of a still clock have one."""

    thread: Thread
    deleted: bool = False
    order: int = 0


@dataclass
class MemoryRows:
    """What `InMemoryAgentStore` keeps beside threads and messages. Not for use by itself."""

    source: Source
    _threads: dict[str, StoredThread] = field(default_factory=dict[str, StoredThread], init=False)
    _calls: dict[Place, StoredCall] = field(default_factory=dict[Place, StoredCall], init=False)
    _latest: dict[str, Place] = field(default_factory=dict[str, Place], init=False)
    _of_thread: dict[str, dict[Place, None]] = field(default_factory=dict[str, dict[Place, None]], init=False)
    _usage: list[UsageRow] = field(default_factory=list[UsageRow], init=False)
    _runs: dict[str, RunRow] = field(default_factory=dict[str, RunRow], init=False)

    # -- tool calls --

    async def record_tool_call(self, row: ToolCallRow) -> None:
        """Write a row; one of the same call, run and thread is replaced.

        Raises:
            NotFound: its thread is not there, or was deleted.
            NotJson: it holds something that JSON cannot hold.
        """
        self._live(row.thread_id)
        kept = ToolCallRow.from_json(freeze(row.to_json()))
        place = (row.thread_id, row.run_id, row.id)
        now = self.source.now()
        before = self._calls.get(place)
        self._calls[place] = StoredCall(row=kept, recorded_at=before.recorded_at if before else now, updated_at=now)
        self._latest[row.id] = place
        self._of_thread.setdefault(row.thread_id, {})[place] = None

    async def update_tool_call(self, tool_call_id: str, changes: Mapping[str, Any]) -> None:
        """Change the row of a call: names of `ToolCallRow` → values. Where several calls have this id, the latest is meant.

        Raises:
            NotFound: there is no row of this id.
            InvalidRequest: a name is no column, or one that never changes (`id`, `thread_id`).
            NotJson: a value is something that JSON cannot hold.
        """
        place, _ = self._call(tool_call_id)
        self._change_call(place, changes)

    async def update_call_of_run(self, thread_id: str, run_id: str | None, tool_call_id: str, changes: Mapping[str, Any]) -> bool:
        """Change the row of a call that a run made, whichever other call has its id: some servers count ids from nought.

        Args:
            thread_id: the thread that has the call.
            run_id: the run; None: it is not known, and the latest of this thread is meant.
            tool_call_id: the call.
            changes: as for `update_tool_call`.

        Returns:
            Whether there is such a row.

        Raises:
            InvalidRequest, NotJson: as `update_tool_call`.
        """
        place = self._place_of(thread_id, run_id, tool_call_id)
        if place is None:
            return False
        self._change_call(place, changes)
        return True

    def _place_of(self, thread_id: str, run_id: str | None, tool_call_id: str) -> Place | None:
        if run_id is not None:
            place = (thread_id, run_id, tool_call_id)
            return place if place in self._calls else None
        return next((place for place in reversed(self._of_thread.get(thread_id, {})) if place[2] == tool_call_id), None)

    def _change_call(self, place: Place, changes: Mapping[str, Any]) -> None:
        stored = self._calls[place]
        check_changes("tool call", changes, {one.name for one in fields(ToolCallRow)} - {"id", "thread_id"})
        row = replace(stored.row, **{name: freeze(value) for name, value in changes.items()})
        self._calls[place] = replace(stored, row=row, updated_at=self.source.now())

    async def owner_of_tool_call(self, tool_call_id: str) -> str | None:
        """On whose behalf it was called; None: there is none, or its thread was deleted."""
        row = self._row(tool_call_id)
        return None if row is None else self._owner(row.thread_id)

    async def run_for_tool_call(self, tool_call_id: str) -> str | None:
        """Which run waits for it: the one on the row, else the one that its thread streams."""
        row = self._row(tool_call_id)
        if row is None:
            return None
        return row.run_id or self._threads[row.thread_id].thread.active_stream

    async def tool_call_outcomes(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """How far calls came, by id (see `outcome_of`); ids without a row are left out."""
        return {id_: outcome_of(row) for id_ in ids if (row := self._row(id_)) is not None}

    async def outcomes_of_run(self, thread_id: str, run_id: str | None, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The same of calls that one run made, whichever other calls have their ids.

        Args:
            thread_id: the thread that has the calls: the run's own, or a fork of it.
            run_id: the run; None: of any run in this thread.
            ids: of the calls.
        """
        rows = self.tool_calls(thread_id)
        origin = await self.thread_of_run(run_id) if run_id is not None else None
        if origin is not None and origin != thread_id:
            rows = (*self.tool_calls(origin), *rows)
        theirs = {row.id: row for row in rows if run_id is None or row.run_id in (run_id, None)}
        return {id_: outcome_of(theirs[id_]) for id_ in ids if id_ in theirs}

    async def fail_unsettled_tool_calls(self, run_id: str, error: str) -> int:
        """Mark the calls of a run that still wait for somebody as failed; how many there were. One that somebody agreed to had
        begun: it is told so, and not by `error`."""
        waiting = [
            (place, stored)
            for place, stored in self._calls.items()
            if stored.row.run_id == run_id and stored.row.status == "pending_approval"
        ]
        for place, stored in waiting:
            row = replace(stored.row, status="failed", error=STOPPED if was_decided(stored.row) else error)
            self._calls[place] = replace(stored, row=row, updated_at=self.source.now())
        return len(waiting)

    async def remembered_approvals(self, thread_id: str) -> tuple[str, ...]:
        """Names of the tools that were approved in this thread for all later calls, in the order they were."""
        names = [row.tool_name for row in self._rows_of(thread_id) if row.remember and row.status in ("executed", "failed")]
        return tuple(dict.fromkeys(names))

    async def tool_call_approval(self, tool_call_id: str) -> dict[str, Any] | None:
        """What is needed to judge whether somebody may decide: `{"threadId", "runId", "toolName", "status", "approver",
        "expiresAt", "requesterRef"}`; None: there is no such call, or its thread was deleted."""
        row = self._row(tool_call_id)
        owner = None if row is None else self._owner(row.thread_id)
        if row is None or owner is None:
            return None
        return {
            "threadId": row.thread_id,
            "runId": await self.run_for_tool_call(tool_call_id),
            "toolName": row.tool_name,
            "status": row.status,
            "approver": row.approver,
            "expiresAt": row.expires_at,
            "requesterRef": owner,
        }

    async def tool_call_input(self, tool_call_id: str) -> Any:
        """What it was called with; None: there is no such call."""
        row = self._row(tool_call_id)
        return None if row is None else row.input

    # -- usage --

    async def record_usage(self, row: UsageRow) -> None:
        """Write what a call of a model used. Without a time it is now.

        Raises:
            NotJson: it holds something that JSON cannot hold.
        """
        freeze(row.to_json())
        self._usage.append(replace(row, usage=dict(row.usage), at=row.at or self.source.now().isoformat()))

    async def quota_today(self, actor: Actor, day: str) -> dict[str, float]:
        """`{"usedTokens", "costUsd"}` of one UTC day, `YYYY-MM-DD`; the cost is what providers reported, and 0 if none did.

        Raises:
            InvalidRequest: it is no such day.
        """
        try:
            start = datetime.combine(date.fromisoformat(day), time(), UTC)
        except ValueError:
            raise InvalidRequest(f"{day!r} is no day.", advice="Write it as YYYY-MM-DD.") from None
        used = await self.usage_between(actor, start, start + timedelta(days=1))
        return {"usedTokens": used["usedTokens"], "costUsd": used["costUsd"]}

    async def usage_between(self, actor: Actor, start: datetime, end: datetime) -> dict[str, Any]:
        """What somebody used from a moment on until before another.

        Returns:
            `usedTokens`, `costUsd` (as far as providers reported it), and `unreported`: model → tokens of the calls for which
            no cost was reported, so that they can be priced.
        """
        tokens, cost = 0, 0.0
        unreported: dict[str, dict[str, int]] = {}
        for row in self._usage:
            if row.actor_ref != actor.id or not start <= datetime.fromisoformat(row.at or "") < end:
                continue
            tokens += used_tokens(row.usage)
            if row.cost_usd is not None:
                cost += row.cost_usd
                continue
            if not {"inputTokens", "outputTokens"} <= row.usage.keys():
                continue  # its cost is unknown, row by row, and so it is in the sum
            sums = unreported.setdefault(row.model_id, {})
            for name, number in row.usage.items():
                sums[name] = sums.get(name, 0) + number
        return {"usedTokens": tokens, "costUsd": cost, "unreported": unreported}

    # -- runs --

    async def record_run_start(
        self,
        *,
        run_id: str,
        thread_id: str,
        actor_ref: str,
        agent_name: str | None = None,
        parent_run_id: str | None = None,
        prompt_hash: str | None = None,
    ) -> None:
        """Write that a run goes on. One that is known keeps when it began and how often it was retried."""
        before = self._runs.get(run_id)
        self._runs[run_id] = RunRow(
            run_id=run_id,
            thread_id=thread_id,
            actor_ref=actor_ref,
            agent_name=agent_name,
            parent_run_id=parent_run_id,
            prompt_hash=prompt_hash,
            retries=before.retries if before else 0,
            started_at=before.started_at if before else self.source.now().isoformat(),
        )

    async def record_run_end(
        self,
        run_id: str,
        *,
        status: RunStatus,
        error_code: str | None = None,
        error_message: str | None = None,
        duration_ms: float | None = None,
    ) -> None:
        """Write how a run ended. An unknown run, and one that ended already, stay as they are.

        Args:
            run_id: the run.
            status: `completed`, `failed` or `cancelled`.
            error_code: of a failed run.
            error_message: of a failed run.
            duration_ms: how long it took; None: since it began.
        """
        row = self._runs.get(run_id)
        if row is None or row.status != "running":
            return
        now = self.source.now()
        if duration_ms is None and row.started_at is not None:
            duration_ms = (now - datetime.fromisoformat(row.started_at)).total_seconds() * 1000
        failed = status == "failed"
        self._runs[run_id] = replace(
            row,
            status=status,
            error_code=error_code if failed else None,
            error_message=error_message if failed else None,
            ended_at=now.isoformat(),
            duration_ms=duration_ms,
        )

    async def bump_run_retries(self, run_id: str) -> None:
        """Count one more time that a run was taken up again; an unknown run stays unknown."""
        if (row := self._runs.get(run_id)) is not None:
            self._runs[run_id] = replace(row, retries=row.retries + 1)

    async def thread_of_run(self, run_id: str) -> str | None:
        """In which thread a run was; None: it is unknown."""
        row = self._runs.get(run_id)
        return None if row is None else row.thread_id

    # -- for those who look --

    def tool_calls(self, thread_id: str | None = None) -> tuple[ToolCallRow, ...]:
        """The rows of tool calls, in the order they were recorded; of one thread, or all."""
        return tuple(stored.row for stored in self._calls.values() if thread_id in (None, stored.row.thread_id))

    def stored_calls(self) -> tuple[StoredCall, ...]:
        """The same, with their times."""
        return tuple(self._calls.values())

    def usage_rows(self) -> tuple[UsageRow, ...]:
        """What calls of models used, in the order it was recorded."""
        return tuple(self._usage)

    def runs(self) -> tuple[RunRow, ...]:
        """The runs, in the order they began."""
        return tuple(self._runs.values())

    # -- within --

    def _live(self, thread_id: str) -> StoredThread:
        stored = self._threads.get(thread_id)
        if stored is None or stored.deleted:
            raise NotFound(f"There is no thread {thread_id!r}.", advice="It may have been deleted.")
        return stored

    def _owner(self, thread_id: str) -> str | None:
        stored = self._threads.get(thread_id)
        return None if stored is None or stored.deleted else stored.thread.actor_ref

    def _row(self, tool_call_id: str) -> ToolCallRow | None:
        place = self._latest.get(tool_call_id)
        return None if place is None else self._calls[place].row

    def _call(self, tool_call_id: str) -> tuple[Place, StoredCall]:
        place = self._latest.get(tool_call_id)
        if place is None:
            raise NotFound(f"There is no tool call {tool_call_id!r}.")
        return place, self._calls[place]

    def _rows_of(self, thread_id: str) -> list[ToolCallRow]:
        return [self._calls[place].row for place in self._of_thread.get(thread_id, ())]


def check_changes(what: str, changes: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse a change of something that is not there, or that never changes.

    Raises:
        InvalidRequest: a name is none of those allowed.
    """
    wrong = sorted(set(changes) - set(allowed))
    if wrong:
        raise InvalidRequest(
            f"A {what} has nothing named {', '.join(wrong)} that could be changed.",
            advice=f"It has {', '.join(sorted(allowed))}.",
        )
