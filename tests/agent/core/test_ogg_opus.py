"""Ogg Opus: whole or not, how long, and the outline that a player draws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.ogg_opus import NotOpus, OpusSound, read_opus
from tests.doubles.llm_api import ogg_opus

WHOLE = ogg_opus(130)


def test_packets_of_twenty_milliseconds_add_up() -> None:
    sound = read_opus(WHOLE)
    assert sound.seconds == pytest.approx(2.6)
    assert len(sound.packets) == 130
    assert sound.packets[:3] == (40, 77, 114)


@given(st.integers(min_value=0, max_value=len(WHOLE) - 1))
def test_a_file_that_is_cut_anywhere_is_not_whole_unless_a_page_ends_there(cut: int) -> None:
    try:
        shorter = read_opus(WHOLE[:cut])
    except NotOpus:
        return
    assert shorter.seconds in (pytest.approx(1.0), pytest.approx(2.0))  # the pages hold fifty packets


@given(st.binary(max_size=400))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(NotOpus):
        read_opus(b"OggS" + data if len(data) % 2 else data)


@pytest.mark.parametrize(
    ("packets", "points", "outline"),
    [
        pytest.param((10, 20, 30, 40), 2, bytes([128, 255]), id="the loudest of each step counts"),
        pytest.param((10, 20), 256, bytes([128, 255]), id="no more steps than packets"),
        pytest.param((), 256, b"", id="nothing"),
    ],
)
def test_outline(packets: tuple[int, ...], points: int, outline: bytes) -> None:
    assert OpusSound(1.0, packets).outline(points) == outline
