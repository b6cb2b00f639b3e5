"""A run in memory, and the way to and from its journal rows. No loop and no thread here: the rules of what a row means.

Two faces. The *working* fields belong to whoever moves the run. The *view* is what everybody else may see: it is replaced,
whole, when a commit has been acknowledged, and never before.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from loomnb.asks import Ask
from loomnb.documents import DocumentEntity, Shelf
from loomnb.ids import Source
from loomnb.jsonvalue import FrozenDict, apply, dumps, freeze, loads
from loomnb.names import notebook_name
from loomnb.runtime.calls import CallRecord
from loomnb.runtime.definition import START, Envelope
from loomnb.runtime.failure import Failure
from loomnb.runtime.lifecycle import FINISHED, Status

if TYPE_CHECKING:
    import asyncio

    from loomnb.runtime.attempt import Attempt
    from loomnb.runtime.host import Host

__all__ = ["APP", "LOCAL_USER", "NOTEBOOK_APP", "Due", "Payload", "Progress", "RunRecord", "RunView", "WaitingFor", "row"]

APP: contextvars.ContextVar[str] = contextvars.ContextVar("loom_app", default="")
"""The app whose services the code at work in this context gets; empty for none."""

WaitingFor = Literal["person", "child"]
_LOG_KEPT = 1_000_000

LOCAL_USER, NOTEBOOK_APP = "local", "notebook"
"""Whose and which app's a run is that nobody says more of."""


class Progress(NamedTuple):
    """How far a run is, where its moves say so: `37 of 1,000`."""

    done: int
    total: int

    def __str__(self) -> str:
        return f"{self.done:,} of {self.total:,}"


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as everybody may see it: as of its last acknowledged commit."""

    status: Status = Status.PENDING
    waiting_for: WaitingFor | None = None
    place: str = START
    state: Any = field(default_factory=FrozenDict)
    result: Any = None
    moves: int = 0
    failure: Failure | None = None
    has_error: bool = False
    retry_count: int = 0
    asks: tuple[Ask, ...] = ()
    progress: Progress | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Payload:
    """An answer on its way into a wait transition. Kept with a failed move, so that a retry replays it."""

    name: str
    data: Any
    source: str = ""
    envelope: Envelope | None = None
    """Of a child's callback; None when a person, code or a script answered."""
    token: str = ""
    """Which ending of which child it tells; each is taken once."""

    def to_json(self) -> dict[str, Any]:
        """Its JSON."""
        out: dict[str, Any] = {"name": self.name, "source": self.source, "payload": self.data}
        if self.envelope is not None:
            e = self.envelope
            out["callback"] = {"token": self.token, "workflow_id": e.workflow_id, "status": e.status}
            out["callback"] |= {"error_message": e.error_message} if e.error_message is not None else {}
            out["callback"] |= {"meta": e.meta} if e.meta is not None else {}
        return out

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Payload:
        """The payload of its JSON."""
        envelope, token = None, ""
        if "callback" in data:
            back = dict(data["callback"])
            token = back.pop("token")
            envelope = Envelope(**{**back, "meta": freeze(back.get("meta"))})
        return Payload(data["name"], freeze(data.get("payload")), data.get("source", ""), envelope, token)


@dataclass(frozen=True, slots=True)
class Due:
    """A move that is to be tried again: which, from where, with which payload, and when (None: when somebody asks)."""

    name: str
    from_: str
    payload: Payload | None
    at: datetime | None


@dataclass(eq=False)
class RunRecord:
    """A run of this process."""

    id: str
    workflow: str
    source: Source
    args: Any = None
    title: str = ""
    key: str | None = None
    labels: tuple[str, ...] = ()
    origin: str = ""
    fingerprint: str = ""
    step_limit: int = 1000
    pipelined: bool = False
    loop: str = "thread"
    user_id: str = LOCAL_USER
    app_name: str = NOTEBOOK_APP
    config: Any = None
    services_of: str = ""
    """The app whose services its bodies get, where it provides any: it has to be defined for the run to go on."""
    workspace_id: str = ""
    parent_id: str | None = None
    callback: Mapping[str, Any] | None = None
    """`{"transition", "metadata"?}`: what its end resumes in its parent."""

    # working: only whoever holds `lock`, or the pass, writes these
    status: Status = Status.PENDING
    place: str = START
    state: FrozenDict = field(default_factory=FrozenDict)
    result: Any = None
    moves: int = 0
    failure: Failure | None = None
    has_error: bool = False
    attempts: dict[str, int] = field(default_factory=dict)
    due: Due | None = None
    inbox: Payload | None = None
    call: CallRecord | None = None
    """Of a step: the execution under way, or the one that a retry takes up again."""
    shelf: Shelf = field(default_factory=Shelf)
    endings: int = 0
    """How often it has ended: completed, failed or canceled. A failed run can be retried and end again."""
    children: list[str] = field(default_factory=list[str])
    awaited: dict[str, str] = field(default_factory=dict[str, str])
    """Children whose callback has not been taken yet → the wait transition it is for."""
    taken: set[str] = field(default_factory=set[str])
    """Tokens of the callbacks that were taken."""
    callbacks: dict[str, Payload] = field(default_factory=dict[str, Payload])
    """Child → its callback, as long as it waits for a place that can take it."""
    progress: Progress | None = None

    stamped: bool = False
    """Whether its rows carry the time it shows, so that a restart shows the very same."""
    touched: datetime | None = None
    started_at: datetime | None = None

    # seen by everybody
    view: RunView = field(default_factory=RunView)
    path: list[tuple[str, str]] = field(default_factory=lambda: [(START, "")])
    documents: dict[int, tuple[int, DocumentEntity]] = field(default_factory=dict)
    """index → (stamp, entity); the stamp counts up, so that a watcher can ask for what is new."""
    answered: list[tuple[int, int, Ask, Any]] = field(default_factory=list)
    """(stamp, index of the document that was next, ask, payload) of each answer, so that it keeps its place in the story."""
    stamp: int = 0
    log_text: list[str] = field(default_factory=list)
    log_end: int = 0
    log_start: int = 0
    """Character offsets of the kept log: its beginning may have been dropped from memory; the store has it."""

    # of this process
    lock: threading.RLock = field(default_factory=threading.RLock)
    loaded_args: Any = None
    loaded_config: Any = None
    context: contextvars.Context | None = None
    host: Host | None = None
    passing: bool = False
    artifacts: Sequence[Any] | None = None
    """Of a blueprint's run: the stored artifacts it wrote, as a panel shows them; None while nobody has looked."""
    suspended: bool = False
    """Whether its pass stands still in the middle of a step, which waits for an answer."""
    changed: bool = False
    """Whether the definition known here is another version than the one it began with, and that has to be agreed to."""
    notice: str = ""
    """What a person may do about it when it does not go on by itself."""
    unwritten: bool = False
    """Whether the callback in `inbox` was taken, and the pass has still to write that down."""
    stateless: bool = False
    """Nothing of it is stored: no sub-workflow can start, and nothing is tried again later."""
    scripting: bool = False
    """Whether the script of answers has still to be asked about the open asks."""
    cancel_requested: bool = False
    restart_requested: bool = False
    """Whether a suspended step is to begin anew, with what is defined now."""
    cancel_again: bool = False
    """A cancel came while the last commit of a pass was in flight: it is made now, at the rest."""
    attempt: Attempt | None = None
    attempt_started: float = 0.0
    body: asyncio.Task[Any] | None = None
    body_done: asyncio.Future[None] | None = None
    exception: BaseException | None = None
    judged_by: object = None
    """The definition whose state schema the state was found to fit."""
    advice: str = ""
    """Why it does not go on by itself: its definition is missing or another one."""
    script_error: Exception | None = None
    unscripted: dict[str, str] = field(default_factory=dict[str, str])
    """Open ask → the key under which the script of answers lacks something for it."""
    watchers: list[Callable[[str], None]] = field(default_factory=list)

    @property
    def is_moving(self) -> bool:
        """Whether a pass is under way that waits for nobody."""
        return self.passing and not self.suspended

    def new_context(self) -> contextvars.Context:
        """A context for the run's code: a copy of the one it was started in, where that was in this process."""
        context = self.context.copy() if self.context is not None else contextvars.copy_context()
        context.run(APP.set, self.services_of)
        return context

    def __post_init__(self) -> None:
        self.known_since = self.source.monotonic()
        """When this process came to know the run, on the monotonic clock."""

    # -- telling others ---------------------------------------------------------------------------

    def log(self, text: str) -> None:
        """Add to the log, from any thread."""
        self.log_text.append(text)
        self.log_end += len(text)
        if self.log_end - self.log_start > 2 * _LOG_KEPT:
            kept = "".join(self.log_text)[-_LOG_KEPT:]
            self.log_text[:] = [kept]
            self.log_start = self.log_end - len(kept)
        self.tell("log")

    def tell(self, what: str) -> None:
        """Call the watchers. They must be quick, must not raise, and may be called on any thread."""
        for watcher in tuple(self.watchers):
            watcher(what)

    def publish(self, view: RunView, move: tuple[str, str] | None = None, saved: Sequence[DocumentEntity] = ()) -> None:
        """Show what was committed."""
        if self.inbox is not None and self.view.asks and not view.asks:
            self._note_answer(next((a for a in self.view.asks if a.name == self.inbox.name), None), self.inbox.data)
        for entity in saved:
            self.stamp += 1
            self.documents[entity.index] = (self.stamp, entity)
        if move is not None:
            self.path.append(move)
        self.view = view
        self.tell("view")

    def show_state(self) -> None:
        """Show the State that a step has written in its middle; where the run stands did not change."""
        self.view = replace(self.view, state=self.state)
        self.tell("view")

    def _note_answer(self, ask: Ask | None, payload: Any) -> None:
        if ask is not None:
            self.stamp += 1
            self.answered.append((self.stamp, max(self.documents, default=-1) + 1, ask, payload))

    def snapshot(self, asks: tuple[Ask, ...] = (), waiting_for: WaitingFor | None = None) -> RunView:
        """The view of the working fields."""
        return RunView(
            status=self.status,
            waiting_for=waiting_for,
            place=self.place,
            state=self.state,
            result=self.result,
            moves=self.moves,
            failure=self.failure,
            has_error=self.has_error,
            retry_count=self.retry_count(),
            asks=asks,
            progress=self.progress,
            updated_at=self.touched if self.stamped else self.source.now(),
        )

    def retry_count(self) -> int:
        """How often the move that failed last has failed since it last succeeded."""
        return self.attempts.get(self.due.name, 0) if self.due is not None else 0

    # -- the journal ------------------------------------------------------------------------------

    def beginning(self) -> dict[str, Any]:
        """The body of its first row."""
        body: dict[str, Any] = {"workflow": self.workflow, "title": self.title, "args": self.args, "step_limit": self.step_limit}
        body |= {"origin": self.origin, "fingerprint": self.fingerprint}
        body |= {"key": self.key} if self.key is not None else {}
        body |= {"labels": list(self.labels)} if self.labels else {}
        body |= {"config": self.config} if self.config is not None else {}
        body |= {"services_of": self.services_of} if self.services_of else {}
        body |= {"durability": "pipelined"} if self.pipelined else {}
        body |= {"notebook": notebook_name()} if notebook_name() else {}
        body |= {"parent_id": self.parent_id} if self.parent_id is not None else {}
        body |= {"callback": self.callback} if self.callback is not None else {}
        if (self.user_id, self.app_name) != (LOCAL_USER, NOTEBOOK_APP):  # else it is in the store's own workspace
            body |= {"user": self.user_id, "app": self.app_name, "workspace": self.workspace_id}
        return body | self.standing()

    def take(self, payload: Payload) -> None:
        """A callback was taken: not waited for any more, and never taken again."""
        if payload.envelope is not None:
            self.taken.add(payload.token)
            self.awaited.pop(payload.envelope.workflow_id, None)
            self.callbacks.pop(payload.envelope.workflow_id, None)

    def standing(self, *, keeps_time: bool = False) -> dict[str, Any]:
        """What every status row says; with `keeps_time`, that it stands so since the row before."""
        out: dict[str, Any] = {"place": self.place, "status": self.status.value}
        if self.stamped:
            self.touched = self.touched if keeps_time and self.touched is not None else self.source.now()
            out["at"] = self.touched.isoformat()
        if self.has_error:
            out["has_error"] = True
            if self.failure is not None:
                out["error"] = {"code": self.failure.code, "message": self.failure.message}
        return out

    def replay(self, rows: Sequence[tuple[int, datetime, str, str]]) -> None:
        """Become what these journal rows (seq, ts, kind, body), in order, say."""
        state: Any = {}
        asks: list[Ask] = []
        waiting_for: WaitingFor | None = None
        updated: datetime | None = None
        for _, ts, kind, text in rows:
            body = loads(text)
            if kind == "run.logged":
                self.log_text.append(body["text"])
                self.log_end += len(body["text"])
                continue
            if kind == "document.saved":
                entity = self._entity(body, ts)
                self.shelf.load(entity)
                self.stamp += 1
                self.documents[entity.index] = (self.stamp, entity)
                continue
            if kind == "ask.opened":
                asks.append(Ask.from_json(body, datetime.fromisoformat(body["at"]) if "at" in body else ts))
                continue
            if kind == "project.captured":
                continue
            if kind in ("step.began", "step.recorded"):
                state = self._take_step(kind, body, state)
                continue
            if kind == "run.answered":
                self._note_answer(next((a for a in asks if a.id == body.get("ask")), None), freeze(body.get("payload")))
            asks, waiting_for = [], body.get("waiting_for")
            self._take_row(kind, body)
            if "at" in body:
                self.stamped, self.touched = True, datetime.fromisoformat(body["at"])
                ts = self.touched  # noqa: PLW2901  # the time it showed, which is a moment before the writer's
            if kind == "run.started":
                self.started_at = ts
            if body.get("changes"):
                state = apply(state, body["changes"])
            if "result" in body:
                self.result = freeze(body["result"])
            self.place, self.status = body["place"], Status(body["status"])
            self.endings += self.status in FINISHED
            updated = ts
        self.state = freeze(state)
        self.shelf.keep()
        self.view = replace(self.snapshot(tuple(asks), waiting_for), updated_at=updated)

    def _take_step(self, kind: str, body: dict[str, Any], state: Any) -> Any:
        """What a row of a step under way changes; the state afterwards."""
        if kind == "step.began":
            self.begin_call(body, freeze(state))
            return state
        if self.call is not None:
            self.call.keep(body["subs"], body.get("marks", ()))
        return apply(state, body["changes"]) if body.get("changes") else state

    def begin_call(self, body: Mapping[str, Any], state: FrozenDict) -> None:
        """A step's code begins: from its beginning, with an answer, on in its middle, or once more."""
        how, last = body["how"], self.call
        if how in ("run", "recover"):
            first = last.first_state if last is not None and how == "recover" else state
            self.call = last = CallRecord(kind=how, saved=freeze(body.get("saved")), state=state, first_state=first)
        assert last is not None
        last.recoverable, last.executing = body.get("recoverable", False), True
        last.replays = body.get("replays", False)
        last.asked, last.answered = None, False
        self.inbox = None

    def _take_row(self, kind: str, body: dict[str, Any]) -> None:
        """What a status row changes beside status, place, state and result."""
        if kind == "run.started":
            self._begin(body)
        elif kind == "run.rested" and "step" in body and self.call is not None:
            self.call.keep(body.get("subs", ()))
            self.call.ask(freeze(body["step"]))
        elif kind == "run.moved":
            self.moves, self.call = body["move"], None
            self.path.append((body["place"], body.get("outcome", body["name"])))
            self.attempts.pop(body["name"], None)
            self.inbox = None
            self.progress = Progress(*body["progress"]) if "progress" in body else self.progress
            self._take_error(body)
            if not self.has_error:
                self.due = None
        elif kind == "run.broke":
            self._break(body)
        elif kind == "run.answered":
            self.inbox = Payload.from_json(body)
            if self.call is not None:
                self.call.answer(self.inbox.data)
            self.take(self.inbox)
            self.due = None
            self.has_error, self.failure = False, None
        elif kind == "run.retried":
            self.inbox = self.due.payload if self.due and self.due.from_ == body["place"] else None
            self.has_error, self.failure = False, None
            self.fingerprint = body.get("fingerprint", self.fingerprint)
            self.retry_call(fresh=body.get("fresh", False))

    def retry_call(self, *, fresh: bool) -> None:
        """The step under way is to be made again: with what is on record of it, or (`fresh`) without."""
        if fresh:
            self.call = None
        elif self.call is not None:
            self.call.executing, self.call.asked, self.call.answered = False, None, False

    def _begin(self, body: dict[str, Any]) -> None:
        self.args = freeze(body.get("args"))
        self.title, self.key = body.get("title", ""), body.get("key")
        self.labels = tuple(body.get("labels", ()))
        self.config, self.services_of = freeze(body.get("config")), body.get("services_of", "")
        self.origin, self.fingerprint = body.get("origin", ""), body.get("fingerprint", "")
        self.step_limit = body.get("step_limit", 1000)
        self.pipelined = body.get("durability") == "pipelined"
        self.parent_id, self.callback = body.get("parent_id"), freeze(body.get("callback"))
        self.user_id, self.app_name = body.get("user", LOCAL_USER), body.get("app", NOTEBOOK_APP)
        self.workspace_id = body.get("workspace", self.workspace_id)
        self.path = [(body["place"], "")]

    def _break(self, body: dict[str, Any]) -> None:
        self.has_error = True
        self.failure = Failure.from_json(body["error"])
        self.attempts = dict(body.get("attempts", {}))
        due = body.get("due")
        self.due = None
        if due is not None:
            self.due = Due(
                due["name"],
                due["from"],
                Payload.from_json(due["payload"]) if "payload" in due else None,
                datetime.fromisoformat(due["at"]) if "at" in due else None,
            )
        self.inbox = None
        if body["place"] != self.place:
            self.path.append((body["place"], body["name"]))

    def _take_error(self, body: dict[str, Any]) -> None:
        self.has_error = body.get("has_error", False)
        if not self.has_error:
            self.failure = None
        elif "error" in body and (self.failure is None or self.failure.message != body["error"]["message"]):
            self.failure = Failure.from_json(body["error"])

    def _entity(self, body: dict[str, Any], ts: datetime) -> DocumentEntity:
        return DocumentEntity(
            id=body["id"],
            key=body["key"],
            document_name=body["name"],
            content=freeze(body["content"]),
            title=body.get("title", ""),
            meta=freeze(body["meta"]) if body.get("meta") else None,
            error=body.get("error"),
            tags=tuple(body.get("tags", ())),
            internal=body.get("internal", False),
            ui=freeze(body["ui"]) if body.get("ui") else None,
            index=body["index"],
            transition=body.get("transition", ""),
            place=body.get("place", ""),
            labels=self.labels,
            workflow_id=self.id,
            workspace_id=self.workspace_id,
            created_by=self.user_id,
            created_at=ts,
        )


def row(record: RunRecord, kind: str, body: dict[str, Any]) -> tuple[str, str, str]:
    """A journal row of a run."""
    return record.id, kind, dumps(body)


def due_json(due: Due) -> dict[str, Any]:
    """The JSON of a move to be tried again."""
    out: dict[str, Any] = {"name": due.name, "from": due.from_}
    if due.payload is not None:
        out["payload"] = due.payload.to_json()
    if due.at is not None:
        out["at"] = due.at.isoformat()
    return out
