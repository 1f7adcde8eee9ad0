"""Server-sent events: however the bytes are cut, the events are the same."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers.openai.stream import EventReader

BODY = 'event: x\ndata: {"a": "ä👩‍🚀"}\n\n: a comment\ndata: one\ndata:two\nid: 7\n\ndata: [DONE]\n\n'
EVENTS = ['{"a": "ä👩‍🚀"}', "one\ntwo", "[DONE]"]


def read(pieces: list[bytes]) -> list[str]:
    reader = EventReader()
    found = [event for piece in pieces for event in reader.feed(piece)]
    return [event.decode() for event in found + reader.finish()]


@given(st.lists(st.integers(0, len(BODY.encode())), max_size=12), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_however_the_body_is_cut_the_events_are_the_same(cuts: list[int], end: str, marked: bool) -> None:
    body = (b"\xef\xbb\xbf" if marked else b"") + BODY.replace("\n", end).encode()
    edges = sorted({0, len(body), *cuts})
    assert read([body[a:b] for a, b in pairwise(edges)]) == EVENTS


def test_an_event_is_there_as_soon_as_its_blank_line_is() -> None:
    reader = EventReader()
    assert reader.feed(b"data: one\n") == []
    assert reader.feed(b"\n") == [b"one"]


def test_a_last_event_without_its_blank_line_counts() -> None:
    assert read([b"data: one\n\ndata: [DONE]"]) == ["one", "[DONE]"]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 100, b"data: xxxxxxxxxx\n" * 10])
def test_an_event_without_end_is_refused(piece: bytes) -> None:
    with pytest.raises(ValueError, match="larger than 64 bytes"):
        EventReader(largest=64).feed(piece)
