"""What a view of one run is told, and what it may say: no widget here, only messages. A sub-workflow's view is a feed inside
its parent's, so that a child can be shown, and answered, in the panel of its parent."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from loomnb.errors import LoomError
from loomnb.runtime import RunRecord, Runtime, run_graph
from loomnb_widgets.answers import answer_from_form, document_payload_of
from loomnb_widgets.views import answer_view, closed_text, document_view, head_view, link_of, refusal

__all__ = ["Feed"]

_PUSH_EVERY = 0.1  # seconds: an envelope is 600 bytes, so tokens are batched
_LOG_SHOWN = 200_000

Say = Callable[[dict[str, Any]], None]


class Feed:
    """A run's messages.

    Args:
        record: the run.
        runtime: moves it.
        say: sends a message to every view, from any thread.
        pushed: called on the run's loop after each push, with whether the head changed.
        nested: whether its view stands inside another's, so that its messages carry the run's id.
    """

    def __init__(
        self,
        record: RunRecord,
        runtime: Runtime,
        say: Say,
        pushed: Callable[[bool], None] = lambda _: None,
        *,
        nested: bool = False,
    ) -> None:
        self.record = record
        self.head = head_view(record)
        self._runtime = runtime
        self._say = say
        self._pushed = pushed
        self._nested = nested
        self._head_rev = 1
        self._sent_stamp = 0
        self._sent_log = 0
        self._pushing = False
        self._last_push = 0.0
        self._guard = threading.Lock()  # a hello is answered on the reading thread while the loop pushes
        self._children: dict[str, Feed] = {}
        self._linked: dict[str, Callable[[], None]] = {}

    def open(self) -> None:
        """Tell the view of changes from now on."""
        self.record.watchers.append(self.changed)
        self.changed("view")  # it may have moved meanwhile

    # -- from the view: on the thread that reads, so quick ----------------------------------------

    def receive(self, content: Mapping[str, Any]) -> None:
        """A message of a view; one with `run` is for the feed of that sub-workflow."""
        run_id = content.get("run")
        if run_id is not None and run_id != self.record.id:
            self._runtime.workers.submit(self._for_child, str(run_id), content)
            return
        match content.get("type"):
            case "hello":
                have = content.get("have") or {}
                self.say(self._state(have.get("stamp", 0), have.get("log", 0), have.get("head", 0), ack=content.get("n")))
            case "answer":
                self._runtime.workers.submit(self._answer, content)
            case "graph":
                self._runtime.workers.submit(self._graph)
            case "cancel":
                self._runtime.workers.submit(self._act, self._runtime.cancel)
            case "retry":
                self._runtime.workers.submit(self._act, self._runtime.retry)
            case "restart":
                self._runtime.workers.submit(self._act, lambda record: self._runtime.retry(record, fresh=True))
            case _:
                pass  # a newer view may say more than we know

    def _for_child(self, run_id: str, content: Mapping[str, Any]) -> None:
        """On a worker: finding a child may have to read the store."""
        feed = self._children.get(run_id)
        if feed is None:
            child = next(
                (c for c in self._runtime.children(self.record) if run_id == c.id or run_id.startswith(f"{c.id}.")), None
            )
            if child is None:
                return  # not a child of this run: nothing it may say anything about
            feed = self._children.setdefault(child.id, Feed(child, self._runtime, self._say, nested=True))
            feed.open()
        feed.receive(content)

    def _answer(self, content: Mapping[str, Any]) -> None:
        reply = {"n": content.get("n"), "ask": content.get("ask")}
        try:
            values, in_document = content.get("values"), content.get("doc") is not None
            if in_document:
                values = document_payload_of(self.record, content["doc"], content.get("ask"), values)
            answer_from_form(self._runtime, self.record, content.get("ask"), values, is_read=in_document)
        except Exception as exc:  # noqa: BLE001  # whatever it is, the person at the form has to see it
            self.say({"type": "refused", **reply, **refusal(exc)})
        else:
            self.say({"type": "accepted", **reply})

    def _graph(self) -> None:
        """On a worker: a picture may take a tenth of a second. It is asked for, so that the head stays small."""
        self.say({"type": "graph", "svg": run_graph(self.record).svg})

    def _act(self, action: Callable[[RunRecord], None]) -> None:
        try:
            action(self.record)
        except LoomError as exc:
            self.say({"type": "refused", "n": None, "ask": "", **refusal(exc)})

    # -- to the view ------------------------------------------------------------------------------

    def say(self, message: dict[str, Any]) -> None:
        """Send a message about this run; one that is shown inside another carries its id."""
        self._say({**message, "run": self.record.id} if self._nested else message)

    def warn(self, text: str) -> None:
        """Show a line above everything; empty takes it away."""
        self.say({"type": "state", "head_rev": self._head_rev, "stamp": self._sent_stamp, "warn": text})

    def changed(self, _: str) -> None:
        """The run changed: push soon, and once for many changes. On any thread."""
        if self._pushing:
            return
        self._pushing = True
        host = self.record.host
        if host is not None:
            wait = max(0.02, _PUSH_EVERY - (time.monotonic() - self._last_push))
            host.post(lambda: host.loop.call_later(wait, self._push))

    def _push(self) -> None:
        self._pushing = False
        self._last_push = time.monotonic()
        known = self._head_rev
        message = self._state(self._sent_stamp, self._sent_log, known)
        if len(message) > 4:  # more than type, revisions and warn
            self.say(message)
            self._sent_stamp, self._sent_log = message["stamp"], self.record.log_end
        self._pushed(self._head_rev != known)

    def _state(self, stamp: int, log: int, head: int, ack: Any = None) -> dict[str, Any]:
        record = self.record
        with self._guard:
            fresh = head_view(record)
            if _without_seconds(fresh) != _without_seconds(self.head):
                self._head_rev += 1
            self.head = fresh
            message: dict[str, Any] = {"type": "state", "head_rev": self._head_rev, "stamp": record.stamp}
        host = record.host
        message["warn"] = host.blocked if host is not None else ""
        if self._runtime.closed:
            message["closed"] = closed_text(f'loom.run("{record.id}")')
        if ack is not None:
            message["ack"] = ack
        if head != message["head_rev"]:
            message["head"] = fresh
        if record.stamp > stamp:
            changed = sorted((s, e.index, e) for s, e in tuple(record.documents.values()) if s > stamp and not e.internal)
            message["docs"] = [self._document(e, s) for s, _, e in changed]
            message["docs"] += [answer_view(*one) for one in enumerate(tuple(record.answered)) if one[1][0] > stamp]
        end = record.log_end
        if end > log:
            text = "".join(tuple(record.log_text))
            start = max(log, record.log_start, end - _LOG_SHOWN)
            message["log_from"], message["log"] = start, text[start - record.log_start :]
        return message

    # -- sub-workflows ----------------------------------------------------------------------------

    def _document(self, entity: Any, stamp: int) -> dict[str, Any]:
        view = document_view(entity, stamp)
        if entity.document_name == "link" and entity.content.get("workflowId"):
            with contextlib.suppress(LoomError):  # a link to a run of another store is only a text
                view |= self._link(entity)
        return view

    def _link(self, entity: Any) -> dict[str, Any]:
        content = entity.content
        child = self._runtime.record(content["workflowId"])
        self._watch(child, entity)
        return link_of(child, content.get("label"), embed=bool(content.get("embed")), expanded=bool(content.get("expanded")))

    def _watch(self, child: RunRecord, entity: Any) -> None:
        """A link shows how its run stands: when that changes, the document counts as changed."""
        if child.id in self._linked:
            return
        last = child.view.status

        def changed(_: str) -> None:
            nonlocal last
            status = child.view.status
            if status is not last:
                last = status
                self.record.stamp += 1
                self.record.documents[entity.index] = (self.record.stamp, entity)
                self.changed("view")

        child.watchers.append(changed)
        self._linked[child.id] = lambda: child.watchers.remove(changed)

    def close(self) -> None:
        """Let go of the run and its children."""
        with contextlib.suppress(ValueError):
            self.record.watchers.remove(self.changed)
        for release in self._linked.values():
            with contextlib.suppress(ValueError):
                release()
        for feed in self._children.values():
            feed.close()


def _without_seconds(head: Mapping[str, Any]) -> dict[str, Any]:
    """A head to compare: the seconds of its progress count up in the view by themselves."""
    progress = head.get("progress")
    return {**head, "progress": progress and progress["text"]}
