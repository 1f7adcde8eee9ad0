"""Limits on what a library reads with httpx2: of an answer, and of each line of a stream of events."""

import httpx2
import pytest

from agent.core.httpx_limits import limited_to
from tests.fakes.piecewise import Piecewise, serving

MOST = 1_000


@pytest.mark.parametrize(
    ("body", "content_type", "whole"),
    [
        pytest.param(b"x" * MOST, "application/json", True, id="at the limit"),
        pytest.param(b"x" * (MOST + 1), "application/json", False, id="above it"),
        pytest.param(b"data: x\n\n" * MOST, "text/event-stream; charset=utf-8", True, id="many events"),
        pytest.param(b"data: x\n\n" + b"x" * 4 * MOST, "text/event-stream", False, id="an event without end"),
    ],
)
async def test_an_answer_is_read_up_to_its_limit(body: bytes, content_type: str, whole: bool) -> None:
    async with (
        serving(Piecewise(body=body, content_type=content_type, pieces=8)) as server,
        httpx2.AsyncClient() as http,
    ):
        http.event_hooks["response"].append(limited_to(MOST))
        if whole:
            assert (await http.get(server.url)).content == body
        else:
            with pytest.raises(httpx2.ReadError, match="more than 1000 bytes came"):
                await http.get(server.url)
