"""A limit on HTTP answers that a library reads with httpx2. Imported together with that library alone."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2


class _Bounded(httpx2.AsyncByteStream):
    """The bytes of an answer, up to a limit: of all of it, or of each line where it goes on for ever."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int, *, by_line: bool) -> None:
        self._stream = stream
        self._most = most
        self._by_line = by_line

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for piece in self._stream:
            line_end = piece.rfind(b"\n") if self._by_line else -1
            seen = len(piece) - line_end - 1 if line_end >= 0 else seen + len(piece)
            if seen > self._most:
                raise httpx2.ReadError(f"more than {self._most} bytes came")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def limited_to(most: int) -> Callable[[httpx2.Response], Awaitable[None]]:
    """A response hook: whoever reads an answer of more than `most` bytes, packed as it comes, gets a ReadError."""

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        by_line = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Bounded(response.stream, most, by_line=by_line)

    return bound
