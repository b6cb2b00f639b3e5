"""A real HTTP server on this machine that speaks the protocols of model services, and says what a script tells it.

For tests of what stands on a model: the vendor's own library talks to it over a socket, so that streams, cut connections, rate
limits and broken answers are the real thing. No model is behind it.

    with ProtocolServer(["Hello.", Reply(status=429, headers={"retry-after": "1"})]) as server:
        model = VendorModel("anthropic:claude-opus-5-5", api_key="test", base_url=server.root)
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self

from loomnb.testing.protocol_wire import Reply, body_of, events_of

__all__ = ["ProtocolServer", "ReceivedRequest"]

_PROTOCOLS = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
_POLL = 0.02
"""Seconds between two looks at whether a client that is kept waiting is still there."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """What a client sent.

    Attributes:
        path: without the query.
        headers: names in lower case.
        body: parsed; empty when there was none.
    """

    path: str
    headers: Mapping[str, str]
    body: Any


Replies = Sequence["Reply | str"] | Callable[[ReceivedRequest], "Reply | str"]


class ProtocolServer:
    """Answers `POST …/chat/completions` and `…/responses` (OpenAI), `…/messages` (Anthropic) and `GET …/models`.

    It listens on a free port of 127.0.0.1 from `with` on, until its end.

    Args:
        replies: the answers in order, a text for `Reply(text=…)`; or a function of the request. When there are no more, it
            answers with 500, and `unexpected` counts that.
        models: the names that `GET …/models` lists.
        listing: what it answers there instead.

    Attributes:
        requests: the POSTs it was sent, in order.
        arrived: set when the first request came.
        gone: set when a client left while it was being answered.
        unexpected: how many requests came after the last reply.
    """

    def __init__(
        self, replies: Replies = (), *, models: Sequence[str] = ("scripted-model",), listing: Reply | None = None
    ) -> None:
        self._replies = replies
        self.models = tuple(models)
        self.listing = listing
        self.requests: list[ReceivedRequest] = []
        self.arrived = threading.Event()
        self.gone = threading.Event()
        self.unexpected = 0
        self._guard = threading.Lock()
        self._http: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        outer = self

        class Handler(_Handler):
            server_of: ClassVar[ProtocolServer] = outer

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(_POLL,), name="protocol-server", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        assert self._http is not None
        assert self._thread is not None
        self._ended.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def root(self) -> str:
        """Its address, as Anthropic's library wants it: `http://127.0.0.1:<port>`."""
        assert self._http is not None, "It listens inside `with` only."
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        """Its address, as OpenAI's library wants it: with `/v1`."""
        return f"{self.root}/v1"

    def take(self, request: ReceivedRequest) -> Reply:
        """Put a request on record, and say what is to be answered."""
        with self._guard:
            self.requests.append(request)
            number = len(self.requests) - 1
        self.arrived.set()
        if callable(self._replies):
            said: Reply | str = self._replies(request)
        elif number < len(self._replies):
            said = self._replies[number]
        else:
            self.unexpected += 1
            said = Reply(status=500, message=f"The script has nothing for request number {number + 1}.")
        return Reply(text=said) if isinstance(said, str) else said

    def hold(self, reply: Reply, client: socket.socket) -> bool:
        """Wait as a reply says; whether the client is still there."""
        assert reply.hold is not None
        while not reply.hold.wait(_POLL):
            if self._ended.is_set() or _has_left(client):
                return False
        return True


def _has_left(client: socket.socket) -> bool:
    """Whether the other side closed the connection: it can be read, and nothing is there."""
    try:
        readable, _, _ = select.select([client], [], [], 0)
        return bool(readable) and client.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


class _Handler(BaseHTTPRequestHandler):
    server_of: ClassVar[ProtocolServer]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the library's word
        """Say nothing: a request's headers carry a key."""

    def do_GET(self) -> None:  # the library's name
        """The list of models."""
        if (told := self.server_of.listing) is not None:
            body = told.body if told.body is not None else json.dumps(body_of("chat", told, ""))
            self._whole(told.status, body, headers=told.headers)
            return
        models = [{"id": name, "object": "model", "created": 1, "owned_by": "nobody"} for name in self.server_of.models]
        self._whole(200, json.dumps({"object": "list", "data": models}))

    def do_POST(self) -> None:  # the library's name
        """An answer of the script."""
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        body: dict[str, Any] = json.loads(raw) if raw else {}
        reply = self.server_of.take(ReceivedRequest(path, {k.lower(): v for k, v in self.headers.items()}, body))
        protocol = next((name for end, name in _PROTOCOLS.items() if path.endswith(end)), None)
        if protocol is None:
            self._whole(404, json.dumps({"error": {"message": f"Nothing is at {path}."}}))
            return
        streams = bool(body.get("stream")) and reply.status < 400
        try:
            if reply.body is not None:
                self._whole(reply.status, reply.body, reply.content_type, reply.headers)
            elif streams:
                self._stream(protocol, reply, str(body.get("model", "")))
            elif reply.hold is None or self.server_of.hold(reply, self.connection):
                self._whole(reply.status, json.dumps(body_of(protocol, reply, str(body.get("model", "")))), headers=reply.headers)
            else:
                self._leave()
        except OSError:  # the client left
            self._leave()

    def _whole(self, status: int, text: str, kind: str = "application/json", headers: Mapping[str, str] | None = None) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, protocol: str, reply: Reply, model: str) -> None:
        self.send_response(reply.status)
        for name, value in {"content-type": "text/event-stream", "transfer-encoding": "chunked", **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for number, (name, data) in enumerate(events_of(protocol, reply, model)):
            if reply.hold is not None and number == reply.hold_at and not self.server_of.hold(reply, self.connection):
                self._leave()
                return
            if number == reply.cut_after:
                self._cut()
                return
            self._chunk((f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n")
        if protocol == "chat":
            self._chunk("data: [DONE]\n\n")
        self._chunk("")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _cut(self) -> None:
        """End the connection in the middle of what was promised."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _leave(self) -> None:
        self.close_connection = True
        self.server_of.gone.set()
