"""What the views of a conversation are told, and what they may say: no widget here, only messages.

A view says what it has seen (`hello`, with a stamp) and is told the rest; in between, what changes is pushed at most ten times a
second. A push says from which stamp on it tells, so that a view that missed one asks at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loomnb.agents import ChatMessage, MessageState, ToolCallRow, decode_stream_event, reduce_frames, streams_of
from loomnb.errors import LoomError, Refused, StoreClosed
from loomnb.runtime import FINISHED, RunRecord, Status
from loomnb.studio import UNNAMED, AgentRun, Chat, named
from loomnb_widgets.answers import answer_from_form
from loomnb_widgets.chat_items import Transcript, Turn, used_text
from loomnb_widgets.feed import Feed
from loomnb_widgets.views import closed_text, head_view, link_of, refusal

__all__ = ["ChatFeed"]

_PUSH_EVERY = 0.1  # seconds: an envelope is 600 bytes, so tokens are batched
_SHOWN, _MORE = 60, 100
_AGAIN = 0.25  # seconds after which a stream that ended while its run goes on is looked for again
_FILE_MOST, _FILES_MOST = 5_000_000, 7_000_000
"""Bytes of one file, and of all of a message: a socket of Jupyter takes ten million characters at once."""
_BUSY = (Status.PENDING, Status.RUNNING, Status.RETRYING, Status.WAITING)
_SILENCE = {Status.COMPLETED: "Nothing was said.", Status.CANCELED: "Stopped before anything was said."}
"""Where a turn failed, the error says it."""

Say = Callable[[dict[str, Any]], None]
_Action = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]


class ChatFeed:
    """A conversation's messages to its views.

    Args:
        chat: the conversation.
        say: sends a message to every view, from any thread.
        pushed: called after each push, with the head if that changed.
    """

    def __init__(self, chat: Chat, say: Say, pushed: Callable[[Mapping[str, Any] | None], None] = lambda _: None) -> None:
        self.chat = chat
        self._runtime = chat.session.runtime
        self._say: Say = say
        self._pushed = pushed
        self._guard = threading.RLock()
        self._items = Transcript(chat.presentation, _SHOWN)
        self._record: RunRecord | None = None
        self._state: MessageState | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[str, Any] | None = None
        self._queued: dict[str, Any] | None = None
        self._model: str | None = None
        self._links: dict[str, RunRecord] = {}
        self._feeds: dict[str, Feed] = {}
        self._watched: set[str] = set()
        self._pushing = False
        self._last_push = 0.0
        self._sent_stamp = 0
        self._known: tuple[Sequence[ChatMessage], Mapping[str, ToolCallRow], Turn] = ((), {}, Turn())
        self._usage: tuple[int, str] = (-1, "")
        self._asking: tuple[frozenset[str], list[dict[str, str]]] = (frozenset(), [])
        self._head_rev = 1
        self._closed = False
        self._opened = False  # who says may be half made until then, and a turn that is under way moves at once
        self._actions: Mapping[str, _Action] = {
            "answer": self._answer,
            "send": self._send,
            "stop": lambda _: chat.stop(),
            "cancel": lambda _: chat.stop(),
            "retry": self._retry,
            "edit": self._edit,
            "fork": self._fork,
            "feedback": lambda said: chat.feedback(str(said.get("message")), said.get("value") or None),
            "source": self._source,
            "threads": self._threads,
            "switch": lambda said: self._show(str(said.get("thread"))),
            "new": lambda _: self._show(None),
            "rename": self._rename,
            "delete": self._delete,
            "unqueue": self._unqueue,
            "send_queued": lambda _: self._send_queued(),
            "earlier": self._earlier,
            "model": self._pick,
        }
        self.head: dict[str, Any] = {}
        self._look()

    def open(self) -> None:
        """Tell the views of changes from now on."""
        self._opened = True
        self.chat.watchers.append(self.changed)
        self.changed()

    def close(self) -> None:
        """Let go of the conversation."""
        self._closed = True
        with contextlib.suppress(ValueError):
            self.chat.watchers.remove(self.changed)
        self._follow(None)
        for feed in self._feeds.values():
            feed.close()

    @property
    def record(self) -> RunRecord | None:
        """The run of the last turn."""
        return self._record

    # -- from a view: on the thread that reads, so quick -------------------------------------------

    def receive(self, content: Mapping[str, Any]) -> None:
        """A message of a view; one with `run` is for the feed of a run that a tool started."""
        run_id = content.get("run")
        if run_id is not None:
            self._runtime.workers.submit(self._for_run, str(run_id), content)
            return
        kind = content.get("type")
        if kind == "hello":
            have = content.get("have") or {}
            self._say(self._state_message(int(have.get("stamp", 0)), int(have.get("head", 0)), ack=content.get("n")))
            return
        action = self._actions.get(str(kind))
        if action is not None:
            self._runtime.workers.submit(self._act, action, content)

    def _act(self, action: _Action, content: Mapping[str, Any]) -> None:
        reply = {"n": content.get("n"), "ask": content.get("ask")}
        try:
            if self._runtime.closed:
                raise StoreClosed("The store was closed.", advice="Open it again, then show the conversation anew.")
            more = action(content)
        except Exception as exc:  # noqa: BLE001  # whatever it is, the person who did it has to see it
            self._say({"type": "refused", **reply, **refusal(exc)})
        else:
            self._say({"type": "accepted", **reply, **(more or {})})
        self.changed()

    def _for_run(self, run_id: str, content: Mapping[str, Any]) -> None:
        feed = next((f for key, f in self._feeds.items() if run_id == key or run_id.startswith(f"{key}.")), None)
        if feed is not None:
            feed.receive(content)

    def _answer(self, content: Mapping[str, Any]) -> None:
        record = self._record
        if record is None:
            raise Refused("Nothing is asked any more.")
        answer_from_form(self._runtime, record, content.get("ask"), content.get("values"))

    def _send(self, content: Mapping[str, Any]) -> dict[str, Any] | None:
        said = _said(content)
        if self._is_busy():
            with self._guard:
                if self._queued is not None:
                    raise Refused("A message waits already.", advice="Take it back first, or stop the answer.")
                self._queued = said
            return {"queued": True}
        self.chat.send(said["text"], attachments=said["files"] or None, model=said["model"])
        return None

    def _is_busy(self) -> bool:
        turn = self.chat.turn
        return turn is not None and turn.status in _BUSY

    def _send_queued(self) -> None:
        with self._guard:
            said, self._queued = self._queued, None
        if said is None:
            return
        try:
            self.chat.send(said["text"], attachments=said["files"] or None, model=said["model"])
        except LoomError as exc:
            with self._guard:
                self._queued = {**said, "error": exc.message}
        self.changed()

    def _unqueue(self, content: Mapping[str, Any]) -> dict[str, Any]:
        with self._guard:
            said, self._queued = self._queued, None
        return {"text": said["text"] if said is not None else ""}

    def _threads(self, content: Mapping[str, Any]) -> dict[str, Any]:
        search = str(content.get("search") or "").strip() or None
        return {"threads": self.chat.agent.threads(search, limit=100).entries, "here": self.chat.thread_id}

    def _show(self, thread: str | None) -> None:
        self.chat.show(thread)
        with self._guard:
            self._queued, self._waiting, self._state = None, None, None
            self._items.most = _SHOWN
            self._items.forget()

    def _fork(self, content: Mapping[str, Any]) -> None:
        self._show(self.chat.fork(str(content.get("message"))).thread_id)

    def _delete(self, content: Mapping[str, Any]) -> None:
        thread = str(content.get("thread") or self.chat.thread_id)
        (self.chat if thread == self.chat.thread_id else self.chat.agent.chat(thread)).delete()
        if thread == self.chat.thread_id:
            self._show(None)

    def _rename(self, content: Mapping[str, Any]) -> None:
        title = str(content.get("title") or "").strip()
        if not title:
            raise Refused("A conversation needs a name.")
        thread = str(content.get("thread") or self.chat.thread_id)
        (self.chat if thread == self.chat.thread_id else self.chat.agent.chat(thread)).rename(title[:200])

    def _source(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """What was said, as it was written: what is copied."""
        return {"text": next((m.content for m in self.chat.messages if m.id == content.get("message")), "")}

    def _earlier(self, _: Mapping[str, Any]) -> None:
        with self._guard:
            self._items.most += _MORE

    def _retry(self, _: Mapping[str, Any]) -> None:
        self.chat.retry()

    def _edit(self, content: Mapping[str, Any]) -> None:
        self.chat.edit(str(content.get("message")), str(content.get("text") or ""))

    def _pick(self, content: Mapping[str, Any]) -> None:
        self._model = str(content.get("model") or "") or None

    # -- the turn -----------------------------------------------------------------------------------

    def _follow(self, turn: AgentRun | None) -> None:
        """Watch the run of the last turn, and read its stream."""
        record = turn.record if turn is not None else None
        if record is not self._record:
            if self._record is not None:
                with contextlib.suppress(ValueError):
                    self._record.watchers.remove(self._moved)
            self._record, self._state, self._waiting = record, None, None
            self._stop_reading()
            if record is not None and not self._closed:
                record.watchers.append(self._moved)
        if record is not None and not self._closed and record.host is not None and record.view.status not in FINISHED:
            record.host.post(self._read_soon, record)

    def _stop_reading(self) -> None:
        task, self._reading = self._reading, None
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)

    def _moved(self, _: str) -> None:
        """The run has news. On any thread."""
        record = self._record
        if record is not None and record.view.status is Status.COMPLETED and self._queued is not None:
            self._runtime.workers.submit(self._send_queued)
        self.changed()

    def _read_soon(self, record: RunRecord) -> None:
        """On the run's loop."""
        if self._reading is None and record is self._record and not self._closed:
            self._reading = asyncio.get_running_loop().create_task(self._read(record))

    async def _read(self, record: RunRecord) -> None:
        state = MessageState()
        try:
            async for line in streams_of().subscribe(record.id):
                with self._guard:
                    if record is not self._record:
                        return
                    event = decode_stream_event(line) or {}
                    if event.get("kind") == "waiting":
                        number = self._waiting["number"] + 1 if self._waiting else 1
                        self._waiting = {"seconds": event.get("seconds"), "reason": event.get("reason", ""), "number": number}
                    else:
                        self._waiting = None
                    self._state = state = reduce_frames(state, event)
                self.changed()
        finally:
            if self._reading is asyncio.current_task():
                self._reading = None
            self._waiting = None
        if record is self._record and record.view.status not in FINISHED and record.host is not None:
            record.host.loop.call_later(_AGAIN, self._read_soon, record)

    # -- to the views -------------------------------------------------------------------------------

    def changed(self, *_: Any) -> None:
        """Something changed: push soon, and once for many changes. On any thread."""
        if self._pushing or self._closed or not self._opened:
            return
        self._pushing = True
        host = self._record.host if self._record is not None else None
        if host is None or self._runtime.closed:  # with the store its loop is gone
            self._runtime.workers.submit(self._push)
            return
        wait = max(0.02, _PUSH_EVERY - (time.monotonic() - self._last_push))
        host.post(lambda: host.loop.call_later(wait, self._push))

    def _push(self) -> None:
        self._pushing = False
        self._last_push = time.monotonic()
        with self._guard:
            known = self._head_rev
            message = self._state_message(self._sent_stamp, known)
            self._sent_stamp = message["stamp"]
        if message.keys() & {"items", "order", "head", "closed"}:
            self._say(message)
        self._pushed(self.small_head() if self._head_rev != known else None)

    def _look(self) -> None:
        """What there is now; of a store that is closed, what there was. Within the guard."""
        if self._runtime.closed:
            self._look_back()
            return
        try:
            self._look_now()
        except Exception:
            if not self._runtime.closed:  # a reader is interrupted where the store is closed while it reads
                raise
            self._look_back()

    def _look_back(self) -> None:
        """What was on its way when the store was closed is lost; what waited for somebody still waits."""
        messages, rows, turn = self._known
        record = self._record
        if turn.is_open and record is not None and record.view.status is not Status.WAITING:
            self._known = messages, rows, replace(turn, is_open=False, is_lost=True)
            self._items.update(*self._known)

    def _look_now(self) -> None:
        turn = self.chat.turn
        self._follow(turn)
        record = self._record
        status = record.view.status if record is not None else None
        is_open = status is not None and status not in FINISHED
        about = Turn(
            run_id=record.id if record is not None else "",
            is_open=is_open,
            state=self._state,
            is_lost=status in (Status.CANCELED, Status.FAILED),
            silence=_SILENCE.get(status, "") if status is not None else "",
            link=self._link,
        )
        self._items.presentation = self.chat.presentation
        self._known = self.chat.messages, self.chat.rows(), about
        self._items.update(*self._known)
        fresh = self._head(turn)
        if fresh != self.head:
            self._head_rev += 1
            self.head = fresh

    def _state_message(self, stamp: int, head: int, ack: Any = None) -> dict[str, Any]:
        with self._guard:
            self._look()
            message: dict[str, Any] = {"type": "state", "since": stamp, "stamp": self._items.stamp, "head_rev": self._head_rev}
            message |= self._items.since(stamp)
            if head != self._head_rev:
                message["head"] = self.head
        host = self._record.host if self._record is not None else None
        message["warn"] = host.blocked if host is not None else ""
        if self._runtime.closed:
            message["closed"] = closed_text(f'agent.chat("{self.chat.thread_id}")')
        if ack is not None:
            message["ack"] = ack
        return message

    def _say_nested(self, message: dict[str, Any]) -> None:
        """For a run that a tool started. What is dropped is asked for by the first hello of its view."""
        if self._opened:
            self._say(message)

    def small_head(self) -> dict[str, Any]:
        """What a view begins with that is drawn before the first message."""
        return {name: self.head[name] for name in ("kind", "title", "agent", "thread_id")}

    def _head(self, turn: AgentRun | None) -> dict[str, Any]:
        chat = self.chat
        messages = chat.messages
        title = named(chat.title, next((m.content for m in messages if m.role == "user"), ""))
        run = head_view(turn.record) if turn is not None and turn.status not in (Status.COMPLETED, Status.CANCELED) else None
        last = messages[-1] if messages else None
        is_unanswered = run is None and last is not None and last.role == "user" and chat.has_agent
        models = list(chat.agent.models) if chat.has_agent else []
        head: dict[str, Any] = {
            "kind": "chat",
            "title": title if title != UNNAMED else chat.agent_title,
            "agent": chat.agent_title,
            "thread_id": chat.thread_id,
            "count": len(messages),
            "elsewhere": self._elsewhere() if not messages and turn is None and chat.has_agent else [],
            "earlier": self._items.earlier,
            "status": run["status"] if run else "",
            "status_text": _status_text(run),
            "asks": run["asks"] if run else [],
            "error": run["error"] if run else None,
            "notice": run["notice"] if run else "",
            "can_stop": bool(run and run["can_cancel"]),
            "can_retry": run["can_retry"] if run else is_unanswered,
            "retry_text": "Answer" if is_unanswered else "Try again" if run and run["status"] == "failed" else "Go on",
            "can_say": chat.has_agent,
            "why_not": "" if chat.has_agent else f"{chat.agent_title} is not known in this kernel: run the cell that makes it.",
            "models": models,
            "model": self._model if self._model in models else "",
            "suggestions": list(last.follow_ups or ()) if last is not None and run is None else [],
            "used": self._used(messages),
            "waiting": self._waiting,
            "queued": None,
            "limits": {"file": _FILE_MOST, "files": _FILES_MOST},
        }
        queued = self._queued
        if queued is not None:
            names = [one["name"] for one in queued["files"]]
            head["queued"] = {"text": queued["text"], "files": names, "error": queued.get("error", ""), "is_due": run is None}
        return head

    def _elsewhere(self) -> list[dict[str, str]]:
        """The agent's other conversations that wait for somebody, for a panel in which nothing was said: after a restart, the
        cell that made the last one begins a new one."""
        asking = frozenset(
            str(record.args.get("thread"))
            for record in self._runtime.live()
            if record.view.asks and isinstance(record.args, Mapping) and record.args.get("thread") != self.chat.thread_id
        )
        if asking != self._asking[0]:
            told = self.chat.agent.threads(limit=100).entries if asking else []
            kept = [{"threadId": str(one["threadId"]), "title": str(one["title"])} for one in told if one["threadId"] in asking]
            self._asking = asking, kept
        return self._asking[1]

    def _used(self, messages: Any) -> str:
        count = sum(m.role == "assistant" for m in messages)
        if count != self._usage[0]:
            used = self.chat.usage() if count else {"inputTokens": None, "outputTokens": None, "costUsd": None}
            self._usage = count, used_text(used["inputTokens"], used["outputTokens"], used["costUsd"])
        return self._usage[1]

    def _link(self, call_id: str) -> dict[str, Any] | None:
        """A card that leads to the run which a call started: found by the key that it has from the call."""
        record = self._record
        child = self._links.get(call_id)
        if child is None and record is not None:
            key = f"{record.id}:{call_id}"
            child = next((one for one in self._runtime.live() if one.key == key), None)
            if child is not None:
                self._links[call_id] = child
                feed = self._feeds[child.id] = Feed(child, self._runtime, self._say_nested, nested=True)
                feed.open()
                child.watchers.append(self._moved)
        return link_of(child, expanded=True)["link"] if child is not None else None


def _said(content: Mapping[str, Any]) -> dict[str, Any]:
    """A message of the composer, checked.

    Raises:
        Refused: it is blank, or its files are none or too large.
    """
    text, files = content.get("text"), content.get("files") or []
    if not isinstance(text, str) or not isinstance(files, list):
        raise Refused("This is no message.")
    kept = []
    for one in files:
        if not isinstance(one, Mapping) or not all(isinstance(one.get(key), str) for key in ("name", "mediaType", "data")):
            raise Refused("This is no file.")
        if len(one["data"]) * 3 / 4 > _FILE_MOST + 3:
            raise Refused(f"{one['name']} is too large: {_FILE_MOST // 1_000_000} MB at the most.")
        kept.append({key: one[key] for key in ("name", "mediaType", "data")})
    if not text.strip() and not kept:
        raise Refused("Nothing was said.")
    return {"text": text, "files": kept, "model": str(content.get("model") or "") or None}


def _status_text(run: Mapping[str, Any] | None) -> str:
    if run is None:
        return ""
    if run["asks"]:
        return "waiting for you"
    words = {"running": "answering", "pending": "about to answer"}
    return words.get(run["status"], str(run["status_text"]))
