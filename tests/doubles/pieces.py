"""Answers as a network brings them: a body in several flights, which its reader gets one by one."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from aiohttp import web

SMALL = 1024
PAUSE_S = 0.001  # enough for the reader to take each flight by itself


def flights(body: bytes) -> list[bytes]:
    """The body in unequal pieces, cut without regard for characters: two of what is small, four of the rest."""
    if len(body) < 2:
        return [body]
    third = max(len(body) // 3, 1)
    cuts = [0, third, len(body)] if len(body) <= SMALL else [0, 1, third, len(body) - 1, len(body)]
    return [body[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]


async def in_pieces(
    request: web.Request,
    body: bytes,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
    chunked: bool = False,
    whole: bool = False,
) -> web.StreamResponse:
    """Send the answer. `chunked`: the reader is not told how long it will be. `whole`: in one flight after all."""
    answer = web.StreamResponse(status=status, headers=dict(headers or {}))
    answer.content_type = content_type
    if chunked:
        answer.enable_chunked_encoding()
    else:
        answer.content_length = len(body)
    with suppress(ConnectionError):  # the reader has gone; what was asked for is done all the same
        await answer.prepare(request)
        for number, piece in enumerate([body] if whole else flights(body)):
            if number:
                await asyncio.sleep(PAUSE_S)
            await answer.write(piece)
        await answer.write_eof()
    return answer
