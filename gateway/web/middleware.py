"""The outermost layer of the web server: wrong hosts, huge or endless bodies, headers every answer carries."""

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.config.sections import WebSettings
from gateway.web.request_checks import SECURITY_HEADERS, host_allowed

FILES = ("/static/", "/dashboard/static/")
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})  # probes call us by whatever address they know
BODY_WITHIN_S = 120.0
SLOWEST_PER_S = 16 * 1024  # bytes: an upload over a slow line has more time

SMALL_BODY = 1 << 20  # bytes; more is for uploads alone
HEARD_OUT = 4  # times the limit


class Doorway:
    """Middleware. `hosts` are the names we go by; below `upload_paths` (may grow) a body may be large."""

    def __init__(
        self,
        app: ASGIApp,
        settings: WebSettings,
        hosts: frozenset[str],
        upload_paths: Sequence[str],
        *,
        body_within_s: float = BODY_WITHIN_S,
    ) -> None:
        self._app = app
        self._settings = settings
        self._hosts = hosts
        self._upload_paths = upload_paths
        self._body_within_s = body_within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing here speaks anything else; uvicorn refuses what is not answered
        headers = Headers(scope=scope)
        answer = _Answer(send, secure=scope["scheme"] == "https", cacheable=scope["path"].startswith(FILES))
        host = headers.get("host", "")
        if scope["path"] not in HEALTH_PATHS and not host_allowed(host, self._settings, self._hosts):
            refusal = PlainTextResponse(
                f"This server does not go by the name {host[:200]!r}. If it should, add the name to allowed_hosts, or "
                "set public_url, in section [web].\n",
                status_code=421,
            )
            await refusal(scope, receive, answer.send)
            return
        scope.setdefault("state", {})["most_upload"] = self._settings.max_upload_mb << 20  # bytes; pages tell it
        large = scope["path"].startswith(tuple(self._upload_paths))
        limit = self._settings.max_upload_mb << 20 if large else SMALL_BODY
        body = _Body(receive, limit=limit, announced=headers.get("content-length"), within_s=self._body_within_s)
        await self._app(scope, body.receive, answer.send)


class PersonHeader:
    """Outermost, where the peer is still whoever has connected: notes whom a trusted proxy names as signed in.

    The person's id is in `request.state.named_by_proxy`. From anybody else the header is nothing, nor is one that came
    twice: the proxy may have added its own to a visitor's.
    """

    def __init__(self, app: ASGIApp, settings: WebSettings) -> None:
        self._app = app
        self._name = settings.person_header
        self._people = settings.header_people
        self._trusted = [ip_network(proxy, strict=False) for proxy in settings.trusted_proxies]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_trusted(scope):
            named = Headers(scope=scope).getlist(self._name)
            if len(named) == 1:
                said = named[0].strip()
                person = self._people.get(said) if self._people else said
                if person:
                    scope.setdefault("state", {})["named_by_proxy"] = person
        await self._app(scope, receive, send)

    def _is_trusted(self, scope: Scope) -> bool:
        try:
            peer = ip_address(scope["client"][0])
        except (TypeError, ValueError):
            return False
        return any(peer in network for network in self._trusted)


class _Answer:
    """Adds the headers."""

    def __init__(self, send: Send, *, secure: bool, cacheable: bool) -> None:
        self._send = send
        self._secure = secure
        self._cacheable = cacheable

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-cache" if self._cacheable else "no-store")
            if self._secure:
                headers.setdefault("strict-transport-security", "max-age=31536000")
        await self._send(message)


class _Body:
    """Counts what comes in. A body must be there within two minutes (`within_s`), and a second more for each 16 KiB.

    The time runs from the first piece on, so that one who sends a byte at a time holds no connection for ever.
    """

    def __init__(self, receive: Receive, *, limit: int, announced: str | None, within_s: float) -> None:
        self._receive = receive
        self._limit = limit
        self._announced = int(announced) if announced and announced.isdigit() else 0
        self._seen = 0
        self._whole = False
        self._within_s = within_s
        self._began_at: float | None = None

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        message = await self._next()
        if self._seen > self._limit:
            # A client hears the refusal only once it has sent everything; beyond a point that is its own trouble.
            while not self._whole and max(self._seen, self._announced) <= HEARD_OUT * self._limit:
                await self._next()
            raise self._too_large()
        return message

    async def _next(self) -> Message:
        now = anyio.current_time()
        if self._began_at is None:
            self._began_at = now
        ends_at = self._began_at + self._within_s + self._seen / SLOWEST_PER_S
        try:
            with anyio.fail_after(max(0.0, ends_at - now)):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "the body did not come in time") from None
        self._seen += len(message.get("body", b""))
        self._whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"too large; at most {self._limit >> 20} MB", headers={"connection": "close"})
