"""A server on loopback that sends its answer in pieces with pauses between them, as any real line does."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from aiohttp import web

PAUSE_S = 0.025  # each piece is a read of its own


@dataclass(kw_only=True)
class Piecewise:
    """Answers every request with `body`. `cut_after`: the connection is cut after so many bytes."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: int = 4
    chunked: bool = False
    cut_after: int | None = None
    url: str = ""
    sent: int = 0
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.asked.append(request.path)
        response = web.StreamResponse(status=self.status, headers={"content-type": self.content_type, **self.headers})
        if self.chunked:
            response.enable_chunked_encoding()
        else:
            response.content_length = len(self.body)
        await response.prepare(request)
        size = max(1, -(-len(self.body) // self.pieces))
        for begin in range(0, len(self.body), size):
            if self.cut_after is not None and begin >= self.cut_after:
                assert request.transport is not None
                request.transport.close()
                return response
            await response.write(self.body[begin : begin + size])
            self.sent += size
            await anyio.sleep(PAUSE_S)
        return response


@asynccontextmanager
async def serving(server: Piecewise) -> AsyncIterator[Piecewise]:
    """Serve until the block ends; `server.url` is where."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
