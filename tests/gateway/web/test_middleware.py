"""Bodies of requests: how large, and how slow, they may be."""

from collections.abc import AsyncIterator

import anyio
import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from gateway.config.sections import WebSettings
from gateway.web.middleware import SLOWEST_PER_S, SMALL_BODY, Doorway

HOST = "127.0.0.1:8080"


async def length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


async def posted(body: AsyncIterator[bytes] | bytes, *, body_within_s: float) -> httpx.Response:
    inner = Starlette(routes=[Route("/", length, methods=["POST"])])
    inner.add_middleware(Doorway, WebSettings(), frozenset({HOST}), (), body_within_s=body_within_s)
    transport = httpx.ASGITransport(inner)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
        return await client.post("/", content=body)


async def pieces(count: int, piece: bytes, pause_s: float) -> AsyncIterator[bytes]:
    for _ in range(count):
        await anyio.sleep(pause_s)
        yield piece


async def test_who_sends_a_byte_at_a_time_holds_no_connection_for_ever() -> None:
    with anyio.fail_after(10):
        response = await posted(pieces(100_000, b"x", 0.01), body_within_s=0.2)
    assert response.status_code == 408


async def test_a_large_upload_over_a_slow_line_has_more_time() -> None:
    response = await posted(pieces(8, bytes(SLOWEST_PER_S), 0.05), body_within_s=0.2)
    assert (response.status_code, response.text) == (200, str(8 * SLOWEST_PER_S))


async def test_a_body_above_the_limit_is_refused() -> None:
    assert (await posted(bytes(SMALL_BODY + 1), body_within_s=5)).status_code == 413
    assert (await posted(bytes(SMALL_BODY), body_within_s=5)).text == str(SMALL_BODY)


async def test_a_body_in_pieces_counts_as_a_whole() -> None:
    piece = bytes(SMALL_BODY // 4)
    assert (await posted(pieces(4, piece, 0.0), body_within_s=5)).text == str(4 * len(piece))
    assert (await posted(pieces(6, piece, 0.0), body_within_s=5)).status_code == 413
