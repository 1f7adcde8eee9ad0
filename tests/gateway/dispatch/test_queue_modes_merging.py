"""Texts in quick succession are one piece of work; nothing else is ever merged (G-13)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.ids import ConversationId, PersonId
from agent.core.messages import FilePart
from agent.inbox import Incoming
from agent.storage.inbox_rows import InboxRow
from gateway.dispatch.queue_modes import LONGEST, choose

START = datetime(2026, 1, 1, tzinfo=UTC)
WITHIN = timedelta(milliseconds=500)
PICTURE = FilePart(path="a", mime_type="image/png", name="a", size=1)


def said(text: str, at_ms: int, **more: Any) -> Incoming:
    incoming = Incoming(
        text=text,
        person=PersonId("telegram:1"),
        message_ref=text,
        received_at=START + timedelta(milliseconds=at_ms),
    )
    return replace(incoming, **more)


def rows(*incoming: Incoming, attempts: int = 0, kind: str = "message") -> list[InboxRow]:
    return [
        InboxRow(
            id=number,
            conversation=ConversationId("telegram:1"),
            kind=kind,  # type: ignore[arg-type] # one of the three
            incoming=one,
            attempts=attempts,
            not_before=None,
            created_at=0,
        )
        for number, one in enumerate(incoming, 1)
    ]


def test_nothing_to_do_is_no_choice() -> None:
    assert choose([], within=WITHIN) is None


@pytest.mark.requirement("G-13")
@pytest.mark.parametrize(
    ("second", "merged"),
    [
        pytest.param(said("b", 100), True, id="100 ms apart"),
        pytest.param(said("b", 499), True, id="just within"),
        pytest.param(said("b", 500), False, id="500 ms apart"),
        pytest.param(said("b", 100, files=(PICTURE,)), False, id="with a picture"),
        pytest.param(said("b", 100, person=PersonId("telegram:2")), False, id="of another person"),
        pytest.param(said("b", 100, role="admin"), False, id="with another role"),
        pytest.param(said("/stop", 100), False, id="a command"),
        pytest.param(said("b", 100, interaction="x"), False, id="an interaction"),
        pytest.param(said("b", 100, quoted="z"), False, id="a reply to something"),
        pytest.param(said("b" * LONGEST, 100), False, id="too long together"),
    ],
)
def test_a_second_text_is_merged_when_it_belongs_to_the_first(second: Incoming, merged: bool) -> None:
    choice = choose(rows(said("a", 0), second), within=WITHIN)
    assert choice is not None
    assert (choice.row.id, choice.absorbed) == (1, (2,) if merged else ())
    assert choice.incoming.text == ("a\nb" if merged else "a")
    assert choice.incoming.message_ref == ("b" if merged else "a")
    assert choice.incoming.received_at == START


@pytest.mark.requirement("G-13")
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(said("a", 0, files=(PICTURE,)), id="a picture"),
        pytest.param(said("/new", 0), id="a command"),
        pytest.param(said("a", 0, interaction="x"), id="an interaction"),
    ],
)
def test_nothing_is_merged_into_what_stands_alone(first: Incoming) -> None:
    choice = choose(rows(first, said("b", 100)), within=WITHIN)
    assert choice is not None
    assert choice.absorbed == ()


@pytest.mark.requirement("G-13")
def test_each_is_compared_with_the_one_before_it() -> None:
    choice = choose(rows(*(said(word, 400 * number) for number, word in enumerate("abcd"))), within=WITHIN)
    assert choice is not None
    assert (choice.incoming.text, choice.absorbed) == ("a\nb\nc\nd", (2, 3, 4))


@pytest.mark.requirement("B-65", "G-13")
@pytest.mark.parametrize(
    "between",
    [
        pytest.param(said("b", 100, files=(PICTURE,)), id="a picture"),
        pytest.param(said("/status", 100), id="a command"),
        pytest.param(said("b", 100, person=PersonId("telegram:2")), id="somebody else's words"),
    ],
)
def test_no_text_overtakes_what_stands_alone(between: Incoming) -> None:
    left, order = rows(said("a", 0), between, said("c", 200), said("d", 300)), list[str]()
    while (choice := choose(left, within=WITHIN)) is not None:
        order.append(choice.incoming.text)
        left = [row for row in left if row.id not in (choice.row.id, *choice.absorbed)]
    assert order == ["a", between.text, "c\nd"]


def test_a_run_that_was_begun_keeps_its_words() -> None:
    first, second = rows(said("a", 0), said("b", 100))
    for attempts in ((1, 0), (0, 1), (1, 1)):
        pair = [replace(first, attempts=attempts[0]), replace(second, attempts=attempts[1])]
        choice = choose(pair, within=WITHIN)
        assert choice is not None
        assert choice.incoming == first.incoming


@pytest.mark.parametrize("kind", ["reminder", "system"])
def test_only_messages_are_merged(kind: str) -> None:
    choice = choose(rows(said("a", 0), said("b", 100), kind=kind), within=WITHIN)
    assert choice is not None
    assert choice.absorbed == ()


@given(st.lists(st.tuples(st.integers(0, 1500), st.booleans(), st.sampled_from("ab")), min_size=1, max_size=10))
def test_whatever_comes_every_word_is_worked_on_once_and_in_order(shapes: list[tuple[int, bool, str]]) -> None:
    at = 0
    incoming = []
    for number, (gap, has_file, person) in enumerate(shapes):
        at += gap
        files = (PICTURE,) if has_file else ()
        incoming.append(said(f"w{number}", at, files=files, person=PersonId(person)))
    left, words = rows(*incoming), list[str]()
    while (choice := choose(left, within=WITHIN)) is not None:
        words += choice.incoming.text.split("\n")
        left = [row for row in left if row.id != choice.row.id and row.id not in choice.absorbed]
    assert words == [f"w{number}" for number in range(len(shapes))]
