"""A web server on loopback that takes requests, refuses them, answers slowly, or too much, or with a way elsewhere."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gateway.web.server import serve
from tests.fakes.running import running


@dataclass
class WebhookServer:
    """`status` is the answer from now on, after those of `first`; `after` is its `Retry-After`. None while `is_slow`.

    `taken` are bodies with their headers, `refused` those that were not taken.
    """

    url: str
    status: int = 200
    is_slow: bool = False
    first: list[int] = field(default_factory=list)
    after: str = ""
    taken: list[tuple[bytes, Mapping[str, str]]] = field(default_factory=list)
    refused: list[tuple[bytes, Mapping[str, str]]] = field(default_factory=list)
    asked: int = 0

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/hook/{secret}", self._take, methods=["POST"])])

    async def _take(self, request: Request) -> Response:
        self.asked += 1
        body = await request.body()
        while self.is_slow:  # noqa: ASYNC110 - the test ends it
            await anyio.sleep(0.01)
        status = self.first.pop(0) if self.first else self.status
        (self.taken if status < 300 else self.refused).append((body, dict(request.headers)))
        if status in (301, 307):
            return RedirectResponse(f"{self.url}/hook/elsewhere", status_code=status)
        headers = {"retry-after": self.after} if self.after else {}
        return Response("no" * 100_000 if status == 500 else "", status_code=status, headers=headers)


@asynccontextmanager
async def webhook_server() -> AsyncIterator[WebhookServer]:
    """One that listens."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = WebhookServer(url=f"http://127.0.0.1:{listening.getsockname()[1]}")
    async with running(lambda: serve(server.app(), listening, anyio.Event())):
        yield server
