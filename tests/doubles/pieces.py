"""Answers as a network brings them: a body in several flights, which its reader gets one by one."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from aiohttp import web

PAUSE_S = 0.001  # enough for the reader to take each flight by itself


def flights(body: bytes) -> list[bytes]:
    """The body in up to four unequal pieces, cut without regard for characters."""
    if len(body) < 2:
        return [body]
    cuts = sorted({0, 1, len(body) // 3, len(body) - 1, len(body)})
    return [body[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]


async def in_pieces(
    request: web.Request,
    body: bytes,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
    chunked: bool = False,
) -> web.StreamResponse:
    """Send the whole answer. `chunked`: the reader is not told how long it will be."""
    answer = web.StreamResponse(status=status, headers=dict(headers or {}))
    answer.content_type = content_type
    if chunked:
        answer.enable_chunked_encoding()
    else:
        answer.content_length = len(body)
    with suppress(ConnectionError):  # the reader has gone; what was asked for is done all the same
        await answer.prepare(request)
        for number, piece in enumerate(flights(body)):
            if number:
                await asyncio.sleep(PAUSE_S)
            await answer.write(piece)
        await answer.write_eof()
    return answer
