"""Long texts go to a thread, short ones stay; of a long one only the beginning is read where no more is kept."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.untrusted_text import LONG_TEXT, LONGEST_SECRET, beginning_of, whole, worked_on


@pytest.mark.parametrize(("length", "stays"), [(LONG_TEXT, True), (LONG_TEXT + 1, False)])
async def test_where_the_work_is_done(length: int, stays: bool) -> None:
    here = threading.get_ident()
    there = await worked_on("a" * length, lambda text: (threading.get_ident(), len(text)))
    assert (there[0] == here, there[1]) == (stays, length)


def test_what_is_kept_of_a_long_text_holds_no_part_of_a_secret() -> None:
    secret = "s" * LONGEST_SECRET
    read: list[int] = []

    def redact(text: str) -> str:
        read.append(len(text))
        return text.replace(secret, "[redacted]")

    for before in (0, 10, 50, 4_000, 4_090, 8_000):
        kept = beginning_of("a" * before + secret * 3 + "b" * 100_000, 100, redact)
        assert "s" * 20 not in kept
        assert ("a" * before + "[redacted]" * 3 + "b" * 100).startswith(kept)
    assert max(read) < 10_000
    assert beginning_of("short " + secret, 100, redact) == "short [redacted]"


@given(st.lists(st.sampled_from(["\ud83d", "\ude00", "\udbff", "\udc00", "a", "\U0001f600"]), max_size=12))
def test_halves_of_emoji_are_joined_as_the_codec_does_it(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert whole(text) == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
