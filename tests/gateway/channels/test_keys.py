"""Names of places: what a platform's own ids may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.channels.keys import ConversationKey, parts_of, place_id

ROOM = "!room:server.org:8448"


@pytest.mark.requirement("Z-06")
def test_a_colon_of_the_platform_makes_no_thread() -> None:
    assert ConversationKey("matrix", place_id(ROOM)).around is None
    thread = ConversationKey("matrix", place_id(ROOM, "$event:server.org"))
    assert thread.around == ConversationKey("matrix", place_id(ROOM))
    assert ConversationKey.parse(str(thread)) == thread


@given(parts=st.lists(st.text(), min_size=1, max_size=3))
def test_the_platforms_ids_come_back(parts: list[str]) -> None:
    assert parts_of(place_id(*parts)) == tuple(parts)


@pytest.mark.parametrize("shipped", [("-1005", "7"), ("T0TEAM", "C0GENERAL", "1767268000.000100")])
def test_ids_of_the_shipped_platforms_are_as_they_were(shipped: tuple[str, ...]) -> None:
    """They stand in databases."""
    assert place_id(*shipped) == ":".join(shipped)
