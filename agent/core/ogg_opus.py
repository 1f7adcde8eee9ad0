"""Ogg Opus as messengers record it: whether a file is whole, how long it plays, and the outline of its loudness. Pure.

Nothing is decoded. Opus spends more bytes on louder and denser sound, so the sizes of its packets draw the outline.
Sources: RFC 3533 (pages of Ogg), RFC 7845 (Opus in Ogg).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

RATE = 48_000  # the clock of positions, whatever was recorded
_PAGE = struct.Struct("<4sBBqIIIB")  # sign, version, flags, position, serial, number, checksum, count of segments
_CONTINUED = 0x01  # flag: the first segment ends a packet of the page before
_NOWHERE = -1  # position of a page on which no packet ends
_HEADERS = 2  # packets before the sound


class NotOpus(ValueError):
    """The bytes are no Ogg Opus, or not all of it."""


@dataclass(frozen=True, slots=True)
class OpusSound:
    """Content of a file: how long it plays, and the size in bytes of each packet of sound."""

    seconds: float
    packets: tuple[int, ...]

    def outline(self, points: int) -> bytes:
        """The loudness over time in so many steps at most, each 0 to 255."""
        count = min(points, len(self.packets))
        loudest = max(self.packets, default=0)
        if not loudest:
            return b""
        cuts = [round(number * len(self.packets) / count) for number in range(count + 1)]
        steps = (self.packets[begin:end] for begin, end in pairwise(cuts))
        return bytes(round(255 * max(step) / loudest) for step in steps)


def read_opus(data: bytes) -> OpusSound:
    """Raises NotOpus for anything but one whole stream."""
    packets: list[int] = []
    last = pending = skipped = 0
    for number, (flags, position, lengths, body) in enumerate(_pages(data)):
        if not number:
            if not body.startswith(b"OpusHead") or len(body) < 12:
                raise NotOpus("the first page is no head of Opus")
            skipped = int.from_bytes(body[10:12], "little")
        if not flags & _CONTINUED:
            pending = 0
        for length in lengths:
            pending += length
            if length < 255:
                packets.append(pending)
                pending = 0
        if position != _NOWHERE:
            last = position
    if pending or len(packets) <= _HEADERS:
        raise NotOpus("the sound is cut off")
    return OpusSound(max(0, last - skipped) / RATE, tuple(packets[_HEADERS:]))


def _pages(data: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Flags, position, lengths of segments and body of each page."""
    at = 0
    while at < len(data):
        try:
            sign, version, flags, position, _, _, _, count = _PAGE.unpack_from(data, at)
        except struct.error:
            raise NotOpus("the last page is cut off") from None
        if sign != b"OggS" or version:
            raise NotOpus("a page does not begin where it should")
        begin = at + _PAGE.size
        lengths = data[begin : begin + count]
        body_at, at = begin + count, begin + count + sum(lengths)
        if len(lengths) < count or at > len(data):
            raise NotOpus("the last page is cut off")
        yield flags, position, lengths, data[body_at:at]
