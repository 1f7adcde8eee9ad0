"""A body is read to its end, in whatever pieces it comes, and never beyond its limit."""

from collections.abc import AsyncIterator, Sequence

import pytest

from agent.core.bounded_body import BodyTooLarge, beginning_of, whole_body


class Line:
    """A body in pieces; `taken` of them were asked for."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            self.taken += 1
            yield piece


@pytest.mark.parametrize("pieces", [[], [b""], [b"a", b"", b"b"], [b"ab"], [b"a", b"b", b"c"]])
async def test_all_pieces_are_read(pieces: list[bytes]) -> None:
    assert await whole_body(Line(pieces), 3) == b"".join(pieces)


async def test_the_limit_is_inclusive_and_nothing_is_read_behind_it() -> None:
    line = Line([b"abc", b"d", b"e"])
    with pytest.raises(BodyTooLarge, match="more than 3 bytes came"):
        await whole_body(line, 3)
    assert line.taken == 2


@pytest.mark.parametrize(
    ("pieces", "given", "taken"),
    [([b"a", b"b"], b"ab", 2), ([b"ab", b"cd", b"ef"], b"abc", 2), ([b"abc", b"d"], b"abc", 1)],
)
async def test_a_beginning_is_all_or_the_first_bytes(pieces: list[bytes], given: bytes, taken: int) -> None:
    line = Line(pieces)
    assert (await beginning_of(line, 3), line.taken) == (given, taken)
