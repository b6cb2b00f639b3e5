"""The connection to a server: every request is checked where it leaves, whatever the SDK was told to follow.

The SDK turns what happens over HTTP into errors of its protocol and loses the status, or only logs it. So this is also where a
request's fate is noted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loomnb.agents.mcp.errors import McpSecurityError, McpTransportError, classified, for_status
from loomnb.agents.mcp.security import Resolver, UrlRules, check_url, checked_addresses, without_query

if TYPE_CHECKING:
    import httpx2

__all__ = ["Watch", "http_client"]


@dataclass(slots=True)
class Watch:
    """What happened to the requests of one session.

    Attributes:
        where: the server, for messages.
        strict: any failed request ends the session, because the SDK would wait for its answer for ever.
        failure: what ended it.
        status: how the last message was answered, where that was a failure.
        over: the session is at its end, and nothing more is sent.
    """

    where: str
    strict: bool = False
    failure: BaseException | None = None
    status: int | None = None
    over: bool = False
    failed: asyncio.Event = field(default_factory=asyncio.Event)

    def fail(self, error: BaseException) -> None:
        """End the session; the first reason counts. On its loop."""
        if self.failure is None:
            self.failure = error
        self.failed.set()

    def answered(self, request: httpx2.Request, response: httpx2.Response) -> None:
        """Note how a request was answered."""
        if response.has_redirect_location:
            to = request.url.join(response.headers["location"])
            if (to.scheme, to.host, to.port) != (request.url.scheme, request.url.host, request.url.port):
                self.fail(
                    McpSecurityError(
                        f"{self.where} sends its callers on to {without_query(str(to))}, which is not followed.",
                        advice="Use that address, if it is the server you mean.",
                    )
                )
        if response.status_code in (401, 403) and (self.strict or request.method == "POST"):
            self.fail(for_status(self.where, response.status_code))
        elif request.method == "POST":
            self.status = response.status_code if response.status_code >= 400 else None
            if self.strict and self.status is not None:
                self.fail(for_status(self.where, self.status))


@dataclass(frozen=True, slots=True)
class _Gate:
    rules: UrlRules
    watch: Watch
    lookup: Resolver

    async def pass_on(self, request: httpx2.Request, inner: httpx2.AsyncBaseTransport) -> httpx2.Response:
        import httpx2  # noqa: PLC0415  # optional: it comes with the SDK

        if self.watch.over:  # the SDK's good-bye must not hold up somebody who has waited long enough
            return httpx2.Response(204)
        try:
            host, port = check_url(str(request.url), self.rules)
            response = await self._sent(request, host, port, inner)
            self.watch.answered(request, response)
        except McpSecurityError as exc:
            self.watch.fail(exc)
            raise
        except Exception as exc:
            if request.method == "POST" or isinstance(exc, McpTransportError):
                self.watch.fail(classified(self.watch.where, exc))
            raise
        return response

    async def _sent(self, request: httpx2.Request, host: str, port: int, inner: httpx2.AsyncBaseTransport) -> httpx2.Response:
        import httpx2  # noqa: PLC0415  # optional

        if self.rules.allow_private_hosts:
            return await inner.handle_async_request(request)
        *others, last = await checked_addresses(host, port, self.lookup)
        for address in others:
            try:
                return await inner.handle_async_request(_at(request, host, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await inner.handle_async_request(_at(request, host, last))


def _at(request: httpx2.Request, host: str, address: str) -> httpx2.Request:
    """The same request to an address that was checked; the certificate is still judged by the name."""
    import httpx2  # noqa: PLC0415  # optional

    if host == address:
        return request
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )


def http_client(
    rules: UrlRules,
    headers: Mapping[str, str],
    watch: Watch,
    *,
    lookup: Resolver,
    timeout: float,
    inner: httpx2.AsyncBaseTransport | None = None,
) -> httpx2.AsyncClient:
    """An HTTP client that reaches only what the rules allow, and tells the watch.

    Args:
        rules: judged for every request, redirects too.
        headers: of every request.
        watch: of the session.
        lookup: resolves names; not asked where private addresses are allowed.
        timeout: seconds for each step of a request.
        inner: what connects in the end; None: the client's own.
    """
    import httpx2  # noqa: PLC0415  # optional

    gate = _Gate(rules, watch, lookup)
    connects = inner if inner is not None else httpx2.AsyncHTTPTransport()

    class Guarded(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return await gate.pass_on(request, connects)

        async def aclose(self) -> None:
            await connects.aclose()

    # No proxy of the environment: it would look the name up again, and reach what it likes.
    return httpx2.AsyncClient(headers=dict(headers), transport=Guarded(), timeout=timeout, trust_env=False)
