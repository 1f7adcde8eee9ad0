"""Flood limit, loop guard, pairing codes, and what `/why` remembers."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.policy import (
    ALPHABET,
    CONVERSATIONS,
    LENGTH,
    PER_CONVERSATION,
    Decisions,
    Flood,
    Take,
    Unanswered,
    bot_loop_guard,
    code_from,
    digest,
    normalised,
)


def test_a_flood_is_refused_and_told_once_until_it_ebbs() -> None:
    flood = Flood(per_s=1 / 3, burst=20)
    assert [flood.take("ann", 0.0) for _ in range(20)] == [Take.TAKEN] * 20
    assert [flood.take("ann", 0.0) for _ in range(3)] == [Take.REFUSED_FIRST, Take.REFUSED, Take.REFUSED]
    assert flood.take("bob", 0.0) is Take.TAKEN
    assert flood.take("ann", 3.1) is Take.TAKEN
    assert flood.take("ann", 3.1) is Take.REFUSED_FIRST


def test_memory_of_floods_is_bounded() -> None:
    flood = Flood(per_s=1, burst=1, most=2)
    for key in ("a", "b", "c"):
        flood.take(key, 0.0)
    assert flood.take("c", 0.0) is Take.REFUSED_FIRST
    assert flood.take("a", 0.0) is Take.TAKEN  # forgotten, so it starts full


@pytest.mark.requirement("G-12")
def test_two_bots_cannot_talk_for_ever() -> None:
    guard = bot_loop_guard()
    answered = sum(guard.take("c", second * 1.0) is Take.TAKEN for second in range(600))
    assert 30 <= answered <= 60


@given(st.binary(min_size=LENGTH, max_size=64))
def test_codes_are_readable_and_typed_as_people_type(entropy: bytes) -> None:
    code = code_from(entropy)
    assert len(code) == LENGTH
    assert set(code) <= set(ALPHABET)
    assert normalised(f" {code[:4].lower()}-{code[4:]}") == code
    assert digest(code.lower()) == digest(code)
    assert code not in digest(code)


def test_why_remembers_the_newest_few() -> None:
    decisions = Decisions()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(PER_CONVERSATION + 1):
        decisions.note("telegram:1", Unanswered(message_id=str(number), person="telegram:9", why="no mention", at=at))
    assert [kept.message_id for kept in decisions.of("telegram:1")] == ["5", "4", "3", "2", "1"]
    for number in range(CONVERSATIONS):
        decisions.note(f"slack:{number}", Unanswered(message_id="1", person="p", why="w", at=at))
    assert decisions.of("telegram:1") == ()
