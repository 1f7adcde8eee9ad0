"""Network bodies, read to their end within a limit: a single read gives only what has come by then."""

from collections.abc import AsyncIterable


class BodyTooLarge(Exception):
    """There is more of the body than is taken."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} bytes came")
        self.most = most


async def whole_body(pieces: AsyncIterable[bytes], most: int) -> bytes:
    """All of a body, in whatever pieces it comes. Raises BodyTooLarge as soon as there are more than `most` bytes."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > most:
            raise BodyTooLarge(most)
    return bytes(body)


async def beginning_of(pieces: AsyncIterable[bytes], most: int) -> bytes:
    """The first `most` bytes of a body, for a message that may be cut; the rest is not read."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) >= most:
            break
    return bytes(body[:most])
